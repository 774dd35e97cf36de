"""The page of a saved profile: its time by op, line, kernel and step, when things ran, memory and casts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import squarify

from ...ops.vocabulary import COMMUNICATION
from ...profile.saved import OUTSIDE, SavedProfile, communicates, dtypes_of, op_of
from ...questions import query
from ...questions.question import Line, Question, Side, in_steps
from ...timeline.peak import Peak
from ...units import format_bytes, format_ns
from ..hints import Hint, hints
from ..tables import shapes_text
from . import marks
from .page import rendered
from .times import Times

WIDTH, HEIGHT = 1240, 250
"""Of the treemap, in its own units: it is drawn as wide as the page."""
_LEAST_SHARE: Final = 0.002
"""Smaller ops are a pixel in the treemap, and are left to the table."""
_KERNELS: Final = 100
_STEPS: Final = 200
_TYPES: Final = 6
_SHAPES: Final = 8
_LINES: Final = 100
_HINTS: Final = 5
_HOLDERS: Final = 12
_APART: Final = 1.01
"""Sums that differ by less are the same."""
_LEAST_NAME: Final = 5
_BROAD: Final = frozenset("ABCDEFGHJKLNOPQRSTUVXYZw_<>=+#")


def html(saved: SavedProfile, name: str, when: Times | None = None) -> str:
    """Return the page of the profile *saved*, which the user calls *name*; *when* has its times, if they are known."""
    side: Side = "host" if query.has_times(saved, "host") and not query.has_times(saved, "device") else "device"
    total = query.total(saved, side)
    ops = _ops(saved, side)
    rows = _OpRows(saved, ops)
    kernels = query.kernels(saved)
    # The device time of each step tells the same, and more.
    steps = [] if when and when.has_steps else _steps(saved)
    tiles = _tiles([op for op in ops if (op.line.share or 0) > _LEAST_SHARE])
    casts = query.answer(saved, Question(side=side, types=("Cast",), aggregate_by="dtype"))
    casts = casts if any(line.op != "Cast" for line in casts) else []
    lines = query.answer(saved, Question(side=side, aggregate_by="site")) if saved.has_sites else []
    whole = when.whole.times if when and when.whole else None
    names: dict[str, list[str | None]] = {
        "breakdown": [row.times.step or row.times.device for row in when.rows] if when else [],
        "ranges": [row.name for row in when.ranges] if when else [],
        "kernels": [kernel.name for kernel in kernels[:_KERNELS]],
        "casts": [line.op for line in casts],
    }
    return rendered(
        "profile.html.j2",
        saved=saved,
        name=name,
        side=side,
        total=total,
        lead=next((op for op in ops if op.line.share), None),
        cards=_cards(saved, side, total, when),
        totals=list(_totals(saved, total, when)) if side == "device" and total else [],
        hints=[
            (hint, _anchor(hint, names[hint.row]), "device time" if hint.row == "breakdown" else hint.row)
            for hint in hints(saved, whole, when.every_range if when else ())[:_HINTS]
        ],
        remarks=[*saved.remarks, *query.untimed(saved)],
        ops=ops,
        row_of=rows.of,
        tiles=tiles,
        width=WIDTH,
        height=HEIGHT,
        sorts=[marks.SORTS[sort] for sort in marks.SORTS if any(tile.op.sort == sort for tile in tiles)],
        kernels=[(kernel, marks.SORTS[marks.sort_of(kernel.name)][0]) for kernel in kernels[:_KERNELS]],
        kernels_left_out=len(kernels) - _KERNELS,
        casts=casts,
        lines=lines[:_LINES],
        lines_left_out=len(lines) - _LINES,
        peaks=[_held(peak, rows) for peak in when.peaks] if when else [],
        steps=steps[:_STEPS],
        longest=max((wall or in_ops or 0 for _, wall, in_ops in steps), default=0),
        steps_left_out=len(steps) - _STEPS,
        when=when,
    )


def _anchor(hint: Hint, names: Sequence[str | None]) -> str:
    """Return the id of the row with the numbers of a hint; that of its table where the row is left out."""
    return f"{hint.row}-{names.index(hint.name)}" if hint.name in names else hint.row


def _totals(saved: SavedProfile, total: float | None, when: Times | None) -> Iterator[str]:
    """Yield how the totals of the page add up, and why they differ."""
    ops, communication = total or 0, query.communication(saved) or 0
    work = ops + communication
    if communication:
        yield (
            f"{format_ns(ops, 4)} in ops and {format_ns(communication, 4)} in communication are"
            f" {format_ns(work, 4)} of work on the device."
        )
    if not when or not when.whole:
        return
    whole = when.whole.times
    busy = whole.total_ns - whole.idle_ns
    apart = f"{format_ns(work, 4)} of work" if communication else f"The {format_ns(ops, 4)} in ops"
    length, idle = when.whole.length, format_ns(whole.idle_ns, 4)
    yield f"In {length} the device was busy for {format_ns(busy, 4)} and idle for {idle}."
    outside = 0.0
    if len(saved.steps) > 1 and saved.steps[-1] == OUTSIDE:
        others = in_steps(saved, OUTSIDE)
        outside = (query.total(others, "device") or 0) + (query.communication(others) or 0)
    if outside:
        yield f"{format_ns(outside, 4)} of the work ran outside of every step."
    if not when.has_devices and work - outside > _APART * busy:
        yield f"{apart} is more than the busy time: streams work at the same time, and busy time counts that once."
    if when.has_devices:
        yield "Work is of all devices together; busy time is of one."


@dataclass(frozen=True, slots=True)
class _Op:
    """An op, with the raw types that count as it."""

    line: Line
    name: str
    types: str
    cumulative: float | None
    sort: marks.Sort
    shapes: list[tuple[str, int, float | None]]
    """The shapes and dtypes of its calls, the most expensive first, with calls and time."""

    @property
    def fill(self) -> str:
        return marks.SORTS[self.sort][0]

    @property
    def each_ns(self) -> float | None:
        return self.line.time_ns / self.line.calls if self.line.time_ns is not None and self.line.calls else None


def _ops(saved: SavedProfile, side: Side) -> list[_Op]:
    types: dict[str, dict[str, None]] = {}
    for record in saved.records:
        types.setdefault(op_of(record), {}).setdefault(record.type)
    total = query.total(saved, side)
    shapes = _shapes(saved, side)
    ops = []
    for line in query.answer(saved, Question(side=side, aggregate_by="op")):
        name = line.op or ""
        raw = [each for each in types.get(name, ()) if each != name]
        more = f" and {len(raw) - _TYPES} more" if len(raw) > _TYPES else ""
        cumulative = line.cumulative_ns / total if line.cumulative_ns is not None and total else None
        sort = marks.sort_of(name, communicates=line.communication or name in COMMUNICATION)
        ops.append(_Op(line, name, ", ".join(raw[:_TYPES]) + more, cumulative, sort, shapes[name]))
    return ops


def _shapes(saved: SavedProfile, side: Side) -> defaultdict[str, list[tuple[str, int, float | None]]]:
    """Return by op the shapes and dtypes of its calls, as far as shapes are known."""
    found: defaultdict[str, defaultdict[str, list[tuple[int, float | None]]]] = defaultdict(lambda: defaultdict(list))
    for record in query.select(saved, Question(side=side, aggregate_by="op")):
        ns = record.device_ns if side == "device" else record.host_ns
        if record.calls and record.input_shapes:
            signature = f"{shapes_text(record.input_shapes)} {dtypes_of(record) or ''}"
            found[op_of(record)][signature].append((record.calls, ns))
    rows: defaultdict[str, list[tuple[str, int, float | None]]] = defaultdict(list)
    for op, by_shapes in found.items():
        for signature, calls in by_shapes.items():
            times = [ns for _, ns in calls if ns is not None]
            rows[op].append((signature, sum(number for number, _ in calls), sum(times) if times else None))
        rows[op].sort(key=lambda row: (-(row[2] or 0), -row[1], row[0]))
    return rows


class _OpRows:
    """Finds the row of the table of ops that a raw op, a kernel or a canonical op belongs to."""

    def __init__(self, saved: SavedProfile, ops: Sequence[_Op]) -> None:
        self._rows = {op.name: number for number, op in enumerate(ops)}
        self._ops: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for record in saved.records:
            for name in {record.type, record.name}:
                self._ops[name][op_of(record)] += record.calls
        self._launchers = {kernel.name: kernel.launched_by for kernel in saved.kernels or ()}

    def of(self, name: str) -> int | None:
        """Return the number of the row; None where it has none. Of several ops the one with most calls."""
        ops = self._ops.get(name) or self._ops.get(self._launchers.get(name, ""))
        return self._rows.get(ops.most_common(1)[0][0] if ops else name)


def _held(peak: Peak, rows: _OpRows) -> tuple[Peak, list[tuple[str, int | None, str, int, int]], int]:
    """Return who holds a peak: op, its row, range, bytes and allocations; and how many rows are left out."""
    shown = [(each.op or "(no op)", rows.of(each.op), each.range, each.size, each.allocations) for each in peak.held]
    shown += [("(from before the recording)", None, "", peak.before, 0)] if peak.before > 0 else []
    return peak, shown[:_HOLDERS], len(shown) - _HOLDERS


@dataclass(frozen=True, slots=True)
class _Tile:
    """The rectangle of an op in the treemap."""

    op: _Op
    x: float
    y: float
    width: float
    height: float

    @property
    def label(self) -> tuple[str, int]:
        """The name as far as it fits, and the size of its font; "" where too little of it would."""
        room = self.width - 12
        for size in (13, 11):
            if _width(self.op.name) * size <= room:
                return self.op.name, size
        kept = len(self.op.name)
        while kept and (_width(self.op.name[:kept]) + 1) * 11 > room:
            kept -= 1
        return (f"{self.op.name[:kept]}…", 11) if kept >= _LEAST_NAME else ("", 11)


def _width(text: str) -> float:
    """Return about how wide a text is in bold, in sizes of its font: that of DejaVu Sans, one of the widest."""
    return sum(
        0.44 if c in "ijlrtI.,:;|()[]/' " else 1.05 if c in "MWm@%" else 0.77 if c in _BROAD else 0.67 for c in text
    )


def _tiles(ops: Sequence[_Op]) -> list[_Tile]:
    sizes = squarify.normalize_sizes([op.line.time_ns for op in ops], WIDTH, HEIGHT)
    placed = squarify.squarify(sizes, 0, 0, WIDTH, HEIGHT)
    # Two units between tiles: ops of one sort have one colour.
    return [
        _Tile(op, tile["x"], tile["y"], max(tile["dx"] - 2, 0.5), max(tile["dy"] - 2, 0.5))
        for op, tile in zip(ops, placed)
    ]


def _cards(saved: SavedProfile, side: Side, total: float | None, when: Times | None) -> list[tuple[str, str]]:
    """Return the figures of the whole with their names; unknown figures are left out."""
    cards = [(format_ns(total, 4), f"{side} time of all ops, added up")] if total is not None else []
    if ns := query.communication(saved):
        cards.append((format_ns(ns, 4), "communication, added up; not part of the time of ops"))
    if side == "device" and when and when.whole:
        whole = when.whole
        busy = f"busy time of {whole.device or 'the device'}: work at the same time counts once"
        cards.append((format_ns(whole.times.total_ns - whole.times.idle_ns, 4), busy))
    if side == "device" and (host := query.total(saved, "host")) is not None:
        cards.append((format_ns(host, 4), "host time of all ops, all threads added up; the device works meanwhile"))
    if saved.step_ns:
        fastest, slowest = min(saved.step_ns), max(saved.step_ns)
        of = f"wall time of the fastest of {len(saved.step_ns)} steps; slowest: {format_ns(slowest)}"
        cards.append((format_ns(fastest), of if len(saved.step_ns) > 1 else "wall time of the step, idle time too"))
    copies = query.copy_time(saved, Question(side=side))
    counted = [
        (line.calls, word, f"{word}s", line.time_ns)
        for op, word in (("Cast", "cast"), ("Synchronize", "wait"))
        for line in query.answer(saved, Question(side=side, types=(op,), aggregate_by="op"))
    ]
    counted.append((copies.calls, "copy", "copies", copies.total_ns))
    for calls, one, many, ns in counted:
        if calls:
            cards.append((str(calls), (one if calls == 1 else many) + (f", {format_ns(ns)}" if ns else "")))
    if saved.peak_memory is not None:
        cards.append((format_bytes(saved.peak_memory), "peak memory"))
    return cards


def _steps(saved: SavedProfile) -> list[tuple[str, float | None, float | None]]:
    """Return each step with its wall time and the device time of its ops; nothing of one alone, or without times."""
    in_ops: list[float | None] = [None] * len(saved.steps)
    for record in saved.records:
        if record.device_ns is not None and not communicates(record):
            in_ops[record.step] = (in_ops[record.step] or 0.0) + record.device_ns
    wall = [*(saved.step_ns or ()), *[None] * len(saved.steps)]
    rows = [(label or str(index), wall[index], in_ops[index]) for index, label in enumerate(saved.steps)]
    return rows if len(rows) > 1 and any(row[1:] != (None, None) for row in rows) else []
