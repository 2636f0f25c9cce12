// The kernel of a single-pass scan by a textbook's block, compiled at run time. The unit defines
// the `Join`.
#pragma once
#include "textbook/textbook.cuh"

// With carries of a word: as many blocks as a multiprocessor of 2048 threads can run. The compiler
// then keeps to 32 registers, which are enough. On GPUs with fewer threads it ignores the bound.
constexpr u32 BLOCKS = sizeof(Carry) <= 4 ? 2048 / WIDTH : 1;

extern "C" __global__ void __launch_bounds__(WIDTH, BLOCKS)
    scan_textbook(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_textbook_tiles<Operator, RUN>(in, out, n, init, flags, Join(memory, tiles));
}
