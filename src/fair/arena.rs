//! Slots of one type, in pages that are given back when they empty.
//!
//! Rejected: one `Vec` of slots. It cannot shrink past its last occupied slot, so one job left of
//! ten million keeps the memory of all ten million, and every growth moves the whole of it.

use super::prefetch::prefetch;
use std::fmt;
use std::mem;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// A page is at most this large, unless a single slot is larger.
const PAGE_BYTES: usize = 8192;

/// The most slots one arena hands out: whole pages, so that no index reaches `u32::MAX`.
const MAX_SLOTS: u32 = u32::MAX - 63;

/// The page table is never shrunk below this many entries.
const MIN_TABLE: usize = 64;

/// Names a slot. Kept plus one, so that `Option<Id>` is four bytes and a record that holds an `Id`
/// costs nothing more when it is made optional.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id(NonZeroU32);

impl Id {
    /// Stands in until the real one is known.
    pub(crate) const FIRST: Id = Id(NonZeroU32::MIN);

    pub(crate) fn new(index: usize) -> Id {
        let plus_one = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Id(plus_one.expect("an index below 2^32 - 1"))
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The number that [`Id::from_raw`] turns back; never 0.
    pub(crate) fn raw(self) -> u32 {
        self.0.get()
    }

    pub(crate) fn from_raw(raw: u32) -> Option<Id> {
        NonZeroU32::new(raw).map(Id)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index().fmt(f)
    }
}

/// Up to 64 slots. A page without memory is *blank*: only its entry in the table is left.
struct Page<T> {
    /// Grows slot by slot up to a capacity reserved once, so a page is never moved.
    slots: Vec<Option<T>>,
    /// One bit for each occupied slot.
    used: u64,
    /// Neighbours among the pages with room.
    prev: Option<Id>,
    next: Option<Id>,
}

/// All slots, and where the next value goes. Insert, remove and look-up are O(1) but for the page
/// table, which holds one entry for every 64 slots and doubles or halves as any `Vec` does.
pub(crate) struct Arena<T> {
    pages: Vec<Page<T>>,
    /// First of the pages with memory and a free slot.
    open: Option<Id>,
    /// The blank pages, and such as were cut off the table since: those are passed over when their
    /// turn comes. None is here twice, as the table grows again only once this list is empty.
    blank: Vec<Id>,
    /// Memory of the page that emptied last: without it a queue that swings between no job and one
    /// would allocate at each swing.
    spare: Vec<Option<T>>,
    len: u32,
    limit: u32,
}

impl<T> Arena<T> {
    const SHIFT: u32 = page_shift(size_of::<Option<T>>());
    const SLOTS: usize = 1 << Self::SHIFT;
    const FULL: u64 = u64::MAX >> (64 - Self::SLOTS);

    pub(crate) fn new() -> Arena<T> {
        Arena::with_limit(MAX_SLOTS)
    }

    pub(super) fn with_limit(limit: u32) -> Arena<T> {
        Arena {
            pages: Vec::new(),
            open: None,
            blank: Vec::new(),
            spare: Vec::new(),
            len: 0,
            limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether [`insert`](Arena::insert) will succeed.
    pub(crate) fn has_room(&self) -> bool {
        self.len < self.limit
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        let page = self.pages.get(id.index() >> Self::SHIFT)?;
        page.slots.get(id.index() & (Self::SLOTS - 1))?.as_ref()
    }

    /// Starts to fetch a value that will be needed soon, if it is still there.
    #[inline]
    pub(crate) fn prefetch(&self, id: Id) {
        let page = self.pages.get(id.index() >> Self::SHIFT);
        if let Some(slot) = page.and_then(|page| page.slots.get(id.index() & (Self::SLOTS - 1))) {
            prefetch(slot);
        }
    }

    fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let page = self.pages.get_mut(id.index() >> Self::SHIFT)?;
        page.slots.get_mut(id.index() & (Self::SLOTS - 1))?.as_mut()
    }

    /// The first occupied slot at or after `index`.
    pub(crate) fn first_from(&self, index: usize) -> Option<Id> {
        let (first, mut mask) = (
            index >> Self::SHIFT,
            u64::MAX << (index & (Self::SLOTS - 1)),
        );
        for (number, page) in self.pages.iter().enumerate().skip(first) {
            let used = page.used & mask;
            if used != 0 {
                return Some(Id::new(
                    number << Self::SHIFT | used.trailing_zeros() as usize,
                ));
            }
            mask = u64::MAX;
        }
        None
    }

    /// Puts `value` into a free slot.
    pub(crate) fn insert(&mut self, value: T) -> Id {
        assert!(self.has_room(), "an arena of a FairQueue is full");
        let number = self.page_with_room();
        let page = &mut self.pages[number.index()];
        let slot = page.used.trailing_ones() as usize;
        match page.slots.get_mut(slot) {
            Some(free) => *free = Some(value),
            None => page.slots.push(Some(value)),
        }
        page.used |= 1 << slot;
        if page.used == Self::FULL {
            self.unlink_open(number);
        }
        self.len += 1;
        Id::new(number.index() << Self::SHIFT | slot)
    }

    /// Takes the value out; the page goes back to the allocator with its last one.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) -> T {
        let number = Id::new(id.index() >> Self::SHIFT);
        let slot = id.index() & (Self::SLOTS - 1);
        let page = &mut self.pages[number.index()];
        let value = page.slots[slot].take().expect("an occupied slot");
        let was_full = page.used == Self::FULL;
        page.used &= !(1 << slot);
        self.len -= 1;
        if was_full {
            self.link_open(number);
        }
        if self.pages[number.index()].used == 0 {
            self.give_back(number);
        }
        value
    }

    fn page_with_room(&mut self) -> Id {
        if let Some(open) = self.open {
            return open;
        }
        let number = self.blank_page();
        let mut slots = mem::take(&mut self.spare);
        slots.reserve_exact(Self::SLOTS);
        self.pages[number.index()].slots = slots;
        self.link_open(number);
        number
    }

    /// A blank page: an old one, or a new entry at the end of the table.
    fn blank_page(&mut self) -> Id {
        while let Some(number) = self.blank.pop() {
            if number.index() < self.pages.len() {
                return number;
            }
        }
        self.pages.push(Page {
            slots: Vec::new(),
            used: 0,
            prev: None,
            next: None,
        });
        Id::new(self.pages.len() - 1)
    }

    /// Makes an empty page blank.
    #[cold]
    fn give_back(&mut self, number: Id) {
        self.unlink_open(number);
        let mut slots = mem::take(&mut self.pages[number.index()].slots);
        slots.clear();
        if self.spare.capacity() == 0 {
            self.spare = slots;
        }
        self.blank.push(number);
        self.trim();
    }

    /// Cuts blank pages off the end of the table. This is the one thing that is not O(1), and next
    /// to it: a nanosecond for each 64 slots that were ever in use at once.
    fn trim(&mut self) {
        let kept = self.pages.iter().rposition(|page| page.used != 0);
        self.pages.truncate(kept.map_or(0, |last| last + 1));
        let most = self.pages.len();
        if self.blank.len() > most {
            self.blank.retain(|number| number.index() < most);
        }
        if self.pages.capacity() > MIN_TABLE && most <= self.pages.capacity() / 4 {
            self.pages.shrink_to((most * 2).max(MIN_TABLE));
            self.blank.shrink_to((most * 2).max(MIN_TABLE));
        }
    }

    fn link_open(&mut self, number: Id) {
        let head = self.open.replace(number);
        let page = &mut self.pages[number.index()];
        (page.prev, page.next) = (None, head);
        if let Some(head) = head {
            self.pages[head.index()].prev = Some(number);
        }
    }

    fn unlink_open(&mut self, number: Id) {
        let page = &mut self.pages[number.index()];
        let (prev, next) = (page.prev.take(), page.next.take());
        if let Some(next) = next {
            self.pages[next.index()].prev = prev;
        }
        match prev {
            Some(prev) => self.pages[prev.index()].next = next,
            None => self.open = next,
        }
    }
}

/// log2 of the slots a page has: 64, or fewer where the slots are large.
const fn page_shift(slot_bytes: usize) -> u32 {
    let mut shift = 6;
    while shift > 0 && slot_bytes > PAGE_BYTES >> shift {
        shift -= 1;
    }
    shift
}

impl<T> Index<Id> for Arena<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        self.get(id).expect("an occupied slot")
    }
}

impl<T> IndexMut<Id> for Arena<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        self.get_mut(id).expect("an occupied slot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Against a map; `S` sets the size of a slot, hence of a page.
    fn same_as_a_map<const S: usize>(ops: &[(bool, usize)]) {
        let (mut arena, mut model) = (Arena::new(), HashMap::new());
        let mut ids = Vec::new();
        for (n, &(insert, pick)) in ops.iter().enumerate() {
            if insert || ids.is_empty() {
                let id = arena.insert([n; S]);
                assert!(model.insert(id, n).is_none(), "{id:?} handed out twice");
                ids.push(id);
            } else {
                let id = ids.swap_remove(pick % ids.len());
                assert_eq!(arena.remove(id)[0], model.remove(&id).unwrap());
                assert!(arena.get(id).is_none());
            }
            assert_eq!(arena.len(), model.len());
        }
        assert!(model.iter().all(|(&id, &n)| arena[id][0] == n));
        let mut next = arena.first_from(0);
        for _ in 0..model.len() {
            next = arena.first_from(next.expect("one more").index() + 1);
        }
        assert_eq!(next, None);
        check(&arena);
        for id in ids {
            arena.remove(id);
        }
        assert!(arena.pages.is_empty() && arena.open.is_none() && arena.is_empty());
    }

    /// Each blank page is listed once, to be used again, and the list is no longer than the table.
    fn check<T>(arena: &Arena<T>) {
        let is_blank = |number: &usize| arena.pages[*number].used == 0;
        let blank: Vec<_> = (0..arena.pages.len()).filter(is_blank).collect();
        let listed = arena.blank.iter().map(|number| number.index());
        let mut listed: Vec<_> = listed.filter(|n| *n < arena.pages.len()).collect();
        listed.sort_unstable();
        assert_eq!(listed, blank);
        assert!(arena.blank.len() <= arena.pages.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((prop::bool::weighted(0.6), any::<usize>()), 0..400)) {
            same_as_a_map::<1>(&ops);
            same_as_a_map::<100>(&ops);
            same_as_a_map::<2000>(&ops);
        }
    }

    #[test]
    fn pages_go_back_and_the_table_shrinks() {
        let mut arena = Arena::new();
        let ids: Vec<_> = (0..100_000).map(|n| arena.insert(n)).collect();
        assert!(arena.pages.len() >= 100_000 / 64);
        let mut capacity = arena.pages.capacity();
        for &id in ids[1..].iter().rev() {
            arena.remove(id);
            let now = arena.pages.capacity();
            if now != capacity {
                // Seldom, and with room to grow again.
                assert!(now <= capacity / 2 && now >= 2 * arena.pages.len());
                capacity = now;
            }
        }
        assert_eq!((arena.pages.len(), arena[ids[0]]), (1, 0));
        assert!(arena.pages.capacity() <= MIN_TABLE && arena.blank.capacity() <= MIN_TABLE);
    }

    /// Pages that empty in any order: the list of blank ones follows the table.
    #[test]
    fn blank_pages_are_used_again() {
        let mut arena = Arena::new();
        let mut ids: Vec<_> = (0..10_000).map(|n| arena.insert(n)).collect();
        let pages = arena.pages.len();
        assert_eq!(pages, 10_000_usize.div_ceil(64));
        for round in 0..4 {
            let (gone, kept): (Vec<_>, Vec<_>) = ids.iter().partition(|id| {
                let page = id.index() / 64;
                page % 4 == round || page > 100
            });
            for id in gone {
                arena.remove(id);
            }
            check(&arena);
            ids = kept;
            while arena.len() < 10_000 {
                ids.push(arena.insert(0));
            }
            check(&arena);
            assert_eq!(arena.pages.len(), pages, "nothing is left unused");
        }
    }

    /// From the first page to the last: the table is cut off only at the end, and the list with it.
    #[test]
    fn the_list_of_blank_pages_goes_with_the_table() {
        let mut arena = Arena::new();
        let ids: Vec<_> = (0..2_000).map(|n| arena.insert(n)).collect();
        for id in ids {
            arena.remove(id);
            check(&arena);
        }
        assert!(arena.pages.is_empty() && arena.blank.is_empty());
    }

    #[test]
    fn the_memory_of_the_last_page_waits_for_the_next() {
        let mut arena = Arena::new();
        let id = arena.insert(0_u64);
        let slots = arena.pages[0].slots.as_ptr();
        arena.remove(id);
        assert_eq!(arena.spare.as_ptr(), slots);
        arena.insert(1);
        assert_eq!(arena.pages[0].slots.as_ptr(), slots);
        assert_eq!(arena.spare.capacity(), 0);
    }

    #[test]
    fn a_page_is_as_large_as_it_may_be() {
        let slots = |slot_bytes| 1 << page_shift(slot_bytes);
        assert_eq!([1, 8, 128].map(slots), [64, 64, 64]);
        assert_eq!([129, 256, 257].map(slots), [32, 32, 16]);
        assert_eq!([4096, 4097, 8192, 100_000].map(slots), [2, 1, 1, 1]);
    }

    #[test]
    fn every_slot_has_a_number() {
        assert_eq!(u32::MAX - MAX_SLOTS, 63);
        assert_eq!(MAX_SLOTS % 64, 0, "whole pages");
        let last = Id::new(MAX_SLOTS as usize - 1);
        assert_eq!(Id::from_raw(last.raw()), Some(last));
        assert_eq!(format!("{last:?}"), (MAX_SLOTS - 1).to_string());
    }

    #[test]
    #[should_panic(expected = "is full")]
    fn a_full_arena_says_so() {
        let mut arena = Arena::with_limit(3);
        for n in 0..4 {
            arena.insert(n);
        }
    }
}
