"""``opprof history``: how the calls in baselines changed, from git's log of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, unknown
from ..report.escaping import terminal
from ..report.tables import COUNT, NAME, Column, Kind, Table, document, json, style_of, terminal_width
from ..results.test_id import function_of, split_id
from ..units import plural
from .inputs.opened import BaselineFolder, opened
from .inputs.reading import Asked, check_page

if TYPE_CHECKING:
    from ..baselines.git_log import Commit
    from ..baselines.history import History, OpHistory

_WHAT = "show how the calls in baselines changed, commit by commit in git's log; uncommitted changes are not included"
_TOP = 10
_WIDTH = 40
"""The most characters of a line of bars, each for one commit or more; a fifth of a narrow terminal."""
_BARS, _PLAIN = "▁▂▃▄▅▆▇█", "_.:-=+*#"
"""The second for a terminal that has no such characters."""


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("history", help="show which commits changed the calls in baselines", description=_WHAT)
    add_argument = parser.add_argument
    add_argument("tests", nargs="*", metavar="TEST", help="a test, a file or a folder of tests (default: all)")
    add_argument("--op", action="append", default=[], metavar="OP", help="only this op, with every commit (repeatable)")
    add_argument("--since", metavar="REV", help="only commits after this revision")
    add_argument("--environment", metavar="DIR", help="only this folder of baselines")
    add_argument("--dir", type=Path, default=Path("baselines"), help="folder of the baselines (default: baselines)")
    add_argument("-t", "--top", type=int, metavar="K", help="show K ops (default: 10)")
    add_argument("--format", choices=("table", "json"), default="table")
    add_argument("-o", "--output", type=Path, metavar="FILE.html", help="write an HTML page instead")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with msgspec behind them.
    from ..baselines import git_log
    from ..baselines.history import blobs, history

    if arguments.output:
        from ..report.html import history_page, page

        check_page(arguments)
    folder = opened(arguments.dir, Asked(), BaselineFolder).path
    commits = git_log.commits(folder)
    if not commits:
        raise UsageError(
            f"no commit has baselines in {folder}; record some (pytest --opprof-update) and commit them, or name"
            " another folder with --dir"
        )
    contents = git_log.objects(folder, [commits[0].name, *blobs(commits)])
    is_cut = git_log.is_cut(commits, next(contents))
    found = history(commits, contents)
    since = git_log.after(folder, arguments.since) if arguments.since else None
    environments = _environments(arguments, found)
    tests = _tests(arguments, found)
    ops = {name: found.ops(name, lambda test: not tests or test in tests, since) for name in environments}
    if arguments.op:
        known = {change.op for change in found.changes}
        for op in arguments.op:
            if op not in known:
                raise unknown(op, known)
        ops = {name: [each for each in of if each.op in arguments.op] for name, of in ops.items()}
    said = list(_said(found, folder, is_cut=is_cut))
    if arguments.format == "json":
        print(_json(found, ops, since, said))
        return False
    for line in said:
        print(terminal(f"opprof history: {line}"), file=sys.stderr)
    if arguments.output:
        asked = ", ".join([*arguments.op, *arguments.tests, *([f"since {arguments.since}"] if arguments.since else ())])
        page.write(arguments.output, history_page.html(found, ops, since, asked, said), "-o")
        return False
    for number, (name, of) in enumerate(ops.items()):
        print("\n" * bool(number) + "\n".join(_text(arguments, found, name, of, found.commits_of(name, since))))
    return False


def _environments(arguments: argparse.Namespace, found: History) -> list[str]:
    if arguments.environment is None:
        return sorted(found.by_environment)
    name = Path(arguments.environment).name
    if name not in found.by_environment:
        raise unknown(name, found.by_environment, "environment", sorted(found.by_environment))
    return [name]


def _tests(arguments: argparse.Namespace, found: History) -> set[str]:
    """Return the tests that were asked for, empty for all. Raises UsageError for a test that never had a baseline."""
    every, chosen = found.tests, set[str]()
    for asked in arguments.tests:
        name = asked.removeprefix("./").rstrip("/")
        some = {test for test in every if test == name or test.startswith((f"{name}::", f"{name}[", f"{name}/"))}
        if not some:
            known = {*every, *map(function_of, every), *(split_id(test)[0] for test in every)}
            raise unknown(asked, known, "test")
        chosen |= some
    return chosen


def _said(found: History, folder: Path, *, is_cut: bool) -> Iterator[str]:
    """Yield the limits of the answer: a shallow clone, files that cannot be read."""
    if is_cut:
        oldest = found.commits[0]
        yield (
            f"this clone is shallow: changes of {folder} before {oldest.name[:9]} of {oldest.day} are not in it"
            " (git fetch --unshallow brings them; actions/checkout needs fetch-depth: 0)"
        )
    yield from (f"{unread}; it counts as not changed" for unread in found.unread)


def _text(
    arguments: argparse.Namespace, found: History, environment: str, ops: Sequence[OpHistory], shown: Sequence[int]
) -> Iterator[str]:
    """Yield the lines about one environment."""
    style = style_of("table")
    title = terminal(found.titles.get(environment, environment))
    if not shown:
        yield f"{title}: no commit changed its baselines since {arguments.since}"
        return
    days = list(dict.fromkeys([found.commits[shown[0]].day, found.commits[shown[-1]].day]))
    yield f"{title}: {plural(len(shown), 'commit')} of baselines, {' to '.join(days)}"
    asked = [*arguments.op, *arguments.tests]
    if not ops:
        of_asked = f" of {', '.join(map(terminal, asked))}" if asked else ""
        yield f"no commit after the first changed the calls{of_asked}"
        return
    top = _TOP if arguments.top is None else arguments.top
    yield style.text(_ops(found, ops[:top], shown))
    yield from style.left_out(len(ops) - top, "op", f"--top {len(ops)} shows them")
    for op in ops if arguments.op else ():
        yield from ["", f"{terminal(op.op)}, each commit:", style.text(_steps(found, op))]


def _ops(found: History, ops: Sequence[OpHistory], shown: Sequence[int]) -> Table:
    """Return the ops, each with its biggest step."""
    arrives = any(op.arrived for op in ops)
    columns = [
        Column("op", NAME),
        Column("calls", Kind(write=lambda calls: f"{calls[0]} -> {calls[1]}")),
        Column(plural(len(shown), "commit"), COUNT, spare=1),
        Column("biggest step", _SIGNED),
        *([Column("by tests that came or went", _SIGNED_OR_NONE, spare=2)] if arrives else []),
        Column("tests", COUNT, spare=2),
        *_COMMIT,
    ]
    rows = [
        [
            op.op,
            (op.first, op.now),
            _sparkline(op, shown),
            op.biggest.calls or op.biggest.arrived,
            *([op.arrived or None] if arrives else []),
            len(op.biggest.tests),
            *_of_commit(found.commits[op.biggest.at]),
        ]
        for op in ops
    ]
    return Table(columns, rows, elsewhere=_ELSEWHERE)


def _steps(found: History, op: OpHistory) -> Table:
    """Return each commit that changed the calls of *op*."""
    columns = [
        Column("calls", COUNT),
        Column("", _CHANGE),
        *_COMMIT,
        Column("tests", _TESTS),
        Column(None, key="commit"),
        Column(None, key="calls"),
        Column(None, key="of_code"),
        Column(None, key="of_tests_that_came_or_went"),
        Column(None, key="tests"),
    ]
    rows = []
    for step in op.steps:
        commit, tests = found.commits[step.at], list(step.tests)
        of_programs = [commit.name, op.totals[step.at], step.calls, step.arrived, tests]
        changed = (step.calls, step.arrived)
        rows.append([op.totals[step.at], changed, *_of_commit(commit), tests, *of_programs])
    return Table(columns, rows, elsewhere=_ELSEWHERE)


def _of_commit(commit: Commit) -> list[str]:
    return [commit.name[:9], commit.day, commit.subject]


def _changed(calls: int, arrived: int) -> str:
    came = f"{_signed(arrived)} by tests that came or went" if arrived else ""
    return ", ".join(filter(None, [_signed(calls) if calls or not came else "", came]))


def _first(tests: Sequence[str]) -> str:
    return tests[0] + (f" and {len(tests) - 1} more" if len(tests) > 1 else "")


def _signed(calls: int) -> str:
    return f"{calls:+d}" if calls else "0"


_SIGNED, _SIGNED_OR_NONE = Kind(write=_signed), Kind(write=_signed, none="")
_CHANGE = Kind(write=lambda pair: _changed(*pair), narrows="fold")
_TESTS = Kind(write=_first, narrows="cut")
_COMMIT = (Column("commit", COUNT), Column("day", COUNT, spare=3), Column("subject", replace(NAME, least=16)))
_ELSEWHERE = "-o FILE.html has all columns"


def _sparkline(op: OpHistory, shown: Sequence[int]) -> str:
    """Return the calls after each of the commits *shown* as a line of bars; of several in one bar, the most."""
    line, calls = [], op.first
    for at in shown:
        calls = op.totals.get(at, calls)
        line.append(calls)
    width = min(_WIDTH, (terminal_width() or 5 * _WIDTH) // 5, len(line))
    ends = [len(line) * (number + 1) // width for number in range(width)]
    bars = [max(line[begin:end]) for begin, end in zip([0, *ends], ends)]
    low, high = min(bars), max(bars)
    signs = _BARS if _can_print(_BARS) else _PLAIN
    return "".join(signs[round((bar - low) / (high - low) * 7) if high > low else 0] for bar in bars)


def _can_print(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _json(
    found: History, ops: Mapping[str, Sequence[OpHistory]], since: frozenset[str] | None, said: Sequence[str]
) -> str:
    commits = [each for each in found.commits if since is None or each.name in since]
    changed = [(environment, op) for environment, of in ops.items() for op in of]
    return document(
        {
            "remarks": list(said),
            "commits": [{"commit": each.name, "time": each.time_s, "subject": each.subject} for each in commits],
            "ops": [
                {
                    "environment": environment,
                    "op": op.op,
                    "first": op.first,
                    "now": op.now,
                    "steps": json(_steps(found, op)),
                }
                for environment, op in changed
            ],
        }
    )
