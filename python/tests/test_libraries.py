"""Arrays of other libraries, on the CPU and on a GPU where there is one, compared with numpy's.

What is not installed, and what has no GPU, is skipped. With PARASCAN_REQUIRE_GPU=1 torch and cupy must be
installed, and each installed library must find a GPU.
"""

import concurrent.futures
import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import rng

import parascan

PLACES = ["torch cpu", "torch cuda", "cupy cuda", "jax cpu", "jax cuda", "array_api_strict cpu"]
DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class Library:
    """A library's arrays at one place: `to` makes them of numpy's, `back` the other way."""

    def __init__(self, name):
        self.name, self.place = name.split()
        if os.environ.get("PARASCAN_REQUIRE_GPU") == "1" and self.name in ("torch", "cupy"):
            importlib.import_module(self.name)
        self.xp = pytest.importorskip({"jax": "jax.numpy"}.get(self.name, self.name))
        if self.place == "cuda" and not self.has_gpu():
            assert os.environ.get("PARASCAN_REQUIRE_GPU") != "1", f"a GPU is required, and {self.name} finds none"
            pytest.skip("no GPU")
        if self.name == "jax":
            import jax

            jax.config.update("jax_enable_x64", True)
            self.device = jax.devices(self.place)[0]

    def has_gpu(self):
        try:
            if self.name == "torch":
                return self.xp.cuda.is_available()
            if self.name == "cupy":
                return self.xp.cuda.runtime.getDeviceCount() > 0
            import jax

            return bool(jax.devices("cuda"))
        except Exception:
            return False

    def to(self, x):
        if self.name == "torch":
            return self.xp.from_numpy(np.ascontiguousarray(x)).to(self.place)
        if self.name == "jax":
            import jax

            return jax.device_put(x, self.device)
        return self.xp.asarray(x)

    def back(self, x):
        assert type(x).__module__.partition(".")[0] in (self.name, "jaxlib"), type(x)
        if self.name == "torch":
            assert x.device.type == self.place
            return x.cpu().numpy()
        if self.name == "cupy":
            return self.xp.asnumpy(x)
        return np.asarray(x)

    def results(self, result):
        if isinstance(result, tuple):
            return [part for one in result for part in self.results(one)]
        return [result] if isinstance(result, int) else [self.back(result)]


@pytest.fixture(scope="module", params=PLACES)
def library(request):
    return Library(request.param)


def items(shape, dtype, low=-3, high=4):
    return rng.integers(0 if np.dtype(dtype).kind == "u" else low, high, shape).astype(dtype)


def compare(library, call, *arrays):
    """Calls with arrays of the library and with numpy's."""
    got = library.results(call(*map(library.to, arrays)))
    expected = call(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        if not isinstance(a, int):
            assert a.shape == b.shape
            kinds = {a.dtype, b.dtype}
            # torch sums unsigned integers as int64.
            assert len(kinds) == 1 or kinds == {np.dtype("uint64"), np.dtype("int64")}
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(library, dtype):
    if library.name == "array_api_strict" and dtype == "float16":
        pytest.skip("it has no float16")
    for n in (0, 1, 1000, 70_001):
        x, keys = items(n, dtype), np.sort(items(n, "int32"))
        mask, values = rng.random(n) < 0.4, items(50, dtype, -5, 6)
        edges = np.unique(items(9, dtype, -5, 5))
        edges = np.r_[edges, edges[-1] + np.ones(1, dtype)].astype(dtype)
        compare(library, parascan.cumulative_sum, x)
        compare(library, lambda x: parascan.cumulative_sum(x, include_initial=True), x)
        compare(library, parascan.cumulative_prod, np.sign(x[:60]))
        compare(library, lambda x: parascan.scan("max", x), x)
        compare(library, lambda x: parascan.scan("sum", x, exclusive=True, reverse=True, initial=3), x)
        compare(library, lambda x: parascan.reduce("min", x, initial=2), x)
        compare(library, parascan.sort, x)
        compare(library, lambda x: parascan.argsort(x, descending=True), x)
        compare(library, parascan.compact, x, mask)
        compare(library, parascan.compact, x)
        compare(library, parascan.partition, x, mask)
        compare(library, parascan.nonzero, x)
        compare(library, parascan.unique_values, x)
        compare(library, parascan.unique_counts, x)
        compare(library, parascan.unique_inverse, x)
        compare(library, parascan.run_length, x)
        compare(library, lambda k, x: parascan.group_by(k, x, "max"), keys[::-1].copy(), x)
        for side in ("left", "right"):
            compare(library, lambda x, v: parascan.searchsorted(x, v, side=side), np.sort(x), values)
        compare(library, parascan.histogram, x, edges)
        compare(library, lambda x: parascan.topk(x, min(n, 5)), x)
        heads = np.r_[True, keys[1:] != keys[:-1]] if n else mask
        offsets = np.r_[np.flatnonzero(heads), n]
        for cut, told in (("keys", keys), ("heads", heads), ("offsets", offsets)):
            compare(library, lambda x, told: parascan.segmented_scan("sum", x, **{cut: told}), x, told)
            compare(library, lambda x, told: parascan.segmented_reduce("max", x, **{cut: told}), x, told)
            compare(library, lambda x, told: parascan.segmented_sort(x, **{cut: told}), x, told)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (50, 60), (1, 7), (7, 1), (20, 30, 10), (3, 4, 5, 6)])
def test_axes(library, shape):
    for dtype in ("float32", "int16"):
        x = items(shape, dtype)
        compare(library, parascan.nonzero, x)
        compare(library, parascan.unique_inverse, x)
        compare(library, lambda x: parascan.reduce("sum", x), x)
        for axis in range(-len(shape), len(shape)):
            compare(library, lambda x: parascan.cumulative_sum(x, axis=axis), x)
            compare(library, lambda x: parascan.scan("max", x, axis=axis, reverse=True), x)
            compare(library, lambda x: parascan.reduce("sum", x, axis=axis, keepdims=True), x)
            compare(library, lambda x: parascan.sort(x, axis=axis, descending=True), x)
            compare(library, lambda x: parascan.argsort(x, axis=axis), x)
            compare(library, lambda x: parascan.topk(x, shape[axis] // 2, axis=axis), x)


def test_bool(library):
    x = rng.random(1000) < 0.5
    compare(library, parascan.sort, x)
    compare(library, parascan.unique_counts, x)
    compare(library, parascan.nonzero, x)
    compare(library, parascan.cumulative_sum, x)


def test_nan(library):
    x = rng.standard_normal(1000).astype("float32")
    x[[1, 700]] = np.nan
    compare(library, parascan.sort, x)
    compare(library, lambda x: parascan.scan("max", x), x)
    compare(library, lambda x: parascan.reduce("min", x), x)


def test_operator(library):
    gcd = parascan.Operator("while (b) { Element t = a % b; a = b; b = t; } return a;", np.gcd, identity=0)
    larger = parascan.Operator("a > b ? a : b", np.maximum)
    for n in (0, 1, 1000, 300_001):
        x = items(n, "int64", 1, 1000)
        for reverse in (False, True):
            compare(library, lambda x: parascan.scan(gcd, x, reverse=reverse), x)
            compare(library, lambda x: parascan.scan(gcd, x, exclusive=True, initial=60, reverse=reverse), x)
            compare(library, lambda x: parascan.scan(larger, x, reverse=reverse), x.astype("float32"))
        compare(library, lambda x: parascan.reduce(gcd, x), x)
    x = items((7, 500), "int32", 1, 1000)
    for axis in (0, 1):
        compare(library, lambda x: parascan.scan(gcd, x, axis=axis), x)
        compare(library, lambda x: parascan.reduce(gcd, x, axis=axis), x)
    if not (library.name == "jax" and library.place == "cuda"):
        gcd.check(library.to(items(10, "int64", 1, 100)))
    if library.place == "cuda" and library.name != "jax":
        with pytest.raises(ValueError, match="differs from its numpy twin"):
            parascan.Operator("a < b ? a : b", np.maximum).check(library.to(items(10, "int64", 1, 100)))
        with pytest.raises(RuntimeError, match="NVRTC refused"):
            parascan.scan(parascan.Operator("c", np.add), library.to(x), axis=0)


def test_mixed_arrays(library):
    x = np.zeros(3, "float32")
    with pytest.raises(ValueError, match="one library"):
        parascan.compact(x, library.to(np.ones(3, bool)))
    with pytest.raises(ValueError, match="one library"):
        parascan.searchsorted(library.to(x), x)


# ---- torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_torch_tensors(torch):
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(parascan.cumulative_sum(x.T, axis=0), x.T.cumsum(0))
    assert torch.equal(parascan.sort(-x[:, ::2], axis=0), (-x[:, ::2]).sort(0).values)
    y = torch.randn(1000).bfloat16()
    assert torch.equal(parascan.sort(y), y.sort().values)
    assert torch.equal(parascan.scan("max", y), y.cummax(0).values)
    parameter = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match="gradients"):
        parascan.sort(parameter)
    with torch.no_grad():
        assert parascan.cumulative_sum(parameter).tolist() == [1, 2, 3]
    odd = torch.frombuffer(bytearray(13), dtype=torch.float32, offset=1, count=3)
    assert parascan.cumulative_sum(odd).tolist() == parascan.sort(odd).tolist() == [0, 0, 0]
    assert parascan.searchsorted(odd, odd).tolist() == [0, 0, 0]
    with pytest.raises(TypeError):
        parascan.sort(torch.zeros(3).to_sparse())
    with pytest.raises(TypeError):
        parascan.sort(torch.zeros(3, device="meta"))


def test_torch_streams(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    side, n = torch.cuda.Stream(), 1 << 24
    for _ in range(10):
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            x = torch.ones(n, device="cuda", dtype=torch.int32)
            total = parascan.cumulative_sum(x)[-1]
            found = parascan.nonzero(x)[0]
            ordered = parascan.sort(-parascan.scan("sum", x))
            x.zero_()
        side.synchronize()
        assert total.item() == n and len(found) == n and ordered[0].item() == -n
    assert torch.cuda.current_device() == 0


def test_several_devices(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("no two GPUs")
    x = torch.ones(1000, device="cuda:1", dtype=torch.int64)
    assert parascan.cumulative_sum(x)[-1].item() == 1000
    assert parascan.nonzero(x)[0].device == x.device
    assert torch.cuda.current_device() == 0


# ---- others


def test_cuda_array_interface():
    cupy = Library("cupy cuda").xp
    x = cupy.arange(1000, dtype="float32")

    class Wrapped:
        __cuda_array_interface__ = x.__cuda_array_interface__
        shape, dtype = x.shape, x.dtype

    result = parascan.cumulative_sum(Wrapped())
    assert (cupy.from_dlpack(result) == x.cumsum()).all()
    with cupy.cuda.Stream(non_blocking=True) as stream:  # which may end before the array does
        total = cupy.from_dlpack(parascan.cumulative_sum(Wrapped()))
        last = total[-1:].copy()
        stream.synchronize()
    del stream, total
    assert last[0] == x.sum()
    ones = cupy.ones(1000, dtype="uint8")
    flags = type("Flags", (), {name: getattr(ones, name) for name in ("__cuda_array_interface__", "shape", "dtype")})
    with pytest.raises(TypeError, match="namespace"):
        parascan.segmented_reduce("sum", Wrapped(), heads=flags())
    pointer, read_only = x.__cuda_array_interface__["data"]
    Wrapped.__cuda_array_interface__ |= {"data": (pointer + 2, read_only), "shape": (999,)}
    Wrapped.shape = (999,)
    with pytest.raises(ValueError, match="multiples"):
        parascan.cumulative_sum(Wrapped())


class OnlyDlpack:
    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_only_dlpack():
    x = np.arange(10.0)
    result = parascan.cumulative_sum(OnlyDlpack(x))
    assert (result.shape, result.dtype) == ([10], "float64")
    np.testing.assert_array_equal(np.from_dlpack(result), x.cumsum())
    with pytest.raises(BufferError, match="before"):
        np.from_dlpack(result)


def test_what_only_dlpack_cannot():
    x = OnlyDlpack(np.arange(12.0).reshape(3, 4))
    for call in (
        lambda: parascan.scan("max", OnlyDlpack(np.zeros((2, 3, 4))), axis=1),
        lambda: parascan.reduce("sum", x),
        lambda: parascan.cumulative_sum(parascan.sort(OnlyDlpack(np.arange(3, dtype="int32")))),
        lambda: parascan.nonzero(x),
        lambda: parascan.compact(x),
        lambda: parascan.unique_values(x),
        lambda: parascan.unique_counts(x),
        lambda: parascan.unique_inverse(x),
        lambda: parascan.topk(x, 2),
        lambda: parascan.cumulative_sum(x, axis=1, include_initial=True),
        lambda: parascan.group_by(OnlyDlpack(np.arange(3)), OnlyDlpack(np.arange(3))),
        lambda: parascan.run_length(OnlyDlpack(np.arange(3))),
        lambda: parascan.histogram(OnlyDlpack(np.arange(3)), OnlyDlpack(np.arange(3))),
    ):
        with pytest.raises(TypeError):
            call()


def test_cpu_devices():
    """A result lies on the device of its input, whatever device the first call has seen."""
    xp = pytest.importorskip("array_api_strict")
    for name in ("device1", "CPU_DEVICE", "device1"):
        device = xp.Device(name)
        x = xp.asarray([3, 1, 3], device=device)
        assert parascan.sort(x).device == device
        items, lengths = parascan.run_length(x)
        assert (items.device, lengths.device) == (device, device)


def test_the_index_dtype_of_jax():
    """It follows jax's option, whatever the first call has seen."""
    program = """
import jax, numpy, parascan
jax.config.update("jax_platforms", "cpu")
for enabled, dtype in ((False, "int32"), (True, "int64"), (False, "int32")):
    jax.config.update("jax_enable_x64", enabled)
    found = parascan.nonzero(jax.numpy.asarray(numpy.array([0, 5, 7], "float32")))[0].dtype
    assert found == dtype, (enabled, found)
"""
    pytest.importorskip("jax")
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- scratch memory that stays


@pytest.mark.parametrize("name", ["torch cuda", "cupy cuda"])
def test_calls_that_share_scratch_memory(name):
    """Lengths on both sides of what stays, other primitives between them, and several threads."""
    library = Library(name)
    lengths = [1, 1000, 70_001, 1 << 20, 3_000_001]

    def calls(seed):
        local = np.random.default_rng(seed)
        for n in local.choice(lengths, 12):
            x = local.integers(-3, 4, n).astype("int64")
            y = library.to(x)
            got = parascan.cumulative_sum(y), parascan.sort(y), parascan.nonzero(y)[0], parascan.partition(y)
            for a, b in zip(library.results(got[:3]), (x.cumsum(), np.sort(x), np.flatnonzero(x))):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(library.back(got[3][0]), np.r_[x[x != 0], x[x == 0]])
            assert got[3][1] == np.count_nonzero(x)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(calls, seed) for seed in rng.integers(0, 1 << 32, 8)]:
            done.result()
