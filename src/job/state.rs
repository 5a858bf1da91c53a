//! The state word of a job with a handle: who may touch the closure, who the result, who frees both.
//!
//! ```text
//!            claim                 settle
//!  queued ───────────▶ claimed ───────────▶ settled
//! ```
//!
//! The claim is the only race in a job's life, and one atomic step decides it: whoever sets
//! [`CLAIMED`] owns the closure, to run it (a worker, or a joiner in place) or to drop it (a
//! canceller). Whoever claimed is also the one who settles. Three references keep the memory alive,
//! each a bit; whoever clears the last one frees it.

use super::slab::Spot;
use crate::sync::{AtomicUsize, Ordering, is_broken, thread};

/// Set once by whoever takes the closure out; never unset.
const CLAIMED: usize = 1 << 0;
/// Set by the claimer, together with `CLAIMED`, if the closure is to be dropped unrun; never unset.
const NEVER_RUNS: usize = 1 << 1;
/// Set once when the result is stored; never unset. Until then the result belongs to the claimer,
/// afterwards to whoever holds [`Ref::Handle`].
const SETTLED: usize = 1 << 2;
/// Set by a claimer that counts the job as finished before it publishes the result: from then on the
/// handle stays where it is, and no user code runs before `SETTLED` follows. Never unset.
const SEALED: usize = 1 << 7;
/// Set while a joiner's thread is stored in the waiter field. From `SETTLED` on the field belongs to
/// the settler, before that to the joiner.
const WAITING: usize = 1 << 3;
/// The references, see [`Ref`]; each unset once.
const REFS: usize = 0b111 << 4;
/// Where the cell lies, see [`Spot`]: written once.
const SPOT_SHIFT: u32 = 8;
const SPOT: usize = (Spot::COUNT - 1) << SPOT_SHIFT;
/// From here on: the index of the slot in whose count the job is. Where addresses have 32 bits, 18 are
/// left for it: more threads than there is room for.
const SLOT_SHIFT: u32 = SPOT_SHIFT + Spot::COUNT.ilog2();

/// Who keeps a job's memory alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ref {
    /// The entry in a queue, or the worker that took it from there.
    Entry = 1 << 4,
    /// The user's handle.
    Handle = 1 << 5,
    /// The cancel token that can reach the job.
    Token = 1 << 6,
}

/// What [`State::claim_to_run`] and its like found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The closure is the caller's. The job is counted in this slot, and stays there.
    Won { slot: usize },
    /// Somebody else has it, and runs it or has run it.
    Runs,
    /// Somebody else has it, and it never runs.
    NeverRuns,
}

impl Claim {
    pub(super) fn is_won(self) -> bool {
        matches!(self, Claim::Won { .. })
    }
}

/// How [`State::settle`] found the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The handle is there; whoever holds it owns the result now.
    Seen,
    /// As `Seen`, and a joiner waits: take the waiter field and wake it.
    Awaited,
    /// The handle is gone and nothing was published: the result is still the settler's to drop.
    Detached,
}

/// What the holder of the handle finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Queued,
    Claimed,
    Settled,
}

pub(super) struct State(AtomicUsize);

impl State {
    /// A queued job counted in `slot`, with the given references, whose cell lies in `spot`.
    pub(super) fn new(slot: usize, spot: Spot, refs: &[Ref]) -> State {
        let refs = refs.iter().fold(0, |bits, r| bits | *r as usize);
        let place = slot << SLOT_SHIFT | spot.number() << SPOT_SHIFT;
        State(AtomicUsize::new(place | refs))
    }

    /// Where the cell lies.
    pub(super) fn spot(&self) -> Spot {
        Spot::of_number((self.0.load(Ordering::Relaxed) & SPOT) >> SPOT_SHIFT)
    }

    /// Takes the closure to run it. One unconditional step: most claims succeed, and it fetches the
    /// cache line for writing at once.
    ///
    /// `Acquire`: the closure's bytes were written by the submitter. `Release`: the thief that lost
    /// this race reads the slot index, nothing else.
    #[must_use]
    pub(super) fn claim_to_run(&self) -> Claim {
        Self::read_claim(self.0.fetch_or(CLAIMED, Ordering::AcqRel))
    }

    /// Takes the closure to drop it. Conditional, since `NEVER_RUNS` must not mark a job that runs.
    #[must_use]
    pub(super) fn claim_to_drop(&self) -> Claim {
        let marked = |s| (s & CLAIMED == 0).then_some(s | CLAIMED | NEVER_RUNS);
        match self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, marked)
        {
            Ok(before) | Err(before) => Self::read_claim(before),
        }
    }

    fn read_claim(before: usize) -> Claim {
        if before & CLAIMED == 0 {
            Claim::Won {
                slot: before >> SLOT_SHIFT,
            }
        } else if before & NEVER_RUNS == 0 {
            Claim::Runs
        } else {
            Claim::NeverRuns
        }
    }

    /// Moves an unclaimed job into another slot's count; `false` if it has been claimed. A claim
    /// thus always names the slot that the job is counted in.
    #[must_use]
    pub(super) fn move_to(&self, slot: usize) -> bool {
        let moved =
            |s| (s & CLAIMED == 0).then_some(s & ((1 << SLOT_SHIFT) - 1) | slot << SLOT_SHIFT);
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, moved)
            .is_ok()
    }

    /// Publishes the result that the claimer has stored, and gives up `held` in the same step if
    /// nobody has to be woken. Waking takes longer: with [`Settled::Awaited`] and
    /// [`Settled::Detached`] the caller still holds its reference.
    ///
    /// `Release` publishes the result; `Acquire` because of the waiter field.
    #[must_use]
    pub(super) fn settle(&self, held: Option<Ref>) -> Settled {
        let held = held.map_or(0, |r| r as usize);
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            if now & Ref::Handle as usize == 0 {
                return Settled::Detached;
            }
            let (next, outcome) = if now & WAITING == 0 {
                ((now | SETTLED) & !held, Settled::Seen)
            } else {
                (now | SETTLED, Settled::Awaited)
            };
            let publish = if is_broken("job settle") {
                Ordering::Relaxed
            } else {
                Ordering::AcqRel
            };
            match self
                .0
                .compare_exchange(now, next, publish, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(changed) => now = changed,
            }
        }
    }

    /// The phase, and with `Settled` the right to the result if the caller holds the handle.
    pub(super) fn phase(&self) -> Phase {
        Self::read_phase(self.0.load(Ordering::Acquire))
    }

    fn read_phase(word: usize) -> Phase {
        if word & SETTLED != 0 {
            Phase::Settled
        } else if word & CLAIMED != 0 {
            Phase::Claimed
        } else {
            Phase::Queued
        }
    }

    /// Whether the job has settled. A sealed one may have been counted as finished, and somebody who was
    /// told that the pool is idle must not find it unsettled: it settles within a few instructions.
    pub(super) fn is_settled(&self) -> bool {
        loop {
            let now = self.0.load(Ordering::Acquire);
            if now & (SETTLED | SEALED) != SEALED {
                return now & SETTLED != 0;
            }
            thread::yield_now();
        }
    }

    /// The joiner has stored its thread. `false`: the job has settled, the field is the joiner's.
    #[must_use]
    pub(super) fn start_waiting(&self) -> bool {
        self.update_unsettled(|s| s | WAITING)
    }

    /// The joiner gives up waiting. `false`: the job has settled, the field is the settler's.
    #[must_use]
    pub(super) fn stop_waiting(&self) -> bool {
        self.update_unsettled(|s| s & !WAITING)
    }

    fn update_unsettled(&self, change: impl Fn(usize) -> usize) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |s| {
                (s & SETTLED == 0).then(|| change(s))
            })
            .is_ok()
    }

    /// Holds the handle until the job has settled; `false` if it is gone already.
    #[must_use]
    pub(super) fn seal(&self) -> bool {
        self.0.fetch_or(SEALED, Ordering::AcqRel) & Ref::Handle as usize != 0
    }

    /// Gives up the handle unless the job has settled; `false`: it has, and the result is still the
    /// caller's. Never the last reference: an unsettled job has an entry or somebody who claimed it.
    /// A sealed job settles within a few instructions.
    #[must_use]
    pub(super) fn detach(&self) -> bool {
        loop {
            let detached = self
                .0
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |s| {
                    (s & (SETTLED | SEALED) == 0).then_some(s & !(Ref::Handle as usize))
                });
            match detached {
                Ok(_) => return true,
                Err(now) if now & SETTLED != 0 => return false,
                Err(_) => thread::yield_now(),
            }
        }
    }

    /// Gives up a reference; `true`: it was the last one, and the memory is the caller's to free.
    #[must_use]
    pub(super) fn release(&self, held: Ref) -> bool {
        // A sole owner needs no locked instruction: nobody is left to race with.
        if self.0.load(Ordering::Acquire) & REFS == held as usize {
            return true;
        }
        let before = self.0.fetch_and(!(held as usize), Ordering::AcqRel);
        before & REFS == held as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Ref; 2] = [Ref::Entry, Ref::Handle];

    #[test]
    fn a_claim_is_won_once_and_says_what_becomes_of_the_job() {
        let state = State::new(3, Spot::ALONE, &BOTH);
        assert_eq!(state.claim_to_run(), Claim::Won { slot: 3 });
        assert_eq!(state.claim_to_run(), Claim::Runs);
        assert_eq!(state.claim_to_drop(), Claim::Runs);
        assert!(!Claim::Runs.is_won() && !Claim::NeverRuns.is_won());

        let state = State::new(3, Spot::ALONE, &BOTH);
        assert_eq!(state.claim_to_drop(), Claim::Won { slot: 3 });
        assert_eq!(state.claim_to_run(), Claim::NeverRuns);
        assert_eq!(state.claim_to_drop(), Claim::NeverRuns);
    }

    #[test]
    fn a_job_moves_until_it_is_claimed() {
        let state = State::new(3, Spot::ALONE, &BOTH);
        assert!(state.move_to(70_000));
        assert_eq!(state.claim_to_run(), Claim::Won { slot: 70_000 });
        assert!(!state.move_to(1));
    }

    #[test]
    fn whoever_clears_the_last_reference_frees() {
        let state = State::new(0, Spot::ALONE, &[Ref::Entry, Ref::Handle, Ref::Token]);
        assert!(!state.release(Ref::Token));
        assert_eq!(state.claim_to_run(), Claim::Won { slot: 0 });
        assert_eq!(state.settle(Some(Ref::Entry)), Settled::Seen);
        assert_eq!(state.phase(), Phase::Settled);
        assert!(!state.detach(), "a settled job's result is the handle's");
        assert!(state.release(Ref::Handle));
    }

    #[test]
    fn any_reference_alone_keeps_the_memory() {
        for (first, last) in [
            (Ref::Entry, Ref::Handle),
            (Ref::Handle, Ref::Entry),
            (Ref::Entry, Ref::Token),
            (Ref::Token, Ref::Entry),
            (Ref::Handle, Ref::Token),
        ] {
            let state = State::new(3, Spot::ALONE, &[first, last]);
            assert!(!state.release(first), "{last:?} is left");
            assert!(state.release(last));
        }
    }

    #[test]
    fn a_sealed_handle_waits_for_the_result() {
        let state = State::new(0, Spot::ALONE, &BOTH);
        assert!(state.seal());
        assert_eq!(state.settle(Some(Ref::Entry)), Settled::Seen);
        assert!(!state.detach());

        let state = State::new(0, Spot::ALONE, &BOTH);
        assert!(state.detach());
        assert!(!state.seal());
    }

    #[test]
    fn settling_sees_who_is_there() {
        let state = State::new(0, Spot::ALONE, &BOTH);
        assert!(state.start_waiting());
        assert_eq!(state.settle(Some(Ref::Entry)), Settled::Awaited);
        assert!(!state.stop_waiting());
        assert!(!state.release(Ref::Entry));
        assert!(state.release(Ref::Handle));

        let state = State::new(0, Spot::ALONE, &BOTH);
        assert!(state.detach());
        assert_eq!(state.settle(Some(Ref::Entry)), Settled::Detached);
        assert!(state.release(Ref::Entry));
    }

    #[test]
    fn a_move_changes_the_slot_alone() {
        let state = State::new(3, Spot::ALONE, &BOTH);
        assert!(state.start_waiting());
        assert!(state.move_to(4));
        assert_eq!(state.phase(), Phase::Queued);
        assert!(!state.release(Ref::Entry));
        assert_eq!(state.settle(None), Settled::Awaited);
        assert!(state.release(Ref::Handle));
    }

    #[test]
    fn phases_are_told_apart() {
        let state = State::new(0, Spot::ALONE, &BOTH);
        assert_eq!((state.phase(), state.is_settled()), (Phase::Queued, false));
        assert!(state.claim_to_run().is_won());
        assert_eq!((state.phase(), state.is_settled()), (Phase::Claimed, false));
        assert_eq!(state.settle(None), Settled::Seen);
        assert_eq!((state.phase(), state.is_settled()), (Phase::Settled, true));
    }

    #[test]
    fn nobody_waits_for_what_has_settled() {
        let state = State::new(0, Spot::ALONE, &BOTH);
        assert!(state.start_waiting());
        assert!(state.stop_waiting(), "it gave up in time");
        assert_eq!(state.settle(Some(Ref::Entry)), Settled::Seen);
        assert!(!state.start_waiting());
        assert!(state.release(Ref::Handle));
    }

    #[test]
    fn who_looks_at_a_sealed_job_waits_for_its_result() {
        let looks: [fn(&State) -> bool; 2] = [State::is_settled, |state| !state.detach()];
        for look in looks {
            let state = State::new(0, Spot::ALONE, &BOTH);
            assert!(state.seal());
            let begun = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                let looker = scope.spawn(|| {
                    begun.wait();
                    look(&state)
                });
                begun.wait();
                (0..100).for_each(|_| std::thread::yield_now());
                assert!(!looker.is_finished());
                assert_eq!(state.settle(Some(Ref::Entry)), Settled::Seen);
                assert!(looker.join().unwrap());
            });
        }
    }
}
