//! What a tenant is charged: one a job, or what its jobs cost.

use super::arena::Id;
use super::costs::Costs;
use super::lane::Lanes;
use super::rotation::{Pick, Rotation};

/// Who is next, by one of the two rules. Which one is settled when the queue is made, so the branch is
/// always guessed right.
#[expect(
    clippy::large_enum_variant,
    reason = "by count, the usual case, nothing is behind a pointer"
)]
pub(super) enum Rule {
    Count(Rotation),
    Cost(Box<Costs>),
}

impl Rule {
    /// Forgets all lanes at once.
    pub(super) fn restart(&mut self) {
        match self {
            Rule::Count(rotation) => *rotation = Rotation::new(),
            Rule::Cost(costs) => costs.restart(),
        }
    }

    /// The last lane has gone. By cost nothing is left of it, and time goes on.
    pub(super) fn reset(&mut self) {
        if let Rule::Count(rotation) = self {
            rotation.reset();
        }
    }

    pub(super) fn join<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        match self {
            Rule::Count(rotation) => rotation.join(lanes, lane),
            Rule::Cost(costs) => costs.join(lanes, lane),
        }
    }

    #[inline]
    pub(super) fn pick(&self) -> Option<Pick> {
        match self {
            Rule::Count(rotation) => rotation.pick(),
            Rule::Cost(costs) => costs.pick(),
        }
    }

    #[inline]
    pub(super) fn charge<K>(&mut self, lanes: &mut Lanes<K>, pick: Pick) {
        match self {
            Rule::Count(rotation) => rotation.charge(lanes, pick),
            Rule::Cost(costs) => costs.charge(lanes, pick.lane),
        }
    }

    /// The lane's last job is gone, uncharged. `true`: by cost, it owes something and is kept for that.
    pub(super) fn leave<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) -> bool {
        match self {
            Rule::Count(rotation) => rotation.leave(lanes, lane),
            Rule::Cost(costs) => return costs.leave(lanes, lane),
        }
        false
    }

    pub(super) fn hold<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        match self {
            Rule::Count(rotation) => rotation.hold(lanes, lane),
            Rule::Cost(costs) => costs.hold(lanes, lane),
        }
    }

    pub(super) fn release<K>(&mut self, lanes: &mut Lanes<K>, lane: Id) {
        match self {
            Rule::Count(rotation) => rotation.release(lanes, lane),
            Rule::Cost(costs) => costs.release(lanes, lane),
        }
    }

    pub(super) fn reweigh<K>(&mut self, lanes: &mut Lanes<K>, lane: Id, weight: u32) {
        match self {
            Rule::Count(rotation) => rotation.reweigh(lanes, lane, weight),
            Rule::Cost(costs) => costs.reweigh(lanes, lane, weight),
        }
    }
}
