//! Where submitters put jobs without waiting for the gate.
//!
//! A worker holds the gate's lock for a few hundred nanoseconds a job. A submitter that meets it there
//! is often parked and woken, for tens of times what its push takes. So it puts the job into the inbox,
//! whose lock is held for a few instructions, and whoever takes the gate's lock next takes the job into
//! its lane first.
//!
//! Measured with tiny jobs, one submitter and two workers: a submit takes 130 ns; at the gate it took
//! 450.

use super::lanes::{Lanes, Request, Who};
use crate::fair::{Id, Priority, Weight};
use crate::job::Job;
use crate::sync::{AtomicBool, CachePadded, Mutex, Ordering};

/// With so many jobs in it, a submitter takes them to the gate if nobody is there.
const CROWDED: usize = 128;
/// With so many it has to, and waits for its turn. So nobody who takes the gate's lock has more than
/// these to take along.
const FULL: usize = 1024;

/// A job that needs no room, on its way.
pub(super) struct Arrival {
    owner: Owner,
    weight: Option<Weight>,
    priority: Priority,
    pub(super) job: Job,
}

/// Whose job it is. A name is looked up when the job comes to its lane: an allocation costs a
/// fraction of waiting for the gate.
enum Owner {
    Nameless,
    Known(Id),
    Named(Box<str>),
}

impl Arrival {
    #[inline]
    pub(super) fn new(request: Request<'_>, job: Job) -> Arrival {
        Arrival {
            owner: match request.who {
                Who::Nameless => Owner::Nameless,
                Who::Known(id) => Owner::Known(id),
                Who::Named(name) => Owner::Named(name.into()),
            },
            weight: request.weight,
            priority: request.priority,
            job,
        }
    }

    /// Takes the job into its lane.
    fn arrive(self, lanes: &mut Lanes) {
        let request = Request {
            who: match &self.owner {
                Owner::Nameless => Who::Nameless,
                Owner::Known(id) => Who::Known(*id),
                Owner::Named(name) => Who::Named(name),
            },
            weight: self.weight,
            priority: self.priority,
        };
        let id = lanes.resolve(request.who);
        lanes.push(id, request, false, self.job);
    }
}

/// Jobs on their way to the lanes. Its lock is taken after the gate's, or alone.
#[derive(Default)]
pub(super) struct Inbox(CachePadded<Contents>);

#[derive(Default)]
struct Contents {
    arrivals: Mutex<Vec<Arrival>>,
    /// Whether there are any; written under the lock.
    has_any: AtomicBool,
}

impl Inbox {
    /// Puts a job in; it comes back if the inbox is full. `true`: it is getting crowded.
    #[inline]
    pub(super) fn put(&self, arrival: Arrival) -> Result<bool, Arrival> {
        let mut arrivals = self.0.arrivals.lock();
        match arrivals.len() {
            0 => self.0.has_any.store(true, Ordering::Relaxed),
            FULL => return Err(arrival),
            _ => {}
        }
        arrivals.push(arrival);
        Ok(arrivals.len() >= CROWDED)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.arrivals.lock().is_empty()
    }

    /// Whether it is empty, at a glance: what was put in at the same time may be overlooked, what was
    /// put in before is seen.
    #[inline]
    pub(super) fn looks_empty(&self) -> bool {
        !self.0.has_any.load(Ordering::Relaxed)
    }

    /// Takes all jobs into their lanes.
    pub(super) fn empty_into(&self, lanes: &mut Lanes) {
        let mut arrivals = std::mem::take(&mut lanes.arrivals);
        {
            let mut waiting = self.0.arrivals.lock();
            std::mem::swap(&mut arrivals, &mut *waiting);
            self.0.has_any.store(false, Ordering::Relaxed);
        }
        let mut coming = arrivals.drain(..);
        while let Some(arrival) = coming.next() {
            fetch_ahead(coming.as_slice(), lanes);
            arrival.arrive(lanes);
        }
        drop(coming);
        lanes.arrivals = arrivals;
        lanes.see_off();
    }
}

/// Starts to fetch the account of one of those that come, and the lane of one that comes before it, whose
/// account must be here by then.
#[inline]
fn fetch_ahead(coming: &[Arrival], lanes: &Lanes) {
    if let Some(Owner::Known(id)) = coming.get(5).map(|arrival| &arrival.owner) {
        lanes.tenants.prefetch(*id);
    }
    if let Some(Owner::Known(id)) = coming.get(2).map(|arrival| &arrival.owner) {
        lanes.prefetch_lane_of(*id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival() -> Arrival {
        let request = Request {
            who: Who::Nameless,
            weight: None,
            priority: Priority::NORMAL,
        };
        Arrival::new(request, Job::new(|| ()))
    }

    #[test]
    fn it_gets_crowded_and_then_full() {
        let inbox = Inbox::default();
        assert!(inbox.is_empty());
        let answers: Vec<_> = (0..=FULL).map(|_| inbox.put(arrival()).ok()).collect();
        assert!(!inbox.is_empty());
        let (calm, rest) = answers.split_at(CROWDED - 1);
        let (crowded, full) = rest.split_at(FULL - CROWDED + 1);
        assert!(calm.iter().all(|answer| *answer == Some(false)));
        assert!(crowded.iter().all(|answer| *answer == Some(true)));
        assert_eq!(full, [None]);
    }
}
