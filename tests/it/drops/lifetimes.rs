//! How long things live: captures until the job is over, results until their handle is gone,
//! thread-locals until the threads are joined.

use std::cell::RefCell;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use fairlane::WorkerPool;

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
