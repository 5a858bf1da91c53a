//! What the pool's gate needs of a queue besides its public face.

use super::arena::Id;
use super::lane::{Lane, Place};
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
        let lane = &self.lanes[self.rule.pick()?.lane];
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
            let is_there = |lane: &Lane<K>| lane.key == tenant && lane.turn.place != Place::Away;
            if self.lanes.get(lane).is_some_and(is_there) {
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

    /// Starts to fetch what is known of the tenant whose lane was this one.
    #[inline]
    pub(crate) fn prefetch_lane(&self, noted: Id) {
        self.lanes.prefetch(noted);
    }

    /// Shows `judge` the job that [`pop`](FairQueue::pop) would take, and its tenant, and takes it as it says.
    #[inline]
    pub(crate) fn take_next(&mut self, judge: impl FnOnce(&K, &T) -> Verdict) -> Option<(K, T)> {
        let pick = self.rule.pick()?;
        let lane = &self.lanes[pick.lane];
        let job = lane.backlog.head();
        match judge(&lane.key, &self.jobs[job].item) {
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
    use proptest::prelude::*;

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
        let judge = |_: &&str, job: &u32| match job {
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

    const TENANTS: usize = 5;

    /// Makes so many lanes come and go that the others' places in the arena are used by strangers.
    fn churn(queue: &mut FairQueue<usize, usize>, lanes: usize) {
        for stranger in 0..lanes {
            queue.push(TENANTS + stranger, Priority::NORMAL, 0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Notes are kept when lanes close, when all is drained, and even given to the wrong tenant:
        /// what comes out is what comes out without notes.
        #[test]
        fn a_note_saves_a_look_up_and_changes_nothing(
            by_cost in any::<bool>(),
            ops in prop::collection::vec((0..12_u8, 0..TENANTS, 1..5_u32, -1..2_i32), 1..400),
        ) {
            let new = || if by_cost { FairQueue::by_cost() } else { FairQueue::new() };
            let (mut noting, mut plain) = (new(), new());
            let mut running = Vec::new();
            let mut notes = [None; TENANTS];
            let mut tickets = Vec::new();
            for (job, (op, tenant, weight, priority)) in ops.into_iter().enumerate() {
                let (weight, priority) = (Weight::new(weight), Priority(priority));
                match op {
                    0..5 => {
                        let note = &mut notes[tenant];
                        let noted = noting.push_at(note, tenant, weight, priority, job);
                        prop_assert_eq!(*note, Some(noted.lane), "the note is right now");
                        let ticket = plain.push_weighted(tenant, weight, priority, job);
                        tickets.push((noted, ticket));
                    }
                    5..8 => {
                        let popped = noting.pop();
                        prop_assert_eq!(popped, plain.pop());
                        running.extend(popped.map(|(tenant, _)| tenant));
                        if job % 3 > 0 && !running.is_empty() {
                            // By cost a lane without jobs stays for a while, and may be noted.
                            let (tenant, cost) = (running.remove(0), job as u64 % 50);
                            let note = notes.get(tenant).copied().flatten();
                            let booked = noting.book_at(note, &tenant, cost);
                            noting.forget_paid_off(drop);
                            prop_assert_eq!(booked, plain.settle(&tenant, cost));
                        }
                    }
                    8 if !tickets.is_empty() => {
                        let (noted, ticket) = tickets.swap_remove(job * 7 % tickets.len());
                        prop_assert_eq!(noting.remove(noted), plain.remove(ticket));
                    }
                    9 => {
                        prop_assert_eq!(noting.hold(&tenant), plain.hold(&tenant));
                        notes.swap(tenant, job % TENANTS);
                    }
                    10 => prop_assert_eq!(noting.release(&tenant), plain.release(&tenant)),
                    _ if job % 8 == 0 => {
                        drop((noting.drain(), plain.drain()));
                        churn(&mut noting, job % 100);
                        churn(&mut plain, job % 100);
                    }
                    _ => {}
                }
                prop_assert_eq!((noting.len(), noting.lanes()), (plain.len(), plain.lanes()));
            }
            (0..TENANTS).for_each(|tenant| {
                noting.release(&tenant);
                plain.release(&tenant);
            });
            prop_assert!(std::iter::from_fn(|| noting.pop()).eq(std::iter::from_fn(|| plain.pop())));
        }
    }
}
