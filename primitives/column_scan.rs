//! Scan by column: all prefixes along the first axis of a row-major matrix.

use super::scan_engines::{Memory, NAME, NO_IDENTITY, OnDevice, Options};
use super::segmented::whole_rows;
use crate::cuda::Arguments;
use crate::cuda::columns::{self, ColumnsPlan, Work};
use crate::cuda::reduce::check_element;
use crate::memory::{View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Operator, Place, Scan, Source, Workspace, cpu};
use cudarc::driver::{CudaStream, DevicePtr};
use std::marker::PhantomData;
use std::sync::Arc;

/// Scans along the first axis.
impl<Op: Operator<T>, T: Element, S> Scan<Op, T, S> {
    /// Scans each column of a row-major matrix with this many columns.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().columns(3).run(&[1, 2, 3, 10, 20, 30])?, [1, 2, 3, 11, 22, 33]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn columns(self, columns: usize) -> ColumnScan<Op, T, S> {
        ColumnScan { options: self.options, columns, site: self.site, operator: PhantomData }
    }
}

/// A scan of each column of a row-major matrix of items `T` by the operator `Op`: its options, and
/// the calls that run it. Made by [`columns`](Scan::columns) of a [`Scan`], whose options carry over.
///
/// | call | output |
/// |---|---|
/// | [`run`](ColumnScan::run) | new memory of the input's length |
/// | [`run_into`](ColumnScan::run_into) | the caller's memory, of the input's length |
/// | [`run_in_place`](ColumnScan::run_in_place) | the input's memory |
///
/// Each column is scanned as by a [`Scan`] of its items alone: the output in row r combines the
/// column's inputs in the rows `0..=r`.
///
/// # Cost
/// Items are read and written once. On the device that is one launch, for any shape. Most rows of
/// up to 28 bytes, and carries of as many, are scanned as elements, if there is NVRTC. Other rows
/// are cut into panels of up to 128 bytes and 96 columns, or 16 columns if that is more, and wider
/// ones of few rows. On the host a matrix of more than 256 KiB takes memory for carries: one for
/// each column and, if no item has more than 4 KiB, at most one more for each 32 items.
///
/// # Waiting
/// As a [`Scan`].
///
/// # Same bits
/// Operands are combined in scan order. The grouping depends on the numbers of rows and columns and
/// the types of element and carry, so a rounded float sum has the same bits in every run. On the
/// device the grouping of rows of up to 28 bytes also depends on the architecture, and on whether
/// there is NVRTC. Equal columns of one matrix round alike. A call by `len` and one of a known
/// length may round differently.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Length`] | input and output differ in length |
/// | [`Error::Size`] | a last row that is not whole |
/// | [`Error::Strategy`] | a strategy other than [`Strategy::Auto`](crate::Strategy::Auto) |
/// | [`Error::TooLong`] on the device | more tiles than a grid has blocks |
/// | as for a [`Scan`] | element, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error. Length zero is valid.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
///
/// # Source
/// A single pass over the tiles of a panel, as a [`Scan`]'s. On the device these are joined by
/// look-back in fixed groups, after Merrill and Garland, "Single-pass Parallel Prefix Scan with
/// Decoupled Look-back" (2016).
///
/// # Example
/// ```
/// use parascan::{Max, Sum, scan};
///
/// let (mut x, mut before) = ([1, 2, 3, 4, 5, 6], [0; 6]); // three rows of two columns
/// scan::<Sum, i32>().columns(2).exclusive().run_into(&x, &mut before)?;
/// assert_eq!(before, [0, 0, 1, 2, 4, 6]);
/// scan::<Max, i32>().columns(2).reverse().run_in_place(&mut x)?;
/// assert_eq!(x, [5, 6, 5, 6, 5, 6]);
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a scan does nothing until `run`, `run_into` or `run_in_place`"]
pub struct ColumnScan<Op, T, S = Anywhere> {
    options: Options<T>,
    columns: usize,
    site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! { impl[Op: Operator<T>, T: Element] ColumnScan<Op, T; S> { options, columns, operator } }
len_method! {
    /// Whole rows are taken. The items of a last row that is not whole are neither read nor written.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let (x, mut sums) = ([1, 2, 3, 4, 5, 6], [0; 6]);
    /// scan::<Sum, i32>().columns(2).len(&[5]).run_into(&x, &mut sums)?;
    /// assert_eq!(sums, [1, 2, 4, 6, 0, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element] ColumnScan<Op, T; S> { options, columns, operator }
}

// ---- options

impl<Op: Operator<T>, T: Element, S> ColumnScan<Op, T, S> {
    /// Each output combines its column's inputs up to its own. This is the default.
    pub fn inclusive(mut self) -> Self {
        self.options.exclusive = false;
        self
    }

    /// Each output combines its column's inputs before its own; the first row of outputs is `init`,
    /// or the operator's identity without one.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().columns(2).exclusive().run(&[1, 2, 3, 4])?, [0, 0, 1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// Does not compile for an operator without identity: write
    /// [`.exclusive_from(first)`](ColumnScan::exclusive_from) instead.
    ///
    /// ```compile_fail,E0080
    /// # use parascan::{Last, scan};
    /// scan::<Last, i32>().columns(2).exclusive(); // fails to compile
    /// ```
    pub fn exclusive(mut self) -> Self {
        const { assert!(Op::IDENTITY.is_some(), "{}", NO_IDENTITY) };
        self.options.exclusive = true;
        self
    }

    /// Each output combines `first` and its column's inputs before its own; for operators without
    /// identity too.
    ///
    /// ```
    /// # use parascan::{Last, scan};
    /// assert_eq!(scan::<Last, i32>().columns(2).exclusive_from(-1).run(&[1, 2, 3, 4])?, [-1, -1, 1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn exclusive_from(mut self, first: T) -> Self {
        self.options.exclusive = true;
        self.options.init = Some(first);
        self
    }

    /// Combines this value before the first input of each column, in inclusive scans too.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().columns(2).init(10).run(&[1, 2, 3, 4])?, [11, 12, 14, 16]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.options.init = Some(init);
        self
    }

    /// Scans each column from its last row to its first, operand order included.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().columns(2).reverse().run(&[1, 2, 3, 4])?, [4, 6, 3, 4]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn reverse(mut self) -> Self {
        self.options.reverse = !self.options.reverse;
        self
    }

    // ---- prepare

    /// Loads the kernels and grows the workspace for [`run_into`](ColumnScan::run_into) and
    /// [`run_in_place`](ColumnScan::run_in_place) of up to `rows` rows of this builder's columns.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
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
        let (kernels, form) = columns::load::<Op, T>(Work::Scan, self.columns, S::IS_COUNTED, &device)?;
        let plan = ColumnsPlan::up_to::<Op, T>(Work::Scan, form, [rows, self.columns], kernels.machine().architecture)?;
        workspace.reserve(NAME, plan.words, plan.scratch).map(|_| ())
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, S> ColumnScan<Op, T, S> {
    /// Returns the result in new memory of the input's length: a `Vec` or a `CudaSlice`.
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        S: Site<I::Place>,
    {
        let view = input.view();
        let mut output = input.allocate(NAME, view.len(), self.site.stream())?;
        self.dispatch::<I::Place>(Some(view), I::view_owned(&mut output))?;
        Ok(output)
    }

    /// Writes the result into the caller's memory, as long as the input.
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        self.dispatch::<I::Place>(Some(input.view()), output.view_mut())
    }

    /// Replaces the input by the result.
    pub fn run_in_place<X>(self, data: &mut X) -> Result<(), Error>
    where
        X: Source<T> + Destination<T, <X as Source<T>>::Place> + ?Sized,
        S: Site<<X as Source<T>>::Place>,
    {
        self.dispatch::<<X as Source<T>>::Place>(None, data.view_mut())
    }

    // ---- on either engine

    /// In place `input` is `None`.
    fn dispatch<'a, P: Place>(mut self, input: Option<View<'a, T>>, output: ViewMut<'a, T>) -> Result<(), Error>
    where
        S: Site<P>,
    {
        let (n, options, columns) = (output.len(), self.options, self.columns);
        let memory = Memory::of(input, output)?;
        options.only_auto()?;
        whole_rows(NAME, n, columns)?;
        let rows = |n: usize| n.checked_div(columns).unwrap_or(0);
        match memory {
            Memory::Host(input, output) => {
                assert!(P::ON_HOST);
                let shape = [rows(counted(NAME, self.site.count(), n)?), columns];
                let Options { exclusive, reverse, .. } = options;
                let first = options.first::<Op>();
                // SAFETY: the slices of `Memory` have `n` elements, and the matrix has no more.
                unsafe { cpu::columns::scan::<Op, T>(input, output, shape, exclusive, first, reverse) }
            }
            Memory::Device(items) => {
                assert!(P::ON_DEVICE);
                let stream = items.stream(self.site.stream());
                let (workspace, count) = self.site.take();
                let count = count.map(|count| count.device());
                on_device::<Op, T>(options, &stream, items, [rows(n), columns], count, workspace)
            }
        }
    }
}

fn on_device<Op: Operator<T>, T: Element>(
    options: Options<T>,
    stream: &Arc<CudaStream>,
    mut items: OnDevice<'_, T>,
    [rows, columns]: [usize; 2],
    count: Option<&dyn DevicePtr<u64>>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    let (n, submit) = (items.len(), Submit::new(NAME, stream));
    items.check(&submit)?;
    submit.counts(count)?;
    if n == 0 {
        return Ok(());
    }
    submit.begin()?;
    check_element::<T>(NAME)?;
    let (kernels, form) = columns::load::<Op, T>(Work::Scan, columns, count.is_some(), &submit)?;
    let plan = ColumnsPlan::new::<Op, T>(Work::Scan, form, [rows, columns], kernels.machine().architecture)?;
    let ([input, output], _guards) = items.addresses(stream);
    let (length, _counted) = count.map(|count| count.device_ptr(stream)).unzip();
    let Options { exclusive, reverse, .. } = options;
    let (first, empty) = (options.first::<Op>().map(Op::to_cuda), None);
    submit.with_memory(workspace, plan.words, plan.scratch, |words, scratch| {
        let arguments = Arguments { input, output, n: rows, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: the kernels are those of the types, and the plan is for the matrix, which has n items
        // by `whole_rows`; input and output have n elements each on this device, by their types, and the
        // guards keep them; the words are the workspace's, as large as the plan asks for, and zero; the
        // stream's context was bound by `begin`.
        unsafe { arguments.launch_columns(&plan, kernels, stream.cu_stream()) }
    })
}
