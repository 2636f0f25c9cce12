// Scan and reduce along the first axis of a row-major matrix: each column on its own.
//
// A tile is some rows of a panel of adjacent columns. In a tile each thread has a run of adjacent
// rows of one column; the tile lies in shared memory, so that rows are read and written whole. A
// column's runs are joined by a scan over them, and its tiles by look-back in fixed groups, as
// `LookBack` (core/handover.cuh) joins the tiles of a sequence. What is combined, and in which
// groups, does not depend on timing.
#pragma once
#include "core/handover.cuh"
#include "scan/scan.cuh" // the forms that an operator may name as its `Pairs`
#include "columns/contract.cuh" // `Matrix` and flags, which the host shares: src/cuda/columns/contract.rs

// `THREADS` of a block, `RUN` rows of a thread. An odd RUN puts the runs of a warp into different
// banks. With REDUCE there is one result a column.
template <class Operator, u32 THREADS, u32 RUN, bool REDUCE> struct Columns {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;

    static constexpr u32 AT_ONCE = 4; // aggregates whose loads are in flight together

    struct Shared {
        Element items[THREADS * RUN];
        Carry carry[THREADS];
        Carry prefix[WARP]; // by column: the exclusive prefix of the tile
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

    // The kernel body. `init` has a meaning only with the flag COLUMNS_INIT.
    static __device__ void scan(Shared &shared, const Element *in, Element *out, const Matrix &matrix, Carry init, void *memory) {
        Columns columns(shared, matrix, memory);
        columns.load(in);
        columns.go({init, bool(matrix.flags & COLUMNS_INIT)}, memory, out);
    }

  private:
    __device__ Columns(Shared &shared, const Matrix &matrix, void *memory) : shared(shared), matrix(matrix) {
        runs = THREADS / matrix.width;
        run = threadIdx.x / matrix.width;
        column = threadIdx.x % matrix.width;
        // Draws the tile. A ticket is drawn by a running block, and tiles above have lower ones, so
        // a tile waits only for tiles whose blocks run or have ended.
        u32 ticket = blockIdx.x;
        if (matrix.tiles > 1) {
            if (threadIdx.x == 0) {
                shared.ticket = add_relaxed((u32 *)memory, 1);
                if (shared.ticket == matrix.tiles * matrix.panels - 1) *(u32 *)memory = 0;
            }
            __syncthreads();
            ticket = shared.ticket;
        }
        tile = ticket / matrix.panels;
        panel = ticket % matrix.panels;
        first = u64(tile) * (runs * RUN);
        rows = u32(min(matrix.rows - first, u64(runs * RUN)));
        width = u32(min(matrix.columns - u64(panel) * matrix.width, u64(matrix.width)));
    }

    // The thread's column of the matrix.
    __device__ u64 own_column() const { return u64(panel) * matrix.width + column; }
    // Calls `use(item, index)` for the rows that the thread moves: the item in the tile, and its
    // index in the matrix. Here the threads of a column take its rows in turn, so that adjacent
    // threads move adjacent items.
    template <class Use> __device__ void each_moved(const Use &use) {
        if (!has_column()) return;
        bool reverse = matrix.flags & COLUMNS_REVERSE;
        u64 row = first + run, index = (reverse ? matrix.rows - 1 - row : row) * matrix.columns + own_column();
        u64 step = u64(runs) * matrix.columns;
#pragma unroll
        for (u32 k = 0; k < RUN; k++) {
            if (run + k * runs < rows) use(item(run + k * runs), index);
            index += reverse ? 0 - step : step;
        }
    }
    __device__ bool has_column() const { return run < runs && column < width; }
    // Rows of the thread's run.
    __device__ u32 own_rows() const { return !has_column() || run * RUN >= rows ? 0 : min(RUN, rows - run * RUN); }
    __device__ Element &item(u32 row) { return shared.items[row * matrix.width + column]; }

    // The tile to shared memory.
    __device__ void load(const Element *in) {
        each_moved([=](Element &item, u64 index) { copy_item_to_shared(&item, in + index); });
        wait_for_copies();
        __syncthreads();
    }

    __device__ void go(Maybe<Carry> init, void *memory, Element *out) {
        // ---- fold
        u32 own = own_rows();
        Carry upto = Carry();
        if (own > 0) upto = Operator::alone(Operator::lift(item(run * RUN)));
#pragma unroll
        for (u32 k = 1; k < RUN; k++)
            if (k < own) upto = Operator::combine(upto, Operator::lift(item(run * RUN + k)));
        upto = over_runs(upto, own > 0);
        shared.carry[threadIdx.x] = upto;
        __syncthreads();
        Carry before = run > 0 ? shared.carry[threadIdx.x - matrix.width] : Carry(); // of the column's runs before
        __syncthreads();

        // ---- join
        u32 last = (rows - 1) / RUN; // the last run that has rows
        bool some = init.some || tile > 0;
        if (matrix.tiles > 1) {
            Groups groups(memory, matrix);
            if (has_column() && run == last) shared.carry[column] = upto;
            __syncthreads();
            join(groups, shared.carry[column], init);
            groups.retire(*this);
        } else if (run == 0) {
            shared.prefix[column] = init.value;
        }
        __syncthreads();

        // ---- finish
        Carry prefix = shared.prefix[column];
        if (REDUCE) {
            if (has_column() && run == last && tile == matrix.tiles - 1) out[own_column()] = Operator::lower(some ? Operator::combine(prefix, upto) : upto);
            return;
        }
        if (run > 0 && own > 0) prefix = some ? Operator::combine(prefix, before) : before;
        some |= run > 0;
        bool exclusive = matrix.flags & COLUMNS_EXCLUSIVE;
#pragma unroll
        for (u32 k = 0; k < RUN; k++) {
            if (k >= own) break;
            Element &x = item(run * RUN + k);
            Carry lifted = Operator::lift(x), inclusive = some ? Operator::combine(prefix, lifted) : Operator::alone(lifted);
            x = Operator::lower(exclusive ? prefix : inclusive);
            prefix = inclusive;
            some = true;
        }
        __syncthreads();
        each_moved([=](Element &item, u64 index) { out[index] = item; });
    }

    // By the block: the inclusive scan over the runs of each column (Kogge and Stone 1973). Runs
    // without a value come last: what they hold is never combined.
    __device__ Carry over_runs(Carry x, bool has_value) {
        for (u32 distance = 1; distance < runs; distance *= 2) {
            shared.carry[threadIdx.x] = x;
            __syncthreads();
            if (has_value && run >= distance) x = Operator::combine(shared.carry[threadIdx.x - distance * matrix.width], x);
            __syncthreads();
        }
        return x;
    }

    // The status words of tiles and groups, zero before and after a launch.
    struct Groups {
        u32 *retired;                         // by group and panel
        Status<Carry> *prefixes, *aggregates; // by group, by tile: a row for all columns

        __device__ Groups(void *memory, const Matrix &matrix) {
            retired = (u32 *)memory + 4;
            prefixes = (Status<Carry> *)(retired + (u64(matrix.groups) * matrix.panels + 3) / 4 * 4);
            aggregates = prefixes + u64(matrix.groups) * matrix.columns;
        }

        // By the whole block, which has read what it needs: the last block of a group's panel to
        // come here clears its words.
        __device__ void retire(Columns &own) {
            const Matrix &matrix = own.matrix;
            u32 group = own.tile / matrix.group, begin = group * matrix.group, size = min(matrix.group, matrix.tiles - begin);
            u32 *counter = retired + u64(group) * matrix.panels + own.panel;
            __syncthreads();
            if (threadIdx.x == 0) own.shared.is_last = add_acquire_release(counter, 1) == size - 1;
            __syncthreads();
            if (!own.shared.is_last) return;
            if (own.has_column()) {
                for (u32 i = own.run; i < size; i += own.runs) aggregates[u64(begin + i) * matrix.columns + own.own_column()].clear();
                if (own.run == 0) prefixes[u64(group) * matrix.columns + own.own_column()].clear();
            }
            if (threadIdx.x == 0) *counter = 0;
        }
    };

    // By the block: publishes the aggregate of each column, and leaves its exclusive prefix in
    // `shared.prefix`. The column's threads poll the group's earlier tiles, an equal part each.
    __device__ void join(Groups &groups, Carry aggregate, Maybe<Carry> init) {
        u32 group = tile / matrix.group, begin = group * matrix.group, rank = tile - begin, each = matrix.group / runs;
        bool closes = rank == matrix.group - 1;
        Status<Carry> *aggregates = groups.aggregates + own_column(), *prefixes = groups.prefixes + own_column();
        if (has_column() && run == 0 && !closes) aggregates[u64(tile) * matrix.columns].publish(aggregate);
        __syncthreads(); // every thread has read the aggregate, whose place `over_runs` takes

        u32 mine = !has_column() || run * each >= rank ? 0 : min(each, rank - run * each);
        Carry part = Carry();
        for (u32 i = 0; i < mine; i += AT_ONCE) {
            Carry one[AT_ONCE];
            for (bool all = false; !all;) {
                all = true;
#pragma unroll
                for (u32 k = 0; k < AT_ONCE; k++)
                    if (i + k < mine) all &= aggregates[u64(begin + run * each + i + k) * matrix.columns].poll(one[k]);
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++)
                if (i + k < mine) part = i + k > 0 ? Operator::combine(part, one[k]) : one[k];
        }
        __syncwarp();
        part = over_runs(part, mine > 0);
        if (has_column() && rank > 0 && run == (rank - 1) / each) shared.carry[column] = part; // of all tiles before
        __syncthreads();
        if (has_column() && run == 0) {
            Maybe<Carry> prefix = init;
            if (group > 0) {
                while (!prefixes[u64(group) * matrix.columns].poll(prefix.value)) {}
                prefix.some = true;
            }
            if (rank > 0) prefix = {prefix.some ? Operator::combine(prefix.value, shared.carry[column]) : shared.carry[column], true};
            if (closes && tile + 1 < matrix.tiles)
                prefixes[u64(group + 1) * matrix.columns].publish(prefix.some ? Operator::combine(prefix.value, aggregate) : aggregate);
            shared.prefix[column] = prefix.value;
        }
    }
};
