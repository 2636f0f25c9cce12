// Sort by segment: small segments, of up to MOST items, by warps.
//
// A warp sorts those that begin in its chunk of adjacent items. Each lane has a slot: ITEMS items in
// registers. A segment takes adjacent slots, and a round sorts as many adjacent segments as there are
// slots for, by a bitonic network (sort/bitonic.cuh).
//
// An item is a key. If the order of equal keys can be observed it is a number: the key's position in the
// round and, above it, the highest bits in which keys of a segment differ. Most often these tell all keys
// apart. If not, the network sorts by the lowest bits first, as a radix sort does.
#pragma once
#include "segmented_sort/list.cuh"
#include "sort/bitonic.cuh"

// MASKED: keys are compared by some of their bits.
template <class Order, class Bits, class Value, u32 ITEMS, u32 CHUNK, bool MASKED> struct SmallSegments {
    static constexpr u32 MOST = WARP * ITEMS;
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    typedef typename KeyOf<Bits>::Key Key;
    static constexpr u32 KEY_BITS = 8 * sizeof(Key) - 8; // of an item with a position
    static_assert(MOST == 256, "a position in 8 bits");
    typedef SegmentList<WARP, CHUNK, 0, MOST> List;

    struct Shared {
        alignas(16) Key keys[MOST];
        alignas(16) Key items[HAS_SOURCE ? MOST : 1];
        typename List::Shared list;
    };
    // The items of this thread: `count` of `segment`, from its item `before` on.
    struct Slot {
        ListedSegment segment;
        u32 number; // of the slot among the segment's
        u32 before, count;
    };
    // The segments of a round: their number, and the most lanes of one.
    struct Round { u32 segments, lanes; };
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

    __device__ SmallSegments(Shared &s, const SegmentSortCall &call, u64 n, u64 number)
        : s(s), call(call), list(s.list, call, n, number), order{Bits(call.flip)} {}

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (u32 first = 0; first < list.segments;) {
            Slot slot;
            Round round = find_round(first, slot);
            Key item[ITEMS];
            load(item, slot);
            if constexpr (HAS_SOURCE) sort_with_positions(item, slot, round);
            else sort(item, slot, round);
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

    // ---- sort -----------------------------------------------------------------------------------

    __device__ __forceinline__ void sort(Key (&item)[ITEMS], const Slot &slot, const Round &round) const {
        u32 lanes = (slot.segment.count - 1) / ITEMS + 1, levels = WARP - __clz(round.lanes - 1);
        Bitonic<ITEMS, Key>{item}.sort_lanes(slot.number, lanes, levels);
    }
    static __device__ u32 position(Key item) { return u32(item) % MOST; }
    __device__ Key key_of(Key item) const { return at(s.keys, position(item)); }
    // Sorts keys, which lie in shared memory too, into items with positions.
    __device__ __forceinline__ void sort_with_positions(Key (&item)[ITEMS], const Slot &slot,
                                                        const Round &round) const {
        Key first = shuffle(item[0], lane_id() - slot.number), differs = 0;
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++)
            if (e < slot.count) differs |= item[e] ^ first;
        u32 width = bit_width(warp_or(differs)), shift = max(width, KEY_BITS) - KEY_BITS,
            first_position = lane_id() * ITEMS;
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = item[e] >> shift << 8 | (first_position + e);
        sort(item, slot, round);
        if (8 * sizeof(Bits) <= KEY_BITS || shift == 0 || is_sorted(item, slot)) return;
        // By the lowest bits; then each item's number in that order takes the place of its position.
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = own(s.keys, e) << 8 | (first_position + e);
        sort(item, slot, round);
        store(s.items, item);
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = key_of(item[e]) >> shift << 8 | (first_position + e);
        sort(item, slot, round);
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = at(s.items, position(item[e]));
    }
    // Whether items with equal bits of keys are in order.
    __device__ __forceinline__ bool is_sorted(const Key (&item)[ITEMS], const Slot &slot) const {
        Key next = shuffle(item[0], (lane_id() + 1) % WARP);
        int behind = int(slot.segment.count - slot.before) - 1; // items of the segment behind this slot's first
        auto each_equal = [&](auto use) {
            bool any = false;
#pragma unroll
            for (u32 e = 0; e < ITEMS; e++) {
                Key later = e + 1 < ITEMS ? item[e + 1] : next;
                if (int(e) < behind && (item[e] ^ later) < MOST) any |= use(item[e], later);
            }
            return __any_sync(ALL_LANES, any);
        };
        return !each_equal([](Key, Key) { return true; }) ||
               !each_equal([&](Key earlier, Key later) { return key_of(later) < key_of(earlier); });
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
    // Position p of an array in shared memory. Positions are swizzled within each slot, so that neither the
    // lanes' items `e` nor the items of a row share banks.
    static constexpr u32 BANKS = 128 / sizeof(Key);
    static_assert(ITEMS <= BANKS, "the items of a slot in as many banks");
    static __device__ Key &at(Key *array, u32 position) { return array[position ^ position / BANKS % ITEMS]; }
    // This lane's item `e`, and its item of a row, by fewer instructions.
    static __device__ Key &own(Key *array, u32 e) {
        u32 first = lane_id() * ITEMS;
        return array[(first + first / BANKS % ITEMS) ^ e];
    }
    static __device__ Key &in_row(Key *array, u32 row) {
        u32 lane = lane_id(), first = BANKS < WARP ? lane ^ (lane / BANKS % ITEMS) : lane;
        return (array + (first ^ (row * WARP / BANKS % ITEMS)))[row * WARP];
    }
    // Stores this lane's items.
    static __device__ __forceinline__ void store(Key *array, const Key (&item)[ITEMS]) {
        __syncwarp(); // it is free
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) own(array, e) = item[e];
        __syncwarp();
    }

    __device__ __forceinline__ void load(Key (&item)[ITEMS], const Slot &slot) const {
        Rows rows = find_rows(slot);
        auto place_of = [&](u32 row) { return rows.place(row); };
        Bits loaded[ITEMS];
        list.template with_array<Bits>(call.keys_in, call.keys, place_of, [&](auto keys) {
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++)
                if (rows.has(row)) loaded[row] = (keys(row) + Rows::in_slot())[rows.first(row)];
        });
        __syncwarp(); // the array is free
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++)
            in_row(s.keys, row) = rows.has(row) ? compared<MASKED>(call, order.to(loaded[row])) : ~Key(0);
        __syncwarp();
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = own(s.keys, e);
    }
    __device__ __forceinline__ void write(const Key (&item)[ITEMS], const Slot &slot) const {
        store(HAS_SOURCE ? s.items : s.keys, item);
        Rows rows = find_rows(slot);
        auto place_of = [&](u32 row) { return rows.place(row); };
        // The index in the chunk.
        auto source = [&](u32 row) {
            return position(in_row(s.items, row)) + rows.first(row) - lane_of_row(row) * ITEMS;
        };
        if (!call.no_keys) {
            Bits *out = (Bits *)call.keys[IN_OUTPUT];
            auto sorted = [&](u32 row) { return HAS_SOURCE ? key_of(in_row(s.items, row)) : in_row(s.keys, row); };
            if constexpr (!MASKED) write_array(out, rows, [&](u32 row) { return order.from(Bits(sorted(row))); });
            else
                list.template with_array<Bits>(call.keys_in, call.keys, place_of, [&](auto keys) {
                    write_array(out, rows, [&](u32 row) { return keys(row)[source(row)]; });
                });
        }
        if constexpr (HAS_VALUES) {
            Value *out = (Value *)call.values[IN_OUTPUT];
            auto write_values = [&](auto values) {
                write_array(out, rows, [&](u32 row) { return values(row)[source(row)]; });
            };
            if (call.values_in != nullptr)
                return list.template with_array<Value>(call.values_in, call.values, place_of, write_values);
            u32 begins[ITEMS]; // of the segments
#pragma unroll
            for (u32 row = 0; row < ITEMS; row++)
                begins[row] = __shfl_sync(ALL_LANES, slot.segment.begin, lane_of_row(row));
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
