// The tile pipeline: what every single-pass primitive is an instance of.
//
//   fold      each warp goes over its slice of the tile a first time: what it counts as    Walk::fold
//   publish   warps are joined in order; one of them publishes the tile's aggregate        Join
//   prepare   what can be done with a slice before its prefix is known                     Walk::prepare
//   receive   the same warp gets the tile's prefix                                         Join
//   finish    each warp goes over its slice again, from its own prefix on                  Walk::finish
//
// A Walk is how a warp goes over its slice:
//
//   struct Walk {
//       typedef ... Stage;                      // the slice in shared memory
//       static constexpr u32 ITEMS;             // of a slice
//       static constexpr u32 MOST_SHIFT;        // how many vectors late its stage may begin; if any,
//       u32 shift() const;                      // how many of them it does, the same for all slices
//       void prefetch(u64 first, u32 lane) const;                         // the slice that begins with item `first`
//       Carry fold(Stage &stage, u64 first, u32 lane);                    // the last lane's is the whole slice's
//       void prepare(Stage &stage, u32 lane);
//       void total(Carry total) const;                                    // of all items; by one thread of the last tile
//       void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane);
//   };
//
// Most primitives need none of their own. `LaneByLane` is the one for a Source, which says what item i is and counts as, and a
// Sink, which is given each item with its exclusive and inclusive prefix. Both lie in registers and are small. The Operator has
// combine(earlier, later), and alone(x): what a carry is that nothing is combined with.
//
//   struct Source {
//       typedef ... Item;                                   // plain data, at most a slot
//       void prefetch<ITEMS>(u64 first, u32 lane) const;                         // by a warp: the slice that will be loaded
//       void load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const;       // by a warp; slots past the end: any item
//       Carry carry(Item item) const;
//       u32 shift() const;                                  // may be left out: how many vectors a stage shall begin past a line of 128 bytes
//   };
//   struct Sink {
//       typedef ... Result;                                 // plain data, at most a slot
//       Result put(u64 i, Item item, Carry exclusive, Carry inclusive) const;    // exclusive of item 0 only with init
//       void store(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const;      // by a warp, after all its puts
//       void total(Carry total) const;                      // by one thread: of all items, and what `load` put past the end
//   };
#pragma once
#include "core/stage.cuh"
#include "core/warp_scan.cuh"
#include "core/handover.cuh"

// Most of those that a large machine holds at once: a request waits for those before it, and holds up the thread that makes it,
// so that the ticket of the last ones would come late.
constexpr u32 FIRST_BLOCKS = 800;

template <u32 WARPS_, u32 VECTORS_> struct Shape {
    static constexpr u32 WARPS = WARPS_;     // of a block
    static constexpr u32 VECTORS = VECTORS_; // of a lane, 16 bytes each
    static constexpr u32 THREADS = WARPS * WARP;
};

// How late the source wants its slices to begin, if it says so.
template <class Source> __device__ inline auto shift_of(const Source &source, int) -> decltype(source.shift()) { return source.shift(); }
template <class Source> __device__ inline u32 shift_of(const Source &, long) { return 0; }

// ---- lane by lane ------------------------------------------------------------------------------------------------------------

// How a lane goes over its vectors, in scan order: a first time to fold their items, a second time to put each item with its
// prefixes. Vectors come and go in memory order. This one is for every operator, source and sink.
template <class Operator, class Source, class Sink, class Slot> class ItemByItem {
    typedef typename Operator::Carry Carry;
    typedef typename Source::Item Item;
    typedef typename Sink::Result Result;
    static_assert(sizeof(Item) <= sizeof(Slot) && sizeof(Result) <= sizeof(Slot), "an item and a result fit a slot");
    static constexpr u32 SLOTS = sizeof(Vector) / sizeof(Slot);

    Maybe<Carry> upto; // of what came before

    static __device__ Item item(const Vector &items, u32 j) {
        Item item;
        memcpy(&item, (const char *)&items + j * sizeof(Slot), sizeof(Item));
        return item;
    }
    __device__ Carry with(Carry c) const { return upto.some ? Operator::combine(upto.value, c) : Operator::alone(c); }

  public:
    __device__ ItemByItem() { upto.some = false; }
    __device__ explicit ItemByItem(Maybe<Carry> before) : upto(before) {}

    __device__ void fold(const Source &source, Vector items, bool reverse) {
        items = orient<Slot>(items, reverse);
#pragma unroll
        for (u32 j = 0; j < SLOTS; j++) upto = {with(source.carry(item(items, j))), true};
    }
    __device__ Carry folded() const { return upto.value; }

    // The first of the items is item i.
    __device__ Vector put(const Source &source, const Sink &sink, u64 i, Vector items, bool reverse) {
        items = orient<Slot>(items, reverse);
        Vector results;
#pragma unroll
        for (u32 j = 0; j < SLOTS; j++) {
            Item x = item(items, j);
            Carry inclusive = with(source.carry(x));
            Result result = sink.put(i + j, x, upto.value, inclusive);
            memcpy((char *)&results + j * sizeof(Slot), &result, sizeof(Result));
            upto = {inclusive, true};
        }
        return orient<Slot>(results, reverse);
    }
};

// Each lane owns some vectors in a row and goes over them by a LaneWalk; lanes are joined by shuffles.
template <class Operator, class Source, class Sink, class Slot, class Shape, class LaneWalk> struct LaneByLane {
    typedef typename Operator::Carry Carry;
    typedef Slice<Slot, Shape::VECTORS> Stage;
    static constexpr u32 ITEMS = Stage::ITEMS;
    static constexpr u32 MOST_SHIFT = LINE_VECTORS - 1;
    static_assert(Shape::VECTORS % 2 == 1, "an even number of vectors a lane would collide in the banks");

    Source source;
    Sink sink;
    bool reverse;
    Carry before; // of the warp's items before the lane's own; lane 0 has none

    __device__ LaneByLane(Source source, Sink sink, bool reverse) : source(source), sink(sink), reverse(reverse) {}

    __device__ u32 shift() const { return shift_of(source, 0); }
    __device__ void prefetch(u64 first, u32 lane) const { source.template prefetch<ITEMS>(first, lane); }

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        source.load(stage, first, lane);
        __syncwarp();
        LaneWalk walk;
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) walk.fold(source, stage.of_lane(lane, k, reverse), reverse);
        Carry upto = warp_inclusive<Operator>(walk.folded(), lane);
        before = shuffle_up(upto, 1);
        return upto;
    }

    __device__ void prepare(Stage &, u32) {}

    __device__ void total(Carry total) const { sink.total(total); }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        bool some = prefix.some; // whether the warp has a prefix
        Carry run = prefix.value;
        if (lane > 0) run = some ? Operator::combine(run, before) : before;
        some |= lane > 0; // whether the lane has one
        u64 i = first + lane * Stage::LANE;
        LaneWalk walk({run, some});
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) {
            Vector &items = stage.of_lane(lane, k, reverse);
            items = walk.put(source, sink, i + k * Stage::IN_VECTOR, items, reverse);
        }
        __syncwarp();
        sink.store(stage, first, lane);
    }
};

// ---- group by group ------------------------------------------------------------------------------------------------------------

// The same where items tile no vector: each lane owns some groups in a row, an odd number of vectors where that can be. Items and
// results are of one type.
template <class Operator, class Source, class Sink, class Item, class Shape> struct LaneByGroup {
    typedef typename Operator::Carry Carry;
    typedef Slice<typename GroupRun<Item>::Granule, Shape::VECTORS> Stage;
    static constexpr u32 GROUPS = Shape::VECTORS / Group<Item>::VECTORS; // of a lane
    static constexpr u32 LANE = GROUPS * Group<Item>::ITEMS, ITEMS = WARP * LANE;
    static constexpr u32 UNROLLED = alignof(Item) >= 4 ? GROUPS : 1; // shorter words are many instructions
    static constexpr u32 MOST_SHIFT = LINE_VECTORS - 1;
    static_assert(Shape::VECTORS % Group<Item>::VECTORS == 0, "groups tile a lane's vectors");

    Source source;
    Sink sink;
    bool reverse;
    Carry lanes; // of the warp's items before the lane's own; lane 0 has none

    __device__ LaneByGroup(Source source, Sink sink, bool reverse) : source(source), sink(sink), reverse(reverse) {}

    // Group g of a lane in scan order.
    __device__ Vector *of_lane(Stage &stage, u32 lane, u32 g) const {
        u32 at = lane * Shape::VECTORS + g * Group<Item>::VECTORS;
        return stage.vector + (reverse ? WARP * Shape::VECTORS - Group<Item>::VECTORS - at : at);
    }
    static __device__ Carry with(const Maybe<Carry> &upto, Carry item) {
        return upto.some ? Operator::combine(upto.value, item) : Operator::alone(item);
    }

    __device__ u32 shift() const { return shift_of(source, 0); }
    __device__ void prefetch(u64 first, u32 lane) const { source.template prefetch<ITEMS>(first, lane); }

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        source.load(stage, first, lane);
        __syncwarp();
        Maybe<Carry> upto;
        upto.some = false;
#pragma unroll UNROLLED
        for (u32 g = 0; g < GROUPS; g++) {
            Group<Item> items = Group<Item>(of_lane(stage, lane, g)).oriented(reverse);
#pragma unroll
            for (u32 j = 0; j < Group<Item>::ITEMS; j++) upto = {with(upto, source.carry(items.item[j])), true};
        }
        Carry all = warp_inclusive<Operator>(upto.value, lane);
        lanes = shuffle_up(all, 1);
        return all;
    }

    __device__ void prepare(Stage &, u32) {}

    __device__ void total(Carry total) const { sink.total(total); }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        Maybe<Carry> upto = prefix;
        if (lane > 0) upto = {prefix.some ? Operator::combine(prefix.value, lanes) : lanes, true};
        u64 i = first + lane * LANE;
#pragma unroll UNROLLED
        for (u32 g = 0; g < GROUPS; g++) {
            Vector *vectors = of_lane(stage, lane, g);
            Group<Item> items = Group<Item>(vectors).oriented(reverse), results;
#pragma unroll
            for (u32 j = 0; j < Group<Item>::ITEMS; j++) {
                Carry inclusive = with(upto, source.carry(items.item[j]));
                results.item[j] = sink.put(i + g * Group<Item>::ITEMS + j, items.item[j], upto.value, inclusive);
                upto = {inclusive, true};
            }
            results.oriented(reverse).store(vectors);
        }
        __syncwarp();
        sink.store(stage, first, lane);
    }
};

// ---- the pipeline ------------------------------------------------------------------------------------------------------------

// The warps' stages side by side, if the walk says so some vectors late.
template <class Walk, u32 WARPS, u32 MOST_SHIFT = Walk::MOST_SHIFT> struct Stages {
    alignas(LINE) Vector vectors[WARPS * sizeof(typename Walk::Stage) / sizeof(Vector) + MOST_SHIFT];
    __device__ typename Walk::Stage &of(const Walk &walk, u32 warp) { return ((typename Walk::Stage *)(vectors + walk.shift()))[warp]; }
};
template <class Walk, u32 WARPS> struct Stages<Walk, WARPS, 0> {
    typename Walk::Stage stage[WARPS];
    __device__ typename Walk::Stage &of(const Walk &, u32 warp) { return stage[warp]; }
};

template <class Operator, class Walk, u32 WARPS, class Join> struct TilePipeline {
    typedef typename Operator::Carry Carry;
    static constexpr u32 SLICE = Walk::ITEMS, TILE = WARPS * SLICE;

    struct Shared {
        Stages<Walk, WARPS> stages;
        u32 tile;
        Carry carry[WARPS]; // each warp's aggregate, then its exclusive prefix
        typename Join::Shared join;
    };

    static __device__ void run(Shared &shared, Walk walk, Join join, Maybe<Carry> init) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, tile;
        // The blocks that start with the grid all wait for their tickets at once; meanwhile a tile, for most their own,
        // comes into the L2 cache. Later blocks wait less than such a request costs.
        u32 likely = join.likely();
        if (likely < FIRST_BLOCKS) walk.prefetch(u64(likely) * TILE + warp * SLICE, lane);
        if (!join.enter(shared.join, init, tile)) return;
        if (threadIdx.x == 0) shared.tile = tile;
        u64 first = u64(tile) * TILE + warp * SLICE;
        fold(shared, walk, first);

        // ---- publish
        Carry warps = Carry(), aggregate = Carry(); // up to this lane's warp; the tile's
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
            __syncwarp(); // every lane has read the aggregates that the prefixes overwrite
            if (lane < WARPS) shared.carry[lane] = lane == 0 ? prefix.value : some ? Operator::combine(prefix.value, earlier) : earlier;
            if (lane == 0 && join.is_last(tile)) walk.total(some ? Operator::combine(prefix.value, aggregate) : aggregate);
        }
        __syncthreads();

        tile = *(volatile u32 *)&shared.tile; // not kept meanwhile, nor the slice's place in memory: eight blocks have no registers for them
        walk.finish(shared.stages.of(walk, warp), {shared.carry[warp], some || warp > 0}, u64(tile) * TILE + warp * SLICE, lane);
        if (warp == 0) join.retire(tile, lane);
    }

    // Only the first half: the tile's aggregate, to `aggregates` at the block's number.
    static __device__ void aggregate(Shared &shared, Walk walk, Carry *aggregates) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        fold(shared, walk, u64(blockIdx.x) * TILE + warp * SLICE);
        if (warp > 0) return;
        Carry upto = warps_inclusive(shared, lane);
        if (lane == WARPS - 1) aggregates[blockIdx.x] = upto;
    }

  private:
    // Leaves the warp's slice in its stage and its aggregate in `shared.carry`.
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

// The pipeline from a Source to a Sink.
template <class Operator, class Source, class Sink, class Slot, class Shape, class Join,
          class LaneWalk = ItemByItem<Operator, Source, Sink, Slot>,
          class Walk_ = LaneByLane<Operator, Source, Sink, Slot, Shape, LaneWalk>>
struct Pipeline {
    typedef typename Operator::Carry Carry;
    typedef Walk_ Walk;
    typedef TilePipeline<Operator, Walk, Shape::WARPS, Join> Tiles;
    typedef typename Tiles::Shared Shared;

    static __device__ void run(Shared &shared, Source source, Sink sink, Join join, Maybe<Carry> init, bool reverse) {
        Tiles::run(shared, Walk(source, sink, reverse), join, init);
    }
    static __device__ void aggregate(Shared &shared, Source source, Sink sink, bool reverse, Carry *aggregates) {
        Tiles::aggregate(shared, Walk(source, sink, reverse), aggregates);
    }
};
