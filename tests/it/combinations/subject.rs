//! The job in question, and the one that keeps a worker throughout.

use std::sync::{Arc, Mutex, mpsc};

use fairlane::{JobHandle, Rejected, Tenant, WorkerPool};

use super::{Combination, Fate};
use crate::common::{Captured, Gate, Probe};
use crate::panics::{Bomb, quiet_panic};

/// What the closure does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Returns,
    Panics,
    /// Its payload panics when dropped.
    PanicsWithBomb,
    /// What it has captured panics when dropped.
    CapturesBomb,
    /// What it has captured submits a job when dropped.
    SubmitsFromDrop,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [
        Kind::Returns,
        Kind::Panics,
        Kind::PanicsWithBomb,
        Kind::CapturesBomb,
        Kind::SubmitsFromDrop,
    ];

    /// Whether it counts as panicked when it has run.
    pub(super) fn panics(self) -> bool {
        !matches!(self, Kind::Returns | Kind::SubmitsFromDrop)
    }
}

/// What the closure returns: something to be counted, but for one that captures a bomb. There it
/// would be lost before the pool ever sees it: a function whose locals panic when dropped leaks what
/// it was about to return.
pub(super) type Returned = Option<Captured>;

type Child = Result<JobHandle<()>, Rejected>;

pub(super) struct Subject {
    pub(super) begun: Gate,
    pub(super) proceed: Gate,
    captures: Probe,
    results: Probe,
    child: Arc<Mutex<Option<Child>>>,
    child_captures: Probe,
}

/// What the closure captures besides.
enum Luggage {
    Nothing,
    Bomb { _dropped: Bomb },
    Submits { _dropped: Submitter },
}

struct Submitter {
    tenant: Tenant,
    captures: Probe,
    child: Arc<Mutex<Option<Child>>>,
}

impl Drop for Submitter {
    fn drop(&mut self) {
        let child = self.tenant.submit(self.captures.job());
        let child = child.map_err(|error| {
            let reason = error.reason();
            drop(error.into_job());
            reason
        });
        let before = self.child.lock().unwrap().replace(child);
        assert!(before.is_none(), "dropped twice");
    }
}

impl Subject {
    pub(super) fn submit(
        pool: &WorkerPool,
        tenant: &Tenant,
        kind: Kind,
    ) -> (Subject, JobHandle<Returned>) {
        let subject = Subject {
            begun: Gate::new(),
            proceed: Gate::new(),
            captures: Probe::new(),
            results: Probe::new(),
            child: Arc::default(),
            child_captures: Probe::new(),
        };
        let handle = pool.submit(subject.closure(kind, tenant));
        (subject, handle.expect("the pool accepts"))
    }

    fn closure(&self, kind: Kind, tenant: &Tenant) -> impl FnOnce() -> Returned + Send + use<> {
        let (begun, proceed) = (self.begun.clone(), self.proceed.clone());
        let (captured, results) = (self.captures.capture(), self.results.clone());
        let luggage = match kind {
            Kind::CapturesBomb => Luggage::Bomb { _dropped: Bomb(2) },
            Kind::SubmitsFromDrop => Luggage::Submits {
                _dropped: Submitter {
                    tenant: tenant.clone(),
                    captures: self.child_captures.clone(),
                    child: Arc::clone(&self.child),
                },
            },
            _ => Luggage::Nothing,
        };
        move || {
            let _dropped_on_return = &luggage;
            captured.run();
            begun.open();
            proceed.wait();
            match kind {
                Kind::Panics => quiet_panic("as it was told to"),
                Kind::PanicsWithBomb => quiet_panic(Bomb(2)),
                Kind::CapturesBomb => None,
                Kind::Returns | Kind::SubmitsFromDrop => Some(results.capture()),
            }
        }
    }

    /// Nothing is left of the job, nor of the one that its captures submitted; a result that is
    /// owned does not count.
    pub(super) fn is_gone(&self) -> bool {
        let child = self.child.lock().unwrap();
        let is_settled = |child: &Child| child.as_ref().map_or(true, JobHandle::is_finished);
        self.captures.dropped() == 1
            && self.results.dropped() == self.results.created()
            && self.child_captures.dropped() == self.child_captures.created()
            && child.as_ref().is_none_or(is_settled)
    }

    /// At the very end: everything was dropped once, and what ran is what should have.
    pub(super) fn check(self, combination: &Combination) {
        assert_eq!(self.captures.created(), 1);
        let ran = usize::from(combination.runs());
        self.captures.assert_all_dropped(ran);
        let returns = combination.runs() && !combination.kind.panics();
        assert_eq!(self.results.created(), usize::from(returns));
        self.results.assert_all_dropped(0);

        let child = self.child.lock().unwrap().take();
        let submits = combination.kind == Kind::SubmitsFromDrop;
        assert_eq!(child.is_some(), submits, "the captures were dropped");
        let (fate, ran) = match child {
            None => (None, 0),
            Some(Err(reason)) => {
                assert_eq!(reason, Rejected::ShutDown);
                (None, 0)
            }
            Some(Ok(handle)) => match handle.join() {
                Ok(()) => (Some(Fate::Completed), 1),
                Err(error) if error.is_cancelled() => (Some(Fate::Cancelled), 0),
                Err(_) => (Some(Fate::Discarded), 0),
            },
        };
        assert_eq!(fate, combination.child_fate());
        self.child_captures.assert_all_dropped(ran);
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// A job that keeps one worker, and does there what it is told.
pub(super) struct Agent {
    tasks: Option<mpsc::Sender<Task>>,
}

impl Agent {
    pub(super) fn start(pool: &WorkerPool) -> Agent {
        let (sender, tasks) = mpsc::channel::<Task>();
        let begun = Gate::new();
        let begins = begun.clone();
        let work = move || {
            begins.open();
            tasks.into_iter().for_each(|task| task());
        };
        pool.execute(work).expect("the pool accepts");
        begun.wait();
        Agent {
            tasks: Some(sender),
        }
    }

    /// Runs `task` in the job, and returns when it has.
    pub(super) fn run(&self, task: impl FnOnce() + Send + 'static) {
        let done = Gate::new();
        let is_done = done.clone();
        let task = Box::new(move || {
            task();
            is_done.open();
        });
        let tasks = self.tasks.as_ref().expect("it has not been dismissed");
        tasks.send(task).expect("the job is at work");
        done.wait();
    }

    /// The job ends.
    pub(super) fn dismiss(&mut self) {
        self.tasks = None;
    }
}
