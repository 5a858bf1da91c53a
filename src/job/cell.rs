//! A job that somebody can look at: state, closure and result in one place.
//!
//! The closure and the result share their bytes, since the one is gone before the other exists. The
//! state word says whose they are at any moment (see `state`); this file holds the only code that
//! touches them, and each access names the right it acts on.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, size_of};
use std::ptr::{self, NonNull};
use std::time::Instant;

use super::ancestors;
use super::entry::{self, Job, Stage};
use super::slab;
use super::state::{Claim, Phase, Ref, Settled, State};
use super::watch::Watch;
use crate::cancel::Subscription;
use crate::error::{JobError, PanicPayload};
use crate::fair::Id;
use crate::fork;
use crate::ledger::{Fate, Load};
use crate::sync::{Access, Arc, AtomicU32, Ordering, Weak, thread};
use crate::unwind;
use crate::worker;

/// A closure larger than this is boxed beside its cell. Cancelling a queued job then frees the bulk
/// of it at once; what stays until a worker comes across the entry is a small cell.
const LARGE: usize = 256;

/// The pool's side of a job's life, as far as a job calls on it off the fast path.
pub(crate) trait HomeKeeper: Send + Sync {
    /// A job counted in `slot` has been claimed to be dropped.
    fn withdrawn(&self, slot: usize, place: &Place, fate: Fate);
    /// One of the pool's threads wants to run a job in place: `claim` it, and if that succeeds, let it
    /// begin.
    fn begin_in_place(&self, place: &Place, claim: &dyn Fn() -> Option<usize>) -> Option<InPlace>;
    /// It has run, and its result is not visible yet.
    fn end_in_place(&self, job: &InPlace, panicked: bool);
    /// Nothing is left of a job of which one of the above was said.
    fn gone(&self, slot: usize);
}

/// A job that runs in place.
pub(crate) struct InPlace {
    /// Where it is counted.
    pub(crate) slot: usize,
    /// With a limit: its tenant.
    pub(crate) tenant: Option<Id>,
}

/// Where jobs come from: part of the pool, at a fixed address.
pub(crate) struct Home {
    keeper: Weak<dyn HomeKeeper>,
    generation: u32,
}

impl Home {
    pub(crate) fn new(keeper: Weak<dyn HomeKeeper>) -> Home {
        Home {
            keeper,
            generation: fork::generation(),
        }
    }

    /// Whether this process is a forked copy of the one that the pool was built in.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    /// What tells homes apart; never dereferenced.
    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// Where a queued job can be found by whoever has withdrawn it: a number of the gate's, 0 for
/// nowhere. The gate reads and writes it under its lock, which is what orders it.
#[derive(Default)]
pub(crate) struct Place(AtomicU32);

impl Place {
    pub(super) fn set(&self, number: u32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The number, if the job is queued somewhere, which it is not any more.
    pub(crate) fn take(&self) -> Option<u32> {
        let number = self.0.load(Ordering::Relaxed);
        self.0.store(0, Ordering::Relaxed);
        (number != 0).then_some(number)
    }
}

/// What was asked for on top of running: rare, so it lies aside.
#[derive(Default)]
pub(crate) struct Conditions {
    pub(crate) deadline: Option<Instant>,
    pub(crate) subscription: Option<Subscription>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    pub(crate) watch: Option<Watch>,
}

/// Somebody who has to know when nothing is left of a job but what its handle owns.
pub(crate) trait Witness: Send + Sync {
    fn job_gone(&self);
}

/// What all cells have in common, whatever their closure.
pub(super) struct Header {
    state: State,
    table: &'static Table,
    /// Dangling once the job has settled; see [`CellRef::pin`].
    home: Option<NonNull<Home>>,
    /// The process generation in which the job was made.
    generation: u32,
    place: Place,
    /// The thread that joins the job; whose it is, `State` says.
    waiter: UnsafeCell<Option<thread::Thread>>,
    waiter_access: Access,
    /// That of the closure and the result.
    body_access: Access,
    /// Read-only from creation to the end.
    conditions: Option<Box<Conditions>>,
}

struct Table {
    /// Consumes the closure and stores its result. `true` if it panicked.
    run: unsafe fn(NonNull<Header>) -> bool,
    /// Drops the closure and stores `error` as the result.
    refuse: unsafe fn(NonNull<Header>, JobError),
    /// Where the result lies: a `Result<T, JobError>`.
    result: unsafe fn(NonNull<Header>) -> *mut (),
    /// Drops the stored result.
    drop_result: unsafe fn(NonNull<Header>),
    /// Whether dropping the result runs code.
    has_drop: bool,
    /// Frees a cell that holds neither closure nor result any more.
    free: unsafe fn(NonNull<Header>),
}

#[repr(C)]
struct Cell<F, T> {
    header: Header,
    body: UnsafeCell<Body<F, T>>,
}

union Body<F, T> {
    closure: ManuallyDrop<F>,
    result: ManuallyDrop<Result<T, JobError>>,
}

/// One of the references that keep a cell alive.
pub(super) struct CellRef {
    header: NonNull<Header>,
    held: Ref,
}

// SAFETY: the closure and the result cross threads, so `create` asks both to be `Send`; all other
// parts are shared by protocol and are `Send + Sync` themselves.
unsafe impl Send for CellRef {}
// SAFETY: as above. Through a shared reference one can look at the state, withdraw the job and wait
// for it; the result itself is only moved out through an owned handle, whose type asks `T: Send`.
unsafe impl Sync for CellRef {}

/// A new job, in all the parts it is shared by.
pub(super) struct NewCell {
    pub(super) entry: CellRef,
    pub(super) handle: Option<CellRef>,
}

impl NewCell {
    /// A job whose closure is `f`, counted in `slot` of `home`, with or without a handle. With
    /// `conditions` that name a token, the token gets its reference to the job before anybody else
    /// can see it.
    ///
    /// # Safety
    /// The closure and the result may be used until the job is gone; see [`Witness`].
    #[inline]
    unsafe fn create<F, T>(
        home: Option<&Home>,
        slot: usize,
        conditions: Option<Box<Conditions>>,
        has_handle: bool,
        f: F,
    ) -> NewCell
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        if size_of::<F>() > LARGE {
            let boxed = Box::new(f);
            Self::with(home, slot, conditions, has_handle, boxed)
        } else {
            Self::with(home, slot, conditions, has_handle, f)
        }
    }

    #[inline]
    fn with<F, T>(
        home: Option<&Home>,
        slot: usize,
        conditions: Option<Box<Conditions>>,
        has_handle: bool,
        f: F,
    ) -> NewCell
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let has_token = conditions
            .as_ref()
            .is_some_and(|c| c.subscription.is_some());
        let refs: &[Ref] = match (has_handle, has_token) {
            (true, false) => &[Ref::Entry, Ref::Handle],
            (true, true) => &[Ref::Entry, Ref::Handle, Ref::Token],
            (false, false) => &[Ref::Entry],
            (false, true) => &[Ref::Entry, Ref::Token],
        };
        let (memory, spot) = slab::allocate(Layout::new::<Cell<F, T>>());
        let header = Header {
            state: State::new(slot, spot, refs),
            table: &Cell::<F, T>::TABLE,
            home: home.map(NonNull::from),
            generation: fork::generation(),
            place: Place::default(),
            waiter: UnsafeCell::new(None),
            waiter_access: Access::new(),
            body_access: Access::new(),
            conditions,
        };
        // SAFETY: fresh memory of the cell's layout.
        unsafe { Cell::<F, T>::write(memory.cast(), header, f) };
        let header = memory.cast();
        let reference = |held| CellRef { header, held };
        if has_token {
            reference(Ref::Token).subscribe();
        }
        NewCell {
            entry: reference(Ref::Entry),
            handle: has_handle.then(|| reference(Ref::Handle)),
        }
    }
}

impl<F: FnOnce() -> T, T> Cell<F, T> {
    const TABLE: Table = Table {
        run: Self::run,
        refuse: Self::refuse,
        result: |header| {
            // SAFETY: the cell is alive, the caller's promise. Only the address is computed.
            unsafe { &raw mut (*Self::body(header)).result }.cast()
        },
        drop_result: Self::drop_result,
        has_drop: mem::needs_drop::<T>(),
        free: Self::free,
    };

    /// Field by field: a `Cell` as a value would pass over the stack, and its size is that of the
    /// largest result.
    ///
    /// # Safety
    /// `cell` is fresh memory of the right layout.
    #[inline]
    unsafe fn write(cell: NonNull<Self>, header: Header, f: F) {
        let at = cell.as_ptr();
        // SAFETY: the caller's promise. Both fields are written before anybody sees the cell; a union
        // needs only the field that will be read.
        unsafe {
            (&raw mut (*at).header).write(header);
            let body = (&raw mut (*at).body).cast::<Body<F, T>>();
            (&raw mut (*body).closure).write(ManuallyDrop::new(f));
        }
    }

    /// # Safety
    /// `header` is that of a live `Cell<F, T>`.
    unsafe fn body(header: NonNull<Header>) -> *mut Body<F, T> {
        let cell = header.cast::<Self>().as_ptr();
        // SAFETY: the caller's promise; `repr(C)` puts the header first.
        unsafe { (&raw mut (*cell).body).cast() }
    }

    /// # Safety
    /// The caller has claimed the closure.
    unsafe fn run(header: NonNull<Header>) -> bool {
        // SAFETY: the claim gives the bytes to this thread until it settles: the closure is moved
        // out, after which they are free for the result. The result is written where it will stay,
        // without a stop on the stack where the compiler can help it.
        unsafe {
            let body = Self::body(header);
            let f = body.cast::<F>().read();
            let result = body.cast::<Result<T, JobError>>();
            match unwind::run(|| result.write(Ok(f()))) {
                Ok(()) => false,
                Err(payload) => {
                    result.write(Err(JobError::Panicked(PanicPayload::new(payload))));
                    true
                }
            }
        }
    }

    /// # Safety
    /// The caller has claimed the closure.
    unsafe fn refuse(header: NonNull<Header>, error: JobError) {
        // SAFETY: as in `run`.
        unsafe {
            let body = Self::body(header);
            unwind::discard(body.cast::<F>().read());
            body.cast::<Result<T, JobError>>().write(Err(error));
        }
    }

    /// # Safety
    /// A result is stored and the caller owns it.
    unsafe fn drop_result(header: NonNull<Header>) {
        // SAFETY: the caller's promise.
        unwind::discard(unsafe { Self::body(header).cast::<Result<T, JobError>>().read() });
    }

    /// # Safety
    /// The caller has released the last reference, and the body is empty.
    unsafe fn free(header: NonNull<Header>) {
        let cell = header.cast::<Self>().as_ptr();
        // SAFETY: nobody else can reach the cell. Its body needs no drop; the header does.
        unsafe {
            let spot = (*cell).header.state.spot();
            ptr::drop_in_place(&raw mut (*cell).header);
            slab::free(header.cast(), spot, Layout::new::<Self>());
        }
    }
}

impl Header {
    fn deadline(&self) -> Option<Instant> {
        self.conditions.as_ref()?.deadline
    }

    /// Whether the job's deadline has passed. Reads a clock only if it has one.
    fn is_overdue(&self) -> bool {
        self.deadline().is_some_and(|at| at <= Instant::now())
    }

    #[inline]
    fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.conditions.as_ref()?.witness.clone()
    }

    #[inline]
    fn watch(&self) -> Option<&Watch> {
        self.conditions.as_ref()?.watch.as_ref()
    }

    /// A worker has come to this job.
    #[inline]
    pub(super) fn claim(&self) -> entry::Claim {
        if self.is_overdue() {
            entry::Claim::Overdue
        } else if self.state.claim_to_run().is_won() {
            entry::Claim::Ready
        } else {
            entry::Claim::Gone
        }
    }

    pub(super) fn is_claimed(&self) -> bool {
        self.state.phase() != Phase::Queued
    }

    pub(super) fn relocate(&self, slot: usize) -> bool {
        self.state.move_to(slot)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl CellRef {
    /// The entry's reference, to be stored by address.
    pub(super) fn into_entry(self) -> NonNull<Header> {
        debug_assert_eq!(self.held, Ref::Entry);
        ManuallyDrop::new(self).header
    }

    /// # Safety
    /// `header` came from [`CellRef::into_entry`], and comes back once.
    pub(super) unsafe fn of_entry(header: NonNull<Header>) -> CellRef {
        CellRef {
            header,
            held: Ref::Entry,
        }
    }

    fn header(&self) -> &Header {
        // SAFETY: this reference keeps the cell alive, and a header is only read, or written through
        // the cells and atomics inside it.
        unsafe { self.header.as_ref() }
    }

    fn address(&self) -> usize {
        self.header.as_ptr().addr()
    }

    pub(super) fn phase(&self) -> Phase {
        self.header().state.phase()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.header().state.is_settled()
    }

    /// Whether the job was made in the process that this one was forked from, and will not get on.
    pub(super) fn is_forked(&self) -> bool {
        self.header().generation != fork::generation()
    }

    /// Whether the job runs on this thread, so that waiting for it would never end.
    pub(super) fn is_ancestor(&self) -> bool {
        ancestors::contains(self.address())
    }

    /// The job's deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.header().deadline()
    }

    /// Runs the claimed job for a worker; `true` if it panicked.
    #[inline]
    pub(super) fn run(self, stage: &Stage<'_>) -> bool {
        let witness = self.header().witness();
        stage.begin();
        let panicked = self.call(Some(stage.load));
        let is_sealed = stage.asks_for_handle() && self.header().state.seal();
        let lingers = !is_sealed && (panicked || self.header().table.has_drop);
        stage.end(panicked, lingers);
        // The job is finished with when its result is published, or dropped if nobody wants it. But
        // whoever joins it may end the idle moment that follows by its next submit. So if somebody
        // waits for one, a job whose handle is sure to take the result is counted before.
        if is_sealed {
            stage.load.finish();
        }
        self.settle_as_runner();
        testify(witness);
        if !is_sealed {
            stage.load.finish();
        }
        panicked
    }

    /// Runs a queued job on this thread, which belongs to the pool that `here` says; `false` if that
    /// is not the job's pool, or the job is no longer queued.
    pub(super) fn run_in_place(&self, here: Option<usize>) -> bool {
        let home = self.header().home;
        if here.is_none() || home.map(|home| home.as_ptr().addr()) != here || self.expire() {
            return false;
        }
        // SAFETY: this thread serves the pool, and so keeps it alive.
        let Some(keeper) = home.and_then(|home| unsafe { home.as_ref() }.keeper.upgrade()) else {
            return false;
        };
        let claim = || match self.header().state.claim_to_run() {
            Claim::Won { slot } => Some(slot),
            _ => None,
        };
        let Some(job) = keeper.begin_in_place(self.header().place(), &claim) else {
            return false;
        };
        let panicked = self.call(None);
        keeper.end_in_place(&job, panicked);
        self.settle();
        testify(self.header().witness());
        keeper.gone(job.slot);
        true
    }

    /// Runs a job that no pool knows of.
    pub(super) fn run_homeless(self) {
        let claim = self.header().state.claim_to_run();
        debug_assert!(matches!(claim, Claim::Won { .. }));
        self.call(None);
        self.settle_as_runner();
    }

    /// Calls the claimed closure; with `load`, as what the thread of that slot does.
    #[inline]
    fn call(&self, load: Option<&Load>) -> bool {
        self.unsubscribe();
        let _here = ancestors::enter(self.address());
        let running = self.header().watch().map(|watch| watch.begin(load));
        self.header().body_access.exclusive();
        // SAFETY: the caller has claimed the closure, and calls once.
        let panicked = unsafe { (self.header().table.run)(self.header) };
        self.header().body_access.exclusive();
        if let Some(running) = running {
            running.end();
        }
        panicked
    }

    /// Drops a queued job unrun, unless somebody has claimed it before.
    pub(super) fn withdraw(&self, fate: Fate) -> Claim {
        let claim = self.header().state.claim_to_drop();
        if let Claim::Won { slot } = claim {
            let (keeper, home) = self.pin();
            keeper.withdrawn(slot, self.header().place(), fate);
            self.unsubscribe();
            let visit = worker::visit(home, None);
            self.refuse(fate);
            drop(visit);
            testify(self.header().witness());
            // Before the joiner can go on: its next submit may end the idle moment that follows. Sealed,
            // so that whoever learns of that moment sees the job settled.
            let _has_handle = self.header().state.seal();
            keeper.gone(slot);
            self.settle();
        }
        claim
    }

    /// Drops the closure of a job that never got into a queue: no pool has to be told.
    pub(super) fn withdraw_unqueued(&self, fate: Fate) {
        let claim = self.header().state.claim_to_drop();
        debug_assert!(claim.is_won());
        self.refuse(fate);
        self.settle();
    }

    /// The queue goes down with the job in it. No pool does that to a job that still waits; if one
    /// did, the handle would resolve all the same.
    pub(super) fn abandon(self) {
        if self.header().state.claim_to_drop().is_won() {
            self.unsubscribe();
            self.refuse(Fate::Discarded);
            testify(self.header().witness());
            self.settle();
        }
    }

    /// Drops the claimed closure and stores `fate` as the result. A capture that waits for the job
    /// itself while it is dropped is told so, as a running job would be.
    fn refuse(&self, fate: Fate) {
        let _here = ancestors::enter(self.address());
        let error = match fate {
            Fate::Cancelled => JobError::Cancelled,
            Fate::Expired => JobError::Expired,
            Fate::Discarded => JobError::Discarded,
        };
        self.header().body_access.exclusive();
        // SAFETY: the caller has claimed the closure, and calls once.
        unsafe { (self.header().table.refuse)(self.header, error) };
        self.header().body_access.exclusive();
    }

    /// Withdraws a queued job that this thread would withdraw anyway, as it sweeps the pool's queues:
    /// it is being waited for from inside a destructor, and nobody else may be there to take it.
    pub(super) fn join_sweep(&self) -> bool {
        let home = self.header().home.map(|home| home.as_ptr().addr());
        let fate = home.and_then(worker::sweeps);
        fate.is_some_and(|fate| self.withdraw(fate).is_won())
    }

    /// Withdraws a queued job whose deadline has passed; `true` if that made it settle.
    pub(super) fn expire(&self) -> bool {
        self.phase() == Phase::Queued
            && self.header().is_overdue()
            && self.withdraw(Fate::Expired).is_won()
    }

    /// The pool, kept alive. Only for whoever has claimed the job and not yet said that it is gone.
    ///
    /// A counted reference in each cell would cost two contended atomic steps a job. Instead a pool
    /// outlives its unfinished jobs: its threads own it, and end only when every job that was
    /// counted in is counted as finished; should they all be retired before that, the pool owns
    /// itself until then. A claimed job is not finished until its claimer says so.
    ///
    /// Also returns what tells the pool from others.
    fn pin(&self) -> (Arc<dyn HomeKeeper>, usize) {
        let home = self.header().home;
        let home = home.expect("a job that can be queued has a home");
        // SAFETY: the job is claimed and not finished, so the pool is alive, as argued above.
        let home = unsafe { home.as_ref() };
        let keeper = home.keeper.upgrade();
        let keeper = keeper.expect("a pool outlives its unfinished jobs");
        (keeper, home.address())
    }

    /// Publishes the stored result, and keeps this reference.
    fn settle(&self) {
        match self.header().state.settle(None) {
            Settled::Seen => {}
            other => self.finish_settling(other),
        }
    }

    /// Publishes the stored result, and gives up this reference along with it if possible.
    #[inline]
    fn settle_as_runner(self) {
        match self.header().state.settle(Some(self.held)) {
            Settled::Seen => mem::forget(self),
            other => self.finish_settling(other),
        }
    }

    fn finish_settling(&self, settled: Settled) {
        match settled {
            Settled::Seen => {}
            Settled::Awaited => {
                self.header().waiter_access.exclusive();
                // SAFETY: the job settled while a joiner waited, so the field is the settler's.
                let waiter = unsafe { (*self.header().waiter.get()).take() };
                if let Some(thread) = waiter {
                    thread.unpark();
                }
            }
            Settled::Detached => {
                self.header().body_access.exclusive();
                // SAFETY: nothing was published, so the result is still the settler's.
                unsafe { (self.header().table.drop_result)(self.header) }
            }
        }
    }

    /// Stores this thread to be woken. `false`: there is nothing to wait for any more.
    pub(super) fn start_waiting(&self) -> bool {
        self.header().waiter_access.exclusive();
        // SAFETY: `WAITING` is not set, so the field is the joiner's, and there is one joiner: it
        // has the handle by value.
        unsafe { *self.header().waiter.get() = Some(thread::current()) };
        self.header().state.start_waiting()
    }

    /// Takes [`CellRef::start_waiting`] back. `false`: the job has settled.
    pub(super) fn stop_waiting(&self) -> bool {
        let stopped = self.header().state.stop_waiting();
        if stopped {
            self.header().waiter_access.exclusive();
            // SAFETY: `WAITING` is unset and the job had not settled, so the field is the joiner's.
            unsafe { *self.header().waiter.get() = None };
        }
        stopped
    }

    /// Hands the token its reference.
    fn subscribe(self) {
        debug_assert_eq!(self.held, Ref::Token);
        // A second reference by address, for reading the conditions while the first one moves on.
        // SAFETY: the entry's reference is still with the caller's caller.
        let header = unsafe { self.header.as_ref() };
        let subscription = header
            .conditions
            .as_ref()
            .and_then(|c| c.subscription.as_ref());
        let subscription = subscription.expect("only a job with a subscription subscribes");
        subscription.start(Box::new(move || {
            if !self.is_forked() {
                self.withdraw(Fate::Cancelled);
            }
        }));
    }

    fn unsubscribe(&self) {
        if let Some(conditions) = &self.header().conditions {
            if let Some(subscription) = &conditions.subscription {
                subscription.end();
            }
        }
    }
}

/// Says that a job is gone. The witness was taken out of the cell before, which may be freed by now.
#[inline]
fn testify(witness: Option<Arc<dyn Witness>>) {
    if let Some(witness) = witness {
        witness.job_gone();
    }
}

impl Drop for CellRef {
    fn drop(&mut self) {
        if self.header().state.release(self.held) {
            self.header().waiter_access.exclusive();
            self.header().body_access.exclusive();
            // SAFETY: that was the last reference. The body is empty: a job with neither entry nor
            // token left has been claimed and settled, and the handle emptied it before it let go.
            unsafe { (self.header().table.free)(self.header) };
        }
    }
}

/// The user's reference, which owns the result once the job has settled.
pub(super) struct HandleRef<T> {
    cell: ManuallyDrop<CellRef>,
    _result: PhantomData<*const T>,
}

// SAFETY: it owns a `T`, which may go where it goes.
unsafe impl<T: Send> Send for HandleRef<T> {}
// SAFETY: a shared handle gives no access to the `T`; only an owned one does.
unsafe impl<T: Send> Sync for HandleRef<T> {}

impl<T> HandleRef<T> {
    /// # Safety
    /// `cell` is the handle's reference to a job whose result is a `T`.
    pub(super) unsafe fn new(cell: CellRef) -> Self {
        HandleRef {
            cell: ManuallyDrop::new(cell),
            _result: PhantomData,
        }
    }

    /// The result of a settled job.
    pub(super) fn take(self) -> Result<T, JobError> {
        assert_eq!(self.cell.phase(), Phase::Settled);
        let mut this = ManuallyDrop::new(self);
        let header = this.cell.header;
        this.cell.header().body_access.exclusive();
        // SAFETY: a settled result belongs to the handle, which is used up here: the result is moved
        // out once, and then the reference is given up once.
        unsafe {
            let at = (this.cell.header().table.result)(header);
            let result = at.cast::<Result<T, JobError>>().read();
            ManuallyDrop::drop(&mut this.cell);
            result
        }
    }
}

impl<T> std::ops::Deref for HandleRef<T> {
    type Target = CellRef;
    fn deref(&self) -> &CellRef {
        &self.cell
    }
}

impl<T> Drop for HandleRef<T> {
    fn drop(&mut self) {
        if self.cell.is_forked() && self.cell.phase() != Phase::Settled {
            // Whoever would settle it exists in the parent alone, perhaps in the midst of it. Nothing
            // of the job is touched in the child.
            return;
        }
        if self.cell.header().state.detach() {
            // The reference is given up, and was not the last: whoever settles drops the result.
            return;
        }
        self.cell.header().body_access.exclusive();
        // SAFETY: the job has settled and the result was not taken, so it is the handle's to drop,
        // and then the reference is given up once.
        unsafe {
            (self.cell.header().table.drop_result)(self.cell.header);
            ManuallyDrop::drop(&mut self.cell);
        }
    }
}

/// Makes both ends of a job with a handle. Inlined by force into each of the few submits, since most
/// of it is deciding things they know: 28 instructions less of a submit than by a call.
///
/// # Safety
/// What the closure and the result borrow outlives the job, until it is gone; see [`Witness`].
#[inline(always)]
pub(super) unsafe fn pair<F, T>(
    home: Option<&Home>,
    slot: usize,
    conditions: Option<Box<Conditions>>,
    f: F,
) -> (CellRef, HandleRef<T>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: the caller's promise.
    let NewCell { entry, handle } = unsafe { NewCell::create(home, slot, conditions, true, f) };
    let handle = handle.expect("asked for");
    // SAFETY: the cell was made for a closure that returns a `T`.
    (entry, unsafe { HandleRef::new(handle) })
}

/// Makes a queue entry for a closure that has conditions but no handle.
pub(crate) fn detached<F>(home: &Home, slot: usize, conditions: Box<Conditions>, f: F) -> Job
where
    F: FnOnce() + Send + 'static,
{
    // SAFETY: the closure borrows nothing.
    let cell = unsafe { NewCell::create(Some(home), slot, Some(conditions), false, f) };
    Job::of_cell(cell.entry)
}
