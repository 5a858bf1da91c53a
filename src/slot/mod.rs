//! A slot: where jobs wait for one thread, and from where idle threads take them.
//!
//! Submitters push into the slot's injector. The slot's thread moves jobs from there into its own
//! deque, up to [`BATCH`] at a time, where they can still be taken by others; popping from one's own
//! deque costs a fraction of taking from the injector.
//!
//! **Jobs in motion.** While a thread moves a batch, the jobs are in no queue. `cancel_queued` must
//! not miss them, so movers and sweepers shake hands through two flags:
//!
//! - mover: M1 set the slot's `moving`, M2 fence, M3 read `sweeps`; if it is zero move the batch,
//!   otherwise take a single job, which counts as begun; M4 unset `moving`.
//! - sweeper: C1 raise `sweeps`, C2 fence, C3 empty all queues, C4 wait for each slot's `moving` to
//!   be unset, C5 empty all queues again, C6 lower `sweeps`.
//!
//! A mover that reads zero at M3 set `moving` before the sweeper's C2, so C4 waits for it, and C5
//! finds what it moved. No later batch moves before C6. C4 waits for a handful of instructions.
//!
//! Nobody who is about to sleep sees jobs in motion either: so a mover that leaves jobs in its deque
//! wakes somebody for them, as a submitter would.

#[cfg(all(test, loom))]
mod models;
pub(crate) mod sleep;
pub(crate) mod vacancy;

use std::collections::VecDeque;

use crate::job::{Job, Stage};
use crate::ledger::{Fate, Load, Room};
use crate::strategy::SlotLoad;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, CachePadded, Deque, Injector, Mutex, Ordering, Steal,
    Stealer, fence, hint, is_broken, thread,
};

/// Jobs moved from a slot's injector into its thread's deque at a time.
const BATCH: usize = 32;
/// Jobs taken at most from another slot's injector and deque, at a time.
const TAKE_QUEUED: usize = 4;
const TAKE_MOVED: usize = 8;

/// One worker's place in the pool.
pub(crate) struct Slot {
    name: String,
    index: usize,
    queue: Injector<Job>,
    moved: Stealer<Job>,
    moving: CachePadded<AtomicBool>,
    load: Load,
    /// With a limit: tokens that wait here for a thread. Each stands for a job that may enter.
    tokens: AtomicUsize,
    /// Jobs for this slot's thread and no other.
    pinned: Pinned,
    /// How often the slot's thread was replaced.
    restarts: AtomicU64,
}

/// Jobs that nobody takes over. They are few, and there are none most of the time: a thread that looks
/// for one between any two jobs reads a line that is hardly ever written.
#[derive(Default)]
struct Pinned {
    count: CachePadded<AtomicUsize>,
    jobs: Mutex<VecDeque<Job>>,
}

impl Pinned {
    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        jobs.push_back(job);
        self.count.store(jobs.len(), Ordering::SeqCst);
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    #[cold]
    fn pop(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        let job = jobs.pop_front();
        self.count.store(jobs.len(), Ordering::SeqCst);
        job
    }
}

/// Whether somebody sweeps the queues right now; shared by all slots of a pool.
#[derive(Default)]
pub(crate) struct Sweeps(CachePadded<AtomicUsize>);

impl Slot {
    /// A slot whose thread will own `deque`.
    pub(crate) fn new(index: usize, deque: &Deque<Job>) -> Slot {
        Slot {
            name: format!("w{index}"),
            index,
            queue: Injector::new(),
            moved: deque.stealer(),
            moving: CachePadded::default(),
            load: Load::default(),
            tokens: AtomicUsize::new(0),
            pinned: Pinned::default(),
            restarts: AtomicU64::new(0),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// The slot has got another thread.
    pub(crate) fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn push(&self, job: Job) {
        self.queue.push(job);
    }

    /// Whether nothing waits here that any thread may take.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.moved.is_empty() && !self.has_tokens()
    }

    /// Queues a job that only this slot's thread may run; the caller sees that it is awake.
    pub(crate) fn pin(&self, job: Job) {
        self.pinned.push(job);
    }

    #[inline]
    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// Takes out a pinned job: for the slot's thread to run, or for anybody to withdraw.
    #[inline]
    pub(crate) fn take_pinned(&self) -> Option<Job> {
        if self.pinned.is_empty() {
            return None;
        }
        self.pinned.pop()
    }

    /// A token has come to this slot.
    pub(crate) fn add_token(&self) {
        self.tokens.fetch_add(1, Ordering::SeqCst);
    }

    fn has_tokens(&self) -> bool {
        self.tokens.load(Ordering::SeqCst) > 0
    }

    /// Takes away a token that waits here.
    pub(crate) fn take_token(&self) -> bool {
        self.has_tokens()
            && self
                .tokens
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
    }

    /// Takes away all tokens that wait here.
    pub(crate) fn take_all_tokens(&self) -> usize {
        self.tokens.swap(0, Ordering::SeqCst)
    }

    /// Jobs queued or running here, and tokens that wait here.
    pub(crate) fn pending(&self) -> usize {
        let tokens = self.tokens.load(Ordering::Acquire);
        self.load.pending() + tokens
    }

    /// Moves jobs from the slot's injector into its thread's deque, and returns the first.
    pub(crate) fn refill(&self, deque: &Deque<Job>, sweeps: &Sweeps) -> Option<Job> {
        if self.queue.is_empty() {
            return None;
        }
        self.in_motion(sweeps, |may_batch| {
            let limit = if may_batch { BATCH } else { 1 };
            retry(|| self.queue.steal_batch_with_limit_and_pop(deque, limit))
        })
    }

    /// Takes jobs over from `victim`: the first is returned, the others go into `deque`.
    ///
    /// One at a time, each counted here before it is counted out there, and only then made visible
    /// in `deque`: a batch steal of the deque does not say how many it moved, and somebody else could
    /// run a job before it was counted. Entries of withdrawn jobs are not counted at all.
    pub(crate) fn take_from(
        &self,
        victim: &Slot,
        deque: &Deque<Job>,
        sweeps: &Sweeps,
    ) -> Option<Job> {
        if victim.is_empty() {
            return None;
        }
        self.in_motion(sweeps, |may_batch| {
            let cap = |limit: usize| if may_batch { limit } else { 1 };
            self.take_some(victim, deque, cap(TAKE_QUEUED), || {
                retry(|| victim.queue.steal())
            })
            .or_else(|| {
                let half = victim.moved.len().div_ceil(2);
                self.take_some(victim, deque, cap(TAKE_MOVED).min(half), || {
                    retry(|| victim.moved.steal())
                })
            })
        })
    }

    fn take_some(
        &self,
        victim: &Slot,
        deque: &Deque<Job>,
        limit: usize,
        mut steal: impl FnMut() -> Option<Job>,
    ) -> Option<Job> {
        let mut first = None;
        for _ in 0..limit {
            let Some(job) = steal() else { break };
            if !job.relocate(self.index) {
                continue;
            }
            self.load.take();
            victim.load.give();
            match first {
                None => first = Some(job),
                Some(_) => deque.push(job),
            }
        }
        first
    }

    /// M1 to M4 of the module's protocol.
    #[inline]
    fn in_motion<R>(&self, sweeps: &Sweeps, action: impl FnOnce(bool) -> R) -> R {
        self.moving.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let result = action(sweeps.0.load(Ordering::SeqCst) == 0);
        self.moving.store(false, Ordering::Release);
        result
    }

    /// Withdraws all that waits here; returns how many jobs that were.
    fn withdraw_all(&self, room: Option<&Room>, fate: Fate) -> usize {
        let stage = Stage {
            load: &self.load,
            room,
            turn: None,
            idle: None,
        };
        // What comes in meanwhile is not meant, and might come faster than it is swept.
        let waiting = self.queue.len() + self.moved.len();
        let next = || retry(|| self.queue.steal()).or_else(|| retry(|| self.moved.steal()));
        std::iter::from_fn(next)
            .take(waiting)
            .filter_map(|job| job.withdraw(&stage, fate).then_some(()))
            .count()
    }
}

impl SlotLoad for Slot {
    #[inline]
    fn pending_count(&self) -> usize {
        self.pending()
    }
}

/// Waits for those who move jobs right now. Between two counts a moved job that has just been
/// withdrawn still shows as pending where it came from: with nothing left to move, no longer.
pub(crate) fn await_movers(slots: &[Slot]) {
    fence(Ordering::SeqCst);
    for slot in slots {
        while slot.moving.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

/// Withdraws every job that waits in `slots`, and tells how many that were. C1 to C6.
pub(crate) fn sweep(slots: &[Slot], sweeps: &Sweeps, room: Option<&Room>, fate: Fate) -> usize {
    sweeps.0.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let empty = || -> usize { slots.iter().map(|s| s.withdraw_all(room, fate)).sum() };
    let mut count = empty();
    if !is_broken("sweep C4") {
        await_movers(slots);
    }
    count += empty();
    sweeps.0.fetch_sub(1, Ordering::SeqCst);
    count
}

fn retry<T>(mut steal: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(value) => return Some(value),
            Steal::Empty => return None,
            Steal::Retry => hint::spin_loop(),
        }
    }
}
