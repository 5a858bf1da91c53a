//! Results as they become available.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::FusedIterator;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

use super::Submit;
use super::default_in_flight;
use super::map::start;
use crate::error::JobError;
use crate::job::JobHandle;
use crate::sync::Arc;
use crate::worker;

/// The iterator of [`WorkerPool::map_unordered`](crate::WorkerPool::map_unordered): results in the
/// order in which they become available. Otherwise as [`Map`](crate::Map).
#[must_use = "a map is lazy: nothing runs until it is iterated"]
pub struct MapUnordered<S, I, F, R> {
    pool: S,
    items: Option<I>,
    f: Arc<F>,
    in_flight: usize,
    next_key: u64,
    jobs: BTreeMap<u64, Result<JobHandle<R>, JobError>>,
    sender: Sender<u64>,
    settled: Receiver<u64>,
}

/// Travels with a job's captures and says when they are gone: after the job has run, and just as
/// well if it never does.
struct Notice {
    key: u64,
    sender: Sender<u64>,
}

impl Drop for Notice {
    fn drop(&mut self) {
        // Nobody listens any more once the map has been dropped.
        let _ = self.sender.send(self.key);
    }
}

impl<S: Submit, I: Iterator, F, R> MapUnordered<S, I, F, R> {
    pub(crate) fn new(pool: S, items: I, f: F) -> Self {
        let (sender, settled) = unbounded();
        MapUnordered {
            in_flight: default_in_flight(pool.parallelism()),
            pool,
            items: Some(items),
            f: Arc::new(f),
            next_key: 0,
            jobs: BTreeMap::new(),
            sender,
            settled,
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
            let key = self.next_key;
            self.next_key += 1;
            let job = self.start(key, item);
            self.jobs.insert(key, job);
        }
    }

    fn start(&self, key: u64, item: I::Item) -> Result<JobHandle<R>, JobError> {
        let f = Arc::clone(&self.f);
        let notice = Notice {
            key,
            sender: self.sender.clone(),
        };
        start(&self.pool, move || {
            let _notice = notice;
            f(item)
        })
    }

    /// The key of a job that has settled or is about to.
    ///
    /// On a thread of the pool nobody else may be there to run what is queued, so jobs of this map,
    /// and no others, are run in place before anything is waited for.
    fn next_settled(&self) -> u64 {
        loop {
            match self.settled.try_recv() {
                Ok(key) => return key,
                Err(TryRecvError::Disconnected) => unreachable!("the map holds a sender"),
                Err(TryRecvError::Empty) => {}
            }
            let runs_here = worker::here().is_some();
            if !(runs_here && self.jobs.values().flatten().any(JobHandle::run_in_place)) {
                break;
            }
        }
        self.wait_settled()
    }

    /// Waits for the next notice. A job's deadline or token can settle it without a worker, but its
    /// captures, and so its notice, are dropped then as well.
    fn wait_settled(&self) -> u64 {
        // In a forked child no notice comes for what the parent has submitted.
        if let Some((key, Ok(job))) = self.jobs.first_key_value() {
            if job.is_lost() {
                return *key;
            }
        }
        self.settled.recv().expect("the map holds a sender")
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
        if self.jobs.is_empty() {
            return None;
        }
        let key = self.next_settled();
        let job = self.jobs.remove(&key).expect("each job gives one notice");
        Some(job.and_then(JobHandle::join))
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

impl<S, I, F, R> Drop for MapUnordered<S, I, F, R> {
    fn drop(&mut self) {
        for (_, job) in std::mem::take(&mut self.jobs).into_iter().rev() {
            let _ = job.map(|job| job.cancel());
        }
    }
}

impl<S, I, F, R> fmt::Debug for MapUnordered<S, I, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapUnordered")
            .field("in_flight", &self.in_flight)
            .field("out", &self.jobs.len())
            .finish_non_exhaustive()
    }
}
