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
}

/// What was measured.
pub(crate) struct Row {
    pub(crate) regime: Regime,
    pub(crate) manner: Manner,
    /// Slices of the light and the heavy tenant.
    pub(crate) work: [u64; 2],
    /// Of light jobs, in seconds, in order.
    pub(crate) times: Vec<f64>,
}

impl Row {
    /// The light tenant's part of all that was done.
    pub(crate) fn share(&self) -> f64 {
        let [light, heavy] = self.work.map(|slices| slices as f64);
        light / (light + heavy)
    }

    pub(crate) fn index(&self) -> f64 {
        let [light, heavy] = self.work.map(|slices| slices as f64);
        (light + heavy).powi(2) / (2.0 * (light.powi(2) + heavy.powi(2)))
    }

    /// In milliseconds, the value that is not exceeded by `share` of the times.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.times.len() as f64).ceil() as usize;
        let time = self.times.get(rank.max(1) - 1);
        1e3 * time.copied().unwrap_or(f64::NAN)
    }
}

/// All regimes, first with one kind of light tenant and then with the other.
pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let slice = Burn::calibrated(plan.job, plan.workers);
    let mut rows = Vec::new();
    for manner in Manner::BOTH {
        for regime in Regime::ALL {
            eprintln!("{regime}, the light tenant {manner}");
            rows.push(plan.watch(slice, regime, manner)?);
        }
    }
    Ok(rows)
}

impl Plan {
    /// A window of time on a pool of its own.
    fn watch(&self, slice: Burn, regime: Regime, manner: Manner) -> Result<Row, Failure> {
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
        Ok(Row {
            regime,
            manner,
            work: [after[0] - before[0], after[1] - before[1]],
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
