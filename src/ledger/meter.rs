//! What the job on a thread has used, without what other jobs have that it ran in between.

use std::cell::{Cell, RefCell};

/// A stopwatch that is read in laps. It takes its readings from outside: nanoseconds of CPU time.
#[derive(Default)]
pub(crate) struct Meter {
    /// When the lap began.
    since: Cell<u64>,
    /// What the job has used before that.
    before: Cell<u64>,
    /// The same of the jobs around it, the innermost last.
    around: RefCell<Vec<u64>>,
}

impl Meter {
    /// What follows is the next job's, and what was before nobody's.
    pub(crate) fn start(&self, now: u64) {
        self.since.set(now);
        self.before.set(0);
    }

    /// A job has ended: what it has used. What follows is the next one's.
    pub(crate) fn lap(&self, now: u64) -> u64 {
        let lap = now.saturating_sub(self.since.replace(now));
        self.before.replace(0) + lap
    }

    /// The job makes room for another that runs in its midst.
    pub(crate) fn set_aside(&self, now: u64) {
        let used = self.lap(now);
        self.around.borrow_mut().push(used);
    }

    /// That one has ended: what it has used. What follows is the first one's again.
    pub(crate) fn take_up_again(&self, now: u64) -> u64 {
        let used = self.lap(now);
        let around = self.around.borrow_mut().pop();
        self.before.set(around.unwrap_or(0));
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_its_own_time() {
        let meter = Meter::default();
        meter.start(1_000);
        assert_eq!(meter.lap(1_300), 300);
        assert_eq!(meter.lap(1_350), 50, "the next one");
        meter.start(9_000);
        assert_eq!(meter.lap(9_001), 1, "not what was between");
    }

    #[test]
    fn a_job_inside_a_job_is_not_counted_twice() {
        let meter = Meter::default();
        meter.start(0);
        meter.set_aside(10);
        meter.set_aside(15);
        assert_eq!(meter.take_up_again(115), 100, "the innermost");
        assert_eq!(meter.take_up_again(120), 10, "before and after it");
        assert_eq!(meter.lap(121), 11, "the outermost");
    }
}
