//! A program that used `rayon::spawn`, before (in comments) and after:
//!
//! ```text
//! cargo run --example from_rayon_spawn
//! ```
//!
//! | `rayon` | here | what is different |
//! |---|---|---|
//! | the global pool | a `static` of your own | you choose when it is built, and how |
//! | `spawn(f)` | `execute(f)?` | a panic ends the job, not the process |
//! | `spawn` and a channel | `submit(f)?`, `join()` | the result, or the panic |
//! | `spawn_fifo(f)` | `execute(f)?` | arrival is the order; `Nested::Local` for the other one |
//! | `scope(\|s\| s.spawn(..))` | `pool.scope(\|s\| s.execute(..))` | |
//! | `join(a, b)` | `submit(a)?`, `b()`, `join()` | in a `scope`, if they borrow |
//! | waiting inside a job | `join()` | rayon runs any job meanwhile, this only the awaited one |
//! | `par_iter()` | none | stay with rayon for loops over slices |

use std::error::Error;
use std::sync::LazyLock;

use fairlane::WorkerPool;

/// A `static` is never dropped: whoever must see the end of its jobs joins them or waits for idle.
static POOL: LazyLock<WorkerPool> = LazyLock::new(|| {
    let pool = WorkerPool::builder().name("global").build();
    pool.expect("the threads can be started")
});

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // let (sender, results) = std::sync::mpsc::channel();
    // for seed in 0..4 {
    //     let sender = sender.clone();
    //     rayon::spawn(move || sender.send((seed, steps(seed))).unwrap());
    // }
    // drop(sender);
    // for (seed, steps) in results { ... }
    let jobs: Vec<_> = (1..=4)
        .map(|seed| POOL.submit(move || steps(seed * 9)))
        .collect::<Result<_, _>>()?;
    for (seed, job) in (1..=4).zip(jobs) {
        println!("{} comes to 1 in {} steps", seed * 9, job.join()?);
    }

    // rayon::spawn(|| println!("done by a thread of the pool"));
    // std::thread::sleep(..);                  // nothing says when it is done
    POOL.execute(|| println!("done by {:?}", std::thread::current().name()))?;
    POOL.wait_idle();

    // rayon::spawn(|| panic!("lost"));         // aborts the process
    let lost = POOL.submit(|| panic!("not lost"))?;
    println!("{}", lost.join().unwrap_err());
    Ok(())
}

/// How long the sequence of Collatz takes from here.
fn steps(start: u64) -> usize {
    let next = |&n: &u64| (n > 1).then(|| if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(start), next).count() - 1
}
