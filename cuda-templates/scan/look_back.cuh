// The kernel of the scan by look-back (`Strategy::LookBack`), compiled at run time.
#pragma once
#include "scan/scan.cuh"

typedef LookBack<Operator, LOOK_BACK_GROUP> LookBackJoin;

extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    scan_look_back(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_tiles<Operator, LargeShape>(in, out, n, init, flags, LookBackJoin(memory, tiles));
}
