//! How far a pool is on its way to its end. It only ever goes forward.

use crate::error::Rejected;
use crate::sync::{AtomicU8, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Jobs are accepted.
    Open,
    /// No slot is left to run any.
    Exhausted,
    /// No more are accepted; those that were still run.
    Closed,
    /// Nothing is queued or running any more: the threads end.
    Stopped,
}

const PHASES: [Phase; 4] = [Phase::Open, Phase::Exhausted, Phase::Closed, Phase::Stopped];

/// The current phase. `SeqCst` throughout: a submitter counts its job and then reads the phase, who
/// ends the pool advances the phase and then reads the counts, and one must see the other.
pub(super) struct Progress(AtomicU8);

impl Progress {
    pub(super) fn new() -> Progress {
        Progress(AtomicU8::new(Phase::Open as u8))
    }

    #[inline]
    pub(super) fn get(&self) -> Phase {
        PHASES[self.0.load(Ordering::SeqCst) as usize]
    }

    /// Goes on to `phase`, unless it is further already.
    pub(super) fn advance(&self, phase: Phase) {
        self.0.fetch_max(phase as u8, Ordering::SeqCst);
    }

    /// Why jobs are not accepted, if they are not.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Rejected> {
        if self.0.load(Ordering::SeqCst) == Phase::Open as u8 {
            return None;
        }
        self.reason()
    }

    #[cold]
    fn reason(&self) -> Option<Rejected> {
        match self.get() {
            Phase::Open => None,
            Phase::Exhausted => Some(Rejected::RestartExhausted),
            Phase::Closed | Phase::Stopped => Some(Rejected::ShutDown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_never_goes_backwards() {
        for (index, phase) in PHASES.into_iter().enumerate() {
            assert_eq!(phase as usize, index);
        }
        let progress = Progress::new();
        progress.advance(Phase::Closed);
        progress.advance(Phase::Exhausted);
        assert_eq!(progress.get(), Phase::Closed);
        assert_eq!(progress.refusal(), Some(Rejected::ShutDown));
    }
}
