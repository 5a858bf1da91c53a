//! What each tenant gets, and how long light jobs take, as SVG.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Manner, Regime, Row};

type Failure = Box<dyn Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (900, 420);
const FONT: &str = "sans-serif";
const LIGHT: RGBColor = RGBColor(20, 70, 150);
const HEAVY: RGBColor = RGBColor(225, 190, 175);
const COMES: RGBColor = RGBColor(200, 60, 30);
const GREY: RGBColor = RGBColor(225, 225, 225);
const MARGIN: u32 = 14;

pub(crate) fn draw(rows: &[Row]) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(430);
        draw_shares(&left, rows)?;
        draw_times(&right, rows)?;
        area.present()?;
    }
    Ok(svg)
}

/// Regimes from top to bottom, each in the middle of a whole number.
fn name(at: &f64) -> String {
    let at = Regime::ALL.len() as f64 - 0.5 - at;
    let regime = Regime::ALL.get(at.round() as usize);
    regime.map(Regime::to_string).unwrap_or_default()
}

fn place(regime: Regime) -> f64 {
    let at = Regime::ALL.iter().position(|other| *other == regime);
    Regime::ALL.len() as f64 - 0.5 - at.unwrap_or(0) as f64
}

fn draw_shares(area: &Area<'_>, rows: &[Row]) -> Result<(), Failure> {
    let mut chart = ChartBuilder::on(area)
        .caption("CPU, both with a backlog", (FONT, 19))
        .margin(MARGIN)
        .x_label_area_size(48)
        .y_label_area_size(170)
        .build_cartesian_2d(0.0..100.0, 0.0..Regime::ALL.len() as f64)?;
    for row in rows.iter().filter(|row| row.manner == Manner::Keeps) {
        let (at, share) = (place(row.regime), 100.0 * row.share);
        let bar = |from, to, color: RGBColor| {
            Rectangle::new([(from, at - 0.32), (to, at + 0.32)], color.filled())
        };
        chart.draw_series([bar(0.0, share, LIGHT), bar(share, 100.0, HEAVY)])?;
    }
    chart
        .configure_mesh()
        .disable_mesh()
        .y_labels(Regime::ALL.len() * 2 + 1)
        .x_labels(5)
        .x_label_formatter(&|share| format!("{share:.0}"))
        .y_label_formatter(&|at| {
            if at.fract() == 0.5 {
                name(at)
            } else {
                String::new()
            }
        })
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .x_desc("% of the work done: light tenant dark, heavy one pale")
        .draw()?;
    Ok(())
}

fn draw_times(area: &Area<'_>, rows: &[Row]) -> Result<(), Failure> {
    let most = rows.iter().map(|row| row.p99).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("A light job, submit to end: p50 to p99", (FONT, 19))
        .margin(MARGIN)
        .x_label_area_size(48)
        .y_label_area_size(8)
        .build_cartesian_2d((0.5..most * 1.5).log_scale(), 0.0..Regime::ALL.len() as f64)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .disable_y_mesh()
        .y_labels(0)
        .x_labels(5)
        .x_label_formatter(&|ms| format!("{ms:.0}"))
        .bold_line_style(GREY)
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .x_desc("ms")
        .draw()?;
    for (manner, color, shift) in [(Manner::Keeps, LIGHT, 0.16), (Manner::Comes, COMES, -0.16)] {
        let of_manner = rows.iter().filter(|row| row.manner == manner);
        let spans = of_manner.flat_map(|row| {
            let at = place(row.regime) + shift;
            let (p50, p99) = ((row.p50, at), (row.p99, at));
            [
                PathElement::new([p50, p99], color.stroke_width(3)).into_dyn(),
                Circle::new(p50, 4, WHITE.filled()).into_dyn(),
                Circle::new(p50, 4, color.stroke_width(2)).into_dyn(),
                Circle::new(p99, 5, color.filled()).into_dyn(),
            ]
        });
        chart
            .draw_series(spans.collect::<Vec<_>>())?
            .label(format!("the light tenant {manner}"))
            .legend(move |at| Circle::new((at.0 + 8, at.1), 5, color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font((FONT, 14))
        .background_style(WHITE)
        .border_style(GREY)
        .draw()?;
    Ok(())
}
