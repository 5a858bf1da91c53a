#![doc = include_str!("../README.md")]
//! # Guide
//!
//! [`guide`] has a page on each choice: strategy, limit, tenants, cancelling, shutdown, deadlocks, costs,
//! rayon, several machines, and porting from other pools.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod batch;
mod cancel;
#[cfg(all(test, not(any(loom, shuttle))))]
mod charges;
#[cfg(doctest)]
mod compile_fail;
mod cpu;
mod error;
mod fair;
mod fork;
#[cfg(any(doc, doctest))]
pub mod guide;
mod job;
mod ledger;
mod local;
mod pool;
mod slot;
mod strategy;
mod sync;
mod unwind;
mod worker;

pub use batch::{Inline, JobSet, Map, MapUnordered, Submit};
pub use cancel::CancelToken;
pub use error::{
    BuildError, JobError, PanicPayload, Rejected, ShutdownTimeout, SubmitError, TryMapError,
};
pub use fair::{Drain, FairQueue, Priority, Ticket, Weight};
pub use job::JobHandle;
pub use local::WorkerLocal;
pub use pool::{
    Fairness, IntoTenant, JobBuilder, Latency, Nested, PanicPolicy, PoolBuilder, PoolStats, Scope,
    ScopedJobHandle, SlotStats, Tenant, TenantStats, WorkerPool,
};
pub use strategy::{ParseStrategyError, Pick, SchedulerSlot, SlotLoad, Strategy, pick_slot};
