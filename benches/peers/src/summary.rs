//! Many tables in one, with medians alone: what a README has room for.

use crate::gate;
use crate::measure::{Comparison, Config, Kind, Outcome, Row, median, ratio};
use crate::table::{best_peer, columns_rule, conditions, figure, name, times};

/// A table that was made.
pub struct Made {
    /// What was compared.
    pub comparison: Comparison,
    /// What came of it.
    pub outcome: Outcome,
}

struct Summary {
    title: &'static str,
    columns: Vec<Column>,
}

/// One metric of one table.
struct Column {
    heading: String,
    table: String,
    metric: usize,
}

impl Column {
    fn new(heading: impl Into<String>, table: impl Into<String>, metric: usize) -> Column {
        Column {
            heading: heading.into(),
            table: table.into(),
            metric,
        }
    }
}

fn summaries() -> [Summary; 5] {
    let of = |title, columns| Summary { title, columns };
    let load = |letter: &str| Column::new(letter, letter, 0);
    let one_core = |letter: &str| Column::new(letter, format!("one-core-{letter}"), 0);
    let cases = gate::PRODUCERS
        .into_iter()
        .flat_map(|producers| gate::TENANTS.map(|tenants| (producers, tenants)));
    let gated = |(producers, tenants)| {
        let heading = format!("{producers} × {}", figure(tenants as f64, 0));
        Column::new(heading, gate::name(producers, tenants), 0)
    };
    [
        of(
            "Without a limit: ns a job; d: ns a round trip, p50; e: makespan / ideal",
            ["a", "b", "c", "d", "e", "f"].map(load).into(),
        ),
        of(
            "With a limit: ns a job; producers × tenants",
            cases.map(gated).collect(),
        ),
        of(
            "On one core: ns a job; d: ns a round trip, p50",
            ["a", "c", "d"].map(one_core).into(),
        ),
        of(
            "Memory and idleness",
            vec![
                Column::new("bytes a queued job", "g", 0),
                Column::new("allocations an `execute`", "g", 2),
                Column::new("allocations a `submit`", "g", 3),
                Column::new("CPU of 8 idle workers in 2 s, ms", "h", 0),
                Column::new("wake, p50, ns", "h", 1),
            ],
        ),
        of(
            "The queue: ns a pop and a push, with so many tenants",
            vec![
                Column::new("pop, 1", "fair-pop-1", 1),
                Column::new("1,000", "fair-pop-1000", 1),
                Column::new("100,000", "fair-pop-100000", 1),
                Column::new("push, 1", "fair-pop-1", 0),
                Column::new("1,000", "fair-pop-1000", 0),
                Column::new("100,000", "fair-pop-100000", 0),
                Column::new("MB after a million tenants", "fair-memory", 0),
            ],
        ),
    ]
}

/// Prints every summary of which there are two tables at least.
pub fn print_all(made: &[Made], config: &Config) {
    for summary in summaries() {
        let columns = summary.columns.iter();
        let columns = columns.filter_map(|column| Some((column, find(made, &column.table)?)));
        let columns: Vec<_> = columns.collect();
        if columns.len() > 1 {
            print(summary.title, &columns, config);
        }
    }
}

fn find<'a>(made: &'a [Made], table: &str) -> Option<&'a Made> {
    made.iter().find(|made| made.comparison.name == table)
}

fn print(title: &str, columns: &[(&Column, &Made)], config: &Config) {
    let cores = columns[0].1.comparison.place.cores();
    let foreign = columns.iter().map(|(_, made)| made.outcome.foreign);
    let foreign = foreign.fold(f64::NEG_INFINITY, f64::max);
    let conditions = conditions(cores, foreign, config);
    println!("### In short. {title}\n\n{conditions}\n");
    let headings = columns.iter().map(|(column, _)| column.heading.clone());
    println!("{}\n{}", line("", headings), columns_rule(columns.len()));
    for row in rows(columns) {
        print_row(row, columns);
    }
    println!();
}

/// Every contestant once, in order of appearance.
fn rows<'a>(columns: &[(&Column, &'a Made)]) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = Vec::new();
    for row in columns.iter().flat_map(|(_, made)| &made.outcome.rows) {
        if rows.iter().all(|seen| seen.name != row.name) {
            rows.push(row);
        }
    }
    rows
}

/// Medians; below ours, what they are in multiples of the first row and of the best peer.
fn print_row(row: &Row, columns: &[(&Column, &Made)]) {
    let medians = columns.iter().map(|(column, made)| {
        let digits = made.comparison.metrics[column.metric].digits;
        let values = values_of(row, column, made);
        values.map_or("".into(), |values| figure(median(&values), digits))
    });
    println!("{}", line(&name(row), medians));
    let has_ratios = |(column, made): &(&Column, &Made)| {
        let metric = made.comparison.metrics[column.metric];
        metric.ratios
    };
    if row.kind == Kind::Ours && columns.iter().all(has_ratios) {
        let first = columns[0].1.outcome.rows[0].name;
        print_ratios(row, columns, &format!("… × {first}"), first_row);
        print_ratios(row, columns, "… × the best peer", best_peer);
    }
}

fn first_row(_metric: usize, outcome: &Outcome) -> Option<&Row> {
    outcome.rows.first()
}

fn print_ratios(
    row: &Row,
    columns: &[(&Column, &Made)],
    heading: &str,
    yardstick: fn(usize, &Outcome) -> Option<&Row>,
) {
    let ratios = columns.iter().map(|(column, made)| {
        let values = values_of(row, column, made);
        let both = values.zip(yardstick(column.metric, &made.outcome));
        both.map_or("".into(), |(values, other)| {
            times(ratio(&values, &other.metric(column.metric)))
        })
    });
    println!("{}", line(heading, ratios));
}

/// What a contestant got in a column; `None` if it did not take part.
fn values_of(row: &Row, column: &Column, made: &Made) -> Option<Vec<f64>> {
    let mut rows = made.outcome.rows.iter();
    let same = rows.find(|other| other.name == row.name)?;
    Some(same.metric(column.metric))
}

fn line(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    format!("| {first} |{cells}")
}
