//! What a pool did in the last second: the difference of two looks at it.

use std::collections::VecDeque;
use std::time::Duration;

use fairlane::{PoolStats, SlotStats, TenantStats};

const WINDOW: Duration = Duration::from_secs(1);

/// The looks of the last second, and the last one before.
#[derive(Default)]
pub(crate) struct History(VecDeque<PoolStats>);

/// The latest look, and what was done since the earliest one.
pub(crate) struct Recent<'a> {
    pub(crate) pool: &'a PoolStats,
    pub(crate) uptime: Duration,
    /// Jobs a second.
    pub(crate) rate: f64,
    pub(crate) slots: Vec<Slot<'a>>,
    pub(crate) tenants: Vec<Tenant<'a>>,
}

pub(crate) struct Slot<'a> {
    pub(crate) stats: &'a SlotStats,
    /// Which part of the time it ran jobs.
    pub(crate) busy: f64,
}

pub(crate) struct Tenant<'a> {
    pub(crate) stats: &'a TenantStats,
    /// Jobs a second.
    pub(crate) rate: f64,
    /// Its part of the jobs; `None` if there were none.
    pub(crate) share: Option<f64>,
    /// Its weight's part among those who have something queued; `None` if it has not.
    pub(crate) due: Option<f64>,
}

impl History {
    pub(crate) fn add(&mut self, stats: PoolStats) -> Recent<'_> {
        let begin = uptime(&stats).saturating_sub(WINDOW);
        while self.0.get(1).is_some_and(|next| uptime(next) <= begin) {
            self.0.pop_front();
        }
        self.0.push_back(stats);
        let (earliest, latest) = (self.0.front(), self.0.back());
        let (earliest, latest) = earliest.zip(latest).expect("one has just been added");
        Recent::between(earliest, latest)
    }
}

fn uptime(stats: &PoolStats) -> Duration {
    stats.uptime.expect("the pool measures times")
}

impl<'a> Recent<'a> {
    fn between(earliest: &'a PoolStats, pool: &'a PoolStats) -> Self {
        let time = uptime(pool) - uptime(earliest);
        let rate = |jobs| jobs as f64 / time.as_secs_f64().max(1e-9);
        let busy = pool.busy_shares(Some(earliest));
        let slots = pool.slots.iter().zip(busy);

        let before = |tenant: &TenantStats| {
            let earlier = earliest.tenants.iter().find(|t| t.name == tenant.name);
            earlier.map_or(0, |earlier| earlier.completed)
        };
        let jobs = |tenant: &TenantStats| tenant.completed.saturating_sub(before(tenant));
        let all: u64 = pool.tenants.iter().map(jobs).sum();
        let waiting = || pool.tenants.iter().filter(|tenant| tenant.queued > 0);
        let weights: f64 = waiting().map(weight).sum();
        let tenants = pool.tenants.iter().map(|stats| Tenant {
            stats,
            rate: rate(jobs(stats)),
            share: (all > 0).then(|| jobs(stats) as f64 / all as f64),
            due: (stats.queued > 0).then(|| weight(stats) / weights),
        });

        Recent {
            pool,
            uptime: uptime(pool),
            rate: rate(pool.completed - earliest.completed),
            slots: slots.map(|(stats, busy)| Slot { stats, busy }).collect(),
            tenants: tenants.collect(),
        }
    }
}

fn weight(tenant: &TenantStats) -> f64 {
    f64::from(tenant.weight.get())
}
