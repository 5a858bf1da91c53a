//! The loads on a pool without a limit.
//!
//! | load | what is measured |
//! |---|---|
//! | a | one producer, a million empty jobs |
//! | b | the same from four producers |
//! | c | 100,000 results, all kept, then joined |
//! | d | one submit and join at a time |
//! | e | 10,000 jobs of 1 µs to 1 ms, Pareto |
//! | f | jobs that spawn jobs: the call tree of `fib(25)` |
//! | g | memory and allocations of queued jobs |
//! | h | eight idle workers |
//!
//! Loads a, c and d are also run on a single core.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::allocations;
use crate::measure::{
    Comparison, Config, Countdown, Place, burn, loops_per_micro, nanos_each, own_cpu, percentile,
    resident,
};
use crate::pools::{Load, LocalChildren, Ours, Pool, contestant, contestants};
use crate::table::Metric;

const NANOS: &[Metric] = &[Metric::new("ns a job", 0)];
const TRIP: &[Metric] = &[Metric::new("p50, ns", 0), Metric::new("p99, ns", 0)];

/// All tables on all cores.
pub fn comparisons() -> Vec<Comparison> {
    const MAKESPAN: &[Metric] = &[Metric::new("makespan / ideal", 3)];
    const MEMORY: &[Metric] = &[
        Metric::new("resident bytes a queued job", 0),
        Metric::plain("bytes allocated a queued job", 0),
        Metric::plain("allocations a queued job", 2),
        Metric::plain("allocations a submit", 2),
    ];
    const IDLE: &[Metric] = &[
        Metric::plain("CPU burnt in 2 s, ms", 2),
        Metric::new("wake after 10 ms, p50 ns", 0),
    ];
    vec![
        comparison::<OneProducer>("a", "a million empty jobs, one producer", NANOS),
        comparison::<FourProducers>("b", "a million empty jobs, four producers", NANOS),
        comparison::<KeptHandles>("c", "100,000 results, kept and joined", NANOS),
        comparison::<PingPong>("d", "ping-pong, one submit and join at a time", TRIP),
        comparison::<Skewed>("e", "10,000 jobs of 1 µs to 1 ms, Pareto", MAKESPAN),
        with_local_children(comparison::<Tree>(
            "f",
            "the call tree of fib(25), as jobs",
            NANOS,
        )),
        apart(comparison::<Memory>(
            "g",
            "a million queued jobs, workers blocked",
            MEMORY,
        )),
        comparison::<Idle>("h", "eight idle workers, whatever else is asked for", IDLE),
    ]
}

/// Tables on a single core, where nobody can bring work while somebody spins.
pub fn comparisons_on_one_core() -> Vec<Comparison> {
    vec![
        on_one_core(comparison::<OneProducer>(
            "a",
            "a million empty jobs",
            NANOS,
        )),
        on_one_core(comparison::<KeptHandles>(
            "c",
            "100,000 results, kept and joined",
            NANOS,
        )),
        on_one_core(comparison::<PingPong>("d", "ping-pong", TRIP)),
    ]
}

fn on_one_core(comparison: Comparison) -> Comparison {
    Comparison {
        name: format!("one-core-{}", comparison.name),
        title: format!("on one core, {}", comparison.title),
        place: Place::OneCore,
        ..comparison
    }
}

fn with_local_children(mut comparison: Comparison) -> Comparison {
    let ours = contestant::<Tree, Ours<LocalChildren>>();
    comparison.contestants.push(ours);
    comparison
}

fn apart(comparison: Comparison) -> Comparison {
    Comparison {
        place: Place::Apart,
        ..comparison
    }
}

fn comparison<L: Load>(name: &str, title: &str, metrics: &'static [Metric]) -> Comparison {
    Comparison {
        name: name.to_owned(),
        title: format!("{name}: {title}"),
        metrics,
        contestants: contestants::<L>(),
        place: Place::Together,
    }
}

/// Lends a fresh, warmed-up pool to a load and stops it afterwards. The load may hand the reference
/// to its jobs, which then need no counted one.
pub fn with_pool<P: Pool>(workers: usize, load: impl FnOnce(&'static P) -> Vec<f64>) -> Vec<f64> {
    loops_per_micro();
    let pool = Box::into_raw(Box::new(P::start(workers)));
    // SAFETY: it came from a box just now.
    let lent: &'static P = unsafe { &*pool };
    warm_up(lent);
    let figures = load(lent);
    // SAFETY: it came from a box, and nobody uses it any more: loads return when all their jobs have
    // counted themselves done, and that is the last thing a job does.
    let pool = unsafe { Box::from_raw(pool) };
    pool.stop();
    figures
}

/// Lets all threads start, and caches fill.
fn warm_up(pool: &impl Pool) {
    const JOBS: usize = 2_000;
    let done = Countdown::leaked(JOBS);
    for _ in 0..JOBS {
        pool.execute(|| done.hit());
    }
    done.wait();
    thread::sleep(Duration::from_millis(2));
}

/// Load a.
struct OneProducer;

impl Load for OneProducer {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let jobs = config.sized(1_000_000);
        with_pool(config.workers, |pool: &P| {
            let done = Countdown::leaked(jobs);
            let start = Instant::now();
            for _ in 0..jobs {
                pool.execute(|| done.hit());
            }
            done.wait();
            vec![nanos_each(start.elapsed(), jobs)]
        })
    }
}

/// Load b.
struct FourProducers;

impl Load for FourProducers {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let each = config.sized(1_000_000) / 4;
        with_pool(config.workers, |pool: &P| {
            let done = Countdown::leaked(each * 4);
            let time = from_producers(4, done, |_| {
                for _ in 0..each {
                    pool.execute(|| done.hit());
                }
            });
            vec![nanos_each(time, each * 4)]
        })
    }
}

/// Runs `produce` on several threads at once and waits for the jobs. The clock starts when the first
/// producer does: the main thread may come late to a barrier that all share.
pub fn from_producers(
    producers: usize,
    done: &Countdown,
    produce: impl Fn(usize) + Sync,
) -> Duration {
    let barrier = Barrier::new(producers);
    let zero = Instant::now();
    let first = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for producer in 0..producers {
            let (barrier, first, produce) = (&barrier, &first, &produce);
            scope.spawn(move || {
                barrier.wait();
                first.fetch_min(zero.elapsed().as_nanos() as u64, Ordering::AcqRel);
                produce(producer);
            });
        }
        done.wait();
        zero.elapsed() - Duration::from_nanos(first.load(Ordering::Acquire))
    })
}

/// Load c.
struct KeptHandles;

impl Load for KeptHandles {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let jobs = config.sized(100_000);
        with_pool(config.workers, |pool: &P| {
            let mut handles = Vec::with_capacity(jobs);
            let start = Instant::now();
            handles.extend((0..jobs).map(|i| pool.submit(move || i)));
            let sum: usize = handles.into_iter().map(P::join).sum();
            let time = start.elapsed();
            assert_eq!(sum, jobs * (jobs - 1) / 2);
            vec![nanos_each(time, jobs)]
        })
    }
}

/// Load d.
struct PingPong;

impl Load for PingPong {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let jobs = config.sized(20_000);
        with_pool(config.workers, |pool: &P| {
            let mut nanos: Vec<u64> = (0..jobs).map(|i| round_trip(pool, i)).collect();
            vec![percentile(&mut nanos, 0.5), percentile(&mut nanos, 0.99)]
        })
    }
}

fn round_trip<P: Pool>(pool: &P, i: usize) -> u64 {
    let start = Instant::now();
    let result = P::join(pool.submit(move || i));
    let nanos = start.elapsed().as_nanos() as u64;
    assert_eq!(result, i);
    nanos
}

/// Load e. Ideal is what the jobs take on as many cores as can run at once, without a gap.
struct Skewed;

impl Load for Skewed {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let micros = pareto(config.sized(10_000));
        let ideal = micros.iter().sum::<f64>() / config.parallel() as f64;
        with_pool(config.workers, |pool: &P| {
            let done = Countdown::leaked(micros.len());
            let start = Instant::now();
            for &micros in &micros {
                pool.execute(move || {
                    burn(micros);
                    done.hit();
                });
            }
            done.wait();
            vec![start.elapsed().as_secs_f64() * 1e6 / ideal]
        })
    }
}

/// Numbers between 1 and 1,000, of a Pareto distribution with an exponent of 1; always the same.
fn pareto(count: usize) -> Vec<f64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count)
        .map(|_| 1.0 / (1.0 - uniform() * (1.0 - 1.0 / 1_000.0)))
        .collect()
}

/// Load f.
struct Tree;

impl Load for Tree {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let n = if config.quick { 15 } else { 25 };
        with_pool(config.workers, |pool: &P| {
            let done = Countdown::leaked(nodes(n));
            let start = Instant::now();
            pool.execute(move || grow(pool, n, done));
            done.wait();
            vec![nanos_each(start.elapsed(), nodes(n))]
        })
    }
}

/// A call of the naive `fib(n)`, with a job for each call it makes.
fn grow<P: Pool>(pool: &'static P, n: u32, done: &'static Countdown) {
    if n >= 2 {
        pool.execute(move || grow(pool, n - 1, done));
        pool.execute(move || grow(pool, n - 2, done));
    }
    done.hit();
}

fn nodes(n: u32) -> usize {
    if n < 2 {
        1
    } else {
        1 + nodes(n - 1) + nodes(n - 2)
    }
}

/// Load g: what a million queued jobs of 16 bytes take, and how often `submit` allocates.
struct Memory;

impl Load for Memory {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        with_pool(config.workers, |pool: &P| {
            let mut figures = queued(pool, config);
            figures.push(allocations_a_submit(pool, config.sized(100_000)));
            figures
        })
    }
}

/// Fills the queue while all workers are blocked.
fn queued<P: Pool>(pool: &P, config: &Config) -> Vec<f64> {
    let jobs = config.sized(1_000_000);
    let done = Countdown::leaked(jobs);
    let blockade = Blockade::of(pool, config.workers);
    let (memory, counts) = (resident(), allocations::so_far());
    for i in 0..jobs {
        pool.execute(move || {
            std::hint::black_box(i);
            done.hit();
        });
    }
    let (memory, counts) = (resident() - memory, allocations::so_far() - counts);
    blockade.lift();
    done.wait();
    let a_job = |total: f64| total / jobs as f64;
    vec![a_job(memory), a_job(counts.bytes), a_job(counts.calls)]
}

fn allocations_a_submit<P: Pool>(pool: &P, jobs: usize) -> f64 {
    let mut handles = Vec::with_capacity(jobs);
    let before = allocations::so_far();
    handles.extend((0..jobs).map(|i| pool.submit(move || i)));
    for handle in handles {
        P::join(handle);
    }
    (allocations::so_far() - before).calls / jobs as f64
}

/// Jobs that block all workers of a pool until it is lifted.
struct Blockade(Arc<(Mutex<bool>, Condvar)>);

impl Blockade {
    fn of<P: Pool>(pool: &P, workers: usize) -> Blockade {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let blocked = Arc::new(AtomicUsize::new(0));
        for _ in 0..workers {
            let (gate, blocked) = (Arc::clone(&gate), Arc::clone(&blocked));
            pool.execute(move || {
                blocked.fetch_add(1, Ordering::AcqRel);
                let lifted = gate.0.lock().expect("not poisoned");
                drop(gate.1.wait_while(lifted, |lifted| !*lifted));
            });
        }
        // Some pool may let one of them wait behind another.
        for _ in 0..1_000 {
            if blocked.load(Ordering::Acquire) == workers {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Blockade(gate)
    }

    fn lift(self) {
        *self.0.0.lock().expect("not poisoned") = true;
        self.0.1.notify_all();
    }
}

/// Load h: whether threads without work cost anything, and how soon one is there again.
struct Idle;

impl Load for Idle {
    fn run<P: Pool>(config: &Config) -> Vec<f64> {
        let (window, wakes) = if config.quick { (100, 5) } else { (2_000, 100) };
        with_pool(8, |pool: &P| {
            thread::sleep(Duration::from_millis(100));
            let before = own_cpu();
            thread::sleep(Duration::from_millis(window));
            let burnt = own_cpu() - before;
            let mut nanos: Vec<u64> = (0..wakes).map(|_| wake(pool)).collect();
            vec![burnt.as_secs_f64() * 1e3, percentile(&mut nanos, 0.5)]
        })
    }
}

/// How long after `execute` was called the job begins, on a pool that sleeps.
fn wake<P: Pool>(pool: &P) -> u64 {
    thread::sleep(Duration::from_millis(10));
    let begun = Arc::new(AtomicU64::new(0));
    let done = Countdown::leaked(1);
    let start = Instant::now();
    pool.execute({
        let begun = Arc::clone(&begun);
        move || {
            begun.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            done.hit();
        }
    });
    done.wait();
    begun.load(Ordering::Relaxed)
}
