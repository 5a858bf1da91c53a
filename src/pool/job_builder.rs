//! Options for a single job.

use std::fmt;
use std::time::{Duration, Instant};

use super::core::Core;
use super::submit::{Options, Wait};
use super::tenant::{IntoTenant, TenantName};
use crate::admission::Who;
use crate::cancel::CancelToken;
use crate::error::SubmitError;
use crate::fair::{Priority, Weight};
use crate::job::JobHandle;

/// Options for one job: made by [`WorkerPool::job`](crate::WorkerPool::job), ended by one of the
/// submitting methods. Clone it to submit several alike. With the trait [`Submit`](crate::Submit) in
/// scope it can be mapped with, too: each item's job then has these options.
///
/// ```
/// use fairlane::{CancelToken, JobError, WorkerPool};
/// use std::time::{Duration, Instant};
///
/// let pool = WorkerPool::new(1)?;
/// let token = CancelToken::new();
/// let late = Instant::now() - Duration::from_secs(1);
/// let job = pool.job().cancel_token(&token).deadline(late).submit(|| 1).unwrap();
/// assert!(matches!(job.join(), Err(JobError::Expired)));
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is submitted until one of the submitting methods is called"]
pub struct JobBuilder<'a> {
    core: &'a Core,
    tenant: Option<TenantName>,
    weight: Option<Weight>,
    priority: Priority,
    token: Option<CancelToken>,
    deadline: Option<Instant>,
}

impl<'a> JobBuilder<'a> {
    pub(super) fn new(core: &'a Core) -> Self {
        JobBuilder {
            core,
            tenant: None,
            weight: None,
            priority: Priority::default(),
            token: None,
            deadline: None,
        }
    }

    fn options(&self) -> Options<'_> {
        let (who, name) = match &self.tenant {
            None => (Who::Nameless, ""),
            Some(TenantName::Text(name)) => (Who::Named(name), &**name),
            Some(TenantName::Handle(tenant)) => (tenant.who(self.core), tenant.name()),
        };
        let mut options = Options::of(who, name);
        options.request.weight = self.weight;
        options.request.priority = self.priority;
        options.token = self.token.as_ref();
        options.deadline = self.deadline;
        options
    }

    /// The tenant that the job belongs to, by name or by handle. Without one it belongs to the tenant
    /// `""`. **No effect on a pool without a limit**, and neither have weight and priority.
    pub fn tenant(mut self, tenant: impl IntoTenant) -> Self {
        // Where nobody asks, no name is allocated: it was 150 instructions of 510 for an `execute`.
        let is_asked_for = self.core.asks_for_tenants();
        self.tenant = is_asked_for.then(|| tenant.into_tenant());
        self
    }

    /// Sets the tenant's weight, if the job is accepted. The last weight given for a name counts.
    pub fn weight(mut self, weight: Weight) -> Self {
        self.weight = Some(weight);
        self
    }

    /// The job's priority among those of its tenant: higher ones first, equal ones in order of
    /// arrival. It never reaches across tenants.
    pub fn priority(mut self, priority: impl Into<Priority>) -> Self {
        self.priority = priority.into();
        self
    }

    /// Cancels the job when the token is cancelled, if it has not begun by then. With a token that
    /// is cancelled already, the job is accepted and never runs.
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.clone());
        self
    }

    /// The job settles as [`JobError::Expired`](crate::JobError::Expired) unless it begins before
    /// this. There is no timer: the deadline is looked at when the job would begin, and by whoever
    /// joins the job or asks whether it is finished.
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// As [`WorkerPool::submit`](crate::WorkerPool::submit).
    ///
    /// A token that is cancelled or a deadline that passes while this waits for room ends the wait;
    /// the job is then accepted, and its handle says what became of it.
    ///
    /// # Errors
    /// As there.
    pub fn submit<F, T>(self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::EVER, &self.options(), f)
    }

    /// As [`WorkerPool::try_submit`](crate::WorkerPool::try_submit).
    ///
    /// # Errors
    /// As there.
    pub fn try_submit<F, T>(self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::No, &self.options(), f)
    }

    /// As [`WorkerPool::submit_timeout`](crate::WorkerPool::submit_timeout).
    ///
    /// # Errors
    /// As there.
    pub fn submit_timeout<F, T>(
        self,
        timeout: Duration,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let wait = Wait::at_most(timeout);
        self.core.submit(wait, &self.options(), f)
    }

    /// As [`WorkerPool::execute`](crate::WorkerPool::execute). A job with a token or a deadline takes
    /// an allocation.
    ///
    /// # Errors
    /// As there.
    pub fn execute<F>(self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core.execute(Wait::EVER, &self.options(), f)
    }

    /// How many jobs can run at once.
    pub(crate) fn slots(&self) -> usize {
        self.core.slots.len()
    }
}

impl fmt::Debug for JobBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobBuilder")
            .field("tenant", &self.tenant)
            .field("weight", &self.weight)
            .field("priority", &self.priority)
            .field("token", &self.token)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
