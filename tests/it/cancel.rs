//! Cancelling: by handle, by token, by the lot. What was cancelled while queued never runs and is
//! gone at once; what has begun is not touched.

mod tokens;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use fairlane::{CancelToken, JobError, JobHandle};

use crate::common::*;
use crate::panics::workers_meet;

scenario!(a_cancelled_job_is_gone_at_once, |flavour| {
    let pool = flavour.pool(2);
    let held = hold_workers(&pool, 2);
    let probe = Probe::new();
    let jobs: Vec<_> = (0..10).map(|_| pool.submit(probe.job()).unwrap()).collect();
    assert_eq!(pool.stats().queued, 10);
    for (i, job) in jobs.iter().enumerate() {
        assert!(!job.is_finished());
        assert!(job.cancel());
        assert!(job.is_finished());
        // No worker was free, so it is the canceller who cleared up.
        assert_eq!(probe.dropped(), i + 1);
        let stats = pool.stats();
        let pending: usize = stats.slots.iter().map(|slot| slot.pending).sum();
        let wanted = (9 - i, 2, flavour.pending(9 - i, 2));
        assert_eq!((stats.queued, stats.running, pending), wanted);
        assert_eq!(stats.cancelled, i as u64 + 1);
        assert!(job.cancel(), "still true: it never ran and never will");
    }
    assert_eq!(pool.stats().cancelled, 10, "counted once each");
    for job in jobs {
        let error = job.join().unwrap_err();
        assert_matches!(error, JobError::Cancelled);
        assert!(error.is_cancelled() && !error.is_panic());
    }
    held.release();
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(what_has_begun_is_not_cancelled, |flavour| {
    let pool = flavour.pool(1);
    let (gate, begun) = (Gate::new(), Gate::new());
    let (waits, begins) = (gate.clone(), begun.clone());
    let job = pool.submit(move || {
        begins.open();
        waits.wait();
        5
    });
    let job = job.unwrap();
    begun.wait();
    assert!(!job.cancel());
    assert_eq!(pool.cancel_queued(), 0);
    assert!(!job.is_finished());
    gate.open();
    pool.wait_idle();
    assert!(job.is_finished());
    assert!(!job.cancel(), "it ran");
    assert_eq!(job.join().unwrap(), 5);
    assert_eq!(pool.stats().cancelled, 0);
    finish(pool);
});

scenario!(the_others_run, |flavour| {
    // 2 and then 1 of 1, 2, 3, and every other subset in both directions.
    let pool = flavour.pool(1);
    for cancelled in 0..8_usize {
        for backwards in [false, true] {
            let held = hold_workers(&pool, 1);
            let ran = Arc::new(AtomicUsize::new(0));
            let submit = |i: usize| {
                let ran = Arc::clone(&ran);
                pool.submit(move || ran.fetch_or(1 << i, Ordering::SeqCst))
                    .unwrap()
            };
            let jobs: Vec<_> = (0..3).map(submit).collect();
            let mut chosen: Vec<_> = (0..3).filter(|i| cancelled & (1 << i) != 0).collect();
            if backwards {
                chosen.reverse();
            }
            assert!(chosen.iter().all(|&i| jobs[i].cancel()));
            held.release();
            pool.wait_idle();
            assert_eq!(ran.load(Ordering::SeqCst), 7 & !cancelled);
        }
    }
    finish(pool);
});

scenario!(cancel_queued_takes_all_that_waits, |flavour| {
    let pool = flavour.pool(2);
    let held = hold_workers(&pool, 2);
    let probe = Probe::new();
    let token = CancelToken::new();
    let mut jobs = Vec::new();
    for _ in 0..50 {
        jobs.push(pool.submit(probe.job()).unwrap());
        jobs.push(pool.job().cancel_token(&token).submit(probe.job()).unwrap());
        pool.execute(probe.job()).unwrap();
        drop(pool.submit(probe.job()).unwrap());
    }
    assert!(jobs.pop().unwrap().cancel());
    assert_eq!(
        pool.cancel_queued(),
        199,
        "what was cancelled before does not count"
    );
    assert_eq!(pool.cancel_queued(), 0);
    assert_eq!(probe.dropped(), 200);
    token.cancel();
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.running, stats.cancelled), (0, 2, 200));
    for job in jobs {
        assert_matches!(job.join(), Err(JobError::Cancelled));
    }
    held.release();
    // The pool is as open as before.
    workers_meet(&pool, 2);
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(dropping_a_handle_detaches, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let jobs: Vec<_> = (0..100)
        .map(|_| pool.submit(probe.job()).unwrap())
        .collect();
    drop(jobs);
    held.release();
    pool.wait_idle();
    probe.assert_all_dropped(100);
    finish(pool);
});

scenario!(a_job_cancels_others_from_inside, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let (sender, receiver) = mpsc::channel::<JobHandle<()>>();
    let probe = Probe::new();
    let canceller = pool
        .submit(move || receiver.iter().all(|job| job.cancel()))
        .unwrap();
    for _ in 0..100 {
        sender.send(pool.submit(probe.job()).unwrap()).unwrap();
    }
    drop(sender);
    held.release();
    assert!(canceller.join().unwrap());
    pool.wait_idle();
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(a_job_cannot_cancel_itself, |flavour| {
    let pool = flavour.pool(1);
    let (sender, receiver) = mpsc::channel::<JobHandle<()>>();
    let (answer, cancelled) = mpsc::channel();
    let job = pool.submit(move || {
        let me = receiver.recv().unwrap();
        answer.send((me.cancel(), me.is_finished())).unwrap();
    });
    sender.send(job.unwrap()).unwrap();
    assert_eq!(cancelled.recv().unwrap(), (false, false));
    pool.wait_idle();
    assert_eq!(pool.stats().completed, 1);
    finish(pool);
});

/// Cancels each of `n` jobs while the workers take them, from `cancellers` threads, and checks
/// that each answer was the truth.
fn race_cancels(flavour: &Flavour, n: usize, cancellers: usize) {
    let pool = flavour.pool(2);
    const BATCH: usize = 1_000;
    for _ in 0..n.div_ceil(BATCH) {
        let ran: Arc<[AtomicBool]> = (0..BATCH).map(|_| AtomicBool::new(false)).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..cancellers)
            .map(|_| mpsc::channel::<(usize, JobHandle<()>)>())
            .unzip();
        let mut answers = thread::scope(|scope| {
            let cancel = |receiver: mpsc::Receiver<(usize, JobHandle<()>)>| {
                let answer = |(i, job): (usize, JobHandle<()>)| (i, job.cancel(), job);
                scope.spawn(move || receiver.iter().map(answer).collect::<Vec<_>>())
            };
            let threads: Vec<_> = receivers.into_iter().map(cancel).collect();
            for i in 0..BATCH {
                let runs = Arc::clone(&ran);
                let job = pool.submit(move || runs[i].store(true, Ordering::SeqCst));
                senders[i % cancellers].send((i, job.unwrap())).unwrap();
            }
            drop(senders);
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        pool.wait_idle();
        assert_eq!(answers.len(), BATCH);
        for (i, cancelled, job) in answers.drain(..) {
            assert_eq!(ran[i].load(Ordering::SeqCst), !cancelled);
            assert_eq!(job.cancel(), cancelled, "the answer stays");
            match job.join() {
                Ok(()) => assert!(!cancelled),
                Err(JobError::Cancelled) => assert!(cancelled),
                Err(other) => panic!("{other}"),
            }
        }
    }
    finish(pool);
}

scenario!(cancels_race_starts, |flavour| {
    race_cancels(flavour, rounds(500_000), 1);
});

scenario!(cancels_from_many_threads_race_starts, |flavour| {
    race_cancels(flavour, rounds(500_000), 3);
});

scenario!(racing_a_completion_leaves_the_next_job_alone, |flavour| {
    let pool = flavour.pool(1);
    let next = Arc::new(AtomicUsize::new(0));
    let n = rounds(200_000);
    for round in 0..n {
        let token = CancelToken::new();
        let by_token = pool.job().cancel_token(&token).submit(|| ()).unwrap();
        let by_handle = pool.submit(|| ()).unwrap();
        let runs = Arc::clone(&next);
        let job = pool
            .submit(move || runs.fetch_add(1, Ordering::SeqCst))
            .unwrap();
        if round % 2 == 0 {
            thread::yield_now();
        }
        by_handle.cancel();
        token.cancel();
        drop((by_token, by_handle));
        assert_eq!(job.join().unwrap(), round);
    }
    assert_eq!(next.load(Ordering::SeqCst), n);
    finish(pool);
});

scenario!(handles_cancelled_twice_at_once, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let jobs: Vec<_> = (0..1_000)
        .map(|_| pool.submit(probe.job()).unwrap())
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| assert!(jobs.iter().all(JobHandle::cancel)));
        scope.spawn(|| assert!(jobs.iter().rev().all(JobHandle::cancel)));
        scope.spawn(|| pool.cancel_queued());
    });
    assert_eq!(pool.stats().cancelled, 1_000);
    assert_eq!(pool.stats().queued, 0);
    held.release();
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(masses_cancelled_in_any_order_are_freed, |flavour| {
    let pool = flavour.pool(2);
    let n = rounds(200_000);
    let orders: [fn(&mut Vec<JobHandle<()>>); 3] = [
        |_jobs| (),
        |jobs| jobs.reverse(),
        |jobs| {
            let mut dice = Dice::new(7);
            for i in (1..jobs.len()).rev() {
                jobs.swap(i, dice.roll(i as u64 + 1) as usize);
            }
        },
    ];
    for order in orders {
        let held = hold_workers(&pool, 2);
        let probe = Probe::new();
        let submit = |_| {
            let (ballast, job) = (Box::new([0_u8; 1024]), probe.job());
            let job = pool.submit(move || {
                assert_eq!(ballast[1023], 0);
                job();
            });
            job.unwrap()
        };
        let mut jobs: Vec<_> = (0..n).map(submit).collect();
        order(&mut jobs);
        assert!(jobs.iter().all(JobHandle::cancel));
        assert_eq!(probe.dropped(), n, "freed before any worker was free");
        let stats = pool.stats();
        assert_eq!((stats.queued, stats.running), (0, 2));
        held.release();
        probe.assert_all_dropped(0);
    }
    finish(pool);
});
