//! Imports of the crate's own modules point down.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up; a module may use what stands before it.
const LAYERS: [&str; 17] = [
    "sync",
    "unwind",
    "error",
    "strategy",
    "fork",
    "cpu",
    "fair",
    "ledger",
    "cancel",
    "local",
    "worker",
    "job",
    "slot",
    "admission",
    "pool",
    "batch",
    // Unit tests of all that goes before.
    "charges",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

/// The module directly below the crate that a file belongs to.
fn module_of(path: &Path, root: &Path) -> String {
    let first = path
        .strip_prefix(root)
        .unwrap()
        .components()
        .next()
        .unwrap();
    let name = first.as_os_str().to_str().unwrap();
    name.trim_end_matches(".rs").to_owned()
}

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

#[test]
fn imports_point_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut checked = 0;
    for path in sources(&root) {
        let module = module_of(&path, &root);
        let Some(own) = rank(&module) else {
            assert!(
                ["lib", "compile_fail", "guide"].contains(&module.as_str()),
                "{module} has no layer"
            );
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        let code = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"));
        for used in code.flat_map(|line| line.split("crate::").skip(1)) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
            let Some(other) = rank(&used[..end.unwrap_or(used.len())]) else {
                continue;
            };
            let place = path.display();
            assert!(other <= own, "{place}: {module} uses {}", LAYERS[other]);
            checked += 1;
        }
    }
    assert!(checked > 100, "only {checked} imports found");
}
