//! The rotation: which lane is served next, and what a service costs it.
//!
//! The rule, and why it is this one, stands in the `README.md` beside this file; its step names are
//! the names of the functions here.

use super::agenda::Agenda;
use super::arena::{Arena, Id};
use super::hash::hash_weight;
use super::lane::{Lanes, Place};
use super::run::{Run, sort_key};
use super::table::Table;
use super::tag::{Clock, Tag};

/// The state between all lanes; each lane's own part is its [`Turn`](super::lane::Turn).
pub(super) struct Rotation {
    clock: Clock,
    agenda: Agenda,
    runs: Arena<Run>,
    /// The run of each weight in use, solos aside.
    weights: Table,
    seq: u64,
}

/// The lane to be served, and the time at which it is.
#[derive(Clone, Copy)]
pub(super) struct Pick {
    pub(super) lane: Id,
    pub(super) now: u128,
}

impl Rotation {
    pub(super) fn new() -> Rotation {
        Rotation {
            clock: Clock::new(),
            agenda: Agenda::new(),
            runs: Arena::new(),
            weights: Table::new(),
            seq: 0,
        }
    }

    /// Sets the clock back, for when there is no lane at all, held ones included: a held lane in
    /// debt would have to wait until the clock has come all the way again.
    pub(super) fn reset(&mut self) {
        self.clock = Clock::new();
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// A lane opens: it starts at the time of the clock.
    ///
    /// First the sum of the weights, which may round the clock up, then the lane's own tag:
    /// otherwise a newcomer could start before someone who became eligible by the rounding.
    pub(super) fn join<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        self.clock.enrol(lanes[lane].turn.weight);
        self.start_now(lanes, lane);
        self.enter(lanes, lane);
    }

    fn start_now<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let turn = &mut lanes[lane].turn;
        turn.set_start(Tag::whole(self.clock.now()));
        turn.seq = self.next_seq();
    }

    /// The lane to be served next, if any is live. Nothing changes yet: whoever pops has the name
    /// of the tenant to clone first, which may fail.
    pub(super) fn pick(&self) -> Option<Pick> {
        let now = self.clock.now();
        if let Some(lane) = self.agenda.first_ready(now) {
            return Some(Pick { lane, now });
        }
        // Nobody's time has come, so it comes now for the earliest: no turn is ever left unused.
        let now = self.agenda.earliest()?;
        let lane = self.agenda.first_ready(now)?;
        Some(Pick { lane, now })
    }

    /// Charges the lane picked for one job, with more to come.
    pub(super) fn charge<K>(&mut self, lanes: &mut Lanes<K>, pick: Pick) {
        let Pick { lane, now } = pick;
        self.clock.raise_to(now);
        self.clock.advance();
        let seq = self.next_seq();
        let turn = &mut lanes[lane].turn;
        let run = &mut self.runs[turn.run];
        let due = turn.start().plus(run.step, run.weight);
        turn.set_start(due.max(Tag::whole(now)));
        turn.seq = seq;
        let key = sort_key(turn);
        run.unlink(lanes, lane);
        // As `come_back`, where most lanes come back to.
        if !run.solo && run.try_push_back(lanes, Place::Served, lane, key) {
            Rotation::post(&mut self.agenda, run, lanes);
        } else {
            self.come_back(lanes, lane, key);
        }
    }

    /// Brings the agenda up to date with the first lane of a run; `false` if the run is empty.
    #[inline]
    fn post<K>(agenda: &mut Agenda, run: &mut Run, lanes: &Lanes<K>) -> bool {
        let Some(item) = run.item(lanes) else {
            return false;
        };
        match run.posted.replace(item.key) {
            None => agenda.post(item),
            Some(old) if old.seq != item.key.seq => agenda.repost(&old, item),
            Some(_) => {}
        }
        true
    }

    /// Charges the lane picked for its last job, and takes it out: the clock counts its weight a
    /// last time.
    pub(super) fn charge_last<K>(&mut self, lanes: &mut Lanes<K>, pick: Pick) {
        self.clock.raise_to(pick.now);
        self.clock.advance();
        self.leave(lanes, pick.lane);
    }

    /// Takes a lane out, at no charge; what it owed is forgotten.
    pub(super) fn leave<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        if lanes[lane].turn.place != Place::Held {
            self.clock.dismiss(lanes[lane].turn.weight);
            self.detach(lanes, lane);
        }
    }

    /// Takes a lane out of the turn until [`release`](Rotation::release); it keeps its tag.
    pub(super) fn hold<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        self.leave(lanes, lane);
        lanes[lane].turn.place = Place::Held;
    }

    /// Lets a held lane back in: as a newcomer, unless it still owes for what it had.
    pub(super) fn release<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        if lanes[lane].turn.place != Place::Held {
            return;
        }
        self.clock.enrol(lanes[lane].turn.weight);
        if lanes[lane].turn.start().ceil() <= self.clock.now() {
            self.start_now(lanes, lane);
        }
        self.enter(lanes, lane);
    }

    /// Changes a lane's weight, for what is queued already too.
    #[inline]
    pub(super) fn reweigh<K>(&mut self, lanes: &mut Lanes<K>, lane: Id, weight: u32) {
        if weight != lanes[lane].turn.weight {
            self.change_weight(lanes, lane, weight);
        }
    }

    #[cold]
    fn change_weight<K>(&mut self, lanes: &mut Lanes<K>, lane: Id, weight: u32) {
        let old = lanes[lane].turn.weight;
        let live = lanes[lane].turn.place != Place::Held;
        if live {
            self.clock.dismiss(old);
            self.clock.enrol(weight);
            self.detach(lanes, lane);
        }
        let turn = &mut lanes[lane].turn;
        turn.set_start(turn.start().reweighed(self.clock.now(), old, weight));
        turn.weight = weight;
        if live {
            self.enter(lanes, lane);
        }
    }

    /// Puts a lane that is in no list into the run of its weight, or a run of its own.
    ///
    /// Only a tag that is not ahead of the clock goes among the fresh. One ahead would make the
    /// next newcomers, who start at the clock, solos each.
    fn enter<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let turn = &lanes[lane].turn;
        if turn.start().ceil() <= self.clock.now() {
            let (key, run) = (sort_key(turn), self.run_of(turn.weight));
            if self.try_append(lanes, run, Place::Fresh, lane, key) {
                return;
            }
        }
        let turn = &lanes[lane].turn;
        let (key, solo) = (sort_key(turn), Run::new(turn.weight, true));
        let run = self.runs.insert(solo);
        self.try_append(lanes, run, Place::Fresh, lane, key);
    }

    /// Puts back a lane just served, which is linked nowhere although it names its old run.
    ///
    /// It goes behind those served before it. After a change of weights they may be ahead of it;
    /// then it is late itself, and goes among the fresh.
    #[cold]
    fn come_back<K>(&mut self, lanes: &mut Lanes<K>, lane: Id, key: (Tag, u64)) {
        let turn = &lanes[lane].turn;
        let from = turn.run;
        let run = if self.runs[from].solo {
            self.run_of(turn.weight)
        } else {
            from
        };
        if !self.try_append(lanes, run, Place::Served, lane, key) {
            self.enter(lanes, lane);
        }
        if lanes[lane].turn.run != from {
            self.repost(lanes, from);
        }
    }

    /// Appends a lane to a list, if it sorts there; an empty list takes any.
    fn try_append<K>(
        &mut self,
        lanes: &mut Lanes<K>,
        run: Id,
        place: Place,
        lane: Id,
        key: (Tag, u64),
    ) -> bool {
        let taken = self.runs[run].try_push_back(lanes, place, lane, key);
        if taken {
            lanes[lane].turn.run = run;
            self.repost(lanes, run);
        }
        taken
    }

    fn detach<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let run = lanes[lane].turn.run;
        self.runs[run].unlink(lanes, lane);
        self.repost(lanes, run);
    }

    /// The run of all lanes of `weight`, an empty one if need be: the caller fills it.
    fn run_of(&mut self, weight: u32) -> Id {
        let hash = hash_weight(weight);
        let runs = &self.runs;
        if let Some(run) = self.weights.find(hash, |run| runs[run].weight == weight) {
            return run;
        }
        let run = self.runs.insert(Run::new(weight, false));
        self.weights.insert(hash, run);
        run
    }

    /// Brings the agenda up to date with the first lane of `run`, and drops the run if it is empty.
    fn repost<K>(&mut self, lanes: &Lanes<K>, run: Id) {
        if !Rotation::post(&mut self.agenda, &mut self.runs[run], lanes) {
            self.drop_run(run);
        }
    }

    fn drop_run(&mut self, id: Id) {
        let run = self.runs.remove(id);
        if let Some(key) = run.posted {
            self.agenda.withdraw(&key);
        }
        if !run.solo {
            self.weights.remove(hash_weight(run.weight), id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Rule;
    use super::Rotation;
    use crate::{FairQueue, Priority, Weight};

    fn rotation<K, T>(queue: &FairQueue<K, T>) -> &Rotation {
        match &queue.rule {
            Rule::Count(rotation) => rotation,
            Rule::Cost(_) => unreachable!("a queue by count"),
        }
    }

    /// What the agenda is as long as, and a pop as expensive as the logarithm of.
    #[test]
    fn there_are_as_many_runs_as_weights_whatever_the_lanes() {
        let mut queue = FairQueue::new();
        let join = |queue: &mut FairQueue<u32, ()>, lanes: std::ops::Range<u32>| {
            for lane in lanes {
                for _ in 0..3 {
                    let weight = Weight::new(1 + lane % 3);
                    queue.push_weighted(lane, weight, Priority::NORMAL, ());
                }
            }
        };
        join(&mut queue, 0..300);
        assert_eq!(rotation(&queue).runs.len(), 3);
        for _ in 0..400 {
            let (lane, ()) = queue.pop().unwrap();
            assert_eq!(rotation(&queue).runs.len(), 3);
            if lane == 299 {
                // It comes back ahead of the clock, and newcomers do not follow it.
                assert!(queue.hold(&lane) && queue.release(&lane));
                join(&mut queue, 300..400);
                assert_eq!(rotation(&queue).runs.len(), 4);
                break;
            }
        }
        assert_eq!(queue.lanes(), 400);
        while queue.pop().is_some() {}
        assert_eq!(rotation(&queue).runs.len(), 0);
    }

    /// However long a queue is used, its clock stays far from its end if it runs empty now and then.
    #[test]
    fn the_clock_starts_again_when_nothing_is_queued() {
        let mut queue = FairQueue::new();
        for _ in 0..3 {
            for job in 0..4 {
                queue.push(job % 2, Priority::NORMAL, job);
            }
            let last = queue.push(2, Priority::NORMAL, 4);
            assert!(queue.hold(&2));
            while queue.pop().is_some() {}
            assert_ne!(rotation(&queue).clock.now(), 0, "a held lane is one");
            assert!(queue.remove(last).is_some());
            assert_eq!(rotation(&queue).clock.now(), 0);
        }
    }
}
