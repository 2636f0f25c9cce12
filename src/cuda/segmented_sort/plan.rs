//! The plan of a sort by segment: the kernels and the scratch memory. It calls no device.

use super::contract::{LONG_SEGMENT_BYTES, PARTITION_PLAN_BYTES};
use super::tuning::SegmentShape;
use super::{BY_BITS, HEADS, MEDIUM, PARTITION, SHORT, SMALL, SegmentedSortProgram};
use crate::cuda::kernels::Machine;
use crate::cuda::segmented::Cut;
use crate::cuda::sort::contract::BINS;
use crate::cuda::sort::unit::KeyKind;
use std::ops::Range;

/// The plan of a sort by segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentedSortPlan {
    pub(super) n: usize,
    /// Bytes of a key, and of its payload.
    pub(super) key: usize,
    value: usize,
    pub(super) is_signed: bool,
    pub(super) bits: Range<u32>,
    /// Whether some bits of a key are not compared.
    pub(super) by_bits: bool,
    /// The least and the greatest length that a segment may have.
    lengths: [usize; 2],
    /// The most items of a segment that is not long.
    pub(super) longest: usize,
    pub(super) multiprocessors: usize,
    pub(super) shape: SegmentShape,
}

impl SegmentedSortProgram {
    /// The plan of a sort of `n` items by the bits `bits`, in segments that are cut by `cut`.
    pub(crate) fn plan(&self, n: usize, bits: &Range<u32>, cut: &Cut, machine: &Machine) -> SegmentedSortPlan {
        let shape = self.shape(machine.architecture);
        // The least and the greatest length of a segment that is not empty.
        let lengths = match cut {
            // The number of items may cut a row.
            Cut::Rows { columns } => [if self.is_counted { 1 } else { *columns }, *columns],
            _ => [1, n],
        };
        let by_bits = *bits != (0..8 * self.unit.key as u32);
        // No bits are the lowest ones, so that no shift is as wide as a key.
        let bits = if bits.is_empty() { 0..0 } else { bits.clone() };
        let (key, value) = (self.unit.key, self.unit.payload.unwrap_or(0));
        let multiprocessors = machine.multiprocessors;
        let is_signed = self.unit.kind == KeyKind::Signed;
        let has_medium = machine.shared >= shape.medium.shared[1];
        let longest = if has_medium { shape.medium.most() } else { shape.short.most() };
        SegmentedSortPlan { n, key, value, is_signed, bits, by_bits, lengths, longest, multiprocessors, shape }
    }
}

/// Offsets of arrays in scratch memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    pub(super) plan: usize,
    pub(super) heads: usize,
    pub(super) chunks: usize,
    pub(super) listed: [usize; 2],
    pub(super) moved: [usize; 2],
    pub(super) segments: [usize; 2],
    pub(super) segment_of_tile: [usize; 2],
    pub(super) words: usize,
    pub(super) keys: [usize; 2],
    pub(super) values: usize,
    end: usize,
}

impl SegmentedSortPlan {
    /// The kernels of the sort.
    pub(crate) fn kernels(&self) -> Vec<usize> {
        let kernels = [
            (self.columns() == 0).then_some(HEADS),
            self.may_be_long().then_some(self.twin(PARTITION)),
            self.may_be_small().then_some(self.twin(SMALL)),
            self.may_be_short().then_some(self.twin(SHORT)),
            self.may_be_medium().then_some(self.twin(MEDIUM)),
        ];
        kernels.into_iter().flatten().collect()
    }

    pub(super) fn twin(&self, kernel: usize) -> usize {
        if self.by_bits { kernel + BY_BITS } else { kernel }
    }

    // The buckets of a long segment may have any length.
    pub(super) fn may_be_small(&self) -> bool {
        self.lengths[0] <= self.shape.small.most() || self.may_be_long()
    }
    pub(super) fn may_be_short(&self) -> bool {
        let [least, most] = self.lengths;
        most > self.shape.small.most() && (least <= self.shape.short.most() || self.may_be_long())
    }
    pub(super) fn may_be_medium(&self) -> bool {
        self.longest > self.shape.short.most() && self.lengths[1] > self.shape.short.most()
    }
    pub(super) fn may_be_long(&self) -> bool {
        self.lengths[1] > self.longest
    }

    /// The items of a row, if all segments are rows that are short or medium; else 0.
    pub(super) fn columns(&self) -> usize {
        if self.may_be_small() || self.may_be_long() { 0 } else { self.lengths[0] }
    }

    pub(super) fn chunks(&self) -> usize {
        self.n / self.shape.short.chunk + 1 // item n has a head
    }

    /// Bytes of scratch memory, which may hold anything. A plan for fewer items needs no more.
    /// `no_keys`: there is no output of keys.
    pub(crate) fn scratch(&self, no_keys: bool) -> usize {
        self.layout(no_keys).end
    }

    pub(super) fn layout(&self, no_keys: bool) -> Layout {
        let SegmentShape { short, sort, .. } = self.shape;
        let mut end = 0;
        let mut place = |bytes: usize| {
            let begin = end;
            end += bytes.next_multiple_of(256);
            begin
        };
        if self.columns() != 0 {
            return Layout::default();
        }
        let head_bytes = self.chunks() * short.chunk / 8;
        let mut layout = Layout {
            plan: place(PARTITION_PLAN_BYTES as usize),
            heads: place(head_bytes),
            chunks: place(self.chunks() * size_of::<u32>()),
            listed: [0; 2].map(|_| place(self.chunks() * size_of::<u32>())),
            ..Layout::default()
        };
        if self.may_be_long() {
            // Long segments are disjoint. The last tile of each may be partial.
            let segments = self.n / (self.longest + 1) + 1;
            let tiles = self.n / sort.step.tile() + segments;
            let mut twice = |bytes: usize| [place(bytes), place(bytes)];
            layout.moved = twice(head_bytes);
            layout.segments = twice(segments * LONG_SEGMENT_BYTES as usize);
            layout.segment_of_tile = twice(tiles * size_of::<u32>());
            layout.words = place(tiles * BINS * size_of::<u64>());
            let keys = self.n * self.key;
            layout.keys = [place(if no_keys { keys } else { 0 }), place(keys)];
            layout.values = place(self.n * self.value);
        }
        layout.end = end;
        layout
    }
}
