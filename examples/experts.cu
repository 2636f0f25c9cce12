// The kernels of `experts.rs`, which defines EXPERTS, WARPS, ROUNDS and GROUP in front of this text.
//
// A tile is WARPS * ROUNDS * 32 rows: each warp has ROUNDS * 32 of them, one after the other, and takes 32 in a round.
#include "core/handover.cuh"

constexpr u32 SLICE = ROUNDS * WARP, TILE = WARPS * SLICE, NO_ROW = 0xffffffffu;
static_assert(EXPERTS <= WARPS * WARP, "a thread looks after an expert");

struct Add {
    typedef u32 Carry;
    static __device__ u32 combine(u32 a, u32 b) { return a + b; }
};

// How many rows each expert is given. `counts` is zero before. Whole numbers: their sum is the same in any order.
extern "C" __global__ void histogram(const u8 *experts, u32 rows, u32 *counts) {
    __shared__ u32 count[EXPERTS];
    if (threadIdx.x < EXPERTS) count[threadIdx.x] = 0;
    __syncthreads();
    u32 first = blockIdx.x * TILE, end = min(rows, first + TILE);
    for (u32 row = first + threadIdx.x; row < end; row += WARPS * WARP) atomicAdd(count + experts[row], 1);
    __syncthreads();
    if (threadIdx.x < EXPERTS) atomicAdd(counts + threadIdx.x, count[threadIdx.x]);
}

// Each row to the start of its expert, plus its rank among the rows of that expert. A row's rank is how many rows of its expert
// come in earlier tiles, in earlier warps of its tile, in earlier rounds of its warp, and in lower lanes of its round.
extern "C" __global__ void scatter(const u8 *experts, u32 rows, const u32 *starts, u32 *places, void *memory, u32 tiles) {
    typedef LookBackColumns<Add, GROUP, EXPERTS> Join;
    __shared__ Join::Shared shared;
    __shared__ u32 count[WARPS][EXPERTS + 1]; // one more: nobody's rows, past the end
    __shared__ u32 begin[EXPERTS];            // where the tile's rows of an expert go
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

    for (u32 i = threadIdx.x; i < WARPS * (EXPERTS + 1); i += WARPS * WARP) (&count[0][0])[i] = 0;
    Join join(memory, tiles);
    u32 tile = join.enter(shared); // all threads meet here, and `count` is zero
    u32 first = tile * TILE + warp * SLICE + lane;

    // ---- ranks inside the warp's slice
    u32 expert[ROUNDS], rank[ROUNDS];
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 row = first + round * WARP;
        expert[round] = row < rows ? experts[row] : EXPERTS;
        u32 same = __match_any_sync(ALL_LANES, expert[round]), lower = same & ((1u << lane) - 1);
        u32 before = count[warp][expert[round]];
        rank[round] = before + __popc(lower);
        __syncwarp(); // all have read before one of them writes
        if (lower == 0) count[warp][expert[round]] = before + __popc(same);
        __syncwarp(); // and it is written before the next round
    }
    __syncthreads();

    // ---- a thread an expert: the warps before, and the tiles before
    if (threadIdx.x < EXPERTS) {
        u32 sum = 0;
        for (u32 w = 0; w < WARPS; w++) {
            u32 mine = count[w][threadIdx.x];
            count[w][threadIdx.x] = sum;
            sum += mine;
        }
        begin[threadIdx.x] = join.exchange(tile, threadIdx.x, sum, starts[threadIdx.x]);
    }
    __syncthreads();

    // ---- to their places
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 row = first + round * WARP;
        if (row < rows) places[begin[expert[round]] + count[warp][expert[round]] + rank[round]] = row;
    }
    join.retire(shared, tile);
}

// What is left of each expert's last tile of rows holds none. A block an expert.
extern "C" __global__ void pad(const u32 *counts, const u32 *starts, u32 *places) {
    for (u32 at = starts[blockIdx.x] + counts[blockIdx.x] + threadIdx.x; at < starts[blockIdx.x + 1]; at += blockDim.x)
        places[at] = NO_ROW;
}
