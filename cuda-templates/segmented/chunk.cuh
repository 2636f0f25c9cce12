// A chunk of a segment in a warp's shared memory, of which each lane owns consecutive items. A kernel whose warps or
// blocks take whole segments needs no head flags.
#pragma once
#include "core/stage.cuh"
#include "core/warp_scan.cuh"

// The number of an item, or of a segment. By offsets both are so few that 32 bits count them, which saves registers.
#ifdef CUT_KIND
typedef IfElse<CUT_KIND == ROWS, u64, u32>::Type Position;
#else
typedef u64 Position;
#endif

// The chunks of a warp in shared memory, of up to CHUNK items each: `each_chunk` in src/cuda/segmented/tuning.rs.
template <class Operator, u32 CHUNK> struct WarpChunk {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;

    // A lane owns consecutive units: vectors of the input, or items that tile none.
    static constexpr bool TILES = sizeof(Vector) % sizeof(Element) == 0;
    static constexpr u32 OWN = TILES ? sizeof(Vector) / sizeof(Element) : 1; // items of a unit
    struct alignas(TILES ? sizeof(Vector) : alignof(Element)) Unit { Element item[OWN]; };
    static constexpr u32 UNITS = CHUNK / (WARP * OWN); // of a lane at once
    static_assert(CHUNK == WARP * UNITS * OWN && UNITS % 2 == 1, "adjacent lanes' units begin in different banks");

    const Element *in;
    u32 lane, warp;

    __device__ WarpChunk(const Element *in) : in(in), lane(threadIdx.x % WARP), warp(threadIdx.x / WARP) {}

    // By one warp: copies `count` items, from the input's item `begin` on, to the stage, and returns where in it they
    // begin: as far behind a unit as in the input. Vectors are copied whole if they lie so, with the items before.
    __device__ u32 load(Unit *stage, Position begin, u32 count) const {
        u32 lead = u32(begin % OWN);
        const Element *from = in + (begin - lead);
        u32 vectors = TILES && (u64)from % sizeof(Vector) == 0 ? (lead + count) / OWN : 0;
        int left = int(vectors - lane); // one register for all comparisons
#pragma unroll
        for (u32 k = 0; k < UNITS; k++)
            if (left > int(k * WARP))
                copy_to_shared((Vector *)stage + k * WARP + lane, (const Vector *)from + k * WARP + lane);
        u32 copied = vectors > 0 ? vectors * OWN : lead;
#pragma unroll 4
        for (u32 i = copied + lane; i < lead + count; i += WARP) copy_item_to_shared((Element *)stage + i, from + i);
        wait_for_copies();
        __syncwarp();
        return lead;
    }

    // Units of a lane, for the items `lead` to `end` of a stage: an odd number.
    static __device__ u32 units_of_lane(u32 end) { return ((end + OWN - 1) / OWN + WARP - 1) / WARP | 1; }
    // By one warp: how many lanes, the first ones, own items.
    __device__ u32 lanes_with_items(u32 end) const {
        return __popc(__ballot_sync(ALL_LANES, lane * units_of_lane(end) * OWN < end));
    }

    // By one warp, over the items `lead` to `end` of the stage: calls `first(item)` with the first item that the lane
    // owns and `next(item)` with its others, in order. They may change the items if these are put BACK.
    template <bool BACK, class First, class Next>
    __device__ void each_own(Unit *stage, u32 lead, u32 end, const First &first, const Next &next) const {
        u32 each = units_of_lane(end), begin = lane * each, whole = end / OWN;
        if (begin < whole) {
            Unit unit = stage[begin];
            if (lane > 0 || lead == 0) {
                first(unit.item[0]);
#pragma unroll
                for (u32 j = 1; j < OWN; j++) next(unit.item[j]);
                if (BACK) stage[begin] = unit;
            } else {
                first(stage[0].item[lead]);
                for (u32 j = lead + 1; j < OWN; j++) next(stage[0].item[j]);
            }
#pragma unroll
            for (u32 k = 1; k < UNITS; k++) {
                if (k >= each || begin + k >= whole) break;
                unit = stage[begin + k];
#pragma unroll
                for (u32 j = 0; j < OWN; j++) next(unit.item[j]);
                if (BACK) stage[begin + k] = unit;
            }
        }
        if (whole * OWN < end && begin <= whole && whole < begin + each) { // the unit that is not whole
            u32 j = whole == 0 ? lead : 0;
            if (begin == whole) first(stage[whole].item[j++]);
            for (; j < end - whole * OWN; j++) next(stage[whole].item[j]);
        }
    }

    // The fold of the items that `each(first, next)` goes over, if there are any.
    template <class Each> static __device__ Carry folded(const Each &each) {
        Carry all = Carry();
        each([&](Element item) { all = Operator::alone(Operator::lift(item)); },
             [&](Element item) { all = Operator::combine(all, Operator::lift(item)); });
        return all;
    }

    // By one warp: the fold of what the lane owns of the items `lead` to `end` of the stage.
    __device__ Carry fold_own(Unit *stage, u32 lead, u32 end) const {
        return folded([&](auto first, auto next) { each_own<false>(stage, lead, end, first, next); });
    }

    // ---- several rows a warp

    // By one warp, over `count` items in rows of `columns`, of which the last may have fewer. They begin at the item
    // `lead` of the stage. `lanes` adjacent lanes take a row, each some consecutive units of it; or items, if the rows
    // are not whole units, or the last one is not. All lanes call `use(row, own, parts, with_items)` together: with the
    // first of the lane's units or items, how many those are, and the lanes of the warp that have any, as bits. The
    // last lanes of a row may have none.
    template <class Use>
    __device__ void each_row(Unit *stage, u32 lead, u32 count, u32 columns, u32 lanes, const Use &use) const {
        struct Single { Element item[1]; };
        if (columns % OWN == 0 && count % OWN == 0) each_row_by(stage, count / OWN, columns / OWN, lanes, use);
        else each_row_by((Single *)stage + lead, count, columns, lanes, use);
    }

    // In `use` of `each_row`: calls `first(item)` with the first item of what the lane owns, if that is any, and
    // `next(item)` with its others, in order. They may change the items if these are put BACK.
    template <bool BACK, class Part, class First, class Next>
    static __device__ void each_of(Part *own, u32 parts, const First &first, const Next &next) {
        constexpr u32 IN_PART = sizeof(Part) / sizeof(Element);
        if (parts == 0) return;
        Part part = own[0];
        first(part.item[0]);
#pragma unroll
        for (u32 j = 1; j < IN_PART; j++) next(part.item[j]);
        if (BACK) own[0] = part;
#pragma unroll 2
        for (u32 k = 1; k < parts; k++) {
            part = own[k];
#pragma unroll
            for (u32 j = 0; j < IN_PART; j++) next(part.item[j]);
            if (BACK) own[k] = part;
        }
    }

  private:
    template <class Part, class Use>
    __device__ void each_row_by(Part *parts, u32 count, u32 of_row, u32 lanes, const Use &use) const {
        u32 bits = __ffs(lanes) - 1; // of a power of two, so that divisions are shifts
        u32 each = (of_row + lanes - 1) >> bits | 1; // an odd number, for the banks
        u32 begin = min((lane & (lanes - 1)) * each, of_row), end = min(begin + each, of_row);
        for (u32 first = 0; first * of_row < count; first += WARP >> bits) {
            u32 row = first + (lane >> bits), from = row * of_row + begin, to = min(row * of_row + end, count);
            u32 own = from < to ? to - from : 0;
            use(row, parts + from, own, __ballot_sync(ALL_LANES, own > 0));
        }
    }
};
