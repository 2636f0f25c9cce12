// Sort by segment: short segments by bins, a block a chunk.
//
// A block sorts the listed segments of its chunk (segmented_sort/short.cuh) round by round. Each thread
// has a slot of ITEMS positions in shared memory. A segment takes adjacent slots, and a round has as many
// adjacent segments as there are slots for. The positions behind a segment's last item hold padding,
// greater than any.
//
// 1. The least and the greatest key of each segment.
// 2. Bins: a segment has as many bins as items. A key goes to one by its share of the segment's span, and
//    the counts of the bins give each bin its positions (interpolation, as in flashsort: Neubert 1998).
// 3. Each thread sorts its slot. Then adjacent slots are merged, in both halves by turns, until no two
//    items are out of order: twice, if no bin has many keys.
// 4. If a bin has more than MOST_IN_BIN keys, the block leaves the round and those behind it to the
//    network of segmented_sort/short.cuh, whose cost does not depend on the keys.
#pragma once
#include "segmented_sort/short.cuh"

template <class Order, class Bits, class Value, u32 THREADS, u32 ITEMS, u32 CHUNK, u32 LEAST, bool MASKED>
struct SegmentBins {
    typedef ShortSegments<Order, Bits, Value, THREADS, ITEMS, CHUNK, LEAST, MASKED> Network;
    typedef typename Network::Packing Packing;
    typedef typename Network::Item Item;
    typedef typename Network::Key Key;
    typedef typename Network::Segment Segment;
    static constexpr u32 MOST = Network::MOST, HALF = ITEMS / 2;
    static constexpr bool HAS_VALUES = Network::HAS_VALUES, HAS_SOURCE = Network::HAS_SOURCE;
    // Without a payload the network is faster for rounds of shorter segments.
    static constexpr u32 LEAST_BY_BINS = HAS_SOURCE ? 0 : 1024;
    static constexpr u32 MOST_IN_BIN = 4 * ITEMS;
    static_assert(THREADS <= WARP * WARP, "a lane for each warp");

    struct Shared {
        typename Network::Shared network; // its exchange: the items, position p at `swizzled(p)`
        alignas(16) u32 bins[MOST];       // the number of keys; later the first position
        alignas(16) Value values[HAS_VALUES ? MOST : 1];
        Key ends[2][WARP]; // of each segment: the least key, and the greatest with all bits inverted
        u32 of_warp[WARP];
    };
    // A segment of a round: its number, its positions, and where these lie in the chunk: `delta` higher.
    struct Walk {
        u32 number, begin, end, next; // `next`: behind the padding
        int delta;
        Place place;
        __device__ void enter(u32 packed, u32 at) {
            Segment own = Segment::of(packed);
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
    // This thread's items, WARP apart.
    struct Items {
        Key key[ITEMS];
        u32 bin[ITEMS]; // above it by 16 bits: the number of its keys that came before
    };

    Shared &s;
    const SegmentSortCall &call;
    Network network;
    Order order;

    __device__ SegmentBins(Shared &s, const SegmentSortCall &call, u64 number)
        : s(s), call(call), network(s.network, call, number), order{Bits(call.flip)} {}

    // Sorts rounds up to the first one that is left to the network.
    __device__ __forceinline__ void run() {
        u32 segments = network.list_segments();
#pragma unroll 1
        for (u32 first = 0; first < segments;) {
            Round round = find_round(first, segments);
            if (Segment::of(s.network.segments[first]).count <= LEAST_BY_BINS || !sort_by_bins(round)) {
                PartitionPlan &plan = *(PartitionPlan *)call.plan;
                if (threadIdx.x == 0) call.left[atomicAdd(&plan.left, 1)] = u64(network.chunk / CHUNK) << 32 | first;
                return;
            }
            first += round.segments;
        }
    }

  private:
    // ---- rounds ---------------------------------------------------------------------------------

    static __device__ u32 first_of_warp() { return warp_id() * (ITEMS * WARP); }
    // The round that begins with segment `first` of the list, which has `segments`.
    __device__ __forceinline__ Round find_round(u32 first, u32 segments) const {
        Round round;
        u32 packed = s.network.segments[min(first + lane_id(), segments - 1)], count = Segment::of(packed).count,
            slots = (count - 1) / ITEMS + 1;
        if (first + lane_id() >= segments) slots = THREADS + 1; // does not fit
        u32 end = warp_inclusive_sum(slots);
        bool fits = end <= THREADS;
        round.first = first;
        round.segments = Network::uniform(__popc(__ballot_sync(ALL_LANES, fits)));
        round.items = Network::uniform(warp_max(fits ? end : 0)) * ITEMS;
        round.begin = fits ? (end - slots) * ITEMS : ~0u;
        round.count = count;
        Walk &walk = round.walk;
        walk.number = Network::uniform(__popc(__ballot_sync(ALL_LANES, round.begin <= first_of_warp())) - 1);
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
            for (u32 i = 0; i < ITEMS; i++) {
                u32 at = first + i * WARP;
                if (WHOLE || at - walk.begin < walk.next - walk.begin) f(i, at, WHOLE || at < walk.end);
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
            walk.next = is_last ? MOST : (walk.end + ITEMS - 1) / ITEMS * ITEMS;
            use(walk, Rows<false>{walk});
            if (walk.next >= first_of_warp() + ITEMS * WARP) return;
            walk.enter(Network::uniform(s.network.segments[round.first + ++walk.number]), walk.next);
        }
    }
    // The items of a segment in an array, from `in` if they have not moved, by their positions.
    template <class T> __device__ __forceinline__ T *array(const void *in, void *const *moved, const Walk &walk) const {
        const void *at = !network.has_moved || walk.place == IN_INPUT ? in : moved[walk.place];
        return network.template at_chunk<T>((char *)at) + walk.delta;
    }
    __device__ Item *items() const { return s.network.exchange; }
    // The place of a position's item. The items of a row of a warp, and the items `e` of all slots of a
    // warp, lie in different banks.
    static __device__ u32 swizzled(u32 position) {
        constexpr u32 BANKS = 128 / sizeof(Item);
        static_assert(ITEMS <= BANKS, "the items of a slot in as many banks");
        return position ^ (position / BANKS % ITEMS);
    }

    // Loads the keys.
    __device__ __forceinline__ void load(Items &t, const Round &round) const {
        each_segment(round, [&](const Walk &walk, auto rows) {
            const Bits *keys = array<const Bits>(call.keys_in, call.keys, walk);
            rows.each([&](u32 i, u32 at, bool is_there) { t.key[i] = is_there ? keys[at] : Bits(0); });
        });
    }
    // Starts to copy the payload, or makes the source indices.
    __device__ __forceinline__ void load_values(const Round &round) {
        each_segment(round, [&](const Walk &walk, auto rows) {
            bool has_values = call.values_in != nullptr || (network.has_moved && walk.place != IN_INPUT);
            const Value *values = has_values ? array<const Value>(call.values_in, call.values, walk) : nullptr;
            u64 index = call.local_indices ? -u64(walk.begin) : network.chunk + walk.delta;
            rows.each([&](u32, u32 at, bool is_there) {
                if (!is_there) return;
                if (has_values) copy_item_to_shared(s.values + at, values + at);
                else s.values[at] = Value::index(index + at);
            });
        });
    }
    // Makes the keys comparable, and finds the ends of each segment.
    __device__ __forceinline__ void find_ends(Items &t, const Round &round) {
        each_segment(round, [&](const Walk &walk, auto rows) {
            Key ends[2] = {~Key(0), ~Key(0)};
            rows.each([&](u32 i, u32, bool is_there) {
                t.key[i] = comparable(t, i, is_there);
                ends[0] = min(ends[0], t.key[i]);
                if (is_there) ends[1] = min(ends[1], ~t.key[i]);
            });
            ends[0] = warp_min(ends[0]);
            ends[1] = warp_min(ends[1]);
            if (lane_id() < 2) atomicMin(&s.ends[lane_id()][walk.number], lane_id() == 0 ? ends[0] : ends[1]);
        });
    }
    __device__ Key comparable(const Items &t, u32 i, bool is_there) const {
        return is_there ? network.compared(order.to(Bits(t.key[i]))) : Key(Bits(~Bits(0)));
    }

    // ---- bins -----------------------------------------------------------------------------------

    // How the keys of a segment go to bins.
    struct Scale {
        Key least;
        u32 shift, factor;
        // The bin, counted from the segment's first.
        __device__ u32 operator()(Key key) const { return __umulhi(u32((key - least) >> shift), factor); }
        __device__ Scale of_lane(u32 lane) const {
            return {shuffle(least, lane), sizeof(Key) > 4 ? shuffle(shift, lane) : 0, shuffle(factor, lane)};
        }
    };
    // That of this lane's segment.
    __device__ __forceinline__ Scale scale(const Round &round) const {
        Key least = s.ends[0][lane_id()], most = ~s.ends[1][lane_id()] - least;
        u32 shift = sizeof(Key) > 4 && most >> 4 * sizeof(Key) != 0 ? 32 - __clz(int(most >> 4 * sizeof(Key))) : 0;
        // A little less than exact. It saturates if there are more bins than keys can be.
        float bins = float(1ull << 32) * 0.999999f * float(round.count);
        return {least, shift, __float2uint_rz(__fdividef(bins, __uint2float_rz(u32(most >> shift))))};
    }
    __device__ __forceinline__ void clear_bins() {
        for (u32 i = threadIdx.x; i < MOST / 4; i += THREADS) ((Vector *)s.bins)[i] = Vector{{0, 0, 0, 0}};
    }

    // Sorts a round, unless too many keys share a bin.
    __device__ __forceinline__ bool sort_by_bins(const Round &round) {
        {
            Items t;
            load(t, round);
            __syncthreads(); // the round before is written
            if constexpr (HAS_VALUES) load_values(round);
            if (threadIdx.x < 2 * WARP) s.ends[warp_id()][lane_id()] = ~Key(0);
            clear_bins();
            __syncthreads();
            find_ends(t, round);
            __syncthreads();
            if (!move_to_bins(t, round)) return false;
        }
        sort_slots(round);
        write(round);
        return true;
    }
    // Moves the items to the positions of their bins, unless too many keys share one.
    __device__ __forceinline__ bool move_to_bins(Items &t, const Round &round) {
        Scale of_lanes = scale(round);
        bool is_full = false;
        each_segment(round, [&](const Walk &walk, auto rows) {
            Scale scale = of_lanes.of_lane(walk.number);
            rows.each([&](u32 i, u32 at, bool is_there) {
                u32 bin = walk.begin + scale(t.key[i]);
                t.bin[i] = count(is_there ? bin : at, is_full); // padding has bins of its own
            });
        });
        if (__syncthreads_or(is_full)) {
            if (HAS_VALUES) wait_for_copies();
            return false;
        }
        scan_bins();
        if (first_of_warp() < round.items) {
            u32 first = opaque(first_of_warp() + lane_id());
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) {
                u32 position = s.bins[t.bin[i] & 0xffff] + (t.bin[i] >> 16);
                items()[swizzled(position)] = Packing::pack(Bits(t.key[i]), first + i * WARP);
            }
        }
        __syncthreads();
        return true;
    }
    // Counts an item in a bin. Returns the bin, and above it the number of its keys before.
    __device__ __forceinline__ u32 count(u32 bin, bool &is_full) {
        u32 before = atomicAdd(s.bins + bin, 1);
        is_full |= before >= MOST_IN_BIN;
        return bin | before << 16;
    }
    // Gives each bin its first position. A thread has some vectors of its warp's bins.
    __device__ __forceinline__ void scan_bins() {
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
        }
        __syncthreads();
    }

    // ---- slots ----------------------------------------------------------------------------------

    // Sorts the items of each slot.
    __device__ __forceinline__ void sort_each_slot(const Round &round) const {
        u32 own = threadIdx.x * ITEMS;
        if (own >= round.items) return;
        Item item[ITEMS];
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) item[e] = items()[swizzled(own + e)];
        Bitonic<ITEMS, Item>{item}.sort_thread();
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) items()[swizzled(own + e)] = item[e];
    }
    // Whether a segment begins at this thread's slot.
    static __device__ __forceinline__ bool begins_segment(const Round &round) {
        u32 slot = round.begin / ITEMS - warp_id() * WARP; // of this lane's segment
        return warp_or(slot < WARP ? 1u << slot : 0) >> lane_id() & 1;
    }
    // Sorts the items of each segment. None lies far from its position.
    __device__ __forceinline__ void sort_slots(const Round &round) const {
        u32 own = threadIdx.x * ITEMS;
        bool exists = own < round.items, is_first = begins_segment(round);
        sort_each_slot(round);
        // Two sorted halves of slots: those around the slot's begin, then those of the slot.
#pragma unroll 1
        for (u32 middle = own;; middle ^= HALF) {
            __syncthreads();
            bool merges = exists && !(is_first && middle == own) && items()[swizzled(middle)] < items()[swizzled(middle - 1)];
            if (!__syncthreads_or(merges)) break;
            if (!merges) continue;
            Item item[ITEMS];
#pragma unroll
            for (u32 e = 0; e < HALF; e++) {
                item[e] = items()[swizzled(middle - HALF + e)];
                item[HALF + e] = items()[swizzled(middle + HALF - 1 - e)];
            }
            Bitonic<ITEMS, Item>{item}.merge_thread();
#pragma unroll
            for (u32 e = 0; e < ITEMS; e++) items()[swizzled(middle - HALF + e)] = item[e];
        }
    }

    // ---- output ---------------------------------------------------------------------------------

    // Writes the sorted items and their payload.
    __device__ __forceinline__ void write(const Round &round) {
        Bits raw[MASKED ? ITEMS : 1];
        auto source = [&](u32 at) { return Packing::source(items()[swizzled(at)]); };
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
            Bits *out = network.template at_chunk<Bits>(call.keys[IN_OUTPUT]) + walk.delta;
            if (!call.no_keys)
                rows.each([&](u32 i, u32 at, bool is_there) {
                    Bits key = MASKED ? raw[MASKED ? i : 0] : order.from(Packing::key(items()[swizzled(at)]));
                    if (is_there) out[at] = key;
                });
            if constexpr (HAS_VALUES) {
                Value *values_out = network.template at_chunk<Value>(call.values[IN_OUTPUT]) + walk.delta;
                rows.each([&](u32, u32 at, bool is_there) {
                    Value value = s.values[source(at)];
                    if (is_there) values_out[at] = value;
                });
            }
        });
    }
};
