//! A panic reaches whoever joins, and costs neither a thread nor a slot.

mod restart;
mod unwinding;

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, ThreadId};
use std::time::Duration;

use fairlane::{JobError, PanicPayload, WorkerPool};

use crate::common::*;

/// Panics past the hook, so that thousands of intended panics do not flood the output.
pub(crate) fn quiet_panic(payload: impl Any + Send) -> ! {
    resume_unwind(Box::new(payload))
}

/// A job that panics with `payload`.
pub(crate) fn panicking<P: Any + Send>(payload: P) -> impl FnOnce() + Send + 'static + use<P> {
    move || quiet_panic(payload)
}

/// Panics when dropped, with a payload that does the same, as many times as it says.
pub(crate) struct Bomb(pub(crate) usize);

impl Bomb {
    /// The payload of a bomb's panic is a bomb, without end.
    pub(crate) const ENDLESS: usize = usize::MAX;
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // A second panic while unwinding would abort the process, which nobody can contain.
        if self.0 > 0 && !thread::panicking() {
            let next = if self.0 == Self::ENDLESS {
                self.0
            } else {
                self.0 - 1
            };
            quiet_panic(Bomb(next));
        }
    }
}

/// Drops what the caller owns although it may contain a [`Bomb`].
pub(crate) fn defuse<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(payload);
    }
}

/// Asserts that `n` workers are there to run jobs at the same time, and returns their threads.
pub(crate) fn workers_meet(pool: &WorkerPool, n: usize) -> HashSet<ThreadId> {
    let barrier = Arc::new(Barrier::new(n));
    let meet = |_| {
        let barrier = Arc::clone(&barrier);
        let job = pool.submit(move || {
            barrier.wait();
            thread::current().id()
        });
        job.expect("the pool accepts")
    };
    let jobs: Vec<_> = (0..n).map(meet).collect();
    let threads: HashSet<_> = jobs.into_iter().map(|job| job.join().unwrap()).collect();
    assert_eq!(
        threads.len(),
        n,
        "each of {n} jobs at once has a thread of its own"
    );
    threads
}

/// The payload of a job that must have panicked.
#[track_caller]
pub(crate) fn payload<T>(outcome: Result<T, JobError>) -> PanicPayload {
    match outcome {
        Err(JobError::Panicked(payload)) => payload,
        Err(other) => panic!("{other:?} is not a panic"),
        Ok(_) => panic!("the job returned"),
    }
}

const DEPTHS: [usize; 5] = [0, 1, 2, 3, Bomb::ENDLESS];

scenario!(keep_loses_no_thread, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    let before = workers_meet(&pool, n);
    let probe = Probe::new();
    let jobs: Vec<_> = (0..10 * n)
        .map(|i| {
            let (count, panics) = (probe.job(), panicking(i));
            let job = move || {
                count();
                panics()
            };
            if i % 2 == 0 {
                pool.execute(job).unwrap();
                None
            } else {
                Some((i, pool.submit(job).unwrap()))
            }
        })
        .collect();
    for (i, job) in jobs.into_iter().flatten() {
        assert_eq!(
            *payload(job.join())
                .into_inner()
                .downcast::<usize>()
                .unwrap(),
            i
        );
    }
    pool.wait_idle();
    assert_eq!(workers_meet(&pool, n), before, "the same threads");
    probe.assert_all_dropped(10 * n);
    let stats = pool.stats();
    assert_eq!(stats.panicked, 10 * n as u64);
    assert_eq!(stats.completed, 2 * n as u64);
    assert_eq!(stats.workers, n);
    finish(pool);
});

scenario!(payload_drop_panics_when_joined, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    for depth in DEPTHS {
        defuse(pool.submit(panicking(Bomb(depth))).unwrap().join());
        let job = pool.submit(panicking(Bomb(depth))).unwrap();
        let bomb = payload(job.join()).into_inner().downcast::<Bomb>().unwrap();
        assert_eq!(bomb.0, depth);
        defuse(bomb);
    }
    workers_meet(&pool, n);
    assert_eq!(pool.stats().panicked, 2 * DEPTHS.len() as u64);
    finish(pool);
});

scenario!(payload_drop_panics_when_detached, |flavour| {
    let pool = flavour.pool(1);
    for depth in DEPTHS {
        let job = || panicking(Bomb(depth));
        // The handle goes before the job has run, after it has, and there never was one.
        let held = hold_workers(&pool, 1);
        drop(pool.submit(job()).unwrap());
        pool.execute(job()).unwrap();
        held.release();
        let finished = pool.submit(job()).unwrap();
        pool.wait_idle();
        assert!(finished.is_finished());
        drop(finished);
        workers_meet(&pool, 1);
    }
    assert_eq!(pool.stats().panicked, 3 * DEPTHS.len() as u64);
    finish(pool);
});

scenario!(payload_drop_panics_inside_a_job, |flavour| {
    let pool = flavour.pool(1);
    for depth in DEPTHS {
        let (sender, receiver) = std::sync::mpsc::channel();
        let inner = pool.submit(panicking(Bomb(depth))).unwrap();
        pool.wait_idle();
        // The job that joins drops the payload. Should that panic, it is the job's own panic.
        let outer = pool.submit(move || {
            let outcome = inner.join();
            sender.send(outcome.is_err()).unwrap();
            drop(outcome);
        });
        let outcome = outer.unwrap().join();
        assert!(receiver.recv().unwrap());
        assert!(outcome.is_ok() || depth > 0);
        defuse(outcome);
        workers_meet(&pool, 1);
    }
    finish(pool);
});

fn boom(i: u32) -> u32 {
    if i % 2 == 1 { panic!("boom {i}") } else { i }
}

scenario!(panic_reaches_every_kind_of_join, |flavour| {
    let pool = flavour.pool(2);

    let joined = pool.submit(|| boom(1)).unwrap().join();
    assert!(joined.as_ref().is_err_and(JobError::is_panic));
    assert!(joined.as_ref().unwrap_err().to_string().contains("boom 1"));
    assert_eq!(payload(joined).message(), "boom 1");

    let timed = pool.submit(|| boom(3)).unwrap().join_timeout(Duration::MAX);
    let Ok(timed) = timed else {
        panic!("it waits for ever")
    };
    assert_eq!(payload(timed).message(), "boom 3");

    let words = |outcome: Result<u32, JobError>| match outcome {
        Err(JobError::Panicked(payload)) => payload.message().to_owned(),
        other => other.unwrap().to_string(),
    };
    let ordered: Vec<_> = pool.map(0..4, boom).map(words).collect();
    assert_eq!(ordered, ["0", "boom 1", "2", "boom 3"]);
    let mut unordered: Vec<_> = pool.map_unordered(0..4, boom).map(words).collect();
    unordered.sort();
    assert_eq!(unordered, ["0", "2", "boom 1", "boom 3"]);
    workers_meet(&pool, 2);
    finish(pool);
});

fn literally(panics: bool) {
    if panics {
        panic!("literal");
    }
}

fn formatted(text: &str) {
    if !text.is_empty() {
        panic!("{text}");
    }
}

scenario!(payloads_arrive_as_they_were_thrown, |flavour| {
    let pool = flavour.pool(1);
    let literal = payload(pool.submit(|| literally(true)).unwrap().join());
    assert_eq!(literal.message(), "literal");
    assert_eq!(*literal.into_inner().downcast::<&str>().unwrap(), "literal");

    let text = format!("number {}", pool.workers());
    let thrown = payload(pool.submit(move || formatted(&text)).unwrap().join());
    assert_eq!(thrown.message(), "number 1");
    assert_eq!(
        *thrown.into_inner().downcast::<String>().unwrap(),
        "number 1"
    );

    #[derive(Debug, PartialEq)]
    struct Custom(u8);
    let custom = payload(pool.submit(panicking(Custom(3))).unwrap().join());
    assert!(
        !custom.message().is_empty(),
        "something is said about any payload"
    );
    assert!(!format!("{custom:?}").is_empty());
    assert_eq!(
        *custom.into_inner().downcast::<Custom>().unwrap(),
        Custom(3)
    );
    finish(pool);
});

scenario!(panicking_hooks_are_contained, |flavour| {
    let n = workers();
    for depth in [0, 1, Bomb::ENDLESS] {
        let (started, stopped) = (Counter::new(), Counter::new());
        let (starts, stops) = (started.clone(), stopped.clone());
        let builder = flavour.builder().workers(n);
        let builder = builder.on_thread_start(move |_| {
            starts.bump();
            quiet_panic(Bomb(depth))
        });
        let builder = builder.on_thread_stop(move |_| {
            stops.bump();
            quiet_panic(Bomb(depth))
        });
        let pool = flavour.build(builder);
        workers_meet(&pool, n);
        finish(pool);
        assert_eq!(started.get(), n);
        assert_eq!(stopped.get(), n);
    }
});

scenario!(panic_in_a_job_run_by_its_joiner, |flavour| {
    let pool = flavour.pool(1);
    let inner_pool = Arc::downgrade(&pool);
    let outer = pool.submit(move || {
        let pool = inner_pool.upgrade().unwrap();
        let inner = pool.submit(panicking("inner")).unwrap();
        payload(inner.join()).message().to_owned()
    });
    assert_eq!(outer.unwrap().join().unwrap(), "inner");
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked), (1, 1));
    finish(pool);
});

scenario!(panicking_submitter_leaves_its_jobs_alone, |flavour| {
    let pool = flavour.pool(2);
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    let panics = panicking("the submitter fails");
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let _handle = pool
            .submit(move || runs.store(true, Ordering::SeqCst))
            .unwrap();
        panics()
    }));
    assert!(attempt.is_err());
    pool.wait_idle();
    assert!(
        ran.load(Ordering::SeqCst),
        "a dropped handle detaches, even by a panic"
    );
    finish(pool);
});

scenario!(a_scope_raises_what_nobody_joined, |flavour| {
    let pool = flavour.pool(2);
    let scope = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope.execute(|| _ = boom(5)).unwrap();
            scope.execute(|| _ = boom(6)).unwrap();
            let joined = scope.submit(|| boom(7)).unwrap();
            assert_eq!(payload(joined.join()).message(), "boom 7");
        });
    }));
    assert_eq!(*scope.unwrap_err().downcast::<String>().unwrap(), "boom 5");

    // A panic that was joined is not raised again.
    pool.scope(|scope| {
        let joined = scope.submit(|| boom(9)).unwrap();
        assert_eq!(payload(joined.join()).message(), "boom 9");
    });
    workers_meet(&pool, 2);
    finish(pool);
});
