//! Lines for a file or a pipe.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use crate::Display;
use crate::history::{Recent, Slot, Tenant};
use crate::view::{percent, wait};

const EVERY: Duration = Duration::from_secs(1);

/// One block a second on standard output.
#[derive(Default)]
pub(crate) struct Plain {
    shown: u32,
}

impl Display for Plain {
    fn show(&mut self, recent: &Recent<'_>) -> io::Result<()> {
        if recent.uptime < EVERY * (self.shown + 1) {
            return Ok(());
        }
        self.shown += 1;
        io::stdout().write_all(block(recent).as_bytes())
    }

    fn pause(&mut self, time: Duration) -> io::Result<bool> {
        thread::sleep(time);
        Ok(false)
    }
}

fn block(recent: &Recent<'_>) -> String {
    let pool = recent.pool;
    let head = format!(
        "{:.1} s: {:.0} jobs/s, {} queued, {} running, wait {}\n",
        recent.uptime.as_secs_f64(),
        recent.rate,
        pool.queued,
        pool.running,
        wait(pool.wait),
    );
    let slots = recent.slots.iter().map(slot);
    let tenants = recent.tenants.iter().map(tenant);
    head + &slots.chain(tenants).collect::<String>()
}

fn slot(Slot { stats, busy }: &Slot<'_>) -> String {
    let busy = percent(Some(*busy));
    format!(
        "  {:<8} {busy} busy, {} pending, {} completed\n",
        stats.name, stats.pending, stats.completed
    )
}

fn tenant(tenant: &Tenant<'_>) -> String {
    let stats = tenant.stats;
    format!(
        "  {:<8} weight {}, {} queued, {:.0} jobs/s, share {} of {} due, wait {}\n",
        stats.name,
        stats.weight.get(),
        stats.queued,
        tenant.rate,
        percent(tenant.share),
        percent(tenant.due),
        wait(stats.wait),
    )
}
