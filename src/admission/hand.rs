//! What a slot's thread has taken from the lanes in advance.
//!
//! A visit to the gate costs a lock and the cache lines behind it, which travel between the cores:
//! several times the rest of a tiny job. So while jobs have been tiny for some time, a thread takes a
//! *round* of them in one visit and runs it without another. What it has not begun yet lies in its
//! slot's hand, where others find it: it is swept, counted as queued, and taken over when it has to
//! wait for a job that is not tiny after all.
//!
//! A round cannot be overtaken by what comes after it. That is the price, some ten microseconds at
//! most; nothing is taken in advance that would make it more than that: jobs that can be withdrawn
//! one by one, jobs of tenants with limits, jobs that count towards a queue limit, or any job while
//! there is a token to run it at once.

use std::collections::{HashMap, VecDeque};

use super::lanes::Admitted;
use crate::fair::Id;
use crate::sync::{AtomicUsize, CachePadded, Mutex, Ordering};

/// The hands of all slots. But for [`Hands::play_on`] everything here happens under the gate's lock,
/// so that only its holder ever has two hands locked.
pub(super) struct Hands {
    hands: Box<[CachePadded<Mutex<Hand>>]>,
    /// Hands that may hold something. Changed under the gate's lock.
    listed: AtomicUsize,
}

/// What one slot has taken in advance.
#[derive(Default)]
struct Hand {
    jobs: VecDeque<Admitted>,
    /// Tenants of jobs that have ended since the last visit, of which the gate is told in the next.
    ended: Vec<Id>,
    is_listed: bool,
    /// Jobs that have left this hand.
    played: u64,
    watch: Watch,
}

/// What hands know of a tenant and its account does not.
#[derive(Default)]
pub(super) struct Correction {
    /// Jobs that have been admitted and not begun.
    pub(super) not_begun: usize,
    /// Jobs that have ended.
    pub(super) ended: usize,
}

impl Hands {
    pub(super) fn new(slots: usize) -> Hands {
        Hands {
            hands: (0..slots).map(|_| CachePadded::default()).collect(),
            listed: AtomicUsize::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.hands.len()
    }

    /// A job of `tenant` has ended on `slot`: the next one of the round. If there is none, the gate is
    /// to be told of the end.
    #[inline]
    pub(super) fn play_on(&self, slot: usize, tenant: Id) -> Option<Admitted> {
        let mut hand = self.hands[slot].lock();
        let next = hand.play()?;
        hand.ended.push(tenant);
        Some(next)
    }

    /// Whether all hands are known to hold nothing.
    #[inline]
    pub(super) fn are_blank(&self) -> bool {
        self.listed.load(Ordering::Relaxed) == 0
    }

    /// Tells what has ended on `slot` since its last visit.
    pub(super) fn report(&self, slot: usize, end: impl FnMut(Id)) {
        let mut hand = self.hands[slot].lock();
        hand.ended.drain(..).for_each(end);
        self.unlist_if_blank(&mut hand);
    }

    /// A job of `slot`'s own hand, or of one that is stuck behind a job that takes its time; and the
    /// slot it was taken from.
    pub(super) fn take_first(&self, slot: usize) -> Option<(Admitted, usize)> {
        let mut own = self.hands[slot].lock();
        if let Some(job) = self.take_from(&mut own) {
            return Some((job, slot));
        }
        let watched = own.watch.next(slot, self.hands.len())?;
        let mut other = self.hands[watched].lock();
        if !own.watch.look(&other) {
            return None;
        }
        let job = self.take_from(&mut other)?;
        own.watch.played = Some(other.played);
        Some((job, watched))
    }

    /// A job of any hand, and the slot it was taken from.
    pub(super) fn take_any(&self) -> Option<(Admitted, usize)> {
        let mut hands = self.hands.iter().enumerate();
        hands.find_map(|(slot, hand)| Some((self.take_from(&mut hand.lock())?, slot)))
    }

    fn take_from(&self, hand: &mut Hand) -> Option<Admitted> {
        let job = hand.play();
        self.unlist_if_blank(hand);
        job
    }

    /// Whether there is a job in any hand.
    pub(super) fn hold_any(&self) -> bool {
        !self.are_blank() && self.hands.iter().any(|hand| !hand.lock().jobs.is_empty())
    }

    /// Takes up to `most` jobs into `slot`'s hand. Returns how many that were.
    pub(super) fn fill(
        &self,
        slot: usize,
        most: usize,
        next: impl FnMut() -> Option<Admitted>,
    ) -> usize {
        let mut hand = self.hands[slot].lock();
        let before = hand.jobs.len();
        hand.jobs.extend(std::iter::from_fn(next).take(most));
        if !hand.is_blank() && !hand.is_listed {
            hand.is_listed = true;
            self.listed.fetch_add(1, Ordering::Relaxed);
        }
        hand.jobs.len() - before
    }

    fn unlist_if_blank(&self, hand: &mut Hand) {
        if hand.is_listed && hand.is_blank() {
            hand.is_listed = false;
            self.listed.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Empties all hands, and says from which slot's each job is.
    pub(super) fn drain(&self, mut each: impl FnMut(Admitted, usize)) {
        if self.are_blank() {
            return;
        }
        for (slot, hand) in self.hands.iter().enumerate() {
            let mut hand = hand.lock();
            hand.jobs.drain(..).for_each(|job| each(job, slot));
            self.unlist_if_blank(&mut hand);
        }
    }

    /// What the accounts do not know yet.
    pub(super) fn corrections(&self) -> HashMap<Id, Correction> {
        let mut all: HashMap<Id, Correction> = HashMap::new();
        if !self.are_blank() {
            for hand in &self.hands {
                let hand = hand.lock();
                for job in &hand.jobs {
                    all.entry(job.tenant).or_default().not_begun += 1;
                }
                for tenant in &hand.ended {
                    all.entry(*tenant).or_default().ended += 1;
                }
            }
        }
        all
    }
}

impl Hand {
    fn is_blank(&self) -> bool {
        self.jobs.is_empty() && self.ended.is_empty()
    }

    fn play(&mut self) -> Option<Admitted> {
        let job = self.jobs.pop_front()?;
        self.played += 1;
        Some(job)
    }
}

/// Looks at one other hand after the other, twice at each.
#[derive(Default)]
struct Watch {
    slot: usize,
    /// What had left that hand at the first look.
    played: Option<u64>,
}

impl Watch {
    /// The slot, of `slots`, whose hand is to be looked at by the thread of slot `own`.
    fn next(&mut self, own: usize, slots: usize) -> Option<usize> {
        if self.slot % slots == own {
            self.slot += 1;
        }
        Some(self.slot % slots).filter(|slot| *slot != own)
    }

    /// Whether nothing has left the hand since the last look, although there is something in it.
    fn look(&mut self, hand: &Hand) -> bool {
        let seen = self.played.replace(hand.played);
        if !hand.jobs.is_empty() && seen.is_none_or(|played| played == hand.played) {
            return seen.is_some();
        }
        self.slot += 1;
        self.played = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;

    const ROUND: usize = 15;

    fn job() -> Admitted {
        Admitted {
            job: Job::new(|| ()),
            tenant: Id::FIRST,
        }
    }

    fn hands(slots: usize) -> Hands {
        let hands = Hands::new(slots);
        assert_eq!(hands.fill(1, ROUND, || Some(job())), ROUND);
        hands
    }

    #[test]
    fn a_round_is_played_to_its_end_and_then_reported() {
        let hands = hands(2);
        for _ in 0..ROUND {
            assert!(hands.play_on(1, Id::FIRST).is_some());
        }
        assert!(hands.play_on(1, Id::FIRST).is_none());
        assert!(!hands.are_blank(), "it has ends to report");
        assert_eq!(hands.corrections()[&Id::FIRST].ended, ROUND);
        let mut ended = 0;
        hands.report(1, |_| ended += 1);
        assert_eq!(ended, ROUND);
        assert!(hands.are_blank() && hands.corrections().is_empty());
    }

    #[test]
    fn a_hand_is_stuck_if_two_looks_find_the_same() {
        let hands = hands(2);
        let take = || hands.take_first(0).map(|(_, from)| from);
        assert_eq!((take(), take()), (None, Some(1)));
        assert_eq!((take(), take()), (Some(1), Some(1)), "it still is");
        assert!(hands.play_on(1, Id::FIRST).is_some());
        assert_eq!((take(), take(), take()), (None, None, Some(1)));
        while hands.take_any().is_some() {}
        assert_eq!((take(), take(), take()), (None, None, None));
    }

    #[test]
    fn a_thread_plays_its_own_hand_first_and_a_third_is_not_forgotten() {
        let hands = hands(3);
        assert_eq!(hands.take_first(1).map(|(_, from)| from), Some(1));
        let looks: Vec<_> = (0..8).map(|_| hands.take_first(2).is_some()).collect();
        assert!(
            looks.iter().filter(|found| **found).count() >= 2,
            "{looks:?}"
        );
        let mut drained = Vec::new();
        hands.drain(|_, from| drained.push(from));
        assert!(!drained.is_empty() && drained.iter().all(|from| *from == 1));
        assert!(!hands.hold_any());
        assert_eq!(Hands::new(1).take_first(0).map(|(_, from)| from), None);
    }
}
