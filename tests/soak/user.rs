//! One of those who use a pool, and the jobs it submits.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane::{
    CancelToken, JobError, JobHandle, SubmitError, Tenant, Weight, WorkerLocal, WorkerPool,
};

use crate::batch::set_inside;
use crate::common::{Captured, Dice, Probe};
use crate::counts::{Counts, Event};
use crate::cycle::sample;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether there are maps and broadcasts, of which it is not known how many jobs they become.
    pub(crate) maps: bool,
    /// Whether somebody closes the pool while it is used.
    pub(crate) closes: bool,
    pub(crate) steps: usize,
}

type Outcome = Result<u64, JobError>;

/// What each worker has one of: how often it was used, and something whose drop is counted.
pub(crate) type Local = WorkerLocal<(u64, Captured)>;

pub(crate) struct User {
    pub(crate) counts: Arc<Counts>,
    pub(crate) probe: Probe,
    pub(crate) dice: Dice,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) token: CancelToken,
    pub(crate) local: Local,
    handles: Vec<JobHandle<u64>>,
}

/// What a job may do besides returning.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Returns,
    Spins(u64),
    Panics,
    JoinsChildren,
    LeavesChildren,
    Scopes,
    Gathers { all: bool },
}

impl Manner {
    fn roll(dice: &mut Dice) -> Manner {
        match dice.roll(32) {
            0..=2 => Manner::Panics,
            3..=5 => Manner::JoinsChildren,
            6 => Manner::LeavesChildren,
            7 => Manner::Scopes,
            8 => Manner::Gathers {
                all: dice.roll(2) == 0,
            },
            9..=15 => Manner::Spins(dice.roll(2_000)),
            _ => Manner::Returns,
        }
    }
}

/// What every job carries: its counts, and something whose drop is counted.
pub(crate) struct Job {
    pub(crate) counts: Arc<Counts>,
    captured: Captured,
    /// Memory to be given back.
    load: Vec<u8>,
    local: Local,
}

impl Job {
    pub(crate) fn new(counts: &Arc<Counts>, probe: &Probe, size: usize, local: &Local) -> Job {
        Job {
            counts: Arc::clone(counts),
            captured: probe.capture(),
            load: vec![7; size],
            local: local.clone(),
        }
    }

    pub(crate) fn begin(&self) -> u64 {
        self.counts.bump(Event::Begun);
        self.captured.run();
        let uses = self.local.with_mut(|(uses, _)| {
            *uses += 1;
            *uses
        });
        if uses > 1 {
            self.counts.bump(Event::LocalUsedAgain);
        }
        self.load.iter().map(|&byte| u64::from(byte)).sum()
    }
}

/// Counts what a submit came to.
pub(crate) fn count<T, F>(counts: &Counts, outcome: Result<T, SubmitError<F>>) -> Option<T> {
    match outcome {
        Ok(accepted) => {
            counts.bump(Event::Accepted);
            Some(accepted)
        }
        Err(error) => {
            counts.refusal(error.reason());
            None
        }
    }
}

/// Takes care that a result that panics when looked at wrong does not go unnoticed.
pub(crate) fn judge(counts: &Counts, outcome: Outcome) {
    counts.outcome(&outcome);
    if let Ok(sum) = outcome {
        assert_eq!(sum % 7, 0, "the load arrived as it was sent");
    }
}

fn local(probe: &Probe) -> Local {
    let probe = probe.clone();
    WorkerLocal::new(move || (0, probe.capture()))
}

impl User {
    pub(crate) fn new(
        pool: &WorkerPool,
        counts: &Arc<Counts>,
        probe: &Probe,
        dice: Dice,
        number: u64,
    ) -> User {
        User {
            counts: Arc::clone(counts),
            probe: probe.clone(),
            dice,
            tenants: vec![
                pool.tenant("everybody's"),
                pool.tenant(&format!("own {number}")),
            ],
            token: CancelToken::new(),
            local: local(probe),
            handles: Vec::new(),
        }
    }

    pub(crate) fn act(&mut self, pool: &WorkerPool, rules: Rules) {
        for step in 0..rules.steps {
            match self.dice.roll(44) {
                0..=19 => self.submit(pool),
                20..=26 => self.settle_one(),
                27 | 28 => self.set_something(pool),
                29 | 30 => self.cancel_token(),
                31 if self.dice.roll(8) == 0 => {
                    pool.cancel_queued();
                    self.counts.bump(Event::SweptQueue);
                }
                32 => self.wait_idle(pool),
                33 | 34 => self.scope(pool),
                35 | 36 if rules.maps => self.map(pool),
                37 if rules.maps => self.map_unordered(pool),
                38 => self.set(pool),
                39 if rules.maps => match self.dice.roll(2) {
                    0 => self.try_map(),
                    _ => self.broadcast(pool),
                },
                _ => sample(pool, &self.counts),
            }
            if rules.closes && step == rules.steps * 3 / 4 {
                pool.close();
                self.counts.bump(Event::Closed);
            }
        }
        // So that there is something to be ended.
        (0..self.dice.roll(100)).for_each(|_| self.submit(pool));
    }

    /// Every handle resolves, whatever has become of the pool.
    pub(crate) fn leave(mut self) {
        for handle in std::mem::take(&mut self.handles) {
            let outcome = match self.dice.roll(3) {
                0 => handle.join_timeout(Duration::MAX).expect("it settles"),
                _ => handle.join(),
            };
            judge(&self.counts, outcome);
        }
    }

    pub(crate) fn closure(&mut self) -> impl FnOnce() -> u64 + Send + 'static + use<> {
        let size = 7 * self.dice.roll(100) as usize;
        let job = Job::new(&self.counts, &self.probe, size, &self.local);
        let manner = Manner::roll(&mut self.dice);
        let tenant = self.tenants[self.dice.roll(self.tenants.len() as u64) as usize].clone();
        let children = [(); 3].map(|()| Job::new(&self.counts, &self.probe, 7, &self.local));
        move || {
            let sum = job.begin();
            match manner {
                Manner::Returns => sum,
                Manner::Spins(times) => {
                    (0..times).for_each(|_| std::hint::spin_loop());
                    sum
                }
                Manner::Panics => resume_unwind(Box::new(job)),
                Manner::JoinsChildren => sum + join_children(&tenant, children),
                Manner::LeavesChildren => {
                    for child in children {
                        let counts = Arc::clone(&child.counts);
                        if count(&counts, tenant.submit(move || child.begin())).is_some() {
                            counts.bump(Event::Detached);
                        }
                    }
                    sum
                }
                Manner::Scopes => sum + scope_inside(&tenant, children),
                Manner::Gathers { all } => sum + set_inside(&tenant, children, all),
            }
        }
    }

    fn submit(&mut self, pool: &WorkerPool) {
        let closure = self.closure();
        let mut job = pool.job().priority(self.dice.roll(3) as i32);
        job = match self.dice.roll(4) {
            0 => job,
            1 => job.tenant(format!("once {}", self.dice.roll(1 << 40))),
            _ => {
                let choice = self.dice.roll(self.tenants.len() as u64) as usize;
                job.tenant(&self.tenants[choice])
            }
        };
        if self.dice.roll(6) == 0 {
            job = job.weight(Weight::new(1 + self.dice.roll(9) as u32));
        }
        if self.dice.roll(4) == 0 {
            job = job.cancel_token(&self.token);
        }
        if self.dice.roll(6) == 0 {
            let soon = Duration::from_micros(self.dice.roll(300));
            job = job.deadline(Instant::now() + soon);
        }
        let timeout = Duration::from_micros(self.dice.roll(200));
        let outcome = match self.dice.roll(5) {
            0 => job.try_submit(closure),
            1 => job.submit_timeout(timeout, closure),
            2 => {
                let execute = job.execute(move || _ = closure());
                if count(&self.counts, execute).is_some() {
                    self.counts.bump(Event::Detached);
                }
                return;
            }
            _ => job.submit(closure),
        };
        self.handles.extend(count(&self.counts, outcome));
    }

    fn settle_one(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let choice = self.dice.roll(self.handles.len() as u64) as usize;
        let handle = self.handles.swap_remove(choice);
        match self.dice.roll(8) {
            0 => {
                let timeout = Duration::from_micros(self.dice.roll(100));
                match handle.join_timeout(timeout) {
                    Ok(outcome) => judge(&self.counts, outcome),
                    Err(handle) => {
                        self.counts.bump(Event::JoinTimedOut);
                        self.handles.push(handle);
                    }
                }
            }
            1 => {
                drop(handle);
                self.counts.bump(Event::Detached);
            }
            2 | 3 => {
                let is_off = handle.cancel();
                let outcome = handle.join();
                let ran = matches!(outcome, Ok(_) | Err(JobError::Panicked(_)));
                assert_eq!(is_off, !ran, "{outcome:?}");
                if is_off {
                    self.counts.bump(Event::CalledOff);
                }
                judge(&self.counts, outcome);
            }
            _ => judge(&self.counts, handle.join()),
        }
    }

    fn set_something(&mut self, pool: &WorkerPool) {
        self.counts.bump(Event::TenantSet);
        let value = 1 + self.dice.roll(5) as usize;
        let choice = self.dice.roll(self.tenants.len() as u64 + 1) as usize;
        let Some(tenant) = self.tenants.get(choice).cloned() else {
            let name = format!("now and then {value}");
            self.tenants.push(pool.tenant(&name));
            return;
        };
        match self.dice.roll(5) {
            0 | 1 => tenant.set_weight(Weight::new(value as u32)),
            2 => drop(tenant.with_max_running(value)),
            3 => drop(tenant.with_queue_limit(5 * value)),
            _ if self.tenants.len() > 2 => drop(self.tenants.swap_remove(choice)),
            _ => {}
        }
    }

    fn cancel_token(&mut self) {
        self.counts.bump(Event::TokenCancelled);
        let next = match self.dice.roll(2) {
            0 => CancelToken::new(),
            _ => self.token.child(),
        };
        std::mem::replace(&mut self.token, next).cancel();
        if self.token.is_cancelled() {
            self.token = CancelToken::new();
        }
    }

    fn wait_idle(&mut self, pool: &WorkerPool) {
        let timeout = Duration::from_micros(self.dice.roll(500));
        let came = match self.dice.roll(4) {
            0 => {
                pool.wait_idle();
                true
            }
            _ => pool.wait_idle_timeout(timeout),
        };
        if came {
            self.counts.bump(Event::WaitedIdle);
        }
    }

    /// Jobs that borrow what lies on this thread's stack, and sometimes panic.
    fn scope(&mut self, pool: &WorkerPool) {
        self.counts.bump(Event::Scope);
        let mut parts = [0_u64; 6];
        let panics = self.dice.roll(4) == 0;
        let (counts, probe, local) = (&self.counts, &self.probe, &self.local);
        let left = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                for (n, part) in parts.iter_mut().enumerate() {
                    let job = Job::new(counts, probe, 7, local);
                    let mut borrows = move || {
                        *part = job.begin();
                        if panics && n == 3 {
                            resume_unwind(Box::new("as a job may"));
                        }
                        *part
                    };
                    if n % 2 == 0 {
                        let handle = count(counts, scope.submit(borrows));
                        handle.into_iter().for_each(|job| judge(counts, job.join()));
                    } else if count(counts, scope.execute(move || _ = borrows())).is_some() {
                        counts.bump(Event::Detached);
                    }
                }
            });
        }));
        if left.is_err() {
            assert!(panics, "nothing else panics there");
            self.counts.bump(Event::ScopePanicked);
        }
        assert!(parts.iter().all(|part| part % 7 == 0), "{parts:?}");
    }

    fn map(&mut self, pool: &WorkerPool) {
        let (items, taken) = (self.dice.roll(40), self.dice.roll(50) as usize);
        let job = Job::new(&self.counts, &self.probe, 7, &self.local);
        let tenant = self.tenants[0].clone();
        let f = move |item| item_of_map(&job, item);
        let outcomes: Vec<_> = match self.dice.roll(2) {
            0 => pool.map(0..items, f).take(taken).collect(),
            _ => tenant.map(0..items, f).take(taken).collect(),
        };
        self.count_items(&outcomes, items, taken);
        for (item, outcome) in outcomes.into_iter().enumerate() {
            assert!(!outcome.is_ok_and(|found| found != item as u64));
        }
    }

    fn map_unordered(&mut self, pool: &WorkerPool) {
        let (items, taken) = (self.dice.roll(40), self.dice.roll(50) as usize);
        let job = Job::new(&self.counts, &self.probe, 7, &self.local);
        let map = pool.map_unordered(0..items, move |item| item_of_map(&job, item));
        let outcomes: Vec<_> = map.take(taken).collect();
        self.count_items(&outcomes, items, taken);
        let mut found: Vec<_> = outcomes.into_iter().flatten().collect();
        let before = found.len();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), before, "each item comes once");
    }

    fn count_items(&self, outcomes: &[Outcome], items: u64, taken: usize) {
        assert_eq!(outcomes.len(), taken.min(items as usize));
        outcomes
            .iter()
            .for_each(|_| self.counts.bump(Event::MapItem));
        if taken < items as usize {
            self.counts.bump(Event::MapLeft);
        }
    }
}

fn item_of_map(job: &Job, item: u64) -> u64 {
    job.begin();
    if item % 16 == 5 {
        resume_unwind(Box::new(item));
    }
    item
}

/// The last one submitted first, as a recursive job would.
fn join_children(tenant: &Tenant, children: [Job; 3]) -> u64 {
    let mut handles = Vec::new();
    for child in children {
        let counts = Arc::clone(&child.counts);
        let handle = count(&counts, tenant.submit(move || child.begin()));
        handles.extend(handle.map(|handle| (counts, handle)));
    }
    let mut sum = 0;
    while let Some((counts, handle)) = handles.pop() {
        let outcome = handle.join();
        sum += outcome.as_ref().copied().unwrap_or(0);
        judge(&counts, outcome);
        counts.bump(Event::JoinedInside);
    }
    sum
}

fn scope_inside(tenant: &Tenant, children: [Job; 3]) -> u64 {
    let mut parts = [0_u64; 3];
    tenant.scope(|scope| {
        for (part, child) in parts.iter_mut().zip(children) {
            let counts = Arc::clone(&child.counts);
            let execute = scope.execute(move || *part = child.begin());
            if count(&counts, execute).is_some() {
                counts.bump(Event::Detached);
            }
        }
    });
    parts.iter().sum()
}
