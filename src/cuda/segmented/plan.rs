//! The plans: which kernel a call takes, its grid, and the memory that it needs.

use super::tuning;
use super::unit::{counted_bytes, headed_bytes, share_bytes};
use crate::cuda::contract::{BEFORE_STATUS, status_bytes};
use crate::cuda::plan::{look_back_words, server_words, tiles};
use crate::cuda::reduce::ReducePlan;
use crate::cuda::reduce::tuning::segmented_ranges;
use crate::cuda::scan::tuning::{TUNING, Tuning, fitted};
use crate::cuda::tuning::range_of;
use crate::{Element, Error, Operator};

const SCAN: &str = "segmented scan";
const RUNS: &str = "reduce of runs";

/// The plan of a scan or reduce by segment of n elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedPlan {
    pub(super) kernel: usize,
    pub(super) threads: u32,
    pub(super) blocks: u32,
    /// Tiles of a scan, and items of a tile.
    pub(super) tiles: u32,
    pub(super) tile: u32,
    /// Items of a tile of the kernels of short inputs.
    pub(super) short: usize,
    /// Bytes of an element.
    pub(super) element: usize,
    /// Of a reduce: slices of each warp, and the number of warps, the first ones, that have one
    /// more.
    pub(super) each: u64,
    pub(super) more: u32,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of scratch memory that may hold anything.
    pub(crate) scratch: usize,
}

impl SegmentedPlan {
    /// The plan of a scan for the kernels of `architecture`.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks.
    pub(crate) fn scan<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        let carry = headed_bytes(size_of::<Op::Carry>(), align_of::<Op::Carry>());
        let mut plan = SegmentedPlan::in_tiles(SCAN, TUNING, [size_of::<T>(), carry], n, architecture)?;
        let pieces = tuning::most_scanned_pieces(n, size_of::<T>());
        plan.words = plan.words.max(look_back_words(pieces, pieces, status_bytes(carry)));
        // The number of each tile's first offset.
        plan.scratch = if plan.tiles <= 1 || plan.kernel == 0 { 0 } else { plan.tiles as usize * size_of::<u64>() };
        Ok(plan)
    }

    /// The plan of a reduce of runs.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(crate) fn runs<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        let carry = const { counted_bytes(size_of::<Op::Carry>(), align_of::<Op::Carry>()) };
        SegmentedPlan::in_tiles(RUNS, tuning::runs(carry), [size_of::<T>(), carry], n, architecture)
    }

    /// The plan in tiles, for an element and a carry of these sizes.
    fn in_tiles(
        primitive: &'static str,
        tuning: &[Tuning],
        [element, carry]: [usize; 2],
        n: usize,
        architecture: u32,
    ) -> Result<SegmentedPlan, Error> {
        let ranges = fitted(tuning, architecture, element);
        let kernel = range_of(&ranges, |range| range.bytes, n.saturating_mul(element));
        let (shape, spread) = (ranges[kernel].shape, ranges[kernel].spread);
        let tile = shape.tile(element);
        let tiles = tiles(primitive, n, tile)?;
        let words = server_words(tiles, status_bytes(carry), spread);
        // One block more serves the prefixes.
        let blocks = if tiles <= 1 { tiles } else { tiles + 1 } as u32;
        let (threads, tiles, tile) = (shape.threads() as u32, tiles as u32, tile as u32);
        let short = tuning::short_tile(element);
        Ok(SegmentedPlan { kernel, threads, blocks, tiles, tile, short, element, each: 0, more: 0, words, scratch: 0 })
    }

    /// The plan of a scan with memory for up to `n` elements.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(crate) fn scan_up_to<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        SegmentedPlan::up_to::<T>(TUNING, n, architecture, SegmentedPlan::scan::<Op, T>)
    }

    /// The plan of a reduce of runs with memory for up to `n` elements.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(crate) fn runs_up_to<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        let carry = const { counted_bytes(size_of::<Op::Carry>(), align_of::<Op::Carry>()) };
        SegmentedPlan::up_to::<T>(tuning::runs(carry), n, architecture, SegmentedPlan::runs::<Op, T>)
    }

    /// A shorter input may take smaller tiles, and more of them.
    fn up_to<T>(
        tuning: &[Tuning],
        n: usize,
        architecture: u32,
        plan_of: fn(usize, u32) -> Result<SegmentedPlan, Error>,
    ) -> Result<SegmentedPlan, Error> {
        let mut plan = plan_of(n, architecture)?;
        for range in fitted(tuning, architecture, size_of::<T>()) {
            let shorter = plan_of(n.min(range.bytes / size_of::<T>()), architecture)?;
            plan.words = plan.words.max(shorter.words);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        Ok(plan)
    }

    /// The plan of a reduce for the kernels of `architecture`.
    pub(crate) fn reduce<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> SegmentedPlan {
        let sizes = [size_of::<T>(), size_of::<Op::Carry>()];
        SegmentedPlan::of_reduce::<Op, T>(ReducePlan::of_ranges(&segmented_ranges(architecture, sizes[0]), sizes, n), n)
    }

    /// The plan of a reduce with memory for up to `n` elements.
    pub(crate) fn reduce_up_to<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> SegmentedPlan {
        let mut plan = SegmentedPlan::reduce::<Op, T>(n, architecture);
        for range in segmented_ranges(architecture, size_of::<T>()) {
            let shorter = SegmentedPlan::reduce::<Op, T>(n.min(range.bytes / size_of::<T>()), architecture);
            plan.words = plan.words.max(shorter.words);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        plan
    }

    fn of_reduce<Op: Operator<T>, T: Element>(plan: ReducePlan, n: usize) -> SegmentedPlan {
        let ReducePlan { range, threads, blocks, each, more, .. } = plan;
        let (element, short) = (size_of::<T>(), tuning::short_tile(size_of::<T>()));
        let shares = if blocks == 1 { 0 } else { blocks as usize }.max(tuning::most_pieces(n, element));
        let words = if shares == 0 { 0 } else { BEFORE_STATUS };
        let scratch = shares * share_bytes(size_of::<Op::Carry>());
        SegmentedPlan { kernel: range, threads, blocks, tiles: 0, tile: 0, short, element, each, more, words, scratch }
    }
}
