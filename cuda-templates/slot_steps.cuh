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

