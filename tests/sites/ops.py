"""A toy framework: ops that are heard, and what a tracer and the frames say of each. Its lines are no sites."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from pytest_opprof.sites.chains import Chains, Frame
from pytest_opprof.sites.code import Kind, kinds
from pytest_opprof.sites.stack import here
from pytest_opprof.sites.tracer import Tracer

kinds[__file__] = Kind.HIDDEN
listeners: list[Callable[[FrameType], None]] = []


def op(*given: Any) -> Any:
    """Be heard; return the first argument."""
    if listeners:
        listeners[-1](sys._getframe(1))
    return given[0] if given else None


class Array(np.ndarray):
    """An array whose ops are heard."""

    def astype(self, *args: Any, **keywords: Any) -> Any:
        op()
        return super().astype(*args, **keywords)

    def __getitem__(self, key: Any) -> Any:
        op()
        return super().__getitem__(key)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        op()
        keywords = {**keywords, **({"out": tuple(map(_plain, keywords["out"]))} if "out" in keywords else {})}
        return _heard(getattr(ufunc, method)(*map(_plain, inputs), **keywords))

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        op()
        return _heard(function(*map(_plain, args), **keywords))


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.view(np.ndarray) if isinstance(value, Array) else value


def _heard(value: Any) -> Any:
    return value.view(Array) if isinstance(value, np.ndarray) else value


class Heard(NamedTuple):
    """What was known at each op of a window."""

    chains: Chains
    ops: list[tuple[int, int]]
    """Where the tracer says the program was, and where its frames do."""

    def frames(self) -> list[Frame]:
        """Return the innermost frame of each op, as the tracer has it."""
        return [self.chains.frames(now)[0] for now, _ in self.ops]


@contextmanager
def listening(tracer: Tracer, until: CodeType | None = None) -> Iterator[list[tuple[int, int]]]:
    """Hear where *tracer* says that the program is at each op, and where its frames do."""
    ops: list[tuple[int, int]] = []
    listeners.append(lambda frame: ops.append((tracer.now, here(tracer.chains, frame, until))))
    try:
        yield ops
    finally:
        listeners.pop()


def heard(program: Callable[[], object]) -> Heard:
    """Run *program* in a window of the caller's."""
    frame, chains = sys._getframe(1), Chains()
    tracer = Tracer(chains, lambda node: None)
    with listening(tracer, frame.f_code) as ops:
        tracer.start(frame)
        try:
            program()
        finally:
            tracer.stop()
    return Heard(chains, ops)
