"""The arrays of other libraries: where they lie, their addresses, new ones of the same kind.

A `Place` is one library and one stream of a device, or the host. It makes the outputs of a call by the
library's own allocator. So a result is the library's array, in its memory pool, in the order of its current
stream. Libraries other than numpy, torch and cupy are reached by DLPack.
"""

import sys

import numpy

from . import _native

#: The index of each type in `_native.TYPES`, by the name that array libraries give it.
_CODES = {
    name: _native.TYPES.index(of)
    for name, of in [
        ("float32", "f32"),
        ("float64", "f64"),
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("int8", "i8"),
        ("int16", "i16"),
        ("int32", "i32"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("uint16", "u16"),
        ("uint32", "u32"),
        ("uint64", "u64"),
        ("bool", "u8"),
    ]
}
_NUMPY = {code: numpy.dtype(name).str for name, code in _CODES.items() if name not in ("bfloat16", "bool")}
_UNSIGNED = {_CODES["int32"]: _CODES["uint32"], _CODES["int64"]: _CODES["uint64"]}
_names, _codes = {}, {}


def name_of(dtype):
    """The name of a library's dtype: "float32"."""
    key = type(dtype), dtype  # dtypes of two libraries are not compared
    try:
        return _names[key]
    except KeyError:
        return _names.setdefault(key, str(dtype).rpartition(".")[2])


def code_of(dtype):
    """The index of a library's dtype in `_native.TYPES`."""
    key = type(dtype), dtype
    try:
        return _codes[key]
    except KeyError:
        code = _CODES.get(name_of(dtype))
    if code is None:
        raise TypeError(f"arrays of {dtype} are not supported")
    return _codes.setdefault(key, code)


def place_of(x):
    """The place of an array."""
    kind = type(x)
    place = _PLACES.get(kind)
    if place is not None:
        return place(x)
    for base in kind.__mro__:
        library = (base.__module__.partition(".")[0], base.__name__)
        if library in _LIBRARIES:
            _PLACES[kind] = _LIBRARIES[library]
            break
    else:
        if not hasattr(kind, "__dlpack__") and not hasattr(kind, "__cuda_array_interface__"):
            raise TypeError(f"an array is expected, and found {kind.__module__}.{kind.__qualname__}")
        _PLACES[kind] = _other
    return _PLACES[kind](x)


_PLACES = {}
_HOST = _native.Site()


class _Items:
    """Items of host memory, for numpy. It keeps their owner alive, and numpy's array keeps it."""

    def __init__(self, address, shape, dtype, owner):
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": shape, "typestr": dtype}


class Place:
    """The functions of a library whose names and calls are numpy's, for arrays at one place."""

    def __init__(self, xp, site):
        self.xp, self.site = xp, site
        self.uint8, self.int64, self.uint64 = xp.uint8, xp.int64, xp.uint64

    @property
    def is_host(self):
        return self.site is _HOST

    # ---- calls

    def run(self, call, *arguments):
        """Runs a call of `_native` here."""
        return call(self.site, *arguments)

    def input(self, x):
        """An array that lies here, contiguous: itself if it is."""
        if type(x) is not numpy.ndarray:
            x = numpy.asarray(x)
        flags = x.flags
        if not (flags.c_contiguous and flags.aligned):
            x = numpy.require(x, requirements="CA")
        return x

    def check(self, x):
        """Raises unless the array lies here."""
        if place_of(x) is not self:
            raise ValueError("the arrays of a call must be of one library and lie in the same memory")

    def buffer(self, x):
        """The address, the number of items and the type of a contiguous array."""
        return x.__array_interface__["data"][0], x.size, code_of(x.dtype)

    def unsigned(self, x):
        """`buffer` of indices, as unsigned integers."""
        address, size, code = self.buffer(x)
        return address, size, _UNSIGNED[code]

    def output(self, shape, dtype):
        """New memory for the items of an array."""
        return self.xp.empty(shape, dtype)

    def output_like(self, x, dtype=None):
        """New memory for as many items as what `input` has returned, of the same dtype without `dtype`."""
        return self.xp.empty_like(x, dtype=dtype)

    def array(self, x, dtype=None):
        """The array of the library in what `output` has made with this dtype."""
        return x

    def first(self, x, n):
        """The first `n` items of an output with one axis. It keeps at most four times their memory."""
        if 4 * n < x.shape[0]:
            return self.copy(x[:n])
        return x[:n]

    # ---- the library

    def copy(self, x):
        return x.copy()

    def full(self, shape, value, dtype):
        return self.xp.full(shape, value, dtype)

    def concat(self, arrays, axis=0):
        return self.xp.concatenate(arrays, axis)

    def permute(self, x, axes):
        return x.transpose(axes)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def astype(self, x, dtype):
        return x.astype(dtype)

    def take(self, x, indices):
        return x[indices]

    def take_along(self, x, indices, axis):
        return self.xp.take_along_axis(x, indices, axis)

    def common(self, x, y):
        """The dtype to which both arrays are converted."""
        return self.xp.result_type(x.dtype, y.dtype)

    def on_host(self, x):
        """A numpy array of the items of what `input` or `output` has made, on the host without a copy."""
        address, _, code = self.buffer(x)
        if _native.TYPES[code] == "bf16":
            raise TypeError("numpy has no bfloat16")
        return numpy.asarray(_Items(address, tuple(x.shape), _NUMPY[code], x))

    def like(self, items, x):
        """An array of the items of a numpy array, here; `x` is one that lies here."""
        return items


_numpy_place = Place(numpy, _HOST)


def _numpy(x):
    if isinstance(x, numpy.ma.MaskedArray):
        raise TypeError("masked arrays are not supported: fill them, or select by the mask")
    if isinstance(x, numpy.matrix):
        raise TypeError("matrices are not supported, as they always have two axes: take x.A")
    return _numpy_place


# ---- torch --------------------------------------------------------------------------------------


class Torch(Place):
    def __init__(self, xp, site, device):
        self.xp, self.site, self.device = xp, site, device
        # torch has few functions for unsigned integers beyond 8 bits, and sums all as int64.
        self.uint8, self.int64, self.uint64 = xp.uint8, xp.int64, xp.int64

    def input(self, x):
        if x.layout != self.xp.strided:
            raise TypeError(f"tensors of the layout {x.layout} are not supported")
        if x.requires_grad and self.xp.is_grad_enabled():
            raise ValueError("the tensor requires gradients, and the result would have none: detach it")
        if x.is_neg():
            x = x.resolve_neg()
        x = x.contiguous()
        return x if x.data_ptr() % x.itemsize == 0 else x.clone()

    def buffer(self, x):
        return x.data_ptr(), x.numel(), code_of(x.dtype)

    def output(self, shape, dtype):
        return self.xp.empty(shape, dtype=dtype, device=self.device)

    def allocate(self, size):
        memory = self.xp.empty(size, dtype=self.xp.uint8, device=self.device)
        return memory, memory.data_ptr()

    def first(self, x, n):
        if 4 * n < x.shape[0]:
            return self.copy(x[:n])
        return x.resize_(n)  # a third of the time of a view

    def copy(self, x):
        return x.clone()

    def full(self, shape, value, dtype):
        return self.xp.full(shape, value, dtype=dtype, device=self.device)

    def concat(self, arrays, axis=0):
        return self.xp.cat(arrays, axis)

    def permute(self, x, axes):
        return x.permute(axes)

    def astype(self, x, dtype):
        return x.to(dtype)

    def movable(self, x):
        """The same bits of a type that torch gathers: of unsigned integers it gathers bytes alone."""
        signed = {"torch.uint16": self.xp.int16, "torch.uint32": self.xp.int32, "torch.uint64": self.xp.int64}
        return x.view(signed.get(str(x.dtype), x.dtype))

    def take(self, x, indices):
        return self.movable(x)[indices].view(x.dtype)

    def take_along(self, x, indices, axis):
        return self.xp.take_along_dim(self.movable(x), indices, axis).view(x.dtype)

    def common(self, x, y):
        if x.dtype.is_floating_point != y.dtype.is_floating_point:
            return self.xp.float64  # torch takes the type of the floats, which may round the integers
        return self.xp.promote_types(x.dtype, y.dtype)

    def on_host(self, x):
        return super().on_host(x.cpu())

    def like(self, items, x):
        return self.xp.from_numpy(items).to(self.device)


_torch_places = {}


def _torch(x):
    torch = sys.modules["torch"]
    if x.is_cuda:
        device = x.get_device()
        # The handle alone: `torch.cuda.current_stream` makes an object.
        key = device, torch._C._cuda_getCurrentRawStream(device)
    elif x.device.type == "cpu":
        key = None
    else:
        raise TypeError(f"tensors on {x.device} are not supported")
    try:
        return _torch_places[key]
    except KeyError:
        place = Torch(torch, _HOST, x.device)
    if key is not None:
        place.site = _native.Site(*key, place.allocate)
    return _torch_places.setdefault(key, place)


# ---- cupy ---------------------------------------------------------------------------------------


class Cupy(Place):
    def __init__(self, xp, device, stream):
        super().__init__(xp, None)
        self.site = _native.Site(device, stream, self.allocate)

    def input(self, x):
        x = x if x.flags.c_contiguous else self.xp.ascontiguousarray(x)
        return x if x.data.ptr % x.itemsize == 0 else x.copy()

    def buffer(self, x):
        return x.data.ptr, x.size, code_of(x.dtype)

    def allocate(self, size):
        memory = self.xp.cuda.alloc(size)
        return memory, memory.ptr

    def on_host(self, x):
        return self.xp.asnumpy(x)

    def like(self, items, x):
        return self.xp.asarray(items)


_cupy_places = {}


def _cupy(x):
    cupy = sys.modules["cupy"]
    device = x.device.id
    current = cupy.cuda.runtime.getDevice()
    if device != current:
        raise ValueError(f"the array lies on device {device}, and cupy's current device is {current}")
    key = device, cupy.cuda.get_current_stream(device).ptr
    try:
        return _cupy_places[key]
    except KeyError:
        return _cupy_places.setdefault(key, Cupy(cupy, *key))


# ---- others, by DLPack --------------------------------------------------------------------------


class Other(Place):
    """Arrays that are reached by DLPack.

    Nothing tells when such a library uses its memory again. So a call on a device waits for its result.
    """

    def __init__(self, namespace, site, x, index):
        self.namespace, self.site, self.int64 = namespace, site, index
        if namespace is None:
            self.uint8, self.uint64 = "uint8", "uint64"
        else:
            xp, self.device = namespace, x.device
            # jax's names are types, and its arrays have numpy's dtypes.
            own = {name: xp.empty((0,), dtype=getattr(xp, name)).dtype for name in ("uint8", "uint32")}
            self.uint8 = own["uint8"]
            self.uint64 = xp.uint64 if name_of(index) == "int64" else own["uint32"]

    @property
    def xp(self):
        if self.namespace is None:
            raise TypeError("this call needs an array with __array_namespace__")
        return self.namespace

    def run(self, call, *arguments):
        try:
            return call(self.site, *arguments)
        finally:  # kernels of a call that fails may run, too
            if not self.is_host:
                self.site.wait()

    def input(self, x):
        if isinstance(x, (_native.Array, _native.Tensor)):
            return x
        if not hasattr(x, "__dlpack__"):
            return Interface(x)
        try:
            return self.tensor(x)
        except ValueError:
            if self.namespace is None:
                raise
        # It may be not contiguous: a copy in one axis is.
        return self.tensor(self.xp.reshape(self.xp.reshape(x, (-1,), copy=True), x.shape))

    def tensor(self, x):
        # The legacy default stream.
        arguments = {} if self.is_host else {"stream": 1}
        try:
            capsule = x.__dlpack__(max_version=(1, 0), **arguments)
        except TypeError:
            capsule = x.__dlpack__(**arguments)
        return _native.Tensor(capsule, self.site)

    def buffer(self, x):
        size = 1
        for length in x.shape:
            size *= length
        return x.address, size, self.code(x.dtype)

    def code(self, dtype):
        return dtype if isinstance(dtype, int) else code_of(dtype)

    def output(self, shape, dtype):
        return _native.Array(list(shape), self.code(dtype), self.site)

    def output_like(self, x, dtype=None):
        return self.output(x.shape, x.dtype if dtype is None else dtype)

    def array(self, x, dtype=None):
        if self.namespace is None:
            return x
        x = self.xp.from_dlpack(x)
        if x.device != self.device and self.is_host:
            x = x.to_device(self.device)  # such as another of jax's CPU devices
        if dtype is not None and x.dtype != dtype:
            x = self.xp.astype(x, dtype)  # booleans, which are exported as bytes
        return x

    def copy(self, x):
        return x  # slices of jax are copies

    def first(self, x, n):
        if self.namespace is None:
            raise TypeError("a result whose length depends on the items is for arrays with a namespace")
        return x[:n]

    def full(self, shape, value, dtype):
        return self.xp.full(shape, value, dtype=dtype, device=self.device)

    def concat(self, arrays, axis=0):
        return self.xp.concat(arrays, axis=axis)

    def permute(self, x, axes):
        return self.xp.permute_dims(x, axes)

    def reshape(self, x, shape):
        return self.xp.reshape(x, shape)

    def astype(self, x, dtype):
        return self.xp.astype(x, dtype)

    def take(self, x, indices):
        return self.xp.take(x, indices, axis=0)

    def take_along(self, x, indices, axis):
        return self.xp.take_along_axis(x, indices, axis=axis)

    def on_host(self, x):
        if not self.is_host:
            raise TypeError("the laws are checked on arrays of numpy, torch and cupy")
        return super().on_host(x)

    def like(self, items, x):
        return self.xp.asarray(items, device=self.device)


class Interface:
    """An array that is reached by `__cuda_array_interface__` alone, on the legacy default stream of device 0."""

    def __init__(self, x):
        interface = x.__cuda_array_interface__
        self.owner = x  # its memory lives as long as this
        if interface.get("mask") is not None:
            raise TypeError("masked arrays are not supported")
        self.address, self.shape = interface["data"][0], tuple(interface["shape"])
        self.dtype = numpy.dtype(interface["typestr"])
        if interface.get("strides") is not None and not self._is_contiguous(interface["strides"]):
            raise ValueError("the array is not contiguous")
        if self.address and (device := _native.device_of(self.address)) != 0:
            raise ValueError(f"the array is on device {device}, and only those on device 0 are supported")
        stream = interface.get("stream")
        if stream not in (None, 1):
            _native.Site(0, stream).wait()  # the array is ready on that stream

    def _is_contiguous(self, strides):
        step = self.dtype.itemsize
        for length, stride in zip(reversed(self.shape), reversed(strides)):
            if length > 1 and stride != step:
                return 0 in self.shape
            step *= length
        return True


_other_places = {}
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13


def _other(x):
    xp, index = None, "int64"
    if hasattr(x, "__array_namespace__"):
        xp = x.__array_namespace__()
        index = xp.__array_namespace_info__().default_dtypes()["indexing"]  # jax's depends on an option
    if hasattr(x, "__dlpack_device__"):
        kind, device = x.__dlpack_device__()
        kind, device = int(kind), int(device)
    elif hasattr(x, "__cuda_array_interface__"):
        kind, device = _CUDA, 0
    else:  # such as what stands for an array while jax traces a function
        raise TypeError(f"an array with items is expected, and found {type(x).__qualname__} without a device")
    if kind in (_CPU, _CUDA_HOST):
        key = xp, None, name_of(index), str(getattr(x, "device", None))
    elif kind in (_CUDA, _CUDA_MANAGED):
        key = xp, device, name_of(index), None
    else:
        raise TypeError(f"arrays on devices of DLPack's type {kind} are not supported")
    try:
        return _other_places[key]
    except KeyError:
        site = _HOST if key[1] is None else _native.Site(device, 1)
        return _other_places.setdefault(key, Other(xp, site, x, index))


_LIBRARIES = {
    ("numpy", "ndarray"): _numpy,
    ("numpy", "generic"): _numpy,  # what numpy's own functions return for an array without axes
    ("torch", "Tensor"): _torch,
    ("cupy", "ndarray"): _cupy,
}
