// Reduce by segment where some lanes, a warp or a block fold a segment alone.
//
//   fold    each warp folds its part of a segment: the whole one, or one of up to EACH_WARPS parts
//   block   the parts of a segment are joined in order                    one barrier, if a segment has several
//
// Of short rows a warp copies several at once, and some adjacent lanes fold one (`fold_short`).
//
// Blocks take segments in order, so what the grid reads at one time lies together. Rows, and inputs without pieces,
// need no flags, no search and no ticket, so their time is that of reading the items.
//
// By offsets a segment may be longer than others. One that is *wide*, too long for its warps, is folded by all warps
// of its block. One that is *long*, longer than a piece of the input, is left to blocks of their own, one a piece:
//
//   piece   the block searches the segments of the piece's first and last item, and folds what it has of long ones
//   grid    the block whose piece is done last joins them, if there are any                  one ticket a piece
#pragma once
#include "segmented/chunk.cuh"
#include "segmented/share.cuh"

template <class Operator, u32 CHUNK> struct EachReduction : WarpChunk<Operator, CHUNK> {
    typedef WarpChunk<Operator, CHUNK> Chunk;
    typedef typename Headed<Operator>::Carry HeadedCarry;
    typedef ::Share<Operator> Share;
    using Chunk::lane, Chunk::OWN, Chunk::warp;
    using typename Chunk::Carry;
    using typename Chunk::Element;
    using typename Chunk::Unit;

    // A segment and its items; or none, with the number NONE.
    static constexpr u64 NONE = Share::NONE;
    struct Segment { u64 number, begin, end; };

    struct Shared {
        Unit stage[EACH_WARPS][WARP * Chunk::UNITS];
        Carry carry[EACH_WARPS]; // each warp's fold
        HeadedCarry headed[EACH_WARPS];
        Segment segment[EACH_WARPS]; // wide ones, or long ones of a piece's first and last item
        bool is_last; // whether the block's piece was done last, and some piece has items of a long segment
    };

    Shared &shared;
    u64 n;
    const Cut &cut;
    const EachShares &by;
    Maybe<Carry> init; // is combined before each segment's first item

    __device__ EachReduction(Shared &shared, const Element *in, u64 n, const Cut &cut, const EachShares &by,
                             Maybe<Carry> init)
        : Chunk(in), shared(shared), n(n), cut(cut), by(by), init(init) {}

    // The kernel body. `empty` is the result of an empty segment. `ticket` is zero before and after the launch;
    // `shares` has room for one share a piece.
    __device__ void run(Element empty, Element *out, u32 *ticket, Share *shares) const {
        u32 block = blockIdx.x;
        if (kind_of(cut) == ROWS) {
            if (by.lanes > 0) return fold_short(out);
        } else if (has_pieces()) {
            // Pieces come between the other blocks, as a piece without a long segment only waits for its search.
            u32 turn = gridDim.x / by.pieces, before = min((block + turn - 1) / turn, by.pieces);
            if (block % turn == 0 && block / turn < by.pieces) return run_piece(block / turn, out, ticket, shares);
            block -= before;
        }
        u32 warps = blockDim.x / WARP, part = 0;
        Segment own = {u64(block) * warps + warp, 0, 0};
        if (by.parts > 1) part = warp % by.parts, own.number = u64(block) * (warps / by.parts) + warp / by.parts;
        if (own.number < cut.segments) read_bounds(own);
        else own.number = NONE;
        u64 count = own.begin < own.end && own.end <= n ? own.end - own.begin : 0; // else empty, or not in order
        if (has_pieces() && count > by.piece) own.number = NONE, count = 0;
        bool is_wide = kind_of(cut) != ROWS && by.parts < warps && count > by.wide;
        Carry all = fold_by(by.parts, own.begin, is_wide ? 0 : u32(count));
        if (own.number != NONE && !is_wide && part == 0 && lane == 0)
            out[own.number] = count == 0 ? empty : Operator::lower(begun(all));
        if (kind_of(cut) == ROWS || by.parts == warps) return;

        // ---- wide segments
        if (!__syncthreads_or(is_wide)) return;
        if (!is_wide || part > 0) own.number = NONE;
        if (lane == 0) shared.segment[warp] = own;
        for (u32 w = 0; w < warps; w++) {
            __syncthreads(); // the segments are there, and the folds of the one before have been read
            Segment wide = shared.segment[w];
            if (wide.number == NONE) continue;
            all = fold_by(warps, wide.begin, u32(wide.end - wide.begin));
            if (threadIdx.x == 0) out[wide.number] = Operator::lower(begun(all));
        }
    }

  private:
    __device__ bool has_pieces() const { return kind_of(cut) != ROWS && by.pieces > 0; }

    // Reads where a segment begins and ends.
    __device__ void read_bounds(Segment &of) const {
        with_offsets(cut, [&](auto offsets) {
            of.begin = offsets[of.number];
            of.end = offsets[of.number + 1];
            return u64(0);
        });
    }

    // ---- pieces

    // By the block: what a piece has of long segments.
    __device__ void run_piece(u32 piece, Element *out, u32 *ticket, Share *shares) const {
        u64 first = u64(piece) * by.piece, end = min(first + by.piece, n);
        if (warp < 2) {
            u64 item = warp == 0 ? first : end - 1, behind = first < end ? offsets_before(cut, item + 1, n, lane) : 0;
            Segment own = {behind - 1, 0, 0};
            if (behind > 0 && behind <= cut.segments) read_bounds(own);
            bool has_item = own.begin <= item && item < own.end &&
                            own.end <= n; // false in a gap, or by offsets in no order
            if (!has_item || own.end - own.begin <= by.piece) own.number = NONE;
            if (lane == 0) shared.segment[warp] = own;
        }
        __syncthreads();
        Segment head = shared.segment[0], tail = shared.segment[1];
        bool has_head = head.number != NONE, has_tail = tail.number != NONE && tail.number != head.number;
        Carry of_head = Carry(), of_tail = Carry();
        if (has_head) of_head = fold_by(blockDim.x / WARP, first, u32(min(head.end, end) - first));
        if (has_tail) {
            __syncthreads(); // the first warp has read the folds of the others
            u64 begin = max(tail.begin, first);
            of_tail = fold_by(blockDim.x / WARP, begin, u32(end - begin));
        }
        if (threadIdx.x == 0) {
            Share share = {{Carry(), 1}, NONE, {Carry(), false}};
            if (has_head && head.begin < first) share.aggregate = {of_head, 0};
            else if (has_head) share.aggregate = {begun(of_head), 1};
            // A long segment does not fit a piece, so one that ends here began before.
            if (has_head && head.end <= end) share.closed = head.number, share.last = {of_head, true};
            if (has_tail) share.aggregate = {begun(of_tail), 1};
            shares[piece] = share;
            // The ticket counts the pieces, and above them those with items of a long segment.
            // Release: the share comes before the ticket. Acquire: the threads of the last block read every share
            // after its ticket, and after the barrier.
            u32 more = has_head || has_tail ? LONG_PIECE + 1 : 1;
            u32 done = add_acquire_release(ticket, more) + more;
            shared.is_last = done % LONG_PIECE == by.pieces && done >= LONG_PIECE;
            if (done % LONG_PIECE == by.pieces) *ticket = 0;
        }
        __syncthreads();
        if (shared.is_last) close_all<Operator>(shared.headed, blockDim.x, by.pieces, shares, out);
    }
    static constexpr u32 LONG_PIECE = 1 << 16;

    // ---- the fold

    __device__ Carry begun(Carry all) const { return after<Operator>(init, all); }

    // By so many adjacent warps: the fold of `count` items from `begin` on, if there are any, in lane 0 of the first
    // warp. With more than one it is a barrier of the block. A part is some whole lines.
    __device__ Carry fold_by(u32 warps, u64 begin, u32 count) const {
        constexpr u32 IN_LINE = LINE / sizeof(Element); // items
        u32 part = 0, each = count;
        if (warps > 1) part = warp % warps, each = ((count + warps - 1) / warps + IN_LINE - 1) / IN_LINE * IN_LINE;
        u32 first = part * each;
        Carry all = Carry();
        if (first < count) all = fold(shared.stage[warp], begin + first, min(each, count - first));
        if (warps == 1) return all;
        if (lane == 0) shared.carry[warp] = all;
        __syncthreads();
        if (part > 0 || count == 0) return Carry();
        u32 with_items = (count + each - 1) / each;
        return warp_fold<Operator>(shared.carry[warp + min(lane, with_items - 1)], lane, with_items);
    }

    // By one warp: the fold of `count` items from `begin` on, at least one, in lane 0. The grouping depends on both,
    // and not on the address of the input.
    __device__ Carry fold(Unit *stage, u64 begin, u32 count) const {
        Carry upto = Carry();
        for (u32 at = 0, here; at < count; at += here) {
            here = min(count - at, CHUNK - u32((begin + at) % OWN));
            u32 lead = this->load(stage, begin + at, here);
            Carry own = this->fold_own(stage, lead, lead + here);
            __syncwarp(); // every lane has read the units that the next ones overwrite
            Carry all = warp_fold<Operator>(own, lane, Chunk::lanes_with_items(lead + here));
            upto = at > 0 && lane == 0 ? Operator::combine(upto, all) : all; // other lanes may have no items
        }
        return upto;
    }

    // Short rows: a warp takes `of_warp` of them, and `lanes` adjacent lanes one.
    __device__ void fold_short(Element *out) const {
        Unit *stage = shared.stage[warp];
        u32 columns = u32(cut.columns), lanes = by.lanes;
        u64 row = (u64(blockIdx.x) * EACH_WARPS + warp) * by.of_warp, begin = row * columns;
        if (row >= cut.segments) return;
        u32 count = u32(min(cut.segments - row, u64(by.of_warp))) * columns, lead = this->load(stage, begin, count);
        this->each_row(stage, lead, count, columns, lanes, [&](u32 k, auto *own, u32 parts, u32 with_items) {
            u32 part = lane % lanes, of_row = __popc((with_items >> (lane - part)) & (~0u >> (WARP - lanes)));
            Carry all = Chunk::folded(
                [&](auto first, auto next) { Chunk::template each_of<false>(own, parts, first, next); });
            all = warp_fold<Operator>(all, part, of_row, lanes);
            if (part == 0 && parts > 0) out[row + k] = Operator::lower(begun(all));
        });
    }
};
