// Lengths that lie on the device.
//
// The kernels of a unit that defines LENGTH_ON_DEVICE have one more parameter: the address of the
// number of items. Their `n` is the most that it may be, and the memory is that of n items.
//
// Mostly the grid is, too. Blocks without a part return at once, and only blocks of the first tiles draw a ticket (of a
// matrix by columns all do), so the join of tiles sees a grid for as many items as there are. The grid of a scan over tiles,
// also by segment, has no more blocks than run at once, and each takes one tile after the other (`each_tile`): blocks
// without items cost time, and so does the start of a block.
//
// LENGTH_ON_DEVICE is the number of items of an element: of a narrow matrix an element is a row.
#pragma once
#include "core/types.cuh"

#ifdef LENGTH_ON_DEVICE
#define AND_LENGTH , const u64 *length
constexpr bool SEVERAL_TILES = true; // whether a block may take several tiles

// The number of whole elements, at most n.
__device__ inline u64 upto_length(u64 n, const u64 *length) { return min(n, *length / LENGTH_ON_DEVICE); }

// Whether the block has a tile, or serves the prefixes of several tiles: as in a grid for n items,
// at least one, which has `tiles` tiles.
__device__ inline bool has_tile(u64 n, u32 tile, u32 &tiles) {
    tiles = u32((n + tile - 1) / tile);
    return blockIdx.x < (tiles > 1 ? tiles + 1 : 1);
}

// Makes n the number of items, and `tiles` that of their tiles of TILE items. Returns from a block
// that has none. Without items the first block does WITHOUT_ITEMS.
#define CUT_TO_LENGTH(n, tiles, TILE, WITHOUT_ITEMS)                                                                   \
    n = upto_length(n, length);                                                                                        \
    if (n == 0 && blockIdx.x == 0 && threadIdx.x == 0) {                                                               \
        WITHOUT_ITEMS;                                                                                                 \
    }                                                                                                                  \
    if (n == 0 || !has_tile(n, TILE, tiles)) return;

// Makes n the number of items, where each block finds its part of any number. Returns if there are none.
#define TAKE_LENGTH(n)                                                                                                 \
    n = upto_length(n, length);                                                                                        \
    if (n == 0) return;
// Makes x at most the number of items.
#define AT_MOST_LENGTH(x, n) x = u32(min(u64(x), u64(n)));
// Whether a tile lies behind the items.
#define IS_PAST_LENGTH(tile, TILE, n) (u64(tile) * (TILE) >= n)

// As CUT_TO_LENGTH in a dependent launch whose blocks take tiles of TILE items from the last one down, and
// which leaves the result without items to the launch before.
#define CUT_TO_LENGTH_FROM_END(n, TILE)                                                                                \
    n = upto_length(n, length);                                                                                        \
    if (u64(gridDim.x - 1 - blockIdx.x) * (TILE) >= n) {                                                               \
        wait_for_launch_before();                                                                                      \
        return;                                                                                                        \
    }
#else
#define AND_LENGTH
constexpr bool SEVERAL_TILES = false;
#define CUT_TO_LENGTH(n, tiles, TILE, WITHOUT_ITEMS)
#define CUT_TO_LENGTH_FROM_END(n, TILE)
#define TAKE_LENGTH(n)
#define AT_MOST_LENGTH(x, n)
#define IS_PAST_LENGTH(tile, TILE, n) false
#endif

// Whether the grid has fewer blocks than one for each tile and one for the prefix server. A single tile has no server.
__device__ inline bool has_fewer_blocks(u32 tiles) { return SEVERAL_TILES && tiles > 1 && gridDim.x <= tiles; }

// By the block: calls `tile(n, tiles, is_first)`, where n items have so many tiles. It draws a ticket, does that tile, and
// returns whether there was one. In a grid with fewer blocks it is called until it returns false. Between two tiles n and
// `tiles` come from shared memory: in registers n would push out others.
template <class Tile> __device__ inline void each_tile(u64 n, u32 tiles, const Tile &tile) {
    if (!SEVERAL_TILES) {
        tile(n, tiles, true);
        return;
    }
    __shared__ struct {
        u64 n;
        u32 tiles;
    } kept;
    if (threadIdx.x == 0) kept = {n, tiles};
    for (bool is_first = true; tile(n, tiles, is_first) && has_fewer_blocks(tiles); is_first = false) {
        n = *(volatile u64 *)&kept.n;
        tiles = *(volatile u32 *)&kept.tiles;
    }
}
