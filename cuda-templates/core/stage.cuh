// The stage: a warp's slice of the tile in shared memory, and its copies from and to global memory.
//
// Each lane owns an odd number of consecutive vectors. Shared memory serves a quarter-warp at a
// time, and an odd stride puts its lanes' vectors into different banks. Items keep the order that
// they have in memory. A reverse scan reads a slice from its far end, at the cost of one select or
// permutation a word.
#pragma once
#include "core/types.cuh"

// The slice of a warp: WARP * VECTORS vectors in shared memory, cut into slots. A slot holds an
// item before the walk goes over it, and its result afterwards.
template <class Slot, u32 VECTORS> struct Slice {
    static_assert(sizeof(Vector) % sizeof(Slot) == 0, "slots tile a vector");
    static constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Slot); // slots of a vector
    static constexpr u32 LANE = VECTORS * IN_VECTOR;                // slots of a lane
    static constexpr u32 ITEMS = WARP * LANE;                       // slots of the warp
    // Whether one bulk copy stores the whole slice. It starts later than a few stores of each lane
    // would.
    static constexpr bool BULK = STORES_FROM_SHARED && VECTORS > 3;

    Vector vector[WARP * VECTORS];

    __device__ Slot *slots() { return (Slot *)vector; }

    // Vector k of a lane, in scan order.
    __device__ Vector &of_lane(u32 lane, u32 k, bool reverse) {
        u32 at = lane * VECTORS + k;
        return vector[reverse ? WARP * VECTORS - 1 - at : at];
    }
};

constexpr u32 LINE_VECTORS = LINE / sizeof(Vector);

__device__ inline bool same_in_sector(const Vector *a, const Vector *b) { return ((u64)a ^ (u64)b) % SECTOR == 0; }
// How many vectors past the beginning of a line an address lies.
__device__ inline u32 in_line(const void *p) { return u32((u64)p % LINE) / u32(sizeof(Vector)); }

// By one warp: copies the vectors of a slice except the first `skip` ones. Each quarter of the warp
// copies one line: vectors of two lines would be two requests, one after the other.
template <u32 VECTORS> __device__ inline void copy_by_lines(Vector *to, const Vector *from, u32 skip, u32 lane) {
    u32 late = in_line(from);
    if (late == 0) {
#pragma unroll
        for (u32 k = 0; k < VECTORS; k++)
            if (k > 0 || lane >= skip) copy_to_shared(to + k * WARP + lane, from + k * WARP + lane);
    } else {
        to -= late;
        from -= late;
        if (lane >= late + skip) copy_to_shared(to + lane, from + lane);
#pragma unroll
        for (u32 k = 1; k < VECTORS; k++) copy_to_shared(to + k * WARP + lane, from + k * WARP + lane);
        if (lane < late) copy_to_shared(to + VECTORS * WARP + lane, from + VECTORS * WARP + lane);
    }
}

// The vector with its slots in reverse order, if asked.
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

// The 16 bytes that begin `4 * WORDS + bits / 8` bytes into two consecutive vectors.
template <u32 WORDS, class Item> struct Straddle {
    u32 bits; // of the last, partial word; 0 if items are whole words

    __device__ Vector operator()(const Vector &a, const Vector &b) const {
        u32 word[8] = {a.word[0], a.word[1], a.word[2], a.word[3], b.word[0], b.word[1], b.word[2], b.word[3]};
        Vector r;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 low = word[WORDS + i];
            r.word[i] = alignof(Item) >= 4 ? low : __funnelshift_r(low, word[WORDS + i + 1], bits);
        }
        return r;
    }
};

// Calls `use` with the `Straddle` of `bytes`, a value uniform in the warp. The branch over words is
// taken once here, not for each vector.
template <class Item, class Use> __device__ inline void straddling(u32 bytes, const Use &use) {
    u32 words = bytes / 4, bits = bytes % 4 * 8;
    if (alignof(Item) >= 8 || words == 2) use(Straddle<2, Item>{bits});
    else if (words == 1) use(Straddle<1, Item>{bits});
    else if (words == 3) use(Straddle<3, Item>{bits});
    else use(Straddle<0, Item>{bits}); // less than a word
}

// ---- contiguous memory --------------------------------------------------------------------------
// An array of n items at any alignment, in scan order: item i lies at index i, or in reverse at
// index n - 1 - i.

// IN_LINES: in the stage a whole slice has the same offset within a line as in memory. The stages
// begin `shift` vectors late for this, and vectors are moved by a function call. Otherwise the
// stage begins a line and there is no call, which would cost a kernel registers.
template <class Item, bool IN_LINES = false> struct Run {
    Item *base;
    u64 n;
    bool reverse;

    // The part of the array in the slice that begins with item `first`: where it lies in memory,
    // and from which index `at` on in the slice.
    template <u32 ITEMS, u32 IN_VECTOR> struct Part {
        Item *memory;
        u32 count, at;
        // Whole vectors at its beginning, if they are vectors in memory and in the slice.
        u32 vectors;

        __device__ Part(const Run &run, u64 first) {
            count = first >= run.n ? 0 : u32(min(run.n - first, u64(ITEMS)));
            memory = run.base + (run.reverse ? run.n - min(first, run.n) - count : first);
            at = run.reverse ? ITEMS - count : 0;
            vectors = (u64)memory % sizeof(Vector) == 0 && at % IN_VECTOR == 0 ? count / IN_VECTOR : 0;
        }
        __device__ bool is_whole() const { return vectors == ITEMS / IN_VECTOR; }
        // Bytes from a multiple of 16 to the part's beginning.
        __device__ u32 past() const { return u32((u64)memory % sizeof(Vector)); }
    };

    // How many vectors the stages begin past a line.
    __device__ u32 shift() const {
        u32 begin = u32((u64)base); // the lower half decides
        if (reverse) begin += u32(n) * u32(sizeof(Item));
        return opaque(begin) % LINE / u32(sizeof(Vector));
    }

    // By one warp: prefetches the slice that begins with item `first` into L2, if it is whole.
    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        Part<ITEMS, 1> part(*this, first);
        if (lane == 0 && part.count == ITEMS)
            ::prefetch((const Vector *)((u64)part.memory - part.past()), ITEMS * sizeof(Item));
    }

    // By one warp: the slice that begins with item `first` into the stage. Slots past the end get
    // copies of the last item: so the operator is called on inputs only, and the results of the
    // copies are never stored. Other lanes may read the slice after a `__syncwarp`.
    template <class Slot, u32 VECTORS> __device__ void load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        begin_load(slice, first, lane);
        wait_for_copies();
    }

    // The same in two steps, between which the copies are in flight. A caller who knows that the
    // items are a `Run`'s may also wait by `wait_for_copies`.
    template <class Slot, u32 VECTORS> __device__ void end_load(Slice<Slot, VECTORS> &, u64, u32) const {
        wait_for_copies();
    }
    template <class Slot, u32 VECTORS>
    __device__ void begin_load(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        static_assert(sizeof(Slot) == sizeof(Item), "items are copied as they are");
        typedef Slice<Slot, VECTORS> Stage;
        Part<Stage::ITEMS, Stage::IN_VECTOR> part(*this, first);
        const Vector *from = (const Vector *)part.memory;
        if (part.is_whole()) {
            copy_vectors<VECTORS>(slice.vector, from, 0, lane);
        } else {
            Item *to = (Item *)slice.slots();
            Item last;
            // Loaded first, so that its latency overlaps that of the copies.
            if (part.count < Stage::ITEMS) last = base[reverse ? 0 : n - 1];
            if (part.count > 0) load_part(slice, part, lane);
            if (part.count < Stage::ITEMS) {
                for (u32 i = lane; i < Stage::ITEMS - part.count; i += WARP) to[reverse ? i : part.count + i] = last;
            }
        }
    }

    // By one warp: the slice to memory, up to the array's end. The lanes' results must be visible
    // to the warp: a `__syncwarp` comes before.
    template <class Slot, u32 VECTORS> __device__ void store(Slice<Slot, VECTORS> &slice, u64 first, u32 lane) const {
        static_assert(sizeof(Slot) == sizeof(Item), "items are copied as they are");
        typedef Slice<Slot, VECTORS> Stage;
        Part<Stage::ITEMS, Stage::IN_VECTOR> part(*this, first);
        Vector *to = (Vector *)part.memory;
        if (part.is_whole()) {
            // A bulk copy to another place within a sector would write every sector in two halves.
            if (Stage::BULK && same_in_sector(to, slice.vector)) {
                store_from_shared(to, slice.vector, sizeof(slice.vector), lane);
            } else {
#pragma unroll
                for (u32 k = 0; k < VECTORS; k++) to[k * WARP + lane] = slice.vector[k * WARP + lane];
            }
        } else if (IN_LINES && Stage::BULK && part.count == Stage::ITEMS) {
            store_moved<VECTORS>(slice.vector, part.memory, lane);
        } else if (part.count == Stage::ITEMS && part.past() > 0) {
            // The whole vectors of memory that lie in the slice, each from two vectors of the
            // stage. The items before the first and after the last one are stored one by one.
            const Item *from = (const Item *)slice.slots();
            constexpr u32 SIZE = sizeof(Item);
            u32 past = part.past(), head = (sizeof(Vector) - past + SIZE - 1) / SIZE, tail = (past + SIZE - 1) / SIZE;
            to = (Vector *)((u64)part.memory - past);
            straddling<Item>(sizeof(Vector) - past, [&](auto straddle) {
#pragma unroll 2
                for (u32 k = 0; k < VECTORS; k++) {
                    u32 at = k * WARP + lane;
                    if (at > 0) to[at] = straddle(slice.vector[at - 1], slice.vector[at]);
                }
            });
            if (lane < head) part.memory[lane] = from[lane];
            if (lane < tail) part.memory[Stage::ITEMS - 1 - lane] = from[Stage::ITEMS - 1 - lane];
        } else {
            const Item *from = (const Item *)slice.slots();
            for (u32 k = lane; k < part.vectors; k += WARP) to[k] = slice.vector[part.at / Stage::IN_VECTOR + k];
#pragma unroll 8
            for (u32 i = part.vectors * Stage::IN_VECTOR + lane; i < part.count; i += WARP)
                part.memory[i] = from[part.at + i];
        }
    }

  private:
    // By one warp: copies the vectors of a slice except the first `skip` ones.
    template <u32 VECTORS> static __device__ void copy_vectors(Vector *to, const Vector *from, u32 skip, u32 lane) {
        if constexpr (IN_LINES) {
            copy_by_lines<VECTORS>(to, from, skip, lane);
        } else {
#pragma unroll
            for (u32 k = 0; k < VECTORS; k++)
                if (k > 0 || lane >= skip) copy_to_shared(to + k * WARP + lane, from + k * WARP + lane);
        }
    }

    // By one warp: vector k of the slice becomes the 16 bytes that begin `bytes` bytes into vectors
    // k and k + 1, or into vectors k - 1 and k if `back` is 1. Bytes from outside the slice are
    // undefined. Each lane moves the vectors that it owns. A call, so that kernels which never come
    // here do not pay for its registers.
    template <u32 VECTORS>
    static __device__ __noinline__ void move_vectors(Vector *stage, u32 back, u32 bytes, u32 lane) {
        constexpr u32 BATCH = 4; // vectors that are loaded before any of them is written
        Vector *own = stage + lane * VECTORS, *here = own - back;
        Vector now = back == 1 && lane == 0 ? *own : *here, last = back == 0 && lane == WARP - 1 ? *own : here[VECTORS];
        __syncwarp(); // a lane reads vectors that other lanes overwrite
        straddling<Item>(bytes, [&](auto straddle) {
#pragma unroll
            for (u32 k = 0; k < VECTORS; k += BATCH) {
                Vector next[BATCH];
#pragma unroll
                for (u32 j = 0; j < BATCH && k + j < VECTORS; j++)
                    next[j] = k + j + 1 < VECTORS ? here[k + j + 1] : last;
#pragma unroll
                for (u32 j = 0; j < BATCH && k + j < VECTORS; j++) {
                    own[k + j] = straddle(now, next[j]);
                    now = next[j];
                }
            }
        });
        __syncwarp();
    }

    // By one warp: stores a whole slice that begins inside a vector of memory. The vectors are
    // moved so that they have the same place within a sector as in memory, and one bulk copy stores
    // the whole sectors. The items before and after these are stored one by one.
    template <u32 VECTORS> static __device__ void store_moved(Vector *stage, Item *memory, u32 lane) {
        constexpr u32 SIZE = sizeof(Item), ALL = WARP * VECTORS, ITEMS = ALL * sizeof(Vector) / SIZE;
        u32 past = u32((u64)memory % sizeof(Vector));
        Vector *to = (Vector *)((u64)memory - past);
        u32 first = (u64)to % SECTOR == 0 ? 2 : 1, end = (u64)(to + ALL) % SECTOR == 0 ? ALL : ALL - 1;
        u32 head = (first * sizeof(Vector) - past + SIZE - 1) / SIZE,
            tail = ((ALL - end) * sizeof(Vector) + past + SIZE - 1) / SIZE;
        const Item *items = (const Item *)stage;
        if (lane < head) memory[lane] = items[lane];
        if (lane < tail) memory[ITEMS - 1 - lane] = items[ITEMS - 1 - lane];
        // Vector k of memory goes to vector k - 1 of the stage, or to vector k with `back`.
        u32 back = same_in_sector(to, stage);
        move_vectors<VECTORS>(stage, back, sizeof(Vector) - past, lane);
        store_from_shared(to + first, stage + first + back - 1, (end - first) * u32(sizeof(Vector)), lane);
    }

    // By one warp: loads a part that is no sequence of whole vectors of the stage. The vectors of
    // memory that lie in the part are copied, then each is moved into place; the items before the
    // first and after the last one come one by one.
    template <class Slot, u32 VECTORS, class Part>
    __device__ static void load_part(Slice<Slot, VECTORS> &slice, const Part &part, u32 lane) {
        typedef Slice<Slot, VECTORS> Stage;
        u64 begin = (u64)part.memory - part.at * sizeof(Item); // where a whole slice would begin
        u32 past = u32(begin % sizeof(Vector));
        const Vector *from = (const Vector *)(begin - past);
        // Half of the lanes read the items before the first vector, the other half those after the
        // last. Some of these items lie in the vectors too, and have the same value there.
        constexpr u32 HALF = WARP / 2;
        static_assert(Stage::IN_VECTOR <= HALF, "a lane for each item of a vector");
        auto edge = [&](u32 lane) {
            u32 k = min(lane % HALF, part.count - 1);
            return lane < HALF ? k : part.count - 1 - k;
        };
        Item item = part.memory[edge(lane)];
        // How many vectors early the copies are staged, so that they have the same place within a
        // sector as in memory. With IN_LINES the stage's shift does this.
        u32 early = part.count == Stage::ITEMS && !IN_LINES ? u32((u64)from % SECTOR / sizeof(Vector)) : 0;
        if (part.count == Stage::ITEMS) { // the slice's first vector begins before the part
            copy_vectors<VECTORS>(slice.vector - early, from, 1, lane);
        } else {
            u32 bytes = past + part.at * u32(sizeof(Item)), behind = bytes + part.count * u32(sizeof(Item));
            u32 first = (bytes + sizeof(Vector) - 1) / sizeof(Vector),
                end = min(behind / u32(sizeof(Vector)), WARP * VECTORS);
#pragma unroll 4
            for (u32 k = first + lane; k < end; k += WARP) copy_to_shared(slice.vector + k, from + k);
        }
        wait_for_copies();
        __syncwarp();
        if (past > 0) {
            if constexpr (IN_LINES) {
                move_vectors<VECTORS>(slice.vector, 0, past, lane);
            } else {
                // As `move_vectors`, from the last vector down and without a call.
                Vector *own = slice.vector + lane * VECTORS, *here = own - early;
                Vector first = lane == 0 ? *own : *here, after = lane == WARP - 1 && early == 0 ? *own : here[VECTORS];
                __syncwarp();
                straddling<Item>(past, [&](auto straddle) {
                    Vector next = after;
#pragma unroll 2
                    for (u32 k = VECTORS; k-- > 0;) {
                        Vector now = k > 0 ? here[k] : first;
                        own[k] = straddle(now, next);
                        next = now;
                    }
                });
                __syncwarp();
            }
        }
        Item *items = (Item *)slice.slots() + part.at;
        // A short part has some items at both ends, with the same value.
        if (lane % HALF < Stage::IN_VECTOR) items[edge(opaque(threadIdx.x) % WARP)] = item;
    }
};

// ---- items that tile no vector ------------------------------------------------------------------
// A group is the least number of consecutive vectors that hold whole items. In and out of the stage
// groups move as granules: integers of the item's alignment.

template <u32 BYTES> struct GranuleOf;
template <> struct GranuleOf<1> { typedef u8 Type; };
template <> struct GranuleOf<2> { typedef u16 Type; };
template <> struct GranuleOf<4> { typedef u32 Type; };
template <> struct GranuleOf<8> { typedef u64 Type; };
template <> struct GranuleOf<16> { typedef Vector Type; };

constexpr u32 common_divisor(u32 a, u32 b) { return b == 0 ? a : common_divisor(b, a % b); }

// The items of one group, in registers.
template <class Item_> struct Group {
    typedef Item_ Item;
    static constexpr u32 COMMON = common_divisor(sizeof(Item), sizeof(Vector));
    static constexpr u32 VECTORS = sizeof(Item) / COMMON, ITEMS = sizeof(Vector) / COMMON;

    Item item[ITEMS]; // in memory order

    __device__ Group() {}
    __device__ explicit Group(const Vector *from) {
        Vector vectors[VECTORS];
#pragma unroll
        for (u32 k = 0; k < VECTORS; k++) vectors[k] = from[k];
        memcpy(item, vectors, sizeof(vectors));
    }
    __device__ void store(Vector *to) const {
        Vector vectors[VECTORS];
        memcpy(vectors, item, sizeof(vectors));
#pragma unroll
        for (u32 k = 0; k < VECTORS; k++) to[k] = vectors[k];
    }
    // The group with its items in reverse order, if asked.
    __device__ Group oriented(bool reverse) const {
        Group group = *this;
#pragma unroll
        for (u32 j = 0; j < ITEMS; j++)
            if (reverse) group.item[j] = item[ITEMS - 1 - j];
        return group;
    }
};

// An array of such items at any alignment, in scan order, as `Run`.
template <class Item> struct GroupRun {
    typedef typename GranuleOf<alignof(Item)>::Type Granule;
    static constexpr u32 GRANULES = sizeof(Item) / sizeof(Granule);

    Item *base;
    u64 n;
    bool reverse;

    __device__ u32 shift() const { return granules().shift(); }
    __device__ Run<Granule, true> granules() const { return {(Granule *)base, n * GRANULES, reverse}; }

    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        granules().template prefetch<ITEMS * GRANULES>(first * GRANULES, lane);
    }
    // By one warp. Slots past the end get copies of the last item: copies of its last granule would
    // make no item.
    template <u32 VECTORS> __device__ void load(Slice<Granule, VECTORS> &slice, u64 first, u32 lane) const {
        begin_load(slice, first, lane);
        end_load(slice, first, lane);
    }
    // As of `Run`.
    template <u32 VECTORS> __device__ void begin_load(Slice<Granule, VECTORS> &slice, u64 first, u32 lane) const {
        granules().begin_load(slice, first * GRANULES, lane);
    }
    template <u32 VECTORS> __device__ void end_load(Slice<Granule, VECTORS> &slice, u64 first, u32 lane) const {
        wait_for_copies();
        constexpr u32 ITEMS = Slice<Granule, VECTORS>::ITEMS / GRANULES;
        u32 count = first >= n ? 0 : u32(min(n - first, u64(ITEMS)));
        if (count < ITEMS) {
            Item last = base[reverse ? 0 : n - 1], *to = (Item *)slice.slots();
            __syncwarp(); // other lanes have put copies of the last granule there
            for (u32 i = lane; i < ITEMS - count; i += WARP) to[reverse ? i : count + i] = last;
        }
    }
    template <u32 VECTORS> __device__ void store(Slice<Granule, VECTORS> &slice, u64 first, u32 lane) const {
        granules().store(slice, first * GRANULES, lane);
    }
};

// The array type for any item, and the slots of its slices: `Run` if items tile a vector, else
// `GroupRun`.
template <class Item, bool TILES = sizeof(Vector) % sizeof(Item) == 0> struct RunOf {
    typedef Run<Item, true> Type;
    typedef Item Slot;
};
template <class Item> struct RunOf<Item, false> {
    typedef GroupRun<Item> Type;
    typedef typename GroupRun<Item>::Granule Slot;
};

// By one warp: stores the first `count` items at `from`, which begins a vector of shared memory, to `to`, which need
// not begin one.
template <class Item> __device__ inline void store_front(const Vector *from, Item *to, u32 count, u32 lane) {
    static_assert(alignof(Item) == sizeof(Item), "no item lies in two vectors");
    u32 past = u32((u64)to % sizeof(Vector)), bytes = past + count * sizeof(Item);
    // Vectors of memory. Those before `whole` end inside the output, and the first may begin before
    // it.
    Vector *vectors = (Vector *)((u64)to - past);
    u32 whole = bytes / sizeof(Vector);
    if (past == 0) {
        for (u32 k = lane; k < whole; k += WARP) vectors[k] = from[k];
    } else {
        straddling<Item>(sizeof(Vector) - past, [&](auto straddle) {
            for (u32 k = 1 + lane; k < whole; k += WARP) vectors[k] = straddle(from[k - 1], from[k]);
        });
    }
    // The items before the first whole vector and after the last one.
    const Item *items = (const Item *)from;
    u32 head = past == 0 ? 0 : whole == 0 ? count : (sizeof(Vector) - past) / sizeof(Item);
    u32 tail = whole == 0 ? head : (whole * sizeof(Vector) - past) / sizeof(Item);
    if (lane < head) to[lane] = items[lane];
    if (tail + lane < count) to[tail + lane] = items[tail + lane];
}
