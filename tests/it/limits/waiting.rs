//! Submitters that wait for room behind a gate: who is woken, by what, and in which order.

use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobError, JobHandle, PanicPolicy, Rejected, Tenant, WorkerPool};

use super::room::{BOTH, Limit, fill, limited};
use crate::common::{Gate, Probe, assert_matches, hold_workers, refused, spawn_blocked};
use crate::fairness::{Order, by_strategy, finish_gated};

/// What makes room while every worker stays busy.
type Event = fn(&WorkerPool, &JobHandle<()>, &CancelToken);

by_strategy!(whatever_makes_room_wakes_a_blocked_submitter, |flavour| {
    let events: [Event; 3] = [
        |_, queued, _| assert!(queued.cancel()),
        |_, _, token| token.cancel(),
        // The one that comes in meanwhile may be met as well.
        |pool, _, _| assert!((1..=2).contains(&pool.cancel_queued())),
    ];
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 2, whose, 1);
        let held = hold_workers(&pool, 2);
        let probe = Probe::new();
        for (event, timeout) in events.into_iter().flat_map(|e| [(e, false), (e, true)]) {
            let token = CancelToken::new();
            let queued = tenant
                .job()
                .cancel_token(&token)
                .try_submit(probe.job())
                .unwrap();
            let waited = thread::scope(|scope| {
                let _guard = held.open_on_panic();
                let submitter = spawn_blocked(scope, || match timeout {
                    false => tenant.submit(probe.job()),
                    true => tenant.submit_timeout(Duration::MAX, probe.job()),
                });
                event(&pool, &queued, &token);
                submitter.join().unwrap()
            });
            assert_matches!(queued.join(), Err(JobError::Cancelled));
            let waited = waited.expect("there was room");
            waited.cancel();
            assert_matches!(waited.join(), Err(JobError::Cancelled));
        }
        probe.assert_all_dropped(0);
        held.release();
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(who_waits_is_served_first_come_first_served, |flavour| {
    const SUBMITTERS: usize = 12;
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 1, whose, 1);
        let held = hold_workers(&pool, 1);
        let order = Order::new();
        tenant.execute(order.note(0)).unwrap();
        thread::scope(|scope| {
            let held = held;
            for i in 1..=SUBMITTERS {
                let (tenant, job) = (&tenant, order.note(i));
                spawn_blocked(scope, move || match i % 4 {
                    0 => tenant.execute(job).unwrap(),
                    1 => drop(tenant.submit(job).unwrap()),
                    // Priorities are for what is in the lane.
                    2 => drop(tenant.job().priority(9).submit(job).unwrap()),
                    _ => drop(tenant.submit_timeout(Duration::MAX, job).unwrap()),
                });
            }
            held.release();
        });
        pool.wait_idle();
        assert_eq!(order.take(), Vec::from_iter(0..=SUBMITTERS), "{whose:?}");
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(
    the_pools_room_goes_to_who_came_first_of_all_tenants,
    |flavour| {
        const SUBMITTERS: usize = 12;
        let pool = flavour.build(flavour.builder().workers(1).fair().queue_limit(1));
        let held = hold_workers(&pool, 1);
        let order = Order::new();
        pool.execute(order.note(0)).unwrap();
        thread::scope(|scope| {
            let held = held;
            for i in 1..=SUBMITTERS {
                let (pool, job) = (&pool, order.note(i));
                spawn_blocked(scope, move || {
                    let tenant = ["a", "b", "c"][i * 7 % 3];
                    pool.job().tenant(tenant).execute(job).unwrap();
                });
            }
            held.release();
        });
        pool.wait_idle();
        assert_eq!(order.take(), Vec::from_iter(0..=SUBMITTERS));
        finish_gated(pool);
    }
);

by_strategy!(one_whose_own_tenant_is_full_holds_nobody_up, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair().queue_limit(3));
    let held = hold_workers(&pool, 1);
    let (probe, order) = (Probe::new(), Order::new());
    let full = pool.tenant("full").with_queue_limit(1);
    let theirs = fill(&full, &probe).pop().unwrap();
    let mut others = fill(&*pool, &probe);
    assert_eq!(others.len(), 2);
    thread::scope(|scope| {
        let _guard = held.open_on_panic();
        // In order of arrival: two of the full tenant, one of another.
        let submit = |tenant: &Tenant, what| {
            let (tenant, note, job) = (tenant.clone(), order.note(what), probe.job());
            spawn_blocked(scope, move || {
                let job = tenant.submit(job).unwrap();
                note();
                job
            })
        };
        let first = submit(&full, "first");
        let second = submit(&full, "second");
        let third = submit(&pool.tenant("other"), "third");
        assert!(others.pop().unwrap().cancel());
        let third = third.join().unwrap();
        assert_eq!(
            order.take(),
            ["third"],
            "it came last, and can use the room"
        );
        // Room of the tenant's own, and of the pool: the first, and only that one.
        assert!(theirs.cancel());
        let first = first.join().unwrap();
        assert_eq!(order.take(), ["first"]);
        assert!(!second.is_finished());
        assert_matches!(refused(pool.try_submit(|| ())).0, Rejected::Full);
        // Room of the pool alone: nobody can use it, so it stays.
        assert!(third.cancel());
        let fourth = pool
            .try_submit(probe.job())
            .expect("there is room for others");
        assert!(!second.is_finished());
        assert!(first.cancel());
        assert!(second.join().unwrap().cancel());
        assert!(fourth.cancel());
    });
    drop(others);
    held.release();
    pool.wait_idle();
    probe.assert_all_dropped(1);
    drop(full);
    finish_gated(pool);
});

by_strategy!(a_higher_limit_lets_in_who_waits, |flavour| {
    let (pool, tenant) = limited(flavour, 1, Limit::Tenant, 1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let mut queued = fill(&tenant, &probe);
    thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let submit = |_| spawn_blocked(scope, || tenant.submit(probe.job()).unwrap());
        let mut submitters: Vec<_> = (0..4).map(submit).collect();
        drop(tenant.clone().with_queue_limit(3));
        for submitter in submitters.drain(..2) {
            queued.push(submitter.join().unwrap());
        }
        assert!(submitters.iter().all(|submitter| !submitter.is_finished()));
        drop(tenant.clone().with_queue_limit(100));
        for submitter in submitters {
            queued.push(submitter.join().unwrap());
        }
    });
    assert_eq!(pool.stats().queued, 5);
    held.release();
    queued.into_iter().for_each(|job| job.join().unwrap());
    probe.assert_all_dropped(5);
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(room_for_several_goes_to_several, |flavour| {
    const LIMIT: usize = 10;
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 1, whose, LIMIT);
        let held = hold_workers(&pool, 1);
        let (probe, token) = (Probe::new(), CancelToken::new());
        for _ in 0..LIMIT {
            tenant
                .job()
                .cancel_token(&token)
                .execute(probe.job())
                .unwrap();
        }
        let jobs: Vec<_> = thread::scope(|scope| {
            let _guard = held.open_on_panic();
            let submit = |_| spawn_blocked(scope, || tenant.submit(probe.job()).unwrap());
            let submitters: Vec<_> = (0..LIMIT).map(submit).collect();
            token.cancel();
            submitters
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(pool.stats().queued, LIMIT);
        held.release();
        jobs.into_iter().for_each(|job| job.join().unwrap());
        probe.assert_all_dropped(LIMIT);
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(a_token_or_a_deadline_wakes_who_waits_with_ok, |flavour| {
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 1, whose, 1);
        let held = hold_workers(&pool, 1);
        let probe = Probe::new();
        let queued = fill(&tenant, &probe).pop().unwrap();
        for parent in [false, true] {
            let root = CancelToken::new();
            let token = if parent { root.child() } else { root.clone() };
            let job = || tenant.job().cancel_token(&token);
            thread::scope(|scope| {
                let _guard = held.open_on_panic();
                let submitter = spawn_blocked(scope, || job().submit(probe.job()).unwrap());
                let timed = spawn_blocked(scope, || {
                    job().submit_timeout(Duration::MAX, probe.job()).unwrap()
                });
                let detached = spawn_blocked(scope, || job().execute(probe.job()).unwrap());
                root.cancel();
                for submitter in [submitter, timed] {
                    assert_matches!(submitter.join().unwrap().join(), Err(JobError::Cancelled));
                }
                detached.join().unwrap();
            });
        }
        let soon = || Instant::now() + Duration::from_millis(2);
        let job = tenant.job().deadline(soon()).submit(probe.job()).unwrap();
        assert_matches!(job.join(), Err(JobError::Expired));
        // The nearer of the two times counts.
        let job = tenant.job().deadline(soon());
        let job = job.submit_timeout(Duration::MAX, probe.job()).unwrap();
        assert_matches!(job.join(), Err(JobError::Expired));
        let job = tenant
            .job()
            .deadline(Instant::now() + Duration::from_secs(1_000));
        let job = job.submit_timeout(Duration::from_millis(1), probe.job());
        assert_matches!(refused(job).0, Rejected::Full);
        let stats = pool.stats();
        assert_eq!(
            (stats.submitted, stats.cancelled, stats.expired),
            (10, 6, 2),
            "{stats:?}"
        );
        assert_eq!((stats.queued, stats.running), (1, 1), "{stats:?}");
        held.release();
        queued.join().unwrap();
        probe.assert_all_dropped(1);
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(one_that_gives_up_holds_nobody_up, |flavour| {
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 1, whose, 1);
        let held = hold_workers(&pool, 1);
        let probe = Probe::new();
        let queued = fill(&tenant, &probe).pop().unwrap();
        let token = CancelToken::new();
        let behind = thread::scope(|scope| {
            let _guard = held.open_on_panic();
            let first = spawn_blocked(scope, || {
                tenant
                    .job()
                    .cancel_token(&token)
                    .submit(probe.job())
                    .unwrap()
            });
            let behind = spawn_blocked(scope, || tenant.submit(probe.job()).unwrap());
            token.cancel();
            assert_matches!(first.join().unwrap().join(), Err(JobError::Cancelled));
            assert!(!behind.is_finished(), "there is no room yet");
            assert!(queued.cancel());
            behind.join().unwrap()
        });
        held.release();
        behind.join().unwrap();
        probe.assert_all_dropped(1);
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(close_wakes_all_who_wait_with_their_closures, |flavour| {
    for whose in BOTH {
        let (pool, tenant) = limited(flavour, 1, whose, 1);
        let held = hold_workers(&pool, 1);
        let probe = Probe::new();
        let queued = fill(&tenant, &probe).pop().unwrap();
        let token = CancelToken::new();
        thread::scope(|scope| {
            let _guard = held.open_on_panic();
            let submit = |i: usize| {
                let (tenant, token, job) = (&tenant, &token, probe.job());
                spawn_blocked(scope, move || match i % 4 {
                    0 => refused(tenant.submit(job)),
                    1 => refused(tenant.execute(job)),
                    2 => refused(tenant.job().cancel_token(token).submit(job)),
                    _ => refused(tenant.submit_timeout(Duration::MAX, job)),
                })
            };
            let submitters: Vec<_> = (0..12).map(submit).collect();
            pool.close();
            for submitter in submitters {
                let (reason, job) = submitter.join().unwrap();
                assert_matches!(reason, Rejected::ShutDown);
                job();
            }
        });
        held.release();
        queued.join().expect("accepted before the close");
        probe.assert_all_dropped(13);
        assert_eq!(pool.stats().submitted, 2);
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(the_last_slot_retired_wakes_all_who_wait, |flavour| {
    let policy = PanicPolicy::Restart { max_restarts: 0 };
    for whose in BOTH {
        let builder = flavour.builder().workers(1).fair().on_panic(policy);
        let pool = flavour.build(match whose {
            Limit::Pool => builder.queue_limit(1),
            Limit::Tenant => builder,
        });
        let tenant = pool.tenant("a").with_queue_limit(1);
        let (begun, gate) = (Gate::new(), Gate::new());
        let (begins, waits) = (begun.clone(), gate.clone());
        let panics = pool.job().priority(1).submit(move || {
            begins.open();
            waits.wait();
            std::panic::resume_unwind(Box::new("there is no budget for this"));
        });
        begun.wait();
        let probe = Probe::new();
        let queued = fill(&tenant, &probe).pop().unwrap();
        thread::scope(|scope| {
            let gate = gate;
            let submit = |_| spawn_blocked(scope, || refused(tenant.submit(probe.job())).0);
            let submitters: Vec<_> = (0..5).map(submit).collect();
            gate.open();
            for submitter in submitters {
                assert_matches!(submitter.join().unwrap(), Rejected::RestartExhausted);
            }
        });
        let panics: JobHandle<()> = panics.unwrap();
        assert!(panics.join().unwrap_err().is_panic());
        assert_matches!(queued.join(), Err(JobError::Discarded));
        pool.wait_idle();
        probe.assert_all_dropped(0);
        drop(tenant);
        assert_eq!(pool.stats().tenants, []);
        drop(pool);
    }
});

by_strategy!(a_tenant_with_nothing_but_a_waiter_is_alive, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair().queue_limit(1));
    let held = hold_workers(&pool, 1);
    let queued = pool.try_submit(|| ()).unwrap();
    let names = || -> Vec<_> {
        let tenants = pool.stats().tenants;
        tenants.into_iter().map(|tenant| tenant.name).collect()
    };
    let token = CancelToken::new();
    thread::scope(|scope| {
        let _guard = held.open_on_panic();
        let waiting = spawn_blocked(scope, || {
            pool.job()
                .tenant("waits")
                .cancel_token(&token)
                .submit(|| ())
                .unwrap()
        });
        assert_eq!(names(), ["", "waits"]);
        token.cancel();
        assert!(waiting.join().unwrap().join().unwrap_err().is_cancelled());
    });
    assert_eq!(names(), [""]);
    held.release();
    queued.join().unwrap();
    finish_gated(pool);
});

by_strategy!(a_job_of_another_pool_waits, |flavour| {
    let (pool, own) = limited(flavour, 1, Limit::Tenant, 1);
    let (other, theirs) = limited(flavour, 1, Limit::Tenant, 1);
    let held = hold_workers(&other, 1);
    let probe = Probe::new();
    let queued = fill(&theirs, &probe).pop().unwrap();
    let (begins, submits, job) = (Gate::new(), theirs.clone(), probe.job());
    let begun = begins.clone();
    let waiting = pool.submit(move || {
        begun.open();
        submits
            .submit(job)
            .map(JobHandle::join)
            .map_err(|error| error.reason())
    });
    begins.wait();
    // Whether it waits by now or not: there will be room.
    held.release();
    waiting
        .unwrap()
        .join()
        .unwrap()
        .expect("room in the end")
        .unwrap();
    queued.join().unwrap();
    probe.assert_all_dropped(2);
    drop((theirs, own));
    finish_gated(other);
    finish_gated(pool);
});
