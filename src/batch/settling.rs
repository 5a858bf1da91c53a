//! Jobs that are out, and which of them settles next.
//!
//! Each job carries a [`Notice`] among its captures. When they are gone, after the job has run or
//! because it never will, the notice puts the job's key into a channel, and the consumer takes the
//! keys out in the order in which they came.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::error::JobError;
use crate::job::JobHandle;
use crate::sync::channel::{Receiver, Sender, TryRecvError, unbounded};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::worker;

/// Jobs by key. Dropping it cancels those that have not begun and detaches those that run.
pub(super) struct Settling<T> {
    next_key: u64,
    jobs: BTreeMap<u64, Result<JobHandle<T>, JobError>>,
    /// Of those that have one. No worker need be free to see a deadline pass: whoever waits does.
    deadlines: BTreeSet<(Instant, u64)>,
    link: Arc<Link>,
    settled: Receiver<u64>,
}

/// What all notices share.
struct Link {
    settled: Sender<u64>,
    /// The key of a job that was not accepted, while its closure is taken apart. A key is used once.
    void: AtomicU64,
}

/// No key: there are never so many jobs.
const NONE: u64 = u64::MAX;

/// Travels with a job's captures and says when they are gone.
pub(super) struct Notice {
    key: u64,
    link: Arc<Link>,
}

impl Notice {
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// A job that calls `f`, and whose captures are all gone when the notice is given. `f` may look at
    /// the notice.
    pub(super) fn given_after<F, R>(self, f: F) -> impl FnOnce() -> R + use<F, R>
    where
        F: FnOnce(&Notice) -> R,
    {
        let carrier = Carrier { f, notice: self };
        move || {
            // The whole of it, not its fields one by one: an unrun closure drops what it has captured
            // in an order that nothing promises, and a struct from its first field to its last.
            let carrier = carrier;
            let Carrier { f, notice } = carrier;
            f(&notice)
        }
    }

    /// Whether the job was not accepted: see [`Settling::void`].
    pub(super) fn is_void(&self) -> bool {
        self.link.void.load(Ordering::Relaxed) == self.key
    }
}

struct Carrier<F> {
    f: F,
    notice: Notice,
}

impl Drop for Notice {
    fn drop(&mut self) {
        // Who only ever meets a full queue takes nothing out, and the channel must not grow for that.
        if !self.is_void() {
            // Nobody listens any more once the consumer has been dropped.
            let _ = self.link.settled.send(self.key);
        }
    }
}

impl<T> Settling<T> {
    pub(super) fn new() -> Settling<T> {
        let (sender, settled) = unbounded();
        Settling {
            next_key: 0,
            jobs: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            link: Arc::new(Link {
                settled: sender,
                void: AtomicU64::new(NONE),
            }),
            settled,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The notice for the next job. Keys follow one another from 0.
    pub(super) fn notice(&mut self) -> Notice {
        let key = self.next_key;
        self.next_key += 1;
        Notice {
            key,
            link: Arc::clone(&self.link),
        }
    }

    /// Calls `f` while the notice of this key says that it is void. If `f` drops it, it is never given.
    /// The key is not used any more.
    pub(super) fn void<R>(&self, key: u64, f: impl FnOnce() -> R) -> R {
        self.link.void.store(key, Ordering::Relaxed);
        let result = f();
        self.link.void.store(NONE, Ordering::Relaxed);
        result
    }

    /// The job that got the notice of this key, or why there is none. One whose notice came to
    /// nothing is never put in.
    pub(super) fn insert(&mut self, key: u64, job: Result<JobHandle<T>, JobError>) {
        if let Some(at) = job.as_ref().ok().and_then(JobHandle::deadline) {
            self.deadlines.insert((at, key));
        }
        self.jobs.insert(key, job);
    }

    /// The job that settled first of those that are left, with its key; `None` if none is left.
    ///
    /// On a thread of the pool nobody else may be there to run what is queued, so jobs from here, and
    /// no others, are run in place before anything is waited for.
    pub(super) fn next(&mut self) -> Option<(u64, Result<T, JobError>)> {
        while !self.jobs.is_empty() {
            let key = match self.noticed() {
                Some(key) => key,
                None if self.advance_one() => continue,
                None => match self.hopeless().or_else(|| self.wait(None)) {
                    Some(key) => key,
                    None => continue,
                },
            };
            if let Some(outcome) = self.take(key) {
                return Some((key, outcome));
            }
        }
        None
    }

    /// As [`Settling::next`], for at most `timeout`, and without running a job here.
    pub(super) fn next_timeout(&mut self, timeout: Duration) -> Option<(u64, Result<T, JobError>)> {
        // A time too far away to be expressed is never.
        let give_up = Instant::now().checked_add(timeout);
        while !self.jobs.is_empty() {
            let key = self.noticed().or_else(|| self.hopeless());
            let key = key.or_else(|| self.wait(give_up));
            if let Some(key) = key {
                if let Some(outcome) = self.take(key) {
                    return Some((key, outcome));
                }
            } else if give_up.is_some_and(|at| at <= Instant::now()) {
                return None;
            }
        }
        None
    }

    /// What became of the job with this key, if it is one of those that are left. It has settled, or
    /// is just about to.
    fn take(&mut self, key: u64) -> Option<Result<T, JobError>> {
        let job = self.jobs.remove(&key)?;
        if let Some(at) = job.as_ref().ok().and_then(JobHandle::deadline) {
            self.deadlines.remove(&(at, key));
        }
        Some(job.and_then(JobHandle::join))
    }

    fn noticed(&self) -> Option<u64> {
        match self.settled.try_recv() {
            Ok(key) => Some(key),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => unreachable!("a sender is kept here"),
        }
    }

    /// Settles a queued job on this thread, if there is one that only this thread may get on with.
    fn advance_one(&self) -> bool {
        worker::may_be_needed() && self.jobs.values().flatten().any(JobHandle::advance)
    }

    /// A job of which no notice will come while this thread waits: it was submitted in the process
    /// that this one was forked from, or it runs on this very thread, and the others have settled.
    fn hopeless(&self) -> Option<u64> {
        let (first, job) = self.jobs.first_key_value()?;
        if job.as_ref().is_ok_and(JobHandle::is_lost) {
            return Some(*first);
        }
        let mut jobs = self.jobs.values().flatten();
        jobs.all(JobHandle::is_ancestor).then_some(*first)
    }

    /// Waits for the next notice, until `give_up` at most. `None` if the wait has ended otherwise, and
    /// the caller is to look again.
    fn wait(&mut self, give_up: Option<Instant>) -> Option<u64> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let Some(until) = [deadline, give_up].into_iter().flatten().min() else {
            return self.settled.recv().ok();
        };
        let noticed = self.settled.recv_deadline(until).ok();
        if noticed.is_none() {
            self.expire();
        }
        noticed
    }

    /// Settles queued jobs whose deadline has passed. Those that run are looked at no more.
    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((_, key)) = self.deadlines.first().filter(|(at, _)| *at <= now).copied() {
            self.deadlines.pop_first();
            // Asking is enough. Its notice follows, as for any job.
            let _ = self.jobs[&key].as_ref().map(JobHandle::is_finished);
        }
    }

    /// Cancels the jobs from `first` on that have not begun; returns how many that were. The last one
    /// first: a worker that comes by meanwhile takes the first, which would not be saved by being
    /// cancelled a moment earlier.
    pub(super) fn cancel_from(&self, first: u64) -> usize {
        let jobs = self.jobs.range(first..).rev();
        jobs.filter(|(_, job)| job.as_ref().is_ok_and(JobHandle::call_off))
            .count()
    }
}

impl<T> Drop for Settling<T> {
    fn drop(&mut self) {
        self.cancel_from(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_not_accepted_leaves_no_notice() {
        let mut settling = Settling::<()>::new();
        let notice = settling.notice();
        let key = notice.key();
        let job = notice.given_after(Notice::is_void);
        assert!(settling.void(key, job), "it can see that it is void");
        assert_eq!(settling.noticed(), None);

        // Any other comes to one, whether it runs or not.
        for runs in [true, false] {
            let notice = settling.notice();
            let key = notice.key();
            let job = notice.given_after(Notice::is_void);
            assert!(!if runs {
                job()
            } else {
                drop(job);
                false
            });
            assert_eq!(settling.noticed(), Some(key));
        }
    }
}
