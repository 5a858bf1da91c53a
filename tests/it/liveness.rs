//! What was accepted gets run: no deadlock in a join, no lost wake-up, no job stuck behind another.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use fairlane::{JobError, Nested, WorkerPool};

use crate::common::{Counter, Dice, Gate, Probe, finish, hold_workers, rounds, scenario, workers};

mod idle;
mod joins;
#[cfg(target_os = "linux")]
mod strays;

/// Runs `job` inside `pool`, with the pool at hand.
fn inside<T: Send + 'static>(
    pool: &Arc<WorkerPool>,
    job: impl FnOnce(&Arc<WorkerPool>) -> T + Send + 'static,
) -> Result<T, JobError> {
    let inner = Arc::clone(pool);
    pool.submit(move || job(&inner)).unwrap().join()
}

scenario!(an_idle_slot_takes_what_a_blocked_job_submitted, |flavour| {
    let n = workers();
    for nested in [Nested::Strategy, Nested::Local] {
        let pool = flavour.build(flavour.builder().workers(n).nested(nested));
        // One round more than there are slots, so that every slot is once the blocked one.
        for children in 1..=n + 1 {
            let done = Counter::new();
            inside(&pool, move |pool| {
                for _ in 0..children {
                    let done = done.clone();
                    pool.execute(move || done.bump()).unwrap();
                }
                done.wait_for(children);
            })
            .unwrap();
        }
        finish(pool);
    }
});

scenario!(one_free_slot_serves_all_the_blocked_ones, |flavour| {
    let n = workers();
    for nested in [Nested::Strategy, Nested::Local] {
        let pool = flavour.build(flavour.builder().workers(n).nested(nested));
        let done = Counter::new();
        let all_at_it = Arc::new(Barrier::new(n - 1));
        let submit_parent = |_| {
            let (inner, done) = (Arc::clone(&pool), done.clone());
            let all_at_it = Arc::clone(&all_at_it);
            let parent = move || {
                all_at_it.wait();
                for _ in 0..50 {
                    let done = done.clone();
                    inner.execute(move || done.bump()).unwrap();
                }
                done.wait_for(50 * (n - 1));
            };
            pool.submit(parent).unwrap()
        };
        let parents: Vec<_> = (0..n - 1).map(submit_parent).collect();
        parents
            .into_iter()
            .for_each(|parent| parent.join().unwrap());
        finish(pool);
    }
});

scenario!(jobs_on_every_slot_do_not_wait_for_a_long_one, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    // One round more than there are slots, so that every slot is once the busy one.
    for busy in (0..=n).map(|round| 1 + round % (n - 1)) {
        let held = hold_workers(&pool, busy);
        let jobs: Vec<_> = (0..100).map(|i| pool.submit(move || i).unwrap()).collect();
        for (i, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.join().unwrap(), i);
        }
        held.release();
    }
    finish(pool);
});

scenario!(jobs_on_a_slot_do_not_wait_for_its_long_one, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    for long_one in (0..100).step_by(9) {
        // Everything is on its slot before a worker comes back to take a batch of it.
        let held = hold_workers(&pool, n);
        let (done, gate) = (Counter::new(), Gate::new());
        for i in 0..100 {
            let (done, gate) = (done.clone(), gate.clone());
            let job = move || {
                if i == long_one {
                    gate.wait()
                } else {
                    done.bump()
                }
            };
            pool.execute(job).unwrap();
        }
        held.release();
        done.wait_for(99);
        gate.open();
        pool.wait_idle();
    }
    finish(pool);
});

/// Submits and joins in `rounds` rounds of a few shapes. The pauses between them are around the
/// time after which a worker without work goes to sleep.
fn submit_and_join(pool: &WorkerPool, rounds: usize, mut dice: Dice) {
    let mut done = 0;
    while done < rounds {
        let batch = if dice.roll(4) == 0 {
            1 + dice.roll(6)
        } else {
            1
        };
        let mut jobs: Vec<_> = (0..batch)
            .map(|i| pool.submit(move || i).unwrap())
            .collect();
        if dice.roll(2) == 0 {
            // Only the first ones may be stolen meanwhile: wait for the last one first.
            jobs.reverse();
        }
        let sum: u64 = jobs.into_iter().map(|job| job.join().unwrap()).sum();
        assert_eq!(sum, batch * (batch - 1) / 2);
        done += usize::try_from(batch).unwrap();
        match dice.roll(16) {
            0 => thread::sleep(Duration::from_micros(dice.roll(50))),
            1..4 => (0..dice.roll(1_000)).for_each(|_| std::hint::spin_loop()),
            4 => thread::yield_now(),
            _ => {}
        }
    }
}

scenario!(no_wake_up_is_lost_with_one_submitter, |flavour| {
    // Nobody else's submit would make up for a wake-up lost here.
    for workers in [1, 2, workers()] {
        let pool = flavour.pool(workers);
        submit_and_join(&pool, rounds(150_000), Dice::new(workers as u64));
        finish(pool);
    }
});

scenario!(no_wake_up_is_lost_with_several_submitters, |flavour| {
    for workers in [2, workers()] {
        let pool = flavour.pool(workers);
        thread::scope(|scope| {
            for seed in 0..4 {
                let pool = &pool;
                scope.spawn(move || submit_and_join(pool, rounds(60_000), Dice::new(seed)));
            }
        });
        finish(pool);
    }
});

scenario!(no_wake_up_is_lost_along_a_chain_of_jobs, |flavour| {
    // Each job submits the next, so that one is in flight at any time and each wakes somebody.
    fn pass_on(pool: &Arc<WorkerPool>, left: usize, end: Gate) {
        if left == 0 {
            return end.open();
        }
        let inner = Arc::clone(pool);
        pool.execute(move || pass_on(&inner, left - 1, end))
            .unwrap();
    }
    let pool = flavour.pool(workers());
    let ends: Vec<_> = (0..3).map(|_| Gate::new()).collect();
    ends.iter()
        .for_each(|end| pass_on(&pool, rounds(50_000), end.clone()));
    ends.iter().for_each(Gate::wait);
    finish(pool);
});

scenario!(whatever_is_cancelled_the_others_run, |flavour| {
    const JOBS: usize = 4;
    for workers in [1, 2] {
        let pool = flavour.pool(workers);
        for cancelled in 0..1_usize << JOBS {
            for backwards in [false, true] {
                let held = hold_workers(&pool, workers);
                let probe = Probe::new();
                let submit = |i: usize| {
                    let captured = probe.capture();
                    pool.submit(move || {
                        captured.run();
                        i
                    })
                };
                let jobs: Vec<_> = (0..JOBS).map(|i| submit(i).unwrap()).collect();
                let is_cancelled = |i: usize| cancelled >> i & 1 == 1;
                for i in 0..JOBS {
                    let i = if backwards { JOBS - 1 - i } else { i };
                    assert!(
                        !is_cancelled(i) || jobs[i].cancel(),
                        "{cancelled:b}, job {i}"
                    );
                }
                let count = cancelled.count_ones() as usize;
                assert_eq!(probe.dropped(), count, "captures go with the cancel");
                held.release();
                for (i, job) in jobs.into_iter().enumerate() {
                    match job.join() {
                        Ok(result) => assert!(!is_cancelled(i) && result == i),
                        Err(error) => assert!(is_cancelled(i) && error.is_cancelled()),
                    }
                }
                probe.assert_all_dropped(JOBS - count);
            }
        }
        finish(pool);
    }
});
