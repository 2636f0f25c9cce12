// Offsets: the exclusive sum of sizes, for example where packed segments begin (allocation by
// prefix sum; Blelloch 1990, "Prefix Sums and Their Applications"). The tile pipeline with sizes as
// source and offsets as sink, and a walk of its own for sizes narrower than their offsets.
#pragma once
#include "core/pipeline.cuh"

// A sum that stays at the greatest value once it would exceed it. Saturation is associative, so the
// total tells of an overflow anywhere.
struct SaturatingSum {
    typedef u64 Carry;
    static __device__ u64 alone(u64 x) { return x; }
    static __device__ u64 combine(u64 a, u64 b) {
        u64 sum = a + b;
        return sum < a ? ~0ull : sum;
    }
};

// The source: sizes, each rounded up to a multiple of `padding + 1`, a power of two.
template <class Size> struct Sizes {
    typedef Size Item;
    Size *sizes;
    u64 n, padding;

    __device__ u32 shift() const { return Run<Size, true>{sizes, n, false}.shift(); }
    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        Run<Size, true>{sizes, n, false}.template prefetch<ITEMS>(first, lane);
    }

    // By one warp. Sizes past the end are 0.
    template <class Slot, u32 VECTORS> __device__ void load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        constexpr u32 ITEMS = Slice<Slot, VECTORS>::ITEMS;
        u32 count = first >= n ? 0 : u32(min(n - first, u64(ITEMS)));
        if (count == ITEMS) {
            Run<Size, true>{sizes, n, false}.load(slice, first, lane);
            return;
        }
        Size *slots = slice.slots();
        for (u32 i = lane; i < ITEMS; i += WARP) {
            if (i < count) copy_item_to_shared(slots + i, sizes + first + i);
            else slots[i] = 0;
        }
        wait_for_copies();
    }

    __device__ u64 carry(Size size) const {
        u64 rounded = (u64(size) + padding) & ~padding;
        return rounded < size ? ~0ull : rounded;
    }
};

// The sink: where each item begins, and with `with_end` where the last one ends, at index n.
template <class Offset> struct Starts {
    typedef Offset Result;
    Offset *starts;
    u64 n;
    u64 *sum;
    bool with_end;

    static __device__ Offset narrow(u64 x) { return sizeof(Offset) == 8 ? x : min(x, u64(Offset(~Offset(0)))); }

    template <class Item> __device__ Offset put(u64, Item, u64 before, u64) const { return narrow(before); }

    template <class Slot, u32 VECTORS> __device__ void store(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        if constexpr (sizeof(Slot) == sizeof(Offset)) {
            Run<Offset, true>{starts, n, false}.store(slice, first, lane);
        } else {
            for (u32 i = lane; i < Slice<Slot, VECTORS>::ITEMS && first + i < n; i += WARP)
                starts[first + i] = *(const Offset *)(slice.slots() + i);
        }
    }

    __device__ void total(u64 total) const {
        *sum = total;
        if (with_end) starts[n] = narrow(total);
    }
};

// The walk for sizes narrower than offsets. The stage holds sizes only, so more bytes are in flight
// than if it had room for offsets. A slice is rows; of each row a lane takes as many sizes as make
// 32 bytes of offsets.
template <class Size, class Offset, u32 ROWS> struct RowWalk {
    typedef u64 Carry;
    static constexpr u32 EACH = 2 * sizeof(Vector) / sizeof(Offset); // sizes of a lane in a row
    static constexpr u32 ROW = EACH * WARP, ITEMS = ROWS * ROW, MOST_SHIFT = 0;
    struct alignas(EACH * sizeof(Size)) LaneSizes { Size size[EACH]; };
    struct alignas(128) Stage { LaneSizes sizes[ROWS * WARP]; };
    struct Offsets { Offset offset[EACH]; };
    static_assert(ITEMS * sizeof(Size) % (sizeof(Vector) * WARP) == 0, "the slice is whole vectors of each lane");

    Sizes<Size> source;
    Starts<Offset> sink;

    __device__ RowWalk(Sizes<Size> source, Starts<Offset> sink) : source(source), sink(sink) {}

    __device__ void prefetch(u64 first, u32 lane) const { source.template prefetch<ITEMS>(first, lane); }

    // The sum of the slice's sizes, in any order: within a slice sums are exact. Sizes past the end
    // are 0.
    __device__ u64 fold(Stage &stage, u64 first, u32 lane) {
        u32 count = first >= source.n ? 0 : u32(min(source.n - first, u64(ITEMS)));
        const Size *from = source.sizes + first;
        Size *to = (Size *)stage.sizes;
        if (count == ITEMS && (u64)from % sizeof(Vector) == 0) {
#pragma unroll
            for (u32 k = 0; k < ITEMS * sizeof(Size) / sizeof(Vector); k += WARP)
                copy_to_shared((Vector *)to + k + lane, (const Vector *)from + k + lane);
        } else {
            for (u32 i = lane; i < ITEMS; i += WARP) {
                if (i < count) copy_item_to_shared(to + i, from + i);
                else to[i] = 0;
            }
        }
        wait_for_copies();
        __syncwarp();
        return warp_inclusive<ExactSum>(source.padding == 0 ? sum<true>(stage, lane) : sum<false>(stage, lane), lane);
    }

    __device__ void prepare(Stage &, u32) {}
    __device__ void total(u64 total) const { sink.total(total); }

    __device__ void finish(Stage &stage, Maybe<u64> prefix, u64 first, u32 lane) {
        // A slice's sum is far below 2^63, so below that prefix nothing saturates.
        if (source.padding == 0 && prefix.value >> 63 == 0) put<true>(stage, prefix.value, first, lane);
        else put<false>(stage, prefix.value, first, lane);
    }

  private:
    // Within a slice no sum overflows: sizes have at most 32 bits, alignments are at most 2^32.
    struct ExactSum {
        typedef u64 Carry;
        static __device__ u64 combine(u64 a, u64 b) { return a + b; }
    };
    // PLAIN: sizes are not rounded, and nothing saturates.
    template <bool PLAIN> __device__ u64 rounded(Size size) const {
        return PLAIN ? size : (u64(size) + source.padding) & ~source.padding;
    }
    template <bool PLAIN> static __device__ u64 add(u64 a, u64 b) {
        return PLAIN ? a + b : SaturatingSum::combine(a, b);
    }

    template <bool PLAIN> __device__ u64 sum(const Stage &stage, u32 lane) const {
        u64 sum = 0;
#pragma unroll
        for (u32 row = 0; row < ROWS; row++) {
            LaneSizes lane_sizes = stage.sizes[row * WARP + lane];
#pragma unroll
            for (u32 j = 0; j < EACH; j++) sum += rounded<PLAIN>(lane_sizes.size[j]);
        }
        return sum;
    }

    // Stores the offsets of the slice, row by row. `before` is the prefix of a row.
    template <bool PLAIN> __device__ void put(const Stage &stage, u64 before, u64 first, u32 lane) {
        bool is_whole = first + ITEMS <= source.n && (u64)(sink.starts + first) % sizeof(Vector) == 0;
#pragma unroll 4
        for (u32 row = 0; row < ROWS; row++) {
            LaneSizes lane_sizes = stage.sizes[row * WARP + lane];
            Offsets upto;
            u64 own = 0;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) own += rounded<PLAIN>(lane_sizes.size[j]);
            u64 inclusive = warp_inclusive<ExactSum>(own, lane), run = inclusive - own;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                upto.offset[j] = sink.narrow(add<PLAIN>(before, run));
                run += rounded<PLAIN>(lane_sizes.size[j]);
            }
            before = add<PLAIN>(before, shuffle(inclusive, WARP - 1));
            u64 at = first + row * ROW + lane * EACH;
            if (is_whole) {
                store_pairs(upto, (Vector *)(sink.starts + at), lane);
            } else {
#pragma unroll
                for (u32 j = 0; j < EACH; j++)
                    if (at + j < source.n) sink.starts[at + j] = upto.offset[j];
            }
        }
    }

    // Two neighbouring lanes store the 32-byte sector of the first lane, then that of the second.
    // If each lane stored its own two halves, every sector would be written in two steps.
    static __device__ void store_pairs(const Offsets &offsets, Vector *to, u32 lane) {
        Vector half[2];
        memcpy(half, &offsets, sizeof(half));
        bool odd = lane % 2;
        Vector other = odd ? half[0] : half[1];
#pragma unroll
        for (u32 k = 0; k < 4; k++) other.word[k] = __shfl_xor_sync(ALL_LANES, other.word[k], 1);
        if (odd) to -= 2;
        to[odd] = odd ? other : half[0];
        to[2 + odd] = odd ? half[1] : other;
    }
};

// The number of sizes of a tile.
template <class Size, class Offset, u32 WARPS, u32 EACH> constexpr u32 offsets_tile() {
    typedef PrefixServer<SaturatingSum, WARPS> Join;
    if constexpr (sizeof(Size) < sizeof(Offset)) return WARPS * RowWalk<Size, Offset, EACH>::ITEMS;
    else return Pipeline<SaturatingSum, Sizes<Size>, Starts<Offset>, Size, Shape<WARPS, EACH>, Join>::TILE;
}

// One tile a block. Sizes as wide as offsets or wider take the pipeline, and EACH is the vectors of
// a lane. Narrower sizes take `RowWalk`, and EACH is the rows of a warp.
template <class Size, class Offset, u32 WARPS, u32 EACH, u32 SPREAD>
__device__ void offset_tiles(Size *sizes, Offset *starts, u64 n, u64 padding, u64 *sum, bool with_end, void *memory,
                             u32 tiles) {
    typedef PrefixServer<SaturatingSum, WARPS, SPREAD> Join;
    Sizes<Size> source{sizes, n, padding};
    Starts<Offset> sink{starts, n, sum, with_end};
    if constexpr (sizeof(Size) < sizeof(Offset)) {
        typedef TilePipeline<SaturatingSum, RowWalk<Size, Offset, EACH>, WARPS, Join> Offsets;
        __shared__ typename Offsets::Shared shared;
        Offsets::run(shared, {source, sink}, Join(memory, tiles), {0, true});
    } else {
        typedef Pipeline<SaturatingSum, Sizes<Size>, Starts<Offset>, Size, Shape<WARPS, EACH>, Join> Offsets;
        __shared__ typename Offsets::Shared shared;
        Offsets::run(shared, source, sink, Join(memory, tiles), {0, true}, false);
    }
}
