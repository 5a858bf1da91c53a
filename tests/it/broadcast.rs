//! `broadcast`: once on each worker, whatever else goes on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use fairlane::{JobError, PanicPolicy, Rejected, WorkerLocal, WorkerPool};

use crate::common::*;
use crate::panics::{Bomb, payload, quiet_panic, workers_meet};

fn name() -> String {
    thread::current().name().unwrap().to_owned()
}

/// The results of a broadcast that was accepted and went well everywhere.
#[track_caller]
fn all<R: Send + 'static>(
    pool: &WorkerPool,
    f: impl Fn(usize) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let results = pool.broadcast(f).map_err(|refused| refused.reason());
    results.unwrap().into_iter().map(Result::unwrap).collect()
}

scenario!(once_on_each_worker, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    for round in 1..=20 {
        let names = all(&pool, |slot| (slot, name()));
        for (index, (slot, name)) in names.iter().enumerate() {
            let wanted = format!("{}-w{index}", flavour.thread_prefix());
            assert_eq!((*slot, name), (index, &wanted));
        }
        assert_eq!(names.len(), n);
        let stats = pool.stats();
        assert_eq!(stats.completed as usize, round * n);
        assert!(
            stats
                .slots
                .iter()
                .all(|slot| slot.completed as usize == round)
        );
    }
    finish(pool);
});

scenario!(results_are_those_of_each_worker, |flavour| {
    let pool = flavour.pool(3);
    let results = pool.broadcast(|slot| {
        if slot == 1 {
            quiet_panic("middle");
        }
        slot
    });
    let [first, middle, last] = results.unwrap().try_into().unwrap();
    assert_eq!((first.unwrap(), last.unwrap()), (0, 2));
    assert_eq!(payload(middle).message(), "middle");
    let bombs = pool.broadcast(|_| Bomb(1)).unwrap();
    assert_eq!(bombs.len(), 3);
    bombs.into_iter().for_each(crate::panics::defuse);
    workers_meet(&pool, 3);
    finish(pool);
});

scenario!(it_comes_before_what_is_queued, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = |text: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(text)
    };
    pool.execute(log("queued")).unwrap();
    let logs = log("broadcast");
    thread::scope(|scope| {
        let _open = held.open_on_panic();
        let broadcast = spawn_blocked(scope, || all(&pool, move |_| logs()).len());
        held.open();
        assert_eq!(broadcast.join().unwrap(), 1);
    });
    held.release();
    pool.wait_idle();
    assert_eq!(*order.lock().unwrap(), ["broadcast", "queued"]);
    finish(pool);
});

scenario!(inside_a_job_of_a_one_worker_pool, |flavour| {
    let pool = flavour.pool(1);
    let stranger_ran = Arc::new(AtomicBool::new(false));
    let (weak, runs) = (Arc::downgrade(&pool), Arc::clone(&stranger_ran));
    let job = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let seen = Arc::clone(&runs);
        pool.execute(move || runs.store(true, Ordering::SeqCst))
            .unwrap();
        let names = all(&pool, |_| name());
        (names == [name()], seen.load(Ordering::SeqCst))
    });
    assert_eq!(job.unwrap().join().unwrap(), (true, false));
    pool.wait_idle();
    assert!(stranger_ran.load(Ordering::SeqCst));
    finish(pool);
});

scenario!(inside_every_job_at_once, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    let barrier = Arc::new(Barrier::new(n));
    let f = {
        let weak = Arc::downgrade(&pool);
        move |_| {
            let pool = weak.upgrade().unwrap();
            barrier.wait();
            all(&pool, |_| name())
                .into_iter()
                .collect::<HashSet<_>>()
                .len()
        }
    };
    for seen in pool.map(0..4 * n, f).in_flight(n) {
        assert_eq!(seen.unwrap(), n);
    }
    pool.wait_idle();
    finish(pool);
});

scenario!(inside_a_broadcast, |flavour| {
    let pool = flavour.pool(3);
    let weak = Arc::downgrade(&pool);
    let sums = all(&pool, move |outer| {
        let pool = weak.upgrade().unwrap();
        all(&pool, move |inner| outer * inner)
            .into_iter()
            .sum::<usize>()
    });
    assert_eq!(sums, [0, 3, 6]);
    pool.wait_idle();
    finish(pool);
});

scenario!(no_limit_holds_it_back, |flavour| {
    let pool = flavour.build(flavour.builder().workers(3).concurrency(1));
    let barrier = Arc::new(Barrier::new(3));
    assert_eq!(all(&pool, move |_| _ = barrier.wait()).len(), 3);
    let tenant = pool.tenant("t").with_max_running(1);
    let job = tenant.submit(|| ()).unwrap();
    assert_eq!(all(&pool, |slot| slot), [0, 1, 2]);
    job.join().unwrap();
    drop(tenant);
    finish(pool);
});

scenario!(it_leaves_the_queue_limit_as_it_was, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).queue_limit(3));
    for _ in 0..5 {
        let held = hold_workers(&pool, 2);
        for _ in 0..3 {
            drop(pool.try_submit(|| ()).unwrap());
        }
        thread::scope(|scope| {
            let _open = held.open_on_panic();
            let broadcast = spawn_blocked(scope, || all(&pool, |slot| slot));
            assert_eq!(refused(pool.try_submit(|| ())).0, Rejected::Full);
            let waits = spawn_blocked(scope, || pool.execute(|| ()).unwrap());
            held.open();
            assert_eq!(broadcast.join().unwrap(), [0, 1]);
            waits.join().unwrap();
        });
        held.release();
        pool.wait_idle();
    }
    finish(pool);
});

scenario!(cancelled_with_what_is_queued, |flavour| {
    let pool = flavour.pool(2);
    let held = hold_workers(&pool, 2);
    let probe = Probe::new();
    let captured = probe.capture();
    thread::scope(|scope| {
        let _open = held.open_on_panic();
        let broadcast = spawn_blocked(scope, || pool.broadcast(move |_| captured.run()));
        assert_eq!(pool.stats().queued, 2);
        assert_eq!(pool.cancel_queued(), 2);
        let results = broadcast
            .join()
            .unwrap()
            .map_err(|refused| refused.reason());
        let is_cancelled = |result: Result<(), JobError>| result.unwrap_err().is_cancelled();
        assert!(results.unwrap().into_iter().all(is_cancelled));
    });
    probe.assert_all_dropped(0);
    held.release();
    finish(pool);
});

scenario!(a_closed_pool_finishes_it_and_takes_no_other, |flavour| {
    let pool = flavour.pool(2);
    let held = hold_workers(&pool, 2);
    thread::scope(|scope| {
        let _open = held.open_on_panic();
        let broadcast = spawn_blocked(scope, || all(&pool, |slot| slot));
        pool.close();
        let (reason, f) = refused(pool.broadcast(|slot| slot + 1));
        assert_eq!((reason, f(1)), (Rejected::ShutDown, 2));
        held.open();
        assert_eq!(broadcast.join().unwrap(), [0, 1]);
    });
    held.release();
    finish(pool);
});

scenario!(a_replaced_worker_leaves_it_to_the_next, |flavour| {
    let restart = PanicPolicy::Restart { max_restarts: 1 };
    let pool = flavour.build(flavour.builder().workers(1).on_panic(restart));
    let (begun, gate) = (Gate::new(), Gate::new());
    let (begins, waits) = (begun.clone(), gate.clone());
    let first = move || {
        begins.open();
        waits.wait();
        quiet_panic("the first thread ends")
    };
    pool.execute(first).unwrap();
    begun.wait();
    let results = thread::scope(|scope| {
        let broadcast = spawn_blocked(scope, || all(&pool, |_| thread::current().id()));
        gate.open();
        broadcast.join().unwrap()
    });
    assert_eq!(results, all(&pool, |_| thread::current().id()));
    // A panic in it counts like any other: this one retires the slot.
    let panicked = pool.broadcast(|_| quiet_panic("and the second")).unwrap();
    assert!(
        panicked
            .into_iter()
            .all(|result: Result<(), _>| result.unwrap_err().is_panic())
    );
    eventually("the slot is retired", || pool.stats().workers == 0);
    let (reason, _) = refused(pool.broadcast(|_| ()));
    assert_eq!(reason, Rejected::RestartExhausted);
    finish(pool);
});

scenario!(a_retired_slot_gives_nothing, |flavour| {
    let restart = PanicPolicy::Restart { max_restarts: 0 };
    let pool = flavour.build(flavour.builder().workers(2).on_panic(restart));
    let (begun, gate) = (Counter::new(), Gate::new());
    let lost = Arc::new(AtomicUsize::new(usize::MAX));
    for panics in [true, false] {
        let (begins, waits, loses) = (begun.clone(), gate.clone(), Arc::clone(&lost));
        let job = move || {
            begins.bump();
            waits.wait();
            if panics {
                let slot = name().ends_with("w1").into();
                loses.store(slot, Ordering::SeqCst);
                quiet_panic("and the slot is gone");
            }
        };
        pool.execute(job).unwrap();
    }
    begun.wait_for(2);
    let waiting = thread::scope(|scope| {
        let broadcast = spawn_blocked(scope, || pool.broadcast(|slot| slot).ok().unwrap());
        gate.open();
        broadcast.join().unwrap()
    });
    let after = pool.broadcast(|slot| slot).unwrap();
    let lost = lost.load(Ordering::SeqCst);
    for results in [waiting, after] {
        assert_eq!(results.len(), 2);
        assert_matches!(&results[lost], Err(JobError::Discarded));
        assert_eq!(*results[1 - lost].as_ref().unwrap(), 1 - lost);
    }
    finish(pool);
});

scenario!(resetting_what_each_worker_has, |flavour| {
    let pool = flavour.pool(2);
    let sum = WorkerLocal::new(|| 0);
    let adds = sum.clone();
    let n = pool
        .map(0..1_000, move |_| adds.with_mut(|sum| *sum += 1))
        .count();
    let takes = sum.clone();
    let sums = all(&pool, move |_| takes.with_mut(std::mem::take));
    assert_eq!(sums.into_iter().sum::<usize>(), n);
    assert_eq!(all(&pool, move |_| sum.with(|sum| *sum)), [0, 0]);
    finish(pool);
});

scenario!(racing_jobs_cancels_and_close, |flavour| {
    for round in 0..rounds(200) {
        let pool = flavour.build(flavour.builder().workers(3).queue_limit(20));
        let probe = Probe::new();
        let (inside, weak) = (Arc::new(AtomicUsize::new(0)), Arc::downgrade(&pool));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let captured = probe.capture();
                        let f = move |_| captured.run();
                        match pool.broadcast(f) {
                            Ok(results) => assert_eq!(results.len(), 3),
                            Err(refused) => assert_eq!(refused.reason(), Rejected::ShutDown),
                        }
                    }
                });
            }
            scope.spawn(|| {
                for i in 0..40 {
                    let (weak, counts) = (weak.clone(), Arc::clone(&inside));
                    let job = move || {
                        let Some(pool) = weak.upgrade().filter(|_| i % 4 == 0) else {
                            return;
                        };
                        if pool.broadcast(|_| ()).is_ok() {
                            counts.fetch_add(1, Ordering::SeqCst);
                        }
                    };
                    _ = pool.execute(job);
                }
            });
            scope.spawn(|| {
                thread::yield_now();
                pool.cancel_queued();
                if round % 2 == 0 {
                    pool.close();
                }
            });
        });
        pool.wait_idle();
        assert_eq!(probe.dropped(), probe.created());
        eventually("no job holds the pool", || Arc::strong_count(&pool) == 1);
        finish(pool);
    }
});

scenario!(from_a_start_hook, |flavour| {
    let (sender, receiver) = std::sync::mpsc::channel::<Arc<WorkerPool>>();
    let (receiver, sums) = (Mutex::new(receiver), Arc::new(Mutex::new(Vec::new())));
    let collects = Arc::clone(&sums);
    let hook = move |_| {
        let pool = receiver.lock().unwrap().recv().unwrap();
        let joined = pool.submit(|| 1).unwrap().join().unwrap();
        let sum = all(&pool, |slot| slot).into_iter().sum::<usize>();
        collects.lock().unwrap().push(joined + sum);
    };
    let pool = flavour.build(flavour.builder().workers(3).on_thread_start(hook));
    for _ in 0..3 {
        sender.send(Arc::clone(&pool)).unwrap();
    }
    eventually("each hook is done", || {
        Arc::strong_count(&pool) == 1 && *sums.lock().unwrap() == [4; 3]
    });
    finish(pool);
});

scenario!(as_captures_of_a_swept_job_are_dropped, |flavour| {
    struct Broadcasts(Arc<WorkerPool>, Held, Arc<AtomicUsize>);
    impl Drop for Broadcasts {
        fn drop(&mut self) {
            let Broadcasts(pool, held, seen) = self;
            held.open();
            seen.store(all(pool, |_| 1).len(), Ordering::SeqCst);
        }
    }
    let pool = flavour.pool(2);
    let seen = Arc::new(AtomicUsize::new(0));
    let (weak, counts) = (Arc::downgrade(&pool), Arc::clone(&seen));
    // The other worker is held until then, or it might run the job before it is swept.
    let held = hold_workers(&pool, 1);
    // The sweep is on a thread of the pool, which has to come to it in the midst of the sweep.
    let sweeps = move || {
        let pool = weak.upgrade().unwrap();
        let broadcasts = Broadcasts(Arc::clone(&pool), held, counts);
        let job = pool.submit(move || drop(broadcasts)).unwrap();
        assert_eq!(pool.cancel_queued(), 1);
        assert!(job.join().unwrap_err().is_cancelled());
    };
    pool.submit(sweeps).unwrap().join().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    eventually("no job holds the pool", || Arc::strong_count(&pool) == 1);
    finish(pool);
});
