//! `PanicPolicy::Restart`: a panic costs the thread, never the slot, until the budget is spent.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use fairlane::{CancelToken, JobError, JobHandle, PanicPolicy, Rejected, WorkerPool};

use super::{Bomb, panicking, payload, workers_meet};
use crate::common::*;

fn restarting(flavour: &Flavour, workers: usize, max_restarts: u32) -> Arc<WorkerPool> {
    let policy = PanicPolicy::Restart { max_restarts };
    flavour.build(flavour.builder().workers(workers).on_panic(policy))
}

fn thread_of_next_job(pool: &WorkerPool) -> ThreadId {
    pool.submit(|| thread::current().id())
        .unwrap()
        .join()
        .unwrap()
}

fn panic_once(pool: &WorkerPool) {
    let job = pool.submit(panicking("once")).unwrap();
    assert_eq!(payload(job.join()).message(), "once");
}

/// Jobs on `n` workers, all begun, that panic when the gate opens.
fn hold_to_panic(pool: &WorkerPool, n: usize) -> (Gate, Vec<JobHandle<()>>) {
    let gate = Gate::new();
    let hold = |_| {
        let (gate, begun) = (gate.clone(), Gate::new());
        let (begins, panics) = (begun.clone(), panicking("at the gate"));
        let job = pool.submit(move || {
            begins.open();
            gate.wait();
            panics()
        });
        begun.wait();
        job.unwrap()
    };
    let jobs = (0..n).map(hold).collect();
    (gate, jobs)
}

#[track_caller]
fn wait_until_exhausted(pool: &WorkerPool) {
    eventually("no slot is left", || {
        let refused = pool.try_submit(|| ()).err().map(|error| error.reason());
        matches!(refused, Some(Rejected::RestartExhausted))
    });
    assert_eq!(pool.stats().workers, 0);
}

scenario!(a_panic_gives_the_slot_a_fresh_thread, |flavour| {
    let pool = restarting(flavour, 1, 20);
    let mut seen = HashSet::from([thread_of_next_job(&pool)]);
    for _ in 0..20 {
        panic_once(&pool);
        assert!(
            seen.insert(thread_of_next_job(&pool)),
            "a thread that has served before"
        );
        assert_eq!(pool.workers(), 1);
        assert_eq!(pool.stats().workers, 1);
    }
    #[cfg(target_os = "linux")]
    eventually("one thread per slot", || {
        threads_named(flavour.thread_prefix()) == 1
    });
    finish(pool);
});

scenario!(a_job_without_panic_keeps_the_thread, |flavour| {
    let pool = restarting(flavour, 1, 1);
    let before = thread_of_next_job(&pool);
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let never = pool.job().cancel_token(&cancelled).submit(|| ()).unwrap();
    assert_matches!(never.join(), Err(JobError::Cancelled));
    assert_eq!(thread_of_next_job(&pool), before);
    finish(pool);
});

scenario!(the_budget_is_the_pools, |flavour| {
    let n = workers();
    let pool = restarting(flavour, n, 3 * n as u32);
    for _ in 0..3 * n {
        panic_once(&pool);
    }
    workers_meet(&pool, n);
    assert_eq!(pool.stats().workers, n);
    assert_eq!(pool.stats().panicked, 3 * n as u64);
    #[cfg(target_os = "linux")]
    eventually("one thread per slot", || {
        threads_named(flavour.thread_prefix()) == n
    });
    finish(pool);
});

scenario!(panics_at_once_on_every_slot, |flavour| {
    let n = workers();
    let pool = restarting(flavour, n, n as u32);
    let before = workers_meet(&pool, n);
    let (gate, jobs) = hold_to_panic(&pool, n);
    let probe = Probe::new();
    for _ in 0..100 {
        pool.execute(probe.job()).unwrap();
    }
    gate.open();
    for job in jobs {
        assert_eq!(payload(job.join()).message(), "at the gate");
    }
    pool.wait_idle();
    probe.assert_all_dropped(100);
    let after = workers_meet(&pool, n);
    assert!(before.is_disjoint(&after), "every slot has a fresh thread");
    finish(pool);
});

scenario!(past_the_budget_slots_retire_one_by_one, |flavour| {
    let n = workers();
    let pool = restarting(flavour, n, 2);
    panic_once(&pool);
    panic_once(&pool);
    for left in (1..n).rev() {
        panic_once(&pool);
        eventually("one slot fewer", || pool.stats().workers == left);
        workers_meet(&pool, left);
    }
    panic_once(&pool);
    wait_until_exhausted(&pool);
    assert_eq!(pool.stats().panicked, 2 + n as u64);
    finish(pool);
});

scenario!(a_retired_slots_jobs_go_to_the_others, |flavour| {
    let pool = restarting(flavour, 2, 0);
    let held = hold_workers(&pool, 1);
    let (gate, panics) = hold_to_panic(&pool, 1);
    let probe = Probe::new();
    for _ in 0..20 {
        pool.execute(probe.job()).unwrap();
    }
    gate.open();
    for job in panics {
        assert!(job.join().is_err());
    }
    eventually("one slot is left", || pool.stats().workers == 1);
    for _ in 0..20 {
        pool.execute(probe.job()).unwrap();
    }
    held.release();
    pool.wait_idle();
    probe.assert_all_dropped(40);
    assert_eq!(pool.stats().discarded, 0);
    finish(pool);
});

scenario!(with_no_slot_left_what_waits_is_discarded, |flavour| {
    let n = 2;
    let pool = restarting(flavour, n, 0);
    let (gate, panics) = hold_to_panic(&pool, n);
    let probe = Probe::new();
    let joined: Vec<_> = (0..20).map(|_| pool.submit(probe.job()).unwrap()).collect();
    let polled = pool.submit(probe.job()).unwrap();
    drop(pool.submit(probe.job()).unwrap());
    pool.execute(probe.job()).unwrap();
    gate.open();
    for job in panics {
        assert!(job.join().unwrap_err().is_panic());
    }
    for job in joined {
        assert_matches!(job.join(), Err(JobError::Discarded));
    }
    eventually("every handle resolves", || polled.is_finished());
    assert!(polled.cancel(), "it never ran and never will");
    assert_matches!(polled.join(), Err(JobError::Discarded));
    pool.wait_idle();
    probe.assert_all_dropped(0);
    let stats = pool.stats();
    assert_eq!((stats.discarded, stats.panicked, stats.workers), (23, 2, 0));
    #[cfg(target_os = "linux")]
    eventually("no thread is left", || {
        threads_named(flavour.thread_prefix()) == 0
    });
    finish(pool);
});

scenario!(an_exhausted_pool_refuses_and_gives_back, |flavour| {
    let pool = restarting(flavour, 1, 0);
    panic_once(&pool);
    wait_until_exhausted(&pool);

    let probe = Probe::new();
    let (reason, job) = refused(pool.submit(probe.job()));
    assert_matches!(reason, Rejected::RestartExhausted);
    assert_eq!(probe.dropped(), 0, "a refused job is not touched");
    let (reason, job) = refused(pool.execute(job));
    assert_matches!(reason, Rejected::RestartExhausted);
    // It comes before a cancelled token, as a closed pool does.
    let token = CancelToken::new();
    token.cancel();
    let (reason, job) = refused(pool.job().cancel_token(&token).try_submit(job));
    assert_matches!(reason, Rejected::RestartExhausted);
    job();
    probe.assert_all_dropped(1);

    let outcomes: Vec<_> = pool.map(0..3, |i| i).collect();
    assert_eq!(outcomes.len(), 3);
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Err(JobError::Discarded)))
    );
    assert!(pool.wait_idle_timeout(std::time::Duration::MAX));
    assert_eq!(pool.cancel_queued(), 0);
    finish(pool);
});

scenario!(a_submitter_that_waits_for_room_is_told, |flavour| {
    let policy = PanicPolicy::Restart { max_restarts: 0 };
    let builder = flavour.builder().workers(1).queue_limit(1).on_panic(policy);
    let pool = flavour.build(builder);
    let (gate, panics) = hold_to_panic(&pool, 1);
    let probe = Probe::new();
    let queued = pool.submit(probe.job()).unwrap();
    let submitted = thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.submit(probe.job()));
        gate.open();
        waiting.join().unwrap()
    });
    match submitted {
        Err(error) => assert_matches!(error.reason(), Rejected::RestartExhausted),
        // The queued job was discarded a moment before the pool stopped to accept.
        Ok(job) => assert_matches!(job.join(), Err(JobError::Discarded)),
    }
    assert_matches!(queued.join(), Err(JobError::Discarded));
    drop(panics);
    pool.wait_idle();
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(a_restart_survives_what_the_payload_does, |flavour| {
    let pool = restarting(flavour, 1, 6);
    for depth in [1, 2, Bomb::ENDLESS] {
        drop(pool.submit(panicking(Bomb(depth))).unwrap());
        pool.execute(panicking(Bomb(depth))).unwrap();
        workers_meet(&pool, 1);
    }
    assert_eq!(pool.stats().workers, 1);
    finish(pool);
});

scenario!(hooks_of_restarted_threads_pair_up, |flavour| {
    let n = 2;
    let (started, stopped) = (Counter::new(), Counter::new());
    let (starts, stops) = (started.clone(), stopped.clone());
    let policy = PanicPolicy::Restart { max_restarts: 4 };
    let builder = flavour.builder().workers(n).on_panic(policy);
    let builder = builder.on_thread_start(move |slot| {
        assert!(slot < n);
        starts.bump();
    });
    let builder = builder.on_thread_stop(move |slot| {
        assert!(slot < n);
        stops.bump();
    });
    let pool = flavour.build(builder);
    for _ in 0..4 {
        panic_once(&pool);
    }
    workers_meet(&pool, n);
    finish(pool);
    eventually("as many stops as starts", || stopped.get() == started.get());
    assert!(started.get() >= n);
});
