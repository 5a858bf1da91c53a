//! Queued jobs, and the chains they form.

use super::arena::{Arena, Id};

/// A queued job. One tenant's jobs of one priority form a chain in order of arrival.
pub(super) struct Job<T> {
    /// The job before this one, **or stale**: popping the head does not touch the next job, which
    /// has most likely left the cache. See [`before`].
    prev: Option<Id>,
    next: Option<Id>,
    /// The lane it waits in.
    pub(super) lane: Id,
    pub(super) priority: i32,
    /// How many jobs had come to the lane before. With `lane` it names the job for all time.
    pub(super) arrival: u64,
    pub(super) item: T,
}

impl<T> Job<T> {
    pub(super) fn new(lane: Id, priority: i32, arrival: u64, item: T) -> Job<T> {
        Job {
            prev: None,
            next: None,
            lane,
            priority,
            arrival,
            item,
        }
    }
}

/// The ends of a chain, which is never empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) head: Id,
    pub(super) tail: Id,
}

impl Chain {
    pub(super) fn of(job: Id) -> Chain {
        Chain {
            head: job,
            tail: job,
        }
    }

    pub(super) fn push_back<T>(&mut self, jobs: &mut Arena<Job<T>>, job: Id) {
        jobs[self.tail].next = Some(job);
        jobs[job].prev = Some(self.tail);
        self.tail = job;
    }

    /// Moves the head on; `None` if the head was all there was.
    pub(super) fn without_head<T>(self, jobs: &Arena<Job<T>>) -> Option<Chain> {
        if self.head == self.tail {
            return None;
        }
        let head = jobs[self.head].next.expect("a job behind the head");
        Some(Chain { head, ..self })
    }

    /// Moves the tail back; `None` if the tail was all there was.
    pub(super) fn without_tail<T>(self, jobs: &mut Arena<Job<T>>) -> Option<Chain> {
        let tail = before(jobs, self.tail)?;
        jobs[tail].next = None;
        Some(Chain { tail, ..self })
    }
}

/// The job before `job` in its chain. A stale `prev` names a slot that is free or holds a job with
/// another follower, since only the true predecessor has `job` as its next.
fn before<T>(jobs: &Arena<Job<T>>, job: Id) -> Option<Id> {
    let prev = jobs[job].prev?;
    (jobs.get(prev)?.next == Some(job)).then_some(prev)
}

/// Where a job stands in its chain.
pub(super) enum Standing {
    Head,
    Tail,
    /// Between these two.
    Inside(Id, Id),
}

/// A job that is all of its chain counts as its head.
pub(super) fn standing<T>(jobs: &Arena<Job<T>>, job: Id) -> Standing {
    match (before(jobs, job), jobs[job].next) {
        (None, _) => Standing::Head,
        (Some(_), None) => Standing::Tail,
        (Some(prev), Some(next)) => Standing::Inside(prev, next),
    }
}

/// Takes out what stands between `prev` and `next`.
pub(super) fn bridge<T>(jobs: &mut Arena<Job<T>>, prev: Id, next: Id) {
    jobs[prev].next = Some(next);
    jobs[next].prev = Some(prev);
}
