// The scatter step to fixed-capacity buckets, by any map: `scatter_in_any_order` and
// `scatter_in_order` of a tile, and the same around heavy keys. `counts` must be zero before it.
#pragma once
#include "sort/buckets.cuh"

// The most heavy keys, if a digit has so many bits. Each takes two digits: a map's bucket is split
// in two, and the key's own digit lies between the parts.
__device__ inline constexpr u32 most_heavy(u32 bits) { return (1u << bits) / 2 - 8; }
static_assert(most_heavy(DIGIT_BITS) == MOST_HEAVY, "counted buckets have as many");

// Where a tile's `total` keys of a digit go, after `earlier` ones: to their bucket or, if that
// overflows, to the area behind all buckets, which is never read.
struct FixedPosition {
    u32 room, *too_large;
    u64 overflow;
    __device__ FixedPosition(const BucketCall &fixed, u32 &too_large)
        : room(fixed.room), too_large(&too_large), overflow(u64(room) << fixed.digit_bits) {}
    __device__ u64 operator()(u32 d, u32 earlier, u32 total) const {
        if (earlier + total <= room) return u64(d) * room + earlier;
        *too_large = 1;
        return overflow;
    }
};

// Stores a key. Around heavy keys not one that is final: the histogram tells them.
template <class D, class Bits> struct PutUnlessDone {
    Bits *out;
    __device__ void operator()(u64 position, Bits key) const {
        if (!IS_AROUND_HEAVY<D> || !(position & DONE)) out[position] = key;
    }
};

// Keys-only: scatters a tile in any order. `position(digit, earlier, total)` returns where the
// tile's `total` keys of a digit go, after `earlier` ones.
template <class Order, class Tile, class D, class Position>
__device__ inline bool scatter_in_any_order(typename Tile::Shared &s, const SortCall &call, const BucketCall &fixed,
                                            u32 tile, D digit, const Position &position) {
    typedef typename Tile::Bits Bits;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    u32 *counts = fixed.counts;
    return tile_in_any_order<Tile>(
        s, call.n - at, digit, from, [=](Bits key) { return order.to(key); },
        PutUnlessDone<D, Bits>{(Bits *)fixed.keys},
        [=](u32 d, u32 total) { return position(d, atomicAdd(counts + d, total), total); });
}
// The same in stable order, with the payload.
template <class Order, class Tile, class D, class Position>
__device__ inline void scatter_in_order(typename Tile::Shared &s, const SortCall &call, const BucketCall &fixed,
                                        u32 tile, D digit, const Position &position) {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Value Value;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    const Value *values = (const Value *)call.values_in;
    u32 *counts = fixed.counts;
    bool is_last = call.n - at <= Tile::TILE;
    constexpr u32 DIGITS = Tile::DIGITS;
    LookBackDigits<u32, DIGITS> chain{call.words[1] + u64(tile) * DIGITS, tile};
    stable_tile<Tile>(
        s, call.n - at, digit, from, [=](Bits key) { return order.to(key); },
        PutUnlessDone<D, Bits>{(Bits *)fixed.keys}, values ? values + at : nullptr, at, (Value *)fixed.values, chain,
        [=](u32 d, u32 total) {
            u32 earlier = chain.template receive<8>(d, total);
            if (is_last) counts[d] = earlier + total;
            return position(d, earlier, total);
        });
}

// Scatters a tile by a map around heavy keys, whose payloads lie from `begins` on.
template <class Order, class Tile, class Digit>
__device__ inline void scatter_around(typename Tile::Shared &s, const SortCall &call, const BucketCall &fixed, u32 tile,
                                      const Digit &digit, const u32 *begins) {
    typedef typename Tile::Bits Bits;
    FixedPosition in_bucket(fixed, plan_of<Bits>(call).too_large);
    const HeavyKeys<Bits> *heavy = digit.heavy;
    auto position = [=](u32 d, u32 earlier, u32 total) {
        if (!heavy->has(d)) return in_bucket(d, earlier, total);
        if (!Tile::HAS_VALUES) return DONE;
        u32 i = heavy->index(d), begin = begins[i] + earlier;
        if (begin + total <= begins[i + 1]) return DONE | begin;
        *in_bucket.too_large = 1;
        return in_bucket.overflow;
    };
    if constexpr (Tile::HAS_VALUES) scatter_in_order<Order, Tile>(s, call, fixed, tile, digit, position);
    else scatter_in_any_order<Order, Tile>(s, call, fixed, tile, digit, position);
}
