//! A live view of a pool: its slots, its tenants, and what they wait for, while a mixed load runs:
//!
//! ```text
//! cargo run --release --example top -- --seconds 10
//! ```
//!
//! `q` ends it, and so does Ctrl-C. Where input or output is no terminal it prints plain lines
//! instead, one block a second.
//!
//! Everything shown comes from [`WorkerPool::stats`], which is called ten times a second. A share
//! is what a tenant got of the jobs of the last second; what is due to it is its weight's part
//! among the tenants that have something queued.

mod history;
mod load;
mod plain;
mod screen;
mod view;

use std::error::Error;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::num::{NonZeroU64, NonZeroUsize};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use fairlane::{CancelToken, WorkerPool};

use crate::history::{History, Recent};
use crate::plain::Plain;
use crate::screen::Screen;

/// From one look at the pool to the next.
const TICK: Duration = Duration::from_millis(100);

/// Watch a pool at work: slots, tenants, shares and waits
#[derive(Parser)]
#[command(name = "top")]
struct Args {
    /// End after so many seconds [default: at `q` or Ctrl-C]
    #[arg(long, value_name = "N")]
    seconds: Option<NonZeroU64>,
    /// Threads of the pool [default: the CPUs this process may use]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
}

/// Where it is shown.
trait Display {
    fn show(&mut self, recent: &Recent<'_>) -> io::Result<()>;

    /// Waits for about so long; `true` if somebody wants to leave.
    fn pause(&mut self, time: Duration) -> io::Result<bool>;
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut builder = WorkerPool::builder().name("top").fair().timings(true);
    if let Some(workers) = args.workers {
        builder = builder.workers(workers.get());
    }
    let pool = builder.build()?;
    let stop = stop_on_signal()?;
    load::start(&pool)?;

    let end = args.seconds.map(|n| Duration::from_secs(n.get()));
    let end = end.and_then(|seconds| Instant::now().checked_add(seconds));
    // The display is gone, and the terminal as it was, before anything else is said or waited for.
    let watched = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        Screen::open().and_then(|screen| watch(&pool, screen, &stop, end))
    } else {
        watch(&pool, Plain::default(), &stop, end)
    };
    pool.shutdown_now();
    match watched {
        // Nobody reads on: there is nothing wrong with that.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        watched => Ok(watched?),
    }
}

/// The token that Ctrl-C cancels, SIGTERM and SIGHUP alike. While the screen is open, Ctrl-C is a
/// key like others; signals still come from other programs.
fn stop_on_signal() -> Result<CancelToken, ctrlc::Error> {
    let stop = CancelToken::new();
    let token = stop.clone();
    ctrlc::set_handler(move || token.cancel())?;
    Ok(stop)
}

fn watch(
    pool: &WorkerPool,
    mut display: impl Display,
    stop: &CancelToken,
    end: Option<Instant>,
) -> io::Result<()> {
    let mut history = History::default();
    loop {
        // Asked first, so that the last thing shown is how it was when the time was up.
        let is_over = end.is_some_and(|end| end <= Instant::now());
        display.show(&history.add(pool.stats()))?;
        if is_over || stop.is_cancelled() || display.pause(TICK)? {
            return Ok(());
        }
    }
}
