//! Fewer cores than usual, and fewer than workers; threads that cannot be started half way.

use fairlane::BuildError;

use super::build_error;
use super::process::{can_run, is_rerun, rerun, rerun_test};
use crate::common::{finish, scenario_once};

/// The numbers of the cores that this process may use.
fn allowed_cores() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let numbers = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap()..=last.parse().unwrap()
    };
    list.expect("the system lists the cores")
        .trim()
        .split(',')
        .flat_map(numbers)
        .collect()
}

scenario_once!(the_default_number_of_workers_follows_the_cores, |flavour| {
    let cores = allowed_cores();
    let pool = flavour.build(flavour.builder());
    // A quota may make it fewer than the cores that may be used.
    assert_eq!(pool.workers(), num_cpus::get());
    assert!(
        (1..=cores.len()).contains(&pool.workers()),
        "{} on {cores:?}",
        pool.workers()
    );
    finish(pool);
    if is_rerun() || !can_run("taskset", flavour.test()) {
        return;
    }
    for some in [&cores[..1], &cores[..cores.len().div_ceil(2)]] {
        let list = some
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(",");
        rerun_test(&["taskset", "-c", &list], flavour.test());
    }
});

scenario_once!(sixty_four_workers_live_on_one_core, |flavour| {
    if !can_run("taskset", flavour.test()) {
        return;
    }
    let core = allowed_cores()[0].to_string();
    rerun(
        &["taskset", "-c", &core],
        &[
            "liveness::",
            "shutdown::",
            "backpressure::",
            "--test-threads=2",
        ],
        &[("FAIRLANE_TEST_WORKERS", "64")],
    );
});

scenario_once!(a_build_that_fails_half_way_leaves_no_thread, |flavour| {
    if !is_rerun() {
        // Room for a few stacks of this size, but not for all of them.
        let limited = ["sh", "-c", "ulimit -v 4194304 && exec \"$0\" \"$@\""];
        return rerun_test(&limited, flavour.test());
    }
    for _ in 0..3 {
        let error = build_error(flavour, |b| b.workers(64).stack_size(512 << 20));
        assert!(
            matches!(error, BuildError::Spawn { slot: 1..64, .. }),
            "{error:?}"
        );
    }
    // The failures cost nothing: there is as much room as before.
    let pool = flavour.build(flavour.builder().workers(4).stack_size(512 << 20));
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    finish(pool);
});
