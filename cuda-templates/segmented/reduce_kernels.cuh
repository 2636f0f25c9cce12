// The kernels of reduce by segment: one for each range of lengths, as in reduce/kernels.cuh, and that of
// short inputs.
#pragma once
#include "segmented/reduce.cuh"
#include "segmented/short.cuh"

#define SEGMENTED_REDUCE_KERNEL(RANGE, WARPS, VECTORS)                                                                           \
    DEFINE_KERNEL(segmented_reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<Carry, WARPS>())   \
        segmented_reduce_##RANGE(Element *in, u64 n, u64 each, u32 more, Carry init, u32 has_init, Carry empty,                  \
                                 const Cut cut, Element *out, u32 *ticket, Share<Operator> *shares) {                            \
        typedef SegmentedReduction<Operator, Shape<WARPS, VECTORS>> Kernel;                                                      \
        __shared__ Kernel::Shared shared;                                                                                        \
        Kernel::run(shared, in, n, {each, more, gridDim.x}, {init, bool(has_init)}, empty, cut, out, ticket, shares);           \
    })
RANGES(SEGMENTED_REDUCE_KERNEL)

#if HAS_KERNEL(segmented_reduce_short)
extern "C" __global__ void __launch_bounds__(SHORT_THREADS)
segmented_reduce_short(Element *in, u64 n, Carry init, u32 has_init, Carry empty, const Cut cut, Element *out) {
    short_reduce<Operator, SHORT_ITEMS>(in, out, n, {init, bool(has_init)}, empty, cut);
}
#endif
