//! Segments: how scans and reductions by segment are told where segments begin.

use super::arguments::{Index, Word, long_enough, views};
use crate::cpu::segmented as host;
use crate::cuda::segmented::Cut;
use crate::memory::{Buffer, View};
use crate::submit::Submit;
use crate::{Error, Place};
use bytemuck::Pod;
use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, SyncOnDrop};
use std::marker::PhantomData;

/// Segments are rows of equally many items.
#[derive(Clone, Copy, Debug)]
pub struct Rows(pub(crate) usize);

/// Segments begin and end at offsets.
pub struct ByOffsets<'a, I, L>(pub(crate) View<'a, I>, pub(crate) PhantomData<L>);

/// Segments begin where a flag is not zero.
pub struct ByHeads<'a, L>(pub(crate) View<'a, u8>, pub(crate) PhantomData<L>);

/// Segments begin where a bit is set.
pub struct ByHeadBits<'a, W, L>(pub(crate) View<'a, W>, pub(crate) PhantomData<L>);

/// Segments begin where neighbouring keys differ.
pub struct ByKeys<'a, K, L>(pub(crate) View<'a, K>, pub(crate) PhantomData<L>);

views! { ByOffsets<I, L>; ByHeads<L>; ByHeadBits<W, L>; ByKeys<K, L>; }

mod sealed {
    use super::*;

    /// What a launch needs of a segmentation. Only this crate can implement it.
    pub trait Selectors {
        /// The offsets, flags, words or keys, if there are any.
        fn selectors(&self) -> Option<&dyn Buffer>;
        /// The segmentation for a kernel. `address` is that of the selectors.
        fn on_device(&self, address: CUdeviceptr) -> Cut;
    }
}
pub(crate) use sealed::Selectors;

impl dyn Selectors + '_ {
    /// # Errors
    /// Those of [`Submit::uses`].
    pub(super) fn check(&self, submit: &Submit) -> Result<(), Error> {
        self.selectors().map_or(Ok(()), |selectors| submit.uses("the segments", selectors.home()))
    }

    /// The segmentation for a kernel, and the guard of the selectors, which orders the work against other
    /// streams. The guard lives until it is launched.
    pub(super) fn guarded<'a>(&'a self, stream: &'a CudaStream) -> (Cut, Option<SyncOnDrop<'a>>) {
        let (address, guard) = self.selectors().map(|selectors| selectors.address(stream)).unzip();
        (self.on_device(address.unwrap_or(0)), guard)
    }
}

/// The way in which a builder cuts data in memory `L` into segments, set by `rows`, `segments`,
/// `heads`, `head_bits` or `by_key`.
#[diagnostic::on_unimplemented(
    message = "the segments of this builder do not lie in `{L}` memory",
    note = "offsets, flags, bits and keys must lie where the items do"
)]
pub trait Segmentation<L: Place>: Selectors + Copy {
    /// Checks that `n` items can be cut so.
    ///
    /// # Errors
    /// [`Error::Size`]; on the host [`Error::Descending`], on the device [`Error::ItemSize`].
    #[doc(hidden)]
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error>;
    /// The heads for the CPU engine.
    #[doc(hidden)]
    fn heads(&self) -> impl host::Heads;
}

/// A [`Segmentation`] whose number of segments the host knows.
pub trait Segments<L: Place>: Segmentation<L> {
    /// The number of segments of `n` items.
    #[doc(hidden)]
    fn count(&self, n: usize) -> usize;
    /// The ends of segments of `n` items for the CPU engine. They ascend up to `n` if `check` has succeeded.
    #[doc(hidden)]
    fn ends(&self, n: usize) -> impl host::Ends;
    /// Whether one of the segments of `n` items on the host is empty.
    #[doc(hidden)]
    fn any_empty(&self, n: usize) -> bool;
}

/// # Errors
/// [`Error::Size`] unless `n` items are whole rows of a matrix with this many columns.
pub(super) fn whole_rows(primitive: &'static str, n: usize, columns: usize) -> Result<(), Error> {
    match n.checked_rem(columns) {
        None if n > 0 => long_enough(primitive, "a row", 0, 1),
        None | Some(0) => Ok(()),
        Some(rest) => long_enough(primitive, "the last row", rest, columns),
    }
}

impl Selectors for Rows {
    fn selectors(&self) -> Option<&dyn Buffer> {
        None
    }
    fn on_device(&self, _: CUdeviceptr) -> Cut {
        Cut::Rows { columns: self.0 }
    }
}

impl<L: Place> Segmentation<L> for Rows {
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error> {
        whole_rows(primitive, n, self.0)
    }
    fn heads(&self) -> impl host::Heads {
        host::ByRows(self.0)
    }
}

impl<L: Place> Segments<L> for Rows {
    fn count(&self, n: usize) -> usize {
        n.checked_div(self.0).unwrap_or(0)
    }
    fn ends(&self, _: usize) -> impl host::Ends {
        host::ByRows(self.0)
    }
    fn any_empty(&self, _: usize) -> bool {
        false
    }
}

impl<I: Index, L> Selectors for ByOffsets<'_, I, L> {
    fn selectors(&self) -> Option<&dyn Buffer> {
        Some(&self.0)
    }
    fn on_device(&self, address: CUdeviceptr) -> Cut {
        Cut::Offsets { address, segments: self.0.len().saturating_sub(1), wide: size_of::<I>() == 8 }
    }
}

impl<I: Index, L: Place> Segmentation<L> for ByOffsets<'_, I, L> {
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error> {
        long_enough(primitive, "the offsets", self.0.len(), 1)?;
        let View::Host(offsets) = self.0 else { return Ok(()) };
        if let Some(index) = host::step_where(offsets, |before, offset| offset < before) {
            return Err(Error::Descending { primitive, index });
        }
        let last = crate::cpu::Size::widen(offsets[offsets.len() - 1]);
        long_enough(primitive, "the items", n, usize::try_from(last).unwrap_or(usize::MAX))
    }
    fn heads(&self) -> impl host::Heads {
        host::ByOffsets(self.0.host())
    }
}

impl<I: Index, L: Place> Segments<L> for ByOffsets<'_, I, L> {
    fn count(&self, _: usize) -> usize {
        self.0.len() - 1
    }
    fn ends(&self, n: usize) -> impl host::Ends {
        host::UpTo(host::ByOffsets(self.0.host()), n)
    }
    fn any_empty(&self, n: usize) -> bool {
        host::step_where(self.0.host(), |before, offset| offset == before || before >= n as u64).is_some()
    }
}

impl<L> Selectors for ByHeads<'_, L> {
    fn selectors(&self) -> Option<&dyn Buffer> {
        Some(&self.0)
    }
    fn on_device(&self, address: CUdeviceptr) -> Cut {
        Cut::Heads { address }
    }
}

impl<L: Place> Segmentation<L> for ByHeads<'_, L> {
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error> {
        long_enough(primitive, "the head flags", self.0.len(), n)
    }
    fn heads(&self) -> impl host::Heads {
        host::ByFlags(self.0.host())
    }
}

impl<W, L> Selectors for ByHeadBits<'_, W, L> {
    fn selectors(&self) -> Option<&dyn Buffer> {
        Some(&self.0)
    }
    fn on_device(&self, address: CUdeviceptr) -> Cut {
        Cut::HeadBits { address }
    }
}

impl<W: Word, L: Place> Segmentation<L> for ByHeadBits<'_, W, L> {
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error> {
        long_enough(primitive, "the head bits, in words,", self.0.len(), n.div_ceil(8 * size_of::<W>()))
    }
    fn heads(&self) -> impl host::Heads {
        W::heads(self.0.host())
    }
}

impl<K, L> Selectors for ByKeys<'_, K, L> {
    fn selectors(&self) -> Option<&dyn Buffer> {
        Some(&self.0)
    }
    fn on_device(&self, address: CUdeviceptr) -> Cut {
        Cut::Keys { address, size: size_of::<K>(), align: align_of::<K>() }
    }
}

impl<K: Pod + Send + Sync, L: Place> Segmentation<L> for ByKeys<'_, K, L> {
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error> {
        long_enough(primitive, "the keys", self.0.len(), n)?;
        match (self.0, size_of::<K>()) {
            (View::Host(_), _) | (View::Device(_), 1..=16) => Ok(()),
            (View::Device(_), size) => Err(Error::ItemSize { primitive, size }),
        }
    }
    fn heads(&self) -> impl host::Heads {
        host::ByKeys(self.0.host())
    }
}
