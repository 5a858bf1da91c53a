//! The pools, each behind the same small trait, so that one generic load measures all of them
//! without a virtual call.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use executors::Executor;
use executors::crossbeam_workstealing_pool as work_stealing;
use executors::parker::{SmallThreadData, StaticParker};
use fairlane::{Nested, Strategy, WorkerPool};

use crate::measure::{Config, Contestant, Kind};

/// What a load needs of a pool.
///
/// `execute` is the pool's cheapest way to run a closure whose result nobody waits for; `submit` and
/// `join` its own handles, or a one-shot channel where it has none, which is what its user would take.
pub trait Pool: Send + Sync + Sized + 'static {
    /// Its row in the tables.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// What a result is waited for with.
    type Handle<T: Send + 'static>: Send;

    /// Starts so many threads.
    fn start(workers: usize) -> Self;
    /// Runs a closure.
    fn execute(&self, job: impl FnOnce() + Send + 'static);
    /// Runs a closure and keeps its result.
    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Self::Handle<T>;
    /// Waits for a result.
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T;
    /// Ends the threads. It is called with nothing queued and is not timed.
    fn stop(self) {}
}

/// Something to be measured on any pool.
pub trait Load: 'static {
    /// Runs once, on a pool of its own; one number a metric.
    fn run<P: Pool>(config: &Config) -> Vec<f64>;
}

/// Every pool with a load; rayon first, as the one to compare with.
pub fn contestants<L: Load>() -> Vec<Contestant> {
    vec![
        contestant::<L, Rayon>(),
        contestant::<L, RayonFifo>(),
        contestant::<L, ThreadPool>(),
        contestant::<L, RustyPool>(),
        contestant::<L, Executors>(),
        contestant::<L, AffinityPool>(),
        contestant::<L, TokioBlocking>(),
        contestant::<L, BareChannel>(),
        contestant::<L, MutexQueue>(),
        contestant::<L, Ours<RoundRobin>>(),
        contestant::<L, Ours<LeastBusy>>(),
    ]
}

/// One pool with a load.
pub fn contestant<L: Load, P: Pool>() -> Contestant {
    Contestant {
        name: P::NAME,
        kind: P::KIND,
        run: Box::new(L::run::<P>),
    }
}

/// Handles for pools that have none: the job sends its result through a one-shot channel.
macro_rules! one_shot_handles {
    () => {
        type Handle<T: Send + 'static> = oneshot::Receiver<T>;

        fn submit<T: Send + 'static>(
            &self,
            job: impl FnOnce() -> T + Send + 'static,
        ) -> Self::Handle<T> {
            let (sender, receiver) = oneshot::channel();
            self.execute(move || drop(sender.send(job())));
            receiver
        }

        fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
            handle.recv().expect("the job ran")
        }
    };
}

/// A choice between fairlane's options.
pub trait Choice: Send + Sync + 'static {
    /// Its row in the tables.
    const NAME: &'static str;
    /// How slots are picked.
    const STRATEGY: Strategy;
    /// Where a job's own jobs go.
    const NESTED: Nested = Nested::Strategy;
}

/// Slots in turn.
pub struct RoundRobin;
impl Choice for RoundRobin {
    const NAME: &'static str = "fairlane, round-robin";
    const STRATEGY: Strategy = Strategy::RoundRobin;
}

/// The default.
pub struct LeastBusy;
impl Choice for LeastBusy {
    const NAME: &'static str = "fairlane, least-busy";
    const STRATEGY: Strategy = Strategy::LeastBusy;
}

/// A job's own jobs stay on its slot.
pub struct LocalChildren;
impl Choice for LocalChildren {
    const NAME: &'static str = "fairlane, `Nested::Local`";
    const STRATEGY: Strategy = Strategy::LeastBusy;
    const NESTED: Nested = Nested::Local;
}

/// Fairlane, without a limit.
pub struct Ours<C>(WorkerPool, PhantomData<C>);

impl<C: Choice> Pool for Ours<C> {
    const NAME: &'static str = C::NAME;
    const KIND: Kind = Kind::Ours;
    type Handle<T: Send + 'static> = fairlane::JobHandle<T>;

    fn start(workers: usize) -> Self {
        let builder = WorkerPool::builder().workers(workers);
        let pool = builder.strategy(C::STRATEGY).nested(C::NESTED).build();
        Ours(pool.expect("threads"), PhantomData)
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        assert!(self.0.execute(job).is_ok());
    }

    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Self::Handle<T> {
        match self.0.submit(job) {
            Ok(handle) => handle,
            Err(_) => unreachable!("the pool is open"),
        }
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().expect("the job ran")
    }

    fn stop(self) {
        self.0.shutdown();
    }
}

fn rayon_pool(workers: usize) -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(workers);
    builder.build().expect("threads")
}

/// `rayon::spawn`: from inside a job last in, first out.
pub struct Rayon(rayon::ThreadPool);

impl Pool for Rayon {
    const NAME: &'static str = "rayon";

    fn start(workers: usize) -> Self {
        Rayon(rayon_pool(workers))
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn(job);
    }

    one_shot_handles!();
}

/// `rayon::spawn_fifo`.
pub struct RayonFifo(rayon::ThreadPool);

impl Pool for RayonFifo {
    const NAME: &'static str = "rayon, fifo";

    fn start(workers: usize) -> Self {
        RayonFifo(rayon_pool(workers))
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn_fifo(job);
    }

    one_shot_handles!();
}

/// The crate threadpool: a std channel behind a lock.
pub struct ThreadPool(threadpool::ThreadPool);

impl Pool for ThreadPool {
    const NAME: &'static str = "threadpool";

    fn start(workers: usize) -> Self {
        ThreadPool(threadpool::ThreadPool::new(workers))
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    one_shot_handles!();

    fn stop(self) {
        self.0.join();
    }
}

/// The crate rusty_pool: a crossbeam channel, with handles of its own.
pub struct RustyPool(rusty_pool::ThreadPool);

impl Pool for RustyPool {
    const NAME: &'static str = "rusty_pool";
    type Handle<T: Send + 'static> = rusty_pool::JoinHandle<T>;

    fn start(workers: usize) -> Self {
        let keep_alive = Duration::from_secs(60);
        RustyPool(rusty_pool::ThreadPool::new(workers, workers, keep_alive))
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Self::Handle<T> {
        self.0.evaluate(job)
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.await_complete()
    }

    fn stop(self) {
        self.0.shutdown_join();
    }
}

/// The crate executors: crossbeam deques and stealing.
pub struct Executors(work_stealing::ThreadPool<StaticParker<SmallThreadData>>);

impl Pool for Executors {
    const NAME: &'static str = "executors, work stealing";

    fn start(workers: usize) -> Self {
        Executors(work_stealing::small_pool(workers))
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    one_shot_handles!();

    fn stop(self) {
        drop(self.0.shutdown());
    }
}

/// The crate affinitypool, whose handles are futures.
pub struct AffinityPool(affinitypool::Threadpool);

impl Pool for AffinityPool {
    const NAME: &'static str = "affinitypool";
    type Handle<T: Send + 'static> = Pin<Box<dyn Future<Output = T> + Send>>;

    fn start(workers: usize) -> Self {
        AffinityPool(affinitypool::Threadpool::new(workers))
    }

    /// Dropping its future cancels the job, and nothing detaches one: all that is left is to leak it.
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        std::mem::forget(self.0.spawn(job));
    }

    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Self::Handle<T> {
        Box::pin(self.0.spawn(job))
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        futures_executor::block_on(handle)
    }
}

/// The threads tokio keeps for blocking calls. Its own scheduler gets a single thread, which sleeps.
pub struct TokioBlocking(tokio::runtime::Runtime);

impl Pool for TokioBlocking {
    const NAME: &'static str = "tokio, spawn_blocking";
    type Handle<T: Send + 'static> = tokio::task::JoinHandle<T>;

    fn start(workers: usize) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).max_blocking_threads(workers);
        TokioBlocking(runtime.build().expect("threads"))
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn_blocking(job));
    }

    fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Self::Handle<T> {
        self.0.spawn_blocking(job)
    }

    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        futures_executor::block_on(handle).expect("the job ran")
    }
}

/// A boxed job, as most pools keep it.
pub type BoxedJob = Box<dyn FnOnce() + Send>;

/// Starts threads that run what `next` gives them until it gives nothing. A panic costs no thread,
/// as in every pool worth the name.
pub fn start_threads(
    workers: usize,
    next: impl Fn() -> Option<BoxedJob> + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let worker = |_| {
        let next = next.clone();
        std::thread::spawn(move || {
            while let Some(job) = next() {
                drop(catch_unwind(AssertUnwindSafe(job)));
            }
        })
    };
    (0..workers).map(worker).collect()
}

/// Waits for threads to end.
pub fn join_threads(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("workers do not panic");
    }
}

/// What one writes in ten lines: boxed closures in a crossbeam channel.
pub struct BareChannel {
    sender: crossbeam_channel::Sender<BoxedJob>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool for BareChannel {
    const NAME: &'static str = "a bare crossbeam channel";

    fn start(workers: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded::<BoxedJob>();
        let threads = start_threads(workers, move || receiver.recv().ok());
        BareChannel { sender, threads }
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        assert!(self.sender.send(Box::new(job)).is_ok());
    }

    one_shot_handles!();

    fn stop(self) {
        drop(self.sender);
        join_threads(self.threads);
    }
}

/// What one writes without a channel: boxed closures in a queue under a lock.
pub struct MutexQueue {
    queue: Arc<LockedQueue<VecDeque<BoxedJob>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool for MutexQueue {
    const NAME: &'static str = "Mutex + Condvar";

    fn start(workers: usize) -> Self {
        let queue = Arc::new(LockedQueue::default());
        let jobs = Arc::clone(&queue);
        let threads = start_threads(workers, move || jobs.pop(VecDeque::pop_front));
        MutexQueue { queue, threads }
    }

    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        let job = Box::new(job);
        self.queue.push(|jobs| jobs.push_back(job));
    }

    one_shot_handles!();

    fn stop(self) {
        self.queue.close();
        join_threads(self.threads);
    }
}

/// Jobs run outside of it.
const UNPOISONED: &str = "nothing panics under the lock";

/// Some collection under a lock, to wait at.
#[derive(Default)]
pub struct LockedQueue<Q> {
    state: Mutex<Open<Q>>,
    more: Condvar,
}

#[derive(Default)]
struct Open<Q> {
    jobs: Q,
    closed: bool,
}

impl<Q> LockedQueue<Q> {
    /// Adds a job, and wakes one thread.
    pub fn push(&self, add: impl FnOnce(&mut Q)) {
        let mut state = self.state.lock().expect(UNPOISONED);
        add(&mut state.jobs);
        drop(state);
        self.more.notify_one();
    }

    /// Waits for a job; `None` once it is closed and empty.
    pub fn pop<T>(&self, take: impl Fn(&mut Q) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock().expect(UNPOISONED);
        loop {
            if let Some(job) = take(&mut state.jobs) {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.more.wait(state).expect(UNPOISONED);
        }
    }

    /// Ends all who wait once the jobs are gone.
    pub fn close(&self) {
        let mut state = self.state.lock().expect(UNPOISONED);
        state.closed = true;
        drop(state);
        self.more.notify_all();
    }
}
