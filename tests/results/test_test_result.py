"""The status of a test, and how the summary counts it."""

from __future__ import annotations

from pytest_opprof.results.test_result import TestResult, counted, worst
from pytest_opprof.verdict.verdicts import Status


def test_the_worst_status_is_that_of_the_test() -> None:
    assert worst({Status.IMPROVED, Status.OK, Status.SLOWER, Status.NO_BASELINE}) is Status.SLOWER
    assert worst({Status.IMPROVED, Status.OK}) is Status.IMPROVED
    assert worst(set()) is Status.OK


def test_the_summary_counts_every_status_but_ok_the_worst_first() -> None:
    tests = [TestResult(id=status.value, status=status) for status in reversed(Status)]
    assert counted(tests) == [f"1 {status.words}" for status in Status if status is not Status.OK]
    assert counted(tests)[0] == "1 over budget"
