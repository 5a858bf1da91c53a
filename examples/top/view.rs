//! What is on the screen.

use fairlane::Latency;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Row, Table};

use crate::history::{Recent, Slot, Tenant};

/// A table's frame and its header.
const AROUND_ROWS: u16 = 3;
/// Columns of the bars; with these a tenant's row fits into 80.
const SLOT_BAR: usize = 30;
const TENANT_BAR: usize = 10;

pub(crate) fn render(frame: &mut Frame<'_>, recent: &Recent<'_>) {
    let height = |rows: usize| {
        u16::try_from(rows)
            .unwrap_or(u16::MAX)
            .saturating_add(AROUND_ROWS)
    };
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(height(recent.slots.len())),
        Constraint::Max(height(recent.tenants.len())),
        Constraint::Length(1),
    ]);
    let [head, slots, tenants, foot] = areas.areas(frame.area());
    frame.render_widget(summary(recent), head);
    frame.render_widget(slot_table(recent), slots);
    frame.render_widget(tenant_table(recent), tenants);
    frame.render_widget(Line::from("q quits").dim(), foot);
}

fn summary(recent: &Recent<'_>) -> Line<'static> {
    let pool = recent.pool;
    Line::from(format!(
        "{:.1} s  {:.0} jobs/s  {} queued  {} running  {} completed  wait {}",
        recent.uptime.as_secs_f64(),
        recent.rate,
        pool.queued,
        pool.running,
        pool.completed,
        wait(pool.wait),
    ))
    .bold()
}

fn slot_table(recent: &Recent<'_>) -> Table<'static> {
    let widths = [
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(11),
        Constraint::Length(6),
        Constraint::Length(SLOT_BAR as u16),
    ];
    let rows = recent.slots.iter().map(|Slot { stats, busy }| {
        Row::new([
            stats.name.clone(),
            stats.pending.to_string(),
            stats.completed.to_string(),
            percent(Some(*busy)),
            bar(*busy, SLOT_BAR),
        ])
    });
    table(
        " slots ",
        ["slot", "pending", "completed", "busy", ""],
        rows.collect(),
        widths,
    )
}

fn tenant_table(recent: &Recent<'_>) -> Table<'static> {
    let widths = [
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(TENANT_BAR as u16),
        Constraint::Min(24),
    ];
    let rows = recent.tenants.iter().map(tenant_row);
    let names = [
        "tenant", "weight", "queued", "jobs/s", "share", "due", "", "wait",
    ];
    table(" tenants ", names, rows.collect(), widths)
}

fn tenant_row(tenant: &Tenant<'_>) -> Row<'static> {
    let stats = tenant.stats;
    Row::new([
        stats.name.clone(),
        stats.weight.get().to_string(),
        stats.queued.to_string(),
        format!("{:.0}", tenant.rate),
        percent(tenant.share),
        percent(tenant.due),
        bar(tenant.share.unwrap_or_default(), TENANT_BAR),
        wait(stats.wait),
    ])
}

fn table<const N: usize>(
    title: &'static str,
    names: [&'static str; N],
    rows: Vec<Row<'static>>,
    widths: [Constraint; N],
) -> Table<'static> {
    let header = Row::new(names).style(Style::new().fg(Color::Cyan));
    let block = Block::bordered().title(title);
    Table::new(rows, widths).header(header).block(block)
}

fn bar(part: f64, columns: usize) -> String {
    "█".repeat((part * columns as f64).round() as usize)
}

/// Right-aligned, so that columns of them line up.
pub(crate) fn percent(part: Option<f64>) -> String {
    part.map_or("   - ".into(), |part| format!("{:3.0} %", part * 100.0))
}

pub(crate) fn wait(wait: Option<Latency>) -> String {
    let Some(Latency { p50, p99, .. }) = wait else {
        return "-".into();
    };
    format!("p50 {p50:.1?}, p99 {p99:.1?}")
}
