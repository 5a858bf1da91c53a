//! What wakes a submitter that waits for room, while every worker stays busy.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobError, JobHandle, PanicPolicy, Rejected, WorkerPool};

use super::{fill, limited};
use crate::common::{
    Gate, Probe, assert_matches, finish, hold_workers, refused, scenario, spawn_blocked,
};

/// What makes room for a blocked submitter, or wakes it for another reason, while every worker of
/// the pool stays busy. It is given the pool and the job that fills its queue.
type Event = fn(&WorkerPool, &JobHandle<()>);

scenario!(a_cancel_makes_room_for_a_blocked_submitter, |flavour| {
    let events: [Event; 2] = [
        |_, queued| assert!(queued.cancel()),
        // The one that comes in meanwhile may be met as well.
        |pool, _| assert!((1..=2).contains(&pool.cancel_queued())),
    ];
    let pool = limited(flavour, 2, 1);
    let held = hold_workers(&pool, 2);
    let probe = Probe::new();
    for (event, timeout) in events
        .into_iter()
        .flat_map(|event| [(event, false), (event, true)])
    {
        let queued = fill(&pool, &probe).pop().unwrap();
        let waited = thread::scope(|scope| {
            let _guard = held.open_on_panic();
            let submitter = spawn_blocked(scope, || match timeout {
                false => pool.submit(probe.job()),
                true => pool.submit_timeout(Duration::MAX, probe.job()),
            });
            event(&pool, &queued);
            submitter.join().unwrap()
        });
        assert_matches!(queued.join(), Err(JobError::Cancelled));
        let waited = waited.expect("there was room");
        waited.cancel();
        assert_matches!(waited.join(), Err(JobError::Cancelled));
    }
    probe.assert_all_dropped(0);
    held.release();
    finish(pool);
});

scenario!(room_for_several_goes_to_several, |flavour| {
    const LIMIT: usize = 10;
    let pool = limited(flavour, 1, LIMIT);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = fill(&pool, &probe);
    let (jobs, cancelled) = thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let submit = |_| spawn_blocked(scope, || pool.submit(probe.job()).unwrap());
        let submitters: Vec<_> = (0..LIMIT).map(submit).collect();
        let cancelled = pool.cancel_queued();
        let join = |submitter: thread::ScopedJoinHandle<'_, _>| submitter.join().unwrap();
        let jobs: Vec<JobHandle<()>> = submitters.into_iter().map(join).collect();
        (jobs, cancelled)
    });
    held.release();
    assert!(
        queued
            .into_iter()
            .all(|job| job.join().unwrap_err().is_cancelled())
    );
    // Those that came in while it cancelled may have been met as well.
    let late = jobs.into_iter().filter_map(|job| job.join().err());
    assert_eq!(
        late.filter(JobError::is_cancelled).count(),
        cancelled - LIMIT
    );
    probe.assert_all_dropped(2 * LIMIT - cancelled);
    finish(pool);
});

scenario!(who_waits_is_served_first_come_first_served, |flavour| {
    const SUBMITTERS: usize = 12;
    let pool = limited(flavour, 1, 1);
    let held = hold_workers(&pool, 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |i: usize| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(i)
    };
    pool.execute(note(0)).unwrap();
    thread::scope(|scope| {
        let held = held;
        for i in 1..=SUBMITTERS {
            let (pool, job) = (&pool, note(i));
            spawn_blocked(scope, move || match i % 3 {
                0 => pool.execute(job).unwrap(),
                1 => drop(pool.submit(job).unwrap()),
                _ => drop(pool.submit_timeout(Duration::MAX, job).unwrap()),
            });
        }
        held.release();
    });
    pool.wait_idle();
    assert_eq!(*order.lock().unwrap(), Vec::from_iter(0..=SUBMITTERS));
    finish(pool);
});

scenario!(one_that_gives_up_holds_nobody_up, |flavour| {
    let pool = limited(flavour, 1, 1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = fill(&pool, &probe).pop().unwrap();
    let token = CancelToken::new();
    let behind = thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let first = spawn_blocked(scope, || {
            pool.job().cancel_token(&token).submit(probe.job())
        });
        let behind = spawn_blocked(scope, || pool.submit(probe.job()).unwrap());
        token.cancel();
        let first = first
            .join()
            .unwrap()
            .expect("the handle says that it was cancelled");
        assert_matches!(first.join(), Err(JobError::Cancelled));
        assert!(!behind.is_finished(), "there is no room yet");
        assert!(queued.cancel());
        behind.join().unwrap()
    });
    held.release();
    behind.join().unwrap();
    probe.assert_all_dropped(1);
    finish(pool);
});

scenario!(a_token_or_a_deadline_wakes_a_blocked_submitter, |flavour| {
    let pool = limited(flavour, 1, 1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = fill(&pool, &probe).pop().unwrap();
    for parent in [false, true] {
        let root = CancelToken::new();
        let token = if parent { root.child() } else { root.clone() };
        let job = thread::scope(|scope| {
            let _guard = held.open_on_panic();
            let submit = || pool.job().cancel_token(&token).submit(probe.job()).unwrap();
            let submitter = spawn_blocked(scope, submit);
            root.cancel();
            submitter.join().unwrap()
        });
        assert_matches!(job.join(), Err(JobError::Cancelled));
    }
    let soon = Instant::now() + Duration::from_millis(2);
    let job = pool.job().deadline(soon).submit(probe.job()).unwrap();
    assert_matches!(job.join(), Err(JobError::Expired));
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.cancelled, stats.expired),
        (5, 2, 1),
        "{stats:?}"
    );
    assert_eq!((stats.queued, stats.running), (1, 1), "{stats:?}");
    held.release();
    queued.join().unwrap();
    probe.assert_all_dropped(1);
    finish(pool);
});

scenario!(close_wakes_every_blocked_submitter, |flavour| {
    let pool = limited(flavour, 1, 1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let queued = fill(&pool, &probe).pop().unwrap();
    thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let submit = |i: usize| {
            let (pool, job) = (&pool, probe.job());
            spawn_blocked(scope, move || match i % 3 {
                0 => refused(pool.submit(job)),
                1 => refused(pool.execute(job)),
                _ => refused(pool.submit_timeout(Duration::MAX, job)),
            })
        };
        let submitters: Vec<_> = (0..9).map(submit).collect();
        pool.close();
        for submitter in submitters {
            let (reason, job) = submitter.join().unwrap();
            assert_matches!(reason, Rejected::ShutDown);
            job();
        }
    });
    held.release();
    queued.join().expect("accepted before the close");
    probe.assert_all_dropped(10);
    finish(pool);
});

scenario!(the_last_slot_retired_wakes_every_submitter, |flavour| {
    let policy = PanicPolicy::Restart { max_restarts: 0 };
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1).on_panic(policy));
    let (begun, gate) = (Gate::new(), Gate::new());
    let panics = pool.submit({
        let (begun, gate) = (begun.clone(), gate.clone());
        move || {
            begun.open();
            gate.wait();
            panic!("there is no budget for this");
        }
    });
    begun.wait();
    let probe = Probe::new();
    let queued = fill(&pool, &probe).pop().unwrap();
    thread::scope(|scope| {
        let gate = gate;
        let submit = |_| spawn_blocked(scope, || refused(pool.submit(probe.job())).0);
        let submitters: Vec<_> = (0..5).map(submit).collect();
        gate.open();
        for submitter in submitters {
            assert_matches!(submitter.join().unwrap(), Rejected::RestartExhausted);
        }
    });
    assert!(panics.unwrap().join().unwrap_err().is_panic());
    assert_matches!(queued.join(), Err(JobError::Discarded));
    assert_matches!(refused(pool.submit(|| ())).0, Rejected::RestartExhausted);
    pool.wait_idle();
    probe.assert_all_dropped(0);
    finish(pool);
});
