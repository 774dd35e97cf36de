"""Errors for the person who can fix them.

    OpprofError
    ├── UsageError      an invalid mark, flag, argument or name
    ├── BackendError    a profiler that cannot run here, or lost part of its recording
    │   └── NothingMeasured  no profiler saw anything, so that nothing can be judged
    ├── BaselineError   a baseline file that cannot be read or written
    └── TraceError      a saved profile that cannot be read

Every message names the given value, the allowed values and the remedy; the edges (pytest, the command line) print it
without a traceback.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class OpprofError(Exception):
    """The root of every error that this package raises on purpose."""


class UsageError(OpprofError):
    """An invalid mark, flag, argument or name."""


class BackendError(OpprofError):
    """A profiler that cannot run here, or lost part of its recording."""


class NothingMeasured(BackendError):
    """No profiler saw anything, so that nothing can be judged."""


class LateImport(BackendError):
    """A framework was first imported inside a window, which missed its ops."""


class BaselineError(OpprofError):
    """A baseline file that cannot be read or written."""


class TraceError(OpprofError):
    """A saved profile that cannot be read: which file, what was expected, where it broke."""


def unknown(name: str, known: Collection[str], what: str = "op", listed: Collection[str] = ()) -> UsageError:
    """Return the error for a *name* that is not in *known*, with the nearest names, and with all *listed* ones."""
    near = suggestion(name, known)
    more = f"{'' if near else '.'} Known: {', '.join(listed)}." if listed else ""
    return UsageError(f"unknown {what} {name!r}{near}{more}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``": did you mean 'Cast'?"`` for the names nearest to *name*, or ""."""
    # Imported here: only an error needs it.
    from difflib import get_close_matches

    lower = {other.lower(): other for other in sorted(known)}
    near = [lower[match] for match in get_close_matches(name.lower(), lower, n=3, cutoff=0.7)]
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""
