//! Two parties share a pool: the one that came second, with three jobs, does not wait behind the
//! twelve of the first.
//!
//! ```text
//! cargo run --example tenants
//! ```

use std::error::Error;
use std::sync::mpsc::{self, Sender};

use fairlane::{Tenant, Weight, WorkerPool};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    println!("one lane:             {}", order("all", "all", 1)?);
    println!("two tenants:          {}", order("archive", "report", 1)?);
    println!("the second weighs 3:  {}", order("archive", "report", 3)?);
    Ok(())
}

/// The order in which the jobs of a long backlog and of a short one that comes later begin.
fn order(first: &str, second: &str, weight: u32) -> Outcome<String> {
    // Without `fair()` there would be no lanes, and tenants would have no effect.
    let pool = WorkerPool::builder().workers(1).fair().build()?;

    // The only worker is kept busy until everything is queued, so that the order is the pool's.
    let (open, gate) = mpsc::channel::<()>();
    let (up, is_up) = mpsc::channel();
    pool.execute(move || {
        let _ = up.send(());
        let _ = gate.recv();
    })?;
    is_up.recv()?;

    let (begun, order) = mpsc::channel();
    let archive = pool.tenant(first);
    queue(&archive, 12, 'a', &begun)?;
    let report = pool.tenant(second).with_weight(Weight::new(weight));
    queue(&report, 3, 'R', &begun)?;

    drop((open, begun));
    Ok(order.iter().collect())
}

fn queue(tenant: &Tenant, jobs: usize, letter: char, begun: &Sender<char>) -> Outcome<()> {
    for _ in 0..jobs {
        let begun = begun.clone();
        tenant.execute(move || {
            // The other end lives until all jobs have run.
            let _ = begun.send(letter);
        })?;
    }
    Ok(())
}
