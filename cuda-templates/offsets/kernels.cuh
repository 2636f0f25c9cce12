// The kernels of offsets, one for each range of lengths. The unit defines `Size`, `Offset`, and
// `RANGES` with the warps of a block, the vectors of a lane or rows of a warp, and the prefix
// spread of each range. A call is one launch whatever its length.
#pragma once
#include "offsets/offsets.cuh"

// The total of no sizes.
__device__ inline void without_sizes(Offset *starts, u64 *sum, bool with_end) {
    *sum = 0;
    if (with_end) starts[0] = 0;
}

#define OFFSETS_KERNEL(RANGE, WARPS, EACH, SPREAD)                                                                               \
    DEFINE_KERNEL(offsets_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP)                                    \
        offsets_##RANGE(Size *sizes, Offset *starts, u64 n, u64 padding, u64 *sum, u32 with_end, void *memory,                   \
                        u32 tiles AND_LENGTH) {                                                                                  \
        CUT_TO_LENGTH(n, tiles, (offsets_tile<Size, Offset, WARPS, EACH>()), without_sizes(starts, sum, with_end))               \
        offset_tiles<Size, Offset, WARPS, EACH, SPREAD>(sizes, starts, n, padding, sum, with_end, memory, tiles);                \
    })
RANGES(OFFSETS_KERNEL)
