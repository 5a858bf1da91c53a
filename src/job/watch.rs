//! What is noted down of a job on its way: how long it waited and ran, and in which span.
//!
//! Subscribers and recorders are other people's code, so it is called through the doors of `unwind`.

use std::time::Instant;

use crate::ledger::{Load, TimeTable, Times};
use crate::sync::Arc;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use crate::unwind;

/// Goes with a job that somebody wants to know the times of.
pub(crate) struct Watch {
    accepted: Instant,
    table: Option<Arc<TimeTable>>,
    tenant: Option<Arc<Times>>,
    #[cfg(feature = "metrics")]
    labels: Option<Labels>,
    #[cfg(feature = "tracing")]
    span: crate::sync::Mutex<Option<tracing::Span>>,
}

/// Whose job it is, as metrics name it.
#[cfg(feature = "metrics")]
struct Labels {
    pool: String,
    tenant: String,
}

/// What a [`Watch`] is told about a job.
#[derive(Clone, Copy)]
pub(crate) struct Watched<'a> {
    #[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code))]
    pub(crate) pool: &'a str,
    pub(crate) tenant: &'a str,
    #[cfg_attr(not(feature = "tracing"), allow(dead_code))]
    pub(crate) priority: i32,
    pub(crate) times: Option<&'a Arc<TimeTable>>,
}

/// Whether somebody wants to hear about jobs although no times were asked for.
#[inline]
pub(crate) fn is_traced() -> bool {
    #[cfg(feature = "tracing")]
    return unwind::attempt(|| tracing::span_enabled!(tracing::Level::DEBUG)) == Some(true);
    #[cfg(not(feature = "tracing"))]
    false
}

impl Watch {
    /// A job has been accepted.
    pub(crate) fn new(job: Watched<'_>) -> Watch {
        Watch {
            accepted: Instant::now(),
            tenant: job.times.and_then(|times| times.open(job.tenant)),
            table: job.times.cloned(),
            #[cfg(feature = "metrics")]
            labels: job.times.map(|_| Labels {
                pool: job.pool.to_owned(),
                tenant: job.tenant.to_owned(),
            }),
            #[cfg(feature = "tracing")]
            span: crate::sync::Mutex::new(span_of(job)),
        }
    }

    /// The job begins; on the thread of a slot that belongs to `load`, unless it runs in place.
    pub(super) fn begin<'a>(&'a self, load: Option<&'a Load>) -> Running<'a> {
        let began = Instant::now();
        if let (Some(load), Some(table)) = (load, &self.table) {
            load.busy().start(table.nanos_at(began));
        }
        Running {
            watch: self,
            began,
            load,
            #[cfg(feature = "tracing")]
            entered: self.enter_span(began),
        }
    }

    #[cfg(feature = "tracing")]
    fn enter_span(&self, began: Instant) -> Option<tracing::span::EnteredSpan> {
        let span = self.span.lock().take()?;
        let waited = began.saturating_duration_since(self.accepted);
        unwind::attempt(|| {
            span.record(
                "wait_us",
                u64::try_from(waited.as_micros()).unwrap_or(u64::MAX),
            );
            span.entered()
        })
    }

    /// All histograms that a job's times belong into.
    fn parties(&self) -> impl Iterator<Item = &Times> {
        let all = self.table.as_ref().map(|table| table.all());
        all.into_iter().chain(self.tenant.as_deref())
    }
}

#[cfg(feature = "tracing")]
fn span_of(job: Watched<'_>) -> Option<tracing::Span> {
    let span = unwind::attempt(|| {
        tracing::debug_span!(
            "job",
            pool = job.pool,
            tenant = job.tenant,
            priority = job.priority,
            wait_us = tracing::field::Empty,
        )
    });
    span.filter(|span| !span.is_disabled())
}

#[cfg(feature = "tracing")]
impl Drop for Watch {
    fn drop(&mut self) {
        // Of a job that never ran.
        unwind::discard(self.span.get_mut().take());
    }
}

/// A job that runs, and is watched.
pub(super) struct Running<'a> {
    watch: &'a Watch,
    began: Instant,
    load: Option<&'a Load>,
    #[cfg(feature = "tracing")]
    entered: Option<tracing::span::EnteredSpan>,
}

impl Running<'_> {
    /// The closure has returned or panicked, and nobody can see its result yet.
    pub(super) fn end(self) {
        #[cfg(feature = "tracing")]
        unwind::discard(self.entered);
        let Some(table) = &self.watch.table else {
            return;
        };
        let ended = Instant::now();
        if let Some(load) = self.load {
            load.busy().stop(table.nanos_at(ended));
        }
        let waited = self.began.saturating_duration_since(self.watch.accepted);
        let ran = ended.saturating_duration_since(self.began);
        for times in self.watch.parties() {
            times.wait.record(waited);
            times.run.record(ran);
        }
        #[cfg(feature = "metrics")]
        if let Some(labels) = &self.watch.labels {
            labels.record(waited, ran);
        }
    }
}

#[cfg(feature = "metrics")]
impl Labels {
    fn record(&self, waited: std::time::Duration, ran: std::time::Duration) {
        unwind::attempt(|| {
            let labels = [("pool", self.pool.clone()), ("tenant", self.tenant.clone())];
            metrics::histogram!("fairlane_job_wait_seconds", &labels).record(waited);
            metrics::histogram!("fairlane_job_run_seconds", &labels).record(ran);
        });
    }
}
