//! The light tenant's p99 over the flood's backlog, as SVG.

use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use plotters::coord::combinators::LogCoord;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::cell::Regime;
use crate::summary::Summary;
use crate::table::grouped;

type Failure = Box<dyn Error>;
type Axes = Cartesian2d<LogCoord<f64>, LogCoord<f64>>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Axes>;

const SIZE: (u32, u32) = (800, 480);
const FONT: &str = "sans-serif";
const GREY: RGBColor = RGBColor(110, 110, 110);

pub(crate) fn draw(rows: &[Summary], job: Duration) -> Result<String, Failure> {
    let mut svg = String::new();
    let job_ms = job.as_secs_f64() * 1e3;
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption("How long a light tenant waits beside a flood", (FONT, 22))
            .margin(16)
            .x_label_area_size(52)
            .y_label_area_size(72)
            .build_cartesian_2d(x_range(rows).log_scale(), y_range(rows, job_ms).log_scale())?;
        draw_mesh(&mut chart)?;
        draw_job(&mut chart, rows, job_ms)?;
        for regime in Regime::ALL {
            draw_regime(&mut chart, rows, regime)?;
        }
        draw_legend(&mut chart)?;
        area.present()?;
    }
    Ok(svg)
}

fn x_range(rows: &[Summary]) -> Range<f64> {
    let backlogs = || rows.iter().map(|row| row.backlog as f64);
    let least = backlogs().fold(f64::INFINITY, f64::min);
    let most = backlogs().fold(least, f64::max);
    // Room for the markers, and for one backlog alone.
    least / 1.3..most * 1.3
}

/// Whole decades around all that is drawn.
fn y_range(rows: &[Summary], job_ms: f64) -> Range<f64> {
    let values = || rows.iter().map(height).chain([job_ms]);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(least, f64::max);
    // A little more, so that rounding does not cost the outer lines of the grid.
    let decade = |value: f64| 10f64.powf(value);
    decade(least.log10().floor()) / 1.001..decade((most * 1.1).log10().ceil()) * 1.001
}

/// A logarithmic axis has no zero.
fn height(row: &Summary) -> f64 {
    row.p99.max(1e-3)
}

fn draw_mesh(chart: &mut Chart<'_>) -> Result<(), Failure> {
    chart
        .configure_mesh()
        .x_labels(5)
        .y_labels(7)
        .max_light_lines(0)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style((FONT, 15))
        .axis_desc_style((FONT, 16))
        .x_desc("jobs that the flood keeps queued")
        .y_desc("p99 of the wait, submit to begin, ms")
        .x_label_formatter(&|value| grouped(value.round() as u64))
        .y_label_formatter(&|value| decimal(*value))
        .draw()?;
    Ok(())
}

fn decimal(value: f64) -> String {
    if value < 0.99 {
        format!("{value:.3}").trim_end_matches('0').into()
    } else {
        grouped(value.round() as u64)
    }
}

/// What the waits are to be compared with: a line at the length of a job.
fn draw_job(chart: &mut Chart<'_>, rows: &[Summary], job_ms: f64) -> Result<(), Failure> {
    let range = x_range(rows);
    let line = [(range.start, job_ms), (range.end, job_ms)];
    chart
        .draw_series(DashedLineSeries::new(line, 4, 4, GREY.stroke_width(1)))?
        .label(format!("one job, {job_ms} ms"))
        .legend(|(x, y)| DashedPathElement::new([(x, y), (x + 24, y)], 4, 4, GREY));
    Ok(())
}

fn draw_regime(chart: &mut Chart<'_>, rows: &[Summary], regime: Regime) -> Result<(), Failure> {
    let color = color(regime);
    let of_regime = rows.iter().filter(|row| row.regime == regime);
    let points = of_regime.map(|row| (row.backlog as f64, height(row)));
    let line = LineSeries::new(points, color.filled().stroke_width(2)).point_size(4);
    chart
        .draw_series(line)?
        .label(regime.to_string())
        .legend(move |(x, y)| {
            EmptyElement::at((x, y))
                + PathElement::new([(0, 0), (24, 0)], color.stroke_width(2))
                + Circle::new((12, 0), 4, color.filled())
        });
    Ok(())
}

/// Told apart by brightness too.
fn color(regime: Regime) -> RGBColor {
    match regime {
        Regime::Fifo => RGBColor(200, 60, 30),
        Regime::Fair => RGBColor(20, 70, 150),
        Regime::Weighted => RGBColor(40, 160, 150),
    }
}

fn draw_legend(chart: &mut Chart<'_>) -> Result<(), Failure> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .legend_area_size(32)
        .margin(12)
        .label_font((FONT, 15))
        .background_style(WHITE)
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    Ok(())
}
