"""``opprof show --breakdown`` and ``--ranges``: what follows from when everything in a profile ran."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..errors import UsageError
from ..escaping import writer
from ..frameworks.files import formats
from ..profile.saved import OUTSIDE, SavedProfile
from ..report import listing
from ..timeline.breakdown import Breakdown, added, breakdown
from ..timeline.ranges import RangeTimes, ranges
from ..timeline.spans import Kind
from ..units import format_ns, format_share
from . import reading

_CAUSES = {
    "not_asked_ns": "idle: not asked",
    "not_begun_ns": "idle: not begun",
    "unexplained_ns": "idle: not explained",
}
_COLUMNS = {
    "total_ns": "total",
    "computing_ns": "computing",
    "communication_ns": "communication",
    "copying_ns": "copying",
    "idle_ns": "idle",
    "overlapped_ns": "overlapped",
}
_RANGE_COLUMNS = {
    "total_ns": "time",
    "ops": "ops",
    "op_ns": "time in ops",
    "device_ns": "device time launched",
    "idle_ns": "device idle",
}


def add(lists: Any) -> None:
    """Add the options to a group of those that exclude each other."""
    lists.add_argument(
        "--breakdown",
        action="store_true",
        help="how long the device computed, communicated, copied and was idle, in each step, and why it was idle",
    )
    lists.add_argument(
        "--ranges",
        action="store_true",
        help="the ranges that the program marks (record_function, NVTX, modules): their time, ops and device idle time",
    )


def answer(
    found: formats.Found,
    saved: SavedProfile,
    arguments: argparse.Namespace,
    pattern: re.Pattern[str] | None,
    whose: Mapping[str, object],
) -> Any:
    """Return what is to be printed of one profile: text, or the JSON object. Raises UsageError."""
    timeline = reading.timeline(arguments, found)
    reading.check_steps(arguments, found, timeline)
    # Labels of steps that the profile has: of iterations without a file there are times, and nothing else.
    steps = [step for step in saved.steps if step not in ("", OUTSIDE)] or None
    if arguments.breakdown:
        # Where there are too many steps for records, the profile is shown as one step.
        spans = timeline if steps else (span for span in timeline if span.kind is not Kind.STEP)
        rows = breakdown(spans, steps)
        if not rows:
            raise UsageError(f"{found}: no device worked in this recording, so there is no time to break down")
        return _breakdown(found, saved, rows, arguments, whose)
    marked = ranges(timeline, steps if arguments.steps else None)
    if pattern is not None:
        marked = [row for row in marked if pattern.search(row.name)]
    if not marked:
        raise UsageError(f"{found}: {_no_ranges(arguments)}")
    return _ranges(found, saved, marked[: arguments.top] if arguments.top else marked, arguments, whose)


def _no_ranges(arguments: argparse.Namespace) -> str:
    if arguments.name is not None:
        return f"--name {arguments.name!r}: no range has such a name; opprof show --ranges -t 0 lists them"
    how = "torch.profiler.record_function(NAME), or for Nsight Systems by nvtx.annotate(NAME)"
    return f"the program marked no range while this was recorded. Ranges are made by {how}"


def _breakdown(
    found: formats.Found,
    saved: SavedProfile,
    rows: Sequence[Breakdown],
    arguments: argparse.Namespace,
    whose: Mapping[str, object],
) -> Any:
    devices = list(dict.fromkeys(row.device for row in rows))
    by_device = [[row for row in rows if row.device == device] for device in devices]
    totals = [added(each) for each in by_device]
    if arguments.format == "json":
        plain = {"breakdown": [asdict(row) for row in rows], "totals": [asdict(row) for row in totals]}
        return {**whose, "source": saved.source, **plain}
    if arguments.format == "csv":
        cells = [[*whose.values(), *asdict(row).values()] for row in rows]
        return listing.csv_of([*whose, *asdict(rows[0])], cells)
    shown = [row for each, total in zip(by_device, totals) for row in (*each, *([total] if len(each) > 1 else []))]
    names = [*_COLUMNS.items(), *(pair for pair in _CAUSES.items() if any(getattr(row, pair[0]) for row in shown))]
    keys = ["device"] if len(devices) > 1 else []
    keys += ["step"] if any(row.step for row in shown) else []
    header = [*keys, *(title for _, title in names)]
    table = [
        [
            *(listing.short(getattr(row, key)) for key in keys),
            *(_share(getattr(row, name), row.total_ns, name == "total_ns") for name, _ in names),
        ]
        for row in shown
    ]
    text = [*_title(found, whose), f"{saved.source}  [{saved.environment}]"]
    text += [f"device: {devices[0]}"] if len(devices) == 1 else []
    return "\n".join([*map(writer(arguments.format), text), "", listing.tabulated(header, table, arguments.format)])


def _share(ns: int | None, total_ns: int, is_total: bool) -> str:
    if ns is None:
        return "-"
    return format_ns(ns) + (f" ({format_share(ns / total_ns, 2)})" if ns and total_ns and not is_total else "")


def _ranges(
    found: formats.Found,
    saved: SavedProfile,
    rows: Sequence[RangeTimes],
    arguments: argparse.Namespace,
    whose: Mapping[str, object],
) -> Any:
    if arguments.format == "json":
        return {**whose, "source": saved.source, "ranges": [asdict(row) for row in rows]}
    if arguments.format == "csv":
        return listing.csv_of([*whose, *asdict(rows[0])], [[*whose.values(), *asdict(row).values()] for row in rows])
    names = [pair for pair in _RANGE_COLUMNS.items() if any(getattr(row, pair[0]) is not None for row in rows)]
    table = [
        [
            listing.short(row.name),
            str(row.calls),
            *(str(row.ops) if name == "ops" else _share(getattr(row, name), 0, True) for name, _ in names),
        ]
        for row in rows
    ]
    header = ["range", "calls", *(title for _, title in names)]
    text = [*_title(found, whose), f"{saved.source}  [{saved.environment}]"]
    return "\n".join([*map(writer(arguments.format), text), "", listing.tabulated(header, table, arguments.format)])


def _title(found: formats.Found, whose: Mapping[str, object]) -> list[str]:
    return [str(found)] if whose else []
