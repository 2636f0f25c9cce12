//! Pack and expand on the device: the kernels and the launches.

use super::kernels::{Kernels, opt, p, present};
use super::library::{self, Caller, Program};
use super::plan::MOST_BLOCKS;
use super::unit::with_length;
use crate::{Error, Index};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::any::TypeId;

pub(crate) mod contract;
pub(crate) mod tuning;
pub(crate) mod unit;
use contract::Ends;
use tuning::{EXPAND, PACK, SegmentTile};
use unit::{SEGMENTS_KEY, segments_source};

/// The kernels by the bytes of an offset, 4 or 8; then in pack by whether items are whole words, in
/// expand by the bytes of an index.
const KERNELS: [&str; 8] = [
    "pack_u32_bytes",
    "pack_u32_words",
    "pack_u64_bytes",
    "pack_u64_words",
    "expand_u32_u32",
    "expand_u32_u64",
    "expand_u64_u32",
    "expand_u64_u64",
];
const NAME: &str = "segments";
const COUNTED: &str = "segments of a length in memory";

/// The type that identifies these kernels in the table of loaded kernels.
enum Segments {}

/// The kernels; those that read the number of segments from memory if `is_counted`. Loads them unless they are
/// loaded.
pub(crate) fn load(is_counted: bool, caller: &dyn Caller) -> Result<&'static Kernels, Error> {
    let name = if is_counted { COUNTED } else { NAME };
    library::load(TypeId::of::<Segments>(), name, caller, &KERNELS, &|| Program {
        name: name.to_owned(),
        source: if is_counted { with_length(&segments_source()) } else { segments_source() },
        built_in: const { library::built_in(SEGMENTS_KEY) }.filter(|_| !is_counted),
    })
}

fn is_wide<I: Index>() -> usize {
    usize::from(size_of::<I>() == 8)
}

/// The number of blocks for `n` segments and `outputs` bytes or indices of output.
///
/// # Errors
/// [`Error::TooLong`] for more blocks than a grid has.
fn blocks(primitive: &'static str, n: usize, outputs: usize, tile: SegmentTile) -> Result<u32, Error> {
    let line = outputs as u128 + n as u128 * tile.cost as u128;
    let most = MOST_BLOCKS as u128 * tile.tile as u128;
    if line > most {
        return Err(Error::TooLong { primitive, n: n.max(outputs), most: usize::try_from(most).unwrap_or(usize::MAX) });
    }
    Ok(line.div_ceil(tile.tile as u128) as u32)
}

/// The number of blocks that pack `n` segments into `bytes` bytes.
///
/// # Errors
/// [`Error::TooLong`] for more blocks than a grid has.
pub(crate) fn pack_blocks(primitive: &'static str, n: usize, bytes: usize) -> Result<u32, Error> {
    blocks(primitive, n, bytes, PACK)
}

/// The arguments of a pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackArguments {
    /// Bytes of an item, and its alignment.
    pub(crate) size: usize,
    pub(crate) align: usize,
    /// The items, and their number.
    pub(crate) items: CUdeviceptr,
    pub(crate) len: usize,
    /// The index in `items` at which each of `n` segments begins.
    pub(crate) begins: CUdeviceptr,
    /// The index in the output at which each segment begins, and the end of the last one.
    pub(crate) offsets: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of segments, if it lies in memory; `n` is then the most. Only for kernels that read it.
    pub(crate) length: Option<CUdeviceptr>,
    /// The output, and its capacity in items.
    pub(crate) output: CUdeviceptr,
    pub(crate) capacity: usize,
}

impl PackArguments {
    /// Launches the pack, for offsets of type `O`. Does not wait.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Driver`].
    ///
    /// # Safety
    /// - `kernels` are those of `load`, counted ones with a `length`, which is a `u64` of device memory.
    /// - All arrays lie in the device's memory, as long as the arguments say, and are valid until
    ///   the stream is past the call. The output is disjoint from the others, and nothing else uses
    ///   it meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch<O: Index>(
        &self,
        primitive: &'static str,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let PackArguments { size, align, items, len, begins, offsets, n, length, output, capacity } = *self;
        let ends = Ends { offsets, n: n as u64, capacity: capacity as u64, unit: size as u32 };
        let bytes = (len * size) as u64;
        let arguments = [p(&ends), p(&begins), p(&items), p(&bytes), p(&output), opt(&length)];
        let blocks = pack_blocks(primitive, n, capacity * size)?;
        let kernel = 2 * is_wide::<O>() + usize::from(align >= 4);
        // SAFETY: the arguments are those of the kernels in segments/kernels.cuh; the caller
        // vouches for the rest.
        unsafe { kernels.launch(kernel, blocks, 32 * PACK.warps as u32, stream, present(&arguments)) }
    }
}

/// The arguments of an expand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandArguments {
    /// The index in the output at which each of `n` segments begins, and the end of the last one.
    pub(crate) offsets: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of segments, if it lies in memory; `n` is then the most. Only for kernels that read it.
    pub(crate) length: Option<CUdeviceptr>,
    /// The segment of each item, and the item's position in it; `positions` may be null.
    pub(crate) segments: CUdeviceptr,
    pub(crate) positions: CUdeviceptr,
    /// The capacity of both outputs, in items.
    pub(crate) capacity: usize,
}

impl ExpandArguments {
    /// Launches the expand, for offsets of type `O` and indices of type `I`. Does not wait.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Driver`].
    ///
    /// # Safety
    /// As for [`PackArguments::launch`].
    pub(crate) unsafe fn launch<O: Index, I: Index>(
        &self,
        primitive: &'static str,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let ExpandArguments { offsets, n, length, segments, positions, capacity } = *self;
        let ends = Ends { offsets, n: n as u64, capacity: capacity as u64, unit: 1 };
        let arguments = [p(&ends), p(&segments), p(&positions), opt(&length)];
        let blocks = blocks(primitive, n, capacity, EXPAND)?;
        let kernel = 4 + 2 * is_wide::<O>() + is_wide::<I>();
        // SAFETY: the arguments are those of the kernels in segments/kernels.cuh; the caller
        // vouches for the rest.
        unsafe { kernels.launch(kernel, blocks, 32 * EXPAND.warps as u32, stream, present(&arguments)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_compiles() {
        let mut texts = Vec::from([75, 90, 120].map(|architecture| (architecture, NAME.to_owned(), segments_source())));
        texts.push((90, COUNTED.to_owned(), with_length(&segments_source())));
        library::compile_all(texts);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        library::parts_have_a_kernel_each(&segments_source(), &KERNELS);
        library::parts_have_a_kernel_each(&with_length(&segments_source()), &KERNELS);
    }

    #[test]
    fn they_are_built_in() {
        assert!(library::is_built_in(SEGMENTS_KEY, &segments_source()));
    }
}
