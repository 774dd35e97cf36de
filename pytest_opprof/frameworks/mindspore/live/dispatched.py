"""Record the ops that Python calls in PyNative mode, as MindSpore dispatches them, with their reads and writes.

`mindspore.utils.MsDispatchMode` calls opprof around each op of the thread, including backward passes and casts of mixed
dtypes. It is experimental, and new in 2.10. It does not see the ops of compiled graphs. 4 us an op.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Any, NamedTuple

from ....ops.signature import Shape
from ....sites.chains import Chains
from ....sites.stack import here

# Dtype and shape of each.
Tensors = tuple[tuple[str, Shape], ...]


class Dispatched(NamedTuple):
    """One op, as it was called."""

    at: int
    """The time in ns since the epoch, before its kernel runs."""
    op: str
    inputs: Tensors
    outputs: Tensors
    site: int = 0
    """The calling line: a node of the chains."""


@contextmanager
def dispatched(chains: Chains | None = None) -> Iterator[list[Dispatched] | None]:
    """Yield a list of the ops that this thread calls from now on; None if that is impossible.

    It is impossible before MindSpore 2.10, and if the program has a mode of its own, which opprof's would replace.
    *chains* get the lines that called the ops.
    """
    try:
        from mindspore._c_expression import _DispatchGuardStack
        from mindspore.utils import MsDispatchMode

        is_possible = not _DispatchGuardStack.has_dispatch_guard()
    except ImportError:
        is_possible = False
    if not is_possible:
        yield None
        return
    found: list[Dispatched] = []
    read = _reader()

    class Listening(MsDispatchMode):  # type: ignore[misc]  # MindSpore has no types
        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            at = time_ns()
            result = func(*args, **(kwargs or {}))
            site = here(chains, sys._getframe(1)) if chains else 0
            found.append(Dispatched(at, func.name, read(args), read((result,)), site))
            return result

    with Listening():
        yield found


def _reader() -> Callable[[Any], Tensors]:
    """Return a function that finds the tensors among arguments, tuples and lists included."""
    from mindspore import Tensor

    def read(values: Any) -> Tensors:
        found: list[tuple[str, Shape]] = []
        for value in values:
            if isinstance(value, Tensor):
                found.append((str(value.dtype).lower(), tuple(value.shape)))
            elif isinstance(value, (tuple, list)):
                found += read(value)
        return tuple(found)

    return read
