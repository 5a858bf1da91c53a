//! Virtual time in exact integers: start tags, deadlines, and the clock they are read against.
//!
//! A lane of weight `w` is due one job each `1/w` of virtual time. Times are counted in *ticks*, of
//! which a unit has [`UNIT`]: a multiple of every number up to 52, so `1/w` is whole for small
//! weights, and for the others a tag carries its remainder over `w`. A start tag is therefore an
//! exact sum, however long a lane lives.
//!
//! Rejected: fixed point with 64 fractional bits (an exact tie `start = now` comes out as "not yet"
//! by rounding, and the order departs from the rule hundreds of times in a random trace); floats
//! (the same, and worse the longer the clock runs); an integer `1000 / w` (wrong shares at once).

use std::cmp::Ordering;

/// Ticks in one unit of virtual time: lcm(1..=52).
///
/// A tag counts units up to 2^56, which a lone lane of weight 1 reaches after 2^56 pops without
/// the queue once running empty: decades.
pub(super) const UNIT: u128 = 3_099_044_504_245_996_706_400;

/// `1/w` of a unit: whole ticks, and a remainder over `w`.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) ticks: u128,
    pub(super) rest: u64,
}

impl Step {
    pub(super) fn of(weight: u64) -> Step {
        let weight = u128::from(weight);
        Step {
            ticks: UNIT / weight,
            rest: (UNIT % weight) as u64,
        }
    }
}

/// Quotient, rounded down, and remainder. Where 64 bits do, as they nearly always do, it takes a
/// fraction of the time.
pub(super) fn div_floor(a: i128, b: u64) -> (i128, u64) {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) => (a.div_euclid(b).into(), a.rem_euclid(b) as u64),
        _ => {
            let b = i128::from(b);
            (a.div_euclid(b), a.rem_euclid(b) as u64)
        }
    }
}

/// A point in virtual time: `ticks + rest/w`, with `rest < w` and `w` known from the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag {
    pub(super) ticks: u128,
    pub(super) rest: u32,
}

impl Tag {
    pub(super) fn whole(ticks: u128) -> Tag {
        Tag { ticks, rest: 0 }
    }

    /// The first whole tick at or after the tag. Since the clock shows whole ticks, `tag ≤ now` is
    /// `tag.ceil() ≤ now`.
    pub(super) fn ceil(self) -> u128 {
        self.ticks + u128::from(self.rest > 0)
    }

    /// The tag one job of weight `w` later; `step` is `1/w`.
    pub(super) fn plus(self, step: Step, weight: u32) -> Tag {
        let rest = u64::from(self.rest) + step.rest;
        let carry = rest >= u64::from(weight);
        Tag {
            ticks: self.ticks + step.ticks + u128::from(carry),
            rest: (rest - if carry { u64::from(weight) } else { 0 }) as u32,
        }
    }

    /// The tag moved by so many ticks of work at weight `w`, forwards or backwards: exactly.
    pub(super) fn moved(self, work: i128, weight: u32) -> Tag {
        let (ticks, rest) = div_floor(i128::from(self.rest) + work, weight.into());
        Tag {
            ticks: self.ticks.wrapping_add_signed(ticks),
            rest: rest as u32,
        }
    }

    /// The tag of a lane whose weight changes from `old` to `new`, at `now`.
    ///
    /// A debt, `tag − now`, was run up in jobs: `(tag − now) · old` of them, an integer of
    /// remainders, which the new weight pays off at its own pace. A tag that is not ahead of the
    /// clock stays, and the cut of its remainder to the new weight rounds down so that it stays so.
    pub(super) fn reweighed(self, now: u128, old: u32, new: u32) -> Tag {
        let (old, new) = (u128::from(old), u128::from(new));
        if self.ceil() <= now {
            let rest = u128::from(self.rest) * new / old;
            return Tag {
                rest: rest as u32,
                ..self
            };
        }
        let debt = (self.ticks - now) * old + u128::from(self.rest);
        Tag {
            ticks: now + debt / new,
            rest: (debt % new) as u32,
        }
    }
}

/// What is served first: the least deadline, then the longest unserved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) ticks: u128,
    pub(super) rest: u32,
    pub(super) weight: u32,
    /// Unique, so keys are never equal.
    pub(super) seq: u64,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        let by_rest = || {
            // a/v against b/w, multiplied out.
            let ours = u64::from(self.rest) * u64::from(other.weight);
            ours.cmp(&(u64::from(other.rest) * u64::from(self.weight)))
        };
        self.ticks
            .cmp(&other.ticks)
            .then_with(by_rest)
            .then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Virtual time, `V`: it advances by `1/W` a pop, `W` being the sum of the live weights.
///
/// While `W` stays the same the clock is exact, as it carries its remainder over `W`. It shows that
/// time rounded up to whole ticks, and when `W` changes the rounded time becomes the exact one: up,
/// so that whoever was eligible remains so, and by less than a tick a change.
pub(super) struct Clock {
    ticks: u128,
    rest: u64,
    total: u64,
    /// `1/W`, once it has been asked for.
    step: Option<Step>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            ticks: 0,
            rest: 0,
            total: 0,
            step: None,
        }
    }

    pub(super) fn now(&self) -> u128 {
        self.ticks + u128::from(self.rest > 0)
    }

    /// Adds a live lane. At most 2^32 weights below 2^32 are added: no overflow.
    pub(super) fn enrol(&mut self, weight: u32) {
        self.round_up();
        self.total += u64::from(weight);
    }

    /// Takes a live lane out.
    pub(super) fn dismiss(&mut self, weight: u32) {
        self.round_up();
        self.total -= u64::from(weight);
    }

    fn round_up(&mut self) {
        (self.ticks, self.rest, self.step) = (self.now(), 0, None);
    }

    /// `V ← max(V, now)`.
    pub(super) fn raise_to(&mut self, now: u128) {
        if now > self.now() {
            (self.ticks, self.rest) = (now, 0);
        }
    }

    /// `V ← V + 1/W`. There must be a live lane.
    pub(super) fn advance(&mut self) {
        let total = self.total;
        let step = *self.step.get_or_insert_with(|| Step::of(total));
        self.ticks += step.ticks;
        if self.rest >= total - step.rest {
            self.rest -= total - step.rest;
            self.ticks += 1;
        } else {
            self.rest += step.rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unit_is_whole_for_every_weight_up_to_52() {
        assert!((1..=52).all(|w| Step::of(w).rest == 0));
        assert_ne!(Step::of(53).rest, 0);
    }

    #[test]
    fn keys_sort_by_exact_deadline_and_then_by_seq() {
        let key = |ticks, rest, weight, seq| Key {
            ticks,
            rest,
            weight,
            seq,
        };
        let sorted = [
            key(4, 6, 7, 9),
            key(5, 0, 1, 8),
            key(5, 1, 3, 7),
            key(5, 1, 2, 4),
            key(5, 2, 4, 5),
            key(5, 2, 3, 3),
            key(5, u32::MAX - 1, u32::MAX, 2),
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(one.cmp(other), at.cmp(&other_at));
                assert_eq!(one == other, at == other_at);
            }
        }
    }

    #[test]
    fn a_clock_is_raised_to_a_later_time_alone() {
        let mut clock = Clock::new();
        clock.enrol(53);
        for n in 1..=53 {
            clock.advance();
            clock.raise_to(0);
            clock.raise_to(clock.now());
            // As exact as if nobody had touched it.
            assert_eq!(clock.now(), (UNIT * n).div_ceil(53));
        }
        clock.raise_to(5 * UNIT);
        assert_eq!(clock.now(), 5 * UNIT);
    }

    #[test]
    fn the_ceiling_is_the_first_whole_tick_not_before_the_tag() {
        let ceil = |rest| Tag { ticks: 5, rest }.ceil();
        assert_eq!([0, 1, u32::MAX].map(ceil), [5, 6, 6]);
    }

    proptest! {
        #[test]
        fn a_quotient_is_rounded_down(
            a in prop_oneof![any::<i64>().prop_map(i128::from), -1_i128 << 120..1 << 120],
            b in prop_oneof![1..100_u64, 1..=u64::MAX],
        ) {
            let (quotient, rest) = div_floor(a, b);
            prop_assert!(rest < b);
            prop_assert_eq!(quotient * i128::from(b) + i128::from(rest), a);
        }

        #[test]
        fn w_steps_are_one_unit(weight in 1..5000_u32, rest in any::<u32>(), ticks in 0..u64::MAX) {
            let tag = Tag { ticks: ticks.into(), rest: rest % weight };
            let step = Step::of(weight.into());
            let after = (0..weight).fold(tag, |tag, _| tag.plus(step, weight));
            prop_assert_eq!(after, Tag { ticks: tag.ticks + UNIT, rest: tag.rest });
        }

        #[test]
        fn the_clock_is_exact_while_the_total_stays(total in 1..5000_u64) {
            let mut clock = Clock::new();
            (0..total).for_each(|_| clock.enrol(1));
            for n in 1..=total {
                clock.advance();
                prop_assert_eq!(clock.now(), (UNIT * u128::from(n)).div_ceil(total.into()));
            }
        }

        /// To within the grain of its new weight, and never ahead of where it was.
        #[test]
        fn a_tag_that_owes_nothing_keeps_its_place(
            old in 1..u32::MAX, new in 1..u32::MAX, share in any::<u32>(),
        ) {
            let tag = Tag { ticks: 5, rest: share % old };
            let moved = tag.reweighed(6, old, new);
            prop_assert_eq!(moved.ticks, tag.ticks);
            let in_parts = |rest: u32, of: u32| u128::from(rest) * u128::from(of);
            let (was, is) = (in_parts(tag.rest, new), in_parts(moved.rest, old));
            prop_assert!(is <= was && was < is + u128::from(old));
        }

        #[test]
        fn a_debt_survives_the_way_there_and_back(
            old in 1..u32::MAX, new in 1..u32::MAX, now in any::<u64>(), share in any::<u32>(),
        ) {
            let now = u128::from(now);
            let debt = UNIT * u128::from(share) / u128::from(u32::MAX) + 1;
            let tag = Tag { ticks: now + debt / u128::from(old), rest: (debt % u128::from(old)) as u32 };
            prop_assert_eq!(tag.reweighed(now, old, new).reweighed(now, new, old), tag);
        }

        #[test]
        fn a_total_near_the_end_of_u64_does_not_wrap(less in 0..1000_u64, pops in 1..50_u128) {
            let mut clock = Clock::new();
            clock.total = u64::MAX - less;
            (0..pops).for_each(|_| clock.advance());
            prop_assert_eq!(clock.now(), (UNIT * pops).div_ceil(clock.total.into()));
        }
    }
}
