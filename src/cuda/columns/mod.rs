//! Scan and reduce along the first axis of a matrix on the device: the plan and the launch.

use super::contract::{BEFORE_STATUS, status_bytes};
use super::kernels::Kernels;
use super::library::{self, Program};
use super::reduce::LARGEST_ELEMENT;
use super::scan::unit::Unit;
use super::scan::unit_of;
use crate::{Element, Error, Operator};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::ffi::c_void;

pub(crate) mod contract;
use contract::{COLUMNS_EXCLUSIVE, COLUMNS_INIT, COLUMNS_REVERSE, Matrix};

const NAME: &str = "columns";
const KERNELS: [&str; 2] = ["scan_columns", "reduce_columns"];

/// Threads of a block.
const THREADS: usize = 256;
/// The most columns of a panel: those that a warp reads at a time.
const WIDEST: usize = 32;
/// Bytes of a thread's run of rows.
const RUN_BYTES: usize = 52;
/// The fewest tiles of a look-back group, and the fewest that a thread polls.
const LEAST_GROUP: usize = 128;
const LEAST_POLLED: usize = 4;

/// Rows of a thread for elements of `size` bytes: an odd number.
fn run(size: usize) -> usize {
    let run = (RUN_BYTES / size).max(3);
    run - usize::from(run.is_multiple_of(2))
}

/// The text of the unit of an operator on an element.
fn columns_source(unit: &Unit) -> String {
    let shape = format!("constexpr u32 THREADS = {THREADS}, RUN = {};\n", run(unit.element.size));
    unit.around("columns/columns.cuh", "", &shape, "columns/kernels.cuh")
}

/// The plan of a call on a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnsPlan {
    matrix: Matrix,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
}

impl ColumnsPlan {
    /// The plan for a matrix of `rows` rows.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks, [`Error::ElementSize`] for
    /// elements that no kernel takes.
    pub(crate) fn new<Op: Operator<T>, T: Element>(
        primitive: &'static str,
        rows: usize,
        columns: usize,
    ) -> Result<ColumnsPlan, Error> {
        let size = size_of::<T>();
        if !(1..=LARGEST_ELEMENT).contains(&size) {
            return Err(Error::ElementSize { primitive, size });
        }
        // Panels are about equally wide.
        let panels = columns.div_ceil(WIDEST);
        let width = columns.div_ceil(panels.max(1)).max(1);
        let runs = THREADS / width;
        let tiles = rows.div_ceil(runs * run(size));
        let group = runs * LEAST_GROUP.div_ceil(runs).max(LEAST_POLLED);
        let groups = tiles.div_ceil(group);
        const MOST_BLOCKS: usize = i32::MAX as usize;
        if tiles.checked_mul(panels).is_none_or(|blocks| blocks >= MOST_BLOCKS) {
            return Err(Error::TooLong { primitive, n: rows.saturating_mul(columns), most: MOST_BLOCKS });
        }
        let status = status_bytes(size_of::<Op::Carry>());
        let words = match tiles {
            0 | 1 => 0,
            _ => BEFORE_STATUS + (groups * panels).next_multiple_of(4) * 4 + (groups + tiles) * columns * status,
        };
        let matrix = Matrix {
            rows: rows as u64,
            columns: columns as u64,
            width: width as u32,
            panels: panels as u32,
            tiles: tiles as u32,
            group: group as u32,
            groups: groups as u32,
            flags: 0,
        };
        Ok(ColumnsPlan { matrix, words })
    }
}

/// The kernels, if they are loaded.
pub(crate) fn loaded<Op: Operator<T>, T: Element>(device: usize) -> Option<&'static Kernels> {
    library::loaded(TypeId::of::<(Op, T)>(), NAME, device)
}

/// The kernels for the device, whose context is current. Loads them unless they are loaded.
pub(crate) fn load<Op: Operator<T>, T: Element>(device: usize) -> Result<&'static Kernels, Error> {
    library::load(TypeId::of::<(Op, T)>(), NAME, device, &KERNELS, &|| Program {
        name: format!("columns::<{}, {}>", type_name::<Op>(), type_name::<T>()),
        source: columns_source(&unit_of::<Op, T>()),
        built_in: None,
    })
}

/// The arguments of a call; `first` is in the form of `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnsArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    /// The value before each column's first item: `init`, or the identity of an exclusive scan. An
    /// exclusive scan has one.
    pub(crate) first: Option<C>,
    pub(crate) exclusive: bool,
    pub(crate) reverse: bool,
    /// Whether the output is one result a column.
    pub(crate) is_reduce: bool,
    /// `ColumnsPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
}

impl<C: Element> ColumnsArguments<C> {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the operator and its element, and the plan is for the matrix, which
    ///   has at least one item.
    /// - Input and output are the matrix in device memory, equal or disjoint, or in a reduce the
    ///   output is one element a column. The address of words is a multiple of 16. All are valid
    ///   until the stream is past the call, and nothing else uses the words until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(&self, plan: &ColumnsPlan, kernels: &Kernels, stream: CUstream) -> Result<(), Error> {
        fn p<A>(argument: &A) -> *const c_void {
            std::ptr::from_ref(argument).cast()
        }
        let ColumnsArguments { input, output, first, exclusive, reverse, is_reduce, words } = *self;
        let flags = (if exclusive { COLUMNS_EXCLUSIVE } else { 0 })
            | (if reverse { COLUMNS_REVERSE } else { 0 })
            | (if first.is_some() { COLUMNS_INIT } else { 0 });
        let (matrix, init) = (Matrix { flags, ..plan.matrix }, first.unwrap_or_else(C::zeroed));
        let arguments = [p(&input), p(&output), p(&matrix), p(&init), p(&words)];
        let blocks = matrix.tiles * matrix.panels;
        // SAFETY: the arguments are those of the kernels in columns/kernels.cuh; the caller vouches
        // for the rest.
        unsafe { kernels.launch(usize::from(is_reduce), blocks, THREADS as u32, stream, &arguments) }
    }
}

/// Fills the results of a matrix without rows. Does not wait, and can be captured.
///
/// # Safety
/// `output` is `columns` elements of device memory, valid until the stream is past the call. The
/// stream's context is current.
pub(crate) unsafe fn fill<T: Element>(
    output: CUdeviceptr,
    columns: usize,
    value: T,
    device: usize,
    stream: CUstream,
) -> Result<(), Error> {
    // A driver call writes one unit of all items: a column of a matrix with a row an item.
    let (pitch, bytes) = (size_of::<T>(), bytemuck::bytes_of(&value));
    if align_of::<T>().is_multiple_of(4) {
        for (k, &word) in bytes.as_chunks().0.iter().enumerate() {
            let (at, word) = (output + 4 * k as CUdeviceptr, u32::from_ne_bytes(word));
            // SAFETY: the caller's: word k of each item lies in the output, at a multiple of 4.
            let filled = unsafe { sys::cuMemsetD2D32Async(at, pitch, word, 1, columns, stream) };
            super::check("cuMemsetD2D32Async", device, filled)?;
        }
    } else {
        for (at, &byte) in (output..).zip(bytes) {
            // SAFETY: the caller's: this byte of each item lies in the output.
            let filled = unsafe { sys::cuMemsetD2D8Async(at, pitch, byte, 1, columns, stream) };
            super::check("cuMemsetD2D8Async", device, filled)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{Compose, Matrix as Matrices, Transitions};
    use crate::{Last, Max, Sum};

    #[test]
    fn every_kernel_compiles() {
        let mut texts = Vec::new();
        macro_rules! collect {
            ($($op:ty, $t:ty;)*) => { $(
                let source = columns_source(&unit_of::<$op, $t>());
                texts.extend([75, 90].map(|a| (a, stringify!($op on $t).to_owned(), source.clone())));
            )* };
        }
        collect! {
            Sum, u8; Max, i16; Sum, half::f16; Sum, f32; Sum, f64; Last, u64;
            Compose, Matrices<u64>; Compose, Transitions;
        }
        library::compile_all(texts);
    }

    #[test]
    fn parts() {
        library::parts_have_a_kernel_each(&columns_source(&unit_of::<Sum, f32>()), &KERNELS);
    }

    /// The run is odd, so that the runs of a warp begin in different banks, and a tile fits.
    #[test]
    fn runs_are_odd() {
        for size in 1..=LARGEST_ELEMENT {
            assert!(run(size) % 2 == 1 && THREADS * run(size) * size <= 32 << 10, "{size}: {}", run(size));
        }
    }

    /// Every item is in a tile, and a group's tiles are shared evenly among a column's threads.
    #[test]
    fn tiles_cover_the_matrix() {
        for (rows, columns) in [(1, 1), (1 << 25, 2), (1 << 13, 1 << 13), (1000, 33), (7, 100_000), (1 << 20, 31)] {
            let matrix = ColumnsPlan::new::<Sum, f32>("scan", rows, columns).unwrap().matrix;
            let (width, runs) = (matrix.width as usize, THREADS / matrix.width as usize);
            assert!(width <= WIDEST && width * matrix.panels as usize >= columns);
            assert!((matrix.panels as usize - 1) * width < columns, "every panel has a column");
            assert!(matrix.tiles as usize * runs * run(4) >= rows);
            assert!((matrix.tiles as usize - 1) * runs * run(4) < rows, "every tile has a row");
            assert_eq!(matrix.group as usize % runs, 0);
        }
    }

    /// A workspace prepared for some rows serves fewer.
    #[test]
    fn fewer_rows_need_no_more_words() {
        const RUN: usize = 3; // of elements of 32 bytes
        for columns in (0..=70).chain([95, 96, 97, 1000, 4097]) {
            let tiles = (1..4000).flat_map(|k| [k * RUN * THREADS / 2, k * RUN * THREADS / 2 + 1]);
            let words = |rows| ColumnsPlan::new::<Compose, Matrices<u64>>("scan", rows, columns).unwrap().words;
            let words: Vec<usize> = (0..RUN * THREADS / 2).chain(tiles).map(words).collect();
            assert!(words.is_sorted(), "{columns} columns");
        }
    }
}
