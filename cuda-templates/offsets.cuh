// Offsets: the pipeline from sizes to where each begins.
#pragma once
#include "pipeline.cuh"

// Stays at the greatest value where the sum would be more, which is associative: then the total tells.
struct SaturatingSum {
    typedef u64 Carry;
    static __device__ u64 alone(u64 x) { return x; }
    static __device__ u64 combine(u64 a, u64 b) {
        u64 sum = a + b;
        return sum < a ? ~0ull : sum;
    }
};

// Sizes, each rounded up to a multiple of padding + 1, a power of two. A slot may be wider than a size.
template <class Size> struct Sizes {
    typedef Size Item;
    Size *sizes;
    u64 n, padding;

    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        Run<Size>{sizes, n, false}.template prefetch<ITEMS>(first, lane);
    }

    // What is past the end takes nothing.
    template <class Slot, u32 VECTORS> __device__ void load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        constexpr u32 ITEMS = Slice<Slot, VECTORS>::ITEMS;
        u32 count = first >= n ? 0 : u32(min(n - first, u64(ITEMS)));
        if constexpr (sizeof(Slot) == sizeof(Size)) {
            if (count == ITEMS) {
                Run<Size>{sizes, n, false}.load(slice, first, lane);
                return;
            }
        }
        Slot *slots = slice.slots();
        const Size *from = sizes + first;
        if (count == ITEMS) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i += WARP) copy_item_to_shared((Size *)(slots + i + lane), from + i + lane);
        } else {
            for (u32 i = lane; i < ITEMS; i += WARP) {
                if (i < count) copy_item_to_shared((Size *)(slots + i), from + i);
                else *(Size *)(slots + i) = 0;
            }
        }
        wait_for_copies();
    }

    __device__ u64 carry(Size size) const {
        u64 rounded = (u64(size) + padding) & ~padding;
        return rounded < size ? ~0ull : rounded;
    }
};

// Where each begins; and, if there is a place for it, where the last one ends.
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
            Run<Offset>{starts, n, false}.store(slice, first, lane);
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

template <class Size, class Offset, bool WIDER = (sizeof(Size) > sizeof(Offset))> struct SlotOf {
    typedef Offset Type;
};
template <class Size, class Offset> struct SlotOf<Size, Offset, true> {
    typedef Size Type;
};

template <class Size, class Offset, class Shape, u32 SPREAD>
__device__ void offset_tiles(Size *sizes, Offset *starts, u64 n, u64 padding, u64 *sum, bool with_end, void *memory, u32 tiles) {
    typedef PrefixServer<SaturatingSum, Shape::WARPS, SPREAD> Join;
    typedef typename SlotOf<Size, Offset>::Type Slot;
    typedef Pipeline<SaturatingSum, Sizes<Size>, Starts<Offset>, Slot, Shape, Join> Offsets;
    __shared__ typename Offsets::Shared shared;
    Offsets::run(shared, {sizes, n, padding}, {starts, n, sum, with_end}, Join(memory, tiles), {0, true}, false);
}
