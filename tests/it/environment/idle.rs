//! An idle pool costs nothing. A thread that wakes is switched to, so the system's count of
//! context switches shows each wake-up, however short.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fairlane::WorkerPool;

use crate::common::{
    Gate, Probe, eventually, finish, hold_workers, scenario, switches_if_asleep, tasks_named,
};

const WORKERS: usize = 8;

/// The threads of the pool with the number of times that each was switched to or away from, once all
/// of them sleep.
fn settled(prefix: &str) -> Vec<(PathBuf, u64)> {
    let count = || {
        let mut tasks = tasks_named(prefix);
        tasks.sort();
        let counted = tasks.into_iter().map(|task| {
            let count = switches_if_asleep(&task).unwrap();
            (task, count)
        });
        counted.collect::<Vec<_>>()
    };
    // One that was woken and waits for a core does not sleep, however long that takes it on a crowded
    // machine. The looks are several, for one that is about to be woken by another.
    let (mut last, mut looks) = (count(), 0);
    eventually("the pool's threads sleep", || {
        thread::sleep(Duration::from_millis(20));
        let previous = std::mem::replace(&mut last, count());
        let all_sleep = last.iter().all(|(_, count)| count.is_some());
        looks = if all_sleep && last == previous {
            looks + 1
        } else {
            0
        };
        looks == 5 && last.len() == WORKERS
    });
    let sleeping = last.into_iter();
    sleeping
        .map(|(task, count)| (task, count.unwrap()))
        .collect()
}

/// What `measure` returns at a time when nobody stopped the whole process and let it go on, which wakes
/// every thread, even one that does nothing but sleep.
fn undisturbed<R>(mut measure: impl FnMut() -> R) -> R {
    thread::scope(|scope| {
        let gate = Gate::new();
        let (sender, task) = mpsc::channel();
        let sleeps = gate.clone();
        scope.spawn(move || {
            sender
                .send(std::fs::read_link("/proc/thread-self"))
                .unwrap();
            sleeps.wait();
        });
        let task = Path::new("/proc").join(task.recv().unwrap().unwrap());
        let asleep = || switches_if_asleep(&task).unwrap();
        loop {
            eventually("the thread sleeps", || asleep().is_some());
            let before = asleep();
            let measured = measure();
            if asleep() == before {
                gate.open();
                return measured;
            }
        }
    })
}

/// No thread of the pool runs for `window`, and there are no others beside its workers.
fn assert_nobody_wakes(prefix: &str, window: Duration) {
    let woken = undisturbed(|| {
        let before = settled(prefix);
        // Not to order anything: this is the time in which nothing must happen.
        thread::sleep(window);
        let woken = |(task, count): &(PathBuf, u64)| {
            let now = switches_if_asleep(task).unwrap();
            now != Some(*count)
        };
        before.into_iter().filter(woken).collect::<Vec<_>>()
    });
    assert_eq!(woken, []);
    assert_eq!(tasks_named(prefix).len(), WORKERS);
}

scenario!(an_idle_pool_never_wakes, |flavour| {
    let short = Duration::from_millis(300);
    let pool = flavour.pool(WORKERS);
    let prefix = flavour.thread_prefix();
    assert_nobody_wakes(prefix, short);

    // After a burst, a cancelled one, and a job with a deadline that is yet to come.
    let probe = Probe::new();
    (0..1_000).for_each(|_| pool.execute(probe.job()).unwrap());
    pool.wait_idle();
    let held = hold_workers(&pool, WORKERS);
    (0..1_000).for_each(|_| pool.execute(probe.job()).unwrap());
    assert_eq!(pool.cancel_queued(), 1_000);
    held.release();
    let deadline = Instant::now() + Duration::from_secs(1_000);
    pool.job()
        .deadline(deadline)
        .submit(probe.job())
        .unwrap()
        .join()
        .unwrap();
    assert_nobody_wakes(prefix, Duration::from_secs(1));

    // While one worker is busy, the others sleep.
    let held = hold_workers(&pool, 1);
    assert_nobody_wakes(prefix, short);
    held.release();
    probe.assert_all_dropped(1_001);
    finish(pool);
});

/// Has `submit` submit once into the sleeping pool, and counts the threads that it woke.
fn woken_by(pool: &WorkerPool, prefix: &str, submit: impl Fn(&WorkerPool)) -> usize {
    undisturbed(|| {
        let before = settled(prefix);
        submit(pool);
        pool.wait_idle();
        let after = settled(prefix);
        before
            .into_iter()
            .zip(after)
            .filter(|(before, after)| before != after)
            .count()
    })
}

scenario!(a_submit_wakes_at_most_one_thread, |flavour| {
    let pool = flavour.pool(WORKERS);
    let probe = Probe::new();
    for _ in 0..5 {
        let woken = woken_by(&pool, flavour.thread_prefix(), |pool| {
            pool.execute(probe.job()).unwrap();
        });
        assert_eq!(woken, 1, "threads woken by one execute");
        let woken = woken_by(&pool, flavour.thread_prefix(), |pool| {
            pool.submit(probe.job()).unwrap().join().unwrap();
        });
        assert_eq!(woken, 1, "threads woken by one submit");
    }
    probe.assert_all_dropped(probe.created());
    finish(pool);
});
