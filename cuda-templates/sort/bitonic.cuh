// A bitonic sort (Batcher 1968) of keys in registers, EACH adjacent keys a thread: one or four. Its
// comparisons do not depend on the keys.
//
// The bucket sort sorts long runs with it, a warp each (sort/bucket_sort.cuh). Fixed-capacity
// buckets sort the sample of their splitters with it (sort/fixed_splitters.cuh).
#pragma once
#include "sort/radix.cuh"

template <u32 EACH, class Bits> struct Bitonic {
    static_assert(EACH == 1 || EACH == 4, "networks of so many");
    Bits (&key)[EACH];

    // Sorts the keys of a warp.
    __device__ void sort_warp() {
        if constexpr (EACH == 4) {
            compare_exchange(0, 1);
            compare_exchange(2, 3);
            compare_exchange(0, 3);
            compare_exchange(1, 2);
            compare_exchange(0, 1);
            compare_exchange(2, 3);
        }
#pragma unroll
        for (u32 run = 2; run <= WARP; run *= 2) {
            exchange_lanes(run / 2, true);
            merge_lanes(run / 4);
        }
    }

    // Sorts the keys of a block through `exchange`, which has room for all of them.
    template <u32 THREADS> __device__ void sort_block(Bits *exchange) {
        sort_warp();
#pragma unroll 1
        for (u32 run = 2 * WARP; run <= THREADS; run *= 2) {
            exchange_threads<THREADS>(exchange, run / 2, true);
#pragma unroll 1
            for (u32 distance = run / 4; distance >= WARP; distance /= 2)
                exchange_threads<THREADS>(exchange, distance, false);
            merge_lanes(WARP / 2);
        }
    }

  private:
    __device__ void compare_exchange(u32 a, u32 b) {
        Bits low = min(key[a], key[b]), high = max(key[a], key[b]);
        key[a] = low;
        key[b] = high;
    }
    // Two sorted runs of `distance` threads each are merged in two steps. First the lower run is
    // compared with the upper one reversed, so that no key of the lower half comes after a key of
    // the upper half. Then each half is sorted. This function is the compare-exchange of either
    // step, with the keys of the partner thread.
    __device__ void take(const Bits (&partner)[EACH], u32 distance, bool reversed) {
        bool is_first = (threadIdx.x & distance) == 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            Bits other = reversed ? partner[EACH - 1 - e] : partner[e];
            key[e] = is_first ? min(key[e], other) : max(key[e], other);
        }
    }
    static __device__ u32 partner_mask(u32 distance, bool reversed) {
        return reversed ? 2 * distance - 1 : distance;
    }
    __device__ void exchange_lanes(u32 distance, bool reversed) {
        Bits partner[EACH];
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            partner[e] = __shfl_xor_sync(ALL_LANES, key[e], partner_mask(distance, reversed));
        take(partner, distance, reversed);
    }
    template <u32 THREADS>
    __device__ void exchange_threads(Bits *exchange, u32 distance, bool reversed) {
        Bits partner[EACH];
        __syncthreads();
#pragma unroll
        for (u32 e = 0; e < EACH; e++) exchange[e * THREADS + threadIdx.x] = key[e];
        __syncthreads();
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            partner[e] = exchange[e * THREADS + (threadIdx.x ^ partner_mask(distance, reversed))];
        take(partner, distance, reversed);
    }
    __device__ void merge_lanes(u32 first) {
#pragma unroll
        for (u32 distance = first; distance > 0; distance /= 2) exchange_lanes(distance, false);
        if constexpr (EACH == 4) {
            compare_exchange(0, 2);
            compare_exchange(1, 3);
            compare_exchange(0, 1);
            compare_exchange(2, 3);
        }
    }
};
