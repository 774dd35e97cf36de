"""Report an error of a backend as the backend's own, never as the test's."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from ...errors import BackendError, OpprofError
from .contract import GROUP, Backend

_T = TypeVar("_T")


def failure(backend: Backend, error: Exception) -> BackendError:
    """Return the error to raise in place of *error*: it names the backend, its package, the error and its line."""
    points = [point.dist for point in entry_points(group=GROUP, name=backend.name) if point.dist]
    origin = f"{points[0].name} {points[0].version}" if points else type(backend).__module__
    where = ""
    if frames := traceback.extract_tb(error.__traceback__):
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return BackendError(f"backend {backend.name!r} ({origin}) failed: {what}{where}")


class failures_of:  # noqa: N801  # a context manager, called like contextlib's
    """Raise a BackendError in place of an inner error, unless that is an error of this package."""

    # A class, not a generator: it is five times as fast, and some of these surround each window.
    __slots__ = ("_backend",)

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, OpprofError):
            raise failure(self._backend, error) from error


@contextmanager
def noted_on(error: BaseException) -> Iterator[None]:
    """Add an inner error to *error* as a note, so that the user still gets *error*."""
    try:
        yield
    except Exception as other:
        if error not in (other, other.__cause__) and hasattr(error, "add_note"):  # Python 3.10 has no notes
            error.add_note(str(other))


@contextmanager
def entered(backend: Backend, context: Callable[[], AbstractContextManager[_T]]) -> Iterator[_T]:
    """Enter a *context* of *backend*. An error of the context is the backend's failure.

    An error of the body is raised unchanged: the context can neither suppress nor replace it.
    """
    with failures_of(backend):
        manager = context()
        value = manager.__enter__()
    try:
        yield value
    except BaseException as error:
        with noted_on(error), failures_of(backend):
            manager.__exit__(type(error), error, error.__traceback__)
        raise
    with failures_of(backend):
        manager.__exit__(None, None, None)
