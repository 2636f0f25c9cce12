// The kernels of reduce, one for each range of lengths. The unit defines `Operator`, and `RANGES`
// with the shape of each range. A call is one launch whatever its length.
#pragma once
#include "reduce/reduce.cuh"

#define REDUCE_KERNEL(RANGE, WARPS, VECTORS)                                                                                     \
    DEFINE_KERNEL(reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<Carry, WARPS>())           \
        reduce_##RANGE(Element *in, u64 n, u64 each, u32 more, Carry init, u32 has_init, Element *out, u32 *ticket,              \
                       Carry *aggregates) {                                                                                      \
        typedef Reduction<Operator, Shape<WARPS, VECTORS>> Kernel;                                                               \
        __shared__ Kernel::Shared shared;                                                                                        \
        Kernel::run(shared, in, n, {each, more}, init, has_init, out, ticket, aggregates);                                       \
    })
RANGES(REDUCE_KERNEL)
