//! The life of one pool: how it is built, who uses it, how it ends, and what must add up then.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use fairlane::{Nested, PanicPolicy, PoolStats, Strategy, WorkerPool};

use crate::common::{Dice, Probe, assert_no_threads, eventually, unique_name};
use crate::counts::{Counts, Event};
use crate::user::{Rules, User};
use crate::watchdog::Watchdog;

/// What kind of pool it is.
#[derive(Debug)]
struct Plan {
    seed: u64,
    name: String,
    workers: usize,
    strategy: Strategy,
    concurrency: Option<usize>,
    queue_limit: Option<usize>,
    ageing: Option<u32>,
    nested: Nested,
    policy: PanicPolicy,
    users: u64,
    rules: Rules,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Closed, awaited and counted before it is shut down.
    Counted,
    Shutdown,
    ShutdownNow,
    ShutdownTimeout,
    DroppedInside,
}

impl Plan {
    fn new(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let mut pick = |sides: u64| dice.roll(sides) as usize;
        let some = |n: usize, values: &[usize]| values.get(n).copied();
        let limit = pick(4);
        Plan {
            seed,
            name: unique_name(),
            workers: 1 + pick(4),
            strategy: [Strategy::RoundRobin, Strategy::LeastBusy][pick(2)],
            concurrency: some(limit, &[1, 3, usize::MAX]),
            queue_limit: some(pick(6), &[1, 5, 100]),
            ageing: some(pick(4), &[3]).map(|boost| boost as u32),
            nested: [Nested::Strategy, Nested::Local][pick(2)],
            policy: match pick(4) {
                0 => PanicPolicy::Restart { max_restarts: 5 },
                1 => PanicPolicy::Restart {
                    max_restarts: u32::MAX,
                },
                _ => PanicPolicy::Keep,
            },
            users: 1 + pick(3) as u64,
            rules: Rules {
                maps: pick(2) == 0,
                closes: pick(4) == 0,
                steps: 20 << pick(6),
            },
            end: [
                End::Counted,
                End::Shutdown,
                End::ShutdownNow,
                End::ShutdownTimeout,
                End::DroppedInside,
            ][pick(5)],
        }
    }

    fn build(&self) -> WorkerPool {
        let mut builder = WorkerPool::builder()
            .name(self.name.as_str())
            .workers(self.workers)
            .strategy(self.strategy)
            .nested(self.nested)
            .on_panic(self.policy);
        if let Some(jobs) = self.concurrency {
            builder = builder.concurrency(jobs);
        }
        if let Some(jobs) = self.queue_limit {
            builder = builder.queue_limit(jobs);
        }
        if let Some(boost) = self.ageing {
            builder = builder.ageing(boost);
        }
        builder.build().expect("the system has threads to give")
    }
}

/// Lives through one pool, and adds what was done to `total`.
pub(crate) fn live(total: &Counts, watchdog: &Watchdog, seed: u64) {
    let plan = Plan::new(seed);
    let (counts, probe) = (Counts::shared(), Probe::new());
    watchdog.watch(&counts, format!("{plan:?}"));
    let pool = plan.build();
    let rest = use_it(&plan, &pool, &counts, &probe);
    if pool.stats().workers == 0 {
        counts.bump(Event::Exhausted);
    }
    end(&plan, pool, &counts);
    for user in rest {
        user.leave();
    }
    eventually("all captures are dropped", || {
        probe.dropped() == probe.created()
    });
    assert_no_threads(&plan.name);
    check_handles(&counts, &plan);
    total.add(&counts);
}

/// Users at work, each on a thread of its own; they come back with jobs still under way.
fn use_it(plan: &Plan, pool: &WorkerPool, counts: &Arc<Counts>, probe: &Probe) -> Vec<User> {
    thread::scope(|scope| {
        let start = |n| {
            let dice = Dice::new(plan.seed.wrapping_mul(31).wrapping_add(n));
            let mut user = User::new(pool, counts, probe, dice, n);
            scope.spawn(move || {
                user.act(pool, plan.rules);
                user
            })
        };
        let threads: Vec<_> = (0..plan.users).map(start).collect();
        let users = threads.into_iter().map(|thread| thread.join());
        users
            .map(|user| user.expect("no assertion failed"))
            .collect()
    })
}

fn end(plan: &Plan, pool: WorkerPool, counts: &Arc<Counts>) {
    sample(&pool, counts);
    match plan.end {
        End::Counted => {
            pool.close();
            pool.wait_idle();
            check_idle(&pool.stats(), counts, plan);
            pool.shutdown();
            counts.bump(Event::Shutdown);
        }
        End::Shutdown => {
            pool.shutdown();
            counts.bump(Event::Shutdown);
        }
        End::ShutdownNow => {
            pool.shutdown_now();
            counts.bump(Event::ShutdownNow);
        }
        End::ShutdownTimeout => {
            let timeout = Duration::from_micros(Dice::new(plan.seed).roll(200));
            let event = match pool.shutdown_timeout(timeout) {
                Ok(()) => Event::InTime,
                Err(_) => Event::TimedOut,
            };
            counts.bump(event);
        }
        End::DroppedInside => drop_inside(pool, counts),
    }
}

/// Has a job of the pool give up its only owner; if none is accepted, it goes here.
fn drop_inside(pool: WorkerPool, counts: &Arc<Counts>) {
    let (sender, owner) = mpsc::channel::<WorkerPool>();
    let drops = Arc::clone(counts);
    let job = pool.submit(move || {
        let pool = owner.recv();
        drops.bump(Event::DroppedInside);
        drop(pool);
    });
    drop(sender.send(pool));
    if let Ok(job) = job {
        // The pool may have run out of slots meanwhile, which drops the job's captures, the pool
        // among them.
        drop(job.join());
    }
}

/// The numbers add up whenever they are read.
pub(crate) fn sample(pool: &WorkerPool, counts: &Counts) {
    let stats = pool.stats();
    let live = (stats.queued + stats.running) as u64;
    assert_eq!(stats.submitted, settled(&stats) + live, "{stats:?}");
    counts.bump(Event::Sampled);
}

fn settled(stats: &PoolStats) -> u64 {
    stats.completed + stats.panicked + stats.cancelled + stats.expired + stats.discarded
}

/// Nothing is queued or running, and the pool counts what its users have counted.
fn check_idle(stats: &PoolStats, counts: &Counts, plan: &Plan) {
    let shown = || format!("{stats:?}\n{plan:?}\n{counts}");
    assert_eq!((stats.queued, stats.running), (0, 0), "{}", shown());
    assert_eq!(stats.submitted, settled(stats), "{}", shown());
    assert!(
        stats.slots.iter().all(|slot| slot.pending == 0),
        "{}",
        shown()
    );
    if plan.rules.maps {
        // Items that found no room have run outside the pool.
        return;
    }
    assert_eq!(stats.submitted, counts.get(Event::Accepted), "{}", shown());
    let ran = stats.completed + stats.panicked;
    assert_eq!(ran, counts.get(Event::Begun), "{}", shown());
}

/// Each accepted job was either watched by a handle, which resolved, or counted as detached.
fn check_handles(counts: &Counts, plan: &Plan) {
    let ran = counts.get(Event::Completed) + counts.get(Event::Panicked);
    let never_ran = [Event::Cancelled, Event::Expired, Event::Discarded];
    let never_ran: u64 = never_ran.iter().map(|&event| counts.get(event)).sum();
    let detached = counts.get(Event::Detached);
    let shown = || format!("{plan:?}\n{counts}");
    let accepted = counts.get(Event::Accepted);
    assert_eq!(accepted, ran + never_ran + detached, "{}", shown());
    if !plan.rules.maps {
        let begun = counts.get(Event::Begun);
        assert!((ran..=ran + detached).contains(&begun), "{}", shown());
    }
}
