// The kernels of compaction, one for each range of lengths: the translation unit defines `Choice`, `First`, `Second`, `WAYS`, and
// `RANGES` with the warps of a block, the rows of a warp and the spread of each. All are one launch whatever n.
#pragma once
#include "compact.cuh"

// The registers shall leave room for so many warps. Left alone, the compiler takes 40 of them for one unit and 56 for another, which
// leaves a quarter of the blocks out.
#if __CUDA_ARCH__ >= 800
constexpr u32 WIDEST = largest(largest(Choice::STAGED, First::BYTES), Second::BYTES);
constexpr u32 RESIDENT_WARPS = WAYS == 1 && WIDEST < 16 ? 48 : 40;
#else // a machine of 32 warps
constexpr u32 RESIDENT_WARPS = 32;
#endif

#define COMPACT_KERNEL(RANGE, WARPS, ROWS, SPREAD)                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPS * WARP, RESIDENT_WARPS / WARPS)                                           \
        compact_##RANGE(CompactCall call, Choice::Parameters parameters, First one, Second two) {                                \
        compact_tiles<WARPS, ROWS, SPREAD, WAYS>(call, Choice(call, parameters), one, two);                                      \
    }
RANGES(COMPACT_KERNEL)
