//! The agenda where entries move twice for each job: when it begins, and when it is known what it has cost.
//!
//! The second move often comes soon after the first, and with it the entry's key is another one. So those
//! that moved last are kept in hand, in no order, and not filed before others have moved: a job of any of
//! them that ends meanwhile costs no search. Whoever asks for the first looks at them all. Few lanes are in
//! one leaf, where a move is quick, and none is kept in hand.
//!
//! With a thousand lanes and one thread a job takes 3,100 instructions of a queue that way, and 4,310 if
//! each entry is moved in the agenda both times.

use super::agenda::Agenda;
use super::arena::Id;
use super::node::Item;
use super::tag::Key;

/// About as many as threads that run short jobs at a time. With eight, processors guess wrong more often
/// what they will find there.
const HANDFUL: usize = 4;

pub(super) struct Desk {
    hand: [Item; HANDFUL],
    /// The first so many are taken.
    held: usize,
    /// Which one is to be filed next, when there is no room.
    next: usize,
    filed: Agenda,
}

impl Desk {
    pub(super) fn new() -> Desk {
        Desk {
            hand: [Item::NONE; HANDFUL],
            held: 0,
            next: 0,
            filed: Agenda::new(),
        }
    }

    fn in_hand(&self) -> &[Item] {
        &self.hand[..self.held]
    }

    /// Where in the hand the entry of that lane is.
    fn find(&self, lane: Id) -> Option<usize> {
        self.in_hand().iter().position(|item| item.id == lane)
    }

    /// The lane of the least key among those ready at `now`.
    pub(super) fn first_ready(&self, now: u128) -> Option<Id> {
        let ready = self.in_hand().iter().filter(|item| item.ready <= now);
        let in_hand = ready.min_by_key(|item| item.key);
        let filed = self.filed.first_ready_entry(now);
        match (in_hand, filed) {
            (Some(one), Some((key, _))) if one.key < key => Some(one.id),
            (_, Some((_, lane))) => Some(lane),
            (one, None) => one.map(|item| item.id),
        }
    }

    /// When the first entry becomes ready.
    pub(super) fn earliest(&self) -> Option<u128> {
        let in_hand = self.in_hand().iter().map(|item| item.ready);
        in_hand.chain(self.filed.earliest()).min()
    }

    /// Adds an entry.
    pub(super) fn post(&mut self, item: Item) {
        if self.filed.is_one_leaf() {
            return self.filed.post(item);
        }
        if self.held < HANDFUL {
            self.hand[self.held] = item;
            self.held += 1;
            return;
        }
        let filed = std::mem::replace(&mut self.hand[self.next], item);
        self.next = (self.next + 1) % HANDFUL;
        self.filed.post(filed);
    }

    /// Takes out the entry of a lane, which must be there, with that key.
    pub(super) fn withdraw(&mut self, key: &Key, lane: Id) {
        match self.find(lane) {
            Some(at) => {
                self.held -= 1;
                self.hand[at] = self.hand[self.held];
            }
            None => self.filed.withdraw(key),
        }
    }

    /// `withdraw(old)` and `post(item)` of the same lane.
    pub(super) fn repost(&mut self, old: &Key, item: Item) {
        match self.find(item.id) {
            Some(at) => self.hand[at] = item,
            None if self.filed.is_one_leaf() => self.filed.repost(old, item),
            None => {
                self.filed.withdraw(old);
                self.post(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn finds_what_a_search_of_all_entries_finds(
            ops in prop::collection::vec((0..4_u8, 0..60_u128, 0..60_u128), 1..600),
            lanes in prop::sample::select(vec![3, HANDFUL, 24, 100]),
        ) {
            let (mut desk, mut model) = (Desk::new(), Vec::<Item>::new());
            for (n, &(op, ticks, ready)) in ops.iter().enumerate() {
                let lane = (ticks as usize * 31 + n) % lanes;
                let new = Item::of(lane, ticks, n as u64, ready);
                match (model.iter().position(|item| item.id == new.id), op) {
                    (None, _) => {
                        desk.post(new);
                        model.push(new);
                    }
                    (Some(at), 0) => {
                        let old = model.swap_remove(at);
                        desk.withdraw(&old.key, old.id);
                    }
                    (Some(at), _) => {
                        desk.repost(&model[at].key, new);
                        model[at] = new;
                    }
                }
                let all_ready = model.iter().filter(|item| item.ready <= ready);
                let first = all_ready.min_by_key(|item| item.key).map(|item| item.id);
                prop_assert_eq!(desk.first_ready(ready), first);
                prop_assert_eq!(desk.earliest(), model.iter().map(|item| item.ready).min());
            }
            for item in model {
                desk.withdraw(&item.key, item.id);
            }
            prop_assert_eq!((desk.held, desk.earliest()), (0, None));
        }
    }
}
