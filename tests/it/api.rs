//! The surface: which types go where, what errors say and give back, generic code over [`Submit`].

mod join;
mod placement;

use std::cell::Cell;
use std::collections::HashSet;
use std::error::Error;
use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fairlane::{
    BuildError, CancelToken, FairQueue, Inline, JobBuilder, JobError, JobHandle, JobSet,
    PanicPayload, PanicPolicy, ParseStrategyError, PoolBuilder, PoolStats, Priority, Rejected,
    SchedulerSlot, Scope, ScopedJobHandle, ShutdownTimeout, Strategy, Submit, SubmitError, Tenant,
    Ticket, TryMapError, Weight, WorkerLocal, WorkerPool, pick_slot,
};

use crate::common::*;
use crate::panics::{panicking, payload, quiet_panic};

/// What does not hold (`Rc`, `Cell`, borrowed captures) is in `compile_fail.rs` of the crate.
#[test]
fn send_and_sync() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send>() {}
    fn error<T: Error + Send + Sync + 'static>() {}
    fn copied<T: Copy + Send + Sync + 'static>() {}
    fn cloned<T: Clone>() {}

    shared::<WorkerPool>();
    shared::<CancelToken>();
    shared::<PoolStats>();
    shared::<SchedulerSlot>();
    shared::<Inline>();
    shared::<PanicPayload>();
    shared::<Tenant>();
    shared::<Scope<'static, 'static>>();
    shared::<ScopedJobHandle<'static, u8>>();
    shared::<WorkerLocal<Rc<u8>>>();
    shared::<FairQueue<String, u8>>();
    shared::<JobSet<u8>>();
    sent::<JobSet<Cell<u8>>>();
    copied::<Ticket>();
    copied::<Weight>();
    copied::<Priority>();
    sent::<PoolBuilder>();
    sent::<JobBuilder<'_>>();
    cloned::<CancelToken>();
    cloned::<JobBuilder<'_>>();
    copied::<Strategy>();
    copied::<Rejected>();
    copied::<PanicPolicy>();
    error::<JobError>();
    error::<Rejected>();
    error::<BuildError>();
    error::<ShutdownTimeout>();
    error::<ParseStrategyError>();
    error::<TryMapError<std::io::Error>>();

    // For every closure and every result that can be sent, shareable or not.
    fn for_every<F: FnOnce() -> T + Send + 'static, T: Send + 'static>() {
        error::<SubmitError<F>>();
        sent::<JobHandle<T>>();
    }
    for_every::<fn() -> Cell<u8>, Cell<u8>>();
    shared::<SubmitError<Cell<u8>>>();
    sent::<JobHandle<Cell<u8>>>();
    shared::<JobHandle<u8>>();

    fn maps_are_sent<I: Iterator<Item: Send + 'static> + Clone + Send>(
        items: I,
        pool: &WorkerPool,
    ) {
        fn sent<T: Send>(_: &T) {}
        sent(&pool.map(items.clone(), |_| Cell::new(0)));
        sent(&pool.map_unordered(items, |_| Cell::new(0)));
    }
    maps_are_sent(0..1, &WorkerPool::new(1).unwrap());
}

/// What is shared may be used inside and after `catch_unwind`.
#[test]
fn unwind_safe() {
    fn safe<T: UnwindSafe + RefUnwindSafe>() {}
    safe::<WorkerPool>();
    safe::<Tenant>();
    safe::<CancelToken>();
    safe::<JobHandle<Cell<u8>>>();
    safe::<JobError>();

    let pool = WorkerPool::new(1).unwrap();
    let panic = catch_unwind(|| {
        let _job = pool.submit(|| ()).unwrap();
        quiet_panic("beside a job")
    });
    assert_eq!(
        *panic.unwrap_err().downcast::<&str>().unwrap(),
        "beside a job"
    );
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
}

/// `?` in functions that return `Box<dyn Error + Send + Sync>`, and `Rejected` where closures borrow.
#[test]
fn errors_work_with_the_question_mark() {
    fn all(pool: &WorkerPool, text: &str) -> Result<usize, Box<dyn Error + Send + Sync>> {
        let strategy: Strategy = "least-busy".parse()?;
        let other = WorkerPool::builder()
            .strategy(strategy)
            .workers(1)
            .build()?;
        pool.execute(|| ())?;
        let lines = pool.try_map(["1", "2"], |line| line.parse::<usize>())?;
        let length = pool.scope(|scope| {
            let job = scope.submit(|| text.len()).map_err(Rejected::from)?;
            Ok::<_, Box<dyn Error + Send + Sync>>(job.join()?)
        })?;
        other.shutdown_timeout(Duration::MAX)?;
        Ok(pool.submit(|| 1)?.join()? + length + lines.len())
    }
    let pool = WorkerPool::new(1).unwrap();
    assert_eq!(all(&pool, "text").unwrap(), 1 + 4 + 2);
    pool.close();
    let refused = all(&pool, "text").unwrap_err();
    assert!(refused.to_string().contains("shut down"), "{refused}");
}

/// The same in functions that return `anyhow::Result`. An `anyhow::Error` is no `Error`, so where the
/// closure returns one, `into_error` makes one of what became of its job.
#[test]
fn errors_work_with_anyhow() {
    fn all(pool: &WorkerPool, text: &str) -> anyhow::Result<usize> {
        let strategy: Strategy = "least-busy".parse()?;
        let weight: Weight = "3".parse()?;
        let other = WorkerPool::builder()
            .strategy(strategy)
            .workers(1)
            .build()?;
        pool.execute(|| ())?;
        let lines = pool.try_map(["1", "2"], |line| line.parse::<usize>())?;
        let same = pool.try_map(["1", "2"], |line| Ok(line.parse::<usize>()?));
        assert_eq!(
            same.map_err(TryMapError::<anyhow::Error>::into_error)?,
            lines
        );
        let length = pool.scope(|scope| {
            let job = scope.submit(|| text.len()).map_err(Rejected::from)?;
            anyhow::Ok(job.join()?)
        })?;
        let mut set = JobSet::new();
        set.submit(pool, || Weight::try_from(0))?;
        let zero = set.join_next().expect("it has a member")?;
        assert!(zero.is_err());
        other.shutdown_timeout(Duration::MAX)?;
        Ok(pool.submit(move || weight.get() as usize)?.join()? + length + lines.len())
    }
    let pool = WorkerPool::new(1).unwrap();
    assert_eq!(all(&pool, "text").unwrap(), 3 + 4 + 2);

    let panicked = |_| -> anyhow::Result<()> { quiet_panic("the reason") };
    let error = pool.try_map([0], panicked).unwrap_err().into_error();
    let job = error.downcast_ref::<JobError>();
    assert!(job.is_some_and(JobError::is_panic), "{error:?}");
    pool.close();
    let refused = all(&pool, "text").unwrap_err();
    assert!(refused.to_string().contains("shut down"), "{refused}");
}

#[test]
fn job_errors_say_what_happened() {
    let said = [
        JobError::Cancelled,
        JobError::Expired,
        JobError::Discarded,
        JobError::WouldDeadlock,
    ]
    .map(|error| {
        assert!(!error.is_panic());
        assert_eq!(error.is_cancelled(), matches!(error, JobError::Cancelled));
        assert!(!format!("{error:?}").is_empty());
        error.to_string()
    });
    assert_eq!(said.iter().collect::<HashSet<_>>().len(), 4, "{said:?}");
    assert!(
        said.iter()
            .all(|text| !text.is_empty() && !text.ends_with('.')),
        "{said:?}"
    );

    let error = Inline
        .submit(panicking("the reason"))
        .unwrap()
        .join()
        .unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled());
    assert!(error.to_string().contains("the reason"), "{error}");
    assert!(format!("{error:?}").contains("the reason"), "{error:?}");
    // As an error of anybody else's.
    let boxed: Box<dyn Error + Send + Sync> = error.into();
    assert!(boxed.to_string().contains("the reason"));
    assert!(boxed.downcast_ref::<JobError>().is_some());
}

scenario!(a_refused_job_comes_back_untouched, |flavour| {
    let pool = flavour.pool(1);
    pool.close();
    let probe = Probe::new();

    let error = pool.submit(probe.job()).err().unwrap();
    assert_matches!(error.reason(), Rejected::ShutDown);
    // The closure has neither `Debug` nor `Display`.
    assert!(!format!("{error:?}").is_empty());
    assert!(
        error.to_string().contains(&error.reason().to_string()),
        "{error}"
    );
    let reason: Rejected = error.into();
    assert_matches!(reason, Rejected::ShutDown);
    assert_eq!(
        (probe.created(), probe.dropped()),
        (1, 1),
        "the error owned it"
    );

    let (_, job) = refused(pool.try_submit(probe.job()));
    let (_, job) = refused(pool.submit_timeout(Duration::MAX, job));
    let (_, job) = refused(pool.execute(job));
    let (_, job) = refused(pool.job().submit(job));
    let (_, job) = refused(pool.job().try_submit(job));
    let (_, job) = refused(pool.job().submit_timeout(Duration::ZERO, job));
    let (_, job) = refused(pool.job().execute(job));
    let (_, job) = refused(Submit::submit(&pool, job));
    assert_eq!((probe.ran(), probe.dropped()), (0, 1));
    job();
    probe.assert_all_dropped(1);

    fn question_mark(pool: &WorkerPool) -> Result<u8, Box<dyn Error + Send + Sync>> {
        Ok(pool.submit(|| 1)?.join()?)
    }
    fn rejected(pool: &WorkerPool) -> Result<(), Rejected> {
        Ok(pool.execute(|| ())?)
    }
    assert!(
        question_mark(&pool)
            .unwrap_err()
            .to_string()
            .contains(&reason.to_string())
    );
    assert_matches!(rejected(&pool), Err(Rejected::ShutDown));
    assert_eq!(pool.stats().submitted, 0);
    finish(pool);
});

#[test]
fn reasons_are_told_apart() {
    let reasons = [
        Rejected::Full,
        Rejected::ShutDown,
        Rejected::RestartExhausted,
        Rejected::Forked,
    ];
    let said = reasons.map(|reason| reason.to_string());
    assert_eq!(said.iter().collect::<HashSet<_>>().len(), 4, "{said:?}");
    assert!(said.iter().all(|text| !text.is_empty()));
}

#[test]
fn everything_can_be_shown() {
    fn shown<T: Debug>(value: T) {
        assert!(!format!("{value:?}").is_empty());
    }
    let pool = WorkerPool::new(1).unwrap();
    shown(&pool);
    shown(pool.stats());
    shown(pool.job());
    shown(WorkerPool::builder());
    shown(CancelToken::new());
    shown(Inline);
    shown(Strategy::default());
    shown(PanicPolicy::default());
    // The result need not be shown.
    struct Opaque;
    shown(pool.submit(|| Opaque).unwrap());
    shown(pool.map(0..1, |_| Opaque));
    shown(pool.map_unordered(0..1, |_| Opaque));
    shown(pool.tenant("somebody"));
    pool.scope(|scope| {
        shown(scope);
        shown(scope.submit(|| Opaque).unwrap());
    });
    assert_quiescent(&pool);
}

#[test]
fn defaults_are_the_plain_ones() {
    assert!(!CancelToken::default().is_cancelled());
    let pool = PoolBuilder::default().workers(1).build().unwrap();
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!(std::num::NonZeroU32::from(Weight::new(7)).get(), 7);
    let slots = [SchedulerSlot::new("only", 0)];
    let pick = pick_slot(Strategy::LeastBusy, &slots, 5).unwrap();
    let copy = Clone::clone(&pick);
    assert_eq!((copy.index, copy.next_index), (pick.index, pick.next_index));
}

/// Code that does not know what it submits to.
fn sum_of_squares<S: Submit>(pool: &S, n: u64) -> u64 {
    let jobs: Vec<_> = (0..n)
        .map(|i| pool.submit(move || i * i).unwrap())
        .collect();
    jobs.into_iter().map(|job| job.join().unwrap()).sum()
}

fn every_method<S: Submit>(pool: &S) {
    assert!(pool.parallelism() >= 1);
    assert_eq!(sum_of_squares(pool, 10), 285);
    assert_eq!(
        sum_of_squares(&pool, 10),
        285,
        "a reference submits as well"
    );
    assert_eq!(pool.try_submit(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!(
        pool.submit_timeout(Duration::MAX, || 2)
            .unwrap()
            .join()
            .unwrap(),
        2
    );
    let probe = Probe::new();
    let counted = Counter::new();
    let (job, counts) = (probe.job(), counted.clone());
    let job = move || {
        job();
        counts.bump();
    };
    pool.execute(job).unwrap();
    counted.wait_for(1);
    eventually("the closure is gone", || probe.dropped() == 1);

    assert!(pool.map(0..20, |i| i + 1).map(Result::unwrap).eq(1..21));
    let unordered: HashSet<_> = pool
        .map_unordered(0..20, |i| i)
        .map(Result::unwrap)
        .collect();
    assert_eq!(unordered, (0..20).collect());
    assert_eq!(pool.map(0.., |i| i).in_flight(3).take(50).count(), 50);
    assert_eq!(
        pool.map_unordered(0.., |i| i).in_flight(3).take(50).count(),
        50
    );

    let error = pool.submit(panicking("generic")).unwrap().join();
    assert_eq!(payload(error).message(), "generic");
}

scenario!(generic_code_runs_on_each_kind, |flavour| {
    let pool = flavour.pool(2);
    every_method::<Arc<WorkerPool>>(&pool);
    every_method::<WorkerPool>(&pool);
    every_method::<&WorkerPool>(&&*pool);
    every_method::<&Arc<WorkerPool>>(&&pool);
    every_method::<Inline>(&Inline);
    every_method::<&Inline>(&&Inline);
    every_method::<Arc<Inline>>(&Arc::new(Inline));
    every_method::<Box<Tenant>>(&Box::new(pool.tenant("boxed")));
    every_method::<Rc<JobBuilder<'_>>>(&Rc::new(pool.job()));
    every_method::<&mut Inline>(&&mut Inline);
    assert_eq!(Submit::parallelism(&pool), 2);
    assert_eq!(Submit::parallelism(&Inline), 1);
    finish(pool);
});

#[test]
fn inline_runs_at_once_and_here() {
    let here = thread::current().id();
    let ran = Arc::new(AtomicUsize::new(0));
    let job = || {
        let runs = Arc::clone(&ran);
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            thread::current().id()
        }
    };
    let handle = Inline.submit(job()).unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1, "before anybody joined");
    assert!(handle.is_finished());
    assert!(!handle.cancel(), "it ran");
    assert_eq!(handle.join().unwrap(), here);
    let handle = Inline.try_submit(job()).unwrap();
    assert_eq!(handle.join_timeout(Duration::ZERO).unwrap().unwrap(), here);
    drop(Inline.submit_timeout(Duration::ZERO, job()).unwrap());
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    assert_eq!(Arc::strong_count(&ran), 1, "nothing is kept");

    // Jobs of jobs, as deep as the stack goes.
    let nested = Inline.submit(|| Inline.submit(|| Inline.submit(|| 7).unwrap().join()));
    assert_eq!(
        nested
            .unwrap()
            .join()
            .unwrap()
            .unwrap()
            .join()
            .unwrap()
            .unwrap(),
        7
    );
}

#[test]
fn inline_contains_panics() {
    Inline.execute(panicking("contained")).unwrap();
    let dropped = Inline.submit(panicking("dropped with the handle")).unwrap();
    assert!(dropped.is_finished());
    drop(dropped);
    assert_eq!(
        payload(Inline.submit(panicking("seen")).unwrap().join()).message(),
        "seen"
    );
    let outcomes = Inline.map(0..4, |i| if i == 2 { quiet_panic("two") } else { i });
    assert_eq!(
        outcomes.map(|outcome| outcome.is_err()).collect::<Vec<_>>(),
        [false, false, true, false]
    );
}

#[test]
fn inline_maps_are_lazy() {
    let pulled = Cell::new(0);
    let items = (0..).inspect(|_| pulled.set(pulled.get() + 1));
    let mut mapped = Inline.map(items, |i| i);
    assert_eq!(pulled.get(), 0);
    assert_eq!(mapped.next().unwrap().unwrap(), 0);
    assert!(pulled.get() <= 2 * Inline.parallelism() + 1);
    assert_eq!(mapped.next().unwrap().unwrap(), 1);
}

#[test]
fn build_errors_are_told_apart() {
    fn error(builder: PoolBuilder) -> BuildError {
        builder.build().expect_err("it cannot be built")
    }
    let zero = error(WorkerPool::builder().workers(0));
    assert_matches!(zero, BuildError::NoWorkers);
    let limit = error(WorkerPool::builder().workers(1).queue_limit(0));
    assert_matches!(limit, BuildError::NoQueueLimit);
    let name = error(WorkerPool::builder().workers(1).name("a\0b"));
    assert_matches!(name, BuildError::InvalidName);
    assert_matches!(WorkerPool::new(0).err(), Some(BuildError::NoWorkers));
    let said: HashSet<_> = [zero, limit, name].map(|error| error.to_string()).into();
    assert_eq!(said.len(), 3, "{said:?}");
}
