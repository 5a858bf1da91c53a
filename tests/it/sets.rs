//! `JobSet`: results as they finish, and nothing left behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairlane::{
    CancelToken, Inline, JobError, JobHandle, JobSet, Priority, Rejected, Submit, SubmitError,
};

use crate::common::*;
use crate::panics::{Bomb, payload, quiet_panic};

/// Everything that is left in the set, all of it good, sorted.
fn drain(set: &mut JobSet<usize>) -> Vec<usize> {
    let mut values: Vec<_> = set.map(Result::unwrap).collect();
    values.sort_unstable();
    values
}

scenario!(every_member_comes_out_once, |flavour| {
    let pool = flavour.pool(workers());
    let mut set = JobSet::new();
    assert!(set.join_next().is_none());
    for n in [1, 2, 7, 1_000] {
        for i in 0..n {
            set.submit(&pool, move || i).unwrap();
        }
        assert_eq!((set.len(), set.is_empty()), (n, false));
        assert_eq!(set.size_hint(), (n, Some(n)));
        assert!(drain(&mut set).into_iter().eq(0..n));
        assert!(set.is_empty());
    }
    finish(pool);
});

scenario!(members_come_out_as_they_finish, |flavour| {
    let pool = flavour.pool(2);
    let gate = Gate::new();
    let mut set = JobSet::new();
    let waits = gate.clone();
    set.submit(&pool, move || {
        waits.wait();
        0
    })
    .unwrap();
    for i in 1..10 {
        set.submit(&pool, move || i).unwrap();
    }
    let mut others: Vec<_> = (1..10).map(|_| set.join_next().unwrap().unwrap()).collect();
    others.sort_unstable();
    assert!(others.into_iter().eq(1..10));
    assert!(set.join_next_timeout(Duration::ZERO).is_none());
    assert!(set.join_next_timeout(Duration::from_millis(1)).is_none());
    assert_eq!(set.len(), 1, "it is still there");
    gate.open();
    assert_eq!(set.join_next_timeout(Duration::MAX).unwrap().unwrap(), 0);
    assert!(set.join_next_timeout(Duration::MAX).is_none(), "empty");
    finish(pool);
});

scenario!(a_panic_is_one_members_alone, |flavour| {
    let pool = flavour.pool(2);
    let mut set = JobSet::new();
    set.submit(&pool, || quiet_panic("member")).unwrap();
    set.submit(&pool, || 1).unwrap();
    let (mut values, mut messages) = (Vec::new(), Vec::new());
    for outcome in &mut set {
        match outcome {
            Ok(value) => values.push(value),
            error => messages.push(payload(error).message().to_owned()),
        }
    }
    assert_eq!((values, messages), (vec![1], vec!["member".to_owned()]));
    finish(pool);
});

scenario!(cancelled_members_come_out_as_cancelled, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let mut set = JobSet::new();
    for _ in 0..100 {
        set.submit(&pool, probe.job()).unwrap();
    }
    assert_eq!(set.cancel_all(), 100);
    assert_eq!(set.cancel_all(), 0, "they are cancelled already");
    assert_eq!(set.len(), 100);
    probe.assert_all_dropped(0);
    assert!(
        set.by_ref()
            .all(|outcome| outcome.unwrap_err().is_cancelled())
    );
    assert!(set.is_empty());
    held.release();
    finish(pool);
});

scenario!(dropping_a_set_cancels_what_has_not_begun, |flavour| {
    let pool = flavour.pool(1);
    let probe = Probe::new();
    let (begun, gate) = (Gate::new(), Gate::new());
    let mut set = JobSet::new();
    let (begins, waits, captured) = (begun.clone(), gate.clone(), probe.capture());
    set.submit(&pool, move || {
        begins.open();
        waits.wait();
        captured.run();
    })
    .unwrap();
    begun.wait();
    for _ in 0..10 {
        set.submit(&pool, probe.job()).unwrap();
    }
    drop(set);
    assert_eq!(probe.dropped(), 10, "the first one runs");
    gate.open();
    pool.wait_idle();
    probe.assert_all_dropped(1);
    assert_eq!(pool.stats().cancelled, 10);
    finish(pool);
});

scenario!(results_nobody_takes_are_dropped_safely, |flavour| {
    let pool = flavour.pool(2);
    let mut set = JobSet::new();
    for _ in 0..10 {
        set.submit(&pool, || Bomb(2)).unwrap();
    }
    pool.wait_idle();
    drop(set);
    finish(pool);
});

scenario!(a_refused_closure_comes_back, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let mut set = JobSet::new();
    set.submit(&pool, probe.job()).unwrap();
    let (reason, job) = refused(set.try_submit(&pool, probe.job()));
    assert_eq!((reason, set.len()), (Rejected::Full, 1));
    let (reason, job) = refused(set.submit_timeout(&pool, Duration::from_millis(1), job));
    assert_eq!((reason, set.len()), (Rejected::Full, 1));
    pool.close();
    let (reason, job) = refused(set.submit(&pool, job));
    assert_eq!((reason, set.len()), (Rejected::ShutDown, 1));
    assert_eq!((probe.ran(), probe.dropped()), (0, 0));
    job();
    held.release();
    assert_matches!(set.join_next(), Some(Ok(())));
    assert!(
        set.join_next().is_none(),
        "the refused ones were never members"
    );
    probe.assert_all_dropped(2);
    finish(pool);
});

scenario!(inside_a_job_of_a_one_worker_pool, |flavour| {
    let pool = flavour.pool(1);
    let stranger_ran = Arc::new(AtomicBool::new(false));
    let (weak, runs) = (Arc::downgrade(&pool), Arc::clone(&stranger_ran));
    let job = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let seen = Arc::clone(&runs);
        pool.execute(move || runs.store(true, Ordering::SeqCst))
            .unwrap();
        let here = thread::current().id();
        let mut set = JobSet::new();
        for i in 0..100 {
            let member = move || {
                assert_eq!(thread::current().id(), here);
                i
            };
            set.submit(&pool, member).unwrap();
        }
        assert!(
            set.join_next_timeout(Duration::from_millis(1)).is_none(),
            "it runs none itself"
        );
        (drain(&mut set), seen.load(Ordering::SeqCst))
    });
    let (values, stranger_was_first) = job.unwrap().join().unwrap();
    assert!(values.into_iter().eq(0..100));
    assert!(!stranger_was_first, "a join runs no stranger");
    pool.wait_idle();
    assert!(stranger_ran.load(Ordering::SeqCst));
    finish(pool);
});

scenario!(sets_in_every_job_of_a_small_pool, |flavour| {
    let pool = flavour.pool(2);
    let mut outer = JobSet::new();
    for n in 0..20 {
        let weak = Arc::downgrade(&pool);
        let member = move || {
            let pool = weak.upgrade().unwrap();
            let mut inner = JobSet::new();
            for i in 0..n {
                inner.submit(&pool, move || i).unwrap();
            }
            drain(&mut inner).len()
        };
        outer.submit(&pool, member).unwrap();
    }
    assert!(drain(&mut outer).into_iter().eq(0..20));
    pool.wait_idle();
    finish(pool);
});

scenario!(a_member_that_waits_for_its_own_set_is_told, |flavour| {
    let pool = flavour.pool(1);
    let set = Arc::new(Mutex::new(JobSet::new()));
    let (ready, own) = (Gate::new(), Arc::downgrade(&set));
    let is_ready = ready.clone();
    let member = move || {
        is_ready.wait();
        let set = own.upgrade().unwrap();
        let outcome = set.lock().unwrap().join_next();
        matches!(outcome, Some(Err(JobError::WouldDeadlock)))
    };
    let (told, tell) = (Arc::new(AtomicBool::new(false)), Counter::new());
    let (tells, done) = (Arc::clone(&told), tell.clone());
    let member = move || {
        tells.store(member(), Ordering::SeqCst);
        done.bump();
    };
    set.lock().unwrap().submit(&pool, member).unwrap();
    ready.open();
    tell.wait_for(1);
    assert!(told.load(Ordering::SeqCst));
    pool.wait_idle();
    assert!(set.lock().unwrap().is_empty());
    finish(pool);
});

scenario!(members_with_options, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let (token, soon) = (
        CancelToken::new(),
        Instant::now() + Duration::from_millis(20),
    );
    let mut set = JobSet::new();
    set.submit(&pool.job().cancel_token(&token), || 1).unwrap();
    set.submit(&pool.job().deadline(soon), || 2).unwrap();
    set.submit(&pool.tenant("a").job().priority(Priority::HIGH), || 3)
        .unwrap();
    // The worker is busy all the time: the waiting thread sees the deadline pass.
    assert_matches!(set.join_next(), Some(Err(JobError::Expired)));
    token.cancel();
    assert_matches!(set.join_next(), Some(Err(JobError::Cancelled)));
    held.release();
    assert_matches!(set.join_next(), Some(Ok(3)));
    assert!(set.is_empty());
    finish(pool);
});

scenario!(a_deadline_seen_by_a_timeout, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let soon = Instant::now() + Duration::from_millis(20);
    let mut set = JobSet::new();
    set.submit(&pool.job().deadline(soon), || ()).unwrap();
    let outcome = set.join_next_timeout(Duration::MAX);
    assert_matches!(outcome, Some(Err(JobError::Expired)));
    held.release();
    finish(pool);
});

scenario!(members_of_several_pools, |flavour| {
    let pools = [flavour.pool(1), flavour.pool(2)];
    let tenant = pools[1].tenant("t");
    let mut set = JobSet::new();
    for i in 0..30 {
        match i % 3 {
            0 => set.submit(&pools[0], move || i).unwrap(),
            1 => set.submit(&tenant, move || i).unwrap(),
            _ => set.submit(&Inline, move || i).unwrap(),
        }
    }
    assert!(drain(&mut set).into_iter().eq(0..30));
    drop(tenant);
    pools.into_iter().for_each(finish);
});

scenario!(the_pool_ends_before_its_set, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let mut set = JobSet::new();
    for i in 0..10 {
        set.submit(&pool, move || i).unwrap();
    }
    assert_eq!(pool.cancel_queued(), 10);
    for i in 10..20 {
        set.submit(&pool, move || i).unwrap();
    }
    held.release();
    finish(pool);
    let (ran, cancelled): (Vec<_>, Vec<_>) = set.partition(Result::is_ok);
    assert!(drain_ok(ran).into_iter().eq(10..20));
    assert!(cancelled.into_iter().all(|e| e.unwrap_err().is_cancelled()));
});

fn drain_ok(outcomes: Vec<Result<usize, JobError>>) -> Vec<usize> {
    let mut values: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    values.sort_unstable();
    values
}

/// What a job has captured waits, as it is dropped by a sweep, for jobs that the same sweep is to
/// drop: nobody else is there to do it.
struct Joins(JobSet<()>, Arc<AtomicBool>);

impl Drop for Joins {
    fn drop(&mut self) {
        let is_cancelled = matches!(self.0.join_next(), Some(Err(JobError::Cancelled)));
        self.1.store(is_cancelled, Ordering::SeqCst);
    }
}

scenario!(a_capture_joins_while_its_pool_is_swept, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let was_cancelled = Arc::new(AtomicBool::new(false));
    let mut set = JobSet::new();
    let (sender, joins) = std::sync::mpsc::channel::<Joins>();
    pool.execute(move || drop(joins)).unwrap();
    set.submit(&pool, || ()).unwrap();
    sender.send(Joins(set, Arc::clone(&was_cancelled))).unwrap();
    assert_eq!(
        pool.cancel_queued(),
        1,
        "the other one was cancelled by its join"
    );
    assert!(was_cancelled.load(Ordering::SeqCst));
    held.release();
    finish(pool);
});

/// Says that it is being dropped, and is not done before the gate is open.
struct SlowDrop(Gate, Gate);

impl Drop for SlowDrop {
    fn drop(&mut self) {
        self.0.open();
        self.1.wait();
    }
}

scenario!(a_member_is_out_when_its_captures_are_gone, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let (drops, gate) = (Gate::new(), Gate::new());
    let slow = SlowDrop(drops.clone(), gate.clone());
    let mut set = JobSet::new();
    set.submit(&pool, move || drop(slow)).unwrap();
    thread::scope(|scope| {
        let _open = held.open_on_panic();
        let cancels = scope.spawn(|| pool.cancel_queued());
        drops.wait();
        let early = set.join_next_timeout(Duration::from_millis(1));
        gate.open();
        assert!(early.is_none());
        assert_matches!(set.join_next(), Some(Err(JobError::Cancelled)));
        assert_eq!(cancels.join().unwrap(), 1);
    });
    held.release();
    finish(pool);
});

scenario!(sets_race_cancels_and_drops, |flavour| {
    let pool = flavour.pool(2);
    let probe = Probe::new();
    for round in 0..rounds(500) {
        let mut set = JobSet::new();
        for _ in 0..20 {
            set.submit(&pool, probe.job()).unwrap();
        }
        match round % 4 {
            0 => drop(set),
            1 => _ = set.cancel_all(),
            2 => _ = set.join_next(),
            _ => assert!(set.all(|outcome| outcome.is_ok())),
        }
    }
    pool.wait_idle();
    assert_eq!(probe.dropped(), probe.created());
    finish(pool);
});

scenario!(a_member_may_be_the_last_owner_of_its_set, |flavour| {
    let pool = flavour.pool(1);
    let probe = Probe::new();
    let (gate, done) = (Gate::new(), Counter::new());
    let set = Arc::new(Mutex::new(JobSet::new()));
    let (owner, waits, bumps) = (Arc::clone(&set), gate.clone(), done.clone());
    let last_owner = move || {
        waits.wait();
        drop(owner);
        bumps.bump();
    };
    set.lock().unwrap().submit(&pool, last_owner).unwrap();
    for _ in 0..10 {
        set.lock().unwrap().submit(&pool, probe.job()).unwrap();
    }
    drop(set);
    gate.open();
    done.wait_for(1);
    pool.wait_idle();
    probe.assert_all_dropped(0);
    assert_eq!(pool.stats().cancelled, 10);
    finish(pool);
});

scenario!(captures_that_panic_as_members_are_called_off, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let mut set = JobSet::new();
    for _ in 0..3 {
        let bomb = Bomb(2);
        set.submit(&pool, move || drop(bomb)).unwrap();
    }
    assert_eq!(set.cancel_all(), 3);
    assert_eq!(set.by_ref().filter(Result::is_err).count(), 3);
    let bomb = Bomb(2);
    set.submit(&pool, move || drop(bomb)).unwrap();
    drop(set);
    held.release();
    finish(pool);
});

/// Somebody's own way into a pool: what finds no room at once is not waited for.
struct Impatient<'a>(&'a fairlane::WorkerPool, AtomicBool);

impl Submit for Impatient<'_> {
    fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0
            .try_submit(f)
            .inspect_err(|_| self.1.store(true, Ordering::SeqCst))
    }

    fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit(f)
    }

    fn submit_timeout<F, T>(&self, _: Duration, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit(f)
    }

    fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.0.execute(f)
    }

    fn parallelism(&self) -> usize {
        self.0.workers()
    }
}

scenario!(members_by_a_wrapper_of_somebodys_own, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
    let held = hold_workers(&pool, 1);
    let wrapper = Impatient(&pool, AtomicBool::new(false));
    let mut set = JobSet::new();
    set.submit(&wrapper, || 1).unwrap();
    let (reason, job) = refused(set.submit(&wrapper, || 2));
    assert_eq!((reason, job()), (Rejected::Full, 2));
    assert!(wrapper.1.load(Ordering::SeqCst));
    held.release();
    assert_eq!(drain(&mut set), [1]);
    // A map runs here what found no room there.
    let squares = wrapper.map(0..100usize, |n| n * n).map(Result::unwrap);
    assert!(squares.eq((0..100).map(|n| n * n)));
    let all = Submit::try_map(&wrapper, 0..100usize, Ok::<_, ()>).unwrap();
    assert!(all.into_iter().eq(0..100));
    finish(pool);
});
