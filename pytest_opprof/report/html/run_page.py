"""The page of a run: changes by op over all tests, the tests, the limits, and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ...results.run_result import RunResult
from ...results.test_id import split_id
from ...results.test_result import TestResult
from ...results.window_result import BODY, LinesOfCause, RowResult, WindowResult, open_trace
from ...verdict.changed import calls_vary, split
from ...verdict.findings import LimitResult
from ...verdict.tolerances import LEAST_ROUNDS
from ...verdict.verdicts import Status, Verdict
from .. import ranks
from ..accepting import Accepting, Step
from . import marks
from .page import arrow, rendered

SLOWEST: Final = 100
"""So many tests that are as they were have their tables, too; of the others a row is all. 1,000 tests are 3 MB so."""
_ROWS: Final = 40
"""Ops of a window that are shown though nothing became of them."""
_SITES: Final = 8
_RANK_ROWS: Final = 200
_ORDER: Final = {status: place for place, status in enumerate(Status)}


def html(run: RunResult, remarks: Sequence[str] = (), doubts: Sequence[str] = ()) -> str:
    """Return the page of a *run*, with *remarks* on the whole of it; *doubts* stand below the headline."""
    accepting = Accepting.of_run(run)
    tests = [_Test(number, test, accepting) for number, test in enumerate(run.tests)]
    failing = {test.id: place for place, test in enumerate(run.failing)}
    tests.sort(key=lambda test: (failing.get(test.result.id, len(failing)), _ORDER[test.result.status], -test.more))
    calm = sorted((test for test in tests if test.kind == "ok"), key=lambda test: -(test.now_ns or 0))
    for test in calm[SLOWEST:]:
        test.is_open = False
    numbers = {test.result.id: test for test in tests}
    spreads = ranks.rank_spreads(run)
    return rendered(
        "run.html.j2",
        run=run,
        doubts=doubts,
        failing=len(failing),
        allowed=list(dict.fromkeys(line for test in run.tests for window in test.windows for line in window.allowed)),
        others=[test for test in tests if test.result.outcome == "failed" and test.result.id not in failing],
        left_out=len(calm[SLOWEST:]),
        counts=_counts(tests),
        base="base" if run.against else "baseline",
        causes=[(cause, [numbers[test] for test in cause.tests]) for cause in run.causes],
        most_calls=max((abs(cause.calls) for cause in run.causes), default=0) or 1,
        groups=_groups(tests),
        limits=_together(tests),
        spreads=[(each, numbers[each.test.id]) for each in spreads[:_RANK_ROWS]],
        spreads_left_out=len(spreads) - _RANK_ROWS,
        of_ranks="; ".join(ranks.said(spreads)) if spreads else "",
        environments=_all_of(str(window.environment.environment) for test in run.tests for window in test.windows),
        machines=_all_of(window.machine for test in run.tests for window in test.windows),
        said=[*((text, ()) for text in remarks), *_said(tests)],
        update=accepting.update_failing(run),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a window: an op, the time outside ops, or a fact of the window."""

    op: str
    calls: str
    """Empty where it has none."""
    number: int
    """Of calls, to sort by."""
    kind: marks.Kind
    word: str
    base_ns: int | None
    now_ns: int | None
    is_timed: bool
    """Whether its time was judged, and is beyond its tolerance."""
    work: str
    """The change of its dtypes and sizes, or their values."""

    @property
    def change_ns(self) -> int:
        return (self.now_ns or 0) - (self.base_ns or 0)


@dataclass(frozen=True, slots=True)
class _Window:
    """A window of a test."""

    result: WindowResult
    rows: Sequence[_Row]
    left_out: int
    """How many rows, of ops that nothing became of."""
    lines: Sequence[tuple[LinesOfCause, int]]
    """The lines of each cause, and how many others are left out."""

    @property
    def open_trace(self) -> str:
        return open_trace(self.result.trace)

    @property
    def widest_ns(self) -> int:
        return max((ns for row in self.rows for ns in (row.base_ns, row.now_ns) if ns), default=1)

    @property
    def has_base(self) -> bool:
        return any(row.base_ns is not None for row in self.rows)

    @property
    def has_work(self) -> bool:
        return any(row.work for row in self.rows)

    @property
    def split(self) -> list[tuple[int, str]]:
        """The parts of the change of the whole: ns and cause. Empty where calls vary: none is of a fastest round."""
        rows = self.result.rows
        return split(rows) if self.has_base and not calls_vary(rows) else []


class _Test:
    """A test: its row and its details."""

    def __init__(self, number: int, result: TestResult, accepting: Accepting) -> None:
        self.number = number
        self.result = result
        self._accepting = accepting
        self.module, name = split_id(result.id)
        self.name = name or result.id
        self.function, _, parameters = self.name.partition("[")
        self.parameters = f"[{parameters}" if parameters else ""
        self.fails = result.outcome == "failed" and bool(result.findings)
        self.kind = marks.of_status(result.status, fails=self.fails)
        self.is_open = True
        """Whether its row opens."""
        body = [window for window in result.windows if window.name == BODY]
        self._main = max(body or result.windows, key=lambda window: _cost(window) or 0, default=None)
        self.line = f":{result.line}" if result.line else ""
        whole = self._main.whole if self._main else None
        self.base_ns = whole.base_ns if whole else None
        self.now_ns = whole.now_ns if whole and whole.now_ns is not None else _cost(self._main)
        self.time_kind: marks.Kind = marks.of_verdict(whole.verdict) if whole and whole.verdict.is_change else "mute"
        ops = [row for row in self._main.rows if row.is_op] if self._main else []
        self.now_calls = max(self._main.total.calls, default=0) if self._main else 0
        self.more = sum(row.more_calls for row in ops)

    @property
    def base_calls(self) -> int:
        return self.now_calls - self.more

    @property
    def fullest(self) -> LimitResult | None:
        """The limit that is the most used, the broken ones first."""
        limits = [each for window in self.result.windows for each in window.limits if each.used]
        return max(limits, key=lambda limit: (limit.is_broken, limit.share or 0), default=None)

    @property
    def fate(self) -> tuple[object, ...]:
        """A key that is equal for parameters that share a row: their status and their findings."""
        windows = self.result.windows
        environments = tuple(str(window.environment.environment) for window in windows[:1])
        return self.module, self.function, self.result.status, self.fails, self.result.fails_for, environments

    @cached_property
    def why(self) -> list[str]:
        """In a line each, why it has its status."""
        windows = self.result.windows
        found = self.result.headlines or [window.no_baseline for window in windows if window.no_baseline][:1]
        better = [row for window in windows for row in window.rows if row.verdict.is_improvement]
        found = found or [f"{row.title}: {row.word}{_by(row)}" for row in better]
        return found or [why for window in windows if (why := _untimed(window))][:1]

    @cached_property
    def windows(self) -> list[_Window]:
        """The windows, failing ones first."""
        return [_window(window) for window in sorted(self.result.windows, key=lambda window: not window.findings)]

    @property
    def accepting(self) -> Sequence[Step]:
        """The steps that accept its change, or record its baseline."""
        return self._accepting.steps_of(self.result)


def _untimed(window: WindowResult) -> str:
    """Return why times were not judged; nothing where nobody expects it."""
    return f"times not judged: {window.untimed}" if window.untimed and window.rounds >= LEAST_ROUNDS else ""


def _window(window: WindowResult) -> _Window:
    beside = window.beside_changes
    if window.rows:
        rows = [_compared(window, row, beside.get(row.op, "")) for row in window.told_rows]
    else:
        rows = [_measured(window, op, beside.get(op, "")) for op in window.ops]
    rows.sort(key=lambda row: row.kind != "bad")
    shown = [row for index, row in enumerate(rows) if index < _ROWS or row.word]
    lines = []
    for each in window.lines_of_causes:
        left = max(_SITES - len(each.grown), 0)
        lines.append((each._replace(others=each.others[:left]), len(each.others) - left))
    return _Window(window, shown, len(rows) - len(shown), lines)


def _compared(window: WindowResult, row: RowResult, beside: str) -> _Row:
    """Return the row of an op that was compared; *beside* is a word for it beside its change."""
    kind: marks.Kind = "bad" if beside else "mute" if row.accepted else marks.of_verdict(row.verdict)
    word = ", ".join(filter(None, [beside, row.became(accepted=row.accepted)]))
    calls = arrow(str(row.base_calls or 0), str(row.now_calls or 0)) if row.is_op else ""
    work = row.work or (window.ops[row.op].counts.told if row.op in window.ops else "")
    is_timed = row.verdict in (Verdict.SLOWER, Verdict.FASTER)
    return _Row(
        row.title,
        calls,
        row.now_calls.most if row.now_calls else 0,
        kind,
        word,
        row.base_ns,
        row.now_ns,
        is_timed,
        work,
    )


def _measured(window: WindowResult, op: str, word: str) -> _Row:
    """Return the row of an op that was not compared."""
    result = window.ops[op]
    counts = result.counts
    fastest = min(result.device_ns) if result.device_ns else None
    kind: marks.Kind = "bad" if word else "mute"
    return _Row(op, str(counts.calls), counts.calls.most, kind, word, None, fastest, is_timed=False, work=counts.told)


def _by(row: RowResult) -> str:
    if row.more_calls:
        return f", {row.base_calls or 0} → {row.now_calls or 0}"
    return f", {row.work}" if row.work else ""


def _cost(window: WindowResult | None) -> int | None:
    return window.fastest_ns if window else None


def _counts(tests: Sequence[_Test]) -> list[tuple[Status, marks.Kind, int]]:
    """Return each status that tests have, how it is marked, and of how many."""
    found: dict[Status, list[_Test]] = {}
    for test in tests:
        found.setdefault(test.result.status, []).append(test)
    return [(status, each[0].kind, len(each)) for status, each in found.items()]


def _groups(tests: Sequence[_Test]) -> list[list[_Test]]:
    """Return the tests in their order, tests of one function with one fate together."""
    found: dict[object, list[_Test]] = {}
    for test in tests:
        found.setdefault(test.fate if test.parameters else test.number, []).append(test)
    return list(found.values())


@dataclass(slots=True)
class _Limited:
    """A limit, with the same use of it by parameters of one function."""

    limit: LimitResult
    test: _Test
    window: str
    tests: list[_Test]


def _together(tests: Sequence[_Test]) -> list[_Limited]:
    """Return the limits of all tests, the broken ones first, then the fullest."""
    found: dict[object, _Limited] = {}
    for test in tests:
        for window in test.result.windows:
            for limit in window.limits:
                key = test.module, test.function, window.name, limit
                found.setdefault(key, _Limited(limit, test, window.name, [])).tests.append(test)
    return sorted(found.values(), key=lambda each: (not each.limit.is_broken, -(each.limit.share or 0)))


def _said(tests: Sequence[_Test]) -> list[tuple[str, Sequence[_Test]]]:
    """Return the remarks beside the findings, each once, with its tests."""
    found: dict[str, dict[int, _Test]] = {}
    for test in tests:
        for window in test.result.windows:
            for text in (*(each.text for each in window.remarks), window.no_baseline, _untimed(window)):
                if text:
                    found.setdefault(text, {})[test.number] = test
    return [(text, list(of.values())) for text, of in sorted(found.items(), key=lambda item: -len(item[1]))]


def _all_of(values: Iterator[str]) -> list[str]:
    return sorted({*values} - {""})
