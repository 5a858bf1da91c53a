//! Three parties with different habits. Each has a thread that submits, until the pool is closed.

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::thread;
use std::time::Duration;

use fairlane::{Tenant, Weight, WorkerPool};

/// About a millisecond when optimised.
const SHORT: u64 = 1_000_000;
const LONG: u64 = 4 * SHORT;

/// Starts the load. The threads hold tenants and not the pool, so they do not keep it open.
pub(crate) fn start(pool: &WorkerPool) -> io::Result<()> {
    let tenant = |name, weight, limit| {
        let tenant = pool.tenant(name).with_weight(Weight::new(weight));
        tenant.with_queue_limit(limit)
    };
    drive(tenant("archive", 1, 64), flood)?;
    drive(tenant("clicks", 2, 1), one_at_a_time)?;
    drive(tenant("reports", 3, 32), bursts)
}

type Ended = Result<(), Box<dyn Error + Send + Sync>>;

fn drive(tenant: Tenant, habit: fn(&Tenant) -> Ended) -> io::Result<()> {
    let thread = thread::Builder::new().name(tenant.name().to_owned());
    // The error is the pool's end, which is the load's as well.
    let habit = thread.spawn(move || while habit(&tenant).is_ok() {})?;
    drop(habit);
    Ok(())
}

/// Keeps the lane full: `submit` waits for room.
fn flood(tenant: &Tenant) -> Ended {
    tenant.execute(|| burn(LONG))?;
    Ok(())
}

/// Wants one short job done, and then thinks.
fn one_at_a_time(tenant: &Tenant) -> Ended {
    tenant.submit(|| burn(SHORT))?.join()?;
    thread::sleep(Duration::from_millis(20));
    Ok(())
}

/// Has a lot to do, and then nothing.
fn bursts(tenant: &Tenant) -> Ended {
    for _ in 0..1_000 {
        tenant.execute(|| burn(SHORT))?;
    }
    thread::sleep(Duration::from_secs(2));
    Ok(())
}

fn burn(steps: u64) {
    let mut state = black_box(1u64);
    for _ in 0..steps {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
    }
    black_box(state);
}
