//! The limit: who may enter the pool, and in which order.
//!
//! With a limit, jobs wait in their tenant's lane until one of the pool's *tokens* is free. There are
//! as many tokens as jobs may be in the pool at once. A token goes to a slot, and the thread that
//! takes it up asks the gate for a job when it can begin one, not before: so priorities, weights and
//! cancellations count up to the last moment. When the job has ended, the thread asks for the next
//! one in the same step in which it reports the end, and gives the token back only when no lane has
//! anything to run. Without a limit nothing of this is built.
//!
//! - `gate`: tokens, and the lock;
//! - `lanes`: everything that is done under it;
//! - `inbox`: jobs on their way to the lanes;
//! - `tenants`: what is known of the tenants that have something going on;
//! - `waiting`: submitters that wait for room.

mod gate;
mod inbox;
mod lanes;
#[cfg(all(test, loom))]
mod models;
mod tenants;
mod waiting;

pub(crate) use gate::{Gate, Step};
pub(crate) use lanes::{Admitted, Request, Who};
