// The kernels of the radix sort. The translation unit defines `Bits`, `Order`, `Value` and the tile
// shapes (`SortUnit::source`).
//
// Which kernels run for a length, and in which order: README.md. `SortArguments::launch` in
// src/cuda/sort/launch.rs launches them.
#pragma once
#include "sort/bucket_sort.cuh"

extern __shared__ Vector shared[];

// The first step of every kernel: the next launch may start, and what the launch before has written
// can be read, the number of keys too if it lies in memory.
#define BEGIN_LAUNCH(call)    \
    launch_next();            \
    wait_for_launch_before(); \
    TAKE_LENGTH(call.n)

typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, CHECKED> PassTile;
typedef RadixTile<Bits, Value, SMALL_THREADS, SMALL_ITEMS, BALLOTS> SmallTile;
static_assert(sizeof(PassTile::Shared) <= PASS_SHARED && sizeof(SmallTile::Shared) <= SMALL_SHARED,
              "the host asks for as many bytes");

#if KEY_BYTES >= 4
static_assert(sizeof(DistinctKeys<Bits>) <= DISTINCT_BYTES, "the host clears as many bytes");
#endif
#if HAS_KERNEL(sort_passes)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) sort_passes(SortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
#ifdef KEYS_ONLY
    typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, SORTED> SortedTile;
    static_assert(sizeof(SortedTile::Shared) <= PASS_SHARED, "the host asks for as many bytes");
    if (call.end - call.begin == 8 * sizeof(Bits)) return sort_passes<Order, SortedTile>(shared, call);
    sort_passes_outlined<Order, PassTile>(shared, call); // keys that differ elsewhere keep their order
#else
    sort_passes<Order, PassTile>(shared, call);
#endif
}
#endif
#if HAS_KERNEL(sort_small)
extern "C" __global__ void __launch_bounds__(SMALL_THREADS) sort_small(SortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_small<Order, SmallTile>(*(SmallTile::Shared *)shared, call);
}
#endif

// ---- keys-only of one or two bytes: counted, and written from the counts -----------------------
#ifdef KEYS_ONLY
#if KEY_BYTES == 1
constexpr u32 COUNT_BLOCKS = __CUDA_ARCH__ >= 800 ? 3 : 2;
#if HAS_KERNEL(sort_count)
extern "C" __global__ void __launch_bounds__(COUNT_THREADS, COUNT_BLOCKS) sort_count(SortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    __shared__ Counters<Bits, 0> counters;
    IndexRange<u64> all = {0, call.n};
    if (sort_count<Order, Bits, COUNT_THREADS>(counters, call, all, 0, blockIdx.x, gridDim.x))
        plan_passes<COUNT_THREADS>(plan_of<Bits>(call), call, all, call.passes);
}
#endif
#if HAS_KERNEL(sort_fill)
extern "C" __global__ void __launch_bounds__(FILL_THREADS) sort_fill(SortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_fill<Order, Bits, FILL_THREADS>(call, plan_of<Bits>(call).starts[0]);
}
#endif
#elif KEY_BYTES == 2
#if HAS_KERNEL(bucket_count)
extern "C" __global__ void __launch_bounds__(BUCKET_COUNT_THREADS, 1)
    bucket_count(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    key_count<Order, Bits, BUCKET_COUNT_THREADS>((u32 *)shared, call, buckets);
}
#endif
#if HAS_KERNEL(bucket_plan)
extern "C" __global__ void __launch_bounds__(BINS) bucket_plan(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    bucket_starts(call, buckets, DIGIT_BITS, 1 << 15); // any tile: there is no scatter step
}
#endif
#if HAS_KERNEL(sort_fill)
extern "C" __global__ void __launch_bounds__(FILL_THREADS) sort_fill(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_fill<Order, Bits, FILL_THREADS>(call, buckets.starts);
}
#endif
#endif
#endif

// ---- buckets or, for fewer keys, fixed-capacity buckets ----------------------------------------
#if KEY_BYTES >= 4
#ifdef KEYS_ONLY
constexpr Ranking OF_STEPS = UNORDERED;
#else
constexpr Ranking OF_STEPS = CHECKED;
#endif
typedef RadixTile<Bits, Value, PASS_THREADS, STEP_ITEMS, OF_STEPS> BucketTile;
typedef RadixTile<Bits, Value, BUCKET_THREADS, BUCKET_ITEMS, BALLOTS> OrdinaryTile;
typedef RadixTile<Bits, Value, LARGE_THREADS, LARGE_ITEMS, BALLOTS> LargeTile;
typedef BucketSort<Order, OrdinaryTile, BUCKET_BINS, false> Bucket;
typedef BucketSort<Order, OrdinaryTile, BUCKET_BINS, true> FixedBucket;
typedef BucketSort<Order, LargeTile, LARGE_BINS, true> LargeBucket;
static_assert(sizeof(BucketTile::Shared) + sizeof(BucketMap<Bits>::Tables) + 16 <= BUCKET_TILE_SHARED &&
                  sizeof(BucketMap<Bits>::Tables) <= MAP_TABLES && sizeof(Bucket::Shared) <= BUCKET_SORT_SHARED &&
                  sizeof(LargeBucket::Shared) <= LARGE_SORT_SHARED && sizeof(BucketMap<Bits>) <= BUCKET_MAP_BYTES &&
                  sizeof(FixedMap<Bits>) <= FIXED_MAP_BYTES,
              "the host asks for as many bytes");

#if HAS_KERNEL(bucket_map)
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) bucket_map(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    AT_MOST_LENGTH(buckets.sampled, call.n)
    bucket_map<Order, Bits, SAMPLE_THREADS>(call, buckets);
}
#endif
#if HAS_KERNEL(bucket_count)
extern "C" __global__ void __launch_bounds__(BUCKET_COUNT_THREADS, 1)
    bucket_count(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    bucket_count<Order, Bits, BUCKET_COUNT_THREADS>((u32 *)shared, call, buckets);
}
#endif
#if HAS_KERNEL(bucket_plan)
extern "C" __global__ void __launch_bounds__(BINS) bucket_plan(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    bucket_plan<Bits>(call, buckets, BucketTile::TILE);
}
#endif
#if HAS_KERNEL(bucket_first)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS)
    bucket_first(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    bucket_step<Order, BucketTile, true>(shared, call, buckets);
}
#endif
#if HAS_KERNEL(bucket_second)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS)
    bucket_second(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    bucket_step<Order, BucketTile, false>(shared, call, buckets);
}
#endif
#if HAS_KERNEL(bucket_sort)
extern "C" __global__ void __launch_bounds__(BUCKET_THREADS, BUCKET_BLOCKS)
    bucket_sort(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    Bucket::run_buckets(*(Bucket::Shared *)shared, call, buckets);
}
#endif
// Fixed-capacity buckets: one scatter step. Each bucket has room for `room` keys in scratch memory,
// so no key is counted before.
typedef RadixTile<Bits, Value, PASS_THREADS, FIXED_ITEMS, OF_STEPS> FixedTile;
static_assert(sizeof(FixedMap<Bits>) - sizeof(FixedTables<Bits>) <= FIXED_MAP_ZERO, "the host clears as many bytes");
static_assert(sizeof(FixedTile::Shared) + sizeof(FixedTables<Bits>) + 16 <= FIXED_SHARED, "the host asks for as many");
typedef RadixTile<Bits, Value, PASS_THREADS, STEP_ITEMS, OF_STEPS, SINGLE_DIGITS> SingleTile;
static_assert(sizeof(SingleTile::Shared) <= SINGLE_SHARED, "the host asks for as many bytes");
#if HAS_KERNEL(fixed_first)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS)
    fixed_first(SortCall call, BucketCall fixed AND_LENGTH) {
    BEGIN_LAUNCH(call)
    // At most INTERVAL_SAMPLE keys for each tile: of a larger sample the stride may be zero.
    AT_MOST_LENGTH(fixed.interval_parts, call.n / FixedTile::TILE)
    if (fixed.bits == SINGLE_BITS)
        return scatter_by_single_step<Order, SingleTile>(*(SingleTile::Shared *)shared, call, fixed);
    Vector *tables = shared + (sizeof(FixedTile::Shared) + sizeof(Vector) - 1) / sizeof(Vector);
    fixed_first<Order, FixedTile>(*(FixedTile::Shared *)shared, *(FixedTables<Bits> *)tables, call, fixed);
}
#endif
// Sorts each bucket, or all keys as one bucket.
#if HAS_KERNEL(fixed_sort)
extern "C" __global__ void __launch_bounds__(BUCKET_THREADS, BUCKET_BLOCKS)
    fixed_sort(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    FixedBucket::Shared &s = *(FixedBucket::Shared *)shared;
    if (call.buckets == FIXED_BUCKETS) FixedBucket::run_fixed(s, call, buckets);
#ifdef KEYS_ONLY
    else FixedBucket::run_one(s, call);
#endif
}
#endif
// Large buckets of either kind.
#if HAS_KERNEL(bucket_sort_large)
extern "C" __global__ void __launch_bounds__(LARGE_THREADS, 1)
    bucket_sort_large(SortCall call, BucketCall buckets AND_LENGTH) {
    BEGIN_LAUNCH(call)
    LargeBucket::Shared &s = *(LargeBucket::Shared *)shared;
    if (buckets.bits > 0) LargeBucket::run_fixed(s, call, buckets);
    else LargeBucket::run_buckets(s, call, buckets);
}
#endif
#endif
