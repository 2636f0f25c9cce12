// The kernels of reduce by segment: one for each range of lengths, as in reduce/kernels.cuh, that of short inputs, and
// the one whose warps or blocks take whole segments.
#pragma once
#include "segmented/each_reduce.cuh"
#include "segmented/reduce.cuh"
#include "segmented/short.cuh"

// With LENGTH_ON_DEVICE (core/length.cuh): makes n the number of items, cuts the segments to them, and shares
// their slices anew if they are not all. Returns from a block that has none.
#ifdef LENGTH_ON_DEVICE
// By the grid: rows are whole ones. Segments that begin at item n or behind it are empty: writes their results. All
// `most` items need no search.
__device__ inline void cut_segments(Cut &cut, u64 n, u64 most, Element empty, Element *out) {
    u64 all = cut.segments;
    if (kind_of(cut) == ROWS) {
        cut.segments = n / cut.columns;
        return;
    }
    if (n == most && n > 0) return;
    __shared__ u64 with_items;
    if (threadIdx.x < WARP) {
        u64 before = n == 0 ? 0 : offsets_before(cut, n, n, threadIdx.x);
        if (threadIdx.x == 0) with_items = min(before, all);
    }
    __syncthreads();
    cut.segments = with_items;
    u64 threads = u64(gridDim.x) * blockDim.x;
    for (u64 k = with_items + blockIdx.x * blockDim.x + threadIdx.x; k < all; k += threads)
        out[k] = empty;
}
#define SHARE_LENGTH(n, stretches, cut, Kernel)                                                                                  \
    u64 most = n;                                                                                                                \
    n = upto_length(n, length);                                                                                                  \
    cut_segments(cut, n, most, empty, out);                                                                                      \
    if (n < most) stretches = Stretches::of((n + Kernel::SLICE - 1) / Kernel::SLICE, Kernel::WARPS);                             \
    if (n == 0 || blockIdx.x >= stretches.blocks) return;
#else
#define SHARE_LENGTH(n, stretches, cut, Kernel)
#endif

#define SEGMENTED_REDUCE_KERNEL(RANGE, WARPS, VECTORS)                                                                           \
    DEFINE_KERNEL(segmented_reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<Carry, WARPS>())   \
        segmented_reduce_##RANGE(Element *in, u64 n, u64 each, u32 more, Carry init, u32 has_init, Element empty,                  \
                                 Cut cut, Element *out, u32 *ticket, Share<Operator> *shares AND_LENGTH) {                       \
        typedef SegmentedReduction<Operator, Shape<WARPS, VECTORS>> Kernel;                                                      \
        __shared__ Kernel::Shared shared;                                                                                        \
        Stretches stretches = {each, more, gridDim.x};                                                                           \
        SHARE_LENGTH(n, stretches, cut, Kernel)                                                                                  \
        Kernel::run(shared, in, n, stretches, {init, bool(has_init)}, empty, cut, out, ticket, shares);           \
    })
RANGES(SEGMENTED_REDUCE_KERNEL)

#if HAS_KERNEL(segmented_reduce_short)
extern "C" __global__ void __launch_bounds__(SHORT_INPUT_THREADS)
segmented_reduce_short(Element *in, u64 n, Carry init, u32 has_init, Element empty, const Cut cut, Element *out) {
    short_reduce<Operator, SHORT_ITEMS>(in, out, n, {init, bool(has_init)}, empty, cut);
}
#endif

// Without the bound the compiler takes registers that long segments would like, and short ones pay: a thread has 48.
#if HAS_KERNEL(segmented_reduce_each)
extern "C" __global__ void __launch_bounds__(EACH_WARPS * WARP, fitting<Carry, EACH_WARPS, 40, 4>())
segmented_reduce_each(Element *in, u64 n, EachShares by, Carry init, u32 has_init, Element empty, Cut cut, Element *out,
                      u32 *ticket, Share<Operator> *shares AND_LENGTH) {
    typedef EachReduction<Operator, EACH_CHUNK> Kernel;
    __shared__ typename Kernel::Shared shared;
#ifdef LENGTH_ON_DEVICE
    n = upto_length(n, length);
    if (kind_of(cut) == ROWS) cut.segments = n / cut.columns;
#endif
    Kernel(shared, in, n, cut, by, {init, bool(has_init)}).run(empty, out, ticket, shares);
}
#endif
