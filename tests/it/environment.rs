//! The world around a pool: what it is built with, how many cores there are, an idle machine, a
//! forked process.

use std::error::Error as _;
use std::sync::{Arc, Barrier};

use fairlane::{BuildError, PoolBuilder, WorkerPool};

use crate::common::{Counter, Flavour, Probe, assert_no_threads, finish, scenario, scenario_once};

#[cfg(target_os = "linux")]
mod cores;
mod elsewhere;
#[cfg(unix)]
mod fork;
#[cfg(target_os = "linux")]
mod idle;
#[cfg(unix)]
mod process;

/// Builds what cannot be built: the error, after making sure that nothing of the pool is left.
fn build_error(flavour: &Flavour, spoil: impl FnOnce(PoolBuilder) -> PoolBuilder) -> BuildError {
    let (probe, hook_calls) = (Probe::new(), Counter::new());
    let hook = || {
        let (captured, calls) = (probe.capture(), hook_calls.clone());
        move |_| {
            captured.run();
            calls.bump();
        }
    };
    let builder = flavour
        .builder()
        .workers(4)
        .on_thread_start(hook())
        .on_thread_stop(hook());
    let error = spoil(builder).build().expect_err("this cannot be built");
    assert!(!error.to_string().is_empty());
    assert_no_threads(flavour.thread_prefix());
    assert_eq!(hook_calls.get(), 0, "a hook ran for a pool that never was");
    probe.assert_all_dropped(0);
    error
}

/// Asserts that a value matches one of the patterns of [`BuildError`].
macro_rules! assert_build_error {
    ($error:expr, $pattern:pat) => {
        let error = $error;
        assert!(matches!(error, $pattern), "{error:?}");
    };
}

scenario!(no_worker_at_all_is_an_error, |flavour| {
    assert_build_error!(
        build_error(flavour, |b| b.workers(0)),
        BuildError::NoWorkers
    );
    let error = WorkerPool::new(0).unwrap_err();
    assert!(error.source().is_none());
    assert_build_error!(error, BuildError::NoWorkers);
});

scenario!(more_workers_than_can_be_numbered_are_an_error, |flavour| {
    for workers in [65_537, usize::MAX] {
        assert_build_error!(
            build_error(flavour, |b| b.workers(workers)),
            BuildError::TooManyWorkers
        );
    }
});

scenario!(a_limit_that_admits_nothing_is_an_error, |flavour| {
    assert_build_error!(
        build_error(flavour, |b| b.concurrency(0)),
        BuildError::NoConcurrency
    );
});

scenario!(a_queue_that_holds_nothing_is_an_error, |flavour| {
    assert_build_error!(
        build_error(flavour, |b| b.queue_limit(0)),
        BuildError::NoQueueLimit
    );
});

scenario!(a_name_with_a_nul_byte_is_an_error, |flavour| {
    for name in ["\0", "a\0b", "end\0", "\0start"] {
        assert_build_error!(
            build_error(flavour, |b| b.name(name)),
            BuildError::InvalidName
        );
    }
});

scenario!(several_mistakes_are_one_error, |flavour| {
    // Whichever is reported.
    build_error(flavour, |b| b.workers(0).queue_limit(0).name("\0"));
    build_error(flavour, |b| b.name("\0").stack_size(usize::MAX));
    build_error(flavour, |b| b.stack_size(usize::MAX).workers(0));
});

#[cfg(target_pointer_width = "64")]
scenario!(an_impossible_stack_size_is_an_error, |flavour| {
    // Of the last one, a system that commits memory lazily may even start a thread or two.
    for size in [
        usize::MAX,
        usize::MAX - 4096,
        usize::MAX / 2,
        1 << 63,
        1 << 60,
        1 << 46,
    ] {
        let error = build_error(flavour, |b| b.stack_size(size));
        assert!(error.source().is_some(), "the system's own words: {error}");
        assert_build_error!(error, BuildError::Spawn { slot: 0..4, .. });
    }
    // A size too small for the system is raised, not refused.
    for size in [0, 1, 64 * 1024] {
        let pool = flavour.build(flavour.builder().workers(2).stack_size(size));
        assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
        finish(pool);
    }
});

scenario!(odd_names_are_fine, |flavour| {
    for name in [
        "",
        "a name with blanks",
        "ünïcödé-ünïcödé-ünïcödé",
        &"long".repeat(100),
    ] {
        let pool = flavour.build(flavour.builder().workers(2).name(name));
        let thread = pool.submit(|| std::thread::current().name().map(str::to_owned));
        let thread = thread.unwrap().join().unwrap().unwrap();
        assert!(
            ["w0", "w1"]
                .map(|slot| format!("{name}-{slot}"))
                .contains(&thread),
            "{thread}"
        );
        finish(pool);
    }
});

scenario!(few_and_many_workers_build_run_and_drop, |flavour| {
    for workers in [1, 255, 1_024] {
        let pool = flavour.pool(workers);
        assert_eq!(pool.workers(), workers);
        assert_eq!(pool.stats().slots.len(), workers);
        // All at once: nobody gets through before every one of them runs a job.
        let all_at_it = Arc::new(Barrier::new(workers));
        let meet = |_| {
            let all_at_it = Arc::clone(&all_at_it);
            pool.submit(move || all_at_it.wait().is_leader()).unwrap()
        };
        let jobs: Vec<_> = (0..workers).map(meet).collect();
        let leaders = jobs.into_iter().map(|job| job.join().unwrap());
        assert_eq!(leaders.filter(|&is_leader| is_leader).count(), 1);
        #[cfg(target_os = "linux")]
        assert_eq!(
            crate::common::threads_named(flavour.thread_prefix()),
            workers
        );
        // And many more jobs than workers.
        let jobs: Vec<_> = (0..4 * workers)
            .map(|i| pool.submit(move || i).unwrap())
            .collect();
        let sum: usize = jobs.into_iter().map(|job| job.join().unwrap()).sum();
        assert_eq!(sum, 2 * workers * (4 * workers - 1));
        finish(pool);
    }
});

scenario_once!(start_hooks_run_on_every_thread_when_all_exist, |flavour| {
    let workers = 8;
    // Each hook waits for all the others, so they can only finish on as many threads.
    let (all_at_it, started) = (Barrier::new(workers), Counter::new());
    let calls = started.clone();
    let hook = move |slot| {
        let name = std::thread::current().name().unwrap().to_owned();
        assert!(
            name.ends_with(&format!("-w{slot}")),
            "{name} is not slot {slot}"
        );
        all_at_it.wait();
        calls.bump();
    };
    let pool = flavour.build(flavour.builder().workers(workers).on_thread_start(hook));
    started.wait_for(workers);
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    finish(pool);
    assert_eq!(started.get(), workers);
});
