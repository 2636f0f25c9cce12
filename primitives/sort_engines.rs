//! How a sort and a sort by segment run on either engine: what their builders share.

use super::arguments::long_enough;
use super::segmented::Selectors;
use crate::cpu::segmented::Heads;
use crate::cpu::sort as host;
use crate::cuda::segmented_sort::{SegmentedSortArguments, SegmentedSortPlan, SegmentedSortProgram};
use crate::cuda::sort::payload::{self, PayloadMoves, PayloadSizes};
use crate::cuda::sort::{HostPlan, MOST_KEYS, SortArguments, SortProgram};
use crate::cuda::{Caller, Kernels, KeyKind, Machine};
use crate::memory::{Buffer, BufferMut, View, ViewMut, room_on_host};
use crate::site::counted;
use crate::submit::Submit;
use crate::{Error, Place, SortKey, Workspace};
use bytemuck::Pod;
use cudarc::driver::CudaStream;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};
use std::ops::Range;
use std::sync::Arc;

pub(super) const NAME: &str = "sort";
/// The most bytes of an item that the CPU engine moves with its key.
const MOST_MOVED: usize = 16;
/// The most bytes of an item, and on the device of all items. No index of a kernel and no plan overflows.
const MOST_OF_ITEM: usize = 16 << 20;
const MOST_OF_ITEMS: usize = 1 << 56;

/// The keys, and their output.
pub(super) enum Keys<'a, K> {
    Into(View<'a, K>, ViewMut<'a, K>),
    /// In their own memory, with a second buffer if the caller gives one.
    InPlace(ViewMut<'a, K>, Option<ViewMut<'a, K>>),
    /// No output of keys: only source indices are wanted.
    Read(View<'a, K>),
}

/// The payload of the keys, and its output.
pub(super) enum Payload<'a, V> {
    None,
    /// An array, moved into another one, or in place if there is no input.
    Array(Option<View<'a, V>>, ViewMut<'a, V>),
    /// The source indices.
    Indices(ViewMut<'a, V>, IndexBase),
}

/// The key that source indices count from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum IndexBase {
    /// The first one of the input.
    Input,
    /// The first one of the key's segment.
    Segment,
}

impl<K> Keys<'_, K> {
    /// The number of keys.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub(super) fn check(&self) -> Result<usize, Error> {
        match self {
            Keys::Into(from, to) => same_length(from.len(), to.len()),
            Keys::InPlace(keys, _) => Ok(keys.len()),
            Keys::Read(keys) => Ok(keys.len()),
        }
    }

    pub(super) fn are_on_host(&self) -> bool {
        matches!(self, Keys::Into(View::Host(_), _) | Keys::Read(View::Host(_)) | Keys::InPlace(ViewMut::Host(_), _))
    }

    /// Checks that all keys lie where the call runs.
    fn check_homes(&self, submit: &Submit) -> Result<(), Error> {
        submit.uses("the keys", self.home())?;
        match self {
            Keys::Into(_, sorted) => submit.uses("the output", sorted.home()),
            Keys::InPlace(_, Some(second)) => submit.uses("the second buffer", second.home()),
            Keys::InPlace(_, None) | Keys::Read(_) => Ok(()),
        }
    }

    /// The stream of the keys.
    fn home(&self) -> &Arc<CudaStream> {
        match self {
            Keys::Into(keys, _) | Keys::Read(keys) => keys.home(),
            Keys::InPlace(keys, _) => keys.home(),
        }
    }
}

impl<V: Pod> Payload<'_, V> {
    /// Whether it is source indices that count from the first key of their segment.
    fn is_local(&self) -> bool {
        matches!(self, Payload::Indices(_, IndexBase::Segment))
    }

    /// Whether it is an array that is its own output.
    fn is_in_place(&self) -> bool {
        matches!(self, Payload::Array(None, _))
    }

    /// Checks that the payload lies where the call runs.
    fn check_homes(&self, submit: &Submit) -> Result<(), Error> {
        match self {
            Payload::None => Ok(()),
            Payload::Array(from, to) => {
                if let Some(from) = from {
                    submit.uses("the payload", from.home())?;
                }
                submit.uses("the payload's output", to.home())
            }
            Payload::Indices(to, _) => submit.uses("the indices", to.home()),
        }
    }

    /// Checks that the payload is long enough for `n` keys.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::ItemSize`], [`Error::Length`].
    pub(super) fn check(&self, n: usize) -> Result<(), Error> {
        match self {
            Payload::None => Ok(()),
            Payload::Array(from, to) => {
                movable::<V>()?;
                if let Some(from) = from {
                    long_enough(NAME, "the payload", from.len(), n)?;
                    return long_enough(NAME, "the payload's output", to.len(), n);
                }
                long_enough(NAME, "the payload", to.len(), n)
            }
            Payload::Indices(to, _) => same_length(n, to.len()).map(|_| ()),
        }
    }
}

/// # Errors
/// [`Error::Length`].
pub(super) fn same_length(input: usize, output: usize) -> Result<usize, Error> {
    if input == output { Ok(input) } else { Err(Error::Length { primitive: NAME, input, output }) }
}

/// # Errors
/// [`Error::TooLong`] for more keys than a device sorts.
pub(super) fn not_too_long(n: usize) -> Result<(), Error> {
    if n > MOST_KEYS { Err(Error::TooLong { primitive: NAME, n, most: MOST_KEYS }) } else { Ok(()) }
}

/// # Errors
/// [`Error::ItemSize`].
pub(super) fn movable<V>() -> Result<(), Error> {
    match size_of::<V>() {
        1..=MOST_OF_ITEM => Ok(()),
        size => Err(Error::ItemSize { primitive: NAME, size }),
    }
}

/// The segments that are sorted, each by itself.
#[derive(Clone, Copy)]
pub(super) enum Segments<'a> {
    /// All keys are one segment.
    None,
    /// For keys on the host.
    Host(&'a dyn Heads),
    /// For keys on the device, with the program, so that other sorts do not refer to its images.
    Device(&'a dyn Selectors, SegmentedSortProgram),
}

/// The options of a sort.
pub(super) struct How<'a> {
    pub(super) descending: bool,
    pub(super) bits: Range<u32>,
    pub(super) segments: Segments<'a>,
    /// The number of keys, if it lies in memory.
    pub(super) count: Option<View<'a, u64>>,
}

/// Sorts on the engine of the keys' memory: up to `n` keys and their payload, whose lengths were checked.
pub(super) fn sort_on_either<L: Place, K: SortKey, V: Pod + Send + Sync>(
    how: How<'_>,
    n: usize,
    keys: Keys<'_, K>,
    payload: Payload<'_, V>,
    stream: Option<Arc<CudaStream>>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    if keys.are_on_host() {
        assert!(L::ON_HOST);
        let n = counted(NAME, how.count, n)?;
        on_host(how, n, keys, payload)
    } else {
        assert!(L::ON_DEVICE);
        let stream = stream.unwrap_or_else(|| keys.home().clone());
        on_device(how, n, keys, payload, &stream, workspace)
    }
}

/// A sort on the host.
enum OnHost<'a> {
    Whole(host::Sort),
    BySegment(host::SegmentedSort<'a>),
}

impl OnHost<'_> {
    fn scratch(&self) -> usize {
        match self {
            OnHost::Whole(sort) => sort.scratch(),
            OnHost::BySegment(sort) => sort.scratch(),
        }
    }

    /// # Safety
    /// That of the two.
    unsafe fn run(&self, from: host::Arrays, to: host::Arrays, scratch: *mut u8) {
        // SAFETY: the caller's.
        unsafe {
            match self {
                OnHost::Whole(sort) => sort.run(from, to, scratch),
                OnHost::BySegment(sort) => sort.run(from, to, scratch),
            }
        }
    }
}

/// Sorts on the host.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything is written.
fn on_host<K: SortKey, V: Pod + Send + Sync>(
    How { descending, bits, segments, .. }: How<'_>,
    n: usize,
    keys: Keys<'_, K>,
    mut payload: Payload<'_, V>,
) -> Result<(), Error> {
    if n == 0 {
        return Ok(());
    }
    let kind = match K::KIND {
        KeyKind::Unsigned => host::Kind::Unsigned,
        KeyKind::Signed => host::Kind::Signed,
        KeyKind::Float { mantissa } => host::Kind::Float { mantissa },
    };
    let order = host::Order { width: 8 * size_of::<K>() as u32, kind, descending, bits };
    // Longer items are gathered by their source indices after the sort.
    let gathers = const { size_of::<V>() > MOST_MOVED };
    let mut sources: Vec<u64> = room_on_host(NAME, if gathers { n } else { 0 })?;
    let mut copy: Vec<V> = room_on_host(NAME, if gathers && payload.is_in_place() { n } else { 0 })?;
    let null = std::ptr::null_mut::<u8>();
    let (values, from_values, to_values) = match &mut payload {
        Payload::None => (host::Values::None, null, null),
        Payload::Array(..) if gathers => (host::Values::Indices(8), null, sources.as_mut_ptr().cast()),
        Payload::Array(from, to) => {
            let to = to.host().as_mut_ptr();
            let from = from.as_ref().map_or(to, |from| from.host().as_ptr().cast_mut());
            (host::Values::Array(size_of::<V>()), from.cast(), to.cast())
        }
        Payload::Indices(to, _) => (host::Values::Indices(size_of::<V>()), null, to.host().as_mut_ptr().cast()),
    };
    // The sort may overwrite a second buffer, which holds a copy of the keys. In place it does not
    // write to the input before the input is the output.
    let keep = !matches!(keys, Keys::InPlace(_, Some(_)));
    let code = const { host::Code::of::<K>(if size_of::<V>() > MOST_MOVED { 8 } else { size_of::<V>() }) };
    let sort = match segments {
        Segments::Host(heads) => {
            let local = payload.is_local();
            OnHost::BySegment(host::SegmentedSort::new(code, order, values, n, heads, local))
        }
        _ => OnHost::Whole(host::Sort::new(code, order, values, n, keep)),
    };
    let mut scratch: Vec<u8> = room_on_host(NAME, sort.scratch())?;
    let discarded_keys = if matches!(keys, Keys::Read(_)) { n } else { 0 };
    let mut discarded: Vec<K> = room_on_host(NAME, discarded_keys)?;
    let (from_keys, to_keys) = match keys {
        Keys::Into(from, mut to) => (from.host().as_ptr().cast_mut(), to.host().as_mut_ptr()),
        Keys::InPlace(mut keys, None) => {
            let keys = keys.host().as_mut_ptr();
            (keys, keys)
        }
        Keys::InPlace(mut keys, Some(mut second)) => {
            second.host()[..n].copy_from_slice(&keys.host()[..n]);
            (second.host().as_mut_ptr(), keys.host().as_mut_ptr())
        }
        Keys::Read(from) => (from.host().as_ptr().cast_mut(), discarded.as_mut_ptr()),
    };
    let from = host::Arrays { keys: from_keys.cast(), values: from_values };
    let to = host::Arrays { keys: to_keys.cast(), values: to_values };
    // SAFETY: all arrays have n items, as was checked, and the scratch memory is as large as
    // `scratch` says; written arrays are borrowed exclusively or were just allocated, and shared
    // ones are not written.
    unsafe { sort.run(from, to, scratch.as_mut_ptr()) }
    if gathers && let Payload::Array(from, mut to) = payload {
        // SAFETY: the sort has written all indices.
        unsafe { sources.set_len(n) };
        let to = &mut to.host()[..n];
        let from = match &from {
            Some(from) => from.host(),
            None => {
                copy.extend_from_slice(to);
                &copy
            }
        };
        let gather = |(to, &i): (&mut V, &u64)| *to = from[i as usize];
        if n <= host::ONE_THREAD_ITEMS {
            to.iter_mut().zip(&sources).for_each(gather);
        } else {
            to.par_iter_mut().zip(&sources).with_min_len(1 << 10).for_each(gather);
        }
    }
    Ok(())
}

/// # Errors
/// [`Error::TooLong`].
fn sizes_of<K, V>(n: usize) -> Result<PayloadSizes, Error> {
    let most = MOST_OF_ITEMS / size_of::<V>().max(1);
    if n > most {
        return Err(Error::TooLong { primitive: NAME, n, most });
    }
    Ok(PayloadSizes { n, key: size_of::<K>(), item: size_of::<V>() })
}

/// The lengths whose programs sort up to `n` keys: two if a payload of type `V` is gathered by indices of either size.
pub(super) fn lengths_of_programs<V>(n: usize) -> impl Iterator<Item = usize> {
    let most = payload::MOST_BY_32_BITS;
    (size_of::<V>() > 8 && n > most).then_some(most).into_iter().chain([n])
}

/// Loads the kernel that moves a payload of type `V`, if one may. Returns the bytes of scratch memory for `n` items.
pub(super) fn prepare_payload<K, V>(n: usize, caller: &dyn Caller) -> Result<usize, Error> {
    let sizes = sizes_of::<K, V>(n)?;
    let scratch = if size_of::<V>() == 0 { 0 } else { sizes.most_scratch(align_of::<V>()) };
    if scratch > 0 {
        payload::load(caller)?;
    }
    Ok(scratch)
}

/// Sorts on the device.
fn on_device<K: SortKey, V: Pod>(
    How { descending, bits, segments, count }: How<'_>,
    n: usize,
    mut keys: Keys<'_, K>,
    mut payload: Payload<'_, V>,
    stream: &Arc<CudaStream>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    not_too_long(n)?;
    let submit = Submit::new(NAME, stream);
    keys.check_homes(&submit)?;
    payload.check_homes(&submit)?;
    if let Segments::Device(cut, _) = segments {
        cut.check(&submit)?;
    }
    submit.counts(count.as_ref().map(|count| count.device()))?;
    submit.begin()?;
    if n == 0 {
        return Ok(());
    }
    let device = submit.device();
    let sizes = if let Payload::Array(..) = payload { Some(sizes_of::<K, V>(n)?) } else { None };
    let in_place = matches!(keys, Keys::InPlace(..));
    let (kernels, plan) = match segments {
        Segments::Device(cut, program) => planned_by_segment(&submit, &program, cut, n, &bits)?,
        _ => {
            let program = SortProgram::new::<K, V>(n).counted(count.is_some());
            planned(&submit, &program, n, &bits, in_place && !sizes.is_some_and(|sizes| sizes.by_indices()))?
        }
    };
    let local = payload.is_local();

    // The guards order the work against other streams; they live until it is launched.
    let mut guards = Vec::with_capacity(4);
    let mut guarded = |(address, guard)| {
        guards.push(guard);
        address
    };
    let (keys_in, keys) = match &mut keys {
        Keys::Into(from, to) => (guarded(from.address(stream)), [Some(guarded(to.address(stream))), None]),
        Keys::InPlace(keys, second) => {
            let keys = guarded(keys.address(stream));
            (keys, [Some(keys), second.as_mut().map(|second| guarded(second.address(stream)))])
        }
        Keys::Read(from) => (guarded(from.address(stream)), [None, None]),
    };
    let (values_in, values) = match &mut payload {
        Payload::None => (0, 0),
        Payload::Array(from, to) => {
            let to = guarded(to.address(stream));
            (from.as_ref().map_or(to, |from| guarded(from.address(stream))), to)
        }
        Payload::Indices(to, _) => (0, guarded(to.address(stream))),
    };
    let (length, _counted) = count.as_ref().map(|count| count.device().device_ptr(stream)).unzip();
    let moves = sizes.map(|sizes| PayloadMoves::new(sizes, [keys_in, values_in], values, in_place, length, &submit));
    let moves = moves.transpose()?.flatten();
    let (of_sort, of_moves) = (plan.scratch(keys.map(|keys| keys.is_none())), moves.map_or(0, |moves| moves.scratch()));
    submit.with_memory(workspace, 0, of_sort + of_moves, |_, scratch| {
        let (beside, raw) = (scratch + of_sort as u64, stream.cu_stream());
        // SAFETY: the kernels are the program's, and the plan is for n keys, in place if they are;
        // all arrays have n items on this device, as was checked, and so are the selectors long
        // enough; the guards keep them; written arrays are borrowed exclusively; the scratch memory
        // is the workspace's, as large as the plan and the moves ask for; the stream's context was
        // bound by `begin`.
        unsafe {
            let [keys_in, values_in, values] = match &moves {
                Some(moves) => moves.before(device, raw, beside)?,
                None => [keys_in, values_in, values],
            };
            match &plan {
                Plan::BySegment(plan, cut) => {
                    let (cut, _selected) = cut.guarded(stream);
                    let call = SegmentedSortArguments {
                        descending,
                        keys_in,
                        keys_out: keys[0],
                        values_in,
                        values,
                        local,
                        cut,
                        length,
                        scratch,
                    };
                    call.launch(plan, kernels, device, raw)?;
                }
                Plan::Whole(plan) => {
                    let call = SortArguments { descending, keys_in, keys, values_in, values, scratch, length };
                    call.launch(plan, kernels, device, raw)?;
                }
            }
            moves.map_or(Ok(()), |moves| moves.after(raw, beside))
        }
    })
}

/// The plan of a sort on the device.
enum Plan<'a> {
    Whole(HostPlan),
    BySegment(SegmentedSortPlan, &'a dyn Selectors),
}

impl Plan<'_> {
    /// Bytes of scratch memory, a multiple of 256, if the caller lacks these arrays of keys.
    fn scratch(&self, missing: [bool; 2]) -> usize {
        match self {
            Plan::Whole(plan) => plan.scratch(missing),
            Plan::BySegment(plan, _) => plan.scratch(missing[0]),
        }
    }
}

/// The plan for `n` keys, and its kernels, loaded.
fn planned<'a>(
    submit: &Submit,
    program: &SortProgram,
    n: usize,
    bits: &Range<u32>,
    in_place: bool,
) -> Result<(&'static Kernels, Plan<'a>), Error> {
    let plan = |machine: &Machine| program.plan(n, bits.clone(), in_place, machine);
    let kernels = program.load(submit, &|machine| plan(machine).kernels_to_load())?;
    let plan = plan(kernels.machine());
    submit.require(kernels, &plan.kernels_to_load())?;
    Ok((kernels, Plan::Whole(plan)))
}

/// The same by segment. The plan depends on the kind of segments, and not on their address.
fn planned_by_segment<'a>(
    submit: &Submit,
    program: &SegmentedSortProgram,
    cut: &'a dyn Selectors,
    n: usize,
    bits: &Range<u32>,
) -> Result<(&'static Kernels, Plan<'a>), Error> {
    let plan = |machine: &Machine| program.plan(n, bits, &cut.on_device(0), machine);
    let kernels = program.load(submit, &|machine| plan(machine).kernels())?;
    let plan = plan(kernels.machine());
    submit.require(kernels, &plan.kernels())?;
    Ok((kernels, Plan::BySegment(plan, cut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payloads at and beyond the limits. No array of so many bytes is needed to ask.
    #[test]
    fn sizes_of_payloads() {
        type MiB = [[u64; 1 << 10]; 128];
        assert!(movable::<u8>().is_ok() && movable::<[u8; 17]>().is_ok() && movable::<[MiB; 16]>().is_ok());
        for (refused, bytes) in [(movable::<()>(), 0), (movable::<[MiB; 17]>(), 17 << 20)] {
            assert!(matches!(refused, Err(Error::ItemSize { primitive: NAME, size }) if size == bytes), "{refused:?}");
        }
        assert!(sizes_of::<u32, MiB>(1 << 36).is_ok());
        let refused = sizes_of::<u32, MiB>((1 << 36) + 1);
        assert!(matches!(refused, Err(Error::TooLong { most: 0x10_0000_0000, .. })), "{refused:?}");
    }

    #[test]
    fn programs_of_more_keys_than_32_bits_count() {
        let all = |lengths: &mut dyn Iterator<Item = usize>| lengths.collect::<Vec<_>>();
        let (most, more) = (1 << 32, (1 << 32) + 1);
        assert_eq!(all(&mut lengths_of_programs::<[u8; 9]>(most)), [most]);
        assert_eq!(all(&mut lengths_of_programs::<[u8; 9]>(more)), [most, more]);
        assert_eq!(all(&mut lengths_of_programs::<u64>(more)), [more]);
    }
}
