//! Load `scale` as SVG: a panel for each number of workers, a line for each pool.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::Result;
use crate::scale::{Line, THREADS};
use crate::table::figure;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Axes = Cartesian2d<RangedCoordf64, RangedCoordf64>;
type Panel<'a> = ChartContext<'a, SVGBackend<'a>, Axes>;

const SIZE: (u32, u32) = (800, 560);
const FONT: &str = "sans-serif";
/// Told apart by brightness too.
const COLORS: [RGBColor; 3] = [
    RGBColor(200, 60, 30),
    RGBColor(20, 70, 150),
    RGBColor(40, 160, 150),
];

/// Draws lines that come pool by pool, in the same order for each number of workers.
pub fn draw(lines: &[Line]) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let caption = "What a job costs, by submitting threads and workers";
        let area = area.titled(caption, (FONT, 22))?;
        let area = area.margin(0, 8, 8, 12);
        let most = lines.iter().flat_map(|line| &line.nanos);
        let most = most.copied().fold(0.0, f64::max);
        let cells = area.split_evenly((2, 3));
        for (cell, workers) in cells.iter().zip(THREADS) {
            let panel = lines.iter().filter(|line| line.workers == workers);
            draw_panel(cell, &panel.collect::<Vec<_>>(), workers, most)?;
        }
        let pools = lines.iter().filter(|line| line.workers == THREADS[0]);
        draw_legend(&cells[THREADS.len()], pools)?;
        area.present()?;
    }
    Ok(svg)
}

fn draw_panel(area: &Area<'_>, lines: &[&Line], workers: usize, most: f64) -> Result<()> {
    let threads = if workers == 1 { "worker" } else { "workers" };
    let last = (THREADS.len() - 1) as f64;
    let mut panel = ChartBuilder::on(area)
        .caption(format!("{workers} {threads}"), (FONT, 17))
        .margin(6)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.2..last + 0.2, 0.0..most * 1.05)?;
    draw_mesh(&mut panel)?;
    for (line, color) in lines.iter().zip(COLORS) {
        let points = line.nanos.iter().enumerate();
        let points = points.map(|(step, &nanos)| (step as f64, nanos));
        let style = color.filled().stroke_width(2);
        panel.draw_series(LineSeries::new(points, style).point_size(3))?;
    }
    Ok(())
}

/// The horizontal axis goes in steps of [`THREADS`], which double.
fn draw_mesh(panel: &mut Panel<'_>) -> Result<()> {
    panel
        .configure_mesh()
        .x_labels(THREADS.len())
        .y_labels(6)
        .max_light_lines(0)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .x_desc("submitting threads")
        .y_desc("ns a job")
        .x_label_formatter(&|step| figure(step.exp2(), 0))
        .y_label_formatter(&|nanos| figure(*nanos, 0))
        .draw()?;
    Ok(())
}

fn draw_legend<'a>(area: &Area<'_>, pools: impl Iterator<Item = &'a Line>) -> Result<()> {
    for ((row, line), color) in (0..).zip(pools).zip(COLORS) {
        let (x, y) = (40, 70 + 30 * row);
        let stroke = color.stroke_width(2);
        area.draw(&PathElement::new([(x, y), (x + 24, y)], stroke))?;
        area.draw(&Circle::new((x + 12, y), 4, color.filled()))?;
        area.draw(&Text::new(line.name, (x + 34, y - 7), (FONT, 15)))?;
    }
    Ok(())
}
