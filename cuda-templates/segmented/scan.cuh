// Scan by segment: the tile pipeline with a walk that begins again at each head. Tiles have equally
// many items, so the lengths of segments do not matter; a segment across tiles is joined by the
// hand-over.
//
// Where a tile's offsets begin is found by a kernel before, with a search by one warp for each
// tile. In the tile itself each step of a search would take the latency of busy memory. In the first
// range of lengths memory is not busy, and each tile searches (SEARCHES).
#pragma once
#include "segmented/walk.cuh"

// The number of the tile's first offset, for each of `tiles` tiles of `items` items.
__device__ inline void find_tiles(const Cut &cut, u64 n, u32 flags, u32 items, u32 tiles, u64 *offsets) {
    u32 lane = threadIdx.x % WARP, tile = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    launch_next();
    if (tile >= tiles) return;
    do {
        i64 begin = begin_of_tile(u64(tile) * items, items, n, flags & REVERSE);
        u64 first = offsets_before(cut, u64(max(begin, i64(0))), n, lane);
        if (lane == 0) offsets[tile] = first;
        tile += gridDim.x * (blockDim.x / WARP);
    } while (SEVERAL_TILES && tile < tiles);
}

// The walk of a tile's warp. The block makes the head flags of the whole tile.
template <class Operator, class Shape, bool SEARCHES>
struct SegmentedScanWalk : SegmentedWalk<Operator, Shape, Shape::WARPS> {
    typedef SegmentedWalk<Operator, Shape, Shape::WARPS> Base;
    typedef typename Base::HeadedCarry HeadedCarry;
    typedef typename Base::Stage Stage;
    static constexpr u32 ITEMS = Base::ITEMS, TILE = Shape::WARPS * ITEMS;

    const u64
        *tile_offsets; // the number of each tile's first offset; null if there is one tile, or no array of offsets

    __device__ SegmentedScanWalk(const Base &base, const u64 *tile_offsets) : Base(base), tile_offsets(tile_offsets) {}

    __device__ void prefetch(u64 first, u32 lane) const { this->in.template prefetch<ITEMS>(first, lane); }

    __device__ HeadedCarry fold(Stage &stage, u64 first, u32 lane) {
        this->in.begin_load(stage, first, lane);
        u64 tile = first / TILE, n = this->in.n, next = 0;
        i64 begin = begin_of_tile(tile * TILE, TILE, n, this->in.reverse);
        if (!SEARCHES && tile_offsets) {
            wait_for_launch_before();
            next = tile_offsets[tile];
        } else if (kind_of(this->cut) == ROWS) {
            next = rows_before(this->cut, u64(max(begin, i64(0))));
        } else if (SEARCHES && has_offsets(this->cut)) {
            next = offsets_before(this->cut, u64(max(begin, i64(0))), n, lane);
        }
        this->heads.fill(this->cut, begin, next, n, this->slice, lane);
        this->has_heads = this->heads.any(this->slice, lane);
        this->in.end_load(stage, first, lane);
        __syncwarp();
        return this->fold_loaded(stage, lane);
    }

    __device__ void prepare(Stage &, u32) {}
    __device__ void total(HeadedCarry) const {}

    __device__ void finish(Stage &stage, Maybe<HeadedCarry> prefix, u64 first, u32 lane) {
        this->put(stage, prefix.value, lane);
        __syncwarp();
        this->out.store(stage, first, lane);
    }
};

// The kernel body: takes a tile, and returns whether there was one. `init` has a meaning only with the flag INIT.
template <class Operator, class Shape, bool SEARCHES, class Join>
__device__ bool segmented_scan_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n,
                                     typename Operator::Carry init, u32 flags, const Cut &cut, const u64 *tile_offsets,
                                     Join join) {
    typedef SegmentedScanWalk<Operator, Shape, SEARCHES> Walk;
    typedef TilePipeline<Headed<Operator>, Walk, Shape::WARPS, Join> Tiles;
    __shared__ typename Tiles::Shared shared;
    __shared__ typename Walk::Heads heads;
    bool reverse = flags & REVERSE;
    typename Walk::Base base({in, n, reverse}, {out, n, reverse}, flags & EXCLUSIVE, {init, bool(flags & INIT)}, cut,
                             heads, threadIdx.x / WARP);
    // The first item is a head: no prefix comes before it.
    return Tiles::run(shared, Walk(base, tile_offsets), join, {{}, false});
}
