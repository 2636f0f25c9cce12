"""The functions of the package: their arguments are checked here, and their work is done by `_native`."""

import operator
from collections import namedtuple
from math import prod

import numpy

from . import _native
from ._arrays import name_of, place_of
from ._operator import Operator

#: The operators by name.
OPERATORS = {
    "sum": "Sum",
    "product": "Product",
    "max": "Max",
    "min": "Min",
    "and": "BitAnd",
    "or": "BitOr",
    "xor": "BitXor",
    "last": "Last",
}

UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")
TopK = namedtuple("TopK", "values indices")
RunLengths = namedtuple("RunLengths", "values lengths")
Groups = namedtuple("Groups", "keys values")


# ---- arguments ----------------------------------------------------------------------------------


def _axis(x, axis):
    dimensions = len(x.shape)
    if axis is None:
        if dimensions != 1:
            raise ValueError(f"axis is needed: the array has {dimensions} axes")
        return 0
    number = operator.index(axis)
    if not -dimensions <= number < dimensions:
        raise ValueError(f"axis {number} is none of the {dimensions} axes of the array")
    return number % dimensions


def _operator(op):
    if isinstance(op, Operator):
        return op
    try:
        return OPERATORS[op]
    except (KeyError, TypeError):
        names = ", ".join(map(repr, OPERATORS))
        raise ValueError(f"{op!r} is no operator: there are {names}, and parascan.Operator") from None


def _of_bool(op, dtype, initial):
    """The initial value of a call: for booleans one with which all results are 0 or 1."""
    if name_of(dtype) != "bool":
        return initial
    if isinstance(op, Operator):
        raise TypeError("an operator of your own on bool may make other bytes than 0 and 1: convert the array")
    if op == "Sum":
        raise TypeError("sums of bool are no bool: cumulative_sum makes integers, or convert the array")
    if initial is None:
        return 1 if op in ("Min", "BitAnd") else None  # the identity of their bytes is 255
    return int(bool(initial))


def _one_axis(x, what):
    if len(x.shape) != 1:
        raise ValueError(f"{what} must have one axis, and has the shape {tuple(x.shape)}")


class _Lines:
    """The lines of an array along an axis, as rows or columns of a contiguous array."""

    def __init__(self, place, x, axis, columns):
        self.shape = shape = tuple(x.shape)
        self.back, self.length, self.segments = None, shape[axis], None
        if len(shape) > 1:
            inner = prod(shape[axis + 1 :])
            if inner == 1:
                self.segments = "rows", self.length
            elif columns and prod(shape[:axis]) == 1:
                self.segments = "columns", inner
            else:
                axes = list(range(len(shape)))
                axes.append(axes.pop(axis))
                x = place.permute(x, axes)
                self.segments = "rows", self.length
                self.back = [axes.index(k) for k in range(len(axes))]
                self.shape = tuple(x.shape)
        self.x = place.input(x)

    def result(self, place, output, dtype):
        """The array of an output with this one's shape."""
        output = place.array(output, dtype)
        return output if self.back is None else place.permute(output, self.back)


def _flat(place, x, what=None, shape=None):
    """The items of an array, in one axis; `shape` is that of the array that they belong to."""
    if shape is not None and tuple(x.shape) != tuple(shape):
        raise ValueError(f"{what} has the shape {tuple(x.shape)}, and the array {tuple(shape)}")
    return place.input(x if len(x.shape) == 1 else place.reshape(x, (-1,)))


def _mask(place, mask, shape):
    if mask is None:
        return None, None
    place.check(mask)
    if name_of(mask.dtype) not in ("bool", "uint8"):
        raise TypeError(f"a mask is of bool or uint8, and this one of {mask.dtype}")
    mask = _flat(place, mask, "the mask", shape)
    return mask, place.buffer(mask)


def _segments(place, n, offsets, heads, keys):
    """The segments of a call, and the array that tells them, which must live as long."""
    given = [(kind, x) for kind, x in (("offsets", offsets), ("heads", heads), ("keys", keys)) if x is not None]
    if len(given) != 1:
        raise ValueError("one of offsets, heads and keys is needed")
    ((kind, x),) = given
    place.check(x)
    _one_axis(x, kind)
    if kind == "heads" and name_of(x.dtype) not in ("bool", "uint8"):
        raise TypeError(f"heads are of bool or uint8, and these of {x.dtype}")
    if kind == "offsets" and name_of(x.dtype) not in ("int32", "int64", "uint32", "uint64"):
        raise TypeError(f"offsets are of int32, int64, uint32 or uint64, and these of {x.dtype}")
    if kind != "offsets" and x.shape[0] != n:
        raise ValueError(f"{kind} has {x.shape[0]} items, and the array {n}")
    x = place.input(x)
    return (kind, place.buffer(x)), x


# ---- scan and reduce ----------------------------------------------------------------------------


def scan(op, x, /, *, axis=None, exclusive=False, reverse=False, initial=None):
    """All prefixes of the items along an axis under an operator.

    x: any shape. Returns an array of the same shape and dtype. `op` is "sum", "product", "max", "min", "and",
    "or", "xor", "last" or an `Operator`. `axis` may be left out for one axis.

    Item i combines items 0 to i, or 0 to i - 1 if `exclusive`; from the last item on if `reverse`. `initial`
    is combined before the first item. An exclusive scan without it begins with the operator's identity.
    Integers wrap. NaN wins in "max" and "min".

    On the GPU it does not wait.
    """
    op, place = _operator(op), place_of(x)
    axis, dtype = _axis(x, axis), x.dtype
    initial = _of_bool(op, dtype, initial)
    lines = _Lines(place, x, axis, columns=isinstance(op, str))
    output = place.output_like(lines.x)
    source, target = place.buffer(lines.x), place.buffer(output)
    if isinstance(op, Operator):
        op.scan(place, lines.x, output, lines.length, exclusive, reverse, initial)
    elif source[1] > 0 or lines.segments is None:  # no items are checked, too
        place.run(_native.scan, op, source, target, lines.segments, exclusive, reverse, initial)
    return lines.result(place, output, dtype)


def reduce(op, x, /, *, axis=None, initial=None, keepdims=False):
    """The items along an axis combined under an operator, or all items without `axis`.

    x: any shape. Returns an array of the shape of `x` without the axis, or with length 1 there if `keepdims`;
    the dtype is that of `x`. `op` and `initial` are those of `scan`. A line without items is the identity,
    and a `ValueError` if the operator has none.

    On the GPU it does not wait.
    """
    op = _operator(op)
    place = place_of(x)
    shape = tuple(x.shape)
    if axis is None:
        kept, result = (1,) * len(shape), ()
        x, axis = place.reshape(x, (-1,)), 0
    else:
        axis = _axis(x, axis)
        result = shape[:axis] + shape[axis + 1 :]
        kept = shape[:axis] + (1,) + shape[axis + 1 :]
    lines = _Lines(place, x, axis, columns=isinstance(op, str))
    dtype = x.dtype
    initial = _of_bool(op, dtype, initial)
    count = prod(result)
    shape = kept if keepdims else result
    if isinstance(op, Operator):
        return place.reshape(op.reduce(place, lines.x, lines.length, count, dtype, initial), shape)
    output = place.output((count,), dtype)
    if count > 0:
        if op == "Last" and initial is None and lines.length == 0:
            raise ValueError("reduce: a line is empty, and the operator has no identity")
        segments = lines.segments
        if lines.length == 0 and segments is not None:
            # Rows of no items cannot be told from no rows; segments of no items can.
            offsets = place.input(place.full((count + 1,), 0, place.int64))
            segments = "offsets", place.buffer(offsets)
        place.run(_native.reduce, op, place.buffer(lines.x), place.buffer(output), segments, initial)
    return place.reshape(place.array(output, dtype), shape)


def _cumulative(op, x, axis, dtype, include_initial):
    place = place_of(x)
    axis = _axis(x, axis)
    if dtype is None:
        name = name_of(x.dtype)
        dtype = x.dtype
        if name in ("bool", "int8", "int16", "int32"):
            dtype = place.int64
        elif name in ("uint8", "uint16", "uint32"):
            dtype = place.uint64
    if x.dtype != dtype:
        x = place.astype(x, dtype)
    result = scan(op, x, axis=axis)
    if include_initial:
        shape = list(result.shape)
        shape[axis] = 1
        first = place.full(tuple(shape), 0 if op == "sum" else 1, result.dtype)
        result = place.concat([first, result], axis)
    return result


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The sums of the items along an axis up to each: the array API's function.

    x: any shape. Returns an array of the same shape, with one more item along the axis, 0, in front if
    `include_initial`. Without `dtype` integers and booleans are summed as 64-bit integers (torch: int64), and
    floats as they are; float16 and bfloat16 are carried as float32. Integers wrap.

    On the GPU it does not wait.
    """
    return _cumulative("sum", x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The products of the items along an axis up to each: the array API's function.

    Shapes and dtypes are those of `cumulative_sum`; the item in front is 1 if `include_initial`.
    """
    return _cumulative("product", x, axis, dtype, include_initial)


def segmented_scan(op, x, /, *, offsets=None, heads=None, keys=None, exclusive=False, reverse=False, initial=None):
    """A scan of each segment. Item 0 begins one; the items before the first offset are one, and so are those from the
    last offset on.

    x: shape (n,). Returns an array of shape (n,) and the same dtype. The options are those of `scan`;
    `op` is one of its names.

    Segments are told by one of: `offsets`, of s + 1 ascending items of int32, int64, uint32 or uint64, where
    segment i is the items from offset i up to offset i + 1; `heads`, of n items of bool or uint8, where a
    segment begins with each that is not zero; `keys`, of n items, where a segment is a run of equal bits.

    On the GPU it does not wait, and offsets are not checked: they ascend from 0 or more to at most n.
    """
    op, place = _catalog(op), place_of(x)
    _one_axis(x, "the array")
    segments, _told = _segments(place, x.shape[0], offsets, heads, keys)
    dtype = x.dtype
    initial = _of_bool(op, dtype, initial)
    x = place.input(x)
    output = place.output_like(x)
    place.run(_native.scan, op, place.buffer(x), place.buffer(output), segments, exclusive, reverse, initial)
    return place.array(output, dtype)


def segmented_reduce(op, x, /, *, offsets=None, heads=None, keys=None, initial=None):
    """The items of each segment combined under an operator.

    x: shape (n,). Returns an array of shape (s,) of the same dtype, for s segments. `op` is one of the names of
    `scan`. An empty segment is `initial`, else the identity; "last" has none, so that without `initial` it is an
    error on the CPU, and zero on the GPU.

    Segments are told by one of: `offsets`, of s + 1 ascending items of int32, int64, uint32 or uint64, where
    segment i is the items from offset i up to offset i + 1; `heads`, of n items of bool or uint8, where a
    segment begins with each that is not zero; `keys`, of n items, where a segment is a run of equal bits. Items
    in no segment are not read.

    On the GPU it waits for the number of segments that heads or keys tell, and does not wait with offsets.
    """
    op, place = _catalog(op), place_of(x)
    _one_axis(x, "the array")
    segments, _told = _segments(place, x.shape[0], offsets, heads, keys)
    dtype = x.dtype
    initial = _of_bool(op, dtype, initial)
    x = place.input(x)
    if segments[0] == "offsets":
        output = place.output((max(segments[1][1] - 1, 0),), dtype)
        place.run(_native.reduce, op, place.buffer(x), place.buffer(output), segments, initial)
        return place.array(output, dtype)
    output = place.output(tuple(x.shape), dtype)
    count = place.run(_native.reduce_runs, op, place.buffer(x), place.buffer(output), segments, initial)
    return place.first(place.array(output, dtype), count)


def _catalog(op):
    op = _operator(op)
    if isinstance(op, Operator):
        raise TypeError("operators of your own are for scan and reduce")
    return op


# ---- sort ---------------------------------------------------------------------------------------


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The items along an axis in ascending order; stable: the array API's function.

    x: any shape. Returns an array of the same shape and dtype. NaNs come last, -0 before 0; `descending`
    reverses this order. `stable` changes nothing.

    On the GPU it does not wait.
    """
    place = place_of(x)
    axis = _axis(x, axis)
    dtype = x.dtype
    lines = _Lines(place, x, axis, columns=False)
    output = place.output_like(lines.x)
    place.run(_native.sort, place.buffer(lines.x), place.buffer(output), _rows(lines), descending)
    return lines.result(place, output, dtype)


def _rows(lines):
    return None if lines.length == 0 else lines.segments


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort the items along an axis; stable: the array API's function.

    x: any shape. Returns an array of the same shape of int64. The order is that of `sort`; equal items keep
    their order, in a descending one too.

    On the GPU it does not wait.
    """
    place = place_of(x)
    axis = _axis(x, axis)
    lines = _Lines(place, x, axis, columns=False)
    output = place.output_like(lines.x, place.int64)
    segments = _rows(lines)
    columns = None if segments is None else segments[1]
    place.run(_native.argsort, place.buffer(lines.x), place.unsigned(output), columns, descending)
    return lines.result(place, output, place.int64)


def topk(x, k, /, *, axis=-1, largest=True):
    """The `k` greatest items along an axis, or the least, in order, and their indices.

    x: any shape. Returns `TopK(values, indices)`, with length k along the axis; indices are of int64. The order
    is that of `sort`, so NaN is the greatest, and -0 less than 0. Of equal items those with the least indices come
    first. It sorts all items.

    On the GPU it does not wait.
    """
    place = place_of(x)
    axis, k = _axis(x, axis), operator.index(k)
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"k is {k}, and the axis has {x.shape[axis]} items")
    order = argsort(x, axis=axis, descending=largest)
    indices = order[(slice(None),) * axis + (slice(k), ...)]
    if 4 * k < x.shape[axis]:
        indices = place.copy(indices)  # which keeps no other indices alive
    values = place.take_along(x, indices, axis)
    return TopK(values, indices)


def segmented_sort(x, /, *, offsets=None, heads=None, keys=None, descending=False):
    """The items of each segment in ascending order; stable.

    x: shape (n,). Returns an array of shape (n,) and the same dtype. The order is that of `sort`.

    Segments are told by one of: `offsets`, of s + 1 ascending items of int32, int64, uint32 or uint64, where
    segment i is the items from offset i up to offset i + 1; `heads`, of n items of bool or uint8, where a
    segment begins with each that is not zero; `keys`, of n items, where a segment is a run of equal bits.

    On the GPU it does not wait, and offsets are not checked: they ascend from 0 or more to at most n.
    """
    place = place_of(x)
    _one_axis(x, "the array")
    segments, _told = _segments(place, x.shape[0], offsets, heads, keys)
    dtype = x.dtype
    x = place.input(x)
    output = place.output_like(x)
    place.run(_native.sort, place.buffer(x), place.buffer(output), segments, descending)
    return place.array(output, dtype)


# ---- selections ---------------------------------------------------------------------------------


def _selected(call, x, mask):
    """What a selection writes, in an array as long as the items, and how many are selected."""
    place = place_of(x)
    shape, dtype = x.shape, x.dtype
    x = _flat(place, x)
    mask, flags = _mask(place, mask, shape)
    source, output = place.buffer(x), place.output_like(x)
    count = place.run(call, source, flags, place.buffer(output))
    return place, place.array(output, dtype), count


def compact(x, mask=None, /):
    """The items whose mask is set, or that are not zero without a mask, in their order.

    x: any shape; mask: the same shape, of bool or uint8. Returns an array of shape (count,) of the same dtype.

    On the GPU it waits for the count.
    """
    place, output, count = _selected(_native.select, x, mask)
    return place.first(output, count)


def partition(x, mask=None, /):
    """The items whose mask is set, or that are not zero without a mask, then the others, in their order.

    x: any shape of n items; mask: the same shape, of bool or uint8. Returns an array of shape (n,), and the
    number of the items before the others as an int.

    On the GPU it waits for that number.
    """
    _place, output, count = _selected(_native.partition, x, mask)
    return output, count


def nonzero(x, /):
    """The indices of the items that are not zero: the array API's function.

    x: any shape with at least one axis. Returns a tuple of arrays of shape (count,) of int64, one for each axis.

    On the GPU it waits for the count.
    """
    place = place_of(x)
    shape = tuple(x.shape)
    if not shape:
        raise ValueError("an array without axes has no indices")
    x = _flat(place, x)
    source, output = place.buffer(x), place.output_like(x, place.int64)
    count = place.run(_native.nonzero, source, place.unsigned(output))
    flat = place.first(place.array(output), count)
    if len(shape) == 1:
        return (flat,)
    indices = []
    for length in reversed(shape):
        length = max(length, 1)
        indices.append(flat % length)
        flat = flat // length
    return tuple(reversed(indices))


# ---- sets and groups ----------------------------------------------------------------------------


def unique_values(x, /):
    """The distinct items in ascending order: the array API's function.

    x: any shape. Returns an array of shape (count,) of the same dtype. No NaN equals another, and -0 equals 0.

    On the GPU it waits for the count.
    """
    place = place_of(x)
    dtype = x.dtype
    x = sort(place.reshape(x, (-1,)))
    source = place.input(x)
    output = place.output_like(source)
    count = place.run(_native.unique, place.buffer(source), place.buffer(output), None)
    return place.first(place.array(output, dtype), count)


def _runs(place, x):
    """The first item of each run of equal items, and where the runs begin, with the number of items."""
    dtype = x.dtype
    n = x.shape[0]
    source = place.input(x)
    output, starts = place.output((n,), dtype), place.output((n,), place.int64)
    count = place.run(_native.unique, place.buffer(source), place.buffer(output), place.unsigned(starts))
    values, starts = place.first(place.array(output, dtype), count), place.array(starts)[:count]
    return values, place.concat([starts, place.full((1,), n, place.int64)])


def run_length(x, /):
    """The first item of each run of equal neighbours, and the length of the run.

    x: shape (n,). Returns `RunLengths(values, lengths)` of shape (runs,); lengths are of int64. Items are
    compared as by `unique_values`.

    On the GPU it waits for the number of runs.
    """
    place = place_of(x)
    _one_axis(x, "the array")
    values, starts = _runs(place, x)
    return RunLengths(values, starts[1:] - starts[:-1])


def unique_counts(x, /):
    """The distinct items in ascending order, and how often each occurs: the array API's function.

    x: any shape. Returns `UniqueCounts(values, counts)` of shape (count,); counts are of int64.

    On the GPU it waits for the count.
    """
    x = place_of(x).reshape(x, (-1,))
    return UniqueCounts(*run_length(sort(x)))


def unique_inverse(x, /):
    """The distinct items in ascending order, and for each item of `x` its index among them: the array
    API's function.

    x: any shape. Returns `UniqueInverse(values, inverse_indices)` of shape (count,) and of the shape of `x`; the
    indices are of int64. It sorts twice.

    On the GPU it waits for the count.
    """
    place = place_of(x)
    shape = tuple(x.shape)
    x = place.reshape(x, (-1,))
    n = x.shape[0]
    order = argsort(x)
    values, starts = _runs(place, place.take(x, order))
    starts = place.input(starts)
    # The rank of each item of the sorted order. Sorted by source index, they are in the order of the items.
    ranks = place.output((n,), place.int64)
    place.run(_native.expand, place.unsigned(starts), place.unsigned(ranks))
    inverse, indices = place.output((n,), place.int64), place.output((n,), place.int64)
    order = place.input(order)
    pairs = place.unsigned(order), place.unsigned(ranks), place.unsigned(indices), place.unsigned(inverse)
    place.run(_native.sort_pairs, *pairs, max(n - 1, 1).bit_length())
    return UniqueInverse(values, place.reshape(place.array(inverse), shape))


def group_by(keys, values, /, op="sum"):
    """The distinct keys in ascending order, and the values of each combined under an operator.

    keys, values: shape (n,). Returns `Groups(keys, values)` of shape (groups,). `op` is one of the names of
    `scan`. Values of a key are combined in their order, so sums of floats have the same bits in every run. The keys
    -0 and 0 are one group, of 0.

    On the GPU it waits for the number of groups.
    """
    place = place_of(keys)
    place.check(values)
    _one_axis(keys, "the array of keys")
    if tuple(values.shape) != tuple(keys.shape):
        raise ValueError(f"the values have the shape {tuple(values.shape)}, and the keys {tuple(keys.shape)}")
    key_dtype, dtype = keys.dtype, values.dtype
    if "float" in name_of(key_dtype):
        keys = keys + 0  # -0 becomes 0: the sort has them in that order, and they are one group
    keys, values = place.input(keys), place.input(values)
    sorted_keys, sorted_values = place.output(keys.shape, key_dtype), place.output(values.shape, dtype)
    arrays = keys, values, sorted_keys, sorted_values
    place.run(_native.sort_pairs, *map(place.buffer, arrays), None)
    groups, starts = _runs(place, place.array(sorted_keys, key_dtype))
    return Groups(groups, segmented_reduce(op, place.array(sorted_values, dtype), offsets=starts))


# ---- search -------------------------------------------------------------------------------------


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """The indices at which values would be inserted into sorted items: the array API's function.

    x1: shape (n,), ascending, or made so by the indices `sorter`; x2: any shape, or a number. Returns an array
    of the shape of `x2` of int64: the number of items of `x1` that are less than the value, or not greater for
    `side="right"`. NaN is greater than all numbers. Two dtypes are compared as the one to which the library converts
    both, which may round.

    On the GPU it does not wait. Its kernel is compiled at run time, by NVRTC.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', and not {side!r}")
    place = place_of(x1)
    _one_axis(x1, "the sorted array")
    if sorter is not None:
        place.check(sorter)
        if tuple(sorter.shape) != tuple(x1.shape):
            raise ValueError(f"the sorter has the shape {tuple(sorter.shape)}, and the items {tuple(x1.shape)}")
        if "int" not in name_of(sorter.dtype):
            raise TypeError(f"the sorter's indices are integers, and not {sorter.dtype}")
        x1 = place.take(x1, sorter)
    if isinstance(x2, numpy.generic):  # has a type of its own, as an array has
        x2 = place.like(numpy.asarray(x2), x1)
    if isinstance(x2, float) and "float" not in name_of(x1.dtype):
        raise TypeError(f"the items are of {x1.dtype}, and the value is a float")
    if isinstance(x2, int):
        x2, side = _within(name_of(x1.dtype), x2, side)
    if isinstance(x2, (int, float)):
        x2 = place.full((), x2, x1.dtype)
    place.check(x2)
    if x1.dtype != x2.dtype:
        dtype = place.common(x1, x2)
        x1, x2 = place.astype(x1, dtype), place.astype(x2, dtype)
    shape = tuple(x2.shape)
    x1, x2 = place.input(x1), place.input(x2)
    output = place.output(shape, place.int64)
    place.run(_native.search, place.buffer(x1), place.buffer(x2), place.buffer(output), side == "right")
    return place.array(output)


def _within(name, value, side):
    """An integer that the dtype holds, and the side on which it has the place of `value` among sorted items."""
    if "float" in name:
        return value, side
    least, greatest = (0, 1) if name == "bool" else (numpy.iinfo(name).min, numpy.iinfo(name).max)
    if value > greatest:
        return greatest, "right"
    if value < least:
        return least, "left"
    return value, side


def histogram(x, edges, /):
    """How many items lie between each two neighbouring edges.

    x: any shape; edges: shape (bins + 1,), ascending, of the same dtype. Returns an array of shape (bins,) of
    int64. An item belongs to bin i if edges[i] <= item < edges[i + 1]; an item that equals the last edge belongs
    to the last bin. Others, and NaN, are not counted. It sorts the items. On the CPU edges that do not ascend are a
    `ValueError`; on the GPU the counts are unspecified then.

    On the GPU it does not wait. Its kernel is compiled at run time, by NVRTC.
    """
    place = place_of(x)
    place.check(edges)
    _one_axis(edges, "the array of edges")
    if edges.shape[0] < 2:
        raise ValueError("a histogram has at least two edges")
    if place.is_host and name_of(edges.dtype) != "bfloat16":
        on_host = place.on_host(place.input(edges))
        if (on_host[1:] < on_host[:-1]).any():
            raise ValueError("the edges of a histogram ascend")
    x = sort(place.reshape(x, (-1,)))
    begins = searchsorted(x, edges[:-1])
    ends = place.concat([begins[1:], searchsorted(x, edges[-1:], side="right")])
    return ends - begins
