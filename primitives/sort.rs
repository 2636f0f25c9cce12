//! Sort: keys in order, alone, with what goes with them, or where they were.

use super::choice::{Buffer, BufferMut, Index, countable, long_enough};
use crate::cpu::sort as host;
use crate::cuda::KeyKind;
use crate::cuda::sort::{MOST_KEYS, Missing, SortCall, SortProgram};
use crate::memory::{View, ViewMut, room_on_host};
use crate::site::{Anywhere, Site, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Place, Source, Workspace};
use bytemuck::Pod;
use cudarc::driver::CudaStream;
use half::{bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

const NAME: &str = "sort";

/// A type of keys: `f32`, `f64`, `f16`, `bf16`, `i8` to `i64`, `u8` to `u64`, `usize` or `isize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of keys that can be sorted",
    label = "not a `SortKey`",
    note = "keys are f32, f64, f16, bf16, i8 to i64, u8 to u64, usize, isize; to sort records by a field, sort the fields with the records as payload"
)]
pub trait SortKey: Element {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    const KIND: KeyKind;
}
macro_rules! keys {
    ($($kind:expr => $($t:ident)*;)*) => { $($(
        #[allow(private_interfaces)]
        impl SortKey for $t {
            const KIND: KeyKind = $kind;
        }
    )*)* };
}
keys! {
    KeyKind::Unsigned => u8 u16 u32 u64 usize;
    KeyKind::Signed => i8 i16 i32 i64 isize;
    KeyKind::Float { mantissa: f16::MANTISSA_DIGITS - 1 } => f16;
    KeyKind::Float { mantissa: bf16::MANTISSA_DIGITS - 1 } => bf16;
    KeyKind::Float { mantissa: f32::MANTISSA_DIGITS - 1 } => f32;
    KeyKind::Float { mantissa: f64::MANTISSA_DIGITS - 1 } => f64;
}

/// A stable sort of keys `K`.
///
/// Gives a builder; see [`Sort`] for its options and for the order. Where the data lies decides where the work runs.
///
/// # Example
/// ```
/// use parascan::sort;
///
/// assert_eq!(sort::<i32>().run(&[3, -1, 2])?, [-1, 2, 3]);
/// assert_eq!(sort::<f32>().descending().run(&[0.5, 2.0, -1.0])?, [2.0, 0.5, -1.0]);
/// // Where the keys were that now come first, second, third.
/// assert_eq!(sort::<u8>().indices::<u32, _>(b"cab")?, [1, 2, 0]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn sort<K: SortKey>() -> Sort<K> {
    Sort { descending: false, bits: None, site: Anywhere, key: PhantomData }
}

/// The options of [`sort()`], and what runs it.
///
/// # Order
/// Integers by their value. Floats in the order of IEEE 754's totalOrder, so that -0 comes before +0, but for NaNs: those with the
/// sign set come last of all, behind the others. Keys are the same only if their bits are. [`descending`](Sort::descending) is this
/// order turned over: there NaNs come first. The sort is stable in both: what goes with keys that are the same
/// [in the bits looked at](Sort::bits) keeps its order.
///
/// # Payload
/// Any plain data of 1 to 16 bytes, which moves with its key. Records that are larger are best gathered once, by
/// [`indices`](Sort::indices).
///
/// # Cost
/// On the device, for n keys of b bytes with a payload of p: all keys are read once to count their digits; then each of the passes,
/// one for 8 bits that are looked at, reads and writes all of it, so that in all some n (b + 2 passes (b + p)) bytes are moved. A pass
/// whose digit is the same in all keys is skipped. Keys of 4 or 8 bytes by all their bits are moved to slots in one step if they are few, 4 n (b + p)
/// bytes: to some 2^18 however they are spread, and above if they are evenly over some range; and to buckets in two if they are many, n (b + 6 (b + p))
/// bytes, whatever the passes would be, but 3 n b of keys alone that are frequent neighbours; each bucket is sorted in shared memory. Where a block has
/// 227 KiB of that, 4-byte keys take slots up to 2^22 and buckets from 5 * 2^20 to 10^9, with a payload of 4 bytes from 3 * 2^22 on; 8-byte keys slots
/// up to 2^21, and buckets to 6 * 10^8. A larger payload lowers the upper borders, to 10^6 and 3 * 10^8 at worst; less shared memory to 2^20 and 1.5 to
/// 3 * 10^8. From 2^20 keys on, in place from as many on as go to buckets, and up to 2^31, fewer than 128 values that differ in more than two bytes are
/// moved once, n (2 b + 2 (b + p)) bytes, or in place twice. If keys are so much alike that buckets do not fit, the
/// passes sort what lies from the first such bucket to the last, or if that is more than three eighths of all keys (of 8 bytes half) all; and all
/// if a slot does not fit. Keys alone of 1 byte, and from 2^20 to 2^32 of 2 bytes, are counted and written
/// anew: 2 n b bytes. Some thousands of keys are one launch of one block.
///
/// On the host a radix sort too, most significant digit first, of parts that fit the cache from then on.
///
/// # Memory
/// Keys, and a payload, are moved between two arrays. The second one is scratch memory: n (b + p) bytes, and some hundred
/// KiB to 70 MiB besides on the device, of which slots take 3 to 46 MiB for 10^5 to 4 * 10^6 keys (with a payload 2 KiB for each 1536 to 8704 keys), where
/// the [workspace](Sort::workspace) keeps it. [`run_in_place_with_buffer`](Sort::run_in_place_with_buffer)
/// takes a buffer of the caller's instead. [`indices`](Sort::indices) needs two arrays of keys and one of indices.
///
/// # Waiting
/// On the device all calls return when the work is on the stream, and never wait for it. The first use of a type of keys and a size
/// of payload in a process loads kernels, which waits for the driver, or for the compiler.
///
/// # Errors
/// [`Error::Length`] if keys and output differ in length, [`Error::Size`] for a payload or a second
/// buffer that is shorter, [`Error::ItemSize`] for a payload of no bytes or more than 16,
/// [`Error::Bits`] for bits that keys do not have, [`Error::TooLong`] for more keys than indices
/// reach, or on the device than 2^40; [`Error::OutOfMemory`]; [`Error::WrongDevice`],
/// [`Error::Capturing`], [`Error::EventTracking`] as for a [`Scan`](crate::Scan), and those of the
/// driver and of the compiler. Length zero is valid.
///
/// Nothing was written then, with one exception. A sort on the device makes several launches. If
/// the driver refuses a later one ([`Error::Driver`]), it is not said what the output and a second
/// buffer hold; in place these are the keys and their payload.
///
/// # Source
/// Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022); Stehle and Jacobsen, "A Memory
/// Bandwidth-Efficient Hybrid Radix Sort on GPUs" (2017), for buckets; Leischner, Osipov and Sanders, "GPU Sample Sort" (2010), for slots
/// of keys that are not spread evenly.
#[derive(Debug)]
#[must_use = "nothing is sorted until it is run"]
pub struct Sort<K, S = Anywhere> {
    descending: bool,
    /// The first, and the one after the last; none are all of them.
    bits: Option<[u32; 2]>,
    site: S,
    key: PhantomData<fn() -> K>,
}
site_methods! { impl[K: SortKey] Sort<K; S> { descending, bits, key } }

// ---- options -----------------------------------------------------------------------------------------------------------------

impl<K: SortKey, S> Sort<K, S> {
    /// The greatest first. Stable nevertheless.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut keys, mut names) = ([1, 2, 1], *b"abc");
    /// sort::<u64>().descending().run_pairs_in_place(&mut keys, &mut names)?;
    /// assert_eq!((keys, names), ([2, 1, 1], *b"bac"));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// By these bits alone, 0 being the least significant one: fewer bits are fewer passes. Keys that are the same in
    /// them keep their order.
    ///
    /// Bits are counted in a key's place in ascending order: an unsigned integer itself, a signed one with the sign bit turned over,
    /// for a float the unsigned integer of its size that orders as the floats do.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<u32>().bits(4..8).run(&[0x31, 0x19, 0x2f, 0x10])?, [0x19, 0x10, 0x2f, 0x31]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn bits(mut self, bits: Range<u32>) -> Self {
        self.bits = Some([bits.start, bits.end]);
        self
    }

    /// Loads the kernels and grows the workspace, so that a sort of `n` keys or fewer alone, into memory or in place, by the
    /// same bits, allocates nothing, never synchronises and can be captured into a graph.
    ///
    /// # Errors
    /// [`Error::Bits`], [`Error::Capturing`] if the stream is being captured, and those of the driver and the compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        self.prepare_for::<()>(n, Missing { keys: [false, true] }, workspace)
    }

    /// The same for keys with a payload of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](Sort::prepare), and [`Error::ItemSize`].
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        movable::<V>()?;
        self.prepare_for::<V>(n, Missing { keys: [false, true] }, workspace)
    }

    /// The same for [`indices_into`](Sort::indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Sort::prepare), and [`Error::TooLong`].
    pub fn prepare_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        countable::<I>(NAME, n)?;
        self.prepare_for::<I>(n, Missing { keys: [true, true] }, workspace)
    }

    /// The same for [`run_lexicographic_in_place`](Sort::run_lexicographic_in_place) with second keys of type `L`.
    ///
    /// # Errors
    /// As for [`prepare`](Sort::prepare).
    pub fn prepare_lexicographic<L: SortKey>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        sort::<L>().prepare_pairs::<K>(n, workspace)?;
        self.prepare_pairs::<L>(n, workspace)
    }

    fn prepare_for<V: Pod>(&self, n: usize, missing: Missing, workspace: &mut Workspace) -> Result<(), Error> {
        let bits = self.range()?;
        not_too_long(n)?;
        let device = Submit::prepare(NAME, workspace)?;
        let program = SortProgram::new::<K, V>(K::KIND);
        let machine = program.load(device)?.machine();
        workspace.reserve(NAME, 0, program.scratch_up_to(n, &bits, missing, machine)).map(|_| ())
    }

    /// # Errors
    /// [`Error::Bits`].
    fn range(&self) -> Result<Range<u32>, Error> {
        let width = 8 * size_of::<K>() as u32;
        let [start, end] = self.bits.unwrap_or([0, width]);
        if start > end || end > width {
            Err(Error::Bits { primitive: NAME, start, end, width })
        } else {
            Ok(start..end)
        }
    }
}

// ---- running -----------------------------------------------------------------------------------------------------------------

impl<K: SortKey, S> Sort<K, S> {
    /// Into new memory: a `Vec` or a `CudaSlice`.
    pub fn run<X>(self, keys: &X) -> Result<X::Owned, Error>
    where
        X: Source<K> + ?Sized,
        S: Site<X::Place>,
    {
        let view = keys.view();
        let mut sorted = keys.allocate(NAME, view.len(), view.stream(self.site.stream()).as_ref())?;
        self.go::<X::Place, ()>(Keys::Into(view, X::view_owned(&mut sorted)), Company::None)?;
        Ok(sorted)
    }

    /// Into the caller's memory, as long as the keys.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut sorted = [0; 3];
    /// sort::<u16>().run_into(&[5, 9, 1], &mut sorted)?;
    /// assert_eq!(sorted, [1, 5, 9]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<X, O>(self, keys: &X, sorted: &mut O) -> Result<(), Error>
    where
        X: Source<K> + ?Sized,
        O: Destination<K, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.go::<X::Place, ()>(Keys::Into(keys.view(), sorted.view_mut()), Company::None)
    }

    /// In the keys' own memory, with scratch memory as large.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut keys = [f64::NAN, 1.0, f64::NEG_INFINITY, 0.0, -0.0];
    /// sort::<f64>().run_in_place(&mut keys)?;
    /// assert!(keys[4].is_nan());
    /// assert_eq!(format!("{:?}", &keys[..4]), "[-inf, -0.0, 0.0, 1.0]");
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place<X>(self, keys: &mut X) -> Result<(), Error>
    where
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        self.go::<<X as Source<K>>::Place, ()>(Keys::InPlace(keys.view_mut(), None), Company::None)
    }

    /// In place, with a second buffer of the caller's that is at least as long: keys move between the two and end in the first, and
    /// nothing of their size is allocated. What the second one holds then is not said.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut keys, mut second) = ([3_i8, -2, 1], [0; 3]);
    /// sort::<i8>().run_in_place_with_buffer(&mut keys, &mut second)?;
    /// assert_eq!(keys, [-2, 1, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place_with_buffer<X, Y>(self, keys: &mut X, second: &mut Y) -> Result<(), Error>
    where
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Destination<K, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        let (keys, second) = (keys.view_mut(), second.view_mut());
        long_enough(NAME, "the second buffer", second.len(), keys.len())?;
        self.go::<<X as Source<K>>::Place, ()>(Keys::InPlace(keys, Some(second)), Company::None)
    }

    /// The keys, and of a second array, the payload, what stands beside them: into the caller's memory.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut prices, mut names) = ([0.0; 3], [0; 3]);
    /// sort::<f32>().run_pairs_into(&[2.5, 0.5, 1.0], b"abc", &mut prices, &mut names)?;
    /// assert_eq!((prices, names), ([0.5, 1.0, 2.5], *b"bca"));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_into<V, X, Y, O, Q>(
        self,
        keys: &X,
        payload: &Y,
        sorted: &mut O,
        payload_output: &mut Q,
    ) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        O: Destination<K, X::Place> + ?Sized,
        Q: Destination<V, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        let company = Company::Beside(Some(payload.view()), payload_output.view_mut());
        self.go::<X::Place, V>(Keys::Into(keys.view(), sorted.view_mut()), company)
    }

    /// The same in place.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut keys, mut points) = ([7, 3], [[0.0, 1.0], [2.0, 3.0]]);
    /// sort::<i64>().run_pairs_in_place::<[f64; 2], _, _>(&mut keys, &mut points)?;
    /// assert_eq!((keys, points), ([3, 7], [[2.0, 3.0], [0.0, 1.0]]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_in_place<V, X, Y>(self, keys: &mut X, payload: &mut Y) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Destination<V, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        let company = Company::Beside(None, payload.view_mut());
        self.go::<<X as Source<K>>::Place, V>(Keys::InPlace(keys.view_mut(), None), company)
    }

    /// Pairs of keys in lexicographic order, in place: by these keys, and where they are the same (in the bits looked at) by those
    /// of a second array. Two sorts with a payload, the second array's first.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut rows, mut columns) = ([1_u32, 0, 1, 0], [2_u16, 3, 0, 1]);
    /// sort::<u32>().run_lexicographic_in_place(&mut rows, &mut columns)?;
    /// assert_eq!((rows, columns), ([0, 0, 1, 1], [1, 3, 0, 2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if the arrays differ in length, and those of [`Sort`]. If the second sort
    /// fails (its kernels cannot be loaded, or there is no memory), both arrays are in the order of
    /// the second one.
    pub fn run_lexicographic_in_place<L, X, Y>(mut self, keys: &mut X, second: &mut Y) -> Result<(), Error>
    where
        L: SortKey,
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Source<L, Place = <X as Source<K>>::Place> + Destination<L, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        let bits = self.range()?;
        let n = same_length(keys.view().len(), second.view().len())?;
        let stream = self.site.stream().cloned();
        let (keys_in_place, company) = (Keys::InPlace(second.view_mut(), None), Company::Beside(None, keys.view_mut()));
        let all = 0..8 * size_of::<L>() as u32;
        let workspace = self.site.take_workspace();
        anywhere::<L, K>(self.descending, all, n, keys_in_place, company, stream.clone(), workspace)?;
        let (keys_in_place, company) = (Keys::InPlace(keys.view_mut(), None), Company::Beside(None, second.view_mut()));
        let workspace = self.site.take_workspace();
        anywhere::<K, L>(self.descending, bits, n, keys_in_place, company, stream, workspace)
    }

    /// Where each key was, in the order of the sorted keys, into new memory. The keys stay as they are.
    ///
    /// ```
    /// # use parascan::sort;
    /// let words = ["two", "one", "three", "ten"];
    /// let lengths = words.map(|word| word.len());
    /// let by_length = sort::<usize>().indices::<u32, _>(&lengths)?;
    /// assert_eq!(by_length.iter().map(|&i| words[i as usize]).collect::<Vec<_>>(), ["two", "one", "ten", "three"]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices<I, X>(self, keys: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        S: Site<X::Place>,
    {
        let view = keys.view();
        countable::<I>(NAME, view.len())?;
        let mut indices = X::Place::allocate::<I>(NAME, view.len(), view.stream(self.site.stream()).as_ref())?;
        self.go::<X::Place, I>(Keys::Read(view), Company::Numbers(X::Place::view_mut(&mut indices)))?;
        Ok(indices)
    }

    /// The same into the caller's memory, as long as the keys.
    pub fn indices_into<I, X, O>(self, keys: &X, indices: &mut O) -> Result<(), Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        countable::<I>(NAME, keys.view().len())?;
        self.go::<X::Place, I>(Keys::Read(keys.view()), Company::Numbers(indices.view_mut()))
    }

    // ---- on either engine

    fn go<L: Place, V: Pod>(mut self, keys: Keys<'_, K>, company: Company<'_, V>) -> Result<(), Error>
    where
        S: Site<L>,
    {
        let bits = self.range()?;
        let n = keys.check()?;
        company.check(n)?;
        let stream = self.site.stream().cloned();
        anywhere(self.descending, bits, n, keys, company, stream, self.site.take_workspace())
    }
}

/// The keys, and where they go to.
enum Keys<'a, K> {
    Into(View<'a, K>, ViewMut<'a, K>),
    /// With a second buffer of the caller's.
    InPlace(ViewMut<'a, K>, Option<ViewMut<'a, K>>),
    /// Nowhere: their numbers are asked for.
    Read(View<'a, K>),
}

/// What goes with them.
enum Company<'a, V> {
    None,
    /// From one array into another, or in place.
    Beside(Option<View<'a, V>>, ViewMut<'a, V>),
    /// Their numbers.
    Numbers(ViewMut<'a, V>),
}

impl<K> Keys<'_, K> {
    /// How many they are.
    fn check(&self) -> Result<usize, Error> {
        match self {
            Keys::Into(from, to) => same_length(from.len(), to.len()),
            Keys::InPlace(keys, _) => Ok(keys.len()),
            Keys::Read(keys) => Ok(keys.len()),
        }
    }

    /// The stream that they belong to.
    fn home(&self) -> &Arc<CudaStream> {
        match self {
            Keys::Into(keys, _) | Keys::Read(keys) => keys.home(),
            Keys::InPlace(keys, _) => keys.home(),
        }
    }
}

impl<V: Pod> Company<'_, V> {
    /// Whether it is enough for so many keys.
    fn check(&self, n: usize) -> Result<(), Error> {
        match self {
            Company::None => Ok(()),
            Company::Beside(from, to) => {
                movable::<V>()?;
                if let Some(from) = from {
                    long_enough(NAME, "the payload", from.len(), n)?;
                    return long_enough(NAME, "the payload's output", to.len(), n);
                }
                long_enough(NAME, "the payload", to.len(), n)
            }
            Company::Numbers(to) => same_length(n, to.len()).map(|_| ()),
        }
    }
}

/// # Errors
/// [`Error::Length`].
fn same_length(input: usize, output: usize) -> Result<usize, Error> {
    if input == output { Ok(input) } else { Err(Error::Length { primitive: NAME, input, output }) }
}

/// # Errors
/// [`Error::TooLong`] for more keys than a device sorts.
fn not_too_long(n: usize) -> Result<(), Error> {
    if n > MOST_KEYS { Err(Error::TooLong { primitive: NAME, n, most: MOST_KEYS }) } else { Ok(()) }
}

/// # Errors
/// [`Error::ItemSize`].
fn movable<V>() -> Result<(), Error> {
    match size_of::<V>() {
        1..=16 => Ok(()),
        size => Err(Error::ItemSize { primitive: NAME, size }),
    }
}

/// Of `n` keys and what goes with them, whose lengths were looked at.
fn anywhere<K: SortKey, V: Pod>(
    descending: bool,
    bits: Range<u32>,
    n: usize,
    keys: Keys<'_, K>,
    company: Company<'_, V>,
    stream: Option<Arc<CudaStream>>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    match keys {
        Keys::Into(View::Host(_), _) | Keys::Read(View::Host(_)) | Keys::InPlace(ViewMut::Host(_), _) => {
            on_host(descending, bits, n, keys, company)
        }
        _ => {
            let stream = stream.unwrap_or_else(|| keys.home().clone());
            on_device(descending, bits, n, keys, company, &stream, workspace)
        }
    }
}

/// The same on the host.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything is written.
fn on_host<K: SortKey, V: Pod>(
    descending: bool,
    bits: Range<u32>,
    n: usize,
    keys: Keys<'_, K>,
    mut company: Company<'_, V>,
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
    let null = std::ptr::null_mut::<V>();
    let (values, from_values, to_values) = match &mut company {
        Company::None => (host::Values::None, null, null),
        Company::Beside(from, to) => {
            let to = to.host().as_mut_ptr();
            let from = from.as_ref().map_or(to, |from| from.host().as_ptr().cast_mut());
            (host::Values::Array(size_of::<V>()), from, to)
        }
        Company::Numbers(to) => (host::Values::Numbers(size_of::<V>()), null, to.host().as_mut_ptr()),
    };
    // Of a second buffer that keys were copied to, nothing is kept. In place the input is not touched before it is the output.
    let keep = !matches!(keys, Keys::InPlace(_, Some(_)));
    let sort = host::Sort::new(order, values, n, keep);
    let mut scratch: Vec<u8> = room_on_host(NAME, sort.scratch())?;
    let unasked_keys = if matches!(keys, Keys::Read(_)) { n } else { 0 };
    let mut unasked: Vec<K> = room_on_host(NAME, unasked_keys)?;
    let (from_keys, to_keys) = match keys {
        Keys::Into(from, mut to) => (from.host().as_ptr().cast_mut(), to.host().as_mut_ptr()),
        Keys::InPlace(mut keys, None) => {
            let keys = keys.host().as_mut_ptr();
            (keys, keys)
        }
        Keys::InPlace(mut keys, Some(mut second)) => {
            second.host()[..n].copy_from_slice(keys.host());
            (second.host().as_mut_ptr(), keys.host().as_mut_ptr())
        }
        Keys::Read(from) => (from.host().as_ptr().cast_mut(), unasked.as_mut_ptr()),
    };
    let from = host::Arrays { keys: from_keys.cast(), values: from_values.cast() };
    let to = host::Arrays { keys: to_keys.cast(), values: to_values.cast() };
    // SAFETY: n items in all arrays, by the lengths that were looked at, and as much scratch memory as was asked for; what is
    // written is borrowed alone or was just allocated, and what is shared is kept.
    unsafe { sort.run(from, to, scratch.as_mut_ptr()) }
    Ok(())
}

/// The same on the device.
fn on_device<K: SortKey, V: Pod>(
    descending: bool,
    bits: Range<u32>,
    n: usize,
    mut keys: Keys<'_, K>,
    mut company: Company<'_, V>,
    stream: &Arc<CudaStream>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    not_too_long(n)?;
    let submit = Submit::new(NAME, stream);
    submit.uses("the keys", keys.home())?;
    match &keys {
        Keys::Into(_, sorted) => submit.uses("the output", sorted.home())?,
        Keys::InPlace(_, Some(second)) => submit.uses("the second buffer", second.home())?,
        Keys::InPlace(_, None) | Keys::Read(_) => {}
    }
    match &company {
        Company::None => {}
        Company::Beside(from, to) => {
            if let Some(from) = from {
                submit.uses("the payload", from.home())?;
            }
            submit.uses("the payload's output", to.home())?;
        }
        Company::Numbers(to) => submit.uses("the indices", to.home())?,
    }
    submit.begin()?;
    if n == 0 {
        return Ok(());
    }
    let device = submit.device();
    let program = SortProgram::new::<K, V>(K::KIND);
    let kernels = submit.kernels(program.loaded(device), || program.load(device))?;
    let plan = program.plan(n, bits, matches!(keys, Keys::InPlace(..)), kernels.machine());
    let missing = match &keys {
        Keys::Into(..) | Keys::InPlace(_, None) => [false, true],
        Keys::InPlace(_, Some(_)) => [false, false],
        Keys::Read(_) => [true, true],
    };

    // The guards order the work against other streams; they live until it is launched.
    let mut guards = Vec::with_capacity(4);
    let mut kept = |(address, guard)| {
        guards.push(guard);
        address
    };
    let (keys_in, keys) = match &mut keys {
        Keys::Into(from, to) => (kept(from.address(stream)), [Some(kept(to.address(stream))), None]),
        Keys::InPlace(keys, second) => {
            let keys = kept(keys.address(stream));
            (keys, [Some(keys), second.as_mut().map(|second| kept(second.address(stream)))])
        }
        Keys::Read(from) => (kept(from.address(stream)), [None, None]),
    };
    let (values_in, values) = match &mut company {
        Company::None => (0, 0),
        Company::Beside(from, to) => {
            let to = kept(to.address(stream));
            (from.as_ref().map_or(to, |from| kept(from.address(stream))), to)
        }
        Company::Numbers(to) => (0, kept(to.address(stream))),
    };
    submit.with_memory(workspace, 0, plan.scratch(Missing { keys: missing }), |_, scratch| {
        let call = SortCall { descending, keys_in, keys, values_in, values, scratch };
        // SAFETY: the kernels are the program's, and the plan is for n keys, in place or not as they are; all arrays are of n items on
        // this device, by the lengths that were looked at, and the guards keep them; what is written is borrowed alone; the scratch
        // memory is the workspace's, as much as the plan asks for; the stream's context was bound by `begin`.
        unsafe { call.launch(&plan, kernels, device, stream.cu_stream()) }
    })
}
