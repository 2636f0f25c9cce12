// Sort by segment: small segments, of up to MOST items, by warps.
//
// A warp sorts those that begin in its chunk of adjacent items. Each lane has a slot: ITEMS items in
// registers. A segment takes adjacent slots, and a round sorts as many adjacent segments as there are
// slots for, by a bitonic network (sort/bitonic.cuh).
#pragma once
#include "segmented_sort/list.cuh"
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
    typedef typename KeyOf<Bits>::Key Item;
    static __device__ Item pack(Bits key, u32) { return key; }
    static __device__ Bits key(Item item) { return Bits(item); }
    static __device__ u32 source(Item) { return 0; }
};

// MASKED: keys are compared by some of their bits.
template <class Order, class Bits, class Value, u32 ITEMS, u32 CHUNK, bool MASKED> struct SmallSegments {
    static constexpr u32 MOST = WARP * ITEMS;
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    typedef ItemOf<Bits, HAS_SOURCE> Packing;
    typedef typename Packing::Item Item;
    typedef typename KeyOf<Bits>::Key Key;
    typedef SegmentList<WARP, CHUNK, 0, MOST> List;

    struct Shared {
        alignas(16) Item exchange[MOST];
        typename List::Shared list;
    };
    // The items of this thread: `count` of `segment`, from its item `before` on.
    struct Slot {
        ListedSegment segment;
        u32 number; // of the slot among the segment's
        u32 before, count;
    };
    // The segments of a round: their number, and the most lanes of one.
    struct Round {
        u32 segments, lanes;
    };
    // The items of the slots, in order, are ITEMS rows of WARP items.
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
    List list;
    Order order;

    __device__ SmallSegments(Shared &s, const SegmentSortCall &call, u64 number)
        : s(s), call(call), list(s.list, call, number), order{Bits(call.flip)} {}

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (u32 first = 0; first < list.segments;) {
            Slot slot;
            Round round = find_round(first, slot);
            Item item[ITEMS];
            load(item, slot);
            Bitonic<ITEMS, Item>{item}.sort_lanes(slot.number, (slot.segment.count - 1) / ITEMS + 1,
                                                  WARP - __clz(round.lanes - 1));
            write(item, slot);
            first += round.segments;
        }
    }

  private:
    // ---- rounds ---------------------------------------------------------------------------------

    // The round that begins with segment `first` of the list, and this lane's slot in it.
    __device__ __forceinline__ Round find_round(u32 first, Slot &slot) const {
        u32 packed = list.listed(first), slots = (ListedSegment::of(packed).count - 1) / ITEMS + 1;
        if (first + lane_id() >= list.segments) slots = WARP + 1; // does not fit
        u32 end = warp_inclusive_sum(slots), begin = end - slots;
        bool fits = end <= WARP;
        // A lane's segment is the last one that begins at its slot or before it.
        u32 begins = warp_or(fits ? 1u << begin : 0);
        u32 mine = __popc(begins & ((2u << lane_id()) - 1)) - 1;
        slot.segment = ListedSegment::of(__shfl_sync(ALL_LANES, packed, mine));
        slot.number = lane_id() - __shfl_sync(ALL_LANES, begin, mine);
        slot.before = slot.number * ITEMS;
        slot.count = slot.before < slot.segment.count ? min(slot.segment.count - slot.before, ITEMS) : 0;
        return {List::uniform(__popc(__ballot_sync(ALL_LANES, fits))), List::uniform(warp_max(fits ? slots : 0))};
    }

    // ---- rows -----------------------------------------------------------------------------------

    __device__ u32 lane_of_row(u32 row) const { return row * (WARP / ITEMS) + lane_id() / ITEMS; }
    __device__ __forceinline__ Rows find_rows(const Slot &slot) const {
        Rows rows;
        u32 own = slot.count << 16 | (slot.segment.begin + slot.before);
        rows.places = 0;
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++) rows.slot[row] = __shfl_sync(ALL_LANES, own, lane_of_row(row));
        if (list.has_moved)
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++)
                rows.places |= __shfl_sync(ALL_LANES, slot.segment.place, lane_of_row(row)) << 2 * row;
        return rows;
    }
    // The items in exchange memory. They are swizzled within each slot, so that neither the lanes'
    // items `e` nor the items of a row share banks.
    template <class T> struct Exchange {
        static constexpr u32 BANKS = 128 / sizeof(T);
        static_assert(ITEMS <= BANKS, "the items of a slot in as many banks");
        T *items;
        u32 lane;
        __device__ Exchange(Shared &s) : items((T *)s.exchange), lane(lane_id()) {}
        __device__ T &own(u32 e) const { return items[lane * ITEMS + (lane * ITEMS / BANKS % ITEMS) ^ e]; }
        __device__ T &in_row(u32 row) const {
            u32 first = BANKS < WARP ? lane ^ (lane / BANKS % ITEMS) : lane;
            return (items + (first ^ (row * WARP / BANKS % ITEMS)))[row * WARP];
        }
    };
    __device__ __forceinline__ void load(Item (&item)[ITEMS], const Slot &slot) const {
        Rows rows = find_rows(slot);
        auto place_of = [&](u32 row) { return rows.place(row); };
        Bits loaded[ITEMS];
        list.template with_array<Bits>(call.keys_in, call.keys, place_of, [&](auto keys) {
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++)
                if (rows.has(row)) loaded[row] = (keys(row) + Rows::in_slot())[rows.first(row)];
        });
        __syncwarp(); // the exchange memory is free
        Exchange<Key> exchange(s);
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++) exchange.in_row(row) = rows.has(row) ? compared<MASKED>(call, order.to(loaded[row])) : ~Key(0);
        __syncwarp();
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = Packing::pack(Bits(exchange.own(e)), slot.segment.begin + slot.before + e);
    }

    // Stores this lane's items to the exchange memory.
    __device__ __forceinline__ void store(const Item (&item)[ITEMS]) const {
        __syncwarp(); // it is free
        Exchange<Item> exchange(s);
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) exchange.own(e) = item[e];
    }
    __device__ __forceinline__ void write(const Item (&item)[ITEMS], const Slot &slot) const {
        store(item);
        __syncwarp();
        Exchange<Item> exchange(s);
        Rows rows = find_rows(slot);
        auto place_of = [&](u32 row) { return rows.place(row); };
        auto source = [&](u32 row) { return Packing::source(exchange.in_row(row)); };
        if (!call.no_keys) {
            Bits *out = (Bits *)call.keys[IN_OUTPUT];
            if constexpr (!MASKED) write_array(out, rows, [&](u32 row) { return order.from(Packing::key(exchange.in_row(row))); });
            else
                list.template with_array<Bits>(call.keys_in, call.keys, place_of, [&](auto keys) {
                    write_array(out, rows, [&](u32 row) { return keys(row)[source(row)]; });
                });
        }
        if constexpr (HAS_VALUES) {
            Value *out = (Value *)call.values[IN_OUTPUT];
            auto write_values = [&](auto values) { write_array(out, rows, [&](u32 row) { return values(row)[source(row)]; }); };
            if (call.values_in != nullptr) return list.template with_array<Value>(call.values_in, call.values, place_of, write_values);
            u32 begins[ITEMS]; // of the segments
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++) begins[row] = __shfl_sync(ALL_LANES, slot.segment.begin, lane_of_row(row));
            list.template with_array<Value>(nullptr, call.values, place_of, [&](auto values) {
                write_array(out, rows, [&](u32 row) {
                    if (list.has_moved && rows.place(row) != IN_INPUT) return values(row)[source(row)];
                    return Value::index(call.local_indices ? source(row) - begins[row] : list.chunk + source(row));
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
        if (HAS_SOURCE) __syncwarp(); // all are read, as the sort may be in place
        T *own = list.template at_chunk<T>(out) + Rows::in_slot();
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++)
            if (rows.has(row)) own[rows.first(row)] = element[row];
    }
};
