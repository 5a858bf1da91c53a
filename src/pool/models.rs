//! Models of the pool itself, with its real threads: how it closes, replaces threads, hands a slot of
//! the gate over, and runs jobs in place.
//!
//! What they share is the end: each drops the pool, which joins its threads, so a lost wake-up or a
//! count that is never taken back is a deadlock; and each asserts that the books add up.

use super::core::Core;
use super::{PanicPolicy, PoolBuilder, WorkerPool};
use crate::cancel::CancelToken;
use crate::error::{JobError, Rejected};
use crate::job::JobHandle;
use crate::sync::Arc;
use crate::sync::model::{Bound, check, join, spawn};

fn build(builder: PoolBuilder) -> Arc<WorkerPool> {
    Arc::new(builder.build().expect("a model has its threads"))
}

/// Closes the pool, joins its threads, and looks at the books.
fn end(pool: Arc<WorkerPool>) {
    let core = Arc::clone(&pool.core);
    drop(Arc::into_inner(pool).expect("nobody else owns the pool"));
    check_books(&core);
}

fn check_books(core: &Core) {
    let tally = core.tally();
    let settled = tally.completed + tally.panicked + tally.cancelled + tally.discarded;
    assert_eq!((tally.queued, tally.running), (0, 0), "{tally:?}");
    assert_eq!(tally.submitted, settled, "{tally:?}");
    assert!(core.is_idle());
}

/// A panic that does not bother the panic hook.
fn panic_quietly() {
    std::panic::resume_unwind(Box::new("expected"));
}

#[test]
fn closing_and_a_submit() {
    check("pool: close, submit", Bound::Preemptions(3), || {
        let pool = build(WorkerPool::builder().workers(1));
        let theirs = Arc::clone(&pool);
        let submitter = spawn(move || theirs.submit(|| 1).map_err(|refused| refused.reason()));
        pool.close();
        match join(submitter).map(JobHandle::join) {
            Ok(result) => assert_eq!(result.unwrap(), 1),
            Err(reason) => assert_eq!(reason, Rejected::ShutDown),
        }
        end(pool);
    });
}

#[test]
fn closing_and_a_submit_through_the_gate() {
    check(
        "pool with a limit: close, submit",
        Bound::Preemptions(3),
        || {
            let pool = build(WorkerPool::builder().workers(1).fair());
            let theirs = Arc::clone(&pool);
            let submitter = spawn(move || theirs.submit(|| 1).map_err(|refused| refused.reason()));
            pool.close();
            match join(submitter).map(JobHandle::join) {
                Ok(result) => assert_eq!(result.unwrap(), 1),
                Err(reason) => assert_eq!(reason, Rejected::ShutDown),
            }
            end(pool);
        },
    );
}

#[test]
fn a_gate_that_hands_over_and_a_cancel() {
    check(
        "pool with a limit: hand-over, cancel",
        Bound::Preemptions(3),
        || {
            let pool = build(WorkerPool::builder().workers(1).fair());
            pool.execute(|| ()).unwrap();
            let second = pool.submit(|| 2).unwrap();
            let third = pool.submit(|| 3).unwrap();
            let cancelled = second.cancel();
            assert_eq!(third.join().unwrap(), 3);
            match second.join() {
                Ok(result) => assert!(result == 2 && !cancelled),
                Err(error) => assert!(matches!(error, JobError::Cancelled) && cancelled),
            }
            end(pool);
        },
    );
}

#[test]
fn a_gate_that_hands_over_and_a_token() {
    check(
        "pool with a limit: hand-over, token",
        Bound::Preemptions(2),
        || {
            let pool = build(WorkerPool::builder().workers(1).fair());
            let token = CancelToken::new();
            let job = pool.job().cancel_token(&token).submit(|| 1).unwrap();
            let canceller = spawn(move || token.cancel());
            pool.execute(|| ()).unwrap();
            match job.join() {
                Ok(result) => assert_eq!(result, 1),
                Err(error) => assert!(error.is_cancelled()),
            }
            join(canceller);
            end(pool);
        },
    );
}

#[test]
fn a_restart_and_a_submit() {
    check("pool: restart, submit", Bound::Preemptions(3), || {
        let policy = PanicPolicy::Restart { max_restarts: 1 };
        let pool = build(WorkerPool::builder().workers(1).on_panic(policy));
        pool.execute(panic_quietly).unwrap();
        let job = pool.submit(|| 1).unwrap();
        assert_eq!(job.join().unwrap(), 1);
        end(pool);
    });
}

#[test]
fn the_last_retirement_and_a_submit() {
    check(
        "pool: the last slot's retirement, submit",
        Bound::Preemptions(3),
        || {
            let policy = PanicPolicy::Restart { max_restarts: 0 };
            let pool = build(WorkerPool::builder().workers(1).on_panic(policy));
            pool.execute(panic_quietly).unwrap();
            let is_some_left = pool.core.live_slots() > 0;
            match pool.submit(|| 1).map_err(|refused| refused.reason()) {
                Ok(job) => {
                    assert!(is_some_left, "accepted with no slot left");
                    assert!(matches!(job.join(), Err(JobError::Discarded)));
                }
                Err(reason) => assert_eq!(reason, Rejected::RestartExhausted),
            }
            end(pool);
        },
    );
}

#[test]
fn the_last_retirement_and_a_submit_through_the_gate() {
    check(
        "pool with a limit: the last slot's retirement, submit",
        Bound::Preemptions(3),
        || {
            let policy = PanicPolicy::Restart { max_restarts: 0 };
            let pool = build(WorkerPool::builder().workers(1).fair().on_panic(policy));
            pool.execute(panic_quietly).unwrap();
            match pool.submit(|| 1).map_err(|refused| refused.reason()) {
                Ok(job) => assert!(matches!(job.join(), Err(JobError::Discarded))),
                Err(reason) => assert_eq!(reason, Rejected::RestartExhausted),
            }
            end(pool);
        },
    );
}

#[test]
fn waiting_for_an_idle_moment() {
    check("pool: wait_idle, two jobs", Bound::Preemptions(3), || {
        let pool = build(WorkerPool::builder().workers(1));
        pool.execute(|| ()).unwrap();
        pool.execute(|| ()).unwrap();
        pool.wait_idle();
        check_books(&pool.core);
        end(pool);
    });
}

#[test]
fn a_sweep_and_a_slot_that_runs() {
    check(
        "pool: cancel_queued, a running slot",
        Bound::Preemptions(3),
        || {
            let pool = build(WorkerPool::builder().workers(1));
            let jobs = [1, 2].map(|n| pool.submit(move || n).unwrap());
            let swept = pool.cancel_queued();
            let cancelled = jobs
                .into_iter()
                .filter_map(|job| job.join().err())
                .inspect(|error| assert!(error.is_cancelled()));
            assert_eq!(cancelled.count(), swept);
            end(pool);
        },
    );
}

#[test]
fn a_nested_join() {
    check(
        "pool: a nested join, a thief",
        Bound::Preemptions(2),
        || {
            let pool = build(WorkerPool::builder().workers(2));
            let theirs = Arc::clone(&pool);
            let job = pool.submit(move || {
                let child = theirs.submit(|| 1).unwrap();
                drop(theirs);
                child.join().unwrap()
            });
            assert_eq!(job.unwrap().join().unwrap(), 1);
            end(pool);
        },
    );
}

#[test]
fn a_submit_that_waits_for_room() {
    check(
        "pool: a queue limit, two submitters",
        Bound::Preemptions(3),
        || {
            let pool = build(WorkerPool::builder().workers(1).queue_limit(1));
            let theirs = Arc::clone(&pool);
            let submitter = spawn(move || theirs.execute(|| ()).is_ok());
            pool.execute(|| ()).unwrap();
            assert!(join(submitter));
            end(pool);
        },
    );
}
