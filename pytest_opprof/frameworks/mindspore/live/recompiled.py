"""Detect graphs that MindSpore compiles again, and the argument that differs from the last time.

Functions under `mindspore.jit` and cells in graph mode pass through one function of MindSpore before they are compiled
(2.7 to 2.10). Only compilations in the same test count, because the first test to use a function depends on the order
of tests.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

# Its module in 2.10, and before.
_MODULES, _FUNCTION = ("mindspore.graph.api", "mindspore.common.api"), "_check_recompile"
_MADE_ANEW = "another one is made each time"
_OTHER = "its constants or parameters, or whether gradients are wanted, are others"
# Receives each recompiled function and the reason.
Again = Callable[[str], None]


class Recompiled:
    """Observes each compiled graph."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = {}
        """By function or cell: when it was made, and its arguments."""
        self._again: Again | None = None
        self._listens = False

    def forget(self) -> None:
        """Forget what an earlier test compiled."""
        self._last.clear()

    @contextmanager
    def told(self, again: Again) -> Iterator[bool]:
        """Call *again* for each recompiled graph until the context ends; yield whether MindSpore reports them."""
        self._again = again
        try:
            yield self.listen()
        finally:
            self._again = None

    def listen(self) -> bool:
        """Observe all compilations from now on; return whether this version of MindSpore reports them."""
        if self._listens:
            return True
        for name in _MODULES:
            api: Any = sys.modules.get(name)
            check = getattr(api, _FUNCTION, None)
            if check is not None:
                setattr(api, _FUNCTION, self._heard(check))
                self._listens = True
                break
        return self._listens

    def _heard(self, check: Callable[..., Any]) -> Callable[..., Any]:
        def heard(obj: Any, arguments: Any, options: Any, full: Any, created: Any, shown: Any, *more: Any) -> Any:
            self._compiles(str(shown), str(full), obj is not None, str(created), _told(arguments, options))
            return check(obj, arguments, options, full, created, shown, *more)

        return heard

    def _compiles(self, shown: str, full: str, is_cell: bool, created: str, arguments: Mapping[str, str]) -> None:
        # A function of the user is one, however often it is made. A model may have many cells of one class, and
        # MindSpore makes one function (`after_grad`) for each gradient.
        key = shown, created if is_cell or full.startswith("mindspore.") else ""
        before, self._last[key] = self._last.get(key), (created, arguments)
        if before is not None and self._again is not None:
            why = _difference(before[1], arguments) or (_OTHER if before[0] == created else _MADE_ANEW)
            self._again(f"MindSpore compiled {shown} again, in the same test: {why}")


def _told(arguments: Sequence[Any], options: Mapping[str, Any]) -> dict[str, str]:
    every = {**{f"argument {number}": each for number, each in enumerate(arguments)}, **options}
    return {name: _described(each) for name, each in every.items()}


def _described(argument: Any) -> str:
    shape, dtype = getattr(argument, "shape", None), getattr(argument, "dtype", None)
    return reprlib.repr(argument) if shape is None or dtype is None else f"{dtype}{list(shape)}"


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    for name in {**now, **before}:
        old, new = before.get(name, "not given"), now.get(name, "not given")
        if old != new:
            return f"{name} is {new}, before {old}"
    return ""
