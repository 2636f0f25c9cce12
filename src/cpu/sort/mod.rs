//! The radix sort of host memory: stable, of keys, of keys with values beside them, or of the numbers of keys.
//!
//! ```text
//! sort(from, to):
//!     keys alone of one or two bytes, all their bits: counted.rs
//!     fits the cache:  local.rs, on one thread
//!     else             look at a sample: where are most of the keys, and which digit tells them apart
//!                      count that digit in each part of the items, all threads
//!                      move the items to their buckets, in order, all threads: split.rs
//!                      sort each bucket into place, one thread each; what is large still, all threads
//! ```
//!
//! The most significant digit comes first, so that all that follows stays in a core's cache: memory is read three times and
//! written twice. Within the cache the least significant digit comes first.
//!
//! What a key and a value are is erased at the entrance, and the engine is compiled once, in the library: for the four widths
//! of integers and the three of floats, times the eight ways in which values move. Keys and values move as they are; order.rs
//! has what they are sorted by.
//!
//! All memory is the caller's, and how much it is the sort says before ([`Sort::scratch`]). No thread waits for another but at
//! the end of a step, in rayon's scope. Nothing of the user's is called, so nothing panics halfway.
//!
//! The split gathers lines as in Satish et al., "Fast Sort on CPUs and GPUs" (2010); one digit of it first and the rest in the
//! cache is as in Polychroniou and Ross, "A Comprehensive Study of Main-Memory Partitioning" (2014).

mod counted;
mod local;
mod order;
mod payload;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use order::{Kind, Order};

use crate::cpu::threshold;
use local::Hot;
use order::{Bits, Places};
use payload::{Nothing, One, Payload, Two};
use split::{Digit, SCALED, SPANNING, WINDOW};
use std::{
    marker::PhantomData,
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// What moves with the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Nothing.
    None,
    /// An array beside the keys, of values of so many bytes, 1 to 16.
    Array(usize),
    /// The numbers of the keys, as integers of so many bytes, 4 or 8: they are written, not read.
    Numbers(usize),
}

/// Keys, and values beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrays {
    /// An array of integers as wide as the keys.
    pub(crate) keys: *mut u8,
    /// An array of values or numbers, at any address; null for [`Values::None`].
    pub(crate) values: *mut u8,
}

/// Items up to which the calling thread sorts alone.
const ALONE: usize = threshold(1 << 15);
/// Bytes of a bucket that is sorted in the cache.
const LOCAL_BYTES: usize = threshold(512 << 10);
/// Bytes of a bucket as they should be.
const BUCKET_BYTES: usize = threshold(128 << 10);
/// Items of a part that are worth a thread's turn.
const PART: usize = threshold(1 << 13);
/// Parts for each thread.
const PARTS: usize = 4;
/// Bytes from which on what is written goes past the cache.
const STREAMED_FROM: usize = 32 << 20;
/// Keys that are looked at before a split, to choose the digit.
const SAMPLE: usize = 256;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A sort of so many items: how many threads, and how much memory.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    order: Order,
    values: Values,
    n: usize,
    keep: bool,
    threads: usize,
}

impl Sort {
    /// Of `n` keys. With `keep` what is sorted is not written but where it is the output, otherwise it is scratch memory too. Longer sorts are done on the
    /// threads of rayon's current pool, which is asked here.
    ///
    /// The width is 8, 16, 32 or 64, floats have more than 8, and the range of bits lies within it.
    pub(crate) fn new(order: Order, values: Values, n: usize, keep: bool) -> Sort {
        // The length is looked at first: asking rayon for its threads would start them.
        let threads = if n <= ALONE { 1 } else { rayon::current_num_threads() };
        Sort { order, values, n, keep, threads }
    }

    /// Bytes of scratch memory, at any address: for each thread up to 1.5 MiB and what 2048 lines take, 64 KiB for the
    /// counters of a thread, and with `keep` as much as what is sorted; for keys that are counted, 512 KiB for each thread at
    /// most. It need not be initialised.
    pub(crate) fn scratch(&self) -> usize {
        let mut layout = Layout { next: 0 };
        self.dispatch(Room(&mut layout));
        layout.next + LINE
    }

    /// Sorts `from` into `to`; in the end the sorted keys are in `to`, with their values or numbers.
    ///
    /// # Safety
    /// - All four arrays hold as many items as were said, the keys aligned as their integers are, and nobody else touches them
    ///   until this returns. Numbers have no array in `from` with `keep`; without it theirs is only written.
    /// - `to` may be written and `from` read; without `keep` written, too. Items of `to` need not be initialised.
    /// - `scratch` may be written for [`scratch`](Self::scratch) bytes, and nobody else touches it.
    /// - None of these overlap, but with `keep` the arrays of `to` may be those of `from`.
    pub(crate) unsafe fn run(&self, from: Arrays, to: Arrays, scratch: *mut u8) {
        self.dispatch(Run { from, to, scratch });
    }

    fn dispatch<J: Job>(&self, job: J) {
        macro_rules! values {
            ($K:ty, $places:expr) => {{
                let places = $places;
                macro_rules! by {
                    ($payload:expr) => {
                        job.go(self, Engine::<$K, _, _> { places, payload: $payload, key: PhantomData })
                    };
                }
                match self.values {
                    Values::None => by!(Nothing),
                    Values::Array(1) => by!(One::<u8>(PhantomData)),
                    Values::Array(2) => by!(One::<u16>(PhantomData)),
                    Values::Array(4) | Values::Numbers(4) => by!(One::<u32>(PhantomData)),
                    Values::Array(8) | Values::Numbers(8) => by!(One::<u64>(PhantomData)),
                    Values::Array(size @ 3) => by!(Two::<u16> { size, half: PhantomData }),
                    Values::Array(size @ 5..=7) => by!(Two::<u32> { size, half: PhantomData }),
                    Values::Array(size @ 9..=16) => by!(Two::<u64> { size, half: PhantomData }),
                    Values::Array(_) | Values::Numbers(_) => unreachable!("values have 1 to 16 bytes, numbers 4 or 8"),
                }
            }};
        }
        match (self.order.width, self.order.kind) {
            (16, Kind::Float { mantissa }) => values!(u16, self.order.floats::<u16>(mantissa)),
            (32, Kind::Float { mantissa }) => values!(u32, self.order.floats::<u32>(mantissa)),
            (64, Kind::Float { mantissa }) => values!(u64, self.order.floats::<u64>(mantissa)),
            (8, _) => values!(u8, self.order.integers::<u8>()),
            (16, _) => values!(u16, self.order.integers::<u16>()),
            (32, _) => values!(u32, self.order.integers::<u32>()),
            (64, _) => values!(u64, self.order.integers::<u64>()),
            _ => unreachable!("keys have 8, 16, 32 or 64 bits, floats no 8"),
        }
    }
}

/// What is done with an [`Engine`].
trait Job {
    fn go<K: Bits, O: Places<K>, P: Payload>(self, sort: &Sort, engine: Engine<K, O, P>);
}

struct Room<'a>(&'a mut Layout);
impl Job for Room<'_> {
    fn go<K: Bits, O: Places<K>, P: Payload>(self, sort: &Sort, engine: Engine<K, O, P>) {
        if engine.counters(sort, self.0).is_none() {
            Memory::new(self.0, sort, engine);
        }
    }
}

struct Run {
    from: Arrays,
    to: Arrays,
    scratch: *mut u8,
}
impl Job for Run {
    fn go<K: Bits, O: Places<K>, P: Payload>(self, sort: &Sort, engine: Engine<K, O, P>) {
        let mut layout = Layout { next: self.scratch.addr().next_multiple_of(LINE) };
        self.scratch.expose_provenance();
        let columns = |arrays: Arrays| Columns { keys: arrays.keys.cast::<K>(), values: arrays.values, first: 0 };
        let (from, to) = (columns(self.from), columns(self.to));
        if let Some(counters) = engine.counters(sort, &mut layout) {
            // SAFETY: the caller's.
            return unsafe { engine.counted(from, to, sort.n, counters) };
        }
        let memory = Memory::new(&mut layout, sort, engine);
        let spare = memory.spare.unwrap_or(from);
        let numbers = matches!(sort.values, Values::Numbers(_));
        let from = if numbers { Columns { values: std::ptr::null_mut(), ..from } } else { from };
        let crew = Crew { memory: &memory, worker: 0, threads: sort.threads };
        // SAFETY: the caller's.
        unsafe { engine.sort(from, to, spare, sort.n, Bound { bits: sort.order.bits.end, edge: false }, crew) }
    }
}

/// Cuts memory into pieces that begin at a line.
struct Layout {
    next: usize,
}

impl Layout {
    fn take<T>(&mut self, count: usize) -> *mut T {
        let place = self.next;
        self.next += (count * size_of::<T>()).next_multiple_of(LINE);
        std::ptr::with_exposed_provenance_mut(place)
    }
    fn columns<K, P: Payload>(&mut self, n: usize, payload: P) -> Columns<K> {
        Columns { keys: self.take(n), values: self.take(n * payload.size()), first: 0 }
    }
}

/// The scratch memory of a sort.
struct Memory<K> {
    /// As much as is sorted, if that must not be written.
    spare: Option<Columns<K>>,
    /// Counters for the digits of so many parts.
    counts: *mut usize,
    parts: usize,
    /// Where the threads' own memory begins, and how much a thread has.
    workers: usize,
    worker_bytes: usize,
    /// Items for which a thread has buffers.
    local: usize,
    /// Whether there is anything for a split.
    splits: bool,
}

// SAFETY: addresses. Who uses which part is said where that is cut.
unsafe impl<K> Sync for Memory<K> {}

/// The memory of a thread.
struct Worker<K> {
    hot: Hot<K>,
    counts: *mut usize,
    lines: *mut u8,
}

impl<K: Bits> Memory<K> {
    fn new<O: Places<K>, P: Payload>(layout: &mut Layout, sort: &Sort, engine: Engine<K, O, P>) -> Memory<K> {
        let local = sort.n.min(LOCAL_BYTES / (size_of::<K>() + engine.payload.size()));
        let splits = sort.n > local || sort.threads > 1;
        let spare = (sort.keep && splits).then(|| layout.columns(sort.n, engine.payload));
        let parts = sort.threads * PARTS;
        let counts = layout.take(if splits { parts << split::WIDEST } else { 0 });
        let mut memory = Memory { spare, counts, parts, workers: layout.next, worker_bytes: 0, local, splits };
        let mut one = Layout { next: 0 };
        memory.cut(&mut one, engine);
        memory.worker_bytes = one.next;
        layout.next += memory.worker_bytes * sort.threads;
        memory
    }

    fn worker<O: Places<K>, P: Payload>(&self, number: usize, engine: Engine<K, O, P>) -> Worker<K> {
        self.cut(&mut Layout { next: self.workers + number * self.worker_bytes }, engine)
    }

    fn cut<O: Places<K>, P: Payload>(&self, layout: &mut Layout, engine: Engine<K, O, P>) -> Worker<K> {
        let mut buffer = || layout.columns(self.local, engine.payload);
        let buffers = [buffer(), buffer()];
        let counters = layout.take::<u8>(local::COUNTERS).cast();
        let counts = layout.take(if self.splits { 1 << split::WIDEST } else { 0 });
        let lines = layout.take(if self.splits { Engine::<K, O, P>::LINES } else { 0 });
        Worker { hot: Hot { buffers, counters }, counts, lines }
    }
}

/// Threads that work together: all, or one.
struct Crew<'a, K> {
    memory: &'a Memory<K>,
    /// Which one, or 0.
    worker: usize,
    threads: usize,
}
impl<K> Clone for Crew<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Crew<'_, K> {}

impl<K: Bits> Crew<'_, K> {
    /// Does all jobs, `job(worker, number)`. No two threads are the same worker at a time.
    fn each(self, jobs: usize, job: impl Fn(usize, usize) + Sync) {
        if self.threads == 1 {
            return (0..jobs).for_each(|j| job(self.worker, j));
        }
        each(self.threads, jobs, job);
    }
}

/// Does all jobs, `job(worker, number)`, on so many threads. No two threads are the same worker at a time.
fn each(threads: usize, jobs: usize, job: impl Fn(usize, usize) + Sync) {
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

/// Part `p` of so many of `n` items.
fn part(n: usize, parts: usize, p: usize) -> Range<usize> {
    let begin = |p: usize| n / parts * p + p.min(n % parts);
    begin(p)..begin(p + 1)
}

/// What is known of the places of some items.
#[derive(Clone, Copy)]
struct Bound {
    /// They differ only in so many of the lowest bits.
    bits: u32,
    /// They are what a digit did not span. What splits them does: so every split leaves fewer bits.
    edge: bool,
}

/// The counters of each part of a split.
#[derive(Clone, Copy)]
struct Counts(*mut usize);

// SAFETY: each part's are used by one thread at a time, or by the one that all others have finished for.
unsafe impl Sync for Counts {}

impl Counts {
    /// # Safety
    /// There are as many parts, and nobody else uses this one's.
    unsafe fn of<'a, K>(self, part: usize, digit: Digit<K>) -> &'a mut [usize] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(part << digit.width), 1 << digit.width) }
    }
}

/// Keys and values beside them.
struct Columns<K> {
    keys: *mut K,
    values: *mut u8,
    /// The number of the first one, where values are numbers.
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

/// The sort of keys `K` in the order of `O`, with values `P`.
struct Engine<K, O, P> {
    places: O,
    payload: P,
    key: PhantomData<K>,
}
impl<K, O: Copy, P: Copy> Clone for Engine<K, O, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, O: Copy, P: Copy> Copy for Engine<K, O, P> {}

impl<K: Bits, O: Places<K>, P: Payload> Engine<K, O, P> {
    /// The columns from item `i` on.
    fn at(self, columns: Columns<K>, i: usize) -> Columns<K> {
        let values = match columns.values {
            null if null.is_null() => null,
            values => values.wrapping_add(i * self.payload.size()),
        };
        Columns { keys: columns.keys.wrapping_add(i), values, first: columns.first + i }
    }

    /// Bits of a digit that splits `n` items.
    fn width(self, n: usize, threads: usize) -> u32 {
        let bytes = n * (size_of::<K>() + self.payload.size());
        let most = if bytes <= LOCAL_BYTES << split::DIRECT { split::DIRECT } else { split::WIDEST };
        let width = (bytes / BUCKET_BYTES).max(1).ilog2().clamp(split::DIRECT - 1, most);
        width.max((4 * threads).ilog2()).min(split::WIDEST)
    }

    /// Sorts `n` items into `to`.
    ///
    /// # Safety
    /// - All hold `n` items that nobody else touches. `from` is `to`, or `spare`, or neither; it is read only then.
    /// - The bound holds, and the memory is the crew's, for an engine like this one.
    unsafe fn sort(
        self,
        from: Columns<K>,
        to: Columns<K>,
        spare: Columns<K>,
        n: usize,
        bound: Bound,
        crew: Crew<'_, K>,
    ) {
        let Crew { memory, threads, .. } = crew;
        let worker = |number: usize| memory.worker(number, self);
        // SAFETY: the caller's. Parts, and later buckets, are ranges of items that no two threads share, and the places of a
        // part's items are its own by the counts.
        unsafe {
            if bound.bits == 0 {
                return self.copy(from, to, n);
            }
            if n <= if threads == 1 { memory.local } else { memory.local.min(ALONE) } {
                return self.local(from, to, n, &worker(crew.worker).hot);
            }

            // Count
            let parts = if threads == 1 { 1 } else { memory.parts.min(n.div_ceil(PART)) };
            let counts = Counts(if threads == 1 { worker(crew.worker).counts } else { memory.counts });
            let part = |p: usize| part(n, parts, p);
            let first = self.places.place(from.keys.read());
            let mut high = bound.bits;
            let mut sample = [K::cut(0); SAMPLE];
            for (k, place) in sample.iter_mut().enumerate() {
                *place = self.places.place(from.keys.add(n / SAMPLE * k).read());
            }
            sample.sort_unstable();
            let (digit, low) = loop {
                let digit = Digit::new(&sample, high, self.width(n, threads), bound.edge);
                let differ = AtomicU64::new(0);
                crew.each(parts, |_, p| {
                    let counts = counts.of(p, digit);
                    let differs = match digit.way {
                        SPANNING => self.count_split::<SPANNING>(from, part(p), digit, first, counts),
                        WINDOW => self.count_split::<WINDOW>(from, part(p), digit, first, counts),
                        _ => self.count_split::<SCALED>(from, part(p), digit, first, counts),
                    };
                    differ.fetch_or(differs.wide(), Relaxed);
                });
                let differ = differ.into_inner();
                // All the same, or the highest bits are: then the next digit knows.
                if differ == 0 {
                    crew.each(parts, |_, p| {
                        self.copy(self.at(from, part(p).start), self.at(to, part(p).start), part(p).len())
                    });
                    return;
                }
                let top = 64 - differ.leading_zeros();
                if top + 3 <= high && digit.way == SPANNING {
                    high = top;
                    continue;
                }
                break (digit, differ.trailing_zeros());
            };

            // Place
            let buckets = 1 << digit.width;
            let mut starts = [0; (1 << split::WIDEST) + 1];
            for p in 0..parts {
                for (start, count) in starts.iter_mut().zip(counts.of(p, digit)) {
                    *start += *count;
                }
            }
            let mut sum = 0;
            for start in &mut starts[..=buckets] {
                sum += std::mem::replace(start, sum);
            }
            let mut running = starts;
            for p in 0..parts {
                for (next, count) in running.iter_mut().zip(counts.of(p, digit)) {
                    *next += std::mem::replace(count, *next);
                }
            }

            // Move
            let middle = if from.keys == to.keys { spare } else { to };
            let stream = n * (size_of::<K>() + self.payload.size()) >= STREAMED_FROM;
            crew.each(parts, |w, p| {
                let (counts, lines) = (counts.of(p, digit), worker(w).lines);
                match digit.way {
                    SPANNING => self.scatter::<SPANNING>(from, part(p), middle, digit, counts, lines, stream),
                    WINDOW => self.scatter::<WINDOW>(from, part(p), middle, digit, counts, lines, stream),
                    _ => self.scatter::<SCALED>(from, part(p), middle, digit, counts, lines, stream),
                }
            });
            if digit.shift <= low && digit.way == SPANNING && middle.keys == to.keys {
                return;
            }

            // Sort
            let bucket = |b: usize| (starts[b], starts[b + 1] - starts[b]);
            let bound = |b: usize| {
                let bits = digit.left(b, high);
                Bound { bits, edge: bits == high }
            };
            let big = if threads == 1 { usize::MAX } else { (n / (4 * threads)).max(memory.local) };
            crew.each(buckets, |w, b| {
                let (i, n) = bucket(b);
                if n <= big {
                    let crew = Crew { memory, worker: w, threads: 1 };
                    self.sort(self.at(middle, i), self.at(to, i), self.at(spare, i), n, bound(b), crew);
                }
            });
            for b in 0..buckets {
                let (i, n) = bucket(b);
                if n > big {
                    self.sort(self.at(middle, i), self.at(to, i), self.at(spare, i), n, bound(b), crew);
                }
            }
        }
    }
}
