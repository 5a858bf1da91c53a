//! Destructors of users behind a gate: what they may do, and whom they hold up.

use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobHandle, PanicPolicy, Tenant, Weight, WorkerPool};

use super::Waits;
use super::ends::panics;
use crate::common::{Counter, Flavour, Gate, eventually, hold_workers};
use crate::fairness::{by_strategy, finish_gated};

/// Calls back into its pool when dropped, every way there is, and counts.
struct CallsBack {
    pool: Weak<WorkerPool>,
    tenant: Tenant,
    token: CancelToken,
    others: Arc<Mutex<Vec<JobHandle<()>>>>,
    called: Counter,
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            let _ = pool.stats();
            let _ = pool.submit(|| ());
            let _ = pool
                .job()
                .tenant(&self.tenant)
                .weight(Weight::new(3))
                .execute(|| ());
            let _ = pool.job().tenant("late").try_submit(|| ());
            let fresh = pool.tenant("fresh").with_queue_limit(9).with_max_running(1);
            let _ = fresh.submit_timeout(Duration::ZERO, || ());
        }
        let _ = self.tenant.submit(|| ());
        self.tenant.set_weight(Weight::new(2));
        drop(
            self.tenant
                .clone()
                .with_max_running(3)
                .with_queue_limit(1_000),
        );
        let other = self.others.lock().unwrap().pop();
        if let Some(other) = other {
            other.cancel();
        }
        self.token.child().cancel();
        self.called.bump();
    }
}

/// How the jobs with those captures end.
#[derive(Clone, Copy, Debug)]
enum End {
    Run,
    RunInPlace,
    Cancel,
    Token,
    Expire,
    CancelQueued,
    Discard,
    Exhaust,
    ShutdownNow,
}

by_strategy!(captures_may_call_back_however_their_job_ends, |flavour| {
    use End::{
        Cancel, CancelQueued, Discard, Exhaust, Expire, Run, RunInPlace, ShutdownNow, Token,
    };
    for end in [
        Run,
        RunInPlace,
        Cancel,
        Token,
        Expire,
        CancelQueued,
        Discard,
        Exhaust,
        ShutdownNow,
    ] {
        let builder = flavour.builder().workers(2).fair().queue_limit(500);
        let pool = flavour.build(match end {
            Exhaust => builder.on_panic(PanicPolicy::Restart { max_restarts: 0 }),
            _ => builder,
        });
        let (called, token, waits) = (Counter::new(), CancelToken::new(), Waits::new());
        let others = Arc::new(Mutex::new(Vec::new()));
        let panics_at_the_end = matches!(end, Exhaust);
        for _ in 0..2 {
            let waits = waits.clone();
            let job = move || {
                waits.job()();
                if panics_at_the_end {
                    panics();
                }
            };
            pool.execute(job).unwrap();
        }
        waits.begun.wait_for(2);
        for _ in 0..5 {
            others
                .lock()
                .unwrap()
                .push(pool.job().tenant("b").submit(|| ()).unwrap());
        }
        let soon = Instant::now() + Duration::from_millis(1);
        let jobs: Vec<_> = (0..20)
            .map(|i| {
                let captured = CallsBack {
                    pool: Arc::downgrade(&pool),
                    tenant: pool.tenant(["a", "b"][i % 2]),
                    token: token.clone(),
                    others: Arc::clone(&others),
                    called: called.clone(),
                };
                let mut job = pool.job().tenant(&captured.tenant).priority(i as i32);
                match end {
                    Token => job = job.cancel_token(&token),
                    Expire => job = job.deadline(soon),
                    _ => {}
                }
                job.submit(move || drop(captured)).unwrap()
            })
            .collect();
        let keeps = Arc::clone(&others);
        match end {
            Run => {}
            RunInPlace => {
                let joins = move || jobs.into_iter().for_each(|job| drop(job.join()));
                let root = pool
                    .job()
                    .priority(99)
                    .tenant("root")
                    .submit(joins)
                    .unwrap();
                waits.gate.open();
                root.join().unwrap();
            }
            Cancel => assert!(jobs.iter().all(JobHandle::cancel)),
            Token => token.cancel(),
            Expire => {
                eventually("all expire", || jobs.iter().all(JobHandle::is_finished));
            }
            CancelQueued => assert!(pool.cancel_queued() >= 20),
            Exhaust => {
                waits.gate.open();
                eventually("no slot is left", || pool.stats().workers == 0);
            }
            Discard | ShutdownNow => {
                let pool = Arc::into_inner(pool).unwrap();
                match end {
                    Discard => assert!(pool.shutdown_timeout(Duration::ZERO).is_err()),
                    _ => thread::scope(|scope| {
                        scope.spawn(|| pool.shutdown_now());
                        called.wait_for(20);
                        waits.gate.open();
                    }),
                }
                called.wait_for(20);
                waits.gate.open();
                continue;
            }
        }
        waits.gate.open();
        called.wait_for(20);
        pool.wait_idle();
        // Those that were captured are gone, and so are their handles of tenants.
        keeps.lock().unwrap().clear();
        assert_eq!(called.get(), 20, "{end:?}");
        if matches!(end, Exhaust) {
            eventually("nobody else owns the pool", || {
                Arc::strong_count(&pool) == 1
            });
            continue;
        }
        eventually("nobody else owns the pool", || {
            Arc::strong_count(&pool) == 1
        });
        finish_gated(pool);
    }
});

/// Whether `condition` comes to hold; unlike [`eventually`] it lets the test clean up if not.
fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !condition() {
        if give_up < Instant::now() {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Does something with a job's handle when it is dropped.
struct OnDrop {
    job: Arc<Mutex<Option<JobHandle<()>>>>,
    action: fn(JobHandle<()>),
    done: Counter,
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        let job = self.job.lock().unwrap().take();
        (self.action)(job.expect("the job is queued by now"));
        self.done.bump();
    }
}

/// One slot that drops a detached result, whose drop gets the handle of the job that is queued next.
/// That job has not begun, and cannot while the only slot is busy.
fn drop_result_with_next_job(flavour: &Flavour, action: fn(JobHandle<()>), completed: u64) {
    let pool = flavour.build(flavour.builder().workers(1).fair());
    let (done, gate, next) = (Counter::new(), Gate::new(), Arc::new(Mutex::new(None)));
    let (job, wait, bumps) = (Arc::clone(&next), gate.clone(), done.clone());
    let first = pool.submit(move || {
        wait.wait();
        OnDrop {
            job,
            action,
            done: bumps,
        }
    });
    drop(first.unwrap());
    *next.lock().unwrap() = Some(pool.submit(|| ()).unwrap());
    gate.open();
    if !comes_true(|| done.get() == 1) {
        let stats = pool.stats();
        // Its thread will never end.
        std::mem::forget(pool);
        panic!("the drop of a result does not end: {stats:?}");
    }
    pool.wait_idle();
    assert_eq!(pool.stats().completed, completed);
    finish_gated(pool);
}

by_strategy!(a_detached_result_may_join_the_next_job, |flavour| {
    drop_result_with_next_job(flavour, |job| job.join().unwrap(), 2);
});

by_strategy!(a_detached_result_may_cancel_the_next_job, |flavour| {
    drop_result_with_next_job(
        flavour,
        |job| {
            job.cancel();
        },
        1,
    );
});

/// Waits when it is dropped.
struct WaitsWhenDropped(Gate, Counter);

impl Drop for WaitsWhenDropped {
    fn drop(&mut self) {
        self.1.bump();
        self.0.wait();
    }
}

by_strategy!(a_slow_drop_of_a_result_holds_nobody_up, |flavour| {
    // Two slots, one of which is busy with the drop of a detached result: the other one is free for
    // what is queued.
    let pool = flavour.build(flavour.builder().workers(2).fair());
    let (drops, gate, waits) = (Counter::new(), Gate::new(), Waits::new());
    let held = hold_workers(&pool, 1);
    let (begins, begun, slow, dropping) = (
        waits.clone(),
        waits.begun.clone(),
        gate.clone(),
        drops.clone(),
    );
    let first = pool.submit(move || {
        begins.job()();
        WaitsWhenDropped(slow, dropping)
    });
    drop(first.unwrap());
    begun.wait_for(1);
    let next = pool.submit(|| ()).unwrap();
    waits.gate.open();
    drops.wait_for(1);
    held.release();
    let result = next.join_timeout(Duration::from_secs(30));
    gate.open();
    assert!(result.is_ok(), "held up by the drop: {:?}", pool.stats());
    finish_gated(pool);
});
