//! What the sanitizers watch: the soak's pools and users, a set number of them, as a plain program.
//! A test harness would add threads and locks of its own, and all that the tests depend on.
//!
//! `workload POOLS [SEED]` lives through so many pools; `workload control FAULT` commits a fault on
//! purpose, which the checker has to report.

#[path = "../../soak/batch.rs"]
mod batch;
#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../it/common.rs"]
mod common;
#[allow(dead_code)]
#[path = "../../soak/counts.rs"]
mod counts;
#[path = "../../soak/cycle.rs"]
mod cycle;
#[path = "../../soak/user.rs"]
mod user;
#[path = "../../soak/watchdog.rs"]
mod watchdog;

mod controls;

use counts::Counts;
use watchdog::Watchdog;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["control", fault] => controls::commit(fault),
        [pools] => live(number(pools), 1),
        [pools, seed] => live(number(pools), number(seed)),
        _ => panic!("usage: workload POOLS [SEED] | control FAULT"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn live(pools: u64, seed: u64) {
    let counts = Counts::shared();
    let watchdog = Watchdog::start(&counts);
    for seed in seed..seed + pools {
        cycle::live(&counts, &watchdog, seed);
    }
    println!("{pools} pools\n{counts}");
}
