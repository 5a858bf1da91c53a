//! The fair queue beside the nearest public one, firq-core: deficit round robin behind locks, for any
//! thread to take from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairlane::{FairQueue, Priority, Weight};
use firq_core::{DequeueResult, EnqueueResult, Scheduler, SchedulerConfig, Task, TenantKey};

use crate::allocations;
use crate::gate::{Gated, Handles, Heap, Ungated, weight};
use crate::measure::{
    Comparison, Config, Contestant, Countdown, Kind, Place, burn, loops_per_micro, nanos_each,
    percentile, resident,
};
use crate::pools::{BoxedJob, join_threads, start_threads};
use crate::table::Metric;

/// How many tenants have something queued, by turns.
const TENANTS: [u64; 3] = [1, 1_000, 100_000];

/// All tables but that of [`print_order`].
pub fn comparisons() -> Vec<Comparison> {
    let mut all = vec![latency()];
    all.extend(TENANTS.map(pop_cost));
    all.push(memory());
    all
}

/// What a load needs of a fair queue: `u64` keys and items.
trait Queue: Sized + 'static {
    const NAME: &'static str;
    const KIND: Kind;

    fn with_weights(weight: fn(u64) -> u32) -> Self;
    fn push(&mut self, tenant: u64, item: u64);
    /// Whose item came out; `None` if none did this time, though there may be some.
    fn pop(&mut self) -> Option<u64>;
}

struct Ours {
    queue: FairQueue<u64, u64>,
    weight: fn(u64) -> u32,
}

impl Queue for Ours {
    const NAME: &'static str = "fairlane::FairQueue";
    const KIND: Kind = Kind::Ours;

    fn with_weights(weight: fn(u64) -> u32) -> Self {
        let queue = FairQueue::new();
        Ours { queue, weight }
    }

    fn push(&mut self, tenant: u64, item: u64) {
        let weight = Weight::new((self.weight)(tenant));
        let queue = &mut self.queue;
        queue.push_weighted(tenant, weight, Priority::NORMAL, item);
    }

    fn pop(&mut self) -> Option<u64> {
        self.queue.pop().map(|(tenant, _)| tenant)
    }
}

/// A scheduler of firq-core without bounds, in which a tenant's quantum is its weight and a job costs
/// one.
fn firq<T>(weight: impl Fn(u64) -> u32 + Send + Sync + 'static) -> Scheduler<T> {
    Scheduler::new(SchedulerConfig {
        max_global: usize::MAX / 2,
        max_per_tenant: usize::MAX / 2,
        quantum_provider: Some(Arc::new(move |tenant| weight(tenant.as_u64()).into())),
        ..SchedulerConfig::default()
    })
}

fn firq_push<T>(scheduler: &Scheduler<T>, tenant: u64, priority: firq_core::Priority, payload: T) {
    let task = Task {
        payload,
        enqueue_ts: Instant::now(),
        deadline: None,
        priority,
        cost: 1,
    };
    let result = scheduler.enqueue(TenantKey::from(tenant), task);
    assert!(matches!(result, EnqueueResult::Enqueued));
}

impl Queue for Scheduler<u64> {
    const NAME: &'static str = "firq-core";
    const KIND: Kind = Kind::Peer;

    fn with_weights(weight: fn(u64) -> u32) -> Self {
        firq(weight)
    }

    fn push(&mut self, tenant: u64, item: u64) {
        firq_push(self, tenant, firq_core::Priority::Normal, item);
    }

    fn pop(&mut self) -> Option<u64> {
        match self.try_dequeue() {
            DequeueResult::Task { tenant, .. } => Some(tenant.as_u64()),
            DequeueResult::Empty | DequeueResult::Closed => None,
        }
    }
}

/// Pops until there is something; how often there was not.
fn pop_something(queue: &mut impl Queue) -> (u64, usize) {
    for empty in 0.. {
        if let Some(tenant) = queue.pop() {
            return (tenant, empty);
        }
    }
    unreachable!("loads pop only what they pushed")
}

/// Prints in which order jobs are served, of a tenant of weight 5 beside four of weight 1.
pub fn print_order() {
    println!("### fair: order of service, weights A 5, B to E 1\n");
    println!("| | first two turns of 9 | empty answers meanwhile |\n|---|---|---:|");
    order::<Scheduler<u64>>();
    order::<Ours>();
    println!();
}

fn order<Q: Queue>() {
    let mut queue = Q::with_weights(|tenant| if tenant == 0 { 5 } else { 1 });
    for item in 0..50 {
        (0..5).for_each(|tenant| queue.push(tenant, item));
    }
    let served: Vec<_> = (0..18).map(|_| pop_something(&mut queue)).collect();
    let letters = |turn: &[(u64, usize)]| -> String {
        let letter = |&(tenant, _): &(u64, usize)| char::from(b'A' + tenant as u8);
        turn.iter().map(letter).collect()
    };
    let empty: usize = served.iter().map(|&(_, empty)| empty).sum();
    let (first, second) = served.split_at(9);
    let (first, second) = (letters(first), letters(second));
    println!("| {} | `{first} {second}` | {empty} |", Q::NAME);
}

/// What a push and a pop cost with so many tenants, each ten jobs deep or deeper.
fn pop_cost(tenants: u64) -> Comparison {
    const METRICS: &[Metric] = &[
        Metric::new("push, ns", 0),
        Metric::new("pop, equal weights, ns", 0),
        Metric::new("pop, weights 1 to 3, ns", 0),
    ];
    Comparison {
        name: format!("fair-pop-{tenants}"),
        title: format!("fair: a push and a pop, tenants {tenants}"),
        metrics: METRICS,
        contestants: vec![
            pop_contestant::<Scheduler<u64>>(tenants),
            pop_contestant::<Ours>(tenants),
        ],
        place: Place::Together,
    }
}

fn pop_contestant<Q: Queue>(tenants: u64) -> Contestant {
    Contestant {
        name: Q::NAME,
        kind: Q::KIND,
        run: Box::new(move |config| {
            let (push, equal) = push_and_pop::<Q>(config, tenants, |_| 1);
            let (_, unequal) = push_and_pop::<Q>(config, tenants, |tenant| tenant as u32 % 3 + 1);
            vec![push, equal, unequal]
        }),
    }
}

/// Fills a queue and takes half of it out again, so that all tenants stay in it throughout.
fn push_and_pop<Q: Queue>(config: &Config, tenants: u64, weight: fn(u64) -> u32) -> (f64, f64) {
    let deep = (config.sized(100_000) as u64 / tenants).max(10);
    let mut queue = Q::with_weights(weight);
    let start = Instant::now();
    for item in 0..deep {
        (0..tenants).for_each(|tenant| queue.push(tenant, item));
    }
    let push = nanos_each(start.elapsed(), (deep * tenants) as usize);
    // With weights up to 3 a lane loses at most 1.5 times the average, so none runs empty.
    let pops = (deep * tenants / 2) as usize;
    let start = Instant::now();
    for _ in 0..pops {
        std::hint::black_box(pop_something(&mut queue));
    }
    (push, nanos_each(start.elapsed(), pops))
}

/// What stays behind when a million tenants have come, had one job done, and gone.
fn memory() -> Comparison {
    const METRICS: &[Metric] = &[
        Metric::plain("resident MB afterwards", 2),
        Metric::plain("live MB afterwards", 2),
        Metric::plain("allocations a tenant", 2),
    ];
    Comparison {
        name: "fair-memory".to_owned(),
        title: "fair: memory after a million one-shot tenants".to_owned(),
        metrics: METRICS,
        contestants: vec![
            memory_contestant::<Scheduler<u64>>(),
            memory_contestant::<Ours>(),
        ],
        place: Place::Apart,
    }
}

fn memory_contestant<Q: Queue>() -> Contestant {
    Contestant {
        name: Q::NAME,
        kind: Q::KIND,
        run: Box::new(one_shot_tenants::<Q>),
    }
}

fn one_shot_tenants<Q: Queue>(config: &Config) -> Vec<f64> {
    let tenants = config.sized(1_000_000) as u64;
    let mut queue = Q::with_weights(|_| 1);
    let (memory, counts) = (resident(), allocations::so_far());
    for tenant in 0..tenants {
        queue.push(tenant, tenant);
        assert_eq!(pop_something(&mut queue).0, tenant);
    }
    let (memory, counts) = (resident() - memory, allocations::so_far() - counts);
    drop(queue);
    vec![
        memory / 1e6,
        counts.live / 1e6,
        counts.calls / tenants as f64,
    ]
}

/// How long a light tenant's jobs wait while another one floods the pool.
fn latency() -> Comparison {
    const METRICS: &[Metric] = &[Metric::new("p50, µs", 0), Metric::new("p99, µs", 0)];
    Comparison {
        name: "fair-latency".to_owned(),
        title: "fair: wait of a light tenant's jobs (one a ms) beside a flood of 50 µs jobs"
            .to_owned(),
        metrics: METRICS,
        contestants: vec![
            latency_contestant::<Ungated>(),
            latency_contestant::<Heap>(),
            latency_contestant::<FirqPool>(),
            latency_contestant::<Handles>(),
        ],
        place: Place::Together,
    }
}

fn latency_contestant<G: Gated>() -> Contestant {
    Contestant {
        name: G::NAME,
        kind: G::KIND,
        run: Box::new(beside_a_flood::<G>),
    }
}

/// The light tenant submits on schedule, whether or not its last job is done: had it waited, a slow
/// pool would have been asked less often.
fn beside_a_flood<G: Gated>(config: &Config) -> Vec<f64> {
    /// Two tenants of the same weight.
    const FLOOD: usize = 0;
    const LIGHT: usize = 3;
    loops_per_micro();
    let lights = config.sized(500);
    // Twice what the cores get done while the light tenant is at it.
    let floods = lights * 2 * config.parallel() * 1_000 / 50;
    let waits: Arc<[AtomicU64]> = (0..lights).map(|_| AtomicU64::new(0)).collect();
    let done = Countdown::leaked(lights + floods);

    let pool = G::start(config.workers, LIGHT + 1);
    for _ in 0..floods {
        pool.execute(FLOOD, 0, || {
            burn(50.0);
            done.hit();
        });
    }
    for light in 0..lights {
        thread::sleep(Duration::from_millis(1));
        let (waits, start) = (Arc::clone(&waits), Instant::now());
        pool.execute(LIGHT, 0, move || {
            let wait = start.elapsed().as_micros() as u64;
            waits[light].store(wait, Ordering::Relaxed);
            done.hit();
        });
    }
    done.wait();
    pool.stop();

    let mut micros: Vec<u64> = waits.iter().map(|w| w.load(Ordering::Relaxed)).collect();
    vec![percentile(&mut micros, 0.5), percentile(&mut micros, 0.99)]
}

/// What one makes of firq-core to run closures: threads that take from it.
pub struct FirqPool {
    scheduler: Arc<Scheduler<BoxedJob>>,
    threads: Vec<JoinHandle<()>>,
}

impl Gated for FirqPool {
    const NAME: &'static str = "firq-core and threads";

    fn start(workers: usize, _tenants: usize) -> Self {
        let scheduler = Arc::new(firq(|tenant| weight(tenant as usize).get()));
        let jobs: Arc<Scheduler<BoxedJob>> = Arc::clone(&scheduler);
        let next = move || match jobs.dequeue_blocking() {
            DequeueResult::Task { task, .. } => Some(task.payload),
            DequeueResult::Empty | DequeueResult::Closed => None,
        };
        let threads = start_threads(workers, next);
        FirqPool { scheduler, threads }
    }

    /// It has three priorities.
    fn execute(&self, tenant: usize, priority: i32, job: impl FnOnce() + Send + 'static) {
        let priority = match priority {
            0 | 1 => firq_core::Priority::Low,
            2 => firq_core::Priority::Normal,
            _ => firq_core::Priority::High,
        };
        firq_push(&self.scheduler, tenant as u64, priority, Box::new(job));
    }

    fn stop(self) {
        self.scheduler.close();
        join_threads(self.threads);
    }
}
