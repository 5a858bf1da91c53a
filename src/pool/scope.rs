//! Jobs that borrow from the function that submits them, in the manner of `std::thread::scope`.
//!
//! What makes it sound is that [`run`] does not return before every job of the scope is gone: it has
//! run or been dropped, with all its captures, and its result is either dropped or in the hands of a
//! [`ScopedJobHandle`], which cannot leave the scope. A counter says when that is so, and the jobs
//! themselves lower it, last thing. It does not depend on any destructor of the user's side: a leaked
//! handle leaks a result, and keeps its job from being run in place when the scope ends.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;

use super::WorkerPool;
use super::core::Core;
use super::count::Count;
use super::tenant::Tenant;
use crate::admission::Who;
use crate::error::{JobError, PanicPayload, SubmitError};
use crate::job::{JobHandle, Witness};
use crate::sync::{Arc, Mutex, thread};
use crate::unwind;

/// Submits jobs that may borrow; made by [`WorkerPool::scope`].
///
/// The lifetimes are those of `std::thread::Scope`: `'scope` is the time in which jobs may be
/// submitted and run, `'env` that of what they borrow from outside.
pub struct Scope<'scope, 'env: 'scope> {
    jobs: Jobs<'scope>,
    core: &'scope Core,
    who: (Who<'scope>, &'scope str),
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What the handles of a scope share with it.
struct Jobs<'scope> {
    count: Arc<Count>,
    /// Jobs that nobody will join: their panics are the scope's to raise.
    ///
    /// `ManuallyDrop`, because a scope is borrowed for its own `'scope`, which nothing in it may need
    /// while it is dropped. The list is empty by then, which `run` sees to.
    unjoined: ManuallyDrop<Mutex<List<'scope>>>,
    panic: Mutex<Option<PanicPayload>>,
}

type Job<'scope> = Box<dyn Unjoined + 'scope>;

/// Unjoined jobs. Its length follows the jobs that are out.
struct List<'scope> {
    jobs: Vec<Job<'scope>>,
    /// At this length it is cleared of what has finished: O(1) a job, since as many have come since
    /// the last time as were left then.
    clear_at: usize,
}

impl<'scope> List<'scope> {
    const SHORT: usize = 16;

    fn new() -> List<'scope> {
        List {
            jobs: Vec::new(),
            clear_at: Self::SHORT,
        }
    }

    /// Adds a job; returns jobs that have finished, if it was time to look for some.
    fn add(&mut self, job: Job<'scope>) -> Vec<Job<'scope>> {
        let mut finished = Vec::new();
        if self.jobs.len() >= self.clear_at {
            let (gone, out) = self.jobs.drain(..).partition(|job| job.is_finished());
            (finished, self.jobs) = (gone, out);
            self.clear_at = (self.jobs.len() * 2).max(Self::SHORT);
        }
        self.jobs.push(job);
        finished
    }

    fn take(&mut self) -> Vec<Job<'scope>> {
        std::mem::take(&mut self.jobs)
    }
}

/// A job whose handle was dropped, of whatever type.
trait Unjoined: Send {
    /// See [`JobHandle::advance`].
    fn advance(&self) -> bool;
    fn is_finished(&self) -> bool;
    fn panic(self: Box<Self>) -> Option<PanicPayload>;
}

impl<T: Send> Unjoined for JobHandle<T> {
    fn advance(&self) -> bool {
        JobHandle::advance(self)
    }

    fn is_finished(&self) -> bool {
        JobHandle::is_finished(self)
    }

    fn panic(self: Box<Self>) -> Option<PanicPayload> {
        match self.join() {
            Ok(result) => {
                unwind::discard(result);
                None
            }
            Err(JobError::Panicked(payload)) => Some(payload),
            Err(_) => None,
        }
    }
}

impl<'scope> Jobs<'scope> {
    fn new() -> Jobs<'scope> {
        Jobs {
            count: Arc::new(Count::new()),
            unjoined: ManuallyDrop::new(Mutex::new(List::new())),
            panic: Mutex::new(None),
        }
    }

    /// Keeps a job that nobody will join. The owner may be waiting on a thread of the pool, and the
    /// only one who can run it: so it is told.
    fn keep(&self, job: Job<'scope>) {
        let finished = self.unjoined.lock().add(job);
        self.collect(finished);
        self.count.wake_owner();
    }

    /// Takes the panics out of finished jobs; the first one is kept.
    fn collect(&self, finished: Vec<Job<'scope>>) {
        for payload in finished.into_iter().filter_map(Unjoined::panic) {
            let spare = {
                let mut first = self.panic.lock();
                match &*first {
                    Some(_) => Some(payload),
                    None => first.replace(payload),
                }
            };
            drop(spare);
        }
    }

    /// Waits until all jobs are gone. On a thread of the pool, those that are still queued run here,
    /// and one that is sweeping the pool withdraws them: there may be nobody else to do it. In a
    /// forked child the jobs are the parent's, and nobody here will touch what they borrow.
    fn wait(&self, core: &Core) {
        while self.count.get() > 0 && !core.is_forked() {
            if !self.advance_queued() {
                thread::park();
            }
        }
    }

    /// Waits until nothing is left of the scope.
    ///
    /// Dropping the result of a job that nobody joined runs user code, which may submit to the scope
    /// again. So the end is when a look at the list finds it empty after the count was zero: whoever
    /// adds to the list does so before its job can be gone, and nobody is left to add to it.
    fn finish(&self, core: &Core) {
        loop {
            self.wait(core);
            let jobs = self.unjoined.lock().take();
            if jobs.is_empty() {
                return;
            }
            self.collect(jobs);
        }
    }

    /// Gets the queued jobs of the scope on that may wait for this very thread. `false` if there were
    /// none.
    fn advance_queued(&self) -> bool {
        // Taken out, since user code runs under no lock.
        let mut jobs = self.unjoined.lock().take();
        let advanced = jobs.iter().filter(|job| job.advance()).count();
        self.unjoined.lock().jobs.append(&mut jobs);
        advanced > 0
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Accepts a closure that may borrow, and whose result is of no interest. Waits like
    /// [`WorkerPool::submit`]. A panic in it is raised again when the scope ends.
    ///
    /// # Errors
    /// As `submit`.
    pub fn execute<F>(&'scope self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'scope,
    {
        let job = self.start(f)?;
        self.jobs.keep(Box::new(job));
        Ok(())
    }

    /// Accepts a closure that may borrow, and returns a handle to its result.
    ///
    /// # Errors
    /// As [`WorkerPool::submit`]. The error holds the closure and what it borrows, so to carry it out of
    /// the scope with `?`, make a [`Rejected`](crate::Rejected) of it:
    ///
    /// ```
    /// use fairlane::{Rejected, WorkerPool};
    ///
    /// fn total(pool: &WorkerPool, numbers: &[u64]) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    ///     pool.scope(|scope| {
    ///         let sum = scope.submit(|| numbers.iter().sum()).map_err(Rejected::from)?;
    ///         Ok(sum.join()?)
    ///     })
    /// }
    /// assert_eq!(total(&WorkerPool::new(1)?, &[20, 22])?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn submit<F, T>(&'scope self, f: F) -> Result<ScopedJobHandle<'scope, T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Ok(ScopedJobHandle {
            job: Some(self.start(f)?),
            jobs: &self.jobs,
        })
    }

    #[allow(unsafe_code)]
    fn start<F, T>(&'scope self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let count = &self.jobs.count;
        // Before the job can be gone. The scope does not end meanwhile: this runs in it.
        count.add();
        let witness = Arc::clone(count) as Arc<dyn Witness>;
        // SAFETY: whatever lives for `'scope` outlives the call of `run` that made this scope, which
        // waits until the count is zero. The job lowers it when it is gone.
        let started = unsafe { self.core.submit_borrowing(self.who, witness, f) };
        if started.is_err() {
            count.job_gone();
        }
        started
    }
}

/// Runs `f` with a new scope, and waits for the scope's jobs.
fn run<'env, R>(
    core: &Core,
    who: (Who<'_>, &str),
    f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    let scope = Scope {
        jobs: Jobs::new(),
        core,
        who,
        scope: PhantomData,
        env: PhantomData,
    };
    let result = unwind::run(|| f(&scope));
    scope.jobs.finish(core);
    let panic = scope.jobs.panic.lock().take();
    match (result, panic) {
        (Err(payload), _) => resume_unwind(payload),
        (Ok(result), Some(payload)) => {
            unwind::discard(result);
            resume_unwind(payload.into_inner())
        }
        (Ok(result), None) => result,
    }
}

impl WorkerPool {
    /// Calls `f` with a scope whose jobs may borrow, and waits until all of them are gone, even if
    /// `f` panics. Shaped like `std::thread::scope`.
    ///
    /// Inside a job of the same pool it works as well: jobs of the scope that are still queued when
    /// it ends run in place, and no others; not those whose handle was leaked, though. In a forked
    /// child nothing is accepted.
    ///
    /// A job that somebody calls off, by [`cancel_queued`](WorkerPool::cancel_queued) for one, is gone
    /// as well, and nothing is raised for it. Who has to know whether all of them ran joins them.
    ///
    /// ```
    /// use fairlane::WorkerPool;
    /// let pool = WorkerPool::new(2)?;
    /// let mut halves = [1, 2, 3, 4];
    /// let (left, right) = halves.split_at_mut(2);
    /// pool.scope(|scope| {
    ///     scope.execute(|| left.reverse()).unwrap();
    ///     let sum = scope.submit(|| right.iter().sum::<i32>()).unwrap();
    ///     assert_eq!(sum.join().unwrap(), 7);
    /// });
    /// assert_eq!(halves, [2, 1, 3, 4]);
    /// # Ok::<(), fairlane::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// With the panic of `f`, or else with that of a job which nobody joined: the first one found.
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        run(&self.core, (Who::Nameless, ""), f)
    }
}

impl Tenant {
    /// As [`WorkerPool::scope`], with jobs of this tenant.
    ///
    /// # Panics
    /// As there.
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> R {
        run(self.core(), (self.who(self.core()), self.name()), f)
    }
}

/// A job of a [`Scope`]. Dropping it leaves the job to the scope, which waits for it and raises its
/// panic.
#[must_use = "dropping the handle leaves the job to the scope: use `execute` if the result is of no interest"]
pub struct ScopedJobHandle<'scope, T: Send + 'scope> {
    /// `None` once joined.
    job: Option<JobHandle<T>>,
    jobs: &'scope Jobs<'scope>,
}

impl<'scope, T: Send + 'scope> ScopedJobHandle<'scope, T> {
    /// As [`JobHandle::join`].
    ///
    /// # Errors
    /// As there. A panic that comes out here is not raised again by the scope.
    pub fn join(mut self) -> Result<T, JobError> {
        let job = self.job.take().expect("only join takes the job");
        job.join()
    }

    /// As [`JobHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.job.as_ref().is_some_and(JobHandle::is_finished)
    }

    /// As [`JobHandle::cancel`].
    pub fn cancel(&self) -> bool {
        self.job.as_ref().is_some_and(JobHandle::cancel)
    }
}

impl<'scope, T: Send + 'scope> Drop for ScopedJobHandle<'scope, T> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.jobs.keep(Box::new(job));
        }
    }
}

impl<'scope, T: Send + 'scope> fmt::Debug for ScopedJobHandle<'scope, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJobHandle")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("jobs", &self.jobs.count.get())
            .finish_non_exhaustive()
    }
}
