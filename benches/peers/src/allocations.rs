//! Counts what is allocated, if the feature `count` asks for it; otherwise all numbers are NaN,
//! which tables show as a dash.

use std::ops::Sub;

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

/// Whether anything is counted.
pub const COUNTING: bool = cfg!(feature = "count");

#[cfg(not(feature = "count"))]
pub fn so_far() -> Counts {
    Counts {
        calls: f64::NAN,
        bytes: f64::NAN,
        live: f64::NAN,
    }
}

#[cfg(feature = "count")]
pub use counting::so_far;

#[cfg(feature = "count")]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::Counts;

    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    static FREED: AtomicUsize = AtomicUsize::new(0);

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    struct Counting;

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

    pub fn so_far() -> Counts {
        let bytes = BYTES.load(Relaxed);
        Counts {
            calls: CALLS.load(Relaxed) as f64,
            bytes: bytes as f64,
            live: bytes as f64 - FREED.load(Relaxed) as f64,
        }
    }
}
