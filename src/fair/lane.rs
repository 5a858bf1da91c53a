//! What is known of a tenant while it has something queued.

use super::arena::{Arena, Id};
use super::backlog::Backlog;
use super::tag::Tag;

/// All that is kept of a tenant; it goes with the tenant's last job.
pub(super) struct Lane<K> {
    pub(super) turn: Turn,
    pub(super) backlog: Backlog,
    /// The arrival number of the next job. A new lane starts from the number of jobs the whole
    /// queue has seen, which no earlier lane can have gone beyond: a number is never used twice
    /// with the same slot, so a ticket of a lane long gone finds nothing.
    pub(super) arrivals: u64,
    pub(super) hash: u32,
    pub(super) key: K,
}

pub(super) type Lanes<K> = Arena<Lane<K>>;

/// Where a lane is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In its run, among those that came back from being served.
    Served,
    /// In its run, among those that came in at the time of the clock.
    Fresh,
    /// Nowhere: passed over until released.
    Held,
    /// Nowhere: by cost, the tenant has no job and is kept in mind for what it owes. The backlog says
    /// nothing then.
    Away,
}

/// A lane's part in the rotation.
pub(super) struct Turn {
    /// The start tag, whole ticks as two words: a `u128` would align every lane to 16 bytes.
    ticks: [u64; 2],
    rest: u32,
    pub(super) weight: u32,
    /// When it was last served, or came in: the tie-break.
    pub(super) seq: u64,
    /// Its run, unless held; by cost, its bill.
    pub(super) run: Id,
    pub(super) prev: Option<Id>,
    pub(super) next: Option<Id>,
    pub(super) place: Place,
}

impl Turn {
    /// A lane that has yet to join.
    pub(super) fn new(weight: u32) -> Turn {
        Turn {
            ticks: [0; 2],
            rest: 0,
            weight,
            seq: 0,
            run: Id::FIRST,
            prev: None,
            next: None,
            place: Place::Held,
        }
    }

    pub(super) fn start(&self) -> Tag {
        let [high, low] = self.ticks;
        Tag {
            ticks: u128::from(high) << 64 | u128::from(low),
            rest: self.rest,
        }
    }

    pub(super) fn set_start(&mut self, start: Tag) {
        self.ticks = [(start.ticks >> 64) as u64, start.ticks as u64];
        self.rest = start.rest;
    }
}
