"""A test that does more without the tests that precede it in its files runs again after them, as in an update."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BackendError
from pytest_opprof.processes.pool import Answer
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.pytest_plugin.reruns.coarse import _Suspect
from pytest_opprof.pytest_plugin.reruns.order import Order
from pytest_opprof.pytest_plugin.test_run import TestRun
from pytest_opprof.verdict.times.coarse import Coarse, Slower

from ...conftest import looks

Suite = Callable[..., pytest.RunResult]
MODEL = """
import pytest
from pytest_opprof.backends import fake
READY = []
def test_without_a_mark(): pass
@pytest.mark.opprof
def test_a():
    fake.launch("Add")
    READY.append(1)
@pytest.mark.opprof
def test_b():
    for _ in range({more} + 2 * (not READY)): fake.launch("Cast")
    if READY: fake.launch("Exp")
@pytest.mark.opprof
def test_c(): fake.launch("Add")
"""
EXCUSED = "*Cast: 3 calls (baseline: 1); but after the tests that precede it in file order it stays within the baseline"


def look(casts: int) -> Answer:
    ops = {"Cast": OpCounts(Range(casts))} | ({"Exp": OpCounts(Range(1))} if casts < 3 else {})
    return Answer({"body": WindowBaseline(ops)}, "")


@pytest.fixture
def recorded(pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite whose second test makes one call after the first test, and three without it."""
    pytester.makepyfile(test_m=MODEL.format(more=1))
    suite("--opprof-update")
    looks(monkeypatch, look(3), look(3))
    return suite


def in_order(monkeypatch: pytest.MonkeyPatch, found: Answer | None) -> list[str]:
    """Stand for the process that runs tests in file order: what it finds, or that it fails. Return those asked for."""
    asked = []

    def measured(order: Order, test: TestRun) -> None:
        asked.append(test.id)
        if found is None:
            raise BackendError("it broke")
        order._answers[test.id] = found

    monkeypatch.setattr(Order, "_measure", measured)
    return asked


@pytest.mark.parametrize(
    "subset",
    [
        ["-ktest_b"],
        ["test_m.py::test_b"],
        ["test_m.py::test_b", "test_m.py::test_a"],
        ["test_m.py::test_c", "-ktest_b"],
    ],
    ids=" ".join,
)
def test_a_test_whose_predecessors_did_not_run_passes_if_it_does_as_before_after_them(
    recorded: Suite, monkeypatch: pytest.MonkeyPatch, subset: list[str]
) -> None:
    asked = in_order(monkeypatch, look(1))
    result = recorded("--opprof", *subset)
    assert result.ret == (5 if "test_m.py::test_c" in subset else 0)
    assert asked == ([] if "test_m.py::test_c" in subset else ["test_m.py::test_b"])
    if asked:
        result.stdout.fnmatch_lines(["opprof: test_m.py::test_b: re-running it in file order*", EXCUSED])
        result.stdout.no_fnmatch_line("*improved*")


@pytest.mark.parametrize("found", [look(3), None], ids=["as much", "it broke"])
def test_a_test_that_does_as_much_after_them_or_cannot_run_after_them_fails(
    recorded: Suite, monkeypatch: pytest.MonkeyPatch, found: Answer | None
) -> None:
    asked = in_order(monkeypatch, found)
    result = recorded("--opprof", "-ktest_b")
    result.assert_outcomes(failed=1, deselected=3)
    assert asked == ["test_m.py::test_b"]
    if found is None:
        result.stdout.fnmatch_lines(["opprof: no test runs in file order again: it broke"])
    result.stdout.fnmatch_lines(["  Cast: 3 calls (baseline: 1)", "  (confirmed in a fresh process)"])


def test_a_run_in_file_order_asks_nobody(
    pytester: pytest.Pytester, recorded: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_order(monkeypatch, look(1))
    pytester.makepyfile(test_m=MODEL.format(more=3))
    recorded("--opprof").assert_outcomes(failed=1, passed=3)
    recorded("--opprof", "-knot without and not test_c").assert_outcomes(failed=1, passed=1, deselected=2)
    assert asked == []


GROUPED = """
import pytest
from pytest_opprof.backends import fake
CASTS, BREAKS = {casts}, {breaks}
@pytest.fixture(scope="module", params=[1, 2])
def one(request): return request.param
@pytest.fixture
def broken(): assert not BREAKS
@pytest.mark.opprof
def test_a(one): fake.launch("Add")
@pytest.mark.opprof
def test_b(one): [fake.launch("Cast") for _ in range(CASTS)]
@pytest.mark.opprof
@pytest.mark.skipif(BREAKS, reason="no GPU")
def test_c(): fake.launch("Add")
@pytest.mark.opprof
def test_d(broken): fake.launch("Add")
@pytest.mark.opprof
def test_e(): [fake.launch("Cast") for _ in range(CASTS)]
"""


def test_tests_that_pytest_groups_by_parameters_skips_or_cannot_set_up_have_run_in_order(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=GROUPED.format(casts=1, breaks=False))
    suite("--opprof-update").assert_outcomes(passed=7)
    looks(monkeypatch, look(3), look(3))
    asked = in_order(monkeypatch, look(1))
    pytester.makepyfile(test_m=GROUPED.format(casts=3, breaks=True))
    suite("--opprof").assert_outcomes(failed=3, passed=2, skipped=1, errors=1)
    assert asked == []


COUNTED = """
import pytest
READY = []
@pytest.mark.opprof(python=True)
def test_a(): READY.append(1)
@pytest.mark.opprof(python=True)
def test_b():
    for _ in range(1 if READY else 50): print()
"""


def test_a_number_that_is_unknown_after_them_excuses_nothing(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=COUNTED)
    suite("--opprof-update").assert_outcomes(passed=2)
    looks(monkeypatch, BackendError("none"))
    asked = in_order(monkeypatch, Answer({"body": WindowBaseline({})}, ""))
    suite("--opprof", "-ktest_b").assert_outcomes(failed=1, deselected=1)
    assert asked == ["test_m.py::test_b"]


def test_the_first_run_after_them_refutes_no_slower_later_run() -> None:
    def took(ms: int, first: Coarse | None = None) -> Coarse:
        return Coarse((ms * 1_000_000,) * 2, (ms * 1_000_000,) * 2, first=first)

    def is_refuted(base: Coarse, *seen: Coarse) -> bool:
        slower = Slower("CPU time", base.cpu_ns[0], 100_000_000)
        return _Suspect(base, elsewhere=False, here=slower, doubted=False).is_refuted_by(seen)

    assert is_refuted(took(10), took(11))
    assert not is_refuted(took(10), took(100))
    assert not is_refuted(took(10))
    # The first run imports in the baseline as well, and hides a later one of 100 ms.
    assert not is_refuted(took(10, first=took(300)), took(310))


@pytest.mark.slow
@pytest.mark.processes
def test_one_process_runs_all_predecessors_and_passes_on_from_test_to_test(
    pytester: pytest.Pytester, few_plugins: None
) -> None:
    """With real processes: calls and CPU time that depend on an earlier test."""
    of_time = """
    import test_m
    from pytest_opprof.backends import fake
    def test_of_time(): sum(range({more} if test_m.READY else 20_000_000))  # 0.3 s without a loop of Python's
    def test_of_both():
        fake.launch("Add")
        for _ in range(2 * (not test_m.READY)): fake.launch("Cast")
        sum(range({more}))
    """
    pytester.makepyfile(test_m=MODEL.format(more=1), test_n=of_time.format(more=10))
    flags = ["--opprof", "--opprof-all", "--opprof-backend=fake", "-v"]
    assert pytester.runpytest_subprocess(*flags, "--opprof-update").ret == 0

    result = pytester.runpytest_subprocess(*flags, "-k", "test_b or test_of")
    result.assert_outcomes(passed=3, deselected=3)
    of_time_excused = "*CPU time: * ms (baseline: *; but after the tests that precede it in file order *"
    result.stdout.fnmatch_lines_random([EXCUSED, of_time_excused])
    result = pytester.runpytest_subprocess(*flags, "test_m.py", "-n2", "--dist=each", "-k", "test_b")
    result.assert_outcomes(passed=2)
    pytester.runpytest_subprocess(*flags, "test_m.py::test_b").assert_outcomes(passed=1)
    result = pytester.runpytest_subprocess(*flags, "test_m.py::test_b", "test_m.py::test_a", "test_n.py")
    result.assert_outcomes(passed=4)

    pytester.makepyfile(test_m=MODEL.format(more=2), test_n=of_time.format(more=10_000_000))
    result = pytester.runpytest_subprocess(*flags, "-k", "test_b or test_of")
    result.assert_outcomes(failed=3, deselected=3)
    result.stdout.fnmatch_lines(["FAILED test_n.py::test_of_both - CPU time *"])
