//! What those who came have moved the floor clock by, and have yet to move it by.
//!
//! The floor is the greatest of many sums: it was once a tag, and has been moved for each arrival since.
//! What an arrival's first job costs is known late, and belongs where the job began. So each of those that
//! run has its own reading of the floor: what that would be had nothing but arrivals moved it since then.
//! What a backlog has used meanwhile, which moves the floor as well, is not added to the correction.
//!
//! Without it a stream of strangers, each of them behind the average as it comes, would keep who is there
//! from ever being served.

use super::bill::ticks;

/// `cost/W`, up to a whole tick.
fn share(cost: u64, among: u64) -> u128 {
    match among {
        0 => 0,
        among => (ticks(cost) as u128).div_ceil(among.into()),
    }
}

/// An arrival whose first job runs.
struct Begun {
    number: u64,
    /// Its reading less what arrivals had moved the floor by before.
    reading: i128,
    /// What the job was taken to cost.
    estimate: u64,
    /// `W` as it began.
    among: u64,
}

/// Arrivals whose first job runs.
pub(super) struct Arrivals {
    /// By how much arrivals have moved the floor, or would have if nothing else had.
    moved: i128,
    /// In the order in which the jobs began. The readings rise, as whatever moved the floor before a job
    /// began moved it for all that follow.
    begun: Vec<Begun>,
}

impl Arrivals {
    pub(super) fn new() -> Arrivals {
        Arrivals {
            moved: 0,
            begun: Vec::new(),
        }
    }

    /// A first job begins at that reading of the floor, under a number above all before. The floor it
    /// moves it to.
    pub(super) fn begin(&mut self, number: u64, floor: u128, estimate: u64, among: u64) -> u128 {
        self.begun.push(Begun {
            number,
            reading: floor as i128 - self.moved,
            estimate,
            among,
        });
        let step = share(estimate, among);
        self.moved += step as i128;
        floor + step
    }

    /// It has ended, and if it has cost more, was to move the floor by so much more; the floor is not below
    /// what comes of that. O(those that began after it and run).
    pub(super) fn end(&mut self, number: u64, cost: u64) -> u128 {
        let Ok(at) = self
            .begun
            .binary_search_by_key(&number, |begun| begun.number)
        else {
            return 0;
        };
        let Begun {
            reading,
            estimate,
            among,
            ..
        } = self.begun.remove(at);
        let step = share(cost.saturating_sub(estimate), among) as i128;
        self.moved += step;
        for later in &mut self.begun[at..] {
            later.reading = reading.max(later.reading - step);
        }
        (reading + self.moved) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many units at a weight of one.
    const UNIT: u128 = 1 << 20;

    #[test]
    fn what_begins_together_adds_up() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.begin(1, 100 * UNIT, 10, 2), 105 * UNIT);
        assert_eq!(arrivals.begin(2, 105 * UNIT, 10, 2), 110 * UNIT);
        assert_eq!(arrivals.end(1, 50), 130 * UNIT);
        assert_eq!(arrivals.end(2, 70), 160 * UNIT);
    }

    #[test]
    fn what_the_floor_has_risen_by_meanwhile_is_not_added() {
        let mut arrivals = Arrivals::new();
        arrivals.begin(1, 100 * UNIT, 0, 1);
        arrivals.begin(2, 1_000 * UNIT, 0, 1);
        assert_eq!(arrivals.end(1, 50), 150 * UNIT, "it was at 1,000 since");
        assert_eq!(arrivals.end(2, 50), 1_050 * UNIT);
        arrivals.begin(3, 1_050 * UNIT, 0, 1);
        arrivals.begin(4, 1_060 * UNIT, 0, 1);
        assert_eq!(arrivals.end(3, 50), 1_100 * UNIT, "so is the other");
        assert_eq!(arrivals.end(4, 5), 1_105 * UNIT);
    }

    #[test]
    fn what_costs_less_than_was_thought_moves_nothing_back() {
        let mut arrivals = Arrivals::new();
        assert_eq!(
            arrivals.begin(1, 100 * UNIT, 10, 3),
            100 * UNIT + (10 * UNIT).div_ceil(3)
        );
        assert_eq!(arrivals.end(1, 4), 100 * UNIT + (10 * UNIT).div_ceil(3));
    }
}
