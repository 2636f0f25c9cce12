// Sort by segment: the short segments. A block sorts those that begin in one chunk.
//
// 1. Each item goes to a bin of its segment, which has as many bins as items. The bin is linear in
//    the key, from the segment's least key to its greatest. So bins are in order, and most have few
//    items (interpolation, as in flashsort: Neubert 1998). Segments of up to COMPARED items need no
//    bins.
// 2. A bin of more than COMPARED items is a segment of the next round. Its keys span at most what
//    those of its segment spanned, divided by the number of items. So a few rounds do.
// 3. An item's position is where its bin begins, plus the number of items of the bin that come
//    before it, found by comparison with each.
#pragma once
#include "segmented_sort/partition.cuh"

__device__ inline u32 warp_min(u32 x) { return ~warp_max(~x); }
__device__ inline u64 warp_min(u64 x) { return ~warp_max(~x); }

// MASKED: keys are compared by some of their bits.
template <class Order, class Bits, class Value, u32 THREADS, u32 CHUNK, u32 SHORT, bool MASKED>
struct ShortSegments {
    // Short segments that begin in the chunk.
    static constexpr u32 ROOM = CHUNK + SHORT, ITEMS = ROOM / THREADS, WORDS = ROOM / WARP, WARPS = THREADS / WARP;
    static constexpr u32 TINY = 16; // items of a segment that a thread sorts
    static constexpr u32 COMPARED = 20; // the most items of a bin
    // Longer segments begin at least SPAN items apart.
    static constexpr u32 SPAN = 16;
    static_assert(COMPARED >= SPAN && WORDS <= THREADS && WORDS % WARP == 0 && CHUNK % (WARP * WARP) == 0 && ROOM < 1 << 16 && ITEMS <= 32, "words of 16 and 32 bits");
    static constexpr u32 NOWHERE = ROOM; // where items go that are not there
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    typedef typename If<sizeof(Bits) <= 4, u32, u64>::Type Wide;

    // The keys of a segment with bins: the least one, and bins for each key from it on.
    struct Span {
        Wide least, greatest; // later, for the greatest key, the bits of the factor
    };
    struct Shared {
        alignas(16) Bits keys[ROOM + WORDS];
        alignas(16) u32 bins[ROOM]; // the number of items of each bin, then where it begins
        u16 source[HAS_SOURCE ? ROOM + 2 : 2]; // where each item lay at first
        alignas(16) Span spans[ROOM / SPAN]; // of a segment: at its begin / SPAN
        u16 lengths[ROOM / SPAN]; // of these segments; 0 where there is none
        u32 heads[WORDS];
        u32 around[WORDS]; // by word: the last head before it and, above by 16 bits, the first one behind it
        u32 moved[2][WORDS];
        u16 last_of_warp[WARPS], first_of_warp[WARPS];
        u32 totals[WARPS];
        u32 first, last, next; // heads, see `load_heads`
    };
    struct Range {
        u32 begin, end;
        __device__ u32 count() const { return end - begin; }
        __device__ u32 packed() const { return begin | end << 16; }
    };

    Shared &s;
    const SegmentSortCall &call;
    Order order;
    u64 chunk; // its first position
    u32 begin, end; // of all segments, in the chunk
    u32 there; // by item of this thread: whether there is one
    u32 own_first, rows_of_warp; // the first item of this thread, and the rows of each warp
    // By item of this thread, two bits: where the keys and payload of the segment at its position lie.
    u32 places;
    bool has_moved; // whether any of these segments has

    __device__ ShortSegments(Shared &s, const SegmentSortCall &call)
        : s(s), call(call), order{Bits(call.flip)}, chunk(u64(blockIdx.x) * CHUNK), places(0) {}

    __device__ void run() {
        if (!load_heads()) return;
        has_moved = call.may_be_long && find_places();
        Items items;
        const Bits *in = (const Bits *)call.keys_in + chunk + own_first;
        if (has_moved)
            rows([&](u32 i) {
                if (is_there(i)) items.key[i] = (keys_of(place(i)) + chunk + own_first)[i * WARP];
            });
        else
            rows([&](u32 i) {
                if (is_there(i)) items.key[i] = in[i * WARP];
            });
        bool longer = false;
        rows([&](u32 i) {
            bool there = is_there(i);
            items.key[i] = order.to(items.key[i]);
            if (HAS_SOURCE) items.source[HAS_SOURCE ? i : 0] = at(i);
            items.range[i] = there ? segment_of(at(i)).packed() : 0;
            items.where[i] = there ? at(i) : NOWHERE;
            longer |= range(items, i).count() > TINY;
        });
        if (__syncthreads_or(longer)) {
            bool more = false;
            rows([&](u32 i) {
                store(items, i);
                more |= range(items, i).count() > COMPARED;
            });
            for (bool is_first = true; __syncthreads_or(more); is_first = false) {
                if (!is_first) load_next(items);
                more = to_bins(items);
            }
            sort_by_comparisons(items);
            write_keys([&](u32 i) { return s.keys[at(i)]; });
        } else {
            rows([&](u32 i) {
                if (is_there(i)) s.keys[padded(at(i))] = items.key[i];
            });
            sort_by_networks();
            write_keys([&](u32 i) { return s.keys[padded(HAS_SOURCE ? s.source[at(i)] : at(i))]; });
        }
        if constexpr (HAS_VALUES) write_values();
    }

  private:
    // Items of this thread. A warp's lie in adjacent rows.
    struct Items {
        Bits key[ITEMS];
        u32 range[ITEMS]; // the segment of the item, then its bin
        u32 where[ITEMS]; // the item's bin, then its index
        u32 source[HAS_SOURCE ? ITEMS : 1];
    };
    __device__ u32 at(u32 i) const { return own_first + i * WARP; }
    __device__ bool is_there(u32 i) const { return there >> i & 1; }
    static __device__ Range range(const Items &items, u32 i) { return {items.range[i] & 0xffff, items.range[i] >> 16}; }
    // Calls `f(i)` by all lanes for each row that may have items.
    template <class F> __device__ void rows(const F &f) const {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (i >= rows_of_warp) break;
            f(i);
        }
    }
    __device__ Bits compared(Bits key) const {
        if (!MASKED) return key;
        return Bits(key >> call.begin) & Bits((1ull << (call.end - call.begin)) - 1);
    }
    __device__ u32 place(u32 i) const { return has_moved ? places >> 2 * i & 3 : u32(IN_INPUT); }
    __device__ const Bits *keys_of(u32 place) const {
        return (const Bits *)(place == IN_INPUT ? call.keys_in : call.keys[place]);
    }
    __device__ const Value *values_of(u32 place) const {
        return (const Value *)(place == IN_INPUT ? call.values_in : call.values[place]);
    }
    __device__ void store(const Items &items, u32 i) const {
        s.keys[items.where[i]] = items.key[i];
        if (HAS_SOURCE) s.source[items.where[i]] = u16(items.source[HAS_SOURCE ? i : 0]);
    }

    template <class KeyOf> __device__ void write_keys(const KeyOf &key_of) {
        if (call.no_keys) return;
        Bits *out = (Bits *)call.keys[IN_OUTPUT] + chunk + own_first;
        rows([&](u32 i) {
            if (is_there(i)) out[i * WARP] = order.from(key_of(i));
        });
    }

    // A key and, below it, a tie-break: its source, or where it lies.
    struct LongRank {
        u64 key;
        u32 tie;
        __device__ bool operator<(const LongRank &other) const { return key < other.key || (key == other.key && tie < other.tie); }
    };
    typedef typename If<sizeof(Bits) <= 4, u64, LongRank>::Type Rank;
    __device__ Rank rank(Bits key, u32 tie) const {
        if constexpr (sizeof(Bits) <= 4) return u64(compared(key)) << 32 | tie;
        else return {compared(key), tie};
    }

    // Sorts each range by comparing its items with one another. All items are in shared memory.
    __device__ __forceinline__ void sort_by_comparisons(Items &items) {
        rows([&](u32 i) {
            Range own = range(items, i);
            Rank self = rank(items.key[i], HAS_SOURCE ? items.source[HAS_SOURCE ? i : 0] : items.where[i]);
            u32 to = own.begin;
#pragma unroll 1
            for (u32 j = own.begin; j < own.end; j++) to += rank(s.keys[j], HAS_SOURCE ? s.source[j] : j) < self;
            if (is_there(i)) items.where[i] = to;
        });
        __syncthreads();
        rows([&](u32 i) { store(items, i); });
        __syncthreads();
    }

    // ---- heads ----------------------------------------------------------------------------------

    // Loads the heads of the short segments that begin in the chunk, and their end. Returns whether
    // there are any. The first warps load, a word a thread.
    __device__ bool load_heads() {
        u32 w = threadIdx.x, own = 0;
        if (w == 0) {
            s.first = s.next = ROOM;
            s.last = 0;
        }
        __syncthreads();
        if (w < WORDS) {
            u64 first_word = chunk / WARP, words = (call.n / CHUNK + 1) * (CHUNK / WARP);
            if (first_word + w < words) own = call.heads[first_word + w];
            u32 least = warp_min(own == 0 ? ROOM : w * WARP + __ffs(own) - 1), most = warp_max(own == 0 ? 0 : w * WARP + WARP - 1 - __clz(own));
            if (lane_id() == 0 && least < ROOM) {
                bool in_chunk = w < CHUNK / WARP;
                atomicMin(in_chunk ? &s.first : &s.next, least);
                if (in_chunk) atomicMax(&s.last, most);
            }
        }
        __syncthreads();
        begin = s.first;
        if (begin >= CHUNK) return false;
        // The last segment is not sorted here if it is long. Item n begins one of no items.
        end = s.next - s.last <= SHORT && chunk + s.last < call.n && s.next < ROOM ? s.next : s.last;
        if (begin == end) return false;
        rows_of_warp = (end + THREADS - 1) / THREADS;
        own_first = warp_id() * rows_of_warp * WARP + lane_id();
        there = 0;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) there |= u32(i < rows_of_warp && at(i) - begin < end - begin) << i;
        if (w * WARP > end) own = 0;
        else if (end - w * WARP < WARP - 1) own &= (2u << (end - w * WARP)) - 1;
        index_heads(own);
        return true;
    }

    // Stores the words of heads, and the heads around each. `own`: the word of this thread, if it has
    // one. Called by the whole block.
    __device__ void index_heads(u32 own) {
        u32 w = threadIdx.x, first = w * WARP + __ffs(own) - 1, last = w * WARP + WARP - 1 - __clz(own), lanes = 0;
        if (w < WORDS) {
            lanes = __ballot_sync(ALL_LANES, own != 0);
            s.heads[w] = own;
            if (lanes == 0) {
                if (lane_id() == 0) s.first_of_warp[warp_id()] = s.last_of_warp[warp_id()] = u16(ROOM);
            } else {
                if (lane_id() == __ffs(lanes) - 1) s.first_of_warp[warp_id()] = u16(first);
                if (lane_id() == WARP - 1 - __clz(lanes)) s.last_of_warp[warp_id()] = u16(last);
            }
        }
        __syncthreads();
        if (w < WORDS) {
            u32 below = lanes & ((1u << lane_id()) - 1), above = lanes & ~((2u << lane_id()) - 1);
            u32 before = __shfl_sync(ALL_LANES, last, WARP - 1 - __clz(below)), after = __shfl_sync(ALL_LANES, first, __ffs(above) - 1);
            if (below == 0) {
                before = 0;
                for (u32 k = 0; k < warp_id(); k++)
                    if (s.last_of_warp[k] < ROOM) before = s.last_of_warp[k];
            }
            if (above == 0) {
                after = end;
                for (u32 k = WORDS / WARP - 1; k > warp_id(); k--)
                    if (s.first_of_warp[k] < ROOM) after = s.first_of_warp[k];
            }
            s.around[w] = before | after << 16;
        }
        __syncthreads();
    }

    // The segment of the item at an index.
    __device__ Range segment_of(u32 index) const {
        u32 w = index / WARP, word = s.heads[w], around = s.around[w], up_to = (2u << index % WARP) - 1;
        u32 before = word & up_to, behind = word & ~up_to;
        u32 head = w * WARP + (WARP - 1 - __clz(before)), next = w * WARP + (__ffs(behind) - 1);
        return {before == 0 ? around & 0xffff : head, behind == 0 ? around >> 16 : next};
    }

    // Finds where the items of this thread lie: partitioned segments have moved. Returns whether any
    // segment has.
    __device__ bool find_places() {
        u32 w = threadIdx.x;
        u64 first_word = chunk / WARP, words = (call.n / CHUNK + 1) * (CHUNK / WARP);
        bool moved = false;
        if (w < WORDS)
#pragma unroll
            for (u32 k = 0; k < 2; k++) {
                u32 word = first_word + w < words ? call.moved[k][first_word + w] : 0;
                s.moved[k][w] = word;
                moved |= word != 0;
            }
        if (!__syncthreads_or(moved)) return false;
        rows([&](u32 i) {
            if (!is_there(i)) return;
            u32 head = segment_of(at(i)).begin;
            u32 place = IN_INPUT;
#pragma unroll
            for (u32 k = 0; k < 2; k++)
                if (s.moved[k][head / WARP] >> head % WARP & 1) place = k;
            places |= place << 2 * i;
        });
        return true;
    }

    // ---- tiny segments --------------------------------------------------------------------------

    // One item is left out after every 32, so that threads whose segments lie a power of two apart
    // use different banks.
    static __device__ u32 padded(u32 index) { return index + index / WARP; }

    // Sorts segments of up to TINY items, each by one thread. Keys lie at their padded indices. With
    // sources the keys stay there, and only the sources are sorted.
    __device__ void sort_by_networks() {
        u16 *begins = (u16 *)s.bins;
        u32 word = threadIdx.x < WORDS ? s.heads[threadIdx.x] : 0;
        if (threadIdx.x == end / WARP) word &= ~(1u << end % WARP);
        u32 next = block_exclusive_sum<THREADS>(__popc(word), s.totals);
        for (; word != 0; word &= word - 1) begins[next++] = u16(threadIdx.x * WARP + __ffs(word) - 1);
        if (threadIdx.x == THREADS - 1) s.last = next;
        __syncthreads();
        for (u32 k = threadIdx.x; k < s.last; k += THREADS) {
            Range segment{begins[k], k + 1 < s.last ? begins[k + 1] : end};
            if (segment.count() <= TINY / 2) sort_by_network<TINY / 2>(segment);
            else sort_by_network<TINY>(segment);
        }
        __syncthreads();
    }
    template <u32 N> __device__ void sort_by_network(Range segment) {
        typedef typename If<HAS_SOURCE, Rank, Bits>::Type Item;
        Item item[N];
#pragma unroll
        for (u32 j = 0; j < N; j++) {
            u32 index = segment.begin + j;
            bool is_there = index < segment.end;
            Bits key = is_there ? s.keys[padded(index)] : Bits(~Bits(0));
            if constexpr (HAS_SOURCE) item[j] = rank(key, is_there ? index : ~0u);
            else item[j] = key;
        }
        // Batcher's odd-even merge sort (1968).
#pragma unroll
        for (u32 run = 1; run < N; run *= 2)
#pragma unroll
            for (u32 distance = run; distance > 0; distance /= 2)
#pragma unroll
                for (u32 first = distance % run; first + distance < N; first += 2 * distance)
#pragma unroll
                    for (u32 j = first; j < first + distance; j++)
                        if (j + distance < N && j / (2 * run) == (j + distance) / (2 * run)) compare_exchange(item[j], item[j + distance]);
#pragma unroll
        for (u32 j = 0; j < N; j++) {
            u32 index = segment.begin + j;
            if (index >= segment.end) continue;
            if constexpr (HAS_SOURCE) s.source[index] = u16(tie_of(item[j]));
            else s.keys[padded(index)] = item[j];
        }
    }
    template <class Item> static __device__ void compare_exchange(Item &a, Item &b) {
        bool swapped = b < a;
        Item low = swapped ? b : a;
        b = swapped ? a : b;
        a = low;
    }
    static __device__ u32 tie_of(u64 rank) { return u32(rank); }
    static __device__ u32 tie_of(const LongRank &rank) { return rank.tie; }

    // ---- bins -----------------------------------------------------------------------------------

    // A round: moves each item to its bin. Returns whether one of this thread's is in a bin with too
    // many items. Called by the whole block.
    __device__ __forceinline__ bool to_bins(Items &items) {
        for (u32 v = threadIdx.x; v < ROOM * sizeof(u32) / sizeof(Vector); v += THREADS) ((Vector *)s.bins)[v] = Vector{{0, 0, 0, 0}};
        if (threadIdx.x < ROOM / SPAN) s.lengths[threadIdx.x] = 0;
        __syncthreads();
        u32 wants = 0; // by item: whether its segment has bins
        rows([&](u32 i) {
            Range segment = range(items, i);
            bool has_bins = segment.count() > COMPARED;
            wants |= u32(has_bins) << i;
            if (has_bins && at(i) == segment.begin) {
                s.spans[at(i) / SPAN] = {~Wide(0), 0};
                s.lengths[at(i) / SPAN] = u16(segment.count());
            }
        });
        __syncthreads();
        add_to_spans(items, wants, [&](u32 i) { return Wide(compared(items.key[i])); });
        __syncthreads();
        u32 alike = 0; // by item: whether all keys of its segment are equal
        if constexpr (HAS_SOURCE) {
            rows([&](u32 i) {
                if (wants >> i & 1) alike |= u32(is_alike(range(items, i))) << i;
            });
            // Equal keys are in the order of their sources.
            if (__syncthreads_or(alike)) {
                rows([&](u32 i) {
                    if (alike >> i & 1 && at(i) == range(items, i).begin) s.spans[at(i) / SPAN] = {~Wide(0), 0};
                });
                __syncthreads();
                add_to_spans(items, alike, [&](u32 i) { return Wide(items.source[HAS_SOURCE ? i : 0]); });
                __syncthreads();
            }
        }
        if (threadIdx.x < ROOM / SPAN) {
            Span &span = s.spans[threadIdx.x];
            u32 length = s.lengths[threadIdx.x];
            if (length > 0) {
                Wide offset = span.greatest - span.least;
                // Equal keys whose order cannot be observed are sorted, see below.
                float factor = offset == 0 ? -1 : __fdividef(float(length), float(offset) + 1.0f);
                span.greatest = __float_as_uint(factor);
            }
        }
        __syncthreads();
        rows([&](u32 i) {
            Range segment = range(items, i);
            u32 bin = segment.begin;
            if (wants >> i & 1) {
                const Span span = s.spans[bin / SPAN];
                Wide value = HAS_SOURCE && alike >> i & 1 ? Wide(items.source[HAS_SOURCE ? i : 0]) : Wide(compared(items.key[i]));
                float factor = __uint_as_float(u32(span.greatest));
                if (factor < 0) bin = at(i); // a bin for each
                else bin += min(u32(float(value - span.least) * factor), segment.count() - 1);
                items.where[i] = bin | atomicAdd(s.bins + bin, 1) << 16;
            } else {
                // All items in one bin, which the first one counts.
                if (at(i) == bin && segment.count() > 0) s.bins[bin] = segment.count();
                items.where[i] = bin | (at(i) - bin) << 16;
            }
        });
        __syncthreads();
        place_bins();
        bool more = false;
        rows([&](u32 i) {
            bool there = is_there(i);
            u32 bin = items.where[i] & 0xffff;
            Range range{s.bins[bin], s.bins[bin + 1]}; // bin `end` has no items, and begins at `end`
            items.range[i] = there ? range.packed() : 0;
            more |= there && range.count() > COMPARED;
            items.where[i] = there ? range.begin + (items.where[i] >> 16) : NOWHERE;
            store(items, i);
        });
        return more;
    }

    __device__ bool is_alike(Range segment) const {
        const Span &span = s.spans[segment.begin / SPAN];
        return span.least == span.greatest;
    }

    // Adds values to the spans of the segments of the items that are in `wants`.
    template <class ValueOf> __device__ __forceinline__ void add_to_spans(const Items &items, u32 wants, const ValueOf &value_of) {
        u32 own = NO_SEGMENT; // the segment of the rows before, if they have one
        Wide least = 0, greatest = 0;
        auto flush = [&] {
            if (own != NO_SEGMENT) add_to_span(true, own, least, greatest);
            own = NO_SEGMENT;
        };
        rows([&](u32 i) {
            u32 segment = wants >> i & 1 ? items.range[i] & 0xffff : NO_SEGMENT;
            Wide value = wants >> i & 1 ? value_of(i) : Wide(0);
            if (all_same(segment)) {
                if (segment != own) {
                    flush();
                    own = segment;
                    least = greatest = value;
                }
                least = min(least, value);
                greatest = max(greatest, value);
                return;
            }
            flush();
            for (u32 left = __ballot_sync(ALL_LANES, segment != NO_SEGMENT); left != 0;) {
                u32 one = __shfl_sync(ALL_LANES, segment, __ffs(left) - 1);
                add_to_span(segment == one, one, value, value);
                left &= ~__ballot_sync(ALL_LANES, segment == one);
            }
        });
        flush();
    }
    static constexpr u32 NO_SEGMENT = ~0u;
    // Adds values of the lanes that are `mine` to a segment's span. Called by all lanes.
    __device__ void add_to_span(bool mine, u32 segment, Wide least, Wide greatest) {
        least = warp_min(mine ? least : ~Wide(0));
        greatest = warp_max(mine ? greatest : Wide(0));
        if (lane_id() == 0) {
            atomicMin(&s.spans[segment / SPAN].least, least);
            atomicMax(&s.spans[segment / SPAN].greatest, greatest);
        }
    }

    // Turns the bins' counts into their begins.
    __device__ void place_bins() {
        constexpr u32 EACH = ROOM / THREADS, IN_VECTOR = sizeof(Vector) / sizeof(u32);
        static_assert(EACH % IN_VECTOR == 0, "whole vectors");
        u32 bin[EACH], sum = 0;
        Vector *own = (Vector *)s.bins + threadIdx.x * (EACH / IN_VECTOR);
#pragma unroll
        for (u32 v = 0; v < EACH / IN_VECTOR; v++) memcpy(bin + v * IN_VECTOR, own + v, sizeof(Vector));
#pragma unroll
        for (u32 e = 0; e < EACH; e++) sum += bin[e];
        u32 next = begin + block_exclusive_sum<THREADS>(sum, s.totals);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 items = bin[e];
            bin[e] = next;
            next += items;
        }
#pragma unroll
        for (u32 v = 0; v < EACH / IN_VECTOR; v++) memcpy(own + v, bin + v * IN_VECTOR, sizeof(Vector));
        __syncthreads();
    }

    // Makes segments of the bins, and loads the items at their new indices.
    __device__ __forceinline__ void load_next(Items &items) {
        if (threadIdx.x < WORDS) s.heads[threadIdx.x] = 0;
        __syncthreads();
        rows([&](u32 i) {
            u32 head = range(items, i).begin;
            if (is_there(i) && items.where[i] == head) atomicOr(s.heads + head / WARP, 1u << head % WARP);
        });
        __syncthreads();
        index_heads(threadIdx.x < WORDS ? s.heads[threadIdx.x] : 0);
        rows([&](u32 i) {
            if (!is_there(i)) return;
            items.key[i] = s.keys[at(i)];
            if (HAS_SOURCE) items.source[HAS_SOURCE ? i : 0] = s.source[at(i)];
            items.range[i] = segment_of(at(i)).packed();
        });
    }

    // ---- payload --------------------------------------------------------------------------------

    __device__ void write_values() {
        bool is_local = call.local_indices && call.values_in == nullptr;
        if (is_local) load_heads(); // as they were before the rounds
        Value value[ITEMS];
        rows([&](u32 i) {
            if (!is_there(i)) return;
            const Value *values = values_of(place(i));
            u32 from = s.source[at(i)];
            if (values) value[i] = values[chunk + from];
            else value[i] = Value::index(is_local ? u64(from - segment_of(at(i)).begin) : chunk + from);
        });
        __syncthreads(); // all are read, as the payload may be in place
        Value *out = (Value *)call.values[IN_OUTPUT] + chunk;
        rows([&](u32 i) {
            if (is_there(i)) out[at(i)] = value[i];
        });
    }
};
