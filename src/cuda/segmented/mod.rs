//! Scan and reduction of segments on the device: the plan and the launch.

// Placeholders: no kernel is launched yet.
#![allow(dead_code, clippy::extra_unused_type_parameters)]

use super::kernels::Kernels;
use crate::{Element, Error, Operator};
use cudarc::driver::sys::{CUdeviceptr, CUstream};

/// Where segments begin, for a kernel. Addresses are on the device.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Rows {
        columns: usize,
    },
    /// `segments` + 1 offsets, of 8 bytes if `wide`, else of 4.
    Offsets {
        address: CUdeviceptr,
        segments: usize,
        wide: bool,
    },
    Heads {
        address: CUdeviceptr,
    },
    /// Words of 4 or 8 bytes: the same bytes.
    HeadBits {
        address: CUdeviceptr,
    },
    /// `size` is the bytes of a key.
    Keys {
        address: CUdeviceptr,
        size: usize,
    },
}

/// The plan of a scan or a reduction of segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedPlan {
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of scratch memory.
    pub(crate) scratch: usize,
}

impl SegmentedPlan {
    /// Whether kernels take the element.
    ///
    /// # Errors
    /// [`Error::ElementSize`].
    pub(crate) fn check<T: Element>(_primitive: &'static str) -> Result<(), Error> {
        unimplemented!()
    }

    /// The plan of a scan of `n` items for the kernels of `architecture`.
    pub(crate) fn scan<Op: Operator<T>, T: Element>(_n: usize, _architecture: u32) -> Result<SegmentedPlan, Error> {
        unimplemented!()
    }

    /// The plan with memory for up to `n` items.
    pub(crate) fn scan_up_to<Op: Operator<T>, T: Element>(
        _n: usize,
        _architecture: u32,
    ) -> Result<SegmentedPlan, Error> {
        unimplemented!()
    }

    /// The plan of a reduction of `n` items and `segments` segments.
    pub(crate) fn reduce<Op: Operator<T>, T: Element>(
        _n: usize,
        _segments: usize,
        _architecture: u32,
    ) -> SegmentedPlan {
        unimplemented!()
    }

    /// The plan with memory for up to `n` items and `segments` segments.
    pub(crate) fn reduce_up_to<Op: Operator<T>, T: Element>(
        _n: usize,
        _segments: usize,
        _architecture: u32,
    ) -> SegmentedPlan {
        unimplemented!()
    }
}

/// The kernels of a scan, if they are loaded.
pub(crate) fn loaded_scan<Op: Operator<T>, T: Element>(_device: usize) -> Option<&'static Kernels> {
    unimplemented!()
}

/// The kernels of a scan for the device, whose context is current. Loads them unless they are
/// loaded.
pub(crate) fn load_scan<Op: Operator<T>, T: Element>(_device: usize) -> Result<&'static Kernels, Error> {
    unimplemented!()
}

/// The kernels of a reduction, if they are loaded.
pub(crate) fn loaded_reduce<Op: Operator<T>, T: Element>(_device: usize) -> Option<&'static Kernels> {
    unimplemented!()
}

/// The kernels of a reduction for the device, whose context is current. Loads them unless they are
/// loaded.
pub(crate) fn load_reduce<Op: Operator<T>, T: Element>(_device: usize) -> Result<&'static Kernels, Error> {
    unimplemented!()
}

/// The arguments of a scan's launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedScanArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    pub(crate) n: usize,
    /// The initial value, or the identity of an exclusive scan, in the form of `Operator::to_cuda`.
    pub(crate) first: Option<C>,
    pub(crate) exclusive: bool,
    pub(crate) reverse: bool,
    pub(crate) cut: Cut,
    /// `SegmentedPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
    /// `SegmentedPlan::scratch` bytes.
    pub(crate) scratch: CUdeviceptr,
}

impl<C: Element> SegmentedScanArguments<C> {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the operator and its element, and the plan is for `n` elements, at
    ///   least one, and the kernels' architecture.
    /// - Input and output are `n` elements of device memory each, equal or disjoint. The cut is of
    ///   `n` elements; its offsets may hold anything. Addresses of words and scratch memory are
    ///   multiples of 16. All else is disjoint. All is valid until the stream is past the call, and
    ///   nothing else uses words and scratch memory meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        _plan: &SegmentedPlan,
        _kernels: &Kernels,
        _stream: CUstream,
    ) -> Result<(), Error> {
        unimplemented!()
    }
}

/// The arguments of a reduction's launch. Carries are in the form of `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedReduceArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    pub(crate) n: usize,
    pub(crate) segments: usize,
    /// The initial value.
    pub(crate) first: Option<C>,
    /// The result of an empty segment: the initial value or the identity.
    pub(crate) empty: Option<C>,
    /// Rows or offsets.
    pub(crate) cut: Cut,
    /// `SegmentedPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
    /// `SegmentedPlan::scratch` bytes.
    pub(crate) scratch: CUdeviceptr,
}

impl<C: Element> SegmentedReduceArguments<C> {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the operator and its element, and the plan is for `n` elements,
    ///   `segments` segments, at least one, and the kernels' architecture.
    /// - The input is `n` elements of device memory, the output `segments`. The cut is of
    ///   `segments` segments; its offsets may hold anything. Addresses of words and scratch memory
    ///   are multiples of 16. All are disjoint and valid until the stream is past the call, and
    ///   nothing else uses words and scratch memory meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        _plan: &SegmentedPlan,
        _kernels: &Kernels,
        _stream: CUstream,
    ) -> Result<(), Error> {
        unimplemented!()
    }
}
