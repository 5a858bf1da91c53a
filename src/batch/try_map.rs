//! All results, or the first error.

use super::map::start;
use super::settling::Settling;
use super::{Submit, default_in_flight};
use crate::error::{JobError, TryMapError};
use crate::sync::Arc;

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
        if self.first.as_ref().is_none_or(|(first, _)| key < *first) {
            self.first = Some((key, failure));
            self.jobs.cancel_from(key + 1);
        }
    }

    fn finish(self) -> Result<Vec<R>, TryMapError<E>> {
        match self.first {
            Some((_, failure)) => Err(failure),
            None => Ok(self.results.into_iter().flatten().collect()),
        }
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
