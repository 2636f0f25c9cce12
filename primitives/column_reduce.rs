//! Reduce by column: the items of each column of a row-major matrix combined into one.

use super::arguments::long_enough;
use super::segmented::whole_rows;
use crate::cuda::Arguments;
use crate::cuda::columns::{self, ColumnsPlan, Work};
use crate::cuda::reduce::check_element;
use crate::memory::{View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Operator, Place, Reduce, Source, Workspace, cpu};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use std::marker::PhantomData;
use std::sync::Arc;

const NAME: &str = "reduce";

/// Reductions along the first axis.
impl<Op: Operator<T>, T: Element, S> Reduce<Op, T, S> {
    /// Reduces each column of a row-major matrix with this many columns.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().columns(3).run(&[1, 2, 3, 10, 20, 30])?, [11, 22, 33]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn columns(self, columns: usize) -> ColumnReduce<Op, T, S> {
        ColumnReduce { init: self.init, columns, site: self.site, operator: PhantomData }
    }
}

/// A reduction of each column of a row-major matrix of items `T` by the operator `Op`: its options,
/// and the calls that run it. Made by [`columns`](Reduce::columns) of a [`Reduce`], whose options
/// carry over.
///
/// | call | output |
/// |---|---|
/// | [`run`](ColumnReduce::run) | new memory, one item a column |
/// | [`run_into`](ColumnReduce::run_into) | the caller's memory, at least one item a column |
///
/// The results of a matrix without rows are [`init`](ColumnReduce::init), else the operator's
/// identity.
///
/// # Cost
/// Items are read once, and each result is written once. On the device that is one launch, for any
/// shape. A matrix without rows takes memory fills instead: one for each four bytes of an item, or for
/// each byte if its alignment is less than four. On the host it takes memory for
/// carries: one for each column and, of a matrix of more than 256 KiB whose items have at most 4 KiB, at most one more
/// for each 32 items.
///
/// # Waiting
/// No call waits for the device. The first use of an operator and element type in a process loads
/// kernels, as for a [`Scan`](crate::Scan).
///
/// # Same bits
/// Items are combined in order. The grouping depends on the numbers of rows and columns and the
/// types of element and carry, so a rounded float sum has the same bits in every run. On the device
/// the grouping of rows of up to 28 bytes also depends on the architecture, and on whether there is
/// NVRTC. Equal columns of one matrix round alike. A call by `len` and one of a known length may
/// round differently.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | a last row that is not whole; an output that is too short |
/// | [`Error::Empty`] | no row, no `init`, and an operator without identity |
/// | [`Error::TooLong`] on the device | more tiles than a grid has blocks |
/// | as for a [`Reduce`] | element, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
///
/// # Source
/// Rows of more than 28 bytes on the device: look-back in fixed groups, after Merrill and Garland,
/// "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
#[derive(Debug)]
#[must_use = "nothing is done until `run` or `run_into`"]
pub struct ColumnReduce<Op, T, S = Anywhere> {
    init: Option<T>,
    columns: usize,
    site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! { impl[Op: Operator<T>, T: Element] ColumnReduce<Op, T; S> { init, columns, operator } }
len_method! {
    /// Whole rows are taken. The items of a last row that is not whole are not used. On the device an operator
    /// without identity needs [`init`](Self::init), the result of no rows.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().columns(2).len(&[5]).run(&[1, 2, 3, 4, 5, 6])?, [4, 6]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element] ColumnReduce<Op, T; S> { init, columns, operator }
}

// ---- options

impl<Op: Operator<T>, T: Element, S> ColumnReduce<Op, T, S> {
    /// Combines this value before the first item of each column.
    ///
    /// ```
    /// # use parascan::{Last, reduce};
    /// assert_eq!(reduce::<Last, i32>().columns(2).init(-1).run(&[])?, [-1, -1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.init = Some(init);
        self
    }

    // ---- prepare

    /// Loads the kernels and grows the workspace for calls with up to `rows` rows of this builder's
    /// columns.
    ///
    /// After this [`run_into`](ColumnReduce::run_into) allocates nothing, never synchronises, and
    /// can be captured into a graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, [`Error::TooLong`], and those of the
    /// driver and the compiler.
    pub fn prepare(&self, rows: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        let device = Submit::prepare(NAME, workspace)?;
        check_element::<T>(NAME)?;
        let (kernels, form) = columns::load::<Op, T>(Work::Reduce, self.columns, S::IS_COUNTED, &device)?;
        let plan =
            ColumnsPlan::up_to::<Op, T>(Work::Reduce, form, [rows, self.columns], kernels.machine().architecture)?;
        workspace.reserve(NAME, plan.words, plan.scratch).map(|_| ())
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, S> ColumnReduce<Op, T, S> {
    /// Returns the results in new memory, one item a column: a `Vec` or a `CudaSlice`.
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        S: Site<I::Place>,
    {
        let view = input.view();
        let checked = self.checked::<I::Place>(&view)?;
        let mut output = input.allocate(NAME, self.columns, self.site.stream())?;
        self.dispatch::<I::Place>(view, checked, I::view_owned(&mut output))?;
        Ok(output)
    }

    /// Writes the results into the caller's memory. What lies past the last one is not changed.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// let mut totals = [0.0; 3];
    /// reduce::<Sum, f32>().columns(2).run_into(&[1.0, 2.0, 4.0, 8.0], &mut totals)?;
    /// assert_eq!(totals, [5.0, 10.0, 0.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        let view = input.view();
        let checked = self.checked::<I::Place>(&view)?;
        self.dispatch::<I::Place>(view, checked, output.view_mut())
    }

    // ---- on either engine

    /// # Errors
    /// [`Error::Size`], [`Error::Empty`].
    fn checked<P: Place>(&self, input: &View<'_, T>) -> Result<Checked<Op::Carry>, Error>
    where
        S: Site<P>,
    {
        let (n, columns) = (input.len(), self.columns);
        whole_rows(NAME, n, columns)?;
        let (n, is_known) = match input {
            View::Host(_) => (counted(NAME, self.site.count(), n)?, true),
            View::Device(_) => (n, !S::IS_COUNTED),
        };
        let rows = n.checked_div(columns).unwrap_or(0);
        let first = self.init.map(Op::lift);
        let empty = first.or(Op::IDENTITY);
        if columns > 0 && (rows == 0 || !is_known) && empty.is_none() {
            return Err(Error::Empty { primitive: NAME });
        }
        Ok((rows, [first, empty]))
    }

    /// `checked` is that of the input.
    fn dispatch<P: Place>(
        mut self,
        input: View<'_, T>,
        checked: Checked<Op::Carry>,
        mut output: ViewMut<'_, T>,
    ) -> Result<(), Error>
    where
        S: Site<P>,
    {
        let columns = self.columns;
        long_enough(NAME, "the output", output.len(), columns)?;
        match input {
            View::Host(input) => {
                assert!(P::ON_HOST);
                let output = &mut output.host()[..columns];
                if let (0, [_, Some(empty)]) = checked {
                    output.fill(Op::lower(empty));
                    return Ok(());
                }
                let (rows, [first, _]) = checked;
                cpu::columns::reduce::<Op, T>(&input[..rows * columns], first, output)
            }
            View::Device(input) => {
                assert!(P::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                on_device::<Op, T>(&stream, input, output.device(), columns, checked, self.site.take())
            }
        }
    }
}

/// The number of rows, on the device at most; the value before the first item of a column; and the result of a
/// column without items, which there is if there may be such.
type Checked<C> = (usize, [Option<C>; 2]);

fn on_device<Op: Operator<T>, T: Element>(
    stream: &Arc<CudaStream>,
    input: &dyn DevicePtr<T>,
    output: &mut dyn DevicePtrMut<T>,
    columns: usize,
    (rows, first_and_empty): Checked<Op::Carry>,
    (workspace, count): (Option<&mut Workspace>, Option<View<'_, u64>>),
) -> Result<(), Error> {
    let count = count.map(|count| count.device());
    let submit = Submit::new(NAME, stream);
    submit.uses("the input", input.stream())?;
    submit.uses("the output", output.stream())?;
    submit.counts(count)?;
    if columns == 0 {
        return Ok(());
    }
    submit.begin()?;
    check_element::<T>(NAME)?;
    // The guards order the work against other streams; they live until it is launched.
    let (output, _written) = output.device_ptr_mut(stream);
    if let (0, [_, Some(empty)]) = (rows, first_and_empty) {
        // SAFETY: the output is one item a column on this device, by `long_enough`, and its guard
        // keeps it until the fills are on the stream, whose context was bound by `begin`.
        return unsafe { columns::fill(output, columns, Op::lower(empty), submit.device(), stream.cu_stream()) };
    }
    let (kernels, form) = columns::load::<Op, T>(Work::Reduce, columns, count.is_some(), &submit)?;
    let plan = ColumnsPlan::new::<Op, T>(Work::Reduce, form, [rows, columns], kernels.machine().architecture)?;
    let (input, _read) = input.device_ptr(stream);
    let (length, _counted) = count.map(|count| count.device_ptr(stream)).unzip();
    let [first, empty] = first_and_empty.map(|carry| carry.map(Op::to_cuda));
    let (exclusive, reverse) = (false, false);
    submit.with_memory(workspace, plan.words, plan.scratch, |words, scratch| {
        let arguments = Arguments { input, output, n: rows, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: the kernels are those of the types, and the plan is for the matrix, which has a
        // row, as one without has a result. The input has whole rows on this device, by its
        // type and `whole_rows`, the output one item a column, by `long_enough`, and the guards keep
        // them. The words are the workspace's, as large as the plan asks for, and zero. The stream's
        // context was bound by `begin`.
        unsafe { arguments.launch_columns(&plan, kernels, stream.cu_stream()) }
    })
}
