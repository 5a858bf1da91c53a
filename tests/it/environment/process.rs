//! Running a test of this binary again in a process of its own, under other circumstances.

use std::io::Write as _;
use std::process::Command;

const CHILD: &str = "FAIRLANE_TEST_CHILD";

/// Whether this process was started by [`rerun`].
pub(super) fn is_rerun() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs this binary with `arguments` behind the words of `wrapper`, and fails with what it printed
/// unless at least one test ran there and all passed.
pub(super) fn rerun(wrapper: &[&str], arguments: &[&str], variables: &[(&str, &str)]) {
    let binary = std::env::current_exe().unwrap();
    let mut words = wrapper
        .iter()
        .map(|word| (*word).into())
        .chain([binary.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .args(arguments)
        .env(CHILD, "1")
        .envs(variables.iter().copied());
    let output = command
        .output()
        .expect("the test binary can be started again");
    let printed = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && !printed.contains(" 0 passed");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        passed,
        "{command:?} gave {}\n{printed}\n{complained}",
        output.status
    );
}

/// Runs the one test called `test` again, behind the words of `wrapper`.
pub(super) fn rerun_test(wrapper: &[&str], test: &str) {
    rerun(
        wrapper,
        &["--exact", test, "--nocapture", "--test-threads=1"],
        &[],
    );
}

/// Whether `program` can be started. If not, says so past the buffers of the test harness.
pub(super) fn can_run(program: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        drop(writeln!(
            std::io::stderr(),
            "skipped {test}: there is no {program} here"
        ));
    }
    found
}
