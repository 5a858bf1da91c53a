//! Which slots have nothing to do, for pools with many of them.
//!
//! [`pick_slot`](crate::pick_slot) reads the counts of one slot after the other until it meets one
//! with nothing pending: ten instructions a slot, ten thousand in a pool of 1,024 with its last slot
//! idle. Here each slot has a bit that its thread sets when it is out of work, and that whoever looks
//! takes away if there is something pending after all. A bit is no more than a hint where to look: the
//! count decides, and with no bit set whose count is 0, `pick_slot` does. So the answer is the same,
//! but for a thread that has just ended its last job and not said so yet.

use crate::sync::{AtomicUsize, CachePadded, Ordering};

/// With fewer slots than this, reading their counts is as fast.
const MANY: usize = 32;

/// One bit a slot.
pub(crate) struct Vacancy(Box<[CachePadded<AtomicUsize>]>);

impl Vacancy {
    /// `None` for a pool with few slots.
    pub(crate) fn of_many(slots: usize) -> Option<Vacancy> {
        let words = slots.div_ceil(usize::BITS as usize);
        let new = || Vacancy((0..words).map(|_| CachePadded::default()).collect());
        (slots > MANY).then(new)
    }

    /// The thread of `slot` is out of work.
    pub(crate) fn set(&self, slot: usize) {
        let (word, bit) = position(slot);
        self.0[word].fetch_or(bit, Ordering::SeqCst);
    }

    /// Takes the bit of a slot away that was not idle, unless it is by now.
    fn unset_unless(&self, slot: usize, is_idle: impl Fn(usize) -> bool) -> bool {
        let (word, bit) = position(slot);
        self.0[word].fetch_and(!bit, Ordering::SeqCst);
        // Its thread may have set it just before that, and will not again for a long time.
        let is_idle = is_idle(slot);
        if is_idle {
            self.set(slot);
        }
        is_idle
    }

    /// The first slot with its bit set for which `is_idle` says yes. O(slots / 64 + bits looked at);
    /// a bit that was wrong is looked at once.
    pub(crate) fn find(&self, is_idle: impl Fn(usize) -> bool) -> Option<usize> {
        let words = self.0.iter().enumerate();
        words.into_iter().find_map(|(number, word)| {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let slot = number * usize::BITS as usize + bits.trailing_zeros() as usize;
                if is_idle(slot) || self.unset_unless(slot, &is_idle) {
                    return Some(slot);
                }
                bits &= bits - 1;
            }
            None
        })
    }
}

fn position(slot: usize) -> (usize, usize) {
    let bits = usize::BITS as usize;
    (slot / bits, 1 << (slot % bits))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::strategy::{SchedulerSlot, Strategy, pick_slot};
    use proptest::prelude::*;

    #[test]
    fn few_slots_have_none() {
        assert!(Vacancy::of_many(MANY).is_none());
        assert!(Vacancy::of_many(MANY + 1).is_some());
    }

    proptest! {
        /// Whatever the bits say of slots with something pending: with the bits of all that have
        /// nothing pending set, it finds what `pick_slot` finds.
        #[test]
        fn finds_what_pick_slot_finds(
            pending in prop::collection::vec(prop_oneof![3 => 1..4usize, 1 => Just(0)], 33..300),
            stray in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let vacancy = Vacancy::of_many(pending.len()).unwrap();
            let slots: Vec<_> = pending.iter().map(|n| SchedulerSlot::new("", *n)).collect();
            (0..pending.len()).filter(|i| pending[*i] == 0).for_each(|i| vacancy.set(i));
            stray.iter().for_each(|i| vacancy.set(i.index(pending.len())));
            let found = vacancy.find(|i| pending[i] == 0);
            let wanted = pick_slot(Strategy::LeastBusy, &slots, 0).unwrap();
            prop_assert_eq!(found, (wanted.slot.pending_count == 0).then_some(wanted.index));
            if found.is_none() {
                prop_assert_eq!(vacancy.find(|_| true), None, "stray bits are taken away");
            }
        }
    }
}
