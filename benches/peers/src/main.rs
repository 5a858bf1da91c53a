//! Compares fairlane with the pools one would pick instead, and prints the tables in Markdown.
//!
//! How, and why so:
//!
//! - **A process for each table.** After loads that allocate much, the allocator is slower for the
//!   next ones, and for some pools more than for others.
//! - **Rounds, interleaved.** Each runs every contestant once, from scratch. So a machine that
//!   changes its pace does so for all of them.
//! - **Medians**, with the least and the greatest value; ratios are medians of the ratios of each
//!   round, in which a round that was slow for all cancels out.
//! - **Foreign CPU** is what `/proc/stat` says the machine did, less what this process did. With
//!   cores taken away, pools that spin lose to pools that sleep; so a table made beside other work is
//!   worth nothing, and says so.
//! - **Static dispatch**: loads are generic over one small trait, so that no virtual call is measured.

mod allocations;
mod fair;
mod gate;
mod loads;
mod measure;
mod pools;
mod table;

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};

use measure::{Comparison, Config, Contestant, cores, interleave};

const USAGE: &str = "\
usage: peers COMMAND [--workers N] [--rounds N] [--quick]

  all            every table
  a b c d e f h  one load on pools without a limit
  g              memory of queued jobs
  gate           tenants, priorities and weights; one table: gate-PRODUCERS-TENANTS
  fair           the queue beside firq-core: fair-order, fair-latency, fair-pop, fair-memory

  --workers N    threads a pool; as many as there are cores unless given
  --rounds N     rounds a table, each with every pool once; 9 unless given
  --quick        a smoke run: 2 rounds of a fiftieth of the work

Allocations, in g and fair-memory, are counted if it was built with `--features count`.";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
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
    if let Some(contestant) = &options.contestant {
        return run_once(&options, contestant);
    }
    if options.here {
        return make_table(&options);
    }
    let mut names = all_names();
    names.retain(|name| selects(&options.command, name));
    if names.is_empty() {
        return Err(format!("there is no table {}\n\n{USAGE}", options.command).into());
    }
    for name in names {
        let status = again(&name, &options.config)?.arg("--here").status()?;
        if !status.success() {
            return Err(format!("{name} failed: {status}").into());
        }
    }
    Ok(())
}

/// What the command line says.
struct Options {
    command: String,
    config: Config,
    /// Make the table in this process.
    here: bool,
    /// Run only this contestant, once, in this process, and print its numbers.
    contestant: Option<String>,
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
            here: false,
            contestant: None,
        };
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--workers" => options.config.workers = positive(&value()?)?,
                "--rounds" => options.config.rounds = positive(&value()?)?,
                "--quick" => options.config.quick = true,
                "--here" => options.here = true,
                "--contestant" => options.contestant = Some(value()?),
                _ => return Err(format!("what is {flag}?\n\n{USAGE}").into()),
            }
        }
        if options.config.rounds == 0 {
            options.config.rounds = if options.config.quick { 2 } else { 9 };
        }
        Ok(options)
    }
}

fn positive(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text} is not a positive number").into()),
        Ok(number) => Ok(number),
    }
}

const ORDER: &str = "fair-order";

fn all_names() -> Vec<String> {
    let tables = loads::comparisons().into_iter().chain(gate::comparisons());
    let names = tables.map(|table| table.name);
    let fair = fair::comparisons().into_iter().map(|table| table.name);
    names.chain([ORDER.to_owned()]).chain(fair).collect()
}

/// Whether a command means a table: its name, or the beginning of it up to a dash.
fn selects(command: &str, name: &str) -> bool {
    let rest = name.strip_prefix(command);
    command == "all" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn find(name: &str) -> Result<Comparison> {
    let loads = loads::comparisons().into_iter();
    let mut all = loads.chain(gate::comparisons()).chain(fair::comparisons());
    let found = all.find(|table| table.name == name);
    found.ok_or_else(|| format!("there is no table {name}").into())
}

/// Makes the table named by the command.
fn make_table(options: &Options) -> Result<()> {
    if options.command == ORDER {
        fair::print_order();
        return Ok(());
    }
    let mut comparison = find(&options.command)?;
    if comparison.isolated {
        isolate(&mut comparison);
    } else if allocations::COUNTING {
        let name = &comparison.name;
        println!("{name}: left out, as counting allocations falsifies times\n");
        return Ok(());
    }
    let outcome = interleave(&comparison.contestants, &options.config);
    let Comparison { title, metrics, .. } = comparison;
    table::print(&title, metrics, &outcome, &options.config);
    Ok(())
}

/// Replaces each run by one in a process of its own.
fn isolate(comparison: &mut Comparison) {
    for contestant in &mut comparison.contestants {
        let (table, name) = (comparison.name.clone(), contestant.name);
        contestant.run = Box::new(move |config| {
            elsewhere(&table, name, config).unwrap_or_else(|error| panic!("{name}: {error}"))
        });
    }
}

/// The numbers of a contestant's run in a process of its own.
fn elsewhere(table: &str, contestant: &str, config: &Config) -> Result<Vec<f64>> {
    let mut command = again(table, config)?;
    command.args(["--contestant", contestant]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(output.status.to_string().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let numbers = text.split_whitespace().map(|number| Ok(number.parse()?));
    numbers.collect()
}

/// The other end of [`elsewhere`].
fn run_once(options: &Options, name: &str) -> Result<()> {
    let contestants = find(&options.command)?.contestants;
    let named = |contestant: &&Contestant| contestant.name == name;
    let contestant = contestants.iter().find(named);
    let contestant = contestant.ok_or_else(|| format!("there is no contestant {name}"))?;
    for number in (contestant.run)(&options.config) {
        println!("{number}");
    }
    Ok(())
}

/// This program again, for one table.
fn again(table: &str, config: &Config) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(table);
    command.args(["--workers", &config.workers.to_string()]);
    command.args(["--rounds", &config.rounds.to_string()]);
    if config.quick {
        command.arg("--quick");
    }
    Ok(command)
}
