//! Models of a job's life: who gets the closure, who the result, who frees both. loom sees whether two
//! threads touch the same bytes unordered, whether the memory is freed, and whether a joiner sleeps for
//! ever.

use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicUsize;

use super::slab::{Cursor, release, slab_of};
use super::{Conditions, Home, HomeKeeper, InPlace, Job, JobHandle, Place, Stage};
use crate::cancel::CancelToken;
use crate::error::JobError;
use crate::ledger::{Fate, Idle, Load, is_idle};
use crate::sync::model::{Bound, check, join, spawn};
use crate::sync::{Access, Arc, Ordering, Weak};
use crate::worker;

/// A pool as far as a job knows it. What the model alone counts, it counts unseen by loom.
#[derive(Default)]
struct Pool {
    loads: [Load; 2],
    idle: Idle,
    ran: AtomicUsize,
    dropped: AtomicUsize,
}

impl HomeKeeper for Pool {
    fn withdrawn(&self, slot: usize, _: &Place, fate: Fate) {
        self.loads[slot].withdraw(fate);
    }

    fn begin_in_place(&self, _: &Place, claim: &dyn Fn() -> Option<usize>) -> Option<InPlace> {
        let slot = claim()?;
        self.loads[slot].begin_elsewhere();
        Some(InPlace { slot, tenant: None })
    }

    fn end_in_place(&self, job: &InPlace, panicked: bool) {
        self.loads[job.slot].end_elsewhere(panicked);
    }

    fn gone(&self, slot: usize) {
        self.loads[slot].finish_elsewhere();
        self.check_idle();
    }
}

/// A result or a capture that counts its end.
struct Counted(Arc<Pool>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A job whose closure moves what it captured into its result.
struct Made {
    pool: Arc<Pool>,
    home: Arc<Home>,
    job: Job,
    handle: JobHandle<Counted>,
}

fn make(conditions: Option<Box<Conditions>>) -> Made {
    let pool = Arc::new(Pool::default());
    let keeper: Arc<dyn HomeKeeper> = Arc::clone(&pool) as _;
    let weak: Weak<dyn HomeKeeper> = Arc::downgrade(&keeper);
    let home = Arc::new(Home::new(weak));
    pool.loads[0].submit();
    let captured = Counted(Arc::clone(&pool));
    let (job, handle) = JobHandle::queued(&home, 0, conditions, move || {
        captured.0.ran.fetch_add(1, Ordering::Relaxed);
        captured
    });
    Made {
        pool,
        home,
        job,
        handle,
    }
}

impl Pool {
    fn run(&self, job: Job, slot: usize) {
        job.run(&Stage {
            load: &self.loads[slot],
            room: None,
            turn: None,
            idle: Some(&self.idle),
        });
    }

    fn is_idle(&self) -> bool {
        is_idle(self.loads.iter(), || true)
    }

    fn check_idle(&self) {
        if let Some(registered) = self.idle.awaited_in_order() {
            if self.is_idle() {
                self.idle.announce(registered);
            }
        }
    }

    /// All is over: what was captured was dropped once, and the books add up.
    fn check_end(&self, ran: usize) {
        assert_eq!(self.ran.load(Ordering::Relaxed), ran);
        assert_eq!(self.dropped.load(Ordering::Relaxed), 1);
        assert_eq!(self.loads[0].pending() + self.loads[1].pending(), 0);
    }
}

fn with_token(token: &CancelToken) -> Option<Box<Conditions>> {
    Some(Box::new(Conditions {
        subscription: Some(token.subscription()),
        ..Conditions::default()
    }))
}

#[test]
fn a_start_and_a_cancel() {
    check("job: start, cancel", Bound::Exhaustive, || {
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(None);
        let theirs = Arc::clone(&pool);
        let worker = spawn(move || theirs.run(job, 0));
        let cancelled = handle.cancel();
        let result = handle.join();
        assert_eq!(cancelled, matches!(result, Err(JobError::Cancelled)));
        drop(result);
        join(worker);
        pool.check_end(usize::from(!cancelled));
        drop(home);
    });
}

#[test]
fn a_finish_and_a_join() {
    check("job: finish, join", Bound::Exhaustive, || {
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(None);
        let theirs = Arc::clone(&pool);
        let worker = spawn(move || theirs.run(job, 0));
        assert!(handle.join().is_ok());
        join(worker);
        pool.check_end(1);
        drop(home);
    });
}

#[test]
fn a_finish_and_a_join_that_gives_up() {
    check("job: finish, join_timeout", Bound::Exhaustive, || {
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(None);
        let theirs = Arc::clone(&pool);
        let worker = spawn(move || theirs.run(job, 0));
        match handle.join_timeout(std::time::Duration::ZERO) {
            Ok(result) => assert!(result.is_ok()),
            Err(handle) => drop(handle),
        }
        join(worker);
        pool.check_end(1);
        drop(home);
    });
}

#[test]
fn a_finish_and_the_end_of_the_handle() {
    check("job: finish, drop of the handle", Bound::Exhaustive, || {
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(None);
        let theirs = Arc::clone(&pool);
        let worker = spawn(move || theirs.run(job, 0));
        drop(handle);
        join(worker);
        pool.check_end(1);
        drop(home);
    });
}

/// With somebody who waits for an idle moment, the runner holds the handle until it has settled.
#[test]
fn a_sealed_finish_and_the_end_of_the_handle() {
    check(
        "job: sealed finish, drop of the handle",
        Bound::Exhaustive,
        || {
            let Made {
                pool,
                home,
                job,
                handle,
            } = make(None);
            let now = std::time::Instant::now();
            let theirs = Arc::clone(&pool);
            let waiter = spawn(move || theirs.idle.wait(|| false, Some(now)));
            let theirs = Arc::clone(&pool);
            let worker = spawn(move || theirs.run(job, 0));
            drop(handle);
            join(worker);
            join(waiter);
            pool.check_end(1);
            drop(home);
        },
    );
}

#[test]
fn a_start_a_token_and_the_end_of_the_handle() {
    check(
        "job: start, token, drop of the handle",
        Bound::Preemptions(3),
        || {
            let token = CancelToken::new();
            let Made {
                pool,
                home,
                job,
                handle,
            } = make(with_token(&token));
            let theirs = Arc::clone(&pool);
            let worker = spawn(move || theirs.run(job, 0));
            let canceller = spawn(move || token.cancel());
            drop(handle);
            join(worker);
            join(canceller);
            pool.check_end(pool.ran.load(Ordering::Relaxed));
            drop(home);
        },
    );
}

#[test]
fn a_start_a_token_and_a_join() {
    check("job: start, token, join", Bound::Preemptions(3), || {
        let token = CancelToken::new();
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(with_token(&token));
        let theirs = Arc::clone(&pool);
        let worker = spawn(move || theirs.run(job, 0));
        let canceller = spawn(move || token.cancel());
        let ran = handle.join().is_ok();
        join(worker);
        join(canceller);
        pool.check_end(usize::from(ran));
        drop(home);
    });
}

/// Whoever withdraws a job counts it out of the slot that it is counted in, however it moves.
#[test]
fn a_move_to_another_slot_and_a_cancel() {
    check("job: move, cancel", Bound::Exhaustive, || {
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(None);
        let theirs = Arc::clone(&pool);
        let thief = spawn(move || {
            if job.relocate(1) {
                theirs.loads[1].take();
                theirs.loads[0].give();
            }
            theirs.run(job, 1);
        });
        let cancelled = handle.cancel();
        drop(handle);
        join(thief);
        pool.check_end(usize::from(!cancelled));
        drop(home);
    });
}

#[test]
fn a_start_and_a_run_in_place() {
    check("job: start, run in place", Bound::Exhaustive, || {
        let Made {
            pool,
            home,
            job,
            handle,
        } = make(None);
        let theirs = Arc::clone(&pool);
        let worker = spawn(move || theirs.run(job, 0));
        {
            let _member = worker::enter(home.address(), 0, std::rc::Rc::new(()));
            assert!(handle.join().is_ok());
        }
        join(worker);
        pool.check_end(1);
        drop(home);
    });
}

#[test]
fn a_callback_and_the_cancelling_of_its_token() {
    check(
        "token: a callback's start and end, cancel, a child",
        Bound::Exhaustive,
        || {
            let token = CancelToken::new();
            let parent = token.clone();
            let canceller = spawn(move || parent.cancel());
            let child = spawn({
                let parent = token.clone();
                move || parent.child()
            });
            let calls = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&calls);
            let subscription = token.subscription();
            subscription.start(Box::new(move || {
                theirs.fetch_add(1, Ordering::Relaxed);
            }));
            join(canceller);
            assert_eq!(calls.load(Ordering::Relaxed), 1, "called at once if late");
            subscription.end();
            assert!(join(child).is_cancelled());
        },
    );
}

/// Whoever was told that the pool is idle finds every job of it settled.
#[test]
fn a_finish_and_a_look_after_an_idle_moment() {
    check(
        "job: finish, wait_idle, is_finished",
        Bound::Exhaustive,
        || {
            let made = make(None);
            let (pool, handle) = (made.pool, made.handle);
            let theirs = Arc::clone(&pool);
            let worker = spawn(move || {
                theirs.run(made.job, 0);
                theirs.check_idle();
            });
            pool.idle.wait(|| pool.is_idle(), None);
            assert!(handle.is_finished());
            drop(handle);
            join(worker);
            drop(made.home);
        },
    );
}

/// The same for a job that was called off, by whoever.
#[test]
fn a_cancel_and_a_look_after_an_idle_moment() {
    check(
        "job: token, wait_idle, is_finished",
        Bound::Exhaustive,
        || {
            let token = CancelToken::new();
            let made = make(with_token(&token));
            let (pool, handle) = (made.pool, made.handle);
            let canceller = spawn(move || token.cancel());
            pool.idle.wait(|| pool.is_idle(), None);
            assert!(handle.is_finished());
            drop(handle);
            drop(made.job);
            join(canceller);
            drop(made.home);
        },
    );
}

/// Two threads give back a line each, a third one leaves the slab: whoever is last frees it, after all
/// that was done to the lines.
#[test]
#[allow(unsafe_code)]
fn the_last_line_of_a_slab() {
    check("the last line of a slab", Bound::Exhaustive, || {
        let cursor = Cursor::new();
        let uses = Arc::new([Access::new(), Access::new()]);
        let threads = [0, 1].map(|mine| {
            let (at, spot) = cursor.take(1);
            // A number crosses threads, a pointer does not.
            let at = at.as_ptr().expose_provenance();
            let uses = Arc::clone(&uses);
            spawn(move || {
                uses[mine].exclusive();
                let at = NonNull::new(ptr::with_exposed_provenance_mut(at)).unwrap();
                // SAFETY: the line is this thread's, and given back once.
                let is_last = unsafe { release(slab_of(at, spot), 1) };
                if is_last {
                    uses.iter().for_each(Access::exclusive);
                }
            })
        });
        if cursor.leave() {
            uses.iter().for_each(Access::exclusive);
        }
        threads.into_iter().for_each(join);
    });
}
