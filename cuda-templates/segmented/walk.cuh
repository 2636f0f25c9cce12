// The walk over a slice by segment: a fold, and prefixes that begin again at each head.
#pragma once
#include "scan/scan.cuh"
#include "segmented/heads.cuh"

// The item in memory that the first head flag of a tile is of; `first` is the tile's first item in
// scan order. In a reverse scan an item begins prefixes again if the item behind it in memory is a
// head. It may lie before the first item.
__device__ inline i64 begin_of_tile(u64 first, u32 items, u64 n, bool reverse) {
    return reverse ? i64(n) - i64(first) - i64(items) + 1 : i64(first);
}

// The operator on carries of which the flag says whether a segment begins in the items that were
// combined; the value combines the items from the last head on. Schwartz (1980, "Ultracomputers").
template <class Operator> struct Headed {
    struct Carry {
        typename Operator::Carry value;
        u32 head;
    };
    static __device__ Carry combine(Carry a, Carry b) {
        if (b.head) return b;
        return {Operator::combine(a.value, b.value), a.head};
    }
};

// Each lane owns consecutive groups of items, as in `LaneByGroup`. The head flags are those of
// HEAD_WARPS warps: of one slice, or of a tile.
template <class Operator, class Shape, u32 HEAD_WARPS> struct SegmentedWalk {
    typedef typename Operator::Element Item;
    typedef typename Operator::Carry Carry;
    typedef typename Headed<Operator>::Carry HeadedCarry;
    typedef typename RunOf<Item>::Type Items;
    typedef Slice<typename RunOf<Item>::Slot, Shape::VECTORS> Stage;
    static constexpr u32 IN_GROUP = Group<Item>::ITEMS, GROUPS = Shape::VECTORS / Group<Item>::VECTORS; // of a lane
    static constexpr u32 ITEMS = WARP * GROUPS * IN_GROUP;
    // Unrolling shorter items makes too many instructions.
    static constexpr u32 UNROLLED = alignof(Item) >= 4 ? GROUPS : 1;
    static constexpr u32 MOST_SHIFT = LINE_VECTORS - 1;
    static_assert(Shape::VECTORS % Group<Item>::VECTORS == 0, "groups tile a lane's vectors");

    typedef ::Heads<HEAD_WARPS * ITEMS, IN_GROUP, HEAD_WARPS> Heads;

    Items in, out;
    bool exclusive;
    Maybe<Carry> init; // is combined before each segment's first item
    const Cut &cut;
    Heads &heads;
    u32 slice;          // the number of the warp's slice, in memory order, among those of the flags
    bool has_heads = true; // whether the slice may have a head: without, items take no tests of flags
    HeadedCarry before; // fold of the warp's items before this lane's; undefined in lane 0

    __device__ SegmentedWalk(Items in, Items out, bool exclusive, Maybe<Carry> init, const Cut &cut, Heads &heads,
                             u32 warp)
        : in(in), out(out), exclusive(exclusive), init(init), cut(cut), heads(heads),
          slice(in.reverse ? HEAD_WARPS - 1 - warp : warp) {}

    __device__ u32 shift() const { return in.shift(); }

    // The fold of a slice that lies in the stage, with its heads; valid in the last lane.
    __device__ HeadedCarry fold_loaded(Stage &stage, u32 lane) {
        HeadedCarry own;
        with_known(has_heads, [&](auto has_heads) {
            with_known(in.reverse, [&](auto reverse) { own = fold_lane(stage, lane, has_heads, reverse); });
        });
        HeadedCarry all = warp_inclusive<Headed<Operator>>(own, lane);
        before = shuffle_up(all, 1);
        return all;
    }

    // Every item of the stage becomes its result. `prefix` is that of the warp; if its first item
    // is a head, any value.
    __device__ void put(Stage &stage, HeadedCarry prefix, u32 lane) {
        Carry upto = lane == 0 ? prefix.value : Headed<Operator>::combine(prefix, before).value;
        with_known(has_heads, [&](auto has_heads) {
            with_known(in.reverse, [&](auto reverse) {
                with_known(exclusive,
                           [&](auto exclusive) { put_lane(stage, upto, lane, has_heads, reverse, exclusive); });
            });
        });
    }

  protected:
    __device__ HeadedCarry fold_lane(Stage &stage, u32 lane, bool has_heads, bool reverse) const {
        Carry upto = Carry();
        u32 any = 0;
#pragma unroll UNROLLED
        for (u32 g = 0; g < GROUPS; g++) {
            Group<Item> items = of_lane(stage, lane, g, reverse);
            u32 restarts = has_heads ? heads_of(lane, g, reverse) : 0;
            any |= restarts;
#pragma unroll
            for (u32 j = 0; j < IN_GROUP; j++) {
                Carry item = Operator::lift(items.item[j]);
                bool restart = restarts >> j & 1, first = g == 0 && j == 0;
                upto = restart ? begun(item) : first ? Operator::alone(item) : Operator::combine(upto, item);
            }
        }
        return {upto, any};
    }
    __device__ void put_lane(Stage &stage, Carry upto, u32 lane, bool has_heads, bool reverse, bool exclusive) const {
#pragma unroll UNROLLED
        for (u32 g = 0; g < GROUPS; g++) {
            Group<Item> items = of_lane(stage, lane, g, reverse), results;
            u32 restarts = has_heads ? heads_of(lane, g, reverse) : 0;
#pragma unroll
            for (u32 j = 0; j < IN_GROUP; j++) {
                Carry item = Operator::lift(items.item[j]);
                bool restart = restarts >> j & 1;
                Carry earlier = restart ? init.value : upto;
                upto = restart ? begun(item) : Operator::combine(upto, item);
                results.item[j] = Operator::lower(exclusive ? earlier : upto);
            }
            results.oriented(reverse).store(stage.vector + at(lane, g, reverse) * Group<Item>::VECTORS);
        }
    }

    // The place in the stage of a lane's group g, in scan order.
    __device__ u32 at(u32 lane, u32 g, bool reverse) const {
        u32 at = lane * GROUPS + g;
        return reverse ? WARP * GROUPS - 1 - at : at;
    }
    __device__ Group<Item> of_lane(Stage &stage, u32 lane, u32 g, bool reverse) const {
        return Group<Item>(stage.vector + at(lane, g, reverse) * Group<Item>::VECTORS).oriented(reverse);
    }
    // Whether prefixes begin again, for each item of the group in scan order.
    __device__ u32 heads_of(u32 lane, u32 g, bool reverse) const {
        u32 flags = heads.flags[slice * WARP * GROUPS + at(lane, g, reverse)];
        return reverse ? __brev(flags) >> (WARP - IN_GROUP) : flags;
    }
    // The inclusive prefix of a segment's first item.
    __device__ Carry begun(Carry item) const { return item_after<Operator>(init, item); }
};
