// The kernels of sort by segment. The translation unit defines `Bits`, `Order`, `Value` and the
// shapes (`segmented_sort_source`). `SegmentedSortArguments::launch` in
// src/cuda/segmented_sort/mod.rs launches them.
#pragma once
#include "segmented_sort/short.cuh"

constexpr u32 SMALL = WARP * SMALL_ITEMS, SMALL_THREADS = WARP * SMALL_WARPS;
constexpr u32 SHORT = SHORT_THREADS * SHORT_ITEMS, MEDIUM = MEDIUM_THREADS * MEDIUM_ITEMS;

// The first step of every kernel: the next launch may start, and what the launch before has written can be
// read, the number `n` of keys too if it lies in memory. The call stays as it is: of one that changes each thread would
// have a copy in local memory.
#define BEGIN_LAUNCH(call)                                                                                             \
    launch_next();                                                                                                     \
    wait_for_launch_before();                                                                                          \
    u64 n = call.n;                                                                                                    \
    TAKE_LENGTH(n)

#if HAS_KERNEL(segment_heads)
extern "C" __global__ void __launch_bounds__(HEAD_THREADS, 6) segment_heads(const SegmentSortCall call, Cut cut AND_LENGTH) {
    BEGIN_LAUNCH(call)
    if (IS_PAST_LENGTH(blockIdx.x, CHUNK * HEAD_CHUNKS, n + 1)) return; // item n has a bit
    write_heads<CHUNK, HEAD_CHUNKS, SMALL, HEAD_THREADS>(call, cut, n);
}
#endif

// Long segments.
template <bool MASKED> __device__ __forceinline__ void partition(const SegmentSortCall &call, u64 n) {
    constexpr bool STABLE = MASKED || Value::BYTES > 0;
    typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, STABLE ? CHECKED : UNORDERED> Tile;
    extern __shared__ Vector shared[];
    typedef Partition<Order, Tile, CHUNK, MEDIUM_CHUNK, SMALL, SHORT, STABLE> Sort;
    static_assert(sizeof(typename Tile::Shared) <= PASS_SHARED && Sort::BYTES <= PASS_SHARED, "the host asks for as many");
    Sort(call, n).run(shared);
}
#if HAS_KERNEL(segment_partition)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) segment_partition(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    partition<false>(call, n);
}
#endif
#if HAS_KERNEL(segment_partition_by_bits)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) segment_partition_by_bits(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    partition<true>(call, n);
}
#endif

// Segments of up to SMALL items, by warps.
template <bool MASKED> __device__ __forceinline__ void sort_small(const SegmentSortCall &call, u64 n) {
    typedef SmallSegments<Order, Bits, Value, SMALL_ITEMS, SMALL_CHUNK, MASKED> Small;
    extern __shared__ Vector shared[];
    static_assert(sizeof(typename Small::Shared) <= SMALL_SHARED[MASKED], "the host asks for as many bytes");
    u64 number = u64(blockIdx.x) * SMALL_WARPS + warp_id();
    if (number * SMALL_CHUNK < n) Small(((typename Small::Shared *)shared)[warp_id()], call, n, number).run();
}
#if HAS_KERNEL(segment_sort_small)
extern "C" __global__ void __launch_bounds__(SMALL_THREADS, SMALL_BLOCKS) segment_sort_small(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_small<false>(call, n);
}
#endif
#if HAS_KERNEL(segment_sort_small_by_bits)
extern "C" __global__ void __launch_bounds__(SMALL_THREADS, SMALL_BLOCKS) segment_sort_small_by_bits(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_small<true>(call, n);
}
#endif

// Longer ones by blocks: in the listed chunks or, without a list, in one chunk a block.
template <u32 LIST, u32 OF_BLOCK, class Segments>
__device__ __forceinline__ void sort_by_blocks(const SegmentSortCall &call, u64 n) {
    extern __shared__ Vector shared[];
    PartitionPlan &plan = *(PartitionPlan *)call.plan;
    for (bool is_first = true;; is_first = false) {
        u32 chunk = blockIdx.x;
        if (call.may_be_long) {
            u32 drawn = draw(&plan.drawn[LIST]);
            if (drawn >= plan.listed[LIST]) return;
            chunk = call.listed[LIST][drawn];
        } else if (!is_first || IS_PAST_LENGTH(chunk, OF_BLOCK, n)) {
            return;
        }
        Segments(*(typename Segments::Shared *)shared, call, n, chunk).run();
    }
}
template <bool MASKED> __device__ __forceinline__ void sort_short(const SegmentSortCall &call, u64 n) {
    typedef ShortSegments<Order, Bits, Value, SHORT_THREADS, SHORT_ITEMS, CHUNK, SMALL, MASKED> Short;
    static_assert(sizeof(typename Short::Shared) <= SHORT_SHARED[MASKED], "the host asks for as many bytes");
    sort_by_blocks<0, CHUNK, Short>(call, n);
}
#if HAS_KERNEL(segment_sort_short)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_short(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_short<false>(call, n);
}
#endif
#if HAS_KERNEL(segment_sort_short_by_bits)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_short_by_bits(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_short<true>(call, n);
}
#endif

// Those of more than SHORT and up to MEDIUM items, by blocks with a multiprocessor to themselves.
template <bool MASKED> __device__ __forceinline__ void sort_medium(const SegmentSortCall &call, u64 n) {
    typedef ShortSegments<Order, Bits, Value, MEDIUM_THREADS, MEDIUM_ITEMS, MEDIUM_CHUNK, SHORT, MASKED> Medium;
    static_assert(sizeof(typename Medium::Shared) <= MEDIUM_SHARED[MASKED], "the host asks for as many bytes");
    sort_by_blocks<1, MEDIUM_CHUNK, Medium>(call, n);
}
#if HAS_KERNEL(segment_sort_medium)
extern "C" __global__ void __launch_bounds__(MEDIUM_THREADS, 1) segment_sort_medium(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_medium<false>(call, n);
}
#endif
#if HAS_KERNEL(segment_sort_medium_by_bits)
extern "C" __global__ void __launch_bounds__(MEDIUM_THREADS, 1) segment_sort_medium_by_bits(const SegmentSortCall call AND_LENGTH) {
    BEGIN_LAUNCH(call)
    sort_medium<true>(call, n);
}
#endif
