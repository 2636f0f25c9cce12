//! How compaction, unique and partition run on either engine.

use super::arguments::long_enough;
use super::choice::Chosen;
use crate::cpu::compact as host;
use crate::cuda::{ArrayColumn, ColumnKind, CompactArguments, CompactProgram, PartOutputs};
use crate::memory::{Buffer, BufferMut, View, zero_bytes, zeros_on_host};
use crate::submit::Submit;
use crate::{Error, Place, Workspace};
use bytemuck::Pod;
use cudarc::driver::{CudaStream, SyncOnDrop};
use std::ffi::c_void;
use std::sync::Arc;

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
    /// - `items` has `n` items, and nothing writes them during the call. The choice's `selectors` has found
    ///   its own to be as many.
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
        // SAFETY: the caller's.
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
