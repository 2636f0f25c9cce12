//! Offsets: the exclusive sum of sizes, aligned, checked for overflow.

use super::arguments::{Index, long_enough};
use crate::cpu;
use crate::cuda::{
    self,
    offsets::{OffsetsArguments, OffsetsPlan},
};
use crate::memory::{Buffer, BufferMut, View, ViewMut, zero_bytes};
use crate::site::{AnySite, Anywhere, Site, counted as taken, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Place, Source, Workspace};
use std::marker::PhantomData;

const NAME: &str = "offsets";

/// A size type: `u8`, `u16`, `u32`, `u64` or `usize`.
#[allow(private_bounds)]
pub trait Size: Element + cpu::Size {}
impl Size for u8 {}
impl Size for u16 {}
impl Size for u32 {}
impl Size for u64 {}
impl Size for usize {}

/// Computes the exclusive sum of sizes: the offset of each segment in one buffer. Overflow is an
/// error.
///
/// Returns a builder; see [`Offsets`].
///
/// # Example
/// ```
/// use parascan::offsets;
///
/// assert_eq!(offsets::<u8, u32>().run(&[3, 0, 200, 100])?, [0, 3, 3, 203]);
/// // With the total as a last offset, as in CSR matrices and Arrow's lists.
/// assert_eq!(offsets::<u8, u32>().with_total().run(&[3, 0, 200, 100])?, [0, 3, 3, 203, 303]);
/// // Each at a multiple of 16.
/// assert_eq!(offsets::<u32, u64>().align(16).with_total().run(&[3, 0, 200])?, [0, 16, 16, 224]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn offsets<S: Size, O: Index>() -> Offsets<S, O> {
    Offsets { align: 1, with_total: false, site: Anywhere, types: PhantomData }
}

/// Offsets of type `O` from sizes of type `S`: options, and the calls that run it. Made by
/// [`offsets()`].
///
/// | call | output |
/// |---|---|
/// | [`run`](Offsets::run), [`run_into`](Offsets::run_into) | n offsets for n sizes |
/// | the same [with the total](Offsets::with_total) | n + 1 offsets for n sizes |
/// | [`allocate`](Offsets::allocate) | a buffer for all segments, divided by these offsets |
///
/// # The total
/// `total` is one `u64` in the same memory as the sizes. The call writes the sum of all sizes
/// there, each rounded up to the [alignment](Offsets::align). Nothing wraps: an offset that does
/// not fit `O` is the greatest `O`, and a total of `u64::MAX` stands for all sums that are at least
/// as great.
///
/// **On the device, a total that does not fit `O` means that the offsets are wrong.** On the host
/// the call returns [`Error::Overflow`] and writes nothing.
///
/// # Cost
/// | engine | memory traffic | launches |
/// |---|---|---|
/// | device | n sizes read, n offsets written | 1, for any n |
/// | host | the same; sizes whose sum might not fit `O` are read twice | |
///
/// # Waiting
/// On the device [`run_into`](Offsets::run_into) returns when the work is on the stream, and never
/// waits for it. [`run`](Offsets::run) waits for the total. The first use of the two types in a
/// process loads kernels, as for a [`Scan`](crate::Scan).
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Align`] | an alignment that is not a power of two up to 2^32 |
/// | [`Error::Overflow`] | a total that does not fit `O`; on the device, if the call waits for it |
/// | [`Error::Size`] | offsets or total that are too short |
/// | [`Error::TooLong`] on the device | more sizes than a grid of blocks takes |
/// | [`Error::OutOfMemory`] | memory |
/// | as for a [`Scan`](crate::Scan) | device, context, capture, driver, compiler |
///
/// Nothing has been written into the caller's memory when a call returns an error. Length zero is
/// valid.
///
/// # Source
/// Allocation by prefix sum: Blelloch, "Prefix Sums and Their Applications" (1990). Tiles are joined
/// as in a [`Scan`](crate::Scan).
#[derive(Debug)]
#[must_use = "nothing is done until `run` or `run_into`"]
pub struct Offsets<S, O, W = Anywhere> {
    pub(super) align: u64,
    pub(super) with_total: bool,
    pub(super) site: W,
    types: PhantomData<fn(S) -> O>,
}
site_methods! { impl[S: Size, O: Index] Offsets<S, O; W> { align, with_total, types } }

// ---- options

impl<S: Size, O: Index, W> Offsets<S, O, W> {
    /// Rounds each offset up to a multiple of `align`, a power of two up to 2^32.
    pub fn align(mut self, align: u64) -> Self {
        self.align = align;
        self
    }

    /// Writes one more offset than there are sizes; the last is the total.
    pub fn with_total(mut self) -> Self {
        self.with_total = true;
        self
    }
}

len_method! {
    /// ```
    /// # use parascan::offsets;
    /// let (mut starts, mut total) = ([9; 3], [0]);
    /// offsets::<u16, u64>().len(&[2]).run_into(&[7, 8, 5], &mut starts, &mut total)?;
    /// assert_eq!((starts, total), ([0, 7, 9], [15]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[S: Size, O: Index] Offsets<S, O; W> { align, with_total, types }
}

impl<S: Size, O: Index, W: AnySite> Offsets<S, O, W> {
    // ---- prepare

    /// Loads the kernels and grows the workspace for [`run_into`](Offsets::run_into) of up to `n`
    /// sizes.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<S, O>(W::IS_COUNTED, n, workspace)
    }

    // ---- running

    /// Returns the offsets in new memory.
    ///
    /// ```
    /// # use parascan::{Error, offsets};
    /// let sizes = [u32::MAX, 1];
    /// assert_eq!(offsets::<u32, u64>().run(&sizes)?, [0, u32::MAX as u64]);
    /// assert!(matches!(offsets::<u32, u32>().run(&sizes), Err(Error::Overflow { .. }))); // the total, 2^32
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// On the device the call waits for the total, and returns [`Error::Overflow`] if that does not
    /// fit `O`.
    pub fn run<X>(self, sizes: &X) -> Result<<X::Place as Place>::Indices<O>, Error>
    where
        X: Source<S> + ?Sized,
        W: Site<X::Place>,
    {
        let view = sizes.view();
        let stream = view.stream(self.site.stream());
        let n = view.len() + usize::from(self.with_total);
        let mut starts = X::Place::allocate::<O>(NAME, n, stream.as_ref())?;
        let mut total = X::Place::allocate::<u64>(NAME, 1, stream.as_ref())?;
        self.dispatch::<X::Place>(view, X::Place::view_mut(&mut starts), X::Place::view_mut(&mut total))?;
        counted::<O>(NAME, X::Place::read::<1>(&total)?[0], X::Place::ON_DEVICE)?;
        Ok(starts)
    }

    /// Writes the offsets, and [the total](Offsets#the-total), into the caller's memory.
    ///
    /// There are as many offsets as sizes, or one more [with the total](Offsets::with_total).
    ///
    /// ```
    /// # use parascan::offsets;
    /// let (mut starts, mut total) = ([0; 3], [0]);
    /// offsets::<u16, u64>().run_into(&[7, 8, 9], &mut starts, &mut total)?;
    /// assert_eq!((starts, total), ([0, 7, 15], [24]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<X, Q, N>(self, sizes: &X, starts: &mut Q, total: &mut N) -> Result<(), Error>
    where
        X: Source<S> + ?Sized,
        Q: Destination<O, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        W: Site<X::Place>,
    {
        self.dispatch::<X::Place>(sizes.view(), starts.view_mut(), total.view_mut())
    }

    // ---- on either engine

    pub(super) fn dispatch<L: Place>(
        self,
        sizes: View<'_, S>,
        starts: ViewMut<'_, O>,
        total: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        W: Site<L>,
    {
        self.dispatch_as::<L>(NAME, sizes, starts, total)
    }

    /// As `dispatch`; errors name `primitive`.
    pub(super) fn dispatch_as<L: Place>(
        mut self,
        primitive: &'static str,
        sizes: View<'_, S>,
        mut starts: ViewMut<'_, O>,
        mut total: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        W: Site<L>,
    {
        let Offsets { align, with_total, .. } = self;
        if !align.is_power_of_two() || align > 1 << 32 {
            return Err(Error::Align { primitive, align });
        }
        let n = sizes.len();
        let needed = n + usize::from(with_total);
        long_enough(primitive, "the offsets", starts.len(), needed)?;
        long_enough(primitive, "the total", total.len(), 1)?;
        if let View::Host(sizes) = sizes {
            assert!(L::ON_HOST);
            let n = taken(primitive, self.site.count(), n)?;
            let found = cpu::offsets(&sizes[..n], align, &mut starts.host()[..n + usize::from(with_total)]);
            total.host()[0] = found.ok_or_else(|| overflow::<O>(primitive, None))?;
            return Ok(());
        }
        assert!(L::ON_DEVICE);
        let stream = self.site.stream().unwrap_or(sizes.home()).clone();
        let submit = Submit::new(primitive, &stream);
        submit.uses("the sizes", sizes.home())?;
        submit.uses("the offsets", starts.home())?;
        submit.uses("the total", total.home())?;
        let (workspace, length) = self.site.take();
        let length = length.map(|length| length.device());
        submit.counts(length)?;
        submit.begin()?;
        let (from, _read) = sizes.address(&stream);
        let (to, _written) = starts.address(&stream);
        let (total, _total) = total.address(&stream);
        if n == 0 {
            // SAFETY: each is one integer of this device, and its guard keeps it until the fill is on the
            // stream.
            return unsafe {
                if with_total {
                    zero_bytes(&stream, to, size_of::<O>())?;
                }
                zero_bytes(&stream, total, size_of::<u64>())
            };
        }
        let kernels = cuda::offsets::load::<S, O>(length.is_some(), &submit)?;
        let plan = OffsetsPlan::new::<S, O>(n, kernels.machine().architecture)?;
        let (length, _counted) = length.map(|length| length.device_ptr(&stream)).unzip();
        submit.with_memory(workspace, plan.words, 0, |words, _| {
            let arguments = OffsetsArguments { sizes: from, starts: to, n, length, align, total, with_total, words };
            // SAFETY: the kernels and the plan are for these types and for n. Sizes, starts and
            // total are on this device and long enough, as was checked. The outputs are borrowed
            // exclusively, and the guards keep all. The words are the workspace's, as many as the
            // plan asks for, zero. `begin` has bound the stream's context.
            unsafe { arguments.launch(&plan, kernels, stream.cu_stream()) }
        })
    }
}

/// Loads the kernels and grows the workspace for calls of up to `n` sizes.
pub(super) fn prepare<S: Size, O: Index>(is_counted: bool, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
    let device = Submit::prepare(NAME, workspace)?;
    let kernels = cuda::offsets::load::<S, O>(is_counted, &device)?;
    let words = OffsetsPlan::words_up_to::<S, O>(n, kernels.machine().architecture)?;
    workspace.reserve(NAME, words, 0).map(|_| ())
}

/// Checks a total that a call has written.
///
/// # Errors
/// [`Error::Overflow`] if `O` does not hold it.
pub(crate) fn counted<O: Index>(primitive: &'static str, total: usize, on_device: bool) -> Result<usize, Error> {
    let found = total as u64;
    // The device writes the greatest number for a total that a `u64` does not hold; the host returns the error.
    if found > <O as cpu::Size>::MOST || (on_device && found == u64::MAX) {
        return Err(overflow::<O>(primitive, Some(found)));
    }
    Ok(total)
}

/// The error for a total that `O` does not hold; `total` is `None` if it is not known.
pub(super) fn overflow<O: Index>(primitive: &'static str, total: Option<u64>) -> Error {
    Error::Overflow { primitive, most: <O as cpu::Size>::MOST, total }
}
