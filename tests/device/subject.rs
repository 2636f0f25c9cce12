//! The hand-over under test: the templates as text that a test may edit, in kernels with memory of
//! their own.

use crate::common::edit::{Edit, once, one_text};
use crate::common::{Options, Sample, address, oracle, p};
use parascan::cuda::Kernels;
use parascan::cudarc::driver::{CudaSlice, CudaStream};
use parascan::{DeviceCode, Operator};
use std::sync::Arc;

// ---- the text -----------------------------------------------------------------------------------

const PRELUDE: &str = include_str!("subject.cuh");
const TEMPLATES: [&str; 7] = [
    include_str!("../../cuda-templates/core/warp_scan.cuh"),
    include_str!("../../cuda-templates/core/handover.cuh"),
    include_str!("../../cuda-templates/core/stage.cuh"),
    include_str!("../../cuda-templates/core/pipeline.cuh"),
    include_str!("../../cuda-templates/scan/scan.cuh"),
    include_str!("../../cuda-templates/compact/compact.cuh"),
    include_str!("../../cuda-templates/compact/one_buffer.cuh"),
];

/// Adds pauses, and fills uninitialised memory with the worst values. The templates' promises stay
/// the same.
const HOOKS: &[Edit] = &[
    once(
        "store_relaxed(word + i, mark(words.word[i], 1));",
        "pause(WORD, u32(u64(word + i) / 8)), store_relaxed(word + i, mark(words.word[i], 1));",
    ),
    once("store_relaxed_shared(word + i, ", "pause(POST, mark + i), store_relaxed_shared(word + i, "),
    once("join.publish(tile, aggregate, lane);", "pause(PUBLISH, tile); join.publish(tile, aggregate, lane);"),
    once(
        "Maybe<Carry> prefix = join.receive(tile, aggregate, init, lane);",
        "Maybe<Carry> prefix = join.receive(tile, aggregate, init, lane); pause(SCAN, tile);",
    ),
    once(
        "while (!prefix_of(tile).poll(prefix.value)) {}",
        "pause(POLL, tile); while (!prefix_of(tile).poll(prefix.value)) {}",
    ),
    once("for (bool all = false; !all;) {", "pause(POLL, tile); bool all = false; while (!all) {"),
    once("for (bool have = false; !have;) {", "pause(POLL, tile); bool have = false; while (!have) {"),
    once("join.retire(tile, lane);", "pause(RETIRE, tile), join.retire(tile, lane);"),
    once("while (there < size || served < size) {", "while (there < size || served < size) { pause(SERVE, group);"),
    // Shared memory as an earlier kernel may leave it: a prefix for this group, of no item.
    once(
        "if (threadIdx.x < SERVERS) shared.upto[threadIdx.x].clear();",
        "if (threadIdx.x < SERVERS) shared.upto[threadIdx.x].post(init.value, threadIdx.x);
         if (threadIdx.x < SERVERS) shared.upto[threadIdx.x].clear();",
    ),
    once(
        "Item *to = (Item *)slice.slots();",
        "Item *to = (Item *)slice.slots(); for (u32 i = lane; i < Stage::ITEMS; i += WARP) to[i] = Item(); __syncwarp();",
    ),
];

/// The templates as one text, with the hooks.
pub(super) fn templates() -> String {
    HOOKS.iter().fold(one_text(&TEMPLATES), |text, hook| hook.apply(&text))
}

/// A join of tiles.
#[derive(Clone, Copy, Debug)]
pub(super) enum Join {
    Server {
        warps: usize,
        vectors: usize,
        spread: usize,
    },
    LookBack {
        warps: usize,
        vectors: usize,
    },
    Chained {
        warps: usize,
        vectors: usize,
    },
    /// An exclusive scan from `init` of 32 columns of the same items, one item for each tile.
    Columns,
    /// A three-way partition by the upper two bits of all items but the last two, at which the
    /// kernel writes the counts.
    Cooperative {
        warps: usize,
        rows: usize,
    },
}

impl Join {
    /// Items a tile.
    pub(super) fn tile<T>(self) -> usize {
        match self {
            Join::Server { warps, vectors, .. }
            | Join::LookBack { warps, vectors }
            | Join::Chained { warps, vectors } => warps * 32 * vectors * 16 / size_of::<T>(),
            Join::Columns => 1,
            Join::Cooperative { warps, rows } => warps * 32 * rows,
        }
    }
    /// `tiles`, or at most the number that any device holds at once if the launch is cooperative.
    pub(super) fn tiles(self, tiles: usize) -> usize {
        match self {
            Join::Cooperative { .. } => tiles.min(300),
            _ => tiles,
        }
    }
    /// The oracle's output for items of `Maps`.
    pub(super) fn expected(self, input: &[u64], options: Options<u64>) -> Vec<u64> {
        let Join::Cooperative { .. } = self else { return oracle::<Maps, u64>(input, options) };
        let part = |x: &u64| x.leading_zeros().min(2);
        let mut expected = input[..input.len() - 2].to_vec();
        let counts = [0, 1].map(|k| expected.iter().filter(|&x| part(x) == k).count() as u64);
        expected.sort_by_key(part);
        expected.extend(counts);
        expected
    }
    fn threads(self) -> u32 {
        match self {
            Join::Server { warps, .. }
            | Join::LookBack { warps, .. }
            | Join::Chained { warps, .. }
            | Join::Cooperative { warps, .. } => warps as u32 * 32,
            Join::Columns => 32,
        }
    }
    /// The kernel's name.
    fn text(self) -> String {
        let scan = |warps, vectors, join| {
            format!(
                "typedef Shape<{warps}, {vectors}> Tiles;
                 extern \"C\" __global__ void __launch_bounds__(Tiles::THREADS)
                 subject(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {{
                     scan_tiles<Operator, Tiles>(in, out, n, init, flags, {join}(memory, tiles));
                 }}"
            )
        };
        match self {
            Join::Server { warps, vectors, spread } => {
                scan(warps, vectors, format!("PrefixServer<Operator, {warps}, {spread}>"))
            }
            Join::LookBack { warps, vectors } => scan(warps, vectors, "LookBack<Operator, 64>".to_owned()),
            Join::Chained { warps, vectors } => scan(warps, vectors, "Chained<Operator>".to_owned()),
            Join::Columns => "extern \"C\" __global__ void __launch_bounds__(32)
                subject(Element *in, Element *out, u64 n, Carry init, u32, void *memory, u32 tiles) {
                    typedef LookBackColumns<Operator, 32, 32> Join;
                    __shared__ Join::Shared shared;
                    Join join(memory, tiles);
                    u32 tile = join.enter(shared), column = threadIdx.x;
                    pause(PUBLISH, tile);
                    Carry before = join.exchange(tile, column, tile < n ? in[tile] : init, init);
                    if (tile < n && column == tile % 32) out[tile] = before;
                    join.retire(shared, tile);
                }"
            .to_owned(),
            Join::Cooperative { warps, rows } => format!(
                "struct Bit {{
                     typedef ::Element Item;
                     typedef u32 Parameters;
                     Parameters bit;
                     __device__ bool operator()(Item x) const {{ return x >> bit & 1; }}
                 }};
                 typedef ByTwoPredicates<Bit, Bit> Choice;
                 extern \"C\" __global__ void __launch_bounds__({warps} * WARP)
                 subject(Element *in, Element *out, u64 n, Carry, u32, void *memory, u32 tiles) {{
                     n -= 2;
                     CompactCall call = {{n, in, out + n, {{n, n, n}}, memory, tiles, ONE_BUFFER}};
                     Array<Element, true> items = {{{{in, {{{{out, out, out}}}}}}}};
                     partition_cooperative<{warps}, {rows}, 3>(call, Choice(call, {{63, 62}}), items);
                 }}"
            ),
        }
    }
    /// The translation unit, with the pauses of `pause`.
    pub(super) fn unit<Op: Operator<T, Carry = T>, T: Sample>(self, pause: &str, templates: &str) -> String {
        format!(
            "#define PAUSE ({pause})
             {PRELUDE}
             {templates}
             typedef {} Element;
             typedef Element Carry;
             struct Operator {{
                 typedef ::Element Element;
                 typedef ::Carry Carry;
                 typedef NoPairs Pairs;
                 static __device__ Carry lift(Element x) {{ return x; }}
                 static __device__ Carry alone(Carry x) {{ return x; }}
                 static __device__ Carry combine(Carry a, Carry b) {{ return {}; }}
                 static __device__ Element lower(Carry x) {{ return x; }}
             }};
             {}",
            T::CUDA,
            Op::CUDA.text(),
            self.text()
        )
    }
}

/// x -> factor x + summand, the factor in the lower half: first the earlier map, then the later
/// one. Not commutative, and two words long.
#[derive(Clone, Copy)]
pub(super) struct Maps;
impl Operator<u64> for Maps {
    type Carry = u64;
    fn lift(x: u64) -> u64 {
        x
    }
    fn lower(x: u64) -> u64 {
        x
    }
    fn combine(a: u64, b: u64) -> u64 {
        let factor = b as u32;
        let summand = factor.wrapping_mul((a >> 32) as u32).wrapping_add((b >> 32) as u32);
        u64::from(summand) << 32 | u64::from(factor.wrapping_mul(a as u32))
    }
    // SAFETY: the text calls a function of these tests on its arguments.
    const CUDA: DeviceCode<Self, u64> = unsafe { DeviceCode::new("compose(a, b)") };
}

// ---- the kernel ---------------------------------------------------------------------------------

const SUBJECT: usize = 0;
const WATCH: usize = 1;

/// Words of the hand-over's memory: more than any scan here needs, so that a broken scan stays
/// within it.
const WORDS: usize = 1 << 20;
/// The bytes around input and output. As an item of `Maps` they have an even factor.
const AROUND: u8 = 0xee;
/// Bytes before an aligned input or output.
const BEFORE: usize = 256;

/// A kernel and the memory of its hand-over.
pub(super) struct Subject {
    join: Join,
    kernels: Kernels,
    stream: Arc<CudaStream>,
    memory: CudaSlice<u64>,
}

/// The outcome of a scan.
pub(super) struct Outcome<T> {
    pub(super) output: Vec<T>,
    /// The scan wrote before or after the output.
    pub(super) outside: bool,
    /// The scan left nonzero memory.
    pub(super) dirty: bool,
    /// A thread gave up waiting.
    pub(super) gave_up: bool,
    /// The operator was called on an operand that is no item, which `Maps` recognises.
    pub(super) foreign: bool,
}

impl Subject {
    /// `unit` is a unit of `join`.
    pub(super) fn new(stream: &Arc<CudaStream>, join: Join, unit: &str) -> Subject {
        let kernels = Kernels::compile(stream.context(), "subject", unit, &["subject", "watch"]).unwrap();
        Subject { join, kernels, stream: stream.clone(), memory: stream.alloc_zeros(WORDS).unwrap() }
    }

    pub(super) fn join(&self) -> Join {
        self.join
    }
    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Runs a scan of more than one tile. Input and output begin `distances` items past a multiple
    /// of 16 bytes.
    pub(super) fn scan<T: Sample>(
        &self,
        input: &[T],
        options: Options<T>,
        distances: (usize, usize),
        seed: u32,
    ) -> Outcome<T> {
        let (tile, size) = (self.join.tile::<T>(), size_of::<T>());
        let tiles = input.len().div_ceil(tile) as u32;
        assert!(tiles > 1, "a single tile is joined to nothing");
        let begin = |distance| BEFORE + distance * size;
        let mut around = vec![AROUND; begin(2) + size_of_val(input) + tile * size + BEFORE];
        let output = self.stream.clone_htod(&around).unwrap();
        around[begin(distances.0)..][..size_of_val(input)].copy_from_slice(bytemuck::cast_slice(input));
        let source = self.stream.clone_htod(&around).unwrap();

        let at = |memory, distance| address(memory, &self.stream) + begin(distance) as u64;
        let (from, to) = (at(&source, distances.0), at(&output, distances.1));
        let (n, memory) = (input.len() as u64, address(&self.memory, &self.stream));
        let init = options.init.unwrap_or(T::zeroed());
        let flags =
            u32::from(options.exclusive) | u32::from(options.reverse) << 1 | u32::from(options.init.is_some()) << 2;
        let blocks = tiles + u32::from(matches!(self.join, Join::Server { .. }));
        self.watch(seed);
        let arguments = [p(&from), p(&to), p(&n), p(&init), p(&flags), p(&memory), p(&tiles)];
        // On an idle device the tiles of a cooperative launch run all at once. Otherwise they give
        // up. SAFETY: the arguments are the kernel's, in order; the buffers outlive it.
        unsafe { self.kernels.launch(SUBJECT, blocks, self.join.threads(), self.stream.cu_stream(), &arguments) }
            .unwrap();
        let [gave_up, foreign] = self.watch(0);

        let bytes = self.stream.clone_dtoh(&output).unwrap();
        let (before, rest) = bytes.split_at(begin(distances.1));
        let (inside, after) = rest.split_at(size_of_val(input));
        Outcome {
            output: bytemuck::pod_collect_to_vec(inside),
            outside: before.iter().chain(after).any(|&byte| byte != AROUND),
            dirty: self.stream.clone_dtoh(&self.memory).unwrap().iter().any(|&word| word != 0),
            gave_up,
            foreign,
        }
    }

    /// Whether a thread gave up, and whether a foreign operand was seen, since the last call.
    /// `seed` seeds the pauses from now on.
    fn watch(&self, seed: u32) -> [bool; 2] {
        let seen = self.stream.alloc_zeros::<u32>(2).unwrap();
        let to = address(&seen, &self.stream);
        let arguments = [p(&seed), p(&to)];
        // SAFETY: the arguments are the kernel's, in order; the buffer outlives it.
        unsafe { self.kernels.launch(WATCH, 1, 1, self.stream.cu_stream(), &arguments) }.unwrap();
        let seen = self.stream.clone_dtoh(&seen).unwrap();
        [seen[0] != 0, seen[1] != 0]
    }
}
