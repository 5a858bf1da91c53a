//! How long things live: captures until the job is over, results until their handle is gone,
//! thread-locals until the threads are joined. What is forgotten lives for ever and holds nothing up.

use std::cell::RefCell;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use fairlane::{CancelToken, JobHandle, JobSet, Rejected, Tenant, WorkerPool};

use crate::common::*;
use crate::panics::panicking;

scenario!(an_idle_worker_keeps_nothing_of_its_last_job, |flavour| {
    let pool = flavour.pool(2);
    for round in 0..rounds(10_000) {
        let captured = Arc::new(round);
        let weak = Arc::downgrade(&captured);
        let job = pool.submit(move || {
            let used = &captured;
            **used
        });
        assert_eq!(job.unwrap().join().unwrap(), round);
        assert_eq!(
            weak.strong_count(),
            0,
            "captures are gone once join returns"
        );
    }

    let result = Arc::new(());
    let weak = Arc::downgrade(&result);
    let joined = pool.submit(move || result).unwrap().join().unwrap();
    assert_eq!(weak.strong_count(), 1, "the joiner has the only one");
    drop(joined);
    assert_eq!(weak.strong_count(), 0);

    let (result, captured) = (Arc::new(()), Arc::new(()));
    let weak = [Arc::downgrade(&result), Arc::downgrade(&captured)];
    let held = hold_workers(&pool, 2);
    drop(pool.submit(move || {
        let _used = &captured;
        result
    }));
    held.release();
    pool.wait_idle();
    assert!(
        weak.iter().all(|weak| weak.strong_count() == 0),
        "detached: gone once idle"
    );

    let thrown = Arc::new(());
    let weak = Arc::downgrade(&thrown);
    pool.execute(panicking(thrown)).unwrap();
    pool.wait_idle();
    assert_eq!(weak.strong_count(), 0, "a payload that nobody took");
    finish(pool);
});

scenario!(a_finished_result_lives_as_long_as_its_handle, |flavour| {
    let pool = flavour.pool(1);
    let result = Arc::new(());
    let weak = Arc::downgrade(&result);
    let handle = pool.submit(move || result).unwrap();
    pool.wait_idle();
    for _ in 0..100 {
        pool.submit(|| ()).unwrap().join().unwrap();
    }
    assert_eq!(weak.strong_count(), 1);
    drop(handle);
    assert_eq!(weak.strong_count(), 0, "gone with the handle, at once");

    // A handle may outlive its pool.
    let result = Arc::new(());
    let weak = Arc::downgrade(&result);
    let handle = pool.submit(move || result).unwrap();
    finish(pool);
    assert!(handle.is_finished());
    assert!(!handle.cancel());
    assert_eq!(weak.strong_count(), 1);
    drop(handle.join().unwrap());
    assert_eq!(weak.strong_count(), 0);
});

thread_local! {
    static LEAVES: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

scenario!(
    thread_locals_are_destroyed_when_shutdown_returns,
    |flavour| {
        let n = workers();
        type Stop = fn(Arc<WorkerPool>);
        let stops: [Stop; 4] = [
            |pool| Arc::into_inner(pool).unwrap().shutdown(),
            |pool| assert_eq!(Arc::into_inner(pool).unwrap().shutdown_now(), 0),
            |pool| {
                Arc::into_inner(pool)
                    .unwrap()
                    .shutdown_timeout(Duration::MAX)
                    .unwrap()
            },
            drop,
        ];
        for stop in stops {
            let pool = flavour.pool(n);
            let probe = Probe::new();
            let barrier = Arc::new(Barrier::new(n));
            for _ in 0..n {
                let (captured, barrier) = (probe.capture(), Arc::clone(&barrier));
                let job = move || {
                    LEAVES.set(Some(captured));
                    barrier.wait();
                };
                pool.execute(job).unwrap();
            }
            pool.wait_idle();
            assert_eq!(probe.dropped(), 0, "the threads live");
            stop(pool);
            assert_eq!(probe.dropped(), n);
        }
    }
);

/// Calls a closure when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0.take().unwrap())();
    }
}

thread_local! {
    static LAST_WORDS: RefCell<Option<OnDrop>> = const { RefCell::new(None) };
}

/// Has `act` called when this thread destroys its thread-locals.
fn at_the_end_of_this_thread(act: impl FnOnce() + 'static) {
    LAST_WORDS.set(Some(OnDrop(Some(Box::new(act)))));
}

scenario!(
    a_workers_thread_locals_may_use_pools_to_the_last,
    |flavour| {
        /// Uses whatever can be used without owning the pool, which is ending, and all of another one.
        fn use_all(own: &Tenant, finished: JobHandle<u32>, other: &WorkerPool) {
            assert_matches!(refused(own.try_submit(|| ())).0, Rejected::ShutDown);
            assert_matches!(refused(own.submit(|| ())).0, Rejected::ShutDown);
            assert!(finished.is_finished() && !finished.cancel());
            assert_eq!(finished.join().unwrap(), 7);
            assert_eq!(other.submit(|| 8).unwrap().join().unwrap(), 8);
            other.scope(|scope| scope.execute(|| ()).unwrap());
            other.wait_idle();
        }
        let (pool, other) = (flavour.pool(1), flavour.pool(1));
        let calls = Counter::new();
        let finished = pool.submit(|| 7).unwrap();
        pool.wait_idle();
        let (own, theirs, called) = (pool.tenant("last"), Arc::clone(&other), calls.clone());
        let leave = move || {
            at_the_end_of_this_thread(move || {
                use_all(&own, finished, &theirs);
                called.bump();
            });
        };
        pool.submit(leave).unwrap().join().unwrap();
        Arc::into_inner(pool).unwrap().shutdown();
        assert_eq!(calls.get(), 1);
        finish(other);
    }
);

scenario!(a_pool_ends_with_its_owners_thread_locals, |flavour| {
    let (pool, probe) = (flavour.pool(2), Probe::new());
    let owner = thread::spawn({
        let probe = probe.clone();
        move || {
            at_the_end_of_this_thread(move || {
                for _ in 0..10 {
                    pool.execute(probe.job()).unwrap();
                    pool.submit(probe.job()).unwrap().join().unwrap();
                    pool.scope(|scope| scope.execute(probe.job()).unwrap());
                }
                drop(pool);
            });
        }
    });
    owner.join().unwrap();
    probe.assert_all_dropped(30);
});

scenario!(what_is_forgotten_holds_nothing_up, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).queue_limit(4));
    let probe = Probe::new();
    for _ in 0..20 {
        std::mem::forget(pool.submit(probe.job()).unwrap());
        let token = CancelToken::new();
        let job = pool.job().cancel_token(&token).submit(probe.job());
        std::mem::forget((job.unwrap(), token));
        let tenant = pool.tenant("forgotten");
        let mut left_halfway = tenant.map(0.., |n: u32| n);
        assert_eq!(left_halfway.next().unwrap().unwrap(), 0);
        std::mem::forget((tenant.clone(), left_halfway));
        let mut set = JobSet::new();
        set.submit(&*pool, probe.job()).unwrap();
        std::mem::forget(set);
    }
    pool.wait_idle();
    probe.assert_all_dropped(60);
    finish(pool);
});
