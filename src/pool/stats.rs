//! What a pool tells about itself.

use super::WorkerPool;
use crate::admission::Gate;
use crate::fair::Weight;
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
    /// The numbers of each tenant that has something queued or running, or a handle, or a submitter
    /// that waits; by name. Empty without a limit.
    pub tenants: Vec<TenantStats>,
}

/// One tenant in numbers. Tenants are read a moment after the pool's numbers.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantStats {
    /// The tenant's name; empty for jobs without a tenant.
    pub name: String,
    /// Its weight.
    pub weight: Weight,
    /// Jobs in its lane.
    pub queued: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended, with a result or a panic, since the tenant was last unknown.
    pub completed: u64,
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
    /// Jobs that the slot's thread took over from other slots. Always 0 with a limit: jobs then come
    /// from the lanes.
    pub taken: u64,
}

impl WorkerPool {
    /// The pool in numbers. O(slots), without a lock, and without slowing the slots down but for the
    /// cache lines it reads. With a limit also O(tenants) under the gate's lock. In a forked child,
    /// where that lock may be held for ever, no tenants are listed.
    pub fn stats(&self) -> PoolStats {
        let tally = self.core.tally();
        let slots = self.core.slots.iter().map(|slot| SlotStats {
            name: slot.name().to_owned(),
            pending: slot.pending(),
            completed: Tally::completed_of(slot.load()),
            taken: if self.core.gate.is_none() {
                slot.load().taken()
            } else {
                0
            },
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
            tenants: match &self.core.gate {
                Some(gate) if !self.core.is_forked() => tenants(gate),
                _ => Vec::new(),
            },
        }
    }
}

fn tenants(gate: &Gate) -> Vec<TenantStats> {
    let stats = gate.tenants().into_iter().map(|tenant| TenantStats {
        name: tenant.name.to_string(),
        weight: tenant.weight,
        queued: tenant.queued,
        running: tenant.running,
        completed: tenant.completed,
    });
    let mut stats: Vec<_> = stats.collect();
    stats.sort_by(|a, b| a.name.cmp(&b.name));
    stats
}
