"""Changes over all tests of a run, by op: often one or two ops fail many tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..profile.site_calls import SourceLine
from ..results.run_result import RunResult, TestResult
from ..results.window_result import BODY, RowResult, WindowResult
from ..units import plural
from ..verdict.findings import Finding
from ..verdict.quantities import is_fact, named

WHOLE = "(whole window)"


@dataclass(slots=True)
class OpChange:
    """The change of an op over the tests in which it got worse, or over the tests in which it got better."""

    op: str
    is_worse: bool
    what: dict[str, None] = field(default_factory=dict)
    """In words, each once, in the order in which they came."""
    tests: set[str] = field(default_factory=set)
    calls: int = 0
    """How many calls more, in the worst round of each test."""
    change_ns: int = 0
    """How much more time in a round, where there are several; of one, cold, time means little."""
    lines: Counter[SourceLine] = field(default_factory=Counter)
    """The lines that ask for more of it, each with the number of tests in which it does."""
    others: dict[str, None] = field(default_factory=dict)
    """Further ops of the same finding: one line asks for more of all of them."""

    @property
    def title(self) -> str:
        """The op, and how many others share its line: ``Item and 7 more ops``."""
        return self.op + (f" and {plural(len(self.others), 'more op')}" if self.others else "")


@dataclass(frozen=True, slots=True)
class Failing:
    """The tests of one function that fail for the same."""

    function: str
    tests: tuple[TestResult, ...]
    windows: tuple[WindowResult, ...]
    """The windows that fail the first test."""


def by_op(run: RunResult) -> list[OpChange]:
    """Return the changes by op: worse ones first, then by calls, time and tests.

    Changes from a line that fails several tests are one; so two casts in two lines are two, but where each test has its
    own line, as after an update of the framework, the op is the cause. A body holds the windows inside it: where it
    changed, they are not counted again. An accepted or excused change is not worse.
    """
    found: dict[tuple[str | SourceLine, bool], OpChange] = {}
    failing_by = Counter(line for test in run.failing for line in {each.line for _, each in test.causes} if line)
    failing = {test.id for test in run.failing}
    for test in run.tests:
        windows = sorted(test.windows, key=lambda window: window.name != BODY)
        body = next((window for window in windows if window.name == BODY), None)
        in_body = {(op, is_worse) for op, is_worse, *_ in _changes(body, fails=test.id in failing)} if body else set()
        for window in windows:
            for op, is_worse, what, row, finding in _changes(window, fails=test.id in failing):
                if window is not body and (op, is_worse) in in_body:
                    continue
                title = row.title if row else named(op)
                line = finding.line if finding else None
                if finding and line and not finding.ops and failing_by[line] == 1:
                    line = None
                change = found.setdefault((line or op, is_worse), OpChange(title, is_worse))
                change.what.setdefault(what)
                if title != change.op and not is_fact(op):
                    change.others.setdefault(title)
                if is_worse and test.id not in change.tests:
                    change.lines.update({line} if line else {grown.line for grown in window.grown.get(op, ())})
                change.tests.add(test.id)
                if row is not None:
                    change.calls += row.more_calls
                    if window.rounds > 1 and row.base_ns is not None and row.now_ns is not None:
                        change.change_ns += row.now_ns - row.base_ns
    return sorted(found.values(), key=_most)


def _most(change: OpChange) -> tuple[bool, int, int, int, str]:
    return not change.is_worse, -abs(change.calls), -abs(change.change_ns), -len(change.tests), change.op


_Changed = tuple[str, bool, str, "RowResult | None", "Finding | None"]


def _changes(window: WindowResult, *, fails: bool) -> Iterator[_Changed]:
    """Yield the op, whether it is worse, its change in words, and its row; an op that is worse comes once.

    Last the finding that it is of; None if it is better.
    """
    rows, told = {row.op: row for row in window.rows}, set[str]()
    for finding in window.findings if fails else ():
        for op in () if finding.adds else finding.ops or [WHOLE if finding.op is None else finding.op]:
            for what in finding.kinds:
                yield op, True, what, None if op in told else rows.get(op), finding
                told.add(op)
    for row in window.rows:
        if row.verdict.is_improvement:
            yield row.op, False, row.word, row, None


def by_function(run: RunResult) -> list[Failing]:
    """Return the failing tests by function and by finding, the largest group first."""
    found: dict[tuple[str, object], list[TestResult]] = {}
    for test in run.failing:
        found.setdefault((test.id.partition("[")[0], fails_for(test)), []).append(test)
    parts = [Failing(function, tuple(tests), _failing(tests[0])) for (function, _), tests in found.items()]
    return sorted(parts, key=lambda each: -len(each.tests))


def fails_for(test: TestResult) -> frozenset[tuple[str | None, ...]]:
    """Return the kinds of its findings, each with its window and op: equal for tests that fail for the same."""
    return frozenset((window.name, *each.kinds, each.op) for window in test.windows for each in window.findings)


def headlines(test: TestResult) -> list[str]:
    """Return the causes of a failing test, a line each."""
    return [("" if window.name == BODY else f"window {window.name}: ") + each.text for window, each in test.causes]


def _failing(test: TestResult) -> tuple[WindowResult, ...]:
    return tuple(window for window in test.windows if window.findings)
