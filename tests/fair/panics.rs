//! User code that panics: names that cannot be cloned, hashed, compared or dropped, and items that
//! cannot be dropped.

use crate::ops::{Op, Runner, Seen, config, trace};
use fairlane::{FairQueue, Priority};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

thread_local! {
    /// How many more calls into a name's code succeed; then one panics.
    static FUSE: Cell<Option<u32>> = const { Cell::new(None) };
}

fn burn() {
    match FUSE.get() {
        Some(0) => {
            FUSE.set(None);
            // No message, no backtrace.
            resume_unwind(Box::new("the fuse has burnt down"));
        }
        left => FUSE.set(left.map(|left| left - 1)),
    }
}

#[derive(Debug)]
struct Touchy(u32);

impl Clone for Touchy {
    fn clone(&self) -> Touchy {
        burn();
        Touchy(self.0)
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Touchy) -> bool {
        burn();
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        burn();
        self.0.hash(hasher);
    }
}

/// Applies `op` with a fuse; whether it got through, and what it showed.
fn try_op(runner: &mut Runner<Touchy>, op: Op, fuse: u32) -> Option<Seen<Touchy>> {
    FUSE.set(Some(fuse));
    let seen = catch_unwind(AssertUnwindSafe(|| runner.apply(op)));
    FUSE.set(None);
    seen.ok()
}

proptest! {
    #![proptest_config(config(500))]

    /// An operation that panicked in a name's code has not happened: done again, everything goes on
    /// as it would have.
    #[test]
    fn a_panicking_name_changes_nothing(trace in trace(80), fuses in prop::collection::vec(0..3_u32, 80)) {
        let mut runner = Runner::new(Touchy, 1);
        let mut plain = Runner::new(|t| t, 1);
        for (&op, &fuse) in trace.iter().zip(&fuses) {
            let len = runner.queue.len();
            let seen = match try_op(&mut runner, op, fuse) {
                Some(seen) => seen,
                None => {
                    prop_assert_eq!(runner.queue.len(), len);
                    runner.apply(op)
                }
            };
            // The names differ in type only.
            let seen = format!("{seen:?}").replace("Touchy(", "").replace("),", ",");
            let expected = format!("{:?}", plain.apply(op));
            prop_assert_eq!(seen, expected);
        }
        let left: Vec<_> = runner.finish().into_iter().map(|(t, job)| (t.0, job)).collect();
        prop_assert_eq!(left, plain.finish());
    }
}

/// A name or an item that counts its drops, and may panic in one.
#[derive(Debug, Clone)]
struct Counted {
    id: u32,
    drops: Rc<RefCell<Vec<u32>>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.borrow_mut().push(self.id);
        burn();
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Counted) -> bool {
        self.id == other.id
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.id.hash(hasher);
    }
}

/// A key is dropped once the operation is done, so one that panics then has undone nothing.
#[test]
fn a_name_that_panics_in_drop_leaves_the_operation_done() {
    let drops = Rc::new(RefCell::new(Vec::new()));
    let name = |id| Counted {
        id,
        drops: drops.clone(),
    };
    let mut queue = FairQueue::new();
    let first = queue.push(name(1), Priority::NORMAL, 'a');
    FUSE.set(Some(0));
    let pushed = catch_unwind(AssertUnwindSafe(|| {
        queue.push(name(1), Priority::NORMAL, 'b')
    }));
    assert!(pushed.is_err());
    assert_eq!((queue.len(), queue.lanes()), (2, 1));
    assert_eq!(queue.remove(first), Some('a'));
    let last = queue.push(name(2), Priority::NORMAL, 'c');
    FUSE.set(Some(0));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.remove(last))).is_err());
    assert_eq!((queue.len(), queue.lanes()), (1, 1));
    assert_eq!(
        queue.pop().map(|(name, job)| (name.id, job)),
        Some((1, 'b'))
    );
    assert!(queue.is_empty());
    assert_eq!(*drops.borrow(), [1, 2, 1]);
}

/// The queue's own drop, and that of `drain`, reach every item, one of which panics.
#[test]
fn an_item_that_panics_in_drop_takes_none_with_it() {
    for drained in [false, true] {
        let drops = Rc::new(RefCell::new(Vec::new()));
        let mut queue = FairQueue::new();
        for id in 0..500 {
            queue.push(
                id % 7,
                Priority(id as i32 % 3),
                Counted {
                    id,
                    drops: drops.clone(),
                },
            );
        }
        let (_, popped) = queue.pop().unwrap();
        FUSE.set(Some(100));
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            if drained {
                let mut drain = queue.drain();
                let _one = drain.next();
            } else {
                drop(std::mem::take(&mut queue));
            }
        }));
        assert!(dropped.is_err());
        assert_eq!(drops.borrow().len(), 499);
        assert!(queue.is_empty());
        drop(popped);
        drops.borrow_mut().sort_unstable();
        assert!(drops.borrow().iter().copied().eq(0..500));
    }
}

/// A removed item leaves the queue at once, and is the caller's to drop.
#[test]
fn items_leave_at_once() {
    let mut queue = FairQueue::new();
    let item = Rc::new(());
    let tickets: Vec<_> = (0..100)
        .map(|n| queue.push(n % 5, Priority(n), item.clone()))
        .collect();
    assert_eq!(Rc::strong_count(&item), 101);
    for ticket in tickets.into_iter().step_by(2) {
        queue.remove(ticket);
    }
    assert_eq!(Rc::strong_count(&item), 51);
    while queue.pop().is_some() {}
    assert_eq!(Rc::strong_count(&item), 1);
}

/// A name that cannot be dropped once the fuse is lit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Clingy(u32);

impl Drop for Clingy {
    fn drop(&mut self) {
        burn();
    }
}

#[test]
fn a_pop_that_forgets_a_debtor_loses_no_job() {
    let mut queue = FairQueue::by_cost();
    for stranger in 0..20 {
        queue.push(Clingy(stranger), Priority::NORMAL, stranger);
        for job in 0..20 {
            queue.push(Clingy(99), Priority::NORMAL, job);
        }
    }
    let (mut popped, mut panics) = (0, 0);
    while !queue.is_empty() {
        let before = queue.len();
        FUSE.set(Some(0));
        let served = catch_unwind(AssertUnwindSafe(|| queue.pop()));
        FUSE.set(None);
        let Ok(served) = served else {
            panics += 1;
            assert_eq!(queue.len(), before, "nothing was taken");
            continue;
        };
        let (tenant, _) = served.expect("there is a job");
        popped += 1;
        queue.settle(&tenant, if tenant.0 == 99 { 10 } else { 25 });
    }
    assert_eq!(popped, 420);
    assert!(panics > 0, "no pop had anybody to forget");
}
