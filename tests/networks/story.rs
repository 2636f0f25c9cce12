//! `docs/scan-algorithms.md` quotes the templates exactly, and its counts are the library's.

use parascan::{Block, Network, Strategy, Sum, scan};

const STORY: &str = include_str!("../../docs/scan-algorithms.md");
const TEMPLATES: [(&str, &str); 4] = [
    ("textbook/networks.cuh", include_str!("../../cuda-templates/textbook/networks.cuh")),
    ("textbook/textbook.cuh", include_str!("../../cuda-templates/textbook/textbook.cuh")),
    ("textbook/hierarchical.cuh", include_str!("../../cuda-templates/textbook/hierarchical.cuh")),
    ("core/handover.cuh", include_str!("../../cuda-templates/core/handover.cuh")),
];

/// The first and last line numbers, from 1 on, at which `text` has these lines in a row.
fn lines_of(text: &str, quote: &[&str]) -> Option<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(quote.len()).position(|window| window == quote).map(|at| (at + 1, at + quote.len()))
}

#[test]
fn quotes_are_the_templates() {
    let lines: Vec<&str> = STORY.lines().collect();
    let mut quotes = 0;
    for begin in (0..lines.len()).filter(|&i| lines[i] == "```cpp") {
        let end = (begin..lines.len()).find(|&i| lines[i] == "```").expect("the quote ends");
        let link = lines[begin - 2];
        let named = |(name, _): &&(&str, &str)| link.starts_with(&format!("[`{name}`, "));
        let (name, text) = TEMPLATES.iter().find(named).unwrap_or_else(|| panic!("no template in {link}"));
        let Some((from, to)) = lines_of(text, &lines[begin + 1..end]) else {
            panic!("{link}: {name} does not have these lines any more")
        };
        let expected = format!("[`{name}`, lines {from} to {to}](../cuda-templates/{name}#L{from}-L{to}):");
        assert_eq!(link, expected, "the quote is there, but not at these lines");
        quotes += 1;
    }
    assert!(quotes >= 12, "{quotes} quotes");
}

#[test]
fn counts_are_the_library_s() {
    let mut missing = Vec::new();
    let mut row = |row: String| {
        if !STORY.lines().any(|line| line == row) {
            missing.push(row);
        }
    };
    for network in Network::ALL {
        let (applications, steps) = (network.applications(512), network.steps(512));
        row(format!("| `{network:?}` | {applications} | {steps} | {} |", network.barriers(512)));
    }
    const N: usize = 1 << 26;
    for join in [Strategy::Hierarchical, Strategy::Chained, Strategy::LookBack] {
        for form in [Block::Plain, Block::Coarsened] {
            for network in Network::ALL {
                let strategy = join(form(network));
                let work = scan::<Sum, f32>().strategy(strategy).work(N).unwrap();
                let tiles = N.div_ceil(if matches!(form(network), Block::Plain(_)) { 512 } else { 512 * 9 });
                row(format!(
                    "| `{strategy:?}` | {:.2} | {:.1} | {} | {:.2} |",
                    work.applications as f64 / N as f64,
                    work.barriers as f64 / tiles as f64,
                    work.launches,
                    (work.read + work.written) as f64 / (4 * N) as f64
                ));
            }
        }
    }
    assert!(missing.is_empty(), "the story lacks these rows:\n{}", missing.join("\n"));
}
