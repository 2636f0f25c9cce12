// The maps from keys to buckets. `bucket_map` of bucket_sample.cuh chooses one by the pilot sample:
//
// - by bits: the first bits of a key, if they spread the sample evenly
// - by range: a key's share of the range from the least sampled key to the greatest
// - by values: few distinct keys, each with an equality bucket; one bucket between two of them
// - by equal-depth intervals of keys. Their widths follow the exponents of floats. An interval gets
//   equally wide buckets, as many as its share of the sample asks for.
//
// A bucket's number has an upper digit of 8 bits, its coarse bucket, and a lower one of
// `lower_bits`. Buckets must ascend with the keys. The exact histogram of `bucket_count` verifies
// the map, so a bad map costs time, never correctness.
#pragma once
#include "sort/sort.cuh"

enum BucketFunction : u32 { BY_BITS, BY_RANGE, BY_VALUES, BY_INTERVALS };
constexpr u32 FEW_DIGITS = 2; // with so few differing digits, passes are faster

constexpr u32 BUCKETS = 1 << 16; // the most
constexpr u32 PART_BITS = 16; // of a key's position in its interval

// Adjacent intervals of one width and of equally many buckets that hold all keys of a coarse
// bucket: the lower digit is a linear function of the key, without a table.
template <class Bits> struct LinearRun {
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    typedef typename If<WIDTH == 64, long long, int>::Type Signed;
    Bits from;
    u32 shift, step, first; // step 0: no run
    __device__ u32 digit(Bits key) const {
        return (first + step * u32(Signed(key - from) >> shift)) >> PART_BITS;
    }
};

// Adjacent single-key buckets around the most frequent key. The histogram tells the output there,
// so keys-only need not move.
template <class Bits> struct OneKeyRun {
    Bits from;
    u32 keys, bucket; // consecutive keys from `from` on, and the bucket of the first
    u32 most_moved; // up to so many keys are moved as all others are
    u32 begin, end; // their range of the output, from the histogram
    __device__ bool has(Bits key) const { return Bits(key - from) < keys; }
    // The run if its keys stay unmoved; else a run of no keys.
    __device__ OneKeyRun unmoved() const {
        OneKeyRun all = *this;
        if (end - begin <= most_moved) all.keys = 0;
        return all;
    }
};

template <class Bits> struct BucketMap { // zero before the sort
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    // 2^FINE_BITS intervals of one width, then the next width
    static constexpr u32 FINE_BITS = WIDTH == 32 ? 5 : 4;
    static constexpr u32 SIDE = (WIDTH + 1) << FINE_BITS, INTERVALS = 2 * SIDE, LOG_INTERVALS = 12;
    static_assert(INTERVALS <= 1 << LOG_INTERVALS, "bits of an interval's number");

    u64 extremes[2]; // of the sample: the least key, bits inverted, and the greatest
    u64 differing; // bits that differ within the sample
    u32 coarse_counts[BINS]; // histogram of the sample by the first digit
    u32 shares[BINS]; // by BINS equal parts of the range
    u32 samples[2][INTERVALS]; // by interval, inward and outward
    u32 sampled, mapped; // blocks that have finished `bucket_sample`, `bucket_map`
    u32 tickets[2]; // of the tiles of either scatter step
    u32 one_key[BUCKETS / 32]; // a bit for each bucket that only one key can be in

    BucketFunction function;
    u32 lower_bits; // of the lower digit
    u32 factor;
    Bits above, below, middle; // `Intervals`
    union {
        // The equal-depth table, an entry for each interval. Its lower half is the signed step: the
        // interval's number of buckets, or 0 if that is one; negative if keys fall as their
        // position rises. Its upper half is the bucket at the interval's beginning, less the step
        // times the interval's `number`. A key's bucket is the upper half of the entry plus the
        // step times the key's position.
        alignas(16) u32 intervals[INTERVALS];
        // ascending; the greatest possible key is last and fills unused entries
        Bits values[VALUES];
    };
    LinearRun<Bits> linear_runs[BINS];
    OneKeyRun<Bits> one_key_run;
    // distinct keys of each block's part of the sample, and these keys if they are few
    u32 distinct[MAP_BLOCKS];
    Bits part_values[MAP_BLOCKS][VALUES];
};

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
template <class Bits, u32 FINE = BucketMap<Bits>::FINE_BITS> struct Intervals {
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
        return is_inward() && below != above ? interval(position(Bits(below - above), false))
                                             : SIDE;
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
                                                          : octave > 0 ? FINE_BITS + 1 - octave
                                                                       : FINE_BITS;
        return interval >> bits << bits | (octave > 0 ? (1u << bits) / 2 : 0);
    }
    // The least key of an interval at most 2^16 keys wide, and of all later intervals.
    __device__ Bits least(u32 interval) const {
        auto first = [](u32 at) { // distance of the first key at or behind the interval's begin
            u32 fine = (1u << FINE_BITS) + at % (1u << FINE_BITS);
            return ((fine << (at >> FINE_BITS)) + (1u << FINE_BITS) - 1) >> (FINE_BITS + 1);
        };
        return rises(interval) ? Bits(above + first(interval % SIDE))
                               : Bits(below - (first(interval % SIDE + 1) - 1));
    }

    // The interval's table entry as a linear function of the key's bits instead of its float. It
    // gives the lower digits of the coarse bucket that begins with `first_bucket`.
    __device__ LinearRun<Bits> linear_run(u32 interval, u32 entry, u32 first_bucket) const {
        // of a position within an octave, in parts of a key
        constexpr u32 BITS = FINE_BITS + PART_BITS;
        // an octave begins at 2^(octave - 1) keys
        u32 step = u32(lower_half(entry)), octave = interval % SIDE >> FINE_BITS;
        u32 shift = octave > BITS + 1 ? octave - 1 - BITS : 0,
            scale = octave < BITS + 1 ? BITS + 1 - octave : 0;
        u32 half = scale > 0 ? 1u << (scale - 1) : 0;
        u32 first = entry + step * ((number(interval) >> FINE_BITS << BITS) - (1u << BITS) + half) -
                    (first_bucket << PART_BITS);
        step <<= scale;
        // Falling keys: the distance from `below` is the complement of one counted upwards.
        return rises(interval) ? LinearRun<Bits>{above, shift, step, first}
                               : LinearRun<Bits>{Bits(below + 1), shift, -step, first - step};
    }

  private:
    // Rounds to zero, so that integer arithmetic in `linear_run` gives the same.
    static __device__ u32 position(Bits x, bool is_upper) {
        constexpr float LOWER = 1.0f / (u64(1) << WIDTH / 2) / (u64(2) << WIDTH / 2);
        float position = __fadd_rz(WIDTH == 64 ? __ull2float_rz(x) : __uint2float_rz(u32(x)), 0.5f);
        if (!is_upper) position *= LOWER;
        return __float_as_uint(position) >> (23 - FINE_BITS - PART_BITS);
    }
};

// How a scatter step stores a key. A position with the bit DONE is final: the key needs no further
// sort. This one stores a final key decoded, any other key encoded.
template <class Order, class Bits> struct PutDecodeDone {
    Bits *out;
    Order order;
    __device__ void operator()(u64 position, Bits key) const {
        out[position & ~DONE] = position & DONE ? order.from(key) : key;
    }
};
template <class Order, class Bits> struct PutKey {
    Bits *out;
    Order order;
    __device__ void operator()(u64 position, Bits key) const { out[position] = key; }
};
// Does not store final keys: the histogram tells them.
template <class Order, class Bits> struct PutUnlessDone {
    Bits *out;
    Order order;
    __device__ void operator()(u64 position, Bits key) const {
        if (!(position & DONE)) out[position] = key;
    }
};

// Waits for the block's copies of a table to shared memory. By the whole block.
__device__ inline void wait_for_table() {
    wait_for_copies();
    __syncthreads();
}

// Bucket functions: a key's bucket, and the upper and lower digit of the bucket's number.
// HAS_LARGE: a single-key bucket may exceed a block's room; its keys are final after the step.
// Passes sort any other large bucket, whatever the map. HAS_TABLE: a table in shared memory.
// ONE_STEP: there is no lower digit. IS_LINEAR: `BucketByLinearRun`.
template <class Bits> struct BucketByBits {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINEAR = false;
    template <class Order> using Put = PutKey<Order, Bits>;
    u32 shift, mask;
    __device__ explicit BucketByBits(u32 lower_bits)
        : shift(8 * sizeof(Bits) - DIGIT_BITS - lower_bits), mask((1u << lower_bits) - 1) {}
    __device__ u32 operator()(Bits key) const { return u32(key >> shift); }
    __device__ u32 upper(Bits key) const { return u32(key >> (8 * sizeof(Bits) - DIGIT_BITS)); }
    __device__ u32 lower(Bits key) const { return u32(key >> shift) & mask; }
};
template <class Bits> struct BucketByRange {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINEAR = false;
    template <class Order> using Put = PutKey<Order, Bits>;
    Share<Bits> share;
    u32 lower_bits;
    __device__ explicit BucketByRange(const BucketMap<Bits> &map)
        : share(map.extremes), lower_bits(map.lower_bits) {
        share.factor = map.factor;
    }
    __device__ u32 operator()(Bits key) const { return share(key); }
    __device__ u32 upper(Bits key) const { return share(key) >> lower_bits; }
    __device__ u32 lower(Bits key) const { return share(key) & ((1u << lower_bits) - 1); }
};
// Few values use few, adjacent words of the table, so the searches rarely wait for each other. The
// interleaved, padded search of `SplitterDigit` takes longer here.
template <class Bits> struct BucketByValues {
    static constexpr bool HAS_LARGE = true, HAS_TABLE = true, ONE_STEP = true, IS_LINEAR = false;
    template <class Order> using Put = PutDecodeDone<Order, Bits>;
    const Bits *values;
    __device__ u32 operator()(Bits key) const {
        u32 less = 0; // values less than the key
#pragma unroll
        for (u32 step = VALUES / 2; step > 0; step /= 2)
            less += values[less + step - 1] < key ? step : 0;
        return 2 * less + (values[less] == key);
    }
    __device__ u32 upper(Bits key) const { return (*this)(key); }
    static __device__ void load(Bits *table, const BucketMap<Bits> &map) {
        if (threadIdx.x < VALUES) table[threadIdx.x] = map.values[threadIdx.x];
    }
};
template <class Bits, u32 FINE = BucketMap<Bits>::FINE_BITS> struct BucketByIntervals {
    static constexpr bool HAS_LARGE = true, HAS_TABLE = true, ONE_STEP = false, IS_LINEAR = false;
    template <class Order> using Put = PutDecodeDone<Order, Bits>;
    const u32 *table;
    Intervals<Bits, FINE> intervals;
    u32 lower_bits;
    __device__ BucketByIntervals(const BucketMap<Bits> &map, const u32 *table)
        : BucketByIntervals(Intervals<Bits, FINE>{map.above, map.below, map.middle}, table,
                            map.lower_bits) {}
    __device__ BucketByIntervals(const Intervals<Bits, FINE> &intervals, const u32 *table,
                                 u32 lower_bits)
        : table(table), intervals(intervals), lower_bits(lower_bits) {}
    __device__ u32 operator()(Bits key) const { return parts(key) >> PART_BITS; }
    __device__ u32 upper(Bits key) const { return parts(key) >> (PART_BITS + lower_bits); }
    __device__ u32 lower(Bits key) const {
        return parts(key) >> PART_BITS & ((1u << lower_bits) - 1);
    }
    // By the whole block, before `wait_for_table`.
    static __device__ void load(u32 *table, const BucketMap<Bits> &map) {
        for (u32 i = threadIdx.x; i < BucketMap<Bits>::INTERVALS / 4; i += blockDim.x)
            copy_common_to_shared((Vector *)table + i, (const Vector *)map.intervals + i);
    }

  private:
    // The bucket's number, and below it PART_BITS of how far a key is in the bucket. In a rising
    // interval of 2^15 keys or more the last part goes to the bucket behind the interval. That is
    // no single-key bucket: rising intervals get no narrower, and none that wide has a bucket for
    // each key.
    __device__ u32 parts(Bits key) const {
        u32 at = intervals(key), entry = table[intervals.interval(at)];
        return entry + lower_half(entry) * at;
    }
};
// The upper digit only, in a step that may leave the keys of the run unmoved.
template <class Bits> struct BucketBesideOneKeyRun : BucketByIntervals<Bits> {
    OneKeyRun<Bits> one_key_run;
    __device__ BucketBesideOneKeyRun(const BucketMap<Bits> &map, const u32 *table)
        : BucketByIntervals<Bits>(map, table), one_key_run(map.one_key_run.unmoved()) {}
};
// The lower digit only.
template <class Bits> struct BucketByLinearRun {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINEAR = true;
    template <class Order> using Put = PutKey<Order, Bits>;
    LinearRun<Bits> linear_run;
    __device__ u32 lower(Bits key) const { return linear_run.digit(key); }
};
// Waits for the table, and in any case until the block's bins are zero. Always returns true. With a
// linear run the compiler must not know that, or it makes all warps wait here for the first key of
// each.
template <class Bucket> __device__ inline bool prepare_digits() {
    if (Bucket::IS_LINEAR) return !__syncthreads_or(false);
    if (Bucket::HAS_TABLE) wait_for_table();
    else __syncthreads();
    return true;
}
template <class Bucket> struct UpperDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket.upper(key); }
    template <class Bits> __device__ bool stays(Bits key) const {
        return bucket.one_key_run.has(key);
    }
    __device__ bool prepare() const { return prepare_digits<Bucket>(); }
};
template <class Bits> constexpr bool SOME_STAY<UpperDigit<BucketBesideOneKeyRun<Bits>>> = true;
template <class Bucket> struct LowerDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket.lower(key); }
    __device__ bool prepare() const { return prepare_digits<Bucket>(); }
};
// With few values runs are long: no marks, rows of a warp.
template <class Bucket> constexpr bool IS_MARKED<UpperDigit<Bucket>> =
    Bucket::HAS_TABLE && !Bucket::ONE_STEP;
template <class Bucket> constexpr bool IS_MARKED<LowerDigit<Bucket>> = Bucket::HAS_TABLE;
template <class Bucket> constexpr bool BY_ROWS<UpperDigit<Bucket>> = Bucket::ONE_STEP;
template <class Bucket> constexpr bool BY_ROWS<LowerDigit<Bucket>> = true;
// Whether a tile loads its keys only after the table of their digits has come.
template <class D> constexpr bool TABLE_FIRST = false;
template <class Bucket> constexpr bool TABLE_FIRST<UpperDigit<Bucket>> =
    IS_MARKED<UpperDigit<Bucket>>;
template <class Bucket> constexpr bool TABLE_FIRST<LowerDigit<Bucket>> =
    IS_MARKED<LowerDigit<Bucket>>;

// Loads a map's histogram of the sample, to which other blocks have added, every THREADS-th bin;
// zero past the end. All loads are issued before the first value is used.
template <u32 THREADS, u32 COUNT, class Map>
__device__ inline void load_samples(u32 (&samples)[COUNT], Map &map) {
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) {
        u32 i = k * THREADS + threadIdx.x;
        samples[k] = i < 2 * Map::INTERVALS ? load_relaxed(map.samples[0] + i) : 0;
    }
}

// The index of the i-th key of a sample: hashed within its stride, so that no period of the input
// matters.
__device__ inline u64 sampled_at(u32 i, u32 stride) {
    u32 mixed = (i ^ i >> 7) * 0x9e3779b1u;
    return u64(i) * stride + (u64(mixed ^ mixed >> 15) * stride >> 32);
}
