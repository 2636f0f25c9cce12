//! The sweep as pictures: GB/s over n, for parascan, CUB and the copy.

use plotters::prelude::*;
use std::{collections::BTreeMap, error::Error, fs, path::Path};

const ELEMENTS: [&str; 4] = ["f32", "i32", "u64", "f16"];
const LIBRARIES: [(&str, &str, RGBColor); 3] =
    [("copy", "copy", RGBColor(120, 120, 120)), ("parascan", "inclusive_sum", BLUE), ("cub", "inclusive_sum", RED)];

/// Draws `scan-ELEMENT.svg` into `folder` from the lines that `--sweep` has printed into `sweep`.
pub(crate) fn plot(sweep: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(sweep)?;
    let machine = text.lines().next().and_then(|line| line.split(", ").nth(1)).unwrap_or("unknown GPU");
    // By (library, what, element): log2 n and GB/s.
    let mut lines: BTreeMap<[&str; 3], Vec<(f64, f64)>> = BTreeMap::new();
    for line in text.lines() {
        if let [library, what, element, n, _, rate, _] = line.split(',').collect::<Vec<_>>()[..]
            && let (Ok(n), Ok(rate)) = (n.parse::<f64>(), rate.parse())
        {
            lines.entry([library, what, element]).or_default().push((n.log2(), rate));
        }
    }
    for element in ELEMENTS {
        let path = folder.join(format!("scan-{element}.svg"));
        let area = SVGBackend::new(&path, (720, 400)).into_drawing_area();
        area.fill(&WHITE)?;
        let series = LIBRARIES.map(|(library, what, colour)| (library, lines.get(&[library, what, element]), colour));
        let all = || series.iter().filter_map(|(_, points, _)| *points).flatten();
        let highest = all().fold(1.0, |highest: f64, point| highest.max(point.1));
        let mut chart = ChartBuilder::on(&area)
            .caption(format!("inclusive sum of {element}, {machine}"), ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(10.0..30.0, 0.0..highest * 1.05)?;
        chart
            .configure_mesh()
            .x_desc("log2 of the number of elements")
            .y_desc("GB/s read and written")
            .max_light_lines(0)
            .x_labels(11)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .draw()?;
        for (library, points, colour) in series {
            let points = points.ok_or_else(|| format!("{} has no {library} of {element}", sweep.display()))?;
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(library)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        area.present()?;
    }
    Ok(())
}
