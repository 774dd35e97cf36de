"""The op table of a window, and the kernel table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..escaping import writer
from ..machine.ranks import ranks_named
from ..profile.kernels import KernelStats
from ..profile.range import Range
from ..results.judged_window import JudgedWindow
from ..results.window_result import BODY, WindowNumbers
from ..units import format_ns, format_share, plural
from ..verdict.compare import Diff, Row
from ..verdict.quantities import as_a_whole, is_told_as_a_whole, named
from ..verdict.verdicts import Verdict

_ROUNDED = 0.05
"""Below this share of a change, what no op explains is left out."""


def table(
    window: JudgedWindow, top: int, every_op: bool, style: str = "simple", more: str = "-v shows them"
) -> list[str]:
    """Return the op table of a window, the most damaging first, with its total below.

    *style* is one of tabulate's; *more* says how to see the ops that are left out.
    """
    rows = _rows(window)
    shown = [cells for index, (cells, told) in enumerate(rows) if every_op or index < top or told]
    write = writer(style)
    lines = [write(f"window {window.name}, {plural(window.numbers.rounds, 'round')}:")] if window.name != BODY else []
    lines += _text(_headers(window), shown, style).splitlines()
    if len(shown) < len(rows):
        lines.append(f"... and {len(rows) - len(shown)} more ops ({more})")
    return [*lines, *map(write, _total(window))]


def ranks_table(ops: Mapping[str, Sequence[str]], style: str = "simple") -> list[str]:
    """Return the table of the calls of *ops* on each rank; those that are alike are one column."""
    columns: dict[tuple[str, ...], list[int]] = {}
    for rank, calls in enumerate(zip(*ops.values())):
        columns.setdefault(calls, []).append(rank)
    headers = ["op", *map(ranks_named, columns.values())]
    return _text(headers, [[op, *cells] for op, cells in zip(ops, zip(*columns))], style).splitlines()


def kernels(found: Sequence[KernelStats], top: int) -> list[str]:
    """Return the table of what ran on devices, the *top* most expensive rows; nothing where nothing did."""
    # Imported here, with all questions to saved profiles behind it: only this table needs it.
    from .listing import shapes_text, short

    several = len({stats.device for stats in found}) > 1
    rows = [
        [
            short(stats.kernel),
            stats.op,
            str(Range(stats.fewest_calls, stats.most_calls)),
            _time(stats.fastest_ns),
            " x ".join(shapes_text([shape]) for shape in (stats.grid, stats.block) if shape) or "-",
            (f"GPU {stats.device}: " if several else "") + (", ".join(map(str, stats.streams)) or "-"),
        ]
        for stats in found[:top]
    ]
    if not rows:
        return []
    lines = _text(["kernel", "op", "calls", "device time", "grid x block", "stream"], rows, "simple").splitlines()
    left_out = len(found) - len(rows)
    return ["", *lines, *([f"... and {left_out} more kernels (--opprof-json has them)"] if left_out else [])]


def _headers(window: JudgedWindow) -> list[str]:
    if window.diff is None:
        return ["op", "calls", "device time", "share", "verdict"]
    work = ["work (base -> now)"] if _shows_work(window.diff) else []
    if window.diff.total.base_ns is None:
        return ["op", "calls (base -> now)", *work, "device time", "verdict"]
    return ["op", "calls (base -> now)", *work, "device time (base -> now)", "change", "verdict"]


def _shows_work(diff: Diff) -> bool:
    return any(row.work.text for row in diff.rows)


def _rows(window: JudgedWindow) -> list[tuple[list[str], bool]]:
    """Return the cells of each row, and whether something became of its op."""
    over = {finding.op for finding in window.budget}
    if window.diff:
        told = [row for row in window.diff.rows if not is_told_as_a_whole(row.op, row.verdict)]
        diff_rows = sorted(told, key=lambda row: row.op not in over)
        timed = window.diff.total.base_ns is not None
        work = _shows_work(window.diff)
        return [
            (_diff_row(row, row.op in over, timed, work), row.op in over or row.verdict.is_change) for row in diff_rows
        ]
    total = window.numbers.fastest_ns
    ops = sorted(window.numbers.stats, key=lambda stats: stats.op not in over)
    return [
        (
            [
                stats.op,
                str(Range(stats.fewest_calls, stats.most_calls)),
                _time(stats.fastest_ns if stats.device_ns else None),
                format_share(stats.fastest_ns / total) if total and stats.device_ns else "-",
                "over budget" if stats.op in over else "",
            ],
            stats.op in over,
        )
        for stats in ops
    ]


def _diff_row(row: Row, over: bool, timed: bool, work: bool) -> list[str]:
    """Return the cells of a row; *timed* and *work*: whether there are times to compare with, and changes of work."""
    became = row.word if row.verdict.is_change else row.why
    said = ", ".join(filter(None, ["over budget" if over else "", became]))
    times = [_arrow(_time(row.base_ns), _time(row.now_ns)), row.change] if timed else [_time(row.now_ns)]
    return [
        named(row.op),
        "-" if not row.is_op else _arrow(*map(_calls, row.calls)),
        *([row.changed_work or (row.now.told if row.now else "")] if work else []),
        *times,
        said or (Verdict.OK.value if row.verdict is Verdict.OK else ""),
    ]


def _total(window: JudgedWindow) -> list[str]:
    """Return the lines about the whole window, with its change split into more calls and slower calls."""
    if not window.diff or window.diff.total.base_ns is None or window.diff.total.now_ns is None:
        lines = [f"total device time: {_time(window.numbers.fastest_ns)}"]
    else:
        total = window.diff.total
        what = "total time" if window.diff.wall else "total device time"
        lines = [f"{what}: {total.times}{_split(window.diff, total.change_ns)}"]
    rows = window.diff.rows if window.diff else ()
    sums = {row.op: row.work.text for row in rows if is_told_as_a_whole(row.op, row.verdict)}
    lines += [*filter(None, [as_a_whole(sums)]), *_busy(window.numbers)]
    if any(window.numbers.communication_ns or ()):
        lines.append(f"communication (not included above): {format_ns(min(window.numbers.communication_ns or ()))}")
    if window.diff and window.diff.times:
        lines.append(f"times are informational: {window.diff.times}")
    if window.diff and window.diff.top_change:
        lines.append(window.diff.top_change)
    return lines


def _busy(numbers: WindowNumbers) -> list[str]:
    """Return the line about the fastest round of a device that did several things at once."""
    if not numbers.busy_ns or not numbers.total.device_ns:
        return []
    total_ns, busy_ns = min(zip(numbers.total.device_ns, numbers.busy_ns))
    return [f"busy time: {format_ns(busy_ns)}, ops overlap"] if busy_ns < (1 - _ROUNDED) * total_ns else []


def _split(diff: Diff, change_ns: int) -> str:
    if diff.calls_vary:
        return ", not split into more and slower calls: their number varies"
    ops = [row for row in diff.rows if row.is_op]
    in_ops, by_calls = sum(row.change_ns for row in ops), sum(row.from_calls_ns for row in ops)
    by_speed = in_ops - by_calls
    outside = sum(row.change_ns for row in diff.rows) - in_ops
    # Each op was fastest in a round of its own.
    rest = change_ns - in_ops - outside
    parts = [
        (by_calls, "more calls", "fewer calls"),
        (by_speed, "slower calls", "faster calls"),
        (outside, "outside ops", "outside ops"),
        (rest if abs(rest) > _ROUNDED * abs(change_ns) else 0, "all the rest", "all the rest"),
    ]
    said = [_signed(*part) for part in parts if part[0]]
    return f": {', '.join(said)}" if said else ""


def _signed(ns: int, costs: str, saves: str) -> str:
    return f"{'+' if ns >= 0 else '-'}{format_ns(abs(ns))} from {costs if ns >= 0 else saves}"


def _text(headers: Sequence[str], rows: Iterable[Sequence[str]], style: str) -> str:
    # Imported here: 20 ms that only a printed table should pay.
    from tabulate import tabulate

    write = writer(style)
    cells = [[write(cell) for cell in row] for row in rows]
    return tabulate(cells, headers=[*map(write, headers)], tablefmt=style, disable_numparse=True)


def _arrow(before: str, now: str) -> str:
    return now if before == now else f"{before} -> {now}"


def _calls(calls: Range | None) -> str:
    return str(calls) if calls else "0"


def _time(ns: int | None) -> str:
    return "-" if ns is None else format_ns(ns)
