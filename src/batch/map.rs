//! Results in the order of the items.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;

use super::Submit;
use super::default_in_flight;
use crate::error::{JobError, Rejected};
use crate::job::JobHandle;
use crate::sync::Arc;

/// The iterator of [`WorkerPool::map`](crate::WorkerPool::map): results in the order of the items.
///
/// - Nothing happens before the first `next`. From then on up to [`in_flight`](Map::in_flight) items
///   are out as jobs, and one more is taken from the input for each result that is handed out. The
///   input's own `next` runs on the thread that consumes the results.
/// - A panic, or a cancelled job, is an `Err` item; the others go on. So does a map whose jobs have a
///   token that is cancelled: who wants it to end there ends the input.
/// - If the pool does not accept an item, because it is closed for example, the item is dropped and
///   yields `Err(`[`JobError::Discarded`]`)`.
/// - Inside a job of the same pool it works as well: the next item's job is run in place if it has
///   not begun, and with the queue limit reached an item is run at once instead of queued.
/// - Dropping it cancels the jobs that have not begun and detaches those that run.
///
/// It is a plain iterator, so adaptors such as progress bars work on it unchanged.
///
/// ```
/// use fairlane::WorkerPool;
///
/// let pool = WorkerPool::new(2)?;
/// let squares = pool.map(0u64.., |n| n * n).in_flight(8); // of an endless input
/// let first = squares.map(Result::unwrap).find(|square| *square > 1_000);
/// assert_eq!(first, Some(1_024));
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[must_use = "a map is lazy: nothing runs until it is iterated"]
pub struct Map<S, I, F, R> {
    pool: S,
    items: Option<I>,
    f: Arc<F>,
    in_flight: usize,
    jobs: VecDeque<Result<JobHandle<R>, JobError>>,
}

impl<S: Submit, I: Iterator, F, R> Map<S, I, F, R> {
    pub(crate) fn new(pool: S, items: I, f: F) -> Self {
        Map {
            in_flight: default_in_flight(pool.parallelism()),
            pool,
            items: Some(items),
            f: Arc::new(f),
            jobs: VecDeque::new(),
        }
    }

    /// Sets how many items may be out as jobs at a time: those that wait, run, or have finished and
    /// were not handed out yet. By default twice the number of workers.
    ///
    /// On a tenant of a pool with a limit, a tenant of a high weight may find its lane empty when its
    /// turn comes, and lose the turn: give it more.
    ///
    /// # Panics
    /// If `jobs` is 0.
    pub fn in_flight(mut self, jobs: usize) -> Self {
        assert!(jobs > 0, "a map needs at least one job in flight");
        self.in_flight = jobs;
        self
    }
}

impl<S, I, F, R> Map<S, I, F, R>
where
    S: Submit,
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    fn fill(&mut self) {
        while self.jobs.len() < self.in_flight {
            let Some(item) = self.items.as_mut().and_then(Iterator::next) else {
                self.items = None;
                return;
            };
            let f = Arc::clone(&self.f);
            self.jobs.push_back(start(&self.pool, move || f(item)));
        }
    }
}

/// Submits a job of a map. On a thread of the pool itself nobody may wait for room, so a job that
/// finds none is run there and then.
pub(super) fn start<S, J, R>(pool: &S, job: J) -> Result<JobHandle<R>, JobError>
where
    S: Submit + ?Sized,
    J: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    pool.submit(job).or_else(|refused| match refused.reason() {
        Rejected::Full => Ok(JobHandle::ran_here(refused.into_job())),
        _ => {
            crate::unwind::discard(refused.into_job());
            Err(JobError::Discarded)
        }
    })
}

impl<S, I, F, R> Iterator for Map<S, I, F, R>
where
    S: Submit,
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    type Item = Result<R, JobError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        Some(self.jobs.pop_front()?.and_then(JobHandle::join))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self
            .items
            .as_ref()
            .map_or((0, Some(0)), Iterator::size_hint);
        let out = self.jobs.len();
        let most = most.and_then(|most| most.checked_add(out));
        (least.saturating_add(out), most)
    }
}

impl<S, I, F, R> FusedIterator for Map<S, I, F, R>
where
    S: Submit,
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
}

impl<S, I, F, R> Drop for Map<S, I, F, R> {
    fn drop(&mut self) {
        // The last first: a worker that comes by meanwhile takes the first, which would not be
        // saved by being cancelled a moment earlier.
        for job in self.jobs.drain(..).rev().flatten() {
            job.cancel();
        }
    }
}

impl<S, I, F, R> fmt::Debug for Map<S, I, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("in_flight", &self.in_flight)
            .field("out", &self.jobs.len())
            .finish_non_exhaustive()
    }
}
