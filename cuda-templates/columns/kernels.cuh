// The kernels along the first axis of a matrix. The unit defines `Operator`, and THREADS, RUN and
// PANEL, the shape of a tile.
#pragma once
#include "columns/columns.cuh"
#include "core/length.cuh"

// Blocks that the registers of a multiprocessor must have room for: as many as its shared memory
// holds, if that leaves a thread 64 registers. Otherwise the compiler takes up to 90.
template <class Kernel> constexpr u32 resident() {
#if __CUDA_ARCH__ >= 900
    constexpr u32 FITTING = (228 << 10) / (sizeof(typename Kernel::Shared) + (1 << 10));
    if (sizeof(Carry) <= 8 && FITTING * THREADS * 64 <= 65536) return FITTING;
#endif
    return 0; // the compiler's own choice
}

// With LENGTH_ON_DEVICE (core/length.cuh): takes the whole rows of the items. All of them need no division. The
// number arrives while the ticket is drawn.
#ifdef LENGTH_ON_DEVICE
#define READ_LENGTH(items) const u64 items = *length;
#define CUT_ROWS(KERNEL)                                                                                                         \
    if (items < matrix.rows * matrix.columns && !KERNEL::cut(matrix, items / matrix.columns, ticket, init, out)) return;
#else
#define READ_LENGTH(items)
#define CUT_ROWS(KERNEL)
#endif

#define COLUMNS_KERNEL(NAME, KERNEL)                                                                                             \
    DEFINE_KERNEL(NAME, extern "C" __global__ void __launch_bounds__(THREADS, resident<KERNEL>())                                \
        NAME(const Element *in, Element *out, Matrix matrix, Carry init, void *memory AND_LENGTH) {                              \
        __shared__ KERNEL::Shared shared;                                                                                        \
        READ_LENGTH(items)                                                                                                       \
        u32 ticket = KERNEL::draw(shared, matrix, memory);                                                                       \
        CUT_ROWS(KERNEL)                                                                                                         \
        KERNEL::scan(shared, ticket, in, out, matrix, init, memory);                                                             \
    })
typedef Columns<Operator, THREADS, RUN, PANEL, false> ColumnScan;
typedef Columns<Operator, THREADS, RUN, PANEL, true> ColumnReduce;
COLUMNS_KERNEL(scan_columns, ColumnScan)
COLUMNS_KERNEL(reduce_columns, ColumnReduce)
