//! The rule by cost again, as slowly and plainly as it can be written: exact fractions, and a look at
//! every tenant at every step. It shares nothing with the crate. What the rule itself rounds, to whole
//! ticks, is rounded here too.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};

/// A tick is 1/2^20 of a unit of cost at weight 1.
fn tick() -> BigRational {
    BigRational::new(BigInt::from(1), BigInt::from(1) << 20)
}

fn whole(n: u64) -> BigRational {
    BigRational::from(BigInt::from(n))
}

fn floor(at: &BigRational) -> BigRational {
    (at / tick()).floor() * tick()
}

fn ceil(at: &BigRational) -> BigRational {
    (at / tick()).ceil() * tick()
}

struct Tenant {
    name: u32,
    weight: u32,
    start: BigRational,
    seq: u64,
    estimate: u64,
    is_measured: bool,
    running: u64,
    /// It has come as a stranger, and nothing of it was popped since.
    is_fresh: bool,
    /// Its first job, not settled: when it moved the floor, the estimate, and the weights.
    first: Option<(usize, u64, BigRational)>,
    owes: bool,
    held: bool,
    /// (priority, arrival, job), in order of arrival.
    jobs: Vec<(i32, u64, u64)>,
}

impl Tenant {
    fn w(&self) -> BigRational {
        whole(self.weight.into())
    }

    fn is_live(&self) -> bool {
        !self.jobs.is_empty() && !self.held
    }

    fn deadline(&self) -> BigRational {
        &self.start + whole(self.estimate) / self.w()
    }

    /// The start without the jobs that run.
    fn settled(&self) -> BigRational {
        &self.start - whole(self.estimate) * whole(self.running) / self.w()
    }
}

/// What happens to the floor.
enum Move {
    To(BigRational),
    By(BigRational),
}

#[derive(Default)]
pub(crate) struct CostOracle {
    tenants: Vec<Tenant>,
    /// All that has happened to the floor; corrected where it happened.
    moves: Vec<Move>,
    /// What comes of it.
    floor: BigRational,
    lately: u64,
    seq: u64,
    arrivals: u64,
}

impl CostOracle {
    pub(crate) fn len(&self) -> usize {
        self.tenants.iter().map(|tenant| tenant.jobs.len()).sum()
    }

    pub(crate) fn lanes(&self) -> usize {
        let lanes = self.tenants.iter().filter(|t| !t.jobs.is_empty());
        lanes.count()
    }

    pub(crate) fn knows_anybody(&self) -> bool {
        !self.tenants.is_empty()
    }

    fn position(&self, name: u32) -> Option<usize> {
        self.tenants.iter().position(|tenant| tenant.name == name)
    }

    fn lane(&self, name: u32) -> Option<usize> {
        let at = self.position(name)?;
        (!self.tenants[at].jobs.is_empty()).then_some(at)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn live(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.iter().filter(|tenant| tenant.is_live())
    }

    fn total(&self) -> BigRational {
        self.live().map(Tenant::w).sum()
    }

    /// In whole ticks.
    fn average(&self) -> BigRational {
        let total = self.total();
        if total.is_zero() {
            return self.floor.clone();
        }
        let sum: BigRational = self.live().map(|t| &t.start * t.w()).sum();
        floor(&(sum / total))
    }

    fn replay(&mut self) {
        let moved = |floor: BigRational, step: &Move| match step {
            Move::To(at) => floor.max(at.clone()),
            Move::By(by) => floor + by,
        };
        self.floor = self.moves.iter().fold(BigRational::zero(), moved);
    }

    pub(crate) fn push(&mut self, name: u32, weight: Option<u32>, priority: i32, job: u64) {
        self.arrivals += 1;
        let queued = (priority, self.arrivals, job);
        if let Some(at) = self.lane(name) {
            if let Some(weight) = weight {
                self.set_weight_at(at, weight);
            }
            return self.tenants[at].jobs.push(queued);
        }
        let at = self.open(name, weight.unwrap_or(1));
        self.start_at(at);
        self.tenants[at].jobs.push(queued);
    }

    fn open(&mut self, name: u32, weight: u32) -> usize {
        let at = match self.position(name) {
            Some(at) => {
                self.set_weight_at(at, weight);
                at
            }
            None => {
                self.tenants.push(Tenant {
                    name,
                    weight,
                    start: BigRational::zero(),
                    seq: 0,
                    estimate: self.lately / 64,
                    is_measured: false,
                    running: 0,
                    is_fresh: true,
                    first: None,
                    owes: false,
                    held: false,
                    jobs: Vec::new(),
                });
                self.tenants.len() - 1
            }
        };
        let tenant = &mut self.tenants[at];
        tenant.held = false;
        at
    }

    /// Of a tenant that is about to be live.
    fn start_at(&mut self, at: usize) {
        let peak = self.live().map(|t| t.estimate).max().unwrap_or(0);
        // Down to a power of two.
        let peak = peak.checked_ilog2().map_or(0, |digits| 1 << digits);
        let credit = floor(&(whole(peak) / self.tenants[at].w()));
        let earliest = (self.average() - credit).max(self.floor.clone());
        let seq = self.next_seq();
        let tenant = &mut self.tenants[at];
        tenant.start = tenant.start.clone().max(earliest);
        tenant.seq = seq;
    }

    /// How far ahead a tag may be put that is there now.
    fn furthest(&self, start: &BigRational) -> BigRational {
        floor(start).max(&self.floor + whole(1 << 60))
    }

    fn set_weight_at(&mut self, at: usize, weight: u32) {
        let average = self.average();
        let furthest = self.furthest(&self.tenants[at].settled());
        let tenant = &mut self.tenants[at];
        if tenant.weight == weight {
            return;
        }
        // Without the jobs that run.
        let start = tenant.settled();
        let ahead = (&start - &average) * tenant.w();
        tenant.weight = weight;
        let settled = if ahead.is_positive() {
            (&average + ahead / tenant.w()).min(furthest)
        } else {
            // In parts of a tick that the new weight knows.
            let parts = (&start - floor(&start)) / tick() * tenant.w();
            floor(&start) + parts.floor() * tick() / tenant.w()
        };
        tenant.start = settled + whole(tenant.estimate) * whole(tenant.running) / tenant.w();
    }

    pub(crate) fn set_weight(&mut self, name: u32, weight: u32) -> bool {
        let at = self.lane(name);
        at.map(|at| self.set_weight_at(at, weight)).is_some()
    }

    pub(crate) fn hold(&mut self, name: u32) -> bool {
        let at = self.lane(name);
        at.map(|at| self.tenants[at].held = true).is_some()
    }

    pub(crate) fn release(&mut self, name: u32) -> bool {
        let Some(at) = self.lane(name) else {
            return false;
        };
        if self.tenants[at].held {
            self.start_at(at);
            self.tenants[at].held = false;
        }
        true
    }

    pub(crate) fn pop(&mut self) -> Option<(u32, u64)> {
        let average = self.average();
        let eligible = self.live().filter(|t| floor(&t.start) <= average);
        let first = eligible.min_by_key(|t| (t.deadline(), t.seq))?;
        let at = self.position(first.name)?;
        let least = self.live().map(|t| floor(&t.start)).min()?;
        self.moves.push(Move::To(least));
        let (total, estimate) = (self.total(), self.tenants[at].estimate);
        if self.tenants[at].is_fresh {
            self.tenants[at].first = Some((self.moves.len(), estimate, total.clone()));
            self.moves.push(Move::By(ceil(&(whole(estimate) / total))));
        }
        self.replay();
        let seq = self.next_seq();
        let furthest = self.furthest(&self.tenants[at].start);
        let tenant = &mut self.tenants[at];
        tenant.start = (&tenant.start + whole(estimate) / tenant.w()).min(furthest);
        (tenant.is_fresh, tenant.owes, tenant.seq) = (false, true, seq);
        tenant.running += 1;
        let jobs = &tenant.jobs;
        let best = (0..jobs.len()).min_by_key(|&n| (-jobs[n].0, jobs[n].1))?;
        let (_, _, job) = tenant.jobs.remove(best);
        let name = tenant.name;
        self.forget();
        Some((name, job))
    }

    pub(crate) fn settle(&mut self, name: u32, cost: u64) -> bool {
        let Some(at) = self.position(name) else {
            return false;
        };
        if let Some((when, estimate, total)) = self.tenants[at].first.take() {
            if let Move::By(by) = &mut self.moves[when] {
                *by += ceil(&(whole(cost.saturating_sub(estimate)) / total));
            }
            self.replay();
        }
        self.lately = match self.lately {
            0 => cost * 64,
            lately => lately - lately / 64 + cost,
        };
        let furthest = self.furthest(&self.tenants[at].start);
        let tenant = &mut self.tenants[at];
        let settled = tenant.settled() + whole(cost) / tenant.w();
        tenant.running = tenant.running.saturating_sub(1);
        let faded = tenant.estimate - tenant.estimate / 50;
        tenant.estimate = if tenant.is_measured {
            cost.max(faded)
        } else {
            cost
        };
        let start = settled + whole(tenant.estimate) * whole(tenant.running) / tenant.w();
        tenant.start = start.min(furthest);
        (tenant.is_measured, tenant.owes) = (true, true);
        self.forget();
        true
    }

    pub(crate) fn remove(&mut self, job: u64) -> bool {
        for at in 0..self.tenants.len() {
            let jobs = &mut self.tenants[at].jobs;
            if let Some(index) = jobs.iter().position(|&(_, _, id)| id == job) {
                jobs.remove(index);
                self.forget();
                return true;
            }
        }
        false
    }

    pub(crate) fn drain(&mut self) {
        self.tenants.clear();
        self.forget();
    }

    /// Who has nothing queued, runs nothing and owes nothing beyond the floor; everybody, once nothing
    /// is queued and nothing runs.
    fn forget(&mut self) {
        let floor = self.floor.clone();
        self.tenants.retain(|tenant| {
            let is_paid_off = !tenant.owes || tenant.start <= floor;
            !tenant.jobs.is_empty() || tenant.running > 0 || !is_paid_off
        });
        let is_idle = |tenant: &Tenant| tenant.jobs.is_empty() && tenant.running == 0;
        if self.tenants.iter().all(is_idle) {
            self.tenants.clear();
            self.moves.clear();
            self.replay();
        }
    }
}
