//! The machine, and the pools in their versions: what figures mean nothing without.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::measure::cores;

/// What fairlane is compared with.
const PEERS: [&str; 8] = [
    "affinitypool",
    "crossbeam-channel",
    "executors",
    "firq-core",
    "rayon",
    "rusty_pool",
    "threadpool",
    "tokio",
];

/// One paragraph: processor, system, versions.
pub fn description() -> String {
    let kernel = read("/proc/sys/kernel/osrelease");
    let versions: Vec<String> = PEERS.into_iter().map(with_version).collect();
    format!(
        "{}, {} cores, Linux {}. Peers: {}.",
        processor(),
        cores(),
        kernel.trim(),
        versions.join(", ")
    )
}

fn processor() -> String {
    let info = read("/proc/cpuinfo");
    let line = info.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':'));
    model.map_or("an unknown processor".into(), |(_, name)| {
        name.trim().into()
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("needs Linux's /proc")
}

/// As the lock file has it, from which this program was built.
fn with_version(name: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let rest = lock.split_once(&entry).map(|(_, rest)| rest);
    let version = rest.and_then(|rest| rest.split('"').next());
    format!("{name} {}", version.unwrap_or("of an unknown version"))
}

/// Keeps this process, with all threads that it will start, on the first core it may use.
pub fn stay_on_one_core() -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu));
    let mut one = CpuSet::new();
    one.set(first.unwrap_or(0));
    sched_setaffinity(None, &one)
}
