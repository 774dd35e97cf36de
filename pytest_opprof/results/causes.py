"""The causes of a run: its changes over all tests, since often one or two fail many tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from ..profile.site_calls import SourceLine
from ..units import plural
from ..verdict.findings import Finding
from ..verdict.quantities import QUANTITIES, is_fact, named, words
from .test_result import TestResult
from .window_result import BODY, RowResult, WindowResult

WHOLE = "(whole window)"
_REGRESSIONS = words(worse=True)


class CauseLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that asks for more of an op."""

    line: SourceLine
    tests: Annotated[int, Meta(description="The number of tests in which it does.")]


class Cause(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One change, over the tests that it makes worse, or over the tests that it makes better."""

    op: Annotated[str, Meta(description="An op, or a fact of the window in parentheses.")]
    is_worse: bool
    changes: Annotated[
        tuple[str, ...], Meta(description="The changes in a table's words, consequences too, each once.")
    ]
    tests: Annotated[tuple[str, ...], Meta(description="The node ids.")]
    calls: Annotated[int, Meta(description="The extra calls in the worst round of each test, in all.")] = 0
    change_ns: Annotated[int, Meta(description="The extra time of a round, in all, where there are several.")] = 0
    lines: Annotated[
        tuple[CauseLine, ...], Meta(description="The lines that ask for more, those in most tests first.")
    ] = ()
    others: Annotated[
        tuple[str, ...], Meta(description="Further ops of the same findings: one line asks for more of all of them.")
    ] = ()

    @property
    def title(self) -> str:
        """The op, and how many others share its line: ``Item and 7 more ops``."""
        return self.op + (f" and {plural(len(self.others), 'more op')}" if self.others else "")

    @property
    def has_one_line(self) -> bool:
        """Whether one line asks for all of it in every test."""
        return [each.tests for each in self.lines] == [len(self.tests)]


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of one op in one test."""

    test: str
    op: str
    window: WindowResult
    row: RowResult | None
    """Its row; None if another change of the op has it."""
    word: str
    finding: Finding | None
    """The finding that it is of; None if it is better."""

    @property
    def title(self) -> str:
        return self.row.title if self.row else named(self.op)


def causes_of(tests: Sequence[TestResult]) -> list[Cause]:
    """Return the causes: the worse ones first, then by tests and by calls, never by a measured time.

    Changes from a line that fails several tests are one; so two casts in two lines are two, but where each test has its
    own line, as after an update of the framework, the op is the cause. A body holds the windows inside it: where it
    changed, they are not counted again. An accepted or excused change is not worse.
    """
    found: dict[tuple[str | SourceLine, bool], list[_Change]] = {}
    failing_by = Counter(
        line for test in tests if test.fails for line in {each.line for _, each in test.causes} if line
    )
    for test in tests:
        windows = sorted(test.windows, key=lambda window: window.name != BODY)
        in_body = set[tuple[str, bool]]()
        for window in windows:
            changes = [each for each in _changes(test, window) if (each.op, each.finding is not None) not in in_body]
            if window.name == BODY:
                in_body = {(each.op, each.finding is not None) for each in changes}
            for each in changes:
                key: str | SourceLine = each.op
                if (finding := each.finding) and finding.line and (finding.ops or failing_by[finding.line] > 1):
                    key = finding.line
                found.setdefault((key, each.finding is not None), []).append(each)
    causes = [_cause(each, key) for (key, _), each in found.items()]
    return sorted(causes, key=_order)


def in_order(tests: Iterable[TestResult], causes: Sequence[Cause]) -> list[TestResult]:
    """Return *tests* by their first cause; of one cause, the test with the most extra calls comes first."""
    first = {test: place for place, cause in reversed([*enumerate(causes)]) for test in cause.tests}
    return sorted(tests, key=lambda test: (first.get(test.id, len(causes)), -test.more_calls))


def _order(cause: Cause) -> tuple[object, ...]:
    lines = [str(each.line) for each in cause.lines]
    return not cause.is_worse, -len(cause.tests), -abs(cause.calls), cause.op, lines


def _cause(changes: Sequence[_Change], of: str | SourceLine) -> Cause:
    first, by_test = changes[0], {each.test: each for each in reversed(changes)}
    lines = Counter[SourceLine]()
    if isinstance(of, SourceLine):
        lines[of] = len(by_test)
        for each in by_test.values():
            grown = [line.line for line in each.window.grown.get(each.op, ())]
            if of in grown:  # else they are lines of a function that it calls
                lines.update(line for line in dict.fromkeys(grown) if line != of)
    elif first.finding:
        for each in reversed(by_test.values()):
            lines.update([*dict.fromkeys(grown.line for grown in each.window.grown.get(of, ()))])
    return Cause(
        op=first.title,
        is_worse=first.finding is not None,
        changes=tuple(dict.fromkeys(each.word for each in changes)),
        tests=tuple(dict.fromkeys(each.test for each in changes)),
        calls=sum(each.row.more_calls for each in changes if each.row),
        change_ns=sum(each.row.change_ns for each in changes if each.row and _is_timed(each)),
        lines=tuple(CauseLine(line, number) for line, number in lines.most_common()),
        others=tuple(
            dict.fromkeys(each.title for each in changes if each.title != first.title and not is_fact(each.op))
        ),
    )


def _is_timed(change: _Change) -> bool:
    """Return True if both times are known, of several rounds: of one, cold, time means little."""
    row = change.row
    return change.window.rounds > 1 and row is not None and row.base_ns is not None and row.now_ns is not None


def _changes(test: TestResult, window: WindowResult) -> Iterator[_Change]:
    """Yield the changes of a window: its findings, if the test fails, then its improvements."""
    rows, told = {row.op: row for row in window.rows}, set[str]()
    cause: Finding | None = None
    ops: tuple[str, ...] = ()
    for finding in window.findings if test.fails else ():
        if not finding.adds:
            op_or_fact = finding.op or (finding.rule if finding.rule in QUANTITIES else WHOLE)
            cause, ops = finding, finding.ops or (op_or_fact,)
        elif cause and finding.rule in _REGRESSIONS:  # a consequence, such as ops in wider dtypes
            yield _Change(test.id, ops[0], window, None, finding.rule, cause)
        for op in () if finding.adds else ops:
            for word in finding.kinds:
                yield _Change(test.id, op, window, None if op in told else rows.get(op), word, finding)
                told.add(op)
    for row in window.rows:
        if row.verdict.is_improvement:
            yield _Change(test.id, row.op, window, row, row.word, None)
