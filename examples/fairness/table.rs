//! The summaries in Markdown.

use crate::cell::Regime;
use crate::summary::Summary;

/// What fairness may cost the flood, as a share of its throughput in order of arrival.
const TOLERANCE: f64 = 0.02;

pub(crate) fn print(rows: &[Summary]) {
    println!(
        "| {:<20} | backlog | light jobs | wait p50, ms | p99, ms | max, ms | flood, jobs/s | of FIFO | makespan, s | of FIFO |",
        "regime"
    );
    println!(
        "|{:-<22}|--------:|-----------:|-------------:|--------:|--------:|--------------:|--------:|------------:|--------:|",
        ""
    );
    rows.iter().for_each(print_row);
    println!();
    print_verdict(rows);
}

fn print_row(row: &Summary) {
    println!(
        "| {:<20} | {:>7} | {:>10} | {:>12} | {:>7} | {:>7} | {:>13} | {:>7.3} | {:>11.3} | {:>7.3} |",
        row.regime,
        grouped(row.backlog as u64),
        grouped(row.requests as u64),
        figure(row.p50),
        figure(row.p99),
        figure(row.max),
        grouped(row.flood_rate.round() as u64),
        row.flood_ratio,
        row.makespan,
        row.makespan_ratio,
    );
}

/// Whether the flood pays more than the turns that the light tenant takes.
fn print_verdict(rows: &[Summary]) {
    let fair = rows.iter().filter(|row| row.regime != Regime::Fifo);
    let Some(worst) = fair.min_by(|a, b| a.flood_ratio.total_cmp(&b.flood_ratio)) else {
        return;
    };
    let kept = worst.flood_ratio >= 1.0 - TOLERANCE;
    println!(
        "The flood's throughput, relative to FIFO, is {:.3} at worst ({}, backlog {}): {} {:.0} %.",
        worst.flood_ratio,
        worst.regime,
        grouped(worst.backlog as u64),
        if kept { "within" } else { "NOT within" },
        100.0 * TOLERANCE,
    );
}

/// Two decimals below ten, one below a hundred, none above.
pub(crate) fn figure(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => grouped(value.round() as u64),
    }
}

/// With a comma before each third digit from the right.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
