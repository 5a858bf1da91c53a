//! A process that may not have much memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use fairlane::WorkerPool;

use crate::rerun::{can_run, say};

const SIGABRT: i32 = 6;

/// Address space for the child: its binary, stacks and arenas, and a small part of what is submitted.
const LIMIT: [&str; 2] = ["prlimit", "--as=1073741824"];

/// Bytes a closure, and how many of those it takes to exceed the limit twice. A debug build submits
/// fewer and larger ones.
const CLOSURE: usize = if cfg!(debug_assertions) { 8192 } else { 1024 };
const JOBS: usize = (2 << 30) / CLOSURE;

fn flood(pool: &WorkerPool, lanes: bool) -> usize {
    let ran = Arc::new(AtomicUsize::new(0));
    for n in 0..JOBS {
        let (ran, load) = (Arc::clone(&ran), [n as u8; CLOSURE]);
        let job = move || {
            assert!(load.iter().take(8).all(|&byte| byte == n as u8));
            ran.fetch_add(1, Ordering::Relaxed);
        };
        if lanes {
            // Every one comes from somebody never heard of before.
            pool.job().tenant(format!("once {n}")).execute(job).unwrap();
        } else {
            pool.execute(job).unwrap();
        }
    }
    pool.wait_idle();
    ran.load(Ordering::Relaxed)
}

process_test!(a_bounded_queue_fits_into_little_memory,
    child {
        let builder = WorkerPool::builder().workers(2).queue_limit(1_000);
        let pool = builder.build().unwrap();
        assert_eq!(flood(&pool, false), JOBS);
        assert_eq!(pool.stats().completed, JOBS as u64);
    }
    parent |rerun| {
        if can_run("prlimit", rerun.test()) {
            rerun.run(&LIMIT).assert_passed();
        }
    }
);

process_test!(bounded_lanes_fit_into_little_memory,
    child {
        let builder = WorkerPool::builder().workers(2).fair().queue_limit(1_000);
        let pool = builder.build().unwrap();
        assert_eq!(flood(&pool, true), JOBS);
        let stats = pool.stats();
        assert_eq!(stats.completed, JOBS as u64);
        assert_eq!(stats.tenants.len(), 0, "nobody is remembered");
    }
    parent |rerun| {
        if can_run("prlimit", rerun.test()) {
            rerun.run(&LIMIT).assert_passed();
        }
    }
);

// Without a bound the same flood does not fit, or the tests above would prove nothing.
process_test!(an_unbounded_queue_does_not_fit,
    child {
        let pool = WorkerPool::new(1).unwrap();
        let (_hold, held) = mpsc::channel::<()>();
        pool.execute(move || _ = held.recv()).unwrap();
        say("flooding");
        flood(&pool, false);
        unreachable!("there is not that much memory");
    }
    parent |rerun| {
        if can_run("prlimit", rerun.test()) {
            let ended = rerun.run(&LIMIT);
            assert!(ended.printed.contains("flooding"), "{ended:#?}");
            ended.assert_signal(&[SIGABRT]);
        }
    }
);
