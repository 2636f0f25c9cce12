"""Every function on numpy arrays, compared with numpy."""

import os
import signal
import sys
import threading

import numpy as np
import pytest
from conftest import rng

import parascan

FLOATS = ["float16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
NUMBERS = FLOATS + SIGNED + UNSIGNED
SHAPES = [(0,), (1,), (7,), (1000,), (100_003,), (0, 3), (3, 0), (5, 1), (1, 5), (40, 33), (7, 1, 9), (6, 5, 4, 3)]


def random(shape, dtype, small=False):
    """Random items: of all bits, or small whole numbers, with which sums of floats are exact."""
    dtype = np.dtype(dtype)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if small:
        return rng.integers(0 if dtype.kind == "u" else -2, 3, shape).astype(dtype)
    if dtype.kind == "f":
        x = rng.standard_normal(shape).astype(dtype)
        if x.size > 3:
            x.reshape(-1)[rng.integers(0, x.size, 3)] = [np.inf, -np.inf, np.nan]
        return x
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def forms(x):
    """The same array contiguous, strided, reversed, in Fortran's order, read-only and misaligned."""
    yield x
    wide = np.zeros(x.shape[:-1] + (2 * x.shape[-1],), x.dtype)
    wide[..., ::2] = x
    yield wide[..., ::2]
    yield np.ascontiguousarray(x[::-1])[::-1]
    yield np.asfortranarray(x)
    fixed = x.copy()
    fixed.flags.writeable = False
    yield fixed
    memory = np.zeros(x.nbytes + 1, np.uint8)
    odd = memory[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    yield odd


def same(got, expected):
    assert type(got) is np.ndarray
    assert got.dtype == expected.dtype
    if got.dtype == bool:
        assert (got.view("uint8") <= 1).all()
    np.testing.assert_array_equal(got, expected)


# ---- scan and reduce


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cumulative_sum(shape, dtype):
    x = random(shape, dtype, small=True)
    for axis in range(-x.ndim, x.ndim):
        wide = x.dtype if x.dtype.kind == "f" else np.dtype("int64" if x.dtype.kind == "i" else "uint64")
        same(parascan.cumulative_sum(x, axis=axis), np.cumsum(x, axis, dtype=wide))
        got = parascan.cumulative_sum(x, axis=axis, dtype=np.float64, include_initial=True)
        zero = np.zeros(x.shape[: axis % x.ndim] + (1,) + x.shape[axis % x.ndim + 1 :])
        same(got, np.concatenate([zero, np.cumsum(x, axis, dtype=np.float64)], axis))


def test_cumulative_prod():
    x = rng.choice([-1, 1, 2], 12)
    same(parascan.cumulative_prod(x), np.cumprod(x))
    same(parascan.cumulative_prod(x[:, None], axis=0, include_initial=True)[:, 0], np.r_[1, np.cumprod(x)])
    same(parascan.cumulative_prod(np.array([True, True, False])), np.array([1, 1, 0]))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_operators(dtype):
    twins = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}
    if np.dtype(dtype).kind != "f":
        twins |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    for op, twin in twins.items():
        x = random((30, 41), dtype, small=op == "sum")
        if op == "product" and x.dtype.kind == "f":
            x = rng.choice([-1, 1], x.shape).astype(dtype)
        for axis in (0, 1):
            same(parascan.scan(op, x, axis=axis), twin.accumulate(x, axis, dtype))
            same(parascan.reduce(op, x, axis=axis), twin.reduce(x, axis, dtype))
        same(parascan.reduce(op, x), np.asarray(twin.reduce(x, None, dtype)))
        assert parascan.reduce(op, x, keepdims=True).shape == (1, 1)
        assert parascan.reduce(op, x, axis=0, keepdims=True).shape == (1, 41)
        same(parascan.scan(op, x, axis=1, reverse=True), twin.accumulate(x[:, ::-1], 1, dtype)[:, ::-1])


def test_exclusive_and_initial():
    x = random(1000, "int32")
    same(parascan.scan("sum", x, exclusive=True), np.cumsum(np.r_[0, x[:-1]], dtype="int32"))
    same(parascan.scan("sum", x, initial=7), np.cumsum(np.r_[7, x], dtype="int32")[1:])
    same(parascan.scan("sum", x, exclusive=True, initial=7), np.cumsum(np.r_[7, x], dtype="int32")[:-1])
    same(parascan.scan("last", x, exclusive=True, initial=-1), np.r_[-1, x[:-1]].astype("int32"))
    same(parascan.reduce("max", x, initial=2**31 - 1), np.asarray(2**31 - 1, "int32"))
    same(parascan.scan("max", np.array([1.0, np.nan, 3.0])), np.array([1.0, np.nan, np.nan]))


def test_nothing_to_reduce():
    same(parascan.reduce("sum", np.zeros((3, 0)), axis=1), np.zeros(3))
    same(parascan.reduce("min", np.zeros(0, "int8")), np.asarray(127, "int8"))
    same(parascan.reduce("product", np.zeros((0, 4), "int16"), axis=0), np.ones(4, "int16"))
    same(parascan.reduce("sum", np.zeros((0, 4)), axis=1), np.zeros(0))
    same(parascan.reduce("last", np.zeros((0, 0)), axis=1), np.zeros(0))
    for x in (np.zeros(0), np.zeros((3, 0))):
        with pytest.raises(ValueError, match="empty"):
            parascan.reduce("last", x, axis=-1)


def test_bool():
    x = rng.random((20, 30)) < 0.7
    for op, twin in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor), ("min", np.logical_and)):
        same(parascan.scan(op, x, axis=1), twin.accumulate(x, 1))
        same(parascan.reduce(op, x, axis=0), twin.reduce(x, 0))
        same(parascan.reduce(op, x[:0], axis=0), twin.reduce(x[:0], 0))
        exclusive = np.c_[np.full(20, twin.identity, bool), twin.accumulate(x, 1)[:, :-1]]
        same(parascan.scan(op, x, axis=1, exclusive=True), exclusive)
        same(parascan.segmented_reduce(op, x[0], offsets=np.array([0, 0, 30])), np.array([twin.identity, twin.reduce(x[0])], bool))
        same(parascan.scan(op, x[0], initial=5), twin.accumulate(np.r_[True, x[0]])[1:])
    with pytest.raises(TypeError, match="bool"):
        parascan.scan("sum", x[0])


def cuts(n):
    """The same random segments as offsets, heads and keys. None is empty."""
    heads = rng.random(n) < 0.1
    heads[:1] = True
    starts = np.flatnonzero(heads)
    return {"offsets": np.r_[starts, n], "heads": heads, "keys": np.cumsum(heads).astype("uint16")}, starts


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_segments(n):
    x = random(n, "int32")
    given, starts = cuts(n)
    parts = np.split(x, starts[1:]) if n else []

    def joined(of):
        return np.concatenate([of(part) for part in parts] or [x]).astype("int32")

    for kind, segments in given.items():
        cut = {kind: segments}
        same(parascan.segmented_scan("sum", x, **cut), joined(np.cumsum))
        same(parascan.segmented_scan("max", x, **cut, reverse=True), joined(lambda p: np.maximum.accumulate(p[::-1])[::-1]))
        same(parascan.segmented_scan("min", x, **cut, exclusive=True, initial=5),
             joined(lambda p: np.minimum.accumulate(np.r_[np.int32(5), p[:-1]])))
        same(parascan.segmented_sort(x, **cut), joined(np.sort))
        same(parascan.segmented_sort(x, **cut, descending=True), joined(lambda p: np.sort(p)[::-1]))
        same(parascan.segmented_reduce("sum", x, **cut), np.array([p.sum(dtype="int32") for p in parts], "int32"))
        same(parascan.segmented_reduce("max", x, **cut, initial=0), np.array([p.max(initial=0) for p in parts], "int32"))
    empty = np.array([0, 0, n, n, n], "uint32")
    same(parascan.segmented_reduce("sum", x, offsets=empty), np.array([0, x.sum(dtype="int32"), 0, 0], "int32"))


# ---- sort


@pytest.mark.parametrize("dtype", NUMBERS + ["bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sort(shape, dtype):
    x = random(shape, dtype)
    for axis in {-1, 0, x.ndim // 2}:
        same(parascan.sort(x, axis=axis), np.sort(x, axis))
        order = np.argsort(x, axis, stable=True)
        same(parascan.argsort(x, axis=axis), order)
        down = parascan.argsort(x, axis=axis, descending=True)
        same(np.take_along_axis(x, down, axis), parascan.sort(x, axis=axis, descending=True))
        if x.dtype.kind != "f":
            backwards = np.flip(np.sort(x, axis), axis)
            same(parascan.sort(x, axis=axis, descending=True), backwards)


def test_descending_is_stable():
    x = random(10_000, "int8", small=True)
    same(parascan.argsort(x, descending=True), np.argsort(-x, stable=True))


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint64"])
def test_topk(dtype):
    for shape, axis in [((20, 50, 3), 0), ((20, 50, 3), 1), ((20, 50, 3), 2), ((30,), 0), ((30, 1), 0), ((1, 30), 0)]:
        x = random(shape, dtype, small=True)
        for k in {0, 1, x.shape[axis]}:
            for largest in (False, True):
                values, indices = parascan.topk(x, k, axis=axis, largest=largest)
                key = -x.astype("float64") if largest else x
                order = np.argsort(key, axis, stable=True).take(range(k), axis)
                same(indices, order)
                same(values, np.take_along_axis(x, order, axis))


# ---- selections, sets, groups


@pytest.mark.parametrize("dtype", NUMBERS + ["bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_selections(shape, dtype):
    x, mask = random(shape, dtype, small=True), rng.random(shape) < 0.3
    same(parascan.compact(x), x[x != 0])
    same(parascan.compact(x, mask), x[mask])
    same(parascan.compact(x, mask.astype("uint8")), x[mask])
    both, count = parascan.partition(x, mask)
    assert count == mask.sum()
    same(both, np.concatenate([x[mask], x[~mask]]))
    both, count = parascan.partition(x)
    same(both, np.concatenate([x[x != 0], x[x == 0]]))
    got = parascan.nonzero(x)
    assert type(got) is tuple and len(got) == x.ndim
    for axis, expected in enumerate(np.nonzero(x)):
        same(got[axis], expected)


@pytest.mark.parametrize("dtype", NUMBERS + ["bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_unique(shape, dtype):
    for small in (False, True):
        x = random(shape, dtype, small)
        expected = np.unique_counts(x)
        same(parascan.unique_values(x), expected.values)
        got = parascan.unique_counts(x)
        same(got.values, expected.values)
        same(got.counts, expected.counts)
        got = parascan.unique_inverse(x)
        same(got.values[got.inverse_indices], x)
        assert got.inverse_indices.dtype == np.int64 and got.inverse_indices.shape == x.shape
        if not np.isnan(x.astype("float64")).any():
            same(got.inverse_indices, np.unique_inverse(x).inverse_indices)


def test_nan_and_zeros():
    x = np.array([np.nan, 0.0, -0.0, np.nan, -np.inf])
    assert len(parascan.unique_values(x)) == 4  # -0 equals 0, and no NaN equals another
    same(parascan.sort(x), np.array([-np.inf, -0.0, 0.0, np.nan, np.nan]))
    same(np.signbit(parascan.sort(x)[1:3]), np.array([True, False]))
    same(parascan.unique_inverse(x).inverse_indices[1:3], np.array([1, 1]))
    same(parascan.argsort(x), np.array([4, 2, 1, 0, 3]))  # -0 before 0


def test_run_length():
    x = np.repeat(random(300, "int8", small=True), rng.integers(1, 9, 300))
    values, lengths = parascan.run_length(x)
    same(np.repeat(values, lengths), x)
    assert (values[1:] != values[:-1]).all()
    assert [len(part) for part in parascan.run_length(np.zeros(0))] == [0, 0]


@pytest.mark.parametrize("op, twin", [("sum", np.add), ("max", np.maximum), ("last", None)])
def test_group_by(op, twin):
    keys, values = rng.integers(0, 50, 5000).astype("uint8"), random(5000, "int64")
    groups, totals = parascan.group_by(keys, values, op)
    same(groups, np.unique(keys))
    of = (lambda part: part[-1]) if twin is None else twin.reduce
    same(totals, np.array([of(values[keys == key]) for key in groups]))


def test_group_by_both_zeros():
    groups, values = parascan.group_by(np.array([0.0, -0.0, 1.0]), np.array([1, 2, 3]), "last")
    same(groups, np.array([0.0, 1.0]))
    same(values, np.array([2, 3]))


# ---- search


@pytest.mark.parametrize("dtype", NUMBERS)
def test_searchsorted(dtype):
    x, values = np.sort(random(1000, dtype)), random((30, 40), dtype)
    values[0, 0] = x[500]
    for side in ("left", "right"):
        same(parascan.searchsorted(x, values, side=side), np.searchsorted(x, values, side))
        mixed = rng.permutation(x)
        got = parascan.searchsorted(mixed, values, side=side, sorter=np.argsort(mixed))
        same(got, np.searchsorted(x, values, side))
    same(parascan.searchsorted(x[:0], values), np.zeros(values.shape, "int64"))
    same(parascan.searchsorted(x, values[:0]), np.zeros((0, 40), "int64"))


def test_searchsorted_scalars():
    x = np.array([0.1], "float32")
    # numpy's numbers have a type of their own; a number of Python takes that of the array.
    for value, typed in ((0.1, np.float32(0.1)), (np.float32(0.1),) * 2, (np.float64(0.1),) * 2):
        for side in ("left", "right"):
            same(parascan.searchsorted(x, value, side=side), np.int64(np.searchsorted(x, typed, side)))
    for dtype, value in (("int8", 300), ("int8", -129), ("uint8", -1), ("uint64", 1 << 64), ("bool", 2), ("bool", -1)):
        x = np.array([0, 1], dtype)
        for side in ("left", "right"):
            same(parascan.searchsorted(x, value, side=side), np.int64(2 if value > 0 else 0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_histogram(dtype):
    x = random((100, 100), dtype)
    edges = np.unique(random(20, dtype)[:15])
    edges = edges[np.isfinite(edges)] if x.dtype.kind == "f" else edges
    same(parascan.histogram(x, edges), np.histogram(x[~np.isnan(x.astype(float))], edges)[0])
    same(parascan.histogram(x[:0], edges), np.zeros(len(edges) - 1, "int64"))


# ---- arrays


def test_forms():
    for dtype in ("float32", "int64", "uint8"):
        x = random((30, 20), dtype, small=True)
        for form in forms(x):
            same(parascan.cumulative_sum(form, axis=0, dtype=dtype), np.cumsum(x, 0, dtype=dtype))
            same(parascan.sort(form, axis=1), np.sort(x, 1))
            same(parascan.unique_values(form), np.unique(x))
            same(parascan.nonzero(form)[1], np.nonzero(x)[1])
            same(parascan.compact(form, form > 0), x[x > 0])
            same(form, x)


def test_memory_of_few_selected():
    x = np.zeros(1000)
    x[:5] = 1
    assert parascan.compact(x).base is None  # not a view of memory for 1000
    assert parascan.topk(x, 5).indices.base is None


def test_strides_of_cuda_arrays():
    from parascan._arrays import Interface

    def interface(shape, strides):
        told = {"data": (0, False), "shape": shape, "typestr": "<f4", "strides": strides, "version": 3}
        return Interface(type("Array", (), {"__cuda_array_interface__": told})())

    for shape, strides in (((3, 4), None), ((3, 4), (16, 4)), ((3, 1), (4, 77)), ((1, 4), (7, 4)), ((0, 4), (5, 5))):
        assert interface(shape, strides).shape == shape
    for strides in ((4, 12), (32, 8), (16, -4)):
        with pytest.raises(ValueError, match="contiguous"):
            interface((3, 4), strides)


def test_calls_in_a_forked_process():
    x = random(1 << 22, "float32")
    expected = parascan.sort(x)  # starts the threads of this process
    process = os.fork()
    if process == 0:
        signal.alarm(60)
        agrees = all(np.array_equal(parascan.sort(x), expected, equal_nan=True) for _ in range(2))
        found = parascan.searchsorted(expected[np.isfinite(expected)], x)
        os._exit(0 if agrees and found.shape == x.shape else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_other_threads_run_meanwhile():
    x, started, order = random(1 << 23, "float32"), threading.Event(), []

    def work():
        started.set()
        parascan.sort(x)
        order.append("sorted")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nothing takes the GIL from a thread that does not release it
    try:
        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        order.append("meanwhile")
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert order == ["meanwhile", "sorted"]


def test_threads():
    arrays = [random(200_000, "int32") for _ in range(4)]
    got = [None] * len(arrays)

    def work(k):
        got[k] = parascan.sort(parascan.cumulative_sum(arrays[k], dtype="int32"))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, result in zip(arrays, got):
        same(result, np.sort(np.cumsum(x, dtype="int32")))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_a_writer_meanwhile(dtype):
    """Another thread writes the array during the calls: results are unspecified, but no other memory is."""
    n, over = 1 << 20, threading.Event()
    x, others = random(n, dtype), [random(n, dtype), np.zeros(n, dtype)]

    def write():
        while not over.is_set():
            for other in others:
                x[:] = other

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(8):
            got = parascan.sort(x)
            assert (got[1:] >= got[:-1]).all()
            same(np.sort(parascan.argsort(x)), np.arange(n))
            keys, sums = parascan.group_by(x, np.ones(n, "int64"))
            assert (keys[1:] > keys[:-1]).all() and sums.sum() == n
    finally:
        over.set()
        writer.join()


def test_an_operator_does_not_write_its_input():
    def twin(a, b):
        a[...] = np.maximum(a, b)
        return a

    x = random(100, "float32")
    before = x.copy()
    operator = parascan.Operator("a > b ? a : b", numpy=twin, identity=-np.inf)
    for call in (lambda: parascan.scan(operator, x), lambda: operator.check(x[:8])):
        with pytest.raises(ValueError, match="read-only"):
            call()
    same(x, before)


class Traced:
    """What stands for an array while a library traces a function: it has no items."""

    shape, dtype = (3,), np.dtype("float32")

    def __dlpack__(self, **_options):
        raise AssertionError("it has no items")


@pytest.mark.parametrize(
    "error, call",
    [
        (TypeError, lambda: parascan.sort([1, 2])),
        (TypeError, lambda: parascan.nonzero([1, 2])),
        (TypeError, lambda: parascan.sort(Traced())),
        (TypeError, lambda: parascan.searchsorted(np.zeros(3), np.zeros(4), sorter=np.ones(3, bool))),
        (ValueError, lambda: parascan.searchsorted(np.zeros(3), np.zeros(4), sorter=np.array([1]))),
        (ValueError, lambda: parascan.searchsorted(np.zeros(3), np.zeros(4), sorter=np.zeros((1, 3), int))),
        (ValueError, lambda: parascan.sort(np.float32(1))),
        (TypeError, lambda: parascan.sort(np.zeros(3, complex))),
        (TypeError, lambda: parascan.sort(np.zeros(3, ">f8"))),
        (TypeError, lambda: parascan.sort(np.array(["a"]))),
        (TypeError, lambda: parascan.sort(np.ma.masked_array([1, 2], [0, 1]))),
        (TypeError, lambda: parascan.compact(np.matrix([[1, 0], [0, 2]]))),
        (TypeError, lambda: parascan.scan("and", np.zeros(3))),
        (TypeError, lambda: parascan.scan("and", np.zeros(0))),
        (TypeError, lambda: parascan.scan("sum", np.zeros(0), initial="one")),
        (ValueError, lambda: parascan.scan("last", np.zeros(0), exclusive=True)),
        (TypeError, lambda: parascan.scan("sum", np.zeros(3), initial="one")),
        (TypeError, lambda: parascan.compact(np.zeros(3), np.zeros(3))),
        (TypeError, lambda: parascan.segmented_scan("sum", np.zeros(3), offsets=np.zeros(3))),
        (TypeError, lambda: parascan.segmented_scan("sum", np.zeros(3), heads=np.zeros(3))),
        (TypeError, lambda: parascan.cumulative_sum(np.zeros(3), None)),
        (OverflowError, lambda: parascan.scan("sum", np.zeros(3, "int8"), initial=128)),
        (ValueError, lambda: parascan.scan("mean", np.zeros(3))),
        (ValueError, lambda: parascan.scan("last", np.zeros(3), exclusive=True)),
        (ValueError, lambda: parascan.cumulative_sum(np.zeros((2, 2)))),
        (ValueError, lambda: parascan.cumulative_sum(np.zeros(()))),
        (ValueError, lambda: parascan.nonzero(np.zeros(()))),
        (ValueError, lambda: parascan.sort(np.zeros((2, 2)), axis=2)),
        (ValueError, lambda: parascan.topk(np.zeros(3), 4)),
        (ValueError, lambda: parascan.compact(np.zeros(3), np.zeros(4, bool))),
        (ValueError, lambda: parascan.segmented_scan("sum", np.zeros(3))),
        (ValueError, lambda: parascan.segmented_scan("sum", np.zeros(3), heads=np.zeros(2, bool))),
        (ValueError, lambda: parascan.segmented_reduce("sum", np.zeros(3), offsets=np.array([0, 2, 1, 3]))),
        (ValueError, lambda: parascan.segmented_sort(np.zeros((3, 3)), offsets=np.array([0, 3]))),
        (ValueError, lambda: parascan.group_by(np.zeros(3), np.zeros(4))),
        (ValueError, lambda: parascan.searchsorted(np.zeros(3), np.zeros(4), side="middle")),
        (ValueError, lambda: parascan.histogram(np.zeros(3), np.zeros(1))),
        (ValueError, lambda: parascan.histogram(np.zeros(3), np.array([3.0, 1.0, 2.0]))),
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_errors(error, call):
    with pytest.raises(error):
        call()


def test_lists_are_no_arrays():
    x = np.arange(3)
    for call in (
        lambda: parascan.compact(x, [1, 0, 1]),
        lambda: parascan.segmented_scan("sum", x, offsets=[0, 3]),
        lambda: parascan.histogram(x, [0, 1]),
        lambda: parascan.group_by(x, [1, 2, 3], "sum"),
        lambda: parascan.searchsorted(x, 2.5),  # it has no place among integers
    ):
        with pytest.raises(TypeError):
            call()
