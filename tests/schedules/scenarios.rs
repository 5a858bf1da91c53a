//! The scenarios.

use std::sync::Arc;
use std::time::Duration;

use fairlane::{CancelToken, JobError, JobHandle, Nested, PanicPolicy, Rejected, WorkerPool};
use shuttle::thread;

use super::{Flavour, Probe, explore, finish, panic_quietly, result_or_cancelled};

/// Jobs of several submitters, some called off by handle.
#[test]
fn submitters_and_cancels() {
    explore("submitters × cancels", |flavour| {
        let (pool, probe) = (flavour.pool(2), Probe::default());
        let submitter = |n: u32| {
            let (pool, probe) = (Arc::clone(&pool), probe.clone());
            thread::spawn(move || {
                let jobs = [n, n + 1].map(|n| {
                    let captured = probe.capture();
                    pool.submit(move || (n, captured)).unwrap()
                });
                let cancelled = jobs[0].cancel();
                let results = jobs.map(|job| result_or_cancelled(job.join()).map(|r| r.0));
                assert_eq!(results, [(!cancelled).then_some(n), Some(n + 1)]);
            })
        };
        let threads = [submitter(0), submitter(10)];
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        finish(pool, &probe);
    });
}

/// Submitters race the end of the pool: a job is refused with its closure, runs, or is cancelled.
#[test]
fn submitters_and_the_end() {
    explore("submitters × close × cancel_queued", |flavour| {
        let (pool, probe) = (flavour.pool(2), Probe::default());
        let submitter = || {
            let (pool, probe) = (Arc::clone(&pool), probe.clone());
            thread::spawn(move || {
                for n in 0..2 {
                    let captured = probe.capture();
                    match pool.submit(move || (n, captured)) {
                        Ok(job) => {
                            result_or_cancelled(job.join());
                        }
                        Err(refused) => assert_eq!(refused.reason(), Rejected::ShutDown),
                    }
                }
            })
        };
        let threads = [submitter(), submitter()];
        pool.close();
        pool.cancel_queued();
        pool.wait_idle();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        finish(pool, &probe);
    });
}

/// Panics use up the threads one by one, until nobody is left; every handle resolves all the same.
#[test]
fn panics_and_restarts() {
    explore("submitters × panics × restarts", |flavour| {
        let policy = PanicPolicy::Restart { max_restarts: 1 };
        let pool = flavour.builder(2).on_panic(policy).build().unwrap();
        let (pool, probe) = (Arc::new(pool), Probe::default());
        let submitter = |panics: [bool; 3]| {
            let (pool, probe) = (Arc::clone(&pool), probe.clone());
            thread::spawn(move || {
                let jobs = panics.map(|panics| {
                    let captured = probe.capture();
                    pool.submit(move || {
                        if panics {
                            panic_quietly();
                        }
                        captured
                    })
                });
                for (job, panics) in jobs.into_iter().zip(panics) {
                    match job.map(JobHandle::join) {
                        Ok(Ok(_)) => assert!(!panics),
                        Ok(Err(error)) if error.is_panic() => assert!(panics),
                        Ok(Err(error)) => assert!(matches!(error, JobError::Discarded)),
                        Err(refused) => {
                            assert_eq!(refused.reason(), Rejected::RestartExhausted);
                        }
                    }
                }
            })
        };
        let threads = [
            submitter([true, false, true]),
            submitter([false, true, false]),
        ];
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        finish(pool, &probe);
    });
}

/// Every thread of the pool is in a job that joins jobs of its own.
#[test]
fn nested_joins() {
    explore("nested joins × scopes", |flavour| {
        let nested = flavour.builder(2).nested(Nested::Local).build().unwrap();
        let (pool, probe) = (Arc::new(nested), Probe::default());
        let parents = [0, 10].map(|n| {
            let (inner, probe) = (Arc::clone(&pool), probe.clone());
            let parent = pool.submit(move || {
                let captured = probe.capture();
                let child = inner.submit(move || (1, captured)).unwrap();
                let mut sum = n;
                inner.scope(|scope| scope.execute(|| sum += 1).unwrap());
                drop(inner);
                sum + child.join().unwrap().0
            });
            (n, parent.unwrap())
        });
        for (n, parent) in parents {
            assert_eq!(parent.join().unwrap(), n + 2);
        }
        finish(pool, &probe);
    });
}

/// A queue limit makes submitters wait, a token ends the wait, the end of the pool too. Room that was
/// on its way to one who has gone is not lost.
#[test]
fn waiting_submitters_and_a_token() {
    explore("a queue limit × token × close", |flavour| {
        let pool = flavour.builder(1).queue_limit(1).build().unwrap();
        let (pool, probe) = (Arc::new(pool), Probe::default());
        let token = CancelToken::new();
        let submitter = || {
            let (pool, probe, token) = (Arc::clone(&pool), probe.clone(), token.child());
            thread::spawn(move || {
                for n in 0..2 {
                    let captured = probe.capture();
                    match pool
                        .job()
                        .cancel_token(&token)
                        .submit(move || (n, captured))
                    {
                        Ok(job) => {
                            result_or_cancelled(job.join());
                        }
                        Err(refused) => assert_eq!(refused.reason(), Rejected::ShutDown),
                    }
                }
            })
        };
        let threads = [submitter(), submitter()];
        token.cancel();
        pool.execute(|| ()).unwrap();
        pool.close();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        finish(pool, &probe);
    });
}

/// `shutdown_timeout` with no time at all, amid running and queued jobs.
#[test]
fn an_end_that_does_not_wait() {
    explore("submitters × shutdown_timeout", |flavour| {
        let (pool, probe) = (flavour.pool(2), Probe::default());
        let jobs = [(); 3].map(|()| {
            let captured = probe.capture();
            pool.submit(move || captured).unwrap()
        });
        let pool = Arc::into_inner(pool).unwrap();
        let ended = pool.shutdown_timeout(Duration::ZERO);
        let mut discarded = 0;
        for job in jobs {
            match job.join() {
                Ok(captured) => drop(captured),
                Err(JobError::Discarded) => discarded += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(
            ended.map_or_else(|error| error.discarded(), |()| 0),
            discarded
        );
        probe.assert_all_dropped();
    });
}

/// Maps on two threads, one dropped half-way.
#[test]
fn maps() {
    explore("maps, one dropped half-way", |flavour| {
        let (pool, probe) = (flavour.pool(2), Probe::default());
        let (theirs, captured) = (Arc::clone(&pool), probe.capture());
        let other = thread::spawn(move || {
            let mut map = theirs.map(0..4, move |n| {
                let _captured = &captured;
                n
            });
            assert_eq!(map.next().unwrap().unwrap(), 0);
        });
        let mut results: Vec<_> = pool
            .map_unordered(0..3, |n| n)
            .in_flight(2)
            .map(Result::unwrap)
            .collect();
        results.sort_unstable();
        assert_eq!(results, [0, 1, 2]);
        other.join().unwrap();
        finish(pool, &probe);
    });
}

/// Two who wait for an idle moment amid submits: each is freed, and sees what was done before.
#[test]
fn idle_moments() {
    explore("wait_idle × submitters", |flavour| {
        let (pool, probe) = (flavour.pool(2), Probe::default());
        let waiter = || {
            let (pool, probe) = (Arc::clone(&pool), probe.clone());
            thread::spawn(move || {
                let captured = probe.capture();
                let job = pool.submit(move || drop(captured)).unwrap();
                pool.wait_idle();
                assert!(job.is_finished());
                job.join().unwrap();
            })
        };
        let threads = [waiter(), waiter()];
        pool.execute(|| ()).unwrap();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());

        finish(pool, &probe);
    });
}

/// Tenants with limits of their own.
#[test]
fn tenants() {
    explore("tenants with limits × cancels", |flavour: Flavour| {
        let (pool, probe) = (flavour.pool(2), Probe::default());
        let submitter = |name: &'static str, most| {
            let (pool, probe) = (Arc::clone(&pool), probe.clone());
            thread::spawn(move || {
                let tenant = pool.tenant(name).with_max_running(most);
                let jobs = [0, 1, 2].map(|n| {
                    let captured = probe.capture();
                    tenant.submit(move || (n, captured)).unwrap()
                });
                jobs[1].cancel();
                for job in jobs {
                    result_or_cancelled(job.join());
                }
            })
        };
        let threads = [submitter("a", 1), submitter("b", 2)];
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        finish(pool, &probe);
    });
}

/// The last owner of the pool is one of its jobs.
#[test]
fn a_pool_that_is_dropped_by_its_own_job() {
    explore("the last owner is a job", |flavour| {
        let (pool, probe) = (flavour.pool(1), Probe::default());
        let (captured, after) = (probe.capture(), probe.capture());
        let theirs = Arc::clone(&pool);
        let job = pool.submit(move || {
            let _captured = captured;
            drop::<Arc<WorkerPool>>(theirs);
        });
        let last = pool.submit(move || drop(after)).unwrap();
        drop(pool);
        job.unwrap().join().unwrap();
        last.join().unwrap();
        probe.assert_all_dropped();
    });
}
