//! What `stats` tells of slots, and with `timings` of times.

use std::sync::Arc;
use std::time::Duration;

use fairlane::{JobHandle, Latency, PanicPolicy, PoolStats, TenantStats, WorkerPool};

use crate::common::*;
use crate::panics::quiet_panic;

const SHORT: Duration = Duration::from_millis(20);

#[track_caller]
fn sane(latency: Option<Latency>) -> Latency {
    let latency = latency.expect("something was measured");
    assert!(
        latency.p50 <= latency.p99 && latency.p99 <= latency.max,
        "{latency:?}"
    );
    latency
}

fn tenant(stats: &PoolStats, name: &str) -> Option<TenantStats> {
    stats
        .tenants
        .iter()
        .find(|tenant| tenant.name == name)
        .cloned()
}

scenario!(without_timings_nothing_is_measured, |flavour| {
    let pool = flavour.pool(2);
    let handle = pool.tenant("t");
    handle.submit(|| ()).unwrap().join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.wait, stats.run, stats.uptime), (None, None, None));
    assert!(stats.slots.iter().all(|slot| slot.busy.is_none()));
    assert!(
        stats
            .tenants
            .iter()
            .all(|t| t.wait.is_none() && t.run.is_none())
    );
    assert!(stats.busy_shares(None).is_empty());
    drop(handle);
    finish(pool);
});

scenario!(waits_and_runs_are_measured, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).timings(true));
    assert_eq!((pool.stats().wait, pool.stats().run), (None, None));
    let held = hold_workers(&pool, 1);
    let waits = pool.submit(|| ()).unwrap();
    std::thread::sleep(SHORT);
    held.release();
    waits.join().unwrap();
    let stats = pool.stats();
    // The held job ran for as long as the other waited.
    assert!(sane(stats.wait).max >= SHORT, "{stats:?}");
    assert!(sane(stats.run).max >= SHORT, "{stats:?}");
    for _ in 0..1_000 {
        pool.execute(|| ()).unwrap();
    }
    pool.wait_idle();
    let stats = pool.stats();
    assert!(sane(stats.run).max >= SHORT, "the longest is not forgotten");
    assert!(
        sane(stats.run).p50 < SHORT,
        "one of a thousand is not the median"
    );
    finish(pool);
});

/// Runs one job in some way.
type Way = fn(&Arc<WorkerPool>);

const WAYS: [Way; 7] = [
    |pool| pool.submit(|| ()).unwrap().join().unwrap(),
    |pool| pool.execute(|| ()).unwrap(),
    |pool| pool.job().tenant("t").execute(|| ()).unwrap(),
    |pool| pool.tenant("t").execute(|| ()).unwrap(),
    |pool| pool.scope(|scope| scope.execute(|| ()).unwrap()),
    |pool| assert_eq!(pool.map(0..1, |n| n).count(), 1),
    |pool| assert_eq!(pool.try_map(0..1, Ok::<_, ()>).unwrap(), [0]),
];

scenario!(every_way_to_run_a_job_is_measured, |flavour| {
    for way in WAYS {
        let pool = flavour.build(flavour.builder().workers(1).timings(true));
        way(&pool);
        pool.wait_idle();
        sane(pool.stats().wait);
        sane(pool.stats().run);
        finish(pool);
    }
});

scenario!(jobs_that_run_in_place_are_measured, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).timings(true));
    let weak = Arc::downgrade(&pool);
    let job = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        pool.submit(|| ()).unwrap().join().unwrap();
        // This one runs still, so it is the other that was measured.
        pool.stats().run.is_some()
    });
    assert!(job.unwrap().join().unwrap());
    pool.wait_idle();
    finish(pool);
});

scenario!(jobs_that_never_run_are_not_measured, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).timings(true));
    let gate = hold_workers(&pool, 1);
    for _ in 0..10 {
        assert!(pool.submit(|| ()).unwrap().cancel());
    }
    pool.execute(|| ()).unwrap();
    assert_eq!(pool.cancel_queued(), 1);
    assert_eq!((pool.stats().wait, pool.stats().run), (None, None));
    gate.release();
    finish(pool);
});

scenario!(each_tenant_has_its_own_times, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).timings(true));
    let (slow, quick) = (pool.tenant("slow"), pool.tenant("quick"));
    quick.submit(|| ()).unwrap().join().unwrap();
    pool.wait_idle();
    // However long that took, on a loaded machine, this takes longer.
    let longest = sane(pool.stats().run).max;
    let longer = 2 * longest + SHORT;
    let sleeps = slow.submit(move || std::thread::sleep(longer));
    sleeps.unwrap().join().unwrap();
    pool.wait_idle();
    let stats = pool.stats();
    assert!(sane(stats.run).max >= longer);
    if stats.tenants.is_empty() {
        // Without a limit there are no tenants.
        drop((slow, quick));
        return finish(pool);
    }
    let runs = |name| sane(tenant(&stats, name).unwrap().run).max;
    assert!(
        runs("slow") >= longer && runs("quick") == longest,
        "{stats:?}"
    );
    // A tenant that is forgotten starts afresh, once the worker has let go of its last job too.
    drop(slow);
    assert!(tenant(&pool.stats(), "slow").is_none());
    eventually("a fresh start", || {
        let _again = pool.tenant("slow");
        tenant(&pool.stats(), "slow").unwrap().run.is_none()
    });
    drop(quick);
    finish(pool);
});

scenario!(busy_is_the_time_in_jobs, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).timings(true));
    let busy =
        |stats: &PoolStats| -> Duration { stats.slots.iter().map(|s| s.busy.unwrap()).sum() };
    assert_eq!(busy(&pool.stats()), Duration::ZERO);
    let held = hold_workers(&pool, 1);
    // It grows while the job runs, before it has ended.
    eventually("a busy slot", || busy(&pool.stats()) >= SHORT);
    held.release();
    pool.wait_idle();
    let (before, after) = (pool.stats(), pool.stats());
    assert_eq!(busy(&before), busy(&after), "it stands while nothing runs");
    assert!(after.uptime > before.uptime);
    assert_eq!(after.busy_shares(Some(&before)), [0.0, 0.0]);
    let shares = after.busy_shares(None);
    assert!(shares.iter().sum::<f64>() > 0.0, "{shares:?}");
    assert!(
        shares.iter().all(|share| (0.0..=1.0).contains(share)),
        "{shares:?}"
    );
    assert_eq!(
        after.busy_shares(Some(&after)),
        [0.0, 0.0],
        "no time at all"
    );
    finish(pool);
});

scenario!(each_slot_counts_its_restarts, |flavour| {
    let restart = PanicPolicy::Restart { max_restarts: 5 };
    let pool = flavour.build(flavour.builder().workers(2).on_panic(restart));
    for n in 1..=5 {
        let job: JobHandle<()> = pool.submit(|| quiet_panic("again")).unwrap();
        assert!(job.join().unwrap_err().is_panic());
        eventually("a restart", || {
            pool.stats()
                .slots
                .iter()
                .map(|slot| slot.restarts)
                .sum::<u64>()
                == n
        });
    }
    finish(pool);
});

scenario!(random_tenants_with_timings, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).timings(true));
    let mut dice = Dice::new(7);
    for _ in 0..rounds(20_000) {
        let name = dice.roll(50).to_string();
        match dice.roll(3) {
            0 => pool.job().tenant(name).execute(|| ()).unwrap(),
            1 => pool.tenant(&name).execute(|| ()).unwrap(),
            _ => drop(pool.stats()),
        }
    }
    pool.wait_idle();
    assert!(pool.stats().tenants.is_empty());
    sane(pool.stats().wait);
    finish(pool);
});
