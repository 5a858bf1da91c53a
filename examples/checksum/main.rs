//! Prints the SHA-256 of every regular file below each DIR, one line a file, as `sha256sum -c`
//! reads it:
//!
//! ```text
//! cargo run --release --example checksum -- DIR... > SUMS
//! sha256sum -c SUMS
//! ```
//!
//! The walk runs on the main thread, inside the iterator that [`WorkerPool::map`] draws from. The
//! map keeps a bounded number of batches in flight and hands their lines back in the walk's
//! order, so memory does not grow with the number of files.
//!
//! One DIR follows the other, and a small one behind a huge one waits. With `--concurrency`, each
//! DIR is a tenant: all are walked at once and take turns at the pool, in proportion to their
//! weights, so that the small one is done early whatever lies beside it:
//!
//! ```text
//! cargo run --release --example checksum -- --concurrency 2 --weight urgent=3 archive urgent
//! ```
//!
//! Then only the lines of one DIR keep their order, and those of several are mingled. That is why
//! it is not the default: without the option, the list is the same each time.
//!
//! Several machines can share the work. With `--shard I/N` each does a part of the files, and all
//! parts together are the whole list:
//!
//! ```text
//! parallel checksum --shard {}/4 archive ::: 1 2 3 4 > SUMS
//! ```

mod escape;
mod file_id;
mod hash;
mod lanes;
mod output;
mod progress;
mod shard;
mod walk;
mod weights;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use fairlane::{CancelToken, JobError, Strategy, Tenant, Weight, WorkerPool};

use crate::hash::{Hashed, hash_batch};
use crate::lanes::Lanes;
use crate::output::{Output, OutputError};
use crate::progress::{Progress, complain};
use crate::shard::Shard;
use crate::walk::Walk;

/// Some file or directory could not be read; all others were.
const FAILED: u8 = 1;
/// Nothing more could be done: no pool, or no way to write. Also clap's code for bad usage.
const FATAL: u8 = 2;
/// What a shell reports of a process that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Print the SHA-256 of every regular file below each DIR, as `sha256sum -c` reads it
///
/// Symbolic links are not followed, except a DIR that is one. The file that the output goes to is
/// left out wherever the walk meets it.
///
/// Exit status: 0 if all went well, 1 if something could not be read (the rest is done), 2 if
/// the output could not be written, 130 if interrupted. The first Ctrl-C lets the files at hand
/// finish, the second one does not.
#[derive(Parser)]
#[command(name = "checksum")]
struct Args {
    /// Directories to walk; a file is hashed itself
    #[arg(value_name = "DIR", required = true)]
    roots: Vec<PathBuf>,
    /// Threads that hash [default: the CPUs this process may use]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// How the next job's slot is chosen: round-robin or least-busy
    #[arg(long, default_value_t)]
    strategy: Strategy,
    /// Walk all DIRs at once and let them take turns, with at most N batches of files at a time
    ///
    /// The lines of one DIR keep their order, and are written as soon as they are done. Without
    /// it one DIR follows the other.
    #[arg(long, value_name = "N")]
    concurrency: Option<NonZeroUsize>,
    /// How many turns a DIR has for each one of a DIR of weight 1, the default; may be repeated
    #[arg(long = "weight", value_name = "DIR=N", requires = "concurrency")]
    weights: Vec<OsString>,
    /// Do part I of N, from 1 to N: the parts are disjoint, and together they are everything
    ///
    /// In a Slurm array the part is known by itself, from SLURM_ARRAY_TASK_ID and
    /// SLURM_ARRAY_TASK_COUNT; 1/1 does everything there too. In an indexed Kubernetes job, /N is
    /// enough: JOB_COMPLETION_INDEX says the rest. Every part needs the DIRs spelled alike, and
    /// reports directories that it cannot read.
    #[arg(long, value_name = "I/N")]
    shard: Option<shard::Asked>,
    /// Show no progress bar; there is none either where standard error is no terminal
    #[arg(long)]
    quiet: bool,
    /// Write to FILE, which is emptied first, instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let weights = weights::of_each(&args.roots, &args.weights).unwrap_or_else(|why| refuse(why));
    let (shard, chosen_by) = shard::choose(args.shard).unwrap_or_else(|why| refuse(why));
    if let Some(variable) = chosen_by {
        // An array may be meant for something else, and nobody has asked for a part.
        complain(format_args!("shard {shard}, by {variable}"));
    }
    run(args, &weights, shard).unwrap_or_else(|error| {
        complain(error);
        ExitCode::from(FATAL)
    })
}

/// Ends as clap does where an option cannot be.
fn refuse(why: String) -> ! {
    Args::command()
        .error(ErrorKind::ValueValidation, why)
        .exit()
}

fn run(args: Args, weights: &[Weight], shard: Shard) -> Result<ExitCode, Box<dyn Error>> {
    let pool = build_pool(&args)?;
    let progress = Progress::new(wants_bar(&args));
    let stop = stop_on_signal(progress.clone())?;
    let mut output = Output::open(args.output.as_deref())?;
    let skip = output.take_id();

    let mut report = Report::new(progress.clone());
    let job_stop = stop.clone();
    let hash = move |batch| hash_batch(batch, &job_stop, &progress);
    let mut write = |outcome| output.write(&report.take(outcome));
    let written = if args.concurrency.is_some() {
        let walk = |root| Walk::new(vec![root], shard, skip.clone(), stop.clone());
        let tenants = tenants(&pool, &args.roots, weights);
        let lanes = tenants.zip(args.roots.iter().cloned().map(walk));
        Lanes::start(lanes, hash)?.try_for_each(&mut write)
    } else {
        let walk = Walk::new(args.roots, shard, skip, stop.clone());
        pool.map(walk, hash).try_for_each(&mut write)
    };
    report.progress.finish();

    if let Err(error) = written {
        return give_up(pool, &stop, error, &report);
    }
    Ok(report.conclude(stop.is_cancelled()))
}

/// One tenant a root. The number is part of the name: two roots that read alike, because they are
/// no text or because one is given twice, are two tenants still.
fn tenants(
    pool: &WorkerPool,
    roots: &[PathBuf],
    weights: &[Weight],
) -> impl Iterator<Item = Tenant> {
    let shares = roots.iter().zip(weights).enumerate();
    shares.map(|(i, (root, &weight))| {
        pool.tenant(&format!("{i}: {}", root.display()))
            .with_weight(weight)
    })
}

fn build_pool(args: &Args) -> Result<WorkerPool, Box<dyn Error>> {
    let mut builder = WorkerPool::builder()
        .name("checksum")
        .strategy(args.strategy);
    if let Some(workers) = args.workers {
        builder = builder.workers(workers.get());
    }
    if let Some(jobs) = args.concurrency {
        builder = builder.concurrency(jobs.get());
    }
    Ok(builder.build()?)
}

/// The token that the first Ctrl-C cancels (SIGTERM and SIGHUP alike). The second one ends the
/// process from the signal's own thread, whatever the others are stuck in.
fn stop_on_signal(progress: Progress) -> Result<CancelToken, ctrlc::Error> {
    let stop = CancelToken::new();
    let token = stop.clone();
    ctrlc::set_handler(move || {
        if token.is_cancelled() {
            process::exit(INTERRUPTED.into());
        }
        // Said first: a moment after the token is cancelled, the last line may be out.
        progress.print("finishing the files at hand; once more to stop at once");
        token.cancel();
    })?;
    Ok(stop)
}

/// A bar shares the terminal with nothing but messages: where lines go to a terminal, they are
/// the progress.
fn wants_bar(args: &Args) -> bool {
    let lines_on_terminal = args.output.is_none() && io::stdout().is_terminal();
    !args.quiet && !lines_on_terminal && io::stderr().is_terminal()
}

/// The output has failed, so nobody will see what is still being hashed: leaves without waiting
/// for it.
fn give_up(
    pool: WorkerPool,
    stop: &CancelToken,
    error: OutputError,
    report: &Report,
) -> Result<ExitCode, Box<dyn Error>> {
    stop.cancel();
    // A timeout is what is asked for here: a large file at hand goes on detached, until the
    // process ends.
    let _ = pool.shutdown_timeout(Duration::ZERO);
    if error.is_broken_pipe() {
        Ok(report.exit_code())
    } else {
        Err(error.into())
    }
}

/// Counts what became of the files and names the ones that failed.
struct Report {
    progress: Progress,
    done: u64,
    skipped: u64,
    failed: bool,
}

impl Report {
    fn new(progress: Progress) -> Self {
        Self {
            progress,
            done: 0,
            skipped: 0,
            failed: false,
        }
    }

    /// Books a batch and returns the lines to write.
    fn take(&mut self, result: Result<Hashed, JobError>) -> Vec<u8> {
        let hashed = result.unwrap_or_else(|error| {
            self.fail(&format!("a batch of files was lost: {error}"));
            Hashed::default()
        });
        for (path, error) in &hashed.failed {
            // `Debug` quotes what would break the line or upset a terminal.
            self.fail(&format!("{path:?}: {error}"));
        }
        self.done += hashed.done;
        self.skipped += hashed.skipped;
        hashed.lines
    }

    fn fail(&mut self, message: &str) {
        self.failed = true;
        self.progress.print(message);
    }

    fn conclude(&self, interrupted: bool) -> ExitCode {
        if !interrupted {
            return self.exit_code();
        }
        let Self { done, skipped, .. } = self;
        self.progress.print(&format!(
            "interrupted: {done} files done, {skipped} found but not done, the walk cut short"
        ));
        ExitCode::from(INTERRUPTED)
    }

    fn exit_code(&self) -> ExitCode {
        if self.failed {
            ExitCode::from(FAILED)
        } else {
            ExitCode::SUCCESS
        }
    }
}
