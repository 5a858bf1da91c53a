//! Results as they finish, and the rest called off: the search for a factor, in pieces, ends with
//! the first piece that has one.
//!
//! ```text
//! cargo run --example job_set
//! ```

use std::error::Error;
use std::ops::Range;

use fairlane::{JobSet, WorkerPool};

/// A prime that is searched, times one that is out of reach.
const NUMBER: u64 = 100_003 * 1_000_000_007;
const PIECE: u64 = 50_000;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = WorkerPool::new(2)?;
    let mut pieces = JobSet::new();
    for first in (2..10_000_000).step_by(PIECE as usize) {
        pieces.submit(&pool, move || factor_in(first..first + PIECE))?;
    }
    println!("{} pieces to search", pieces.len());

    while let Some(piece) = pieces.join_next() {
        if let Some(factor) = piece? {
            println!("{NUMBER} = {factor} * {}", NUMBER / factor);
            break;
        }
    }

    // Dropping the set does this as well. What runs finishes, and still comes out if asked for.
    let left = pieces.len();
    let cancelled = pieces.cancel_all();
    println!("of {left} pieces left, {cancelled} were called off");
    let begun = pieces.filter(Result::is_ok).count();
    assert_eq!(left, cancelled + begun);
    Ok(())
}

fn factor_in(mut candidates: Range<u64>) -> Option<u64> {
    candidates.find(|candidate| NUMBER % candidate == 0)
}
