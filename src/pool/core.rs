//! What the threads of a pool share with its owner.

use super::phase::{Phase, Progress};
use super::threads::Threads;
use super::{Fairness, Nested, PanicPolicy, Settings};
use crate::admission::{Gate, Request};
use crate::cpu;
use crate::error::Rejected;
use crate::fair::{FairQueue, Id};
use crate::job::{Home, HomeKeeper, InPlace, Job, Place, Stage};
use crate::ledger::{Fate, Idle, Load, Meter, Room, Tally, TimeTable, is_idle};
use crate::slot::sleep::Sleep;
use crate::slot::vacancy::Vacancy;
use crate::slot::{self, Slot, Sweeps};
use crate::strategy::{Strategy, pick_slot};
use crate::sync::{
    Arc, AtomicBool, AtomicUsize, CachePadded, Deque, Mutex, Ordering, Weak, is_broken,
};
use crate::unwind;
use crate::worker;

pub(super) struct Core {
    home: Home,
    pub(super) settings: Settings,
    pub(super) slots: Box<[Slot]>,
    /// Slots whose thread has ended for good; see [`PanicPolicy::Restart`].
    retired: Box<[AtomicBool]>,
    retired_count: AtomicUsize,
    /// Restarts left.
    restarts: AtomicUsize,
    /// With all slots retired, what keeps the pool alive for its unfinished jobs.
    afterlife: Mutex<Option<Arc<Core>>>,
    cursor: CachePadded<AtomicUsize>,
    pub(super) vacancy: Option<Vacancy>,
    pub(super) sleep: Sleep,
    pub(super) sweeps: Sweeps,
    pub(super) progress: Progress,
    idle: Idle,
    /// Room for queued jobs, where the gate does not keep it.
    pub(super) room: Option<Room>,
    pub(super) gate: Option<Gate>,
    pub(super) threads: Threads,
    /// How long jobs wait and run, if that was asked for.
    pub(super) times: Option<Arc<TimeTable>>,
    #[cfg(feature = "metrics")]
    pub(super) published: super::metrics::Published,
}

/// What a thread of the pool lets its jobs get at.
pub(super) struct Bench {
    pub(super) slot: usize,
    pub(super) deque: Deque<Job>,
    /// Where CPU time is charged.
    pub(super) meter: Option<Meter>,
}

/// What jobs on this thread have used, where that is charged; elsewhere nothing, and no clock is read.
impl Bench {
    /// A job has ended: what it has used. What follows is the next one's.
    #[inline]
    pub(super) fn lap(&self) -> u64 {
        let meter = self.meter.as_ref();
        meter.map_or(0, |meter| meter.lap(cpu::thread_time()))
    }

    /// What follows is the next job's, and what was before nobody's.
    pub(super) fn start_lap(&self) {
        if let Some(meter) = &self.meter {
            meter.start(cpu::thread_time());
        }
    }
}

impl Core {
    pub(super) fn new(settings: Settings, deques: &[Deque<Job>]) -> Arc<Core> {
        let count = deques.len();
        let restarts = match settings.on_panic {
            PanicPolicy::Keep => 0,
            PanicPolicy::Restart { max_restarts } => max_restarts as usize,
        };
        Arc::new_cyclic(|this: &Weak<Core>| Core {
            home: Home::new(this.clone()),
            slots: deques
                .iter()
                .enumerate()
                .map(|(index, deque)| Slot::new(index, deque))
                .collect(),
            retired: (0..count).map(|_| AtomicBool::new(false)).collect(),
            retired_count: AtomicUsize::new(0),
            restarts: AtomicUsize::new(restarts),
            afterlife: Mutex::new(None),
            cursor: CachePadded::default(),
            vacancy: Vacancy::of_many(count),
            sleep: Sleep::new(count),
            sweeps: Sweeps::default(),
            progress: Progress::new(),
            idle: Idle::default(),
            room: match settings.concurrency {
                None => settings.queue_limit.map(Room::new),
                Some(_) => None,
            },
            gate: settings.concurrency.map(|limit| {
                let queue = match (settings.fairness, settings.ageing) {
                    (Fairness::Jobs, None) => FairQueue::new(),
                    (Fairness::Jobs, Some(boost)) => FairQueue::with_ageing(boost),
                    (Fairness::CpuTime, None) => FairQueue::by_cost(),
                    (Fairness::CpuTime, Some(boost)) => FairQueue::by_cost_with_ageing(boost),
                };
                Gate::new(queue, limit.min(count), settings.queue_limit)
            }),
            threads: Threads::new(count),
            times: settings
                .timings
                .then(|| Arc::new(TimeTable::new(settings.concurrency.is_some()))),
            #[cfg(feature = "metrics")]
            published: super::metrics::Published::default(),
            settings,
        })
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// Whether the current thread is one of the pool's.
    fn is_here(&self) -> bool {
        worker::here() == Some(self.home.address())
    }

    /// Whether the pool waits for the current thread, which must not wait for the pool then: it is
    /// one of the pool's, or drops what a withdrawn job has captured.
    pub(super) fn is_waiting_for_this_thread(&self) -> bool {
        worker::is_awaited_by(self.home.address())
    }

    pub(super) fn is_forked(&self) -> bool {
        self.home.is_forked()
    }

    /// Why jobs are not accepted, if they are not.
    #[inline]
    pub(super) fn refusal(&self) -> Option<Rejected> {
        if self.is_forked() {
            return Some(Rejected::Forked);
        }
        self.progress.refusal()
    }

    /// Counts a job in, in a slot that the strategy chooses or, with a limit, in the lanes. From then
    /// on the pool cannot end without it.
    #[inline]
    pub(super) fn admit(&self) -> Result<usize, Rejected> {
        if self.is_forked() {
            return Err(Rejected::Forked);
        }
        if self.idle.is_awaited() {
            // This submit may end an idle moment that nobody has noticed yet.
            self.check_idle();
        }
        let slot = match self.gate {
            None => self.pick(),
            Some(_) => self.lanes(),
        };
        let load = self.load(slot);
        load.submit();
        match self.progress.refusal() {
            _ if is_broken("pool close") => Ok(slot),
            None => Ok(slot),
            Some(reason) => {
                load.undo();
                self.check_idle();
                Err(reason)
            }
        }
    }

    /// Counts one job into each slot that has a thread, or none into any; returns which.
    pub(super) fn admit_on_all_slots(&self) -> Result<Vec<usize>, Rejected> {
        if self.is_forked() {
            return Err(Rejected::Forked);
        }
        if self.idle.is_awaited() {
            self.check_idle();
        }
        let live = |slot: &usize| !self.retired[*slot].load(Ordering::SeqCst);
        let live: Vec<usize> = (0..self.slots.len()).filter(live).collect();
        live.iter().for_each(|slot| self.load(*slot).submit());
        let Some(reason) = self.progress.refusal() else {
            if let Some(room) = &self.room {
                live.iter().for_each(|_| room.enter_unasked());
            }
            return Ok(live);
        };
        live.iter().for_each(|slot| self.load(*slot).undo());
        self.check_idle();
        Err(reason)
    }

    /// The index under which jobs in lanes are counted: one past the slots.
    fn lanes(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn load(&self, index: usize) -> &Load {
        match self.slots.get(index) {
            Some(slot) => slot.load(),
            None => self
                .gate
                .as_ref()
                .expect("jobs in lanes have a gate")
                .load(),
        }
    }

    #[inline]
    fn pick(&self) -> usize {
        if self.settings.nested == Nested::Local && self.gate.is_none() {
            if let Some(slot) = self.own_slot() {
                return slot;
            }
        }
        let strategy = self.settings.strategy;
        let cursor = match strategy {
            Strategy::RoundRobin => self.take_turn(),
            Strategy::LeastBusy => 0,
        };
        if self.retired_count.load(Ordering::Relaxed) > 0 {
            return self.pick_of_remaining(cursor);
        }
        if let (Strategy::LeastBusy, Some(vacancy)) = (strategy, &self.vacancy) {
            if let Some(slot) = vacancy.find(|slot| self.slots[slot].pending() == 0) {
                return slot;
            }
        }
        let pick = pick_slot(strategy, &self.slots, cursor);
        pick.expect("a pool has at least one slot").index
    }

    /// Threads of the pool take turns by themselves: at one cursor for all, whose line moves from core to
    /// core, trees of jobs that submit jobs took an eighth longer.
    #[inline]
    fn take_turn(&self) -> usize {
        if self.is_here() {
            worker::take_turn()
        } else {
            self.cursor.fetch_add(1, Ordering::Relaxed)
        }
    }

    /// As `pick`, once slots have been retired. With none left any slot will do: the job is refused
    /// or discarded.
    #[cold]
    fn pick_of_remaining(&self, cursor: usize) -> usize {
        let live = |(index, _): &(usize, &Slot)| !self.retired[*index].load(Ordering::Relaxed);
        let (indices, slots): (Vec<_>, Vec<_>) = self.slots.iter().enumerate().filter(live).unzip();
        let pick = pick_slot(self.settings.strategy, &slots, cursor);
        pick.map_or(0, |pick| indices[pick.index])
    }

    /// The slot of the current thread, if it is one of the pool's.
    fn own_slot(&self) -> Option<usize> {
        self.is_here()
            .then(|| worker::with_bench(|bench: &Bench| bench.slot))
            .flatten()
    }

    /// Puts an admitted job into its lane, and sends a token for it if there is one.
    pub(super) fn push_gated(
        &self,
        gate: &Gate,
        request: Request<'_>,
        reserved: Option<Id>,
        job: Job,
    ) {
        if gate.push(request, reserved, job) {
            self.send_token();
        }
        self.sweep_if_exhausted();
    }

    /// Sends one of the gate's tokens to a slot.
    pub(super) fn send_token(&self) {
        let slot = self.pick();
        self.slots[slot].add_token();
        self.sleep.job_pushed(slot);
    }

    /// Queues an admitted job and sees that somebody runs it.
    #[inline]
    pub(super) fn push(&self, slot: usize, job: Job) {
        if self.settings.nested == Nested::Local && self.is_here() {
            self.push_here(slot, job);
        } else {
            self.slots[slot].push(job);
        }
        self.sleep.job_pushed(slot);
        self.sweep_if_exhausted();
    }

    /// Queues an admitted job for the thread of `slot` alone. If the slot is retired meanwhile, either
    /// `retire` finds the job, or it is seen here that it came too late.
    pub(super) fn pin(&self, slot: usize, job: Job) {
        self.slots[slot].pin(job);
        self.sleep.job_pinned(slot);
        if self.retired[slot].load(Ordering::SeqCst) {
            self.withdraw_pinned(slot, Fate::Discarded);
        }
    }

    /// Runs a job that is pinned to this thread, if there is one, in the midst of the current job.
    pub(super) fn run_pinned_here(&self) -> bool {
        let pinned = self
            .own_slot()
            .and_then(|slot| Some((slot, self.slots[slot].take_pinned()?)));
        let Some((slot, job)) = pinned else {
            return false;
        };
        self.set_aside();
        job.run(&self.stage(slot));
        self.take_up_again();
        true
    }

    /// Whether tenants are charged CPU time.
    pub(super) fn charges_time(&self) -> bool {
        self.gate.is_some() && self.settings.fairness == Fairness::CpuTime
    }

    /// The job on this thread makes room for another that runs in its midst.
    fn set_aside(&self) {
        if self.charges_time() {
            with_meter(|meter| meter.set_aside(cpu::thread_time()));
        }
    }

    /// It goes on; what the other one has used.
    fn take_up_again(&self) -> u64 {
        if !self.charges_time() {
            return 0;
        }
        with_meter(|meter| meter.take_up_again(cpu::thread_time())).unwrap_or(0)
    }

    /// Withdraws what is pinned to a slot; returns how many jobs that were.
    fn withdraw_pinned(&self, slot: usize, fate: Fate) -> usize {
        let _visit = worker::visit(self.home.address(), None);
        let stage = self.stage(slot);
        let withdrawn = std::iter::from_fn(|| self.slots[slot].take_pinned())
            .filter_map(|job| job.withdraw(&stage, fate).then_some(()));
        withdrawn.count()
    }

    /// The last slot may have been retired after a job was counted in and before it was pushed. The
    /// sweep for that comes after the slots were counted as retired, this look comes after the push,
    /// both with a fence or a lock between: one of the two finds the job. The phase would not do, for
    /// a pool that was closed before does not become exhausted.
    #[inline]
    pub(super) fn sweep_if_exhausted(&self) {
        if self.is_exhausted() {
            self.sweep(Fate::Discarded);
        }
    }

    /// Whether all slots are retired.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.retired_count.load(Ordering::SeqCst) == self.slots.len()
    }

    /// Onto the deque of the current thread, where it comes out last in, first out.
    fn push_here(&self, slot: usize, job: Job) {
        let mut job = Some(job);
        worker::with_bench(|bench: &Bench| bench.deque.push(job.take().expect("called once")));
        if let Some(job) = job {
            self.slots[slot].push(job);
        }
    }

    /// Settles an admitted job that is never queued.
    pub(super) fn settle_unqueued<R>(
        &self,
        slot: usize,
        fate: Fate,
        settle: impl FnOnce() -> R,
    ) -> R {
        let load = self.load(slot);
        load.withdraw(fate);
        let visit = worker::visit(self.home.address(), None);
        let result = settle();
        drop(visit);
        load.finish_elsewhere();
        self.check_idle();
        result
    }

    pub(super) fn has_queued(&self) -> bool {
        self.slots.iter().any(|slot| !slot.is_empty())
    }

    fn loads(&self) -> impl Iterator<Item = &Load> + Clone {
        let slots = self.slots.iter().map(Slot::load);
        slots.chain(self.gate.as_ref().map(Gate::load))
    }

    pub(super) fn tally(&self) -> Tally {
        Tally::of(self.loads())
    }

    pub(super) fn stage(&self, slot: usize) -> Stage<'_> {
        Stage {
            load: self.load(slot),
            room: self.room.as_ref(),
            turn: None,
            idle: Some(&self.idle),
        }
    }

    /// Looks for an idle moment if somebody waits for one, and ends a closed pool that has come to
    /// it: nothing can be counted in any more, so the moment lasts.
    pub(super) fn check_idle(&self) {
        let awaited = self.idle.awaited_in_order();
        let closed = self.progress.get() == Phase::Closed;
        if (awaited.is_none() && !closed) || !self.is_idle() {
            return;
        }
        if let Some(registered) = awaited {
            self.idle.announce(registered);
        }
        if closed {
            self.progress.advance(Phase::Stopped);
            self.sleep.wake_all();
            self.end_afterlife();
        }
    }

    /// The caller has a reference of its own, so the pool does not end here.
    fn end_afterlife(&self) {
        let afterlife = self.afterlife.lock().take();
        drop(afterlife);
    }

    /// With a limit, the pool is not idle before all tokens are back: those that still wait at a slot
    /// count there as pending. The thread that brings the last one back looks once more.
    pub(super) fn is_idle(&self) -> bool {
        is_idle(self.loads(), || {
            self.gate.as_ref().is_none_or(Gate::is_at_rest)
        })
    }

    /// Waits for an idle moment; `false` if `deadline` comes first.
    pub(super) fn wait_idle(&self, deadline: Option<std::time::Instant>) -> bool {
        let is_idle = self.idle.wait(|| self.is_idle(), deadline);
        if is_idle {
            slot::await_movers(&self.slots);
        }
        is_idle
    }

    /// Accepts nothing more, and tells those who wait to submit.
    pub(super) fn close(&self) {
        self.progress.advance(Phase::Closed);
        self.close_room();
        self.check_idle();
    }

    fn close_room(&self) {
        if let Some(room) = &self.room {
            room.close();
        }
        if let Some(gate) = &self.gate {
            gate.close();
        }
    }

    /// Withdraws all that is queued; returns how many jobs that were.
    pub(super) fn sweep(&self, fate: Fate) -> usize {
        let _sweep = worker::visit(self.home.address(), Some(fate));
        let count = match &self.gate {
            None => slot::sweep(&self.slots, &self.sweeps, self.room.as_ref(), fate),
            Some(gate) => self.sweep_lanes(gate, fate),
        };
        let slots = 0..self.slots.len();
        let pinned: usize = slots.map(|slot| self.withdraw_pinned(slot, fate)).sum();
        self.check_idle();
        count + pinned
    }

    fn sweep_lanes(&self, gate: &Gate, fate: Fate) -> usize {
        let count = self.withdraw_from_lanes(gate.drain(), fate);
        if self.is_exhausted() {
            // No thread is left to bring back the tokens that wait at the slots.
            gate.return_tokens(self.slots.iter().map(Slot::take_all_tokens).sum());
        }
        count
    }

    /// Withdraws jobs that have been taken out of their lanes; returns how many were still waiting.
    pub(super) fn withdraw_from_lanes(&self, jobs: Vec<Job>, fate: Fate) -> usize {
        if jobs.is_empty() {
            return 0;
        }
        let _visit = worker::visit(self.home.address(), None);
        let stage = self.stage(self.lanes());
        let withdraw = |job: Job| job.withdraw(&stage, fate);
        jobs.into_iter().map(withdraw).filter(|won| *won).count()
    }

    /// Takes one restart from the budget.
    pub(super) fn take_restart(&self) -> bool {
        self.restarts
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
            .is_ok()
    }

    /// The thread of `slot` ends and none will follow. What waits there is for the others; after the
    /// last one, for nobody.
    pub(super) fn retire(self: &Arc<Self>, slot: usize) {
        self.retired[slot].store(true, Ordering::SeqCst);
        let retired = self.retired_count.fetch_add(1, Ordering::SeqCst) + 1;
        if retired == self.slots.len() {
            // Threads no longer keep the pool alive, and a job may be claimed and not finished:
            // whoever sees the last one finished takes this away.
            *self.afterlife.lock() = Some(Arc::clone(self));
            self.progress.advance(Phase::Exhausted);
            self.close_room();
            self.sweep(Fate::Discarded);
            if self.progress.get() == Phase::Stopped {
                self.end_afterlife();
            }
            return;
        }
        self.withdraw_pinned(slot, Fate::Discarded);
        if !self.slots[slot].is_empty() {
            self.sleep.job_pushed(slot);
        }
        self.check_idle();
    }

    /// Slots that have a thread. The last one counts until the pool accepts nothing more, so that a
    /// submit is refused from the moment at which none is left.
    pub(super) fn live_slots(&self) -> usize {
        let left = self.slots.len() - self.retired_count.load(Ordering::Acquire);
        let accepts = self.progress.get() == Phase::Open;
        left.max(usize::from(accepts))
    }
}

fn with_meter<R>(f: impl FnOnce(&Meter) -> R) -> Option<R> {
    worker::with_bench(|bench: &Bench| bench.meter.as_ref().map(f)).flatten()
}

impl Drop for Core {
    fn drop(&mut self) {
        // What hooks have captured is the user's, and whoever drops the pool is not to be hit by it.
        let settings = &mut self.settings;
        unwind::discard(settings.on_thread_start.take());
        unwind::discard(settings.on_thread_stop.take());
    }
}

impl HomeKeeper for Core {
    fn withdrawn(&self, slot: usize, place: &Place, fate: Fate) {
        self.load(slot).withdraw(fate);
        if let Some(gate) = &self.gate {
            gate.withdraw(place);
        }
        if let Some(room) = &self.room {
            room.leave();
        }
    }

    fn begin_in_place(&self, place: &Place, claim: &dyn Fn() -> Option<usize>) -> Option<InPlace> {
        let job = match &self.gate {
            None => InPlace {
                slot: claim()?,
                tenant: None,
            },
            Some(gate) => gate.begin_in_place(place, claim)?,
        };
        self.set_aside();
        self.load(job.slot).begin_elsewhere();
        if let Some(room) = &self.room {
            room.leave();
        }
        Some(job)
    }

    fn end_in_place(&self, job: &InPlace, panicked: bool) {
        let spent = self.take_up_again();
        if let (Some(gate), Some(tenant)) = (&self.gate, job.tenant) {
            // Its end may let another job of the tenant run, which no token is on its way for.
            if gate.end(tenant, spent) {
                self.send_token();
            }
        }
        self.load(job.slot).end_elsewhere(panicked);
    }

    fn gone(&self, slot: usize) {
        self.load(slot).finish_elsewhere();
        self.check_idle();
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use crate::{Priority, Weight, WorkerPool};

    /// Even by somebody who uses everything that a limit gives a meaning to.
    #[test]
    fn without_a_limit_no_gate_is_built() {
        let pool = WorkerPool::builder().workers(1).queue_limit(4).build();
        let pool = pool.expect("a pool");
        let tenant = pool.tenant("acme").with_max_running(1);
        let job = tenant.job().weight(Weight::new(7)).priority(Priority::HIGH);
        job.submit(|| ()).expect("an open pool").join().expect("()");
        assert!(pool.core.gate.is_none());
        let limited = WorkerPool::builder().workers(1).concurrency(1).build();
        let limited = limited.expect("a pool");
        assert!(limited.core.gate.is_some() && limited.core.room.is_none());
    }
}
