//! Random lives of a gate on one thread, against a plain account of who may run what.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::fair::Priority;
use crate::job::{Home, HomeKeeper, JobHandle, Stage};
use crate::ledger::Fate;
use crate::sync::Weak;

const NAMES: [&str; 4] = ["", "a", "b", "c"];
const TOKENS: usize = 3;
const ROOM: usize = 12;

/// A pool as far as a job that is cancelled calls on it.
struct Keeper(Gate);

impl HomeKeeper for Keeper {
    fn withdrawn(&self, _: usize, place: &Place, _: Fate) {
        self.0.withdraw(place);
    }

    fn begin_in_place(&self, place: &Place, claim: &dyn Fn() -> Option<usize>) -> Option<InPlace> {
        self.0.begin_in_place(place, claim)
    }

    fn end_in_place(&self, _: &InPlace, _: bool) {}

    fn gone(&self, _: usize) {}
}

#[derive(Clone, Debug)]
enum Op {
    /// Tenant, weight, priority, by its handle if there is one.
    Push(usize, Option<u32>, i32, bool),
    /// As `Push`, into reserved room.
    Enter(usize),
    GiveBack(usize),
    TakeUp,
    End(usize, bool),
    Cancel(usize),
    Open(usize),
    Close(usize),
    SetWeight(usize, u32),
    SetMaxRunning(usize, usize),
    SetQueueLimit(usize, usize),
    Drain,
    Look,
}

fn op() -> impl Strategy<Value = Op> {
    let tenant = 0..NAMES.len();
    prop_oneof![
        8 => (tenant.clone(), prop::option::weighted(0.2, 1..5_u32), -1..2_i32, any::<bool>())
            .prop_map(|(t, w, p, h)| Op::Push(t, w, p, h)),
        3 => tenant.clone().prop_map(Op::Enter),
        1 => tenant.clone().prop_map(Op::GiveBack),
        6 => Just(Op::TakeUp),
        6 => (0..9_usize, any::<bool>()).prop_map(|(i, stays)| Op::End(i, stays)),
        3 => (0..99_usize).prop_map(Op::Cancel),
        1 => tenant.clone().prop_map(Op::Open),
        1 => tenant.clone().prop_map(Op::Close),
        1 => (tenant.clone(), 1..5_u32).prop_map(|(t, w)| Op::SetWeight(t, w)),
        1 => (tenant.clone(), 1..4_usize).prop_map(|(t, n)| Op::SetMaxRunning(t, n)),
        1 => (tenant, 1..6_usize).prop_map(|(t, n)| Op::SetQueueLimit(t, n)),
        1 => Just(Op::Drain),
        4 => Just(Op::Look),
    ]
}

fn stage(load: &Load) -> Stage<'_> {
    Stage {
        load,
        room: None,
        turn: None,
        idle: None,
    }
}

/// What is expected of one tenant.
#[derive(Clone, Default)]
struct Expected {
    handle: Option<Id>,
    weight: Option<u32>,
    /// (−priority, arrival) of what is queued.
    queued: BTreeSet<(i32, usize)>,
    running: usize,
    completed: u64,
    reserved: Vec<Id>,
    max_running: Option<usize>,
    queue_limit: Option<usize>,
}

impl Expected {
    fn is_busy(&self) -> bool {
        !self.queued.is_empty() || self.running > 0 || !self.reserved.is_empty()
    }

    fn may_run(&self) -> bool {
        !self.queued.is_empty() && self.max_running.is_none_or(|most| self.running < most)
    }

    /// With nothing going on and no handle, all is forgotten.
    fn tidy(&mut self) {
        if !self.is_busy() && self.handle.is_none() {
            *self = Expected::default();
        }
    }
}

struct Trace {
    keeper: Arc<Keeper>,
    home: Home,
    tenants: Vec<Expected>,
    /// Which job is which: the last that ran told its number here.
    told: Arc<AtomicUsize>,
    handles: BTreeMap<usize, (JobHandle<()>, usize, i32)>,
    /// Tokens that wait at a slot.
    waiting: usize,
    running: Vec<(Admitted, usize)>,
    next: usize,
    has_limit: bool,
}

impl Trace {
    fn new(queue: FairQueue<Id, Job>, has_limit: bool) -> Trace {
        let limit = has_limit.then_some(ROOM);
        let keeper = Arc::new(Keeper(Gate::new(queue, TOKENS, limit)));
        let weak: Weak<dyn HomeKeeper> = Arc::downgrade(&keeper) as _;
        Trace {
            keeper,
            home: Home::new(weak),
            tenants: vec![Expected::default(); NAMES.len()],
            told: Arc::default(),
            handles: BTreeMap::new(),
            waiting: 0,
            running: Vec::new(),
            next: 0,
            has_limit,
        }
    }

    fn gate(&self) -> &Gate {
        &self.keeper.0
    }

    fn who(&self, tenant: usize, by_handle: bool) -> Who<'static> {
        match self.tenants[tenant].handle {
            Some(id) if by_handle => Who::Known(id),
            _ if tenant == 0 => Who::Nameless,
            _ => Who::Named(NAMES[tenant]),
        }
    }

    fn push(
        &mut self,
        tenant: usize,
        weight: Option<u32>,
        priority: i32,
        who: Who<'_>,
        room: Option<Id>,
    ) {
        let (number, told) = (self.next, Arc::clone(&self.told));
        self.next += 1;
        let run = move || told.store(number, Ordering::Relaxed);
        let job = if number % 3 == 0 {
            Job::new(run)
        } else {
            let (job, handle) = JobHandle::queued(&self.home, 0, None, run);
            self.handles.insert(number, (handle, tenant, priority));
            job
        };
        let request = Request {
            who,
            weight: weight.map(Weight::new),
            priority: Priority(priority),
        };
        self.waiting += usize::from(self.gate().push(request, room, job));
        let expected = &mut self.tenants[tenant];
        expected.weight = weight.or(expected.weight);
        expected.queued.insert((-priority, number));
    }

    fn used(&self) -> usize {
        let used = |tenant: &Expected| tenant.queued.len() + tenant.reserved.len();
        self.tenants.iter().map(used).sum()
    }

    fn has_room(&self, tenant: usize) -> bool {
        let expected = &self.tenants[tenant];
        let own = expected.queued.len() + expected.reserved.len();
        expected.queue_limit.is_none_or(|limit| own < limit)
            && (!self.has_limit || self.used() < ROOM)
    }

    fn tenant_of(&self, id: Id) -> usize {
        let name = Arc::clone(&self.gate().lock().tenants[id].name);
        NAMES
            .iter()
            .position(|known| **known == *name)
            .expect("a tenant of ours")
    }

    /// Looks at a step: the tenant's first job has come, and it may run.
    fn take(&mut self, step: Step) {
        self.waiting += usize::from(step.passes_on);
        let Some(admitted) = step.admitted else {
            return;
        };
        let tenant = self.tenant_of(admitted.tenant);
        let expected = &mut self.tenants[tenant];
        assert!(expected.may_run(), "{tenant} runs more than it may");
        let (_, number) = expected.queued.pop_first().expect("a queued job");
        expected.running += 1;
        self.running.push((admitted, number));
    }

    fn end(&mut self, at: usize, stays: bool) {
        let (Admitted { job, tenant: id }, number) = self.running.swap_remove(at);
        assert!(!job.run_claimed(&stage(&Load::default())), "it panicked");
        assert_eq!(
            self.told.load(Ordering::Relaxed),
            number,
            "the first of its lane"
        );
        self.handles.remove(&number);
        let tenant = self.tenant_of(id);
        let expected = &mut self.tenants[tenant];
        expected.running -= 1;
        expected.completed += 1;
        expected.tidy();
        // By count nobody asks.
        let spent = number as u64 * 37 % 100;
        if stays {
            let step = self.gate().next(id, spent);
            self.take(step);
        } else {
            self.waiting += usize::from(self.gate().end_and_pass_on(id, spent));
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Push(tenant, weight, priority, by_handle) if !self.gate().has_limits() => {
                let who = self.who(tenant, by_handle);
                self.push(tenant, weight, priority, who, None);
            }
            Op::Push(tenant, ..) | Op::Enter(tenant) => {
                let who = self.who(tenant, tenant % 2 == 0);
                let (entry, id) = self.gate().try_enter(who);
                assert_eq!(entry == Entry::Granted, self.has_room(tenant));
                if let Some(id) = id {
                    self.tenants[tenant].reserved.push(id);
                    if self.next % 2 == 0 {
                        self.tenants[tenant].reserved.pop();
                        self.push(tenant, None, 0, who, Some(id));
                    } else {
                        self.next += 1;
                    }
                }
            }
            Op::GiveBack(tenant) => {
                if let Some(id) = self.tenants[tenant].reserved.pop() {
                    self.gate().give_back(id);
                    self.tenants[tenant].tidy();
                }
            }
            Op::TakeUp if self.waiting > 0 => {
                self.waiting -= 1;
                let step = self.gate().first();
                self.take(step);
            }
            Op::End(at, stays) if !self.running.is_empty() => {
                self.end(at % self.running.len(), stays)
            }
            Op::Cancel(at) if !self.handles.is_empty() => {
                let number = *self
                    .handles
                    .keys()
                    .nth(at % self.handles.len())
                    .expect("one of them");
                let (handle, tenant, priority) = self.handles.remove(&number).expect("it is there");
                let expected = &mut self.tenants[tenant];
                let was_queued = expected.queued.remove(&(-priority, number));
                assert_eq!(handle.cancel(), was_queued);
                expected.tidy();
            }
            Op::Open(tenant) if self.tenants[tenant].handle.is_none() => {
                let id = self.gate().open_account(NAMES[tenant]);
                self.tenants[tenant].handle = Some(id);
            }
            Op::Close(tenant) => {
                if let Some(id) = self.tenants[tenant].handle.take() {
                    self.gate().close_account(id);
                    self.tenants[tenant].tidy();
                }
            }
            Op::SetWeight(tenant, weight) => {
                if let Some(id) = self.tenants[tenant].handle {
                    self.gate().set_weight(id, Weight::new(weight));
                    self.tenants[tenant].weight = Some(weight);
                }
            }
            Op::SetMaxRunning(tenant, most) => {
                if let Some(id) = self.tenants[tenant].handle {
                    self.waiting += self.gate().set_max_running(id, most);
                    self.tenants[tenant].max_running = Some(most);
                }
            }
            Op::SetQueueLimit(tenant, most) => {
                if let Some(id) = self.tenants[tenant].handle {
                    self.gate().set_queue_limit(id, most);
                    self.tenants[tenant].queue_limit = Some(most);
                }
            }
            Op::Drain => {
                let jobs = self.gate().drain();
                let queued: usize = self.tenants.iter().map(|tenant| tenant.queued.len()).sum();
                assert_eq!(jobs.len(), queued);
                for tenant in &mut self.tenants {
                    for (_, number) in &tenant.queued {
                        self.handles.remove(number);
                    }
                    tenant.queued.clear();
                    tenant.tidy();
                }
                for job in jobs {
                    assert!(job.withdraw(&stage(&Load::default()), Fate::Cancelled));
                }
            }
            Op::Look => self.look(),
            _ => {}
        }
        assert!(
            self.waiting > 0
                || self.running.len() == TOKENS
                || !self.tenants.iter().any(Expected::may_run),
            "a token is at home, and a job that may run is left"
        );
        assert!(self.waiting + self.running.len() <= TOKENS);
    }

    /// What the gate tells is what is expected; it remembers nobody else.
    fn look(&self) {
        let told: BTreeMap<_, _> = self
            .gate()
            .tenants()
            .into_iter()
            .map(|t| (t.name.to_string(), t))
            .collect();
        for (name, expected) in NAMES.iter().zip(&self.tenants) {
            let lives = expected.is_busy() || expected.handle.is_some();
            assert_eq!(told.contains_key(*name), lives, "{name}");
            let Some(told) = told.get(*name) else {
                continue;
            };
            assert_eq!(told.weight.get(), expected.weight.unwrap_or(1));
            assert_eq!(
                (told.queued, told.running, told.completed),
                (expected.queued.len(), expected.running, expected.completed)
            );
        }
        assert_eq!(
            self.gate().is_at_rest(),
            self.waiting + self.running.len() == 0
        );
    }

    /// Lets everything run that there is.
    fn run_out(mut self) {
        for tenant in 0..NAMES.len() {
            self.apply(Op::Close(tenant));
            for _ in 0..self.tenants[tenant].reserved.len() {
                self.apply(Op::GiveBack(tenant));
            }
        }
        while self.waiting + self.running.len() > 0 {
            self.apply(Op::TakeUp);
            self.apply(Op::End(0, true));
        }
        self.look();
        assert!(self.gate().tenants().is_empty());
        while self.gate().close_paid_off() {}
        assert_eq!(self.gate().lock().tenants.open_accounts(), 0);
    }
}

#[test]
fn a_weight_outlives_the_job_it_came_with_that_is_cancelled_on_its_way() {
    let mut trace = Trace::new(FairQueue::new(), false);
    let push = |tenant, weight| Op::Push(tenant, weight, 0, false);
    // From the fourth on they wait for somebody to take them to their lanes.
    (0..5).for_each(|_| trace.apply(push(0, None)));
    let [first, second] = [push(3, Some(2)), push(3, None)];
    trace.apply(first);
    let its_place = trace.handles.len() - 1;
    trace.apply(second);
    trace.apply(Op::Cancel(its_place));
    trace.look();
    trace.run_out();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_gate_agrees_with_a_plain_account(
        (charges, has_limit) in any::<(bool, bool)>(),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let queue = if charges { FairQueue::by_cost() } else { FairQueue::new() };
        let mut trace = Trace::new(queue, has_limit);
        ops.into_iter().for_each(|op| trace.apply(op));
        trace.run_out();
    }
}
