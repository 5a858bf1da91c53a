//! The gate: one lock, the fair queue behind it, and the tokens.

use std::time::Instant;

use super::tenants::{Account, Tenants};
use super::waiting::Waiting;
use crate::fair::{FairQueue, Id, Priority, Weight};
use crate::job::{Claim, InPlace, Job, Place};
use crate::ledger::{Entry, Load, Seat};
use crate::sync::{Arc, AtomicBool, CachePadded, Mutex, MutexGuard, Ordering};

/// Which tenant a job belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'a> {
    Nameless,
    Known(Id),
    Named(&'a str),
}

/// What a job asks of the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) who: Who<'a>,
    pub(crate) weight: Option<Weight>,
    pub(crate) priority: Priority,
}

/// A job that may begin: it has been claimed, and left its lane.
pub(crate) struct Admitted {
    pub(crate) job: Job,
    pub(crate) tenant: Id,
}

/// What a token came to.
pub(crate) struct Step {
    /// A job to run. It is still counted in its lane: the caller counts it in at its slot, and then out
    /// there.
    pub(crate) admitted: Option<Admitted>,
    /// A job whose deadline has passed, to be withdrawn.
    pub(crate) overdue: Option<Job>,
    /// There is no job for this thread, but there may be one for the token: it goes to a slot. With
    /// neither, the token is left with the gate.
    pub(crate) passes_on: bool,
}

/// A tenant in numbers.
#[derive(Clone, Debug)]
pub(crate) struct TenantTally {
    pub(crate) name: Arc<str>,
    pub(crate) weight: Weight,
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) completed: u64,
}

/// What stands between submitters and slots when there is a limit.
pub(crate) struct Gate {
    inner: CachePadded<Mutex<Inner>>,
    /// The counts of the jobs in lanes: to them the gate is one more slot.
    load: Load,
    /// Whether somebody may find no room: there is a queue limit for the pool, or was one for a
    /// tenant. Without one a submit takes the lock once.
    has_limits: AtomicBool,
}

struct Inner {
    queue: FairQueue<Id, Job>,
    tenants: Tenants,
    waiting: Waiting,
    /// Tokens that are with the gate. While there are any, no lane has anything that may run.
    tokens: usize,
    all_tokens: usize,
}

/// What must be done once the lock is released: none of it may happen under it.
#[derive(Default)]
#[must_use]
pub(crate) struct Aftermath {
    /// Submitters that have got room.
    granted: Vec<Arc<Seat>>,
    /// Entries of withdrawn jobs: dropping them frees memory.
    dropped: Vec<Job>,
    /// A job whose deadline has passed, out of its lane, to be withdrawn.
    overdue: Option<Job>,
}

impl Aftermath {
    /// Wakes and frees; what is left is `overdue`.
    fn settle(&mut self) {
        if !self.granted.is_empty() {
            self.granted.drain(..).for_each(|seat| seat.wake());
        }
        if !self.dropped.is_empty() {
            self.dropped.clear();
        }
    }
}

impl Gate {
    pub(crate) fn new(
        queue: FairQueue<Id, Job>,
        tokens: usize,
        queue_limit: Option<usize>,
    ) -> Gate {
        Gate {
            inner: CachePadded::new(Mutex::new(Inner {
                queue,
                tenants: Tenants::new(),
                waiting: Waiting::new(queue_limit),
                tokens,
                all_tokens: tokens,
            })),
            load: Load::default(),
            has_limits: AtomicBool::new(queue_limit.is_some()),
        }
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether a submit has to ask for room.
    pub(crate) fn has_limits(&self) -> bool {
        self.has_limits.load(Ordering::Relaxed)
    }

    /// Reserves room if there is any. With `Granted` comes the tenant that it is reserved for.
    pub(crate) fn try_enter(&self, who: Who<'_>) -> (Entry, Option<Id>) {
        let mut inner = self.lock();
        let id = inner.resolve(who);
        match inner.try_enter(id) {
            Entry::Granted => (Entry::Granted, Some(id)),
            refused => {
                inner.tenants.tidy(id);
                (refused, None)
            }
        }
    }

    /// Reserves room, waiting on `seat` until `deadline`.
    pub(crate) fn enter(
        &self,
        who: Who<'_>,
        seat: &Arc<Seat>,
        deadline: Option<Instant>,
    ) -> (Entry, Option<Id>) {
        let (id, number) = {
            let mut inner = self.lock();
            let id = inner.resolve(who);
            match inner.try_enter(id) {
                Entry::Full => {
                    let Inner {
                        waiting, tenants, ..
                    } = &mut *inner;
                    (id, waiting.sit_down(tenants, id, seat))
                }
                Entry::Granted => return (Entry::Granted, Some(id)),
                refused => {
                    inner.tenants.tidy(id);
                    return (refused, None);
                }
            }
        };
        let entry = seat.wait(deadline);
        if entry == Entry::Granted {
            return (entry, Some(id));
        }
        let mut inner = self.lock();
        let Inner {
            waiting, tenants, ..
        } = &mut *inner;
        waiting.stand_up(tenants, id, number);
        tenants.tidy(id);
        (entry, None)
    }

    /// Takes a reservation back.
    pub(crate) fn give_back(&self, reserved: Id) {
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        let Inner {
            waiting, tenants, ..
        } = &mut *inner;
        waiting.give_back(tenants, reserved, &mut after.granted);
        tenants.tidy(reserved);
        drop(inner);
        after.settle();
    }

    /// Puts an accepted job into its lane. `true`: a token goes to a slot now, the caller says which.
    pub(crate) fn push(&self, request: Request<'_>, reserved: Option<Id>, job: Job) -> bool {
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        let id = reserved.unwrap_or_else(|| inner.resolve(request.who));
        let takes_token = inner.push(id, request, reserved.is_some(), job, &mut after);
        drop(inner);
        after.settle();
        takes_token
    }

    /// Takes note of an accepted job that never gets into its lane.
    pub(crate) fn note(&self, request: Request<'_>) {
        let Some(weight) = request.weight else { return };
        let mut inner = self.lock();
        let id = inner.resolve(request.who);
        inner.set_weight(id, weight);
        inner.tenants.tidy(id);
    }

    /// The first job for a token that has arrived at a slot.
    pub(crate) fn first(&self) -> Step {
        self.step(|_| {})
    }

    /// A job of `tenant` has ended: reports it, and takes the next one for the same token.
    pub(crate) fn next(&self, tenant: Id) -> Step {
        self.step(|inner| inner.end(tenant))
    }

    /// A job of `tenant` that ran without a token has ended. `true`: a token goes to a slot now, as
    /// the tenant may run another job.
    pub(crate) fn end(&self, tenant: Id) -> bool {
        let mut inner = self.lock();
        inner.end(tenant);
        let takes_token = inner.tokens > 0 && inner.queue.peek().is_some();
        inner.tokens -= usize::from(takes_token);
        takes_token
    }

    /// As [`Gate::next`], for a thread that cannot begin another job yet. `true`: there is one, and
    /// the token goes to a slot where it can be taken up; otherwise it is left with the gate.
    pub(crate) fn end_and_pass_on(&self, tenant: Id) -> bool {
        let mut inner = self.lock();
        inner.end(tenant);
        let is_wanted = inner.queue.peek().is_some();
        inner.tokens += usize::from(!is_wanted);
        is_wanted
    }

    fn step(&self, report: impl FnOnce(&mut Inner)) -> Step {
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        report(&mut inner);
        let admitted = inner.pop(&mut after);
        let passes_on = admitted.is_none() && inner.queue.peek().is_some();
        inner.tokens += usize::from(admitted.is_none() && !passes_on);
        drop(inner);
        after.settle();
        Step {
            admitted,
            overdue: after.overdue,
            passes_on,
        }
    }

    /// A job has been claimed elsewhere than by a worker that came for it: takes it out of its lane,
    /// if it is in there.
    pub(crate) fn withdraw(&self, place: &Place) {
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        if let Some(tenant) = inner.take_out(place, &mut after) {
            inner.tenants.tidy(tenant);
        }
        drop(inner);
        after.settle();
    }

    /// Claims a job under the lock and takes it out of its lane, to run in place. No worker can come
    /// for it in between, find it claimed, and clear it away before it is known whose it is.
    pub(crate) fn begin_in_place(
        &self,
        place: &Place,
        claim: &dyn Fn() -> Option<usize>,
    ) -> Option<InPlace> {
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        let slot = claim()?;
        let tenant = inner.take_out(place, &mut after);
        if let Some(id) = tenant {
            inner.begin(id);
        }
        drop(inner);
        after.settle();
        Some(InPlace { slot, tenant })
    }

    /// Empties all lanes; the jobs are the caller's to withdraw.
    pub(crate) fn drain(&self) -> Vec<Job> {
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        let mut jobs = Vec::with_capacity(inner.queue.len());
        for (id, job) in inner.queue.drain() {
            job.leave_place();
            inner.left(id, &mut after.granted);
            inner.tenants.tidy(id);
            jobs.push(job);
        }
        drop(inner);
        after.settle();
        jobs
    }

    /// Tells all who wait for room that the pool is closed.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        let seats = inner.close();
        drop(inner);
        for seat in seats {
            if seat.claim(Entry::Closed) {
                seat.wake();
            }
        }
    }

    /// Whether all tokens are with the gate.
    pub(crate) fn is_at_rest(&self) -> bool {
        let inner = self.lock();
        inner.tokens == inner.all_tokens
    }

    /// Tokens come back that no thread has taken up.
    pub(crate) fn return_tokens(&self, tokens: usize) {
        self.lock().tokens += tokens;
    }

    /// Opens the account called `name` and keeps it until [`Gate::close_account`].
    pub(crate) fn open_account(&self, name: &str) -> Id {
        let mut inner = self.lock();
        let id = inner.tenants.open(name);
        inner.tenants[id].handles += 1;
        id
    }

    pub(crate) fn close_account(&self, id: Id) {
        let mut inner = self.lock();
        inner.tenants[id].handles -= 1;
        inner.tenants.tidy(id);
    }

    pub(crate) fn weight(&self, id: Id) -> Weight {
        self.lock().tenants[id].weight
    }

    pub(crate) fn set_weight(&self, id: Id, weight: Weight) {
        self.lock().set_weight(id, weight);
    }

    /// Limits a tenant's running jobs. Returns how many tokens go to slots now.
    pub(crate) fn set_max_running(&self, id: Id, most: usize) -> usize {
        let mut inner = self.lock();
        inner.tenants[id].limits_mut().max_running = Some(most);
        inner.update_hold(id);
        // A higher limit may have opened the lane to more than one token. One too many finds
        // nothing and comes back.
        let tokens = inner.tokens.min(inner.queue.len());
        inner.tokens -= tokens;
        tokens
    }

    pub(crate) fn set_queue_limit(&self, id: Id, jobs: usize) {
        self.has_limits.store(true, Ordering::Relaxed);
        let mut after = Aftermath::default();
        let mut inner = self.lock();
        inner.tenants[id].limits_mut().queue_limit = Some(jobs);
        let Inner {
            waiting, tenants, ..
        } = &mut *inner;
        waiting.serve(tenants, id, &mut after.granted);
        drop(inner);
        after.settle();
    }

    /// The live tenants in numbers. O(tenants), under the lock.
    pub(crate) fn tenants(&self) -> Vec<TenantTally> {
        let inner = self.lock();
        let tally = |account: &Account| TenantTally {
            name: Arc::clone(&account.name),
            weight: account.weight,
            queued: account.queued as usize,
            running: account.running as usize,
            completed: account.completed,
        };
        inner.tenants.iter().map(tally).collect()
    }
}

impl Inner {
    fn resolve(&mut self, who: Who<'_>) -> Id {
        match who {
            Who::Nameless => self.tenants.nameless(),
            Who::Known(id) => id,
            Who::Named(name) => self.tenants.open(name),
        }
    }

    fn try_enter(&mut self, id: Id) -> Entry {
        self.waiting.try_enter(&mut self.tenants, id)
    }

    fn push(
        &mut self,
        id: Id,
        request: Request<'_>,
        is_reserved: bool,
        job: Job,
        after: &mut Aftermath,
    ) -> bool {
        if let Some(weight) = request.weight {
            self.set_weight(id, weight);
        }
        if is_reserved {
            self.waiting.use_reserved(&mut self.tenants, id);
        } else {
            self.waiting.enter_unasked(&mut self.tenants, id);
        }
        // A token can cancel a job before it gets here. It has looked for its place in vain, so the
        // entry must not get one. Otherwise it will look after this, under the lock.
        if job.is_claimed() {
            self.left(id, &mut after.granted);
            after.dropped.push(job);
            self.tenants.tidy(id);
            return false;
        }
        let Account { weight, limits, .. } = &self.tenants[id];
        let (weight, may_be_held) = (*weight, limits.is_some());
        let ticket = self.queue.push_weighted(id, weight, request.priority, job);
        if let Some(job) = self.queue.item_at(ticket.slot()) {
            job.enter_place(ticket.slot());
        }
        let is_held = may_be_held && self.update_hold(id);
        let takes_token = self.tokens > 0 && !is_held;
        self.tokens -= usize::from(takes_token);
        takes_token
    }

    /// Takes the next job that may begin out of its lane, and claims it.
    ///
    /// The claim is made here, under the lock, before the job is taken and its tenant charged: one
    /// that was withdrawn a moment ago, or whose deadline has passed, leaves without costing its
    /// tenant a turn, and the next one gets the token.
    fn pop(&mut self, after: &mut Aftermath) -> Option<Admitted> {
        loop {
            let (claim, tenant, job) = self.queue.take_next(|job| {
                let claim = job.claim();
                (claim, claim == Claim::Ready)
            })?;
            job.leave_place();
            self.left(tenant, &mut after.granted);
            match claim {
                Claim::Ready => {
                    self.begin(tenant);
                    return Some(Admitted { job, tenant });
                }
                Claim::Gone => after.dropped.push(job),
                Claim::Overdue => after.overdue = Some(job),
            }
            self.tenants.tidy(tenant);
            if after.overdue.is_some() {
                return None;
            }
        }
    }

    /// Takes a claimed job out of its lane; the lane's tenant, to be tidied, if it was in one.
    fn take_out(&mut self, place: &Place, after: &mut Aftermath) -> Option<Id> {
        let (tenant, job) = self.queue.remove_at(place.take()?)?;
        after.dropped.push(job);
        self.left(tenant, &mut after.granted);
        Some(tenant)
    }

    /// A job has left the tenant's lane: its room goes to who waits for it.
    fn left(&mut self, id: Id, granted: &mut Vec<Arc<Seat>>) {
        self.waiting.leave(&mut self.tenants, id, granted);
    }

    fn begin(&mut self, id: Id) {
        let account = &mut self.tenants[id];
        account.running += 1;
        if account.limits.is_some() {
            self.update_hold(id);
        }
    }

    fn end(&mut self, id: Id) {
        let account = &mut self.tenants[id];
        account.running -= 1;
        account.completed += 1;
        if account.limits.is_some() {
            self.update_hold(id);
        }
        self.tenants.tidy(id);
    }

    /// Passes over the lane of a tenant that runs as many jobs as it may, and no other's. A hold
    /// ends with its lane, so this is asked anew whenever a lane may have been opened.
    #[cold]
    fn update_hold(&mut self, id: Id) -> bool {
        let is_saturated = self.tenants[id].is_saturated();
        if is_saturated {
            self.queue.hold(&id);
        } else {
            self.queue.release(&id);
        }
        is_saturated
    }

    fn set_weight(&mut self, id: Id, weight: Weight) {
        self.tenants[id].weight = weight;
        self.queue.set_weight(&id, weight);
    }

    /// Closes the door to those who wait, and returns them.
    fn close(&mut self) -> Vec<Arc<Seat>> {
        self.waiting.close();
        self.tenants.seats()
    }
}
