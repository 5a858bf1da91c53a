//! The counts of one slot.
//!
//! One contended word per slot was measured at twice the cost of a whole submit, so the counts lie
//! on three cache lines by who writes them: submitters, the slot's own thread, everybody else. The
//! owner's are plain stores, since nobody else writes them.
//!
//! A gauge is a difference of counters, so the order of reading matters: a job is counted *in*
//! before it is counted *out*, and a reader takes the outs before the ins. With acquire loads on
//! counters that are only ever released upwards, no difference comes out negative; the one exception
//! stands at [`Load::pending`].

use super::Busy;
use crate::sync::{AtomicU64, CachePadded, Ordering};

/// How a job that never ran left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Cancelled,
    Expired,
    Discarded,
}

/// The counts of one slot.
#[derive(Default)]
pub(crate) struct Load {
    /// Jobs that submitters put here.
    submitted: CachePadded<AtomicU64>,
    own: CachePadded<Own>,
    others: CachePadded<Others>,
}

/// Written by the slot's thread alone.
#[derive(Default)]
struct Own {
    /// Jobs taken over from other slots.
    taken: AtomicU64,
    /// Closures begun here.
    begun: AtomicU64,
    /// Closures that returned. They are counted before anybody can see the result: whoever joins a
    /// job and then submits finds its slot free.
    returned: AtomicU64,
    /// Closures that panicked, counted likewise.
    panicked: AtomicU64,
    /// Jobs of which nothing is left: result published or dropped.
    finished: AtomicU64,
    /// Where times were asked for.
    busy: Busy,
}

/// Written by other threads: thieves, cancellers, and jobs that run a job of this slot in place.
#[derive(Default)]
struct Others {
    /// Jobs that stopped being pending here without having been run by the slot's thread.
    left: AtomicU64,
    /// Submissions taken back because the pool had closed in between.
    undone: AtomicU64,
    begun: AtomicU64,
    returned: AtomicU64,
    panicked: AtomicU64,
    cancelled: AtomicU64,
    expired: AtomicU64,
    discarded: AtomicU64,
    /// Like `Own::finished`, for everything counted on this line.
    finished: AtomicU64,
}

/// Adds one as the only writer: a load and a store, no locked instruction. `Release` publishes what
/// the job did to whoever reads the count with `Acquire`.
#[inline]
fn bump(counter: &AtomicU64) {
    let now = counter.load(Ordering::Relaxed);
    counter.store(now.wrapping_add(1), Ordering::Release);
}

impl Load {
    /// A submitter is about to queue a job here.
    ///
    /// `SeqCst`, because it is one half of the handshake with `close`: the submitter counts and then
    /// reads the phase, the closing side sets the phase and then reads the counts. One of them sees
    /// the other.
    #[inline]
    pub(crate) fn submit(&self) {
        self.submitted.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes [`Load::submit`] back.
    pub(crate) fn undo(&self) {
        let others = &*self.others;
        others.left.fetch_add(1, Ordering::Release);
        others.undone.fetch_add(1, Ordering::Release);
        others.finished.fetch_add(1, Ordering::SeqCst);
    }

    /// The slot's thread takes a job over. From another slot, that calls [`Load::give`] afterwards, so
    /// that the job is counted twice for a moment and never not at all; the lanes behind a limit know
    /// what is queued in them, and nobody asks their `pending`.
    #[inline]
    pub(crate) fn take(&self) {
        bump(&self.own.taken);
    }

    /// A job of this slot has been taken over by another.
    #[inline]
    pub(crate) fn give(&self) {
        self.others.left.fetch_add(1, Ordering::Release);
    }

    /// The slot's thread begins a closure.
    #[inline]
    pub(crate) fn begin(&self) {
        bump(&self.own.begun);
    }

    /// The closure has returned or panicked; its result is not visible yet.
    #[inline]
    pub(crate) fn end(&self, panicked: bool) {
        bump(if panicked {
            &self.own.panicked
        } else {
            &self.own.returned
        });
    }

    /// Nothing is left of the job.
    #[inline]
    pub(crate) fn finish(&self) {
        bump(&self.own.finished);
    }

    pub(crate) fn busy(&self) -> &Busy {
        &self.own.busy
    }

    /// [`Load::begin`] by a thread that is not the slot's.
    pub(crate) fn begin_elsewhere(&self) {
        self.others.begun.fetch_add(1, Ordering::Release);
    }

    /// [`Load::end`] by a thread that is not the slot's.
    pub(crate) fn end_elsewhere(&self, panicked: bool) {
        let others = &*self.others;
        let ended = if panicked {
            &others.panicked
        } else {
            &others.returned
        };
        ended.fetch_add(1, Ordering::Release);
        others.left.fetch_add(1, Ordering::Release);
    }

    /// A queued job will never run.
    pub(crate) fn withdraw(&self, fate: Fate) {
        let others = &*self.others;
        let counter = match fate {
            Fate::Cancelled => &others.cancelled,
            Fate::Expired => &others.expired,
            Fate::Discarded => &others.discarded,
        };
        counter.fetch_add(1, Ordering::Release);
        others.left.fetch_add(1, Ordering::Release);
    }

    /// [`Load::finish`] by a thread that is not the slot's, or for a job that never ran.
    pub(crate) fn finish_elsewhere(&self) {
        self.others.finished.fetch_add(1, Ordering::SeqCst);
    }

    /// Jobs queued here plus those running here. Outs are read before ins.
    ///
    /// One out can come before its in: a job that changes slots can be withdrawn from the new one a
    /// moment before its thread counts it in. The count is then one short, and 0 rather than −1.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        let ended = get(&self.own.returned).wrapping_add(get(&self.own.panicked));
        let left = self.others.left.load(Ordering::Acquire);
        let taken = self.own.taken.load(Ordering::Acquire);
        let submitted = self.submitted.load(Ordering::Acquire);
        let pending = submitted
            .wrapping_add(taken)
            .wrapping_sub(left)
            .wrapping_sub(ended);
        (pending as i64).max(0) as usize
    }

    /// Whether a closure of this slot's own has begun and is not finished with.
    pub(super) fn is_running(&self) -> bool {
        let finished = get(&self.own.finished);
        get(&self.own.begun) != finished
    }

    pub(super) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::SeqCst)
    }

    pub(super) fn finished(&self) -> u64 {
        let own = self.own.finished.load(Ordering::SeqCst);
        own.wrapping_add(self.others.finished.load(Ordering::SeqCst))
    }

    /// Jobs the slot's thread took over from other slots.
    pub(crate) fn taken(&self) -> u64 {
        self.own.taken.load(Ordering::Acquire)
    }
}

/// A sum over slots that adds up: `submitted = settled + running + queued`, by construction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) submitted: u64,
    pub(crate) running: u64,
    pub(crate) queued: u64,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    pub(crate) discarded: u64,
}

impl Tally {
    /// Adds up `loads`. What is settled is read first, what has begun next and what was submitted
    /// last, so that each difference below is of a set and a superset of it.
    pub(crate) fn of<'a>(loads: impl Iterator<Item = &'a Load> + Clone) -> Tally {
        let mut tally = Tally::default();
        for load in loads.clone() {
            tally.add_settled(load);
        }
        let undone: u64 = loads.clone().map(|load| get(&load.others.undone)).sum();
        let submitted: u64 = loads.map(Load::submitted).sum();
        let begun = tally.completed + tally.panicked + tally.running;
        tally.submitted = submitted.wrapping_sub(undone);
        tally.queued = tally
            .submitted
            .wrapping_sub(begun + tally.cancelled + tally.expired + tally.discarded);
        tally
    }

    /// Completed closures of one slot, wherever they ran.
    pub(crate) fn completed_of(load: &Load) -> u64 {
        let mut tally = Tally::default();
        tally.add_settled(load);
        tally.completed
    }

    fn add_settled(&mut self, load: &Load) {
        let others = &*load.others;
        self.cancelled += get(&others.cancelled);
        self.expired += get(&others.expired);
        self.discarded += get(&others.discarded);
        let own = &*load.own;
        self.add_line(&own.returned, &own.panicked, &own.begun);
        self.add_line(&others.returned, &others.panicked, &others.begun);
    }

    /// One line's closures. The ends are read again after the beginnings until both belong together:
    /// on a busy slot jobs pass between two reads, and they would all look as if they were running.
    fn add_line(&mut self, returned: &AtomicU64, panicked: &AtomicU64, begun: &AtomicU64) {
        let ends = || (get(returned), get(panicked));
        let mut seen = ends();
        let begun = loop {
            let begun = get(begun);
            let now = ends();
            if now == seen {
                break begun;
            }
            seen = now;
        };
        self.completed += seen.0;
        self.panicked += seen.1;
        self.running += begun - seen.0 - seen.1;
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_follows_a_job_through_every_way_out() {
        let load = Load::default();
        for _ in 0..7 {
            load.submit();
        }
        assert_eq!(load.pending(), 7);
        load.begin();
        assert_eq!(load.pending(), 7, "a running job is pending");
        load.end(true);
        load.finish();
        load.give();
        load.withdraw(Fate::Cancelled);
        load.withdraw(Fate::Expired);
        load.withdraw(Fate::Discarded);
        load.undo();
        load.begin_elsewhere();
        load.end_elsewhere(false);
        assert_eq!(load.pending(), 0);
        load.take();
        assert_eq!(load.pending(), 1);
    }

    #[test]
    fn a_tally_adds_up() {
        let loads = [Load::default(), Load::default()];
        for _ in 0..5 {
            loads[0].submit();
        }
        loads[0].begin();
        loads[0].end(false);
        loads[0].begin();
        loads[0].withdraw(Fate::Cancelled);
        loads[1].take();
        loads[0].give();
        loads[1].begin();
        loads[1].end(true);
        let tally = Tally::of(loads.iter());
        let wanted = Tally {
            submitted: 5,
            running: 1,
            queued: 1,
            completed: 1,
            panicked: 1,
            cancelled: 1,
            ..Tally::default()
        };
        assert_eq!(tally, wanted);
    }
}
