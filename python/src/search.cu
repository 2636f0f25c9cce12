// The kernel of `search.rs`, which includes the types and defines Element and Rank in front of this text.
__device__ inline float number(f16 x) { return widen(x); }
__device__ inline float number(bf16 x) { return widen(x); }
template <class T> __device__ inline T number(T x) { return x; }

// a < b with NaN after all numbers.
template <class T> __device__ inline bool precedes(T a, T b) { return a < b || (a == a && b != b); }

// A thread a value: how many sorted items are less, or not greater with `right`.
extern "C" __global__ void search(const Element *sorted, u64 n, const Element *values, u64 count, Rank *ranks, u32 right) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
        auto value = number(values[i]);
        u64 low = 0, high = n;
        while (low < high) {
            u64 middle = low + (high - low) / 2;
            auto x = number(sorted[middle]);
            if (right ? !precedes(value, x) : precedes(x, value)) low = middle + 1;
            else high = middle;
        }
        ranks[i] = Rank(low);
    }
}
