//! A pool, a job and its result, many items in order, and what becomes of a panic:
//!
//! ```text
//! cargo run --example quickstart
//! ```

use std::error::Error;

use fairlane::WorkerPool;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // `WorkerPool::builder().build()` takes as many threads as there are cores.
    let pool = WorkerPool::new(2)?;

    // A closure goes in, a handle comes out, and `join` waits for the result.
    let job = pool.submit(|| primes_below(10_000))?;
    println!("below 10,000 there are {} primes", job.join()?);

    // One job an item: the results come in the order of the items.
    let limits = [10, 100, 1_000];
    for (limit, primes) in limits.iter().zip(pool.map(limits, primes_below)) {
        println!("below {limit} there are {}", primes?);
    }

    // A panic comes out of `join` as an error. The thread that it happened on works on.
    let broken = pool.submit(|| "ten".parse::<u32>().expect("a number"))?;
    if let Err(error) = broken.join() {
        println!("one job failed: {error}");
    }

    // So does dropping the pool: what was accepted runs, then the threads are joined.
    pool.shutdown();
    Ok(())
}

fn primes_below(limit: u32) -> usize {
    let is_prime = |n: &u32| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0);
    (2..limit).filter(is_prime).count()
}
