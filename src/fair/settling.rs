//! A queue that charges what jobs cost: what is different about it.

use super::FairQueue;
use super::arena::Id;
use super::backlog::Order;
use super::costs::Costs;
use super::rule::Rule;
use std::hash::Hash;

/// How many of those who have paid off what they owed are forgotten in one step: more than can come to
/// owe something in it, so they do not pile up.
const FORGOTTEN: usize = 2;

impl<K, T> FairQueue<K, T> {
    #[doc = include_str!("COSTS.md")]
    #[must_use]
    pub fn by_cost() -> FairQueue<K, T> {
        FairQueue::with(Order::Strict, Rule::Cost(Box::new(Costs::new())))
    }

    /// [`FairQueue::by_cost`] with the order of [`FairQueue::with_ageing`] inside a lane.
    #[must_use]
    pub fn by_cost_with_ageing(boost: u32) -> FairQueue<K, T> {
        FairQueue::with(Order::Ageing(boost), Rule::Cost(Box::new(Costs::new())))
    }

    pub(crate) fn is_by_cost(&self) -> bool {
        matches!(self.rule, Rule::Cost(_))
    }

    /// Lanes that are kept for what they owe, without a job.
    pub(super) fn away(&self) -> usize {
        match &self.rule {
            Rule::Count(_) => 0,
            Rule::Cost(costs) => costs.away(),
        }
    }

    /// Forgets a few of the tenants that have nothing queued, run nothing and owe nothing any more, as
    /// nobody does once nothing is queued or runs at all. Each is told of, last thing. `true`: there may
    /// be more of them.
    pub(crate) fn forget_paid_off(&mut self, mut tell: impl FnMut(K)) -> bool {
        for _ in 0..FORGOTTEN {
            match self.forget_one() {
                Some(key) => tell(key),
                None => return false,
            }
        }
        true
    }

    fn forget_one(&mut self) -> Option<K> {
        let Rule::Cost(costs) = &mut self.rule else {
            return None;
        };
        let lane = costs.forget_one(&self.lanes)?;
        Some(self.forget(lane))
    }

    /// The queued job that [`Ticket::slot`](crate::Ticket::slot) names begins without having been
    /// picked: by cost its tenant is charged, by count it is not. It is still to be removed.
    pub(crate) fn charge_at(&mut self, slot: u32) {
        if let Rule::Cost(costs) = &mut self.rule {
            if let Some(job) = Id::from_raw(slot).and_then(|job| self.jobs.get(job)) {
                costs.charge(&self.lanes, job.lane);
            }
        }
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// In a queue [by cost](FairQueue::by_cost): tells what a job of `tenant` has cost that was popped,
    /// in whatever unit the caller measures. `false`: nothing is charged, as the queue does not know the
    /// tenant, or counts jobs. It knows whose job it has popped, unless it was [drained](FairQueue::drain)
    /// since.
    ///
    /// Jobs may end in any order. If more are settled than popped, each is charged all the same, to a
    /// tenant that is known.
    ///
    /// O(log of the tenants known). The first job of a tenant that was not known takes O(tenants whose first job runs)
    /// besides.
    ///
    /// ```
    /// use fairlane::{FairQueue, Priority};
    ///
    /// let mut queue = FairQueue::by_cost();
    /// for _ in 0..100 {
    ///     queue.push("light", Priority::NORMAL, 1);
    ///     queue.push("heavy", Priority::NORMAL, 10);
    /// }
    /// let mut spent = [0, 0];
    /// for _ in 0..55 {
    ///     let (tenant, cost) = queue.pop().unwrap();
    ///     spent[usize::from(tenant == "heavy")] += cost;
    ///     queue.settle(&tenant, cost);
    /// }
    /// assert_eq!(spent, [50, 50]);
    /// ```
    pub fn settle(&mut self, tenant: &K, cost: u64) -> bool {
        let is_known = self.book_at(None, tenant, cost);
        self.forget_paid_off(drop);
        is_known
    }

    /// As [`settle`](FairQueue::settle), and forgets nobody, for a caller that may have noted where the
    /// tenant's lane is: if it is still there, the name need not be looked up.
    pub(crate) fn book_at(&mut self, noted: Option<Id>, tenant: &K, cost: u64) -> bool {
        let is_its = |lane: &Id| {
            self.lanes
                .get(*lane)
                .is_some_and(|lane| lane.key == *tenant)
        };
        let look_up = || self.find_hashed(tenant, self.names.hash(tenant));
        let lane = noted.filter(is_its).or_else(look_up);
        match (&mut self.rule, lane) {
            (Rule::Cost(costs), Some(lane)) => costs.settle(&self.lanes, lane, cost),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::Priority;

    #[test]
    fn only_a_queue_by_cost_is_told_what_jobs_cost() {
        let queues = [
            (FairQueue::new(), false),
            (FairQueue::with_ageing(1), false),
            (FairQueue::by_cost(), true),
            (FairQueue::by_cost_with_ageing(1), true),
        ];
        for (mut queue, is_by_cost) in queues {
            assert_eq!(queue.is_by_cost(), is_by_cost);
            queue.push("a", Priority::NORMAL, ());
            assert_eq!(queue.pop(), Some(("a", ())));
            assert_eq!(queue.settle(&"a", 10), is_by_cost);
            assert!(
                !queue.settle(&"a", 10),
                "nothing is queued or runs any more"
            );
        }
    }

    #[test]
    fn a_job_that_begins_in_its_place_is_charged_as_one_picked() {
        for is_picked in [true, false] {
            let mut queue = FairQueue::by_cost();
            queue.push("first", Priority::NORMAL, 0);
            assert_eq!(queue.pop(), Some(("first", 0)));
            assert!(
                queue.settle(&"first", 10),
                "which strangers are expected to cost"
            );
            let tickets =
                ["a", "b", "a", "b"].map(|tenant| queue.push(tenant, Priority::NORMAL, 0));
            let slot = tickets[0].slot();
            if is_picked {
                assert_eq!(queue.pop(), Some(("a", 0)));
            } else {
                queue.charge_at(slot);
                assert_eq!(queue.remove_at(slot), Some(("a", 0)));
            }
            let order = std::iter::from_fn(|| Some(queue.pop()?.0));
            assert!(order.eq(["b", "a", "b"]));
        }
    }

    #[test]
    fn who_owes_nothing_beyond_the_floor_is_forgotten_at_once() {
        let mut queue = FairQueue::by_cost();
        for tenant in ["a", "b", "a", "a"] {
            queue.push(tenant, Priority::NORMAL, ());
        }
        for (tenant, away) in [("a", 0), ("b", 1), ("a", 0)] {
            assert_eq!(queue.pop(), Some((tenant, ())));
            assert_eq!(queue.away(), away);
            queue.settle(&tenant, 10);
        }
    }
}
