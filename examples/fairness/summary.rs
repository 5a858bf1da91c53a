//! Many rounds of a cell in a few numbers.

use crate::cell::{Cell, Regime};

/// A row of the table.
pub(crate) struct Summary {
    pub(crate) regime: Regime,
    pub(crate) backlog: usize,
    /// Light jobs in all rounds.
    pub(crate) requests: usize,
    /// Waits in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Jobs a second, and in relation to FIFO.
    pub(crate) flood_rate: f64,
    pub(crate) flood_ratio: f64,
    /// Seconds, and in relation to FIFO.
    pub(crate) makespan: f64,
    pub(crate) makespan_ratio: f64,
}

impl Summary {
    /// One row for each regime and backlog, in the order of a table.
    pub(crate) fn of_all(cells: &[Cell]) -> Vec<Self> {
        let mut backlogs: Vec<_> = cells.iter().map(|cell| cell.backlog).collect();
        backlogs.sort_unstable();
        backlogs.dedup();
        let rows = Regime::ALL.into_iter().flat_map(|regime| {
            let row = move |&backlog: &usize| Self::of(cells, regime, backlog);
            backlogs.iter().map(row).collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn of(cells: &[Cell], regime: Regime, backlog: usize) -> Self {
        let of = |regime| move |cell: &&Cell| (cell.regime, cell.backlog) == (regime, backlog);
        let rounds: Vec<_> = cells.iter().filter(of(regime)).collect();
        let fifo: Vec<_> = cells.iter().filter(of(Regime::Fifo)).collect();
        let all =
            |value: &dyn Fn(&Cell) -> f64| median(rounds.iter().map(|cell| value(cell)).collect());
        let ratio = |value: fn(&Cell) -> f64| {
            all(&|cell| {
                let same_round = fifo.iter().find(|fifo| fifo.round == cell.round);
                same_round.map_or(f64::NAN, |fifo| value(cell) / value(fifo))
            })
        };
        let quantile = |share: f64| 1e3 * all(&|cell| rank(&cell.waits, share));
        Self {
            regime,
            backlog,
            requests: rounds.iter().map(|cell| cell.waits.len()).sum(),
            p50: quantile(0.50),
            p99: quantile(0.99),
            max: 1e3 * longest(&rounds),
            flood_rate: all(&|cell| cell.flood_rate),
            flood_ratio: ratio(|cell| cell.flood_rate),
            makespan: all(&|cell| cell.makespan),
            makespan_ratio: ratio(|cell| cell.makespan),
        }
    }
}

fn longest(rounds: &[&Cell]) -> f64 {
    let waits = rounds.iter().flat_map(|cell| &cell.waits);
    waits.copied().fold(0.0, f64::max)
}

/// The least value that is not exceeded by `share` of the values (nearest rank).
fn rank(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

pub(crate) fn median(values: Vec<f64>) -> f64 {
    let mut sorted = values;
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}
