//! Waiting for a number of jobs to be gone.

use crate::job::Witness;
use crate::sync::{AtomicUsize, Ordering, thread};

/// How many jobs are not gone yet, and the thread that waits for that.
pub(super) struct Count {
    jobs: AtomicUsize,
    owner: thread::Thread,
}

impl Count {
    /// No jobs so far, for this thread to wait for.
    pub(super) fn new() -> Count {
        Count {
            jobs: AtomicUsize::new(0),
            owner: thread::current(),
        }
    }

    /// Another one, before it can be gone.
    pub(super) fn add(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are left. With 0, whatever they did is visible.
    pub(super) fn get(&self) -> usize {
        self.jobs.load(Ordering::Acquire)
    }

    /// Makes the owner look again, if it is parked.
    pub(super) fn wake_owner(&self) {
        self.owner.unpark();
    }
}

impl Witness for Count {
    fn job_gone(&self) {
        if self.jobs.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.owner.unpark();
        }
    }
}
