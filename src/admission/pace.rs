//! Whether a thread may take jobs in advance: not before they have been tiny for some time.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Jobs in a round.
pub(super) const ROUND: usize = 16;
/// What a tiny job takes at most.
const TINY: Duration = Duration::from_micros(2);
/// After so many quick looks in a row the next round is taken at once.
const QUICK_LOOKS: u32 = 8;

/// Looks at the clock twice for sixteen jobs: around all of a round that was taken at once, or around
/// one single job. Only the jobs are timed and not the visits to the gate, which take longest when
/// many threads come, and rounds are most needed.
///
/// A job that submits others counts as a slow one: it may well depend on them, or on where they come
/// in its tenant's order.
#[derive(Default)]
pub(crate) struct Pace {
    /// Jobs since the last look.
    jobs: Cell<usize>,
    /// What is being timed: since when, and how many jobs.
    timed: Cell<Option<(Instant, usize)>>,
    quick_looks: Cell<u32>,
}

impl Pace {
    /// `jobs` are about to be run.
    #[inline]
    pub(super) fn begin(&self, jobs: usize) {
        self.jobs.set(self.jobs.get() + jobs);
        if self.jobs.get() >= ROUND {
            self.jobs.set(0);
            self.timed.set(Some((Instant::now(), jobs)));
        }
    }

    /// They have been. Returns how many may be taken in the next visit.
    #[inline]
    pub(super) fn end(&self, have_submitted: bool) -> usize {
        if let Some((began, jobs)) = self.timed.take() {
            self.note(began.elapsed(), jobs);
        }
        if have_submitted {
            self.quick_looks.set(0);
        }
        if self.quick_looks.get() >= QUICK_LOOKS {
            ROUND
        } else {
            1
        }
    }

    fn note(&self, took: Duration, jobs: usize) {
        let is_quick = took <= TINY * jobs as u32;
        let looks = self.quick_looks.get();
        self.quick_looks
            .set(if is_quick { looks.saturating_add(1) } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick() -> Pace {
        let pace = Pace::default();
        for _ in 1..QUICK_LOOKS {
            pace.note(TINY, 1);
            assert_eq!(pace.end(false), 1);
        }
        pace.note(TINY * 16, 16);
        assert_eq!(pace.end(false), ROUND);
        pace
    }

    #[test]
    fn rounds_are_taken_after_enough_quick_looks() {
        let pace = quick();
        pace.note(TINY * 16 + Duration::from_nanos(1), 16);
        assert_eq!(pace.end(false), 1, "one slow look is enough");
    }

    #[test]
    fn a_submit_from_a_job_ends_the_rounds() {
        let pace = quick();
        assert_eq!(pace.end(true), 1);
        assert_eq!(pace.end(false), 1);
    }

    #[test]
    fn a_single_job_is_timed_now_and_then_or_a_whole_round() {
        let pace = Pace::default();
        let timed = |jobs| {
            pace.begin(jobs);
            pace.timed.take().map(|(_, jobs)| jobs)
        };
        let singles: Vec<_> = (0..2 * ROUND).filter_map(|_| timed(1)).collect();
        assert_eq!(singles, [1, 1]);
        assert_eq!((timed(ROUND), timed(ROUND)), (Some(ROUND), Some(ROUND)));
    }
}
