// Sort by segment: the head bits of all items, and the long segments found by them.
//
// A segment is *long* if it has more than CHUNK items. A chunk is CHUNK adjacent positions.
#pragma once
#include "segmented/heads.cuh"
#include "segmented_sort/contract.cuh" // shared with the host: src/cuda/segmented_sort/contract.rs

// Writes the head bits of CHUNKS chunks: bit j of word w is set if a segment begins at item
// 32 w + j, or if that is item n. A chunk also gets its first and last head, of 16 bits each, or
// NO_HEADS.
constexpr u32 NO_HEADS = 0xffff;
template <u32 CHUNK, u32 CHUNKS, u32 THREADS>
__device__ inline void write_heads(const SegmentSortCall &call, const Cut &cut) {
    constexpr u32 ITEMS = CHUNK * CHUNKS, WORDS = CHUNK / WARP, IN_LANE = WORDS / WARP;
    typedef Heads<ITEMS, 8, THREADS / WARP> BlockHeads;
    static_assert(sizeof(BlockHeads) == ITEMS / 8, "the bits of all items in order");
    __shared__ BlockHeads heads;
    __shared__ u64 next; // the first offset in these chunks or behind them
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    u64 begin = u64(blockIdx.x) * ITEMS;
    if (has_offsets(cut)) {
        if (warp == 0) {
            u64 before = offsets_before(cut, begin, call.n, lane);
            if (lane == 0) next = before;
        }
        __syncthreads();
    }
    heads.fill(cut, i64(begin), next, call.n, warp, lane);
    __syncthreads();
    for (u32 chunk = warp; chunk < CHUNKS; chunk += THREADS / WARP) {
        u64 first_item = begin + chunk * CHUNK;
        if (first_item > call.n) break;
        u32 first = NO_HEADS, last = 0;
#pragma unroll
        for (u32 i = 0; i < IN_LANE; i++) {
            u32 w = i * WARP + lane, word = ((const u32 *)heads.flags)[chunk * WORDS + w];
            u64 left = call.n + 1 - first_item; // items with a bit
            if (w * WARP >= left) word = 0;
            else if (left - w * WARP < WARP) word &= (1u << u32(left - w * WARP)) - 1;
            if (word != 0) {
                first = min(first, w * WARP + __ffs(word) - 1);
                last = w * WARP + (WARP - 1 - __clz(word));
            }
            u64 to = first_item / WARP + w;
            call.heads[to] = word;
            if (call.may_be_long) call.moved[0][to] = call.moved[1][to] = 0;
        }
        first = __reduce_min_sync(ALL_LANES, first);
        last = __reduce_max_sync(ALL_LANES, last);
        if (lane == 0) call.chunks[first_item / CHUNK] = first | last << 16;
    }
}
