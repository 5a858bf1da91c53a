//! A forked child has the pool's memory and none of its threads: nothing may wait for them there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fairlane::{CancelToken, JobError, JobHandle, JobSet, Rejected, TryMapError, WorkerPool};

use super::process::{is_rerun, rerun_test};
use crate::common::{
    Flavour, Gate, Probe, assert_matches, assert_quiescent, finish, hold_workers, refused, scenario,
};
use crate::panics::quiet_panic;

#[allow(unsafe_code)]
mod sys {
    // SAFETY: these are the prototypes of POSIX; pid_t and unsigned int are 32 bits wide on every
    // system that Rust knows as unix.
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn alarm(seconds: u32) -> u32;
        fn _exit(status: i32) -> !;
    }

    /// Zero in the child, the child's number in the parent.
    pub(super) fn fork_process() -> i32 {
        // SAFETY: the child goes on as the copy of this one thread. It uses the pool, which is
        // what the tests are about, the allocator, which glibc and the BSDs keep usable across a
        // fork, and the standard error stream, which nobody else writes to while it forks.
        unsafe { fork() }
    }

    /// Has the system kill this process after so many seconds.
    pub(super) fn kill_after(seconds: u32) {
        // SAFETY: nothing of this process handles the signal or uses the timer.
        unsafe { alarm(seconds) };
    }

    /// Ends this process without running anything more of it.
    pub(super) fn exit_at_once(status: i32) -> ! {
        // SAFETY: there is nothing to be flushed or unlocked in a forked child.
        unsafe { _exit(status) }
    }

    /// Waits for a child to end; its status as the system encodes it, 0 for success.
    pub(super) fn wait_for(child: i32) -> i32 {
        let mut status = -1;
        // SAFETY: `status` lives until the call returns, and the child is this process's own.
        let ended = unsafe { waitpid(child, &mut status, 0) };
        assert_eq!(ended, child, "{}", std::io::Error::last_os_error());
        status
    }
}

/// Forks. In the child it runs the expression, which may move out of everything, and ends the
/// process; in the parent it waits for the child and asserts that it got to the end.
macro_rules! in_forked_child {
    ($body:expr) => {
        match sys::fork_process() {
            0 => end_child_with(|| $body),
            child => {
                assert!(child > 0, "{}", std::io::Error::last_os_error());
                let status = sys::wait_for(child);
                assert_eq!(status, 0, "the child panicked (256), hung (14) or crashed");
            }
        }
    };
}

fn end_child_with(body: impl FnOnce()) -> ! {
    sys::kill_after(120);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    sys::exit_at_once(i32::from(outcome.is_err()));
}

/// Every way to submit to a pool of the parent: none is accepted, none waits.
fn assert_refuses(pool: &WorkerPool) {
    let probe = Probe::new();
    let refusals = [
        refused(pool.submit(probe.job())),
        refused(pool.try_submit(probe.job())),
        refused(pool.submit_timeout(Duration::MAX, probe.job())),
        refused(pool.execute(probe.job())),
        refused(pool.job().submit(probe.job())),
        refused(
            pool.job()
                .cancel_token(&CancelToken::new())
                .execute(probe.job()),
        ),
        refused(JobSet::new().submit(pool, probe.job())),
    ];
    for (reason, job) in refusals {
        assert_matches!(reason, Rejected::Forked);
        job();
    }
    let items: Vec<_> = pool.map(0..5, |i| i).collect();
    assert!(
        items.iter().all(Result::is_err) && items.len() == 5,
        "{items:?}"
    );
    assert_matches!(
        pool.try_map(0..5, Ok::<_, ()>),
        Err(TryMapError::Job(JobError::Discarded))
    );
    assert_matches!(refused(pool.broadcast(|_| ())).0, Rejected::Forked);
    probe.assert_all_dropped(7);
}

/// Everything else that can be asked of a pool: it answers, whatever the answer.
fn assert_answers(pool: &WorkerPool, workers: usize) {
    assert_eq!(pool.workers(), workers);
    assert_eq!(pool.stats().slots.len(), workers);
    pool.wait_idle_timeout(Duration::ZERO);
    pool.wait_idle_timeout(Duration::MAX);
    pool.wait_idle();
    pool.cancel_queued();
    pool.close();
    pool.close();
    assert_eq!(pool.stats().slots.len(), workers);
}

/// Handles of jobs that had not finished when the process forked, and never will here.
fn assert_discarded(handles: Vec<JobHandle<()>>) {
    for (i, handle) in handles.into_iter().enumerate() {
        handle.is_finished();
        match i % 4 {
            0 => assert_matches!(handle.join(), Err(JobError::Discarded)),
            1 => {
                let outcome = handle.join_timeout(Duration::MAX);
                assert_matches!(outcome.expect("it is known"), Err(JobError::Discarded));
            }
            2 => {
                handle.cancel();
                assert_matches!(
                    handle.join(),
                    Err(JobError::Discarded | JobError::Cancelled)
                );
            }
            _ => drop(handle),
        }
    }
}

const ENDS: [fn(WorkerPool); 4] = [
    drop,
    WorkerPool::shutdown,
    |pool| _ = pool.shutdown_now(),
    |pool| _ = pool.shutdown_timeout(Duration::MAX),
];

/// Runs `body` in a process that has no other test's threads, since they may hold any lock of the
/// process while it forks.
fn alone(flavour: &Flavour, body: impl FnOnce()) {
    if is_rerun() {
        body()
    } else {
        rerun_test(&[], flavour.test())
    }
}

scenario!(a_forked_child_can_use_and_drop_an_idle_pool, |flavour| {
    alone(flavour, || {
        for end in ENDS {
            let pool = flavour.pool(3);
            let finished = pool.submit(|| 7).unwrap();
            let unused = pool.submit(|| 8).unwrap();
            assert_quiescent(&pool);
            in_forked_child!({
                assert!(finished.is_finished());
                assert_eq!(finished.join().unwrap(), 7);
                drop(unused);
                assert_refuses(&pool);
                assert_answers(&pool, 3);
                end(Arc::into_inner(pool).unwrap());
            });
            assert_eq!(finished.join().unwrap() + unused.join().unwrap(), 15);
            assert_eq!(pool.submit(|| 9).unwrap().join().unwrap(), 9);
            finish(pool);
        }
    });
});

scenario!(a_forked_child_can_use_and_drop_a_busy_pool, |flavour| {
    alone(flavour, || {
        for end in ENDS {
            let pool = flavour.build(flavour.builder().workers(3).queue_limit(20));
            let (gate, probe, token) = (Gate::new(), Probe::new(), CancelToken::new());
            let held = hold_workers(&pool, 2);
            let begun = Gate::new();
            let running = pool.submit({
                let (begun, gate) = (begun.clone(), gate.clone());
                move || {
                    begun.open();
                    gate.wait();
                }
            });
            // Or the third worker might take one of those that are queued next instead.
            begun.wait();
            let submit = |_| pool.job().cancel_token(&token).submit(probe.job()).unwrap();
            let queued: Vec<_> = (0..12).map(submit).collect();
            let mut set = JobSet::new();
            for _ in 0..4 {
                set.submit(&pool, probe.job()).unwrap();
            }
            in_forked_child!({
                assert_refuses(&pool);
                assert_answers(&pool, 3);
                assert_discarded(vec![running.unwrap()]);
                assert_discarded(queued);
                assert_matches!(set.join_next(), Some(Err(JobError::Discarded)));
                let outcome = set.join_next_timeout(Duration::MAX);
                assert_matches!(outcome, Some(Err(JobError::Discarded)));
                assert_eq!((set.cancel_all(), set.len()), (0, 2));
                drop(set);
                token.cancel();
                assert!(token.is_cancelled());
                end(Arc::into_inner(pool).unwrap());
                assert_eq!(probe.ran(), 0);
            });
            // Nothing of all that has happened here.
            gate.open();
            held.release();
            running.unwrap().join().unwrap();
            queued.into_iter().for_each(|job| job.join().unwrap());
            assert!(set.all(|outcome| outcome.is_ok()));
            probe.assert_all_dropped(16);
            finish(pool);
        }
    });
});

scenario!(a_forked_child_drops_a_busy_pool_first_thing, |flavour| {
    alone(flavour, || {
        for end in ENDS {
            let pool = flavour.pool(2);
            let held = hold_workers(&pool, 2);
            let probe = Probe::new();
            let queued: Vec<_> = (0..8).map(|_| pool.submit(probe.job()).unwrap()).collect();
            in_forked_child!({
                end(Arc::into_inner(pool).unwrap());
                assert_discarded(queued);
            });
            held.release();
            queued.into_iter().for_each(|job| job.join().unwrap());
            probe.assert_all_dropped(8);
            finish(pool);
        }
    });
});

scenario!(a_fork_while_the_workers_are_at_it, |flavour| {
    // A lock that one of them holds at that moment stays locked in the child.
    alone(flavour, || {
        let pool = flavour.pool(3);
        for round in 0..60 {
            let end = ENDS[round % ENDS.len()];
            let probe = Probe::new();
            let jobs: Vec<_> = (0..20).map(|_| pool.submit(probe.job()).unwrap()).collect();
            (0..500).for_each(|_| pool.execute(probe.job()).unwrap());
            in_forked_child!({
                if round % 2 == 0 {
                    assert_refuses(&pool);
                    assert_answers(&pool, 3);
                }
                for job in jobs {
                    assert_matches!(job.join(), Ok(()) | Err(JobError::Discarded));
                }
                end(Arc::into_inner(pool).unwrap());
            });
            jobs.into_iter().for_each(|job| job.join().unwrap());
            pool.wait_idle();
            probe.assert_all_dropped(520);
        }
        finish(pool);
    });
});

scenario!(a_fork_inside_a_job, |flavour| {
    alone(flavour, || {
        let pool = flavour.pool(1);
        let inner = Arc::clone(&pool);
        let job = pool.submit(move || {
            let queued: Vec<_> = (0..4).map(|_| inner.submit(|| ()).unwrap()).collect();
            in_forked_child!({
                assert_refuses(&inner);
                assert!(
                    !inner.wait_idle_timeout(Duration::MAX),
                    "this job is still running"
                );
                assert_discarded(queued);
                inner.close();
                drop(inner);
            });
            queued.into_iter().for_each(|job| job.join().unwrap());
        });
        job.unwrap().join().unwrap();
        finish(pool);
    });
});

scenario!(a_fork_inside_a_scope, |flavour| {
    alone(flavour, || {
        let pool = flavour.pool(2);
        let probe = Probe::new();
        let held = hold_workers(&pool, 2);
        let (mut left, mut right) = ([1, 2], [3, 4]);
        pool.scope(|scope| {
            let (count, left) = (probe.job(), &mut left);
            let reverses = scope.submit(move || {
                count();
                left.reverse();
            });
            let reverses = reverses.unwrap();
            let (count, right) = (probe.job(), &mut right);
            let execute = scope.execute(move || {
                count();
                right.reverse();
            });
            execute.unwrap();
            // The end of the scope is the child's business too: what it waits for does not run there.
            in_forked_child!({
                assert_matches!(refused(scope.submit(|| ())).0, Rejected::Forked);
                assert_matches!(refused(scope.execute(|| ())).0, Rejected::Forked);
                assert_matches!(reverses.join(), Err(JobError::Discarded));
                pool.scope(|scope| _ = refused(scope.execute(|| ())));
                assert_eq!(probe.ran(), 0);
            });
            held.open();
            reverses.join().unwrap();
        });
        assert_eq!((left, right), ([2, 1], [4, 3]));
        held.release();
        probe.assert_all_dropped(2);
        finish(pool);
    });
});

scenario!(a_scope_whose_child_leaves_it, |flavour| {
    // The child comes out of the scope that it was forked in, by its end and by a panic.
    alone(flavour, || {
        let pool = flavour.pool(2);
        for panics in [false, true] {
            let held = hold_workers(&pool, 2);
            let mut value = 1;
            let forked = catch_unwind(AssertUnwindSafe(|| {
                pool.scope(|scope| {
                    scope.execute(|| value += 1).unwrap();
                    let forked = sys::fork_process();
                    match forked {
                        0 => {
                            sys::kill_after(120);
                            if panics {
                                quiet_panic(0);
                            }
                        }
                        _ => held.open(),
                    }
                    forked
                })
            }));
            let child = match forked {
                Ok(0) if !panics => sys::exit_at_once(i32::from(value != 1)),
                Err(_) if panics => sys::exit_at_once(i32::from(value != 1)),
                Ok(child) if child > 0 => child,
                _ => sys::exit_at_once(2),
            };
            assert_eq!(sys::wait_for(child), 0, "the child hung (14) or crashed");
            held.release();
            assert_eq!(value, 2);
        }
        finish(pool);
    });
});

scenario!(a_fork_in_the_midst_of_a_map, |flavour| {
    alone(flavour, || {
        let pool = flavour.pool(2);
        let (mut map, mut unordered) = (pool.map(0..20, |i| i), pool.map_unordered(0..20, |i| i));
        let first = map.next().unwrap().unwrap();
        let any = unordered.next().unwrap().unwrap();
        assert!(first == 0 && any < 20);
        in_forked_child!({
            // Every item that is left is told of, one way or the other.
            assert_eq!(map.count(), 19);
            assert_eq!(unordered.count(), 19);
        });
        assert_eq!((map.count(), unordered.count()), (19, 19));
        finish(pool);
    });
});

scenario!(a_forked_child_can_build_a_pool_of_its_own, |flavour| {
    alone(flavour, || {
        let pool = flavour.pool(2);
        assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
        assert_quiescent(&pool);
        in_forked_child!({
            let own = flavour.pool(2);
            let jobs: Vec<_> = (0..100).map(|i| own.submit(move || i).unwrap()).collect();
            assert!(jobs.into_iter().map(|job| job.join().unwrap()).eq(0..100));
            assert_refuses(&pool);
            finish(own);
            drop(pool);
        });
        assert_eq!(pool.submit(|| 2).unwrap().join().unwrap(), 2);
        finish(pool);
    });
});
