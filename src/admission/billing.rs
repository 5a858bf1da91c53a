//! Charging tenants for what their jobs cost, where that is asked for.
//!
//! The queue knows tenants by the numbers of their accounts, and may know one longer than anything of it
//! is queued or runs: until it has paid off what it owes. An account stays open for as long, as whoever
//! got its number next would inherit a debt.

use super::lanes::Lanes;
use crate::fair::Id;

impl Lanes {
    /// A job of `id` has ended that used so much; up to now that kept the account open. A function of its
    /// own: by count nothing of it is to be in the way.
    #[inline(never)]
    pub(super) fn settle(&mut self, id: Id, spent: u64) {
        #[cfg(all(test, not(any(loom, shuttle))))]
        {
            let name = self.tenants[id].name.to_string();
            *self.charged.entry(name).or_default() += spent;
        }
        let account = &mut self.tenants[id];
        if self.queue.book_at(account.lane, &id, spent) {
            account.owes = true;
        }
        self.close_paid_off();
    }

    /// Closes a few accounts that are open for a debt alone which has been paid off. By count there are
    /// none. `true`: there may be more.
    pub(super) fn close_paid_off(&mut self) -> bool {
        let tenants = &mut self.tenants;
        self.queue.forget_paid_off(|id| tenants.forgive(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::lanes::{Request, Who};
    use crate::fair::{FairQueue, Priority};
    use crate::job::Job;

    fn push(lanes: &mut Lanes, name: &str) -> Id {
        let request = Request {
            who: Who::Named(name),
            weight: None,
            priority: Priority::NORMAL,
        };
        let id = lanes.resolve(request.who);
        lanes.push(id, request, false, Job::new(|| ()));
        id
    }

    /// Runs the next job; its tenant.
    fn run(lanes: &mut Lanes, cost: impl Fn(Id) -> u64) -> Id {
        let tenant = lanes.pop().expect("a job").tenant;
        lanes.end(tenant, cost(tenant));
        tenant
    }

    #[test]
    fn an_account_in_debt_stays_open_and_is_closed_in_the_end() {
        let mut lanes = Lanes::new(FairQueue::by_cost(), None);
        let heavy = push(&mut lanes, "heavy");
        let light = push(&mut lanes, "light");
        for _ in 0..100 {
            push(&mut lanes, "light");
        }
        let cost = |id| if id == heavy { 1_000 } else { 10 };
        while run(&mut lanes, cost) != heavy {}
        assert_eq!(lanes.tenants.open("heavy"), heavy, "it owes");
        lanes.tenants.tidy(heavy);
        assert_eq!(lanes.tenants.open_accounts(), 2);
        while lanes.queue.lanes() > 0 {
            assert_eq!(run(&mut lanes, cost), light);
        }
        assert_eq!(lanes.tenants.open_accounts(), 0);
    }

    #[test]
    fn strangers_that_pay_off_what_they_owe_do_not_pile_up() {
        let mut lanes = Lanes::new(FairQueue::by_cost(), None);
        for n in 0..1_000 {
            push(&mut lanes, "steady");
            push(&mut lanes, &n.to_string());
            run(&mut lanes, |_| 10);
            run(&mut lanes, |_| 10);
            push(&mut lanes, "steady");
            run(&mut lanes, |_| 10);
            assert!(lanes.tenants.open_accounts() < 20);
        }
        while lanes.queue.lanes() > 0 {
            run(&mut lanes, |_| 10);
        }
        assert_eq!(lanes.tenants.open_accounts(), 0);
    }
}
