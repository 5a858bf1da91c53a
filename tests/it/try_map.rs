//! `try_map`: all results, or the error that a loop would have met first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::{
    CancelToken, Inline, JobError, JobHandle, Submit, SubmitError, TryMapError, WorkerPool,
};

use crate::common::*;
use crate::panics::{Bomb, defuse, quiet_panic};

#[derive(Debug, PartialEq)]
struct Odd(usize);

fn even(n: usize) -> Result<usize, Odd> {
    if n % 2 == 0 { Ok(n / 2) } else { Err(Odd(n)) }
}

#[track_caller]
fn failed<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, TryMapError<E>>) -> E {
    match result {
        Err(TryMapError::Failed(error)) => error,
        other => panic!("not an error of the closure: {other:?}"),
    }
}

#[track_caller]
fn job_error<T: std::fmt::Debug, E: std::fmt::Debug>(
    result: Result<T, TryMapError<E>>,
) -> JobError {
    match result {
        Err(TryMapError::Job(error)) => error,
        other => panic!("not an error of a job: {other:?}"),
    }
}

scenario!(all_results_in_the_order_of_the_items, |flavour| {
    let pool = flavour.pool(workers());
    let tenant = pool.tenant("t");
    for n in [0, 1, 2, 1_000] {
        let evens = (0..n).map(|i| 2 * i);
        let all: Vec<_> = (0..n).collect();
        assert_eq!(pool.try_map(evens.clone(), even).unwrap(), all);
        assert_eq!(tenant.try_map(evens.clone(), even).unwrap(), all);
        assert_eq!(Inline.try_map(evens, even).unwrap(), all);
    }
    drop(tenant);
    finish(pool);
});

scenario!(the_first_error_is_that_of_a_loop, |flavour| {
    let pool = flavour.pool(2);
    assert_eq!(failed(pool.try_map([0, 2, 4, 7, 8, 9], even)), Odd(7));
    // The later item fails while the earlier one runs, which then fails as well.
    let later = Counter::new();
    let fails = later.clone();
    let f = move |i: usize| {
        match i {
            1 => fails.wait_for(1),
            2 => fails.bump(),
            _ => {}
        }
        if i == 0 { Ok(()) } else { Err(Odd(i)) }
    };
    assert_eq!(failed(pool.try_map(0..3, f)), Odd(1));
    assert_eq!(later.get(), 1, "the later item did fail first");
    finish(pool);
});

scenario!(an_error_stops_the_rest, |flavour| {
    let pool = flavour.pool(1);
    let pulled = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&pulled);
    let endless = (0..).inspect(move |_| _ = counts.fetch_add(1, Ordering::SeqCst));
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = Arc::clone(&ran);
    let f = move |i: usize| {
        runs.fetch_add(1, Ordering::SeqCst);
        if i < 5 { Ok(i) } else { Err(Odd(i)) }
    };
    assert_eq!(failed(pool.try_map(endless, f)), Odd(5));
    // Nothing of it runs any more, and no more than two a worker were ever ahead.
    assert_eq!(Arc::strong_count(&ran), 1);
    assert!((6..=7).contains(&ran.load(Ordering::SeqCst)));
    assert!((6..=7).contains(&pulled.load(Ordering::SeqCst)));
    finish(pool);
});

/// Lets more jobs out than the pool has workers for: one worker takes them in the order of the items.
struct Wide<'a>(&'a WorkerPool);

impl Submit for Wide<'_> {
    fn submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.submit(f)
    }

    fn try_submit<F, T>(&self, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.try_submit(f)
    }

    fn submit_timeout<F, T>(&self, timeout: Duration, f: F) -> Result<JobHandle<T>, SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.submit_timeout(timeout, f)
    }

    fn execute<F>(&self, f: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.0.execute(f)
    }

    fn parallelism(&self) -> usize {
        4
    }
}

scenario!(what_waits_behind_an_error_never_runs, |flavour| {
    let pool = flavour.pool(1);
    // All eight are out before anything is looked at. The second one fails; the third, if it begins
    // before it is called off, goes on until all behind it are gone.
    let token = Arc::new(());
    let items: Vec<_> = (0..8).map(|i| (i, Arc::clone(&token))).collect();
    let (weak, ran) = (Arc::downgrade(&token), Arc::new(AtomicUsize::new(0)));
    drop(token);
    let runs = Arc::clone(&ran);
    let f = move |(i, _token): (usize, Arc<()>)| {
        runs.fetch_add(1, Ordering::SeqCst);
        if i == 1 {
            return Err(Odd(1));
        }
        if i > 1 {
            eventually("all others are gone", || weak.strong_count() == 1);
        }
        Ok(())
    };
    assert_eq!(failed(Wide(&pool).try_map(items, f)), Odd(1));
    assert!((2..=3).contains(&ran.load(Ordering::SeqCst)));
    let stats = pool.stats();
    assert_eq!(stats.completed + stats.cancelled, 8);
    assert!(stats.cancelled >= 5);
    finish(pool);
});

scenario!(a_panic_is_an_error, |flavour| {
    let pool = flavour.pool(2);
    let f = |i: usize| -> Result<usize, Odd> {
        if i == 3 {
            quiet_panic("third");
        }
        Ok(i)
    };
    match job_error(pool.try_map(0..100, f)) {
        JobError::Panicked(payload) => assert_eq!(payload.message(), "third"),
        other => panic!("{other:?} is not a panic"),
    }
    finish(pool);
});

scenario!(a_closed_pool_does_nothing, |flavour| {
    let pool = flavour.pool(1);
    pool.close();
    assert_eq!(pool.try_map([0; 0], even).unwrap(), []);
    assert_matches!(job_error(pool.try_map(0..100, even)), JobError::Discarded);
    finish(pool);
});

scenario!(inside_jobs_of_a_one_worker_pool, |flavour| {
    let pool = flavour.pool(1);
    let weak = Arc::downgrade(&pool);
    let outer = pool.try_map(0..10, move |n| {
        let pool = weak.upgrade().unwrap();
        pool.try_map((0..n).map(|i| 2 * i), even)
            .map(|all| all.len())
    });
    assert!(outer.unwrap().into_iter().eq(0..10));
    pool.wait_idle();
    finish(pool);
});

scenario!(a_full_queue_inside_a_job, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
    let weak = Arc::downgrade(&pool);
    let job = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        pool.execute(|| ()).unwrap();
        pool.try_map((0..50).map(|i| 2 * i), even).unwrap().len()
    });
    assert_eq!(job.unwrap().join().unwrap(), 50);
    pool.wait_idle();
    finish(pool);
});

scenario_once!(errors_read_like_what_they_hold, |flavour| {
    let pool = flavour.pool(1);
    let parse = |text: &'static str| text.parse::<i32>();
    let error = pool.try_map(["1", "x"], parse).unwrap_err();
    let plain = "x".parse::<i32>().unwrap_err();
    assert_eq!(error.to_string(), plain.to_string());
    let boxed: Box<dyn std::error::Error + Send + Sync> = error.into();
    assert!(
        boxed
            .downcast::<TryMapError<std::num::ParseIntError>>()
            .is_ok()
    );
    type Failure = Box<dyn std::error::Error + Send + Sync>;
    let fail = |text: &'static str| Ok::<i32, Failure>(text.parse()?);
    let failed = pool.try_map(["1", "x"], fail).unwrap_err();
    assert_eq!(failed.into_error().to_string(), plain.to_string());
    pool.close();
    let refused = pool.try_map(["1"], fail).unwrap_err().into_error();
    assert!(matches!(
        *refused.downcast::<JobError>().unwrap(),
        JobError::Discarded
    ));
    finish(pool);
});

/// What a call returned or panicked with; a bomb that came out of it is no more.
fn contained<T>(call: impl FnOnce() -> T) -> Result<T, &'static str> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| match payload.downcast::<&str>() {
        Ok(message) => *message,
        Err(bomb) => {
            std::mem::forget(bomb);
            "a bomb"
        }
    })
}

scenario!(the_source_may_panic, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let items = (0..).map(|n| match n {
        1 => quiet_panic("the source"),
        _ => probe.capture(),
    });
    let run = |captured: Captured| {
        captured.run();
        Ok::<_, ()>(())
    };
    let outcome = contained(|| pool.try_map(items, run));
    assert_eq!(outcome.err(), Some("the source"));
    probe.assert_all_dropped(0);
    assert_eq!(pool.stats().cancelled, 1);
    held.release();
    finish(pool);
});

scenario!(results_that_nobody_gets_are_dropped_safely, |flavour| {
    let pool = flavour.pool(2);
    let f = |n| if n < 3 { Ok(Bomb(2)) } else { Err(Odd(n)) };
    let outcome = contained(|| pool.try_map(0..10, f).map(drop));
    assert_eq!(outcome.map(failed), Ok(Odd(3)));

    // Of two errors the caller gets the first one.
    let later = Counter::new();
    let f = move |n| {
        match n {
            0 => later.wait_for(1),
            _ => later.bump(),
        }
        Err::<(), _>((n, Bomb(2)))
    };
    match contained(|| pool.try_map(0..2, f)) {
        Ok(Err(TryMapError::Failed((0, bomb)))) => defuse(bomb),
        Ok(other) => {
            std::mem::forget(other);
            panic!("not the first error");
        }
        Err(message) => panic!("{message}"),
    }

    let items = (0..10).inspect(|n| {
        if *n == 8 {
            quiet_panic("the source")
        }
    });
    let outcome = contained(|| pool.try_map(items, |_| Ok::<_, ()>(Bomb(2))).map(drop));
    assert_eq!(outcome.err(), Some("the source"));
    finish(pool);
});

scenario!(items_and_results_of_no_size, |flavour| {
    let pool = flavour.pool(1);
    let units = pool.try_map(std::iter::repeat_n((), 1_000), Ok::<_, ()>);
    assert_eq!(units.unwrap().len(), 1_000);
    let nothing = pool.try_map(std::iter::empty::<()>(), Ok::<_, ()>);
    assert_eq!(nothing.unwrap().len(), 0);
    finish(pool);
});

scenario!(with_a_token_for_all_items, |flavour| {
    let pool = flavour.pool(1);
    let token = CancelToken::new();
    let job = pool.job().cancel_token(&token);
    assert_eq!(Submit::try_map(&job, [0, 2], even).unwrap(), [0, 1]);
    token.cancel();
    let error = job_error(Submit::try_map(&job, 0.., even));
    assert!(error.is_cancelled(), "and the endless input is left alone");
    drop(job);
    finish(pool);
});
