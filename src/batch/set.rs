//! A set of jobs that grows while its results are taken out.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use super::Submit;
use super::settling::Settling;
use crate::error::{JobError, SubmitError};
use crate::job::JobHandle;

/// Jobs of one result type, whose results come out as they finish.
///
/// Anything that is [`Submit`] can run the members: a pool, a tenant, a
/// [`JobBuilder`](crate::JobBuilder) with a priority, a token or a deadline; a set may even hold jobs
/// of several pools. A job that panicked, or never ran, comes out as an `Err` and the others go on.
///
/// ```
/// use fairlane::{JobSet, WorkerPool};
///
/// let pool = WorkerPool::new(2)?;
/// let mut set = JobSet::new();
/// for n in 1..=4u64 {
///     set.submit(&pool, move || n * n).unwrap();
/// }
/// let mut sum = 0;
/// while let Some(square) = set.join_next() {
///     sum += square.unwrap();
/// }
/// assert_eq!(sum, 30);
/// # Ok::<(), fairlane::BuildError>(())
/// ```
///
/// **Iterating.** The set is an iterator over its own results: `for result in &mut set` ends when the
/// set is empty, and goes on if more has been submitted by then.
///
/// **Memory.** A member stays in the set, with its result once it has one, until it is taken out. So
/// whoever submits more than fits into memory takes some out in between:
///
/// ```
/// # use fairlane::{JobSet, WorkerPool};
/// # let pool = WorkerPool::new(2)?;
/// let mut set = JobSet::new();
/// for n in 0..10_000u64 {
///     if set.len() >= 100 {
///         set.join_next();
///     }
///     set.submit(&pool, move || n).unwrap();
/// }
/// # Ok::<(), fairlane::BuildError>(())
/// ```
///
/// **Inside a job** of the same pool it works as well, with one worker too: members that have not
/// begun are run in place before anything is waited for, and no strangers. See
/// [`join_next`](JobSet::join_next).
///
/// **Dropping** the set cancels the members that have not begun, and detaches those that run. Submit
/// to a pool directly if a job is to outlive its handle.
pub struct JobSet<T> {
    jobs: Settling<Outcome<T>>,
}

/// What a member comes to. A closure that is wrapped cannot be taken out again, so a member that was
/// not accepted is called all the same, and hands over what it wraps instead of running it.
enum Outcome<T> {
    Ran(T),
    Refused(Box<dyn Any + Send>),
}

impl<T> Outcome<T> {
    fn ran(self) -> T {
        match self {
            Outcome::Ran(result) => result,
            Outcome::Refused(_) => unreachable!("it was accepted"),
        }
    }
}

impl<T> JobSet<T> {
    /// An empty set.
    #[must_use]
    pub fn new() -> JobSet<T> {
        JobSet {
            jobs: Settling::new(),
        }
    }

    /// How many members there are: those that wait, run, or have settled and were not taken out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a member has settled, takes it out and returns what came of it; `None` if the set
    /// is empty. Members come out in the order in which they settle.
    ///
    /// On a thread of a pool, members that are queued there are run in place, the first submitted
    /// first, before anything is waited for: never any other job. So this does not deadlock for want
    /// of a thread. O(log members); where it runs members in place, it also looks at those that run.
    ///
    /// # Errors
    /// The inner [`JobError`] says why a member has no result. [`JobError::WouldDeadlock`] if only
    /// members are left that run on this very thread; such a one goes on, detached.
    pub fn join_next(&mut self) -> Option<Result<T, JobError>> {
        let (_, outcome) = self.jobs.next()?;
        Some(outcome.map(Outcome::ran))
    }

    /// As [`join_next`](JobSet::join_next), for at most `timeout`: `None` if the set is empty or no
    /// member has settled by then, and [`is_empty`](JobSet::is_empty) tells which. It never runs a
    /// member itself: on a thread of the pool it may time out because that thread is the one they
    /// wait for. With a timeout of zero it is a look.
    ///
    /// # Errors
    /// As there.
    pub fn join_next_timeout(&mut self, timeout: Duration) -> Option<Result<T, JobError>> {
        let (_, outcome) = self.jobs.next_timeout(timeout)?;
        Some(outcome.map(Outcome::ran))
    }

    /// Cancels every member that has not begun, and returns how many that were. They stay members,
    /// and come out as [`JobError::Cancelled`]; their captures are dropped on this thread, now.
    /// Members that run are not touched. O(members).
    pub fn cancel_all(&self) -> usize {
        self.jobs.cancel_from(0)
    }
}

impl<T: Send + 'static> JobSet<T> {
    /// Submits a closure and makes it a member. Waits where `pool` makes submitters wait. O(log
    /// members), beside what a submit costs.
    ///
    /// # Errors
    /// As for [`WorkerPool::submit`](crate::WorkerPool::submit): the closure comes back, and the set
    /// is as it was.
    pub fn submit<S, F>(&mut self, pool: &S, f: F) -> Result<(), SubmitError<F>>
    where
        S: Submit + ?Sized,
        F: FnOnce() -> T + Send + 'static,
    {
        let (key, job) = self.member(f);
        let submitted = pool.submit(job);
        self.enter(key, submitted)
    }

    /// As [`submit`](JobSet::submit), but never waits.
    ///
    /// # Errors
    /// As for [`WorkerPool::try_submit`](crate::WorkerPool::try_submit).
    pub fn try_submit<S, F>(&mut self, pool: &S, f: F) -> Result<(), SubmitError<F>>
    where
        S: Submit + ?Sized,
        F: FnOnce() -> T + Send + 'static,
    {
        let (key, job) = self.member(f);
        let submitted = pool.try_submit(job);
        self.enter(key, submitted)
    }

    /// As [`submit`](JobSet::submit), but waits for at most `timeout`.
    ///
    /// # Errors
    /// As for [`WorkerPool::submit_timeout`](crate::WorkerPool::submit_timeout).
    pub fn submit_timeout<S, F>(
        &mut self,
        pool: &S,
        timeout: Duration,
        f: F,
    ) -> Result<(), SubmitError<F>>
    where
        S: Submit + ?Sized,
        F: FnOnce() -> T + Send + 'static,
    {
        let (key, job) = self.member(f);
        let submitted = pool.submit_timeout(timeout, job);
        self.enter(key, submitted)
    }

    /// The job that `f` becomes, and its key.
    fn member<F>(&mut self, f: F) -> (u64, impl FnOnce() -> Outcome<T> + Send + use<F, T>)
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let notice = self.jobs.notice();
        let key = notice.key();
        let job = notice.given_after(move |notice| match notice.is_void() {
            true => Outcome::Refused(Box::new(f)),
            false => Outcome::Ran(f()),
        });
        (key, job)
    }

    /// Keeps the handle of an accepted member, or gets the closure of a refused one back.
    fn enter<F: 'static, J>(
        &mut self,
        key: u64,
        submitted: Result<JobHandle<Outcome<T>>, SubmitError<J>>,
    ) -> Result<(), SubmitError<F>>
    where
        J: FnOnce() -> Outcome<T>,
    {
        let refused = match submitted {
            Ok(job) => {
                self.jobs.insert(key, Ok(job));
                return Ok(());
            }
            Err(refused) => refused,
        };
        let reason = refused.reason();
        match self.jobs.void(key, refused.into_job()) {
            Outcome::Refused(f) => {
                let f = f.downcast().expect("it is what `member` has wrapped");
                Err(SubmitError::new(reason, *f))
            }
            Outcome::Ran(_) => unreachable!("its notice is void"),
        }
    }
}

/// As [`JobSet::join_next`]. Ends when the set is empty, and goes on once it is not.
impl<T> Iterator for JobSet<T> {
    type Item = Result<T, JobError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.join_next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<T> ExactSizeIterator for JobSet<T> {}

impl<T> Default for JobSet<T> {
    fn default() -> Self {
        JobSet::new()
    }
}

impl<T> fmt::Debug for JobSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobSet")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
