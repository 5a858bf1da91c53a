//! Jain's index: how evenly served jobs are spread over backlogged tenants, each against its weight.

use fairlane::{FairQueue, Priority, Weight};

/// (Σx)² / (n Σx²): 1 if all are equal, 1/n if one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Serves `tenants` with a backlog each until the first one runs out, and looks whenever each should
/// have had as many jobs as its weight says, and a whole multiple of that.
fn least_index(tenants: usize, backlog: usize, weight: impl Fn(usize) -> u32) -> f64 {
    let mut queue = FairQueue::new();
    for job in 0..backlog {
        for tenant in 0..tenants {
            let weight = Weight::new(weight(tenant));
            queue.push_weighted(tenant, weight, Priority::NORMAL, job);
        }
    }
    let rotation: usize = (0..tenants).map(|tenant| weight(tenant) as usize).sum();
    let heaviest = (0..tenants).map(&weight).max().expect("a tenant") as usize;
    let mut served = vec![0.0; tenants];
    let mut least: f64 = 1.0;
    for _ in 0..backlog / heaviest {
        for _ in 0..rotation {
            let (tenant, _) = queue.pop().expect("a backlog");
            served[tenant] += 1.0 / f64::from(weight(tenant));
        }
        least = least.min(jain(&served));
    }
    least
}

/// Fewer jobs where each of them is slow.
fn most_jobs() -> usize {
    if cfg!(debug_assertions) {
        300_000
    } else {
        10_000_000
    }
}

#[test]
fn the_index_tells_even_from_uneven() {
    assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
    assert_eq!(jain(&[1.0, 0.0]), 0.5);
}

#[test]
fn backlogged_tenants_get_the_same() {
    for tenants in [2, 10, 1_000] {
        for backlog in [1, 10, 100, 1_000, 10_000] {
            if tenants * backlog <= most_jobs() {
                let index = least_index(tenants, backlog, |_| 1);
                assert!(
                    index > 1.0 - 1e-9,
                    "{tenants} tenants, {backlog} jobs: {index}"
                );
            }
        }
    }
}

#[test]
fn and_in_proportion_to_their_weights() {
    for tenants in [2, 10, 1_000] {
        for backlog in [7, 70, 700] {
            if tenants * backlog <= most_jobs() {
                let index = least_index(tenants, backlog, |tenant| tenant as u32 % 7 + 1);
                assert!(
                    index > 1.0 - 1e-9,
                    "{tenants} tenants, {backlog} jobs: {index}"
                );
            }
        }
    }
}
