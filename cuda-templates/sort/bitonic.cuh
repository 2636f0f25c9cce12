// A bitonic sort (Batcher 1968) of items in registers, EACH adjacent items a thread. Its comparisons
// do not depend on the items.
//
// The bucket sort sorts long runs with it, a warp each (sort/bucket_sort.cuh). Sort by segment
// sorts small segments with it, some lanes each (segmented_sort/small.cuh), and the items of a
// thread (segmented_sort/short.cuh).
#pragma once
#include "sort/radix.cuh"

template <class Item> __device__ inline Item lesser(Item a, Item b) { return b < a ? b : a; }
template <class Item> __device__ inline Item greater(Item a, Item b) { return a < b ? b : a; }

template <u32 EACH, class Item> struct Bitonic {
    static_assert((EACH & (EACH - 1)) == 0, "a power of two");
    Item (&item)[EACH];

    // Sorts the items of each group of `lanes` adjacent lanes. This lane is number `lane` of its
    // group. No group of the warp has more than 2^levels lanes.
    __device__ __forceinline__ void sort_lanes(u32 lane, u32 lanes, u32 levels) {
        sort_thread();
#pragma unroll
        for (u32 l = 0; (1u << l) < WARP && l < levels; l++) {
            exchange_group(lane, lanes, (2u << l) - 1, true);
#pragma unroll
            for (u32 half = (1u << l) / 2; half > 0; half /= 2) exchange_group(lane, lanes, half, false);
            merge_thread();
        }
    }

    // Sorts the items of each thread: Batcher's odd-even merge sort.
    __device__ __forceinline__ void sort_thread() {
#pragma unroll
        for (u32 run = 1; run < EACH; run *= 2)
#pragma unroll
            for (u32 distance = run; distance > 0; distance /= 2)
#pragma unroll
                for (u32 e = distance % run; e + distance < EACH; e++)
                    if ((e - distance % run) / distance % 2 == 0 && e / (2 * run) == (e + distance) / (2 * run))
                        compare_exchange(e, e + distance);
    }
    // Sorts the items of each thread, which are a bitonic sequence.
    __device__ __forceinline__ void merge_thread() {
#pragma unroll
        for (u32 distance = EACH / 2; distance > 0; distance /= 2)
#pragma unroll
            for (u32 e = 0; e < EACH; e++)
                if ((e & distance) == 0) compare_exchange(e, e + distance);
    }

  private:
    __device__ __forceinline__ void compare_exchange(u32 a, u32 b) {
        Item low = lesser(item[a], item[b]);
        item[b] = greater(item[a], item[b]);
        item[a] = low;
    }
    // Two sorted runs of `distance` threads each are merged in two steps. First the lower run is
    // compared with the upper one reversed, so that no item of the lower half comes after an item of
    // the upper half. Then each half is sorted. This function is the compare-exchange of either
    // step, with the items of the partner thread.
    __device__ __forceinline__ void take(const Item (&partner)[EACH], bool is_first) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (partner[e] < item[e] == is_first) item[e] = partner[e];
    }
    // The same in a group that need not be a power of two: a lane without a partner keeps its items,
    // as if the partner had greater ones.
    __device__ __forceinline__ void exchange_group(u32 lane, u32 lanes, u32 mask, bool reversed) {
        Item partner[EACH];
        u32 other = lane ^ mask, first = lane_id() - lane;
        bool has_partner = other < lanes;
        if (!has_partner) other = lane;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) partner[e] = shuffle(item[reversed ? EACH - 1 - e : e], first + other);
        // Its own items, in order, change nothing.
        if (!reversed || has_partner) take(partner, lane < other);
    }
};
