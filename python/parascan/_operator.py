"""Operators of the user's own: CUDA text, and the same in numpy."""

import itertools

import numpy

from . import _native
from ._arrays import code_of, place_of


class Operator:
    """An associative operator of the user's own, for `scan` and `reduce`.

    `cuda` is an expression in `a` and `b`, the earlier item and the later one, or statements that return; in it
    `Element` is the type. `numpy` is the same as a function of two arrays: the CPU's engine, and the twin that
    `check` compares with. `identity` is a number that is neutral on both sides, if there is one. The operator
    need not be commutative.

    The text must end for all items, depend on nothing but `a` and `b`, and have no undefined behaviour: kernels
    run it unchanged, and nothing else checks it. NVRTC compiles it at the first use with each dtype; float16
    and bfloat16 are `f16` and `bf16`, without arithmetic.

    >>> import numpy, parascan
    >>> gcd = parascan.Operator("while (b) { Element t = a % b; a = b; b = t; } return a;", numpy.gcd, identity=0)
    >>> gcd.check(numpy.arange(20))
    >>> parascan.scan(gcd, numpy.array([12, 18, 27]))
    array([12,  6,  3])

    On the GPU each line along the axis is a launch. On the CPU a scan of n items calls the twin log2(n) times, on
    whole arrays.
    """

    def __init__(self, cuda, numpy, *, identity=None):
        if not isinstance(cuda, str):
            raise TypeError("the CUDA text of an operator is a str")
        if not callable(numpy):
            raise TypeError("the numpy twin of an operator is a function of two arrays")
        self.cuda, self.numpy, self.identity = cuda, numpy, identity
        self._kernels = _native.Operator(cuda)

    def __repr__(self):
        return f"parascan.Operator({self.cuda!r})"

    def _combine(self, a, b):
        result = numpy.asarray(self.numpy(a, b))
        if result.shape != a.shape:
            raise ValueError(f"the numpy twin of {self.cuda!r} makes {result.shape} of two arrays of {a.shape}")
        return result.astype(a.dtype, copy=False)

    # ---- scan and reduce of lines

    def _start(self, code, initial):
        """The initial value, else the identity, else None, for the type of this code. The errors are a kernel's."""
        number = self.identity if initial is None else initial
        if number is not None:
            _native.check_value(code, number)
        return number

    def scan(self, place, x, output, n, exclusive, reverse, initial):
        """Scans lines of `n` items of a contiguous array into `output`."""
        source, target = place.buffer(x), place.buffer(output)
        if exclusive or initial is not None:
            initial = self._start(source[2], initial)
            if initial is None:
                raise ValueError("the operator has no identity: an exclusive scan needs initial")
        if source[1] == 0:
            return
        if place.is_host:
            x, output = (place.on_host(a).reshape(-1, n) for a in (x, output))
            x.flags.writeable = False  # the twin must not write the caller's array
            self._scan_on_host(x, output, exclusive, reverse, initial)
        else:
            size = _native.Operator.words_bytes(n, source[2])
            words = place.output((size,), place.uint8)
            place.run(self._kernels.scan, source, target, n, exclusive, reverse, initial, place.buffer(words)[0])

    def _scan_on_host(self, x, output, exclusive, reverse, initial):
        # Kogge and Stone (1973): in each step a prefix doubles.
        if reverse:
            x, output = x[:, ::-1], output[:, ::-1]
        if initial is not None:
            x = numpy.concatenate([numpy.full_like(x[:, :1], initial), x], 1)
        width = 1
        while width < x.shape[1]:
            x = numpy.concatenate([x[:, :width], self._combine(x[:, :-width], x[:, width:])], 1)
            width *= 2
        if initial is not None:
            x = x[:, :-1] if exclusive else x[:, 1:]
        output[...] = x

    def reduce(self, place, x, n, lines, dtype, initial):
        """The items of each line of `n` items combined."""
        if n == 0:
            initial = self._start(code_of(dtype), initial)
            if initial is None:
                raise ValueError("reduce: a line is empty, and the operator has no identity")
            return place.full((lines,), initial, dtype)
        scanned = place.output(tuple(x.shape), dtype)
        self.scan(place, x, scanned, n, False, False, initial)
        # A copy, which keeps no other items alive.
        return place.concat([place.reshape(place.array(scanned, dtype), (lines, n))[:, -1]])

    # ---- laws

    def check(self, sample, /, *, rtol=0.0):
        """Tests the laws on a sample: all triples of its items for associativity, all items for the identity,
        and on a GPU all pairs for the agreement of the CUDA text with its numpy twin.

        sample: shape (n,) for n of 1 to 64, of the dtype that is to be tested; a GPU's array tests the CUDA text.
        `rtol` is the relative difference that rounding may make.

        Raises `ValueError` with the items for which a law fails.
        """
        place = place_of(sample)
        if len(sample.shape) != 1 or not 1 <= sample.shape[0] <= 64:
            raise ValueError("a sample is an array of 1 to 64 items with one axis")
        items = place.on_host(place.input(sample))
        items.flags.writeable = False  # as in `scan`

        def same(got, expected, law, *arguments):
            equal = (got == expected) | ((got != got) & (expected != expected))
            if rtol:
                equal |= numpy.isclose(got, expected, rtol=rtol, atol=0, equal_nan=True)
            if not equal.all():
                at = int(numpy.argmin(equal))
                given = ", ".join(str(a[at]) for a in arguments)
                raise ValueError(f"{law}: for {given} it makes {got[at]}, and {expected[at]} is expected")

        a, b, c = (numpy.array(column) for column in zip(*itertools.product(items, repeat=3)))
        grouped = self._combine(self._combine(a, b), c), self._combine(a, self._combine(b, c))
        same(*grouped, "the operator is not associative", a, b, c)
        if self._start(code_of(sample.dtype), None) is not None:
            identity = numpy.full_like(items, self.identity)
            same(self._combine(identity, items), items, "the identity is not neutral on the left", items)
            same(self._combine(items, identity), items, "the identity is not neutral on the right", items)
        if not place.is_host:
            a, b = (numpy.array(column) for column in zip(*itertools.product(items, repeat=2)))
            sides = [place.input(place.like(side, sample)) for side in (a, b)]
            output = place.output(a.shape, sample.dtype)
            place.run(self._kernels.combine, *map(place.buffer, sides), place.buffer(output))
            combined = place.on_host(place.input(place.array(output, sample.dtype)))
            same(combined, self._combine(a, b), "the CUDA text differs from its numpy twin", a, b)
