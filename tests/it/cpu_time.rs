//! A pool that charges CPU time: who gets it, and who is charged for what.
//!
//! Jobs here use a given CPU time by their thread's own clock, so it does not matter how often they are
//! interrupted, nor by whom.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::{CancelToken, Fairness, PanicPolicy, Weight, WorkerPool};

use crate::common::*;
use crate::fairness::{Order, by_strategy, finish_gated};

/// CPU time of this thread; of a system without that clock, time.
#[allow(unsafe_code)]
fn thread_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call writes to `time` alone.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(target_os = "linux"))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

/// Uses so much CPU time; returns what it was.
fn burn(time: Duration) -> Duration {
    let start = thread_time();
    loop {
        let used = thread_time() - start;
        if used >= time {
            return used;
        }
    }
}

const TINY: Duration = Duration::from_micros(200);
const SOME: Duration = Duration::from_millis(5);
/// A hundred times as much.
const LONG: Duration = Duration::from_millis(20);

fn pool(flavour: &Flavour, workers: usize, fairness: Fairness) -> Arc<WorkerPool> {
    let builder = flavour.builder().workers(workers).fair();
    flavour.build(builder.fairness(fairness))
}

fn one_slot(flavour: &Flavour) -> Arc<WorkerPool> {
    pool(flavour, 1, Fairness::CpuTime)
}

/// CPU time of each of four tenants with a backlog, two of tiny and two of long jobs, up to the time at
/// which so many jobs of the first long one have ended.
fn spent(pool: &WorkerPool, workers: usize, rounds: u64) -> [f64; 4] {
    // The last of those jobs closes the account itself: whoever waits for it may wake long after.
    let account: Arc<Mutex<([f64; 4], u64)>> = Arc::default();
    let (closed, held) = (Gate::new(), hold_workers(pool, workers));
    for tenant in 0..4 {
        let (time, jobs) = match tenant % 2 {
            0 => (TINY, 120 * rounds),
            _ => (LONG, 2 * rounds),
        };
        for _ in 0..jobs {
            let (account, closes) = (Arc::clone(&account), closed.clone());
            let job = move || {
                let used = burn(time).as_secs_f64();
                let (spent, ended) = &mut *account.lock().unwrap();
                if *ended < rounds {
                    spent[tenant] += used;
                    *ended += u64::from(tenant == 1);
                }
                if *ended == rounds {
                    closes.open();
                }
            };
            pool.job().tenant(tenant.to_string()).execute(job).unwrap();
        }
    }
    held.release();
    closed.wait();
    pool.cancel_queued();
    let (spent, _) = *account.lock().unwrap();
    spent
}

/// Jain's index.
fn jain(spent: &[f64]) -> f64 {
    let squares: f64 = spent.iter().map(|x| x * x).sum();
    spent.iter().sum::<f64>().powi(2) / (spent.len() as f64 * squares)
}

scenario_once!(cpu_time_is_shared_where_counting_shares_turns, |flavour| {
    let counting = pool(flavour, 2, Fairness::Jobs);
    let by_count = jain(&spent(&counting, 2, 4));
    assert!(by_count < 0.6, "{by_count}");
    finish_gated(counting);

    let charging = pool(flavour, 2, Fairness::CpuTime);
    let all = spent(&charging, 2, 20);
    assert!(jain(&all) > 0.99, "{all:?}");
    finish_gated(charging);
});

by_strategy!(weights_share_the_time_of_one_slot, |flavour| {
    let pool = one_slot(flavour);
    let order = Order::new();
    let held = hold_workers(&pool, 1);
    for _ in 0..60 {
        for (tenant, weight, time) in [('A', 3, 2 * TINY), ('B', 1, TINY)] {
            let order = order.clone();
            let job = move || order.add((tenant, burn(time)));
            let options = pool.job().tenant(tenant.to_string());
            options.weight(Weight::new(weight)).execute(job).unwrap();
        }
    }
    held.release();
    pool.wait_idle();
    let contended = order.take().into_iter().take(60);
    let mut used = [Duration::ZERO; 2];
    contended.for_each(|(tenant, time)| used[usize::from(tenant == 'B')] += time);
    let ratio = used[0].as_secs_f64() / used[1].as_secs_f64();
    assert!((2.0..4.0).contains(&ratio), "{used:?}");
    finish_gated(pool);
});

by_strategy!(a_job_cancelled_in_the_queue_costs_nothing, |flavour| {
    let pool = one_slot(flavour);
    let (order, token) = (Order::new(), CancelToken::new());
    let held = hold_workers(&pool, 1);
    let submit = |tenant: char| {
        let job = pool.job().tenant(tenant.to_string());
        job.execute(order.note(tenant)).unwrap();
    };
    submit('A');
    for _ in 0..50 {
        let job = pool.job().tenant("A").cancel_token(&token);
        job.execute(|| unreachable!("it is cancelled")).unwrap();
    }
    submit('B');
    token.cancel();
    held.release();
    pool.wait_idle();
    assert_eq!(order.take(), ['A', 'B']);
    assert_eq!(pool.stats().cancelled, 50);
    finish_gated(pool);
});

by_strategy!(a_job_that_panics_is_charged, |flavour| {
    for policy in [PanicPolicy::Keep, PanicPolicy::Restart { max_restarts: 20 }] {
        let builder = flavour.builder().workers(1).fair().on_panic(policy);
        let pool = flavour.build(builder.fairness(Fairness::CpuTime));
        let (order, held) = (Order::new(), hold_workers(&pool, 1));
        for _ in 0..10 {
            for tenant in ['P', 'Q'] {
                let order = order.clone();
                let job = move || {
                    order.add(tenant);
                    burn(SOME);
                    if tenant == 'P' {
                        // Without the hook, which may print a backtrace for seconds.
                        std::panic::resume_unwind(Box::new("as it has to"));
                    }
                };
                pool.job().tenant(tenant.to_string()).execute(job).unwrap();
            }
        }
        held.release();
        pool.wait_idle();
        let first: String = order.take().into_iter().take(10).collect();
        let panicking = first.matches('P').count();
        assert!((4..=6).contains(&panicking), "{first}");
        assert_eq!(pool.stats().panicked, 10);
        finish_gated(pool);
    }
});

by_strategy!(a_job_run_in_place_is_charged_to_its_own_tenant, |flavour| {
    let pool = one_slot(flavour);
    let (order, held) = (Order::new(), hold_workers(&pool, 1));
    for _ in 0..8 {
        let (own, order) = (Arc::downgrade(&pool), order.clone());
        let parent = move || {
            order.add('P');
            let pool = own.upgrade().expect("it waits for this job");
            let child = pool.job().tenant("child").submit(|| burn(SOME));
            child.unwrap().join().unwrap();
        };
        pool.job().tenant("parent").execute(parent).unwrap();
    }
    for _ in 0..4 {
        let order = order.clone();
        let rival = move || {
            order.add('R');
            burn(SOME);
        };
        pool.job().tenant("rival").execute(rival).unwrap();
    }
    for _ in 0..2 {
        let tenant = pool.job().tenant("child");
        tenant.execute(order.note('C')).unwrap();
    }
    held.release();
    pool.wait_idle();
    // Parents cost next to nothing, and go before all but the first rivals. Their children have used
    // twice what the rivals have in all, so what else their tenant has comes last.
    let order: String = order.take().into_iter().collect();
    let (last_parent, third_rival) = (order.rfind('P'), order.match_indices('R').nth(2));
    assert!(last_parent < third_rival.map(|(at, _)| at), "{order}");
    assert!(order.ends_with("CC"), "{order}");
    finish_gated(pool);
});

by_strategy!(all_that_runs_is_forgotten_in_the_end, |flavour| {
    let pool = pool(flavour, 2, Fairness::CpuTime);
    let mut handles = Vec::new();
    for n in 0..rounds(5_000) {
        let tenant = pool.tenant(&(n % 300).to_string()).with_max_running(1);
        let job = tenant.submit(move || n).unwrap();
        match n % 7 {
            0 => drop(job.cancel()),
            1 => drop(job.join()),
            _ => handles.push(job),
        }
    }
    for handle in handles {
        handle.join().unwrap();
    }
    pool.wait_idle();
    let stats = pool.stats();
    assert_eq!(stats.submitted, stats.completed + stats.cancelled);
    finish_gated(pool);
});
