// The maps from keys to buckets, of counted and of fixed-capacity buckets:
//
// - by bits: the first bits of a key, if they spread the sample evenly and no key is frequent
// - around heavy keys (heavy_keys.cuh): all others by a share of the range from the least sampled
//   key to the greatest or, if that does not spread them, by equal-depth intervals. Their widths
//   follow the exponents of floats.
//
// A bucket's number has a digit of 8 bits, its coarse bucket, and `lower_bits` below it. Buckets
// must ascend with the keys. The exact histogram of `bucket_count` verifies the map, so a bad map
// costs time, never correctness.
#pragma once
#include "sort/heavy_keys.cuh"

constexpr u32 PART_BITS = 16; // of a key's position in its interval

// The map by range: a key's share of the range between both ends, of `all` equal parts.
template <class Bits> struct Share {
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    Bits base, most;
    u32 shift, factor;
    // The range of all possible keys. If `all` is a power of two, the share is the first bits.
    static __device__ Share whole(u32 all) {
        constexpr u64 ENDS[2] = {Bits(~Bits(0)), Bits(~Bits(0))};
        Share share(ENDS);
        share.factor = all;
        return share;
    }
    __device__ explicit Share(const u64 (&extremes)[2]) {
        Bits least = Bits(~extremes[0]);
        // Keys beyond the ends, which the sample does not have, are clamped to the key next to an
        // end.
        base = least > 0 ? least - 1 : 0;
        most = Bits(extremes[1]) - base;
        if (Bits(most + 1) != 0) most++;
        shift = WIDTH == 64 ? u32(max(32 - __clzll((long long)most), 0)) : 0;
    }
    __device__ u32 range() const { return u32(most >> shift); }
    // `range()` must be at least `all`.
    __device__ u32 factor_for(u32 all) const { return u32((u64(all) << 32) / (u64(range()) + 1)); }
    __device__ u32 operator()(Bits key) const {
        return __umulhi(u32(min(Bits(max(key, base) - base), most) >> shift), factor);
    }
};

// The interval of a key. 2^FINE intervals have one width, the next ones twice that, as floats do.
// Each side, upper and lower keys, has SIDE intervals. Inward: positions count from both ends of
// the sample to the middle between them. Outward: from the middle of all possible keys to both
// sides. Keys beyond the ends, which the sample does not have, are in intervals that hold no other
// keys.
template <class Bits, u32 FINE> struct Intervals {
    static constexpr u32 WIDTH = 8 * sizeof(Bits), FINE_BITS = FINE, SIDE = (WIDTH + 1) << FINE;
    // An interval is numbered by the upper bits of a float, exponent and FINE_BITS of the mantissa.
    // Lower keys come first: their floats are scaled so that a half, where positions begin, has
    // FIRST_EXPONENT.
    static constexpr u32 FIRST_EXPONENT = 126 - (WIDTH + 1), FIRST = FIRST_EXPONENT << FINE_BITS;
    Bits above, below; // where the positions of rising keys begin, and of falling ones
    Bits middle;

    static __device__ Intervals outward() {
        constexpr Bits MIDDLE = Bits(1) << (WIDTH - 1);
        return {MIDDLE, MIDDLE, MIDDLE};
    }
    // `grain` is a power of two. Ends become multiples of it, so that no interval spans two
    // exponents of float keys.
    static __device__ Intervals inward(const u64 (&extremes)[2], Bits grain) {
        Bits least = Bits(~extremes[0]), greatest = Bits(extremes[1]);
        if (greatest - least >= 8 * grain) { // else the ends would be far from the keys
            least &= ~(grain - 1);
            greatest |= grain - 1;
        }
        if (least > 0) least--; // position zero is a key that the sample does not have
        if (Bits(greatest + 1) != 0) greatest++;
        // Both sides are equally wide. The upper end may lie past the last key; it wraps to zero
        // then.
        Bits span = greatest - least, half = span / 2 + span % 2;
        // But zero must not be the upper end while it is a key below `least`, which the sample does
        // not have.
        if (least > 0 && Bits(least + 2 * half) == 0) {
            least--;
            span = greatest - least;
            half = span / 2 + span % 2;
        }
        return {least, Bits(least + 2 * half), Bits(least + half)};
    }

    // `below` cannot tell: if the ends are those of all possible keys, it wraps and equals `above`.
    __device__ bool is_inward() const { return above != middle; }
    __device__ bool is_upper(Bits key) const { return key >= middle; }
    // A key's position: its interval's `number`, and below that PART_BITS of how far it is in the
    // interval.
    __device__ u32 operator()(Bits key) const {
        return position(min(Bits(key - above), Bits(below - key)), is_upper(key));
    }
    static __device__ u32 interval(u32 at) { return (at >> PART_BITS) - FIRST; }
    // The upper bits of the position of each key in the interval.
    static __device__ u32 number(u32 interval) { return interval + FIRST; }
    // The share of an end's interval that lies between the end and the middle. `at` is the end's
    // position.
    __device__ float filled_share(u32 at) const {
        constexpr float ALL = 1 << PART_BITS;
        u32 part = at % (1 << PART_BITS);
        // At least 1/1024, or a lone key would ask for many buckets.
        return max((is_inward() ? ALL - float(part) : float(part + 1)) / ALL, 1.0f / 1024);
    }
    // On either side the first interval of keys beyond the ends; SIDE if there can be none.
    __device__ u32 beyond() const {
        return is_inward() && below != above ? interval(position(Bits(below - above), false)) : SIDE;
    }
    // The i-th interval in ascending order of keys, except for intervals beyond the ends.
    __device__ u32 nth_in_order(u32 i) const {
        return is_inward() == (i < SIDE) ? i : i < SIDE ? SIDE - 1 - i : SIDE + (2 * SIDE - 1 - i);
    }
    // Whether keys rise with their position in the interval.
    __device__ bool rises(u32 interval) const { return is_inward() == (interval < SIDE); }
    // Log2 of the interval's width in keys; 0 for narrower intervals.
    static __device__ u32 width_bits(u32 interval) {
        u32 bits = interval % SIDE >> FINE_BITS;
        return bits > FINE_BITS + 1 ? bits - (FINE_BITS + 1) : 0;
    }
    // Among adjacent intervals narrower than a key, the one that the key is in.
    static __device__ u32 with_key(u32 interval) {
        // log2 of the intervals that share a key
        u32 octave = interval % SIDE >> FINE_BITS, bits = octave > FINE_BITS ? 0
                                                          : octave > 0       ? FINE_BITS + 1 - octave
                                                                             : FINE_BITS;
        return interval >> bits << bits | (octave > 0 ? (1u << bits) / 2 : 0);
    }
    // The least key of an interval at most 2^16 keys wide, and of all later intervals.
    __device__ Bits least(u32 interval) const {
        auto first = [](u32 at) { // distance of the first key at or behind the interval's begin
            u32 fine = (1u << FINE_BITS) + at % (1u << FINE_BITS);
            return ((fine << (at >> FINE_BITS)) + (1u << FINE_BITS) - 1) >> (FINE_BITS + 1);
        };
        return rises(interval) ? Bits(above + first(interval % SIDE)) : Bits(below - (first(interval % SIDE + 1) - 1));
    }

  private:
    static __device__ u32 position(Bits x, bool is_upper) {
        constexpr float LOWER = 1.0f / (u64(1) << WIDTH / 2) / (u64(2) << WIDTH / 2);
        float position = __fadd_rz(WIDTH == 64 ? __ull2float_rz(x) : __uint2float_rz(u32(x)), 0.5f);
        if (!is_upper) position *= LOWER;
        return __float_as_uint(position) >> (23 - FINE_BITS - PART_BITS);
    }
};

// ---- the map around heavy keys ----------------------------------------------------------------

// The tables of the map. Blocks copy them to shared memory.
template <class Bits, u32 FINE> struct alignas(16) MapTables {
    typedef ::Intervals<Bits, FINE> Intervals;
    static constexpr u32 SIDE = Intervals::SIDE, INTERVALS = 2 * SIDE;
    // The equal-depth table, an entry for each interval. Its lower half is the signed step: the
    // parts of the interval, or 0 if that is one; negative if keys fall as their position rises.
    // Its upper half is the part at the interval's beginning, less the step times the interval's
    // `number`. A key's part is the upper half of the entry plus the step times the key's position.
    u32 intervals[INTERVALS];
    HeavyKeys<Bits> heavy;
    Intervals layout;
    Share<Bits> share;
    u32 is_linear; // by a share of the range

    // By the whole block, before `wait_for_table`: copies the tables to shared memory.
    __device__ void load(MapTables &to) const {
        constexpr u32 VECTORS = sizeof(MapTables) / sizeof(Vector), OF_INTERVALS = sizeof(intervals) / sizeof(Vector);
        for (u32 i = threadIdx.x + (is_linear ? OF_INTERVALS : 0); i < VECTORS; i += blockDim.x)
            copy_common_to_shared((Vector *)&to + i, (const Vector *)this + i);
    }
};
// The bucket of a key that is not heavy, before heavy keys have digits. A part of the table is
// 2^-BITS_OF_PARTS of a bucket.
template <class Bits, u32 FINE, u32 BITS_OF_PARTS> struct MapBase {
    bool is_linear;
    Share<Bits> share;
    const u32 *table;
    Intervals<Bits, FINE> intervals;
    __device__ explicit MapBase(const MapTables<Bits, FINE> &tables) : MapBase(tables, tables) {}
    // `shared`: where the copy of the tables is to be found once it has come.
    __device__ MapBase(const MapTables<Bits, FINE> &tables, const MapTables<Bits, FINE> &shared)
        : is_linear(tables.is_linear), share(tables.share), table(shared.intervals), intervals(tables.layout) {}
    template <u32 COUNT> __device__ void all(const Bits *key, u32 *bucket) const {
        if (is_linear) {
#pragma unroll
            for (u32 i = 0; i < COUNT; i++) bucket[i] = share(key[i]);
            return;
        }
        // In a rising interval of 2^15 keys or more the last position goes to the part behind the
        // interval. That is no single-key bucket: rising intervals get no narrower, and none that
        // wide has a bucket for each key.
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) {
            u32 at = intervals(key[i]), entry = table[intervals.interval(at)];
            bucket[i] = (entry + lower_half(entry) * at) >> (PART_BITS + BITS_OF_PARTS);
        }
    }
    __device__ u32 operator()(Bits key) const {
        u32 bucket;
        all<1>(&key, &bucket);
        return bucket;
    }
};

// ---- counted buckets --------------------------------------------------------------------------

enum BucketFunction : u32 { BY_BITS, AROUND_HEAVY };
constexpr u32 FEW_DIGITS = 2; // with so few differing digits, passes are faster

constexpr u32 BUCKETS = 1 << 16; // the most
// Of the sketch of the sample: its slots, and the most keys in it.
constexpr u32 LOG_SLOTS = 13, LOG_SKETCHED = 18;

template <class Bits> struct BucketMap { // zero before the sort
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    // 2^FINE_BITS intervals of one width, then the next width
    static constexpr u32 FINE_BITS = WIDTH == 32 ? 5 : 4;
    typedef MapTables<Bits, FINE_BITS> Tables;
    typedef MapBase<Bits, FINE_BITS, 0> Base;
    static constexpr u32 SIDE = Tables::SIDE, INTERVALS = Tables::INTERVALS;

    u64 extremes[2]; // of the sample: the least key, bits inverted, and the greatest
    u64 differing; // bits that differ within the sample
    u32 coarse_counts[BINS]; // histogram of the sample by the first digit
    u32 sketch[1 << LOG_SLOTS]; // histogram of the sample by hashes of the keys
    u32 shares[BINS]; // by BINS equal parts of the range
    u32 samples[2][INTERVALS]; // by interval, inward and outward
    typedef FewKeys<Bits, LOG_DISTINCT, false> Candidates;
    Candidates candidates; // for heavy keys, by all blocks: the keys of full slots of the sketch, also rare ones
    u32 missed; // hits of such keys that it, or a table of one block, has refused
    u32 sample_ticket, map_ticket; // of their parts
    u32 sampled, mapped; // finished parts
    u32 is_selected; // whether `function` is final
    u32 tickets[2]; // of the tiles of either scatter step
    u32 one_key[BUCKETS / 32]; // a bit for each bucket that only one key can be in

    BucketFunction function;
    u32 lower_bits; // of a bucket's number
    Tables tables;
};

// Waits for the block's copies of a table to shared memory. By the whole block.
__device__ inline void wait_for_table() {
    wait_for_copies();
    __syncthreads();
}

// Bucket functions: a key's bucket, and the upper and lower digit of the bucket's number.
// HAS_TABLE: around heavy keys, by tables in shared memory. A single-key bucket of that map may
// exceed a block's room; its keys are final after a step.
template <class Bits> struct BucketByBits {
    static constexpr bool HAS_TABLE = false;
    u32 shift, mask;
    __device__ explicit BucketByBits(u32 lower_bits)
        : shift(8 * sizeof(Bits) - DIGIT_BITS - lower_bits), mask((1u << lower_bits) - 1) {}
    __device__ u32 operator()(Bits key) const { return u32(key >> shift); }
    __device__ u32 upper(Bits key) const { return u32(key >> (8 * sizeof(Bits) - DIGIT_BITS)); }
    __device__ u32 lower(Bits key) const { return u32(key >> shift) & mask; }
};
// STAY: heavy keys stay where they are in the first step, so they have no digit there.
template <class Bits, bool STAY> struct BucketAround {
    static constexpr bool HAS_TABLE = true;
    typedef BucketMap<Bits> Map;
    AroundHeavy<typename Map::Base, Bits> around;
    __device__ BucketAround(const Map &map, const typename Map::Tables &shared)
        : around{typename Map::Base(map.tables, shared), &shared.heavy, map.lower_bits} {}
    template <u32 COUNT> __device__ void upper(const Bits *key, u32 *digit) const {
        u32 less[COUNT], is_heavy = around.template find<COUNT>(key, digit, less);
#pragma unroll
        for (u32 i = 0; i < COUNT; i++)
            digit[i] = STAY && is_heavy >> i & 1 ? BINS + lane_id() : digit[i] >> around.lower_bits;
    }
    __device__ u32 upper(Bits key) const {
        u32 digit;
        upper<1>(&key, &digit);
        return digit;
    }
    // Of keys that are not heavy.
    template <u32 COUNT> __device__ void lower(const Bits *key, u32 *digit) const {
        around.base.template all<COUNT>(key, digit);
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) digit[i] &= (1u << around.lower_bits) - 1;
    }
    __device__ u32 lower(Bits key) const { return around.base(key) & ((1u << around.lower_bits) - 1); }
};
// The upper or lower digit of a key's bucket.
template <class Bucket, bool UPPER> struct BucketDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const {
        return UPPER ? bucket.upper(key) : bucket.lower(key);
    }
    template <u32 COUNT, class Bits> __device__ void all(const Bits *key, u32 *d) const {
        if (UPPER) bucket.template upper<COUNT>(key, d);
        else bucket.template lower<COUNT>(key, d);
    }
    // Waits for the table, and in any case until the block's bins are zero.
    __device__ bool prepare() const {
        if (Bucket::HAS_TABLE) wait_for_table();
        else __syncthreads();
        return true;
    }
};
template <class Bits> constexpr bool SOME_STAY<BucketDigit<BucketAround<Bits, true>, true>> = true;
template <class Bucket, bool UPPER> constexpr bool IS_COSTLY<BucketDigit<Bucket, UPPER>> = Bucket::HAS_TABLE;

// Loads a map's histogram of the sample, to which other blocks have added, every THREADS-th bin;
// zero past the end. All loads are issued before the first value is used.
template <u32 THREADS, u32 COUNT, class Map> __device__ inline void load_samples(u32 (&samples)[COUNT], Map &map) {
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) {
        u32 i = k * THREADS + threadIdx.x;
        samples[k] = i < 2 * Map::INTERVALS ? load_relaxed(map.samples[0] + i) : 0;
    }
}

// The index of the i-th key of a sample: hashed within its stride, so that no period of the input
// matters, and no input can be made for these positions without the seed.
__device__ inline u64 sampled_at(u32 i, u32 stride, u32 seed) {
    u32 mixed = (i ^ i >> 7 ^ seed) * 0x9e3779b1u;
    return u64(i) * stride + (u64(mixed ^ mixed >> 15) * stride >> 32);
}
