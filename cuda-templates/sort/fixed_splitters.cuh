// Fixed-capacity buckets between splitters (Leischner, Osipov and Sanders 2010, "GPU sample sort").
//
// Every block sorts the same sample and takes every (sample / buckets)-th key as a splitter, so
// all have the same splitters. A key's digit is 2 * (splitters less than it), plus 1 if it equals
// the next one. Even digits are fixed-capacity buckets. Odd ones are equality buckets, which need
// no sort (Sanders and Winkel 2004, "Super scalar sample sort"): keys-only are just counted, and a
// payload has room by the sample. `fixed_first` calls `scatter_by_splitters`; few values
// (fixed_values.cuh) take the same steps with the values as splitters.
#pragma once
#include "sort/bitonic.cuh"
#include "sort/fixed_scatter.cuh"

template <class Bits> struct Splitters {
    Bits values[VALUES]; // ascending; unused ones are the greatest possible key
    // where each equality bucket's payload begins in `fixed.values`
    u32 begins[VALUES + 1];

    // Payload room for a key with so many hits in the sample: the expected number of keys and a
    // margin.
    static __device__ u32 room(float hits, u64 n, u32 sampled) {
        return u32((hits + 5 * sqrtf(hits) + 8) * float(n) / sampled);
    }
    // By the first VALUES threads, which no longer need `begins`: lays out the payload rooms one
    // after another, behind the fixed-capacity buckets and their overflow area.
    __device__ void make_room(u32 room, u32 *totals, const FixedCall &fixed, u32 tile) {
        u32 j = threadIdx.x, begin = block_exclusive_sum<VALUES>(room, totals),
            first = (fixed.room << fixed.bits) + tile;
        begins[j] = first + min(begin, fixed.equal_room);
        if (j == VALUES - 1) begins[VALUES] = first + min(begin + room, fixed.equal_room);
    }
};

// Splitters in shared memory, padded by one entry after every 32 words. So the entries that one
// step of a search may read are in different banks, except in the last steps.
template <class Bits> struct PaddedSplitters {
    static constexpr u32 ROW = 32 * sizeof(u32) / sizeof(Bits);
    Bits items[VALUES + VALUES / ROW];
    static constexpr __device__ u32 padded_index(u32 j) { return j + j / ROW; }
    __device__ void set(u32 j, Bits value) { items[padded_index(j)] = value; }
};
template <class Bits> struct SplitterDigit {
    typedef PaddedSplitters<Bits> Values;
    const Values *splitters;
    u32 half; // half of the least power of two that exceeds the number of splitters
    // The digits of COUNT keys. Each search step is done for all keys, so that their loads overlap.
    template <u32 COUNT> __device__ void find(const Bits (&key)[COUNT], u32 (&found)[COUNT]) const {
        const Bits *items = splitters->items;
        // padded index of the first splitter that may not be less
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) found[i] = 0;
#pragma unroll 1
        for (u32 step = half; step > 0; step /= 2)
#pragma unroll
            for (u32 i = 0; i < COUNT; i++)
                found[i] += items[found[i] + Values::padded_index(step - 1)] < key[i]
                                ? Values::padded_index(step)
                                : 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++)
            found[i] = 2 * (found[i] - found[i] / (Values::ROW + 1)) + (items[found[i]] == key[i]);
    }
    __device__ u32 operator()(Bits key) const {
        Bits keys[1] = {key};
        u32 found[1];
        find(keys, found);
        return found[0];
    }
    __device__ bool prepare() const {
        __syncthreads();
        return true;
    }
};
template <class Bits> constexpr bool IS_SEARCHED<SplitterDigit<Bits>> = true;
template <class Bits> constexpr bool IS_MARKED<SplitterDigit<Bits>> = true;

// The number of keys less than `key`, and the number not greater, among COUNT ascending keys, a
// power of two.
template <u32 COUNT, class Bits>
__device__ inline void count_less(const Bits *sorted, Bits key, u32 &less, u32 &upto) {
    less = upto = 0;
#pragma unroll
    for (u32 step = COUNT / 2; step > 0; step /= 2) {
        less += sorted[less + step - 1] < key ? step : 0;
        upto += sorted[upto + step - 1] <= key ? step : 0;
    }
    less += sorted[less] < key;
    upto += sorted[upto] <= key;
}

// Finds splitters with equally many sample keys between them, by the whole block. Returns whether
// the keys between any two fit a bucket.
template <u32 EACH, class Order, class Tile>
__device__ inline bool find_splitters(Splitters<typename Tile::Shape::Bits> &found,
                                      typename Tile::Shared &s, const SortCall &call,
                                      const FixedCall &fixed, typename Tile::Shape::Bits probe) {
    typedef typename Tile::Shape::Bits Bits;
    constexpr u32 SAMPLE = EACH * Tile::THREADS;
    static_assert(sizeof(s.exchange) >= SAMPLE * sizeof(Bits), "the sample shares the tile's memory");
    Order order{Bits(call.flip)};
    Bits *sorted = (Bits *)s.exchange, key[EACH] = {probe};
    static_assert(Tile::THREADS == PROBE_KEYS, "each thread has one key of the probe");
    if (EACH > 1) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            key[e] =
                ((const Bits *)call
                     .keys_in)[sampled_at(e * Tile::THREADS + threadIdx.x, u32(call.n) / SAMPLE)];
#pragma unroll
        for (u32 e = 0; e < EACH; e++) key[e] = order.to(key[e]);
    }
    Bitonic<EACH, Bits>{key}.template sort_block<Tile::THREADS>(sorted);
    __syncthreads();
#pragma unroll
    for (u32 e = 0; e < EACH; e++) sorted[threadIdx.x * EACH + e] = key[e];
    __syncthreads();
    bool has_room = true;
    u32 j = threadIdx.x, every = SAMPLE / fixed.splitter_buckets;
    if (j < VALUES) {
        Bits value = j + 1 < fixed.splitter_buckets ? sorted[(j + 1) * every] : Bits(~Bits(0));
        found.values[j] = value;
        // before: `upto` of the splitter before; it exceeds `less` if both are equal
        u32 less, upto, before;
        count_less<SAMPLE>(sorted, value, less, upto);
        found.begins[j + 1] = upto;
        barrier_of_first<VALUES>();
        before = j > 0 ? found.begins[j] : 0;
        has_room = int(less - before) <= int(fixed.most_between);
        if (Tile::HAS_VALUES)
            found.make_room(before <= less ? found.room(float(upto - less), call.n, SAMPLE) : 0,
                            s.totals, fixed, Tile::TILE);
    } else {
        pass_barrier_of_first();
        if (Tile::HAS_VALUES) pass_barrier_of_first();
    }
    return __syncthreads_and(has_room);
}

// in shared memory, behind the tile
template <class Bits> struct SplitterTables {
    Splitters<Bits> found;
    PaddedSplitters<Bits> padded;
};
// Writes what `fixed_sort` needs about the equality buckets. By the whole block of one tile.
template <bool HAS_VALUES, class Bits>
__device__ inline void publish_splitters(const Splitters<Bits> &found, const SortCall &call,
                                         const FixedCall &fixed) {
    EqualityBuckets<Bits> &equal = *(EqualityBuckets<Bits> *)fixed.equal;
    if (threadIdx.x < BINS / 32) equal.digits[threadIdx.x] = 0xaaaaaaaa;
    if (threadIdx.x < VALUES) equal.keys[2 * threadIdx.x + 1] = found.values[threadIdx.x];
    if (HAS_VALUES && threadIdx.x < VALUES)
        equal.begins[2 * threadIdx.x + 1] = found.begins[threadIdx.x];
    if (threadIdx.x == 0)
        ((SortPlan<sizeof(Bits) + 1> *)call.plan)->fixed_function = FIXED_BY_SPLITTERS;
}
// Scatters a tile between known splitters. `half` is that of `SplitterDigit`. Not inlined: with a
// payload it has two callers.
template <class Order, class Tile>
__device__ __noinline__ void scatter_between(typename Tile::Shared &s,
                                             SplitterTables<typename Tile::Shape::Bits> &tables,
                                             SortCall call, FixedCall fixed, u32 tile, u32 half) {
    typedef typename Tile::Shape::Bits Bits;
    const Splitters<Bits> &found = tables.found;
    if (threadIdx.x < VALUES) tables.padded.set(threadIdx.x, found.values[threadIdx.x]);
    if (tile == 0) publish_splitters<Tile::HAS_VALUES>(found, call, fixed);
    u32 room = fixed.room, *too_large = &((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large;
    u64 overflow = u64(room) << fixed.bits;
    const u32 *begins = found.begins;
    auto position = [=](u32 d, u32 earlier, u32 total) {
        if (d % 2 == 0) { // between two splitters
            if (earlier + total <= room) return u64(d / 2) * room + earlier;
        } else {
            if (!Tile::HAS_VALUES) return DONE;
            u32 begin = begins[d / 2] + earlier;
            if (begin + total <= begins[d / 2 + 1]) return DONE | begin;
        }
        *too_large = 1;
        return overflow;
    };
    __syncthreads();
    SplitterDigit<Bits> digit{&tables.padded, half};
    if constexpr (Tile::HAS_VALUES)
        scatter_in_order<Order, Tile, PutUnlessDone<Order, Bits>>(s, call, fixed, tile, digit,
                                                                  position);
    else
        scatter_in_any_order<Order, Tile, PutUnlessDone<Order, Bits>>(s, call, fixed, tile, digit,
                                                                      position);
}
// Scatters a tile by splitters of a sample.
template <class Order, class Tile>
__device__ inline void scatter_by_splitters(typename Tile::Shared &s, Vector *tables,
                                            const SortCall &call, const FixedCall &fixed, u32 tile,
                                            typename Tile::Shape::Bits probe) {
    typedef typename Tile::Shape::Bits Bits;
    SplitterTables<Bits> &between = *(SplitterTables<Bits> *)tables;
    bool fits = fixed.sampled == PROBE_KEYS
                    ? find_splitters<1, Order, Tile>(between.found, s, call, fixed, probe)
                    : find_splitters<4, Order, Tile>(between.found, s, call, fixed, probe);
    if (fits)
        scatter_between<Order, Tile>(s, between, call, fixed, tile, fixed.splitter_buckets / 2);
    else if (threadIdx.x == 0) ((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large = 1;
}
