//! One job on each worker.

use super::WorkerPool;
use super::core::Core;
use super::count::Count;
use crate::error::{JobError, SubmitError};
use crate::job::{Conditions, JobHandle, Witness};
use crate::sync::{Arc, thread};

impl WorkerPool {
    /// Calls `f` once on each worker with the index of its slot, waits for all of them, and returns
    /// what came of it, in the order of the slots: to warm up caches, to reset what a
    /// [`WorkerLocal`](crate::WorkerLocal) holds, to collect per-thread numbers.
    ///
    /// A worker comes to it when the job that it runs has ended, before anything else that is queued.
    /// Each call counts as a job of its slot, without a tenant. It takes part in no order of
    /// admission and waits for no limit: so for as long as it takes, a pool with a
    /// [`concurrency`](crate::PoolBuilder::concurrency) below its number of workers runs more than
    /// that. O(slots), and an allocation for each.
    ///
    /// What has not begun is cancelled by [`cancel_queued`](WorkerPool::cancel_queued), as any queued
    /// job, and is part of what [`shutdown`](WorkerPool::shutdown) finishes. A worker that is replaced
    /// after a panic leaves it to its successor.
    ///
    /// **Inside a job** of the same pool it works as well, with one worker too: the thread calls `f`
    /// for itself at once, and while it waits for the others it runs what other broadcasts ask of it,
    /// since two jobs that broadcast would wait for each other otherwise. This is the one case in
    /// which a wait inside a job runs something else than what it waits for: hold no lock that another
    /// broadcast's closure takes. And a job that waits for the broadcasting one keeps its own worker
    /// from ever coming to it: that is a deadlock.
    ///
    /// ```
    /// use fairlane::WorkerPool;
    /// let pool = WorkerPool::new(3)?;
    /// let squares = pool.broadcast(|slot| slot * slot).unwrap();
    /// assert!(squares.into_iter().map(Result::unwrap).eq([0, 1, 4]));
    /// # Ok::<(), fairlane::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The closure comes back if the pool is closed or no slot is left. In the results,
    /// [`JobError::Panicked`] for a worker on which it panicked, [`JobError::Cancelled`] for one
    /// that it was cancelled on, and [`JobError::Discarded`] for a slot that has been retired.
    pub fn broadcast<F, R>(&self, f: F) -> Result<Vec<Result<R, JobError>>, SubmitError<F>>
    where
        F: Fn(usize) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        let core = &*self.core;
        let live = match core.admit_on_all_slots() {
            Ok(live) => live,
            Err(reason) => return Err(SubmitError::new(reason, f)),
        };
        let count = Arc::new(Count::new());
        let f = Arc::new(f);
        let mut jobs: Vec<_> = (0..self.workers()).map(|_| None).collect();
        for slot in live {
            let f = Arc::clone(&f);
            jobs[slot] = Some(core.start_pinned(slot, &count, move || f(slot)));
        }
        core.await_pinned(&count);
        let outcome =
            |job: Option<JobHandle<R>>| job.map_or(Err(JobError::Discarded), JobHandle::join);
        Ok(jobs.into_iter().map(outcome).collect())
    }
}

impl Core {
    /// Queues a job that is counted in at `slot` for the thread of that slot.
    fn start_pinned<F, R>(&self, slot: usize, count: &Arc<Count>, f: F) -> JobHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        count.add();
        let conditions = Box::new(Conditions {
            witness: Some(Arc::clone(count) as Arc<dyn Witness>),
            ..Conditions::default()
        });
        let (job, handle) = JobHandle::queued(self.home(), slot, Some(conditions), f);
        self.pin(slot, job);
        handle
    }

    /// Waits until all jobs are gone. In a forked child they are the parent's.
    fn await_pinned(&self, count: &Count) {
        while count.get() > 0 && !self.is_forked() {
            if !self.run_pinned_here() {
                thread::park();
            }
        }
    }
}
