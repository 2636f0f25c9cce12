"""A namespace for the array API's test suite: a library's, with the functions of this package.

    python python/tests/array_api.py SUITE [numpy | array_api_strict]

runs the part of the suite (a checkout of data-apis/array-api-tests, with its submodule) that covers these
functions. Complex arrays, which the package does not take, are left out.
"""

import functools
import importlib
import os
import re
import sys

import hypothesis
import pytest

import parascan

FUNCTIONS = [
    "argsort",
    "cumulative_prod",
    "cumulative_sum",
    "nonzero",
    "searchsorted",
    "sort",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

_base = importlib.import_module(os.environ.get("PARASCAN_ARRAY_API_BASE", "numpy"))
globals().update({name: getattr(_base, name) for name in dir(_base) if not name.startswith("__")})
__array_namespace_info__ = _base.__array_namespace_info__


def _real(function):
    @functools.wraps(function)
    def call(x, /, *arguments, **options):
        if "complex" in str(x.dtype):
            hypothesis.reject()
        return function(x, *arguments, **options)

    return call


globals().update({name: _real(getattr(parascan, name)) for name in FUNCTIONS})


class Part:
    """The tests of these functions."""

    names = re.compile(rf"test_({'|'.join(FUNCTIONS)})(_zerodim_error|_with_scalars)?$")
    cases = re.compile(rf"\W({'|'.join(FUNCTIONS)})\b")

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self.names.match(item.name) or self.cases.search(item.name)]


def main(suite, base="numpy", *arguments):
    os.environ.update(PARASCAN_ARRAY_API_BASE=base, ARRAY_API_TESTS_MODULE="array_api")
    os.chdir(suite)
    sys.path.insert(0, suite)
    return pytest.main(["-q", "array_api_tests", *arguments], plugins=[Part()])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
