//! The rule again, as slowly and plainly as it can be written: exact fractions, and a look at every
//! tenant on every pop. It shares nothing with the crate.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

pub(crate) struct Tenant {
    pub(crate) name: u32,
    weight: u32,
    start: BigRational,
    seq: u64,
    held: bool,
    /// (priority, arrival, job), in order of arrival.
    jobs: Vec<(i32, u64, u64)>,
}

pub(crate) struct Oracle {
    pub(crate) tenants: Vec<Tenant>,
    time: BigRational,
    seq: u64,
    arrivals: u64,
    /// `Some`: by arrival less so many for each step of priority.
    boost: Option<u32>,
}

fn one_over(n: u64) -> BigRational {
    BigRational::new(BigInt::from(1), BigInt::from(n))
}

fn ratio(a: u32, b: u32) -> BigRational {
    BigRational::new(BigInt::from(a), BigInt::from(b))
}

impl Oracle {
    pub(crate) fn new(boost: Option<u32>) -> Oracle {
        Oracle {
            tenants: Vec::new(),
            time: BigRational::zero(),
            seq: 0,
            arrivals: 0,
            boost,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tenants.iter().map(|tenant| tenant.jobs.len()).sum()
    }

    fn position(&self, name: u32) -> Option<usize> {
        self.tenants.iter().position(|tenant| tenant.name == name)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(crate) fn push(&mut self, name: u32, weight: Option<u32>, priority: i32, job: u64) {
        let at = match self.position(name) {
            Some(at) => at,
            None => {
                let seq = self.next_seq();
                self.tenants.push(Tenant {
                    name,
                    weight: weight.unwrap_or(1),
                    start: self.time.clone(),
                    seq,
                    held: false,
                    jobs: Vec::new(),
                });
                self.tenants.len() - 1
            }
        };
        if let Some(weight) = weight {
            self.set_weight(name, weight);
        }
        self.arrivals += 1;
        self.tenants[at].jobs.push((priority, self.arrivals, job));
    }

    pub(crate) fn set_weight(&mut self, name: u32, weight: u32) -> bool {
        let Some(at) = self.position(name) else {
            return false;
        };
        let tenant = &mut self.tenants[at];
        if tenant.start > self.time {
            let debt = &tenant.start - &self.time;
            tenant.start = &self.time + debt * ratio(tenant.weight, weight);
        }
        tenant.weight = weight;
        true
    }

    pub(crate) fn hold(&mut self, name: u32) -> bool {
        let at = self.position(name);
        at.map(|at| self.tenants[at].held = true).is_some()
    }

    pub(crate) fn release(&mut self, name: u32) -> bool {
        let Some(at) = self.position(name) else {
            return false;
        };
        if self.tenants[at].held {
            self.tenants[at].held = false;
            if self.tenants[at].start <= self.time {
                self.tenants[at].start = self.time.clone();
                self.tenants[at].seq = self.next_seq();
            }
        }
        true
    }

    pub(crate) fn pop(&mut self) -> Option<(u32, u64)> {
        self.pop_near(None, 0)
    }

    /// As `pop`, but goes along with the choice of `wish` if that is right to within `grains` of
    /// 2^-68 units: fractions of weights that do not divide the queue's unit of time are rounded
    /// there, so that an exact tie may fall to either side. That goes for being eligible as well: a
    /// wish has to stand against those only whose time has come beyond any rounding.
    pub(crate) fn pop_near(&mut self, wish: Option<u32>, grains: u32) -> Option<(u32, u64)> {
        let near = BigRational::new(BigInt::from(grains), BigInt::from(1) << 68);
        let live = || self.tenants.iter().filter(|tenant| !tenant.held);
        let earliest = live().map(|tenant| &tenant.start).min()?.clone();
        let time = self.time.clone().max(earliest);
        let deadline = |tenant: &Tenant| &tenant.start + one_over(tenant.weight.into());
        let eligible = live().filter(|tenant| tenant.start <= time);
        let first = eligible.min_by_key(|tenant| (deadline(tenant), tenant.seq))?;
        let (sure_start, last_start) = (&time - &near, &time + &near);
        let surely_eligible = live().filter(|tenant| tenant.start <= sure_start);
        let last_deadline = surely_eligible.map(deadline).min().map(|at| at + &near);
        let wished = live().find(|tenant| Some(tenant.name) == wish);
        let is_in_time = |wished: &&Tenant| {
            wished.start <= last_start
                && last_deadline
                    .as_ref()
                    .is_none_or(|last| deadline(wished) <= *last)
        };
        let good = wished.filter(is_in_time);
        let name = good.unwrap_or(first).name;
        let total: u64 = live().map(|tenant| u64::from(tenant.weight)).sum();
        Some(self.serve(name, time, total))
    }

    fn serve(&mut self, name: u32, time: BigRational, total: u64) -> (u32, u64) {
        let at = self.position(name).unwrap();
        let seq = self.next_seq();
        let tenant = &mut self.tenants[at];
        let due = &tenant.start + one_over(tenant.weight.into());
        tenant.start = due.max(time.clone());
        tenant.seq = seq;
        self.time = time + one_over(total);
        let best = best(&tenant.jobs, self.boost);
        let (_, _, job) = tenant.jobs.remove(best);
        self.forget_if_empty(at);
        (name, job)
    }

    pub(crate) fn remove(&mut self, job: u64) -> bool {
        for at in 0..self.tenants.len() {
            let jobs = &mut self.tenants[at].jobs;
            if let Some(index) = jobs.iter().position(|&(_, _, id)| id == job) {
                jobs.remove(index);
                self.forget_if_empty(at);
                return true;
            }
        }
        false
    }

    fn forget_if_empty(&mut self, at: usize) {
        if self.tenants[at].jobs.is_empty() {
            self.tenants.remove(at);
        }
        if self.tenants.is_empty() {
            self.time = BigRational::zero();
        }
    }
}

/// Where the job to be served next is. Arrivals are consecutive only with a single tenant, which is
/// where ageing is tested.
fn best(jobs: &[(i32, u64, u64)], boost: Option<u32>) -> usize {
    let rank = |&(priority, arrival, _): &(i32, u64, u64)| match boost {
        None => (-i128::from(priority), arrival),
        Some(boost) => (
            i128::from(arrival) - i128::from(boost) * i128::from(priority),
            arrival,
        ),
    };
    (0..jobs.len()).min_by_key(|&at| rank(&jobs[at])).unwrap()
}
