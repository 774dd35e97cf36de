"""What every backend does: `Backend`, and what it is asked to record. docs/backends.md explains the words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ...profile.event_log import EventLog
    from ...sites.chains import Chains

GROUP = "pytest_opprof.backends"
"""The entry-point group of backends: a name, and a callable without arguments that returns a `Backend`."""
Timing = Literal["async", "sync"]


@dataclass(frozen=True, slots=True)
class Options:
    """What to record beyond calls and times."""

    timing: Timing = "async"
    memory: bool | None = False
    """Whether to record allocations; None: if they are the same in each process, and it takes little time."""
    chains: Chains | None = None
    """Where a log is to say, event by event, which line asked for it (`EventLog.asked_at`); None: nobody asks."""
    moments: bool = False
    """Whether a log is to say when its events ran (`EventLog.ran`): a trace may be written."""


@dataclass(frozen=True, slots=True)
class KnownWork:
    """Work whose ops are known: what `pytest_opprof.testing.check_backend` measures."""

    run: Callable[[], object]
    """Do the work once, without waiting for it, and return the results."""
    ops: Mapping[str, int]
    """How often one call of `run` calls each op. All ops are listed: an op that is not is an error."""
    profiler: Callable[[], AbstractContextManager[object]] | None = None
    """Another profiler of the framework, which records while its context is open; None if there is none."""
    in_threads: bool = True
    """Whether a window records the ops of other threads, too."""
    overlaps: bool = False
    """Whether ops run at the same time: then the sum of their times may be more than the time of the step."""
    first_use: str = ""
    """Python code with which a process begins to use the framework (``import torch``); empty if there is none."""


class Backend(ABC):
    """A profiler of one framework. A method that has a body here need not be overridden."""

    name: str
    """The name in ``--opprof-backend`` and of the entry point."""
    hint: str = ""
    """What a user can do if nothing was recorded: "torch must be imported at the top of the module"."""
    memory_by_default: bool = False
    """Whether it records allocations where `Options.memory` is None."""
    tells_sites: bool = False
    """Whether its logs say which lines asked for ops, where `Options.chains` asks for that."""
    sites_hint: str = ""
    """Of which ops its logs do not say it, and what a user can do: "graphs have to be compiled in the test"."""
    vocabulary: Mapping[str, str] = {}
    """Raw names that `ops.tables` does not have, separated by blanks, by canonical op."""

    def unavailable(self) -> str | None:
        """Say in one line why this backend cannot run here, or return None if it can."""
        return None

    def unsupported(self) -> str | None:
        """Say in one line why the version of the framework that is installed cannot be recorded, or return None.

        It must not import the framework. A run that would measure with it says so once, and measures nothing.
        """
        return None

    @abstractmethod
    def in_use(self) -> bool:
        """Tell whether this process uses the framework: then it is recorded, if the user chose no backends.

        This is called before and after each window, also in processes without the framework. It must not import it.
        """

    def begin_run(self) -> None:  # noqa: B027  # there may be nothing to do
        """Get ready for what test modules do while they are imported. It must not import the framework."""

    def begin_test(self) -> None:  # noqa: B027  # there may be nothing to do
        """Forget what an earlier test left behind, if that could change what this test records."""

    def blind(self) -> str | None:
        """Say why an empty log would prove nothing, or return None if it proves that nothing ran."""
        return None

    @abstractmethod
    def collect(self, options: Options) -> AbstractContextManager[EventLog]:
        """Record until the context ends; only then is the log complete.

        Raises BackendError if the profiler cannot start, or lost a part of what it recorded.
        """

    def settle(self) -> None:  # noqa: B027  # there may be nothing to wait for
        """Wait until all work is done that the program started, if the host does not wait for it anyway.

        This is called while recording: before a step begins, and at its end before the clock is read. A backend whose
        device times its work itself should not override it: the wall time of a step is not judged there, and waiting
        would prevent the overlap of steps.
        """

    def threads_limited(self, threads: int) -> AbstractContextManager[object]:
        """Limit ops to so many threads in the context, if the framework has threads besides OpenMP's and BLAS's."""
        return nullcontext()

    def rank(self) -> tuple[int, int] | None:
        """Return which of how many processes this is, if the framework was told; asked after a test."""
        return None

    def selfcheck_work(self) -> KnownWork | None:
        """Return the work for ``opprof selfcheck --backend``, or None if there is none."""
        return None
