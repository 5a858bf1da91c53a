//! Running one test of this binary again, in a process of its own that may come to any end.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// `process_test!(name, child { .. } parent |rerun| { .. });` makes a test called `name`. It runs the
/// parent's block, which starts the child's by what it gets, a [`Rerun`](crate::rerun::Rerun).
macro_rules! process_test {
    ($name:ident, child $child:block parent |$rerun:ident| $parent:block) => {
        #[test]
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            if $crate::rerun::is_child() {
                $child
            } else {
                let $rerun = $crate::rerun::Rerun::of(path);
                $parent
            }
        }
    };
}

const CHILD: &str = "FAIRLANE_PROCESS_CHILD";

/// For everything that a child does: one that takes longer hangs.
const GIVE_UP: Duration = Duration::from_secs(120);

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Says so past the buffers of the test harness.
pub(crate) fn skipped(test: &str, reason: &str) {
    drop(writeln!(std::io::stderr(), "skipped {test}: {reason}"));
}

/// Whether `program` can be started. If not, says so.
pub(crate) fn can_run(program: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skipped(test, &format!("there is no {program} here"));
    }
    found
}

/// The child's side of one test.
pub(crate) struct Rerun {
    test: &'static str,
}

impl Rerun {
    /// For the test at `path`, which begins with the name of the crate.
    pub(crate) fn of(path: &'static str) -> Rerun {
        let (_crate, test) = path.split_once("::").expect("tests are in modules");
        Rerun { test }
    }

    pub(crate) fn test(&self) -> &'static str {
        self.test
    }

    /// Starts the child behind the words of `wrapper`, for instance `["taskset", "-c", "0"]`.
    pub(crate) fn start(&self, wrapper: &[&str]) -> Running {
        let binary = std::env::current_exe().expect("this binary is somewhere");
        self.start_binary(wrapper, &binary)
    }

    /// As `start`, with a copy of this binary.
    pub(crate) fn start_binary(&self, wrapper: &[&str], binary: &std::path::Path) -> Running {
        let words = wrapper.iter().map(|word| (*word).into());
        let mut words = words.chain([binary.to_owned().into_os_string()]);
        let mut command = Command::new(words.next().expect("there is the binary at least"));
        command
            .args(words)
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            // Where it is to die, nobody wants its memory.
            .env("RUST_BACKTRACE", "0");
        Running::start(command)
    }

    /// Runs the child to its end.
    pub(crate) fn run(&self, wrapper: &[&str]) -> Ended {
        self.start(wrapper).end()
    }
}

/// A child at work. Killed when dropped.
pub(crate) struct Running {
    child: Child,
    command: String,
    lines: mpsc::Receiver<String>,
    printed: Vec<String>,
    complaints: Option<JoinHandle<String>>,
    give_up: Instant,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.stdin(Stdio::null()).spawn().expect("it starts");
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        thread::spawn(move || {
            let sent = |line: Result<String, _>| sender.send(line.unwrap_or_default());
            drop(stdout.lines().try_for_each(sent));
        });
        let mut stderr = child.stderr.take().expect("it is piped");
        let complaints = thread::spawn(move || {
            let mut all = Vec::new();
            drop(stderr.read_to_end(&mut all));
            String::from_utf8_lossy(&all).into_owned()
        });
        Running {
            child,
            command: format!("{command:?}"),
            lines,
            printed: Vec::new(),
            complaints: Some(complaints),
            give_up: Instant::now() + GIVE_UP,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the child has printed `line`. It may stand behind what the harness has printed.
    pub(crate) fn wait_for_line(&mut self, line: &str) {
        loop {
            let left = self.give_up.saturating_duration_since(Instant::now());
            let Ok(printed) = self.lines.recv_timeout(left) else {
                let ended = self.child.try_wait();
                panic!("never printed {line:?}: {ended:?}, {:?}", self.printed);
            };
            let found = printed.ends_with(line);
            self.printed.push(printed);
            if found {
                return;
            }
        }
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if Instant::now() > self.give_up {
                drop(self.child.kill());
                let printed = self.lines.iter().collect::<Vec<_>>();
                panic!("{} hangs: {:?} {printed:?}", self.command, self.printed);
            }
            thread::sleep(Duration::from_millis(2));
        };
        let mut printed = std::mem::take(&mut self.printed);
        printed.extend(self.lines.iter());
        let complaints = self.complaints.take().expect("it is taken once");
        Ended {
            status,
            printed: printed.join("\n"),
            complaints: complaints.join().expect("reading does not panic"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What became of a child.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) printed: String,
    pub(crate) complaints: String,
}

impl Ended {
    /// It ran to its end, and all its assertions held.
    #[track_caller]
    pub(crate) fn assert_passed(&self) {
        let ran = !self.printed.contains(" 0 passed");
        assert!(self.status.success() && ran, "{self:#?}");
    }

    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
    }

    /// One of these signals ended it.
    #[track_caller]
    pub(crate) fn assert_signal(&self, signals: &[i32]) {
        let signal = self.status.signal();
        assert!(signal.is_some_and(|s| signals.contains(&s)), "{self:#?}");
    }
}

/// Prints a line for the parent to wait for.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").expect("the parent listens");
    out.flush().expect("the parent listens");
}
