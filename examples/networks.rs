//! Draws a scan network of the textbook from the functions that define it.
//!
//! ```text
//! cargo run --example networks -- brent-kung 16                in the terminal
//! cargo run --example networks -- brent-kung 16 --svg FILE     and as a picture
//! cargo run --example networks -- warp-shuffles 16 --lanes 4   warps of 4 lanes, not 32
//! ```
//! The networks are kogge-stone, brent-kung, sklansky and warp-shuffles. Each column is a position,
//! and time runs downwards; `o--*` combines the position of `o` with that of `*`, which gets the
//! result.

use parascan::networks::{brent_kung, kogge_stone, sklansky, warp_shuffles};
use std::fmt::Write;
use std::process::ExitCode;
use std::{env, fs};

const USAGE: &str = "usage: networks kogge-stone|brent-kung|sklansky|warp-shuffles WIDTH [--lanes L] [--svg FILE]";

fn main() -> ExitCode {
    match try_main(env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("{words}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn try_main(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).ok_or("a number is missing");
    let name = arguments.next().ok_or("which network?")?;
    let width = number(arguments.next())?;
    let (mut lanes, mut svg_file) = (32, None);
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--lanes" => lanes = number(arguments.next())?,
            "--svg" => svg_file = Some(arguments.next().ok_or("which file?")?),
            _ => return Err(format!("{option} is not known")),
        }
    }
    let drawing = Drawing::new(&name, width, lanes)?;
    print!("{}", drawing.text());
    if let Some(file) = svg_file {
        fs::write(&file, drawing.svg()).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(())
}

/// A network of `n` positions.
pub(crate) struct Drawing {
    title: String,
    width: usize,
    /// The pairs (left, right) of each step.
    steps: Vec<Vec<(usize, usize)>>,
}

impl Drawing {
    /// The network of that name, with warps of `lanes` lanes.
    pub(crate) fn new(name: &str, width: usize, lanes: usize) -> Result<Drawing, String> {
        if !(1..=256).contains(&width) || lanes < 2 {
            return Err("1 to 256 positions can be drawn, in warps of 2 lanes or more".into());
        }
        let mut steps: Vec<Vec<(usize, usize)>> = Vec::new();
        let add = |step: usize, left, right| {
            steps.resize(steps.len().max(step + 1), Vec::new());
            steps[step].push((left, right));
        };
        let title = match name {
            "kogge-stone" => {
                kogge_stone(width, add);
                "Kogge-Stone".to_owned()
            }
            "brent-kung" => {
                brent_kung(width, add);
                "Brent-Kung".to_owned()
            }
            "sklansky" => {
                sklansky(width, add);
                "Sklansky".to_owned()
            }
            "warp-shuffles" => {
                warp_shuffles(width, lanes, add);
                format!("warp shuffles, warps of {lanes}")
            }
            _ => return Err(format!("{name} is no network")),
        };
        steps.iter_mut().for_each(|step| step.sort_unstable());
        Ok(Drawing { title, width, steps })
    }

    fn caption(&self) -> String {
        let applications: usize = self.steps.iter().map(Vec::len).sum();
        format!("{}: {} positions, {} steps, {applications} applications", self.title, self.width, self.steps.len())
    }

    /// Draws for a terminal. Pairs of a step that would cross take several lines.
    pub(crate) fn text(&self) -> String {
        const COLUMN: usize = 3;
        let mut text = self.caption() + "\n\n";
        for (number, step) in self.steps.iter().enumerate() {
            // The last column in use, and the characters.
            let mut lines: Vec<(usize, Vec<char>)> = Vec::new();
            for &(left, right) in step {
                let free = lines.iter().position(|(used, _)| *used < left);
                let line = free.unwrap_or_else(|| {
                    let wires = (0..self.width * COLUMN).map(|at| if at % COLUMN == 0 { '|' } else { ' ' }).collect();
                    lines.push((0, wires));
                    lines.len() - 1
                });
                let (used, characters) = &mut lines[line];
                *used = right;
                characters[left * COLUMN..=right * COLUMN].fill('-');
                characters[left * COLUMN] = 'o';
                characters[right * COLUMN] = '*';
            }
            for (line, (_, characters)) in lines.into_iter().enumerate() {
                let label = if line == 0 { format!("step {:<3}", number + 1) } else { " ".repeat(8) };
                let _ = writeln!(text, "{label}{}", String::from_iter(characters).trim_end());
            }
            text.push('\n');
        }
        text
    }

    /// Draws an SVG.
    pub(crate) fn svg(&self) -> String {
        const ACROSS: usize = 26;
        const DOWN: usize = 40;
        const TOP: usize = 56;
        let x = |position: usize| 30 + position * ACROSS;
        let y = |step: usize| TOP + step * DOWN;
        let (wide, high) = (x(self.width - 1) + 30, y(self.steps.len()) + 24);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"16\" y=\"20\" font-size=\"13\">{}</text>\n\
             <g stroke=\"#bbb\">\n",
            self.caption()
        );
        for position in 0..self.width {
            let (x, from, to) = (x(position), y(0), y(self.steps.len()) + 8);
            let _ = writeln!(svg, "<path d=\"M{x} {from}V{to}\"/>");
        }
        svg += "</g>\n<g text-anchor=\"middle\">\n";
        for position in 0..self.width {
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{position}</text>", x(position), TOP - 8);
        }
        svg += "</g>\n<g stroke=\"#2050c0\" stroke-width=\"1.5\">\n";
        for (step, combinations) in self.steps.iter().enumerate() {
            for &(left, right) in combinations {
                let _ = writeln!(svg, "<path d=\"M{} {}L{} {}\"/>", x(left), y(step) + 6, x(right), y(step) + DOWN - 6);
            }
        }
        svg += "</g>\n<g fill=\"#2050c0\">\n";
        for (step, combinations) in self.steps.iter().enumerate() {
            for &(_, right) in combinations {
                let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"{}\" r=\"4\"/>", x(right), y(step) + DOWN - 6);
            }
        }
        svg + "</g>\n</svg>\n"
    }
}
