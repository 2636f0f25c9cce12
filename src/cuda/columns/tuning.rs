//! The shapes of the kernels of scan and reduce by column.

/// What is made of each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Scan,
    Reduce,
}

impl Work {
    /// The primitive's name in messages.
    pub(crate) fn primitive(self) -> &'static str {
        match self {
            Work::Scan => "scan",
            Work::Reduce => "reduce",
        }
    }

    /// Tiles of the look-back groups of all panels that are side by side.
    ///
    /// Groups follow one another in a chain. While the chain goes on by one group, the tiles of a
    /// group are read in each panel, so narrow matrices need longer groups. A scan's tiles read the
    /// aggregates of their group, which is a reason for shorter ones.
    pub(crate) fn tiles_of_groups(self) -> usize {
        match self {
            Work::Scan => 48,
            Work::Reduce => 256,
        }
    }
}

/// The widest row that is scanned as one element, in bytes.
pub(crate) const ROW_BYTES: usize = 28;
/// The most vectors of a group (`core/stage.cuh`) of such rows, which a lane holds in registers.
pub(crate) const GROUP_VECTORS: usize = 7;

/// Threads of a block.
pub(crate) const THREADS: usize = 192;
/// Bytes of shared memory of a block: five blocks fit the 228 KiB of compute capability 9.0, two fit 100 KiB, one fits the
/// 64 KiB of 7.5.
const BLOCK_BYTES: usize = 45_632;
/// Bytes of a row of a panel: those that a warp reads at a time, if items have 4 bytes.
const PANEL_BYTES: usize = 128;
/// However wide an element is, a panel may have so many columns.
const LEAST_PANEL: usize = 16;

/// Panels that keep a large device busy.
pub(crate) const MANY_PANELS: usize = 1024;

/// The least number of items of `size` bytes that are whole vectors of 16 bytes.
pub(crate) fn items_of_vectors(size: usize) -> usize {
    16 >> size.trailing_zeros().min(4)
}

/// Columns of a panel for elements of `size` bytes, at most, if it has several tiles. A column has at least two runs.
pub(crate) fn widest(size: usize) -> usize {
    let columns = (PANEL_BYTES / size).clamp(LEAST_PANEL, THREADS / 2);
    columns - columns % items_of_vectors(size)
}

/// Rows of a thread for elements and carries of these sizes: an odd number. Besides them the block has two carries a
/// thread, one a column of a panel, and up to 32 bytes for its ticket. If the carries leave no room there is one row,
/// and the compiler reports too much shared memory.
pub(crate) fn run([size, carry]: [usize; 2]) -> usize {
    let others = 32 + (2 * THREADS + widest(size)) * carry;
    let run = BLOCK_BYTES.saturating_sub(others) / (THREADS * size);
    (run.max(1) - 1) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::reduce::LARGEST_ELEMENT;

    /// The run is odd, so that the runs of a warp begin in different banks, and a tile fits.
    #[test]
    fn runs_are_odd() {
        for size in 1..=LARGEST_ELEMENT {
            assert!(widest(size) >= 16 && (widest(size) * size).is_multiple_of(16), "{size}");
            for carry in 1..=LARGEST_ELEMENT {
                let run = run([size, carry]);
                assert!(run % 2 == 1 && run >= 3, "{size}, {carry}: {run}");
            }
            assert_eq!(run([size, 200]), 1, "{size}: the carries leave no room");
        }
    }
}
