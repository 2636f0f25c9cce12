//! Which algorithm a scan on the device takes.

use crate::Network;

/// How a tile is scanned inside a block of threads.
///
/// All but the default are the textbook's, in its shapes and with its faults: to be read (`cuda-templates/textbook/networks.cuh`,
/// `textbook/textbook.cuh`), counted and measured. They are right for every operator and element, and compiled at run time. A tile is 512
/// items of [`Plain`](Block::Plain) and [`Shifted`](Block::Shifted), and 512 runs of [`Coarsened`](Block::Coarsened).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Block {
    /// The library's own. Each lane scans a run of items, the lanes' totals are scanned by shuffles within the warp, the warps' totals by
    /// one warp (Kogge and Stone 1973, over 32 lanes); slices of the tile are copied through shared memory as vectors.
    #[default]
    WarpShuffles,
    /// One item a thread, scanned by a network. An exclusive scan takes the inclusive result before its own.
    Plain(Network),
    /// The same, but an exclusive scan is the inclusive one of items that were loaded from one place before. An inclusive scan is
    /// that of [`Plain`](Block::Plain).
    Shifted(Network),
    /// A run of items a thread, 36 bytes or a little more: each thread combines its run, the totals of all runs are scanned by
    /// a network, and from what comes before its run a thread goes over its items once more (after Hwu, Kirk and El Hajj, "Programming
    /// Massively Parallel Processors"). Items are loaded and stored by neighbouring threads, through shared memory.
    Coarsened(Network),
}

/// How the tiles of a scan are joined. All give the operands in order, and each gives the same bits in every run; two of
/// them may round a float sum differently.
///
/// It says something about data on the device only: on host data anything but [`Auto`](Strategy::Auto) is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// The fastest, by size and element.
    #[default]
    Auto,
    /// Three kernels: the aggregates of all tiles, their scan (by the same kernels, recursively), then every tile from
    /// its prefix. No block waits for another. The library's own blocks read the input twice: 3 n elements are moved. The textbook's
    /// do the first half of their network in the first kernel and the second half in the last one: each thread keeps a carry in scratch
    /// memory in between, so that nothing is combined twice. That is 4 n for items a thread, where carries are as large as elements,
    /// and 3 n and a carry written and read for each run of [`Coarsened`](Block::Coarsened). Compiled at run time.
    Hierarchical(Block),
    /// One kernel; each tile waits for the prefix that the tile before it hands on (Yan, Long and Zhang 2013, "StreamScan: Fast Scan
    /// Algorithms for GPUs without Global Barrier Synchronization"). 2 n elements are moved. Compiled at run time.
    Chained(Block),
    /// One kernel; a tile looks back at the aggregates of the tiles before it (Merrill and Garland 2016, "Single-pass
    /// Parallel Prefix Scan with Decoupled Look-back"), in fixed groups. 2 n elements are moved. Compiled at run time.
    LookBack(Block),
    /// One kernel; one block reads the aggregates of all tiles in order and serves every tile its prefix, so that each
    /// status word has one writer and one reader. 2 n elements are moved. Two blocks must be able to run at once.
    PrefixServer(Block),
}

/// What a scan on the device does, of all its blocks and launches together: [`Scan::work`](crate::Scan::work).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Applications of the operator, those past the end of the input and those of joining tiles among them.
    pub applications: u64,
    /// Barriers, each counted once for each block that waits at it.
    pub barriers: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Bytes read from global memory, of elements and of aggregates in arrays, each once a kernel. Status words, 8 bytes or a few of
    /// them a tile, are not counted.
    pub read: u64,
    /// Bytes written, likewise.
    pub written: u64,
}

impl Strategy {
    /// How its tiles are scanned.
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
