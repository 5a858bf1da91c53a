//! What was done, and what became of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlane::{JobError, Rejected};

macro_rules! events {
    ($($event:ident: $text:literal,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum Event { $($event),* }

        const EVENTS: &[(Event, &str)] = &[$((Event::$event, $text)),*];
    };
}

events! {
    Accepted: "jobs accepted",
    Refused: "jobs refused",
    Begun: "closures begun",
    Detached: "jobs that nobody watched",
    Completed: "handles: completed",
    Panicked: "handles: panicked",
    Cancelled: "handles: cancelled",
    Expired: "handles: expired",
    Discarded: "handles: discarded",
    JoinedInside: "jobs joined inside another",
    JoinTimedOut: "joins that timed out",
    CalledOff: "jobs called off by their handle",
    TokenCancelled: "tokens cancelled",
    SweptQueue: "cancel_queued",
    WaitedIdle: "wait_idle that came to be",
    Scope: "scopes",
    ScopePanicked: "scopes that raised a panic",
    MapItem: "items of maps",
    MapLeft: "maps left half way",
    Set: "sets",
    TryMap: "try_maps",
    Broadcast: "broadcasts",
    LocalUsedAgain: "values of a worker used again",
    TenantSet: "weights and limits set",
    Sampled: "stats read and added up",
    Closed: "pools closed under their users",
    Exhausted: "pools without a slot left",
    Shutdown: "ends: shutdown",
    ShutdownNow: "ends: shutdown_now",
    TimedOut: "ends: shutdown_timeout that expired",
    InTime: "ends: shutdown_timeout in time",
    DroppedInside: "ends: dropped inside a job",
}

pub(crate) struct Counts(Vec<AtomicU64>);

impl Counts {
    pub(crate) fn shared() -> Arc<Counts> {
        Arc::new(Counts(EVENTS.iter().map(|_| AtomicU64::new(0)).collect()))
    }

    pub(crate) fn bump(&self, event: Event) {
        self.0[event as usize].fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self, event: Event) -> u64 {
        self.0[event as usize].load(Ordering::SeqCst)
    }

    /// Everything so far, to see whether anything goes on.
    pub(crate) fn total(&self) -> u64 {
        let counts = self.0.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn add(&self, others: &Counts) {
        for (sum, other) in self.0.iter().zip(&others.0) {
            sum.fetch_add(other.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    pub(crate) fn refusal(&self, reason: Rejected) {
        let known = [
            Rejected::Full,
            Rejected::ShutDown,
            Rejected::RestartExhausted,
        ];
        assert!(known.contains(&reason), "{reason:?}");
        self.bump(Event::Refused);
    }

    pub(crate) fn outcome<T>(&self, outcome: &Result<T, JobError>) {
        self.bump(match outcome {
            Ok(_) => Event::Completed,
            Err(JobError::Panicked(_)) => Event::Panicked,
            Err(JobError::Cancelled) => Event::Cancelled,
            Err(JobError::Expired) => Event::Expired,
            Err(JobError::Discarded) => Event::Discarded,
            Err(other) => panic!("{other:?} is no end of such a job"),
        });
    }

    /// A soak that never did one of these things has not tested it.
    pub(crate) fn assert_all_seen(&self, cycles: u64) {
        if cycles < 1_000 {
            return;
        }
        for &(event, text) in EVENTS {
            assert!(self.get(event) > 0, "never in {cycles} pools: {text}");
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &(event, text) in EVENTS {
            writeln!(f, "{:>14} {text}", self.get(event))?;
        }
        Ok(())
    }
}
