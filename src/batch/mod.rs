//! Many jobs as one: code over anything that runs closures, sets of jobs, and iterators over the
//! results of running one on each item of an input.

mod map;
mod set;
mod settling;
mod submit;
mod try_map;
mod unordered;

pub use map::Map;
pub use set::JobSet;
pub use submit::{Inline, Submit};
pub use unordered::MapUnordered;

/// How many jobs of a map are in flight at a time by default: enough that every worker has the next
/// one at hand while the consumer is busy with the last.
fn default_in_flight(parallelism: usize) -> usize {
    parallelism.saturating_mul(2).max(1)
}
