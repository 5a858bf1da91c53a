//! Which run is served next: the least deadline among those whose time has come.
//!
//! A B-tree over [`Key`]s in which each item also knows the earliest start below it. The first item
//! of a node that is *ready* leads to the answer, so finding it costs one walk down, and posting
//! and withdrawing an entry one walk each: O(log runs) at worst, not just on average. With up to 16
//! runs the tree is one sorted array of a kilobyte.
//!
//! Rejected:
//! - Two heaps, one of entries to come by start and one of ready ones by deadline: faster on average
//!   (by a third with a thousand weights), but when the clock reaches a whole unit every entry may
//!   become ready in one and the same pop, which then moves them all: 250 ms with a million.
//! - A binary search tree with the same annotation: about as short a program, but several times as
//!   many levels, each likely a cache miss, and rebalancing reads both children at each.

use super::arena::{Arena, Id};
use super::node::{Item, Node};
use super::tag::Key;

/// Neighbours with no more items than this between them are merged: well below half a node, so that
/// a merge is not soon undone by a split, and the neighbours need not be looked at most of the time.
/// Since any two have more than that together, the height is at most log(entries) to the base of
/// (SPARSE + 1) / 2.
const SPARSE: usize = 5;
/// More than the height of a tree of 2^32 entries.
const MAX_HEIGHT: usize = 22;

/// The way from the root down: nodes, and the item taken in each.
struct Path {
    steps: [(Id, u32); MAX_HEIGHT],
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
        self.steps[self.len] = (node, at as u32);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(Id, usize)> {
        self.len = self.len.checked_sub(1)?;
        let (node, at) = self.steps[self.len];
        Some((node, at as usize))
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

    /// As [`Agenda::first_ready`], and the key.
    pub(super) fn first_ready_entry(&self, now: u128) -> Option<(Key, Id)> {
        let mut node = self.nodes.get(self.root)?;
        let mut at = node.first_ready_at(now)?;
        for _ in 0..self.height {
            node = &self.nodes[node.id(at)];
            let below = node.first_ready_at(now);
            at = below.expect("an entry as early as its subtree says");
        }
        Some((node.key(at), node.id(at)))
    }

    /// When the first entry becomes ready.
    pub(super) fn earliest(&self) -> Option<u128> {
        let root = self.nodes.get(self.root).filter(|root| root.len > 0);
        root.map(Node::earliest)
    }

    /// Adds an entry.
    pub(super) fn post(&mut self, item: Item) {
        if self.nodes.is_empty() {
            self.root = self.nodes.insert(Node::new());
        }
        let mut path = Path::new();
        let mut id = self.root;
        for _ in 0..self.height {
            let node = &mut self.nodes[id];
            let at = node.rank(&item.key).saturating_sub(1);
            node.ready[at] = node.ready[at].min(item.ready);
            if item.key < node.key(at) {
                let bound = Item {
                    key: item.key,
                    ..node.item(at)
                };
                node.set(at, bound);
            }
            path.push(id, at);
            id = node.id(at);
        }
        let leaf = &mut self.nodes[id];
        if let Some(upper) = leaf.insert(leaf.rank(&item.key), item) {
            self.hang_up(upper, path);
        }
    }

    /// Puts the upper half of a split node beside the lower, splitting upwards as needed.
    #[cold]
    fn hang_up(&mut self, upper: Node, mut path: Path) {
        let mut split = Some(upper);
        while let Some(upper) = split {
            let upper = self.nodes.insert(upper);
            let upper = self.over(upper);
            let Some((parent, at)) = path.pop() else {
                return self.grow(upper);
            };
            self.refresh(parent, at);
            split = self.nodes[parent].insert(at + 1, upper);
        }
    }

    /// Puts a root over the present one and its upper half.
    fn grow(&mut self, upper: Item) {
        let mut root = Node::new();
        root.insert(0, self.over(self.root));
        root.insert(1, upper);
        self.root = self.nodes.insert(root);
        self.height += 1;
    }

    /// The item that stands for the node `id`, which is not empty.
    fn over(&self, id: Id) -> Item {
        let node = &self.nodes[id];
        Item {
            key: node.key(0),
            ready: node.earliest(),
            id,
        }
    }

    /// Brings the earliest start of a subtree up to date.
    fn refresh(&mut self, parent: Id, at: usize) {
        let below = self.nodes[parent].id(at);
        self.nodes[parent].ready[at] = self.nodes[below].earliest();
    }

    /// Takes out the entry with that key, which must be there.
    pub(super) fn withdraw(&mut self, key: &Key) {
        let mut path = Path::new();
        let mut id = self.root;
        for _ in 0..self.height {
            let node = &self.nodes[id];
            let at = node.find(key);
            path.push(id, at);
            id = node.id(at);
        }
        let leaf = &mut self.nodes[id];
        let at = leaf.find(key);
        debug_assert!(leaf.key(at) == *key, "an entry that was posted");
        let Item { ready, .. } = leaf.remove(at);
        let mut len = leaf.len;
        for above in 0.. {
            let Some((parent, at)) = path.pop() else {
                break;
            };
            // A subtree that had something earlier still has it.
            if self.nodes[parent].ready[at] == ready {
                self.refresh(parent, at);
            }
            if len < SPARSE {
                self.merge_around(parent, at, above);
            }
            len = self.nodes[parent].len;
        }
        self.lower_root();
    }

    /// Merges the subtree with a neighbour while the two are sparse; drops it if it is empty.
    /// `above` counts the levels between the subtree and the leaves.
    fn merge_around(&mut self, parent: Id, mut at: usize, above: usize) {
        loop {
            let node = &self.nodes[parent];
            let size = |at: usize| self.nodes[node.id(at)].len;
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
    #[cold]
    fn merge(&mut self, parent: Id, at: usize, above: usize) {
        let upper = self.nodes[parent].remove(at + 1);
        let upper = self.nodes.remove(upper.id);
        let below = self.nodes[parent].id(at);
        let lower = &mut self.nodes[below];
        let seam = lower.len;
        lower.append(&upper);
        self.refresh(parent, at);
        if above > 0 {
            // Two that were not neighbours before now are.
            self.merge_around(below, seam, above - 1);
        }
    }

    fn lower_root(&mut self) {
        while self.height > 0 && self.nodes[self.root].len == 1 {
            let old = self.nodes.remove(self.root);
            self.root = old.id(0);
            self.height -= 1;
        }
    }

    /// Whether one leaf holds everything.
    pub(super) fn is_one_leaf(&self) -> bool {
        self.height == 0
    }

    /// `withdraw(old)` and `post(item)`, in one move where one leaf holds everything.
    pub(super) fn repost(&mut self, old: &Key, item: Item) {
        if self.height == 0 {
            let leaf = &mut self.nodes[self.root];
            leaf.shift(leaf.find(old), leaf.rank(&item.key), item);
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
        Item::of(seq as usize, ticks, seq, ready)
    }

    fn expected(model: &[Item], now: u128) -> Option<Id> {
        let ready = model.iter().filter(|item| item.ready <= now);
        ready.min_by_key(|item| item.key).map(|item| item.id)
    }

    /// Every item above the leaves tells the truth, and no neighbours are sparse.
    fn check(agenda: &Agenda, id: Id, above: usize) {
        let node = &agenda.nodes[id];
        let keys: Vec<_> = (0..node.len).map(|at| node.key(at)).collect();
        assert!(keys.is_sorted());
        assert!(
            node.ready[node.len..]
                .iter()
                .all(|&ready| ready == u128::MAX)
        );
        for at in 0..node.len.min(node.len * above) {
            let below = &agenda.nodes[node.id(at)];
            assert_eq!(below.earliest(), node.ready[at]);
            assert!(below.key(0) >= keys[at]);
            if let Some(next) = keys.get(at + 1) {
                assert!(below.key(below.len - 1) < *next);
                assert!(below.len + agenda.nodes[node.id(at + 1)].len > SPARSE);
            }
            check(agenda, node.id(at), above - 1);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

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
                if n % 8 == 0 {
                    check_if_any(&agenda);
                }
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
            check(agenda, agenda.root, agenda.height);
        }
    }
}
