//! What lies in a queue: a job of 32 bytes, a table of functions and three words.
//!
//! A closure of up to three words lies in the entry itself, so submitting it allocates nothing; a
//! larger one is boxed. A job with a handle is a reference to its cell. `Box<dyn FnOnce()>` for all
//! of them, without `unsafe`, was measured at 137 to 152 ns a job where this takes 32: more than the
//! whole of a bare channel.

#![allow(unsafe_code)]

use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};
use std::ptr::NonNull;

use super::cell::{CellRef, Header};
use crate::ledger::{Fate, Idle, Load, Room};
use crate::unwind;

type Words = [MaybeUninit<usize>; 3];

/// A queued job.
pub(crate) struct Job {
    table: &'static Table,
    words: Words,
}

struct Table {
    /// Whether the words are a reference to a cell.
    has_cell: bool,
    /// Runs the claimed job; `true` if it panicked. Consumes the words.
    run: unsafe fn(&mut Words, &Stage<'_>) -> bool,
    /// Drops the job unrun and counts it so. `false` if it was claimed before. Consumes the words.
    withdraw: unsafe fn(&mut Words, &Stage<'_>, Fate) -> bool,
    /// Drops the job without a word. Consumes the words.
    drop: unsafe fn(&mut Words),
}

/// What becomes of a job that a worker has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is the worker's to run.
    Ready,
    /// Somebody else has it, or it was withdrawn: only the entry is left.
    Gone,
    /// Its deadline has passed: it is to be withdrawn.
    Overdue,
}

/// Somebody who has to know at once that a job has ended, before its result can be seen.
pub(crate) trait Turn {
    /// With `lingers`, user code is still to come: the thread may have to drop the result.
    fn ended(&self, panicked: bool, lingers: bool);
}

/// The counts that a job passes through on its way, of the slot that it is counted in.
pub(crate) struct Stage<'a> {
    pub(crate) load: &'a Load,
    pub(crate) room: Option<&'a Room>,
    pub(crate) turn: Option<&'a dyn Turn>,
    pub(crate) idle: Option<&'a Idle>,
}

impl Stage<'_> {
    #[inline]
    pub(super) fn begin(&self) {
        self.load.begin();
        self.leave_room();
    }

    /// The closure has returned or panicked, and nobody can see its result yet.
    #[inline]
    pub(super) fn end(&self, panicked: bool, lingers: bool) {
        if let Some(turn) = self.turn {
            turn.ended(panicked, lingers);
        }
        self.load.end(panicked);
    }

    /// Whether somebody has to know before the end who will drop the job's result.
    #[inline]
    pub(super) fn asks_for_handle(&self) -> bool {
        self.turn.is_some() || self.idle.is_some_and(Idle::is_awaited)
    }

    #[inline]
    fn leave_room(&self) {
        if let Some(room) = self.room {
            room.leave();
        }
    }
}

// SAFETY: a `Job` is made of a closure that is `Send` or of a `CellRef`, which is `Send` itself.
unsafe impl Send for Job {}

impl Job {
    /// A job without a handle.
    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(f: F) -> Job {
        if fits::<F>() {
            // SAFETY: it fits.
            unsafe { Job::inline(f) }
        } else {
            let boxed = Box::new(f);
            // SAFETY: it captures one pointer.
            unsafe { Job::inline(boxed) }
        }
    }

    /// # Safety
    /// `fits::<F>()`.
    #[inline]
    unsafe fn inline<F: FnOnce() + Send + 'static>(f: F) -> Job {
        let mut words: Words = [MaybeUninit::uninit(); 3];
        // SAFETY: the words are large and aligned enough, the caller's promise.
        unsafe { words.as_mut_ptr().cast::<F>().write(f) };
        Job {
            table: &Inline::<F>::TABLE,
            words,
        }
    }

    /// The queue's reference to a job with a handle.
    #[inline]
    pub(super) fn of_cell(cell: CellRef) -> Job {
        let mut words: Words = [MaybeUninit::uninit(); 3];
        words[0].write(cell.into_entry().as_ptr().expose_provenance());
        Job {
            table: &CELL,
            words,
        }
    }

    /// Runs the job unless it has been withdrawn or run in place meanwhile; `true` if it panicked.
    #[inline]
    pub(crate) fn run(self, stage: &Stage<'_>) -> bool {
        match self.claim() {
            Claim::Ready => self.run_claimed(stage),
            Claim::Gone => false,
            Claim::Overdue => {
                self.withdraw(stage, Fate::Expired);
                false
            }
        }
    }

    /// Claims the job to run it.
    #[inline]
    #[must_use]
    pub(crate) fn claim(&self) -> Claim {
        self.cell().map_or(Claim::Ready, Header::claim)
    }

    /// Runs the job, which the caller has claimed; `true` if it panicked.
    #[inline]
    pub(crate) fn run_claimed(self, stage: &Stage<'_>) -> bool {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the table belongs to what the words hold, and `ManuallyDrop` makes this the one
        // use that consumes them.
        unsafe { (this.table.run)(&mut this.words, stage) }
    }

    /// Drops the job unrun; `false` if somebody else has claimed it. `stage` is that of the slot
    /// whose queue held it.
    pub(crate) fn withdraw(self, stage: &Stage<'_>, fate: Fate) -> bool {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: as in `run`.
        unsafe { (this.table.withdraw)(&mut this.words, stage, fate) }
    }

    /// Counts the job in `slot` from now on; `false` if it was claimed and only its entry is left.
    #[inline]
    pub(crate) fn relocate(&self, slot: usize) -> bool {
        self.cell().is_none_or(|cell| cell.relocate(slot))
    }
}

impl Job {
    /// The cell, if there is one. Each job is asked several times, which a call through the table
    /// would make felt; and the table's address tells nothing, as constants may share memory.
    #[inline]
    fn cell(&self) -> Option<&Header> {
        // SAFETY: the table says so.
        let cell = || unsafe { header_of(&self.words) };
        self.table.has_cell.then(cell)
    }

    /// Whether somebody may withdraw the job while it is queued.
    #[inline]
    pub(crate) fn can_be_withdrawn(&self) -> bool {
        self.cell().is_some()
    }

    /// Whether somebody has claimed the job.
    #[inline]
    pub(crate) fn is_claimed(&self) -> bool {
        self.cell().is_some_and(Header::is_claimed)
    }

    /// The job is queued where somebody who withdraws it can find it under this number.
    #[inline]
    pub(crate) fn enter_place(&self, number: u32) {
        if let Some(cell) = self.cell() {
            cell.place().set(number);
        }
    }

    /// It is queued there no longer.
    #[inline]
    pub(crate) fn leave_place(&self) {
        if let Some(cell) = self.cell() {
            cell.place().take();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: as in `run`: the paths that consume the words never get here.
        unsafe { (self.table.drop)(&mut self.words) }
    }
}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Words>() && align_of::<F>() <= align_of::<Words>()
}

/// The table of a closure that lies in the entry.
struct Inline<F>(F);

impl<F: FnOnce()> Inline<F> {
    const TABLE: Table = Table {
        has_cell: false,
        run: Self::run,
        withdraw: Self::withdraw,
        drop: Self::drop,
    };

    /// # Safety
    /// The words hold an `F`, and are not used again.
    #[inline]
    unsafe fn take(words: &mut Words) -> F {
        // SAFETY: the caller's promise; `Job::new` wrote it with the same layout.
        unsafe { words.as_mut_ptr().cast::<F>().read() }
    }

    /// # Safety
    /// As for [`Inline::take`].
    unsafe fn run(words: &mut Words, stage: &Stage<'_>) -> bool {
        // SAFETY: the caller's promise.
        let f = unsafe { Self::take(words) };
        stage.begin();
        let outcome = unwind::run(f);
        let panicked = outcome.is_err();
        stage.end(panicked, panicked);
        if let Err(payload) = outcome {
            unwind::discard(payload);
        }
        stage.load.finish();
        panicked
    }

    /// # Safety
    /// As for [`Inline::take`].
    unsafe fn withdraw(words: &mut Words, stage: &Stage<'_>, fate: Fate) -> bool {
        // SAFETY: the caller's promise.
        let f = unsafe { Self::take(words) };
        stage.load.withdraw(fate);
        stage.leave_room();
        unwind::discard(f);
        stage.load.finish_elsewhere();
        true
    }

    /// # Safety
    /// As for [`Inline::take`].
    unsafe fn drop(words: &mut Words) {
        // SAFETY: the caller's promise.
        unwind::discard(unsafe { Self::take(words) });
    }
}

static CELL: Table = Table {
    has_cell: true,
    // SAFETY: the words hold what `Job::of_cell` put there, and this consumes them.
    run: |words, stage| unsafe { cell_of(words) }.run(stage),
    // SAFETY: as above.
    withdraw: |words, _, fate| unsafe { cell_of(words) }.withdraw(fate).is_won(),
    // SAFETY: as above.
    drop: |words| unsafe { cell_of(words) }.abandon(),
};

/// # Safety
/// The words hold a reference to a cell.
#[inline]
unsafe fn address_of(words: &Words) -> NonNull<Header> {
    // SAFETY: the first word is the address that `of_cell` exposed.
    unsafe {
        let address = words[0].assume_init();
        NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address))
    }
}

/// # Safety
/// The words hold a reference to a cell, which keeps it alive as long as they are borrowed.
#[inline]
unsafe fn header_of(words: &Words) -> &Header {
    // SAFETY: the caller's promise.
    unsafe { address_of(words).as_ref() }
}

/// # Safety
/// The words hold a reference to a cell, and it is used up only once.
#[inline]
unsafe fn cell_of(words: &Words) -> CellRef {
    // SAFETY: the caller's promise.
    unsafe { CellRef::of_entry(address_of(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicUsize, Ordering};

    #[test]
    fn an_entry_is_four_words() {
        assert_eq!(size_of::<Job>(), 4 * size_of::<usize>());
    }

    #[repr(align(64))]
    struct Aligned([u8; 64]);

    #[test]
    fn closures_of_every_shape_run_or_drop_once() {
        let load = Load::default();
        let stage = Stage {
            load: &load,
            room: None,
            turn: None,
            idle: None,
        };
        let token = Arc::new(AtomicUsize::new(0));
        for action in 0..3 {
            let (a, b, c) = (token.clone(), token.clone(), token.clone());
            let aligned = Aligned([7; 64]);
            let wide = [1u8; 1000];
            let jobs = [
                Job::new(|| ()),
                Job::new(move || {
                    a.fetch_add(1, Ordering::Relaxed);
                }),
                Job::new(move || {
                    assert!((&raw const aligned).addr() % 64 == 0 && aligned.0 == [7; 64]);
                    b.fetch_add(1, Ordering::Relaxed);
                }),
                Job::new(move || {
                    assert_eq!(wide, [1; 1000]);
                    c.fetch_add(1, Ordering::Relaxed);
                    panic!("swallowed");
                }),
            ];
            for job in jobs {
                load.submit();
                match action {
                    0 => drop(job.run(&stage)),
                    1 => assert!(job.withdraw(&stage, Fate::Cancelled)),
                    _ => load.undo(),
                }
            }
            assert_eq!(load.pending(), 0);
            assert_eq!(Arc::strong_count(&token), 1, "captures are gone");
        }
        assert_eq!(
            token.load(Ordering::Relaxed),
            3,
            "run by the first action alone"
        );
    }
}
