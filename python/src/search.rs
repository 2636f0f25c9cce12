//! Binary search: where values belong in sorted items.

use crate::arrays::{Buffer, with_type};
use crate::failed;
use crate::site::{Site, on_host};
use parascan::cuda::Current;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::CudaStream;
use parascan::dynamic::Type;
use parascan::{Element, Error};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Writes the number of sorted items that are less than each value, or not greater with `right`. NaN is
/// greater than all numbers, and equals NaN.
#[pyfunction]
pub(crate) fn search(
    py: Python<'_>,
    site: &Site,
    sorted: Buffer,
    values: Buffer,
    ranks: Buffer,
    right: bool,
) -> PyResult<()> {
    if sorted.ty() != values.ty() || !matches!(ranks.ty(), Type::I32 | Type::I64) {
        return Err(PyTypeError::new_err(format!(
            "searchsorted: the items are of {}, and the values of {}",
            sorted.ty(),
            values.ty()
        )));
    }
    match site.stream() {
        None => on_host(py, || {
            with_type!(sorted.ty(), T => match ranks.ty() {
                Type::I32 => search_on_host::<T, i32>(sorted, values, ranks, right),
                _ => search_on_host::<T, i64>(sorted, values, ranks, right),
            })
        }),
        Some(stream) => {
            let _current = Current::enter(stream).map_err(failed)?;
            py.detach(|| on_device(stream, sorted, values, ranks, right)).map_err(failed)
        }
    }
}

fn search_on_host<T: PartialOrd + Sync, I: TryFrom<usize> + Default + Send>(
    sorted: Buffer,
    values: Buffer,
    ranks: Buffer,
    right: bool,
) {
    // SAFETY: the Python side's: arrays of these types and lengths, of which it has just made `ranks`.
    let (sorted, values, ranks) = unsafe { (items::<T>(sorted), items::<T>(values), items_mut::<I>(ranks)) };
    ranks.par_iter_mut().with_min_len(1024).zip(values).for_each(|(rank, value)| {
        let precedes = |x: &T| if right { !precedes(value, x) } else { precedes(x, value) };
        // Libraries whose indices have 32 bits have no longer arrays.
        *rank = I::try_from(sorted.partition_point(precedes)).unwrap_or_default();
    });
}

/// `a < b` with NaN after all numbers.
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn precedes<T: PartialOrd>(a: &T, b: &T) -> bool {
    a < b || a == a && b != b
}

/// # Safety
/// The buffer has items `T`, which are not written during `'a`.
unsafe fn items<'a, T>(buffer: Buffer) -> &'a [T] {
    match buffer.len() {
        0 => &[],
        // SAFETY: the caller's.
        n => unsafe { std::slice::from_raw_parts(buffer.address() as *const T, n) },
    }
}

/// # Safety
/// As for [`items`]; nothing else uses them.
unsafe fn items_mut<'a, T>(buffer: Buffer) -> &'a mut [T] {
    match buffer.len() {
        0 => &mut [],
        // SAFETY: the caller's.
        n => unsafe { std::slice::from_raw_parts_mut(buffer.address() as *mut T, n) },
    }
}

const THREADS: usize = 256;

/// The stream's context is current.
fn on_device(stream: &CudaStream, sorted: Buffer, values: Buffer, ranks: Buffer, right: bool) -> Result<(), Error> {
    /// By device, type of the items, and type of the ranks.
    type Loaded = HashMap<(usize, Type, Type), &'static Kernels>;
    static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Default::default);
    if values.len() == 0 {
        return Ok(());
    }
    let context = stream.context();
    let (device, ty) = (context.ordinal(), sorted.ty());
    let key = (device, ty, ranks.ty());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let kernels = match loaded.get(&key) {
        Some(kernels) => *kernels,
        None => {
            let element = with_type!(ty, T => <T as Element>::CUDA);
            let rank = with_type!(ranks.ty(), T => <T as Element>::CUDA);
            let source = format!(
                "#include \"core/types.cuh\"\ntypedef {element} Element;\ntypedef {rank} Rank;\n{}",
                include_str!("search.cu")
            );
            let kernels = Kernels::compile(context, &format!("searchsorted of {ty}"), &source, &["search"])?;
            *loaded.entry(key).or_insert(Box::leak(Box::new(kernels)))
        }
    };
    drop(loaded);
    let (n, count, right) = (sorted.len() as u64, values.len() as u64, u32::from(right));
    let addresses = [sorted, values, ranks].map(|buffer| buffer.address() as u64);
    let blocks = values.len().div_ceil(THREADS).min(1 << 30) as u32;
    let [sorted, values, ranks] = addresses.each_ref().map(|address| std::ptr::from_ref(address).cast());
    let arguments = [
        sorted,
        std::ptr::from_ref(&n).cast(),
        values,
        std::ptr::from_ref(&count).cast(),
        ranks,
        std::ptr::from_ref(&right).cast(),
    ];
    // SAFETY: the arguments are those of search.cu. The arrays are of the library whose current stream this
    // is. The context is current.
    unsafe { kernels.launch(0, blocks, THREADS as u32, stream.cu_stream(), &arguments) }
}
