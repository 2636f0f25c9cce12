// The textbook's scan of a tile, one item a thread or a run of them, by any network and any way of joining tiles.
//
//   load      each thread its item, or all of them together a tile of runs
//   scan      a network over the items, or over the totals of the runs              Network
//   join      the last warp publishes the tile's aggregate and gets its prefix      Join
//   store     each result from the prefix on
//
// What the library uses instead is pipeline.cuh; this is for those who want to read it, or to see what each step buys. No value
// is made up: past the end of the input a tile holds copies of the last item, and what comes of them is never used.
#pragma once
#include "networks.cuh"
#include "handover.cuh"
#include "scan.cuh"

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

// What comes of something, if there is anything, and `later`.
template <class Operator, class Carry> __device__ inline Carry after(Maybe<Carry> earlier, Carry later) {
    return earlier.some ? Operator::combine(earlier.value, later) : later;
}

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
    typedef BrentKung<Operator, WIDTH> Tree;
    static constexpr u32 TILE = WIDTH;

    template <class Join> struct Shared {
        union {
            typename Scan::Shared scan;
            typename Tree::Shared tree;
            Carry upto[WIDTH]; // by thread
        };
        Carry prefix;
        typename Join::Shared join;
    };

    static __device__ Carry item(Items<Element> in, u64 i) { return Operator::alone(Operator::lift(in.load(i))); }

    template <class Join>
    static __device__ void run(Shared<Join> &shared, Items<Element> in, Items<Element> out, Join join, Maybe<Carry> init,
                               u32 flags) {
        u32 i = threadIdx.x, tile;
        if (!join.enter(shared.join, init, tile)) return;
        u64 at = u64(tile) * TILE + i;
        bool exclusive = flags & EXCLUSIVE, shifted = exclusive && flags & SHIFTED;

        // ---- load: an exclusive scan is the inclusive one of what is one before; the first thread then has nothing, since what is
        // before the tile may be overwritten already
        u32 shift = shifted && i > 0;
        Carry x = item(in, at - shift);

        // ---- scan
        Carry upto = Scan::inclusive(shared.scan, x, shifted), aggregate = upto;
        if (shifted && i == WIDTH - 1) aggregate = Operator::combine(upto, item(in, at));
        if (exclusive && !shifted) { // or it is the inclusive one, and each takes the result before its own
            __syncthreads();
            shared.upto[i] = upto;
        }

        // ---- join, and store
        Maybe<Carry> prefix = exchange(join, shared.prefix, tile, aggregate, init);
        if (exclusive && !shifted && i > 0) upto = shared.upto[i - 1];
        out.store(at, Operator::lower(exclusive && i == 0 ? prefix.value : after<Operator>(prefix, upto)));
    }

    // The aggregate of a whole tile, to `aggregates` at the block's number.
    static __device__ void aggregate(Shared<GivenPrefixes<Operator>> &shared, Items<Element> in, Carry *aggregates) {
        u64 at = u64(blockIdx.x) * TILE + threadIdx.x;
        Carry whole = Tree::whole(shared.tree, item(in, at));
        if (threadIdx.x == 0) aggregates[blockIdx.x] = whole;
    }
};

// ---- a run of items a thread: thread coarsening -----------------------------------------------------------------------------

template <class Operator, template <class, u32> class Network, u32 WIDTH, u32 RUN> struct Coarsened {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef Network<Operator, WIDTH> Scan;
    typedef BrentKung<Operator, WIDTH> Tree;
    static constexpr u32 TILE = WIDTH * RUN;

    template <class Join> struct Shared {
        // Neighbouring threads load and store neighbouring items; each scans a run, and RUN keeps runs out of each other's banks.
        Element items[TILE];
        union {
            typename Scan::Shared scan;
            typename Tree::Shared tree;
            Carry upto[WIDTH]; // by thread
        };
        Carry prefix;
        typename Join::Shared join;
    };

    // The tile's items into shared memory, and the scan of the thread's run of them.
    static __device__ void begin(Element (&items)[TILE], Items<Element> in, u64 first, Carry (&run)[RUN]) {
        u32 i = threadIdx.x;
        for (u32 k = i; k < TILE; k += WIDTH) items[k] = in.load(first + k);
        __syncthreads();
        run[0] = Operator::alone(Operator::lift(items[i * RUN]));
#pragma unroll
        for (u32 j = 1; j < RUN; j++) run[j] = Operator::combine(run[j - 1], Operator::lift(items[i * RUN + j]));
    }

    template <class Join>
    static __device__ void run(Shared<Join> &shared, Items<Element> in, Items<Element> out, Join join, Maybe<Carry> init,
                               u32 flags) {
        u32 i = threadIdx.x, tile;
        if (!join.enter(shared.join, init, tile)) return;
        u64 first = u64(tile) * TILE;

        // ---- load, and scan: the run, then the totals of all runs
        Carry run[RUN];
        begin(shared.items, in, first, run);
        Carry upto = Scan::inclusive(shared.scan, run[RUN - 1], 0);
        __syncthreads();
        shared.upto[i] = upto;

        // ---- join: what comes before the run is added back to each item of it
        Maybe<Carry> before = exchange(join, shared.prefix, tile, upto, init);
        if (i > 0) before = {after<Operator>(before, shared.upto[i - 1]), true};
        bool exclusive = flags & EXCLUSIVE;
#pragma unroll
        for (u32 j = 0; j < RUN; j++) {
            Carry own = exclusive && j > 0 ? run[j - 1] : run[j];
            Carry result = exclusive && j == 0 ? before.value : after<Operator>(before, own);
            shared.items[i * RUN + j] = Operator::lower(result);
        }

        // ---- store
        __syncthreads();
        for (u32 k = i; k < TILE; k += WIDTH) out.store(first + k, shared.items[k]);
    }

    // The aggregate of a whole tile, to `aggregates` at the block's number.
    static __device__ void aggregate(Shared<GivenPrefixes<Operator>> &shared, Items<Element> in, Carry *aggregates) {
        Carry run[RUN];
        begin(shared.items, in, u64(blockIdx.x) * TILE, run);
        Carry whole = Tree::whole(shared.tree, run[RUN - 1]);
        if (threadIdx.x == 0) aggregates[blockIdx.x] = whole;
    }
};

// ---- a scan -----------------------------------------------------------------------------------------------------------------
// The unit defines NETWORK, FORM (Plain or Coarsened) and WIDTH.

template <class Operator, u32 RUN, class Join>
__device__ void scan_textbook_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n,
                                    typename Operator::Carry init, u32 flags, Join join) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    __shared__ typename Tile::template Shared<Join> shared;
    bool reverse = flags & REVERSE;
    typedef Items<typename Operator::Element> Elements;
    Tile::run(shared, Elements{in, n, reverse}, Elements{out, n, reverse}, join, {init, bool(flags & INIT)}, flags);
}

// The aggregate of each whole tile; the grid leaves the last one out, which no tile comes after.
template <class Operator, u32 RUN>
__device__ void aggregate_textbook_tiles(typename Operator::Element *in, u64 n, u32 flags, typename Operator::Carry *aggregates) {
    typedef FORM<Operator, NETWORK, WIDTH, RUN> Tile;
    __shared__ typename Tile::template Shared<GivenPrefixes<Operator>> shared;
    Tile::aggregate(shared, {in, n, bool(flags & REVERSE)}, aggregates);
}
