// The scan networks of the textbook, in a block: `parascan::networks` says the same on the host, and docs/scan-algorithms.md why.
//
// A network scans one carry of each of WIDTH threads. All of the block call it; each gets the combination of its own and all
// before it:
//
//   template <class Operator, u32 WIDTH> struct Network {
//       struct Shared;                                         // in shared memory: whoever uses it for something else waits first
//       static Carry inclusive(Shared &, Carry x, u32 first);
//   };
//
// Threads before `first`, none or one, bring nothing: combinations with them are left out.
#pragma once
#include "warp_scan.cuh"

// ---- Kogge and Stone 1973, one buffer ---------------------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct KoggeStone {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[WIDTH];
    };

    static __device__ Carry inclusive(Shared &shared, Carry x, u32 first) {
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

template <class Operator, u32 WIDTH> struct KoggeStoneDoubleBuffered {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[2][WIDTH];
    };

    static __device__ Carry inclusive(Shared &shared, Carry x, u32 first) {
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
    static __device__ void reduce(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x;
        shared.slot[i] = x;
        for (u32 distance = 1; distance < WIDTH; distance *= 2) {
            __syncthreads();
            shared.take((i + 1) * 2 * distance - 1, distance, first);
        }
    }

    static __device__ Carry inclusive(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x;
        reduce(shared, x, first);
        for (u32 distance = WIDTH / 4; distance > 0; distance /= 2) { // the reverse tree
            __syncthreads();
            shared.take((i + 1) * 2 * distance - 1 + distance, distance, first);
        }
        __syncthreads();
        return shared.slot[i];
    }

    // The combination of all, without their scan.
    static __device__ Carry whole(Shared &shared, Carry x) {
        reduce(shared, x, 0);
        __syncthreads();
        return shared.slot[WIDTH - 1];
    }
};

// ---- Sklansky 1960 ----------------------------------------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct Sklansky {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[WIDTH];
    };

    static __device__ Carry inclusive(Shared &shared, Carry x, u32 first) {
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

template <class Operator, u32 WIDTH> struct WarpShuffles {
    typedef typename Operator::Carry Carry;
    static constexpr u32 WARPS = WIDTH / WARP;
    static_assert(WARPS <= WARP, "one warp scans the totals of all");
    struct Shared {
        Carry total[WARPS];
    };

    static __device__ Carry inclusive(Shared &shared, Carry x, u32 first) {
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
