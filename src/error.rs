//! Every way a call can fail. An error gives back what was handed in.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::{fmt, io};

use crate::sync::Mutex;
use crate::unwind::{self, Payload};

/// Why a job gave no result.
///
/// ```
/// use fairlane::{JobError, WorkerPool};
///
/// let pool = WorkerPool::new(1)?;
/// let job = pool.submit(|| "seven".parse::<u32>().unwrap())?;
/// let text = match job.join() {
///     Ok(number) => number.to_string(),
///     Err(JobError::Panicked(payload)) => format!("a panic: {}", payload.message()),
///     Err(error) => error.to_string(), // called off, too late, given up on
/// };
/// assert!(text.starts_with("a panic: "));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[non_exhaustive]
#[derive(Debug)]
pub enum JobError {
    /// The closure panicked; here is what it panicked with.
    Panicked(PanicPayload),
    /// It was cancelled before it began: through its handle, its token, `cancel_queued` or
    /// `shutdown_now`.
    Cancelled,
    /// Its deadline passed before it began.
    Expired,
    /// The pool gave up on it before it began: the last slot was retired, or `shutdown_timeout` ran
    /// out. Also what a map yields for an item that a closed pool did not accept.
    Discarded,
    /// The job is running further down on the stack of the thread that wants to join it, so it can
    /// never finish while that thread waits.
    WouldDeadlock,
}

impl JobError {
    /// Whether the closure panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, JobError::Panicked(_))
    }

    /// Whether the job was cancelled before it began.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, JobError::Cancelled)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Panicked(payload) => write!(f, "the job panicked: {}", payload.message()),
            JobError::Cancelled => f.write_str("the job was cancelled before it began"),
            JobError::Expired => f.write_str("the job's deadline passed before it began"),
            JobError::Discarded => f.write_str("the pool ended before the job began"),
            JobError::WouldDeadlock => f.write_str("a job cannot wait for itself or an ancestor"),
        }
    }
}

impl Error for JobError {}

/// Why [`try_map`](crate::WorkerPool::try_map) stopped. It reads like the error that it holds.
///
/// It is an [`Error`] if `E` is one. `anyhow::Error` and `Box<dyn Error>` are none, but can be made of
/// any: for them there is [`into_error`](TryMapError::into_error).
///
/// There will be no third variant: whatever else may go wrong with a job is a [`JobError`].
#[derive(Debug)]
pub enum TryMapError<E> {
    /// The closure returned this error.
    Failed(E),
    /// A job gave no result: the closure panicked, say, or the pool was closed.
    Job(JobError),
}

impl<E> TryMapError<E> {
    /// The closure's own error, or what became of its job in that form.
    ///
    /// ```
    /// use fairlane::{TryMapError, WorkerPool};
    /// type Failure = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// fn sizes(paths: Vec<String>) -> Result<Vec<u64>, Failure> {
    ///     let pool = WorkerPool::new(2)?;
    ///     let size = |path| Ok::<_, Failure>(std::fs::metadata(path)?.len());
    ///     pool.try_map(paths, size).map_err(TryMapError::into_error)
    /// }
    /// assert!(sizes(vec!["no such file".into()]).is_err());
    /// ```
    pub fn into_error(self) -> E
    where
        E: From<JobError>,
    {
        match self {
            TryMapError::Failed(error) => error,
            TryMapError::Job(error) => error.into(),
        }
    }
}

impl<E: fmt::Display> fmt::Display for TryMapError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryMapError::Failed(error) => error.fmt(f),
            TryMapError::Job(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for TryMapError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            TryMapError::Failed(error) => error.source(),
            TryMapError::Job(error) => error.source(),
        }
    }
}

/// What a closure panicked with.
///
/// Dropping it drops the payload; should that panic too, the panic is swallowed.
pub struct PanicPayload(Box<PanicParts>);

struct PanicParts {
    message: Cow<'static, str>,
    // A payload is Send but rarely Sync. Nobody gets at it through a shared reference, so the lock
    // is never taken: it is here for its `Sync`, which errors need to travel in `anyhow` and
    // `Box<dyn Error + Send + Sync>`.
    payload: Mutex<Option<Payload>>,
}

impl PanicPayload {
    pub(crate) fn new(payload: Payload) -> Self {
        let message = match payload.downcast_ref::<&'static str>() {
            Some(text) => Cow::Borrowed(*text),
            None => match payload.downcast_ref::<String>() {
                Some(text) => Cow::Owned(text.clone()),
                None => Cow::Borrowed("a payload that is not a string"),
            },
        };
        PanicPayload(Box::new(PanicParts {
            message,
            payload: Mutex::new(Some(payload)),
        }))
    }

    /// The text given to `panic!`, or a placeholder if the payload is not a string.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The payload itself, as `catch_unwind` gave it: pass it to `std::panic::resume_unwind` to
    /// carry the panic on.
    pub fn into_inner(mut self) -> Box<dyn Any + Send> {
        let payload = self.0.payload.get_mut().take();
        payload.expect("only into_inner takes the payload, and it consumes the owner")
    }
}

// As what `catch_unwind` returns, which it is: nothing in it can be half changed.
impl UnwindSafe for PanicPayload {}
impl RefUnwindSafe for PanicPayload {}

impl Drop for PanicPayload {
    fn drop(&mut self) {
        unwind::discard(self.0.payload.get_mut().take());
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload")
            .field(&self.message())
            .finish()
    }
}

/// Why a pool did not accept a job.
///
/// A [`SubmitError`] turns into one, for functions that cannot return the closure:
///
/// ```
/// use fairlane::{Rejected, WorkerPool};
///
/// fn greet(pool: &WorkerPool) -> Result<(), Rejected> {
///     pool.execute(|| println!("hello"))?;
///     Ok(())
/// }
///
/// let pool = WorkerPool::new(1)?;
/// assert_eq!(greet(&pool), Ok(()));
/// pool.close();
/// assert_eq!(greet(&pool), Err(Rejected::ShutDown));
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// A queue limit is reached: `try_submit` does not wait, `submit_timeout` has waited long
    /// enough, and on a thread of the pool itself waiting could last for ever.
    Full,
    /// The pool was closed.
    ShutDown,
    /// Every slot has been retired after too many panics (see
    /// [`PanicPolicy::Restart`](crate::PanicPolicy::Restart)).
    RestartExhausted,
    /// This process was forked from the one that built the pool: its threads do not exist here.
    Forked,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::Full => "the queue limit is reached",
            Rejected::ShutDown => "the pool is shut down",
            Rejected::RestartExhausted => "every slot was retired after too many panics",
            Rejected::Forked => "the pool's threads exist only in the parent of this process",
        })
    }
}

impl Error for Rejected {}

impl<F> From<SubmitError<F>> for Rejected {
    fn from(error: SubmitError<F>) -> Rejected {
        error.reason
    }
}

/// A closure that was not accepted, and why.
///
/// It is `Send + Sync` whenever the closure is `Send`, so it works with `?` in functions that return
/// `Box<dyn Error + Send + Sync>`. One whose closure borrows, as in a [`scope`](crate::WorkerPool::scope),
/// cannot outlive what it borrows from; its reason can: `map_err(Rejected::from)?`.
///
/// ```
/// use fairlane::{Rejected, WorkerPool};
/// let pool = WorkerPool::new(1)?;
/// pool.close();
/// let error = pool.submit(|| "work").unwrap_err();
/// assert_eq!(error.reason(), Rejected::ShutDown);
/// assert_eq!(error.into_job()(), "work"); // nothing is lost
/// # Ok::<(), fairlane::BuildError>(())
/// ```
pub struct SubmitError<F> {
    reason: Rejected,
    // Never locked: it gives `Sync` to a closure that only ever leaves by value.
    job: Mutex<F>,
}

impl<F> SubmitError<F> {
    #[cold]
    pub(crate) fn new(reason: Rejected, job: F) -> Self {
        SubmitError {
            reason,
            job: Mutex::new(job),
        }
    }

    /// Why the job was not accepted.
    #[must_use]
    pub fn reason(&self) -> Rejected {
        self.reason
    }

    /// The closure, untouched.
    pub fn into_job(self) -> F {
        self.job.into_inner()
    }
}

impl<F> fmt::Debug for SubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitError")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for SubmitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the job was not accepted: {}", self.reason)
    }
}

impl<F> Error for SubmitError<F> {}

/// Why a pool could not be built. No thread is left behind.
#[non_exhaustive]
#[derive(Debug)]
pub enum BuildError {
    /// `workers(0)`: nothing would ever run.
    NoWorkers,
    /// More workers than 65,536.
    TooManyWorkers,
    /// `concurrency(0)`: nothing would ever be admitted.
    NoConcurrency,
    /// `queue_limit(0)`: nothing would ever be queued.
    NoQueueLimit,
    /// The name holds a NUL byte, which no thread name may.
    InvalidName,
    /// The thread of this slot could not be started.
    Spawn {
        /// The slot's index.
        slot: usize,
        /// What the operating system said.
        source: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoWorkers => f.write_str("a pool needs at least one worker"),
            BuildError::TooManyWorkers => f.write_str("a pool has at most 65,536 workers"),
            BuildError::NoConcurrency => f.write_str("a concurrency of 0 would admit nothing"),
            BuildError::NoQueueLimit => f.write_str("a queue limit of 0 would accept nothing"),
            BuildError::InvalidName => f.write_str("a thread name cannot hold a NUL byte"),
            BuildError::Spawn { slot, .. } => {
                write!(f, "the thread of slot {slot} could not be started")
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BuildError::Spawn { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// [`shutdown_timeout`](crate::WorkerPool::shutdown_timeout) ran out of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownTimeout {
    pub(crate) discarded: usize,
    pub(crate) running: usize,
}

impl ShutdownTimeout {
    /// Jobs that were still queued; their handles say [`JobError::Discarded`].
    #[must_use]
    pub fn discarded(&self) -> usize {
        self.discarded
    }

    /// Jobs that were running; they finish on their own, detached from the pool.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }
}

impl fmt::Display for ShutdownTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the pool did not finish in time: {} queued jobs discarded, {} still running",
            self.discarded, self.running
        )
    }
}

impl Error for ShutdownTimeout {}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(f: impl FnOnce() + std::panic::UnwindSafe) -> PanicPayload {
        PanicPayload::new(std::panic::catch_unwind(f).unwrap_err())
    }

    #[test]
    fn a_payload_keeps_message_and_value() {
        assert_eq!(payload(|| panic!("plain")).message(), "plain");
        assert_eq!(payload(|| panic!("number {}", 3)).message(), "number 3");
        let other = payload(|| std::panic::panic_any(3u64));
        assert!(other.message().contains("not a string"));
        assert_eq!(*other.into_inner().downcast::<u64>().unwrap(), 3);
    }

    #[test]
    fn errors_travel() {
        fn travels<E: Error + Send + Sync + 'static>() {}
        travels::<JobError>();
        travels::<BuildError>();
        travels::<ShutdownTimeout>();
        travels::<Rejected>();
        travels::<TryMapError<io::Error>>();
        // A closure that is Send but not Sync.
        fn of<F: FnOnce() + Send + 'static>(f: F) {
            fn check<E: Error + Send + Sync + 'static>(_: E) {}
            check(SubmitError::new(Rejected::Full, f));
        }
        let cell = std::cell::Cell::new(1);
        of(move || cell.set(2));
    }
}
