//! Maps that are read inside a job of the same pool: they run their own items, and no stranger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fairlane::JobError;

use super::BOTH;
use crate::common::*;
use crate::panics::quiet_panic;

scenario!(inside_a_job_of_a_one_worker_pool, |flavour| {
    let pool = flavour.pool(1);
    for order in BOTH {
        let weak = Arc::downgrade(&pool);
        let job = pool.submit(move || {
            let pool = weak.upgrade().unwrap();
            let here = thread::current().id();
            let same_thread = move |i| {
                assert_eq!(thread::current().id(), here);
                i
            };
            order.values(order.map(&pool, 0..100, same_thread))
        });
        assert!(job.unwrap().join().unwrap().into_iter().eq(0..100));
    }
    finish(pool);
});

scenario!(inside_a_map_of_a_one_worker_pool, |flavour| {
    let pool = flavour.pool(1);
    for outer in BOTH {
        for inner in BOTH {
            let weak = Arc::downgrade(&pool);
            let f = move |i: usize| {
                let pool = weak.upgrade().unwrap();
                inner.values(inner.map(&pool, 0..i, |j| j)).len()
            };
            assert!(
                outer
                    .values(outer.map(&pool, 0..20, f))
                    .into_iter()
                    .eq(0..20)
            );
            pool.wait_idle();
        }
    }
    finish(pool);
});

scenario!(the_next_item_runs_no_stranger, |flavour| {
    let pool = flavour.pool(1);
    for order in BOTH {
        let stranger_ran = Arc::new(AtomicBool::new(false));
        let (runs, seen) = (Arc::clone(&stranger_ran), Arc::clone(&stranger_ran));
        let weak = Arc::downgrade(&pool);
        let job = pool.submit(move || {
            let pool = weak.upgrade().unwrap();
            pool.execute(move || runs.store(true, Ordering::SeqCst))
                .unwrap();
            let n = order.values(order.map(&pool, 0..50, |i| i)).len();
            (n, seen.load(Ordering::SeqCst))
        });
        assert_eq!(job.unwrap().join().unwrap(), (50, false), "{order:?}");
        pool.wait_idle();
        assert!(stranger_ran.load(Ordering::SeqCst));
    }
    finish(pool);
});

scenario!(a_full_queue_inside_a_job_runs_items_in_place, |flavour| {
    let pool = flavour.build(flavour.builder().workers(1).queue_limit(1));
    for order in BOTH {
        let weak = Arc::downgrade(&pool);
        let job = pool.submit(move || {
            let pool = weak.upgrade().unwrap();
            pool.execute(|| ()).unwrap();
            assert!(pool.try_submit(|| ()).is_err(), "the queue is full");
            let here = thread::current().id();
            let f = move |i: usize| {
                assert_eq!(thread::current().id(), here);
                if i == 3 { quiet_panic("in place") } else { i }
            };
            let outcomes: Vec<_> = order.map(&pool, 0..10, f).collect();
            let good = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            let panics = outcomes.iter().filter(|outcome| {
                matches!(outcome, Err(JobError::Panicked(payload)) if payload.message() == "in place")
            });
            (good, panics.count())
        });
        assert_eq!(job.unwrap().join().unwrap(), (9, 1), "{order:?}");
        pool.wait_idle();
    }
    finish(pool);
});
