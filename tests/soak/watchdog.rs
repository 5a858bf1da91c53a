//! Ends the process, with all that is known, when nothing goes on any more.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::counts::Counts;

/// So long without a single event.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

struct Shared {
    total: Arc<Counts>,
    /// The counts of the present cycle, and how to describe it.
    cycle: Mutex<Option<(Arc<Counts>, String)>>,
}

impl Shared {
    fn progress(&self) -> u64 {
        let cycle = self.cycle.lock().unwrap();
        self.total.total() + cycle.as_ref().map_or(0, |(counts, _)| counts.total())
    }

    fn give_up(&self) -> ! {
        let cycle = self.cycle.lock().unwrap();
        let (counts, what) = cycle.as_ref().expect("something hangs");
        let mut err = std::io::stderr();
        drop(writeln!(
            err,
            "watchdog: nothing goes on in {what}\n{counts}"
        ));
        std::process::abort();
    }
}

impl Watchdog {
    /// Watches until the process ends.
    pub(crate) fn start(total: &Arc<Counts>) -> Watchdog {
        let shared = Arc::new(Shared {
            total: Arc::clone(total),
            cycle: Mutex::default(),
        });
        let watched = Arc::clone(&shared);
        thread::spawn(move || {
            let (mut before, mut since) = (watched.progress(), Instant::now());
            loop {
                thread::sleep(Duration::from_secs(1));
                let now = watched.progress();
                if now != before {
                    (before, since) = (now, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    watched.give_up();
                }
            }
        });
        Watchdog { shared }
    }

    pub(crate) fn watch(&self, counts: &Arc<Counts>, what: String) {
        *self.shared.cycle.lock().unwrap() = Some((Arc::clone(counts), what));
    }
}
