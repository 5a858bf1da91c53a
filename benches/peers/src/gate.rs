//! Loads on a pool with a limit, shared by tenants: what their fairness costs a job, beside a pool
//! that has none and beside the priority queue one would write by hand.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use fairlane::{Tenant, Weight, WorkerPool};

use crate::fair::FirqPool;
use crate::loads::from_producers;
use crate::measure::{Comparison, Config, Contestant, Countdown, Kind, Place, nanos_each};
use crate::pools::{BoxedJob, LockedQueue, Pool, Rayon, join_threads, start_threads};
use crate::table::Metric;

/// How many tenants share the pool, by turns.
pub const TENANTS: [usize; 4] = [1, 10, 1_000, 100_000];

/// How many threads submit, by turns.
pub const PRODUCERS: [usize; 2] = [1, 4];

/// What a gated load needs of a pool that lets at most as many jobs in as it has workers.
///
/// Tenants are numbers below the one given at the start; whoever has no tenants or no priorities
/// ignores them.
pub trait Gated: Send + Sync + Sized + 'static {
    /// Its row in the tables.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;

    /// Starts so many threads.
    fn start(workers: usize, tenants: usize) -> Self;
    /// Runs a closure.
    fn execute(&self, tenant: usize, priority: i32, job: impl FnOnce() + Send + 'static);
    /// Ends the threads. It is called with nothing queued and is not timed.
    fn stop(self);
}

/// All tables.
pub fn comparisons() -> Vec<Comparison> {
    let cases = PRODUCERS.into_iter().flat_map(|p| TENANTS.map(|t| (p, t)));
    cases.map(|(p, t)| comparison(p, t)).collect()
}

/// What a table is asked for by.
pub fn name(producers: usize, tenants: usize) -> String {
    format!("gate-{producers}-{tenants}")
}

fn comparison(producers: usize, tenants: usize) -> Comparison {
    const METRICS: &[Metric] = &[Metric::new("ns a job", 0)];
    Comparison {
        name: name(producers, tenants),
        title: format!("gate: producers {producers}, tenants {tenants}"),
        metrics: METRICS,
        contestants: vec![
            contestant::<Ungated>(producers, tenants),
            contestant::<Heap>(producers, tenants),
            contestant::<FirqPool>(producers, tenants),
            contestant::<Handles>(producers, tenants),
            contestant::<Names>(producers, tenants),
        ],
        place: Place::Together,
    }
}

fn contestant<G: Gated>(producers: usize, tenants: usize) -> Contestant {
    Contestant {
        name: G::NAME,
        kind: G::KIND,
        run: Box::new(move |config| vec![run::<G>(config, producers, tenants)]),
    }
}

/// Nanoseconds a job. Tenants come in a scattered order, since a real one does not find its lane in
/// the cache either.
fn run<G: Gated>(config: &Config, producers: usize, tenants: usize) -> f64 {
    let each = config.sized(400_000) / producers;
    let pool = G::start(config.workers, tenants);
    warm_up(&pool, tenants);
    let done = Countdown::leaked(each * producers);
    let time = from_producers(producers, done, |producer| {
        for i in 0..each {
            let number = i * producers + producer;
            let tenant = number.wrapping_mul(7_919) % tenants;
            pool.execute(tenant, (i % 5) as i32, || done.hit());
        }
    });
    pool.stop();
    nanos_each(time, each * producers)
}

fn warm_up(pool: &impl Gated, tenants: usize) {
    const JOBS: usize = 2_000;
    let done = Countdown::leaked(JOBS);
    for i in 0..JOBS {
        pool.execute(i % tenants, 1, || done.hit());
    }
    done.wait();
}

/// Weights from 1 to 3.
pub fn weight(tenant: usize) -> Weight {
    Weight::new(tenant as u32 % 3 + 1)
}

fn fair_pool(workers: usize) -> WorkerPool {
    let pool = WorkerPool::builder().workers(workers).fair().build();
    pool.expect("threads")
}

/// Fairlane, with a handle for each tenant: what a long-lived party has.
pub struct Handles {
    tenants: Vec<Tenant>,
    pool: WorkerPool,
}

impl Gated for Handles {
    const NAME: &'static str = "fairlane, tenants by handle";
    const KIND: Kind = Kind::Ours;

    fn start(workers: usize, tenants: usize) -> Self {
        let pool = fair_pool(workers);
        let tenant = |i: usize| pool.tenant(&i.to_string()).with_weight(weight(i));
        Handles {
            tenants: (0..tenants).map(tenant).collect(),
            pool,
        }
    }

    fn execute(&self, tenant: usize, priority: i32, job: impl FnOnce() + Send + 'static) {
        let builder = self.tenants[tenant].job().priority(priority);
        assert!(builder.execute(job).is_ok());
    }

    fn stop(self) {
        drop(self.tenants);
        self.pool.shutdown();
    }
}

/// Fairlane, with a name and a weight in each job: what a server has that does not know its clients.
struct Names {
    names: Vec<String>,
    pool: WorkerPool,
}

impl Gated for Names {
    const NAME: &'static str = "fairlane, tenants by name";
    const KIND: Kind = Kind::Ours;

    fn start(workers: usize, tenants: usize) -> Self {
        Names {
            names: (0..tenants).map(|i| i.to_string()).collect(),
            pool: fair_pool(workers),
        }
    }

    fn execute(&self, tenant: usize, priority: i32, job: impl FnOnce() + Send + 'static) {
        let builder = self.pool.job().tenant(&self.names[tenant]);
        let builder = builder.weight(weight(tenant)).priority(priority);
        assert!(builder.execute(job).is_ok());
    }

    fn stop(self) {
        self.pool.shutdown();
    }
}

/// Rayon's `spawn`: no limit, no tenants, no priorities.
pub struct Ungated(Rayon);

impl Gated for Ungated {
    const NAME: &'static str = "rayon, no gate";
    const KIND: Kind = Kind::Reference;

    fn start(workers: usize, _tenants: usize) -> Self {
        Ungated(Rayon::start(workers))
    }

    fn execute(&self, _tenant: usize, _priority: i32, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    fn stop(self) {
        self.0.stop();
    }
}

/// One priority queue under a lock, for all tenants alike.
pub struct Heap {
    queue: Arc<LockedQueue<BinaryHeap<Entry>>>,
    arrivals: AtomicU64,
    threads: Vec<JoinHandle<()>>,
}

/// Higher priorities first, then in order of arrival.
struct Entry {
    priority: i32,
    arrival: u64,
    job: BoxedJob,
}

impl Entry {
    fn key(&self) -> (i32, Reverse<u64>) {
        (self.priority, Reverse(self.arrival))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl Gated for Heap {
    const NAME: &'static str = "Mutex&lt;BinaryHeap&gt; + Condvar, no tenants";

    fn start(workers: usize, _tenants: usize) -> Self {
        let queue = Arc::new(LockedQueue::<BinaryHeap<Entry>>::default());
        let jobs = Arc::clone(&queue);
        let next = move || jobs.pop(BinaryHeap::pop).map(|entry| entry.job);
        Heap {
            queue,
            arrivals: AtomicU64::new(0),
            threads: start_threads(workers, next),
        }
    }

    fn execute(&self, _tenant: usize, priority: i32, job: impl FnOnce() + Send + 'static) {
        let entry = Entry {
            priority,
            arrival: self.arrivals.fetch_add(1, Relaxed),
            job: Box::new(job),
        };
        self.queue.push(|jobs| jobs.push(entry));
    }

    fn stop(self) {
        self.queue.close();
        join_threads(self.threads);
    }
}
