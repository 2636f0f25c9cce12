// Finer bins: bins of two levels, for keys that are spread unevenly in a fixed-capacity bucket. The
// bucket sort calls `FinerBins::run` if its bins do not separate the keys.
//
// 1. The keys of each bin are counted, unless the counts are still there.
// 2. A bin with many keys gets as many finer bins as its share of the keys; a bin with few keys
//    shares one with its neighbours.
// 3. A key goes to a finer bin by its offset in its bin.
// 4. A key's position comes from comparisons with all keys of its finer bin. A finer bin with more
//    than MOST_COMPARED keys may only hold equal keys, as of a frequent key among others.
#pragma once
#include "sort/buckets.cuh"

template <class Sort, u32 LOG_BINS> struct FinerBins {
    typedef typename Sort::Bits Bits;
    typedef typename Sort::Value Value;
    typedef typename Sort::Item Item;
    typedef typename Sort::BinShared BinShared;
    typedef typename Sort::ThreadKeys ThreadKeys;
    typedef typename Sort::Span Span;
    static constexpr bool HAS_VALUES = Sort::HAS_VALUES;
    static constexpr u32 THREADS = Sort::THREADS, ITEMS = Sort::ITEMS, ROWS = Sort::ROWS, WARPS = Sort::WARPS,
                         TURNS = Sort::TURNS, BIN_COUNT = Sort::BIN_COUNT;
    static constexpr u32 MOST_COMPARED = WARP; // in a finer bin
    // With a payload, the most finer bins with more keys. The block ranks their keys bin after bin.
    static constexpr u32 MOST_LONG = 4;

    // Called by the whole block. The keys lie at `offsets`. Returns whether they are sorted now.
    // They are not if the keys of a long finer bin differ or, with a payload, if there are too many
    // such bins. Then the keys are where they were.
    template <class Order>
    static __device__ bool run(BinShared &s, u32 count, Order order, Bits *out, const Value *values, Value *values_out,
                               Span span) {
        constexpr u32 POSITION_BITS = 16;
        if (span.bits <= LOG_BINS) return false; // the keys of a bin are equal
        if (TURNS == 1 && has_many_long(s, count)) return false;
        Bits *keys = Sort::offsets(s);
        ThreadKeys t(count, [=](u32 at) { return keys[at]; });
        u16 *table = (u16 *)s.items; // where the finer bins of each bin begin
        u32 shift = Sort::WIDTH == 64 && span.most >> (Sort::WIDTH / 2) != 0
                        ? 32 - __clz(int(span.most >> (Sort::WIDTH / 2)))
                        : 0;
        u32 factor = Sort::factor_for(u32(span.most >> shift), BIN_COUNT);
        auto product = [&](u32 i) { return u64(u32(t.key[i] >> shift)) * factor; };
        int left = t.left();
        // With one turn the bins still hold their counts. With several, some hold begins already.
        if constexpr (TURNS > 1) {
            Sort::clear_bins(s);
            __syncthreads();
            t.rows([&](u32 i) { increment_if(left, i * THREADS, s.bins + u32(product(i) >> 32)); });
            __syncthreads();
            if (has_many_long(s, count)) return false;
        }
        // With a payload, keys and positions were counted as one number. So the greatest key may be
        // in a bin that counts no keys, behind all others; even that one has a finer bin. No thread
        // writes the table before all threads have their keys.
        float finer = float(BIN_COUNT) / float(count);
        Sort::scan_bins(s,
                        [&](u32 bin, u32 begin) { table[bin] = u16(min(float(begin) * finer, float(BIN_COUNT - 1))); });
        if (threadIdx.x == 0) table[BIN_COUNT] = BIN_COUNT;
        Sort::clear_bins(s);
        __syncthreads();
        // First the finer bin, and above it the number of its keys that came before.
        u32 position[ITEMS];
        bool is_long = count_finer(s, t, table, product, position);
        // Threads are counted. A thread may have two such keys.
        if (__syncthreads_count(is_long) > MOST_LONG && HAS_VALUES) return false;
        Sort::scan_bins(s, [&](u32 bin, u32 begin) { s.bins[bin] = begin; });
        __syncthreads();
        // The number of long bins; then, for each, the position of one of its keys, and the bin's
        // begin.
        u32 *long_bins = s.totals;
        static_assert(1 + 2 * MOST_LONG <= sizeof(s.totals) / sizeof(u32), "room for all");
        if (threadIdx.x == 0) long_bins[0] = 0;
        t.rows([&](u32 i) {
            u32 bin = position[i] & 0xffff, begin = s.bins[bin];
            if (t.is_there(i)) s.items[begin + (position[i] >> 16)] = HAS_VALUES ? Item(Sort::at(i)) : Item(t.key[i]);
        });
        __syncthreads();
        bool fails = false;
        t.rows([&](u32 i) {
            u32 bin = position[i] & 0xffff, begin = s.bins[bin], end = bin + 1 < BIN_COUNT ? s.bins[bin + 1] : count,
                less = begin;
            if (!t.is_there(i)) return;
            u32 before = position[i] >> 16, own = HAS_VALUES ? Sort::at(i) : begin + before;
            if (end - begin > MOST_COMPARED) {
                fails |= keys[HAS_VALUES ? u32(s.items[begin]) : begin] != t.key[i];
                if (HAS_VALUES && before == MOST_COMPARED) {
                    u32 l = atomicAdd(long_bins, 1);
                    if (l < MOST_LONG) long_bins[1 + 2 * l] = Sort::at(i), long_bins[2 + 2 * l] = begin;
                    else fails = true;
                }
                position[i] = begin + before;
                return;
            }
            // As a rule a finer bin has few keys, and this stands here once for each of a thread's.
#pragma unroll 1
            for (u32 j = begin; j < end; j++) {
                u32 where = HAS_VALUES ? u32(s.items[j]) : j; // breaks ties between equal keys
                Bits other = keys[where];
                less += other < t.key[i] || (other == t.key[i] && where < own);
            }
            position[i] = less;
        });
        if (__syncthreads_or(fails)) {
            if constexpr (!HAS_VALUES)
                t.rows([&](u32 i) {
                    if (t.is_there(i)) keys[Sort::at(i)] = t.key[i];
                });
            return false;
        }
        if constexpr (HAS_VALUES)
            for (u32 l = 0; l < long_bins[0]; l++)
                rank_equal_keys(s, t, keys[long_bins[1 + 2 * l]], long_bins[2 + 2 * l], position);
        t.rows([&](u32 i) {
            if (t.is_there(i)) s.items[position[i]] = HAS_VALUES ? Item(Sort::at(i)) : Item(t.key[i]);
        });
        if constexpr (HAS_VALUES)
            Sort::write_pairs(s, span, order, out, values, values_out, count, POSITION_BITS, false);
        else {
            __syncthreads();
            Sort::write_keys(s, span, order, out, count);
        }
        return true;
    }

  private:
    // Counts the keys by finer bin. Returns whether one of this thread's keys is the first beyond
    // MOST_COMPARED in its finer bin.
    template <class Product>
    static __device__ bool count_finer(BinShared &s, const ThreadKeys &t, const u16 *table, const Product &product,
                                       u32 (&position)[ITEMS]) {
        int left = t.left();
        bool is_long = false;
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (row * THREADS >= t.count) break;
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u64 exact = product(i);
                u32 bin = u32(exact >> 32), begin = table[bin];
                position[i] = begin + __umulhi(u32(exact), table[bin + 1] - begin);
            }
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u32 before = fetch_add_if(left, i * THREADS, s.bins + position[i], 1);
                is_long |= before == MOST_COMPARED;
                position[i] |= before << 16;
            }
        }
        return is_long;
    }
    // With a payload, while bins hold counts: whether few bins are used, but more than may be long.
    // Then most keys are equal, or seem to be.
    static __device__ bool has_many_long(BinShared &s, u32 count) {
        if (!HAS_VALUES) return false;
        u32 used = 0;
        for (u32 i = threadIdx.x; i < BIN_COUNT; i += THREADS) used += s.bins[i] > 0;
        used = warp_add(used);
        if (lane_id() == 0) s.totals[warp_id()] = used;
        __syncthreads();
        used = warp_add(lane_id() < WARPS ? s.totals[lane_id()] : 0);
        __syncthreads(); // all threads have read the totals
        return used > MOST_LONG && used < count / WARP;
    }
    // Gives all keys equal to `key` positions from `begin` on, in their present order. Called by
    // the whole block, when the items are not needed any more.
    static __device__ void rank_equal_keys(BinShared &s, const ThreadKeys &t, Bits key, u32 begin,
                                           u32 (&position)[ITEMS]) {
        constexpr u32 WORDS = ITEMS * WARPS;
        static_assert(WORDS <= THREADS && sizeof(s.items) >= (WORDS + WARPS) * sizeof(u32),
                      "a thread and a word for each row of a warp");
        u32 *earlier = (u32 *)s.items, *totals = earlier + WORDS;
        auto equal = [&](u32 i) { return __ballot_sync(ALL_LANES, t.is_there(i) && t.key[i] == key); };
        t.rows([&](u32 i) {
            u32 lanes = equal(i);
            if (lane_id() == 0) earlier[Sort::at(i) / WARP] = __popc(lanes);
        });
        __syncthreads();
        u32 w = threadIdx.x, before = block_exclusive_sum<THREADS>(w * WARP < t.count ? earlier[w] : 0, totals);
        if (w * WARP < t.count) earlier[w] = before;
        __syncthreads();
        t.rows([&](u32 i) {
            u32 lanes = equal(i);
            if (lanes >> lane_id() & 1)
                position[i] = begin + earlier[Sort::at(i) / WARP] + __popc(lanes & ((1u << lane_id()) - 1));
        });
        __syncthreads();
    }
};
