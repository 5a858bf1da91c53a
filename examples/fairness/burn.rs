//! A job that does nothing but use the processor.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crate::summary::median;

/// Steps between two looks at the clock while calibrating.
const PROBE: u64 = 10_000;
const PROBES: usize = 2_000;

/// So many steps of arithmetic.
#[derive(Clone, Copy)]
pub(crate) struct Burn(u64);

impl Burn {
    /// As many steps as take `job`, with as many threads at it as the pool will have: cores that
    /// share something are slower together.
    pub(crate) fn calibrated(job: Duration, threads: usize) -> Self {
        let probes = thread::scope(|scope| {
            let probes: Vec<_> = (0..threads).map(|_| scope.spawn(probe)).collect();
            let joined = probes.into_iter().map(|probe| probe.join());
            joined
                .collect::<Result<Vec<_>, _>>()
                .expect("a probe does not panic")
        });
        let steps = PROBE as f64 * job.as_secs_f64() / median(probes);
        Self(steps.ceil() as u64)
    }

    pub(crate) fn run(self) {
        burn(self.0);
    }
}

fn burn(steps: u64) {
    let mut state = black_box(1u64);
    for _ in 0..steps {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
    }
    black_box(state);
}

/// Seconds for the steps of a probe: the median, which the few probes that lost the processor to
/// others do not touch.
fn probe() -> f64 {
    let time = |_| {
        let begin = Instant::now();
        burn(PROBE);
        begin.elapsed().as_secs_f64()
    };
    median((0..PROBES).map(time).collect())
}
