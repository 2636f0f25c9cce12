// The kernels of compaction and partition, one for each range of lengths. The unit defines
// `Choice`, `First` and `Second`, the two columns, `PARTS`, the number of parts, and `RANGES` with
// the warps of a block, the rows of a warp and the prefix spread of each range. A call is one
// launch whatever its length.
#pragma once
#include "compact/one_buffer.cuh"

// Blocks that the registers of a multiprocessor must have room for, as RESIDENT warps. Without this
// bound the compiler takes 40 registers for one unit and 56 for another, and a quarter of the
// blocks does not fit. A partition also holds the lane's items in registers.
constexpr u32 WIDEST = largest(largest(Choice::STAGED, First::BYTES), Second::BYTES);
template <u32 WARPS, u32 ROWS> constexpr u32 resident_blocks() {
#if __CUDA_ARCH__ >= 800
    constexpr u32 ROW_WORDS = (ROWS * WIDEST + 3) / 4, FEWER = 40;
    constexpr u32 FIT = PARTS == 2 ? 24 : 23; // words beside the ranks of the parts: three parts of 24 spill
    constexpr u32 RESIDENT = PARTS == 1 ? (WIDEST < 16 ? 48 : FEWER) : ROW_WORDS <= FIT ? FEWER : 2048 / (ROW_WORDS + 32);
#else // compute capability 7.5 has 32 warps a multiprocessor
    constexpr u32 RESIDENT = 32;
#endif
    return largest(RESIDENT / WARPS, 1);
}

// The counts of a call without items.
__device__ inline void without_items(const CompactCall &call) {
    for (u32 k = 0; k < (PARTS == 3 ? 2 : 1); k++)
        if (!(call.flags & APPEND)) call.count[k] = 0;
}

#define COMPACT_KERNEL(RANGE, WARPS, ROWS, SPREAD)                                                                               \
    DEFINE_KERNEL(compact_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident_blocks<WARPS, ROWS>())    \
        compact_##RANGE(CompactCall call, Choice::Parameters parameters, First first, Second second AND_LENGTH) {                \
        CUT_TO_LENGTH(call.n, call.tiles, WARPS * ROWS * WARP, without_items(call))                                              \
        compact_tiles<WARPS, ROWS, SPREAD, PARTS>(call, Choice(call, parameters), first, second);                                \
    })
RANGES(COMPACT_KERNEL)

// Partition into one buffer: by a cooperative launch (`COOPERATIVE_RANGES`, a kernel for each range),
// or by two launches if the GPU does not hold all tiles at once.
#ifdef COOPERATIVE_RANGES
#define COOPERATIVE_KERNEL(RANGE, WARPS, ROWS)                                                                                   \
    DEFINE_KERNEL(partition_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident_blocks<WARPS, ROWS>())  \
        partition_##RANGE(CompactCall call, Choice::Parameters parameters, First column AND_LENGTH) {                            \
        CUT_TO_LENGTH(call.n, call.tiles, WARPS * ROWS * WARP, without_items(call))                                              \
        partition_cooperative<WARPS, ROWS, PARTS>(call, Choice(call, parameters), column);                                       \
    })
COOPERATIVE_RANGES(COOPERATIVE_KERNEL)

typedef Counts<PARTS>::Carry CountsPrefix;
constexpr u32 MOVE_TILE = MOVE_WARPS * MOVE_ROWS * WARP;

#if HAS_KERNEL(partition_count)
extern "C" __global__ void __launch_bounds__(COUNT_WARPS * WARP, 32 / COUNT_WARPS)
    partition_count(CompactCall call, Choice::Parameters parameters, CountsPrefix *prefixes AND_LENGTH) {
    CUT_TO_LENGTH(call.n, call.tiles, COUNT_WARPS * COUNT_EACH * MOVE_TILE, without_items(call))
    count_tiles<COUNT_WARPS, COUNT_EACH, MOVE_TILE, PARTS>(call, Choice(call, parameters), prefixes);
}
#endif

#if HAS_KERNEL(partition_move)
extern "C" __global__ void __launch_bounds__(MOVE_WARPS * WARP, resident_blocks<MOVE_WARPS, MOVE_ROWS>())
    partition_move(CompactCall call, Choice::Parameters parameters, First column, const CountsPrefix *prefixes AND_LENGTH) {
    CUT_TO_LENGTH_FROM_END(call.n, MOVE_TILE)
    move_tiles<MOVE_WARPS, MOVE_ROWS, PARTS>(call, Choice(call, parameters), column, prefixes);
}
#endif
#endif
