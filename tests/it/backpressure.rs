//! A queue limit: who waits for room, who is told at once that there is none, and what makes room.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use fairlane::{JobError, JobHandle, Rejected, WorkerPool};

use crate::common::{
    Counter, Dice, Flavour, Gate, Probe, assert_matches, finish, hold_workers, refused, rounds,
    scenario, workers,
};

// Only there can a test see that a thread is blocked.
#[cfg(target_os = "linux")]
mod blocked;

fn limited(flavour: &Flavour, workers: usize, queue_limit: usize) -> Arc<WorkerPool> {
    flavour.build(flavour.builder().workers(workers).queue_limit(queue_limit))
}

/// Queues jobs until the pool is full, and returns them.
fn fill(pool: &WorkerPool, probe: &Probe) -> Vec<JobHandle<()>> {
    let submit = || pool.try_submit(probe.job());
    let jobs: Vec<_> = std::iter::from_fn(|| submit().ok()).collect();
    assert_matches!(refused(submit()).0, Rejected::Full);
    jobs
}

scenario!(a_queue_limit_counts_what_has_not_begun, |flavour| {
    for (workers, limit) in [(1, 1), (1, 7), (workers(), 1), (workers(), 100)] {
        let pool = limited(flavour, workers, limit);
        let probe = Probe::new();
        for _ in 0..3 {
            // Running jobs take no room, queued ones on whatever slot do.
            let held = hold_workers(&pool, workers);
            let jobs = fill(&pool, &probe);
            assert_eq!(jobs.len(), limit);
            assert_eq!(pool.stats().queued, limit);
            held.release();
            jobs.into_iter().for_each(|job| job.join().unwrap());
        }
        probe.assert_all_dropped(3 * limit);
        finish(pool);
    }
});

scenario!(there_is_room_as_soon_as_a_job_begins, |flavour| {
    let pool = limited(flavour, 1, 1);
    let mut held = hold_workers(&pool, 1);
    for _ in 0..20 {
        let (begun, gate) = (Gate::new(), Gate::new());
        let queued = pool.try_submit({
            let (begun, gate) = (begun.clone(), gate.clone());
            move || {
                begun.open();
                gate.wait();
            }
        });
        assert_matches!(refused(pool.try_submit(|| ())).0, Rejected::Full);
        held.release();
        begun.wait();
        // The worker is busy with it, and its place in the queue is free.
        let next = pool.try_submit(|| ()).unwrap();
        gate.open();
        queued.unwrap().join().unwrap();
        next.join().unwrap();
        held = hold_workers(&pool, 1);
    }
    held.release();
    finish(pool);
});

scenario!(every_way_to_submit_says_full, |flavour| {
    let pool = limited(flavour, 1, 2);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = fill(&pool, &probe);
    let number = |i: u32| move || i;
    let refusals = [
        refused(pool.try_submit(number(1))),
        refused(pool.submit_timeout(Duration::ZERO, number(2))),
        refused(pool.submit_timeout(Duration::from_millis(2), number(3))),
        refused(pool.job().try_submit(number(4))),
        refused(pool.job().submit_timeout(Duration::ZERO, number(5))),
    ]
    .map(|(reason, job)| {
        assert_matches!(reason, Rejected::Full);
        job()
    });
    assert_eq!(refusals, [1, 2, 3, 4, 5]);
    // Refused is not submitted: the job of the held worker and the two in the queue.
    assert_eq!(pool.stats().submitted, 3);
    held.release();
    queued.into_iter().for_each(|job| job.join().unwrap());
    probe.assert_all_dropped(2);
    finish(pool);
});

scenario!(blocking_submitters_get_through_a_bound_of_one, |flavour| {
    const SUBMITTERS: usize = 64;
    for workers in [1, 2] {
        let pool = limited(flavour, workers, 1);
        let held = hold_workers(&pool, workers);
        let probe = Probe::new();
        let all_at_it = Barrier::new(SUBMITTERS + 1);
        let each = rounds(200);
        thread::scope(|scope| {
            for submitter in 0..SUBMITTERS {
                let (pool, probe, all_at_it) = (&pool, &probe, &all_at_it);
                let mut dice = Dice::new(submitter as u64);
                scope.spawn(move || {
                    all_at_it.wait();
                    for _ in 0..each {
                        let job = pool.submit(probe.job()).expect("nobody closes the pool");
                        match dice.roll(4) {
                            0 if job.cancel() => {
                                assert_matches!(job.join(), Err(JobError::Cancelled));
                            }
                            1 => _ = pool.cancel_queued(),
                            // It may have been cancelled by another one's cancel_queued.
                            2 => assert_matches!(job.join(), Ok(()) | Err(JobError::Cancelled)),
                            _ => drop(job),
                        }
                    }
                });
            }
            all_at_it.wait();
            held.release();
        });
        pool.wait_idle();
        let stats = pool.stats();
        assert_eq!(
            stats.submitted,
            (workers + SUBMITTERS * each) as u64,
            "{stats:?}"
        );
        probe.assert_all_dropped(SUBMITTERS * each - stats.cancelled as usize);
        finish(pool);
    }
});

scenario!(some_get_through_while_others_give_up, |flavour| {
    for limit in [1, 3] {
        let pool = limited(flavour, workers(), limit);
        let (probe, accepted) = (Probe::new(), Counter::new());
        thread::scope(|scope| {
            for submitter in 0..16 {
                let (pool, probe, accepted) = (&pool, &probe, &accepted);
                let mut dice = Dice::new(submitter);
                scope.spawn(move || {
                    for _ in 0..rounds(1_000) {
                        let timeout = Duration::from_micros(dice.roll(50));
                        let is_accepted = match submitter % 4 {
                            0 => pool.submit(probe.job()).is_ok(),
                            1 => pool.execute(probe.job()).is_ok(),
                            2 => pool.try_submit(probe.job()).is_ok(),
                            _ => pool.submit_timeout(timeout, probe.job()).is_ok(),
                        };
                        assert!(is_accepted || submitter % 4 >= 2, "who waits is accepted");
                        if is_accepted {
                            accepted.bump();
                        }
                    }
                });
            }
        });
        pool.wait_idle();
        probe.assert_all_dropped(accepted.get());
        finish(pool);
    }
});

scenario!(a_full_queue_refuses_at_once_inside_a_job, |flavour| {
    for workers in [1, workers()] {
        let pool = limited(flavour, workers, 3);
        // The other workers must not make room.
        let held = hold_workers(&pool, workers - 1);
        let probe = Probe::new();
        let (inner, inner_probe) = (Arc::clone(&pool), probe.clone());
        let job = pool.submit(move || {
            let queued = fill(&inner, &inner_probe);
            let soon = Duration::from_millis(2);
            let refusals = [
                refused(inner.submit(inner_probe.job())),
                refused(inner.try_submit(inner_probe.job())),
                refused(inner.submit_timeout(soon, inner_probe.job())),
                refused(inner.submit_timeout(Duration::MAX, inner_probe.job())),
                refused(inner.execute(inner_probe.job())),
                refused(inner.job().submit(inner_probe.job())),
                refused(inner.job().execute(inner_probe.job())),
            ];
            for (reason, job) in refusals {
                assert_matches!(reason, Rejected::Full);
                job();
            }
            // A join runs its own job here, which makes room for one.
            let mut queued = queued.into_iter();
            queued.next().unwrap().join().unwrap();
            let one_more = inner.submit(inner_probe.job()).expect("there is room");
            assert_matches!(refused(inner.submit(|| ())).0, Rejected::Full);
            queued.chain([one_more]).for_each(|job| job.join().unwrap());
        });
        job.unwrap().join().expect("no assertion failed");
        probe.assert_all_dropped(3 + 7 + 1);
        held.release();
        finish(pool);
    }
});

scenario!(another_pool_that_is_full_makes_a_job_wait, |flavour| {
    let (pool, other) = (limited(flavour, 1, 1), limited(flavour, 1, 1));
    let held = hold_workers(&other, 1);
    let probe = Probe::new();
    let queued = fill(&other, &probe).pop().unwrap();
    let begins = Gate::new();
    let for_job = (Arc::clone(&other), probe.job(), begins.clone());
    let job = pool.submit(move || {
        let (other, job, begins) = for_job;
        begins.open();
        other.submit(job).map(|job| job.join())
    });
    begins.wait();
    // Whether it waits by now or not: there will be room.
    held.release();
    job.unwrap()
        .join()
        .unwrap()
        .expect("there was room in the end")
        .unwrap();
    queued.join().unwrap();
    probe.assert_all_dropped(2);
    finish(other);
    finish(pool);
});

scenario!(a_map_inside_a_job_runs_in_place_when_full, |flavour| {
    let pool = limited(flavour, 1, 1);
    let probe = Probe::new();
    let (inner, inner_probe) = (Arc::clone(&pool), probe.clone());
    let job = pool.submit(move || {
        let queued = fill(&inner, &inner_probe).pop().unwrap();
        let here = thread::current().id();
        let items = inner.map(0..100, move |i| (2 * i, thread::current().id() == here));
        let items: Vec<_> = items.map(Result::unwrap).collect();
        assert!(items.into_iter().eq((0..100).map(|i| (2 * i, true))));
        // What filled the queue is still there: no item took its place, and no wait ran it.
        assert_eq!(inner_probe.ran(), 0);
        queued
    });
    let queued = job.unwrap().join().expect("no assertion failed");
    queued.join().unwrap();
    probe.assert_all_dropped(1);
    finish(pool);
});

scenario!(a_map_over_a_small_queue_yields_it_all, |flavour| {
    for workers in [1, workers()] {
        let pool = limited(flavour, workers, 1);
        let squares = pool.map(0..500_u64, |i| i * i).map(Result::unwrap);
        assert!(squares.eq((0..500).map(|i| i * i)));
        let inner = Arc::clone(&pool);
        let sum = move || {
            inner
                .map(0..500_u64, |i| i * i)
                .map(Result::unwrap)
                .sum::<u64>()
        };
        let sum = pool.submit(sum).unwrap().join().unwrap();
        assert_eq!(sum, (0..500).map(|i| i * i).sum());
        finish(pool);
    }
});

scenario!(cancel_queued_returns_while_others_submit, |flavour| {
    let pool = limited(flavour, workers(), 64);
    let held = hold_workers(&pool, workers());
    let (probe, accepted) = (Probe::new(), Counter::new());
    let enough = AtomicBool::new(false);
    let cancelled: usize = thread::scope(|scope| {
        let _guard = held.open_on_panic();
        for _ in 0..4 {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    pool.execute(probe.job()).unwrap();
                    accepted.bump();
                }
            });
        }
        let cancel_some = |round| {
            accepted.wait_for(64 * round);
            pool.cancel_queued()
        };
        let cancelled = (1..=rounds(100)).map(cancel_some).sum();
        enough.store(true, Ordering::Relaxed);
        held.open();
        cancelled
    });
    held.release();
    pool.wait_idle();
    probe.assert_all_dropped(accepted.get() - cancelled);
    finish(pool);
});
