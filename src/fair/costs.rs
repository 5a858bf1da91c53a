//! The rotation that charges what jobs cost, which is known only when they have ended.
//!
//! The rule, and why it is this one, stands in `COSTS.md` beside this file. Tags are exact: a lane of
//! weight `w` carries its remainder over `w`, so a charge and its correction add up to the cost however
//! many there are. Costs differ, so lanes of one weight do not come back in the order in which they
//! went: each live lane has an entry of its own on the agenda. O(log lanes) a step.

use super::arena::{Arena, Id};
use super::arrivals::Arrivals;
use super::bill::{Bill, Coming, SHIFT, ticks};
use super::desk::Desk;
use super::estimates::Estimates;
use super::lane::{Lanes, Place};
use super::rotation::Pick;
use super::tag::{Tag, div_floor};
use std::collections::BTreeSet;

/// What a job costs at most; what costs more counts as this: 2^48 nanoseconds are three days. With it
/// `w · S` moves by 2^68 ticks for a job.
const MOST: u64 = 1 << 48;

/// How far ahead of the floor a tenant is put at most: 2^60 units, which is 36 years of nanoseconds.
/// Without it, or if it were counted from the average, which such tags raise, a tag toggled between the
/// least and the greatest weight leaves 127 bits, and so does one of a tenant for which more is settled
/// than was popped. With it, what a lane adds to a sum of `w · S` that is counted from near the floor or
/// the average has no more than 114 bits.
const LONGEST: u128 = 1 << (60 + SHIFT);

/// Above this the sum over all lanes is counted anew from the average, where it is next to nothing: so it
/// does not grow with the number of lanes, and nearly always has the 64 bits that are divided quickly.
const NEAR: u128 = 1 << 62;

/// How many jobs the mean of all costs goes back.
const MEMORY: u64 = 64;

/// Where time begins: corrections may move tags behind it, never below 0.
const ORIGIN: u128 = 1 << 112;

/// The state between all lanes. Of a lane's [`Turn`](super::lane::Turn) only `weight` and `place` are
/// in use, and `run`, which names its bill.
pub(super) struct Costs {
    bills: Arena<Bill>,
    agenda: Desk,
    /// The floor clock, `C`: who comes does not start before it, and who owes nothing beyond it is
    /// forgotten.
    floor: u128,
    arrivals: Arrivals,
    /// `W`, the sum of the live weights.
    total: u64,
    /// `Σ w · (S − base)` of the live lanes.
    excess: i128,
    /// Some time near the average.
    base: u128,
    /// Those of the live lanes.
    estimates: Estimates,
    /// What the last [`MEMORY`] jobs have cost in all, about: their mean is the first estimate for
    /// whoever is new.
    lately: u64,
    /// Jobs of any tenant whose cost is not known yet.
    running: usize,
    /// Lanes without a job.
    away: usize,
    /// Those of which nothing runs: when each may be forgotten, and the lane.
    debts: BTreeSet<(u128, u32)>,
    seq: u64,
}

impl Costs {
    pub(super) fn new() -> Costs {
        Costs {
            bills: Arena::new(),
            agenda: Desk::new(),
            floor: ORIGIN,
            arrivals: Arrivals::new(),
            total: 0,
            excess: 0,
            base: ORIGIN,
            estimates: Estimates::new(),
            lately: 0,
            running: 0,
            away: 0,
            debts: BTreeSet::new(),
            seq: 0,
        }
    }

    /// Forgets everybody at once, but not what a job is likely to cost.
    pub(super) fn restart(&mut self) {
        let lately = self.lately;
        *self = Costs {
            lately,
            ..Costs::new()
        };
    }

    /// Lanes without a job.
    pub(super) fn away(&self) -> usize {
        self.away
    }

    /// Whether nothing runs and, of so many lanes, none has a job.
    fn is_at_rest(&self, lanes: usize) -> bool {
        lanes == self.away && self.running == 0
    }

    /// All debts are void once nothing is queued or runs any more: time moves on to where the last of
    /// them has been paid off. Time is relative, and each may be forgotten when that suits.
    fn rest(&mut self) {
        if let Some(&(last, _)) = self.debts.last() {
            self.raise_floor(last);
        }
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// The average `A = Σ w·S / Σ w`, down to a whole tick; `C` if nobody is live. Somebody's tag is
    /// never above it, as it is an average, and tags are compared with it in whole ticks too.
    fn average(&self) -> u128 {
        match self.total {
            0 => self.floor,
            total => self
                .base
                .wrapping_add_signed(div_floor(self.excess, total).0),
        }
    }

    /// `Σ w·S` of the live lanes has changed by so much.
    fn add_excess(&mut self, work: i128) {
        self.excess += work;
        if self.excess.unsigned_abs() > NEAR {
            self.base = self.average();
            self.excess = match self.total {
                0 => 0,
                total => div_floor(self.excess, total).1.into(),
            };
        }
    }

    /// `C ← max(C, at)`.
    fn raise_floor(&mut self, at: u128) {
        self.floor = self.floor.max(at);
    }

    /// A lane opens: of a tenant that is new, or was away.
    pub(super) fn join<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let turn = &mut lanes[lane].turn;
        let was_away = std::mem::replace(&mut turn.place, Place::Fresh) == Place::Away;
        let mut stranger = Bill::new(lane, turn.weight, self.lately / MEMORY);
        stranger.is_kept = was_away;
        if !was_away {
            turn.run = self.bills.insert(stranger);
        } else if self.come_home(turn.run) {
            self.bills[turn.run] = stranger;
        } else {
            self.set_weight(turn.run, turn.weight);
        }
        self.enter(turn.run);
    }

    /// Takes a bill off the list of those away. `true`: it was paid off, and nobody need know it.
    fn come_home(&mut self, id: Id) -> bool {
        self.away -= 1;
        let bill = &mut self.bills[id];
        let (until, lane) = (bill.until.take(), bill.lane.raw());
        until.is_some_and(|until| self.debts.remove(&(until, lane)) && until <= self.floor)
    }

    /// Lets a bill in: not before the floor, and behind the average by no more than the costliest job.
    fn enter(&mut self, id: Id) {
        let peak = self.estimates.peak();
        let (average, seq) = (self.average(), self.next_seq());
        let bill = &mut self.bills[id];
        let credit = ticks(peak) / i128::from(bill.weight);
        let earliest = average.wrapping_add_signed(-credit).max(self.floor);
        bill.set_start(bill.start().max(Tag::whole(earliest)));
        bill.seq = seq;
        self.enrol(id);
    }

    fn enrol(&mut self, id: Id) {
        let bill = &mut self.bills[id];
        self.total += u64::from(bill.weight);
        let ahead = bill.ahead_of(self.base);
        let (item, estimate) = (bill.post(), bill.estimate);
        self.agenda.post(item);
        self.estimates.add(estimate);
        self.add_excess(ahead);
    }

    /// Takes a bill off the agenda; `false` if it was not on it.
    fn dismiss(&mut self, id: Id) -> bool {
        let bill = &mut self.bills[id];
        let Some(key) = bill.withdraw() else {
            return false;
        };
        self.total -= u64::from(bill.weight);
        let ahead = bill.ahead_of(self.base);
        let (estimate, lane) = (bill.estimate, bill.lane);
        self.agenda.withdraw(&key, lane);
        self.estimates.remove(estimate);
        self.add_excess(-ahead);
        true
    }

    /// Moves a tag by so many ticks of work, as far as it may go, and its entry on the agenda with it; the
    /// tie number is `seq` from now on.
    fn shift(&mut self, id: Id, work: i128, seq: u64) {
        let bill = &mut self.bills[id];
        let work = bill.shift(work, self.floor + LONGEST);
        let posted = bill.posted();
        bill.seq = seq;
        if let Some(old) = posted {
            self.agenda.repost(&old, bill.post());
            self.add_excess(work);
        }
    }

    pub(super) fn pick(&self) -> Option<Pick> {
        let now = self.average();
        let lane = self.agenda.first_ready(now)?;
        Some(Pick { lane, now })
    }

    /// Charges a lane the estimate for one job, which begins now.
    pub(super) fn charge<K>(&mut self, lanes: &Lanes<K>, lane: Id) {
        if let Some(first) = self.agenda.earliest() {
            self.raise_floor(first);
        }
        let (seq, among) = (self.next_seq(), self.total);
        let id = lanes[lane].turn.run;
        let bill = &mut self.bills[id];
        let estimate = bill.estimate;
        let work = bill.begin();
        self.running += 1;
        if let Coming::Fresh = bill.coming {
            bill.coming = Coming::Begun { number: seq };
            let floor = self.arrivals.begin(seq, self.floor, estimate, among);
            self.raise_floor(floor);
        }
        self.shift(id, work, seq);
    }

    /// Corrects the charge for one job of a lane to what it has cost, and learns from it. `false`: the
    /// tenant is as good as forgotten.
    pub(super) fn settle<K>(&mut self, lanes: &Lanes<K>, lane: Id, cost: u64) -> bool {
        let cost = cost.min(MOST);
        let id = lanes[lane].turn.run;
        let bill = &mut self.bills[id];
        if bill.until.is_some_and(|until| until <= self.floor) {
            return false;
        }
        if let Coming::Begun { number } = bill.coming {
            bill.coming = Coming::Past;
            let floor = self.arrivals.end(number, cost);
            self.raise_floor(floor);
        }
        let bill = &mut self.bills[id];
        self.running -= usize::from(bill.running > 0);
        let (before, work) = (bill.estimate, bill.settle(cost));
        let (after, is_live, seq) = (bill.estimate, bill.is_live(), bill.seq);
        self.lately = match self.lately {
            0 => cost * MEMORY,
            lately => lately - lately / MEMORY + cost,
        };
        if is_live {
            self.estimates.remove(before);
            self.estimates.add(after);
        }
        self.shift(id, work, seq);
        if lanes[lane].turn.place == Place::Away {
            self.await_payment(id);
        }
        true
    }

    /// A lane has no job any more. `true`: it has been charged something, and is kept for now.
    pub(super) fn leave<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) -> bool {
        let turn = &mut lanes[lane].turn;
        self.dismiss(turn.run);
        if !self.bills[turn.run].is_kept {
            self.bills.remove(turn.run);
            return false;
        }
        turn.place = Place::Away;
        self.away += 1;
        self.await_payment(turn.run);
        true
    }

    /// Notes when a bill that is away may be forgotten.
    fn await_payment(&mut self, id: Id) {
        let bill = &mut self.bills[id];
        let lane = bill.lane.raw();
        let until = bill.paid_off_at();
        if let Some(old) = std::mem::replace(&mut bill.until, until) {
            self.debts.remove(&(old, lane));
        }
        if let Some(new) = until {
            self.debts.insert((new, lane));
        }
    }

    /// Forgets one bill that is away and paid off; its lane. At rest all are, at once, however many there
    /// are to be forgotten first.
    pub(super) fn forget_one<K>(&mut self, lanes: &Lanes<K>) -> Option<Id> {
        if self.is_at_rest(lanes.len()) {
            self.rest();
        }
        let &(_, lane) = self
            .debts
            .first()
            .filter(|(until, _)| *until <= self.floor)?;
        self.debts.pop_first();
        self.away -= 1;
        let lane = Id::from_raw(lane)?;
        self.bills.remove(lanes[lane].turn.run);
        Some(lane)
    }

    pub(super) fn hold<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let turn = &mut lanes[lane].turn;
        turn.place = Place::Held;
        self.dismiss(turn.run);
    }

    pub(super) fn release<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let turn = &mut lanes[lane].turn;
        if turn.place == Place::Held {
            turn.place = Place::Fresh;
            self.enter(turn.run);
        }
    }

    pub(super) fn reweigh<K>(&mut self, lanes: &mut Lanes<K>, lane: Id, weight: u32) {
        let turn = &mut lanes[lane].turn;
        turn.weight = weight;
        self.set_weight(turn.run, weight);
    }

    /// What a tenant is ahead of the average it works off at its new pace, however long that takes. Jobs
    /// that run are left out of it and charged again, at the new pace too: their correction, which comes
    /// at that pace, would otherwise give back more or less than was charged.
    fn set_weight(&mut self, id: Id, weight: u32) {
        if self.bills[id].weight == weight {
            return;
        }
        let average = self.average();
        let was_live = self.dismiss(id);
        self.bills[id].reweigh(weight, average, self.floor + LONGEST);
        if was_live {
            self.enrol(id);
        }
    }
}
