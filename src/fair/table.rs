//! A hash table of slot numbers.
//!
//! The key of an entry stays where it is used, in its lane, and the table holds the lane's number
//! and 32 bits of the key's hash: eight bytes an entry, and no second copy of the key.
//!
//! Growing and shrinking are spread over the operations that follow, a few slots at each, so that
//! no push and no pop stands still while a million entries move. The slots come in pages, made when
//! first written and freed when moved away from: sixteen megabytes in one piece take a millisecond
//! and more to clear, and as long to free. Since the hash is kept, moving an entry never calls the
//! user's `Hash`.
//!
//! Rejected: the standard `HashMap<K, u32>`. It keeps its own copy of each key, moves everything in
//! one step of tens of milliseconds at a million entries, and calls `Hash` and `Drop` of the user
//! in the midst of it.

use super::arena::Id;
use std::mem;

/// Slots looked at after each insertion and removal while a move is under way. A new table of twice
/// or a quarter of the size cannot reach its own limit before `1/16` of the old one's slots in
/// operations have passed, so 32 are nearly twice as many as needed.
const SLOTS_MOVED: usize = 32;

const MIN_SLOTS: usize = 8;
/// Slots in a page: 4 KiB.
const PAGE: usize = 512;
/// A table of up to this many slots keeps them. A larger one shrinks long before it is empty.
const KEPT_SLOTS: usize = 64;

/// Entries by hash. The caller tells entries with equal hashes apart.
pub(super) struct Table {
    now: Slots,
    /// What is left of the table before the last change of size.
    old: Slots,
    /// All slots of `old` before this one are free.
    moved: usize,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            now: Slots::new(0),
            old: Slots::new(0),
            moved: 0,
        }
    }

    /// The entry with that hash which `is_it` accepts.
    pub(super) fn find(&self, hash: u32, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let found = self.now.find(hash, &mut is_it);
        found.or_else(|| self.old.find(hash, &mut is_it))
    }

    /// Adds an entry, which must not be in the table yet.
    pub(super) fn insert(&mut self, hash: u32, id: Id) {
        if (self.len() + 1) * 4 > self.now.count * 3 {
            self.resize((self.now.count * 2).max(MIN_SLOTS));
        }
        self.now.insert(pack(hash, id));
        self.move_some();
    }

    /// Drops an entry, which must be in the table.
    pub(super) fn remove(&mut self, hash: u32, id: Id) {
        let entry = pack(hash, id);
        let removed = self.now.remove(entry) || self.old.remove(entry);
        debug_assert!(removed, "an entry that was inserted");
        self.move_some();
        if self.now.count > KEPT_SLOTS && self.len() * 8 < self.now.count {
            self.resize(self.now.count / 4);
        }
    }

    fn len(&self) -> usize {
        self.now.len + self.old.len
    }

    fn resize(&mut self, slots: usize) {
        while self.old.len > 0 {
            self.move_some();
        }
        self.old = mem::replace(&mut self.now, Slots::new(slots));
        self.moved = 0;
    }

    fn move_some(&mut self) {
        if self.old.count == 0 {
            return;
        }
        for _ in 0..SLOTS_MOVED {
            if self.old.len == 0 {
                self.old = Slots::new(0);
                return;
            }
            match self.old.get(self.moved) {
                FREE => {
                    self.moved += 1;
                    self.old.free_page_before(self.moved);
                }
                entry => {
                    // Closing the gap may bring a follower here, so the slot is looked at again.
                    self.old.remove_at(self.moved);
                    self.now.insert(entry);
                }
            }
        }
    }
}

const FREE: u64 = 0;

/// The hash above, the number below; an `Id` is never 0, so no entry is [`FREE`].
fn pack(hash: u32, id: Id) -> u64 {
    u64::from(hash) << 32 | u64::from(id.raw())
}

/// Open addressing with linear probing, the home slot being the hash's upper bits. Removal moves
/// the followers up instead of leaving a tombstone.
struct Slots {
    /// A page without slots stands for one of free slots.
    pages: Vec<Box<[u64]>>,
    /// 0 or a power of two.
    count: usize,
    len: usize,
}

impl Slots {
    fn new(count: usize) -> Slots {
        Slots {
            pages: (0..count.div_ceil(PAGE)).map(|_| Box::default()).collect(),
            count,
            len: 0,
        }
    }

    fn get(&self, at: usize) -> u64 {
        let page = &self.pages[at / PAGE];
        page.get(at % PAGE).copied().unwrap_or(FREE)
    }

    fn set(&mut self, at: usize, entry: u64) {
        let page = &mut self.pages[at / PAGE];
        if page.is_empty() {
            *page = vec![FREE; self.count.min(PAGE)].into();
        }
        page[at % PAGE] = entry;
    }

    /// Called for each slot in turn, once it and all before it are free for good.
    fn free_page_before(&mut self, at: usize) {
        if at % PAGE == 0 {
            self.pages[at / PAGE - 1] = Box::default();
        }
    }

    fn home(&self, entry: u64) -> usize {
        ((u128::from(entry >> 32) * self.count as u128) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.count - 1)
    }

    fn find(&self, hash: u32, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.home(u64::from(hash) << 32);
        loop {
            let entry = self.get(at);
            // The low half of a free slot alone is no number.
            let id = Id::from_raw(entry as u32)?;
            if entry >> 32 == u64::from(hash) && is_it(id) {
                return Some(id);
            }
            at = self.after(at);
        }
    }

    fn insert(&mut self, entry: u64) {
        let mut at = self.home(entry);
        while self.get(at) != FREE {
            at = self.after(at);
        }
        self.set(at, entry);
        self.len += 1;
    }

    fn remove(&mut self, entry: u64) -> bool {
        if self.len == 0 {
            return false;
        }
        let mut at = self.home(entry);
        while self.get(at) != entry {
            if self.get(at) == FREE {
                return false;
            }
            at = self.after(at);
        }
        self.remove_at(at);
        true
    }

    fn remove_at(&mut self, mut gap: usize) {
        let mask = self.count - 1;
        let mut at = self.after(gap);
        while self.get(at) != FREE {
            let entry = self.get(at);
            // An entry may fill the gap unless its home lies behind it.
            let from_home = at.wrapping_sub(self.home(entry)) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.set(gap, entry);
                gap = at;
            }
            at = self.after(at);
        }
        self.set(gap, FREE);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Few hashes, so that runs of slots wrap and merge; many entries, so that moves overlap.
        #[test]
        fn behaves_like_a_map(
            spread in prop::sample::select(vec![1_u32, 7, 1 << 20, 1 << 31]),
            ops in prop::collection::vec((0..3_u8, any::<u32>()), 0..1500),
        ) {
            let (mut table, mut model) = (Table::new(), BTreeMap::new());
            for (n, &(op, x)) in ops.iter().enumerate() {
                let id = Id::new(n);
                // The first half mostly grows, the second mostly shrinks.
                if (op > 0) == (n < ops.len() / 2) || model.is_empty() {
                    let hash = x.wrapping_mul(spread);
                    table.insert(hash, id);
                    model.insert(n, hash);
                } else {
                    let (&n, &hash) = model.range(x as usize % ops.len()..).next()
                        .unwrap_or_else(|| model.first_key_value().unwrap());
                    table.remove(hash, Id::new(n));
                    model.remove(&n);
                    prop_assert_eq!(table.find(hash, |id| id.index() == n), None);
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for (&n, &hash) in &model {
                prop_assert_eq!(table.find(hash, |id| id.index() == n), Some(Id::new(n)));
            }
        }
    }

    fn hash(n: usize) -> u32 {
        (n as u32).wrapping_mul(0x9E37_79B1)
    }

    #[test]
    fn is_never_more_than_three_quarters_full() {
        let mut table = Table::new();
        for n in 0..1000 {
            table.insert(hash(n), Id::new(n));
            let least = ((n + 1) * 4).div_ceil(3).next_power_of_two();
            assert_eq!(table.now.count, least.max(MIN_SLOTS));
        }
    }

    #[test]
    fn shrinks_to_a_quarter_when_seven_eighths_are_free() {
        let mut table = Table::new();
        (0..1000).for_each(|n| table.insert(hash(n), Id::new(n)));
        let mut expected = table.now.count;
        for n in (0..1000).rev() {
            table.remove(hash(n), Id::new(n));
            if expected > KEPT_SLOTS && n * 8 < expected {
                expected /= 4;
            }
            assert_eq!(table.now.count, expected);
        }
        assert!(expected <= KEPT_SLOTS);
    }

    #[test]
    fn a_small_table_keeps_its_slots() {
        let mut table = Table::new();
        (0..48).for_each(|n| table.insert(hash(n), Id::new(n)));
        (0..48).for_each(|n| table.remove(hash(n), Id::new(n)));
        assert_eq!((table.now.count, table.len()), (KEPT_SLOTS, 0));
    }

    #[test]
    fn what_has_moved_is_freed_at_once() {
        let mut table = Table::new();
        let mut seen = 0;
        for n in 0..100_000 {
            table.insert(hash(n), Id::new(n));
            let freed = table.old.pages.iter().take(table.moved / PAGE);
            if table.old.len > 0 {
                seen += freed.clone().count();
                assert!(freed.into_iter().all(|page| page.is_empty()));
            }
        }
        assert!(seen > 0, "moves take several operations");
    }

    #[test]
    fn homes_are_spread_by_the_upper_bits() {
        let slots = Slots::new(64);
        let homes: Vec<_> = (0..64).map(|n| slots.home(n << (32 + 26))).collect();
        assert!(homes.into_iter().eq(0..64));
    }

    #[test]
    fn gives_its_slots_back() {
        let mut table = Table::new();
        (0..100_000).for_each(|n| table.insert(hash(n), Id::new(n)));
        assert!(table.now.count >= 100_000);
        (1..100_000).for_each(|n| table.remove(hash(n), Id::new(n)));
        assert!(table.now.count + table.old.count <= 2 * KEPT_SLOTS);
        assert_eq!(table.find(hash(0), |_| true), Some(Id::new(0)));
    }
}
