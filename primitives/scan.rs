//! Scan: all prefixes of a sequence, under any associative operator.

use super::scan_engines::{Memory, NAME, NO_IDENTITY, OnDevice, Options};
use crate::cuda::{self, Arguments, Plan, ScanProgram};
use crate::memory::{View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Operator, Place, Source, Strategy, Work, Workspace, cpu};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use cudarc::driver::{CudaStream, DevicePtr};
use std::marker::PhantomData;
use std::sync::Arc;

/// Computes all prefixes of items `T` under the operator `Op`: output i combines inputs 0 to i.
///
/// Returns a builder; [`Scan`] lists its options. The type of the data chooses the engine: host
/// slices run on the CPU's cores, cudarc's buffers on their GPU.
///
/// # Example
/// ```
/// use parascan::{Max, Sum, scan};
///
/// let prices = [3, 1, 4, 1, 5];
/// assert_eq!(scan::<Max, i32>().run(&prices)?, [3, 3, 4, 4, 5]);
///
/// let sizes = [10, 20, 30];
/// assert_eq!(scan::<Sum, u64>().exclusive().init(100).run(&sizes)?, [100, 110, 130]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn scan<Op: Operator<T>, T: Element>() -> Scan<Op, T> {
    let options = Options { reverse: false, exclusive: false, init: None, strategy: Strategy::Auto };
    Scan { options, site: Anywhere, operator: PhantomData }
}

/// A scan of items `T` by the operator `Op`: its options, and the calls that run it. Made by
/// [`scan`].
///
/// | call | output |
/// |---|---|
/// | [`run`](Scan::run) | new memory of the input's length |
/// | [`run_into`](Scan::run_into) | the caller's memory, of the input's length |
/// | [`run_in_place`](Scan::run_in_place) | the input's memory |
/// | [`run_raw`](Scan::run_raw) | device addresses, for stacks that do not use cudarc |
///
/// # Cost
/// n items need n - 1 applications of the operator; a scan makes about 2 n. On the device:
///
/// | strategy | items moved | launches |
/// |---|---|---|
/// | [`Strategy::PrefixServer`], [`Strategy::LookBack`], [`Strategy::Chained`] | 2 n: n read, n written | 1, for any n |
/// | [`Strategy::Hierarchical`] | 3 n to 4 n | several, depending on n |
///
/// On the host n items are read and n written. The calling thread alone scans inputs of up to
/// 256 KiB; the threads of rayon's current pool share longer ones.
///
/// # Waiting
/// On host data a call returns when the work is done. On device data it returns when the work is on
/// the stream, and never waits for it. The first use of an operator and element type in a process
/// loads kernels: the call waits for the driver, and for the compiler if they are not embedded,
/// which makes all of them at the same time. [`prepare`](Scan::prepare) loads them ahead.
///
/// # Same bits
/// Operands are combined in scan order; no operator is assumed to be commutative. Their grouping
/// depends on n, the element type, the strategy and, on the device, the architecture that the
/// kernel was compiled for. It does not depend on timing, the number of threads or multiprocessors,
/// or the alignment of the memory. So a rounded float sum has the same bits in every run. Host and
/// device group differently, and so may a call by `len` and one of a known length.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Length`] | input and output differ in length |
/// | [`Error::Strategy`] | on host data a strategy other than [`Strategy::Auto`] |
/// | [`Error::Strategy`] | with [`len`](Scan::len) one other than that for which `Auto` stands |
/// | [`Error::ElementSize`], [`Error::TooLong`] | an element or a length that no kernel takes |
/// | [`Error::WrongDevice`] | a buffer of another device than the stream's |
/// | [`Error::WrongContext`] | a buffer of another context than the stream's |
/// | [`Error::Capturing`], [`Error::EventTracking`] | a call that cannot be captured into a graph |
/// | [`Error::OutOfMemory`] | memory |
/// | [`Error::Driver`], [`Error::Compile`] and others | driver, compiler |
///
/// Nothing has been written when a call returns an error, except that a call of several launches
/// may return [`Error::Driver`] for a later one. Length zero is valid.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
///
/// # Source
/// - Single pass: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back"
///   (2016). The host reverses the direction: see [`cpu::hand_over`]. On the device [`Strategy`]
///   says how tiles are joined, and names the papers.
/// - Lanes of a warp, and of a vector on the host: Kogge and Stone, "A Parallel Algorithm for the
///   Efficient Solution of a General Class of Recurrence Equations" (1973).
/// - Runs of a tile on the host: Chatterjee, Blelloch and Zagha, "Scan Primitives for Vector
///   Computers" (1990).
#[derive(Debug)]
#[must_use = "a scan does nothing until `run`, `run_into` or `run_in_place`"]
pub struct Scan<Op, T, S = Anywhere> {
    pub(super) options: Options<T>,
    pub(super) site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! { impl[Op: Operator<T>, T: Element] Scan<Op, T; S> { options, operator } }

// ---- options

impl<Op: Operator<T>, T: Element, S> Scan<Op, T, S> {
    /// Output i combines inputs 0 to i. This is the default.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().inclusive().run(&[1, 2, 3])?, [1, 3, 6]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn inclusive(mut self) -> Self {
        self.options.exclusive = false;
        self
    }

    /// Output i combines inputs 0 to i - 1; output 0 is `init`, or the operator's identity without
    /// one.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().exclusive().run(&[1, 2, 3])?, [0, 1, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// Does not compile for an operator without identity: write
    /// [`.exclusive_from(first)`](Scan::exclusive_from) instead.
    ///
    /// ```compile_fail,E0080
    /// # use parascan::{Last, scan};
    /// scan::<Last, i32>().exclusive(); // fails to compile
    /// ```
    pub fn exclusive(mut self) -> Self {
        const { assert!(Op::IDENTITY.is_some(), "{}", NO_IDENTITY) };
        self.options.exclusive = true;
        self
    }

    /// Output i combines `first` and inputs 0 to i - 1; for operators without identity too.
    ///
    /// ```
    /// # use parascan::{Last, scan};
    /// assert_eq!(scan::<Last, i32>().exclusive_from(-1).run(&[1, 2, 3])?, [-1, 1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn exclusive_from(mut self, first: T) -> Self {
        self.options.exclusive = true;
        self.options.init = Some(first);
        self
    }

    /// Combines this value before the first input, in inclusive scans too.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().init(10).run(&[1, 2, 3])?, [11, 13, 16]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.options.init = Some(init);
        self
    }

    /// Scans from the last item to the first: the reverse of the scan of the reversed input,
    /// operand order included.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().reverse().run(&[1, 2, 3])?, [6, 5, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn reverse(mut self) -> Self {
        self.options.reverse = !self.options.reverse;
        self
    }

    /// The algorithm on the device. The default, [`Strategy::Auto`], is the fastest.
    ///
    /// ```
    /// # use parascan::{Block, Error, Strategy, Sum, scan};
    /// let sum = scan::<Sum, i32>().strategy(Strategy::LookBack(Block::WarpShuffles));
    /// assert!(matches!(sum.run(&[1, 2, 3]), Err(Error::Strategy { .. }))); // data on the host
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.options.strategy = strategy;
        self
    }

    /// The applications, barriers, launches and bytes of a scan of `n` items on the device, by
    /// formula.
    ///
    /// `None` if they do not follow from `n` and the options alone: for any block but the
    /// textbook's, for [`Strategy::PrefixServer`], whose server combines the aggregates that have
    /// arrived, and for lengths and elements that no kernel takes.
    ///
    /// ```
    /// use parascan::{Block, Network, Strategy, Sum, scan};
    ///
    /// // One tile: N log N - (N - 1), and two barriers a step and one before the results are stored.
    /// let sum = scan::<Sum, f32>().strategy(Strategy::Chained(Block::Plain(Network::KoggeStone)));
    /// let work = sum.work(512).unwrap();
    /// assert_eq!((work.applications, work.barriers), (512 * 9 - 511, 2 * 9 + 1));
    /// assert_eq!((work.launches, work.read, work.written), (1, 4 * 512, 4 * 512));
    /// ```
    pub fn work(&self, n: usize) -> Option<Work> {
        let Options { exclusive, strategy, .. } = self.options;
        let has_first = self.options.first::<Op>().is_some();
        Plan::new::<Op, T>(strategy, n, 0).ok()?.work::<Op, T>(n, exclusive, has_first)
    }
}

len_method! {
    /// ```
    /// # use parascan::{Sum, scan};
    /// let (x, mut sums) = ([1, 2, 3, 4], [0; 4]);
    /// scan::<Sum, i32>().len(&[3]).run_into(&x, &mut sums)?;
    /// assert_eq!(sums, [1, 3, 6, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element] Scan<Op, T; S> { options, operator }
}

// ---- prepare

impl<Op: Operator<T>, T: Element, S> Scan<Op, T, S> {
    /// Loads the kernels and grows the workspace for [`run_into`](Scan::run_into) and
    /// [`run_in_place`](Scan::run_in_place) of up to `n` items with the same options.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
    ///
    /// Waits for the driver, and for the compiler if a kernel is not embedded. Does not wait for
    /// the work on the stream, unless loading does: some drivers load kernels lazily, which drains
    /// the device.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        let device = Submit::prepare(NAME, workspace)?;
        let strategy = self.options.strategy;
        Plan::check::<Op, T>(strategy)?;
        let kernels = cuda::load::<Op, T>(program(strategy, S::IS_COUNTED)?, &device)?;
        let plan = Plan::up_to::<Op, T>(strategy, n, kernels.machine().architecture)?;
        workspace.reserve(NAME, plan.words, plan.scratch).map(|_| ())
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, S> Scan<Op, T, S> {
    /// Returns the result in new memory of the input's length: a `Vec` or a `CudaSlice`.
    ///
    /// ```
    /// # use parascan::{Max, scan};
    /// let highest: Vec<i32> = scan::<Max, i32>().run(&vec![3, 1, 4])?;
    /// assert_eq!(highest, [3, 3, 4]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let (gains, mut returns) = ([1.0, 2.0, 4.0], [0.0; 3]);
    /// scan::<Sum, f32>().reverse().run_into(&gains, &mut returns)?;
    /// assert_eq!(returns, [7.0, 6.0, 4.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        self.dispatch::<I::Place>(Some(input.view()), output.view_mut())
    }

    /// Replaces the input by the result.
    ///
    /// ```
    /// # use parascan::{Min, scan};
    /// let mut lowest = [3, 1, 4];
    /// scan::<Min, i32>().run_in_place(&mut lowest)?;
    /// assert_eq!(lowest, [3, 1, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
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
        let (n, options) = (output.len(), self.options);
        match Memory::of(input, output)? {
            Memory::Host(input, output) => {
                assert!(P::ON_HOST);
                let n = counted(NAME, self.site.count(), n)?;
                options.only_auto()?;
                let Options { exclusive, reverse, .. } = options;
                let first = options.first::<Op>();
                // SAFETY: the slices of `Memory` have `n` elements or more.
                unsafe { cpu::scan::<Op, T>(input, output, n, exclusive, first, reverse) };
                Ok(())
            }
            Memory::Device(items) => {
                assert!(P::ON_DEVICE);
                let stream = items.stream(self.site.stream());
                let (workspace, count) = self.site.take();
                on_device::<Op, T>(options, &stream, items, count.map(|count| count.device()), workspace)
            }
        }
    }
}

/// The program for the strategy.
fn program(strategy: Strategy, is_counted: bool) -> Result<ScanProgram, Error> {
    if is_counted { ScanProgram::counted(strategy) } else { Ok(ScanProgram::of(strategy)) }
}

fn on_device<Op: Operator<T>, T: Element>(
    options: Options<T>,
    stream: &Arc<CudaStream>,
    mut items: OnDevice<'_, T>,
    count: Option<&dyn DevicePtr<u64>>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    let Options { exclusive, reverse, strategy, .. } = options;
    let (n, submit) = (items.len(), Submit::new(NAME, stream));
    items.check(&submit)?;
    submit.counts(count)?;
    if n == 0 {
        return Ok(());
    }
    submit.begin()?;
    Plan::check::<Op, T>(strategy)?;
    let kernels = cuda::load::<Op, T>(program(strategy, count.is_some())?, &submit)?;
    let plan = Plan::new::<Op, T>(strategy, n, kernels.machine().architecture)?;
    let ([input, output], _guards) = items.addresses(stream);
    let (length, _counted) = count.map(|count| count.device_ptr(stream)).unzip();
    let (first, empty) = (options.first::<Op>().map(Op::to_cuda), None);
    submit.with_memory(workspace, plan.words, plan.scratch, |words, scratch| {
        let arguments = Arguments { input, output, n, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: the kernels are those of the plan, which is for n elements; input and output have n
        // elements each on this device, by their types, and the guards keep them; words and scratch
        // memory are the workspace's, as large as the plan asks for, the words zero; the stream's
        // context was bound by `begin`.
        unsafe { arguments.launch_scan(&plan, kernels, stream.cu_stream()) }
    })
}

// ---- raw calls, for stacks that do not use cudarc

impl<Op: Operator<T>, T: Element> Scan<Op, T> {
    /// Bytes of scratch memory that [`run_raw`](Scan::run_raw) needs for up to `n` items; zero if
    /// one block scans all.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn scratch_bytes(&self, n: usize) -> Result<usize, Error> {
        Plan::bytes_anywhere::<Op, T>(self.options.strategy, n)
    }

    /// Scans `n` items at device addresses, on a stream of the driver's. Does not wait.
    ///
    /// `scratch` is `scratch_bytes` long, and its address a multiple of 16. Scratch memory must be
    /// zero before its first use, except for [`Strategy::Hierarchical`]. Every scan by another strategy
    /// leaves it zero, unless it returns an error. After an error, and after a hierarchical scan, it must
    /// be zeroed again. Load the kernels by a first call outside of a graph capture.
    ///
    /// # Errors
    /// [`Error::Scratch`] if the scratch memory is too small or misaligned, and those of the driver
    /// and the compiler.
    ///
    /// # Safety
    /// - A context of the device is current on this thread, and `stream` belongs to it.
    /// - `input` and `output` are `n` elements each in that device's memory, aligned for `T`, equal
    ///   or disjoint, and valid until the stream is past the scan.
    /// - So are `scratch_bytes` bytes at `scratch`, and nothing else uses them until then.
    ///
    /// # Example
    /// ```no_run
    /// # fn addresses() -> (u64, u64, u64, usize, parascan::cudarc::driver::sys::CUstream) { unimplemented!() }
    /// use parascan::{Sum, scan};
    /// let (input, output, scratch, bytes, stream) = addresses(); // of another CUDA stack
    /// let sum = scan::<Sum, f32>().exclusive();
    /// assert!(bytes >= sum.scratch_bytes(1 << 20)?);
    /// unsafe { sum.run_raw(input, output, 1 << 20, scratch, bytes, stream)? };
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub unsafe fn run_raw(
        self,
        input: CUdeviceptr,
        output: CUdeviceptr,
        n: usize,
        scratch: CUdeviceptr,
        scratch_bytes: usize,
        stream: CUstream,
    ) -> Result<(), Error> {
        if n == 0 {
            return Ok(());
        }
        let needed = self.scratch_bytes(n)?;
        if scratch_bytes < needed || !scratch.is_multiple_of(16) {
            return Err(Error::Scratch { primitive: NAME, given: scratch_bytes, address: scratch, needed });
        }
        let mut device = 0;
        // SAFETY: a context is current, by the caller; the driver writes its device.
        cuda::check("cuCtxGetDevice", 0, unsafe { sys::cuCtxGetDevice(&mut device) })?;
        let Options { exclusive, reverse, strategy, .. } = self.options;
        let kernels = cuda::load::<Op, T>(ScanProgram::of(strategy), &(device as usize))?;
        let plan = Plan::new::<Op, T>(strategy, n, kernels.machine().architecture)?;
        let (first, empty) = (self.options.first::<Op>().map(Op::to_cuda), None);
        let (length, words) = (None, scratch);
        let arguments = Arguments { input, output, n, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: by the caller, and as checked above.
        unsafe { arguments.launch_scan(&plan, kernels, stream) }
    }
}
