// The default kernels of scan (`Strategy::PrefixServer`), which a build can embed: one for each
// range of lengths. The unit defines `Operator`, and `RANGES` with the shape and the prefix spread
// of each range. A scan is one launch whatever its length: one block serves the prefixes, the
// others scan a tile each, or with a length in memory one after the other. A single tile needs neither server nor memory.
#pragma once
#include "scan/scan.cuh"

constexpr bool by_states(FoldedStates) { return true; }
template <class Pairs> constexpr bool by_states(Pairs) { return false; }

// Blocks that the registers of a multiprocessor must have room for: as many as its shared memory
// holds, if that leaves a thread 64 registers.
//
// Without this bound the compiler takes up to 72 registers for some elements of 4 and 8 bytes, so
// one block of eight does not fit; and in shorter tiles it spills, for blocks that never become
// resident.
template <u32 WARPS, u32 VECTORS> constexpr u32 resident() {
#if __CUDA_ARCH__ >= 900
    constexpr u32 FITTING = (227 << 10) / (WARPS * WARP * VECTORS * sizeof(Vector) + (2 << 10));
    constexpr bool IS_PLAIN = sizeof(Element) == sizeof(Carry) && (sizeof(Carry) == 4 || sizeof(Carry) == 8);
    constexpr bool HAS_REGISTERS = FITTING * WARPS * WARP * 64 <= 65536;
    constexpr u32 MOST = 65536 / (WARPS * WARP * 64); // without this bound a block that takes several tiles has more registers
    if (IS_PLAIN && !by_states(Operator::Pairs())) return HAS_REGISTERS ? FITTING : SEVERAL_TILES ? MOST : 1;
#endif
    return 0; // the compiler's own choice
}

// The prefix server of a launch that may begin before the launch before it has ended. Until then the
// block only prefetches into L2, where later writes reach what was prefetched.
template <class Operator, u32 SERVERS, u32 SPREAD> struct DependentServer : PrefixServer<Operator, SERVERS, SPREAD> {
    typedef PrefixServer<Operator, SERVERS, SPREAD> Base;
    using Base::Base;
    __device__ bool enter(typename Base::Shared &shared, Maybe<typename Base::Carry> init, u32 &tile) {
        wait_for_launch_before();
        // If all blocks run from the beginning the next launch begins as they end, and not as they begin.
        if (!has_fewer_blocks(this->tiles)) launch_next();
        return Base::enter(shared, init, tile);
    }
};

// A number that lies in memory may be a result of the launch before.
#ifdef LENGTH_ON_DEVICE
#define AWAIT_LENGTH() wait_for_launch_before();
#else
#define AWAIT_LENGTH()
#endif

#define SCAN_KERNEL(RANGE, WARPS, VECTORS, SPREAD)                                                                               \
    DEFINE_KERNEL(scan_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<WARPS, VECTORS>())           \
        scan_##RANGE(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles AND_LENGTH) {              \
        typedef DependentServer<Operator, WARPS, SPREAD> Join;                                                                   \
        AWAIT_LENGTH()                                                                                                           \
        CUT_TO_LENGTH(n, tiles, (ScanPipeline<Operator, Shape<WARPS, VECTORS>, Join>::TILE), )                                   \
        each_tile(n, tiles, [&](u64 n, u32 tiles, bool is_first) {                                                               \
            return scan_tiles<Operator, Shape<WARPS, VECTORS>>(in, out, n, init, flags, Join(memory, tiles, is_first));          \
        });                                                                                                                      \
    })
RANGES(SCAN_KERNEL)
