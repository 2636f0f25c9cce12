// The textbook's scan of a tile, one item a thread or a run of them, by any network and any way of joining tiles.
//
//   load      each thread its item, or all of them together a tile of runs
//   begin     a network over the items, or over the totals of the runs              Network
//   join      the last warp publishes the tile's aggregate and gets its prefix      Join
//   finish    the network from the prefix on
//   store     the results, or what comes of the run from its own prefix on
//
// The hierarchical scan is the same in two kernels: one up to the join, and one from there on.
//
// What the library uses instead is core/pipeline.cuh; this is for those who want to read it, or to see what each step buys. No value
// is made up: past the end of the input a tile holds copies of the last item, and what comes of them is never used.
#pragma once
#include "textbook/networks.cuh"
#include "scan/scan.cuh"

constexpr u32 SHIFTED = 8; // beside ScanFlags: an exclusive scan loads what is one before

// Items in scan order; every place past the end is the last one. Input and output may be the same memory.
template <class Item> struct Items {
    Item *base;
    u64 n;
    bool reverse;

    __device__ Item load(u64 i) const { return base[place(min(i, n - 1))]; }
    __device__ void store(u64 i, Item x) const {
        if (i < n) base[place(i)] = x;
    }

  private:
    __device__ u64 place(u64 i) const { return reverse ? n - 1 - i : i; }
};

// What a tile has when it comes to the join: each thread what its network gave it, and the last one the aggregate besides.
template <class Carry> struct Half {
    Carry upto, aggregate;
};

// The tile's exclusive prefix, for all threads. The last thread brings the tile's aggregate.
template <class Join, class Carry>
__device__ inline Maybe<Carry> exchange(Join &join, Carry &shared, u32 tile, Carry aggregate, Maybe<Carry> init) {
    u32 lane = threadIdx.x % WARP;
    if (threadIdx.x / WARP == blockDim.x / WARP - 1) {
        aggregate = shuffle(aggregate, WARP - 1);
        join.publish(tile, aggregate, lane);
        Carry prefix = join.receive(tile, aggregate, init, lane).value;
        if (lane == 0) shared = prefix;
        join.retire(tile, lane);
    }
    __syncthreads();
    return {shared, init.some || tile > 0};
}

// ---- one item a thread ------------------------------------------------------------------------------------------------------

template <class Operator, template <class, u32> class Network, u32 WIDTH, u32> struct Plain {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef Network<Operator, WIDTH> Scan;
    static constexpr u32 TILE = WIDTH;

    template <class Join> struct Shared {
        union {
            typename Scan::Shared scan;
            Carry upto[WIDTH]; // by thread
        };
        Carry prefix;
        typename Join::Shared join;
    };

    static __device__ Carry item(Items<Element> in, u64 i) { return Operator::alone(Operator::lift(in.load(i))); }

    // What both halves need, where they are two kernels.
    template <class Join> static __device__ void load(Shared<Join> &, Items<Element>, u64) {}

    template <class Join>
    static __device__ Half<Carry> begin(Shared<Join> &shared, Items<Element> in, u64 first, u32 flags) {
        u32 i = threadIdx.x;
        bool shifted = flags & EXCLUSIVE && flags & SHIFTED;

        // ---- load: an exclusive scan is the inclusive one of what is one before; the first thread then has nothing, since what is
        // before the tile may be overwritten already
        u32 shift = shifted && i > 0;
        Carry x = item(in, first + i - shift);

        // ---- scan
        Carry upto = Scan::begin(shared.scan, x, shifted), aggregate = upto;
        if (shifted && i == WIDTH - 1) aggregate = Operator::combine(upto, item(in, first + i));
        return {upto, aggregate};
    }

    template <class Join>
    static __device__ void finish(Shared<Join> &shared, Items<Element> out, u64 first, Carry upto, Maybe<Carry> prefix, u32 flags) {
        u32 i = threadIdx.x;
        bool exclusive = flags & EXCLUSIVE, shifted = exclusive && flags & SHIFTED;

        // ---- scan, from the prefix on
        upto = Scan::finish(shared.scan, upto, prefix, shifted);
        if (exclusive && !shifted) { // or it is the inclusive one, and each takes the result before its own
            shared.upto[i] = upto; // where it has a slot of its own in the networks
            __syncthreads();
            upto = i > 0 ? shared.upto[i - 1] : prefix.value;
        }

        // ---- store
        out.store(first + i, Operator::lower(upto));
    }
};

// ---- a run of items a thread: thread coarsening -----------------------------------------------------------------------------

template <class Operator, template <class, u32> class Network, u32 WIDTH, u32 RUN> struct Coarsened {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef Network<Operator, WIDTH> Scan;
    static constexpr u32 TILE = WIDTH * RUN;

    template <class Join> struct Shared {
        // Neighbouring threads load and store neighbouring items; each scans a run, and RUN keeps runs out of each other's banks.
        Element items[TILE];
        union {
            typename Scan::Shared scan;
            Carry upto[WIDTH]; // by thread
        };
        Carry prefix;
        typename Join::Shared join;
    };

    // The tile's items into shared memory.
    template <class Join> static __device__ void load(Shared<Join> &shared, Items<Element> in, u64 first) {
        for (u32 k = threadIdx.x; k < TILE; k += WIDTH) shared.items[k] = in.load(first + k);
        __syncthreads();
    }

    template <class Join> static __device__ Half<Carry> begin(Shared<Join> &shared, Items<Element> in, u64 first, u32) {
        load(shared, in, first);
        const Element *run = shared.items + threadIdx.x * RUN;

        // ---- the run's total, then the network over all totals
        Carry total = Operator::alone(Operator::lift(run[0]));
#pragma unroll
        for (u32 j = 1; j < RUN; j++) total = Operator::combine(total, Operator::lift(run[j]));
        Carry upto = Scan::begin(shared.scan, total, 0);
        return {upto, upto};
    }

    template <class Join>
    static __device__ void finish(Shared<Join> &shared, Items<Element> out, u64 first, Carry upto, Maybe<Carry> prefix, u32 flags) {
        u32 i = threadIdx.x;
        bool exclusive = flags & EXCLUSIVE;

        // ---- the network from the prefix on; what is before a run is what the thread before has
        upto = Scan::finish(shared.scan, upto, prefix, 0);
        shared.upto[i] = upto;
        __syncthreads();
        Maybe<Carry> before = prefix;
        if (i > 0) before = {shared.upto[i - 1], true};

        // ---- the run once more, from there on; what is up to its end is known
        Element *run = shared.items + i * RUN;
#pragma unroll
        for (u32 j = 0; j < RUN; j++) {
            Carry x = Operator::lift(run[j]);
            Carry result = j == RUN - 1 ? upto : before.some ? Operator::combine(before.value, x) : Operator::alone(x);
            run[j] = Operator::lower(exclusive ? before.value : result);
            before = {result, true};
        }

        // ---- store
        __syncthreads();
        for (u32 k = i; k < TILE; k += WIDTH) out.store(first + k, shared.items[k]);
    }
};

// ---- a scan -----------------------------------------------------------------------------------------------------------------
// The unit defines NETWORK, FORM (Plain or Coarsened) and WIDTH.

// Every tile, joined to those before it.
template <class Operator, u32 RUN, class Join>
__device__ void scan_textbook_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n,
                                    typename Operator::Carry init, u32 flags, Join join) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    typedef typename Operator::Carry Carry;
    typedef Items<typename Operator::Element> Elements;
    __shared__ typename Tile::template Shared<Join> shared;
    bool reverse = flags & REVERSE;
    Maybe<Carry> first = {init, bool(flags & INIT)};
    u32 tile;
    if (!join.enter(shared.join, first, tile)) return;
    u64 at = u64(tile) * Tile::TILE;
    Half<Carry> half = Tile::begin(shared, Elements{in, n, reverse}, at, flags);
    Maybe<Carry> prefix = exchange(join, shared.prefix, tile, half.aggregate, first);
    Tile::finish(shared, Elements{out, n, reverse}, at, half.upto, prefix, flags);
}

// ---- a scan in two kernels --------------------------------------------------------------------------------------------------
// In between each tile's threads keep a carry each, and the aggregates are scanned.

// Every tile up to the join. No tile comes after the last one, so its aggregate is left out.
template <class Operator, u32 RUN>
__device__ void begin_textbook_tiles(typename Operator::Element *in, u64 n, u32 flags, typename Operator::Carry *aggregates,
                                     typename Operator::Carry *kept) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    typedef typename Operator::Carry Carry;
    __shared__ typename Tile::template Shared<GivenPrefixes<Operator>> shared;
    u32 i = threadIdx.x, tile = blockIdx.x;
    Half<Carry> half = Tile::begin(shared, {in, n, bool(flags & REVERSE)}, u64(tile) * Tile::TILE, flags);
    kept[u64(tile) * WIDTH + i] = half.upto;
    if (i == WIDTH - 1 && tile < gridDim.x - 1) aggregates[tile] = half.aggregate;
}

// And from there on: `prefixes` holds the inclusive scan of the aggregates, `init` combined first. One tile alone does both halves here,
// and nothing is kept.
template <class Operator, u32 RUN>
__device__ void finish_textbook_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n,
                                      typename Operator::Carry init, u32 flags, const typename Operator::Carry *prefixes,
                                      const typename Operator::Carry *kept) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    typedef typename Operator::Carry Carry;
    __shared__ typename Tile::template Shared<GivenPrefixes<Operator>> shared;
    bool reverse = flags & REVERSE;
    u32 tile = blockIdx.x;
    u64 at = u64(tile) * Tile::TILE;
    Maybe<Carry> prefix = {init, bool(flags & INIT)};
    if (tile > 0) prefix = {prefixes[tile - 1], true};
    Carry upto;
    if (kept) {
        Tile::load(shared, {in, n, reverse}, at);
        upto = kept[u64(tile) * WIDTH + threadIdx.x];
    } else {
        upto = Tile::begin(shared, {in, n, reverse}, at, flags).upto;
        __syncthreads(); // between the halves, as where tiles are joined
    }
    Tile::finish(shared, {out, n, reverse}, at, upto, prefix, flags);
}
