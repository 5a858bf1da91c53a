//! Jobs that submit jobs and join them, on a pool of one thread: `join` inside a job runs the very
//! job it waits for, if nobody else has begun it. So it cannot wait for want of a thread.
//!
//! ```text
//! cargo run --example nested_join
//! ```

use std::error::Error;
use std::ops::Range;

use fairlane::{Tenant, WorkerPool};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = WorkerPool::new(1)?;
    // A handle to submit with, which jobs may own: unlike an `Arc` of the pool it does not keep the
    // pool open.
    let submitter = pool.tenant("sum");
    let job = pool.submit(move || sum(&submitter, 0..1_000_000))?;
    println!("the sum is {}", job.join()?);

    let jobs = pool.stats().submitted;
    println!(
        "{jobs} jobs, most of them waiting for others, on {} thread",
        pool.workers()
    );
    Ok(())
}

/// Splits the range until a piece is worth a job.
fn sum(submitter: &Tenant, range: Range<u64>) -> u64 {
    let length = range.end - range.start;
    if length <= 1_000 {
        return range.sum();
    }
    let middle = range.start + length / 2;
    let right = middle..range.end;
    let child = submitter.clone();
    let right = submitter
        .submit(move || sum(&child, right))
        .expect("the pool is open while its jobs run");
    sum(submitter, range.start..middle) + right.join().expect("a sum does not panic")
}
