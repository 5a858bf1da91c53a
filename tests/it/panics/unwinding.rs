//! Jobs that go on using the pool while they unwind.

use std::sync::Arc;

use fairlane::{JobError, WorkerPool};

use super::{payload, quiet_panic, workers_meet};
use crate::common::*;

/// Uses the pool when it is dropped, which is while its job unwinds.
struct LastDeeds {
    pool: Arc<WorkerPool>,
    probe: Probe,
    done: Counter,
}

impl Drop for LastDeeds {
    fn drop(&mut self) {
        let Self { pool, probe, done } = self;
        assert!(std::thread::panicking());
        let child = pool.submit(probe.job()).unwrap();
        let panics = pool.submit(|| quiet_panic("a child's")).unwrap();
        let cancelled = pool.submit(probe.job()).unwrap();
        pool.execute(probe.job()).unwrap();
        // They run in place where no other worker is free, the second panic within the first.
        child.join().unwrap();
        let thrown = payload(panics.join());
        assert_eq!(thrown.message(), "a child's");
        if cancelled.cancel() {
            assert_matches!(cancelled.join(), Err(JobError::Cancelled));
        } else {
            cancelled.join().unwrap();
        }
        pool.scope(|scope| scope.execute(probe.job()).unwrap());
        let doubled = pool.map([1, 2, 3], |n| 2 * n).map(Result::unwrap);
        assert_eq!(doubled.sum::<u32>(), 12);
        done.bump();
    }
}

scenario!(a_job_that_unwinds_still_joins_and_scopes, |flavour| {
    for workers in [1, 3] {
        let pool = flavour.pool(workers);
        let (probe, done) = (Probe::new(), Counter::new());
        for round in 1..=50 {
            let deeds = LastDeeds {
                pool: Arc::clone(&pool),
                probe: probe.clone(),
                done: done.clone(),
            };
            let job = pool.submit(move || {
                let _deeds = deeds;
                quiet_panic("its own");
            });
            let thrown = payload(job.unwrap().join());
            assert_eq!(thrown.message(), "its own");
            assert_eq!(done.get(), round);
        }
        pool.wait_idle();
        assert_eq!(pool.stats().panicked, 100);
        workers_meet(&pool, workers);
        finish(pool);
    }
});
