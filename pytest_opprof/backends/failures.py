"""Whose failure it is: what a backend raises is told as its own, and never as the test's."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..errors import BackendError, OpprofError
from .contract import GROUP, Backend, Options

if TYPE_CHECKING:
    from ..profile.event_log import EventLog

_T = TypeVar("_T")


def failure(backend: Backend, error: Exception) -> BackendError:
    """Return the error to raise in place of *error*: which backend failed, where it came from, what happened where."""
    points = [point.dist for point in entry_points(group=GROUP, name=backend.name) if point.dist]
    origin = f"{points[0].name} {points[0].version}" if points else type(backend).__module__
    where = ""
    if frames := traceback.extract_tb(error.__traceback__):
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return BackendError(f"backend {backend.name!r} ({origin}) failed: {what}{where}")


@contextmanager
def failures_of(backend: Backend) -> Iterator[None]:
    """Make a BackendError of what is raised inside, unless it is an error of this package already."""
    try:
        yield
    except OpprofError:
        raise
    except Exception as error:
        raise failure(backend, error) from error


@contextmanager
def noted_on(error: BaseException) -> Iterator[None]:
    """Keep *error*, which is on its way to the user, from being replaced by what goes wrong inside."""
    try:
        yield
    except Exception as other:
        if error not in (other, other.__cause__) and hasattr(error, "add_note"):  # Python 3.10 has no notes
            error.add_note(str(other))


@contextmanager
def entered(backend: Backend, context: Callable[[], AbstractContextManager[_T]]) -> Iterator[_T]:
    """Enter a *context* of *backend*. What it raises is the backend's failure; what the body raises stays as it is.

    The body's error comes out whatever the context makes of it: neither swallowed nor replaced.
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


@contextmanager
def collecting(backend: Backend, options: Options) -> Iterator[EventLog]:
    """Record with *backend* until the context ends. Raises BackendError for whatever it does wrong."""
    from ..profile.event_log import EventLog

    with entered(backend, lambda: backend.collect(options)) as log:
        if not isinstance(log, EventLog):
            what = f"its collect() gave a {type(log).__name__}, not an EventLog"
            raise BackendError(f"backend {backend.name!r} cannot be used: {what}; see docs/backends.md")
        knows = log.knows

        def asked(name: str) -> bool:
            with failures_of(backend):
                return knows(name)

        log.knows = asked
        yield log
