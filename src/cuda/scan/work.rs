//! The work of a textbook's scan: operator applications, barriers, launches and bytes moved.

use super::contract::SHIFTED;
use super::plan::levels;
use super::tuning::{LOOK_BACK_GROUP, TEXTBOOK_WIDTH};
use super::{Join, Plan, Textbook};
use crate::{Element, Network, Operator, Work};

impl Textbook {
    /// Applications and barriers of a tile's block with or without a prefix, except those of the
    /// join. `kernels` is one, or two with the join between them.
    fn scan(self, size: usize, exclusive: bool, shifted: bool, prefix: bool, kernels: u64) -> [u64; 2] {
        let Textbook { network, coarsened } = self;
        let (width, run) = (TEXTBOOK_WIDTH, self.tile(size) / TEXTBOOK_WIDTH);
        let mut applications = if prefix { network.applications_from(width) } else { network.applications(width) };
        let mut barriers = network.barriers(width) + if kernels == 1 { 1 } else { usize::from(coarsened) };
        if coarsened {
            barriers += 3;
            // Each run is combined twice: for its total, and from its prefix on except for the last
            // item.
            applications += 2 * width * (run - 1) - usize::from(!prefix);
        } else if exclusive && shifted {
            // The first thread takes the prefix as it is. The aggregate gets one more item.
            network.each(width, |_, left, _| applications -= usize::from(left == 0));
            applications -= usize::from(prefix);
            applications += 1;
        } else if exclusive {
            barriers += 1;
        }
        [applications as u64, barriers as u64]
    }
}

/// Applications of `LookBack::receive` by tile `tile` of `tiles`; `init` says whether the first
/// tile has a prefix.
fn look_back_of(tile: usize, tiles: usize, init: bool) -> u64 {
    let (group, rank) = (tile / LOOK_BACK_GROUP, tile % LOOK_BACK_GROUP);
    let each = LOOK_BACK_GROUP / 32;
    let lanes = rank.div_ceil(each);
    // Each lane folds its part; a Kogge-Stone network folds the lanes.
    let before = rank - lanes + Network::KoggeStone.applications(lanes);
    let closes = rank == LOOK_BACK_GROUP - 1;
    let prefix = init || group > 0;
    let own = usize::from(rank > 0 && prefix);
    let handed_on = usize::from(closes) + usize::from(closes && tile + 1 < tiles && prefix);
    (before + own + handed_on) as u64
}

/// Applications of `LookBack::receive` by all tiles.
fn look_back(tiles: usize, init: bool) -> u64 {
    let group = |group: usize| {
        let first = group * LOOK_BACK_GROUP;
        (first..tiles.min(first + LOOK_BACK_GROUP)).map(|tile| look_back_of(tile, tiles, init)).sum::<u64>()
    };
    // All groups but the first and the last make the same number of applications.
    match tiles.div_ceil(LOOK_BACK_GROUP) {
        0 | 1 => group(0),
        groups => group(0) + (groups as u64 - 2) * group(1) + group(groups - 1),
    }
}

impl Plan {
    /// The result of [`Scan::work`](crate::Scan::work), for the plan's `n`.
    pub(crate) fn work<Op: Operator<T>, T: Element>(&self, n: usize, exclusive: bool, init: bool) -> Option<Work> {
        let textbook = self.program.textbook?;
        let (element, carry, tiles) = (size_of::<T>(), size_of::<Op::Carry>(), self.tiles);
        let mut work = Work::default();
        if n == 0 {
            return Some(work);
        }
        let is_hierarchical = self.program.join == Join::Hierarchical;
        let scan = |work: &mut Work, length: usize, size: usize, tiles: usize, exclusive: bool, shifted: bool| {
            let kernels = if is_hierarchical && tiles > 1 { 2 } else { 1 };
            for (prefix, tiles) in [(init, 1), (true, tiles as u64 - 1)] {
                let [applications, barriers] = textbook.scan(size, exclusive, shifted, prefix, kernels);
                work.applications += applications * tiles;
                work.barriers += barriers * tiles;
            }
            work.launches += kernels;
            work.read += (length * size) as u64;
            work.written += (length * size) as u64;
            if kernels == 2 {
                // Kernels pass prefixes and the threads' carries. The second kernel reads the runs
                // again.
                let between = ((tiles - 1 + self.program.kept(tiles - 1)) * carry) as u64;
                work.read += between + if textbook.coarsened { (length * size) as u64 } else { 0 };
                work.written += between;
            }
        };
        scan(&mut work, n, element, tiles, exclusive, self.flags & SHIFTED != 0);
        if tiles == 1 {
            return Some(work);
        }
        let of_joining = match self.program.join {
            Join::PrefixServer => return None,
            Join::Chained => tiles as u64 - 1 - u64::from(!init),
            Join::LookBack => look_back(tiles, init),
            Join::Hierarchical => {
                for length in levels(tiles, self.tile_of_carries) {
                    scan(&mut work, length, carry, length.div_ceil(self.tile_of_carries), false, false);
                }
                return Some(work);
            }
        };
        work.applications += of_joining;
        work.barriers += tiles as u64; // one a tile, for its ticket
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tuning::textbook_run;
    use super::*;
    use crate::{Block, Strategy};

    #[test]
    fn groups_that_look_back_do_the_same() {
        for tiles in [1, 2, 127, 128, 129, 255, 256, 257, 384, 385, 1000] {
            for init in [false, true] {
                let each: u64 = (0..tiles).map(|tile| look_back_of(tile, tiles, init)).sum();
                assert_eq!(look_back(tiles, init), each, "{tiles} tiles");
            }
        }
    }

    /// The device counts the same numbers (`tests/scan/counts.rs`). This test checks the formulas'
    /// values.
    #[test]
    fn work_and_traffic() {
        use crate::{Sum, scan};
        const N: usize = 1 << 26;
        let work = |strategy| scan::<Sum, f32>().strategy(strategy).work(N).unwrap();
        for network in Network::ALL {
            for (block, tile) in
                [(Block::Plain(network), TEXTBOOK_WIDTH), (Block::Coarsened(network), TEXTBOOK_WIDTH * textbook_run(4))]
            {
                let tiles = N.div_ceil(tile) as u64;
                let [chained, look_back, hierarchical] =
                    [Strategy::Chained(block), Strategy::LookBack(block), Strategy::Hierarchical(block)].map(work);
                // Each item is read and written once.
                for single in [chained, look_back] {
                    assert_eq!((single.launches, single.read, single.written), (1, 4 * N as u64, 4 * N as u64));
                }
                // With two kernels a carry for each thread is written and read between them, and
                // the second kernel reads the runs again.
                let items = tiles * tile as u64;
                let once = if tile == TEXTBOOK_WIDTH { 2 * N as u64 } else { 3 * N as u64 };
                let least = 4 * (once + 2 * tiles * TEXTBOOK_WIDTH as u64);
                let moved = hierarchical.read + hierarchical.written;
                assert!(moved >= least && moved < least + 40 * tiles, "{block:?}: {moved} for {least}");
                // Each item takes two applications. A block adds those of its network and its share
                // of the join.
                let a_block = match network {
                    Network::BrentKung => 0,
                    _ if tile == TEXTBOOK_WIDTH => continue,
                    _ => (network.applications(TEXTBOOK_WIDTH) - TEXTBOOK_WIDTH) as u64,
                };
                for (work, joined) in [(chained, 1), (look_back, 256), (hierarchical, 6)] {
                    assert!(work.applications <= 2 * items + tiles * (a_block + joined), "{block:?}: {work:?}");
                }
            }
        }
        assert_eq!(scan::<Sum, f32>().work(N), None, "that is a matter of tuning");
        let block = Block::Plain(Network::BrentKung);
        assert_eq!(scan::<Sum, f32>().strategy(Strategy::PrefixServer(block)).work(N), None, "of timing");
        assert_eq!(scan::<Sum, f32>().strategy(Strategy::LookBack(block)).work(0), Some(Work::default()));
    }
}
