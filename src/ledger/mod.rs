//! The pool's books: how many jobs are where, and who waits for them to be gone.
//!
//! Every accepted job is counted in at exactly one [`Load`] and counted out exactly once, whatever
//! becomes of it. Everything the pool decides or reports follows from these counts: which slot is
//! least busy, whether the pool is idle, whether its threads may end, and what `stats` says.

mod busy;
mod histogram;
mod idle;
mod load;
mod meter;
#[cfg(all(test, loom))]
mod models;
mod room;
mod times;

pub(crate) use busy::Busy;
pub(crate) use histogram::{Histogram, Quantiles};
pub(crate) use idle::{Idle, is_idle};
pub(crate) use load::{Fate, Load, Tally};
pub(crate) use meter::Meter;
pub(crate) use room::{Entry, Room, Seat};
pub(crate) use times::{TimeTable, Times};
