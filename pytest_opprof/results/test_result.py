"""The result of a test, as it travels from workers and fresh processes, and its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..verdict.findings import Finding
from ..verdict.quantities import FACTS
from ..verdict.verdicts import Status, Verdict
from .judged_window import JudgedWindow
from .window_result import BODY, WindowResult


class TestResult(Struct, kw_only=True, forbid_unknown_fields=True):
    """One measured test."""

    __test__ = False  # pytest must not collect it as a test class

    id: Annotated[str, Meta(description="The node id.")]
    outcome: Literal["", "passed", "failed", "skipped"] = ""
    status: Status
    line: Annotated[int, Meta(description="Its first line in the file, from 1; 0 if unknown.")] = 0
    windows: list[WindowResult] = []
    remarks: Annotated[
        dict[str, list[str]], Meta(description="Remarks of the run on the test and its windows, by title.")
    ] = {}
    accept: Annotated[
        list[str], Meta(description="The steps that accept its change or record its baseline, in words or as commands.")
    ] = []
    reported: Annotated[str, Meta(description="The failure that --opprof-report-only let pass; empty if none.")] = ""

    @property
    def fails(self) -> bool:
        """Whether it exceeds a budget or baseline, even if --opprof-report-only lets it pass."""
        return bool((self.outcome == "failed" or self.reported) and self.findings)

    @property
    def findings(self) -> list[Finding]:
        """The findings of all its windows."""
        return [each for window in self.windows for each in window.findings]

    @property
    def causes(self) -> list[tuple[WindowResult, Finding]]:
        """The findings with their windows, without the lines below a finding."""
        return [(window, each) for window in self.windows for each in window.findings if not each.adds]

    @property
    def each_remark(self) -> list[tuple[str, str]]:
        """Its remarks, each with the title of its window."""
        return [(title, text) for title, texts in self.remarks.items() for text in texts]

    @property
    def headlines(self) -> list[str]:
        """Its causes, a line each."""
        return [("" if window.name == BODY else f"window {window.name}: ") + each.text for window, each in self.causes]

    @property
    def fails_for(self) -> frozenset[tuple[str | None, ...]]:
        """The kinds of its findings, each with its window and op: equal for tests that fail for the same."""
        return frozenset((window.name, *each.kinds, each.op) for window in self.windows for each in window.findings)

    @property
    def more_calls(self) -> int:
        """The extra calls of ops that have more, in the window with most of them."""
        more = (sum(max(row.more_calls, 0) for row in window.rows) for window in self.windows)
        return max(more, default=0)


class TestRecord(TestResult, kw_only=True):
    """One measured test, with the run's remarks on it."""

    __test__ = False

    file: str = ""
    """The path of its file."""
    tells_sites: bool = False
    """Whether the backends that recorded it can report source lines."""
    no_sites: str = ""
    """The reason why some source lines may be unknown, and the remedy."""
    adapts: str = ""
    """The library that makes it do more or less in each run, if known by name."""
    missing: dict[str, str] = {}
    """The windows without a baseline, and why."""
    unreadable: list[str] = []
    """Those of them whose baseline file cannot be used: an error says how to mend it."""
    untimed: dict[str, str] = {}
    """The windows whose times were not judged, and why."""
    table: list[str] = []
    """Its op tables, if requested."""


def status(windows: Sequence[JudgedWindow]) -> Status:
    """Return the status of a test: the worst of its windows."""
    present = {_status_of(window) for window in windows}
    present |= {Status.OVER_BUDGET for window in windows if window.budget}
    present |= {Status.RANKS_DIFFER for window in windows if window.ranks_differ}
    present |= {Status.NOT_COMPARED for window in windows if window.untimed and window.verdict is not Verdict.NOISY}
    return worst(present)


def worst(present: Collection[Status]) -> Status:
    """Return the worst of the statuses that are *present*; without any it is ok."""
    return next((status for status in Status if status in present), Status.OK)


def counted(tests: Sequence[TestResult], against: str = "") -> list[str]:
    """Return how many tests have each status, the worst first, in words; a held budget is named beside "no baseline".

    *against* is the revision of the comparison; empty: the baselines.

    >>> counted([TestResult(id="a", status=Status.SLOWER), TestResult(id="b", status=Status.OK)])
    ['1 slower']
    """
    counts = Counter(test.status for test in tests)
    held = sum(test.status is Status.NO_BASELINE and any(window.limits for window in test.windows) for test in tests)
    counts[Status.NO_BASELINE] -= held
    none = f"not compared with {against}" if against else Status.NO_BASELINE.words
    its = "its" if held == 1 else "their"
    return [*in_words(counts, none), *([f"{held} within {its} budget and {none}"] if held else [])]


def in_words(counts: Mapping[Status, int], none: str = Status.NO_BASELINE.words) -> list[str]:
    """Return *counts* of statuses in words, the worst first and without ok; *none* are the words for "no baseline".

    >>> in_words({Status.OK: 3, Status.SLOWER: 1})
    ['1 slower']
    """
    words = {status: status.words for status in Status if status is not Status.OK} | {Status.NO_BASELINE: none}
    return [f"{counts[status]} {said}" for status, said in words.items() if counts.get(status)]


def _status_of(window: JudgedWindow) -> Status:
    if window.verdict is Verdict.ABOVE:
        fact = next(row.op for row in window.worse if row.verdict is Verdict.ABOVE)
        if gate := FACTS[fact].gate:
            return gate.status
    return window.verdict.status
