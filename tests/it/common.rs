//! What every scenario shares: the flavours of a pool, the watchdog, gates and counters.
//!
//! A scenario orders its events with gates and counters, never with sleeps, and asserts nothing
//! about elapsed time. Where only an eventual state can be observed it polls with [`eventually`].
//! Declare gates *after* the pool whose jobs wait at them: a failed assertion then opens them
//! before the pool is dropped, and the test fails with its message instead of hanging.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairlane::{JobHandle, PoolBuilder, Rejected, Strategy, SubmitError, WorkerPool};

/// `scenario!(name, |flavour| { body });` makes a module `name` with one test per flavour. The body
/// gets a [`&Flavour`](Flavour) and runs under the watchdog; when it returns, no pool and no
/// pool thread of the flavour may be left.
macro_rules! scenario {
    ($(#[$meta:meta])* $name:ident, |$flavour:ident| $body:block) => {
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn body($flavour: &$crate::common::Flavour) $body

            // One line per flavour.
            $crate::common::flavour_test! { round_robin, RoundRobin, false, body }
            $crate::common::flavour_test! { least_busy, LeastBusy, false, body }
            $crate::common::flavour_test! { round_robin_fair, RoundRobin, true, body }
            $crate::common::flavour_test! { least_busy_fair, LeastBusy, true, body }
        }
    };
}
pub(crate) use scenario;

/// Like [`scenario`], for what no strategy has a say in: one test, called `name`.
macro_rules! scenario_once {
    ($(#[$meta:meta])* $name:ident, |$flavour:ident| $body:block) => {
        $crate::common::flavour_test! {
            $(#[$meta])* $name, LeastBusy, false, |$flavour| $body
        }
    };
}
pub(crate) use scenario_once;

macro_rules! flavour_test {
    ($(#[$meta:meta])* $test:ident, $strategy:ident, $has_lanes:expr, $body:expr) => {
        $(#[$meta])*
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            let strategy = fairlane::Strategy::$strategy;
            $crate::common::Flavour::new(name, strategy, $has_lanes).run($body);
        }
    };
}
pub(crate) use flavour_test;

/// One way to build a pool. Every scenario passes with each of them.
pub(crate) struct Flavour {
    test: &'static str,
    strategy: Strategy,
    has_lanes: bool,
    thread_prefix: String,
    pools: Arc<Mutex<Vec<Weak<WorkerPool>>>>,
}

impl Flavour {
    pub(crate) fn new(test: &'static str, strategy: Strategy, has_lanes: bool) -> Self {
        Self {
            test: test.split_once("::").map_or(test, |(_crate, path)| path),
            strategy,
            has_lanes,
            thread_prefix: unique_name(),
            pools: Arc::default(),
        }
    }

    /// Runs `body` under the watchdog, then checks that it left no pool and no thread behind.
    pub(crate) fn run(self, body: impl FnOnce(&Self)) {
        let _watchdog = Watchdog::start(self.test, Arc::clone(&self.pools));
        body(&self);
        eventually("every pool of the scenario is dropped", || {
            let pools = self.pools.lock().unwrap();
            pools.iter().all(|pool| pool.strong_count() == 0)
        });
        assert_no_threads(&self.thread_prefix);
    }

    /// The test's name as the test harness prints it, and takes it with `--exact`.
    pub(crate) fn test(&self) -> &'static str {
        self.test
    }

    /// A builder of this flavour; its threads are called `thread_prefix()-w0`, and so on.
    pub(crate) fn builder(&self) -> PoolBuilder {
        let builder = WorkerPool::builder().strategy(self.strategy);
        let builder = builder.name(self.thread_prefix.as_str());
        if self.has_lanes {
            builder.fair()
        } else {
            builder
        }
    }

    /// What the pending counts of all slots add up to: jobs in lanes are not on any slot.
    pub(crate) fn pending(&self, queued: usize, running: usize) -> usize {
        if self.has_lanes {
            running
        } else {
            queued + running
        }
    }

    /// The start of the names of this flavour's pool threads, unique in the process.
    pub(crate) fn thread_prefix(&self) -> &str {
        &self.thread_prefix
    }

    /// A pool of this flavour, known to the watchdog.
    pub(crate) fn pool(&self, workers: usize) -> Arc<WorkerPool> {
        self.build(self.builder().workers(workers))
    }

    /// Builds what `builder` says and makes it known to the watchdog.
    pub(crate) fn build(&self, builder: PoolBuilder) -> Arc<WorkerPool> {
        let pool = Arc::new(builder.build().expect("the pool builds"));
        self.pools.lock().unwrap().push(Arc::downgrade(&pool));
        pool
    }
}

/// The number of workers where a scenario asks for several: `FAIRLANE_TEST_WORKERS`, else 4.
pub(crate) fn workers() -> usize {
    env_number("FAIRLANE_TEST_WORKERS").unwrap_or(4).max(2)
}

/// `full` rounds in an optimised build, a tenth of them in a debug build.
pub(crate) fn rounds(full: usize) -> usize {
    if cfg!(debug_assertions) {
        full / 10
    } else {
        full
    }
}

fn env_number(name: &str) -> Option<usize> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value:?} is not a number")),
    )
}

/// Ends the process when a test takes longer than `FAIRLANE_TEST_TIMEOUT_SECS` (default 60): a
/// test that hangs cannot be failed in any gentler way.
struct Watchdog {
    done: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn start(test: &'static str, pools: Arc<Mutex<Vec<Weak<WorkerPool>>>>) -> Self {
        let limit = env_number("FAIRLANE_TEST_TIMEOUT_SECS").unwrap_or(180);
        let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(u64::MAX));
        let (done, expires) = mpsc::channel();
        let watch = move || {
            if expires.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                give_up(test, limit, pools);
            }
        };
        let thread = thread::Builder::new()
            .name("watchdog".into())
            .spawn(watch)
            .unwrap();
        Self {
            done: Some(done),
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the watchdog does not panic");
        }
    }
}

/// Prints what is known and aborts. The stats are asked for on a thread of their own, since the
/// pool may be stuck for good. `eprintln!` would write into the buffer that the harness never gets
/// to print.
fn give_up(test: &'static str, limit: Duration, pools: Arc<Mutex<Vec<Weak<WorkerPool>>>>) -> ! {
    let say = |text: &str| drop(writeln!(std::io::stderr(), "{text}"));
    say(&format!("\nwatchdog: {test} is not done after {limit:?}"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let pools: Vec<_> = pools
            .lock()
            .unwrap()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for pool in &pools {
            drop(sender.send(format!("watchdog: {:?}", pool.stats())));
        }
        std::mem::forget(pools);
    });
    while let Ok(line) = lines.recv_timeout(Duration::from_secs(5)) {
        say(&line);
    }
    std::process::abort();
}

/// Polls until `condition` holds, for what can only be observed eventually; gives up, with
/// `what`, well before the watchdog does.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let (mut left, mut last) = (Duration::from_secs(30), Instant::now());
    while !condition() {
        assert!(!left.is_zero(), "never seen: {what}");
        thread::sleep(Duration::from_millis(1));
        // No look counts for more: while the whole process is stopped, nothing can come to be seen.
        let look = last.elapsed().min(Duration::from_millis(100));
        left = left.saturating_sub(look);
        last = Instant::now();
    }
}

/// A manual gate: closed at first, open for good after [`open`](Gate::open). Clones are the same
/// gate. The one that was made by `new` opens it when dropped by a panic.
pub(crate) struct Gate {
    state: Arc<(Mutex<bool>, Condvar)>,
    original: bool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::default(),
            original: true,
        }
    }

    pub(crate) fn wait(&self) {
        let (open, changed) = &*self.state;
        drop(
            changed
                .wait_while(open.lock().unwrap(), |open| !*open)
                .unwrap(),
        );
    }

    pub(crate) fn open(&self) {
        let (open, changed) = &*self.state;
        *open.lock().unwrap() = true;
        changed.notify_all();
    }
}

impl Clone for Gate {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            original: false,
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.original && thread::panicking() {
            self.open();
        }
    }
}

/// A count to wait for. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<(Mutex<usize>, Condvar)>);

impl Counter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn bump(&self) {
        let (count, changed) = &*self.0;
        *count.lock().unwrap() += 1;
        changed.notify_all();
    }

    pub(crate) fn get(&self) -> usize {
        *self.0.0.lock().unwrap()
    }

    /// Waits until at least `n` were counted.
    pub(crate) fn wait_for(&self, n: usize) {
        let (count, changed) = &*self.0;
        drop(
            changed
                .wait_while(count.lock().unwrap(), |count| *count < n)
                .unwrap(),
        );
    }
}

/// Counts closures made, run and dropped: each closure captures one [`Captured`]. Clones count
/// together.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<ProbeCounts>);

#[derive(Default)]
struct ProbeCounts {
    created: AtomicUsize,
    ran: AtomicUsize,
    dropped: AtomicUsize,
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A value for one closure to capture: counts as created now and as dropped when it is.
    pub(crate) fn capture(&self) -> Captured {
        self.0.created.fetch_add(1, Ordering::SeqCst);
        Captured(self.clone())
    }

    /// A closure that does nothing but count itself.
    pub(crate) fn job(&self) -> impl FnOnce() + Send + 'static + use<> {
        let captured = self.capture();
        move || captured.run()
    }

    pub(crate) fn created(&self) -> usize {
        self.0.created.load(Ordering::SeqCst)
    }

    pub(crate) fn ran(&self) -> usize {
        self.0.ran.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::SeqCst)
    }

    /// Every closure made so far is gone, and `ran` of them ran.
    #[track_caller]
    pub(crate) fn assert_all_dropped(&self, ran: usize) {
        assert_eq!(self.ran(), ran, "closures that ran");
        assert_eq!(
            self.dropped(),
            self.created(),
            "closures dropped, of those created"
        );
    }
}

/// What a counted closure captures; see [`Probe`].
pub(crate) struct Captured(Probe);

impl Captured {
    pub(crate) fn run(&self) {
        self.0.0.ran.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Workers kept busy by one job each, until released or dropped.
pub(crate) struct Held {
    gate: Gate,
    jobs: Vec<JobHandle<()>>,
}

impl Held {
    /// Lets the jobs finish, without waiting for them.
    pub(crate) fn open(&self) {
        self.gate.open();
    }

    /// For inside a `thread::scope` whose threads wait for these jobs: without it, a failed
    /// assertion there would wait for those threads for ever.
    #[must_use]
    pub(crate) fn open_on_panic(&self) -> OpenOnPanic<'_> {
        OpenOnPanic(self)
    }

    /// Lets the jobs finish and waits for each.
    pub(crate) fn release(mut self) {
        self.open();
        for job in self.jobs.drain(..) {
            job.join().expect("a held worker's job completes");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.open();
    }
}

/// Lets held jobs finish when the scope it is declared in is left by a panic; see
/// [`Held::open_on_panic`].
pub(crate) struct OpenOnPanic<'a>(&'a Held);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.open();
        }
    }
}

/// Keeps `n` workers of `pool` busy; each of them has begun its job when this returns.
pub(crate) fn hold_workers(pool: &WorkerPool, n: usize) -> Held {
    let gate = Gate::new();
    let hold_one = |_| {
        let (begun, gate) = (Gate::new(), gate.clone());
        let begins = begun.clone();
        let job = pool.submit(move || {
            begins.open();
            gate.wait();
        });
        let job = job.expect("the pool accepts");
        begun.wait();
        job
    };
    let jobs = (0..n).map(hold_one).collect();
    Held { gate, jobs }
}

/// What a refused submit says and gives back.
#[track_caller]
pub(crate) fn refused<T, F>(result: Result<T, SubmitError<F>>) -> (Rejected, F) {
    match result {
        Ok(_) => panic!("accepted, but should have been refused"),
        Err(error) => (error.reason(), error.into_job()),
    }
}

/// Asserts that a value matches a pattern, and shows it if not.
macro_rules! assert_matches {
    ($value:expr, $($pattern:tt)+) => {
        match $value {
            $($pattern)+ => {}
            other => panic!("{other:?} is not {}", stringify!($($pattern)+)),
        }
    };
}
pub(crate) use assert_matches;

/// Waits until nothing is queued or running, and asserts that the numbers say so too.
#[track_caller]
pub(crate) fn assert_quiescent(pool: &WorkerPool) {
    pool.wait_idle();
    let stats = pool.stats();
    let settled = stats.completed + stats.panicked + stats.cancelled + stats.expired;
    assert_eq!(stats.queued, 0, "{stats:?}");
    assert_eq!(stats.running, 0, "{stats:?}");
    assert_eq!(stats.submitted, settled + stats.discarded, "{stats:?}");
    assert!(
        stats.slots.iter().all(|slot| slot.pending == 0),
        "{stats:?}"
    );
}

/// The usual end of a scenario: the pool is quiescent, nobody else owns it, and it shuts down.
#[track_caller]
pub(crate) fn finish(pool: Arc<WorkerPool>) {
    assert_quiescent(&pool);
    Arc::into_inner(pool)
        .expect("nothing else owns the pool")
        .shutdown();
}

/// A name that no other pool of this process has: none is the beginning of another, and with a
/// worker's number behind it, it fits what the system keeps of a thread's name.
pub(crate) fn unique_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("t{:05}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// How many threads of this process have a name that starts with `prefix`.
#[cfg(target_os = "linux")]
pub(crate) fn threads_named(prefix: &str) -> usize {
    tasks_named(prefix).len()
}

/// The `/proc/self/task` directories of the threads whose name starts with `prefix`.
#[cfg(target_os = "linux")]
pub(crate) fn tasks_named(prefix: &str) -> Vec<std::path::PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the process lists its threads");
    let named = |task: &std::path::PathBuf| {
        // A thread may end between being listed and being read.
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(prefix))
    };
    tasks
        .map(|task| task.unwrap().path())
        .filter(named)
        .collect()
}

/// No thread whose name starts with `prefix` is left. A joined thread may be listed a moment more.
#[track_caller]
pub(crate) fn assert_no_threads(prefix: &str) {
    #[cfg(target_os = "linux")]
    eventually("the pool's threads are gone", || threads_named(prefix) == 0);
    #[cfg(not(target_os = "linux"))]
    let _ = prefix;
}

/// A small deterministic generator (xorshift), for scenarios that mix their steps.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// How often the thread with this `/proc` directory was switched to or away from, if it sleeps now.
pub(crate) fn switches_if_asleep(task: &std::path::Path) -> std::io::Result<Option<u64>> {
    let status = std::fs::read_to_string(task.join("status"))?;
    let field = |line: &str, name: &str| {
        let (found, value) = line.split_once(':')?;
        found.ends_with(name).then(|| value.trim().to_owned())
    };
    let state = status.lines().find_map(|line| field(line, "State"));
    let counts = status
        .lines()
        .filter_map(|line| field(line, "_ctxt_switches"));
    let switches = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    let sleeps = state.is_some_and(|state| state.starts_with('S'));
    Ok(sleeps.then_some(switches))
}

/// Runs `f` on a thread of `scope` and returns once that thread blocks in it, or has ended. Where the
/// system cannot be asked, it returns at once: a scenario that fails then is for Linux only.
///
/// A thread may also fall asleep for a moment on its way there, for a lock of the allocator for
/// instance. So it has to sleep through several looks.
pub(crate) fn spawn_blocked<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    f: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let (sender, task) = mpsc::channel();
    let handle = scope.spawn(move || {
        sender
            .send(std::fs::read_link("/proc/thread-self").ok())
            .unwrap();
        f()
    });
    if let Some(task) = task.recv().unwrap() {
        let task = std::path::Path::new("/proc").join(task);
        let (mut last, mut looks) = (None, 0);
        eventually("the thread blocks", || {
            let Ok(now) = switches_if_asleep(&task) else {
                return true;
            };
            looks = if now.is_some() && now == last {
                looks + 1
            } else {
                0
            };
            last = now;
            looks == 5
        });
    }
    handle
}
