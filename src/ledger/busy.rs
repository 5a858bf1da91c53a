//! How long a slot's thread has been running jobs.

use crate::sync::{AtomicU64, Ordering};

/// Set while no job runs.
const IDLE: u64 = 1 << 63;

/// A stopwatch that one thread starts and stops and any may read, in one word, so that a reader finds
/// the time of the job that runs counted once, whenever it looks. All times are in nanoseconds since
/// the same moment. While it runs, the word is the moment at which it would have been started had it
/// never been stopped; while it stands, its reading, with [`IDLE`].
pub(crate) struct Busy(AtomicU64);

impl Default for Busy {
    fn default() -> Self {
        Busy(AtomicU64::new(IDLE))
    }
}

impl Busy {
    /// The slot's thread begins a job.
    pub(crate) fn start(&self, now: u64) {
        let total = self.read(now);
        self.0.store(now.saturating_sub(total), Ordering::Relaxed);
    }

    /// The slot's thread has ended the job that it began.
    pub(crate) fn stop(&self, now: u64) {
        self.0.store(self.read(now) | IDLE, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, now: u64) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if word & IDLE != 0 {
            word & !IDLE
        } else {
            now.saturating_sub(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_jobs_adds_up() {
        let busy = Busy::default();
        assert_eq!(busy.read(1_000), 0);
        busy.start(1_000);
        assert_eq!(busy.read(1_300), 300);
        busy.stop(1_500);
        assert_eq!(busy.read(9_000), 500);
        busy.start(9_000);
        assert_eq!(busy.read(9_001), 501);
        busy.stop(9_100);
        assert_eq!(busy.read(u64::MAX), 600);
    }
}
