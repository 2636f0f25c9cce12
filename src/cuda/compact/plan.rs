//! How so many items will be compacted or partitioned: the kernels, the tiles and the scratch
//! memory.

use super::tuning::{
    COUNT_WARPS, CompactShape, compact_longest, compact_range_of, compact_shapes, meeting_range_of, meeting_shapes,
    move_shape,
};
use super::{CompactProgram, MEETING};
use crate::cuda::contract::{BEFORE_STATUS, status_bytes};
use crate::cuda::library::Kernels;
use crate::cuda::tuning::RANGES;
use crate::{Error, Workspace};

/// How so many items will be compacted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactPlan {
    pub(super) range: usize,
    pub(super) shape: CompactShape,
    pub(super) tiles: usize,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
}

/// How so many items will be partitioned into one buffer, if they take more than one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TogetherPlan {
    /// The range, the shape and the tiles of a cooperative launch, if all tiles can run at once.
    pub(super) meeting: Option<(usize, CompactShape, usize)>,
    /// Blocks that count.
    pub(super) counts: usize,
    /// The shape and the tiles of the second launch, which moves the items.
    pub(super) shape: CompactShape,
    pub(super) tiles: usize,
    /// Bytes of status words, as of `CompactPlan`, and of scratch memory.
    pub(crate) words: usize,
    pub(crate) scratch: usize,
}

impl CompactPlan {
    /// Whether one block takes all.
    pub(crate) fn is_one_block(&self) -> bool {
        self.tiles == 1
    }
}

impl CompactProgram {
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks.
    pub(crate) fn plan(&self, primitive: &'static str, n: usize) -> Result<CompactPlan, Error> {
        let (sizes, ways) = (self.unit.sizes(), self.unit.ways);
        let range = compact_range_of(&sizes, ways, n);
        let shape = compact_shapes(&sizes, ways)[range];
        let tiles = tiles(primitive, n, shape)?;
        let status = status_bytes(size_of::<u64>() * self.counted());
        let words = if tiles <= 1 { 0 } else { BEFORE_STATUS + tiles * (status + status.max(shape.spread)) };
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
        let kernels = self.load(primitive, device)?;
        let mut words = self.words_up_to(primitive, n)?;
        let mut scratch = 0;
        if self.unit.ways > 1 {
            let (together, more) = self.together_up_to(primitive, self.at_once(kernels)?, n)?;
            (words, scratch) = (words.max(together), more);
        }
        workspace.reserve(primitive, words, scratch).map(|_| ())
    }

    /// How many tiles of a cooperative launch run at once, by the range of lengths.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn at_once(&self, kernels: &Kernels) -> Result<[usize; RANGES], Error> {
        let mut at_once = [0; RANGES];
        for (range, shape) in meeting_shapes(&self.unit.sizes(), self.unit.ways).into_iter().enumerate() {
            at_once[range] = kernels.blocks_at_once(MEETING + range, 32 * shape.warps)?;
        }
        Ok(at_once)
    }

    /// How `n` items are partitioned into one buffer.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub(crate) fn together(
        &self,
        primitive: &'static str,
        at_once: [usize; RANGES],
        n: usize,
    ) -> Result<TogetherPlan, Error> {
        let (sizes, ways) = (self.unit.sizes(), self.unit.ways);
        let range = meeting_range_of(&sizes, n);
        let shape = meeting_shapes(&sizes, ways)[range];
        let meeting = Some((range, shape, n.div_ceil(shape.tile()))).filter(|&(_, _, tiles)| tiles <= at_once[range]);
        let shape = move_shape(&sizes, ways);
        let tiles = tiles(primitive, n, shape)?;
        let counts = tiles.div_ceil(COUNT_WARPS * self.unit.count_each());
        // An aggregate and a prefix of each block that counts.
        let counting = BEFORE_STATUS + counts * 2 * status_bytes(size_of::<u64>() * self.counted());
        let words = meeting.map_or(0, |(_, _, tiles)| self.meeting_words(tiles)).max(counting);
        Ok(TogetherPlan { meeting, counts, shape, tiles, words, scratch: tiles * 8 * self.counted() })
    }

    /// Bytes of status words and of scratch memory that are enough for `n` items or fewer to one
    /// buffer.
    ///
    /// # Errors
    /// Those of `together`.
    fn together_up_to(
        &self,
        primitive: &'static str,
        at_once: [usize; RANGES],
        n: usize,
    ) -> Result<(usize, usize), Error> {
        let TogetherPlan { mut words, scratch, .. } = self.together(primitive, at_once, n)?;
        // A shorter input may be of more tiles that all run at once.
        for (shape, at_once) in meeting_shapes(&self.unit.sizes(), self.unit.ways).into_iter().zip(at_once) {
            words = words.max(self.meeting_words(at_once.min(n.div_ceil(shape.tile()))));
        }
        Ok((words, scratch))
    }

    /// Counts of a tile: the last part of several needs none.
    fn counted(&self) -> usize {
        if self.unit.ways == 3 { 2 } else { 1 }
    }

    /// Bytes of status words of so many tiles of a cooperative launch.
    fn meeting_words(&self, tiles: usize) -> usize {
        16 + tiles * 8 * self.counted()
    }

    /// Bytes of status words that are enough for `n` items or fewer.
    ///
    /// # Errors
    /// Those of `plan`.
    pub(crate) fn words_up_to(&self, primitive: &'static str, n: usize) -> Result<usize, Error> {
        // A shorter input may take smaller tiles, and more of them.
        let (sizes, mut most) = (self.unit.sizes(), 0);
        for range in 0..RANGES {
            most = most.max(self.plan(primitive, n.min(compact_longest(&sizes, self.unit.ways, range)))?.words);
        }
        Ok(most)
    }
}

/// # Errors
/// [`Error::TooLong`] for more tiles than a grid has blocks.
fn tiles(primitive: &'static str, n: usize, shape: CompactShape) -> Result<usize, Error> {
    const MOST_BLOCKS: usize = i32::MAX as usize;
    let tiles = n.div_ceil(shape.tile());
    if tiles >= MOST_BLOCKS {
        return Err(Error::TooLong { primitive, n, most: (MOST_BLOCKS - 1) * shape.tile() });
    }
    Ok(tiles)
}

#[cfg(test)]
mod tests {
    use super::super::{Beside, KeepBits, KeepEither, KeepFlags, KeepItems, Nothing, Staged};
    use super::*;
    use crate::{Above, Finite};

    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        let program = CompactProgram::new::<KeepItems<u32, Above<u32>>, Staged, Nothing, 2>();
        let lengths = [1, 100, 1 << 17, 2 << 20, 100 << 20].into_iter().flat_map(|n| [n, n + 1]);
        for n in lengths.clone() {
            let least = program.words_up_to("test", n).unwrap();
            for fewer in lengths.clone().filter(|&fewer| fewer <= n) {
                assert!(program.plan("test", fewer).unwrap().words <= least, "{fewer} of {n}");
            }
        }
    }

    /// On devices of any size, whatever number of tiles a multiprocessor holds.
    #[test]
    fn memory_for_more_is_enough_for_fewer_to_one_buffer() {
        let programs = [
            CompactProgram::new::<KeepItems<u8, Above<u8>>, Staged, Nothing, 2>(),
            CompactProgram::new::<KeepItems<u32, Above<u32>>, Staged, Nothing, 2>(),
            CompactProgram::new::<KeepFlags, Beside<[u32; 3]>, Nothing, 2>(),
            CompactProgram::new::<KeepBits, Beside<u128>, Nothing, 2>(),
            CompactProgram::new::<KeepEither<f64, Above<f64>, Finite>, Staged, Nothing, 3>(),
        ];
        for program in programs {
            let shapes = meeting_shapes(&program.unit.sizes(), program.ways());
            for (multiprocessors, held) in [(1, [1, 1, 1]), (40, [4, 2, 1]), (132, [6, 5, 3]), (188, [5, 6, 8])] {
                let at_once = held.map(|held| held * multiprocessors);
                // Where ranges end, and what the device holds at once.
                let size = program.unit.sizes().into_iter().max().unwrap();
                let ends = [1, 1 << 20, 4 << 20, 16 << 20, 100 << 20].map(|bytes: usize| bytes.div_ceil(size));
                let full = [0, 1, 2].map(|range| at_once[range] * shapes[range].tile());
                let around = |n: usize| [n - 1, n, n + 1, n + shapes[0].tile()];
                let lengths: Vec<usize> = ends.into_iter().chain(full).flat_map(around).filter(|&n| n > 0).collect();
                for &n in &lengths {
                    let (words, scratch) = program.together_up_to("test", at_once, n).unwrap();
                    for &fewer in lengths.iter().filter(|&&fewer| fewer <= n) {
                        let plan = program.together("test", at_once, fewer).unwrap();
                        let what = (program.type_name, at_once, fewer, n);
                        assert!(plan.words <= words && plan.scratch <= scratch, "{what:?}: {plan:?}");
                        assert!(
                            plan.meeting.is_none_or(|(range, _, tiles)| tiles <= at_once[range]),
                            "{what:?}: {plan:?}"
                        );
                    }
                }
            }
        }
    }
}
