"""The time of a step as a whole, which ``opprof diff`` of two profiles says before the ops: where wall time went.

A step may be slower though its ops are not: the device waited for the host, or for another rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...frameworks.files import formats
from ...profile.saved import OUTSIDE, SavedProfile, op_of
from ...questions import query
from ...questions.question import in_step_numbers
from ...report.tables import NAME, RELATIVE, TIME, Column, Table
from ...timeline.breakdown import IDLE, breakdown
from ...timeline.ranges import ranges
from ...units import format_ns
from ..inputs import reading

_PARTS: Mapping[str, tuple[str, str]] = {
    "computing_ns": ("computing", "the device computed longer"),
    "communication_ns": ("communication, nothing computed", "communication took longer that nothing was computed in"),
    "copying_ns": ("copying, nothing else", "copies took longer"),
    "not_asked_ns": (
        IDLE["not_asked_ns"],
        "the device was idle longer, as the host launched the next work later",
    ),
    "not_begun_ns": (IDLE["not_begun_ns"], "launched work began later"),
    "unexplained_ns": (IDLE["unexplained_ns"], "the device was idle longer"),
    "idle_ns": ("idle", "the device was idle longer"),
}
"""Parts of the time of a step: the name of each, and the reason that one of them grew."""
_IN_TABLE = ("computing_ns", "communication_ns", "copying_ns", "idle_ns", "not_asked_ns", "not_begun_ns")
_MOST_GROWN = 5


@dataclass(frozen=True, slots=True)
class Whole:
    """The times of the fastest step of a profile, or of a whole profile without steps. An unknown time is absent."""

    step: str
    times: Mapping[str, float]
    """ns of ``wall``, ``device`` and ``host`` (the ops'), and of the fields of `Breakdown`."""
    on_host: Mapping[str, float]
    """ns on the host, by name: ranges of the program, and ops."""


def whole_of(found: formats.Found, saved: SavedProfile, asked: reading.Asked) -> Whole:
    """Return the times of a profile, or of the fastest of its chosen steps."""
    step = ""
    if saved.step_ns:
        number = min(range(len(saved.step_ns)), key=saved.step_ns.__getitem__)
        saved = in_step_numbers(saved, [number])
        step = saved.steps[0]
    times = {
        "wall": saved.step_ns[0] if saved.step_ns else None,
        "device": query.total(saved, "device"),
        "host": query.total(saved, "host"),
    }
    on_host: defaultdict[str, float] = defaultdict(float)
    for record in saved.records:
        if record.host_ns is not None:
            on_host[f"host time of {op_of(record)}"] += record.host_ns
    timeline = reading.timeline_if_told(found, asked)
    chosen = [step for step in saved.steps if step not in ("", OUTSIDE)]
    if timeline is not None and (timeline.has_steps or not chosen):
        rows = breakdown(timeline, chosen or None)
        if len(rows) == 1:  # of several devices or steps none stands for all
            times |= {name: getattr(rows[0], name) for name in _PARTS}
        for row in ranges(timeline, chosen or None):
            on_host[f"range {row.name}"] += row.total_ns
    return Whole(step, {name: ns for name, ns in times.items() if ns is not None}, on_host)


def table(base: Whole, now: Whole, floor_ns: float, tolerance: float) -> Table | None:
    """Return the times that both sides know, and the ranges and ops that grew; None where there is no time."""
    titles = {"wall": "wall time", **{name: _PARTS[name][0] for name in _IN_TABLE}}
    titles |= {"host": "host time of ops", "device": "device time of ops"}
    both = {name: (base.times[name], now.times[name]) for name in titles if name in base.times and name in now.times}
    rows = [(titles[name], *times, times) for name, times in both.items() if any(times)]
    for name in _grown(base, now, floor_ns, tolerance):
        times = base.on_host.get(name, 0), now.on_host.get(name, 0)
        rows.append((name, *times, times))
    sides = [f"{name} (step {side.step})" if side.step else name for name, side in (("base", base), ("now", now))]
    columns = [Column("", NAME), *(Column(side, TIME) for side in sides), Column("change", RELATIVE)]
    return Table(columns, rows) if rows else None


def _grown(base: Whole, now: Whole, floor_ns: float, tolerance: float) -> Iterator[str]:
    """Yield the ranges and ops of the host that grew, the most first, where the step takes longer."""
    if not _is_longer("wall", base, now, floor_ns, tolerance):
        return
    more = {name: ns - base.on_host.get(name, 0) for name, ns in now.on_host.items()}
    least = max(floor_ns, (now.times["wall"] - base.times["wall"]) * tolerance)
    for name in sorted(more, key=lambda name: -more[name])[:_MOST_GROWN]:
        if more[name] > least:
            yield name


def _is_longer(name: str, base: Whole, now: Whole, floor_ns: float, tolerance: float) -> bool:
    if name not in base.times or name not in now.times:
        return False
    return now.times[name] - base.times[name] > max(floor_ns, tolerance * base.times[name])


def reason(base: Whole, now: Whole, floor_ns: float, tolerance: float) -> str:
    """Return why a step takes longer than the other; "" where it does not, or nobody can tell."""
    if not _is_longer("wall", base, now, floor_ns, tolerance):
        return ""
    explained = "not_asked_ns" in base.times and "not_asked_ns" in now.times
    # Idle time is the sum of its causes, where these are known.
    left_out = {"idle_ns"} if explained else {*IDLE}
    known = [name for name in _PARTS if name not in left_out and name in base.times and name in now.times]
    more, part = max(((now.times[name] - base.times[name], _PARTS[name][1]) for name in known), default=(0, ""))
    longer = f"the step takes {format_ns(now.times['wall'] - base.times['wall'])} longer"
    if more <= 0:
        return f"{longer}; its profile does not tell what the device did meanwhile"
    return f"{longer}: {part} (+{format_ns(more)})"
