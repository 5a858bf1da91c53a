//! Jobs that borrow: no `Arc`, no clone, no channel.
//!
//! ```text
//! cargo run --example scope
//! ```

use std::error::Error;

use fairlane::{JobError, WorkerPool};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = WorkerPool::new(2)?;
    let mut samples: Vec<f64> = (0..10_000).map(|i| f64::from(i % 100)).collect();

    // The scope ends when all its jobs have, so they may hold on to what is on this stack.
    let mean = pool.scope(|scope| -> Result<f64, JobError> {
        let (left, right) = samples.split_at(samples.len() / 2);
        let left = scope.submit(|| left.iter().sum::<f64>());
        let right = right.iter().sum::<f64>();
        let left = left.expect("the pool is open").join()?;
        Ok((left + right) / samples.len() as f64)
    })?;
    println!("mean before: {mean}");

    // Mutably, too: each job has a piece of its own, and nobody waits for handles.
    pool.scope(|scope| {
        for piece in samples.chunks_mut(1_000) {
            scope
                .execute(move || piece.iter_mut().for_each(|sample| *sample -= mean))
                .expect("the pool is open");
        }
    });
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    println!("mean after:  {mean}");
    Ok(())
}
