//! A soak: pools of every kind live through everything at once, one after the other, for as long as
//! is asked for. Not part of a normal run:
//!
//! ```text
//! FAIRLANE_SOAK_SECS=1200 cargo test --release --test soak -- --ignored --nocapture
//! ```
//!
//! It prints what it did. `FAIRLANE_SOAK_SEED` gives the pools and their users the same dice as in
//! an earlier run; how their threads interleave is for the system to say.

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../it/common.rs"]
mod common;

mod batch;
mod counts;
mod cycle;
mod user;
mod watchdog;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use counts::Counts;
use watchdog::Watchdog;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value:?}")))
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_micros() as u64);
    number("FAIRLANE_SOAK_SEED").unwrap_or(now)
}

#[test]
#[ignore = "takes as long as FAIRLANE_SOAK_SECS says, or a minute"]
fn soak() {
    let time = Duration::from_secs(number("FAIRLANE_SOAK_SECS").unwrap_or(60));
    let (start, seed) = (Instant::now(), seed());
    println!("soaking for {time:?}, FAIRLANE_SOAK_SEED={seed}");
    let counts = Counts::shared();
    let watchdog = Watchdog::start(&counts);
    let mut report = Instant::now();
    let mut cycles = 0;
    while start.elapsed() < time {
        cycle::live(&counts, &watchdog, seed + cycles);
        cycles += 1;
        if report.elapsed() > Duration::from_secs(60) {
            report = Instant::now();
            println!("after {:?}: {}", start.elapsed(), footprint());
        }
    }
    println!("{cycles} pools in {:?}, {}", start.elapsed(), footprint());
    println!("{counts}");
    counts.assert_all_seen(cycles);
}

/// What the process holds of the system at the moment.
fn footprint() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();

    let value = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.map_or("?", str::trim).to_owned()
    };
    format!(
        "{} resident, {} threads",
        value("VmRSS:"),
        value("Threads:")
    )
}
