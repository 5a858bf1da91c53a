//! A thread pool for CPU-bound closures that several parties share.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod cancel;
mod error;
mod fork;
mod job;
mod ledger;
mod pool;
mod slot;
mod strategy;
mod sync;
mod unwind;
mod worker;

pub use batch::{Map, MapUnordered};
pub use cancel::CancelToken;
pub use error::{BuildError, JobError, PanicPayload, Rejected, ShutdownTimeout, SubmitError};
pub use job::JobHandle;
pub use pool::{
    Inline, JobBuilder, Nested, PanicPolicy, PoolBuilder, PoolStats, SlotStats, Submit, WorkerPool,
};
pub use strategy::{ParseStrategyError, Pick, SchedulerSlot, SlotLoad, Strategy, pick_slot};
