//! What a user does with many jobs at once: sets of them, all or nothing, one on each worker.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use fairlane::{JobError, JobSet, Submit, Tenant, TryMapError, WorkerPool};

use crate::counts::{Counts, Event};
use crate::user::{Job, User, count, judge};

impl User {
    /// A set of jobs, read to its end or left with members in it.
    pub(crate) fn set(&mut self, pool: &WorkerPool) {
        self.counts.bump(Event::Set);
        let mut set = JobSet::new();
        let token = self.token.clone();
        for _ in 0..self.dice.roll(30) {
            let closure = self.closure();
            let outcome = match self.dice.roll(4) {
                0 => set.try_submit(pool, closure),
                1 => set.submit(&self.tenants[0], closure),
                2 => set.submit(&pool.job().cancel_token(&token), closure),
                _ => set.submit_timeout(pool, Duration::from_micros(50), closure),
            };
            count(&self.counts, outcome);
            let looks = self.dice.roll(4) == 0;
            let settled = looks.then(|| set.join_next_timeout(Duration::ZERO));
            if let Some(outcome) = settled.flatten() {
                judge(&self.counts, outcome);
            }
        }
        let take = match self.dice.roll(3) {
            0 => set.cancel_all(),
            1 => set.len() / 2,
            _ => usize::MAX,
        };
        for outcome in set.by_ref().take(take) {
            judge(&self.counts, outcome);
        }
        leave(set, &self.counts);
    }

    /// All or nothing. Not every item becomes a job, so they are not counted as jobs.
    pub(crate) fn try_map(&mut self) {
        self.counts.bump(Event::TryMap);
        let (items, fails) = (self.dice.roll(60), self.dice.roll(80));
        let job = Job::new(&self.counts, &self.probe, 7, &self.local);
        let f = move |item| {
            job.begin();
            match item {
                _ if item == fails => Err(item),
                _ if item == fails + 1 => resume_unwind(Box::new(item)),
                _ => Ok(item),
            }
        };
        match Submit::try_map(&self.tenants[0], 0..items, f) {
            Ok(all) => assert!(all.into_iter().eq(0..items.min(fails))),
            Err(TryMapError::Failed(item)) => assert_eq!(item, fails),
            // Whatever somebody has called off, or the pool's end.
            Err(TryMapError::Job(error)) => assert!(!error.is_panic(), "{error:?}"),
        }
    }

    /// Once on each worker. How many jobs that is depends on the slots that are left, so they are not
    /// counted as jobs.
    pub(crate) fn broadcast(&mut self, pool: &WorkerPool) {
        let job = Job::new(&self.counts, &self.probe, 7, &self.local);
        let panics = self.dice.roll(16) == 0;
        let f = move |slot| {
            job.begin();
            if panics {
                resume_unwind(Box::new(slot));
            }
            slot
        };
        let Ok(results) = pool.broadcast(f) else {
            return;
        };
        self.counts.bump(Event::Broadcast);
        assert_eq!(results.len(), pool.workers());
        for (slot, result) in results.into_iter().enumerate() {
            match result {
                Ok(found) => assert!(!panics && found == slot),
                Err(JobError::Panicked(_)) => assert!(panics),
                Err(JobError::Cancelled | JobError::Discarded) => {}
                Err(other) => panic!("{other:?} is no end of such a job"),
            }
        }
    }
}

/// Drops a set. Nobody will hear of those that are left.
fn leave<T>(set: JobSet<T>, counts: &Counts) {
    (0..set.len()).for_each(|_| counts.bump(Event::Detached));
    drop(set);
}

/// Children in a set of their own, taken as they finish; or the first of them alone.
pub(crate) fn set_inside(tenant: &Tenant, children: [Job; 3], all: bool) -> u64 {
    let counts = Arc::clone(&children[0].counts);
    let mut set = JobSet::new();
    for child in children {
        count(&counts, set.submit(tenant, move || child.begin()));
    }
    let mut sum = 0;
    for outcome in set.by_ref().take(if all { 3 } else { 1 }) {
        sum += outcome.as_ref().copied().unwrap_or(0);
        judge(&counts, outcome);
    }
    leave(set, &counts);
    sum
}
