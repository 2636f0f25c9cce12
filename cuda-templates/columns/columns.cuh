// Scan and reduce along the first axis of a row-major matrix: each column on its own.
//
// A tile is some rows of a panel of adjacent columns. It lies in shared memory, so that rows are
// read and written whole. In a tile each thread has a run of adjacent rows of one column.
//
//   load     the tile to shared memory
//   fold     each thread folds its run; a column's runs are joined in order       one barrier
//   join     the tile's exclusive prefixes, by look-back in fixed groups of tiles
//   finish   each thread goes over its run again, from its own prefix on
//   store    the tile to memory
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
    static constexpr u32 UNROLLED = 8; // rows of a run. With all of them a matrix of few rows takes a tenth longer

    struct Shared {
        alignas(sizeof(Vector)) Element items[THREADS * RUN];
        Carry run[THREADS];    // the aggregate of each run
        Carry polled[THREADS]; // by thread: the fold of the earlier tiles that it has polled
        Carry prefix[PANEL];   // by column: the exclusive prefix of the tile
        u32 ticket;
        bool is_last; // whether the block is the last of its group to retire
    };

    Shared &shared;
    const Matrix &matrix;
    u32 runs;        // of a column in a tile
    u32 run, column; // of the thread
    u32 tile, panel; // of the block: by rows, and by columns
    u64 first;       // the tile's first row, in scan order
    u32 rows, width; // of the tile

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
    }

    // The thread's column of the matrix.
    __device__ u64 own_column() const { return u64(panel) * matrix.width + column; }
    __device__ bool has_column() const { return run < runs && column < width; }
    // Rows of the thread's run.
    __device__ u32 own_rows() const { return !has_column() || run * RUN >= rows ? 0 : min(RUN, rows - run * RUN); }
    __device__ Element &item(u32 row) { return shared.items[row * matrix.width + column]; }
    // The last run that has rows. Its thread speaks for the column.
    __device__ bool is_last_run() const { return has_column() && run == (rows - 1) / RUN; }

    // ---- load and store

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
    // Whether the panel's rows are whole vectors, in the tile and in memory.
    __device__ bool has_vectors(const Element *memory) const {
        u64 bytes = (matrix.columns | matrix.width | width) * sizeof(Element);
        return ((u64)memory | bytes) % sizeof(Vector) == 0;
    }

    // Calls `items(shared, index)` or `vectors(shared, index)` for what the thread moves: its place
    // in the tile, and the index in the matrix. Adjacent threads move adjacent memory.
    template <class Items, class Vectors>
    __device__ void move(bool by_vectors, const Items &items, const Vectors &vectors) {
        if (by_vectors) {
            u32 of_row = width * u32(sizeof(Element)) / u32(sizeof(Vector)), stride = THREADS / of_row;
            u32 row = threadIdx.x / of_row, k = threadIdx.x % of_row;
            if (row >= stride) return;
            Element *at = shared.items + row * matrix.width;
            u64 from = index(row), next = step(stride);
#pragma unroll 4
            for (; row < rows; row += stride) {
                vectors((Vector *)at + k, from, k);
                at += stride * matrix.width;
                from += next;
            }
        } else if (has_column()) {
            u64 from = index(run) + column, next = step(runs);
#pragma unroll 4
            for (u32 row = run; row < rows; row += runs) {
                items(item(row), from);
                from += next;
            }
        }
    }

    __device__ void load(const Element *in) {
        move(
            has_vectors(in), [=](Element &item, u64 index) { copy_item_to_shared(&item, in + index); },
            [=](Vector *to, u64 index, u32 k) { copy_to_shared(to, (const Vector *)(in + index) + k); });
        wait_for_copies();
        __syncthreads();
    }
    __device__ void store(Element *out) {
        move(
            has_vectors(out), [=](Element &item, u64 index) { out[index] = item; },
            [=](Vector *from, u64 index, u32 k) { ((Vector *)(out + index))[k] = *from; });
    }

    // ---- the tile

    __device__ void go(Maybe<Carry> init, void *memory, Element *out) {
        // ---- fold
        u32 own = own_rows();
        Carry upto = Carry();
        if (own > 0) upto = Operator::alone(Operator::lift(item(run * RUN)));
#pragma unroll UNROLLED
        for (u32 k = 1; k < RUN; k++)
            if (k < own) upto = Operator::combine(upto, Operator::lift(item(run * RUN + k)));
        shared.run[threadIdx.x] = upto;
        __syncthreads();
        Maybe<Carry> before; // the fold of the column's earlier runs
        before.some = own > 0 && run > 0;
        if (before.some) before.value = joined(shared.run, run);

        // ---- join
        bool some = init.some || tile > 0;
        if (matrix.tiles > 1) {
            Carry aggregate = after<Operator>(before, upto); // in the last run
            if (!join(Groups(memory, matrix), aggregate, init)) return;
        } else if (is_last_run()) {
            shared.prefix[column] = init.value;
        }
        __syncthreads();

        // ---- finish
        if (own == 0 && REDUCE) return;
        Carry prefix = shared.prefix[column];
        if (before.some) prefix = some ? Operator::combine(prefix, before.value) : before.value;
        some |= before.some;
        if (REDUCE) {
            bool is_last = is_last_run() && tile == matrix.tiles - 1;
            if (is_last) out[own_column()] = Operator::lower(some ? Operator::combine(prefix, upto) : upto);
            return;
        }
        bool exclusive = matrix.flags & COLUMNS_EXCLUSIVE;
#pragma unroll UNROLLED
        for (u32 k = 0; k < RUN; k++) {
            if (k >= own) break;
            Element &x = item(run * RUN + k);
            Carry lifted = Operator::lift(x),
                  inclusive = some ? Operator::combine(prefix, lifted) : Operator::alone(lifted);
            x = Operator::lower(exclusive ? prefix : inclusive);
            prefix = inclusive;
            some = true;
        }
        __syncthreads();
        store(out);
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
        if (!one_reader) retire(groups, group);
        return true;
    }

    // By the whole block, which has read what it needs: the last block of a group's panel to come
    // here clears its words.
    __device__ void retire(Groups groups, u32 group) {
        u32 begin = group * matrix.group, size = min(matrix.group, matrix.tiles - begin);
        u32 *counter = groups.retired + u64(group) * matrix.panels + panel;
        __syncthreads();
        if (threadIdx.x == 0) shared.is_last = add_acquire_release(counter, 1) == size - 1;
        __syncthreads();
        if (!shared.is_last) return;
        if (has_column()) {
            for (u32 i = run; i < size; i += runs)
                groups.aggregates[u64(begin + i) * matrix.columns + own_column()].clear();
            if (run == 0) groups.prefixes[u64(group) * matrix.columns + own_column()].clear();
        }
        if (threadIdx.x == 0) *counter = 0;
    }
};
