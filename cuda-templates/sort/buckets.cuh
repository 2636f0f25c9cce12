// Radix sort by counted buckets: most significant digit first, by all bits of the keys. Kernels, in
// order of launch:
//
//   bucket_map      a pilot sample, and the map from keys to buckets of about equal size
//                                                                     sort/bucket_sample.cuh
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

// Buckets a power of two apart have counters in different banks.
__device__ inline u32 counter_at(u32 i) { return i + i / WARP; }

// The counter of a heavy key: its index among the heavy keys, with the bit IS_HEAVY.
constexpr u32 IS_HEAVY = 1u << 31, HEAVY_COUNTERS = MOST_HEAVY * HEAVY_COPIES;
template <class Bits> struct CountAround {
    BucketAround<Bits, false> bucket;
    u32 *heavy_counts; // in shared memory
    template <u32 COUNT> __device__ void all(const Bits *key, u32 *found) const {
        u32 less[COUNT], is_heavy = bucket.around.template find<COUNT>(key, found, less);
#pragma unroll
        for (u32 i = 0; i < COUNT; i++)
            if (is_heavy >> i & 1) found[i] = IS_HEAVY | less[i];
    }
    __device__ u32 operator()(Bits key) const {
        u32 found;
        all<1>(&key, &found);
        return found;
    }
};
template <class Bucket> constexpr bool COUNTS_HEAVY = false;
template <class Bits> constexpr bool COUNTS_HEAVY<CountAround<Bits>> = true;

// Adds the counters of `bucket_count_by` to the global histograms.
template <u32 THREADS>
__device__ inline void add_counters(const u32 *counters, const BucketCall &buckets, u32 lower_bits) {
    u32 half = 1u << (DIGIT_BITS - 1 + lower_bits);
    // Whole warps add, as additions to one line wait for each other, however many words each has. Blocks begin at
    // different lines.
    for (u32 turn = threadIdx.x; turn < half; turn += THREADS) {
        u32 i = (turn + blockIdx.x * WARP) % half, both = counters[counter_at(i)];
#pragma unroll
        for (u32 k = 0; k < 2; k++)
            if (u32 keys = both >> k * 16 & 0xffff; keys > 0) atomicAdd(buckets.counts + i + k * half, keys);
    }
    constexpr u32 EACH = THREADS / (BINS / 2); // threads for the two coarse buckets of a word
    static_assert(THREADS % (BINS / 2) == 0 && EACH <= WARP, "lanes of one warp add up a coarse bucket");
    u32 coarse = threadIdx.x / EACH, sums[2] = {0, 0};
    for (u32 i = (coarse << lower_bits) + threadIdx.x % EACH; i < coarse + 1 << lower_bits; i += EACH) {
        u32 both = counters[counter_at(i)];
        sums[0] += both & 0xffff;
        sums[1] += both >> 16;
    }
#pragma unroll
    for (u32 k = 0; k < 2; k++) {
#pragma unroll
        for (u32 lanes = 1; lanes < EACH; lanes *= 2) sums[k] += __shfl_xor_sync(ALL_LANES, sums[k], lanes);
        if (threadIdx.x % EACH == 0 && sums[k] > 0) atomicAdd(buckets.coarse_counts + coarse + k * BINS / 2, sums[k]);
    }
}

// Counts in 16-bit counters, two to a word. The buckets of a word are half of all buckets apart,
// since neighbours are often frequent at the same time.
//
// No counter overflows. A batch has at most 2^15 keys, and one addition at most 2^8 of them. An
// addition that finds 2^14 or more in its counter has the counter's multiples of 2^14 moved to
// global memory after the batch. So a counter begins a batch with at most 2^14 + 2^8.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_by(u32 *counters, const SortCall &call, const BucketCall &buckets, u32 lower_bits,
                                Bucket to_bucket) {
    constexpr u32 UNROLL = sizeof(Bits) > 2 ? 16 : 32, GROUP = sizeof(Vector) / sizeof(Bits);
    // flushed bits of a counter, and of a word
    constexpr u32 FLUSH = 3 << 14, FLUSH_PAIR = FLUSH << 16 | FLUSH;
    // Keys whose bucket is computed before the first is counted. The table and the counters are
    // both in shared memory, so the compiler does not reorder their accesses.
    constexpr u32 LOOKUPS = 4;
    u32 half_bits = DIGIT_BITS - 1 + lower_bits, half = 1u << half_bits;
    Batches<THREADS, UNROLL, Bits> batch((const Bits *)call.keys_in, {0, call.n}, blockIdx.x, gridDim.x);
    static_assert(batch.BATCH <= 1 << 15 && UNROLL % LOOKUPS == 0,
                  "a counter below 2^14 plus one batch stays below 2^16");
    Order order{Bits(call.flip)};
    for (; batch.has_more(); batch.next()) {
        Bits key[UNROLL];
        u32 left = batch.load(key);
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) key[i] = order.to(key[i]);
        u32 bits_seen = 0; // bits of the counters' values
        auto count = [&](u32 bucket, u32 keys) {
            u32 more = keys * (1 + (bucket >> half_bits) * 0xffff);
            u32 *counter = counters + counter_at(bucket & (half - 1));
            bool is_heavy = COUNTS_HEAVY<Bucket> && bucket >> 31;
            if constexpr (COUNTS_HEAVY<Bucket>) { // no branch, as lanes differ
                u32 copy = threadIdx.x % HEAVY_COPIES;
                if (is_heavy) counter = to_bucket.heavy_counts + u16(bucket) * HEAVY_COPIES + copy;
                if (is_heavy) more = keys;
            }
            u32 before = atomicAdd(counter, more);
            if (!is_heavy) bits_seen |= before;
        };
        // All lanes have one bucket, so the next keys likely have too. Additions to one counter are
        // serialised, so one lane adds for all.
        if (left == batch.BATCH && all_same(to_bucket(key[0]))) {
#pragma unroll
            for (u32 g = 0; g < UNROLL; g += GROUP) {
                u32 found[GROUP];
                bool alike = true;
#pragma unroll
                for (u32 i = 0; i < GROUP; i++) {
                    found[i] = to_bucket(key[g + i]);
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
        } else {
#pragma unroll
            for (u32 g = 0; g < UNROLL; g += LOOKUPS) {
                u32 found[LOOKUPS];
                if constexpr (COUNTS_HEAVY<Bucket>) to_bucket.template all<LOOKUPS>(key + g, found);
                else
#pragma unroll
                    for (u32 i = 0; i < LOOKUPS; i++) found[i] = to_bucket(key[g + i]);
#pragma unroll
                for (u32 i = 0; i < LOOKUPS; i++)
                    if (batch.has(left, g + i)) count(found[i], 1);
            }
        }
        if (!__syncthreads_or(bits_seen & FLUSH_PAIR)) continue;
        for (u32 i = threadIdx.x; i < half; i += THREADS) {
            u32 &both = counters[counter_at(i)], full = both & FLUSH_PAIR;
            if (full == 0) continue;
            both -= full;
#pragma unroll
            for (u32 k = 0; k < 2; k++)
                if (full >> k * 16 & FLUSH) {
                    u32 flushed = full >> k * 16 & FLUSH;
                    atomicAdd(buckets.counts + i + k * half, flushed);
                    atomicAdd(buckets.coarse_counts + (i >> lower_bits) + k * BINS / 2, flushed);
                }
        }
        __syncthreads();
    }
    __syncthreads();
    add_counters<THREADS>(counters, buckets, lower_bits);
}

// The histogram of 2-byte keys.
template <class Order, class Bits, u32 THREADS>
__device__ void key_count(u32 *counters, const SortCall &call, const BucketCall &buckets) {
    for (u32 i = threadIdx.x; i < counter_at(BUCKETS / 2); i += THREADS) counters[i] = 0;
    __syncthreads();
    bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, DIGIT_BITS, BucketByBits<Bits>(DIGIT_BITS));
}

// The exact histogram. `shared` has the tables of the map, then the counters of heavy keys and of
// buckets.
template <class Order, class Bits, u32 THREADS>
__device__ void bucket_count(u32 *shared, const SortCall &call, const BucketCall &buckets) {
    typedef typename BucketMap<Bits>::Tables Tables;
    const SortPlan<Bits> &plan = plan_of<Bits>(call);
    if (plan.has_fixed_buckets() || plan.too_large) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    u32 lower_bits = map.lower_bits, *heavy_counts = shared + sizeof(Tables) / sizeof(u32),
        *counters = heavy_counts + HEAVY_COUNTERS;
    bool by_bits = map.function == BY_BITS;
    for (u32 i = threadIdx.x; i < counter_at(BINS / 2 << lower_bits); i += THREADS) counters[i] = 0;
    if (by_bits) {
        __syncthreads();
        bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits, BucketByBits<Bits>(lower_bits));
        return;
    }
    static_assert(HEAVY_COUNTERS <= THREADS, "a thread for each");
    if (threadIdx.x < HEAVY_COUNTERS) heavy_counts[threadIdx.x] = 0;
    Tables &tables = *(Tables *)shared;
    map.tables.load(tables);
    wait_for_table();
    CountAround<Bits> bucket{BucketAround<Bits, false>(map, tables), heavy_counts};
    bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, lower_bits, bucket);
    if (threadIdx.x >= tables.heavy.count) return;
    u32 sum = 0, coarse = bucket.bucket.upper(tables.heavy.keys[threadIdx.x]);
#pragma unroll
    for (u32 c = 0; c < HEAVY_COPIES; c++) sum += heavy_counts[threadIdx.x * HEAVY_COPIES + c];
    if (sum == 0) return;
    atomicAdd(buckets.counts + (coarse << lower_bits), sum);
    atomicAdd(buckets.coarse_counts + coarse, sum);
}

// By BINS blocks, one a coarse bucket, of BINS threads, one a lower digit: the first index of each
// bucket and of each coarse bucket. Returns the number of keys in the thread's bucket.
__device__ inline u32 bucket_starts(const SortCall &call, const BucketCall &buckets, u32 lower_bits, u32 tile) {
    __shared__ u32 totals[2 * BINS / WARP], base, tiles;
    u32 coarse = blockIdx.x, d = threadIdx.x, others = buckets.coarse_counts[d];
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
    u32 per_coarse = 1u << lower_bits, bucket = coarse * per_coarse + d,
        count = d < per_coarse ? buckets.counts[bucket] : 0;
    u32 start = base + block_exclusive_sum<BINS>(count, totals);
    if (d < per_coarse) {
        buckets.starts[bucket] = start;
        buckets.cursors[bucket] = start;
    }
    if (d == 0) {
        buckets.coarse_cursors[coarse * CURSOR_STRIDE] = base;
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
template <class Bits> __device__ void bucket_plan(const SortCall &call, const BucketCall &buckets, u32 tile) {
    SortPlan<Bits> &plan = plan_of<Bits>(call);
    if (plan.has_fixed_buckets() || plan.too_large) return;
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
}

// ---- the scatter steps ----------------------------------------------------------------------

// A tile of the second step: its coarse bucket, its number there, the index of its first key, and
// the keys from there to the coarse bucket's end.
struct CoarseTile { u32 coarse, number, at, left; };
// Returns whether the second step has this tile. Each thread loads all about its own coarse bucket,
// so that no load waits for another.
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

// Where a first step around heavy keys puts the payload: that of heavy keys in `final`, all other in
// `scratch`. In place both are scratch memory.
template <class Value> struct PayloadAround { Value *scratch, *final; };
template <class Value> __device__ inline Value &payload_at(const PayloadAround<Value> &out, u64 index) {
    return (index & DONE ? out.final : out.scratch)[index & ~DONE];
}

// A bucket larger than a block's room is final after the second step, unless passes sort it: it has
// one key. The DONE bit for its positions.
struct DoneMarks {
    const u32 *starts;
    u32 room;
    IndexRange<u32> left;
    __device__ u64 operator()(u32 bucket) const {
        u32 start = starts[bucket];
        return starts[bucket + 1] - start > room && !left.has(start) ? DONE : 0;
    }
};

// A scatter step by one bucket function.
template <class Order, class Tile, class Bucket> struct BucketStep {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Value Value;
    static constexpr bool AROUND = Bucket::HAS_TABLE;
    const SortCall &call;
    const BucketCall &buckets;
    BucketMap<Bits> &map;
    Bucket bucket;
    u32 lower_bits;
    DoneMarks marks;

    __device__ BucketStep(const SortCall &call, const BucketCall &buckets, Bucket bucket)
        : call(call), buckets(buckets), map(*(BucketMap<Bits> *)buckets.map), bucket(bucket),
          lower_bits(map.lower_bits), marks{buckets.starts, buckets.room, plan_of<Bits>(call).left_by_buckets()} {}

    // Heavy keys do not move. Their payload moves to its place in the output or, in place, to the
    // same index in scratch memory.
    __device__ void first(typename Tile::Shared &s) const {
        BucketDigit<Bucket, true> digit{bucket};
        Order order{Bits(call.flip)};
        Bits *out = (Bits *)call.keys[1];
        if constexpr (!Tile::HAS_VALUES) {
            if (IS_PAST_LENGTH(blockIdx.x, Tile::TILE, call.n)) return;
            u64 at = u64(blockIdx.x) * Tile::TILE;
            const Bits *from = (const Bits *)call.keys_in + at;
            u32 *cursors = buckets.coarse_cursors;
            tile_in_any_order<Tile>(
                s, call.n - at, digit, from, [=](Bits key) { return order.to(key); },
                [=](u64 position, Bits key) { out[position] = key; },
                [=](u32 d, u32 total) { return atomicAdd(cursors + d * CURSOR_STRIDE, total); });
        } else {
            // The histogram tells final keys.
            auto put = [=](u64 position, Bits key) {
                if (!AROUND || !(position & DONE)) out[position] = key;
            };
            typename IfElse<AROUND, PayloadAround<Value>, Value *>::Type values_out{(Value *)call.values[1]};
            const HeavyKeys<Bits> *heavy = nullptr;
            if constexpr (AROUND) {
                heavy = bucket.around.heavy;
                values_out.final = (Value *)(call.in_place ? call.values[1] : call.values[0]);
            }
            const u32 *starts = buckets.starts;
            u32 lower_bits = this->lower_bits;
            u32 tiles = u32((call.n + Tile::TILE - 1) / Tile::TILE);
            for (u32 tile; (tile = draw(map.tickets)) < tiles;) {
                u64 at = u64(tile) * Tile::TILE;
                const Bits *from = (const Bits *)call.keys_in + at;
                const Value *values = (const Value *)call.values_in;
                LookBackDigits<u32> chain{call.words[0] + u64(tile) * BINS, tile};
                stable_tile<Tile>(
                    s, call.n - at, digit, from, [=](Bits key) { return order.to(key); }, put,
                    values ? values + at : nullptr, at, values_out, chain,
                    [=](u32 d, u32 total) {
                        return (starts[d << lower_bits] + chain.template receive<1>(d, total)) |
                               (AROUND && heavy->has(d) ? DONE : 0);
                    });
            }
        }
    }

    __device__ void second(typename Tile::Shared &s) const {
        CoarseTile part;
        if constexpr (!Tile::HAS_VALUES) {
            if (find_tile<Tile::TILE>(buckets, blockIdx.x, part)) second(s, part, nullptr);
        } else {
            for (u32 tile; find_tile<Tile::TILE>(buckets, tile = draw(map.tickets + 1), part);) {
                if constexpr (AROUND)
                    if (write_heavy(*bucket.around.heavy, part)) continue;
                second(s, part, call.words[1] + u64(tile) * BINS);
            }
        }
    }
    // Scatters a tile. `words`: its look-back words, if it has a payload.
    __device__ void second(typename Tile::Shared &s, CoarseTile part, u32 *words) const {
        BucketDigit<Bucket, false> digit{bucket};
        Order order{Bits(call.flip)};
        Bits *out = (Bits *)call.keys[0];
        auto put = [=](u64 position, Bits key) {
            if (AROUND) out[position & ~DONE] = position & DONE ? order.from(key) : key;
            else out[position] = key;
        };
        u32 lower_bits = this->lower_bits, coarse = part.coarse, at = part.at;
        const u32 *starts = buckets.starts;
        auto marks = this->marks;
        auto mark = [=](u32 bucket) { return AROUND ? marks(bucket) : 0; };
        const Bits *from = (const Bits *)call.keys[1] + at;
        if constexpr (!Tile::HAS_VALUES) {
            u32 *cursors = buckets.cursors;
            tile_in_any_order<Tile>(s, part.left, digit, from, Encoded(), put, [=](u32 d, u32 total) {
                u32 bucket = (coarse << lower_bits) + d;
                return atomicAdd(cursors + bucket, total) | mark(bucket);
            });
        } else {
            LookBackDigits<u32> chain{words, part.number};
            stable_tile<Tile>(s, part.left, digit, from, Encoded(), put, (const Value *)call.values[1] + at, at,
                              (Value *)call.values[0], chain, [=](u32 d, u32 total) {
                                  u32 earlier = chain.template receive<1>(d, total),
                                      bucket = (coarse << lower_bits) + d;
                                  return d >> lower_bits ? 0 : (starts[bucket] + earlier) | mark(bucket);
                              });
        }
    }
    // If the tile's coarse bucket is of a heavy key, writes the key to the tile's range of the
    // output, and returns true. The key is encoded if `bucket_sort` or passes come for it.
    __device__ bool write_heavy(const HeavyKeys<Bits> &heavy, CoarseTile part) const {
        if (!heavy.has(part.coarse)) return false;
        Bits key = heavy.keys[heavy.index(part.coarse)];
        bool is_done = marks(part.coarse << lower_bits), wants_keys = !(is_done && call.no_keys);
        if (is_done) key = Order{Bits(call.flip)}.from(key);
        const Value *from = call.in_place ? (const Value *)call.values[1] + part.at : nullptr;
        write_heavy_key(wants_keys ? (Bits *)call.keys[0] + part.at : nullptr, min(part.left, Tile::TILE), key,
                        (Value *)call.values[0] + part.at, from, threadIdx.x, Tile::THREADS);
        return true;
    }
};

// `shared` has the tile, then the tables of the map.
template <class Order, class Tile, bool FIRST>
__device__ void bucket_step(Vector *shared, const SortCall &call, const BucketCall &buckets) {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Shared Shared;
    typedef typename BucketMap<Bits>::Tables Tables;
    const SortPlan<Bits> &plan = plan_of<Bits>(call);
    if (plan.has_fixed_buckets() || plan.all_by_passes(call.n)) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    Shared &s = *(Shared *)shared;
    if (map.function == BY_BITS) {
        BucketStep<Order, Tile, BucketByBits<Bits>> step(call, buckets, BucketByBits<Bits>(map.lower_bits));
        if (FIRST) step.first(s);
        else step.second(s);
        return;
    }
    // Keys-only tiles wait for the tables when their keys are requested.
    typedef BucketAround<Bits, FIRST && !Tile::HAS_VALUES> Around;
    Tables &tables = *(Tables *)(shared + (sizeof(Shared) + sizeof(Vector) - 1) / sizeof(Vector));
    BucketStep<Order, Tile, Around> step(call, buckets, Around(map, tables));
    if constexpr (FIRST || Tile::HAS_VALUES) {
        map.tables.load(tables);
        if (Tile::HAS_VALUES) wait_for_table();
        if (FIRST) step.first(s);
        else step.second(s);
    } else {
        CoarseTile part;
        if (!find_tile<Tile::TILE>(buckets, blockIdx.x, part) || step.write_heavy(map.tables.heavy, part)) return;
        map.tables.load(tables);
        step.second(s, part, nullptr);
    }
}
