"""The status of a test, and how the summary counts it."""

from __future__ import annotations

from pytest_opprof.profile.range import Range
from pytest_opprof.results.acceptance import parsed
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.test_result import TestResult, counted, status, worst
from pytest_opprof.results.window_result import WindowNumbers
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.times.stored_rule import judge
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Status

from ..conftest import profile_of


def test_the_worst_status_is_that_of_the_test() -> None:
    assert worst({Status.IMPROVED, Status.OK, Status.SLOWER, Status.NO_BASELINE}) is Status.SLOWER
    assert worst({Status.IMPROVED, Status.OK}) is Status.IMPROVED
    assert worst(set()) is Status.OK


def test_the_summary_counts_every_status_but_ok_the_worst_first() -> None:
    tests = [TestResult(id=status.value, status=status) for status in reversed(Status)]
    assert counted(tests) == [f"1 {status.words}" for status in Status if status is not Status.OK]
    assert counted(tests)[0] == "1 over budget"


def test_beside_an_accepted_op_the_rest_gives_the_status() -> None:
    once, twice = (WindowNumbers.of("body", profile_of([("Add", 5)] * calls)) for calls in (1, 2))
    again = ({"recompilations": Range(0)}, {"recompilations": Range(1)})
    diff = compare((once.counts, again[0]), (twice.counts, again[1]), judge((), ()), STORED)
    window = JudgedWindow(twice, diff=diff)
    assert status([window]) is Status.MORE_CALLS
    accepted = JudgedWindow(twice, diff=diff, allowed={"Add": parsed("Add", "a" * 40)})
    assert status([accepted]) is Status.MORE_WORK
