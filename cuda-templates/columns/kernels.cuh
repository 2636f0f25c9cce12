// The kernels along the first axis of a matrix. The unit defines `Operator`, and THREADS and RUN,
// the shape of a block.
#pragma once
#include "columns/columns.cuh"

#define COLUMNS_KERNEL(NAME, REDUCE)                                                                                             \
    DEFINE_KERNEL(NAME, extern "C" __global__ void __launch_bounds__(THREADS)                                                    \
        NAME(const Element *in, Element *out, const Matrix matrix, Carry init, void *memory) {                                   \
        typedef Columns<Operator, THREADS, RUN, REDUCE> Kernel;                                                                  \
        __shared__ Kernel::Shared shared;                                                                                        \
        Kernel::scan(shared, in, out, matrix, init, memory);                                                                     \
    })
COLUMNS_KERNEL(scan_columns, false)
COLUMNS_KERNEL(reduce_columns, true)
