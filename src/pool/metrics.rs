//! The pool's numbers for the `metrics` facade.

use std::collections::BTreeSet;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};

use super::WorkerPool;
use super::stats::{PoolStats, SlotStats, TenantStats};
use crate::sync::Mutex;

/// The tenants whose gauges stand at something else than zero.
#[derive(Default)]
pub(super) struct Published(Mutex<BTreeSet<String>>);

impl WorkerPool {
    /// Hands the numbers of [`stats`](WorkerPool::stats) to the recorder of the `metrics` facade. Call
    /// it at the rate at which they are to be seen; jobs themselves cost nothing for it.
    ///
    /// All metrics have a label `pool` with the pool's [`name`](crate::PoolBuilder::name): pools that
    /// publish into one recorder need different ones. A label `tenant` makes a series for each tenant
    /// there ever was, which recorders keep.
    ///
    /// | kind | name | further labels |
    /// |---|---|---|
    /// | counter | `fairlane_jobs_submitted_total` | |
    /// | counter | `fairlane_jobs_settled_total` | `outcome`: `completed`, `panicked`, `cancelled`, `expired`, `discarded` |
    /// | gauge | `fairlane_workers`, `fairlane_jobs_queued`, `fairlane_jobs_running` | |
    /// | gauge | `fairlane_slot_jobs_pending` | `slot` |
    /// | gauge | `fairlane_slot_busy_seconds`, with [`timings`](crate::PoolBuilder::timings) | `slot` |
    /// | counter | `fairlane_slot_jobs_completed_total`, `fairlane_slot_jobs_taken_total`, `fairlane_slot_restarts_total` | `slot` |
    /// | gauge | `fairlane_tenant_jobs_queued`, `fairlane_tenant_jobs_running`, with a limit | `tenant` |
    /// | histogram | `fairlane_job_wait_seconds`, `fairlane_job_run_seconds`, with timings | `tenant` |
    ///
    /// The histograms are recorded as jobs end, by the worker, without a call of this. A tenant that
    /// is forgotten has its gauges set to zero.
    ///
    /// # Panics
    /// If the recorder does. In a histogram of a job, that is swallowed.
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn publish_metrics(&self) {
        describe();
        let (pool, stats) = (self.core.settings.name.as_str(), self.stats());
        publish_jobs(pool, &stats);
        stats.slots.iter().for_each(|slot| publish_slot(pool, slot));
        stats
            .tenants
            .iter()
            .for_each(|tenant| publish_tenant(pool, tenant));
        // A forked child lists no tenants, and the lock may be held there for ever.
        if !self.core.is_forked() {
            self.core.published.forget_all_but(pool, &stats.tenants);
        }
    }
}

impl Published {
    /// Sets the gauges of tenants to zero that were there the last time.
    fn forget_all_but(&self, pool: &str, live: &[TenantStats]) {
        let now = live.iter().map(|tenant| tenant.name.clone()).collect();
        let before = std::mem::replace(&mut *self.0.lock(), now);
        let is_gone = |name: &String| live.iter().all(|tenant| tenant.name != *name);
        for name in before.into_iter().filter(is_gone) {
            let tenant = TenantStats {
                name,
                ..TenantStats::default()
            };
            publish_tenant(pool, &tenant);
        }
    }
}

fn publish_jobs(pool: &str, stats: &PoolStats) {
    let pool = [("pool", pool.to_owned())];
    counter!("fairlane_jobs_submitted_total", &pool).absolute(stats.submitted);
    let outcomes = [
        ("completed", stats.completed),
        ("panicked", stats.panicked),
        ("cancelled", stats.cancelled),
        ("expired", stats.expired),
        ("discarded", stats.discarded),
    ];
    for (outcome, count) in outcomes {
        let labels = [pool[0].clone(), ("outcome", outcome.to_owned())];
        counter!("fairlane_jobs_settled_total", &labels).absolute(count);
    }
    gauge!("fairlane_workers", &pool).set(stats.workers as f64);
    gauge!("fairlane_jobs_queued", &pool).set(stats.queued as f64);
    gauge!("fairlane_jobs_running", &pool).set(stats.running as f64);
}

fn publish_slot(pool: &str, slot: &SlotStats) {
    let labels = [("pool", pool.to_owned()), ("slot", slot.name.clone())];
    gauge!("fairlane_slot_jobs_pending", &labels).set(slot.pending as f64);
    counter!("fairlane_slot_jobs_completed_total", &labels).absolute(slot.completed);
    counter!("fairlane_slot_jobs_taken_total", &labels).absolute(slot.taken);
    counter!("fairlane_slot_restarts_total", &labels).absolute(slot.restarts);
    if let Some(busy) = slot.busy {
        gauge!("fairlane_slot_busy_seconds", &labels).set(busy.as_secs_f64());
    }
}

fn publish_tenant(pool: &str, tenant: &TenantStats) {
    let labels = [("pool", pool.to_owned()), ("tenant", tenant.name.clone())];
    gauge!("fairlane_tenant_jobs_queued", &labels).set(tenant.queued as f64);
    gauge!("fairlane_tenant_jobs_running", &labels).set(tenant.running as f64);
}

fn describe() {
    let counters = [
        ("fairlane_jobs_submitted_total", "Jobs accepted so far."),
        (
            "fairlane_jobs_settled_total",
            "Jobs settled so far, by outcome.",
        ),
        (
            "fairlane_slot_jobs_completed_total",
            "Jobs counted at the slot that returned.",
        ),
        (
            "fairlane_slot_jobs_taken_total",
            "Jobs that the slot took over from others.",
        ),
        (
            "fairlane_slot_restarts_total",
            "Threads of the slot that were replaced.",
        ),
    ];
    for (name, text) in counters {
        describe_counter!(name, Unit::Count, text);
    }
    let gauges = [
        ("fairlane_workers", Unit::Count, "Slots that have a thread."),
        (
            "fairlane_jobs_queued",
            Unit::Count,
            "Jobs that have not begun.",
        ),
        ("fairlane_jobs_running", Unit::Count, "Jobs that run."),
        (
            "fairlane_slot_jobs_pending",
            Unit::Count,
            "Jobs queued or running at the slot.",
        ),
        (
            "fairlane_slot_busy_seconds",
            Unit::Seconds,
            "Time the slot spent in jobs.",
        ),
        (
            "fairlane_tenant_jobs_queued",
            Unit::Count,
            "Jobs in the tenant's lane.",
        ),
        (
            "fairlane_tenant_jobs_running",
            Unit::Count,
            "Jobs of the tenant that run.",
        ),
    ];
    for (name, unit, text) in gauges {
        describe_gauge!(name, unit, text);
    }
    let histograms = [
        (
            "fairlane_job_wait_seconds",
            "From being accepted to beginning.",
        ),
        ("fairlane_job_run_seconds", "From beginning to the end."),
    ];
    for (name, text) in histograms {
        describe_histogram!(name, Unit::Seconds, text);
    }
}
