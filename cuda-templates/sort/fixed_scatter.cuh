// What all maps to fixed-capacity buckets share.
//
// `scatter_in_any_order` and `scatter_in_order` scatter a tile, for fixed_buckets.cuh,
// fixed_splitters.cuh and fixed_intervals.cuh. `EqualityBuckets` has the equality buckets.
// `fixed_sort` (bucket_sort.cuh) writes them by `write_equality_bucket` and
// `write_large_equality_buckets`, and does not sort them. `counts` must be zero before the step.
#pragma once
#include "sort/buckets.cuh"

enum FixedFunction : u32 { FIXED_BY_BITS, FIXED_BY_RANGE, FIXED_BY_SPLITTERS, FIXED_BY_INTERVALS };

// Equality buckets: frequent keys with a digit each, which need no sort. Keys-only are just
// counted. The payload of each has room by its hits in a sample.
template <class Bits> struct EqualityBuckets {
    u32 digits[BINS / 32]; // a bit for each digit that is an equality bucket
    Bits keys[BINS];
    u32 begins[BINS + 1]; // where the payload of each begins in `fixed.values`
    __device__ bool has(u32 d) const { return digits[d / 32] >> d % 32 & 1; }
};

// Keys-only: scatters a tile in any order. `position(digit, earlier, total)` returns where the
// tile's `total` keys of a digit go, after `earlier` ones.
template <class Order, class Tile, class Put, class D, class Position>
__device__ inline bool scatter_in_any_order(typename Tile::Shared &s, const SortCall &call,
                                            const FixedCall &fixed, u32 tile, D digit,
                                            const Position &position) {
    typedef typename Tile::Shape::Bits Bits;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    u32 *counts = fixed.counts;
    return any_order<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); },
        Put{(Bits *)fixed.keys, order},
        [=](u32 d, u32 total) { return position(d, atomicAdd(counts + d, total), total); });
}
// The same in stable order, with the payload.
template <class Order, class Tile, class Put, class D, class Position>
__device__ inline void scatter_in_order(typename Tile::Shared &s, const SortCall &call,
                                        const FixedCall &fixed, u32 tile, D digit,
                                        const Position &position) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    const Value *values = (const Value *)call.values_in;
    u32 *counts = fixed.counts;
    bool is_last = tile == gridDim.x - 1;
    LookBackDigits chain{call.words[1] + u64(tile) * BINS, tile};
    stable_any<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); },
        Put{(Bits *)fixed.keys, order}, values ? values + at : nullptr, at, (Value *)fixed.values,
        [=](u32 d, u32 total) { chain.publish(d, total); },
        [=](u32 d, u32 total) {
            u32 earlier = chain.template receive<8>(d, total);
            if (is_last) counts[d] = earlier + total;
            return position(d, earlier, total);
        });
}

// ---- equality buckets in the output ---------------------------------------------------------

// Writes one key `count` times. `thread` is one of `threads`.
template <class Bits>
__device__ inline void fill(Bits *out, u32 count, Bits key, u32 thread, u32 threads) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    u32 head = min(count, u32(-u64(out) % sizeof(Vector) / sizeof(Bits))),
        vectors = (count - head) / IN_VECTOR, tail = head + vectors * IN_VECTOR;
    Bits keys[IN_VECTOR];
#pragma unroll
    for (u32 k = 0; k < IN_VECTOR; k++) keys[k] = key;
    Vector vector;
    memcpy(&vector, keys, sizeof(Vector));
#pragma unroll 4
    for (u32 i = thread; i < vectors; i += threads) ((Vector *)(out + head))[i] = vector;
    if (thread < head) out[thread] = key;
    if (thread < count - tail) out[tail + thread] = key;
}
// Writes an equality bucket to the output: its key, unless the caller wants no keys, and its
// payload. Not inlined, as the functions below, so that they take no registers from the callers.
template <class Bits, class Value>
__device__ __noinline__ void write_equality_bucket(Bits *out, u32 count, Bits key, Value *to,
                                         const Value *from, u32 thread, u32 threads) {
    constexpr u32 AT_ONCE = 4; // loads issued before the first store
    if constexpr (Value::BYTES > 0)
        for (u32 i = thread; i < count; i += AT_ONCE * threads) {
            Value value[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++)
                if (i + k * threads < count) value[k] = from[i + k * threads];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++)
                if (i + k * threads < count) to[i + k * threads] = value[k];
        }
    if (Value::BYTES == 0 || out) fill(out, count, key, thread, threads);
}
template <class Bits> struct EqualityBucket { // an equality bucket, in shared memory
    Bits key;
    u32 count, begin; // begin: of its payload

    // Starts copies by one thread, which then calls `wait_for_copies`.
    template <bool HAS_VALUES> __device__ void start_copy(const FixedCall &fixed, u32 digit) {
        const EqualityBuckets<Bits> &equal = *(const EqualityBuckets<Bits> *)fixed.equal;
        copy_item_to_shared(&key, equal.keys + digit);
        copy_item_to_shared(&count, fixed.counts + digit);
        if (HAS_VALUES) copy_item_to_shared(&begin, equal.begins + digit);
    }
};
// The equality buckets of more than `most` keys, which all blocks write.
template <class Bits> struct LargeEqualityBuckets { // in shared memory
    u32 starts[BINS], counts[BINS], begins[BINS], totals[BINS / WARP], all;
    Bits keys[BINS];
};
template <class Order, class Bits, class Value, u32 THREADS>
__device__ __noinline__ void
write_large_equality_buckets(LargeEqualityBuckets<Bits> &s, Order order, const u32 *all_counts,
                             const EqualityBuckets<Bits> &equal, u32 most, Bits *out, Value *to,
                             const Value *from) {
    u32 d = threadIdx.x, count = d < BINS ? all_counts[d] : 0;
    bool is_large = count > most && equal.has(d);
    u32 begin = Value::BYTES > 0 && is_large ? equal.begins[d] : 0;
    Bits key = is_large ? equal.keys[d] : Bits(0);
    __syncthreads(); // the block's bucket is in the output
    if (d == 0) s.all = 0;
    __syncthreads();
    if (d < BINS) {
        u32 start = block_exclusive_sum<BINS>(count, s.totals);
        if (is_large) {
            u32 m = atomicAdd(&s.all, 1);
            s.starts[m] = start;
            s.counts[m] = count;
            s.begins[m] = begin;
            s.keys[m] = order.from(key);
        }
    } else {
        pass_barrier_of_first();
    }
    __syncthreads();
    for (u32 m = 0; m < s.all; m++) {
        u32 start = s.starts[m];
        write_equality_bucket(out ? out + start : out, s.counts[m], s.keys[m], to + start,
                              from + s.begins[m], blockIdx.x * THREADS + d, gridDim.x * THREADS);
    }
}
