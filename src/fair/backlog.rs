//! The jobs of one lane: a chain for each priority in use, the best one at hand.
//!
//! The order is that of a binary heap of (priority, arrival), which is what users are promised.
//! Such a heap was rejected as the structure: with a deep lane each pop sifts through memory long
//! gone from the cache, at three to eight times the cost, and a job in the middle cannot leave.

use super::arena::{Arena, Id};
use super::job::{self, Chain, Job, Standing};
use std::collections::{BTreeMap, BTreeSet};

/// How jobs of different priority compare: by least rank, then by the lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Priority alone.
    Strict,
    /// By arrival, less this many arrivals for each step of priority.
    Ageing(u32),
}

impl Order {
    /// The rank of a chain whose head arrived as the `arrival`-th. It never changes while the head
    /// waits, so ageing moves nothing about.
    ///
    /// On equal ranks the lower priority has arrived earlier and goes first, because it would
    /// otherwise be overtaken once more than promised.
    fn rank(self, priority: i32, arrival: u64) -> i128 {
        match self {
            Order::Strict => -i128::from(priority),
            Order::Ageing(boost) => i128::from(arrival) - i128::from(boost) * i128::from(priority),
        }
    }

    /// The rank of `chain`, which reads its head only if the arrival matters.
    fn rank_of<T>(self, jobs: &Arena<Job<T>>, priority: i32, chain: Chain) -> i128 {
        match self {
            Order::Strict => self.rank(priority, 0),
            Order::Ageing(_) => self.rank(priority, jobs[chain.head].arrival),
        }
    }
}

/// All jobs of a lane; there is at least one.
pub(super) struct Backlog {
    best: i32,
    chain: Chain,
    /// The other priorities in use. Most lanes have none.
    rest: Option<Box<Rest>>,
}

impl Backlog {
    pub(super) fn of(priority: i32, job: Id) -> Backlog {
        Backlog {
            best: priority,
            chain: Chain::of(job),
            rest: None,
        }
    }

    /// Whether exactly one job is left.
    pub(super) fn is_last(&self) -> bool {
        self.chain.head == self.chain.tail && self.rest.is_none()
    }

    /// The job to be served next.
    pub(super) fn head(&self) -> Id {
        self.chain.head
    }

    /// Queues a job that is in the arena already.
    #[inline]
    pub(super) fn push<T>(
        &mut self,
        order: Order,
        jobs: &mut Arena<Job<T>>,
        job: Id,
        priority: i32,
    ) {
        if priority == self.best {
            return self.chain.push_back(jobs, job);
        }
        let chain = self.rest.as_mut().and_then(|rest| rest.chain_mut(priority));
        match chain {
            Some(chain) => chain.push_back(jobs, job),
            None => self.open(order, jobs, priority, Chain::of(job)),
        }
    }

    /// Adds a chain of a priority not in use.
    fn open<T>(&mut self, order: Order, jobs: &Arena<Job<T>>, priority: i32, chain: Chain) {
        let best = Entry {
            rank: order.rank_of(jobs, self.best, self.chain),
            priority: self.best,
            chain: self.chain,
        };
        let new = Entry {
            rank: order.rank_of(jobs, priority, chain),
            priority,
            chain,
        };
        let rest = self.rest.get_or_insert_default();
        if new.place() < best.place() {
            (self.best, self.chain) = (priority, chain);
            rest.insert(best);
        } else {
            rest.insert(new);
        }
    }

    /// Unlinks [`head`](Backlog::head), which must not be the last job.
    pub(super) fn pop<T>(&mut self, order: Order, jobs: &Arena<Job<T>>) {
        match self.chain.without_head(jobs) {
            Some(chain) => self.chain = chain,
            None => return self.promote(),
        }
        if let (Order::Ageing(_), Some(rest)) = (order, &mut self.rest) {
            let rank = order.rank_of(jobs, self.best, self.chain);
            let best = Entry {
                rank,
                priority: self.best,
                chain: self.chain,
            };
            if rest.first().is_some_and(|first| first < best.place()) {
                rest.insert(best);
                self.promote();
            }
        }
    }

    /// Makes the first of the others the best.
    fn promote(&mut self) {
        let rest = self.rest.as_mut().expect("another priority in use");
        let entry = rest.pop_first().expect("another priority in use");
        (self.best, self.chain) = (entry.priority, entry.chain);
        self.forget_rest_if_empty();
    }

    fn forget_rest_if_empty(&mut self) {
        if self.rest.as_ref().is_some_and(|rest| rest.is_empty()) {
            self.rest = None;
        }
    }

    /// Unlinks any job, which must not be the last one: O(1) inside its chain, O(log priorities in
    /// use) where the chain or its head changes.
    pub(super) fn unlink<T>(&mut self, order: Order, jobs: &mut Arena<Job<T>>, job: Id) {
        let standing = job::standing(jobs, job);
        if let Standing::Inside(prev, next) = standing {
            return job::bridge(jobs, prev, next);
        }
        let priority = jobs[job].priority;
        match (priority == self.best, standing) {
            (true, Standing::Head) => self.pop(order, jobs),
            (true, _) => self.chain = self.chain.without_tail(jobs).expect("a job before"),
            (false, Standing::Head) => self.pop_of_rest(order, jobs, priority),
            (false, _) => {
                let rest = self.rest.as_mut();
                let chain = rest.and_then(|rest| rest.chain_mut(priority));
                let chain = chain.expect("the chain of a queued job");
                *chain = chain.without_tail(jobs).expect("a job before");
            }
        }
    }

    /// Unlinks the head of a chain that is not the best one.
    fn pop_of_rest<T>(&mut self, order: Order, jobs: &Arena<Job<T>>, priority: i32) {
        let rest = self.rest.as_mut().expect("the chain of a queued job");
        let entry = rest.remove(priority).expect("the chain of a queued job");
        match entry.chain.without_head(jobs) {
            Some(chain) => rest.insert(Entry {
                rank: order.rank_of(jobs, priority, chain),
                priority,
                chain,
            }),
            None => self.forget_rest_if_empty(),
        }
    }
}

/// A chain that is not the best.
struct Entry {
    rank: i128,
    priority: i32,
    chain: Chain,
}

impl Entry {
    fn place(&self) -> (i128, i32) {
        (self.rank, self.priority)
    }
}

/// Above so many chains they are kept in trees.
const FEW: usize = 32;
/// Below so many they are kept in a list again.
const FEW_AGAIN: usize = 8;

/// The chains besides the best, by place and by priority.
enum Rest {
    /// The first one last, so that it is popped in O(1).
    Few(Vec<Entry>),
    Many {
        chains: BTreeMap<i32, (i128, Chain)>,
        places: BTreeSet<(i128, i32)>,
    },
}

impl Default for Rest {
    fn default() -> Rest {
        Rest::Few(Vec::new())
    }
}

impl Rest {
    fn is_empty(&self) -> bool {
        match self {
            Rest::Few(list) => list.is_empty(),
            Rest::Many { chains, .. } => chains.is_empty(),
        }
    }

    fn chain_mut(&mut self, priority: i32) -> Option<&mut Chain> {
        match self {
            Rest::Few(list) => {
                let mut entries = list.iter_mut();
                let entry = entries.find(|entry| entry.priority == priority)?;
                Some(&mut entry.chain)
            }
            Rest::Many { chains, .. } => chains.get_mut(&priority).map(|(_, chain)| chain),
        }
    }

    fn first(&self) -> Option<(i128, i32)> {
        match self {
            Rest::Few(list) => list.last().map(Entry::place),
            Rest::Many { places, .. } => places.first().copied(),
        }
    }

    fn insert(&mut self, entry: Entry) {
        if matches!(self, Rest::Few(list) if list.len() == FEW) {
            self.spread();
        }
        match self {
            Rest::Few(list) => {
                let at = list.partition_point(|other| other.place() > entry.place());
                list.insert(at, entry);
            }
            Rest::Many { chains, places } => {
                places.insert(entry.place());
                chains.insert(entry.priority, (entry.rank, entry.chain));
            }
        }
    }

    fn remove(&mut self, priority: i32) -> Option<Entry> {
        match self {
            Rest::Few(list) => {
                let at = list.iter().position(|entry| entry.priority == priority)?;
                Some(list.remove(at))
            }
            Rest::Many { chains, places } => {
                let (rank, chain) = chains.remove(&priority)?;
                places.remove(&(rank, priority));
                self.gather();
                Some(Entry {
                    rank,
                    priority,
                    chain,
                })
            }
        }
    }

    fn pop_first(&mut self) -> Option<Entry> {
        match self {
            Rest::Few(list) => list.pop(),
            Rest::Many { places, .. } => {
                let &(_, priority) = places.first()?;
                self.remove(priority)
            }
        }
    }

    /// From the list into trees.
    #[cold]
    fn spread(&mut self) {
        let entries = std::mem::take(self).into_entries();
        *self = Rest::Many {
            places: entries.iter().map(Entry::place).collect(),
            chains: entries
                .into_iter()
                .map(|entry| (entry.priority, (entry.rank, entry.chain)))
                .collect(),
        };
    }

    /// From the trees into a list, if they hold few enough.
    fn gather(&mut self) {
        if matches!(self, Rest::Many { chains, .. } if chains.len() <= FEW_AGAIN) {
            let mut entries = std::mem::take(self).into_entries();
            entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.place()));
            *self = Rest::Few(entries);
        }
    }

    fn into_entries(self) -> Vec<Entry> {
        match self {
            Rest::Few(list) => list,
            Rest::Many { chains, .. } => chains
                .into_iter()
                .map(|(priority, (rank, chain))| Entry {
                    rank,
                    priority,
                    chain,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{FairQueue, Priority};

    use super::{FEW, FEW_AGAIN, Rest};

    /// The chains besides the best one of the only lane, and whether they are in trees.
    fn rest(queue: &FairQueue<(), i32>) -> (usize, bool) {
        let lane = queue.lanes.first_from(0).expect("something is queued");
        match queue.lanes[lane].backlog.rest.as_deref() {
            None => (0, false),
            Some(Rest::Few(list)) => (list.len(), false),
            Some(Rest::Many { chains, places }) => {
                assert_eq!(chains.len(), places.len());
                (chains.len(), true)
            }
        }
    }

    #[test]
    fn many_priorities_are_kept_in_trees_until_they_are_few_again() {
        let mut queue = FairQueue::new();
        let mut tickets = Vec::new();
        for priority in 0..=FEW as i32 + 1 {
            tickets.push(queue.push((), Priority(priority), priority));
            let others = priority as usize;
            assert_eq!(rest(&queue), (others, others > FEW));
        }
        for others in (0..=FEW).rev() {
            // The best of all, or the least of the others.
            let gone = if others % 2 == 0 {
                tickets.pop().unwrap()
            } else {
                tickets.remove(0)
            };
            assert!(queue.remove(gone).is_some());
            assert_eq!(rest(&queue), (others, others > FEW_AGAIN));
        }
        assert_eq!(queue.pop().map(|(_, priority)| priority), Some(16));
    }
}
