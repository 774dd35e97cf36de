"""A run in Markdown, as GitHub, GitLab and Gitea show it: the changes by op, then each function that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..errors import UsageError
from ..profile.range import Range
from ..results.causes import Cause
from ..results.run_result import RunResult
from ..results.test_id import function_of
from ..results.test_result import TestResult, counted
from ..results.window_result import BODY, RowResult, WindowResult, open_trace, titled
from ..units import format_ns, plural
from .accepting import Accepting
from .escaping import markdown as escaped
from .ranks import RankSpread, rank_spreads, said
from .tables import COUNT, Column, Kind, Table
from .tables import markdown as rendered

MOST_BYTES: Final = 1000 * 1024
"""GitHub drops a summary of a step that is over 1,024 KiB, all of it and without a word."""
LEAST_BYTES: Final = 8192
"""The first and the last part fit into it, but for a run whose every op changed."""
_NOTE_BYTES = 2048
"""Kept for the names of the functions left out, and for the command."""
_ROWS, _OPS, _LINES, _NAMES = 12, 100, 3, 5
_BAR = 16
"""Characters of the longest bar."""


def append(path: Path, run: RunResult) -> None:
    """Append the summary of a *run* to the file at *path*. Raises UsageError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            before = file.tell()
            file.seek(max(before - 1, 0))
            begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
            text = markdown(run, MOST_BYTES - before - len(begin))
            file.write(begin + text.encode())
    except OSError as error:
        raise UsageError(f"--opprof-summary: {path} cannot be written: {error.strerror or error}") from error


def markdown(run: RunResult, most_bytes: int = MOST_BYTES) -> str:
    """Return the summary of a *run*, of *most_bytes* or the size of its first part.

    A function that fails is told whole, or left out and named.
    """
    head = [*_head(run), *_table(run.causes)]
    parts, left_out = ["\n".join(head)], list[str]()
    left = most_bytes - _NOTE_BYTES - len(parts[0].encode())
    by_function: dict[tuple[str, object], list[TestResult]] = {}
    for test in run.failing:
        by_function.setdefault((function_of(test.id), test.fails_for), []).append(test)
    for (function, _), tests in by_function.items():
        part = "\n".join(_details(function, tests, Accepting.of_run(run)))
        size = len(part.encode()) + 1
        if size > left:
            left_out.append(function)
        else:
            parts.append(part)
            left -= size
    if of_ranks := "\n".join(_ranks(rank_spreads(run))):
        parts += [of_ranks] if len(of_ranks.encode()) < left else []
    return "\n".join([*parts, *_tail(run, left_out)]).rstrip("\n") + "\n"


def _head(run: RunResult) -> Iterator[str]:
    fails = {test.id for test in run.failing}
    failing, tests = len(fails), plural(len(run.tests), "test")
    base = "base" if run.against else "baseline"
    than = f", compared with {_code(run.against)}" if run.against else ""
    if failing:
        exceed = "exceeds its" if failing == 1 else "exceed their"
        yield f"## opprof: {failing} of {tests} {exceed} budget or {base}{than}"
    elif run.errors:
        yield f"## opprof: {plural(len(run.errors), 'error')}, {tests} measured{than}"
    else:
        none = f"none of {tests} exceeds its budget or {base}{than}"
        yield f"## opprof: {none if run.tests else 'nothing measured'}"
    yield ""
    counts = [*counted(run.tests, run.against), *([f"{run.summary['ok']} ok"] if run.summary.get("ok") else [])]
    yield f"Tests: {', '.join(counts or ['none'])}."
    others = [_code(test.id[:200]) for test in run.tests if test.outcome == "failed" and test.id not in fails]
    if others:
        yield f"{plural(len(others), 'test')} failed for other reasons; see the log: {_listed(others)}."
    if any(test.reported for test in run.tests):
        yield "The run passes all the same: `--opprof-report-only`."
    if accepted := [test for test in run.tests if any(window.allowed for window in test.windows)]:
        lines = dict.fromkeys(line for test in accepted for window in test.windows for line in window.allowed)
        listed = _listed([_code(line) for line in lines])
        yield f"{plural(len(accepted), 'test')} may do more, as commits accept: {listed}."
    if run.rank is not None:
        yield f"This is of rank {run.rank} alone."
    if run.interrupted:
        yield "**The run was interrupted: tests may be missing.**"
    if run.stale:
        yield f"{plural(len(run.stale), 'stale baseline')}: `opprof baselines prune` removes them."
    yield from (f"\n**error:** {escaped(error[:2000])}" for error in run.errors[:_ROWS])
    if len(run.errors) > _ROWS:
        yield f"\n... and {plural(len(run.errors) - _ROWS, 'more error')}; see the log"
    yield ""


def _table(causes: Sequence[Cause]) -> Iterator[str]:
    """Yield the table of causes."""
    if not causes:
        return
    most = max(abs(cause.calls) for cause in causes[:_OPS])
    has_lines = any(cause.lines for cause in causes[:_OPS])
    has_times = any(cause.change_ns for cause in causes[:_OPS])
    columns = [
        Column("op", _CODE),
        Column("change"),
        Column("tests", COUNT, right=True),
        Column("calls", Kind(write=lambda calls: f"{calls:+d}" if calls else "same"), right=True),
        Column("", Kind(write=lambda calls: _bar(calls, most))),
        *([Column("time", Kind(write=_signed_time), right=True)] if has_times else []),
        *([Column("most from", _CODE)] if has_lines else []),
    ]
    rows = [
        [
            cause.title,
            f"{'▲' if cause.is_worse else '▼'} {', '.join(cause.changes)}",
            len(cause.tests),
            cause.calls,
            cause.calls,
            *([cause.change_ns] if has_times else []),
            *([next((each.line.location[-80:] for each in cause.lines), None)] if has_lines else []),
        ]
        for cause in causes[:_OPS]
    ]
    yield from rendered(Table(columns, rows), padded=False)
    if len(causes) > _OPS:
        yield f"\n... and {plural(len(causes) - _OPS, 'more cause')}"
    yield ""


def _signed_time(ns: int) -> str:
    return f"{'+' if ns > 0 else '-'}{format_ns(abs(ns))}" if ns else ""


def _bar(calls: int, most: int) -> str:
    eighths = round(abs(calls) / most * _BAR * 8) if most else 0
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def _ranks(spreads: list[RankSpread]) -> Iterator[str]:
    """Yield how ranks differ, where several measured the same."""
    if not spreads:
        return
    yield from [f"{'; '.join(said(spreads))}.", ""]
    columns = [
        Column("test", _CODE),
        Column("calls that differ", Kind(in_markdown=_differing)),
        Column("fastest", _OF_RANK, right=True),
        Column("slowest", _OF_RANK, right=True),
        Column("", Kind(write=lambda share: f"{share:+.0%}"), right=True),
    ]
    rows = [
        [
            titled(each.test.id[:200], each.window.name),
            each.calls,
            *((each.time_ns(rank), rank.rank) for rank in (each.fastest, each.slowest)),
            each.share,
        ]
        for each in spreads[:_ROWS]
    ]
    yield from rendered(Table(columns, rows), padded=False)
    if len(spreads) > _ROWS:
        yield f"\n... and {plural(len(spreads) - _ROWS, 'more window')}"
    yield ""


def _differing(calls: Mapping[str, str]) -> str:
    told = [f"{_code(op)} {escaped(said)}" for op, said in list(calls.items())[:_LINES]]
    return "; ".join([*told, *([f"and {len(calls) - _LINES} more"] if len(calls) > _LINES else [])])


def _details(function: str, tests: Sequence[TestResult], accepting: Accepting) -> Iterator[str]:
    """Yield the findings of *tests* of a function that fail for the same, their ops and the command that accepts."""
    shown = tests[0]
    several = f" ({plural(len(tests), 'test')})" if len(tests) > 1 else ""
    findings = shown.headlines
    told, more = "; ".join(map(escaped, findings[:_LINES])), len(findings) - _LINES
    and_more = f" and {more} more" if more > 0 else ""
    yield f"<details><summary>▲ {_code(function)}{several}: {told}{and_more}</summary>"
    yield ""
    if len(tests) > 1 or shown.id != function:
        names = [_code(test.id.removeprefix(function)) for test in tests]
        others = f"; {_listed(names[1:])} {'fails' if len(names) == 2 else 'fail'} for the same" if names[1:] else ""
        yield from [f"Shown: {names[0]}{others}", ""]
    for window in shown.windows:
        if window.findings:
            yield from _window(window)
    steps = accepting.steps(function, shown.findings)
    if said := ", then ".join((_code if step.is_command else escaped)(step.text) for step in steps):
        yield from [f"To accept this change: {said}", ""]
    yield from ["</details>", ""]


def _window(window: WindowResult) -> Iterator[str]:
    """Yield the table of a window's ops, and the source lines of the ops that fail it."""
    if window.name != BODY:
        yield from [f"Window {_code(window.name)}:", ""]
    if len(window.findings) > _LINES or any(each.adds for each in window.findings):  # else all stand above
        yield from (f"{'  ' * each.adds}- {escaped(each.text.strip())}" for each in window.findings)
        yield ""
    yield from rendered(_ops(window), padded=False)
    number = len(window.told_rows) if window.rows else len(window.ops)
    yield from ["", *([f"... and {plural(number - _ROWS, 'more op')}", ""] if number > _ROWS else [])]
    if whole := window.as_a_whole:
        yield f"- {escaped(whole)}"
    for each in window.lines_of_causes:
        lines = [(f"{more} {'new line' if is_new else 'more from'}", line) for line, more, is_new in each.grown]
        lines += [(f"{each.said(site)} from", site.lines[0]) for site in each.others]
        for what, line in lines[:_LINES]:
            yield f"- {_code(each.title)}: {what} {_code(str(line).replace('`', ''))}"
        if len(lines) > _LINES:
            yield f"- {_code(each.title)}: ... and {plural(len(lines) - _LINES, 'more line')}"
    yield from (f"- {escaped(said)}" for said in window.unknown_lines)
    if window.looked:
        yield f"- {escaped(window.looked)}"
    lacks = f" (not in it: {escaped(window.trace_lacks)})" if window.trace_lacks else ""
    if window.trace:
        yield f"- timeline: {_code(open_trace(window.trace))}{lacks}"
    elif lacks:
        yield f"- no trace: {escaped(window.trace_lacks)}"
    yield ""


def _ops(window: WindowResult) -> Table:
    """Return the first ops of a window; ops that fail it come first."""
    failing, beside = {finding.op for finding in window.findings}, window.beside_changes
    columns = [
        Column("op", _CODE),
        Column("calls", Kind(write=_calls), right=True),
        Column("time", Kind(write=_times), right=True),
        Column("change"),
    ]
    rows: list[list[object]]
    if window.rows:
        changed = sorted(window.told_rows, key=lambda row: row.op not in failing)
        rows = [
            [
                row.title,
                (row.base_calls or Range(0), row.now_calls or Range(0)) if row.is_op else (None, None),
                (row.base_ns, row.now_ns),
                _became(row, beside),
            ]
            for row in changed
        ]
    else:
        rows = [
            [
                each.op,
                (None, Range(each.fewest_calls, each.most_calls)),
                (None, each.fastest_ns if each.device_ns else None),
                beside.get(each.op, ""),
            ]
            for each in sorted(window.stats, key=lambda stats: stats.op not in failing)
        ]
    return Table(columns, rows[:_ROWS])


def _calls(both: tuple[Range | None, Range | None]) -> str:
    before, after = (str(calls) if calls else "" for calls in both)
    return after if before in ("", after) else f"{before} → {after}"


def _times(both: tuple[int | None, int | None]) -> str:
    old, new = ("" if ns is None else format_ns(ns) for ns in both)
    return f"{old} → {new}" if old and new else new


def _became(row: RowResult, beside: Mapping[str | None, str]) -> str:
    return ", ".join(filter(None, [beside.get(row.op, ""), row.became(accepted=row.accepted), row.work]))


def _tail(run: RunResult, left_out: Sequence[str]) -> Iterator[str]:
    if left_out:
        names = _listed([_code(name[:100]) for name in left_out])
        functions = plural(len(left_out), "failing function")
        yield f"Left out for their size: {functions}, {names}. The log has them.\n"
    if run.accept:
        lines = run.accept.split("\n")
        these = "this line" if len(lines) == 1 else "these lines, or some of them,"
        yield "\n    ".join([f"To accept these changes, add {these} to a commit message:\n", *lines, ""])
    if update := Accepting.of_run(run).update_failing(run):
        yield f"To accept all of it: {_code(update)}\n"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _code(text: str) -> str:
    return f"<code>{escaped(text)}</code>"


_CODE = Kind(in_markdown=_code, none="")
_OF_RANK = Kind(write=lambda pair: f"{format_ns(pair[0])} (rank {pair[1]})")
