//! Scans of run-time types: of all items, by segment, by column.

use super::memory::{Where, site_methods};
use super::segments::{Cut, Typed};
use super::types::ForPair;
use super::{Array, Item, Op, Type, Value, View, ViewMut};
use crate::{Error, Operator, Workspace};

const NAME: &str = "scan";
const OUTPUT: &str = "the output";

/// Computes all prefixes of the input under the operator: [`scan`](crate::scan()) of run-time types.
///
/// ```
/// use parascan::dynamic::{Op, Value, View, ViewMut, scan};
///
/// let sizes = [10_u64, 20, 30];
/// let starts = scan(Op::Sum).exclusive().init(Value::from(100_u64)).run(View::new(&sizes))?;
/// assert_eq!(starts.into_vec::<u64>().unwrap(), [100, 110, 130]);
///
/// let (matrix, mut totals) = ([1, 2, 3, 10, 20, 30], [0; 6]);
/// scan(Op::Sum).columns(3).run_into(View::new(&matrix), ViewMut::new(&mut totals))?;
/// assert_eq!(totals, [1, 2, 3, 11, 22, 33]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn scan(op: Op) -> Scan<'static> {
    Scan { options: Options { op, exclusive: false, reverse: false, init: None }, site: Where::Anywhere }
}

#[derive(Clone, Copy, Debug)]
struct Options {
    op: Op,
    exclusive: bool,
    reverse: bool,
    init: Option<Value>,
}

impl Options {
    /// The static builder for items `T`, which stand for items of `ty`.
    ///
    /// # Errors
    /// [`Error::Type`], [`Error::NoIdentity`].
    fn build<O: Operator<T>, T: Item>(&self, ty: Type) -> Result<crate::Scan<O, T>, Error> {
        let mut scan = crate::scan::<O, T>();
        if self.reverse {
            scan = scan.reverse();
        }
        if let Some(init) = self.init {
            ty.expect(NAME, "the initial value", init.ty())?;
        }
        Ok(match (self.exclusive, self.init) {
            (false, None) => scan,
            (false, Some(init)) => scan.init(init.bits()),
            (true, Some(init)) => scan.exclusive_from(init.bits()),
            (true, None) => {
                let identity = O::IDENTITY.ok_or(Error::NoIdentity { primitive: NAME, operator: self.op.name() })?;
                scan.exclusive_from(O::lower(identity))
            }
        })
    }
}

/// Scans all items of the input: its options, and the calls that run it. Made by [`scan`].
///
/// Options, cost, waiting and bits are those of [`crate::Scan`].
///
/// # Errors
/// Those of [`crate::Scan`], and:
///
/// | error | cause |
/// |---|---|
/// | [`Error::Undefined`] | the operator is not defined for the input's type |
/// | [`Error::Type`] | an output or an initial value of another type |
/// | [`Error::Place`] | input and output do not lie in the same memory |
/// | [`Error::NoIdentity`] | an exclusive scan without `init`, by an operator without identity |
#[derive(Debug)]
#[must_use = "a scan does nothing until it is run"]
pub struct Scan<'a> {
    options: Options,
    site: Where<'a>,
}

/// A scan of each segment: [`crate::SegmentedScan`]. Made by the methods of [`Scan`].
///
/// # Errors
/// Those of [`crate::SegmentedScan`] and of [`Scan`]; [`Error::Type`] also for offsets that are not
/// `u32` or `u64`, flags that are not `u8`, and words of bits that are not `u32` or `u64`.
#[derive(Debug)]
#[must_use = "a scan does nothing until it is run"]
pub struct SegmentedScan<'a> {
    options: Options,
    site: Where<'a>,
    cut: Cut<'a>,
}

/// A scan of each column: [`crate::ColumnScan`]. Made by [`Scan::columns`].
///
/// # Errors
/// Those of [`crate::ColumnScan`] and of [`Scan`].
#[derive(Debug)]
#[must_use = "a scan does nothing until it is run"]
pub struct ColumnScan<'a> {
    options: Options,
    site: Where<'a>,
    columns: usize,
}

site_methods!(Scan);
site_methods!(SegmentedScan);
site_methods!(ColumnScan);

impl<'a> Scan<'a> {
    /// Output i combines inputs 0 to i - 1; output 0 is `init`, or the operator's identity without
    /// one.
    pub fn exclusive(mut self) -> Self {
        self.options.exclusive = true;
        self
    }

    /// Combines this value before the first input, in inclusive scans too.
    pub fn init(mut self, init: Value) -> Self {
        self.options.init = Some(init);
        self
    }

    /// Scans from the last item to the first; called twice, from the first again.
    pub fn reverse(mut self) -> Self {
        self.options.reverse = !self.options.reverse;
        self
    }

    // ---- segments

    /// Scans each row of a row-major matrix with this many columns.
    pub fn rows(self, columns: usize) -> SegmentedScan<'a> {
        self.by(Cut::Rows(columns))
    }

    /// Scans each segment: segment i is the items from offset i up to offset i + 1.
    pub fn segments(self, offsets: View<'a>) -> SegmentedScan<'a> {
        self.by(Cut::Offsets(offsets))
    }

    /// Scans each segment, where one begins with each item whose flag, a `u8`, is not zero.
    pub fn heads(self, flags: View<'a>) -> SegmentedScan<'a> {
        self.by(Cut::Heads(flags))
    }

    /// Scans each segment, where one begins with each item whose bit is set, in words of `u32` or `u64`.
    pub fn head_bits(self, words: View<'a>) -> SegmentedScan<'a> {
        self.by(Cut::HeadBits(words))
    }

    /// Scans each run of items with equal keys, of any type.
    pub fn by_key(self, keys: View<'a>) -> SegmentedScan<'a> {
        self.by(Cut::Keys(keys))
    }

    /// Scans each column of a row-major matrix with this many columns.
    pub fn columns(self, columns: usize) -> ColumnScan<'a> {
        let Scan { options, site } = self;
        ColumnScan { options, site, columns }
    }

    fn by(self, cut: Cut<'a>) -> SegmentedScan<'a> {
        let Scan { options, site } = self;
        SegmentedScan { options, site, cut }
    }
}

// ---- running

/// Writes the calls of a builder. `$cut` is what cuts the items, for items on the host or not.
macro_rules! calls {
    ($builder:ident, |$scan:ident, $on_host:ident| $cut:expr; prepare $n:ident: $what:literal, $prepared:expr) => {
        impl $builder<'_> {
            #[doc = concat!("Loads the kernels and grows the workspace for calls with up to `", stringify!($n), "` ", $what, ".")]
            ///
            /// # Errors
            /// [`Error::Undefined`], and those of the static `prepare`.
            pub fn prepare(&self, ty: Type, $n: usize, workspace: &mut Workspace) -> Result<(), Error> {
                let $scan = self;
                $scan.options.op.with(NAME, ty, Prepare { cut: $prepared, n: $n, workspace })
            }

            /// Returns the result in new memory where the input lies.
            pub fn run(self, input: View<'_>) -> Result<Array, Error> {
                let mut output = Array::beside(NAME, input.ty(), input.len(), &input, self.site.stream())?;
                self.run_into(input, output.view_mut())?;
                Ok(output)
            }

            /// Writes the result into the caller's memory, of the input's type, length and place.
            pub fn run_into(self, input: View<'_>, mut output: ViewMut<'_>) -> Result<(), Error> {
                output.like(NAME, OUTPUT, &input)?;
                let ($scan, $on_host) = (&self, input.is_on_host());
                let (options, cut) = ($scan.options, $cut);
                let call = Call { options, cut, site: self.site, input: Some(input), output: output.again() };
                options.op.with(NAME, input.ty(), call)
            }

            /// Replaces the input by the result.
            pub fn run_in_place(self, mut data: ViewMut<'_>) -> Result<(), Error> {
                let ($scan, $on_host, ty) = (&self, data.is_on_host(), data.ty());
                let (options, cut) = ($scan.options, $cut);
                let call = Call { options, cut, site: self.site, input: None, output: data.again() };
                options.op.with(NAME, ty, call)
            }
        }
    };
}
calls! { Scan, |scan, _on_host| All; prepare n: "items", All }
calls! { SegmentedScan, |scan, on_host| &scan.cut.typed(NAME, on_host)?; prepare n: "items in such segments", &scan.cut.typed(NAME, false)? }
calls! { ColumnScan, |scan, _on_host| Columns(scan.columns); prepare rows: "rows of as many columns", Columns(scan.columns) }

/// All items are scanned, by [`Scan`].
struct All;
/// This many columns, by [`ColumnScan`].
struct Columns(usize);

/// A call of a scan that is cut by `C`. In place `input` is `None`.
struct Call<'a, C> {
    options: Options,
    cut: C,
    site: Where<'a>,
    input: Option<View<'a>>,
    output: ViewMut<'a>,
}

/// `prepare` of a scan that is cut by `C`.
struct Prepare<'a, C> {
    cut: C,
    n: usize,
    workspace: &'a mut Workspace,
}

/// Writes how a call runs the static builder, and how it is prepared.
macro_rules! runs {
    ($($cut:ty, $prepared:ty: |$scan:ident, $part:ident| $static:expr, $prepare:expr;)*) => { $(
        impl ForPair for Call<'_, $cut> {
            type Output = ();
            fn call<O: Operator<T>, T: Item>(self) -> Result<(), Error> {
                let Call { options, cut: $part, site, input, output } = self;
                let $scan = options.build::<O, T>(output.ty())?.at(site);
                let (scan, mut output) = ($static, output.typed::<T>());
                match input {
                    Some(input) => scan.run_into(&input.typed(), &mut output),
                    None => scan.run_in_place(&mut output),
                }
            }
        }
        impl ForPair for Prepare<'_, $prepared> {
            type Output = ();
            fn call<O: Operator<T>, T: Item>(self) -> Result<(), Error> {
                let ($scan, $part) = (crate::scan::<O, T>(), self.cut);
                $prepare.prepare(self.n, self.workspace)
            }
        }
    )* };
}
runs! {
    All, All: |scan, _all| scan, scan;
    &Typed<'_>, &Typed<'_>: |scan, cut| scan.by(cut), scan.by(cut);
    Columns, Columns: |scan, columns| scan.columns(columns.0), scan.columns(columns.0);
}
