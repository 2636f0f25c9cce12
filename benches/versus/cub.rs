//! CUB's scans, reductions, selections, batched copies and radix sorts, if the build has them
//! (`cub.cu`, feature `cub`).

use parascan::cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::ffi::c_void;

/// CUB's scan, or its reduction to one element, by an operator on an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubScan(Function);

type Function = unsafe extern "C" fn(
    temporary: CUdeviceptr,
    bytes: &mut usize,
    from: CUdeviceptr,
    to: CUdeviceptr,
    n: u32,
    CUstream,
) -> i32;

#[cfg(feature = "cub")]
mod shim {
    use std::ffi::{CString, c_char};
    unsafe extern "C" {
        pub(super) fn versus_cub_scan(what: *const c_char, r#type: *const c_char) -> Option<super::Function>;
        pub(super) fn versus_cub_select(what: *const c_char, r#type: *const c_char) -> Option<super::SelectFunction>;
        pub(super) fn versus_cub_pack(
            temporary: super::CUdeviceptr,
            bytes: &mut usize,
            from: super::CUdeviceptr,
            to: super::CUdeviceptr,
            sizes: super::CUdeviceptr,
            n: u32,
            stream: super::CUstream,
        ) -> i32;
        pub(super) fn versus_cub_segmented_sum(
            is_scan: bool,
            columns: u32,
            temporary: super::CUdeviceptr,
            bytes: &mut usize,
            from: super::CUdeviceptr,
            to: super::CUdeviceptr,
            offsets: super::CUdeviceptr,
            segments: u32,
            stream: super::CUstream,
        ) -> i32;
        pub(super) fn versus_cub_reduce_by_key(
            temporary: super::CUdeviceptr,
            bytes: &mut usize,
            keys: super::CUdeviceptr,
            from: super::CUdeviceptr,
            keys_to: super::CUdeviceptr,
            to: super::CUdeviceptr,
            count: super::CUdeviceptr,
            n: u32,
            stream: super::CUstream,
        ) -> i32;
        pub(super) fn versus_cub_segmented_sort(
            temporary: super::CUdeviceptr,
            bytes: &mut usize,
            sorting: &super::Sorting,
            offsets: super::CUdeviceptr,
            segments: u32,
            stream: super::CUstream,
        ) -> i32;
        pub(super) fn versus_cub_sort(
            r#type: *const c_char,
            of_value: usize,
            by_64_bits: bool,
        ) -> Option<super::SortFunction>;
        pub(super) fn versus_cub_version() -> i32;
    }

    pub(super) fn text(name: &str) -> CString {
        CString::new(name).expect("names have no NUL")
    }
}

impl CubScan {
    /// `None` without CUB, or if `cub.cu` has no such row.
    #[cfg(feature = "cub")]
    pub(crate) fn find(what: &str, of: &str) -> Option<CubScan> {
        let (what, of) = (shim::text(what), shim::text(of));
        // SAFETY: both are C strings, read only during the call.
        unsafe { shim::versus_cub_scan(what.as_ptr(), of.as_ptr()) }.map(CubScan)
    }
    #[cfg(not(feature = "cub"))]
    pub(crate) fn find(_: &str, _: &str) -> Option<CubScan> {
        None
    }

    /// Bytes of temporary memory for `n` elements.
    pub(crate) fn temporary_bytes(self, n: u32, stream: CUstream) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only returns how much it needs.
        check(unsafe { self.0(0, &mut bytes, 0, 0, n, stream) }).map(|()| bytes)
    }

    /// Puts the scan or the reduction on the stream.
    ///
    /// # Safety
    /// `from` is `n` elements of its type, and `to` `n`, of a reduction one; `temporary` is `bytes`
    /// bytes. All lie in the memory of the stream's device and are valid until the stream is past
    /// the scan.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        from: CUdeviceptr,
        to: CUdeviceptr,
        n: u32,
        stream: CUstream,
    ) -> Result<(), String> {
        // SAFETY: by the caller.
        check(unsafe { self.0(temporary, &mut bytes, from, to, n, stream) })
    }
}

/// CUB's compaction, partition or unique, on an item type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubSelect(SelectFunction);

type SelectFunction =
    unsafe extern "C" fn(temporary: CUdeviceptr, bytes: &mut usize, selection: &Selection, CUstream) -> i32;

/// Its arguments, as in `cub.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub(crate) input: CUdeviceptr,
    /// A flag of one byte for each item.
    pub(crate) flags: CUdeviceptr,
    /// The item that the others are compared with, on the host.
    pub(crate) than: *const c_void,
    pub(crate) output: CUdeviceptr,
    /// The count, of 64 bits.
    pub(crate) count: CUdeviceptr,
    pub(crate) n: u32,
}

impl CubSelect {
    /// `None` without CUB, or if `cub.cu` has no such row.
    #[cfg(feature = "cub")]
    pub(crate) fn find(what: &str, of: &str) -> Option<CubSelect> {
        let (what, of) = (shim::text(what), shim::text(of));
        // SAFETY: both are C strings, read only during the call.
        unsafe { shim::versus_cub_select(what.as_ptr(), of.as_ptr()) }.map(CubSelect)
    }
    #[cfg(not(feature = "cub"))]
    pub(crate) fn find(_: &str, _: &str) -> Option<CubSelect> {
        None
    }

    /// Bytes of temporary memory.
    ///
    /// # Safety
    /// `selection.than` points to an item of the selection's type.
    pub(crate) unsafe fn temporary_bytes(self, selection: &Selection, stream: CUstream) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only returns how much it needs and reads the item.
        check(unsafe { self.0(0, &mut bytes, selection, stream) }).map(|()| bytes)
    }

    /// Puts the selection on the stream.
    ///
    /// # Safety
    /// `selection` has `n` items of its type and room for as many in the output; `temporary` is
    /// `bytes` bytes. All but `than` lie in the memory of the stream's device and are valid until
    /// the stream is past the call.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        selection: &Selection,
        stream: CUstream,
    ) -> Result<(), String> {
        // SAFETY: by the caller.
        check(unsafe { self.0(temporary, &mut bytes, selection, stream) })
    }
}

/// CUB's batched copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubPack(PackFunction);

type PackFunction = unsafe extern "C" fn(
    temporary: CUdeviceptr,
    bytes: &mut usize,
    from: CUdeviceptr,
    to: CUdeviceptr,
    sizes: CUdeviceptr,
    n: u32,
    CUstream,
) -> i32;

impl CubPack {
    /// `None` without CUB.
    pub(crate) fn find() -> Option<CubPack> {
        #[cfg(feature = "cub")]
        return Some(CubPack(shim::versus_cub_pack));
        #[cfg(not(feature = "cub"))]
        None
    }

    /// Bytes of temporary memory for `n` segments.
    pub(crate) fn temporary_bytes(self, n: u32, stream: CUstream) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only returns how much it needs.
        check(unsafe { self.0(0, &mut bytes, 0, 0, 0, n, stream) }).map(|()| bytes)
    }

    /// Puts the copies on the stream.
    ///
    /// # Safety
    /// The lists hold `n` source addresses, `n` destination addresses and `n` 32-bit sizes;
    /// `temporary` is `bytes` bytes. All lie in the memory of the stream's device and are valid
    /// until the stream is past the call.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        [from, to, sizes]: [CUdeviceptr; 3],
        n: u32,
        stream: CUstream,
    ) -> Result<(), String> {
        // SAFETY: by the caller.
        check(unsafe { self.0(temporary, &mut bytes, from, to, sizes, n, stream) })
    }
}

/// CUB's sums of `f32` by segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubSegmentedSum {
    is_scan: bool,
    columns: u32,
    function: SegmentedFunction,
}

type SegmentedFunction = unsafe extern "C" fn(
    is_scan: bool,
    columns: u32,
    temporary: CUdeviceptr,
    bytes: &mut usize,
    from: CUdeviceptr,
    to: CUdeviceptr,
    offsets: CUdeviceptr,
    segments: u32,
    CUstream,
) -> i32;

impl CubSegmentedSum {
    /// Exclusive prefixes, or one sum a segment. `None` without CUB.
    #[allow(unused_variables, reason = "without CUB")]
    pub(crate) fn find(is_scan: bool) -> Option<CubSegmentedSum> {
        #[cfg(feature = "cub")]
        return Some(CubSegmentedSum { is_scan, columns: 0, function: shim::versus_cub_segmented_sum });
        #[cfg(not(feature = "cub"))]
        None
    }

    /// The sum of each row of so many columns, without offsets: their address is null.
    pub(crate) fn of_rows(columns: usize) -> Option<CubSegmentedSum> {
        CubSegmentedSum::find(false).map(|cub| CubSegmentedSum { columns: columns as u32, ..cub })
    }

    /// Bytes of temporary memory. The addresses are those of the launch.
    ///
    /// # Safety
    /// As for `launch`.
    pub(crate) unsafe fn temporary_bytes(
        self,
        [from, to, offsets]: [CUdeviceptr; 3],
        segments: u32,
        stream: CUstream,
    ) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only returns how much it needs.
        check(unsafe {
            (self.function)(self.is_scan, self.columns, 0, &mut bytes, from, to, offsets, segments, stream)
        })
        .map(|()| bytes)
    }

    /// Puts the call on the stream.
    ///
    /// # Safety
    /// There are `segments` + 1 offsets, ascending up to the number of items in `from`, or so many rows; `to` has
    /// room for as many items, or for one a segment; `temporary` is `bytes` bytes. All lie in the
    /// memory of the stream's device and are valid until the stream is past the call.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        [from, to, offsets]: [CUdeviceptr; 3],
        segments: u32,
        stream: CUstream,
    ) -> Result<(), String> {
        // SAFETY: by the caller.
        check(unsafe {
            (self.function)(self.is_scan, self.columns, temporary, &mut bytes, from, to, offsets, segments, stream)
        })
    }
}

/// CUB's sum of `f32` for each run of equal `u32` keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubReduceByKey(ReduceByKeyFunction);

type ReduceByKeyFunction = unsafe extern "C" fn(
    temporary: CUdeviceptr,
    bytes: &mut usize,
    keys: CUdeviceptr,
    from: CUdeviceptr,
    keys_to: CUdeviceptr,
    to: CUdeviceptr,
    count: CUdeviceptr,
    n: u32,
    CUstream,
) -> i32;

impl CubReduceByKey {
    /// `None` without CUB.
    pub(crate) fn find() -> Option<CubReduceByKey> {
        #[cfg(feature = "cub")]
        return Some(CubReduceByKey(shim::versus_cub_reduce_by_key));
        #[cfg(not(feature = "cub"))]
        None
    }

    /// Puts the call on the stream. Without temporary memory it returns how many bytes it needs.
    ///
    /// # Safety
    /// The addresses are of `n` keys, `n` items, room for as many of both, and a `u64`, and `temporary`
    /// is `bytes` bytes. All lie in the memory of the stream's device and are valid until the stream is
    /// past the call.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        [keys, from, keys_to, to, count]: [CUdeviceptr; 5],
        n: u32,
        stream: CUstream,
    ) -> Result<usize, String> {
        // SAFETY: by the caller.
        check(unsafe { (self.0)(temporary, &mut bytes, keys, from, keys_to, to, count, n, stream) }).map(|()| bytes)
    }
}

/// CUB's sort of `u32` keys by segment, which waits for the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubSegmentedSort(SegmentedSortFunction);

type SegmentedSortFunction = unsafe extern "C" fn(
    temporary: CUdeviceptr,
    bytes: &mut usize,
    sorting: &Sorting,
    offsets: CUdeviceptr,
    segments: u32,
    CUstream,
) -> i32;

impl CubSegmentedSort {
    /// `None` without CUB.
    pub(crate) fn find() -> Option<CubSegmentedSort> {
        #[cfg(feature = "cub")]
        return Some(CubSegmentedSort(shim::versus_cub_segmented_sort));
        #[cfg(not(feature = "cub"))]
        None
    }

    /// Bytes of temporary memory. The addresses are those of the launch.
    ///
    /// # Safety
    /// As for `launch`.
    pub(crate) unsafe fn temporary_bytes(
        self,
        sorting: &Sorting,
        (offsets, segments): (CUdeviceptr, u32),
        stream: CUstream,
    ) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only returns how much it needs.
        check(unsafe { self.0(0, &mut bytes, sorting, offsets, segments, stream) }).map(|()| bytes)
    }

    /// Puts the call on the stream, and waits for a part of it.
    ///
    /// # Safety
    /// There are `segments` + 1 offsets, ascending up to the number of keys; the arrays are as long;
    /// `temporary` is `bytes` bytes. All lie in the memory of the stream's device and are valid until
    /// the stream is past the call.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        sorting: &Sorting,
        (offsets, segments): (CUdeviceptr, u32),
        stream: CUstream,
    ) -> Result<(), String> {
        // SAFETY: by the caller.
        check(unsafe { self.0(temporary, &mut bytes, sorting, offsets, segments, stream) })
    }
}

/// CUB's radix sort of a key type, and values of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubSort(SortFunction);

type SortFunction = unsafe extern "C" fn(temporary: CUdeviceptr, bytes: &mut usize, sorting: &Sorting, CUstream) -> i32;

/// Its arguments, as in `cub.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorting {
    pub(crate) keys: CUdeviceptr,
    /// Values, or null.
    pub(crate) values: CUdeviceptr,
    pub(crate) keys_output: CUdeviceptr,
    pub(crate) values_output: CUdeviceptr,
    pub(crate) n: u64,
}

impl CubSort {
    /// Of keys of the type `of` and values of `of_value` bytes. `None` without CUB, or if `cub.cu` has no such row.
    #[cfg(feature = "cub")]
    pub(crate) fn find(of: &str, of_value: usize, by_64_bits: bool) -> Option<CubSort> {
        let of = shim::text(of);
        // SAFETY: a C string, read only during the call.
        unsafe { shim::versus_cub_sort(of.as_ptr(), of_value, by_64_bits) }.map(CubSort)
    }
    #[cfg(not(feature = "cub"))]
    pub(crate) fn find(_: &str, _: usize, _: bool) -> Option<CubSort> {
        None
    }

    /// Bytes of temporary memory.
    pub(crate) fn temporary_bytes(self, sorting: &Sorting, stream: CUstream) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only returns how much it needs.
        check(unsafe { self.0(0, &mut bytes, sorting, stream) }).map(|()| bytes)
    }

    /// Puts the sort on the stream.
    ///
    /// # Safety
    /// `sorting` has `n` keys of the sort's type, values of its size unless null, and room for as many in the
    /// outputs; `temporary` is `bytes` bytes. All lie in the memory of the stream's device,
    /// disjoint, and are valid until the stream is past the call.
    pub(crate) unsafe fn launch(
        self,
        (temporary, mut bytes): (CUdeviceptr, usize),
        sorting: &Sorting,
        stream: CUstream,
    ) -> Result<(), String> {
        // SAFETY: by the caller.
        check(unsafe { self.0(temporary, &mut bytes, sorting, stream) })
    }
}

fn check(code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("CUB answered with the runtime's error {code}")) }
}

/// CUB's version, as in the first row of the output.
pub(crate) fn version() -> String {
    #[cfg(feature = "cub")]
    {
        // SAFETY: the function takes nothing and reads a constant.
        let version = unsafe { shim::versus_cub_version() };
        format!("CUB {}.{}.{}", version / 100_000, version / 100 % 1000, version % 100)
    }
    #[cfg(not(feature = "cub"))]
    "no CUB".into()
}
