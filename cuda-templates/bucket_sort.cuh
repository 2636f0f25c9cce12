// Radix sort by buckets: one of them, in one block, by one of three ways.
//
// - Keys alone of which few bits are left, and that are not dense: each key that there could be is counted, and the counts tell all places.
// - Each key to a bin by its next bits, about as many bins as keys; then a thread puts the keys of a few bins in order.
// - Where keys are so much alike that these do not tell them apart: digit by digit.
#pragma once
#include "buckets.cuh"

// What is put in order: keys, or where something goes with them, the last bits of a key and where in the bucket it was.
template <class Bits, bool HAS_VALUES> struct Ordered { typedef Bits Type; };
template <> struct Ordered<u32, true> { typedef u32 Type; };
template <> struct Ordered<u64, true> { typedef u64 Type; };

template <class Order, class Tile, u32 LOG_BINS> struct BucketSort {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    typedef typename Ordered<Bits, Tile::HAS_VALUES>::Type Item;
    static constexpr bool HAS_VALUES = Tile::HAS_VALUES;
    static constexpr u32 THREADS = Tile::THREADS, ITEMS = Tile::ITEMS, WARPS = THREADS / WARP, FINE = 1 << LOG_BINS, EACH = FINE / THREADS;
    static constexpr u32 WIDTH = 8 * sizeof(Bits), PLACE_BITS = HAS_VALUES ? 13 : 0;
    static constexpr u32 RUN = 16;     // items that a thread puts in order in its registers
    static constexpr u32 LONGEST = 48; // and in shared memory
    static_assert(EACH == 8 && Tile::TILE <= 1 << 13, "whole vectors of bins, and a place for each item");
    static constexpr u32 MOST_BITS = 8 * sizeof(Item) - PLACE_BITS + LOG_BINS - 4; // of which an item tells those of a thread's bins apart
    static constexpr u32 COUNTED = 16, FIELDS = 8, WORDS = (1 << COUNTED) / FIELDS, WORDS_EACH = WORDS / THREADS;
    static constexpr u32 SELDOM_FOUR = 10; // are equal where there could be so many times as many keys: in one bucket of five
    static constexpr bool FEW_BITS = !HAS_VALUES && sizeof(Bits) <= 4;
    struct Fine {
        alignas(16) Item items[Tile::TILE];
        alignas(16) u32 bins[FEW_BITS && WORDS > FINE ? WORDS : FINE];
        u32 totals[WARPS];
        Bits ends[3 * WARPS];
        Bits keys[HAS_VALUES ? Tile::TILE : 1];
        Value values[HAS_VALUES ? Tile::TILE : 1];
    };
    union Shared {
        typename Tile::Shared tile;
        Fine fine;
        __device__ Shared() {}
    };
    // Keys are the least of them and a number up to `most`, of so many bits, with `zeros` zeros more at the end.
    struct Span {
        Bits least, most;
        u32 bits, zeros;
        __device__ Span(Bits least, Bits most, u32 bits, u32 zeros) : least(least), most(most), bits(bits), zeros(zeros) {}
        // Those of a number's bucket, of whose keys so many bits are left.
        __device__ Span(u32 bucket, u32 bits) : Span(bits < WIDTH ? Bits(Bits(bucket) << bits) : 0, Bits(~Bits(0)) >> (WIDTH - bits), bits, 0) {}
        __device__ Bits operator()(Bits key) const { return Bits(key - least) >> zeros; }
    };

    // The buckets of the block's number and on.
    static __device__ void run_buckets(Shared &shared, const SortCall &call, const BucketCall &buckets) {
        const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
        bool by_bits = map.route == BY_BITS;
        u32 bits = call.end - DIGIT_BITS - map.lower_bits, all = BINS << map.lower_bits;
        for (u32 bucket = blockIdx.x; bucket < all; bucket += gridDim.x) {
            u32 first = buckets.starts[bucket], count = buckets.starts[bucket + 1] - first;
            if (count == 0 || count > buckets.room) continue; // a larger one is done
            Bits *keys = (Bits *)call.keys[0] + first;
            Tile t(shared.tile, count);
            t.load([=](u32 at) { return keys[at]; });
            if constexpr (!HAS_VALUES) prefetch(call, buckets, bucket + buckets.at_once, all);
            __syncthreads(); // the bucket before is out
            Value *values = (Value *)call.values[0] + first;
            run<false>(shared, t, call, call.no_keys ? nullptr : keys, values, values, by_bits ? Span(bucket, bits) : span(shared, t));
        }
    }

    // The bucket of the block's number, from its place in scratch memory.
    static __device__ void run_slot(Shared &shared, const SortCall &call, const SlotCall &slots, bool by_range) {
        __shared__ u32 before[BINS / WARP];
        u32 bucket = blockIdx.x, d = threadIdx.x;
        if (d < BINS) {
            u32 earlier = warp_add(d < bucket ? slots.counts[d] : 0);
            if (lane_id() == 0) before[warp_id()] = earlier;
        }
        u32 count = slots.counts[bucket], first = 0, bits = call.end - slots.bits;
        const Bits *keys = (const Bits *)slots.keys + u64(bucket) * slots.room;
        Tile t(shared.tile, count);
        t.load([=](u32 at) { return keys[at]; });
        __syncthreads();
        for (u32 w = 0; w < BINS / WARP; w++) first += before[w];
        if (count == 0) return;
        const Value *values = (const Value *)slots.values + u64(bucket) * slots.room;
        run<true>(shared, t, call, call.no_keys ? nullptr : (Bits *)call.keys[0] + first, values, (Value *)call.values[0] + first,
                  by_range ? span(shared, t) : Span(bucket, bits));
    }

    // As many keys as a block holds, from anywhere.
    static __device__ void run_one(Shared &shared, const SortCall &call) {
        Order order{Bits(call.flip)};
        const Bits *from = (const Bits *)call.keys_in;
        Tile t(shared.tile, u32(call.n));
        t.load([=](u32 at) { return order.to(from[at]); });
        run<true>(shared, t, call, (Bits *)call.keys[0], nullptr, nullptr, Span(0, call.end));
    }

  private:
    // The keys of a bucket that will soon be sorted are brought into the L2 cache.
    static __device__ void prefetch(const SortCall &call, const BucketCall &buckets, u32 bucket, u32 all) {
        if (bucket >= all) return;
        u32 first = buckets.starts[bucket], count = buckets.starts[bucket + 1] - first;
        if (count <= buckets.room) prefetch_lines<THREADS>((const Bits *)call.keys[0] + first, count * sizeof(Bits));
    }

    static __device__ Span span(Shared &shared, const Tile &t) {
        Fine &s = shared.fine;
        if (threadIdx.x == 0) s.keys[0] = t.key[0]; // any of them
        __syncthreads();
        Bits one = s.keys[0], turned = 0, greatest = 0, differing = 0; // turned: the least, all bits
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                turned = max(turned, Bits(~t.key[i]));
                greatest = max(greatest, t.key[i]);
                differing |= t.key[i] ^ one;
            }
        turned = warp_max(turned);
        greatest = warp_max(greatest);
        differing = warp_or(differing);
        if (lane_id() == 0) {
            s.ends[warp_id()] = turned;
            s.ends[WARPS + warp_id()] = greatest;
            s.ends[2 * WARPS + warp_id()] = differing;
        }
        __syncthreads();
        static_assert(WARP % WARPS == 0, "a warp looks at all");
        turned = warp_max(s.ends[lane_id() % WARPS]);
        greatest = warp_max(s.ends[WARPS + lane_id() % WARPS]);
        differing = warp_or(s.ends[2 * WARPS + lane_id() % WARPS]);
        Bits least = Bits(~turned);
        if (differing == 0) return Span(least, 0, 0, 0);
        u32 zeros = WIDTH == 64 ? __ffsll((long long)differing) - 1 : __ffs(int(differing)) - 1; // of all differences
        Bits most = Bits(greatest - least) >> zeros;
        return Span(least, most, WIDTH - (WIDTH == 64 ? __clzll((long long)most) : __clz(int(most))), zeros);
    }

    // Keys to `out`, if anybody wants them; values from `values` to `values_out`, which may be the same. APART: digits, where it comes to them, by a
    // call, so that they take no registers from those who never get there; which costs all others more than it saves where one bucket comes after the other.
    template <bool APART>
    static __device__ void run(Shared &shared, Tile &t, const SortCall &call, Bits *out, const Value *values, Value *values_out, Span span) {
        Order order{Bits(call.flip)};
        Fine &s = shared.fine;
        u32 count = t.count, bits = span.bits;
        if constexpr (FEW_BITS)
            if (bits <= COUNTED && span.most / SELDOM_FOUR >= count) {
                if (place_by_counts(s, t, span)) {
                    write(s, order, out, values_out, count);
                    return;
                }
                span = BucketSort::span(shared, t); // many are equal
                bits = span.bits;
            }
        if (bits == 0) { // all are equal
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) {
                    if (!HAS_VALUES || out) out[t.at(i)] = order.from(t.key[i]);
                    if constexpr (HAS_VALUES)
                        if (values != values_out) values_out[t.at(i)] = values[t.at(i)];
                }
            return;
        }
        // All bins are used, whatever the span is. Where few bits are left, where an item was tells more: of two that are equal the earlier one
        // comes first.
        bool by_place = HAS_VALUES && bits <= LOG_BINS, in_order = !HAS_VALUES && bits <= LOG_BINS; // then keys of a bin are equal
        u32 beyond = bits > 32 ? bits - 32 : 0, most = by_place ? u32(span.most) << PLACE_BITS | ((1u << PLACE_BITS) - 1) : u32(span.most >> beyond);
        u32 factor = __float2uint_rz(__fdividef(float(1ull << 32) * float(FINE) * 0.999999f, __uint2float_rz(most))); // a little less than it might be
        u32 share = HAS_VALUES ? (1u << 31) / count >> (31 - PLACE_BITS - 16) : 0; // of all places, times 2^16
        auto bin_of = [&](u32 i) {
            Bits rest = span(t.key[i]);
            if (in_order) return u32(rest);
            return __umulhi(by_place ? u32(rest) << PLACE_BITS | t.at(i) * share >> 16 : u32(rest >> beyond), factor);
        };
        u16 rank[ITEMS];
        uint4 *vectors = (uint4 *)s.bins;
        for (u32 i = threadIdx.x; i < FINE / 4; i += THREADS) vectors[i] = make_uint4(0, 0, 0, 0);
        if constexpr (HAS_VALUES)
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) copy_item_to_shared(s.values + t.at(i), values + t.at(i));
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) rank[i] = u16(atomicAdd(s.bins + bin_of(i), 1));
        __syncthreads();
        u32 bin[EACH], sum = 0, of_one = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4) {
            uint4 v = vectors[(threadIdx.x * EACH + e) / 4];
            bin[e] = v.x, bin[e + 1] = v.y, bin[e + 2] = v.z, bin[e + 3] = v.w;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            of_one = max(of_one, bin[e]);
            u32 own = bin[e];
            bin[e] = sum;
            sum += own;
        }
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        // Whether a thread would have too many: then digits, which is slower and does not mind.
        if (__syncthreads_or(sum > LONGEST && !in_order) || bits > MOST_BITS) {
            if constexpr (APART) {
                wait_for_copies();
                __syncthreads(); // they are there, and nobody needs them
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++)
                    if (t.is_there(i)) ((Bits *)shared.tile.exchange)[t.at(i)] = t.key[i];
                by_digits_apart(shared, count, order, out, values, values_out, span);
            } else {
                by_digits(t, order, out, values, values_out, span);
            }
            return;
        }
        u32 begin = upto - sum;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++)
            if (w < warp_id()) begin += s.totals[w];
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4)
            vectors[(threadIdx.x * EACH + e) / 4] = make_uint4(begin + bin[e], begin + bin[e + 1], begin + bin[e + 2], begin + bin[e + 3]);
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 place = s.bins[bin_of(i)] + rank[i];
                if constexpr (HAS_VALUES) {
                    s.keys[t.at(i)] = t.key[i];
                    s.items[place] = Item(span(t.key[i])) << PLACE_BITS | t.at(i);
                } else {
                    s.items[place] = t.key[i];
                }
            }
        __syncthreads();

        // Items are at most as far from their places as their bin is long.
        u32 longest = warp_max(of_one);
        if (!in_order && longest > 1) {
            // What a thread's items have at least, so that the bits that they hold do not run over.
            u64 least = u64(threadIdx.x * EACH) * most >> LOG_BINS;
            Item base = HAS_VALUES ? Item(by_place ? least >> PLACE_BITS : least << beyond) << PLACE_BITS : 0;
            if (sum <= RUN) {
                Item item[RUN];
#pragma unroll
                for (u32 j = 0; j < RUN; j++) item[j] = j < sum ? s.items[begin + j] - base : Item(~Item(0));
                for (u32 step = 0; step < longest; step += 2) {
#pragma unroll
                    for (u32 j = 0; j + 1 < RUN; j += 2) order_two(item[j], item[j + 1]);
#pragma unroll
                    for (u32 j = 1; j + 1 < RUN; j += 2) order_two(item[j], item[j + 1]);
                }
#pragma unroll
                for (u32 j = 0; j < RUN; j++)
                    if (j < sum) s.items[begin + j] = item[j];
            } else {
                for (u32 j = begin + 1; j < begin + sum; j++) {
                    Item item = s.items[j] - base;
                    u32 hole = j;
                    for (; hole > begin && s.items[hole - 1] - base > item; hole--) s.items[hole] = s.items[hole - 1];
                    s.items[hole] = item + base;
                }
            }
        }
        if (HAS_VALUES) wait_for_copies();
        __syncthreads();
        write(s, order, out, values_out, count);
    }

    // The keys that each thread has put where its items lie in the tile.
    static __device__ __noinline__ void by_digits_apart(Shared &shared, u32 count, Order order, Bits *out, const Value *values, Value *values_out, Span span) {
        Tile t(shared.tile, count);
        const Bits *keys = (const Bits *)shared.tile.exchange;
        t.load([=](u32 at) { return keys[at]; });
        by_digits(t, order, out, values, values_out, span);
    }

    static __device__ void by_digits(Tile &t, Order order, Bits *out, const Value *values, Value *values_out, Span span) {
        Value value[HAS_VALUES ? ITEMS : 1];
        if constexpr (HAS_VALUES) {
            wait_for_copies();
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) value[i] = values[t.at(i)];
            __syncthreads(); // all are read, and copied
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) t.key[i] = span(t.key[i]);
        sort_digits_along(t, value, 0, span.bits);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                if (!HAS_VALUES || out) out[t.at(i)] = order.from(Bits(Bits(t.key[i] << span.zeros) + span.least));
                if constexpr (HAS_VALUES) values_out[t.at(i)] = value[i];
            }
    }

    static __device__ void write(const Fine &s, Order order, Bits *out, Value *values, u32 count) {
        for (u32 j = threadIdx.x; j < count; j += THREADS) {
            Item item = s.items[j];
            if constexpr (HAS_VALUES) {
                u32 at = u32(item) & ((1u << PLACE_BITS) - 1);
                if (out) out[j] = order.from(s.keys[at]);
                values[j] = s.values[at];
            } else {
                out[j] = order.from(item);
            }
        }
    }

    // Where a word lies: of those that threads side by side have at the same place in theirs, one is in each bank.
    static __device__ u32 word_of(u32 word) {
        static_assert(WORDS_EACH == 16 || WORDS_EACH == 32, "a thread's words are half of the banks, or all");
        return (word & ~(WORDS_EACH - 1)) | ((word + word / WARP) & (WORDS_EACH - 1));
    }
    // How many keys fields of two bits count.
    static __device__ u32 counted(u32 fields) { return __popc(fields & 0x5555) + 2 * __popc(fields & 0xaaaa); }

    // Keys are counted by their last bits in fields of two bits, eight to a word, below how many come before the word: which tells each key
    // its place. Whether no key was there more than three times; if not, nothing was done.
    static __device__ bool place_by_counts(Fine &s, Tile &t, Span span) {
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < WORDS / 4; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        __syncthreads();
        bool full = false;
        u16 rank[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 low = u32(span(t.key[i])), field = low % FIELDS * 2;
                u32 before = atomicAdd(s.bins + word_of(low / FIELDS), 1u << field) >> field & 3;
                // Past three the field runs over, and nothing that is counted is used.
                full |= before == 3;
                rank[i] = u16(before);
            }
        if (__syncthreads_or(full)) return false;
        u32 sum = 0, first = threadIdx.x * WORDS_EACH;
#pragma unroll
        for (u32 e = 0; e < WORDS_EACH; e++) sum += counted(s.bins[word_of(first + e)]);
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u32 before = upto - sum;
#pragma unroll
        for (u32 w = 0; w < THREADS / WARP; w++)
            if (w < warp_id()) before += s.totals[w];
#pragma unroll
        for (u32 e = 0; e < WORDS_EACH; e++) {
            u32 &word = s.bins[word_of(first + e)], own = counted(word);
            word |= before << 16;
            before += own;
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 low = u32(span(t.key[i])), word = s.bins[word_of(low / FIELDS)];
                s.items[(word >> 16) + counted(word & ((1u << low % FIELDS * 2) - 1)) + rank[i]] = t.key[i];
            }
        __syncthreads();
        return true;
    }

    static __device__ void order_two(Item &a, Item &b) {
        Item low = min(a, b), high = max(a, b);
        a = low;
        b = high;
    }
};
