//! The threads of a pool: how they start together, are replaced, and are joined.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use super::core::{Bench, Core};
use super::phase::Phase;
use super::{Hook, PanicPolicy};
use crate::admission::{Admitted, Gate, Step};
use crate::error::BuildError;
use crate::fair::Id;
use crate::job::{Claim, Job, Stage, Turn};
use crate::ledger::{Fate, Meter};
use crate::local;
use crate::slot::Slot;
use crate::sync::{Arc, Condvar, Deque, Mutex, thread};
use crate::unwind;
use crate::worker::{self, Delegate};

/// The join handles of a pool's threads.
pub(super) struct Threads(Mutex<Handles>);

struct Handles {
    /// One a slot; `None` once somebody has set out to join it.
    current: Vec<Option<thread::JoinHandle<()>>>,
    /// Threads that have been replaced and end any moment.
    replaced: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(slots: usize) -> Threads {
        Threads(Mutex::new(Handles {
            current: (0..slots).map(|_| None).collect(),
            replaced: Vec::new(),
        }))
    }

    fn set(&self, slot: usize, handle: thread::JoinHandle<()>) {
        self.0.lock().current[slot] = Some(handle);
    }

    /// Joins all threads. One that is replaced puts its successor here before it ends, so nobody is
    /// left when there is nothing left to join.
    pub(super) fn join(&self) {
        while let Some(handle) = self.take_one() {
            join_one(handle);
        }
    }

    fn take_one(&self) -> Option<thread::JoinHandle<()>> {
        let mut handles = self.0.lock();
        let replaced = handles.replaced.pop();
        replaced.or_else(|| handles.current.iter_mut().find_map(Option::take))
    }

    /// Puts in `spawn`'s thread as that of `slot`, and joins those replaced before: a thread that
    /// has ended keeps its stack until it is joined.
    fn replace(
        &self,
        slot: usize,
        spawn: impl FnOnce() -> io::Result<thread::JoinHandle<()>>,
    ) -> io::Result<()> {
        let ended = {
            let mut handles = self.0.lock();
            let before = handles.current[slot].replace(spawn()?);
            let ended = std::mem::take(&mut handles.replaced);
            handles.replaced.extend(before);
            ended
        };
        ended.into_iter().for_each(join_one);
        Ok(())
    }
}

fn join_one(handle: thread::JoinHandle<()>) {
    if handle.thread().id() == thread::current().id() {
        // The pool's last owner was dropped on one of its threads.
        return;
    }
    // All user code on the thread is contained but for its thread-local destructors, and what they
    // panic with is nobody's result.
    if let Err(payload) = handle.join() {
        unwind::discard(payload);
    }
}

/// What threads wait for before they run anything: all of them exist, or they are not wanted.
#[derive(Default)]
struct StartSignal {
    go: Mutex<Option<bool>>,
    given: Condvar,
}

impl StartSignal {
    fn give(&self, go: bool) {
        *self.go.lock() = Some(go);
        self.given.notify_all();
    }

    fn wait(&self) -> bool {
        let mut go = self.go.lock();
        loop {
            match *go {
                Some(go) => return go,
                None => self.given.wait(&mut go),
            }
        }
    }
}

/// Starts the threads of all slots, or none.
///
/// # Errors
/// The first thread that cannot be started; by then those before it have ended.
pub(super) fn start_all(core: &Arc<Core>, deques: Vec<Deque<Job>>) -> Result<(), BuildError> {
    let signal = Arc::new(StartSignal::default());
    for (slot, deque) in deques.into_iter().enumerate() {
        let (their_core, their_signal) = (Arc::clone(core), Arc::clone(&signal));
        let main = move || {
            if their_signal.wait() {
                serve(&their_core, slot, deque);
            }
        };
        match spawn(core, slot, main) {
            Ok(handle) => core.threads.set(slot, handle),
            Err(source) => {
                signal.give(false);
                core.threads.join();
                return Err(BuildError::Spawn { slot, source });
            }
        }
    }
    signal.give(true);
    Ok(())
}

fn spawn(
    core: &Core,
    slot: usize,
    main: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let settings = &core.settings;
    let name = format!("{}-{}", settings.name, core.slots[slot].name());
    let mut builder = thread::Builder::new().name(name);
    if let Some(size) = settings.stack_size {
        if size > isize::MAX as usize {
            // The standard library would round it up past the end of the address space.
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a stack cannot be larger than the address space",
            ));
        }
        builder = builder.stack_size(size);
    }
    builder.spawn(main)
}

/// The life of a slot's thread.
fn serve(core: &Arc<Core>, slot: usize, mut deque: Deque<Job>) {
    loop {
        deque = serve_once(core, slot, deque);
        if core.progress.get() == Phase::Stopped {
            return;
        }
        match succeed(core, slot, deque) {
            None => return,
            Some(mine) => deque = mine,
        }
    }
}

/// Runs jobs until the pool stops or one of them has panicked, and gives the deque back.
fn serve_once(core: &Core, slot: usize, deque: Deque<Job>) -> Deque<Job> {
    let bench = Rc::new(Bench {
        slot,
        deque,
        meter: core.charges_time().then(Meter::default),
    });
    {
        let _member = worker::enter(core.home().address(), slot, Rc::clone(&bench) as _);
        let _locals = local::open();
        core.sleep.register(slot);
        let server = Server {
            core,
            slot,
            own: &core.slots[slot],
            bench: &bench,
            admitted: Cell::default(),
            overdue: Cell::default(),
            tenant: Cell::default(),
        };
        call_hook(&core.settings.on_thread_start, slot);
        worker::run(&server);
        call_hook(&core.settings.on_thread_stop, slot);
    }
    match Rc::try_unwrap(bench) {
        Ok(bench) => bench.deque,
        Err(_) => unreachable!("the thread's membership held the only other reference"),
    }
}

/// A job panicked on this thread, so it ends: starts another in its place, or retires the slot. The
/// deque comes back if the system has no thread to give, and this one has to go on.
fn succeed(core: &Arc<Core>, slot: usize, deque: Deque<Job>) -> Option<Deque<Job>> {
    if !core.take_restart() {
        core.retire(slot);
        return None;
    }
    // Kept outside the closure, since a failed spawn drops that.
    let deque = Arc::new(Mutex::new(Some(deque)));
    let (their_core, their_deque) = (Arc::clone(core), Arc::clone(&deque));
    let main = move || {
        let deque = their_deque.lock().take();
        serve(&their_core, slot, deque.expect("the spawn succeeded"));
    };
    match core.threads.replace(slot, || spawn(core, slot, main)) {
        Ok(()) => {
            core.slots[slot].restarted();
            None
        }
        Err(_) => deque.lock().take(),
    }
}

/// The worker loop's view of the pool.
struct Server<'a> {
    core: &'a Core,
    slot: usize,
    own: &'a Slot,
    bench: &'a Bench,
    /// With a limit: the job that was admitted when the last one ended, or on a token.
    admitted: Cell<Option<Admitted>>,
    /// With a limit: a job whose deadline was found to have passed, to be withdrawn.
    overdue: Cell<Option<Job>>,
    /// With a limit: the tenant of the job that runs.
    tenant: Cell<Option<Id>>,
}

impl Server<'_> {
    /// The other slots, beginning with the next one.
    fn others(&self) -> impl Iterator<Item = &Slot> {
        let slots = &self.core.slots;
        (1..slots.len()).map(|step| &slots[(self.slot + step) % slots.len()])
    }

    /// Takes jobs over from another slot.
    fn take_over(&self) -> Option<Job> {
        let (own, bench, sweeps) = (self.own, self.bench, &self.core.sweeps);
        self.others()
            .find_map(|victim| own.take_from(victim, &bench.deque, sweeps))
    }

    /// Gets jobs into the own deque, from the own slot or another. Others could not see them on the
    /// way, so with some left over, one of those that sleep is told.
    fn refill(&self) -> Option<Job> {
        let (deque, sweeps) = (&self.bench.deque, &self.core.sweeps);
        let job = self.own.refill(deque, sweeps);
        let job = job.or_else(|| self.take_over())?;
        if !deque.is_empty() {
            self.core.sleep.job_pushed(self.slot);
        }
        Some(job)
    }

    fn has_work(&self) -> bool {
        self.core.has_queued() || self.own.has_pinned()
    }

    fn replaces_threads(&self) -> bool {
        self.core.settings.on_panic != PanicPolicy::Keep
    }
}

/// What is different with a limit.
impl Server<'_> {
    /// The job that was admitted when the last one ended, or the first one for a token that waits
    /// here or at another slot.
    fn next_admitted(&self, gate: &Gate) -> Option<Job> {
        let in_hand = self.admitted.take();
        if in_hand.is_none() && self.own.has_pinned() {
            if let Some(job) = self.claim_pinned() {
                return Some(job);
            }
        }
        let admitted = in_hand.or_else(|| self.take_up_token(gate))?;
        self.tenant.set(Some(admitted.tenant));
        Some(admitted.job)
    }

    /// A job for this thread alone. It has no tenant, and needs no token; it comes when none is held,
    /// as the job behind the token would have to wait for it, and might be what it waits for.
    fn claim_pinned(&self) -> Option<Job> {
        let mut jobs = std::iter::from_fn(|| self.own.take_pinned());
        jobs.find(|job| job.claim() == Claim::Ready)
    }

    fn take_up_token(&self, gate: &Gate) -> Option<Admitted> {
        if !(self.own.take_token() || self.others().any(Slot::take_token)) {
            return None;
        }
        let admitted = self.take_step(gate.first());
        self.withdraw_overdue();
        // The job does not pay for what the user's destructors did since the last one.
        self.bench.start_lap();
        if admitted.is_none() {
            // That brought a token back, which may be all that an idle moment was waiting for.
            self.core.check_idle();
        }
        admitted
    }

    /// Books what a token came to.
    #[inline]
    fn take_step(&self, step: Step) -> Option<Admitted> {
        if step.admitted.is_some() {
            self.own.load().take();
        }
        if step.passes_on {
            self.leave_token();
        }
        if step.overdue.is_some() {
            self.overdue.set(step.overdue);
        }
        step.admitted
    }

    fn leave_token(&self) {
        self.own.add_token();
        self.core.sleep.job_pushed(self.slot);
    }

    fn withdraw_overdue(&self) {
        if let Some(job) = self.overdue.take() {
            self.core.withdraw_from_lanes(vec![job], Fate::Expired);
        }
    }

    fn run_admitted(&self, job: Job) -> bool {
        let panicked = job.run_claimed(&Stage {
            turn: Some(self),
            ..self.core.stage(self.slot)
        });
        self.withdraw_overdue();
        panicked
    }

    /// When a million tenants have paid off what they owed, or need not any more, it takes a while to
    /// forget them: that is for threads without a job, until there is one.
    fn close_paid_off(&self) {
        let Some(gate) = self
            .core
            .gate
            .as_ref()
            .filter(|_| self.bench.meter.is_some())
        else {
            return;
        };
        while !self.has_work() && !self.is_stopped() && gate.close_paid_off() {}
    }

    /// This thread has something else to do: it is to be replaced, or has a result to drop, which may
    /// take as long as the user likes. If there is a job for its token, the token waits at the slot,
    /// for this thread or any other.
    fn pass_token_on(&self, gate: &Gate, tenant: Id, spent: u64) {
        if gate.end_and_pass_on(tenant, spent) {
            self.leave_token();
        }
    }
}

impl Turn for Server<'_> {
    /// The slot's count goes from this job to the next one without a gap in between.
    fn ended(&self, panicked: bool, lingers: bool) {
        let (Some(gate), Some(tenant)) = (&self.core.gate, self.tenant.take()) else {
            return;
        };
        let spent = self.bench.lap();
        let is_wanted_here = self.own.has_pinned();
        if lingers || is_wanted_here || (panicked && self.replaces_threads()) {
            return self.pass_token_on(gate, tenant, spent);
        }
        self.admitted.set(self.take_step(gate.next(tenant, spent)));
    }
}

fn call_hook(hook: &Option<Hook>, slot: usize) {
    if let Some(hook) = hook {
        if let Err(payload) = unwind::run(|| hook(slot)) {
            unwind::discard(payload);
        }
    }
}

impl Delegate for Server<'_> {
    type Task = Job;

    #[inline]
    fn next(&self) -> Option<Job> {
        if let Some(gate) = &self.core.gate {
            return self.next_admitted(gate);
        }
        let pinned = self.own.take_pinned();
        pinned.or_else(|| self.bench.deque.pop().or_else(|| self.refill()))
    }

    #[inline]
    fn run(&self, job: Job) -> bool {
        let panicked = match self.core.gate {
            None => job.run(&self.core.stage(self.slot)),
            Some(_) => self.run_admitted(job),
        };
        let ends = panicked && self.replaces_threads();
        if ends {
            // What follows takes its time, and this may have been the last job.
            self.core.check_idle();
        }
        !ends
    }

    fn out_of_work(&self) {
        if let Some(vacancy) = &self.core.vacancy {
            vacancy.set(self.slot);
        }
        self.core.check_idle();
        self.close_paid_off();
    }

    fn start_searching(&self) {
        self.core.sleep.start_searching();
    }

    fn is_crowded(&self) -> bool {
        self.core.sleep.is_crowded()
    }

    fn found(&self) {
        self.core.sleep.found(self.slot, || self.core.has_queued());
    }

    fn sleep(&self) {
        self.core
            .sleep
            .fall_asleep(self.slot, || self.has_work() || self.is_stopped());
    }

    fn is_stopped(&self) -> bool {
        self.core.progress.get() == Phase::Stopped
    }
}
