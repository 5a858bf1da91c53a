//! How a comparison is made: rounds, interleaved; medians; and how much of the machine somebody else
//! used meanwhile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::table::Metric;

/// More than this of one core used by others, in percent, and a table is worth nothing.
const FOREIGN_LIMIT: f64 = 5.0;

/// What all loads are told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Threads a pool.
    pub workers: usize,
    /// Rounds a table; each runs every contestant once.
    pub rounds: usize,
    /// A smoke run: the same code over a fraction of the work. Its figures mean nothing.
    pub quick: bool,
}

impl Config {
    /// `full`, or a fiftieth of it in a smoke run.
    pub fn sized(&self, full: usize) -> usize {
        if self.quick { full / 50 } else { full }
    }

    /// How many workers can run at once.
    pub fn parallel(&self) -> usize {
        self.workers.min(cores())
    }
}

/// The cores at this process's disposal.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// One thing that a table compares.
pub struct Contestant {
    /// Its row.
    pub name: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// Runs it once.
    pub run: Run,
}

/// Runs something once, from scratch; one number a metric.
pub type Run = Box<dyn Fn(&Config) -> Vec<f64>>;

/// A table to be made.
pub struct Comparison {
    /// What it is asked for by.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What each contestant's numbers are.
    pub metrics: &'static [Metric],
    /// Its rows, the first being what all are compared with.
    pub contestants: Vec<Contestant>,
    /// Where it is run.
    pub place: Place,
}

/// Where the rounds of a table are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All in one process.
    Together,
    /// Likewise, on one core.
    OneCore,
    /// Each run in a process of its own, because it is the process's memory that is measured, with
    /// allocations counted.
    Apart,
}

impl Place {
    /// How many cores it has.
    pub fn cores(self) -> usize {
        match self {
            Place::OneCore => 1,
            Place::Together | Place::Apart => cores(),
        }
    }
}

/// What a contestant is to the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody else's.
    Peer,
    /// To be compared with, though it does not do what the others do: never "the best peer".
    Reference,
    /// Fairlane.
    Ours,
}

/// What came of some rounds.
pub struct Outcome {
    /// One a contestant, in their order.
    pub rows: Vec<Row>,
    /// CPU time of others, in percent of one core.
    pub foreign: f64,
}

impl Outcome {
    /// Of no rounds yet.
    pub fn of(contestants: &[Contestant]) -> Outcome {
        Outcome {
            rows: contestants.iter().map(empty_row).collect(),
            foreign: 0.0,
        }
    }

    /// Whether the machine was ours.
    pub fn is_usable(&self) -> bool {
        Self::is_usable_with(self.foreign)
    }

    /// Whether figures can be used if others took so much, in percent of one core.
    pub fn is_usable_with(foreign: f64) -> bool {
        foreign <= FOREIGN_LIMIT
    }
}

/// The figures of one contestant.
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// One vector a round, with one number a metric.
    pub rounds: Vec<Vec<f64>>,
}

impl Row {
    /// One metric, round by round.
    pub fn metric(&self, metric: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round[metric]).collect()
    }
}

/// Runs every contestant once a round. A machine changes its pace while it is measured; so it hits
/// all of them alike.
pub fn interleave(contestants: &[Contestant], config: &Config) -> Outcome {
    let mut outcome = Outcome::of(contestants);
    let watch = Watch::start();
    for round in 0..config.rounds {
        for index in order(round, contestants.len()) {
            let figures = (contestants[index].run)(config);
            outcome.rows[index].rounds.push(figures);
        }
    }
    outcome.foreign = watch.foreign();
    outcome
}

/// The order in one round: another start and another stride each time, so that nobody always comes
/// first, or always after the same one.
fn order(round: usize, len: usize) -> impl Iterator<Item = usize> {
    let mut strides = (1..).filter(|&stride| gcd(stride, len) == 1);
    let stride = strides.nth(round).unwrap_or(1);
    (0..len).map(move |turn| (round + turn * stride) % len)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn empty_row(contestant: &Contestant) -> Row {
    Row {
        name: contestant.name,
        kind: contestant.kind,
        rounds: Vec::new(),
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        (sorted[half - 1] + sorted[half]) / 2.0
    }
}

/// The value that a share `q` of the others do not exceed.
pub fn percentile(values: &mut [u64], q: f64) -> f64 {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * q) as usize] as f64
}

/// The median of the ratios of each round. A round that was slow for everybody cancels out, which it
/// does not in a ratio of medians.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    median(&ratios)
}

/// Watches how much CPU time others take, this process's children included among its own.
struct Watch {
    since: Instant,
    machine: Duration,
    own: Duration,
}

impl Watch {
    fn start() -> Watch {
        Watch {
            since: Instant::now(),
            machine: machine_cpu(),
            own: own_cpu_with_children(),
        }
    }

    /// In percent of one core. Both clocks tick in hundredths of a second, so it can come out a
    /// little below 0.
    fn foreign(&self) -> f64 {
        let machine = (machine_cpu() - self.machine).as_secs_f64();
        let own = (own_cpu_with_children() - self.own).as_secs_f64();
        (machine - own) / self.since.elapsed().as_secs_f64() * 100.0
    }
}

/// CPU time used on this machine since it started, or taken away from it by its host.
fn machine_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("needs Linux's /proc");
    let total = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = total.split_whitespace().skip(1).map(parse).collect();
    // user, nice, system, irq, softirq, steal; not idle, iowait, and guest, which user contains.
    ticks([0, 1, 2, 5, 6, 7].into_iter().map(|i| fields[i]).sum())
}

/// CPU time of this process and of the children it has waited for.
fn own_cpu_with_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("needs Linux's /proc");
    // The second field is a name in parentheses, which may hold spaces.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(4);
    ticks(times.map(parse).sum())
}

fn parse(field: &str) -> u64 {
    field.parse().expect("a number")
}

/// Linux reports to user space in hundredths of a second, whatever its own clock is.
fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(10 * ticks)
}

/// CPU time of this process, to the nanosecond.
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory of this process that is in RAM, in bytes.
pub fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("needs Linux's /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.map_or(0.0, |kib| parse(kib) as f64 * 1024.0)
}

/// Counts jobs down and wakes the thread that made it after the last one. Not a channel and not a
/// lock: whatever it costs is added to every pool's figures.
#[repr(align(128))]
pub struct Countdown {
    done: AtomicUsize,
    jobs: usize,
    waiter: Thread,
}

impl Countdown {
    /// For so many jobs. It is leaked, a few bytes a run, so that jobs reach it by a plain pointer
    /// and pay for no reference count.
    pub fn leaked(jobs: usize) -> &'static Countdown {
        Box::leak(Box::new(Countdown {
            done: AtomicUsize::new(0),
            jobs,
            waiter: thread::current(),
        }))
    }

    /// One more is done.
    #[inline]
    pub fn hit(&self) {
        if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.jobs {
            self.waiter.unpark();
        }
    }

    /// Waits for all of them; on the thread that made it.
    pub fn wait(&self) {
        while self.done.load(Ordering::Acquire) < self.jobs {
            thread::park();
        }
    }
}

/// Keeps a core busy for `micros`. It counts loops, and so takes longer when its core is shared, as
/// real work does, where a loop that looks at a clock would not.
pub fn burn(micros: f64) {
    spin((micros * loops_per_micro()) as u64);
}

/// How many loops take a microsecond; found out by the first call, so call it before any clock runs.
pub fn loops_per_micro() -> f64 {
    static LOOPS: OnceLock<f64> = OnceLock::new();
    *LOOPS.get_or_init(|| {
        const LOOPS: u64 = 2_000_000;
        let fastest = (0..20).map(|_| timed(|| spin(LOOPS))).min();
        LOOPS as f64 / (fastest.unwrap_or_default().as_secs_f64() * 1e6)
    })
}

#[inline(never)]
fn spin(loops: u64) {
    let mut x = loops | 1;
    for _ in 0..loops {
        x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
}

/// How long something takes.
pub fn timed(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

/// Nanoseconds of each of `jobs`.
pub fn nanos_each(total: Duration, jobs: usize) -> f64 {
    total.as_nanos() as f64 / jobs as f64
}
