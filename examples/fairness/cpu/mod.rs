//! How the processor is shared between a tenant with short jobs and one with long ones, and how long the
//! short ones take:
//!
//! ```text
//! cargo run --release --example fairness -- --cpu
//! ```
//!
//! - The heavy tenant keeps jobs queued that take a hundred times as long as the light one's.
//! - The light tenant either keeps four jobs in the pool, so that it always has something queued, or
//!   comes and goes: one job, joined, a thought, the next one.
//! - What each gets is counted in slices of work, of which a light job is one and a heavy job a hundred:
//!   how much of it is done does not depend on who else is on the machine.
//! - The index is Jain's, `(Σx)² / (n·Σx²)`, of the slices of the two: 1 if they get the same, 1/2 if
//!   one gets all.
//! - Light jobs are timed from submit to end, so with nobody in their way they take one job's length.
//! - All figures are medians over the rounds.

mod chart;
mod party;
mod table;

use std::error::Error;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{Fairness, WorkerPool};

use self::party::Party;
use crate::burn::Burn;
use crate::summary::median;

type Failure = Box<dyn Error>;

pub(crate) use self::{chart::draw, table::print};

/// A heavy job is so many light ones.
const RATIO: u64 = 100;
/// Jobs that the heavy tenant keeps in the pool.
const BACKLOG: usize = 16;
/// And the light one, if it always has something queued.
const KEPT: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Regime {
    /// Without the heavy tenant.
    Alone,
    /// One lane for both: in order of arrival.
    Fifo,
    ByCount,
    ByCpuTime,
    /// With one heavy job at a time.
    Capped,
}

impl Regime {
    pub(crate) const ALL: [Self; 5] = [
        Self::Alone,
        Self::Fifo,
        Self::ByCount,
        Self::ByCpuTime,
        Self::Capped,
    ];

    fn fairness(self) -> Fairness {
        match self {
            Self::ByCpuTime | Self::Capped => Fairness::CpuTime,
            _ => Fairness::Jobs,
        }
    }
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alone => "light tenant alone",
            Self::Fifo => "FIFO",
            Self::ByCount => "by count",
            Self::ByCpuTime => "by CPU time",
            Self::Capped => "by CPU time, heavy max 1",
        })
    }
}

/// How the light tenant behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Keeps,
    Comes,
}

impl Manner {
    pub(crate) const BOTH: [Self; 2] = [Self::Keeps, Self::Comes];
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Keeps => "keeps 4 jobs",
            Self::Comes => "comes and goes",
        })
    }
}

pub(crate) struct Plan {
    pub(crate) workers: usize,
    /// A light job.
    pub(crate) job: Duration,
    pub(crate) think: Duration,
    pub(crate) window: Duration,
    pub(crate) rounds: usize,
}

/// What was measured in one window.
struct Window {
    regime: Regime,
    manner: Manner,
    /// Slices of the light and the heavy tenant.
    work: [f64; 2],
    /// Of light jobs, in seconds, in order.
    times: Vec<f64>,
}

impl Window {
    /// The light tenant's part of all that was done.
    fn share(&self) -> f64 {
        let [light, heavy] = self.work;
        light / (light + heavy)
    }

    fn index(&self) -> f64 {
        let [light, heavy] = self.work;
        (light + heavy).powi(2) / (2.0 * (light.powi(2) + heavy.powi(2)))
    }

    /// The value, in milliseconds, that is not exceeded by `share` of the times.
    fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.times.len() as f64).ceil() as usize;
        let time = self.times.get(rank.max(1) - 1);
        1e3 * time.copied().unwrap_or(f64::NAN)
    }
}

/// The medians of several windows.
pub(crate) struct Row {
    regime: Regime,
    manner: Manner,
    share: f64,
    index: f64,
    p50: f64,
    p99: f64,
    /// Light jobs in all windows.
    jobs: usize,
}

impl Row {
    fn of(windows: &[Window], regime: Regime, manner: Manner) -> Self {
        let of_row = |window: &&Window| (window.regime, window.manner) == (regime, manner);
        let rounds: Vec<_> = windows.iter().filter(of_row).collect();
        let all = |value: &dyn Fn(&Window) -> f64| {
            median(rounds.iter().map(|window| value(window)).collect())
        };
        Self {
            regime,
            manner,
            share: all(&Window::share),
            index: all(&Window::index),
            p50: all(&|window| window.quantile(0.50)),
            p99: all(&|window| window.quantile(0.99)),
            jobs: rounds.iter().map(|window| window.times.len()).sum(),
        }
    }
}

/// All regimes, beside one kind of light tenant and the other, once a round.
pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let slice = Burn::calibrated(plan.job, plan.workers);
    let cells = Manner::BOTH
        .into_iter()
        .flat_map(|manner| Regime::ALL.map(|regime| (regime, manner)));
    let mut windows = Vec::new();
    for round in 1..=plan.rounds {
        for (regime, manner) in cells.clone() {
            eprintln!("round {round}: {regime}, the light tenant {manner}");
            windows.push(plan.watch(slice, regime, manner)?);
        }
    }
    let row = |(regime, manner)| Row::of(&windows, regime, manner);
    Ok(cells.map(row).collect())
}

impl Plan {
    /// A window of time on a pool of its own.
    fn watch(&self, slice: Burn, regime: Regime, manner: Manner) -> Result<Window, Failure> {
        let builder = WorkerPool::builder().workers(self.workers).fair();
        let pool = builder.fairness(regime.fairness()).build()?;
        let heavy = match regime {
            Regime::Capped => pool.tenant("heavy").with_max_running(1),
            _ => pool.tenant("heavy"),
        };
        let light = match regime {
            Regime::Fifo => heavy.clone(),
            _ => pool.tenant("light"),
        };
        let heavy = Party::new(heavy, slice, RATIO);
        let light = Party::new(light, slice, 1);
        if regime != Regime::Alone {
            heavy.keep(BACKLOG);
        }
        if manner == Manner::Keeps {
            light.keep(KEPT);
        }
        // Long enough for some heavy jobs to have ended.
        self.pass(&light, manner, self.window / 5);
        let work = || [light.done(), heavy.done()];
        let (before, _) = (work(), light.take_times());
        self.pass(&light, manner, self.window);
        let (after, mut times) = (work(), light.take_times());
        pool.shutdown_now();
        times.sort_unstable_by(f64::total_cmp);
        Ok(Window {
            regime,
            manner,
            work: [0, 1].map(|party| (after[party] - before[party]) as f64),
            times,
        })
    }

    fn pass(&self, light: &std::sync::Arc<Party>, manner: Manner, time: Duration) {
        let begin = Instant::now();
        if manner == Manner::Keeps {
            return thread::sleep(time);
        }
        while begin.elapsed() < time {
            light.request();
            thread::sleep(self.think);
        }
    }
}
