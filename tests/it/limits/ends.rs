//! How jobs in lanes end otherwise than by running, and that no token is lost over it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobError, JobHandle, PanicPolicy, Rejected, WorkerPool};

use super::{Waits, assert_all_tokens_work};
use crate::common::{
    Counter, Dice, Flavour, Gate, Probe, assert_matches, eventually, hold_workers, refused, rounds,
};
use crate::fairness::{by_strategy, finish_gated};

/// A panic without its message in the test's output.
pub(super) fn panics() {
    std::panic::resume_unwind(Box::new("as asked"))
}

/// Fills the lanes of three tenants.
fn fill_lanes(pool: &WorkerPool, probe: &Probe, jobs: usize) -> Vec<JobHandle<()>> {
    let submit = |i: usize| {
        let job = pool
            .job()
            .tenant(["a", "b", "c"][i % 3])
            .priority(i as i32 % 4);
        job.submit(probe.job()).unwrap()
    };
    (0..jobs).map(submit).collect()
}

/// How a pool is built whose last slot is retired by the first panic, or not.
fn restarting(
    flavour: &Flavour,
    workers: usize,
    limit: usize,
    max_restarts: u32,
) -> Arc<WorkerPool> {
    let policy = PanicPolicy::Restart { max_restarts };
    let builder = flavour.builder().workers(workers).concurrency(limit);
    flavour.build(builder.on_panic(policy))
}

by_strategy!(panics_cost_no_token, |flavour| {
    let panicking = 1_000;
    for (workers, concurrency) in [(4, 4), (4, 2), (1, 1)] {
        for restart in [false, true] {
            let pool = match restart {
                true => restarting(flavour, workers, concurrency, panicking as u32),
                false => flavour.build(flavour.builder().workers(workers).concurrency(concurrency)),
            };
            let capped = pool.tenant("capped").with_max_running(1);
            for i in 0..panicking {
                match i % 3 {
                    0 => capped.execute(panics).unwrap(),
                    1 => drop(pool.submit(panics).unwrap()),
                    _ => pool.job().tenant(format!("{i}")).execute(panics).unwrap(),
                }
                if i % 50 == 0 {
                    assert_all_tokens_work(&pool, concurrency);
                }
            }
            pool.wait_idle();
            let stats = pool.stats();
            assert_eq!(stats.panicked, panicking as u64);
            assert_eq!(stats.workers, workers);
            for _ in 0..20 {
                assert_all_tokens_work(&pool, concurrency);
            }
            drop(capped);
            finish_gated(pool);
        }
    }
});

by_strategy!(tokens_outlive_the_slots_that_retire, |flavour| {
    for concurrency in [4, 2] {
        let pool = restarting(flavour, 4, concurrency, 0);
        for left in (1..4).rev() {
            assert_matches!(
                pool.submit(panics).unwrap().join(),
                Err(JobError::Panicked(_))
            );
            eventually("a slot retires", || pool.stats().workers == left);
            // As many run at once as there are threads and tokens, and others queue behind them.
            for _ in 0..20 {
                assert_all_tokens_work(&pool, concurrency.min(left));
            }
            let probe = Probe::new();
            let jobs = fill_lanes(&pool, &probe, 300);
            jobs.into_iter().for_each(|job| job.join().unwrap());
            probe.assert_all_dropped(300);
        }
        finish_gated(pool);
    }
});

by_strategy!(with_no_slot_left_the_lanes_are_discarded, |flavour| {
    for (workers, concurrency) in [(1, 1), (3, 3), (3, 1)] {
        let pool = restarting(flavour, workers, concurrency, 2);
        let (probe, gate, begun) = (Probe::new(), Gate::new(), Counter::new());
        // Every one of them panics; the budget and the slots are used up exactly.
        let panicking = 2 + workers;
        for i in 0..panicking {
            let (gate, begun) = (gate.clone(), begun.clone());
            let job = pool.job().priority(100 - i as i32);
            let panics = move || {
                begun.bump();
                gate.wait();
                panics();
            };
            job.execute(panics).unwrap();
        }
        begun.wait_for(concurrency);
        // Behind them and of other tenants; those would get their turn, so they are held.
        let jobs = fill_lanes(&pool, &probe, 0);
        let late: Vec<_> = (0..100)
            .map(|_| pool.job().priority(-1).submit(probe.job()).unwrap())
            .collect();
        gate.open();
        for job in jobs.into_iter().chain(late) {
            assert_matches!(job.join(), Err(JobError::Discarded));
        }
        eventually("no slot is left", || pool.stats().workers == 0);
        let (reason, job) = refused(pool.job().tenant("a").submit(probe.job()));
        assert_matches!(reason, Rejected::RestartExhausted);
        drop(job);
        let tenant = pool.tenant("b").with_queue_limit(1);
        assert_matches!(refused(tenant.submit(|| ())).0, Rejected::RestartExhausted);
        drop(tenant);
        pool.wait_idle();
        let stats = pool.stats();
        assert_eq!(
            (stats.panicked, stats.discarded),
            (panicking as u64, 100),
            "{stats:?}"
        );
        probe.assert_all_dropped(0);
        assert_eq!(stats.tenants, []);
        // A token may stay with a slot that nobody serves any more.
        drop(pool);
    }
});

by_strategy!(submitters_race_the_last_slot, |flavour| {
    for round in 0..rounds(300) {
        let pool = restarting(flavour, 1 + round % 2, 1, 0);
        let probe = Probe::new();
        let accepted: usize = thread::scope(|scope| {
            let submit = |_| {
                let (pool, probe) = (&pool, &probe);
                scope.spawn(move || {
                    let submit = |i: usize| {
                        let job = pool.job().tenant(format!("{}", i % 3));
                        job.submit(probe.job()).ok()
                    };
                    let jobs: Vec<_> = (0..20).map_while(submit).collect();
                    jobs.into_iter()
                        .map(JobHandle::join)
                        .filter(|result| {
                            assert!(matches!(result, Ok(()) | Err(JobError::Discarded)));
                            true
                        })
                        .count()
                })
            };
            let submitters: Vec<_> = (0..2).map(submit).collect();
            for _ in 0..1 + round % 2 {
                let _ = pool.submit(panics);
            }
            submitters
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        eventually("no slot is left", || pool.stats().workers == 0);
        pool.wait_idle();
        let stats = pool.stats();
        assert_eq!(
            stats.submitted - stats.panicked,
            accepted as u64,
            "{stats:?}"
        );
        probe.assert_all_dropped(stats.completed as usize);
        drop(pool);
    }
});

by_strategy!(full_lanes_are_cancelled_as_one, |flavour| {
    for (workers, concurrency) in [(1, 1), (3, 2)] {
        let pool = flavour.build(flavour.builder().workers(workers).concurrency(concurrency));
        let probe = Probe::new();
        for _ in 0..3 {
            let capped = pool.tenant("a").with_max_running(1);
            let held = hold_workers(&pool, concurrency);
            let jobs = fill_lanes(&pool, &probe, 1_000);
            assert_eq!(pool.cancel_queued(), 1_000);
            assert_eq!(pool.cancel_queued(), 0);
            assert_eq!(
                probe.dropped(),
                probe.created(),
                "captures are dropped at once"
            );
            assert_eq!(pool.stats().queued, 0);
            for job in jobs {
                assert_matches!(job.join(), Err(JobError::Cancelled));
            }
            // Lanes and limits are as good as new.
            let jobs = fill_lanes(&pool, &probe, 10);
            held.release();
            jobs.into_iter().for_each(|job| job.join().unwrap());
            drop(capped);
            assert_all_tokens_work(&pool, concurrency);
        }
        probe.assert_all_dropped(30);
        finish_gated(pool);
    }
});

by_strategy!(shutdown_now_cancels_what_is_in_the_lanes, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).fair());
    let (probe, waits) = (Probe::new(), Waits::new());
    let capped = pool.tenant("a").with_max_running(1);
    let running: Vec<_> = (0..2).map(|_| pool.submit(waits.job()).unwrap()).collect();
    waits.begun.wait_for(2);
    let jobs = fill_lanes(&pool, &probe, 100);
    let pool = Arc::into_inner(pool).unwrap();
    let cancelled = thread::scope(|scope| {
        let ends = scope.spawn(|| pool.shutdown_now());
        // What is queued resolves before what runs has ended.
        for job in jobs {
            assert_matches!(job.join(), Err(JobError::Cancelled));
        }
        waits.gate.open();
        ends.join().unwrap()
    });
    assert_eq!(cancelled, 100);
    running.into_iter().for_each(|job| job.join().unwrap());
    probe.assert_all_dropped(0);
    assert_matches!(refused(capped.submit(|| ())).0, Rejected::ShutDown);
});

by_strategy!(
    a_shutdown_that_times_out_discards_what_is_in_the_lanes,
    |flavour| {
        let pool = flavour.build(flavour.builder().workers(3).concurrency(2));
        let (probe, waits) = (Probe::new(), Waits::new());
        let running: Vec<_> = (0..2).map(|_| pool.submit(waits.job()).unwrap()).collect();
        waits.begun.wait_for(2);
        let jobs = fill_lanes(&pool, &probe, 100);
        let pool = Arc::into_inner(pool).unwrap();
        let expired = pool.shutdown_timeout(Duration::ZERO).unwrap_err();
        assert_eq!((expired.discarded(), expired.running()), (100, 2));
        for job in jobs {
            assert_matches!(job.join(), Err(JobError::Discarded));
        }
        probe.assert_all_dropped(0);
        waits.gate.open();
        running.into_iter().for_each(|job| job.join().unwrap());
    }
);

by_strategy!(a_shutdown_finishes_what_is_in_the_lanes, |flavour| {
    for by_timeout in [false, true] {
        let pool = flavour.build(flavour.builder().workers(2).fair());
        let probe = Probe::new();
        let capped = pool.tenant("a").with_max_running(1);
        let held = hold_workers(&pool, 2);
        let jobs = fill_lanes(&pool, &probe, 1_000);
        held.open();
        let pool = Arc::into_inner(pool).unwrap();
        match by_timeout {
            true => pool.shutdown_timeout(Duration::MAX).unwrap(),
            false => pool.shutdown(),
        }
        probe.assert_all_dropped(1_000);
        jobs.into_iter().for_each(|job| job.join().unwrap());
        drop((capped, held));
    }
});

by_strategy!(a_closed_pool_runs_what_is_in_the_lanes, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).concurrency(1));
    let probe = Probe::new();
    let held = hold_workers(&pool, 1);
    let jobs = fill_lanes(&pool, &probe, 100);
    pool.close();
    assert_matches!(
        refused(pool.job().tenant("a").submit(|| ())).0,
        Rejected::ShutDown
    );
    assert_matches!(
        refused(pool.tenant("a").execute(|| ())).0,
        Rejected::ShutDown
    );
    assert_eq!(pool.stats().queued, 100);
    held.release();
    jobs.into_iter().for_each(|job| job.join().unwrap());
    probe.assert_all_dropped(100);
    finish_gated(pool);
});

by_strategy!(submitters_race_close_and_nothing_is_lost, |flavour| {
    for round in 0..rounds(300) {
        let builder = flavour.builder().workers(2).concurrency(1 + round % 2);
        let pool = flavour.build(match round % 3 {
            0 => builder.queue_limit(2),
            _ => builder,
        });
        let limited = pool.tenant("limited").with_queue_limit(1);
        let probe = Probe::new();
        let (accepted, returned) = (Counter::new(), Counter::new());
        let start = Barrier::new(5);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    loop {
                        let submitted = match round % 2 {
                            0 => limited.execute(probe.job()),
                            _ => pool.job().tenant("other").execute(probe.job()),
                        };
                        match submitted {
                            Ok(()) => accepted.bump(),
                            Err(error) => {
                                assert_eq!(error.reason(), Rejected::ShutDown);
                                drop(error.into_job());
                                returned.bump();
                                return;
                            }
                        }
                    }
                });
            }
            start.wait();
            accepted.wait_for(round % 7);
            pool.close();
        });
        pool.wait_idle();
        assert_eq!(returned.get(), 4);
        assert_eq!(pool.stats().submitted, accepted.get() as u64);
        probe.assert_all_dropped(accepted.get());
        drop(limited);
        finish_gated(pool);
    }
});

by_strategy!(all_who_wait_for_idle_return_and_none_early, |flavour| {
    let pool = flavour.build(flavour.builder().workers(3).concurrency(2));
    let capped = pool.tenant("capped").with_max_running(1);
    for round in 0..rounds(300) {
        let (probe, held) = (Probe::new(), hold_workers(&pool, 1));
        let mut jobs = fill_lanes(&pool, &probe, 20);
        jobs.extend((0..5).map(|_| capped.submit(probe.job()).unwrap()));
        let start = Barrier::new(5);
        thread::scope(|scope| {
            let _guard = held.open_on_panic();
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    pool.wait_idle();
                    assert_eq!(probe.dropped(), 25, "all effects are there");
                });
            }
            start.wait();
            assert!(!pool.wait_idle_timeout(Duration::ZERO));
            match round % 3 {
                0 => assert!(jobs.pop().is_some_and(|job| {
                    job.cancel();
                    true
                })),
                1 => drop(pool.cancel_queued()),
                _ => {}
            }
            held.open();
        });
        held.release();
    }
    drop(capped);
    finish_gated(pool);
});

by_strategy!(one_token_cancels_a_hundred_thousand_in_lanes, |flavour| {
    const JOBS: usize = 100_000;
    let pool = flavour.build(flavour.builder().workers(2).fair());
    let (probe, token) = (Probe::new(), CancelToken::new());
    let held = hold_workers(&pool, 2);
    let mut handles = Vec::new();
    for i in 0..JOBS {
        let job = pool
            .job()
            .tenant(format!("tenant {}", i % 1_000))
            .priority(i as i32 % 5);
        let child = if i % 2 == 0 {
            token.clone()
        } else {
            token.child()
        };
        let job = job.cancel_token(&child);
        match i % 3 {
            0 => handles.push(job.submit(probe.job()).unwrap()),
            _ => job.execute(probe.job()).unwrap(),
        }
    }
    let survivor = pool.job().tenant("tenant 7").submit(|| ()).unwrap();
    assert_eq!(pool.stats().queued, JOBS + 1);
    token.cancel();
    probe.assert_all_dropped(0);
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.cancelled), (1, JOBS as u64));
    assert_eq!(
        stats.tenants.len(),
        2,
        "the survivor's and that of the held jobs"
    );
    for job in handles {
        assert_matches!(job.join(), Err(JobError::Cancelled));
    }
    held.release();
    survivor.join().unwrap();
    assert_all_tokens_work(&pool, 2);
    finish_gated(pool);
});

by_strategy!(expired_jobs_in_lanes_make_way, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).fair());
    let capped = pool.tenant("a").with_max_running(1);
    for _ in 0..rounds(200) {
        let (probe, held) = (Probe::new(), hold_workers(&pool, 2));
        let soon = Instant::now() + Duration::from_micros(500);
        let late: Vec<_> = (0..30)
            .map(|i| {
                let job = pool.job().tenant(["a", "b", "c"][i % 3]).priority(1);
                job.deadline(soon).submit(probe.job()).unwrap()
            })
            .collect();
        let on_time = fill_lanes(&pool, &Probe::new(), 6);
        eventually("the deadline passes", || soon <= Instant::now());
        held.release();
        on_time.into_iter().for_each(|job| job.join().unwrap());
        for job in late {
            assert_matches!(job.join(), Err(JobError::Expired));
        }
        probe.assert_all_dropped(0);
    }
    pool.wait_idle();
    drop(capped);
    assert_all_tokens_work(&pool, 2);
    finish_gated(pool);
});

by_strategy!(tokens_survive_everything_at_once, |flavour| {
    let pool = restarting(flavour, 3, 2, 10_000);
    let probe = Probe::new();
    let ended = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..3 {
            let (pool, probe, ended) = (&pool, &probe, &ended);
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                for _ in 0..rounds(5_000) {
                    let token = CancelToken::new();
                    let mut job = pool.job().tenant(format!("{}", dice.roll(6)));
                    job = job.priority(dice.roll(3) as i32).cancel_token(&token);
                    if dice.roll(4) == 0 {
                        job = job.deadline(Instant::now() + Duration::from_micros(dice.roll(100)));
                    }
                    let (captured, panics_too) = (probe.capture(), dice.roll(6) == 0);
                    let handle = job.submit(move || {
                        captured.run();
                        if panics_too {
                            panics();
                        }
                    });
                    match dice.roll(5) {
                        0 => drop(handle.unwrap().cancel()),
                        1 => token.cancel(),
                        2 => drop(handle.unwrap().join()),
                        3 if dice.roll(20) == 0 => drop(pool.cancel_queued()),
                        _ => {}
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    pool.wait_idle();
    let stats = pool.stats();
    assert_eq!(stats.submitted, ended.load(Ordering::SeqCst) as u64);
    probe.assert_all_dropped((stats.completed + stats.panicked) as usize);
    assert_eq!(stats.workers, 3);
    for _ in 0..20 {
        assert_all_tokens_work(&pool, 2);
    }
    finish_gated(pool);
});
