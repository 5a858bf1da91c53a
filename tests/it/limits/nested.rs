//! Jobs that join jobs of their own pool, behind a gate: in place, past all limits, without a token.

use std::sync::{Arc, Mutex};
use std::thread;

use fairlane::{JobHandle, Submit as _, Weight, WorkerPool};

use super::{Waits, assert_all_tokens_work};
use crate::common::{Counter, Dice, Gate, assert_matches, hold_workers, rounds, workers};
use crate::fairness::{Order, by_strategy, finish_gated};

/// Submits two children and joins them, `depth` levels deep; the number of jobs.
fn tree(pool: &Arc<WorkerPool>, tenants: &'static [&'static str], depth: usize) -> usize {
    if depth == 0 {
        return 1;
    }
    let child = |i: usize| {
        let inner = Arc::clone(pool);
        let job = pool.job().tenant(tenants[(depth + i) % tenants.len()]);
        job.submit(move || tree(&inner, tenants, depth - 1))
            .unwrap()
    };
    let children = [child(0), child(1)];
    // The last one first, so that a join reaches into the middle of a lane.
    1 + children
        .into_iter()
        .rev()
        .map(|job| job.join().unwrap())
        .sum::<usize>()
}

by_strategy!(nested_joins_finish_whatever_the_limits, |flavour| {
    for (workers, concurrency) in [(1, 1), (4, 1), (2, 2), (4, 3)] {
        for (names, most) in [
            (&["a"][..], 1),
            (&["a", "b"][..], 1),
            (&["a", "b", "c"][..], 2),
        ] {
            let pool = flavour.build(flavour.builder().workers(workers).concurrency(concurrency));
            let capped: Vec<_> = names
                .iter()
                .map(|name| pool.tenant(name).with_max_running(most))
                .collect();
            let roots: Vec<_> = (0..4)
                .map(|_| {
                    let inner = Arc::clone(&pool);
                    pool.submit(move || tree(&inner, names, 4)).unwrap()
                })
                .collect();
            for root in roots {
                assert_eq!(root.join().unwrap(), 31);
            }
            let stats = pool.stats();
            assert_eq!(stats.completed, 4 * 31, "{stats:?}");
            drop(capped);
            assert_all_tokens_work(&pool, concurrency.min(workers));
            finish_gated(pool);
        }
    }
});

by_strategy!(three_levels_run_in_place_and_are_counted, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair());
    let tenant = pool
        .tenant("capped")
        .with_max_running(1)
        .with_queue_limit(1);
    let (seen, inner, theirs) = (Order::new(), Arc::clone(&pool), tenant.clone());
    let note = {
        let seen = seen.clone();
        move |pool: &WorkerPool| {
            let stats = pool.stats();
            let theirs = stats.tenants.iter().find(|tenant| tenant.name == "capped");
            let theirs = theirs.map_or((0, 0), |tenant| (tenant.running, tenant.queued));
            seen.add((stats.running, theirs));
        }
    };
    let root = tenant.submit(move || {
        note(&inner);
        let (pool, tenant) = (Arc::clone(&inner), theirs.clone());
        let child = theirs.submit(move || {
            note(&pool);
            let inner = Arc::clone(&pool);
            let leaf = tenant.submit(move || note(&inner)).unwrap();
            leaf.join().unwrap();
        });
        child.unwrap().join().unwrap();
    });
    root.unwrap().join().unwrap();
    assert_eq!(seen.take(), [(1, (1, 0)), (2, (2, 0)), (3, (3, 0))]);
    let stats = pool.stats();
    assert_eq!(stats.tenants[0].completed, 3, "{stats:?}");
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(a_join_runs_no_stranger, |flavour| {
    for (workers, concurrency) in [(1, 1), (3, 1)] {
        let pool = flavour.build(flavour.builder().workers(workers).concurrency(concurrency));
        let (order, lock) = (Order::new(), Arc::new(Mutex::new(())));
        let held = hold_workers(&pool, 1);
        let (inner, noted, guarded) = (Arc::clone(&pool), order.clone(), Arc::clone(&lock));
        let root = pool.job().priority(100).submit(move || {
            // Whoever else ran on this thread now would wait for ever.
            let guard = guarded.lock().unwrap();
            noted.add("parent begins");
            let (behind, first) = (noted.note("child"), noted.note("behind"));
            let child = inner.job().tenant("a").submit(behind).unwrap();
            let first = inner.job().tenant("a").priority(9).submit(first).unwrap();
            child.join().unwrap();
            noted.add("parent ends");
            drop(guard);
            first
        });
        for (name, priority) in [("a", 10), ("b", 10), ("", 10)] {
            let (noted, lock) = (order.clone(), Arc::clone(&lock));
            let job = move || {
                drop(lock.lock().unwrap());
                noted.add("stranger");
            };
            let stranger = pool.job().tenant(name).priority(priority);
            stranger.weight(Weight::MAX).execute(job).unwrap();
        }
        held.release();
        // On the test's thread, outside the pool: this one just waits.
        root.unwrap().join().unwrap().join().unwrap();
        pool.wait_idle();
        let order = order.take();
        let begins = order
            .iter()
            .position(|what| *what == "parent begins")
            .unwrap();
        assert_eq!(
            order[begins..][..3],
            ["parent begins", "child", "parent ends"]
        );
        assert_eq!(order.len(), 7);
        finish_gated(pool);
    }
});

by_strategy!(a_job_run_in_place_frees_no_slot_and_takes_none, |flavour| {
    // Two workers, one token: while the parent and its child run, nobody else does.
    let pool = flavour.build(flavour.builder().workers(2).concurrency(1));
    let (waits, other) = (Waits::new(), Counter::new());
    let (inner, child) = (Arc::clone(&pool), waits.clone());
    let (ran, seen) = (other.clone(), other.clone());
    let parent = pool.submit(move || {
        let child = inner.job().tenant("child").submit(child.job()).unwrap();
        inner
            .job()
            .tenant("other")
            .execute(move || ran.bump())
            .unwrap();
        child.join().unwrap();
        seen.get()
    });
    waits.begun.wait_for(1);
    let stats = pool.stats();
    assert_eq!((stats.running, stats.queued), (2, 1), "{stats:?}");
    waits.gate.open();
    assert_eq!(parent.unwrap().join().unwrap(), 0, "the other has to wait");
    other.wait_for(1);
    finish_gated(pool);
});

by_strategy!(a_job_that_ends_in_place_opens_its_tenants_lane, |flavour| {
    // At most two of the tenant: the parent and a child in place. When the child has ended, a slot
    // is free and the next in the lane may run, though the parent goes on.
    let pool = flavour.build(flavour.builder().workers(2).fair());
    let tenant = pool.tenant("capped").with_max_running(2);
    let (waits, next) = (Waits::new(), Gate::new());
    let (inner, child, opens) = (tenant.clone(), waits.clone(), next.clone());
    let held = hold_workers(&pool, 1);
    let (joins, goes_on) = (Gate::new(), Gate::new());
    let (may_join, parent_waits) = (joins.clone(), goes_on.clone());
    let parent = tenant.submit(move || {
        let child = inner.submit(child.job()).unwrap();
        inner.execute(move || opens.open()).unwrap();
        may_join.wait();
        child.join().unwrap();
        parent_waits.wait();
    });
    let parent = parent.unwrap();
    joins.open();
    waits.begun.wait_for(1);
    // Now the second slot is free, and the lane is held: parent and child are two.
    held.release();
    assert_eq!(pool.stats().running, 2);
    waits.gate.open();
    let stats = || pool.stats();
    crate::common::eventually("the child has ended", || {
        stats().running < 2 || stats().queued == 0
    });
    let runs = |next: Gate| {
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            next.wait();
            let _ = sender.send(());
        });
        receiver
            .recv_timeout(std::time::Duration::from_secs(30))
            .is_ok()
    };
    let has_run = runs(next.clone());
    goes_on.open();
    parent.join().unwrap();
    assert!(
        has_run,
        "a slot stays empty while a lane may run: {:?}",
        stats()
    );
    next.wait();
    pool.wait_idle();
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(a_map_inside_a_job_finishes_on_one_slot, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair());
    let tenant = pool.tenant("a").with_max_running(1).with_queue_limit(3);
    let inner = tenant.clone();
    let root = tenant.submit(move || {
        let ordered = inner.map(0..50_u32, |i| i).map(Result::unwrap);
        assert!(ordered.eq(0..50));
        let any = inner.map_unordered(0..50_u32, |i| i).map(Result::unwrap);
        any.sum::<u32>()
    });
    assert_eq!(root.unwrap().join().unwrap(), 49 * 50 / 2);
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(
    a_job_cannot_join_itself_or_its_parent_behind_a_gate,
    |flavour| {
        let pool = flavour.build(flavour.builder().workers(1).fair());
        let (slot, given) = (Arc::new(Mutex::new(None::<JobHandle<()>>)), Gate::new());
        let (inner, own, wait) = (Arc::clone(&pool), Arc::clone(&slot), given.clone());
        let root = pool.submit(move || {
            wait.wait();
            let parent = own.lock().unwrap().take().unwrap();
            let child = inner.submit(move || {
                assert_matches!(parent.join(), Err(fairlane::JobError::WouldDeadlock))
            });
            child.unwrap().join().unwrap();
        });
        *slot.lock().unwrap() = Some(root.unwrap());
        given.open();
        pool.wait_idle();
        assert_eq!(pool.stats().completed, 2);
        finish_gated(pool);
    }
);

by_strategy!(
    tenants_are_charged_for_every_job_wherever_it_ran,
    |flavour| {
        // Each join races a slot for the same job; the tenant's numbers must come out right.
        let pool = flavour.build(flavour.builder().workers(workers()).fair());
        let tenant = pool.tenant("a");
        let (parents, children) = (2, rounds(100_000));
        for seed in 0..parents {
            let inner = tenant.clone();
            let parent = move || {
                let mut dice = Dice::new(seed);
                for _ in 0..children {
                    let child = inner.submit(|| ()).unwrap();
                    (0..dice.roll(200)).for_each(|_| std::hint::spin_loop());
                    child.join().unwrap();
                }
            };
            tenant.execute(parent).unwrap();
        }
        pool.wait_idle();
        let stats = pool.stats();
        assert_eq!(stats.completed, parents * (1 + children as u64));
        let theirs = &stats.tenants[0];
        assert_eq!((theirs.queued, theirs.running), (0, 0), "{theirs:?}");
        assert_eq!(theirs.completed, stats.completed, "{theirs:?}");
        drop(tenant);
        finish_gated(pool);
    }
);
