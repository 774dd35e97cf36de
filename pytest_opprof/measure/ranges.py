"""Ranges: the user's own ops (`own.op`), in the intervals into which their begins and ends cut a collection.

A range is counted in the interval where it begins. Its time is the wall time of the intervals in which it is the
innermost, minus the time of all ops in them, so that the times of a table still add up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..frameworks.pytorch.events import Role, role
from ..ops import names
from ..profile.columns import ABSENT
from ..profile.environment import Environment
from ..profile.events.attribution import NOBODY
from ..profile.events.event_log import EventLog
from ..profile.op_profile import OpProfile

_NAME = re.compile(r"[A-Za-z][\w.:/ -]*", re.ASCII)


class Ranges:
    """The ranges of one collection."""

    def __init__(self) -> None:
        self._entered: list[tuple[str, int]] = []
        """Name and first interval of each."""
        self._left: dict[int, int] = {}
        """The interval that began with the end of each."""
        self._open: list[int] = []
        self._innermost: list[int] = []
        """The index of a range, for each finished interval."""
        self._wall_ns: list[int] = []

    @property
    def innermost(self) -> str:
        """The name of the open range, empty if none is."""
        return self._entered[self._open[-1]][0] if self._open else ""

    def enter(self, name: str, interval: int) -> None:
        """Open a range in a new *interval*."""
        self._open.append(len(self._entered))
        self._entered.append((name, interval))

    def find(self, name: str) -> int | None:
        """Return the innermost open range called *name*, since ranges of several tasks may overlap."""
        for index in reversed(self._open):
            if self._entered[index][0] == name:
                return index
        return None

    def leave(self, index: int, interval: int) -> None:
        """Close the range that `find` found, in a new *interval*."""
        self._open.remove(index)
        self._left[index] = interval

    def interval_ends(self, wall_ns: int) -> None:
        """Record the end of an interval, and its time."""
        self._innermost.append(self._open[-1] if self._open else NOBODY)
        self._wall_ns.append(wall_ns)

    def profile(
        self,
        recorded: Sequence[OpProfile],
        inside_ops: Collection[int],
        aliases: Mapping[str, str] | None,
        marks_ns: Sequence[int] = (),
    ) -> OpProfile | None:
        """Return the profile of the ranges, beside the *recorded* ones of the backends; None without a range.

        *inside_ops* are intervals that began inside an op: their time is that op's. An accelerator's time is all in its
        ops; there ranges have none. *marks_ns* is the start of each interval but the first, if requested. Raises
        UsageError if a range has the name of an op that ran.
        """
        if not self._entered:
            return None
        ran = {name for profile in recorded for name in (*profile.op_names, *profile.raw_names)}
        for name in ran.intersection(name for name, _ in self._entered):
            raise UsageError(f"opprof.op({name!r}): an op of this name ran beside it; give the range another name")
        # No framework's environment, since it decides nothing about the measurement, and knows everything about itself.
        log = EventLog(Environment(()))
        log.interval = len(self._innermost) - 1
        log.knows_flops = log.knows_memory = True
        on_cpu = all(profile.environment.device == "cpu" for profile in recorded if not profile.is_empty)
        for (name, interval), own_ns in zip(self._entered, self._own_ns(recorded, inside_ops).tolist()):
            event = log.add(log.name(name), own_ns if on_cpu else ABSENT, interval=interval)
            if marks_ns and event in self._left:
                log.ran(event, marks_ns[interval - 1], marks_ns[self._left[event] - 1], "opprof.op")
        return log.freeze(aliases, marks_ns)

    def _own_ns(self, recorded: Iterable[OpProfile], inside_ops: Collection[int]) -> NDArray[np.int64]:
        left = np.array(self._wall_ns, np.int64)
        for profile in recorded:
            left -= np.array(profile.total.device_ns or 0, np.int64)
        left[list(inside_ops)] = 0
        innermost = np.array(self._innermost, np.int64)
        own = np.zeros(len(self._entered), np.int64)
        np.add.at(own, innermost[innermost != NOBODY], left[innermost != NOBODY])
        return np.maximum(own, 0)


def check_name(name: object, logs: Iterable[EventLog]) -> None:
    """Raise UsageError for an invalid name of a range, or one that already has a meaning."""
    __tracebackhide__ = True
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"opprof.op({name!r}): write a letter, then letters, digits, spaces and _ . : / -")
    meaning = names.meaning(name)
    if meaning.op in names.canonical_ops():
        taken = f"ops called so are counted as {meaning.op}"
    elif (
        meaning.kind is not names.Kind.UNKNOWN
        or names.is_known(name)
        or role(name, annotates=False, numbered=False) not in (Role.OP, Role.GROUP)
        or any(log.knows(name) for log in logs)
    ):
        taken = "a framework has ops called so"
    else:
        return
    raise UsageError(f"opprof.op({name!r}): the name is taken, {taken}; give the range one of its own: 'my_{name}'")
