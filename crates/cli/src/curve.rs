//! Loss curve as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// A named line: the mean loss of each epoch.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) losses: Vec<f64>,
}

/// Draws the lines to `path`, on a logarithmic scale. The file is written atomically.
pub(crate) fn write(path: &Path, title: &str, lines: &[Line]) -> Result<()> {
    let svg = draw(title, lines).map_err(|error| anyhow!("cannot draw the loss curve: {error}"))?;
    Ok(samebits::io::write_whole(path, svg.as_bytes())?)
}

fn draw<'a>(title: &'a str, lines: &'a [Line]) -> Result<String, Box<dyn std::error::Error + 'a>> {
    let all = || lines.iter().flat_map(|line| &line.losses).copied().filter(|loss| *loss > 0.0);
    let low = all().fold(f64::INFINITY, f64::min).min(0.1);
    let high = all().fold(0.0, f64::max).max(low * 10.0);
    let epochs = lines.iter().map(|line| line.losses.len()).max().unwrap_or(0).max(2);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (720, 440)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(1.0..epochs as f64, (low * 0.8..high * 1.2).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("epoch")
            .y_desc("mean cross-entropy")
            .x_labels(epochs.min(12))
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.3}"))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (i, line) in lines.iter().enumerate() {
            // Equal curves coincide: draw the first wide and pale, the next narrow.
            let width = if i == 0 { 7 } else { 2 };
            let style = Palette99::pick(i).mix(if i == 0 { 0.35 } else { 1.0 }).stroke_width(width);
            let points = line.losses.iter().enumerate().map(|(i, &loss)| ((i + 1) as f64, loss));
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .legend_area_size(32)
            .draw()?;
        root.present()?;
    }
    Ok(svg)
}
