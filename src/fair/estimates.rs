//! What the jobs of the live lanes are taken to cost, as far as that matters to who joins.

/// How many estimates have how many binary digits: the highest need not be known any better, and so this
/// is O(1).
pub(super) struct Estimates([u32; 65]);

impl Estimates {
    pub(super) fn new() -> Estimates {
        Estimates([0; 65])
    }

    fn digits(estimate: u64) -> usize {
        (u64::BITS - estimate.leading_zeros()) as usize
    }

    pub(super) fn add(&mut self, estimate: u64) {
        self.0[Estimates::digits(estimate)] += 1;
    }

    pub(super) fn remove(&mut self, estimate: u64) {
        self.0[Estimates::digits(estimate)] -= 1;
    }

    /// The highest, down to a power of two; 0 without any.
    pub(super) fn peak(&self) -> u64 {
        let digits = self.0.iter().rposition(|count| *count > 0).unwrap_or(0);
        if digits == 0 { 0 } else { 1 << (digits - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_those_present() {
        let mut estimates = Estimates::new();
        assert_eq!(estimates.peak(), 0);
        let all = [0, 1, 5, 1 << 40, u64::MAX];
        all.into_iter().for_each(|estimate| estimates.add(estimate));
        for (gone, peak) in [(u64::MAX, 1 << 40), (1 << 40, 4), (5, 1), (1, 0), (0, 0)] {
            estimates.remove(gone);
            assert_eq!(estimates.peak(), peak);
        }
    }
}
