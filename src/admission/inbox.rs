//! Where submitters put jobs without waiting for the gate.
//!
//! A thread that takes a round of jobs holds the gate's lock for microseconds. A submitter that met
//! it there would be parked and woken, for tens of times what its push takes. So it puts the job into
//! the inbox, whose lock is held for a few instructions, and whoever takes the gate's lock next takes
//! the job into its lane first.
//!
//! Measured with tiny jobs, one submitter and two workers: 530 ns a job without the inbox.

use super::lanes::{Lanes, Request, Who};
use crate::fair::{Id, Priority, Weight};
use crate::job::Job;
use crate::sync::{CachePadded, Mutex};

/// With so many jobs in it, a submitter takes them to the gate if nobody is there.
const CROWDED: usize = 128;
/// With so many it has to, and waits for its turn. So nobody who takes the gate's lock has more than
/// these to take along.
const FULL: usize = 1024;

/// A job for a tenant that the gate knows by number, or none, and that needs no room.
pub(super) struct Arrival {
    tenant: Option<Id>,
    weight: Option<Weight>,
    priority: Priority,
    job: Job,
}

impl Arrival {
    /// The job comes back if it has to be taken to the gate.
    #[inline]
    pub(super) fn new(
        request: Request<'_>,
        reserved: Option<Id>,
        job: Job,
    ) -> Result<Arrival, Job> {
        let tenant = match (request.who, reserved) {
            (Who::Nameless, None) => None,
            (Who::Known(id), None) => Some(id),
            _ => return Err(job),
        };
        Ok(Arrival {
            tenant,
            weight: request.weight,
            priority: request.priority,
            job,
        })
    }

    pub(super) fn into_parts(self) -> (Request<'static>, Job) {
        let request = Request {
            who: self.tenant.map_or(Who::Nameless, Who::Known),
            weight: self.weight,
            priority: self.priority,
        };
        (request, self.job)
    }
}

/// Jobs on their way to the lanes. Its lock is taken after the gate's, or alone.
#[derive(Default)]
pub(super) struct Inbox(CachePadded<Mutex<Vec<Arrival>>>);

impl Inbox {
    /// Puts a job in; it comes back if the inbox is full. `true`: it is getting crowded.
    #[inline]
    pub(super) fn put(&self, arrival: Arrival) -> Result<bool, Arrival> {
        let mut arrivals = self.0.lock();
        if arrivals.len() == FULL {
            return Err(arrival);
        }
        arrivals.push(arrival);
        Ok(arrivals.len() >= CROWDED)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes all jobs into their lanes.
    pub(super) fn empty_into(&self, lanes: &mut Lanes) {
        let mut arrivals = std::mem::take(&mut lanes.arrivals);
        std::mem::swap(&mut arrivals, &mut *self.0.lock());
        for arrival in arrivals.drain(..) {
            let (request, job) = arrival.into_parts();
            let id = lanes.resolve(request.who);
            lanes.push(id, request, false, job);
        }
        lanes.arrivals = arrivals;
    }
}
