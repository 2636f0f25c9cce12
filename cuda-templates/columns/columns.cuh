// Scan and reduce along the first axis of a row-major matrix: each column on its own.
//
// A tile is some rows of a panel of adjacent columns. It is copied to shared memory, so that rows are
// read whole. In a tile each thread has a run of adjacent rows of one column.
//
//   load     the tile to shared memory
//   fold     each thread folds its run; a column's runs are joined in order       one barrier
//   join     the tile's exclusive prefixes, by look-back in fixed groups of tiles
//   finish   each thread goes over its run again, from its own prefix on, and stores the results
//
// What is combined, and in which groups, does not depend on timing.
#pragma once
#include "core/handover.cuh"
#include "scan/scan.cuh" // the forms that an operator may name as its `Pairs`
#include "columns/contract.cuh" // `Matrix` and flags, which the host shares: src/cuda/columns/contract.rs

// `THREADS` of a block, `RUN` rows of a thread, at most PANEL columns of a panel. An odd RUN puts
// the runs of a warp into different banks. With REDUCE there is one result a column.
template <class Operator, u32 THREADS, u32 RUN, u32 PANEL, bool REDUCE> struct Columns {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;

    static constexpr u32 AT_ONCE = 4; // aggregates whose loads are in flight together
    static constexpr u32 UNROLLED = 8; // rows of a run that a loop takes at once

    struct Shared {
        alignas(sizeof(Vector)) Element items[THREADS * RUN];
        Carry run[THREADS];    // the aggregate of each run
        Carry polled[THREADS]; // by thread: the fold of the earlier tiles that it has polled
        Carry prefix[PANEL];   // by column: the exclusive prefix of the tile
        u32 ticket;
    };

    Shared &shared;
    const Matrix &matrix;
    u32 runs;        // of a column in a tile
    u32 run, column; // of the thread
    u32 tile, panel; // of the block: by rows, and by columns
    u64 first;       // the tile's first row, in scan order
    u32 rows, width; // of the tile
    u32 run_rows;    // of a run of the tile

    // Draws the block's ticket, which says which tile it has. Tickets are drawn by running blocks, and tiles above
    // have lower ones, so a tile waits only for tiles whose blocks run or have ended.
    static __device__ u32 draw(Shared &shared, const Matrix &matrix, void *memory) {
        if (matrix.tiles == 1) return blockIdx.x;
        if (threadIdx.x == 0) {
            shared.ticket = add_relaxed((u32 *)memory, 1);
            if (shared.ticket == gridDim.x - 1) *(u32 *)memory = 0;
        }
        __syncthreads();
        return shared.ticket;
    }

    // Makes the matrix that of its first `rows` rows, at most all, in the words of all. Returns whether the
    // block has a tile of it. Without rows `init` is the result of a column in a reduction.
    static __device__ bool cut(Matrix &matrix, u64 rows, u32 ticket, Carry init, Element *out) {
        u32 tile_rows = THREADS / matrix.width * RUN;
        matrix.rows = min(matrix.rows, rows);
        matrix.tiles = u32((matrix.rows + tile_rows - 1) / tile_rows);
        if (REDUCE && matrix.rows == 0 && ticket < matrix.panels && threadIdx.x < matrix.width) {
            u64 column = u64(ticket) * matrix.width + threadIdx.x;
            if (column < matrix.columns) out[column] = Operator::lower(init);
        }
        return ticket < matrix.tiles * matrix.panels;
    }

    // The kernel body. `init` has a meaning only with the flag COLUMNS_INIT.
    static __device__ void scan(Shared &shared, u32 ticket, const Element *in, Element *out, const Matrix &matrix,
                                Carry init, void *memory) {
        Columns columns(shared, matrix, ticket);
        columns.load(in);
        columns.go({init, bool(matrix.flags & COLUMNS_INIT)}, memory, out);
    }

  private:
    __device__ Columns(Shared &shared, const Matrix &matrix, u32 ticket) : shared(shared), matrix(matrix) {
        runs = THREADS / matrix.width;
        run = threadIdx.x / matrix.width;
        column = threadIdx.x % matrix.width;
        tile = ticket / matrix.panels;
        panel = ticket % matrix.panels;
        first = u64(tile) * (runs * RUN);
        rows = u32(min(matrix.rows - first, u64(runs * RUN)));
        width = u32(min(matrix.columns - u64(panel) * matrix.width, u64(matrix.width)));
        // A partial tile is divided evenly, by an odd number of rows.
        run_rows = min((rows + runs - 1) / runs | 1, RUN);
    }

    // The thread's column of the matrix.
    __device__ u64 own_column() const { return u64(panel) * matrix.width + column; }
    __device__ bool has_column() const { return run < runs && column < width; }
    // Rows of the thread's run.
    __device__ u32 own_rows() const {
        return !has_column() || run * run_rows >= rows ? 0 : min(run_rows, rows - run * run_rows);
    }
    __device__ Element &item(u32 row) { return shared.items[row * matrix.width + column]; }
    // The last run that has rows. Its thread speaks for the column.
    __device__ bool is_last_run() const { return has_column() && run == (rows - 1) / run_rows; }

    // ---- memory

    // The index in the matrix of the panel's item in a row of the tile.
    __device__ u64 index(u32 row) const {
        u64 at = matrix.flags & COLUMNS_REVERSE ? matrix.rows - 1 - first - row : first + row;
        return at * matrix.columns + u64(panel) * matrix.width;
    }
    // The difference of two rows' indices, modulo 2^64.
    __device__ u64 step(u32 rows) const {
        u64 step = u64(rows) * matrix.columns;
        return matrix.flags & COLUMNS_REVERSE ? 0 - step : step;
    }

    // By the block: copies the tile to shared memory, by the widest units that the panel's rows are made of, in the
    // tile and in memory. Adjacent threads copy adjacent units.
    __device__ void load(const Element *in) {
        u64 alignment = (u64)in | (matrix.columns | matrix.width | width) * sizeof(Element);
        if (alignment % sizeof(Vector) == 0) load_by<Vector>(in);
        else if (alignment % sizeof(u64) == 0) load_by<u64>(in);
        else if (alignment % sizeof(u32) == 0) load_by<u32>(in);
        else if constexpr (alignof(Element) < sizeof(u32)) load_by<Element>(in);
        wait_for_copies();
        __syncthreads();
    }
    template <class Unit> __device__ void load_by(const Element *in) {
        u32 units = width * u32(sizeof(Element)) / u32(sizeof(Unit)), // of a row
            pitch = matrix.width * u32(sizeof(Element)) / u32(sizeof(Unit)), abreast = min(units, THREADS),
            stride = THREADS / abreast, begin = threadIdx.x / abreast;
        if (begin >= stride) return;
        u64 next = step(stride);
        for (u32 k = threadIdx.x % abreast; k < units; k += abreast) {
            Unit *to = (Unit *)shared.items + begin * pitch + k;
            const Element *from = in + index(begin);
#pragma unroll 4
            for (u32 row = begin; row < rows; row += stride) {
                if constexpr (sizeof(Unit) == sizeof(Vector)) copy_to_shared(to, (const Vector *)from + k);
                else copy_item_to_shared(to, (const Unit *)from + k);
                to += stride * pitch;
                from += next;
            }
        }
    }

    // ---- the tile

    __device__ void go(Maybe<Carry> init, void *memory, Element *out) {
        // ---- fold
        u32 own = own_rows();
        Carry upto = Carry();
        if (own > 0) upto = Operator::alone(Operator::lift(item(run * run_rows)));
        later_rows(own, [&](u32 k) { upto = Operator::combine(upto, Operator::lift(item(run * run_rows + k))); });
        shared.run[threadIdx.x] = upto;
        __syncthreads();
        Maybe<Carry> before; // the fold of the column's earlier runs
        before.some = own > 0 && run > 0;
        if (before.some) before.value = joined(shared.run, run);

        // ---- join
        bool some = init.some || tile > 0;
        Groups words(memory, matrix);
        if (matrix.tiles > 1) {
            Carry aggregate = after<Operator>(before, upto); // in the last run
            if (!join(words, aggregate, init)) return;
            __syncthreads();
        }
        bool is_counted = !REDUCE && matrix.tiles > 1 && matrix.group > 1;
        u32 earlier = is_counted ? retire(words) : 0;

        // ---- finish
        if (own == 0 && REDUCE) return;
        Carry prefix = matrix.tiles > 1 ? shared.prefix[column] : init.value;
        if (before.some) prefix = some ? Operator::combine(prefix, before.value) : before.value;
        some |= before.some;
        if (REDUCE) {
            bool is_last = is_last_run() && tile == matrix.tiles - 1;
            if (is_last) out[own_column()] = Operator::lower(some ? Operator::combine(prefix, upto) : upto);
            return;
        }
        Element *to = out + index(run * run_rows) + column;
        u64 next = step(1);
        with_known(matrix.flags & COLUMNS_EXCLUSIVE, [&](auto exclusive) {
            auto put = [&](u32 k) {
                Carry lifted = Operator::lift(item(run * run_rows + k)),
                      inclusive = some ? Operator::combine(prefix, lifted) : Operator::alone(lifted);
                *to = Operator::lower(exclusive ? prefix : inclusive);
                to += next;
                prefix = inclusive;
                some = true;
            };
            if (own > 0) put(0);
            later_rows(own, put);
        });
        if (is_counted) clear(words, earlier);
    }

    // Calls `use` for the rows of the thread's run but the first.
    template <class Use> static __device__ void later_rows(u32 own, const Use &use) {
#pragma unroll UNROLLED
        for (u32 k = 1; k < own; k++) use(k);
    }

    // The fold, in order, of what the first `count` threads of the column have left in `values`.
    __device__ Carry joined(const Carry *values, u32 count) const {
        Carry upto = values[column];
        for (u32 k = 1; k < count; k++) upto = Operator::combine(upto, values[k * matrix.width + column]);
        return upto;
    }

    // ---- look-back

    // The status words of tiles and groups, zero before and after a launch.
    struct Groups {
        u32 *retired;                         // by group and panel
        Status<Carry> *prefixes, *aggregates; // by group, by tile: a row for all columns

        __device__ Groups(void *memory, const Matrix &matrix) {
            retired = (u32 *)memory + 4;
            prefixes = (Status<Carry> *)(retired + (u64(matrix.groups) * matrix.panels + 3) / 4 * 4);
            aggregates = prefixes + u64(matrix.groups) * matrix.columns;
        }
    };

    // By the block: publishes the aggregate of each column and leaves its exclusive prefix in
    // `shared.prefix`. The last run of each column has its aggregate. Returns false if the block
    // needs no prefix: in a reduction only a tile that closes its group reads words.
    __device__ bool join(Groups groups, Carry aggregate, Maybe<Carry> init) {
        u32 group = tile / matrix.group, begin = group * matrix.group, rank = tile - begin;
        bool closes = rank == matrix.group - 1 || tile == matrix.tiles - 1, speaks = is_last_run();
        // Whether each word has one reader, which clears it.
        bool one_reader = REDUCE || matrix.group == 1;
        Status<Carry> *aggregates = groups.aggregates + u64(begin) * matrix.columns + own_column();
        Status<Carry> *prefixes = groups.prefixes + u64(group) * matrix.columns + own_column();
        if (speaks && !closes) aggregates[u64(rank) * matrix.columns].publish(aggregate);
        if (REDUCE && !closes) return false;

        // The column's threads poll the group's earlier tiles, an equal part each.
        u32 each = (rank + runs - 1) / runs, from = run * each;
        if (rank > 0) {
            u32 mine = !has_column() || from >= rank ? 0 : min(each, rank - from);
            Carry polled = Carry();
            for (u32 i = 0; i < mine; i += AT_ONCE) {
                Carry one[AT_ONCE];
                for (bool all = false; !all;) {
                    all = true;
#pragma unroll
                    for (u32 k = 0; k < AT_ONCE; k++)
                        if (i + k < mine) all &= aggregates[u64(from + i + k) * matrix.columns].poll(one[k]);
                }
#pragma unroll
                for (u32 k = 0; k < AT_ONCE; k++) {
                    if (i + k < mine) {
                        polled = i + k > 0 ? Operator::combine(polled, one[k]) : one[k];
                        if (one_reader) aggregates[u64(from + i + k) * matrix.columns].clear();
                    }
                }
            }
            shared.polled[threadIdx.x] = polled;
            __syncthreads();
        }
        if (speaks) {
            Carry earlier = Carry(), upto = aggregate; // the fold of the group's tiles before, and with this tile
            if (rank > 0) {
                earlier = joined(shared.polled, (rank + each - 1) / each);
                upto = Operator::combine(earlier, aggregate);
            }
            Maybe<Carry> prefix = init;
            if (group > 0) {
                while (!prefixes->poll(prefix.value)) {}
                if (one_reader) prefixes->clear();
                prefix.some = true;
            }
            if (closes && tile + 1 < matrix.tiles) prefixes[matrix.columns].publish(after<Operator>(prefix, upto));
            if (rank > 0) prefix.value = after<Operator>(prefix, earlier);
            shared.prefix[column] = prefix.value;
        }
        return true;
    }

    // By the block, which has read what it needs: counts it. Thread 0 gets the number of blocks of the group's panel that
    // were counted before. It waits for the number when it uses it.
    __device__ u32 retire(Groups groups) {
        u32 *counter = groups.retired + u64(tile / matrix.group) * matrix.panels + panel;
        return threadIdx.x == 0 ? add_acquire_release(counter, 1) : 0;
    }
    // By the block, before which thread 0 has counted `earlier` ones: the last one of the group's panel clears its words.
    __device__ void clear(Groups groups, u32 earlier) {
        if (threadIdx.x >= WARP) return;
        u32 group = tile / matrix.group, begin = group * matrix.group, size = min(matrix.group, matrix.tiles - begin);
        if (__shfl_sync(ALL_LANES, earlier, 0) != size - 1) return;
        __syncwarp(); // a shuffle orders no memory
        for (u32 c = threadIdx.x; c < width; c += WARP) {
            u64 own = u64(panel) * matrix.width + c;
            for (u32 i = 0; i < size; i++) groups.aggregates[u64(begin + i) * matrix.columns + own].clear();
            groups.prefixes[u64(group) * matrix.columns + own].clear();
        }
        if (threadIdx.x == 0) groups.retired[u64(group) * matrix.panels + panel] = 0;
    }
};
