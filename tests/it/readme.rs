//! The map from promises to tests names tests that exist.

use std::fs;
use std::path::Path;

/// The words between backticks in the rows of tables.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2))
}

/// Where modules with tests lie.
const ROOTS: [&str; 5] = [
    "tests/it",
    "tests/fair",
    "tests/process",
    "tests/schedules",
    "src",
];

/// Whether there is a file for the modules of `path`, and the last part of it in there. A `*` stands
/// for anything.
fn is_there(project: &Path, path: &str) -> bool {
    let (modules, name) = path.rsplit_once("::").expect("it has a module");
    let file = format!("{}.rs", modules.replace("::", "/"));
    let sources = ROOTS.map(|root| project.join(root).join(&file));
    let texts = sources
        .iter()
        .filter_map(|source| fs::read_to_string(source).ok());
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let (start, end) = name.split_once('*').unwrap_or((name, ""));
    let matches = |word: &str| match name.contains('*') {
        true => word.starts_with(start) && word.ends_with(end),
        false => word == name,
    };
    texts
        .into_iter()
        .any(|text| text.split(|c| !is_name(c)).any(matches))
}

#[test]
fn every_test_in_the_map_exists() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = fs::read_to_string(project.join("tests/README.md")).unwrap();
    let names = quoted(&map).filter(|word| word.contains("::") && !word.contains(' '));
    let prefixed = quoted(&map).filter_map(|word| word.split_once(": ").map(|(_, name)| name));
    let names: Vec<_> = names.chain(prefixed).collect();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !is_there(project, name))
        .collect();
    assert!(missing.is_empty(), "there are no such tests: {missing:#?}");
    assert!(names.len() > 100, "only {} names found", names.len());
}
