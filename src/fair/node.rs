//! One node of the agenda: a sorted array of items.

use super::arena::Id;
use super::tag::Key;
use std::ops::Range;

/// The most items a node holds.
const FANOUT: usize = 16;

/// In a leaf: an entry. Above: a subtree, with a lower bound of its keys and its earliest start.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) key: Key,
    /// First whole tick at which it may be served.
    pub(super) ready: u128,
    /// The lane of an entry, or the node of a subtree.
    pub(super) id: Id,
}

impl Item {
    /// Stands in where there is none.
    pub(super) const NONE: Item = Item {
        key: Key {
            ticks: 0,
            rest: 0,
            weight: 1,
            seq: 0,
        },
        ready: u128::MAX,
        id: Id::FIRST,
    };
}

#[cfg(test)]
impl Item {
    /// The entry of a lane of weight 1.
    pub(super) fn of(lane: usize, ticks: u128, seq: u64, ready: u128) -> Item {
        Item {
            key: Key {
                ticks,
                rest: 0,
                weight: 1,
                seq,
            },
            ready,
            id: Id::new(lane),
        }
    }
}

/// What of an item no search reads, but to decide between equal ticks.
#[derive(Clone, Copy)]
struct Minor {
    seq: u64,
    rest: u32,
    weight: u32,
    id: Id,
}

/// Items in order of their keys, by column: a search reads one column. Searches are linear, from the
/// end where the answer is likely: what is served is among the first, what comes back among the
/// last, and the processor then guesses right most of the time. Unused slots are never ready.
pub(super) struct Node {
    ticks: [u128; FANOUT],
    pub(super) ready: [u128; FANOUT],
    minor: [Minor; FANOUT],
    pub(super) len: usize,
}

impl Node {
    pub(super) fn new() -> Node {
        Node {
            ticks: [0; FANOUT],
            ready: [u128::MAX; FANOUT],
            minor: [Minor {
                seq: 0,
                rest: 0,
                weight: 1,
                id: Id::FIRST,
            }; FANOUT],
            len: 0,
        }
    }

    pub(super) fn id(&self, at: usize) -> Id {
        self.minor[at].id
    }

    pub(super) fn key(&self, at: usize) -> Key {
        let Minor {
            seq, rest, weight, ..
        } = self.minor[at];
        Key {
            ticks: self.ticks[at],
            rest,
            weight,
            seq,
        }
    }

    pub(super) fn item(&self, at: usize) -> Item {
        Item {
            key: self.key(at),
            ready: self.ready[at],
            id: self.minor[at].id,
        }
    }

    pub(super) fn set(&mut self, at: usize, item: Item) {
        let Key {
            ticks,
            rest,
            weight,
            seq,
        } = item.key;
        self.ticks[at] = ticks;
        self.ready[at] = item.ready;
        let id = item.id;
        self.minor[at] = Minor {
            seq,
            rest,
            weight,
            id,
        };
    }

    /// Copies the items in `from` to where `to` begins.
    fn copy_within(&mut self, from: Range<usize>, to: usize) {
        if from.is_empty() {
            return;
        }
        self.ticks.copy_within(from.clone(), to);
        self.ready.copy_within(from.clone(), to);
        self.minor.copy_within(from, to);
    }

    /// How many items have a key not above `key`, which is likely to be among the last.
    pub(super) fn rank(&self, key: &Key) -> usize {
        let mut rank = self.len;
        while rank > 0 && self.is_above(rank - 1, key) {
            rank -= 1;
        }
        rank
    }

    /// The item with that key, or under which it is; likely among the first.
    pub(super) fn find(&self, key: &Key) -> usize {
        let mut next = 1;
        while next < self.len && !self.is_above(next, key) {
            next += 1;
        }
        next - 1
    }

    fn is_above(&self, at: usize, key: &Key) -> bool {
        let ticks = self.ticks[at];
        ticks > key.ticks || (ticks == key.ticks && self.key(at) > *key)
    }

    /// When the first item becomes ready; never, if there is none.
    pub(super) fn earliest(&self) -> u128 {
        let mut columns = [u128::MAX; 4];
        for four in self.ready.chunks_exact(4) {
            for (least, ready) in columns.iter_mut().zip(four) {
                *least = (*least).min(*ready);
            }
        }
        columns.into_iter().fold(u128::MAX, u128::min)
    }

    pub(super) fn first_ready(&self, now: u128) -> Option<Id> {
        let ready = self.ready[..self.len].iter();
        let at = ready.take_while(|&&ready| ready > now).count();
        self.minor[..self.len].get(at).map(|minor| minor.id)
    }

    /// Which item that is.
    pub(super) fn first_ready_at(&self, now: u128) -> Option<usize> {
        let ready = self.ready[..self.len].iter();
        let at = ready.take_while(|&&ready| ready > now).count();
        (at < self.len).then_some(at)
    }

    pub(super) fn remove(&mut self, at: usize) -> Item {
        let item = self.item(at);
        self.copy_within(at + 1..self.len, at);
        self.len -= 1;
        self.ready[self.len] = u128::MAX;
        item
    }

    /// Inserts at `at`; a full node is split, and its upper half returned.
    pub(super) fn insert(&mut self, at: usize, item: Item) -> Option<Node> {
        if self.len < FANOUT {
            self.copy_within(at..self.len, at + 1);
            self.set(at, item);
            self.len += 1;
            return None;
        }
        let mut upper = self.split();
        match at.checked_sub(FANOUT / 2) {
            Some(at) => upper.insert(at, item),
            None => self.insert(at, item),
        };
        Some(upper)
    }

    #[cold]
    fn split(&mut self) -> Node {
        let mut upper = Node::new();
        for at in FANOUT / 2..FANOUT {
            upper.set(at - FANOUT / 2, self.item(at));
        }
        upper.len = FANOUT / 2;
        self.len = FANOUT / 2;
        self.ready[FANOUT / 2..].fill(u128::MAX);
        upper
    }

    pub(super) fn append(&mut self, other: &Node) {
        for at in 0..other.len {
            self.set(self.len, other.item(at));
            self.len += 1;
        }
    }

    /// Replaces the item at `from` by one that belongs at rank `to` of the old order.
    pub(super) fn shift(&mut self, from: usize, to: usize, item: Item) {
        if from < to {
            self.copy_within(from + 1..to, from);
            self.set(to - 1, item);
        } else {
            self.copy_within(to..from, to + 1);
            self.set(to, item);
        }
    }
}
