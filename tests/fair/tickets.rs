//! A ticket finds its own job or nothing.

use crate::ops::config;
use fairlane::{FairQueue, Priority, Ticket, Weight};
use proptest::prelude::*;
use std::collections::HashSet;

proptest! {
    #![proptest_config(config(500))]

    /// All tickets ever given out, tried on both queues after every step.
    #[test]
    fn stale_and_foreign_tickets_find_nothing(
        ops in prop::collection::vec((0..6_u8, 0..4_u32, any::<usize>()), 1..60),
    ) {
        let mut queue = FairQueue::new();
        let mut other = FairQueue::new();
        let mut tickets: Vec<(Ticket, bool)> = Vec::new();
        for (op, tenant, pick) in ops {
            match op {
                0..=2 => {
                    let n = tickets.len();
                    tickets.push((queue.push(tenant, Priority(0), n), true));
                    other.push(tenant, Priority(0), n);
                }
                3 | 4 => if let Some((_, n)) = queue.pop() {
                    tickets[n].1 = false;
                },
                _ => if let Some(n) = pick.checked_rem(tickets.len()) {
                    let (ticket, there) = tickets[n];
                    prop_assert_eq!(queue.remove(ticket), there.then_some(n));
                    tickets[n].1 = false;
                },
            }
            for &(ticket, there) in &tickets {
                if !there {
                    prop_assert_eq!(queue.remove(ticket), None);
                }
                prop_assert_eq!(other.remove(ticket), None);
            }
        }
        let unique: HashSet<_> = tickets.iter().map(|(ticket, _)| *ticket).collect();
        prop_assert_eq!(unique.len(), tickets.len());
        let there: Vec<_> = tickets.iter().filter(|(_, there)| *there).collect();
        prop_assert_eq!(there.len(), queue.len());
    }
}

/// The same slot, over and over: the tickets of all earlier jobs stay dead.
#[test]
fn a_slot_used_again_does_not_answer_to_its_old_ticket() {
    let mut queue = FairQueue::new();
    let mut old = Vec::new();
    for n in 0..2000 {
        let ticket = queue.push(n % 3, Priority(n % 2), n);
        assert!(old.iter().all(|&ticket| queue.remove(ticket).is_none()));
        assert_eq!(queue.len(), 1);
        if n % 2 == 0 {
            assert_eq!(queue.remove(ticket), Some(n));
        } else {
            assert_eq!(queue.pop(), Some((n % 3, n)));
        }
        old.push(ticket);
    }
}

/// Lanes that close and open in turn, with other jobs coming in between, and slots that move from
/// one lane to the other.
#[test]
fn lanes_that_reopen_give_new_tickets() {
    let mut queue = FairQueue::new();
    let mut seen = HashSet::new();
    for round in 0..200_usize {
        let many = round % 7 + 1;
        let tickets: Vec<_> = (0..many)
            .map(|n| queue.push(n % (round % 3 + 1), Priority::NORMAL, n))
            .collect();
        assert!(tickets.iter().all(|&ticket| seen.insert(ticket)));
        for (n, &ticket) in tickets.iter().enumerate().rev() {
            assert_eq!(queue.remove(ticket), Some(n));
        }
        assert!(queue.is_empty());
    }
}

#[test]
fn everything_is_plain_data() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<FairQueue<String, Vec<u8>>>();
    is_send_and_sync::<Ticket>();
    fn is_send<T: Send>() {}
    is_send::<FairQueue<String, std::cell::Cell<u8>>>();
    let mut queue = FairQueue::<&str, u8>::default();
    let ticket = queue.push_weighted("a", Weight::new(2), Priority::HIGH, 1);
    assert_eq!(format!("{queue:?}"), "FairQueue { len: 1, lanes: 1, .. }");
    assert!(format!("{ticket:?}").starts_with("Ticket { "));
    assert_eq!(format!("{:?}", queue.drain()), "Drain { len: 1, .. }");
}

#[test]
#[should_panic(expected = "a weight must be at least 1")]
fn a_weight_of_zero_panics() {
    let _ = Weight::new(0);
}

#[test]
fn weights_and_priorities_convert() {
    assert_eq!(Weight::try_from(u32::MAX), Ok(Weight::MAX));
    assert!(Weight::try_from(0).is_err());
    let seven = std::num::NonZeroU32::new(7).unwrap();
    assert_eq!(Weight::from(seven), Weight::new(7));
    assert_eq!(std::num::NonZeroU32::from(Weight::new(7)), seven);
    assert_eq!(Weight::default(), Weight::MIN);
    assert_eq!(u32::from(Weight::new(7)), 7);
    assert!(Weight::new(2) < Weight::new(10));
    let named = [Priority::LOW, Priority::NORMAL, Priority::HIGH];
    assert_eq!(
        named,
        [Priority::from(-10), Priority::default(), Priority(10)]
    );
    assert_eq!(
        format!("{} {:?} {}", Priority::LOW, Priority(3), Weight::new(7)),
        "-10 Priority(3) 7"
    );
    assert_eq!("7".parse(), Ok(Weight::new(7)));
    assert!("0".parse::<Weight>().is_err());
    assert_eq!("7".parse(), Ok(Priority(7)));
    assert_eq!("-10".parse(), Ok(Priority::LOW));
    assert!("high".parse::<Priority>().is_err());
}
