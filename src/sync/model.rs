//! How the models are run: each under loom, its executions counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::thread::Builder;
pub(crate) use super::thread::JoinHandle;

/// How many pre-emptions a model tries. An interleaving of few threads that fails does so with very
/// few of them.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// All there are.
    Exhaustive,
    Preemptions(usize),
}

/// Runs `model` in every interleaving and prints how many there were.
#[track_caller]
pub(crate) fn check(name: &str, bound: Bound, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    // `LOOM_MAX_PREEMPTIONS` comes first, for a longer look by hand.
    if let (Bound::Preemptions(most), None) = (bound, builder.preemption_bound) {
        builder.preemption_bound = Some(most);
    }
    let begin = Instant::now();
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let limit = match builder.preemption_bound {
        None => "exhaustive".to_owned(),
        Some(most) => format!("up to {most} pre-emptions"),
    };
    // Past the harness, which swallows what a passing test prints.
    let line = format!(
        "loom: {name}: {} executions, {limit}, {:.1} s\n",
        executions.load(Ordering::Relaxed),
        begin.elapsed().as_secs_f64(),
    );
    let _ = std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes());
}

/// A thread of the model.
pub(crate) fn spawn<T: 'static>(main: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    Builder::new().spawn(main).expect("a model has its threads")
}

/// What a thread of the model returned.
pub(crate) fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("a panic ends the model")
}
