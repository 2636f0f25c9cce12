//! What all tests share: the device, both engines, random data, an oracle by a plain loop, edits of
//! the templates.

pub mod edit;
pub mod engines;
pub mod keys;
pub mod process;
pub mod samples;
pub mod segments;

use bytemuck::Pod;
use half::{bf16, f16};
use parascan::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr};
use parascan::{Block, Element, Error, Network, Operator, Scan, Strategy, cuda, scan};
use std::env;
use std::ffi::c_void;
use std::fmt::{Debug, Display};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

// ---- the device ---------------------------------------------------------------------------------

/// Whether tests compile what they do on the device (see `build.rs`). All of it is type-checked in any case.
pub const ON_DEVICE: bool = cfg!(on_device);

/// `let stream = or_skip!(stream());` ends the test where there is no device. What follows is then not
/// compiled to machine code, unless [`ON_DEVICE`].
#[macro_export]
macro_rules! or_skip {
    ($found:expr) => {
        // A condition that is a constant, so that rustc sees what no call reaches.
        if $crate::ON_DEVICE {
            match $found {
                Some(found) => found,
                None => return,
            }
        } else {
            return $crate::say_skipped();
        }
    };
}

/// Says once that tests are skipped; PARASCAN_REQUIRE_GPU=1 makes that a failure.
pub fn say_skipped() {
    let why = "they were compiled where neither a CUDA driver nor PARASCAN_CUDA_ARCHS asked for them";
    skipped(&why);
}

fn skipped(why: &dyn Display) {
    assert_ne!(env::var("PARASCAN_REQUIRE_GPU").as_deref(), Ok("1"), "a GPU is required: {why}");
    // To the process's stderr, since the harness shows a test's output only if it fails.
    static SAID: Once = Once::new();
    let line = format!("tests that need a GPU are skipped: {why}\n"); // one write
    SAID.call_once(|| drop(io::stderr().write_all(line.as_bytes())));
}

/// A stream of a new context, or `None` without a device; PARASCAN_REQUIRE_GPU=1 makes that a
/// failure.
pub fn stream() -> Option<Arc<CudaStream>> {
    context().map(|context| context.new_stream().expect("a stream"))
}

/// A new context object, so that a test may turn event tracking off for itself alone.
pub fn context() -> Option<Arc<CudaContext>> {
    match cuda::context(0) {
        Ok(_shared) => Some(CudaContext::new(0).expect("a context, as there is one")),
        Err(e @ (Error::NoDriver { .. } | Error::NoDevice { .. })) => {
            skipped(&e);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Held by tests that take much of the device's memory, one at a time.
pub fn much_memory() -> MutexGuard<'static, ()> {
    static MEMORY: Mutex<()> = Mutex::new(());
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of device memory, as a kernel's argument.
pub fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    slice.device_ptr(stream).0
}

/// The pointer to an argument of a launch.
pub fn p<A>(argument: &A) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

// ---- strategies ---------------------------------------------------------------------------------

/// Every strategy of a scan with the default block.
pub const STRATEGIES: [Strategy; 5] = [
    Strategy::Auto,
    Strategy::PrefixServer(Block::WarpShuffles),
    Strategy::LookBack(Block::WarpShuffles),
    Strategy::Chained(Block::WarpShuffles),
    Strategy::Hierarchical(Block::WarpShuffles),
];

/// Every network and form of the textbook, and every strategy, once or twice.
pub const TEXTBOOK: [Strategy; 8] = [
    Strategy::Hierarchical(Block::Plain(Network::KoggeStone)),
    Strategy::Chained(Block::Plain(Network::KoggeStoneDoubleBuffered)),
    Strategy::LookBack(Block::Plain(Network::BrentKung)),
    Strategy::PrefixServer(Block::Shifted(Network::Sklansky)),
    Strategy::Hierarchical(Block::Coarsened(Network::BrentKung)),
    Strategy::Chained(Block::Coarsened(Network::WarpShuffles)),
    Strategy::LookBack(Block::Coarsened(Network::KoggeStoneDoubleBuffered)),
    Strategy::LookBack(Block::Shifted(Network::WarpShuffles)),
];

// ---- random data --------------------------------------------------------------------------------

/// SplitMix64 (Steele, Lea and Flood 2014). Prints its seed when a test that owns one fails;
/// PARASCAN_SEED repeats it.
pub struct Rng {
    state: u64,
    seed: u64,
}

impl Rng {
    pub fn new() -> Rng {
        let seed = match env::var("PARASCAN_SEED") {
            Ok(seed) => seed.parse().expect("PARASCAN_SEED is a number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64,
        };
        Rng { state: seed, seed }
    }
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        let (eights, rest) = bytes.as_chunks_mut::<8>();
        eights.fill_with(|| self.next().to_le_bytes());
        if !rest.is_empty() {
            rest.copy_from_slice(&self.next().to_le_bytes()[..rest.len()]);
        }
        bytes
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

impl Drop for Rng {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PARASCAN_SEED={}", self.seed);
        }
    }
}

/// The distribution of a test's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Random bits: every NaN, infinities, zeros of both signs, subnormals.
    Any,
    /// Small whole numbers, whose sums are exact in any grouping.
    Whole,
    /// Alternating between 2 and 1/2, with random signs: products of any range are exact.
    PowersOfTwo,
}

impl Draw {
    /// Values for which the operator is associative bit for bit, so an oracle may group freely.
    pub fn exact_for<Op: Operator<T>, T: Element>() -> Draw {
        let name = std::any::type_name::<Op>();
        match Op::ASSOCIATIVITY {
            parascan::Associativity::Exact => Draw::Any,
            _ if name.ends_with("Sum") => Draw::Whole,
            _ if name.ends_with("Product") => Draw::PowersOfTwo,
            _ => panic!("{name} rounds: say which data it is exact for"),
        }
    }
}

/// An element that tests draw and compare.
pub trait Sample: Element + DeviceRepr + Debug + PartialEq {
    fn draw(rng: &mut Rng, draw: Draw, i: usize) -> Self;
    /// Whether the bits are the same; any two NaNs are.
    fn same(self, other: Self) -> bool;
}

macro_rules! integers { ($($t:ident)*) => { $(
    impl Sample for $t {
        fn draw(rng: &mut Rng, draw: Draw, _: usize) -> Self {
            match (draw, rng.below(8)) {
                (Draw::Any, 0) => [$t::MIN, $t::MAX, 0, 1][rng.below(4)],
                (Draw::Any, _) => rng.next() as $t,
                _ => rng.below(16) as $t,
            }
        }
        fn same(self, other: Self) -> bool { self == other }
    }
)* } }
integers! { i8 i16 i32 i64 u8 u16 u32 u64 usize isize }

macro_rules! floats { ($($t:ident $from:expr;)*) => { $(
    impl Sample for $t {
        fn draw(rng: &mut Rng, draw: Draw, i: usize) -> Self {
            let from: fn(f32) -> $t = $from;
            match (draw, rng.below(16)) {
                (Draw::Any, 0) => [$t::NAN, -$t::NAN, $t::INFINITY, $t::NEG_INFINITY, from(0.0), from(-0.0), $t::MAX, $t::MIN][rng.below(8)],
                (Draw::Any, _) => $t::from_bits(rng.next() as _),
                (Draw::Whole, k) => from(k as f32 - 7.0),
                (Draw::PowersOfTwo, k) => from(if i % 2 == 0 { 2.0 } else { 0.5 } * if k < 8 { 1.0 } else { -1.0 }),
            }
        }
        fn same(self, other: Self) -> bool { self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan() }
    }
)* } }
floats! { f32 |x| x; f64 |x| x.into(); f16 f16::from_f32; bf16 bf16::from_f32; }

pub fn data<T: Sample>(rng: &mut Rng, draw: Draw, n: usize) -> Vec<T> {
    (0..n).map(|i| T::draw(rng, draw, i)).collect()
}

/// A number of elements of several tiles on the host: 512 KiB to 1 MiB.
pub fn host_tiles<T>(rng: &mut Rng) -> usize {
    ((1 << 19) + rng.below(1 << 19)) / size_of::<T>()
}

/// The options for a test of `n` items: all, or of a long test every second one, others in each run.
pub fn some_of<T>(options: Vec<Options<T>>, n: usize, rng: &mut Rng) -> impl Iterator<Item = Options<T>> + use<T> {
    let (first, step) = if n < 1 << 14 { (0, 1) } else { (rng.below(2), 2) };
    options.into_iter().skip(first).step_by(step)
}

/// Elements of random bits.
pub fn any<T: Sample>(rng: &mut Rng, n: usize) -> Vec<T> {
    data(rng, Draw::Any, n)
}

/// Plain data of random bits.
pub fn noise<V: Pod>(rng: &mut Rng, n: usize) -> Vec<V> {
    let mut items: Vec<V> = bytemuck::zeroed_vec(n);
    let bytes = rng.bytes(n * size_of::<V>());
    bytemuck::cast_slice_mut::<V, u8>(&mut items).copy_from_slice(&bytes);
    items
}

// ---- the oracle ---------------------------------------------------------------------------------

/// A scan's options.
#[derive(Clone, Copy, Debug)]
pub struct Options<T> {
    pub exclusive: bool,
    pub init: Option<T>,
    pub reverse: bool,
}

/// A scan by a plain loop.
pub fn oracle<Op: Operator<T>, T: Element>(input: &[T], options: Options<T>) -> Vec<T> {
    let mut output = vec![T::zeroed(); input.len()];
    oracle_into::<Op, T>(input, &mut output, options);
    output
}

/// The same, into memory of the input's length.
pub fn oracle_into<Op: Operator<T>, T: Element>(input: &[T], output: &mut [T], options: Options<T>) {
    assert_eq!(input.len(), output.len());
    let mut upto = options.init.map(Op::lift).or(if options.exclusive { Op::IDENTITY } else { None });
    for k in 0..input.len() {
        let i = if options.reverse { input.len() - 1 - k } else { k };
        let item = Op::lift(input[i]);
        let next = upto.map_or(item, |upto| Op::combine(upto, item));
        output[i] = Op::lower(if options.exclusive { upto.expect("a first value") } else { next });
        upto = Some(next);
    }
}

/// A reduction by a plain loop. `None`: there is nothing to combine, and no identity.
pub fn total<Op: Operator<T>, T: Element>(items: &[T], init: Option<T>) -> Option<T> {
    let items = items.iter().map(|&x| Op::lift(x));
    init.map(Op::lift).into_iter().chain(items).reduce(Op::combine).or(Op::IDENTITY).map(Op::lower)
}

/// A scan of the columns of a matrix, by plain loops.
pub fn columns_oracle<Op: Operator<T>, T: Element>(x: &[T], columns: usize, options: Options<T>) -> Vec<T> {
    let mut output = x.to_vec();
    let first = options.init.map(Op::lift).or(if options.exclusive { Op::IDENTITY } else { None });
    let mut prefixes = vec![first; columns.min(x.len())];
    let row_of = |row: usize| if options.reverse { x.len() - (row + 1) * columns } else { row * columns };
    for begin in (0..x.len().checked_div(columns).unwrap_or(0)).map(row_of) {
        for (column, prefix) in prefixes.iter_mut().enumerate() {
            let item = Op::lift(x[begin + column]);
            let next = prefix.map_or(item, |prefix| Op::combine(prefix, item));
            let result = if options.exclusive { prefix.expect("a first value") } else { next };
            output[begin + column] = Op::lower(result);
            *prefix = Some(next);
        }
    }
    output
}

/// A reduction of the columns of a matrix, by plain loops. `None` if a column has no result.
pub fn column_totals<Op: Operator<T>, T: Element>(x: &[T], columns: usize, init: Option<T>) -> Option<Vec<T>> {
    let mut totals = vec![init.map(Op::lift); columns];
    for row in x.chunks_exact(columns.max(1)) {
        for (total, &item) in totals.iter_mut().zip(row) {
            let item = Op::lift(item);
            *total = Some(total.map_or(item, |total| Op::combine(total, item)));
        }
    }
    totals.into_iter().map(|total| total.or(Op::IDENTITY).map(Op::lower)).collect()
}

/// The options of an operator: an exclusive scan needs a first value.
pub fn options<Op: Operator<T>, T: Sample>(rng: &mut Rng, draw: Draw) -> Vec<Options<T>> {
    let mut all = Vec::new();
    for reverse in [false, true] {
        for exclusive in [false, true] {
            let init = T::draw(rng, draw, 1);
            if !exclusive || Op::IDENTITY.is_some() {
                all.push(Options { exclusive, init: None, reverse });
            }
            all.push(Options { exclusive, init: Some(init), reverse });
        }
    }
    all
}

/// The builder for some options. An exclusive scan without `init` starts from the identity, which
/// `exclusive()` requires at compile time; here it is known only at run time.
pub fn builder<Op: Operator<T>, T: Sample>(options: Options<T>) -> Scan<Op, T> {
    let mut builder = scan::<Op, T>();
    if let Some(init) = options.init {
        builder = builder.init(init);
    }
    if options.exclusive {
        let identity = || Op::lower(Op::IDENTITY.expect("the caller asks only those that have one"));
        builder = builder.exclusive_from(options.init.unwrap_or_else(identity));
    }
    if options.reverse { builder.reverse() } else { builder }
}

#[track_caller]
pub fn assert_same<T: Sample>(got: &[T], expected: &[T], what: &dyn Debug) {
    assert_eq!(got.len(), expected.len(), "{what:?}");
    if bytemuck::cast_slice::<T, u8>(got) == bytemuck::cast_slice::<T, u8>(expected) {
        return;
    }
    if let Some(i) = (0..got.len()).find(|&i| !got[i].same(expected[i])) {
        let wrong = (0..got.len()).filter(|&i| !got[i].same(expected[i])).count();
        panic!(
            "{what:?}: item {i} of {} is {:?} and should be {:?}; {wrong} are wrong",
            got.len(),
            got[i],
            expected[i]
        );
    }
}

/// Compares bytes, which tells NaNs apart.
#[track_caller]
pub fn assert_bytes<V: Pod + Debug>(got: &[V], expected: &[V], what: &dyn Debug) {
    assert_eq!(got.len(), expected.len(), "{what:?}");
    if bytemuck::cast_slice::<V, u8>(got) == bytemuck::cast_slice::<V, u8>(expected) {
        return;
    }
    let same = |i: &usize| bytemuck::bytes_of(&got[*i]) == bytemuck::bytes_of(&expected[*i]);
    if let Some(i) = (0..got.len()).find(|i| !same(i)) {
        let wrong = (0..got.len()).filter(|i| !same(i)).count();
        panic!(
            "{what:?}: item {i} of {} is {:?} and should be {:?}; {wrong} are wrong",
            got.len(),
            got[i],
            expected[i]
        );
    }
}
