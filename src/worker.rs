//! What the thread of a slot does all day, and how code finds out that it runs on one.
//!
//! The loop knows a [`Delegate`], not the pool, so that it can be tested with a script.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::ledger::Fate;
use crate::sync::{cores, hint, thread, thread_local};

/// A searcher goes round the queues this often, with so many pauses in between, growing: about 5 µs.
/// Longer burns a core that others could use, shorter sleeps in the gaps of a busy submitter.
const POLLS: u32 = 8;
const FIRST_PAUSES: u32 = 8;
const MOST_PAUSES: u32 = 32;
/// After that it lets others run this often, and goes round once more each time.
const YIELDS: u32 = 2;
/// On a single core nobody can bring work while a searcher spins, but somebody can while it yields: a
/// round trip of submit and join took 1.25 times as long without. In models it would only add
/// interleavings.
const YIELDS_ON_ONE_CORE: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 1 };

/// What the loop needs from a pool.
pub(crate) trait Delegate {
    type Task;

    /// The next task of this slot, or one of another slot's.
    fn next(&self) -> Option<Self::Task>;

    /// Runs a task. `false`: this thread is to end.
    fn run(&self, task: Self::Task) -> bool;

    /// There was no task; those who wait for that may have to be told.
    fn out_of_work(&self);

    /// This thread searches from now on, until `found` or `sleep`.
    fn start_searching(&self);

    /// Whether enough others search already.
    fn is_crowded(&self) -> bool;

    /// A task was found, so this thread stops searching.
    fn found(&self);

    /// Nothing was found. Returns when there may be something, with this thread as a searcher.
    fn sleep(&self);

    /// Whether there will never be a task again.
    fn is_stopped(&self) -> bool;
}

/// Runs tasks until the delegate says that this thread is to end.
pub(crate) fn run<D: Delegate>(delegate: &D) {
    while let Some(task) = delegate.next().or_else(|| search(delegate)) {
        if !delegate.run(task) {
            return;
        }
    }
}

/// Looks for a task, asleep most of the time. `None`: there will never be one.
#[cold]
fn search<D: Delegate>(delegate: &D) -> Option<D::Task> {
    delegate.out_of_work();
    delegate.start_searching();
    loop {
        if let Some(task) = poll(delegate) {
            delegate.found();
            return Some(task);
        }
        if delegate.is_stopped() {
            delegate.found();
            return None;
        }
        delegate.sleep();
    }
}

fn poll<D: Delegate>(delegate: &D) -> Option<D::Task> {
    let (polls, yields) = if cores() == 1 {
        (0, YIELDS_ON_ONE_CORE)
    } else {
        (POLLS, YIELDS)
    };
    for round in 0..=polls + yields {
        if let Some(task) = delegate.next() {
            return Some(task);
        }
        if delegate.is_crowded() || delegate.is_stopped() {
            return None;
        }
        if round < polls {
            let pauses = (FIRST_PAUSES << round.min(8)).min(MOST_PAUSES);
            (0..pauses).for_each(|_| hint::spin_loop());
        } else if round < polls + yields {
            thread::yield_now();
        }
    }
    None
}

thread_local! {
    /// The home of the pool whose thread this is; 0 on any other thread. Set once and never unset:
    /// up to its last destructor a thread belongs to its pool, and must not wait for it.
    static HOME: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread serves its pool right now, and so keeps it alive. Its thread-locals are
    /// destroyed after that, when the pool may be gone.
    static SERVES: Cell<bool> = const { Cell::new(false) };
    /// What [`take_turn`] returns next.
    static TURN: Cell<usize> = const { Cell::new(0) };
    /// The homes of pools on whose behalf this thread drops captures of jobs, innermost last, and
    /// what becomes of all queued jobs if that is a sweep.
    static VISITS: RefCell<Vec<(usize, Option<Fate>)>> = const { RefCell::new(Vec::new()) };
    /// What [`with_bench`] gives out, on the thread of a pool that asked for it.
    static BENCH: RefCell<Option<Rc<dyn std::any::Any>>> = const { RefCell::new(None) };
}

/// The home of the pool that this thread serves, and thereby keeps alive.
#[inline]
pub(crate) fn here() -> Option<usize> {
    let serves = SERVES.try_with(Cell::get).unwrap_or(false);
    serves.then(|| HOME.with(Cell::get))
}

/// Whether there may be jobs that wait for this thread alone: it serves a pool, or drops what
/// withdrawn jobs of one have captured.
pub(crate) fn may_be_needed() -> bool {
    let is_visiting = || VISITS.try_with(|visits| !visits.borrow().is_empty());
    here().is_some() || is_visiting().unwrap_or(false)
}

/// Whether this thread must not wait for the pool at `home`: it is one of its threads, or about to
/// drop what a withdrawn job of the pool has captured. In both cases the pool waits for this thread.
pub(crate) fn is_awaited_by(home: usize) -> bool {
    HOME.try_with(Cell::get).is_ok_and(|own| own == home)
        || VISITS
            .try_with(|visits| visits.borrow().iter().any(|visit| visit.0 == home))
            .unwrap_or(false)
}

/// What becomes of the queued jobs of the pool at `home`, if this thread is sweeping them. It is the
/// one they wait for then, and must not wait for them.
pub(crate) fn sweeps(home: usize) -> Option<Fate> {
    let sweep = |visits: &RefCell<Vec<(usize, Option<Fate>)>>| {
        let visits = visits.borrow();
        let mut of_home = visits.iter().filter(|visit| visit.0 == home);
        of_home.find_map(|visit| visit.1)
    };
    VISITS.try_with(sweep).ok()?
}

/// Counts up from the slot, on a thread that serves a pool, so that what several of them count together
/// does not begin alike.
#[inline]
pub(crate) fn take_turn() -> usize {
    TURN.with(|turn| turn.replace(turn.get().wrapping_add(1)))
}

/// Makes this a thread of the pool at `home`, for `slot`. Until the guard is dropped it serves the pool, and jobs
/// on it may get at `bench` through [`with_bench`].
pub(crate) fn enter(home: usize, slot: usize, bench: Rc<dyn std::any::Any>) -> Membership {
    TURN.with(|turn| turn.set(slot));
    HOME.with(|own| own.set(home));
    SERVES.with(|serves| serves.set(true));
    BENCH.with(|own| own.replace(Some(bench)));
    Membership
}

/// Marks this thread as one that the pool at `home` waits for, until the guard is dropped.
pub(crate) fn visit(home: usize, sweep: Option<Fate>) -> Visit {
    let listed = VISITS.try_with(|visits| visits.borrow_mut().push((home, sweep)));
    Visit(listed.is_ok())
}

pub(crate) struct Visit(bool);

impl Drop for Visit {
    fn drop(&mut self) {
        if self.0 {
            let _ = VISITS.try_with(|visits| visits.borrow_mut().pop());
        }
    }
}

/// Calls `f` with this thread's bench, if it is a `B`.
pub(crate) fn with_bench<B: 'static, R>(f: impl FnOnce(&B) -> R) -> Option<R> {
    let bench = BENCH.try_with(|bench| bench.borrow().clone()).ok()??;
    bench.downcast_ref::<B>().map(f)
}

pub(crate) struct Membership;

impl Drop for Membership {
    fn drop(&mut self) {
        SERVES.with(|serves| serves.set(false));
        BENCH.with(|bench| bench.replace(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks come in the order of the script; `None` is a look that finds nothing.
    struct Script {
        looks: RefCell<std::collections::VecDeque<Option<u32>>>,
        log: RefCell<Vec<String>>,
    }

    impl Script {
        fn new(looks: &[Option<u32>]) -> Script {
            Script {
                looks: RefCell::new(looks.iter().copied().collect()),
                log: RefCell::default(),
            }
        }

        fn log(&self, text: impl Into<String>) {
            self.log.borrow_mut().push(text.into());
        }

        fn play(looks: &[Option<u32>]) -> Vec<String> {
            let script = Script::new(looks);
            run(&script);
            script.log.into_inner()
        }
    }

    impl Delegate for Script {
        type Task = u32;
        fn next(&self) -> Option<u32> {
            self.looks.borrow_mut().pop_front().flatten()
        }
        fn run(&self, task: u32) -> bool {
            self.log(format!("run {task}"));
            task != 99
        }
        fn out_of_work(&self) {
            self.log("out");
        }
        fn start_searching(&self) {
            self.log("search");
        }
        fn is_crowded(&self) -> bool {
            true
        }
        fn found(&self) {
            self.log("found");
        }
        fn sleep(&self) {
            self.log("sleep");
        }
        fn is_stopped(&self) -> bool {
            self.looks.borrow().is_empty()
        }
    }

    #[test]
    fn a_searcher_sleeps_between_looks_and_says_what_it_found() {
        let log = Script::play(&[Some(1), None, None, None, Some(2)]);
        let wanted = [
            "run 1", "out", "search", "sleep", "sleep", "found", "run 2", "out", "search", "found",
        ];
        assert_eq!(log, wanted);
    }

    #[test]
    fn a_task_may_end_the_thread() {
        assert_eq!(Script::play(&[Some(99), Some(1)]), ["run 99"]);
    }

    #[test]
    fn a_thread_belongs_to_its_pool_and_visits_others() {
        std::thread::spawn(|| {
            assert_eq!(here(), None);
            {
                let _member = enter(64, 3, Rc::new(5u8));
                assert_eq!([(); 3].map(|()| take_turn()), [3, 4, 5]);
                assert_eq!(here(), Some(64));
                assert_eq!(with_bench(|n: &u8| *n), Some(5));
                assert_eq!(with_bench(|n: &u16| *n), None);
            }
            assert_eq!(here(), None, "the pool may be gone");
            assert_eq!(with_bench(|n: &u8| *n), None);
            let visit = visit(128, Some(Fate::Cancelled));
            assert_eq!((sweeps(128), sweeps(64)), (Some(Fate::Cancelled), None));
            assert!(is_awaited_by(64) && is_awaited_by(128) && !is_awaited_by(256));
            drop(visit);
            assert!(!is_awaited_by(128));
        })
        .join()
        .unwrap();
    }
}
