//! Sweeps as pictures: GB/s over n, and times as fast as CUB by the number and length of segments.

use crate::{ladder, segmented};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;
use std::{collections::BTreeMap, error::Error, fs, path::Path};

const ELEMENTS: [&str; 4] = ["f32", "i32", "u64", "f16"];
const GREY: RGBColor = RGBColor(120, 120, 120);
const LIBRARIES: [(&str, &str, RGBColor); 3] =
    [("copy", "copy", GREY), ("parascan", "inclusive_sum", BLUE), ("cub", "inclusive_sum", RED)];
/// The colours of the ladder's steps.
const COLOURS: [RGBColor; 8] = [
    RGBColor(240, 160, 0),
    RGBColor(200, 90, 0),
    RGBColor(150, 60, 60),
    RGBColor(0, 150, 80),
    RGBColor(160, 0, 160),
    RGBColor(0, 160, 190),
    RGBColor(230, 80, 150),
    BLUE,
];

/// log2 n and GB/s.
type Points = Vec<(f64, f64)>;

/// The rows of a sweep: the GPU, and by (library, what, element) the points, and the microseconds of the
/// last one.
struct Sweep {
    machine: String,
    lines: BTreeMap<[String; 3], Points>,
    times: BTreeMap<[String; 3], f64>,
}

impl Sweep {
    fn read(file: &Path) -> Result<Sweep, Box<dyn Error>> {
        let text = fs::read_to_string(file)?;
        let machine = text.lines().next().and_then(|line| line.split(", ").nth(1)).unwrap_or("unknown GPU").to_owned();
        let mut lines: BTreeMap<[String; 3], Points> = BTreeMap::new();
        let mut times = BTreeMap::new();
        for line in text.lines() {
            if let [library, what, element, n, us, rate, _] = line.split(',').collect::<Vec<_>>()[..]
                && let (Ok(n), Ok(us), Ok(rate)) = (n.parse::<f64>(), us.parse(), rate.parse())
            {
                let key = [library, what, element].map(str::to_owned);
                times.insert(key.clone(), us);
                lines.entry(key).or_default().push((n.log2(), rate));
            }
        }
        lines.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        Ok(Sweep { machine, lines, times })
    }

    fn points(&self, library: &str, what: &str, element: &str) -> Result<&Points, String> {
        Self::of(&self.lines, library, what, element)
    }
    fn time(&self, library: &str, what: &str, element: &str) -> Result<f64, String> {
        Self::of(&self.times, library, what, element).copied()
    }
    fn of<'a, V>(
        rows: &'a BTreeMap<[String; 3], V>,
        library: &str,
        what: &str,
        element: &str,
    ) -> Result<&'a V, String> {
        let key = [library, what, element].map(str::to_owned);
        rows.get(&key).ok_or_else(|| format!("it has no {library},{what},{element}"))
    }
}

/// Draws `scan-ELEMENT.svg` into `folder` from the rows that `--sweep` printed into `sweep`.
pub(crate) fn plot(sweep: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let sweep = Sweep::read(sweep)?;
    for element in ELEMENTS {
        let mut series = Vec::new();
        for (library, what, colour) in LIBRARIES {
            series.push((library, sweep.points(library, what, element)?, colour));
        }
        let caption = format!("inclusive sum of {element}, {}", sweep.machine);
        draw(&folder.join(format!("scan-{element}.svg")), (720, 400), &caption, 10.0..30.0, &series)?;
    }
    Ok(())
}

/// Draws `scan-ladder.svg` into `folder` from the rows that `--ladder` printed into `sweep`.
pub(crate) fn ladder(sweep: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let sweep = Sweep::read(sweep)?;
    let mut series = vec![("copy", sweep.points("copy", "copy", "f32")?, GREY)];
    for ((strategy, label), colour) in ladder::STEPS.into_iter().zip(COLOURS) {
        let what = format!("inclusive_sum{}", ladder::suffix(strategy));
        series.push((label, sweep.points("parascan", &what, "f32")?, colour));
    }
    let caption = format!("inclusive sum of f32, {}", sweep.machine);
    draw(&folder.join("scan-ladder.svg"), (800, 520), &caption, 10.0..28.0, &series)
}

/// Draws `segmented-scan.svg` and `segmented-reduce.svg`, by offsets, and `rows-scan.svg` and
/// `rows-reduce.svg` into `folder` from the rows that `--segmented-sweep` printed into `sweep`: how many
/// times as fast as CUB parascan is.
pub(crate) fn segmented(sweep: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let sweep = Sweep::read(sweep)?;
    for (primitive, call) in [("scan", "exclusive_sum"), ("reduce", "reduce_sum")] {
        for (kind, by) in [("segmented", "segment"), ("rows", "row")] {
            let mut cells = Vec::new();
            for cell in segmented::cells() {
                let time = |library, kind: &str| {
                    sweep.time(library, &format!("{kind}_{call}_{}", segmented::cell(cell)), "f32")
                };
                // CUB's sums by row, where it has them, may take longer than those by offsets.
                let cub = time("cub", "segmented")?;
                let cub = time("cub", kind).map_or(cub, |us| us.min(cub));
                cells.push((cell, cub / time("parascan", kind)?));
            }
            let caption = format!("{primitive} by {by} of f32, {}", sweep.machine);
            heat_map(&folder.join(format!("{kind}-{primitive}.svg")), &caption, &cells)?;
        }
    }
    Ok(())
}

/// A square for each number and length of segments: blue where parascan is faster, red where it is
/// slower.
fn heat_map(path: &Path, caption: &str, cells: &[((u32, u32), f64)]) -> Result<(), Box<dyn Error>> {
    const HALF: i32 = 2; // of the step between two cells
    let area = SVGBackend::new(path, (640, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("times as fast as CUB: {caption}"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(-HALF..28 + HALF, -HALF..28 + HALF)?;
    chart.configure_mesh().disable_mesh().x_desc("log2 of a segment's items").y_desc("log2 of the segments").draw()?;
    let middle = Pos::new(HPos::Center, VPos::Center);
    for &((segments, length), ratio) in cells {
        let (x, y) = (length as i32, segments as i32);
        let shade = 255 - (ratio.log2().abs() / 6.0 * 170.0).min(170.0) as u8;
        let colour = if ratio >= 1.0 { RGBColor(shade, shade, 255) } else { RGBColor(255, shade, shade) };
        let square = [(x - HALF, y - HALF), (x + HALF, y + HALF)];
        let text = if ratio < 9.95 { format!("{ratio:.2}") } else { format!("{ratio:.0}") };
        let style = TextStyle::from(("sans-serif", 15)).pos(middle);
        chart.draw_series([Rectangle::new(square, colour.filled())])?;
        chart.draw_series([Text::new(text, (x, y), style)])?;
    }
    area.present()?;
    Ok(())
}

fn draw(
    path: &Path,
    size: (u32, u32),
    caption: &str,
    logs: Range<f64>,
    series: &[(&'static str, &Points, RGBColor)],
) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let all = series.iter().flat_map(|(_, points, _)| points.iter());
    let highest = all.fold(1.0, |highest: f64, point| highest.max(point.1));
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(logs, 0.0..highest * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("log2 of the number of elements")
        .y_desc("GB/s read and written")
        .max_light_lines(0)
        .x_labels(11)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for &(label, points, colour) in series {
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}
