// Payloads that are not the words of 4 or 8 bytes that sorts move with the keys. Shorter items become words before the sort
// and items again after it. Longer ones are gathered after it, by the source indices that it has moved in their place.
#pragma once
#include "core/types.cuh"
#include "sort/contract.cuh"

constexpr u32 AT_ONCE = PAYLOAD_ITEMS / WARP; // items of a lane, a warp's width apart

__device__ inline u64 word_at(const PayloadCall &call, u64 i) {
    return call.word_bytes == 4 ? ((const u32 *)call.words)[i] : ((const u64 *)call.words)[i];
}

// By one warp: makes words of the items from `first` on, which it reads in units of this type.
template <class Unit> __device__ inline void to_words(const PayloadCall &call, u64 first, u64 n) {
    const u32 units = call.item_bytes / sizeof(Unit);
    first += threadIdx.x % WARP;
    const Unit *items = (const Unit *)call.items + first * units;
    u64 word[AT_ONCE] = {};
    for (u32 u = 0; u < units; u++) {
        Unit unit[AT_ONCE] = {};
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++)
            if (first + k * WARP < n) unit[k] = items[k * WARP * units + u];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) word[k] |= u64(unit[k]) << 8 * sizeof(Unit) * u;
    }
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; k++) {
        u64 i = first + k * WARP;
        if (i >= n) continue;
        if (call.word_bytes == 4) ((u32 *)call.words)[i] = u32(word[k]);
        else ((u64 *)call.words)[i] = word[k];
    }
}

// By one warp: the items of the words from `first` on, in units of this type.
template <class Unit> __device__ inline void from_words(const PayloadCall &call, u64 first, u64 n) {
    const u32 units = call.item_bytes / sizeof(Unit);
    first += threadIdx.x % WARP;
    Unit *output = (Unit *)call.output + first * units;
    u64 word[AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; k++) word[k] = first + k * WARP < n ? word_at(call, first + k * WARP) : 0;
    for (u32 u = 0; u < units; u++) {
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++)
            if (first + k * WARP < n) output[k * WARP * units + u] = Unit(word[k] >> 8 * sizeof(Unit) * u);
    }
}

// By one warp: gathers items from `first` on, in units of this type. Neighbouring lanes take neighbouring units, so that a
// warp reads each line of memory once.
template <class Unit> __device__ inline void gather(const PayloadCall &call, u64 first, u64 n) {
    const u32 units = call.item_bytes / sizeof(Unit), lane = threadIdx.x % WARP;
    const Unit *items = (const Unit *)call.items;
    Unit *output = (Unit *)call.output + first * units;
    u64 source[AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; k++) {
        u64 i = first + k * WARP + lane;
        source[k] = i < n ? word_at(call, i) : 0;
    }
    for (u32 at = lane; at < units * WARP; at += WARP) {
        u32 item = at / units, unit = at % units;
        Unit moved[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            u64 from = shuffle(source[k], item);
            if (first + k * WARP + item < n) moved[k] = items[from * units + unit];
        }
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++)
            if (first + k * WARP + item < n) output[k * WARP * units + at] = moved[k];
    }
}

// Calls `move(first, n)` for each PAYLOAD_ITEMS of the n items that a warp moves, `first` the index of the first one.
// Waits for the launch before.
template <class Move> __device__ inline void each_part(const PayloadCall &call, const Move &move) {
    constexpr u32 WARPS = PAYLOAD_THREADS / WARP;
    wait_for_launch_before();
    u64 n = call.length == nullptr ? call.n : min(call.n, *call.length), all = u64(gridDim.x) * WARPS * PAYLOAD_ITEMS;
    for (u64 first = (u64(blockIdx.x) * WARPS + threadIdx.x / WARP) * PAYLOAD_ITEMS; first < n; first += all)
        move(first, n);
}

// Items that become words have units of 1, 2 or 4 bytes.
#if HAS_KERNEL(payload_to_words)
extern "C" __global__ void __launch_bounds__(PAYLOAD_THREADS) payload_to_words(PayloadCall call) {
    each_part(call, [&](u64 first, u64 n) {
        if (call.unit == 1) to_words<u8>(call, first, n);
        else if (call.unit == 2) to_words<u16>(call, first, n);
        else to_words<u32>(call, first, n);
    });
}
#endif
#if HAS_KERNEL(payload_from_words)
extern "C" __global__ void __launch_bounds__(PAYLOAD_THREADS) payload_from_words(PayloadCall call) {
    each_part(call, [&](u64 first, u64 n) {
        if (call.unit == 1) from_words<u8>(call, first, n);
        else if (call.unit == 2) from_words<u16>(call, first, n);
        else from_words<u32>(call, first, n);
    });
}
#endif
#if HAS_KERNEL(payload_gather)
extern "C" __global__ void __launch_bounds__(PAYLOAD_THREADS) payload_gather(PayloadCall call) {
    each_part(call, [&](u64 first, u64 n) {
        if (call.unit == 1) gather<u8>(call, first, n);
        else if (call.unit == 2) gather<u16>(call, first, n);
        else if (call.unit == 4) gather<u32>(call, first, n);
        else if (call.unit == 8) gather<u64>(call, first, n);
        else gather<Vector>(call, first, n);
    });
}
#endif
