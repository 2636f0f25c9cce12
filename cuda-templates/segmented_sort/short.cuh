// Sort by segment: short and medium segments, of more than LEAST and up to MOST items, by blocks.
//
// A block sorts those that begin in its chunk, round by round. Its positions in shared memory are cut into
// slots of SLOT. A segment takes adjacent slots, and a round has as many adjacent segments as there are
// slots for. The positions behind a segment's last item hold padding, greater than any.
//
// 1. The least and the greatest key of each segment.
// 2. Bins: a segment has as many bins as items. A key goes to one by its share of the segment's span, and
//    the counts of the bins give each bin its positions (interpolation, as in flashsort: Neubert 1998). The
//    shares are of floats' values if these tell more keys of a sample apart.
// 3. A bin with more than MOST_IN_BIN items is divided as a segment is, until there is none: by turns by the
//    logarithms of its keys, as some are often close to the least one, and by its keys, which tells 6 more
//    bits apart. If its keys are equal, their places in the segment divide it.
// 4. A thread sorts a slot. Then adjacent slots are merged, in both halves by turns, until no two
//    items are out of order: twice, if no bin has many items.
#pragma once
#include "segmented_sort/small.cuh"

// An item of 8-byte keys whose source matters: ordered by the key, then by the source.
struct LongItem {
    u64 key;
    u32 source;
    __device__ bool operator<(const LongItem &other) const {
        return key < other.key || (key == other.key && source < other.source);
    }
};

// How an item holds a key and its source, the index in the chunk.
template <class Bits, bool HAS_SOURCE> struct ItemOf {
    static constexpr u32 SHIFT = 8 * sizeof(Bits) <= 16 ? 16 : 32;
    typedef typename IfElse<SHIFT == 16, u32, u64>::Type Item;
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

// How the items of a range go to its bins, by a number each.
template <class T> struct Scale {
    T least;
    u32 shift, factor;
    // For numbers from `least` to `most`. If there are more bins than numbers the factor saturates, and each
    // number has a bin of its own.
    static __device__ Scale of(T least, T most, u32 bins) {
        T span = most - least;
        u32 shift = sizeof(T) > 4 ? max(bit_width(span), 32u) - 32 : 0;
        // A little less than exact, so that there is a bin for `most`.
        float scaled = float(1ull << 32) * 0.999999f * float(bins);
        return {least, shift, __float2uint_rz(__fdividef(scaled, __uint2float_rz(u32(span >> shift)) + 1))};
    }
    // The number of the bin of x, if the first is number `first`.
    __device__ u32 bin(T x, u32 first) const {
        return u32((u64(u32((x - least) >> shift)) * factor + (u64(first) << 32 | factor)) >> 32);
    }
    __device__ Scale of_lane(u32 lane) const {
        return {shuffle(least, lane), sizeof(T) > 4 ? shuffle(shift, lane) : 0, shuffle(factor, lane)};
    }
};

// How the items of a segment of floats go to its bins, by their values instead of their bits. Normally distributed
// floats have most of their bits in two short spans.
template <class Order, class Bits> struct ValueScale {
    static constexpr bool EXISTS = Order::GRAIN > 1;
    float first, factor;
    // From the first key to the last one.
    static __device__ ValueScale of(Bits first, Bits last, u32 bins) {
        float begin = value(first);
        return {begin, float(bins) * 0.9999f / (value(last) - begin)};
    }
    // No NaNs, and no equal values. With an infinite one all keys have the first bin, so the sample rejects the scale.
    __device__ bool exists() const { return factor - factor == 0; }
    __device__ u32 bin(Bits x) const { return __float2uint_rz((value(x) - first) * factor); }
    __device__ ValueScale of_lane(u32 lane) const { return {shuffle(first, lane), shuffle(factor, lane)}; }

  private:
    static __device__ float value(Bits x) {
        if constexpr (sizeof(Bits) == 8) {
            return float(__longlong_as_double(i64(x)));
        } else if constexpr (sizeof(Bits) == 2 && Order::GRAIN == 1 << 10) {
            float wide;
            asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(u16(x)));
            return wide;
        } else {
            return __uint_as_float(u32(x) << (32 - 8 * sizeof(Bits)));
        }
    }
};

// A number that grows about as the logarithm of x + 1 does, and is 0 for 0.
template <class T> __device__ inline u32 logarithm(T x) {
    float f = sizeof(T) > 4 ? __ull2float_rz(x) : __uint2float_rz(u32(x));
    return __float_as_uint(f + 1) - __float_as_uint(1);
}

// MASKED: keys are compared by some of their bits.
template <class Order, class Bits, class Value, u32 THREADS, u32 ITEMS, u32 CHUNK, u32 LEAST, bool MASKED>
struct ShortSegments {
    static constexpr u32 SLOT = 8, HALF = SLOT / 2, MOST = THREADS * ITEMS, SLOTS = MOST / SLOT;
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    static constexpr u32 MOST_IN_BIN = (HAS_SOURCE ? 3 : 4) * ITEMS;
    typedef ItemOf<Bits, HAS_SOURCE> Packing;
    typedef typename Packing::Item Item;
    typedef typename KeyOf<Bits>::Key Key;
    typedef SegmentList<THREADS, CHUNK, LEAST, MOST> List;
    typedef ValueScale<Order, Bits> OfValues;
    static constexpr bool HAS_FLOATS = OfValues::EXISTS && !MASKED;
    static_assert(THREADS <= WARP * WARP && ITEMS % 8 == 0, "a lane for each warp, and rows by eight");

    // Items that are divided into bins: those of a segment or, with all fields, of a bin with too many.
    struct Range {
        Key least, most;
        u32 first, last;  // positions before the sort
        u32 begin, items; // of the bin: its first position, and their number
    };
    // Ranges are longer than MOST_IN_BIN, so their first positions have a number each.
    static constexpr u32 RANGES = MOST / MOST_IN_BIN + 1;
    static_assert(LEAST >= MOST_IN_BIN && RANGES <= THREADS, "a thread a range");
    struct Shared {
        union {
            alignas(16) Key keys[MOST];
            alignas(16) Item items[MOST]; // once they are in their bins: position p at `swizzled(p)`
        };
        union {
            alignas(16) u32 bins[MOST];   // the number of items; later the first position
            alignas(16) Value values[HAS_VALUES ? MOST : 1]; // once the items are in their bins
        };
        Range ranges[RANGES];
        Scale<Key> scales[RANGES];
        u32 of_warp[WARP];
        typename List::Shared list;
    };
    // A segment of a round: its number, its positions, and where these lie in the chunk: `delta` higher.
    struct Walk {
        u32 number, begin, end, next; // `next`: behind the padding
        int delta;
        Place place;
        __device__ void enter(u32 packed, u32 at) {
            ListedSegment own = ListedSegment::of(packed);
            begin = at;
            end = at + own.count;
            delta = int(own.begin) - int(begin);
            place = own.place;
        }
    };
    struct Round {
        u32 first, segments, items; // `first`: in the list
        u32 begin, count;           // of this lane's segment
        Walk walk;                  // the segment of the warp's first position
        bool is_whole;              // whether that segment has items at all of the warp's positions
    };
    // The bins of this thread's items, which lie WARP apart. Above it by 16 bits: the number of the bin's items that
    // came before.
    typedef u32 Bins[ITEMS];

    Shared &s;
    const SegmentSortCall &call;
    List list;
    Order order;

    __device__ ShortSegments(Shared &s, const SegmentSortCall &call, u64 n, u64 number)
        : s(s), call(call), list(s.list, call, n, number), order{Bits(call.flip)} {}

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (u32 first = 0; first < list.segments;) {
            Round round = find_round(first);
            load(round);
            move_to_bins(round);
            __syncthreads();
            if constexpr (HAS_VALUES) load_values(round);
            sort_slots(round);
            write(round);
            first += round.segments;
        }
    }

  private:
    // ---- rounds ---------------------------------------------------------------------------------

    static __device__ u32 first_of_warp() { return warp_id() * (ITEMS * WARP); }
    // The round that begins with segment `first` of the list.
    __device__ __forceinline__ Round find_round(u32 first) const {
        Round round;
        u32 packed = list.listed(first), count = ListedSegment::of(packed).count, slots = (count - 1) / SLOT + 1;
        if (first + lane_id() >= list.segments) slots = SLOTS + 1; // does not fit
        u32 end = warp_inclusive_sum(slots);
        bool fits = end <= SLOTS;
        round.first = first;
        round.segments = List::uniform(__popc(__ballot_sync(ALL_LANES, fits)));
        round.items = List::uniform(warp_max(fits ? end : 0)) * SLOT;
        round.begin = fits ? (end - slots) * SLOT : ~0u;
        round.count = count;
        Walk &walk = round.walk;
        walk.number = List::uniform(__popc(__ballot_sync(ALL_LANES, round.begin <= first_of_warp())) - 1);
        walk.enter(__shfl_sync(ALL_LANES, packed, walk.number), __shfl_sync(ALL_LANES, round.begin, walk.number));
        round.is_whole = __all_sync(ALL_LANES, first_of_warp() + ITEMS * WARP <= walk.end);
        return round;
    }
    // The rows of a warp, for a segment that has items at all of its positions, or only at some.
    template <bool WHOLE> struct Rows {
        const Walk &walk;
        // Calls `f(i, at, is_there)` for this lane's positions in the segment: item i lies at `at`. Padding
        // is not there.
        template <class F> __device__ __forceinline__ void each(const F &f) const {
            u32 first = opaque(first_of_warp() + lane_id());
#pragma unroll
            for (u32 row = 0; row < ITEMS; row += 8) {
                u32 begin = first_of_warp() + row * WARP;
                if (!WHOLE && (begin >= walk.next || begin + 8 * WARP <= walk.begin)) continue;
#pragma unroll
                for (u32 i = row; i < row + 8; i++) {
                    u32 at = first + i * WARP;
                    if (WHOLE || at - walk.begin < walk.next - walk.begin) f(i, at, WHOLE || at < walk.end);
                }
            }
        }
    };
    // Calls `use(segment, rows)` by the whole warp for each segment that has positions of the warp. All
    // positions behind the last segment's are its padding.
    template <class Use> __device__ __forceinline__ void each_segment(const Round &round, const Use &use) const {
        if (first_of_warp() >= round.items) return;
        Walk walk = round.walk;
        if (round.is_whole) return use(walk, Rows<true>{walk});
#pragma unroll 1
        for (;;) {
            bool is_last = walk.number + 1 == round.segments;
            walk.next = is_last ? MOST : (walk.end + SLOT - 1) / SLOT * SLOT;
            use(walk, Rows<false>{walk});
            if (walk.next >= first_of_warp() + ITEMS * WARP) return;
            walk.enter(List::uniform(s.list.segments[round.first + ++walk.number]), walk.next);
        }
    }
    // The items of a segment in an array, from `in` if they have not moved, by their positions.
    template <class T> __device__ __forceinline__ T *array(const void *in, void *const *moved, const Walk &walk) const {
        const void *at = !list.has_moved || walk.place == IN_INPUT ? in : moved[walk.place];
        return list.template at_chunk<T>((char *)at) + walk.delta;
    }
    // The place of a position's item. The items of a row of a warp, and the items `e` of all slots of a
    // warp, lie in different banks.
    static __device__ u32 swizzled(u32 position) {
        constexpr u32 BANKS = 128 / sizeof(Item);
        static_assert(SLOT <= BANKS, "the items of a slot in as many banks");
        return position ^ (position / BANKS % SLOT);
    }

    // Whether a segment's payload lies in memory. If not, it is the source indices.
    __device__ bool has_values(const Walk &walk) const {
        return call.values_in != nullptr || (list.has_moved && walk.place != IN_INPUT);
    }
    // Starts to copy the payload.
    __device__ __forceinline__ void load_values(const Round &round) {
        each_segment(round, [&](const Walk &walk, auto rows) {
            if (!has_values(walk)) return;
            const Value *values = array<const Value>(call.values_in, call.values, walk);
            rows.each([&](u32, u32 at, bool is_there) {
                if (is_there) copy_item_to_shared(s.values + at, values + at);
            });
        });
    }
    // Starts to copy the keys.
    __device__ __forceinline__ void load_keys(const Round &round) {
        each_segment(round, [&](const Walk &walk, auto rows) {
            const Bits *keys = array<const Bits>(call.keys_in, call.keys, walk);
            if constexpr (sizeof(Bits) == sizeof(Key)) {
                rows.each([&](u32, u32 at, bool is_there) {
                    if (is_there) copy_item_to_shared((Bits *)s.keys + at, keys + at);
                });
            } else {
                Bits loaded[ITEMS];
                rows.each([&](u32 i, u32 at, bool is_there) { loaded[i] = is_there ? keys[at] : Bits(0); });
                rows.each([&](u32 i, u32 at, bool) { s.keys[at] = loaded[i]; });
            }
        });
    }
    // Loads the keys, and finds the ends of each segment.
    __device__ __forceinline__ void load(const Round &round) {
        __syncthreads(); // the round before is written
        load_keys(round);
        clear_ranges();
        clear_bins();
        wait_for_copies();
        __syncthreads();
        each_segment(round, [&](const Walk &walk, auto rows) {
            Key least = ~Key(0), most = 0;
            rows.each([&](u32, u32 at, bool is_there) {
                Key key = is_there ? compared<MASKED>(call, order.to(Bits(s.keys[at]))) : Key(Bits(~Bits(0)));
                s.keys[at] = key;
                least = min(least, key);
                if (is_there) most = max(most, key);
            });
            least = warp_min(least);
            most = warp_max(most);
            if (lane_id() == 0) atomicMin(&range(walk.begin).least, least);
            if (lane_id() == 1) atomicMax(&range(walk.begin).most, most);
        });
        __syncthreads();
        if constexpr (HAS_FLOATS) {
            choose_maps(round);
            __syncthreads();
        }
    }
    __device__ Bits raw(Key key) const { return order.from(Bits(key)); }
    // Of each segment of floats finds out, by WARP of its keys, whether values tell more of them apart than bits do.
    __device__ __forceinline__ void choose_maps(const Round &round) const {
#pragma unroll 1
        for (u32 k = warp_id(); k < round.segments; k += THREADS / WARP) {
            u32 begin = __shfl_sync(ALL_LANES, round.begin, k), count = __shfl_sync(ALL_LANES, round.count, k);
            Range &own = range(begin);
            Key key = s.keys[begin + lane_id() * count / WARP];
            OfValues values = OfValues::of(raw(own.least), raw(own.most), WARP);
            // Pairs of keys that share a bin.
            u32 by_bits = warp_add(
                    __popc(__match_any_sync(ALL_LANES, Scale<Key>::of(own.least, own.most, WARP).bin(key, 0)))),
                by_values = warp_add(__popc(__match_any_sync(ALL_LANES, values.bin(raw(key)))));
            if (lane_id() == 0) own.items = values.exists() && 4 * by_values < 3 * by_bits;
        }
    }

    // ---- bins -----------------------------------------------------------------------------------

    __device__ Range &range(u32 first) const { return s.ranges[first / MOST_IN_BIN]; }
    __device__ __forceinline__ void clear_ranges() {
        if (threadIdx.x < RANGES) s.ranges[threadIdx.x] = {~Key(0), 0, ~0u, 0, ~0u, 0};
    }
    __device__ __forceinline__ void clear_bins() {
        for (u32 i = threadIdx.x; i < MOST / 4; i += THREADS) ((Vector *)s.bins)[i] = Vector{{0, 0, 0, 0}};
    }
    // Calls `f(i, at)` for this lane's positions in the round, with those of padding: first for its first and its
    // last one.
    template <class F> static __device__ __forceinline__ void each_position(const Round &round, const F &f) {
        if (first_of_warp() >= round.items) return;
        u32 first = opaque(first_of_warp() + lane_id());
#pragma unroll
        for (u32 row = 0; row < ITEMS; row++) {
            u32 i = row < 2 ? row * (ITEMS - 1) : row - 1;
            f(i, first + i * WARP);
        }
    }

    // Moves the items to the positions of their bins.
    __device__ __forceinline__ void move_to_bins(const Round &round) {
        Bins bin;
        const Range &own = range(min(round.begin, MOST - 1)); // of this lane's segment
        Scale<Key> of_lanes = Scale<Key>::of(own.least, own.most, round.count);
        u32 with_order = __ballot_sync(ALL_LANES, own.least < own.most), with_values = 0;
        OfValues values_of_lanes = {};
        if constexpr (HAS_FLOATS) {
            with_values = __ballot_sync(ALL_LANES, own.items != 0);
            if (with_values != 0) {
                values_of_lanes = OfValues::of(raw(own.least), raw(own.most), round.count);
                with_values &= __ballot_sync(ALL_LANES,
                                             values_of_lanes.exists()); // a short span has 32 bins, but no more
            }
        }
        each_segment(round, [&](const Walk &walk, auto rows) {
            Scale<Key> scale = of_lanes.of_lane(walk.number);
            bool is_equal = (with_order >> walk.number & 1) == 0;
            if constexpr (HAS_FLOATS)
                if (with_values >> walk.number & 1) {
                    OfValues values = values_of_lanes.of_lane(walk.number);
                    return rows.each([&](u32 i, u32 at, bool is_there) {
                        bin[i] = is_there ? walk.begin + values.bin(raw(s.keys[at])) : at;
                    });
                }
            rows.each([&](u32 i, u32 at, bool is_there) {
                // Padding stays where it is, and so do equal keys.
                bin[i] = is_there && !is_equal ? scale.bin(s.keys[at], walk.begin) : at;
            });
        });
#pragma unroll 1
        for (bool by_logarithm = true;; by_logarithm = !by_logarithm) {
            bool is_full = __syncthreads_or(count_items(bin, round));
            if (is_full) clear_ranges();
            scan_bins(is_full);
            if (!is_full || !divide_bins(bin, round, by_logarithm)) break;
        }
        Key key[ITEMS];
        each_position(round, [&](u32 i, u32 at) { key[i] = s.keys[at]; });
        __syncthreads(); // all are read
        each_position(round, [&](u32 i, u32 at) {
            u32 position = s.bins[bin[i] & 0xffff] + (bin[i] >> 16);
            s.items[swizzled(position)] = Packing::pack(Bits(key[i]), at);
        });
    }
    // Counts the items in their bins. Returns whether there are too many in one.
    __device__ __forceinline__ bool count_items(Bins &bin, const Round &round) {
        bool is_full = false;
        auto count = [&](auto add) {
            each_position(round, [&](u32 i, u32) {
                u32 before = add(bin[i]);
                is_full |= before >= MOST_IN_BIN;
                bin[i] |= before << 16;
            });
        };
        // Additions to one counter are served one after the other. If many neighbours share a bin, one lane adds
        // for all that do.
        u32 alike = __ballot_sync(ALL_LANES, bin[0] == __shfl_up_sync(ALL_LANES, bin[0], 1));
        if (__popc(alike) < WARP * 3 / 8) {
            count([&](u32 own) { return atomicAdd(s.bins + own, 1); });
        } else {
            count([&](u32 own) {
                u32 lanes = __match_any_sync(ALL_LANES, own), first = __ffs(lanes) - 1, before = 0;
                if (lane_id() == first) before = atomicAdd(s.bins + own, __popc(lanes));
                return __shfl_sync(ALL_LANES, before, first) + __popc(lanes & ((1u << lane_id()) - 1));
            });
        }
        return is_full;
    }
    // Divides the ranges of bins with too many items, as they are opened, into bins of their own: by the keys'
    // logarithms, by the keys, or by the positions of equal keys. Each other item gets a bin for itself.
    // Returns false, and changes nothing, if no range has to be divided.
    __device__ __forceinline__ bool divide_bins(Bins &bin, const Round &round, bool by_logarithm) {
        each_position(round, [&](u32 i, u32 at) {
            u32 first = s.bins[bin[i] & 0xffff];
            Range &own = range(first);
            if (own.begin != first) return;
            // Most items are no end.
            Key key = s.keys[at];
            if (key < load_shared(&own.least) || key > load_shared(&own.most)) {
                atomicMin(&own.least, key);
                atomicMax(&own.most, key);
            }
            if (HAS_SOURCE && (at < load_shared(&own.first) || at > load_shared(&own.last))) {
                atomicMin(&own.first, at);
                atomicMax(&own.last, at);
            }
        });
        __syncthreads();
        bool divides = false;
        if (threadIdx.x < RANGES) {
            Range &own = s.ranges[threadIdx.x];
            bool is_equal = own.least >= own.most;
            divides = own.begin != ~0u && (HAS_SOURCE || !is_equal);
            if (!divides) own.begin = ~0u;
            s.scales[threadIdx.x] = is_equal       ? Scale<Key>::of(own.first, own.last, own.items)
                                    : by_logarithm ? Scale<Key>::of(0, logarithm(Key(own.most - own.least)), own.items)
                                                   : Scale<Key>::of(own.least, own.most, own.items);
        }
        if (!__syncthreads_or(divides)) return false;
        each_position(round, [&](u32 i, u32 at) {
            u32 first = s.bins[bin[i] & 0xffff];
            const Range &own = range(first);
            if (own.begin != first) {
                bin[i] = first + (bin[i] >> 16);
                return;
            }
            Key key = s.keys[at], x = own.least >= own.most ? Key(at)
                                      : by_logarithm        ? Key(logarithm(Key(key - own.least)))
                                                            : key;
            bin[i] = s.scales[first / MOST_IN_BIN].bin(x, first);
        });
        __syncthreads();
        clear_bins();
        __syncthreads();
        return true;
    }
    // Gives each bin its first position. A thread has some vectors of its warp's bins. `opens`: and a range, if
    // it has too many items.
    __device__ __forceinline__ void scan_bins(bool opens) {
        constexpr u32 VECTORS = ITEMS / 4;
        Vector *own = (Vector *)(s.bins + first_of_warp()) + lane_id(), count[VECTORS];
        u32 begin[VECTORS], all = 0;
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) count[v] = own[v * WARP];
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
            u32 sum = count[v].word[0] + count[v].word[1] + count[v].word[2] + count[v].word[3],
                inclusive = warp_inclusive_sum(sum);
            begin[v] = all + inclusive - sum;
            all += __shfl_sync(ALL_LANES, inclusive, WARP - 1);
        }
        if (lane_id() == 0) s.of_warp[warp_id()] = all;
        __syncthreads();
        u32 before = sum_of_earlier_warps(s.of_warp);
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
            Vector begins;
            begins.word[0] = before + begin[v];
#pragma unroll
            for (u32 e = 1; e < 4; e++) begins.word[e] = begins.word[e - 1] + count[v].word[e - 1];
            own[v * WARP] = begins;
            u32 most = max(max(count[v].word[0], count[v].word[1]), max(count[v].word[2], count[v].word[3]));
            if (!opens || most <= MOST_IN_BIN) continue;
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                u32 first = begins.word[e], items = count[v].word[e];
                if (items > MOST_IN_BIN) range(first) = {~Key(0), 0, ~0u, 0, first, items};
            }
        }
        __syncthreads();
    }

    // ---- slots ----------------------------------------------------------------------------------

    // Calls `f(turn, own)` for each of this thread's slots that the round has: it begins at `own`.
    template <class F> static __device__ __forceinline__ void each_slot(const Round &round, const F &f) {
#pragma unroll
        for (u32 turn = 0; turn < ITEMS / SLOT; turn++) {
            u32 own = (turn * THREADS + threadIdx.x) * SLOT;
            if (own < round.items) f(turn, own);
        }
    }
    // Sorts the items of each slot.
    __device__ __forceinline__ void sort_each_slot(const Round &round) const {
        each_slot(round, [&](u32, u32 own) {
            Item item[SLOT];
#pragma unroll
            for (u32 e = 0; e < SLOT; e++) item[e] = s.items[swizzled(own + e)];
            Bitonic<SLOT, Item>{item}.sort_thread();
#pragma unroll
            for (u32 e = 0; e < SLOT; e++) s.items[swizzled(own + e)] = item[e];
        });
    }
    // Whether a segment begins at this thread's slot of a turn.
    static __device__ __forceinline__ bool begins_segment(const Round &round, u32 turn) {
        u32 slot = round.begin / SLOT - (turn * THREADS + warp_id() * WARP); // of this lane's segment
        return warp_or(slot < WARP ? 1u << slot : 0) >> lane_id() & 1;
    }
    // Sorts the items of each segment. None lies far from its position.
    __device__ __forceinline__ void sort_slots(const Round &round) const {
        u32 first = 0;
#pragma unroll
        for (u32 turn = 0; turn < ITEMS / SLOT; turn++) first |= begins_segment(round, turn) << turn;
        sort_each_slot(round);
        // Two sorted halves of slots: those around the slot's begin, then those of the slot.
#pragma unroll 1
        for (u32 half = 0;; half ^= HALF) {
            __syncthreads();
            u32 merges = 0;
            each_slot(round, [&](u32 turn, u32 own) {
                u32 middle = own + half;
                if (half == 0 && (first >> turn & 1)) return;
                merges |= u32(s.items[swizzled(middle)] < s.items[swizzled(middle - 1)]) << turn;
            });
            if (!__syncthreads_or(merges)) break;
            each_slot(round, [&](u32 turn, u32 own) {
                if (!(merges >> turn & 1)) return;
                u32 middle = own + half;
                Item item[SLOT];
#pragma unroll
                for (u32 e = 0; e < HALF; e++) {
                    item[e] = s.items[swizzled(middle - HALF + e)];
                    item[HALF + e] = s.items[swizzled(middle + HALF - 1 - e)];
                }
                Bitonic<SLOT, Item>{item}.merge_thread();
#pragma unroll
                for (u32 e = 0; e < SLOT; e++) s.items[swizzled(middle - HALF + e)] = item[e];
            });
        }
    }

    // ---- output ---------------------------------------------------------------------------------

    // A function, since NVRTC 12.0 instantiates what `if constexpr` discards in a lambda inside another.
    static __device__ __forceinline__ Value index_of(u64 index) {
        if constexpr (HAS_VALUES) return Value::index(index);
        else return Value();
    }

    // Writes the sorted items and their payload.
    __device__ __forceinline__ void write(const Round &round) {
        Bits raw[MASKED ? ITEMS : 1];
        auto source = [&](u32 at) { return Packing::source(s.items[swizzled(at)]); };
        if constexpr (MASKED)
            if (!call.no_keys)
                each_segment(round, [&](const Walk &walk, auto rows) {
                    const Bits *keys = array<const Bits>(call.keys_in, call.keys, walk);
                    rows.each([&](u32 i, u32 at, bool is_there) {
                        if (is_there) raw[i] = keys[source(at)];
                    });
                });
        if constexpr (HAS_VALUES) wait_for_copies();
        if (HAS_SOURCE) __syncthreads(); // all is read, as the sort may be in place
        each_segment(round, [&](const Walk &walk, auto rows) {
            Bits *out = list.template at_chunk<Bits>(call.keys[IN_OUTPUT]) + walk.delta;
            if (!call.no_keys)
                rows.each([&](u32 i, u32 at, bool is_there) {
                    Bits key;
                    if constexpr (MASKED) key = raw[i];
                    else key = order.from(Packing::key(s.items[swizzled(at)]));
                    if (is_there) out[at] = key;
                });
            if constexpr (HAS_VALUES) {
                Value *values_out = list.template at_chunk<Value>(call.values[IN_OUTPUT]) + walk.delta;
                bool is_stored = has_values(walk);
                u64 index = call.local_indices ? -u64(walk.begin) : list.chunk + walk.delta;
                rows.each([&](u32, u32 at, bool is_there) {
                    u32 from = source(at);
                    Value value = is_stored ? s.values[from] : index_of(index + from);
                    if (is_there) values_out[at] = value;
                });
            }
        });
    }
};
