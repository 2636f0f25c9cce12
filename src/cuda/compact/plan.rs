//! The plan of a compaction or a partition: the kernels, the tiles and the scratch memory.

use super::tuning::{
    COUNT_WARPS, CompactShape, compact_longest, compact_range_of, compact_shapes, cooperative_range_of,
    cooperative_shapes, move_shape,
};
use super::{COOPERATIVE, CompactProgram};
use crate::cuda::contract::{BEFORE_STATUS, status_bytes};
use crate::cuda::kernels::Kernels;
use crate::cuda::plan::{server_words, tiles};
use crate::cuda::tuning::RANGES;
use crate::{Error, Workspace};

/// The plan of a compaction or a partition by one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactPlan {
    pub(super) range: usize,
    pub(super) shape: CompactShape,
    pub(super) tiles: usize,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
}

/// The plan of a partition into one buffer that takes more than one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneBufferPlan {
    /// The range, the shape and the tiles of a cooperative launch, if all tiles can run at once.
    pub(super) cooperative: Option<(usize, CompactShape, usize)>,
    /// Blocks of the first launch, which counts.
    pub(super) counts: usize,
    /// The shape and the tiles of the second launch, which moves the items.
    pub(super) shape: CompactShape,
    pub(super) tiles: usize,
    /// Bytes of status words, as in `CompactPlan`, and of scratch memory.
    pub(crate) words: usize,
    pub(crate) scratch: usize,
}

impl CompactPlan {
    /// Whether one block takes all items.
    pub(crate) fn is_one_block(&self) -> bool {
        self.tiles == 1
    }
}

impl CompactProgram {
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks.
    pub(crate) fn plan(&self, primitive: &'static str, n: usize) -> Result<CompactPlan, Error> {
        let (sizes, parts) = (self.unit.sizes(), self.unit.parts);
        let range = compact_range_of(&sizes, parts, n);
        let shape = compact_shapes(&sizes, parts)[range];
        let tiles = tiles(primitive, n, shape.tile())?;
        let status = status_bytes(size_of::<u64>() * self.unit.counted());
        let words = server_words(tiles, status, shape.spread);
        Ok(CompactPlan { range, shape, tiles, words })
    }

    /// Loads the kernels for the workspace's device and grows it for `n` items or fewer.
    ///
    /// # Errors
    /// Those of `load`, of `plan` and of the driver.
    pub(crate) fn prepare(
        &self,
        primitive: &'static str,
        n: usize,
        workspace: &mut Workspace,
        device: usize,
    ) -> Result<(), Error> {
        let kernels = self.load(primitive, &device)?;
        let mut words = self.words_up_to(primitive, n)?;
        let mut scratch = 0;
        if self.unit.parts > 1 {
            let (one_buffer, more) = self.one_buffer_up_to(primitive, self.resident_tiles(kernels)?, n)?;
            (words, scratch) = (words.max(one_buffer), more);
        }
        workspace.reserve(primitive, words, scratch).map(|_| ())
    }

    /// The number of tiles of a cooperative launch that run at once, for each range of lengths.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn resident_tiles(&self, kernels: &Kernels) -> Result<[usize; RANGES], Error> {
        let mut resident = [0; RANGES];
        for (range, shape) in cooperative_shapes(&self.unit.sizes(), self.unit.parts).into_iter().enumerate() {
            resident[range] = kernels.blocks_at_once(COOPERATIVE + range, 32 * shape.warps)?;
        }
        Ok(resident)
    }

    /// The plan of a partition of `n` items into one buffer.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub(crate) fn one_buffer_plan(
        &self,
        primitive: &'static str,
        resident: [usize; RANGES],
        n: usize,
    ) -> Result<OneBufferPlan, Error> {
        let (sizes, parts) = (self.unit.sizes(), self.unit.parts);
        let range = cooperative_range_of(&sizes, n);
        let shape = cooperative_shapes(&sizes, parts)[range];
        let cooperative =
            Some((range, shape, n.div_ceil(shape.tile()))).filter(|&(_, _, tiles)| tiles <= resident[range]);
        let shape = move_shape(&sizes, parts);
        let tiles = tiles(primitive, n, shape.tile())?;
        let counts = tiles.div_ceil(COUNT_WARPS * self.unit.count_each());
        // Each block that counts has an aggregate and a prefix.
        let counting = BEFORE_STATUS + counts * 2 * status_bytes(size_of::<u64>() * self.unit.counted());
        let words = cooperative.map_or(0, |(_, _, tiles)| self.cooperative_words(tiles)).max(counting);
        Ok(OneBufferPlan {
            cooperative,
            counts,
            shape,
            tiles,
            words,
            scratch: tiles * size_of::<u64>() * self.unit.counted(),
        })
    }

    /// Bytes of status words and of scratch memory for a partition of up to `n` items into one
    /// buffer.
    ///
    /// # Errors
    /// Those of `one_buffer_plan`.
    fn one_buffer_up_to(
        &self,
        primitive: &'static str,
        resident: [usize; RANGES],
        n: usize,
    ) -> Result<(usize, usize), Error> {
        let OneBufferPlan { mut words, scratch, .. } = self.one_buffer_plan(primitive, resident, n)?;
        // A shorter input may have more tiles that all run at once.
        for (shape, resident) in cooperative_shapes(&self.unit.sizes(), self.unit.parts).into_iter().zip(resident) {
            words = words.max(self.cooperative_words(resident.min(n.div_ceil(shape.tile()))));
        }
        Ok((words, scratch))
    }

    /// Bytes of status words for `tiles` tiles of a cooperative launch.
    fn cooperative_words(&self, tiles: usize) -> usize {
        BEFORE_STATUS + tiles * status_bytes(size_of::<u32>() * self.unit.counted())
    }

    /// Bytes of status words for up to `n` items.
    ///
    /// # Errors
    /// Those of `plan`.
    pub(crate) fn words_up_to(&self, primitive: &'static str, n: usize) -> Result<usize, Error> {
        // A shorter input may take smaller tiles, and more of them.
        let (sizes, mut most) = (self.unit.sizes(), 0);
        for range in 0..RANGES {
            most = most.max(self.plan(primitive, n.min(compact_longest(&sizes, self.unit.parts, range)))?.words);
        }
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BitsKind, FlagsKind, NoColumn, Payload, PredicateKind, Staged, TwoPredicatesKind};
    use super::*;
    use crate::{Above, Finite};

    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        let program = CompactProgram::new::<PredicateKind<u32, Above<u32>>, Staged, NoColumn, 2>();
        let lengths = [1, 100, 1 << 17, 2 << 20, 100 << 20].into_iter().flat_map(|n| [n, n + 1]);
        for n in lengths.clone() {
            let least = program.words_up_to("test", n).unwrap();
            for fewer in lengths.clone().filter(|&fewer| fewer <= n) {
                assert!(program.plan("test", fewer).unwrap().words <= least, "{fewer} of {n}");
            }
        }
    }

    /// The bounds hold on devices of any size, for any number of tiles that a multiprocessor holds.
    #[test]
    fn memory_for_more_is_enough_for_fewer_to_one_buffer() {
        let programs = [
            CompactProgram::new::<PredicateKind<u8, Above<u8>>, Staged, NoColumn, 2>(),
            CompactProgram::new::<PredicateKind<u32, Above<u32>>, Staged, NoColumn, 2>(),
            CompactProgram::new::<FlagsKind, Payload<[u32; 3]>, NoColumn, 2>(),
            CompactProgram::new::<BitsKind, Payload<u128>, NoColumn, 2>(),
            CompactProgram::new::<TwoPredicatesKind<f64, Above<f64>, Finite>, Staged, NoColumn, 3>(),
        ];
        for program in programs {
            let shapes = cooperative_shapes(&program.unit.sizes(), program.parts());
            for (multiprocessors, held) in [(1, [1, 1, 1]), (40, [4, 2, 1]), (132, [6, 5, 3]), (188, [5, 6, 8])] {
                let resident = held.map(|held| held * multiprocessors);
                // The ends of ranges, and the number of items that the device holds at once.
                let size = program.unit.sizes().into_iter().max().unwrap();
                let ends = [1, 1 << 20, 4 << 20, 16 << 20, 100 << 20].map(|bytes: usize| bytes.div_ceil(size));
                let full = [0, 1, 2].map(|range| resident[range] * shapes[range].tile());
                let around = |n: usize| [n - 1, n, n + 1, n + shapes[0].tile()];
                let lengths: Vec<usize> = ends.into_iter().chain(full).flat_map(around).filter(|&n| n > 0).collect();
                for &n in &lengths {
                    let (words, scratch) = program.one_buffer_up_to("test", resident, n).unwrap();
                    for &fewer in lengths.iter().filter(|&&fewer| fewer <= n) {
                        let plan = program.one_buffer_plan("test", resident, fewer).unwrap();
                        let what = (program.type_name, resident, fewer, n);
                        assert!(plan.words <= words && plan.scratch <= scratch, "{what:?}: {plan:?}");
                        assert!(
                            plan.cooperative.is_none_or(|(range, _, tiles)| tiles <= resident[range]),
                            "{what:?}: {plan:?}"
                        );
                    }
                }
            }
        }
    }
}
