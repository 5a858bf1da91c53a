//! `map` and `map_unordered`: lazy, bounded, and tidy when left early.

mod nested;

use std::cell::Cell;
use std::collections::HashSet;
use std::iter::FusedIterator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use fairlane::{JobError, WorkerPool};

use crate::common::*;
use crate::panics::{payload, quiet_panic, workers_meet};

/// In which order the results come.
#[derive(Clone, Copy, Debug)]
enum Order {
    Input,
    Finish,
}

const BOTH: [Order; 2] = [Order::Input, Order::Finish];

type Outcomes<'a, R> = Box<dyn Iterator<Item = Result<R, JobError>> + Send + 'a>;

impl Order {
    fn map<'a, I, F, R>(self, pool: &'a WorkerPool, items: I, f: F) -> Outcomes<'a, R>
    where
        I: IntoIterator<IntoIter: Send + 'a, Item: Send + 'static>,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        match self {
            Self::Input => Box::new(pool.map(items, f)),
            Self::Finish => Box::new(pool.map_unordered(items, f)),
        }
    }

    fn map_in_flight<'a, I, F, R>(
        self,
        in_flight: usize,
        pool: &'a WorkerPool,
        items: I,
        f: F,
    ) -> Outcomes<'a, R>
    where
        I: IntoIterator<IntoIter: Send + 'a, Item: Send + 'static>,
        F: Fn(I::Item) -> R + Send + Sync + 'static,
        R: Send + 'static,
    {
        match self {
            Self::Input => Box::new(pool.map(items, f).in_flight(in_flight)),
            Self::Finish => Box::new(pool.map_unordered(items, f).in_flight(in_flight)),
        }
    }

    /// `outcomes`, all of them good, as this order allows one to see them.
    fn values(self, outcomes: Outcomes<'_, usize>) -> Vec<usize> {
        let mut values: Vec<_> = outcomes.map(Result::unwrap).collect();
        if matches!(self, Self::Finish) {
            values.sort_unstable();
        }
        values
    }
}

/// Counts how often it was asked for an item.
fn counted<I>(items: I) -> (impl Iterator<Item = I::Item> + Send, Pulled)
where
    I: Iterator + Send,
{
    let pulled = Pulled::default();
    let count = pulled.clone();
    let count_one = move |_: &I::Item| _ = count.0.fetch_add(1, Ordering::SeqCst);
    (items.inspect(count_one), pulled)
}

#[derive(Clone, Default)]
struct Pulled(Arc<AtomicUsize>);

impl Pulled {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

scenario!(every_item_once, |flavour| {
    let pool = flavour.pool(workers());
    for order in BOTH {
        for n in [0, 1, 2, 7, 1_000] {
            let values = order.values(order.map(&pool, 0..n, |i| i * 3));
            assert_eq!(
                values,
                (0..n).map(|i| i * 3).collect::<Vec<_>>(),
                "{order:?}"
            );
        }
    }
    finish(pool);
});

scenario!(input_order_whatever_finishes_first, |flavour| {
    let pool = flavour.pool(2);
    // The first of each eight finishes only after the seven that are in flight with it.
    let finished = Counter::new();
    let finishes = finished.clone();
    let f = move |i: usize| {
        if i % 8 == 0 {
            finishes.wait_for(i / 8 * 7 + 7);
        } else {
            finishes.bump();
        }
        i
    };
    for eight in 0..10 {
        let mapped = pool.map(8 * eight..8 * eight + 8, f.clone()).in_flight(8);
        assert!(mapped.map(Result::unwrap).eq(8 * eight..8 * eight + 8));
    }
    assert_eq!(finished.get(), 70);
    finish(pool);
});

scenario!(unordered_gives_what_is_finished, |flavour| {
    let pool = flavour.pool(2);
    let gate = Gate::new();
    let waits = gate.clone();
    let mut mapped = pool.map_unordered(0..10, move |i| {
        if i == 0 {
            waits.wait();
        }
        i
    });
    let mut others: Vec<_> = mapped.by_ref().take(9).map(Result::unwrap).collect();
    others.sort_unstable();
    assert!(
        others.into_iter().eq(1..10),
        "the first one is still at its gate"
    );
    gate.open();
    assert_eq!(mapped.next().unwrap().unwrap(), 0);
    assert!(mapped.next().is_none());
    drop(mapped);
    finish(pool);
});

scenario!(nothing_happens_before_the_first_next, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let before = pool.stats().submitted;
        let (items, pulled) = counted(0..10);
        let probe = Probe::new();
        let captured = probe.capture();
        let mapped = order.map(&pool, items, move |_| captured.run());
        pool.wait_idle();
        assert_eq!((pulled.get(), pool.stats().submitted), (0, before));
        drop(mapped);
        assert_eq!((pulled.get(), pool.stats().submitted), (0, before));
        probe.assert_all_dropped(0);
    }
    finish(pool);
});

scenario!(in_flight_is_bounded, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    for order in BOTH {
        for in_flight in [None, Some(1), Some(2), Some(3 * n)] {
            let (items, pulled) = counted(0..200_usize);
            let running = Arc::new(AtomicUsize::new(0));
            let most = Arc::new(AtomicUsize::new(0));
            let (runs, peak) = (Arc::clone(&running), Arc::clone(&most));
            let f = move |i| {
                peak.fetch_max(runs.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                runs.fetch_sub(1, Ordering::SeqCst);
                i
            };
            let mapped = match in_flight {
                None => order.map(&pool, items, f),
                Some(in_flight) => order.map_in_flight(in_flight, &pool, items, f),
            };
            let bound = in_flight.unwrap_or(2 * n);
            let mut taken = 0;
            for value in mapped {
                value.unwrap();
                taken += 1;
                assert!(
                    pulled.get() >= bound.min(200),
                    "as many as allowed are under way"
                );
                assert!(pulled.get() - taken <= bound, "{} - {taken}", pulled.get());
            }
            assert_eq!((taken, pulled.get()), (200, 200));
            assert!(most.load(Ordering::SeqCst) <= bound);
        }
    }
    finish(pool);
});

scenario!(as_many_run_at_once_as_there_are_workers, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    for order in BOTH {
        let barrier = Arc::new(Barrier::new(n));
        let meet = move |i| {
            barrier.wait();
            i
        };
        // No more than are under way at first: with others to come, one that waits alone for them
        // might be the one that they wait for.
        assert_eq!(order.values(order.map(&pool, 0..2 * n, meet)).len(), 2 * n);
    }
    finish(pool);
});

#[test]
fn in_flight_of_zero_panics() {
    let pool = WorkerPool::new(1).unwrap();
    for order in BOTH {
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            drop(order.map_in_flight(0, &pool, 0..3, |i: i32| i));
        }));
        assert!(attempt.is_err(), "{order:?}");
    }
    assert_quiescent(&pool);
}

scenario!(infinite_input, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let values = order.values(Box::new(order.map(&pool, 0.., |i| i).take(1_000)));
        assert_eq!(values.len(), 1_000);
        assert_eq!(values.iter().collect::<HashSet<_>>().len(), 1_000);
    }
    finish(pool);
});

scenario!(panics_are_items, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let f = |i: usize| if i % 3 == 0 { quiet_panic(i) } else { i };
        let (mut values, mut panics) = (Vec::new(), Vec::new());
        for outcome in order.map(&pool, 0..30, f) {
            match outcome {
                Ok(value) => values.push(value),
                Err(error) => {
                    let payload = payload::<()>(Err(error)).into_inner();
                    panics.push(*payload.downcast::<usize>().unwrap());
                }
            }
        }
        values.sort_unstable();
        panics.sort_unstable();
        assert_eq!(panics, (0..30).step_by(3).collect::<Vec<_>>());
        assert_eq!(values, (0..30).filter(|i| i % 3 != 0).collect::<Vec<_>>());
    }
    workers_meet(&pool, 2);
    finish(pool);
});

scenario!(cancels_are_items, |flavour| {
    let pool = flavour.pool(1);
    for order in BOTH {
        let weak = Arc::downgrade(&pool);
        let f = move |i: usize| {
            if i == 0 {
                let pool = weak.upgrade().unwrap();
                // A job counts as queued a moment before it is where a sweep can find it.
                let mut found = 0;
                eventually("the others are queued, and cancelled", || {
                    found += pool.cancel_queued();
                    found == 3
                });
            }
            i
        };
        let (mut values, mut cancelled) = (Vec::new(), 0);
        for outcome in order.map_in_flight(4, &pool, 0..4, f) {
            match outcome {
                Ok(value) => values.push(value),
                Err(error) => {
                    assert_matches!(error, JobError::Cancelled);
                    cancelled += 1;
                }
            }
        }
        assert_eq!((values, cancelled), (vec![0], 3), "{order:?}");
        pool.wait_idle();
    }
    finish(pool);
});

scenario!(dropped_early_it_leaves_nothing_behind, |flavour| {
    let pool = flavour.pool(1);
    for order in BOTH {
        let before = pool.stats();
        let (gate, second, probe) = (Gate::new(), Gate::new(), Probe::new());
        let (waits, begins, captured) = (gate.clone(), second.clone(), probe.capture());
        let items: Vec<_> = (0..20).map(|i| (i, probe.capture())).collect();
        let f = move |(i, item): (usize, Captured)| {
            item.run();
            let _kept = &captured;
            if i == 1 {
                begins.open();
                waits.wait();
            }
        };
        let mut mapped = order.map_in_flight(8, &pool, items, f);
        mapped.next().unwrap().unwrap();
        second.wait();
        // It may or may not wait for what runs, so it is dropped beside this thread.
        thread::scope(|scope| {
            scope.spawn(move || drop(mapped));
            eventually("what had not started is cancelled", || {
                pool.stats().cancelled - before.cancelled >= 6 && pool.stats().queued == 0
            });
            gate.open();
        });
        pool.wait_idle();
        probe.assert_all_dropped(2);
        assert_eq!(pool.stats().completed - before.completed, 2);
    }
    finish(pool);
});

scenario!(left_early_by_a_panic, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let probe = Probe::new();
        let items: Vec<_> = (0..20).map(|_| probe.capture()).collect();
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            for (i, outcome) in order.map(&pool, items, |item| item.run()).enumerate() {
                outcome.unwrap();
                if i == 3 {
                    quiet_panic("the reader fails");
                }
            }
        }));
        assert!(attempt.is_err());
        pool.wait_idle();
        assert_eq!(probe.dropped(), 20);
    }
    finish(pool);
});

scenario!(the_source_may_panic, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let probe = Probe::new();
        let items = (0..10).map(|i| {
            if i == 5 {
                quiet_panic("no sixth")
            } else {
                probe.capture()
            }
        });
        let mut mapped = order.map(&pool, items, |item| item.run());
        let attempt = catch_unwind(AssertUnwindSafe(|| mapped.by_ref().for_each(drop)));
        assert_eq!(
            *attempt.unwrap_err().downcast::<&str>().unwrap(),
            "no sixth"
        );
        drop(mapped);
        pool.wait_idle();
        assert_eq!((probe.created(), probe.dropped()), (5, 5));
    }
    finish(pool);
});

scenario!(a_closed_pool_gives_one_discarded_an_item, |flavour| {
    let pool = flavour.pool(1);
    pool.close();
    for order in BOTH {
        let probe = Probe::new();
        let items: Vec<_> = (0..10).map(|_| probe.capture()).collect();
        let mut mapped = order.map(&pool, items, |item| item.run());
        for left in (0..10).rev() {
            assert_matches!(mapped.next(), Some(Err(JobError::Discarded)));
            assert!(
                mapped.size_hint() == (left, Some(left)),
                "{:?}",
                mapped.size_hint()
            );
        }
        assert!(mapped.next().is_none());
        drop(mapped);
        probe.assert_all_dropped(0);
    }
    finish(pool);
});

scenario!(closed_while_it_is_read, |flavour| {
    let pool = flavour.pool(2);
    let (items, pulled) = counted(0..20);
    let mut mapped = pool.map(items, |i| i);
    assert_eq!(mapped.next().unwrap().unwrap(), 0);
    let accepted = pulled.get();
    pool.close();
    // What was accepted still runs.
    for i in 1..accepted {
        assert_eq!(mapped.next().unwrap().unwrap(), i);
    }
    let rest: Vec<_> = mapped.collect();
    assert_eq!(rest.len(), 20 - accepted);
    assert!(
        rest.iter()
            .all(|outcome| matches!(outcome, Err(JobError::Discarded)))
    );
    finish(pool);
});

scenario!(fused_and_sized, |flavour| {
    /// Gives items again after it has ended, as an iterator may.
    struct Flicker(u32);
    impl Iterator for Flicker {
        type Item = u32;
        fn next(&mut self) -> Option<u32> {
            self.0 += 1;
            (self.0 % 4 != 0).then_some(self.0)
        }
    }
    fn fused(iterator: impl FusedIterator) -> impl FusedIterator {
        iterator
    }

    let pool = flavour.pool(2);
    for order in BOTH {
        let mut mapped = order.map(&pool, 0..10, |i| i);
        for left in (0..10).rev() {
            assert_eq!(mapped.size_hint(), (left + 1, Some(left + 1)));
            mapped.next().unwrap().unwrap();
            assert_eq!(mapped.size_hint(), (left, Some(left)));
        }
        assert!(mapped.next().is_none());
        assert_eq!(mapped.size_hint(), (0, Some(0)));

        let mut flicker = order.map(&pool, Flicker(0), |i| i);
        assert_eq!(flicker.by_ref().count(), 3);
        assert!(flicker.next().is_none() && flicker.next().is_none());
        drop((mapped, flicker));
    }
    assert_eq!(fused(pool.map(0..5, |i| i)).count(), 5);
    assert_eq!(fused(pool.map_unordered(0..5, |i| i)).count(), 5);
    let (least, most) = pool.map(0.., |i: u64| i).size_hint();
    assert!(least > 1_000_000 && most.is_none());
    finish(pool);
});

scenario!(the_source_stays_on_its_thread, |flavour| {
    // The source is never sent anywhere, so it need not be `Send`; its items are.
    let pool = flavour.pool(2);
    let shared = Rc::new(Cell::new(0));
    let count = Rc::clone(&shared);
    let items = std::iter::from_fn(move || {
        count.set(count.get() + 1);
        (count.get() <= 10).then(|| count.get())
    });
    let sum: i32 = pool.map(items, |i| i).map(Result::unwrap).sum();
    assert_eq!(sum, 55);
    let count = Rc::clone(&shared);
    let items = std::iter::from_fn(move || (count.replace(count.get() - 1) > 0).then_some(1));
    assert_eq!(
        pool.map_unordered(items, |i| i)
            .map(Result::unwrap)
            .sum::<i32>(),
        11
    );
    finish(pool);
});

scenario!(with_a_queue_limit_it_waits_for_room, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2).queue_limit(1));
    for order in BOTH {
        assert!(
            order
                .values(order.map_in_flight(50, &pool, 0..200, |i| i))
                .into_iter()
                .eq(0..200)
        );
    }
    finish(pool);
});

scenario!(two_maps_of_one_pool_in_turn, |flavour| {
    let pool = flavour.pool(2);
    let odd = pool.map((0..100).map(|i| 2 * i + 1), |i| i);
    let even = pool.map((0..100).map(|i| 2 * i), |i| i);
    let woven = even
        .zip(odd)
        .flat_map(|(even, odd)| [even.unwrap(), odd.unwrap()]);
    assert!(woven.eq(0..200));
    finish(pool);
});

scenario!(a_map_of_a_map, |flavour| {
    let pool = flavour.pool(2);
    let first = pool.map(0..100, |i| i + 1);
    let second = pool.map_unordered(first, |i| i.unwrap() * 2);
    let mut values: Vec<_> = second.map(Result::unwrap).collect();
    values.sort_unstable();
    assert!(values.into_iter().eq((1..=100).map(|i| i * 2)));
    finish(pool);
});

scenario!(moved_to_another_thread_half_read, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let mut mapped = order.map(&pool, 0..100, |i: usize| i);
        let (sender, receiver) = mpsc::channel();
        sender.send(mapped.next().unwrap().unwrap()).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || mapped.for_each(|value| sender.send(value.unwrap()).unwrap()));
        });
        let mut values: Vec<_> = receiver.iter().collect();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..100));
    }
    finish(pool);
});

scenario!(the_closure_is_dropped_once, |flavour| {
    let pool = flavour.pool(2);
    for order in BOTH {
        let probe = Probe::new();
        let captured = probe.capture();
        let mapped = order.map(&pool, 0..50, move |_: i32| captured.run());
        assert_eq!(mapped.map(Result::unwrap).count(), 50);
        pool.wait_idle();
        assert_eq!((probe.created(), probe.dropped(), probe.ran()), (1, 1, 50));
    }
    finish(pool);
});

scenario!(no_hint_and_no_bound_is_taken_for_memory, |flavour| {
    /// Says that it has more items than there can be, or none, and has five.
    struct Boasts(std::ops::Range<u32>, (usize, Option<usize>));
    impl Iterator for Boasts {
        type Item = u32;
        fn next(&mut self) -> Option<u32> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            self.1
        }
    }
    let pool = flavour.pool(2);
    for hint in [
        (usize::MAX, None),
        (usize::MAX, Some(usize::MAX)),
        (0, Some(0)),
    ] {
        for order in BOTH {
            for in_flight in [1, usize::MAX] {
                let mut mapped = order.map_in_flight(in_flight, &pool, Boasts(0..5, hint), |n| n);
                let first = mapped.next().unwrap().unwrap();
                let _ = mapped.size_hint();
                assert_eq!(first + mapped.map(Result::unwrap).sum::<u32>(), 10);
            }
        }
    }
    finish(pool);
});
