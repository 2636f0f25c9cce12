// Where segments begin: the head flags of items, from offsets, rows, flags, bits or keys.
//
// Every kind of segmentation becomes the same flags in shared memory, so the walks over a slice
// know only these.
#pragma once
#include "core/length.cuh"
#include "segmented/contract.cuh" // `Cut`, which the host shares: src/cuda/segmented/contract.rs

typedef long long i64;

// The kind of a segmentation. A unit of one kind defines CUT_KIND: its kernels have no code for the others, which
// would take registers, and two thirds of all instructions.
#ifdef CUT_KIND
__device__ constexpr u32 kind_of(const Cut &) { return CUT_KIND; }
#else
__device__ inline u32 kind_of(const Cut &cut) { return cut.kind; }
#endif

// ---- offsets ------------------------------------------------------------------------------------
// Offset j is where segment j begins and segment j - 1 ends, for j up to the number of segments.

// Of rows.
struct RowOffsets {
    u64 columns;
    __device__ u64 operator[](u64 j) const { return j * columns; }
};

// Whether the segmentation has offsets. Otherwise it has a head flag for each item.
__device__ inline bool has_offsets(const Cut &cut) { return kind_of(cut) <= OFFSETS_64; }

// Calls `use` with the offsets as an array. The branch over their kinds is taken once here: between
// loads it would make each of them wait for the one before.
template <class Use> __device__ inline u64 with_offsets(const Cut &cut, const Use &use) {
    if (kind_of(cut) == ROWS) return use(RowOffsets{cut.columns});
    return kind_of(cut) == OFFSETS_32 ? use((const u32 *)cut.memory) : use((const u64 *)cut.memory);
}

// Behind all offsets.
constexpr u64 NO_OFFSET = ~u64(0);

// What an offset of a reduction over stretches counts as at most: with a length on the device those past `n` count as
// `n`. A scan over tiles needs no such cut, as it knows where segments begin and not where they end.
#ifdef LENGTH_ON_DEVICE
__device__ inline u64 greatest_offset(u64 n) { return n; }
#else
__device__ inline u64 greatest_offset(u64) { return NO_OFFSET; }
#endif

// Offset j, at most `greatest`; or NO_OFFSET if there is none.
__device__ inline u64 offset(const Cut &cut, u64 j, u64 greatest) {
    if (j > cut.segments) return NO_OFFSET;
    return min(with_offsets(cut, [=](auto offsets) { return u64(offsets[j]); }), greatest);
}

// The number of rows' offsets before the first one that is `item` or more.
__device__ inline u64 rows_before(const Cut &cut, u64 item) {
    bool is_wide = (item | cut.columns) >> 32;
    u64 rows = is_wide ? item / cut.columns : u32(item) / u32(cut.columns);
    return min(rows + (rows * cut.columns < item), cut.segments + 1);
}

// Rows of 32 offsets whose loads are in flight together, and their offsets.
constexpr u32 ROWS_AT_ONCE = 4, OFFSETS_AT_ONCE = ROWS_AT_ONCE * WARP;

// By one warp: the number of offsets before the first one that is `item` or more. Whatever the
// order of offsets, it is at most segments + 1.
//
// The first steps read 128 adjacent offsets where they interpolate the item: of segments of equal
// lengths the first step finds it, of random lengths mostly the second. A step takes the density of
// segments from all items, or from the offsets that it read if they are much closer or farther.
// What is left is searched in 128 parts at a time.
template <class Offsets>
__device__ inline u64 offsets_before(const Offsets &offsets, u64 segments, u64 item, u64 n, u32 lane) {
    constexpr u32 PARTS = OFFSETS_AT_ONCE, INTERPOLATED = 3; // steps
    double density = double(segments) / double(n);
    u64 low = 0, high = segments + 1, guess = u64(double(item) * density);
    for (u32 turn = 0; low < high; turn++) {
        u64 step = (high - low + PARTS - 1) / PARTS, first = low;
        if (turn < INTERPOLATED && step > 1) {
            step = 1;
            first = max(low, min(guess, high) - min(u64(PARTS / 2), min(guess, high)));
        }
        u64 own[ROWS_AT_ONCE];
#pragma unroll
        for (u32 r = 0; r < ROWS_AT_ONCE; r++) {
            u64 j = first + (r * WARP + lane) * step;
            own[r] = NO_OFFSET;
            if (j < high) own[r] = offsets[j];
        }
        u32 done = 0; // offsets read before the first one that is not before the item
#pragma unroll
        for (u32 r = 0; r < ROWS_AT_ONCE; r++) {
            u32 before = __ballot_sync(ALL_LANES, own[r] < item);
            if (done == r * WARP) done += __popc(before & ~(before + 1));
        }
        if (done < PARTS) high = min(high, first + done * step);
        if (done > 0) low = first + (done - 1) * step + 1;
        u64 begin = __shfl_sync(ALL_LANES, own[0], 0), end = __shfl_sync(ALL_LANES, own[ROWS_AT_ONCE - 1], WARP - 1);
        float here = float(PARTS - 1) / float(end - begin), all = float(density); // about 0 at the end of the offsets
        bool is_other = here > 0 && (here > 1.5f * all || 1.5f * here < all);
        guess = u64(max(double(first) + double(i64(item - begin)) * (is_other ? double(here) : density), 0.0));
    }
    return low;
}
__device__ inline u64 offsets_before(const Cut &cut, u64 item, u64 n, u32 lane) {
    if (kind_of(cut) == ROWS) return rows_before(cut, item);
    return with_offsets(cut, [=](auto offsets) { return offsets_before(offsets, cut.segments, item, n, lane); });
}

// By a warp: goes over the offsets from number `j` on, 128 at a time, up to the first one that is
// `end` or more. Of WARPS warps each takes every WARPS-th 128. All lanes call
// `use(j, before, offset)`, each with an offset of its own and the one before it; behind the last
// offset with NO_OFFSET. Returns the number of the first offset that is `end` or more among those
// of the warp.
//
// Offsets that are equal over many rows belong to empty segments. A search goes on behind them, and
// `skipped(j, end)` is called with their numbers. So the steps are limited by the items, however
// many empty segments lie between two of them. Each of several warps skips its own 128 of a round.
//
// An offset past `greatest` counts as that; only the last one may be.
template <u32 WARPS, class Use, class Skipped>
__device__ inline u64 each_offset(const Cut &cut, u64 j, u64 end, u64 n, u32 lane, const Use &use,
                                  const Skipped &skipped, u64 greatest = NO_OFFSET) {
    constexpr u32 ALL = OFFSETS_AT_ONCE * WARPS;
    return with_offsets(cut, [&](auto offsets) {
        while (true) {
            u64 own[ROWS_AT_ONCE], last = 0; // the one before the row
            if (j > 0 && j <= cut.segments + 1) last = min(u64(offsets[j - 1]), greatest);
#pragma unroll
            for (u32 r = 0; r < ROWS_AT_ONCE; r++) {
                own[r] = NO_OFFSET;
                if (j + r * WARP + lane <= cut.segments) own[r] = min(u64(offsets[j + r * WARP + lane]), greatest);
            }
            u64 first = __shfl_sync(ALL_LANES, own[0], 0);
#pragma unroll
            for (u32 r = 0; r < ROWS_AT_ONCE; r++) {
                u64 before = __shfl_up_sync(ALL_LANES, own[r], 1);
                use(j + lane, lane == 0 ? last : before, own[r]);
                u32 passed = __ballot_sync(ALL_LANES, own[r] < end);
                if (passed != ALL_LANES) return j + __popc(passed & ~(passed + 1));
                last = __shfl_sync(ALL_LANES, own[r], WARP - 1);
                j += WARP;
            }
            u64 next = j;
            if (first == last) next = max(j, offsets_before(offsets, cut.segments, last + 1, n, lane));
            if (WARPS > 1) {
                u64 round = j + (ALL - OFFSETS_AT_ONCE), behind = round + (next - j) / ALL * ALL;
                for (u64 k = round; k < behind; k += ALL) skipped(k, k + OFFSETS_AT_ONCE);
                next = behind;
            } else skipped(j, next);
            j = next;
        }
    });
}

// ---- head flags ---------------------------------------------------------------------------------

// The flags of ITEMS consecutive items from `begin` on: whether each item begins a segment. Items
// lie in groups of GROUP, and bit j of a group's flags is that of its item j. Item n has a flag: it
// begins a segment that has no items. The flags of items past it mean nothing. WARPS warps fill the
// flags: one alone, or all of a block.
template <u32 ITEMS, u32 GROUP, u32 WARPS> struct Heads {
    typedef typename IfElse<(GROUP > 8), u16, u8>::Type Flags; // of a group
    static constexpr u32 GROUPS = ITEMS / GROUP, OWN = GROUPS / WARPS, OWN_ITEMS = OWN * GROUP; // of a warp
    static constexpr u32 WORDS = GROUPS * sizeof(Flags) / sizeof(u32);
    static_assert(OWN % WARP == 0, "every lane has equally many groups");

    alignas(u32) Flags flags[GROUPS];

    // In a reverse scan `begin` may lie before the first item. `next` is the number of the first
    // offset that is `begin` or more, if there are offsets. `warp` is the number of the caller's
    // warp among those that fill. When a call returns, the warp may read the flags of its own
    // groups.
    __device__ void fill(const Cut &cut, i64 begin, u64 next, u64 n, u32 warp, u32 lane) {
        if (has_offsets(cut)) return fill_from_offsets(cut, begin, next, n, warp, lane);
        if (kind_of(cut) == FLAGS) {
            from_array<u8>(cut, begin, n, warp, lane, IsNotZero());
        } else if (kind_of(cut) == BITS) {
            from_bits((const u32 *)cut.memory, begin, n, warp, lane);
        } else if (kind_of(cut) == KEYS_AS_BYTES) {
            from_key_bytes(cut, begin, n, warp, lane);
        } else {
            auto differs = [](auto key, auto before) { return key != before; };
            if (kind_of(cut) == KEYS_8) from_array<u8>(cut, begin, n, warp, lane, differs);
            else if (kind_of(cut) == KEYS_16) from_array<u16>(cut, begin, n, warp, lane, differs);
            else if (kind_of(cut) == KEYS_32) from_array<u32>(cut, begin, n, warp, lane, differs);
            else from_array<u64>(cut, begin, n, warp, lane, differs);
        }
        __syncwarp();
        set_ends(begin, n, warp, lane);
        __syncwarp();
    }

    // The same for a segmentation with offsets.
    __device__ void fill_from_offsets(const Cut &cut, i64 begin, u64 next, u64 n, u32 warp, u32 lane) {
        for (u32 w = warp * WARP + lane; w < WORDS; w += WARPS * WARP) ((u32 *)flags)[w] = 0;
        barrier();
        set_ends(begin, n, warp, lane);
        i64 end = begin + i64(ITEMS);
        if (end > 0)
            each_offset<WARPS>(
                cut, next + warp * OFFSETS_AT_ONCE, u64(end), n, lane,
                [&](u64, u64, u64 own) { set(own - u64(begin)); }, [](u64, u64) {});
        barrier();
    }

    // By a warp that has filled its groups: whether any of their items is a head.
    __device__ bool any(u32 warp, u32 lane) const {
        u32 found = 0;
#pragma unroll
        for (u32 w = lane; w < WORDS / WARPS; w += WARP) found |= ((const u32 *)flags)[warp * (WORDS / WARPS) + w];
        return __any_sync(ALL_LANES, found);
    }

    // Clears the flags of items past item n, by the warp whose groups they are.
    __device__ void clear_past(i64 begin, u64 n, u32 warp, u32 lane) {
        for (u32 g = warp * OWN + lane; g < (warp + 1) * OWN; g += WARP) {
            i64 left = i64(n) + 1 - (begin + i64(g * GROUP)); // items of the group up to item n
            if (left < GROUP) flags[g] = left <= 0 ? 0 : Flags(flags[g] & ((1u << left) - 1));
        }
        __syncwarp();
    }

  private:
    static __device__ void barrier() {
        if (WARPS == 1) __syncwarp();
        else __syncthreads();
    }

    // Sets the flags of the first item and of item n, by the warp whose they are.
    __device__ void set_ends(i64 begin, u64 n, u32 warp, u32 lane) {
        u64 at = (lane == 0 ? 0 : n) - u64(begin);
        if (lane < 2 && at / OWN_ITEMS == warp) set(at);
    }

    // Sets the flag of the i-th item, if it is one of these.
    __device__ void set(u64 i) {
        constexpr u32 BITS_OF_FLAGS = 8 * sizeof(Flags), IN_WORD = sizeof(u32) / sizeof(Flags);
        u32 group = u32(i) / GROUP;
        if (i < ITEMS)
            atomicOr((u32 *)flags + group / IN_WORD, 1u << (group % IN_WORD * BITS_OF_FLAGS + u32(i) % GROUP));
    }

    // From an array of flags or keys: `is_head(value, value before)`.
    template <class T, class IsHead>
    __device__ void from_array(const Cut &cut, i64 begin, u64 n, u32 warp, u32 lane, const IsHead &is_head) {
        const T *values = (const T *)cut.memory;
        i64 first = begin + i64(warp * OWN_ITEMS);
        bool is_whole = first > 0 && u64(first) + OWN_ITEMS <= n && (u64)(values + first) % alignof(Values<T>) == 0;
        if (is_whole)
            from_groups<T>(values, first, n, warp, lane, is_head,
                           [=](u64 i) { return *(const Values<T> *)(values + i); });
        else
            from_groups<T>(values, first, n, warp, lane, is_head, [=](u64 i) {
                Values<T> own;
                for (u32 j = 0; j < GROUP; j++) own.value[j] = i + j < n ? values[i + j] : T();
                return own;
            });
    }

    template <class T> struct alignas(GROUP * sizeof(T) < 16 ? GROUP * sizeof(T) : 16) Values { T value[GROUP]; };

    // The same by `load(i)`, which is the group of values that begins with item i. A lane loads a
    // group, and the loads of BATCH groups are in flight together.
    template <class T, class IsHead, class Load>
    __device__ void from_groups(const T *values, i64 first, u64 n, u32 warp, u32 lane, const IsHead &is_head,
                                const Load &load) {
        constexpr u32 BYTES = sizeof(Values<T>), ROWS = OWN / WARP, MOST = BYTES <= 8 ? 14 : BYTES <= 16 ? 7 : 2;
        constexpr u32 BATCHES = (ROWS + MOST - 1) / MOST, BATCH = (ROWS + BATCHES - 1) / BATCHES; // about equal ones
        T before = first > 0 ? values[min(u64(first), n) - 1] : T(); // the row
#pragma unroll 1
        for (u32 row = 0; row < ROWS; row += BATCH) {
            Values<T> own[BATCH];
#pragma unroll
            for (u32 k = 0; k < BATCH; k++)
                if (row + k < ROWS) own[k] = load(u64(first) + ((row + k) * WARP + lane) * GROUP);
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                if (row + k >= ROWS) break;
                T last = __shfl_up_sync(ALL_LANES, own[k].value[GROUP - 1], 1);
                if (lane == 0) last = before;
                before = __shfl_sync(ALL_LANES, own[k].value[GROUP - 1], WARP - 1);
                flags[warp * OWN + (row + k) * WARP + lane] = Flags(heads_of(own[k], last, is_head));
            }
        }
    }

    // Whether each value of a group is a head: by the value and the one before it, `last` before the first one.
    template <class T, class IsHead>
    static __device__ u32 heads_of(const Values<T> &values, T last, const IsHead &is_head) {
        u32 heads = 0;
#pragma unroll
        for (u32 j = 0; j < GROUP; j++) {
            heads |= u32(is_head(values.value[j], last)) << j;
            last = values.value[j];
        }
        return heads;
    }
    // The same of flags, four at a time.
    struct IsNotZero {};
    static __device__ u32 heads_of(const Values<u8> &values, u8, IsNotZero) {
        u32 heads = 0;
#pragma unroll
        for (u32 j = 0; j < GROUP; j += 4) {
            u32 four = 0;
            memcpy(&four, values.value + j, GROUP < 4 ? GROUP : 4);
            u32 tops = (four | ((four & 0x7f7f7f7f) + 0x7f7f7f7f)) & 0x80808080; // of each byte that is not zero
            heads |= tops * 0x00204081 >> 28 << j; // the product has the four bits side by side
        }
        return heads;
    }

    // From keys of any size, compared byte by byte.
    __device__ void from_key_bytes(const Cut &cut, i64 begin, u64 n, u32 warp, u32 lane) {
        const u8 *keys = (const u8 *)cut.memory;
        for (u32 g = warp * OWN + lane; g < (warp + 1) * OWN; g += WARP) {
            u32 heads = 0;
            for (u32 j = 0; j < GROUP; j++) {
                u64 i = u64(begin) + g * GROUP + j;
                bool differs = false;
                for (u32 b = 0; i > 0 && i < n && b < cut.size; b++)
                    differs |= keys[i * cut.size + b] != keys[(i - 1) * cut.size + b];
                heads |= u32(differs) << j;
            }
            flags[g] = Flags(heads);
        }
    }

    // From bits, those of 32 items in a word. A lane makes the flags of 32 items at once.
    __device__ void from_bits(const u32 *bits, i64 begin, u64 n, u32 warp, u32 lane) {
        constexpr u32 AT_ONCE = 32, OF_WORD = sizeof(u32) / sizeof(Flags), BITS_OF_FLAGS = 8 * sizeof(Flags);
        u64 words = (n + AT_ONCE - 1) / AT_ONCE;
#pragma unroll 2
        for (u32 own = lane * AT_ONCE; own < OWN_ITEMS; own += WARP * AT_ONCE) {
            i64 i = begin + i64(warp * OWN_ITEMS + own), at = i >> 5;
            u32 low = u64(at) < words ? bits[at] : 0, high = u64(at + 1) < words ? bits[at + 1] : 0;
            u32 heads = __funnelshift_r(low, high, u32(i) % AT_ONCE), *to = (u32 *)(flags + warp * OWN + own / GROUP);
#pragma unroll
            for (u32 w = 0; w < AT_ONCE / GROUP / OF_WORD; w++) {
                u32 word = 0;
#pragma unroll
                for (u32 k = 0; k < OF_WORD; k++)
                    word |= (heads >> (w * OF_WORD + k) * GROUP & ((1u << GROUP) - 1)) << k * BITS_OF_FLAGS;
                to[w] = word;
            }
        }
    }
};
