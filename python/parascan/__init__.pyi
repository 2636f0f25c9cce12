from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

class _Array(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

# An array of numpy, torch, cupy, jax, or of a library with DLPack or `__cuda_array_interface__`. The arrays of a
# call and its results are of one library and lie in the same memory.
_A = TypeVar("_A", bound=_Array)

_Name = Literal["sum", "product", "max", "min", "and", "or", "xor", "last"]

__version__: str

class Operator:
    cuda: str
    numpy: Callable[[Any, Any], Any]
    identity: float | None
    def __init__(self, cuda: str, numpy: Callable[[Any, Any], Any], *, identity: float | None = None) -> None: ...
    def check(self, sample: _Array, /, *, rtol: float = 0.0) -> None: ...

# The fields of these tuples are arrays of the library of the argument.
class UniqueCounts(NamedTuple):
    values: Any
    counts: Any

class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any

class TopK(NamedTuple):
    values: Any
    indices: Any

class RunLengths(NamedTuple):
    values: Any
    lengths: Any

class Groups(NamedTuple):
    keys: Any
    values: Any

def scan(
    op: _Name | Operator,
    x: _A,
    /,
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: float | None = None,
) -> _A: ...
def reduce(
    op: _Name | Operator, x: _A, /, *, axis: int | None = None, initial: float | None = None, keepdims: bool = False
) -> _A: ...
def cumulative_sum(
    x: _A, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> _A: ...
def cumulative_prod(
    x: _A, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> _A: ...
def segmented_scan(
    op: _Name,
    x: _A,
    /,
    *,
    offsets: _A | None = None,
    heads: _A | None = None,
    keys: _A | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: float | None = None,
) -> _A: ...
def segmented_reduce(
    op: _Name,
    x: _A,
    /,
    *,
    offsets: _A | None = None,
    heads: _A | None = None,
    keys: _A | None = None,
    initial: float | None = None,
) -> _A: ...
def segmented_sort(
    x: _A,
    /,
    *,
    offsets: _A | None = None,
    heads: _A | None = None,
    keys: _A | None = None,
    descending: bool = False,
) -> _A: ...
def sort(x: _A, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> _A: ...
def argsort(x: _A, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> _A: ...
def topk(x: _A, k: int, /, *, axis: int = -1, largest: bool = True) -> TopK: ...
def compact(x: _A, mask: _A | None = None, /) -> _A: ...
def partition(x: _A, mask: _A | None = None, /) -> tuple[_A, int]: ...
def nonzero(x: _A, /) -> tuple[_A, ...]: ...
def unique_values(x: _A, /) -> _A: ...
def unique_counts(x: _Array, /) -> UniqueCounts: ...
def unique_inverse(x: _Array, /) -> UniqueInverse: ...
def run_length(x: _Array, /) -> RunLengths: ...
def group_by(keys: _Array, values: _Array, /, op: _Name = "sum") -> Groups: ...
def searchsorted(
    x1: _A, x2: _A | float, /, *, side: Literal["left", "right"] = "left", sorter: _A | None = None
) -> _A: ...
def histogram(x: _A, edges: _A, /) -> _A: ...
