// The tile pipeline: what every single-pass primitive is an instance of.
//
//   load      each warp brings its slice of the tile into shared memory          Source::load
//   fold      each lane folds its items; lanes, then warps, are joined in order  Source::carry
//   exchange  one warp publishes the tile's aggregate and gets its prefix         Join
//   scan      each lane goes over its items again from its own prefix on         Sink::put
//   store     each warp brings its slice out                                     Sink::store
//
// A Source says what item i is and what it counts as; a Sink is given each item with its exclusive and inclusive prefix.
// Both lie in registers and are small. The Operator has combine(earlier, later), and alone(x): what a carry is that nothing
// is combined with.
//
//   struct Source {
//       typedef ... Item;                                   // plain data, at most a slot
//       void prefetch<ITEMS>(u64 first, u32 lane) const;                         // by a warp: the slice that will be loaded
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

constexpr u32 FIRST_BLOCKS = 2048; // as many as a large machine holds at once, or a few more

template <u32 WARPS_, u32 VECTORS_> struct Shape {
    static constexpr u32 WARPS = WARPS_;     // of a block
    static constexpr u32 VECTORS = VECTORS_; // of a lane, 16 bytes each
    static constexpr u32 THREADS = WARPS * WARP;
};

// A Walk is how a lane goes over its vectors, in scan order: a first time to fold their items, a second time to put each
// item with its prefixes. Vectors come and go in memory order. This one is for every operator, source and sink.
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

template <class Operator, class Source, class Sink, class Slot, class Shape, class Join,
          class Walk = ItemByItem<Operator, Source, Sink, Slot>>
struct Pipeline {
    typedef typename Operator::Carry Carry;
    typedef Slice<Slot, Shape::VECTORS> Stage;
    static constexpr u32 WARPS = Shape::WARPS, TILE = WARPS * Stage::ITEMS;

    struct Shared {
        Stage stage[WARPS];
        Carry carry[WARPS]; // each warp's aggregate, then its exclusive prefix
        typename Join::Shared join;
    };

    static __device__ void run(Shared &shared, Source source, Sink sink, Join join, Maybe<Carry> init, bool reverse) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, tile;
        // The blocks that start with the grid all wait for their tickets at once; meanwhile a tile, for most their own,
        // comes into the L2 cache. Later blocks wait less than such a request costs.
        u32 likely = join.likely();
        if (likely < FIRST_BLOCKS) source.template prefetch<Stage::ITEMS>(u64(likely) * TILE + warp * Stage::ITEMS, lane);
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
        Walk walk({run, some});
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) {
            Vector &items = stage.of_lane(lane, k, reverse);
            items = walk.put(source, sink, i + k * Stage::IN_VECTOR, items, reverse);
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
        Walk walk;
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) walk.fold(source, stage.of_lane(lane, k, reverse), reverse);
        Carry upto = warp_inclusive<Operator>(walk.folded(), lane);
        if (lane == WARP - 1) shared.carry[warp] = upto;
        __syncthreads();
        return upto;
    }

    // By one warp: lane w gets the combination of warps 0 to w.
    static __device__ Carry warps_inclusive(Shared &shared, u32 lane) {
        return warp_inclusive<Operator>(shared.carry[min(lane, WARPS - 1)], lane);
    }
};
