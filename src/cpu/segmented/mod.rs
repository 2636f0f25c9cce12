//! Scan and reduction of segments of any lengths.
//!
//! Threads take equal tiles, however the segments lie. A tile is a row of *pieces*: the parts of
//! its segments that lie in it. Each piece is one call of the loops that scan or fold a tile without
//! segments, so a long piece is as fast as there, and a short one is a plain loop.
//!
//! Only the first and the last piece of a tile can belong to a segment of several tiles. The
//! hand-over joins these by the operator of Schwartz ("Ultracomputers", 1980) on a [`State`]: a tile
//! in which a segment begins ignores all tiles before it. So the tiles before the end of a tile's
//! last segment are summed by their last pieces alone.
//!
//! `heads.rs` says where segments begin, `scan.rs` and `reduce.rs` do the work on a tile.

mod heads;
mod reduce;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use heads::{ByBits, ByFlags, ByKeys, ByOffsets, ByRows, Heads, step_where};
pub(crate) use reduce::{Ends, reduce};
pub(crate) use scan::scan;

use super::handover::{hand_over, in_order};
use crate::Element;

/// What a tile hands on.
#[derive(Clone, Copy)]
struct State<C> {
    /// The combination of the items behind the last begin of a segment, if there are any.
    upto: Option<C>,
    /// Whether a segment begins in the tile.
    begins: bool,
}

/// Joins tiles. The work on them is hidden behind closures, so this is compiled once for each type
/// of carry.
///
/// `fold` returns a tile's state and a value kept until the tile is finished. `finish` gets the
/// combination of what lies before the tile in its first segment: for the first tile, `first`.
/// With `alone` the calling thread does all work.
fn joined<C: Element, K: Copy + Send>(
    tiles: usize,
    first: Option<C>,
    alone: bool,
    combine: fn(C, C) -> C,
    fold: &(dyn Fn(usize) -> (State<C>, K) + Sync),
    finish: &(dyn Fn(usize, Option<C>, K) + Sync),
) {
    let first = Some(State { upto: first, begins: false });
    let joined = |earlier: &State<C>, later: &State<C>| match (earlier.upto, later.upto) {
        _ if later.begins => *later,
        (Some(a), Some(b)) => State { upto: Some(combine(a, b)), begins: earlier.begins },
        (a, b) => State { upto: a.or(b), begins: earlier.begins },
    };
    let finish = |tile: usize, prefix: Option<&State<C>>, kept: K| {
        finish(tile, prefix.expect("there is a first state").upto, kept);
    };
    if alone {
        in_order(tiles, first, fold, joined, |tile, prefix, kept, _| {
            finish(tile, prefix, kept);
            None
        });
    } else {
        hand_over(tiles, first, fold, joined, finish);
    }
}
