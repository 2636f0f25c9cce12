//! Strategies: the algorithm of a scan on the device, and its cost.

use crate::Network;

/// The algorithm that scans a tile inside a thread block.
///
/// All but the default are textbook algorithms, in the textbook's shapes and with its
/// inefficiencies, to be read (`cuda-templates/textbook/networks.cuh`, `textbook/textbook.cuh`),
/// counted and measured. They are right for every operator and element, and compiled at run time. A
/// tile is 512 items for [`Plain`](Block::Plain) and [`Shifted`](Block::Shifted), and 512 runs of
/// items for [`Coarsened`](Block::Coarsened).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Block {
    /// The library's own. Each lane scans a run of items, shuffles scan the lanes' totals within a
    /// warp, and one warp scans the warps' totals (Kogge and Stone 1973, over 32 lanes). Slices of
    /// the tile are copied through shared memory as vectors.
    #[default]
    WarpShuffles,
    /// One item per thread, scanned by a network. In an exclusive scan a thread takes the inclusive
    /// result of the thread before.
    Plain(Network),
    /// As [`Plain`](Block::Plain), but an exclusive scan is the inclusive scan of items loaded one
    /// index earlier.
    Shifted(Network),
    /// A run of items per thread, 36 bytes or a little more. Each thread combines its run, a
    /// network scans the totals of all runs, and each thread scans its run again from the prefix
    /// before it (after Hwu, Kirk and El Hajj, "Programming Massively Parallel Processors").
    /// Neighbouring threads load and store neighbouring items, through shared memory.
    Coarsened(Network),
}

/// The join of a scan's tiles: the way in which a tile gets its exclusive prefix.
///
/// Every strategy combines operands in order and gives the same bits in every run. Two strategies
/// may round a float sum differently. On host data any strategy but [`Auto`](Strategy::Auto) is an
/// error.
///
/// | strategy | items moved, for n items | kernels | compiled |
/// |---|---|---|---|
/// | [`PrefixServer`](Strategy::PrefixServer) | 2 n | 1 | by a build (catalog), or at run time |
/// | [`LookBack`](Strategy::LookBack), [`Chained`](Strategy::Chained) | 2 n | 1 | at run time |
/// | [`Hierarchical`](Strategy::Hierarchical) | 3 n to 4 n | 3, recursively | at run time |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// [`PrefixServer`](Strategy::PrefixServer), the fastest one. On the host, the only one.
    #[default]
    Auto,
    /// Three kernels: the first computes the aggregates of all tiles, the second scans them (by the
    /// same kernels, recursively), the third scans every tile from its prefix. No block waits for
    /// another (Merrill and Grimshaw 2009, "Parallel Scan for Stream Architectures").
    ///
    /// The library's own blocks read the input twice: 3 n items are moved. The textbook's blocks do
    /// the first half of their network in the first kernel and the second half in the third. Each
    /// thread keeps a carry in scratch memory in between, so nothing is combined twice. That moves
    /// 4 n items for one item per thread, if carries are as large as items. For
    /// [`Coarsened`](Block::Coarsened) it moves 3 n items, and writes and reads a carry for each
    /// run.
    Hierarchical(Block),
    /// One kernel; each tile waits for the inclusive prefix of the tile before it (Yan, Long and
    /// Zhang 2013, "StreamScan: Fast Scan Algorithms for GPUs without Global Barrier
    /// Synchronization").
    Chained(Block),
    /// One kernel; a tile looks back at the aggregates of the tiles before it, in fixed groups
    /// (Merrill and Garland 2016, "Single-pass Parallel Prefix Scan with Decoupled Look-back").
    LookBack(Block),
    /// One kernel; one block reads the aggregates of all tiles in order and publishes every tile's
    /// prefix, so each status word has one writer and one reader. Two blocks must be able to run at
    /// once.
    PrefixServer(Block),
}

/// The cost of a scan on the device, summed over all its blocks and launches. Computed by
/// [`Scan::work`](crate::Scan::work).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Applications of the operator, including those past the end of the input and those that join
    /// tiles.
    pub applications: u64,
    /// Block barriers, each counted once for each block that waits at it.
    pub barriers: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Bytes read from global memory: items, and aggregates in arrays, each once per kernel. Status
    /// words, one or a few of 8 bytes per tile, are not counted.
    pub read: u64,
    /// Bytes written to global memory, counted as for `read`.
    pub written: u64,
}

impl Strategy {
    /// The algorithm inside a tile.
    pub(crate) fn block(self) -> Block {
        match self {
            Strategy::Auto => Block::WarpShuffles,
            Strategy::Hierarchical(block)
            | Strategy::Chained(block)
            | Strategy::LookBack(block)
            | Strategy::PrefixServer(block) => block,
        }
    }
}
