//! The real primitives.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use std::thread_local;

pub(crate) use crossbeam_deque::{Injector, Stealer, Worker as Deque};
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) mod alloc {
    pub(crate) use std::alloc::{alloc, dealloc};
}

pub(crate) mod channel {
    pub(crate) use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
}

pub(crate) mod hint {
    pub(crate) use std::hint::spin_loop;
}

pub(crate) mod thread {
    pub(crate) use std::thread::{
        Builder, JoinHandle, Thread, current, park, park_timeout, yield_now,
    };
}

/// How many cores this process may use, asked once. With one, spinning only delays the thread that
/// is being waited for, so every spin in the crate asks here first.
pub(crate) fn cores() -> usize {
    use std::sync::OnceLock;
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(num_cpus::get)
}

/// Bytes that one thread at a time may touch; a model checks that it is so, here it is nothing.
pub(crate) struct Access;

impl Access {
    #[inline(always)]
    pub(crate) fn new() -> Access {
        Access
    }

    /// The bytes are read, written or freed now.
    #[inline(always)]
    pub(crate) fn exclusive(&self) {}
}

/// Whether this step of a protocol is left out. Nothing is: only models are run without a step, to see
/// that they notice.
#[inline(always)]
pub(crate) const fn is_broken(_step: &str) -> bool {
    false
}
