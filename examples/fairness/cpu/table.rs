//! The rows in Markdown.

use super::{Manner, Regime, Row};
use crate::table::{figure, grouped};

pub(crate) fn print(rows: &[Row]) {
    println!(
        "| the light tenant | regime                   | its CPU | heavy CPU | Jain's index | light jobs | p50, ms | p99, ms | of alone |"
    );
    println!(
        "|------------------|--------------------------|--------:|----------:|-------------:|-----------:|--------:|--------:|---------:|"
    );
    for row in rows {
        let alone = rows
            .iter()
            .find(|other| (other.regime, other.manner) == (Regime::Alone, row.manner));
        let ratio = alone.map_or(f64::NAN, |alone| row.p99 / alone.p99);
        println!(
            "| {:<16} | {:<24} | {:>5.1} % | {:>7.1} % | {:>12} | {:>10} | {:>7} | {:>7} | {:>8} |",
            row.manner,
            row.regime,
            100.0 * row.share,
            100.0 * (1.0 - row.share),
            index(row),
            grouped(row.jobs as u64),
            figure(row.p50),
            figure(row.p99),
            format!("{ratio:.1}×"),
        );
    }
}

/// Two that want all they can get: only then does the index say something.
fn index(row: &Row) -> String {
    if row.manner == Manner::Keeps && row.regime != Regime::Alone {
        format!("{:.4}", row.index)
    } else {
        "–".into()
    }
}
