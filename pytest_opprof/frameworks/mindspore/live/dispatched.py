"""The ops that Python calls in PyNative mode, as MindSpore dispatches them: what each reads and writes.

`mindspore.utils.MsDispatchMode` calls us around each op of the thread, those of backward passes and casts of mixed
dtypes included. It is experimental, and new in 2.10. It does not see the ops of compiled graphs. 4 us an op.
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

Tensors = tuple[tuple[str, Shape], ...]
"""Dtype and shape of each."""


class Dispatched(NamedTuple):
    """One op, as it was called."""

    at: int
    """When, in ns since the epoch: before its kernel runs."""
    op: str
    inputs: Tensors
    outputs: Tensors
    site: int = 0
    """Which line called it: a node of the chains."""


@contextmanager
def dispatched(chains: Chains | None = None) -> Iterator[list[Dispatched] | None]:
    """Yield a list of the ops that this thread calls from now on; None where that cannot be had.

    It cannot before MindSpore 2.10, and where the program has a mode of its own, which ours would replace. *chains*
    get the lines that called them.
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
    """Return what tells the tensors among arguments, also those in tuples and lists of them."""
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
