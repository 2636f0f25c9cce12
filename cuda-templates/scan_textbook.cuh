// The kernel of scan by a textbook's block and a single pass, compiled at run time. The unit defines the `Join`.
#pragma once
#include "textbook.cuh"

extern "C" __global__ void __launch_bounds__(WIDTH)
    scan_textbook(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_textbook_tiles<Operator, RUN>(in, out, n, init, flags, Join(memory, tiles));
}
