// Radix sort by buckets: most significant digit first, by all bits of the keys.
//
//   sample   a few keys are looked at, evenly spread over the input            sort/bucket_sample.cuh
//   map      how keys go to buckets, so that each has about as many           sort/bucket_map.cuh
//   count    the keys of each bucket, in one read of all
//   plan     where buckets begin, and what lies between those that do not fit a block
//   first    keys to the buckets' upper digit
//   second   and to their lower one
//   sort     each bucket by one block, in shared memory                        sort/bucket_sort.cuh
//
// Passes sort what lies from the first bucket to the last that is too large for a block, or if that is much, all keys, and then nothing is moved here. What
// is sorted is the same either way.
#pragma once
#include "sort/bucket_sample.cuh"

// ---- count and plan --------------------------------------------------------------------------------------------------------------

// All keys, so many of a thread at once: `use` has them and how many of the block's there are; if not all, then every THREADS-th is a
// thread's.
template <u32 THREADS, u32 UNROLL, class Order, class Bits, class Use> __device__ inline void for_each_batch(const SortCall &call, const Use &use) {
    constexpr u32 STEP = THREADS * UNROLL;
    const Bits *keys = (const Bits *)call.keys_in;
    bool aligned = (u64)keys % sizeof(Vector) == 0;
    Order order{Bits(call.flip)};
    for (u64 first = u64(blockIdx.x) * STEP; first < call.n; first += u64(gridDim.x) * STEP) {
        u32 left = u32(min(call.n - first, u64(STEP)));
        Bits key[UNROLL];
        if (left == STEP && aligned) {
            load_vectors<THREADS>(key, keys + first);
        } else {
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++) {
                u32 at = i * THREADS + threadIdx.x;
                key[i] = at < left ? keys[first + at] : Bits(0);
            }
        }
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) key[i] = order.to(key[i]);
        use(key, left);
    }
}

// One more of what a counter in shared memory counts, if `left` is more than `i`; what it was. By a predicate: a branch for each would wait for one
// before the next is asked for.
__device__ inline u32 count_if(int left, int i, u32 *counter, u32 more) {
    u32 before;
    asm volatile("{\n"
                 ".reg .pred is_there;\n"
                 "setp.gt.s32 is_there, %1, %2;\n"
                 "mov.u32 %0, 0;\n"
                 "@is_there atom.shared.add.u32 %0, [%3], %4;\n"
                 "}"
                 : "=&r"(before)
                 : "r"(left), "r"(i), "r"(u32(__cvta_generic_to_shared(counter))), "r"(more)
                 : "memory");
    return before;
}
// The same where nobody asks.
__device__ inline void only_count_if(int left, int i, u32 *counter) {
    asm volatile("{\n"
                 ".reg .pred is_there;\n"
                 "setp.gt.s32 is_there, %0, %1;\n"
                 "@is_there red.shared.add.u32 [%2], 1;\n"
                 "}" ::"r"(left),
                 "r"(i), "r"(u32(__cvta_generic_to_shared(counter)))
                 : "memory");
}

// Whether the numbers of a warp's lanes are no more than so many, and which. If they are fewer, the rest of `common` is no lane's.
constexpr u32 COMMON = 4;
__device__ inline bool few_in_warp(u32 mine, u32 (&common)[COMMON]) {
    u32 others = ALL_LANES;
#pragma unroll
    for (u32 c = 0; c < COMMON; c++) {
        common[c] = others ? __shfl_sync(ALL_LANES, mine, __ffs(int(others)) - 1) : ~0u;
        others &= __ballot_sync(ALL_LANES, mine != common[c]);
        if (c == 0 && __popc(others) > WARP - 3) return false; // as a rule they have many
    }
    return others == 0;
}

// Counts keys most of which are of the buckets `common`. Each lane counts those in registers, and `count(bucket, keys)` is called once for all that
// the warp has of a bucket; and for every other key.
template <u32 GROUP, u32 UNROLL, class Bits, class Bucket, class Count>
__device__ inline void count_common(const Bits (&key)[UNROLL], Bucket bucket, const u32 (&common)[COMMON], const Count &count) {
    u32 keys[COMMON] = {}, others = 0;
#pragma unroll
    for (u32 g = 0; g < UNROLL; g += GROUP) {
        u32 all = others;
#pragma unroll
        for (u32 i = 0; i < GROUP; i++)
#pragma unroll
            for (u32 c = 0; c < COMMON; c++) keys[c] += bucket(key[g + i]) == common[c];
#pragma unroll
        for (u32 c = 0; c < COMMON; c++) all += keys[c];
        if (all == g + GROUP) continue;
#pragma unroll
        for (u32 i = 0; i < GROUP; i++) {
            u32 found = bucket(key[g + i]);
            bool is_common = false;
#pragma unroll
            for (u32 c = 0; c < COMMON; c++) is_common |= found == common[c];
            if (is_common) continue;
            count(found, 1);
            others++;
        }
    }
#pragma unroll
    for (u32 c = 0; c < COMMON; c++) {
        u32 all = warp_add(keys[c]);
        if (lane_id() == 0 && all > 0) count(common[c], all);
    }
}

// Where a counter is: those of buckets that are a power of two apart are in different banks.
__device__ inline u32 counter_at(u32 i) { return i + i / WARP; }

// Two counters of 16 bits to a word: of buckets that are half of all apart, so that neighbours, which are often frequent together, do not share
// one. A step counts at most 2^15 keys. If a counter had 2^14 before others came, what it has of these goes out after the step: at most 2^7 of a bucket come
// at once, so it has few more than 2^14 if nobody saw that, and none gets to 2^16. Keys of two bytes may be a few values, and then counters get there in
// every step: theirs go out if they have got to 2^15, which takes an instruction more to see.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_by(u32 *counters, const SortCall &call, const BucketCall &buckets, u32 lower_bits, Bucket bucket) {
    constexpr u32 UNROLL = sizeof(Bits) > 4 ? 16 : 32, STEP = THREADS * UNROLL, GROUP = sizeof(Vector) / sizeof(Bits);
    constexpr bool SHORT = sizeof(Bits) == 2;
    constexpr u32 FLUSH = SHORT ? 1 << 15 : 3 << 14, FLUSH_PAIR = FLUSH << 16 | FLUSH; // bits of a counter, and of two
    constexpr u32 LOOKUPS = SHORT ? 1 : 4; // are looked up before the first of them is counted: a table is in the same memory as the counters
    u32 half_bits = DIGIT_BITS - 1 + lower_bits, half = 1u << half_bits;
    static_assert(STEP <= 1 << 15 && UNROLL % LOOKUPS == 0, "2^14, what nobody saw and a step are less than 2^16");
    for_each_batch<THREADS, UNROLL, Order, Bits>(call, [&](const Bits(&key)[UNROLL], u32 left) {
        u32 bits_seen = 0; // bits of counters
        auto count = [&](u32 bucket, u32 keys) {
            u32 more = SHORT ? keys << (bucket >> half_bits) * 16 : keys * (1 + (bucket >> half_bits) * 0xffff);
            u32 before = atomicAdd(counters + counter_at(bucket & (half - 1)), more);
            bits_seen |= SHORT ? before ^ (before + more) : before;
        };
        if (left == STEP && all_same(bucket(key[0]))) { // as likely the others: lanes with the same counter are served one after the other
#pragma unroll
            for (u32 g = 0; g < UNROLL; g += GROUP) {
                u32 found[GROUP];
                bool alike = true;
#pragma unroll
                for (u32 i = 0; i < GROUP; i++) {
                    found[i] = bucket(key[g + i]);
                    alike = alike && found[i] == found[0];
                }
                if (__all_sync(ALL_LANES, alike) && all_same(found[0])) {
                    if (lane_id() == 0) count(found[0], WARP * GROUP);
                    continue;
                }
#pragma unroll
                for (u32 i = 0; i < GROUP; i++) {
                    if (!all_same(found[i])) count(found[i], 1);
                    else if (lane_id() == 0) count(found[i], WARP);
                }
            }
        } else if (u32 common[COMMON]; SHORT && left == STEP && few_in_warp(bucket(key[0]), common)) {
            count_common<GROUP>(key, bucket, common, count);
        } else {
            // A short key is looked up, by its bits, when it is known to be there.
#pragma unroll
            for (u32 g = 0; g < UNROLL; g += LOOKUPS) {
                u32 found[LOOKUPS];
#pragma unroll
                for (u32 i = 0; i < LOOKUPS; i++) found[i] = SHORT ? 0 : bucket(key[g + i]);
#pragma unroll
                for (u32 i = 0; i < LOOKUPS; i++)
                    if (left == STEP || (g + i) * THREADS + threadIdx.x < left) count(SHORT ? bucket(key[g + i]) : found[i], 1);
            }
        }
        if (!__syncthreads_or(bits_seen & FLUSH_PAIR)) return;
        for (u32 i = threadIdx.x; i < half; i += THREADS) {
            u32 &both = counters[counter_at(i)], full = both & FLUSH_PAIR;
            if (full == 0) continue;
            both -= full;
#pragma unroll
            for (u32 k = 0; k < 2; k++)
                if (full >> k * 16 & FLUSH) {
                    u32 flushed = SHORT ? FLUSH : full >> k * 16 & FLUSH;
                    atomicAdd(buckets.counts + i + k * half, flushed);
                    atomicAdd(buckets.tops + (i >> lower_bits) + k * BINS / 2, flushed);
                }
        }
        __syncthreads();
    });
    __syncthreads();
    // A warp adds up those of two first digits.
    u32 per_coarse = 1u << lower_bits;
    for (u32 turn = warp_id(); turn < BINS / 2; turn += THREADS / WARP) {
        u32 coarse = (turn + blockIdx.x) % (BINS / 2), sums[2] = {0, 0}; // blocks begin at different ones, so that fewer meet
        for (u32 i = coarse * per_coarse + lane_id(); i < (coarse + 1) * per_coarse; i += WARP) {
            u32 both = counters[counter_at(i)];
#pragma unroll
            for (u32 k = 0; k < 2; k++) {
                u32 keys = both >> k * 16 & 0xffff;
                if (keys > 0) atomicAdd(buckets.counts + i + k * half, keys);
                sums[k] += keys;
            }
        }
#pragma unroll
        for (u32 k = 0; k < 2; k++) {
            u32 sum = warp_add(sums[k]);
            if (lane_id() == 0 && sum > 0) atomicAdd(buckets.tops + coarse + k * BINS / 2, sum);
        }
    }
}

// A few buckets. Lanes side by side have counters of their own.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_few(u32 *counters, const SortCall &call, const BucketCall &buckets, Bucket bucket) {
    constexpr u32 UNROLL = 8;
    for (u32 i = threadIdx.x; i < BINS * FEW_COPIES; i += THREADS) counters[i] = 0;
    __syncthreads();
    u32 copy = threadIdx.x % FEW_COPIES;
    for_each_batch<THREADS, UNROLL, Order, Bits>(call, [&](const Bits(&key)[UNROLL], u32 left) {
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++)
            if (left == THREADS * UNROLL || i * THREADS + threadIdx.x < left) atomicAdd(counters + bucket(key[i]) * FEW_COPIES + copy, 1);
    });
    __syncthreads();
    if (threadIdx.x >= BINS) return;
    u32 sum = 0;
#pragma unroll
    for (u32 c = 0; c < FEW_COPIES; c++) sum += counters[threadIdx.x * FEW_COPIES + (c + threadIdx.x) % FEW_COPIES];
    if (sum == 0) return;
    atomicAdd(buckets.counts + threadIdx.x, sum);
    atomicAdd(buckets.tops + threadIdx.x, sum);
}

// A bucket for each key of two bytes.
template <class Order, class Bits, u32 THREADS> __device__ void key_count(u32 *counters, const SortCall &call, const BucketCall &buckets) {
    for (u32 i = threadIdx.x; i < counter_at(BUCKETS / 2); i += THREADS) counters[i] = 0;
    __syncthreads();
    bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, DIGIT_BITS, BucketByBits<Bits>(DIGIT_BITS));
}

// `shared` has a table of cells, and then the counters.
template <class Order, class Bits, u32 THREADS> __device__ void bucket_count(u32 *shared, const SortCall &call, const BucketCall &buckets) {
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    u32 lower_bits = map.lower_bits, *counters = shared + BucketMap<Bits>::CELLS;
    if (map.route == BY_VALUES) {
        Bits *values = (Bits *)shared;
        BucketByValues<Bits>::load(values, map);
        bucket_count_few<Order, Bits, THREADS>(counters, call, buckets, BucketByValues<Bits>{values});
        return;
    }
    for (u32 i = threadIdx.x; i < counter_at(BINS / 2 << lower_bits); i += THREADS) counters[i] = 0;
    if (map.route == BY_CELLS) BucketByCells<Bits>::load(shared, map);
    wait_for_table();
    if (map.route == BY_BITS) bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits, BucketByBits<Bits>(lower_bits));
    else if (map.route == BY_RANGE) bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits, BucketByRange<Bits>(map));
    else bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits, BucketByCells<Bits>(map, shared));
}

// By a block for each first digit, of a thread for each second: where buckets begin. How many keys its bucket has.
__device__ inline u32 bucket_starts(const SortCall &call, const BucketCall &buckets, u32 lower_bits, u32 tile) {
    __shared__ u32 totals[2 * BINS / WARP], base, tiles;
    u32 coarse = blockIdx.x, d = threadIdx.x, others = buckets.tops[d];
    u32 keys = warp_add(d < coarse ? others : 0), of_tiles = warp_add(d < coarse ? (others + tile - 1) / tile : 0);
    if (lane_id() == 0) {
        totals[warp_id()] = keys;
        totals[BINS / WARP + warp_id()] = of_tiles;
    }
    __syncthreads();
    if (d == 0) {
        u32 a = 0, b = 0;
        for (u32 w = 0; w < BINS / WARP; w++) {
            a += totals[w];
            b += totals[BINS / WARP + w];
        }
        base = a;
        tiles = b;
    }
    __syncthreads();
    u32 per_coarse = 1u << lower_bits, bucket = coarse * per_coarse + d, count = d < per_coarse ? buckets.counts[bucket] : 0;
    u32 start = base + block_before<BINS>(count, totals);
    if (d < per_coarse) {
        buckets.starts[bucket] = start;
        if (buckets.cursors) buckets.cursors[bucket] = start;
    }
    if (d == 0) {
        if (buckets.top_cursors) buckets.top_cursors[coarse * TOP_APART] = base;
        buckets.begins[coarse] = {tiles, base};
    }
    if (coarse == BINS - 1 && d == BINS - 1) {
        buckets.starts[BINS * per_coarse] = u32(call.n);
        buckets.begins[BINS] = {tiles + (others + tile - 1) / tile, u32(call.n)};
    }
    return count;
}

// And which places are left to the passes: from the first bucket that does not fit a block to the last one.
template <class Bits> __device__ void bucket_plan(const SortCall &call, const BucketCall &buckets, u32 tile) {
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (plan.too_large) return;
    BucketMap<Bits> &map = *(BucketMap<Bits> *)buckets.map;
    u32 count = bucket_starts(call, buckets, map.lower_bits, tile), bucket = (blockIdx.x << map.lower_bits) + threadIdx.x;
    bool is_left = count > buckets.room && !(map.single[bucket / 32] >> bucket % 32 & 1);
    if (__any_sync(ALL_LANES, is_left)) {
        u32 first = is_left ? buckets.starts[bucket] : ~0u, first_inverted = warp_max(~first), end = warp_max(is_left ? first + count : 0);
        if (lane_id() == 0) {
            atomicMax(&plan.left_turned, first_inverted);
            atomicMax(&plan.left_end, end);
        }
    }
    Singles<Bits> &singles = map.singles;
    if (threadIdx.x >> map.lower_bits > 0) return;
    if (bucket == singles.bucket) singles.begin = buckets.starts[bucket];
    if (bucket + 1 == singles.bucket + singles.keys) singles.end = buckets.starts[bucket] + count;
}

// ---- to the buckets --------------------------------------------------------------------------------------------------------------

// Keys alone, whose order nobody sees: a tile's to places that `claim(digit, total)` gives. Whether there is a digit of each.
template <class Tile, class D, class Load, class Put, class Claim>
__device__ inline bool any_order_tile(Tile &t, D digit, const Load &load, const Put &put, const Claim &claim) {
    if (!TABLE_FIRST<D>) t.load(load);
    t.template empty_block_bins<D>();
    if (!digit.prepare()) return false; // what it needs may have come while the keys did
    if (TABLE_FIRST<D>) t.load(load);
    t.rank(digit);
    u64 position = 0;
    t.template scatter<D>([&](u32 d, u32 total) { position = total ? claim(d, total) : 0; }, [&](u32, u32) { return position; });
    t.store_any(digit, put);
    return true;
}
template <class Tile, class D, class Load, class Put, class Claim>
__device__ __noinline__ bool any_order_partial(typename Tile::Shared &s, u32 count, D digit, Load load, Put put, Claim claim) {
    Tile t(s, count);
    return any_order_tile(t, digit, load, put, claim);
}
template <class Tile, class D, class Load, class Put, class Claim>
__device__ inline bool any_order(typename Tile::Shared &s, u64 left, D digit, const Load &load, const Put &put, const Claim &claim) {
    if (left >= Tile::TILE) {
        typename Tile::Whole t(s, Tile::TILE);
        return any_order_tile(t, digit, load, put, claim);
    } else {
        return any_order_partial<typename Tile::Part>(s, u32(left), digit, load, put, claim);
    }
}

// A tile of the second step: which it is of its first digit, where its keys begin, and how many of the digit's are left from there.
struct CoarseTile {
    u32 coarse, number, at, left;
};
// Whether there is such a tile. Each thread asks for all that there is to know of its own first digit, so that no read waits for another.
template <u32 TILE> __device__ inline bool find_tile(const BucketCall &buckets, u32 tile, CoarseTile &part) {
    __shared__ CoarseTile found;
    Begin begin = {0, 0}, end = {0, 0};
    if (threadIdx.x < BINS) {
        begin = buckets.begins[threadIdx.x];
        end = buckets.begins[threadIdx.x + 1];
    }
    bool is_mine = begin.tile <= tile && tile < end.tile;
    if (is_mine) {
        u32 number = tile - begin.tile, at = begin.key + number * TILE;
        found = {threadIdx.x, number, at, end.key - at};
    }
    if (!__syncthreads_or(is_mine)) return false;
    part = found;
    return true;
}

// Single keys of which none was moved, to where they lie in a tile. What is left of it: the others of its first digit are where that begins.
template <class Order, class Tile, class Bits>
__device__ inline u32 write_one_key_run(typename Tile::Shared &s, const SortCall &call, const BucketCall &buckets, u32 lower_bits, const Singles<Bits> &singles,
                                    Places<u32> left, CoarseTile part) {
    u32 per_coarse = 1u << lower_bits, bucket = part.coarse << lower_bits, end = part.at + part.left;
    u32 from = max(part.at, singles.begin), to = min(part.at + min(part.left, Tile::TILE), singles.end);
    if (from < to) {
        for (u32 d = threadIdx.x; d <= per_coarse; d += Tile::THREADS) s.begin[d] = buckets.starts[bucket + d];
        __syncthreads();
        Order order{Bits(call.flip)};
        Bits key = 0, *out = (Bits *)call.keys[0];
#pragma unroll 1
        for (u32 at = from + threadIdx.x, run_end = 0; at < to; at += Tile::THREADS) {
            if (at >= run_end) {
                u32 d = 0;
                for (u32 step = per_coarse / 2; step > 0; step /= 2) d += s.begin[d + step] <= at ? step : 0;
                run_end = s.begin[d + 1];
                key = singles.from + Bits(bucket + d - singles.bucket);
                if (run_end - s.begin[d] > buckets.room && !left.has(at)) key = order.from(key); // else it will be sorted
            }
            out[at] = key;
        }
        __syncthreads();
    }
    u32 begin = part.at - part.number * Tile::TILE, first = max(begin, singles.begin), last = min(end, singles.end);
    if (first < last) end -= last - first;
    return end > part.at ? end - part.at : 0;
}

// What is the same for all tiles of a step.
template <class Order, class Tile, class Bucket> struct BucketStep {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    const SortCall &call;
    const BucketCall &buckets;
    BucketMap<Bits> &map;
    Bucket bucket;
    u32 lower_bits;
    Places<u32> left; // to the passes

    __device__ BucketStep(const SortCall &call, const BucketCall &buckets, Bucket bucket)
        : call(call), buckets(buckets), map(*(BucketMap<Bits> *)buckets.map), bucket(bucket), lower_bits(map.lower_bits),
          left(((const SortPlan<sizeof(Bits) + 1> *)call.plan)->left_by_buckets()) {}
    // The mark of a bucket's places, if its keys are in order as soon as they are there: where a block has no room for them, unless passes sort them.
    __device__ auto marks() const {
        const u32 *starts = buckets.starts;
        u32 room = buckets.room;
        Places<u32> left = this->left;
        return [=](u32 bucket) {
            u32 start = starts[bucket];
            return starts[bucket + 1] - start > room && !left.has(start) ? DONE : 0;
        };
    }

    __device__ void first(typename Tile::Shared &s) const {
        UpperDigit<Bucket> digit{bucket};
        Order order{Bits(call.flip)};
        constexpr bool ONE_STEP = Bucket::ONE_STEP;
        // To the output at once if there is one step, unless the input is there.
        u32 to = ONE_STEP && !call.in_place ? 0 : 1;
        typename If<ONE_STEP, PutDecodeDone<Order, Bits>, PutKey<Order, Bits>>::Type put{(Bits *)(to ? call.keys[1] : call.keys[0]), order};
        const u32 *starts = buckets.starts;
        u32 lower_bits = this->lower_bits;
        auto marks = this->marks();
        auto mark = [=](u32 d) { return ONE_STEP ? marks(d) : 0; };
        if constexpr (!Tile::HAS_VALUES) {
            u64 at = u64(blockIdx.x) * Tile::TILE;
            const Bits *from = (const Bits *)call.keys_in + at;
            u32 *cursors = buckets.top_cursors;
            any_order<Tile>(
                s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put,
                [=](u32 d, u32 total) { return atomicAdd(cursors + d * TOP_APART, total) | mark(d); });
        } else {
            u32 tiles = u32((call.n + Tile::TILE - 1) / Tile::TILE);
            Value *values_out = (Value *)(to ? call.values[1] : call.values[0]);
            for (u32 tile; (tile = draw(s, 0)) < tiles;) {
                u64 at = u64(tile) * Tile::TILE;
                const Bits *from = (const Bits *)call.keys_in + at;
                const Value *values = (const Value *)call.values_in;
                LookBackDigits chain{call.words[0] + u64(tile) * BINS, tile};
                stable_any<Tile>(
                    s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put, values ? values + at : nullptr, at, values_out,
                    [=](u32 d, u32 total) { chain.publish(d, total); },
                    [=](u32 d, u32 total) { return (starts[d << lower_bits] + chain.template receive<1>(d, total)) | mark(d); });
            }
        }
    }

    // What one step has left beside an input that was in the way.
    __device__ void copy_back() const {
        u64 threads = u64(gridDim.x) * Tile::THREADS, thread = u64(blockIdx.x) * Tile::THREADS + threadIdx.x;
        for (u64 i = thread; i < call.n; i += threads) ((Bits *)call.keys[0])[i] = ((const Bits *)call.keys[1])[i];
        if constexpr (Tile::HAS_VALUES)
            for (u64 i = thread; i < call.n; i += threads) ((Value *)call.values[0])[i] = ((const Value *)call.values[1])[i];
    }

    __device__ void second(typename Tile::Shared &s) const {
        CoarseTile part = {}; // where something goes with the keys, of no meaning
        if (Tile::HAS_VALUES || find_tile<Tile::TILE>(buckets, blockIdx.x, part)) second(s, part);
    }
    // Keys alone: that tile. Else all that are drawn.
    __device__ void second(typename Tile::Shared &s, CoarseTile part) const {
        LowerDigit<Bucket> digit{bucket};
        typename Bucket::template Put<Order> put{(Bits *)call.keys[0], Order{Bits(call.flip)}};
        u32 lower_bits = this->lower_bits;
        const u32 *starts = buckets.starts;
        auto marks = this->marks();
        auto mark = [=](u32 bucket) { return Bucket::HAS_LARGE ? marks(bucket) : 0; };
        if constexpr (!Tile::HAS_VALUES) {
            u32 coarse = part.coarse;
            const Bits *from = (const Bits *)call.keys[1] + part.at;
            u32 *cursors = buckets.cursors;
            any_order<Tile>(
                s, part.left, digit, [=](u32 at) { return from[at]; }, put,
                [=](u32 d, u32 total) {
                    u32 bucket = (coarse << lower_bits) + d;
                    return atomicAdd(cursors + bucket, total) | mark(bucket);
                });
        } else {
            for (u32 tile; find_tile<Tile::TILE>(buckets, tile = draw(s, 1), part);) {
                u32 coarse = part.coarse, at = part.at;
                const Bits *from = (const Bits *)call.keys[1] + at;
                LookBackDigits chain{call.words[1] + u64(tile) * BINS, part.number};
                stable_any<Tile>(
                    s, part.left, digit, [=](u32 at) { return from[at]; }, put, (const Value *)call.values[1] + at, at, (Value *)call.values[0],
                    [=](u32 d, u32 total) { chain.publish(d, total); },
                    [=](u32 d, u32 total) {
                        u32 earlier = chain.template receive<1>(d, total), bucket = (coarse << lower_bits) + d;
                        return d >> lower_bits ? 0 : (starts[bucket] + earlier) | mark(bucket);
                    });
            }
        }
    }

  private:
    // The next tile of a step; past the last one there are more.
    __device__ u32 draw(typename Tile::Shared &s, u32 step) const {
        __syncthreads();
        if (threadIdx.x == 0) s.tile = add_relaxed(map.tickets + step, 1);
        __syncthreads();
        return s.tile;
    }
};

// `shared` has the tile, and then a table of cells.
template <class Order, class Tile, bool FIRST> __device__ void bucket_step(Vector *shared, const SortCall &call, const BucketCall &buckets) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shared Shared;
    const SortPlan<sizeof(Bits) + 1> &plan = *(const SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (plan.all_by_passes(call.n)) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    Shared &s = *(Shared *)shared;
    Vector *rest = shared + (sizeof(Shared) + sizeof(Vector) - 1) / sizeof(Vector);
    if (map.route == BY_BITS) {
        BucketStep<Order, Tile, BucketByBits<Bits>> step(call, buckets, BucketByBits<Bits>(map.lower_bits));
        if (FIRST) step.first(s);
        else step.second(s);
    } else if (map.route == BY_RANGE) {
        BucketStep<Order, Tile, BucketByRange<Bits>> step(call, buckets, BucketByRange<Bits>(map));
        if (FIRST) step.first(s);
        else step.second(s);
    } else if (map.route == BY_VALUES) {
        if (!FIRST && !call.in_place) return;
        Bits *table = (Bits *)rest;
        BucketByValues<Bits>::load(table, map);
        if (Tile::HAS_VALUES) wait_for_table();
        BucketStep<Order, Tile, BucketByValues<Bits>> step(call, buckets, BucketByValues<Bits>{table});
        if (FIRST) step.first(s);
        else step.copy_back();
    } else {
        constexpr bool TRY_LINEAR = !FIRST && !Tile::HAS_VALUES;
        CoarseTile part;
        if constexpr (TRY_LINEAR) {
            Singles<Bits> singles = map.singles; // asked for together
            if (!find_tile<Tile::TILE>(buckets, blockIdx.x, part)) return;
            if (singles.unmoved().keys > 0) {
                part.left = write_one_key_run<Order, Tile>(s, call, buckets, map.lower_bits, singles, plan.left_by_buckets(), part);
                if (part.left == 0) return;
            }
            Line<Bits> linear_run = map.lines[part.coarse];
            if (linear_run.step != 0) {
                BucketStep<Order, Tile, BucketByLinearRun<Bits>>(call, buckets, BucketByLinearRun<Bits>{linear_run}).second(s, part);
                return;
            }
        }
        u32 *table = (u32 *)rest;
        BucketByCells<Bits>::load(table, map);
        if (Tile::HAS_VALUES) wait_for_table();
        typedef typename If<FIRST && !Tile::HAS_VALUES, BucketBesideOneKeyRun<Bits>, BucketByCells<Bits>>::Type ByCells;
        BucketStep<Order, Tile, ByCells> step(call, buckets, ByCells(map, table));
        if (FIRST) step.first(s);
        else if (TRY_LINEAR) step.second(s, part);
        else step.second(s);
    }
}

// ---- few values -----------------------------------------------------------------------------------------------------------------

// One step in place of all passes, where keys that are too few for buckets are few values: all blocks look at the same of them, count how many there
// are of each value, and move them. If there are others too, nothing is moved, and the passes run. Returns whether they need not. Parts and tiles are
// drawn in order, as in `sort_passes`: who waits for parts waits for blocks that run.
constexpr u32 VALUE_SAMPLE = 2048; // keys that are looked at
template <class Order, class Tile> __device__ bool sort_few(Vector *shared, const SortCall &call) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    typedef typename Tile::Shared Shared;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (!call.looks_for_few || !plan.may_be_few) return false;
    Shared &s = *(Shared *)shared;
    Bits *values = (Bits *)(shared + (sizeof(Shared) + sizeof(Vector) - 1) / sizeof(Vector));
    FewValues<Bits> &few = *(FewValues<Bits> *)shared; // in the tile's place, as are the counters
    Order order{Bits(call.flip)};
    const Bits *keys = (const Bits *)call.keys_in;
    few.clear();
    u64 stride = call.n / VALUE_SAMPLE;
    for (u32 i = threadIdx.x; i < VALUE_SAMPLE && few.still_few(); i += Tile::THREADS) few.add(order.to(keys[i * stride]));
    __syncthreads();
    if (!few.are_few()) return false;
    if (threadIdx.x < VALUES) values[threadIdx.x] = Bits(~Bits(0));
    __syncthreads();
    few.write_sorted(values);
    BucketByValues<Bits> digit{values};

    u32 ticket = draw(plan.tickets), *counters = (u32 *)shared;
    for (; ticket < call.parts; ticket = draw(plan.tickets)) {
        for (u32 i = threadIdx.x; i < BINS * FEW_COPIES; i += Tile::THREADS) counters[i] = 0;
        __syncthreads();
        constexpr u32 UNROLL = 8, STEP = Tile::THREADS * UNROLL;
        for (u64 begin = u64(ticket) * STEP + threadIdx.x; begin < call.n; begin += u64(call.parts) * STEP) {
            Bits key[UNROLL];
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++)
                if (begin + i * Tile::THREADS < call.n) key[i] = keys[begin + i * Tile::THREADS];
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++)
                if (begin + i * Tile::THREADS < call.n) atomicAdd(counters + digit(order.to(key[i])) * FEW_COPIES + threadIdx.x % FEW_COPIES, 1);
        }
        __syncthreads();
        if (threadIdx.x < BINS) {
            u32 count = 0;
#pragma unroll
            for (u32 c = 0; c < FEW_COPIES; c++) count += counters[threadIdx.x * FEW_COPIES + (c + threadIdx.x) % FEW_COPIES];
            if (count > 0) atomicAdd(plan.of_values + threadIdx.x, count);
            if (count > 0 && threadIdx.x % 2 == 0) plan.others = 1; // between two values
        }
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) add_relaxed(&plan.valued, 1);
    }
    if (threadIdx.x == 0) {
        while (load_relaxed(&plan.valued) != call.parts) {}
        __threadfence();
    }
    __syncthreads();
    if (load_relaxed(&plan.others)) return false;
    u32 start = 0; // of a thread's own digit
    if (threadIdx.x < BINS) start = block_before<BINS>(load_relaxed(plan.of_values + threadIdx.x), s.totals);
    else pass_barrier_of_first();
    bool skip_keys = call.no_keys;
    Bits *out = (Bits *)call.keys[0];
    for (; ticket - call.parts < call.tiles; ticket = draw(plan.tickets)) {
        u32 tile = ticket - call.parts;
        u64 first = u64(tile) * Tile::TILE;
        const Bits *from = keys + first;
        const Value *payload = (const Value *)call.values_in;
        LookBackDigits chain{call.words[0] + u64(tile) * BINS, tile};
        stable_any<Tile>(
            s, call.n - first, digit, [=](u32 at) { return order.to(from[at]); },
            [=](u64 position, Bits key) {
                if (!skip_keys) out[position] = order.from(key);
            },
            payload ? payload + first : nullptr, first, (Value *)call.values[0], [=](u32 d, u32 total) { chain.publish(d, total); },
            [=](u32 d, u32 total) { return u64(start) + chain.template receive<1>(d, total); });
    }
    return true;
}
