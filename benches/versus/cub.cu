// CUB's scans, reductions, segmented scans and reductions, selections, batched copies and radix sorts, as C functions for versus.
// build.rs compiles them with the feature `cub`.
//
// Each operator and element is given to CUB in the form for which CUB is fastest:
// - sums by DeviceScan::ExclusiveSum and InclusiveSum or cuda::std::plus, maximum and minimum by cuda::maximum
//   and cuda::minimum, for which CUB is tuned;
// - structs aligned to their size, so that CUB loads whole vectors;
// - all other operators as a functor that returns the element type: cuda::std::bit_and and its like
//   would carry bytes as int;
// - 32-bit lengths;
// - where only the bits of an element matter, the unsigned integer of its size, as in parascan's
//   catalog.
//
// f16 and bf16 sums and products are carried in float through the type of the initial value, as in
// parascan, so that the results can be compared. `sum_in_f16` is CUB's own operator on __half,
// which rounds after each addition.

#include <cstdint>
#include <cstring>
#include <cub/version.cuh>
#include <cub/device/device_memcpy.cuh>
#include <cub/device/device_partition.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_segmented_sort.cuh>
#if CUB_VERSION >= 300300
#include <cub/device/device_segmented_scan.cuh>
#endif
#include <cub/device/device_select.cuh>
#include <cuda/functional>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// Like DeviceScan: without temporary memory it returns how many bytes it needs. `input` and
/// `output` are device memory.
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

FUNCTOR(Times, 1u * a * b) // 1u: two uint16_t would multiply as a signed int
FUNCTOR(And, a & b)
FUNCTOR(Or, a | b)
FUNCTOR(Xor, a ^ b)
FUNCTOR(Last, b)

SCAN(exclusive_sum, DeviceScan::ExclusiveSum(temporary, *bytes, input, output, n, stream))
SCAN(inclusive_sum, DeviceScan::InclusiveSum(temporary, *bytes, input, output, n, stream))
SCAN(exclusive_sum_in_float, DeviceScan::ExclusiveScan(temporary, *bytes, input, output, cuda::std::plus<float>{}, 0.0f, n, stream))
SCAN(inclusive_sum_in_float, DeviceScan::InclusiveScanInit(temporary, *bytes, input, output, cuda::std::plus<float>{}, 0.0f, n, stream))
SCAN(product, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Times<T>{}, n, stream))
SCAN(product_in_float, DeviceScan::InclusiveScanInit(temporary, *bytes, input, output, Times<float>{}, 1.0f, n, stream))
SCAN(maximum, DeviceScan::InclusiveScan(temporary, *bytes, input, output, cuda::maximum<>{}, n, stream))
SCAN(minimum, DeviceScan::InclusiveScan(temporary, *bytes, input, output, cuda::minimum<>{}, n, stream))
SCAN(bit_and, DeviceScan::InclusiveScan(temporary, *bytes, input, output, And<T>{}, n, stream))
SCAN(bit_or, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Or<T>{}, n, stream))
SCAN(bit_xor, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Xor<T>{}, n, stream))
SCAN(last, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Last<T>{}, n, stream))

/// Composition of maps, as in parascan's `operators`: first the earlier map, then the later one.
template <typename V>
struct alignas(2 * sizeof(V)) Affine
{
  V a, b;
};
struct alignas(16) Matrix
{
  uint32_t m00, m01, m10, m11;
};
struct States
{
  uint32_t packed;
};
struct Compose
{
  template <typename V>
  __host__ __device__ Affine<V> operator()(const Affine<V>& f, const Affine<V>& g) const
  {
    return {g.a * f.a, g.a * f.b + g.b};
  }
  __host__ __device__ Matrix operator()(const Matrix& f, const Matrix& g) const
  {
    return {g.m00 * f.m00 + g.m01 * f.m10,
            g.m00 * f.m01 + g.m01 * f.m11,
            g.m10 * f.m00 + g.m11 * f.m10,
            g.m10 * f.m01 + g.m11 * f.m11};
  }
  static __device__ uint32_t select(uint32_t low, uint32_t high, uint32_t digits)
  {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(digits));
    return bytes;
  }
  __device__ States operator()(const States& f, const States& g) const
  {
    uint32_t low = select(0x33221100, 0x77665544, g.packed), high = select(0x33221100, 0x77665544, g.packed >> 16);
    uint32_t first = select(low, high, f.packed), last = select(low, high, f.packed >> 16);
    first = (first & 0x0f0f0f0f) | (first >> 8 & 0xf0f0f0f0);
    last = (last & 0x0f0f0f0f) | (last >> 8 & 0xf0f0f0f0);
    return {__byte_perm(first, last, 0x6420)};
  }
};
SCAN(compose, DeviceScan::InclusiveScan(temporary, *bytes, input, output, Compose{}, n, stream))

// ---- reductions, whose output is one element

SCAN(reduce_sum, DeviceReduce::Sum(temporary, *bytes, input, output, n, stream))
SCAN(reduce_sum_in_float, DeviceReduce::Reduce(temporary, *bytes, input, output, n, cuda::std::plus<float>{}, 0.0f, stream))
SCAN(reduce_max, DeviceReduce::Max(temporary, *bytes, input, output, n, stream))

/// The index of the first maximum; the maximum itself goes behind it.
SCAN(position_max,
     DeviceReduce::ArgMax(
       temporary, *bytes, input, output + 16, reinterpret_cast<int64_t*>(output), static_cast<int64_t>(n), stream))

/// The greatest value and its least index, as in parascan's `operators`.
struct alignas(8) Indexed
{
  float value;
  uint32_t index;
};
struct ArgMaxOfIndexed
{
  __host__ __device__ Indexed operator()(const Indexed& a, const Indexed& b) const
  {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
  }
};
SCAN(reduce_arg_max,
     DeviceReduce::Reduce(
       temporary, *bytes, input, output, n, ArgMaxOfIndexed{}, Indexed{-cuda::std::numeric_limits<float>::infinity(), ~0u},
       stream))

/// 64-bit offsets from 32-bit sizes.
cudaError_t offsets(void* temporary, size_t* bytes, const void* in, void* out, unsigned n, cudaStream_t stream)
{
  const uint32_t* sizes = static_cast<const uint32_t*>(in);
  uint64_t* starts = static_cast<uint64_t*>(out);
  return DeviceScan::ExclusiveScan(temporary, *bytes, sizes, starts, cuda::std::plus<uint64_t>{}, uint64_t{0}, n, stream);
}

struct Row
{
  const char* what;
  const char* type;
  Scan scan;
};

/// A row for each integer whose bits alone matter.
#define INTEGERS(WHAT, SCAN)                                                                                           \
  {WHAT, "i8", SCAN<uint8_t>}, {WHAT, "u8", SCAN<uint8_t>}, {WHAT, "i16", SCAN<uint16_t>}, {WHAT, "u16", SCAN<uint16_t>}, \
  {WHAT, "i32", SCAN<uint32_t>}, {WHAT, "u32", SCAN<uint32_t>}, {WHAT, "i64", SCAN<uint64_t>}, {WHAT, "u64", SCAN<uint64_t>}
/// The same for floats.
#define FLOAT_BITS(WHAT, SCAN)                                             \
  {WHAT, "f16", SCAN<uint16_t>}, {WHAT, "bf16", SCAN<uint16_t>},           \
  {WHAT, "f32", SCAN<uint32_t>}, {WHAT, "f64", SCAN<uint64_t>}
/// Floats that are computed with; the 16-bit ones take another form.
#define FLOATS(WHAT, SCAN, SMALL)                                          \
  {WHAT, "f16", SMALL<__half>}, {WHAT, "bf16", SMALL<__nv_bfloat16>},      \
  {WHAT, "f32", SCAN<float>}, {WHAT, "f64", SCAN<double>}
/// A row for each integer whose order, hence sign, matters.
#define ORDERED(WHAT, SCAN)                                                                                         \
  {WHAT, "i8", SCAN<int8_t>}, {WHAT, "u8", SCAN<uint8_t>}, {WHAT, "i16", SCAN<int16_t>}, {WHAT, "u16", SCAN<uint16_t>}, \
  {WHAT, "i32", SCAN<int32_t>}, {WHAT, "u32", SCAN<uint32_t>}, {WHAT, "i64", SCAN<int64_t>}, {WHAT, "u64", SCAN<uint64_t>}

static const Row ROWS[] = {
  {"offsets", "u32_u64", offsets},
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
  {"inclusive_compose", "affine_f32", compose<Affine<float>>},
  {"inclusive_compose", "affine_f64", compose<Affine<double>>},
  {"inclusive_compose", "matrix_u32", compose<Matrix>},
  {"inclusive_compose", "states_u32", compose<States>},
  {"reduce_sum", "f32", reduce_sum<float>},
  {"reduce_sum", "f16", reduce_sum_in_float<__half>},
  {"reduce_sum", "u8", reduce_sum<uint8_t>},
  {"reduce_max", "u8", reduce_max<uint8_t>},
  {"reduce_max", "f16", reduce_max<__half>},
  {"reduce_max", "i32", reduce_max<int32_t>},
  {"reduce_arg_max", "indexed_f32", reduce_arg_max<Indexed>},
  {"position_max", "u8", position_max<uint8_t>},
  {"position_max", "f16", position_max<__half>},
  {"position_max", "f32", position_max<float>},
};

/// Returns the scan or the reduction of that name for elements of that type, or null.
extern "C" Scan versus_cub_scan(const char* what, const char* type)
{
  for (const Row& row : ROWS)
    if (!strcmp(row.what, what) && !strcmp(row.type, type)) return row.scan;
  return nullptr;
}

// ---- selections ---------------------------------------------------------------------------------

/// Arguments of a selection: device memory, except `than`, the item on the host that the others are
/// compared with.
struct Selection
{
  const void* input;
  const uint8_t* flags;
  const void* than;
  void* output;
  uint64_t* count;
  unsigned n;
};

/// Like DeviceSelect: without temporary memory it returns how many bytes it needs, and still reads
/// `than`.
typedef cudaError_t (*Select)(void* temporary, size_t* bytes, const Selection* selection, cudaStream_t stream);

/// Selects items greater than one known at run time.
template <typename T>
struct Above
{
  T than;
  __host__ __device__ bool operator()(const T& x) const { return x > than; }
};
template <>
struct Above<__half>
{
  __half than;
  __host__ __device__ bool operator()(const __half& x) const { return __half2float(x) > __half2float(than); }
};

/// Lengths are int: then DevicePartition counts in 32 bits. DeviceSelect takes 64 bits, and counts
/// parts of the input in 32.
#define SELECT(NAME, CALL)                                                                                  \
  template <typename T>                                                                                     \
  cudaError_t NAME(void* temporary, size_t* bytes, const Selection* selection, cudaStream_t stream)         \
  {                                                                                                         \
    const T* input = static_cast<const T*>(selection->input);                                               \
    T* output = static_cast<T*>(selection->output);                                                         \
    const uint8_t* flags = selection->flags;                                                                \
    const Above<T> above{*static_cast<const T*>(selection->than)};                                          \
    uint64_t* count = selection->count;                                                                     \
    const int n = static_cast<int>(selection->n);                                                           \
    static_cast<void>(flags), static_cast<void>(above); /* not every call takes them */                     \
    return CALL;                                                                                            \
  }

SELECT(select_if, DeviceSelect::If(temporary, *bytes, input, output, count, n, above, stream))
SELECT(select_flagged, DeviceSelect::Flagged(temporary, *bytes, input, flags, output, count, n, stream))
SELECT(select_unique, DeviceSelect::Unique(temporary, *bytes, input, output, count, n, stream))
SELECT(partition_if, DevicePartition::If(temporary, *bytes, input, output, count, n, above, stream))

struct SelectRow
{
  const char* what;
  const char* type;
  Select select;
};

static const SelectRow SELECT_ROWS[] = {
  {"select_if", "u8", select_if<uint8_t>},
  {"select_if", "u16", select_if<uint16_t>},
  {"select_if", "u32", select_if<uint32_t>},
  {"select_if", "u64", select_if<uint64_t>},
  {"select_if", "f16", select_if<__half>},
  {"select_if", "f32", select_if<float>},
  {"select_if", "f64", select_if<double>},
  {"select_flagged", "u8", select_flagged<uint8_t>},
  {"select_flagged", "u16", select_flagged<uint16_t>},
  {"select_flagged", "u32", select_flagged<uint32_t>},
  {"select_flagged", "u64", select_flagged<uint64_t>},
  {"select_flagged", "u128", select_flagged<__uint128_t>},
  {"unique", "u32", select_unique<uint32_t>},
  {"partition_if", "u32", partition_if<uint32_t>},
};

/// Returns the selection of that name from items of that type, or null.
extern "C" Select versus_cub_select(const char* what, const char* type)
{
  for (const SelectRow& row : SELECT_ROWS)
    if (!strcmp(row.what, what) && !strcmp(row.type, type)) return row.select;
  return nullptr;
}

/// Copies `n` segments of bytes from one list of addresses to another.
extern "C" cudaError_t versus_cub_pack(
  void* temporary, size_t* bytes, void** from, void** to, const uint32_t* sizes, unsigned n, cudaStream_t stream)
{
  return DeviceMemcpy::Batched(temporary, *bytes, from, to, sizes, n, stream);
}

/// Sums of `f32` by segment, `segments` + 1 offsets: exclusive prefixes, or one sum a segment. Without
/// offsets segments are rows of `columns` items, and there are only sums. Without temporary memory they
/// return how many bytes they need.
extern "C" cudaError_t versus_cub_segmented_sum(
  bool is_scan, unsigned columns, void* temporary, size_t* bytes, const float* input, float* output,
  const uint32_t* offsets, unsigned segments, cudaStream_t stream)
{
#if CUB_VERSION >= 300300
  if (!is_scan && offsets == nullptr)
    return DeviceSegmentedReduce::Sum(
      temporary, *bytes, input, output, static_cast<int64_t>(segments), static_cast<int>(columns), stream);
#endif
  if (!is_scan)
    return DeviceSegmentedReduce::Sum(temporary, *bytes, input, output, segments, offsets, offsets + 1, stream);
#if CUB_VERSION >= 300300
  return DeviceSegmentedScan::ExclusiveSegmentedSum(
    temporary, *bytes, input, output, offsets, offsets + 1, segments, stream);
#else
  return cudaErrorNotSupported;
#endif
}

/// The sum of `f32` for each run of equal `u32` keys, the key of each run, and their number. Without
/// temporary memory it returns how many bytes it needs.
extern "C" cudaError_t versus_cub_reduce_by_key(
  void* temporary, size_t* bytes, const uint32_t* keys, const float* input, uint32_t* keys_output, float* output,
  uint64_t* count, unsigned n, cudaStream_t stream)
{
  return DeviceReduce::ReduceByKey(
    temporary, *bytes, keys, keys_output, input, output, count, cuda::std::plus<float>{}, n, stream);
}

// ---- radix sort ---------------------------------------------------------------------------------

/// Keys, and values or null; device memory.
struct Sorting
{
  const void* keys;
  const void* values;
  void* keys_output;
  void* values_output;
  uint64_t n;
};

/// Like DeviceRadixSort: without temporary memory it returns how many bytes it needs.
typedef cudaError_t (*Sort)(void* temporary, size_t* bytes, const Sorting* sorting, cudaStream_t stream);

/// Sorts of `u32` keys by segment, with values of 4 bytes or, if `values` is null, without: `segments` + 1
/// offsets. They wait for the stream. Without temporary memory they return how many bytes they need.
extern "C" cudaError_t versus_cub_segmented_sort(
  void* temporary, size_t* bytes, const Sorting* sorting, const uint32_t* offsets, unsigned segments,
  cudaStream_t stream)
{
  const uint32_t* keys = static_cast<const uint32_t*>(sorting->keys);
  uint32_t* keys_output = static_cast<uint32_t*>(sorting->keys_output);
  const uint32_t* values = static_cast<const uint32_t*>(sorting->values);
  uint32_t* values_output = static_cast<uint32_t*>(sorting->values_output);
  const int64_t n = static_cast<int64_t>(sorting->n);
  if (values == nullptr)
    return DeviceSegmentedSort::SortKeys(
      temporary, *bytes, keys, keys_output, n, segments, offsets, offsets + 1, stream);
  return DeviceSegmentedSort::SortPairs(
    temporary, *bytes, keys, keys_output, values, values_output, n, segments, offsets, offsets + 1, stream);
}

/// CUB is tuned for lengths of int and of 64 bits; which is faster depends on the keys.
template <typename T, typename V, typename N>
cudaError_t sort_as(void* temporary, size_t* bytes, const Sorting* sorting, cudaStream_t stream)
{
  const T* keys = static_cast<const T*>(sorting->keys);
  T* keys_output = static_cast<T*>(sorting->keys_output);
  const V* values = static_cast<const V*>(sorting->values);
  V* values_output = static_cast<V*>(sorting->values_output);
  const N n = static_cast<N>(sorting->n);
  if (values == nullptr)
    return DeviceRadixSort::SortKeys(temporary, *bytes, keys, keys_output, n, 0, int(sizeof(T) * 8), stream);
  return DeviceRadixSort::SortPairs(
    temporary, *bytes, keys, keys_output, values, values_output, n, 0, int(sizeof(T) * 8), stream);
}

struct SortRow
{
  const char* type;
  size_t of_value; // bytes
  Sort by_int, by_64_bits;
};

struct Value12 { uint32_t words[3]; };
struct alignas(16) Value16 { uint64_t words[2]; };

#define SORTS_WITH(NAME, T, V) {NAME, sizeof(V), sort_as<T, V, int>, sort_as<T, V, int64_t>}
#define SORTS(NAME, T) SORTS_WITH(NAME, T, uint32_t)
static const SortRow SORT_ROWS[] = {
  SORTS("u8", uint8_t), SORTS("u16", uint16_t), SORTS("u32", uint32_t), SORTS("i32", int32_t), SORTS("u64", uint64_t),
  SORTS("i64", int64_t), SORTS("f16", __half), SORTS("f32", float), SORTS("f64", double),
  SORTS_WITH("u32", uint32_t, uint16_t), SORTS_WITH("u32", uint32_t, uint64_t), SORTS_WITH("u32", uint32_t, Value12),
  SORTS_WITH("u32", uint32_t, Value16),
};

/// Returns the radix sort of keys of that type and values of so many bytes, by lengths of 64 bits or of int, or
/// null.
extern "C" Sort versus_cub_sort(const char* type, size_t of_value, bool by_64_bits)
{
  for (const SortRow& row : SORT_ROWS)
    if (!strcmp(row.type, type) && row.of_value == of_value) return by_64_bits ? row.by_64_bits : row.by_int;
  return nullptr;
}

/// As in cub/version.cuh: MMMmmmpp.
extern "C" int versus_cub_version()
{
  return CUB_VERSION;
}
