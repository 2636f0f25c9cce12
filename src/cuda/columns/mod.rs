//! Scan and reduce along the first axis of a matrix on the device: the programs and the launch.

use super::arguments::Arguments;
use super::kernels::{Kernels, opt, p, present};
use super::library::{self, Caller, Program};
use super::reduce::{self, ReduceProgram};
use super::scan::{self, ScanProgram, unit_of};
use super::unit::{with_length, with_length_of};
use crate::{Element, Error, Operator, Strategy};
use cudarc::driver::sys::{self, CUdeviceptr, CUresult, CUstream};
use std::any::{TypeId, type_name};

pub(crate) mod contract;
mod plan;
mod tuning;
mod unit;
use contract::{COLUMNS_EXCLUSIVE, COLUMNS_INIT, COLUMNS_REVERSE, Matrix};
use plan::Cut;
pub(crate) use plan::{ColumnsPlan, Form};
pub(crate) use tuning::Work;
use tuning::{ROW_BYTES, THREADS};
use unit::{PANELS, panels_key, panels_source, rows_source};

const KERNELS: [&str; 2] = ["scan_columns", "reduce_columns"];

/// The names of the programs on panels, and of those that read the number of items from memory.
const PANEL_PROGRAMS: [&str; 2] = [PANELS, "columns of a length in memory"];

/// The same on rows, by the number of columns.
macro_rules! programs {
    ($primitive:literal: $($columns:literal)*) => { [
        [$(concat!($primitive, " of rows of ", $columns)),*],
        [$(concat!($primitive, " of a length in memory, of rows of ", $columns)),*],
    ] };
}
type Programs = [[&'static str; ROW_BYTES + 1]; 2];
const SCAN_PROGRAMS: Programs =
    programs!("scan": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28);
const REDUCE_PROGRAMS: Programs =
    programs!("reduce": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28);

fn program_of_rows(work: Work, columns: usize, is_counted: bool) -> (&'static str, &'static [&'static str]) {
    match work {
        Work::Scan => (SCAN_PROGRAMS[usize::from(is_counted)][columns], scan::KERNELS),
        Work::Reduce => (REDUCE_PROGRAMS[usize::from(is_counted)][columns], &reduce::KERNELS),
    }
}

/// The kernels for a matrix of `columns` columns, and how they take it; if `is_counted` they read the number of items
/// from memory. Loads them unless they are loaded.
///
/// Only a compiler makes the kernels for rows. If there is none, or none that works, embedded kernels for panels take
/// every matrix.
pub(crate) fn load<Op: Operator<T>, T: Element>(
    work: Work,
    columns: usize,
    is_counted: bool,
    caller: &dyn Caller,
) -> Result<(&'static Kernels, Form), Error> {
    let types = TypeId::of::<(Op, T)>();
    let load = |program: &'static str, names: &[&str], built_in, source: &dyn Fn() -> String| {
        library::load(types, program, caller, names, &|| Program {
            name: format!("{program}::<{}, {}>", type_name::<Op>(), type_name::<T>()),
            source: source(),
            built_in,
        })
    };
    let built_in = const { library::built_in(panels_key(&unit_of::<Op, T>())) }.filter(|_| !is_counted);
    let panels = || {
        load(PANEL_PROGRAMS[usize::from(is_counted)], &KERNELS, built_in, &|| {
            let source = panels_source(&unit_of::<Op, T>());
            if is_counted { with_length(&source) } else { source }
        })
    };
    let form = Form::of::<Op, T>(columns);
    let kernels = match (form, work) {
        (Form::Sequence, Work::Scan) if is_counted => {
            scan::load::<Op, T>(ScanProgram::counted(Strategy::Auto)?, caller)
        }
        (Form::Sequence, Work::Reduce) if is_counted => ReduceProgram::counted::<Op, T>().load(caller),
        (Form::Sequence, Work::Scan) => scan::load::<Op, T>(ScanProgram::of(Strategy::Auto), caller),
        (Form::Sequence, Work::Reduce) => ReduceProgram::value::<Op, T>().load(caller),
        (Form::Rows, _) => {
            let (program, names) = program_of_rows(work, columns, is_counted);
            let rows = load(program, names, None, &|| {
                let source = rows_source(&unit_of::<Op, T>(), work, columns);
                if is_counted { with_length_of(columns, &source) } else { source }
            });
            let are_embedded = built_in.is_some_and(|unit| !unit.images.is_empty());
            rows.or_else(|e| match e {
                Error::NoCompiler { .. } | Error::Compiler { .. } | Error::Compile { .. } | Error::Driver { .. }
                    if are_embedded =>
                {
                    // Memory may be there for the next call.
                    let lasts = !matches!(e, Error::Driver { code: CUresult::CUDA_ERROR_OUT_OF_MEMORY, .. });
                    let stand_in = |panels| {
                        if lasts { library::stand_in(types, program, caller, panels) } else { panels }
                    };
                    panels().map(stand_in).map_err(|_| e)
                }
                e => Err(e),
            })
        }
        (Form::Panels, _) => panels(),
    }?;
    Ok((kernels, if kernels.names() == KERNELS { Form::Panels } else { form }))
}

impl<C: Element> Arguments<C> {
    /// Launches the kernel for a matrix of `n` rows. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the operator and its element for the matrix, counted ones with a
    ///   `length`, and the plan is for the matrix and the kernels' architecture. The matrix has at least
    ///   one item. A `length` is a `u64` of device memory.
    /// - Input and output are the matrix in device memory, equal or disjoint, or in a reduce the
    ///   output is one element a column. The addresses of words and scratch memory are multiples of
    ///   16. All are valid until the stream is past the call, and nothing else uses words and
    ///   scratch memory until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch_columns(
        &self,
        plan: &ColumnsPlan,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let Arguments { input, output, n, length, exclusive, reverse, words, scratch, .. } = *self;
        // A row has a carry of each column, and at most `ROW_BYTES` of them. The kernel reads those
        // of its columns.
        let [first, empty] = [self.first, self.empty].map(|carry| carry.map(|carry| [carry; ROW_BYTES]));
        let of_rows = Arguments { input, output, n, length, first, empty, exclusive, reverse, words, scratch };
        match plan.cut {
            // SAFETY: the caller's: the kernels are those of scan on rows.
            Cut::ScanRows(plan) => unsafe { of_rows.launch_scan(&plan, kernels, stream) },
            // SAFETY: the caller's: the kernels are those of reduce on rows.
            Cut::ReduceRows(plan) => unsafe { of_rows.launch_reduce(&plan, kernels, stream) },
            Cut::Panels(work, matrix) => {
                let flags = (if exclusive { COLUMNS_EXCLUSIVE } else { 0 })
                    | (if reverse { COLUMNS_REVERSE } else { 0 })
                    | (if self.first.is_some() { COLUMNS_INIT } else { 0 });
                let init = self.first.or(self.empty).unwrap_or_else(C::zeroed);
                let matrix = Matrix { flags, ..matrix };
                let arguments = [p(&input), p(&output), p(&matrix), p(&init), p(&words), opt(&length)];
                let blocks = matrix.tiles * matrix.panels;
                // SAFETY: the arguments are those of the kernels in columns/kernels.cuh; the caller
                // vouches for the rest.
                unsafe { kernels.launch(work as usize, blocks, THREADS as u32, stream, present(&arguments)) }
            }
        }
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
    fn panels_of_the_catalog_are_built_in() {
        fn check<Op: Operator<T>, T: Element>(expected: bool) {
            let unit = unit_of::<Op, T>();
            assert_eq!(library::is_built_in(panels_key(&unit), &panels_source(&unit)), expected);
        }
        check::<Sum, i32>(true);
        check::<Sum, half::f16>(true);
        check::<Max, f32>(true);
        check::<Last, u64>(true);
        check::<Compose, Transitions>(false);
    }

    #[test]
    fn every_kernel_compiles() {
        let mut texts = Vec::new();
        macro_rules! collect {
            ($($op:ty, $t:ty, $columns:expr;)*) => { $(
                let unit = unit_of::<$op, $t>();
                let mut add = |kind: &str, source: String| {
                    let name = format!("{} on {}, {kind}", stringify!($op), stringify!($t));
                    texts.push(([75, 90][texts.len() % 2], name, source));
                };
                add("panels", panels_source(&unit));
                add("panels of a length in memory", with_length(&panels_source(&unit)));
                for columns in $columns {
                    assert_eq!(Form::of::<$op, $t>(columns), Form::Rows);
                    add(&format!("scan of rows of {columns}"), rows_source(&unit, Work::Scan, columns));
                    add(&format!("reduce of rows of {columns}"), rows_source(&unit, Work::Reduce, columns));
                    let work = [Work::Scan, Work::Reduce][columns % 2];
                    let source = with_length_of(columns, &rows_source(&unit, work, columns));
                    add(&format!("{work:?} of a length in memory, of rows of {columns}"), source);
                }
            )* };
        }
        collect! {
            Sum, u8, [3, 7, 28]; Max, i16, [5]; Sum, half::f16, [6]; Sum, f32, [2, 7]; Sum, f64, [3]; Last, u64, [3];
            Compose, Matrices<u64>, [0; 0]; Compose, Transitions, [2];
        }
        library::compile_all(texts);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let unit = unit_of::<Sum, f32>();
        library::parts_have_a_kernel_each(&panels_source(&unit), &KERNELS);
        library::parts_have_a_kernel_each(&with_length(&panels_source(&unit)), &KERNELS);
        for work in [Work::Scan, Work::Reduce] {
            library::parts_have_a_kernel_each(&rows_source(&unit, work, 2), program_of_rows(work, 2, false).1);
        }
    }

    /// Where a compiler makes no kernels of rows, embedded kernels take every matrix, the first time and
    /// later.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_compiler_that_makes_no_kernels() {
        use crate::cuda::compiler::Folder;
        use crate::cuda::fakes::{alone, compiler, driver, incomplete_compiler, library, printed};
        let folder = Folder::new("columns");
        let Some(mut command) = alone(a_compiler_that_makes_no_kernels, &folder.0) else {
            for work in [Work::Scan, Work::Scan, Work::Reduce] {
                println!("by {:?}", load::<Sum, u32>(work, 3, false, &0).map(|(_, form)| form).ok());
            }
            return println!("own: {:?}", load::<Compose, Transitions>(Work::Scan, 2, false, &0).is_ok());
        };
        let incomplete = library(&folder, "incomplete.so", &incomplete_compiler(12, 90));
        let newer = compiler(&folder, "newer.so", 13, 90);
        let (Some(incomplete), Some(newer), Some(_)) = (incomplete, newer, driver(&folder, 12040)) else { return };
        for nvrtc in [incomplete, newer, folder.0.join("none.so")] {
            let said = printed(command.env("PARASCAN_NVRTC", &nvrtc));
            let form = (crate::cuda::IMAGES != 0).then_some(Form::Panels);
            let by = format!("by {form:?}\n").repeat(3);
            assert!(said.contains(&format!("{by}own: false\n")), "{nvrtc:?}: {said}");
        }
    }

    /// Names belong to their numbers.
    #[test]
    fn names_of_rows() {
        assert_eq!(program_of_rows(Work::Scan, 13, false).0, "scan of rows of 13");
        assert_eq!(program_of_rows(Work::Reduce, ROW_BYTES, false).0, "reduce of rows of 28");
        assert_eq!(program_of_rows(Work::Scan, 7, true).0, "scan of a length in memory, of rows of 7");
    }
}
