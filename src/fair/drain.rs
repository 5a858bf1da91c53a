//! Taking everything out at once.

use super::arena::{Arena, Id};
use super::job::Job;
use super::lane::{Lanes, Place};
use std::fmt;
use std::iter::FusedIterator;

/// All jobs of a [`FairQueue`](crate::FairQueue), held lanes included; made by
/// [`drain`](crate::FairQueue::drain).
///
/// Tenant after tenant, in no promised order of tenants; inside each, in the order in which its jobs
/// would have been served. The jobs have left the queue already: dropping the iterator early drops
/// those that are left.
pub struct Drain<K, T> {
    pub(super) lanes: Lanes<K>,
    pub(super) jobs: Arena<Job<T>>,
    pub(super) order: super::backlog::Order,
    /// No lane is left before this slot.
    pub(super) from: usize,
}

impl<K, T> Drain<K, T> {
    /// The first lane that still has a job.
    fn next_lane(&mut self) -> Option<Id> {
        loop {
            let lane = self.lanes.first_from(self.from)?;
            self.from = lane.index();
            if self.lanes[lane].turn.place != Place::Away {
                return Some(lane);
            }
            self.lanes.remove(lane);
        }
    }
}

impl<K: Clone, T> Iterator for Drain<K, T> {
    type Item = (K, T);

    fn next(&mut self) -> Option<(K, T)> {
        let lane = self.next_lane()?;
        let backlog = &self.lanes[lane].backlog;
        let job = backlog.head();
        let key = if backlog.is_last() {
            self.lanes.remove(lane).key
        } else {
            let key = self.lanes[lane].key.clone();
            let backlog = &mut self.lanes[lane].backlog;
            backlog.pop(self.order, &self.jobs);
            key
        };
        Some((key, self.jobs.remove(job).item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.jobs.len(), Some(self.jobs.len()))
    }
}

impl<K: Clone, T> ExactSizeIterator for Drain<K, T> {}

impl<K: Clone, T> FusedIterator for Drain<K, T> {}

impl<K, T> fmt::Debug for Drain<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("len", &self.jobs.len())
            .finish_non_exhaustive()
    }
}
