#![doc = include_str!("sleep.md")]

use crate::sync::{AtomicUsize, CachePadded, Mutex, Ordering, cores, fence, is_broken, thread};

/// The lower half of the word counts sleepers, the upper half searchers.
const HALF: u32 = usize::BITS / 2;
const SLEEPER: usize = 1;
const SEARCHER: usize = 1 << HALF;

/// Who sleeps, and how many search.
pub(crate) struct Sleep {
    word: CachePadded<AtomicUsize>,
    /// One bit a slot, set while its worker sleeps and nobody has claimed the waking of it.
    asleep: Box<[AtomicUsize]>,
    threads: Box<[Mutex<Option<thread::Thread>>]>,
    max_searchers: usize,
}

impl Sleep {
    pub(crate) fn new(slots: usize) -> Sleep {
        let words = slots.div_ceil(usize::BITS as usize);
        Sleep {
            word: CachePadded::default(),
            asleep: (0..words).map(|_| AtomicUsize::new(0)).collect(),
            threads: (0..slots).map(|_| Mutex::new(None)).collect(),
            max_searchers: (slots.min(cores()) / 2).max(1),
        }
    }

    /// The current thread is the one to wake for `slot` from now on.
    pub(crate) fn register(&self, slot: usize) {
        *self.threads[slot].lock() = Some(thread::current());
    }

    /// A job was pushed into `slot`. P2 to P6.
    #[inline]
    pub(crate) fn job_pushed(&self, slot: usize) {
        if !is_broken("sleep P2") {
            fence(Ordering::SeqCst);
        }
        let word = self.word.load(Ordering::SeqCst);
        if sleepers(word) > 0 && searchers(word) == 0 {
            self.wake(slot);
        }
    }

    /// A job was queued that only the worker of `slot` may run. P2, then P4 to P6 for this one. If it
    /// does not sleep, it may be parked inside a job, and look for pinned jobs when it goes on.
    pub(crate) fn job_pinned(&self, slot: usize) {
        fence(Ordering::SeqCst);
        if self.claim(slot) {
            self.word.fetch_sub(SLEEPER, Ordering::SeqCst);
        }
        self.unpark_thread(slot);
    }

    /// Wakes one sleeper, `slot`'s if it is one. P4 to P6.
    #[cold]
    fn wake(&self, slot: usize) {
        if self.claim(slot) {
            return self.unpark(slot);
        }
        let found = (0..self.asleep.len()).find_map(|word| self.claim_in(word));
        if let Some(slot) = found {
            self.unpark(slot);
        }
    }

    /// Wakes everybody who sleeps.
    pub(crate) fn wake_all(&self) {
        for word in 0..self.asleep.len() {
            while let Some(slot) = self.claim_in(word) {
                self.unpark(slot);
            }
        }
    }

    /// Unsets the slot's bit; `true` if it was set.
    fn claim(&self, slot: usize) -> bool {
        let (word, bit) = position(slot);
        self.asleep[word].fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }

    fn claim_in(&self, word: usize) -> Option<usize> {
        loop {
            let bits = self.asleep[word].load(Ordering::SeqCst);
            if bits == 0 {
                return None;
            }
            let slot = word * usize::BITS as usize + bits.trailing_zeros() as usize;
            if self.claim(slot) {
                return Some(slot);
            }
        }
    }

    fn unpark(&self, slot: usize) {
        self.word.fetch_sub(SLEEPER, Ordering::SeqCst);
        self.unpark_thread(slot);
    }

    fn unpark_thread(&self, slot: usize) {
        if let Some(thread) = &*self.threads[slot].lock() {
            thread.unpark();
        }
    }

    /// S1. The caller stops with [`Sleep::found`] or [`Sleep::fall_asleep`].
    pub(crate) fn start_searching(&self) {
        self.word.fetch_add(SEARCHER, Ordering::SeqCst);
    }

    /// Whether as many search as are worth it, the caller included.
    pub(crate) fn is_crowded(&self) -> bool {
        searchers(self.word.load(Ordering::Relaxed)) > self.max_searchers
    }

    /// S3: a searcher of `slot` has found a job. `more` says whether there is more work.
    pub(crate) fn found(&self, slot: usize, more: impl FnOnce() -> bool) {
        let before = self.word.fetch_sub(SEARCHER, Ordering::SeqCst);
        if searchers(before) == 1 && sleepers(before) > 0 {
            fence(Ordering::SeqCst);
            if more() {
                self.wake(slot);
            }
        }
    }

    /// S4 to S8: a searcher of `slot` found nothing. `is_needed` looks at all queues and at the stop
    /// flag. Returns as a searcher, when there is something to look for.
    pub(crate) fn fall_asleep(&self, slot: usize, is_needed: impl FnOnce() -> bool) {
        let (word, bit) = position(slot);
        // The count before the bit: a waker that claims the bit lowers the count, and a count that
        // was not raised yet would borrow from the searchers' half of the word.
        self.word
            .fetch_add(SLEEPER.wrapping_sub(SEARCHER), Ordering::SeqCst);
        self.asleep[word].fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !is_broken("sleep S7") && is_needed() && self.claim(slot) {
            self.word
                .fetch_add(SEARCHER.wrapping_sub(SLEEPER), Ordering::SeqCst);
            return;
        }
        while self.asleep[word].load(Ordering::SeqCst) & bit != 0 {
            thread::park();
        }
        self.start_searching();
    }
}

fn position(slot: usize) -> (usize, usize) {
    let bits = usize::BITS as usize;
    (slot / bits, 1 << (slot % bits))
}

fn sleepers(word: usize) -> usize {
    word & (SEARCHER - 1)
}

fn searchers(word: usize) -> usize {
    word >> HALF
}
