//! Outcomes as Markdown.

use std::fmt::Write;

use crate::measure::{Config, Kind, Outcome, Row, cores, median, ratio};

/// More than this of one core used by others, and a table says that it is worth nothing.
const FOREIGN_LIMIT: f64 = 5.0;

/// One number that a load yields; less is better in all of them.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The heading, with the unit.
    pub name: &'static str,
    /// Digits after the point.
    pub digits: usize,
    /// Whether ratios tell anything; they do not where figures are near 0.
    pub ratios: bool,
}

impl Metric {
    /// A time or a size.
    pub const fn new(name: &'static str, digits: usize) -> Metric {
        Metric {
            name,
            digits,
            ratios: true,
        }
    }

    /// As [`new`](Metric::new), without ratios.
    pub const fn plain(name: &'static str, digits: usize) -> Metric {
        Metric {
            name,
            digits,
            ratios: false,
        }
    }
}

/// Prints a table: for each metric its median, the least and the greatest value, and how many times
/// that of the first row and of the best peer it is.
pub fn print(title: &str, metrics: &[Metric], outcome: &Outcome, config: &Config) {
    println!("### {title}\n\n{}\n", conditions(outcome, config));
    println!("{}\n{}", heading(metrics, outcome), rule(metrics, outcome));
    for row in &outcome.rows {
        println!("{}", body(row, metrics, outcome));
    }
    println!();
}

/// Under which circumstances the table came about, and whether it may be used.
fn conditions(outcome: &Outcome, config: &Config) -> String {
    let mut text = format!(
        "{} workers on {} cores, {} rounds, foreign CPU {:.1} % of one core.",
        config.workers,
        cores(),
        config.rounds,
        outcome.foreign
    );
    if outcome.foreign > FOREIGN_LIMIT {
        text += " **Discard this table: others were using the machine.**";
    }
    if config.quick {
        text += " **A smoke run: its figures mean nothing.**";
    }
    text
}

fn heading(metrics: &[Metric], outcome: &Outcome) -> String {
    let mut line = String::from("| |");
    for (index, metric) in metrics.iter().enumerate() {
        let _ = write!(line, " {} | min – max |", metric.name);
        for (row, what) in yardsticks(index, metric, outcome) {
            let _ = write!(line, " × {what}{} |", row.name);
        }
    }
    line
}

fn rule(metrics: &[Metric], outcome: &Outcome) -> String {
    let columns = |(index, metric)| 2 + yardsticks(index, metric, outcome).count();
    let columns: usize = metrics.iter().enumerate().map(columns).sum();
    format!("|---|{}", "---:|".repeat(columns))
}

fn body(row: &Row, metrics: &[Metric], outcome: &Outcome) -> String {
    let mut line = match row.kind {
        Kind::Ours => format!("| **{}** |", row.name),
        Kind::Peer | Kind::Reference => format!("| {} |", row.name),
    };
    for (index, metric) in metrics.iter().enumerate() {
        let values = row.metric(index);
        line += &spread(&values, metric.digits);
        for (other, _) in yardsticks(index, metric, outcome) {
            line += &times(ratio(&values, &other.metric(index)));
        }
    }
    line
}

/// The rows that a metric is given in multiples of, with what to call them: the first row, and the
/// best peer unless there is but one.
fn yardsticks<'a>(
    index: usize,
    metric: &Metric,
    outcome: &'a Outcome,
) -> impl Iterator<Item = (&'a Row, &'static str)> {
    let peers = outcome.rows.iter().filter(|row| row.kind == Kind::Peer);
    let best = peers.clone().min_by(|a, b| {
        let [a, b] = [a, b].map(|row| median(&row.metric(index)));
        a.total_cmp(&b)
    });
    let best = best.filter(|_| peers.count() > 1);
    let all = [outcome.rows.first(), best].into_iter();
    let named = all.zip(["", "the best peer, "]);
    let ratios = metric.ratios;
    let wanted = named.filter(move |_| ratios);
    wanted.filter_map(|(row, what)| Some((row?, what)))
}

/// A dash where nothing was measured.
fn spread(values: &[f64], digits: usize) -> String {
    if values.iter().any(|value| value.is_nan()) {
        return String::from(" – | – |");
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let median = median(values);
    format!(" {median:.digits$} | {least:.digits$} – {most:.digits$} |")
}

fn times(ratio: f64) -> String {
    if ratio < 0.1 {
        format!(" {ratio:.4} |")
    } else {
        format!(" {ratio:.2} |")
    }
}
