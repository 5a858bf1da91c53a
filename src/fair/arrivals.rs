//! What those who came have moved the floor clock by, and have yet to move it by.
//!
//! The floor is the greatest of many sums: it was once a tag, and has been moved for each arrival since.
//! What an arrival's first job costs is known late, and belongs where the job began. So each of those that
//! run has its own reading of the floor: what that would be had nothing but arrivals moved it since then.
//! What a backlog has used meanwhile, which moves the floor as well, is not added to the correction.

/// Arrivals whose first job runs.
pub(super) struct Arrivals {
    /// By how much arrivals have moved the floor, or would have if nothing else had.
    moved: i128,
    /// In the order in which the jobs began: a number, and the reading less `moved`. The readings rise, as
    /// whatever moved the floor before a job began moved it for all that follow.
    begun: Vec<(u64, i128)>,
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
    pub(super) fn begin(&mut self, number: u64, floor: u128, step: u128) -> u128 {
        self.begun.push((number, floor as i128 - self.moved));
        self.moved += step as i128;
        floor + step
    }

    /// It has ended, and was to move the floor by so much more; the floor is not below what comes of that.
    /// O(those that began after it and run).
    pub(super) fn correct(&mut self, number: u64, step: u128) -> u128 {
        let Ok(at) = self.begun.binary_search_by_key(&number, |begun| begun.0) else {
            return 0;
        };
        let (_, reading) = self.begun.remove(at);
        self.moved += step as i128;
        for (_, later) in &mut self.begun[at..] {
            *later = reading.max(*later - step as i128);
        }
        (reading + self.moved) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_together_adds_up() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.begin(1, 100, 5), 105);
        assert_eq!(arrivals.begin(2, 105, 5), 110);
        assert_eq!(arrivals.correct(1, 20), 130);
        assert_eq!(arrivals.correct(2, 30), 160);
    }

    #[test]
    fn what_the_floor_has_risen_by_meanwhile_is_not_added() {
        let mut arrivals = Arrivals::new();
        arrivals.begin(1, 100, 0);
        arrivals.begin(2, 1_000, 0);
        assert_eq!(arrivals.correct(1, 50), 150, "the floor was at 1,000 since");
        assert_eq!(arrivals.correct(2, 50), 1_050);
        arrivals.begin(3, 1_050, 0);
        arrivals.begin(4, 1_060, 0);
        assert_eq!(
            arrivals.correct(3, 50),
            1_100,
            "which puts the other at 1,100"
        );
        assert_eq!(arrivals.correct(4, 5), 1_105);
    }
}
