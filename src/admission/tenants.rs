//! The tenants that have something going on. Nothing is kept of the others.

use std::collections::{BTreeMap, HashMap};

use crate::fair::{Arena, Id, Names, Weight};
use crate::ledger::Seat;
use crate::sync::Arc;

/// What is known of one tenant. What every job touches fits into one cache line; with a thousand
/// tenants and more, each line is a miss.
#[repr(align(64))]
pub(super) struct Account {
    pub(super) name: Arc<str>,
    pub(super) weight: Weight,
    /// Where its lane was last. It may be gone since.
    pub(super) lane: Option<Id>,
    /// Handles that keep the account alive, and with it weight and limits.
    pub(super) handles: u32,
    /// Jobs in the lane. A `FairQueue` holds fewer than 2^32.
    pub(super) queued: u32,
    /// Jobs that have begun and not ended.
    pub(super) running: u32,
    /// Jobs that ended since the account was opened.
    pub(super) completed: u64,
    /// Room granted to submitters whose job is not in the lane yet.
    pub(super) reserved: u32,
    /// Submitters that have sat down to wait for room and not got up again.
    pub(super) sitting: u32,
    /// By cost: the queue may know the tenant by what it owes.
    pub(super) owes: bool,
    /// What few tenants have.
    pub(super) limits: Option<Box<Limits>>,
}

/// The limits of a tenant, and who waits because of them.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) max_running: Option<usize>,
    pub(super) queue_limit: Option<usize>,
    /// Submitters whose wait for room has not ended yet, in order of arrival.
    pub(super) waiting: BTreeMap<u64, Arc<Seat>>,
    /// The first waiter's number, if all it waits for is room in the pool.
    pub(super) ready: Option<u64>,
}

impl Account {
    fn new(name: Arc<str>) -> Account {
        Account {
            name,
            weight: Weight::default(),
            lane: None,
            handles: 0,
            queued: 0,
            running: 0,
            completed: 0,
            reserved: 0,
            sitting: 0,
            owes: false,
            limits: None,
        }
    }

    pub(super) fn limits_mut(&mut self) -> &mut Limits {
        self.limits.get_or_insert_default()
    }

    /// Whether the tenant's own queue limit leaves room for one more.
    pub(super) fn has_room(&self) -> bool {
        let limit = self.limits.as_ref().and_then(|limits| limits.queue_limit);
        limit.is_none_or(|limit| ((self.queued + self.reserved) as usize) < limit)
    }

    /// Whether the tenant runs as many jobs as it may.
    pub(super) fn is_saturated(&self) -> bool {
        let most = self.limits.as_ref().and_then(|limits| limits.max_running);
        most.is_some_and(|most| self.running as usize >= most)
    }

    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        (self.queued | self.running | self.reserved | self.sitting) > 0
    }
}

/// All accounts, by number and by name.
pub(super) struct Tenants {
    accounts: Arena<Account>,
    by_name: HashMap<Arc<str>, Id, Names>,
    /// The account of jobs without a tenant. It stays, so that they need no look-up; while it has
    /// nothing going on it does not count as live, and starts afresh.
    nameless: Id,
}

impl Tenants {
    /// Starts to fetch an account, which may have been closed.
    #[inline]
    pub(super) fn prefetch(&self, id: Id) {
        self.accounts.prefetch(id);
    }

    /// Where the tenant's lane was last, unless its account has been closed.
    #[inline]
    pub(super) fn lane_of(&self, id: Id) -> Option<Id> {
        self.accounts.get(id)?.lane
    }

    pub(super) fn new() -> Tenants {
        let mut accounts = Arena::new();
        let name: Arc<str> = Arc::from("");
        let nameless = accounts.insert(Account::new(Arc::clone(&name)));
        let mut by_name = HashMap::with_hasher(Names::new());
        by_name.insert(name, nameless);
        Tenants {
            accounts,
            by_name,
            nameless,
        }
    }

    pub(super) fn nameless(&self) -> Id {
        self.nameless
    }

    /// The account called `name`, opened if need be. O(1). The caller gives it a reason to live, or
    /// calls [`Tenants::tidy`].
    pub(super) fn open(&mut self, name: &str) -> Id {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let name: Arc<str> = Arc::from(name);
        let id = self.accounts.insert(Account::new(Arc::clone(&name)));
        self.by_name.insert(name, id);
        id
    }

    /// Forgets the account if nothing is going on and nobody has a handle to it.
    pub(super) fn tidy(&mut self, id: Id) {
        let account = &mut self.accounts[id];
        if account.is_busy() || account.handles > 0 {
            return;
        }
        if id == self.nameless || account.owes {
            let (owes, lane) = (account.owes, account.lane);
            *account = Account::new(Arc::clone(&account.name));
            (account.owes, account.lane) = (owes, lane);
            return;
        }
        let account = self.accounts.remove(id);
        self.by_name.remove(&account.name);
        // A million names that were seen once would leave a table for a million behind.
        if self.by_name.len() * 8 < self.by_name.capacity() {
            self.by_name.shrink_to(self.by_name.len() * 2);
        }
    }

    /// The tenant owes nothing any more.
    pub(super) fn forgive(&mut self, id: Id) {
        self.accounts[id].owes = false;
        self.tidy(id);
    }

    /// Nobody does. O(accounts).
    pub(super) fn forgive_all(&mut self) {
        let owing = self.by_name.values().copied();
        let owing: Vec<Id> = owing.filter(|id| self.accounts[*id].owes).collect();
        owing.into_iter().for_each(|id| self.forgive(id));
    }

    /// Accounts but for the nameless one.
    #[cfg(test)]
    pub(super) fn open_accounts(&self) -> usize {
        self.accounts.len() - 1
    }

    /// Everybody who waits for room.
    pub(super) fn seats(&self) -> Vec<Arc<Seat>> {
        let accounts = self.by_name.values().map(|id| &self.accounts[*id]);
        accounts
            .filter_map(|account| account.limits.as_ref())
            .flat_map(|limits| limits.waiting.values().cloned())
            .collect()
    }

    /// The live accounts. O(accounts).
    pub(super) fn iter(&self) -> impl Iterator<Item = &Account> {
        let live = self.by_name.values().map(|id| &self.accounts[*id]);
        live.filter(|account| account.is_busy() || account.handles > 0)
    }
}

impl std::ops::Index<Id> for Tenants {
    type Output = Account;
    fn index(&self, id: Id) -> &Account {
        &self.accounts[id]
    }
}

impl std::ops::IndexMut<Id> for Tenants {
    fn index_mut(&mut self, id: Id) -> &mut Account {
        &mut self.accounts[id]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tenants: &Tenants) -> Vec<String> {
        tenants.iter().map(|a| a.name.to_string()).collect()
    }

    #[test]
    fn an_account_lives_as_long_as_there_is_a_reason() {
        let mut tenants = Tenants::new();
        let id = tenants.open("acme");
        assert_eq!(tenants.open("acme"), id);
        tenants[id].handles = 1;
        tenants[id].weight = Weight::new(7);
        tenants.tidy(id);
        assert_eq!(names(&tenants), ["acme"]);
        tenants[id].handles = 0;
        tenants[id].running = 1;
        tenants.tidy(id);
        assert_eq!(tenants[id].weight, Weight::new(7));
        tenants[id].running = 0;
        tenants.tidy(id);
        assert!(names(&tenants).is_empty());
        let again = tenants.open("acme");
        assert_eq!(tenants[again].weight, Weight::default(), "a fresh start");
    }

    #[test]
    fn one_that_owes_keeps_its_number_and_nothing_else() {
        let mut tenants = Tenants::new();
        let ids = ["acme", ""].map(|name| tenants.open(name));
        for id in ids {
            tenants[id].owes = true;
            tenants[id].weight = Weight::new(7);
            tenants.tidy(id);
            assert_eq!(tenants[id].weight, Weight::default());
            assert!(names(&tenants).is_empty());
        }
        assert_eq!(ids, ["acme", ""].map(|name| tenants.open(name)));
        tenants.forgive_all();
        assert_eq!(tenants.accounts.len(), 1);
    }

    #[test]
    fn an_account_fits_into_a_cache_line() {
        assert!(size_of::<Option<Account>>() <= 64);
    }

    #[test]
    fn the_nameless_account_stays_and_starts_afresh() {
        let mut tenants = Tenants::new();
        let id = tenants.nameless();
        assert_eq!(tenants.open(""), id);
        tenants[id].completed = 5;
        tenants.tidy(id);
        assert_eq!(tenants[id].completed, 0);
        assert!(names(&tenants).is_empty());
    }

    #[test]
    fn names_seen_once_leave_nothing_behind() {
        let mut tenants = Tenants::new();
        let ids: Vec<_> = (0..10_000).map(|i| tenants.open(&i.to_string())).collect();
        ids.into_iter().for_each(|id| tenants.tidy(id));
        assert!(tenants.by_name.capacity() < 100);
        assert_eq!(tenants.accounts.len(), 1);
    }
}
