// Steps to slots: what all ways to them have in common.
#pragma once
#include "buckets.cuh"

enum SlotRoute : u32 { SLOTS_BY_BITS, SLOTS_BY_RANGE, SLOTS_BY_SPLITTERS, SLOTS_BY_CELLS };

// Frequent keys that have a digit each and need no sort: alone they are counted, and what goes with them has room by how often a sample has them.
template <class Bits> struct EqualKeys {
    u32 digits[BINS / 32]; // a bit for each that is such a key's
    Bits keys[BINS];       // by digit
    u32 begins[BINS + 1];  // where what goes with each begins among the slots' values
    __device__ bool has(u32 d) const { return digits[d / 32] >> d % 32 & 1; }
};

struct SlotCall {
    u32 *counts;         // by digit, zero before the sort: of keys that it has
    void *keys, *values; // `room` for each slot, and after the last one a tile's for what has no place; of values then `equal_room`
    void *equal;         // `EqualKeys`
    void *map;           // `SlotMap`, zero before the sort
    u32 bits;            // of a slot's number, by bits or range
    u32 room;
    u32 most, beyond;    // of LOOKED_AT that every block looks at before, so many may be a slot's; and of all slots together so many beyond that
    u32 intervals;       // between splitters, each with a slot: a power of two, or none
    u32 sampled;         // keys for splitters
    u32 most_between;    // so many of them may be an interval's
    u32 equal_room;      // for all that goes with keys of `equal`
    u32 only_few;        // whether nothing fits between splitters but few values, of which each is often
    u32 cell_parts;      // blocks that look at CELL_SAMPLE keys each before slots by cells, which are BINS; or none
};
constexpr u32 LOOKED_AT = 512;

// A tile's keys to slots, in any order: `place(digit, earlier, total)` says where those of a digit go, of which so many are there already.
template <class Order, class Tile, class Put, class D, class Place>
__device__ inline bool to_slots_in_any_order(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots, u32 tile, D digit, const Place &place) {
    typedef typename Tile::Shape::Bits Bits;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    u32 *counts = slots.counts;
    return any_order<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, Put{(Bits *)slots.keys, order},
        [=](u32 d, u32 total) { return place(d, atomicAdd(counts + d, total), total); });
}
// The same in order, and what goes with them.
template <class Order, class Tile, class Put, class D, class Place>
__device__ inline void to_slots_in_order(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots, u32 tile, D digit, const Place &place) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    const Value *values = (const Value *)call.values_in;
    u32 *counts = slots.counts;
    bool is_last = tile == gridDim.x - 1;
    LookBackDigits chain{call.words[1] + u64(tile) * BINS, tile};
    stable_any<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, Put{(Bits *)slots.keys, order}, values ? values + at : nullptr, at,
        (Value *)slots.values, [=](u32 d, u32 total) { chain.publish(d, total); },
        [=](u32 d, u32 total) {
            u32 earlier = chain.template receive<8>(d, total);
            if (is_last) counts[d] = earlier + total;
            return place(d, earlier, total);
        });
}

// ---- frequent keys, when slots are sorted -------------------------------------------------------------------------------------------

struct EqualPlaces { // in shared memory
    u32 counts[BINS], starts[BINS], totals[BINS / WARP];
    u32 many[BINS], all_many; // digits that have many
};
// Frequent keys to where they belong: those that are few by the block that has their digit, many by all blocks. Apart, so that it takes no
// registers from the others.
template <class Order, class Bits, class Value, u32 THREADS, u32 OF_ONE_BLOCK>
__device__ __noinline__ void place_equal(EqualPlaces &s, SortCall call, SlotCall slots, u32 own, u32 blocks) {
    constexpr bool HAS_VALUES = Value::BYTES > 0;
    const EqualKeys<Bits> &equal = *(const EqualKeys<Bits> *)slots.equal;
    u32 d = threadIdx.x, count = d < BINS ? slots.counts[d] : 0;
    __syncthreads(); // the slot is out
    if (d == 0) s.all_many = 0;
    __syncthreads();
    if (d < BINS) {
        s.counts[d] = count;
        s.starts[d] = block_before<BINS>(count, s.totals);
        if (count > OF_ONE_BLOCK && equal.has(d)) s.many[atomicAdd(&s.all_many, 1)] = d;
    }
    __syncthreads();
    auto place = [&](u32 digit, u32 thread, u32 threads) {
        u32 start = s.starts[digit], count = s.counts[digit];
        Bits key = Order{Bits(call.flip)}.from(equal.keys[digit]), *out = call.no_keys ? nullptr : (Bits *)call.keys[0] + start;
        if constexpr (HAS_VALUES) {
            const Value *from = (const Value *)slots.values + equal.begins[digit];
            Value *to = (Value *)call.values[0] + start;
#pragma unroll 4
            for (u32 i = thread; i < count; i += threads) to[i] = from[i];
        }
        if (!HAS_VALUES || out)
            for (u32 i = thread; i < count; i += threads) out[i] = key;
    };
    if (s.counts[own] <= OF_ONE_BLOCK && equal.has(own)) place(own, d, THREADS);
    for (u32 m = 0; m < s.all_many; m++) place(s.many[m], blockIdx.x * THREADS + d, blocks * THREADS);
}
