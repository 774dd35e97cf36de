"""The op table of a window, and the kernel table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..machine.ranks import ranks_named
from ..profile.kernels import KernelStats
from ..profile.range import Range
from ..profile.timings import OUTSIDE
from ..results.judged_window import JudgedWindow
from ..results.window_result import BODY, WindowNumbers
from ..units import format_ns, plural
from ..verdict.changed import calls_vary, split
from ..verdict.diff import Diff, Row
from ..verdict.findings import OVER_BUDGET
from ..verdict.quantities import as_a_whole
from ..verdict.verdicts import Sense, Verdict
from .colours import TextLine
from .tables import (
    CALLS_CHANGE,
    COUNT,
    NAME,
    OP,
    PLAIN,
    SHARE,
    SHORT_WORDS,
    TIME,
    TIME_CHANGE,
    Column,
    Style,
    Table,
    shapes_text,
)

_ROUNDED = 0.05
"""Below this share of a change, the part that no op explains is left out."""
_FOR_PROGRAMS = ("op", "base_calls", "now_calls", "base_ns", "now_ns", "verdict")


def table(
    window: JudgedWindow, top: int, *, every_op: bool, style: Style = PLAIN, more: str = "-v shows them"
) -> list[TextLine]:
    """Return the op table of a window, the most damaging op first, with the totals below.

    *more* says how to see the ops that are left out.
    """
    found, told = _compared(window, window.diff) if window.diff else _measured(window)
    shown = [at for at in range(len(told)) if every_op or at < top or told[at]]
    rows, senses = [found.rows[at] for at in shown], [found.senses[at] for at in shown]
    title = f"window {window.name}, {plural(window.numbers.rounds, 'round')}:"
    lines = [TextLine(style.write(title))] if window.name != BODY else []
    lines += style.lines(replace(found, rows=rows, senses=senses)) if rows else []
    lines += map(TextLine, style.left_out(len(told) - len(shown), "op", more))
    return [*lines, *(TextLine(style.write(line)) for line in _total(window))]


def ranks_table(ops: Mapping[str, Sequence[str]]) -> Table:
    """Return the calls of *ops* on each rank; ranks that are alike are one column."""
    columns: dict[tuple[str, ...], list[int]] = {}
    for rank, calls in enumerate(zip(*ops.values())):
        columns.setdefault(calls, []).append(rank)
    headings = [Column("op", OP), *(Column(ranks_named(ranks)) for ranks in columns.values())]
    return Table(headings, [[op, *calls] for op, calls in zip(ops, zip(*columns))], keys=1)


def kernels(found: Sequence[KernelStats], top: int, style: Style = PLAIN) -> list[TextLine]:
    """Return the table of the *top* most expensive rows of all that ran on devices; nothing where nothing ran."""
    several = len({stats.device for stats in found}) > 1
    columns = [
        Column("kernel", NAME),
        Column("op", OP),
        Column("calls", COUNT),
        Column("device time", TIME),
        Column("grid x block", spare=1),
        Column("stream", spare=2),
    ]
    rows = [
        [
            stats.kernel,
            stats.op,
            Range(stats.fewest_calls, stats.most_calls),
            stats.fastest_ns,
            " x ".join(shapes_text([shape]) for shape in (stats.grid, stats.block) if shape) or None,
            (f"GPU {stats.device}: " if several else "") + (", ".join(map(str, stats.streams)) or "-"),
        ]
        for stats in found[:top]
    ]
    if not rows:
        return []
    more = style.left_out(len(found) - len(rows), "kernel", "--opprof-json has them")
    return [TextLine(""), *style.lines(Table(columns, rows)), *map(TextLine, more)]


def _measured(window: JudgedWindow) -> tuple[Table, list[bool]]:
    """Return the table of a window without a base, and of which ops a limit is broken."""
    over = {finding.op for finding in window.budget}
    columns = [
        Column("op", OP),
        Column("calls", COUNT),
        Column("device time", TIME),
        Column("share", SHARE),
        Column("verdict"),
    ]
    total = window.numbers.fastest_ns
    ops = sorted(window.numbers.stats, key=lambda stats: stats.op not in over)
    rows = [
        [
            stats.op,
            Range(stats.fewest_calls, stats.most_calls),
            stats.fastest_ns if stats.device_ns else None,
            stats.fastest_ns / total if total and stats.device_ns and stats.fastest_ns is not None else None,
            OVER_BUDGET if stats.op in over else "",
        ]
        for stats in ops
    ]
    told = [stats.op in over for stats in ops]
    return Table(columns, rows, ["worse" if is_over else "neither" for is_over in told]), told


def changes(diff: Diff, rows: Sequence[Row], over: Collection[str | None] = (), allowed: Collection[str] = ()) -> Table:
    """Return the table of *rows* of a window and its base; *over* are the ops over their budget.

    *allowed* are the rows (`Row.accepted_as`) that a commit accepts.
    """
    has_work, is_timed = any(row.work.text for row in diff.rows), diff.total.base_ns is not None
    has_ops = _has_ops(diff)
    columns = [Column("op", OP), *([Column("calls (base -> now)", CALLS_CHANGE)] if has_ops else [])]
    columns += [Column("work (base -> now)", SHORT_WORDS, spare=2)] if has_work else []
    columns += [Column("device time (base -> now)", TIME_CHANGE), Column("change", spare=1)] if is_timed else []
    columns += [Column("device time", TIME)] if has_ops and not is_timed else []
    columns += [Column("verdict", SHORT_WORDS), *(Column(None, key=key) for key in _FOR_PROGRAMS)]
    cells = [
        [
            row.title,
            *([row.calls if row.is_op else None] if has_ops else []),
            *([row.changed_work or (row.now.told if row.now else "")] if has_work else []),
            *([(row.base_ns, row.now_ns), row.change] if is_timed else [row.now_ns] if has_ops else []),
            _said(row, is_over=row.op in over, accepted=row.accepted_as in allowed),
            row.op,
            *(calls and calls.most for calls in row.calls),
            row.base_ns,
            row.now_ns,
            row.word,
        ]
        for row in rows
    ]
    senses: list[Sense] = [
        "worse" if row.op in over else "neither" if row.accepted_as in allowed else row.verdict.sense for row in rows
    ]
    return Table(columns, cells, senses, elsewhere="a wider terminal shows all columns")


def _has_ops(diff: Diff) -> bool:
    """Return True if a table has columns of ops; code without an op has calls of functions, memory, CPU time."""
    return diff.total.base_ns is not None or any(row.is_op for row in diff.rows)


def _compared(window: JudgedWindow, diff: Diff) -> tuple[Table, list[bool]]:
    """Return the table of a window and its base, and of which ops there is a change or a broken limit to tell."""
    over = {finding.op for finding in window.budget}
    has_ops = _has_ops(diff)
    rows = [row for row in diff.rows if not row.is_told_as_a_whole and (has_ops or row.op != OUTSIDE)]
    rows.sort(key=lambda row: (row.op not in over, row.accepted_as in window.allowed))
    return changes(diff, rows, over, window.allowed), [row.op in over or row.verdict.is_change for row in rows]


def _said(row: Row, *, is_over: bool, accepted: bool) -> str:
    change = row.became(accepted=accepted) if row.verdict.is_change else row.why
    said = ", ".join(filter(None, [OVER_BUDGET if is_over else "", change]))
    return said or (Verdict.OK.value if row.verdict is Verdict.OK else "")


def _total(window: JudgedWindow) -> list[str]:
    """Return the lines about the whole window, with its change split into more calls and slower calls."""
    diff, fastest_ns = window.diff, window.numbers.fastest_ns
    if not diff or diff.total.base_ns is None or diff.total.now_ns is None:
        total = f"total device time: {'-' if fastest_ns is None else format_ns(fastest_ns)}"
        lines = [total] if window.numbers.ops else []
    else:
        what = "total time" if diff.wall else "total device time"
        lines = [f"{what}: {diff.total.times}{_split(diff, diff.total.change_ns)}"]
    sums = {row.op: row.work.text for row in (diff.rows if diff else ()) if row.is_told_as_a_whole}
    lines += [*filter(None, [as_a_whole(sums)]), *_busy(window.numbers)]
    if any(window.numbers.communication_ns or ()):
        lines.append(f"communication (not included above): {format_ns(min(window.numbers.communication_ns or ()))}")
    if diff and diff.times and (window.numbers.rounds > 1 or any(row.is_op for row in diff.rows)):
        lines.append(f"op times not judged: {diff.times}")
    if diff and diff.top_change:
        lines.append(diff.top_change)
    return lines


def _busy(numbers: WindowNumbers) -> list[str]:
    """Return the line about the fastest round of a device that did several things at once."""
    if not numbers.busy_ns or not numbers.total.device_ns:
        return []
    total_ns, busy_ns = min(zip(numbers.total.device_ns, numbers.busy_ns))
    return [f"busy time: {format_ns(busy_ns)}, ops overlap"] if busy_ns < (1 - _ROUNDED) * total_ns else []


def _split(diff: Diff, change_ns: int) -> str:
    if calls_vary(diff.rows):
        return ", not split into more and slower calls: their number varies"
    parts = split(diff.rows)
    # Each op was fastest in a round of its own.
    rest = change_ns - sum(ns for ns, _ in parts)
    parts += [(rest, "all the rest")] if abs(rest) > _ROUNDED * abs(change_ns) else []
    said = [f"{'+' if ns >= 0 else '-'}{format_ns(abs(ns))} from {cause}" for ns, cause in parts]
    return f": {', '.join(said)}" if said else ""
