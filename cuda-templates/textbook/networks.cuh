// The textbook's scan networks in a block (Hwu, Kirk and El Hajj, "Programming Massively Parallel
// Processors"). `parascan::networks` has the same networks on the host, docs/scan-algorithms.md
// explains them.
//
// A network scans one carry of each of WIDTH threads, in two halves: a tile's aggregate is needed
// before its prefix is there. All threads of the block call both halves, with a barrier in between.
//
//   template <class Operator, u32 WIDTH> struct Network {
//       struct Shared; // in shared memory; a barrier comes before any other use of its bytes
//
//       // All that needs no prefix. The last thread gets the combination of all carries.
//       static Carry begin(Shared &, Carry x, u32 first);
//
//       // The rest: the combination of the prefix with this thread's carry and all before it. `x`
//       // is the result of `begin`, in this kernel or an earlier one. After it a thread reads only
//       // its own entry of Shared.
//       static Carry finish(Shared &, Carry x, Maybe<Carry> prefix, u32 first);
//   };
//
// Threads below `first`, which is 0 or 1, have no carry: combinations with theirs are left out, and
// their result is the prefix.
#pragma once
#include "core/handover.cuh"

// The second half of a network whose `begin` is the whole scan: each thread combines the prefix
// with its own result.
template <class Operator> struct PrefixToEach {
    typedef typename Operator::Carry Carry;

    template <class Shared> static __device__ Carry finish(Shared &, Carry x, Maybe<Carry> prefix, u32 first) {
        return threadIdx.x < first ? prefix.value : after<Operator>(prefix, x);
    }
};

// ---- Kogge and Stone (1973), one buffer ---------------------------------------------------------

template <class Operator, u32 WIDTH> struct KoggeStone : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    struct Shared { Carry slot[WIDTH]; };

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

// ---- Kogge and Stone, two buffers ---------------------------------------------------------------

template <class Operator, u32 WIDTH> struct KoggeStoneDoubleBuffered : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    struct Shared { Carry slot[2][WIDTH]; };

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

// ---- Brent and Kung (1982) ----------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct BrentKung {
    typedef typename Operator::Carry Carry;
    struct Shared {
        Carry slot[WIDTH];

        // Position `right` combines the value `distance` before it with its own.
        __device__ void take(u32 right, u32 distance, u32 first) {
            if (right < WIDTH && right >= first + distance)
                slot[right] = Operator::combine(slot[right - distance], slot[right]);
        }
    };

    // The reduction tree. Thread i makes the i-th application of a step, whatever its position, so
    // the active threads are in the first warps.
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

    // Positions 0, 1, 3, 7, ... hold all items up to them, and take the prefix. The reverse tree
    // distributes it with the rest.
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

// ---- Sklansky (1960) ----------------------------------------------------------------------------

template <class Operator, u32 WIDTH> struct Sklansky : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    struct Shared { Carry slot[WIDTH]; };

    static __device__ Carry begin(Shared &shared, Carry x, u32 first) {
        u32 i = threadIdx.x;
        shared.slot[i] = x;
        for (u32 distance = 1; distance < WIDTH; distance *= 2) {
            __syncthreads();
            // A thread in the second half of a pair of runs reads the last value of the first half.
            u32 begin = i & ~(distance - 1);
            if (i & distance && begin > first) shared.slot[i] = x = Operator::combine(shared.slot[begin - 1], x);
        }
        return x;
    }
};

// ---- warp shuffles: Kogge and Stone over lanes, then over warps ---------------------------------

template <class Operator, u32 WIDTH> struct WarpShuffles : PrefixToEach<Operator> {
    typedef typename Operator::Carry Carry;
    static constexpr u32 WARPS = WIDTH / WARP;
    static_assert(WARPS <= WARP, "one warp scans the totals of all");
    struct Shared { Carry total[WARPS]; };

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
