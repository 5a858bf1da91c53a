//! Where cells lie: side by side in slabs, each thread filling one of its own from front to back.
//!
//! A cell begins on a cache line and shares it with no other one, so that a worker that runs a job does
//! not take from the submitter the line that it writes next. That and one visit to the allocator for
//! many cells instead of one for each make a submit and its join a third cheaper than with every cell
//! allocated by itself (README, load c); cells allocated one by one on lines of their own are dearer
//! still, as allocators are slow at that.
//!
//! The price: a slab is freed when the last cell in it is, so one handle that is kept keeps
//! 4 KiB. Nothing is used twice, which would need a list shared by threads; a slab is
//! counted down from all of its lines to none.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::sync::alloc::{alloc, dealloc};
use crate::sync::{AtomicUsize, Ordering, is_broken, thread_local};

/// Bytes that are given out together: a cache line.
const LINE: usize = 64;
/// The first line is the slab's own.
const LINES: usize = 64;
/// Cells of more lines are allocated by themselves: few of them would fit.
const MOST: usize = 4;

/// In which line of its slab a cell begins, or that it is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot(u8);

impl Spot {
    /// All there are.
    pub(super) const COUNT: usize = LINES;
    pub(super) const ALONE: Spot = Spot(0);

    pub(super) fn number(self) -> usize {
        self.0.into()
    }

    pub(super) fn of_number(number: usize) -> Spot {
        debug_assert!(number < Spot::COUNT);
        Spot(number as u8)
    }
}

#[repr(C, align(64))]
pub(super) struct Slab {
    /// Lines that are given out and not yet back, and those that may still be given out.
    live: AtomicUsize,
    cells: [Line; LINES - 1],
}

#[repr(C, align(64))]
struct Line([u8; LINE]);

/// A thread's own slab.
pub(super) struct Cursor {
    slab: Cell<Option<NonNull<Slab>>>,
    /// The first line that is not given out; `LINES`: none is left.
    next: Cell<usize>,
}

thread_local! {
    static CURSOR: Cursor = const { Cursor::new() };
}

/// How many lines a cell takes, if it may lie in a slab.
///
/// In models each cell is allocated by itself: they watch the memory of each, and a slab's count would
/// only add interleavings. Checkers of memory are given the same, or they would not see a cell that is
/// used after it was freed.
const fn lines(layout: Layout) -> Option<usize> {
    let lines = layout.size().div_ceil(LINE);
    let fits = lines <= MOST && layout.align() <= LINE;
    if fits && !cfg!(any(loom, shuttle, fairlane_cells_alone)) {
        Some(lines)
    } else {
        None
    }
}

/// Memory for a cell of this layout, whose size is not zero. Ends the process if there is none.
#[inline]
pub(super) fn allocate(layout: Layout) -> (NonNull<u8>, Spot) {
    // A thread that is about to end may be without its slab already.
    let found = lines(layout).and_then(|lines| CURSOR.try_with(|cursor| cursor.take(lines)).ok());
    found.unwrap_or_else(|| (fresh(layout), Spot::ALONE))
}

/// Gives the memory of a cell back.
///
/// # Safety
/// `at` and `spot` are what [`allocate`] returned for this layout; nobody uses the memory any more.
#[inline]
pub(super) unsafe fn free(at: NonNull<u8>, spot: Spot, layout: Layout) {
    match lines(layout) {
        Some(lines) if spot != Spot::ALONE => {
            // SAFETY: they are the caller's, who gives them back now.
            unsafe { release(slab_of(at, spot), lines) };
        }
        // SAFETY: allocated by itself, with this layout.
        _ => unsafe { dealloc(at.as_ptr(), layout) },
    }
}

fn fresh(layout: Layout) -> NonNull<u8> {
    // SAFETY: the size is not zero: the caller's promise, and a slab's is not.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Cursor {
    pub(super) const fn new() -> Cursor {
        Cursor {
            slab: Cell::new(None),
            next: Cell::new(LINES),
        }
    }

    #[inline]
    pub(super) fn take(&self, lines: usize) -> (NonNull<u8>, Spot) {
        // More than once if the allocator submits jobs, which have taken what there was by then.
        while self.next.get() + lines > LINES {
            self.refill();
        }
        let first = self.next.get();
        self.next.set(first + lines);
        let slab = self.slab.get().expect("there are lines left in it");
        // SAFETY: the lines are within the slab.
        let at = unsafe { slab.cast::<u8>().byte_add(first * LINE) };
        (at, Spot(first as u8))
    }

    #[cold]
    fn refill(&self) {
        let slab = fresh(Layout::new::<Slab>()).cast::<Slab>();
        // SAFETY: fresh memory for a slab, of which the other lines hold nothing.
        unsafe { (&raw mut (*slab.as_ptr()).live).write(AtomicUsize::new(LINES - 1)) };
        self.go_to(Some(slab), 1);
    }

    /// Gives up what is left of the slab; whether that was the last of it.
    pub(super) fn leave(&self) -> bool {
        self.go_to(None, LINES)
    }

    /// The new slab is in place before the old one is freed: that calls the allocator, which may submit
    /// jobs of its own on this thread.
    fn go_to(&self, slab: Option<NonNull<Slab>>, next: usize) -> bool {
        let left = LINES - self.next.replace(next);
        match self.slab.replace(slab) {
            // SAFETY: these lines were given to nobody.
            Some(slab) if left > 0 => unsafe { release(slab, left) },
            _ => false,
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The slab in whose line `spot` the cell `at` begins.
///
/// # Safety
/// It does, and its lines have not been given back.
pub(super) unsafe fn slab_of(at: NonNull<u8>, spot: Spot) -> NonNull<Slab> {
    // SAFETY: the caller's promise.
    unsafe { at.byte_sub(spot.number() * LINE) }.cast()
}

/// Whether that was the last of the slab, which is freed then.
///
/// # Safety
/// So many lines of the slab are the caller's to give back.
pub(super) unsafe fn release(slab: NonNull<Slab>, lines: usize) -> bool {
    // SAFETY: the slab is alive as long as a line of it is not given back.
    let live = unsafe { &(*slab.as_ptr()).live };
    // `Release`: whatever was done to the lines comes before they are freed. `Acquire`: by the thread
    // that gives back the last one.
    let order = if is_broken("slab count") {
        Ordering::Relaxed
    } else {
        Ordering::AcqRel
    };
    let is_last = live.fetch_sub(lines, order) == lines;
    if is_last {
        // SAFETY: nobody else can reach the slab; its count is all that may have to be dropped.
        unsafe {
            ptr::drop_in_place(&raw mut (*slab.as_ptr()).live);
            dealloc(slab.as_ptr().cast(), Layout::new::<Slab>());
        }
    }
    is_last
}

#[cfg(all(test, not(any(loom, shuttle, fairlane_cells_alone))))]
mod tests {
    use super::*;

    fn live(slab: NonNull<Slab>) -> usize {
        // SAFETY: the test holds a line of it.
        unsafe { (*slab.as_ptr()).live.load(Ordering::Relaxed) }
    }

    fn number(at: NonNull<u8>) -> usize {
        at.addr().get()
    }

    #[test]
    fn cells_lie_on_lines_of_their_own() {
        let cursor = Cursor::new();
        let mut taken = Vec::new();
        for lines in [1, 3, 2, 4, 1].into_iter().cycle().take(200) {
            let (at, spot) = cursor.take(lines);
            assert!(number(at).is_multiple_of(LINE) && spot != Spot::ALONE);
            // SAFETY: fresh memory of so many bytes.
            unsafe { at.write_bytes(lines as u8, lines * LINE) };
            taken.push((at, spot, lines));
        }
        for (at, _, lines) in &taken {
            // SAFETY: written above.
            let bytes = unsafe { std::slice::from_raw_parts(at.as_ptr(), lines * LINE) };
            assert!(bytes.iter().all(|byte| usize::from(*byte) == *lines));
        }
        let mut freed = 0;
        drop(cursor);
        for (at, spot, lines) in taken {
            // SAFETY: given out above, given back once.
            freed += usize::from(unsafe { release(slab_of(at, spot), lines) });
        }
        let lines = 200 * (1 + 3 + 2 + 4 + 1) / 5_usize;
        let slabs = lines.div_ceil(LINES - 1)..=lines.div_ceil(LINES - MOST);
        assert!(slabs.contains(&freed), "{freed} slabs");
    }

    #[test]
    fn a_slab_goes_with_its_last_line() {
        let cursor = Cursor::new();
        let (at, spot) = cursor.take(2);
        // SAFETY: the cell was given out just now.
        let slab = unsafe { slab_of(at, spot) };
        assert_eq!(live(slab), LINES - 1);
        let others: Vec<_> = (1..LINES - 2).map(|_| cursor.take(1)).collect();
        assert_eq!(live(slab), LINES - 1, "what may still be given out counts");
        // Three lines are left, too few: the slab is left with them.
        let (next, its_spot) = cursor.take(4);
        assert_eq!(its_spot, Spot(1));
        for (at, spot) in others {
            // SAFETY: given out above, given back once.
            assert!(!unsafe { release(slab_of(at, spot), 1) });
        }
        assert_eq!(live(slab), 2);
        // SAFETY: as above.
        assert!(unsafe { release(slab, 2) });
        // SAFETY: as above. The cursor has the rest of it.
        assert!(!unsafe { release(slab_of(next, its_spot), 4) });
    }

    #[test]
    fn what_does_not_fit_is_allocated_alone() {
        for (layout, is_alone) in [
            (Layout::new::<[u64; 1]>(), false),
            (Layout::new::<[u64; 32]>(), false),
            (Layout::new::<[u64; 33]>(), true),
            (Layout::from_size_align(64, 128).unwrap(), true),
        ] {
            let (at, spot) = allocate(layout);
            assert_eq!(spot == Spot::ALONE, is_alone);
            assert!(number(at).is_multiple_of(layout.align()));
            // SAFETY: allocated just now.
            unsafe { free(at, spot, layout) };
        }
    }

    #[test]
    fn a_thread_without_its_slab_goes_on() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                let layout = Layout::new::<u64>();
                let (at, spot) = allocate(layout);
                // SAFETY: allocated just now.
                unsafe { free(at, spot, layout) };
            }
        }
        std::thread_local!(static LATE: Late = const { Late });
        let thread = std::thread::spawn(|| {
            LATE.with(|_| ());
            let (at, spot) = allocate(Layout::new::<u64>());
            (number(at), spot)
        });
        let (at, spot) = thread.join().unwrap();
        // The thread is gone; the cell is not.
        let at = NonNull::new(ptr::with_exposed_provenance_mut(at)).unwrap();
        // SAFETY: allocated by the thread.
        unsafe { free(at, spot, Layout::new::<u64>()) };
    }
}
