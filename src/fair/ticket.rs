//! The receipt for a queued job.

use super::arena::Id;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names one queued job, to [`remove`](crate::FairQueue::remove) it.
///
/// A ticket is a plain number: dropping or keeping it has no effect on the job. It names that one
/// job for all time and in that one queue only. Once the job has left, or in another queue, it finds
/// nothing, however many jobs have since used the same memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) queue: u64,
    pub(super) lane: Id,
    pub(super) job: Id,
    pub(super) arrival: u64,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("queue", &self.queue)
            .field("lane", &self.lane)
            .field("job", &self.job)
            .field("arrival", &self.arrival)
            .finish()
    }
}

/// A number no other queue of the process has.
///
/// It is the one thing that queues share. Rejected: leaving it out of the ticket, or taking the
/// queue's address, which the next queue may inherit; a job of the wrong queue would then be
/// removed without anybody noticing.
pub(super) fn next_queue() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
