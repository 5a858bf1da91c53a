//! Ctrl-C ends a batch in good order: files at hand are finished, the others are not begun, and
//! what was done is told. A second Ctrl-C ends it at once.
//!
//! ```text
//! cargo run --example graceful_shutdown
//! ```
//!
//! Left alone it ends after about three seconds. An argument sets the number of files.

use std::error::Error;
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use fairlane::{CancelToken, JobError, WorkerPool};

/// What a shell reports of a process that SIGINT ended.
const INTERRUPTED: u8 = 130;

fn main() -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    let files = std::env::args().nth(1).map_or(Ok(300), |n| n.parse())?;
    let pool = WorkerPool::new(2)?;
    let stop = stop_on_signal()?;
    println!("{files} files; Ctrl-C stops");

    // With the token, a job that waits is called off, and one that runs is left to finish.
    let mut jobs = Vec::new();
    for file in 0..files {
        jobs.push(
            pool.job()
                .cancel_token(&stop)
                .submit(move || handle(file))?,
        );
    }

    let (mut done, mut left) = (0u64, 0u64);
    for job in jobs {
        match job.join() {
            Ok(()) => done += 1,
            Err(JobError::Cancelled) => left += 1,
            Err(error) => eprintln!("a file failed: {error}"),
        }
    }
    pool.shutdown();

    println!("{done} files done, {left} not begun");
    if stop.is_cancelled() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// The token that the first Ctrl-C cancels (SIGTERM and SIGHUP alike).
fn stop_on_signal() -> Result<CancelToken, ctrlc::Error> {
    let stop = CancelToken::new();
    let token = stop.clone();
    ctrlc::set_handler(move || {
        if token.is_cancelled() {
            process::exit(INTERRUPTED.into());
        }
        token.cancel();
    })?;
    Ok(stop)
}

/// Stands in for 20 ms of work.
fn handle(_file: u64) {
    thread::sleep(Duration::from_millis(20));
}
