//! Submitters that wait for room: first come, first served, and no tenant holds up another.
//!
//! Room is limited twice, for the pool and for each tenant. A submitter whose own tenant is full
//! cannot use room in the pool, so it must not stand in the way of those who can. Each tenant's
//! waiters form a queue; only the first of a tenant that has room of its own is *ready*, and room in
//! the pool goes to the ready one that came first. Nobody waits for what there is: whoever makes
//! room hands it out in the same step. O(log waiters) a step.

use std::collections::BTreeMap;

use super::tenants::{Account, Tenants};
use crate::fair::Id;
use crate::ledger::{Entry, Seat};
use crate::sync::Arc;

/// Room for queued jobs, and who waits for it.
#[derive(Default)]
pub(super) struct Waiting {
    limit: Option<usize>,
    /// Jobs in lanes, and room reserved for jobs that are about to be.
    used: usize,
    next_number: u64,
    ready: BTreeMap<u64, Id>,
    is_closed: bool,
}

impl Waiting {
    pub(super) fn new(limit: Option<usize>) -> Waiting {
        Waiting {
            limit,
            ..Waiting::default()
        }
    }

    fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.used < limit)
    }

    /// Reserves room for a job of `tenant` if there is any.
    pub(super) fn try_enter(&mut self, tenants: &mut Tenants, tenant: Id) -> Entry {
        if self.is_closed {
            return Entry::Closed;
        }
        if !self.has_room() || !tenants[tenant].has_room() {
            return Entry::Full;
        }
        tenants[tenant].reserved += 1;
        self.used += 1;
        Entry::Granted
    }

    /// A job goes into its lane: into room reserved for it, or without having asked, where there is
    /// no limit to ask.
    #[inline]
    pub(super) fn enter(&mut self, account: &mut Account, is_reserved: bool) {
        account.queued += 1;
        if is_reserved {
            account.reserved -= 1;
        } else {
            self.used += 1;
        }
    }

    /// Takes a reservation back.
    pub(super) fn give_back(
        &mut self,
        tenants: &mut Tenants,
        tenant: Id,
        granted: &mut Vec<Arc<Seat>>,
    ) {
        tenants[tenant].reserved -= 1;
        self.used -= 1;
        self.serve(tenants, tenant, granted);
    }

    /// A job has left its lane. `true`: somebody may wait for its room, [`serve`](Waiting::serve) him.
    #[inline]
    pub(super) fn leave(&mut self, account: &mut Account) -> bool {
        account.queued -= 1;
        self.used -= 1;
        account.sitting > 0 || !self.ready.is_empty()
    }

    /// Queues a submitter that found no room; returns its number.
    pub(super) fn sit_down(&mut self, tenants: &mut Tenants, tenant: Id, seat: &Arc<Seat>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let account = &mut tenants[tenant];
        account.sitting += 1;
        account
            .limits_mut()
            .waiting
            .insert(number, Arc::clone(seat));
        self.update_ready(tenants, tenant);
        number
    }

    /// A submitter has given up waiting.
    pub(super) fn stand_up(&mut self, tenants: &mut Tenants, tenant: Id, number: u64) {
        let account = &mut tenants[tenant];
        account.sitting -= 1;
        account.limits_mut().waiting.remove(&number);
        self.update_ready(tenants, tenant);
    }

    /// Hands out what room there is, after something has changed for `tenant`. Who gets it is added
    /// to `granted`, to be woken.
    pub(super) fn serve(
        &mut self,
        tenants: &mut Tenants,
        tenant: Id,
        granted: &mut Vec<Arc<Seat>>,
    ) {
        self.update_ready(tenants, tenant);
        while self.has_room() && !self.is_closed {
            let Some((number, next)) = self.ready.pop_first() else {
                break;
            };
            let account = &mut tenants[next];
            let limits = account.limits_mut();
            limits.ready = None;
            if let Some(seat) = limits.waiting.remove(&number) {
                if seat.claim(Entry::Granted) {
                    account.sitting -= 1;
                    account.reserved += 1;
                    self.used += 1;
                    granted.push(seat);
                }
            }
            self.update_ready(tenants, next);
        }
    }

    /// Lists the tenant's first waiter as ready if it is, and nobody of it otherwise.
    fn update_ready(&mut self, tenants: &mut Tenants, tenant: Id) {
        let account = &mut tenants[tenant];
        let has_room = account.has_room();
        let Some(limits) = &mut account.limits else {
            return;
        };
        let first = limits.waiting.first_key_value().map(|(number, _)| *number);
        let ready = first.filter(|_| has_room);
        if limits.ready == ready {
            return;
        }
        if let Some(before) = std::mem::replace(&mut limits.ready, ready) {
            self.ready.remove(&before);
        }
        if let Some(number) = ready {
            self.ready.insert(number, tenant);
        }
    }

    /// Nobody enters any more. The seats of those who wait are told by the caller.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.ready.clear();
    }
}
