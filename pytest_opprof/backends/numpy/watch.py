"""What watched arrays report to: it records the ops of one test while a window is open."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, get_ident, local
from typing import Any

from ...ops.numpy_work import NO_ATTRIBUTES, Attributes, work
from ...profile.columns import ABSENT
from ...profile.event_log import EventLog
from ...sites.stack import here
from .arguments import dtype_name

CASE, DURATION = 0, 1
"""Where a row has what was done, and its time."""
_HIDDEN: Any = object()
_NOT_THE_PROGRAM = (f"{__package__}.", "numpy.")


class _Here(local):
    """What runs in this thread."""

    around: Any = None
    """The row of the op whose inner ops are recorded; `_HIDDEN` while nothing is recorded."""


_here = _Here()


class Watch:
    """What the watched arrays of one test report to."""

    def __init__(self) -> None:
        self.log: EventLog | None = None
        """None while no window is open."""
        self.everything = False
        """Whether arrays that are made in a window are watched, too."""
        self.is_over = False
        """Whether the test has ended. Its arrays then act as plain ones: no other test may depend on them."""
        self.has_arrays = False
        self.ended: dict[str, None] = {}
        """The functions in which the watch ended, each with the module and line that called it."""
        self._rows: list[list[Any]] = []
        self._cases: dict[Any, Any] = {}
        self._sites: dict[int, int] = {}
        self._moments = False
        """Whether rows have when they began, too, and the thread where it is another than that of the window."""
        self._thread = 0

    @contextmanager
    def reporting(self, log: EventLog, everything: bool, moments: bool) -> Iterator[None]:
        """Fill *log*; it is complete when the context ends. *moments*: also say when everything ran."""
        self.log, self.everything, self._rows, self._cases, self.ended = log, everything, [], {}, {}
        self._sites, self._moments, self._thread = {}, moments, get_ident()
        try:
            yield
        finally:
            self.log, self.everything = None, False
            rows, self._rows = self._rows, []
        log.knows_flops = True
        index = {id(row): number for number, row in enumerate(rows)}
        works: dict[Any, tuple[int, int, int | None]] = {}
        for row in rows:
            case, duration_ns, around, interval, *began = row
            done = works.get(case)
            if done is None:
                done = works[case] = _work(log, *case)
            event = log.add(done[0], duration_ns, index.get(id(around), -1), interval, done[1])
            if done[2] is not None:
                log.computed(event, done[2])
            if self._sites:
                log.asked_at(event, self._sites[id(row)])
            if began:
                log.ran(event, began[0], began[0] + duration_ns, *began[1:])

    def record(
        self,
        key: tuple[Any, ...],
        duration_ns: int,
        given: tuple[Any, ...] = (),
        returned: tuple[Any, ...] = (),
        attributes: Any = None,
        around: Any = None,
        begin_ns: int = 0,
    ) -> list[Any]:
        """Record an op, if a window is open, and return its row. *key* holds the arguments of `EventLog.name`.

        *given* and *returned* are those of `tensors_in`; *attributes* are all other arguments, of the ops in
        `NEEDS_ATTRIBUTES`. *begin_ns* is when it began, where that is known now. Threads may do so at once: an append
        is atomic.
        """
        log = self.log
        around = _here.around if around is None else around
        case: Any = key, given, returned, attributes
        # Few differ. To keep a new tuple for each op would keep the garbage collector busy: 2 us an op.
        case = self._cases.setdefault(case, case)
        row = [case, duration_ns, around, log.interval if log is not None else 0]
        if log is not None and around is not _HIDDEN:
            self._rows.append(row)
            if log.chains is not None:
                self._sites[id(row)] = here(log.chains, sys._getframe(1))
            if begin_ns:
                self.began(row, begin_ns)
        return row

    def began(self, row: list[Any], begin_ns: int) -> None:
        """Say when the op of *row* began, in this thread."""
        if self._moments:
            row.append(begin_ns)
            if get_ident() != self._thread:
                row.append(current_thread().name)

    def ends(self, function: str) -> None:
        """Say that the watch ended: what *function* did with a watched array, and what it returned, is not seen."""
        if self.log is None or _here.around is not None:
            return  # inside an op that is counted
        frame = sys._getframe(1)
        while frame.f_back and frame.f_globals.get("__name__", "").startswith(_NOT_THE_PROGRAM):
            frame = frame.f_back
        self.ended[f"{function} ({frame.f_globals.get('__name__')}:{frame.f_lineno})"] = None


def _work(
    log: EventLog, key: tuple[Any, ...], given: Any, returned: Any, attributes: Attributes | None
) -> tuple[int, int, int | None]:
    """Return the name in *log* of such an op, its bytes and its FLOPs."""
    read, written = (
        [(dtype_name(dtype), shape) for dtype, shape in zip(arrays[::2], arrays[1::2])] for arrays in (given, returned)
    )
    raw, dtypes, op = (*key, (), "")[:3]
    signature, nbytes, flops = work(raw, read, written, op, attributes or NO_ATTRIBUTES)
    return log.name(raw, dtypes, op, None, signature), ABSENT if nbytes is None else nbytes, flops


class inside:  # noqa: N801  # a context manager, called like contextlib's, which would take four times as long
    """Record what this thread runs as inside the op of *row*."""

    __slots__ = ("_before", "_row")

    def __init__(self, row: list[Any]) -> None:
        self._row = row

    def __enter__(self) -> None:
        """Begin."""
        self._before, _here.around = _here.around, self._row

    def __exit__(self, *error: object) -> None:
        """End."""
        _here.around = self._before


class hidden:  # noqa: N801  # the same
    """Record nothing of what this thread runs: it is no part of the program."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        """Begin."""
        self._before, _here.around = _here.around, _HIDDEN

    def __exit__(self, *error: object) -> None:
        """End."""
        _here.around = self._before


def is_hidden() -> bool:
    """Tell whether nothing of what this thread runs is recorded."""
    return _here.around is _HIDDEN
