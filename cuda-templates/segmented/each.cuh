// Segments that some lanes, a warp or a block take whole: which ones a block takes.
//
// Blocks take segments in order, so what the grid reads at one time lies together. Inputs without pieces
// need no flags, no search and no ticket, so their time is that of going over the items.
//
// By offsets a segment may be longer than others. One that is *wide*, too long for its warps, is taken by all warps
// of its block. One that is *long* is left to blocks of their own, one for each piece of the input, which is not longer.
// Such a block searches the segments of the piece's first and last item: a long segment has one of them, if it has any
// item of the piece. Of rows all are long, or none.
#pragma once
#include "segmented/chunk.cuh"
#include "segmented/heads.cuh"

// Adjacent items between two offsets; or none, with the number NONE. Segment j ends at offset j: offset 0 ends the
// items before the first segment, and the items behind the last offset have the greatest number.
struct Segment {
    static constexpr Position NONE = ~Position(0);
    Position number, begin, end;
    __device__ Position count() const { return begin < end ? end - begin : 0; } // offsets may be in no order
};

// OUTSIDE: whether the items before the first offset and behind the last one are segments too, as in a scan.
template <class Operator, u32 CHUNK, bool OUTSIDE> struct Each : WarpChunk<Operator, CHUNK> {
    typedef WarpChunk<Operator, CHUNK> Chunk;
    using Chunk::lane, Chunk::OWN, Chunk::warp;
    using typename Chunk::Carry;
    using typename Chunk::Element;
    using typename Chunk::Unit;

    struct Shared {
        Unit stage[EACH_WARPS][WARP * Chunk::UNITS];
        Carry carry[2][EACH_WARPS]; // each warp's fold; of a scan, that of this round and of the one before
        Segment segment[EACH_WARPS]; // wide ones, or long ones of a piece's first and last item
    };

    Shared &shared;
    u64 n;
    const Cut &cut;
    const EachShares &by;
    Maybe<Carry> init; // is combined before each segment's first item

    __device__ Each(Shared &shared, const Element *in, u64 n, const Cut &cut, const EachShares &by, Maybe<Carry> init)
        : Chunk(in), shared(shared), n(n), cut(cut), by(by), init(init) {}

  protected:
    __device__ u32 warps() const { return blockDim.x / WARP; } // of the block
    // A warp's number divided by the warps of a segment. Of other numbers below 2^24 the quotient, rounded down, or up to
    // a 64th more. A division is some 20 instructions, one after the other, which a short call would wait for.
    __device__ u32 divided(u32 x) const { return x * by.inverse >> 8; }
    __device__ u32 part() const { return warp - divided(warp) * by.parts; } // the warp's number in its segment

    // By the block, which takes a piece or some segments. Calls
    // - `take_piece(number)` with a piece: `number` is its place in the grid;
    // - else `take(segment, count, is_wide)` by the warps of a segment: no items if it is wide, no segment if it is long;
    // - then `take_wide(segment)` by the block, for each that is wide.
    // One call for two of these would take registers from the common way, and so would an outlined one.
    template <class TakePiece, class Take, class TakeWide>
    __device__ void run(const TakePiece &take_piece, const Take &take, const TakeWide &take_wide) const {
        u32 block = blockIdx.x, parts = by.parts;
        // A scan of long rows goes over tiles.
        bool has_pieces = (kind_of(cut) != ROWS || !OUTSIDE) && by.pieces > 0;
        if (has_pieces) {
            // Pieces come between the other blocks, as a piece without a long segment only waits for its search.
            u32 piece = block >> by.piece_shift, is_between = block & ((1 << by.piece_shift) - 1);
            if (kind_of(cut) == ROWS || (!is_between && piece < by.pieces)) return take_piece(piece);
            block -= min(piece + 1, by.pieces);
        }
        Segment of = segment(lowest() + Position(block) * by.of_block + divided(warp));
        Position count = of.count();
        if (has_pieces && count > by.longest) of.number = Segment::NONE, count = 0;
        bool is_wide = kind_of(cut) != ROWS && parts < warps() && count > by.wide;
        take(of, is_wide ? 0 : u32(count), is_wide);
        if (kind_of(cut) == ROWS || parts == warps() || !__syncthreads_or(is_wide)) return;
        if (!is_wide) of.number = Segment::NONE;
        if (lane == 0) shared.segment[warp] = of;
        for (u32 w = 0; w < warps(); w += parts) {
            __syncthreads(); // the segments are there, and what the one before left in shared memory has been read
            Segment wide = shared.segment[w];
            if (wide.number != Segment::NONE) take_wide(wide);
        }
    }

    // What a piece has of long segments: of one that has its first item, and of one that begins behind that.
    struct Piece {
        Position first, end;
        Segment head, tail;
        __device__ bool has_head() const { return head.number != Segment::NONE; }
        __device__ bool has_tail() const { return tail.number != Segment::NONE && tail.number != head.number; }
    };
    // By the block.
    __device__ Piece find(u32 piece) const {
        Position first = piece * by.piece, end = Position(min(u64(first) + by.piece, n));
        if (warp < 2) {
            Position item = warp == 0 ? first : end - 1;
            Segment of = {Segment::NONE, 0, 0};
            if (first < end) of = segment(Position(offsets_before(cut, u64(item) + 1, n, lane)));
            bool has_item = of.begin <= item && item < of.end; // not so by offsets in no order
            if (!has_item || of.count() <= by.longest) of.number = Segment::NONE;
            if (lane == 0) shared.segment[warp] = of;
        }
        __syncthreads();
        return {first, end, shared.segment[0], shared.segment[1]};
    }

  private:
    // The numbers of the segments.
    __device__ Position lowest() const { return has_outside() ? 0 : 1; }
    __device__ Position highest() const { return Position(has_outside() ? cut.segments + 1 : cut.segments); }
    __device__ bool has_outside() const { return OUTSIDE && kind_of(cut) != ROWS; }

    // The items up to offset `number`, from the one before it on, if that is a segment. Offsets past the items count as
    // `n`.
    __device__ Segment segment(Position number) const {
        if (number < lowest() || number > highest()) return {Segment::NONE, 0, 0};
        Segment of = {number, 0, Position(n)};
        with_offsets(cut, [&](auto offsets) {
            if (number > 0) of.begin = Position(min(u64(offsets[number - 1]), n));
            if (number <= cut.segments) of.end = Position(min(u64(offsets[number]), n));
            return u64(0);
        });
        return of;
    }
};
