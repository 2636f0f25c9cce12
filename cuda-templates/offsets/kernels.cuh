// The kernels of offsets, one for each range of lengths. The unit defines `Size`, `Offset`, and
// `RANGES` with the warps of a block, the vectors of a lane or rows of a warp, and the prefix
// spread of each range. A call is one launch whatever its length.
#pragma once
#include "offsets/offsets.cuh"

#define OFFSETS_KERNEL(RANGE, WARPS, EACH, SPREAD)                                                                               \
    DEFINE_KERNEL(offsets_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP)                                    \
        offsets_##RANGE(Size *sizes, Offset *starts, u64 n, u64 padding, u64 *sum, u32 with_end, void *memory, u32 tiles) {      \
        offset_tiles<Size, Offset, WARPS, EACH, SPREAD>(sizes, starts, n, padding, sum, with_end, memory, tiles);                \
    })
RANGES(OFFSETS_KERNEL)
