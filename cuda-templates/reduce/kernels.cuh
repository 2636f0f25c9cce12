// The kernels of reduce, one for each range of lengths. The unit defines `Operator`, and `RANGES`
// with the shape of each range. A call is one launch whatever its length.
#pragma once
#include "reduce/reduce.cuh"

// With LENGTH_ON_DEVICE (core/length.cuh): makes n the number of items, and shares their slices anew if they are
// not all. Returns from a block that has none. `init` is then the result without items.
#ifdef LENGTH_ON_DEVICE
#define SHARE_LENGTH(n, stretches, Kernel)                                                                                       \
    u64 most = n;                                                                                                                \
    n = upto_length(n, length);                                                                                                  \
    if (n < most) stretches = Stretches::of((n + Kernel::SLICE - 1) / Kernel::SLICE, Kernel::WARPS);                             \
    if (blockIdx.x >= stretches.blocks) return;
#else
#define SHARE_LENGTH(n, stretches, Kernel)
#endif

#define REDUCE_KERNEL(RANGE, WARPS, VECTORS)                                                                                     \
    DEFINE_KERNEL(reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<Carry, WARPS>())           \
        reduce_##RANGE(Element *in, u64 n, u64 each, u32 more, Element *out, u32 *ticket, Carry *aggregates, Carry init,         \
                       u32 has_init AND_LENGTH) {                                                                                \
        typedef Reduction<Operator, Shape<WARPS, VECTORS>> Kernel;                                                               \
        __shared__ Kernel::Shared shared;                                                                                        \
        Stretches stretches = {each, more, gridDim.x};                                                                           \
        SHARE_LENGTH(n, stretches, Kernel)                                                                                       \
        Kernel::run(shared, in, n, stretches, out, ticket, aggregates, init, has_init);                                          \
    })
RANGES(REDUCE_KERNEL)
