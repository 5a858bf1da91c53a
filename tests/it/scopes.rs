//! Scopes: nothing of a scope is left when it ends, whatever destructors do meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobError, Rejected, Scope};

use crate::common::*;
use crate::panics::{Bomb, panicking, quiet_panic};

/// A result that submits to its scope when it is dropped, so many times in a row.
struct Again<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    count: &'scope AtomicUsize,
    left: usize,
}

impl Drop for Again<'_, '_> {
    fn drop(&mut self) {
        let Again { scope, count, left } = *self;
        count.fetch_add(1, Ordering::SeqCst);
        if left > 0 {
            let left = left - 1;
            let again = move || Again { scope, count, left };
            drop(scope.submit(again).unwrap());
        }
    }
}

scenario!(
    a_scope_outlives_what_results_submit_when_dropped,
    |flavour| {
        let pool = flavour.pool(2);
        let drops = AtomicUsize::new(0);
        for round in 1..=50 {
            pool.scope(|scope| {
                let count = &drops;
                let first = move || Again {
                    scope,
                    count,
                    left: 3,
                };
                drop(scope.submit(first).unwrap());
            });
            assert_eq!(drops.load(Ordering::SeqCst), 4 * round);
        }
        finish(pool);
    }
);

scenario!(a_scope_of_many_jobs_borrows_and_ends, |flavour| {
    let pool = flavour.pool(2);
    let sum = AtomicUsize::new(0);
    pool.scope(|scope| {
        for n in 0..5_000 {
            let sum = &sum;
            scope
                .execute(move || _ = sum.fetch_add(n, Ordering::Relaxed))
                .unwrap();
        }
    });
    assert_eq!(sum.into_inner(), 5_000 * 4_999 / 2);
    finish(pool);
});

scenario!(a_scope_inside_the_only_worker_ends, |flavour| {
    let pool = flavour.pool(1);
    let inner = std::sync::Arc::clone(&pool);
    let job = pool.submit(move || {
        let total = AtomicUsize::new(0);
        inner.scope(|scope| {
            for n in 1..=100 {
                let total = &total;
                scope
                    .execute(move || _ = total.fetch_add(n, Ordering::Relaxed))
                    .unwrap();
            }
        });
        total.into_inner()
    });
    assert_eq!(job.unwrap().join().unwrap(), 5_050);
    finish(pool);
});

/// Calls a closure when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0.take().unwrap())();
    }
}

scenario!(
    an_expired_jobs_captures_may_join_or_cancel_the_next_job,
    |flavour| {
        for cancels in [false, true] {
            let pool = flavour.pool(1);
            let held = hold_workers(&pool, 1);
            let (sender, receiver) = std::sync::mpsc::channel::<fairlane::JobHandle<u32>>();
            let (answer, answers) = std::sync::mpsc::channel();
            let capture = OnDrop(Some(move || {
                let next = receiver.recv().unwrap();
                answer
                    .send(if cancels {
                        next.cancel()
                    } else {
                        next.join().unwrap() == 7
                    })
                    .unwrap();
            }));
            let soon = Instant::now() + Duration::from_millis(30);
            let late = pool
                .job()
                .deadline(soon)
                .submit(move || drop(capture))
                .unwrap();
            sender.send(pool.submit(|| 7).unwrap()).unwrap();
            // The deadline is looked at when the job would begin.
            eventually("the deadline has passed", || Instant::now() > soon);
            held.release();
            assert!(answers.recv().unwrap());
            assert_matches!(late.join(), Err(JobError::Expired));
            finish(pool);
        }
    }
);

scenario!(
    a_swept_jobs_captures_may_join_another_queued_job,
    |flavour| {
        let pool = flavour.pool(1);
        let held = hold_workers(&pool, 1);
        let (sender, receiver) = std::sync::mpsc::channel::<fairlane::JobHandle<()>>();
        let (answer, answers) = std::sync::mpsc::channel();
        let capture = OnDrop(Some(move || {
            let other = receiver.recv().unwrap().join();
            answer.send(other.unwrap_err().is_cancelled()).unwrap();
        }));
        let first = pool.submit(move || drop(capture)).unwrap();
        sender.send(pool.submit(|| ()).unwrap()).unwrap();
        pool.cancel_queued();
        assert!(
            answers.recv().unwrap(),
            "it is cancelled along with the first"
        );
        assert!(first.join().unwrap_err().is_cancelled());
        held.release();
        finish(pool);
    }
);

scenario!(
    a_job_refused_by_its_token_may_ask_whether_the_pool_is_idle,
    |flavour| {
        let pool = flavour.pool(1);
        let token = CancelToken::new();
        token.cancel();
        let (answer, answers) = std::sync::mpsc::channel();
        let asked = std::sync::Arc::clone(&pool);
        let capture = OnDrop(Some(move || {
            answer.send(asked.wait_idle_timeout(Duration::MAX)).unwrap();
        }));
        let job = pool
            .job()
            .cancel_token(&token)
            .submit(move || drop(capture))
            .unwrap();
        assert!(!answers.recv().unwrap(), "it would wait for itself");
        assert!(job.join().unwrap_err().is_cancelled());
        finish(pool);
    }
);

scenario!(a_tenants_scope_belongs_to_the_tenant, |flavour| {
    let pool = flavour.pool(2);
    let tenant = pool.tenant("theirs");
    let sum = AtomicUsize::new(0);
    tenant.scope(|scope| {
        let add = |n| _ = sum.fetch_add(n, Ordering::SeqCst);
        (0..10).for_each(|n| scope.execute(move || add(n)).unwrap());
        assert_eq!(scope.submit(|| 7).unwrap().join().unwrap(), 7);
    });
    assert_eq!(sum.into_inner(), 45);
    // Without a limit there is nobody to count for.
    pool.wait_idle();
    for told in pool.stats().tenants {
        assert_eq!((told.name.as_str(), told.completed), ("theirs", 11));
    }
    drop(tenant);
    finish(pool);
});

scenario!(jobs_of_a_scope_can_be_watched_and_called_off, |flavour| {
    let pool = flavour.pool(1);
    let probe = Probe::new();
    let held = hold_workers(&pool, 1);
    pool.scope(|scope| {
        let [off, left, runs] = [(); 3].map(|()| scope.submit(probe.job()).unwrap());
        assert!(!off.is_finished() && !runs.is_finished());
        assert!(off.cancel() && off.is_finished());
        assert_matches!(off.join(), Err(JobError::Cancelled));
        // One that was called off and that nobody joins is nothing to raise.
        assert!(left.cancel());
        drop(left);
        held.open();
        eventually("the job has run", || runs.is_finished());
        assert!(!runs.cancel());
        runs.join().unwrap();
    });
    held.release();
    probe.assert_all_dropped(1);
    finish(pool);
});

scenario!(a_scope_that_panics_waits_for_its_jobs, |flavour| {
    let pool = flavour.pool(2);
    let (begun, proceed) = (Gate::new(), Gate::new());
    let mut borrowed = [1, 2, 3];
    let raised = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            let (part, begins, waits) = (&mut borrowed, begun.clone(), proceed.clone());
            let slow = move || {
                begins.open();
                waits.wait();
                part.reverse();
            };
            scope.execute(slow).unwrap();
            begun.wait();
            // Raised as well, but the scope's own panic comes first.
            scope.execute(|| quiet_panic("a job's")).unwrap();
            proceed.open();
            quiet_panic("the scope's")
        })
    }));
    let payload = raised.unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "the scope's");
    assert_eq!(borrowed, [3, 2, 1], "the job was waited for");
    finish(pool);
});

scenario!(
    a_scope_on_a_closed_pool_gives_its_closures_back,
    |flavour| {
        let pool = flavour.pool(1);
        pool.close();
        let probe = Probe::new();
        let (first, second) = (probe.job(), probe.job());
        pool.scope(|scope| {
            let (reason, job) = refused(scope.execute(first));
            assert_matches!(reason, Rejected::ShutDown);
            job();
            let (reason, job) = refused(scope.submit(second));
            assert_matches!(reason, Rejected::ShutDown);
            job();
        });
        probe.assert_all_dropped(2);
        finish(pool);
    }
);

scenario!(
    a_swept_jobs_captures_may_open_a_scope_of_queued_jobs,
    |flavour| {
        let pool = flavour.pool(1);
        let held = hold_workers(&pool, 1);
        let (inner, probe) = (std::sync::Arc::clone(&pool), Probe::new());
        let captured = [probe.job(), probe.job()];
        let capture = OnDrop(Some(move || {
            inner.scope(|scope| {
                let [first, second] = captured;
                scope.execute(first).unwrap();
                drop(scope.submit(second).unwrap());
            });
        }));
        let job = pool.submit(move || drop(capture)).unwrap();
        // The worker is held until the sweep is over, and the scope is part of the sweep.
        pool.cancel_queued();
        assert!(job.join().unwrap_err().is_cancelled());
        probe.assert_all_dropped(0);
        held.release();
        finish(pool);
    }
);

scenario!(scopes_in_scopes_with_one_worker_and_one_turn, |flavour| {
    let pool = flavour.pool(1);
    let tenant = pool.tenant("narrow").with_max_running(1);
    let sum = AtomicUsize::new(0);
    fn descend(tenant: &fairlane::Tenant, sum: &AtomicUsize, depth: usize) {
        sum.fetch_add(1, Ordering::SeqCst);
        if depth > 0 {
            tenant.scope(|scope| {
                scope.execute(|| descend(tenant, sum, depth - 1)).unwrap();
                drop(scope.submit(|| descend(tenant, sum, depth - 1)).unwrap());
            });
        }
    }
    tenant.scope(|scope| scope.execute(|| descend(&tenant, &sum, 6)).unwrap());
    assert_eq!(sum.into_inner(), 127);
    pool.scope(|_| ());
    drop(tenant);
    finish(pool);
});

scenario!(
    panics_that_a_scope_does_not_raise_are_dropped_safely,
    |flavour| {
        let pool = flavour.pool(2);
        let raised = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                for _ in 0..40 {
                    scope.execute(panicking(Bomb(2))).unwrap();
                }
                // Nobody gets this one, since the panic is raised.
                Bomb(2)
            })
        }));
        match raised.map(std::mem::forget).unwrap_err().downcast::<Bomb>() {
            Ok(bomb) => std::mem::forget(bomb),
            Err(_) => panic!("it is one of theirs"),
        }
        finish(pool);
    }
);
