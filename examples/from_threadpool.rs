//! A program that used the crate `threadpool`, before (in comments) and after:
//!
//! ```text
//! cargo run --example from_threadpool
//! ```
//!
//! | `threadpool` | here | what is different |
//! |---|---|---|
//! | `ThreadPool::new(n)` | `WorkerPool::new(n)?` | a thread that cannot start is an error |
//! | `Builder` | `WorkerPool::builder()` | `name`, `stack_size`, `workers` |
//! | `execute(f)` | `execute(f)?` | an error once the pool is closed, with `f` in it |
//! | `execute` and a channel | `submit(f)?`, `join()` | the result, or the panic |
//! | `join()` | `wait_idle()` | inside a job it panics, and does not hang |
//! | `queued_count()` and the like | `stats()` | `queued`, `running`, `panicked` |
//! | clones of the pool | `Arc<WorkerPool>`, or a `Tenant` | |
//! | dropping it | dropping it | waits for what was accepted |
//! | `set_num_threads(n)` | none | the number of threads is fixed |

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlane::WorkerPool;

const TEXT: &str = include_str!("from_threadpool.rs");

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // let pool = threadpool::ThreadPool::new(4);
    let pool = WorkerPool::new(4)?;

    // Jobs for their effect.
    let total = Arc::new(AtomicUsize::new(0));
    for line in TEXT.lines() {
        let total = Arc::clone(&total);
        // pool.execute(move || { ... });
        pool.execute(move || {
            total.fetch_add(words(line), Ordering::Relaxed);
        })?;
    }
    // pool.join();
    pool.wait_idle();
    println!("{} words", total.load(Ordering::Relaxed));

    // Jobs for their results.
    //
    // let (sender, results) = channel();
    // for line in TEXT.lines() {
    //     let sender = sender.clone();
    //     pool.execute(move || sender.send(words(line)).unwrap());
    // }
    // drop(sender);
    // let longest = results.iter().max();     // a line that panicked is missing
    let longest = pool.map(TEXT.lines(), words);
    let longest = longest.collect::<Result<Vec<_>, _>>()?.into_iter().max();
    println!("{} in the longest line", longest.unwrap_or_default());

    // pool.panic_count()
    println!("{} jobs panicked", pool.stats().panicked);
    Ok(())
}

fn words(line: &str) -> usize {
    line.split_whitespace().count()
}
