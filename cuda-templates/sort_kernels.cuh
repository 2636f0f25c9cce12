// The kernels of a radix sort: the translation unit defines `Bits`, `Order`, `Value` and the shapes.
#pragma once
#include "sort.cuh"

typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, CHECKED> PassTile;
typedef RadixTile<Bits, Value, SMALL_THREADS, SMALL_ITEMS, FEW> SmallTile;
static_assert(sizeof(PassTile::Shared) <= PASS_SHARED && sizeof(SmallTile::Shared) <= SMALL_SHARED, "what the host asks for");

extern "C" __global__ void __launch_bounds__(512, 2) sort_count(SortCall call) { sort_count<Order, Bits, 512>(call); }

extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) sort_pass(SortCall call, u32 pass, u32 launch) {
    extern __shared__ Vector shared[];
    sort_pass<Order, PassTile>(*(PassTile::Shared *)shared, call, pass, launch);
}

// The same by smaller tiles, for fewer keys.
typedef RadixTile<Bits, Value, PASS_THREADS, SHORT_ITEMS, CHECKED> ShortTile;
static_assert(sizeof(ShortTile::Shared) <= SHORT_SHARED, "what the host asks for");
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) sort_pass_short(SortCall call, u32 pass, u32 launch) {
    extern __shared__ Vector shared[];
    sort_pass<Order, ShortTile>(*(ShortTile::Shared *)shared, call, pass, launch);
}

extern "C" __global__ void __launch_bounds__(SMALL_THREADS) sort_small(SortCall call) {
    extern __shared__ Vector shared[];
    sort_small<Order, SmallTile>(*(SmallTile::Shared *)shared, call);
}

#ifdef ALONE // keys without values
#if KEY_BYTES >= 2
extern "C" __global__ void __launch_bounds__(1024, 1) bucket_count(SortCall call, BucketCall buckets) {
    extern __shared__ Vector shared[];
    bucket_count<Order, Bits, 1024>((u32 *)shared, call, buckets);
}
extern "C" __global__ void __launch_bounds__(BINS) bucket_plan(SortCall call, BucketCall buckets) {
    bucket_plan<Bits>(call, buckets, PASS_THREADS * PASS_ITEMS);
}
#endif
#if KEY_BYTES == 1
extern "C" __global__ void __launch_bounds__(256) sort_fill(SortCall call) {
    sort_fill<Order, Bits, 256>(call, ((const SortPlan<2> *)call.plan)->starts[0]);
}
#elif KEY_BYTES == 2
extern "C" __global__ void __launch_bounds__(256) sort_fill(SortCall call, BucketCall buckets) {
    sort_fill<Order, Bits, 256>(call, buckets.starts);
}
#else
typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, UNORDERED> BucketTile;
typedef RadixTile<Bits, Value, BUCKET_THREADS, BUCKET_ITEMS, BALLOTS> InBucket;
typedef BucketSort<Order, InBucket, BUCKET_BINS> Bucket;
static_assert(sizeof(BucketTile::Shared) <= BUCKET_TILE_SHARED && sizeof(Bucket::Shared) <= BUCKET_SORT_SHARED, "what the host asks for");

extern "C" __global__ void __launch_bounds__(PASS_THREADS, 2) bucket_first(SortCall call, BucketCall buckets) {
    extern __shared__ Vector shared[];
    bucket_first<Order, BucketTile>(*(BucketTile::Shared *)shared, call, buckets);
}
extern "C" __global__ void __launch_bounds__(PASS_THREADS, 2) bucket_second(SortCall call, BucketCall buckets) {
    extern __shared__ Vector shared[];
    bucket_second<BucketTile>(*(BucketTile::Shared *)shared, call, buckets);
}
extern "C" __global__ void __launch_bounds__(BUCKET_THREADS, BUCKET_BLOCKS) bucket_sort(SortCall call, BucketCall buckets) {
    extern __shared__ Vector shared[];
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large) return;
    Bucket::run_bucket(*(Bucket::Shared *)shared, call, buckets);
}
// As many keys as a block holds.
extern "C" __global__ void __launch_bounds__(BUCKET_THREADS, BUCKET_BLOCKS) bucket_small(SortCall call) {
    extern __shared__ Vector shared[];
    Bucket::run_one(*(Bucket::Shared *)shared, call);
}
#endif
#endif
