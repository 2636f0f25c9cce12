//! The launches: the arguments of a call, and the kernels that they go to.

use super::contract::{FIND_THREADS, SHORT_INPUT_THREADS};
use super::tuning::EachGrid;
use super::{Cut, EACH_REDUCE, EACH_SCAN, FIND, SHORT_REDUCE, SHORT_SCAN, SegmentedPlan};
use crate::cuda::arguments::Arguments;
use crate::cuda::driver::check;
use crate::cuda::kernels::{Kernels, opt, p, present};
use crate::{Element, Error};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};

impl<C: Element> Arguments<C> {
    /// Launches the kernels of a scan: for offsets of a long input two, else one. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of `load_scan` for the operator and its element. The plan is for `n`
    ///   elements, at least one, and the architecture of the kernels.
    /// - Input and output are `n` elements of device memory, equal or disjoint. The arrays of `cut`
    ///   are as long as it says: flags, bits and keys for `n` items. The addresses of
    ///   words and scratch memory are multiples of 16. All are valid until the stream is past the
    ///   scan, and nothing else uses words and scratch memory until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch_segmented_scan(
        &self,
        cut: Cut,
        plan: &SegmentedPlan,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let Arguments { input, output, n, length, first, reverse, words, scratch, .. } = *self;
        let SegmentedPlan { kernel, threads, mut blocks, tiles, tile, .. } = *plan;
        let flags = self.flags();
        // The kernel of short inputs reads items of other tiles, which must not be overwritten.
        let short_blocks = cut.short_blocks(n, plan.short).filter(|&blocks| blocks == 1 || input != output);
        let each_grid = cut.scan_grid(n, plan.element).filter(|_| !reverse);
        // Tiles of the first kernel search themselves.
        let searched = tiles > 1 && kernel > 0 && matches!(cut, Cut::Offsets { .. });
        let (cut, init) = (cut.contract(n), first.unwrap_or_else(C::zeroed));
        let (n, tile_offsets) = (n as u64, if searched { scratch } else { 0 });
        if let Some(EachGrid { blocks, warps, shares }) = each_grid {
            let arguments =
                [p(&input), p(&output), p(&n), p(&shares), p(&init), p(&flags), p(&cut), p(&words), opt(&length)];
            // SAFETY: the arguments are those of the kernel in segmented/scan_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(EACH_SCAN, blocks, warps * 32, stream, present(&arguments)) };
        }
        if let Some(blocks) = short_blocks {
            let arguments = [p(&input), p(&output), p(&n), p(&init), p(&flags), p(&cut), opt(&length)];
            // SAFETY: the arguments are those of the kernel in segmented/scan_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(SHORT_SCAN, blocks, SHORT_INPUT_THREADS, stream, present(&arguments)) };
        }
        if searched {
            let arguments = [p(&cut), p(&n), p(&flags), p(&tile), p(&tiles), p(&tile_offsets), opt(&length)];
            let mut blocks = tiles.div_ceil(FIND_THREADS / 32);
            if length.is_some() {
                blocks = kernels.resident(FIND, blocks, FIND_THREADS)?;
            }
            // SAFETY: the arguments are those of the kernel in segmented/scan_kernels.cuh; the
            // caller vouches for the rest.
            unsafe { kernels.launch(FIND, blocks, FIND_THREADS, stream, present(&arguments))? };
        }
        let arguments = [
            p(&input),
            p(&output),
            p(&n),
            p(&init),
            p(&flags),
            p(&cut),
            p(&tile_offsets),
            p(&words),
            p(&tiles),
            opt(&length),
        ];
        let arguments = present(&arguments);
        if length.is_some() {
            blocks = kernels.resident(kernel, blocks, threads)?;
        }
        // SAFETY: as above. After the search the kernel waits for it where it reads what was found; what
        // came before, the number of items too, has ended when the search begins. Without items neither kernel
        // uses memory.
        unsafe {
            if searched {
                kernels.launch_dependent(kernel, blocks, threads, 0, stream, arguments)
            } else {
                kernels.launch(kernel, blocks, threads, stream, arguments)
            }
        }
    }
}

/// The arguments of a reduce of runs; `first` is in the form of `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunReduceArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of items, if it lies in memory; `n` is then the most.
    pub(crate) length: Option<CUdeviceptr>,
    /// The value before each segment's first item.
    pub(crate) first: Option<C>,
    /// Flags, bits or keys.
    pub(crate) cut: Cut,
    /// `capacity` elements.
    pub(crate) output: CUdeviceptr,
    /// Null, or room for `capacity` keys.
    pub(crate) keys: CUdeviceptr,
    pub(crate) capacity: usize,
    /// A `u64`.
    pub(crate) count: CUdeviceptr,
    /// `SegmentedPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
}

impl<C: Element> RunReduceArguments<C> {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of `load_runs` for the operator and its element, on this device. The plan
    ///   is for `n` elements and the architecture of the kernels.
    /// - The arrays lie in device memory and are as long as the fields say, those of `cut` for `n`
    ///   items. The addresses of words are multiples of 16. All are disjoint and valid until the
    ///   stream is past the call, and nothing else uses the words until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        plan: &SegmentedPlan,
        kernels: &Kernels,
        device: usize,
        stream: CUstream,
    ) -> Result<(), Error> {
        let RunReduceArguments { input, n, length, first, cut, output, keys, capacity, count, words } = *self;
        if n == 0 {
            // SAFETY: the caller's.
            let cleared = unsafe { sys::cuMemsetD8Async(count, 0, size_of::<u64>(), stream) };
            return check("cuMemsetD8Async", device, cleared);
        }
        let SegmentedPlan { kernel, threads, blocks, tiles, .. } = *plan;
        let (init, has_init) = (first.unwrap_or_else(C::zeroed), u32::from(first.is_some()));
        let (cut, n, capacity) = (cut.contract(n), n as u64, capacity as u64);
        let arguments = [
            p(&input),
            p(&n),
            p(&init),
            p(&has_init),
            p(&cut),
            p(&output),
            p(&keys),
            p(&capacity),
            p(&count),
            p(&words),
            p(&tiles),
            opt(&length),
        ];
        // SAFETY: the arguments are those of the kernels in segmented/run_kernels.cuh; the caller
        // vouches for the rest.
        unsafe { kernels.launch(kernel, blocks, threads, stream, present(&arguments)) }
    }
}

impl<C: Element> Arguments<C> {
    /// Launches the kernel of a reduction by rows or offsets. `empty` is the result of an empty segment. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of `load_reduce` for the operator and its element. The plan is for `n`
    ///   elements and the architecture of the kernels.
    /// - The input is `n` elements of device memory, the output one for each segment, and `cut` has
    ///   as many. Addresses of words and scratch memory are multiples of 16. All are disjoint and
    ///   valid until the stream is past the call, and nothing else uses words and scratch memory
    ///   meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch_segmented_reduce<T: Element>(
        &self,
        cut: Cut,
        empty: T,
        plan: &SegmentedPlan,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let Arguments { input, output, n, length, first, words, scratch, .. } = *self;
        let SegmentedPlan { kernel, threads, blocks, each, more, .. } = *plan;
        let short_blocks = cut.short_blocks(n, plan.short).filter(|_| length.is_none());
        let each_grid = cut.fold_grid(n, plan.element);
        let cut = cut.contract(n);
        let (init, has_init) = (first.unwrap_or_else(C::zeroed), u32::from(first.is_some()));
        let n = n as u64;
        if let Some(EachGrid { blocks, warps, shares }) = each_grid {
            let arguments = [
                p(&input),
                p(&n),
                p(&shares),
                p(&init),
                p(&has_init),
                p(&empty),
                p(&cut),
                p(&output),
                p(&words),
                p(&scratch),
                opt(&length),
            ];
            // SAFETY: the arguments are those of the kernel in segmented/reduce_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(EACH_REDUCE, blocks, warps * 32, stream, present(&arguments)) };
        }
        if let Some(blocks) = short_blocks {
            let arguments = [p(&input), p(&n), p(&init), p(&has_init), p(&empty), p(&cut), p(&output)];
            // SAFETY: the arguments are those of the kernel in segmented/reduce_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(SHORT_REDUCE, blocks, SHORT_INPUT_THREADS, stream, &arguments) };
        }
        let arguments = [
            p(&input),
            p(&n),
            p(&each),
            p(&more),
            p(&init),
            p(&has_init),
            p(&empty),
            p(&cut),
            p(&output),
            p(&words),
            p(&scratch),
            opt(&length),
        ];
        // SAFETY: the arguments are those of the kernels in segmented/reduce_kernels.cuh; the
        // caller vouches for the rest.
        unsafe { kernels.launch(kernel, blocks, threads, stream, present(&arguments)) }
    }
}
