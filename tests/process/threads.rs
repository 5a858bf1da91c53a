//! A system that has no thread to give.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fairlane::{BuildError, JobError, PanicPolicy, WorkerPool};

use crate::rerun::{Ended, Rerun, can_run, skipped};

/// A user that owns nothing else here: the limit counts all threads of a user.
const NOBODY: &str = "54321";

/// So the tests that become this user take turns.
static TURN: Mutex<()> = Mutex::new(());

/// How many threads the child may have, its main one included.
const THREADS: usize = 12;

/// A copy of this binary that everybody may run. Removed when dropped.
struct Copied(PathBuf);

impl Copied {
    fn new(test: &str) -> Copied {
        let name = format!(
            "fairlane-{}-{}",
            std::process::id(),
            test.replace("::", "-")
        );
        let path = std::env::temp_dir().join(name);
        let binary = std::env::current_exe().expect("this binary is somewhere");
        std::fs::copy(binary, &path).expect("there is room for a copy");
        Copied(path)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Runs the child as a user of its own who may have so many threads; root is above the limit.
fn run_limited(rerun: &Rerun) -> Option<Ended> {
    let test = rerun.test();
    if !can_run("setpriv", test) || !can_run("prlimit", test) {
        return None;
    }
    let (uid, gid) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
    let limit = format!("--nproc={THREADS}");
    let user = ["setpriv", &uid, &gid, "--clear-groups"];
    let is_root = std::process::Command::new(user[0])
        .args(&user[1..])
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !is_root {
        skipped(test, "only root can become a user without other threads");
        return None;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let copy = Copied::new(test);
    let wrapper = [&user[..], &["prlimit", &limit]].concat();
    Some(rerun.start_binary(&wrapper, &copy.0).end())
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits until `n` threads are left: one that was joined may be listed a moment more.
fn wait_for_threads(n: usize) {
    for _ in 0..10_000 {
        if threads() == n {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{} threads, not {n}", threads());
}

process_test!(a_pool_that_the_system_has_no_threads_for,
    child {
        let before = threads();
        for round in 0..3 {
            let error = WorkerPool::new(64).expect_err("that is more than allowed");
            let BuildError::Spawn { slot, source } = error else { panic!("{error:?}") };
            assert_eq!(slot, THREADS - before, "round {round}");
            assert_eq!(source.kind(), std::io::ErrorKind::WouldBlock);
            wait_for_threads(before);
        }
        // There is as much room as before.
        let pool = WorkerPool::new(THREADS - before).unwrap();
        assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
        pool.shutdown();
        wait_for_threads(before);
    }
    parent |rerun| {
        if let Some(ended) = run_limited(&rerun) {
            ended.assert_passed();
        }
    }
);

process_test!(a_thread_that_cannot_be_replaced_goes_on,
    child {
        let workers = THREADS - threads();
        for fair in [false, true] {
            let restart = PanicPolicy::Restart { max_restarts: 100 };
            let builder = WorkerPool::builder().workers(workers).on_panic(restart);
            let builder = if fair { builder.fair() } else { builder };
            let pool = builder.build().unwrap();
            // No thread can be had now, and each of these asks for one.
            let panics = |i: usize| move || std::panic::resume_unwind(Box::new(i));
            let jobs: Vec<_> = (0..50).map(|i| pool.submit(panics(i)).unwrap()).collect();
            for (i, job) in jobs.into_iter().enumerate() {
                let outcome: Result<(), JobError> = job.join();
                let Err(JobError::Panicked(payload)) = outcome else { panic!("{outcome:?}") };
                assert_eq!(payload.into_inner().downcast_ref::<usize>(), Some(&i));
            }
            // All workers are there: that many jobs run at once.
            let barrier = std::sync::Arc::new(std::sync::Barrier::new(workers));
            let meet = |_| {
                let barrier = std::sync::Arc::clone(&barrier);
                pool.submit(move || _ = barrier.wait()).unwrap()
            };
            let jobs: Vec<_> = (0..workers).map(meet).collect();
            jobs.into_iter().for_each(|job| job.join().unwrap());
            let stats = pool.stats();
            assert_eq!((stats.workers, stats.panicked), (workers, 50), "{stats:?}");
            pool.shutdown();
            wait_for_threads(THREADS - workers);
        }
    }
    parent |rerun| {
        if let Some(ended) = run_limited(&rerun) {
            ended.assert_passed();
        }
    }
);
