//! Offsets of sizes, and the segments of packed items, of run-time types.

use super::memory::{Where, counter, site_methods};
use super::types::with_index;
use super::{Array, Type, View, ViewMut};
use crate::primitives::{expand::total, offsets::counted};
use crate::{Error, Source, Workspace};

const OFFSETS: &str = "offsets";
const EXPAND: &str = "expand";
const STARTS: &str = "the array of offsets";
const SEGMENTS: &str = "the array of segments";
const POSITIONS: &str = "the array of positions";

/// Computes the exclusive sum of sizes, checked for overflow: [`offsets`](crate::offsets()) of run-time
/// types.
///
/// Sizes are `u8`, `u16`, `u32` or `u64`, offsets `u32` or `u64`.
///
/// ```
/// use parascan::dynamic::{Type, View, expand, offsets};
///
/// let starts = offsets().with_total().run(View::new(&[2_u8, 0, 3]), Type::U32)?;
/// let segments = expand().run(starts.view(), Type::U64)?;
/// assert_eq!(starts.into_vec::<u32>().unwrap(), [0, 2, 2, 5]);
/// assert_eq!(segments.into_vec::<u64>().unwrap(), [0, 0, 2, 2, 2]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn offsets() -> Offsets<'static> {
    Offsets { align: 1, with_total: false, site: Where::Anywhere }
}

/// Computes the segment index of each packed item from the offsets of the segments, `u32` or `u64`:
/// [`expand`](crate::expand()) of run-time types.
pub fn expand() -> Expand<'static> {
    Expand { site: Where::Anywhere }
}

/// Offsets of sizes: options, and the calls that compute them. Made by [`offsets`].
///
/// Options, total, cost and waiting are those of [`crate::Offsets`].
///
/// # Errors
/// Those of [`crate::Offsets`]; [`Error::Type`] for sizes, offsets or a total of another type;
/// [`Error::Place`] unless all lie in the same memory.
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Offsets<'a> {
    align: u64,
    with_total: bool,
    site: Where<'a>,
}

/// Segment indices of packed items: the calls that compute them. Made by [`expand`].
///
/// Offsets, length, cost and waiting are those of [`crate::Expand`].
///
/// # Errors
/// Those of [`crate::Expand`]; [`Error::Type`] for offsets and indices that are not `u32` or `u64`;
/// [`Error::Place`] unless all lie in the same memory.
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Expand<'a> {
    site: Where<'a>,
}

site_methods!(Offsets);
site_methods!(Expand);

/// `with_size!(ty, S => e)` is `e` with `S` the size type.
///
/// # Errors
/// [`Error::Type`].
macro_rules! with_size {
    ($ty:expr, $S:ident => $e:expr) => {
        match $ty {
            Type::U8 => {
                type $S = u8;
                $e
            }
            Type::U16 => {
                type $S = u16;
                $e
            }
            Type::U32 => {
                type $S = u32;
                $e
            }
            Type::U64 => {
                type $S = u64;
                $e
            }
            found => Err(Error::Type {
                primitive: OFFSETS,
                what: "the array of sizes",
                expected: "u8, u16, u32 or u64",
                found: found.name(),
            }),
        }
    };
}

impl Offsets<'_> {
    /// Each offset is a multiple of this power of two.
    pub fn align(mut self, align: u64) -> Self {
        self.align = align;
        self
    }

    /// Writes the total as a last offset.
    pub fn with_total(mut self) -> Self {
        self.with_total = true;
        self
    }

    fn build<S: crate::Size, O: crate::Index>(&self) -> crate::Offsets<S, O> {
        let offsets = crate::offsets::<S, O>().align(self.align);
        if self.with_total { offsets.with_total() } else { offsets }
    }

    /// Loads the kernels and grows the workspace for calls of up to `n` sizes.
    ///
    /// # Errors
    /// [`Error::Type`], and those of [`crate::Offsets::prepare`].
    pub fn prepare(&self, sizes: Type, offsets: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        with_size!(sizes, S => with_index!(OFFSETS, STARTS, offsets, O => {
            self.build::<S, O>().prepare(n, workspace)
        }))
    }

    /// Returns the offsets in new memory of the type `offsets`, where the sizes lie.
    ///
    /// On the device the call waits for the total, to check it.
    pub fn run(self, sizes: View<'_>, offsets: Type) -> Result<Array, Error> {
        let on = self.site.stream();
        let n = sizes.len() + usize::from(self.with_total);
        let mut starts = Array::beside(OFFSETS, offsets, n, &sizes, on)?;
        let mut total = Array::beside(OFFSETS, Type::U64, 1, &sizes, on)?;
        self.run_into(sizes, starts.view_mut(), total.view_mut())?;
        let total = total.count()?;
        with_index!(OFFSETS, STARTS, offsets, O => counted::<O>(OFFSETS, total, starts.view().stream().is_some()))?;
        Ok(starts)
    }

    /// Writes the offsets, and the total as a `u64`, into the caller's memory.
    pub fn run_into(self, sizes: View<'_>, starts: ViewMut<'_>, total: ViewMut<'_>) -> Result<(), Error> {
        starts.lies(OFFSETS, STARTS, sizes.is_on_host())?;
        let mut total = counter(OFFSETS, "the total", total, sizes.is_on_host())?;
        with_size!(sizes.ty(), S => with_index!(OFFSETS, STARTS, starts.ty(), O => {
            let offsets = self.build::<S, O>().at(self.site);
            offsets.run_into(&sizes.typed::<S>(), &mut starts.typed::<O>(), &mut total)
        }))
    }
}

impl Expand<'_> {
    /// Loads the kernels, as [`crate::Expand::prepare`].
    ///
    /// # Errors
    /// Those of [`crate::Expand::prepare`].
    pub fn prepare(&self, workspace: &mut Workspace) -> Result<(), Error> {
        crate::expand::<u32>().prepare(workspace)
    }

    /// Returns the segment of each item in new memory of the type `segments`, where the offsets lie.
    ///
    /// On the device the call waits for the first and the last offset.
    pub fn run(self, offsets: View<'_>, segments: Type) -> Result<Array, Error> {
        let on = self.site.stream();
        let total = with_index!(EXPAND, STARTS, offsets.ty(), O => with_index!(EXPAND, SEGMENTS, segments, I => {
            let n = offsets.len().saturating_sub(1);
            total::<I, O>(offsets.typed::<O>().view(), n, on.or(offsets.stream()))
        }))?;
        let mut output = Array::beside(EXPAND, segments, total, &offsets, on)?;
        self.run_into(offsets, output.view_mut())?;
        Ok(output)
    }

    /// Writes the segment of each item into the caller's memory.
    pub fn run_into(self, offsets: View<'_>, segments: ViewMut<'_>) -> Result<(), Error> {
        segments.lies(EXPAND, SEGMENTS, offsets.is_on_host())?;
        let site = self.site;
        with_index!(EXPAND, STARTS, offsets.ty(), O => with_index!(EXPAND, SEGMENTS, segments.ty(), I => {
            crate::expand::<O>().at(site).run_into::<I, _, _>(&offsets.typed::<O>(), &mut segments.typed::<I>())
        }))
    }

    /// Writes the segment of each item, and the item's position in that segment, into the caller's
    /// memory. Both have one type.
    pub fn run_with_positions_into(
        self,
        offsets: View<'_>,
        segments: ViewMut<'_>,
        positions: ViewMut<'_>,
    ) -> Result<(), Error> {
        segments.lies(EXPAND, SEGMENTS, offsets.is_on_host())?;
        positions.lies(EXPAND, POSITIONS, offsets.is_on_host())?;
        segments.ty().expect(EXPAND, POSITIONS, positions.ty())?;
        let site = self.site;
        with_index!(EXPAND, STARTS, offsets.ty(), O => with_index!(EXPAND, SEGMENTS, segments.ty(), I => {
            let (mut segments, mut positions) = (segments.typed::<I>(), positions.typed::<I>());
            let expand = crate::expand::<O>().at(site);
            expand.run_with_positions_into::<I, _, _, _>(&offsets.typed::<O>(), &mut segments, &mut positions)
        }))
    }
}
