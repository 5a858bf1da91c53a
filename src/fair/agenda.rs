//! Which run is served next: the least deadline among those whose time has come.
//!
//! A B-tree over [`Key`]s in which each item also knows the earliest start below it. The first item
//! of a node that is *ready* leads to the answer, so finding it costs one walk down, and posting
//! and withdrawing an entry one walk each: O(log runs) at worst, not just on average. With up to 16
//! runs the tree is one sorted array of a kilobyte.
//!
//! Rejected:
//! - Two heaps, one of entries to come by start and one of ready ones by deadline: as fast on
//!   average, but when the clock reaches a whole unit every entry may become ready in one and the
//!   same pop, which then moves them all (250 ms with a million lanes of different weights).
//! - A binary search tree with the same annotation: as short a program, three times the cache
//!   misses, and rebalancing reads both children at each level.

use super::arena::{Arena, Id};
use super::tag::Key;

/// The most items a node holds.
const FANOUT: usize = 16;
/// Neighbours with no more items than this between them are merged. Half a node, so that neither a
/// split undoes a merge nor the other way round; and since neighbours then have more than `SPARSE`
/// items together, the height stays below log(entries) to the base of SPARSE / 2.
const SPARSE: usize = FANOUT / 2;
/// More than the height of a tree of 2^32 entries.
const MAX_HEIGHT: usize = 18;

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
    const FILLER: Item = Item {
        key: Key {
            ticks: 0,
            rest: 0,
            weight: 1,
            seq: 0,
        },
        ready: 0,
        id: Id::FIRST,
    };
}

struct Node {
    items: [Item; FANOUT],
    len: usize,
}

impl Node {
    fn new(items: &[Item]) -> Node {
        let mut node = Node {
            items: [Item::FILLER; FANOUT],
            len: items.len(),
        };
        node.items[..items.len()].copy_from_slice(items);
        node
    }

    fn items(&self) -> &[Item] {
        &self.items[..self.len]
    }

    /// How many items have a key not above `key`.
    fn rank(&self, key: &Key) -> usize {
        self.items().partition_point(|item| item.key <= *key)
    }

    /// The item under which `key` is, or would go.
    fn towards(&self, key: &Key) -> usize {
        self.rank(key).saturating_sub(1)
    }

    fn earliest(&self) -> Option<u128> {
        self.items().iter().map(|item| item.ready).min()
    }

    fn first_ready(&self, now: u128) -> Option<Id> {
        let item = self.items().iter().find(|item| item.ready <= now)?;
        Some(item.id)
    }

    fn remove(&mut self, at: usize) -> Item {
        let item = self.items[at];
        self.items.copy_within(at + 1..self.len, at);
        self.len -= 1;
        item
    }

    /// Inserts at `at`; a full node is split, and its upper half returned.
    fn insert(&mut self, at: usize, item: Item) -> Option<Node> {
        if self.len < FANOUT {
            self.items.copy_within(at..self.len, at + 1);
            self.items[at] = item;
            self.len += 1;
            return None;
        }
        let mut upper = Node::new(&self.items[FANOUT / 2..]);
        self.len = FANOUT / 2;
        match at.checked_sub(FANOUT / 2) {
            Some(at) => upper.insert(at, item),
            None => self.insert(at, item),
        };
        Some(upper)
    }

    /// Replaces the item at `from` by one that belongs at rank `to` of the old order.
    fn shift(&mut self, from: usize, to: usize, item: Item) {
        if from < to {
            self.items.copy_within(from + 1..to, from);
            self.items[to - 1] = item;
        } else {
            self.items.copy_within(to..from, to + 1);
            self.items[to] = item;
        }
    }
}

/// The way from the root down: nodes, and the item taken in each.
struct Path {
    steps: [(Id, usize); MAX_HEIGHT],
    len: usize,
}

impl Path {
    fn new() -> Path {
        Path {
            steps: [(Id::FIRST, 0); MAX_HEIGHT],
            len: 0,
        }
    }

    fn push(&mut self, node: Id, at: usize) {
        self.steps[self.len] = (node, at);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(Id, usize)> {
        self.len = self.len.checked_sub(1)?;
        Some(self.steps[self.len])
    }
}

/// The entries: one for each run, naming the lane that is first in it.
pub(super) struct Agenda {
    nodes: Arena<Node>,
    /// The last leaf stays when it empties.
    root: Id,
    /// Levels above the leaves.
    height: usize,
}

impl Agenda {
    pub(super) fn new() -> Agenda {
        Agenda {
            nodes: Arena::new(),
            // Not read before the first post: an agenda without nodes is empty.
            root: Id::FIRST,
            height: 0,
        }
    }

    /// The lane of the least key among those ready at `now`.
    pub(super) fn first_ready(&self, now: u128) -> Option<Id> {
        let mut id = self.nodes.get(self.root)?.first_ready(now)?;
        for _ in 0..self.height {
            let below = self.nodes[id].first_ready(now);
            id = below.expect("an entry as early as its subtree says");
        }
        Some(id)
    }

    /// When the first entry becomes ready.
    pub(super) fn earliest(&self) -> Option<u128> {
        self.nodes.get(self.root)?.earliest()
    }

    /// Adds an entry.
    pub(super) fn post(&mut self, item: Item) {
        if self.nodes.is_empty() {
            self.root = self.nodes.insert(Node::new(&[item]));
            return;
        }
        let mut path = Path::new();
        let mut node = self.root;
        for _ in 0..self.height {
            let at = self.nodes[node].towards(&item.key);
            let subtree = &mut self.nodes[node].items[at];
            subtree.ready = subtree.ready.min(item.ready);
            subtree.key = subtree.key.min(item.key);
            path.push(node, at);
            node = subtree.id;
        }
        let leaf = &mut self.nodes[node];
        let split = leaf.insert(leaf.rank(&item.key), item);
        self.hang_up(split, path);
    }

    /// Puts the upper half of a split node beside the lower, splitting upwards as needed.
    fn hang_up(&mut self, mut split: Option<Node>, mut path: Path) {
        while let Some(upper) = split {
            let upper = self.adopt(upper);
            let Some((parent, at)) = path.pop() else {
                let lower = self.over(self.root);
                self.root = self.nodes.insert(Node::new(&[lower, upper]));
                self.height += 1;
                return;
            };
            self.refresh(parent, at);
            split = self.nodes[parent].insert(at + 1, upper);
        }
    }

    fn adopt(&mut self, node: Node) -> Item {
        let id = self.nodes.insert(node);
        self.over(id)
    }

    /// The item that stands for the node `id`, which is not empty.
    fn over(&self, id: Id) -> Item {
        let node = &self.nodes[id];
        Item {
            key: node.items[0].key,
            ready: node.earliest().expect("a node with items"),
            id,
        }
    }

    /// Brings the earliest start of a subtree up to date.
    fn refresh(&mut self, parent: Id, at: usize) {
        let below = self.nodes[parent].items[at].id;
        if let Some(earliest) = self.nodes[below].earliest() {
            self.nodes[parent].items[at].ready = earliest;
        }
    }

    /// Takes out the entry with that key, which must be there.
    pub(super) fn withdraw(&mut self, key: &Key) {
        let mut path = Path::new();
        let mut node = self.root;
        for _ in 0..self.height {
            let at = self.nodes[node].towards(key);
            path.push(node, at);
            node = self.nodes[node].items[at].id;
        }
        let leaf = &mut self.nodes[node];
        let at = leaf.towards(key);
        debug_assert!(leaf.items()[at].key == *key, "an entry that was posted");
        leaf.remove(at);
        for above in 0.. {
            let Some((parent, at)) = path.pop() else {
                break;
            };
            self.refresh(parent, at);
            self.merge_around(parent, at, above);
        }
        self.lower_root();
    }

    /// Merges the subtree with a neighbour while the two are sparse; drops it if it is empty.
    /// `above` counts the levels between the subtree and the leaves.
    fn merge_around(&mut self, parent: Id, mut at: usize, above: usize) {
        loop {
            let node = &self.nodes[parent];
            let size = |at: usize| self.nodes[node.items[at].id].len;
            if size(at) == 0 {
                let below = self.nodes[parent].remove(at).id;
                self.nodes.remove(below);
                return;
            } else if at > 0 && size(at - 1) + size(at) <= SPARSE {
                at -= 1;
            } else if at + 1 >= node.len || size(at) + size(at + 1) > SPARSE {
                return;
            }
            self.merge(parent, at, above);
        }
    }

    /// Merges the subtrees at `at` and after it.
    fn merge(&mut self, parent: Id, at: usize, above: usize) {
        let upper = self.nodes[parent].remove(at + 1);
        let upper = self.nodes.remove(upper.id);
        let below = self.nodes[parent].items[at].id;
        let lower = &mut self.nodes[below];
        let seam = lower.len;
        lower.items[seam..][..upper.len].copy_from_slice(upper.items());
        lower.len += upper.len;
        self.refresh(parent, at);
        if above > 0 {
            // Two that were not neighbours before now are.
            self.merge_around(below, seam, above - 1);
        }
    }

    fn lower_root(&mut self) {
        while self.height > 0 && self.nodes[self.root].len == 1 {
            let old = self.nodes.remove(self.root);
            self.root = old.items[0].id;
            self.height -= 1;
        }
    }

    /// `withdraw(old)` and `post(item)`, in one move where one leaf holds everything.
    pub(super) fn repost(&mut self, old: &Key, item: Item) {
        if self.height == 0 {
            let leaf = &mut self.nodes[self.root];
            leaf.shift(leaf.towards(old), leaf.rank(&item.key), item);
        } else {
            self.withdraw(old);
            self.post(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item(seq: u64, ticks: u128, ready: u128) -> Item {
        Item {
            key: Key {
                ticks,
                rest: 0,
                weight: 1,
                seq,
            },
            ready,
            id: Id::new(seq as usize),
        }
    }

    fn expected(model: &[Item], now: u128) -> Option<Id> {
        let ready = model.iter().filter(|item| item.ready <= now);
        ready.min_by_key(|item| item.key).map(|item| item.id)
    }

    /// Every item above the leaves tells the truth, and no neighbours are sparse.
    fn check(agenda: &Agenda) {
        let mut level = vec![agenda.root];
        for _ in 0..agenda.height {
            let mut below = Vec::new();
            for &id in &level {
                let items = agenda.nodes[id].items();
                for (item, next) in items.iter().zip(items.iter().skip(1)) {
                    let (here, there) = (&agenda.nodes[item.id], &agenda.nodes[next.id]);
                    assert!(here.len + there.len > SPARSE);
                    assert!(here.items().iter().all(|item| item.key < next.key));
                }
                for item in items {
                    let node = &agenda.nodes[item.id];
                    assert_eq!(node.earliest(), Some(item.ready));
                    assert!(node.items().is_sorted_by_key(|item| item.key));
                    assert!(node.items()[0].key >= item.key);
                    below.push(item.id);
                }
            }
            level = below;
        }
    }

    proptest! {
        #[test]
        fn finds_what_a_search_of_all_entries_finds(
            ops in prop::collection::vec((0..5_u8, 0..200_u128, 0..200_u128), 1..1200),
            growing in 0..1200_usize,
        ) {
            let (mut agenda, mut model) = (Agenda::new(), Vec::<Item>::new());
            for (n, &(op, ticks, ready)) in ops.iter().enumerate() {
                let new = item(n as u64, ticks, ready);
                let at = ticks as usize * 31 % model.len().max(1);
                if model.is_empty() || (op < 4) == (n < growing) {
                    agenda.post(new);
                    model.push(new);
                } else if op == 2 {
                    agenda.repost(&model[at].key, new);
                    model[at] = new;
                } else {
                    agenda.withdraw(&model.swap_remove(at).key);
                }
                prop_assert_eq!(agenda.first_ready(ready), expected(&model, ready));
                prop_assert_eq!(agenda.earliest(), model.iter().map(|item| item.ready).min());
                check_if_any(&agenda);
            }
            while let Some(item) = model.pop() {
                agenda.withdraw(&item.key);
                check_if_any(&agenda);
            }
            prop_assert_eq!((agenda.nodes.len(), agenda.height), (usize::from(!ops.is_empty()), 0));
        }
    }

    fn check_if_any(agenda: &Agenda) {
        if !agenda.nodes.is_empty() {
            check(agenda);
        }
    }
}
