//! Reduce: all items combined into one, under any associative operator.

use super::arguments::long_enough;
use crate::cuda::{
    self, Arguments,
    reduce::{ReduceProgram, check_element},
};
use crate::memory::{View, is_capturing};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Operator, Place, Source, Workspace, cpu};
use bytemuck::Zeroable;
use cudarc::driver::sys::{self, CUdeviceptr};
use cudarc::driver::{DevicePtr, DevicePtrMut};
use std::marker::PhantomData;

const NAME: &str = "reduce";
const WAITS: &str = "a call that returns the result waits for it; use run_into or position_into with a workspace";

/// Combines all items `T` under the operator `Op`, in order.
///
/// Returns a builder; [`Reduce`] lists its options. The type of the data chooses the engine: host
/// slices run on the CPU's cores, cudarc's buffers on their GPU.
///
/// # Example
/// ```
/// use parascan::operators::{Moments, Variance};
/// use parascan::{Max, Sum, reduce};
///
/// assert_eq!(reduce::<Sum, u64>().run(&[10, 20, 30])?, 60);
///
/// // The index of the greatest item, of several the first.
/// assert_eq!(reduce::<Max, f32>().position(&[0.5, 2.5, -1.0, 2.5])?, 1);
///
/// // The mean and the variance.
/// let moments = reduce::<Variance, Moments<f64>>().run(&[1.0, 2.0, 3.0].map(Moments::of))?;
/// assert_eq!((moments.mean, moments.variance()), (2.0, 2.0 / 3.0));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn reduce<Op: Operator<T>, T: Element>() -> Reduce<Op, T> {
    Reduce { init: None, site: Anywhere, operator: PhantomData }
}

/// A reduction of items `T` by the operator `Op`: its options, and the calls that run it. Made by
/// [`reduce`](reduce()).
///
/// | call | result |
/// |---|---|
/// | [`run`](Reduce::run) | returned |
/// | [`run_into`](Reduce::run_into) | one item in the caller's memory |
/// | [`position`](Reduce::position) | the index of the first maximum or minimum, returned |
/// | [`position_into`](Reduce::position_into) | the same in the caller's memory |
///
/// The result of an empty input is [`init`](Reduce::init), else the operator's identity.
///
/// # Cost
/// | engine | memory traffic | launches | applications of the operator |
/// |---|---|---|---|
/// | device | n items read, one written | 1, for any n | 1.1 n for 4-byte items; 1.4 n up to 8 MiB |
/// | host | n items read | | n |
///
/// # Waiting
/// On the device [`run_into`](Reduce::run_into) returns when the work is on the stream, and never
/// waits for it. [`run`](Reduce::run) waits for the result. The first use of an operator and
/// element type in a process loads kernels, as for a [`Scan`](crate::Scan).
///
/// # Same bits
/// Items are combined in order; no operator is assumed to be commutative. The grouping depends on n, the
/// element type and, on the device, the architecture that the kernel was compiled for. It does not depend
/// on timing, the number of threads or multiprocessors, or the alignment of the memory. So a rounded
/// float sum has the same bits in every run. Host and device group differently.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Empty`] | an empty input, no `init`, and an operator without identity |
/// | [`Error::Size`] | an output without room for one item |
/// | [`Error::ElementSize`] | an element that no kernel takes |
/// | as for a [`Scan`](crate::Scan) | device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
#[derive(Debug)]
#[must_use = "nothing is done until `run` or `run_into`"]
pub struct Reduce<Op, T, S = Anywhere> {
    pub(super) init: Option<T>,
    pub(super) site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! { impl[Op: Operator<T>, T: Element] Reduce<Op, T; S> { init, operator } }

// ---- options

impl<Op: Operator<T>, T: Element, S> Reduce<Op, T, S> {
    /// Combines this value before the first item.
    ///
    /// ```
    /// # use parascan::{Last, Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().init(10).run(&[1, 2, 3])?, 16);
    /// assert_eq!(reduce::<Last, i32>().init(10).run(&[])?, 10);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.init = Some(init);
        self
    }
}

len_method! {
    /// On the device an operator without identity needs [`init`](Self::init), the result of no items. The grouping of a
    /// rounded sum depends on the input's length and on the number.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().len(&[3]).run(&[1, 2, 3, 4])?, 6);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element] Reduce<Op, T; S> { init, operator }
}

// ---- prepare

impl<Op: Operator<T>, T: Element, S> Reduce<Op, T, S> {
    /// Loads the kernels and grows the workspace for calls with up to `n` items.
    ///
    /// After this [`run_into`](Reduce::run_into) allocates nothing, never synchronises, and can be
    /// captured into a graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        prepare::<T>(NAME, Self::program(), n, workspace)
    }

    fn program() -> ReduceProgram
    where
        S: AnySite,
    {
        if S::IS_COUNTED { ReduceProgram::counted::<Op, T>() } else { ReduceProgram::value::<Op, T>() }
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, S> Reduce<Op, T, S> {
    /// Returns the result. On the device the call waits for it.
    ///
    /// ```
    /// # use parascan::{Error, Last, Max, Min, reduce};
    /// assert_eq!(reduce::<Max, i32>().run(&vec![3, 1, 4])?, 4);
    /// assert_eq!(reduce::<Min, i32>().run(&[])?, i32::MAX); // the identity
    /// assert!(matches!(reduce::<Last, i32>().run(&[]), Err(Error::Empty { .. })));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<I>(mut self, input: &I) -> Result<T, Error>
    where
        I: Source<T> + ?Sized,
        S: Site<I::Place>,
    {
        match input.view() {
            View::Host(input) => {
                assert!(I::Place::ON_HOST);
                self.on_host(&input[..counted(NAME, self.site.count(), input.len())?])
            }
            View::Device(input) => {
                assert!(I::Place::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                let submit = Submit::new(NAME, &stream);
                let mut result = T::zeroed();
                self.on_device(&submit, input, Output::Host(&mut result))?;
                Ok(result)
            }
        }
    }

    /// Writes the result into the first item of the caller's memory.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// let mut total = [0.0];
    /// reduce::<Sum, f32>().run_into(&[1.0, 2.0, 4.0], &mut total)?;
    /// assert_eq!(total, [7.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, O>(mut self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        let mut output = output.view_mut();
        long_enough(NAME, "the output", output.len(), 1)?;
        match input.view() {
            View::Host(input) => {
                assert!(I::Place::ON_HOST);
                output.host()[0] = self.on_host(&input[..counted(NAME, self.site.count(), input.len())?])?;
                Ok(())
            }
            View::Device(input) => {
                assert!(I::Place::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                let (submit, output) = (Submit::new(NAME, &stream), output.device());
                submit.uses("the output", output.stream())?;
                self.on_device(&submit, input, Output::Device(output))
            }
        }
    }

    // ---- on either engine

    /// The value that is combined before the items, if there is one. An empty input has one: its
    /// result.
    fn first(&self, n: usize) -> Result<Option<Op::Carry>, Error> {
        match self.init {
            Some(init) => Ok(Some(Op::lift(init))),
            None if n > 0 => Ok(None),
            None => Op::IDENTITY.map(Some).ok_or(Error::Empty { primitive: NAME }),
        }
    }

    fn on_host(&self, input: &[T]) -> Result<T, Error> {
        let first = self.first(input.len())?;
        let items = cpu::reduce::<Op, T>(input);
        let all = match (first, items) {
            (Some(first), Some(items)) => Op::combine(first, items),
            (first, items) => first.or(items).expect("an empty input has a first value"),
        };
        Ok(Op::lower(all))
    }

    fn on_device<P: Place>(
        &mut self,
        submit: &Submit,
        input: &dyn DevicePtr<T>,
        output: Output<'_, T>,
    ) -> Result<(), Error>
    where
        S: Site<P>,
    {
        submit.uses("the input", input.stream())?;
        let first = self.first(input.len())?.map(Op::to_cuda);
        let empty = if S::IS_COUNTED { self.first(0)?.map(Op::to_cuda) } else { None };
        let (workspace, count) = self.site.take();
        let count = count.map(|count| count.device());
        // SAFETY: the program writes an element, which `Op::to_cuda` gives the form of the kernels. `first`
        // returns a value if there are no items.
        unsafe { on_device(submit, Self::program(), input, count, [first, empty], output, workspace) }
    }
}

// ---- a value or a position, on the device -------------------------------------------------------

/// Loads the kernels of a program and grows the workspace for calls with up to `n` items.
pub(super) fn prepare<T: Element>(
    name: &'static str,
    program: ReduceProgram,
    n: usize,
    workspace: &mut Workspace,
) -> Result<(), Error> {
    let device = Submit::prepare(name, workspace)?;
    check_element::<T>(name)?;
    let plan = program.plan_up_to(n, program.load(&device)?.machine().architecture);
    workspace.reserve(name, plan.words, plan.scratch).map(|_| ())
}

/// Submits a reduction of `input`, which was found to belong to the stream's device.
///
/// # Safety
/// The program is for items `T` and writes one `R`, for which an output on the device has room. Input and
/// output are of the stream's device. The value before the first item and the result without items are in
/// the form of the program's kernels. There is the former if there are no items, and the latter with `count`,
/// for which the program is a counted one.
pub(super) unsafe fn on_device<T: Element, R: Element, C: Zeroable + Copy>(
    submit: &Submit,
    program: ReduceProgram,
    input: &dyn DevicePtr<T>,
    count: Option<&dyn DevicePtr<u64>>,
    [first, empty]: [Option<C>; 2],
    output: Output<'_, R>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    let (n, stream) = (input.len(), submit.stream());
    check_element::<T>(submit.primitive())?;
    submit.counts(count)?;
    submit.begin()?;
    if matches!(output, Output::Host(_)) && is_capturing(stream)? {
        return Err(Error::Capturing { primitive: submit.primitive(), what: WAITS });
    }
    let kernels = program.load(submit)?;
    let plan = program.plan(n, kernels.machine().architecture);
    // The guard orders the work against other streams; it lives until the work is launched.
    let (input, _read) = input.device_ptr(stream);
    let (length, _counted) = count.map(|count| count.device_ptr(stream)).unzip();
    let (exclusive, reverse) = (false, false);
    let launch = |output: CUdeviceptr, words: CUdeviceptr, scratch: CUdeviceptr| {
        let arguments = Arguments { input, output, n, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: kernels and plan are the program's, which is the caller's. The input has n items on
        // this device, by its type, and its guard keeps it. Words and scratch memory are the
        // workspace's, as large as the plan asks for, the words zero. The stream's context was bound by
        // `begin`. The output is one `R` of device memory: the caller's, by `long_enough`, or scratch
        // memory beyond the aggregates.
        unsafe { arguments.launch_reduce(&plan, kernels, stream.cu_stream()) }
    };
    match output {
        Output::Device(output) => {
            let (to, _written) = output.device_ptr_mut(stream);
            submit.with_memory(workspace, plan.words, plan.aggregates, |words, scratch| launch(to, words, scratch))
        }
        Output::Host(result) => submit.with_memory(workspace, plan.words, plan.scratch, |words, scratch| {
            let to = scratch + plan.aggregates as u64;
            launch(to, words, scratch)?;
            // SAFETY: the launch writes a result there.
            unsafe { into_host(submit, to, result) }
        }),
    }
}

/// Copies an item from the device, and waits for it.
///
/// # Safety
/// An item lies at `from` in the device's memory once the stream has done what is on it.
unsafe fn into_host<T: Element>(submit: &Submit, from: CUdeviceptr, result: &mut T) -> Result<(), Error> {
    let (device, stream) = (submit.device(), submit.stream().cu_stream());
    let (result, bytes) = (std::ptr::from_mut(result).cast(), size_of::<T>());
    // SAFETY: both sides have room for one item. The result outlives the wait.
    let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(result, from, bytes, stream) };
    // SAFETY: the stream is live.
    let waited = unsafe { sys::cuStreamSynchronize(stream) };
    cuda::check("cuMemcpyDtoHAsync", device, copied)?;
    cuda::check("cuStreamSynchronize", device, waited)
}

/// Where the result of a reduction on the device goes.
pub(super) enum Output<'a, R> {
    /// To the caller's memory, of at least one `R`. Nothing waits for the result.
    Device(&'a mut dyn DevicePtrMut<R>),
    /// To a value of this call, which waits for the result.
    Host(&'a mut R),
}
