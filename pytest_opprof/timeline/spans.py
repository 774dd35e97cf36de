"""A timeline: the spans of each thread or stream. In columns, 28 bytes an event."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator
from enum import IntEnum, auto
from operator import add
from typing import NamedTuple

_NEVER = -(1 << 63)


class Lane(NamedTuple):
    """A thread or stream: its spans follow or contain each other."""

    process: str
    """``process 4711``, ``device 0``."""
    thread: str
    """``thread 4711``, ``stream 7``."""
    on_device: bool = False
    """Whether the work of the program is done here, not only launched. On a CPU profile the CPU is the device."""

    def __str__(self) -> str:
        return f"{self.process} {self.thread}"


class Kind(IntEnum):
    """The kind of a span."""

    OP = auto()
    """An op; on a device, its computation."""
    COMMUNICATION = auto()
    """Moves data between devices, or waits for another one that does."""
    COPY = auto()
    """Moves data between host and device or within a device, or sets it."""
    CALL = auto()
    """A call of the driver or of the framework's own machinery."""
    WAIT = auto()
    """A stream that waits for an event: no work."""
    RANGE = auto()
    """A range of the program: ``record_function``, NVTX, a module."""
    STEP = auto()
    """A step; its name is the label."""


# The kinds that keep a device busy.
WORK = frozenset([Kind.OP, Kind.COMMUNICATION, Kind.COPY])


class Span(NamedTuple):
    """A span of time; times are ns since some moment near the recording's begin."""

    lane: Lane
    depth: int
    """The number of spans of the lane around it."""
    name: str
    start_ns: int
    duration_ns: int
    kind: Kind = Kind.OP
    launched_ns: int | None = None
    """The time of its launch on the host, if known."""

    @property
    def end_ns(self) -> int:
        """The end time."""
        return self.start_ns + self.duration_ns


class Memory(NamedTuple):
    """The memory of a device in use, in columns and in the order of time."""

    times_ns: array[int]
    """The times of changes."""
    sizes: array[int]
    """Bytes in use from then on."""

    def between(self, begin_ns: int, end_ns: int) -> Memory:
        """Return the part between two times, with the value at the first, if known."""
        first, last = bisect_left(self.times_ns, begin_ns), bisect_right(self.times_ns, end_ns)
        found = Memory(self.times_ns[first:last], self.sizes[first:last])
        if first and (not found.times_ns or found.times_ns[0] > begin_ns):
            found.times_ns.insert(0, begin_ns)
            found.sizes.insert(0, self.sizes[first - 1])
        return found


class Timeline:
    """All spans, in columns. Iterating gives them one lane after the other, each in the order of time."""

    def __init__(self) -> None:
        self.memory: dict[str, Memory] = {}
        """By device, if the source has it."""
        self._what: dict[tuple[Lane, str, Kind], int] = {}
        self._which = array("i")
        self._starts = array("q")
        self._durations = array("q")
        self._launched = array("q")

    def __len__(self) -> int:
        return len(self._which)

    def add(
        self, lane: Lane, name: str, kind: Kind, start_ns: int, duration_ns: int, launched_ns: int | None = None
    ) -> None:
        """Add a span, in any order. Raises OverflowError for times beyond 64 bits."""
        self._starts.append(start_ns)
        self._durations.append(duration_ns)
        self._launched.append(_NEVER if launched_ns is None else launched_ns)
        self._which.append(self._what.setdefault((lane, name, kind), len(self._what)))

    @property
    def lanes(self) -> list[Lane]:
        """The lanes, in the order in which they were added."""
        return list(dict.fromkeys(lane for lane, _, _ in self._what))

    @property
    def has_steps(self) -> bool:
        """Whether it has the starts and ends of steps."""
        return any(kind is Kind.STEP for _, _, kind in self._what)

    @property
    def begin_ns(self) -> int:
        """The start of the first span; 0 for an empty timeline."""
        return min(self._starts, default=0)

    @property
    def end_ns(self) -> int:
        """The end of the last span; 0 for an empty timeline."""
        return max(map(add, self._starts, self._durations), default=0)

    def extent(self, steps: Container[str]) -> tuple[int, int]:
        """Return the start of the first of these *steps* and the end of the last one; zeros if there is none of
        them.
        """
        found = [span for span in self if span.kind is Kind.STEP and span.name in steps]
        return min((span.start_ns for span in found), default=0), max((span.end_ns for span in found), default=0)

    def __iter__(self) -> Iterator[Span]:
        what = list(self._what)
        numbers = {lane: number for number, lane in enumerate(self.lanes)}
        lane_of = [numbers[lane] for lane, _, _ in what]
        members = [array("i") for _ in numbers]
        for index, which in enumerate(self._which):
            members[lane_of[which]].append(index)
        for indices in members:
            yield from self._in_order(what, indices)

    def _in_order(self, what: list[tuple[Lane, str, Kind]], indices: array[int]) -> Iterator[Span]:
        """Yield the spans of a lane. A span is inside the innermost one that runs from its start to its end."""
        starts, durations = self._starts, self._durations
        # Two sorts take a third of the memory of one by pairs. Of spans with the same start the longer one is outside.
        order = sorted(sorted(indices, key=durations.__getitem__, reverse=True), key=starts.__getitem__)
        around: list[int] = []
        for index in order:
            start, duration, launched = starts[index], durations[index], self._launched[index]
            end = start + duration
            while around and (start >= around[-1] or end > around[-1]):
                around.pop()
            lane, name, kind = what[self._which[index]]
            yield Span(lane, len(around), name, start, duration, kind, None if launched == _NEVER else launched)
            around.append(end)
