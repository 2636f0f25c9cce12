// The textbook's scan of a tile, by any network and any join.
//
//   load      each thread its item; or the block a tile of runs
//   begin     a network over the items, or over the totals of the runs              Network
//   join      the last warp publishes the tile's aggregate and receives its prefix  Join
//   finish    the network from the prefix on; of a run, each item from the run's prefix on
//   store     the results
//
// The hierarchical scan is the same in two kernels, one up to the join and one from there on.
//
// These kernels are here to be read and measured; the library's own kernel is core/pipeline.cuh.
// Past the end of the input a tile holds copies of the last item, whose results are never stored.
// So the operator needs no identity, and is called on inputs and its own results only.
#pragma once
#include "textbook/networks.cuh"
#include "scan/scan.cuh"

// With SHIFTED of scan/contract.cuh an exclusive scan loads the item before each.

// Items in scan order; indices past the end give the last item. Input and output may be the same
// memory.
template <class Item> struct Items {
    Item *base;
    u64 n;
    bool reverse;

    __device__ Item load(u64 i) const { return base[index(min(i, n - 1))]; }
    __device__ void store(u64 i, Item x) const {
        if (i < n) base[index(i)] = x;
    }

  private:
    __device__ u64 index(u64 i) const { return reverse ? n - 1 - i : i; }
};

// A tile at the join: each thread's result of `begin`, and in the last thread the tile's aggregate.
template <class Carry> struct AtJoin { Carry upto, aggregate; };

// By the whole block: the tile's exclusive prefix, for all threads. The last thread passes the
// tile's aggregate, so the last warp joins.
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

// ---- Plain: one item a thread -------------------------------------------------------------------

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

    // Loads what `finish` needs if the halves are two kernels: nothing.
    template <class Join> static __device__ void load(Shared<Join> &, Items<Element>, u64) {}

    template <class Join>
    static __device__ AtJoin<Carry> begin(Shared<Join> &shared, Items<Element> in, u64 first, u32 flags) {
        u32 i = threadIdx.x;
        bool shifted = flags & EXCLUSIVE && flags & SHIFTED;

        // ---- load: the exclusive scan is the inclusive scan of the items before. Thread 0 has no
        // item: the item before the tile may be overwritten already.
        u32 shift = shifted && i > 0;
        Carry x = item(in, first + i - shift);

        // ---- scan
        Carry upto = Scan::begin(shared.scan, x, shifted), aggregate = upto;
        if (shifted && i == WIDTH - 1) aggregate = Operator::combine(upto, item(in, first + i));
        return {upto, aggregate};
    }

    template <class Join>
    static __device__ void finish(Shared<Join> &shared, Items<Element> out, u64 first, Carry upto, Maybe<Carry> prefix,
                                  u32 flags) {
        u32 i = threadIdx.x;
        bool exclusive = flags & EXCLUSIVE, shifted = exclusive && flags & SHIFTED;

        // ---- scan, from the prefix on
        upto = Scan::finish(shared.scan, upto, prefix, shifted);
        if (exclusive && !shifted) { // each thread takes the result of the thread before
            shared.upto[i] = upto; // after `finish` no thread reads another's entry
            __syncthreads();
            upto = i > 0 ? shared.upto[i - 1] : prefix.value;
        }

        // ---- store
        out.store(first + i, Operator::lower(upto));
    }
};

// ---- Coarsened: a run of RUN items a thread -----------------------------------------------------

template <class Operator, template <class, u32> class Network, u32 WIDTH, u32 RUN> struct Coarsened {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef Network<Operator, WIDTH> Scan;
    static constexpr u32 TILE = WIDTH * RUN;

    template <class Join> struct Shared {
        // Loads and stores are coalesced; threads then read runs. A run is an odd number of
        // words (or of wider items), so the runs of a warp begin in different banks.
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

    template <class Join>
    static __device__ AtJoin<Carry> begin(Shared<Join> &shared, Items<Element> in, u64 first, u32) {
        load(shared, in, first);
        const Element *run = shared.items + threadIdx.x * RUN;

        // ---- the total of the run, then the network over all totals
        Carry total = Operator::alone(Operator::lift(run[0]));
#pragma unroll
        for (u32 j = 1; j < RUN; j++) total = Operator::combine(total, Operator::lift(run[j]));
        Carry upto = Scan::begin(shared.scan, total, 0);
        return {upto, upto};
    }

    template <class Join>
    static __device__ void finish(Shared<Join> &shared, Items<Element> out, u64 first, Carry upto, Maybe<Carry> prefix,
                                  u32 flags) {
        u32 i = threadIdx.x;
        bool exclusive = flags & EXCLUSIVE;

        // ---- the network from the prefix on; before a run is the result of the thread before
        upto = Scan::finish(shared.scan, upto, prefix, 0);
        shared.upto[i] = upto;
        __syncthreads();
        Maybe<Carry> before = prefix;
        if (i > 0) before = {shared.upto[i - 1], true};

        // ---- the run again, from its prefix on; the network has computed its last result
        Element *run = shared.items + i * RUN;
#pragma unroll
        for (u32 j = 0; j < RUN; j++) {
            Carry x = Operator::lift(run[j]);
            Carry result = j == RUN - 1 ? upto : item_after<Operator>(before, x);
            run[j] = Operator::lower(exclusive ? before.value : result);
            before = {result, true};
        }

        // ---- store
        __syncthreads();
        for (u32 k = i; k < TILE; k += WIDTH) out.store(first + k, shared.items[k]);
    }
};

// ---- the single-pass scan -----------------------------------------------------------------------
// The unit defines NETWORK, FORM (Plain or Coarsened) and WIDTH.

// One tile a block, joined to the tiles before it.
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
    AtJoin<Carry> at_join = Tile::begin(shared, Elements{in, n, reverse}, at, flags);
    Maybe<Carry> prefix = exchange(join, shared.prefix, tile, at_join.aggregate, first);
    Tile::finish(shared, Elements{out, n, reverse}, at, at_join.upto, prefix, flags);
}

// ---- the scan in two kernels --------------------------------------------------------------------
// Between the kernels each thread's carry lies in scratch memory, and the aggregates are scanned.

// The first kernel: every tile up to the join. No tile comes after the last one, so its aggregate
// is not written.
template <class Operator, u32 RUN>
__device__ void begin_textbook_tiles(typename Operator::Element *in, u64 n, u32 flags,
                                     typename Operator::Carry *aggregates, typename Operator::Carry *carries) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    typedef typename Operator::Carry Carry;
    __shared__ typename Tile::template Shared<GivenPrefixes<Operator>> shared;
    u32 i = threadIdx.x, tile = blockIdx.x;
    AtJoin<Carry> at_join = Tile::begin(shared, {in, n, bool(flags & REVERSE)}, u64(tile) * Tile::TILE, flags);
    carries[u64(tile) * WIDTH + i] = at_join.upto;
    if (i == WIDTH - 1 && tile < gridDim.x - 1) aggregates[tile] = at_join.aggregate;
}

// The second kernel: every tile from its prefix. `prefixes` holds the inclusive scan of the
// aggregates, with `init` combined first. A single tile does both halves here, and `carries` is
// null.
template <class Operator, u32 RUN>
__device__ void finish_textbook_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n,
                                      typename Operator::Carry init, u32 flags,
                                      const typename Operator::Carry *prefixes,
                                      const typename Operator::Carry *carries) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    typedef typename Operator::Carry Carry;
    __shared__ typename Tile::template Shared<GivenPrefixes<Operator>> shared;
    bool reverse = flags & REVERSE;
    u32 tile = blockIdx.x;
    u64 at = u64(tile) * Tile::TILE;
    Maybe<Carry> prefix = {init, bool(flags & INIT)};
    if (tile > 0) prefix = {prefixes[tile - 1], true};
    Carry upto;
    if (carries) {
        Tile::load(shared, {in, n, reverse}, at);
        upto = carries[u64(tile) * WIDTH + threadIdx.x];
    } else {
        upto = Tile::begin(shared, {in, n, reverse}, at, flags).upto;
        __syncthreads(); // between the halves, as in a joined tile
    }
    Tile::finish(shared, {out, n, reverse}, at, upto, prefix, flags);
}
