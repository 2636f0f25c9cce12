// The kernels of reduce of runs, one for each range of lengths, as in segmented/scan_kernels.cuh.
#pragma once
#include "segmented/runs.cuh"

#define RUN_REDUCE_KERNEL(RANGE, WARPS, VECTORS, SPREAD)                                                                         \
    DEFINE_KERNEL(run_reduce_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, fitting<Carry, WARPS, 32>())    \
        run_reduce_##RANGE(Element *in, u64 n, Carry init, u32 has_init, const Cut cut, Element *out, void *keys, u64 capacity,  \
                           u64 *count, void *memory, u32 tiles AND_LENGTH) {                                                     \
        typedef PrefixServer<Counted<Operator>, WARPS, SPREAD> Join;                                                             \
        CUT_TO_LENGTH(n, tiles, (RunReduceWalk<Operator, Shape<WARPS, VECTORS>>::TILE), *count = 0)                              \
        run_reduce_tiles<Operator, Shape<WARPS, VECTORS>>(in, n, {init, bool(has_init)}, cut, {out, keys, capacity, count},      \
                                                          Join(memory, tiles));                                                  \
    })
RANGES(RUN_REDUCE_KERNEL)
