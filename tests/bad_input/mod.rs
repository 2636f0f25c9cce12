//! Bad input is an error that names what the user needs, and nothing is written: each error of the
//! library that can be provoked, and length zero, which is no error.
//!
//! Machines without a driver, a device or a compiler are in `machines`.

mod capture;
mod compile;
mod device;
mod empty;
mod host;
mod primitives;

use parascan::{Block, Error, Network, Strategy};

/// Every join of tiles, and some of the textbook's blocks.
const STRATEGIES: [(Strategy, &str); 7] = [
    (Strategy::Hierarchical(Block::WarpShuffles), "Hierarchical(WarpShuffles)"),
    (Strategy::Chained(Block::WarpShuffles), "Chained(WarpShuffles)"),
    (Strategy::LookBack(Block::WarpShuffles), "LookBack(WarpShuffles)"),
    (Strategy::PrefixServer(Block::WarpShuffles), "PrefixServer(WarpShuffles)"),
    (Strategy::Hierarchical(Block::Plain(Network::KoggeStone)), "Hierarchical(Plain(KoggeStone))"),
    (Strategy::Chained(Block::Coarsened(Network::BrentKung)), "Chained(Coarsened(BrentKung))"),
    (Strategy::PrefixServer(Block::Shifted(Network::Sklansky)), "PrefixServer(Shifted(Sklansky))"),
];

#[track_caller]
fn assert_length(result: Result<(), Error>, lengths: (usize, usize)) {
    let error = result.expect_err("the lengths differ");
    let Error::Length { primitive, input, output } = &error else { panic!("{error:?} should be Length") };
    assert_eq!((*primitive, *input, *output), ("scan", lengths.0, lengths.1));
    let (input, output) = lengths;
    let words = format!("scan: the input has {input} elements and the output {output}; they must be equally long");
    assert_eq!(error.to_string(), words);
}

/// Returns the bound.
#[track_caller]
fn assert_capturing(error: &Error, what: &str, way_out: &str) {
    let Error::Capturing { what: given, .. } = error else { panic!("{error:?} should be Capturing") };
    assert!(given.starts_with(what), "{given}");
    let words = error.to_string();
    assert!(
        words.contains("the stream is being captured") && words.contains(what) && words.contains(way_out),
        "{words}"
    );
}
