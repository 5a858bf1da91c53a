//! Closures and results of every size and alignment arrive intact.

use fairlane::{JobError, WorkerPool};

use crate::common::*;

/// `N` bytes that say whether they were moved well.
#[derive(Clone, Copy, PartialEq)]
struct Bytes<const N: usize>([u8; N]);

impl<const N: usize> Bytes<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|i| (i * 31 + N) as u8))
    }

    #[track_caller]
    fn check(&self) {
        assert!(*self == Self::new(), "{N} bytes");
    }
}

/// Asserts that `value` has its alignment where it lies now.
#[track_caller]
fn check_aligned<T>(value: &T) {
    assert!(std::ptr::from_ref(value).is_aligned());
}

fn round_trip<T: Clone + Send + 'static>(pool: &WorkerPool, value: T, check: fn(&T)) {
    let captured = value.clone();
    let returned = pool.submit(move || {
        check_aligned(&captured);
        check(&captured);
        captured
    });
    let returned = returned.unwrap().join().unwrap();
    check(&returned);

    let captured = value.clone();
    pool.execute(move || check(&captured)).unwrap();

    let held = hold_workers(pool, 1);
    let captured = value.clone();
    let cancelled = pool.submit(move || check(&captured)).unwrap();
    assert!(cancelled.cancel());
    assert!(matches!(cancelled.join(), Err(JobError::Cancelled)));
    held.release();

    let mapped: Vec<_> = pool
        .map([value], |value| value)
        .map(Result::unwrap)
        .collect();
    check(&mapped[0]);
}

macro_rules! sizes {
    ($pool:expr, $($n:literal)+) => {
        $(round_trip($pool, Bytes::<$n>::new(), Bytes::check);)+
    };
}

macro_rules! alignments {
    ($pool:expr, $($n:literal)+) => {
        $({
            #[derive(Clone)]
            #[repr(align($n))]
            struct Aligned(Bytes<3>);
            round_trip($pool, Aligned(Bytes::new()), |value| {
                check_aligned(value);
                value.0.check();
            });
        })+
    };
}

scenario!(closures_and_results_of_every_size, |flavour| {
    let pool = flavour.pool(1);
    sizes!(&*pool, 0 1 2 3 4 7 8 9 15 16 17 23 24 25 31 32 33 40 47 48 49 63 64 65 127 128 129);
    sizes!(&*pool, 255 256 1024 4095 4096 4097);
    alignments!(&*pool, 1 2 4 8 16 32 64 128 256 1024 4096);
    assert_eq!(pool.stats().panicked, 0);
    finish(pool);
});

scenario!(huge_closures_and_results, |flavour| {
    // Without optimisation a large value is copied once per call on its way.
    const STACK: usize = 64 << 20;
    let body = || {
        let pool = flavour.build(flavour.builder().workers(1).stack_size(STACK));
        round_trip(&pool, Bytes::<{ 64 << 10 }>::new(), Bytes::check);
        let result = pool
            .submit(Bytes::<{ 1 << 20 }>::new)
            .unwrap()
            .join()
            .unwrap();
        result.check();
        assert_eq!(pool.stats().panicked, 0);
        finish(pool);
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, body)
            .unwrap();
    });
});

scenario!(zero_sized_closures_run_once_each, |flavour| {
    static RAN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    fn count() {
        RAN.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    let pool = flavour.pool(2);
    for _ in 0..1_000 {
        pool.execute(count).unwrap();
        drop(pool.submit(count).unwrap());
    }
    pool.wait_idle();
    assert_eq!(pool.stats().completed, 2_000);
    // The other flavour counts here too.
    assert!(RAN.load(std::sync::atomic::Ordering::SeqCst) >= 2_000);
    finish(pool);
});
