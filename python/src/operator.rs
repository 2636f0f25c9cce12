//! Operators that are given as CUDA text at run time, on a device.
//!
//! The library's operators are types, so this is a scan outside of it: its tile pipeline and look-back
//! around the user's text.

use crate::arrays::{Buffer, value, with_type};
use crate::failed;
use crate::site::Site;
use parascan::cuda::Current;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::CudaStream;
use parascan::cudarc::driver::sys;
use parascan::dynamic::{Type, Value};
use parascan::{Element, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::from_ref;
use std::sync::{LazyLock, Mutex, PoisonError};

const WARPS: usize = 8;
const VECTORS: usize = 3;
/// Tiles of a look-back group, and the flags of `scan/contract.cuh`.
const GROUP: usize = 128;
const EXCLUSIVE: u32 = 1;
const REVERSE: u32 = 2;
const INIT: u32 = 4;

/// An operator on items of one type each time.
#[pyclass(frozen, name = "Operator")]
pub(crate) struct Operator {
    text: String,
}

#[pymethods]
impl Operator {
    /// From an expression in `a` and `b`, or statements that return.
    #[new]
    fn new(text: String) -> PyResult<Operator> {
        // A text that closes a bracket which it did not open would be other than a function's body.
        let mut open = Vec::new();
        for c in text.chars() {
            match c {
                '(' => open.push(')'),
                '[' => open.push(']'),
                '{' => open.push('}'),
                ')' | ']' | '}' if open.pop() != Some(c) => {
                    return Err(PyValueError::new_err(format!("the text closes a {c} that it does not open: {text}")));
                }
                '#' | '"' | '\'' | '\\' => {
                    return Err(PyValueError::new_err(format!("the text has the character {c}: {text}")));
                }
                _ => {}
            }
        }
        if let Some(c) = open.pop() {
            return Err(PyValueError::new_err(format!("the text lacks a {c}: {text}")));
        }
        if text.contains("//") || text.contains("/*") {
            return Err(PyValueError::new_err(format!("the text has a comment: {text}")));
        }
        Ok(Operator { text })
    }

    /// Scans each of the lines of `n` items. `words` is scratch memory of `words_bytes`, with
    /// any content.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (site, input, output, n, exclusive, reverse, initial, words))]
    fn scan(
        &self,
        py: Python<'_>,
        site: &Site,
        input: Buffer,
        output: Buffer,
        n: usize,
        exclusive: bool,
        reverse: bool,
        initial: Option<Bound<'_, PyAny>>,
        words: u64,
    ) -> PyResult<()> {
        let initial = initial.map(|initial| value(input.ty(), &initial)).transpose()?;
        let stream = site.stream().ok_or_else(|| PyValueError::new_err("the host has no kernels"))?;
        let _current = Current::enter(stream).map_err(failed)?;
        py.detach(|| self.scan_on(stream, input, output, n, [exclusive, reverse], initial, words)).map_err(failed)
    }

    /// Bytes of scratch memory of a scan of `n` items of the type with this index in `TYPES`.
    #[staticmethod]
    fn words_bytes(n: usize, ty: usize) -> usize {
        words_bytes(n, Type::ALL[ty].size())
    }

    /// Writes the results of pairs of items.
    fn combine(&self, py: Python<'_>, site: &Site, a: Buffer, b: Buffer, output: Buffer) -> PyResult<()> {
        let stream = site.stream().ok_or_else(|| PyValueError::new_err("the host has no kernels"))?;
        let _current = Current::enter(stream).map_err(failed)?;
        let run = || {
            let kernels = self.kernels(stream, a.ty())?;
            let (addresses, n) = ([a, b, output].map(|buffer| buffer.address() as u64), a.len() as u64);
            let [a, b, output] = addresses.each_ref().map(|address| from_ref(address).cast());
            let blocks = (n as usize).div_ceil(256).clamp(1, 1 << 20) as u32;
            // SAFETY: the arguments are those of operator.cu; the context is current.
            unsafe { kernels.launch(1, blocks, 256, stream.cu_stream(), &[a, b, output, from_ref(&n).cast()]) }
        };
        py.detach(run).map_err(failed)
    }
}

/// Bytes of scratch memory of a scan of `n` items of `size` bytes, by `LookBack` of `core/handover.cuh`.
fn words_bytes(n: usize, size: usize) -> usize {
    let (tiles, status) = (n.div_ceil(tile(size)), size.div_ceil(4) * 8);
    let groups = tiles.div_ceil(GROUP);
    16 + groups.next_multiple_of(4) * 4 + (groups + tiles) * status
}

/// Items of a tile.
fn tile(size: usize) -> usize {
    WARPS * 32 * VECTORS * 16 / size
}

impl Operator {
    /// The kernels for the type. The stream's context is current.
    fn kernels(&self, stream: &CudaStream, ty: Type) -> Result<&'static Kernels, Error> {
        /// By device, type and text: operators come and go, kernels stay.
        type Loaded = HashMap<(usize, Type, String), &'static Kernels>;
        static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Default::default);
        let context = stream.context();
        let key = (context.ordinal(), ty, self.text.clone());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = loaded.get(&key) {
            return Ok(kernels);
        }
        let element = with_type!(ty, T => <T as Element>::CUDA);
        let body = if self.text.contains("return") { self.text.clone() } else { format!("return {};", self.text) };
        let source = format!(
            "#include \"scan/scan.cuh\"\n\
             constexpr u32 WARPS = {WARPS}, VECTORS = {VECTORS}, GROUP = {GROUP};\n\
             typedef {element} Element;\n\
             struct Operator {{\n    \
                 typedef ::Element Element;\n    \
                 typedef ::Element Carry;\n    \
                 typedef NoPairs Pairs;\n    \
                 static __device__ Carry lift(Element x) {{ return x; }}\n    \
                 static __device__ Carry alone(Carry x) {{ return x; }}\n    \
                 static __device__ Carry combine(Carry a, Carry b) {{ {body} }}\n    \
                 static __device__ Element lower(Carry x) {{ return x; }}\n\
             }};\n\
             {}",
            include_str!("operator.cu"),
        );
        let kernels = Kernels::compile(context, &format!("{} on {ty}", self.text), &source, &["scan", "combine"])?;
        Ok(loaded.entry(key).or_insert(Box::leak(Box::new(kernels))))
    }

    #[allow(clippy::too_many_arguments)]
    fn scan_on(
        &self,
        stream: &CudaStream,
        input: Buffer,
        output: Buffer,
        n: usize,
        [exclusive, reverse]: [bool; 2],
        initial: Option<Value>,
        words: u64,
    ) -> Result<(), Error> {
        let ty = input.ty();
        let kernels = self.kernels(stream, ty)?;
        let bytes = words_bytes(n, ty.size());
        // SAFETY: `words` has that many bytes, by `scan`.
        let zeroed = unsafe { sys::cuMemsetD8Async(words, 0, bytes, stream.cu_stream()) };
        zeroed.result().map_err(|e| Error::Driver {
            call: "cuMemsetD8Async",
            code: e.0,
            device: stream.context().ordinal(),
        })?;
        let flags = [(exclusive, EXCLUSIVE), (reverse, REVERSE), (initial.is_some(), INIT)];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        let mut init = [0_u8; 8];
        if let Some(initial) = &initial {
            init[..ty.size()].copy_from_slice(initial.as_bytes());
        }
        let tiles = n.div_ceil(tile(ty.size())) as u32;
        for line in 0..input.len().checked_div(n).unwrap_or(0) {
            let [from, to] = [input, output].map(|buffer| (buffer.address() + line * n * ty.size()) as u64);
            let length = n as u64;
            let arguments: [*const c_void; 7] = [
                from_ref(&from).cast(),
                from_ref(&to).cast(),
                from_ref(&length).cast(),
                from_ref(&init).cast(),
                from_ref(&flags).cast(),
                from_ref(&words).cast(),
                from_ref(&tiles).cast(),
            ];
            // SAFETY: the arguments are those of operator.cu, with words for so many tiles, which each launch
            // leaves zero. The context is current.
            unsafe { kernels.launch(0, tiles, WARPS as u32 * 32, stream.cu_stream(), &arguments)? };
        }
        Ok(())
    }
}
