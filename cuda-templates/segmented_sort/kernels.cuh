// The kernels of sort by segment. The translation unit defines `Bits`, `Order`, `Value` and the
// shapes (`SegmentedSortUnit::source`). `SegmentedSortArguments::launch` in
// src/cuda/segmented_sort/mod.rs launches them.
#pragma once
#include "segmented_sort/short.cuh"

__device__ inline void begin_dependent_launch() {
    launch_next();
    wait_for_launch_before();
}

#if HAS_KERNEL(segment_heads)
extern "C" __global__ void __launch_bounds__(HEAD_THREADS) segment_heads(SegmentSortCall call, Cut cut) {
    begin_dependent_launch();
    write_heads<CHUNK, HEAD_CHUNKS, HEAD_THREADS>(call, cut);
}
#endif

typedef RadixTile<Bits, Value, PASS_THREADS, PASS_ITEMS, CHECKED> PassTile;
static_assert(sizeof(PassTile::Shared) <= PASS_SHARED, "the host asks for as many bytes");
#if HAS_KERNEL(segment_partition)
extern "C" __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) segment_partition(SegmentSortCall call) {
    begin_dependent_launch();
    extern __shared__ Vector shared[];
    Partition<Order, PassTile, CHUNK, SHORT>(call).run(shared);
}
#endif

#if HAS_KERNEL(segment_sort)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort(SegmentSortCall call) {
    begin_dependent_launch();
    extern __shared__ Vector shared[];
    typedef ShortSegments<Order, Bits, Value, SHORT_THREADS, CHUNK, SHORT, false> Short;
    static_assert(sizeof(Short::Shared) <= SHORT_SHARED, "the host asks for as many bytes");
    Short(*(Short::Shared *)shared, call).run();
}
#endif
#if HAS_KERNEL(segment_sort_by_bits)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS, SHORT_BLOCKS) segment_sort_by_bits(SegmentSortCall call) {
    begin_dependent_launch();
    extern __shared__ Vector shared[];
    typedef ShortSegments<Order, Bits, Value, SHORT_THREADS, CHUNK, SHORT, true> Short;
    static_assert(sizeof(Short::Shared) <= SHORT_SHARED, "the host asks for as many bytes");
    Short(*(Short::Shared *)shared, call).run();
}
#endif
