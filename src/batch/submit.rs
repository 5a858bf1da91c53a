//! Something that runs closures, and what follows from that alone.

use std::time::Duration;

use super::{Map, MapUnordered, try_map};
use crate::error::{SubmitError, TryMapError};
use crate::job::JobHandle;
use crate::pool::{JobBuilder, Tenant, WorkerPool};
use crate::unwind;

/// Something that runs closures: a [`WorkerPool`], a [`Tenant`](crate::Tenant), a
/// [`JobBuilder`](crate::JobBuilder), [`Inline`], or a pointer to one.
///
/// Write batch code over `S: Submit`, test it with [`Inline`], run it on a pool. The methods are
/// generic, so there is no `dyn Submit`; take `&impl Submit` instead. Implement it for wrappers of your
/// own, which pass closures on: methods that are added to it will have a body.
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

    /// As [`WorkerPool::try_map`].
    ///
    /// # Errors
    /// As there.
    fn try_map<I, F, R, E>(&self, items: I, f: F) -> Result<Vec<R>, TryMapError<E>>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> Result<R, E> + Send + Sync + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        try_map::try_map(self, items.into_iter(), f)
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

impl Submit for Tenant {
    forward_submit!(self => self);

    fn parallelism(&self) -> usize {
        self.slots()
    }
}

/// Each submit is one of a clone: all jobs have the same options.
impl Submit for JobBuilder<'_> {
    forward_submit!(self => self.clone());

    fn parallelism(&self) -> usize {
        self.slots()
    }
}

/// Implements [`Submit`] for a pointer to something that is.
macro_rules! submit_through {
    ($($pointer:ty),+ $(,)?) => {$(
        impl<S: Submit + ?Sized> Submit for $pointer {
            forward_submit!(self => (**self));

            fn parallelism(&self) -> usize {
                (**self).parallelism()
            }
        }
    )+};
}

// `&mut` and `Box` as well: others may implement a trait for such pointers to their own types, so an
// implementation for all of them could not come later.
submit_through!(&S, &mut S, Box<S>, std::rc::Rc<S>, std::sync::Arc<S>);

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

    /// Runs `f` on each item and returns all results in the order of the items, or the error of the
    /// first item that failed, in the order of the items as well: the answer that a loop would give.
    ///
    /// At most twice as many items as there are workers are out at a time. Once one has failed, no
    /// more are taken from the input, and jobs for items behind it that have not begun are cancelled.
    /// It waits for the others, of which one before it may turn out to be the first that failed: so
    /// when it returns, none of its jobs runs any more. O(log workers) an item, beside its job.
    ///
    /// Inside a job of the same pool it works as [`map_unordered`](WorkerPool::map_unordered) does.
    /// If the input panics, jobs that have not begun are cancelled and those that run are detached.
    ///
    /// ```
    /// use fairlane::{TryMapError, WorkerPool};
    /// let pool = WorkerPool::new(2)?;
    /// let parse = |text: &'static str| text.parse::<u32>();
    /// assert_eq!(pool.try_map(["1", "2", "3"], parse)?, [1, 2, 3]);
    /// let error = pool.try_map(["1", "two", "3"], parse).unwrap_err();
    /// assert!(matches!(error, TryMapError::Failed(_)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`TryMapError::Failed`] with what `f` returned, or [`TryMapError::Job`] if it panicked, was
    /// cancelled by somebody, or the pool did not accept it.
    pub fn try_map<I, F, R, E>(&self, items: I, f: F) -> Result<Vec<R>, TryMapError<E>>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> Result<R, E> + Send + Sync + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        Submit::try_map(self, items, f)
    }
}

impl Tenant {
    /// As [`WorkerPool::map`], with jobs of this tenant. The iterator owns a clone of the tenant.
    pub fn map<I, F, R>(&self, items: I, f: F) -> Map<Tenant, I::IntoIter, F, R>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        Map::new(self.clone(), items.into_iter(), f)
    }

    /// As [`WorkerPool::map_unordered`], with jobs of this tenant. The iterator owns a clone of the
    /// tenant.
    pub fn map_unordered<I, F, R>(&self, items: I, f: F) -> MapUnordered<Tenant, I::IntoIter, F, R>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        MapUnordered::new(self.clone(), items.into_iter(), f)
    }

    /// As [`WorkerPool::try_map`], with jobs of this tenant.
    ///
    /// # Errors
    /// As there.
    pub fn try_map<I, F, R, E>(&self, items: I, f: F) -> Result<Vec<R>, TryMapError<E>>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> Result<R, E> + Send + Sync + 'static,
        R: Send + 'static,
        E: Send + 'static,
    {
        Submit::try_map(self, items, f)
    }
}
