// Scan of rows, each by some lanes, a warp, several warps or a block: no row is joined with another.
//
// The warps of a row take its chunks in turn, a round at a time:
//
//   fold     each warp copies a chunk to shared memory; each lane folds what it owns, the warp its lanes
//   block    the prefix of each warp                                        one barrier, with several warps a row
//   finish   each lane goes over its items again, from its prefix on, and the warp stores the chunk
//
// Of short rows a warp copies several at once, and some adjacent lanes scan one (`run_short`).
#pragma once
#include "segmented/chunk.cuh"
#include "segmented/contract.cuh" // EACH_WARPS, OF_EACH_WARP

template <class Operator, u32 CHUNK> struct RowScan : WarpChunk<Operator, CHUNK> {
    typedef WarpChunk<Operator, CHUNK> Chunk;
    using Chunk::lane, Chunk::OWN, Chunk::UNITS, Chunk::warp;
    using typename Chunk::Carry;
    using typename Chunk::Element;
    using typename Chunk::Unit;

    static_assert(!Chunk::TILES || CHUNK * sizeof(Element) >= OF_EACH_WARP + sizeof(Vector), "a part fits a chunk");

    struct Shared {
        Unit stage[EACH_WARPS][WARP * UNITS];
        Carry carry[2][EACH_WARPS]; // each warp's fold, of this round and of the one before
    };

    Shared &shared;
    Element *out;
    Maybe<Carry> init; // is combined before each row's first item; an exclusive scan has one
    bool exclusive;

    __device__ RowScan(Shared &shared, const Element *in, Element *out, Maybe<Carry> init, bool exclusive)
        : Chunk(in), shared(shared), out(out), init(init), exclusive(exclusive) {}

    // The kernel body: n items in rows of `columns`, each by so many warps. The last row may have fewer items.
    __device__ void run(u64 n, u32 columns, u32 warps) const {
        Unit *stage = shared.stage[warp];
        u32 part = warp % warps;
        u64 begin = (u64(blockIdx.x) * (blockDim.x / WARP / warps) + warp / warps) * columns;
        u32 skip = u32(begin % OWN); // items before the row in its first unit
        u32 end = begin < n ? skip + u32(min(n - begin, u64(columns))) : 0;
        begin -= skip;
        Maybe<Carry> before = init; // the fold of the rounds before
        // All warps of a block take as many rounds, for the barriers: with more than one round a block has one row,
        // or rows begin at units.
        u32 bound = warps == 1 ? end : skip + columns;
        for (u32 at = 0, round = 0; at < bound; at += warps * CHUNK, round ^= 1) {
            // ---- fold: the items `lead` to `here` of the stage are the warp's
            u32 from = at + part * CHUNK, here = from < end ? min(end - from, CHUNK) : 0;
            u32 lead = from == 0 ? skip : 0, lanes = Chunk::lanes_with_items(here);
            Carry upto = Carry();
            if (here > 0) {
                this->load(stage, begin + from + lead, here - lead);
                upto = this->fold_own(stage, lead, here);
                // Lanes without items take the last fold, so that the operator is called on items and its results only.
                upto = warp_inclusive<Operator>(shuffle(upto, min(lane, lanes - 1)), lane);
            }

            // ---- block
            Maybe<Carry> prefix = before;
            if (warps > 1) {
                Carry *carry = shared.carry[round] + (warp - part);
                if (lane == lanes - 1) carry[part] = upto;
                __syncthreads();
                if (at >= end) continue;
                u32 with_items = min((end - at + CHUNK - 1) / CHUNK, warps);
                Carry all = warp_inclusive<Operator, EACH_WARPS>(carry[min(lane, with_items - 1)], lane);
                if (part > 0) prefix = joined(prefix, shuffle(all, part - 1));
                before = joined(before, shuffle(all, with_items - 1));
            } else before = joined(before, shuffle(upto, lanes - 1));

            // ---- finish
            Carry of_lanes_before = shuffle_up(upto, 1);
            if (here == 0) continue;
            if (lane > 0) prefix = joined(prefix, of_lanes_before);
            put(prefix, [&](auto first, auto next) { this->template each_own<true>(stage, lead, here, first, next); });
            __syncwarp();
            store(stage, begin + from, lead, here);
            __syncwarp(); // every lane has stored what the next chunk overwrites
        }
    }

    // The kernel body for short rows: a warp takes `of_warp` of them, and so many adjacent lanes one.
    __device__ void run_short(u64 n, u32 columns, u32 lanes, u32 of_warp) const {
        Unit *stage = shared.stage[warp];
        u64 begin = (u64(blockIdx.x) * EACH_WARPS + warp) * of_warp * columns;
        if (begin >= n) return;
        u32 count = u32(min(n - begin, u64(of_warp * columns))), lead = this->load(stage, begin, count);
        this->each_row(stage, lead, count, columns, lanes, [&](u32, auto *own, u32 parts, u32 with_items) {
            // ---- fold. Lanes without items take the fold of a lane before them, as above.
            Carry upto = Chunk::folded(
                [&](auto first, auto next) { Chunk::template each_of<false>(own, parts, first, next); });
            upto = shuffle(upto, WARP - 1 - __clz(with_items & (~0u >> (WARP - 1 - lane))));
            upto = warp_inclusive<Operator>(upto, lane % lanes, lanes);
            // ---- finish
            Carry of_lanes_before = shuffle_up(upto, 1);
            Maybe<Carry> prefix = lane % lanes > 0 ? joined(init, of_lanes_before) : init;
            put(prefix, [&](auto first, auto next) { Chunk::template each_of<true>(own, parts, first, next); });
        });
        __syncwarp();
        store(stage, begin - lead, lead, lead + count);
    }

  private:
    // Puts the prefixes of the items that a lane owns in their places. `each(first, next)` goes over them; `prefix` is
    // what lies before.
    template <class Each> __device__ void put(Maybe<Carry> prefix, const Each &each) const {
        Carry own = prefix.value;
        auto put = [&](Element &item, Carry inclusive) {
            item = Operator::lower(exclusive ? own : inclusive);
            own = inclusive;
        };
        each(
            [&](Element &item) {
                Carry carry = Operator::lift(item);
                put(item, item_after<Operator>(prefix, carry));
            },
            [&](Element &item) { put(item, Operator::combine(own, Operator::lift(item))); });
    }

    static __device__ Maybe<Carry> joined(Maybe<Carry> before, Carry x) { return {after<Operator>(before, x), true}; }

    // By one warp: stores the items `lead` to `here` of the stage, which begins with the item `first`: whole vectors if
    // they lie so, else items.
    __device__ void store(const Unit *stage, u64 first, u32 lead, u32 here) const {
        Element *to = out + first;
        const Element *items = (const Element *)stage;
        bool is_aligned = Chunk::TILES && (u64)to % sizeof(Vector) == 0;
        u32 low = (lead + OWN - 1) / OWN, high = is_aligned ? here / OWN : 0; // the vectors
        if (low < high) {
#pragma unroll
            for (u32 k = 0; k < UNITS; k++) {
                u32 u = k * WARP + lane;
                if (low <= u && u < high) ((Vector *)to)[u] = ((const Vector *)stage)[u];
            }
            if (lead <= lane && lane < low * OWN) to[lane] = items[lane];
            u32 last = high * OWN + lane;
            if (last < here) to[last] = items[last];
        } else {
#pragma unroll 4
            for (u32 i = lead + lane; i < here; i += WARP) to[i] = items[i];
        }
    }
};
