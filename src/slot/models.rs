//! Models of sleep and wake, and of sweepers against movers. A lost wake-up is a deadlock here, which
//! loom reports.

use std::sync::atomic::AtomicUsize;

use super::sleep::Sleep;
use super::{Slot, Sweeps, sweep};
use crate::job::{Job, Stage};
use crate::ledger::Fate;
use crate::sync::model::{Bound, check, join, spawn};
use crate::sync::{Arc, AtomicBool, Deque, Ordering};
use crate::worker::{self, Delegate};

/// Slots with their books, and nothing else of a pool.
struct Yard {
    slots: Vec<Slot>,
    sleep: Sleep,
    sweeps: Sweeps,
    ran: AtomicUsize,
    wanted: usize,
    stopped: AtomicBool,
}

impl Yard {
    /// Its workers stop when `wanted` jobs have run.
    fn new(slots: usize, wanted: usize) -> (Arc<Yard>, Vec<Deque<Job>>) {
        let deques: Vec<_> = (0..slots).map(|_| Deque::new_fifo()).collect();
        let yard = Yard {
            slots: deques
                .iter()
                .enumerate()
                .map(|(index, deque)| Slot::new(index, deque))
                .collect(),
            sleep: Sleep::new(slots),
            sweeps: Sweeps::default(),
            ran: AtomicUsize::new(0),
            wanted,
            stopped: AtomicBool::new(false),
        };
        (Arc::new(yard), deques)
    }

    fn submit(&self, slot: usize) {
        self.slots[slot].load().submit();
        self.slots[slot].push(Job::new(|| ()));
        self.sleep.job_pushed(slot);
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.sleep.wake_all();
    }

    fn stage(&self, slot: usize) -> Stage<'_> {
        Stage {
            load: self.slots[slot].load(),
            room: None,
            turn: None,
            idle: None,
        }
    }

    fn pending(&self) -> usize {
        self.slots.iter().map(Slot::pending).sum()
    }
}

/// The thread of a slot, as in the pool.
struct Server {
    yard: Arc<Yard>,
    slot: usize,
    deque: Deque<Job>,
}

impl Server {
    fn start(
        yard: &Arc<Yard>,
        slot: usize,
        deque: Deque<Job>,
    ) -> crate::sync::model::JoinHandle<()> {
        let server = Server {
            yard: Arc::clone(yard),
            slot,
            deque,
        };
        spawn(move || {
            server.yard.sleep.register(server.slot);
            worker::run(&server);
        })
    }

    fn refill(&self) -> Option<Job> {
        let Yard { slots, sweeps, .. } = &*self.yard;
        let own = &slots[self.slot];
        let others = slots.iter().filter(|slot| slot.index != self.slot);
        let job = own.refill(&self.deque, sweeps);
        let job = job.or_else(|| {
            others
                .filter_map(|victim| own.take_from(victim, &self.deque, sweeps))
                .next()
        })?;
        if !self.deque.is_empty() {
            self.yard.sleep.job_pushed(self.slot);
        }
        Some(job)
    }

    fn has_queued(&self) -> bool {
        self.yard.slots.iter().any(|slot| !slot.is_empty())
    }
}

impl Delegate for Server {
    type Task = Job;

    fn next(&self) -> Option<Job> {
        self.deque.pop().or_else(|| self.refill())
    }

    fn run(&self, job: Job) -> bool {
        job.run(&self.yard.stage(self.slot));
        if self.yard.ran.fetch_add(1, Ordering::AcqRel) + 1 == self.yard.wanted {
            self.yard.stop();
        }
        true
    }

    fn out_of_work(&self) {}

    fn start_searching(&self) {
        self.yard.sleep.start_searching();
    }

    fn is_crowded(&self) -> bool {
        self.yard.sleep.is_crowded()
    }

    fn found(&self) {
        self.yard.sleep.found(self.slot, || self.has_queued());
    }

    fn sleep(&self) {
        self.yard
            .sleep
            .fall_asleep(self.slot, || self.has_queued() || self.is_stopped());
    }

    fn is_stopped(&self) -> bool {
        self.yard.stopped.load(Ordering::SeqCst)
    }
}

#[test]
fn a_submitter_and_a_slot_that_goes_to_sleep() {
    check(
        "a submitter, a slot that goes to sleep",
        Bound::Exhaustive,
        || {
            let (yard, mut deques) = Yard::new(1, 1);
            let worker = Server::start(&yard, 0, deques.remove(0));
            yard.submit(0);
            join(worker);
            assert_eq!(yard.pending(), 0);
        },
    );
}

#[test]
fn two_submitters_and_a_slot_that_goes_to_sleep() {
    check(
        "two submitters, a slot that goes to sleep",
        Bound::Preemptions(3),
        || {
            let (yard, mut deques) = Yard::new(1, 2);
            let worker = Server::start(&yard, 0, deques.remove(0));
            let theirs = Arc::clone(&yard);
            let other = spawn(move || theirs.submit(0));
            yard.submit(0);
            join(other);
            join(worker);
            assert_eq!(yard.pending(), 0);
        },
    );
}

#[test]
fn a_thief_takes_what_waits_on_a_slot_without_a_thread() {
    check("a submitter, a thief", Bound::Exhaustive, || {
        let (yard, mut deques) = Yard::new(2, 1);
        let thief = Server::start(&yard, 1, deques.remove(1));
        yard.submit(0);
        join(thief);
        assert_eq!(yard.pending(), 0);
    });
}

#[test]
fn two_sleepers_and_a_submitter() {
    check(
        "a submitter, two slots that go to sleep",
        Bound::Preemptions(3),
        || {
            let (yard, deques) = Yard::new(2, 1);
            let servers = deques.into_iter().enumerate();
            let workers: Vec<_> = servers
                .map(|(slot, deque)| Server::start(&yard, slot, deque))
                .collect();
            yard.submit(0);
            workers.into_iter().for_each(join);
            assert_eq!(yard.pending(), 0);
        },
    );
}

#[test]
fn two_sleepers_and_a_submitter_of_two() {
    check(
        "two jobs, two slots that go to sleep",
        Bound::Preemptions(2),
        || {
            let (yard, deques) = Yard::new(2, 2);
            let servers = deques.into_iter().enumerate();
            let workers: Vec<_> = servers
                .map(|(slot, deque)| Server::start(&yard, slot, deque))
                .collect();
            yard.submit(0);
            yard.submit(0);
            workers.into_iter().for_each(join);
            assert_eq!(yard.pending(), 0);
        },
    );
}

#[test]
fn two_sleepers_and_two_submitters() {
    check(
        "two submitters, two slots that go to sleep",
        Bound::Preemptions(2),
        || {
            let (yard, deques) = Yard::new(2, 2);
            let servers = deques.into_iter().enumerate();
            let workers: Vec<_> = servers
                .map(|(slot, deque)| Server::start(&yard, slot, deque))
                .collect();
            let theirs = Arc::clone(&yard);
            let other = spawn(move || theirs.submit(0));
            yard.submit(0);
            join(other);
            workers.into_iter().for_each(join);
            assert_eq!(yard.pending(), 0);
        },
    );
}

#[test]
fn a_slot_that_goes_to_sleep_sees_the_stop() {
    check("stop, a slot that goes to sleep", Bound::Exhaustive, || {
        let (yard, mut deques) = Yard::new(1, 0);
        let worker = Server::start(&yard, 0, deques.remove(0));
        yard.stop();
        join(worker);
    });
}

/// Whatever a mover has in its hands, the sweep misses nothing: all jobs are withdrawn or begun.
#[test]
fn a_sweep_and_a_slot_that_refills_its_deque() {
    check("a sweep, a refill", Bound::Exhaustive, || {
        let (yard, mut deques) = Yard::new(1, 0);
        let deque = deques.remove(0);
        for _ in 0..3 {
            yard.submit(0);
        }
        let theirs = Arc::clone(&yard);
        let mover = spawn(move || {
            let begun = theirs.slots[0].refill(&deque, &theirs.sweeps);
            begun.map(|job| job.run(&theirs.stage(0))).is_some()
        });
        let withdrawn = sweep(&yard.slots, &yard.sweeps, None, Fate::Cancelled);
        let begun = usize::from(join(mover));
        let left = yard.pending();
        assert_eq!(withdrawn + begun + left, 3);
        assert!(left == 0, "{left} jobs were in motion and missed");
    });
}

#[test]
fn a_sweep_and_a_thief() {
    check("a sweep, a thief", Bound::Exhaustive, || {
        let (yard, mut deques) = Yard::new(2, 0);
        let deque = deques.remove(1);
        for _ in 0..2 {
            yard.submit(0);
        }
        let theirs = Arc::clone(&yard);
        let thief = spawn(move || {
            let begun = theirs.slots[1].take_from(&theirs.slots[0], &deque, &theirs.sweeps);
            begun.map(|job| job.run(&theirs.stage(1))).is_some()
        });
        let withdrawn = sweep(&yard.slots, &yard.sweeps, None, Fate::Cancelled);
        let begun = usize::from(join(thief));
        assert_eq!(withdrawn + begun, 2);
        assert_eq!(yard.pending(), 0);
    });
}
