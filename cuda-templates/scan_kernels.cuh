// The kernels of scan that are compiled at build time, one for each range of lengths: the translation unit defines the
// `Operator`, and `RANGES` with the shape and the spread of each. All are one launch whatever n: one block serves the prefixes, the
// others scan a tile each; a single tile needs neither server nor memory.
#pragma once
#include "scan.cuh"

#define SCAN_KERNEL(RANGE, WARPS, VECTORS, SPREAD)                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPS * WARP)                                                                   \
        scan_##RANGE(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {                         \
        typedef PrefixServer<Operator, WARPS, SPREAD> Join;                                                                      \
        scan_tiles<Operator, Shape<WARPS, VECTORS>>(in, out, n, init, flags, Join(memory, tiles));                               \
    }
RANGES(SCAN_KERNEL)
