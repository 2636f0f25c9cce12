// The scatter step to fixed-capacity buckets, by any map: `scatter_in_any_order` and
// `scatter_in_order` of a tile, and the same around heavy keys. `counts` must be zero before it.
#pragma once
#include "sort/buckets.cuh"

// The most heavy keys, if a digit has so many bits. Each takes two digits: a map's bucket is split
// in two, and the key's own digit lies between the parts.
__device__ inline constexpr u32 most_heavy(u32 bits) { return (1u << bits) / 2 - 8; }
static_assert(most_heavy(DIGIT_BITS) == MOST_HEAVY, "counted buckets have as many");

enum FixedFunction : u32 { FIXED_BY_BITS, FIXED_BY_RANGE, FIXED_AROUND_HEAVY };

// Keys-only: scatters a tile in any order. `position(digit, earlier, total)` returns where the
// tile's `total` keys of a digit go, after `earlier` ones.
template <class Order, class Tile, class Put, class D, class Position>
__device__ inline bool scatter_in_any_order(typename Tile::Shared &s, const SortCall &call, const FixedCall &fixed,
                                            u32 tile, D digit, const Position &position) {
    typedef typename Tile::Shape::Bits Bits;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    u32 *counts = fixed.counts;
    return any_order<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, Put{(Bits *)fixed.keys, order},
        [=](u32 d, u32 total) { return position(d, atomicAdd(counts + d, total), total); });
}
// The same in stable order, with the payload.
template <class Order, class Tile, class Put, class D, class Position>
__device__ inline void scatter_in_order(typename Tile::Shared &s, const SortCall &call, const FixedCall &fixed,
                                        u32 tile, D digit, const Position &position) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    const Value *values = (const Value *)call.values_in;
    u32 *counts = fixed.counts;
    bool is_last = IS_LAST_TILE(tile, Tile::TILE, call.n);
    LookBackDigits chain{call.words[1] + u64(tile) * BINS, tile};
    stable_any<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, Put{(Bits *)fixed.keys, order},
        values ? values + at : nullptr, at, (Value *)fixed.values, [=](u32 d, u32 total) { chain.publish(d, total); },
        [=](u32 d, u32 total) {
            u32 earlier = chain.template receive<8>(d, total);
            if (is_last) counts[d] = earlier + total;
            return position(d, earlier, total);
        });
}

// Scatters a tile by a map around heavy keys, whose payloads lie from `begins` on.
template <class Order, class Tile, class Digit>
__device__ inline void scatter_around(typename Tile::Shared &s, const SortCall &call, const FixedCall &fixed, u32 tile,
                                      const Digit &digit, const u32 *begins) {
    typedef typename Tile::Shape::Bits Bits;
    typedef PutUnlessDone<Order, Bits> Put;
    u32 room = fixed.room, *too_large = &((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large;
    u64 overflow = u64(room) << fixed.digit_bits;
    const HeavyKeys<Bits> *heavy = digit.heavy;
    auto position = [=](u32 d, u32 earlier, u32 total) {
        if (!heavy->has(d)) {
            if (earlier + total <= room) return u64(d) * room + earlier;
        } else {
            if (!Tile::HAS_VALUES) return DONE;
            u32 i = heavy->index(d), begin = begins[i] + earlier;
            if (begin + total <= begins[i + 1]) return DONE | begin;
        }
        *too_large = 1;
        return overflow;
    };
    if constexpr (Tile::HAS_VALUES) scatter_in_order<Order, Tile, Put>(s, call, fixed, tile, digit, position);
    else scatter_in_any_order<Order, Tile, Put>(s, call, fixed, tile, digit, position);
}
// Keys-only: counts a tile of which nearly all keys are heavy. Any other key moves on its own.
template <class Order, class Tile, class Digit>
__device__ inline void count_heavy(typename Tile::Shared &s, const SortCall &call, const FixedCall &fixed, u32 tile,
                                   const Digit &digit) {
    typedef typename Tile::Shape::Bits Bits;
    constexpr u32 ITEMS = Tile::TILE / Tile::THREADS;
    static_assert(sizeof(s.exchange) >= HEAVY_SLOTS * HEAVY_COPIES * sizeof(u32), "room for all");
    u32 *counters = (u32 *)s.exchange, copy = threadIdx.x % HEAVY_COPIES;
    const HeavyKeys<Bits> &heavy = *digit.heavy;
    u64 first = u64(tile) * Tile::TILE;
    u32 left = u32(min(call.n - first, u64(Tile::TILE))), all = heavy.count;
    const Bits *from = (const Bits *)call.keys_in + first;
    Order order{Bits(call.flip)};
    Bits key[ITEMS];
    u32 less[ITEMS]; // heavy keys that are less
    auto at = [](u32 i) { return i * Tile::THREADS + threadIdx.x; };
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) key[i] = at(i) < left ? from[at(i)] : Bits(0);
    for (u32 i = threadIdx.x; i < all * HEAVY_COPIES; i += Tile::THREADS) counters[i] = 0;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        key[i] = order.to(key[i]);
        less[i] = 0;
    }
#pragma unroll 1
    for (u32 step = 1u << (31 - __clz(int(all))); step > 0; step /= 2)
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) less[i] += heavy.keys[less[i] + step - 1] < key[i] ? step : 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (at(i) >= left) break;
        if (heavy.is(less[i], key[i])) {
            atomicAdd(counters + less[i] * HEAVY_COPIES + copy, 1);
        } else {
            u32 d = digit(key[i]), earlier = atomicAdd(fixed.counts + d, 1);
            if (earlier < fixed.room) ((Bits *)fixed.keys)[u64(d) * fixed.room + earlier] = key[i];
            else ((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large = 1;
        }
    }
    __syncthreads();
    u32 sum = 0;
#pragma unroll
    for (u32 c = 0; threadIdx.x < all && c < HEAVY_COPIES; c++)
        sum += counters[threadIdx.x * HEAVY_COPIES + (c + threadIdx.x) % HEAVY_COPIES];
    if (sum > 0) atomicAdd(fixed.counts + digit(heavy.keys[threadIdx.x]), sum);
}
