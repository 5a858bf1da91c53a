//! How many jobs run at once, of the pool and of each tenant, and that no slot stays empty for it.

mod drops;
mod ends;
mod nested;
mod room;
#[cfg(target_os = "linux")]
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{CancelToken, JobHandle, Priority, Tenant, Weight, WorkerPool};

use crate::common::{Counter, Dice, Gate, Probe, hold_workers, rounds, workers};
use crate::fairness::{Order, by_strategy, finish_gated};

/// Counts those who are inside, and how many there were at most.
#[derive(Clone, Default)]
struct Inside(Arc<(AtomicUsize, AtomicUsize)>);

impl Inside {
    fn enter(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// Jobs that count when they begin, and end when told.
#[derive(Clone)]
struct Waits {
    begun: Counter,
    gate: Gate,
}

impl Waits {
    /// The gate of the original opens when a failed test drops it; see [`Gate`].
    fn new() -> Self {
        Self {
            begun: Counter::new(),
            gate: Gate::new(),
        }
    }

    fn job(&self) -> impl FnOnce() + Send + 'static + use<> {
        let waits = self.clone();
        move || {
            waits.begun.bump();
            waits.gate.wait();
        }
    }
}

/// As many jobs as the limit says run at once.
#[track_caller]
fn assert_all_tokens_work(pool: &WorkerPool, concurrency: usize) {
    let waits = Waits::new();
    let submit = |i| {
        pool.job()
            .tenant(format!("meets {}", i % 3))
            .submit(waits.job())
    };
    let jobs: Vec<_> = (0..concurrency).map(|i| submit(i).unwrap()).collect();
    waits.begun.wait_for(concurrency);
    waits.gate.open();
    jobs.into_iter().for_each(|job| job.join().unwrap());
}

by_strategy!(as_many_jobs_run_as_the_limit_says, |flavour| {
    // Above the number of workers it is that number.
    for (workers, concurrency, at_once) in [(10, 10, 10), (12, 10, 10), (2, 10, 2), (4, 1, 1)] {
        let builder = flavour.builder().workers(workers);
        let pool = flavour.build(builder.concurrency(concurrency));
        let waits = Waits::new();
        let jobs: Vec<_> = (0..30)
            .map(|i| {
                let job = pool.job().tenant(["a", "b", "c"][i % 3]);
                job.submit(waits.job()).unwrap()
            })
            .collect();
        waits.begun.wait_for(at_once);
        let stats = pool.stats();
        assert_eq!((stats.running, stats.queued), (at_once, 30 - at_once));
        let running: usize = stats.tenants.iter().map(|tenant| tenant.running).sum();
        let queued: usize = stats.tenants.iter().map(|tenant| tenant.queued).sum();
        assert_eq!((running, queued), (at_once, 30 - at_once), "{stats:?}");
        assert_eq!(waits.begun.get(), at_once);
        waits.gate.open();
        jobs.into_iter().for_each(|job| job.join().unwrap());
        for _ in 0..rounds(200) {
            assert_all_tokens_work(&pool, at_once);
        }
        finish_gated(pool);
    }
});

by_strategy!(of_fair_and_concurrency_the_last_call_wins, |flavour| {
    let builder = || flavour.builder().workers(4);
    for (builder, at_once) in [
        (builder().fair(), 4),
        (builder().fair().concurrency(2), 2),
        (builder().concurrency(2).fair(), 4),
        (builder().concurrency(2).concurrency(3), 3),
        (flavour.builder().concurrency(2).fair().workers(3), 3),
    ] {
        let pool = flavour.build(builder);
        let waits = Waits::new();
        let jobs: Vec<_> = (0..6).map(|_| pool.submit(waits.job()).unwrap()).collect();
        waits.begun.wait_for(at_once);
        let stats = pool.stats();
        assert_eq!((stats.running, stats.queued), (at_once, 6 - at_once));
        waits.gate.open();
        jobs.into_iter().for_each(|job| job.join().unwrap());
        finish_gated(pool);
    }
});

by_strategy!(never_more_run_than_the_limits_say, |flavour| {
    for concurrency in [1, 2, 3, 9] {
        let pool = flavour.build(flavour.builder().workers(4).concurrency(concurrency));
        let (all, probe) = (Inside::default(), Probe::new());
        let caps = [Some(1), Some(2), Some(3), None];
        let tenants: Vec<_> = (0..4_usize)
            .map(|i| {
                let tenant = pool.tenant(&format!("tenant {i}"));
                let tenant = tenant.with_weight(Weight::new(1 + i as u32));
                let inside = Inside::default();
                match caps[i] {
                    Some(most) => (tenant.with_max_running(most), inside),
                    None => (tenant, inside),
                }
            })
            .collect();
        let jobs = rounds(10_000);
        thread::scope(|scope| {
            for seed in 0..3 {
                let (pool, tenants, all, probe) = (&pool, &tenants, &all, &probe);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed);
                    for _ in 0..jobs {
                        let (tenant, inside) = &tenants[dice.roll(4) as usize];
                        let (all, inside, captured) =
                            (all.clone(), inside.clone(), probe.capture());
                        let (spins, panics) = (dice.roll(50), dice.roll(20) == 0);
                        let job = pool.job().tenant(tenant).priority(dice.roll(3) as i32);
                        let handle = job.submit(move || {
                            all.enter();
                            inside.enter();
                            captured.run();
                            (0..spins).for_each(|_| std::hint::spin_loop());
                            inside.leave();
                            all.leave();
                            if panics {
                                std::panic::resume_unwind(Box::new(()));
                            }
                        });
                        if dice.roll(8) == 0 {
                            handle.unwrap().cancel();
                        }
                    }
                });
            }
        });
        pool.wait_idle();
        assert!(all.most() <= concurrency.min(4), "{} at once", all.most());
        for ((_, inside), cap) in tenants.iter().zip(caps) {
            assert!(
                inside.most() <= cap.unwrap_or(4),
                "{cap:?}: {}",
                inside.most()
            );
        }
        let stats = pool.stats();
        assert_eq!(stats.submitted, 3 * jobs as u64);
        assert_eq!(probe.created(), 3 * jobs);
        probe.assert_all_dropped((stats.completed + stats.panicked) as usize);
        for tenant in &stats.tenants {
            assert_eq!((tenant.queued, tenant.running), (0, 0), "{tenant:?}");
        }
        drop(tenants);
        assert_all_tokens_work(&pool, concurrency.min(4));
        finish_gated(pool);
    }
});

/// Submits `jobs` of them.
fn submit_all(tenant: &Tenant, waits: &Waits, jobs: usize) -> Vec<JobHandle<()>> {
    let submit = |_| tenant.submit(waits.job()).unwrap();
    (0..jobs).map(submit).collect()
}

by_strategy!(a_tenant_at_its_limit_is_passed_over, |flavour| {
    let pool = flavour.build(flavour.builder().workers(4).fair());
    let capped = pool.tenant("capped").with_max_running(1);
    let free = pool.tenant("free");
    let (theirs, ours) = (Waits::new(), Waits::new());
    let first = submit_all(&capped, &theirs, 5);
    theirs.begun.wait_for(1);
    // Three slots are empty, and the lane with four jobs may not run.
    let stats = pool.stats();
    assert_eq!((stats.running, stats.queued), (1, 4), "{stats:?}");
    let jobs = submit_all(&free, &ours, 3);
    ours.begun.wait_for(3);
    // And with somebody else's queue behind it, no matter how urgent the held ones are.
    let more: Vec<_> = (0..100).map(|_| free.submit(|| ()).unwrap()).collect();
    let urgent = pool.job().tenant(&capped).priority(Priority::HIGH);
    let urgent = urgent.submit(theirs.job()).unwrap();
    ours.gate.open();
    jobs.into_iter()
        .chain(more)
        .for_each(|job| job.join().unwrap());
    assert_eq!(theirs.begun.get(), 1, "one at a time");
    theirs.gate.open();
    first
        .into_iter()
        .chain([urgent])
        .for_each(|job| job.join().unwrap());
    drop((capped, free));
    finish_gated(pool);
});

by_strategy!(a_free_slot_takes_what_may_run, |flavour| {
    // A capped tenant's backlog in front; whatever the others submit begins at once, again and
    // again, with every slot that the capped one leaves.
    let pool = flavour.build(flavour.builder().workers(4).fair());
    let capped = pool.tenant("capped").with_max_running(1);
    let theirs = Waits::new();
    let backlog = submit_all(&capped, &theirs, 50);
    theirs.begun.wait_for(1);
    for round in 0..rounds(500) {
        let ours = Waits::new();
        let tenant = pool.tenant(&format!("round {round}"));
        let jobs = submit_all(&tenant, &ours, 3);
        ours.begun.wait_for(3);
        assert_eq!(pool.stats().queued, 49);
        ours.gate.open();
        jobs.into_iter().for_each(|job| job.join().unwrap());
    }
    // One after the other leaves the slot to the next of its tenant.
    theirs.gate.open();
    backlog.into_iter().for_each(|job| job.join().unwrap());
    assert_eq!(theirs.begun.get(), 50);
    drop(capped);
    assert_all_tokens_work(&pool, 4);
    finish_gated(pool);
});

by_strategy!(a_capped_tenant_runs_on_as_its_jobs_end, |flavour| {
    let pool = flavour.build(flavour.builder().workers(4).fair());
    let tenant = pool.tenant("capped").with_max_running(2);
    let (begun, ends) = (Counter::new(), Counter::new());
    let jobs: Vec<_> = (0..20)
        .map(|i| {
            let (begun, ends) = (begun.clone(), ends.clone());
            let job = move || {
                begun.bump();
                // The i-th waits for i + 1 permissions: they end in order.
                ends.wait_for(i + 1);
            };
            tenant.submit(job).unwrap()
        })
        .collect();
    for (i, job) in jobs.into_iter().enumerate() {
        begun.wait_for((i + 2).min(20));
        assert_eq!(pool.stats().running, 2.min(20 - i));
        assert_eq!(begun.get(), (i + 2).min(20));
        ends.bump();
        job.join().unwrap();
    }
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(a_higher_limit_counts_at_once, |flavour| {
    for lane_limits in [[1, 2, 4], [1, 3, 4], [2, 3, usize::MAX]] {
        let pool = flavour.build(flavour.builder().workers(4).fair());
        let waits = Waits::new();
        let [first, then, last] = lane_limits;
        let tenant = pool.tenant("capped").with_max_running(first);
        let jobs = submit_all(&tenant, &waits, 10);
        waits.begun.wait_for(first);
        assert_eq!(pool.stats().running, first);
        let tenant = tenant.with_max_running(then);
        waits.begun.wait_for(then);
        assert_eq!(pool.stats().running, then);
        // A lower one keeps nobody who runs from it.
        let tenant = tenant.with_max_running(1);
        assert_eq!(pool.stats().running, then);
        // By another handle of the same name.
        let other = pool.tenant("capped").with_max_running(last);
        waits.begun.wait_for(4);
        assert_eq!(pool.stats().running, 4);
        waits.gate.open();
        jobs.into_iter().for_each(|job| job.join().unwrap());
        drop((tenant, other));
        finish_gated(pool);
    }
});

by_strategy!(a_lower_limit_holds_until_it_is_met, |flavour| {
    let pool = flavour.build(flavour.builder().workers(4).fair());
    let tenant = pool.tenant("capped").with_max_running(4);
    let first = Waits::new();
    let jobs = submit_all(&tenant, &first, 4);
    first.begun.wait_for(4);
    let tenant = tenant.with_max_running(1);
    let inside = Inside::default();
    let one_at_a_time: Vec<_> = (0..50)
        .map(|_| {
            let inside = inside.clone();
            let job = move || {
                inside.enter();
                thread::yield_now();
                inside.leave();
            };
            tenant.submit(job).unwrap()
        })
        .collect();
    assert_eq!(inside.most(), 0);
    first.gate.open();
    jobs.into_iter()
        .chain(one_at_a_time)
        .for_each(|job| job.join().unwrap());
    // Three of the first may have run beside the second's begin only if one was left over: none.
    assert_eq!(inside.most(), 1);
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(a_limit_that_holds_earns_no_credit, |flavour| {
    // One slot is taken by the capped tenant's job, the other runs what may run, in order.
    let pool = flavour.build(flavour.builder().workers(2).fair());
    let (order, others) = (Order::new(), Counter::new());
    let capped = pool.tenant("A").with_max_running(1);
    let theirs = Waits::new();
    let running = submit_all(&capped, &theirs, 1);
    theirs.begun.wait_for(1);
    let held = hold_workers(&pool, 1);
    for i in 1..=60 {
        capped.execute(order.note('A')).unwrap();
        for name in ['B', 'C'] {
            let (order, others, capped) = (order.clone(), others.clone(), capped.clone());
            let tenant = pool.tenant(&name.to_string());
            let job = move || {
                order.add(name);
                others.bump();
                if name == 'C' && i == 20 {
                    order.add('|');
                    drop(capped.with_max_running(2));
                } else if name == 'C' && i == 40 {
                    order.add('|');
                    drop(capped.with_max_running(1));
                }
            };
            tenant.execute(job).unwrap();
        }
    }
    held.release();
    // What the capped tenant has left may not run before its first job has ended.
    others.wait_for(2 * 60);
    theirs.gate.open();
    running.into_iter().for_each(|job| job.join().unwrap());
    pool.wait_idle();
    drop(capped);
    let order: String = order.take().into_iter().collect();
    let parts: Vec<_> = order.split('|').collect();
    assert_eq!(parts[0], "BC".repeat(20), "passed over");
    for (i, rotation) in parts[1].as_bytes().chunks(3).enumerate() {
        let mut rotation = rotation.to_vec();
        rotation.sort_unstable();
        let is_last = 3 * (i + 1) >= parts[1].len();
        assert!(
            is_last || rotation == b"ABC",
            "its share and no more: {}",
            parts[1]
        );
    }
    let left = parts[2].matches('A').count();
    assert_eq!(
        parts[2][..40].matches('A').count(),
        0,
        "passed over again: {}",
        parts[2]
    );
    assert!((39..=41).contains(&left), "20 rotations took 20: {left}");
    finish_gated(pool);
});

by_strategy!(a_cancelled_head_makes_way_for_the_next, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).fair());
    for by_token in [false, true] {
        let held = hold_workers(&pool, 1);
        let (order, token) = (Order::new(), CancelToken::new());
        let head = |note| {
            pool.job()
                .tenant("a")
                .priority(9)
                .cancel_token(&token)
                .submit(note)
        };
        let heads: Vec<_> = (0..3).map(|_| head(order.note(0)).unwrap()).collect();
        let next = pool.job().tenant("a").submit(order.note(1)).unwrap();
        if by_token {
            token.cancel();
        } else {
            assert!(heads.iter().all(JobHandle::cancel));
        }
        held.release();
        next.join().unwrap();
        assert!(
            heads
                .into_iter()
                .all(|job| job.join().unwrap_err().is_cancelled())
        );
        assert_eq!(order.take(), [1]);
    }
    finish_gated(pool);
});

/// What races the hand-over of a slot to the head of a lane.
#[derive(Clone, Copy, Debug)]
enum Race {
    Cancel,
    Token,
    Expire,
    CancelQueued,
    JoinTimeout,
}

by_strategy!(a_cancel_that_races_a_hand_over_loses_no_slot, |flavour| {
    use Race::{Cancel, CancelQueued, Expire, JoinTimeout, Token};
    for (workers, concurrency) in [(1, 1), (2, 2), (3, 2)] {
        let pool = flavour.build(flavour.builder().workers(workers).concurrency(concurrency));
        let probe = Probe::new();
        let mut ran = 0;
        for round in 0..rounds(5_000) {
            let race = [Cancel, Token, Expire, CancelQueued, JoinTimeout][round % 5];
            let (held, token) = (hold_workers(&pool, concurrency), CancelToken::new());
            let mut job = pool.job().tenant("raced").priority(1);
            match race {
                Token => job = job.cancel_token(&token),
                Expire => job = job.deadline(Instant::now() + Duration::from_micros(200)),
                _ => {}
            }
            let head = job.submit(probe.job()).unwrap();
            let next = pool.job().tenant("raced").submit(probe.job()).unwrap();
            let start = Barrier::new(2);
            let cancelled = thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    held.open();
                });
                start.wait();
                match race {
                    Cancel => usize::from(head.cancel()),
                    CancelQueued => pool.cancel_queued(),
                    Token => {
                        token.cancel();
                        0
                    }
                    Expire | JoinTimeout => {
                        head.is_finished();
                        0
                    }
                }
            });
            held.release();
            let head = head.join_timeout(Duration::MAX).unwrap();
            let (head, next) = (head.is_ok(), next.join().is_ok());
            ran += usize::from(head) + usize::from(next);
            match race {
                Cancel => assert_eq!(cancelled == 0, head),
                CancelQueued => assert_eq!(2 - cancelled, usize::from(head) + usize::from(next)),
                JoinTimeout => assert!(head && next),
                Token | Expire => assert!(next, "a slot is lost"),
            }
        }
        probe.assert_all_dropped(ran);
        assert_all_tokens_work(&pool, concurrency);
        finish_gated(pool);
    }
});

by_strategy!(
    a_cancel_that_races_a_token_on_its_way_loses_no_slot,
    |flavour| {
        let n = workers();
        let pool = flavour.build(flavour.builder().workers(n).fair());
        let probe = Probe::new();
        thread::scope(|scope| {
            for seed in 0..3 {
                let (pool, probe) = (&pool, &probe);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed);
                    for _ in 0..rounds(10_000) {
                        let tenant = ["a", "b", "c"][dice.roll(3) as usize];
                        let job = pool.job().tenant(tenant).submit(probe.job()).unwrap();
                        (0..dice.roll(100)).for_each(|_| std::hint::spin_loop());
                        job.cancel();
                    }
                });
            }
        });
        pool.wait_idle();
        let stats = pool.stats();
        assert_eq!(stats.completed + stats.cancelled, 3 * rounds(10_000) as u64);
        probe.assert_all_dropped(stats.completed as usize);
        for _ in 0..20 {
            assert_all_tokens_work(&pool, n);
        }
        finish_gated(pool);
    }
);

by_strategy!(a_cancelled_job_leaves_no_pending_slot_behind, |flavour| {
    // Its token may be on the way to a slot; but nothing was admitted there.
    let pool = flavour.build(flavour.builder().workers(2).fair());
    for _ in 0..rounds(2_000) {
        let job = pool.submit(|| ()).unwrap();
        let is_cancelled = job.cancel();
        pool.wait_idle();
        let stats = pool.stats();
        assert!(
            stats.slots.iter().all(|slot| slot.pending == 0),
            "cancelled: {is_cancelled}: {stats:?}"
        );
        drop(job);
    }
    finish_gated(pool);
});

by_strategy!(without_a_limit_no_tenant_waits, |flavour| {
    // Unlimited as the flavour builds it: nothing asked for is a limit.
    let pool = flavour.build(flavour.builder().workers(3));
    let tenant = pool
        .tenant("capped")
        .with_max_running(1)
        .with_queue_limit(1);
    let waits = Waits::new();
    let jobs: Vec<_> = (0..3)
        .map(|i| {
            let job = pool.job().tenant(&tenant).weight(Weight::new(1 + i));
            job.priority(-(i as i32)).submit(waits.job()).unwrap()
        })
        .collect();
    waits.begun.wait_for(3);
    let order = Order::new();
    let more: Vec<_> = (0..10)
        .map(|i| {
            let job = pool.job().tenant(&tenant).priority(i);
            job.try_submit(order.note(i)).unwrap()
        })
        .collect();
    let stats = pool.stats();
    assert_eq!((stats.running, stats.queued), (3, 10));
    assert_eq!(stats.tenants, []);
    waits.gate.open();
    jobs.into_iter()
        .chain(more)
        .for_each(|job| job.join().unwrap());
    drop(tenant);
    assert_eq!(pool.stats().tenants, []);
    // One worker, so that the order is to be seen: first in, first out.
    finish_gated(pool);
    let pool = flavour.build(flavour.builder().workers(1));
    let held = hold_workers(&pool, 1);
    for i in 0..20 {
        let job = pool.job().tenant(if i < 15 { "a" } else { "b" });
        let job = job.weight(Weight::new(1 + i as u32)).priority(i % 7);
        job.execute(order.note(100 + i)).unwrap();
    }
    held.release();
    pool.wait_idle();
    let order = order.take();
    assert!(order[10..].iter().copied().eq(100..120), "{order:?}");
    finish_gated(pool);
});
