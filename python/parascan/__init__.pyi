from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

class _Array(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

# An array of numpy, torch, cupy, jax, or of a library with DLPack or `__cuda_array_interface__`. The arrays of a
# call and its results are of one library and lie in the same memory. `Any` stands for an array whose dtype may differ
# from that of the argument.
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
    x: _Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any: ...
def cumulative_prod(
    x: _Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any: ...
def segmented_scan(
    op: _Name,
    x: _A,
    /,
    *,
    offsets: _Array | None = None,
    heads: _Array | None = None,
    keys: _Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: float | None = None,
) -> _A: ...
def segmented_reduce(
    op: _Name,
    x: _A,
    /,
    *,
    offsets: _Array | None = None,
    heads: _Array | None = None,
    keys: _Array | None = None,
    initial: float | None = None,
) -> _A: ...
def segmented_sort(
    x: _A,
    /,
    *,
    offsets: _Array | None = None,
    heads: _Array | None = None,
    keys: _Array | None = None,
    descending: bool = False,
) -> _A: ...
def sort(x: _A, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> _A: ...
def argsort(x: _Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any: ...
def topk(x: _A, k: int, /, *, axis: int = -1, largest: bool = True) -> TopK: ...
def compact(x: _A, mask: _Array | None = None, /) -> _A: ...
def partition(x: _A, mask: _Array | None = None, /) -> tuple[_A, int]: ...
def nonzero(x: _Array, /) -> tuple[Any, ...]: ...
def unique_values(x: _A, /) -> _A: ...
def unique_counts(x: _Array, /) -> UniqueCounts: ...
def unique_inverse(x: _Array, /) -> UniqueInverse: ...
def run_length(x: _Array, /) -> RunLengths: ...
def group_by(keys: _Array, values: _Array, /, op: _Name = "sum") -> Groups: ...
def searchsorted(
    x1: _Array, x2: _Array | float, /, *, side: Literal["left", "right"] = "left", sorter: _Array | None = None
) -> Any: ...
def histogram(x: _Array, edges: _Array, /) -> Any: ...
