//! How long a light tenant waits beside a flood, in order of arrival and with fair admission:
//!
//! ```text
//! cargo run --release --example fairness
//! ```
//!
//! The flood keeps so many jobs queued; the light tenant submits one job, joins it, thinks, and
//! submits the next. What is measured is the time from a light job's submit to its beginning, what
//! the flood gets done meanwhile, and how long a fixed amount of work takes. Three regimes, on the
//! same pool with the same limit:
//!
//! - **FIFO**: both parties share one tenant, so one lane, and jobs begin in order of arrival;
//! - **fair**: two tenants of equal weight;
//! - **fair, light weight 3**: two tenants, the light one of weight 3.
//!
//! # Method
//!
//! - A job burns a fixed number of steps, not a fixed time: what a job costs does not shrink when
//!   its thread loses the processor. The steps are calibrated with all workers busy.
//! - The backlog is queued before the clock starts, and each job of the flood submits its successor
//!   before it ends: the flood can neither run out nor grow while the light tenant is measured.
//! - A cell of the table is measured on a pool of its own, first through a window of time, then with
//!   a fixed number of jobs. Rounds go through all cells, the regimes in another order each time, so
//!   that a drift of the machine meets all of them alike.
//! - p50, p99, throughput and makespan are medians over the rounds; max is that of all rounds.
//!   "of FIFO" is the median of each round's ratio to FIFO's cell of the same round and backlog.
//!   In FIFO a window holds few requests, since each waits for the whole backlog: where there are
//!   fewer than a hundred, p99 is the round's maximum.
//!
//! With `--cpu` something else is measured, beside a tenant with jobs a hundred times as long: see `cpu`.

mod burn;
mod cell;
mod chart;
mod cpu;
mod summary;
mod table;

use std::error::Error;
use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::burn::Burn;
use crate::cell::{Cell, Load, Regime};
use crate::summary::Summary;

/// Measure how long a light tenant waits beside a flood: in order of arrival, and fairly
#[derive(Parser)]
#[command(name = "fairness")]
struct Args {
    /// Threads of the pool [default: 2, or fewer if this process may use fewer CPUs]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// What a job takes, in milliseconds [default: 1]
    #[arg(long, value_name = "MS", value_parser = positive)]
    job: Option<f64>,
    /// What the light tenant thinks between two jobs, in milliseconds [default: 50]
    #[arg(long, value_name = "MS", value_parser = positive)]
    think: Option<f64>,
    /// Jobs that the flood keeps queued [default: 10,100,1000,10000]
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    backlog: Vec<NonZeroUsize>,
    /// Rounds through all cells [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// How long a window lasts at least, in seconds [default: 10]
    #[arg(long, value_name = "S", value_parser = positive)]
    window: Option<f64>,
    /// Light jobs that a window lasts for at least [default: 3]
    #[arg(long, value_name = "N")]
    requests: Option<NonZeroUsize>,
    /// Jobs of the fixed amount of work, one in twenty of them light [default: 4000]
    #[arg(long, value_name = "N")]
    work: Option<NonZeroU64>,
    /// Where the picture goes [default: docs/fairness.svg; with --quick, nowhere]
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Other defaults, for a few seconds in all: shows that it works, and proves little
    #[arg(long)]
    quick: bool,
    /// Measure who gets how much CPU beside a tenant of long jobs instead; takes --workers, --job,
    /// --think [default: 5], --window [default: 4], --rounds [default: 3] and --svg [default: docs/cpu-fairness.svg]
    #[arg(long)]
    cpu: bool,
}

/// What is measured: the defaults, and what the options have put in their place.
struct Plan {
    workers: usize,
    backlogs: Vec<usize>,
    rounds: usize,
    job: Duration,
    think: Duration,
    window: Duration,
    requests: usize,
    work: u64,
    svg: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("a number above 0 is needed".into()),
    }
}

fn millis(value: f64) -> Duration {
    Duration::from_secs_f64(value / 1e3)
}

impl Plan {
    fn full() -> Self {
        let svg = Path::new("docs").join("fairness.svg");
        Self {
            workers: num_cpus::get().min(2),
            backlogs: vec![10, 100, 1_000, 10_000],
            rounds: 3,
            job: millis(1.0),
            think: millis(50.0),
            window: Duration::from_secs(10),
            requests: 3,
            work: 4_000,
            svg: Some(svg),
        }
    }

    fn quick() -> Self {
        Self {
            backlogs: vec![10, 100, 1_000],
            rounds: 1,
            job: millis(0.2),
            think: millis(2.0),
            window: millis(200.0),
            work: 400,
            svg: None,
            ..Self::full()
        }
    }

    fn new(args: Args) -> Self {
        let defaults = if args.quick {
            Self::quick()
        } else {
            Self::full()
        };
        let mut backlogs: Vec<_> = args.backlog.iter().map(|jobs| jobs.get()).collect();
        backlogs.sort_unstable();
        backlogs.dedup();
        if backlogs.is_empty() {
            backlogs = defaults.backlogs;
        }
        let seconds = args.window.map(Duration::from_secs_f64);
        Self {
            workers: args.workers.map_or(defaults.workers, NonZeroUsize::get),
            backlogs,
            rounds: args.rounds.map_or(defaults.rounds, NonZeroUsize::get),
            job: args.job.map_or(defaults.job, millis),
            think: args.think.map_or(defaults.think, millis),
            window: seconds.unwrap_or(defaults.window),
            requests: args.requests.map_or(defaults.requests, NonZeroUsize::get),
            work: args.work.map_or(defaults.work, NonZeroU64::get),
            svg: args.svg.or(defaults.svg),
        }
    }

    fn load(&self) -> Load {
        Load {
            workers: self.workers,
            burn: Burn::calibrated(self.job, self.workers),
            think: self.think,
            window: self.window,
            requests: self.requests,
            work: self.work,
        }
    }
}

/// With `--cpu`: what is measured, and where the picture goes.
fn cpu_plan(args: &Args) -> (cpu::Plan, Option<PathBuf>) {
    let (job, window, rounds) = if args.quick {
        (0.2, 0.4, 1)
    } else {
        (1.0, 4.0, 3)
    };
    let plan = cpu::Plan {
        workers: args
            .workers
            .map_or(num_cpus::get().min(2), NonZeroUsize::get),
        job: millis(args.job.unwrap_or(job)),
        think: millis(args.think.unwrap_or(5.0 * job)),
        window: Duration::from_secs_f64(args.window.unwrap_or(window)),
        rounds: args.rounds.map_or(rounds, NonZeroUsize::get),
    };
    let svg = (!args.quick).then(|| Path::new("docs").join("cpu-fairness.svg"));
    (plan, args.svg.clone().or(svg))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = if args.cpu {
        let (plan, svg) = cpu_plan(&args);
        run_cpu(&plan, svg.as_deref())
    } else {
        run(&Plan::new(args))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairness: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> Result<(), Box<dyn Error>> {
    println!(
        "{} workers, jobs of {:?}, {:?} of thought between two light jobs\n",
        plan.workers, plan.job, plan.think
    );
    let summaries = Summary::of_all(&measure(plan)?);
    table::print(&summaries);
    if let Some(path) = &plan.svg {
        save(path, &chart::draw(&summaries, plan.job)?)?;
    }
    Ok(())
}

fn run_cpu(plan: &cpu::Plan, svg: Option<&Path>) -> Result<(), Box<dyn Error>> {
    println!(
        "{} workers, light jobs of {:?}, heavy ones of {:?}, windows of {:?}\n",
        plan.workers,
        plan.job,
        100 * plan.job,
        plan.window
    );
    let rows = cpu::measure(plan)?;
    cpu::print(&rows);
    if let Some(path) = svg {
        save(path, &cpu::draw(&rows)?)?;
    }
    Ok(())
}

/// Goes through all cells once a round, the regimes in another order each time.
fn measure(plan: &Plan) -> Result<Vec<Cell>, Box<dyn Error>> {
    let load = plan.load();
    let mut regimes = Regime::ALL;
    let mut cells = Vec::new();
    for round in 0..plan.rounds {
        for &backlog in &plan.backlogs {
            for regime in regimes {
                eprintln!(
                    "round {} of {}, backlog {backlog}, {regime}",
                    round + 1,
                    plan.rounds
                );
                cells.push(load.measure(round, backlog, regime)?);
            }
        }
        regimes.rotate_left(1);
    }
    Ok(cells)
}

fn save(path: &Path, picture: &str) -> Result<(), String> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, picture))
        .map_err(|error| format!("cannot write {path:?}: {error}"))?;
    println!("\nThe picture is in {}.", path.display());
    Ok(())
}
