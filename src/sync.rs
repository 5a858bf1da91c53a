//! The one file that names the primitives of concurrency.
//!
//! Everything else in the crate takes atomics, threads, locks and queues from here, so that a model
//! checker can be put underneath the real code by changing this file alone.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::Weak;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker as Deque};
pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) mod thread {
    pub(crate) use std::thread::{
        Builder, JoinHandle, Thread, current, park, park_timeout, yield_now,
    };
}

pub(crate) mod hint {
    pub(crate) use std::hint::spin_loop;
}

/// How many cores this process may use, asked once. With one, spinning only delays the thread that
/// is being waited for, so every spin in the crate asks here first.
pub(crate) fn cores() -> usize {
    use std::sync::OnceLock;
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(num_cpus::get)
}
