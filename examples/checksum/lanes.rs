//! Each DIR as a tenant of its own, all of them at once.

use std::io;
use std::iter::FusedIterator;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use fairlane::{JobError, Submit, Tenant};

use crate::hash::Hashed;
use crate::walk::{Batch, Walk};

type Outcome = Result<Hashed, JobError>;

/// Batches of one DIR in flight for each worker. A lane that runs dry, because results are handed
/// out in order and the first is not there yet, misses its turns, and a DIR of large weight would
/// not get what it is promised. Hence more of a reserve than a map's own 2.
const AHEAD: usize = 8;

/// The results of several walks, as they become available. Those of one walk come in its order.
///
/// A map is an iterator, so waiting for its next result is waiting for nothing else. Hence a
/// thread for each DIR: it draws from the map of that DIR, on which the walk runs as well, and
/// hands the results to the one thread that writes. A DIR whose result is ready never waits for
/// another's that is not; and since the threads do nothing but walk and wait, they take no core
/// from the pool's. They are meant for a handful of DIRs, not for every file of a tree.
///
/// Memory stays bounded for each DIR: what its map has in flight, and one result in hand. The
/// channel itself has no room, so a reader that lags holds up the threads, they hold up the maps,
/// and the maps the walks.
///
/// Weights share out the pool. Where the reader of the lines is what is slow, and not the hashing,
/// lanes stand empty and the DIRs get on as evenly as the reader takes their lines.
pub(crate) struct Lanes {
    outcomes: Receiver<Outcome>,
    threads: Vec<JoinHandle<()>>,
}

impl Lanes {
    /// Walks and hashes, each walk as jobs of its tenant. Fails if a thread cannot be started.
    pub(crate) fn start<F>(
        lanes: impl IntoIterator<Item = (Tenant, Walk)>,
        hash: F,
    ) -> io::Result<Self>
    where
        F: Fn(Batch) -> Hashed + Clone + Send + Sync + 'static,
    {
        let (sender, outcomes) = sync_channel(0);
        let start = |(tenant, walk)| {
            let (sender, hash) = (sender.clone(), hash.clone());
            thread::Builder::new().spawn(move || follow(&tenant, walk, hash, &sender))
        };
        let threads = lanes.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(Self { outcomes, threads })
    }
}

/// Hands over one DIR's results until there are no more, or nobody takes them.
fn follow<F>(tenant: &Tenant, walk: Walk, hash: F, to: &SyncSender<Outcome>)
where
    F: Fn(Batch) -> Hashed + Send + Sync + 'static,
{
    let in_flight = AHEAD * tenant.parallelism();
    for outcome in tenant.map(walk, hash).in_flight(in_flight) {
        if to.send(outcome).is_err() {
            return;
        }
    }
}

impl Iterator for Lanes {
    type Item = Outcome;

    fn next(&mut self) -> Option<Outcome> {
        if let Ok(outcome) = self.outcomes.recv() {
            return Some(outcome);
        }
        // All have hung up. One that panicked has left files out, which must not pass for success.
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        None
    }
}

impl FusedIterator for Lanes {}
