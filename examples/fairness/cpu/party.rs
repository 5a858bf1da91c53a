//! A tenant with jobs of one length, of which each submits its successor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fairlane::Tenant;

use crate::burn::Burn;

pub(crate) struct Party {
    tenant: Tenant,
    /// A slice of work, and how many of them a job is.
    slice: Burn,
    slices: u64,
    /// Slices done, by jobs that still run too.
    done: AtomicU64,
    /// From submit to end, in seconds.
    times: Mutex<Vec<f64>>,
}

impl Party {
    pub(crate) fn new(tenant: Tenant, slice: Burn, slices: u64) -> Arc<Self> {
        Arc::new(Self {
            tenant,
            slice,
            slices,
            done: AtomicU64::new(0),
            times: Mutex::default(),
        })
    }

    /// Keeps so many jobs in the pool until that is closed.
    pub(crate) fn keep(self: &Arc<Self>, jobs: usize) {
        (0..jobs).for_each(|_| self.submit());
    }

    fn submit(self: &Arc<Self>) {
        let (party, submitted) = (Arc::clone(self), Instant::now());
        // Refused once the window is over and the pool closed.
        let _ = self.tenant.execute(move || {
            party.run(submitted);
            party.submit();
        });
    }

    /// Submits one job and waits for its end.
    pub(crate) fn request(self: &Arc<Self>) {
        let (party, submitted) = (Arc::clone(self), Instant::now());
        let job = self.tenant.submit(move || party.run(submitted));
        job.expect("the pool is open")
            .join()
            .expect("it only burns");
    }

    fn run(&self, submitted: Instant) {
        for _ in 0..self.slices {
            self.slice.run();
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        let time = submitted.elapsed().as_secs_f64();
        self.times.lock().expect("nobody panics").push(time);
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The times of the jobs that have ended since it was last asked.
    pub(crate) fn take_times(&self) -> Vec<f64> {
        std::mem::take(&mut self.times.lock().expect("nobody panics"))
    }
}
