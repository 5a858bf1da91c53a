//! Threads that wait are unparked by strangers, and jobs play with the token of their own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairlane::{JobHandle, JobSet, WorkerPool};

use super::inside;
use crate::common::*;

/// Every way to wait for a pool whose only worker is held, and whose queue of one is full with `job`.
const WAITS: [fn(&WorkerPool, JobHandle<u32>); 9] = [
    |_, job| assert_eq!(job.join().unwrap(), 7),
    |_, job| {
        let outcome = job.join_timeout(Duration::MAX).expect("it waits");
        assert_eq!(outcome.unwrap(), 7);
    },
    |pool, _| pool.wait_idle(),
    |pool, _| assert!(pool.wait_idle_timeout(Duration::MAX)),
    |pool, _| pool.execute(|| ()).unwrap(),
    |pool, _| {
        let job = pool.submit_timeout(Duration::MAX, || 8).unwrap();
        assert_eq!(job.join().unwrap(), 8);
    },
    |pool, _| pool.scope(|scope| scope.execute(|| ()).unwrap()),
    |pool, _| assert_eq!(pool.map([1, 2], |n| n).map(Result::unwrap).sum::<u32>(), 3),
    |pool, _| {
        let mut set = JobSet::new();
        set.submit(pool, || 9).unwrap();
        assert_eq!(set.join_next().unwrap().unwrap(), 9);
    },
];

scenario!(whoever_is_unparked_by_strangers_waits_on, |flavour| {
    for wait in WAITS {
        let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
        let held = hold_workers(&pool, 1);
        let job = pool.submit(|| 7).unwrap();
        let may_return = AtomicBool::new(false);
        thread::scope(|scope| {
            let _guard = held.open_on_panic();
            let waiter = spawn_blocked(scope, || {
                wait(&pool, job);
                assert!(may_return.load(Ordering::SeqCst), "nothing has run yet");
            });
            for _ in 0..rounds(2_000) {
                waiter.thread().unpark();
                thread::yield_now();
            }
            may_return.store(true, Ordering::SeqCst);
            held.open();
            waiter.join().unwrap();
        });
        held.release();
        finish(pool);
    }
});

scenario!(jobs_that_take_or_leave_a_token_lose_no_wake_up, |flavour| {
    let pool = flavour.pool(2);
    // A worker is woken by its token: each of these jobs leaves one too many, or takes one away.
    let leave: fn() = || thread::current().unpark();
    let take: fn() = || thread::park_timeout(Duration::ZERO);
    let mut dice = Dice::new(5);
    for _ in 0..rounds(20_000) {
        let play = [leave, take][dice.roll(2) as usize];
        if dice.roll(3) > 0 {
            pool.submit(play).unwrap().join().unwrap();
        } else {
            let join_a_child = move |pool: &Arc<WorkerPool>| {
                let child = pool.submit(play).unwrap();
                play();
                child.join().unwrap();
            };
            inside(&pool, join_a_child).unwrap();
        }
        if dice.roll(8) == 0 {
            pool.wait_idle();
        }
    }
    finish(pool);
});
