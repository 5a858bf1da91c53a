//! Knowing that this process is a forked child.
//!
//! After `fork` the child has the pool's memory but none of its threads, and whatever lock another
//! thread held at that moment stays locked for ever. So a pool remembers the [`generation`] it was
//! built in, and compares before it waits or locks. The generation is a plain counter that a
//! `pthread_atfork` handler moves in the child: asking the kernel for the process id instead would
//! cost a system call a submit.

#[cfg(not(any(loom, shuttle)))]
use crate::sync::{AtomicU32, CachePadded, Ordering};

// Models have no processes, and loom no atomics outside a model. Each submit reads it, and what lies next
// to it in static memory is the program's: alone on its line, it is not taken away by a hot neighbour.
#[cfg(not(any(loom, shuttle)))]
static GENERATION: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// The generation of this process; a child's differs from its parent's.
#[inline]
pub(crate) fn generation() -> u32 {
    #[cfg(not(any(loom, shuttle)))]
    return GENERATION.load(Ordering::Relaxed);
    #[cfg(any(loom, shuttle))]
    0
}

/// Starts watching for forks; every pool calls it when it is built.
#[cfg(all(unix, not(any(loom, shuttle))))]
#[allow(unsafe_code)]
pub(crate) fn watch() {
    use std::sync::Once;
    static INSTALL: Once = Once::new();
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    INSTALL.call_once(|| {
        // SAFETY: the handler is a static function that does one atomic addition, which is
        // async-signal-safe as POSIX asks of a child handler. A failure (out of memory) only means
        // that forks go unnoticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[cfg(any(not(unix), loom, shuttle))]
pub(crate) fn watch() {}
