//! Fair admission as data: tenants' jobs, and the order in which they are let in.
//!
//! No threads, no locks, no clock. From the top down: `FairQueue`, [`settling`] and [`drain`]; [`rule`],
//! which decides between lanes: by count that is [`rotation`], with the help of [`run`] and [`agenda`],
//! by cost it is [`costs`], with the agenda on a [`desk`], each tenant's [`bill`], [`estimates`] and
//! [`arrivals`]; [`lane`], with its jobs in [`backlog`] and [`job`]; then [`tag`], [`table`], [`hash`] and [`arena`], which know nothing of
//! lanes.

mod agenda;
mod arena;
mod arrivals;
mod backlog;
mod bill;
mod costs;
mod desk;
mod drain;
mod estimates;
mod front;
mod hash;
mod job;
mod lane;
mod node;
mod prefetch;
mod priority;
mod rotation;
mod rule;
mod run;
mod settling;
mod table;
mod tag;
mod ticket;
mod weight;

pub(crate) use self::arena::{Arena, Id};
pub use self::drain::Drain;
pub(crate) use self::front::Verdict;
pub(crate) use self::hash::Names;
pub use self::priority::Priority;
pub use self::ticket::Ticket;
pub use self::weight::Weight;

use self::backlog::{Backlog, Order};
use self::job::Job;
use self::lane::{Lane, Lanes, Place, Turn};
use self::rotation::{Pick, Rotation};
use self::rule::Rule;
use self::table::Table;
use std::fmt;
use std::hash::Hash;
use std::mem;

#[doc = include_str!("README.md")]
pub struct FairQueue<K, T> {
    /// Tells this queue's tickets from all others'.
    id: u64,
    /// Jobs ever pushed.
    pushes: u64,
    order: Order,
    jobs: Arena<Job<T>>,
    lanes: Lanes<K>,
    names: Names,
    by_name: Table,
    rule: Rule,
}

impl<K, T> FairQueue<K, T> {
    /// An empty queue, without memory of its own until the first push. Inside a lane, priorities are
    /// strict: a low one waits for as long as there is a higher one.
    #[must_use]
    pub fn new() -> FairQueue<K, T> {
        FairQueue::with(Order::Strict, Rule::Count(Rotation::new()))
    }

    /// An empty queue whose lanes let no job wait for ever behind higher priorities.
    ///
    /// Arrivals are counted for each lane, since it last opened. Job number `a` of priority `p` is
    /// served in the order of `a − boost · p`, equal ones in order of arrival. So among the jobs that
    /// come after one of priority `p`, only the next `boost · (q − p)` can overtake it with priority
    /// `q`, and no more than so many do. With a `boost` of 0 a lane is first come, first served.
    ///
    /// The other tenants' arrivals do not count: how a lane orders its jobs is its tenant's affair.
    ///
    /// ```
    /// use fairlane::{FairQueue, Priority};
    ///
    /// let mut queue = FairQueue::with_ageing(1);
    /// queue.push("a", Priority(0), "low");
    /// for job in ["1st", "2nd", "3rd"] {
    ///     queue.push("a", Priority(3), job);
    /// }
    /// let order: Vec<_> = queue.drain().map(|(_, job)| job).collect();
    /// assert_eq!(order, ["1st", "2nd", "low", "3rd"]);
    /// ```
    #[must_use]
    pub fn with_ageing(boost: u32) -> FairQueue<K, T> {
        FairQueue::with(Order::Ageing(boost), Rule::Count(Rotation::new()))
    }

    fn with(order: Order, rule: Rule) -> FairQueue<K, T> {
        FairQueue {
            id: ticket::next_queue(),
            pushes: 0,
            order,
            jobs: Arena::new(),
            lanes: Arena::new(),
            names: Names::new(),
            by_name: Table::new(),
            rule,
        }
    }

    /// The jobs queued, those in held lanes included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing is queued. [`pop`](FairQueue::pop) may give `None` although there is
    /// something, if all of it is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The tenants with something queued, held ones included. Nothing is kept of the others, but by
    /// [cost](FairQueue::by_cost) what they owe.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len() - self.away()
    }

    /// Takes everything out, held lanes included, and leaves the queue empty at once, whatever is
    /// done with the iterator. Nobody is charged. O(1), and then O(1) a job as a rule, as for
    /// [`pop`](FairQueue::pop) inside one lane.
    pub fn drain(&mut self) -> Drain<K, T> {
        self.by_name = Table::new();
        self.rule.restart();
        Drain {
            lanes: mem::replace(&mut self.lanes, Arena::new()),
            jobs: mem::replace(&mut self.jobs, Arena::new()),
            order: self.order,
            from: 0,
        }
    }

    /// Takes a job that is linked nowhere any more out of the arena.
    #[inline]
    fn take(&mut self, job: Id) -> T {
        self.jobs.remove(job).item
    }

    /// Forgets a lane without jobs, which has left the rotation. Its key is the user's to drop,
    /// once nothing is half done.
    fn forget(&mut self, lane: Id) -> K {
        let Lane { hash, key, .. } = self.lanes.remove(lane);
        self.by_name.remove(hash, lane);
        if self.lanes.is_empty() {
            self.rule.reset();
        }
        key
    }

    /// A lane's last job is gone: the key, unless the lane is kept for what its tenant owes.
    fn close(&mut self, lane: Id) -> Option<K> {
        let is_kept = self.rule.leave(&mut self.lanes, lane);
        (!is_kept).then(|| self.forget(lane))
    }

    /// Takes a queued job out for a ticket, with the key of its lane if that is gone with it.
    fn withdraw(&mut self, ticket: Ticket) -> Option<(T, Option<K>)> {
        let Ticket { lane, job, .. } = ticket;
        let queued = self.jobs.get(job)?;
        if ticket.queue != self.id || queued.lane != lane || queued.arrival != ticket.arrival {
            return None;
        }
        let backlog = &mut self.lanes[lane].backlog;
        if backlog.is_last() {
            let key = self.close(lane);
            return Some((self.take(job), key));
        }
        backlog.unlink(self.order, &mut self.jobs, job);
        Some((self.take(job), None))
    }
}

/// Names are hashed and compared before anything changes, and cloned before a job is taken. So if
/// `K`'s `Hash`, `Eq` or `Clone` panics, the queue is as it was. A key or item is dropped after
/// everything has changed, so if its `Drop` panics, the operation has been done.
impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// Queues a job for `tenant`, at the weight its lane has, or [`Weight::default`] if the lane
    /// opens with it.
    ///
    /// O(1) to a live lane; O(log of the distinct weights) if it opens one.
    ///
    /// # Panics
    ///
    /// If just under 2^32 jobs or lanes are there already; nothing is queued then.
    pub fn push(&mut self, tenant: K, priority: Priority, item: T) -> Ticket {
        self.enqueue(tenant, None, priority, item)
    }

    /// Queues a job for `tenant`, and sets the weight of its lane, as
    /// [`set_weight`](FairQueue::set_weight) does.
    ///
    /// O(1) if the weight stays, else O(log of the distinct weights).
    ///
    /// # Panics
    ///
    /// As [`push`](FairQueue::push).
    pub fn push_weighted(
        &mut self,
        tenant: K,
        weight: Weight,
        priority: Priority,
        item: T,
    ) -> Ticket {
        self.enqueue(tenant, Some(weight), priority, item)
    }

    /// Takes the job whose turn it is, with its tenant's name; `None` if nothing is queued, or all
    /// of it is held.
    ///
    /// O(log of the distinct weights), at most O(log lanes) after weights were changed: O(1) with
    /// all weights equal, whatever they add up to. This is a bound for each single pop, but for the
    /// freeing of memory, which is spread.
    ///
    /// ```
    /// use fairlane::{FairQueue, Priority, Weight};
    ///
    /// let mut queue = FairQueue::new();
    /// for job in 0..4 {
    ///     queue.push_weighted("a", Weight::new(3), Priority::NORMAL, job);
    ///     queue.push_weighted("b", Weight::new(1), Priority::NORMAL, job);
    /// }
    /// let served: String = std::iter::from_fn(|| queue.pop()).map(|(tenant, _)| tenant).collect();
    /// assert_eq!(served, "abaaabbb");
    /// ```
    pub fn pop(&mut self) -> Option<(K, T)> {
        // First, as this may drop keys: should that panic, no job is lost.
        self.forget_paid_off(drop);
        let pick = self.rule.pick()?;
        Some(self.serve(pick))
    }

    /// Takes the first job of the lane picked, and charges it.
    #[inline]
    fn serve(&mut self, pick: Pick) -> (K, T) {
        let lane = &mut self.lanes[pick.lane];
        if lane.backlog.is_last() {
            return self.pop_last(pick);
        }
        let key = lane.key.clone();
        let job = lane.backlog.head();
        lane.backlog.pop(self.order, &self.jobs);
        self.rule.charge(&mut self.lanes, pick);
        (key, self.take(job))
    }

    /// Serves a lane its last job. By count no copy of the key is needed, as the lane's own is free.
    fn pop_last(&mut self, pick: Pick) -> (K, T) {
        let lane = &self.lanes[pick.lane];
        let job = lane.backlog.head();
        let key = match &mut self.rule {
            Rule::Count(rotation) => {
                rotation.charge_last(&mut self.lanes, pick);
                self.forget(pick.lane)
            }
            Rule::Cost(costs) => {
                let key = lane.key.clone();
                costs.charge(&self.lanes, pick.lane);
                costs.leave(&mut self.lanes, pick.lane);
                key
            }
        };
        (key, self.take(job))
    }

    /// Takes a queued job out, at no charge to its tenant; `None` once it has been popped or
    /// removed, or if the ticket is another queue's.
    ///
    /// O(1), or O(log of the priorities in use) where the job is the first or last of its priority,
    /// and O(log of the distinct weights) where it is its lane's last, which closes the lane. The
    /// memory is free for other jobs at once: no tombstone stays. The order of all other jobs stays
    /// the same.
    ///
    /// ```
    /// use fairlane::{FairQueue, Priority};
    ///
    /// let mut queue = FairQueue::new();
    /// let ticket = queue.push("a", Priority::NORMAL, "job");
    /// assert_eq!(queue.remove(ticket), Some("job"));
    /// assert_eq!(queue.remove(ticket), None);
    /// assert!(queue.is_empty());
    /// ```
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let (item, _key) = self.withdraw(ticket)?;
        self.forget_paid_off(drop);
        Some(item)
    }

    /// Changes a tenant's weight, for what is queued already too; `false` if nothing is. A tenant
    /// that is ahead of its share waits on, at the new pace. The weight is forgotten when the lane
    /// empties.
    ///
    /// O(log of the distinct weights).
    pub fn set_weight(&mut self, tenant: &K, weight: Weight) -> bool {
        let Some(lane) = self.find(tenant) else {
            return false;
        };
        self.rule.reweigh(&mut self.lanes, lane, weight.get());
        true
    }

    /// Passes a tenant's lane over until it is [released](FairQueue::release); `false` if nothing
    /// is queued for it. It earns no credit and keeps its debt. Jobs can be pushed and removed
    /// meanwhile. A second hold has no effect.
    ///
    /// A hold ends with its lane: when the last job of it is removed, hold again after the next
    /// push.
    ///
    /// O(log of the distinct weights).
    ///
    /// ```
    /// use fairlane::{FairQueue, Priority};
    ///
    /// let mut queue = FairQueue::new();
    /// queue.push("a", Priority::NORMAL, 1);
    /// queue.push("b", Priority::NORMAL, 2);
    /// assert!(queue.hold(&"a"));
    /// assert_eq!(queue.pop(), Some(("b", 2)));
    /// assert_eq!((queue.pop(), queue.len()), (None, 1));
    /// assert!(queue.release(&"a"));
    /// assert_eq!(queue.pop(), Some(("a", 1)));
    /// ```
    pub fn hold(&mut self, tenant: &K) -> bool {
        let Some(lane) = self.find(tenant) else {
            return false;
        };
        self.rule.hold(&mut self.lanes, lane);
        true
    }

    /// Ends a [`hold`](FairQueue::hold); `false` if nothing is queued for the tenant. The lane comes
    /// back as a newcomer would, or later if it was ahead of its share. Without a hold it has no
    /// effect.
    ///
    /// O(log of the distinct weights), at most O(log lanes).
    pub fn release(&mut self, tenant: &K) -> bool {
        let Some(lane) = self.find(tenant) else {
            return false;
        };
        self.rule.release(&mut self.lanes, lane);
        true
    }

    /// The lane of a tenant that has something queued.
    fn find(&self, tenant: &K) -> Option<Id> {
        let lane = self.find_hashed(tenant, self.names.hash(tenant))?;
        (self.lanes[lane].turn.place != Place::Away).then_some(lane)
    }

    fn find_hashed(&self, tenant: &K, hash: u32) -> Option<Id> {
        let is_it = |lane| self.lanes[lane].key == *tenant;
        self.by_name.find(hash, is_it)
    }

    fn enqueue(
        &mut self,
        tenant: K,
        weight: Option<Weight>,
        priority: Priority,
        item: T,
    ) -> Ticket {
        let hash = self.names.hash(&tenant);
        match self.find_hashed(&tenant, hash) {
            Some(lane) if self.lanes[lane].turn.place == Place::Away => {
                self.reopen(lane, weight.unwrap_or_default(), priority, item)
            }
            Some(lane) => self.append(lane, weight, priority, item),
            None => self.open(tenant, hash, weight.unwrap_or_default(), priority, item),
        }
    }

    fn check_room(&self) {
        assert!(
            self.jobs.has_room(),
            "a FairQueue holds fewer than 2^32 jobs"
        );
    }

    /// Queues a job behind others of its tenant.
    #[inline]
    fn append(
        &mut self,
        lane: Id,
        weight: Option<Weight>,
        Priority(priority): Priority,
        item: T,
    ) -> Ticket {
        self.check_room();
        if let Some(weight) = weight {
            self.rule.reweigh(&mut self.lanes, lane, weight.get());
        }
        let Lane {
            arrivals, backlog, ..
        } = &mut self.lanes[lane];
        let arrival = *arrivals;
        *arrivals += 1;
        let job = self.jobs.insert(Job::new(lane, priority, arrival, item));
        backlog.push(self.order, &mut self.jobs, job, priority);
        self.ticket(lane, job, arrival)
    }

    /// Queues the first job of a tenant.
    fn open(
        &mut self,
        key: K,
        hash: u32,
        weight: Weight,
        Priority(priority): Priority,
        item: T,
    ) -> Ticket {
        self.check_room();
        assert!(
            self.lanes.has_room(),
            "a FairQueue holds fewer than 2^32 lanes"
        );
        let arrival = self.pushes;
        // The two name each other; the lane's number is filled in as soon as there is one.
        let job = self
            .jobs
            .insert(Job::new(Id::FIRST, priority, arrival, item));
        let lane = self.lanes.insert(Lane {
            turn: Turn::new(weight.get()),
            backlog: Backlog::of(priority, job),
            arrivals: arrival + 1,
            hash,
            key,
        });
        self.jobs[job].lane = lane;
        self.by_name.insert(hash, lane);
        self.rule.join(&mut self.lanes, lane);
        self.ticket(lane, job, arrival)
    }

    /// Queues the first job of a tenant whose lane was kept.
    fn reopen(&mut self, lane: Id, weight: Weight, priority: Priority, item: T) -> Ticket {
        self.check_room();
        let (arrival, Priority(priority)) = (self.pushes, priority);
        let job = self.jobs.insert(Job::new(lane, priority, arrival, item));
        let Lane {
            turn,
            backlog,
            arrivals,
            ..
        } = &mut self.lanes[lane];
        turn.weight = weight.get();
        *backlog = Backlog::of(priority, job);
        *arrivals = arrival + 1;
        self.rule.join(&mut self.lanes, lane);
        self.ticket(lane, job, arrival)
    }

    fn ticket(&mut self, lane: Id, job: Id, arrival: u64) -> Ticket {
        self.pushes += 1;
        Ticket {
            queue: self.id,
            lane,
            job,
            arrival,
        }
    }
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> FairQueue<K, T> {
        FairQueue::new()
    }
}

impl<K, T> fmt::Debug for FairQueue<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairQueue")
            .field("len", &self.len())
            .field("lanes", &self.lanes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Room for two, where there is for 2^32.
    fn full() -> FairQueue<&'static str, u32> {
        let mut queue = FairQueue::new();
        queue.jobs = Arena::with_limit(2);
        queue.push("a", Priority::NORMAL, 0);
        queue.push("b", Priority::NORMAL, 1);
        queue
    }

    #[test]
    fn a_push_to_a_full_queue_panics_and_changes_nothing() {
        for tenant in ["b", "c"] {
            let mut queue = full();
            let push = || queue.push_weighted(tenant, Weight::new(100), Priority::NORMAL, 2);
            assert!(catch_unwind(AssertUnwindSafe(push)).is_err());
            assert_eq!((queue.len(), queue.lanes()), (2, 2));
            assert_eq!(queue.pop(), Some(("a", 0)), "the weights are as they were");
            assert_eq!(queue.pop(), Some(("b", 1)));
        }
    }

    #[test]
    fn one_tenant_too_many_panics_and_changes_nothing() {
        let mut queue = FairQueue::new();
        queue.lanes = Arena::with_limit(1);
        queue.push("a", Priority::NORMAL, 0);
        let push = || queue.push("b", Priority::NORMAL, 1);
        assert!(catch_unwind(AssertUnwindSafe(push)).is_err());
        assert_eq!((queue.len(), queue.lanes()), (1, 1));
        queue.push("a", Priority::NORMAL, 1);
        assert!(std::iter::from_fn(|| queue.pop()).eq([("a", 0), ("a", 1)]));
    }
}
