//! Charging tenants for what their jobs cost, where that is asked for.
//!
//! The queue knows tenants by the numbers of their accounts, and may know one longer than anything of it
//! is queued or runs: until it has paid off what it owes. An account stays open for as long, as whoever
//! got its number next would inherit a debt.

use super::lanes::Lanes;
use crate::fair::Id;

impl Lanes {
    /// A job that has begun is charged for, once that is known in the queue.
    pub(super) fn keep_open(&mut self, id: Id) {
        self.tenants[id].owes = true;
    }

    /// A job of `id` has ended that used so much.
    #[cold]
    pub(super) fn settle(&mut self, id: Id, spent: u64) {
        self.queue.book(&id, spent);
        self.close_paid_off();
    }

    /// Closes accounts that are open for a debt alone which has been paid off. By count there are none.
    pub(super) fn close_paid_off(&mut self) {
        let tenants = &mut self.tenants;
        self.queue.forget_paid_off(|id| tenants.forgive(id));
    }
}
