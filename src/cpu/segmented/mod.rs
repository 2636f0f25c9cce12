//! Scan and reduction of segments of any lengths.
//!
//! Threads take equal tiles, however the segments lie. The begins of segments cut a tile into
//! *pieces*, each of one segment. A piece is scanned or folded by the loops of a scan or a
//! reduction without segments. Whole rows advance side by side, some at a time.
//!
//! Only the first and the last piece of a tile can belong to a segment of several tiles. The
//! hand-over joins these by Schwartz's operator ("Ultracomputers", 1980) on a [`State`]: a tile in
//! which a segment begins ignores all tiles before it. So of each tile only the last piece is
//! folded ahead.
//!
//! `heads.rs` says where segments begin, `scan.rs` and `reduce.rs` do the work on a tile.

mod heads;
mod reduce;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use heads::{ByBits, ByFlags, ByKeys, ByOffsets, ByRows, HeadLists, Heads, LIST, begins, step_where};
pub(crate) use reduce::{Ends, UpTo, reduce};
pub(crate) use scan::scan;

use super::handover::hand_over;
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
/// A single tile stays on the calling thread, and nothing is allocated.
fn joined<C: Element, K: Copy + Send>(
    tiles: usize,
    first: Option<C>,
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
    hand_over(tiles, first, fold, joined, finish);
}
