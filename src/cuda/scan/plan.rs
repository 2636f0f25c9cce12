//! The plan of a scan: the kernel, the tiles and the scratch memory. It calls no device.

use super::contract::SHIFTED;
use super::tuning::{
    LOOK_BACK_GROUP, Range, Shape, TEXTBOOK_SPREAD, TEXTBOOK_WIDTH, TUNING, architectures, carry_shape, fitted,
};
use super::{Join, SCAN_ELEMENTS, ScanProgram};
use crate::cuda::contract::{BEFORE_STATUS, status_bytes};
use crate::cuda::plan::{look_back_words, server_words, tiles};
use crate::cuda::tuning::{RANGES, range_of};
use crate::{Block, Element, Error, Operator, Strategy};

/// The plan of a scan of n elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(super) program: ScanProgram,
    /// The index of the kernel; for a hierarchical scan that of its last kernel.
    pub(super) kernel: usize,
    pub(super) threads: u32,
    pub(super) tiles: usize,
    /// `SHIFTED` or 0.
    pub(super) flags: u32,
    /// Carries of a tile in the scan of aggregates.
    pub(super) tile_of_carries: usize,
    pub(super) threads_of_carries: u32,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of scratch memory that may hold anything.
    pub(crate) scratch: usize,
}

impl Plan {
    /// The plan for the kernels of `architecture` (see [`Kernels::machine`]).
    ///
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks, [`Error::ElementSize`] for
    /// elements that no kernel takes.
    pub(crate) fn new<Op: Operator<T>, T: Element>(
        strategy: Strategy,
        n: usize,
        architecture: u32,
    ) -> Result<Plan, Error> {
        Plan::check::<Op, T>(strategy)?;
        Plan::of_sizes([size_of::<T>(), size_of::<Op::Carry>()], strategy, n, architecture)
    }

    /// The plan for an element and a carry of these sizes, which kernels take.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub(crate) fn of_sizes(sizes: [usize; 2], strategy: Strategy, n: usize, architecture: u32) -> Result<Plan, Error> {
        let [element, carry] = sizes;
        let ranges = fitted(TUNING, architecture, element);
        let range = range_of(&ranges, |range| range.bytes, n.saturating_mul(element));
        let carries = carry_shape(TUNING, architecture, element, carry);
        Plan::in_range(sizes, strategy, n, &ranges, range, carries)
    }

    /// The plan with memory for up to `n` elements: a shorter input may take smaller tiles, and
    /// more of them.
    ///
    /// # Errors
    /// Those of `new`.
    pub(crate) fn up_to<Op: Operator<T>, T: Element>(
        strategy: Strategy,
        n: usize,
        architecture: u32,
    ) -> Result<Plan, Error> {
        Plan::check::<Op, T>(strategy)?;
        Plan::up_to_of_sizes([size_of::<T>(), size_of::<Op::Carry>()], strategy, n, architecture)
    }

    /// The same for an element and a carry of these sizes, which kernels take.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub(crate) fn up_to_of_sizes(
        sizes: [usize; 2],
        strategy: Strategy,
        n: usize,
        architecture: u32,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::of_sizes(sizes, strategy, n, architecture)?;
        for range in fitted(TUNING, architecture, sizes[0]) {
            let shorter = Plan::of_sizes(sizes, strategy, n.min(range.bytes / sizes[0]), architecture)?;
            plan.words = plan.words.max(shorter.words);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        Ok(plan)
    }

    /// Upper bounds of words and scratch memory for up to `n` elements on any architecture.
    ///
    /// # Errors
    /// Those of `new`.
    pub(crate) fn bytes_anywhere<Op: Operator<T>, T: Element>(strategy: Strategy, n: usize) -> Result<usize, Error> {
        let mut most = 0;
        for architecture in architectures(TUNING) {
            most = most.max(Plan::up_to::<Op, T>(strategy, n, architecture)?.bytes());
        }
        Ok(most)
    }

    /// Bytes of words and scratch memory; one of them is zero.
    pub(crate) fn bytes(&self) -> usize {
        self.words + self.scratch
    }

    /// Whether kernels take the element.
    ///
    /// # Errors
    /// [`Error::ElementSize`].
    pub(crate) fn check<Op: Operator<T>, T: Element>(strategy: Strategy) -> Result<(), Error> {
        let (element, carry) = (size_of::<T>(), size_of::<Op::Carry>());
        let program = ScanProgram::of(strategy);
        let is_textbook = program.textbook.is_some();
        let both = program.join == Join::Hierarchical || is_textbook;
        let staged = if both { [element, carry] } else { [element; 2] };
        let fits = |size: usize| (1..=32).contains(&size) && (!is_textbook || 16 % size == 0);
        match staged.into_iter().find(|&size| !fits(size)) {
            Some(size) => Err(Error::ElementSize { primitive: "scan", size }),
            None => Ok(()),
        }
    }

    fn in_range(
        [element, carry]: [usize; 2],
        strategy: Strategy,
        n: usize,
        ranges: &[Range; RANGES],
        range: usize,
        carries: Shape,
    ) -> Result<Plan, Error> {
        let program = ScanProgram::of(strategy);
        let (kernel, threads, tile, [threads_of_carries, tile_of_carries], spread) = match program.textbook {
            Some(textbook) => {
                let kernel = if program.join == Join::Hierarchical { SCAN_ELEMENTS } else { 0 };
                let carries = [TEXTBOOK_WIDTH, textbook.tile(carry)];
                (kernel, TEXTBOOK_WIDTH, textbook.tile(element), carries, TEXTBOOK_SPREAD)
            }
            None => {
                let (kernel, shape) = match program.join {
                    Join::LookBack | Join::Chained => (0, ranges[RANGES - 1].shape),
                    Join::Hierarchical => (SCAN_ELEMENTS, ranges[0].shape),
                    Join::PrefixServer => (range, ranges[range].shape),
                };
                let carries = [carries.threads(), carries.tile(carry)];
                (kernel, shape.threads(), shape.tile(element), carries, ranges[range].spread)
            }
        };
        let tiles = tiles("scan", n, tile)?;
        let status = status_bytes(carry);
        let (words, scratch) = match program.join {
            _ if tiles <= 1 => (0, 0),
            Join::PrefixServer => (server_words(tiles, status, spread), 0),
            Join::LookBack => (look_back_words(tiles, LOOK_BACK_GROUP, status), 0),
            Join::Chained => (BEFORE_STATUS + tiles * status, 0),
            Join::Hierarchical => {
                let bytes = |level: usize| level_bytes(level, carry) + level_bytes(program.kept(level), carry);
                (0, levels(tiles, tile_of_carries).into_iter().map(bytes).sum())
            }
        };
        let shifted = matches!(strategy.block(), Block::Shifted(_));
        let flags = if shifted { SHIFTED } else { 0 };
        let (threads, threads_of_carries) = (threads as u32, threads_of_carries as u32);
        Ok(Plan { program, kernel, threads, tiles, flags, tile_of_carries, threads_of_carries, words, scratch })
    }
}

/// The lengths of the arrays of aggregates in a hierarchical scan. The first array has the
/// aggregates of `tiles` tiles, the second the aggregates of the first array's tiles, and so on
/// until one block can scan the rest. No array has the last tile's aggregate, since no tile follows
/// it.
pub(super) fn levels(tiles: usize, tile_of_carries: usize) -> Vec<usize> {
    let mut levels = Vec::new();
    let mut above = tiles;
    while above > 1 {
        levels.push(above - 1);
        above = (above - 1).div_ceil(tile_of_carries);
    }
    levels
}

/// Bytes of an array of aggregates, rounded up so that the next array is aligned.
pub(super) fn level_bytes(length: usize, carry: usize) -> usize {
    (length * carry).next_multiple_of(16)
}
