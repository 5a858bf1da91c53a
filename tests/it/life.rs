//! Random lives of a pool with a gate: several threads do whatever can be done to it, and a model of
//! totals says what must have come of it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{
    CancelToken, JobError, JobHandle, PanicPolicy, PoolStats, Rejected, SubmitError, Tenant,
    Weight, WorkerPool,
};

use crate::common::{Dice, Flavour, Probe, hold_workers, rounds};
use crate::fairness::{by_strategy, finish_gated};

/// What became of the jobs, as their handles tell and as the jobs themselves do.
#[derive(Default)]
struct Model {
    accepted: AtomicU64,
    refused: AtomicU64,
    completed: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    expired: AtomicU64,
    discarded: AtomicU64,
    /// Closures that began: the jobs count this themselves.
    begun: AtomicU64,
    /// Jobs without a handle, of which only the totals are known.
    detached: AtomicU64,
}

fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

fn settled(stats: &PoolStats) -> u64 {
    stats.completed + stats.panicked + stats.cancelled + stats.expired + stats.discarded
}

/// More threads than ever submit at once, the pool's own among them.
const MOST_SUBMITTING: u64 = 16;

/// Whatever holds of every sample, however busy the pool is.
#[track_caller]
fn check_sample(stats: &PoolStats, before: &PoolStats, most: usize) {
    let live = (stats.queued + stats.running) as u64;
    assert_eq!(stats.submitted, settled(stats) + live, "{stats:?}");
    // Nothing underflowed, and what only grows has grown.
    let sane = |n: usize| n < most;
    assert!(sane(stats.queued) && sane(stats.running), "{stats:?}");
    assert!(
        stats.slots.iter().all(|slot| sane(slot.pending)),
        "{stats:?}"
    );
    for tenant in &stats.tenants {
        assert!(sane(tenant.queued) && sane(tenant.running), "{stats:?}");
    }
    let grown = |stats: &PoolStats| {
        [
            stats.completed,
            stats.panicked,
            stats.cancelled,
            stats.expired,
            stats.discarded,
        ]
    };
    let pairs = grown(before).into_iter().zip(grown(stats));
    assert!(
        pairs.clone().all(|(before, now)| before <= now),
        "a counter went back: {before:?}, {stats:?}"
    );
    // One submit of each thread may have met the end of the pool and been taken back.
    assert!(
        before.submitted <= stats.submitted + MOST_SUBMITTING,
        "submitted went back: {before:?}, {stats:?}"
    );
}

/// One thread's view of a life.
struct Actor<'a> {
    pool: &'a Arc<WorkerPool>,
    model: &'a Arc<Model>,
    probe: &'a Probe,
    dice: Dice,
    tenants: Vec<Tenant>,
    tokens: Vec<CancelToken>,
    handles: Vec<JobHandle<()>>,
}

/// Which moves are allowed.
#[derive(Clone, Copy)]
struct Rules {
    closes: bool,
    queue_limit: Option<usize>,
    restarts: Option<u32>,
}

impl Actor<'_> {
    fn name(&mut self) -> String {
        match self.dice.roll(4) {
            0 => format!("once {}", self.dice.roll(1_000_000)),
            _ => format!("often {}", self.dice.roll(4)),
        }
    }

    /// A closure that counts itself, and sometimes panics, spawns and joins, or calls off others.
    fn closure(&mut self) -> impl FnOnce() + Send + 'static + use<> {
        let (model, captured) = (Arc::clone(self.model), self.probe.capture());
        let (kind, name) = (self.dice.roll(16), self.name());
        let nested = match kind {
            0 | 1 => Some((
                Arc::downgrade(self.pool),
                self.probe.capture(),
                self.probe.capture(),
            )),
            _ => None,
        };
        let spins = self.dice.roll(40);
        move || {
            bump(&model.begun);
            captured.run();
            (0..spins).for_each(|_| std::hint::spin_loop());
            if let Some((pool, first, second)) = nested {
                if let Some(pool) = pool.upgrade() {
                    let job = pool.job().tenant(name);
                    let one = model.counted(&pool, job.clone().submit(counted(&model, first)));
                    let two = model.counted(&pool, job.priority(1).submit(counted(&model, second)));
                    if kind == 0 {
                        two.into_iter()
                            .chain(one)
                            .for_each(|job| model.judge(job.join()));
                    } else {
                        // Of those without an owner nothing but the totals is known.
                        two.into_iter()
                            .chain(one)
                            .for_each(|_| bump(&model.detached));
                    }
                }
            }
            if kind == 2 {
                std::panic::resume_unwind(Box::new("as a job may"));
            }
        }
    }

    fn submit(&mut self) {
        let closure = self.closure();
        let name = self.name();
        let token = CancelToken::new();
        let mut job = self
            .pool
            .job()
            .tenant(name)
            .priority(self.dice.roll(3) as i32);
        if self.dice.roll(4) == 0 {
            job = job.weight(Weight::new(1 + self.dice.roll(9) as u32));
        }
        if self.dice.roll(4) == 0 {
            job = job.cancel_token(&token);
            self.tokens.push(token);
        }
        if self.dice.roll(5) == 0 {
            let soon = Duration::from_micros(self.dice.roll(200));
            job = job.deadline(Instant::now() + soon);
        }
        let tenant = self.dice.roll(self.tenants.len() as u64 + 3) as usize;
        let tenant = self.tenants.get(tenant).cloned();
        let timeout = Duration::from_micros(self.dice.roll(100));
        let handle = match (self.dice.roll(5), tenant) {
            (0, Some(tenant)) => tenant.submit(closure),
            (_, Some(tenant)) => job.tenant(tenant).submit(closure),
            (0, _) => job.try_submit(closure),
            (1, _) => job.submit_timeout(timeout, closure),
            (2, _) => {
                match job.execute(closure) {
                    Ok(()) => {
                        bump(&self.model.accepted);
                        bump(&self.model.detached);
                    }
                    Err(error) => self.model.count_refusal(error.reason()),
                }
                return;
            }
            _ => job.submit(closure),
        };
        self.handles.extend(self.model.counted(self.pool, handle));
    }

    fn settle_one(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let choice = self.dice.roll(self.handles.len() as u64) as usize;
        let handle = self.handles.swap_remove(choice);
        match self.dice.roll(4) {
            0 => {
                let is_cancelled = handle.cancel();
                let result = handle.join();
                // Somebody else, or a deadline, may have been faster.
                let never_ran = !matches!(&result, Ok(()) | Err(JobError::Panicked(_)));
                assert_eq!(is_cancelled, never_ran, "{result:?}");
                self.model.judge(result);
            }
            1 => {
                let timeout = Duration::from_micros(self.dice.roll(50));
                match handle.join_timeout(timeout) {
                    Ok(result) => self.model.judge(result),
                    Err(handle) => self.handles.push(handle),
                }
            }
            2 => {
                let was_finished = handle.is_finished();
                if was_finished {
                    self.model.judge(handle.join());
                } else {
                    self.handles.push(handle);
                }
            }
            _ => self.model.judge(handle.join()),
        }
    }

    fn set_something(&mut self) {
        let value = 1 + self.dice.roll(5) as usize;
        let choice = self.dice.roll(self.tenants.len() as u64 + 1) as usize;
        let Some(tenant) = self.tenants.get(choice).cloned() else {
            let name = self.name();
            self.tenants.push(self.pool.tenant(&name));
            return;
        };
        match self.dice.roll(6) {
            0 | 1 => tenant.set_weight(Weight::new(value as u32)),
            2 => drop(tenant.with_max_running(value)),
            3 => drop(tenant.with_queue_limit(10 * value)),
            _ => drop(self.tenants.swap_remove(choice)),
        }
    }

    fn act(&mut self, rules: Rules, steps: usize) {
        for step in 0..steps {
            match self.dice.roll(20) {
                0..=9 => self.submit(),
                10..=14 => self.settle_one(),
                15 | 16 => self.set_something(),
                17 => {
                    let token = self.tokens.pop();
                    token.into_iter().for_each(|token| token.cancel());
                }
                18 if self.dice.roll(10) == 0 => drop(self.pool.cancel_queued()),
                19 if self.dice.roll(10) == 0 => {
                    self.pool.wait_idle_timeout(Duration::from_micros(100));
                }
                _ => drop(self.pool.stats()),
            }
            if rules.closes && step == steps * 3 / 4 {
                self.pool.close();
            }
        }
        for handle in self.handles.drain(..) {
            self.model.judge(handle.join());
        }
    }
}

/// A job of a job.
fn counted(
    model: &Arc<Model>,
    captured: crate::common::Captured,
) -> impl FnOnce() + Send + 'static + use<> {
    let model = Arc::clone(model);
    move || {
        bump(&model.begun);
        captured.run();
    }
}

impl Model {
    fn count_refusal(&self, reason: Rejected) {
        let known = [
            Rejected::Full,
            Rejected::ShutDown,
            Rejected::RestartExhausted,
        ];
        assert!(known.contains(&reason), "{reason:?}");
        bump(&self.refused);
    }

    fn counted<F>(
        &self,
        pool: &WorkerPool,
        handle: Result<JobHandle<()>, SubmitError<F>>,
    ) -> Option<JobHandle<()>> {
        match handle {
            Ok(handle) => {
                bump(&self.accepted);
                assert!(pool.stats().submitted > 0);
                Some(handle)
            }
            Err(error) => {
                self.count_refusal(error.reason());
                None
            }
        }
    }

    fn judge(&self, result: Result<(), JobError>) {
        bump(match result {
            Ok(()) => &self.completed,
            Err(JobError::Panicked(_)) => &self.panicked,
            Err(JobError::Cancelled) => &self.cancelled,
            Err(JobError::Expired) => &self.expired,
            Err(JobError::Discarded) => &self.discarded,
            Err(other) => panic!("{other:?} is no end of such a job"),
        });
    }

    /// The pool is idle: its numbers are the model's, give or take the jobs nobody watched.
    #[track_caller]
    fn check(&self, stats: &PoolStats) {
        assert_eq!((stats.queued, stats.running), (0, 0), "{stats:?}");
        assert_eq!(stats.submitted, settled(stats), "{stats:?}");
        assert_eq!(stats.submitted, get(&self.accepted), "accepted: {stats:?}");
        assert_eq!(
            stats.completed + stats.panicked,
            get(&self.begun),
            "begun: {stats:?}"
        );
        let unwatched = get(&self.detached);
        let mut missing = 0;
        for (told, seen) in [
            (stats.completed, &self.completed),
            (stats.panicked, &self.panicked),
            (stats.cancelled, &self.cancelled),
            (stats.expired, &self.expired),
            (stats.discarded, &self.discarded),
        ] {
            let seen = get(seen);
            assert!(seen <= told, "{seen} were seen, {told} are told: {stats:?}");
            missing += told - seen;
        }
        assert_eq!(missing, unwatched, "jobs that nobody watched: {stats:?}");
    }
}

/// One life: `actors` threads act, one looks, and then everything must add up.
fn live(flavour: &Flavour, seed: u64, workers: usize, concurrency: usize, rules: Rules) {
    const ACTORS: u64 = 3;
    let mut builder = flavour.builder().workers(workers).concurrency(concurrency);
    if let Some(limit) = rules.queue_limit {
        builder = builder.queue_limit(limit);
    }
    if let Some(max_restarts) = rules.restarts {
        builder = builder.on_panic(PanicPolicy::Restart { max_restarts });
    }
    let pool = flavour.build(builder);
    let (model, probe) = (Arc::new(Model::default()), Probe::new());
    let acting = AtomicUsize::new(ACTORS as usize);
    let steps = rounds(6_000);
    let most = 16 * steps * ACTORS as usize;
    let samples = Mutex::new(0);
    thread::scope(|scope| {
        for actor in 0..ACTORS {
            let (pool, model, probe, acting) = (&pool, &model, &probe, &acting);
            scope.spawn(move || {
                // Even if it panics: the observer must end.
                let _ends = OnExit(acting);
                let mut actor = Actor {
                    pool,
                    model,
                    probe,
                    dice: Dice::new(seed * ACTORS + actor),
                    tenants: vec![pool.tenant("often 0"), pool.tenant(&format!("own {actor}"))],
                    tokens: Vec::new(),
                    handles: Vec::new(),
                };
                actor.act(rules, steps);
            });
        }
        scope.spawn(|| {
            let mut before = pool.stats();
            while acting.load(Ordering::SeqCst) > 0 {
                let stats = pool.stats();
                check_sample(&stats, &before, most);
                before = stats;
                *samples.lock().unwrap() += 1;
                thread::yield_now();
            }
        });
    });
    assert!(*samples.lock().unwrap() > 0);
    pool.wait_idle();
    let stats = pool.stats();
    model.check(&stats);
    assert_eq!(stats.tenants, [], "all tenants are forgotten");
    assert_eq!(
        probe.dropped(),
        probe.created(),
        "closures dropped, of those created"
    );
    assert_eq!(probe.ran() as u64, get(&model.begun));
    // A pool that still accepts is as good as new.
    if !rules.closes && stats.workers == workers {
        let n = concurrency.min(workers);
        let held = hold_workers(&pool, n);
        let mut queued = Vec::new();
        for _ in 0..rules.queue_limit.unwrap_or(10) {
            queued.push(pool.job().tenant("after").try_submit(|| ()).unwrap());
        }
        let is_full = pool.try_submit(|| ()).is_err();
        assert_eq!(is_full, rules.queue_limit.is_some());
        held.release();
        queued.into_iter().for_each(|job| job.join().unwrap());
    }
    // A job that was the last to use its own reference of the pool may just be letting go of it.
    crate::common::eventually("nobody else owns the pool", || {
        Arc::strong_count(&pool) == 1
    });
    if stats.workers == workers {
        finish_gated(pool);
    }
}

struct OnExit<'a>(&'a AtomicUsize);

impl Drop for OnExit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const OPEN: Rules = Rules {
    closes: false,
    queue_limit: None,
    restarts: None,
};

by_strategy!(everything_adds_up, |flavour| {
    for (seed, workers, concurrency) in [(1, 1, 1), (2, 3, 3), (3, 3, 2), (4, 2, 9)] {
        live(flavour, seed, workers, concurrency, OPEN);
    }
});

by_strategy!(everything_adds_up_with_a_queue_limit, |flavour| {
    for (seed, workers, concurrency, limit) in [(5, 1, 1, 1), (6, 3, 3, 4), (7, 3, 2, 50)] {
        let rules = Rules {
            queue_limit: Some(limit),
            ..OPEN
        };
        live(flavour, seed, workers, concurrency, rules);
    }
});

by_strategy!(everything_adds_up_when_the_pool_closes, |flavour| {
    for (seed, limit) in [(8, None), (9, Some(2)), (10, Some(20))] {
        let rules = Rules {
            closes: true,
            queue_limit: limit,
            restarts: None,
        };
        live(flavour, seed, 2, 2, rules);
    }
});

by_strategy!(everything_adds_up_while_threads_are_replaced, |flavour| {
    // With budget enough, and with one that ends in the middle.
    for (seed, restarts, limit) in [
        (11, u32::MAX, None),
        (12, u32::MAX, Some(3)),
        (13, 10, None),
        (14, 10, Some(3)),
    ] {
        let rules = Rules {
            closes: false,
            queue_limit: limit,
            restarts: Some(restarts),
        };
        live(flavour, seed, 3, 2, rules);
    }
});
