// Scan by segment where some lanes, a warp, several warps or a block scan a segment alone (each.cuh).
//
// The warps of a segment take its chunks in turn, a round at a time:
//
//   fold     each warp copies a chunk to shared memory; each lane folds what it owns, the warp its lanes
//   block    the prefix of each warp                                     one barrier, with several warps a segment
//   finish   each lane goes over its items again, from its prefix on, and the warp stores the chunk
//
// Of short rows a warp copies several at once, and some adjacent lanes scan one (`scan_short`). Of long segments:
//
//   piece    the block takes what a piece has of them; between fold and finish it hands the fold to later pieces, and
//            gets the prefix                                                          look-back, one ticket a piece
#pragma once
#include "segmented/each.cuh"
#include "segmented/walk.cuh"

template <class Operator, u32 CHUNK> struct EachScan : Each<Operator, CHUNK, true> {
    typedef Each<Operator, CHUNK, true> Base;
    typedef typename Base::Chunk Chunk;
    typedef typename Headed<Operator>::Carry HeadedCarry;
    // In one group no piece publishes a prefix, so one that needs none receives none.
    typedef LookBack<Headed<Operator>, MOST_SCANNED_PIECES> Join;
    using Base::by, Base::cut, Base::init, Base::lane, Base::n, Base::OWN, Base::UNITS, Base::warp;
    using typename Base::Carry;
    using typename Base::Element;
    using typename Base::Unit;

    static_assert(!Chunk::TILES || CHUNK * sizeof(Element) >= OF_EACH_WARP + sizeof(Vector), "a part fits a chunk");

    struct Shared : Base::Shared {
        typename Join::Shared join;
        Carry prefix; // of a piece
    };

    Shared &shared;
    Element *out;
    bool exclusive; // then `init` is some

    __device__ EachScan(Shared &shared, const Element *in, Element *out, u64 n, const Cut &cut, const EachShares &by,
                        Maybe<Carry> init, bool exclusive)
        : Base(shared, in, n, cut, by, init), shared(shared), out(out), exclusive(exclusive) {}

    // The kernel body. `memory` is that of the join, zero before and after the launch.
    __device__ void run(void *memory) const {
        if (kind_of(cut) == ROWS && by.lanes > 0) return scan_short();
        Base::run([&](u32) { scan_piece(Join(memory, by.pieces)); },
                  [&](Segment of, u32 count, bool) {
                      // Several segments of several warps each take one round. All warps of a block take as many rounds
                      // of rows: with several a block has one row, or rows begin at units.
                      u32 most = kind_of(cut) == ROWS ? u32(cut.columns) : by.parts == this->warps() ? count : 1;
                      scan(of.begin, count, by.parts, this->part(), most, init, Keep());
                  },
                  [&](Segment of) {
                      u32 count = u32(of.count());
                      scan(of.begin, count, this->warps(), warp, count, init, Keep());
                  });
    }

  private:
    // By the block: what a piece has of long segments, which is one round.
    __device__ void scan_piece(Join join) const {
        u32 number;
        join.enter(shared.join, Maybe<HeadedCarry>{{}, false}, number);
        typename Base::Piece piece = this->find(number);
        // Every piece hands on a carry, whatever the offsets are, so none waits for ever.
        auto publish = [&](Carry all, bool begins) {
            if (warp == 0) join.publish(number, {all, begins}, lane);
        };
        if (!piece.has_head() && !piece.has_tail()) publish(Carry(), true);
#pragma unroll 1
        for (u32 head = 0; head < 2; head++) { // the tail first, as other pieces wait for it
            if (!(head ? piece.has_head() : piece.has_tail())) continue;
            const Segment &of = head ? piece.head : piece.tail;
            Position begin = max(of.begin, piece.first);
            u32 count = u32(min(of.end, piece.end) - begin);
            scan(begin, count, this->warps(), warp, count, init, [&](const Carry &all, Maybe<Carry> before) {
                if (!head || !piece.has_tail()) publish(all, of.begin >= piece.first);
                if (of.begin >= piece.first) return before;
                if (warp == 0) {
                    // With the flag the piece that closes the group does not combine its aggregate, which no piece reads.
                    Carry earlier = join.receive(number, {all, 1}, {{}, false}, lane).value.value;
                    if (lane == 0) shared.prefix = earlier;
                }
                __syncthreads();
                return joined(before, shared.prefix);
            });
            __syncthreads(); // the folds of the tail have been read
        }
        if (warp == 0) join.retire(number, lane);
    }

    // What lies before a round stays what it is.
    struct Keep {
        __device__ Maybe<Carry> operator()(const Carry &, Maybe<Carry> before) const { return before; }
    };
    // By so many adjacent warps, of which this is number `part`: scans `count` items from `begin` on, if there are any,
    // `before` combined before the first. With more than one warp each round is a barrier of the block, and `most` says
    // for how many items there are rounds. All warps call `hand(all, before)` with the fold of a round of theirs, which
    // returns what lies before it.
    template <class Hand>
    __device__ void scan(Position begin, u32 count, u32 warps, u32 part, u32 most, Maybe<Carry> before,
                         const Hand &hand) const {
        Unit *stage = shared.stage[warp];
        u32 skip = u32(begin % OWN); // items before the segment in its first unit
        u32 end = count > 0 ? skip + count : 0, bound = warps == 1 ? end : skip + most;
        begin -= skip;
        for (u32 at = 0, round = 0; at < bound; at += warps * CHUNK, round ^= 1) {
            // ---- fold: the items `lead` to `here` of the stage are the warp's
            u32 from = at + part * CHUNK, here = from < end ? min(end - from, CHUNK) : 0;
            u32 lead = from == 0 ? skip : 0, lanes = this->lanes_with_items(here);
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
                Carry of_round = shuffle(all, with_items - 1);
                prefix = before = hand(of_round, before);
                if (part > 0) prefix = joined(prefix, shuffle(all, part - 1));
                before = joined(before, of_round);
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

    // Short rows: a warp takes `of_warp` of them, and so many adjacent lanes one.
    __device__ void scan_short() const {
        Unit *stage = shared.stage[warp];
        u32 columns = u32(cut.columns), lanes = by.lanes, of_warp = by.of_warp;
        u64 begin = (u64(blockIdx.x) * EACH_WARPS + warp) * of_warp * columns;
        if (begin >= n) return;
        u32 count = u32(min(n - begin, u64(of_warp * columns))), lead = this->load(stage, begin, count);
        this->each_row(stage, lead, count, columns, lanes, [&](u32, auto *own, u32 parts, u32 with_items) {
            // ---- fold. Lanes without items take the fold of a lane before them, as above.
            Carry upto = Chunk::folded(
                [&](auto first, auto next) { Chunk::template each_of<false>(own, parts, first, next); });
            upto = shuffle(upto, WARP - 1 - __clz(with_items & (~0u >> (WARP - 1 - lane))));
            u32 part = lane & (lanes - 1); // of a row
            upto = warp_inclusive<Operator>(upto, part, lanes);
            // ---- finish
            Carry of_lanes_before = shuffle_up(upto, 1);
            Maybe<Carry> prefix = part > 0 ? joined(init, of_lanes_before) : init;
            put(prefix, [&](auto first, auto next) { Chunk::template each_of<true>(own, parts, first, next); });
        });
        __syncwarp();
        store(stage, begin - lead, lead, lead + count);
    }

    // Puts the prefixes of the items that a lane owns in their places. `each(first, next)` goes over them; `prefix` is
    // what lies before.
    template <class Over> __device__ void put(Maybe<Carry> prefix, const Over &each) const {
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
