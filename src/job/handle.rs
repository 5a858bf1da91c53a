//! The user's end of a job.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::cell::{HandleRef, pair};
use super::state::{Claim, Phase};
use super::{Conditions, Home, Job};
use crate::error::JobError;
use crate::ledger::Fate;
use crate::sync::{cores, hint, thread};
use crate::worker;

/// How often a joiner looks before it parks, about 1.5 µs: longer than a tiny job takes on another
/// core, shorter than the 4.6 µs it costs to be woken. It never yields: yielding kept joiner and
/// worker on one core, and a round trip took 8 to 10 µs instead of 0.26.
const JOIN_SPINS: u32 = 60;

/// A job that was accepted: wait for its result, look whether it is there, or call it off.
///
/// Handles share blocks of memory, see the [guide](crate::guide::cost).
///
/// Every handle resolves, whatever becomes of the job, the pool or the thread. Dropping one detaches
/// the job: it runs all the same, and its result is dropped.
///
/// ```
/// use fairlane::{JobError, WorkerPool};
/// use std::time::Duration;
///
/// let pool = WorkerPool::new(2)?;
/// let job = pool.submit(|| 6 * 7)?;
/// assert_eq!(job.join()?, 42);
///
/// let job = pool.submit(|| panic!("no such luck"))?;
/// match job.join() {
///     Ok(()) => unreachable!(),
///     Err(JobError::Panicked(payload)) => assert_eq!(payload.message(), "no such luck"),
///     Err(error) => return Err(error.into()),
/// }
///
/// let job = pool.submit(|| 6 * 7)?;
/// match job.join_timeout(Duration::from_secs(60)) {
///     Ok(result) => assert_eq!(result?, 42),
///     Err(job) => drop(job), // not in time: here it is again, to go on waiting or to cancel
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "dropping the handle detaches the job: use `execute` if the result is of no interest"]
pub struct JobHandle<T> {
    job: HandleRef<T>,
}

#[allow(unsafe_code)]
impl<T: Send> JobHandle<T> {
    /// A queue entry and the handle to it, for a closure that may borrow.
    ///
    /// # Safety
    /// What the closure and the result borrow outlives the job, until the witness among its
    /// conditions has been told that it is gone.
    pub(crate) unsafe fn queued_borrowing<F>(
        home: &Home,
        slot: usize,
        conditions: Box<Conditions>,
        f: F,
    ) -> (Job, JobHandle<T>)
    where
        F: FnOnce() -> T + Send,
    {
        // SAFETY: the caller's promise.
        let (entry, job) = unsafe { pair(Some(home), slot, Some(conditions), f) };
        (Job::of_cell(entry), JobHandle { job })
    }
}

#[allow(unsafe_code)]
impl<T: Send + 'static> JobHandle<T> {
    /// A queue entry and the handle to it.
    #[inline]
    pub(crate) fn queued<F>(
        home: &Home,
        slot: usize,
        conditions: Option<Box<Conditions>>,
        f: F,
    ) -> (Job, JobHandle<T>)
    where
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: neither the closure nor the result borrows anything.
        let (entry, job) = unsafe { pair(Some(home), slot, conditions, f) };
        (Job::of_cell(entry), JobHandle { job })
    }

    /// A job that is settled before it ever was in a queue.
    pub(crate) fn refused<F>(fate: Fate, f: F) -> JobHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: neither the closure nor the result borrows anything.
        let (entry, job) = unsafe { pair(None, 0, None, f) };
        entry.withdraw_unqueued(fate);
        JobHandle { job }
    }

    /// A job that ran on this thread, at once.
    pub(crate) fn ran_here<F>(f: F) -> JobHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: neither the closure nor the result borrows anything.
        let (entry, job) = unsafe { pair(None, 0, None, f) };
        entry.run_homeless();
        JobHandle { job }
    }
}

impl<T> JobHandle<T> {
    /// Waits for the job to settle and returns what came of it.
    ///
    /// On a thread of the job's own pool this cannot wait for a queued job: it runs that very job
    /// here and now, never any other one. So nested joins do not deadlock for want of a thread, and
    /// a lock held across `join` is not taken again by a stranger.
    ///
    /// # Errors
    /// [`JobError`] says why there is no result. [`JobError::WouldDeadlock`] if the job is running
    /// on this thread, as itself or as an ancestor of the current job; it then goes on, detached.
    pub fn join(self) -> Result<T, JobError> {
        if self.job.phase() != Phase::Settled {
            if self.job.is_ancestor() {
                return Err(JobError::WouldDeadlock);
            }
            // In a forked child the job is the parent's to run.
            if self.job.is_forked() || (!self.run_in_place() && !self.wait(None)) {
                return Err(JobError::Discarded);
            }
        }
        self.job.take()
    }

    /// Like [`join`](JobHandle::join), for at most `timeout`. It never runs the job itself: on a
    /// thread of the pool it may well time out because that thread is the one the job waits for.
    ///
    /// # Errors
    /// The handle, if the job had not settled in time; the inner error as for `join`.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JobError>, JobHandle<T>> {
        if self.job.phase() != Phase::Settled {
            if self.job.is_ancestor() {
                return Ok(Err(JobError::WouldDeadlock));
            }
            // A deadline too far away to be expressed is none.
            let deadline = Instant::now().checked_add(timeout);
            if !self.wait(deadline) {
                if self.job.is_forked() {
                    return Ok(Err(JobError::Discarded));
                }
                return Err(self);
            }
        }
        Ok(self.job.take())
    }

    /// Whether the job has settled, so that `join` returns at once. Looking at a queued job whose
    /// deadline has passed settles it.
    pub fn is_finished(&self) -> bool {
        self.job.is_forked() || self.job.is_settled() || self.job.expire()
    }

    /// Calls the job off if it has not begun. `true`: it never ran and never will, and its captures
    /// are gone or just being dropped. `false`: it runs or has run.
    ///
    /// What is left in a slot's queue is an empty entry, of the size of the result, that the next
    /// worker to come by throws away. A job in a lane leaves nothing.
    pub fn cancel(&self) -> bool {
        !self.job.is_forked() && self.job.withdraw(Fate::Cancelled) != Claim::Runs
    }

    /// As [`JobHandle::cancel`], but `true` only if it is this call that did it.
    pub(crate) fn call_off(&self) -> bool {
        !self.job.is_forked() && self.job.withdraw(Fate::Cancelled).is_won()
    }

    /// The job's deadline, if it has one.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.job.deadline()
    }

    /// Whether the job runs on this thread, so that waiting for it would never end.
    pub(crate) fn is_ancestor(&self) -> bool {
        self.job.is_ancestor()
    }

    /// Whether the job was submitted in the process that this one was forked from.
    pub(crate) fn is_lost(&self) -> bool {
        self.job.is_forked()
    }

    /// Runs the job on this thread if it is queued and this is a thread of its pool.
    pub(crate) fn run_in_place(&self) -> bool {
        !self.job.is_forked() && self.job.run_in_place(worker::here())
    }

    /// Gets a queued job on that may wait for this very thread: runs it here if this is a thread of its
    /// pool, withdraws it if this thread is doing that to all of them. `false`: there was no need.
    pub(crate) fn advance(&self) -> bool {
        self.job.phase() == Phase::Queued && (self.run_in_place() || self.withdraw_in_sweep())
    }

    fn withdraw_in_sweep(&self) -> bool {
        !self.job.is_forked() && self.job.join_sweep()
    }

    /// Waits until the job has settled; `false` if `deadline` comes first, or in a forked child,
    /// where nobody is left to run it.
    fn wait(&self, deadline: Option<Instant>) -> bool {
        if self.job.is_forked() {
            return false;
        }
        self.job.join_sweep();
        if cores() > 1 {
            for _ in 0..JOIN_SPINS {
                if self.job.phase() == Phase::Settled {
                    return true;
                }
                hint::spin_loop();
            }
        }
        self.job.expire() || !self.job.start_waiting() || self.park(deadline)
    }

    /// Parks until the settler wakes this thread, the wait is over, or the job expires.
    fn park(&self, deadline: Option<Instant>) -> bool {
        loop {
            // The job's own deadline needs watching only while it is queued. It may settle here, by
            // this very thread, which then has itself as the waiter to wake: a token to park on
            // that somebody else's loop finds too early, as any parking loop must expect.
            let limits = [deadline, self.own_deadline()];
            match limits.into_iter().flatten().min() {
                None => thread::park(),
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            }
            if self.job.phase() == Phase::Settled || self.job.expire() {
                return true;
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return !self.job.stop_waiting();
            }
        }
    }

    fn own_deadline(&self) -> Option<Instant> {
        if self.job.phase() == Phase::Queued {
            self.job.deadline()
        } else {
            None
        }
    }
}

// As `std::thread::JoinHandle`: a result is there or not, and only a join takes it.
impl<T> UnwindSafe for JobHandle<T> {}
impl<T> RefUnwindSafe for JobHandle<T> {}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("finished", &(self.job.phase() == Phase::Settled))
            .finish_non_exhaustive()
    }
}
