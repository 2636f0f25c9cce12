// Scan: the tile pipeline with contiguous memory as source and sink, and its inner loops for short
// elements and for functions over states.
#pragma once
#include "core/pipeline.cuh"
#include "scan/contract.cuh" // the flags that the host shares: src/cuda/scan/contract.rs

// Input and output may be the same memory, so no pointer is __restrict__.
template <class Operator> struct ScanSource {
    typedef typename Operator::Element Item;
    typename RunOf<Item>::Type run;

    __device__ u32 shift() const { return run.shift(); }
    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        // Smaller slices are of short inputs: these lie in L2 mostly, and each instruction delays them.
        constexpr u32 LEAST_BYTES = 2048;
        if (ITEMS * sizeof(Item) >= LEAST_BYTES) run.template prefetch<ITEMS>(first, lane);
    }
    template <class Stage> __device__ void load(Stage &stage, u64 first, u32 lane) const {
        run.load(stage, first, lane);
    }
    __device__ typename Operator::Carry carry(Item x) const { return Operator::lift(x); }
};

// Results in contiguous memory: the exclusive or inclusive prefix of each item.
template <class Operator> struct ScanSink {
    typedef typename Operator::Element Result;
    typedef typename Operator::Carry Carry;
    typename RunOf<Result>::Type run;
    bool exclusive;

    __device__ Result put(u64, Result, Carry before, Carry upto) const {
        return Operator::lower(exclusive ? before : upto);
    }
    template <class Stage> __device__ void store(Stage &stage, u64 first, u32 lane) const {
        run.store(stage, first, lane);
    }
    __device__ void total(Carry) const {}
};
template <class Operator, class Use>
__device__ inline void with_choices(const ScanSink<Operator> &sink, const Use &use) {
    with_known(sink.exclusive, [&](auto exclusive) { use(ScanSink<Operator>{sink.run, exclusive}); });
}

// ---- short elements: two at a time by 16-bit lanes ----------------------------------------------
// Taken one by one, 1-byte elements and some 2-byte ones are limited by instructions, not by
// memory. A word holds four of them, or two. If the operator says how (`Operator::Pairs`), two
// elements are combined at once in the 16-bit lanes of a word. Such an operator must be
// commutative. Sums of bytes carry into the upper half of a lane; those bits are cut off at the
// end.

// No such form: the operator has none, or the elements are wider.
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

// Four products of bytes in one word, one after the other. There is no product of lanes; the upper
// bytes of the word are meaningless.
struct ProductInTurn {};

// The lane walk over a vector's words, forward or in reverse, that all forms share. A Word keeps
// the carry of the items before in `upto` and has
//   void fold(u32 word);                              // in memory order: the operator commutes
//   Carry folded() const;
//   u32 put(u32 word, bool reverse, bool exclusive);  // the results, in memory order
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

    __device__ Vector put(const ScanSource<Operator> &, const ScanSink<Operator> &sink, u64, Vector items,
                          bool reverse) {
        Vector results;
#pragma unroll
        for (u32 w = 0; w < 4; w++) {
            u32 result = word.put(reverse ? items.word[3 - w] : items.word[w], reverse, sink.exclusive);
            (reverse ? results.word[3 - w] : results.word[w]) = result;
        }
        return results;
    }
};

// Four bytes, as two 16-bit lanes of even and of odd items.
template <class Operator> struct WordOfBytes {
    typedef typename Operator::Carry Carry;
    typedef typename Operator::Pairs Pairs;

    u32 upto; // in `fold` a partial result in each lane; in `put` the carry, in the lower lane

    __device__ explicit WordOfBytes(Maybe<Carry> before)
        : upto(before.some ? u32(int(before.value)) : Pairs::NEUTRAL) {}

    // The items of even and of odd number, in scan order, as 16-bit lanes.
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
        // For each lane: before its even item, with its even item, with its odd item.
        u32 before = lanes(upto, Pairs::combine(upto, Pairs::combine(even, odd)));
        even = Pairs::combine(before, even);
        odd = Pairs::combine(even, odd);
        upto = odd >> 16;
        return __byte_perm(exclusive ? before : even, exclusive ? even : odd, reverse ? 0x0426 : 0x6240);
    }
};

// Two 2-byte elements.
template <class Operator> struct WordOfHalves {
    typedef typename Operator::Carry Carry;
    typedef typename Operator::Pairs Pairs;

    u32 upto; // in `fold` a partial result in each lane; in `put` the carry, in both lanes

    __device__ explicit WordOfHalves(Maybe<Carry> before)
        : upto(before.some ? permute(u32(before.value), 0x1010) : Pairs::NEUTRAL) {}

    __device__ void fold(u32 word) { upto = Pairs::combine(upto, word); }
    __device__ Carry folded() const { return Carry(Pairs::combine(upto, upto >> 16)); }

    __device__ u32 put(u32 word, bool reverse, bool exclusive) {
        u32 turn = reverse ? 0x1032 : 0x3210, items = permute(word, turn);
        // Lane 0: the first item; lane 1: both items.
        u32 sums = Pairs::combine(items, __byte_perm(items, Pairs::NEUTRAL, 0x1054));
        u32 inclusive = Pairs::combine(upto, sums);
        u32 results = exclusive ? __byte_perm(upto, inclusive, 0x5410) : inclusive;
        upto = permute(inclusive, 0x3232);
        return permute(results, turn);
    }
};

// Four bytes by multiplication.
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

// ---- functions over states ----------------------------------------------------------------------
// Composed from the last function back, a step selects bytes from a table and packs nothing: a
// third of the instructions of a packed composition. So a lane folds its functions in this
// direction and packs the result once.

struct FoldedStates {};

template <class Operator, class Shape>
struct LaneByStates
    : LaneByLane<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape, FoldedStates> {
    typedef LaneByLane<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape,
                       FoldedStates>
        Base;
    typedef typename Operator::Carry Carry;
    typedef typename Base::Stage Stage;
    using Base::Base;

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        this->source.load(stage, first, lane);
        __syncwarp();
        return fold_loaded(stage, lane);
    }

    __device__ Carry fold_loaded(Stage &stage, u32 lane) {
        States all;
        with_known(this->reverse, [&](auto reverse) {
#pragma unroll
            for (u32 k = Shape::VECTORS; k-- > 0;) {
                Vector items = stage.of_lane(lane, k, reverse);
#pragma unroll
                for (u32 j = 4; j-- > 0;) all = all.of(items.word[reverse ? 3 - j : j]);
            }
        });
        Carry upto = warp_inclusive<Operator>({all.packed()}, lane);
        this->before = shuffle_up(upto, 1);
        return upto;
    }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64 first, u32 lane) {
        u32 upto = prefix.some ? prefix.value.packed : States::IDENTITY;
        if (lane > 0) upto = States(this->before.packed).of(upto).packed();
        with_known(this->reverse, [&](auto reverse) {
            with_known(this->sink.exclusive, [&](auto exclusive) { put(stage, upto, lane, reverse, exclusive); });
        });
        __syncwarp();
        this->sink.store(stage, first, lane);
    }

  private:
    static __device__ void put(Stage &stage, u32 before, u32 lane, bool reverse, bool exclusive) {
        States::Selectors upto(before);
#pragma unroll
        for (u32 k = 0; k < Shape::VECTORS; k++) {
            Vector items = stage.of_lane(lane, k, reverse), results;
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 at = reverse ? 3 - j : j;
                States::Selectors inclusive(States(items.word[at]).of(upto));
                results.word[at] = exclusive ? upto.packed : inclusive.packed;
                upto = inclusive;
            }
            stage.of_lane(lane, k, reverse) = results;
        }
    }
};

// ---- scan ---------------------------------------------------------------------------------------

template <class Operator, class Pairs, u32 BYTES> struct WordOf;
template <class Operator, class Pairs> struct WordOf<Operator, Pairs, 1> { typedef WordOfBytes<Operator> Type; };
template <class Operator, class Pairs> struct WordOf<Operator, Pairs, 2> { typedef WordOfHalves<Operator> Type; };
template <class Operator> struct WordOf<Operator, ProductInTurn, 1> { typedef WordOfFactors<Operator> Type; };

// The walk of a scan: by words if the operator has pairs, over states, by items, or by groups if
// elements tile no vector.
template <class Operator, class Shape, class Pairs, bool TILES> struct ScanWalk {
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
using ScanPipeline =
    Pipeline<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape, Join, void,
             typename ScanWalk<Operator, Shape, typename Operator::Pairs,
                               sizeof(Vector) % sizeof(typename Operator::Element) == 0>::Type>;

// The kernel body: takes a tile, and returns whether there was one. `init` has a meaning only with the flag INIT.
template <class Operator, class Shape, class Join>
__device__ bool scan_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n,
                           typename Operator::Carry init, u32 flags, Join join) {
    typedef ScanPipeline<Operator, Shape, Join> Scan;
    __shared__ typename Scan::Shared shared;
    bool reverse = flags & REVERSE;
    ScanSource<Operator> source{{in, n, reverse}};
    ScanSink<Operator> sink{{out, n, reverse}, bool(flags & EXCLUSIVE)};
    return Scan::run(shared, source, sink, join, {init, bool(flags & INIT)}, reverse);
}

// The aggregate of each tile but the last, which no tile comes after: the grid has one block less
// than there are tiles.
template <class Operator, class Shape>
__device__ void aggregate_tiles(typename Operator::Element *in, u64 n, u32 flags,
                                typename Operator::Carry *aggregates) {
    typedef ScanPipeline<Operator, Shape, GivenPrefixes<Operator>> Scan;
    __shared__ typename Scan::Shared shared;
    bool reverse = flags & REVERSE;
    ScanSource<Operator> source{{in, n, reverse}};
    Scan::aggregate(shared, source, {}, reverse, aggregates);
}
