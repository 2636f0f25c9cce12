//! Reductions of run-time types: of all items, by segment, by column, of runs.

use super::memory::{Either, Where, counter, site_methods};
use super::segments::{Cut, Typed};
use super::types::{ForPair, with_bits, with_type};
use super::{Array, Item, Op, Type, Value, View, ViewMut};
use crate::memory::BufferMut;
use crate::{Destination, Error, Operator, Segmentation, Segments, Source, Workspace};

const NAME: &str = "reduce";
const POSITION: &str = "position";
const OUTPUT: &str = "the output";

/// Combines all items of the input under the operator: [`reduce`](crate::reduce()) of run-time types.
///
/// ```
/// use parascan::dynamic::{Op, View, reduce};
///
/// let prices = [0.5_f32, 2.5, -1.0, 2.5];
/// assert_eq!(reduce(Op::Sum).run(View::new(&prices))?.get(), Some(4.5_f32));
/// assert_eq!(reduce(Op::Max).position(View::new(&prices))?, 1);
/// let by_day = reduce(Op::Sum).rows(2).run(View::new(&prices))?;
/// assert_eq!(by_day.into_vec::<f32>().unwrap(), [3.0, 1.5]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn reduce(op: Op) -> Reduce<'static> {
    Reduce { op, init: None, site: Where::Anywhere }
}

/// Combines all items of the input: its options, and the calls that run it. Made by [`reduce`].
///
/// Options, cost, waiting and bits are those of [`crate::Reduce`].
///
/// # Errors
/// Those of [`crate::Reduce`], and:
///
/// | error | cause |
/// |---|---|
/// | [`Error::Undefined`] | the operator is not defined for the type; a position of no maximum or minimum |
/// | [`Error::Type`] | an output or an initial value of another type |
/// | [`Error::Place`] | input and output do not lie in the same memory |
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Reduce<'a> {
    op: Op,
    init: Option<Value>,
    site: Where<'a>,
}

/// A reduction of each segment: [`crate::SegmentedReduce`]. Made by [`Reduce::rows`] and
/// [`Reduce::segments`].
///
/// # Errors
/// Those of [`crate::SegmentedReduce`] and of [`Reduce`]; [`Error::Type`] also for offsets that are not
/// `u32` or `u64`.
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct SegmentedReduce<'a>(Reduce<'a>, Cut<'a>);

/// A reduction of each column: [`crate::ColumnReduce`]. Made by [`Reduce::columns`].
///
/// # Errors
/// Those of [`crate::ColumnReduce`] and of [`Reduce`].
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct ColumnReduce<'a>(Reduce<'a>, usize);

/// A reduction of each run: [`crate::RunReduce`]. Made by [`Reduce::heads`], [`Reduce::head_bits`] and
/// [`Reduce::by_key`].
///
/// # Errors
/// Those of [`crate::RunReduce`] and of [`Reduce`]; [`Error::Type`] also for flags that are not `u8`,
/// words of bits that are not `u32` or `u64`, and a count that is not a `u64`.
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct RunReduce<'a>(Reduce<'a>, Cut<'a>);

site_methods!(Reduce);

impl<'a> Reduce<'a> {
    /// Combines this value before the first item, of each segment if there are segments.
    pub fn init(mut self, init: Value) -> Self {
        self.init = Some(init);
        self
    }

    // ---- segments

    /// Reduces each row of a row-major matrix with this many columns.
    pub fn rows(self, columns: usize) -> SegmentedReduce<'a> {
        SegmentedReduce(self, Cut::Rows(columns))
    }

    /// Reduces each segment: segment i is the items from offset i up to offset i + 1.
    pub fn segments(self, offsets: View<'a>) -> SegmentedReduce<'a> {
        SegmentedReduce(self, Cut::Offsets(offsets))
    }

    /// Reduces each column of a row-major matrix with this many columns.
    pub fn columns(self, columns: usize) -> ColumnReduce<'a> {
        ColumnReduce(self, columns)
    }

    /// Reduces each segment, where one begins with each item whose flag, a `u8`, is not zero.
    pub fn heads(self, flags: View<'a>) -> RunReduce<'a> {
        RunReduce(self, Cut::Heads(flags))
    }

    /// Reduces each segment, where one begins with each item whose bit is set, in words of `u32` or
    /// `u64`.
    pub fn head_bits(self, words: View<'a>) -> RunReduce<'a> {
        RunReduce(self, Cut::HeadBits(words))
    }

    /// Reduces each run of items with equal keys, of any type.
    pub fn by_key(self, keys: View<'a>) -> RunReduce<'a> {
        RunReduce(self, Cut::Keys(keys))
    }

    // ---- all items

    /// Loads the kernels and grows the workspace for [`run_into`](Reduce::run_into) of up to `n` items.
    ///
    /// # Errors
    /// [`Error::Undefined`], and those of [`crate::Reduce::prepare`].
    pub fn prepare(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        self.op.with(NAME, ty, Prepare { cut: All, n, workspace })
    }

    /// Returns the result. On the device the call waits for it.
    pub fn run(self, input: View<'_>) -> Result<Value, Error> {
        self.check(input.ty())?;
        self.op.with(NAME, input.ty(), Return { init: self.init, site: self.site, input })
    }

    /// Writes the result into the first item of the caller's memory.
    pub fn run_into(self, input: View<'_>, output: ViewMut<'_>) -> Result<(), Error> {
        self.call(All, input, output)
    }

    /// Returns the index of the first item that is the result. On the device the call waits for it.
    ///
    /// # Errors
    /// [`Error::Undefined`] for an operator other than [`Op::Max`] and [`Op::Min`].
    pub fn position(self, input: View<'_>) -> Result<usize, Error> {
        self.extremum(input.ty())?;
        let (site, is_max) = (self.site, self.op == Op::Max);
        with_type!(input.ty(), T => match is_max {
            true => crate::reduce::<crate::Max, T>().at(site).position(&input.typed::<T>()),
            false => crate::reduce::<crate::Min, T>().at(site).position(&input.typed::<T>()),
        })
    }

    /// Writes the index of the first item that is the result into the first item of `index`, a `u64`.
    ///
    /// # Errors
    /// As for [`position`](Reduce::position).
    pub fn position_into(self, input: View<'_>, index: ViewMut<'_>) -> Result<(), Error> {
        self.extremum(input.ty())?;
        let (site, is_max) = (self.site, self.op == Op::Max);
        let mut index = counter(POSITION, "the index", index, input.is_on_host())?;
        with_type!(input.ty(), T => match is_max {
            true => crate::reduce::<crate::Max, T>().at(site).position_into(&input.typed::<T>(), &mut index),
            false => crate::reduce::<crate::Min, T>().at(site).position_into(&input.typed::<T>(), &mut index),
        })
    }

    /// [`prepare`](Reduce::prepare) for [`position_into`](Reduce::position_into).
    ///
    /// # Errors
    /// As for [`position`](Reduce::position), and those of [`crate::Reduce::prepare_position`].
    pub fn prepare_position(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        self.extremum(ty)?;
        with_type!(ty, T => match self.op == Op::Max {
            true => crate::reduce::<crate::Max, T>().prepare_position(n, workspace),
            false => crate::reduce::<crate::Min, T>().prepare_position(n, workspace),
        })
    }

    fn extremum(&self, ty: Type) -> Result<(), Error> {
        match self.op {
            Op::Max | Op::Min => Ok(()),
            op => Err(Error::Undefined { primitive: POSITION, operator: op.name(), element: ty.name() }),
        }
    }

    /// # Errors
    /// [`Error::Type`] unless the initial value has the type of the items.
    fn check(&self, ty: Type) -> Result<(), Error> {
        self.init.map_or(Ok(()), |init| ty.expect(NAME, "the initial value", init.ty()))
    }

    /// Runs the static builder that `cut` tells.
    fn call<C>(self, cut: C, input: View<'_>, mut output: ViewMut<'_>) -> Result<(), Error>
    where
        for<'c> Call<'c, C>: ForPair<Output = ()>,
    {
        self.check(input.ty())?;
        output.like(NAME, OUTPUT, &input)?;
        let (op, ty) = (self.op, input.ty());
        op.with(NAME, ty, Call { init: self.init, site: self.site, cut, input, output: output.again() })
    }
}

/// All items are reduced to one, by [`Reduce`].
struct All;
/// The runs that these segments are, by [`RunReduce`].
struct ByRun<'a>(&'a Typed<'a>);
/// This many columns, by [`ColumnReduce`].
struct Columns(usize);

// ---- by segment and by column

impl SegmentedReduce<'_> {
    /// Loads the kernels and grows the workspace for calls with up to `n` items in such segments.
    ///
    /// # Errors
    /// [`Error::Undefined`], and those of [`crate::SegmentedReduce::prepare`].
    pub fn prepare(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        self.0.op.with(NAME, ty, Prepare { cut: &self.1.typed(NAME, false)?, n, workspace })
    }

    /// Returns the results in new memory where the input lies, one item a segment.
    pub fn run(self, input: View<'_>) -> Result<Array, Error> {
        let SegmentedReduce(reduce, cut) = self;
        let cut = &cut.typed(NAME, input.is_on_host())?;
        Segmentation::<Either>::check(&cut, NAME, input.len())?;
        let segments = cut.count(input.len());
        let mut output = Array::beside(NAME, input.ty(), segments, &input, reduce.site.stream())?;
        reduce.call(cut, input, output.view_mut())?;
        Ok(output)
    }

    /// Writes the results into the caller's memory. What lies past the last one is not changed.
    pub fn run_into(self, input: View<'_>, output: ViewMut<'_>) -> Result<(), Error> {
        let SegmentedReduce(reduce, cut) = self;
        reduce.call(&cut.typed(NAME, input.is_on_host())?, input, output)
    }
}

impl ColumnReduce<'_> {
    /// Loads the kernels and grows the workspace for calls with up to `rows` rows of as many columns.
    ///
    /// # Errors
    /// [`Error::Undefined`], and those of [`crate::ColumnReduce::prepare`].
    pub fn prepare(&self, ty: Type, rows: usize, workspace: &mut Workspace) -> Result<(), Error> {
        self.0.op.with(NAME, ty, Prepare { cut: Columns(self.1), n: rows, workspace })
    }

    /// Returns the results in new memory where the input lies, one item a column.
    pub fn run(self, input: View<'_>) -> Result<Array, Error> {
        let ColumnReduce(reduce, columns) = self;
        let mut output = Array::beside(NAME, input.ty(), columns, &input, reduce.site.stream())?;
        reduce.call(Columns(columns), input, output.view_mut())?;
        Ok(output)
    }

    /// Writes the results into the caller's memory. What lies past the last one is not changed.
    pub fn run_into(self, input: View<'_>, output: ViewMut<'_>) -> Result<(), Error> {
        let ColumnReduce(reduce, columns) = self;
        reduce.call(Columns(columns), input, output)
    }
}

// ---- of runs

impl RunReduce<'_> {
    /// Loads the kernels and grows the workspace for calls with up to `n` items in such segments.
    ///
    /// # Errors
    /// [`Error::Undefined`], and those of [`crate::RunReduce::prepare`].
    pub fn prepare(&self, ty: Type, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        self.0.op.with(NAME, ty, Prepare { cut: ByRun(&self.1.typed(NAME, false)?), n, workspace })
    }

    /// Returns the results in new memory where the input lies, one item a segment. On the device it
    /// waits for their number.
    pub fn run(self, input: View<'_>) -> Result<Array, Error> {
        let on = self.0.site.stream();
        let mut output = Array::beside(NAME, input.ty(), input.len(), &input, on)?;
        let mut count = Array::beside(NAME, Type::U64, 1, &input, on)?;
        self.run_into(input, output.view_mut(), count.view_mut())?;
        output.shorten(NAME, count.count()?)
    }

    /// Writes the results, and their number as a `u64`, into the caller's memory; see [the
    /// count](crate::RunReduce#the-count).
    pub fn run_into(self, input: View<'_>, output: ViewMut<'_>, count: ViewMut<'_>) -> Result<(), Error> {
        self.call(input, None, output, count).map(|_| ())
    }

    /// Writes the key of each run, its result, and the number of runs into the caller's memory. `keys`
    /// has the type of the keys.
    ///
    /// # Errors
    /// [`Error::Type`] if the segments were not set by [`by_key`](Reduce::by_key).
    pub fn run_with_keys_into(
        self,
        input: View<'_>,
        keys: ViewMut<'_>,
        output: ViewMut<'_>,
        count: ViewMut<'_>,
    ) -> Result<(), Error> {
        let Cut::Keys(from) = self.1 else {
            let (what, expected) = ("what says where segments begin", "keys");
            return Err(Error::Type { primitive: NAME, what, expected, found: "heads" });
        };
        let on_host = input.is_on_host();
        from.lies(NAME, "the keys", on_host)?;
        keys.like(NAME, "the keys' output", &from)?;
        with_bits!(keys.ty(), K => {
            let mut to = keys.typed::<K>();
            let begins = self.call(input, Some(&mut to.view_mut()), output, count)?;
            if on_host && let [begins @ .., _] = &begins[..] {
                let (from, mut to) = (from.typed::<K>(), to.view_mut());
                for (to, &begin) in to.host().iter_mut().zip(begins) {
                    *to = from.view().host()[begin as usize];
                }
            }
        });
        Ok(())
    }

    /// On the host it returns where runs begin, and then the number of items.
    fn call(
        self,
        input: View<'_>,
        keys: Option<&mut dyn BufferMut>,
        mut output: ViewMut<'_>,
        mut count: ViewMut<'_>,
    ) -> Result<Vec<u64>, Error> {
        let RunReduce(reduce, cut) = self;
        reduce.check(input.ty())?;
        output.like(NAME, OUTPUT, &input)?;
        let cut = &cut.typed(NAME, input.is_on_host())?;
        let keys = keys.map(|keys| keys as &mut dyn BufferMut); // for a shorter lifetime
        let outputs = RunOutputs { keys, output: output.again(), count: count.again() };
        reduce.op.with(NAME, input.ty(), RunCall { init: reduce.init, site: reduce.site, cut, input, outputs })
    }
}

// ---- with the static types

/// A call that returns the result.
struct Return<'a> {
    init: Option<Value>,
    site: Where<'a>,
    input: View<'a>,
}

/// A call that is cut by `C`.
struct Call<'a, C> {
    init: Option<Value>,
    site: Where<'a>,
    cut: C,
    input: View<'a>,
    output: ViewMut<'a>,
}

struct RunCall<'a> {
    init: Option<Value>,
    site: Where<'a>,
    cut: &'a Typed<'a>,
    input: View<'a>,
    outputs: RunOutputs<'a>,
}

struct RunOutputs<'a> {
    keys: Option<&'a mut dyn BufferMut>,
    output: ViewMut<'a>,
    count: ViewMut<'a>,
}

/// `prepare` of a reduction that is cut by `C`.
struct Prepare<'a, C> {
    cut: C,
    n: usize,
    workspace: &'a mut Workspace,
}

fn build<O: Operator<T>, T: Item>(init: Option<Value>, site: Where<'_>) -> crate::Reduce<O, T, Where<'_>> {
    let reduce = crate::reduce::<O, T>();
    init.map_or(reduce, |init| reduce.init(init.bits())).at(site)
}

impl ForPair for Return<'_> {
    type Output = Value;
    fn call<O: Operator<T>, T: Item>(self) -> Result<Value, Error> {
        let Return { init, site, input } = self;
        let result: T = build::<O, T>(init, site).run(&input.typed())?;
        Ok(Value::from_bytes(input.ty(), bytemuck::bytes_of(&result)).expect("it has the type's size"))
    }
}

impl ForPair for RunCall<'_> {
    type Output = Vec<u64>;
    fn call<O: Operator<T>, T: Item>(self) -> Result<Vec<u64>, Error> {
        let RunCall { init, site, cut, input, outputs: RunOutputs { keys, output, count } } = self;
        let mut count = counter(NAME, "the count", count, input.is_on_host())?;
        let (input, mut output) = (input.typed::<T>(), output.typed::<T>());
        let reduce = build::<O, T>(init, site).by_heads(cut);
        reduce.dispatch::<Either>(input.view(), output.view_mut(), keys, count.view_mut())
    }
}

/// Writes how a call runs the static builder.
macro_rules! runs {
    ($($cut:ty: |$reduce:ident, $part:ident| $static:expr;)*) => { $(
        impl ForPair for Call<'_, $cut> {
            type Output = ();
            fn call<O: Operator<T>, T: Item>(self) -> Result<(), Error> {
                let Call { init, site, cut: $part, input, output } = self;
                let $reduce = build::<O, T>(init, site);
                $static.run_into(&input.typed::<T>(), &mut output.typed::<T>())
            }
        }
    )* };
}
runs! {
    All: |reduce, _all| reduce;
    &Typed<'_>: |reduce, cut| reduce.by(cut);
    Columns: |reduce, columns| reduce.columns(columns.0);
}

/// Writes how a call is prepared.
macro_rules! prepares {
    ($($cut:ty: |$reduce:ident, $part:ident| $static:expr;)*) => { $(
        impl ForPair for Prepare<'_, $cut> {
            type Output = ();
            fn call<O: Operator<T>, T: Item>(self) -> Result<(), Error> {
                let ($reduce, $part) = (crate::reduce::<O, T>(), self.cut);
                $static.prepare(self.n, self.workspace)
            }
        }
    )* };
}
prepares! {
    All: |reduce, _all| reduce;
    &Typed<'_>: |reduce, cut| reduce.by(cut);
    ByRun<'_>: |reduce, runs| reduce.by_heads(runs.0);
    Columns: |reduce, columns| reduce.columns(columns.0);
}
