//! One token calls off a hundred jobs: those that wait never begin, and the one that runs looks at
//! the token from time to time.
//!
//! ```text
//! cargo run --example cancel
//! ```

use std::error::Error;
use std::sync::mpsc;

use fairlane::{CancelToken, JobError, WorkerPool};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = WorkerPool::new(1)?;
    let token = CancelToken::new();
    let (begun, begins) = mpsc::channel();

    let mut jobs = Vec::new();
    for _ in 0..100 {
        let (begun, token) = (begun.clone(), token.clone());
        let options = pool.job().cancel_token(&token);
        jobs.push(options.submit(move || {
            let _ = begun.send(());
            work_until_cancelled(&token)
        })?);
    }

    // With a handle, a single one: `true` says that it never ran and never will.
    let last = jobs.pop().expect("there are a hundred");
    println!("the last one called off: {}", last.cancel());

    begins.recv()?;
    token.cancel();

    let (mut stopped, mut never_ran) = (0, 0);
    for job in jobs {
        match job.join() {
            Ok(_rounds) => stopped += 1,
            Err(JobError::Cancelled) => never_ran += 1,
            Err(error) => return Err(error.into()),
        }
    }
    println!("the others: {stopped} stopped, {never_ran} never begun");
    Ok(())
}

/// No thread is ever killed: what is under way has to look by itself.
fn work_until_cancelled(token: &CancelToken) -> u64 {
    let mut rounds = 0;
    while !token.is_cancelled() {
        rounds += 1;
        std::thread::yield_now();
    }
    rounds
}
