//! Who enters next: the order in which a pool with a limit admits the jobs of several tenants.
//!
//! One job at a time and a first job that holds the slot while the others are queued: then the
//! order is the gate's alone. What has to happen at a certain moment is done by the job that runs
//! at that moment.

mod model;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fairlane::{CancelToken, JobHandle, Priority, Tenant, Weight, WorkerPool};

use crate::common::{Dice, Flavour, assert_matches, eventually, finish, hold_workers};

/// Like [`scenario`](crate::common::scenario), for pools whose limit the scenario sets itself, or
/// must not have: whatever flavours there are, the two strategies are all that differs.
macro_rules! by_strategy {
    ($(#[$meta:meta])* $name:ident, |$flavour:ident| $body:block) => {
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn body($flavour: &$crate::common::Flavour) $body

            $crate::common::flavour_test! { round_robin, RoundRobin, false, body }
            $crate::common::flavour_test! { least_busy, LeastBusy, false, body }
        }
    };
}
pub(crate) use by_strategy;

/// What ran, in order. Clones are the same list.
pub(crate) struct Order<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Order<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone + Send + 'static> Order<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn add(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }

    /// A job that adds `what`.
    pub(crate) fn note(&self, what: T) -> impl FnOnce() + Send + 'static + use<T> {
        let order = self.clone();
        move || order.add(what)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// The end of a scenario with a gate. A token whose job was cancelled may still be on its way to a
/// slot and back, and counts there until it is.
#[track_caller]
pub(crate) fn finish_gated(pool: Arc<WorkerPool>) {
    pool.wait_idle();
    eventually("no token waits at a slot", || {
        pool.stats().slots.iter().all(|slot| slot.pending == 0)
    });
    let tenants = pool.stats().tenants;
    assert!(tenants.is_empty(), "not forgotten: {tenants:?}");
    finish(pool);
}

/// Pools that run one job at a time.
fn single_files(flavour: &Flavour) -> [Arc<WorkerPool>; 2] {
    [
        flavour.build(flavour.builder().workers(1).fair()),
        flavour.build(flavour.builder().workers(3).concurrency(1)),
    ]
}

/// Queues `jobs` of them for each tenant, tenant by tenant, then lets them run; the order in which
/// they did.
fn order_of(pool: &WorkerPool, lanes: &[(char, u32, usize)]) -> String {
    let order = Order::new();
    let held = hold_workers(pool, 1);
    for &(name, weight, jobs) in lanes {
        for _ in 0..jobs {
            let job = pool.job().tenant(name.to_string());
            job.weight(Weight::new(weight))
                .execute(order.note(name))
                .unwrap();
        }
    }
    held.release();
    pool.wait_idle();
    order.take().into_iter().collect()
}

/// `A`, `B` and so on.
fn letters() -> impl Iterator<Item = char> {
    'A'..='Z'
}

/// That the tenants, all backlogged throughout, were served as their weights say: the quota after
/// each job, and the gap between two jobs of one tenant.
#[track_caller]
fn assert_shares(order: &str, weights: &[u32]) {
    let total: u64 = weights.iter().map(|w| u64::from(*w)).sum();
    for (name, weight) in letters().zip(weights.iter().map(|w| u64::from(*w))) {
        let (mut served, mut last) = (0, None);
        for (t, _) in (1u64..).zip(order.chars()) {
            if order.as_bytes()[t as usize - 1] == name as u8 {
                served += 1;
                if let Some(last) = last {
                    // Less than 1 + 2 / f jobs apart, where f = weight / total.
                    assert!(
                        (t - last - 1) * weight < 2 * total,
                        "{name} waited from {last} to {t} of {order}"
                    );
                }
                last = Some(t);
            }
            let (least, most) = (t * weight / total, (t * weight).div_ceil(total));
            assert!(
                (least..=most).contains(&served),
                "{name} was served {served} times of {t}, not {least} to {most}: {order}"
            );
        }
    }
}

by_strategy!(weights_give_the_promised_order, |flavour| {
    let cases: [(&[u32], &str); 9] = [
        (&[1], "A"),
        (&[u32::MAX], "A"),
        (&[1, 1], "AB"),
        (&[7, 7], "AB"),
        (&[u32::MAX, u32::MAX], "AB"),
        (&[1, 1, 1], "ABC"),
        (&[3, 1], "ABAA"),
        (&[5, 1, 1, 1, 1], "ABACADAEA"),
        (&[11, 3], "ABAAABAAAABAAA"),
    ];
    for pool in single_files(flavour) {
        for (weights, wanted) in cases {
            let jobs = 4 * wanted.len();
            let lanes = letters().zip(weights).map(|(name, w)| (name, *w, jobs));
            let order = order_of(&pool, &lanes.collect::<Vec<_>>());
            assert_eq!(order[..wanted.len()], *wanted, "{weights:?}");
            assert_shares(&order[..jobs], weights);
        }
        finish_gated(pool);
    }
});

by_strategy!(shares_are_exact_whatever_the_weights, |flavour| {
    let cases: [(&[u32], usize); 6] = [
        (&[300, 400], 700),
        (&[100, 100, 66], 532),
        (&[1, 2, 3, 4, 5, 6], 210),
        (&[7, 11, 13], 310),
        (&[1, 1_000], 1_001),
        (&[1, u32::MAX], 500),
    ];
    for pool in single_files(flavour) {
        for (weights, jobs) in cases {
            let lanes = letters().zip(weights).map(|(name, w)| (name, *w, jobs));
            let order = order_of(&pool, &lanes.collect::<Vec<_>>());
            let order = &order[..jobs];
            assert_shares(order, weights);
            if weights == [300, 400] {
                assert_eq!(order.matches('A').count(), 300);
            }
        }
        finish_gated(pool);
    }
});

by_strategy!(a_newcomer_goes_second_behind_any_backlog, |flavour| {
    for pool in single_files(flavour) {
        let order = order_of(&pool, &[('A', 1, 1_000), ('B', 1, 1)]);
        assert_eq!(order.find('B'), Some(1));
        // With more weight it goes no later, with less not before its share.
        let order = order_of(&pool, &[('A', 1, 1_000), ('B', 9, 1)]);
        assert_eq!(order.find('B'), Some(0), "its deadline is the nearer one");
        let order = order_of(&pool, &[('A', 9, 1_000), ('B', 1, 1)]);
        assert!(order.find('B').unwrap() < 10);
        finish_gated(pool);
    }
});

by_strategy!(ten_thousand_tenants_go_in_order_of_arrival, |flavour| {
    for pool in single_files(flavour) {
        let (order, held) = (Order::new(), hold_workers(&pool, 1));
        for i in 0..10_000 {
            let job = pool.job().tenant(format!("tenant {}", i * 7_919 % 10_000));
            job.execute(order.note(i)).unwrap();
        }
        assert_eq!(pool.stats().tenants.len(), 10_000 + 1, "and that of the first job");
        held.release();
        pool.wait_idle();
        assert!(order.take().into_iter().eq(0..10_000));
        finish_gated(pool);
    }
});

by_strategy!(a_tenant_alone_is_a_priority_queue, |flavour| {
    for pool in single_files(flavour) {
        for seed in 0..5 {
            let mut dice = Dice::new(seed);
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            let mut wanted = Vec::new();
            for i in 0..500 {
                let spread = [1, 3, 1_000][seed as usize % 3];
                let priority = dice.roll(spread) as i32 - spread as i32 / 2;
                wanted.push((std::cmp::Reverse(priority), i));
                let job = pool.job().tenant("only").priority(priority);
                job.execute(order.note(i)).unwrap();
            }
            held.release();
            pool.wait_idle();
            wanted.sort();
            assert!(order.take().into_iter().eq(wanted.into_iter().map(|(_, i)| i)));
        }
        finish_gated(pool);
    }
});

by_strategy!(priorities_hold_inside_a_lane_and_not_across, |flavour| {
    let extremes = [Priority(i32::MAX), Priority::HIGH, Priority::NORMAL];
    for pool in single_files(flavour) {
        let (order, held) = (Order::new(), hold_workers(&pool, 1));
        for n in 0..3 {
            for (priority, digit) in extremes.into_iter().rev().zip(["3", "2", "1"]) {
                let job = pool.job().tenant("a").priority(priority);
                job.execute(order.note(format!("a{digit}{n}"))).unwrap();
            }
            let low = pool.job().tenant("b").priority(Priority(i32::MIN));
            low.execute(order.note(format!("b{n}"))).unwrap();
        }
        held.release();
        pool.wait_idle();
        let wanted = "a10 b0 a11 b1 a12 b2 a20 a21 a22 a30 a31 a32";
        assert_eq!(order.take().join(" "), wanted);
        finish_gated(pool);
    }
});

by_strategy!(equal_priorities_are_first_come_first_served, |flavour| {
    for pool in single_files(flavour) {
        for seed in 0..4 {
            let mut dice = Dice::new(seed);
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            let submit = |i: u32| {
                let job = pool.job().tenant("a").priority(5);
                (i, job.submit(order.note(i)).unwrap())
            };
            let mut jobs: Vec<_> = (0..300).map(submit).collect();
            let (mut cancelled, mut next) = (0, 300);
            while cancelled < 200 {
                let (_, job) = jobs.swap_remove(dice.roll(jobs.len() as u64) as usize);
                assert!(job.cancel());
                cancelled += 1;
                if dice.roll(3) == 0 {
                    jobs.push(submit(next));
                    next += 1;
                }
            }
            held.release();
            pool.wait_idle();
            let mut wanted: Vec<_> = jobs.iter().map(|(i, _)| *i).collect();
            wanted.sort_unstable();
            assert_eq!(order.take(), wanted);
        }
        finish_gated(pool);
    }
});

/// How a queued job ends without having run.
#[derive(Clone, Copy, Debug)]
enum Withdrawn {
    Cancelled,
    CancelledByToken,
    /// Nobody looks at the job before the slot comes to it.
    ExpiredUnseen,
    ExpiredSeen,
}

const WITHDRAWN: [Withdrawn; 4] = [
    Withdrawn::Cancelled,
    Withdrawn::CancelledByToken,
    Withdrawn::ExpiredUnseen,
    Withdrawn::ExpiredSeen,
];

by_strategy!(a_job_that_never_runs_costs_its_tenant_no_turn, |flavour| {
    // Lanes are made of jobs that run (letter) and jobs that do not (dot): the order is that of the
    // letters alone, as long as the first of each lane runs, or the lane had not begun yet.
    let lanes = [("A", 3, "A...AA.A.AAAAA"), ("B", 1, "B.B...B.B"), ("C", 2, "CC.CCC...CC")];
    for (pool, kind) in single_files(flavour)
        .into_iter()
        .flat_map(|pool| WITHDRAWN.map(|kind| (Arc::clone(&pool), kind)))
    {
        let run = |with_dots: bool| -> String {
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            let token = CancelToken::new();
            // Not yet passed when the jobs are queued, which takes no second; but what if it does?
            // Then they settle at once, which must not change the order either.
            let soon = Instant::now() + std::time::Duration::from_millis(20);
            let mut never: Vec<JobHandle<()>> = Vec::new();
            for (name, weight, jobs) in lanes {
                for letter in jobs.chars().filter(|letter| with_dots || *letter != '.') {
                    let job = pool.job().tenant(name).weight(Weight::new(weight));
                    let note = order.note(letter);
                    match (letter, kind) {
                        ('.', Withdrawn::Cancelled) => never.push(job.submit(note).unwrap()),
                        ('.', Withdrawn::CancelledByToken) => {
                            job.cancel_token(&token).execute(note).unwrap();
                        }
                        ('.', _) => never.push(job.deadline(soon).submit(note).unwrap()),
                        _ => job.execute(note).unwrap(),
                    }
                }
            }
            match kind {
                Withdrawn::Cancelled => assert!(never.iter().all(JobHandle::cancel)),
                Withdrawn::CancelledByToken => token.cancel(),
                Withdrawn::ExpiredUnseen => {
                    eventually("the deadline passes", || soon <= Instant::now());
                }
                Withdrawn::ExpiredSeen => {
                    eventually("all expire", || never.iter().all(JobHandle::is_finished));
                }
            }
            held.release();
            pool.wait_idle();
            order.take().into_iter().collect()
        };
        let (with, without) = (run(true), run(false));
        assert_eq!(with, without, "{kind:?}");
        if let Ok(pool) = Arc::try_unwrap(pool) {
            finish_gated(Arc::new(pool));
        }
    }
});

by_strategy!(an_expired_head_is_skipped_in_every_lane, |flavour| {
    for pool in single_files(flavour) {
        let (order, held) = (Order::new(), hold_workers(&pool, 1));
        let past = Instant::now() + std::time::Duration::from_millis(1);
        let mut late = Vec::new();
        for name in ["A", "B", "C", "D"] {
            for _ in 0..5 {
                let job = pool.job().tenant(name).deadline(past).priority(9);
                late.push(job.submit(order.note('!')).unwrap());
            }
        }
        pool.job().tenant("D").execute(order.note('D')).unwrap();
        eventually("the deadline passes", || past <= Instant::now());
        held.release();
        pool.wait_idle();
        assert_eq!(order.take(), ['D']);
        for job in late {
            assert_matches!(job.join(), Err(fairlane::JobError::Expired));
        }
        assert_eq!(pool.stats().expired, 20);
        finish_gated(pool);
    }
});

/// Keeps one job of `tenant` in the pool as long as `goes_on`: each submits the next.
fn resubmit(tenant: Tenant, order: Order<char>, goes_on: Arc<AtomicBool>) {
    let letter = tenant.name().chars().next().unwrap();
    let submitter = tenant.clone();
    let job = move || {
        order.add(letter);
        if goes_on.load(Ordering::SeqCst) {
            resubmit(tenant, order, goes_on);
        }
    };
    submitter.execute(job).unwrap();
}

by_strategy!(those_who_resubmit_leave_a_backlog_its_share, |flavour| {
    const BACKLOG: usize = 120;
    for (pool, weight) in single_files(flavour)
        .into_iter()
        .flat_map(|pool| [1, 3].map(|weight| (Arc::clone(&pool), weight)))
    {
        let (order, goes_on) = (Order::new(), Arc::new(AtomicBool::new(true)));
        let held = hold_workers(&pool, 1);
        let backlog = pool.tenant("A").with_weight(Weight::new(weight as u32));
        for i in 0..BACKLOG {
            let (order, goes_on) = (order.clone(), Arc::clone(&goes_on));
            let job = move || {
                order.add('A');
                if i + 1 == BACKLOG {
                    goes_on.store(false, Ordering::SeqCst);
                }
            };
            backlog.execute(job).unwrap();
        }
        drop(backlog);
        for name in ["B", "C", "D", "E", "F"] {
            resubmit(pool.tenant(name), order.clone(), Arc::clone(&goes_on));
        }
        held.release();
        pool.wait_idle();
        let order = order.take();
        let mut served = 0;
        for (t, name) in (1..).zip(&order) {
            served += usize::from(*name == 'A');
            if served == BACKLOG {
                break;
            }
            // Its sixth (3 of 8), and never more than a job behind.
            assert!(
                served + 1 >= t * weight / (5 + weight),
                "{served} of {t}: {order:?}"
            );
        }
        for name in ["B", "C", "D", "E", "F"] {
            let theirs = order.iter().filter(|n| n.to_string() == name).count();
            assert!(
                theirs.abs_diff(BACKLOG / weight) <= 2,
                "{name} ran {theirs} times"
            );
        }
        if let Ok(pool) = Arc::try_unwrap(pool) {
            finish_gated(Arc::new(pool));
        }
    }
});

/// Keeps one job in the pool, each of a tenant never heard of before.
fn one_shots(pool: &Arc<WorkerPool>, names: &Arc<AtomicUsize>, order: &Order<char>, left: usize) {
    let name = format!("shot {}", names.fetch_add(1, Ordering::SeqCst));
    let (submits, names, order) = (Arc::downgrade(pool), Arc::clone(names), order.clone());
    let job = move || {
        order.add('.');
        if left > 1 {
            // Not upgraded for longer than this, so that the pool does not end in here.
            let pool = submits.upgrade().expect("the scenario still runs");
            one_shots(&pool, &names, &order, left - 1);
        }
    };
    pool.job().tenant(name).execute(job).unwrap();
}

by_strategy!(fresh_names_leave_a_backlog_its_share, |flavour| {
    const BACKLOG: usize = 300;
    for pool in single_files(flavour) {
        for streams in [1, 3] {
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            for _ in 0..BACKLOG {
                pool.job().tenant("A").execute(order.note('A')).unwrap();
            }
            let names = Arc::default();
            (0..streams).for_each(|_| one_shots(&pool, &names, &order, 2 * BACKLOG));
            held.release();
            pool.wait_idle();
            let mut served = 0;
            for (t, name) in (1..).zip(order.take()) {
                served += usize::from(name == 'A');
                if served == BACKLOG {
                    break;
                }
                assert!(served + 1 >= t / (streams + 1), "{served} of {t}");
            }
        }
        finish_gated(pool);
    }
});

by_strategy!(names_seen_once_are_forgotten, |flavour| {
    let names = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let pool = flavour.build(flavour.builder().workers(2).fair());
    // At once and in the lanes together, run and cancelled.
    for i in 0..names {
        let job = pool.job().tenant(format!("shot {i}"));
        job.weight(Weight::new(1 + i % 5)).execute(|| ()).unwrap();
    }
    pool.wait_idle();
    assert_eq!(pool.stats().tenants, []);
    let held = hold_workers(&pool, 2);
    for i in 0..names / 10 {
        let job = pool.job().tenant(format!("shot {i}")).priority(i as i32 % 3);
        job.execute(|| ()).unwrap();
    }
    assert_eq!(pool.stats().tenants.len(), names as usize / 10 + 1);
    assert_eq!(pool.cancel_queued(), names as usize / 10);
    assert_eq!(pool.stats().tenants.len(), 1, "that of the held jobs");
    held.release();
    pool.wait_idle();
    assert_eq!(pool.stats().tenants, []);
    assert_eq!(pool.stats().completed, u64::from(names) + 2);
    finish_gated(pool);
});

/// No tenant is served twice in a row.
#[track_caller]
fn assert_alternates(order: &str) {
    let twice = order.as_bytes().windows(2).any(|pair| pair[0] == pair[1]);
    assert!(!twice, "{order}");
}

/// A backlog of `A`, and `B` that comes when `comes_at` jobs have run.
fn joins_later(pool: &WorkerPool, a: (u32, usize), b: (u32, usize), comes_at: usize) -> String {
    let (order, held) = (Order::new(), hold_workers(pool, 1));
    let backlog = pool.tenant("A").with_weight(Weight::new(a.0));
    let late = pool.tenant("B").with_weight(Weight::new(b.0));
    for i in 1..=a.1 {
        let (order, late) = (order.clone(), late.clone());
        let job = move || {
            order.add('A');
            if i == comes_at {
                (0..b.1).for_each(|_| late.execute(order.note('B')).unwrap());
            }
        };
        backlog.execute(job).unwrap();
    }
    held.release();
    pool.wait_idle();
    order.take()[comes_at..].iter().collect()
}

by_strategy!(a_tenant_saves_nothing_up_while_others_work, |flavour| {
    let solo = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    for pool in single_files(flavour) {
        let order = joins_later(&pool, (1, solo + 20), (1, 20), solo);
        assert_alternates(&order);
        let order = joins_later(&pool, (1, 1_100), (3, 90), 1_000);
        let served = order[..100].matches('B').count();
        assert!((74..=76).contains(&served), "{served} of 75: {order}");
        let longest = order.split('A').map(str::len).max();
        assert!(longest <= Some(4), "a burst: {order}");
        finish_gated(pool);
    }
});

by_strategy!(idle_and_back_again_is_one_job_ahead_at_most, |flavour| {
    for pool in single_files(flavour) {
        let (order, held) = (Order::new(), hold_workers(&pool, 1));
        let (a, b) = (pool.tenant("A"), pool.tenant("B"));
        // B is served in the beginning, idle for 1,000 jobs, and back with a backlog.
        (0..5).for_each(|_| b.execute(order.note('B')).unwrap());
        for i in 1..=1_200 {
            let (order, b) = (order.clone(), b.clone());
            let job = move || {
                order.add('A');
                if i == 1_010 {
                    (0..100).for_each(|_| b.execute(order.note('B')).unwrap());
                }
            };
            a.execute(job).unwrap();
        }
        held.release();
        pool.wait_idle();
        let order: String = order.take().into_iter().collect();
        assert_eq!(order[..10], "BA".repeat(5));
        // Behind the job in which it came back.
        assert_alternates(&order[10 + 1_005..][..200]);
        drop((a, b));
        finish_gated(pool);
    }
});

by_strategy!(a_new_weight_counts_for_what_is_queued, |flavour| {
    /// Who sets the new weight of A.
    enum By {
        Handle,
        Job,
    }
    for (pool, by) in single_files(flavour)
        .into_iter()
        .flat_map(|pool| [By::Handle, By::Job].map(|by| (Arc::clone(&pool), by)))
    {
        for (before, after) in [(1, 3), (3, 1), (1, 50), (50, 1)] {
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            let a = pool.tenant("A").with_weight(Weight::new(before));
            for i in 1..=1_000 {
                let (noted, a) = (order.clone(), a.clone());
                let weak = Arc::downgrade(&pool);
                let is_by_job = matches!(by, By::Job);
                let job = move || {
                    noted.add('A');
                    if i != 100 {
                        return;
                    }
                    noted.add('|');
                    let weight = Weight::new(after);
                    if is_by_job {
                        let pool = weak.upgrade().expect("the scenario still runs");
                        let last = pool.job().tenant("A").priority(Priority::LOW);
                        last.weight(weight).execute(|| ()).unwrap();
                    } else {
                        a.set_weight(weight);
                    }
                };
                pool.job().tenant("A").execute(job).unwrap();
                pool.job().tenant("B").execute(order.note('B')).unwrap();
            }
            held.release();
            pool.wait_idle();
            assert_eq!(a.weight(), Weight::new(after));
            drop(a);
            let order: String = order.take().into_iter().collect();
            let (_, order) = order.split_once('|').unwrap();
            // The next rotation and those after it follow the new weight, give or take one job for
            // what was owed when it changed.
            let rotation = after as usize + 1;
            for t in 1..=10 * rotation {
                let served = order[..t].matches('A').count();
                let share = t * after as usize / rotation;
                assert!(
                    served.abs_diff(share) <= 2,
                    "{before} to {after}: {served} of {t}, not {share}: {order}"
                );
            }
            let longest = order[..10 * rotation].split('A').map(str::len).max();
            assert!(longest <= Some(2), "A waits for longer than two: {order}");
        }
        if let Ok(pool) = Arc::try_unwrap(pool) {
            finish_gated(Arc::new(pool));
        }
    }
});

by_strategy!(a_weight_toggled_at_each_job_starves_nobody, |flavour| {
    const JOBS: usize = 60;
    for pool in single_files(flavour) {
        for others in [1, 2, 9] {
            let (order, held) = (Order::new(), hold_workers(&pool, 1));
            let (toggled, turns) = (pool.tenant("A"), Arc::new(AtomicUsize::new(0)));
            for name in letters().take(1 + others) {
                let tenant = pool.tenant(&name.to_string());
                for _ in 0..JOBS {
                    let (order, toggled, turns) = (order.clone(), toggled.clone(), turns.clone());
                    let job = move || {
                        order.add(name);
                        let turn = turns.fetch_add(1, Ordering::SeqCst);
                        toggled.set_weight([Weight::MAX, Weight::MIN][turn % 2]);
                    };
                    tenant.execute(job).unwrap();
                }
            }
            held.release();
            pool.wait_idle();
            // While all of them have something queued, nobody waits longer than a rotation in which
            // the toggled one takes every other turn.
            let order = order.take();
            let mut last = BTreeMap::new();
            let mut left = BTreeMap::from_iter(letters().take(1 + others).map(|n| (n, JOBS)));
            for (t, name) in order.iter().enumerate() {
                let gap = t - last.insert(*name, t).unwrap_or(0);
                assert!(gap <= 2 * (others + 1), "{name} waited {gap} turns");
                let left = left.get_mut(name).unwrap();
                *left -= 1;
                if *left == 0 {
                    break;
                }
            }
            assert_eq!(order.len(), JOBS * (1 + others), "it ends");
        }
        finish_gated(pool);
    }
});

by_strategy!(names_and_scale_of_weights_change_nothing, |flavour| {
    for pool in single_files(flavour) {
        let lanes = [(2, 40), (3, 40), (7, 40), (1, 40)];
        let order = |names: [char; 4], scale: u32| -> String {
            let lanes = names.into_iter().zip(lanes);
            let lanes = lanes.map(|(name, (weight, jobs))| (name, weight * scale, jobs));
            let order = order_of(&pool, &lanes.collect::<Vec<_>>());
            let index = |c| names.iter().position(|name| *name == c).unwrap();
            order.chars().map(|c| ['A', 'B', 'C', 'D'][index(c)]).collect()
        };
        let plain = order(['A', 'B', 'C', 'D'], 1);
        assert_eq!(order(['A', 'B', 'C', 'D'], 1), plain, "the same thing twice");
        assert_eq!(order(['Z', 'k', 'B', 'A'], 1), plain);
        assert_eq!(order(['A', 'B', 'C', 'D'], 4), plain);
        finish_gated(pool);
    }
});
