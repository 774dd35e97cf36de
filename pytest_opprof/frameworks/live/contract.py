"""The contract of a backend, `Backend`, and the options of a recording. docs/backends.md explains the words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ...profile.events.event_log import EventLog
    from ...sites.chains import Chains

# The entry-point group of backends: a name, and a callable without arguments that returns a `Backend`.
GROUP = "pytest_opprof.backends"
Timing = Literal["async", "sync"]


@dataclass(frozen=True, slots=True)
class Options:
    """The data to record beyond calls and times."""

    timing: Timing = "async"
    memory: bool | None = False
    """Whether to record allocations; None: only if they are the same in each process, and cheap to record."""
    chains: Chains | None = None
    """The call chains in which a log records the line of each event (`EventLog.asked_at`); None: no lines."""
    moments: bool = False
    """Whether a log records the times of its events (`EventLog.ran`), because a trace may be written."""
    held: bool = False
    """Whether memory held at the end has a limit, so that finding older memory that a window frees is worth 50 ms."""


@dataclass(frozen=True, slots=True)
class KnownWork:
    """Work with known ops, which `pytest_opprof.testing.check_backend` measures."""

    run: Callable[[], object]
    """Do the work once, without waiting for it, and return the results."""
    ops: Mapping[str, int]
    """The calls of each op in one call of `run`. All ops are listed: any other is an error."""
    profiler: Callable[[], AbstractContextManager[object]] | None = None
    """Another profiler of the framework, which records while its context is open; None if there is none."""
    in_threads: bool = True
    """Whether a window records the ops of other threads, too."""
    overlaps: bool = False
    """Whether ops run at the same time, so that the sum of their times may exceed the time of the step."""
    first_use: str = ""
    """The Python code that loads the framework in a process (``import torch``); empty if there is none."""


class Backend(ABC):
    """A profiler of one framework. A method that has a body here need not be overridden."""

    name: str
    """The name in ``--opprof-backend`` and of the entry point."""
    memory_by_default: bool = False
    """Whether it records allocations if `Options.memory` is None."""
    tells_sites: bool = False
    """Whether its logs have source lines if `Options.chains` requests them."""
    sites_hint: str = ""
    """The ops without source lines in its logs, with a remedy: "graphs have to be compiled in the test"."""
    forgets_compiled: bool = False
    """Whether it counts functions compiled again (``recompilations``) and can `forget_compiled`."""
    vocabulary: Mapping[str, str] = {}
    """Raw names that `ops.tables` does not have, separated by blanks, by canonical op."""

    @property
    def hint(self) -> str:
        """The user's remedy if nothing was recorded, as far as it is not done: "torch must be imported at the top of
        the module". A text of the class, or a property.
        """
        return ""

    def unavailable(self) -> str | None:
        """Return in one line why this backend cannot run here, or None if it can."""
        return None

    def unsupported(self) -> str | None:
        """Return in one line why the installed version of the framework cannot be recorded, or None.

        It must not import the framework. A run that would measure with it prints this once, and measures nothing.
        """
        return None

    @abstractmethod
    def in_use(self) -> bool:
        """Return True if this process uses the framework; it is then recorded unless the user chose other backends.

        This is called before and after each window, also in processes without the framework. It must not import it.
        """

    def begin_run(self) -> None:  # noqa: B027  # there may be nothing to do
        """Prepare for code that test modules run while they are imported. It must not import the framework."""

    def begin_test(self) -> None:  # noqa: B027  # there may be nothing to do
        """Forget an earlier test's leftovers, if they could change the recording of this test."""

    def forget_compiled(self) -> None:  # noqa: B027  # there may be nothing to forget
        """Forget all compiled functions, so that a test compiles them again, if `forgets_compiled`.

        An update runs each test once like this, since functions that an earlier test compiled are not compiled again.
        """

    def blind(self) -> str | None:
        """Return why an empty log would prove nothing, or None if it proves that nothing ran."""
        return None

    @abstractmethod
    def collect(self, options: Options) -> AbstractContextManager[EventLog]:
        """Record until the context ends; only then is the log complete.

        Raises BackendError if the profiler cannot start, or lost a part of the recording.
        """

    def settle(self) -> None:  # noqa: B027  # there may be nothing to wait for
        """Wait until all work started by the program is done, unless the host waits for it anyway.

        This is called while recording: before a step begins, and at its end before the clock is read. A backend whose
        device times its work itself should not override it: the wall time of a step is not judged there, and waiting
        would prevent the overlap of steps.
        """

    def device_bytes(self) -> int:
        """Return the memory of accelerators that arrays of this framework take; 0 without one.

        A search for leaks asks before and after calls of a test. It must not import the framework, nor start a device.
        """
        return 0

    def threads_limited(self, threads: int) -> AbstractContextManager[object]:
        """Limit ops to this many threads in the context, if the framework has threads besides OpenMP's and BLAS's."""
        return nullcontext()

    def rank(self) -> tuple[int, int] | None:
        """Return rank and size of this process, if the framework knows them; asked after a test."""
        return None

    def selfcheck_work(self) -> KnownWork | None:
        """Return the work for ``opprof selfcheck --backend``, or None if there is none."""
        return None
