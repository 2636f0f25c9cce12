//! The selection of items in compaction, unique and partition, and their calls on either engine.

use crate::cpu::{self, compact as host};
use crate::cuda::{
    ArrayColumn, BitsKind, ChoiceKind, ColumnKind, CompactArguments, CompactProgram, DistinctKind, FlagsKind,
    PartOutputs, Payload, PredicateKind, Staged,
};
use crate::memory::{Buffer, BufferMut, View, zero_bytes, zeros_on_host};
use crate::submit::Submit;
use crate::{Element, Error, Ordered, Place, Predicate, Workspace};
use bytemuck::Pod;
use cudarc::driver::{CudaStream, DeviceRepr, SyncOnDrop};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

/// The builder does not say yet which items are selected.
#[derive(Clone, Copy, Debug)]
pub struct Unchosen;

/// Selects the items that satisfy a predicate.
#[derive(Clone, Copy, Debug)]
pub struct ByPredicate<P>(pub(super) P);

/// Selects the items whose flag is not zero.
pub struct ByFlags<'a, L>(pub(super) View<'a, u8>, pub(super) PhantomData<L>);

/// Selects the items whose bit is set.
pub struct ByBits<'a, W, L>(pub(super) View<'a, W>, pub(super) PhantomData<L>);

impl<L> Clone for ByFlags<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for ByFlags<'_, L> {}
impl<W, L> Clone for ByBits<'_, W, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W, L> Copy for ByBits<'_, W, L> {}

/// Selects the items that differ from the item before them.
#[derive(Clone, Copy, Debug)]
pub struct Changes;

mod sealed {
    pub trait Sealed {}
    pub trait Word {
        /// The choice that selects the items whose bit is set.
        fn choice(words: *const Self) -> impl crate::cpu::compact::Choice;
        /// The segments that begin where a bit is set.
        fn heads(words: &[Self]) -> impl crate::cpu::segmented::Heads
        where
            Self: Sized;
    }
}
use sealed::Sealed;
impl<P> Sealed for ByPredicate<P> {}
impl<L> Sealed for ByFlags<'_, L> {}
impl<W, L> Sealed for ByBits<'_, W, L> {}
impl Sealed for Changes {}

/// A type of words of selection bits: `u32` or `u64`.
pub trait Word: sealed::Word + Element + DeviceRepr {}
impl sealed::Word for u32 {
    fn choice(words: *const u32) -> impl host::Choice {
        host::ByWords { words }
    }
    fn heads(words: &[u32]) -> impl cpu::segmented::Heads {
        cpu::segmented::ByBits(words)
    }
}
impl sealed::Word for u64 {
    fn choice(words: *const u64) -> impl host::Choice {
        host::ByWords { words }
    }
    fn heads(words: &[u64]) -> impl cpu::segmented::Heads {
        cpu::segmented::ByBits(words)
    }
}
impl Word for u32 {}
impl Word for u64 {}

/// An index type: `u32`, for up to 2^32 items, or `u64`.
#[allow(private_bounds)]
pub trait Index: Word + cpu::Offset {
    #[doc(hidden)]
    fn most() -> usize;
}
impl Index for u32 {
    fn most() -> usize {
        usize::try_from(1_u64 << 32).unwrap_or(usize::MAX)
    }
}
impl Index for u64 {
    fn most() -> usize {
        usize::MAX
    }
}

/// The way in which a builder selects items `T` in memory `L`, set by `keep`, `discard`, `flags` or
/// `bits`.
#[diagnostic::on_unimplemented(
    message = "this builder does not say which items `{T}` in `{L}` memory it selects",
    label = "call `.keep()`, `.discard()`, `.flags()` or `.bits()` before",
    note = "flags and bits must lie where the items do"
)]
#[allow(private_bounds)] // of hidden items, which only this crate can name
pub trait Chosen<T: Pod, L: Place>: Sealed {
    #[doc(hidden)]
    type Kind: ChoiceKind;
    /// The column kind of the items.
    #[doc(hidden)]
    type Items: ColumnKind;
    #[doc(hidden)]
    type Parameters: Element;
    #[doc(hidden)]
    fn parameters(&self) -> Self::Parameters;
    #[doc(hidden)]
    fn is_complement(&self) -> bool {
        false
    }
    /// Returns the flags or words of bits that select `n` items, if the choice has any.
    ///
    /// # Errors
    /// [`Error::Size`] if they are too short.
    #[doc(hidden)]
    fn selectors(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error>;

    /// The same choice for the CPU engine, which reads it while this borrow lasts.
    ///
    /// # Safety
    /// `items` has as many items as `selectors` was called with, and that call succeeded.
    #[doc(hidden)]
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice;
}

impl<T: Element, P: Predicate<T>, L: Place> Chosen<T, L> for ByPredicate<P> {
    type Kind = PredicateKind<T, P>;
    type Items = Staged;
    type Parameters = P::Parameters;
    fn parameters(&self) -> P::Parameters {
        self.0.parameters()
    }
    fn is_complement(&self) -> bool {
        self.0.is_complement()
    }
    fn selectors(&self, _: &'static str, _: usize) -> Result<Option<&dyn Buffer>, Error> {
        Ok(None)
    }
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice {
        let predicate = self.0;
        host::ByPredicate { items, keeps: move |x| predicate.keeps(x) }
    }
}

impl<T: Ordered, L: Place> Chosen<T, L> for Changes {
    type Kind = DistinctKind<T>;
    type Items = Staged;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn selectors(&self, _: &'static str, _: usize) -> Result<Option<&dyn Buffer>, Error> {
        Ok(None)
    }
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice {
        host::Distinct { items }
    }
}

impl<T: Pod, L: Place> Chosen<T, L> for ByFlags<'_, L> {
    type Kind = FlagsKind;
    type Items = Payload<T>;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn selectors(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error> {
        long_enough(primitive, "the flags", self.0.len(), n)?;
        Ok(Some(&self.0))
    }
    unsafe fn on_host(&self, _: *const T) -> impl host::Choice {
        host::ByFlags { flags: self.0.host().as_ptr() }
    }
}

impl<T: Pod, L: Place, W: Word> Chosen<T, L> for ByBits<'_, W, L> {
    type Kind = BitsKind;
    type Items = Payload<T>;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn selectors(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error> {
        long_enough(primitive, "the bits, in words,", self.0.len(), n.div_ceil(8 * size_of::<W>()))?;
        Ok(Some(&self.0))
    }
    unsafe fn on_host(&self, _: *const T) -> impl host::Choice {
        W::choice(self.0.host().as_ptr())
    }
}

/// # Errors
/// [`Error::Size`].
pub(crate) fn long_enough(
    primitive: &'static str,
    what: &'static str,
    found: usize,
    needed: usize,
) -> Result<(), Error> {
    if found < needed { Err(Error::Size { primitive, what, found, needed }) } else { Ok(()) }
}

/// # Errors
/// [`Error::TooLong`] if indices of the type do not reach the last of `n` items.
pub(super) fn countable<I: Index>(primitive: &'static str, n: usize) -> Result<(), Error> {
    if n > I::most() { Err(Error::TooLong { primitive, n, most: I::most() }) } else { Ok(()) }
}

// ---- on the device

/// A column that moves with the items: its input, if it has one of its own, and an output for each
/// part.
pub(super) struct Moving<'a> {
    pub(super) from: Option<&'a dyn Buffer>,
    pub(super) to: [Option<&'a mut dyn BufferMut>; 3],
}

impl<'a> Moving<'a> {
    pub(super) fn nothing() -> Self {
        Moving { from: None, to: [None, None, None] }
    }
    /// The selected items go to `selected`.
    pub(super) fn to(from: Option<&'a dyn Buffer>, selected: &'a mut dyn BufferMut) -> Self {
        Moving { from, to: [Some(selected), None, None] }
    }
}

/// A compaction or a partition on the device.
pub(super) struct OnDevice<'a> {
    pub(super) primitive: &'static str,
    pub(super) stream: Arc<CudaStream>,
    pub(super) n: usize,
    /// Whether the choice is complemented, and whether the second predicate of a partition into
    /// three is.
    pub(super) complement: [bool; 2],
    pub(super) append: bool,
    /// The input of the choice: the items, flags or bits. In place it is `None`, and the choice
    /// reads the first column.
    pub(super) chosen: Option<&'a dyn Buffer>,
    pub(super) columns: [Moving<'a>; 2],
    pub(super) count: &'a mut dyn BufferMut,
    /// The number of items, if it lies in memory.
    pub(super) length: Option<View<'a, u64>>,
    pub(super) workspace: Option<&'a mut Workspace>,
}

impl<'a> OnDevice<'a> {
    /// Launches the compaction or partition of the columns `A` and `B`, in `PARTS` parts: 1 for a
    /// compaction. Does not wait.
    pub(super) fn run<T, L, C, A, B, const PARTS: usize>(mut self, choice: &'a C) -> Result<(), Error>
    where
        T: Pod,
        L: Place,
        C: Chosen<T, L>,
        A: ColumnKind,
        B: ColumnKind,
    {
        if let Some(selectors) = choice.selectors(self.primitive, self.n)? {
            self.chosen = Some(selectors);
        }
        self.complement[0] ^= choice.is_complement();
        let program = CompactProgram::new::<C::Kind, A, B, PARTS>().counted(self.length.is_some());
        let parameters = choice.parameters();
        // SAFETY: program and parameters are the choice's; `selectors` has checked the length.
        unsafe { self.submit(program, (&raw const parameters).cast()) }
    }

    /// Launches the kernels. If the last part has no output of its own, the rejected items follow
    /// the selected items in one buffer. Does not wait.
    ///
    /// # Safety
    /// `parameters` are the choice's, and the input of the choice is long enough for `n` items.
    pub(super) unsafe fn submit(self, program: CompactProgram, parameters: *const c_void) -> Result<(), Error> {
        let OnDevice { primitive, stream, n, complement, append, chosen, mut columns, count, length, workspace } = self;
        let parts = program.parts();
        let counted = if parts == 3 { 2 } else { 1 };
        long_enough(primitive, "the count", count.capacity(), counted)?;
        let submit = Submit::new(primitive, &stream);
        for source in columns.iter().filter_map(|column| column.from).chain(chosen) {
            submit.uses("an input", source.home())?;
        }
        for output in columns.iter().flat_map(|column| &column.to).flatten() {
            submit.uses("an output", output.home())?;
        }
        submit.uses("the count", count.home())?;
        submit.counts(length.map(|length| length.device()))?;
        submit.begin()?;
        if n == 0 {
            let (count, _written) = count.address(&stream);
            if append {
                return Ok(());
            }
            // SAFETY: the count is `counted` 64-bit integers of this device, and its guard keeps it
            // until the fill is on the stream.
            return unsafe { zero_bytes(&stream, count, counted * size_of::<u64>()) };
        }
        let kernels = program.load(primitive, &submit)?;
        let plan = program.plan(primitive, n)?;
        // In one buffer a part begins at the end of the part before it, which is known only when
        // all items are counted. One block knows it in time. Several blocks need a launch for one
        // buffer.
        let one_buffer = parts > 1 && columns[0].to[parts - 1].is_none();
        let one_buffer_plan = (one_buffer && !plan.is_one_block())
            .then(|| program.one_buffer_plan(primitive, program.resident_tiles(kernels)?, n))
            .transpose()?;

        // The guards order the work against other streams; they live until it is launched.
        let mut guards = Vec::with_capacity(8);
        let in_place = columns[0].from.is_none();
        let (mut at, mut capacity) = addresses(&mut columns, &stream, &mut guards);
        if one_buffer {
            capacity = [capacity[0]; 3];
        }
        let chosen = match chosen {
            Some(chosen) => {
                let (address, guard) = chosen.address(&stream);
                guards.push(guard);
                address
            }
            None => at[0].outputs.to[0],
        };
        if in_place {
            at[0].from = at[0].outputs.to[0];
        }
        let (count, count_guard) = count.address(&stream);
        guards.push(count_guard);
        let length = length.map(|length| {
            let (address, guard) = length.device().device_ptr(&stream);
            guards.push(guard);
            address
        });
        let (words, scratch) = one_buffer_plan.map_or((plan.words, 0), |plan| (plan.words, plan.scratch));
        submit.with_memory(workspace, words, scratch, |words, scratch| {
            let arguments = CompactArguments {
                n,
                length,
                chosen,
                parameters,
                columns: at,
                capacity,
                count,
                complement,
                append,
                one_buffer,
                words,
            };
            // SAFETY: the kernels are those of the plan, which is for n items. Selectors and inputs
            // have n items each on this device, outputs have the capacity, by their types and
            // lengths, and the guards keep them. Outputs are borrowed exclusively, so they overlap
            // nothing, or are the first column in place. Words and scratch memory are the
            // workspace's, as large as the plan asks for, the words zero. `begin` has bound the
            // stream's context.
            unsafe {
                match one_buffer_plan {
                    Some(plan) => arguments.launch_one_buffer(&program, &plan, kernels, stream.cu_stream(), scratch),
                    None => arguments.launch(&program, &plan, kernels, stream.cu_stream()),
                }
            }
        })
    }
}

/// The addresses of the columns, and the capacity of each part: the shortest of its outputs. A part
/// without an output gets the address of the first part's.
fn addresses<'a>(
    columns: &'a mut [Moving<'_>; 2],
    stream: &'a CudaStream,
    guards: &mut Vec<SyncOnDrop<'a>>,
) -> ([ArrayColumn; 2], [usize; 3]) {
    let mut at = [ArrayColumn { from: 0, outputs: PartOutputs { to: [0; 3] } }; 2];
    let mut capacity = [usize::MAX; 3];
    for (column, at) in columns.iter_mut().zip(&mut at) {
        if let Some(from) = column.from {
            let (address, guard) = from.address(stream);
            guards.push(guard);
            at.from = address;
        }
        for (part, to) in column.to.iter_mut().enumerate() {
            let Some(to) = to else {
                at.outputs.to[part] = at.outputs.to[0];
                continue;
            };
            capacity[part] = capacity[part].min(to.capacity());
            let (address, guard) = to.address(stream);
            guards.push(guard);
            at.outputs.to[part] = address;
        }
    }
    (at, capacity)
}

// ---- on the host

/// Returns the items of `n` that `choice` selects, or rejects if `complement`, as bits, and their
/// number.
///
/// # Errors
/// [`Error::OutOfMemory`].
///
/// # Safety
/// `choice` may read `n` items, and nothing writes them during the call.
pub(super) unsafe fn recorded(
    primitive: &'static str,
    n: usize,
    choice: &dyn host::Choice,
    complement: bool,
) -> Result<(Vec<u64>, usize), Error> {
    let mut words = zeros_on_host(primitive, host::words_for(n))?;
    // SAFETY: the caller's.
    let selected = unsafe { host::record(n, choice, complement, &mut words) };
    Ok((words, selected))
}

/// A compaction or a partition on the host.
pub(super) struct OnHost<'a> {
    pub(super) primitive: &'static str,
    pub(super) n: usize,
    pub(super) complement: bool,
    pub(super) append: bool,
    /// The output's capacity, in items.
    pub(super) capacity: usize,
    pub(super) count: &'a mut [u64],
}

impl OnHost<'_> {
    /// Runs the compaction or partition. On return `columns` begin at the first item that was
    /// written.
    ///
    /// # Safety
    /// - `items` has `n` items, and nothing writes them during the call.
    /// - Every column's output has `capacity` items from its begin, and nothing else uses them.
    pub(super) unsafe fn run<T, L, C>(
        self,
        choice: &C,
        items: *const T,
        columns: &mut [host::Column],
    ) -> Result<(), Error>
    where
        T: Pod,
        L: Place,
        C: Chosen<T, L>,
    {
        choice.selectors(self.primitive, self.n)?;
        // SAFETY: the caller's; `selectors` has checked the lengths.
        unsafe { self.run_by(&choice.on_host(items), columns) }
    }

    /// # Safety
    /// As for `run`, of the items that the choice reads.
    unsafe fn run_by(self, choice: &dyn host::Choice, columns: &mut [host::Column]) -> Result<(), Error> {
        let OnHost { primitive, n, complement, append, capacity, count } = self;
        long_enough(primitive, "the count", count.len(), 1)?;
        let from = if append { usize::try_from(count[0]).unwrap_or(usize::MAX) } else { 0 };
        for column in columns.iter_mut() {
            *column = column.at_place(from.min(capacity));
        }
        let selected = if capacity.saturating_sub(from) < n || from > capacity {
            // SAFETY: the caller's.
            let (words, selected) = unsafe { recorded(primitive, n, choice, complement) }?;
            long_enough(primitive, "the output", capacity, from.saturating_add(selected))?;
            // SAFETY: there is room for the recorded items, whatever the choice would select now.
            unsafe { host::compact(n, &host::ByWords { words: words.as_ptr() }, false, columns, &[]) }
        } else {
            // SAFETY: the caller's, and there is room for all items.
            unsafe { host::compact(n, choice, complement, columns, &[]) }
        };
        count[0] = (from + selected) as u64;
        Ok(())
    }
}

// ---- options of compact and partition

/// Writes the options that select items for a builder `$builder<T, C, S>`, which has a field
/// `complement` and a method `with` that sets the choice.
macro_rules! choice_methods {
    ($builder:ident) => {
        impl<T: Pod, S> $builder<T, Unchosen, S> {
            /// Selects the items that satisfy the predicate.
            pub fn keep<P: Predicate<T>>(self, predicate: P) -> $builder<T, ByPredicate<P>, S>
            where
                T: Element,
            {
                self.with(ByPredicate(predicate))
            }

            /// Selects the items that do not satisfy the predicate.
            pub fn discard<P: Predicate<T>>(self, predicate: P) -> $builder<T, ByPredicate<Not<P>>, S>
            where
                T: Element,
            {
                self.with(ByPredicate(Not(predicate)))
            }

            /// Selects the items whose flag, a byte, is not zero.
            ///
            /// Flags and items lie in the same memory, host or device.
            pub fn flags<'f, F: Source<u8> + ?Sized>(self, flags: &'f F) -> $builder<T, ByFlags<'f, F::Place>, S> {
                self.with(ByFlags(flags.view(), PhantomData))
            }

            /// Selects the items whose bit is set.
            ///
            /// Bits are in `u32` or `u64` words, the least significant bit first, as in Arrow's
            /// validity bitmaps. Words and items lie in the same memory, host or device. Bits past
            /// the last item are ignored.
            pub fn bits<'f, W: Word, F: Source<W> + ?Sized>(
                self,
                words: &'f F,
            ) -> $builder<T, ByBits<'f, W, F::Place>, S> {
                self.with(ByBits(words.view(), PhantomData))
            }
        }

        impl<T: Pod, C, S> $builder<T, C, S> {
            /// Selects the items that would be rejected, and rejects the others.
            pub fn complement(mut self) -> Self {
                self.complement = !self.complement;
                self
            }
        }
    };
}
pub(super) use choice_methods;
