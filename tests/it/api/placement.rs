//! `pick_slot`: a pure function, and the one that the pool goes by.

use std::sync::Arc;

use fairlane::{
    JobHandle, ParseStrategyError, SchedulerSlot, SlotLoad, Strategy, WorkerPool, pick_slot,
};

use crate::common::*;

const STRATEGIES: [Strategy; 2] = [Strategy::RoundRobin, Strategy::LeastBusy];

fn projection(pending: &[usize]) -> Vec<SchedulerSlot> {
    let slot = |(i, &pending)| SchedulerSlot::new(format!("w{i}"), pending);
    pending.iter().enumerate().map(slot).collect()
}

/// Index and cursor as the contract words them.
fn expected(strategy: Strategy, pending: &[usize], cursor: usize) -> Option<(usize, usize)> {
    if pending.is_empty() {
        return None;
    }
    if matches!(strategy, Strategy::RoundRobin) {
        let index = cursor % pending.len();
        return Some((index, (index + 1) % pending.len()));
    }
    let least = pending.iter().min()?;
    Some((pending.iter().position(|count| count == least)?, cursor))
}

#[track_caller]
fn check(strategy: Strategy, pending: &[usize], cursor: usize) {
    let slots = projection(pending);
    let before = slots.clone();
    for _ in 0..2 {
        let pick = pick_slot(strategy, &slots, cursor);
        let found = pick.as_ref().map(|pick| (pick.index, pick.next_index));
        assert_eq!(
            found,
            expected(strategy, pending, cursor),
            "{strategy} {pending:?} {cursor}"
        );
        if let Some(pick) = pick {
            assert!(std::ptr::eq(pick.slot, &slots[pick.index]));
        }
    }
    assert!(slots == before);
}

#[test]
fn every_small_input() {
    let cursors = [0, 1, 2, 3, 4, 5, 6, 7, 11, usize::MAX - 1, usize::MAX];
    for len in 0..=5_u32 {
        for code in 0..4_usize.pow(len) {
            let digit = |i| code / 4_usize.pow(i) % 4;
            let pending: Vec<_> = (0..len).map(digit).collect();
            for strategy in STRATEGIES {
                for cursor in cursors {
                    check(strategy, &pending, cursor);
                }
            }
        }
    }
}

#[test]
fn large_and_extreme_inputs() {
    for strategy in STRATEGIES {
        for len in [63, 64, 65, 1_000] {
            for least in [0, 1, len / 2, len - 1] {
                let mut pending = vec![usize::MAX; len];
                check(strategy, &pending, usize::MAX);
                pending[least] = usize::MAX - 1;
                check(strategy, &pending, len - 1);
                pending[least] = 0;
                check(strategy, &pending, len);
            }
        }
        check(strategy, &[], usize::MAX);
    }
}

#[test]
fn anything_with_a_load_will_do() {
    struct Load(usize);
    impl SlotLoad for Load {
        fn pending_count(&self) -> usize {
            self.0
        }
    }
    let slots = [Load(3), Load(1), Load(1)];
    let pick = pick_slot(Strategy::LeastBusy, &slots, 9).unwrap();
    assert_eq!((pick.index, pick.slot.0, pick.next_index), (1, 1, 9));
    assert_eq!(SchedulerSlot::new("w3", 12).pending_count(), 12);
    assert_eq!(SchedulerSlot::new(String::from("w3"), 12).name, "w3");
}

#[test]
fn strategies_are_written_and_read() {
    assert!(matches!(Strategy::default(), Strategy::LeastBusy));
    assert_eq!(Strategy::RoundRobin.to_string(), "round-robin");
    assert_eq!(Strategy::LeastBusy.to_string(), "least-busy");
    assert_eq!(format!("{:>12}|", Strategy::LeastBusy), "  least-busy|");
    for strategy in STRATEGIES {
        let read: Strategy = strategy.to_string().parse().unwrap();
        assert!(read == strategy);
    }
    for wrong in ["", "round_robin", "least-busy ", "random"] {
        let error: ParseStrategyError = wrong.parse::<Strategy>().unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

fn pending(pool: &WorkerPool) -> Vec<usize> {
    pool.stats().slots.iter().map(|slot| slot.pending).collect()
}

/// Submits a job while every worker is held, and returns the slot that it went to.
fn place(pool: &WorkerPool, jobs: &mut Vec<(usize, JobHandle<()>)>) -> usize {
    let before = pending(pool);
    let job = pool.submit(|| ()).unwrap();
    let after = pending(pool);
    let grown = |&i: &usize| after[i] != before[i];
    let slots: Vec<_> = (0..before.len()).filter(grown).collect();
    assert_eq!(slots.len(), 1, "{before:?} then {after:?}");
    assert_eq!(after[slots[0]], before[slots[0]] + 1);
    jobs.push((slots[0], job));
    slots[0]
}

fn placement_follows(pool: &Arc<WorkerPool>, strategy: Strategy) {
    let n = pool.workers();
    let held = hold_workers(pool, n);
    let mut jobs = Vec::new();
    let mut dice = Dice::new(n as u64);
    // Where the cursor stands can only be told from the first job.
    let first = place(pool, &mut jobs);
    let mut cursor = (first + 1) % n;
    for _ in 0..200 {
        if dice.roll(3) == 0 {
            // Unequal loads: a cancelled job leaves its slot's count at once.
            let before = pending(pool);
            let (slot, job) = jobs.swap_remove(dice.roll(jobs.len() as u64) as usize);
            assert!(job.cancel());
            assert_eq!(pending(pool)[slot], before[slot] - 1);
            if jobs.is_empty() {
                cursor = (place(pool, &mut jobs) + 1) % n;
            }
            continue;
        }
        let slots = projection(&pending(pool));
        let pick = pick_slot(strategy, &slots, cursor).unwrap();
        assert_eq!(place(pool, &mut jobs), pick.index, "{slots:?}");
        cursor = pick.next_index;
    }
    held.release();
    for (_, job) in jobs {
        job.join().unwrap();
    }
    pool.wait_idle();
}

#[test]
fn the_pool_places_jobs_as_pick_slot_says() {
    for strategy in STRATEGIES {
        for n in [1, 2, 3, 5, 8, 70] {
            let pool = WorkerPool::builder()
                .strategy(strategy)
                .workers(n)
                .build()
                .unwrap();
            let pool = Arc::new(pool);
            placement_follows(&pool, strategy);
            finish(pool);
        }
    }
}

/// What jobs submit goes round from the slot of their thread, whatever others submit meanwhile.
#[test]
fn threads_of_a_pool_take_turns_by_themselves() {
    let builder = WorkerPool::builder().name("turns").workers(3);
    let pool = Arc::new(builder.strategy(Strategy::RoundRobin).build().unwrap());
    let held = hold_workers(&pool, 2);
    let theirs = Arc::clone(&pool);
    let places = move || {
        let thread = std::thread::current();
        let mut jobs = Vec::new();
        for _ in 0..7 {
            place(&theirs, &mut jobs);
            std::thread::scope(|scope| {
                let outsider = || place(&theirs, &mut Vec::new());
                scope.spawn(outsider).join().unwrap();
            });
        }
        let slots: Vec<_> = jobs.iter().map(|(slot, _)| *slot).collect();
        (thread.name().unwrap().to_owned(), slots)
    };
    let (thread, slots) = pool.submit(places).unwrap().join().unwrap();
    assert_eq!(thread, format!("turns-w{}", slots[0]));
    assert!(
        slots.windows(2).all(|two| two[1] == (two[0] + 1) % 3),
        "{slots:?}"
    );
    held.release();
    pool.wait_idle();
    finish(pool);
}
