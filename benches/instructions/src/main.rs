//! Hot paths in loops of a fixed length, for callgrind to count instructions of.
//!
//! Only what runs below [`measured`] counts, and only on the thread that calls it: the submitter's
//! side. The workers are blocked meanwhile, so that nobody sleeps and no wake depends on chance, and
//! two runs give the same number.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};

use fairlane::Strategy::{LeastBusy, RoundRobin};
use fairlane::{
    CancelToken, FairQueue, JobHandle, PoolBuilder, Priority, SlotLoad, Strategy, Weight,
    WorkerPool, pick_slot,
};

const WORKERS: usize = 2;

/// Calls before the counted ones, which then find caches, allocator and queues warm.
const WARM_UP: usize = 1_000;

/// Counts a loop of so many calls.
type Case = fn(usize);

/// The first is the baseline: the loop alone.
const CASES: [(&str, Case); 26] = [
    ("empty", |calls| measured(calls, |_| ())),
    ("pick_slot-round-robin-2", |n| pick(n, RoundRobin, 2, 1)),
    ("pick_slot-round-robin-64", |n| pick(n, RoundRobin, 64, 1)),
    ("pick_slot-round-robin-1024", |n| {
        pick(n, RoundRobin, 1_024, 1)
    }),
    ("pick_slot-least-busy-2", |n| pick(n, LeastBusy, 2, 1)),
    ("pick_slot-least-busy-64", |n| pick(n, LeastBusy, 64, 1)),
    ("pick_slot-least-busy-1024", |n| {
        pick(n, LeastBusy, 1_024, 1)
    }),
    ("pick_slot-idle-1024", |n| pick(n, LeastBusy, 1_024, 0)),
    // How a pool's own choice grows with its slots, of which one is idle.
    ("execute-cancelled-2-slots", |n| execute_cancelled(n, 2)),
    ("execute-cancelled-64-slots", |n| execute_cancelled(n, 64)),
    ("execute-cancelled-256-slots", |n| execute_cancelled(n, 256)),
    ("execute-round-robin", |n| execute(n, builder(RoundRobin))),
    ("execute-least-busy", |n| execute(n, builder(LeastBusy))),
    // Without a limit these say nothing that the pool could use: they are to cost no more than the saying.
    ("execute-tenant", |n| {
        execute_as_tenant(n, builder(LeastBusy))
    }),
    ("execute-priority", |n| {
        execute_with_priority(n, builder(LeastBusy))
    }),
    ("execute-tenant-priority", |n| {
        execute_as_tenant_with_priority(n, builder(LeastBusy))
    }),
    ("execute-named", |n| execute_as_named(n, builder(LeastBusy))),
    ("execute-queue-limit", |n| {
        execute(n, builder(LeastBusy).queue_limit(usize::MAX))
    }),
    ("execute-gated", |n| execute(n, builder(LeastBusy).fair())),
    ("execute-gated-tenant", |n| {
        execute_as_tenant(n, builder(LeastBusy).fair())
    }),
    ("execute-gated-named", |n| {
        execute_as_named(n, builder(LeastBusy).fair())
    }),
    ("submit", |n| submit(n, builder(LeastBusy))),
    ("submit-gated", |n| submit(n, builder(LeastBusy).fair())),
    ("join-finished", join_finished),
    ("fair-push-1000-lanes", fair_push),
    ("fair-pop-1000-lanes", fair_pop),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => CASES.iter().for_each(|(name, _)| println!("{name}")),
        [case, calls] => {
            let case = CASES.iter().find(|(name, _)| *name == case);
            let (Some((_, run)), Ok(calls)) = (case, calls.parse()) else {
                return usage();
            };
            run(calls);
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions list | instructions CASE CALLS");
    ExitCode::FAILURE
}

/// What is counted. It goes by its name, and so is never inlined.
#[inline(never)]
fn measured<R>(calls: usize, mut call: impl FnMut(usize) -> R) {
    for i in 0..calls {
        black_box(call(black_box(i)));
    }
}

struct Slot(usize);

impl SlotLoad for Slot {
    fn pending_count(&self) -> usize {
        self.0
    }
}

fn pick(calls: usize, strategy: Strategy, slots: usize, pending: usize) {
    let list: Vec<_> = (0..slots).map(|_| Slot(pending)).collect();
    measured(calls, |cursor| {
        pick_slot(strategy, black_box(&list), cursor).map(|pick| pick.index)
    });
}

fn builder(strategy: Strategy) -> PoolBuilder {
    WorkerPool::builder().workers(WORKERS).strategy(strategy)
}

fn build(builder: PoolBuilder) -> WorkerPool {
    builder.build().expect("threads")
}

/// A pool whose workers are blocked until it is dropped.
struct Blocked {
    pool: WorkerPool,
    lift: Arc<Barrier>,
}

impl Blocked {
    fn new(pool: WorkerPool) -> Blocked {
        let [blocked, lift] = [(); 2].map(|()| Arc::new(Barrier::new(WORKERS + 1)));
        for _ in 0..WORKERS {
            let barriers = [&blocked, &lift].map(Arc::clone);
            let block = move || {
                for barrier in barriers {
                    barrier.wait();
                }
            };
            assert!(pool.execute(block).is_ok());
        }
        blocked.wait();
        Blocked { pool, lift }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.lift.wait();
    }
}

/// All that the jobs do.
fn consume(i: usize) {
    black_box(i);
}

/// A job that is cancelled already is counted in at the slot that was picked, and settles there and
/// then: nobody is woken. All slots but one are occupied, one after the other.
fn execute_cancelled(calls: usize, slots: usize) {
    let pool = build(WorkerPool::builder().workers(slots).stack_size(64 * 1024));
    let [begun, lift] = [2, slots].map(|parties| Arc::new(Barrier::new(parties)));
    for _ in 1..slots {
        let barriers = [&begun, &lift].map(Arc::clone);
        let block = move || {
            for barrier in barriers {
                barrier.wait();
            }
        };
        assert!(pool.execute(block).is_ok());
        begun.wait();
    }
    let token = CancelToken::new();
    token.cancel();
    let execute = |i| {
        let job = pool.job().cancel_token(&token);
        assert!(job.execute(move || consume(i)).is_ok());
    };
    (0..WARM_UP).for_each(execute);
    measured(calls, execute);
    lift.wait();
}

fn execute(calls: usize, builder: PoolBuilder) {
    let blocked = Blocked::new(build(builder));
    let execute = |i| assert!(blocked.pool.execute(move || consume(i)).is_ok());
    (0..WARM_UP).for_each(execute);
    measured(calls, execute);
}

fn execute_as_tenant(calls: usize, builder: PoolBuilder) {
    let blocked = Blocked::new(build(builder));
    let tenant = blocked.pool.tenant("tenant");
    let execute = |i| assert!(tenant.execute(move || consume(i)).is_ok());
    (0..WARM_UP).for_each(execute);
    measured(calls, execute);
}

fn execute_with_priority(calls: usize, builder: PoolBuilder) {
    let blocked = Blocked::new(build(builder));
    let execute = |i| {
        let job = blocked.pool.job().priority(Priority::HIGH);
        assert!(job.execute(move || consume(i)).is_ok());
    };
    (0..WARM_UP).for_each(execute);
    measured(calls, execute);
}

fn execute_as_tenant_with_priority(calls: usize, builder: PoolBuilder) {
    let blocked = Blocked::new(build(builder));
    let tenant = blocked.pool.tenant("tenant");
    let execute = |i| {
        let job = tenant.job().weight(Weight::new(3));
        let job = job.priority(Priority::HIGH);
        assert!(job.execute(move || consume(i)).is_ok());
    };
    (0..WARM_UP).for_each(execute);
    measured(calls, execute);
}

fn execute_as_named(calls: usize, builder: PoolBuilder) {
    let blocked = Blocked::new(build(builder));
    let execute = |i| {
        let job = blocked.pool.job().tenant("tenant").weight(Weight::new(3));
        let job = job.priority(Priority::HIGH);
        assert!(job.execute(move || consume(i)).is_ok());
    };
    (0..WARM_UP).for_each(execute);
    measured(calls, execute);
}

/// With the handle put into a vector that has room for it.
fn submit(calls: usize, builder: PoolBuilder) {
    let blocked = Blocked::new(build(builder));
    let submit = |i| blocked.pool.submit(move || black_box(i)).expect("open");
    let mut handles: Vec<JobHandle<usize>> = Vec::with_capacity(WARM_UP + calls);
    handles.extend((0..WARM_UP).map(submit));
    measured(calls, |i| handles.push(submit(i)));
}

fn join_finished(calls: usize) {
    let pool = build(builder(LeastBusy));
    let submit = |i| pool.submit(move || i).expect("open");
    let handles: Vec<_> = (0..calls).map(submit).collect();
    pool.wait_idle();
    let mut handles = handles.into_iter();
    measured(calls, |_| handles.next().map(JobHandle::join));
}

const LANES: usize = 1_000;

/// A thousand lanes of weights 1 to 3, so deep that none runs empty.
fn lanes(calls: usize) -> FairQueue<usize, usize> {
    let mut queue = FairQueue::new();
    let deep = 10 + 2 * calls / LANES;
    for item in 0..deep {
        for tenant in 0..LANES {
            let weight = Weight::new(tenant as u32 % 3 + 1);
            queue.push_weighted(tenant, weight, Priority::NORMAL, item);
        }
    }
    queue
}

fn fair_push(calls: usize) {
    let mut queue = lanes(0);
    measured(calls, |i| queue.push(i % LANES, Priority::NORMAL, i));
}

fn fair_pop(calls: usize) {
    let mut queue = lanes(calls);
    measured(calls, |_| queue.pop());
}
