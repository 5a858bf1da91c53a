//! Runs: lanes of one weight, in the order in which they will be served.
//!
//! Lanes of one weight are served in order of their start tags, and come back in that same order,
//! each `1/w` later. So two lists that grow at the back alone keep all of them sorted: those that
//! were *served*, and the *fresh* ones, which came in at the time of the clock. The first lane of
//! the run is the lesser of the two heads, and only that one is on the agenda. With all weights
//! equal a pop is O(1).
//!
//! A lane that fits neither list (its weight changed, or it was released with a debt) is a run of
//! its own, a *solo*, until it is next served.

use super::arena::Id;
use super::lane::{Lanes, Place, Turn};
use super::node::Item;
use super::tag::{Key, Step, Tag};

/// A list of lanes by (start, seq), linked through their turns.
#[derive(Default)]
struct List {
    head: Option<Id>,
    tail: Option<Id>,
}

pub(super) struct Run {
    pub(super) weight: u32,
    pub(super) solo: bool,
    /// 1 / weight.
    pub(super) step: Step,
    /// The key it has on the agenda.
    pub(super) posted: Option<Key>,
    served: List,
    fresh: List,
}

impl Run {
    pub(super) fn new(weight: u32, solo: bool) -> Run {
        Run {
            weight,
            solo,
            step: Step::of(weight.into()),
            posted: None,
            served: List::default(),
            fresh: List::default(),
        }
    }

    fn list(&mut self, place: Place) -> &mut List {
        match place {
            Place::Served => &mut self.served,
            _ => &mut self.fresh,
        }
    }

    /// Links a lane at the back of a list, if it sorts there.
    #[inline]
    pub(super) fn try_push_back<K>(
        &mut self,
        lanes: &mut Lanes<K>,
        place: Place,
        lane: Id,
        key: (Tag, u64),
    ) -> bool {
        let list = self.list(place);
        match list.tail {
            Some(tail) => {
                let tail = &mut lanes[tail].turn;
                if sort_key(tail) > key {
                    return false;
                }
                tail.next = Some(lane);
            }
            None => list.head = Some(lane),
        }
        let turn = &mut lanes[lane].turn;
        (turn.prev, turn.next, turn.place) = (list.tail, None, place);
        list.tail = Some(lane);
        true
    }

    /// Takes a lane out of its list.
    #[inline]
    pub(super) fn unlink<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        let turn = &lanes[lane].turn;
        let (prev, next, list) = (turn.prev, turn.next, self.list(turn.place));
        match prev {
            Some(prev) => lanes[prev].turn.next = next,
            None => list.head = next,
        }
        match next {
            Some(next) => lanes[next].turn.prev = prev,
            None => list.tail = prev,
        }
    }

    /// What the agenda should say of this run; `None` if it is empty.
    #[inline]
    pub(super) fn item<K>(&self, lanes: &Lanes<K>) -> Option<Item> {
        let place = |lane: &Id| sort_key(&lanes[*lane].turn);
        let heads = [self.served.head, self.fresh.head];
        let first = match heads {
            [Some(_), Some(_)] => heads.into_iter().flatten().min_by_key(place),
            [served, fresh] => served.or(fresh),
        }?;
        // A turn of this weight later, the job is wanted, and the lane behind.
        lanes.prefetch(first);
        let turn = &lanes[first].turn;
        if let Some(next) = turn.next {
            lanes.prefetch(next);
        }
        let deadline = turn.start().plus(self.step, self.weight);
        Some(Item {
            key: Key {
                ticks: deadline.ticks,
                rest: deadline.rest,
                weight: self.weight,
                seq: turn.seq,
            },
            ready: turn.start().ceil(),
            id: first,
        })
    }
}

/// The order inside one weight. By deadline would be the same, as all are `1/w` later.
pub(super) fn sort_key(turn: &Turn) -> (Tag, u64) {
    (turn.start(), turn.seq)
}
