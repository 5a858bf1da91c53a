//! Joining inside a job: it never deadlocks, and it runs what it waits for and nothing else.

use std::cell::Cell;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use fairlane::{JobError, JobHandle, Nested, WorkerPool};

use super::inside;
use crate::common::{
    Gate, Probe, assert_matches, assert_quiescent, finish, hold_workers, rounds, scenario, workers,
};

/// Submits `fan_out` children of a job that do the same one level lower, joins them and adds up.
/// Half of the jobs join in the order of submitting, the others the other way round.
fn sum_of_tree(pool: &Arc<WorkerPool>, levels: usize, fan_out: usize) -> usize {
    if levels == 0 {
        return 1;
    }
    let submit_child = |_| {
        let inner = Arc::clone(pool);
        pool.submit(move || sum_of_tree(&inner, levels - 1, fan_out))
            .unwrap()
    };
    let mut children: Vec<_> = (0..fan_out).map(submit_child).collect();
    if levels % 2 == 0 {
        children.reverse();
    }
    children
        .into_iter()
        .map(|child| child.join().unwrap())
        .sum()
}

scenario!(one_worker_joins_its_child, |flavour| {
    let pool = flavour.pool(1);
    let sum = inside(&pool, |pool| sum_of_tree(pool, 1, 1));
    assert_eq!(sum.unwrap(), 1);
    finish(pool);
});

scenario!(one_worker_joins_three_levels, |flavour| {
    let pool = flavour.pool(1);
    let sum = inside(&pool, |pool| sum_of_tree(pool, 3, 3));
    assert_eq!(sum.unwrap(), 27);
    assert_eq!(pool.stats().completed, 1 + 3 + 9 + 27);
    finish(pool);
});

scenario!(as_many_jobs_as_workers_join_as_many_children, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    let all_at_it = Arc::new(Barrier::new(n));
    let submit_parent = |_| {
        let (inner, all_at_it) = (Arc::clone(&pool), Arc::clone(&all_at_it));
        let parent = move || {
            all_at_it.wait();
            sum_of_tree(&inner, 1, n)
        };
        pool.submit(parent).unwrap()
    };
    let parents: Vec<_> = (0..n).map(submit_parent).collect();
    let sum: usize = parents
        .into_iter()
        .map(|parent| parent.join().unwrap())
        .sum();
    assert_eq!(sum, n * n);
    finish(pool);
});

scenario!(many_trees_join_three_levels, |flavour| {
    for nested in [Nested::Strategy, Nested::Local] {
        let pool = flavour.build(flavour.builder().workers(workers()).nested(nested));
        let submit_tree = |_| {
            let inner = Arc::clone(&pool);
            pool.submit(move || sum_of_tree(&inner, 3, 4)).unwrap()
        };
        let trees: Vec<_> = (0..workers()).map(submit_tree).collect();
        for tree in trees {
            assert_eq!(tree.join().unwrap(), 64);
        }
        finish(pool);
    }
});

scenario!(
    nothing_is_pending_after_joins_have_run_jobs_in_place,
    |flavour| {
        // A thief that meets the empty entry of a job that a join has run has to take its claim back,
        // and may be the last one to do anything at all.
        let pool = flavour.pool(workers());
        for _ in 0..rounds(10_000) {
            assert_eq!(inside(&pool, |pool| sum_of_tree(pool, 2, 3)).unwrap(), 9);
            assert_quiescent(&pool);
        }
        finish(pool);
    }
);

scenario!(a_chain_of_strangers_joins_to_its_end, |flavour| {
    const LINKS: usize = 200;
    for workers in [1, workers()] {
        let pool = flavour.pool(workers);
        let held = hold_workers(&pool, workers);
        // Each job joins one that was submitted after it, by somebody else.
        let submit_link = |_| {
            let (sender, next) = mpsc::channel::<Option<JobHandle<usize>>>();
            let link = move || match next.recv().unwrap() {
                Some(next) => next.join().unwrap() + 1,
                None => 1,
            };
            (sender, pool.submit(link).unwrap())
        };
        let links: Vec<_> = (0..LINKS).map(submit_link).collect();
        let first = links.into_iter().rev().fold(None, |next, (sender, link)| {
            sender.send(next).unwrap();
            Some(link)
        });
        held.release();
        assert_eq!(first.unwrap().join().unwrap(), LINKS);
        finish(pool);
    }
});

scenario!(a_join_waits_for_a_job_that_runs_elsewhere, |flavour| {
    let pool = flavour.pool(2);
    let (gate, begun, joins) = (Gate::new(), Gate::new(), Gate::new());
    let target = pool.submit({
        let (gate, begun) = (gate.clone(), begun.clone());
        move || {
            begun.open();
            gate.wait();
            7
        }
    });
    begun.wait();
    let target = target.unwrap();
    let joiner = pool.submit({
        let joins = joins.clone();
        move || {
            joins.open();
            target.join().unwrap()
        }
    });
    joins.wait();
    gate.open();
    assert_eq!(joiner.unwrap().join().unwrap(), 7);
    finish(pool);
});

scenario!(joining_oneself_or_an_ancestor_would_deadlock, |flavour| {
    let pool = flavour.pool(1);

    let (sender, itself) = mpsc::channel::<JobHandle<()>>();
    let (report, outcome) = mpsc::channel();
    let job = pool.submit(move || report.send(itself.recv().unwrap().join()).unwrap());
    sender.send(job.unwrap()).unwrap();
    assert_matches!(outcome.recv().unwrap(), Err(JobError::WouldDeadlock));

    // Three on one stack: the grandchild, run inside the joins of the others, joins the first.
    let (sender, ancestor) = mpsc::channel::<JobHandle<()>>();
    let (report, outcome) = mpsc::channel();
    let inner = Arc::clone(&pool);
    let job = pool.submit(move || {
        let child_pool = Arc::clone(&inner);
        let child = move || {
            let grandchild = move || report.send(ancestor.recv().unwrap().join()).unwrap();
            child_pool.submit(grandchild).unwrap().join().unwrap();
        };
        inner.submit(child).unwrap().join().unwrap();
    });
    sender.send(job.unwrap()).unwrap();
    assert_matches!(outcome.recv().unwrap(), Err(JobError::WouldDeadlock));
    finish(pool);
});

scenario!(join_timeout_never_runs_the_job_inline, |flavour| {
    let pool = flavour.pool(1);
    let probe = Probe::new();
    let outer_probe = probe.clone();
    let sees = inside(&pool, move |pool| {
        let mut child = pool.submit(outer_probe.job()).unwrap();
        for timeout in [Duration::ZERO, Duration::from_millis(2)] {
            child = child
                .join_timeout(timeout)
                .expect_err("the only worker is busy here");
            assert!(!child.is_finished());
            assert_eq!(outer_probe.ran(), 0);
        }
        child.join()
    });
    sees.expect("no assertion failed").expect("the child ran");
    probe.assert_all_dropped(1);
    finish(pool);
});

thread_local! {
    /// Whether this thread is inside one of the waits of `a_wait_inside_a_job_runs_no_stranger`.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// A job that wants `lock`, which the job that waits for others holds, and that must not be run
/// inside that wait: it would wait for itself there.
fn stranger(lock: &Arc<Mutex<usize>>) -> impl FnOnce() -> bool + Send + 'static + use<> {
    let lock = Arc::clone(lock);
    move || {
        let run_inside_a_wait = WAITS.get();
        if !run_inside_a_wait {
            *lock.lock().unwrap() += 1;
        }
        run_inside_a_wait
    }
}

type WaitForOwn = fn(&Arc<WorkerPool>);

/// A job holds a lock and does one of `waits` while jobs that want the lock are queued.
fn waits_run_no_stranger(pool: &Arc<WorkerPool>, waits: &'static [WaitForOwn]) {
    const STRANGERS: usize = 20;
    for &wait in waits {
        let lock = Arc::new(Mutex::new(0));
        let outer_lock = Arc::clone(&lock);
        let strangers = inside(pool, move |pool| {
            let submit = |_| pool.submit(stranger(&outer_lock)).unwrap();
            let guard = outer_lock.lock().unwrap();
            let mut strangers: Vec<_> = (0..STRANGERS / 2).map(submit).collect();
            WAITS.set(true);
            wait(pool);
            WAITS.set(false);
            drop(guard);
            strangers.extend((0..STRANGERS / 2).map(submit));
            strangers
        });
        for stranger in strangers.unwrap() {
            assert!(!stranger.join().unwrap(), "a stranger ran inside a wait");
        }
        assert_eq!(*lock.lock().unwrap(), STRANGERS);
    }
}

scenario!(a_join_inside_a_job_runs_no_stranger, |flavour| {
    fn join_one(pool: &Arc<WorkerPool>) {
        pool.submit(|| ()).unwrap().join().unwrap();
    }
    fn join_many(pool: &Arc<WorkerPool>) {
        let children: Vec<_> = (0..10).map(|_| pool.submit(|| ()).unwrap()).collect();
        children
            .into_iter()
            .rev()
            .for_each(|child| child.join().unwrap());
    }
    fn join_a_grandchild(pool: &Arc<WorkerPool>) {
        let inner = Arc::clone(pool);
        let child = move || inner.submit(|| ()).unwrap().join().unwrap();
        pool.submit(child).unwrap().join().unwrap();
    }
    for workers in [1, workers()] {
        let pool = flavour.pool(workers);
        waits_run_no_stranger(&pool, &[join_one, join_many, join_a_grandchild]);
        finish(pool);
    }
});

scenario!(a_map_inside_a_job_runs_no_stranger, |flavour| {
    fn map(pool: &Arc<WorkerPool>) {
        let doubled = pool.map(0..10, |i| 2 * i).map(Result::unwrap);
        assert!(doubled.eq((0..10).map(|i| 2 * i)));
    }
    for workers in [1, workers()] {
        let pool = flavour.pool(workers);
        waits_run_no_stranger(&pool, &[map]);
        finish(pool);
    }
});
