"""Programs in which the line of an op is easily got wrong. `truth` rewrites them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .ops import Array, op


def normalise(x: Any) -> Any:
    x = x.astype(np.float32)
    return (x - np.mean(x)) / np.std(x)


def smooth(x: Any, k: int = 3) -> Any:
    out = np.zeros_like(x)
    for i in range(k):
        out += np.roll(
            x.astype(np.float64),
            i - k // 2,
        )
    return (out / k).astype(np.float32)


def features() -> Any:
    y = smooth(normalise(np.arange(64.0).reshape(8, 8).view(Array)))
    spectrum = np.abs(np.fft.rfft(y))
    norm = np.sqrt(np.sum(spectrum**2))
    top = np.sort(np.ravel(spectrum))[::-1][:10]
    return np.concatenate([top, [norm]]).astype("float16")


def operators() -> Any:
    x = np.ones((4, 4)).view(Array)
    y = (
        x
        + x.astype(np.float32)
        .astype(np.float64)
        * 2
    )  # fmt: skip
    y *= -x
    y[0] = x[1] @ x
    y @= np.where(
        x > 0,
        x,
        y,
    )
    return y if np.all(y == x) else y[
        0
    ]  # fmt: skip


def helper(x: object) -> object:
    return op(x)


def calls() -> object:
    a = helper(1)
    b = helper(
        helper(2),
    )
    c = op(
        op(3), op(
            op(4)
        ),
    )  # fmt: skip
    op(a), op(b), op(
        c
    )  # fmt: skip
    return op(f"{op(a)} {op(b)!r}") and (
        op(0)
        or op(5)
    )  # fmt: skip


def comprehensions() -> object:
    wide = [
        op(each)
        for each in op(range(2))
        if op(True)
    ]  # fmt: skip
    names = {op(each): op(2) for each in range(2)}
    total = sum((op(each) for each in range(2)), op(0))
    return {op(each) for each in sorted([*wide, *names], key=lambda each: op(each))}, list(map(op, range(2))), total


def decorated(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def inner(*given: object) -> object:
        out = function(*given)
        return op(out)

    return inner


@decorated
def with_decorator() -> object:
    return functools.partial(op, 1)()


@contextlib.contextmanager
def scope() -> Iterator[int]:
    op()
    try:
        yield op(1)
        op()
    finally:
        op()


def contexts() -> None:
    with scope() as a:
        op(a)
    try:
        with scope(), scope() as b:
            op(b)
            raise ValueError(op())
    except ValueError:
        op()
    op()


def recursive(n: int) -> None:
    if n == 0:
        raise ValueError
    try:
        op(n)
        recursive(n - 1)
    finally:
        op(n)


def exceptions() -> None:
    try:
        recursive(3)
    except ValueError as error:
        op(error)
    for _ in range(2):
        try:
            op()
            continue
        finally:
            op()
    with contextlib.suppress(ValueError):
        recursive(1)
    op()


class Thing:
    """Has ops where none is written."""

    @property
    def wide(self) -> Thing:
        return op(self)

    def __add__(self, other: Thing) -> Thing:
        return op(self.wide)

    def __getattr__(self, name: str) -> object:
        return op(name)


def dunder() -> None:
    thing = Thing()
    both = thing + thing
    op(both)


class Finalised:
    def __del__(self) -> None:
        op()


def finalised() -> None:
    one = Finalised()
    op(type(one))
    del one
    op()


def numbers(n: int) -> Iterator[int]:
    for each in range(n):
        yield op(each)
        op()


def generators() -> None:
    for each in numbers(2):
        op(each)
    some = numbers(2)
    first = next(some)
    op(first)
    some.close()
    op(list(numbers(1)))


def evaluated() -> None:
    eval("op() or (lambda: op())()")
    exec("for each in range(2): op(each)", globals())
    op()


CASES = [
    features,
    operators,
    calls,
    comprehensions,
    with_decorator,
    contexts,
    exceptions,
    dunder,
    generators,
    evaluated,
    finalised,
]
