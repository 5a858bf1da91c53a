//! The pool as users see it.
//!
//! `core` is what its threads share with it, `threads` how they start and end, `phase` how far it is
//! on its way out, `submit` how a closure becomes a job, `builder`, `job_builder` and `stats` what
//! their names say.

mod broadcast;
mod builder;
mod core;
mod count;
mod job_builder;
mod lifecycle;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod phase;
mod scope;
mod stats;
mod submit;
mod tenant;
mod threads;

pub use builder::{Fairness, Nested, PanicPolicy, PoolBuilder};
pub use job_builder::JobBuilder;
pub use scope::{Scope, ScopedJobHandle};
pub use stats::{Latency, PoolStats, SlotStats, TenantStats};
pub use tenant::{IntoTenant, Tenant};

pub(crate) use builder::{Hook, Settings};

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use self::core::Core;
use crate::error::BuildError;
use crate::sync::Arc;

/// A pool of threads that run closures.
///
/// Each thread is a *slot* with a count of pending jobs; a [`Strategy`](crate::Strategy) decides
/// which slot gets the next job, and an idle slot takes over what waits on a busy one. Closures are
/// submitted from plain synchronous code:
///
/// ```
/// use fairlane::WorkerPool;
///
/// let pool = WorkerPool::new(4)?;
/// let job = pool.submit(|| 6 * 7).unwrap();
/// assert_eq!(job.join().unwrap(), 42);
/// # Ok::<(), fairlane::BuildError>(())
/// ```
///
/// The pool is shared by reference or in an `Arc`. Dropping it is [`shutdown`](WorkerPool::shutdown):
/// it finishes what was accepted and joins its threads. Dropped inside one of its own jobs, or along
/// with what a cancelled job of it had captured, it closes and does not wait, since it would wait for
/// itself.
///
/// In a forked child the threads do not exist: every submit is refused there with
/// [`Rejected::Forked`](crate::Rejected::Forked), waiting for the pool returns at once, and dropping
/// it does nothing.
pub struct WorkerPool {
    core: Arc<Core>,
    /// Dropping it joins no threads any more.
    is_detached: bool,
}

impl WorkerPool {
    /// A pool with so many threads and otherwise the defaults of [`PoolBuilder`].
    ///
    /// # Errors
    /// As [`PoolBuilder::build`].
    pub fn new(workers: usize) -> Result<WorkerPool, BuildError> {
        WorkerPool::builder().workers(workers).build()
    }

    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn gate(&self) -> Option<&crate::admission::Gate> {
        self.core.gate.as_ref()
    }

    /// A pool to be configured.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    /// How many slots the pool was built with.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.core.slots.len()
    }
}

// Whatever its references share is changed by atomics, or under locks under which no user's code runs:
// no panic leaves it half changed.
impl UnwindSafe for WorkerPool {}
impl RefUnwindSafe for WorkerPool {}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool")
            .field("name", &self.core.settings.name)
            .field("workers", &self.workers())
            .field("strategy", &self.core.settings.strategy)
            .finish_non_exhaustive()
    }
}
