"""What every backend does: the protocol, and what it is asked to record."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from ..profile.event_log import EventLog

Timing = Literal["async", "sync"]
Watched = Literal["watched", "all"]


@dataclass(frozen=True, slots=True)
class Options:
    """What to record beyond calls and times."""

    timing: Timing = "async"
    flops: bool = False
    memory: bool = False
    numpy: Watched = "watched"
    """Which arrays of NumPy: those of `opprof.array()` and what comes of them, or all that a window makes."""


class Backend(Protocol):
    """A profiler of one framework."""

    name: str

    def unavailable(self) -> str | None:
        """Say in one line why this backend cannot run here, or return None if it can."""

    def in_use(self) -> bool:
        """Tell whether this process uses the framework, so that automatic choice should record it."""

    def blind(self) -> str | None:
        """Say why an empty log would prove nothing, or return None if it proves that nothing ran."""

    def collect(self, options: Options) -> AbstractContextManager[EventLog]:
        """Record until the context ends; only then is the log complete.

        Raises BackendError when the profiler cannot start, or lost what it recorded: never yields less in silence.
        """
