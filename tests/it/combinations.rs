//! Every combination of what a job does, what becomes of its handle, how its pool ends, and when.
//!
//! A job goes through three stages: queued, running, finished. Its handle is used at one of them and
//! its pool ends at one of them, in either order. What must come of it follows from the few rules of
//! [`Combination`]; the rest of the file brings the combination about and compares.

mod subject;

use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use fairlane::{CancelToken, JobError, JobHandle, PoolStats, ShutdownTimeout, Tenant, WorkerPool};

use crate::common::*;
use crate::panics::{defuse, workers_meet};
use subject::{Agent, Kind, Returned, Subject};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Queued,
    Running,
    Finished,
}

const WHENS: [When; 3] = [When::Queued, When::Running, When::Finished];

/// What becomes of the handle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Join,
    JoinTimeout,
    Drop,
    Cancel,
}

const USES: [Use; 4] = [Use::Join, Use::JoinTimeout, Use::Drop, Use::Cancel];

/// How the pool ends: by its only owner's word, inside a job, or as one of several owners ends it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Shutdown,
    ShutdownNow,
    ShutdownTimeout,
    DropInside,
    CloseAndWait,
    CloseAndCancel,
}

const ENDS: [End; 6] = [
    End::Shutdown,
    End::ShutdownNow,
    End::ShutdownTimeout,
    End::DropInside,
    End::CloseAndWait,
    End::CloseAndCancel,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Completed,
    Panicked,
    Cancelled,
    Discarded,
}

#[derive(Clone, Copy, Debug)]
struct Combination {
    kind: Kind,
    used: (Use, When),
    end: (End, When),
}

impl Combination {
    fn all() -> Vec<Combination> {
        fn pairs<T: Copy>(of: &[T]) -> impl Iterator<Item = (T, When)> {
            of.iter().flat_map(|&of| WHENS.map(|when| (of, when)))
        }
        let mut all = Vec::new();
        for kind in Kind::ALL {
            for used in pairs(&USES) {
                all.extend(pairs(&ENDS).map(|end| Combination { kind, used, end }));
            }
        }
        all
    }

    fn is_called_off(&self) -> bool {
        self.used == (Use::Cancel, When::Queued)
    }

    /// What the end of the pool does to a job that is queued then.
    fn fate_of_the_queued(&self) -> Option<Fate> {
        match self.end.0 {
            End::ShutdownNow | End::CloseAndCancel => Some(Fate::Cancelled),
            End::ShutdownTimeout => Some(Fate::Discarded),
            End::Shutdown | End::DropInside | End::CloseAndWait => None,
        }
    }

    fn ends_at(&self, when: When) -> bool {
        self.end.1 == when
    }

    /// At one stage the handle is used first, then the pool ends.
    fn fate(&self) -> Fate {
        let swept = self
            .fate_of_the_queued()
            .filter(|_| self.ends_at(When::Queued));
        match swept {
            _ if self.is_called_off() => Fate::Cancelled,
            Some(fate) => fate,
            None if self.kind.panics() => Fate::Panicked,
            None => Fate::Completed,
        }
    }

    fn runs(&self) -> bool {
        matches!(self.fate(), Fate::Completed | Fate::Panicked)
    }

    /// Whether the job has settled when its handle is used.
    fn is_settled_at_use(&self) -> bool {
        match self.used.1 {
            When::Queued => false,
            When::Running => !self.runs(),
            When::Finished => true,
        }
    }

    /// What becomes of the job that the captures submit when they are dropped, if it is accepted: it
    /// is as long as the pool has not ended.
    fn child_fate(&self) -> Option<Fate> {
        let is_open = self.is_called_off() || (self.runs() && self.ends_at(When::Finished));
        if self.kind != Kind::SubmitsFromDrop || !is_open {
            return None;
        }
        let is_queued_at_the_end = self.ends_at(When::Queued);
        let swept = self.fate_of_the_queued().filter(|_| is_queued_at_the_end);
        Some(swept.unwrap_or(Fate::Completed))
    }
}

/// Says which combination it was that failed.
struct Shown<'a>(&'a Combination);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed: {:?}", self.0);
        }
    }
}

/// Two workers: one runs the agent throughout, the other the blocker, then the job in question.
const WORKERS: usize = 2;

/// The fields whose drop lets jobs go come first: when an assertion fails, the pool waits for them.
struct Trial<'scope, 'env> {
    agent: Agent,
    blocker: Held,
    subject: Subject,
    combination: &'env Combination,
    scope: &'scope Scope<'scope, 'env>,
    /// Given up when the pool ends.
    pool: Option<Arc<WorkerPool>>,
    /// Not an owner, yet it can tell whether the pool is closed.
    tenant: Tenant,
    stopped: Counter,
    handle: Option<JobHandle<Returned>>,
    joiner: Option<ScopedJoinHandle<'scope, Result<Returned, JobError>>>,
    outcome: Option<Result<Returned, JobError>>,
    ended: Ended<'scope>,
    /// Jobs settled at submit, to see whether the pool is closed.
    knocks: u64,
}

enum Ended<'scope> {
    NotYet,
    /// The thread that ends it, and returns how many jobs that has cancelled.
    OnThread(ScopedJoinHandle<'scope, Closing>),
    /// Its last job ends it.
    Detached,
}

/// What the end of a pool told.
#[derive(Default)]
struct Closing {
    cancelled: usize,
    /// Taken with nothing left to do, if the end gives occasion.
    stats: Option<PoolStats>,
}

impl<'scope, 'env> Trial<'scope, 'env> {
    fn begin(
        flavour: &Flavour,
        combination: &'env Combination,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Self {
        let stopped = Counter::new();
        let stops = stopped.clone();
        let builder = flavour.builder().workers(WORKERS);
        let pool = flavour.build(builder.on_thread_stop(move |_| stops.bump()));
        let tenant = pool.tenant("the subject's");
        let agent = Agent::start(&pool);
        let blocker = hold_workers(&pool, 1);
        let (subject, handle) = Subject::submit(&pool, &tenant, combination.kind);
        Trial {
            agent,
            blocker,
            subject,
            combination,
            scope,
            pool: Some(pool),
            tenant,
            stopped,
            handle: Some(handle),
            joiner: None,
            outcome: None,
            ended: Ended::NotYet,
            knocks: 0,
        }
    }

    fn run(mut self) {
        for when in WHENS {
            self.reach(when);
            if self.combination.used.1 == when {
                self.use_handle();
            }
            if self.combination.end.1 == when {
                self.end_pool();
            }
        }
        self.conclude();
    }

    /// Lets the job come to the stage, if it ever does.
    fn reach(&mut self, when: When) {
        match when {
            When::Queued => {}
            When::Running => {
                self.blocker.open();
                if self.combination.runs() {
                    self.subject.begun.wait();
                }
            }
            When::Finished => {
                self.subject.proceed.open();
                if let Some(handle) = &self.handle {
                    eventually("the job settles", || handle.is_finished());
                }
            }
        }
        self.check_open_pool(when);
    }

    /// As long as it is open, a pool's numbers are known to the last one.
    fn check_open_pool(&self, when: When) {
        let Some(pool) = &self.pool else { return };
        let combination = self.combination;
        let is_gone = self.is_off() || when == When::Finished;
        let child = usize::from(is_gone && combination.child_fate().is_some());
        // The agent runs, then the blocker or the job.
        let (queued, running) = match when {
            When::Queued => (usize::from(!is_gone) + child, 2),
            When::Running => (0, 1 + usize::from(combination.runs())),
            When::Finished => (0, 1),
        };
        eventually("the jobs are where they should be", || {
            let stats = pool.stats();
            let submitted = stats.submitted == 3 + child as u64;
            submitted && (stats.queued, stats.running) == (queued, running)
        });
        let mut expected = Settled::default();
        if when > When::Queued {
            expected.add(Fate::Completed, 1 + child as u64);
        }
        if is_gone {
            expected.add(combination.fate(), 1);
        }
        let stats = pool.stats();
        assert_eq!(Settled::of(&stats), expected, "{stats:?}");
        assert_eq!(stats.workers, WORKERS);
    }

    /// Whether the job has been called off by now.
    fn is_off(&self) -> bool {
        self.combination.is_called_off() && self.handle.as_ref().is_some_and(JobHandle::is_finished)
    }

    fn use_handle(&mut self) {
        let handle = self.handle.take().expect("it is used once");
        let is_settled = self.combination.is_settled_at_use();
        match self.combination.used.0 {
            Use::Join if is_settled => self.outcome = Some(handle.join()),
            Use::Join => self.joiner = Some(spawn_blocked(self.scope, || handle.join())),
            Use::JoinTimeout => match handle.join_timeout(Duration::ZERO) {
                Ok(outcome) => {
                    assert!(is_settled, "nothing has come of it yet");
                    self.outcome = Some(outcome);
                }
                Err(handle) => {
                    assert!(!is_settled, "it has settled");
                    self.handle = Some(handle);
                }
            },
            Use::Drop => drop(handle),
            Use::Cancel => {
                assert_eq!(handle.cancel(), !self.combination.runs());
                self.handle = Some(handle);
            }
        }
        self.check_open_pool(self.combination.used.1);
    }

    fn end_pool(&mut self) {
        let pool = self.pool.take().expect("it ends once");
        if self.combination.ends_at(When::Finished) {
            // Both workers are alive and well, whatever the job did. One is the agent's.
            workers_meet(&pool, WORKERS - 1);
        }
        let (queued, running) = (pool.stats().queued, pool.stats().running);
        match self.combination.end.0 {
            End::Shutdown => self.end_on_thread(move || {
                owned(pool).shutdown();
                Closing::default()
            }),
            End::ShutdownNow => self.end_on_thread(move || Closing {
                cancelled: owned(pool).shutdown_now(),
                stats: None,
            }),
            End::CloseAndWait => self.end_on_thread(move || close_as_owner(pool, false)),
            End::CloseAndCancel => self.end_on_thread(move || close_as_owner(pool, true)),
            End::ShutdownTimeout => {
                let left = owned(pool).shutdown_timeout(Duration::ZERO);
                let left = left.expect_err("the agent is at work");
                let both = |left: ShutdownTimeout| (left.discarded(), left.running());
                assert_eq!(both(left), (queued, running));
                self.ended = Ended::Detached;
            }
            End::DropInside => {
                self.agent.run(move || drop(owned(pool)));
                self.ended = Ended::Detached;
            }
        }
        let swept = self.combination.fate_of_the_queued();
        if swept.is_some() && self.combination.ends_at(When::Queued) {
            eventually("all that was queued is withdrawn", || {
                self.subject.is_gone() && self.handle.as_ref().is_none_or(JobHandle::is_finished)
            });
        }
        assert_eq!(self.stopped.get(), 0, "a thread has stopped too early");
    }

    fn end_on_thread(&mut self, end: impl FnOnce() -> Closing + Send + 'scope) {
        self.ended = Ended::OnThread(self.scope.spawn(end));
        let passed = CancelToken::new();
        passed.cancel();
        eventually("the pool is closed", || {
            let knock = self.tenant.job().cancel_token(&passed).try_submit(|| ());
            self.knocks += u64::from(knock.is_ok());
            knock.is_err()
        });
    }

    /// Lets everything go, and compares.
    fn conclude(mut self) {
        let combination = self.combination;
        self.agent.dismiss();
        let is_detached = matches!(self.ended, Ended::Detached);
        match std::mem::replace(&mut self.ended, Ended::NotYet) {
            Ended::NotYet => unreachable!("every combination ends its pool"),
            Ended::OnThread(thread) => {
                let closing = thread.join().unwrap();
                assert_eq!(self.stopped.get(), WORKERS, "threads are gone when told");
                self.check_closing(&closing);
            }
            Ended::Detached => {
                eventually("the threads end after their last job", || {
                    self.stopped.get() == WORKERS
                });
            }
        }
        if let Some(joiner) = self.joiner.take() {
            self.outcome = Some(joiner.join().unwrap());
        }
        if let Some(handle) = self.handle.take() {
            let outcome = handle.join_timeout(Duration::MAX);
            self.outcome = Some(outcome.expect("every job settles"));
        }
        match self.outcome.take() {
            None => assert_eq!(combination.used.0, Use::Drop),
            Some(outcome) => {
                assert_eq!(fate_of(&outcome), combination.fate());
                defuse(outcome);
            }
        }
        if is_detached {
            // Its captures and a result that nobody owns may be on their way out.
            eventually("nothing is left of the job", || self.subject.is_gone());
        }
        self.subject.check(combination);
    }

    fn check_closing(&self, closing: &Closing) {
        let combination = self.combination;
        let swept = combination.ends_at(When::Queued) && combination.fate_of_the_queued().is_some();
        let expected = match (swept, combination.is_called_off(), combination.child_fate()) {
            (false, ..) => 0,
            (true, false, _) => 1,
            (true, true, child) => usize::from(child.is_some()),
        };
        assert_eq!(closing.cancelled, expected, "cancelled by the end");
        let Some(stats) = &closing.stats else { return };
        assert_eq!((stats.queued, stats.running), (0, 0), "{stats:?}");
        let no_pending = stats.slots.iter().all(|slot| slot.pending == 0);
        assert!(no_pending && stats.tenants.iter().all(|t| t.queued + t.running == 0));
        // The agent, the blocker, and whoever met.
        let others = 2 + if combination.ends_at(When::Finished) {
            1
        } else {
            0
        };
        let mut expected = Settled::default();
        expected.add(Fate::Completed, others);
        expected.add(Fate::Cancelled, self.knocks);
        expected.add(combination.fate(), 1);
        if let Some(fate) = combination.child_fate() {
            expected.add(fate, 1);
        }
        assert_eq!(Settled::of(stats), expected, "{stats:?}");
        assert_eq!(stats.submitted, expected.total(), "{stats:?}");
    }
}

fn owned(pool: Arc<WorkerPool>) -> WorkerPool {
    Arc::into_inner(pool).expect("nothing else owns the pool")
}

/// As several owners end a pool, of which this is the last one.
fn close_as_owner(pool: Arc<WorkerPool>, cancels: bool) -> Closing {
    pool.close();
    let cancelled = if cancels { pool.cancel_queued() } else { 0 };
    pool.wait_idle();
    Closing {
        cancelled,
        stats: Some(pool.stats()),
    }
}

fn fate_of(outcome: &Result<Returned, JobError>) -> Fate {
    match outcome {
        Ok(_) => Fate::Completed,
        Err(JobError::Panicked(_)) => Fate::Panicked,
        Err(JobError::Cancelled) => Fate::Cancelled,
        Err(JobError::Discarded) => Fate::Discarded,
        Err(other) => panic!("{other:?} is none of what may come of it"),
    }
}

/// How many jobs have settled, and how.
#[derive(Debug, Default, PartialEq)]
struct Settled {
    completed: u64,
    panicked: u64,
    cancelled: u64,
    discarded: u64,
    expired: u64,
}

impl Settled {
    fn of(stats: &PoolStats) -> Settled {
        Settled {
            completed: stats.completed,
            panicked: stats.panicked,
            cancelled: stats.cancelled,
            discarded: stats.discarded,
            expired: stats.expired,
        }
    }

    fn add(&mut self, fate: Fate, jobs: u64) {
        match fate {
            Fate::Completed => self.completed += jobs,
            Fate::Panicked => self.panicked += jobs,
            Fate::Cancelled => self.cancelled += jobs,
            Fate::Discarded => self.discarded += jobs,
        }
    }

    fn total(&self) -> u64 {
        self.completed + self.panicked + self.cancelled + self.discarded + self.expired
    }
}

scenario!(every_combination, |flavour| {
    let all = Combination::all();
    assert_eq!(all.len(), 5 * (4 * 3) * (6 * 3));
    for combination in all {
        let _shown = Shown(&combination);

        thread::scope(|scope| Trial::begin(flavour, &combination, scope).run());
        assert_no_threads(flavour.thread_prefix());
    }
});
