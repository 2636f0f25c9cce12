//! Which algorithm a scan on the device takes.

/// How a tile is scanned inside a block of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Block {
    /// Each lane scans a run of items, the lanes' totals are scanned by shuffles within the warp, the warps' totals by one
    /// warp (Kogge and Stone 1973, over 32 lanes).
    #[default]
    WarpShuffles,
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
    /// its prefix. Reads the input twice: 3 n elements are moved. No block waits for another. Compiled at run time.
    Hierarchical(Block),
    /// One kernel; a tile looks back at the aggregates of the tiles before it (Merrill and Garland 2016, "Single-pass
    /// Parallel Prefix Scan with Decoupled Look-back"), in fixed groups. 2 n elements are moved. Compiled at run time.
    LookBack(Block),
    /// One kernel; one block reads the aggregates of all tiles in order and serves every tile its prefix, so that each
    /// status word has one writer and one reader. 2 n elements are moved. Two blocks must be able to run at once.
    PrefixServer(Block),
}
