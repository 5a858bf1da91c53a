//! Limits of what is queued behind a gate, for the pool and for each tenant: who is refused, what
//! makes room, and that none is ever lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{
    CancelToken, JobError, JobHandle, PanicPolicy, Rejected, Submit, Tenant, Weight, WorkerPool,
};

use super::{Waits, assert_all_tokens_work};
use crate::common::{
    Counter, Dice, Flavour, Gate, Probe, assert_matches, eventually, hold_workers, refused, rounds,
};
use crate::fairness::{by_strategy, finish_gated};

/// Submits until it is refused as full, and returns the jobs.
#[track_caller]
pub(super) fn fill(queue: &impl Submit, probe: &Probe) -> Vec<JobHandle<()>> {
    let submit = || queue.try_submit(probe.job());
    let jobs: Vec<_> = std::iter::from_fn(|| submit().ok()).collect();
    assert_matches!(refused(submit()).0, Rejected::Full);
    jobs
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Pool,
    Tenant,
}

pub(super) const BOTH: [Limit; 2] = [Limit::Pool, Limit::Tenant];

/// A pool whose tenant `a` may queue so many jobs, and the handle that keeps it so.
pub(super) fn limited(
    flavour: &Flavour,
    workers: usize,
    whose: Limit,
    limit: usize,
) -> (Arc<WorkerPool>, Tenant) {
    let builder = flavour.builder().workers(workers).fair();
    match whose {
        Limit::Pool => {
            let pool = flavour.build(builder.queue_limit(limit));
            let tenant = pool.tenant("a");
            (pool, tenant)
        }
        Limit::Tenant => {
            let pool = flavour.build(builder);
            let tenant = pool.tenant("a").with_queue_limit(limit);
            (pool, tenant)
        }
    }
}

by_strategy!(a_limit_counts_what_has_not_begun, |flavour| {
    for (workers, limit) in [(1, 1), (1, 7), (3, 1), (3, 100)] {
        for whose in BOTH {
            let (pool, tenant) = limited(flavour, workers, whose, limit);
            let probe = Probe::new();
            for _ in 0..3 {
                let held = hold_workers(&pool, workers);
                let jobs = fill(&tenant, &probe);
                assert_eq!(jobs.len(), limit);
                assert_eq!(pool.stats().queued, limit);
                held.release();
                jobs.into_iter().for_each(|job| job.join().unwrap());
            }
            probe.assert_all_dropped(3 * limit);
            drop(tenant);
            finish_gated(pool);
        }
    }
});

by_strategy!(
    every_way_to_submit_says_full_and_gives_the_closure_back,
    |flavour| {
        for whose in BOTH {
            let (pool, tenant) = limited(flavour, 1, whose, 2);
            let held = hold_workers(&pool, 1);
            let probe = Probe::new();
            let queued = fill(&tenant, &probe);
            let number = |i: u32| move || i;
            let soon = Duration::from_millis(2);
            let past = Duration::ZERO;
            let refusals = [
                refused(tenant.try_submit(number(1))),
                refused(tenant.submit_timeout(past, number(2))),
                refused(tenant.submit_timeout(soon, number(3))),
                refused(tenant.job().try_submit(number(4))),
                refused(tenant.job().submit_timeout(past, number(5))),
                refused(pool.job().tenant("a").try_submit(number(6))),
                refused(pool.job().tenant(&tenant).submit_timeout(soon, number(7))),
                refused(Submit::try_submit(&&tenant, number(8))),
            ]
            .map(|(reason, job)| {
                assert_matches!(reason, Rejected::Full);
                job()
            });
            assert_eq!(refusals, [1, 2, 3, 4, 5, 6, 7, 8]);
            let other = pool.tenant("b").try_submit(|| ());
            match whose {
                Limit::Pool => assert_matches!(refused(other).0, Rejected::Full),
                Limit::Tenant => drop(other.unwrap()),
            }
            let accepted = 3 + u64::from(matches!(whose, Limit::Tenant));
            assert_eq!(pool.stats().submitted, accepted, "refused is not submitted");
            held.release();
            queued.into_iter().for_each(|job| job.join().unwrap());
            probe.assert_all_dropped(2);
            drop(tenant);
            finish_gated(pool);
        }
    }
);

by_strategy!(both_limits_hold_beside_each_other, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair().queue_limit(10));
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let tenants: Vec<_> = [3, 4, 100]
        .into_iter()
        .map(|limit| pool.tenant(&format!("{limit}")).with_queue_limit(limit))
        .collect();
    let queued: Vec<_> = tenants.iter().map(|tenant| fill(tenant, &probe)).collect();
    let lengths: Vec<_> = queued.iter().map(Vec::len).collect();
    assert_eq!(lengths, [3, 4, 3]);
    assert_matches!(refused(pool.try_submit(|| ())).0, Rejected::Full);
    // Room of the pool is of no use to a tenant that is full, and the other way round.
    assert!(queued[2][1].cancel());
    assert_matches!(refused(tenants[0].try_submit(|| ())).0, Rejected::Full);
    let nameless = pool.try_submit(probe.job()).unwrap();
    assert!(queued[0][2].cancel());
    assert_eq!(fill(&tenants[0], &probe).len(), 1);
    held.release();
    nameless.join().unwrap();
    pool.wait_idle();
    probe.assert_all_dropped(10);
    drop(tenants);
    finish_gated(pool);
});

by_strategy!(a_refused_job_leaves_no_trace_of_its_tenant, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair().queue_limit(1));
    let held = hold_workers(&pool, 1);
    let known = pool.tenant("known");
    let queued = pool.try_submit(|| ()).unwrap();
    for name in ["known", "unknown"] {
        let job = pool.job().tenant(name).weight(Weight::new(9)).priority(3);
        assert_matches!(refused(job.clone().try_submit(|| ())).0, Rejected::Full);
        let job = job.submit_timeout(Duration::ZERO, || ());
        assert_matches!(refused(job).0, Rejected::Full);
    }
    assert_eq!(
        known.weight(),
        Weight::default(),
        "that of a rejected job does not count"
    );
    let names: Vec<_> = pool
        .stats()
        .tenants
        .into_iter()
        .map(|tenant| tenant.name)
        .collect();
    assert_eq!(names, ["", "known"]);
    pool.close();
    let job = pool.job().tenant(&known).weight(Weight::new(9));
    assert_matches!(refused(job.submit(|| ())).0, Rejected::ShutDown);
    assert_eq!(known.weight(), Weight::default());
    held.release();
    queued.join().unwrap();
    drop(known);
    finish_gated(pool);
});

by_strategy!(a_full_queue_refuses_at_once_inside_a_job, |flavour| {
    for whose in BOTH {
        for workers in [1, 3] {
            let (pool, tenant) = limited(flavour, workers, whose, 3);
            let held = hold_workers(&pool, workers - 1);
            let probe = Probe::new();
            let (inner, inner_probe, owner) =
                (tenant.clone(), probe.clone(), Arc::downgrade(&pool));
            let job = tenant.submit(move || {
                let pool = owner.upgrade().unwrap();
                let queued = fill(&inner, &inner_probe);
                let soon = Duration::from_millis(2);
                let refusals = [
                    refused(inner.submit(inner_probe.job())),
                    refused(inner.try_submit(inner_probe.job())),
                    refused(inner.submit_timeout(soon, inner_probe.job())),
                    refused(inner.submit_timeout(Duration::MAX, inner_probe.job())),
                    refused(inner.execute(inner_probe.job())),
                    refused(pool.job().tenant("a").submit(inner_probe.job())),
                    refused(inner.job().execute(inner_probe.job())),
                ];
                for (reason, job) in refusals {
                    assert_matches!(reason, Rejected::Full);
                    job();
                }
                // A join in place makes room for one.
                let mut queued = queued.into_iter();
                queued.next().unwrap().join().unwrap();
                let one_more = inner.submit(inner_probe.job()).expect("there is room");
                assert_matches!(refused(inner.submit(|| ())).0, Rejected::Full);
                // A map runs what does not fit in place.
                let here = thread::current().id();
                let items = inner.map(0..20, move |i| (i, thread::current().id() == here));
                assert!(items.map(Result::unwrap).eq((0..20).map(|i| (i, true))));
                queued.chain([one_more]).for_each(|job| job.join().unwrap());
            });
            job.unwrap().join().expect("no assertion failed");
            probe.assert_all_dropped(3 + 7 + 1);
            held.release();
            drop(tenant);
            eventually("the job's reference is gone", || {
                Arc::strong_count(&pool) == 1
            });
            finish_gated(pool);
        }
    }
});

by_strategy!(closed_before_cancelled_before_late_before_full, |flavour| {
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 1, whose, 1);
        let held = hold_workers(&pool, 1);
        let probe = Probe::new();
        let queued = fill(&tenant, &probe).pop().unwrap();
        let (token, past) = (CancelToken::new(), Instant::now());
        token.cancel();
        let both = || tenant.job().cancel_token(&token).deadline(past);
        assert_matches!(
            both().submit(probe.job()).unwrap().join(),
            Err(JobError::Cancelled)
        );
        assert_matches!(
            both().try_submit(probe.job()).unwrap().join(),
            Err(JobError::Cancelled)
        );
        both().execute(probe.job()).unwrap();
        let late = || {
            tenant
                .job()
                .cancel_token(&CancelToken::new())
                .deadline(past)
        };
        assert_matches!(
            late().submit(probe.job()).unwrap().join(),
            Err(JobError::Expired)
        );
        assert_matches!(
            late().try_submit(probe.job()).unwrap().join(),
            Err(JobError::Expired)
        );
        late().execute(probe.job()).unwrap();
        assert_matches!(refused(tenant.try_submit(probe.job())).0, Rejected::Full);
        let stats = pool.stats();
        assert_eq!(
            (stats.submitted, stats.cancelled, stats.expired),
            (8, 3, 3),
            "{stats:?}"
        );
        assert_eq!((stats.queued, stats.running), (1, 1), "{stats:?}");
        pool.close();
        assert_matches!(refused(both().submit(probe.job())).0, Rejected::ShutDown);
        assert_matches!(
            refused(late().try_submit(probe.job())).0,
            Rejected::ShutDown
        );
        held.release();
        queued.join().unwrap();
        probe.assert_all_dropped(1);
        drop(tenant);
        finish_gated(pool);
    }
});

#[test]
#[should_panic(expected = "nothing")]
fn a_queue_limit_of_zero_panics() {
    let pool = WorkerPool::builder().workers(1).fair().build().unwrap();
    let _ = pool.tenant("a").with_queue_limit(0);
}

#[test]
#[should_panic(expected = "nothing")]
fn a_running_limit_of_zero_panics() {
    let pool = WorkerPool::builder().workers(1).fair().build().unwrap();
    let _ = pool.tenant("a").with_max_running(0);
}

#[test]
fn limits_of_zero_panic_without_a_gate_too_and_change_nothing() {
    for builder in [WorkerPool::builder(), WorkerPool::builder().fair()] {
        let pool = builder.workers(1).build().unwrap();
        let tenant = pool.tenant("a").with_queue_limit(5);
        let panics = |f: &dyn Fn() -> Tenant| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(f()))).is_err()
        };
        assert!(panics(&|| tenant.clone().with_queue_limit(0)));
        assert!(panics(&|| tenant.clone().with_max_running(0)));
        tenant.submit(|| ()).unwrap().join().unwrap();
    }
}

#[test]
fn a_pool_with_a_limit_of_zero_is_not_built() {
    let builder = || WorkerPool::builder().workers(1);
    assert!(builder().concurrency(0).build().is_err());
    assert!(builder().fair().queue_limit(0).build().is_err());
    assert!(
        builder().concurrency(0).fair().build().is_ok(),
        "the last call wins"
    );
}

by_strategy!(
    a_limit_changed_while_jobs_are_queued_counts_at_once,
    |flavour| {
        let pool = flavour.build(flavour.builder().workers(1).fair());
        let held = hold_workers(&pool, 1);
        let probe = Probe::new();
        let tenant = pool.tenant("a");
        // What is there is counted, though it did not have to ask.
        let mut jobs: Vec<_> = (0..5)
            .map(|_| tenant.submit(probe.job()).unwrap())
            .collect();
        let tenant = tenant.with_queue_limit(7);
        jobs.extend(fill(&tenant, &probe));
        assert_eq!(jobs.len(), 7);
        let tenant = tenant.with_queue_limit(3);
        assert_matches!(refused(tenant.try_submit(|| ())).0, Rejected::Full);
        for job in jobs.drain(..4) {
            assert!(job.cancel());
            assert_matches!(refused(tenant.try_submit(|| ())).0, Rejected::Full);
        }
        assert!(jobs.pop().unwrap().cancel());
        jobs.extend(fill(&tenant, &probe));
        assert_eq!(jobs.len(), 3);
        let tenant = tenant.with_queue_limit(usize::MAX);
        jobs.extend((0..100).map(|_| tenant.try_submit(probe.job()).unwrap()));
        held.release();
        jobs.into_iter().for_each(|job| job.join().unwrap());
        probe.assert_all_dropped(103);
        drop(tenant);
        finish_gated(pool);
    }
);

/// How queued jobs make room.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    Runs,
    JoinedInPlace,
    Cancelled,
    ByToken,
    Expires,
    Swept,
}

by_strategy!(room_is_never_lost, |flavour| {
    use Leaves::{ByToken, Cancelled, Expires, JoinedInPlace, Runs, Swept};
    for whose in BOTH {
        for (workers, limit) in [(1, 1), (2, 5)] {
            let (pool, tenant) = limited(flavour, workers, whose, limit);
            let mut dice = Dice::new(limit as u64);
            for _ in 0..rounds(1_000) {
                let leaves = [Runs, JoinedInPlace, Cancelled, ByToken, Expires, Swept];
                let leaves = leaves[dice.roll(6) as usize];
                let (gate, token) = (Gate::new(), CancelToken::new());
                let joins = Arc::new(Mutex::new(Vec::<JobHandle<()>>::new()));
                let begun = Counter::new();
                for busy in 1..=workers {
                    let (joins, gate, begins) = (Arc::clone(&joins), gate.clone(), begun.clone());
                    let holds = move || {
                        begins.bump();
                        gate.wait();
                        let next = || joins.lock().unwrap().pop();
                        while let Some(job) = next() {
                            job.join().unwrap();
                        }
                    };
                    pool.execute(holds).unwrap();
                    begun.wait_for(busy);
                }
                let soon = Instant::now() + Duration::from_micros(dice.roll(300));
                let submit = || {
                    let job = tenant.job().cancel_token(&token);
                    let job = match leaves {
                        Expires => job.deadline(soon),
                        _ => job,
                    };
                    job.try_submit(|| ()).ok()
                };
                let mut jobs: Vec<_> = (0..limit).map_while(|_| submit()).collect();
                assert_eq!(jobs.len(), limit, "{whose:?}, before {leaves:?}");
                match leaves {
                    Runs => {}
                    JoinedInPlace => joins.lock().unwrap().append(&mut jobs),
                    Cancelled => assert!(jobs.iter().all(JobHandle::cancel)),
                    ByToken => token.cancel(),
                    Expires => {
                        let seen = dice.roll(2) == 0;
                        eventually("the deadline passes", || soon <= Instant::now());
                        assert!(!seen || jobs.iter().all(JobHandle::is_finished));
                    }
                    Swept => assert_eq!(pool.cancel_queued(), limit),
                }
                if matches!(leaves, Cancelled | ByToken | Swept) {
                    // At once, while all slots are busy.
                    let again = fill(&tenant, &Probe::new());
                    assert_eq!(again.len(), limit, "{whose:?}, after {leaves:?}");
                }
                gate.open();
                pool.wait_idle();
            }
            drop(tenant);
            finish_gated(pool);
        }
    }
});

by_strategy!(blocking_submitters_get_through_a_bound_of_one, |flavour| {
    const SUBMITTERS: usize = 64;
    for whose in BOTH {
        for workers in [1, 2] {
            let (pool, tenant) = limited(flavour, workers, whose, 1);
            let (probe, cancelled) = (Probe::new(), Counter::new());
            let each = rounds(200);
            thread::scope(|scope| {
                for submitter in 0..SUBMITTERS {
                    let (pool, tenant, probe, cancelled) = (&pool, &tenant, &probe, &cancelled);
                    scope.spawn(move || {
                        for i in 0..each {
                            let token = CancelToken::new();
                            let job = tenant.job().cancel_token(&token);
                            match (submitter + i) % 5 {
                                0 => {
                                    let job = job.submit(probe.job()).unwrap();
                                    if job.cancel() {
                                        cancelled.bump();
                                    }
                                }
                                1 => {
                                    let job = job.submit(probe.job()).unwrap();
                                    token.cancel();
                                    if job.join().is_err() {
                                        cancelled.bump();
                                    }
                                }
                                2 => job.execute(probe.job()).unwrap(),
                                3 => {
                                    let max = Duration::MAX;
                                    job.submit_timeout(max, probe.job())
                                        .unwrap()
                                        .join()
                                        .unwrap();
                                }
                                _ => pool.job().tenant("a").execute(probe.job()).unwrap(),
                            }
                        }
                    });
                }
            });
            pool.wait_idle();
            assert_eq!(probe.created(), SUBMITTERS * each);
            probe.assert_all_dropped(SUBMITTERS * each - cancelled.get());
            let held = hold_workers(&pool, workers);
            assert_eq!(fill(&tenant, &probe).len(), 1);
            held.release();
            pool.wait_idle();
            drop(tenant);
            assert_all_tokens_work(&pool, workers);
            finish_gated(pool);
        }
    }
});

by_strategy!(submitters_that_give_up_take_no_room_with_them, |flavour| {
    for whose in BOTH {
        for limit in [1, 3] {
            let (pool, tenant) = limited(flavour, 2, whose, limit);
            let (probe, accepted) = (Probe::new(), Counter::new());
            thread::scope(|scope| {
                for submitter in 0..8 {
                    let (tenant, probe, accepted) = (&tenant, &probe, &accepted);
                    let mut dice = Dice::new(submitter);
                    scope.spawn(move || {
                        for _ in 0..rounds(2_000) {
                            let timeout = Duration::from_micros(dice.roll(50));
                            let late = Instant::now() + timeout;
                            let job = probe.job();
                            let is_accepted = match submitter % 4 {
                                0 => tenant.submit(job).is_ok(),
                                1 => tenant.try_submit(job).is_ok(),
                                2 => tenant.submit_timeout(timeout, job).is_ok(),
                                _ => tenant.job().deadline(late).execute(job).is_ok(),
                            };
                            assert!(is_accepted || matches!(submitter % 4, 1 | 2));
                            if is_accepted {
                                accepted.bump();
                            }
                        }
                    });
                }
            });
            pool.wait_idle();
            let stats = pool.stats();
            assert_eq!(stats.submitted, accepted.get() as u64);
            assert_eq!(stats.submitted, stats.completed + stats.expired);
            probe.assert_all_dropped(stats.completed as usize);
            let held = hold_workers(&pool, 2);
            assert_eq!(fill(&tenant, &probe).len(), limit, "{whose:?}");
            held.release();
            pool.wait_idle();
            drop(tenant);
            finish_gated(pool);
        }
    }
});

by_strategy!(a_map_waits_for_room_and_yields_it_all, |flavour| {
    for whose in BOTH {
        for workers in [1, 3] {
            let (pool, tenant) = limited(flavour, workers, whose, 1);
            let squares = tenant.map(0..300_u64, |i| i * i).map(Result::unwrap);
            assert!(squares.eq((0..300).map(|i| i * i)));
            let any = tenant.map_unordered(0..300_u64, |i| i).map(Result::unwrap);
            assert_eq!(any.sum::<u64>(), 299 * 300 / 2);
            drop(tenant);
            finish_gated(pool);
        }
    }
});

by_strategy!(
    the_room_of_withdrawn_jobs_goes_on_while_others_submit,
    |flavour| {
        let (pool, tenant) = limited(flavour, 2, Limit::Tenant, 64);
        let held = hold_workers(&pool, 2);
        let (probe, accepted, enough) = (Probe::new(), Counter::new(), AtomicBool::new(false));
        let cancelled: usize = thread::scope(|scope| {
            let _guard = held.open_on_panic();
            for _ in 0..4 {
                scope.spawn(|| {
                    while !enough.load(Ordering::Relaxed) {
                        tenant.execute(probe.job()).unwrap();
                        accepted.bump();
                    }
                });
            }
            let cancel_some = |round| {
                accepted.wait_for(64 * round);
                pool.cancel_queued()
            };
            let cancelled = (1..=rounds(100)).map(cancel_some).sum();
            enough.store(true, Ordering::Relaxed);
            held.open();
            cancelled
        });
        held.release();
        pool.wait_idle();
        probe.assert_all_dropped(accepted.get() - cancelled);
        let waits = Waits::new();
        waits.gate.open();
        tenant.submit(waits.job()).unwrap().join().unwrap();
        drop(tenant);
        finish_gated(pool);
    }
);

by_strategy!(giving_up_races_the_room_that_comes, |flavour| {
    // Names that nobody else uses: nothing but the waiter keeps the tenant alive.
    let pool = flavour.build(flavour.builder().workers(1).fair().queue_limit(1));
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let waiters: Vec<_> = (0..2)
            .map(|seed| {
                let (pool, probe) = (&pool, &probe);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed);
                    for i in 0..rounds(20_000) {
                        let job = pool.job().tenant(format!("{seed} {i}"));
                        let timeout = Duration::from_micros(dice.roll(100));
                        if let Ok(job) = job.submit_timeout(timeout, probe.job()) {
                            job.cancel();
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                if let Ok(job) = pool.try_submit(probe.job()) {
                    thread::yield_now();
                    job.cancel();
                }
            }
        });
        let results: Vec<_> = waiters.into_iter().map(|waiter| waiter.join()).collect();
        enough.store(true, Ordering::Relaxed);
        assert!(results.into_iter().all(|result| result.is_ok()));
    });
    assert_eq!(pool.stats().queued, 0);
    assert_eq!(pool.stats().tenants.len(), 1, "that of the held job");
    assert_eq!(fill(&*pool, &probe).len(), 1);
    held.release();
    pool.wait_idle();
    probe.assert_all_dropped(1);
    finish_gated(pool);
});

by_strategy!(limits_as_large_as_they_get_hold_nobody_up, |flavour| {
    let builder = || {
        let policy = PanicPolicy::Restart {
            max_restarts: u32::MAX,
        };
        let builder = flavour.builder().workers(2).queue_limit(usize::MAX);
        builder.on_panic(policy)
    };
    for builder in [builder(), builder().concurrency(usize::MAX)] {
        let pool = flavour.build(builder);
        let tenant = pool.tenant("t").with_max_running(usize::MAX);
        let tenant = tenant.with_queue_limit(usize::MAX).with_weight(Weight::MAX);
        let probe = Probe::new();
        let held = hold_workers(&pool, 2);
        for priority in [i32::MIN, i32::MAX, 0] {
            for _ in 0..100 {
                let job = tenant.job().priority(priority);
                job.clone().execute(probe.job()).unwrap();
                drop(job.try_submit(probe.job()).unwrap());
            }
        }
        assert_eq!(pool.stats().queued, 600);
        held.release();
        pool.wait_idle();
        probe.assert_all_dropped(600);
        drop(tenant);
        finish_gated(pool);
    }
});
