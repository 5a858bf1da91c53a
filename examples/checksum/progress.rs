//! The bar on standard error: files, bytes, bytes per second.

use std::fmt::{self, Display};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Shared by the workers that count and the thread that reports. Clones are the same bar.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    files: Arc<AtomicU64>,
}

impl Progress {
    /// A bar that draws, by a thread of its own, or one that only forwards `print`.
    pub(crate) fn new(visible: bool) -> Self {
        let files = Arc::new(AtomicU64::new(0));
        if !visible {
            return Self {
                bar: ProgressBar::hidden(),
                files,
            };
        }
        let counter = Arc::clone(&files);
        let style =
            ProgressStyle::with_template("{spinner} {files} files, {bytes}, {bytes_per_sec}")
                .expect("the template is a literal")
                .with_key(
                    "files",
                    move |_: &ProgressState, out: &mut dyn fmt::Write| {
                        // The bar writes to a string of its own: nothing can fail.
                        let _ = out.write_str(&counter.load(Ordering::Relaxed).to_string());
                    },
                );
        // The length is not known before the walk is over, hence a spinner.
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, files }
    }

    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }

    pub(crate) fn add_files(&self, files: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
    }

    /// One line on standard error, with the bar out of the way.
    pub(crate) fn print(&self, line: &str) {
        self.bar.suspend(|| complain(line));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// One line on standard error. Where that cannot be written to, the exit code has to do.
pub(crate) fn complain(line: impl Display) {
    let _ = io::stderr().write_all(format!("checksum: {line}\n").as_bytes());
}
