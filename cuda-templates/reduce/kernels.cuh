// The kernels of reduce, one for each range of lengths. The unit defines `Operator`, and `RANGES`
// with the shape of each range. A call is one launch whatever its length.
#pragma once
#include "reduce/reduce.cuh"

// Blocks that the registers of a multiprocessor must have room for: the 24 warps that the number of
// blocks in src/cuda/reduce/tuning.rs counts on, so that a thread has 80 registers. Without this
// bound the compiler takes up to 104, because it loads all vectors of a lane at once. Wider carries
// need what they need.
template <u32 WARPS> constexpr u32 resident() { return sizeof(Carry) <= 8 ? 24 / WARPS : 0; }

#define REDUCE_KERNEL(RANGE, WARPS, VECTORS)                                                                                     \
    DEFINE_KERNEL(reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<WARPS>())                  \
        reduce_##RANGE(Element *in, u64 n, u64 each, u32 more, Carry init, u32 has_init, Element *out, u32 *ticket,              \
                       Carry *aggregates) {                                                                                      \
        typedef Reduction<Operator, Shape<WARPS, VECTORS>> Kernel;                                                               \
        __shared__ Kernel::Shared shared;                                                                                        \
        Kernel::run(shared, in, n, {each, more}, init, has_init, out, ticket, aggregates);                                       \
    })
RANGES(REDUCE_KERNEL)
