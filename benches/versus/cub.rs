//! CUB's scans, if they were built in (`cub.cu`, feature `cub`).

use parascan::cudarc::driver::sys::{CUdeviceptr, CUstream};

/// A scan of CUB's on some operator and element.
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
    use std::ffi::c_char;
    unsafe extern "C" {
        pub(super) fn versus_cub_scan(what: *const c_char, r#type: *const c_char) -> Option<super::Function>;
        pub(super) fn versus_cub_version() -> i32;
    }
}

impl CubScan {
    /// None where CUB is not built in or `cub.cu` has no such row.
    #[cfg(feature = "cub")]
    pub(crate) fn find(what: &str, of: &str) -> Option<CubScan> {
        let text = |name: &str| std::ffi::CString::new(name).expect("names have no NUL");
        let (what, of) = (text(what), text(of));
        // SAFETY: both are C strings; they are only read, during the call.
        unsafe { shim::versus_cub_scan(what.as_ptr(), of.as_ptr()) }.map(CubScan)
    }
    #[cfg(not(feature = "cub"))]
    pub(crate) fn find(_: &str, _: &str) -> Option<CubScan> {
        None
    }

    /// Bytes of temporary memory for `n` elements.
    pub(crate) fn temporary_bytes(self, n: u32, stream: CUstream) -> Result<usize, String> {
        let mut bytes = 0;
        // SAFETY: without temporary memory CUB only says how much it needs.
        check(unsafe { self.0(0, &mut bytes, 0, 0, n, stream) }).map(|()| bytes)
    }

    /// Puts the scan on the stream.
    ///
    /// # Safety
    /// `from` and `to` are `n` elements of the type that the scan was found for, and `temporary` is `bytes` bytes; all in
    /// the memory of the stream's device, valid until the stream is past the scan.
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

fn check(code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("CUB answered with the runtime's error {code}")) }
}

/// As the first line of the output says it.
pub(crate) fn version() -> String {
    #[cfg(feature = "cub")]
    {
        // SAFETY: it takes nothing and reads a constant.
        let version = unsafe { shim::versus_cub_version() };
        format!("CUB {}.{}.{}", version / 100_000, version / 100 % 1000, version % 100)
    }
    #[cfg(not(feature = "cub"))]
    "no CUB".into()
}
