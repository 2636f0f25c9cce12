// Segments of any lengths in tiles of equal work: pack copies them side by side, expand maps each
// output back to its segment. Load-balancing search (Baxter 2013, moderngpu; Merrill and Garland
// 2016, "Merge-Based Parallel Sparse Matrix-Vector Multiplication").
//
// Work is a line of units: a segment takes COST units, then one unit for each of its outputs. A
// tile is TILE consecutive units, so neither a long segment nor many empty ones keep a block longer
// than other blocks. A block finds its tile's first and last segment by search. Blocks exchange
// nothing.
#pragma once
#include "core/types.cuh"
#include "segments/contract.cuh" // `Ends`, which the host shares: src/cuda/segments/contract.rs

// Where the outputs of the segments before segment i end. An offset below the first one counts as
// the first one.
template <class Offset> __device__ inline u64 outputs_before(const Ends<Offset> &ends, u64 i) {
    Offset begin = ends.offsets[0], end = max(ends.offsets[i], begin);
    return min(u64(Offset(end - begin)), ends.capacity) * ends.unit;
}

// One tile, in every thread of its block: its segments and outputs, and the search for the segment
// of an output.
template <class Offset_, u32 WARPS_, u32 TILE_, u32 COST_> struct SegmentTile {
    typedef Offset_ Offset;
    static constexpr u32 WARPS = WARPS_, THREADS = WARPS * WARP, TILE = TILE_, COST = COST_;
    static constexpr u32 SEGMENTS = TILE / COST + 1;
    // The greatest power of two up to n.
    static __host__ __device__ constexpr u32 power(u32 n) { return n < 2 ? 1 : 2 * power(n / 2); }

    struct Shared {
        u64 segment[2]; // the tile's first segment, and its last
        u64 output[2];  // where the tile's outputs begin, and where they end
        // By segment of the tile: the end of its outputs, from the tile's first output on.
        u32 end[SEGMENTS];
    };

    Shared &shared;
    Ends<Offset> ends;
    u64 first, output; // the tile's first segment, and its first output
    u32 segments, outputs;

    // By all threads of the block. `find` and `shared.end` may be used after a barrier.
    __device__ SegmentTile(Shared &shared, Ends<Offset> ends, u64 tile) : shared(shared), ends(ends) {
        u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        if (warp < 2) {
            u64 position = (tile + warp) * TILE, i = segments_ended(position, lane), before = outputs_before(ends, i),
                first_unit = before + (i + 1) * COST;
            if (lane == 0) {
                shared.segment[warp] = i;
                shared.output[warp] = i == ends.n || position < first_unit
                                          ? before
                                          : min(before + (position - first_unit), ends.capacity * ends.unit);
            }
        }
        __syncthreads();
        first = shared.segment[0];
        output = shared.output[0];
        // With offsets in no order the last segment may be far from the first, and the end before
        // the first output. The tile then has fewer segments, or no outputs.
        u64 last = min(shared.segment[1] + 1, ends.n), end = max(output, shared.output[1]);
        segments = u32(last > first ? min(last - first, u64(SEGMENTS)) : 0);
        outputs = u32(min(end - output, u64(TILE)));
        for (u32 k = threadIdx.x; k < segments; k += THREADS) {
            u64 end = outputs_before(ends, first + k + 1);
            shared.end[k] = end > output ? u32(min(end - output, u64(outputs))) : 0;
        }
    }

    // The segment that an output is in, or `segments` if it is in none. Both are numbered from the
    // tile's first one on.
    __device__ u32 find(u32 output) const {
        u32 found = 0;
#pragma unroll
        for (u32 step = power(SEGMENTS); step > 0; step /= 2)
            if (found + step <= segments && shared.end[found + step - 1] <= output) found += step;
        return found;
    }

  private:
    // By one warp: the number i of segments that end at a unit or before it. A 32-way search.
    //
    // Three facts hold of i, whatever the order of offsets: segment i - 1 ends at the unit or
    // before, segment i does not, and a later unit gives no smaller i. They hold because each step
    // continues behind the first lane whose segment has not ended. So a tile has at most TILE
    // outputs up to the next tile's beginning, and every output up to the last offset is in a tile.
    __device__ u64 segments_ended(u64 position, u32 lane) const {
        u64 low = 0, high = ends.n;
        while (low < high) {
            u64 step = (high - low + WARP - 1) / WARP, i = low + lane * step;
            u32 ended = __ballot_sync(ALL_LANES, i < high && outputs_before(ends, i + 1) + (i + 1) * COST <= position);
            // Lanes before the first one whose segment has not ended.
            u32 done = __popc(ended & ~(ended + 1));
            high = min(high, low + done * step);
            if (done > 0) low += (done - 1) * step + 1;
        }
        return low;
    }
};

// ---- pack ---------------------------------------------------------------------------------------

// The 16 bytes at an address; only the bytes whose bit is set in `bits` are valid.
template <bool WORDS> __device__ inline Vector gathered(u64 address, u32 bits, u64 from, u64 bytes) {
    // The bytes lie in two vectors of memory. A vector is read only if it holds a requested byte.
    u32 past = u32(address % sizeof(Vector));
    const Vector *low = (const Vector *)(address - past), *high = low + 1;
    u32 wanted = bits << past;
    u32 word[8] = {};
    bool from_low = wanted & 0xffff, from_high = wanted >> 16;
    u64 begin = (u64)(from_low ? low : high), end = (u64)(from_high ? high + 1 : high);
    if (begin >= from && end <= from + bytes) {
        Vector a = {}, b = {};
        if (from_low) a = *low;
        if (from_high) b = *high;
#pragma unroll
        for (u32 i = 0; i < 4; i++) word[i] = a.word[i], word[4 + i] = b.word[i];
    } else if (bits) { // at the ends of the array, where a whole vector may reach outside
        for (u32 i = 0; i < 2 * sizeof(Vector); i++) {
            if (wanted >> i & 1) {
                u32 byte = u32(*((const u8 *)low + i)) << i % 4 * 8;
#pragma unroll
                for (u32 k = 0; k < 8; k++)
                    if (i / 4 == k) word[k] |= byte;
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < 6; i++) word[i] = past & 8 ? word[i + 2] : word[i];
#pragma unroll
    for (u32 i = 0; i < 5; i++) word[i] = past & 4 ? word[i + 1] : word[i];
    Vector vector;
#pragma unroll
    for (u32 i = 0; i < 4; i++) vector.word[i] = WORDS ? word[i] : __funnelshift_r(word[i], word[i + 1], past % 4 * 8);
    return vector;
}

// A mask of the bytes of a word whose bits are set.
__device__ inline u32 byte_mask(u32 bits) { return ((bits & 15) * 0x204081 & 0x01010101) * 0xff; }

// Packs one tile. Segment i has the items from `begins[i]` on. WORDS: an item is whole 4-byte
// words. Items past the end of the input are not copied.
template <class Tile, bool WORDS>
__device__ void pack_tile(Ends<typename Tile::Offset> ends, const typename Tile::Offset *begins, const u8 *from,
                          u64 bytes, u8 *to) {
    __shared__ typename Tile::Shared shared;
    // By segment: where its outputs come from minus where they go, in bytes, wrapping.
    __shared__ u64 source[Tile::SEGMENTS];
    Tile tile(shared, ends, blockIdx.x);
    for (u32 k = threadIdx.x; k < tile.segments; k += Tile::THREADS) {
        u64 i = tile.first + k;
        source[k] = min(u64(begins[i]), bytes / ends.unit) * ends.unit - outputs_before(ends, i);
    }
    __syncthreads();
    if (tile.outputs == 0) return;

    // If segments are very short, each thread copies single bytes: by vectors of many pieces too
    // few threads would have work.
    if (!WORDS && tile.outputs < 4 * tile.segments) {
        for (u32 j = threadIdx.x; j < tile.outputs; j += Tile::THREADS) {
            u32 k = tile.find(j);
            u64 index = tile.output + j, first = k < tile.segments ? source[k] + index : bytes;
            if (first < bytes) to[index] = from[first];
        }
        return;
    }

    // Each thread assembles vectors of the output, each from pieces of segments.
    // Offset of the tile's outputs in their first vector.
    u32 past = u32(((u64)to + tile.output) % sizeof(Vector));
    u8 *vectors = to + tile.output - past;
    for (u32 begin = threadIdx.x * sizeof(Vector); begin < past + tile.outputs;
         begin += Tile::THREADS * sizeof(Vector)) {
        // `have` has a bit for each byte of the vector that is there.
        u32 at = max(begin, past), end = min(begin + u32(sizeof(Vector)), past + tile.outputs), have = 0;
        Vector vector = {};
        for (u32 k = tile.find(at - past); at < end; k++) {
            // Skips empty segments.
            if (k < tile.segments && shared.end[k] + past <= at) k = tile.find(at - past);
            if (k >= tile.segments) break;
            u32 until = min(end, shared.end[k] + past);
            u64 first = source[k] + tile.output + (at - past); // in the input
            u32 count = first >= bytes ? 0 : u32(min(u64(until - at), bytes - first));
            u32 bits = ((1u << count) - 1) << (at - begin);
            Vector piece = gathered<WORDS>((u64)from + first - (at - begin), bits, (u64)from, bytes);
#pragma unroll
            for (u32 i = 0; i < 4; i++) vector.word[i] |= piece.word[i] & byte_mask(bits >> 4 * i);
            have |= bits;
            at = until;
        }
        u8 *out = vectors + begin;
        if (have == 0xffff) {
            *(Vector *)out = vector;
        } else if (WORDS) {
#pragma unroll
            for (u32 i = 0; i < 4; i++)
                if (have >> 4 * i & 1) ((u32 *)out)[i] = vector.word[i];
        } else {
#pragma unroll
            for (u32 b = 0; b < sizeof(Vector); b++)
                if (have >> b & 1) out[b] = u8(vector.word[b / 4] >> 8 * (b % 4));
        }
    }
}

// ---- expand -------------------------------------------------------------------------------------

// For each output, the segment that it is in and its position in it; `positions` may be null.
//
// Every segment that is not empty marks its first output with its number. Then a warp goes over
// consecutive outputs, 32 at a time, and takes for each the last mark at or before it: a maximum
// scan of head flags.
//
// With offsets in no order an output may be in none of the tile's segments. It gets the number of
// the last segment, so that the kernel writes every output.
template <class Tile, class Index>
__device__ void expand_tile(Ends<typename Tile::Offset> ends, Index *segment_of, Index *positions) {
    constexpr u32 PART = Tile::TILE / Tile::WARPS; // outputs of a warp
    static_assert(PART % WARP == 0, "warps take whole rows");
    __shared__ typename Tile::Shared shared;
    // The number of the segment that begins there, plus 1; or 0.
    alignas(sizeof(Vector)) __shared__ u16 mark[Tile::TILE];
    static_assert(Tile::SEGMENTS < 0xffff, "marks are 16 bits");
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, upto = ALL_LANES >> (WARP - 1 - lane);
    for (u32 j = threadIdx.x; j < Tile::TILE * sizeof(u16) / sizeof(Vector); j += Tile::THREADS)
        ((Vector *)mark)[j] = {};
    Tile tile(shared, ends, blockIdx.x);
    __syncthreads();
    for (u32 k = threadIdx.x; k < tile.segments; k += Tile::THREADS) {
        u32 begin = k == 0 ? 0 : shared.end[k - 1];
        // Offsets in no order may give several segments one begin.
        if (begin < shared.end[k]) store_relaxed_shared(mark + begin, u16(k + 1));
    }
    __syncthreads();
    u64 start = outputs_before(ends, tile.first); // where the tile's first segment begins
    u32 first = warp * PART, end = min(first + PART, tile.outputs);
    if (first >= end) return;
    u32 segment = tile.find(first); // of the output before the row, or of the warp's first output
    u32 last = tile.segments - 1;   // a tile with outputs has a segment
    for (u32 row = first; row < end; row += WARP) {
        u32 j = row + lane, own = mark[j], begun = __ballot_sync(ALL_LANES, own != 0) & upto;
        u32 latest = __shfl_sync(ALL_LANES, own, begun ? WARP - 1 - __clz(begun) : lane);
        u32 k = min(begun ? latest - 1 : segment, last);
        segment = __shfl_sync(ALL_LANES, k, WARP - 1);
        if (j < end) {
            segment_of[tile.output + j] = Index(tile.first + k);
            if (positions)
                positions[tile.output + j] = Index(tile.output + j -
                                                   (k == 0 ? start : tile.output + shared.end[k - 1]));
        }
    }
}
