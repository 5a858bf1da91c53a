//! Waiting for a moment with nothing queued and nothing running.
//!
//! No counter is shared by all jobs, so "idle" is a statement about many counters that nobody can
//! read at once. [`is_idle`] reads what has finished, slot by slot, and after that what was
//! submitted. Both only grow, and no job finishes before it was submitted. Let `t` be the moment
//! between the two passes: `finished read ≤ finished(t) ≤ submitted(t) ≤ submitted read`. If the two
//! ends are equal, everything between is, and at `t` the pool was idle.
//!
//! **Who looks.** An idle moment begins when the last job finishes and ends with the next submit.
//! So with somebody waiting, a worker looks when it has run out of work, and a submitter looks
//! before it counts its job in. A waiter looks itself after it has registered:
//!
//! - waiter: W1 register, W2 fence, W3 look, W4 sleep;
//! - worker: J1 count the job as finished, J2 (out of work) fence, J3 waiters? then look.
//!
//! If J3 sees no waiter, W1 came after it in the order of the fences, so W3 sees J1. Otherwise J3
//! looks and announces. Either way nobody sleeps through the end of the last job.
//!
//! **Whom a moment frees.** Those who had registered before it. Between seeing a moment and
//! announcing it, new jobs may be submitted and be waited for, so waiters are numbered, and whoever
//! looks notes the highest number first.

use std::time::Instant;

use super::Load;
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence, is_broken};

/// Whether there was a moment during this call with no job queued or running, and with `is_at_rest`
/// saying yes. O(slots), but it ends at the first slot that runs something.
///
/// That short cut looks at running jobs and not at pending counts, because a `false` must leave
/// somebody who will look again. Whoever finishes a job looks after that; a thief that counts a job
/// in, finds it withdrawn and counts it out again does not.
pub(crate) fn is_idle<'a>(
    loads: impl Iterator<Item = &'a Load> + Clone,
    is_at_rest: impl FnOnce() -> bool,
) -> bool {
    if loads.clone().any(Load::is_running) {
        return false;
    }
    let finished: u64 = loads.clone().fold(0, |n, l| n.wrapping_add(l.finished()));
    is_at_rest() && finished == loads.fold(0, |n, l| n.wrapping_add(l.submitted()))
}

/// The threads that wait for an idle moment.
#[derive(Default)]
pub(crate) struct Idle {
    waiters: AtomicUsize,
    /// The number of the waiter that registered last.
    registered: AtomicU64,
    /// Waiters up to this number are free.
    freed: Mutex<u64>,
    announced: Condvar,
}

/// The waiters that were registered when it was taken.
#[derive(Clone, Copy)]
pub(crate) struct Registered(u64);

impl Idle {
    /// Whether somebody waits; without ordering, for the submit path.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Who waits, if anybody does, ordered after everything this thread has counted (J2, J3).
    pub(crate) fn awaited_in_order(&self) -> Option<Registered> {
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) == 0 {
            return None;
        }
        Some(Registered(self.registered.load(Ordering::SeqCst)))
    }

    /// Frees those who were registered before the caller looked and saw an idle moment.
    pub(crate) fn announce(&self, Registered(last): Registered) {
        let mut freed = self.freed.lock();
        *freed = last.max(*freed);
        self.announced.notify_all();
    }

    /// Waits until `is_idle` says yes or somebody announces it; `false` if `deadline` comes first.
    pub(crate) fn wait(&self, is_idle: impl Fn() -> bool, deadline: Option<Instant>) -> bool {
        let number = self.registered.fetch_add(1, Ordering::SeqCst) + 1;
        self.waiters.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_broken("idle W3") && is_idle() {
            self.announce(Registered(number));
        }
        let is_free = self.wait_freed(number, deadline);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        is_free
    }

    fn wait_freed(&self, number: u64, deadline: Option<Instant>) -> bool {
        let mut freed = self.freed.lock();
        while *freed < number {
            match deadline {
                None => self.announced.wait(&mut freed),
                Some(at) => {
                    if self.announced.wait_until(&mut freed, at).timed_out() {
                        break;
                    }
                }
            }
        }
        *freed >= number
    }
}
