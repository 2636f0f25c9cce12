//! The radix sort of host memory: stable, of keys-only, keys with a payload, or source indices.
//!
//! ```text
//! sort(from, to):
//!     keys-only of one or two bytes, all bits compared: counting sort, all threads      counting.rs
//!     fits the cache (with several threads: up to 2^15 items): LSD passes, one thread   lsd.rs
//!     else MSD partition:                                                               msd.rs
//!         sample the keys, and choose a digit that spreads them over buckets
//!         histogram of that digit in each part of the items, all threads
//!         scatter the items to their buckets, in order, all threads
//!         sort each bucket: one thread a bucket, then all threads together the buckets that are still large
//! ```
//!
//! The most significant digit comes first, so all that follows stays in a core's cache: memory is
//! read three times and written twice. Within the cache the least significant digit comes first.
//!
//! The engine sees keys and values as integers and bytes: four widths of keys, times eight ways to
//! move a value (payload.rs). Of these 32 a program compiles those that it names ([`Code`]). Keys
//! move as they are; order.rs encodes them for comparisons and digits.
//!
//! The caller allocates all memory, and [`Sort::scratch`] says how much. No thread waits for
//! another except at the end of a step, in rayon's scope. No code of the caller's runs, so no panic
//! can leave the output half written.
//!
//! Sources: the write-combining buffers are those of Satish et al., "Fast Sort on CPUs and GPUs"
//! (2010); one MSD digit and then the cache is as in Polychroniou and Ross, "A Comprehensive Study
//! of Main-Memory Partitioning" (2014).

mod counting;
mod lsd;
mod msd;
mod order;
mod payload;
mod segmented;
#[cfg(test)]
mod tests;

pub(crate) use order::{Kind, Order};
pub(crate) use segmented::SegmentedSort;
use segmented::Segments;

use crate::cpu::{lanes::LINE, scan::STREAMED_FROM, threshold};
use msd::{Digit, LOGARITHMIC, RANGE, TOP_BITS};
use order::{Bits, Encoding};
use payload::{KeysOnly, OneWord, Payload, TwoWords};
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// The payload of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// None: keys-only.
    None,
    /// An array of values, of 1 to 16 bytes each.
    Array(usize),
    /// The source indices, as integers of 4 or 8 bytes. They are written and not read.
    Indices(usize),
}

impl Values {
    /// Bytes of a value or source index.
    fn bytes(self) -> usize {
        match self {
            Values::None => 0,
            Values::Array(bytes) | Values::Indices(bytes) => bytes,
        }
    }
}

/// The arrays of keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrays {
    /// An array of integers as wide as the keys.
    pub(crate) keys: *mut u8,
    /// An array of values or source indices, at any address; null for [`Values::None`].
    pub(crate) values: *mut u8,
}

/// Items up to which the calling thread does the whole sort.
pub(crate) const ONE_THREAD_ITEMS: usize = threshold(1 << 15);
/// Bytes of a bucket that is sorted in the cache.
const IN_CACHE_BYTES: usize = threshold(512 << 10);
/// Bytes that the choice of a digit's width aims at for a bucket.
const TARGET_BUCKET_BYTES: usize = threshold(128 << 10);
/// Items of a part: worth a thread's start.
const MIN_PART_ITEMS: usize = threshold(1 << 13);
/// Parts for each thread.
const PARTS_PER_THREAD: usize = 4;
/// Keys of the sample that chooses the digit.
const SAMPLED_KEYS: usize = 256;

/// A sort of `n` items: the number of threads, and the scratch memory.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    code: &'static Code,
    order: Order,
    values: Values,
    n: usize,
    keeps_input: bool,
    threads: usize,
    /// The source index of the first item.
    first: usize,
}

impl Sort {
    /// A sort of `n` keys. If it `keeps_input`, the input is only read, unless it is the output;
    /// else it is scratch memory too. Longer sorts run on the threads of rayon's current pool,
    /// whose number is read here.
    ///
    /// The width is 8, 16, 32 or 64, floats have more than 8 bits, and the range of bits lies
    /// within the width.
    pub(crate) fn new(code: &'static Code, order: Order, values: Values, n: usize, keeps_input: bool) -> Sort {
        // The length first: asking rayon for its threads would start them.
        let threads = if n <= ONE_THREAD_ITEMS { 1 } else { rayon::current_num_threads() };
        Sort { code, order, values, n, keeps_input, threads, first: 0 }
    }

    /// Counts source indices from `first`.
    fn counted_from(self, first: usize) -> Sort {
        Sort { first, ..self }
    }

    /// Bytes of scratch memory, at any address. It need not be initialised.
    ///
    /// - Each thread: up to 1.75 MiB: 1 MiB for items, the write-combining buffers of 2048 buckets, and 128 KiB of
    ///   counters.
    /// - A sort that keeps its input: as much as the items take.
    /// - A counting sort: at most 512 KiB for each thread, and nothing else.
    pub(crate) fn scratch(&self) -> usize {
        let mut layout = Layout { next: 0 };
        (self.code.layout)(self, &mut layout);
        layout.next + LINE
    }

    /// Sorts `from` into `to`: the sorted keys end up in `to`, with their values or source indices.
    ///
    /// # Safety
    /// - `code` is that of the order's keys and of the values.
    /// - All four arrays hold `n` items, and keys are aligned as integers of their width. No other
    ///   thread touches the arrays until this returns. With source indices `from` has no array of
    ///   values if the input is kept; else that array is only written.
    /// - `to` may be written and `from` read, and written too unless the input is kept. Items of
    ///   `to` need not be initialised.
    /// - `scratch` may be written for [`scratch`](Self::scratch) bytes, and no other thread touches
    ///   them.
    /// - No two of these overlap, except that the arrays of `to` may be those of `from` if the
    ///   input is kept.
    pub(crate) unsafe fn run(&self, from: Arrays, to: Arrays, scratch: *mut u8) {
        // SAFETY: the caller's.
        unsafe { (self.code.run)(self, from, to, scratch) }
    }
}

/// The engine of one width of keys and one size of payload. A program has the engines that
/// [`Code::of`] returned while Rust compiled it.
#[derive(Debug)]
pub(crate) struct Code {
    layout: fn(&Sort, &mut Layout),
    run: unsafe fn(&Sort, Arrays, Arrays, *mut u8),
    run_each: unsafe fn(&Sort, Arrays, Arrays, Segments<'_>, bool, &mut Vec<u8>),
}

impl Code {
    /// The code for keys of the size of a `K`, and values of so many bytes, 0 for keys-only.
    ///
    /// # Panics
    /// If there are no such keys or values. When Rust compiles, for a call in a `const` block.
    pub(crate) const fn of<K>(value_bytes: usize) -> &'static Code {
        macro_rules! code {
            ($K:ty, $P:ty) => {
                const {
                    &Code {
                        layout: Engine::<$K, $P>::layout,
                        run: Engine::<$K, $P>::run,
                        run_each: Engine::<$K, $P>::run_each,
                    }
                }
            };
        }
        macro_rules! by_value {
            ($K:ty) => {
                match value_bytes {
                    0 => code!($K, KeysOnly),
                    1 => code!($K, OneWord<u8>),
                    2 => code!($K, OneWord<u16>),
                    4 => code!($K, OneWord<u32>),
                    8 => code!($K, OneWord<u64>),
                    3 => code!($K, TwoWords<u16>),
                    5..=7 => code!($K, TwoWords<u32>),
                    9..=16 => code!($K, TwoWords<u64>),
                    _ => panic!("values have at most 16 bytes"),
                }
            };
        }
        match size_of::<K>() {
            1 => by_value!(u8),
            2 => by_value!(u16),
            4 => by_value!(u32),
            8 => by_value!(u64),
            _ => panic!("keys have 1, 2, 4 or 8 bytes"),
        }
    }
}

impl<K: Bits, P: Payload> Engine<K, P> {
    fn of(sort: &Sort) -> Self {
        Engine { encoding: sort.order.encoding(), payload: P::of(sort.values.bytes()) }
    }

    /// Lays out the scratch memory.
    fn layout(sort: &Sort, layout: &mut Layout) {
        let engine = Self::of(sort);
        if engine.histograms(sort, layout).is_none() {
            Scratch::new(layout, sort, engine);
        }
    }

    /// # Safety
    /// As for [`Sort::run`].
    unsafe fn run(sort: &Sort, from: Arrays, to: Arrays, scratch: *mut u8) {
        let engine = Self::of(sort);
        let mut layout = Layout { next: scratch.addr().next_multiple_of(LINE) };
        scratch.expose_provenance();
        let columns =
            |arrays: Arrays| Columns { keys: arrays.keys.cast::<K>(), values: arrays.values, first: sort.first };
        let (from, to) = (columns(from), columns(to));
        if let Some(histograms) = engine.histograms(sort, &mut layout) {
            // SAFETY: the caller's.
            return unsafe { engine.counting_sort(from, to, sort.n, histograms) };
        }
        let scratch = Scratch::new(&mut layout, sort, engine);
        let spare = scratch.spare.unwrap_or(from);
        let indices = matches!(sort.values, Values::Indices(_));
        let from = if indices { Columns { values: std::ptr::null_mut(), ..from } } else { from };
        let team = Team { scratch: &scratch, worker: 0, threads: sort.threads };
        // SAFETY: the caller's.
        unsafe { engine.sort(from, to, spare, sort.n, Bound { bits: sort.order.bits.end, outside_range: false }, team) }
    }
}

/// Cuts memory into pieces that begin at a cache line.
struct Layout {
    next: usize,
}

impl Layout {
    fn take<T>(&mut self, count: usize) -> *mut T {
        let address = self.next;
        self.next += (count * size_of::<T>()).next_multiple_of(LINE);
        std::ptr::with_exposed_provenance_mut(address)
    }
    fn columns<K, P: Payload>(&mut self, n: usize, payload: P) -> Columns<K> {
        Columns { keys: self.take(n), values: self.take(n * payload.size()), first: 0 }
    }
}

/// The scratch memory of a sort.
struct Scratch<K> {
    /// Room for all items, if the input must be kept and there is an MSD partition.
    spare: Option<Columns<K>>,
    /// Histograms of a digit, one for each part.
    counts: *mut usize,
    parts: usize,
    /// The address of the first thread's own memory, and the bytes of each thread's.
    workers: usize,
    worker_bytes: usize,
    /// Items for which a thread has buffers.
    in_cache_items: usize,
    /// Whether there is memory for an MSD partition.
    partitions: bool,
}

// SAFETY: addresses. Each method says who may use which piece.
unsafe impl<K> Sync for Scratch<K> {}

/// The scratch memory of a thread.
struct WorkerScratch<K> {
    buffers: lsd::Buffers<K>,
    counts: *mut usize,
    write_buffers: *mut u8,
}

impl<K: Bits> Scratch<K> {
    fn new<P: Payload>(layout: &mut Layout, sort: &Sort, engine: Engine<K, P>) -> Scratch<K> {
        let in_cache_items = sort.n.min(IN_CACHE_BYTES / (size_of::<K>() + engine.payload.size()));
        let partitions = sort.n > in_cache_items || sort.threads > 1;
        let spare = (sort.keeps_input && partitions).then(|| layout.columns(sort.n, engine.payload));
        let parts = sort.threads * PARTS_PER_THREAD;
        let counts = layout.take(if partitions { parts << msd::MAX_WIDTH } else { 0 });
        let mut scratch =
            Scratch { spare, counts, parts, workers: layout.next, worker_bytes: 0, in_cache_items, partitions };
        let mut one = Layout { next: 0 };
        scratch.cut(&mut one, engine);
        scratch.worker_bytes = one.next;
        layout.next += scratch.worker_bytes * sort.threads;
        scratch
    }

    fn worker<P: Payload>(&self, worker: usize, engine: Engine<K, P>) -> WorkerScratch<K> {
        self.cut(&mut Layout { next: self.workers + worker * self.worker_bytes }, engine)
    }

    fn cut<P: Payload>(&self, layout: &mut Layout, engine: Engine<K, P>) -> WorkerScratch<K> {
        let mut buffer = || layout.columns(self.in_cache_items, engine.payload);
        let items = [buffer(), buffer()];
        let counters = layout.take::<u8>(lsd::COUNTER_BYTES).cast();
        let counts = layout.take(if self.partitions { 1 << msd::MAX_WIDTH } else { 0 });
        let write_buffers = layout.take(if self.partitions { Engine::<K, P>::ALL_BUFFERS_BYTES } else { 0 });
        WorkerScratch { buffers: lsd::Buffers { items, counters }, counts, write_buffers }
    }
}

/// The threads that sort some items together: all of them, or one.
struct Team<'a, K> {
    scratch: &'a Scratch<K>,
    /// Which thread it is, or 0 for all.
    worker: usize,
    threads: usize,
}
impl<K> Clone for Team<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Team<'_, K> {}

impl<K: Bits> Team<'_, K> {
    /// Calls `job(worker, j)` for all `j < jobs`. No two threads have one worker's number at a
    /// time.
    fn each(self, jobs: usize, job: &(dyn Fn(usize, usize) + Sync)) {
        if self.threads == 1 {
            return (0..jobs).for_each(|j| job(self.worker, j));
        }
        each(self.threads, jobs, job);
    }
}

/// Calls `job(worker, j)` for all `j < jobs`, on `threads` threads. No two threads have one
/// worker's number at a time. A job is long, and behind a pointer, so this is compiled once.
fn each(threads: usize, jobs: usize, job: &(dyn Fn(usize, usize) + Sync)) {
    let threads = threads.min(jobs);
    if threads <= 1 {
        return (0..jobs).for_each(|j| job(0, j));
    }
    let next = AtomicUsize::new(0);
    let work = |worker: usize| {
        loop {
            let j = next.fetch_add(1, Relaxed);
            if j >= jobs {
                return;
            }
            job(worker, j);
        }
    };
    let work = &work;
    rayon::in_place_scope(|scope| {
        for worker in 1..threads {
            scope.spawn(move |_| work(worker));
        }
        work(0);
    });
}

/// Part `p` of the `parts` parts of `n` items.
fn part(n: usize, parts: usize, p: usize) -> Range<usize> {
    let begin = |p: usize| n / parts * p + p.min(n % parts);
    begin(p)..begin(p + 1)
}

/// A bound on the radix keys of some items.
#[derive(Clone, Copy)]
struct Bound {
    /// They differ in this many of the lowest bits only.
    bits: u32,
    /// The items are the first or the last bucket of a [`RANGE`] digit, which may leave as many
    /// bits as before. Their own digit is of another kind, so two partitions in a row always leave
    /// fewer bits.
    outside_range: bool,
}

/// The histograms of a digit, one for each part.
#[derive(Clone, Copy)]
struct Counts(*mut usize);

// SAFETY: an address. `part` says who may use which counters.
unsafe impl Sync for Counts {}

impl Counts {
    /// The histogram of a part.
    ///
    /// # Safety
    /// There are as many parts, and no other reference to this one's histogram is alive.
    unsafe fn part<'a, K>(self, part: usize, digit: Digit<K>) -> &'a mut [usize] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(part << digit.width), 1 << digit.width) }
    }

    /// The same, which may be uninitialised before, as zeros.
    ///
    /// # Safety
    /// As for `part`.
    unsafe fn zeroed<'a, K>(self, part: usize, digit: Digit<K>) -> &'a mut [usize] {
        // SAFETY: the caller's.
        unsafe {
            self.0.add(part << digit.width).write_bytes(0, 1 << digit.width);
            self.part(part, digit)
        }
    }
}

/// Keys and their values.
struct Columns<K> {
    keys: *mut K,
    /// Null for keys-only, and for values that are source indices: then they are not read.
    values: *mut u8,
    /// The source index of the first item, if values are source indices.
    first: usize,
}
impl<K> Clone for Columns<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Columns<K> {}

// SAFETY: addresses of integers and of bytes. Threads work on items of their own.
unsafe impl<K> Send for Columns<K> {}
// SAFETY: as above.
unsafe impl<K> Sync for Columns<K> {}

/// The sort of keys as wide as `K`, with the payload `P`.
#[derive(Clone, Copy)]
struct Engine<K, P> {
    encoding: Encoding<K>,
    payload: P,
}

/// The parts of a partition's input, and their histograms.
struct Parts {
    n: usize,
    count: usize,
    counts: Counts,
}

impl Parts {
    fn items(&self, p: usize) -> Range<usize> {
        part(self.n, self.count, p)
    }
}

/// A digit that was chosen and counted.
struct ChosenDigit<K> {
    digit: Digit<K>,
    /// The lowest bit in which radix keys differ, and one more than the highest.
    low: u32,
    high: u32,
}

/// The index at which each bucket begins, and the end of the last bucket.
type Starts = [usize; (1 << msd::MAX_WIDTH) + 1];

impl<K: Bits, P: Payload> Engine<K, P> {
    /// The columns from item `i` on.
    fn at(self, columns: Columns<K>, i: usize) -> Columns<K> {
        let values = match columns.values {
            null if null.is_null() => null,
            values => values.wrapping_add(i * self.payload.size()),
        };
        Columns { keys: columns.keys.wrapping_add(i), values, first: columns.first + i }
    }

    /// Bits of a digit that partitions `n` items.
    fn width(self, n: usize, threads: usize) -> u32 {
        let bytes = n * (size_of::<K>() + self.payload.size());
        let most = if bytes <= IN_CACHE_BYTES << msd::DIRECT_WIDTH { msd::DIRECT_WIDTH } else { msd::MAX_WIDTH };
        let width = (bytes / TARGET_BUCKET_BYTES).max(1).ilog2().clamp(msd::DIRECT_WIDTH - 1, most);
        width.max((4 * threads).ilog2()).min(msd::MAX_WIDTH)
    }

    /// Sorts `n` items into `to`.
    ///
    /// # Safety
    /// - All columns hold `n` items, which no other thread touches. `from` is `to`, or `spare`, or
    ///   neither; if neither, it is only read.
    /// - The bound holds, and the scratch memory is the team's, for an engine like this one.
    unsafe fn sort(
        self,
        from: Columns<K>,
        to: Columns<K>,
        spare: Columns<K>,
        n: usize,
        bound: Bound,
        team: Team<'_, K>,
    ) {
        let Team { scratch, threads, .. } = team;
        let worker = |number: usize| scratch.worker(number, self);
        // SAFETY: the caller's. Parts, and later buckets, are ranges of items that no two threads
        // share, and by the histograms a part's items go to indices that no other part's go to.
        unsafe {
            if bound.bits == 0 {
                return self.copy(from, to, n);
            }
            let in_cache = scratch.in_cache_items;
            if n <= if threads == 1 { in_cache } else { in_cache.min(ONE_THREAD_ITEMS) } {
                return self.lsd_sort(from, to, n, &worker(team.worker).buffers);
            }
            let parts = Parts {
                n,
                count: if threads == 1 { 1 } else { scratch.parts.min(n.div_ceil(MIN_PART_ITEMS)) },
                counts: Counts(if threads == 1 { worker(team.worker).counts } else { scratch.counts }),
            };
            let Some(ChosenDigit { digit, low, high }) = self.choose_and_count(from, bound, &parts, team) else {
                return team.each(parts.count, &|_, p| {
                    let items = parts.items(p);
                    self.copy(self.at(from, items.start), self.at(to, items.start), items.len());
                });
            };
            let mut starts = [0; (1 << msd::MAX_WIDTH) + 1];
            Self::scan_histograms(&parts, digit, &mut starts);

            // Scatter
            let middle = if from.keys == to.keys { spare } else { to };
            let stream = n * (size_of::<K>() + self.payload.size()) >= STREAMED_FROM;
            team.each(parts.count, &|w, p| {
                let (next, buffers, items) = (parts.counts.part(p, digit), worker(w).write_buffers, parts.items(p));
                match digit.kind {
                    TOP_BITS => self.scatter::<TOP_BITS>(from, items, middle, digit, next, buffers, stream),
                    RANGE => self.scatter::<RANGE>(from, items, middle, digit, next, buffers, stream),
                    _ => self.scatter::<LOGARITHMIC>(from, items, middle, digit, next, buffers, stream),
                }
            });
            if digit.shift <= low && digit.kind == TOP_BITS && middle.keys == to.keys {
                return;
            }

            // Sort the buckets, the large ones last
            let bucket = |b: usize| (starts[b], starts[b + 1] - starts[b]);
            let bound = |b: usize| {
                let bits = digit.bits_left(b, high);
                Bound { bits, outside_range: bits == high }
            };
            let large = if threads == 1 { usize::MAX } else { (n / (4 * threads)).max(in_cache) };
            let buckets = 1 << digit.width;
            team.each(buckets, &|w, b| {
                let (i, n) = bucket(b);
                if n <= large {
                    let one = Team { scratch, worker: w, threads: 1 };
                    self.sort(self.at(middle, i), self.at(to, i), self.at(spare, i), n, bound(b), one);
                }
            });
            for b in 0..buckets {
                let (i, n) = bucket(b);
                if n > large {
                    self.sort(self.at(middle, i), self.at(to, i), self.at(spare, i), n, bound(b), team);
                }
            }
        }
    }

    /// Chooses a digit by a sample and counts it in each part. `None` if all radix keys are the
    /// same.
    ///
    /// # Safety
    /// As for [`sort`](Self::sort). The histograms of the parts are the team's.
    unsafe fn choose_and_count(
        self,
        from: Columns<K>,
        bound: Bound,
        parts: &Parts,
        team: Team<'_, K>,
    ) -> Option<ChosenDigit<K>> {
        let mut sample = [K::truncate(0); SAMPLED_KEYS];
        // SAFETY: the caller's: there are more keys than the sample has.
        let first = unsafe {
            for (k, radix) in sample.iter_mut().enumerate() {
                *radix = self.encoding.encode(from.keys.add(parts.n / SAMPLED_KEYS * k).read());
            }
            self.encoding.encode(from.keys.read())
        };
        sample.sort_unstable();
        let mut high = bound.bits;
        loop {
            let digit = Digit::new(&sample, high, self.width(parts.n, team.threads), bound.outside_range);
            let differing = AtomicU64::new(0);
            team.each(parts.count, &|_, p| {
                // SAFETY: the caller's; each part has a histogram of its own.
                let bits = unsafe {
                    let (items, counts) = (parts.items(p), parts.counts.zeroed(p, digit));
                    match digit.kind {
                        TOP_BITS => self.digit_histogram::<TOP_BITS>(from, items, digit, first, counts),
                        RANGE => self.digit_histogram::<RANGE>(from, items, digit, first, counts),
                        _ => self.digit_histogram::<LOGARITHMIC>(from, items, digit, first, counts),
                    }
                };
                differing.fetch_or(bits.to_u64(), Relaxed);
            });
            let differing = differing.into_inner();
            if differing == 0 {
                return None;
            }
            // The highest bits of the digit turned out to be the same in all keys: count again,
            // without them.
            let top = 64 - differing.leading_zeros();
            if top + 3 <= high && digit.kind == TOP_BITS {
                high = top;
                continue;
            }
            return Some(ChosenDigit { digit, low: differing.trailing_zeros(), high });
        }
    }

    /// Scans the histograms: `starts` gets the index at which each bucket begins, and each part's
    /// histogram becomes the indices at which the part's first item of each bucket goes.
    ///
    /// # Safety
    /// The parts' histograms were counted, and no reference to one is alive.
    unsafe fn scan_histograms(parts: &Parts, digit: Digit<K>, starts: &mut Starts) {
        // SAFETY: the caller's; one reference is alive at a time.
        let counts = |p: usize| unsafe { parts.counts.part(p, digit) };
        for p in 0..parts.count {
            for (start, count) in starts.iter_mut().zip(counts(p)) {
                *start += *count;
            }
        }
        let mut sum = 0;
        for start in &mut starts[..=1 << digit.width] {
            sum += std::mem::replace(start, sum);
        }
        let mut running = *starts;
        for p in 0..parts.count {
            for (next, count) in running.iter_mut().zip(counts(p)) {
                *next += std::mem::replace(count, *next);
            }
        }
    }
}
