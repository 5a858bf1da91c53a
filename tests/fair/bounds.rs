//! What is proven of the rule, checked on the queue.

use crate::ops::config;
use fairlane::{FairQueue, Priority, Weight};
use proptest::prelude::*;

fn weights(most: usize) -> impl Strategy<Value = Vec<u32>> {
    let weight = prop_oneof![
        6 => 1..=20_u32,
        2 => 50..=130_u32,
        1 => prop::sample::select(vec![1009, 65_537, 1 << 20]),
    ];
    prop::collection::vec(weight, 1..most)
}

/// Backlogged tenants: every pop is followed by a push to the same tenant.
struct Backlogged {
    queue: FairQueue<usize, ()>,
    weights: Vec<u32>,
}

impl Backlogged {
    fn new(weights: &[u32]) -> Backlogged {
        let mut all = Backlogged {
            queue: FairQueue::new(),
            weights: Vec::new(),
        };
        weights.iter().for_each(|&weight| all.join(weight));
        all
    }

    fn join(&mut self, weight: u32) {
        for _ in 0..2 {
            let (tenant, weight) = (self.weights.len(), Weight::new(weight));
            self.queue
                .push_weighted(tenant, weight, Priority::NORMAL, ());
        }
        self.weights.push(weight);
    }

    fn total(&self) -> u64 {
        self.weights.iter().map(|&weight| u64::from(weight)).sum()
    }

    fn serve(&mut self) -> usize {
        let (tenant, ()) = self.queue.pop().expect("a backlog");
        self.queue.push(tenant, Priority::NORMAL, ());
        tenant
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// Between the floor and the ceiling of the exact share, after every single pop.
    #[test]
    fn quota(weights in weights(9)) {
        let mut all = Backlogged::new(&weights);
        let total = all.total();
        let mut served = vec![0_u64; weights.len()];
        for t in 1..=(3 * total).min(600) {
            served[all.serve()] += 1;
            for (&count, &weight) in served.iter().zip(&weights) {
                let share = t * u64::from(weight);
                prop_assert!(count >= share / total && count <= share.div_ceil(total));
            }
        }
    }

    /// Less than 1 + 2/f pops from one service to the next, less than 2/(1 − f) in a row.
    #[test]
    fn gap_and_run(weights in weights(9)) {
        let mut all = Backlogged::new(&weights);
        let total = all.total();
        let mut last = vec![0; weights.len()];
        let (mut run, mut before) = (0, usize::MAX);
        for t in 1..=(3 * total).min(600) {
            let tenant = all.serve();
            let weight = u64::from(weights[tenant]);
            prop_assert!((t - last[tenant] - 1) * weight < 2 * total);
            last[tenant] = t;
            run = if tenant == before { run + 1 } else { 1 };
            before = tenant;
            prop_assert!(weights.len() == 1 || run * (total - weight) < 2 * total);
        }
    }

    /// A newcomer is served within ⌈W/w⌉ pops; among equals at most one job of each goes first.
    #[test]
    fn newcomer(weights in weights(9), weight in 1..150_u32, before in 0..300_usize) {
        let weights: Vec<_> = weights.into_iter().map(|weight| weight % 130 + 1).collect();
        let mut all = Backlogged::new(&weights);
        for _ in 0..before {
            all.serve();
        }
        all.join(weight);
        let new = weights.len();
        let bound = all.total().div_ceil(weight.into());
        let waited = (1..=bound).find(|_| all.serve() == new);
        prop_assert!(waited.is_some(), "not within {bound}");
    }

    #[test]
    fn newcomer_among_equals(others in 1..20_usize, weight in 1..100_u32, before in 0..100_usize) {
        let mut all = Backlogged::new(&vec![weight; others]);
        for _ in 0..before {
            all.serve();
        }
        all.join(weight);
        let mut seen = vec![0; others];
        loop {
            match all.serve() {
                tenant if tenant == others => break,
                tenant => seen[tenant] += 1,
            }
        }
        prop_assert!(seen.iter().all(|&count| count <= 1));
    }

    /// Two tenants that stay, while others join: over any interval their normalised service differs
    /// by at most twice the larger step.
    #[test]
    fn pairwise(
        one in 1..200_u32, two in 1..200_u32,
        others in prop::collection::vec((1..200_u32, 0..12_usize), 1..40),
    ) {
        let mut all = Backlogged::new(&[one, two]);
        let (mut lead, mut least, mut most) = (0_i64, 0, 0);
        for (weight, pops) in others {
            for _ in 0..pops {
                // Times both weights.
                lead += match all.serve() {
                    0 => i64::from(two),
                    1 => -i64::from(one),
                    _ => 0,
                };
                (least, most) = (least.min(lead), most.max(lead));
            }
            all.join(weight);
        }
        prop_assert!(most - least <= 2 * i64::from(one.max(two)));
    }

    /// Who was idle comes back with at most one job ahead of its share.
    #[test]
    fn idling_earns_nothing(weights in weights(6), weight in 1..60_u32, idle in 1..1000_usize) {
        let mut all = Backlogged::new(&weights);
        all.join(weight);
        let back = weights.len();
        // It leaves with its last job, the others go on; a light one would wait for long.
        prop_assume!(all.total() / u64::from(weight) < 1000);
        let mut left = 2;
        while left > 0 {
            let (tenant, ()) = all.queue.pop().expect("a backlog");
            if tenant == back { left -= 1 } else { all.queue.push(tenant, Priority::NORMAL, ()); }
        }
        for _ in 0..idle {
            all.serve();
        }
        all.weights.pop();
        all.join(weight);
        let (total, mut served) = (all.total(), 0);
        for t in 1..=(2 * total).min(400) {
            served += u64::from(all.serve() == back);
            prop_assert!(served * total <= t * u64::from(weight) + total);
        }
    }

    /// The others' shares while one is held, and everybody's within a rotation of its release.
    #[test]
    fn a_release_restores_the_shares(weights in weights(6), weight in 1..40_u32, held in 1..300_u64) {
        let mut all = Backlogged::new(&weights);
        let others = all.total();
        all.join(weight);
        let new = weights.len();
        prop_assert!(all.queue.hold(&new));
        let mut served = vec![0_u64; new];
        for t in 1..=held {
            served[all.serve()] += 1;
            for (&count, &weight) in served.iter().zip(&weights) {
                let share = t * u64::from(weight);
                prop_assert!(count >= share / others && count <= share.div_ceil(others));
            }
        }
        prop_assert!(all.queue.release(&new));
        let total = all.total();
        let (rotation, mut count) = (total.min(2000), 0);
        (0..rotation).for_each(|_| count += u64::from(all.serve() == new));
        let share = rotation * u64::from(weight);
        prop_assert!(count + 1 >= share / total && count <= share.div_ceil(total) + 1);
    }
}

/// As `quota`, with more distinct weights than two levels of the agenda hold, and everybody's share
/// exact after each rotation.
#[test]
fn quota_with_four_hundred_weights() {
    let weights: Vec<_> = (1..=400).map(|n| n * 7 % 401).collect();
    let mut all = Backlogged::new(&weights);
    let total = all.total();
    let mut served = vec![0_u64; weights.len()];
    for t in 1..=2 * total {
        served[all.serve()] += 1;
        if t % 401 == 0 || t % total == 0 {
            for (&count, &weight) in served.iter().zip(&weights) {
                let share = t * u64::from(weight);
                assert!(count >= share / total && count <= share.div_ceil(total));
            }
        }
    }
}

/// Five who come back with one job each time theirs is done, beside one with a backlog.
#[test]
fn a_backlog_gets_its_sixth_beside_five_resubmitters() {
    let mut all = Backlogged::new(&[1]);
    for tenant in 1..6 {
        all.queue.push(tenant, Priority::NORMAL, ());
    }
    let served = (0..600).filter(|_| all.serve() == 0).count();
    assert!((99..=101).contains(&served), "{served}");
}

/// A new name for every job does not starve who was there before.
#[test]
fn a_stream_of_strangers_does_not_starve_a_backlog() {
    let mut all = Backlogged::new(&[1]);
    for name in 1..6 {
        all.queue.push(name, Priority::NORMAL, ());
    }
    let mut served = 0;
    for name in 6..6006 {
        let (tenant, ()) = all.queue.pop().expect("a backlog");
        served += usize::from(tenant == 0);
        // One in, one out: five strangers beside the backlog at any time.
        let next = if tenant == 0 { 0 } else { name };
        all.queue.push(next, Priority::NORMAL, ());
    }
    assert!((990..=1010).contains(&served), "{served}");
}

/// Nor does it shift the shares of those who stay, although each stranger leaves with a debt.
#[test]
fn a_stream_of_strangers_leaves_the_shares_of_the_others_alone() {
    let mut all = Backlogged::new(&[10, 1]);
    let stranger = |queue: &mut FairQueue<usize, ()>, name| {
        queue.push_weighted(name, Weight::new(3), Priority::NORMAL, ());
    };
    (2..7).for_each(|name| stranger(&mut all.queue, name));
    let mut served = [0, 0];
    for name in 7..26_007 {
        let (tenant, ()) = all.queue.pop().expect("a backlog");
        match served.get_mut(tenant) {
            Some(count) => {
                *count += 1;
                all.queue.push(tenant, Priority::NORMAL, ());
            }
            None => stranger(&mut all.queue, name),
        }
    }
    // 10 and 1 of 26.
    assert!((9_950..=10_050).contains(&served[0]), "{served:?}");
    assert!((995..=1_005).contains(&served[1]), "{served:?}");
}
