"""Operators of the user's own, on the CPU by their numpy twin."""

import numpy as np
import pytest
from conftest import rng

import parascan

gcd = parascan.Operator("while (b) { Element t = a % b; a = b; b = t; } return a;", np.gcd, identity=0)
first = parascan.Operator("a", lambda a, b: a)


@pytest.mark.parametrize("n", [0, 1, 2, 100, 1025])
def test_scan_and_reduce(n):
    x = rng.integers(1, 1000, (3, n)).astype("uint32")
    for axis, lines in ((1, x), (0, x.T)):
        np.testing.assert_array_equal(parascan.scan(gcd, lines, axis=axis), np.gcd.accumulate(lines, axis))
        np.testing.assert_array_equal(parascan.reduce(gcd, lines, axis=axis), np.gcd.reduce(lines, axis))
    line = x[0]
    np.testing.assert_array_equal(parascan.scan(gcd, line, reverse=True), np.gcd.accumulate(line[::-1])[::-1])
    exclusive = np.gcd.accumulate(np.r_[np.uint32(0), line])[:-1] if n else line
    np.testing.assert_array_equal(parascan.scan(gcd, line, exclusive=True), exclusive)
    initial = np.gcd.accumulate(np.r_[np.uint32(12), line])
    np.testing.assert_array_equal(parascan.scan(gcd, line, initial=12), initial[1:])
    assert parascan.reduce(gcd, line, initial=12) == initial[-1]


def test_the_earlier_operand_is_first():
    x = rng.integers(0, 9, 100)
    np.testing.assert_array_equal(parascan.scan(first, x), np.full(100, x[0]))
    np.testing.assert_array_equal(parascan.scan(first, x, reverse=True), np.full(100, x[-1]))


def test_laws():
    sample = rng.integers(0, 50, 20).astype("uint32")
    gcd.check(sample)
    parascan.Operator("a + b", np.add, identity=0).check(sample)
    parascan.Operator("a * b", np.multiply, identity=1).check(rng.standard_normal(20), rtol=1e-12)
    with pytest.raises(ValueError, match="not associative"):
        parascan.Operator("a - b", np.subtract).check(np.arange(3))
    with pytest.raises(ValueError, match="not neutral on the left"):
        parascan.Operator("a + b", np.add, identity=1).check(sample)


def test_errors():
    for text in ("a }", "(a", "a) (b", "a // b", "a /* b", '"a"', "#if a"):
        with pytest.raises(ValueError):
            parascan.Operator(text, np.add)
    with pytest.raises(TypeError):
        parascan.Operator("a + b", None)
    with pytest.raises(ValueError, match="identity"):
        parascan.scan(first, np.zeros(3), exclusive=True)
    with pytest.raises(ValueError, match="empty"):
        parascan.reduce(first, np.zeros(0))
    ones = np.ones(3, "int8")
    for error, number in ((TypeError, 2.5), (TypeError, "one"), (OverflowError, 300)):
        with pytest.raises(error):
            parascan.scan(gcd, ones, initial=number)
        with pytest.raises(error):
            parascan.reduce(parascan.Operator("a + b", np.add, identity=number), ones[:0])
        with pytest.raises(error):
            parascan.Operator("a + b", np.add, identity=number).check(ones)
    with pytest.raises(TypeError):
        parascan.segmented_scan(first, np.zeros(3), offsets=np.array([0, 3]))
    with pytest.raises(ValueError, match="two arrays"):
        parascan.scan(parascan.Operator("a", lambda a, b: a[:, :1]), np.zeros(9))


def test_no_booleans():
    larger = parascan.Operator("a > b ? a : b", np.maximum)
    for call in (parascan.scan, parascan.reduce):
        with pytest.raises(TypeError, match="bool"):
            call(larger, np.array([True, False]))
