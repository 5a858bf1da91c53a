//! What one tenant has been charged, by a queue that charges what jobs cost.

use super::arena::Id;
use super::node::Item;
use super::tag::{Key, Tag};

/// Ticks in one unit of cost, at weight 1: 2^20.
pub(super) const SHIFT: u32 = 20;

/// A cost in ticks. Costs are below 2^49.
pub(super) fn ticks(cost: u64) -> i128 {
    i128::from(cost) << SHIFT
}

/// Whether the floor clock still has to take note that a tenant came of whom nothing was known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Coming {
    /// It has come, and no job of it has been taken since.
    Fresh,
    /// One has, and is known to the arrivals under this number; none has been settled since.
    Begun { number: u64 },
    /// All that is done.
    Past,
}

/// Kept for as long as something of the tenant is queued, runs, or is still being paid off. With a thousand
/// tenants and more, each cache line of it is a miss: it has two.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bill {
    pub(super) lane: Id,
    pub(super) weight: u32,
    /// The start tag `S`, whole ticks and the rest apart, as a [`Tag`] is half air: what has been settled,
    /// and the estimate for each job that runs.
    ticks: u128,
    rest: u32,
    /// The same of the key it has on the agenda, while it is live.
    due_ticks: u128,
    due_rest: u32,
    is_live: bool,
    pub(super) seq: u64,
    /// `ĉ`: what its next job is taken to cost, and each of those that run.
    pub(super) estimate: u64,
    is_measured: bool,
    /// Jobs whose cost is not known yet.
    pub(super) running: u32,
    pub(super) coming: Coming,
    /// Whether anything was ever charged.
    pub(super) owes: bool,
    /// Whether anything was charged to the same lane, even if that was paid off and forgotten: whoever
    /// keeps books of those that owe is to be told when the lane goes.
    pub(super) is_kept: bool,
    /// While it is away with nothing running: the time at which it may be forgotten.
    pub(super) until: Option<u128>,
}

impl Bill {
    pub(super) fn new(lane: Id, weight: u32, estimate: u64) -> Bill {
        Bill {
            lane,
            weight,
            ticks: 0,
            rest: 0,
            due_ticks: 0,
            due_rest: 0,
            is_live: false,
            seq: 0,
            estimate,
            is_measured: false,
            running: 0,
            coming: Coming::Fresh,
            owes: false,
            is_kept: false,
            until: None,
        }
    }

    pub(super) fn start(&self) -> Tag {
        let (ticks, rest) = (self.ticks, self.rest);
        Tag { ticks, rest }
    }

    pub(super) fn set_start(&mut self, Tag { ticks, rest }: Tag) {
        (self.ticks, self.rest) = (ticks, rest);
    }

    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// When it may be forgotten, if it is away: not while something of it runs.
    pub(super) fn paid_off_at(&self) -> Option<u128> {
        let at = if self.owes { self.start().ceil() } else { 0 };
        (self.running == 0).then_some(at)
    }

    /// `(S − at) · w`, exactly.
    pub(super) fn ahead_of(&self, at: u128) -> i128 {
        self.ticks.wrapping_sub(at) as i128 * i128::from(self.weight) + i128::from(self.rest)
    }

    /// What has been charged in `w · S` for jobs that run: their estimates.
    pub(super) fn charged_ahead(&self) -> i128 {
        ticks(self.estimate) * i128::from(self.running)
    }

    /// Moves the tag by so many ticks of work, but no further than `furthest`, if it is not there already;
    /// by how many it has been moved.
    pub(super) fn shift(&mut self, work: i128, furthest: u128) -> i128 {
        let start = self.start().moved(work, self.weight);
        if start.ticks < furthest {
            self.set_start(start);
            return work;
        }
        let before = self.ahead_of(furthest);
        self.set_start(start.min(self.limit(furthest)));
        self.ahead_of(furthest) - before
    }

    /// Where the tag may go at most.
    fn limit(&self, furthest: u128) -> Tag {
        Tag::whole(furthest.max(self.ticks))
    }

    /// Changes the weight at the time `now`: what is ahead of that is worked off at the new pace. What has
    /// been charged for jobs that run is not part of it, and charged again.
    pub(super) fn reweigh(&mut self, weight: u32, now: u128, furthest: u128) {
        let charged = self.charged_ahead();
        self.set_start(self.start().moved(-charged, self.weight));
        let start = self.start().reweighed(now, self.weight, weight);
        let start = start.min(self.limit(furthest));
        self.set_start(start.moved(charged, weight));
        self.weight = weight;
    }

    /// What the agenda is to say of it from now on: due when its next job would be done, ready from `S`
    /// on.
    pub(super) fn post(&mut self) -> Item {
        let due = self.start().moved(ticks(self.estimate), self.weight);
        (self.due_ticks, self.due_rest, self.is_live) = (due.ticks, due.rest, true);
        Item {
            key: self.key(),
            ready: self.ticks,
            id: self.lane,
        }
    }

    /// The key it has on the agenda, if it is there.
    pub(super) fn posted(&self) -> Option<Key> {
        self.is_live.then(|| self.key())
    }

    /// The agenda is to say nothing of it any more: the key it had there, if any.
    pub(super) fn withdraw(&mut self) -> Option<Key> {
        let posted = self.posted();
        self.is_live = false;
        posted
    }

    fn key(&self) -> Key {
        Key {
            ticks: self.due_ticks,
            rest: self.due_rest,
            weight: self.weight,
            seq: self.seq,
        }
    }

    /// A job begins: its charge in `w · S`, an estimate.
    pub(super) fn begin(&mut self) -> i128 {
        (self.owes, self.is_kept) = (true, true);
        // Somebody may never settle anything.
        self.running = self.running.saturating_add(1);
        ticks(self.estimate)
    }

    /// A job has ended: what that changes in `w · S`, the jobs still running being estimated anew.
    pub(super) fn settle(&mut self, cost: u64) -> i128 {
        let before = self.charged_ahead();
        self.running = self.running.saturating_sub(1);
        (self.owes, self.is_kept) = (true, true);
        self.learn(cost);
        ticks(cost) + self.charged_ahead() - before
    }

    /// `ĉ ← max(c, 0.98·ĉ)`, and the first cost as it is.
    fn learn(&mut self, cost: u64) {
        let faded = self.estimate - self.estimate / 50;
        self.estimate = if self.is_measured {
            cost.max(faded)
        } else {
            cost
        };
        self.is_measured = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(bill: &mut Bill, work: i128) {
        bill.set_start(bill.start().moved(work, bill.weight));
    }

    /// The work charged so far.
    fn charged(bill: &Bill, origin: u128) -> i128 {
        bill.ahead_of(origin)
    }

    /// Any weights, tags anywhere that 10^12 jobs of three days each may bring them.
    fn bill() -> impl Strategy<Value = Bill> {
        (1..u32::MAX, 0..1_u64 << 48, 0..1_u128 << 109).prop_map(|(weight, estimate, ticks)| {
            let mut bill = Bill::new(Id::FIRST, weight, estimate);
            bill.set_start(Tag::whole(ticks + (1 << 96)));
            bill
        })
    }

    proptest! {
        /// Whatever is estimated, and however many run at a time.
        #[test]
        fn charges_and_corrections_add_up_to_the_cost(
            mut bill in bill(),
            jobs in prop::collection::vec((0..1_u64 << 48, 0..4_usize), 1..60),
        ) {
            let (origin, mut cost) = (bill.ticks, 0);
            for (spent, more) in jobs {
                for _ in 0..=more {
                    let work = bill.begin();
                    apply(&mut bill, work);
                }
                let work = bill.settle(spent);
                apply(&mut bill, work);
                cost += ticks(spent);
                prop_assert_eq!(charged(&bill, origin), cost + bill.charged_ahead());
            }
        }

        /// So a trillion moves are as exact as the one that they add up to.
        #[test]
        fn moves_add_up(bill in bill(), one in -1_i128 << 69..1 << 69, other in 0..1_i128 << 108) {
            let (tag, weight) = (bill.start(), bill.weight);
            prop_assert_eq!(tag.moved(one, weight).moved(other, weight), tag.moved(one + other, weight));
            prop_assert_eq!(tag.moved(one, weight).moved(-one, weight), tag);
        }
    }

    #[test]
    fn an_estimate_rises_at_once_and_falls_by_a_fiftieth() {
        let mut bill = Bill::new(Id::FIRST, 1, 700);
        let estimates = [100, 1_000, 0, 990, 5].map(|cost| {
            bill.begin();
            bill.settle(cost);
            bill.estimate
        });
        assert_eq!(estimates, [100, 1_000, 980, 990, 971]);
    }

    #[test]
    fn a_bill_has_two_cache_lines() {
        assert_eq!(size_of::<Option<Bill>>(), 128);
    }

    #[test]
    fn a_trillion_charges_do_not_drift() {
        // A weight and a cost that divide nothing, all in a row, by doubling: 2^k charges move the tag
        // as far again as the 2^k before.
        let (weight, cost) = (4_294_967_291, 1_000_003);
        let mut bill = Bill::new(Id::FIRST, weight, cost);
        bill.set_start(Tag::whole(1 << 96));
        let mut jobs = 1_i128;
        let work = bill.begin();
        apply(&mut bill, work);
        while jobs < 1_000_000_000_000 {
            let so_far = charged(&bill, 1 << 96);
            apply(&mut bill, so_far);
            jobs *= 2;
            assert_eq!(charged(&bill, 1 << 96), jobs * ticks(cost));
        }
    }
}
