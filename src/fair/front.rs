//! What the pool's gate needs of a queue besides its public face.

use super::arena::Id;
use super::{FairQueue, Ticket};
use std::hash::Hash;

/// What becomes of the job whose turn it is.
pub(crate) enum Verdict {
    /// It is taken, and its tenant charged.
    Serve,
    /// It is taken, at no charge.
    Withdraw,
}

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
        let lane = &self.lanes[self.rule.pick()?.lane];
        Some((&lane.key, &self.jobs[lane.backlog.head()].item))
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// The queued job that [`Ticket::slot`] names.
    pub(crate) fn item_at(&self, slot: u32) -> Option<&T> {
        Some(&self.jobs.get(Id::from_raw(slot)?)?.item)
    }

    /// Shows `judge` the job that [`pop`](FairQueue::pop) would take, and takes it as it says.
    #[inline]
    pub(crate) fn take_next(&mut self, judge: impl FnOnce(&T) -> Verdict) -> Option<(K, T)> {
        let pick = self.rule.pick()?;
        let lane = &self.lanes[pick.lane];
        let job = lane.backlog.head();
        match judge(&self.jobs[job].item) {
            Verdict::Serve => Some(self.serve(pick)),
            Verdict::Withdraw => self.take_out(job),
        }
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
