// Reduce of rows that a lane, a warp or a block folds: no row is joined with another.
//
//   fold    each warp folds its part of a row: the whole row, or one of up to ROW_WARPS parts
//   block   the parts of a row are joined in order                              one barrier, with parts alone
//
// Of short rows a warp copies many, and each lane folds whole ones (`fold_short`).
//
// Blocks take rows in order, so what the grid reads at one time lies together. Without flags, a search or a
// ticket, rows take the time for which their items are read.
#pragma once
#include "core/stage.cuh"
#include "core/warp_scan.cuh"
#include "segmented/contract.cuh" // `RowShares`, which the host shares: src/cuda/segmented/contract.rs

// A warp copies up to CHUNK items at once: `row_chunk` in src/cuda/segmented/tuning.rs.
template <class Operator, u32 CHUNK> struct RowReduction {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;

    // A lane folds consecutive units: vectors, or items that tile none.
    static constexpr bool TILES = sizeof(Vector) % sizeof(Element) == 0;
    static constexpr u32 OWN = TILES ? sizeof(Vector) / sizeof(Element) : 1; // items of a unit
    struct alignas(TILES ? sizeof(Vector) : alignof(Element)) Unit { Element item[OWN]; };
    static constexpr u32 UNITS = CHUNK / (WARP * OWN); // of a lane at once
    static_assert(CHUNK == WARP * UNITS * OWN && UNITS % 2 == 1, "adjacent lanes' units begin in different banks");

    struct Shared {
        Unit stage[ROW_WARPS][WARP * UNITS];
        Carry carry[ROW_WARPS]; // each warp's fold
    };

    // The kernel body. `init` is combined before each row.
    static __device__ void run(Shared &shared, const Element *in, const RowShares &shares, Maybe<Carry> init,
                               Element *out) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        if (shares.of_warp > 1) return fold_short(shared.stage[warp], in, shares, init, out, lane);
        u64 rows = shares.rows;
        u32 columns = shares.columns, parts = shares.parts, part = warp % parts;
        u64 row = u64(blockIdx.x) * (blockDim.x / WARP / parts) + warp / parts;

        // ---- fold. A part begins a line if the row does.
        constexpr u32 IN_LINE = sizeof(Element) < LINE ? LINE / sizeof(Element) : 1;
        u32 each = ((columns + parts - 1) / parts + IN_LINE - 1) / IN_LINE * IN_LINE, first = part * each;
        if (row < rows && first < columns) {
            Carry all = fold(shared.stage[warp], in + row * columns + first, min(each, columns - first), lane);
            if (lane == 0) shared.carry[warp] = all;
        }

        // ---- block
        if (parts > 1) __syncthreads();
        else __syncwarp();
        if (row >= rows || part > 0) return;
        u32 with_items = (columns + each - 1) / each;
        Carry all = warp_fold<Operator>(shared.carry[warp + min(lane, with_items - 1)], lane, with_items);
        if (lane == 0) out[row] = Operator::lower(init.some ? Operator::combine(init.value, all) : all);
    }

  private:
    // By one warp: short rows, of which a lane folds whole ones.
    static __device__ void fold_short(Unit *stage, const Element *in, const RowShares &shares, Maybe<Carry> init,
                                      Element *out, u32 lane) {
        u32 columns = shares.columns;
        u64 first = (u64(blockIdx.x) * blockDim.x + threadIdx.x) / WARP * shares.of_warp;
        if (first >= shares.rows) return;
        u32 count = u32(min(shares.rows - first, u64(shares.of_warp)));
        load(stage, in + first * columns, count * columns, lane);
        wait_for_copies();
        __syncwarp();
        const Element *items = (const Element *)stage;
        for (u32 row = lane; row < count; row += WARP) {
            Maybe<Carry> own = init;
            if (columns % OWN == 0) { // by units, or lanes with rows of 64 bytes would read one of two banks
                for (u32 u = 0; u < columns / OWN; u++) {
                    Unit unit = stage[row * (columns / OWN) + u];
#pragma unroll
                    for (u32 k = 0; k < OWN; k++) add(own, unit.item[k]);
                }
            } else {
                for (u32 k = 0; k < columns; k++) add(own, items[row * columns + k]);
            }
            out[first + row] = Operator::lower(own.value);
        }
    }

    // By one warp: the fold of `count` items, at least one, in lane 0. The grouping depends on the count
    // alone: not on the address, as it would if a lane's vectors were those of memory.
    static __device__ Carry fold(Unit *stage, const Element *items, u32 count, u32 lane) {
        Carry upto = Carry();
        for (u32 at = 0; at < count; at += CHUNK) {
            u32 here = min(count - at, CHUNK), units = (here + OWN - 1) / OWN;
            load(stage, items + at, here, lane);
            wait_for_copies();
            __syncwarp();
            u32 each = (units + WARP - 1) / WARP | 1, first = lane * each, whole = here / OWN;
            Maybe<Carry> own = {Carry(), false};
#pragma unroll
            for (u32 k = 0; k < UNITS; k++) {
                if (k >= each || first + k >= whole) break;
                Unit unit = stage[first + k];
#pragma unroll
                for (u32 j = 0; j < OWN; j++) add(own, unit.item[j]);
            }
            if (whole < units && first <= whole && whole < first + each) // the unit that is not whole
                for (u32 j = 0; j < here - whole * OWN; j++) add(own, stage[whole].item[j]);
            __syncwarp(); // every lane has read the units that the next ones overwrite
            Carry all = warp_fold<Operator>(own.value, lane, (units + each - 1) / each);
            upto = at > 0 ? Operator::combine(upto, all) : all;
        }
        return upto;
    }

    static __device__ void add(Maybe<Carry> &own, Element item) {
        Carry carry = Operator::lift(item);
        own = {own.some ? Operator::combine(own.value, carry) : Operator::alone(carry), true};
    }

    // By one warp: begins to copy `count` items to the stage: as vectors if they lie so, else one by one.
    static __device__ void load(Unit *stage, const Element *items, u32 count, u32 lane) {
        u32 copied = 0;
        if (TILES && (u64)items % sizeof(Vector) == 0) {
            u32 vectors = count / OWN;
#pragma unroll
            for (u32 k = 0; k < UNITS; k++)
                if (k * WARP + lane < vectors)
                    copy_to_shared((Vector *)stage + k * WARP + lane, (const Vector *)items + k * WARP + lane);
            copied = vectors * OWN;
        }
#pragma unroll 4
        for (u32 i = copied + lane; i < count; i += WARP) copy_item_to_shared((Element *)stage + i, items + i);
    }
};
