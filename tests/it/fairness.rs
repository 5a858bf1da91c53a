//! Who enters next: the order in which a pool with a limit admits the jobs of several tenants.
//!
//! One job at a time and a first job that holds the slot while the others are queued: then the
//! order is the gate's alone. What has to happen at a certain moment is done by the job that runs
//! at that moment.

mod comers;
mod model;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fairlane::{CancelToken, FairQueue, JobHandle, PanicPolicy, Priority, Weight, WorkerPool};

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
        assert_eq!(
            pool.stats().tenants.len(),
            10_000 + 1,
            "and that of the first job"
        );
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
            assert!(
                order
                    .take()
                    .into_iter()
                    .eq(wanted.into_iter().map(|(_, i)| i))
            );
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
    let lanes = [
        ("A", 3, "A...AA.A.AAAAA"),
        ("B", 1, "B.B...B.B"),
        ("C", 2, "CC.CCC...CC"),
    ];
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
            order
                .chars()
                .map(|c| ['A', 'B', 'C', 'D'][index(c)])
                .collect()
        };
        let plain = order(['A', 'B', 'C', 'D'], 1);
        assert_eq!(
            order(['A', 'B', 'C', 'D'], 1),
            plain,
            "the same thing twice"
        );
        assert_eq!(order(['Z', 'k', 'B', 'A'], 1), plain);
        assert_eq!(order(['A', 'B', 'C', 'D'], 4), plain);
        finish_gated(pool);
    }
});

by_strategy!(priorities_age_as_the_fair_queue_says, |flavour| {
    for boost in [0, 1, 3, 1_000] {
        let builder = flavour.builder().workers(1).concurrency(1).ageing(boost);
        let pool = flavour.build(builder);
        let held = hold_workers(&pool, 1);
        let order: Arc<Mutex<Vec<usize>>> = Arc::default();
        let mut queue = FairQueue::with_ageing(boost);
        let mut dice = Dice::new(u64::from(boost));
        for n in 0..50 {
            let priority = Priority(dice.roll(7) as i32 - 3);
            queue.push("alone", priority, n);
            let order = Arc::clone(&order);
            let job = pool.job().tenant("alone").priority(priority);
            job.execute(move || order.lock().unwrap().push(n)).unwrap();
        }
        held.release();
        pool.wait_idle();
        let expected: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, n)| n).collect();
        assert_eq!(*order.lock().unwrap(), expected, "boost {boost}");
        finish_gated(pool);
    }
});

by_strategy!(one_that_waits_for_the_next_does_not_hold_it_up, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).concurrency(2));
    let held = hold_workers(&pool, 2);
    // Many tiny jobs first, so that whoever took several at a time would be at it by now.
    for _ in 0..5_000 {
        pool.execute(|| ()).unwrap();
    }
    for _ in 0..500 {
        let (sender, receiver) = std::sync::mpsc::channel();
        let waits = move || assert_eq!(receiver.recv(), Ok(()));
        pool.execute(waits).unwrap();
        let sends = move || sender.send(()).expect("the one before waits for it");
        pool.execute(sends).unwrap();
    }
    held.release();
    pool.wait_idle();
    assert_eq!(pool.stats().panicked, 0);
    finish_gated(pool);
});

by_strategy!(
    a_tenant_whose_jobs_panic_gets_its_share_and_no_more,
    |flavour| {
        let policies = [
            PanicPolicy::Keep,
            PanicPolicy::Restart { max_restarts: 100 },
        ];
        for (policy, weights) in policies.into_iter().zip([[1, 1, 1], [3, 2, 1]]) {
            let builder = flavour.builder().workers(1).fair().on_panic(policy);
            let pool = flavour.build(builder);
            let lanes = letters()
                .zip(weights)
                .map(|(name, weight)| (name, weight, 30));
            let expected = order_of(&pool, &lanes.collect::<Vec<_>>());
            let order = Order::new();
            let held = hold_workers(&pool, 1);
            for (name, weight) in letters().zip(weights) {
                let job = pool.job().tenant(name.to_string());
                let job = job.weight(Weight::new(weight));
                for _ in 0..30 {
                    let note = order.note(name);
                    let run = move || {
                        note();
                        if name == 'A' {
                            std::panic::resume_unwind(Box::new("as asked"));
                        }
                    };
                    job.clone().execute(run).unwrap();
                }
            }
            held.release();
            pool.wait_idle();
            assert_eq!(order.take().into_iter().collect::<String>(), expected);
            assert_eq!(pool.stats().panicked, 30);
            finish_gated(pool);
        }
    }
);
