// Partition into one buffer: a part begins where the part before ends, which is known only when all
// items are counted. Two algorithms:
//
// - One cooperative launch, if all tiles are resident at once (`partition_cooperative`): each block
//   keeps its tile in shared memory, and an all-gather of the counts (`AllGather`) tells it where
//   its items go.
// - Two launches (`count_tiles`, `move_tiles`): every item is read twice, once to count the parts
//   and once to move it. The second launch begins with the last tile, because the data read last
//   is still in L2.
#pragma once
#include "compact/compact.cuh"

// ---- one cooperative launch ---------------------------------------------------------------------

// A join for counts: every tile reads the counts of all tiles, later ones too. Only a cooperative
// launch may wait for later tiles, since it promises that all blocks are resident.
template <u32 PARTS> struct AllGather {
    typedef typename Counts<PARTS>::Carry Carry;
    typedef Counts<PARTS, u32> Counts32; // no GPU holds 2^32 items in shared memory
    typedef typename Counts32::Carry Carry32;
    static constexpr u32 POLLED = 4; // words that a lane polls at once

    u32 tiles;
    u32 *retired;                // tiles that have read all words
    Status<Carry32> *aggregates; // by tile
    Carry *totals;               // the totals of all tiles, in shared memory

    struct Shared { Carry totals; };

    // `memory` is zero before and after a partition.
    __device__ AllGather(void *memory, u32 tiles)
        : tiles(tiles), retired((u32 *)memory), aggregates((Status<Carry32> *)(retired + 4)) {}

    // A block's tile is known at once, so nothing is prefetched.
    __device__ u32 likely() const { return NO_TILE; }
    __device__ bool enter(Shared &shared, Maybe<Carry>, u32 &tile) {
        totals = &shared.totals;
        tile = blockIdx.x;
        return tile < tiles;
    }
    __device__ bool is_last(u32 tile) const { return tile == tiles - 1; }

    __device__ void publish(u32 tile, Carry aggregate, u32 lane) {
        Carry32 counts;
#pragma unroll
        for (u32 k = 0; k < Counts32::COUNTED; k++) counts.of[k] = u32(aggregate.of[k]);
        if (lane == 0) aggregates[tile].publish(counts);
    }

    // Lanes add words in any order: sums of counts do not depend on it.
    __device__ Maybe<Carry> receive(u32 tile, Carry, Maybe<Carry>, u32 lane) {
        Carry32 before = {}, all = {};
        for (u32 first = lane; first < tiles; first += POLLED * WARP) {
            Carry32 polled[POLLED];
            for (bool have = false; !have;) {
                have = true;
#pragma unroll
                for (u32 k = 0; k < POLLED; k++)
                    if (first + k * WARP < tiles) have &= aggregates[first + k * WARP].poll(polled[k]);
            }
#pragma unroll
            for (u32 k = 0; k < POLLED; k++) {
                if (first + k * WARP < tiles) all = Counts32::combine(all, polled[k]);
                if (first + k * WARP < tile) before = Counts32::combine(before, polled[k]);
            }
        }
        __syncwarp();
        before = shuffle(warp_inclusive<Counts32>(before, lane), WARP - 1);
        all = shuffle(warp_inclusive<Counts32>(all, lane), WARP - 1);
        Maybe<Carry> prefix;
        prefix.some = true;
#pragma unroll
        for (u32 k = 0; k < Counts32::COUNTED; k++) {
            prefix.value.of[k] = before.of[k];
            if (lane == 0) totals->of[k] = all.of[k];
        }
        return prefix;
    }

    // The last tile to come here clears all words. A tile's reads come before its acquire-release
    // addition and the clearing after the last one, so no tile reads a cleared word.
    __device__ void retire(u32, u32 lane) {
        u32 last = 0;
        if (lane == 0) last = add_acquire_release(retired, 1) == tiles - 1;
        if (!__shfl_sync(ALL_LANES, last, 0)) return;
        for (u32 i = lane; i < tiles; i += WARP) aggregates[i].clear();
        if (lane == 0) *retired = 0;
    }
};

// The kernel body of the cooperative launch.
template <u32 WARPS, u32 ROWS, u32 PARTS, class Choice, class First>
__device__ void partition_cooperative(const CompactCall &call, Choice choice, First column) {
    typedef AllGather<PARTS> Join;
    typedef CompactWalk<ROWS, Choice, First, NoColumn, PARTS> Walk;
    typedef TilePipeline<Counts<PARTS>, Walk, WARPS, Join> Partition;
    __shared__ typename Partition::Shared shared;
    Partition::run(shared, Walk(call, choice, column, NoColumn(), &shared.join.totals), Join(call.memory, call.tiles),
                   {{}, true});
}

// ---- two launches -------------------------------------------------------------------------------

// The walk of the counting launch: leaves for each tile of TILE items how many items of each part
// come up to its end. A warp counts EACH tiles.
template <u32 TILE, u32 EACH, class Choice, u32 PARTS> struct CountWalk {
    typedef typename Counts<PARTS>::Carry Carry;
    typedef Counts<PARTS, u32> Counts32;
    static constexpr u32 ITEMS = EACH * TILE, COUNTED = Counts32::COUNTED, MOST_SHIFT = 0;
    struct Stage {
        typename Counts32::Carry tile[EACH]; // its items of each part
    };

    CompactCall call;
    Choice choice;
    Carry *prefixes; // by tile: inclusive prefix

    __device__ CountWalk(const CompactCall &call, Choice choice, Carry *prefixes)
        : call(call), choice(choice), prefixes(prefixes) {}

    __device__ void prefetch(u64, u32) const {}

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        Carry all = {};
#pragma unroll 1
        for (u32 e = 0; e < EACH; e++, first += TILE) {
            typename Counts32::Carry own = {};
            if (first < call.n) choice.count(own.of, first, u32(min(call.n - first, u64(TILE))), call.flags, lane);
            own = shuffle(warp_inclusive<Counts32>(own, lane), WARP - 1);
            if (lane == 0) stage.tile[e] = own;
#pragma unroll
            for (u32 k = 0; k < COUNTED; k++) all.of[k] += own.of[k];
        }
        return all;
    }

    __device__ void prepare(Stage &, u32) {}

    __device__ void total(Carry total) const {
#pragma unroll
        for (u32 k = 0; k < COUNTED; k++) *(volatile u64 *)&call.count[k] = total.of[k]; // a host may poll it
    }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        if (lane > 0) return;
#pragma unroll 1
        for (u32 e = 0; e < EACH && first < call.n; e++, first += TILE) {
#pragma unroll
            for (u32 k = 0; k < COUNTED; k++) prefix.value.of[k] += stage.tile[e].of[k];
            prefixes[first / TILE] = prefix.value;
        }
    }
};

// The kernel body of the first launch. The second may start while the last blocks of this one run.
template <u32 WARPS, u32 EACH, u32 TILE, u32 PARTS, class Choice>
__device__ void count_tiles(const CompactCall &call, Choice choice, typename Counts<PARTS>::Carry *prefixes) {
    typedef PrefixServer<Counts<PARTS>, WARPS> Join;
    typedef CountWalk<TILE, EACH, Choice, PARTS> Walk;
    typedef TilePipeline<Counts<PARTS>, Walk, WARPS, Join> Count;
    __shared__ typename Count::Shared shared;
    launch_next();
    Count::run(shared, Walk(call, choice, prefixes), Join(call.memory, call.tiles), {{}, true});
}

// The prefixes that `count_tiles` has left. Blocks take tiles from the last one down.
template <class Operator> struct CountedPrefixes : GivenPrefixes<Operator> {
    typedef typename Operator::Carry Carry;
    using GivenPrefixes<Operator>::GivenPrefixes;

    __device__ bool enter(typename GivenPrefixes<Operator>::Shared &, Maybe<Carry>, u32 &tile) {
        tile = gridDim.x - 1 - blockIdx.x;
        return true;
    }
    __device__ bool is_last(u32) const { return false; } // `count_tiles` has written the total
    __device__ Maybe<Carry> receive(u32 tile, Carry aggregate, Maybe<Carry> init, u32 lane) {
        // The tile is loaded and folded by now: only the prefixes need the first launch.
        wait_for_launch_before();
        return GivenPrefixes<Operator>::receive(tile, aggregate, init, lane);
    }
};

// The kernel body of the second launch. No block waits for another.
template <u32 WARPS, u32 ROWS, u32 PARTS, class Choice, class First>
__device__ void move_tiles(const CompactCall &call, Choice choice, First column,
                           const typename Counts<PARTS>::Carry *prefixes) {
    typedef CountedPrefixes<Counts<PARTS>> Join;
    typedef CompactWalk<ROWS, Choice, First, NoColumn, PARTS> Walk;
    typedef TilePipeline<Counts<PARTS>, Walk, WARPS, Join> Move;
    __shared__ typename Move::Shared shared;
    const typename Walk::Carry *totals = (const typename Walk::Carry *)call.count;
    Move::run(shared, Walk(call, choice, column, NoColumn(), totals), Join(prefixes), {{}, true});
}
