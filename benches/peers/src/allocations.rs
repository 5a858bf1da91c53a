//! Counts what is allocated, in a program that has [`Counting`] for its allocator. In any other all
//! numbers are NaN, which tables show as a dash.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::Sub;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CALLS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);

/// What was allocated up to some moment, or between two.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Calls of the allocator, those that move or grow something included.
    pub calls: f64,
    /// Bytes asked for.
    pub bytes: f64,
    /// Bytes asked for and not yet given back.
    pub live: f64,
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            calls: self.calls - earlier.calls,
            bytes: self.bytes - earlier.bytes,
            live: self.live - earlier.live,
        }
    }
}

/// Whether anything is counted: a program allocates before it can ask.
fn is_counting() -> bool {
    CALLS.load(Relaxed) > 0
}

pub fn so_far() -> Counts {
    if !is_counting() {
        return Counts {
            calls: f64::NAN,
            bytes: f64::NAN,
            live: f64::NAN,
        };
    }
    let bytes = BYTES.load(Relaxed);
    Counts {
        calls: CALLS.load(Relaxed) as f64,
        bytes: bytes as f64,
        live: bytes as f64 - FREED.load(Relaxed) as f64,
    }
}

/// The system's allocator, counted.
#[derive(Debug)]
pub struct Counting;

fn count(allocated: usize, freed: usize) {
    CALLS.fetch_add(1, Relaxed);
    BYTES.fetch_add(allocated, Relaxed);
    FREED.fetch_add(freed, Relaxed);
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        FREED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
