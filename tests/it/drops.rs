//! Destructors of users: where they run, how often, and that nothing they do harms the pool.

mod layouts;
mod lifetimes;

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobHandle, PanicPolicy, WorkerPool};

use crate::common::*;
use crate::panics::{Bomb, defuse, panicking, payload, workers_meet};

/// Every way in which an accepted job ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Runs,
    RunsDetached,
    RunsInItsJoiner,
    HandleCancels,
    TokenCancels,
    CancelQueued,
    ShutdownNow,
    CancelledAtSubmit,
    ExpiredAtSubmit,
    ExpiresUnobserved,
    ExpiresObserved,
    ShutdownTimesOut,
    NoSlotLeft,
}

impl End {
    const ALL: [Self; 13] = [
        Self::Runs,
        Self::RunsDetached,
        Self::RunsInItsJoiner,
        Self::HandleCancels,
        Self::TokenCancels,
        Self::CancelQueued,
        Self::ShutdownNow,
        Self::CancelledAtSubmit,
        Self::ExpiredAtSubmit,
        Self::ExpiresUnobserved,
        Self::ExpiresObserved,
        Self::ShutdownTimesOut,
        Self::NoSlotLeft,
    ];

    fn runs(self) -> bool {
        matches!(
            self,
            Self::Runs | Self::RunsDetached | Self::RunsInItsJoiner
        )
    }
}

/// How many jobs end in [`end_jobs`].
const JOBS: usize = 3;

/// Makes jobs and brings about that they end so; then checks the pool, as far as it is left.
fn end_jobs<F>(flavour: &Flavour, end: End, make: impl Fn(&Weak<WorkerPool>) -> F)
where
    F: FnOnce() + Send + 'static,
{
    let builder = flavour.builder().workers(2);
    let pool = flavour.build(match end {
        End::NoSlotLeft => builder.on_panic(PanicPolicy::Restart { max_restarts: 0 }),
        _ => builder,
    });
    let make = || make(&Arc::downgrade(&pool));
    let jobs = |submit: &dyn Fn(F) -> JobHandle<()>| -> Vec<_> {
        (0..JOBS).map(|_| submit(make())).collect()
    };
    let plain = |job| pool.submit(job).unwrap();
    let join_all = |jobs: Vec<JobHandle<()>>| jobs.into_iter().for_each(|job| defuse(job.join()));

    if end == End::NoSlotLeft {
        let gate = Gate::new();
        let begun = Counter::new();
        for _ in 0..2 {
            let (gate, begins, panics) = (gate.clone(), begun.clone(), panicking("retire"));
            let job = move || {
                begins.bump();
                gate.wait();
                panics()
            };
            pool.execute(job).unwrap();
        }
        begun.wait_for(2);
        let jobs = jobs(&plain);
        gate.open();
        join_all(jobs);
        eventually("no slot is left", || pool.stats().workers == 0);
        finish(pool);
        return;
    }

    let held = hold_workers(&pool, 2);
    match end {
        End::Runs => {
            let jobs = jobs(&plain);
            held.open();
            join_all(jobs);
        }
        End::RunsDetached => {
            drop(jobs(&plain));
            held.open();
        }
        End::RunsInItsJoiner => {
            let jobs = jobs(&plain);
            let joins = pool.submit(move || {
                for job in jobs {
                    defuse(job.join());
                }
            });
            held.open();
            drop(joins.unwrap().join());
        }
        End::HandleCancels => {
            let jobs = jobs(&plain);
            assert!(jobs.iter().all(JobHandle::cancel));
            join_all(jobs);
        }
        End::TokenCancels => {
            let token = CancelToken::new();
            let jobs = jobs(&|job| pool.job().cancel_token(&token).submit(job).unwrap());
            token.cancel();
            join_all(jobs);
        }
        End::CancelQueued => {
            let jobs = jobs(&plain);
            pool.cancel_queued();
            join_all(jobs);
        }
        End::CancelledAtSubmit => {
            let token = CancelToken::new();
            token.cancel();
            join_all(jobs(&|job| {
                pool.job().cancel_token(&token).submit(job).unwrap()
            }));
        }
        End::ExpiredAtSubmit => {
            let passed = passed();
            join_all(jobs(&|job| {
                pool.job().deadline(passed).submit(job).unwrap()
            }));
        }
        End::ExpiresUnobserved => {
            let soon = soon();
            let jobs = jobs(&|job| pool.job().deadline(soon).submit(job).unwrap());
            wait_past(soon);
            held.open();
            pool.wait_idle();
            join_all(jobs);
        }
        End::ExpiresObserved => {
            let soon = soon();
            let mut jobs = jobs(&|job| pool.job().deadline(soon).submit(job).unwrap());
            let polled = jobs.pop().unwrap();
            eventually("a poll sees the deadline pass", || polled.is_finished());
            defuse(polled.join());
            let timed = jobs.pop().unwrap().join_timeout(Duration::MAX);
            defuse(timed.unwrap_or_else(|_| panic!("it ends")));
            join_all(jobs);
        }
        End::ShutdownNow => {
            let jobs = jobs(&plain);
            let owned = Arc::into_inner(pool).unwrap();
            thread::scope(|scope| {
                scope.spawn(move || owned.shutdown_now());
                eventually("all are cancelled", || {
                    jobs.iter().all(JobHandle::is_finished)
                });
                held.open();
            });
            join_all(jobs);
            return;
        }
        End::ShutdownTimesOut => {
            let jobs = jobs(&plain);
            let owned = Arc::into_inner(pool).unwrap();
            let error = owned.shutdown_timeout(Duration::ZERO).unwrap_err();
            assert!(error.discarded() >= JOBS);
            assert_eq!(error.running(), 2);
            held.open();
            join_all(jobs);
            return;
        }
        End::NoSlotLeft => unreachable!("it returned above"),
    }
    held.release();
    pool.wait_idle();
    workers_meet(&pool, 2);
    finish(pool);
}

/// An instant that has passed.
pub(crate) fn passed() -> Instant {
    let now = Instant::now();
    wait_past(now);
    now
}

/// An instant that passes while the test waits for it.
pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_millis(20)
}

/// Waits until the clock says that `instant` is over.
pub(crate) fn wait_past(instant: Instant) {
    while Instant::now() <= instant {
        thread::sleep(instant.saturating_duration_since(Instant::now()));
    }
}

scenario!(captures_are_dropped_once_whatever_happens, |flavour| {
    for end in End::ALL {
        let probe = Probe::new();
        end_jobs(flavour, end, |_| probe.job());
        assert_eq!(probe.created(), JOBS, "{end:?}");
        assert_eq!(probe.ran(), if end.runs() { JOBS } else { 0 }, "{end:?}");
        assert_eq!(probe.dropped(), JOBS, "{end:?}");
    }
});

scenario!(captures_whose_drop_panics, |flavour| {
    for end in End::ALL {
        for depth in [1, 2, Bomb::ENDLESS] {
            let probe = Probe::new();
            end_jobs(flavour, end, |_| {
                let (bomb, count) = (Bomb(depth), probe.job());
                move || {
                    count();
                    let _dropped_on_return = &bomb;
                }
            });
            probe.assert_all_dropped(if end.runs() { JOBS } else { 0 });
        }
    }
});

scenario!(
    a_capture_that_panics_after_the_return_is_counted,
    |flavour| {
        let pool = flavour.pool(1);
        for depth in [1, 2, Bomb::ENDLESS] {
            let bomb = Bomb(depth);
            let job = pool.submit(move || {
                let _dropped_on_return = &bomb;
                7
            });
            defuse(payload(job.unwrap().join()));
        }
        assert_eq!((pool.stats().panicked, pool.stats().completed), (3, 0));
        workers_meet(&pool, 1);
        finish(pool);
    }
);

/// Uses the pool, a token and another job's handle when dropped.
struct CallsBack {
    pool: Weak<WorkerPool>,
    token: CancelToken,
    other: Option<JobHandle<()>>,
    cancel_queued: bool,
    probe: Probe,
    calls: Counter,
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        self.token.child().cancel();
        self.token.cancel();
        if let Some(other) = self.other.take() {
            // It may run on the other worker just now, or be in the middle of being cancelled.
            other.cancel();
        }
        if let Some(pool) = self.pool.upgrade() {
            assert!(pool.workers() <= 2);
            assert!(pool.stats().submitted > 0);
            pool.wait_idle_timeout(Duration::ZERO);
            drop(pool.try_submit(self.probe.job()));
            drop(pool.submit_timeout(Duration::ZERO, self.probe.job()));
            drop(pool.execute(self.probe.job()));
            drop(
                pool.job()
                    .cancel_token(&self.token)
                    .submit(self.probe.job()),
            );
            drop(pool.job().deadline(Instant::now()).submit(self.probe.job()));
            if let Ok(handle) = pool.submit(self.probe.job()) {
                handle.cancel();
            }
            if self.cancel_queued {
                pool.cancel_queued();
            }
        }
        self.calls.bump();
    }
}

fn call_back_from_drop(flavour: &Flavour, cancel_queued: bool) {
    for end in End::ALL {
        let (probe, calls, token) = (Probe::new(), Counter::new(), CancelToken::new());
        end_jobs(flavour, end, |weak| {
            let pool = weak.upgrade().unwrap();
            let other = pool.job().cancel_token(&token).submit(probe.job()).unwrap();
            let calls_back = CallsBack {
                pool: weak.clone(),
                token: token.clone(),
                other: Some(other),
                cancel_queued,
                probe: probe.clone(),
                calls: calls.clone(),
            };
            move || drop(calls_back)
        });
        assert_eq!(calls.get(), JOBS, "{end:?}");
        assert_eq!(probe.dropped(), probe.created(), "{end:?}");
    }
}

scenario!(captures_whose_drop_calls_back, |flavour| {
    call_back_from_drop(flavour, false);
});

scenario!(captures_whose_drop_cancels_all, |flavour| {
    call_back_from_drop(flavour, true);
});

scenario!(results_whose_drop_panics, |flavour| {
    let pool = flavour.pool(1);
    for depth in [1, 2, Bomb::ENDLESS] {
        // Dropped by the worker: the handle went before the job ran.
        let held = hold_workers(&pool, 1);
        drop(pool.submit(move || Bomb(depth)).unwrap());
        held.release();
        pool.wait_idle();

        // Dropped here, with the handle: contained all the same.
        let finished = pool.submit(move || Bomb(depth)).unwrap();
        pool.wait_idle();
        drop(finished);

        // Dropped inside another job, with the handle.
        let finished = pool.submit(move || Bomb(depth)).unwrap();
        pool.wait_idle();
        pool.submit(move || drop(finished)).unwrap().join().unwrap();

        // Whoever joined owns the result.
        defuse(pool.submit(move || Bomb(depth)).unwrap().join());

        // Dropped by a map that is not read to its end.
        let mut map = pool.map(0..4, move |_| Bomb(depth));
        defuse(map.next());
        pool.wait_idle();
        drop(map);
        workers_meet(&pool, 1);
    }
    let stats = pool.stats();
    assert_eq!(stats.panicked, 0, "the jobs themselves returned");
    finish(pool);
});

scenario!(results_whose_drop_calls_back, |flavour| {
    let pool = flavour.pool(1);
    let (probe, calls) = (Probe::new(), Counter::new());
    let result = || CallsBack {
        pool: Arc::downgrade(&pool),
        token: CancelToken::new(),
        other: None,
        cancel_queued: true,
        probe: probe.clone(),
        calls: calls.clone(),
    };
    let held = hold_workers(&pool, 1);
    let first = result();
    drop(pool.submit(move || first).unwrap());
    held.release();
    calls.wait_for(1);
    pool.wait_idle();
    let second = result();
    let finished = pool.submit(move || second).unwrap();
    pool.wait_idle();
    drop(finished);
    assert_eq!(calls.get(), 2);
    pool.wait_idle();
    assert_eq!(probe.dropped(), probe.created());
    finish(pool);
});

scenario!(payloads_whose_drop_calls_back, |flavour| {
    let pool = flavour.pool(1);
    let (probe, calls) = (Probe::new(), Counter::new());
    let payload = CallsBack {
        pool: Arc::downgrade(&pool),
        token: CancelToken::new(),
        other: None,
        cancel_queued: true,
        probe: probe.clone(),
        calls: calls.clone(),
    };
    pool.execute(panicking(payload)).unwrap();
    calls.wait_for(1);
    pool.wait_idle();
    assert_eq!(probe.dropped(), probe.created());
    assert_eq!(pool.stats().panicked, 1);
    finish(pool);
});
