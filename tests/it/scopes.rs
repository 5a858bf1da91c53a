//! Scopes: nothing of a scope is left when it ends, whatever destructors do meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobError, Scope};

use crate::common::*;

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
