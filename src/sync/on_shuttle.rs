//! shuttle's primitives: random schedules of whole pools, in a sequentially consistent world.

pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use shuttle::{hint, thread_local};

pub(crate) use super::stand_in::{
    Condvar, Deque, Injector, Mutex, MutexGuard, Stealer, channel, is_broken,
};

pub(super) mod raw {
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
}

pub(crate) mod alloc {
    pub(crate) use std::alloc::{alloc, dealloc};
}

pub(crate) mod thread {
    use std::time::Duration;

    pub(crate) use shuttle::thread::{Builder, JoinHandle, Thread, current, park, yield_now};

    /// In a model no time passes.
    pub(crate) fn park_timeout(left: Duration) {
        if !left.is_zero() {
            park();
        }
    }
}

/// One core: with more, threads would spin before they sleep, which makes schedules long and adds no
/// behaviour.
pub(crate) fn cores() -> usize {
    1
}

/// Bytes that one thread at a time may touch. shuttle does not look.
pub(crate) struct Access;

impl Access {
    pub(crate) fn new() -> Access {
        Access
    }

    pub(crate) fn exclusive(&self) {}
}
