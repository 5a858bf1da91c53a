//! Outcomes as Markdown.

use std::fmt::Write;

use crate::measure::{Comparison, Config, Kind, Outcome, Row, median, ratio};

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
pub fn print(comparison: &Comparison, outcome: &Outcome, config: &Config) {
    let metrics = comparison.metrics;
    let conditions = conditions(comparison.place.cores(), outcome.foreign, config);
    println!("### {}\n\n{conditions}\n", comparison.title);
    println!("{}\n{}", heading(metrics, outcome), rule(metrics, outcome));
    for row in &outcome.rows {
        println!("{}", body(row, metrics, outcome));
    }
    println!();
}

/// Under which circumstances figures came about, and whether they may be used.
pub fn conditions(cores: usize, foreign: f64, config: &Config) -> String {
    let mut text = format!(
        "{} workers on {cores} {}, {} rounds, foreign CPU {foreign:.1} % of one core.",
        config.workers,
        if cores == 1 { "core" } else { "cores" },
        config.rounds,
    );
    if !Outcome::is_usable_with(foreign) {
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
    columns_rule(metrics.iter().enumerate().map(columns).sum())
}

/// The line below a heading, for names and so many columns of numbers.
pub fn columns_rule(columns: usize) -> String {
    format!("|---|{}", "---:|".repeat(columns))
}

fn body(row: &Row, metrics: &[Metric], outcome: &Outcome) -> String {
    let mut line = format!("| {} |", name(row));
    for (index, metric) in metrics.iter().enumerate() {
        let values = row.metric(index);
        line += &spread(&values, metric.digits);
        for (other, _) in yardsticks(index, metric, outcome) {
            let times = times(ratio(&values, &other.metric(index)));
            let _ = write!(line, " {times} |");
        }
    }
    line
}

/// Ours stand out.
pub fn name(row: &Row) -> String {
    match row.kind {
        Kind::Ours => format!("**{}**", row.name),
        Kind::Peer | Kind::Reference => row.name.to_owned(),
    }
}

/// The rows that a metric is given in multiples of, with what to call them: the first row, and the
/// best peer unless there is but one.
fn yardsticks<'a>(
    index: usize,
    metric: &Metric,
    outcome: &'a Outcome,
) -> impl Iterator<Item = (&'a Row, &'static str)> {
    let peers = outcome.rows.iter().filter(|row| row.kind == Kind::Peer);
    let best = best_peer(index, outcome).filter(|_| peers.count() > 1);
    let all = [outcome.rows.first(), best].into_iter();
    let named = all.zip(["", "the best peer, "]);
    let ratios = metric.ratios;
    let wanted = named.filter(move |_| ratios);
    wanted.filter_map(|(row, what)| Some((row?, what)))
}

/// The peer whose median is the least.
pub fn best_peer(index: usize, outcome: &Outcome) -> Option<&Row> {
    let peers = outcome.rows.iter().filter(|row| row.kind == Kind::Peer);
    peers.min_by(|a, b| {
        let [a, b] = [a, b].map(|row| median(&row.metric(index)));
        a.total_cmp(&b)
    })
}

/// A dash where nothing was measured.
fn spread(values: &[f64], digits: usize) -> String {
    if values.iter().any(|value| value.is_nan()) {
        return String::from(" – | – |");
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [median, least, most] = [median(values), least, most].map(|value| figure(value, digits));
    format!(" {median} | {least} – {most} |")
}

/// With commas between thousands; a dash for what was not measured.
pub fn figure(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return String::from("–");
    }
    let text = format!("{value:.digits$}");
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (i, digit) in text.char_indices() {
        let ahead = whole.saturating_sub(i);
        if ahead > 0 && ahead % 3 == 0 && grouped.ends_with(|c: char| c.is_ascii_digit()) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// How many times something else.
pub fn times(ratio: f64) -> String {
    if ratio.is_nan() {
        String::from("–")
    } else if ratio < 0.1 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    }
}
