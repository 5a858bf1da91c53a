//! Pools in odd places: inside jobs of other pools, and away from the threads that built them.

use std::sync::Arc;
use std::thread;

use fairlane::{JobHandle, PoolBuilder, WorkerPool};

use crate::common::*;

/// Builds a pool inside a job of a pool inside a job, and so on; how many pools that were.
fn nest(mut builders: Vec<PoolBuilder>) -> usize {
    let Some(builder) = builders.pop() else {
        return 0;
    };
    let pool = builder.build().unwrap();
    let inner = pool.submit(move || nest(builders)).unwrap();
    assert!(pool.scope(|_| true));
    // The next one down has ended when this returns, on a thread of this one.
    let pools = 1 + inner.join().unwrap();
    pool.wait_idle();
    pools
}

scenario!(a_pool_lives_and_ends_inside_a_job_of_another, |flavour| {
    for workers in [1, 3] {
        let builders = (0..5).map(|_| flavour.builder().workers(workers));
        assert_eq!(nest(builders.collect()), 5);
        assert_no_threads(flavour.thread_prefix());
    }
});

/// Calls `act` on a thread of its own, which has ended when this returns.
fn elsewhere<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(act).join().unwrap())
}

scenario!(
    each_part_of_a_pools_life_has_a_thread_of_its_own,
    |flavour| {
        let probe = Probe::new();
        let pool = elsewhere(|| flavour.pool(2));
        let submit_all = || (0..50).map(|_| pool.submit(probe.job()).unwrap()).collect();
        let jobs: Vec<JobHandle<()>> = elsewhere(submit_all);
        elsewhere(|| jobs.into_iter().for_each(|job| job.join().unwrap()));
        elsewhere(|| finish(pool));
        probe.assert_all_dropped(50);
    }
);

scenario!(many_pools_live_at_once_and_know_their_own, |flavour| {
    let pools: Vec<Arc<WorkerPool>> = (0..50).map(|_| flavour.pool(2)).collect();
    // Each pool's jobs hand on to the next pool, so its threads meet all the others'.
    fn hand_on(pools: Arc<Vec<Arc<WorkerPool>>>, at: usize, left: usize) -> usize {
        if left == 0 {
            return 0;
        }
        let next = (at + 1) % pools.len();
        let inner = Arc::clone(&pools);
        let job = pools[next].submit(move || hand_on(inner, next, left - 1));
        1 + job.unwrap().join().unwrap()
    }
    let shared = Arc::new(pools);
    for start in 0..shared.len() {
        assert_eq!(hand_on(Arc::clone(&shared), start, 60), 60);
    }
    let mut pools = eventually_owned(shared);
    while let Some(pool) = pools.pop() {
        assert_eq!(pool.stats().submitted, 60);
        finish(pool);
    }
});

/// What an `Arc` holds, once the last job has let go of it.
fn eventually_owned<T>(shared: Arc<T>) -> T {
    eventually("the jobs let go", || Arc::strong_count(&shared) == 1);
    Arc::into_inner(shared).expect("the only owner")
}
