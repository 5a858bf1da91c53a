//! All results, or the first error.

use super::map::start;
use super::settling::Settling;
use super::{Submit, default_in_flight};
use crate::error::{JobError, TryMapError};
use crate::sync::Arc;
use crate::unwind;

/// The call of [`Submit::try_map`] while it runs.
///
/// Jobs are numbered like their items, and items are taken from the input in order. So when one has
/// failed, those before it are out already and may still fail themselves, and those behind it are of
/// no use any more.
struct TryMap<R, E> {
    jobs: Settling<Result<R, E>>,
    results: Vec<Option<R>>,
    /// The failure of the first item, in the order of the input, that is known to have failed.
    first: Option<(u64, TryMapError<E>)>,
}

impl<R, E> TryMap<R, E> {
    fn settled(&mut self, key: u64, outcome: Result<Result<R, E>, JobError>) {
        let failure = match outcome {
            Ok(Ok(result)) => {
                self.results[key as usize] = Some(result);
                return;
            }
            Ok(Err(error)) => TryMapError::Failed(error),
            Err(error) => TryMapError::Job(error),
        };
        let is_first = self.first.as_ref().is_none_or(|(first, _)| key < *first);
        let spare = if is_first {
            self.jobs.cancel_from(key + 1);
            self.first.replace((key, failure))
        } else {
            Some((key, failure))
        };
        unwind::discard(spare);
    }

    fn finish(mut self) -> Result<Vec<R>, TryMapError<E>> {
        match self.first.take() {
            Some((_, failure)) => Err(failure),
            None => Ok(self.results.drain(..).flatten().collect()),
        }
    }
}

impl<R, E> Drop for TryMap<R, E> {
    fn drop(&mut self) {
        // Results that nobody gets, at an error or when the input has panicked.
        self.results.drain(..).flatten().for_each(unwind::discard);
    }
}

pub(super) fn try_map<S, I, F, R, E>(pool: &S, items: I, f: F) -> Result<Vec<R>, TryMapError<E>>
where
    S: Submit + ?Sized,
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> Result<R, E> + Send + Sync + 'static,
    R: Send + 'static,
    E: Send + 'static,
{
    let f = Arc::new(f);
    let in_flight = default_in_flight(pool.parallelism());
    let mut items = items.fuse();
    let mut map = TryMap {
        jobs: Settling::new(),
        results: Vec::new(),
        first: None,
    };
    loop {
        while map.first.is_none() && map.jobs.len() < in_flight {
            let Some(item) = items.next() else { break };
            let (f, notice) = (Arc::clone(&f), map.jobs.notice());
            let key = notice.key();
            let job = start(pool, notice.given_after(move |_| f(item)));
            map.jobs.insert(key, job);
            map.results.push(None);
        }
        match map.jobs.next() {
            Some((key, outcome)) => map.settled(key, outcome),
            None => return map.finish(),
        }
    }
}
