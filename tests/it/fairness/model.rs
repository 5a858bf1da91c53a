//! A pool against a model: the fair queue behind a counting semaphore, and limits for tenants.
//!
//! Each job begins, says so, and waits to be ended, so that one thread can take all steps and knows
//! after each of them which job must have begun.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fairlane::{FairQueue, JobHandle, Priority, Tenant, Ticket, Weight, WorkerPool};

use super::{by_strategy, finish_gated};
use crate::common::{Dice, rounds};

type Number = usize;

/// What the pool is to do.
struct Model {
    queue: FairQueue<usize, Number>,
    free: usize,
    lanes: Vec<Lane>,
}

#[derive(Clone)]
struct Lane {
    weight: Weight,
    running: usize,
    queued: usize,
    most: Option<usize>,
}

impl Model {
    fn new(concurrency: usize, tenants: usize) -> Self {
        let lane = Lane {
            weight: Weight::default(),
            running: 0,
            queued: 0,
            most: None,
        };
        Self {
            queue: FairQueue::new(),
            free: concurrency,
            lanes: vec![lane; tenants],
        }
    }

    fn hold_or_release(&mut self, tenant: usize) {
        let lane = &self.lanes[tenant];
        if lane.most.is_some_and(|most| lane.running >= most) {
            self.queue.hold(&tenant);
        } else {
            self.queue.release(&tenant);
        }
    }

    fn push(&mut self, tenant: usize, priority: Priority, job: Number) -> Ticket {
        self.lanes[tenant].queued += 1;
        let weight = self.lanes[tenant].weight;
        let ticket = self.queue.push_weighted(tenant, weight, priority, job);
        self.hold_or_release(tenant);
        ticket
    }

    fn set_weight(&mut self, tenant: usize, weight: Weight) {
        self.lanes[tenant].weight = weight;
        self.queue.set_weight(&tenant, weight);
    }

    fn end(&mut self, tenant: usize) {
        self.lanes[tenant].running -= 1;
        self.hold_or_release(tenant);
        self.free += 1;
    }

    /// The jobs that begin now.
    fn begin(&mut self) -> Vec<(usize, Number)> {
        let mut begun = Vec::new();
        while self.free > 0 {
            let Some((tenant, job)) = self.queue.pop() else {
                break;
            };
            self.free -= 1;
            self.lanes[tenant].queued -= 1;
            self.lanes[tenant].running += 1;
            self.hold_or_release(tenant);
            begun.push((tenant, job));
        }
        begun
    }
}

struct Queued {
    tenant: usize,
    ticket: Ticket,
    handle: JobHandle<()>,
    ends: Sender<bool>,
}

struct Running {
    tenant: usize,
    handle: JobHandle<()>,
    ends: Sender<bool>,
}

/// The pool and the model, step by step.
struct Play {
    pool: Arc<WorkerPool>,
    tenants: Vec<Tenant>,
    model: Model,
    next: Number,
    queued: BTreeMap<Number, Queued>,
    running: BTreeMap<Number, Running>,
    begins: Sender<Number>,
    begun: Receiver<Number>,
}

impl Play {
    fn new(pool: Arc<WorkerPool>, concurrency: usize, tenants: usize) -> Self {
        let (begins, begun) = channel();
        let name = |i: usize| pool.tenant(&format!("tenant {i}"));
        Self {
            tenants: (0..tenants).map(name).collect(),
            pool,
            model: Model::new(concurrency, tenants),
            next: 0,
            queued: BTreeMap::new(),
            running: BTreeMap::new(),
            begins,
            begun,
        }
    }

    fn submit(&mut self, tenant: usize, priority: i32, weight: Option<Weight>) {
        let number = self.next;
        self.next += 1;
        let (begins, (ends, end)) = (self.begins.clone(), channel());
        let mut job = self
            .pool
            .job()
            .tenant(&self.tenants[tenant])
            .priority(priority);
        if let Some(weight) = weight {
            job = job.weight(weight);
            self.model.set_weight(tenant, weight);
        }
        let handle = job.submit(move || {
            begins.send(number).unwrap();
            // Nobody to tell it: a failed test, which is to end.
            assert!(!end.recv().unwrap_or(false), "a job told to panic");
        });
        let ticket = self.model.push(tenant, Priority(priority), number);
        let queued = Queued {
            tenant,
            ticket,
            handle: handle.unwrap(),
            ends,
        };
        self.queued.insert(number, queued);
        self.sync();
    }

    fn cancel(&mut self, choice: usize) {
        let Some(number) = self.queued.keys().copied().nth(choice) else {
            return;
        };
        let job = self.queued.remove(&number).unwrap();
        assert!(job.handle.cancel(), "{number} has not begun");
        assert_eq!(self.model.queue.remove(job.ticket), Some(number));
        self.model.lanes[job.tenant].queued -= 1;
        self.sync();
    }

    fn end(&mut self, choice: usize, panics: bool) {
        let Some(number) = self.running.keys().copied().nth(choice) else {
            return;
        };
        let job = self.running.remove(&number).unwrap();
        job.ends.send(panics).unwrap();
        assert_eq!(job.handle.join().is_err(), panics);
        self.model.end(job.tenant);
        self.sync();
    }

    fn set_weight(&mut self, tenant: usize, weight: Weight) {
        self.tenants[tenant].set_weight(weight);
        self.model.set_weight(tenant, weight);
        self.sync();
    }

    fn set_max_running(&mut self, tenant: usize, most: usize) {
        drop(self.tenants[tenant].clone().with_max_running(most));
        self.model.lanes[tenant].most = Some(most);
        self.model.hold_or_release(tenant);
        self.sync();
    }

    /// Whatever the model says begins now does so in the pool, and nothing else.
    fn sync(&mut self) {
        let wanted = self.model.begin();
        let mut begun: Vec<_> = (0..wanted.len())
            .map(|i| {
                let begun = self.begun.recv_timeout(Duration::from_secs(30));
                begun.unwrap_or_else(|_| panic!("{wanted:?} must begin, only {i} did"))
            })
            .collect();
        // Those that begin in one step do so on several threads.
        begun.sort_unstable();
        let mut numbers: Vec<_> = wanted.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        assert_eq!(begun, numbers, "which job begins");
        assert!(self.begun.try_recv().is_err(), "nothing else has begun");
        for number in begun {
            let Queued {
                tenant,
                handle,
                ends,
                ..
            } = self.queued.remove(&number).unwrap();
            let job = Running {
                tenant,
                handle,
                ends,
            };
            self.running.insert(number, job);
        }
        self.check_stats();
    }

    fn check_stats(&self) {
        let stats = self.pool.stats();
        assert_eq!(stats.running, self.running.len(), "{stats:?}");
        assert_eq!(stats.queued, self.queued.len(), "{stats:?}");
        assert_eq!(stats.tenants.len(), self.tenants.len(), "{stats:?}");
        for (tenant, (lane, handle)) in stats
            .tenants
            .iter()
            .zip(self.model.lanes.iter().zip(&self.tenants))
        {
            assert_eq!(tenant.name, handle.name());
            assert_eq!(tenant.weight, lane.weight, "{stats:?}");
            assert_eq!(handle.weight(), lane.weight);
            assert_eq!(tenant.running, lane.running, "{stats:?}");
            assert_eq!(tenant.queued, lane.queued, "{stats:?}");
        }
    }

    fn play(mut self, dice: &mut Dice, steps: usize, moves: &[Move]) {
        for _ in 0..steps {
            let tenant = dice.roll(self.tenants.len() as u64) as usize;
            let weight = [1, 1, 2, 3, 7, 100, u32::MAX][dice.roll(7) as usize];
            let choice = dice.roll(8) as usize;
            match moves[dice.roll(moves.len() as u64) as usize] {
                Move::Submit => {
                    let weight = (dice.roll(5) == 0).then(|| Weight::new(weight));
                    let weight = weight.filter(|_| moves.contains(&Move::Weigh));
                    self.submit(tenant, dice.roll(4) as i32 - 2, weight);
                }
                Move::End => self.end(choice, dice.roll(8) == 0),
                Move::Cancel => self.cancel(choice),
                Move::Weigh => self.set_weight(tenant, Weight::new(weight)),
                Move::Cap => self.set_max_running(tenant, 1 + dice.roll(3) as usize),
            }
        }
        while !self.running.is_empty() {
            self.end(0, false);
        }
        assert!(self.queued.is_empty(), "nothing runs, so nothing waits");
        drop(self.tenants);
        finish_gated(self.pool);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Move {
    Submit,
    End,
    Cancel,
    Weigh,
    Cap,
}

use Move::{Cancel, Cap, End, Submit, Weigh};

/// One pool for each number of workers and limit, and a play in each.
fn play_all(flavour: &crate::common::Flavour, tenants: usize, steps: usize, moves: &[Move]) {
    for (workers, concurrency) in [(1, 1), (4, 1), (2, 2), (4, 3), (3, 9)] {
        for seed in 0..4 {
            let builder = flavour.builder().workers(workers);
            let pool = flavour.build(builder.concurrency(concurrency));
            let play = Play::new(pool, concurrency.min(workers), tenants);
            play.play(&mut Dice::new(seed), steps, moves);
        }
    }
}

by_strategy!(
    a_tenant_alone_is_a_priority_queue_with_a_semaphore,
    |flavour| {
        play_all(flavour, 1, rounds(2_000), &[Submit, Submit, End]);
        play_all(flavour, 1, rounds(2_000), &[Submit, Submit, Cancel, End]);
    }
);

by_strategy!(tenants_are_admitted_as_the_fair_queue_says, |flavour| {
    play_all(
        flavour,
        4,
        rounds(4_000),
        &[Submit, Submit, Submit, End, End, Cancel, Weigh],
    );
});

by_strategy!(
    tenants_with_caps_are_admitted_as_the_fair_queue_says,
    |flavour| {
        let moves = [
            Submit, Submit, Submit, Submit, End, End, End, Cancel, Weigh, Cap,
        ];
        play_all(flavour, 3, rounds(4_000), &moves);
    }
);

/// What random lives of pools came down to when they lost a lane.
#[test]
fn a_weight_raised_beside_lanes_of_that_weight_loses_none() {
    let mut queue = FairQueue::new();
    let push = |queue: &mut FairQueue<char, u32>, tenant, weight: Option<u32>| match weight {
        Some(weight) => queue.push_weighted(tenant, Weight::new(weight), Priority(0), 0),
        None => queue.push(tenant, Priority(0), 0),
    };
    push(&mut queue, 'A', None);
    push(&mut queue, 'A', Some(1));
    push(&mut queue, 'B', None);
    push(&mut queue, 'C', Some(1));
    assert!(queue.set_weight(&'A', Weight::new(3)));
    let mut popped = vec![queue.pop().expect("four are queued").0];
    push(&mut queue, 'D', Some(3));
    push(&mut queue, 'D', Some(2));
    popped.push(queue.pop().expect("five are queued").0);
    push(&mut queue, 'B', Some(2));
    popped.extend(std::iter::from_fn(|| queue.pop()).map(|(tenant, _)| tenant));
    popped.sort_unstable();
    assert_eq!(popped, ['A', 'A', 'B', 'B', 'C', 'D', 'D']);
    assert!(queue.is_empty());
}
