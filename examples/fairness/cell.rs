//! One cell of the table: one regime beside one backlog, in one round.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{JobError, Tenant, Weight, WorkerPool};

use crate::burn::Burn;

type Failure = Box<dyn Error>;

/// One in so many jobs of the fixed work is light.
const LIGHT_SHARE: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Regime {
    Fifo,
    Fair,
    Weighted,
}

impl Regime {
    pub(crate) const ALL: [Self; 3] = [Self::Fifo, Self::Fair, Self::Weighted];

    /// The light tenant and the flood's.
    fn tenants(self, pool: &WorkerPool) -> (Tenant, Tenant) {
        let light = match self {
            // One lane for both: there is nothing to rotate, and arrival decides.
            Self::Fifo => pool.tenant("flood"),
            Self::Fair => pool.tenant("light"),
            Self::Weighted => pool.tenant("light").with_weight(Weight::new(3)),
        };
        (light, pool.tenant("flood"))
    }
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fifo => "FIFO",
            Self::Fair => "fair",
            Self::Weighted => "fair, light weight 3",
        })
    }
}

/// What all cells have in common.
pub(crate) struct Load {
    pub(crate) workers: usize,
    pub(crate) burn: Burn,
    pub(crate) think: Duration,
    pub(crate) window: Duration,
    pub(crate) requests: usize,
    pub(crate) work: u64,
}

/// What was measured.
pub(crate) struct Cell {
    pub(crate) round: usize,
    pub(crate) backlog: usize,
    pub(crate) regime: Regime,
    /// From submit to beginning, one a light job, in seconds.
    pub(crate) waits: Vec<f64>,
    /// Jobs a second.
    pub(crate) flood_rate: f64,
    /// Seconds for the fixed work.
    pub(crate) makespan: f64,
}

impl Load {
    pub(crate) fn measure(
        &self,
        round: usize,
        backlog: usize,
        regime: Regime,
    ) -> Result<Cell, Failure> {
        let (waits, flood_rate) = self.watch_window(backlog, regime)?;
        Ok(Cell {
            round,
            backlog,
            regime,
            waits,
            flood_rate,
            makespan: self.time_work(backlog, regime)?,
        })
    }

    fn pool(&self) -> Result<WorkerPool, Failure> {
        Ok(WorkerPool::builder().workers(self.workers).fair().build()?)
    }

    /// The light tenant's waits, and the flood's jobs a second meanwhile.
    fn watch_window(&self, backlog: usize, regime: Regime) -> Result<(Vec<f64>, f64), Failure> {
        let pool = self.pool()?;
        let (light, flood) = regime.tenants(&pool);
        let flood = Flood::start(flood, self.burn, backlog + self.workers, u64::MAX);
        thread::sleep(self.think);

        let mut waits = Vec::new();
        let begin = Instant::now();
        let done = flood.done.load(Ordering::Relaxed);
        while begin.elapsed() < self.window || waits.len() < self.requests {
            waits.push(self.request(&light)?.as_secs_f64());
            thread::sleep(self.think);
        }
        let done = flood.done.load(Ordering::Relaxed) - done;
        let flood_rate = done as f64 / begin.elapsed().as_secs_f64();

        pool.shutdown_now();
        Ok((waits, flood_rate))
    }

    /// One turn of the light tenant: how long its job has waited.
    fn request(&self, light: &Tenant) -> Result<Duration, JobError> {
        let burn = self.burn;
        let submitted = Instant::now();
        let job = light.submit(move || {
            let wait = submitted.elapsed();
            burn.run();
            wait
        });
        job.expect("the pool is open").join()
    }

    /// Seconds from the first submit to the end of the last job: what a regime that left a worker
    /// idle would take longer for.
    fn time_work(&self, backlog: usize, regime: Regime) -> Result<f64, Failure> {
        let pool = self.pool()?;
        let (light, flood) = regime.tenants(&pool);
        let light_jobs = self.work / LIGHT_SHARE;
        let flood_jobs = self.work - light_jobs;
        let at_once = flood_jobs.min((backlog + self.workers) as u64);
        let burn = self.burn;

        let begin = Instant::now();
        Flood::start(flood, burn, at_once as usize, flood_jobs - at_once);
        for _ in 0..light_jobs {
            light.execute(move || burn.run())?;
        }
        pool.wait_idle();
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// Jobs of which each submits its successor, as long as there are any left.
struct Flood {
    tenant: Tenant,
    burn: Burn,
    done: AtomicU64,
    left: AtomicU64,
}

impl Flood {
    /// Queues `at_once` jobs, to be followed by `left` more.
    fn start(tenant: Tenant, burn: Burn, at_once: usize, left: u64) -> Arc<Self> {
        let flood = Arc::new(Self {
            tenant,
            burn,
            done: AtomicU64::new(0),
            left: AtomicU64::new(left),
        });
        (0..at_once).for_each(|_| flood.submit());
        flood
    }

    fn submit(self: &Arc<Self>) {
        let flood = Arc::clone(self);
        // Refused once the window is over and the pool closed: that is how a flood ends.
        let _ = self.tenant.execute(move || flood.step());
    }

    fn step(self: &Arc<Self>) {
        self.burn.run();
        self.done.fetch_add(1, Ordering::Relaxed);
        let one_less = |left: u64| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
        {
            self.submit();
        }
    }
}
