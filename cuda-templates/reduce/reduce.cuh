// Reduce: all items combined into one, in order, by one launch for any length.
//
//   fold    each warp folds its stretch of the input, slice by slice     no barrier
//   block   the warps' carries are joined in order                       one barrier
//   grid    the block that finishes last joins the blocks' aggregates    one ticket a block
//
// A stretch is a run of consecutive slices. The slices are shared evenly among the warps of the
// grid, so the grouping depends on n and the shape of the grid alone. A slice is loaded and folded
// as a scan's is.
#pragma once
#include "scan/scan.cuh"

// The share of each warp of the first `blocks` blocks of the grid.
struct Stretches {
    u64 each; // slices of a warp
    u32 more; // warps, the first ones, that have one more
    u32 blocks;

    // `slices` slices, shared by as many blocks of `warps` warps as can have some.
    static __device__ Stretches of(u64 slices, u32 warps) {
        u32 blocks = u32(min(u64(gridDim.x), max((slices + warps - 1) / warps, u64(1))));
        u64 all = u64(blocks) * warps;
        return {slices / all, u32(slices % all), blocks};
    }

    __device__ u64 first_of(u64 warp) const { return warp * each + min(warp, u64(more)); }
    // How many warps, from `warp` on and at most `warps`, have slices.
    __device__ u32 with_slices(u64 warp, u32 warps) const {
        return each > 0 ? warps : u32(min(u64(warps), more - warp));
    }
};

// 24 warps fit, so that a thread has 80 registers. The number of blocks in src/cuda/reduce/tuning.rs counts on as many in
// the second range; the first one takes few registers by itself. Without this bound the compiler takes up to 104, because
// it loads all vectors of a lane at once.
template <class Carry, u32 WARPS> constexpr u32 resident() { return fitting<Carry, WARPS, 24>(); }

// `Joined` joins what slices are folded to: the operator itself, or `FirstOf` it (position.cuh).
template <class Operator, class Shape, class Joined = Operator> struct Reduction {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry ItemCarry;
    typedef typename Joined::Carry Carry;
    typedef
        typename ScanWalk<Operator, Shape, typename Operator::Pairs, sizeof(Vector) % sizeof(Element) == 0>::Type Walk;
    typedef typename Walk::Stage Stage;
    static constexpr u32 WARPS = Shape::WARPS, THREADS = Shape::THREADS, SLICE = Walk::ITEMS;

    struct Shared {
        Stages<Walk, WARPS> stages;
        Carry carry[WARPS]; // each warp's aggregate
        bool is_last;       // whether the block is the last to finish
    };

    // The kernel body of reduce. `init` has a meaning only with `has_init`, which is set if there are
    // no items.
    static __device__ void run(Shared &shared, Element *in, u64 n, Stretches stretches, Element *out, u32 *ticket,
                               Carry *aggregates, Carry init, bool has_init) {
        join_all(shared, in, n, stretches, ticket, aggregates, [&](bool is_empty, const Carry &all) {
            if (threadIdx.x == 0)
                *out = Operator::lower(is_empty ? init : has_init ? Operator::combine(init, all) : all);
        });
    }

    // Joins all items. Every thread of the block that finishes last calls `finish` with the result,
    // which is right in warp 0; without items every block does. `ticket` is zero before and after the
    // launch; `aggregates` has room for one carry a block.
    template <class Finish>
    static __device__ void join_all(Shared &shared, Element *in, u64 n, Stretches stretches, u32 *ticket,
                                    Carry *aggregates, const Finish &finish) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        if (n == 0) return finish(true, Carry());
        // ---- fold
        u64 warp_of_block = u64(blockIdx.x) * WARPS, warp_of_grid = warp_of_block + warp;
        u64 first = stretches.first_of(warp_of_grid) * SLICE,
            end = min(stretches.first_of(warp_of_grid + 1) * SLICE, n);
        ScanSource<Operator> source{{in, n, false}};
        Carry stretch = fold(shared.stages.of(Walk(source, {}, false), warp), source, first, end, lane);

        // ---- block
        if (lane == WARP - 1) shared.carry[warp] = stretch;
        __syncthreads();
        Carry all = Carry(); // by warp 0
        if (warp == 0) all = warps_fold(shared, stretches.with_slices(warp_of_block, WARPS), lane);

        // ---- grid
        if (stretches.blocks > 1) {
            if (threadIdx.x == 0) {
                aggregates[blockIdx.x] = all;
                // Release: the aggregate comes before the ticket. Acquire: the last block's threads
                // read every aggregate after its ticket, and after the barrier.
                shared.is_last = add_acquire_release(ticket, 1) == stretches.blocks - 1;
            }
            __syncthreads();
            if (!shared.is_last) return;
            all = aggregates_fold(shared, aggregates, stretches.blocks, lane, warp);
            if (threadIdx.x == 0) *ticket = 0;
        }
        finish(false, all);
    }

    // By one warp: the fold of items `first` to `end`, in the last lane. Undefined without items.
    // `first` begins a slice, and so does `end` unless the input ends there. Another lane applies
    // the operator to prefixes of slices, whose result is not used.
    static __device__ Carry fold(Stage &stage, ScanSource<Operator> source, u64 first, u64 end, u32 lane) {
        Walk walk(source, {}, false);
        Carry upto = Carry();
        for (u64 at = first; at < end; at += SLICE) {
            source.load(stage, at, lane);
            __syncwarp();
            Carry slice = joined(
                end - at >= SLICE ? walk.fold_loaded(stage, lane) : part_fold(stage, u32(end - at), lane), at);
            upto = at > first ? Joined::combine(upto, slice) : slice;
            __syncwarp(); // every lane has read the slice that the next one overwrites
        }
        return upto;
    }

    // By one warp: the fold of the first `count` items of a stage, at least one, in every lane. The
    // items are shared among the lanes, since the slice's copies of the last item must not be folded.
    // Each lane has an odd number, so that adjacent lanes read different banks.
    static __device__ ItemCarry part_fold(Stage &stage, u32 count, u32 lane) {
        const Element *items = (const Element *)stage.vector;
        u32 each = (count + WARP - 1) / WARP | 1, first = lane * each, end = min(first + each, count);
        ItemCarry upto = ItemCarry();
        if (first < end) upto = Operator::alone(Operator::lift(items[first]));
#pragma unroll 4
        for (u32 i = first + 1; i < end; i++) upto = Operator::combine(upto, Operator::lift(items[i]));
        __syncwarp();
        return shuffle(warp_fold<Operator>(upto, lane, (count + each - 1) / each), 0);
    }

  private:
    // What joins a slice's carry; `at` is its first item.
    static __device__ Carry joined(Carry carry, u64) { return carry; }
    template <class C> static __device__ Carry joined(C carry, u64 at) { return Joined::of_slice(carry, at); }

    // By one warp: the fold of the carries of the first `warps` warps, at least one, in every lane.
    static __device__ Carry warps_fold(Shared &shared, u32 warps, u32 lane) {
        Carry upto = warp_inclusive<Joined, WARPS>(shared.carry[min(lane, warps - 1)], lane);
        return shuffle(upto, warps - 1);
    }

    // By the block: the fold of all aggregates, by warp 0. Each thread folds consecutive ones.
    static __device__ Carry aggregates_fold(Shared &shared, const Carry *aggregates, u32 count, u32 lane, u32 warp) {
        u32 each = (count + THREADS - 1) / THREADS, first = threadIdx.x * each, end = min(first + each, count);
        u32 threads = (count + each - 1) / each; // that have some
        Carry upto = Carry();
        if (first < end) upto = aggregates[first];
#pragma unroll 4
        for (u32 i = first + 1; i < end; i++) upto = Joined::combine(upto, aggregates[i]);
        __syncwarp();
        if (warp * WARP < threads) {
            upto = warp_fold<Joined>(upto, lane, min(threads - warp * WARP, WARP));
            if (lane == 0) shared.carry[warp] = upto;
        }
        __syncthreads();
        return warp == 0 ? warps_fold(shared, (threads + WARP - 1) / WARP, lane) : upto;
    }
};
