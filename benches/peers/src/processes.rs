//! Measuring in processes of their own: this program again, which prints plain numbers.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Result;
use crate::machine;
use crate::measure::{Comparison, Config, Contestant, Outcome, Place, interleave};

/// Makes the rounds of a table.
pub fn outcome_of(comparison: &Comparison, config: &Config) -> Result<Outcome> {
    match comparison.place {
        Place::Together | Place::OneCore => {
            let mut command = again(&comparison.name, comparison.place, config)?;
            let text = output_of(command.arg("--rounds-alone"))?;
            parse(&text, &comparison.contestants)
        }
        Place::Apart => Ok(interleave(&sent_apart(comparison), config)),
    }
}

/// The other end of [`outcome_of`]: all rounds, in this process.
pub fn print_rounds(comparison: &Comparison, config: &Config) -> Result<()> {
    if comparison.place == Place::OneCore {
        machine::stay_on_one_core()?;
    }
    let outcome = interleave(&comparison.contestants, config);
    println!("{}", outcome.foreign);
    for (index, row) in outcome.rows.iter().enumerate() {
        for round in &row.rounds {
            let numbers: Vec<String> = round.iter().map(f64::to_string).collect();
            println!("{index} {}", numbers.join(" "));
        }
    }
    Ok(())
}

fn parse(text: &str, contestants: &[Contestant]) -> Result<Outcome> {
    let mut outcome = Outcome::of(contestants);
    let mut lines = text.lines();
    outcome.foreign = lines.next().ok_or("no rounds came back")?.parse()?;
    for line in lines {
        let (index, numbers) = line.split_once(' ').ok_or("a round without numbers")?;
        let index: usize = index.parse()?;
        outcome.rows[index].rounds.push(parse_numbers(numbers)?);
    }
    Ok(outcome)
}

fn parse_numbers(text: &str) -> Result<Vec<f64>> {
    let numbers = text.split_whitespace().map(|number| Ok(number.parse()?));
    numbers.collect()
}

/// The contestants, each run of whom is in a process of its own.
fn sent_apart(comparison: &Comparison) -> Vec<Contestant> {
    let contestants = comparison.contestants.iter();
    let sent_apart = |contestant: &Contestant| {
        let (table, place) = (comparison.name.clone(), comparison.place);
        let (name, kind) = (contestant.name, contestant.kind);
        let run = move |config: &Config| {
            run_apart(&table, name, place, config).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        Contestant {
            name,
            kind,
            run: Box::new(run),
        }
    };
    contestants.map(sent_apart).collect()
}

fn run_apart(table: &str, contestant: &str, place: Place, config: &Config) -> Result<Vec<f64>> {
    let mut command = again(table, place, config)?;
    parse_numbers(&output_of(command.args(["--contestant", contestant]))?)
}

/// The other end of [`run_apart`]: one run of one contestant, in this process.
pub fn print_run(comparison: &Comparison, name: &str, config: &Config) -> Result<()> {
    let named = |contestant: &&Contestant| contestant.name == name;
    let contestant = comparison.contestants.iter().find(named);
    let contestant = contestant.ok_or_else(|| format!("there is no contestant {name}"))?;
    for number in (contestant.run)(config) {
        println!("{number}");
    }
    Ok(())
}

/// This program again, for one table.
fn again(table: &str, place: Place, config: &Config) -> Result<Command> {
    let program = match place {
        Place::Together | Place::OneCore => env::current_exe()?,
        Place::Apart => counting_program()?,
    };
    let mut command = Command::new(program);
    command.arg(table);
    command.args(["--workers", &config.workers.to_string()]);
    command.args(["--rounds", &config.rounds.to_string()]);
    if config.quick {
        command.arg("--quick");
    }
    Ok(command)
}

fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(output.status.to_string().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The one beside this program that counts allocations; this one if it was not built.
fn counting_program() -> Result<PathBuf> {
    let this = env::current_exe()?;
    let counting = this.with_file_name(format!("counting{}", env::consts::EXE_SUFFIX));
    Ok(if counting.is_file() { counting } else { this })
}

/// Builds the program that counts allocations, if cargo has started this one.
pub fn build_counting_program() -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else {
        return Ok(());
    };
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", "counting", "--manifest-path"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status()?;
    if !status.success() {
        return Err(format!("the counting program was not built: {status}").into());
    }
    Ok(())
}
