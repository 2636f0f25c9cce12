"""Parallel primitives for CUDA GPUs and the CPU: scan, reduce, sort, selections, sets, by segment too.

Contiguous arrays of numpy, torch, cupy, jax and of every library with DLPack or `__cuda_array_interface__` are
taken without a copy: those of torch and cupy on their library's current stream, others on the legacy default
stream, where each call waits for its result. A result is an array of the same library.

>>> import numpy, parascan
>>> parascan.cumulative_sum(numpy.array([3, 1, 4]))
array([3, 4, 8])
>>> parascan.scan("max", numpy.array([2.0, 1.0, 4.0]))
array([2., 2., 4.])

`help(parascan.scan)` and so on give shapes and dtypes; `python -m parascan` prints what it finds on this machine.
"""

import ctypes
import importlib.util
import os
from pathlib import Path


def _driver():
    """The CUDA major of the driver, which takes the kernels of no newer compiler."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 99  # nothing is compiled
    return version.value // 1000


def _find_compiler():
    """Names the newest NVRTC of the installed packages that the driver takes, unless something names another."""
    if os.environ.get("PARASCAN_NVRTC") or (spec := importlib.util.find_spec("nvidia")) is None:
        return
    driver = _driver()
    for folder in map(Path, spec.submodule_search_locations or ()):
        found = {int(path.suffix[1:]): path for path in folder.glob("*/lib/libnvrtc.so.1[0-9]")}
        if usable := [major for major in found if major <= driver]:
            os.environ["PARASCAN_NVRTC"] = str(found[max(usable)])
            return


_find_compiler()

from ._native import VERSION as __version__  # noqa: E402
from ._functions import (  # noqa: E402
    Groups,
    RunLengths,
    TopK,
    UniqueCounts,
    UniqueInverse,
    argsort,
    compact,
    cumulative_prod,
    cumulative_sum,
    group_by,
    histogram,
    nonzero,
    partition,
    reduce,
    run_length,
    scan,
    searchsorted,
    segmented_reduce,
    segmented_scan,
    segmented_sort,
    sort,
    topk,
    unique_counts,
    unique_inverse,
    unique_values,
)
from ._operator import Operator  # noqa: E402

__all__ = [
    "Groups",
    "Operator",
    "RunLengths",
    "TopK",
    "UniqueCounts",
    "UniqueInverse",
    "argsort",
    "compact",
    "cumulative_prod",
    "cumulative_sum",
    "group_by",
    "histogram",
    "nonzero",
    "partition",
    "reduce",
    "run_length",
    "scan",
    "searchsorted",
    "segmented_reduce",
    "segmented_scan",
    "segmented_sort",
    "sort",
    "topk",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
