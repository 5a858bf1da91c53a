//! How a closure becomes a job.

use std::time::{Duration, Instant};

use super::WorkerPool;
use super::core::Core;
use super::job_builder::JobBuilder;
use crate::admission::{Request, Who};
use crate::cancel::CancelToken;
use crate::error::{Rejected, SubmitError};
use crate::fair::{Id, Priority};
use crate::job::{Conditions, Job, JobHandle, Watch, Watched, Witness, detached, is_traced};
use crate::ledger::{Entry, Fate, Seat};
use crate::sync::Arc;
use crate::unwind;

/// What a submit does when a queue limit is reached.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    No,
    Until(Option<Instant>),
}

impl Wait {
    /// Waits as long as it takes.
    pub(super) const EVER: Wait = Wait::Until(None);

    /// A time too far away to be expressed is never.
    pub(super) fn at_most(timeout: Duration) -> Wait {
        Wait::Until(Instant::now().checked_add(timeout))
    }
}

/// What is asked for of a single job.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    /// The tenant's name.
    pub(super) tenant: &'a str,
    pub(super) request: Request<'a>,
    pub(super) token: Option<&'a CancelToken>,
    pub(super) deadline: Option<Instant>,
}

impl<'a> Options<'a> {
    pub(super) fn of(who: Who<'a>, tenant: &'a str) -> Self {
        Options {
            tenant,
            request: Request {
                who,
                weight: None,
                priority: Priority::default(),
            },
            token: None,
            deadline: None,
        }
    }

    /// Nothing special.
    pub(super) const PLAIN: Options<'static> = Options {
        tenant: "",
        request: Request {
            who: Who::Nameless,
            weight: None,
            priority: Priority::NORMAL,
        },
        token: None,
        deadline: None,
    };

    fn has_conditions(&self) -> bool {
        self.token.is_some() || self.deadline.is_some()
    }

    /// What becomes of a job that cannot begin any more.
    fn fate(&self) -> Option<Fate> {
        if self.token.is_some_and(CancelToken::is_cancelled) {
            Some(Fate::Cancelled)
        } else if self.deadline.is_some_and(|at| at <= Instant::now()) {
            Some(Fate::Expired)
        } else {
            None
        }
    }
}

/// A job that is counted in.
struct Accepted {
    /// Where it is counted.
    slot: usize,
    /// The tenant for whom the gate has reserved room, if it had to.
    reserved: Option<Id>,
}

/// Why a closure was not queued.
enum Refusal {
    /// It goes back to its owner.
    Rejected(Rejected),
    /// It was accepted in this slot, and settles at once.
    Settled { slot: usize, fate: Fate },
}

impl Core {
    #[inline(always)]
    fn conditions(&self, options: &Options<'_>) -> Option<Box<Conditions>> {
        let is_plain = !options.has_conditions() && !self.is_watched();
        (!is_plain).then(|| self.boxed_conditions(options))
    }

    #[cold]
    fn boxed_conditions(&self, options: &Options<'_>) -> Box<Conditions> {
        Box::new(Conditions {
            deadline: options.deadline,
            subscription: options.token.map(CancelToken::subscription),
            witness: None,
            watch: self.watch(options),
        })
    }

    /// Whether somebody wants to know what jobs do.
    #[inline]
    fn is_watched(&self) -> bool {
        self.times.is_some() || is_traced()
    }

    /// Whether anybody asks whose job it is.
    pub(super) fn asks_for_tenants(&self) -> bool {
        self.gate.is_some() || self.times.is_some() || cfg!(feature = "tracing")
    }

    fn watch(&self, options: &Options<'_>) -> Option<Watch> {
        let job = Watched {
            pool: &self.settings.name,
            tenant: options.tenant,
            priority: options.request.priority.0,
            times: self.times.as_ref(),
        };
        self.is_watched().then(|| Watch::new(job))
    }

    #[inline]
    pub(super) fn submit<F, T>(
        &self,
        wait: Wait,
        options: &Options<'_>,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.enter(wait, options) {
            Ok(accepted) => {
                let conditions = self.conditions(options);
                let (job, handle) = JobHandle::queued(self.home(), accepted.slot, conditions, f);
                self.queue(accepted, options, job);
                Ok(handle)
            }
            Err(Refusal::Rejected(reason)) => Err(SubmitError::new(reason, f)),
            Err(Refusal::Settled { slot, fate }) => {
                Ok(self.settle_unqueued(slot, fate, || JobHandle::refused(fate, f)))
            }
        }
    }

    #[inline]
    pub(super) fn execute<F>(
        &self,
        wait: Wait,
        options: &Options<'_>,
        f: F,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        match self.enter(wait, options) {
            Ok(accepted) => {
                let job = match self.conditions(options) {
                    None => Job::new(f),
                    Some(conditions) => detached(self.home(), accepted.slot, conditions, f),
                };
                self.queue(accepted, options, job);
                Ok(())
            }
            Err(Refusal::Rejected(reason)) => Err(SubmitError::new(reason, f)),
            Err(Refusal::Settled { slot, fate }) => {
                self.settle_unqueued(slot, fate, || unwind::discard(f));
                Ok(())
            }
        }
    }

    /// As [`Core::submit`] with nothing special but the tenant, for a closure that may borrow.
    ///
    /// # Safety
    /// What the closure and the result borrow outlives the job, until `witness` is told that it is
    /// gone. It is told once for each job that was accepted.
    #[allow(unsafe_code)]
    pub(super) unsafe fn submit_borrowing<F, T>(
        &self,
        (who, tenant): (Who<'_>, &str),
        witness: Arc<dyn Witness>,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let options = Options::of(who, tenant);
        let accepted = match self.enter(Wait::EVER, &options) {
            Ok(accepted) => accepted,
            Err(Refusal::Rejected(reason)) => return Err(SubmitError::new(reason, f)),
            Err(Refusal::Settled { .. }) => unreachable!("it has neither token nor deadline"),
        };
        let conditions = Box::new(Conditions {
            witness: Some(witness),
            watch: self.watch(&options),
            ..Conditions::default()
        });
        // SAFETY: the caller's promise.
        let (job, handle) =
            unsafe { JobHandle::queued_borrowing(self.home(), accepted.slot, conditions, f) };
        self.queue(accepted, &options, job);
        Ok(handle)
    }

    #[inline(always)]
    fn queue(&self, accepted: Accepted, options: &Options<'_>, job: Job) {
        match &self.gate {
            None => self.push(accepted.slot, job),
            Some(gate) => self.push_gated(gate, options.request, accepted.reserved, job),
        }
    }

    /// Gets a job into the pool's counts. Inlined by force, like `queue`: most calls pass constant
    /// options, of which nothing is then left.
    #[inline(always)]
    fn enter(&self, wait: Wait, options: &Options<'_>) -> Result<Accepted, Refusal> {
        let has_room = match &self.gate {
            None => self.room.is_none(),
            Some(gate) => !gate.has_limits(),
        };
        if has_room && !options.has_conditions() {
            return self.accept(None);
        }
        self.enter_checked(wait, options, has_room)
    }

    #[inline]
    fn accept(&self, reserved: Option<Id>) -> Result<Accepted, Refusal> {
        match self.admit() {
            Ok(slot) => Ok(Accepted { slot, reserved }),
            Err(reason) => Err(Refusal::Rejected(reason)),
        }
    }

    /// In this order: is the pool open, can the job still begin, is there room.
    fn enter_checked(
        &self,
        wait: Wait,
        options: &Options<'_>,
        has_room: bool,
    ) -> Result<Accepted, Refusal> {
        if let Some(reason) = self.refusal() {
            return Err(Refusal::Rejected(reason));
        }
        if let Some(fate) = options.fate() {
            return Err(self.refuse(options, fate));
        }
        if has_room {
            return self.accept(None);
        }
        let (entry, reserved) = self.enter_room(wait, options);
        match entry {
            Entry::Granted => self
                .accept(reserved)
                .inspect_err(|_| self.leave_room(reserved)),
            Entry::Closed => {
                let reason = self.refusal().unwrap_or(Rejected::ShutDown);
                Err(Refusal::Rejected(reason))
            }
            Entry::Full | Entry::CalledOff => match options.fate() {
                Some(fate) => Err(self.refuse(options, fate)),
                None => Err(Refusal::Rejected(Rejected::Full)),
            },
        }
    }

    /// Accepts a job that settles at once.
    fn refuse(&self, options: &Options<'_>, fate: Fate) -> Refusal {
        match self.admit() {
            Ok(slot) => {
                if let Some(gate) = &self.gate {
                    gate.note(options.request);
                }
                Refusal::Settled { slot, fate }
            }
            Err(reason) => Refusal::Rejected(reason),
        }
    }

    /// Gives back what [`Core::enter_room`] granted.
    fn leave_room(&self, reserved: Option<Id>) {
        if let Some(room) = &self.room {
            room.leave();
        }
        if let (Some(gate), Some(id)) = (&self.gate, reserved) {
            gate.give_back(id);
        }
    }

    fn enter_room(&self, wait: Wait, options: &Options<'_>) -> (Entry, Option<Id>) {
        match wait {
            // A thread of the pool would wait for itself.
            Wait::Until(deadline) if !self.is_waiting_for_this_thread() => {
                let deadline = [deadline, options.deadline].into_iter().flatten().min();
                self.wait_for_room(options, deadline)
            }
            _ => self.try_room(options),
        }
    }

    fn try_room(&self, options: &Options<'_>) -> (Entry, Option<Id>) {
        match (&self.gate, &self.room) {
            (Some(gate), _) => gate.try_enter(options.request.who),
            (None, Some(room)) => (room.try_enter(), None),
            (None, None) => (Entry::Granted, None),
        }
    }

    /// Waits for room; the job's token and deadline end the wait as well.
    fn wait_for_room(
        &self,
        options: &Options<'_>,
        deadline: Option<Instant>,
    ) -> (Entry, Option<Id>) {
        let seat = Seat::new();
        let subscription = options.token.map(|token| {
            let (subscription, seat) = (token.subscription(), Arc::clone(&seat));
            subscription.start(Box::new(move || seat.call_off()));
            subscription
        });
        let entered = match (&self.gate, &self.room) {
            (Some(gate), _) => gate.enter(options.request.who, &seat, deadline),
            (None, Some(room)) => (room.enter(&seat, deadline), None),
            (None, None) => (Entry::Granted, None),
        };
        if let Some(subscription) = subscription {
            subscription.end();
        }
        entered
    }
}

impl WorkerPool {
    /// Accepts a closure and returns a handle to its result. Waits while the queue limit is reached.
    ///
    /// Allocates once in some dozens of calls, if closure and result take no more than 200 bytes each: see
    /// the [guide](crate::guide::cost). Never blocks without a [`queue_limit`](crate::PoolBuilder::queue_limit).
    ///
    /// # Errors
    /// The closure comes back if the pool is closed, if no slot is left, or if this is a thread of
    /// the pool and the queue limit is reached: waiting could then last for ever.
    #[inline]
    pub fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::EVER, &Options::PLAIN, f)
    }

    /// As [`submit`](WorkerPool::submit), but never waits.
    ///
    /// # Errors
    /// As `submit`, and [`Rejected::Full`] while the queue limit is reached.
    #[inline]
    pub fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::No, &Options::PLAIN, f)
    }

    /// As [`submit`](WorkerPool::submit), but waits for at most `timeout`.
    ///
    /// # Errors
    /// As `submit`, and [`Rejected::Full`] if the queue limit was reached all the time.
    pub fn submit_timeout<F, T>(
        &self,
        timeout: Duration,
        f: F,
    ) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.core.submit(Wait::at_most(timeout), &Options::PLAIN, f)
    }

    /// Accepts a closure whose result is of no interest. Waits like [`submit`](WorkerPool::submit).
    ///
    /// Cheaper than `submit`: nothing is allocated for a closure of up to three words. A panic in it
    /// is counted in [`stats`](WorkerPool::stats) and otherwise dropped.
    ///
    /// # Errors
    /// As `submit`.
    #[inline]
    pub fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core.execute(Wait::EVER, &Options::PLAIN, f)
    }

    /// A job with options.
    pub fn job(&self) -> JobBuilder<'_> {
        JobBuilder::new(&self.core)
    }
}
