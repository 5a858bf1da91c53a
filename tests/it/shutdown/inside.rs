//! A pool that ends on one of its own threads: in a job, with a job's captures, in a hook.

use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::Duration;

use fairlane::{JobError, JobHandle, PanicPolicy, WorkerPool};

use super::owned;
use crate::common::{
    Counter, Flavour, Gate, Probe, assert_no_threads, eventually, finish, scenario, workers,
};

/// Hands the last owner of a pool with `QUEUED` jobs waiting to one of its own jobs, which gives
/// it up by `leave`. What became of the others, and what `leave` returned.
fn leave_from_inside<T: Send + 'static>(
    flavour: &Flavour,
    workers: usize,
    leave: impl FnOnce(WorkerPool) -> T + Send + 'static,
) -> (Vec<Result<(), JobError>>, T) {
    const QUEUED: usize = 50;
    let pool = flavour.pool(workers);
    let probe = Probe::new();
    let (sender, last_owner) = mpsc::channel();
    let leaver = pool
        .submit(move || leave(owned(last_owner.recv().unwrap())))
        .unwrap();
    let jobs: Vec<_> = (0..QUEUED)
        .map(|_| pool.submit(probe.job()).unwrap())
        .collect();
    sender.send(pool).unwrap();
    let left = leaver.join().expect("the job survives its pool");
    let outcomes: Vec<_> = jobs.into_iter().map(JobHandle::join).collect();
    probe.assert_all_dropped(outcomes.iter().filter(|outcome| outcome.is_ok()).count());
    assert_no_threads(flavour.thread_prefix());
    (outcomes, left)
}

scenario!(the_last_owner_is_dropped_inside_a_job, |flavour| {
    for workers in [1, workers()] {
        for leave in [drop, WorkerPool::shutdown] as [fn(WorkerPool); 2] {
            let (outcomes, ()) = leave_from_inside(flavour, workers, leave);
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        }
    }
});

scenario!(the_last_owner_goes_with_the_captures_of_a_job, |flavour| {
    for workers in [1, workers()] {
        let pool = flavour.pool(workers);
        let probe = Probe::new();
        let (sender, release) = mpsc::channel::<()>();
        let captured = Arc::clone(&pool);
        let holder = pool.submit(move || {
            release.recv().unwrap();
            // Captured, and dropped when the closure is.
            captured.workers()
        });
        let jobs: Vec<_> = (0..50).map(|_| pool.submit(probe.job()).unwrap()).collect();
        drop(pool);
        sender.send(()).unwrap();
        assert_eq!(holder.unwrap().join().unwrap(), workers);
        jobs.into_iter().for_each(|job| job.join().unwrap());
        probe.assert_all_dropped(50);
    }
});

scenario!(the_last_owner_goes_with_a_detached_result, |flavour| {
    for workers in [1, workers()] {
        let pool = flavour.pool(workers);
        let (sender, last_owner) = mpsc::channel::<Arc<WorkerPool>>();
        drop(pool.submit(move || last_owner.recv().unwrap()).unwrap());
        let job = pool.submit(|| 1).unwrap();
        sender.send(pool).unwrap();
        assert_eq!(job.join().unwrap(), 1);
        assert_no_threads(flavour.thread_prefix());
    }
});

scenario!(the_last_owner_is_dropped_inside_a_join, |flavour| {
    let pool = flavour.pool(1);
    let (sender, last_owner) = mpsc::channel::<Arc<WorkerPool>>();
    let parent = pool.submit(move || {
        let pool = last_owner.recv().unwrap();
        let (sender, last_owner) = mpsc::channel();
        let child = pool.submit(move || drop::<Arc<WorkerPool>>(last_owner.recv().unwrap()));
        let late = pool.submit(|| 1).unwrap();
        sender.send(pool).unwrap();
        child.unwrap().join().unwrap();
        // The pool is closed by now; what it had accepted still counts.
        late.join()
    });
    sender.send(pool).unwrap();
    assert_eq!(parent.unwrap().join().unwrap().unwrap(), 1);
});

scenario!(shutdown_now_inside_a_job_cancels_the_others, |flavour| {
    for workers in [1, workers()] {
        let (outcomes, count) = leave_from_inside(flavour, workers, WorkerPool::shutdown_now);
        let cancelled = |outcome: &&Result<_, _>| matches!(outcome, Err(JobError::Cancelled));
        assert_eq!(outcomes.iter().filter(cancelled).count(), count);
        assert_eq!(
            outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
            50 - count
        );
        assert!(
            workers > 1 || count == 50,
            "the only worker was busy, yet {count} of 50"
        );
    }
});

scenario!(shutdown_timeout_inside_a_job_does_not_wait, |flavour| {
    for workers in [1, workers()] {
        for timeout in [Duration::ZERO, Duration::MAX] {
            let leave = move |pool: WorkerPool| _ = pool.shutdown_timeout(timeout);
            // It cannot wait for itself; the others run or are discarded, and all are told.
            let (outcomes, ()) = leave_from_inside(flavour, workers, leave);
            let told = |outcome| matches!(outcome, &Ok(()) | &Err(JobError::Discarded));
            assert!(outcomes.iter().all(told), "{outcomes:?}");
        }
    }
});

/// What a hook can do to the pool it belongs to: nothing of it may hang or kill the thread.
fn call_into(pool: &WorkerPool) {
    assert_eq!(pool.workers(), pool.stats().slots.len());
    pool.execute(|| ()).ok();
    pool.try_submit(|| ()).ok();
    if let Ok(job) = pool.submit(|| 1) {
        // On the pool's own thread, perhaps its only one: the join has to run it.
        assert_eq!(job.join().unwrap(), 1);
    }
    assert!(!pool.wait_idle_timeout(Duration::MAX));
}

scenario!(hooks_call_into_the_pool, |flavour| {
    const PANICS: usize = 3;
    for workers in [1, workers()] {
        let cell: Arc<OnceLock<Weak<WorkerPool>>> = Arc::default();
        let (starts, stops) = (Counter::new(), Counter::new());
        let hook = |calls: &Counter| {
            let (cell, calls) = (Arc::clone(&cell), calls.clone());
            move |_| {
                // Unset in the first threads' start, gone in the last threads' stop.
                let pool = cell.get().and_then(Weak::upgrade);
                if let Some(pool) = &pool {
                    call_into(pool);
                }
                drop(pool);
                calls.bump();
            }
        };
        let policy = PanicPolicy::Restart {
            max_restarts: PANICS as u32,
        };
        let builder = flavour.builder().workers(workers).on_panic(policy);
        let builder = builder
            .on_thread_start(hook(&starts))
            .on_thread_stop(hook(&stops));
        let pool = flavour.build(builder);
        starts.wait_for(workers);
        cell.set(Arc::downgrade(&pool)).unwrap();
        for fresh in 1..=PANICS {
            let job = pool
                .submit(|| panic!("this thread is to be replaced"))
                .unwrap();
            assert!(job.join().unwrap_err().is_panic());
            starts.wait_for(workers + fresh);
            assert_eq!(pool.submit(|| 2).unwrap().join().unwrap(), 2);
        }
        eventually("the hooks gave up the pool", || {
            Arc::strong_count(&pool) == 1
        });
        finish(pool);
        assert_eq!(starts.get(), workers + PANICS);
        assert!(
            stops.get() >= workers,
            "{} threads have stopped",
            stops.get()
        );
    }
});

scenario!(a_start_hook_drops_the_last_owner, |flavour| {
    let cell: Arc<Mutex<Option<Arc<WorkerPool>>>> = Arc::default();
    let (starts, for_hook, given) = (Counter::new(), Arc::clone(&cell), Gate::new());
    let (calls, is_given) = (starts.clone(), given.clone());
    let hook = move |_| {
        calls.bump();
        if calls.get() > 1 {
            is_given.wait();
            drop(for_hook.lock().unwrap().take());
        }
    };
    let policy = PanicPolicy::Restart { max_restarts: 1 };
    let pool = flavour.build(
        flavour
            .builder()
            .workers(1)
            .on_panic(policy)
            .on_thread_start(hook),
    );
    starts.wait_for(1);
    let panics = pool
        .submit(|| panic!("this thread is to be replaced"))
        .unwrap();
    let job = pool.submit(|| 1).unwrap();
    assert!(panics.join().unwrap_err().is_panic());
    *cell.lock().unwrap() = Some(pool);
    given.open();
    assert_eq!(job.join().unwrap(), 1);
    assert!(cell.lock().unwrap().is_none());
});
