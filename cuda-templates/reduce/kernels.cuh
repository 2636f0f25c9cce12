// The kernels of reduce, one for each range of lengths. The unit defines `Operator`, and `RANGES`
// with the shape of each range. A call is one launch whatever its length.
#pragma once
#include "reduce/reduce.cuh"

#define REDUCE_KERNEL(RANGE, WARPS, VECTORS)                                                                                     \
    DEFINE_KERNEL(reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<Carry, WARPS>())           \
        reduce_##RANGE(Element *in, u64 n, u64 each, u32 more, Element *out, u32 *ticket, Carry *aggregates, Carry init,         \
                       u32 has_init) {                                                                                           \
        typedef Reduction<Operator, Shape<WARPS, VECTORS>> Kernel;                                                               \
        __shared__ Kernel::Shared shared;                                                                                        \
        Kernel::run(shared, in, n, {each, more}, out, ticket, aggregates, init, has_init);                                       \
    })
RANGES(REDUCE_KERNEL)
