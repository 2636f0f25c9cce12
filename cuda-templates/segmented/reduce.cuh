// Reduce by segment: one result a segment, by one launch.
//
//   fold    each warp goes over its stretch of the input, slice by slice, and writes the result of
//           every segment that begins and ends in the stretch                no barrier
//   block   the warps' shares are joined in order                           one barrier
//   grid    the block that finishes last joins the blocks' shares           one ticket a block
//
// Stretches have equally many slices, so the lengths of segments do not matter. At most one segment
// begins before a stretch and ends in it. Its result waits for the prefix of the stretch.
#pragma once
#include "reduce/reduce.cuh"
#include "segmented/share.cuh"
#include "segmented/walk.cuh"

template <class Operator, class Shape> struct SegmentedReduction {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef typename Headed<Operator>::Carry HeadedCarry;
    typedef SegmentedWalk<Operator, Shape, 1> Walk;
    typedef Reduction<Operator, Shape> Plain; // of a slice in which no segment ends
    typedef typename Walk::Stage Stage;
    typedef ::Share<Operator> Share;
    static constexpr u32 WARPS = Shape::WARPS, THREADS = Shape::THREADS, SLICE = Walk::ITEMS;

    struct Shared {
        Stages<Walk, WARPS> stages;
        typename Walk::Heads heads[WARPS];
        Share share[WARPS];
        HeadedCarry carry[WARPS];
        bool is_last; // whether the block is the last to finish
    };

    // The kernel body. `empty` is the result of an empty segment. `ticket` is zero before and after
    // the launch; `shares` has room for one share a block.
    static __device__ void run(Shared &shared, Element *in, u64 n, Stretches stretches, Maybe<Carry> init,
                               Element empty, const Cut &cut, Element *out, u32 *ticket, Share *shares) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        if (n == 0) { // one block
            for (u64 k = threadIdx.x; k < cut.segments; k += THREADS) out[k] = empty;
            return;
        }
        // ---- fold
        u64 warp_of_block = u64(blockIdx.x) * WARPS, warp_of_grid = warp_of_block + warp;
        Walk walk({in, n, false}, {out, n, false}, false, init, cut, shared.heads[warp],
                  0); // not all of `out` is there
        Share share = fold(shared.stages.of(walk, warp), walk, stretches, warp_of_grid, empty, lane);

        // ---- block
        if (lane == 0) shared.share[warp] = share;
        __syncthreads();
        if (stretches.blocks > 1) {
            if (warp == 0) {
                share = joined(shared, stretches.with_slices(warp_of_block, WARPS), out, lane);
                if (lane == 0) {
                    shares[blockIdx.x] = share;
                    // Release: the share comes before the ticket. Acquire: the last block's threads
                    // read every share after its ticket, and after the barrier.
                    shared.is_last = add_acquire_release(ticket, 1) == stretches.blocks - 1;
                }
            }
            // ---- grid
            __syncthreads();
            if (!shared.is_last) return;
            close_all<Operator>(shared.carry, THREADS, stretches.blocks, shares, out);
            if (threadIdx.x == 0) *ticket = 0;
        } else if (warp == 0) {
            joined(shared, stretches.with_slices(warp_of_block, WARPS), out, lane);
        }
    }

  private:
    // By one warp: its stretch. The share is valid in all lanes.
    static __device__ Share fold(Stage &stage, Walk &walk, Stretches stretches, u64 warp_of_grid, Element empty,
                                 u32 lane) {
        const Cut &cut = walk.cut;
        u64 n = walk.in.n, first = stretches.first_of(warp_of_grid) * SLICE,
            end = min(stretches.first_of(warp_of_grid + 1) * SLICE, n);
        Share share = {{Carry(), 0}, Share::NONE, {Carry(), false}};
        if (first >= end) return share;

        // The first offset that is `at` or more: its number, and the item at which it lies.
        u64 next = offsets_before(cut, first, n, lane), boundary = offset(cut, next, greatest_offset(n));
        bool open = first > 0; // whether the segment at the stretch's beginning has not ended
        for (u64 at = first; at < end; at += SLICE) {
            HeadedCarry all;
            u64 slice_end = min(at + SLICE, end);
            // The last item before which a segment may end that is closed here. One that ends with the
            // slice is closed by the next slice or stretch.
            u64 most = slice_end == n ? n : slice_end - 1;
            bool ends = boundary <= slice_end; // whether a segment ends in the slice
            if (!ends && slice_end - at < SLICE) { // the last items are in no segment
                if (at == first) share.aggregate.head = 1; // so none joins it
                break;
            }
            walk.in.begin_load(stage, at, lane);
            if (!ends) {
                walk.in.end_load(stage, at, lane);
                __syncwarp();
                all = {shuffle(typename Plain::Walk({{walk.in}}, {}, false).fold_loaded(stage, lane), WARP - 1), 0};
                __syncwarp(); // every lane has read the slice that the next one overwrites
            } else {
                walk.heads.fill_from_offsets(cut, i64(at), next, n, 0, lane);
                walk.in.end_load(stage, at, lane);
                __syncwarp();
                if (open && boundary <= most) {
                    open = false;
                    close(share, stage, at > first, u32(boundary - at), next, lane);
                }
                all = shuffle(walk.fold_loaded(stage, lane), WARP - 1);
                // At the stretch's beginning any fold will do: what the open segment makes of it is not used.
                walk.put(stage, at > first ? share.aggregate : all, lane);
                __syncwarp();
                next = write_results(walk, stage, share.aggregate.value, next, at, most, first, empty, lane);
                boundary = offset(cut, next, greatest_offset(n));
                __syncwarp(); // every lane has read the slice that the next one overwrites
            }
            share.aggregate = at > first ? Headed<Operator>::combine(share.aggregate, all) : all;
        }
        return share;
    }

    // Notes the segment that ends before item `count` of the stage and began before the stretch.
    static __device__ void close(Share &share, Stage &stage, bool has_aggregate, u32 count, u64 next, u32 lane) {
        if (next > 0) share.closed = next - 1;
        share.last = {share.aggregate.value, has_aggregate};
        if (count == 0) return;
        Carry items = Plain::part_fold(stage, count, lane);
        share.last = {has_aggregate ? Operator::combine(share.aggregate.value, items) : items, true};
    }

    // By one warp: the results of the segments that end in a slice, up to item `most`, and began in the
    // stretch from `first` on. Every item of the stage has become its inclusive prefix; `before` is
    // that of the item before the slice. Returns the number of the first offset behind `most`.
    static __device__ u64 write_results(const Walk &walk, Stage &stage, Carry before, u64 next, u64 at, u64 most,
                                        u64 first, Element empty, u32 lane) {
        const Element *prefixes = (const Element *)stage.vector;
        Element *out = walk.out.base;
        return each_offset<1>(
            walk.cut, next, most + 1, walk.in.n, lane,
            [&](u64 j, u64 begins, u64 ends) {
                if (j == 0 || ends > most) return;
                if (begins >= ends) out[j - 1] = empty;
                else if (begins >= first) out[j - 1] = ends > at ? prefixes[ends - 1 - at] : Operator::lower(before);
            },
            [&](u64 j, u64 behind) {
                for (u64 k = j + lane; k < behind; k += WARP) out[k - 1] = empty;
            },
            greatest_offset(walk.in.n));
    }

    // By one warp: joins the shares of the block's first `warps` warps, and writes the results of
    // segments that lie in the block. The block's share is valid in lane 0.
    static __device__ Share joined(Shared &shared, u32 warps, Element *out, u32 lane) {
        Share own = shared.share[min(lane, warps - 1)];
        HeadedCarry upto = warp_inclusive<Headed<Operator>, WARPS>(own.aggregate, lane);
        HeadedCarry before = shuffle_up(upto, 1);
        bool closes = lane < warps && own.closed != Share::NONE, is_inside = lane > 0 && before.head;
        if (closes && is_inside) out[own.closed] = Operator::lower(own.result(before.value));
        // At most one segment that began before the block ends in it.
        u32 pending = __ballot_sync(ALL_LANES, closes && !is_inside);
        Share share = {shuffle(upto, warps - 1), Share::NONE, {Carry(), false}};
        if (pending) {
            Maybe<Carry> last = lane > 0 ? Maybe<Carry>{own.result(before.value), true} : own.last;
            u32 from = __ffs(pending) - 1;
            share.closed = __shfl_sync(ALL_LANES, own.closed, from);
            share.last = {shuffle(last.value, from), bool(__shfl_sync(ALL_LANES, last.some, from))};
        }
        return share;
    }
};
