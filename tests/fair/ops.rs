//! Random traces of operations.

use fairlane::{FairQueue, Priority, Ticket, Weight};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Push(u32, i32),
    PushWeighted(u32, u32, i32),
    Pop,
    /// Of the tickets handed out so far, the n-th modulo their number, stale ones included.
    Remove(usize),
    SetWeight(u32, u32),
    Hold(u32),
    Release(u32),
}

/// Cases in a normal run; the usual variable asks for more.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let mut config = ProptestConfig::default();
    if !asked {
        config.cases = cases;
    }
    config.max_shrink_iters = 20_000;
    config.failure_persistence = None;
    config
}

/// The weights of one trace, and how many tenants at most. In these the sum of the weights stays
/// below 53, so that every tag is whole, ties come out as ties, and equality is exact.
fn exact_families() -> Vec<(Vec<u32>, u32)> {
    vec![
        (vec![1], 9),
        (vec![7], 7),
        (vec![1, 2, 3], 9),
        (vec![1, 5, 7, 11], 4),
        ((1..=13).collect(), 4),
        (vec![1, 17, 19, 23, 26], 2),
    ]
}

/// Weights that strain the arithmetic: not divisors of the unit, close together, far apart.
fn other_families() -> Vec<(Vec<u32>, u32)> {
    vec![
        ((1..=52).collect(), 9),
        (vec![53, 59, 61, 64, 97, 101, 121, 128, 2187], 5),
        (vec![1, 10, 100, 1000], 5),
        ((990..=1010).collect(), 5),
        (vec![65_537, 4_294_967_291, 4_294_967_279, 3], 5),
        (vec![1, 2, u32::MAX - 1, u32::MAX], 5),
    ]
}

fn priority() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 2 => -1..=1, 1 => -50..50_i32]
}

fn op(tenants: u32, weights: Vec<u32>) -> impl Strategy<Value = Op> {
    let weight = move || prop::sample::select(weights.clone());
    let name = move || 0..tenants;
    prop_oneof![
        5 => (name(), priority()).prop_map(|(t, p)| Op::Push(t, p)),
        5 => (name(), weight(), priority()).prop_map(|(t, w, p)| Op::PushWeighted(t, w, p)),
        9 => Just(Op::Pop),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => (name(), weight()).prop_map(|(t, w)| Op::SetWeight(t, w)),
        1 => name().prop_map(Op::Hold),
        1 => name().prop_map(Op::Release),
    ]
}

fn trace_of(families: Vec<(Vec<u32>, u32)>, length: usize) -> impl Strategy<Value = Vec<Op>> {
    let family = (prop::sample::select(families), any::<prop::sample::Index>());
    family.prop_flat_map(move |((weights, most), tenants)| {
        let tenants = tenants.index(most as usize) as u32 + 1;
        prop::collection::vec(op(tenants, weights), 1..length)
    })
}

/// Up to `length` operations by a few tenants, with weights of any kind.
pub(crate) fn trace(length: usize) -> impl Strategy<Value = Vec<Op>> {
    let mut all = exact_families();
    all.extend(other_families());
    trace_of(all, length)
}

/// The same with the sum of the weights below 53.
pub(crate) fn exact_trace(length: usize) -> impl Strategy<Value = Vec<Op>> {
    trace_of(exact_families(), length)
}

/// The same with all the other weights.
pub(crate) fn other_trace(length: usize) -> impl Strategy<Value = Vec<Op>> {
    trace_of(other_families(), length)
}

/// Many tenants, and weights that change all the time under lanes in debt: each is then a run of
/// its own, more than one node of the agenda holds. The sum of the weights stays below 53.
pub(crate) fn crowd(length: usize) -> impl Strategy<Value = Vec<Op>> {
    let (tenants, weight) = (26, 1..3_u32);
    let op = prop_oneof![
        4 => (0..tenants, weight.clone(), 0..2).prop_map(|(t, w, p)| Op::PushWeighted(t, w, p)),
        4 => Just(Op::Pop),
        6 => (0..tenants, weight).prop_map(|(t, w)| Op::SetWeight(t, w)),
        1 => (0..tenants).prop_map(Op::Hold),
        1 => (0..tenants).prop_map(Op::Release),
    ];
    prop::collection::vec(op, length / 2..length).prop_map(move |ops| {
        let all = (0..tenants).flat_map(|t| [Op::Push(t, 0); 3]);
        all.chain(ops).collect()
    })
}

/// Runs traces on the queue itself; jobs are numbered in order of pushing.
pub(crate) struct Runner<K> {
    pub(crate) queue: FairQueue<K, u64>,
    pub(crate) tickets: Vec<Ticket>,
    name: fn(u32) -> K,
    scale: u32,
}

/// What an operation showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen<K> {
    Pushed,
    Popped(Option<(K, u64)>),
    Removed(Option<u64>),
    Found(bool),
}

impl<K: Copy> Seen<K> {
    /// Whose job was popped.
    pub(crate) fn tenant(&self) -> Option<K> {
        match self {
            Seen::Popped(Some((tenant, _))) => Some(*tenant),
            _ => None,
        }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Runner<K> {
    pub(crate) fn new(name: fn(u32) -> K, scale: u32) -> Runner<K> {
        Runner {
            queue: FairQueue::new(),
            tickets: Vec::new(),
            name,
            scale,
        }
    }

    fn push(&mut self, tenant: u32, weight: Option<u32>, priority: i32) -> Seen<K> {
        let (key, job) = ((self.name)(tenant), self.tickets.len() as u64);
        let ticket = match weight {
            None => self.queue.push(key, Priority(priority), job),
            Some(weight) => {
                let weight = Weight::new(weight * self.scale);
                self.queue
                    .push_weighted(key, weight, Priority(priority), job)
            }
        };
        self.tickets.push(ticket);
        Seen::Pushed
    }

    pub(crate) fn apply(&mut self, op: Op) -> Seen<K> {
        let name = self.name;
        match op {
            Op::Push(t, p) => self.push(t, None, p),
            Op::PushWeighted(t, w, p) => self.push(t, Some(w), p),
            Op::Pop => Seen::Popped(self.queue.pop()),
            Op::Remove(n) => {
                let at = n.checked_rem(self.tickets.len());
                let ticket = at.map(|at| self.tickets[at]);
                Seen::Removed(ticket.and_then(|ticket| self.queue.remove(ticket)))
            }
            Op::SetWeight(t, w) => {
                Seen::Found(self.queue.set_weight(&name(t), Weight::new(w * self.scale)))
            }
            Op::Hold(t) => Seen::Found(self.queue.hold(&name(t))),
            Op::Release(t) => Seen::Found(self.queue.release(&name(t))),
        }
    }

    /// Releases everyone and pops to the end.
    pub(crate) fn finish(&mut self) -> Vec<(K, u64)> {
        for tenant in 0..32 {
            self.queue.release(&(self.name)(tenant));
        }
        std::iter::from_fn(|| self.queue.pop()).collect()
    }
}
