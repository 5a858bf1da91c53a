//! The whole pool under shuttle: random schedules of its real threads, in every flavour.
//!
//! Nothing here sleeps or measures. A schedule that hangs is a deadlock that shuttle reports, and each
//! scenario ends with a pool whose books add up and closures that are all gone. `tests/models.sh` runs
//! it; `FAIRLANE_SCHEDULES` says how many schedules a scenario gets.
#![cfg(shuttle)]

mod scenarios;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use fairlane::{JobError, PoolBuilder, PoolStats, Strategy, WorkerPool};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// One way to build a pool.
#[derive(Clone, Copy, Debug)]
struct Flavour {
    strategy: Strategy,
    has_limit: bool,
}

const FLAVOURS: [Flavour; 4] = [
    Flavour::new(Strategy::RoundRobin, false),
    Flavour::new(Strategy::LeastBusy, false),
    Flavour::new(Strategy::RoundRobin, true),
    Flavour::new(Strategy::LeastBusy, true),
];

impl Flavour {
    const fn new(strategy: Strategy, has_limit: bool) -> Flavour {
        Flavour {
            strategy,
            has_limit,
        }
    }

    fn builder(self, workers: usize) -> PoolBuilder {
        let builder = WorkerPool::builder()
            .workers(workers)
            .strategy(self.strategy);
        if self.has_limit {
            builder.fair()
        } else {
            builder
        }
    }

    fn pool(self, workers: usize) -> Arc<WorkerPool> {
        Arc::new(self.builder(workers).build().expect("threads start"))
    }
}

/// PCT's bug depth: how many changes of priority a schedule has.
const DEPTH: usize = 4;

/// Runs `scenario` under as many schedules as were asked for: in equal parts in each flavour, by a
/// random walk and by PCT.
fn explore(name: &str, scenario: fn(Flavour)) {
    let wanted = schedules();
    let begin = Instant::now();
    let share = wanted.div_ceil(2 * FLAVOURS.len());
    let mut ran = 0;
    for flavour in FLAVOURS {
        ran += run(RandomScheduler::new(share), flavour, scenario);
        ran += run(PctScheduler::new(DEPTH, share), flavour, scenario);
    }
    assert!(ran >= wanted, "only {ran} of {wanted} schedules ran");
    // Past the harness, which swallows what a passing test prints.
    let seconds = begin.elapsed().as_secs_f64();
    let line = format!("shuttle: {name}: {ran} schedules, {seconds:.1} s\n");
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
}

fn schedules() -> usize {
    let number = std::env::var("FAIRLANE_SCHEDULES").ok();
    number.map_or(1_000, |n| {
        n.parse().expect("FAIRLANE_SCHEDULES is a number")
    })
}

fn run(scheduler: impl Scheduler + 'static, flavour: Flavour, scenario: fn(Flavour)) -> usize {
    let mut config = shuttle::Config::new();
    // Unoptimized code of a nested join needs more than the default.
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config).run(move || scenario(flavour))
}

/// Counts what closures capture, made and dropped. shuttle does not see these counts.
#[derive(Clone, Default)]
struct Probe(Arc<[AtomicUsize; 2]>);

struct Captured(Probe);

impl Probe {
    fn capture(&self) -> Captured {
        self.0[0].fetch_add(1, Ordering::SeqCst);
        Captured(self.clone())
    }

    fn assert_all_dropped(&self) {
        let [made, dropped] = &*self.0;
        assert_eq!(made.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst));
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.0.0[1].fetch_add(1, Ordering::SeqCst);
    }
}

/// A panic that shuttle's hook does not see, which takes any for a failure.
fn panic_quietly() {
    std::panic::resume_unwind(Box::new("expected"));
}

fn assert_adds_up(stats: &PoolStats) {
    let settled = stats.completed + stats.panicked + stats.cancelled + stats.discarded;
    assert_eq!((stats.queued, stats.running), (0, 0), "{stats:?}");
    assert_eq!(stats.submitted, settled, "{stats:?}");
    assert!(
        stats.slots.iter().all(|slot| slot.pending == 0),
        "{stats:?}"
    );
}

/// The usual end of a scenario.
fn finish(pool: Arc<WorkerPool>, probe: &Probe) {
    pool.wait_idle();
    assert_adds_up(&pool.stats());
    drop(Arc::into_inner(pool).expect("nobody else owns the pool"));
    probe.assert_all_dropped();
}

/// What became of a job: its result, or that it was called off.
fn result_or_cancelled<T>(result: Result<T, JobError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(JobError::Cancelled) => None,
        Err(other) => panic!("{other}"),
    }
}
