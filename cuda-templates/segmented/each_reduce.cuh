// Reduce by segment where some lanes, a warp or a block fold a segment alone (each.cuh).
//
//   fold    each warp folds its part of a segment: the whole one, or one of up to EACH_WARPS parts
//   block   the parts of a segment are joined in order                    one barrier, if a segment has several
//
// Of short rows a warp copies several at once, and some adjacent lanes fold one (`fold_short`). Of long segments:
//
//   piece   the block folds what a piece has of them
//   grid    the block whose piece is done last joins them, if there are any                  one ticket a piece
#pragma once
#include "segmented/each.cuh"
#include "segmented/share.cuh"

template <class Operator, u32 CHUNK> struct EachReduction : Each<Operator, CHUNK, false> {
    typedef Each<Operator, CHUNK, false> Base;
    typedef typename Base::Chunk Chunk;
    typedef typename Headed<Operator>::Carry HeadedCarry;
    typedef ::Share<Operator> Share;
    using Base::by, Base::cut, Base::init, Base::lane, Base::OWN, Base::warp;
    using typename Base::Carry;
    using typename Base::Element;
    using typename Base::Unit;

    struct Shared : Base::Shared {
        HeadedCarry headed[EACH_WARPS];
        bool is_last; // whether the block's piece was done last, and some piece has items of a long segment
    };

    Shared &shared;

    __device__ EachReduction(Shared &shared, const Element *in, u64 n, const Cut &cut, const EachShares &by,
                             Maybe<Carry> init)
        : Base(shared, in, n, cut, by, init), shared(shared) {}

    // The kernel body. `empty` is the result of an empty segment. `ticket` is zero before and after the launch;
    // `shares` has room for one share a piece.
    __device__ void run(Element empty, Element *out, u32 *ticket, Share *shares) const {
        if (kind_of(cut) == ROWS && by.lanes > 0) return fold_short(out);
        Base::run([&](u32 piece) { fold_piece(piece, out, ticket, shares); },
                  [&](Segment of, u32 count, bool is_wide) {
                      u32 part = this->part();
                      Carry all = fold_by(by.parts, part, this->divided(count + by.parts - 1), of.begin, count);
                      if (of.number != of.NONE && !is_wide && part == 0 && lane == 0)
                          out[of.number - 1] = count == 0 ? empty : Operator::lower(begun(all));
                  },
                  [&](Segment of) {
                      Carry all = fold_by_block(of.begin, u32(of.count()));
                      if (threadIdx.x == 0) out[of.number - 1] = Operator::lower(begun(all));
                  });
    }

  private:
    // By the block: what a piece has of long segments.
    __device__ void fold_piece(u32 number, Element *out, u32 *ticket, Share *shares) const {
        typename Base::Piece piece = this->find(number);
        const Segment &head = piece.head, &tail = piece.tail;
        Position first = piece.first, end = piece.end;
        Carry of_head = Carry(), of_tail = Carry();
#pragma unroll 1
        for (u32 is_tail = 0; is_tail < 2; is_tail++) { // the code of two folds would take registers
            if (!(is_tail ? piece.has_tail() : piece.has_head())) continue;
            Position begin = is_tail ? max(tail.begin, first) : first, upto = is_tail ? end : min(head.end, end);
            Carry all = fold_by_block(begin, u32(upto - begin));
            if (is_tail) of_tail = all;
            else of_head = all;
            __syncthreads(); // the first warp has read the folds of the others
        }
        if (threadIdx.x == 0) {
            Share share = {{Carry(), 1}, Share::NONE, {Carry(), false}};
            if (piece.has_head() && head.begin < first) share.aggregate = {of_head, 0};
            else if (piece.has_head()) share.aggregate = {begun(of_head), 1};
            // A long segment does not fit a piece, so one that ends here began before.
            if (piece.has_head() && head.end <= end) share.closed = head.number - 1, share.last = {of_head, true};
            if (piece.has_tail()) share.aggregate = {begun(of_tail), 1};
            shares[number] = share;
            // The ticket counts the pieces, and above them those with items of a long segment.
            // Release: the share comes before the ticket. Acquire: the threads of the last block read every share
            // after its ticket, and after the barrier.
            u32 more = piece.has_head() || piece.has_tail() ? LONG_PIECE + 1 : 1;
            u32 done = add_acquire_release(ticket, more) + more;
            shared.is_last = done % LONG_PIECE == by.pieces && done >= LONG_PIECE;
            if (done % LONG_PIECE == by.pieces) *ticket = 0;
        }
        __syncthreads();
        if (shared.is_last) close_all<Operator>(shared.headed, blockDim.x, by.pieces, shares, out);
    }
    static constexpr u32 LONG_PIECE = 1 << 16;
    static_assert(MOST_FOLDED_PIECES < LONG_PIECE - 1, "the ticket counts both");

    __device__ Carry fold_by_block(Position begin, u32 count) const {
        u32 warps = this->warps();
        return fold_by(warps, warp, (count + warps - 1) / warps, begin, count);
    }
    // By so many adjacent warps, of which this is number `part`: the fold of `count` items from `begin` on, if there are
    // any, in lane 0 of the first warp. A warp has at least `each` items, in whole lines. With more than one warp it is a
    // barrier of the block.
    __device__ Carry fold_by(u32 warps, u32 part, u32 each, Position begin, u32 count) const {
        constexpr u32 IN_LINE = LINE / sizeof(Element); // items
        each = warps == 1 ? count : (each + IN_LINE - 1) / IN_LINE * IN_LINE;
        u32 first = part * each;
        Carry all = Carry();
        if (first < count) all = fold(shared.stage[warp], begin + first, min(each, count - first));
        if (warps == 1) return all;
        Carry *carry = shared.carry[0];
        if (lane == 0) carry[warp] = all;
        __syncthreads();
        if (part > 0 || count == 0) return Carry();
        u32 with_items = __popc(__ballot_sync(ALL_LANES, lane < warps && lane * each < count));
        return warp_fold<Operator>(carry[warp + min(lane, with_items - 1)], lane, with_items);
    }

    // By one warp: the fold of `count` items from `begin` on, at least one, in lane 0. The grouping depends on both,
    // and not on the address of the input.
    __device__ Carry fold(Unit *stage, Position begin, u32 count) const {
        Carry upto = Carry();
        for (u32 at = 0, here; at < count; at += here) {
            here = min(count - at, CHUNK - u32((begin + at) % OWN));
            u32 lead = this->load(stage, begin + at, here);
            Carry own = this->fold_own(stage, lead, lead + here);
            __syncwarp(); // every lane has read the units that the next ones overwrite
            Carry all = warp_fold<Operator>(own, lane, this->lanes_with_items(lead + here));
            upto = at > 0 && lane == 0 ? Operator::combine(upto, all) : all; // other lanes may have no items
        }
        return upto;
    }

    __device__ Carry begun(Carry all) const { return after<Operator>(init, all); }

    // Short rows: a warp takes `of_warp` of them, and `lanes` adjacent lanes one.
    __device__ void fold_short(Element *out) const {
        Unit *stage = shared.stage[warp];
        u32 columns = u32(cut.columns), lanes = by.lanes;
        u64 row = (u64(blockIdx.x) * EACH_WARPS + warp) * by.of_warp, begin = row * columns;
        if (row >= cut.segments) return;
        u32 count = u32(min(cut.segments - row, u64(by.of_warp))) * columns, lead = this->load(stage, begin, count);
        this->each_row(stage, lead, count, columns, lanes, [&](u32 k, auto *own, u32 parts, u32 with_items) {
            u32 part = lane & (lanes - 1), of_row = __popc((with_items >> (lane - part)) & (~0u >> (WARP - lanes)));
            Carry all = Chunk::folded(
                [&](auto first, auto next) { Chunk::template each_of<false>(own, parts, first, next); });
            all = warp_fold<Operator>(all, part, of_row, lanes);
            if (part == 0 && parts > 0) out[row + k] = Operator::lower(begun(all));
        });
    }
};
