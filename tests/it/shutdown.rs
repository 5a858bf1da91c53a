//! The ways a pool ends, and who may end it: its only owner, several at once, or one of its jobs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, Weak};
use std::thread;
use std::time::Duration;

use fairlane::{JobError, JobHandle, Rejected, WorkerPool};

use crate::common::{
    Counter, Dice, Probe, assert_matches, assert_no_threads, assert_quiescent, eventually, finish,
    hold_workers, refused, rounds, scenario, spawn_blocked, workers,
};

mod inside;

fn owned(pool: Arc<WorkerPool>) -> WorkerPool {
    Arc::into_inner(pool).expect("nothing else owns the pool")
}

/// Every way for the only owner to end a pool that has nothing to do, and each must be the end.
const ENDS: [fn(WorkerPool); 9] = [
    drop,
    |pool| pool.shutdown(),
    |pool| assert_eq!(pool.shutdown_now(), 0),
    |pool| {
        pool.shutdown_timeout(Duration::ZERO)
            .expect("nothing to wait for")
    },
    |pool| {
        pool.shutdown_timeout(Duration::MAX)
            .expect("nothing to wait for")
    },
    |pool| {
        pool.close();
        pool.close();
    },
    |pool| {
        pool.close();
        pool.wait_idle();
        pool.shutdown();
    },
    |pool| {
        assert_eq!(pool.cancel_queued(), 0);
        pool.wait_idle();
    },
    |pool| {
        let owners = Arc::new((pool, Barrier::new(2)));
        let other = Arc::clone(&owners);
        let other = thread::spawn(move || _ = other.1.wait());
        owners.1.wait();
        drop(owners);
        other.join().unwrap();
    },
];

scenario!(a_pool_that_never_got_a_job_ends, |flavour| {
    for workers in [1, 2, workers()] {
        for end in ENDS {
            let stopped = Counter::new();
            let stops = stopped.clone();
            let builder = flavour.builder().workers(workers);
            end(owned(
                flavour.build(builder.on_thread_stop(move |_| stops.bump())),
            ));
            assert_eq!(stopped.get(), workers, "every thread has ended");
        }
    }
});

scenario!(a_pool_that_went_idle_ends, |flavour| {
    for end in ENDS {
        let pool = flavour.pool(workers());
        let probe = Probe::new();
        (0..50).for_each(|_| pool.execute(probe.job()).unwrap());
        assert_quiescent(&pool);
        probe.assert_all_dropped(50);
        end(owned(pool));
    }
});

/// Holds every worker, queues `queued` jobs, and ends the pool with `end` on another thread. When
/// `end` has come to wait for the workers, they are let go.
fn end_while_busy<T: Send>(
    pool: Arc<WorkerPool>,
    queued: usize,
    end: impl FnOnce(WorkerPool) -> T + Send,
) -> (Vec<Result<(), JobError>>, Probe, T) {
    let held = hold_workers(&pool, pool.workers());
    let probe = Probe::new();
    let submit = |_| pool.submit(probe.job()).unwrap();
    let jobs: Vec<_> = (0..queued).map(submit).collect();
    let pool = owned(pool);
    let returned = thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let ends = spawn_blocked(scope, || end(pool));
        held.open();
        ends.join().unwrap()
    });
    held.release();
    let outcomes = jobs.into_iter().map(JobHandle::join).collect();
    (outcomes, probe, returned)
}

scenario!(shutdown_and_drop_finish_what_was_accepted, |flavour| {
    const QUEUED: usize = 100;
    let ends: [fn(WorkerPool); 4] = [
        drop,
        |pool| pool.shutdown(),
        |pool| {
            pool.shutdown_timeout(Duration::MAX)
                .expect("there is time enough")
        },
        |pool| {
            pool.close();
            pool.wait_idle();
            let stats = pool.stats();
            assert_eq!((stats.queued, stats.running), (0, 0), "{stats:?}");
        },
    ];
    for end in ends {
        let prefix = flavour.thread_prefix();
        let (results, probe, ()) = end_while_busy(flavour.pool(workers()), QUEUED, end);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        probe.assert_all_dropped(QUEUED);
        assert_no_threads(prefix);
    }
});

scenario!(shutdown_ran_everything_when_it_returns, |flavour| {
    // Jobs that submit jobs until the pool is closed: those accepted are done with at the end.
    fn breed(pool: &Weak<WorkerPool>, accepted: &Arc<AtomicUsize>, probe: &Probe) {
        let (inner, count, child_probe) = (pool.clone(), Arc::clone(accepted), probe.clone());
        let captured = probe.capture();
        let child = move || {
            captured.run();
            breed(&inner, &count, &child_probe);
        };
        // An owner here keeps the pool open; it is given up at once.
        let Some(pool) = pool.upgrade() else { return };
        if pool.execute(child).is_ok() {
            accepted.fetch_add(1, Ordering::SeqCst);
        }
    }
    let pool = flavour.pool(workers());
    let (probe, accepted) = (Probe::new(), Arc::new(AtomicUsize::new(0)));
    (0..8).for_each(|_| breed(&Arc::downgrade(&pool), &accepted, &probe));
    eventually("the jobs have children", || probe.ran() > 100);
    pool.close();
    pool.wait_idle();
    // Whichever owner was the last one: nothing more was accepted, and it all ran.
    let accepted = accepted.load(Ordering::SeqCst);
    assert_eq!(probe.ran(), accepted);
    eventually("the last refused job is dropped", || {
        probe.dropped() == probe.created()
    });
    eventually("no job owns the pool", || Arc::strong_count(&pool) == 1);
    assert_eq!(pool.stats().completed, accepted as u64);
    finish(pool);
});

scenario!(shutdown_now_cancels_exactly_what_is_queued, |flavour| {
    for (workers, queued) in [(1, 100), (1, 1), (1, 0), (workers(), 100)] {
        let pool = flavour.pool(workers);
        let held = hold_workers(&pool, workers);
        let probe = Probe::new();
        let jobs: Vec<_> = (0..queued)
            .map(|_| pool.submit(probe.job()).unwrap())
            .collect();
        let pool = owned(pool);
        let ended = thread::spawn(|| pool.shutdown_now());
        // Every handle resolves while all workers are still held.
        for job in jobs {
            assert_matches!(job.join(), Err(JobError::Cancelled));
        }
        eventually("the captures are dropped", || probe.dropped() == queued);
        held.release();
        assert_eq!(ended.join().unwrap(), queued);
        probe.assert_all_dropped(0);
    }
});

scenario!(cancel_queued_counts_and_leaves_the_pool_open, |flavour| {
    let pool = flavour.pool(workers());
    let probe = Probe::new();
    for round in 0..20 {
        let held = hold_workers(&pool, workers());
        let jobs: Vec<_> = (0..round)
            .map(|_| pool.submit(probe.job()).unwrap())
            .collect();
        assert_eq!(pool.cancel_queued(), round);
        assert_eq!(pool.cancel_queued(), 0);
        for job in jobs {
            assert_matches!(job.join(), Err(JobError::Cancelled));
        }
        let late = pool.submit(|| 1).unwrap();
        held.release();
        assert_eq!(late.join().unwrap(), 1);
    }
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(shutdown_timeout_says_what_it_left_behind, |flavour| {
    for (workers, queued) in [(1, 0), (1, 50), (workers(), 0), (workers(), 50)] {
        for timeout in [Duration::ZERO, Duration::from_millis(2)] {
            let pool = flavour.pool(workers);
            let held = hold_workers(&pool, workers);
            let probe = Probe::new();
            let jobs: Vec<_> = (0..queued)
                .map(|_| pool.submit(probe.job()).unwrap())
                .collect();
            let error = owned(pool)
                .shutdown_timeout(timeout)
                .expect_err("the workers are held");
            assert_eq!(
                (error.discarded(), error.running()),
                (queued, workers),
                "{error}"
            );
            for job in jobs {
                assert_matches!(job.join(), Err(JobError::Discarded));
            }
            probe.assert_all_dropped(0);
            // What runs finishes, detached, and its handles tell.
            held.release();
        }
    }
});

scenario!(
    a_shutdown_timeout_that_races_the_jobs_tells_what_became_of_them,
    |flavour| {
        let mut dice = Dice::new(3);
        for round in 0..rounds(2_000) {
            let workers = 1 + round % 2;
            let pool = flavour.pool(workers);
            let probe = Probe::new();
            let queued = dice.roll(20) as usize;
            let submit = |_| pool.submit(probe.job()).unwrap();
            let jobs: Vec<_> = (0..queued).map(submit).collect();
            let timeout = Duration::from_nanos(dice.roll(20_000));
            let end = owned(pool).shutdown_timeout(timeout);
            let outcomes: Vec<_> = jobs.into_iter().map(JobHandle::join).collect();
            let discarded = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            match end {
                Ok(()) => assert_eq!(discarded, 0),
                Err(error) => {
                    assert_eq!(error.discarded(), discarded);
                    assert!(error.running() <= workers, "{error}");
                }
            }
            probe.assert_all_dropped(queued - discarded);
        }
    }
);

scenario!(a_shutdown_timeout_long_enough_is_a_shutdown, |flavour| {
    for timeout in [Duration::from_secs(1_000), Duration::MAX] {
        let end = move |pool: WorkerPool| pool.shutdown_timeout(timeout);
        let (results, probe, end) = end_while_busy(flavour.pool(2), 50, end);
        end.expect("there is time enough");
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        probe.assert_all_dropped(50);
    }
});

/// Submits in one of four ways. Whether it was accepted; a refused closure runs on the spot.
fn submit_somehow(pool: &WorkerPool, dice: &mut Dice, job: impl FnOnce() + Send + 'static) -> bool {
    let outcome = match dice.roll(4) {
        0 => pool.execute(job),
        1 => pool.submit(job).map(drop),
        2 => pool.try_submit(job).map(drop),
        _ => pool
            .submit_timeout(Duration::from_secs(1_000), job)
            .map(drop),
    };
    let Err(error) = outcome else { return true };
    assert_matches!(error.reason(), Rejected::ShutDown | Rejected::Full);
    error.into_job()();
    false
}

scenario!(submitters_race_close, |flavour| {
    const SUBMITTERS: usize = 8;
    for queue_limit in [None, Some(1), Some(64)] {
        for round in 0..rounds(200) {
            let builder = flavour.builder().workers(workers());
            let pool = flavour.build(match queue_limit {
                None => builder,
                Some(limit) => builder.queue_limit(limit),
            });
            let (probe, accepted, closed) = (Probe::new(), Counter::new(), AtomicBool::new(false));
            thread::scope(|scope| {
                for submitter in 0..SUBMITTERS {
                    let (pool, probe, accepted, closed) = (&pool, &probe, &accepted, &closed);
                    let mut dice = Dice::new((round * SUBMITTERS + submitter) as u64);
                    scope.spawn(move || {
                        // The first one to get there closes, in the midst of the others.
                        for _ in 0..dice.roll(100) {
                            // Read before the submit, which must then be refused.
                            let was_closed = closed.load(Ordering::SeqCst);
                            if submit_somehow(pool, &mut dice, probe.job()) {
                                assert!(!was_closed, "accepted after close");
                                accepted.bump();
                            }
                        }
                        pool.close();
                        closed.store(true, Ordering::SeqCst);
                        let is_accepted = submit_somehow(pool, &mut dice, probe.job());
                        assert!(!is_accepted, "accepted after close");
                    });
                }
            });
            pool.wait_idle();
            let stats = pool.stats();
            assert_eq!(stats.submitted, accepted.get() as u64, "{stats:?}");
            assert_eq!(stats.completed, stats.submitted, "{stats:?}");
            // Refused ones ran as well, at home: each closure exactly once.
            probe.assert_all_dropped(probe.created());
            finish(pool);
        }
    }
});

scenario!(several_owners_end_a_pool_at_once, |flavour| {
    for round in 0..rounds(500) {
        let pool = flavour.pool(1 + round % 3);
        let probe = Probe::new();
        let jobs: Vec<_> = (0..50).map(|_| pool.submit(probe.job()).unwrap()).collect();
        let inside = Arc::clone(&pool);
        let leaver = pool.submit(move || {
            inside.close();
            assert_matches!(refused(inside.submit(|| ())).0, Rejected::ShutDown);
            assert!(!inside.wait_idle_timeout(Duration::ZERO));
            inside.cancel_queued()
        });
        let owners: Vec<_> = (0..6).map(|_| Arc::clone(&pool)).collect();
        let all_at_it = Barrier::new(owners.len() + 1);
        let cancelled: usize = thread::scope(|scope| {
            let start = |(i, pool): (usize, Arc<WorkerPool>)| {
                let all_at_it = &all_at_it;
                scope.spawn(move || {
                    all_at_it.wait();
                    let cancelled = match i % 3 {
                        0 => 0,
                        1 => pool.cancel_queued(),
                        _ => {
                            pool.wait_idle();
                            0
                        }
                    };
                    pool.close();
                    assert_matches!(refused(pool.try_submit(|| ())).0, Rejected::ShutDown);
                    let after = pool.cancel_queued();
                    pool.wait_idle();
                    // The phase never goes back, whatever the others do meanwhile.
                    assert_matches!(refused(pool.submit(|| ())).0, Rejected::ShutDown);
                    cancelled + after
                })
            };
            let threads: Vec<_> = owners.into_iter().enumerate().map(start).collect();
            all_at_it.wait();
            drop(pool);
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        // The leaver may have been cancelled itself.
        let (leaver, itself) = match leaver.unwrap().join() {
            Ok(cancelled) => (cancelled, 0),
            Err(error) => (0, usize::from(error.is_cancelled())),
        };
        let outcomes: Vec<_> = jobs.into_iter().map(JobHandle::join).collect();
        let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert!(
            outcomes
                .iter()
                .flat_map(|outcome| outcome.as_ref().err())
                .all(is_cancelled)
        );
        assert_eq!(lost + itself, cancelled + leaver);
        probe.assert_all_dropped(50 - lost);
    }
});

fn is_cancelled(error: &JobError) -> bool {
    error.is_cancelled()
}

scenario!(threads_are_gone_when_the_end_returns, |flavour| {
    let ends: [fn(WorkerPool); 3] = [drop, WorkerPool::shutdown, |pool| _ = pool.shutdown_now()];
    for end in ends {
        let stopped: Arc<Mutex<Vec<usize>>> = Arc::default();
        let stops = Arc::clone(&stopped);
        let hook = move |slot| stops.lock().unwrap().push(slot);
        let builder = flavour.builder().workers(workers()).on_thread_stop(hook);
        let (_, _, ()) = end_while_busy(flavour.build(builder), 10, end);
        let mut stopped = std::mem::take(&mut *stopped.lock().unwrap());
        stopped.sort_unstable();
        assert!(
            stopped.into_iter().eq(0..workers()),
            "each slot's thread has stopped once"
        );
    }
});
