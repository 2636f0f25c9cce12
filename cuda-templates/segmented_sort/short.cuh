// Sort by segment: the segments of up to MOST items.
//
// A group of threads, a warp or a block, sorts those of more than LEAST items that begin in its
// chunk of adjacent items.
//
// Each thread has a slot: ITEMS items in registers. A segment takes adjacent slots, and a round sorts
// as many adjacent segments as there are slots for:
//
// 1. The lanes of a warp sort their items by a bitonic network (sort/bitonic.cuh).
// 2. In a block, sorted runs are merged two by two, through shared memory (merge path: Green, McColl
//    and Bader 2012).
#pragma once
#include "segmented_sort/partition.cuh"
#include "sort/bitonic.cuh"

// An item of 8-byte keys whose source matters: ordered by the key, then by the source.
struct LongItem {
    u64 key;
    u32 source;
    __device__ bool operator<(const LongItem &other) const {
        return key < other.key || (key == other.key && source < other.source);
    }
};

// How an item of a network holds a key and its source, the index in the chunk.
template <class Bits, bool HAS_SOURCE> struct ItemOf {
    static constexpr u32 SHIFT = 8 * sizeof(Bits) <= 16 ? 16 : 32;
    typedef typename If<SHIFT == 16, u32, u64>::Type Item;
    static __device__ Item pack(Bits key, u32 source) { return Item(key) << SHIFT | source; }
    static __device__ Bits key(Item item) { return Bits(item >> SHIFT); }
    static __device__ u32 source(Item item) { return u32(item & ((Item(1) << SHIFT) - 1)); }
};
template <> struct ItemOf<u64, true> {
    typedef LongItem Item;
    static __device__ Item pack(u64 key, u32 source) { return {key, source}; }
    static __device__ u64 key(const Item &item) { return item.key; }
    static __device__ u32 source(const Item &item) { return item.source; }
};
template <class Bits> struct ItemOf<Bits, false> {
    typedef typename If<sizeof(Bits) <= 4, u32, u64>::Type Item;
    static __device__ Item pack(Bits key, u32) { return key; }
    static __device__ Bits key(Item item) { return Bits(item); }
    static __device__ u32 source(Item) { return 0; }
};

// A group is a warp, or a block of THREADS threads; they call each function together. MASKED: keys
// are compared by some of their bits.
template <class Order, class Bits, class Value, u32 THREADS, u32 ITEMS, u32 CHUNK, u32 LEAST, bool MASKED>
struct ShortSegments {
    static constexpr u32 WARPS = THREADS / WARP, MOST = THREADS * ITEMS;
    // The slots of a segment are a multiple of UNIT. So in a block no two share a warp.
    static constexpr u32 UNIT = WARPS == 1 ? 1 : WARP;
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    typedef ItemOf<Bits, HAS_SOURCE> Packing;
    typedef typename Packing::Item Item;
    typedef typename ItemOf<Bits, false>::Item Key;
    static constexpr u32 MOST_SEGMENTS = CHUNK / (LEAST + 1) + 1;
    static constexpr u32 NO_HEAD = 1 << 20; // behind any other
    static_assert((CHUNK + MOST) / WARP <= THREADS, "a word of heads a thread");
    static_assert(CHUNK + 2 * MOST <= 1 << 16 && MOST <= 1 << 14, "bits of words");
    static_assert(THREADS / UNIT <= WARP, "a bit for each place where a segment may begin");

    struct Shared {
        alignas(16) Item exchange[THREADS * ITEMS];
        u32 segments[MOST_SEGMENTS]; // packed
        u32 of_warp[2][WARPS];
        u32 low[WARPS == 1 ? 1 : THREADS]; // by slot, of a merge
    };
    struct Segment {
        u32 begin, count; // in the chunk
        Place place;      // of its keys and payload
        __device__ u32 packed() const { return begin << 16 | (count - 1) << 2 | place; }
        static __device__ Segment of(u32 packed) { return {packed >> 16, (packed >> 2 & 0x3fff) + 1, Place(packed & 3)}; }
    };
    // The items of this thread: `count` of `segment`, from its item `before` on.
    struct Slot {
        Segment segment;
        u32 number; // of the slot among the segment's
        u32 before, count;
    };
    // The segments of a round.
    struct Round {
        u32 segments, lanes, items; // their number; the most lanes and the most items of one
    };
    // The items of a warp's slots, in order, are ITEMS rows of WARP items.
    struct Rows {
        u32 slot[ITEMS]; // of this lane's item: its first index in the chunk and, above by 16 bits, its count
        u32 places;      // two bits a row
        static __device__ u32 in_slot() { return lane_id() % ITEMS; }
        __device__ bool has(u32 row) const { return slot[row] >= (in_slot() + 1) << 16; }
        __device__ u32 first(u32 row) const { return slot[row] & 0xffff; }
        __device__ Place place(u32 row) const { return Place(places >> 2 * row & 3); }
    };

    Shared &s;
    const SegmentSortCall &call;
    Order order;
    u64 chunk;      // its first item
    bool has_moved; // whether keys of the chunk lie elsewhere than in the input

    __device__ ShortSegments(Shared &s, const SegmentSortCall &call, u64 number)
        : s(s), call(call), order{Bits(call.flip)}, chunk(number * CHUNK) {}

    // Sorts the listed segments from number `first` on.
    __device__ __forceinline__ void run(u32 first = 0) {
        u32 segments = list_segments();
#pragma unroll 1
        while (first < segments) {
            Slot slot;
            Round round = find_round(first, segments, slot);
            Item item[ITEMS];
            load(item, slot);
            sort(item, slot, round);
            write(item, slot);
            first += round.segments;
        }
    }

    static __device__ u32 thread() { return WARPS == 1 ? lane_id() : threadIdx.x; }
    static __device__ void barrier() {
        if (WARPS == 1) __syncwarp();
        else __syncthreads();
    }
    // Votes and shuffles tell the compiler that the result is the same in all lanes.
    static __device__ bool any(bool x) { return __any_sync(ALL_LANES, WARPS == 1 ? x : __syncthreads_or(x)); }
    static __device__ u32 uniform(u32 x) { return __shfl_sync(ALL_LANES, x, 0); }

    // ---- segments -------------------------------------------------------------------------------

    // Lists the segments, and returns their number.
    __device__ __forceinline__ u32 list_segments() {
        u64 word = chunk / WARP + thread();
        bool has_word = word <= call.n / WARP, has_segments = has_word && thread() < CHUNK / WARP;
        u32 heads = has_word ? call.heads[word] : 0, moved[2] = {0, 0};
        if (call.may_be_long && has_segments) {
            moved[0] = call.moved[0][word];
            moved[1] = call.moved[1][word];
        }
        has_moved = call.may_be_long && any((moved[0] | moved[1]) != 0);
        u32 next = next_head(heads), own = 0;
        if (!has_segments) heads = 0;
        each_segment(heads, next, [&](u32, u32) { own++; });
        u32 segments, position = exclusive_sum(own, segments);
        each_segment(heads, next, [&](u32 begin, u32 count) {
            Place place = moved[0] >> begin % WARP & 1 ? IN_OUTPUT : moved[1] >> begin % WARP & 1 ? IN_SCRATCH : IN_INPUT;
            s.segments[position++] = Segment{begin, count, place}.packed();
        });
        barrier();
        return segments;
    }

  private:
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

    // ---- rounds ---------------------------------------------------------------------------------

    // The round that begins with segment `first` of the list, and this thread's slot in it.
    __device__ __forceinline__ Round find_round(u32 first, u32 segments, Slot &slot) const {
        u32 listed = first + lane_id(), packed = s.segments[min(listed, segments - 1)];
        u32 count = Segment::of(packed).count, slots = ((count - 1) / ITEMS / UNIT + 1) * UNIT;
        if (listed >= segments) slots = THREADS + 1; // does not fit
        u32 end = warp_inclusive_sum(slots), begin = end - slots;
        bool fits = end <= THREADS;
        // A thread's segment is the last one that begins at its slot or before it.
        u32 begins = warp_or(fits ? 1u << begin / UNIT : 0);
        u32 mine = __popc(begins & ((2u << thread() / UNIT) - 1)) - 1;
        slot.segment = Segment::of(__shfl_sync(ALL_LANES, packed, mine));
        slot.number = thread() - __shfl_sync(ALL_LANES, begin, mine);
        slot.before = slot.number * ITEMS;
        slot.count = slot.before < slot.segment.count ? min(slot.segment.count - slot.before, ITEMS) : 0;
        return {uniform(__popc(__ballot_sync(ALL_LANES, fits))), uniform(warp_max(fits ? min(slots, WARP) : 0)),
                uniform(warp_max(fits ? count : 0))};
    }

    __device__ __forceinline__ void sort(Item (&item)[ITEMS], const Slot &slot, const Round &round) const {
        u32 levels = WARP - __clz(round.lanes - 1);
        Bitonic<ITEMS, Item> network{item};
        if constexpr (WARPS == 1) {
            network.sort_lanes(slot.number, (slot.segment.count - 1) / ITEMS + 1, levels);
        } else {
            if (__any_sync(ALL_LANES, slot.count > 0)) network.sort_lanes(lane_id(), WARP, levels);
#pragma unroll 1
            for (u32 run = WARP * ITEMS; run < round.items; run *= 2) merge(item, slot, run);
        }
    }

    // Merges each two adjacent runs of `run` items of a segment. A thread's slot gets items of a range
    // of either run. The lower range and the upper one reversed are a bitonic sequence, which the
    // thread sorts in registers.
    __device__ __forceinline__ void merge(Item (&item)[ITEMS], const Slot &slot, u32 run) const {
        store(item);
        __syncthreads();
        u32 first = slot.before / (2 * run) * (2 * run), middle = first + run; // of the pair
        u32 end = min(middle + run, slot.segment.count);
        bool merges = slot.count > 0 && middle < end;
        Exchange<Item> of_segment(s, threadIdx.x * ITEMS - slot.before);
        // Of the pair's first `here` merged items `low` are of the lower run.
        u32 here = slot.before - first, upper = end - middle, low = 0;
        if (merges) {
            low = here > upper ? here - upper : 0;
            for (u32 high = min(here, run); low < high;) {
                u32 half = (low + high) / 2;
                if (of_segment.at(middle + here - 1 - half) < of_segment.at(first + half)) high = half;
                else low = half + 1;
            }
            s.low[threadIdx.x] = low;
        }
        __syncthreads();
        if (!merges) return;
        bool is_last = slot.before + ITEMS >= end; // of the pair
        u32 from_lower = (is_last ? run : s.low[threadIdx.x + 1]) - low;
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++)
            item[e] = of_segment.at(e < from_lower ? first + low + e : middle + here - low + (ITEMS - 1 - e));
        Bitonic<ITEMS, Item>{item}.merge_thread();
    }

    // ---- rows -----------------------------------------------------------------------------------

    __device__ u32 lane_of_row(u32 row) const { return row * (WARP / ITEMS) + lane_id() / ITEMS; }
    __device__ __forceinline__ Rows find_rows(const Slot &slot) const {
        Rows rows;
        u32 own = slot.count << 16 | (slot.segment.begin + slot.before);
        rows.places = 0;
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++) rows.slot[row] = __shfl_sync(ALL_LANES, own, lane_of_row(row));
        if (has_moved)
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++)
                rows.places |= __shfl_sync(ALL_LANES, slot.segment.place, lane_of_row(row)) << 2 * row;
        return rows;
    }
    // The group's items in exchange memory, from item `first` on. They are swizzled within each slot,
    // so that neither the lanes' items `e` nor the items of a row share banks.
    template <class T> struct Exchange {
        static constexpr u32 BANKS = 128 / sizeof(T);
        static_assert(ITEMS <= BANKS, "the items of a slot in as many banks");
        T *items;
        u32 first;
        __device__ Exchange(Shared &s, u32 first) : items((T *)s.exchange), first(first) {}
        __device__ T &at(u32 index) const { return items[(first + index) ^ ((first + index) / BANKS % ITEMS)]; }
    };
    // The same for the items of a warp.
    template <class T> struct WarpExchange {
        static constexpr u32 BANKS = Exchange<T>::BANKS;
        T *items;
        u32 lane;
        __device__ WarpExchange(Shared &s) : items((T *)s.exchange + (WARPS == 1 ? 0 : warp_id() * WARP * ITEMS)), lane(lane_id()) {}
        __device__ T &own(u32 e) const { return items[lane * ITEMS + (lane * ITEMS / BANKS % ITEMS) ^ e]; }
        __device__ T &in_row(u32 row) const {
            u32 first = BANKS < WARP ? lane ^ (lane / BANKS % ITEMS) : lane;
            return (items + (first ^ (row * WARP / BANKS % ITEMS)))[row * WARP];
        }
    };

  public:
    __device__ Key compared(Bits key) const {
        if (!MASKED) return key;
        return Key(key >> call.begin) & Key((1ull << (call.end - call.begin)) - 1);
    }

    // The chunk's items in an array. The compiler would add each index to `chunk`, four instructions
    // with 64 bits; it adds to an opaque offset in one.
    template <class T, class Array> __device__ T *at_chunk(Array *array) const {
        return (T *)((char *)array + opaque(chunk * sizeof(T)));
    }

  private:
    // Calls `use` with a function of a row: the chunk's items in an array, wherever the segment's lie.
    template <class T, class Use>
    __device__ __forceinline__ void with_array(const void *in, void *const *moved, const Rows &rows, const Use &use) const {
        const T *unmoved = at_chunk<const T>(in);
        if (!has_moved) return use([=](u32) { return unmoved; });
        const T *in_output = at_chunk<const T>(moved[IN_OUTPUT]), *in_scratch = at_chunk<const T>(moved[IN_SCRATCH]);
        use([=, &rows](u32 row) {
            Place place = rows.place(row);
            return place == IN_INPUT ? unmoved : place == IN_OUTPUT ? in_output : in_scratch;
        });
    }
    __device__ __forceinline__ void load(Item (&item)[ITEMS], const Slot &slot) const {
        Rows rows = find_rows(slot);
        Bits loaded[ITEMS];
        with_array<Bits>(call.keys_in, call.keys, rows, [&](auto keys) {
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++)
                if (rows.has(row)) loaded[row] = (keys(row) + Rows::in_slot())[rows.first(row)];
        });
        barrier(); // the exchange memory is free
        WarpExchange<Key> exchange(s);
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++) exchange.in_row(row) = rows.has(row) ? compared(order.to(loaded[row])) : ~Key(0);
        __syncwarp();
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = Packing::pack(Bits(exchange.own(e)), slot.segment.begin + slot.before + e);
    }

    // Stores this thread's items to the exchange memory.
    __device__ __forceinline__ void store(const Item (&item)[ITEMS]) const {
        barrier(); // it is free
        WarpExchange<Item> exchange(s);
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) exchange.own(e) = item[e];
    }
    __device__ __forceinline__ void write(const Item (&item)[ITEMS], const Slot &slot) const {
        store(item);
        __syncwarp();
        WarpExchange<Item> exchange(s);
        Rows rows = find_rows(slot);
        auto source = [&](u32 row) { return Packing::source(exchange.in_row(row)); };
        if (!call.no_keys) {
            Bits *out = (Bits *)call.keys[IN_OUTPUT];
            if constexpr (!MASKED) write_array(out, rows, [&](u32 row) { return order.from(Packing::key(exchange.in_row(row))); });
            else
                with_array<Bits>(call.keys_in, call.keys, rows, [&](auto keys) {
                    write_array(out, rows, [&](u32 row) { return keys(row)[source(row)]; });
                });
        }
        if constexpr (HAS_VALUES) {
            Value *out = (Value *)call.values[IN_OUTPUT];
            auto write_values = [&](auto values) { write_array(out, rows, [&](u32 row) { return values(row)[source(row)]; }); };
            if (call.values_in != nullptr) return with_array<Value>(call.values_in, call.values, rows, write_values);
            u32 begins[ITEMS]; // of the segments
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++) begins[row] = __shfl_sync(ALL_LANES, slot.segment.begin, lane_of_row(row));
            with_array<Value>(nullptr, call.values, rows, [&](auto values) {
                write_array(out, rows, [&](u32 row) {
                    if (has_moved && rows.place(row) != IN_INPUT) return values(row)[source(row)];
                    return Value::index(call.local_indices ? source(row) - begins[row] : chunk + source(row));
                });
            });
        }
    }
    // Writes an output array: in each row the elements of the sorted items.
    template <class T, class ElementOf>
    __device__ __forceinline__ void write_array(T *out, const Rows &rows, const ElementOf &element_of) const {
        T element[ITEMS];
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++)
            if (rows.has(row)) element[row] = element_of(row);
        if (HAS_SOURCE) barrier(); // all are read, as the sort may be in place
        T *own = at_chunk<T>(out) + Rows::in_slot();
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++)
            if (rows.has(row)) own[rows.first(row)] = element[row];
    }
};
