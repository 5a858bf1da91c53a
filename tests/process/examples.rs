//! The examples that show one thing each, and the live view: each ends by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::example;
use crate::rerun::{Ended, Running, can_run};
use crate::signals::{DEFAULT_ACTION, interrupt};

const MOST_LINES: usize = 80;

/// The small ones, and what they have to print.
const SMALL: [(&str, &[&str]); 11] = [
    ("bounded_memory", &["never more than 11"]),
    (
        "cancel",
        // While the token calls them off one after the other, some may still begin.
        &["called off: true", "the others: ", " never begun"],
    ),
    (
        "from_rayon_spawn",
        &[
            "18 comes to 1 in 20 steps",
            "global-w",
            "the job panicked: not lost",
        ],
    ),
    (
        "from_threadpool",
        &["in the longest line", "0 jobs panicked"],
    ),
    ("graceful_shutdown", &["300 files done, 0 not begun"]),
    (
        "job_set",
        &[
            "200 pieces",
            "100003000700021 = 100003 * 1000000007",
            "were called off",
        ],
    ),
    ("nested_join", &["the sum is 499999500000", "on 1 thread"]),
    ("progress_bar", &["400 items, the longest 100 ms"]),
    (
        "quickstart",
        &[
            "below 10,000 there are 1229 primes",
            "below 1000 there are 168",
            "one job failed: the job panicked",
        ],
    ),
    ("scope", &["mean before: 49.5", "mean after:  0"]),
    (
        "tenants",
        &[
            "one lane:             aaaaaaaaaaaaRRR",
            "two tenants:          aRaRaRaaaaaaaaa",
            "the second weighs 3:  RaRRaaaaaaaaaaa",
        ],
    ),
];

fn program(name: &str) -> PathBuf {
    example::built(name).unwrap_or_else(|why| panic!("{why}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn assert_prints(ended: &Ended, parts: &[&str]) {
    for part in parts {
        assert!(ended.printed.contains(part), "no {part:?} in {ended:#?}");
    }
}

#[test]
fn each_small_one_shows_its_point() {
    for (name, parts) in SMALL {
        let ended = Running::start(Command::new(program(name))).end();
        ended.assert_code(0);
        assert_prints(&ended, parts);
    }
}

#[test]
fn each_small_one_is_short_and_in_the_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let entries = fs::read_dir(root().join("examples")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some()).collect();
    found.sort();
    for path in &found {
        let lines = fs::read_to_string(path).unwrap().lines().count();
        assert!(lines <= MOST_LINES, "{path:?} has {lines} lines");
    }
    let names: Vec<_> = found.iter().map(|path| path.file_stem().unwrap()).collect();
    assert_eq!(names, SMALL.map(|(name, _)| name));
    for (name, _) in SMALL {
        let command = format!("`cargo run --example {name}`");
        assert!(readme.contains(&command), "no {command} in the README");
    }
}

#[test]
fn an_interrupt_ends_a_batch_in_good_order() {
    if !can_run("env", "an_interrupt_ends_a_batch_in_good_order") {
        return;
    }
    let [env, action] = DEFAULT_ACTION;
    let mut command = Command::new(env);
    // Far more than are done before anybody interrupts.
    command
        .args([action])
        .arg(program("graceful_shutdown"))
        .arg("100000");
    let mut running = Running::start(command);
    running.wait_for_line("100000 files; Ctrl-C stops");
    interrupt(&running);
    let ended = running.end();
    ended.assert_code(130);
    let numbers = ended.printed.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = numbers
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers.iter().sum::<u64>(), 100_000, "{ended:#?}");
    let not_begun = numbers[1];
    assert!(not_begun > 0, "{ended:#?}");
}

#[test]
fn the_live_view_prints_lines_where_there_is_no_terminal() {
    let mut command = Command::new(program("top"));
    command.args(["--seconds", "1", "--workers", "2"]);
    let ended = Running::start(command).end();
    ended.assert_code(0);
    let parts = [
        "jobs/s",
        "w1",
        "archive  weight 1",
        "clicks   weight 2",
        "reports  weight 3",
    ];
    assert_prints(&ended, &parts);
    assert!(!ended.printed.contains('\x1b'), "{ended:#?}");
}

/// Runs the view on a terminal made for it, with `sh` doing `meanwhile` once it is in raw mode.
/// `None` where the terminal cannot be had.
fn on_a_terminal(test: &str, arguments: &str, meanwhile: &str) -> Option<Ended> {
    if !can_run("script", test) || !can_run("stty", test) {
        return None;
    }
    let top = program("top");
    // In the background its input would be nothing.
    let session = format!(
        "stty rows 40 cols 120; stty -g; {top} {arguments} </dev/tty & top=$!
        until stty -a | grep -q -e -icanon || ! kill -0 $top; do sleep 0.1; done
        {meanwhile}
        wait $top; code=$?; stty -g; exit $code",
        top = top.display(),
    );
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--flush", "--command"])
        .arg(session);
    command
        .arg("/dev/null")
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm");
    Some(Running::start(command).end())
}

/// It was drawn on the other screen, and the terminal is as it was.
#[track_caller]
fn assert_given_back(ended: &Ended) {
    ended.assert_code(0);
    let escapes = [
        "\x1b[?1049h",
        "tenants",
        "q quits",
        "\x1b[?25h",
        "\x1b[?1049l",
    ];
    assert_prints(ended, &escapes);
    let mut lines = ended.printed.lines().map(str::trim_end);
    let before = lines.next().unwrap_or_default();
    assert!(before.contains(':'), "these are no settings: {ended:#?}");
    let after = lines.next_back().unwrap_or_default();
    assert!(after.ends_with(before), "{before} has become {after}");
}

#[test]
fn the_live_view_gives_the_terminal_back_when_its_time_is_up() {
    let test = "the_live_view_gives_the_terminal_back_when_its_time_is_up";
    if let Some(ended) = on_a_terminal(test, "--seconds 1", "") {
        assert_given_back(&ended);
    }
}

#[test]
fn the_live_view_gives_the_terminal_back_when_it_is_told_to_end() {
    let test = "the_live_view_gives_the_terminal_back_when_it_is_told_to_end";
    if let Some(ended) = on_a_terminal(test, "", "kill -TERM $top") {
        assert_given_back(&ended);
    }
}
