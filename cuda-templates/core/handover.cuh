// The joins: how a tile publishes its aggregate and receives its exclusive prefix. core/README.md
// proves that no value is lost, that no tile waits for ever, and that the memory of a join is zero
// again when the kernel ends.
#pragma once
#include "core/length.cuh"
#include "core/types.cuh"
#include "core/warp_scan.cuh"

// What a join has to offer. A block calls these functions in this order:
//
//   u32 likely() const;                                  // the tile that the block most likely
//                                                        // draws, or NO_TILE
//   bool enter(Shared &, Maybe<Carry> init, u32 &tile);  // by the block: its tile; false: no tile
//   void publish(u32 tile, Carry aggregate, u32 lane);   // by one warp, once the tile is folded
//   Maybe<Carry> receive(u32 tile, Carry aggregate, Maybe<Carry> init, u32 lane);
//                                                        // by the same warp: the exclusive prefix
//                                                        // with `init`, in all lanes
//   bool is_last(u32 tile) const;                        // whether no tile comes after it
//   void retire(u32 tile, u32 lane);                     // by the same warp, after `receive`

// `likely()` of a join that cannot tell.
constexpr u32 NO_TILE = 0xffffffffu;

// A value that may be missing. Only the first tile of a scan without `init` has no prefix.
template <class C> struct Maybe {
    C value;
    bool some;
};
// The combination of what is before, if there is a value, with `later`.
template <class Operator, class Carry> __device__ inline Carry after(const Maybe<Carry> &before, Carry later) {
    return before.some ? Operator::combine(before.value, later) : later;
}
// The inclusive prefix of an item. Without a value before it, that is what the operator makes of an item alone.
template <class Operator, class Carry> __device__ inline Carry item_after(const Maybe<Carry> &before, Carry item) {
    return before.some ? Operator::combine(before.value, item) : Operator::alone(item);
}

// ---- status words -------------------------------------------------------------------------------
// A status word is one 64-bit access: 32 bits of a value below, a mark above. Zero is the empty
// word, and mark 1 says that the value is valid. A wider value takes several words, each with its
// own mark, so no access wider than 64 bits must be atomic. A reader that sees the mark has the
// value from the same access: relaxed order suffices, because no other memory is read on its
// account.

// The status words of one value in global memory. One thread publishes it, any number may poll.
template <class C> struct Status {
    static constexpr int N = Words<C>::N;
    u64 word[N];

    __device__ void publish(C value) {
        Words<C> words(value);
#pragma unroll
        for (int i = 0; i < N; i++) store_relaxed(word + i, mark(words.word[i], 1));
    }
    // Whether all words are valid. Then `value` is the value.
    __device__ bool poll(C &value) const {
        u64 seen[N];
#pragma unroll
        for (int i = 0; i < N; i++) seen[i] = load_relaxed(word + i);
        return read(seen, 1, value);
    }
    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < N; i++) store_relaxed(word + i, 0);
    }

    static __device__ u64 mark(u32 value, u32 mark) { return u64(mark) << 32 | value; }
    static __device__ bool read(const u64 (&seen)[N], u32 mark, C &value) {
        Words<C> words;
        bool full = true;
#pragma unroll
        for (int i = 0; i < N; i++) {
            full &= seen[i] >> 32 == mark;
            words.word[i] = u32(seen[i]);
        }
        value = words.value();
        return full;
    }
};

// The same in shared memory, for warps of one block. The mark is the number of the value, so the
// words need not be cleared between two values. A reader of a value may read nothing else that was
// written before it: the accesses are relaxed.
template <class C> struct Mailbox {
    static constexpr int N = Words<C>::N;
    u64 word[N];

    __device__ void post(C value, u32 mark) {
        Words<C> words(value);
#pragma unroll
        for (int i = 0; i < N; i++) store_relaxed_shared(word + i, Status<C>::mark(words.word[i], mark));
    }
    __device__ bool poll(C &value, u32 mark) const {
        u64 seen[N];
#pragma unroll
        for (int i = 0; i < N; i++) seen[i] = load_relaxed_shared(word + i);
        return Status<C>::read(seen, mark, value);
    }
    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < N; i++) word[i] = 0;
    }
};

// ---- GivenPrefixes: an earlier kernel made the prefixes -----------------------------------------

template <class Operator> struct GivenPrefixes {
    typedef typename Operator::Carry Carry;

    const Carry *inclusive; // by tile: its inclusive prefix

    struct Shared {};

    __device__ explicit GivenPrefixes(const Carry *inclusive) : inclusive(inclusive) {}

    // A block's tile is known at once, so nothing is prefetched.
    __device__ u32 likely() const { return NO_TILE; }
    __device__ bool enter(Shared &, Maybe<Carry>, u32 &tile) {
        tile = blockIdx.x;
        return true;
    }
    __device__ bool is_last(u32 tile) const { return tile == gridDim.x - 1; }
    __device__ void publish(u32, Carry, u32) {}
    __device__ Maybe<Carry> receive(u32 tile, Carry, Maybe<Carry> init, u32) {
        return tile == 0 ? init : Maybe<Carry>{inclusive[tile - 1], true};
    }
    __device__ void retire(u32, u32) {}
};

// ---- tickets ------------------------------------------------------------------------------------

// Tiles that blocks draw. A ticket is drawn by a running block, so a tile waits only for tiles whose blocks run or have
// ended, in whatever order the hardware starts blocks.
struct Tickets {
    u32 *ticket; // the next tile
    u32 tiles;

    struct Shared { u32 tile; };

    // By the whole block: draws its tile. The block that draws the last ticket clears the counter.
    __device__ u32 draw(Shared &shared) const {
        if (threadIdx.x == 0) {
            shared.tile = add_relaxed(ticket, 1);
            if (shared.tile == tiles - 1) *ticket = 0;
        }
        __syncthreads();
        return shared.tile;
    }
    // The same for a join: a single tile is joined to nothing, and has no memory.
    template <class Init> __device__ bool enter(Shared &shared, const Init &, u32 &tile) const {
        tile = tiles == 1 ? 0 : draw(shared);
        return true;
    }
    __device__ u32 likely() const { return tiles == 1 ? NO_TILE : blockIdx.x; }
    __device__ bool is_last(u32 tile) const { return tile == tiles - 1; }
};

// ---- LookBack: look-back in fixed groups --------------------------------------------------------
// After Merrill and Garland (2016, "Single-pass Parallel Prefix Scan with Decoupled Look-back").
//
// Tiles form groups of GROUP. A tile combines the prefix of its group with the aggregates of the
// group's tiles before it. The last tile of a group publishes the prefix of the next group. Which
// values are combined, and how they are grouped, depends only on the tile's number, never on
// timing.

template <class Operator, u32 GROUP> struct LookBack : Tickets {
    typedef typename Operator::Carry Carry;
    static constexpr u32 PER_LANE = GROUP / WARP;

    u32 *retired;              // by group: tiles that are done with `receive`
    Status<Carry> *prefixes;   // by group: exclusive prefix of its first tile
    Status<Carry> *aggregates; // by tile

    // `memory` is zero before and after a scan: the counters, then the status words from the next
    // multiple of 16 bytes on.
    __device__ LookBack(void *memory, u32 tiles) : Tickets{(u32 *)memory, tiles} {
        u32 groups = (tiles + GROUP - 1) / GROUP;
        retired = ticket + 4;
        prefixes = (Status<Carry> *)(ticket + (4 + groups + 3) / 4 * 4);
        aggregates = prefixes + groups;
    }

    // Whether the tile is the last of its group. It publishes the next group's prefix, and no tile
    // reads its aggregate.
    __device__ static bool closes(u32 tile) { return tile % GROUP == GROUP - 1; }

    __device__ void publish(u32 tile, Carry aggregate, u32 lane) {
        if (tiles > 1 && lane == 0 && !closes(tile)) aggregates[tile].publish(aggregate);
    }

    // Polls the aggregates of the group's earlier tiles, PER_LANE a lane, then the group's prefix.
    __device__ Maybe<Carry> receive(u32 tile, Carry aggregate, Maybe<Carry> init, u32 lane) {
        if (tiles == 1) return init;
        u32 group = tile / GROUP, rank = tile % GROUP;

        // Each lane folds its part of the aggregates before this tile.
        u32 mine = rank <= lane * PER_LANE ? 0 : min(rank - lane * PER_LANE, PER_LANE);
        const Status<Carry> *status = aggregates + group * GROUP + lane * PER_LANE;
        Carry part[PER_LANE];
        for (bool all = false; !all;) {
            all = true;
#pragma unroll
            for (u32 i = 0; i < PER_LANE; i++)
                if (i < mine) all &= status[i].poll(part[i]);
        }
#pragma unroll
        for (u32 i = 1; i < PER_LANE; i++)
            if (i < mine) part[0] = Operator::combine(part[0], part[i]);
        __syncwarp();
        Carry before = warp_fold<Operator>(part[0], lane, (rank + PER_LANE - 1) / PER_LANE);

        Maybe<Carry> prefix = init;
        if (lane == 0) {
            Carry upto = closes(tile) ? Operator::combine(before, aggregate) : aggregate;
            if (group > 0) {
                prefix.some = true;
                while (!prefixes[group].poll(prefix.value)) {}
            }
            if (closes(tile) && tile + 1 < tiles) prefixes[group + 1].publish(after<Operator>(prefix, upto));
            if (rank > 0) prefix.value = after<Operator>(prefix, before);
        }
        prefix.value = shuffle(prefix.value, 0);
        prefix.some = init.some || tile > 0;
        return prefix;
    }

    // By one warp, after `receive`: the last tile of a group to come here clears the group's words.
    // The order matters: a tile's reads come before its acquire-release addition, the clearing
    // comes after the last addition, so no tile reads a word after it is cleared.
    __device__ void retire(u32 tile, u32 lane) {
        if (tiles == 1) return;
        u32 group = tile / GROUP, first = group * GROUP, size = min(GROUP, tiles - first), last = 0;
        if (lane == 0) last = add_acquire_release(retired + group, 1) == size - 1;
        if (!__shfl_sync(ALL_LANES, last, 0)) return;
        __syncwarp(); // a shuffle orders no memory
        for (u32 i = lane; i < size; i += WARP) aggregates[first + i].clear();
        if (lane == 0) {
            prefixes[group].clear();
            retired[group] = 0;
        }
    }
};

// ---- Chained: every tile waits for the one before -----------------------------------------------
// The stream scan of Yan, Long and Zhang (2013, "StreamScan: Fast Scan Algorithms for GPUs without
// Global Barrier Synchronization").
//
// Each tile waits for the prefix that the tile before it publishes. A word has one writer and one
// reader, and the reader clears it.

template <class Operator> struct Chained : Tickets {
    typedef typename Operator::Carry Carry;

    Status<Carry> *handed; // by tile: its prefix, written by the tile before

    __device__ Chained(void *memory, u32 tiles)
        : Tickets{(u32 *)memory, tiles}, handed((Status<Carry> *)((u32 *)memory + 4)) {}

    __device__ void publish(u32, Carry, u32) {}

    // Waits for the prefix, clears its word and publishes the next tile's prefix.
    __device__ Maybe<Carry> receive(u32 tile, Carry aggregate, Maybe<Carry> init, u32 lane) {
        Maybe<Carry> before = init;
        if (lane == 0 && tile > 0) {
            while (!handed[tile].poll(before.value)) {}
            handed[tile].clear();
            before.some = true;
        }
        if (lane == 0 && !is_last(tile)) handed[tile + 1].publish(after<Operator>(before, aggregate));
        return {shuffle(before.value, 0), init.some || tile > 0};
    }

    __device__ void retire(u32, u32) {}
};

// ---- LookBackColumns: look-back by many counters at once ----------------------------------------
// `LookBack` for tiles whose aggregate is COLUMNS values side by side, such as the counts of a
// histogram. One thread serves one column. For primitives outside the library (examples/experts.cu):
// the library's sort has its own, `LookBackDigits` (sort/sort.cuh).

template <class Operator, u32 GROUP, u32 COLUMNS> struct LookBackColumns : Tickets {
    typedef typename Operator::Carry Carry;

    u32 *retired;                         // as in LookBack
    Status<Carry> *prefixes, *aggregates; // by group and by tile, COLUMNS each

    struct Shared : Tickets::Shared { bool last; };

    __device__ LookBackColumns(void *memory, u32 tiles) : Tickets{(u32 *)memory, tiles} {
        u32 groups = (tiles + GROUP - 1) / GROUP;
        retired = ticket + 4;
        prefixes = (Status<Carry> *)(ticket + (4 + groups + 3) / 4 * 4);
        aggregates = prefixes + u64(groups) * COLUMNS;
    }

    // By the whole block: draws its tile.
    __device__ u32 enter(Shared &shared) const { return draw(shared); }

    // By one thread of each column: publishes its aggregate, and returns its exclusive prefix with
    // `init`.
    __device__ Carry exchange(u32 tile, u32 column, Carry aggregate, Carry init) {
        u32 group = tile / GROUP, first = group * GROUP;
        bool closes = tile - first == GROUP - 1;
        if (!closes) aggregates[u64(tile) * COLUMNS + column].publish(aggregate);
        Carry before = init, one;
        if (group > 0)
            while (!prefixes[u64(group) * COLUMNS + column].poll(before)) {}
        for (u32 i = first; i < tile; i++) {
            while (!aggregates[u64(i) * COLUMNS + column].poll(one)) {}
            before = Operator::combine(before, one);
        }
        if (closes && tile + 1 < tiles)
            prefixes[u64(group + 1) * COLUMNS + column].publish(Operator::combine(before, aggregate));
        return before;
    }

    // By the whole block, after `exchange` of every column. As `LookBack::retire`.
    __device__ void retire(Shared &shared, u32 tile) {
        u32 group = tile / GROUP, first = group * GROUP, size = min(GROUP, tiles - first);
        __syncthreads();
        if (threadIdx.x == 0) shared.last = add_acquire_release(retired + group, 1) == size - 1;
        __syncthreads();
        if (!shared.last) return;
        for (u32 i = threadIdx.x; i < size * COLUMNS; i += blockDim.x) aggregates[u64(first) * COLUMNS + i].clear();
        for (u32 i = threadIdx.x; i < COLUMNS; i += blockDim.x) prefixes[u64(group) * COLUMNS + i].clear();
        if (threadIdx.x == 0) retired[group] = 0;
    }
};

// ---- PrefixServer: one block serves the prefixes of all others ----------------------------------
// The block that draws the first ticket scans no tile. Its warps read the aggregates in tile order
// and publish every tile's prefix. So each word has one writer and one reader, where with look-back
// all later tiles poll a word.
//
// With a length in memory a grid may have fewer blocks (`each_tile`). Then every block but the server draws until it
// gets no tile.

template <class Operator, u32 SERVERS, u32 SPREAD = 0> struct PrefixServer {
    typedef typename Operator::Carry Carry;
    // Prefixes lie SPREAD bytes apart if a whole grid polls its prefixes at once. Side by side they
    // would lie in a few lines, and polls of one line wait for each other.
    static constexpr u32 STRIDE = SPREAD > sizeof(Status<Carry>) ? SPREAD / sizeof(Status<Carry>) : 1;

    u32 *ticket;
    Status<Carry> *aggregates, *prefixes; // by tile; by tile, STRIDE status words apart
    u32 tiles;
    bool is_first; // whether the block draws for the first time

    struct Shared {
        u32 ticket;
        Mailbox<Carry> upto[SERVERS]; // by warp of the server: the prefix of its next group
    };

    __device__ PrefixServer(void *memory, u32 tiles, bool is_first = true) : tiles(tiles), is_first(is_first) {
        ticket = (u32 *)memory;
        aggregates = (Status<Carry> *)(ticket + 4);
        prefixes = aggregates + tiles;
    }

    // The first block serves.
    __device__ u32 likely() const { return tiles == 1 || !is_first ? NO_TILE : blockIdx.x - 1; }

    __device__ Status<Carry> &prefix_of(u32 tile) const { return prefixes[u64(tile) * STRIDE]; }

    // By the whole block: draws a ticket. Ticket 0 makes the block the server, which returns false
    // when all prefixes are published; ticket t is tile t - 1. Behind the last tile it returns false, too.
    __device__ bool enter(Shared &shared, Maybe<Carry> init, u32 &tile) {
        if (tiles == 1) {
            tile = 0;
            return true;
        }
        if (threadIdx.x == 0) {
            shared.ticket = add_relaxed(ticket, 1);
            if (shared.ticket == last_ticket()) *ticket = 0;
        }
        // An earlier block may have left a mark in this shared memory.
        if (threadIdx.x < SERVERS) shared.upto[threadIdx.x].clear();
        __syncthreads();
        tile = shared.ticket - 1;
        if (shared.ticket == 0) serve(shared, init);
        else pace(tile);
        return shared.ticket != 0 && (!SEVERAL_TILES || tile < tiles);
    }
    // The last ticket that is drawn. A block for each tile and the server draw one each.
    __device__ u32 last_ticket() const { return has_fewer_blocks(tiles) ? tiles + gridDim.x - 1 : tiles; }

    // The server's loop. Warp w serves groups w, w + SERVERS, ... of 32 tiles, a tile a lane. A
    // tile is served as soon as all tiles before it have published, whether or not later tiles can
    // run: without this two resident blocks would not suffice.
    //
    // The combinations do not depend on timing: a lane's prefix is the group's prefix combined with
    // a scan over the lanes below, and that scan's tree depends only on the lane.
    __device__ void serve(Shared &shared, Maybe<Carry> init) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        for (u32 group = warp; group * WARP < tiles; group += SERVERS) {
            u32 tile = group * WARP + lane, size = min(WARP, tiles - group * WARP);
            Carry aggregate, upto;     // of this lane's tile; of the group's tiles up to it
            bool have = lane >= size;  // whether the lane's aggregate has arrived
            u32 there = 0, served = 0; // leading tiles that have published; that were served
            Maybe<Carry> base = init;  // the group's prefix
            bool based = group == 0;
            while (there < size || served < size) {
                if (there < size) {
                    if (!have) have = aggregates[tile].poll(aggregate);
                    u32 missing = __ballot_sync(ALL_LANES, !have);
                    u32 now = missing ? __ffs(missing) - 1 : size;
                    if (now != there) {
                        there = now;
                        upto = aggregate;
#pragma unroll
                        for (u32 distance = 1; distance < WARP; distance *= 2) {
                            Carry earlier = shuffle_up(upto, distance);
                            if (lane >= distance && lane < there) upto = Operator::combine(earlier, upto);
                        }
                    }
                }
                if (!based) {
                    based = base.some = __all_sync(ALL_LANES, shared.upto[warp].poll(base.value, group));
                    if (!based) continue;
                }
                if (there == WARP && lane == WARP - 1)
                    shared.upto[(warp + 1) % SERVERS].post(after<Operator>(base, upto), group + 1);
                // The tile after those that have published can be served too.
                u32 next = min(there + 1, size);
                Carry before = shuffle_up(upto, 1);
                if (lane == 0) before = base.value;
                else if (base.some && lane < next) before = Operator::combine(base.value, before);
                if (tile > 0 && lane >= served && lane < next) prefix_of(tile).publish(before);
                served = next;
            }
            if (lane < size) aggregates[tile].clear();
        }
    }

    // Delays the tiles of the blocks that start with a long grid: each multiprocessor begins one every
    // PACE cycles, somewhat faster than its part of the memory loads it. If all were loaded at once, the
    // first tiles' status words would wait behind the loads.
    __device__ void pace(u32 tile) const {
        constexpr u32 AT_ONCE = 8, PACE = 1024;
        u32 wave = AT_ONCE * multiprocessors();
        if (tile >= wave || tiles < 2 * wave) return;
        long long begin = clock64(), delay = tile * PACE / multiprocessors();
        while (clock64() - begin < delay) {}
    }

    __device__ bool is_last(u32 tile) const { return tile == tiles - 1; }

    __device__ void publish(u32 tile, Carry aggregate, u32 lane) {
        if (tiles > 1 && lane == 0) aggregates[tile].publish(aggregate);
    }

    // Waits for the prefix and clears its word, which no other thread reads. Tile 0 has no word:
    // its prefix is `init`.
    __device__ Maybe<Carry> receive(u32 tile, Carry, Maybe<Carry> init, u32 lane) {
        if (tiles == 1) return init;
        Maybe<Carry> prefix = init;
        if (lane == 0 && tile > 0) {
            while (!prefix_of(tile).poll(prefix.value)) {}
            prefix_of(tile).clear();
        }
        prefix.value = shuffle(prefix.value, 0);
        prefix.some = init.some || tile > 0;
        return prefix;
    }

    __device__ void retire(u32, u32) {}
};
