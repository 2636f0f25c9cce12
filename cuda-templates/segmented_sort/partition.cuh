// Sort by segment: long segments are partitioned into short ones.
//
// A step scatters the keys of each long segment by a digit, the most significant one in which they
// may differ, stably. Each bucket is a segment then. Steps go on until no segment is long, or until
// the keys of those that are are equal: at most a step a digit (Stehle and Jacobsen 2017, "A Memory
// Bandwidth-Efficient Hybrid Radix Sort on GPUs").
//
// One launch runs all steps. Its phases are: find the long segments; then for each step count the
// digits of each tile, plan each segment's buckets, scatter the tiles. Blocks draw the work of a
// phase in order, and wait for the end of the phase before. They wait only for work that running
// blocks have drawn, so it ends however few blocks there are.
#pragma once
#include "segmented_sort/heads.cuh"
#include "sort/sort.cuh"

// Where the keys of a segment lie.
enum Place : u32 { IN_OUTPUT, IN_SCRATCH, IN_INPUT };
// What the scatter phase does with a segment's keys: nothing, as its next digit is the same for
// all; a scatter to buckets; a copy to the output, as all are equal.
enum Action : u32 { STAY, SCATTER, COPY };

// A long segment.
struct LongSegment {
    u64 first, count;
    u64 differs; // bits in which the ordered keys differ from the first one
    u32 end;     // compared bits that may differ: from `SegmentSortCall::begin` on up to this one
    u32 first_tile;
    Place place;
    Action action;
    u64 starts[BINS]; // the number of keys of each bucket, then where it begins in the segment
};

// The work of a phase: tickets drawn, and work done.
struct Phase { u32 ticket, finished; };
enum { COUNTS, PLANS, SCATTERS, PHASES };
// Counters, zero before the sort.
struct PartitionPlan {
    // The long segments of each step, and above them by 32 bits the number of their tiles.
    u64 segments[LEVELS + 1];
    u32 listed[2]; // chunks with short segments, and with medium ones
    u32 drawn[2];  // of them
    Phase find, phases[LEVELS][PHASES];
};

static_assert(sizeof(PartitionPlan) <= PARTITION_PLAN_BYTES && sizeof(LongSegment) <= LONG_SEGMENT_BYTES,
              "the host allots as many bytes");

// Draws the work of a phase until there is none left, and waits until all of it is done. Called by
// the whole block.
template <class Work> __device__ inline void run_phase(Phase &phase, u32 total, const Work &work) {
    for (;;) {
        u32 item = draw(&phase.ticket);
        if (item >= total) break;
        work(item);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) add_relaxed(&phase.finished, 1);
    }
    if (threadIdx.x == 0) {
        while (load_relaxed(&phase.finished) != total) {}
        __threadfence();
    }
    __syncthreads();
}

// STABLE: the order of equal keys can be observed.
template <class Order, class Tile, u32 CHUNK, u32 MEDIUM_CHUNK, u32 SMALL, u32 SHORT, bool STABLE> struct Partition {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Value Value;
    static constexpr u32 THREADS = Tile::THREADS, TILE = Tile::TILE, WARPS = THREADS / WARP;
    static constexpr bool HAS_VALUES = Tile::HAS_VALUES;
    static constexpr u32 LEAST_BITS = 4; // of a digit
    static_assert(LEVELS > 8 * sizeof(Bits) / LEAST_BITS, "a level a digit, and one more for equal keys");

    const SegmentSortCall &call;
    u64 n;
    PartitionPlan &plan;
    Order order;
    u32 level;

    __device__ Partition(const SegmentSortCall &call, u64 n)
        : call(call), n(n), plan(*(PartitionPlan *)call.plan), order{Bits(call.flip)}, level(0) {}

    // Bytes of shared memory, if a tile takes fewer.
    static constexpr u32 BYTES = 3 * THREADS * sizeof(u64);
    __device__ void run(Vector *memory) {
        u32 chunks = u32(n / CHUNK + 1);
        run_phase(plan.find, (chunks + THREADS - 1) / THREADS, [&](u32 i) { find(memory, i, chunks); });
        for (;; level++) {
            u64 all = load_relaxed(&plan.segments[level]);
            u32 segments = u32(all), tiles = u32(all >> 32);
            if (segments == 0) return;
            Phase *phases = plan.phases[level];
            run_phase(phases[COUNTS], tiles, [&](u32 tile) { count(memory, tile); });
            run_phase(phases[PLANS], segments, [&](u32 s) { plan_buckets(memory, s); });
            run_phase(phases[SCATTERS], tiles, [&](u32 tile) { scatter(memory, tile); });
        }
    }

  private:
    __device__ LongSegment *segments(u32 level) const { return (LongSegment *)call.segments[level % 2]; }
    __device__ u32 *segment_of_tile(u32 level) const { return call.segment_of_tile[level % 2]; }
    __device__ const Bits *keys_of(Place place) const {
        return (const Bits *)(place == IN_INPUT ? call.keys_in : call.keys[place]);
    }
    // Null if the payload is the source indices.
    __device__ const Value *values_of(Place place) const {
        return (const Value *)(place == IN_INPUT ? call.values_in : call.values[place]);
    }
    // The digit of a segment has so many bits that most buckets are small, if 8 bits suffice, and so few that
    // most are short otherwise: none has about SMALL items, half of them in each kernel then.
    __device__ Digit digit_of(const LongSegment &segment) const {
        u32 bucket = segment.count < BINS * SMALL / 2 ? SMALL / 4 : 4 * SMALL;
        u32 buckets = u32(min(segment.count / bucket, u64(BINS - 1))), bits = max(LEAST_BITS, WARP - __clz(buckets));
        u32 shift = max(call.begin, segment.end < bits ? 0 : segment.end - bits);
        if (shift >= segment.end) return {0, 0};
        return {shift, (1u << (segment.end - shift)) - 1};
    }

    // Adds a long segment to those of a step. Called by the whole block.
    __device__ void add(u32 level, u64 first, u64 count, u32 end, Place place) {
        __shared__ u64 reserved;
        u32 tiles = u32((count + TILE - 1) / TILE);
        if (threadIdx.x == 0) reserved = atomicAdd(&plan.segments[level], u64(tiles) << 32 | 1);
        __syncthreads();
        u32 number = u32(reserved), first_tile = u32(reserved >> 32);
        LongSegment &segment = segments(level)[number];
        if (threadIdx.x < BINS) segment.starts[threadIdx.x] = 0;
        if (threadIdx.x == 0) {
            segment.first = first;
            segment.count = count;
            segment.differs = 0;
            segment.end = end;
            segment.first_tile = first_tile;
            segment.place = place;
        }
        u32 *of_tile = segment_of_tile(level) + first_tile;
        for (u32 t = threadIdx.x; t < tiles; t += THREADS) of_tile[t] = number;
        __syncthreads();
    }

    // Calls `use(i)` by the whole block for each thread i whose `wants` is set.
    template <class Use> static __device__ void each_thread_that(bool wants, const Use &use) {
        __shared__ u32 wanting[WARPS];
        u32 lanes = __ballot_sync(ALL_LANES, wants);
        if (lane_id() == 0) wanting[warp_id()] = lanes;
        __syncthreads();
        for (u32 w = 0; w < WARPS; w++)
            for (u32 left = wanting[w]; left != 0; left &= left - 1) use(w * WARP + __ffs(left) - 1);
        __syncthreads();
    }

    // Lists the chunk of a segment of `count` items that begins in chunk number `chunk`, unless it is listed or the
    // segment is small or long.
    __device__ void list(u64 chunk, u64 count) const {
        if (count <= SMALL || count > call.longest) return;
        u32 which = count > SHORT, in_group = which ? MEDIUM_CHUNK / CHUNK : 1, group = u32(chunk / in_group);
        if ((atomicOr(call.chunks + u64(group) * in_group, LISTED << which) & LISTED << which) == 0)
            call.listed[which][atomicAdd(&plan.listed[which], 1)] = group;
    }

    // ---- find -----------------------------------------------------------------------------------

    // Finds the long segments among THREADS chunks. Only a chunk's last segment may be long.
    __device__ void find(Vector *memory, u32 group, u32 chunks) {
        u64 *firsts = (u64 *)memory, *begins = firsts + THREADS, *ends = begins + THREADS;
        __shared__ u32 warps_with_heads, some[WARPS];
        __syncthreads();
        u32 chunk = group * THREADS + threadIdx.x, own = chunk < chunks ? call.chunks[chunk] : NO_HEADS;
        bool has_heads = first_head(own) != NO_HEADS;
        firsts[threadIdx.x] = u64(chunk) * CHUNK + first_head(own);
        begins[threadIdx.x] = u64(chunk) * CHUNK + last_head(own);
        u32 lanes = __ballot_sync(ALL_LANES, has_heads);
        if (lane_id() == 0) some[warp_id()] = lanes;
        __syncthreads();
        if (warp_id() == 0) {
            u32 warps = __ballot_sync(ALL_LANES, lane_id() < WARPS && some[lane_id()] != 0);
            if (lane_id() == 0) warps_with_heads = warps;
        }
        __syncthreads();
        // The next chunk with a head, or THREADS if it is in no chunk of this group.
        u32 later = lane_id() == WARP - 1 ? 0 : lanes >> (lane_id() + 1) << (lane_id() + 1), next = THREADS;
        if (later != 0) next = warp_id() * WARP + __ffs(later) - 1;
        else if (u32 warps = warps_with_heads & ~((2u << warp_id()) - 1); warps != 0) {
            u32 warp = __ffs(warps) - 1;
            next = warp * WARP + __ffs(some[warp]) - 1;
        }
        u64 end = next < THREADS ? firsts[next] : 0;
        // The last head of the group: the whole block looks for the next one.
        bool is_last = has_heads && next == THREADS && begins[threadIdx.x] < n;
        each_thread_that(is_last, [&](u32 thread) {
            u64 found = first_head_from(u64(group + 1) * THREADS, chunks);
            if (threadIdx.x == thread) end = found;
        });
        ends[threadIdx.x] = end;
        __syncthreads();
        u64 count = has_heads && begins[threadIdx.x] < n ? end - begins[threadIdx.x] : 0;
        if (own & HAS_SHORT) list(chunk, SHORT);
        list(chunk, count);
        each_thread_that(count > call.longest, [&](u32 thread) {
            add(0, begins[thread], ends[thread] - begins[thread], call.end, IN_INPUT);
        });
    }

    // The first head in `chunk` or behind it. There is one: item n.
    __device__ u64 first_head_from(u64 chunk, u32 chunks) const {
        __shared__ u32 earliest;
        for (;; chunk += THREADS) {
            __syncthreads();
            if (threadIdx.x == 0) earliest = THREADS;
            __syncthreads();
            u64 own = chunk + threadIdx.x;
            if (own < chunks && first_head(call.chunks[own]) != NO_HEADS) atomicMin(&earliest, threadIdx.x);
            __syncthreads();
            u32 at = earliest;
            if (at < THREADS) return (chunk + at) * CHUNK + first_head(call.chunks[chunk + at]);
            if (chunk >= chunks) return n; // not reached
        }
    }

    // ---- count ----------------------------------------------------------------------------------

    // Adds the digits of a tile to its segment's, and clears its look-back words.
    __device__ void count(Vector *memory, u32 tile) {
        u32 *counts = (u32 *)memory; // a missing key has a counter of its own
        for (u32 d = threadIdx.x; d <= BINS; d += THREADS) {
            counts[d] = 0;
            if (STABLE && d < BINS) call.words[u64(tile) * BINS + d] = 0;
        }
        __syncthreads();
        LongSegment &segment = segments(level)[segment_of_tile(level)[tile]];
        u64 from = u64(tile - segment.first_tile) * TILE;
        u32 here = u32(min(segment.count - from, u64(TILE)));
        const Bits *keys = keys_of(segment.place) + segment.first, *own = keys + from + threadIdx.x;
        Digit digit = digit_of(segment);
        Bits one = keys[0], first = order.to(one), differs = 0;
        constexpr u32 AT_ONCE = 8;
#pragma unroll 1
        for (u32 row = threadIdx.x; row < here; row += AT_ONCE * THREADS, own += AT_ONCE * THREADS) {
            Bits key[AT_ONCE];
#pragma unroll
            for (u32 i = 0; i < AT_ONCE; i++) key[i] = row + i * THREADS < here ? own[i * THREADS] : one;
#pragma unroll
            for (u32 i = 0; i < AT_ONCE; i++) {
                Bits ordered = order.to(key[i]);
                differs |= ordered ^ first;
                atomicAdd(counts + (row + i * THREADS < here ? digit(ordered) : BINS), 1);
            }
        }
        u64 of_warp = warp_or(u64(differs));
        if (lane_id() == 0) atomicOr(&segment.differs, of_warp);
        __syncthreads();
        for (u32 d = threadIdx.x; d < BINS; d += THREADS)
            if (counts[d] > 0) atomicAdd(&segment.starts[d], u64(counts[d]));
    }

    // ---- plan -----------------------------------------------------------------------------------

    // Turns the counts of a segment into its buckets. Each of them becomes a segment.
    __device__ void plan_buckets(Vector *memory, u32 number) {
        u64 *begins = (u64 *)memory, *counts = begins + BINS;
        __shared__ u64 totals[WARPS];
        LongSegment &segment = segments(level)[number];
        u32 d = threadIdx.x;
        u64 own = d < BINS ? load_relaxed(&segment.starts[d]) : 0, inclusive = warp_inclusive_sum(own);
        if (lane_id() == WARP - 1) totals[warp_id()] = inclusive;
        __syncthreads();
        u64 begin = inclusive - own;
        for (u32 w = 0; w < warp_id(); w++) begin += totals[w];
        u64 first = segment.first, count = segment.count;
        Place place = segment.place;
        if (__syncthreads_or(own == count)) {
            // One bucket. The keys stay, to be partitioned by the next bits that differ.
            u64 compared = ~u64(0) >> (64 - 8 * sizeof(Bits));
            if (call.end < 64) compared &= (1ull << call.end) - 1;
            u64 differs = load_relaxed(&segment.differs) & compared >> call.begin << call.begin;
            if (threadIdx.x == 0)
                segment.action = differs != 0 || place == IN_OUTPUT || (place == IN_INPUT && call.in_place) ? STAY
                                                                                                            : COPY;
            if (differs != 0) add(level + 1, first, count, 64 - __clzll(i64(differs)), place);
            return;
        }
        Place to = place == IN_SCRATCH ? IN_OUTPUT : IN_SCRATCH;
        if (threadIdx.x == 0) segment.action = SCATTER;
        if (d < BINS) {
            segment.starts[d] = begin;
            begins[d] = begin;
            counts[d] = own;
            u64 head = first + begin;
            if (own > 0) {
                u32 bit = 1u << head % WARP;
                atomicOr(call.heads + head / WARP, bit);
                atomicOr(call.moved[to] + head / WARP, bit);
                list(head / CHUNK, own);
            }
        }
        // No segment begins in two arrays: the first bucket takes the head of the segment.
        if (threadIdx.x == 0 && place != IN_INPUT) atomicAnd(call.moved[place] + first / WARP, ~(1u << first % WARP));
        u32 left = digit_of(segment).shift; // the compared bits below the digit
        __syncthreads();
        each_thread_that(own > call.longest,
                         [&](u32 digit) { add(level + 1, first + begins[digit], counts[digit], left, to); });
    }

    // ---- scatter --------------------------------------------------------------------------------

    __device__ void scatter(Vector *memory, u32 tile) {
        LongSegment &segment = segments(level)[segment_of_tile(level)[tile]];
        Action action = segment.action;
        if (action == STAY) return;
        u32 in_segment = tile - segment.first_tile;
        u64 from = u64(in_segment) * TILE, first = segment.first + from, left = segment.count - from;
        Place place = segment.place;
        const Bits *keys = keys_of(place) + first;
        const Value *values = values_of(place);
        // Of the payload, if it is the source indices.
        u64 first_index = call.local_indices ? from : first;
        if (action == COPY) {
            u32 here = u32(min(left, u64(TILE)));
            for (u32 i = threadIdx.x; i < here; i += THREADS) {
                if (!call.no_keys) ((Bits *)call.keys[IN_OUTPUT])[first + i] = keys[i];
                if constexpr (HAS_VALUES)
                    ((Value *)call.values[IN_OUTPUT])[first + i] = values ? values[first + i]
                                                                          : Value::index(first_index + i);
            }
            return;
        }
        Place to = place == IN_SCRATCH ? IN_OUTPUT : IN_SCRATCH;
        Bits *out = (Bits *)call.keys[to] + segment.first;
        Order order = this->order;
        auto &shared = *(typename Tile::Shared *)memory;
        Digit digit = digit_of(segment);
        auto encode = [=](Bits key) { return order.to(key); };
        auto put = [=](u64 index, Bits key) { out[index] = order.from(key); };
        u64 *starts = segment.starts;
        if constexpr (!STABLE) {
            auto claim = [=](u32 d, u32 total) { return atomicAdd(starts + d, u64(total)); };
            tile_in_any_order<Tile>(shared, left, PlainDigit{digit}, keys, encode, put, claim);
        } else {
            LookBackDigits<u64> chain{call.words + u64(tile) * BINS, in_segment};
            auto receive = [=](u32 d, u32 total) { return starts[d] + chain.receive<4>(d, total); };
            Value *values_out = (Value *)call.values[to] + (HAS_VALUES ? segment.first : 0);
            stable_tile<Tile>(shared, left, digit, keys, encode, put, values ? values + first : nullptr, first_index,
                              values_out, chain, receive);
        }
    }
};
