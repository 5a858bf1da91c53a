//! How long things took, in a few hundred bytes.
//!
//! The buckets are log-linear, in the manner of Gil Tene's HdrHistogram: each power of two is divided
//! into four equal parts. A quantile is reported as the middle of its bucket, so it is off by at most
//! an eighth of the true value, from 256 ns to 73 minutes; below that by at most 128 ns, and above it
//! the maximum is reported, which is exact.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Powers of two from `1 << LEAST` ns to `1 << MOST` ns have buckets of their own.
const LEAST: u32 = 8;
const MOST: u32 = 42;
/// Each of them has `1 << PARTS` buckets.
const PARTS: u32 = 2;
/// One for what is shorter, one for what is longer.
const BUCKETS: usize = (((MOST - LEAST) << PARTS) + 2) as usize;
const LAST: usize = BUCKETS - 1;
/// A bucket that has come to this halves all of them: shares stay, and old times weigh less.
const FULL: u32 = 1 << 31;

/// Counts of times by length. Recording takes one atomic addition, and no lock.
pub(crate) struct Histogram {
    buckets: [AtomicU32; BUCKETS],
    max: AtomicU64,
}

/// What a [`Histogram`] comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quantiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU32::new(0)),
            max: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let before = self.buckets[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        if before >= FULL {
            self.halve();
        }
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// What is recorded meanwhile may be lost, and another thread that does the same halves once more:
    /// both are a matter of a few in two thousand million.
    #[cold]
    fn halve(&self) {
        for bucket in &self.buckets {
            bucket.store(bucket.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// `None` if nothing was recorded. O(buckets).
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        let counts = self.buckets.each_ref().map(|n| n.load(Ordering::Relaxed));
        let total: u64 = counts.iter().map(|n| u64::from(*n)).sum();
        let max = self.max.load(Ordering::Relaxed);
        (total > 0).then(|| Quantiles {
            p50: Duration::from_nanos(quantile(&counts, total, max, 50)),
            p99: Duration::from_nanos(quantile(&counts, total, max, 99)),
            max: Duration::from_nanos(max),
        })
    }
}

/// The length below which `percent` of all times lie: that of the time which has this rank.
fn quantile(counts: &[u32; BUCKETS], total: u64, max: u64, percent: u64) -> u64 {
    let rank = (total * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += u64::from(*count);
        seen >= rank
    });
    middle_of(bucket.unwrap_or(LAST)).map_or(max, |middle| middle.min(max))
}

fn bucket_of(nanos: u64) -> usize {
    let power = nanos.max(1).ilog2();
    if power < LEAST {
        0
    } else if power >= MOST {
        LAST
    } else {
        let part = (nanos >> (power - PARTS)) - (1 << PARTS);
        1 + (((power - LEAST) << PARTS) as usize) + part as usize
    }
}

/// `None` for the bucket that has no upper bound.
fn middle_of(bucket: usize) -> Option<u64> {
    if bucket == 0 {
        return Some(1 << (LEAST - 1));
    }
    if bucket == LAST {
        return None;
    }
    let (power, part) = ((bucket - 1) >> PARTS, (bucket - 1) & ((1 << PARTS) - 1));
    let width = 1u64 << (power as u32 + LEAST - PARTS);
    Some(((1 << PARTS) + part as u64) * width + width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample of that rank, found by sorting.
    fn sorted_quantile(samples: &[u64], percent: usize) -> u64 {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
    }

    #[track_caller]
    fn check(samples: &[u64]) {
        let histogram = Histogram::new();
        for nanos in samples {
            histogram.record(Duration::from_nanos(*nanos));
        }
        let found = histogram.quantiles().unwrap();
        assert_eq!(found.max.as_nanos() as u64, sorted_quantile(samples, 100));
        for (percent, found) in [(50, found.p50), (99, found.p99)] {
            let (true_one, found) = (sorted_quantile(samples, percent), found.as_nanos() as u64);
            let allowed = if true_one < 1 << LEAST {
                128
            } else {
                true_one / 8
            };
            let off = found.abs_diff(true_one);
            assert!(
                off <= allowed,
                "p{percent} of {}: {found} for {true_one}",
                samples.len()
            );
        }
    }

    #[test]
    fn quantiles_are_near_those_of_sorted_samples() {
        let mut state = 1u64;
        let mut roll = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        for n in [1, 2, 3, 99, 100, 101, 10_000] {
            for power in [2, 7, 8, 9, 20, 30, 41] {
                let even: Vec<u64> = (0..n).map(|_| roll() % (1 << power)).collect();
                check(&even);
                let skewed: Vec<u64> = (0..n).map(|_| (1 << power) >> (roll() % 8)).collect();
                check(&skewed);
            }
        }
    }

    #[test]
    fn buckets_follow_one_another() {
        let mut last = 0;
        for power in 0..64u32 {
            for step in 0..16u64 {
                let nanos = (1u64 << power) + (1u64 << power) / 16 * step;
                let bucket = bucket_of(nanos);
                assert!(bucket == last || bucket == last + 1, "{nanos} after {last}");
                last = bucket;
            }
        }
        assert_eq!(last, LAST);
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), LAST);
    }

    #[test]
    fn what_is_longer_than_all_buckets_is_the_maximum() {
        let histogram = Histogram::new();
        assert_eq!(histogram.quantiles(), None);
        histogram.record(Duration::from_secs(7_200));
        let found = histogram.quantiles().unwrap();
        assert_eq!(
            (found.p50, found.max),
            (found.max, Duration::from_secs(7_200))
        );
        histogram.record(Duration::MAX);
        assert_eq!(
            histogram.quantiles().unwrap().max,
            Duration::from_nanos(u64::MAX)
        );
    }

    #[test]
    fn a_full_bucket_halves_all() {
        let histogram = Histogram::new();
        let (short, long) = (Duration::from_micros(1), Duration::from_millis(1));
        histogram.buckets[bucket_of(1_000)].store(FULL, Ordering::Relaxed);
        histogram.buckets[bucket_of(1_000_000)].store(FULL / 8, Ordering::Relaxed);
        histogram.record(long);
        histogram.record(short);
        let at = |time: Duration| {
            histogram.buckets[bucket_of(time.as_nanos() as u64)].load(Ordering::Relaxed)
        };
        assert_eq!((at(short), at(long)), (FULL / 2, FULL / 16));
        assert!(histogram.quantiles().unwrap().p99 > long * 7 / 8);
    }

    #[test]
    fn a_histogram_takes_a_few_hundred_bytes() {
        assert!(size_of::<Histogram>() <= 576);
    }
}
