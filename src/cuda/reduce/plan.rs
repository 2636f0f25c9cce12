//! The plan of a reduction: the kernel, the slices of its warps and the scratch memory. It calls no device.

use super::LARGEST_ELEMENT;
use super::tuning::{REDUCE_RANGES, ReduceRange, reduce_ranges};
use crate::cuda::contract::BEFORE_STATUS;
use crate::cuda::tuning::range_of;

/// The plan of a reduction of n elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReducePlan {
    pub(crate) range: usize,
    pub(crate) threads: u32,
    pub(crate) blocks: u32,
    /// Slices of each warp, and the number of warps, the first ones, that have one more.
    pub(crate) each: u64,
    pub(crate) more: u32,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of scratch memory for the blocks' aggregates.
    pub(crate) aggregates: usize,
    /// Bytes of scratch memory for the aggregates, and behind them for the result.
    pub(crate) scratch: usize,
}

impl ReducePlan {
    /// The plan for an element and a carry of these sizes, and the kernels of `architecture`.
    pub(crate) fn of_sizes(sizes: [usize; 2], n: usize, architecture: u32) -> ReducePlan {
        ReducePlan::of_ranges(&reduce_ranges(architecture, sizes[0]), sizes, n)
    }

    /// The plan for kernels of these ranges.
    pub(crate) fn of_ranges(
        ranges: &[ReduceRange; REDUCE_RANGES],
        [element, carry]: [usize; 2],
        n: usize,
    ) -> ReducePlan {
        let range = range_of(ranges, |range| range.bytes, n.saturating_mul(element));
        let shape = ranges[range].shape;
        let slices = n.div_ceil(shape.tile(element) / shape.warps);
        let blocks = ranges[range].blocks(slices);
        let warps = blocks * shape.warps;
        let (words, aggregates) = match blocks {
            1 => (0, 0),
            _ => (BEFORE_STATUS, (blocks * carry).next_multiple_of(LARGEST_ELEMENT)),
        };
        ReducePlan {
            range,
            threads: shape.threads() as u32,
            blocks: blocks as u32,
            each: (slices / warps) as u64,
            more: (slices % warps) as u32,
            words,
            aggregates,
            scratch: aggregates + LARGEST_ELEMENT,
        }
    }

    /// The same with memory for up to `n` elements: a shorter input may take more blocks.
    pub(crate) fn up_to_of_sizes(sizes: [usize; 2], n: usize, architecture: u32) -> ReducePlan {
        let mut plan = ReducePlan::of_sizes(sizes, n, architecture);
        for range in reduce_ranges(architecture, sizes[0]) {
            let shorter = ReducePlan::of_sizes(sizes, n.min(range.bytes / sizes[0]), architecture);
            plan.words = plan.words.max(shorter.words);
            plan.aggregates = plan.aggregates.max(shorter.aggregates);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReduceProgram;
    use super::*;
    use crate::Sum;

    /// The bounds hold across the end of the first range too, where larger slices need fewer
    /// blocks.
    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        let lengths = [0, 1, 1 << 16, 1 << 21, (1 << 21) + 1, 1 << 23, 1 << 28];
        for n in lengths {
            let most = ReduceProgram::value::<Sum, f32>().plan_up_to(n, 90);
            for fewer in lengths.into_iter().filter(|&fewer| fewer <= n) {
                let plan = ReduceProgram::value::<Sum, f32>().plan(fewer, 90);
                assert!(plan.words <= most.words && plan.scratch <= most.scratch, "{fewer} of {n}");
            }
        }
    }

    /// The warps' slices are all slices.
    #[test]
    fn slices_are_shared() {
        for n in [0, 1, 3071, 3072, 6144, 6145, 1 << 20, 1 << 21, (1 << 21) + 1, (1 << 28) + 1, 1 << 40] {
            let plan = ReduceProgram::value::<Sum, f32>().plan(n, 90);
            let warps = u64::from(plan.blocks) * u64::from(plan.threads) / 32;
            let slice = reduce_ranges(90, 4)[plan.range].shape.vectors * 128;
            assert_eq!(plan.each * warps + u64::from(plan.more), n.div_ceil(slice) as u64, "{n}");
        }
    }
}
