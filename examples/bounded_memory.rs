//! A submitter that is faster than the pool fills the memory, unless the queue has a limit: then
//! `submit` waits for room.
//!
//! ```text
//! cargo run --example bounded_memory
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fairlane::{PoolBuilder, WorkerPool};

const WORKERS: usize = 2;
const LIMIT: usize = 8;
const BUFFERS: usize = 400;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let unlimited = WorkerPool::builder().workers(WORKERS);
    println!("no limit: {} of {BUFFERS} buffers at once", run(unlimited)?);

    // Beside those that wait, one is in the submitter's hand and one in each worker's.
    let limited = WorkerPool::builder().workers(WORKERS).queue_limit(LIMIT);
    let most = LIMIT + WORKERS + 1;
    let peak = run(limited)?;
    println!("queue_limit({LIMIT}): {peak} at once, never more than {most}");
    assert!(peak <= most);
    Ok(())
}

/// Sends all buffers through a pool, and tells how many were in memory at once.
fn run(builder: PoolBuilder) -> Result<usize, Box<dyn Error + Send + Sync>> {
    PEAK.store(0, Ordering::Relaxed);
    let pool = builder.build()?;
    for _ in 0..BUFFERS {
        let buffer = Buffer::new();
        pool.execute(move || buffer.work())?;
    }
    pool.shutdown();
    Ok(PEAK.load(Ordering::Relaxed))
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// 64 KB that know how many of them there are.
struct Buffer(Vec<u8>);

impl Buffer {
    fn new() -> Self {
        let alive = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        PEAK.fetch_max(alive, Ordering::Relaxed);
        Self(vec![1; 1 << 16])
    }

    fn work(&self) {
        thread::sleep(Duration::from_micros(200));
        assert!(self.0.iter().all(|&byte| byte == 1));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
