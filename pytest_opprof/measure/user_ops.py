"""The user's own ops. For library code: this imports nothing heavy, and does nothing without a recording."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..machine import nsight

if TYPE_CHECKING:
    from .recorder import Recorder

_P = ParamSpec("_P")
_T = TypeVar("_T")

# The active recorder of this process.
recording: Recorder | None = None


class op:  # noqa: N801  # a context manager, called like contextlib's
    """Count the code inside as one op of the open window: ``with op("my_attention"): ...``, or ``@op(...)``.

    The ops inside keep their counts and times; this one has the rest of the time. Under Nsight Systems it is a range of
    its timeline. While recording, raises UsageError for a name that is taken.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return *function* with each call a range. torch.compile does not compile the decorator of contextlib."""

        @wraps(function)
        def inner(*args: _P.args, **keywords: _P.kwargs) -> _T:
            with op(self.name):
                return function(*args, **keywords)

        return inner

    def __enter__(self) -> None:
        """Begin, if this thread is recorded."""
        __tracebackhide__ = True
        if _is_compiling():
            return
        if recording is not None:
            recording.enter(self.name)
        if nsight.IS_AROUND and (range_ := nsight.nvtx()):
            range_[0](self.name)

    def __exit__(self, *error: object) -> None:
        """End; nothing happens if the window ended before."""
        if _is_compiling():
            return
        if recording is not None:
            recording.leave(self.name)
        if nsight.IS_AROUND and (range_ := nsight.nvtx()):
            range_[1]()


def _is_compiling() -> bool:
    # Asked first, because torch.compile guards each variable that it reads. If it read `recording`, it would compile
    # the code again, differently, as soon as a window opens.
    compiler: Any = getattr(sys.modules.get("torch"), "compiler", None)
    return hasattr(compiler, "is_dynamo_compiling") and bool(compiler.is_dynamo_compiling())
