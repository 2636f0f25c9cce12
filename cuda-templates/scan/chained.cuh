// The kernel of the chained scan (`Strategy::Chained`), compiled at run time.
#pragma once
#include "scan/scan.cuh"

extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    scan_chained(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_tiles<Operator, LargeShape>(in, out, n, init, flags, Chained<Operator>(memory, tiles));
}
