//! A tenant's way into a pool.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::WorkerPool;
use super::core::Core;
use super::job_builder::JobBuilder;
use super::submit::{Options, Wait};
use crate::admission::{Gate, Who};
use crate::error::SubmitError;
use crate::fair::{Id, Weight};
use crate::job::JobHandle;
use crate::ledger::Times;
use crate::sync::{Arc, AtomicU32, Ordering};

/// One of the parties that share a pool: a customer, a directory, a class of jobs.
///
/// Made by [`WorkerPool::tenant`]. On a pool with a limit ([`fair`](crate::PoolBuilder::fair) or
/// [`concurrency`](crate::PoolBuilder::concurrency)) each tenant has a lane of its own, ordered by
/// priority and arrival, and a weighted rotation between the lanes decides whose job enters the pool
/// next. A tenant that floods its lane makes its own jobs wait, and nobody else's: a tenant of weight
/// `w` gets at least `w` in every `W` turns, `W` being the sum of the weights of those who want one,
/// in an order as even as those weights allow. A tenant that is idle saves nothing up and costs
/// nothing. The rule is that of [`FairQueue`](crate::FairQueue).
///
/// **On a pool without a limit none of this exists**: jobs go straight to a slot, and tenant, weight,
/// priority and tenant limits have no effect.
///
/// Clones are the same tenant, and so are handles with the same name of one pool. Weight and limits
/// live as long as a handle or a job of the tenant does; after that it is forgotten, and a later
/// handle starts afresh. A handle does not keep the pool open: when the pool ends, submits are
/// refused.
///
/// ```
/// use fairlane::{Weight, WorkerPool};
///
/// let pool = WorkerPool::builder().workers(2).fair().build()?;
/// let paying = pool.tenant("paying").with_weight(Weight::new(3));
/// let trial = pool.tenant("trial").with_max_running(1);
/// let job = paying.submit(|| 6 * 7)?;
/// trial.execute(|| println!("in its own lane"))?;
/// assert_eq!(job.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct Tenant(Arc<Account>);

/// What the handles of one call of `tenant` share.
struct Account {
    core: Arc<Core>,
    name: Box<str>,
    /// With a limit: the tenant's number at the gate.
    id: Option<Id>,
    /// Without one: the weight, which is only remembered.
    weight: AtomicU32,
    /// Kept alive, not looked at.
    _times: Option<Arc<Times>>,
}

impl Account {
    fn at_gate(&self) -> Option<(&Gate, Id)> {
        if self.core.is_forked() {
            return None;
        }
        Some((self.core.gate.as_ref()?, self.id?))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some((gate, id)) = self.at_gate() {
            gate.close_account(id);
        }
    }
}

impl WorkerPool {
    /// The tenant called `name`. O(1).
    #[must_use]
    pub fn tenant(&self, name: &str) -> Tenant {
        let gate = self.core.gate.as_ref().filter(|_| !self.core.is_forked());
        Tenant(Arc::new(Account {
            id: gate.map(|gate| gate.open_account(name)),
            core: Arc::clone(&self.core),
            name: name.into(),
            weight: AtomicU32::new(Weight::default().get()),
            _times: gate.and_then(|_| self.core.times.as_ref()?.open(name)),
        }))
    }
}

impl Tenant {
    /// The tenant's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The tenant's weight, whoever set it last.
    #[must_use]
    pub fn weight(&self) -> Weight {
        match self.0.at_gate() {
            Some((gate, id)) => gate.weight(id),
            None => Weight::new(self.0.weight.load(Ordering::Relaxed)),
        }
    }

    /// Sets the tenant's weight, 1 by default. It counts for what is queued already. Of several
    /// weights given for one name, here or with a job, the last one counts. O(log of the distinct
    /// weights).
    pub fn set_weight(&self, weight: Weight) {
        match self.0.at_gate() {
            Some((gate, id)) => gate.set_weight(id, weight),
            None => self.0.weight.store(weight.get(), Ordering::Relaxed),
        }
    }

    /// As [`set_weight`](Tenant::set_weight), in a chain.
    #[must_use]
    pub fn with_weight(self, weight: Weight) -> Tenant {
        self.set_weight(weight);
        self
    }

    /// Limits how many of the tenant's jobs run at once. While it is at its limit its lane is passed
    /// over: it holds up nobody else, and earns no credit. Jobs run in place by a `join` count, and
    /// are not held back.
    ///
    /// This is the tool against long jobs: no order of admission helps the others once such jobs are on
    /// all slots, whether tenants are charged by count or by [CPU time](crate::Fairness::CpuTime). In a
    /// model of four slots shared by CPU time, two tenants send a job of 1 ms every 1.25 ms each, beside
    /// two with a backlog of jobs of 100 ms. The 99th percentile of a light job, from submit to end, is
    /// 52 ms, as all slots have gone to heavy jobs at some moment when nothing else was there; it is
    /// 216 ms if one heavy job in ten takes 500 ms and nobody knows which; and 1 ms, all the same, if
    /// each heavy tenant has a limit of 1. (`cargo test --test fair long_jobs -- --nocapture`)
    ///
    /// # Panics
    /// If `jobs` is 0.
    #[must_use]
    pub fn with_max_running(self, jobs: usize) -> Tenant {
        assert!(jobs > 0, "a tenant that may run nothing would never end");
        if let Some((gate, id)) = self.0.at_gate() {
            let tokens = gate.set_max_running(id, jobs);
            (0..tokens).for_each(|_| self.0.core.send_token());
            self.0.core.sweep_if_exhausted();
        }
        self
    }

    /// Limits how many of the tenant's jobs are queued. Beyond that its submits wait or fail, as
    /// with [`PoolBuilder::queue_limit`](crate::PoolBuilder::queue_limit), and hold up nobody else's.
    ///
    /// # Panics
    /// If `jobs` is 0.
    #[must_use]
    pub fn with_queue_limit(self, jobs: usize) -> Tenant {
        assert!(jobs > 0, "a tenant that may queue nothing would never run");
        if let Some((gate, id)) = self.0.at_gate() {
            gate.set_queue_limit(id, jobs);
        }
        self
    }

    /// Who submits, to the gate of `core`. A tenant of another pool counts by its name.
    pub(super) fn who<'a>(&'a self, core: &Core) -> Who<'a> {
        match self.0.id {
            Some(id) if std::ptr::eq(core, &*self.0.core) => Who::Known(id),
            _ => Who::Named(&self.0.name),
        }
    }

    pub(super) fn core(&self) -> &Core {
        &self.0.core
    }

    fn options(&self) -> Options<'_> {
        Options::of(self.who(&self.0.core), self.name())
    }

    /// As [`WorkerPool::submit`], into the tenant's lane. Waits while the pool's queue limit or the
    /// tenant's is reached.
    ///
    /// # Errors
    /// As there.
    pub fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.core.submit(Wait::EVER, &self.options(), f)
    }

    /// As [`WorkerPool::try_submit`], into the tenant's lane.
    ///
    /// # Errors
    /// As there.
    pub fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.core.submit(Wait::No, &self.options(), f)
    }

    /// As [`WorkerPool::submit_timeout`], into the tenant's lane.
    ///
    /// # Errors
    /// As there.
    pub fn submit_timeout<F, T>(
        &self,
        timeout: Duration,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let wait = Wait::at_most(timeout);
        self.0.core.submit(wait, &self.options(), f)
    }

    /// As [`WorkerPool::execute`], into the tenant's lane.
    ///
    /// # Errors
    /// As there.
    pub fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.0.core.execute(Wait::EVER, &self.options(), f)
    }

    /// A job of this tenant with options.
    pub fn job(&self) -> JobBuilder<'_> {
        JobBuilder::new(&self.0.core).tenant(self)
    }

    /// How many jobs can run at once.
    pub(crate) fn slots(&self) -> usize {
        self.0.core.slots.len()
    }
}

// As for the pool.
impl UnwindSafe for Tenant {}
impl RefUnwindSafe for Tenant {}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Whatever names a tenant: text, or a [`Tenant`] of this pool or another.
///
/// A tenant of another pool counts by its name. The trait is sealed.
pub trait IntoTenant: sealed::Sealed {
    #[doc(hidden)]
    fn into_tenant(self) -> TenantName;
}

/// What an [`IntoTenant`] comes to.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum TenantName {
    /// By name.
    Text(Arc<str>),
    /// By handle.
    Handle(Tenant),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &str {}
    impl Sealed for &String {}
    impl Sealed for String {}
    impl Sealed for &super::Tenant {}
    impl Sealed for super::Tenant {}
}

macro_rules! names_tenant {
    ($($type:ty: $self:ident => $name:expr),+ $(,)?) => {$(
        impl IntoTenant for $type {
            fn into_tenant($self) -> TenantName {
                $name
            }
        }
    )+};
}

names_tenant! {
    &str: self => TenantName::Text(self.into()),
    &String: self => TenantName::Text(self.as_str().into()),
    String: self => TenantName::Text(self.into()),
    &Tenant: self => TenantName::Handle(self.clone()),
    Tenant: self => TenantName::Handle(self),
}
