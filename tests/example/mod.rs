//! Where an example lies once it is built. Used by several test binaries.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The example called `name` beside this test, as fresh as its source.
///
/// `cargo test` builds it along with the tests, `cargo test --test NAME` does not. So it is built
/// here, the way this test was: cargo finds nothing to do or does it.
pub(crate) fn built(name: &str) -> Result<PathBuf, String> {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().and_then(Path::parent).unwrap();
    build(name, directory)?;
    let program = directory.join("examples").join(name);
    Ok(program.with_extension(std::env::consts::EXE_EXTENSION))
}

/// Builds into `TARGET_DIR/PROFILE`, or `TARGET_DIR/TRIPLE/PROFILE` if cargo was given a target:
/// that is all there is to tell how this test was built.
fn build(name: &str, directory: &Path) -> Result<(), String> {
    let profile = match directory.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        name => name,
    };
    let above = directory.parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--example", name])
        .args(["--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    // Cargo keeps this file in the target directory itself, and nowhere below it.
    if above.join(".rustc_info.json").exists() {
        cargo.arg("--target-dir").arg(above);
    } else {
        cargo.arg("--target").arg(above.file_name().unwrap());
        cargo.arg("--target-dir").arg(above.parent().unwrap());
    }
    let output = cargo.output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
