//! What the pool's gate needs of a queue besides its public face.

use super::arena::Id;
use super::{FairQueue, Priority, Ticket, Weight};
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
        let lane = &self.lanes[self.rotation.pick()?.lane];
        Some((&lane.key, &self.jobs[lane.backlog.head()].item))
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// As [`push_weighted`](FairQueue::push_weighted), for a caller that notes where the tenant's lane
    /// is: as long as it is there, the name need not be looked up.
    #[inline]
    pub(crate) fn push_at(
        &mut self,
        noted: &mut Option<Id>,
        tenant: K,
        weight: Weight,
        priority: Priority,
        item: T,
    ) -> Ticket {
        if let Some(lane) = *noted {
            if self.lanes.get(lane).is_some_and(|lane| lane.key == tenant) {
                return self.append(lane, Some(weight), priority, item);
            }
        }
        let ticket = self.push_weighted(tenant, weight, priority, item);
        *noted = Some(ticket.lane);
        ticket
    }

    /// The queued job that [`Ticket::slot`] names.
    pub(crate) fn item_at(&self, slot: u32) -> Option<&T> {
        Some(&self.jobs.get(Id::from_raw(slot)?)?.item)
    }

    /// Shows `judge` the job that [`pop`](FairQueue::pop) would take, and takes it as it says.
    #[inline]
    pub(crate) fn take_next(&mut self, judge: impl FnOnce(&T) -> Verdict) -> Option<(K, T)> {
        let pick = self.rotation.pick()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Priority;

    /// Jobs 0 to 5, by turns of two tenants.
    fn by_turns() -> (FairQueue<&'static str, u32>, Vec<Ticket>) {
        let mut queue = FairQueue::new();
        let push = |job| queue.push(["a", "b"][job as usize % 2], Priority::NORMAL, job);
        let tickets = (0..6).map(push).collect();
        (queue, tickets)
    }

    #[test]
    fn a_slot_names_its_job_while_that_is_queued() {
        let (mut queue, tickets) = by_turns();
        let slots: Vec<_> = tickets.into_iter().map(Ticket::slot).collect();
        assert!(slots.iter().all(|&slot| slot != 0));
        for (&slot, job) in slots.iter().zip(0..) {
            assert_eq!(queue.item_at(slot), Some(&job));
        }
        assert_eq!(queue.remove_at(slots[3]), Some(("b", 3)));
        assert_eq!(queue.item_at(slots[3]), None);
        assert_eq!(queue.remove_at(slots[3]), None);
        assert_eq!(queue.remove_at(0), None);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(left, [("a", 0), ("b", 1), ("a", 2), ("b", 5), ("a", 4)]);
    }

    #[test]
    fn peek_shows_what_pop_takes() {
        let (mut queue, _) = by_turns();
        for _ in 0..6 {
            let next = queue.peek().map(|(tenant, job)| (*tenant, *job));
            assert_eq!(next, queue.pop());
        }
        assert_eq!(queue.peek(), None);
    }

    #[test]
    fn what_is_withdrawn_costs_its_tenant_no_turn() {
        let (mut queue, _) = by_turns();
        let judge = |job: &u32| match job {
            0 | 2 => Verdict::Withdraw,
            _ => Verdict::Serve,
        };
        let taken: Vec<_> = std::iter::from_fn(|| queue.take_next(judge)).collect();
        assert_eq!(
            taken,
            [("a", 0), ("a", 2), ("a", 4), ("b", 1), ("b", 3), ("b", 5)]
        );
        assert!(queue.is_empty());
    }
}
