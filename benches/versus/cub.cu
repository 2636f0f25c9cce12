// CUB's scans, as C functions for versus. Compiled by build.rs with the feature `cub`.
//
// Each operator and element is given to CUB in the form that serves CUB best:
// - sums through DeviceScan::ExclusiveSum and InclusiveSum, maximum and minimum as cuda::maximum and cuda::minimum, for
//   which CUB is tuned;
// - everything else as a functor that gives back the element type: cuda::std::bit_and and its like would carry bytes as int;
// - 32-bit lengths;
// - where only the bits of an element matter, the unsigned integer of its size, as in parascan's catalog.
//
// f16 and bf16 sums and products are carried in float through the type of the initial value, as parascan carries them:
// else the two could not be compared. CUB's own operator on __half, which rounds after each addition, is `sum_in_f16`.

#include <cstdint>
#include <cstring>
#include <cub/device/device_scan.cuh>
#include <cub/version.cuh>
#include <cuda/functional>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// As DeviceScan: with no temporary memory it says how many bytes are needed. `input` and `output` are device memory.
typedef cudaError_t (*Scan)(void* temporary, size_t* bytes, const void* input, void* output, unsigned n, cudaStream_t stream);

using namespace cub;

#define SCAN(NAME, CALL)                                                                                       \
  template <typename T>                                                                                        \
  cudaError_t NAME(void* temporary, size_t* bytes, const void* in, void* out, unsigned n, cudaStream_t stream) \
  {                                                                                                            \
    const T* input = static_cast<const T*>(in);                                                                \
    T* output = static_cast<T*>(out);                                                                          \
    return CALL;                                                                                               \
  }

#define FUNCTOR(NAME, EXPRESSION)                                                \
  template <typename T>                                                          \
  struct NAME                                                                    \
  {                                                                              \
    __host__ __device__ T operator()(T a, T b) const { return T(EXPRESSION); }   \
  };

FUNCTOR(Plus, a + b)
FUNCTOR(Times, 1u * a * b) // 1u: two uint16_t would multiply as a signed int
FUNCTOR(And, a & b)
FUNCTOR(Or, a | b)
FUNCTOR(Xor, a ^ b)
FUNCTOR(Last, b)

SCAN(exclusive_sum, DeviceScan::ExclusiveSum(temporary, *bytes, input, output, n, stream))
SCAN(inclusive_sum, DeviceScan::InclusiveSum(temporary, *bytes, input, output, n, stream))
SCAN(exclusive_sum_in_float, DeviceScan::ExclusiveScan(temporary, *bytes, input, output, Plus<float>{}, 0.0f, n, stream))
SCAN(inclusive_sum_in_float, DeviceScan::InclusiveScanInit(temporary, *bytes, input, output, Plus<float>{}, 0.0f, n, stream))
SCAN(product, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Times<T>{}, n, stream))
SCAN(product_in_float, DeviceScan::InclusiveScanInit(temporary, *bytes, input, output, Times<float>{}, 1.0f, n, stream))
SCAN(maximum, DeviceScan::InclusiveScan(temporary, *bytes, input, output, cuda::maximum<>{}, n, stream))
SCAN(minimum, DeviceScan::InclusiveScan(temporary, *bytes, input, output, cuda::minimum<>{}, n, stream))
SCAN(bit_and, DeviceScan::InclusiveScan(temporary, *bytes, input, output, And<T>{}, n, stream))
SCAN(bit_or, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Or<T>{}, n, stream))
SCAN(bit_xor, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Xor<T>{}, n, stream))
SCAN(last, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Last<T>{}, n, stream))

struct Row
{
  const char* what;
  const char* type;
  Scan scan;
};

/// One row for each integer: only the bits matter.
#define INTEGERS(WHAT, SCAN)                                                                                           \
  {WHAT, "i8", SCAN<uint8_t>}, {WHAT, "u8", SCAN<uint8_t>}, {WHAT, "i16", SCAN<uint16_t>}, {WHAT, "u16", SCAN<uint16_t>}, \
  {WHAT, "i32", SCAN<uint32_t>}, {WHAT, "u32", SCAN<uint32_t>}, {WHAT, "i64", SCAN<uint64_t>}, {WHAT, "u64", SCAN<uint64_t>}
/// The same for the floats.
#define FLOAT_BITS(WHAT, SCAN)                                             \
  {WHAT, "f16", SCAN<uint16_t>}, {WHAT, "bf16", SCAN<uint16_t>},           \
  {WHAT, "f32", SCAN<uint32_t>}, {WHAT, "f64", SCAN<uint64_t>}
/// Floats that are computed with; the small ones in another form.
#define FLOATS(WHAT, SCAN, SMALL)                                          \
  {WHAT, "f16", SMALL<__half>}, {WHAT, "bf16", SMALL<__nv_bfloat16>},      \
  {WHAT, "f32", SCAN<float>}, {WHAT, "f64", SCAN<double>}
/// One row for each integer: the order matters, and with it the sign.
#define ORDERED(WHAT, SCAN)                                                                                         \
  {WHAT, "i8", SCAN<int8_t>}, {WHAT, "u8", SCAN<uint8_t>}, {WHAT, "i16", SCAN<int16_t>}, {WHAT, "u16", SCAN<uint16_t>}, \
  {WHAT, "i32", SCAN<int32_t>}, {WHAT, "u32", SCAN<uint32_t>}, {WHAT, "i64", SCAN<int64_t>}, {WHAT, "u64", SCAN<uint64_t>}

static const Row ROWS[] = {
  INTEGERS("exclusive_sum", exclusive_sum),
  FLOATS("exclusive_sum", exclusive_sum, exclusive_sum_in_float),
  INTEGERS("inclusive_sum", inclusive_sum),
  FLOATS("inclusive_sum", inclusive_sum, inclusive_sum_in_float),
  {"exclusive_sum_in_f16", "f16", exclusive_sum<__half>},
  {"inclusive_sum_in_f16", "f16", inclusive_sum<__half>},
  INTEGERS("inclusive_product", product),
  FLOATS("inclusive_product", product, product_in_float),
  ORDERED("inclusive_max", maximum),
  FLOATS("inclusive_max", maximum, maximum),
  ORDERED("inclusive_min", minimum),
  FLOATS("inclusive_min", minimum, minimum),
  INTEGERS("inclusive_bit_and", bit_and),
  INTEGERS("inclusive_bit_or", bit_or),
  INTEGERS("inclusive_bit_xor", bit_xor),
  INTEGERS("inclusive_last", last),
  FLOAT_BITS("inclusive_last", last),
};

/// The scan of that name for elements of that type; null if there is none.
extern "C" Scan versus_cub_scan(const char* what, const char* type)
{
  for (const Row& row : ROWS)
    if (!strcmp(row.what, what) && !strcmp(row.type, type)) return row.scan;
  return nullptr;
}

/// As in cub/version.cuh: MMMmmmpp.
extern "C" int versus_cub_version()
{
  return CUB_VERSION;
}
