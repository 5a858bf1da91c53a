//! What a job costs as submitting threads and workers become more, on the cores there are.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::chart;
use crate::loads::{from_producers, with_pool};
use crate::measure::{Comparison, Config, Contestant, Countdown, Place, median, nanos_each};
use crate::pools::{LeastBusy, Ours, Pool, Rayon, RoundRobin};
use crate::summary::Made;
use crate::table::{Metric, columns_rule, conditions, figure};

/// How many threads submit, and how many run jobs.
pub const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// One for each number of submitting threads and of workers.
pub fn comparisons() -> Vec<Comparison> {
    let pairs = THREADS.into_iter().flat_map(|w| THREADS.map(|s| (s, w)));
    pairs.map(|(s, w)| comparison(s, w)).collect()
}

fn name(submitters: usize, workers: usize) -> String {
    format!("scale-{submitters}-{workers}")
}

fn comparison(submitters: usize, workers: usize) -> Comparison {
    const METRICS: &[Metric] = &[Metric::new("ns a job", 0)];
    Comparison {
        name: name(submitters, workers),
        title: format!("scale: submitting threads {submitters}, workers {workers}"),
        metrics: METRICS,
        contestants: vec![
            contestant::<Rayon>(submitters, workers),
            contestant::<Ours<RoundRobin>>(submitters, workers),
            contestant::<Ours<LeastBusy>>(submitters, workers),
        ],
        place: Place::Together,
    }
}

fn contestant<P: Pool>(submitters: usize, workers: usize) -> Contestant {
    Contestant {
        name: P::NAME,
        kind: P::KIND,
        run: Box::new(move |config| flood::<P>(config, submitters, workers)),
    }
}

fn flood<P: Pool>(config: &Config, submitters: usize, workers: usize) -> Vec<f64> {
    let each = config.sized(400_000) / submitters;
    with_pool(workers, |pool: &P| {
        let done = Countdown::leaked(each * submitters);
        let time = from_producers(submitters, done, |_| {
            for _ in 0..each {
                pool.execute(|| done.hit());
            }
        });
        vec![nanos_each(time, each * submitters)]
    })
}

/// One pool's medians with so many workers: one for each number of submitting threads.
pub struct Line {
    /// The pool.
    pub name: &'static str,
    /// Its threads.
    pub workers: usize,
    /// Nanoseconds a job, in the order of [`THREADS`].
    pub nanos: Vec<f64>,
}

/// Prints the table, and draws it if it is told where. Nothing if it was not measured as a whole.
pub fn print(made: &[Made], svg: Option<&Path>, config: &Config) -> Result<()> {
    let Some(lines) = lines(made) else {
        return Ok(());
    };
    let foreign = made.iter().filter(|made| is_ours(made));
    let foreign = foreign.map(|made| made.outcome.foreign);
    print_table(&lines, foreign.fold(f64::NEG_INFINITY, f64::max), config);
    if let Some(path) = svg {
        fs::write(path, chart::draw(&lines)?)?;
        println!("The picture is in {}.\n", path.display());
    }
    Ok(())
}

/// Whether a table is one of these.
pub fn is_ours(made: &Made) -> bool {
    made.comparison.name.starts_with("scale-")
}

fn lines(made: &[Made]) -> Option<Vec<Line>> {
    let find = |name: String| made.iter().find(|made| made.comparison.name == name);
    let mut lines = Vec::new();
    for workers in THREADS {
        let outcomes = THREADS.map(|s| Some(&find(name(s, workers))?.outcome));
        let outcomes: Vec<_> = outcomes.into_iter().collect::<Option<_>>()?;
        for (index, row) in outcomes[0].rows.iter().enumerate() {
            let nanos = outcomes.iter().map(|o| median(&o.rows[index].metric(0)));
            lines.push(Line {
                name: row.name,
                workers,
                nanos: nanos.collect(),
            });
        }
    }
    Some(lines)
}

fn print_table(lines: &[Line], foreign: f64, config: &Config) {
    println!("### scale: ns a job, by submitting threads, workers and pool\n");
    let conditions = conditions(Place::Together.cores(), foreign, config);
    // The number of workers is what varies here.
    let conditions = conditions
        .split_once(" workers on ")
        .map_or("", |(_, rest)| rest);
    println!("On {conditions}\n");
    let headings = THREADS.map(|submitters| format!(" {submitters} |"));
    println!("| workers, pool |{}", headings.concat());
    println!("{}", columns_rule(THREADS.len()));
    for line in lines {
        let cells = line.nanos.iter().map(|&nanos| figure(nanos, 0));
        let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
        println!("| {}, {} |{cells}", line.workers, line.name);
    }
    println!();
}
