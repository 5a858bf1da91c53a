//! The numbers of a pool: against a small model that knows nothing of threads, and over its life.

pub(crate) mod memory;

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;

use fairlane::{CancelToken, JobError, JobHandle, WorkerPool};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::common::*;
use crate::drops::passed;
use crate::panics::panicking;

/// What is done to the pool while all its workers are held.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        token: Option<usize>,
        panics: bool,
    },
    Execute {
        token: Option<usize>,
        panics: bool,
    },
    SubmitExpired,
    SubmitCancelled,
    CancelHandle(usize),
    DropHandle(usize),
    PollHandle(usize),
    CancelToken(usize),
    CancelQueued,
    /// Let the workers go, join what is left, and hold them again.
    Drain,
}

const TOKENS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let token = || prop::option::of(0..TOKENS);
    let step = prop_oneof![
        4 => (token(), any::<bool>()).prop_map(|(token, panics)| Step::Submit { token, panics }),
        3 => (token(), any::<bool>()).prop_map(|(token, panics)| Step::Execute { token, panics }),
        1 => Just(Step::SubmitExpired),
        1 => Just(Step::SubmitCancelled),
        3 => any::<usize>().prop_map(Step::CancelHandle),
        1 => any::<usize>().prop_map(Step::DropHandle),
        1 => any::<usize>().prop_map(Step::PollHandle),
        2 => (0..TOKENS).prop_map(Step::CancelToken),
        1 => Just(Step::CancelQueued),
        2 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 0..60)
}

/// One job as the model sees it.
#[derive(Clone, Copy)]
struct Modelled {
    token: Option<usize>,
    panics: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Queued,
    Completed,
    Panicked,
    Cancelled,
    Expired,
}

/// The pool and what it should say.
struct Machine {
    // Before the pool: if an assertion fails, the workers are let go before the pool is dropped.
    held: Option<Held>,
    pool: Arc<WorkerPool>,
    workers: usize,
    has_lanes: bool,
    /// Jobs that held the workers, and are done.
    let_go: u64,
    probe: Probe,
    tokens: Vec<CancelToken>,
    jobs: Vec<Modelled>,
    handles: Vec<(usize, JobHandle<()>)>,
}

impl Machine {
    fn new(flavour: &Flavour, workers: usize) -> Self {
        let mut machine = Self {
            held: None,
            pool: flavour.pool(workers),
            workers,
            has_lanes: flavour.pending(1, 0) == 0,
            let_go: 0,
            probe: Probe::new(),
            tokens: (0..TOKENS).map(|_| CancelToken::new()).collect(),
            jobs: Vec::new(),
            handles: Vec::new(),
        };
        machine.hold();
        machine
    }

    fn hold(&mut self) {
        self.held = Some(hold_workers(&self.pool, self.workers));
    }

    fn count(&self, state: State) -> usize {
        self.jobs.iter().filter(|job| job.state == state).count()
    }

    /// Enters a job into the model and returns its closure.
    fn job(
        &mut self,
        token: Option<usize>,
        panics: bool,
    ) -> impl FnOnce() + Send + 'static + use<> {
        self.jobs.push(Modelled {
            token,
            panics,
            state: State::Queued,
        });
        let (count, panic) = (self.probe.job(), panicking("as modelled"));
        move || {
            count();
            if panics {
                panic()
            }
        }
    }

    fn settle_queued(&mut self, state: State, of: impl Fn(&Modelled) -> bool) {
        let queued = self
            .jobs
            .iter_mut()
            .filter(|job| job.state == State::Queued);
        queued
            .filter(|job| of(job))
            .for_each(|job| job.state = state);
    }

    fn submit(&mut self, token: Option<usize>, panics: bool, at_once: Option<State>) {
        let job = self.job(token, panics);
        let id = self.jobs.len() - 1;
        let builder = match token {
            Some(token) => self.pool.job().cancel_token(&self.tokens[token]),
            None => self.pool.job(),
        };
        let handle = match at_once {
            None => builder.submit(job),
            Some(State::Expired) => builder.deadline(passed()).try_submit(job),
            Some(_) => {
                let cancelled = CancelToken::new();
                cancelled.cancel();
                builder.cancel_token(&cancelled).submit(job)
            }
        };
        if let Some(state) = at_once {
            self.jobs[id].state = state;
        }
        self.handles.push((id, handle.unwrap()));
    }

    /// The handle that a step means, if there is any.
    fn pick(&self, index: usize) -> Option<usize> {
        index.checked_rem(self.handles.len())
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Submit { token, panics } => self.submit(token, panics, None),
            Step::Execute { token, panics } => {
                let job = self.job(token, panics);
                match token {
                    Some(token) => {
                        let builder = self.pool.job().cancel_token(&self.tokens[token]);
                        builder.execute(job).unwrap();
                    }
                    None => self.pool.execute(job).unwrap(),
                }
            }
            Step::SubmitExpired => self.submit(None, false, Some(State::Expired)),
            Step::SubmitCancelled => self.submit(None, false, Some(State::Cancelled)),
            Step::CancelHandle(index) => {
                if let Some(index) = self.pick(index) {
                    let (id, handle) = &self.handles[index];
                    let job = &mut self.jobs[*id];
                    if job.state == State::Queued {
                        job.state = State::Cancelled;
                    }
                    let never_ran = !matches!(job.state, State::Completed | State::Panicked);
                    assert_eq!(handle.cancel(), never_ran, "{:?}", job.state);
                }
            }
            Step::DropHandle(index) => {
                if let Some(index) = self.pick(index) {
                    drop(self.handles.swap_remove(index));
                }
            }
            Step::PollHandle(index) => {
                if let Some(index) = self.pick(index) {
                    let (id, handle) = &self.handles[index];
                    assert_eq!(handle.is_finished(), self.jobs[*id].state != State::Queued);
                }
            }
            Step::CancelToken(token) => {
                let fresh = CancelToken::new();
                std::mem::replace(&mut self.tokens[token], fresh).cancel();
                self.settle_queued(State::Cancelled, |job| job.token == Some(token));
                // What is submitted from now on has the fresh one.
                for job in self.jobs.iter_mut().filter(|job| job.token == Some(token)) {
                    job.token = None;
                }
            }
            Step::CancelQueued => {
                assert_eq!(self.pool.cancel_queued(), self.count(State::Queued));
                self.settle_queued(State::Cancelled, |_| true);
            }
            Step::Drain => {
                self.drain();
                self.hold();
            }
        }
    }

    fn drain(&mut self) {
        if let Some(held) = self.held.take() {
            held.release();
            self.let_go += self.workers as u64;
        }
        self.settle_queued(State::Panicked, |job| job.panics);
        self.settle_queued(State::Completed, |_| true);
        for (id, handle) in self.handles.split_off(self.handles.len() / 2) {
            match (self.jobs[id].state, handle.join()) {
                (State::Completed, Ok(()))
                | (State::Panicked, Err(JobError::Panicked(_)))
                | (State::Cancelled, Err(JobError::Cancelled))
                | (State::Expired, Err(JobError::Expired)) => {}
                (state, outcome) => panic!("{state:?} in the model, but {outcome:?}"),
            }
        }
        self.pool.wait_idle();
    }

    fn check(&self) {
        let stats = self.pool.stats();
        let busy = if self.held.is_some() { self.workers } else { 0 };
        let queued = self.count(State::Queued);
        assert_eq!(stats.queued, queued, "{stats:?}");
        assert_eq!(stats.running, busy, "{stats:?}");
        assert_eq!(stats.workers, self.workers);
        let pending: usize = stats.slots.iter().map(|slot| slot.pending).sum();
        let waiting = if self.has_lanes { 0 } else { queued };
        assert_eq!(pending, waiting + busy, "{stats:?}");

        let held_jobs = self.let_go + busy as u64;
        let count = |state| self.count(state) as u64;
        assert_eq!(
            stats.submitted,
            self.jobs.len() as u64 + held_jobs,
            "{stats:?}"
        );
        assert_eq!(
            stats.completed,
            count(State::Completed) + self.let_go,
            "{stats:?}"
        );
        assert_eq!(stats.panicked, count(State::Panicked), "{stats:?}");
        assert_eq!(stats.cancelled, count(State::Cancelled), "{stats:?}");
        assert_eq!(stats.expired, count(State::Expired), "{stats:?}");
        assert_eq!(stats.discarded, 0, "{stats:?}");

        let ran = self.count(State::Completed) + self.count(State::Panicked);
        assert_eq!(self.probe.ran(), ran);
        assert_eq!(
            self.probe.created() - self.probe.dropped(),
            queued,
            "freed once settled"
        );
    }
}

scenario!(random_operations_agree_with_a_model, |flavour| {
    let cases = rounds(2_000) as u32;
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let run = |(workers, steps): (usize, Vec<Step>)| {
        let mut machine = Machine::new(flavour, workers);
        machine.check();
        for step in &steps {
            machine.apply(step);
            machine.check();
        }
        machine.drain();
        machine.check();
        machine.handles.clear();
        finish(machine.pool);
        Ok(())
    };
    if let Err(error) = TestRunner::new(config).run(&(1..4_usize, steps()), run) {
        panic!("{error}");
    }
});

scenario!(numbers_stay_sane_while_everything_moves, |flavour| {
    let pool = flavour.pool(2);
    let probe = Probe::new();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let n = rounds(50_000);
    thread::scope(|scope| {
        for producer in 0..3_usize {
            let (pool, probe, done) = (&pool, &probe, &done);
            scope.spawn(move || {
                let token = CancelToken::new();
                for i in 0..n {
                    match (i + producer) % 5 {
                        0 => drop(pool.submit(probe.job()).unwrap()),
                        1 => drop(pool.submit(probe.job()).unwrap().cancel()),
                        2 => pool
                            .job()
                            .cancel_token(&token.child())
                            .execute(probe.job())
                            .unwrap(),
                        3 => drop(pool.submit(probe.job()).unwrap().join()),
                        _ => pool.execute(probe.job()).unwrap(),
                    }
                }
                token.cancel();
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        let mut last = pool.stats();
        while done.load(std::sync::atomic::Ordering::SeqCst) < 3 {
            let stats = pool.stats();
            // Gauges never underflow, counters never go back.
            assert!(stats.queued <= 3 * n && stats.running <= 2 + 3, "{stats:?}");
            assert!(
                stats.slots.iter().all(|slot| slot.pending <= 3 * n),
                "{stats:?}"
            );
            assert!(stats.submitted >= last.submitted, "{last:?} then {stats:?}");
            assert!(stats.completed >= last.completed, "{last:?} then {stats:?}");
            assert!(stats.cancelled >= last.cancelled, "{last:?} then {stats:?}");
            last = stats;
        }
    });
    pool.wait_idle();
    let stats = pool.stats();
    assert_eq!(stats.submitted, 3 * n as u64);
    assert_eq!(stats.completed as usize, probe.ran());
    assert_eq!(probe.dropped(), probe.created());
    finish(pool);
});

scenario!(slots_are_named_and_counted, |flavour| {
    let n = workers();
    let pool = flavour.pool(n);
    assert_eq!(pool.workers(), n);
    let held = hold_workers(&pool, n);
    for _ in 0..10 * n {
        pool.execute(|| ()).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.workers, stats.running, stats.queued), (n, n, 10 * n));
    let names: Vec<_> = stats.slots.iter().map(|slot| slot.name.clone()).collect();
    let expected: Vec<_> = (0..n).map(|i| format!("w{i}")).collect();
    assert_eq!(names, expected);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), n);
    held.release();
    pool.wait_idle();
    let stats = pool.stats();
    let completed: u64 = stats.slots.iter().map(|slot| slot.completed).sum();
    assert_eq!(completed, stats.completed);
    assert_eq!(stats.submitted, 11 * n as u64);
    finish(pool);
});

scenario!(a_job_sees_itself_running, |flavour| {
    let pool = flavour.pool(1);
    let weak = Arc::downgrade(&pool);
    let pending = flavour.pending(1, 1);
    let job = pool.submit(move || {
        let pool = weak.upgrade().unwrap();
        let before = pool.stats();
        assert_eq!(
            (before.running, before.queued, before.slots[0].pending),
            (1, 0, 1)
        );
        let weak = Arc::downgrade(&pool);
        let child = pool
            .submit(move || weak.upgrade().unwrap().stats().running)
            .unwrap();
        let queued = pool.stats();
        assert_eq!(
            (queued.running, queued.queued, queued.slots[0].pending),
            (1, 1, pending)
        );
        // Run by its joiner, the child counts beside its parent.
        child.join().unwrap()
    });
    assert_eq!(job.unwrap().join().unwrap(), 2);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.submitted), (2, 2));
    finish(pool);
});

scenario!(a_join_then_finds_the_slot_free, |flavour| {
    // Done is counted before the result is out, so what the joiner sees is the truth.
    let pool = flavour.pool(1);
    for _ in 0..rounds(50_000) {
        pool.submit(|| ()).unwrap().join().unwrap();
        let stats = pool.stats();
        assert_eq!(
            (stats.queued, stats.running, stats.slots[0].pending),
            (0, 0, 0)
        );
        assert_eq!(stats.completed, stats.submitted);
    }
    finish(pool);
});

scenario!(an_idle_pool_has_nothing_pending, |flavour| {
    // Entries of cancelled jobs are still in the queues, where idle workers come across them.
    let pool = flavour.pool(workers());
    for _ in 0..rounds(20_000) {
        let jobs: Vec<_> = (0..40).map(|_| pool.submit(|| ()).unwrap()).collect();
        for job in &jobs {
            job.cancel();
        }
        pool.wait_idle();
        let stats = pool.stats();
        assert!(
            stats.slots.iter().all(|slot| slot.pending == 0),
            "{stats:?}"
        );
    }
    finish(pool);
});
