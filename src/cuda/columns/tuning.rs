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
            Work::Scan => 64,
            Work::Reduce => 256,
        }
    }
}

/// The widest row that is scanned as one element, in bytes.
pub(crate) const ROW_BYTES: usize = 32;
/// The most vectors of a group (`core/stage.cuh`) of such rows, which a lane holds in registers.
pub(crate) const GROUP_VECTORS: usize = 7;

/// Threads of a block.
pub(crate) const THREADS: usize = 128;
/// Bytes of a row of a panel: those that a warp reads at a time, if items have 4 bytes.
const PANEL_BYTES: usize = 128;
/// However wide an element is, a panel may have so many columns. Panels of one matrix are about equally wide, so they may
/// have as few as half.
const LEAST_PANEL: usize = 16;
/// Bytes of a thread's run of rows.
const RUN_BYTES: usize = 204;

/// Columns of a panel for elements of `size` bytes, at most.
pub(crate) fn widest(size: usize) -> usize {
    (PANEL_BYTES / size).max(LEAST_PANEL)
}

/// Rows of a thread for elements of `size` bytes: an odd number.
pub(crate) fn run(size: usize) -> usize {
    let run = (RUN_BYTES / size).max(3);
    run - usize::from(run.is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::reduce::LARGEST_ELEMENT;

    /// The run is odd, so that the runs of a warp begin in different banks, and a tile fits.
    #[test]
    fn runs_are_odd() {
        for size in 1..=LARGEST_ELEMENT {
            assert!(run(size) % 2 == 1 && THREADS * run(size) * size <= 32 << 10, "{size}: {}", run(size));
            assert!(widest(size) <= THREADS, "{size}");
        }
    }
}
