"""When everything ran, as a drawing: a lane for each stream and thread, with bars, and memory below. It does not zoom.

However many events there are, a row has no more bars than columns: 20,000 events are some ten kB. What is wide enough
to be told apart is a bar with its name; in the rest each column has the colour of what took most of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...timeline.spans import WORK, Kind, Lane, Memory, Span
from ...units import format_ns
from . import marks

WIDTH: Final = 1240
ROW: Final = 9
LABEL: Final = 16
"""Height of the label above the rows of a lane."""
AREA: Final = 40
"""Height of an area of memory."""
_COLUMN: Final = 2
_WIDE: Final = 2 * _COLUMN
_ROWS: Final = 4
_LANES: Final = 16
_DEVICES: Final = 16
_STEPS: Final = 100
_NAME: Final = 80
_TICKS: Final = 10
"""Of the axis of time, at most: 124 units each, for a label."""
_DRAWN: Final = WORK | {Kind.CALL}
"""Waits are no work; ranges and steps are around everything else."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that ran, wide enough to have a name."""

    x: float
    y: int
    width: float
    fill: str
    title: str
    name: str
    """The whole, where the title has a part of it."""


@dataclass(slots=True)
class DrawnLane:
    """A thread or a stream."""

    lane: Lane
    events: int = 0
    busy_ns: int = 0
    share: float = 0.0
    """How much of the time shown it was busy."""
    rows: int = 1
    bars: list[Bar] = field(default_factory=list)
    joined: list[tuple[str, str]] = field(default_factory=list)
    """Colours, each with the path of the columns that have it."""
    y: int = 0


@dataclass(slots=True)
class DrawnMemory:
    """The memory of a device, as an area."""

    device: str
    peak: int
    peak_ns: int
    """When it was first so much, since the begin of the drawing."""
    path: str
    dot: tuple[float, float]
    """Where the peak is."""
    step: str = ""
    """In which the peak is."""
    y: int = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """The drawing."""

    length_ns: int
    lanes: list[DrawnLane]
    memory: list[DrawnMemory]
    """The devices with most memory in use."""
    left_out: int
    """The number of less busy lanes that are left out."""
    sorts: list[tuple[str, str]]
    steps: list[tuple[float, str]]
    """Where each begins, and its label; the label is empty where it has no room."""
    height: int

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The axis: where each tick is, and its time since the begin of the drawing."""
        least = self.length_ns / _TICKS
        power = 10 ** math.floor(math.log10(least))
        every = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)
        times = [every * number for number in range(int(self.length_ns / every) + 1)]
        return [(ns / self.length_ns * WIDTH, format_ns(ns)) for ns in times]


def overview(
    spans: Iterable[Span], begin_ns: int, end_ns: int, memory: Mapping[str, Memory] | None = None
) -> Overview | None:
    """Return the drawing of *spans*, lane after lane and each in the order of time; None where nothing is to draw.

    Below them the *memory* in use.
    """
    if end_ns <= begin_ns:
        return None
    told = {device: each.between(begin_ns, end_ns) for device, each in (memory or {}).items()}
    areas = [_area(device, each, begin_ns, end_ns) for device, each in told.items() if each.sizes]
    areas = sorted(areas, key=lambda area: -area.peak)[:_DEVICES]
    lanes: list[_Collected] = []
    steps: dict[str, int] = {}
    sorts: dict[tuple[str, Kind], marks.Sort] = {}
    for span in spans:
        if span.kind is Kind.STEP and len(steps) <= _STEPS and span.end_ns > begin_ns and span.start_ns < end_ns:
            steps[span.name] = min(span.start_ns, steps.get(span.name, span.start_ns))
        if span.kind is Kind.STEP:
            for area in areas:
                if span.start_ns <= begin_ns + area.peak_ns < span.end_ns:
                    area.step = span.name
        if span.kind not in _DRAWN or span.end_ns < begin_ns or span.start_ns > end_ns:
            continue
        sort = sorts.get((span.name, span.kind))
        if sort is None:
            sort = sorts[span.name, span.kind] = _sort_of(span)
        if not lanes or lanes[-1].lane != span.lane:
            lanes.append(_Collected(span.lane, begin_ns, end_ns))
        lanes[-1].add(span, sort)
    if not lanes:
        return None
    most = sorted(lanes, key=lambda each: (not each.lane.on_device, -each.busy_ns))[:_LANES]
    drawn = [each.drawn() for each in sorted(most, key=lambda each: (not each.lane.on_device, each.lane.process))]
    height = LABEL
    for lane in drawn:
        lane.y = height
        height += LABEL + lane.rows * ROW + 4
    for area in areas:
        area.y = height
        height += LABEL + AREA + 6
    fills = {fill for lane in drawn for fill in [*(bar.fill for bar in lane.bars), *(fill for fill, _ in lane.joined)]}
    return Overview(
        end_ns - begin_ns,
        drawn,
        areas,
        len(lanes) - len(drawn),
        [each for each in marks.SORTS.values() if each[0] in fills],
        _placed(steps, begin_ns, end_ns) if len(steps) <= _STEPS else [],
        height,
    )


def _area(device: str, memory: Memory, begin_ns: int, end_ns: int) -> DrawnMemory:
    """Return the memory of a device: in each column the most that was in use in it."""
    peak, low = max(memory.sizes), min(0, min(memory.sizes))
    columns: dict[int, int] = {}
    in_use = memory.sizes[0]
    at = -1
    for time, size in zip(*memory):
        column = min(int((time - begin_ns) * WIDTH / (end_ns - begin_ns) / _COLUMN), WIDTH // _COLUMN - 1)
        # Memory in use before a column is also in use at its beginning.
        columns[column] = max(size, columns[column] if column == at else in_use)
        if column > at + 1 and at >= 0:
            columns[at + 1] = in_use
        in_use, at = size, column
    if at + 1 < WIDTH // _COLUMN:
        columns[at + 1] = in_use

    def y(size: int) -> int:
        return round(LABEL + AREA - (size - low) / ((peak - low) or 1) * AREA)

    placed = sorted(columns.items())
    path = f"M{placed[0][0] * _COLUMN} {LABEL + AREA}"
    before = None
    for column, size in placed:
        if y(size) != before:
            path += f"H{column * _COLUMN}V{y(size)}"
        before = y(size)
    peak_ns = memory.times_ns[memory.sizes.index(peak)] - begin_ns
    dot = min(peak_ns * WIDTH / (end_ns - begin_ns), WIDTH - 3), y(peak)
    return DrawnMemory(device, peak, peak_ns, f"{path}H{WIDTH}V{LABEL + AREA}z", dot)


def _sort_of(span: Span) -> marks.Sort:
    if span.kind is Kind.COPY:
        return "moves"
    if span.kind is Kind.CALL:
        return "other"
    return marks.sort_of(span.name, communicates=span.kind is Kind.COMMUNICATION)


def _placed(steps: dict[str, int], begin_ns: int, end_ns: int) -> list[tuple[float, str]]:
    placed: list[tuple[float, str]] = []
    free = 0.0
    for name, start in sorted(steps.items(), key=lambda step: step[1]):
        x = max((start - begin_ns) / (end_ns - begin_ns) * WIDTH, 0.0)
        label = f"step {name[:12]}"
        # Seven units a character; on the right there must be room, too.
        has_room = free <= x <= WIDTH - 7 * len(label)
        placed.append((x, label if has_room else ""))
        free = x + 7 * len(label) if has_room else free
    return placed


class _Collected:
    """The drawing of a lane, in memory that does not grow with the events."""

    def __init__(self, lane: Lane, begin_ns: int, end_ns: int) -> None:
        self.lane = lane
        self.busy_ns = 0
        self._begin, self._end = begin_ns, end_ns
        self._scale = WIDTH / (end_ns - begin_ns)
        self._events = 0
        self._until = begin_ns
        self._around: list[int] = []
        self._columns: list[dict[int, dict[marks.Sort, int]]] = [{} for _ in range(_ROWS)]
        self._wide: list[dict[int, tuple[Span, marks.Sort]]] = [{} for _ in range(_ROWS)]
        """The longest that begins in a column: of others, which would be drawn over it, there may be any number."""

    def add(self, span: Span, sort: marks.Sort) -> None:
        self._events += 1
        start, end = max(span.start_ns, self._begin), min(span.end_ns, self._end)
        self.busy_ns += max(end - max(start, self._until), 0)
        self._until = max(self._until, end)
        around = self._around
        while around and (span.start_ns >= around[-1] or span.end_ns > around[-1]):
            around.pop()
        row = len(around)
        around.append(span.end_ns)
        if row >= _ROWS:
            return
        first, last = ((time - self._begin) * self._scale for time in (start, end))
        # An event at the very end has no column of its own.
        column = min(int(first / _COLUMN), WIDTH // _COLUMN - 1)
        if last - first >= _WIDE:
            before = self._wide[row].get(column)
            if before is None or before[0].duration_ns < span.duration_ns:
                self._wide[row][column] = span, sort
            return
        for at in range(column, min(int(last / _COLUMN) + 1, WIDTH // _COLUMN)):
            took = self._columns[row].setdefault(at, {})
            took[sort] = took.get(sort, 0) + end - start

    def drawn(self) -> DrawnLane:
        """Return it as shapes."""
        found = DrawnLane(self.lane, self._events, self.busy_ns, self.busy_ns / (self._end - self._begin))
        paths: dict[str, list[str]] = {}
        for row, (columns, wide) in enumerate(zip(self._columns, self._wide)):
            y = LABEL + row * ROW
            if columns or wide:
                found.rows = row + 1
            runs: list[tuple[int, int, str]] = []
            for at in sorted(columns):
                fill = marks.SORTS[max(columns[at], key=columns[at].__getitem__)][0]
                begin = runs.pop()[0] if runs and runs[-1][1:] == (at, fill) else at
                runs.append((begin, at + 1, fill))
            for begin, end, fill in runs:
                width = (end - begin) * _COLUMN
                paths.setdefault(fill, []).append(f"M{begin * _COLUMN} {y}h{width}v8h-{width}z")
            for span, sort in wide.values():
                first, last = ((time - self._begin) * self._scale for time in (span.start_ns, span.end_ns))
                first, last = max(first, 0), min(last, WIDTH)
                # Half a unit less: two bars of one colour are two.
                title = f"{span.name[:_NAME]}, {format_ns(span.duration_ns)}"
                found.bars.append(Bar(first, y, last - first - 0.5, marks.SORTS[sort][0], title, span.name))
        found.joined = [(fill, "".join(each)) for fill, each in paths.items()]
        return found
