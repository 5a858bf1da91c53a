//! The one place that names the primitives of concurrency.
//!
//! Everything else in the crate takes atomics, threads, locks and queues from here, so that a model
//! checker can be put underneath the real code by changing this module alone: under `--cfg loom` and
//! `--cfg shuttle` the names below mean that tool's types, or stand-ins made of them. `tests/models.sh`
//! runs the models.

#[cfg(not(any(loom, shuttle)))]
mod native;
#[cfg(not(any(loom, shuttle)))]
use native as chosen;

#[cfg(loom)]
mod on_loom;
#[cfg(loom)]
use on_loom as chosen;

#[cfg(shuttle)]
mod on_shuttle;
#[cfg(shuttle)]
use on_shuttle as chosen;

#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(any(loom, shuttle))]
mod stand_in;

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::Weak;
pub(crate) use std::sync::atomic::Ordering;

pub(crate) use crossbeam_deque::Steal;
pub(crate) use crossbeam_utils::CachePadded;

pub(crate) use chosen::{
    Access, AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Condvar, Deque, Injector,
    Mutex, MutexGuard, Stealer, alloc, channel, cores, fence, hint, is_broken, thread,
    thread_local,
};
