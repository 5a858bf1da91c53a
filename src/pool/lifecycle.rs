//! Waiting for a pool, and the ways it ends.

use std::time::{Duration, Instant};

use super::WorkerPool;
use crate::error::ShutdownTimeout;
use crate::ledger::Fate;

impl WorkerPool {
    /// Accepts nothing more. What was accepted still runs; whoever waits to submit gets the closure
    /// back with [`Rejected::ShutDown`](crate::Rejected::ShutDown). Does not wait.
    pub fn close(&self) {
        if !self.core.is_forked() {
            self.core.close();
        }
    }

    /// Cancels every job that has not begun, and returns how many that were. Their captures are
    /// dropped on this thread. O(jobs).
    pub fn cancel_queued(&self) -> usize {
        if self.core.is_forked() {
            return 0;
        }
        self.core.sweep(Fate::Cancelled)
    }

    /// Waits for a moment with nothing queued and nothing running; by then the effects of those
    /// jobs are visible, and their captures and detached results are dropped. One such moment frees
    /// everybody who waits, whatever is submitted after it.
    ///
    /// # Panics
    /// On a thread of the pool, or in a destructor of something that a cancelled job of the pool had
    /// captured: the pool would wait for this very thread.
    pub fn wait_idle(&self) {
        assert!(
            !self.core.is_waiting_for_this_thread(),
            "wait_idle was called by a job of the pool it waits for, and would never return"
        );
        if !self.core.is_forked() {
            self.core.wait_idle(None);
        }
    }

    /// As [`wait_idle`](WorkerPool::wait_idle), for at most `timeout`. `false` if there was no such
    /// moment; always on a thread of the pool, and in a forked child.
    pub fn wait_idle_timeout(&self, timeout: Duration) -> bool {
        if self.core.is_waiting_for_this_thread() || self.core.is_forked() {
            return false;
        }
        self.core.wait_idle(Instant::now().checked_add(timeout))
    }

    /// Closes the pool, finishes all that was accepted, and joins the threads. Inside a job of the
    /// pool it closes and does not wait.
    pub fn shutdown(self) {
        // All of that is what dropping does.
    }

    /// Closes the pool, cancels what has not begun, finishes what runs, and joins the threads.
    /// Returns how many jobs were cancelled.
    pub fn shutdown_now(self) -> usize {
        self.close();
        self.cancel_queued()
    }

    /// As [`shutdown`](WorkerPool::shutdown), for at most `timeout`.
    ///
    /// # Errors
    /// When the time is up, jobs that are still queued settle as
    /// [`JobError::Discarded`](crate::JobError::Discarded); those that run finish on their own, and
    /// the threads end after them without being joined. The error holds both counts; a job of which
    /// only a detached result is still being dropped is in neither. What is awaited in time is the end
    /// of the jobs: stop hooks and destructors of thread-locals then take as long as they take.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        if self.core.is_waiting_for_this_thread() || self.core.is_forked() {
            return Ok(());
        }
        self.close();
        if self.core.wait_idle(Instant::now().checked_add(timeout)) {
            return Ok(());
        }
        let discarded = self.core.sweep(Fate::Discarded);
        let running = self.core.tally().running as usize;
        if discarded == 0 && self.core.is_idle() {
            // The last job finished just now.
            return Ok(());
        }
        self.is_detached = true;
        Err(ShutdownTimeout { discarded, running })
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        // A forked child has no threads to join, and locks that may be held for ever.
        if self.core.is_forked() {
            return;
        }
        self.core.close();
        if self.is_detached || self.core.is_waiting_for_this_thread() {
            return;
        }
        self.core.threads.join();
        if self.core.is_exhausted() {
            // The threads are long gone, but a cancelled job may still be dropping its captures.
            self.core.wait_idle(None);
        }
    }
}
