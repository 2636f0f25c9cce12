// Sort by segment: the head bits of all items, and the long segments found by them.
//
// A segment of up to SMALL items is *small*, one of up to SHORT items *short*, and one of up to MEDIUM items
// *medium* if the device has the shared memory for it; any other is *long*. A chunk is CHUNK adjacent items.
// Only its last segment may be medium or long, as SHORT is not less.
#pragma once
#include "segmented/heads.cuh"
#include "sort/radix.cuh"
#include "segmented_sort/contract.cuh" // shared with the host: src/cuda/segmented_sort/contract.rs

__device__ inline u32 warp_min(u32 x) { return ~warp_max(~x); }
__device__ inline u64 warp_min(u64 x) { return ~warp_max(~x); }

// The number of bits up to the highest one set.
__device__ inline u32 bit_width(u32 x) { return 32 - __clz(int(x)); }
__device__ inline u32 bit_width(u64 x) { return 64 - __clzll(i64(x)); }

// What is known of a chunk, in a word: its first head, then a bit, then its last head, then a bit.
constexpr u32 NO_HEADS = 0x3fff; // the first head, if there is none
constexpr u32 LISTED = 1u << 14; // whether the chunk is in the list of chunks with short segments; the next bit: medium
constexpr u32 HAS_SHORT = 1u << 31; // whether a segment of more than SMALL items begins and ends in the chunk
__device__ inline u32 first_head(u32 chunk) { return chunk & NO_HEADS; }
__device__ inline u32 last_head(u32 chunk) { return chunk >> 16 & NO_HEADS; }

// Writes the head bits of CHUNKS chunks of `n` items: bit j of word w is set if a segment begins at item
// 32 w + j, or if that is item n.
template <u32 CHUNK, u32 CHUNKS, u32 SMALL, u32 THREADS>
__device__ inline void write_heads(const SegmentSortCall &call, const Cut &cut, u64 n) {
    constexpr u32 ITEMS = CHUNK * CHUNKS, WORDS = CHUNK / WARP, IN_LANE = WORDS / WARP;
    typedef Heads<ITEMS, 8, THREADS / WARP> BlockHeads;
    static_assert(sizeof(BlockHeads) == ITEMS / 8, "the bits of all items in order");
    static_assert(CHUNK <= NO_HEADS, "a head in 14 bits");
    __shared__ BlockHeads heads;
    __shared__ u64 next; // the first offset in these chunks or behind them
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    u64 begin = u64(blockIdx.x) * ITEMS;
    if (has_offsets(cut)) {
        if (warp == 0) {
            u64 before = offsets_before(cut, begin, n, lane);
            if (lane == 0) next = before;
        }
        __syncthreads();
    }
    heads.fill(cut, i64(begin), next, n, warp, lane);
    __syncthreads();
    for (u32 chunk = warp; chunk < CHUNKS; chunk += THREADS / WARP) {
        u64 first_item = begin + chunk * CHUNK;
        if (first_item > n) break;
        u32 first = NO_HEADS, last = 0, words[IN_LANE];
        u64 left = n + 1 - first_item; // items with a bit
#pragma unroll
        for (u32 i = 0; i < IN_LANE; i++) {
            u32 w = i * WARP + lane, word = ((const u32 *)heads.flags)[chunk * WORDS + w];
            if (w * WARP >= left) word = 0;
            else if (left - w * WARP < WARP) word &= (1u << u32(left - w * WARP)) - 1;
            if (word != 0) {
                first = min(first, w * WARP + __ffs(word) - 1);
                last = w * WARP + (WARP - 1 - __clz(word));
            }
            words[i] = word;
            u64 to = first_item / WARP + w;
            call.heads[to] = word;
            if (call.may_be_long) call.moved[0][to] = call.moved[1][to] = 0;
        }
        first = warp_min(first);
        last = warp_max(last);
        bool has_short = false;
        u32 behind = NO_HEADS; // the first head behind a row of words
#pragma unroll
        for (u32 i = IN_LANE; i-- > 0;) {
            u32 at = (i * WARP + lane) * WARP, head = at + __ffs(words[i]) - 1;
            u32 used = __ballot_sync(ALL_LANES, words[i] != 0), above = used & ~((2u << lane) - 1);
            u32 end = __shfl_sync(ALL_LANES, head, __ffs(above) - 1);
            if (above == 0) end = behind;
            has_short |= words[i] != 0 && end != NO_HEADS && end - (at + (WARP - 1 - __clz(words[i]))) > SMALL;
            u32 row = __shfl_sync(ALL_LANES, head, __ffs(used) - 1);
            if (used != 0) behind = row;
        }
        has_short = __any_sync(ALL_LANES, has_short);
        if (lane == 0) call.chunks[first_item / CHUNK] = first | last << 16 | (has_short ? HAS_SHORT : 0);
    }
}
