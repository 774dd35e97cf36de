"""Programs of NumPy in which the line of an op is easily got wrong. `truth` rewrites them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = Any


def narrowed(x: Array) -> Array:
    return x.astype(np.float32)


def pipeline(x: Array) -> Array:
    y = narrowed(x)
    y = (y - y.mean(axis=0)) / np.sqrt(
        y.var(axis=0)
        + 1e-6
    )  # fmt: skip
    spectrum = np.abs(np.fft.rfft(y))
    top = np.sort(np.ravel(spectrum))[::-1][:10]
    return np.concatenate([top, [np.linalg.norm(spectrum)]]).astype("float16")


def in_place(x: Array) -> Array:
    out = np.zeros_like(x)
    for i in range(3):
        out += np.roll(
            x.astype(np.float32),
            i - 1,
        )
    out[0] = x[1] @ x
    out[out > 1] *= 2
    np.multiply(
        x,
        -x,
        out=out,
    )
    out /= 3
    return out


def operators(x: Array) -> Array:
    y = (
        x
        + x.astype(np.float32)
        .astype(np.float64)
        * 2
    )  # fmt: skip
    y = np.where(
        x > 0,
        -x,
        y,
    )
    return y if np.all(y == x) else abs(y[
        0
    ])  # fmt: skip


def loops(x: Array) -> Array:
    total = x[0] * 0
    for row in x:
        if row.sum() > 1:
            total = total + row
        total = total * 0.5
    n = 0
    while n < 3 and total.sum() < 100:
        total, n = total + 1, n + 1
    return sum((row * 2 for row in x), total), [each + 1 for each in x[:2]]


def scalars(x: Array) -> Array:
    mean = x.mean()
    wide = np.float32(mean) * mean
    if wide > 0:
        wide = -wide
    return float(wide) + mean * x.max()


def called_back(x: Array) -> Array:
    a = np.apply_along_axis(lambda row: row * 2, 0, x)
    b = np.vectorize(lambda each: each + 1)(x[0])
    c = np.piecewise(x, [x < 0, x >= 0], [lambda part: -part, lambda part: part * 3])
    return a, b, c


def decorated(function: Callable[..., Array]) -> Callable[..., Array]:
    @functools.wraps(function)
    def inner(*given: Array) -> Array:
        out = function(*given)
        return narrowed(out)

    return inner


@decorated
def with_decorator(x: Array) -> Array:
    return functools.partial(np.multiply, x)(2) + functools.reduce(np.add, [x, x, x])


@contextlib.contextmanager
def scope(x: Array) -> Iterator[Array]:
    y = narrowed(x)
    try:
        yield y
    finally:
        x.sum()


def exceptions(x: Array) -> Array:
    with contextlib.suppress(ValueError), scope(x) as y:
        z = y * 2
        raise ValueError
    try:
        d = z @ x
        return d @ np.ones(3)
    except ValueError:
        return d.astype(np.float16)
    finally:
        x.copy()


def rows(x: Array) -> Iterator[Array]:
    for row in range(2):
        yield x[row] * 2
        x.sum()


def generators(x: Array) -> Array:
    wide = [narrowed(each) for each in rows(x)]
    some = rows(x)
    first = next(some)
    some.close()
    return first + wide[0]


class Thing:
    """Has ops where none is written."""

    def __init__(self, x: Array) -> None:
        self.x = x

    @property
    def narrow(self) -> Array:
        return narrowed(self.x)

    def __matmul__(self, other: Thing) -> Array:
        return self.narrow @ other.narrow

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.exp(self.x)


def dunder(x: Array) -> Array:
    thing = Thing(x)
    y = thing @ thing
    return y + np.asarray(thing)


def recursive(x: Array, n: int) -> Array:
    if n == 0:
        raise ValueError
    try:
        return recursive(x + 1, n - 1)
    finally:
        np.exp(x)


def unwound(x: Array) -> None:
    try:
        recursive(x, 3)
    except ValueError:
        narrowed(x)


CASES = [
    pipeline,
    in_place,
    operators,
    loops,
    scalars,
    called_back,
    with_decorator,
    exceptions,
    generators,
    dunder,
    unwound,
]
