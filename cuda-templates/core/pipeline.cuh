// The tile pipeline: the single-pass kernel that scan, compaction, partition, unique and offsets
// are instances of. A block processes one tile, and each of its warps one slice of the tile.
//
//   fold      each warp loads its slice and folds it to a carry               Walk::fold
//   publish   the warps' carries are joined in order; one warp publishes      Join::publish
//             the tile's aggregate
//   prepare   work on the slice that needs no prefix                          Walk::prepare
//   receive   the same warp receives the tile's exclusive prefix              Join::receive
//   finish    each warp goes over its slice again, from its own prefix on     Walk::finish
//
// A walk is how a warp goes over its slice. `lane` is the caller's lane; `first` the slice's first
// item.
//
//   struct Walk {
//       typedef ... Stage;                     // the slice in shared memory
//       static constexpr u32 ITEMS;            // items of a slice
//       static constexpr u32 MOST_SHIFT;       // vectors that a stage may begin late; if not 0:
//       u32 shift() const;                     // vectors that every stage begins late
//       void prefetch(u64 first, u32 lane) const;
//       Carry fold(Stage &stage, u64 first, u32 lane);       // valid in the last lane
//       void prepare(Stage &stage, u32 lane);
//       void total(Carry total) const;         // of all items; by one thread of the last tile
//       void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane);
//   };
//
// Most primitives use `LaneByLane`, the walk from a source to a sink. A source makes the carry of
// item i. A sink receives every item with its exclusive and inclusive prefix. Both are copied into
// registers and should be small. An operator has `combine(earlier, later)` and `alone(x)`: the
// partial result of a carry that nothing is combined with.
//
//   struct Source {
//       typedef ... Item;                      // plain data, at most a slot
//       void prefetch<ITEMS>(u64 first, u32 lane) const;     // by a warp
//       void load(Slice<Slot, VECTORS> &, u64 first, u32 lane) const;
//                                              // by a warp; any item in slots past the end
//       Carry carry(Item item) const;
//       u32 shift() const;                     // optional: vectors that stages begin past a line
//   };
//   struct Sink {
//       typedef ... Result;                    // plain data, at most a slot
//       Result put(u64 i, Item, Carry exclusive, Carry inclusive) const;
//                                              // without init, item 0's `exclusive` is undefined
//       void store(Slice<Slot, VECTORS> &, u64 first, u32 lane) const;
//                                              // by a warp, after all its puts
//       void total(Carry total) const;         // by one thread: of all items and of what `load`
//                                              // put into slots past the end
//   };
#pragma once
#include "core/stage.cuh"
#include "core/warp_scan.cuh"
#include "core/handover.cuh"
#include "core/length.cuh"

// Blocks that prefetch their likely tile: two for each multiprocessor of a large GPU. A prefetch holds
// its thread up until earlier ones are in flight, so with more of them tickets would come late.
constexpr u32 FIRST_BLOCKS = 264;

// How a block is cut.
template <u32 WARPS_, u32 VECTORS_> struct Shape {
    static constexpr u32 WARPS = WARPS_;     // of a block
    static constexpr u32 VECTORS = VECTORS_; // of a lane, 16 bytes each
    static constexpr u32 THREADS = WARPS * WARP;
};

// The source's `shift()`, or 0 if it has none.
template <class Source> __device__ inline auto shift_of(const Source &source, int) -> decltype(source.shift()) {
    return source.shift();
}
template <class Source> __device__ inline u32 shift_of(const Source &, long) { return 0; }

// ---- choices before loops -----------------------------------------------------------------------
// Calls `use` with a choice as a constant: the branch is taken once a slice, not once an item.

template <bool VALUE> struct Known {
    __device__ constexpr operator bool() const { return VALUE; }
};
template <class Use> __device__ inline void with_known(bool choice, const Use &use) {
    if (choice) use(Known<true>());
    else use(Known<false>());
}
// The same for the choices of a sink, which has an overload of its own if it has some.
template <class Sink, class Use> __device__ inline void with_choices(const Sink &sink, const Use &use) { use(sink); }

// ---- LaneByLane: each lane owns consecutive vectors ---------------------------------------------

// How a lane goes over its vectors, in scan order: first to fold their items, then to put each item
// with its prefixes. Vectors are passed in memory order. This lane walk serves every operator,
// source and sink.
template <class Operator, class Source, class Sink, class Slot> class ItemByItem {
    typedef typename Operator::Carry Carry;
    typedef typename Source::Item Item;
    typedef typename Sink::Result Result;
    static_assert(sizeof(Item) <= sizeof(Slot) && sizeof(Result) <= sizeof(Slot), "an item and a result fit a slot");
    static constexpr u32 SLOTS = sizeof(Vector) / sizeof(Slot);

    Maybe<Carry> upto; // the inclusive prefix of the items before

    static __device__ Item item(const Vector &items, u32 j) {
        Item item;
        memcpy(&item, (const char *)&items + j * sizeof(Slot), sizeof(Item));
        return item;
    }

  public:
    __device__ ItemByItem() { upto.some = false; }
    __device__ explicit ItemByItem(Maybe<Carry> before) : upto(before) {}

    __device__ void fold(const Source &source, Vector items, bool reverse) {
        items = orient<Slot>(items, reverse);
#pragma unroll
        for (u32 j = 0; j < SLOTS; j++) upto = {item_after<Operator>(upto, source.carry(item(items, j))), true};
    }
    __device__ Carry folded() const { return upto.value; }

    // The vector's results. Its first item, in scan order, is item i.
    __device__ Vector put(const Source &source, const Sink &sink, u64 i, Vector items, bool reverse) {
        items = orient<Slot>(items, reverse);
        Vector results;
#pragma unroll
        for (u32 j = 0; j < SLOTS; j++) {
            Item x = item(items, j);
            Carry inclusive = item_after<Operator>(upto, source.carry(x));
            Result result = sink.put(i + j, x, upto.value, inclusive);
            memcpy((char *)&results + j * sizeof(Slot), &result, sizeof(Result));
            upto = {inclusive, true};
        }
        return orient<Slot>(results, reverse);
    }
};

// The walk from a source to a sink. Each lane goes over consecutive vectors by a LaneWalk, and a
// warp scan joins the lanes.
template <class Operator, class Source, class Sink, class Slot, class Shape, class LaneWalk> struct LaneByLane {
    typedef typename Operator::Carry Carry;
    typedef Slice<Slot, Shape::VECTORS> Stage;
    static constexpr u32 ITEMS = Stage::ITEMS;
    static constexpr u32 MOST_SHIFT = LINE_VECTORS - 1;
    static_assert(Shape::VECTORS % 2 == 1, "an even number of vectors a lane would collide in the banks");

    Source source;
    Sink sink;
    bool reverse;
    Carry before; // fold of the warp's items before this lane's; undefined in lane 0

    __device__ LaneByLane(Source source, Sink sink, bool reverse) : source(source), sink(sink), reverse(reverse) {}

    __device__ u32 shift() const { return shift_of(source, 0); }
    __device__ void prefetch(u64 first, u32 lane) const { source.template prefetch<ITEMS>(first, lane); }

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        source.load(stage, first, lane);
        __syncwarp();
        return fold_loaded(stage, lane);
    }

    // The fold of a slice that lies in the stage.
    __device__ Carry fold_loaded(Stage &stage, u32 lane) {
        LaneWalk walk;
        with_known(reverse, [&](auto reverse) {
#pragma unroll
            for (u32 k = 0; k < Shape::VECTORS; k++) walk.fold(source, stage.of_lane(lane, k, reverse), reverse);
        });
        Carry upto = warp_inclusive<Operator>(walk.folded(), lane);
        before = shuffle_up(upto, 1);
        return upto;
    }

    __device__ void prepare(Stage &, u32) {}

    __device__ void total(Carry total) const { sink.total(total); }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        bool some = prefix.some; // whether the warp has a prefix
        Carry run = prefix.value;
        if (lane > 0) run = after<Operator>(prefix, before);
        some |= lane > 0; // whether the lane has a prefix
        u64 i = first + lane * Stage::LANE;
        LaneWalk walk({run, some});
        with_known(reverse, [&](auto reverse) {
            with_choices(sink, [&](const Sink &sink) {
#pragma unroll
                for (u32 k = 0; k < Shape::VECTORS; k++) {
                    Vector &items = stage.of_lane(lane, k, reverse);
                    items = walk.put(source, sink, i + k * Stage::IN_VECTOR, items, reverse);
                    // Keeps the compiler from loading most vectors ahead, which takes registers.
                    if (k % 4 == 3) __syncwarp();
                }
            });
        });
        __syncwarp();
        sink.store(stage, first, lane);
    }
};

// ---- LaneByGroup: the same for items that tile no vector ----------------------------------------
// Each lane owns consecutive groups, an odd number of vectors where that is possible. Items and
// results have one type.
template <class Operator, class Source, class Sink, class Item, class Shape> struct LaneByGroup {
    typedef typename Operator::Carry Carry;
    typedef Slice<typename GroupRun<Item>::Granule, Shape::VECTORS> Stage;
    static constexpr u32 GROUPS = Shape::VECTORS / Group<Item>::VECTORS; // of a lane
    static constexpr u32 LANE = GROUPS * Group<Item>::ITEMS, ITEMS = WARP * LANE;
    // Unrolling shorter granules makes too many instructions.
    static constexpr u32 UNROLLED = alignof(Item) >= 4 ? GROUPS : 1;
    static constexpr u32 MOST_SHIFT = LINE_VECTORS - 1;
    static_assert(Shape::VECTORS % Group<Item>::VECTORS == 0, "groups tile a lane's vectors");

    Source source;
    Sink sink;
    bool reverse;
    Carry lanes; // fold of the warp's items before this lane's; undefined in lane 0

    __device__ LaneByGroup(Source source, Sink sink, bool reverse) : source(source), sink(sink), reverse(reverse) {}

    // The first vector of a lane's group g, in scan order.
    __device__ Vector *of_lane(Stage &stage, u32 lane, u32 g) const {
        u32 at = lane * Shape::VECTORS + g * Group<Item>::VECTORS;
        return stage.vector + (reverse ? WARP * Shape::VECTORS - Group<Item>::VECTORS - at : at);
    }

    __device__ u32 shift() const { return shift_of(source, 0); }
    __device__ void prefetch(u64 first, u32 lane) const { source.template prefetch<ITEMS>(first, lane); }

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        source.load(stage, first, lane);
        __syncwarp();
        return fold_loaded(stage, lane);
    }

    __device__ Carry fold_loaded(Stage &stage, u32 lane) {
        Maybe<Carry> upto;
        upto.some = false;
#pragma unroll UNROLLED
        for (u32 g = 0; g < GROUPS; g++) {
            Group<Item> items = Group<Item>(of_lane(stage, lane, g)).oriented(reverse);
#pragma unroll
            for (u32 j = 0; j < Group<Item>::ITEMS; j++)
                upto = {item_after<Operator>(upto, source.carry(items.item[j])), true};
        }
        Carry all = warp_inclusive<Operator>(upto.value, lane);
        lanes = shuffle_up(all, 1);
        return all;
    }

    __device__ void prepare(Stage &, u32) {}

    __device__ void total(Carry total) const { sink.total(total); }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        Maybe<Carry> upto = prefix;
        if (lane > 0) upto = {after<Operator>(prefix, lanes), true};
        u64 i = first + lane * LANE;
#pragma unroll UNROLLED
        for (u32 g = 0; g < GROUPS; g++) {
            Vector *vectors = of_lane(stage, lane, g);
            Group<Item> items = Group<Item>(vectors).oriented(reverse), results;
#pragma unroll
            for (u32 j = 0; j < Group<Item>::ITEMS; j++) {
                Carry inclusive = item_after<Operator>(upto, source.carry(items.item[j]));
                results.item[j] = sink.put(i + g * Group<Item>::ITEMS + j, items.item[j], upto.value, inclusive);
                upto = {inclusive, true};
            }
            results.oriented(reverse).store(vectors);
        }
        __syncwarp();
        sink.store(stage, first, lane);
    }
};

// ---- the pipeline -------------------------------------------------------------------------------

// The stages of a block's warps, side by side, from `walk.shift()` vectors past a line on.
template <class Walk, u32 WARPS, u32 MOST_SHIFT = Walk::MOST_SHIFT> struct Stages {
    alignas(LINE) Vector vectors[WARPS * sizeof(typename Walk::Stage) / sizeof(Vector) + MOST_SHIFT];
    __device__ typename Walk::Stage &of(const Walk &walk, u32 warp) {
        return ((typename Walk::Stage *)(vectors + walk.shift()))[warp];
    }
};
template <class Walk, u32 WARPS> struct Stages<Walk, WARPS, 0> {
    typename Walk::Stage stage[WARPS];
    __device__ typename Walk::Stage &of(const Walk &, u32 warp) { return stage[warp]; }
};

// The kernel body: a block takes a tile. Warp 0 alone talks to the join; the other warps wait for
// their prefixes at the barrier before `finish`.
template <class Operator, class Walk, u32 WARPS, class Join> struct TilePipeline {
    typedef typename Operator::Carry Carry;
    static constexpr u32 SLICE = Walk::ITEMS, TILE = WARPS * SLICE;

    struct Shared {
        Stages<Walk, WARPS> stages;
        u32 tile;
        Carry carry[WARPS]; // each warp's aggregate, then its exclusive prefix
        typename Join::Shared join;
    };

    // Returns whether the block has had a tile.
    static __device__ bool run(Shared &shared, Walk walk, Join join, Maybe<Carry> init) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, tile;
        // ---- prefetch: the grid's first blocks wait for their tickets together. Meanwhile their
        // likely tile comes into L2. Later blocks wait less for a ticket than a prefetch costs.
        u32 likely = join.likely();
        if (likely < FIRST_BLOCKS) walk.prefetch(u64(likely) * TILE + warp * SLICE, lane);
        if (!join.enter(shared.join, init, tile)) return false;
        if (threadIdx.x == 0) shared.tile = tile;
        u64 first = u64(tile) * TILE + warp * SLICE;
        fold(shared, walk, first);

        // ---- publish
        // The fold of warps 0 to `lane`, and that of all warps.
        Carry warps = Carry(), aggregate = Carry();
        if (warp == 0) {
            warps = warps_inclusive(shared, lane);
            aggregate = shuffle(warps, WARPS - 1);
            join.publish(tile, aggregate, lane);
        }
        walk.prepare(shared.stages.of(walk, warp), lane);

        // ---- receive
        bool some = init.some || tile > 0; // whether the tile has a prefix
        if (warp == 0) {
            Maybe<Carry> prefix = join.receive(tile, aggregate, init, lane);
            Carry earlier = shuffle_up(warps, 1);
            __syncwarp(); // every lane has read the aggregate that a prefix overwrites
            if (lane < WARPS)
                shared.carry[lane] = lane == 0 ? prefix.value
                                     : some    ? Operator::combine(prefix.value, earlier)
                                               : earlier;
            if (lane == 0 && join.is_last(tile))
                walk.total(some ? Operator::combine(prefix.value, aggregate) : aggregate);
        }
        __syncthreads();

        // ---- finish: the tile's number is read again. Kept in a register since `enter`, like the
        // slice's address, it would leave too few registers for eight blocks.
        tile = *(volatile u32 *)&shared.tile;
        walk.finish(shared.stages.of(walk, warp), {shared.carry[warp], some || warp > 0},
                    u64(tile) * TILE + warp * SLICE, lane);
        if (warp == 0) join.retire(tile, lane);
        return true;
    }

    // The first half alone: the tile's aggregate, to `aggregates` at the block's number.
    static __device__ void aggregate(Shared &shared, Walk walk, Carry *aggregates) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        fold(shared, walk, u64(blockIdx.x) * TILE + warp * SLICE);
        if (warp > 0) return;
        Carry upto = warps_inclusive(shared, lane);
        if (lane == WARPS - 1) aggregates[blockIdx.x] = upto;
    }

  private:
    // Leaves the warp's slice in its stage, and its aggregate in `shared.carry`.
    static __device__ void fold(Shared &shared, Walk &walk, u64 first) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        Carry upto = walk.fold(shared.stages.of(walk, warp), first, lane);
        if (lane == WARP - 1) shared.carry[warp] = upto;
        __syncthreads();
    }

    // By one warp: lane w gets the combination of warps 0 to w.
    static __device__ Carry warps_inclusive(Shared &shared, u32 lane) {
        return warp_inclusive<Operator, WARPS>(shared.carry[min(lane, WARPS - 1)], lane);
    }
};

// The tile pipeline with a walk from a source to a sink.
template <class Operator, class Source, class Sink, class Slot, class Shape, class Join,
          class LaneWalk = ItemByItem<Operator, Source, Sink, Slot>,
          class Walk_ = LaneByLane<Operator, Source, Sink, Slot, Shape, LaneWalk>>
struct Pipeline {
    typedef typename Operator::Carry Carry;
    typedef Walk_ Walk;
    typedef TilePipeline<Operator, Walk, Shape::WARPS, Join> Tiles;
    typedef typename Tiles::Shared Shared;
    static constexpr u32 TILE = Tiles::TILE;

    static __device__ bool run(Shared &shared, Source source, Sink sink, Join join, Maybe<Carry> init, bool reverse) {
        return Tiles::run(shared, Walk(source, sink, reverse), join, init);
    }
    static __device__ void aggregate(Shared &shared, Source source, Sink sink, bool reverse, Carry *aggregates) {
        Tiles::aggregate(shared, Walk(source, sink, reverse), aggregates);
    }
};
