//! Compaction, partition and unique of run-time types.

use super::memory::{Where, counter, site_methods};
use super::types::{with_bits, with_index, with_type};
use super::{Array, Type, View, ViewMut};
use crate::{Error, NonZero, RawSlice, Workspace};

const OUTPUT: &str = "the output";
const COUNT: &str = "the count";
const INDICES: &str = "the array of indices";

/// Copies the selected items to the front of an output, in their original order:
/// [`compact`](crate::compact()) of run-time types.
///
/// Selects the items that are not zero, unless [`flags`](Compact::flags) or [`bits`](Compact::bits)
/// says otherwise.
///
/// ```
/// use parascan::dynamic::{Type, View, compact};
///
/// let prices = [0.25, 0.0, 2.0];
/// let selected = compact().flags(View::new(&[1_u8, 1, 0])).run(View::new(&prices))?;
/// assert_eq!(selected.into_vec::<f64>().unwrap(), [0.25, 0.0]);
/// let nonzero = compact().indices(View::new(&prices), Type::I64)?;
/// assert_eq!(nonzero.into_vec::<i64>().unwrap(), [0, 2]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn compact() -> Compact<'static> {
    Compact { choice: Choice::NonZero, complement: false, append: false, site: Where::Anywhere }
}

/// Separates items into the selected and the rejected ones, both in their original order:
/// [`partition`](crate::partition()) of run-time types.
///
/// Selects the items that are not zero, unless [`flags`](Partition::flags) or
/// [`bits`](Partition::bits) says otherwise.
///
/// ```
/// use parascan::dynamic::{View, partition};
///
/// let (both, selected) = partition().flags(View::new(&[0_u8, 1, 1])).run(View::new(&[7, 8, 9]))?;
/// assert_eq!((both.into_vec::<i32>().unwrap(), selected), (vec![8, 9, 7], 2));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn partition() -> Partition<'static> {
    Partition { choice: Choice::NonZero, complement: false, site: Where::Anywhere }
}

/// Copies the first item of each run of equal neighbours: [`unique`](crate::unique()) of run-time types.
///
/// ```
/// use parascan::dynamic::{View, unique};
///
/// let distinct = unique().run(View::new(&[3_u8, 3, 1, 1, 3]))?;
/// assert_eq!(distinct.into_vec::<u8>().unwrap(), [3, 1, 3]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn unique() -> Unique<'static> {
    Unique { append: false, site: Where::Anywhere }
}

/// Which items are selected.
#[derive(Clone, Copy, Debug)]
enum Choice<'a> {
    NonZero,
    Flags(View<'a>),
    Bits(View<'a>),
}

impl Choice<'_> {
    /// # Errors
    /// [`Error::Type`]; [`Error::Place`] unless flags or bits lie where the items do.
    fn check(&self, primitive: &'static str, on_host: bool) -> Result<(), Error> {
        match self {
            Choice::NonZero => Ok(()),
            Choice::Flags(flags) => {
                const WHAT: &str = "the array of flags";
                Type::U8.expect(primitive, WHAT, flags.ty())?;
                flags.lies(primitive, WHAT, on_host)
            }
            Choice::Bits(words) => {
                const WHAT: &str = "the array of bits";
                words.lies(primitive, WHAT, on_host)?;
                match words.ty() {
                    Type::U32 | Type::U64 => Ok(()),
                    found => Err(Error::Type { primitive, what: WHAT, expected: "u32 or u64", found: found.name() }),
                }
            }
        }
    }
}

/// `chosen!(choice, ty, builder, (b, T) => e)` is `e` with `b` the static builder for items `T` of the
/// type `ty`, which selects by the choice. The choice was checked.
macro_rules! chosen {
    ($choice:expr, $ty:expr, $builder:ident, ($b:ident, $T:ident) => $e:expr) => {
        match $choice {
            Choice::NonZero => with_type!($ty, $T => { let $b = crate::$builder::<$T>().keep(NonZero); $e }),
            Choice::Flags(flags) => {
                let flags = flags.typed::<u8>();
                with_bits!($ty, $T => { let $b = crate::$builder::<$T>().flags(&flags); $e })
            }
            Choice::Bits(words) if words.ty() == Type::U32 => {
                let words = words.typed::<u32>();
                with_bits!($ty, $T => { let $b = crate::$builder::<$T>().bits::<u32, _>(&words); $e })
            }
            Choice::Bits(words) => {
                let words = words.typed::<u64>();
                with_bits!($ty, $T => { let $b = crate::$builder::<$T>().bits::<u64, _>(&words); $e })
            }
        }
    };
}

/// As `chosen!`, for `prepare`: a choice of the same kind on the device, and the stream of the
/// workspace.
macro_rules! prepared {
    ($choice:expr, $ty:expr, $stream:expr, $builder:ident, ($b:ident, $T:ident) => $e:expr) => {
        match $choice {
            Choice::NonZero => with_type!($ty, $T => { let $b = crate::$builder::<$T>().keep(NonZero); $e }),
            Choice::Flags(_) => {
                // SAFETY: it has no items.
                let flags = unsafe { RawSlice::<u8>::new(0, 0, &$stream) };
                with_bits!($ty, $T => { let $b = crate::$builder::<$T>().flags(&flags); $e })
            }
            Choice::Bits(_) => {
                // SAFETY: it has no items.
                let words = unsafe { RawSlice::<u32>::new(0, 0, &$stream) };
                with_bits!($ty, $T => { let $b = crate::$builder::<$T>().bits::<u32, _>(&words); $e })
            }
        }
    };
}

/// A compaction: its options, and the calls that run it. Made by [`compact`].
///
/// Options, [count](crate::Compact#the-count), cost and waiting are those of [`crate::Compact`].
///
/// # Errors
/// Those of [`crate::Compact`], and:
///
/// | error | cause |
/// |---|---|
/// | [`Error::Type`] | an output of another type than the items; flags that are not `u8`, words of bits and indices that are not `u32` or `u64`, a count that is not a `u64` |
/// | [`Error::Place`] | arguments do not lie in the same memory |
#[derive(Debug)]
#[must_use = "a compaction does nothing until it is run"]
pub struct Compact<'a> {
    choice: Choice<'a>,
    complement: bool,
    append: bool,
    site: Where<'a>,
}

/// A stable partition: its options, and the calls that run it. Made by [`partition`].
///
/// Options, cost and waiting are those of [`crate::Partition`].
///
/// # Errors
/// Those of [`crate::Partition`]; [`Error::Type`] and [`Error::Place`] as for a [`Compact`].
#[derive(Debug)]
#[must_use = "a partition does nothing until it is run"]
pub struct Partition<'a> {
    choice: Choice<'a>,
    complement: bool,
    site: Where<'a>,
}

/// The first item of each run of equal neighbours: options, and the calls that run it. Made by
/// [`unique`].
///
/// Count, cost and waiting are those of [`crate::Unique`].
///
/// # Errors
/// Those of [`crate::Unique`]; [`Error::Type`] and [`Error::Place`] as for a [`Compact`].
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Unique<'a> {
    append: bool,
    site: Where<'a>,
}

site_methods!(Compact);
site_methods!(Partition);
site_methods!(Unique);

/// Writes the options that tell which items are selected.
macro_rules! choices {
    ($builder:ident) => {
        impl<'a> $builder<'a> {
            /// Selects the items whose flag, a `u8`, is not zero.
            pub fn flags(mut self, flags: View<'a>) -> Self {
                self.choice = Choice::Flags(flags);
                self
            }

            /// Selects the items whose bit is set, in words of `u32` or `u64`, the least significant bit
            /// first.
            pub fn bits(mut self, words: View<'a>) -> Self {
                self.choice = Choice::Bits(words);
                self
            }

            /// Selects the items that would be rejected, and rejects the others.
            pub fn complement(mut self) -> Self {
                self.complement = !self.complement;
                self
            }
        }
    };
}
choices!(Compact);
choices!(Partition);

/// Writes the calls of a compaction. `$with!(self, ty, (b, T) => e)` is `e` with `b` the static builder for
/// items `T` and the site; `$check` checks the choice.
macro_rules! compactions {
    ($builder:ident, $name:literal, |$this:ident, $on_host:ident| $check:expr, $with:ident!) => {
        impl $builder<'_> {
            /// Appends the selected items to the items that the output already holds, as
            /// [`crate::Compact::append`].
            pub fn append(mut self) -> Self {
                self.append = true;
                self
            }

            /// Returns the selected items in new memory of exactly that length, where the items lie.
            ///
            /// On the device the call waits for the count.
            pub fn run(mut self, items: View<'_>) -> Result<Array, Error> {
                self.append = false;
                let on = self.site.stream();
                let mut output = Array::beside($name, items.ty(), items.len(), &items, on)?;
                let mut count = Array::beside($name, Type::U64, 1, &items, on)?;
                self.run_into(items, output.view_mut(), count.view_mut())?;
                output.shorten($name, count.count()?)
            }

            /// Writes the selected items, and their number as a `u64`, into the caller's memory.
            pub fn run_into(self, items: View<'_>, output: ViewMut<'_>, count: ViewMut<'_>) -> Result<(), Error> {
                output.like($name, OUTPUT, &items)?;
                let ($this, $on_host) = (&self, items.is_on_host());
                $check?;
                let mut count = counter($name, COUNT, count, items.is_on_host())?;
                $with!(self, items.ty(), (b, T) => {
                    b.run_into(&items.typed::<T>(), &mut output.typed::<T>(), &mut count)
                })
            }

            /// Moves the selected items to the front of their own memory.
            pub fn run_in_place(self, items: ViewMut<'_>, count: ViewMut<'_>) -> Result<(), Error> {
                let ($this, $on_host) = (&self, items.is_on_host());
                $check?;
                let mut count = counter($name, COUNT, count, items.is_on_host())?;
                $with!(self, items.ty(), (b, T) => b.run_in_place(&mut items.typed::<T>(), &mut count))
            }

            /// Returns the source indices of the selected items in new memory of the type `indices`.
            ///
            /// On the device the call waits for the count.
            pub fn indices(mut self, items: View<'_>, indices: Type) -> Result<Array, Error> {
                self.append = false;
                let on = self.site.stream();
                let mut output = Array::beside($name, indices, items.len(), &items, on)?;
                let mut count = Array::beside($name, Type::U64, 1, &items, on)?;
                self.indices_into(items, output.view_mut(), count.view_mut())?;
                output.shorten($name, count.count()?)
            }

            /// Writes the source indices of the selected items, and their number as a `u64`, into the
            /// caller's memory.
            pub fn indices_into(self, items: View<'_>, indices: ViewMut<'_>, count: ViewMut<'_>) -> Result<(), Error> {
                indices.lies($name, INDICES, items.is_on_host())?;
                let ($this, $on_host) = (&self, items.is_on_host());
                $check?;
                let mut count = counter($name, COUNT, count, items.is_on_host())?;
                $with!(self, items.ty(), (b, T) => with_index!($name, INDICES, indices.ty(), I => {
                    b.indices_into::<I, _, _, _>(&items.typed::<T>(), &mut indices.typed::<I>(), &mut count)
                }))
            }

            /// Writes the selected items, their source indices, and their number as a `u64`, into the
            /// caller's memory.
            pub fn run_with_indices_into(
                self,
                items: View<'_>,
                output: ViewMut<'_>,
                indices: ViewMut<'_>,
                count: ViewMut<'_>,
            ) -> Result<(), Error> {
                output.like($name, OUTPUT, &items)?;
                indices.lies($name, INDICES, items.is_on_host())?;
                let ($this, $on_host) = (&self, items.is_on_host());
                $check?;
                let mut count = counter($name, COUNT, count, items.is_on_host())?;
                $with!(self, items.ty(), (b, T) => with_index!($name, INDICES, indices.ty(), I => {
                    let (mut output, mut indices) = (output.typed::<T>(), indices.typed::<I>());
                    b.run_with_indices_into::<I, _, _, _, _>(&items.typed::<T>(), &mut output, &mut indices, &mut count)
                }))
            }
        }
    };
}

macro_rules! compacted {
    ($this:expr, $ty:expr, ($b:ident, $T:ident) => $e:expr) => {
        chosen!($this.choice, $ty, compact, ($b, $T) => {
            let $b = if $this.complement { $b.complement() } else { $b };
            let $b = if $this.append { $b.append() } else { $b }.at($this.site);
            $e
        })
    };
}
macro_rules! united {
    ($this:expr, $ty:expr, ($b:ident, $T:ident) => $e:expr) => {
        with_type!($ty, $T => {
            let $b = crate::unique::<$T>();
            let $b = if $this.append { $b.append() } else { $b }.at($this.site);
            $e
        })
    };
}
compactions! { Compact, "compact", |this, on_host| this.choice.check("compact", on_host), compacted! }
compactions! { Unique, "unique", |_this, _on_host| Ok::<(), Error>(()), united! }

/// Writes the calls that prepare those above. `$with` calls an expression with the selection's builder.
macro_rules! prepares {
    ($Type:ident, $name:literal, $with:ident) => {
        impl $Type<'_> {
            /// Loads the kernels and grows the workspace for `run_into` and `run_in_place` of up to `n` items
            /// by the same selection.
            ///
            /// # Errors
            #[doc = concat!("Those of [`crate::", stringify!($Type), "::prepare`].")]
            pub fn prepare(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
                $with!(self, ty, workspace, (b, T) => b.prepare(n, workspace))
            }

            /// `prepare` for `indices_into`.
            ///
            /// # Errors
            /// As for `prepare`, and [`Error::Type`].
            pub fn prepare_indices(
                &self,
                ty: Type,
                indices: Type,
                n: usize,
                workspace: &mut Workspace,
            ) -> Result<(), Error> {
                $with!(self, ty, workspace, (b, T) => with_index!($name, INDICES, indices, I => {
                    b.prepare_indices::<I>(n, workspace)
                }))
            }

            /// `prepare` for `run_with_indices_into`.
            ///
            /// # Errors
            /// As for `prepare`, and [`Error::Type`].
            pub fn prepare_with_indices(
                &self,
                ty: Type,
                indices: Type,
                n: usize,
                workspace: &mut Workspace,
            ) -> Result<(), Error> {
                $with!(self, ty, workspace, (b, T) => with_index!($name, INDICES, indices, I => {
                    b.prepare_with_indices::<I>(n, workspace)
                }))
            }
        }
    };
}
macro_rules! compacts {
    ($this:expr, $ty:expr, $workspace:ident, ($b:ident, $T:ident) => $e:expr) => {{
        let stream = $workspace.stream().clone();
        prepared!($this.choice, $ty, stream, compact, ($b, $T) => $e)
    }};
}
macro_rules! unites {
    ($this:expr, $ty:expr, $workspace:ident, ($b:ident, $T:ident) => $e:expr) => {
        with_type!($ty, $T => { let $b = crate::unique::<$T>(); $e })
    };
}
prepares! { Compact, "compact", compacts }
prepares! { Unique, "unique", unites }

// ---- partition

const PARTITION: &str = "partition";

macro_rules! parted {
    ($this:expr, $ty:expr, ($b:ident, $T:ident) => $e:expr) => {
        chosen!($this.choice, $ty, partition, ($b, $T) => {
            let $b = if $this.complement { $b.complement() } else { $b }.at($this.site);
            $e
        })
    };
}

impl Partition<'_> {
    /// Loads the kernels and grows the workspace for calls of up to `n` items by the same selection.
    ///
    /// # Errors
    /// Those of [`crate::Partition::prepare`].
    pub fn prepare(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        let stream = workspace.stream().clone();
        prepared!(self.choice, ty, stream, partition, (b, T) => b.prepare(n, workspace))
    }

    /// Returns the selected items, then the rejected ones, in new memory where the items lie, and the
    /// number of selected items.
    ///
    /// On the device the call waits for that number.
    pub fn run(self, items: View<'_>) -> Result<(Array, usize), Error> {
        let on = self.site.stream();
        let mut output = Array::beside(PARTITION, items.ty(), items.len(), &items, on)?;
        let mut count = Array::beside(PARTITION, Type::U64, 1, &items, on)?;
        self.run_into(items, output.view_mut(), count.view_mut())?;
        let selected = count.count()?;
        Ok((output, selected))
    }

    /// Writes the selected items, then the rejected ones, into one buffer of the caller's, as long as
    /// the items. `count` gets the number of selected items as a `u64`.
    pub fn run_into(self, items: View<'_>, output: ViewMut<'_>, count: ViewMut<'_>) -> Result<(), Error> {
        output.like(PARTITION, OUTPUT, &items)?;
        self.choice.check(PARTITION, items.is_on_host())?;
        let mut count = counter(PARTITION, COUNT, count, items.is_on_host())?;
        parted!(self, items.ty(), (b, T) => b.run_into(&items.typed::<T>(), &mut output.typed::<T>(), &mut count))
    }

    /// Writes the selected items into one buffer and the rejected items into another. `count` gets the
    /// number of selected items as a `u64`.
    pub fn run_apart_into(
        self,
        items: View<'_>,
        selected: ViewMut<'_>,
        rejected: ViewMut<'_>,
        count: ViewMut<'_>,
    ) -> Result<(), Error> {
        selected.like(PARTITION, "the output of the selected items", &items)?;
        rejected.like(PARTITION, "the output of the rejected items", &items)?;
        self.choice.check(PARTITION, items.is_on_host())?;
        let mut count = counter(PARTITION, COUNT, count, items.is_on_host())?;
        parted!(self, items.ty(), (b, T) => {
            let (mut selected, mut rejected) = (selected.typed::<T>(), rejected.typed::<T>());
            b.run_apart_into(&items.typed::<T>(), &mut selected, &mut rejected, &mut count)
        })
    }
}
