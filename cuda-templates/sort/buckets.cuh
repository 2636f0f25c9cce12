// Radix sort by counted buckets: most significant digit first, by all bits of the keys. Kernels, in
// order of launch:
//
//   bucket_sample   a pilot sample of the keys                        sort/bucket_sample.cuh
//   bucket_map      the map from keys to buckets of about equal size  sort/bucket_map.cuh
//   bucket_count    the exact histogram of the buckets, one read of all keys
//   bucket_plan     its prefix sums, and the range that buckets leave to passes
//   bucket_first    scatter by the bucket number's upper digit
//   bucket_second   scatter by its lower digit
//   bucket_sort     each bucket by one block, in shared memory        sort/bucket_sort.cuh
//
// Passes sort from the first to the last bucket that exceeds a block's room. If that is too much,
// or the sample says so, passes sort all keys, and no key moves here.
#pragma once
#include "sort/bucket_sample.cuh"

// ---- histogram and plan ---------------------------------------------------------------------

// Calls `use(key, left)` for all keys of the input, UNROLL of a thread at a time, encoded. `left`
// is the number of the block's keys in the batch. If it is less than THREADS * UNROLL, a thread's
// keys are THREADS apart.
template <u32 THREADS, u32 UNROLL, class Order, class Bits, class Use>
__device__ inline void for_each_batch(const SortCall &call, const Use &use) {
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

// If `left` > `i`, adds `more` to a counter in shared memory and returns its value before; else
// returns 0. A predicate instead of a branch: a branch would wait for one addition before the next
// is issued.
__device__ inline u32 fetch_add_if(int left, int i, u32 *counter, u32 more) {
    u32 before;
    asm volatile("{\n"
                 ".reg .pred is_there;\n"
                 ".reg .u32 before;\n"
                 "setp.gt.s32 is_there, %1, %2;\n"
                 "mov.u32 before, 0;\n"
                 "@is_there atom.shared.add.u32 before, [%3], %4;\n"
                 "mov.u32 %0, before;\n"
                 "}"
                 : "=r"(before)
                 : "r"(left), "r"(i), "r"(u32(__cvta_generic_to_shared(counter))), "r"(more)
                 : "memory");
    return before;
}
// The same with 1 and without a result.
__device__ inline void increment_if(int left, int i, u32 *counter) {
    asm volatile("{\n"
                 ".reg .pred is_there;\n"
                 "setp.gt.s32 is_there, %0, %1;\n"
                 "@is_there red.shared.add.u32 [%2], 1;\n"
                 "}" ::"r"(left),
                 "r"(i), "r"(u32(__cvta_generic_to_shared(counter)))
                 : "memory");
}

// Whether the buckets of a warp's lanes are at most COMMON different ones, and which these are. If
// there are fewer, unused entries of `common` match no bucket.
constexpr u32 COMMON = 4;
__device__ inline bool few_in_warp(u32 mine, u32 (&common)[COMMON]) {
    u32 others = ALL_LANES;
#pragma unroll
    for (u32 c = 0; c < COMMON; c++) {
        common[c] = others ? __shfl_sync(ALL_LANES, mine, __ffs(int(others)) - 1) : ~0u;
        others &= __ballot_sync(ALL_LANES, mine != common[c]);
        if (c == 0 && __popc(others) > WARP - 3) return false; // usually there are many
    }
    return others == 0;
}

// Counts keys that are mostly in the buckets `common`. Each lane counts these in registers, and
// `count(bucket, keys)` is called once a warp for each of them. Any other key is counted on its
// own.
template <u32 GROUP, u32 UNROLL, class Bits, class Bucket, class Count>
__device__ inline void count_common(const Bits (&key)[UNROLL], Bucket bucket,
                                    const u32 (&common)[COMMON], const Count &count) {
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

// Buckets a power of two apart have counters in different banks.
__device__ inline u32 counter_at(u32 i) { return i + i / WARP; }

// Counts in 16-bit counters, two to a word. The buckets of a word are half of all buckets apart,
// since neighbours are often frequent at the same time.
//
// No counter overflows. A batch has at most 2^15 keys, and one addition at most 2^7 of them. An
// addition that finds 2^14 or more in its counter has the counter's multiples of 2^14 moved to
// global memory after the batch. So a counter begins a batch with at most 2^14 + 2^7. 2-byte keys
// may be few values, whose counters would reach 2^14 in every batch. Theirs move at 2^15, which
// takes one more instruction to detect.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_by(u32 *counters, const SortCall &call, const BucketCall &buckets,
                                u32 lower_bits, Bucket bucket) {
    constexpr u32 UNROLL = sizeof(Bits) > 4 ? 16 : 32, STEP = THREADS * UNROLL,
                  GROUP = sizeof(Vector) / sizeof(Bits);
    constexpr bool SHORT = sizeof(Bits) == 2;
    // flushed bits of a counter, and of a word
    constexpr u32 FLUSH = SHORT ? 1 << 15 : 3 << 14, FLUSH_PAIR = FLUSH << 16 | FLUSH;
    // Keys whose bucket is computed before the first is counted. The table and the counters are
    // both in shared memory, so the compiler does not reorder their accesses.
    constexpr u32 LOOKUPS = SHORT ? 1 : 4;
    u32 half_bits = DIGIT_BITS - 1 + lower_bits, half = 1u << half_bits;
    static_assert(STEP <= 1 << 15 && UNROLL % LOOKUPS == 0,
                  "a counter below 2^14 plus one step stays below 2^16");
    for_each_batch<THREADS, UNROLL, Order, Bits>(call, [&](const Bits(&key)[UNROLL], u32 left) {
        u32 bits_seen = 0; // bits of the counters' values
        auto count = [&](u32 bucket, u32 keys) {
            u32 more = SHORT ? keys << (bucket >> half_bits) * 16
                             : keys * (1 + (bucket >> half_bits) * 0xffff);
            u32 before = atomicAdd(counters + counter_at(bucket & (half - 1)), more);
            bits_seen |= SHORT ? before ^ (before + more) : before;
        };
        // All lanes have one bucket, so the next keys likely have too. Additions to one counter are
        // serialised, so one lane adds for all.
        if (left == STEP && all_same(bucket(key[0]))) {
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
        } else if (u32 common[COMMON];
                   SHORT && left == STEP && few_in_warp(bucket(key[0]), common)) {
            count_common<GROUP>(key, bucket, common, count);
        } else {
            // The bucket of a 2-byte key is a few of its bits: computed only for keys that exist.
#pragma unroll
            for (u32 g = 0; g < UNROLL; g += LOOKUPS) {
                u32 found[LOOKUPS];
#pragma unroll
                for (u32 i = 0; i < LOOKUPS; i++) found[i] = SHORT ? 0 : bucket(key[g + i]);
#pragma unroll
                for (u32 i = 0; i < LOOKUPS; i++)
                    if (left == STEP || (g + i) * THREADS + threadIdx.x < left)
                        count(SHORT ? bucket(key[g + i]) : found[i], 1);
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
                    atomicAdd(buckets.coarse_counts + (i >> lower_bits) + k * BINS / 2, flushed);
                }
        }
        __syncthreads();
    });
    __syncthreads();
    // Each warp adds the counters of two coarse buckets to the global histogram.
    u32 per_coarse = 1u << lower_bits;
    for (u32 turn = warp_id(); turn < BINS / 2; turn += THREADS / WARP) {
        // Blocks begin at different coarse buckets, so that fewer additions collide.
        u32 coarse = (turn + blockIdx.x) % (BINS / 2), sums[2] = {0, 0};
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
            if (lane_id() == 0 && sum > 0)
                atomicAdd(buckets.coarse_counts + coarse + k * BINS / 2, sum);
        }
    }
}

// Counts in at most BINS buckets. FEW_COPIES counters each, for different lanes.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_few(u32 *counters, const SortCall &call, const BucketCall &buckets,
                                 Bucket bucket) {
    constexpr u32 UNROLL = 8;
    for (u32 i = threadIdx.x; i < BINS * FEW_COPIES; i += THREADS) counters[i] = 0;
    __syncthreads();
    u32 copy = threadIdx.x % FEW_COPIES;
    for_each_batch<THREADS, UNROLL, Order, Bits>(call, [&](const Bits(&key)[UNROLL], u32 left) {
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++)
            if (left == THREADS * UNROLL || i * THREADS + threadIdx.x < left)
                atomicAdd(counters + bucket(key[i]) * FEW_COPIES + copy, 1);
    });
    __syncthreads();
    if (threadIdx.x >= BINS) return;
    u32 sum = 0;
#pragma unroll
    for (u32 c = 0; c < FEW_COPIES; c++)
        sum += counters[threadIdx.x * FEW_COPIES + (c + threadIdx.x) % FEW_COPIES];
    if (sum == 0) return;
    atomicAdd(buckets.counts + threadIdx.x, sum);
    atomicAdd(buckets.coarse_counts + threadIdx.x, sum);
}

// The histogram of 2-byte keys.
template <class Order, class Bits, u32 THREADS>
__device__ void key_count(u32 *counters, const SortCall &call, const BucketCall &buckets) {
    for (u32 i = threadIdx.x; i < counter_at(BUCKETS / 2); i += THREADS) counters[i] = 0;
    __syncthreads();
    bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, DIGIT_BITS,
                                          BucketByBits<Bits>(DIGIT_BITS));
}

// The exact histogram. `shared` has the table of the map, then the counters.
template <class Order, class Bits, u32 THREADS>
__device__ void bucket_count(u32 *shared, const SortCall &call, const BucketCall &buckets) {
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    u32 lower_bits = map.lower_bits, *counters = shared + BucketMap<Bits>::INTERVALS;
    if (map.function == BY_VALUES) {
        Bits *values = (Bits *)shared;
        BucketByValues<Bits>::load(values, map);
        bucket_count_few<Order, Bits, THREADS>(counters, call, buckets,
                                               BucketByValues<Bits>{values});
        return;
    }
    for (u32 i = threadIdx.x; i < counter_at(BINS / 2 << lower_bits); i += THREADS) counters[i] = 0;
    if (map.function == BY_INTERVALS) BucketByIntervals<Bits>::load(shared, map);
    wait_for_table();
    if (map.function == BY_BITS)
        bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits,
                                              BucketByBits<Bits>(lower_bits));
    else if (map.function == BY_RANGE)
        bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits,
                                              BucketByRange<Bits>(map));
    else
        bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits,
                                              BucketByIntervals<Bits>(map, shared));
}

// By BINS blocks, one a coarse bucket, of BINS threads, one a lower digit: the first index of each
// bucket and of each coarse bucket. Returns the number of keys in the thread's bucket.
__device__ inline u32 bucket_starts(const SortCall &call, const BucketCall &buckets, u32 lower_bits,
                                    u32 tile) {
    __shared__ u32 totals[2 * BINS / WARP], base, tiles;
    u32 coarse = blockIdx.x, d = threadIdx.x, others = buckets.coarse_counts[d];
    u32 keys = warp_add(d < coarse ? others : 0),
        of_tiles = warp_add(d < coarse ? (others + tile - 1) / tile : 0);
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
    u32 per_coarse = 1u << lower_bits, bucket = coarse * per_coarse + d,
        count = d < per_coarse ? buckets.counts[bucket] : 0;
    u32 start = base + block_exclusive_sum<BINS>(count, totals);
    if (d < per_coarse) {
        buckets.starts[bucket] = start;
        if (buckets.cursors) buckets.cursors[bucket] = start;
    }
    if (d == 0) {
        if (buckets.coarse_cursors) buckets.coarse_cursors[coarse * CURSOR_STRIDE] = base;
        buckets.begins[coarse] = {tiles, base};
    }
    if (coarse == BINS - 1 && d == BINS - 1) {
        buckets.starts[BINS * per_coarse] = u32(call.n);
        buckets.begins[BINS] = {tiles + (others + tile - 1) / tile, u32(call.n)};
    }
    return count;
}

// The same, and the range left to passes: from the first bucket that exceeds a block's room to the
// last one. Single-key buckets may exceed it.
template <class Bits>
__device__ void bucket_plan(const SortCall &call, const BucketCall &buckets, u32 tile) {
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (plan.too_large) return;
    BucketMap<Bits> &map = *(BucketMap<Bits> *)buckets.map;
    u32 count = bucket_starts(call, buckets, map.lower_bits, tile),
        bucket = (blockIdx.x << map.lower_bits) + threadIdx.x;
    bool is_left = count > buckets.room && !(map.one_key[bucket / 32] >> bucket % 32 & 1);
    if (__any_sync(ALL_LANES, is_left)) {
        u32 first = is_left ? buckets.starts[bucket] : ~0u, first_inverted = warp_max(~first),
            end = warp_max(is_left ? first + count : 0);
        if (lane_id() == 0) {
            atomicMax(&plan.left_first_inverted, first_inverted);
            atomicMax(&plan.left_end, end);
        }
    }
    OneKeyRun<Bits> &one_key_run = map.one_key_run;
    if (threadIdx.x >> map.lower_bits > 0) return;
    if (bucket == one_key_run.bucket) one_key_run.begin = buckets.starts[bucket];
    if (bucket + 1 == one_key_run.bucket + one_key_run.keys)
        one_key_run.end = buckets.starts[bucket] + count;
}

// ---- the scatter steps ----------------------------------------------------------------------

// Keys-only: scatters a tile in any order. `claim(digit, total)` returns the position of a digit's
// run. Returns false, and moves nothing, if `digit.prepare()` finds no map.
template <class Tile, class D, class Load, class Put, class Claim>
__device__ inline bool any_order_tile(Tile &t, D digit, const Load &load, const Put &put,
                                      const Claim &claim) {
    if (!TABLE_FIRST<D>) t.load(load);
    t.template clear_block_bins<D>();
    if (!digit.prepare()) return false; // after the loads are issued
    if (TABLE_FIRST<D>) t.load(load);
    t.rank(digit);
    u64 position = 0;
    t.template scatter<D>([&](u32 d, u32 total) { position = total ? claim(d, total) : 0; },
                          [&](u32, u32) { return position; });
    t.store_unordered(digit, put);
    return true;
}
template <class Tile, class D, class Load, class Put, class Claim>
__device__ __noinline__ bool any_order_partial(typename Tile::Shared &s, u32 count, D digit,
                                               Load load, Put put, Claim claim) {
    Tile t(s, count);
    return any_order_tile(t, digit, load, put, claim);
}
template <class Tile, class D, class Load, class Put, class Claim>
__device__ inline bool any_order(typename Tile::Shared &s, u64 left, D digit, const Load &load,
                                 const Put &put, const Claim &claim) {
    if (left >= Tile::TILE) {
        typename Tile::Whole t(s, Tile::TILE);
        return any_order_tile(t, digit, load, put, claim);
    } else {
        return any_order_partial<typename Tile::Part>(s, u32(left), digit, load, put, claim);
    }
}

// A tile of the second step: its coarse bucket, its number there, the index of its first key, and
// the keys from there to the coarse bucket's end.
struct CoarseTile {
    u32 coarse, number, at, left;
};
// Returns whether the second step has this tile. Each thread loads all about its own coarse bucket,
// so that no load waits for another.
template <u32 TILE>
__device__ inline bool find_tile(const BucketCall &buckets, u32 tile, CoarseTile &part) {
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

// Keys-only: writes those keys of the one-key run that stayed unmoved, within the tile's range of
// the output. Returns the number of keys left to scatter: the other keys of the coarse bucket are
// compact from its begin on.
template <class Order, class Tile, class Bits>
__device__ inline u32 write_one_key_run(typename Tile::Shared &s, const SortCall &call,
                                        const BucketCall &buckets, u32 lower_bits,
                                        const OneKeyRun<Bits> &one_key_run, IndexRange<u32> left,
                                        CoarseTile part) {
    u32 per_coarse = 1u << lower_bits, bucket = part.coarse << lower_bits,
        end = part.at + part.left;
    u32 from = max(part.at, one_key_run.begin),
        to = min(part.at + min(part.left, Tile::TILE), one_key_run.end);
    if (from < to) {
        for (u32 d = threadIdx.x; d <= per_coarse; d += Tile::THREADS)
            s.begin[d] = buckets.starts[bucket + d];
        __syncthreads();
        Order order{Bits(call.flip)};
        Bits key = 0, *out = (Bits *)call.keys[0];
#pragma unroll 1
        for (u32 at = from + threadIdx.x, run_end = 0; at < to; at += Tile::THREADS) {
            if (at >= run_end) {
                u32 d = 0;
                for (u32 step = per_coarse / 2; step > 0; step /= 2)
                    d += s.begin[d + step] <= at ? step : 0;
                run_end = s.begin[d + 1];
                key = one_key_run.from + Bits(bucket + d - one_key_run.bucket);
                // final; else `bucket_sort` or passes sort the key
                if (run_end - s.begin[d] > buckets.room && !left.has(at)) key = order.from(key);
            }
            out[at] = key;
        }
        __syncthreads();
    }
    u32 begin = part.at - part.number * Tile::TILE, first = max(begin, one_key_run.begin),
        last = min(end, one_key_run.end);
    if (first < last) end -= last - first;
    return end > part.at ? end - part.at : 0;
}

// A scatter step by one bucket function.
template <class Order, class Tile, class Bucket> struct BucketStep {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    const SortCall &call;
    const BucketCall &buckets;
    BucketMap<Bits> &map;
    Bucket bucket;
    u32 lower_bits;
    IndexRange<u32> left; // to the passes

    __device__ BucketStep(const SortCall &call, const BucketCall &buckets, Bucket bucket)
        : call(call), buckets(buckets), map(*(BucketMap<Bits> *)buckets.map), bucket(bucket),
          lower_bits(map.lower_bits),
          left(((const SortPlan<sizeof(Bits) + 1> *)call.plan)->left_by_buckets()) {}
    // The DONE bit for the positions of a bucket whose keys are final after the step. That is a
    // bucket larger than a block's room, unless passes sort it.
    __device__ auto marks() const {
        const u32 *starts = buckets.starts;
        u32 room = buckets.room;
        IndexRange<u32> left = this->left;
        return [=](u32 bucket) {
            u32 start = starts[bucket];
            return starts[bucket + 1] - start > room && !left.has(start) ? DONE : 0;
        };
    }

    __device__ void first(typename Tile::Shared &s) const {
        UpperDigit<Bucket> digit{bucket};
        Order order{Bits(call.flip)};
        constexpr bool ONE_STEP = Bucket::ONE_STEP;
        // A single step writes the output, but scratch memory if the input is in place.
        u32 to = ONE_STEP && !call.in_place ? 0 : 1;
        typename If<ONE_STEP, PutDecodeDone<Order, Bits>, PutKey<Order, Bits>>::Type put{
            (Bits *)(to ? call.keys[1] : call.keys[0]), order};
        const u32 *starts = buckets.starts;
        u32 lower_bits = this->lower_bits;
        auto marks = this->marks();
        auto mark = [=](u32 d) { return ONE_STEP ? marks(d) : 0; };
        if constexpr (!Tile::HAS_VALUES) {
            if (IS_PAST_LENGTH(blockIdx.x, Tile::TILE, call.n)) return;
            u64 at = u64(blockIdx.x) * Tile::TILE;
            const Bits *from = (const Bits *)call.keys_in + at;
            u32 *cursors = buckets.coarse_cursors;
            any_order<Tile>(
                s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put,
                [=](u32 d, u32 total) {
                    return atomicAdd(cursors + d * CURSOR_STRIDE, total) | mark(d);
                });
        } else {
            u32 tiles = u32((call.n + Tile::TILE - 1) / Tile::TILE);
            Value *values_out = (Value *)(to ? call.values[1] : call.values[0]);
            for (u32 tile; (tile = draw(s, 0)) < tiles;) {
                u64 at = u64(tile) * Tile::TILE;
                const Bits *from = (const Bits *)call.keys_in + at;
                const Value *values = (const Value *)call.values_in;
                LookBackDigits chain{call.words[0] + u64(tile) * BINS, tile};
                stable_any<Tile>(
                    s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put,
                    values ? values + at : nullptr, at, values_out,
                    [=](u32 d, u32 total) { chain.publish(d, total); },
                    [=](u32 d, u32 total) {
                        return (starts[d << lower_bits] + chain.template receive<1>(d, total)) |
                               mark(d);
                    });
            }
        }
    }

    // In place, after a single step: copies the result from scratch memory over the input.
    __device__ void copy_back() const {
        u64 threads = u64(gridDim.x) * Tile::THREADS,
            thread = u64(blockIdx.x) * Tile::THREADS + threadIdx.x;
        for (u64 i = thread; i < call.n; i += threads)
            ((Bits *)call.keys[0])[i] = ((const Bits *)call.keys[1])[i];
        if constexpr (Tile::HAS_VALUES)
            for (u64 i = thread; i < call.n; i += threads)
                ((Value *)call.values[0])[i] = ((const Value *)call.values[1])[i];
    }

    __device__ void second(typename Tile::Shared &s) const {
        CoarseTile part = {}; // unused with a payload
        if (Tile::HAS_VALUES || find_tile<Tile::TILE>(buckets, blockIdx.x, part)) second(s, part);
    }
    // Keys-only: scatters that tile. With a payload: all tiles that the block draws.
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
                    s, part.left, digit, [=](u32 at) { return from[at]; }, put,
                    (const Value *)call.values[1] + at, at, (Value *)call.values[0],
                    [=](u32 d, u32 total) { chain.publish(d, total); },
                    [=](u32 d, u32 total) {
                        u32 earlier = chain.template receive<1>(d, total),
                            bucket = (coarse << lower_bits) + d;
                        return d >> lower_bits ? 0 : (starts[bucket] + earlier) | mark(bucket);
                    });
            }
        }
    }

  private:
    // Draws the next tile of a step. Tickets go on past the last tile.
    __device__ u32 draw(typename Tile::Shared &s, u32 step) const {
        __syncthreads();
        if (threadIdx.x == 0) s.tile = add_relaxed(map.tickets + step, 1);
        __syncthreads();
        return s.tile;
    }
};

// `shared` has the tile, then the table of the map.
template <class Order, class Tile, bool FIRST>
__device__ void bucket_step(Vector *shared, const SortCall &call, const BucketCall &buckets) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shared Shared;
    const SortPlan<sizeof(Bits) + 1> &plan = *(const SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (plan.all_by_passes(call.n)) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    Shared &s = *(Shared *)shared;
    Vector *rest = shared + (sizeof(Shared) + sizeof(Vector) - 1) / sizeof(Vector);
    if (map.function == BY_BITS) {
        BucketStep<Order, Tile, BucketByBits<Bits>> step(call, buckets,
                                                         BucketByBits<Bits>(map.lower_bits));
        if (FIRST) step.first(s);
        else step.second(s);
    } else if (map.function == BY_RANGE) {
        BucketStep<Order, Tile, BucketByRange<Bits>> step(call, buckets, BucketByRange<Bits>(map));
        if (FIRST) step.first(s);
        else step.second(s);
    } else if (map.function == BY_VALUES) {
        if (!FIRST && !call.in_place) return;
        Bits *table = (Bits *)rest;
        BucketByValues<Bits>::load(table, map);
        if (Tile::HAS_VALUES) wait_for_table();
        BucketStep<Order, Tile, BucketByValues<Bits>> step(call, buckets,
                                                           BucketByValues<Bits>{table});
        if (FIRST) step.first(s);
        else step.copy_back();
    } else {
        constexpr bool TRY_LINEAR = !FIRST && !Tile::HAS_VALUES;
        CoarseTile part;
        if constexpr (TRY_LINEAR) {
            OneKeyRun<Bits> one_key_run = map.one_key_run; // issued with the loads of `find_tile`
            if (!find_tile<Tile::TILE>(buckets, blockIdx.x, part)) return;
            if (one_key_run.unmoved().keys > 0) {
                part.left =
                    write_one_key_run<Order, Tile>(s, call, buckets, map.lower_bits, one_key_run,
                                                   plan.left_by_buckets(), part);
                if (part.left == 0) return;
            }
            LinearRun<Bits> linear_run = map.linear_runs[part.coarse];
            if (linear_run.step != 0) {
                BucketStep<Order, Tile, BucketByLinearRun<Bits>>(
                    call, buckets, BucketByLinearRun<Bits>{linear_run})
                    .second(s, part);
                return;
            }
        }
        u32 *table = (u32 *)rest;
        BucketByIntervals<Bits>::load(table, map);
        if (Tile::HAS_VALUES) wait_for_table();
        typedef typename If<FIRST && !Tile::HAS_VALUES, BucketBesideOneKeyRun<Bits>,
                            BucketByIntervals<Bits>>::Type ByIntervals;
        BucketStep<Order, Tile, ByIntervals> step(call, buckets, ByIntervals(map, table));
        if (FIRST) step.first(s);
        else if (TRY_LINEAR) step.second(s, part);
        else step.second(s);
    }
}
