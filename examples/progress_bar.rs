//! A progress bar around a map: results are iterators, so an iterator's bar does.
//!
//! ```text
//! cargo run --example progress_bar
//! ```

use std::error::Error;
use std::thread;
use std::time::Duration;

use fairlane::WorkerPool;
use indicatif::{ProgressBar, ProgressStyle};

const ITEMS: u64 = 400;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = WorkerPool::new(4)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec}, {eta} left")?;
    // It draws on standard error, and only where that is a terminal.
    let bar = ProgressBar::new(ITEMS).with_style(style);

    // As they finish: an item that takes long holds the bar up no more than its own share.
    let results = pool.map_unordered(0..ITEMS, measure);
    let mut longest = 0;
    for millis in bar.wrap_iter(results) {
        longest = longest.max(millis?);
    }
    bar.finish_and_clear();

    println!("{ITEMS} items, the longest {longest} ms");
    Ok(())
}

/// Stands in for work: most items are quick, a few are not.
fn measure(item: u64) -> u64 {
    let millis = if item % 50 == 0 { 100 } else { 5 };
    thread::sleep(Duration::from_millis(millis));
    millis
}
