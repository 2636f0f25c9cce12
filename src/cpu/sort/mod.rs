//! The radix sort of host memory.

mod local;
mod order;
mod payload;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use order::{Kind, Order};

use local::Hot;
use order::{Bits, Places};
use payload::{Nothing, One, Payload, Two};
use split::Digit;
use std::{
    marker::PhantomData,
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
    pub(crate) keys: *mut u8,
    /// Null for [`Values::None`], and where numbers come from.
    pub(crate) values: *mut u8,
}

/// Items up to which the calling thread sorts alone.
const ALONE: usize = 1 << 15;
/// Bytes of a bucket that is sorted in the cache.
const LOCAL_BYTES: usize = 512 << 10;
/// Bytes of a bucket as they should be.
const BUCKET_BYTES: usize = 128 << 10;
/// Items of a part that are worth a thread's turn.
const PART: usize = 1 << 13;
/// Parts for each thread.
const PARTS: usize = 4;
/// Bytes from which on what is written goes past the cache.
const STREAMED_FROM: usize = 32 << 20;
/// Keys that are looked at before a split, to choose the digit.
const SAMPLE: usize = 256;

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
    /// With `keep`, what is sorted is not touched.
    pub(crate) fn new(order: Order, values: Values, n: usize, keep: bool) -> Sort {
        // The length is looked at first: asking rayon for its threads would start them.
        let threads = if n <= ALONE { 1 } else { rayon::current_num_threads() };
        Sort { order, values, n, keep, threads }
    }

    /// Bytes of scratch memory.
    pub(crate) fn scratch(&self) -> usize {
        let mut layout = Layout { next: 0 };
        self.dispatch(Room(&mut layout));
        layout.next + 64
    }

    /// Sorts `from` into `to`.
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
        Memory::new(self.0, sort, engine);
    }
}

struct Run {
    from: Arrays,
    to: Arrays,
    scratch: *mut u8,
}
impl Job for Run {
    fn go<K: Bits, O: Places<K>, P: Payload>(self, sort: &Sort, engine: Engine<K, O, P>) {
        let align = self.scratch.align_offset(64);
        let mut layout = Layout { next: self.scratch.addr() + align };
        let memory = Memory::new(&mut layout, sort, engine);
        let columns = |arrays: Arrays| Columns { keys: arrays.keys.cast::<K>(), values: arrays.values, first: 0 };
        let source = columns(self.from);
        let spare = memory.spare.unwrap_or(source);
        let numbers = matches!(sort.values, Values::Numbers(_));
        let from = if numbers { Columns { values: std::ptr::null_mut(), ..source } } else { source };
        let crew = Crew { memory: &memory, worker: 0, threads: sort.threads };
        // SAFETY: the caller's.
        unsafe { engine.sort(from, columns(self.to), spare, sort.n, Bound { bits: sort.order.bits.end, edge: false }, crew) }
    }
}

/// Cuts memory into pieces that begin at a line.
struct Layout {
    next: usize,
}

impl Layout {
    fn take<T>(&mut self, count: usize) -> *mut T {
        let place = self.next;
        self.next += (count * size_of::<T>()).next_multiple_of(64);
        place as *mut T
    }
    fn columns<K, P: Payload>(&mut self, n: usize, payload: P) -> Columns<K> {
        Columns { keys: self.take(n), values: self.take(n * payload.size()), first: 0 }
    }
}

/// The scratch memory of a sort.
struct Memory<K> {
    spare: Option<Columns<K>>,
    counts: *mut usize,
    parts: usize,
    workers: usize,
    worker_bytes: usize,
    local: usize,
    most: usize,
    value: usize,
}
unsafe impl<K> Sync for Memory<K> {}

#[derive(Clone, Copy)]
struct Worker<K> {
    hot: Hot<K>,
    counts: *mut usize,
    lines: *mut u8,
}

impl<K: Bits> Memory<K> {
    fn new<O: Places<K>, P: Payload>(layout: &mut Layout, sort: &Sort, engine: Engine<K, O, P>) -> Memory<K> {
        let bytes = size_of::<K>() + engine.payload.size();
        let most = LOCAL_BYTES / bytes;
        let local = sort.n.min(most);
        let splits = sort.n > local || sort.threads > 1;
        let spare = (sort.keep && splits).then(|| layout.columns(sort.n, engine.payload));
        let parts = sort.threads * PARTS;
        let counts = layout.take(if splits { parts << split::WIDEST } else { 0 });
        let workers = layout.next;
        let mut memory = Memory { spare, counts, parts, workers, worker_bytes: 0, local, most, value: engine.payload.size() };
        let mut one = Layout { next: 0 };
        memory.cut(&mut one, engine, splits);
        memory.worker_bytes = one.next;
        layout.next += memory.worker_bytes * sort.threads;
        memory
    }

    fn cut<O: Places<K>, P: Payload>(&self, layout: &mut Layout, engine: Engine<K, O, P>, splits: bool) -> Worker<K> {
        let mut buffer = || layout.columns(self.local, engine.payload);
        let buffers = [buffer(), buffer()];
        let counters = layout.take::<u8>(local::COUNTERS).cast();
        let counts = layout.take(if splits { 1 << split::WIDEST } else { 0 });
        let lines = layout.take(if splits { Engine::<K, O, P>::LINES } else { 0 });
        Worker { hot: Hot { buffers, counters }, counts, lines }
    }
}

/// Threads that work together, and which part of the memory is theirs.
struct Crew<'a, K> {
    memory: &'a Memory<K>,
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
    fn each(self, jobs: usize, job: impl Fn(usize, usize) + Sync) {
        let threads = self.threads.min(jobs);
        if threads <= 1 {
            return (0..jobs).for_each(|j| job(self.worker, j));
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
}

/// What is known of the places of some items.
#[derive(Clone, Copy)]
struct Bound {
    /// They differ only in so many of the lowest bits.
    bits: u32,
    /// They are what a digit did not span. What splits them spans all bits: so every split leaves fewer.
    edge: bool,
}

/// The counters of each part of a split.
#[derive(Clone, Copy)]
struct Counts(*mut usize);
unsafe impl Sync for Counts {}
impl Counts {
    unsafe fn of<'a, K>(self, part: usize, digit: Digit<K>) -> &'a mut [usize] {
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
unsafe impl<K> Send for Columns<K> {}
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
unsafe impl<K, O: Sync, P: Sync> Sync for Engine<K, O, P> {}

impl<K: Bits, O: Places<K>, P: Payload> Engine<K, O, P> {
    /// The columns from item `i` on.
    unsafe fn at(self, columns: Columns<K>, i: usize) -> Columns<K> {
        let values = if columns.values.is_null() { columns.values } else { unsafe { columns.values.add(i * self.payload.size()) } };
        Columns { keys: unsafe { columns.keys.add(i) }, values, first: columns.first + i }
    }

    /// Sorts `n` items into `to`. `from` is `to`, or `spare`, or neither. Only the lowest `bits` of places differ.
    unsafe fn sort(self, from: Columns<K>, to: Columns<K>, spare: Columns<K>, n: usize, bound: Bound, crew: Crew<K>) {
        let memory = crew.memory;
        let worker = |w: usize| {
            let mut layout = Layout { next: memory.workers + w * memory.worker_bytes };
            memory.cut(&mut layout, self, true)
        };
        unsafe {
            if bound.bits == 0 {
                return self.copy(from, to, n);
            }
            if n <= memory.local && crew.threads == 1 || n <= ALONE.min(memory.local) {
                return self.local(from, to, n, &worker(crew.worker).hot);
            }
            let bytes = size_of::<K>() + self.payload.size();
            let parts = if crew.threads == 1 { 1 } else { memory.parts.min(n.div_ceil(PART)) };
            let counts = Counts(if crew.threads == 1 { worker(crew.worker).counts } else { memory.counts });
            let part = |p: usize| n / parts * p + p.min(n % parts)..n / parts * (p + 1) + (p + 1).min(n % parts);
            let mut width = (n * bytes / BUCKET_BYTES).max(1).ilog2().clamp(5, split::WIDEST);
            if n * bytes <= LOCAL_BYTES << 6 {
                width = width.min(6);
            }
            width = width.max((4 * crew.threads).ilog2()).min(split::WIDEST);
            let first = self.places.place(from.keys.read());
            let mut high = bound.bits;
            let mut sample = [K::cut(0); SAMPLE];
            for (k, place) in sample.iter_mut().enumerate() {
                *place = self.places.place(from.keys.add(n / SAMPLE * k).read());
            }
            sample.sort_unstable();
            let (digit, low) = loop {
                let digit = if bound.edge { Digit::spanning } else { Digit::new }(&sample, high, width);
                let differ = AtomicU64::new(0);
                crew.each(parts, |_, p| {
                    differ.fetch_or(self.count_split(from, part(p), digit, first, counts.of(p, digit)).wide(), Relaxed);
                });
                let differ = differ.into_inner();
                if differ == 0 {
                    crew.each(parts, |_, p| self.copy(self.at(from, part(p).start), self.at(to, part(p).start), part(p).len()));
                    return;
                }
                let top = 64 - differ.leading_zeros();
                if top + 3 <= high && digit.spans {
                    high = top;
                    continue;
                }
                break (digit, differ.trailing_zeros());
            };
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
            let middle = if from.keys == to.keys { spare } else { to };
            let stream = n * bytes >= STREAMED_FROM;
            crew.each(parts, |w, p| self.scatter(from, part(p), middle, digit, counts.of(p, digit), worker(w).lines, stream));
            if digit.shift <= low && digit.spans && middle.keys == to.keys {
                return;
            }
            let bucket = |b: usize| (starts[b], starts[b + 1] - starts[b]);
            let bound = |b: usize| {
                let edge = !digit.spans && (b == 0 || b == buckets - 1);
                Bound { bits: if edge { high } else { digit.shift }, edge }
            };
            let big = if crew.threads == 1 { usize::MAX } else { (n / (4 * crew.threads)).max(memory.local) };
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
