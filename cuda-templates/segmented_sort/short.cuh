// Sort by segment: the segments of up to SHORT items. A group of threads, a warp or a block, sorts
// those of more than LEAST items that begin in its chunk of adjacent items.
//
// 1. Each item goes to a bin of its segment, which has as many bins as items. The bin is linear in
//    the key, from the segment's least key to its greatest. So bins are in order, and most have few
//    items (interpolation, as in flashsort: Neubert 1998). Segments of up to COMPARED items need no
//    bins.
// 2. A bin of more than COMPARED items is a segment of the next round. Its keys span at most what
//    those of its segment spanned, divided by the number of items. So a few rounds do.
// 3. An item's position is where its bin begins, plus the number of items of the bin that come
//    before it, found by comparison with each.
//
// If all segments of the chunk have up to TINY items, each is sorted by one thread instead, by a
// sorting network.
#pragma once
#include "segmented_sort/partition.cuh"

// A warp, or a block of several. Its threads call each function together.
template <u32 THREADS_> struct Group {
    static constexpr u32 THREADS = THREADS_, WARPS = THREADS / WARP;
    static __device__ u32 thread() { return WARPS == 1 ? lane_id() : threadIdx.x; }
    static __device__ u32 warp() { return WARPS == 1 ? 0 : warp_id(); }
    static __device__ void barrier() {
        if (WARPS == 1) __syncwarp();
        else __syncthreads();
    }
    static __device__ bool any(bool x) { return WARPS == 1 ? __any_sync(ALL_LANES, x) : __syncthreads_or(x); }
    static __device__ u32 exclusive_sum(u32 x, u32 *totals) {
        if constexpr (WARPS == 1) return warp_inclusive_sum(x) - x;
        else return block_exclusive_sum<THREADS>(x, totals);
    }
};

// MASKED: keys are compared by some of their bits.
template <class Order, class Bits, class Value, class Group, u32 CHUNK, u32 LEAST, u32 SHORT, bool MASKED>
struct ShortSegments {
    static constexpr u32 THREADS = Group::THREADS, WARPS = Group::WARPS, ROOM = CHUNK + SHORT, ITEMS = ROOM / THREADS,
                         WORDS = ROOM / WARP;
    static constexpr u32 COMPARED = 20; // the most items of a bin
    // Longer segments begin at least SPAN items apart.
    static constexpr u32 SPAN = 16, SPANS = ROOM / SPAN;
    static_assert(SHORT >= CHUNK, "only the last segment of a chunk may be longer");
    static_assert(COMPARED >= SPAN && WORDS <= THREADS && SPANS <= THREADS && CHUNK % WARP == 0 && ROOM < 1 << 16 && ITEMS <= 32,
                  "words of 16 and 32 bits");
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Whether the order of equal keys can be observed.
    static constexpr bool HAS_SOURCE = HAS_VALUES || MASKED;
    // Items of a segment that one thread sorts. More would not fit its registers.
    static constexpr u32 TINY = HAS_SOURCE ? 8 : 16;
    static constexpr u32 NO_SEGMENT = ROOM;
    typedef typename If<sizeof(Bits) <= 4, u32, u64>::Type Wide;

    // The keys of a segment with bins.
    struct Span {
        Wide least, greatest; // later, for the greatest key, the bits of the factor
    };
    struct Shared {
        alignas(16) Bits keys[ROOM + WORDS];
        alignas(16) u32 bins[ROOM]; // the number of items of each bin, then where it begins
        u16 source[HAS_SOURCE ? ROOM : 2]; // where each item lay at first
        alignas(16) Span spans[SPANS]; // of a segment: at its begin / SPAN
        u16 lengths[SPANS]; // of these segments; 0 where there is none
        u32 heads[WORDS];
        u32 around[WORDS]; // by word: the last head before it and, above by 16 bits, the first one behind it
        u32 moved[2][WORDS];
        u32 totals[WARPS], first_of_warp[WARPS], last_of_warp[WARPS];
    };
    struct Range {
        u32 begin, end;
        __device__ u32 count() const { return end - begin; }
    };
    // Items of a thread. A warp's lie in adjacent rows.
    struct Items {
        Bits key[ITEMS];
        // First the segment, as begin and end; then the bin and the number of items that were there
        // before; then the index and, with sources, the source. The second above by 16 bits.
        u32 note[ITEMS];
    };

    Shared &s;
    const SegmentSortCall &call;
    Order order;
    u64 chunk; // its first item
    u32 end; // of all segments, in the chunk
    u32 there; // by item of this thread: whether it is in a segment to be sorted
    u32 own_first, rows_of_warp; // the first item of this thread, and the rows of each warp
    // By item of this thread, two bits: where the keys and payload of the segment at its position lie.
    u32 places;
    bool has_moved; // whether any of these segments has

    __device__ ShortSegments(Shared &s, const SegmentSortCall &call, u64 number)
        : s(s), call(call), order{Bits(call.flip)}, chunk(number * CHUNK), places(0) {}

    __device__ __forceinline__ void run() {
        if (!load_heads()) return;
        Items items;
        u32 longest = 0;
        there = 0;
        rows([&](u32 i) {
            Range segment = segment_of(at(i));
            bool is_there = segment.begin < CHUNK && segment.count() - 1 - LEAST < SHORT - LEAST;
            there |= u32(is_there) << i;
            items.note[i] = is_there ? segment.begin | segment.end << 16 : 0;
            longest = max(longest, is_there ? segment.count() : 0);
        });
        if (!Group::any(longest > 0)) return;
        has_moved = call.may_be_long && find_places(items);
        load_keys(items);
        bool use_networks = false;
        if constexpr (LEAST < TINY) use_networks = !Group::any(longest > TINY);
        if (use_networks) {
            if constexpr (LEAST < TINY) {
                rows([&](u32 i) {
                    if (is_there(i)) s.keys[padded(at(i))] = items.key[i];
                });
                sort_by_networks();
                write_keys([&](u32 i) { return s.keys[padded(HAS_SOURCE ? s.source[at(i)] : at(i))]; });
            }
        } else {
            bool more = longest > COMPARED, has_bins = false;
            rows([&](u32 i) {
                if (is_there(i)) store(items, i, at(i), at(i));
            });
            for (; Group::any(more); has_bins = true) {
                if (has_bins) load_next(items);
                more = to_bins(items);
            }
            Group::barrier();
            sort_by_comparisons(items, has_bins);
            write_keys([&](u32 i) { return s.keys[at(i)]; });
        }
        if constexpr (HAS_VALUES) write_values();
    }

  private:
    __device__ u32 at(u32 i) const { return own_first + i * WARP; }
    __device__ bool is_there(u32 i) const { return there >> i & 1; }
    static __device__ u32 low(u32 note) { return note & 0xffff; }
    static __device__ u32 high(u32 note) { return note >> 16; }
    static __device__ u32 length(u32 note) { return high(note) - low(note); } // of a segment
    // Calls `f(i)` by all lanes for each row that may have items.
    template <class F> __device__ __forceinline__ void rows(const F &f) const {
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

    __device__ __forceinline__ void load_keys(Items &items) {
        const Bits *in = (const Bits *)call.keys_in + chunk + own_first;
        if (has_moved)
            rows([&](u32 i) {
                if (is_there(i)) items.key[i] = (keys_of(place(i)) + chunk + own_first)[i * WARP];
            });
        else
            rows([&](u32 i) {
                if (is_there(i)) items.key[i] = in[i * WARP];
            });
        rows([&](u32 i) { items.key[i] = order.to(items.key[i]); });
    }
    template <class KeyOf> __device__ __forceinline__ void write_keys(const KeyOf &key_of) {
        if (call.no_keys) return;
        Bits *out = (Bits *)call.keys[IN_OUTPUT] + chunk + own_first;
        rows([&](u32 i) {
            if (is_there(i)) out[i * WARP] = order.from(key_of(i));
        });
    }

    __device__ void store(const Items &items, u32 i, u32 to, u32 source) {
        s.keys[to] = items.key[i];
        if (HAS_SOURCE) s.source[to] = u16(source);
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

    // Sorts each bin, or each segment if there are no bins, by comparing its items with one another.
    __device__ __forceinline__ void sort_by_comparisons(Items &items, bool has_bins) {
        rows([&](u32 i) {
            u32 note = items.note[i], begin = low(note), stop = high(note), own = at(i);
            if (has_bins) {
                own = s.bins[begin] + stop;
                stop = s.bins[begin + 1]; // bin `end` has no items, and begins at `end`
                begin = s.bins[begin];
            }
            if (!is_there(i)) own = begin = stop = 0;
            u32 source = HAS_SOURCE ? s.source[own] : own, to = begin;
            Rank self = rank(items.key[i], source);
#pragma unroll 1
            for (u32 j = begin; j < stop; j++) to += rank(s.keys[j], HAS_SOURCE ? s.source[j] : j) < self;
            items.note[i] = to | source << 16;
        });
        Group::barrier();
        rows([&](u32 i) {
            if (is_there(i)) store(items, i, low(items.note[i]), high(items.note[i]));
        });
        Group::barrier();
    }

    static __device__ u64 head_words(u64 n) { return n / WARP + 1; }

    // ---- heads ----------------------------------------------------------------------------------

    // Loads the heads around the chunk. Returns whether a segment begins in it.
    __device__ __forceinline__ bool load_heads() {
        u32 w = Group::thread(), own = 0;
        u64 first_word = chunk / WARP, words = head_words(call.n);
        if (w < WORDS && first_word + w < words) own = call.heads[first_word + w];
        index_heads(own);
        u32 around = s.around[CHUNK / WARP], last = low(around); // of the chunk
        if (last == NO_HEADS) return false;
        u32 next = s.heads[CHUNK / WARP] != 0 ? CHUNK + __ffs(s.heads[CHUNK / WARP]) - 1 : high(around);
        end = next - last <= SHORT ? next : last;
        rows_of_warp = (end + THREADS - 1) / THREADS;
        own_first = Group::warp() * rows_of_warp * WARP + lane_id();
        return true;
    }

    // Stores the words of heads, and the heads around each. `own`: the word of this thread, if it has
    // one.
    __device__ __forceinline__ void index_heads(u32 own) {
        constexpr u32 LOADING = (WORDS + WARP - 1) / WARP; // warps that have words
        u32 w = Group::thread(), first = w * WARP + __ffs(own) - 1, last = w * WARP + WARP - 1 - __clz(own), lanes = 0;
        if (Group::warp() < LOADING) {
            lanes = __ballot_sync(ALL_LANES, own != 0);
            if (w < WORDS) s.heads[w] = own;
            if (LOADING > 1) {
                u32 firsts = __shfl_sync(ALL_LANES, first, __ffs(lanes) - 1), lasts = __shfl_sync(ALL_LANES, last, WARP - 1 - __clz(lanes));
                if (lane_id() == 0) {
                    s.first_of_warp[Group::warp()] = lanes == 0 ? ROOM : firsts;
                    s.last_of_warp[Group::warp()] = lanes == 0 ? NO_HEADS : lasts;
                }
            }
        }
        if (LOADING > 1) Group::barrier();
        if (Group::warp() < LOADING) {
            u32 below = lanes & ((1u << lane_id()) - 1), above = lanes & ~((2u << lane_id()) - 1);
            u32 before = __shfl_sync(ALL_LANES, last, WARP - 1 - __clz(below)), after = __shfl_sync(ALL_LANES, first, __ffs(above) - 1);
            if (below == 0) {
                before = NO_HEADS;
                for (u32 k = 0; k < Group::warp(); k++)
                    if (s.last_of_warp[k] != NO_HEADS) before = s.last_of_warp[k];
            }
            if (above == 0) {
                after = ROOM;
                for (u32 k = LOADING - 1; k > Group::warp(); k--)
                    if (s.first_of_warp[k] != ROOM) after = s.first_of_warp[k];
            }
            if (w < WORDS) s.around[w] = before | after << 16;
        }
        Group::barrier();
    }

    // The segment of the item at an index. Before the first head it begins at NO_HEADS.
    __device__ Range segment_of(u32 index) const {
        u32 w = index / WARP, word = s.heads[w], around = s.around[w], up_to = (2u << lane_id()) - 1;
        u32 before = word & up_to, behind = word & ~up_to;
        u32 head = w * WARP + (WARP - 1 - __clz(before)), next = w * WARP + (__ffs(behind) - 1);
        return {before == 0 ? low(around) : head, behind == 0 ? high(around) : next};
    }

    // Finds where the items of this thread lie: partitioned segments have moved. Returns whether any
    // segment of the chunk has.
    __device__ __forceinline__ bool find_places(const Items &items) {
        u32 w = Group::thread();
        u64 first_word = chunk / WARP, words = head_words(call.n);
        bool moved = false;
        if (w < WORDS)
#pragma unroll
            for (u32 k = 0; k < 2; k++) {
                u32 word = first_word + w < words ? call.moved[k][first_word + w] : 0;
                s.moved[k][w] = word;
                moved |= word != 0;
            }
        if (!Group::any(moved)) return false;
        Group::barrier();
        rows([&](u32 i) {
            u32 head = low(items.note[i]), place = IN_INPUT;
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

    // Sorts the segments of up to TINY items, each by one thread. Keys lie at their padded indices.
    // With sources the keys stay there, and only the sources are sorted.
    __device__ __forceinline__ void sort_by_networks() {
        static_assert(WARPS == 1, "a lane a word of heads");
        u16 *begins = (u16 *)s.bins;
        u32 w = lane_id(), word = w < WORDS ? s.heads[w] : 0;
        if (w > end / WARP) word = 0;
        else if (w == end / WARP) word &= (1u << end % WARP) - 1;
        u32 next = Group::exclusive_sum(__popc(word), s.totals), count = __shfl_sync(ALL_LANES, next + __popc(word), WARP - 1);
        for (; word != 0; word &= word - 1) begins[next++] = u16(w * WARP + __ffs(word) - 1);
        Group::barrier();
        for (u32 k = lane_id(); k < count; k += WARP) {
            Range segment{begins[k], k + 1 < count ? begins[k + 1] : end};
            if (segment.count() <= 8) sort_by_network<8>(segment);
            else if (segment.count() <= TINY) sort_by_network<TINY>(segment);
        }
        Group::barrier();
    }
    template <u32 N> __device__ __forceinline__ void sort_by_network(Range segment) {
        typedef typename If<HAS_SOURCE, Rank, Bits>::Type Item;
        Item item[N];
#pragma unroll
        for (u32 j = 0; j < N; j++) {
            u32 index = segment.begin + j;
            bool exists = index < segment.end;
            Bits key = exists ? s.keys[padded(index)] : Bits(~Bits(0));
            if constexpr (HAS_SOURCE) item[j] = rank(key, exists ? index : ~0u);
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
    // many items.
    __device__ __forceinline__ bool to_bins(Items &items) {
        for (u32 v = Group::thread(); v < ROOM * sizeof(u32) / sizeof(Vector); v += THREADS) ((Vector *)s.bins)[v] = Vector{{0, 0, 0, 0}};
        if (Group::thread() < SPANS) s.lengths[Group::thread()] = 0;
        Group::barrier();
        rows([&](u32 i) {
            u32 note = items.note[i];
            if (length(note) > COMPARED && at(i) == low(note)) {
                s.spans[at(i) / SPAN] = {~Wide(0), 0};
                s.lengths[at(i) / SPAN] = u16(length(note));
            }
        });
        Group::barrier();
        add_to_spans(items, ~0u, [&](u32 i) { return Wide(compared(items.key[i])); });
        Group::barrier();
        u32 alike = 0; // by item: whether all keys of its segment are equal
        if constexpr (HAS_SOURCE) {
            rows([&](u32 i) {
                const Span &span = s.spans[low(items.note[i]) / SPAN];
                if (length(items.note[i]) > COMPARED) alike |= u32(span.least == span.greatest) << i;
            });
            // Equal keys are in the order of their sources.
            if (Group::any(alike != 0)) {
                rows([&](u32 i) {
                    if (alike >> i & 1 && at(i) == low(items.note[i])) s.spans[at(i) / SPAN] = {~Wide(0), 0};
                });
                Group::barrier();
                add_to_spans(items, alike, [&](u32 i) { return Wide(s.source[at(i)]); });
                Group::barrier();
            }
        }
        if (Group::thread() < SPANS) {
            Span &span = s.spans[Group::thread()];
            u32 count = s.lengths[Group::thread()];
            if (count > 0) {
                Wide offset = span.greatest - span.least;
                // Equal keys whose order cannot be observed are sorted: each has a bin.
                float factor = offset == 0 ? -1 : __fdividef(float(count), float(offset) + 1.0f);
                span.greatest = __float_as_uint(factor);
            }
        }
        Group::barrier();
        rows([&](u32 i) {
            u32 note = items.note[i], bin = low(note), count = length(note);
            if (count > COMPARED) {
                const Span span = s.spans[bin / SPAN];
                Wide value = HAS_SOURCE && alike >> i & 1 ? Wide(s.source[at(i)]) : Wide(compared(items.key[i]));
                float factor = __uint_as_float(u32(span.greatest));
                if (factor < 0) bin = at(i);
                else bin += min(u32(float(value - span.least) * factor), count - 1);
                items.note[i] = bin | atomicAdd(s.bins + bin, 1) << 16;
            } else if (count > 0) {
                // All items in one bin, which the first one counts.
                if (at(i) == bin) s.bins[bin] = count;
                items.note[i] = bin | (at(i) - bin) << 16;
            } else if (at(i) < end) {
                s.bins[at(i)] = 1; // it stays
            }
        });
        Group::barrier();
        place_bins();
        bool more = false;
        u32 source[HAS_SOURCE ? ITEMS : 1];
        if constexpr (HAS_SOURCE) {
            rows([&](u32 i) { source[i] = s.source[at(i)]; });
            Group::barrier();
        }
        rows([&](u32 i) {
            u32 bin = low(items.note[i]), begin = s.bins[bin], stop = s.bins[bin + 1];
            more |= is_there(i) && stop - begin > COMPARED;
            if (is_there(i)) store(items, i, begin + high(items.note[i]), source[HAS_SOURCE ? i : 0]);
        });
        return more;
    }

    // Adds values to the spans of the segments that have bins, for items in `wanted`.
    template <class ValueOf> __device__ __forceinline__ void add_to_spans(const Items &items, u32 wanted, const ValueOf &value_of) {
        u32 own = NO_SEGMENT; // the segment of the rows before, if they have one
        Wide least = 0, greatest = 0;
        rows([&](u32 i) {
            bool wants = length(items.note[i]) > COMPARED && wanted >> i & 1;
            u32 segment = wants ? low(items.note[i]) : NO_SEGMENT;
            Wide value = wants ? value_of(i) : Wide(0);
            if (all_same(segment)) {
                if (segment != own) {
                    add_to_span(true, own, least, greatest);
                    own = segment;
                    least = greatest = value;
                }
                least = min(least, value);
                greatest = max(greatest, value);
                return;
            }
            add_to_span(true, own, least, greatest);
            own = NO_SEGMENT;
            for (u32 left = __ballot_sync(ALL_LANES, segment != NO_SEGMENT); left != 0;) {
                u32 one = __shfl_sync(ALL_LANES, segment, __ffs(left) - 1);
                add_to_span(segment == one, one, value, value);
                left &= ~__ballot_sync(ALL_LANES, segment == one);
            }
        });
        add_to_span(true, own, least, greatest);
    }
    // Adds values of the lanes that are `mine` to a segment's span. Called by all lanes.
    __device__ __forceinline__ void add_to_span(bool mine, u32 segment, Wide least, Wide greatest) {
        if (segment == NO_SEGMENT) return;
        least = warp_min(mine ? least : ~Wide(0));
        greatest = warp_max(mine ? greatest : Wide(0));
        if (lane_id() == 0) {
            Span &span = s.spans[segment / SPAN];
            if (WARPS == 1) span = {min(span.least, least), max(span.greatest, greatest)};
            else {
                atomicMin(&span.least, least);
                atomicMax(&span.greatest, greatest);
            }
        }
    }

    // Turns the bins' counts into their begins.
    __device__ __forceinline__ void place_bins() {
        constexpr u32 EACH = ROOM / THREADS, IN_VECTOR = sizeof(Vector) / sizeof(u32), VECTORS = EACH / IN_VECTOR;
        static_assert(EACH % IN_VECTOR == 0, "whole vectors");
        Vector *own = (Vector *)s.bins + Group::thread() * VECTORS;
        u32 sum = 0;
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
            Vector bins = own[v];
            sum += (bins.word[0] + bins.word[1]) + (bins.word[2] + bins.word[3]);
        }
        u32 next = Group::exclusive_sum(sum, s.totals);
#pragma unroll
        for (u32 v = 0; v < VECTORS; v++) {
            Vector bins = own[v];
#pragma unroll
            for (u32 e = 0; e < IN_VECTOR; e++) {
                u32 items = bins.word[e];
                bins.word[e] = next;
                next += items;
            }
            own[v] = bins;
        }
        Group::barrier();
    }

    // Makes segments of the bins, and loads the items at their new indices.
    __device__ __forceinline__ void load_next(Items &items) {
        Group::barrier();
        if (Group::thread() < WORDS) s.heads[Group::thread()] = 0;
        Group::barrier();
        // Items that stay are heads, so that the segment before one ends there.
        rows([&](u32 i) {
            u32 head = is_there(i) ? s.bins[low(items.note[i])] : at(i);
            if (is_there(i) ? high(items.note[i]) == 0 : at(i) <= end) atomicOr(s.heads + head / WARP, 1u << head % WARP);
        });
        Group::barrier();
        u32 own = Group::thread() < WORDS ? s.heads[Group::thread()] : 0;
        if (end < ROOM && Group::thread() == end / WARP) own |= 1u << end % WARP;
        Group::barrier();
        index_heads(own);
        rows([&](u32 i) {
            if (!is_there(i)) return;
            items.key[i] = s.keys[at(i)];
            Range segment = segment_of(at(i));
            items.note[i] = segment.begin | segment.end << 16;
        });
    }

    // ---- payload --------------------------------------------------------------------------------

    __device__ __forceinline__ void write_values() {
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
        Group::barrier(); // all are read, as the payload may be in place
        Value *out = (Value *)call.values[IN_OUTPUT] + chunk;
        rows([&](u32 i) {
            if (is_there(i)) out[at(i)] = value[i];
        });
    }
};
