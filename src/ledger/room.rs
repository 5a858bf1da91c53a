//! Room for queued jobs: a counting semaphore whose waiters are served first come, first served.
//!
//! Room that becomes free is handed to the first waiter directly, never put back for whoever asks
//! next, so a submitter that waits is not overtaken by one that tries. Built only when a queue limit
//! was asked for; the lock is then taken once to enter and once to leave.
//!
//! A [`Seat`] is claimed exactly once, by a compare-and-swap on its state, by whichever comes first:
//! room, the end of the pool, a cancelled token, or the waiter itself when its time is up. So room
//! cannot be handed to somebody who has already gone.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::sync::{Arc, AtomicU8, Mutex, Ordering, is_broken, thread};

/// A limit on the number of queued jobs.
pub(crate) struct Room {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    used: usize,
    closed: bool,
    next_ticket: u64,
    waiting: BTreeMap<u64, Arc<Seat>>,
}

/// How an attempt to enter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Room for one job is the caller's.
    Granted,
    /// No room, and the caller would not wait or waited long enough.
    Full,
    /// The pool ended.
    Closed,
    /// Somebody called [`Seat::call_off`].
    CalledOff,
}

const WAITING: u8 = 0;

/// A place in the queue of waiters.
pub(crate) struct Seat {
    state: AtomicU8,
    thread: thread::Thread,
}

impl Seat {
    /// A seat for the current thread.
    pub(crate) fn new() -> Arc<Seat> {
        Arc::new(Seat {
            state: AtomicU8::new(WAITING),
            thread: thread::current(),
        })
    }

    /// Ends the wait, unless it has ended already.
    pub(crate) fn call_off(&self) {
        if self.claim(Entry::CalledOff) {
            self.wake();
        }
    }

    /// Wakes the waiter: whoever has claimed the seat does it, once no lock is held.
    pub(crate) fn wake(&self) {
        self.thread.unpark();
    }

    /// Ends the wait with `outcome`; `false` if it has ended already.
    #[must_use]
    pub(crate) fn claim(&self, outcome: Entry) -> bool {
        let code = outcome as u8 + 1;
        self.state
            .compare_exchange(WAITING, code, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn outcome(&self) -> Option<Entry> {
        const ALL: [Entry; 4] = [Entry::Granted, Entry::Full, Entry::Closed, Entry::CalledOff];
        match self.state.load(Ordering::Acquire) {
            WAITING => None,
            code => ALL.into_iter().find(|entry| *entry as u8 + 1 == code),
        }
    }

    /// Parks until the seat is claimed; claims it as full itself when `deadline` has come.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Entry {
        loop {
            if let Some(entry) = self.outcome() {
                return entry;
            }
            match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(left) if left.is_zero() => {
                    if self.claim(Entry::Full) {
                        return Entry::Full;
                    }
                }
                Some(left) => thread::park_timeout(left),
            }
        }
    }
}

impl Room {
    pub(crate) fn new(limit: usize) -> Self {
        Room {
            limit,
            inner: Mutex::new(Inner::default()),
        }
    }

    /// Enters if there is room and nobody waits for it.
    pub(crate) fn try_enter(&self) -> Entry {
        self.inner.lock().try_enter(self.limit)
    }

    /// Enters whether there is room or not.
    pub(crate) fn enter_unasked(&self) {
        self.inner.lock().used += 1;
    }

    /// Enters, waiting on `seat` for room until `deadline`.
    pub(crate) fn enter(&self, seat: &Arc<Seat>, deadline: Option<Instant>) -> Entry {
        let ticket = {
            let mut inner = self.inner.lock();
            match inner.try_enter(self.limit) {
                Entry::Full => inner.sit_down(seat),
                entry => return entry,
            }
        };
        let entry = seat.wait(deadline);
        if matches!(entry, Entry::Full | Entry::CalledOff) {
            self.inner.lock().waiting.remove(&ticket);
        }
        entry
    }

    /// A job has left the queue: its room goes to the first waiter, if there is one. What is used beyond
    /// the limit is not handed on.
    pub(crate) fn leave(&self) {
        let mut inner = self.inner.lock();
        if inner.used > self.limit {
            inner.used -= 1;
            return;
        }
        while let Some((_, seat)) = inner.waiting.pop_first() {
            if seat.claim(Entry::Granted) || is_broken("room claim") {
                drop(inner);
                seat.wake();
                return;
            }
        }
        inner.used -= 1;
    }

    /// Nobody enters any more; all who wait are told.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.closed = true;
            std::mem::take(&mut inner.waiting)
        };
        for seat in waiting.into_values() {
            if seat.claim(Entry::Closed) {
                seat.wake();
            }
        }
    }
}

impl Inner {
    fn try_enter(&mut self, limit: usize) -> Entry {
        if self.closed {
            Entry::Closed
        } else if self.used < limit {
            // Nobody waits while there is room: a waiter sits down only when there is none, and
            // `leave` makes none as long as somebody waits.
            self.used += 1;
            Entry::Granted
        } else {
            Entry::Full
        }
    }

    fn sit_down(&mut self, seat: &Arc<Seat>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(ticket, Arc::clone(seat));
        ticket
    }
}
