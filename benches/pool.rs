//! What a job costs its submitter and the pool, and how choosing a slot grows with their number.

use std::hint::black_box;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use fairlane::Strategy::{LeastBusy, RoundRobin};
use fairlane::{
    CancelToken, Fairness, Priority, SlotLoad, Strategy, Tenant, Weight, WorkerPool, pick_slot,
};

const SLOTS: [usize; 6] = [1, 2, 8, 64, 256, 1_024];
const WORKERS: usize = 2;

/// What the pool projects a slot to: the number alone.
struct Slot(usize);

impl SlotLoad for Slot {
    fn pending_count(&self) -> usize {
        self.0
    }
}

fn pick(c: &mut Criterion) {
    let mut group = c.benchmark_group("pick_slot");
    for slots in SLOTS {
        pick_from(&mut group, "round-robin", slots, RoundRobin, |_| 1);
        pick_from(&mut group, "all idle", slots, LeastBusy, |_| 0);
        // The only idle one stands in the middle, where the search ends on average.
        let some = |i| usize::from(i != slots / 2);
        pick_from(&mut group, "some idle", slots, LeastBusy, some);
        let none = |i| 1 + i % 7;
        pick_from(&mut group, "none idle", slots, LeastBusy, none);
    }
    group.finish();
}

fn pick_from(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    slots: usize,
    strategy: Strategy,
    pending: impl Fn(usize) -> usize,
) {
    let list: Vec<_> = (0..slots).map(|i| Slot(pending(i))).collect();
    let mut next_index = 0;
    group.bench_function(BenchmarkId::new(name, slots), |b| {
        b.iter(|| {
            let pick = pick_slot(strategy, black_box(&list), next_index);
            let pick = pick.expect("there are slots");
            next_index = pick.next_index;
            pick.index
        });
    });
}

/// What a real pool needs to find its only idle slot: a job that is cancelled already is counted in at
/// the slot that was picked, and settles there and then.
fn pick_in_a_pool(c: &mut Criterion) {
    let mut group = c.benchmark_group("execute cancelled, one slot idle");
    for slots in SLOTS {
        let builder = WorkerPool::builder().workers(slots).stack_size(64 * 1024);
        let pool = builder.build().expect("threads");
        let lift = block_all_but_one(&pool);
        let token = CancelToken::new();
        token.cancel();
        group.bench_function(BenchmarkId::from_parameter(slots), |b| {
            b.iter(|| pool.job().cancel_token(&token).execute(|| ()).is_ok());
        });
        drop(lift);
    }
    group.finish();
}

/// Occupies slot after slot until the sender is dropped.
fn block_all_but_one(pool: &WorkerPool) -> Sender<()> {
    let (lift, lifted) = mpsc::channel::<()>();
    let lifted = Arc::new(Mutex::new(lifted));
    let (begin, begun) = mpsc::channel();
    for _ in 1..pool.workers() {
        let (begin, lifted) = (begin.clone(), Arc::clone(&lifted));
        let block = move || {
            begin.send(()).expect("somebody waits for this");
            // The first waits for the end, the others for the first.
            drop(lifted.lock().map(|lifted| lifted.recv()));
        };
        assert!(pool.execute(block).is_ok());
        begun.recv().expect("the job begins");
    }
    lift
}

/// The same two workers, with and without a gate in front.
fn pools() -> [(&'static str, WorkerPool); 4] {
    let builder = |strategy| WorkerPool::builder().workers(WORKERS).strategy(strategy);
    [
        ("unlimited, round-robin", builder(RoundRobin)),
        ("unlimited, least-busy", builder(LeastBusy)),
        ("limit, round-robin", builder(RoundRobin).fair()),
        ("limit, least-busy", builder(LeastBusy).fair()),
    ]
    .map(|(name, builder)| (name, builder.build().expect("threads")))
}

/// What charging CPU time adds: a clock reading and the other rule, a job. The tenants' backlogs are deep,
/// so the threads never run out of jobs and none has to be woken.
fn charging(c: &mut Criterion) {
    let mut group = c.benchmark_group("charging");
    group.throughput(Throughput::Elements(1));
    for (name, fairness) in [("jobs", Fairness::Jobs), ("CPU time", Fairness::CpuTime)] {
        for tenants in [1, 10, 1_000] {
            let builder = WorkerPool::builder().workers(1).fair();
            let pool = builder.fairness(fairness).build().expect("threads");
            let tenants: Vec<_> = (0..tenants).map(|n| pool.tenant(&n.to_string())).collect();
            let id = BenchmarkId::new(name, tenants.len());
            group.bench_function(id, |b| b.iter_custom(|jobs| serve(&pool, &tenants, jobs)));
        }
    }
    group.finish();
}

/// From the first job's beginning to the end of the last one, all of them queued before.
fn serve(pool: &WorkerPool, tenants: &[Tenant], jobs: u64) -> Duration {
    let (start, begin) = mpsc::channel::<()>();
    let holder = pool.submit(move || begin.recv().is_err());
    for n in 0..jobs {
        assert!(tenants[n as usize % tenants.len()].execute(|| ()).is_ok());
    }
    let clock = Instant::now();
    drop(start);
    pool.wait_idle();
    drop(holder);
    clock.elapsed()
}

/// From the first submit to the end of the last job.
fn execute(c: &mut Criterion) {
    let mut group = c.benchmark_group("execute");
    group.throughput(Throughput::Elements(1));
    for (name, pool) in pools() {
        group.bench_function(name, |b| b.iter_custom(|jobs| flood(&pool, jobs)));
    }
    group.finish();
}

fn flood(pool: &WorkerPool, jobs: u64) -> Duration {
    flood_by(pool, jobs, || pool.execute(|| ()).is_ok())
}

fn flood_by(pool: &WorkerPool, jobs: u64, execute: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    for _ in 0..jobs {
        assert!(execute());
    }
    pool.wait_idle();
    start.elapsed()
}

/// What tenants, weights and priorities cost a pool without a limit, where they have no effect: the
/// four are to be equal in time. By `benches/instructions.sh` they differ by what it takes to say them.
fn unlimited(c: &mut Criterion) {
    let pool = WorkerPool::new(WORKERS).expect("threads");
    let tenant = pool.tenant("tenant").with_weight(Weight::new(3));
    let mut group = c.benchmark_group("execute without a limit");
    group.throughput(Throughput::Elements(1));
    let mut bench = |name, execute: &dyn Fn() -> bool| {
        group.bench_function(name, |b| {
            b.iter_custom(|jobs| flood_by(&pool, jobs, execute));
        });
    };
    bench("plain", &|| pool.execute(|| ()).is_ok());
    bench("by a tenant", &|| tenant.execute(|| ()).is_ok());
    bench("with a priority", &|| {
        pool.job().priority(Priority::HIGH).execute(|| ()).is_ok()
    });
    bench("by a tenant, with weight and priority", &|| {
        let job = tenant.job().weight(Weight::new(3));
        job.priority(Priority::HIGH).execute(|| ()).is_ok()
    });
    group.finish();
}

/// One job at a time.
fn round_trip(c: &mut Criterion) {
    let mut group = c.benchmark_group("submit and join, one at a time");
    for (name, pool) in pools() {
        group.bench_function(name, |b| {
            b.iter(|| {
                let handle = pool.submit(|| black_box(1)).expect("the pool is open");
                handle.join().expect("the job runs")
            });
        });
    }
    group.finish();
}

/// All results kept, then joined.
fn batch(c: &mut Criterion) {
    const JOBS: u64 = 1_000;
    let mut group = c.benchmark_group("submit and join, a thousand at a time");
    group.throughput(Throughput::Elements(JOBS));
    for (name, pool) in pools() {
        group.bench_function(name, |b| b.iter(|| sum_of(&pool, JOBS)));
    }
    group.finish();
}

fn sum_of(pool: &WorkerPool, jobs: u64) -> u64 {
    let submit = |i| pool.submit(move || i).expect("the pool is open");
    let handles: Vec<_> = (0..jobs).map(submit).collect();
    let results = handles.into_iter().map(|handle| handle.join());
    results.map(|result| result.expect("the job runs")).sum()
}

criterion_group!(
    benches,
    pick,
    pick_in_a_pool,
    execute,
    unlimited,
    charging,
    round_trip,
    batch
);
criterion_main!(benches);
