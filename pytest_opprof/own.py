"""Ops of the user's own. For library code: this imports nothing heavy, and does nothing while nobody records."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recorder import Recorder

recording: Recorder | None = None
"""What records in this process now."""


class op:  # noqa: N801  # a context manager, called like contextlib's
    """Let the code inside be one op of the window that is open: ``with op("my_attention"): ...``.

    The ops inside keep their counts and times; this one has the time that none of them explains. Raises UsageError, if
    something records, for a name that is taken.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        """Begin, if something records in this thread."""
        if not _is_compiling() and recording is not None:
            recording.enter(self.name)

    def __exit__(self, *error: object) -> None:
        """End; nothing happens if the window ended before."""
        if not _is_compiling() and recording is not None:
            recording.leave(self.name)


def _is_compiling() -> bool:
    # Asked first: torch.compile guards what it reads. Had it read `recording`, it would compile the code again, to
    # something else, as soon as a window opens.
    compiler: Any = getattr(sys.modules.get("torch"), "compiler", None)
    return hasattr(compiler, "is_dynamo_compiling") and bool(compiler.is_dynamo_compiling())
