//! Deadlines and timeouts. There is no timer thread: a deadline is seen by the worker that would
//! start the job and by whoever joins or polls. Nothing here measures how long anything takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobBuilder, JobError, JobHandle, Rejected, WorkerPool};

use crate::common::*;
use crate::drops::{passed, soon, wait_past};
use crate::panics::workers_meet;

const LONG: Duration = Duration::from_secs(100_000);

scenario!(a_deadline_passed_at_submit, |flavour| {
    let pool = flavour.pool(1);
    let probe = Probe::new();
    let job = pool.job().deadline(passed()).submit(probe.job()).unwrap();
    assert_matches!(job.join(), Err(JobError::Expired));
    pool.job().deadline(passed()).execute(probe.job()).unwrap();
    drop(
        pool.job()
            .deadline(passed())
            .try_submit(probe.job())
            .unwrap(),
    );
    drop(
        pool.job()
            .deadline(passed())
            .submit_timeout(LONG, probe.job())
            .unwrap(),
    );
    pool.wait_idle();
    probe.assert_all_dropped(0);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.expired, stats.queued), (4, 4, 0));
    finish(pool);
});

scenario!(a_deadline_passes_while_queued, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let (expires, runs) = (Probe::new(), Probe::new());
    let soon = soon();
    let mut jobs = Vec::new();
    for _ in 0..10 {
        jobs.push(pool.job().deadline(soon).submit(expires.job()).unwrap());
        pool.job().deadline(soon).execute(expires.job()).unwrap();
        pool.execute(runs.job()).unwrap();
        pool.job()
            .deadline(Instant::now() + LONG)
            .execute(runs.job())
            .unwrap();
    }
    wait_past(soon);
    held.release();
    pool.wait_idle();
    expires.assert_all_dropped(0);
    runs.assert_all_dropped(20);
    for job in jobs {
        assert!(job.is_finished());
        assert!(job.cancel(), "it never ran and never will");
        let error = job.join().unwrap_err();
        assert_matches!(error, JobError::Expired);
        assert!(!error.is_panic());
    }
    let stats = pool.stats();
    assert_eq!((stats.expired, stats.cancelled), (20, 0));
    finish(pool);
});

/// Lets a queued job's deadline pass while every worker is busy, and asks `observe` for the end.
fn expires_under(flavour: &Flavour, observe: fn(JobHandle<()>) -> Result<(), JobError>) {
    let pool = flavour.pool(2);
    let held = hold_workers(&pool, 2);
    let probe = Probe::new();
    let job = pool.job().deadline(soon()).submit(probe.job()).unwrap();
    assert_matches!(observe(job), Err(JobError::Expired));
    // The workers are still busy: whoever looked has settled it.
    assert_eq!(probe.dropped(), 1);
    let stats = pool.stats();
    let pending: usize = stats.slots.iter().map(|slot| slot.pending).sum();
    assert_eq!(
        (stats.expired, stats.queued, stats.running, pending),
        (1, 0, 2, 2)
    );
    held.release();
    workers_meet(&pool, 2);
    probe.assert_all_dropped(0);
    finish(pool);
}

scenario!(a_joiner_sees_a_deadline_pass, |flavour| {
    expires_under(flavour, JobHandle::join);
});

scenario!(a_timed_joiner_sees_a_deadline_pass, |flavour| {
    expires_under(flavour, |job| {
        job.join_timeout(Duration::MAX).expect("for ever")
    });
    expires_under(flavour, |job| job.join_timeout(LONG).expect("long enough"));
    expires_under(flavour, |mut job| {
        loop {
            match job.join_timeout(Duration::from_millis(1)) {
                Ok(outcome) => return outcome,
                Err(again) => job = again,
            }
        }
    });
});

scenario!(a_poller_sees_a_deadline_pass, |flavour| {
    expires_under(flavour, |job| {
        eventually("the deadline passes", || job.is_finished());
        job.join()
    });
});

scenario!(a_joining_job_sees_a_deadline_pass, |flavour| {
    // Inside the pool, too: the child has expired when its parent comes to run it.
    let pool = flavour.pool(1);
    let weak = Arc::downgrade(&pool);
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let soon = soon();
        let child = pool.job().deadline(soon).submit(|| ()).unwrap();
        wait_past(soon);
        matches!(child.join(), Err(JobError::Expired))
    });
    assert!(parent.unwrap().join().unwrap());
    finish(pool);
});

scenario!(a_deadline_does_not_touch_what_has_begun, |flavour| {
    let pool = flavour.pool(1);
    let begun = Gate::new();
    let begins = begun.clone();
    // Late enough for the job to begin, or it expires and is submitted anew.
    let job = loop {
        let begins = begins.clone();
        let soon = soon();
        let job = pool.job().deadline(soon).submit(move || {
            begins.open();
            wait_past(soon);
            11
        });
        match job.unwrap().join() {
            Err(JobError::Expired) => continue,
            outcome => break outcome,
        }
    };
    begun.wait();
    assert_eq!(job.unwrap(), 11);
    finish(pool);
});

scenario!(deadlines_far_away_and_both_at_once, |flavour| {
    let pool = flavour.pool(1);
    // As far as the clock can express, to the second.
    let mut far = Instant::now();
    for exponent in (0..63).rev() {
        far = far
            .checked_add(Duration::from_secs(1 << exponent))
            .unwrap_or(far);
    }
    assert_eq!(
        pool.job()
            .deadline(far)
            .submit(|| 1)
            .unwrap()
            .join()
            .unwrap(),
        1
    );
    let held = hold_workers(&pool, 1);
    let job = pool.job().deadline(far).submit(|| 1).unwrap();
    let Err(job) = job.join_timeout(Duration::from_millis(1)) else {
        panic!("it is queued")
    };
    let token = CancelToken::new();
    let both = pool
        .job()
        .cancel_token(&token)
        .deadline(far)
        .submit(|| 2)
        .unwrap();
    token.cancel();
    assert_matches!(both.join(), Err(JobError::Cancelled));
    held.release();
    assert_eq!(job.join().unwrap(), 1);
    finish(pool);
});

scenario!(precedence_at_submit, |flavour| {
    let token = CancelToken::new();
    token.cancel();
    let passed = passed();
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = pool.submit(probe.job()).unwrap();

    type Attempt = fn(&JobBuilder<'_>, &Probe) -> Result<JobHandle<()>, Rejected>;
    let submits: [Attempt; 3] = [
        |job, probe| Ok(job.clone().try_submit(probe.job())?),
        |job, probe| Ok(job.clone().submit_timeout(Duration::ZERO, probe.job())?),
        |job, probe| {
            Ok(job
                .clone()
                .submit_timeout(Duration::from_millis(1), probe.job())?)
        },
    ];
    let full = pool.job();
    let cancelled = pool.job().cancel_token(&token);
    let expired = pool.job().deadline(passed);
    let both = pool.job().deadline(passed).cancel_token(&token);
    for submit in submits {
        assert_matches!(submit(&full, &probe), Err(Rejected::Full));
        assert_matches!(
            submit(&cancelled, &probe).unwrap().join(),
            Err(JobError::Cancelled)
        );
        assert_matches!(
            submit(&expired, &probe).unwrap().join(),
            Err(JobError::Expired)
        );
        assert_matches!(
            submit(&both, &probe).unwrap().join(),
            Err(JobError::Cancelled)
        );
    }
    let (reason, _job) = refused(pool.try_submit(|| ()));
    assert_matches!(reason, Rejected::Full);
    // These never wait for room, since they need none.
    assert_matches!(
        cancelled.clone().submit(|| ()).unwrap().join(),
        Err(JobError::Cancelled)
    );
    assert_matches!(
        expired.clone().submit(|| ()).unwrap().join(),
        Err(JobError::Expired)
    );
    assert_matches!(
        both.clone().submit(|| ()).unwrap().join(),
        Err(JobError::Cancelled)
    );
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.cancelled, stats.expired),
        (14, 8, 4)
    );

    pool.close();
    for job in [&full, &cancelled, &expired, &both] {
        for submit in submits {
            assert_matches!(submit(job, &probe), Err(Rejected::ShutDown));
        }
        let (reason, _job) = refused(job.clone().submit(probe.job()));
        assert_matches!(reason, Rejected::ShutDown);
        let (reason, _job) = refused(job.clone().execute(probe.job()));
        assert_matches!(reason, Rejected::ShutDown);
    }
    assert_eq!(
        pool.stats().submitted,
        14,
        "a refused job was never submitted"
    );
    held.release();
    queued.join().unwrap();
    probe.assert_all_dropped(1);
    finish(pool);
});

scenario!(a_waiting_submit_is_woken_by_token_and_deadline, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = pool.submit(probe.job()).unwrap();
    let token = CancelToken::new();
    thread::scope(|scope| {
        let submits = [
            scope.spawn(|| pool.job().cancel_token(&token).submit(probe.job())),
            scope.spawn(|| pool.job().cancel_token(&token.child()).submit(probe.job())),
            scope.spawn(|| {
                let job = pool.job().cancel_token(&token);
                job.submit_timeout(Duration::MAX, probe.job())
            }),
        ];
        token.cancel();
        for submit in submits {
            let job = submit
                .join()
                .unwrap()
                .expect("the handle says so, not the submit");
            assert_matches!(job.join(), Err(JobError::Cancelled));
        }
    });
    let job = pool.job().deadline(soon()).submit(probe.job()).unwrap();
    assert_matches!(job.join(), Err(JobError::Expired));
    let job = pool
        .job()
        .deadline(soon())
        .submit_timeout(LONG, probe.job())
        .unwrap();
    assert_matches!(job.join(), Err(JobError::Expired));
    pool.job().deadline(soon()).execute(probe.job()).unwrap();
    // The timeout comes first: nothing was accepted.
    let job = pool.job().deadline(Instant::now() + LONG);
    let (reason, job) = refused(job.submit_timeout(Duration::from_millis(1), probe.job()));
    assert_matches!(reason, Rejected::Full);

    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.cancelled, stats.expired), (8, 3, 3));
    held.release();
    queued.join().unwrap();
    drop(job);
    probe.assert_all_dropped(1);
    finish(pool);
});

scenario!(join_timeout_gives_the_handle_back, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let mut job = pool.submit(|| 8).unwrap();
    for timeout in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(1),
    ] {
        job = match job.join_timeout(timeout) {
            Err(job) => job,
            Ok(outcome) => panic!("the workers are busy, but {outcome:?}"),
        };
    }
    assert!(!job.is_finished());
    held.open();
    let Ok(outcome) = job.join_timeout(Duration::MAX) else {
        panic!("for ever")
    };
    assert_eq!(outcome.unwrap(), 8);
    held.release();

    // ZERO is a poll, and finds what is there.
    let finished = pool.submit(|| 9).unwrap();
    pool.wait_idle();
    let Ok(outcome) = finished.join_timeout(Duration::ZERO) else {
        panic!("it is finished")
    };
    assert_eq!(outcome.unwrap(), 9);
    finish(pool);
});

scenario!(join_timeouts_leak_no_slot, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    let held = hold_workers(&pool, n);
    let probe = Probe::new();
    for round in 0..rounds(10_000) {
        let job = pool.submit(probe.job()).unwrap();
        let timeout = Duration::from_nanos(round as u64 % 3 * 1_000);
        let Err(job) = job.join_timeout(timeout) else {
            panic!("the workers are busy")
        };
        if round % 2 == 0 {
            assert!(job.cancel());
        }
    }
    held.release();
    workers_meet(&pool, n);
    pool.wait_idle();
    probe.assert_all_dropped(rounds(10_000) / 2);
    finish(pool);
});

scenario!(join_timeout_never_runs_the_job, |flavour| {
    let pool = flavour.pool(1);
    let weak = Arc::downgrade(&pool);
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let mut child = pool
            .submit(move || runs.store(true, Ordering::SeqCst))
            .unwrap();
        for timeout in [Duration::ZERO, Duration::from_millis(1)] {
            let Err(back) = child.join_timeout(timeout) else {
                panic!("nobody could run it")
            };
            assert!(!ran.load(Ordering::SeqCst));
            child = back;
        }
        child.join().unwrap();
        ran.load(Ordering::SeqCst)
    });
    assert!(parent.unwrap().join().unwrap());
    finish(pool);
});

scenario!(zero_and_max_in_every_timeout, |flavour| {
    let builder = || flavour.builder().workers(1).queue_limit(1);
    let pool = flavour.build(builder());
    for timeout in [Duration::ZERO, Duration::MAX] {
        let job = pool.submit_timeout(timeout, || 1).unwrap();
        assert_eq!(job.join().unwrap(), 1);
        let job = pool.job().submit_timeout(timeout, || 2).unwrap();
        assert_eq!(job.join().unwrap(), 2);
        pool.wait_idle();
        assert!(pool.wait_idle_timeout(timeout));
    }
    let held = hold_workers(&pool, 1);
    assert!(!pool.wait_idle_timeout(Duration::ZERO));
    pool.execute(|| ()).unwrap();
    let (reason, job) = refused(pool.submit_timeout(Duration::ZERO, || 3));
    assert_matches!(reason, Rejected::Full);
    thread::scope(|scope| {
        let idle = scope.spawn(|| pool.wait_idle_timeout(Duration::MAX));
        let submitted = scope.spawn(|| pool.submit_timeout(Duration::MAX, job).unwrap().join());
        held.open();
        assert_eq!(submitted.join().unwrap().unwrap(), 3);
        assert!(idle.join().unwrap());
    });
    held.release();
    pool.wait_idle();
    let pool = Arc::into_inner(pool).unwrap();
    assert!(pool.shutdown_timeout(Duration::MAX).is_ok());

    let idle = builder().build().unwrap();
    let _ = idle.shutdown_timeout(Duration::ZERO);

    let busy = builder().build().unwrap();
    let held = hold_workers(&busy, 1);
    let queued = busy.submit(|| ()).unwrap();
    let error = busy.shutdown_timeout(Duration::ZERO).unwrap_err();
    assert_eq!((error.discarded(), error.running()), (1, 1));
    assert!(!error.to_string().is_empty());
    assert!(queued.cancel(), "it never ran and never will");
    assert_matches!(queued.join(), Err(JobError::Discarded));
    held.release();
});

scenario!(wait_idle_timeout_inside_a_job_is_false, |flavour| {
    let pool = flavour.pool(1);
    let (sender, receiver) = mpsc::channel();
    let weak = Arc::downgrade(&pool);
    let ask = move |pool: &WorkerPool| {
        for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
            sender.send(pool.wait_idle_timeout(timeout)).unwrap();
        }
    };
    pool.execute(move || ask(&weak.upgrade().unwrap())).unwrap();
    pool.wait_idle();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [false; 3]);
    finish(pool);
});

scenario!(many_deadlines_at_once, |flavour| {
    // Half of the jobs race their deadline: each runs or expires, and never both.
    let pool = flavour.pool(2);
    let probe = Probe::new();
    let start = Instant::now();
    let submit = |i: u32| {
        let job = pool.job();
        let deadline = start + Duration::from_micros(10) * i;
        let job = if i % 2 == 0 {
            job.deadline(deadline)
        } else {
            job
        };
        job.submit(probe.job()).unwrap()
    };
    let jobs: Vec<_> = (0..rounds(20_000) as u32).map(submit).collect();
    let (mut ran, mut expired) = (0, 0);
    for job in jobs {
        match job.join() {
            Ok(()) => ran += 1,
            Err(JobError::Expired) => expired += 1,
            Err(other) => panic!("{other}"),
        }
    }
    pool.wait_idle();
    probe.assert_all_dropped(ran);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.expired), (ran as u64, expired));
    finish(pool);
});

scenario!(timeouts_that_race_the_result_lose_nothing, |flavour| {
    let pool = flavour.pool(2);
    let mut dice = Dice::new(11);
    let (mut round, mut late) = (0, 0);
    // Until a timeout was too short at least once.
    while round < rounds(20_000) || late == 0 {
        let result = Arc::new(round);
        let weak = Arc::downgrade(&result);
        let spins = dice.roll(200);
        let work = move || {
            (0..spins).for_each(|_| std::hint::spin_loop());
            result
        };
        let mut job = pool.submit(work).unwrap();
        let result = loop {
            match job.join_timeout(Duration::from_nanos(dice.roll(2_000))) {
                Ok(result) => break result.unwrap(),
                Err(handle) => {
                    late += 1;
                    job = handle;
                }
            }
        };
        assert_eq!((*result, weak.strong_count()), (round, 1));
        round += 1;
    }
    assert_eq!(pool.stats().completed, round as u64);
    finish(pool);
});
