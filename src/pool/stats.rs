//! What a pool tells about itself.

use std::time::{Duration, Instant};

use super::WorkerPool;
use crate::admission::Gate;
use crate::fair::Weight;
use crate::ledger::{Histogram, Quantiles, Tally, TimeTable};

/// A pool in numbers, as [`WorkerPool::stats`] found it.
///
/// The numbers add up whenever they are taken:
/// `submitted = completed + panicked + cancelled + expired + discarded + queued + running`.
///
/// ```
/// use fairlane::WorkerPool;
///
/// let pool = WorkerPool::new(2)?;
/// pool.map(0..10, |n| assert_ne!(n, 7)).for_each(drop);
/// pool.wait_idle();
/// let stats = pool.stats();
/// assert_eq!((stats.submitted, stats.completed, stats.panicked), (10, 9, 1));
/// assert_eq!(stats.slots.iter().map(|slot| slot.pending).sum::<usize>(), 0);
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PoolStats {
    /// Slots that have a thread; less than [`WorkerPool::workers`] once slots have been retired.
    pub workers: usize,
    /// Jobs that run; one that waits for a job that it runs in place counts too.
    pub running: usize,
    /// Jobs that were accepted and have not begun.
    pub queued: usize,
    /// Jobs accepted so far. A submit that meets the end of the pool may count for a moment, here and
    /// in `queued`, before it is refused.
    pub submitted: u64,
    /// Jobs that returned.
    pub completed: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs cancelled before they began.
    pub cancelled: u64,
    /// Jobs whose deadline passed before they began.
    pub expired: u64,
    /// Jobs that the pool gave up on before they began.
    pub discarded: u64,
    /// Each slot's own numbers, by index.
    pub slots: Vec<SlotStats>,
    /// How long jobs waited, from being accepted to beginning, and how long they ran. `None` before the
    /// first one has ended, and without [`PoolBuilder::timings`](crate::PoolBuilder::timings).
    pub wait: Option<Latency>,
    /// See `wait`.
    pub run: Option<Latency>,
    /// How long ago the pool was built. `None` without timings.
    pub uptime: Option<Duration>,
    /// The numbers of each tenant that has something queued or running, or a handle, or a submitter
    /// that waits; by name. Empty without a limit.
    pub tenants: Vec<TenantStats>,
}

/// One tenant in numbers. Tenants are read a moment after the pool's numbers.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TenantStats {
    /// The tenant's name; empty for jobs without a tenant.
    pub name: String,
    /// Its weight.
    pub weight: Weight,
    /// Jobs in its lane.
    pub queued: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended, with a result or a panic, since the tenant was last unknown.
    pub completed: u64,
    /// As [`PoolStats::wait`], of this tenant's jobs, since it was last unknown and nobody had a
    /// handle of a job of it.
    pub wait: Option<Latency>,
    /// See `wait`.
    pub run: Option<Latency>,
}

/// One slot in numbers. Slots are read one after the other: their sum may differ from the pool's
/// numbers by what happened in between.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SlotStats {
    /// The slot's name: `w0`, `w1` and so on.
    pub name: String,
    /// Jobs queued here plus those running here.
    pub pending: usize,
    /// Jobs counted here that returned.
    pub completed: u64,
    /// Jobs that the slot's thread took over from other slots. Always 0 with a limit: jobs then come
    /// from the lanes.
    pub taken: u64,
    /// How often the slot's thread was replaced; see [`PanicPolicy`](crate::PanicPolicy).
    pub restarts: u64,
    /// For how long in all the slot's thread has been running jobs, the current one included. `None`
    /// without [`PoolBuilder::timings`](crate::PoolBuilder::timings).
    pub busy: Option<Duration>,
}

/// Some durations in three numbers.
///
/// The quantiles come from a histogram whose buckets grow with what they hold: they are off by at most
/// an eighth from 256 ns to 73 minutes, and by at most 128 ns below that. The maximum is exact. Once a
/// bucket has counted two thousand million jobs, all counts are halved, so that old ones weigh less.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Latency {
    /// Half of them are at most this.
    pub p50: Duration,
    /// All but one in a hundred are at most this.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl From<Quantiles> for Latency {
    fn from(quantiles: Quantiles) -> Self {
        let Quantiles { p50, p99, max } = quantiles;
        Latency { p50, p99, max }
    }
}

fn latency(times: &Histogram) -> Option<Latency> {
    times.quantiles().map(Latency::from)
}

impl PoolStats {
    /// Which part of the time between `earlier` and now each slot's thread spent running jobs, from 0
    /// to 1; with `None`, of the time since the pool was built. Empty without
    /// [`PoolBuilder::timings`](crate::PoolBuilder::timings).
    ///
    /// ```
    /// use fairlane::WorkerPool;
    /// let pool = WorkerPool::builder().workers(2).timings(true).build()?;
    /// let before = pool.stats();
    /// pool.submit(|| (1..=1_000u64).sum::<u64>()).unwrap().join().unwrap();
    /// let shares = pool.stats().busy_shares(Some(&before));
    /// assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
    /// # Ok::<(), fairlane::BuildError>(())
    /// ```
    #[must_use]
    pub fn busy_shares(&self, earlier: Option<&PoolStats>) -> Vec<f64> {
        let Some(mut time) = self.uptime else {
            return Vec::new();
        };
        time = time.saturating_sub(earlier.and_then(|stats| stats.uptime).unwrap_or_default());
        let share = |(index, slot): (usize, &SlotStats)| {
            let before = earlier.and_then(|stats| stats.slots.get(index)?.busy);
            let busy = slot.busy.unwrap_or_default();
            let busy = busy
                .saturating_sub(before.unwrap_or_default())
                .as_secs_f64();
            // Not a number if no time has passed.
            (busy / time.as_secs_f64()).clamp(0.0, 1.0)
        };
        let shares = self.slots.iter().enumerate().map(share);
        shares
            .map(|share| if share.is_nan() { 0.0 } else { share })
            .collect()
    }
}

impl WorkerPool {
    /// The pool in numbers. O(slots), without a lock, and without slowing the slots down but for the
    /// cache lines it reads. With a limit also O(tenants) under the gate's lock. With
    /// [`timings`](crate::PoolBuilder::timings) each latency is read out of 138 buckets. In a forked
    /// child, where the gate's lock may be held for ever, no tenants are listed.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let tally = self.core.tally();
        let times = self.core.times.as_deref();
        let now = times.map(|times| times.nanos_at(Instant::now()));
        let slots = self.core.slots.iter().map(|slot| SlotStats {
            name: slot.name().to_owned(),
            pending: slot.pending(),
            completed: Tally::completed_of(slot.load()),
            taken: if self.core.gate.is_none() {
                slot.load().taken()
            } else {
                0
            },
            restarts: slot.restarts(),
            busy: now.map(|now| Duration::from_nanos(slot.load().busy().read(now))),
        });
        PoolStats {
            workers: self.core.live_slots(),
            running: tally.running as usize,
            queued: tally.queued as usize,
            submitted: tally.submitted,
            completed: tally.completed,
            panicked: tally.panicked,
            cancelled: tally.cancelled,
            expired: tally.expired,
            discarded: tally.discarded,
            slots: slots.collect(),
            wait: times.and_then(|times| latency(&times.all().wait)),
            run: times.and_then(|times| latency(&times.all().run)),
            uptime: now.map(Duration::from_nanos),
            tenants: match &self.core.gate {
                Some(gate) if !self.core.is_forked() => tenants(gate, times),
                _ => Vec::new(),
            },
        }
    }
}

fn tenants(gate: &Gate, times: Option<&TimeTable>) -> Vec<TenantStats> {
    let stats = gate.tenants().into_iter().map(|tenant| {
        let times = times.and_then(|times| times.find(&tenant.name));
        TenantStats {
            name: tenant.name.to_string(),
            weight: tenant.weight,
            queued: tenant.queued,
            running: tenant.running,
            completed: tenant.completed,
            wait: times.as_ref().and_then(|times| latency(&times.wait)),
            run: times.as_ref().and_then(|times| latency(&times.run)),
        }
    });
    let mut stats: Vec<_> = stats.collect();
    stats.sort_by(|a, b| a.name.cmp(&b.name));
    stats
}
