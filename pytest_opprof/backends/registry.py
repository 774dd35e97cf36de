"""The backends that are installed, built-in and third-party, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import EntryPoint, entry_points

from .. import errors
from ..errors import BackendError
from ..machine import threads as machine_threads
from .contract import Backend

GROUP = "pytest_opprof.backends"
_BUILTIN = (
    EntryPoint("numpy", "pytest_opprof.backends.numpy.backend:backend", GROUP),
    EntryPoint("torch", "pytest_opprof.backends.torch.backend:backend", GROUP),
    EntryPoint("cuda", "pytest_opprof.backends.cuda.backend:backend", GROUP),
    EntryPoint("fake", "pytest_opprof.backends.fake:backend", GROUP),
)


def find() -> dict[str, EntryPoint]:
    """Return the backends that are installed, built-in and third-party, by name."""
    return {point.name: point for point in (*entry_points(group=GROUP), *_BUILTIN)}


def load(name: str) -> Backend:
    """Return the backend called *name*. Raises BackendError when there is none or it does not load."""
    known = find()
    if name not in known:
        raise BackendError(f"no backend {name!r}{errors.suggestion(name, known)} Known: {', '.join(sorted(known))}.")
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
        stack.enter_context(machine_threads.threads_limited(threads))
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
