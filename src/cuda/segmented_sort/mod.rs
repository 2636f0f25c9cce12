//! Sort by segment on the device: the program and the launches.

use super::driver::check;
use super::kernels::{First, Kernels, p};
use super::library::{self, BuiltIn, Caller, Program};
use super::segmented::Cut;
use super::sort::payload::with_word;
use super::sort::unit::SortUnit;
use super::sort::unit_of;
use super::unit::with_length;
use crate::{Error, SortKey};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::cell::Cell;
use std::ffi::c_void;

pub(crate) mod contract;
mod plan;
mod tuning;
mod unit;
use contract::{HEAD_CHUNKS, HEAD_THREADS, PARTITION_PLAN_BYTES, SegmentSortCall};
pub(crate) use plan::SegmentedSortPlan;
use tuning::{SMALL_WARPS, SegmentShape, segment_shape};
use unit::{KERNELS, segmented_sort_key, segmented_sort_source};

const NAME: &str = "segmented sort";
const COUNTED: &str = "segmented sort of a length in memory";
const HEADS: usize = 0;
/// These have a twin each that compares some bits of a key, BY_BITS behind it.
const PARTITION: usize = 1;
const SMALL: usize = 2;
const SHORT: usize = 3;
const MEDIUM: usize = 4;
const BY_BITS: usize = 4;

/// The kernels for a key type and its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedSortProgram {
    unit: SortUnit,
    types: TypeId,
    type_name: &'static str,
    built_in: Option<&'static BuiltIn>,
    /// Whether the kernels read the number of keys from memory.
    is_counted: bool,
}

impl SegmentedSortProgram {
    /// The program for `n` keys `K` with a payload of type `V`, if it has any bytes. The number of keys lies in
    /// memory if `is_counted`; `n` is then the most.
    pub(crate) fn new<K: SortKey, V>(n: usize, is_counted: bool) -> SegmentedSortProgram {
        with_word!(V, n, Word => SegmentedSortProgram::of::<K, Word>(is_counted))
    }

    /// The program for keys `K` with words `W`: `u32`, `u64` or `()`.
    fn of<K: SortKey, W: 'static>(is_counted: bool) -> SegmentedSortProgram {
        SegmentedSortProgram {
            unit: unit_of::<K, W>(),
            types: TypeId::of::<(K, W)>(),
            type_name: type_name::<(K, W)>(),
            built_in: const { library::built_in(segmented_sort_key(&unit_of::<K, W>())) },
            is_counted,
        }
    }

    fn shape(&self, architecture: u32) -> SegmentShape {
        segment_shape(self.unit.key, self.unit.payload, architecture)
    }

    /// The program's kernels. Loads the `first` ones unless a call has taken kernels of it before.
    pub(crate) fn load(&self, caller: &dyn Caller, first: First) -> Result<&'static Kernels, Error> {
        let shared = |architecture| {
            let shape = self.shape(architecture);
            let [whole, by_bits] = [0, 1].map(|i| {
                let small = SMALL_WARPS * shape.small.shared[i];
                [shape.sort.step_shared(), small, shape.short.shared[i], shape.medium.shared[i]]
            });
            [&[0], &whole[..], &by_bits].concat()
        };
        let program = if self.is_counted { COUNTED } else { NAME };
        library::load_some(self.types, program, caller, &KERNELS, &shared, first, &|| {
            let source = segmented_sort_source(&self.unit);
            Program {
                name: format!("{program} of {}", self.type_name),
                source: if self.is_counted { with_length(&source) } else { source },
                built_in: self.built_in.filter(|_| !self.is_counted),
            }
        })
    }
}

/// The arguments of a sort by segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedSortArguments {
    pub(crate) descending: bool,
    /// The keys; in place, those of the output.
    pub(crate) keys_in: CUdeviceptr,
    /// The output of sorted keys; `None` if only the payload is wanted.
    pub(crate) keys_out: Option<CUdeviceptr>,
    /// The payload; null if the payload is the source indices.
    pub(crate) values_in: CUdeviceptr,
    /// The output of the payload; null for keys-only.
    pub(crate) values: CUdeviceptr,
    /// Whether source indices count from the first key of their segment.
    pub(crate) local: bool,
    pub(crate) cut: Cut,
    /// The number of keys, if it lies in memory; that of the plan is then the most.
    pub(crate) length: Option<CUdeviceptr>,
    /// `SegmentedSortPlan::scratch` bytes, aligned to 256.
    pub(crate) scratch: CUdeviceptr,
}

impl SegmentedSortArguments {
    /// Launches the sort. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the plan's program, for this device. The plan is for the same cut,
    ///   and for as many items, at least one.
    /// - All arrays hold the plan's number of items in the device's memory and are valid until the
    ///   stream is past the sort, and the arrays of `cut` are as long as it says. In place, the
    ///   outputs are the inputs; otherwise all arrays and the scratch memory are disjoint. Meanwhile
    ///   other work only reads the inputs.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        plan: &SegmentedSortPlan,
        kernels: &Kernels,
        device: usize,
        stream: CUstream,
    ) -> Result<(), Error> {
        let SegmentedSortArguments { descending, keys_in, keys_out, values_in, values, local, cut, length, scratch } =
            *self;
        let (at, shape) = (plan.layout(keys_out.is_none()), plan.shape);
        let by_bits = usize::from(plan.by_bits);
        let place = |offset: usize| scratch + offset as u64;
        let sign = if plan.is_signed { 1 << (8 * plan.key - 1) } else { 0 };
        let call = SegmentSortCall {
            n: plan.n as u64,
            keys_in,
            keys: [keys_out.unwrap_or(place(at.keys[0])), place(at.keys[1])],
            values_in,
            values: [values, place(at.values)],
            heads: place(at.heads),
            moved: at.moved.map(place),
            chunks: place(at.chunks),
            listed: at.listed.map(place),
            plan: place(at.plan),
            segments: at.segments.map(place),
            segment_of_tile: at.segment_of_tile.map(place),
            words: place(at.words),
            flip: if descending { !sign } else { sign },
            begin: plan.bits.start,
            end: plan.bits.end,
            in_place: u32::from(keys_out == Some(keys_in)),
            no_keys: u32::from(keys_out.is_none()),
            local_indices: u32::from(local),
            may_be_long: u32::from(plan.may_be_long()),
            longest: plan.longest as u32,
            columns: plan.columns() as u32,
        };
        let cut = cut.contract(plan.n);
        if plan.may_be_long() {
            // SAFETY: the offset lies within the scratch memory.
            let cleared = unsafe { sys::cuMemsetD8Async(place(at.plan), 0, PARTITION_PLAN_BYTES as usize, stream) };
            check("cuMemsetD8Async", device, cleared)?;
        }
        let is_first = Cell::new(true);
        let launch = |kernel: usize, blocks: usize, threads: usize, shared: usize, arguments: &[*const c_void]| {
            let (blocks, threads) = (blocks as u32, threads as u32);
            let (mut all, own) = ([p(&call); 3], arguments.len());
            all[..own].copy_from_slice(arguments);
            if let Some(length) = &length {
                all[own] = p(length);
            }
            let arguments = &all[..own + usize::from(length.is_some())];
            // SAFETY: the arguments are the kernel's in segmented_sort/kernels.cuh; the caller
            // vouches for the rest.
            unsafe {
                if is_first.take() {
                    kernels.launch_with_shared(kernel, blocks, threads, shared, stream, arguments)
                } else {
                    kernels.launch_dependent(kernel, blocks, threads, shared, stream, arguments)
                }
            }
        };
        if plan.columns() == 0 {
            let head_blocks = plan.chunks().div_ceil(HEAD_CHUNKS as usize);
            launch(HEADS, head_blocks, HEAD_THREADS as usize, 0, &[p(&call), p(&cut)])?;
        }
        if plan.may_be_long() {
            let blocks = plan.n.div_ceil(shape.short.most()).min(2 * plan.multiprocessors);
            launch(plan.twin(PARTITION), blocks, shape.sort.step.threads, shape.sort.step_shared(), &[p(&call)])?;
        }
        if plan.may_be_small() {
            let blocks = plan.n.div_ceil(SMALL_WARPS * shape.small.chunk);
            launch(plan.twin(SMALL), blocks, SMALL_WARPS * 32, SMALL_WARPS * shape.small.shared[by_bits], &[p(&call)])?;
        }
        let by_blocks = [(SHORT, shape.short, plan.may_be_short()), (MEDIUM, shape.medium, plan.may_be_medium())];
        for (kernel, group, _) in by_blocks.into_iter().filter(|&(_, _, has_segments)| has_segments) {
            let mut blocks = plan.n.div_ceil(group.chunk);
            // Blocks draw the chunks that the partition has listed.
            if plan.may_be_long() {
                blocks = blocks.min(group.blocks * plan.multiprocessors);
            }
            launch(plan.twin(kernel), blocks, group.threads, group.shared[by_bits], &[p(&call)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::sort::unit::KeyKind;

    #[test]
    fn every_kernel_compiles() {
        let all = [
            (75, 1, KeyKind::Unsigned, None),
            (90, 2, KeyKind::Float { mantissa: 10 }, Some(8)),
            (75, 4, KeyKind::Unsigned, Some(8)),
            (90, 4, KeyKind::Float { mantissa: 23 }, None),
            (120, 4, KeyKind::Signed, Some(4)),
            (75, 8, KeyKind::Float { mantissa: 52 }, Some(8)),
            (90, 8, KeyKind::Unsigned, None),
        ];
        let text = |(architecture, key, kind, payload)| {
            let unit = SortUnit { key, kind, payload };
            (architecture, format!("{unit:?}"), segmented_sort_source(&unit))
        };
        let all = all.map(text);
        let counted = |(architecture, name, source): &(_, _, String)| {
            (*architecture, format!("{name} of a length in memory"), with_length(source))
        };
        let counted: Vec<_> = all[2..5].iter().map(counted).collect();
        library::compile_all(all.into_iter().chain(counted).collect());
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let unit = SortUnit { key: 4, kind: KeyKind::Unsigned, payload: None };
        library::parts_have_a_kernel_each(&segmented_sort_source(&unit), &KERNELS);
        library::parts_have_a_kernel_each(&with_length(&segmented_sort_source(&unit)), &KERNELS);
    }
}
