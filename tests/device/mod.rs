//! What only the device can show: graphs, streams, views that start anywhere, the layers under primitives of a test's own, sizes
//! past 2^32, how many launches, what is counted, bits that stay the same, progress while another kernel holds the card, what each guard of the
//! hand-over is for, which way keys go to buckets, what compute-sanitizer looks at.

mod counts;
mod delays;
mod graph;
mod guards;
mod launches;
mod layers;
mod long;
mod progress;
mod races;
mod ranks;
mod routes;
mod same_bits;
mod sanitize;
mod streams;
mod subject;
mod views;

use crate::common::{Rng, Sample, data};
use parascan::{Block, Network, Strategy};

/// Every way of joining tiles.
const STRATEGIES: [Strategy; 5] = [
    Strategy::Auto,
    Strategy::PrefixServer(Block::WarpShuffles),
    Strategy::LookBack(Block::WarpShuffles),
    Strategy::Chained(Block::WarpShuffles),
    Strategy::Hierarchical(Block::WarpShuffles),
];

/// Every network and form of the textbook, and every way of joining tiles, once or twice.
const TEXTBOOK: [Strategy; 8] = [
    Strategy::Hierarchical(Block::Plain(Network::KoggeStone)),
    Strategy::Chained(Block::Plain(Network::KoggeStoneDoubleBuffered)),
    Strategy::LookBack(Block::Plain(Network::BrentKung)),
    Strategy::PrefixServer(Block::Shifted(Network::Sklansky)),
    Strategy::Hierarchical(Block::Coarsened(Network::BrentKung)),
    Strategy::Chained(Block::Coarsened(Network::WarpShuffles)),
    Strategy::LookBack(Block::Coarsened(Network::KoggeStoneDoubleBuffered)),
    Strategy::LookBack(Block::Shifted(Network::WarpShuffles)),
];

fn any<T: Sample>(rng: &mut Rng, n: usize) -> Vec<T> {
    data(rng, crate::common::Draw::Any, n)
}
