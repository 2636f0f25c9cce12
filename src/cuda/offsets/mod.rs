//! Offsets on the device: the plan and the launch.

use super::contract::status_bytes;
use super::kernels::{Kernels, opt, p, present};
use super::library::{self, Caller, Program};
use super::plan::{server_words, tiles};
use super::tuning::{RANGES, range_of};
use super::unit::with_length;
use crate::{Element, Error};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::any::TypeId;

pub(crate) mod tuning;
pub(crate) mod unit;
use tuning::{OffsetsRange, offsets_ranges};
use unit::OffsetsUnit;

const KERNELS: [&str; RANGES] = ["offsets_0", "offsets_1", "offsets_2"];
const NAME: &str = "offsets";
const COUNTED: &str = "offsets of a length in memory";

/// The plan of offsets from n sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetsPlan {
    range: usize,
    threads: u32,
    tiles: usize,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
}

const fn unit<S: Element, O: Element>() -> OffsetsUnit {
    OffsetsUnit { size: size_of::<S>(), offset: size_of::<O>() }
}

impl OffsetsPlan {
    /// The plan for the kernels of `architecture`.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks.
    pub(crate) fn new<S: Element, O: Element>(n: usize, architecture: u32) -> Result<OffsetsPlan, Error> {
        let (size, offset) = (size_of::<S>(), size_of::<O>());
        let ranges = offsets_ranges(size, offset, architecture);
        let range = range_of(&ranges, |range| range.bytes, n.saturating_mul(size.max(offset)));
        let OffsetsRange { warps, spread, tile, .. } = ranges[range];
        let tiles = tiles(NAME, n, tile)?;
        let words = server_words(tiles, status_bytes(size_of::<u64>()), spread);
        Ok(OffsetsPlan { range, threads: 32 * warps as u32, tiles, words })
    }

    /// Bytes of status words for up to `n` sizes.
    ///
    /// # Errors
    /// Those of `new`.
    pub(crate) fn words_up_to<S: Element, O: Element>(n: usize, architecture: u32) -> Result<usize, Error> {
        let (size, offset, mut most) = (size_of::<S>(), size_of::<O>(), 0);
        for range in offsets_ranges(size, offset, architecture) {
            most = most.max(OffsetsPlan::new::<S, O>(n.min(range.bytes / size.max(offset)), architecture)?.words);
        }
        Ok(most)
    }
}

/// The program's name in the table of loaded kernels.
fn name(is_counted: bool) -> &'static str {
    if is_counted { COUNTED } else { NAME }
}

/// The kernels; those that read the number of sizes from memory if `is_counted`. Loads them unless they are
/// loaded.
pub(crate) fn load<S: Element, O: Element>(is_counted: bool, caller: &dyn Caller) -> Result<&'static Kernels, Error> {
    library::load(TypeId::of::<(S, O)>(), name(is_counted), caller, &KERNELS, &|| {
        let (source, built_in) = (unit::<S, O>().source(), const { library::built_in(unit::<S, O>().key()) });
        Program {
            name: format!("{}::<{}, {}>", name(is_counted), std::any::type_name::<S>(), std::any::type_name::<O>()),
            source: if is_counted { with_length(&source) } else { source },
            built_in: built_in.filter(|_| !is_counted),
        }
    })
}

/// The arguments of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetsArguments {
    pub(crate) sizes: CUdeviceptr,
    pub(crate) starts: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of sizes, if it lies in memory; `n` is then the most. Only for kernels that read it.
    pub(crate) length: Option<CUdeviceptr>,
    /// The alignment, a power of two.
    pub(crate) align: u64,
    /// The output of the total, a 64-bit integer.
    pub(crate) total: CUdeviceptr,
    /// Whether the total follows as one more offset.
    pub(crate) with_total: bool,
    /// `OffsetsPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
}

impl OffsetsArguments {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the types, and the plan is for `n` sizes and the kernels'
    ///   architecture.
    /// - Sizes, offsets, total and words lie in the device's memory, as long as the arguments say
    ///   and disjoint. They are valid until the stream is past the call, and nothing else uses the
    ///   words meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(&self, plan: &OffsetsPlan, kernels: &Kernels, stream: CUstream) -> Result<(), Error> {
        let OffsetsArguments { sizes, starts, n, length, align, total, with_total, words } = *self;
        let (n, padding, with_end, tiles) = (n as u64, align - 1, u32::from(with_total), plan.tiles as u32);
        let arguments =
            [p(&sizes), p(&starts), p(&n), p(&padding), p(&total), p(&with_end), p(&words), p(&tiles), opt(&length)];
        let blocks = plan.tiles + usize::from(plan.tiles > 1);
        // SAFETY: the arguments are those of the kernels in offsets/kernels.cuh; the caller vouches
        // for the rest.
        unsafe { kernels.launch(plan.range, blocks as u32, plan.threads, stream, present(&arguments)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_compiles() {
        let mut all = Vec::new();
        for size in [1, 2, 4, 8] {
            for offset in [4, 8] {
                let unit = OffsetsUnit { size, offset };
                for architecture in [75, 90] {
                    all.push((architecture, format!("{unit:?}"), unit.source()));
                }
                all.push((75, format!("{unit:?} of a length in memory"), with_length(&unit.source())));
            }
        }
        library::compile_all(all);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let source = unit::<u32, u64>().source();
        library::parts_have_a_kernel_each(&source, &KERNELS);
        library::parts_have_a_kernel_each(&with_length(&source), &KERNELS);
    }

    #[test]
    fn the_usual_are_built_in() {
        for unit in [unit::<u32, u32>(), unit::<u32, u64>(), unit::<u64, u64>()] {
            assert!(library::is_built_in(unit.key(), &unit.source()), "{unit:?}");
        }
    }
}
