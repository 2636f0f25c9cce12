//! The text of a unit of offsets.

use super::tuning::{OffsetsRange, offsets_ranges};
use crate::cuda::contract::asserted_status;
use crate::cuda::scan::tuning::TUNING;
use crate::cuda::scan::unit::shapes_by_architecture;
use crate::cuda::unit::UnitKey;

/// The text's parts: the bytes of a size and of an offset, unsigned integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetsUnit {
    pub(crate) size: usize,
    pub(crate) offset: usize,
}

impl OffsetsUnit {
    pub(crate) const fn key(&self) -> UnitKey {
        UnitKey::new("offsets").number(self.size).number(self.offset)
    }

    /// The text of the unit.
    pub(crate) fn source(&self) -> String {
        let &OffsetsUnit { size, offset } = self;
        let shapes = if size < offset {
            let ranges = offsets_ranges(size, offset, 0); // Every architecture has the same ranges.
            let kernel = |(k, range): (usize, &OffsetsRange)| {
                format!(" KERNEL({k}, {}, {}, {})", range.warps, range.each, range.spread)
            };
            format!("#define RANGES(KERNEL){}\n", ranges.iter().enumerate().map(kernel).collect::<String>())
        } else {
            shapes_by_architecture(TUNING, size)
        };
        format!(
            "#include \"offsets/offsets.cuh\"\n\
             {shapes}\
             typedef u{} Size;\n\
             typedef u{} Offset;\n\
             {}\
             #include \"offsets/kernels.cuh\"\n",
            8 * size,
            8 * offset,
            asserted_status("u64", size_of::<u64>())
        )
    }
}
