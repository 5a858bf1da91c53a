//! Results as they become available.

use std::fmt;
use std::iter::FusedIterator;

use super::Submit;
use super::default_in_flight;
use super::map::start;
use super::settling::Settling;
use crate::error::JobError;
use crate::sync::Arc;

/// The iterator of [`WorkerPool::map_unordered`](crate::WorkerPool::map_unordered): results in the
/// order in which they become available. Otherwise as [`Map`](crate::Map).
#[must_use = "a map is lazy: nothing runs until it is iterated"]
pub struct MapUnordered<S, I, F, R> {
    pool: S,
    items: Option<I>,
    f: Arc<F>,
    in_flight: usize,
    jobs: Settling<R>,
}

impl<S: Submit, I: Iterator, F, R> MapUnordered<S, I, F, R> {
    pub(crate) fn new(pool: S, items: I, f: F) -> Self {
        MapUnordered {
            in_flight: default_in_flight(pool.parallelism()),
            pool,
            items: Some(items),
            f: Arc::new(f),
            jobs: Settling::new(),
        }
    }

    /// As [`Map::in_flight`](crate::Map::in_flight).
    ///
    /// # Panics
    /// If `jobs` is 0.
    pub fn in_flight(mut self, jobs: usize) -> Self {
        assert!(jobs > 0, "a map needs at least one job in flight");
        self.in_flight = jobs;
        self
    }
}

impl<S, I, F, R> MapUnordered<S, I, F, R>
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
            self.start(item);
        }
    }

    fn start(&mut self, item: I::Item) {
        let (f, notice) = (Arc::clone(&self.f), self.jobs.notice());
        let key = notice.key();
        let job = start(&self.pool, notice.given_after(move |_| f(item)));
        self.jobs.insert(key, job);
    }
}

impl<S, I, F, R> Iterator for MapUnordered<S, I, F, R>
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
        self.jobs.next().map(|(_, outcome)| outcome)
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

impl<S, I, F, R> FusedIterator for MapUnordered<S, I, F, R>
where
    S: Submit,
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
}

impl<S, I, F, R> fmt::Debug for MapUnordered<S, I, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapUnordered")
            .field("in_flight", &self.in_flight)
            .field("out", &self.jobs.len())
            .finish_non_exhaustive()
    }
}
