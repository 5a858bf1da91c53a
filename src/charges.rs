//! Who is charged how much CPU time, to the nanosecond: threads use what their jobs say, by the stand-in
//! for the clock.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::batch::JobSet;
use crate::cancel::CancelToken;
use crate::cpu::stand_in::{readings, spend};
use crate::job::JobHandle;
use crate::pool::{Fairness, PanicPolicy, PoolBuilder, WorkerPool};
use crate::sync::{Arc, Mutex};

fn builder(workers: usize) -> PoolBuilder {
    let builder = WorkerPool::builder().workers(workers).fair();
    builder.fairness(Fairness::CpuTime)
}

fn build(builder: PoolBuilder) -> Arc<WorkerPool> {
    Arc::new(builder.build().expect("a pool"))
}

fn pool(workers: usize) -> Arc<WorkerPool> {
    build(builder(workers))
}

type Charges = BTreeMap<String, u64>;

/// What all tenants have been charged, once nothing runs any more.
fn charged(pool: &WorkerPool) -> Charges {
    pool.wait_idle();
    let gate = pool.gate().expect("a limit");
    gate.charged().0
}

fn charges<const N: usize>(all: [(&str, u64); N]) -> Charges {
    all.map(|(name, spent)| (name.to_owned(), spent)).into()
}

/// Keeps a worker busy until the sender is dropped.
fn hold(pool: &WorkerPool) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let holder = move || {
        begin.send(()).expect("somebody waits for this");
        released.recv().expect_err("nothing is sent");
    };
    run(pool, "holder", holder);
    begun.recv().expect("it begins");
    release
}

fn submit<T: Send + 'static>(
    pool: &WorkerPool,
    tenant: &str,
    job: impl FnOnce() -> T + Send + 'static,
) -> JobHandle<T> {
    pool.job().tenant(tenant).submit(job).expect("open")
}

fn run(pool: &WorkerPool, tenant: &str, job: impl FnOnce() + Send + 'static) {
    pool.job().tenant(tenant).execute(job).expect("open");
}

/// Uses so much when it is dropped.
struct Costly(u64);

impl Drop for Costly {
    fn drop(&mut self) {
        spend(self.0);
    }
}

#[test]
fn captures_are_dropped_at_the_jobs_expense() {
    let pool = pool(1);
    let held = hold(&pool);
    for tenant in ["a", "b"] {
        let captured = Costly(7);
        run(&pool, tenant, move || {
            let _captured = &captured;
            spend(100);
        });
    }
    let captured = Costly(30);
    run(&pool, "panics", move || {
        let _captured = &captured;
        spend(5);
        std::panic::resume_unwind(Box::new("as it has to"));
    });
    run(&pool, "after", || spend(1));
    drop(held);
    let expected = charges([
        ("a", 107),
        ("after", 1),
        ("b", 107),
        ("holder", 0),
        ("panics", 35),
    ]);
    assert_eq!(charged(&pool), expected);
}

/// The worker drops them between two jobs. Several of each, so that there is a next one to be charged
/// whatever the order.
#[test]
fn results_nobody_wants_are_dropped_at_nobodys_expense() {
    for policy in [PanicPolicy::Keep, PanicPolicy::Restart { max_restarts: 20 }] {
        let pool = build(builder(1).on_panic(policy));
        let held = hold(&pool);
        for _ in 0..3 {
            drop(submit(&pool, "a", || {
                spend(100);
                Costly(1_000)
            }));
            run(&pool, "b", || spend(10));
            drop(submit(&pool, "panics", || {
                spend(20);
                std::panic::resume_unwind(Box::new(Costly(5_000)))
            }));
        }
        drop(held);
        let expected = charges([("a", 300), ("b", 30), ("holder", 0), ("panics", 60)]);
        assert_eq!(charged(&pool), expected, "{policy:?}");
    }
}

#[test]
fn a_result_that_is_joined_inside_a_job_is_dropped_at_that_jobs_expense() {
    let pool = pool(1);
    let own = Arc::downgrade(&pool);
    submit(&pool, "joins", move || {
        let pool = own.upgrade().expect("it waits for this job");
        let made = submit(&pool, "makes", || {
            spend(3);
            Costly(100)
        });
        spend(20);
        drop(made.join());
    })
    .join()
    .expect("it runs");
    let expected = charges([("joins", 120), ("makes", 3)]);
    assert_eq!(charged(&pool), expected);
}

/// Nor is anybody charged for what their captures do when they are dropped on a worker.
#[test]
fn jobs_that_never_begin_are_charged_to_nobody() {
    let pool = pool(1);
    let held = hold(&pool);
    let token = CancelToken::new();
    let deadline = Instant::now() + Duration::from_millis(500);
    for _ in 0..10 {
        let captured = [50, 500].map(Costly);
        let [cancelled, late] = captured.map(|captured| {
            move || {
                let _captured = captured;
                unreachable!("it never begins");
            }
        });
        let job = pool.job().tenant("cancelled").cancel_token(&token);
        job.execute(cancelled).expect("open");
        run(&pool, "runs", || spend(1));
        let job = pool.job().tenant("late").deadline(deadline);
        job.execute(late).expect("in time");
    }
    token.cancel();
    while Instant::now() <= deadline {
        std::thread::yield_now();
    }
    drop(held);
    assert_eq!(charged(&pool), charges([("holder", 0), ("runs", 10)]));
    let stats = pool.stats();
    assert_eq!((stats.cancelled, stats.expired), (10, 10));
}

/// Nor does one cost its tenant a turn that was never paid back: two tenants with jobs of known cost take
/// turns, whatever one of them has that is too late.
#[test]
fn jobs_that_never_begin_are_charged_no_estimate() {
    let pool = pool(1);
    let held = hold(&pool);
    let order = Arc::new(Mutex::new(String::new()));
    let deadline = Instant::now() + Duration::from_millis(500);
    for _ in 0..5 {
        for tenant in ["a", "b"] {
            let order = Arc::clone(&order);
            run(&pool, tenant, move || {
                order.lock().push_str(tenant);
                spend(100);
            });
        }
        for _ in 0..3 {
            let late = pool.job().tenant("a").deadline(deadline);
            late.execute(|| ()).expect("in time");
        }
    }
    while Instant::now() <= deadline {
        std::thread::yield_now();
    }
    drop(held);
    assert_eq!(charged(&pool)["a"], 500);
    assert_eq!(*order.lock(), "ab".repeat(5));
    assert_eq!(pool.stats().expired, 15);
}

#[test]
fn broadcasts_are_charged_to_nobody() {
    let pool = pool(2);
    for _ in 0..20 {
        run(&pool, "a", || spend(1));
        let all = pool.broadcast(|_| {
            spend(1_000);
            Costly(10_000)
        });
        all.expect("open").into_iter().for_each(drop);
        run(&pool, "b", || spend(3));
    }
    assert_eq!(charged(&pool), charges([("a", 20), ("b", 60)]));
}

/// The share of the worker that the job runs on is done in its midst.
#[test]
fn a_broadcast_inside_a_job_is_not_charged_to_it() {
    let pool = pool(1);
    let own = Arc::downgrade(&pool);
    let job = submit(&pool, "a", move || {
        let pool = own.upgrade().expect("it waits for this job");
        spend(1);
        let (inner, outer) = (Arc::downgrade(&pool), &pool);
        let all = outer.broadcast(move |_| {
            spend(1_000);
            let pool = inner.upgrade().expect("it waits for this job");
            submit(&pool, "b", || spend(50)).join().expect("it runs");
            spend(1_000);
        });
        all.expect("open").into_iter().for_each(drop);
        spend(2);
    });
    job.join().expect("it runs");
    assert_eq!(charged(&pool), charges([("a", 3), ("b", 50)]));
}

/// What jobs have used by their own account.
#[derive(Clone, Default)]
struct Account(Arc<Mutex<Charges>>);

impl Account {
    fn spend(&self, tenant: &str, nanos: u64) {
        spend(nanos);
        *self.0.lock().entry(tenant.to_owned()).or_default() += nanos;
    }
}

const TENANTS: [&str; 3] = ["a", "b", "c"];

/// A job of another tenant each, in one of the ways in which a job can wait for others: each uses
/// something before, between and after what it waits for.
fn tree(pool: &Arc<WorkerPool>, account: &Account, depth: usize, way: usize) {
    let tenant = TENANTS[depth % 3];
    account.spend(tenant, 1 + depth as u64);
    if depth == 0 {
        return;
    }
    let child = |way: usize| {
        let (own, account) = (Arc::downgrade(pool), account.clone());
        move || {
            let pool = own.upgrade().expect("it waits for this job");
            tree(&pool, &account, depth - 1, way);
        }
    };
    let below = pool.tenant(TENANTS[(depth - 1) % 3]);
    match way % 4 {
        0 => {
            let jobs = [1, 2].map(|way| below.submit(child(way)).expect("open"));
            jobs.into_iter().for_each(|job| {
                job.join().expect("it runs");
                account.spend(tenant, 10);
            });
        }
        1 => {
            below.scope(|scope| {
                for way in [2, 3] {
                    scope.execute(child(way)).expect("open");
                }
                account.spend(tenant, 100);
            });
        }
        2 => {
            let mut set = JobSet::new();
            for way in [3, 0] {
                set.submit(&below, child(way)).expect("open");
            }
            set.for_each(|done| {
                done.expect("it runs");
                account.spend(tenant, 1_000);
            });
        }
        _ => {
            let (own, below_it) = (Arc::downgrade(pool), account.clone());
            let run = move |way: usize| {
                let pool = own.upgrade().expect("it waits for this job");
                tree(&pool, &below_it, depth - 1, way);
            };
            below.map([0, 1], run).for_each(|done| {
                done.expect("it runs");
                account.spend(tenant, 10_000);
            });
        }
    }
    account.spend(tenant, 100_000);
}

/// With one worker all but the outermost run in place; with more, some do.
#[test]
fn each_tenant_is_charged_what_its_jobs_have_used() {
    for workers in [1, 2, 4] {
        for way in 0..4 {
            let (pool, account) = (pool(workers), Account::default());
            for _ in 0..3 {
                let (own, account) = (Arc::downgrade(&pool), account.clone());
                let job = submit(&pool, TENANTS[5 % 3], move || {
                    let pool = own.upgrade().expect("it waits for this job");
                    tree(&pool, &account, 5, way);
                });
                job.join().expect("it runs");
            }
            assert_eq!(charged(&pool), *account.0.lock(), "{workers} {way}");
        }
    }
}

/// By count nothing is measured, whatever happens, and there is nothing to measure with.
#[test]
fn who_counts_jobs_reads_no_clock() {
    let asked = |fairness| {
        let pool = build(builder(1).fairness(fairness));
        let own = Arc::downgrade(&pool);
        let busy = submit(&pool, "a", move || {
            let pool = own.upgrade().expect("it waits for this job");
            submit(&pool, "b", || ()).join().expect("it runs");
            drop(pool.broadcast(|_| ()).expect("open"));
            drop(submit(&pool, "b", || Costly(1)));
            // It may be too late for that already, too.
            let late = pool
                .job()
                .deadline(Instant::now() + Duration::from_millis(1));
            drop(late.execute(|| ()));
        });
        busy.join().expect("it runs");
        let readings = submit(&pool, "b", readings).join().expect("it runs");
        let charged = charged(&pool);
        let gate = pool.gate().expect("a limit");
        (readings > 0, !charged.is_empty(), gate.charged().1)
    };
    assert_eq!(asked(Fairness::Jobs), (false, false, false));
    assert_eq!(asked(Fairness::CpuTime), (true, true, true));
}

/// On one worker, two tenants with a backlog: one has jobs a hundred times as costly, and may run one at
/// a time. It gets its half all the same, and no more.
#[test]
fn a_limit_on_running_jobs_leaves_the_share_as_it_is() {
    let (pool, account) = (pool(1), Account::default());
    let held = hold(&pool);
    let capped = pool.tenant("heavy").with_max_running(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let job = |tenant: &'static str, nanos: u64| {
        let (account, order) = (account.clone(), Arc::clone(&order));
        move || {
            account.spend(tenant, nanos);
            order.lock().push(account.0.lock().clone());
        }
    };
    for _ in 0..20 {
        capped.execute(job("heavy", 100_000)).expect("open");
        for _ in 0..100 {
            let light = pool.job().tenant("light");
            light.execute(job("light", 1_000)).expect("open");
        }
    }
    drop(held);
    pool.wait_idle();
    let total = 20 * 100_000;
    for spent in order.lock().iter() {
        let of = |tenant| spent.get(tenant).copied().unwrap_or(0);
        let (heavy, light) = (of("heavy"), of("light"));
        if heavy < total && light < total {
            // One slot: twice the costliest job.
            assert!(heavy.abs_diff(light) <= 200_000, "{heavy}, {light}");
        }
    }
    assert_eq!(charged(&pool)["heavy"], total);
}

/// When everybody is done at once, many owe something that they need not pay any more. Threads that have
/// nothing to do forget them, unless they have something to do after all.
#[test]
fn an_idle_pool_remembers_nobody() {
    let pool = pool(1);
    for _ in 0..3 {
        let held = hold(&pool);
        for job in 0..20 {
            for tenant in 0..300 {
                let job = move || spend(1_000 + job);
                run(&pool, &tenant.to_string(), job);
            }
        }
        drop(held);
        pool.wait_idle();
        let gate = pool.gate().expect("a limit");
        let give_up = Instant::now() + Duration::from_secs(30);
        while gate.open_accounts() > 0 {
            assert!(Instant::now() < give_up, "{}", gate.open_accounts());
            std::thread::yield_now();
        }
    }
}
