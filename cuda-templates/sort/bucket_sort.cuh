// Radix sort by buckets: one of them, or a slot, in one block, by one of these ways.
//
// - Keys alone that are not dense: each that there could be is counted, or some side by side together, and the counts tell all places.
// - Each key to a bin by its next bits, about as many bins as keys; then a thread puts the keys of a few bins in order, or a warp if they are many.
// - Where these do not tell them apart, of slots: each of these bins becomes as many as its keys need.
// - Where keys are much alike even so, or there are no finer bins: digit by digit.
#pragma once
#include "sort/finer_bins.cuh"
#include "sort/slots.cuh"

// UNEVEN: keys may come between splitters or by cells, where they need not be spread evenly. Then values are not where they go.
template <class Order, class Tile, u32 LOG_BINS, bool UNEVEN> struct BucketSort {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    typedef Bits Item; // what is put in order: what is left of a key, or where something goes with it its last bits and where in the bucket it was
    static constexpr bool HAS_VALUES = Tile::HAS_VALUES;
    static constexpr u32 THREADS = Tile::THREADS, ITEMS = Tile::ITEMS, WARPS = THREADS / WARP, FINE = 1 << LOG_BINS, WIDTH = 8 * sizeof(Bits);
    static constexpr u32 EACH = 8, TURNS = FINE / (EACH * THREADS); // bins of a thread side by side, and how often it has so many
    static constexpr u32 ROWS = 3;     // that are asked for together
    static constexpr u32 RUN = 16, LONG_RUN = WIDTH == 32 ? 24 : HAS_VALUES ? RUN : 20; // items that a thread puts in order in its registers, as a rule and at most
    static constexpr u32 LONGEST = 4 * WARP; // and a warp
    static constexpr bool LARGE = THREADS > 512; // keys and values have the same room, one after the other
    static_assert(TURNS * EACH * THREADS == FINE && Tile::TILE <= 1 << 15, "bins for all threads");
    static constexpr u32 COUNTED = 16, FIELDS = 16, WORDS = (1 << COUNTED) / FIELDS, WORDS_EACH = WORDS / THREADS;
    static constexpr u32 SELDOM_FOUR = 10; // where numbers are so many times as many as keys, four keys share one in one bucket of five
    // Whether keys are counted where few of their bits are left, and where they are more.
    static constexpr bool FEW_BITS = !HAS_VALUES && sizeof(Bits) <= 4 && !LARGE, MORE_BITS = !HAS_VALUES && !LARGE && !UNEVEN;
    static constexpr u32 BESIDE = HAS_VALUES ? Tile::TILE : 1;
    static_assert(!MORE_BITS || Tile::TILE <= (1 << COUNTED) / SELDOM_FOUR, "so many parts are more than enough for any bucket");
    struct Both {
        Bits keys[BESIDE];
        Value values[BESIDE];
    };
    union InTurn {
        Bits keys[BESIDE];
        Value values[BESIDE];
    };
    struct Fine {
        alignas(16) Item items[Tile::TILE + (MORE_BITS ? 2 : 0)];
        alignas(16) u32 bins[FINE]; // or WORDS of fields
        alignas(16) u16 before[FEW_BITS || MORE_BITS ? WORDS : 8]; // keys that come before each of these
        u32 totals[TURNS * WARPS];
        Bits ends[3 * WARPS];
        typename If<LARGE, InTurn, Both>::Type beside;
    };
    union Shared {
        typename Tile::Shared tile;
        Fine fine;
        ManyEqual<Bits> many;
        __device__ Shared() {}
    };
    // Keys are the least of them and a number up to `most`, of so many bits, with `zeros` zeros more at the end.
    struct Span {
        Bits least, most;
        u32 bits, zeros;
        __device__ Span(Bits least, Bits most, u32 bits, u32 zeros) : least(least), most(most), bits(bits), zeros(zeros) {}
        // Those of a number's bucket, of whose keys so many bits are left.
        __device__ Span(u32 bucket, u32 bits) : Span(bits < WIDTH ? Bits(Bits(bucket) << bits) : 0, Bits(~Bits(0)) >> (WIDTH - bits), bits, 0) {}
        __device__ Bits rest(Bits key) const { return Bits(key - least) >> zeros; }
        __device__ Bits key(Bits rest) const { return Bits(rest << zeros) + least; }
    };

    // Every THREADS-th key of a bucket, or what is left of it.
    struct Mine {
        Bits key[ITEMS];
        u32 count; // of the bucket's

        // `f(i)` for the rows that there are, some at once, of which a few may not be there.
        template <class F> __device__ void rows(const F &f) const { BucketSort::rows(count, f); }
        __device__ int left() const { return int(count - threadIdx.x); }
        __device__ bool is_there(u32 i) const { return at(i) < count; }
        template <class Load> __device__ Mine(u32 count, const Load &load) : count(count) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) key[i] = is_there(i) ? load(at(i)) : Bits(0);
        }
        __device__ void change(const Span &span) {
            rows([&](u32 i) { key[i] = span.rest(key[i]); });
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

    // The buckets of the block's number and on.
    static __device__ void run_buckets(Shared &shared, const SortCall &call, const BucketCall &buckets) {
        const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
        const SortPlan<sizeof(Bits) + 1> &plan = *(const SortPlan<sizeof(Bits) + 1> *)call.plan;
        // All are asked for together.
        bool by_passes = plan.all_by_passes(call.n);
        Places<u32> left = plan.left_by_buckets();
        u32 lower_bits = map.lower_bits, bucket = blockIdx.x;
        u32 first = buckets.starts[bucket], end = buckets.starts[bucket + 1];
        bool by_bits = map.route == BY_BITS;
        u32 bits = call.end - DIGIT_BITS - lower_bits, all = BINS << lower_bits;
        if (by_passes || bucket >= all) return;
        for (;;) {
            u32 later = min(bucket + buckets.at_once, all - 1), count = end - first; // later: will soon be sorted
            u32 later_first = buckets.starts[later], later_end = buckets.starts[later + 1];
            if (count > 0 && count <= buckets.room && !left.has(first)) { // a larger one is done, or left to the passes
                Bits *keys = (Bits *)call.keys[0] + first;
                Value *values = (Value *)call.values[0] + first;
                Mine t(count, [=](u32 at) { return keys[at]; });
                if ((!HAS_VALUES || LARGE) && later_end - later_first <= buckets.room) // into the L2 cache
                    prefetch_lines<THREADS>((const Bits *)call.keys[0] + later_first, (later_end - later_first) * sizeof(Bits));
                __syncthreads(); // the bucket before is out
                run(shared, t, call, call.no_keys ? nullptr : keys, values, values, by_bits ? Span(bucket, bits) : span(shared, t));
            }
            bucket += gridDim.x;
            if (bucket >= all) return;
            first = buckets.starts[bucket];
            end = buckets.starts[bucket + 1];
        }
    }

    // The slot of the block's number, from its place in scratch memory.
    static __device__ void run_slot(Shared &shared, const SortCall &call, const SlotCall &slots, u32 route) {
        __shared__ u32 before[BINS / WARP];
        __shared__ EqualOfDigit<Bits> own_equal;
        bool by_splitters = route == SLOTS_BY_SPLITTERS, by_cells = route == SLOTS_BY_CELLS;
        bool has_slot = !by_splitters || blockIdx.x < VALUES;
        u32 slot = has_slot ? blockIdx.x : 0, digit = by_splitters ? 2 * slot : slot, d = threadIdx.x;
        const EqualKeys<Bits> &equal = *(const EqualKeys<Bits> *)slots.equal;
        bool has_equal = by_splitters || by_cells, is_many = false;
        if (d < BINS) {
            u32 keys = slots.counts[d], earlier = warp_add(d < digit ? keys : 0);
            if (lane_id() == 0) before[warp_id()] = earlier;
            is_many = has_equal && keys > of_one_block(route) && equal.has(d);
        }
        u32 count = slots.counts[digit], first = 0, bits = call.end - slots.bits, own = by_splitters ? digit + 1 : digit;
        if (!has_equal || !has_slot || !equal.has(own)) own = BINS; // no frequent key's
        if (!has_slot || (by_cells && own < BINS)) count = 0;       // the slot is empty
        const Bits *keys = (const Bits *)slots.keys + u64(slot) * slots.room;
        Mine t(count, [=](u32 at) { return keys[at]; });
        if (own < BINS && d == 0) own_equal.template ask_for<HAS_VALUES>(slots, own);
        is_many = __syncthreads_or(is_many);
        for (u32 w = 0; w < BINS / WARP; w++) first += before[w];
        Order order{Bits(call.flip)};
        Bits *out = call.no_keys ? nullptr : (Bits *)call.keys[0];
        Value *values_out = (Value *)call.values[0];
        const Value *values = (const Value *)slots.values;
        if (count > 0)
            run(shared, t, call, out ? out + first : out, values + u64(slot) * slots.room, values_out + first,
                route == SLOTS_BY_BITS ? Span(slot, bits) : span(shared, t));
        if (own < BINS) {
            if (d == 0) wait_for_copies();
            __syncthreads();
            u32 equals = own_equal.count, start = first + count;
            if (equals > 0 && equals <= of_one_block(route))
                place_equal(out ? out + start : out, equals, order.from(own_equal.key), values_out + start, HAS_VALUES ? values + own_equal.begin : values, d,
                            THREADS);
        }
        if (is_many) place_many<Order, Bits, Value, THREADS>(shared.many, order, slots.counts, equal, of_one_block(route), out, values_out, values);
    }
    // So many frequent keys: by cells, while others sort slots, or equal to splitters, where others may have nothing to sort.
    static __device__ u32 of_one_block(u32 route) {
        bool by_cells = route == SLOTS_BY_CELLS;
        return (HAS_VALUES ? (by_cells ? 48 : 8) : (by_cells ? 192 : 24)) * THREADS;
    }

    // As many keys as a block holds, from anywhere.
    static __device__ void run_one(Shared &shared, const SortCall &call) {
        Order order{Bits(call.flip)};
        const Bits *from = (const Bits *)call.keys_in;
        Mine t(u32(call.n), [=](u32 at) { return order.to(from[at]); });
        run(shared, t, call, (Bits *)call.keys[0], nullptr, nullptr, Span(0, call.end));
    }

  private:
    template <class Sort, u32 LOG> friend struct FinerBins;

    // By the whole block, of one key at least.
    static __device__ Span span(Shared &shared, const Mine &t) {
        Fine &s = shared.fine;
        if (threadIdx.x == 0) s.items[0] = t.key[0]; // any of them
        __syncthreads();
        Bits one = s.items[0], turned = 0, greatest = 0, differing = 0; // turned: the least, all bits
        t.rows([&](u32 i) {
            if (!t.is_there(i)) return;
            turned = max(turned, Bits(~t.key[i]));
            greatest = max(greatest, t.key[i]);
            differing |= t.key[i] ^ one;
        });
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

    // Keys to `out`, if anybody wants them; values from `values` to `values_out`, which may be the same.
    static __device__ void run(Shared &shared, Mine &t, const SortCall &call, Bits *out, const Value *values, Value *values_out, Span span) {
        Order order{Bits(call.flip)};
        Fine &s = shared.fine;
        u32 count = t.count;
        t.change(span);
        if constexpr (FEW_BITS)
            if (span.bits <= COUNTED && span.most / SELDOM_FOUR >= count) {
                if (place_by_counts(s, t, [&](u32 i) { return u32(t.key[i]); })) {
                    write_keys(s, span, order, out, count);
                    return;
                }
                Span narrow = BucketSort::span(shared, t); // many are equal
                t.change(narrow);
                span = Span(span.key(narrow.least), narrow.most, narrow.bits, span.zeros + narrow.zeros);
            }
        if (span.bits == 0) { // all are equal
            Bits key = order.from(span.least);
            rows(count, [&](u32 i) {
                if (at(i) >= count) return;
                if (!HAS_VALUES || out) out[at(i)] = key;
                if constexpr (HAS_VALUES)
                    if (values != values_out) values_out[at(i)] = values[at(i)];
            });
            return;
        }
        // An item has all that is left of its key and below it where it was, if both fit; else as much as fits, and keys lie apart.
        u32 place_bits = HAS_VALUES ? 32 - __clz(int(count - 1)) : 0;
        bool has_all = span.bits + place_bits <= WIDTH, in_order = !HAS_VALUES && span.bits <= LOG_BINS; // then keys of a bin are equal
        bool values_last = LARGE && !has_all;
        Bits most = span.most;
        if (HAS_VALUES && has_all) {
            most = Bits(most << place_bits) | Bits((Bits(1) << place_bits) - 1);
            t.rows([&](u32 i) { t.key[i] = Bits(t.key[i] << place_bits) | at(i); });
        }
        // All bins are used, whatever the span is.
        u32 beyond = WIDTH == 64 && most >> (WIDTH / 2) != 0 ? 32 - __clz(int(most >> (WIDTH / 2))) : 0;
        u32 upper = u32(most >> beyond);
        if constexpr (MORE_BITS)
            if (span.bits > COUNTED) {
                u32 factor = factor_for(upper, 1 << COUNTED);
                if (place_by_counts(s, t, [&](u32 i) { return __umulhi(u32(t.key[i] >> beyond), factor); })) {
                    write_nearly_sorted(s, span, order, out, count);
                    return;
                }
            }
        u32 factor = factor_for(upper, FINE);
        auto bin_of = [&](u32 i) { return in_order ? u32(t.key[i]) : __umulhi(u32(t.key[i] >> beyond), factor); };
        clear_bins(s);
        if constexpr (HAS_VALUES) {
            if (values_last) prefetch_lines<THREADS>(values, count * Value::BYTES);
            else copy_values(s, values, count);
        }
        __syncthreads();
        int left = t.left();
        t.rows([&](u32 i) { only_count_if(left, i * THREADS, s.bins + bin_of(i)); });
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
            u32 upto = warp_upto(sum);
            if (lane_id() == WARP - 1) totals[warp_id()] = upto;
            // Whether a thread would have more than even a warp puts in order: then another way, which is slower and does not mind.
            if (__syncthreads_or(sum > LONGEST && !in_order) || span.bits > WIDTH - place_bits + LOG_BINS - 4) {
                if (HAS_VALUES) wait_for_copies();
                __syncthreads(); // they are there, and of LARGE nobody needs them
                Bits *keys = rest(s);
                t.rows([&](u32 i) {
                    if (t.is_there(i)) keys[at(i)] = has_all ? t.key[i] >> place_bits : t.key[i];
                });
                by_digits(shared, count, order, out, values, values_out, span);
                return;
            }
            u32 begin = earlier + upto - sum + warps_before(totals);
            if (TURNS > 1) earlier += warp_add(lane_id() < WARPS ? totals[lane_id()] : 0); // in every turn: see `places_of_bins`
#pragma unroll
            for (u32 e = 0; e < EACH; e += 4)
                ((Vector *)s.bins)[bin_at(turn) / 4 + e / 4] = Vector{{begin + bin[e], begin + bin[e + 1], begin + bin[e + 2], begin + bin[e + 3]}};
        }
        __syncthreads();
        // A bin's begin becomes its end.
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (row * THREADS >= count) break;
            u32 place[ROWS];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) place[i - row] = count_if(left, i * THREADS, s.bins + bin_of(i), 1);
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                if (!t.is_there(i)) continue;
                if (HAS_VALUES && !has_all) s.beside.keys[at(i)] = t.key[i];
                s.items[place[i - row]] = has_all ? t.key[i] : Item(t.key[i] << place_bits) | at(i);
            }
        }
        __syncthreads();
        if (!in_order) {
            // What a thread's items have at least is taken off, so that the bits that they hold do not run over.
            auto base = [=](u32 bin) { return has_all ? Item(0) : Item(Item((u64(bin) * upper >> LOG_BINS) << beyond) << place_bits); };
            u32 long_turns = 0; // in which they are too many
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
                put_in_order(s.items + begin, items, warp_max(longest), base(bin_at(turn)));
            }
            if (__syncthreads_or(long_turns)) long_runs_in_order(s, long_turns, base);
        }
        if constexpr (HAS_VALUES) write_pairs(s, span, order, out, values, values_out, count, place_bits, has_all);
        else {
            __syncthreads();
            write_keys(s, span, order, out, count);
        }
    }

    // The first of the bins that a thread has in a turn.
    static __device__ u32 bin_at(u32 turn) { return (turn * THREADS + threadIdx.x) * EACH; }
    // Where the items of these begin, when bins are ends.
    static __device__ u32 begin_of(const Fine &s, u32 turn) { return bin_at(turn) > 0 ? s.bins[bin_at(turn) - 1] : 0; }
    static __device__ void load_bins(const Fine &s, u32 turn, u32 (&bin)[EACH]) {
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4) memcpy(bin + e, (const Vector *)s.bins + (bin_at(turn) + e) / 4, sizeof(Vector));
    }

    static __device__ void copy_values(Fine &s, const Value *values, u32 count) {
        rows(count, [&](u32 i) {
            if (at(i) < count) copy_item_to_shared(s.beside.values + at(i), values + at(i));
        });
    }

    // Of items side by side, each at most as far from its place as the longest of their bins is long. All have `base` at least, and lose it: where each was,
    // in its last bits, is not of it.
    static __device__ void put_in_order(Item *items, u32 count, u32 longest, Item base) {
        u32 most = LONG_RUN == RUN ? 0 : warp_max(count); // before the branch, so in every turn of the caller: see `places_of_bins`
        if (longest <= 1) return;
        if (most <= RUN) put_run_in_order<RUN>(items, count, longest, base);
        else put_run_in_order<LONG_RUN>(items, count, longest, base);
    }
    template <u32 MOST> static __device__ void put_run_in_order(Item *items, u32 count, u32 longest, Item base) {
        Item item[MOST];
#pragma unroll
        for (u32 j = 0; j < MOST; j++) item[j] = j < count ? Item(items[j] - base) : Item(~Item(0));
        for (u32 step = 0; step < longest; step += 2) {
#pragma unroll
            for (u32 j = 0; j + 1 < MOST; j += 2) order_two(item[j], item[j + 1]);
#pragma unroll
            for (u32 j = 1; j + 1 < MOST; j += 2) order_two(item[j], item[j + 1]);
        }
#pragma unroll
        for (u32 j = 0; j < MOST; j++)
            if (j < count) items[j] = item[j];
    }

    // More items of a thread than it has registers for, which lose their base too: by a warp, whichever is free. Apart, so that it takes no registers from
    // those who never get there.
    template <class Base> static __device__ __noinline__ void long_runs_in_order(Fine &s, u32 turns, Base base) {
        u32 begin[TURNS], end[TURNS], *runs = s.bins, &all = s.totals[0];
#pragma unroll
        for (u32 turn = 0; turn < TURNS; turn++) {
            begin[turn] = begin_of(s, turn);
            end[turn] = s.bins[bin_at(turn) + EACH - 1];
        }
        if (threadIdx.x == 0) all = 0;
        __syncthreads(); // and nobody needs the bins
        static_assert(2 * (Tile::TILE / LONG_RUN) <= FINE, "room for all runs");
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
            if (count <= WARP) warp_in_order<1>(items, count, least);
            else warp_in_order<LONGEST / WARP>(items, count, least);
        }
    }
    template <u32 EACH> static __device__ void warp_in_order(Item *items, u32 count, Item base) {
        Item item[EACH];
#pragma unroll
        for (u32 e = 0; e < EACH; e++) item[e] = lane_id() * EACH + e < count ? Item(items[lane_id() * EACH + e] - base) : Item(~Item(0));
        Bitonic<EACH, Item>{item}.sort_warp();
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (lane_id() * EACH + e < count) items[lane_id() * EACH + e] = item[e];
    }

    // What is left of the keys is where `rest` says, in the order of the bucket.
    static __device__ Bits *rest(Fine &s) {
        if constexpr (UNEVEN && HAS_VALUES) return s.beside.keys;
        else return s.items;
    }
    static __device__ void clear_bins(Fine &s) {
        for (u32 i = threadIdx.x; i < FINE / 4; i += THREADS) ((Vector *)s.bins)[i] = Vector{{0, 0, 0, 0}};
    }
    // `use(bin, begin)`: where each bin's items begin, by how many it has. By the whole block; each thread uses those that it alone has read.
    template <class Use> static __device__ void places_of_bins(Fine &s, const Use &use) {
        u32 earlier = 0;
#pragma unroll 1
        for (u32 turn = 0; turn < TURNS; turn++) {
            u32 bin[EACH], sum = 0, *totals = s.totals + turn * WARPS;
            load_bins(s, turn, bin);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) sum += bin[e];
            u32 upto = warp_upto(sum);
            if (lane_id() == WARP - 1) totals[warp_id()] = upto;
            __syncthreads();
            u32 begin = earlier + upto - sum + warps_before(totals);
            // In the last turn too, where nobody needs it: under a condition of its own CUDA 13.0's ptxas miscompiled the sum.
            if (TURNS > 1) earlier += warp_add(lane_id() < WARPS ? totals[lane_id()] : 0);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                use(bin_at(turn) + e, begin);
                begin += bin[e];
            }
        }
    }
    // By which keys up to `upper` go to so many bins: a little less than it might be. If there are fewer keys, the greatest: then each goes to the bin below its
    // number.
    static __device__ u32 factor_for(u32 upper, u32 bins) {
        return __float2uint_rz(__fdividef(float(1ull << 32) * float(bins) * 0.999999f, __uint2float_rz(upper)));
    }

    // Where bins do not tell keys apart: digit by digit, unless finer bins do. Apart, so that it takes no registers from those who never get there.
    static __device__ __noinline__ void by_digits(Shared &shared, u32 count, Order order, Bits *out, const Value *values, Value *values_out, Span span) {
        constexpr bool HAS_FINER = UNEVEN && sizeof(shared.fine.items) >= (FINE + 1) * sizeof(u16); // room for its table in the items' place
        if constexpr (HAS_FINER)
            if (FinerBins<BucketSort, LOG_BINS>::run(shared.fine, count, order, out, values, values_out, span)) return;
        Tile t(shared.tile, count);
        const Bits *keys = rest(shared.fine);
        __syncthreads();
        t.load([=](u32 at) { return keys[at]; });
        Value value[HAS_VALUES ? ITEMS : 1];
        if constexpr (HAS_VALUES) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) value[i] = values[t.at(i)];
        }
        __syncthreads(); // all are read
        sort_digits_along(t, value, 0, span.bits);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                if (!HAS_VALUES || out) out[t.at(i)] = order.from(span.key(t.key[i]));
                if constexpr (HAS_VALUES) values_out[t.at(i)] = value[i];
            }
    }

    // Items in order, of which the last bits are where it was. What goes with them is on its way, or comes when no key is needed any more.
    static __device__ void write_pairs(Fine &s, const Span &span, Order order, Bits *out, const Value *values, Value *values_out, u32 count, u32 place_bits,
                                       bool has_all) {
        u32 mask = (1u << place_bits) - 1;
        bool values_last = LARGE && !has_all, wants_keys = out && !values_last;
        if (values_last) {
            __syncthreads();
            if (out)
                for (u32 j = threadIdx.x; j < count; j += THREADS) out[j] = order.from(span.key(s.beside.keys[u32(s.items[j]) & mask]));
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
                if (at(i) < count) values_out[at(i)] = s.beside.values[u32(item[i - row]) & mask];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++)
                if (wants_keys && at(i) < count) out[at(i)] = order.from(span.key(has_all ? item[i - row] >> place_bits : s.beside.keys[u32(item[i - row]) & mask]));
        }
    }

    static __device__ void write_keys(const Fine &s, const Span &span, Order order, Bits *out, u32 count) {
        rows(count, [&](u32 i) {
            if (at(i) < count) out[at(i)] = order.from(span.key(s.items[at(i)]));
        });
    }

    // The same where up to three keys side by side, of one count, may be in any order.
    static __device__ void write_nearly_sorted(const Fine &s, const Span &span, Order order, Bits *out, u32 count) {
        rows(count, [&](u32 i) {
            u32 place = at(i), to = place;
            if (place >= count) return;
            Item own = s.items[place];
#pragma unroll
            for (u32 k = 1; k <= 2; k++) {
                if (i > 0 || place >= k) to -= s.items[place - k] > own;
                to += s.items[place + k] < own; // past the last one are two that are not
            }
            out[to] = order.from(span.key(own));
        });
    }

    // Where a word lies: of the vectors that threads side by side have at the same place in theirs, eight are in different banks.
    static __device__ u32 word_of(u32 word) {
        static_assert(WORDS_EACH == 8 && WORDS <= FINE, "two vectors of a thread");
        return word ^ (word / WORDS_EACH & 4);
    }
    // How many keys fields of two bits count.
    static __device__ u32 counted(u32 fields) { return __popc(fields) + __popc(fields & 0xaaaaaaaa); }

    // Keys are counted by `number(i)`, of which the last bits count, in fields of two bits, sixteen to a word: with how many come before the word, that
    // tells each key its place. Whether none was there more than three times; if not, nothing was done.
    template <class Number> static __device__ bool place_by_counts(Fine &s, const Mine &t, const Number &number) {
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < WORDS / 4; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        __syncthreads();
        bool full = false;
        u32 ranks = 0; // two bits of each
        static_assert(2 * ITEMS <= 32, "a word has them");
        int left = t.left();
        t.rows([&](u32 i) {
            u32 low = number(i), field = low % FIELDS * 2; // of one that is not there anything
            u32 rank = count_if(left, i * THREADS, s.bins + word_of(low / FIELDS % WORDS), 1u << field) >> field & 3;
            ranks |= rank << 2 * i;
            // Past three the field runs over, and nothing that is counted is used.
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
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u32 first = upto - sum + warps_before(s.totals);
        u16 before[WORDS_EACH];
#pragma unroll
        for (u32 e = 0; e < WORDS_EACH; e++) before[e] = u16(first + earlier[e]);
        static_assert(sizeof(before) == sizeof(Vector), "one vector of a thread");
        memcpy((Vector *)s.before + threadIdx.x, before, sizeof(Vector));
        if (MORE_BITS && threadIdx.x < 2) s.items[t.count + threadIdx.x] = Item(~Item(0));
        __syncthreads();
        t.rows([&](u32 i) {
            u32 low = number(i), word = low / FIELDS % WORDS, below = s.bins[word_of(word)] & ~(~0u << low % FIELDS * 2);
            u32 place = s.before[word] + counted(below) + (ranks >> 2 * i & 3);
            if (t.is_there(i)) s.items[place] = t.key[i];
        });
        __syncthreads();
        return true;
    }

    static __device__ void order_two(Item &a, Item &b) {
        Item low = min(a, b), high = max(a, b);
        a = low;
        b = high;
    }
};
