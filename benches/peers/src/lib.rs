//! Compares fairlane with the pools one would pick instead, and prints the tables in Markdown.
//!
//! How, and why so:
//!
//! - **A process for each table.** After loads that allocate much, the allocator is slower for the
//!   next ones, and for some pools more than for others. What a process measures of itself, its
//!   memory, gets a process for each run, in a second program that counts allocations.
//! - **Rounds, interleaved.** Each runs every contestant once, from scratch. So a machine that
//!   changes its pace does so for all of them.
//! - **Medians**, with the least and the greatest value; ratios are medians of the ratios of each
//!   round, in which a round that was slow for all cancels out.
//! - **Foreign CPU** is what `/proc/stat` says the machine did, less what this process did. With
//!   cores taken away, pools that spin lose to pools that sleep; so a table made beside other work is
//!   worth nothing: it is made anew, and says so if that was of no use.
//! - **Static dispatch**: loads are generic over one small trait, so that no virtual call is measured.

mod allocations;
mod chart;
mod fair;
mod gate;
mod loads;
mod machine;
mod measure;
mod pools;
mod processes;
mod scale;
mod summary;
mod table;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

pub use allocations::Counting;
use measure::{Comparison, Config, Place, cores};
use summary::Made;

const USAGE: &str = "\
usage: peers COMMAND [--workers N] [--rounds N] [--tries N] [--svg FILE] [--quick]

  all            every table
  a b c d e f h  one load on pools without a limit
  g              memory of queued jobs
  one-core       loads a, c and d on a single core
  gate           tenants, priorities and weights; one table: gate-PRODUCERS-TENANTS
  scale          1 to 16 submitting threads and workers
  fair           the queue beside firq-core: fair-order, fair-latency, fair-pop, fair-memory

  --workers N    threads a pool; as many as there are cores unless given
  --rounds N     rounds a table, each with every pool once; 9 unless given
  --tries N      how often a table is made, at most, while others use the machine; 3 unless given
  --svg FILE     where to draw scale
  --quick        a smoke run: 2 rounds of a fiftieth of the work

Several commands may be given, with commas between them.";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The program: what its arguments ask for.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    match &options.part {
        Part::All => make_tables(&options),
        Part::Rounds => processes::print_rounds(&find(&options.command)?, &options.config),
        Part::Run { contestant } => {
            processes::print_run(&find(&options.command)?, contestant, &options.config)
        }
    }
}

/// What the command line says.
struct Options {
    command: String,
    config: Config,
    tries: usize,
    svg: Option<PathBuf>,
    part: Part,
}

/// Which part of the work is this process's.
enum Part {
    /// All but what it lets others do.
    All,
    /// The rounds of one table.
    Rounds,
    /// One run of one contestant.
    Run { contestant: String },
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options {
            command: args.next().ok_or(USAGE)?,
            config: Config {
                workers: cores(),
                rounds: 0,
                quick: false,
            },
            tries: 3,
            svg: None,
            part: Part::All,
        };
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--workers" => options.config.workers = positive(&value()?)?,
                "--rounds" => options.config.rounds = positive(&value()?)?,
                "--tries" => options.tries = positive(&value()?)?,
                "--svg" => options.svg = Some(value()?.into()),
                "--quick" => options.config.quick = true,
                "--rounds-alone" => options.part = Part::Rounds,
                "--contestant" => {
                    let contestant = value()?;
                    options.part = Part::Run { contestant };
                }
                _ => return Err(format!("what is {flag}?\n\n{USAGE}").into()),
            }
        }
        if options.config.rounds == 0 {
            options.config.rounds = if options.config.quick { 2 } else { 9 };
        }
        Ok(options)
    }

    fn selects(&self, name: &str) -> bool {
        self.command
            .split(',')
            .any(|command| selects(command, name))
    }
}

fn positive(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text} is not a positive number").into()),
        Ok(number) => Ok(number),
    }
}

/// The one table in which nothing is measured.
const ORDER: &str = "fair-order";

fn comparisons() -> impl Iterator<Item = Comparison> {
    let loads = loads::comparisons().into_iter();
    let one_core = loads::comparisons_on_one_core();
    let all = loads.chain(one_core).chain(gate::comparisons());
    all.chain(scale::comparisons()).chain(fair::comparisons())
}

/// Whether a command means a table: its name, or the beginning of it up to a dash.
fn selects(command: &str, name: &str) -> bool {
    let rest = name.strip_prefix(command);
    command == "all" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn find(name: &str) -> Result<Comparison> {
    let found = comparisons().find(|table| table.name == name);
    found.ok_or_else(|| format!("there is no table {name}").into())
}

/// Makes and prints whatever the command names.
fn make_tables(options: &Options) -> Result<()> {
    let wanted: Vec<_> = comparisons().filter(|c| options.selects(&c.name)).collect();
    let order = options.selects(ORDER);
    if wanted.is_empty() && !order {
        return Err(format!("there is no table {}\n\n{USAGE}", options.command).into());
    }
    if wanted.iter().any(|table| table.place == Place::Apart) {
        processes::build_counting_program()?;
    }
    println!("{}\n", machine::description());
    if order {
        fair::print_order();
    }
    let mut made = Vec::new();
    for comparison in wanted {
        let table = make(comparison, options)?;
        if !scale::is_ours(&table) {
            table::print(&table.comparison, &table.outcome, &options.config);
        }
        made.push(table);
    }
    scale::print(&made, options.svg.as_deref(), &options.config)?;
    summary::print_all(&made, &options.config);
    Ok(())
}

/// Makes a table, anew while others use the machine. The best of the tries counts.
fn make(comparison: Comparison, options: &Options) -> Result<Made> {
    let config = &options.config;
    eprintln!("{}", comparison.name);
    let mut outcome = processes::outcome_of(&comparison, config)?;
    for _ in 1..options.tries {
        if outcome.is_usable() {
            break;
        }
        eprintln!(
            "{}, once more: {:.1} % foreign CPU",
            comparison.name, outcome.foreign
        );
        let other = processes::outcome_of(&comparison, config)?;
        if other.foreign < outcome.foreign {
            outcome = other;
        }
    }
    Ok(Made {
        comparison,
        outcome,
    })
}
