//! What stands behind the gate's lock: the fair queue, the accounts, and who waits for room.

use super::inbox::Arrival;
use super::tenants::{Account, Tenants};
use super::waiting::Waiting;
use crate::fair::{FairQueue, Id, Priority, Verdict, Weight};
use crate::job::{Claim, Job, Place};
use crate::ledger::{Entry, Seat};
use crate::sync::Arc;

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

pub(super) struct Lanes {
    pub(super) queue: FairQueue<Id, Job>,
    pub(super) tenants: Tenants,
    pub(super) waiting: Waiting,
    /// The inbox's other half, empty but for a moment.
    pub(super) arrivals: Vec<Arrival>,
    /// Tenants of jobs that were claimed on their way, once for each.
    departed: Vec<Id>,
    pub(super) after: Aftermath,
    /// What each tenant has been charged in all.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) charged: std::collections::BTreeMap<String, u64>,
}

/// What must be done once the lock is released: none of it may happen under it.
#[derive(Default)]
pub(super) struct Aftermath {
    /// Submitters that have got room.
    pub(super) granted: Vec<Arc<Seat>>,
    /// Entries of withdrawn jobs: dropping them frees memory.
    pub(super) dropped: Vec<Job>,
    /// A job whose deadline has passed, out of its lane, to be withdrawn.
    pub(super) overdue: Option<Job>,
}

impl Aftermath {
    pub(super) fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.dropped.is_empty()
    }

    /// Wakes and frees.
    #[cold]
    pub(super) fn settle(self) {
        self.granted.iter().for_each(|seat| seat.wake());
    }
}

impl Lanes {
    pub(super) fn new(queue: FairQueue<Id, Job>, queue_limit: Option<usize>) -> Lanes {
        Lanes {
            queue,
            tenants: Tenants::new(),
            waiting: Waiting::new(queue_limit),
            arrivals: Vec::new(),
            departed: Vec::new(),
            after: Aftermath::default(),
            #[cfg(all(test, not(any(loom, shuttle))))]
            charged: Default::default(),
        }
    }

    pub(super) fn resolve(&mut self, who: Who<'_>) -> Id {
        match who {
            Who::Nameless => self.tenants.nameless(),
            Who::Known(id) => id,
            Who::Named(name) => self.tenants.open(name),
        }
    }

    /// Starts to fetch the lane of a tenant.
    #[inline]
    pub(super) fn prefetch_lane_of(&self, id: Id) {
        if let Some(lane) = self.tenants.lane_of(id) {
            self.queue.prefetch_lane(lane);
        }
    }

    pub(super) fn try_enter(&mut self, id: Id) -> Entry {
        self.waiting.try_enter(&mut self.tenants, id)
    }

    pub(super) fn push(&mut self, id: Id, request: Request<'_>, is_reserved: bool, job: Job) {
        if let Some(weight) = request.weight {
            self.set_weight(id, weight);
        }
        let can_be_withdrawn = job.can_be_withdrawn();
        let account = &mut self.tenants[id];
        self.waiting.enter(account, is_reserved);
        // A token can cancel a job before it gets here. It has looked for its place in vain, so the
        // entry must not get one. Otherwise it will look after this, under the lock.
        if can_be_withdrawn && job.is_claimed() {
            self.after.dropped.push(job);
            self.departed.push(id);
            return;
        }
        let Account {
            lane,
            weight,
            limits,
            ..
        } = account;
        let may_be_held = limits.is_some();
        let ticket = self.queue.push_at(lane, id, *weight, request.priority, job);
        if can_be_withdrawn {
            if let Some(job) = self.queue.item_at(ticket.slot()) {
                job.enter_place(ticket.slot());
            }
        }
        if may_be_held {
            self.update_hold(id);
        }
    }

    /// Lets those go whose jobs were claimed on their way. Not before all that were on the way are here: one
    /// behind it keeps a tenant alive, with the weight that came with the first.
    #[inline]
    pub(super) fn see_off(&mut self) {
        while let Some(id) = self.departed.pop() {
            self.left(id);
            self.tenants.tidy(id);
        }
    }

    /// Takes the next job that may begin out of its lane, and claims it.
    ///
    /// The claim is made here, under the lock, before the job is taken and its tenant charged: one
    /// that was withdrawn a moment ago, or whose deadline has passed, leaves without costing its
    /// tenant a turn, and the next one gets the token.
    pub(super) fn pop(&mut self) -> Option<Admitted> {
        loop {
            let mut claim = Claim::Gone;
            let tenants = &self.tenants;
            let (tenant, job) = self.queue.take_next(|tenant, job| {
                // For `start`, while the queue is busy with the lane.
                tenants.prefetch(*tenant);
                claim = job.claim();
                match claim {
                    Claim::Ready => Verdict::Serve,
                    Claim::Gone | Claim::Overdue => Verdict::Withdraw,
                }
            })?;
            job.leave_place();
            match claim {
                Claim::Ready => {
                    self.start(tenant);
                    return Some(Admitted { job, tenant });
                }
                Claim::Gone => self.after.dropped.push(job),
                Claim::Overdue => self.after.overdue = Some(job),
            }
            self.left(tenant);
            self.tenants.tidy(tenant);
            self.close_paid_off();
            if self.after.overdue.is_some() {
                return None;
            }
        }
    }

    /// Takes a claimed job that will never run out of its lane, if it is in one.
    pub(super) fn withdraw(&mut self, place: &Place) {
        let Some(tenant) = place.take().and_then(|at| self.take_out(at)) else {
            return;
        };
        self.tenants.tidy(tenant);
        self.close_paid_off();
    }

    /// Takes a claimed job that begins out of its turn out of its lane; its tenant, if it was in one.
    pub(super) fn begin_in_place(&mut self, place: &Place) -> Option<Id> {
        let at = place.take()?;
        self.queue.charge_at(at);
        let tenant = self.take_out(at)?;
        self.begin(tenant);
        Some(tenant)
    }

    fn take_out(&mut self, at: u32) -> Option<Id> {
        let (tenant, job) = self.queue.remove_at(at)?;
        self.after.dropped.push(job);
        self.left(tenant);
        Some(tenant)
    }

    /// A job has left the tenant's lane: its room goes to who waits for it.
    pub(super) fn left(&mut self, id: Id) {
        if self.waiting.leave(&mut self.tenants[id]) {
            self.hand_out_room(id);
        }
    }

    #[cold]
    fn hand_out_room(&mut self, id: Id) {
        let granted = &mut self.after.granted;
        self.waiting.serve(&mut self.tenants, id, granted);
    }

    /// `left` and `begin` in one.
    #[inline]
    fn start(&mut self, id: Id) {
        let account = &mut self.tenants[id];
        account.running += 1;
        let has_limits = account.limits.is_some();
        if self.waiting.leave(account) {
            self.hand_out_room(id);
        }
        if has_limits {
            self.update_hold(id);
        }
    }

    pub(super) fn begin(&mut self, id: Id) {
        let account = &mut self.tenants[id];
        account.running += 1;
        if account.limits.is_some() {
            self.update_hold(id);
        }
    }

    /// A job has ended that used so much CPU time, where that is charged.
    pub(super) fn end(&mut self, id: Id, spent: u64) {
        if self.queue.is_by_cost() {
            self.settle(id, spent);
        }
        let account = &mut self.tenants[id];
        account.running -= 1;
        account.completed += 1;
        if account.limits.is_some() {
            self.update_hold(id);
        } else if account.is_busy() {
            return;
        }
        self.tenants.tidy(id);
    }

    /// Passes over the lane of a tenant that runs as many jobs as it may, and no other's. A hold
    /// ends with its lane, so this is asked anew whenever a lane may have been opened.
    #[cold]
    pub(super) fn update_hold(&mut self, id: Id) {
        let is_saturated = self.tenants[id].is_saturated();
        if is_saturated {
            self.queue.hold(&id);
        } else {
            self.queue.release(&id);
        }
    }

    pub(super) fn set_weight(&mut self, id: Id, weight: Weight) {
        self.tenants[id].weight = weight;
        self.queue.set_weight(&id, weight);
    }

    /// Closes the door to those who wait, and returns them.
    pub(super) fn close(&mut self) -> Vec<Arc<Seat>> {
        self.waiting.close();
        self.tenants.seats()
    }
}
