//! A queue by cost against its oracle, on random traces.

use crate::cost_oracle::CostOracle;
use crate::ops::config;
use fairlane::{FairQueue, Priority, Ticket, Weight};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Push(u32, Option<u32>, i32),
    Pop,
    /// Of the jobs popped and not settled yet, the n-th modulo their number.
    Settle(usize, u64),
    /// Of a tenant whose jobs may all be settled, if it ever had one.
    SettleMore(u32, u64),
    Remove(usize),
    SetWeight(u32, u32),
    Hold(u32),
    Release(u32),
    Drain,
    /// All that is queued is served, and all that runs settled.
    Rest,
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0_u64),
        4 => 1..5_u64,
        4 => prop::sample::select(vec![1_000_000, 100_000_000]),
        2 => 0..1_000_000_000_u64,
        1 => Just(1 << 47),
    ]
}

fn op(tenants: u32, weights: Vec<u32>) -> impl Strategy<Value = Op> {
    let weight = move || prop::sample::select(weights.clone());
    let name = move || 0..tenants;
    prop_oneof![
        60 => (name(), prop::option::of(weight()), -1..=1_i32).prop_map(|(t, w, p)| Op::Push(t, w, p)),
        55 => Just(Op::Pop),
        45 => (any::<usize>(), cost()).prop_map(|(n, c)| Op::Settle(n, c)),
        4 => (name(), cost()).prop_map(|(t, c)| Op::SettleMore(t, c)),
        10 => any::<usize>().prop_map(Op::Remove),
        8 => (name(), weight()).prop_map(|(t, w)| Op::SetWeight(t, w)),
        6 => name().prop_map(Op::Hold),
        6 => name().prop_map(Op::Release),
        1 => Just(Op::Drain),
        1 => Just(Op::Rest),
    ]
}

/// Weights that divide everything, and weights that strain the arithmetic; few tenants, and more than
/// one node of the agenda holds.
pub(crate) fn trace(length: usize) -> impl Strategy<Value = Vec<Op>> {
    let families = prop::sample::select(vec![
        (vec![1], 9),
        (vec![1, 2, 3], 9),
        ((1..=52).collect(), 9),
        (vec![1], 60),
        (vec![53, 59, 61, 64, 97, 101, 2187], 5),
        (vec![1, 10, 100, 1000], 5),
        (vec![65_537, 4_294_967_291, 3], 4),
        (vec![1, 2, u32::MAX - 1, u32::MAX], 5),
    ]);
    families.prop_flat_map(move |(weights, tenants)| {
        prop::collection::vec(op(tenants, weights), 1..length)
    })
}

/// The queue and its oracle, side by side.
struct Both {
    queue: FairQueue<u32, u64>,
    oracle: CostOracle,
    tickets: Vec<Ticket>,
    /// The tenants of jobs popped and not settled.
    running: Vec<u32>,
}

impl Both {
    fn new() -> Both {
        Both {
            queue: FairQueue::by_cost(),
            oracle: CostOracle::default(),
            tickets: Vec::new(),
            running: Vec::new(),
        }
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        let (queue, oracle) = (&mut self.queue, &mut self.oracle);
        match op {
            Op::Push(t, w, p) => {
                let job = self.tickets.len() as u64;
                let ticket = match w {
                    None => queue.push(t, Priority(p), job),
                    Some(w) => queue.push_weighted(t, Weight::new(w), Priority(p), job),
                };
                self.tickets.push(ticket);
                oracle.push(t, w, p, job);
            }
            Op::Pop => {
                let popped = queue.pop();
                prop_assert_eq!(popped, oracle.pop());
                self.running.extend(popped.map(|(tenant, _)| tenant));
            }
            Op::Settle(n, cost) => {
                if let Some(n) = n.checked_rem(self.running.len()) {
                    let tenant = self.running.swap_remove(n);
                    prop_assert_eq!(queue.settle(&tenant, cost), oracle.settle(tenant, cost));
                }
            }
            Op::SettleMore(t, cost) => {
                prop_assert_eq!(queue.settle(&t, cost), oracle.settle(t, cost));
            }
            Op::Remove(n) => {
                let n = n.checked_rem(self.tickets.len());
                let removed = n.and_then(|n| queue.remove(self.tickets[n]));
                let wanted = n.map(|n| n as u64).filter(|&job| oracle.remove(job));
                prop_assert_eq!(removed, wanted);
            }
            Op::SetWeight(t, w) => {
                let is_queued = queue.set_weight(&t, Weight::new(w));
                prop_assert_eq!(is_queued, oracle.set_weight(t, w));
            }
            Op::Hold(t) => prop_assert_eq!(queue.hold(&t), oracle.hold(t)),
            Op::Release(t) => prop_assert_eq!(queue.release(&t), oracle.release(t)),
            Op::Drain => {
                prop_assert_eq!(queue.drain().count(), oracle.len());
                oracle.drain();
            }
            Op::Rest => self.rest()?,
        }
        let (queue, oracle) = (&self.queue, &self.oracle);
        prop_assert_eq!((queue.len(), queue.lanes()), (oracle.len(), oracle.lanes()));
        Ok(())
    }

    /// Serves all that is left, and settles it.
    fn rest(&mut self) -> Result<(), TestCaseError> {
        for tenant in 0..60 {
            self.apply(Op::Release(tenant))?;
        }
        while self.oracle.len() > 0 {
            self.apply(Op::Pop)?;
            self.apply(Op::Settle(7, 3))?;
        }
        while !self.running.is_empty() {
            self.apply(Op::Settle(0, 5))?;
        }
        Ok(())
    }
}

/// The same jobs in the same order, whatever they cost and whenever that is known, and nobody is known in
/// the end.
pub(crate) fn follows_the_oracle(trace: &[Op]) -> Result<(), TestCaseError> {
    let mut both = Both::new();
    for &op in trace {
        both.apply(op)?;
    }
    both.rest()?;
    prop_assert!(!both.oracle.knows_anybody());
    prop_assert!((0..60).all(|tenant| !both.queue.settle(&tenant, 1)));
    Ok(())
}

/// Fractions grow with each step, and shrinking takes its time.
fn oracle_config() -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 500,
        ..config(200)
    }
}

proptest! {
    #![proptest_config(oracle_config())]

    #[test]
    fn the_order_is_the_oracles(trace in trace(120)) {
        follows_the_oracle(&trace)?;
    }
}

/// As far ahead as tags can be put, by whoever settles more than was popped: others come beside it at the
/// greatest weight, as late as the average is, which that tag alone makes.
#[test]
fn the_order_is_the_oracles_as_far_as_the_arithmetic_goes() {
    let mut both = Both::new();
    let push = |tenant, weight| Op::Push(tenant, Some(weight), 0);
    both.apply(push(0, 1)).unwrap();
    for _ in 0..5_000 {
        both.queue.settle(&0, u64::MAX);
        both.oracle.settle(0, 1 << 48);
    }
    for tenant in 1..60 {
        both.apply(push(tenant, u32::MAX)).unwrap();
        both.apply(Op::SetWeight(tenant, 1)).unwrap();
        both.apply(Op::SetWeight(tenant, u32::MAX)).unwrap();
    }
    for tenant in 0..60 {
        both.apply(push(tenant, u32::MAX)).unwrap();
    }
    both.rest().unwrap();
}

/// Also if there are more who have paid off what they owed than one step forgets.
#[test]
fn nobody_owes_anything_once_all_is_done_however_many_are_remembered() {
    let mut both = Both::new();
    let push = |tenant, weight| Op::Push(tenant, Some(weight), 0);
    (0..20).for_each(|tenant| both.apply(push(tenant, 1)).unwrap());
    (0..2).for_each(|_| both.apply(push(50, 1_000)).unwrap());
    (0..20).for_each(|_| both.apply(Op::Pop).unwrap());
    (0..20).for_each(|_| both.apply(Op::Settle(0, 10)).unwrap());
    // All of them have paid by the time it takes its second turn; it has not when that ends.
    for _ in 0..2 {
        both.apply(Op::Pop).unwrap();
        both.apply(Op::Settle(0, 1_000_000_000)).unwrap();
    }
    assert!(!both.oracle.knows_anybody());
    both.apply(Op::SettleMore(50, 1)).unwrap();
    for tenant in [50, 0, 50, 0] {
        both.apply(push(tenant, 1)).unwrap();
    }
    (0..4).for_each(|_| both.apply(Op::Pop).unwrap());
}

/// A thousand times as many of either than overflow 128 bits between them.
#[test]
fn nothing_overflows() {
    let mut queue = FairQueue::by_cost();
    let push = |queue: &mut FairQueue<u32, ()>, tenant, weight| {
        queue.push_weighted(tenant, Weight::new(weight), Priority::NORMAL, ());
    };
    push(&mut queue, 0, 1);
    for _ in 0..1 << 20 {
        assert!(queue.settle(&0, u64::MAX));
    }
    for tenant in 1..1 << 17 {
        push(&mut queue, tenant, u32::MAX);
    }
    for _ in 0..1 << 17 {
        let (tenant, ()) = queue.pop().expect("one of each");
        assert!(queue.settle(&tenant, 1));
    }
    assert!(queue.is_empty());
}
