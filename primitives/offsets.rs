//! Offsets: where each of many sizes begins when they lie one after the other.

use super::choice::{Buffer, BufferMut, Index, long_enough};
use crate::cpu;
use crate::cuda::{
    self,
    offsets::{OffsetsCall, OffsetsPlan},
};
use crate::memory::{View, ViewMut};
use crate::site::{Anywhere, Site, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Place, Source, Workspace};
use cudarc::driver::sys;
use std::marker::PhantomData;

const NAME: &str = "offsets";

/// A type of sizes: `u8`, `u16`, `u32`, `u64` or `usize`.
#[allow(private_bounds)]
pub trait Size: Element + cpu::Size {}
impl Size for u8 {}
impl Size for u16 {}
impl Size for u32 {}
impl Size for u64 {}
impl Size for usize {}

/// Where each of some sizes begins when they lie one after the other: the exclusive sum, that says when it does not fit.
///
/// Gives a builder; see [`Offsets`] for its options.
///
/// # Example
/// ```
/// use parascan::offsets;
///
/// assert_eq!(offsets::<u8, u32>().run(&[3, 0, 200, 100])?, [0, 3, 3, 203]);
/// // As CSR matrices and Arrow's lists have them: one more, which is the total.
/// assert_eq!(offsets::<u8, u32>().with_total().run(&[3, 0, 200, 100])?, [0, 3, 3, 203, 303]);
/// // Each at a multiple of 16.
/// assert_eq!(offsets::<u32, u64>().align(16).with_total().run(&[3, 0, 200])?, [0, 16, 16, 224]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn offsets<S: Size, O: Index>() -> Offsets<S, O> {
    Offsets { align: 1, with_total: false, site: Anywhere, types: PhantomData }
}

/// The options of [`offsets()`], and what runs it.
///
/// # The total
/// The sum of all sizes, each rounded up if an alignment was asked for, is written to `total`, one `u64` where the data lies.
/// **A total that is more than the type of the offsets holds says that they are not right**: nothing wraps, what does
/// not fit is the greatest value. A total of `u64::MAX` stands for all that are greater. On the host that is
/// [`Error::Overflow`], and nothing is written.
///
/// # Cost
/// n sizes are read and n offsets written, once; on the host, sizes of which a sum might not fit are read twice. On the
/// device one launch, whatever n.
///
/// # Waiting
/// [`run_into`](Offsets::run_into) on the device returns when the work is on the stream, and never waits for it;
/// [`run`](Offsets::run) waits for the total.
///
/// # Errors
/// [`Error::Align`], [`Error::Overflow`], [`Error::Size`] for starts that are too short,
/// [`Error::OutOfMemory`], and those of a [`Scan`](crate::Scan) but for its strategies. Nothing was
/// written then. Length zero is valid.
#[derive(Debug)]
#[must_use = "nothing is done until `run` or `run_into`"]
pub struct Offsets<S, O, W = Anywhere> {
    pub(super) align: u64,
    pub(super) with_total: bool,
    pub(super) site: W,
    types: PhantomData<fn(S) -> O>,
}
site_methods! { impl[S: Size, O: Index] Offsets<S, O; W> { align, with_total, types } }

impl<S: Size, O: Index, W> Offsets<S, O, W> {
    /// Each begins at a multiple of `align`, a power of two up to 2^32.
    pub fn align(mut self, align: u64) -> Self {
        self.align = align;
        self
    }

    /// One offset more than there are sizes: the last is the total.
    pub fn with_total(mut self) -> Self {
        self.with_total = true;
        self
    }

    /// Loads the kernels and grows the workspace, so that a call on `n` sizes or fewer allocates nothing, never synchronises
    /// and can be captured into a graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        let device = Submit::prepare(NAME, workspace)?;
        let kernels = cuda::offsets::load::<S, O>(device)?;
        let words = OffsetsPlan::words_up_to::<S, O>(n, kernels.machine().architecture)?;
        workspace.reserve(NAME, words, 0).map(|_| ())
    }

    /// Into new memory. On the device it waits for the total.
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
        self.go::<X::Place>(view, X::Place::view_mut(&mut starts), X::Place::view_mut(&mut total))?;
        counted::<O>(NAME, X::Place::read::<1>(&total)?[0])?;
        Ok(starts)
    }

    /// Into the caller's memory: as many starts as sizes, or one more with [`with_total`](Offsets::with_total).
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
        self.go::<X::Place>(sizes.view(), starts.view_mut(), total.view_mut())
    }

    pub(super) fn go<L: Place>(
        self,
        sizes: View<'_, S>,
        starts: ViewMut<'_, O>,
        total: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        W: Site<L>,
    {
        self.go_as::<L>(NAME, sizes, starts, total)
    }

    /// For the primitive of this name.
    pub(super) fn go_as<L: Place>(
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
            let found = cpu::offsets(sizes, align, &mut starts.host()[..needed]);
            total.host()[0] = found.ok_or_else(|| overflow::<O>(primitive, None))?;
            return Ok(());
        }
        let stream = self.site.stream().unwrap_or(sizes.home()).clone();
        let submit = Submit::new(primitive, &stream);
        submit.uses("the sizes", sizes.home())?;
        submit.uses("the offsets", starts.home())?;
        submit.uses("the total", total.home())?;
        submit.begin()?;
        let device = submit.device();
        let (from, _read) = sizes.address(&stream);
        let (to, _written) = starts.address(&stream);
        let (total, _counted) = total.address(&stream);
        if n == 0 {
            let zero = |address, bytes| {
                // SAFETY: an integer of this device, kept by its guard until this is on the stream.
                cuda::check("cuMemsetD8Async", device, unsafe {
                    sys::cuMemsetD8Async(address, 0, bytes, stream.cu_stream())
                })
            };
            if with_total {
                zero(to, size_of::<O>())?;
            }
            return zero(total, size_of::<u64>());
        }
        let loaded = cuda::offsets::loaded::<S, O>(device);
        let kernels = submit.kernels(loaded, || cuda::offsets::load::<S, O>(device))?;
        let plan = OffsetsPlan::new::<S, O>(n, kernels.machine().architecture)?;
        submit.with_memory(self.site.take_workspace(), plan.words, 0, |words, _| {
            let call = OffsetsCall { sizes: from, starts: to, n, align, total, with_total, words };
            // SAFETY: the kernels are those of the types, and the plan is for n and for them; sizes, starts and total are as
            // many as was just seen, on this device, borrowed apart, and kept by the guards; the words are the workspace's, as
            // many as the plan asks for, zero; the stream's context was bound by `begin`.
            unsafe { call.launch(&plan, kernels, stream.cu_stream()) }
        })
    }
}

/// A total that came from the device.
///
/// # Errors
/// [`Error::Overflow`] if no offset holds it.
pub(super) fn counted<O: Index>(primitive: &'static str, total: usize) -> Result<usize, Error> {
    let found = total as u64;
    if found > <O as cpu::Size>::MOST || found == u64::MAX {
        return Err(overflow::<O>(primitive, Some(found)));
    }
    Ok(total)
}

/// For a total that no offset holds, if it is known.
pub(super) fn overflow<O: Index>(primitive: &'static str, total: Option<u64>) -> Error {
    Error::Overflow { primitive, most: <O as cpu::Size>::MOST, total }
}
