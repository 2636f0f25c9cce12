// A bitonic sort (Batcher 1968) of keys in registers, EACH of a thread side by side, one or four: which of them meet is known beforehand, whatever they are.
#pragma once
#include "sort/radix.cuh"

template <u32 EACH, class Bits> struct Bitonic {
    static_assert(EACH == 1 || EACH == 4, "networks of so many");
    Bits (&key)[EACH];

    // Those of a warp.
    __device__ void sort_warp() {
        if constexpr (EACH == 4) {
            order_two(0, 1);
            order_two(2, 3);
            order_two(0, 3);
            order_two(1, 2);
            order_two(0, 1);
            order_two(2, 3);
        }
#pragma unroll
        for (u32 run = 2; run <= WARP; run *= 2) {
            meet_lane(run / 2, true);
            merge_lanes(run / 4);
        }
    }

    // Those of a block, by way of `exchange`, which has room for all.
    template <u32 THREADS> __device__ void sort_block(Bits *exchange) {
        sort_warp();
#pragma unroll 1
        for (u32 run = 2 * WARP; run <= THREADS; run *= 2) {
            meet_thread<THREADS>(exchange, run / 2, true);
#pragma unroll 1
            for (u32 apart = run / 4; apart >= WARP; apart /= 2) meet_thread<THREADS>(exchange, apart, false);
            merge_lanes(WARP / 2);
        }
    }

  private:
    __device__ void order_two(u32 a, u32 b) {
        Bits low = min(key[a], key[b]), high = max(key[a], key[b]);
        key[a] = low;
        key[b] = high;
    }
    // Two runs in order, of `apart` threads each, become one in two steps: the first half of all meets the other from the end on, so that no key of it comes
    // after any of the other, and then each half is put in order. Here either, with the keys of the thread that it meets.
    __device__ void meet(const Bits (&met)[EACH], u32 apart, bool from_end) {
        bool is_first = (threadIdx.x & apart) == 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            Bits other = from_end ? met[EACH - 1 - e] : met[e];
            key[e] = is_first ? min(key[e], other) : max(key[e], other);
        }
    }
    static __device__ u32 way(u32 apart, bool from_end) { return from_end ? 2 * apart - 1 : apart; }
    __device__ void meet_lane(u32 apart, bool from_end) {
        Bits met[EACH];
#pragma unroll
        for (u32 e = 0; e < EACH; e++) met[e] = __shfl_xor_sync(ALL_LANES, key[e], way(apart, from_end));
        meet(met, apart, from_end);
    }
    template <u32 THREADS> __device__ void meet_thread(Bits *exchange, u32 apart, bool from_end) {
        Bits met[EACH];
        __syncthreads();
#pragma unroll
        for (u32 e = 0; e < EACH; e++) exchange[e * THREADS + threadIdx.x] = key[e];
        __syncthreads();
#pragma unroll
        for (u32 e = 0; e < EACH; e++) met[e] = exchange[e * THREADS + (threadIdx.x ^ way(apart, from_end))];
        meet(met, apart, from_end);
    }
    __device__ void merge_lanes(u32 first) {
#pragma unroll
        for (u32 apart = first; apart > 0; apart /= 2) meet_lane(apart, false);
        if constexpr (EACH == 4) {
            order_two(0, 2);
            order_two(1, 3);
            order_two(0, 1);
            order_two(2, 3);
        }
    }
};
