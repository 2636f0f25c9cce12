// Scan: the pipeline from contiguous memory to contiguous memory.
#pragma once
#include "core/pipeline.cuh"

enum ScanFlags : u32 { EXCLUSIVE = 1, REVERSE = 2, INIT = 4 };

// No pointer is __restrict__: input and output may be the same memory.
template <class Operator> struct ScanSource {
    typedef typename Operator::Element Item;
    typename RunOf<Item>::Type run;

    __device__ u32 shift() const { return run.shift(); }
    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const { run.template prefetch<ITEMS>(first, lane); }
    template <class Stage> __device__ void load(Stage &stage, u64 first, u32 lane) const { run.load(stage, first, lane); }
    __device__ typename Operator::Carry carry(Item x) const { return Operator::lift(x); }
};

template <class Operator> struct ScanSink {
    typedef typename Operator::Element Result;
    typedef typename Operator::Carry Carry;
    typename RunOf<Result>::Type run;
    bool exclusive;

    __device__ Result put(u64, Result, Carry before, Carry upto) const { return Operator::lower(exclusive ? before : upto); }
    template <class Stage> __device__ void store(Stage &stage, u64 first, u32 lane) const { run.store(stage, first, lane); }
    __device__ void total(Carry) const {}
};

// ---- short elements by words -----------------------------------------------------------------------------------------------
// Taken one by one, elements of one byte, and some of two, are bound by their instructions: a word holds four of them, or two.
// Where the operator says how (`Operator::Pairs`), two at once go through the 16-bit lanes of a word. Such operators are
// commutative. Of bytes, what is carried into the upper half of a lane is cut off in the end.

// The operator has no such form, or its elements are wider.
struct NoPairs {};
struct SumPairs { // of bytes
    static constexpr bool SIGNED = false;
    static constexpr u32 NEUTRAL = 0;
    static __device__ u32 combine(u32 a, u32 b) { return a + b; }
};
struct BitAndPairs {
    static constexpr bool SIGNED = false;
    static constexpr u32 NEUTRAL = 0xffffffffu;
    static __device__ u32 combine(u32 a, u32 b) { return a & b; }
};
struct BitOrPairs {
    static constexpr bool SIGNED = false;
    static constexpr u32 NEUTRAL = 0;
    static __device__ u32 combine(u32 a, u32 b) { return a | b; }
};
struct BitXorPairs {
    static constexpr bool SIGNED = false;
    static constexpr u32 NEUTRAL = 0;
    static __device__ u32 combine(u32 a, u32 b) { return a ^ b; }
};
template <class Lane> struct MaxPairs {
    static constexpr bool SIGNED = Lane(-1) < 0;
    static constexpr u32 NEUTRAL = SIGNED ? 0x80008000u : 0;
    static __device__ u32 combine(u32 a, u32 b) { return lane_max(a, b, Tag<Lane>()); }
};
template <class Lane> struct MinPairs {
    static constexpr bool SIGNED = Lane(-1) < 0;
    static constexpr u32 NEUTRAL = SIGNED ? 0x7fff7fffu : 0xffffffffu;
    static __device__ u32 combine(u32 a, u32 b) { return lane_min(a, b, Tag<Lane>()); }
};

// Products of lanes are no single instruction. Those of bytes are taken one by one in words, whose upper bytes are of no use.
struct ProductInTurn {};

// The walk over a vector's words, forward or backward, that all of these share. A Word keeps what came before in `upto` and has
//   void fold(u32 word)                                  // in memory order: the operator is commutative
//   Carry folded() const
//   u32 put(u32 word, bool reverse, bool exclusive)      // the results, in memory order
template <class Operator, class Word> struct ByWords {
    typedef typename Operator::Carry Carry;
    Word word;

    __device__ ByWords() : word({Carry(), false}) {}
    __device__ explicit ByWords(Maybe<Carry> before) : word(before) {}

    __device__ void fold(const ScanSource<Operator> &, Vector items, bool) {
#pragma unroll
        for (u32 w = 0; w < 4; w++) word.fold(items.word[w]);
    }
    __device__ Carry folded() const { return word.folded(); }

    __device__ Vector put(const ScanSource<Operator> &, const ScanSink<Operator> &sink, u64, Vector items, bool reverse) {
        Vector results;
#pragma unroll
        for (u32 w = 0; w < 4; w++) {
            u32 result = word.put(reverse ? items.word[3 - w] : items.word[w], reverse, sink.exclusive);
            (reverse ? results.word[3 - w] : results.word[w]) = result;
        }
        return results;
    }
};

template <class Operator> struct WordOfBytes {
    typedef typename Operator::Carry Carry;
    typedef typename Operator::Pairs Pairs;

    u32 upto; // folding: in both lanes; putting: in the lower one

    __device__ explicit WordOfBytes(Maybe<Carry> before) : upto(before.some ? u32(int(before.value)) : Pairs::NEUTRAL) {}

    // Its items with even numbers in scan order, and those with odd ones, as lanes.
    static __device__ u32 evens(u32 word, bool reverse) {
        return Pairs::SIGNED ? permute(word, reverse ? 0x91b3 : 0xa280) : permute(word, reverse ? 0x4143 : 0x4240);
    }
    static __device__ u32 odds(u32 word, bool reverse) {
        return Pairs::SIGNED ? permute(word, reverse ? 0x80a2 : 0xb391) : permute(word, reverse ? 0x4042 : 0x4341);
    }

    __device__ void fold(u32 word) {
        upto = Pairs::combine(upto, Pairs::combine(evens(word, false), odds(word, false)));
    }
    __device__ Carry folded() const { return Carry(Pairs::combine(upto, upto >> 16)); }

    __device__ u32 put(u32 word, bool reverse, bool exclusive) {
        u32 even = evens(word, reverse), odd = odds(word, reverse);
        // Each lane: up to before its even item, up to that, up to the odd one.
        u32 before = lanes(upto, Pairs::combine(upto, Pairs::combine(even, odd)));
        even = Pairs::combine(before, even);
        odd = Pairs::combine(even, odd);
        upto = odd >> 16;
        return __byte_perm(exclusive ? before : even, exclusive ? even : odd, reverse ? 0x0426 : 0x6240);
    }
};

template <class Operator> struct WordOfHalves {
    typedef typename Operator::Carry Carry;
    typedef typename Operator::Pairs Pairs;

    u32 upto; // folding: of the items of each lane; putting: of all in both lanes

    __device__ explicit WordOfHalves(Maybe<Carry> before)
        : upto(before.some ? permute(u32(before.value), 0x1010) : Pairs::NEUTRAL) {}

    __device__ void fold(u32 word) { upto = Pairs::combine(upto, word); }
    __device__ Carry folded() const { return Carry(Pairs::combine(upto, upto >> 16)); }

    __device__ u32 put(u32 word, bool reverse, bool exclusive) {
        u32 turn = reverse ? 0x1032 : 0x3210, items = permute(word, turn);
        u32 sums = Pairs::combine(items, __byte_perm(items, Pairs::NEUTRAL, 0x1054)); // the first, both
        u32 inclusive = Pairs::combine(upto, sums);
        u32 results = exclusive ? __byte_perm(upto, inclusive, 0x5410) : inclusive;
        upto = permute(inclusive, 0x3232);
        return permute(results, turn);
    }
};

template <class Operator> struct WordOfFactors {
    typedef typename Operator::Carry Carry;

    u32 upto;

    __device__ explicit WordOfFactors(Maybe<Carry> before) : upto(before.some ? before.value : 1) {}

    __device__ void fold(u32 word) { upto = upto * word * (word >> 8) * ((word >> 16) * (word >> 24)); }
    __device__ Carry folded() const { return Carry(upto); }

    __device__ u32 put(u32 word, bool reverse, bool exclusive) {
        u32 results[4];
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 inclusive = upto * (word >> 8 * (reverse ? 3 - j : j));
            results[j] = exclusive ? upto : inclusive;
            upto = inclusive;
        }
        u32 first = __byte_perm(results[0], results[1], 0x0040), last = __byte_perm(results[2], results[3], 0x0040);
        return __byte_perm(first, last, reverse ? 0x0145 : 0x5410);
    }
};

// ---- functions over states ---------------------------------------------------------------------------------------------------
// Taken from the last one back, a composition is a selection of bytes out of a table, a third of what it takes to pack the result as
// well; so a lane's functions are folded that way, and packed once.

struct FoldedStates {};

template <class Operator, class Shape>
struct LaneByStates
    : LaneByLane<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape, FoldedStates> {
    typedef LaneByLane<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape, FoldedStates> Base;
    typedef typename Operator::Carry Carry;
    typedef typename Base::Stage Stage;
    using Base::Base;

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        this->source.load(stage, first, lane);
        __syncwarp();
        // Which way is decided once a slice, for it would be a selection for each word.
        States all = this->reverse ? folded<true>(stage, lane) : folded<false>(stage, lane);
        Carry upto = warp_inclusive<Operator>({all.packed()}, lane);
        this->before = shuffle_up(upto, 1);
        return upto;
    }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        u32 upto = prefix.some ? prefix.value.packed : States::IDENTITY;
        if (lane > 0) upto = States(this->before.packed).of(upto).packed();
        bool exclusive = this->sink.exclusive;
        if (this->reverse) exclusive ? put<true, true>(stage, upto, lane) : put<true, false>(stage, upto, lane);
        else exclusive ? put<false, true>(stage, upto, lane) : put<false, false>(stage, upto, lane);
        __syncwarp();
        this->sink.store(stage, first, lane);
    }

  private:
    template <bool REVERSE> static __device__ States folded(Stage &stage, u32 lane) {
        States states;
#pragma unroll
        for (u32 k = Shape::VECTORS; k-- > 0;) {
            Vector items = stage.of_lane(lane, k, REVERSE);
#pragma unroll
            for (u32 j = 4; j-- > 0;) states = states.of(items.word[REVERSE ? 3 - j : j]);
        }
        return states;
    }

    template <bool REVERSE, bool EXCLUSIVE> static __device__ void put(Stage &stage, u32 before, u32 lane) {
        States::Digits upto(before);
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) {
            Vector items = stage.of_lane(lane, k, REVERSE), results;
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 at = REVERSE ? 3 - j : j;
                States::Digits inclusive(States(items.word[at]).of(upto));
                results.word[at] = EXCLUSIVE ? upto.packed : inclusive.packed;
                upto = inclusive;
            }
            stage.of_lane(lane, k, REVERSE) = results;
        }
    }
};

// ---- scan ------------------------------------------------------------------------------------------------------------------

template <class Operator, class Pairs, u32 BYTES> struct WordOf;
template <class Operator, class Pairs> struct WordOf<Operator, Pairs, 1> {
    typedef WordOfBytes<Operator> Type;
};
template <class Operator, class Pairs> struct WordOf<Operator, Pairs, 2> {
    typedef WordOfHalves<Operator> Type;
};
template <class Operator> struct WordOf<Operator, ProductInTurn, 1> {
    typedef WordOfFactors<Operator> Type;
};

// How a warp goes over its slice.
template <class Operator, class Shape, class Pairs, bool TILES> struct ScanWalk { // by words
    typedef typename WordOf<Operator, Pairs, sizeof(typename Operator::Element)>::Type Word;
    typedef LaneByLane<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape,
                       ByWords<Operator, Word>>
        Type;
};
template <class Operator, class Shape> struct ScanWalk<Operator, Shape, FoldedStates, true> {
    typedef LaneByStates<Operator, Shape> Type;
};
template <class Operator, class Shape> struct ScanWalk<Operator, Shape, NoPairs, true> {
    typedef typename Operator::Element Item;
    typedef ItemByItem<Operator, ScanSource<Operator>, ScanSink<Operator>, Item> LaneWalk;
    typedef LaneByLane<Operator, ScanSource<Operator>, ScanSink<Operator>, Item, Shape, LaneWalk> Type;
};
template <class Operator, class Shape> struct ScanWalk<Operator, Shape, NoPairs, false> {
    typedef LaneByGroup<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape> Type;
};

template <class Operator, class Shape, class Join>
using ScanPipeline = Pipeline<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape, Join, void,
                              typename ScanWalk<Operator, Shape, typename Operator::Pairs,
                                                sizeof(Vector) % sizeof(typename Operator::Element) == 0>::Type>;

template <class Operator, class Shape, class Join>
__device__ void scan_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n, typename Operator::Carry init,
                           u32 flags, Join join) {
    typedef ScanPipeline<Operator, Shape, Join> Scan;
    __shared__ typename Scan::Shared shared;
    bool reverse = flags & REVERSE;
    ScanSource<Operator> source{{in, n, reverse}};
    ScanSink<Operator> sink{{out, n, reverse}, bool(flags & EXCLUSIVE)};
    Scan::run(shared, source, sink, join, {init, bool(flags & INIT)}, reverse);
}

// The aggregate of each whole tile; the grid leaves the last one out, which no tile comes after.
template <class Operator, class Shape>
__device__ void aggregate_tiles(typename Operator::Element *in, u64 n, u32 flags, typename Operator::Carry *aggregates) {
    typedef ScanPipeline<Operator, Shape, GivenPrefixes<Operator>> Scan;
    __shared__ typename Scan::Shared shared;
    bool reverse = flags & REVERSE;
    ScanSource<Operator> source{{in, n, reverse}};
    Scan::aggregate(shared, source, {}, reverse, aggregates);
}
