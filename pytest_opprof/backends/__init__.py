"""Live collectors, one module a framework: the only place that imports the framework.

A third party adds one through the entry-point group ``pytest_opprof.backends``: a name and a callable without
arguments that returns a `Backend`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, Protocol

from .. import conditions, names
from ..errors import BackendError
from ..model import EventLog

GROUP = "pytest_opprof.backends"
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


_BUILTIN = tuple(
    EntryPoint(name, f"pytest_opprof.backends.{name}:backend", GROUP) for name in ("numpy", "torch", "cuda", "fake")
)


def find() -> dict[str, EntryPoint]:
    """Return the backends that are installed, built-in and third-party, by name."""
    return {point.name: point for point in (*entry_points(group=GROUP), *_BUILTIN)}


def load(name: str) -> Backend:
    """Return the backend called *name*. Raises BackendError when there is none or it does not load."""
    known = find()
    if name not in known:
        raise BackendError(f"no backend {name!r}{names.suggestion(name, known)} Known: {', '.join(sorted(known))}.")
    try:
        backend: Backend = known[name].load()()
    except Exception as error:  # a third party's module may fail in any way
        raise BackendError(f"backend {name!r} ({known[name].value}) does not load: {error!r}") from error
    return backend


@contextmanager
def threads_limited(backends: Iterable[Backend], threads: int) -> Iterator[None]:
    """Let BLAS, OpenMP and what has threads of its own among the *backends*' frameworks use so many threads."""
    with ExitStack() as stack:
        # Backends first: what they put back has to be what they found, not our limit.
        for backend in backends:
            if limit := getattr(backend, "threads_limited", None):
                stack.enter_context(limit(threads))
        stack.enter_context(conditions.threads_limited(threads))
        yield


def load_all(chosen: Iterable[str] | None) -> list[Backend]:
    """Return the *chosen* backends, or all but the fake one. Raises BackendError if a chosen one cannot run."""
    if chosen is None:
        return [load(name) for name in sorted(find()) if name != "fake"]
    backends = [load(name) for name in chosen]
    for backend in backends:
        if reason := backend.unavailable():
            raise BackendError(f"backend {backend.name!r} cannot run here: {reason}")
    return backends
