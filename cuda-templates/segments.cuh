// Segments of any lengths, in tiles of equal work: copies that pack them, and the map from outputs back to segments.
//
// All segments lie on a line of work: each takes COST places, and then one for each of its outputs. A tile is TILE places of the
// line, so that neither a long segment nor many empty ones keep a block for longer than others. Which segments a tile has is found by
// search, by its block: nothing is handed from one to the next.
#pragma once
#include "types.cuh"

// Where segments end in the output: `offsets` are one more than segments, of which the first one is where the output begins.
template <class Offset> struct Ends {
    const Offset *offsets;
    u64 n;    // segments
    u64 room; // outputs, of `unit` each
    u32 unit;

    // Where the output ends of the segments before i.
    __device__ u64 before(u64 i) const { return min(u64(Offset(offsets[i] - offsets[0])), room) * unit; }
};

template <class Offset_, u32 WARPS_, u32 TILE_, u32 COST_> struct SegmentTile {
    typedef Offset_ Offset;
    static constexpr u32 WARPS = WARPS_, THREADS = WARPS * WARP, TILE = TILE_, COST = COST_;
    static constexpr u32 SEGMENTS = TILE / COST + 1;

    struct Shared {
        u64 segment[2]; // the first one, and the last
        u64 output[2];  // where the tile's outputs begin, and end
        u32 end[SEGMENTS]; // of the outputs of each, from the tile's first output on
    };

    Shared &shared;
    Ends<Offset> ends;
    u64 first, output; // segment, output
    u32 segments, outputs;

    // By all threads of the block.
    __device__ SegmentTile(Shared &shared, Ends<Offset> ends, u64 tile) : shared(shared), ends(ends) {
        u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        if (warp < 2) {
            u64 place = (tile + warp) * TILE, i = finished(place, lane), before = ends.before(i), its_first = before + (i + 1) * COST;
            if (lane == 0) {
                shared.segment[warp] = i;
                shared.output[warp] = i == ends.n || place < its_first ? before : min(before + (place - its_first), ends.room * ends.unit);
            }
        }
        __syncthreads();
        first = shared.segment[0];
        output = shared.output[0];
        // What is not in order already ends here.
        u64 last = min(shared.segment[1] + 1, ends.n), end = max(output, shared.output[1]);
        segments = u32(last > first ? min(last - first, u64(SEGMENTS)) : 0);
        outputs = u32(min(end - output, u64(TILE)));
        for (u32 k = threadIdx.x; k < segments; k += THREADS) {
            u64 end = ends.before(first + k + 1);
            shared.end[k] = end > output ? u32(min(end - output, u64(outputs))) : 0;
        }
    }

    // The segment of an output, from the tile's first of either on; none is `segments`. After a barrier.
    __device__ u32 find(u32 output) const {
        u32 low = 0, high = segments;
        while (low < high) {
            u32 middle = (low + high) / 2;
            if (shared.end[middle] <= output) low = middle + 1;
            else high = middle;
        }
        return low;
    }

  private:
    // How many segments end at a place of the line, or before. By one warp, which looks at 32 of them at once.
    __device__ u64 finished(u64 place, u32 lane) const {
        u64 low = 0, high = ends.n;
        while (low < high) {
            u64 step = (high - low + WARP - 1) / WARP, i = low + lane * step;
            u32 done = __popc(__ballot_sync(ALL_LANES, i < high && ends.before(i + 1) + (i + 1) * COST <= place));
            high = min(high, low + done * step);
            if (done > 0) low += (done - 1) * step + 1;
        }
        return low;
    }
};

// ---- packing ---------------------------------------------------------------------------------------------------------------

// Bytes of memory, as words wherever they begin.
struct Bytes {
    const u8 *from;
    u64 count;

    // The word at a multiple of four, of which only the bytes count that are there.
    __device__ u32 word(u64 address) const {
        if (address >= (u64)from && address + 4 <= (u64)from + count) return *(const u32 *)address;
        u32 word = 0;
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            u64 i = address + k - (u64)from;
            if (i < count) word |= u32(from[i]) << 8 * k;
        }
        return word;
    }
};

// The bytes of a word that four bits name.
__device__ inline u32 byte_mask(u32 bits) { return ((bits & 15) * 0x204081 & 0x01010101) * 0xff; }

// Segment i is items `begins[i]` and on. WORDS: items are whole words of four bytes. What lies past the end of the items is not copied.
template <class Tile, bool WORDS>
__device__ void pack_tile(Ends<typename Tile::Offset> ends, const typename Tile::Offset *begins, const u8 *from, u64 bytes, u8 *to) {
    __shared__ typename Tile::Shared shared;
    __shared__ u64 source[Tile::SEGMENTS]; // where an output of a segment comes from, less where it goes: in bytes, and wrapping
    Tile tile(shared, ends, blockIdx.x);
    for (u32 k = threadIdx.x; k < tile.segments; k += Tile::THREADS) {
        u64 i = tile.first + k;
        source[k] = min(u64(begins[i]), bytes / ends.unit) * ends.unit - ends.before(i);
    }
    __syncthreads();
    if (tile.outputs == 0) return;

    // Each thread makes vectors of the output, each of pieces of segments.
    Bytes items{from, bytes};
    u32 past = u32(((u64)to + tile.output) % sizeof(Vector));
    u8 *vectors = to + tile.output - past;
    for (u32 v = threadIdx.x; v * sizeof(Vector) < past + tile.outputs; v += Tile::THREADS) {
        u32 begin = v * sizeof(Vector); // of the vector; the tile's outputs go from `past` on
        u32 at = max(begin, past), end = min(begin + u32(sizeof(Vector)), past + tile.outputs), k = tile.find(at - past);
        Vector vector = {};
        u32 have = 0; // which of its bytes
        while (k < tile.segments) {
            u32 until = min(end, shared.end[k] + past);
            u64 first = source[k] + tile.output + (at - past); // of the items
            u32 count = first >= bytes ? 0 : u32(min(u64(until - at), bytes - first));
            u32 bits = ((1u << count) - 1) << (at - begin);
            u64 address = (u64)from + first - (at - begin); // of what would be the vector's first byte
            u32 shift = WORDS ? 0 : u32(address % 4), low = 0;
            address -= shift;
            // Four words, and a fifth one into which the others are shifted; only what is asked for is read.
            u32 words = bits << shift;
            if (!WORDS && (words & 15)) low = items.word(address);
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 mask = byte_mask(bits >> 4 * j);
                if (WORDS) {
                    if (mask) vector.word[j] = *(const u32 *)(address + 4 * j);
                } else {
                    u32 high = words >> (4 * j + 4) & 15 ? items.word(address + 4 * j + 4) : 0;
                    vector.word[j] |= __funnelshift_r(low, high, 8 * shift) & mask;
                    low = high;
                }
            }
            have |= bits;
            at = until;
            if (at >= end) break;
            k++;
            if (k < tile.segments && shared.end[k] + past <= at) k = tile.find(at - past); // past the empty ones
        }
        u8 *place = vectors + begin;
        if (have == 0xffff) {
            *(Vector *)place = vector;
        } else if (WORDS) {
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                if (have >> 4 * j & 1) ((u32 *)place)[j] = vector.word[j];
        } else {
#pragma unroll
            for (u32 b = 0; b < sizeof(Vector); b++)
                if (have >> b & 1) place[b] = u8(vector.word[b / 4] >> 8 * (b % 4));
        }
    }
}

// ---- the way back ----------------------------------------------------------------------------------------------------------

// Of every output which segment it is of, and which of it; `positions` may be null.
template <class Tile, class Index> __device__ void expand_tile(Ends<typename Tile::Offset> ends, Index *segment_of, Index *positions) {
    __shared__ typename Tile::Shared shared;
    Tile tile(shared, ends, blockIdx.x);
    __syncthreads();
    u64 start = ends.before(tile.first); // of the tile's first segment
    for (u32 j = threadIdx.x; j < tile.outputs; j += Tile::THREADS) {
        u32 k = tile.find(j);
        if (k == tile.segments) continue;
        segment_of[tile.output + j] = Index(tile.first + k);
        if (positions) positions[tile.output + j] = Index(tile.output + j - (k == 0 ? start : tile.output + shared.end[k - 1]));
    }
}
