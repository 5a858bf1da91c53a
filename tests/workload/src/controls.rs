//! Faults committed on purpose, inside jobs of a pool: a checker that is silent about them would be
//! silent about everything.

use std::cell::UnsafeCell;
use std::sync::{Arc, Barrier};

use fairlane::WorkerPool;

pub(crate) fn commit(fault: &str) {
    match fault {
        "race" => race(),
        "race-in-order" => race_in_order(),
        "use-after-free" => use_after_free(),
        "leak" => leak(),
        other => panic!("there is no fault {other:?}"),
    }
}

struct Racy(UnsafeCell<u64>);

// SAFETY: a lie. It is what the race is made of.
unsafe impl Sync for Racy {}

impl Racy {
    fn add(&self) {
        // SAFETY: none; see above.
        unsafe { *self.0.get() += 1 };
    }
}

/// Two jobs at once write to one place.
fn race() {
    let pool = WorkerPool::new(2).unwrap();
    let (shared, both) = (
        Arc::new(Racy(UnsafeCell::new(0))),
        Arc::new(Barrier::new(2)),
    );
    for _ in 0..2 {
        let (shared, both) = (Arc::clone(&shared), Arc::clone(&both));
        pool.execute(move || {
            both.wait();
            (0..1_000).for_each(|_| shared.add());
        })
        .unwrap();
    }
    pool.shutdown();
}

/// The same without a race, as a job's end and its handle's join come in between: this has to pass,
/// or the checker knows nothing of the pool's own order.
fn race_in_order() {
    let pool = WorkerPool::new(2).unwrap();
    let shared = Arc::new(Racy(UnsafeCell::new(0)));
    for _ in 0..100 {
        shared.add();
        let inside = Arc::clone(&shared);
        pool.submit(move || inside.add()).unwrap().join().unwrap();
    }
    shared.add();
    pool.shutdown();
}

/// A job keeps a pointer to what it has dropped.
fn use_after_free() {
    let pool = WorkerPool::new(1).unwrap();
    let job = pool.submit(|| {
        let boxed = Box::new([7_u64; 8]);
        let dangling: *const u64 = &raw const boxed[3];
        drop(std::hint::black_box(boxed));
        // SAFETY: none, the box is gone.
        unsafe { std::hint::black_box(dangling).read_volatile() }
    });
    println!("read {:?}", job.unwrap().join());
}

/// A job forgets what it owns.
fn leak() {
    let pool = WorkerPool::new(1).unwrap();
    let job = pool.submit(|| {
        let boxed = Box::new([7_u64; 1000]);
        std::mem::forget(std::hint::black_box(boxed));
    });
    job.unwrap().join().unwrap();
    pool.shutdown();
}
