// The scan networks of the textbook, in a block: `parascan::networks` says the same on the host, and docs/scan-algorithms.md why.
//
// A network scans one carry of each of WIDTH threads, in two halves: a tile's aggregate is needed before its prefix is there. All of
// the block call both, and meet in between.
//
//   template <class Operator, u32 WIDTH> struct Network {
//       struct Shared; // in shared memory: whoever uses it for something else waits first
//
//       // As far as it goes without the prefix; the last thread gets the combination of all.
//       static Carry begin(Shared &, Carry x, u32 first);
//
//       // The rest: the combination of the prefix, the thread's own and all before it. `x` is what `begin` gave, here or in an earlier
//       // kernel. When it returns, no thread reads another's place in Shared any more.
//       static Carry finish(Shared &, Carry x, Maybe<Carry> prefix, u32 first);
//   };
//
// Threads before `first`, none or one, bring nothing: combinations with them are left out, and what they get is the prefix.
#pragma once
#include "core/handover.cuh"

// What comes of something, if there is anything, and `later`.
template <class Operator, class Carry> __device__ inline Carry after(Maybe<Carry> earlier, Carry later) {
    return earlier.some ? Operator::combine(earlier.value, later) : later;
}

// The second half of networks that are done with the first: each thread takes the prefix by an application of its own.
template <class Operator> struct PrefixToEach {
    typedef typename Operator::Carry Carry;

    template <class Shared> static __device__ Carry finish(Shared &, Carry x, Maybe<Carry> prefix, u32 first) {
        return threadIdx.x < first ? prefix.value : after<Operator>(prefix, x);
    }
};

// ---- Kogge and Stone 1973, one buffer ---------------------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct KoggeStone : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[WIDTH];
    };

    static __device__ Carry begin(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x;
        shared.slot[i] = x;
        for (u32 distance = 1; distance < WIDTH; distance *= 2) {
            bool takes = i >= first + distance;
            Carry earlier = x;
            __syncthreads(); // what is read has been written
            if (takes) earlier = shared.slot[i - distance];
            __syncthreads(); // what is overwritten has been read
            if (takes) shared.slot[i] = x = Operator::combine(earlier, x);
        }
        return x;
    }
};

// ---- the same, double-buffered ----------------------------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct KoggeStoneDoubleBuffered : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[2][WIDTH];
    };

    static __device__ Carry begin(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x, from = 0;
        shared.slot[from][i] = x;
        for (u32 distance = 1; distance < WIDTH; distance *= 2) {
            __syncthreads(); // one buffer has been written, and the other has been read
            if (i >= first + distance) x = Operator::combine(shared.slot[from][i - distance], x);
            from = 1 - from;
            shared.slot[from][i] = x;
        }
        return x;
    }
};

// ---- Brent and Kung 1982 ----------------------------------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct BrentKung {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[WIDTH];

        // Position `right` takes what is `distance` before it.
        __device__ void take(u32 right, u32 distance, u32 first) {
            if (right < WIDTH && right >= first + distance) slot[right] = Operator::combine(slot[right - distance], slot[right]);
        }
    };

    // The reduction tree. The threads that work are the first ones, whatever the positions.
    static __device__ Carry begin(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x;
        shared.slot[i] = x;
        for (u32 distance = 1; distance < WIDTH; distance *= 2) {
            __syncthreads();
            shared.take((i + 1) * 2 * distance - 1, distance, first);
        }
        __syncthreads();
        return shared.slot[i];
    }

    // Positions that lack nothing of the tile take the prefix: 0, 1, 3, 7, ... The reverse tree hands it on with what they have.
    static __device__ Carry finish(Shared &shared, Carry x, Maybe<Carry> prefix, u32 first) {
        u32 i = threadIdx.x;
        if ((i & (i + 1)) == 0) x = i < first ? prefix.value : after<Operator>(prefix, x);
        shared.slot[i] = x;
        for (u32 distance = WIDTH / 4; distance > 0; distance /= 2) {
            __syncthreads();
            shared.take((i + 1) * 2 * distance - 1 + distance, distance, first);
        }
        __syncthreads();
        return shared.slot[i];
    }
};

// ---- Sklansky 1960 ----------------------------------------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct Sklansky : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[WIDTH];
    };

    static __device__ Carry begin(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x;
        shared.slot[i] = x;
        for (u32 distance = 1; distance < WIDTH; distance *= 2) {
            __syncthreads();
            u32 begin = i & ~(distance - 1); // of the thread's stretch of `distance`; what is before the second of a pair is read
            if (i & distance && begin > first) shared.slot[i] = x = Operator::combine(shared.slot[begin - 1], x);
        }
        return x;
    }
};

// ---- warp shuffles: Kogge and Stone's network over lanes, then over warps ---------------------------------------------------

template <class Operator, u32 WIDTH> struct WarpShuffles : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    static constexpr u32 WARPS = WIDTH / WARP;
    static_assert(WARPS <= WARP, "one warp scans the totals of all");
    struct Shared {
        Carry total[WARPS];
    };

    static __device__ Carry begin(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x, lane = i % WARP, warp = i / WARP;
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            Carry earlier = shuffle_up(x, distance);
            if (lane >= distance && i >= first + distance) x = Operator::combine(earlier, x);
        }
        if (lane == WARP - 1) shared.total[warp] = x;
        __syncthreads();
        if (warp == 0) {
            Carry total = shared.total[min(lane, WARPS - 1)];
            for (u32 distance = 1; distance < WARPS; distance *= 2) {
                Carry earlier = shuffle_up(total, distance);
                if (lane >= distance && lane < WARPS) total = Operator::combine(earlier, total);
            }
            __syncwarp();
            if (lane < WARPS) shared.total[lane] = total;
        }
        __syncthreads();
        if (lane == WARP - 1) return shared.total[warp];
        return warp > 0 ? Operator::combine(shared.total[warp - 1], x) : x;
    }
};
