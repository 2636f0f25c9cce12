//! What the plans share: the tiles of an input, and the words that join them.

use super::contract::BEFORE_STATUS;
use crate::Error;

/// No grid has more blocks.
pub(crate) const MOST_BLOCKS: usize = i32::MAX as usize;

/// The number of tiles of `n` items. A grid has room for them and for a block that serves prefixes.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) fn tiles(primitive: &'static str, n: usize, tile: usize) -> Result<usize, Error> {
    match n.div_ceil(tile) {
        tiles if tiles < MOST_BLOCKS => Ok(tiles),
        _ => Err(Error::TooLong { primitive, n, most: (MOST_BLOCKS - 1) * tile }),
    }
}

/// Bytes of words for a prefix server. Each tile has an aggregate of `status` bytes, and a prefix that begins
/// `spread` bytes or more behind the one before it.
pub(crate) fn server_words(tiles: usize, status: usize, spread: usize) -> usize {
    if tiles <= 1 { 0 } else { BEFORE_STATUS + tiles * (status + status.max(spread)) }
}

/// The same for `LookBack` in groups of `group` tiles.
pub(crate) fn look_back_words(tiles: usize, group: usize, status: usize) -> usize {
    if tiles <= 1 {
        return 0;
    }
    let groups = tiles.div_ceil(group);
    BEFORE_STATUS + groups.next_multiple_of(4) * 4 + (groups + tiles) * status
}
