//! The gate's lock: how it is waited for, and what is done when it is released.
//!
//! **Waiting.** With tiny jobs the workers meet at the gate all the time. Whoever parks is woken for
//! tens of times what a visit takes, and each change of hands pulls the lanes from one core's cache to
//! the other's. So a worker that finds the lock taken looks again after pauses that double: while
//! somebody comes and goes for tiny jobs, he keeps the lock and the cache, and with longer jobs the lock
//! is free most of the time and the first look or the second gets it. What it puts off is the end of
//! that worker's job: whoever joins the job, or waits for its tenant to be below its limit, waits for
//! as much longer. The token does no more good elsewhere, as those who have the lock begin jobs as fast
//! as the gate can give them out.
//!
//! Measured with tiny jobs, two workers and ten tenants: 499 to 594 ns a job with the mutex' own
//! waiting, 472 to 517 with pauses of up to 512, 396 to 419 with up to 2,048, of which all together take
//! some 100 µs. With jobs of one to five microseconds there is no difference.
//!
//! Rejected: the holder serves the others who wait, so that the lanes stay in one cache ("flat
//! combining", Hendler, Incze, Shavit and Tzafrir, 2010). With the same pauses it was no faster (383 to
//! 443 ns against 341 to 418): serving another thread costs the holder more than doing its job.

use super::lanes::Lanes;
use crate::sync::{CachePadded, Mutex, MutexGuard, cores, hint};

/// The first pause between two looks, and the last one before parking, in turns of a spin loop.
const FIRST_PAUSE: u32 = 8;
const LAST_PAUSE: u32 = 2048;

/// The lanes behind their lock.
pub(super) struct Lock(CachePadded<Mutex<CachePadded<Lanes>>>);

/// The lock is held. When it is released, what may not be done under it is done.
pub(super) struct Locked<'a>(Option<MutexGuard<'a, CachePadded<Lanes>>>);

impl Lock {
    pub(super) fn new(lanes: Lanes) -> Lock {
        Lock(CachePadded::new(Mutex::new(CachePadded::new(lanes))))
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked(Some(self.0.lock()))
    }

    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        Some(Locked(Some(self.0.try_lock()?)))
    }

    /// As `lock`, for a worker between two jobs, who is soon back.
    #[inline]
    pub(super) fn lock_between_jobs(&self) -> Locked<'_> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    #[cold]
    fn wait(&self) -> Locked<'_> {
        let mut pause = FIRST_PAUSE;
        while pause <= LAST_PAUSE && cores() > 1 {
            (0..pause).for_each(|_| hint::spin_loop());
            if let Some(locked) = self.try_lock() {
                return locked;
            }
            pause *= 2;
        }
        self.lock()
    }
}

impl std::ops::Deref for Locked<'_> {
    type Target = Lanes;
    fn deref(&self) -> &Lanes {
        self.0.as_ref().expect("locked until dropped")
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Lanes {
        self.0.as_mut().expect("locked until dropped")
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.after.is_empty() {
            return;
        }
        let after = std::mem::take(&mut self.after);
        self.0 = None;
        after.settle();
    }
}
