//! Which slot gets the next job: a pure function over a projection of the slots.

use std::fmt;
use std::str::FromStr;

/// How the pool chooses the slot for a job.
///
/// ```
/// use fairlane::Strategy;
/// let strategy: Strategy = "round-robin".parse()?;
/// assert_eq!(strategy.to_string(), "round-robin");
/// assert_eq!(Strategy::default(), Strategy::LeastBusy);
/// # Ok::<(), fairlane::ParseStrategyError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Slots take turns, whatever they are doing. The cheapest choice: it reads no counts. For what jobs
    /// submit, each thread of the pool goes round by itself.
    RoundRobin,
    /// The slot with the fewest pending jobs; the lowest index among equals. It reads the counts of
    /// slots until it meets one with nothing pending.
    #[default]
    LeastBusy,
}

impl Strategy {
    const NAMES: [(Strategy, &'static str); 2] = [
        (Strategy::RoundRobin, "round-robin"),
        (Strategy::LeastBusy, "least-busy"),
    ];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(s, _)| s == self);
        f.pad(name.map_or("?", |(_, name)| name))
    }
}

impl FromStr for Strategy {
    type Err = ParseStrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found
            .map(|(strategy, _)| *strategy)
            .ok_or_else(|| ParseStrategyError(text.to_owned()))
    }
}

/// The text names no [`Strategy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseStrategyError(String);

impl fmt::Display for ParseStrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown strategy {:?}: expected \"round-robin\" or \"least-busy\"",
            self.0
        )
    }
}

impl std::error::Error for ParseStrategyError {}

/// What [`pick_slot`] needs to know of a slot.
///
/// ```
/// use fairlane::{SlotLoad, Strategy, pick_slot};
///
/// struct Host {
///     connections: usize,
/// }
///
/// impl SlotLoad for Host {
///     fn pending_count(&self) -> usize {
///         self.connections
///     }
/// }
///
/// let hosts = [3, 1].map(|connections| Host { connections });
/// assert_eq!(pick_slot(Strategy::LeastBusy, &hosts, 0).unwrap().index, 1);
/// ```
pub trait SlotLoad {
    /// Jobs queued on the slot plus those it is running.
    fn pending_count(&self) -> usize;
}

/// Implements [`SlotLoad`] for a pointer to something that is.
macro_rules! load_through {
    ($($pointer:ty),+ $(,)?) => {$(
        impl<S: SlotLoad + ?Sized> SlotLoad for $pointer {
            fn pending_count(&self) -> usize {
                (**self).pending_count()
            }
        }
    )+};
}

// `&mut` and `Box` as well: others may implement a trait for such pointers to their own types, so an
// implementation for all of them could not come later.
load_through!(&S, &mut S, Box<S>);

/// A slot as plain data: a projection to feed to [`pick_slot`] in tests and simulations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchedulerSlot {
    /// The slot's name; `pick_slot` never looks at it.
    pub name: String,
    /// Jobs queued on the slot plus those it is running.
    pub pending_count: usize,
}

impl SchedulerSlot {
    /// A slot called `name` with `pending_count` jobs.
    #[must_use]
    pub fn new(name: impl Into<String>, pending_count: usize) -> Self {
        SchedulerSlot {
            name: name.into(),
            pending_count,
        }
    }
}

impl SlotLoad for SchedulerSlot {
    fn pending_count(&self) -> usize {
        self.pending_count
    }
}

/// A choice made by [`pick_slot`].
#[derive(Debug, PartialEq, Eq)]
pub struct Pick<'a, S> {
    /// The chosen slot.
    pub slot: &'a S,
    /// Its index in the list.
    pub index: usize,
    /// The cursor to hand to the next call.
    pub next_index: usize,
}

// Not derived: a derive would ask for `S: Clone`, and only a reference is copied.
impl<S> Clone for Pick<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Pick<'_, S> {}

/// Chooses a slot for the next job, or `None` if there is no slot.
///
/// A pure function: no side effect, no randomness, no allocation, so the same projection always
/// gives the same pick. The pool decides every submission with it.
///
/// - [`Strategy::RoundRobin`] takes `next_index % slots.len()` and returns the index behind it as
///   `next_index`. Any `usize` may be passed in. O(1).
/// - [`Strategy::LeastBusy`] takes the smallest pending count, the lowest index among equals, and
///   hands `next_index` back unchanged. O(slots), but it stops at the first slot with nothing
///   pending, which nothing can beat.
///
/// ```
/// use fairlane::{SchedulerSlot, Strategy, pick_slot};
///
/// let slots = [SchedulerSlot::new("w0", 3), SchedulerSlot::new("w1", 1)];
/// let pick = pick_slot(Strategy::LeastBusy, &slots, 0).unwrap();
/// assert_eq!((pick.index, pick.next_index), (1, 0));
/// let pick = pick_slot(Strategy::RoundRobin, &slots, 5).unwrap();
/// assert_eq!((pick.index, pick.next_index), (1, 0));
/// assert!(pick_slot::<SchedulerSlot>(Strategy::RoundRobin, &[], 0).is_none());
/// ```
#[inline]
#[must_use]
pub fn pick_slot<S: SlotLoad>(
    strategy: Strategy,
    slots: &[S],
    next_index: usize,
) -> Option<Pick<'_, S>> {
    let (index, next_index) = match strategy {
        Strategy::RoundRobin => {
            let index = next_index.checked_rem(slots.len())?;
            let next = index + 1;
            (index, if next == slots.len() { 0 } else { next })
        }
        Strategy::LeastBusy => (least_busy(slots)?, next_index),
    };
    Some(Pick {
        slot: &slots[index],
        index,
        next_index,
    })
}

#[inline]
fn least_busy<S: SlotLoad>(slots: &[S]) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for (index, slot) in slots.iter().enumerate() {
        let pending = slot.pending_count();
        if pending == 0 {
            return Some(index);
        }
        if best.is_none_or(|(least, _)| pending < least) {
            best = Some((pending, index));
        }
    }
    best.map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every list of up to four slots with up to three pending jobs each.
    fn projections() -> impl Iterator<Item = Vec<SchedulerSlot>> {
        (0..=4u32).flat_map(|len| {
            (0..4usize.pow(len)).map(move |code| {
                (0..len)
                    .map(|i| SchedulerSlot::new(format!("w{i}"), code / 4usize.pow(i) % 4))
                    .collect()
            })
        })
    }

    const CURSORS: [usize; 9] = [0, 1, 2, 3, 4, 5, 1000, usize::MAX - 1, usize::MAX];

    #[test]
    fn round_robin_follows_the_cursor_for_every_small_projection() {
        for slots in projections() {
            for cursor in CURSORS {
                let pick = pick_slot(Strategy::RoundRobin, &slots, cursor);
                let Some(pick) = pick else {
                    assert!(slots.is_empty());
                    continue;
                };
                assert_eq!(pick.index, cursor % slots.len());
                assert_eq!(pick.next_index, (pick.index + 1) % slots.len());
                assert!(std::ptr::eq(pick.slot, &slots[pick.index]));
            }
        }
    }

    #[test]
    fn slots_may_be_reached_through_pointers() {
        let (mut idle, busy) = (SchedulerSlot::new("w0", 1), SchedulerSlot::new("w1", 3));
        let of_all_kinds: [Box<dyn SlotLoad + '_>; 3] =
            [Box::new(&busy), Box::new(&mut idle), Box::new(busy.clone())];
        let pick = pick_slot(Strategy::LeastBusy, &of_all_kinds, 0);
        assert_eq!(pick.map(|pick| pick.index), Some(1));
    }

    #[test]
    fn least_busy_is_the_first_minimum_for_every_small_projection() {
        for slots in projections() {
            for cursor in CURSORS {
                let pick = pick_slot(Strategy::LeastBusy, &slots, cursor);
                let wanted = slots
                    .iter()
                    .enumerate()
                    .min_by_key(|(index, slot)| (slot.pending_count, *index));
                assert_eq!(
                    pick.map(|p| (p.index, p.next_index)),
                    wanted.map(|(index, _)| (index, cursor))
                );
            }
        }
    }

    #[test]
    fn round_robin_visits_every_slot_once_a_turn() {
        let slots: Vec<_> = (0..7).map(|i| SchedulerSlot::new("", i)).collect();
        let mut cursor = usize::MAX;
        let mut seen = [0; 7];
        for _ in 0..21 {
            let pick = pick_slot(Strategy::RoundRobin, &slots, cursor).unwrap();
            seen[pick.index] += 1;
            cursor = pick.next_index;
        }
        assert_eq!(seen, [3; 7]);
    }

    #[test]
    fn references_to_slots_do_as_well() {
        let slots = [4, 2, 3].map(|pending| SchedulerSlot::new("", pending));
        let refs: Vec<&SchedulerSlot> = slots.iter().rev().collect();
        let pick = pick_slot(Strategy::LeastBusy, &refs, 0).unwrap();
        assert_eq!((pick.index, pick.slot.pending_count()), (1, 2));
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for strategy in [Strategy::RoundRobin, Strategy::LeastBusy] {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        let error = "Least-Busy".parse::<Strategy>().unwrap_err();
        assert!(error.to_string().contains("Least-Busy"));
    }
}
