//! Orders that can be written down.

use fairlane::{FairQueue, Priority, Ticket, Weight};

/// A queue in which tenant `A`, `B`, … has `depth` jobs and the weight given.
fn backlog(weights: &[u32], depth: usize) -> FairQueue<char, usize> {
    let mut queue = FairQueue::new();
    for job in 0..depth {
        for (tenant, &weight) in ('A'..).zip(weights) {
            queue.push_weighted(tenant, Weight::new(weight), Priority::NORMAL, job);
        }
    }
    queue
}

fn served(queue: &mut FairQueue<char, usize>, pops: usize) -> String {
    let mut pop = || queue.pop().map(|(tenant, _)| tenant);
    (0..pops).map_while(|_| pop()).collect()
}

fn order(weights: &[u32], pops: usize) -> String {
    served(&mut backlog(weights, pops), pops)
}

fn count(order: &str, tenant: char) -> usize {
    order.chars().filter(|&other| other == tenant).count()
}

#[test]
fn weights_interleave() {
    assert_eq!(order(&[3, 1], 8), "ABAAABAA");
    assert_eq!(order(&[5, 1, 1, 1, 1], 18), "ABACADAEA".repeat(2));
    assert_eq!(order(&[11, 3], 28), "ABAAABAAAABAAA".repeat(2));
    assert_eq!(order(&[1, 1], 6), "ABABAB");
    assert_eq!(order(&[7, 7], 6), "ABABAB");
    assert_eq!(order(&[u32::MAX, u32::MAX], 6), "ABABAB");
    assert_eq!(order(&[1, 1, 1, 1], 8), "ABCDABCD");
}

#[test]
fn three_hundred_beside_four_hundred() {
    let order = order(&[300, 400], 2100);
    for rotation in order.as_bytes().chunks(700) {
        let rotation = std::str::from_utf8(rotation).unwrap();
        assert_eq!((count(rotation, 'A'), count(rotation, 'B')), (300, 400));
    }
}

#[test]
fn a_heavy_tenant_does_not_come_in_bursts() {
    let mut weights = vec![100];
    weights.extend([1; 100]);
    let order: Vec<_> = order(&weights, 400).chars().collect();
    for rotation in order.chunks(200) {
        assert!(
            rotation
                .iter()
                .step_by(2)
                .take(99)
                .all(|&tenant| tenant == 'A')
        );
        assert_eq!(
            rotation.iter().filter(|&&tenant| tenant == 'A').count(),
            100
        );
    }
}

#[test]
fn one_job_waits_behind_one_of_a_thousand() {
    let mut queue = backlog(&[1], 1000);
    queue.push('B', Priority::LOW, 0);
    assert_eq!(served(&mut queue, 4), "ABAA");
}

#[test]
fn equal_tenants_are_served_in_order_of_joining() {
    let mut queue = FairQueue::new();
    let names = || (0..10_000_u32).map(|n| n.wrapping_mul(0x9E37_79B1));
    for name in names() {
        queue.push(name, Priority::NORMAL, ());
    }
    assert!(names().eq(std::iter::from_fn(|| queue.pop()).map(|(name, ())| name)));
}

#[test]
fn a_newcomer_after_a_million_solo_pops_alternates_at_once() {
    let mut queue = FairQueue::new();
    queue.push('A', Priority::NORMAL, 0);
    for n in 0..1_000_000 {
        queue.push('A', Priority::NORMAL, n);
        queue.pop();
    }
    for n in 0..3 {
        queue.push('A', Priority::NORMAL, n);
        queue.push('B', Priority::NORMAL, n);
    }
    assert_eq!(served(&mut queue, 6), "ABABAB");
}

#[test]
fn a_weight_change_holds_for_what_is_queued() {
    let mut queue = backlog(&[1, 1], 1000);
    assert_eq!(served(&mut queue, 4), "ABAB");
    assert!(queue.set_weight(&'B', Weight::new(3)));
    let rotations = served(&mut queue, 40);
    assert_eq!((count(&rotations, 'A'), count(&rotations, 'B')), (10, 30));
    queue.push_weighted('B', Weight::new(1), Priority::NORMAL, 0);
    let rotations = served(&mut queue, 40);
    assert_eq!((count(&rotations, 'A'), count(&rotations, 'B')), (20, 20));
    assert!(!queue.set_weight(&'C', Weight::MAX));
}

/// Without rescaling its debt it would wait for 101 pops.
#[test]
fn a_raised_tenant_does_not_wait_for_its_old_turn() {
    let mut queue = FairQueue::new();
    for n in 0..101 {
        queue.push(n, Priority::NORMAL, ());
        queue.push(n, Priority::NORMAL, ());
    }
    assert_eq!(queue.pop().unwrap().0, 0);
    assert!(queue.set_weight(&0, Weight::MAX));
    let waits = (1..).find(|_| queue.pop().unwrap().0 == 0);
    assert_eq!(waits, Some(2));
}

#[test]
fn a_weight_is_forgotten_with_its_lane() {
    let mut queue = backlog(&[9], 1);
    assert_eq!(served(&mut queue, 1), "A");
    for job in 0..10 {
        queue.push('A', Priority::NORMAL, job);
        queue.push('B', Priority::NORMAL, job);
    }
    assert_eq!(served(&mut queue, 6), "ABABAB");
}

#[test]
fn priority_stays_inside_its_tenant() {
    let mut queue = FairQueue::new();
    for (tenant, priority, job) in [
        ('A', -5, 0),
        ('A', 0, 1),
        ('A', 0, 2),
        ('A', 9, 3),
        ('B', i32::MIN, 4),
        ('B', i32::MAX, 5),
    ] {
        queue.push(tenant, Priority(priority), job);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|(_, job)| job)
        .collect();
    assert_eq!(order, [3, 5, 1, 4, 2, 0]);
}

#[test]
fn equal_priorities_are_first_come_first_served_whatever_is_removed() {
    let mut queue = FairQueue::new();
    let tickets: Vec<Ticket> = (0..30)
        .map(|n| queue.push('A', Priority(n % 3), n))
        .collect();
    for n in [0, 29, 3, 14, 15, 16, 1] {
        assert_eq!(queue.remove(tickets[n as usize]), Some(n));
    }
    let mut expected: Vec<_> = (0..30)
        .filter(|n| ![0, 29, 3, 14, 15, 16, 1].contains(n))
        .collect();
    expected.sort_by_key(|n| (-(n % 3), *n));
    let order: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|(_, job)| job)
        .collect();
    assert_eq!(order, expected);
}

#[test]
fn a_held_lane_is_passed_over_and_gets_no_credit() {
    let mut queue = backlog(&[1, 1, 1], 100);
    assert!(queue.hold(&'B') && queue.hold(&'B'));
    assert_eq!(served(&mut queue, 10), "ACACACACAC");
    assert_eq!((queue.len(), queue.lanes()), (290, 3));
    assert!(queue.release(&'B') && queue.release(&'B') && queue.release(&'A'));
    let rotation = served(&mut queue, 3);
    assert_eq!(
        (count(&rotation, 'A'), count(&rotation, 'B')),
        (1, 1),
        "{rotation}"
    );
    assert!(!queue.hold(&'X') && !queue.release(&'X'));
}

#[test]
fn held_in_debt_and_released_it_waits_for_its_turn() {
    let mut queue = backlog(&[1, 1, 1, 1], 10);
    assert_eq!(served(&mut queue, 1), "A");
    assert!(queue.hold(&'A') && queue.release(&'A'));
    assert_eq!(served(&mut queue, 4), "BCDA");
}

#[test]
fn a_held_debt_outlives_an_otherwise_empty_queue() {
    let mut queue = backlog(&[1], 3);
    assert_eq!(served(&mut queue, 2), "AA");
    queue.hold(&'A');
    for n in 0..100 {
        queue.push('B', Priority::NORMAL, n);
        assert_eq!(queue.pop(), Some(('B', n)));
    }
    assert_eq!((queue.pop(), queue.len()), (None, 1));
    queue.release(&'A');
    for n in 0..3 {
        queue.push('B', Priority::NORMAL, n);
    }
    assert_eq!(served(&mut queue, 3), "ABB");
}

#[test]
fn a_hold_ends_with_its_lane() {
    let mut queue = FairQueue::new();
    let ticket = queue.push('A', Priority::NORMAL, 0);
    queue.hold(&'A');
    assert_eq!(queue.remove(ticket), Some(0));
    assert_eq!(queue.lanes(), 0);
    queue.push('A', Priority::NORMAL, 1);
    assert_eq!(queue.pop(), Some(('A', 1)));
}

/// A weight toggled at each pop: the others still have their turn within a rotation, and the pops
/// end. Then the same with the weight of everyone.
#[test]
fn extreme_weights_toggled_at_each_pop_serve_everyone() {
    for toggled in ["A", "ABCD"] {
        let mut queue = backlog(&[1, 1, 1, 1], 500);
        let mut order = String::new();
        for n in 0..800 {
            for tenant in toggled.chars() {
                let weight = if n % 2 == 0 { Weight::MAX } else { Weight::MIN };
                queue.set_weight(&tenant, weight);
            }
            order += &served(&mut queue, 1);
        }
        for window in order.as_bytes().windows(8) {
            assert!(
                b"ABCD".iter().all(|tenant| window.contains(tenant)),
                "{order}"
            );
        }
    }
}

#[test]
fn the_lightest_beside_the_heaviest() {
    let mut queue = backlog(&[1, u32::MAX], 5000);
    let order = served(&mut queue, 10_000);
    assert_eq!(count(&order, 'A'), 5000);
    assert_eq!(count(&order[..5001], 'A'), 1, "one turn in 2^32");
}

/// Of the three that come after, two overtake. By cost the lane opens again before what it has run is
/// settled, and counts from there.
#[test]
fn a_lane_with_ageing_counts_arrivals_from_its_first_job() {
    for mut queue in [FairQueue::with_ageing(1), FairQueue::by_cost_with_ageing(1)] {
        for _ in 0..3 {
            queue.push('A', Priority(0), "low");
            for job in ["1st", "2nd", "3rd"] {
                queue.push('A', Priority(3), job);
            }
            let order = std::iter::from_fn(|| Some(queue.pop()?.1));
            assert!(order.eq(["1st", "2nd", "low", "3rd"]));
        }
    }
}
