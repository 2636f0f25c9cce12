// The kernels of compaction, one for each range of lengths: the translation unit defines `Choice`, `First`, `Second`, `WAYS`, and
// `RANGES` with the warps of a block, the rows of a warp and the spread of each. All are one launch whatever n.
#pragma once
#include "compact.cuh"

#define COMPACT_KERNEL(RANGE, WARPS, ROWS, SPREAD)                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPS * WARP)                                                                   \
        compact_##RANGE(CompactCall call, Choice::Parameters parameters, First one, Second two) {                                \
        compact_tiles<WARPS, ROWS, SPREAD, WAYS>(call, Choice(call, parameters), one, two);                                      \
    }
RANGES(COMPACT_KERNEL)
