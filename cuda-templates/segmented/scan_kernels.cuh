// The kernels of scan by segment: one for each range of lengths, as in scan/kernels.cuh, the search
// before them, that of short inputs, and the one whose lanes, warps or blocks take whole segments.
#pragma once
#include "segmented/each_scan.cuh"
#include "segmented/scan.cuh"
#include "segmented/short.cuh"

// Warps that the registers of a multiprocessor must have room for. A kernel whose blocks take several tiles would take
// more registers, so the number of its blocks is rounded up.
template <u32 WARPS> constexpr u32 resident_warps() { return SEVERAL_TILES ? 28 + WARPS - 1 : 28; }

#define SEGMENTED_SCAN_KERNEL(RANGE, WARPS, VECTORS, SPREAD)                                                                     \
    DEFINE_KERNEL(segmented_scan_##RANGE, extern "C" __global__ void                                                             \
        __launch_bounds__(WARPS * WARP, fitting<Carry, WARPS, resident_warps<WARPS>()>())                                        \
        segmented_scan_##RANGE(Element *in, Element *out, u64 n, Carry init, u32 flags, const Cut cut, const u64 *tile_offsets,  \
                               void *memory, u32 tiles AND_LENGTH) {                                                             \
        typedef PrefixServer<Headed<Operator>, WARPS, SPREAD> Join;                                                              \
        CUT_TO_LENGTH(n, tiles, (SegmentedScanWalk<Operator, Shape<WARPS, VECTORS>, RANGE == 0>::TILE), )                        \
        each_tile(n, tiles, [&](u64 n, u32 tiles, bool is_first) {                                                               \
            return segmented_scan_tiles<Operator, Shape<WARPS, VECTORS>, RANGE == 0>(                                            \
                in, out, n, init, flags, cut, tile_offsets, Join(memory, tiles, is_first));                                      \
        });                                                                                                                      \
    })
RANGES(SEGMENTED_SCAN_KERNEL)

#if HAS_KERNEL(segmented_find)
extern "C" __global__ void __launch_bounds__(FIND_THREADS)
segmented_find(const Cut cut, u64 n, u32 flags, u32 items, u32 tiles, u64 *offsets AND_LENGTH) {
    TAKE_LENGTH(n)
    AT_MOST_LENGTH(tiles, (n + items - 1) / items)
    find_tiles(cut, n, flags, items, tiles, offsets);
}
#endif

#if HAS_KERNEL(segmented_scan_short)
extern "C" __global__ void __launch_bounds__(SHORT_INPUT_THREADS)
segmented_scan_short(Element *in, Element *out, u64 n, Carry init, u32 flags, const Cut cut AND_LENGTH) {
    TAKE_LENGTH(n)
    if (IS_PAST_LENGTH(blockIdx.x, (ShortSegments<Operator, SHORT_ITEMS>::TILE), n)) return;
    short_scan<Operator, SHORT_ITEMS>(in, out, n, init, flags, cut);
}
#endif

// Without the bound the compiler takes registers that long segments would like, and short ones pay: 64 in place of 76.
#if HAS_KERNEL(segmented_scan_each)
extern "C" __global__ void __launch_bounds__(EACH_WARPS * WARP, fitting<Carry, EACH_WARPS, 32, 4>())
segmented_scan_each(Element *in, Element *out, u64 n, const EachShares by, Carry init, u32 flags, const Cut cut,
                    void *memory AND_LENGTH) {
    TAKE_LENGTH(n)
    typedef EachScan<Operator, EACH_CHUNK> Kernel;
    __shared__ typename Kernel::Shared shared;
    Kernel(shared, in, out, n, cut, by, {init, bool(flags & INIT)}, flags & EXCLUSIVE).run(memory);
}
#endif
