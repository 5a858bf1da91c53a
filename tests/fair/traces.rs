//! Random traces against the oracle and against themselves.

use crate::ops::{Op, Runner, Seen, config, crowd, exact_trace, other_trace, trace};
use crate::oracle::Oracle;
use fairlane::{FairQueue, Priority, Weight};
use proptest::prelude::*;

/// The same trace on both; every answer must be the same, but for ties to within so many grains.
pub(crate) fn follows_the_oracle(trace: &[Op], grains: u32) -> Result<(), TestCaseError> {
    let mut runner = Runner::new(|t| t, 1);
    let mut oracle = Oracle::new(None);
    let mut left = 0;
    for &op in trace {
        let job = runner.tickets.len() as u64;
        let removed = |n: usize| (n as u64).checked_rem(job);
        let seen = runner.apply(op);
        let expected = match op {
            Op::Push(t, p) => {
                oracle.push(t, None, p, job);
                Seen::Pushed
            }
            Op::PushWeighted(t, w, p) => {
                oracle.push(t, Some(w), p, job);
                Seen::Pushed
            }
            Op::Pop => Seen::Popped(oracle.pop_near(seen.tenant(), grains)),
            Op::Remove(n) => Seen::Removed(removed(n).filter(|&job| oracle.remove(job))),
            Op::SetWeight(t, w) => Seen::Found(oracle.set_weight(t, w)),
            Op::Hold(t) => Seen::Found(oracle.hold(t)),
            Op::Release(t) => Seen::Found(oracle.release(t)),
        };
        prop_assert_eq!(seen, expected.clone());
        left += usize::from(matches!(
            expected,
            Seen::Popped(Some(_)) | Seen::Removed(Some(_))
        ));
        prop_assert_eq!(runner.queue.len(), oracle.len());
        prop_assert_eq!(runner.queue.len() + left, runner.tickets.len());
        prop_assert_eq!(runner.queue.lanes(), oracle.tenants.len());
        prop_assert_eq!(runner.queue.is_empty(), oracle.len() == 0);
    }
    for tenant in 0..32 {
        oracle.release(tenant);
    }
    for (tenant, job) in runner.finish() {
        prop_assert_eq!(oracle.pop_near(Some(tenant), grains), Some((tenant, job)));
    }
    prop_assert_eq!(oracle.len(), 0);
    prop_assert_eq!((runner.queue.len(), runner.queue.lanes()), (0, 0));
    Ok(())
}

/// By how many grains a trace's tags may be off: a rounding is scaled with a debt when a weight falls.
pub(crate) fn rounding(trace: &[Op]) -> u32 {
    let weights = trace.iter().map(|op| match op {
        Op::PushWeighted(_, w, _) | Op::SetWeight(_, w) => *w,
        _ => 1,
    });
    weights.max().unwrap_or(1)
}

/// Everything a trace showed, the rest of the queue included.
fn all_seen<K>(name: fn(u32) -> K, scale: u32, trace: &[Op]) -> Vec<Seen<K>>
where
    K: Clone + Eq + std::hash::Hash,
{
    let mut runner = Runner::new(name, scale);
    let mut seen: Vec<_> = trace.iter().map(|&op| runner.apply(op)).collect();
    let rest = runner.finish().into_iter();
    seen.extend(rest.map(|popped| Seen::Popped(Some(popped))));
    seen
}

fn renamed(t: u32) -> String {
    format!("{}-{t}", t.wrapping_mul(0x9E37_79B9) % 97)
}

/// Inside a lane both rules have the same order.
fn ageing<K, T>(boost: u32, by_cost: bool) -> FairQueue<K, T> {
    if by_cost {
        FairQueue::by_cost_with_ageing(boost)
    } else {
        FairQueue::with_ageing(boost)
    }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn the_order_is_the_oracles(trace in exact_trace(80)) {
        follows_the_oracle(&trace, 0)?;
    }

    #[test]
    fn the_order_is_the_oracles_for_any_weights(trace in other_trace(50)) {
        follows_the_oracle(&trace, rounding(&trace))?;
    }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn the_same_trace_gives_the_same_order(trace in trace(150)) {
        prop_assert_eq!(all_seen(|t| t, 1, &trace), all_seen(|t| t, 1, &trace));
    }

    #[test]
    fn names_do_not_matter(trace in trace(150)) {
        let plain = all_seen(|t| t, 1, &trace);
        let other = all_seen(renamed, 1, &trace);
        for (plain, other) in plain.iter().zip(&other) {
            match (plain, other) {
                (Seen::Popped(Some((t, job))), Seen::Popped(Some(found))) => {
                    prop_assert_eq!(&(renamed(*t), *job), found);
                }
                _ => prop_assert_eq!(format!("{plain:?}"), format!("{other:?}")),
            }
        }
        prop_assert_eq!(plain.len(), other.len());
    }

    /// All weights must be set, as the default does not scale; and their sum must stay below 53.
    #[test]
    fn scaling_all_weights_changes_nothing(trace in exact_trace(150), scale in 2..5_u32) {
        let small: Vec<_> = trace.into_iter().map(|op| match op {
            Op::Push(t, p) => Op::PushWeighted(t % 4, 1, p),
            Op::PushWeighted(t, w, p) => Op::PushWeighted(t % 4, w % 3 + 1, p),
            Op::SetWeight(t, w) => Op::SetWeight(t % 4, w % 3 + 1),
            other => other,
        }).collect();
        prop_assert_eq!(all_seen(|t| t, 1, &small), all_seen(|t| t, scale, &small));
    }

    /// A job that comes to a lane that is live anyway, and leaves again, was never there.
    #[test]
    fn push_and_remove_leave_no_trace(trace in trace(150), every in 1..5_usize, priority in -3..3) {
        let mut plain = Runner::new(|t| t, 1);
        let mut other = Runner::new(|t| t, 1);
        let mut queued = std::collections::HashMap::<u64, u32>::new();
        for (n, &op) in trace.iter().enumerate() {
            let seen = plain.apply(op);
            prop_assert_eq!(other.apply(op), seen.clone());
            match (op, seen) {
                (Op::Push(t, _) | Op::PushWeighted(t, ..), _) => {
                    queued.insert(plain.tickets.len() as u64 - 1, t);
                }
                (_, Seen::Popped(Some((_, job))) | Seen::Removed(Some(job))) => {
                    queued.remove(&job);
                }
                _ => {}
            }
            if n % every == 0 {
                for tenant in queued.values().copied().collect::<std::collections::BTreeSet<_>>() {
                    let ticket = other.queue.push(tenant, Priority(priority), 999);
                    prop_assert_eq!(other.queue.remove(ticket), Some(999));
                }
            }
        }
        prop_assert_eq!(plain.finish(), other.finish());
    }

    /// One tenant alone, whatever its weight does, is one priority queue.
    #[test]
    fn one_tenant_is_a_priority_queue(trace in trace(200), wide in any::<bool>()) {
        let spread = |p: i32| if wide { p.wrapping_mul(77_777_777) } else { p };
        let alone: Vec<_> = trace.iter().map(|&op| match op {
            Op::Push(t, p) => Op::Push(0, spread(p + t as i32 * 7)),
            Op::PushWeighted(t, w, p) => Op::PushWeighted(0, w, spread(p + t as i32 * 7)),
            Op::SetWeight(_, w) => Op::SetWeight(0, w),
            Op::Hold(_) | Op::Release(_) => Op::Pop,
            other => other,
        }).collect();
        let mut runner = Runner::new(|t| t, 1);
        let mut model = std::collections::BTreeMap::new();
        for op in alone {
            let job = runner.tickets.len() as u64;
            if let Op::Push(_, p) | Op::PushWeighted(_, _, p) = op {
                model.insert((std::cmp::Reverse(p), job), job);
            }
            match runner.apply(op) {
                Seen::Popped(popped) => {
                    let expected = model.pop_first().map(|(_, job)| (0, job));
                    prop_assert_eq!(popped, expected);
                }
                Seen::Removed(Some(gone)) => {
                    let before = model.len();
                    model.retain(|_, job| *job != gone);
                    prop_assert_eq!(before, model.len() + 1);
                }
                _ => {}
            }
            prop_assert_eq!(runner.queue.len(), model.len());
        }
        let expected: Vec<_> = model.into_values().map(|job| (0, job)).collect();
        prop_assert_eq!(runner.finish(), expected);
    }

    /// With ageing, one tenant alone is served by arrival less boost times priority.
    #[test]
    fn ageing_orders_by_the_static_key(
        ops in prop::collection::vec((0..5_u8, -40..40_i32, any::<usize>()), 1..300),
        boost in prop::sample::select(vec![0, 1, 2, 5, 1000, u32::MAX]),
        few in any::<bool>(),
        by_cost in any::<bool>(),
    ) {
        let mut queue = ageing(boost, by_cost);
        let mut oracle = Oracle::new(Some(boost));
        let mut tickets = Vec::new();
        for (op, priority, pick) in ops {
            let priority = if few { priority % 3 } else { priority };
            match op {
                0..=2 => {
                    let job = tickets.len() as u64;
                    tickets.push(queue.push(7_u32, Priority(priority), job));
                    oracle.push(7, None, priority, job);
                }
                3 => prop_assert_eq!(queue.pop(), oracle.pop()),
                _ => if let Some(at) = pick.checked_rem(tickets.len()) {
                    let removed = queue.remove(tickets[at]);
                    prop_assert_eq!(removed.is_some(), oracle.remove(at as u64));
                },
            }
        }
        let expected: Vec<_> = std::iter::from_fn(|| oracle.pop()).collect();
        prop_assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), expected);
    }

    /// What the ageing promises, rather than how it is computed.
    #[test]
    fn ageing_bounds_the_overtaking(
        priorities in prop::collection::vec(-5..5_i32, 1..200), boost in 0..20_u32,
        others in 0..3_u32, by_cost in any::<bool>(),
    ) {
        let mut queue = ageing(boost, by_cost);
        for (n, &priority) in priorities.iter().enumerate() {
            queue.push(0, Priority(priority), n);
            // Other lanes' arrivals do not count.
            for tenant in 1..=others {
                queue.push(tenant, Priority(0), 0);
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .filter_map(|(tenant, n)| (tenant == 0).then_some(n))
            .collect();
        prop_assert_eq!(order.len(), priorities.len());
        for (at, &n) in order.iter().enumerate() {
            for &ahead in order[..at].iter().filter(|&&ahead| ahead > n) {
                let steps = priorities[ahead] - priorities[n];
                prop_assert!(steps > 0, "{} overtook {}", ahead, n);
                prop_assert!(ahead - n <= boost as usize * steps as usize);
            }
            for &behind in &order[at + 1..] {
                // Nor does it overtake less than it may.
                let steps = i64::from(priorities[behind] - priorities[n]);
                prop_assert!(behind as i64 - n as i64 >= i64::from(boost) * steps);
            }
        }
    }

    /// `drain` gives back everything that is left, each lane in its own order.
    #[test]
    fn drain_takes_everything(trace in trace(150), ageing in any::<bool>(), taken in 0..40_usize) {
        let mut runner = Runner::new(|t| t, 1);
        if ageing {
            runner.queue = FairQueue::with_ageing(3);
        }
        for &op in &trace {
            runner.apply(op);
        }
        let (len, lanes) = (runner.queue.len(), runner.queue.lanes());
        let mut drain = runner.queue.drain();
        prop_assert_eq!(drain.len(), len);
        let drained: Vec<_> = drain.by_ref().take(taken).collect();
        prop_assert_eq!(drain.len(), len - drained.len());
        prop_assert_eq!((runner.queue.len(), runner.queue.lanes(), runner.queue.pop()), (0, 0, None));
        let names: std::collections::BTreeSet<_> =
            drained.iter().copied().chain(drain).map(|(t, _)| t).collect();
        prop_assert_eq!(names.len(), lanes);
        // Tickets of what was drained are stale, and the queue begins anew.
        let stale = runner.tickets.clone();
        runner.queue.push_weighted(1, Weight::new(2), Priority(0), 5);
        prop_assert!(stale.into_iter().all(|ticket| runner.queue.remove(ticket).is_none()));
        prop_assert_eq!(runner.queue.pop(), Some((1, 5)));
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn the_order_is_the_oracles_in_a_crowd(trace in crowd(400)) {
        follows_the_oracle(&trace, 0)?;
    }
}

/// A lane that was late finds those of its weight ahead of it when it comes back, and goes solo; its
/// old run must not stay on the agenda in its name.
#[test]
fn a_lane_that_comes_back_late_leaves_its_run() {
    let heavy = |tenant| Op::PushWeighted(tenant, 7, 0);
    let light = |tenant| Op::Push(tenant, 0);
    let (first, then) = ([light(0); 3], [light(0); 3]);
    let mut trace = first.to_vec();
    trace.extend([heavy(4), heavy(4), heavy(2), heavy(0), Op::Pop, Op::Pop]);
    trace.extend(then);
    trace.extend([heavy(0), light(2), light(1), light(0), Op::Pop]);
    trace.extend([light(5), Op::Pop, Op::Pop, heavy(5)]);
    follows_the_oracle(&trace, 0).unwrap();
}

/// With weights that differ by 2^32 an exact tie came out as not eligible.
#[test]
fn a_tie_may_fall_to_either_side_of_eligibility() {
    const HEAVY: u32 = u32::MAX;
    let trace = [
        Op::Push(0, 0),
        Op::Push(0, 0),
        Op::PushWeighted(2, 1, 0),
        Op::Remove(3200320046471816202),
        Op::PushWeighted(0, HEAVY, 0),
        Op::Push(1, 0),
        Op::Push(0, 0),
        Op::PushWeighted(1, HEAVY, 0),
        Op::PushWeighted(2, 1, 0),
        Op::Pop,
        Op::Pop,
        Op::Pop,
        Op::Push(0, 0),
        Op::Push(0, 0),
        Op::PushWeighted(1, 2, 0),
        Op::PushWeighted(2, HEAVY - 1, 0),
        Op::PushWeighted(0, HEAVY - 1, 0),
        Op::Pop,
        Op::PushWeighted(2, 1, 0),
    ];
    follows_the_oracle(&trace, HEAVY).unwrap();
}
