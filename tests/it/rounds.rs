//! With a limit, threads take tiny jobs in rounds. Nobody but the clock may notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlane::{JobError, PanicPolicy, WorkerPool};

use crate::common::*;
use crate::fairness::by_strategy;
use crate::panics::workers_meet;

/// Tiny jobs in a flood: enough that threads take rounds of them.
const FLOOD: usize = 20_000;

/// A pool with two threads and two tokens.
fn two(flavour: &Flavour) -> Arc<WorkerPool> {
    flavour.build(flavour.builder().workers(2).fair())
}

/// Submits a flood in which some jobs wait at `gate`, two at most, so that both threads stop in the
/// middle of it. Returns how many have ended by then.
fn stop_in_the_middle(pool: &WorkerPool, gate: &Gate) -> usize {
    let (ended, stopped) = (Arc::new(AtomicUsize::new(0)), Counter::new());
    let held = hold_workers(pool, 2);
    for i in 0..FLOOD {
        let (ended, stopped, gate) = (Arc::clone(&ended), stopped.clone(), gate.clone());
        pool.execute(move || {
            if i == FLOOD / 2 || i == FLOOD / 2 + 100 {
                stopped.bump();
                gate.wait();
            }
            ended.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    }
    held.release();
    stopped.wait_for(2);
    ended.load(Ordering::Relaxed)
}

by_strategy!(nothing_waits_behind_a_job_that_waits_for_it, |flavour| {
    let pool = two(flavour);
    let (ended, held) = (Counter::new(), hold_workers(&pool, 2));
    for i in 0..FLOOD {
        let ended = ended.clone();
        let job = move || {
            if i == FLOOD / 2 {
                // All others run meanwhile, those included that were to follow on this thread.
                ended.wait_for(FLOOD - 1);
            }
            ended.bump();
        };
        pool.execute(job).unwrap();
    }
    held.release();
    pool.wait_idle();
    assert_eq!(ended.get(), FLOOD);
    finish(pool);
});

by_strategy!(
    nothing_waits_while_the_other_thread_has_plenty_to_do,
    |flavour| {
        let pool = two(flavour);
        let (passed, gate, held) = (Counter::new(), Gate::new(), hold_workers(&pool, 2));
        for i in 0..FLOOD {
            let (passed, gate) = (passed.clone(), gate.clone());
            let job = move || match i {
                _ if i == FLOOD / 2 => gate.wait(),
                // The twenty behind it, of which some lie in its thread's hand.
                _ if (FLOOD / 2..=FLOOD / 2 + 20).contains(&i) => {
                    passed.bump();
                }
                _ => {}
            };
            pool.execute(job).unwrap();
        }
        held.release();
        // The other thread gets to them long before it runs out of other jobs, if it has any.
        passed.wait_for(20);
        gate.open();
        pool.wait_idle();
        finish(pool);
    }
);

by_strategy!(a_sweep_finds_every_job_that_has_not_begun, |flavour| {
    let pool = two(flavour);
    for _ in 0..rounds(10) {
        let gate = Gate::new();
        let before = pool.stats();
        let ended = stop_in_the_middle(&pool, &gate);
        assert_eq!(pool.cancel_queued(), FLOOD - ended - 2);
        gate.open();
        pool.wait_idle();
        let stats = pool.stats();
        assert_eq!(stats.completed - before.completed, ended as u64 + 2 + 2);
        assert_eq!((stats.queued, stats.running), (0, 0));
    }
    finish(pool);
});

by_strategy!(tenants_are_told_what_runs_and_what_waits, |flavour| {
    let pool = two(flavour);
    let gate = Gate::new();
    let ended = stop_in_the_middle(&pool, &gate);
    let tenants = pool.stats().tenants;
    assert_eq!(tenants.len(), 1);
    assert_eq!(tenants[0].running, 2);
    assert_eq!(tenants[0].queued, FLOOD - ended - 2);
    assert_eq!(
        tenants[0].completed,
        ended as u64 + 2,
        "and two held the workers"
    );
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.running), (FLOOD - ended - 2, 2));
    gate.open();
    pool.wait_idle();
    finish(pool);
});

by_strategy!(a_panic_in_the_middle_loses_nothing, |flavour| {
    for policy in [PanicPolicy::Keep, PanicPolicy::Restart { max_restarts: 20 }] {
        let pool = flavour.build(flavour.builder().workers(2).fair().on_panic(policy));
        let (ended, held) = (Counter::new(), hold_workers(&pool, 2));
        for i in 0..FLOOD {
            let ended = ended.clone();
            let job = move || {
                ended.bump();
                assert!(i % (FLOOD / 20) != FLOOD / 40, "one in a thousand");
            };
            pool.execute(job).unwrap();
        }
        held.release();
        pool.wait_idle();
        assert_eq!((ended.get(), pool.stats().panicked), (FLOOD, 20));
        workers_meet(&pool, 2);
        finish(pool);
    }
});

by_strategy!(
    slots_that_retire_leave_their_hands_to_the_others,
    |flavour| {
        let policy = PanicPolicy::Restart { max_restarts: 0 };
        let pool = flavour.build(flavour.builder().workers(2).fair().on_panic(policy));
        let (ended, held) = (Counter::new(), hold_workers(&pool, 2));
        for i in 0..FLOOD {
            let ended = ended.clone();
            let job = move || {
                ended.bump();
                assert!(i != FLOOD / 2, "the first slot to go");
            };
            pool.execute(job).unwrap();
        }
        held.release();
        pool.wait_idle();
        assert_eq!((ended.get(), pool.stats().workers), (FLOOD, 1));
        let last = pool.submit(|| panic!("the last slot to go")).unwrap();
        assert_matches!(last.join(), Err(JobError::Panicked(_)));
        eventually("no slot is left", || pool.stats().workers == 0);
        finish(pool);
    }
);
