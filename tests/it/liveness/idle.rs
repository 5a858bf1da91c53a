//! Waiting until a pool is idle: not longer, not shorter, and not inside one of its jobs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use fairlane::JobError;

use super::inside;
use crate::common::{Probe, finish, hold_workers, rounds, scenario, workers};

scenario!(wait_idle_sees_every_effect_of_the_jobs_before, |flavour| {
    const BURST: usize = 25;
    let pool = flavour.pool(workers());
    let probe = Probe::new();
    let all_at_it = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                all_at_it.wait();
                for _ in 0..rounds(1_000) {
                    let effects: Arc<[AtomicUsize; BURST]> = Arc::default();
                    for i in 0..BURST {
                        let (effects, captured) = (Arc::clone(&effects), probe.capture());
                        let job = move || {
                            captured.run();
                            effects[i].store(i + 1, Ordering::Relaxed);
                        };
                        pool.execute(job).unwrap();
                    }
                    pool.wait_idle();
                    for (i, effect) in effects.iter().enumerate() {
                        assert_eq!(effect.load(Ordering::Relaxed), i + 1);
                    }
                    // Captures are done with as well.
                    assert_eq!(Arc::strong_count(&effects), 1);
                }
            });
        }
    });
    probe.assert_all_dropped(8 * rounds(1_000) * BURST);
    finish(pool);
});

#[cfg(target_os = "linux")]
scenario!(one_idle_moment_frees_every_waiter, |flavour| {
    use crate::common::spawn_blocked;
    use std::sync::atomic::AtomicBool;

    let pool = flavour.pool(workers());
    let first = hold_workers(&pool, 1);
    let released = AtomicBool::new(false);
    let busy_again = thread::scope(|scope| {
        let first = first;
        let waiters: Vec<_> = (0..8)
            .map(|i| {
                let (pool, released) = (&pool, &released);
                spawn_blocked(scope, move || {
                    if i % 2 == 0 {
                        pool.wait_idle();
                    } else {
                        assert!(pool.wait_idle_timeout(Duration::MAX));
                    }
                    assert!(
                        released.load(Ordering::SeqCst),
                        "the only job was not let go yet"
                    );
                })
            })
            .collect();
        released.store(true, Ordering::SeqCst);
        first.release();
        pool.wait_idle();
        // The pool is busy again, whether the others have noticed the moment or not.
        let busy_again = hold_workers(&pool, 1);
        for waiter in waiters {
            waiter.join().unwrap();
        }
        busy_again
    });
    busy_again.release();
    finish(pool);
});

scenario!(wait_idle_timeout_gives_up_on_a_busy_pool, |flavour| {
    let pool = flavour.pool(2);
    assert!(
        pool.wait_idle_timeout(Duration::ZERO),
        "nothing was ever submitted"
    );
    let held = hold_workers(&pool, 1);
    assert!(!pool.wait_idle_timeout(Duration::ZERO));
    assert!(!pool.wait_idle_timeout(Duration::from_millis(2)));
    held.release();
    assert!(pool.wait_idle_timeout(Duration::MAX));
    finish(pool);
});

scenario!(waiting_for_idle_inside_a_job_does_not_hang, |flavour| {
    for workers in [1, workers()] {
        let pool = flavour.pool(workers);
        let outcome = inside(&pool, |pool| pool.wait_idle());
        let Err(JobError::Panicked(payload)) = outcome else {
            panic!("wait_idle inside a job gave {outcome:?}");
        };
        assert!(
            payload.message().contains("wait_idle"),
            "{:?}",
            payload.message()
        );

        for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
            let idle = inside(&pool, move |pool| pool.wait_idle_timeout(timeout));
            assert!(!idle.unwrap());
        }

        // The same one level deeper, in a job that a join runs on the spot.
        let inner = inside(&pool, |pool| inside(pool, |pool| pool.wait_idle()));
        assert!(inner.unwrap().unwrap_err().is_panic());
        finish(pool);
    }
});

scenario!(waiting_for_another_pool_inside_a_job_waits, |flavour| {
    let (pool, other) = (flavour.pool(1), flavour.pool(1));
    let probe = Probe::new();
    let (for_job, outer_probe) = (Arc::clone(&other), probe.clone());
    let seen = inside(&pool, move |_| {
        for _ in 0..10 {
            for_job.execute(outer_probe.job()).unwrap();
        }
        for_job.wait_idle();
        (for_job.wait_idle_timeout(Duration::MAX), outer_probe.ran())
    });
    assert_eq!(seen.unwrap(), (true, 10));
    probe.assert_all_dropped(10);
    // The job is done with its captures, and so with the other pool, before its result is seen.
    finish(other);
    finish(pool);
});
