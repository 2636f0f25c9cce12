// Sort by segment: short segments, of more than LEAST and up to MOST items, by blocks.
//
// A block sorts those that begin in its chunk, round by round. Each thread has a slot of ITEMS
// positions in shared memory. A segment takes adjacent slots, and a round has as many adjacent segments
// as there are slots for. The positions behind a segment's last item hold padding, greater than any.
//
// 1. The least and the greatest key of each segment.
// 2. Bins: a segment has as many bins as items. A key goes to one by its share of the segment's span.
//    If many keys share a bin, each bin is divided again, into as many as it has keys
//    (interpolation, as in flashsort: Neubert 1998).
// 3. The counts of the bins give each bin its positions.
// 4. Each thread sorts its slot. Then adjacent slots are merged, in both halves by turns, until no two
//    items are out of order: twice, if no bin has many keys.
// 5. If many keys share a bin even after step 2, no key moves to bins. Sorted runs of slots are merged
//    two by two instead (merge path: Green, McColl and Bader 2012). The cost does not depend on the keys.
#pragma once
#include "segmented_sort/small.cuh"

template <class Order, class Bits, class Value, u32 THREADS, u32 ITEMS, u32 CHUNK, u32 LEAST, bool MASKED>
struct ShortSegments {
    static constexpr u32 MOST = THREADS * ITEMS, HALF = ITEMS / 2;
    static constexpr u32 MOST_IN_BIN = 4 * ITEMS;
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    typedef ItemOf<Bits, HAS_SOURCE> Packing;
    typedef typename Packing::Item Item;
    typedef typename KeyOf<Bits>::Key Key;
    typedef SegmentList<THREADS, CHUNK, LEAST, MOST> List;
    static_assert(MOST <= 1 << 14 && THREADS <= WARP * WARP, "bits of words, and a lane for each warp");

    struct Shared {
        alignas(16) Item items[MOST]; // position p at `swizzled(p)`
        alignas(16) u32 bins[MOST];   // the number of keys; later the first position
        alignas(16) Value values[HAS_VALUES ? MOST : 1];
        Key ends[2][WARP]; // of each segment: the least key, and the greatest with all bits inverted
        u32 of_warp[WARP];
        typename List::Shared list;
    };
    // A segment of a round: its number, its positions, and where these lie in the chunk: `delta` higher.
    struct Walk {
        u32 number, begin, end;
        int delta;
        Place place;
        __device__ u32 next() const { return (end + ITEMS - 1) / ITEMS * ITEMS; } // behind the padding
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
    };
    // This thread's items, WARP apart.
    struct Items {
        Key key[ITEMS];
        u32 bin[ITEMS]; // above it by 16 bits: the number of its keys that came before
    };

    Shared &s;
    const SegmentSortCall &call;
    List list;
    Order order;

    __device__ ShortSegments(Shared &s, const SegmentSortCall &call, const List &list)
        : s(s), call(call), list(list), order{Bits(call.flip)} {}
    __device__ ShortSegments(Shared &s, const SegmentSortCall &call, u64 number)
        : ShortSegments(s, call, List(s.list, call, number)) {}

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (u32 first = 0; first < list.segments;) {
            Round round = find_round(first);
            if (!sort_by_bins<false>(round)) sort_uneven(s, call, list.chunk, list.has_moved, round);
            first += round.segments;
        }
    }

  private:
    // ---- rounds ---------------------------------------------------------------------------------

    static __device__ u32 first_of_warp() { return warp_id() * (ITEMS * WARP); }
    // The round that begins with segment `first` of the list.
    __device__ __forceinline__ Round find_round(u32 first) const {
        Round round;
        u32 packed = list.listed(first), count = ListedSegment::of(packed).count, slots = (count - 1) / ITEMS + 1;
        if (first + lane_id() >= list.segments) slots = THREADS + 1; // does not fit
        u32 end = warp_inclusive_sum(slots);
        bool fits = end <= THREADS;
        round.first = first;
        round.segments = List::uniform(__popc(__ballot_sync(ALL_LANES, fits)));
        round.items = List::uniform(warp_max(fits ? end : 0)) * ITEMS;
        round.begin = fits ? (end - slots) * ITEMS : ~0u;
        round.count = count;
        Walk &walk = round.walk;
        walk.number = List::uniform(__popc(__ballot_sync(ALL_LANES, round.begin <= first_of_warp())) - 1);
        walk.enter(__shfl_sync(ALL_LANES, packed, walk.number), __shfl_sync(ALL_LANES, round.begin, walk.number));
        return round;
    }
    // Calls `use(segment)` by the whole warp for each segment that has positions of the warp.
    template <class Use> __device__ __forceinline__ void each_segment(const Round &round, const Use &use) const {
        u32 end = min(first_of_warp() + ITEMS * WARP, round.items);
        Walk walk = round.walk;
        if (first_of_warp() >= end) return;
#pragma unroll 1
        for (;;) {
            use(walk);
            if (walk.next() >= end) return;
            walk.enter(List::uniform(s.list.segments[round.first + ++walk.number]), walk.next());
        }
    }
    // Calls `f(i, at, is_there)` for this lane's positions in a segment: item i lies at `at`. Padding is
    // not there.
    template <class F> static __device__ __forceinline__ void rows(const Walk &walk, const F &f) {
        u32 first = opaque(first_of_warp() + lane_id()), next = walk.next();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 at = first + i * WARP;
            if (at >= walk.begin && at < next) f(i, at, at < walk.end);
        }
    }
    // The same for all positions of the round, without telling what is there.
    template <class F> static __device__ __forceinline__ void rows(const Round &round, const F &f) {
        u32 first = opaque(first_of_warp() + lane_id());
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (first + i * WARP < round.items) f(i, first + i * WARP);
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
        static_assert(ITEMS <= BANKS, "the items of a slot in as many banks");
        return position ^ (position / BANKS % ITEMS);
    }

    // Loads the keys.
    __device__ __forceinline__ void load(Items &t, const Round &round) const {
        each_segment(round, [&](const Walk &walk) {
            const Bits *keys = array<const Bits>(call.keys_in, call.keys, walk);
            rows(walk, [&](u32 i, u32 at, bool is_there) { t.key[i] = is_there ? keys[at] : Bits(0); });
        });
    }
    // Starts to copy the payload, or makes the source indices.
    __device__ __forceinline__ void load_values(const Round &round) {
        each_segment(round, [&](const Walk &walk) {
            bool has_values = call.values_in != nullptr || (list.has_moved && walk.place != IN_INPUT);
            const Value *values = array<const Value>(call.values_in, call.values, walk);
            u64 index = call.local_indices ? -u64(walk.begin) : list.chunk + walk.delta;
            rows(walk, [&](u32, u32 at, bool is_there) {
                if (!is_there) return;
                if (has_values) copy_item_to_shared(s.values + at, values + at);
                else s.values[at] = Value::index(index + at);
            });
        });
    }
    // Makes the keys comparable, and finds the ends of each segment.
    __device__ __forceinline__ void find_ends(Items &t, const Round &round) {
        each_segment(round, [&](const Walk &walk) {
            Key ends[2] = {~Key(0), ~Key(0)};
            rows(walk, [&](u32 i, u32, bool is_there) {
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
        return is_there ? compared<MASKED>(call, order.to(Bits(t.key[i]))) : Key(Bits(~Bits(0)));
    }

    // ---- bins -----------------------------------------------------------------------------------

    // How the keys of a segment go to bins.
    struct Scale {
        Key least;
        u32 shift, factor;
        // The bin, counted from the segment's first, and below it a fraction.
        __device__ u64 operator()(Key key) const { return u64(u32((key - least) >> shift)) * factor; }
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

    // Sorts a round, unless too many keys share a bin. DIVIDES: bins with many keys are divided first.
    template <bool DIVIDES> __device__ __forceinline__ bool sort_by_bins(const Round &round) {
        {
            Items t;
            load(t, round);
            __syncthreads(); // the round before is written
            if constexpr (HAS_VALUES) load_values(round);
            if (threadIdx.x < 2 * WARP) s.ends[0][threadIdx.x] = ~Key(0);
            clear_bins();
            __syncthreads();
            find_ends(t, round);
            __syncthreads();
            if (!move_to_bins<DIVIDES>(t, round)) return false;
        }
        sort_slots(round);
        write(round);
        return true;
    }
    // Moves the items to the positions of their bins, unless too many keys share one.
    template <bool DIVIDES> __device__ __forceinline__ bool move_to_bins(Items &t, const Round &round) {
        Scale of_lanes = scale(round);
        bool is_full = false;
        each_segment(round, [&](const Walk &walk) {
            Scale scale = of_lanes.of_lane(walk.number);
            rows(walk, [&](u32 i, u32 at, bool is_there) {
                u32 bin = walk.begin + u32(scale(t.key[i]) >> 32);
                t.bin[i] = count(is_there ? bin : at, is_full); // padding has bins of its own
            });
        });
        is_full = __syncthreads_or(is_full);
        if (!DIVIDES && is_full) return false;
        scan_bins();
        if (DIVIDES && is_full && !divide_bins(t, round, of_lanes)) return false;
        rows(round, [&](u32 i, u32 at) {
            u32 position = s.bins[t.bin[i] & 0xffff] + (t.bin[i] >> 16);
            s.items[swizzled(position)] = Packing::pack(Bits(t.key[i]), at);
        });
        __syncthreads();
        return true;
    }
    // Counts an item in a bin. Returns the bin, and above it the number of its keys before.
    __device__ __forceinline__ u32 count(u32 bin, bool &is_full) {
        u32 before = atomicAdd(s.bins + bin, 1);
        is_full |= before >= MOST_IN_BIN;
        return bin | before << 16;
    }
    // Divides each bin into as many as it has keys. Returns whether they are few in each.
    __device__ __forceinline__ bool divide_bins(Items &t, const Round &round, const Scale &of_lanes) {
        each_segment(round, [&](const Walk &walk) {
            Scale scale = of_lanes.of_lane(walk.number);
            rows(walk, [&](u32 i, u32 at, bool is_there) {
                u32 bin = t.bin[i] & 0xffff, begin = s.bins[bin], end = bin + 1 < MOST ? s.bins[bin + 1] : MOST;
                t.bin[i] = is_there ? begin + __umulhi(u32(scale(t.key[i])), end - begin) : at;
            });
        });
        __syncthreads();
        clear_bins();
        __syncthreads();
        bool is_full = false;
        rows(round, [&](u32 i, u32) { t.bin[i] = count(t.bin[i], is_full); });
        is_full = __syncthreads_or(is_full);
        scan_bins();
        return !is_full;
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
        for (u32 e = 0; e < ITEMS; e++) item[e] = s.items[swizzled(own + e)];
        Bitonic<ITEMS, Item>{item}.sort_thread();
#pragma unroll
        for (u32 e = 0; e < ITEMS; e++) s.items[swizzled(own + e)] = item[e];
    }
    // The segment of this thread's slot, of those that exist: its positions, with the padding.
    static __device__ __forceinline__ IndexRange<u32> segment_of_slot(const Round &round) {
        u32 first = warp_id() * WARP, slot = round.begin / ITEMS; // of this lane's segment
        u32 before = __popc(__ballot_sync(ALL_LANES, round.begin != ~0u && slot < first));
        u32 begins = warp_or(slot - first < WARP ? 1u << (slot - first) : 0);
        u32 number = before + __popc(begins & ((2u << lane_id()) - 1)) - 1;
        u32 count = (round.count + ITEMS - 1) / ITEMS * ITEMS;
        return {__shfl_sync(ALL_LANES, round.begin, number), __shfl_sync(ALL_LANES, count, number)};
    }
    // Sorts the items of each segment. None lies far from its position.
    __device__ __forceinline__ void sort_slots(const Round &round) const {
        u32 own = threadIdx.x * ITEMS;
        bool exists = own < round.items, is_first = segment_of_slot(round).first == own;
        sort_each_slot(round);
        // Two sorted halves of slots: those around the slot's begin, then those of the slot.
#pragma unroll 1
        for (u32 middle = own;; middle ^= HALF) {
            __syncthreads();
            bool merges = exists && !(is_first && middle == own) && s.items[swizzled(middle)] < s.items[swizzled(middle - 1)];
            if (!__syncthreads_or(merges)) break;
            if (!merges) continue;
            Item item[ITEMS];
#pragma unroll
            for (u32 e = 0; e < HALF; e++) {
                item[e] = s.items[swizzled(middle - HALF + e)];
                item[HALF + e] = s.items[swizzled(middle + HALF - 1 - e)];
            }
            Bitonic<ITEMS, Item>{item}.merge_thread();
#pragma unroll
            for (u32 e = 0; e < ITEMS; e++) s.items[swizzled(middle - HALF + e)] = item[e];
        }
    }

    // ---- merges ---------------------------------------------------------------------------------

    // Sorts a round with uneven bins. Outlined, so that it takes no registers from the common path.
    static __device__ __noinline__ void sort_uneven(Shared &s, SegmentSortCall call, u64 chunk, bool has_moved, Round round) {
        ShortSegments sort(s, call, List(s.list, call, chunk, has_moved));
        if (!sort.template sort_by_bins<true>(round)) sort.sort_by_merges(round);
    }
    // The payload is in shared memory already.
    __device__ __forceinline__ void sort_by_merges(const Round &round) {
        {
            Items t;
            load(t, round);
            each_segment(round, [&](const Walk &walk) {
                rows(walk, [&](u32 i, u32 at, bool is_there) {
                    s.items[swizzled(at)] = Packing::pack(Bits(comparable(t, i, is_there)), at);
                });
            });
        }
        __syncthreads();
        sort_each_slot(round);
        IndexRange<u32> segment = segment_of_slot(round);
        u32 longest = warp_max(round.begin != ~0u ? round.count : 0);
#pragma unroll 1
        for (u32 run = ITEMS; run < longest; run *= 2) merge(round, segment, run);
        __syncthreads();
        write(round);
    }
    // Merges each two adjacent runs of `run` items of a segment. A thread's slot gets items of a range
    // of either run. The lower range and the upper one reversed are a bitonic sequence, which the
    // thread sorts in registers.
    __device__ __forceinline__ void merge(const Round &round, IndexRange<u32> segment, u32 run) const {
        __syncthreads();
        u32 own = threadIdx.x * ITEMS, before = own - segment.first;
        u32 first = before / (2 * run) * (2 * run), middle = first + run, end = min(middle + run, segment.count);
        bool merges = own < round.items && middle < end;
        auto at = [&](u32 index) { return s.items[swizzled(segment.first + index)]; };
        // Of the pair's first `here` merged items `low` are of the lower run.
        auto lower = [&](u32 here) {
            u32 upper = end - middle, low = here > upper ? here - upper : 0;
            for (u32 high = min(here, run); low < high;) {
                u32 half = (low + high) / 2;
                if (at(middle + here - 1 - half) < at(first + half)) high = half;
                else low = half + 1;
            }
            return low;
        };
        Item item[ITEMS];
        if (merges) {
            u32 here = before - first, low = lower(here), from_lower = lower(here + ITEMS) - low;
#pragma unroll
            for (u32 e = 0; e < ITEMS; e++)
                item[e] = at(e < from_lower ? first + low + e : middle + here - low + (ITEMS - 1 - e));
            Bitonic<ITEMS, Item>{item}.merge_thread();
        }
        __syncthreads();
        if (merges)
#pragma unroll
            for (u32 e = 0; e < ITEMS; e++) s.items[swizzled(own + e)] = item[e];
    }

    // ---- output ---------------------------------------------------------------------------------

    // Writes the sorted items and their payload.
    __device__ __forceinline__ void write(const Round &round) {
        Bits raw[MASKED ? ITEMS : 1];
        auto source = [&](u32 at) { return Packing::source(s.items[swizzled(at)]); };
        if constexpr (MASKED)
            if (!call.no_keys)
                each_segment(round, [&](const Walk &walk) {
                    const Bits *keys = array<const Bits>(call.keys_in, call.keys, walk);
                    rows(walk, [&](u32 i, u32 at, bool is_there) {
                        if (is_there) raw[i] = keys[source(at)];
                    });
                });
        if constexpr (HAS_VALUES) wait_for_copies();
        if (HAS_SOURCE) __syncthreads(); // all is read, as the sort may be in place
        each_segment(round, [&](const Walk &walk) {
            Bits *out = list.template at_chunk<Bits>(call.keys[IN_OUTPUT]) + walk.delta;
            if (!call.no_keys)
                rows(walk, [&](u32 i, u32 at, bool is_there) {
                    if (!is_there) return;
                    if constexpr (MASKED) out[at] = raw[i];
                    else out[at] = order.from(Packing::key(s.items[swizzled(at)]));
                });
            if constexpr (HAS_VALUES) {
                Value *values_out = list.template at_chunk<Value>(call.values[IN_OUTPUT]) + walk.delta;
                rows(walk, [&](u32, u32 at, bool is_there) {
                    if (is_there) values_out[at] = s.values[source(at)];
                });
            }
        });
    }
};
