// The tile pipeline: what every single-pass primitive is an instance of.
//
//   load      each warp brings its slice of the tile into shared memory          Source::load
//   fold      each lane folds its items; lanes, then warps, are joined in order  Source::carry
//   exchange  one warp publishes the tile's aggregate and gets its prefix         Join
//   scan      each lane goes over its items again from its own prefix on         Sink::put
//   store     each warp brings its slice out                                     Sink::store
//
// A Source says what item i is and what it counts as; a Sink is given each item with its exclusive and inclusive prefix.
// Both lie in registers and are small.
//
//   struct Source {
//       typedef ... Item;                                   // plain data, at most a slot
//       void load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const;       // by a warp; slots past the end: any item
//       Carry carry(Item item) const;
//   };
//   struct Sink {
//       typedef ... Result;                                 // plain data, at most a slot
//       Result put(u64 i, Item item, Carry exclusive, Carry inclusive) const;    // exclusive of item 0 only with init
//       void store(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const;      // by a warp, after all its puts
//   };
#pragma once
#include "stage.cuh"
#include "warp_scan.cuh"
#include "handover.cuh"

template <u32 WARPS_, u32 VECTORS_> struct Shape {
    static constexpr u32 WARPS = WARPS_;     // of a block
    static constexpr u32 VECTORS = VECTORS_; // of a lane, 16 bytes each
    static constexpr u32 THREADS = WARPS * WARP;
};

template <class Operator, class Source, class Sink, class Slot, class Shape, class Join> struct Pipeline {
    typedef typename Operator::Carry Carry;
    typedef typename Source::Item Item;
    typedef typename Sink::Result Result;
    typedef Slice<Slot, Shape::VECTORS> Stage;
    static constexpr u32 WARPS = Shape::WARPS, TILE = WARPS * Stage::ITEMS;

    struct Shared {
        Stage stage[WARPS];
        Carry carry[WARPS]; // each warp's aggregate, then its exclusive prefix
        typename Join::Shared join;
    };

    static __device__ void run(Shared &shared, Source source, Sink sink, Join join, Maybe<Carry> init, bool reverse) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, tile;
        if (!join.enter(shared.join, init, tile)) return;
        u64 first = u64(tile) * TILE + warp * Stage::ITEMS;
        Carry upto = fold(shared, source, first, reverse), before = shuffle_up(upto, 1); // lane 0 has none before it

        // ---- exchange
        bool some = init.some || tile > 0; // whether the tile has a prefix
        if (warp == 0) {
            Carry warps = warps_inclusive(shared, lane);
            Maybe<Carry> prefix = join.exchange(tile, shuffle(warps, WARPS - 1), init, lane);
            Carry earlier = shuffle_up(warps, 1);
            __syncwarp(); // every lane has read the aggregates that the prefixes overwrite
            if (lane < WARPS) shared.carry[lane] = lane == 0 ? prefix.value : some ? Operator::combine(prefix.value, earlier) : earlier;
        }
        __syncthreads();

        // ---- scan
        some |= warp > 0; // whether the warp has a prefix
        Carry run = shared.carry[warp];
        if (lane > 0) run = some ? Operator::combine(run, before) : before;
        some |= lane > 0; // whether the lane has one
        Stage &stage = shared.stage[warp];
        u64 i = first + lane * Stage::LANE;
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) {
            Vector v = orient<Slot>(stage.of_lane(lane, k, reverse), reverse), r;
#pragma unroll
            for (u32 j = 0; j < Stage::IN_VECTOR; j++) {
                Item item = slot<Item>(v, j);
                Carry c = source.carry(item), inclusive = k || j || some ? Operator::combine(run, c) : c;
                set_slot<Result>(r, j, sink.put(i + k * Stage::IN_VECTOR + j, item, run, inclusive));
                run = inclusive;
            }
            stage.of_lane(lane, k, reverse) = orient<Slot>(r, reverse);
        }
        __syncwarp();

        // ---- store
        sink.store(stage, first, lane);
        if (warp == 0) join.retire(tile, lane);
    }

    // Only the first half: the tile's aggregate, to `aggregates` at the block's number.
    static __device__ void aggregate(Shared &shared, Source source, bool reverse, Carry *aggregates) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        fold(shared, source, u64(blockIdx.x) * TILE + warp * Stage::ITEMS, reverse);
        if (warp > 0) return;
        Carry upto = warps_inclusive(shared, lane);
        if (lane == WARPS - 1) aggregates[blockIdx.x] = upto;
    }

  private:
    // ---- load and fold
    // Leaves the warp's slice in its stage and its aggregate in `shared.carry`; gives each lane the combination of the
    // warp's items up to and with its own.
    static __device__ Carry fold(Shared &shared, Source source, u64 first, bool reverse) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        Stage &stage = shared.stage[warp];
        source.load(stage, first, lane);
        __syncwarp();
        Carry own;
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) {
            Vector v = orient<Slot>(stage.of_lane(lane, k, reverse), reverse);
#pragma unroll
            for (u32 j = 0; j < Stage::IN_VECTOR; j++) {
                Carry c = source.carry(slot<Item>(v, j));
                own = k || j ? Operator::combine(own, c) : c;
            }
        }
        Carry upto = warp_inclusive<Operator>(own, lane);
        if (lane == WARP - 1) shared.carry[warp] = upto;
        __syncthreads();
        return upto;
    }

    // By one warp: lane w gets the combination of warps 0 to w.
    static __device__ Carry warps_inclusive(Shared &shared, u32 lane) {
        return warp_inclusive<Operator>(shared.carry[min(lane, WARPS - 1)], lane);
    }

    template <class T> static __device__ T slot(const Vector &v, u32 j) {
        static_assert(sizeof(T) <= sizeof(Slot), "an item fits its slot");
        T x;
        memcpy(&x, (const char *)&v + j * sizeof(Slot), sizeof(T));
        return x;
    }
    template <class T> static __device__ void set_slot(Vector &v, u32 j, T x) {
        static_assert(sizeof(T) <= sizeof(Slot), "a result fits its slot");
        memcpy((char *)&v + j * sizeof(Slot), &x, sizeof(T));
    }
};
