// The stage: a warp's slice of the tile in shared memory.
//
// Each lane owns an odd number of vectors in a row, so that the lanes of a quarter-warp, which are served together, hit
// different banks. Items lie in the order of memory; a scan in reverse reads a slice from its far end, which costs one
// select or permutation a word.
#pragma once
#include "types.cuh"

template <class Slot, u32 VECTORS> struct Slice {
    static_assert(VECTORS % 2 == 1, "an even number of vectors a lane would collide in the banks");
    static_assert(sizeof(Vector) % sizeof(Slot) == 0, "slots tile a vector");
    static constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Slot); // slots of one vector
    static constexpr u32 LANE = VECTORS * IN_VECTOR;                // slots of one lane
    static constexpr u32 ITEMS = WARP * LANE;                       // slots of the warp

    Vector vector[WARP * VECTORS];

    __device__ Slot *slots() { return (Slot *)vector; }

    // Vector k of a lane in scan order.
    __device__ Vector &of_lane(u32 lane, u32 k, bool reverse) {
        u32 at = lane * VECTORS + k;
        return vector[reverse ? WARP * VECTORS - 1 - at : at];
    }
};

// Turns a vector's slots back to front if asked.
template <class Slot> __device__ inline Vector orient(Vector v, bool reverse) {
    constexpr u32 BYTES = sizeof(Slot);
    Vector r = v;
    if (BYTES <= 4) {
        u32 selector = !reverse ? 0x3210 : BYTES == 1 ? 0x0123 : BYTES == 2 ? 0x1032 : 0x3210;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 word = reverse ? v.word[3 - i] : v.word[i];
            r.word[i] = BYTES == 4 ? word : __byte_perm(word, 0, selector);
        }
    } else if (BYTES == 8) {
#pragma unroll
        for (int i = 0; i < 4; i++) r.word[i] = reverse ? v.word[i ^ 2] : v.word[i];
    }
    return r;
}

// ---- contiguous memory ---------------------------------------------------------------------------------------------------
// A run of n items that starts anywhere, seen in scan order: item i lies at i, or at n - 1 - i in reverse.

template <class Item> struct Run {
    Item *base;
    u64 n;
    bool reverse;

    // Where the slice that starts with item `first` begins in memory, if it is whole and its vectors are aligned.
    template <u32 ITEMS> __device__ Vector *vectors(u64 first) const {
        Item *p = base + (reverse ? n - first - ITEMS : first);
        return first + ITEMS <= n && (u64)p % sizeof(Vector) == 0 ? (Vector *)p : nullptr;
    }

    // By one warp. Slots past the end get copies of the last item, so that nothing the operator is called on was not an
    // input; what it makes of them is never used.
    template <class Slot, u32 VECTORS> __device__ void load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        static_assert(sizeof(Slot) == sizeof(Item), "items are copied as they are");
        constexpr u32 ITEMS = Slice<Slot, VECTORS>::ITEMS;
        if (const Vector *from = vectors<ITEMS>(first)) {
#pragma unroll
            for (u32 k = 0; k < VECTORS; k++) copy_to_shared(slice.vector + k * WARP + lane, from + k * WARP + lane);
            wait_for_copies();
        } else {
#pragma unroll 4
            for (u32 i = lane; i < ITEMS; i += WARP) {
                u64 item = min(first + i, n - 1);
                *(Item *)(slice.slots() + (reverse ? ITEMS - 1 - i : i)) = base[reverse ? n - 1 - item : item];
            }
        }
    }

    template <class Slot, u32 VECTORS> __device__ void store(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        static_assert(sizeof(Slot) == sizeof(Item), "items are copied as they are");
        constexpr u32 ITEMS = Slice<Slot, VECTORS>::ITEMS;
        if (Vector *to = vectors<ITEMS>(first)) {
#pragma unroll
            for (u32 k = 0; k < VECTORS; k++) to[k * WARP + lane] = slice.vector[k * WARP + lane];
        } else {
            u32 count = first >= n ? 0 : u32(min(n - first, u64(ITEMS)));
#pragma unroll 4
            for (u32 i = lane; i < count; i += WARP)
                base[reverse ? n - 1 - (first + i) : first + i] = *(const Item *)(slice.slots() + (reverse ? ITEMS - 1 - i : i));
        }
    }
};
