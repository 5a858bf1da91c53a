//! Memory and threads follow what lives: a burst, a thousand pools, a million jobs leave nothing.
//!
//! Other tests of this binary allocate at the same time, so whoever counts bytes does it
//! [alone in a process](alone_in_a_process).
#![allow(unsafe_code)] // A global allocator that counts can be had in no other way.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fairlane::{Submit, WorkerPool};

use crate::common::*;

/// The system's allocator, with a count of the bytes that are in use.
struct Counting;

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

/// What a thread does beside freeing a block of so many bytes.
type OnFree = (usize, fn());

thread_local! {
    /// Blocks that this thread has asked for so far.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static ON_FREE: Cell<Option<OnFree>> = const { Cell::new(None) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches no memory
// but statics, of which the thread's own have no destructor and are always there.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is the one that is asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some((size, act)) = ON_FREE.take() {
            if size == layout.size() {
                act();
            }
            ON_FREE.set(Some((size, act)));
        }
        LIVE_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller got `block` from this allocator, hence from the system's, with `layout`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.fetch_add(size as isize - layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as in `dealloc`, and the caller's promise about `size` is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `body` in a fresh process that runs this one test and nothing else.
pub(crate) fn alone_in_a_process(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "FAIRLANE_TEST_ALONE";
    if std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().expect("the test has a file"));
    command
        .args([test, "--exact", "--test-threads=1"])
        .env(ALONE, test);
    let output = command.output().expect("the test can start itself");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{test} names one test:\n{said}");
}

/// Runs `body` and asserts that less than `limit` bytes more are in use afterwards.
#[track_caller]
pub(crate) fn grown_by_less_than(limit: usize, body: impl FnOnce()) {
    let before = LIVE_BYTES.load(Ordering::SeqCst);
    body();
    let grown = || LIVE_BYTES.load(Ordering::SeqCst) - before;
    // A worker may still be putting away its tools.
    let give_up = Instant::now() + Duration::from_secs(30);
    while grown() >= limit as isize {
        let more = grown();
        assert!(
            Instant::now() < give_up,
            "{more} bytes more are in use, {limit} is the limit"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asserts that a call allocates `expected` times on this thread, beside blocks that some dozens of
/// jobs share, in the queue and for their results, and tables that grow.
#[track_caller]
fn assert_allocates(expected: usize, mut call: impl FnMut(usize)) {
    const CALLS: usize = 2_000;
    let before = ALLOCATIONS.get();
    (0..CALLS).for_each(&mut call);
    let more = ALLOCATIONS.get() - before;
    let least = expected * CALLS;
    let most = least + CALLS / 10;
    assert!(
        (least..=most).contains(&more),
        "{more} allocations in {CALLS} calls"
    );
}

/// What submitting allocates on the thread of the caller, as the guide has it.
fn assert_submits_allocate_as_promised(queue: &impl Submit) {
    let (three_words, four_words) = ([1u64; 3], [1u64; 4]);
    let (ordinary, just_ordinary, large) = ([1u64; 8], [1u64; 25], [1u64; 30]);
    assert_allocates(0, |_| {
        queue.execute(move || _ = black_box(three_words)).unwrap();
    });
    assert_allocates(1, |_| {
        queue.execute(move || _ = black_box(four_words)).unwrap();
    });
    assert_allocates(0, |_| drop(queue.submit(move || ordinary).unwrap()));
    assert_allocates(0, |_| drop(queue.submit(move || just_ordinary).unwrap()));
    assert_allocates(1, |_| drop(queue.submit(move || large).unwrap()));
}

scenario!(allocations, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    assert_submits_allocate_as_promised(&*pool);
    assert_submits_allocate_as_promised(&pool.tenant("a"));
    let mut handles = Vec::with_capacity(2_000);
    assert_allocates(0, |i| handles.push(pool.submit(move || [i; 8]).unwrap()));
    held.release();
    pool.wait_idle();
    let mut handles = handles.into_iter();
    assert_allocates(0, |i| {
        assert_eq!(handles.next().unwrap().join().unwrap(), [i; 8]);
    });
    finish(pool);
});

/// A block of many jobs may be freed while the next one is begun, by an allocator that submits a job
/// meanwhile: none of the blocks is forgotten.
#[test]
fn an_allocator_may_submit_jobs() {
    static POOL: OnceLock<WorkerPool> = OnceLock::new();
    const BLOCK: usize = 4096;
    fn submit() {
        drop(POOL.get().expect("there is a pool").submit(|| ()));
    }
    fn fill_a_block(pool: &WorkerPool) {
        for _ in 0..16 {
            let handle = pool.submit(|| [1u8; 200]).unwrap();
            while !handle.is_finished() {
                std::thread::yield_now();
            }
            handle.join().unwrap();
        }
    }
    alone_in_a_process("counts::memory::an_allocator_may_submit_jobs", || {
        let pool = POOL.get_or_init(|| WorkerPool::new(1).unwrap());
        (0..10).for_each(|_| fill_a_block(pool));
        grown_by_less_than(16 * BLOCK, || {
            ON_FREE.set(Some((BLOCK, submit)));
            (0..64).for_each(|_| fill_a_block(pool));
            ON_FREE.set(None);
            pool.wait_idle();
        });
    });
}

/// The resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

fn burst(pool: &WorkerPool, probe: &Probe) {
    let held = hold_workers(pool, pool.workers());
    let mut handles = Vec::new();
    for i in 0..100_000_usize {
        let (ballast, count) = ([i; 16], probe.job());
        let job = move || {
            count();
            ballast.iter().sum::<usize>()
        };
        if i % 2 == 0 {
            handles.push(pool.submit(job).unwrap());
        } else {
            pool.execute(|| _ = job()).unwrap();
        }
    }
    held.release();
    for handle in handles {
        handle.join().unwrap();
    }
    pool.wait_idle();
}

scenario!(a_burst_gives_its_memory_back, |flavour| {
    alone_in_a_process(flavour.test(), || {
        let pool = flavour.pool(2);
        let probe = Probe::new();
        let small = || pool.submit(|| ()).unwrap().join().unwrap();
        small();
        grown_by_less_than(512 << 10, || burst(&pool, &probe));
        probe.assert_all_dropped(100_000);
        // Nor does it grow from burst to burst.
        grown_by_less_than(128 << 10, || (0..3).for_each(|_| burst(&pool, &probe)));
        probe.assert_all_dropped(400_000);
        finish(pool);
    });
});

scenario!(a_cancelled_burst_gives_its_memory_back, |flavour| {
    alone_in_a_process(flavour.test(), || {
        let pool = flavour.pool(2);
        let probe = Probe::new();
        grown_by_less_than(512 << 10, || {
            let held = hold_workers(&pool, 2);
            let jobs: Vec<_> = (0..100_000)
                .map(|_| pool.submit(probe.job()).unwrap())
                .collect();
            assert_eq!(pool.cancel_queued(), 100_000);
            drop(jobs);
            held.release();
        });
        probe.assert_all_dropped(0);
        finish(pool);
    });
});

scenario!(a_thousand_pools_leave_nothing, |flavour| {
    alone_in_a_process(flavour.test(), || {
        let probe = Probe::new();
        let live = |i: usize| {
            let pool = flavour.builder().workers(4).build().unwrap();
            if i % 2 == 0 {
                pool.execute(probe.job()).unwrap();
                drop(pool.submit(probe.job()).unwrap());
            }
            match i % 3 {
                0 => pool.shutdown(),
                1 => drop(pool),
                _ => drop(Arc::new(pool)),
            }
        };
        (0..20).for_each(live);
        #[cfg(target_os = "linux")]
        let before = resident();
        grown_by_less_than(128 << 10, || (0..1_000).for_each(live));
        probe.assert_all_dropped(1_020);
        assert_no_threads(flavour.thread_prefix());
        // A leaked stack would cost at least two pages for each of 4,000 threads.
        #[cfg(target_os = "linux")]
        assert!(
            resident() < before + (16 << 20),
            "from {before} to {}",
            resident()
        );
    });
});

scenario!(a_million_small_jobs_leave_nothing, |flavour| {
    alone_in_a_process(flavour.test(), || {
        let pool = flavour.pool(2);
        let work = |n: usize| {
            for i in 0..n {
                match i % 3 {
                    0 => pool.execute(|| ()).unwrap(),
                    1 => drop(pool.submit(move || i).unwrap()),
                    _ => assert_eq!(pool.submit(move || i).unwrap().join().unwrap(), i),
                }
            }
            pool.wait_idle();
        };
        work(10_000);
        grown_by_less_than(256 << 10, || work(rounds(1_000_000)));
        finish(pool);
    });
});
