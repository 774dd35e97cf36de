"""``opprof show --breakdown`` and ``--ranges``: where the time of a step went, from when everything ran."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from ...errors import UsageError
from ...frameworks.files import formats
from ...profile.saved import OUTSIDE, SavedProfile
from ...report.tables import COUNT, NAME, TIME, Column, Kind, Table, json, style_of
from ...timeline.breakdown import BETWEEN, IDLE, Breakdown, added, breakdown
from ...timeline.ranges import RangeTimes, ranges
from ...timeline.spans import Kind as SpanKind
from ...units import format_ns, format_share
from ..inputs import reading
from . import ops

_PARTS = {
    "total_ns": "total",
    "computing_ns": "computing",
    "communication_ns": "communication",
    "copying_ns": "copying",
    "idle_ns": "idle",
    "overlapped_ns": "overlapped",
    **IDLE,
}
_RANGE_COLUMNS = {
    "total_ns": Column("time", TIME),
    "ops": Column("ops", COUNT),
    "op_ns": Column("time in ops", TIME),
    "device_ns": Column("device time launched", TIME),
    "idle_ns": Column("device idle", TIME),
}
_PART = Kind(write=lambda part: _with_share(*part))
"""Of a part of a step: its time, and the whole of which it is a part."""


def add(lists: Any) -> None:
    """Add the options to a group in which each excludes the others."""
    lists.add_argument(
        "--breakdown",
        action="store_true",
        help="show how long the device computed, communicated, copied and idled in each step, and why it idled",
    )
    lists.add_argument(
        "--ranges",
        action="store_true",
        help="show the ranges that the program marks (record_function, NVTX, modules): time, ops and device idle time",
    )


def answer(
    found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, whose: Mapping[str, object]
) -> Any:
    """Return the answer of one profile: text for people, an object for JSON, a table for CSV. Raises UsageError."""
    timeline = reading.timeline(found, reading.Asked.of(arguments))
    reading.check_steps(found, arguments.steps, timeline)
    # Labels of steps in the profile: of an iteration without a file there are times, and nothing else.
    steps = [step for step in saved.steps if step not in ("", OUTSIDE)] or None
    if arguments.breakdown:
        # Where there are too many steps for records, the profile is shown as one step.
        spans = timeline if steps else (span for span in timeline if span.kind is not SpanKind.STEP)
        rows = breakdown(spans, steps)
        if not rows:
            raise UsageError(f"{found}: no device worked in this recording, so there is no time to break down")
        if arguments.format == "json":
            totals = [asdict(added(each)) for each in _by_device(rows).values()]
            return {**whose, "source": saved.source, "breakdown": json(_exact(rows)), "totals": totals}
        return [_exact(rows).of(whose)] if arguments.format == "csv" else _breakdown(found, saved, rows, arguments)
    marked = ranges(timeline, steps if arguments.steps else None)
    if (pattern := ops.pattern(arguments.name)) is not None:
        marked = [row for row in marked if pattern.search(row.name)]
    if not marked:
        raise UsageError(f"{found}: {_no_ranges(arguments)}")
    number = len(marked)
    marked = marked[: arguments.top] if arguments.top else marked
    if arguments.format == "json":
        return {**whose, "source": saved.source, "ranges": json(_exact(marked))}
    if arguments.format == "csv":
        return [_exact(marked).of(whose)]
    known = [name for name in _RANGE_COLUMNS if any(getattr(row, name) is not None for row in marked)]
    columns = [Column("range", NAME), Column("calls", COUNT), *(_RANGE_COLUMNS[name] for name in known)]
    cells = [[row.name, row.calls, *(getattr(row, name) for name in known)] for row in marked]
    below = style_of(arguments.format).left_out(number - len(marked), "range", ops.ALL)
    return "\n".join([_titled(found, saved, arguments, "", Table(columns, cells)), *below])


def _exact(rows: Sequence[Breakdown] | Sequence[RangeTimes]) -> Table:
    """Return all that is known of *rows*, for programs."""
    return Table([Column(None, key=each.name) for each in fields(rows[0])], [[*asdict(row).values()] for row in rows])


def _by_device(rows: Sequence[Breakdown]) -> dict[str, list[Breakdown]]:
    found: dict[str, list[Breakdown]] = {}
    for row in rows:
        found.setdefault(row.device, []).append(row)
    return found


def _breakdown(
    found: formats.Found, saved: SavedProfile, rows: Sequence[Breakdown], arguments: argparse.Namespace
) -> str:
    devices = _by_device(rows)
    shown = [row for each in devices.values() for row in _with_sum(each)]
    keys = (["device"] if len(devices) > 1 else []) + (["step"] if any(row.step for row in shown) else [])
    # Parts of a part (idle time, communication) are only shown where a row has some of it.
    within = {*IDLE, "overlapped_ns"}
    parts = [name for name in _PARTS if name not in within or any(getattr(row, name) for row in shown)]
    columns = [Column(key, NAME) for key in keys]
    columns += [Column(_PARTS[name], TIME if name == "total_ns" else _PART) for name in parts]
    cells = [[*(getattr(row, key) for key in keys), *(_part(row, name) for name in parts)] for row in shown]
    device = f"device: {next(iter(devices))}" if len(devices) == 1 else ""
    return _titled(found, saved, arguments, device, Table(columns, cells, keys=len(keys)))


def _with_sum(rows: Sequence[Breakdown]) -> list[Breakdown]:
    """Return the rows of a device, with the sum of its steps after the last one."""
    if len(rows) == 1:
        return [*rows]
    between = [row for row in rows if row.step == BETWEEN]
    return [*(row for row in rows if row.step != BETWEEN), added(rows), *between]


def _part(row: Breakdown, name: str) -> Any:
    ns = getattr(row, name)
    return ns if ns is None or name == "total_ns" else (ns, row.total_ns)


def _with_share(ns: float, total_ns: float) -> str:
    return format_ns(ns) + (f" ({format_share(ns / total_ns, 2)})" if ns and total_ns else "")


def _titled(found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, of: str, table: Table) -> str:
    style = style_of(arguments.format)
    title = [str(found)] if arguments.rank == "all" else []
    lines = [*title, f"{saved.source}  [{saved.environment}]", *([of] if of else [])]
    return "\n".join([*map(style.write, lines), "", style.text(table)])


def _no_ranges(arguments: argparse.Namespace) -> str:
    if arguments.name is not None:
        return f"--name {arguments.name!r}: no range has such a name; opprof show --ranges -t 0 lists them"
    how = "torch.profiler.record_function(NAME), or for Nsight Systems by nvtx.annotate(NAME)"
    return f"the program marked no range while this was recorded. Ranges are made by {how}"
