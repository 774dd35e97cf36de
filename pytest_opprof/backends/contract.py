"""What every backend does: `Backend`, and what it is asked to record. The words are explained in docs/backends.md."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..profile.event_log import EventLog

GROUP = "pytest_opprof.backends"
"""The entry-point group of backends: a name, and a callable without arguments that returns a `Backend`."""
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


@dataclass(frozen=True, slots=True)
class KnownWork:
    """Work whose ops are known: what `pytest_opprof.testing.check_backend` measures."""

    run: Callable[[], object]
    """Do it once, wait for nothing, and return the results."""
    ops: Mapping[str, int]
    """The calls of each op that one run shows. All of them: one more is wrong, too."""
    profiler: Callable[[], AbstractContextManager[object]] | None = None
    """Another profiler of the framework, which records while its context is open; None: there is none."""
    in_threads: bool = True
    """Whether a window shows what other threads run while it is open."""
    overlaps: bool = False
    """Whether ops run at the same time, so that they may take longer together than the step."""
    first_use: str = ""
    """Python code that is the first use of the framework in a process, as ``import torch``; empty: there is none."""


class Backend(ABC):
    """A profiler of one framework. What has a body here may be left as it is."""

    name: str
    """As ``--opprof-backend`` and the entry point have it."""
    hint: str = ""
    """What a user can do where nothing was seen: "torch must be imported at the top of the module"."""
    vocabulary: Mapping[str, str] = {}
    """Raw names that `ops.tables` does not have: by canonical op, separated by blanks."""

    def unavailable(self) -> str | None:
        """Say in one line why this backend cannot run here, or return None if it can."""
        return None

    @abstractmethod
    def in_use(self) -> bool:
        """Tell whether this process uses the framework, so that automatic choice should record it.

        Asked before and after each window, also in processes without the framework: it must not import it.
        """

    def begin_test(self) -> None:  # noqa: B027  # there may be nothing to do
        """Forget what an earlier test left behind, if that could change what this one records."""

    def blind(self) -> str | None:
        """Say why an empty log would prove nothing, or return None if it proves that nothing ran."""
        return None

    @abstractmethod
    def collect(self, options: Options) -> AbstractContextManager[EventLog]:
        """Record until the context ends; only then is the log complete.

        Raises BackendError when the profiler cannot start, or lost what it recorded: never yields less in silence.
        """

    def settle(self) -> None:  # noqa: B027  # the same
        """Return when all is done that the program asked for, if the host waits for nothing by itself.

        Called while recording: before a step begins, and at its end before the clock is read. For a device with times
        of its own leave it as it is: the wall time of a step does not count there, and waiting would end the overlap
        of steps that a program has.
        """

    def threads_limited(self, threads: int) -> AbstractContextManager[object]:
        """Let ops use so many threads in the context, where neither OpenMP nor BLAS decides it."""
        return nullcontext()

    def watch(self, array: Any) -> Any:
        """Return *array* as `opprof.array()` is to return it, or None: this backend sees ops on arrays as they are."""
        return None

    def selfcheck_work(self) -> KnownWork | None:
        """Return the work of ``opprof selfcheck --backend``, or None if there is none."""
        return None
