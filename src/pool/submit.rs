//! How a closure becomes a job, and the trait of everything that can do it.

use std::time::{Duration, Instant};

use super::WorkerPool;
use super::core::Core;
use super::job_builder::JobBuilder;
use crate::batch::{Map, MapUnordered};
use crate::cancel::CancelToken;
use crate::error::{Rejected, SubmitError};
use crate::job::{Conditions, Job, JobHandle, detached};
use crate::ledger::{Entry, Fate, Room, Seat};
use crate::sync::Arc;
use crate::unwind;

/// What a submit does when a queue limit is reached.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    No,
    Until(Option<Instant>),
}

impl Wait {
    /// Waits as long as it takes.
    pub(super) const EVER: Wait = Wait::Until(None);

    /// A time too far away to be expressed is never.
    pub(super) fn at_most(timeout: Duration) -> Wait {
        Wait::Until(Instant::now().checked_add(timeout))
    }
}

/// What may be asked for of a single job.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) token: Option<CancelToken>,
    pub(super) deadline: Option<Instant>,
}

impl Options {
    /// What becomes of a job that cannot begin any more.
    fn fate(&self) -> Option<Fate> {
        if self.token.as_ref().is_some_and(CancelToken::is_cancelled) {
            Some(Fate::Cancelled)
        } else if self.deadline.is_some_and(|at| at <= Instant::now()) {
            Some(Fate::Expired)
        } else {
            None
        }
    }

    fn conditions(&self) -> Option<Box<Conditions>> {
        if self.token.is_none() && self.deadline.is_none() {
            return None;
        }
        Some(Box::new(Conditions {
            deadline: self.deadline,
            subscription: self.token.as_ref().map(CancelToken::subscription),
        }))
    }
}

/// Why a closure was not queued.
enum Refusal {
    /// It goes back to its owner.
    Rejected(Rejected),
    /// It was accepted in this slot, and settles at once.
    Settled { slot: usize, fate: Fate },
}

impl Core {
    pub(super) fn submit<F, T>(
        &self,
        wait: Wait,
        options: Option<&Options>,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.enter(wait, options) {
            Ok(slot) => {
                let conditions = options.and_then(Options::conditions);
                let (job, handle) = JobHandle::queued(self.home(), slot, conditions, f);
                self.push(slot, job);
                Ok(handle)
            }
            Err(Refusal::Rejected(reason)) => Err(SubmitError::new(reason, f)),
            Err(Refusal::Settled { slot, fate }) => {
                Ok(self.settle_unqueued(slot, fate, || JobHandle::refused(fate, f)))
            }
        }
    }

    pub(super) fn execute<F>(
        &self,
        wait: Wait,
        options: Option<&Options>,
        f: F,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.enter(wait, options) {
            Ok(slot) => {
                let job = match options.and_then(Options::conditions) {
                    None => Job::new(f),
                    Some(conditions) => detached(self.home(), slot, conditions, f),
                };
                self.push(slot, job);
                Ok(())
            }
            Err(Refusal::Rejected(reason)) => Err(SubmitError::new(reason, f)),
            Err(Refusal::Settled { slot, fate }) => {
                self.settle_unqueued(slot, fate, || unwind::discard(f));
                Ok(())
            }
        }
    }

    /// Gets a job into the pool's counts, in the slot that is returned.
    #[inline]
    fn enter(&self, wait: Wait, options: Option<&Options>) -> Result<usize, Refusal> {
        if options.is_none() && self.room.is_none() {
            return self.admit().map_err(Refusal::Rejected);
        }
        self.enter_checked(wait, options.unwrap_or(&Options::default()))
    }

    /// In this order: is the pool open, can the job still begin, is there room.
    fn enter_checked(&self, wait: Wait, options: &Options) -> Result<usize, Refusal> {
        if let Some(reason) = self.refusal() {
            return Err(Refusal::Rejected(reason));
        }
        if let Some(fate) = options.fate() {
            return Err(self.refuse(fate));
        }
        let Some(room) = &self.room else {
            return self.admit().map_err(Refusal::Rejected);
        };
        match self.enter_room(room, wait, options) {
            Entry::Granted => self.admit().map_err(|reason| {
                room.leave();
                Refusal::Rejected(reason)
            }),
            Entry::Closed => {
                let reason = self.refusal().unwrap_or(Rejected::ShutDown);
                Err(Refusal::Rejected(reason))
            }
            Entry::Full | Entry::CalledOff => match options.fate() {
                Some(fate) => Err(self.refuse(fate)),
                None => Err(Refusal::Rejected(Rejected::Full)),
            },
        }
    }

    /// Accepts a job that settles at once.
    fn refuse(&self, fate: Fate) -> Refusal {
        match self.admit() {
            Ok(slot) => Refusal::Settled { slot, fate },
            Err(reason) => Refusal::Rejected(reason),
        }
    }

    fn enter_room(&self, room: &Room, wait: Wait, options: &Options) -> Entry {
        let deadline = match wait {
            // A thread of the pool would wait for itself.
            _ if self.is_here() => return room.try_enter(),
            Wait::No => return room.try_enter(),
            Wait::Until(deadline) => deadline,
        };
        let deadline = [deadline, options.deadline].into_iter().flatten().min();
        let seat = Seat::new();
        let subscription = options.token.as_ref().map(|token| {
            let (subscription, seat) = (token.subscription(), Arc::clone(&seat));
            subscription.start(Box::new(move || seat.call_off()));
            subscription
        });
        let entry = room.enter(&seat, deadline);
        if let Some(subscription) = subscription {
            subscription.end();
        }
        entry
    }
}

/// Something that runs closures: a [`WorkerPool`], [`Inline`], or a reference to one.
///
/// Write batch code over `S: Submit`, test it with [`Inline`], run it on a pool. The methods are
/// generic, so there is no `dyn Submit`; take `&impl Submit` instead.
///
/// ```
/// use fairlane::{Inline, Submit, WorkerPool};
///
/// fn total_length(pool: &impl Submit, words: Vec<String>) -> usize {
///     pool.map(words, |word| word.len()).map(|n| n.unwrap()).sum()
/// }
///
/// let words = || vec!["some".to_owned(), "words".to_owned()];
/// assert_eq!(total_length(&Inline, words()), 9);
/// assert_eq!(total_length(&WorkerPool::new(2)?, words()), 9);
/// # Ok::<(), fairlane::BuildError>(())
/// ```
pub trait Submit {
    /// As [`WorkerPool::submit`].
    ///
    /// # Errors
    /// The closure comes back with the reason.
    fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// As [`WorkerPool::try_submit`].
    ///
    /// # Errors
    /// The closure comes back with the reason.
    fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// As [`WorkerPool::submit_timeout`].
    ///
    /// # Errors
    /// The closure comes back with the reason.
    fn submit_timeout<F, T>(&self, timeout: Duration, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static;

    /// As [`WorkerPool::execute`].
    ///
    /// # Errors
    /// The closure comes back with the reason.
    fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static;

    /// How many jobs can run at once.
    fn parallelism(&self) -> usize;

    /// As [`WorkerPool::map`].
    fn map<I, F, R>(&self, items: I, f: F) -> Map<&Self, I::IntoIter, F, R>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        Map::new(self, items.into_iter(), f)
    }

    /// As [`WorkerPool::map_unordered`].
    fn map_unordered<I, F, R>(&self, items: I, f: F) -> MapUnordered<&Self, I::IntoIter, F, R>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        MapUnordered::new(self, items.into_iter(), f)
    }
}

/// Implements the required methods of [`Submit`] by calling those of `$target`.
macro_rules! forward_submit {
    ($self:ident => $target:expr) => {
        fn submit<F, T>(&$self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $target.submit(f)
        }

        fn try_submit<F, T>(&$self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $target.try_submit(f)
        }

        fn submit_timeout<F, T>(
            &$self,
            timeout: Duration,
            f: F,
        ) -> Result<JobHandle<T>, SubmitError<F>>
        where
            F: FnOnce() -> T + Send + 'static,
            T: Send + 'static,
        {
            $target.submit_timeout(timeout, f)
        }

        fn execute<F>(&$self, f: F) -> Result<(), SubmitError<F>>
        where
            F: FnOnce() + Send + 'static,
        {
            $target.execute(f)
        }
    };
}

impl Submit for WorkerPool {
    // The inherent methods: they take precedence.
    forward_submit!(self => self);

    fn parallelism(&self) -> usize {
        self.workers()
    }
}

impl<S: Submit + ?Sized> Submit for &S {
    forward_submit!(self => (**self));

    fn parallelism(&self) -> usize {
        (**self).parallelism()
    }
}

impl<S: Submit + ?Sized> Submit for std::sync::Arc<S> {
    forward_submit!(self => (**self));

    fn parallelism(&self) -> usize {
        (**self).parallelism()
    }
}

/// Runs each job at once, on the thread that submits it: for tests, and for targets without threads.
///
/// Every submit is accepted and every handle is finished when it is returned. A panic is caught, as
/// on a pool.
///
/// ```
/// use fairlane::{Inline, Submit};
/// assert_eq!(Inline.submit(|| 1 + 1).unwrap().join().unwrap(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inline;

impl Submit for Inline {
    fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Ok(JobHandle::ran_here(f))
    }

    fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit(f)
    }

    fn submit_timeout<F, T>(&self, _: Duration, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit(f)
    }

    fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        if let Err(payload) = unwind::run(f) {
            unwind::discard(payload);
        }
        Ok(())
    }

    fn parallelism(&self) -> usize {
        1
    }
}

impl WorkerPool {
    /// Accepts a closure and returns a handle to its result. Waits while the queue limit is reached.
    ///
    /// At most one allocation for a closure and result of ordinary size. Never blocks without a
    /// [`queue_limit`](crate::PoolBuilder::queue_limit).
    ///
    /// # Errors
    /// The closure comes back if the pool is closed, if no slot is left, or if this is a thread of
    /// the pool and the queue limit is reached: waiting could then last for ever.
    #[inline]
    pub fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::EVER, None, f)
    }

    /// As [`submit`](WorkerPool::submit), but never waits.
    ///
    /// # Errors
    /// As `submit`, and [`Rejected::Full`] while the queue limit is reached.
    #[inline]
    pub fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::No, None, f)
    }

    /// As [`submit`](WorkerPool::submit), but waits for at most `timeout`.
    ///
    /// # Errors
    /// As `submit`, and [`Rejected::Full`] if the queue limit was reached all the time.
    pub fn submit_timeout<F, T>(
        &self,
        timeout: Duration,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::at_most(timeout), None, f)
    }

    /// Accepts a closure whose result is of no interest. Waits like [`submit`](WorkerPool::submit).
    ///
    /// Cheaper than `submit`: nothing is allocated for a closure of up to three words. A panic in it
    /// is counted in [`stats`](WorkerPool::stats) and otherwise dropped.
    ///
    /// # Errors
    /// As `submit`.
    #[inline]
    pub fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core.execute(Wait::EVER, None, f)
    }

    /// A job with options.
    pub fn job(&self) -> JobBuilder<'_> {
        JobBuilder::new(&self.core)
    }

    /// Runs `f` on each item and yields the results in the order of the items.
    ///
    /// Lazy: nothing happens before the first `next`, and only a bounded number of items is taken
    /// from the input ahead of the results, so the input may be endless. See [`Map`].
    ///
    /// ```
    /// use fairlane::WorkerPool;
    /// let pool = WorkerPool::new(2)?;
    /// let squares: Vec<u64> = pool.map(1..=4u64, |n| n * n).map(Result::unwrap).collect();
    /// assert_eq!(squares, [1, 4, 9, 16]);
    /// # Ok::<(), fairlane::BuildError>(())
    /// ```
    pub fn map<I, F, R>(&self, items: I, f: F) -> Map<&Self, I::IntoIter, F, R>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        Submit::map(self, items, f)
    }

    /// As [`map`](WorkerPool::map), but yields results as they become available. See
    /// [`MapUnordered`].
    pub fn map_unordered<I, F, R>(&self, items: I, f: F) -> MapUnordered<&Self, I::IntoIter, F, R>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        Submit::map_unordered(self, items, f)
    }
}
