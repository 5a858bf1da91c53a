//! Joining inside a job: the target runs on the spot, nothing else does, and nobody waits for
//! himself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use fairlane::{JobError, JobHandle, WorkerPool};

use crate::common::*;

scenario!(the_target_runs_on_the_spot, |flavour| {
    let pool = flavour.pool(2);
    let held = hold_workers(&pool, 1);
    let weak = Arc::downgrade(&pool);
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let here = thread::current().id();
        let child = pool.submit(|| thread::current().id()).unwrap();
        child.join().unwrap() == here
    });
    assert!(
        parent.unwrap().join().unwrap(),
        "its joiner's thread is the only free one"
    );
    held.release();
    finish(pool);
});

scenario!(nothing_but_the_target_runs, |flavour| {
    let pool = flavour.pool(1);
    let weak = Arc::downgrade(&pool);
    let log = Arc::new(Mutex::new(Vec::new()));
    let logs = Arc::clone(&log);
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let note = |text: String| {
            let logs = Arc::clone(&logs);
            move || logs.lock().unwrap().push(text)
        };
        let strangers = |when: &str| {
            for i in 0..40 {
                pool.execute(note(format!("stranger {when} {i}"))).unwrap();
            }
        };
        strangers("before");
        let jobs: Vec<_> = (0..3)
            .map(|i| pool.submit(note(format!("child {i}"))).unwrap())
            .collect();
        strangers("after");
        for job in jobs.into_iter().rev() {
            job.join().unwrap();
        }
        logs.lock().unwrap().clone()
    });
    assert_eq!(
        parent.unwrap().join().unwrap(),
        ["child 2", "child 1", "child 0"]
    );
    pool.wait_idle();
    assert_eq!(log.lock().unwrap().len(), 83);
    finish(pool);
});

scenario!(a_lock_held_across_join_is_not_reentered, |flavour| {
    let pool = flavour.pool(1);
    let lock = Arc::new(Mutex::new(0));
    let (weak, mine) = (Arc::downgrade(&pool), Arc::clone(&lock));
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let theirs = Arc::clone(&mine);
        let stranger = pool.submit(move || *theirs.lock().unwrap() += 1).unwrap();
        let child = pool.submit(|| 5).unwrap();
        let mut locked = mine.lock().unwrap();
        *locked += child.join().unwrap();
        drop(locked);
        stranger.join().unwrap();
    });
    parent.unwrap().join().unwrap();
    assert_eq!(*lock.lock().unwrap(), 6);
    finish(pool);
});

scenario!(a_tree_of_joins_on_one_worker, |flavour| {
    fn leaves(pool: &Arc<WorkerPool>, depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let submit = |_| {
            let weak = Arc::downgrade(pool);
            pool.submit(move || leaves(&weak.upgrade().unwrap(), depth - 1))
                .unwrap()
        };
        let jobs: Vec<_> = (0..3).map(submit).collect();
        jobs.into_iter().map(|job| job.join().unwrap()).sum()
    }
    for n in [1, workers()] {
        let pool = flavour.pool(n);
        let weak = Arc::downgrade(&pool);
        let root = pool
            .submit(move || leaves(&weak.upgrade().unwrap(), 6))
            .unwrap();
        assert_eq!(root.join().unwrap(), 729);
        finish(pool);
    }
});

/// Gives a job its own handle and returns what the job says of it.
fn with_own_handle(
    flavour: &Flavour,
    ask: fn(JobHandle<()>) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let pool = flavour.pool(1);
    let (sender, receiver) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    let me = pool.submit(move || answer.send(ask(receiver.recv().unwrap())).unwrap());
    sender.send(me.unwrap()).unwrap();
    let outcome = answers.recv().unwrap();
    pool.wait_idle();
    assert_eq!(pool.stats().completed, 1, "the job itself went on");
    finish(pool);
    outcome
}

scenario!(a_job_that_joins_itself, |flavour| {
    assert_matches!(
        with_own_handle(flavour, JobHandle::join),
        Err(JobError::WouldDeadlock)
    );
    let timed = |job: JobHandle<()>| job.join_timeout(Duration::MAX).expect("it does not wait");
    assert_matches!(
        with_own_handle(flavour, timed),
        Err(JobError::WouldDeadlock)
    );
    // The other kinds of looking at oneself are harmless.
    let looks = |job: JobHandle<()>| {
        assert!(!job.is_finished() && !job.cancel());
        Ok(())
    };
    with_own_handle(flavour, looks).unwrap();
});

scenario!(a_job_that_joins_an_ancestor, |flavour| {
    let pool = flavour.pool(1);
    for generations in 1..5 {
        let (sender, receiver) = mpsc::channel::<JobHandle<()>>();
        let (answer, answers) = mpsc::channel();
        fn descend(
            pool: &Arc<WorkerPool>,
            generations: u32,
            eldest: mpsc::Receiver<JobHandle<()>>,
            answer: mpsc::Sender<Result<(), JobError>>,
        ) {
            if generations == 0 {
                return answer.send(eldest.recv().unwrap().join()).unwrap();
            }
            let weak = Arc::downgrade(pool);
            let child = pool.submit(move || {
                descend(&weak.upgrade().unwrap(), generations - 1, eldest, answer);
            });
            child.unwrap().join().unwrap();
        }
        let weak = Arc::downgrade(&pool);
        let eldest = pool.submit(move || {
            descend(&weak.upgrade().unwrap(), generations, receiver, answer);
        });
        sender.send(eldest.unwrap()).unwrap();
        assert_matches!(answers.recv().unwrap(), Err(JobError::WouldDeadlock));
        pool.wait_idle();
    }
    assert_eq!(pool.stats().panicked, 0);
    finish(pool);
});

scenario!(a_finished_child_is_no_ancestor, |flavour| {
    // Having run on this stack is not being on it.
    let pool = flavour.pool(1);
    let weak = Arc::downgrade(&pool);
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let first = pool.submit(|| 1).unwrap();
        let second = pool.submit(move || first.join().unwrap() + 1).unwrap();
        let third = pool.submit(move || second.join().unwrap() + 1).unwrap();
        third.join().unwrap()
    });
    assert_eq!(parent.unwrap().join().unwrap(), 3);
    finish(pool);
});

scenario!(a_join_across_pools, |flavour| {
    let (pool, other) = (flavour.pool(1), flavour.pool(1));
    let weak = Arc::downgrade(&other);
    let outer = pool.submit(move || {
        let other = weak.upgrade().unwrap();
        let here = thread::current().id();
        // The other pool's own worker runs it; a thread of this pool is a stranger there.
        other
            .submit(move || thread::current().id() != here)
            .unwrap()
            .join()
            .unwrap()
    });
    assert!(outer.unwrap().join().unwrap());
    other.wait_idle();
    finish(other);
    finish(pool);
});

scenario!(joiner_and_worker_race_for_the_target, |flavour| {
    let pool = flavour.pool(2);
    let ran = Arc::new(AtomicUsize::new(0));
    let n = rounds(50_000);
    let (weak, runs) = (Arc::downgrade(&pool), Arc::clone(&ran));
    let parent = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        for i in 0..n {
            let runs = Arc::clone(&runs);
            let child = pool
                .submit(move || runs.fetch_add(1, Ordering::SeqCst))
                .unwrap();
            assert_eq!(child.join().unwrap(), i);
        }
    });
    parent.unwrap().join().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), n);
    assert_eq!(pool.stats().completed, n as u64 + 1);
    finish(pool);
});
