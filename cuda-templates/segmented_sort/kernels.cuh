// The kernels of sort by segment. The translation unit defines `Bits`, `Order`, `Value` and the
// shapes (`segmented_sort_source`). `SegmentedSortArguments::launch` in
// src/cuda/segmented_sort/mod.rs launches them.
#pragma once
#include "segmented_sort/bins.cuh"

constexpr u32 SMALL = WARP * SMALL_ITEMS, SMALL_THREADS = WARP * SMALL_WARPS;
constexpr u32 SHORT = SHORT_THREADS * SHORT_ITEMS;

__device__ inline void begin_dependent_launch() {
    launch_next();
    wait_for_launch_before();
}

#if HAS_KERNEL(segment_heads)
extern "C" __global__ void __launch_bounds__(HEAD_THREADS, 4) segment_heads(SegmentSortCall call, Cut cut) {
    begin_dependent_launch();
    write_heads<CHUNK, HEAD_CHUNKS, SMALL, HEAD_THREADS>(call, cut);
}
#endif

typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, CHECKED> PassTile;
static_assert(sizeof(PassTile::Shared) <= PASS_SHARED, "the host asks for as many bytes");
#if HAS_KERNEL(segment_partition)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) segment_partition(SegmentSortCall call) {
    begin_dependent_launch();
    extern __shared__ Vector shared[];
    Partition<Order, PassTile, CHUNK, SMALL, SHORT>(call).run(shared);
}
#endif

// Segments of up to SMALL items, by warps.
template <bool MASKED> __device__ __forceinline__ void sort_small(const SegmentSortCall &call) {
    typedef ShortSegments<Order, Bits, Value, WARP, SMALL_ITEMS, SMALL_CHUNK, 0, MASKED> Small;
    extern __shared__ Vector shared[];
    static_assert(sizeof(Small::Shared) <= SMALL_SHARED, "the host asks for as many bytes");
    u64 number = u64(blockIdx.x) * SMALL_WARPS + warp_id();
    if (number * SMALL_CHUNK < call.n) Small(((typename Small::Shared *)shared)[warp_id()], call, number).run();
}
#if HAS_KERNEL(segment_sort_small)
extern "C" __global__ void __launch_bounds__(SMALL_THREADS, SMALL_BLOCKS) segment_sort_small(SegmentSortCall call) {
    begin_dependent_launch();
    sort_small<false>(call);
}
#endif
#if HAS_KERNEL(segment_sort_small_by_bits)
extern "C" __global__ void __launch_bounds__(SMALL_THREADS, SMALL_BLOCKS) segment_sort_small_by_bits(SegmentSortCall call) {
    begin_dependent_launch();
    sort_small<true>(call);
}
#endif

// Longer ones of up to SHORT items, by blocks: in the listed chunks or, without a list, one a block.

// The next chunk of this block; `is_first`: the block has had none. False if there is no other.
__device__ __forceinline__ bool next_chunk(const SegmentSortCall &call, bool is_first, u64 &chunk) {
    PartitionPlan &plan = *(PartitionPlan *)call.plan;
    chunk = blockIdx.x;
    if (!call.may_be_long) return is_first;
    u32 drawn = draw(&plan.drawn);
    if (drawn < plan.listed) chunk = call.listed[drawn];
    return drawn < plan.listed;
}
// By bins.
template <bool MASKED> __device__ __forceinline__ void sort_bins(const SegmentSortCall &call) {
    typedef SegmentBins<Order, Bits, Value, SHORT_THREADS, SHORT_ITEMS, CHUNK, SMALL, MASKED> Bins;
    extern __shared__ Vector shared[];
    static_assert(sizeof(typename Bins::Shared) <= BINS_SHARED, "the host asks for as many bytes");
    u64 chunk;
    for (bool is_first = true; next_chunk(call, is_first, chunk); is_first = false)
        Bins(*(typename Bins::Shared *)shared, call, chunk).run();
}
#if HAS_KERNEL(segment_sort_bins)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_bins(SegmentSortCall call) {
    begin_dependent_launch();
    sort_bins<false>(call);
}
#endif
#if HAS_KERNEL(segment_sort_bins_by_bits)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_bins_by_bits(SegmentSortCall call) {
    begin_dependent_launch();
    sort_bins<true>(call);
}
#endif
// By networks: all or, after bins, what these left.
template <bool MASKED> __device__ __forceinline__ void sort_short(const SegmentSortCall &call) {
    typedef ShortSegments<Order, Bits, Value, SHORT_THREADS, SHORT_ITEMS, CHUNK, SMALL, MASKED> Short;
    extern __shared__ Vector shared[];
    static_assert(sizeof(typename Short::Shared) <= SHORT_SHARED, "the host asks for as many bytes");
    PartitionPlan &plan = *(PartitionPlan *)call.plan;
    for (bool is_first = true;; is_first = false) {
        u64 chunk;
        u32 first = 0;
        if (call.by_bins) {
            u32 drawn = draw(&plan.left_drawn);
            if (drawn >= plan.left) return;
            chunk = call.left[drawn] >> 32;
            first = u32(call.left[drawn]);
        } else if (!next_chunk(call, is_first, chunk)) {
            return;
        }
        Short(*(typename Short::Shared *)shared, call, chunk).run(first);
    }
}
#if HAS_KERNEL(segment_sort_short)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_short(SegmentSortCall call) {
    begin_dependent_launch();
    sort_short<false>(call);
}
#endif
#if HAS_KERNEL(segment_sort_short_by_bits)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_short_by_bits(SegmentSortCall call) {
    begin_dependent_launch();
    sort_short<true>(call);
}
#endif
