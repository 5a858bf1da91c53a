//! Tenants that come and go beside a backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairlane::{Tenant, Weight, WorkerPool};

use super::{Order, by_strategy, finish_gated, single_files};
use crate::common::hold_workers;

/// Keeps one job of `tenant` in the pool as long as `goes_on`: each submits the next.
fn resubmit(tenant: Tenant, order: Order<char>, goes_on: Arc<AtomicBool>) {
    let letter = tenant.name().chars().next().unwrap();
    let submitter = tenant.clone();
    let job = move || {
        order.add(letter);
        if goes_on.load(Ordering::SeqCst) {
            resubmit(tenant, order, goes_on);
        }
    };
    submitter.execute(job).unwrap();
}

by_strategy!(those_who_resubmit_leave_a_backlog_its_share, |flavour| {
    const BACKLOG: usize = 120;
    for (pool, weight) in single_files(flavour)
        .into_iter()
        .flat_map(|pool| [1, 3].map(|weight| (Arc::clone(&pool), weight)))
    {
        let (order, goes_on) = (Order::new(), Arc::new(AtomicBool::new(true)));
        let held = hold_workers(&pool, 1);
        let backlog = pool.tenant("A").with_weight(Weight::new(weight as u32));
        for i in 0..BACKLOG {
            let (order, goes_on) = (order.clone(), Arc::clone(&goes_on));
            let job = move || {
                order.add('A');
                if i + 1 == BACKLOG {
                    goes_on.store(false, Ordering::SeqCst);
                }
            };
            backlog.execute(job).unwrap();
        }
        drop(backlog);
        for name in ["B", "C", "D", "E", "F"] {
            resubmit(pool.tenant(name), order.clone(), Arc::clone(&goes_on));
        }
        held.release();
        pool.wait_idle();
        let order = order.take();
        let mut served = 0;
        for (t, name) in (1..).zip(&order) {
            served += usize::from(*name == 'A');
            if served == BACKLOG {
                break;
            }
            // Its sixth (3 of 8), and never more than a job behind.
            assert!(
                served + 1 >= t * weight / (5 + weight),
                "{served} of {t}: {order:?}"
            );
        }
        for name in ["B", "C", "D", "E", "F"] {
            let theirs = order.iter().filter(|n| n.to_string() == name).count();
            assert!(
                theirs.abs_diff(BACKLOG / weight) <= 2,
                "{name} ran {theirs} times"
            );
        }
        if let Ok(pool) = Arc::try_unwrap(pool) {
            finish_gated(Arc::new(pool));
        }
    }
});

/// Keeps one job in the pool, each of a tenant never heard of before.
fn one_shots(pool: &Arc<WorkerPool>, names: &Arc<AtomicUsize>, order: &Order<char>, left: usize) {
    let name = format!("shot {}", names.fetch_add(1, Ordering::SeqCst));
    let (submits, names, order) = (Arc::downgrade(pool), Arc::clone(names), order.clone());
    let job = move || {
        order.add('.');
        if left > 1 {
            // Not upgraded for longer than this, so that the pool does not end in here.
            let pool = submits.upgrade().expect("the scenario still runs");
            one_shots(&pool, &names, &order, left - 1);
        }
    };
    pool.job().tenant(name).execute(job).unwrap();
}

by_strategy!(fresh_names_leave_a_backlog_its_share, |flavour| {
    const BACKLOG: usize = 300;
    for pool in single_files(flavour) {
        for streams in [1, 3] {
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            for _ in 0..BACKLOG {
                pool.job().tenant("A").execute(order.note('A')).unwrap();
            }
            let names = Arc::default();
            (0..streams).for_each(|_| one_shots(&pool, &names, &order, 2 * BACKLOG));
            held.release();
            pool.wait_idle();
            let mut served = 0;
            for (t, name) in (1..).zip(order.take()) {
                served += usize::from(name == 'A');
                if served == BACKLOG {
                    break;
                }
                assert!(served + 1 >= t / (streams + 1), "{served} of {t}");
            }
        }
        finish_gated(pool);
    }
});

by_strategy!(names_seen_once_are_forgotten, |flavour| {
    let names = if cfg!(debug_assertions) {
        50_000
    } else {
        1_000_000
    };
    let pool = flavour.build(flavour.builder().workers(2).fair());
    // At once and in the lanes together, run and cancelled.
    for i in 0..names {
        let job = pool.job().tenant(format!("shot {i}"));
        job.weight(Weight::new(1 + i % 5)).execute(|| ()).unwrap();
    }
    pool.wait_idle();
    assert_eq!(pool.stats().tenants, []);
    let held = hold_workers(&pool, 2);
    for i in 0..names / 10 {
        let job = pool
            .job()
            .tenant(format!("shot {i}"))
            .priority(i as i32 % 3);
        job.execute(|| ()).unwrap();
    }
    assert_eq!(pool.stats().tenants.len(), names as usize / 10 + 1);
    assert_eq!(pool.cancel_queued(), names as usize / 10);
    assert_eq!(pool.stats().tenants.len(), 1, "that of the held jobs");
    held.release();
    pool.wait_idle();
    assert_eq!(pool.stats().tenants, []);
    assert_eq!(pool.stats().completed, u64::from(names) + 2);
    finish_gated(pool);
});

/// No tenant is served twice in a row.
#[track_caller]
fn assert_alternates(order: &str) {
    let twice = order.as_bytes().windows(2).any(|pair| pair[0] == pair[1]);
    assert!(!twice, "{order}");
}

/// A backlog of `A`, and `B` that comes when `comes_at` jobs have run.
fn joins_later(pool: &WorkerPool, a: (u32, usize), b: (u32, usize), comes_at: usize) -> String {
    let (order, held) = (Order::new(), hold_workers(pool, 1));
    let backlog = pool.tenant("A").with_weight(Weight::new(a.0));
    let late = pool.tenant("B").with_weight(Weight::new(b.0));
    for i in 1..=a.1 {
        let (order, late) = (order.clone(), late.clone());
        let job = move || {
            order.add('A');
            if i == comes_at {
                (0..b.1).for_each(|_| late.execute(order.note('B')).unwrap());
            }
        };
        backlog.execute(job).unwrap();
    }
    held.release();
    pool.wait_idle();
    order.take()[comes_at..].iter().collect()
}

by_strategy!(a_tenant_saves_nothing_up_while_others_work, |flavour| {
    let solo = if cfg!(debug_assertions) {
        20_000
    } else {
        1_000_000
    };
    for pool in single_files(flavour) {
        let order = joins_later(&pool, (1, solo + 20), (1, 20), solo);
        assert_alternates(&order);
        let order = joins_later(&pool, (1, 1_100), (3, 90), 1_000);
        let served = order[..100].matches('B').count();
        assert!((74..=76).contains(&served), "{served} of 75: {order}");
        let longest = order.split('A').map(str::len).max();
        assert!(longest <= Some(4), "a burst: {order}");
        finish_gated(pool);
    }
});

by_strategy!(idle_and_back_again_is_one_job_ahead_at_most, |flavour| {
    for pool in single_files(flavour) {
        let (order, held) = (Order::new(), hold_workers(&pool, 1));
        let (a, b) = (pool.tenant("A"), pool.tenant("B"));
        // B is served in the beginning, idle for 1,000 jobs, and back with a backlog.
        (0..5).for_each(|_| b.execute(order.note('B')).unwrap());
        for i in 1..=1_200 {
            let (order, b) = (order.clone(), b.clone());
            let job = move || {
                order.add('A');
                if i == 1_010 {
                    (0..100).for_each(|_| b.execute(order.note('B')).unwrap());
                }
            };
            a.execute(job).unwrap();
        }
        held.release();
        pool.wait_idle();
        let order: String = order.take().into_iter().collect();
        assert_eq!(order[..10], "BA".repeat(5));
        // Behind the job in which it came back.
        assert_alternates(&order[10 + 1_005..][..200]);
        drop((a, b));
        finish_gated(pool);
    }
});
