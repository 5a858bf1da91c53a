//! What the pool's gate needs of a queue besides its public face.

use super::arena::Id;
use super::{FairQueue, Ticket};
use std::hash::Hash;

impl Ticket {
    /// The number under which [`FairQueue::remove_at`] finds the job while it is queued; never 0.
    pub(crate) fn slot(self) -> u32 {
        self.job.raw()
    }
}

impl<K, T> FairQueue<K, T> {
    /// The job that [`pop`](FairQueue::pop) would take, and its tenant. Changes nothing. O(log of the
    /// distinct weights).
    ///
    /// ```
    /// use fairlane::{FairQueue, Priority};
    ///
    /// let mut queue = FairQueue::new();
    /// queue.push("a", Priority::LOW, 1);
    /// queue.push("a", Priority::HIGH, 2);
    /// assert_eq!(queue.peek(), Some((&"a", &2)));
    /// ```
    #[must_use]
    pub fn peek(&self) -> Option<(&K, &T)> {
        let lane = &self.lanes[self.rotation.pick()?.lane];
        Some((&lane.key, &self.jobs[lane.backlog.head()].item))
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// The queued job that [`Ticket::slot`] names.
    pub(crate) fn item_at(&self, slot: u32) -> Option<&T> {
        Some(&self.jobs.get(Id::from_raw(slot)?)?.item)
    }

    /// Shows `judge` the job that [`pop`](FairQueue::pop) would take, and takes it: as `pop` does, or
    /// at no charge to its tenant if the second part of the judgement is `false`.
    pub(crate) fn take_next<V>(
        &mut self,
        judge: impl FnOnce(&T) -> (V, bool),
    ) -> Option<(V, K, T)> {
        let pick = self.rotation.pick()?;
        let job = self.lanes[pick.lane].backlog.head();
        let (verdict, is_charged) = judge(&self.jobs[job].item);
        let (key, item) = if is_charged {
            self.serve(pick)
        } else {
            self.take_out(job)?
        };
        Some((verdict, key, item))
    }

    /// As [`remove`](FairQueue::remove), for a caller that knows the job to be queued, and names it
    /// by [`Ticket::slot`].
    pub(crate) fn remove_at(&mut self, slot: u32) -> Option<(K, T)> {
        let job = Id::from_raw(slot)?;
        self.jobs.get(job)?;
        self.take_out(job)
    }

    fn take_out(&mut self, job: Id) -> Option<(K, T)> {
        let queued = &self.jobs[job];
        let ticket = Ticket {
            queue: self.id,
            lane: queued.lane,
            job,
            arrival: queued.arrival,
        };
        let key = self.lanes[queued.lane].key.clone();
        let (item, _) = self.withdraw(ticket)?;
        Some((key, item))
    }
}
