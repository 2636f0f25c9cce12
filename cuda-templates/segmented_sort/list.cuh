// Sort by segment: the list of a chunk's segments.
//
// A group of threads, a warp or a block, sorts the segments of more than LEAST and up to MOST items
// that begin in its chunk of adjacent items. `SegmentList` finds them by the head bits, for a block also by the
// length of rows.
#pragma once
#include "segmented_sort/partition.cuh"

struct ListedSegment {
    u32 begin, count; // in the chunk
    Place place;      // of its keys and payload
    __device__ u32 packed() const { return begin << 16 | (count - 1) << 2 | place; }
    static __device__ ListedSegment of(u32 packed) {
        return {packed >> 16, (packed >> 2 & 0x3fff) + 1, Place(packed & 3)};
    }
};

// A register or two for a key.
template <class Bits> struct KeyOf { typedef typename IfElse<sizeof(Bits) <= 4, u32, u64>::Type Key; };

// What is compared of a key. MASKED: some of its bits.
template <bool MASKED, class Bits>
__device__ inline typename KeyOf<Bits>::Key compared(const SegmentSortCall &call, Bits key) {
    typedef typename KeyOf<Bits>::Key Key;
    if (!MASKED) return key;
    return Key(key >> call.begin) & Key((1ull << (call.end - call.begin)) - 1);
}

template <u32 THREADS, u32 CHUNK, u32 LEAST, u32 MOST> struct SegmentList {
    static constexpr u32 WARPS = THREADS / WARP, MOST_SEGMENTS = CHUNK / (LEAST + 1) + 1;
    static constexpr u32 NO_HEAD = 1 << 20; // behind any other
    static_assert((CHUNK + MOST) / WARP <= THREADS, "a word of heads a thread");
    static_assert(CHUNK + 2 * MOST <= 1 << 16 && MOST <= 1 << 14, "bits of words");
    struct Shared {
        u32 segments[MOST_SEGMENTS]; // packed
        u32 of_warp[2][WARPS];
    };
    Shared &s;
    const SegmentSortCall &call;
    u64 n;
    u64 chunk;      // its first item
    u32 segments;   // their number
    bool has_moved; // whether keys of the chunk lie elsewhere than in the input

    __device__ __forceinline__ SegmentList(Shared &s, const SegmentSortCall &call, u64 n, u64 number)
        : s(s), call(call), n(n), chunk(number * CHUNK) {
        if (WARPS > 1 && call.columns != 0) { // of a warp the branch would cost registers
            list_rows();
            return;
        }
        u64 word = chunk / WARP + thread();
        bool has_word = word <= n / WARP, has_segments = has_word && thread() < CHUNK / WARP;
        u32 heads = has_word ? call.heads[word] : 0, moved[2] = {0, 0};
        if (call.may_be_long && has_segments) {
            moved[0] = call.moved[0][word];
            moved[1] = call.moved[1][word];
        }
        has_moved = call.may_be_long && any((moved[0] | moved[1]) != 0);
        u32 next = next_head(heads), own = 0;
        if (!has_segments) heads = 0;
        each_segment(heads, next, [&](u32, u32) { own++; });
        u32 position = exclusive_sum(own, segments);
        each_segment(heads, next, [&](u32 begin, u32 count) {
            Place place = moved[0] >> begin % WARP & 1   ? IN_OUTPUT
                          : moved[1] >> begin % WARP & 1 ? IN_SCRATCH
                                                         : IN_INPUT;
            s.segments[position++] = ListedSegment{begin, count, place}.packed();
        });
        barrier();
    }

    // The segment of this lane in a round, which begins with number `first` of the list.
    __device__ u32 listed(u32 first) const { return s.segments[min(first + lane_id(), segments - 1)]; }
    // The chunk's items in an array. The compiler would add each index to `chunk`, four instructions
    // with 64 bits; it adds to an opaque offset in one.
    template <class T, class Array> __device__ T *at_chunk(Array *array) const {
        return (T *)((char *)array + opaque(chunk * sizeof(T)));
    }
    // Calls `use` with a function of a row: the chunk's items in an array, wherever the segment's lie
    // by `place(row)`.
    template <class T, class PlaceOf, class Use>
    __device__ __forceinline__ void with_array(const void *in, void *const *moved, const PlaceOf &place_of,
                                               const Use &use) const {
        const T *unmoved = at_chunk<const T>(in);
        if (!has_moved) return use([=](u32) { return unmoved; });
        const T *in_output = at_chunk<const T>(moved[IN_OUTPUT]), *in_scratch = at_chunk<const T>(moved[IN_SCRATCH]);
        use([=, &place_of](u32 row) {
            Place place = place_of(row);
            return place == IN_INPUT ? unmoved : place == IN_OUTPUT ? in_output : in_scratch;
        });
    }

    static __device__ void barrier() {
        if (WARPS == 1) __syncwarp();
        else __syncthreads();
    }
    // Votes and shuffles tell the compiler that the result is the same in all lanes.
    static __device__ u32 uniform(u32 x) { return __shfl_sync(ALL_LANES, x, 0); }
    // The sum of `x` of the threads before this one, and of all in `total`.
    __device__ __forceinline__ u32 exclusive_sum(u32 x, u32 &total) {
        u32 sum = warp_inclusive_sum(x);
        total = __shfl_sync(ALL_LANES, sum, WARP - 1);
        if constexpr (WARPS > 1) {
            if (lane_id() == 0) s.of_warp[1][warp_id()] = total;
            __syncthreads();
            u32 of_warp = lane_id() < WARPS ? s.of_warp[1][lane_id()] : 0;
            sum += warp_add(lane_id() < warp_id() ? of_warp : 0);
            total = uniform(warp_add(of_warp));
        }
        return sum - x;
    }

  private:
    // Lists the rows that begin in the chunk. All rows are of a length that the group sorts.
    __device__ __forceinline__ void list_rows() {
        u32 columns = call.columns, items = u32(min(u64(CHUNK), n - chunk));
        u32 behind = chunk >> 32 ? u32(chunk % columns) : u32(chunk) % columns; // the last row's begin
        u32 first = behind == 0 ? 0 : columns - behind;
        segments = first < items ? (items - 1 - first) / columns + 1 : 0;
        has_moved = false;
        for (u32 i = thread(); i < segments; i += THREADS)
            s.segments[i] = ListedSegment{first + i * columns, columns, IN_INPUT}.packed();
        barrier();
    }
    static __device__ u32 thread() { return WARPS == 1 ? lane_id() : threadIdx.x; }
    static __device__ bool any(bool x) { return __any_sync(ALL_LANES, WARPS == 1 ? x : __syncthreads_or(x)); }
    // Calls `use(begin, count)` for each segment of a word of heads that the group sorts. `next`: the
    // head behind the word.
    template <class Use> static __device__ __forceinline__ void each_segment(u32 heads, u32 next, const Use &use) {
#pragma unroll 1
        while (heads != 0) {
            u32 first = thread() * WARP, begin = first + __ffs(heads) - 1;
            heads &= heads - 1;
            u32 count = (heads != 0 ? first + __ffs(heads) - 1 : next) - begin;
            if (count - 1 - LEAST < MOST - LEAST) use(begin, count);
        }
    }
    // The first head behind this thread's word of heads.
    __device__ __forceinline__ u32 next_head(u32 heads) {
        u32 lanes = __ballot_sync(ALL_LANES, heads != 0), above = lanes & ~((2u << lane_id()) - 1);
        u32 first = heads != 0 ? thread() * WARP + __ffs(heads) - 1 : NO_HEAD;
        u32 next = __shfl_sync(ALL_LANES, first, __ffs(above) - 1);
        if (above == 0) next = NO_HEAD;
        if constexpr (WARPS > 1) {
            u32 first_of_warp = __shfl_sync(ALL_LANES, first, __ffs(lanes) - 1);
            if (lane_id() == 0) s.of_warp[0][warp_id()] = lanes == 0 ? NO_HEAD : first_of_warp;
            __syncthreads();
            for (u32 w = warp_id() + 1; w < WARPS && next == NO_HEAD; w++) next = s.of_warp[0][w];
        }
        return next;
    }
};
