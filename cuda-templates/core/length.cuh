// Lengths that lie on the device.
//
// The kernels of a unit that defines LENGTH_ON_DEVICE have one more parameter: the address of the
// number of items. Their `n` is the most that it may be, so the grid and the memory are those of n
// items. Blocks without a part return at once. Only blocks of the first tiles draw a ticket (of a matrix by columns
// all do), so the join of tiles sees a grid for as many items as there are.
//
// LENGTH_ON_DEVICE is the number of items of an element: of a narrow matrix an element is a row.
#pragma once
#include "core/types.cuh"

#ifdef LENGTH_ON_DEVICE
#define AND_LENGTH , const u64 *length

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
// Whether a tile is the last one, in a launch of a block for each tile.
#define IS_LAST_TILE(tile, TILE, n) (u64((tile) + 1) * (TILE) >= n)

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
#define CUT_TO_LENGTH(n, tiles, TILE, WITHOUT_ITEMS)
#define CUT_TO_LENGTH_FROM_END(n, TILE)
#define TAKE_LENGTH(n)
#define AT_MOST_LENGTH(x, n)
#define IS_PAST_LENGTH(tile, TILE, n) false
#define IS_LAST_TILE(tile, TILE, n) ((tile) == gridDim.x - 1)
#endif
