"""The backends that are installed, built-in and third-party, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points

from ... import errors
from ...errors import BackendError
from ...machine import threads as machine_threads
from ...ops import names
from .contract import GROUP, Backend
from .failures import entered, failures_of

_BUILTIN = {
    name: EntryPoint(name, f"pytest_opprof.frameworks.{module}:backend", GROUP)
    for name, module in {
        "numpy": "numpy.live.backend",
        "mindspore": "mindspore.live.backend",
        "torch": "pytorch.live.backend",
        "cuda": "nvidia.live.backend",
        "ascend": "ascend.live.backend",
        "jax": "xla.live.backend",
        "onnxruntime": "onnx.live.backend",
        "fake": "fake.live",
    }.items()
}


def find() -> dict[str, EntryPoint]:
    """Return the installed backends, built-in and third-party, by name."""
    return _of_third_parties() | _BUILTIN


@cache
def _of_third_parties() -> dict[str, EntryPoint]:
    """Return the backends of third parties, as the start of a run finds them: a program under test may add a finder of
    packages that raises an error (importlib_metadata's, on another Python). Raises BackendError if one does at once.
    """
    try:
        return {point.name: point for point in entry_points(group=GROUP)}
    except Exception as error:  # of a finder of any package
        raise BackendError(f"a finder in sys.meta_path cannot list the installed packages: {error!r}") from error


def load(name: str) -> Backend:
    """Return the backend called *name*, and add its raw names to `ops.names`.

    Raises BackendError if it does not exist, does not load, or is no `Backend`.
    """
    known = find()
    if name not in known:
        raise BackendError(f"no backend {name!r}{errors.suggestion(name, known)} Known: {', '.join(sorted(known))}.")
    try:
        backend = known[name].load()()
    except Exception as error:  # a module of another package may fail in any way
        raise BackendError(f"backend {name!r} ({known[name].value}) does not load: {error!r}") from error
    if problem := _problem(backend, name):
        raise BackendError(f"backend {name!r} ({known[name].value}) cannot be used: {problem}; see docs/backends.md")
    names.learn(name, backend.vocabulary)
    return backend  # type: ignore[no-any-return]  # `_problem` checked it


def _problem(backend: object, name: str) -> str:
    """Return why an object cannot be the backend called *name*; empty if it can."""
    if not isinstance(backend, Backend):
        what = f"{type(backend).__module__}.{type(backend).__qualname__}"
        return f"it is a {what}, which does not derive from pytest_opprof.backends.Backend"
    if getattr(backend, "name", None) != name:
        return f"its entry point is called {name!r}, its `name` is {getattr(backend, 'name', None)!r}"
    words = backend.vocabulary
    if not hasattr(words, "items") or not all(isinstance(text, str) for item in words.items() for text in item):
        return "its `vocabulary` must be a mapping from canonical ops to raw names, separated by blanks"
    return "" if isinstance(backend.hint, str) else "its `hint` has to be a text"


def load_all(chosen: Iterable[str] | None) -> list[Backend]:
    """Return the *chosen* backends, or all but the fake one. Raises BackendError if a chosen one cannot run."""
    if chosen is None:
        return [load(name) for name in sorted(find()) if name != "fake"]
    backends = [load(name) for name in chosen]
    for backend in backends:
        ensure_available(backend)
    return backends


def begin_run(chosen: Iterable[str] | None) -> None:
    """Prepare the *chosen* backends, or all. A backend that does not load is reported by the first test."""
    for name in find() if chosen is None else chosen:
        with suppress(BackendError):
            backend = load(name)
            with failures_of(backend):
                backend.begin_run()


def ensure_available(backend: Backend) -> None:
    """Raise BackendError, with the reason, if *backend* cannot run here."""
    with failures_of(backend):
        reason = backend.unavailable()
    if reason:
        raise BackendError(f"backend {backend.name!r} cannot run here: {reason}")


@contextmanager
def threads_limited(backends: Iterable[Backend], threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and the frameworks of *backends* to this many threads."""
    with ExitStack() as stack:
        # Backends first: they must find, and later restore, the program's number of threads, not the limit set below.
        for backend in backends:
            stack.enter_context(entered(backend, partial(backend.threads_limited, threads)))
        stack.enter_context(machine_threads.threads_limited(threads))
        yield


def hints(backends: Iterable[Backend]) -> str:
    """Return the remedies for an empty recording: the hints of the backends that can run here."""
    found = []
    for backend in backends:
        with failures_of(backend):
            if backend.hint and not backend.unavailable():
                found.append(backend.hint)
    # backends are sorted by name; NumPy's hint comes last, because everybody has NumPy
    return ", ".join(reversed(found))


def learn_names() -> list[str]:
    """Add the raw names of all third-party backends to `ops.names`; return why some did not load.

    Commands and runs that look names up need this. It imports the backends' modules.
    """
    problems = []
    for name in find().keys() - _BUILTIN.keys():
        try:
            load(name)
        except BackendError as error:
            problems.append(str(error))
    return sorted(problems)
