//! The guards of the sort by buckets: without any one of them an input that needs it is sorted wrongly, or passes
//! sort keys that buckets could hold.
//!
//! A test edits the templates as text and sorts one input with both forms. No edit lets a kernel reach outside of
//! its arrays. The passes are left out, so keys that buckets leave to them stay unsorted.

use super::overflow::with_full_bucket;
use super::*;
use crate::common::edit::{Edit, once, one_text};
use crate::common::process::is_alone;
use crate::common::{address, context, p};
use parascan::cuda::Kernels;

const TYPES: &str = include_str!("../../cuda-templates/core/types.cuh");
const TEMPLATES: [&str; 14] = [
    include_str!("../../cuda-templates/core/warp_scan.cuh"),
    include_str!("../../cuda-templates/core/length.cuh"),
    include_str!("../../cuda-templates/sort/radix.cuh"),
    include_str!("../../cuda-templates/sort/sort.cuh"),
    include_str!("../../cuda-templates/sort/heavy_keys.cuh"),
    include_str!("../../cuda-templates/sort/bucket_map.cuh"),
    include_str!("../../cuda-templates/sort/bucket_sample.cuh"),
    include_str!("../../cuda-templates/sort/buckets.cuh"),
    include_str!("../../cuda-templates/sort/fixed_scatter.cuh"),
    include_str!("../../cuda-templates/sort/fixed_intervals.cuh"),
    include_str!("../../cuda-templates/sort/fixed_buckets.cuh"),
    include_str!("../../cuda-templates/sort/bitonic.cuh"),
    include_str!("../../cuda-templates/sort/finer_bins.cuh"),
    include_str!("../../cuda-templates/sort/bucket_sort.cuh"),
];

/// Keys-only of 4 bytes. The shapes have few items a thread, so that static shared memory holds a tile.
const KERNELS: &str = r#"
typedef u32 Bits;
typedef KeyOrder<Bits, INTEGER, 0> Order;
typedef RadixTile<Bits, NoPayload, PROBE_KEYS, 8, UNORDERED> StepTile;
typedef RadixTile<Bits, NoPayload, 512, 11, BALLOTS> BlockTile;
static_assert(StepTile::TILE == TILE && BlockTile::TILE == ROOM, "the host has them too");
struct Arrays {
    u64 n;
    const Bits *keys;
    Bits *out, *second;
    char *scratch; // zero
    u32 *found;
};
__device__ u32 *part(const Arrays &a, u32 i) { return (u32 *)(a.scratch + i * PART); }
__device__ SortCall call_of(const Arrays &a, u32 buckets) {
    SortCall call = {};
    call.n = a.n;
    call.keys_in = a.keys;
    call.keys[0] = a.out;
    call.keys[1] = a.second;
    call.plan = part(a, 0);
    call.end = 8 * sizeof(Bits);
    call.buckets = buckets;
    return call;
}
__device__ BucketCall buckets_of(const Arrays &a) {
    BucketCall buckets = {};
    buckets.map = part(a, 1);
    buckets.counts = part(a, 2);
    buckets.room = ROOM;
    return buckets;
}
static_assert(sizeof(SortPlan<5>) <= PART && sizeof(BucketMap<Bits>) <= PART && sizeof(FixedMap<Bits>) <= PART, "room");

extern "C" __global__ void tell(Arrays a) {
    const SortPlan<5> &plan = *(const SortPlan<5> *)part(a, 0);
    IndexRange<u32> left = plan.left_by_buckets();
    a.found[0] = plan.too_large;
    a.found[1] = left.count > 0 ? left.first : 0;
    a.found[2] = left.count;
}
"#;

const OF_FIXED: &str = r#"
__device__ BucketCall fixed_of(const Arrays &a) {
    BucketCall fixed = buckets_of(a);
    fixed.keys = part(a, 3);
    fixed.bits = fixed.digit_bits = DIGIT_BITS;
    fixed.most = 5;
    fixed.beyond = 30;
    fixed.interval_parts = 54;
    return fixed;
}
extern "C" __global__ void __launch_bounds__(512) to_buckets(Arrays a) {
    __shared__ StepTile::Shared shared;
    alignas(16) __shared__ char tables[sizeof(FixedTables<Bits>)];
    fixed_first<Order, StepTile>(shared, *(FixedTables<Bits> *)tables, call_of(a, FIXED_BUCKETS), fixed_of(a));
}
extern "C" __global__ void __launch_bounds__(512) sort_buckets(Arrays a) {
    typedef BucketSort<Order, BlockTile, 12, true> Bucket;
    alignas(16) __shared__ char shared[sizeof(Bucket::Shared)];
    Bucket::run_fixed(*(Bucket::Shared *)shared, call_of(a, FIXED_BUCKETS), fixed_of(a));
}
"#;

const OF_COUNTED: &str = r#"
__device__ BucketCall counted_of(const Arrays &a) {
    BucketCall buckets = buckets_of(a);
    buckets.coarse_counts = part(a, 3);
    buckets.starts = part(a, 4);
    buckets.cursors = part(a, 5);
    buckets.coarse_cursors = part(a, 6);
    buckets.begins = (Begin *)part(a, 7);
    buckets.lower_bits = buckets.most_lower_bits = LOWER_BITS;
    buckets.at_once = 1;
    return buckets;
}
// The map by bits, and its histogram.
extern "C" __global__ void count_keys(Arrays a) {
    BucketCall buckets = counted_of(a);
    u32 first = blockIdx.x * blockDim.x + threadIdx.x;
    if (first == 0) {
        BucketMap<Bits> &map = *(BucketMap<Bits> *)buckets.map;
        map.function = BY_BITS;
        map.lower_bits = LOWER_BITS;
    }
    for (u64 i = first; i < a.n; i += gridDim.x * blockDim.x) {
        u32 bucket = BucketByBits<Bits>(LOWER_BITS)(a.keys[i]);
        atomicAdd(buckets.counts + bucket, 1);
        atomicAdd(buckets.coarse_counts + (bucket >> LOWER_BITS), 1);
    }
}
extern "C" __global__ void __launch_bounds__(256) plan_buckets(Arrays a) {
    bucket_plan<Bits>(call_of(a, COUNTED_BUCKETS), counted_of(a), StepTile::TILE);
}
template <bool FIRST> __device__ void step(const Arrays &a) {
    constexpr u32 TABLES = (sizeof(StepTile::Shared) + sizeof(Vector) - 1) / sizeof(Vector);
    __shared__ Vector shared[TABLES + sizeof(BucketMap<Bits>::Tables) / sizeof(Vector)];
    bucket_step<Order, StepTile, FIRST>(shared, call_of(a, COUNTED_BUCKETS), counted_of(a));
}
extern "C" __global__ void __launch_bounds__(512) first_step(Arrays a) { step<true>(a); }
extern "C" __global__ void __launch_bounds__(512) second_step(Arrays a) { step<false>(a); }
extern "C" __global__ void __launch_bounds__(512) sort_buckets(Arrays a) {
    typedef BucketSort<Order, BlockTile, 12, false> Bucket;
    alignas(16) __shared__ char shared[sizeof(Bucket::Shared)];
    Bucket::run_buckets(*(Bucket::Shared *)shared, call_of(a, COUNTED_BUCKETS), counted_of(a));
}
"#;

/// Keys of a block that sorts a bucket, and of a tile.
const ROOM: usize = 5632;
const TILE: usize = 4096;
/// Bytes of a part of the scratch memory.
const PART: usize = 1 << 17;
const BINS: usize = 256;
const LOWER_BITS: u32 = 2;

/// The buckets, and the keys that are sorted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Input {
    /// Random keys, of which a fixed-capacity bucket has one more than its capacity.
    Full,
    /// Two keys in three are the same, to fixed-capacity buckets around heavy keys. A power law takes the others
    /// to equal-depth intervals.
    Frequent,
    /// Random keys, of which a counted bucket has one more than a block sorts.
    FullCounted,
}

impl Input {
    fn keys(self, rng: &mut Rng) -> Vec<u32> {
        match self {
            // Not the last bucket: the key that is too many would lie where the next bucket begins.
            Input::Full => {
                let full = rng.below(BINS - 1);
                with_full_bucket(rng, 1 << 20, 8, [full, ROOM + 1], 512)
            }
            Input::FullCounted => {
                let full = rng.below(BINS << LOWER_BITS);
                with_full_bucket(rng, 3 << 20, 8 + LOWER_BITS, [full, ROOM + 1], 512)
            }
            // The frequent key is far from both ends and from the middle, where intervals are narrow.
            Input::Frequent => (0..1 << 20)
                .map(|_| match rng.next() {
                    x if x % 3 < 2 => 0x3000_0000,
                    x => (x >> 32) as u32 >> (x / 3 % 32),
                })
                .collect(),
        }
    }

    /// The text of the kernels, and each kernel with its blocks and threads.
    fn kernels(self, n: usize) -> (&'static str, Vec<(&'static str, usize, u32)>) {
        let tiles = n.div_ceil(TILE);
        match self {
            Input::Full | Input::Frequent => {
                (OF_FIXED, vec![("to_buckets", tiles, 512), ("sort_buckets", BINS, 512), ("tell", 1, 1)])
            }
            Input::FullCounted => (
                OF_COUNTED,
                vec![
                    ("count_keys", 256, 256),
                    ("plan_buckets", BINS, 256),
                    ("first_step", tiles, 512),
                    ("second_step", tiles + BINS, 512),
                    ("sort_buckets", BINS << LOWER_BITS, 512),
                    ("tell", 1, 1),
                ],
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Check {
    /// All keys that buckets do not leave to passes are where they belong.
    Results,
    /// Buckets do not leave all keys to passes.
    Buckets,
}

struct Guard {
    name: &'static str,
    input: Input,
    without: Edit,
    /// The check that fails without the guard.
    fails: Check,
}

/// In both forms: a block takes no more keys of a bucket than it has room for, whatever is counted.
const WITHIN_A_BLOCK: Edit = once(
    "u32 count = is_heavy ? 0 : keys_here, first = 0;",
    "u32 count = is_heavy ? 0 : min(keys_here, fixed.room), first = 0;",
);

const GUARDS: &[Guard] = &[
    Guard {
        name: "passes are told of a bucket that overflows",
        input: Input::Full,
        without: once(
            "if (earlier + total <= room) return u64(d) * room + earlier;
        *too_large = 1;",
            "if (earlier + total <= room) return u64(d) * room + earlier;",
        ),
        fails: Check::Results,
    },
    Guard {
        name: "a sample of intervals leaves heavy keys out",
        input: Input::Frequent,
        without: once("if (heavy.contains(ordered)) continue;", ""),
        fails: Check::Buckets,
    },
    Guard {
        name: "all blocks write the heaviest keys",
        input: Input::Frequent,
        without: once("is_many = heavy.has(d) & has_heavy & (keys > MOST_OF_ONE_BLOCK);", "is_many = false;"),
        fails: Check::Results,
    },
    Guard {
        name: "counted buckets that are too large for a block are left to passes",
        input: Input::FullCounted,
        without: once(
            "bool is_left = count > buckets.room && !(map.one_key[bucket / 32] >> bucket % 32 & 1);",
            "bool is_left = false;",
        ),
        fails: Check::Results,
    },
];

/// The templates as one text.
fn templates() -> String {
    let text = format!("{}#include \"sort/contract.cuh\"\n{}", one_text(&[TYPES]), one_text(&TEMPLATES));
    WITHIN_A_BLOCK.apply(&text)
}

/// Sorts the keys and returns whether the check fails.
fn fails(check: Check, stream: &Arc<CudaStream>, input: Input, keys: &[u32], templates: &str) -> bool {
    let (kernels, launches) = input.kernels(keys.len());
    let text = format!(
        "{templates}
         constexpr u32 ROOM = {ROOM}, TILE = {TILE}, PART = {PART}, LOWER_BITS = {LOWER_BITS};
         {KERNELS}{kernels}"
    );
    let names: Vec<&str> = launches.iter().map(|&(name, ..)| name).collect();
    let kernels = Kernels::compile(stream.context(), "guards of sort", &text, &names).unwrap();

    let old: Vec<u32> = noise(&mut Rng::new(), keys.len());
    let from = stream.clone_htod(keys).unwrap();
    let (out, second) = (stream.clone_htod(&old).unwrap(), stream.clone_htod(&old).unwrap());
    // Three parts, then fixed-capacity buckets and a tile of keys without one. Counted buckets have eight parts.
    let scratch = stream.alloc_zeros::<u32>(3 * PART / 4 + ROOM * BINS + TILE).unwrap();
    let found = stream.alloc_zeros::<u32>(3).unwrap();
    let [from, out_at, second, scratch, found_at] =
        [&from, &out, &second, &scratch, &found].map(|memory| address(memory, stream));
    let arrays = [keys.len() as u64, from, out_at, second, scratch, found_at];
    for (k, &(_, blocks, threads)) in launches.iter().enumerate() {
        // SAFETY: the argument is the kernels' `Arrays`; the buffers outlive them.
        unsafe { kernels.launch(k, blocks as u32, threads, stream.cu_stream(), &[p(&arrays)]) }.unwrap();
    }
    let (mut got, found) = (stream.clone_dtoh(&out).unwrap(), stream.clone_dtoh(&found).unwrap());
    if check == Check::Buckets || found[0] != 0 {
        return check == Check::Buckets && found[0] != 0;
    }
    let left: Range<usize> = found[1] as usize..(found[1] + found[2]) as usize;
    assert!(left.len() < keys.len() / 4, "{input:?}: {left:?} is left to passes");
    got[left].sort_unstable();
    let mut expected = keys.to_vec();
    expected.sort_unstable();
    got != expected
}

/// Every edit fits the templates; this needs no device.
#[test]
fn each_is_there() {
    let text = templates();
    for guard in GUARDS {
        guard.without.apply(&text);
    }
}

#[test]
fn each_is_needed() {
    let context = or_skip!(context());
    if !is_alone(each_is_needed) {
        return;
    }
    let stream = context.new_stream().unwrap();
    let (mut rng, text) = (Rng::new(), templates());
    for &Guard { name, input, without, fails: check } in GUARDS {
        let keys = input.keys(&mut rng);
        let run = |templates: &str| fails(check, &stream, input, &keys, templates);
        assert!(!run(&text), "{name}: {input:?} fails {check:?} with the guard");
        assert!(run(&without.apply(&text)), "{name}: {input:?} passes {check:?} without the guard");
    }
}
