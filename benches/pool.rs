//! What a job costs its submitter and the pool, and how choosing a slot grows with their number.

use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use fairlane::Strategy::{LeastBusy, RoundRobin};
use fairlane::{Fairness, SlotLoad, Strategy, Tenant, WorkerPool, pick_slot};

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
    let start = Instant::now();
    for _ in 0..jobs {
        assert!(pool.execute(|| ()).is_ok());
    }
    pool.wait_idle();
    start.elapsed()
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

criterion_group!(benches, pick, charging, execute, round_trip, batch);
criterion_main!(benches);
