//! The crate built with `panic = "abort"`: a program of its own, since the profile is cargo's to set.

use std::process::Command;

use crate::rerun::{Ended, Running, is_child, skipped};

const SIGABRT: i32 = 6;

/// Builds the program once and runs it as `case`.
fn run(case: &str) -> Option<Ended> {
    assert!(!is_child(), "it is a program of its own");
    let Some(cargo) = std::env::var_os("CARGO") else {
        skipped("panic_abort", "not run by cargo");
        return None;
    };
    let root = env!("CARGO_MANIFEST_DIR");
    let manifest = format!("{root}/tests/process/abort/Cargo.toml");
    if !std::path::Path::new(&manifest).exists() {
        skipped(
            "panic_abort",
            "the program is not part of the published crate",
        );
        return None;
    }
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--manifest-path", &manifest])
        .arg("--target-dir")
        .arg(format!("{root}/target/abort"))
        .args(["--", case])
        // A wrapper of the tests' own build has no business here.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Some(Running::start(command).end())
}

#[test]
fn a_pool_works_with_panic_abort() {
    if let Some(ended) = run("works") {
        ended.assert_code(0);
        assert!(ended.printed.ends_with("all is well"), "{ended:#?}");
    }
}

#[test]
fn a_panic_in_a_job_ends_the_process_at_once() {
    if let Some(ended) = run("panics") {
        // `cargo run` reports a signal as the shell does.
        let code = ended.status.code();
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
        assert!(
            code == Some(128 + SIGABRT) || signal == Some(SIGABRT),
            "{ended:#?}"
        );
        assert!(ended.complaints.contains("as it was told to"), "{ended:#?}");
        assert!(!ended.printed.contains("unreachable"), "{ended:#?}");
    }
}
