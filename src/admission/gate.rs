//! The gate: who gets a token, and what for.

use std::time::Instant;

use super::inbox::{Arrival, Inbox};
use super::lanes::{Admitted, Lanes, Request, Who};
use super::lock::{Lock, Locked};
use super::tenants::Account;
use crate::fair::{FairQueue, Id, Weight};
use crate::job::{InPlace, Job, Place};
use crate::ledger::{Entry, Load, Seat};
use crate::sync::{Arc, AtomicBool, AtomicUsize, CachePadded, Ordering, is_broken};

/// How often a thread that has nothing else to do looks for debts that were paid off, before it lets the
/// lock go: some ten microseconds.
const CLOSED_AT_ONCE: u32 = 32;

/// What a token came to.
pub(crate) struct Step {
    /// A job to run. It has left its lane; the caller counts it in at its slot.
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
///
/// **Tokens at home.** A token goes home only if no lane and no inbox has a job for it. What comes
/// after that sends it out again:
///
/// - to the lanes: whoever puts it there, or makes it fit to run, looks for tokens under the same lock;
/// - to the inbox: the submitter puts its job in and then looks for tokens, the thread that brings a
///   token home puts it there and then looks into the inbox. The inbox's own lock orders the two, so
///   one of them sees the other.
pub(crate) struct Gate {
    lanes: Lock,
    inbox: Inbox,
    /// The counts of the jobs in lanes, all but `pending`: to them the gate is one more slot.
    load: Load,
    shared: CachePadded<Shared>,
    all_tokens: usize,
}

/// What submitters read without the lock.
struct Shared {
    /// Tokens at home; changed under the lock.
    tokens: AtomicUsize,
    /// Whether somebody may find no room: there is a queue limit for the pool, or was one for a
    /// tenant. Without one a submit takes the lock at most once.
    has_limits: AtomicBool,
}

impl Gate {
    pub(crate) fn new(
        queue: FairQueue<Id, Job>,
        tokens: usize,
        queue_limit: Option<usize>,
    ) -> Gate {
        let lanes = Lanes::new(queue, queue_limit);
        Gate {
            lanes: Lock::new(lanes),
            inbox: Inbox::default(),
            load: Load::default(),
            shared: CachePadded::new(Shared {
                tokens: AtomicUsize::new(tokens),
                has_limits: AtomicBool::new(queue_limit.is_some()),
            }),
            all_tokens: tokens,
        }
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// Takes the lock, and all that was put into the inbox before into the lanes: whoever has the
    /// lock finds jobs in lanes, in hands, or nowhere.
    #[inline]
    fn lock(&self) -> Locked<'_> {
        self.with_arrivals(self.lanes.lock())
    }

    /// As [`Gate::lock`], for a worker between two jobs.
    #[inline]
    fn lock_between_jobs(&self) -> Locked<'_> {
        let mut lanes = self.lanes.lock_between_jobs();
        if !self.inbox.looks_empty() {
            self.inbox.empty_into(&mut lanes);
        }
        lanes
    }

    fn try_lock(&self) -> Option<Locked<'_>> {
        Some(self.with_arrivals(self.lanes.try_lock()?))
    }

    fn with_arrivals<'a>(&self, mut lanes: Locked<'a>) -> Locked<'a> {
        self.inbox.empty_into(&mut lanes);
        lanes
    }

    /// Whether a submit has to ask for room.
    pub(crate) fn has_limits(&self) -> bool {
        self.shared.has_limits.load(Ordering::Relaxed)
    }

    #[inline]
    fn tokens(&self) -> usize {
        self.shared.tokens.load(Ordering::Acquire)
    }

    /// Under the lock, like all that changes the number of tokens.
    fn set_tokens(&self, tokens: usize) {
        self.shared.tokens.store(tokens, Ordering::Release);
    }

    /// Takes a token for a job in a lane, if there are both.
    fn send_token(&self, lanes: &Lanes) -> bool {
        let tokens = self.tokens();
        let is_sent = tokens > 0 && lanes.queue.peek().is_some();
        if is_sent {
            self.set_tokens(tokens - 1);
        }
        is_sent
    }

    /// Brings a token home unless there is a job for it.
    fn bring_home(&self, lanes: &Lanes) -> bool {
        if lanes.queue.peek().is_some() {
            return false;
        }
        self.set_tokens(self.tokens() + 1);
        let stays = is_broken("gate home") || self.inbox.is_empty();
        if !stays {
            self.set_tokens(self.tokens() - 1);
        }
        stays
    }

    /// Reserves room if there is any. With `Granted` comes the tenant that it is reserved for.
    pub(crate) fn try_enter(&self, who: Who<'_>) -> (Entry, Option<Id>) {
        let mut lanes = self.lock();
        let id = lanes.resolve(who);
        match lanes.try_enter(id) {
            Entry::Granted => (Entry::Granted, Some(id)),
            refused => {
                lanes.tenants.tidy(id);
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
            let mut lanes = self.lock();
            let id = lanes.resolve(who);
            match lanes.try_enter(id) {
                Entry::Full => {
                    let lanes = &mut *lanes;
                    (id, lanes.waiting.sit_down(&mut lanes.tenants, id, seat))
                }
                Entry::Granted => return (Entry::Granted, Some(id)),
                refused => {
                    lanes.tenants.tidy(id);
                    return (refused, None);
                }
            }
        };
        let entry = seat.wait(deadline);
        if entry == Entry::Granted {
            return (entry, Some(id));
        }
        let lanes = &mut *self.lock();
        lanes.waiting.stand_up(&mut lanes.tenants, id, number);
        lanes.tenants.tidy(id);
        (entry, None)
    }

    /// Takes a reservation back.
    pub(crate) fn give_back(&self, reserved: Id) {
        let lanes = &mut *self.lock();
        let granted = &mut lanes.after.granted;
        lanes
            .waiting
            .give_back(&mut lanes.tenants, reserved, granted);
        lanes.tenants.tidy(reserved);
    }

    /// Puts an accepted job where a token finds it. `true`: one goes to a slot now, the caller says
    /// which.
    #[inline]
    pub(crate) fn push(&self, request: Request<'_>, reserved: Option<Id>, job: Job) -> bool {
        if reserved.is_some() {
            return self.push_locked(request, reserved, job);
        }
        match self.inbox.put(Arrival::new(request, job)) {
            Ok(is_crowded) if self.tokens() == 0 => {
                if is_crowded {
                    drop(self.try_lock());
                }
                false
            }
            Ok(_) => self.send_token(&self.lock()),
            Err(refused) => self.push_locked(request, None, refused.job),
        }
    }

    fn push_locked(&self, request: Request<'_>, reserved: Option<Id>, job: Job) -> bool {
        let mut lanes = self.lock();
        let id = reserved.unwrap_or_else(|| lanes.resolve(request.who));
        lanes.push(id, request, reserved.is_some(), job);
        lanes.see_off();
        self.send_token(&lanes)
    }

    /// Takes note of an accepted job that never gets into its lane.
    pub(crate) fn note(&self, request: Request<'_>) {
        let Some(weight) = request.weight else { return };
        let mut lanes = self.lock();
        let id = lanes.resolve(request.who);
        lanes.set_weight(id, weight);
        lanes.tenants.tidy(id);
    }

    /// The first job for a token that has arrived at a slot.
    pub(crate) fn first(&self) -> Step {
        self.step(None)
    }

    /// A job of `tenant` has ended that used so much CPU time, where that is charged: reports it, and
    /// takes the next one for the same token.
    pub(crate) fn next(&self, tenant: Id, spent: u64) -> Step {
        self.step(Some((tenant, spent)))
    }

    /// A job of `tenant` that ran without a token has ended. `true`: a token goes to a slot now, as
    /// the tenant may run another job.
    pub(crate) fn end(&self, tenant: Id, spent: u64) -> bool {
        let mut lanes = self.lock();
        lanes.end(tenant, spent);
        self.send_token(&lanes)
    }

    /// As [`Gate::next`], for a thread that cannot begin another job yet. `true`: there is one, and
    /// the token goes to a slot where it can be taken up; otherwise it is left with the gate.
    pub(crate) fn end_and_pass_on(&self, tenant: Id, spent: u64) -> bool {
        let mut lanes = self.lock();
        lanes.end(tenant, spent);
        !self.bring_home(&lanes)
    }

    fn step(&self, ended: Option<(Id, u64)>) -> Step {
        let mut lanes = self.lock_between_jobs();
        if let Some((tenant, spent)) = ended {
            lanes.end(tenant, spent);
        }
        let admitted = lanes.pop();
        let passes_on = admitted.is_none() && !self.bring_home(&lanes);
        Step {
            admitted,
            overdue: lanes.after.overdue.take(),
            passes_on,
        }
    }

    /// A job has been claimed elsewhere than by a worker that came for it: takes it out of its lane,
    /// if it is in there.
    pub(crate) fn withdraw(&self, place: &Place) {
        self.lock().withdraw(place);
    }

    /// Claims a job under the lock and takes it out of its lane, to run in place. No worker can come
    /// for it in between, find it claimed, and clear it away before it is known whose it is.
    pub(crate) fn begin_in_place(
        &self,
        place: &Place,
        claim: &dyn Fn() -> Option<usize>,
    ) -> Option<InPlace> {
        let mut lanes = self.lock();
        let slot = claim()?;
        let tenant = lanes.begin_in_place(place);
        Some(InPlace { slot, tenant })
    }

    /// Empties all lanes; the jobs are the caller's to withdraw.
    pub(crate) fn drain(&self) -> Vec<Job> {
        let mut lanes = self.lock();
        let mut jobs = Vec::with_capacity(lanes.queue.len());
        for (id, job) in lanes.queue.drain() {
            job.leave_place();
            lanes.left(id);
            lanes.tenants.tidy(id);
            jobs.push(job);
        }
        if lanes.queue.is_by_cost() {
            lanes.tenants.forgive_all();
        }
        jobs
    }

    /// Closes some accounts that are open for a debt alone which has been paid off. By count there are
    /// none. `true`: there may be more.
    pub(crate) fn close_paid_off(&self) -> bool {
        let mut lanes = self.lock();
        (0..CLOSED_AT_ONCE).all(|_| lanes.close_paid_off())
    }

    /// Tells all who wait for room that the pool is closed.
    pub(crate) fn close(&self) {
        let seats = self.lock().close();
        for seat in seats {
            if seat.claim(Entry::Closed) {
                seat.wake();
            }
        }
    }

    /// Whether all tokens are with the gate.
    pub(crate) fn is_at_rest(&self) -> bool {
        let _lanes = self.lock();
        self.tokens() == self.all_tokens
    }

    /// Tokens come back that no thread has taken up.
    pub(crate) fn return_tokens(&self, tokens: usize) {
        let _lanes = self.lock();
        self.set_tokens(self.tokens() + tokens);
    }

    /// Opens the account called `name` and keeps it until [`Gate::close_account`].
    pub(crate) fn open_account(&self, name: &str) -> Id {
        let mut lanes = self.lock();
        let id = lanes.tenants.open(name);
        lanes.tenants[id].handles += 1;
        id
    }

    pub(crate) fn close_account(&self, id: Id) {
        let mut lanes = self.lock();
        lanes.tenants[id].handles -= 1;
        lanes.tenants.tidy(id);
    }

    pub(crate) fn weight(&self, id: Id) -> Weight {
        self.lock().tenants[id].weight
    }

    pub(crate) fn set_weight(&self, id: Id, weight: Weight) {
        self.lock().set_weight(id, weight);
    }

    /// Limits a tenant's running jobs. Returns how many tokens go to slots now.
    pub(crate) fn set_max_running(&self, id: Id, most: usize) -> usize {
        let mut lanes = self.lock();
        lanes.tenants[id].limits_mut().max_running = Some(most);
        lanes.update_hold(id);
        // A higher limit may have opened the lane to more than one token. One too many finds
        // nothing and comes back.
        let sent = self.tokens().min(lanes.queue.len());
        self.set_tokens(self.tokens() - sent);
        sent
    }

    pub(crate) fn set_queue_limit(&self, id: Id, jobs: usize) {
        self.shared.has_limits.store(true, Ordering::Relaxed);
        let lanes = &mut *self.lock();
        lanes.tenants[id].limits_mut().queue_limit = Some(jobs);
        let granted = &mut lanes.after.granted;
        lanes.waiting.serve(&mut lanes.tenants, id, granted);
    }

    /// The live tenants in numbers. O(tenants), under the lock.
    pub(crate) fn tenants(&self) -> Vec<TenantTally> {
        let lanes = self.lock();
        let tally = |account: &Account| TenantTally {
            name: Arc::clone(&account.name),
            weight: account.weight,
            queued: account.queued as usize,
            running: account.running as usize,
            completed: account.completed,
        };
        lanes.tenants.iter().map(tally).collect()
    }

    /// Accounts, but for the nameless one.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn open_accounts(&self) -> usize {
        self.lock().tenants.open_accounts()
    }

    /// What each tenant has been charged in all, and whether it is by cost.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn charged(&self) -> (std::collections::BTreeMap<String, u64>, bool) {
        let lanes = self.lock();
        (lanes.charged.clone(), lanes.queue.is_by_cost())
    }
}

#[cfg(test)]
mod traces;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Request<'static> = Request {
        who: Who::Nameless,
        weight: None,
        priority: crate::fair::Priority::NORMAL,
    };

    /// A gate with all tokens out.
    fn gate(tokens: usize) -> Gate {
        let gate = Gate::new(FairQueue::new(), tokens, None);
        gate.set_tokens(0);
        gate
    }

    fn push(gate: &Gate) -> bool {
        gate.push(PLAIN, None, Job::new(|| ()))
    }

    #[test]
    fn a_push_meets_a_token_that_has_gone_home() {
        let gate = gate(2);
        assert!(gate.first().admitted.is_none());
        assert_eq!(gate.tokens(), 1);
        assert!(push(&gate), "it sends it out");
        assert!(!push(&gate), "the other is out");
        assert_eq!(gate.tokens(), 0);
    }

    #[test]
    fn a_token_that_comes_finds_what_lies_in_the_inbox() {
        let gate = gate(1);
        assert!(!push(&gate) && !push(&gate));
        let id = gate.first().admitted.expect("the first job").tenant;
        assert!(gate.end_and_pass_on(id, 0), "there is another");
        assert!(gate.first().admitted.is_some());
        assert!(!gate.end_and_pass_on(id, 0));
        assert!(gate.is_at_rest());
    }

    #[test]
    fn a_crowded_inbox_loses_nothing() {
        let gate = gate(1);
        let locked = gate.lock();
        for _ in 0..500 {
            assert!(
                !push(&gate),
                "nobody takes them along while the gate is locked"
            );
        }
        drop(locked);
        assert_eq!(gate.drain().len(), 500);
        for _ in 0..5_000 {
            assert!(!push(&gate));
        }
        assert_eq!(gate.drain().len(), 5_000);
    }

    #[test]
    fn a_push_does_not_wait_for_the_lock() {
        use std::sync::mpsc;
        use std::time::Duration;

        let gate = gate(2);
        let (sender, answer) = mpsc::channel();
        std::thread::scope(|scope| {
            let lanes = gate.lock();
            scope.spawn(|| sender.send(push(&gate)));
            let answer = answer.recv_timeout(Duration::from_secs(60));
            drop(lanes);
            assert_eq!(answer, Ok(false), "no token to send");
        });
        assert_eq!(gate.drain().len(), 1);
    }

    #[test]
    fn a_crowded_inbox_is_taken_to_the_lanes() {
        let gate = gate(2);
        let emptied = |_| {
            push(&gate);
            gate.inbox.is_empty()
        };
        assert!((0..300).any(emptied));
    }

    #[test]
    fn a_token_leaves_again_for_what_has_come_to_the_inbox() {
        let gate = gate(2);
        let lanes = gate.lock();
        assert!(!push(&gate));
        assert!(!gate.bring_home(&lanes), "there is a job for it");
        assert_eq!(gate.tokens(), 0);
        drop(lanes);
        assert!(gate.first().admitted.is_some());
        assert!(gate.bring_home(&gate.lock()), "there is none");
        assert_eq!(gate.tokens(), 1);
    }

    #[test]
    fn what_is_settled_after_a_sweep_keeps_its_account_open() {
        let gate = Gate::new(FairQueue::by_cost(), 1, None);
        assert!(push_named(&gate), "there is a token");
        let id = gate.first().admitted.expect("the job").tenant;
        assert!(!push_named(&gate));
        assert_eq!(gate.drain().len(), 1, "and all debts are forgotten");
        assert!(!push_named(&gate));
        assert!(!gate.end(id, 1_000), "the token is not back");
        assert_eq!(gate.first().admitted.expect("the other").tenant, id);
        assert!(!gate.end_and_pass_on(id, 1_000));
        assert_eq!(gate.lock().tenants.open_accounts(), 0);
    }

    fn push_named(gate: &Gate) -> bool {
        let request = Request {
            who: Who::Named("a"),
            ..PLAIN
        };
        gate.push(request, None, Job::new(|| ()))
    }
}
