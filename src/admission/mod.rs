//! The limit: who may enter the pool, and in which order.
//!
//! With a limit, jobs wait in their tenant's lane until one of the pool's *tokens* is free. There are
//! as many tokens as jobs may be in the pool at once. A token goes to a slot, and the thread that
//! takes it up asks the gate for a job when it can begin one, not before: so priorities, weights and
//! cancellations count up to the last moment. When the job has ended, the thread asks for the next
//! one in the same step in which it reports the end, and gives the token back only when no lane has
//! anything to run. Without a limit nothing of this is built.
//!
//! Rejected: taking several tiny jobs in one visit, which halves their cost where cores are far apart.
//! Nothing tells beforehand that a job will block, and one that waits for the job behind it may have it
//! on its own thread; a tenant at its limit is told late that its job has ended; and what comes in
//! between, however urgent, comes too late.
//!
//! - `gate`: tokens;
//! - `lock`: how the gate's lock is waited for;
//! - `lanes`: everything that is done under it;
//! - `inbox`: jobs on their way to the lanes;
//! - `billing`: what jobs have cost, where tenants are charged by that;
//! - `tenants`: what is known of the tenants that have something going on;
//! - `waiting`: submitters that wait for room.

mod billing;
mod gate;
mod inbox;
mod lanes;
mod lock;
#[cfg(all(test, loom))]
mod models;
mod tenants;
mod waiting;

pub(crate) use gate::{Gate, Step};
pub(crate) use lanes::{Admitted, Request, Who};
