//! What a compaction or a partition keeps, on both engines, and how either is run.

use crate::cpu::{self, compact as host};
use crate::cuda::{
    self, Beside, ChoiceKind, ColumnAt, ColumnKind, CompactCall, CompactProgram, KeepBits, KeepDistinct, KeepFlags,
    KeepItems, Staged,
};
use crate::memory::{View, ViewMut, zeros_on_host};
use crate::submit::Submit;
use crate::{Element, Error, Ordered, Place, Predicate, Workspace};
use bytemuck::Pod;
use cudarc::driver::sys::{self, CUdeviceptr};
use cudarc::driver::{CudaStream, DeviceRepr, SyncOnDrop};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

/// Nothing said yet of what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Unchosen;

/// Kept are the items that a predicate keeps.
#[derive(Clone, Copy, Debug)]
pub struct ByPredicate<P>(pub(super) P);

/// Kept are the items whose flag is not zero.
pub struct ByFlags<'a, L>(pub(super) View<'a, u8>, pub(super) PhantomData<L>);

/// Kept are the items whose bit is set.
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

/// Kept are the items that differ from the one before them.
#[derive(Clone, Copy, Debug)]
pub struct Changes;

mod sealed {
    pub trait Sealed {}
    pub trait Word {
        /// Keeps the items whose bit is set.
        fn choice(words: *const Self) -> impl crate::cpu::compact::Choice;
    }
}
use sealed::Sealed;
impl<P> Sealed for ByPredicate<P> {}
impl<L> Sealed for ByFlags<'_, L> {}
impl<W, L> Sealed for ByBits<'_, W, L> {}
impl Sealed for Changes {}

/// A type of the words that bits lie in: `u32` or `u64`.
pub trait Word: sealed::Word + Element + DeviceRepr {}
impl sealed::Word for u32 {
    fn choice(words: *const u32) -> impl host::Choice {
        host::ByWords { words }
    }
}
impl sealed::Word for u64 {
    fn choice(words: *const u64) -> impl host::Choice {
        host::ByWords { words }
    }
}
impl Word for u32 {}
impl Word for u64 {}

/// A type of indices: `u32`, for up to 2^32 items, or `u64`.
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

/// What a builder keeps of items `T` in memory of the place `L`: said by `keep`, `discard`, `flags` or `bits`.
#[diagnostic::on_unimplemented(
    message = "this builder does not say what it keeps of `{T}` in `{L}` memory",
    label = "call `.keep()`, `.discard()`, `.flags()` or `.bits()` before",
    note = "flags and bits must lie where the items do"
)]
#[allow(private_bounds)] // of hidden items, which only this crate can name
pub trait Chosen<T: Pod, L: Place>: Sealed {
    #[doc(hidden)]
    type Kind: ChoiceKind;
    /// The column that the items are.
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
    /// What is looked at besides the items, if it is long enough for `n` of them.
    #[doc(hidden)]
    fn beside(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error>;

    /// The same for the CPU engine, which reads it as long as the borrow lasts.
    ///
    /// # Safety
    /// As many items at `items` as are chosen, of which this is what `beside` has seen to.
    #[doc(hidden)]
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice;
}

/// A buffer on the device, of whatever it holds.
#[doc(hidden)]
pub trait Buffer {
    fn home(&self) -> &Arc<CudaStream>;
    fn length(&self) -> usize;
    fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>);
}
impl<T> Buffer for View<'_, T> {
    fn home(&self) -> &Arc<CudaStream> {
        self.device().stream()
    }
    fn length(&self) -> usize {
        self.len()
    }
    fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.device().device_ptr(stream)
    }
}

/// One that is written.
pub(super) trait BufferMut {
    fn home(&self) -> &Arc<CudaStream>;
    fn room(&self) -> usize;
    fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>);
}
impl<T> BufferMut for ViewMut<'_, T> {
    fn home(&self) -> &Arc<CudaStream> {
        match self {
            ViewMut::Device(memory) => memory.stream(),
            ViewMut::Host(_) => unreachable!("the types agree on the place"),
        }
    }
    fn room(&self) -> usize {
        self.len()
    }
    fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match self {
            ViewMut::Device(memory) => memory.device_ptr_mut(stream),
            ViewMut::Host(_) => unreachable!("the types agree on the place"),
        }
    }
}

impl<T: Element, P: Predicate<T>, L: Place> Chosen<T, L> for ByPredicate<P> {
    type Kind = KeepItems<T, P>;
    type Items = Staged;
    type Parameters = P::Parameters;
    fn parameters(&self) -> P::Parameters {
        self.0.parameters()
    }
    fn is_complement(&self) -> bool {
        self.0.is_complement()
    }
    fn beside(&self, _: &'static str, _: usize) -> Result<Option<&dyn Buffer>, Error> {
        Ok(None)
    }
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice {
        let predicate = self.0;
        host::ByPredicate { items, keeps: move |x| predicate.keeps(x) }
    }
}

impl<T: Ordered, L: Place> Chosen<T, L> for Changes {
    type Kind = KeepDistinct<T>;
    type Items = Staged;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn beside(&self, _: &'static str, _: usize) -> Result<Option<&dyn Buffer>, Error> {
        Ok(None)
    }
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice {
        host::Distinct { items }
    }
}

impl<T: Pod, L: Place> Chosen<T, L> for ByFlags<'_, L> {
    type Kind = KeepFlags;
    type Items = Beside<T>;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn beside(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error> {
        long_enough(primitive, "the flags", self.0.len(), n)?;
        Ok(Some(&self.0))
    }
    unsafe fn on_host(&self, _: *const T) -> impl host::Choice {
        host::ByFlags { flags: self.0.host().as_ptr() }
    }
}

impl<T: Pod, L: Place, W: Word> Chosen<T, L> for ByBits<'_, W, L> {
    type Kind = KeepBits;
    type Items = Beside<T>;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn beside(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error> {
        long_enough(primitive, "the bits, in words,", self.0.len(), n.div_ceil(8 * size_of::<W>()))?;
        Ok(Some(&self.0))
    }
    unsafe fn on_host(&self, _: *const T) -> impl host::Choice {
        W::choice(self.0.host().as_ptr())
    }
}

/// # Errors
/// [`Error::Size`].
pub(super) fn long_enough(
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

// ---- on the device -------------------------------------------------------------------------------------------------------------

/// What moves: where it comes from if it is an array of its own, and where what goes each way goes to.
pub(super) struct Moving<'a> {
    pub(super) from: Option<&'a dyn Buffer>,
    pub(super) to: [Option<&'a mut dyn BufferMut>; 3],
}

impl<'a> Moving<'a> {
    pub(super) fn nothing() -> Self {
        Moving { from: None, to: [None, None, None] }
    }
    /// What is kept goes there.
    pub(super) fn to(from: Option<&'a dyn Buffer>, kept: &'a mut dyn BufferMut) -> Self {
        Moving { from, to: [Some(kept), None, None] }
    }
}

/// A compaction or a partition on the device.
pub(super) struct OnDevice<'a> {
    pub(super) primitive: &'static str,
    pub(super) stream: Arc<CudaStream>,
    pub(super) n: usize,
    /// Whether what is chosen is turned over, and what is chosen by a second predicate.
    pub(super) complement: [bool; 2],
    pub(super) append: bool,
    /// What the choice looks at, unless the first column is that, in place.
    pub(super) chosen: Option<&'a dyn Buffer>,
    pub(super) columns: [Moving<'a>; 2],
    pub(super) count: &'a mut dyn BufferMut,
    pub(super) workspace: Option<&'a mut Workspace>,
}

impl<'a> OnDevice<'a> {
    /// Launches it, for the columns `A` and `B`, `ways` ways. Does not wait.
    pub(super) fn run<T, L, C, A, B>(mut self, choice: &'a C, ways: usize) -> Result<(), Error>
    where
        T: Pod,
        L: Place,
        C: Chosen<T, L>,
        A: ColumnKind,
        B: ColumnKind,
    {
        if let Some(beside) = choice.beside(self.primitive, self.n)? {
            self.chosen = Some(beside);
        }
        self.complement[0] ^= choice.is_complement();
        let program = CompactProgram::new::<C::Kind, A, B>(ways);
        let parameters = choice.parameters();
        // SAFETY: the program is the choice's; `beside` has looked at the length.
        unsafe { self.submit(program, (&raw const parameters).cast()) }
    }

    /// Launches it. If the last way has no output of its own, what goes that way, and a way between, goes behind what is kept. Does
    /// not wait.
    ///
    /// # Safety
    /// `parameters` are the choice's; what it looks at is there for `n` items.
    pub(super) unsafe fn submit(self, program: CompactProgram, parameters: *const c_void) -> Result<(), Error> {
        let OnDevice { primitive, stream, n, complement, append, chosen, mut columns, count, workspace } = self;
        let ways = program.ways();
        let counted = if ways == 3 { 2 } else { 1 };
        long_enough(primitive, "the count", count.room(), counted)?;
        let submit = Submit::new(primitive, &stream);
        for source in columns.iter().filter_map(|column| column.from).chain(chosen) {
            submit.uses("an input", source.home())?;
        }
        for output in columns.iter().flat_map(|column| &column.to).flatten() {
            submit.uses("an output", output.home())?;
        }
        submit.uses("the count", count.home())?;
        submit.begin()?;
        let device = submit.device();
        if n == 0 {
            let (count, _written) = count.address(&stream);
            if append {
                return Ok(());
            }
            // SAFETY: the count is so many 64-bit integers of this device, kept by its guard until this is on the stream.
            return cuda::check("cuMemsetD8Async", device, unsafe {
                sys::cuMemsetD8Async(count, 0, counted * size_of::<u64>(), stream.cu_stream())
            });
        }
        let kernels = submit.kernels(program.loaded(device), || program.load(primitive, device))?;
        let plan = program.plan(primitive, n)?;
        // Where a way begins that goes behind another is not known before all is counted. One block knows it in time.
        let behind = ways > 1 && columns[0].to[ways - 1].is_none();
        let together = (behind && !plan.is_one_block())
            .then(|| program.together(primitive, program.at_once(kernels)?, n))
            .transpose()?;

        // The guards order the work against other streams; they live until it is launched.
        let mut guards = Vec::with_capacity(8);
        let mut room = [usize::MAX; 3];
        let mut at = [ColumnAt::default(); 2];
        let in_place = columns[0].from.is_none();
        for (column, at) in columns.iter_mut().zip(&mut at) {
            if let Some(from) = column.from {
                let (address, guard) = from.address(&stream);
                guards.push(guard);
                at.from = address;
            }
            for (way, to) in column.to.iter_mut().enumerate() {
                match to {
                    Some(to) => {
                        room[way] = room[way].min(to.room());
                        let (address, guard) = to.address(&stream);
                        guards.push(guard);
                        at.to[way] = address;
                    }
                    None => at.to[way] = at.to[0],
                }
            }
        }
        if behind {
            room = [room[0]; 3];
        }
        let chosen = match chosen {
            Some(chosen) => {
                let (address, guard) = chosen.address(&stream);
                guards.push(guard);
                address
            }
            None => at[0].to[0],
        };
        if in_place {
            at[0].from = at[0].to[0];
        }
        let (count, counted_there) = count.address(&stream);
        guards.push(counted_there);
        let (words, scratch) = together.map_or((plan.words, 0), |together| (together.words, together.scratch));
        submit.with_memory(workspace, words, scratch, |words, scratch| {
            let call =
                CompactCall { n, chosen, parameters, columns: at, room, count, complement, append, behind, words };
            // SAFETY: the kernels are those of the plan, which is for n items; what is looked at and the columns have n items each on
            // this device, by their lengths and types, or room as the call says, and the guards keep them; what is written is borrowed
            // alone, so it lies apart, or is the column itself; the words and the scratch memory are the workspace's, as many as the
            // plan asks for, the words zero; the stream's context was bound by `begin`.
            unsafe {
                match together {
                    Some(together) => call.launch_together(&program, &together, kernels, stream.cu_stream(), scratch),
                    None => call.launch(&program, &plan, kernels, stream.cu_stream()),
                }
            }
        })
    }
}

// ---- on the host ---------------------------------------------------------------------------------------------------------------

/// What `choice` keeps of `n` items, or with `complement` does not, as bits, and how many that are.
///
/// # Errors
/// [`Error::OutOfMemory`].
///
/// # Safety
/// `choice` may read `n` items, and nobody writes them meanwhile.
pub(super) unsafe fn recorded(
    primitive: &'static str,
    n: usize,
    choice: &dyn host::Choice,
    complement: bool,
) -> Result<(Vec<u64>, usize), Error> {
    let mut words = zeros_on_host(primitive, host::words_for(n))?;
    // SAFETY: the caller's.
    let kept = unsafe { host::record(n, choice, complement, &mut words) };
    Ok((words, kept))
}

/// A compaction or a partition on the host.
pub(super) struct OnHost<'a> {
    pub(super) primitive: &'static str,
    pub(super) n: usize,
    pub(super) complement: bool,
    pub(super) append: bool,
    /// How many items there is room for.
    pub(super) room: usize,
    pub(super) count: &'a mut [u64],
}

impl OnHost<'_> {
    /// `columns` begin where the output does, and leave beginning where it is written.
    ///
    /// # Safety
    /// `n` items at `items`, that nobody writes; room in the columns as said, which nobody else touches.
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
        choice.beside(self.primitive, self.n)?;
        // SAFETY: the caller's; `beside` has looked at the lengths.
        unsafe { self.run_by(&choice.on_host(items), columns) }
    }

    /// # Safety
    /// As for `run`, of what the choice reads.
    unsafe fn run_by(self, choice: &dyn host::Choice, columns: &mut [host::Column]) -> Result<(), Error> {
        let OnHost { primitive, n, complement, append, room, count } = self;
        long_enough(primitive, "the count", count.len(), 1)?;
        let from = if append { usize::try_from(count[0]).unwrap_or(usize::MAX) } else { 0 };
        for column in columns.iter_mut() {
            *column = column.at_place(from.min(room));
        }
        let kept = if room.saturating_sub(from) < n || from > room {
            // SAFETY: the caller's.
            let (words, kept) = unsafe { recorded(primitive, n, choice, complement) }?;
            long_enough(primitive, "the output", room, from.saturating_add(kept))?;
            // SAFETY: there is room for those, whatever the choice would say now.
            unsafe { host::compact(n, &host::ByWords { words: words.as_ptr() }, false, columns, &[]) }
        } else {
            // SAFETY: the caller's, and there is room for all.
            unsafe { host::compact(n, choice, complement, columns, &[]) }
        };
        count[0] = (from + kept) as u64;
        Ok(())
    }
}

// ---- what all builders can be told ---------------------------------------------------------------------------------------------

/// The methods of a builder `$builder<T, C, S>` with the fields `choice`, `complement`, `site` and the function `with`.
macro_rules! choice_methods {
    ($builder:ident) => {
        impl<T: Pod, S> $builder<T, Unchosen, S> {
            /// Keeps the items that the predicate keeps.
            pub fn keep<P: Predicate<T>>(self, predicate: P) -> $builder<T, ByPredicate<P>, S>
            where
                T: Element,
            {
                self.with(ByPredicate(predicate))
            }

            /// Keeps the items that the predicate does not keep.
            pub fn discard<P: Predicate<T>>(self, predicate: P) -> $builder<T, ByPredicate<Not<P>>, S>
            where
                T: Element,
            {
                self.with(ByPredicate(Not(predicate)))
            }

            /// Keeps the items whose flag, a byte, is not zero. The flags lie where the items do.
            pub fn flags<'f, F: Source<u8> + ?Sized>(self, flags: &'f F) -> $builder<T, ByFlags<'f, F::Place>, S> {
                self.with(ByFlags(flags.view(), PhantomData))
            }

            /// Keeps the items whose bit is set: of `u32` or `u64` words, the least significant bit first, as Arrow stores
            /// validity. The words lie where the items do; bits past the last item may hold anything.
            pub fn bits<'f, W: Word, F: Source<W> + ?Sized>(
                self,
                words: &'f F,
            ) -> $builder<T, ByBits<'f, W, F::Place>, S> {
                self.with(ByBits(words.view(), PhantomData))
            }
        }

        impl<T: Pod, C, S> $builder<T, C, S> {
            /// Keeps what it would not, and the other way round.
            pub fn complement(mut self) -> Self {
                self.complement = !self.complement;
                self
            }
        }
    };
}
pub(super) use choice_methods;
