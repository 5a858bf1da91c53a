//! `WorkerLocal`: one value a worker, made and dropped on its thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use fairlane::{Inline, JobError, PanicPolicy, Submit, WorkerLocal, WorkerPool};

use crate::common::*;
use crate::panics::{Bomb, payload, quiet_panic, workers_meet};

/// On which threads values were made and dropped.
#[derive(Clone, Default)]
struct Log {
    made: Arc<Mutex<Vec<ThreadId>>>,
    dropped: Arc<Mutex<Vec<ThreadId>>>,
}

/// Neither `Send` nor `Sync`.
struct Value {
    log: Log,
    uses: Rc<Cell<usize>>,
}

impl Log {
    fn local(&self) -> WorkerLocal<Value> {
        let log = self.clone();
        WorkerLocal::new(move || {
            log.made.lock().unwrap().push(thread::current().id());
            let (log, uses) = (log.clone(), Rc::default());
            Value { log, uses }
        })
    }

    fn made(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    /// Every value made was dropped, by the thread that made it.
    #[track_caller]
    fn assert_all_dropped(&self, made: usize) {
        let sorted = |threads: &Mutex<Vec<ThreadId>>| {
            let mut threads: Vec<_> = threads
                .lock()
                .unwrap()
                .iter()
                .map(|t| format!("{t:?}"))
                .collect();
            threads.sort_unstable();
            threads
        };
        assert_eq!(self.made(), made);
        assert_eq!(sorted(&self.made), sorted(&self.dropped));
    }
}

impl Value {
    fn use_once(&self) -> usize {
        self.uses.set(self.uses.get() + 1);
        self.uses.get()
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let mut dropped = self.log.dropped.lock().unwrap();
        dropped.push(thread::current().id());
    }
}

scenario!(one_value_a_worker, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    let log = Log::default();
    let local = log.local();
    assert_eq!(log.made(), 0, "not before it is asked for");
    let used = local.clone();
    // All workers at once, so that each makes one.
    let barrier = Arc::new(std::sync::Barrier::new(n));
    let meets = pool.map(0..n, move |_| {
        barrier.wait();
        used.with(Value::use_once)
    });
    assert!(meets.in_flight(n).all(|uses| uses.unwrap() == 1));
    let used = local.clone();
    assert_eq!(
        pool.map(0..1_000, move |_| used.with(Value::use_once))
            .count(),
        1_000
    );
    assert_eq!(log.made(), n);
    assert!(log.dropped.lock().unwrap().is_empty());
    finish(pool);
    log.assert_all_dropped(n);
});

scenario!(dropped_before_shutdown_now_returns, |flavour| {
    let pool = flavour.pool(1);
    let log = Log::default();
    let local = log.local();
    let used = local.clone();
    let uses = pool.submit(move || used.with(Value::use_once)).unwrap();
    assert_eq!(uses.join().unwrap(), 1);
    Arc::into_inner(pool).unwrap().shutdown_now();
    log.assert_all_dropped(1);
    drop(local);
});

scenario!(a_panic_in_a_values_destructor_is_contained, |flavour| {
    let pool = flavour.pool(2);
    let log = Log::default();
    let (bomb, local) = (WorkerLocal::new(|| Bomb(2)), log.local());
    let (bombs, used) = (bomb.clone(), local.clone());
    let f = move |_| {
        bombs.with(|_| ());
        used.with(Value::use_once)
    };
    assert_eq!(pool.map(0..100, f).filter(Result::is_ok).count(), 100);
    finish(pool);
    log.assert_all_dropped(log.made());
});

scenario!(a_new_thread_makes_a_new_value, |flavour| {
    let restart = PanicPolicy::Restart { max_restarts: 3 };
    let pool = flavour.build(flavour.builder().workers(1).on_panic(restart));
    let log = Log::default();
    let local = log.local();
    for round in 1..=4 {
        let used = local.clone();
        let job = pool.submit(move || {
            assert_eq!(used.with(Value::use_once), 1);
            quiet_panic("after that");
        });
        let message = payload(job.unwrap().join()).message().to_owned();
        assert_eq!(message, "after that");
        eventually("the ended thread's value is dropped", || {
            log.dropped.lock().unwrap().len() == round
        });
    }
    // The last panic retires the slot, once the values of its thread are gone.
    eventually("the slot is retired", || pool.submit(|| ()).is_err());
    finish(pool);
    log.assert_all_dropped(4);
});

scenario!(no_value_off_the_pool, |flavour| {
    let pool = flavour.pool(1);
    let log = Log::default();
    let local = log.local();
    let asks = || catch_unwind(AssertUnwindSafe(|| local.with(Value::use_once)));
    assert!(!local.is_available());
    assert!(asks().is_err());
    let used = local.clone();
    let inline = Inline.submit(move || used.is_available()).unwrap();
    assert!(!inline.join().unwrap());
    let used = local.clone();
    let job = pool.submit(move || (used.is_available(), used.with(Value::use_once)));
    assert_eq!(job.unwrap().join().unwrap(), (true, 1));
    assert!(asks().is_err(), "the worker's is not ours");
    finish(pool);
    log.assert_all_dropped(1);
});

scenario!(hooks_have_the_value_and_destructors_do_not, |flavour| {
    struct Asks(WorkerLocal<usize>, Arc<AtomicUsize>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.1
                .fetch_add(usize::from(self.0.is_available()), Ordering::SeqCst);
        }
    }
    let (number, found) = (WorkerLocal::new(|| 0), Arc::new(AtomicUsize::new(0)));
    let (asked, finds) = (number.clone(), Arc::clone(&found));
    let asks = WorkerLocal::new(move || Asks(asked.clone(), Arc::clone(&finds)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (starts, stops, sees) = (number.clone(), number.clone(), Arc::clone(&seen));
    let builder = flavour.builder().workers(1);
    let builder = builder.on_thread_start(move |_| starts.with_mut(|n| *n += 1));
    let builder = builder.on_thread_stop(move |_| sees.lock().unwrap().push(stops.with(|n| *n)));
    let pool = flavour.build(builder);
    let adds = number.clone();
    let job = pool.submit(move || {
        asks.with(|_| ());
        adds.with_mut(|n| *n += 10);
    });
    job.unwrap().join().unwrap();
    finish(pool);
    assert_eq!(*seen.lock().unwrap(), [11]);
    assert_eq!(found.load(Ordering::SeqCst), 0, "values are gone by then");
});

scenario!(a_value_in_use_is_not_lent_again, |flavour| {
    let pool = flavour.pool(1);
    let local = WorkerLocal::new(|| 1);
    let (weak, used) = (Arc::downgrade(&pool), local.clone());
    let job = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let child = |local: &WorkerLocal<i32>| {
            let local = local.clone();
            pool.submit(move || local.with(|n| *n)).unwrap()
        };
        let (shared, exclusive) = (child(&used), child(&used));
        let read = used.with(|n| *n + shared.join().unwrap());
        let refused = used.with_mut(|_| exclusive.join());
        (
            read,
            refused.is_err_and(|error| error.is_panic()),
            used.with(|n| *n),
        )
    });
    assert_eq!(job.unwrap().join().unwrap(), (2, true, 1));
    pool.wait_idle();
    finish(pool);
});

scenario!(a_value_that_cannot_be_made_is_tried_again, |flavour| {
    let pool = flavour.pool(1);
    let tries = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&tries);
    let local = WorkerLocal::new(move || match counts.fetch_add(1, Ordering::SeqCst) {
        0 => quiet_panic("not yet"),
        n => n,
    });
    let outcomes: Vec<_> = (0..3)
        .map(|_| {
            let local = local.clone();
            pool.submit(move || local.with(|n| *n)).unwrap().join()
        })
        .collect();
    assert_matches!(&outcomes[..], [Err(JobError::Panicked(_)), Ok(1), Ok(1)]);
    finish(pool);
});

scenario!(a_value_is_not_there_while_it_is_made, |flavour| {
    let pool = flavour.pool(1);
    let own = Arc::new(Mutex::new(None::<WorkerLocal<usize>>));
    let asks = Arc::clone(&own);
    let local = WorkerLocal::new(move || {
        let own = asks.lock().unwrap().clone();
        own.map_or(7, |own| own.with(|n| *n))
    });
    *own.lock().unwrap() = Some(local.clone());
    let used = local.clone();
    let job = pool.submit(move || used.with(|n| *n)).unwrap();
    let error = payload(job.join());
    assert!(
        error.message().contains("while it was being made"),
        "{}",
        error.message()
    );
    *own.lock().unwrap() = None;
    let used = local.clone();
    let job = pool.submit(move || used.with(|n| *n)).unwrap();
    assert_eq!(job.join().unwrap(), 7);
    finish(pool);
});

scenario!(values_of_many_locals, |flavour| {
    let pool = flavour.pool(2);
    let log = Log::default();
    for round in 0..100 {
        let (one, other) = (log.local(), WorkerLocal::new(move || round));
        let f = move |_| (one.with(Value::use_once), other.with(|n| *n));
        assert!(pool.map(0..10, f).all(|both| both.unwrap().1 == round));
    }
    let left = log.made() - log.dropped.lock().unwrap().len();
    assert!(left <= 4, "{left} values of locals that are gone");
    workers_meet(&pool, 2);
    finish(pool);
    log.assert_all_dropped(log.made());
});

/// What a destructor on the thread of a pool gets from it.
struct UsesPool(Weak<WorkerPool>, Arc<Mutex<Vec<String>>>);

impl Drop for UsesPool {
    fn drop(&mut self) {
        let Some(pool) = self.0.upgrade() else { return };
        let said = match pool.broadcast(|slot| slot) {
            Ok(all) => format!("{:?}", all.into_iter().map(Result::ok).collect::<Vec<_>>()),
            Err(refused) => refused.reason().to_string(),
        };
        assert!(
            !pool.wait_idle_timeout(Duration::MAX),
            "it would wait for itself"
        );
        self.1.lock().unwrap().push(said);
    }
}

scenario!(a_value_may_use_its_pool_as_it_is_dropped, |flavour| {
    let restart = PanicPolicy::Restart { max_restarts: 1 };
    let pool = flavour.build(flavour.builder().workers(1).on_panic(restart));
    let said = Arc::new(Mutex::new(Vec::new()));
    let (weak, says) = (Arc::downgrade(&pool), Arc::clone(&said));
    let local = WorkerLocal::new(move || UsesPool(weak.clone(), Arc::clone(&says)));
    for round in 1..=2 {
        let used = local.clone();
        let job = pool.submit(move || {
            used.with(|_| ());
            quiet_panic("the thread ends");
        });
        assert!(job.unwrap().join().unwrap_err().is_panic());
        eventually("the value is dropped", || {
            said.lock().unwrap().len() == round
        });
    }
    assert_eq!(*said.lock().unwrap(), ["[Some(0)]"; 2]);
    eventually("no destructor holds the pool", || {
        Arc::strong_count(&pool) == 1 && pool.stats().workers == 0
    });
    finish(pool);
});

scenario!(one_local_in_two_pools, |flavour| {
    let pools = [flavour.pool(1), flavour.pool(1)];
    let log = Log::default();
    let local = log.local();
    for round in 1..=2 {
        for pool in &pools {
            let used = local.clone();
            let job = pool.submit(move || used.with(Value::use_once)).unwrap();
            assert_eq!(job.join().unwrap(), round);
        }
    }
    pools.into_iter().for_each(finish);
    log.assert_all_dropped(2);
});
