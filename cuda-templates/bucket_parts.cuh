// Radix sort by buckets: a bucket of more keys than a block holds, which one of them or a few have filled.
#pragma once
#include "sort.cuh"

// Of a bucket, what is still to be sorted: parts of it, the next one last.
struct PartsLeft {
    struct Part {
        u32 first, count;
    };
    static constexpr u32 MOST = 32; // the shorter one of two comes next: the k-th has at most one in 2^k keys
    Part part[MOST];
    __device__ void add(u32 &parts, Part last) {
        if (last.count == 0) return;
        if (threadIdx.x == 0) part[parts] = last;
        parts++;
    }
};

// One step of quicksort with three parts (Bentley and McIlroy 1993, "Engineering a Sort Function"), by a block: keys below one of them, those that are equal to
// it, which are then sorted, and those above; with a payload in their order. The one is a frequent key if there is any, so that as a rule a step is all; else
// one about in the middle. Keys alone are read once, and others than the one are written beside and back; with a payload keys are read twice, and all is
// written beside and back.
// `Sort`: the sort of a bucket that fits.
template <class Sort> struct BucketParts {
    typedef typename Sort::Bits Bits;
    typedef typename Sort::Value Value;
    static constexpr bool HAS_VALUES = Sort::HAS_VALUES;
    static constexpr u32 THREADS = Sort::THREADS, WARPS = THREADS / WARP;
    static constexpr u32 ROWS = 8;      // keys of a thread at once
    static constexpr u32 WORDS = ROWS * WARPS, STEP = ROWS * THREADS;
    static constexpr u32 LOOKED = 128;  // keys that are looked at for the one
    static constexpr u32 FREQUENT = 16; // how many of them
    static_assert(WORDS <= THREADS && STEP < 1 << 16, "a thread for each word, and two counts in it");
    struct Shared {
        Bits looked[LOOKED];
        u32 words[WORDS], totals[WARPS]; // keys below the one, and in the upper half those that are equal, before each row of a warp
        u32 all, best, less, other;      // other: with a payload those that are equal, else those above
    };
    Bits *keys, *beside;
    Value *values, *values_beside;

    __device__ BucketParts(const SortCall &call, u32 first)
        : keys((Bits *)call.keys[0] + first), beside((Bits *)call.keys[1] + first), values(HAS_VALUES ? (Value *)call.values[0] + first : nullptr),
          values_beside(HAS_VALUES ? (Value *)call.values[1] + first : nullptr) {}

    // Parts `count` keys, more than LOOKED: how many are in each part. By the whole block.
    template <class Order> __device__ void run(Shared &s, u32 count, Order order, u32 &less, u32 &equal) const {
        __syncthreads(); // nobody needs the shared memory
        Bits one = choose(s, count);
        if (HAS_VALUES) move_in_order(s, count, one);
        else move_any(s, count, one);
        __syncthreads();
        less = s.less;
        equal = HAS_VALUES ? s.other : count - less - s.other;
        Bits done = order.from(one);
#pragma unroll ROWS
        for (u32 i = threadIdx.x; i < count; i += THREADS) {
            keys[i] = i - less < equal ? done : beside[i];
            if constexpr (HAS_VALUES) values[i] = values_beside[i];
        }
        __syncthreads();
    }

  private:
    // Keys alone that are not equal to the one, from both ends: nobody sees in which order.
    __device__ void move_any(Shared &s, u32 count, Bits one) const {
#pragma unroll 1
        for (u32 begin = 0; begin < count; begin += STEP) {
            Bits key[ROWS];
            u32 below[ROWS], above[ROWS], less = 0, greater = 0; // lanes, and how many
            load(key, keys, begin, count);
#pragma unroll
            for (u32 row = 0; row < ROWS; row++) {
                bool is_there = at(begin, row) < count;
                below[row] = __ballot_sync(ALL_LANES, is_there && key[row] < one);
                above[row] = __ballot_sync(ALL_LANES, is_there && key[row] > one);
                less += __popc(below[row]);
                greater += __popc(above[row]);
            }
            u32 place = 0;
            if (lane_id() < 2) place = atomicAdd(lane_id() == 0 ? &s.less : &s.other, lane_id() == 0 ? less : greater);
            u32 to_less = __shfl_sync(ALL_LANES, place, 0), to_greater = count - __shfl_sync(ALL_LANES, place, 1) - greater;
#pragma unroll
            for (u32 row = 0; row < ROWS; row++) {
                u32 lanes = (1u << lane_id()) - 1;
                if (below[row] >> lane_id() & 1) beside[to_less + __popc(below[row] & lanes)] = key[row];
                if (above[row] >> lane_id() & 1) beside[to_greater + __popc(above[row] & lanes)] = key[row];
                to_less += __popc(below[row]);
                to_greater += __popc(above[row]);
            }
        }
    }

    // In their order: it is counted first how many there are of each part.
    __device__ void move_in_order(Shared &s, u32 count, Bits one) const {
        u32 less = 0, equal = 0;
#pragma unroll 1
        for (u32 begin = 0; begin < count; begin += STEP) {
            Bits key[ROWS];
            load(key, keys, begin, count);
#pragma unroll
            for (u32 row = 0; row < ROWS; row++)
                if (at(begin, row) < count) {
                    less += key[row] < one;
                    equal += key[row] == one;
                }
        }
        less = warp_add(less);
        equal = warp_add(equal);
        if (lane_id() == 0) {
            atomicAdd(&s.less, less);
            atomicAdd(&s.other, equal);
        }
        __syncthreads();
        u32 to_less = 0, to_equal = s.less, to_greater = s.less + s.other;
#pragma unroll 1
        for (u32 begin = 0; begin < count; begin += STEP) {
            Bits key[ROWS];
            Value value[ROWS];
            u32 below[ROWS], same[ROWS]; // lanes
            load(key, keys, begin, count);
            load(value, values, begin, count);
#pragma unroll
            for (u32 row = 0; row < ROWS; row++) {
                bool is_there = at(begin, row) < count;
                below[row] = __ballot_sync(ALL_LANES, is_there && key[row] < one);
                same[row] = __ballot_sync(ALL_LANES, is_there && key[row] == one);
                if (lane_id() == 0) s.words[row * WARPS + warp_id()] = __popc(below[row]) | __popc(same[row]) << 16;
            }
            __syncthreads();
            if (threadIdx.x < WORDS) {
                u32 own = s.words[threadIdx.x], before = block_before<WORDS>(own, s.totals);
                s.words[threadIdx.x] = before;
                if (threadIdx.x == WORDS - 1) s.all = before + own;
            }
            __syncthreads();
#pragma unroll
            for (u32 row = 0; row < ROWS; row++) {
                u32 earlier = s.words[row * WARPS + warp_id()], lanes = (1u << lane_id()) - 1, i = row * THREADS + threadIdx.x;
                u32 lower = (earlier & 0xffff) + __popc(below[row] & lanes), equals = (earlier >> 16) + __popc(same[row] & lanes);
                bool is_below = below[row] >> lane_id() & 1, is_same = same[row] >> lane_id() & 1;
                u32 to = is_below ? to_less + lower : is_same ? to_equal + equals : to_greater + i - lower - equals;
                if (begin + i >= count) continue;
                if (!is_same) beside[to] = key[row];
                values_beside[to] = value[row];
            }
            u32 lower = s.all & 0xffff, equals = s.all >> 16;
            to_less += lower;
            to_equal += equals;
            to_greater += STEP - lower - equals;
            __syncthreads(); // all have read it
        }
    }
    static __device__ u32 at(u32 begin, u32 row) { return begin + row * THREADS + threadIdx.x; }
    template <class T> static __device__ void load(T (&item)[ROWS], const T *items, u32 begin, u32 count) {
#pragma unroll
        for (u32 row = 0; row < ROWS; row++)
            if (at(begin, row) < count) item[row] = items[at(begin, row)];
    }
    // The key by which they are parted.
    __device__ Bits choose(Shared &s, u32 count) const {
        u32 j = threadIdx.x;
        if (j < LOOKED) s.looked[j] = keys[u32(u64(j) * count / LOOKED)];
        if (j == 0) s.best = s.less = s.other = 0;
        __syncthreads();
        if (j < LOOKED) {
            u32 less = 0, equal = 0;
            for (u32 k = 0; k < LOOKED; k++) {
                less += s.looked[k] < s.looked[j];
                equal += s.looked[k] == s.looked[j];
            }
            bool is_middle = less <= LOOKED / 2 && LOOKED / 2 < less + equal;
            atomicMax(&s.best, (equal >= FREQUENT ? equal : u32(is_middle)) * LOOKED + j);
        }
        __syncthreads();
        return s.looked[s.best % LOOKED];
    }
};
