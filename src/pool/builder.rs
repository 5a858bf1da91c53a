//! What can be chosen when a pool is built.

use std::fmt;

use super::WorkerPool;
use super::core::Core;
use super::threads::start_all;
use crate::error::BuildError;
use crate::fork;
use crate::strategy::Strategy;
use crate::sync::{Arc, Deque};

/// What a panic in a job does to the thread it happened on.
///
/// ```
/// use fairlane::{PanicPolicy, WorkerPool};
///
/// let restart = PanicPolicy::Restart { max_restarts: 100 };
/// let pool = WorkerPool::builder().workers(1).on_panic(restart).build()?;
/// assert!(pool.submit(|| panic!("the thread ends")).unwrap().join().is_err());
/// assert_eq!(pool.submit(|| "a new one").unwrap().join().unwrap(), "a new one");
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PanicPolicy {
    /// Nothing: the panic is caught, and the thread goes on with the next job.
    #[default]
    Keep,
    /// The slot gets a fresh thread, for jobs that may leave broken thread-local state behind.
    ///
    /// The budget is the pool's, for its whole life. When it is used up, the slot of the next panic
    /// is retired: the others take over what waits there. With no slot left, submits fail with
    /// [`Rejected::RestartExhausted`](crate::Rejected::RestartExhausted), and what waits settles as
    /// [`JobError::Discarded`](crate::JobError::Discarded). If the system cannot start a thread, the
    /// old one goes on. A job that was run in place by a `join` is part of the job that joined it:
    /// its panic restarts nothing.
    Restart {
        /// How many threads may be replaced.
        max_restarts: u32,
    },
}

/// Where the jobs go that a job submits to its own pool.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Nested {
    /// Where the strategy says, as from outside.
    #[default]
    Strategy,
    /// To the slot that the submitting job runs on, last in, first out. For trees of jobs that spawn
    /// jobs: about twice as fast, as children find their parent's data in the cache. Idle slots take
    /// the oldest ones over.
    Local,
}

/// What a tenant is charged for a job, which decides how soon it gets the next one.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fairness {
    /// One a job: tenants share the number of jobs that begin, whatever those take. Right where jobs
    /// are alike, and the cheapest.
    #[default]
    Jobs,
    /// The CPU time that the job used: tenants share that, and who sends jobs of 100 ms gets one where
    /// another gets a hundred of 1 ms.
    ///
    /// The rule is that of [`FairQueue::by_cost`](crate::FairQueue::by_cost): a job is charged what its
    /// tenant's jobs have been costing when it begins, and what it has used when it has ended, a panic
    /// included. One that is cancelled or expires before it begins is charged nothing. One that a `join`
    /// runs in place is charged to its own tenant, not to that of the job that joins it. While two
    /// tenants have a backlog, none of that lets one get ahead of the other by more than what the
    /// costliest job takes, with all that run in place in its midst, once for each slot and once more,
    /// divided by the smaller of the two weights. Who lets its lane run empty keeps its debt, for as long as
    /// it has one. All debts are void once nothing is queued or runs any more, and with
    /// [`cancel_queued`](crate::WorkerPool::cancel_queued), as is then what running jobs have used.
    ///
    /// Time is that of the thread's CPU clock, from one job's end to the next one's, so what the pool
    /// does between two jobs is charged with the later one: the earlier one's result is published, and
    /// the next job fetched, for which a thread may spin for up to a hundred microseconds while others
    /// fetch theirs. Dropping what a job has captured is part of the job. A result or a panic that nobody
    /// is there to take, and what an expired job had captured, a worker drops between two jobs at nobody's
    /// expense. [Broadcasts](crate::WorkerPool::broadcast) belong to nobody, in the midst of a job too.
    /// Sleeping costs nothing. Threads that a job starts are not seen.
    ///
    /// This is so on Linux, Android, Apple's systems, FreeBSD and illumos; elsewhere, as on Windows, wall
    /// time is charged instead. The clock costs a system call a job.
    ///
    /// A job that has begun is not interrupted. Where light tenants come and go, all slots may be taken
    /// by long jobs at a moment when nothing else is queued. No charge helps against that, only a limit:
    /// see [`Tenant::with_max_running`](crate::Tenant::with_max_running).
    CpuTime,
}

/// More threads than systems are set up for; asking for them is a mistake that should not end in an
/// allocation that fails.
const MAX_WORKERS: usize = 1 << 16;

/// A concurrency that no pool of fewer workers exceeds.
const FAIR: usize = usize::MAX;

pub(crate) type Hook = Box<dyn Fn(usize) + Send + Sync>;

/// All choices, checked.
pub(crate) struct Settings {
    pub(super) name: String,
    pub(super) strategy: Strategy,
    pub(super) nested: Nested,
    /// How many jobs may be in the pool at once; [`FAIR`] means as many as there are workers.
    pub(super) concurrency: Option<usize>,
    pub(super) fairness: Fairness,
    pub(super) ageing: Option<u32>,
    pub(super) queue_limit: Option<usize>,
    pub(super) on_panic: PanicPolicy,
    pub(super) stack_size: Option<usize>,
    pub(super) timings: bool,
    pub(super) on_thread_start: Option<Hook>,
    pub(super) on_thread_stop: Option<Hook>,
}

/// Configures a [`WorkerPool`]. The order of calls does not matter.
///
/// ```
/// use fairlane::{Strategy, WorkerPool};
/// let pool = WorkerPool::builder()
///     .workers(2)
///     .strategy(Strategy::RoundRobin)
///     .queue_limit(1_000)
///     .name("thumbnails")
///     .build()?;
/// assert_eq!(pool.workers(), 2);
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct PoolBuilder {
    workers: Option<usize>,
    settings: Settings,
}

impl PoolBuilder {
    pub(super) fn new() -> PoolBuilder {
        PoolBuilder {
            workers: None,
            settings: Settings {
                name: "fairlane".to_owned(),
                strategy: Strategy::default(),
                nested: Nested::default(),
                concurrency: None,
                fairness: Fairness::default(),
                ageing: None,
                queue_limit: None,
                on_panic: PanicPolicy::default(),
                stack_size: None,
                timings: false,
                on_thread_start: None,
                on_thread_stop: None,
            },
        }
    }

    /// The number of threads. By default as many as this process has cores at its disposal:
    /// affinity masks and container quotas are respected.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How the slot for a job is chosen; [`Strategy::LeastBusy`] by default.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.settings.strategy = strategy;
        self
    }

    /// Limits how many jobs are in the pool at once, and makes tenants count: the others wait in
    /// their tenant's lane, and a weighted rotation between the lanes decides who enters when one
    /// leaves. See [`Tenant`](crate::Tenant).
    ///
    /// A limit above the number of workers admits as many as there are workers. Without a limit, the
    /// default, there are no lanes: **tenants, weights, priorities and tenant limits then have no
    /// effect**, and each job goes straight to a slot. Of this and [`fair`](PoolBuilder::fair) the
    /// last call wins.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.settings.concurrency = Some(jobs);
        self
    }

    /// As [`concurrency`](PoolBuilder::concurrency) with the number of workers: every worker is
    /// used, and tenants share them fairly.
    pub fn fair(self) -> Self {
        self.concurrency(FAIR)
    }

    /// What a tenant is charged for a job; [`Fairness::Jobs`] by default. No effect without a limit.
    ///
    /// ```
    /// use fairlane::{Fairness, WorkerPool};
    /// let pool = WorkerPool::builder()
    ///     .workers(2)
    ///     .fair()
    ///     .fairness(Fairness::CpuTime)
    ///     .build()?;
    /// # drop(pool);
    /// # Ok::<(), fairlane::BuildError>(())
    /// ```
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.settings.fairness = fairness;
        self
    }

    /// Lets priorities age inside a lane: job number `a` of a lane, of priority `p`, is served in the
    /// order of `a − boost · p`. So a job is overtaken by at most `boost · (q − p)` later ones of a
    /// higher priority `q`, where otherwise it waits for as long as there are any. Off by default;
    /// no effect without a limit.
    ///
    /// The algorithm is [`FairQueue::with_ageing`](crate::FairQueue::with_ageing).
    pub fn ageing(mut self, boost: u32) -> Self {
        self.settings.ageing = Some(boost);
        self
    }

    /// How many jobs may be queued, that is accepted and not begun. Beyond that `submit` waits and
    /// `try_submit` fails. Those who wait are served first come, first served. Unlimited by default: a
    /// submitter that is faster than the pool then fills the memory.
    ///
    /// The limit is everybody's: one flood can fill it, and the others then wait in line with it. Give
    /// tenants limits of their own beside it, with [`Tenant::with_queue_limit`](crate::Tenant::with_queue_limit).
    pub fn queue_limit(mut self, jobs: usize) -> Self {
        self.settings.queue_limit = Some(jobs);
        self
    }

    /// Where a job's own submits go; [`Nested::Strategy`] by default. No effect with a limit.
    pub fn nested(mut self, nested: Nested) -> Self {
        self.settings.nested = nested;
        self
    }

    /// What a panic does to the thread it happened on; [`PanicPolicy::Keep`] by default.
    pub fn on_panic(mut self, policy: PanicPolicy) -> Self {
        self.settings.on_panic = policy;
        self
    }

    /// The pool's name, `"fairlane"` by default. Slots are called `w0`, `w1` and so on, their
    /// threads `NAME-w0`, `NAME-w1`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Measures how long jobs wait and run, and how long slots are busy, for
    /// [`stats`](WorkerPool::stats) to tell. Off by default: then no clock is read, and nothing else is
    /// done for it either.
    ///
    /// On, each job takes an allocation and three clock readings more, and each party (the pool, and with
    /// a limit each live tenant) about 1 KB. Times are kept in buckets; quantiles are off by at most an
    /// eighth, see [`Latency`](crate::Latency). The calls of a
    /// [`broadcast`](WorkerPool::broadcast) are not measured.
    pub fn timings(mut self, on: bool) -> Self {
        self.settings.timings = on;
        self
    }

    /// The stack size of each thread in bytes; by default that of `std::thread`.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.settings.stack_size = Some(bytes);
        self
    }

    /// Called on each thread with its slot's index before its first job, once all threads exist. A
    /// panic in it is swallowed.
    pub fn on_thread_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.settings.on_thread_start = Some(Box::new(hook));
        self
    }

    /// Called on each thread with its slot's index after its last job. A panic in it is swallowed.
    pub fn on_thread_stop(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.settings.on_thread_stop = Some(Box::new(hook));
        self
    }

    /// Builds the pool and starts its threads: all of them or none.
    ///
    /// # Errors
    /// [`BuildError`] if a number is 0, there are more than 65,536 workers, the name holds a NUL byte,
    /// or a thread cannot be started; in that case those already started have ended.
    pub fn build(self) -> Result<WorkerPool, BuildError> {
        let PoolBuilder { workers, settings } = self;
        let workers = workers.unwrap_or_else(num_cpus::get);
        if workers == 0 {
            return Err(BuildError::NoWorkers);
        }
        if workers > MAX_WORKERS {
            return Err(BuildError::TooManyWorkers);
        }
        if settings.concurrency == Some(0) {
            return Err(BuildError::NoConcurrency);
        }
        if settings.queue_limit == Some(0) {
            return Err(BuildError::NoQueueLimit);
        }
        if settings.name.contains('\0') {
            return Err(BuildError::InvalidName);
        }
        fork::watch();
        let new_deque = match settings.nested {
            Nested::Strategy => Deque::new_fifo,
            Nested::Local => Deque::new_lifo,
        };
        let deques: Vec<_> = (0..workers).map(|_| new_deque()).collect();
        let core = Core::new(settings, &deques);
        start_all(&core, deques)?;
        Ok(WorkerPool {
            core: Arc::clone(&core),
            is_detached: false,
        })
    }
}

impl Default for PoolBuilder {
    fn default() -> Self {
        PoolBuilder::new()
    }
}

impl fmt::Debug for PoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("workers", &self.workers)
            .field("name", &self.settings.name)
            .field("strategy", &self.settings.strategy)
            .finish_non_exhaustive()
    }
}
