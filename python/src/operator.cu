// The kernel of `operator.rs`, which defines Element, and Operator with the user's text, in front of this.
extern "C" __global__ void __launch_bounds__(WARPS * WARP)
    scan(Element *in, Element *out, u64 n, Element init, u32 flags, void *memory, u32 tiles) {
    scan_tiles<Operator, Shape<WARPS, VECTORS>>(in, out, n, init, flags, LookBack<Operator, GROUP>(memory, tiles));
}

// Results of pairs of items, for the comparison with the twin.
extern "C" __global__ void combine(const Element *a, const Element *b, Element *out, u64 n) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x)
        out[i] = Operator::combine(a[i], b[i]);
}
