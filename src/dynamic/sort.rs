//! Sorts of run-time types: of all keys, by segment.

use super::memory::{Where, site_methods};
use super::segments::{Cut, Typed};
use super::types::{with_bits, with_index, with_type};
use super::{Array, Type, View, ViewMut};
use crate::{Error, Workspace};
use std::ops::Range;

const NAME: &str = "sort";
const OUTPUT: &str = "the output";
const INDICES: &str = "the array of indices";

/// Sorts keys in ascending order; stable: [`sort`](crate::sort()) of run-time types.
///
/// ```
/// use parascan::dynamic::{Type, View, ViewMut, sort};
///
/// let (mut prices, mut names) = ([2.5, 0.5, 1.0], *b"abc");
/// let order = sort().descending().indices(View::new(&prices), Type::U32)?;
/// assert_eq!(order.into_vec::<u32>().unwrap(), [0, 2, 1]);
/// sort().run_pairs_in_place(ViewMut::new(&mut prices), ViewMut::new(&mut names))?;
/// assert_eq!((prices, names), ([0.5, 1.0, 2.5], *b"bca"));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn sort() -> Sort<'static> {
    Sort { options: Options { descending: false, bits: None }, site: Where::Anywhere }
}

#[derive(Clone, Debug)]
struct Options {
    descending: bool,
    bits: Option<Range<u32>>,
}

impl Options {
    fn build<K: crate::SortKey>(self) -> crate::Sort<K> {
        let sort = crate::sort::<K>();
        let sort = if self.descending { sort.descending() } else { sort };
        self.bits.map_or(sort, |bits| sort.bits(bits))
    }
}

/// A stable sort: its options, and the calls that run it. Made by [`sort`].
///
/// Options, order, cost, memory and waiting are those of [`crate::Sort`]. A payload is an array of any
/// type.
///
/// # Errors
/// Those of [`crate::Sort`], and:
///
/// | error | cause |
/// |---|---|
/// | [`Error::Type`] | an output of another type than its input; indices that are not `u32` or `u64` |
/// | [`Error::Place`] | arguments do not lie in the same memory |
#[derive(Debug)]
#[must_use = "nothing is sorted until it is run"]
pub struct Sort<'a> {
    options: Options,
    site: Where<'a>,
}

/// A sort of each segment: [`crate::SegmentedSort`]. Made by the methods of [`Sort`].
///
/// # Errors
/// Those of [`crate::SegmentedSort`] and of [`Sort`]; [`Error::Type`] also for offsets that are not
/// `u32` or `u64`, flags that are not `u8`, and words of bits that are not `u32` or `u64`.
#[derive(Debug)]
#[must_use = "nothing is sorted until it is run"]
pub struct SegmentedSort<'a> {
    options: Options,
    site: Where<'a>,
    cut: Cut<'a>,
}

site_methods!(Sort);
site_methods!(SegmentedSort);

impl<'a> Sort<'a> {
    /// Descending order: the greatest key first. Stable.
    pub fn descending(mut self) -> Self {
        self.options.descending = true;
        self
    }

    /// Compares only these bits of a key, as [`crate::Sort::bits`].
    pub fn bits(mut self, bits: Range<u32>) -> Self {
        self.options.bits = Some(bits);
        self
    }

    /// Sorts each row of a row-major matrix with this many columns.
    pub fn rows(self, columns: usize) -> SegmentedSort<'a> {
        self.by(Cut::Rows(columns))
    }

    /// Sorts each segment: segment i is the keys from offset i up to offset i + 1.
    pub fn segments(self, offsets: View<'a>) -> SegmentedSort<'a> {
        self.by(Cut::Offsets(offsets))
    }

    /// Sorts each segment, where one begins with each key whose flag, a `u8`, is not zero.
    pub fn heads(self, flags: View<'a>) -> SegmentedSort<'a> {
        self.by(Cut::Heads(flags))
    }

    /// Sorts each segment, where one begins with each key whose bit is set, in words of `u32` or `u64`.
    pub fn head_bits(self, words: View<'a>) -> SegmentedSort<'a> {
        self.by(Cut::HeadBits(words))
    }

    /// Sorts each run of keys that have equal segment keys, of any type.
    pub fn by_key(self, segment_keys: View<'a>) -> SegmentedSort<'a> {
        self.by(Cut::Keys(segment_keys))
    }

    fn by(self, cut: Cut<'a>) -> SegmentedSort<'a> {
        let Sort { options, site } = self;
        SegmentedSort { options, site, cut }
    }
}

// ---- running

/// Writes the calls of a builder. `$static` is the static builder, from `$sort`, which has the options,
/// and from what `$cut` gives for keys on the host or not.
macro_rules! calls {
    ($builder:ident: |$sort:ident, $part:ident| $static:expr, |$this:ident, $on_host:ident| $cut:expr, prepared $prepared:expr) => {
        impl $builder<'_> {
            /// Loads the kernels and grows the workspace for [`run_into`](Self::run_into) and
            /// [`run_in_place`](Self::run_in_place) of up to `n` keys by the same bits.
            ///
            /// # Errors
            /// Those of [`crate::Sort::prepare`].
            pub fn prepare(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
                with_type!(ty, K => { let $sort = self.options.clone().build::<K>(); $prepared.prepare(n, workspace) })
            }

            /// [`prepare`](Self::prepare) for keys with a payload.
            ///
            /// # Errors
            /// As for [`prepare`](Self::prepare).
            pub fn prepare_pairs(&self, ty: Type, payload: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
                with_type!(ty, K => with_bits!(payload, V => {
                    let $sort = self.options.clone().build::<K>();
                    $prepared.prepare_pairs::<V>(n, workspace)
                }))
            }

            /// [`prepare`](Self::prepare) for [`indices_into`](Self::indices_into).
            ///
            /// # Errors
            /// As for [`prepare`](Self::prepare), and [`Error::Type`].
            pub fn prepare_indices(&self, ty: Type, indices: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
                with_type!(ty, K => with_index!(NAME, INDICES, indices, I => {
                    let $sort = self.options.clone().build::<K>();
                    $prepared.prepare_indices::<I>(n, workspace)
                }))
            }

            /// Returns the sorted keys in new memory where the keys lie.
            pub fn run(self, keys: View<'_>) -> Result<Array, Error> {
                let mut sorted = Array::beside(NAME, keys.ty(), keys.len(), &keys, self.site.stream())?;
                self.run_into(keys, sorted.view_mut())?;
                Ok(sorted)
            }

            /// Writes the sorted keys into the caller's memory, of the keys' type, length and place.
            pub fn run_into(self, keys: View<'_>, sorted: ViewMut<'_>) -> Result<(), Error> {
                sorted.like(NAME, OUTPUT, &keys)?;
                let ($this, $on_host) = (&self, keys.is_on_host());
                let $part = $cut;
                with_type!(keys.ty(), K => {
                    let $sort = self.options.build::<K>().at(self.site);
                    $static.run_into(&keys.typed::<K>(), &mut sorted.typed::<K>())
                })
            }

            /// Sorts the keys in place.
            pub fn run_in_place(self, keys: ViewMut<'_>) -> Result<(), Error> {
                let ($this, $on_host) = (&self, keys.is_on_host());
                let $part = $cut;
                with_type!(keys.ty(), K => {
                    let $sort = self.options.build::<K>().at(self.site);
                    $static.run_in_place(&mut keys.typed::<K>())
                })
            }

            /// Returns the sorted keys, and the payload of each, in new memory where the keys lie.
            pub fn run_pairs(self, keys: View<'_>, payload: View<'_>) -> Result<(Array, Array), Error> {
                let on = self.site.stream();
                let mut sorted = Array::beside(NAME, keys.ty(), keys.len(), &keys, on)?;
                let mut sorted_payload = Array::beside(NAME, payload.ty(), keys.len(), &keys, on)?;
                self.run_pairs_into(keys, payload, sorted.view_mut(), sorted_payload.view_mut())?;
                Ok((sorted, sorted_payload))
            }

            /// Writes the sorted keys, and the payload of each, into the caller's memory.
            pub fn run_pairs_into(
                self,
                keys: View<'_>,
                payload: View<'_>,
                sorted: ViewMut<'_>,
                payload_output: ViewMut<'_>,
            ) -> Result<(), Error> {
                payload.lies(NAME, "the payload", keys.is_on_host())?;
                sorted.like(NAME, OUTPUT, &keys)?;
                payload_output.like(NAME, "the payload's output", &payload)?;
                let ($this, $on_host) = (&self, keys.is_on_host());
                let $part = $cut;
                with_type!(keys.ty(), K => with_bits!(payload.ty(), V => {
                    let $sort = self.options.build::<K>().at(self.site);
                    let (keys, payload) = (keys.typed::<K>(), payload.typed::<V>());
                    let (mut sorted, mut payload_output) = (sorted.typed::<K>(), payload_output.typed::<V>());
                    $static.run_pairs_into(&keys, &payload, &mut sorted, &mut payload_output)
                }))
            }

            /// Sorts the keys in place, and moves the payload of each with it.
            pub fn run_pairs_in_place(self, keys: ViewMut<'_>, payload: ViewMut<'_>) -> Result<(), Error> {
                payload.lies(NAME, "the payload", keys.is_on_host())?;
                let ($this, $on_host) = (&self, keys.is_on_host());
                let $part = $cut;
                with_type!(keys.ty(), K => with_bits!(payload.ty(), V => {
                    let $sort = self.options.build::<K>().at(self.site);
                    $static.run_pairs_in_place(&mut keys.typed::<K>(), &mut payload.typed::<V>())
                }))
            }

            /// Returns the source index of each key of the sorted order, in new memory of the type
            /// `indices`.
            pub fn indices(self, keys: View<'_>, indices: Type) -> Result<Array, Error> {
                let mut output = Array::beside(NAME, indices, keys.len(), &keys, self.site.stream())?;
                self.indices_into(keys, output.view_mut())?;
                Ok(output)
            }

            /// Writes the source index of each key of the sorted order into the caller's memory, as
            /// long as the keys.
            pub fn indices_into(self, keys: View<'_>, indices: ViewMut<'_>) -> Result<(), Error> {
                indices.lies(NAME, INDICES, keys.is_on_host())?;
                let ($this, $on_host) = (&self, keys.is_on_host());
                let $part = $cut;
                with_type!(keys.ty(), K => with_index!(NAME, INDICES, indices.ty(), I => {
                    let $sort = self.options.build::<K>().at(self.site);
                    $static.indices_into::<I, _, _>(&keys.typed::<K>(), &mut indices.typed::<I>())
                }))
            }
        }
    };
}
calls! { Sort: |sort, _all| sort, |_sort, _on_host| (), prepared sort }
calls! { SegmentedSort: |sort, cut| sort.by(cut), |sort, on_host| &sort.cut.typed(NAME, on_host)?, prepared sort.rows(1) }

impl SegmentedSort<'_> {
    /// Returns the source index of each key of the sorted order, counted from the first key of its
    /// segment, in new memory of the type `indices`: `argsort` of rows.
    pub fn local_indices(self, keys: View<'_>, indices: Type) -> Result<Array, Error> {
        let mut output = Array::beside(NAME, indices, keys.len(), &keys, self.site.stream())?;
        self.local_indices_into(keys, output.view_mut())?;
        Ok(output)
    }

    /// Writes the indices of [`local_indices`](SegmentedSort::local_indices) into the caller's memory,
    /// as long as the keys.
    pub fn local_indices_into(self, keys: View<'_>, indices: ViewMut<'_>) -> Result<(), Error> {
        indices.lies(NAME, INDICES, keys.is_on_host())?;
        let cut: &Typed = &self.cut.typed(NAME, keys.is_on_host())?;
        with_type!(keys.ty(), K => with_index!(NAME, INDICES, indices.ty(), I => {
            let sort = self.options.build::<K>().at(self.site).by(cut);
            sort.local_indices_into::<I, _, _>(&keys.typed::<K>(), &mut indices.typed::<I>())
        }))
    }
}
