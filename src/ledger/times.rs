//! Who waited and ran for how long: the pool as a whole, and each of its live tenants.

use std::collections::HashMap;
use std::time::Instant;

use super::histogram::Histogram;
use crate::sync::{Arc, Mutex, Weak};

/// The times of one party's jobs.
pub(crate) struct Times {
    /// From being accepted to beginning.
    pub(crate) wait: Histogram,
    /// From beginning to the end.
    pub(crate) run: Histogram,
}

impl Times {
    fn new() -> Times {
        Times {
            wait: Histogram::new(),
            run: Histogram::new(),
        }
    }
}

/// The times of a pool. It exists only where they were asked for: nobody else reads a clock.
///
/// Tenants are kept track of beside the gate, not in it: their times live as long as a job or a handle
/// that holds them, which is at least as long as the gate knows the tenant.
pub(crate) struct TimeTable {
    built: Instant,
    all: Times,
    tenants: Option<Mutex<Tenants>>,
}

struct Tenants {
    by_name: HashMap<Box<str>, Weak<Times>>,
    /// At this size it is cleared of those that are gone: O(1) a tenant, since as many have come since
    /// the last time as were left then.
    clear_at: usize,
}

const FEW: usize = 16;

impl TimeTable {
    /// With a limit, `has_tenants`.
    pub(crate) fn new(has_tenants: bool) -> TimeTable {
        let tenants = Tenants {
            by_name: HashMap::new(),
            clear_at: FEW,
        };
        TimeTable {
            built: Instant::now(),
            all: Times::new(),
            tenants: has_tenants.then(|| Mutex::new(tenants)),
        }
    }

    /// Of all jobs.
    pub(crate) fn all(&self) -> &Times {
        &self.all
    }

    /// When that was, in nanoseconds since the pool was built.
    pub(crate) fn nanos_at(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.built).as_nanos() as u64
    }

    /// The times of a tenant, for somebody who keeps it alive. O(1).
    pub(crate) fn open(&self, tenant: &str) -> Option<Arc<Times>> {
        let mut tenants = self.tenants.as_ref()?.lock();
        Some(tenants.open(tenant))
    }

    /// The times of a tenant that somebody keeps alive.
    pub(crate) fn find(&self, tenant: &str) -> Option<Arc<Times>> {
        let tenants = self.tenants.as_ref()?.lock();
        tenants.by_name.get(tenant)?.upgrade()
    }
}

impl Tenants {
    fn open(&mut self, name: &str) -> Arc<Times> {
        if let Some(times) = self.by_name.get(name).and_then(Weak::upgrade) {
            return times;
        }
        if self.by_name.len() >= self.clear_at {
            self.by_name.retain(|_, times| times.strong_count() > 0);
            self.clear_at = (self.by_name.len() * 2).max(FEW);
            self.by_name.shrink_to(self.clear_at);
        }
        let times = Arc::new(Times::new());
        self.by_name.insert(name.into(), Arc::downgrade(&times));
        times
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_live_as_long_as_somebody_holds_them() {
        let table = TimeTable::new(true);
        let times = table.open("a").unwrap();
        times.wait.record(Duration::from_millis(1));
        drop(table.open("a"));
        assert!(table.find("a").unwrap().wait.quantiles().is_some());
        drop(times);
        assert!(table.find("a").is_none());
        assert!(
            table.open("a").unwrap().wait.quantiles().is_none(),
            "a fresh start"
        );
        assert!(TimeTable::new(false).open("a").is_none());
    }

    #[test]
    fn names_seen_once_leave_nothing_behind() {
        let table = TimeTable::new(true);
        let kept = table.open("kept");
        for n in 0..10_000 {
            table.open(&n.to_string());
        }
        let tenants = table.tenants.as_ref().unwrap().lock();
        assert!(tenants.by_name.len() <= FEW && tenants.by_name.capacity() < 100);
        assert!(tenants.by_name.contains_key("kept"));
        drop(kept);
    }
}
