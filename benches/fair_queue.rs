//! What the queue's operations cost, from one lane to a million.
//!
//! Beside the medians, `cargo bench --bench fair_queue -- worst` prints the longest single pop and
//! the memory of a lane and of a job; it takes a few seconds and makes no claim by itself.

#![allow(missing_docs)] // criterion's macros make public functions
#![allow(unsafe_code)] // the counting allocator

use criterion::{BenchmarkId, Criterion, Throughput};
use fairlane::{FairQueue, Priority, Ticket, Weight};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const LANES: [u64; 5] = [1, 10, 1_000, 100_000, 1_000_000];
const DEPTH: u64 = 10;

/// How many distinct weights: lane `n` has weight `n % kinds + 1`.
const KINDS: [(&str, u64); 3] = [("equal", 1), ("1..3", 3), ("1..1000", 1000)];

/// Names that neighbours in time are not neighbours in memory for.
fn name(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn weight(n: u64, kinds: u64) -> Weight {
    Weight::new((n % kinds) as u32 + 1)
}

fn filled(lanes: u64, kinds: u64) -> FairQueue<u64, u64> {
    let mut queue = FairQueue::new();
    for round in 0..DEPTH {
        for n in 0..lanes {
            queue.push_weighted(name(n), weight(n, kinds), Priority::NORMAL, round);
        }
    }
    queue
}

/// Times batches of `timed`, and undoes each batch with `undo` outside the clock.
fn batches<S>(
    iters: u64,
    batch: u64,
    state: &mut S,
    timed: impl Fn(&mut S, u64),
    undo: impl Fn(&mut S, u64),
) -> Duration {
    let (mut spent, mut left) = (Duration::ZERO, iters);
    while left > 0 {
        let count = left.min(batch);
        let begin = Instant::now();
        timed(state, count);
        spent += begin.elapsed();
        undo(state, count);
        left -= count;
    }
    spent
}

/// The queue, and the tenants popped from it.
type State = (FairQueue<u64, u64>, Vec<u64>);

fn pop_batch((queue, popped): &mut State, count: u64) {
    for _ in 0..count {
        let (tenant, item) = queue.pop().expect("a deep queue");
        black_box(item);
        popped.push(tenant);
    }
}

fn push_batch((queue, popped): &mut State, count: u64) {
    let first = popped.len() - count as usize;
    for tenant in popped.drain(first..) {
        black_box(queue.push(tenant, Priority::NORMAL, 0));
    }
}

fn pop_and_push(c: &mut Criterion) {
    for (label, kinds) in KINDS {
        for lanes in LANES {
            bench_pop_and_push(c, label, lanes, kinds);
        }
    }
    bench_pop_and_push(c, "single", 1, 1);
}

fn bench_pop_and_push(c: &mut Criterion, label: &str, lanes: u64, kinds: u64) {
    // Two rounds at most, so that no lane runs dry while a batch is out.
    let batch = (lanes * 2).clamp(8, 100_000);
    let mut state = (filled(lanes, kinds), Vec::with_capacity(batch as usize));
    let mut group = c.benchmark_group(format!("pop {label}"));
    group.throughput(Throughput::Elements(1));
    group.bench_function(BenchmarkId::from_parameter(lanes), |b| {
        b.iter_custom(|iters| batches(iters, batch, &mut state, pop_batch, push_batch));
    });
    group.finish();
    let mut group = c.benchmark_group(format!("push {label}"));
    group.bench_function(BenchmarkId::from_parameter(lanes), |b| {
        b.iter_custom(|iters| {
            pop_batch(&mut state, batch);
            let spent = batches(iters, batch, &mut state, push_batch, pop_batch);
            let left = state.1.len() as u64;
            push_batch(&mut state, left);
            spent
        });
    });
    group.finish();
}

fn remove_and_set_weight(c: &mut Criterion) {
    for lanes in LANES {
        let mut group = c.benchmark_group("remove");
        group.bench_function(BenchmarkId::from_parameter(lanes), |b| {
            let mut state = (filled(lanes, 3), Vec::<Ticket>::new(), 0);
            let push = |state: &mut (FairQueue<u64, u64>, Vec<Ticket>, u64), count: u64| {
                for _ in 0..count {
                    state.2 = (state.2 + 1) % lanes;
                    let ticket = state.0.push(name(state.2), Priority::NORMAL, 0);
                    state.1.push(ticket);
                }
            };
            push(&mut state, 1000);
            b.iter_custom(|iters| {
                let remove = |state: &mut (FairQueue<u64, u64>, Vec<Ticket>, u64), count| {
                    for ticket in state.1.drain(..count as usize) {
                        black_box(state.0.remove(ticket));
                    }
                };
                batches(iters, 1000, &mut state, remove, push)
            });
        });
        group.finish();
        let mut group = c.benchmark_group("set_weight");
        group.bench_function(BenchmarkId::from_parameter(lanes), |b| {
            let mut queue = filled(lanes, 3);
            let mut n = 0;
            b.iter(|| {
                n += 1;
                queue.set_weight(&name(n % lanes), weight(n, 7))
            });
        });
        group.finish();
    }
}

/// What a million lanes of three jobs cost in memory, and the queue itself.
fn million(kinds: u64) -> (FairQueue<u64, u64>, f64, f64) {
    let lanes = 1_000_000;
    let before = LIVE.load(Relaxed);
    let mut queue = FairQueue::new();
    for n in 0..lanes {
        queue.push_weighted(name(n), weight(n, kinds), Priority::NORMAL, n);
    }
    let one_each = LIVE.load(Relaxed) - before;
    for n in (0..lanes).chain(0..lanes) {
        queue.push(name(n), Priority::NORMAL, n);
    }
    let three_each = LIVE.load(Relaxed) - before;
    let job = (three_each - one_each) as f64 / (2 * lanes) as f64;
    (queue, job, one_each as f64 / lanes as f64 - job)
}

/// The longest single pop while a million lanes empty, and what they cost in memory. The order is
/// always the same, so the least of a few runs is taken for each pop: that leaves the work of the
/// queue, and drops what other processes took.
fn worst() {
    for (label, kinds) in [
        ("equal", 1),
        ("1..3", 3),
        ("1..1000", 1000),
        ("all different", 1 << 32),
    ] {
        let mut least = vec![Duration::MAX; 3_000_000];
        for _ in 0..5 {
            let mut queue = million(kinds).0;
            for time in &mut least {
                let begin = Instant::now();
                black_box(queue.pop());
                *time = begin.elapsed().min(*time);
            }
        }
        let worst = (0..least.len()).max_by_key(|&at| least[at]).unwrap_or(0);
        let (longest, sum) = (least[worst], least.iter().sum::<Duration>());
        let (_, job, lane) = million(kinds);
        println!(
            "weights {label}: worst pop {longest:?} (the {worst}th), mean {:?}; {job:.1} bytes a job of 8, {lane:.1} a lane",
            sum / least.len() as u32,
        );
    }
    let before = LIVE.load(Relaxed);
    let mut queue = FairQueue::new();
    let tickets: Vec<_> = (0..10_000_000_u64)
        .map(|n| queue.push(0, Priority::NORMAL, n))
        .collect();
    for &ticket in &tickets[1..] {
        queue.remove(ticket);
    }
    drop(tickets);
    println!(
        "one job left of ten million: {} bytes",
        LIVE.load(Relaxed) - before
    );
}

fn main() {
    if std::env::args().any(|arg| arg == "worst") {
        return worst();
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500))
        .sample_size(20)
        .configure_from_args();
    pop_and_push(&mut criterion);
    remove_and_set_weight(&mut criterion);
    criterion.final_summary();
}
