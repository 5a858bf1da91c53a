//! One closure's life, from the submit that took it to the moment nothing is left of it.
//!
//! - `entry`: what lies in a queue, 32 bytes: a closure, or a reference to a `cell`;
//! - `cell`: closure, state and result of a job that somebody can look at, in one place;
//! - `slab`: the memory that cells lie in;
//! - `state`: the cell's state word, where every race is decided;
//! - `handle`: the user's end;
//! - `ancestors`: which jobs are on this thread's stack;
//! - `watch`: how long a job waited and ran, for those who want to know.
//!
//! `unsafe` is confined to `entry`, `cell` and `slab`, and to the constructors of `handle` that hand its
//! obligations on. It buys the absence of an allocation for small closures, and of nearly every one for
//! a job with a handle: with everything boxed the pool was measured
//! at three to four times the cost a job, slower than a bare channel.

mod ancestors;
mod cell;
mod entry;
mod handle;
#[cfg(all(test, loom))]
mod models;
mod slab;
mod state;
mod watch;

pub(crate) use cell::{Conditions, Home, HomeKeeper, InPlace, Place, Witness, detached};
pub(crate) use entry::{Claim, Job, Stage, Turn};
pub use handle::JobHandle;
pub(crate) use watch::{Watch, Watched, is_traced};
