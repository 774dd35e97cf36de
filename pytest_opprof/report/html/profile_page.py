"""The page of a saved profile: where its time goes, by op, by kernel, by step, when, and which casts it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import squarify

from ...ops.vocabulary import COMMUNICATION
from ...profile.saved import SavedProfile, communicates, op_of
from ...units import format_bytes, format_ns, plural
from ...verdict import query
from ...verdict.question import Line, Question, Side
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
_LEAST_NAME: Final = 5
_BROAD: Final = frozenset("ABCDEFGHJKLNOPQRSTUVXYZw_<>=+#")


def html(saved: SavedProfile, name: str, when: Times | None = None) -> str:
    """Return the page of the profile *saved*, which the user calls *name*; *when* is what its times tell, if it has."""
    side: Side = "host" if query.has_times(saved, "host") and not query.has_times(saved, "device") else "device"
    total = query.total(saved, side)
    ops = _ops(saved, side)
    kernels = query.kernels(saved)
    # What the devices did in each step tells the same, and more.
    steps = [] if when and when.has_steps else _steps(saved)
    tiles = _tiles([op for op in ops if (op.line.share or 0) > _LEAST_SHARE])
    casts = query.answer(saved, Question(side=side, types=("Cast",), aggregate_by="dtype"))
    return rendered(
        "profile.html.j2",
        saved=saved,
        name=name,
        side=side,
        total=total,
        lead=next((op for op in ops if op.line.share), None),
        cards=_cards(saved, side, total),
        remarks=[*saved.remarks, *query.untimed(saved)],
        ops=ops,
        tiles=tiles,
        width=WIDTH,
        height=HEIGHT,
        sorts=[marks.SORTS[sort] for sort in marks.SORTS if any(tile.op.sort == sort for tile in tiles)],
        kernels=[(kernel, marks.SORTS[marks.sort_of(kernel.name)][0]) for kernel in kernels[:_KERNELS]],
        kernels_left_out=len(kernels) - _KERNELS,
        casts=casts if any(line.op != "Cast" for line in casts) else [],
        steps=steps[:_STEPS],
        longest=max((wall or in_ops or 0 for _, wall, in_ops in steps), default=0),
        steps_left_out=len(steps) - _STEPS,
        when=when,
    )


@dataclass(frozen=True, slots=True)
class _Op:
    """An op, with the raw types that count as it."""

    line: Line
    name: str
    types: str
    cumulative: float | None
    sort: marks.Sort

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
    ops = []
    for line in query.answer(saved, Question(side=side, aggregate_by="op")):
        name = line.op or ""
        raw = [each for each in types.get(name, ()) if each != name]
        more = f" and {len(raw) - _TYPES} more" if len(raw) > _TYPES else ""
        cumulative = line.cumulative_ns / total if line.cumulative_ns is not None and total else None
        sort = marks.sort_of(name, line.communication or name in COMMUNICATION)
        ops.append(_Op(line, name, ", ".join(raw[:_TYPES]) + more, cumulative, sort))
    return ops


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


def _cards(saved: SavedProfile, side: Side, total: float | None) -> list[tuple[str, str]]:
    """Return the figures of the whole, each with what it is; what the source does not know is left out."""
    cards = [(format_ns(total, 4), f"{side} time")] if total is not None else []
    if side == "device" and (host := query.total(saved, "host")) is not None:
        cards.append((format_ns(host, 4), "host time"))
    if ns := query.communication(saved):
        cards.append((format_ns(ns, 4), "communication (not included above)"))
    if saved.step_ns:
        fastest, slowest = min(saved.step_ns), max(saved.step_ns)
        of = f"fastest of {len(saved.step_ns)} steps, slowest {format_ns(slowest)}"
        cards.append((format_ns(fastest), of if len(saved.step_ns) > 1 else "the step, wall time"))
    copies = query.copy_time(saved, Question(side=side))
    counted = [
        (line.calls, word, line.time_ns)
        for op, word in (("Cast", "cast"), ("Synchronize", "wait"))
        for line in query.answer(saved, Question(side=side, types=(op,), aggregate_by="op"))
    ]
    counted.append((copies.calls, "copy", copies.total_ns))
    for calls, word, ns in counted:
        number, _, word = plural(calls, word).replace("copys", "copies").partition(" ")
        if calls:
            cards.append((number, word + (f", {format_ns(ns)}" if ns else "")))
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
