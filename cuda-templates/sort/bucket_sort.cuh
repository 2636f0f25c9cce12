// Sorts one bucket, counted or of fixed capacity, by one block in shared memory: the body of
// bucket_sort, fixed_sort and bucket_sort_large. `run` takes the first that applies:
//
// 1. Counting, for keys-only that are not dense: each number that a key can be, or each of 2^16
//    equal parts of the span, has a count of two bits. The counts give each key its position.
// 2. Bins: each key goes to one of about as many bins as keys, by its share of the span. A thread
//    sorts the items of its 8 bins in registers, or a warp does if they are many.
// 3. Finer bins, if bins do not separate the keys (sort/finer_bins.cuh).
// 4. Digits, one after the other: the cost does not depend on the distribution.
#pragma once
#include "sort/bitonic.cuh"
#include "sort/finer_bins.cuh"
#include "sort/fixed_buckets.cuh"

// FINER: finer bins may come before digits. They cost other buckets registers.
template <class Order, class Tile, u32 LOG_BINS, bool FINER> struct BucketSort {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Value Value;
    // What is sorted: a key's offset in the span. With a payload: the offset's low bits, and below
    // them the key's position in the bucket.
    typedef Bits Item;
    static constexpr bool HAS_VALUES = Tile::HAS_VALUES;
    static constexpr u32 THREADS = Tile::THREADS, ITEMS = Tile::ITEMS, WARPS = THREADS / WARP,
                         BIN_COUNT = 1 << LOG_BINS, WIDTH = 8 * sizeof(Bits);
    // A thread has EACH adjacent bins, TURNS times.
    static constexpr u32 EACH = 8, TURNS = BIN_COUNT / (EACH * THREADS);
    static constexpr u32 ROWS = 3; // loaded at once
    // The most items that a thread sorts in its registers: as a rule, and if its warp has more.
    static constexpr u32 RUN = 16, LONG_RUN = WIDTH == 32 ? 24 : HAS_VALUES ? RUN : 20;
    static constexpr u32 LONGEST = 4 * WARP; // the most that a warp sorts
    // Keys and payload share their staging memory, one after the other.
    static constexpr bool LARGE = THREADS > 512;
    static_assert(TURNS * EACH * THREADS == BIN_COUNT && Tile::TILE <= 1 << 15, "bins for all threads");
    static constexpr u32 COUNTED_BITS = 16, FIELDS = 16, WORDS = (1 << COUNTED_BITS) / FIELDS,
                         WORDS_EACH = WORDS / THREADS;
    // If there are SPARSE times as many numbers as keys, some four keys share one in one bucket of
    // five.
    static constexpr u32 SPARSE = 10;
    // Whether keys are counted: each number if at most COUNTED_BITS bits are left, parts of the
    // span if more are.
    static constexpr bool COUNTS_NUMBERS = !HAS_VALUES && sizeof(Bits) <= 4 && !LARGE,
                          COUNTS_PARTS = !HAS_VALUES && !LARGE;
    static constexpr u32 STAGED = HAS_VALUES ? Tile::TILE : 1;
    static_assert(!COUNTS_PARTS || Tile::TILE <= (1 << COUNTED_BITS) / SPARSE, "parts for every bucket");
    struct KeysAndValues {
        Bits keys[STAGED];
        Value values[STAGED];
    };
    union KeysThenValues {
        Bits keys[STAGED];
        Value values[STAGED];
    };
    struct BinShared {
        alignas(16) Item items[Tile::TILE + (COUNTS_PARTS ? 2 : 0)];
        alignas(16) u32 bins[BIN_COUNT]; // or WORDS of counts
        // Keys before each of the WORDS.
        alignas(16) u16 before[COUNTS_NUMBERS || COUNTS_PARTS ? WORDS : 8];
        u32 totals[TURNS * WARPS];
        Bits ends[3 * WARPS];
        typename IfElse<LARGE, KeysThenValues, KeysAndValues>::Type staged;
    };
    union Shared {
        typename Tile::Shared tile;
        BinShared by_bins;
        HeaviestKeys<Bits> many;
        __device__ Shared() {}
    };
    // The span of a bucket's keys: a key is `least` and an offset of at most `most`, which has
    // `bits` bits and is followed by `zeros` zero bits.
    struct Span {
        Bits least, most;
        u32 bits, zeros;
        __device__ Span(Bits least, Bits most, u32 bits, u32 zeros)
            : least(least), most(most), bits(bits), zeros(zeros) {}
        // The span of bucket number `bucket`, whose keys have `bits` bits left.
        __device__ Span(u32 bucket, u32 bits)
            : Span(bits < WIDTH ? Bits(Bits(bucket) << bits) : 0, Bits(~Bits(0)) >> (WIDTH - bits), bits, 0) {}
        __device__ Bits offset(Bits key) const { return Bits(key - least) >> zeros; }
        __device__ Bits key(Bits offset) const { return Bits(offset << zeros) + least; }
    };

    // A thread's keys, every THREADS-th of a bucket. Later their offsets.
    struct ThreadKeys {
        Bits key[ITEMS];
        u32 count; // of the whole bucket

        // Calls `f(i)` for the rows that exist, ROWS at once. Some of these may have no keys.
        template <class F> __device__ void rows(const F &f) const { BucketSort::rows(count, f); }
        __device__ int left() const { return int(count - threadIdx.x); }
        __device__ bool is_there(u32 i) const { return at(i) < count; }
        template <class Load> __device__ ThreadKeys(u32 count, const Load &load) : count(count) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) key[i] = is_there(i) ? load(at(i)) : Bits(0);
        }
        __device__ void change(const Span &span) {
            rows([&](u32 i) { key[i] = span.offset(key[i]); });
        }
    };
    static __device__ u32 at(u32 i) { return i * THREADS + threadIdx.x; }
    template <class F> static __device__ void rows(u32 count, const F &f) {
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (row * THREADS >= count) break;
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) f(i);
        }
    }

    // ---- what the kernels call ------------------------------------------------------------------

    // Sorts the buckets from the block's number on, gridDim.x apart. After a single step `starts` is
    // still zero, so all buckets are empty.
    static __device__ void run_buckets(Shared &shared, const SortCall &call, const BucketCall &buckets) {
        const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
        const SortPlan<Bits> &plan = plan_of<Bits>(call);
        // All loads are issued at once.
        bool by_passes = plan.all_by_passes(call.n);
        IndexRange<u32> left = plan.left_by_buckets();
        u32 lower_bits = map.lower_bits, bucket = blockIdx.x;
        u32 first = buckets.starts[bucket], end = buckets.starts[bucket + 1];
        bool by_bits = map.function == BY_BITS;
        u32 bits = call.end - DIGIT_BITS - lower_bits, all = BINS << lower_bits;
        if (by_passes || bucket >= all) return;
        for (;;) {
            // later: a bucket to be sorted soon.
            u32 later = min(bucket + buckets.at_once, all - 1), count = end - first;
            u32 later_first = buckets.starts[later], later_end = buckets.starts[later + 1];
            // A larger bucket is in order already, or is left to the passes.
            if (count > 0 && count <= buckets.room && !left.has(first)) {
                Bits *keys = (Bits *)call.keys[0] + first;
                Value *values = (Value *)call.values[0] + first;
                ThreadKeys t(count, [=](u32 at) { return keys[at]; });
                // Prefetches it into L2.
                if ((!HAS_VALUES || LARGE) && later_end - later_first <= buckets.room)
                    prefetch_lines<THREADS>((const Bits *)call.keys[0] + later_first,
                                            (later_end - later_first) * sizeof(Bits));
                __syncthreads(); // the bucket before is stored
                run(shared, t, call, call.no_keys ? nullptr : keys, values, values,
                    by_bits ? Span(bucket, bits) : span(shared, t), true);
            }
            bucket += gridDim.x;
            if (bucket >= all) return;
            first = buckets.starts[bucket];
            end = buckets.starts[bucket + 1];
        }
    }

    // Sorts the fixed-capacity bucket of the block's number from scratch memory, or writes the
    // heavy key of that digit.
    static __device__ void run_fixed(Shared &shared, const SortCall &call, const BucketCall &fixed) {
        const SortPlan<Bits> &plan = plan_of<Bits>(call);
        u32 function = plan.fixed_function; // issued together with the next load
        if (function == NOT_FIXED || plan.too_large) return;
        // The most times a heavy key occurs that one block writes alone.
        constexpr u32 MOST_OF_ONE_BLOCK = (HAS_VALUES ? 8 : 24) * THREADS;
        __shared__ u32 before[WARPS];
        const FixedTables<Bits> &tables = ((const FixedMap<Bits> *)fixed.map)->tables;
        const HeavyKeys<Bits> &heavy = tables.heavy;
        bool has_heavy = function == FIXED_AROUND_HEAVY, is_many = false;
        u32 bucket = blockIdx.x, d = threadIdx.x, keys_here = fixed.counts[bucket];
        if (d < gridDim.x) {
            u32 keys = fixed.counts[d], earlier = warp_add(d < bucket ? keys : 0);
            if (lane_id() == 0) before[warp_id()] = earlier;
            is_many = heavy.has(d % BINS) & has_heavy & (keys > MOST_OF_ONE_BLOCK); // loads at once
        }
        // In a single step `fixed.map` is a `BucketMap`. What is read of it here is not used.
        bool is_heavy = heavy.has(bucket % BINS) & has_heavy;
        u32 count = is_heavy ? 0 : keys_here;
        const Bits *keys = (const Bits *)fixed.keys + u64(bucket) * fixed.room;
        ThreadKeys t(count, [=](u32 at) { return keys[at]; });
        is_many = __syncthreads_or(is_many);
        u32 first = warp_add(lane_id() < gridDim.x / WARP ? before[lane_id()] : 0);
        Order order{Bits(call.flip)};
        Bits *out = call.no_keys ? nullptr : (Bits *)call.keys[0];
        Value *values_out = (Value *)call.values[0];
        const Value *values = (const Value *)fixed.values;
        if (count > 0)
            run(shared, t, call, out ? out + first : out, values + u64(bucket) * fixed.room, values_out + first,
                function == FIXED_BY_BITS ? Span(bucket, call.end - fixed.bits) : span(shared, t), !has_heavy);
        if (is_heavy && keys_here <= MOST_OF_ONE_BLOCK) {
            u32 i = heavy.index(bucket);
            write_heavy_key(out ? out + first : out, keys_here, order.from(heavy.keys[i]), values_out + first,
                            HAS_VALUES ? values + tables.begins[i] : nullptr, d, THREADS);
        }
        if (is_many)
            write_heaviest_keys<Order, Bits, Value, THREADS>(shared.many, order, fixed.counts, heavy, tables.begins,
                                                             MOST_OF_ONE_BLOCK, out, values_out, values);
    }

    // Sorts all keys, no more than a block holds, from the input.
    static __device__ void run_one(Shared &shared, const SortCall &call) {
        Order order{Bits(call.flip)};
        const Bits *from = (const Bits *)call.keys_in;
        ThreadKeys t(u32(call.n), [=](u32 at) { return order.to(from[at]); });
        run(shared, t, call, (Bits *)call.keys[0], nullptr, nullptr, Span(0, call.end), true);
    }

  private:
    template <class Sort, u32 LOG> friend struct FinerBins;

    // ---- span -----------------------------------------------------------------------------------

    // The span of the keys, at least one. Called by the whole block.
    static __device__ Span span(Shared &shared, const ThreadKeys &t) {
        BinShared &s = shared.by_bins;
        if (threadIdx.x == 0) s.items[0] = t.key[0]; // any key
        __syncthreads();
        // inverted: the least key, with all bits inverted.
        Bits one = s.items[0], inverted = 0, greatest = 0, differing = 0;
        t.rows([&](u32 i) {
            if (!t.is_there(i)) return;
            inverted = max(inverted, Bits(~t.key[i]));
            greatest = max(greatest, t.key[i]);
            differing |= t.key[i] ^ one;
        });
        inverted = warp_max(inverted);
        greatest = warp_max(greatest);
        differing = warp_or(differing);
        if (lane_id() == 0) {
            s.ends[warp_id()] = inverted;
            s.ends[WARPS + warp_id()] = greatest;
            s.ends[2 * WARPS + warp_id()] = differing;
        }
        __syncthreads();
        static_assert(WARP % WARPS == 0, "each warp reads all");
        inverted = warp_max(s.ends[lane_id() % WARPS]);
        greatest = warp_max(s.ends[WARPS + lane_id() % WARPS]);
        differing = warp_or(s.ends[2 * WARPS + lane_id() % WARPS]);
        Bits least = Bits(~inverted);
        if (differing == 0) return Span(least, 0, 0, 0);
        // Low bits that do not differ.
        u32 zeros = WIDTH == 64 ? __ffsll((long long)differing) - 1 : __ffs(int(differing)) - 1;
        Bits most = Bits(greatest - least) >> zeros;
        return Span(least, most, WIDTH - (WIDTH == 64 ? __clzll((long long)most) : __clz(int(most))), zeros);
    }

    // ---- counts, bins or fallback ---------------------------------------------------------------

    // Sorts a bucket: keys to `out`, unless it is null; the payload from `values` to `values_out`,
    // which may be the same. is_even: keys may be spread evenly enough to count parts of the span.
    static __device__ void run(Shared &shared, ThreadKeys &t, const SortCall &call, Bits *out, const Value *values,
                               Value *values_out, Span span, bool is_even) {
        Order order{Bits(call.flip)};
        BinShared &s = shared.by_bins;
        u32 count = t.count;
        t.change(span);
        if constexpr (COUNTS_NUMBERS)
            if (span.bits <= COUNTED_BITS && span.most / SPARSE >= count) {
                if (place_by_counts(s, t, [&](u32 i) { return u32(t.key[i]); })) {
                    write_keys(s, span, order, out, count);
                    return;
                }
                Span narrow = BucketSort::span(shared, t); // many keys are equal
                t.change(narrow);
                span = Span(span.key(narrow.least), narrow.most, narrow.bits, span.zeros + narrow.zeros);
            }
        if (span.bits == 0) { // all keys are equal
            Bits key = order.from(span.least);
            rows(count, [&](u32 i) {
                if (at(i) >= count) return;
                if (!HAS_VALUES || out) out[at(i)] = key;
                if constexpr (HAS_VALUES)
                    if (values != values_out) values_out[at(i)] = values[at(i)];
            });
            return;
        }
        sort_by_bins(shared, t, order, out, values, values_out, span, is_even);
    }
    // Sorts by bins the keys that counts of numbers have not sorted.
    static __device__ void sort_by_bins(Shared &shared, ThreadKeys &t, Order order, Bits *out, const Value *values,
                                        Value *values_out, Span span, bool is_even) {
        BinShared &s = shared.by_bins;
        u32 count = t.count;
        // An item has a key's offset and below it the key's position, if both fit. Otherwise it has
        // as many low bits of the offset as fit, and the offsets lie in `staged.keys`.
        u32 position_bits = HAS_VALUES ? 32 - __clz(int(count - 1)) : 0;
        // bins_suffice: the keys of a bin are equal.
        bool is_packed = span.bits + position_bits <= WIDTH, bins_suffice = !HAS_VALUES && span.bits <= LOG_BINS;
        bool values_last = LARGE && !is_packed;
        Bits most = span.most;
        if (HAS_VALUES && is_packed) {
            most = Bits(most << position_bits) | Bits((Bits(1) << position_bits) - 1);
            t.rows([&](u32 i) { t.key[i] = Bits(t.key[i] << position_bits) | at(i); });
        }
        // Offsets are scaled to all bins, whatever the span is.
        u32 shift = WIDTH == 64 && most >> (WIDTH / 2) != 0 ? 32 - __clz(int(most >> (WIDTH / 2))) : 0;
        u32 upper = u32(most >> shift);
        if constexpr (COUNTS_PARTS)
            if (is_even && span.bits > COUNTED_BITS) {
                u32 factor = factor_for(upper, 1 << COUNTED_BITS);
                if (place_by_counts(s, t, [&](u32 i) { return __umulhi(u32(t.key[i] >> shift), factor); })) {
                    write_nearly_sorted(s, span, order, out, count);
                    return;
                }
            }
        u32 factor = factor_for(upper, BIN_COUNT);
        auto bin_of = [&](u32 i) { return bins_suffice ? u32(t.key[i]) : __umulhi(u32(t.key[i] >> shift), factor); };
        clear_bins(s);
        if constexpr (HAS_VALUES) {
            if (values_last) prefetch_lines<THREADS>(values, count * Value::BYTES);
            else copy_values(s, values, count);
        }
        __syncthreads();
        int left = t.left();
        t.rows([&](u32 i) { increment_if(left, i * THREADS, s.bins + bin_of(i)); });
        __syncthreads();
        u32 earlier = 0; // items of the turns before
#pragma unroll
        for (u32 turn = 0; turn < TURNS; turn++) {
            u32 bin[EACH], sum = 0, *totals = s.totals + turn * WARPS;
            load_bins(s, turn, bin);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                u32 own = bin[e];
                bin[e] = sum;
                sum += own;
            }
            u32 inclusive = warp_inclusive_sum(sum);
            if (lane_id() == WARP - 1) totals[warp_id()] = inclusive;
            // If a thread's bins hold more than LONGEST items, which is more than a warp sorts, the
            // block falls back to finer bins or digits. It does so too if an item has too few bits
            // of its offset to tell the items of a thread's bins apart.
            if (__syncthreads_or(sum > LONGEST && !bins_suffice) || span.bits > WIDTH - position_bits + LOG_BINS - 4) {
                if (HAS_VALUES) wait_for_copies();
                __syncthreads(); // the payload has arrived, and a LARGE block does not need it
                Bits *keys = offsets(s);
                t.rows([&](u32 i) {
                    if (t.is_there(i)) keys[at(i)] = is_packed ? t.key[i] >> position_bits : t.key[i];
                });
                sort_by_digits(shared, count, order, out, values, values_out, span);
                return;
            }
            u32 begin = earlier + inclusive - sum + sum_of_earlier_warps(totals);
            // In every turn: see `scan_bins`.
            if (TURNS > 1) earlier += warp_add(lane_id() < WARPS ? totals[lane_id()] : 0);
#pragma unroll
            for (u32 e = 0; e < EACH; e += 4)
                ((Vector *)s.bins)[bin_at(turn) / 4 + e / 4] = Vector{
                    {begin + bin[e], begin + bin[e + 1], begin + bin[e + 2], begin + bin[e + 3]}};
        }
        __syncthreads();
        move_to_bins(s, t, bin_of, position_bits, is_packed);
        __syncthreads();
        if (!bins_suffice) {
            // A thread subtracts the least that its items can be, so that the bits that they hold
            // do not overflow.
            auto base = [=](u32 bin) {
                return is_packed ? Item(0) : Item(Item((u64(bin) * upper >> LOG_BINS) << shift) << position_bits);
            };
            sort_runs(s, base);
        }
        if constexpr (HAS_VALUES) write_pairs(s, span, order, out, values, values_out, count, position_bits, is_packed);
        else {
            __syncthreads();
            write_keys(s, span, order, out, count);
        }
    }
    // Moves the items to their bins. Each addition moves a bin's begin, which becomes its end.
    template <class BinOf>
    static __device__ void move_to_bins(BinShared &s, const ThreadKeys &t, const BinOf &bin_of, u32 position_bits,
                                        bool is_packed) {
        int left = t.left();
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (row * THREADS >= t.count) break;
            u32 position[ROWS];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++)
                position[i - row] = fetch_add_if(left, i * THREADS, s.bins + bin_of(i), 1);
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                if (!t.is_there(i)) continue;
                if (HAS_VALUES && !is_packed) s.staged.keys[at(i)] = t.key[i];
                s.items[position[i - row]] = is_packed ? t.key[i] : Item(t.key[i] << position_bits) | at(i);
            }
        }
    }
    // Sorts the items of each thread's bins, which hold ends. `base(bin)`: the least item of a bin.
    template <class Base> static __device__ void sort_runs(BinShared &s, const Base &base) {
        u32 long_turns = 0; // turns with more than LONG_RUN items
#pragma unroll 1
        for (u32 turn = 0; turn < TURNS; turn++) {
            u32 end[EACH], begin = begin_of(s, turn), longest = 0;
            load_bins(s, turn, end);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) longest = max(longest, end[e] - (e > 0 ? end[e - 1] : begin));
            u32 items = end[EACH - 1] - begin;
            if (items > LONG_RUN) {
                items = longest = 0;
                long_turns |= 1u << turn;
            }
            sort_run(s.items + begin, items, warp_max(longest), base(bin_at(turn)));
        }
        if (__syncthreads_or(long_turns)) sort_long_runs(s, long_turns, base);
    }

    // The first of a thread's bins in a turn.
    static __device__ u32 bin_at(u32 turn) { return (turn * THREADS + threadIdx.x) * EACH; }
    // Where the items of these bins begin, once the bins hold ends.
    static __device__ u32 begin_of(const BinShared &s, u32 turn) {
        return bin_at(turn) > 0 ? s.bins[bin_at(turn) - 1] : 0;
    }
    static __device__ void load_bins(const BinShared &s, u32 turn, u32 (&bin)[EACH]) {
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4)
            memcpy(bin + e, (const Vector *)s.bins + (bin_at(turn) + e) / 4, sizeof(Vector));
    }

    static __device__ void copy_values(BinShared &s, const Value *values, u32 count) {
        rows(count, [&](u32 i) {
            if (at(i) < count) copy_item_to_shared(s.staged.values + at(i), values + at(i));
        });
    }

    // ---- a run of items -------------------------------------------------------------------------

    // Sorts adjacent items by odd-even transposition. Each lies no farther from its position than
    // the longest of the bins is long. All items are at least `base`, which is subtracted from
    // them. The key's position, in an item's low bits, is not part of `base`.
    static __device__ void sort_run(Item *items, u32 count, u32 longest, Item base) {
        // Before the branch, so in every turn of the caller: see `scan_bins`.
        u32 most = LONG_RUN == RUN ? 0 : warp_max(count);
        if (longest <= 1) return;
        if (most <= RUN) sort_run_in_registers<RUN>(items, count, longest, base);
        else sort_run_in_registers<LONG_RUN>(items, count, longest, base);
    }
    template <u32 MOST> static __device__ void sort_run_in_registers(Item *items, u32 count, u32 longest, Item base) {
        Item item[MOST];
#pragma unroll
        for (u32 j = 0; j < MOST; j++) item[j] = j < count ? Item(items[j] - base) : Item(~Item(0));
        for (u32 step = 0; step < longest; step += 2) {
#pragma unroll
            for (u32 j = 0; j + 1 < MOST; j += 2) compare_exchange(item[j], item[j + 1]);
#pragma unroll
            for (u32 j = 1; j + 1 < MOST; j += 2) compare_exchange(item[j], item[j + 1]);
        }
#pragma unroll
        for (u32 j = 0; j < MOST; j++)
            if (j < count) items[j] = item[j];
    }

    // Sorts runs of more items than a thread has registers for, each by one warp; `base` is
    // subtracted here too. Outlined, so that it takes no registers from the common path.
    template <class Base> static __device__ __noinline__ void sort_long_runs(BinShared &s, u32 turns, Base base) {
        u32 begin[TURNS], end[TURNS], *runs = s.bins, &all = s.totals[0];
#pragma unroll
        for (u32 turn = 0; turn < TURNS; turn++) {
            begin[turn] = begin_of(s, turn);
            end[turn] = s.bins[bin_at(turn) + EACH - 1];
        }
        if (threadIdx.x == 0) all = 0;
        __syncthreads(); // and the bins are not needed any more
        static_assert(2 * (Tile::TILE / LONG_RUN) <= BIN_COUNT, "room for all runs");
#pragma unroll
        for (u32 turn = 0; turn < TURNS; turn++)
            if (turns >> turn & 1) {
                u32 *run = runs + 2 * atomicAdd(&all, 1);
                run[0] = begin[turn] | (end[turn] - begin[turn]) << 16;
                run[1] = bin_at(turn);
            }
        __syncthreads();
        for (u32 r = warp_id(); r < all; r += WARPS) {
            u32 count = runs[2 * r] >> 16;
            Item *items = s.items + (runs[2 * r] & 0xffff), least = base(runs[2 * r + 1]);
            if (count <= WARP) sort_run_by_warp<1>(items, count, least);
            else sort_run_by_warp<LONGEST / WARP>(items, count, least);
        }
    }
    template <u32 EACH> static __device__ void sort_run_by_warp(Item *items, u32 count, Item base) {
        Item item[EACH];
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            item[e] = lane_id() * EACH + e < count ? Item(items[lane_id() * EACH + e] - base) : Item(~Item(0));
        Bitonic<EACH, Item>{item}.sort_lanes(lane_id(), WARP, 5); // WARP is 2^5
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (lane_id() * EACH + e < count) items[lane_id() * EACH + e] = item[e];
    }

    // ---- fallback: finer bins or digits ---------------------------------------------------------

    // Where the fallbacks find the offsets, in the order of the bucket.
    static __device__ Bits *offsets(BinShared &s) {
        if constexpr (FINER && HAS_VALUES) return s.staged.keys;
        else return s.items;
    }
    static __device__ void clear_bins(BinShared &s) {
        for (u32 i = threadIdx.x; i < BIN_COUNT / 4; i += THREADS) ((Vector *)s.bins)[i] = Vector{{0, 0, 0, 0}};
    }
    // Calls `use(bin, begin)` for each bin: where its items begin, by the bins' counts. Called by
    // the whole block. A thread gets the bins that only it has read.
    template <class Use> static __device__ void scan_bins(BinShared &s, const Use &use) {
        u32 earlier = 0;
#pragma unroll 1
        for (u32 turn = 0; turn < TURNS; turn++) {
            u32 bin[EACH], sum = 0, *totals = s.totals + turn * WARPS;
            load_bins(s, turn, bin);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) sum += bin[e];
            u32 inclusive = warp_inclusive_sum(sum);
            if (lane_id() == WARP - 1) totals[warp_id()] = inclusive;
            __syncthreads();
            u32 begin = earlier + inclusive - sum + sum_of_earlier_warps(totals);
            // In the last turn too, which does not need it: under a condition of its own, CUDA
            // 13.0's ptxas miscompiled the sum.
            if (TURNS > 1) earlier += warp_add(lane_id() < WARPS ? totals[lane_id()] : 0);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                use(bin_at(turn) + e, begin);
                begin += bin[e];
            }
        }
    }
    // The factor that scales offsets up to `upper` to bins, a little less than exact. If there are
    // more bins than offsets, it saturates: each offset then goes to the bin below its number.
    static __device__ u32 factor_for(u32 upper, u32 bins) {
        return __float2uint_rz(__fdividef(float(1ull << 32) * float(bins) * 0.999999f, __uint2float_rz(upper)));
    }

    // Sorts keys that bins do not separate: by finer bins if they do, else by digits. Outlined, so
    // that it takes no registers from the common path.
    static __device__ __noinline__ void sort_by_digits(Shared &shared, u32 count, Order order, Bits *out,
                                                       const Value *values, Value *values_out, Span span) {
        static_assert(!FINER || sizeof(shared.by_bins.items) >= (BIN_COUNT + 1) * sizeof(u16), "room for its table");
        if constexpr (FINER)
            if (FinerBins<BucketSort, LOG_BINS>::run(shared.by_bins, count, order, out, values, values_out, span))
                return;
        Tile t(shared.tile, count);
        const Bits *keys = offsets(shared.by_bins);
        __syncthreads();
        t.load(keys, Encoded());
        typename Tile::TagWord source[ITEMS];
        __syncthreads(); // all threads have read their keys
        sort_digits(t, source, 0, span.bits);
        Value value[HAS_VALUES ? ITEMS : 1];
        if constexpr (HAS_VALUES) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) value[i] = values[source[i]];
            __syncthreads(); // before the first is stored: they may lie where they go
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                if (!HAS_VALUES || out) out[t.at(i)] = order.from(span.key(t.key[i]));
                if constexpr (HAS_VALUES) values_out[t.at(i)] = value[i];
            }
    }

    // ---- output ---------------------------------------------------------------------------------

    // Writes sorted items, whose low bits are positions, and their payload. Its copy is in flight
    // or, for `values_last`, starts when no key is needed any more.
    static __device__ void write_pairs(BinShared &s, const Span &span, Order order, Bits *out, const Value *values,
                                       Value *values_out, u32 count, u32 position_bits, bool is_packed) {
        u32 mask = (1u << position_bits) - 1;
        bool values_last = LARGE && !is_packed, wants_keys = out && !values_last;
        if (values_last) {
            __syncthreads();
            if (out)
                for (u32 j = threadIdx.x; j < count; j += THREADS)
                    out[j] = order.from(span.key(s.staged.keys[u32(s.items[j]) & mask]));
            __syncthreads();
            copy_values(s, values, count);
        }
        wait_for_copies();
        __syncthreads();
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (row * THREADS >= count) break;
            Item item[ROWS];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) item[i - row] = at(i) < count ? s.items[at(i)] : 0;
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++)
                if (at(i) < count) values_out[at(i)] = s.staged.values[u32(item[i - row]) & mask];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++)
                if (wants_keys && at(i) < count)
                    out[at(i)] = order.from(span.key(is_packed ? item[i - row] >> position_bits
                                                               : s.staged.keys[u32(item[i - row]) & mask]));
        }
    }

    static __device__ void write_keys(const BinShared &s, const Span &span, Order order, Bits *out, u32 count) {
        rows(count, [&](u32 i) {
            if (at(i) < count) out[at(i)] = order.from(span.key(s.items[at(i)]));
        });
    }

    // The same if up to three adjacent keys, of one count, may be in any order.
    static __device__ void write_nearly_sorted(const BinShared &s, const Span &span, Order order, Bits *out,
                                               u32 count) {
        rows(count, [&](u32 i) {
            u32 position = at(i), to = position;
            if (position >= count) return;
            Item own = s.items[position];
#pragma unroll
            for (u32 k = 1; k <= 2; k++) {
                if (i > 0 || position >= k) to -= s.items[position - k] > own;
                to += s.items[position + k] < own; // two items behind the last one are never less
            }
            out[to] = order.from(span.key(own));
        });
    }

    // ---- positions by counts --------------------------------------------------------------------

    // The index of a word of counts, swizzled: of the vectors with the same number in adjacent
    // threads, eight lie in different banks.
    static __device__ u32 word_of(u32 word) {
        static_assert(WORDS_EACH == 8 && WORDS <= BIN_COUNT, "two vectors of a thread");
        return word ^ (word / WORDS_EACH & 4);
    }
    // The number of keys in a word of two-bit counts.
    static __device__ u32 counted(u32 fields) { return __popc(fields) + __popc(fields & 0xaaaaaaaa); }

    // Counts keys by the low bits of `number(i)`, in fields of two bits, sixteen to a word. The
    // fields and the number of keys before each word give each key its position. Returns false, and
    // has moved no key, if a number occurs more than three times.
    template <class Number>
    static __device__ bool place_by_counts(BinShared &s, const ThreadKeys &t, const Number &number) {
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < WORDS / 4; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        __syncthreads();
        bool full = false;
        u32 ranks = 0; // two bits for each row
        static_assert(2 * ITEMS <= 32, "two bits an item in a word");
        int left = t.left();
        t.rows([&](u32 i) {
            u32 low = number(i), field = low % FIELDS * 2; // of a missing key: any
            u32 *word = s.bins + word_of(low / FIELDS % WORDS);
            u32 rank = fetch_add_if(left, i * THREADS, word, 1u << field) >> field & 3;
            ranks |= rank << 2 * i;
            // A fourth key overflows its field. Then no count is used.
            full |= t.is_there(i) && rank == 3;
        });
        if (__syncthreads_or(full)) return false;
        u32 sum = 0, earlier[WORDS_EACH];
#pragma unroll
        for (u32 v = 0; v < WORDS_EACH / 4; v++) {
            Vector fields = vectors[word_of(threadIdx.x * WORDS_EACH + v * 4) / 4];
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                earlier[v * 4 + e] = sum;
                sum += counted(fields.word[e]);
            }
        }
        u32 inclusive = warp_inclusive_sum(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = inclusive;
        __syncthreads();
        u32 first = inclusive - sum + sum_of_earlier_warps(s.totals);
        u16 before[WORDS_EACH];
#pragma unroll
        for (u32 e = 0; e < WORDS_EACH; e++) before[e] = u16(first + earlier[e]);
        static_assert(sizeof(before) == sizeof(Vector), "one vector of a thread");
        memcpy((Vector *)s.before + threadIdx.x, before, sizeof(Vector));
        if (COUNTS_PARTS && threadIdx.x < 2) s.items[t.count + threadIdx.x] = Item(~Item(0));
        __syncthreads();
        t.rows([&](u32 i) {
            u32 low = number(i), word = low / FIELDS % WORDS,
                below = s.bins[word_of(word)] & ~(~0u << low % FIELDS * 2);
            u32 position = s.before[word] + counted(below) + (ranks >> 2 * i & 3);
            if (t.is_there(i)) s.items[position] = t.key[i];
        });
        __syncthreads();
        return true;
    }

    static __device__ void compare_exchange(Item &a, Item &b) {
        Item low = min(a, b), high = max(a, b);
        a = low;
        b = high;
    }
};
