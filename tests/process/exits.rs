//! A process that ends while its pool is at work: nothing holds it up.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use fairlane::WorkerPool;

/// A pool whose two workers are busy for ever, with more waiting; `true` limits it.
fn busy_pool(fair: bool) -> WorkerPool {
    let builder = WorkerPool::builder().workers(2);
    let builder = if fair { builder.fair() } else { builder };
    let pool = builder.build().unwrap();
    let (begun, begins) = mpsc::channel();
    for _ in 0..2 {
        let begun = begun.clone();
        pool.execute(move || {
            begun.send(()).unwrap();
            for_ever();
        })
        .unwrap();
    }
    (0..2).for_each(|_| begins.recv().unwrap());
    (0..100).for_each(|_| pool.execute(for_ever).unwrap());
    pool
}

fn for_ever() {
    loop {
        std::thread::park();
    }
}

process_test!(exit_does_not_wait_for_jobs,
    child {
        let _pools = [busy_pool(false), busy_pool(true)];
        std::process::exit(3);
    }
    parent |rerun| {
        rerun.run(&[]).assert_code(3);
    }
);

process_test!(exit_inside_a_job,
    child {
        let pool = busy_pool(false);
        let own = WorkerPool::new(1).unwrap();
        let exits = own.submit(move || {
            let _keep = &pool;
            std::process::exit(4)
        });
        drop(exits.unwrap().join());
    }
    parent |rerun| {
        rerun.run(&[]).assert_code(4);
    }
);

process_test!(exit_while_another_thread_drains,
    child {
        let pool = busy_pool(true);
        let tenant = pool.tenant("observer");
        std::thread::spawn(move || pool.shutdown());
        while tenant.try_submit(|| ()).is_ok() {
            std::thread::yield_now();
        }
        std::process::exit(5);
    }
    parent |rerun| {
        rerun.run(&[]).assert_code(5);
    }
);

process_test!(main_returns_with_detached_threads,
    child {
        for fair in [false, true] {
            let left = busy_pool(fair).shutdown_timeout(Duration::ZERO).unwrap_err();
            assert_eq!((left.discarded(), left.running()), (100, 2));
        }
    }
    parent |rerun| {
        rerun.run(&[]).assert_passed();
    }
);

process_test!(main_returns_with_a_pool_that_nobody_drops,
    child {
        static POOL: OnceLock<WorkerPool> = OnceLock::new();
        assert!(POOL.set(busy_pool(false)).is_ok());
        std::mem::forget(busy_pool(true));
        let owner = Arc::new(busy_pool(true));
        std::thread::spawn(move || {
            let _owner = owner;
            for_ever();
        });
        assert_eq!(POOL.get().unwrap().stats().running, 2);
    }
    parent |rerun| {
        rerun.run(&[]).assert_passed();
    }
);
