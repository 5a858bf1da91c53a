//! What a pool tells about itself.

use super::WorkerPool;
use crate::ledger::Tally;

/// A pool in numbers, as [`WorkerPool::stats`] found it.
///
/// The numbers add up whenever they are taken:
/// `submitted = completed + panicked + cancelled + expired + discarded + queued + running`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Slots that have a thread; less than [`WorkerPool::workers`] once slots have been retired.
    pub workers: usize,
    /// Jobs that run; one that waits for a job that it runs in place counts too.
    pub running: usize,
    /// Jobs that were accepted and have not begun.
    pub queued: usize,
    /// Jobs accepted so far.
    pub submitted: u64,
    /// Jobs that returned.
    pub completed: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs cancelled before they began.
    pub cancelled: u64,
    /// Jobs whose deadline passed before they began.
    pub expired: u64,
    /// Jobs that the pool gave up on before they began.
    pub discarded: u64,
    /// Each slot's own numbers, by index.
    pub slots: Vec<SlotStats>,
}

/// One slot in numbers. Slots are read one after the other: their sum may differ from the pool's
/// numbers by what happened in between.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotStats {
    /// The slot's name: `w0`, `w1` and so on.
    pub name: String,
    /// Jobs queued here plus those running here.
    pub pending: usize,
    /// Jobs counted here that returned.
    pub completed: u64,
    /// Jobs that the slot's thread took over from other slots.
    pub taken: u64,
}

impl WorkerPool {
    /// The pool in numbers. O(slots), without a lock, and without slowing the slots down but for the
    /// cache lines it reads.
    pub fn stats(&self) -> PoolStats {
        let tally = self.core.tally();
        let slots = self.core.slots.iter().map(|slot| SlotStats {
            name: slot.name().to_owned(),
            pending: slot.load().pending() as usize,
            completed: Tally::completed_of(slot.load()),
            taken: slot.load().taken(),
        });
        PoolStats {
            workers: self.core.live_slots(),
            running: tally.running as usize,
            queued: tally.queued as usize,
            submitted: tally.submitted,
            completed: tally.completed,
            panicked: tally.panicked,
            cancelled: tally.cancelled,
            expired: tally.expired,
            discarded: tally.discarded,
            slots: slots.collect(),
        }
    }
}
