"""What comes of two versions, given what the pairs of processes did. Their reports are made up here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.measure.function_times import FunctionTime
from pytest_opprof.processes.collection import SideTest
from pytest_opprof.processes.turns import SideRun
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.op_profile import Remark
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SourceLine
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.pytest_plugin.against import pairs as against_pairs
from pytest_opprof.pytest_plugin.against.pairs import Found
from pytest_opprof.pytest_plugin.child import side_test
from pytest_opprof.pytest_plugin.reruns.coarse import is_judged
from pytest_opprof.pytest_plugin.test_run import TestRun
from pytest_opprof.python_calls.counted import PythonCalls
from pytest_opprof.results.acceptance import parsed
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.plain import converted, plain
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import BODY, WindowNumbers
from pytest_opprof.sites.changed import Changes
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.times.coarse import Coarse
from pytest_opprof.verdict.times.pair_rule import judge_pairs
from pytest_opprof.verdict.tolerances import PAIRS
from pytest_opprof.verdict.verdicts import Status

from ...conftest import profile_of
from ...git_history import committed

SOURCE = "import pytest\n@pytest.mark.opprof(rounds=10)\ndef test_a(): pass\n"
NS = 100_000


class Pairs:
    """A run of one test, and what was found of it."""

    def __init__(self, pytester: pytest.Pytester, *arguments: str, source: str = SOURCE) -> None:
        self.items = pytester.genitems([pytester.getmodulecol(source, ["--opprof-noise=ignore", *arguments])])
        self.item = self.items[0]
        self.config, self.test = self.item.config, self.item.nodeid
        self.file = self.test.partition("::")[0]
        self.config.option.opprof_against = "main"
        self.found = Found("main", self.config)

    def reports(self, *windows: JudgedWindow, outcome: str = "passed", longrepr: object = None) -> list[dict[str, Any]]:
        """Return the reports of a test as a side sends them."""
        report = pytest.TestReport(self.test, (self.file, 1, "test_a"), {}, outcome, longrepr, "call")  # type: ignore[arg-type]
        if windows:
            results = [window.result("CPU, 2 cores", parallel=False, compared=True) for window in windows]
            report.opprof = plain(TestRecord(id=self.test, status=Status.OK, windows=results))  # type: ignore[attr-defined]
        return [self.config.hook.pytest_report_to_serializable(config=self.config, report=report)]

    def side(self, ns: int = NS, **known: Any) -> SideRun:
        return SideRun([self.test], {self.test: self.reports(window(ns, **known))})

    def add(self, before: SideRun, after: SideRun, pairs: int = 1) -> None:
        for _ in range(pairs):
            self.found.add([before, after])

    @property
    def described(self) -> SideTest:
        return side_test(TestRun.of(self.item))

    @property
    def is_open(self) -> bool:
        return self.found.is_open(self.described)

    def report(self) -> pytest.TestReport:
        (report,) = self.found.reports(self.described)
        return report

    def record(self) -> TestRecord:
        return converted(self.report().opprof, TestRecord)  # type: ignore[attr-defined]


def window(ns: int, calls: int = 1, rounds: int = 10, name: str = BODY, wait_ns: int = 0) -> JudgedWindow:
    """Return a window of so many rounds, each of so many calls of Add that take *ns* in all."""
    profile = profile_of(*[[("Add", ns // calls)] * calls] * rounds)
    took = ProcessTimes((ns,) * rounds, {"Add": (ns,) * rounds}, (wait_ns,) * rounds, threads=1)
    return JudgedWindow(WindowNumbers.of(name, profile), processes=(took,))


@pytest.fixture
def pairs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pairs]:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nopprof_backend = fake\naddopts = -p opprof -p no:unraisableexception\n")
    return lambda *arguments, **known: Pairs(pytester, *arguments, **known)


Run = Callable[..., Pairs]


# --- how many pairs


def test_what_is_the_same_is_ok_after_five_pairs(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side(), 4)
    assert run.is_open
    run.add(run.side(), run.side())
    assert not run.is_open
    assert (run.report().outcome, run.record().status) == ("passed", Status.OK)


def test_what_looks_slower_is_so_after_nine_pairs(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side(2 * NS), 8)
    assert run.is_open
    run.add(run.side(), run.side(2 * NS))
    assert not run.is_open
    assert (run.report().outcome, run.record().status) == ("failed", Status.SLOWER)


def test_more_calls_are_certain_after_three_pairs_whatever_the_times_are(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side(2 * NS, calls=2), 2)
    assert run.is_open
    run.add(run.side(), run.side(2 * NS, calls=2))
    assert not run.is_open
    assert (run.report().outcome, run.record().status) == ("failed", Status.MORE_CALLS)


def test_calls_that_a_pair_finds_at_the_revision_too_are_no_more(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side(calls=2), 2)
    run.add(run.side(calls=2), run.side(calls=2))
    assert run.record().status != Status.MORE_CALLS


DRAWN = "Add: 1..9 calls (main: 1); not judged, since it varies from process to process"


@pytest.mark.parametrize(
    ("again", "is_open", "status"),
    [
        ([(1, 2)], False, Status.MORE_CALLS),
        ([(1, 9)], True, Status.OK),  # sizes are drawn at random
        ([(2, 2)], True, Status.OK),
        ([], True, Status.MORE_CALLS),
    ],
)
def test_the_pair_that_looks_up_lines_confirms_the_same_extra_calls(
    pairs: Run, again: list[tuple[int, int]], is_open: bool, status: str
) -> None:
    run = pairs(source=ONE)
    run.add(run.side(rounds=1), run.side(rounds=1, calls=2))
    assert (run.is_open, run.found.asks_for_lines(run.described)) == (True, True)
    for before, now in again:
        run.found.locate([[run.described]], [run.side(calls=before, rounds=1), run.side(calls=now, rounds=1)])
    assert run.is_open is is_open
    if is_open and again:
        run.add(*(run.side(calls=calls, rounds=1) for calls in again[0]))
        run.add(run.side(rounds=1), run.side(rounds=1))
        assert not run.is_open
        assert run.record().each_remark == ([(run.test, DRAWN)] if again == [(1, 9)] else [])
    assert run.record().status == status


def test_of_parameters_with_the_same_change_one_is_confirmed_for_all(pairs: Run) -> None:
    run = pairs(source="import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_a(n): pass\n")
    tests = [side_test(TestRun.of(item)) for item in run.items]
    before, now = SideRun(), SideRun()
    for test, calls in zip(tests, (2, 2, 3, 1)):
        run.test = test.nodeid
        before.reports |= run.side(rounds=1).reports
        now.reports |= run.side(rounds=1, calls=calls).reports
    run.add(before, now)
    assert run.found.alike(tests) == [tests[:2], [tests[2]], [tests[3]]]
    run.test = tests[0].nodeid
    run.found.locate([tests[:2]], [run.side(rounds=1), run.side(rounds=1, calls=2)])
    assert [run.found.is_open(test) for test in tests] == [False, False, True, False]
    assert [run.found.asks_for_lines(test) for test in tests] == [False, False, True, False]


def test_a_changed_test_is_compared_as_it_is_now_on_both_sides(pairs: Run) -> None:
    run = pairs(source=ONE)
    test = run.described
    run.found = Found("main", run.config, changed={run.test: 3})
    run.add(run.side(rounds=1), run.side(rounds=1, calls=2))
    assert run.record().status == Status.MORE_CALLS
    assert run.found.add_todays([test], [run.side(rounds=1, calls=2), run.side(rounds=1, calls=2)], set()) == set()
    assert run.record().status == Status.OK
    assert [said for _, said in run.record().each_remark] == [
        "the file of the test changed (3 lines), so main ran it as it is now"
    ]
    assert not run.is_open


def test_reasons_for_compiling_again_that_the_base_lacks_come_first(pairs: Run) -> None:
    run = pairs(source=ONE)

    def side(*reasons: str) -> SideRun:
        known = window(NS, rounds=1)
        remarks = tuple(Remark(each, "compilations") for each in reasons)
        known = replace(known, numbers=structs.replace(known.numbers, remarks=remarks))
        return SideRun([run.test], {run.test: run.reports(known)})

    run.add(
        side("f (m.py:3) again", "g (m.py:9) again"), side("f (m.py:4) again", "h (m.py:6) again", "g (m.py:9) again")
    )
    assert [each.text for each in run.record().windows[0].remarks] == [
        "h (m.py:6) again",
        "f (m.py:4) again",
        "g (m.py:9) again",
    ]


def test_fewer_calls_of_python_functions_are_doubted_where_the_time_grew_by_half_a_millisecond(pairs: Run) -> None:
    run = pairs(source=ONE)

    def side(calls: int, ms: float) -> SideRun:
        numbers = WindowNumbers.of(BODY, profile_of([("Add", NS)]), python=PythonCalls(functions={"m.f": calls}))
        numbers = structs.replace(numbers, coarse=Coarse.of(*[[int(ms * 1e6)]] * 3))
        return SideRun([run.test], {run.test: run.reports(JudgedWindow(numbers))})

    for calls, ms, doubts in ((20, 2, True), (40, 2, False), (20, 1.2, False), (20, 90, False)):
        run.found = Found("main", run.config)
        run.add(side(40, 1), side(calls, ms))
        assert run.found.doubts(run.described) == doubts, (calls, ms)
        assert run.found.suspects(run.described) == (ms == 90)
    run.found = Found("main", run.config)
    run.add(side(40, 1), side(20, 2))
    for _ in range(3):
        run.found.add_coarse([run.test], [side(40, 1), side(20, 2)], "")
    assert run.record().status != Status.SLOWER
    run.found.coarse.doubted.add(run.test)
    assert run.record().status == Status.SLOWER


def later(calls: int, name: str = "Add", rounds: int = 1) -> JudgedWindow:
    """Return a window of one call, whose later run makes so many."""
    found = window(NS, rounds=rounds)
    return replace(found, repeat=({name: OpCounts(Range(calls))}, {}))


@pytest.mark.parametrize(
    ("calls", "now_ms", "status"), [(1163, 9, Status.OK), (900, 12, Status.OK), (900, 9, Status.IMPROVED)]
)
def test_a_few_calls_of_python_functions_less_are_no_improvement_nor_are_many_in_as_much_time(
    pairs: Run, calls: int, now_ms: int, status: Status
) -> None:
    run = pairs(source=ONE)
    run.add(*(took(run, ms, facts={"python_calls": (number,)}) for number, ms in ((1215, 12), (calls, now_ms))))
    assert run.record().status is status
    of_ops = pairs(source=ONE)
    of_ops.add(*(took(of_ops, 12, calls=adds, facts={"python_calls": (n,)}) for n, adds in ((1215, 9), (1163, 5))))
    assert of_ops.record().status is Status.IMPROVED


def test_a_test_that_does_more_only_when_run_again_is_compared_by_a_later_run(pairs: Run) -> None:
    run = pairs(source=ONE)
    test = run.described
    there, here = (SideRun([run.test], {run.test: run.reports(later(calls))}) for calls in (0, 1))
    run.add(there, here)
    assert run.found.does_more_later(test)
    assert run.record().status == Status.OK
    assert run.found.add_later([test], [run.side(rounds=1), run.side(rounds=1, calls=2)]) == {run.test}
    record = run.record()
    assert record.status == Status.MORE_CALLS
    assert record.windows[0].looked == "in a later run of the body, as if a cache were lost"
    assert not run.found.does_more_later(test)


def test_a_later_run_that_does_more_only_once_is_no_regression(pairs: Run) -> None:
    run = pairs(source=ONE)
    there, here = (SideRun([run.test], {run.test: run.reports(later(calls))}) for calls in (0, 1))
    run.add(there, here)
    assert run.found.add_later([run.described], [run.side(rounds=1), run.side(rounds=1)]) == set()
    record = run.record()
    assert record.status == Status.OK
    assert record.windows[0].counts["Add"].calls == Range(1)
    assert [said for _, said in record.each_remark] == [
        "in a later run of the body, as if a cache were lost, it did more than at the base once, and not again"
    ]


@pytest.mark.parametrize(
    ("there", "here", "status"),
    [
        ((326, 319), (319, 331), Status.OK),
        ((326, 326), (319, 319), Status.IMPROVED),
        ((326, 319), (20, 22), Status.IMPROVED),
    ],
)
def test_fewer_calls_that_another_run_makes_at_the_base_too_are_no_improvement(
    pairs: Run, there: tuple[int, int], here: tuple[int, int], status: Status
) -> None:
    """An unseeded test draws more in one run and less in the next."""
    run = pairs(source=ONE)

    def side(first: int, second: int) -> SideRun:
        found = replace(window(NS, first, 1), repeat=({"Add": OpCounts(Range(second))}, {}))
        return SideRun([run.test], {run.test: run.reports(found)})

    run.add(side(*there), side(*here))
    assert run.record().status == status


@pytest.mark.parametrize(
    ("there", "here"),
    [
        pytest.param(later(1), later(1), id="as much"),
        pytest.param(later(1), later(0), id="less"),
        pytest.param(window(NS, rounds=1), later(1), id="the base ran once"),
        pytest.param(later(0), window(NS, rounds=1), id="the working tree ran once"),
        pytest.param(later(0), replace(later(2), numbers=window(NS, 2, 1).numbers), id="its first run, too"),
    ],
)
def test_no_later_run_is_measured_where_it_decides_nothing(pairs: Run, there: JudgedWindow, here: JudgedWindow) -> None:
    run = pairs(source=ONE)
    run.add(*(SideRun([run.test], {run.test: run.reports(each)}) for each in (there, here)))
    assert not run.found.does_more_later(run.described)


@pytest.mark.parametrize("other_body", [True, False])
@pytest.mark.parametrize(
    ("outcome", "does"), [("failed", "fails"), ("skipped", "skips"), ("", "cannot import the file of")]
)
def test_a_changed_test_that_does_not_pass_as_it_is_now_is_compared_only_if_its_body_is_the_same(
    pairs: Run, outcome: str, does: str, other_body: bool
) -> None:
    run = pairs(source=ONE)
    run.add(run.side(rounds=1), run.side(rounds=1, calls=2))
    reports = {run.test: run.reports(outcome=outcome)} if outcome else {}
    pair = [SideRun([run.test], reports), run.side(rounds=1, calls=2)]
    bodies = {run.test} if other_body else set()
    assert run.found.add_todays([run.described], pair, bodies) == {run.test} - bodies
    if not other_body:
        assert run.record().status == Status.MORE_CALLS
        return
    said = f"nothing to compare with: main {does} the test as it is now, and the test changed"
    assert list(run.record().missing.values()) == [said]
    assert run.report().outcome == "passed"


def test_times_of_fewer_than_ten_rounds_need_no_further_pair(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(rounds=9), run.side(2 * NS, rounds=9))
    assert not run.is_open
    assert run.record().status == Status.OK


@pytest.mark.parametrize(("noise", "status"), [("warn", Status.TOO_NOISY), ("ignore", Status.SLOWER)])
def test_rounds_that_waited_are_no_evidence_unless_noise_is_ignored(pairs: Run, noise: str, status: str) -> None:
    run = pairs(f"--opprof-noise={noise}")
    run.add(run.side(), run.side(2 * NS, wait_ns=NS), 9)
    assert run.record().status == status


def test_a_test_without_windows_needs_no_further_pair(pairs: Run) -> None:
    run = pairs()
    run.add(SideRun([run.test], {run.test: run.reports()}), SideRun([run.test], {run.test: run.reports()}))
    assert not run.is_open


# --- what is reported


def test_a_failure_names_the_revision_the_op_and_the_place_of_the_test(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side(calls=2), 3)
    failure: Any = run.report().longrepr
    assert "Add: 2 calls (main: 1)" in str(failure)
    assert (Path(failure.reprcrash.path).suffix, failure.reprcrash.lineno) == (".py", run.item.location[1] + 1)
    assert "\n" not in failure.reprcrash.message
    assert "--opprof-update" not in str(failure)  # no baseline would keep it


def test_a_test_that_fails_in_the_working_tree_is_reported_as_it_is(pairs: Run) -> None:
    run = pairs()
    failed = run.reports(window(NS, calls=2), outcome="failed", longrepr="it broke")
    run.add(run.side(), SideRun([run.test], {run.test: failed}), 3)
    assert (run.report().outcome, run.report().longrepr) == ("failed", "it broke")


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (lambda run: SideRun(["test_b"]), "main does not have the test"),
        (lambda run: SideRun([], {}, {run.file: "no module"}), "main cannot import {file} (no module)"),
        (
            lambda run: SideRun(
                [run.test], {run.test: run.reports(outcome="skipped", longrepr=["test_a.py", 3, "Skipped: no GPU"])}
            ),
            "main skips it (Skipped: no GPU)",
        ),
        (
            lambda run: SideRun([run.test], {run.test: run.reports(outcome="failed", longrepr="> f()\nE   it broke")}),
            "main fails it (it broke)",
        ),
        (
            lambda run: SideRun([run.test], {run.test: run.reports(outcome="failed")}),
            "main fails it (it gives no reason)",
        ),
        (lambda run: run.side(name="other"), "main does not have the window"),
    ],
)
def test_what_the_revision_lacks_is_said_and_needs_no_further_pair(
    pairs: Run, before: Callable[[Pairs], SideRun], why: str
) -> None:
    run = pairs()
    run.add(before(run), run.side())
    assert not run.is_open
    assert (run.report().outcome, run.record().status) == ("passed", Status.NO_BASELINE)
    assert list(run.record().missing.values()) == [f"nothing to compare with: {why.format(file=run.file)}"]


def test_the_first_pair_is_reported_which_ran_every_test(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side())
    run.add(SideRun(), SideRun())  # no test was open any more
    assert run.report().outcome == "passed"


def test_a_pair_in_which_one_side_lost_the_window_does_not_count(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side(), 4)
    run.add(run.side(), run.side(name="other"))
    assert run.is_open
    run.add(run.side(), run.side())
    assert (run.is_open, run.record().status) == (False, Status.OK)


def test_each_window_is_compared_with_that_of_its_name(pairs: Run) -> None:
    run = pairs()
    both = [[window(NS, name="one"), window(3 * NS, name="two")], [window(3 * NS, name="two"), window(NS, name="one")]]
    run.add(*(SideRun([run.test], {run.test: run.reports(*windows)}) for windows in both), 5)
    assert (run.is_open, run.record().status) == (False, Status.OK)


def test_a_test_that_the_working_tree_did_not_run_is_an_error(pairs: Run) -> None:
    run = pairs()
    run.add(run.side(), run.side())
    run.found.check_complete([run.test])
    with pytest.raises(BackendError, match=r"did not run test_m.py::test_b, although it was collected$"):
        run.found.check_complete([run.test, "test_m.py::test_b"])


@pytest.mark.parametrize(
    ("arguments", "only_there"),
    [
        ([], ["test_m.py::test_old", "test_n.py::test_b"]),
        (["test_m.py"], ["test_m.py::test_old", "test_n.py::test_b"]),
        (["test_m.py::test_a"], ["test_n.py::test_b"]),  # of which nobody knows whether it has test_old
    ],
)
def test_tests_that_only_the_revision_has_are_known_of_whole_files(
    pairs: Run, arguments: Sequence[str], only_there: list[str]
) -> None:
    run = pairs(*arguments)
    run.add(SideRun(["test_n.py::test_b", "test_m.py::test_a", "test_m.py::test_old"]), SideRun(["test_m.py::test_a"]))
    assert run.found.only_there == only_there


@pytest.mark.parametrize(("install", "advice"), [("", "no-deps .'"), ("pip install --no-deps .", "no-deps -e .'")])
def test_an_installed_base_whose_tests_cannot_be_imported_is_to_be_installed_in_its_tree(
    pairs: Run, install: str, advice: str
) -> None:
    run = pairs()
    run.config.option.opprof_against_install = install
    there = SideRun(errors={run.file: "No module named 'm.testing'"})
    run.add(there, run.side())
    with pytest.raises(UsageError, match=r"No module named 'm\.testing'") as error:
        run.found.check_compared([run.test])
    assert str(error.value).endswith(advice)


# --- coarse times


MS = 1_000_000


def took(run: Pairs, cpu_ms: int, wall_ms: int = 0, rounds: int = 1, calls: int = 1, **known: Any) -> SideRun:
    """Return a side whose body took so long; *known*: more of its numbers."""
    made = window(NS, rounds=rounds, calls=calls)
    wall = max(wall_ms, cpu_ms) * MS
    coarse = Coarse((cpu_ms * MS,) * 2, (wall, wall))
    made = replace(made, numbers=structs.replace(made.numbers, coarse=coarse, **known))
    return SideRun([run.test], {run.test: run.reports(made)})


def calling(calls: int, lib: str = "1") -> PythonCalls:
    return PythonCalls(functions={"model.kind": calls}, own=("model.kind",), versions={"python": "3.12", "lib": lib})


@pytest.mark.parametrize(
    ("before", "now", "python", "said"),
    [
        (calling(31), calling(150_049), "", "`model.kind` is called 150,049 times (main: 31)"),
        (calling(150_000), calling(150_049), "", ""),  # too few to take that time
        (None, calling(150_049), "", ""),
        (calling(31), PythonCalls(uncounted="cProfile holds it"), "", ""),
        (calling(31, lib="0"), calling(150_049), "", ""),
        (calling(31, lib="0"), calling(150_049), "old/bin/python", "`model.kind` is called 150,049 times (main: 31)"),
    ],
)
def test_a_slow_test_names_the_functions_that_are_called_more_often_than_at_the_revision(
    pairs: Run, before: PythonCalls | None, now: PythonCalls, python: str, said: str
) -> None:
    run = pairs(source=ONE)
    run.found._settings = replace(run.found._settings, against_python=python)
    run.add(took(run, 12), took(run, 3900))
    confirmed(run, 3900, 3900, 3900)
    explained = {"cpu_time": "97% of the time is at model.py:2 in kind"}
    run.found.locate(
        [[run.described]], [took(run, 12, python=before), took(run, 3900, python=now, explained=explained)]
    )
    lines = explained["cpu_time"] + (f"; {said}" if said else "")
    assert f"\n    {lines}\n" in run.report().longreprtext


ONE = "import pytest\n@pytest.mark.opprof\ndef test_a(): pass\n"


def confirmed(run: Pairs, *after_ms: int, busy: str = "", wall_ms: int = 0) -> None:
    """Add pairs that measured a test of 12 ms again in one thread, until one finds it fast enough."""
    for cpu_ms in after_ms:
        run.found.add_coarse([run.test], [took(run, 12), took(run, cpu_ms, wall_ms)], busy)


def test_what_takes_longer_than_at_the_revision_in_three_more_pairs_fails(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900))
    assert run.found.suspects(run.described)
    confirmed(run, 3900, 3900, 3900)
    assert run.found.coarse.still_slower(run.test)
    report = run.report()
    assert (report.outcome, run.record().status) == ("failed", Status.SLOWER)
    assert "CPU time: 3.9 s (main: 12 ms), x325; ops unchanged" in report.longreprtext
    assert "(confirmed in 3 pairs of processes, in one thread)" in report.longreprtext
    assert [row.op for row in run.found.worse[run.test]] == ["cpu_time"]


def test_one_more_pair_finds_the_line_that_takes_the_time(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900))
    assert not run.found.asks_for_lines(run.described)
    confirmed(run, 3900, 3900, 3900)
    assert run.found.asks_for_lines(run.described)
    said = "97% of the time is at m.py:7 in total `ids.index(token)`"
    again = [took(run, 12), took(run, 3900, explained={"cpu_time": said, "wall_time": said})]
    run.found.locate([[run.described]], again)
    assert not run.found.asks_for_lines(run.described)
    assert f"\n    {said}\n" in run.report().longreprtext


@pytest.mark.parametrize(
    ("place", "told"),
    [("m.py:40", "self time of `shift` at m.py:154: 3.8 s (main: 5 ms)"), ("m.py:157", "97% of the time is at m.py:7")],
)
def test_a_line_outside_of_the_function_that_takes_longer_is_not_the_cause(pairs: Run, place: str, told: str) -> None:
    """An encoder of pypdf took a third of the time, then and now, beside the shift that became slower."""
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900))
    confirmed(run, 3900, 3900, 3900)
    before, now = (FunctionTime("m.py", "shift", 154, 160, ms * MS) for ms in (5, 3800))
    lines = {"cpu_time": "97% of the time is at m.py:7"}
    at = {"cpu_time": SourceLine.at(place)}
    slower = took(run, 3900, explained=lines, explained_at=at, functions=(now,))
    run.found.locate([[run.described]], [took(run, 12, functions=(before,)), slower])
    assert f"\n    {told}\n" in run.report().longreprtext


def test_of_lines_in_several_functions_those_in_the_function_that_takes_longer_follow_it(pairs: Run) -> None:
    """Werkzeug's parser: the line that calls the slow function stood before the one that takes the time."""
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900))
    confirmed(run, 3900, 3900, 3900)
    before, now = (FunctionTime("m.py", "shift", 154, 160, ms * MS) for ms in (5, 3800))
    inside = "50% of the time is at m.py:157 in shift `if a; b`"
    lines = {
        "cpu_time": f"76% of the time is below m.py:40 in f `shift(x); y`; {inside}; 21% of the time is at m.py:90"
    }
    slower = took(run, 3900, explained=lines, explained_at={"cpu_time": SourceLine.at("m.py:40")}, functions=(now,))
    run.found.locate([[run.described]], [took(run, 12, functions=(before,)), slower])
    report = run.report()
    assert f"    self time of `shift` at m.py:154: 3.8 s (main: 5 ms); {inside}\n" in report.longreprtext
    assert "m.py:40" not in report.longreprtext
    assert run.record().windows[0].findings[0].short.endswith(" at m.py:157")


@pytest.mark.processes
def test_a_changed_line_that_leads_to_the_function_that_takes_longer_stands_before_it(
    pairs: Run, pytester: pytest.Pytester
) -> None:
    code = pytester.makepyfile(m="def total():\n    return shift(1)\n")
    committed(pytester.path)
    run = pairs(source=ONE)
    code.write_text(code.read_text().replace("1", "2"))
    run.found = Found("main", run.config, changes=Changes(run.config.rootpath, "it", "HEAD"))
    run.add(took(run, 12), took(run, 3900))
    confirmed(run, 3900, 3900, 3900)
    before, now = (FunctionTime("m.py", "shift", 154, 160, ms * MS) for ms in (5, 3800))
    below = "97% of the time is below m.py:2"
    at = {"cpu_time": SourceLine.at("m.py:2")}
    slower = took(run, 3900, explained={"cpu_time": below}, explained_at=at, functions=(now,))
    run.found.locate([[run.described]], [took(run, 12, functions=(before,)), slower])
    told = f"{below}; self time of `shift` at m.py:154: 3.8 s (main: 5 ms)"
    assert f"\n    {told}\n" in run.report().longreprtext
    (finding, *_) = run.record().findings
    assert finding.short.endswith(" at m.py:2")


def test_a_window_that_the_revision_lacks_has_no_time_there(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900, calls=2))
    other = replace(window(NS, rounds=1), numbers=structs.replace(window(NS, rounds=1).numbers, name="new"))
    again = SideRun([run.test], {run.test: run.reports(other)})
    run.found.locate([[run.described]], [took(run, 12), again])
    assert "Add: 2 calls (main: 1)" in run.report().longreprtext


def test_lines_that_hold_as_much_memory_at_the_revision_do_not_explain_a_peak(pairs: Run) -> None:
    run = pairs(source=ONE)
    sides = [took(run, 12, facts={"host_memory": (mib * 2**20,)}) for mib in (19, 38)]
    run.add(*sides)
    assert run.found.takes_more_memory(run.described)
    data, drained = "19.1 MiB at test_a.py:6", "19.1 MiB at response.py:804"
    explained = [{"host_memory": data}, {"host_memory": f"{data}; {drained}"}]
    again = [
        took(run, 12, facts={"host_memory": (mib * 2**20,)}, explained=each, explained_at={"host_memory": at})
        for mib, each, at in zip((19, 38), explained, [SourceLine.at("test_a.py:6")] * 2)
    ]
    run.found.locate([[run.described]], again)
    text = run.report().longreprtext
    assert f"\n    {drained}\n" in text
    assert data not in text
    both = f"{data}; 18.2 MiB at response.py:804"  # sizes vary a little
    again[0] = took(run, 12, facts={"host_memory": (19 * 2**20,)}, explained={"host_memory": both})
    run.found.locate([[run.described]], again)
    text = run.report().longreprtext
    assert data not in text
    assert drained not in text
    moved = "19.1 MiB at response.py:797; 3.8 MiB at response.py:790"  # a line that was removed stood above
    again[0] = took(run, 12, facts={"host_memory": (19 * 2**20,)}, explained={"host_memory": f"{data}; {drained}"})
    again[1] = took(run, 12, facts={"host_memory": (38 * 2**20,)}, explained={"host_memory": f"{data}; {moved}"})
    run.found.locate([[run.described]], again)
    text = run.report().longreprtext
    assert "\n    3.8 MiB at response.py:790\n" in text
    assert "797" not in text


def test_a_cycle_that_keeps_more_than_at_the_revision_has_its_line_beside_a_line_that_holds_as_much(pairs: Run) -> None:
    run = pairs(source=ONE)
    facts = [{"host_memory": (mib * 2**20,)} for mib in (10, 20)]
    run.add(*(took(run, 12, facts=each) for each in facts))
    data = "9 MiB at test_a.py:6"
    cycle = "the cycle ValueError -> frame of f at app.py:15 keeps up to 9 MiB of objects until it ends"
    at = {"host_memory": SourceLine.at("app.py:15")}
    before = took(run, 12, facts=facts[0], explained={"host_memory": data})
    now = took(run, 12, facts=facts[1], explained={"host_memory": f"{cycle}; {data}"}, explained_at=at)
    run.found.locate([[run.described]], [before, now])
    assert f"\n    {cycle}\n" in run.report().longreprtext
    (finding, *_) = run.record().findings
    assert finding.short.endswith(" at app.py:15")


def test_a_commit_accepts_a_longer_time(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.found = Found("main", run.config, [parsed("cpu_time (a loop over tokens)", "a" * 40)])
    run.add(took(run, 12), took(run, 3900))
    confirmed(run, 3900, 3900, 3900)
    assert run.report().outcome == "passed"
    assert "cpu_time in 1 test" in next(run.found.acceptances())


@pytest.mark.parametrize("now_ms", [12, 26])
def test_what_takes_no_longer_needs_no_more_pairs(pairs: Run, now_ms: int) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, now_ms))
    assert not run.found.suspects(run.described)
    assert (run.report().outcome, run.record().status) == ("passed", Status.OK)


def test_one_more_pair_that_does_not_take_longer_lets_it_pass(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900))
    confirmed(run, 3900, 13)
    assert not run.found.coarse.still_slower(run.test)
    assert run.report().outcome == "passed"


def test_a_pair_that_does_not_measure_a_slow_test_lets_nothing_pass_in_silence(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900))
    run.found.add_coarse([run.test], [took(run, 12), SideRun([run.test], {})], "")
    assert not run.found.coarse.still_slower(run.test)
    assert (run.report().outcome, run.record().status) == ("passed", Status.TOO_NOISY)
    said = "it seemed slower, but a further pair of processes did not measure it"
    assert said in str(run.record())


@pytest.mark.parametrize(("was_recorded", "told"), [(True, True), (False, False)])
def test_time_without_recording_is_not_said_to_hold_it(pairs: Run, was_recorded: bool, told: bool) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 3900, calls=10**6))
    pair = [took(run, 12, ops={}), took(run, 3900, ops={})]
    for _ in range(3):
        run.found.add_coarse([run.test], [took(run, 12), took(run, 3900, calls=10**6)] if was_recorded else pair, "")
    text = run.report().longreprtext
    assert "CPU time: 3.9 s (main: 12 ms), x325" in text
    assert ("recording 1,000,000 calls of ops takes part of it" in text) is told


@pytest.mark.parametrize(("now_ms", "status"), [(12, Status.IMPROVED), (16, Status.OK)])
def test_fewer_calls_that_take_clearly_more_time_are_no_improvement(pairs: Run, now_ms: int, status: str) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12, calls=2), took(run, now_ms))
    assert (run.report().outcome, run.record().status) == ("passed", status)
    said = [text for _, text in run.record().each_remark]
    assert ("fewer calls, but CPU time: 16 ms (main: 12 ms), x1.33, in this process" in said) is (status == Status.OK)


@pytest.mark.parametrize(("accepted", "status"), [("", Status.MORE_CALLS), ("Add", Status.SLOWER)])
def test_accepting_more_calls_accepts_no_longer_time(pairs: Run, accepted: str, status: Status) -> None:
    run = pairs(source=ONE)
    run.found = Found("main", run.config, [parsed(accepted, "a" * 40)] if accepted else [])
    run.add(took(run, 12), took(run, 3900, calls=2), 3)
    assert run.found.suspects(run.described)
    confirmed(run, 3900, 3900, 3900)
    assert "CPU time: 3.9 s (main: 12 ms), x325" in run.report().longreprtext
    assert (run.report().outcome, run.record().status) == ("failed", status)
    worse = {row.op for row in run.found.worse[run.test]}
    assert (worse >= {"cpu_time"}, "Add" in worse) == (True, not accepted)


def test_wall_time_that_is_judged_round_by_round_is_not_judged_coarsely(pairs: Run) -> None:
    run = pairs()
    run.add(took(run, 12, rounds=10), took(run, 3900, rounds=10))
    assert run.found.suspects(run.described)  # the fake device's time is of its ops alone
    made = window(NS)
    judged = compare(({}, {}), ({}, {}), judge_pairs([(made.processes[0],) * 2] * 5), PAIRS)
    assert is_judged(judged)
    assert not is_judged(replace(judged, wall=True))


def test_a_wait_is_seen_where_nobody_else_uses_the_machine(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 12, 300))
    confirmed(run, 12, 12, 12, wall_ms=300)
    assert "wall time: 300 ms (main: 12 ms), x25" in run.report().longreprtext
    run = pairs(source=ONE)
    run.add(took(run, 12), took(run, 12, 300))
    confirmed(run, 12, 12, 12, wall_ms=300, busy="other processes used 1.9 of 2 cores")
    assert (run.report().outcome, run.record().status) == ("passed", Status.TOO_NOISY)


@pytest.mark.parametrize(("before", "outcome"), [(0, "failed"), (1, "passed")])
def test_on_a_busy_machine_a_body_that_sleeps_more_often_waits(pairs: Run, before: int, outcome: str) -> None:
    run = pairs(source=ONE)
    calls = [PythonCalls(functions={"m.test_a": 1, **({"time.sleep": each} if each else {})}) for each in (before, 1)]
    run.add(took(run, 12, python=calls[0]), took(run, 12, 300, python=calls[1]))
    confirmed(run, 12, 12, 12, wall_ms=300, busy="other processes used 1.9 of 2 cores")
    assert run.report().outcome == outcome


# --- slower by less than the limit of coarse times


def seeming(run: Pairs, test: SideTest | None = None) -> list[tuple[str, int]]:
    return [(each.nodeid, seems.ns) for each, seems in run.found.seem_slower([test or run.described])]


@pytest.mark.parametrize(
    ("before_ms", "now_ms", "seems", "few"),
    [
        (10, 12, False, 0),
        (10, 13, True, 0),
        (1000, 1100, False, 0),
        (10, 11, True, 1),
        (20, 21, False, 1),
        (13, 10, False, 1),
    ],
)
def test_a_test_that_takes_over_a_fifth_longer_in_the_first_pair_seems_slower_and_of_few_over_a_twentieth(
    pairs: Run, monkeypatch: pytest.MonkeyPatch, before_ms: int, now_ms: int, seems: bool, few: int
) -> None:
    monkeypatch.setattr(against_pairs, "FEW_TESTS", few)
    run = pairs(source=ONE)
    run.add(took(run, before_ms), took(run, now_ms))
    # A warm-up and 30 rounds on each side, in five pairs.
    assert seeming(run) == ([(run.test, (before_ms + now_ms) * 31 * 5 * MS)] if seems else [])


def test_a_body_of_more_than_20_ms_runs_in_fewer_rounds(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 15), took(run, 21))
    ((_, seems),) = run.found.seem_slower([run.described])
    assert (seems.rounds, seems.ns) == (10, 36 * 11 * 5 * MS)


def test_a_test_that_fails_or_judges_times_or_is_one_of_many_does_not_seem_slower(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10), took(run, 13))
    one = run.described
    assert seeming(run, one)
    assert not seeming(run, replace(one, may_judge_times=True))
    assert not seeming(run, replace(one, tolerances=replace(one.tolerances, is_of_many=True)))
    fails = pairs(source=ONE)
    fails.add(took(fails, 10), took(fails, 13, calls=2))
    assert not seeming(fails)


def test_the_test_that_grew_most_comes_first(pairs: Run) -> None:
    run = pairs(source=ONE + ONE.replace("test_a", "test_b"))
    there, here = took(run, 10), took(run, 14)
    other = run.items[1].nodeid
    for side, cpu_ms in ((there, 10), (here, 13)):
        side.reports[other] = took(run, cpu_ms).reports[run.test]
    run.add(there, here)
    a, b = (side_test(TestRun.of(item)) for item in run.items)
    assert [test for test, _ in run.found.seem_slower([b, a])] == [a, b]


def in_rounds(run: Pairs, *ratios: float, wait_ns: int = 0, rounds: int = 10, outcome: str = "passed") -> list[bool]:
    """Add pairs that ran a test in rounds; return whether each finds it slower, as the ones before."""
    answers = []
    for ratio in ratios:
        there, here = (
            SideRun([run.test], {run.test: run.reports(window(ns, rounds=rounds, wait_ns=wait_ns), outcome=outcome)})
            for ns in (NS, int(NS * ratio))
        )
        answers.append(bool(run.found.add_rounds([run.described], [there, here])))
    return answers


def test_a_test_that_five_pairs_find_slower_in_rounds_fails_with_its_op(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10), took(run, 13))
    assert run.report().outcome == "passed"
    assert in_rounds(run, 1.3, 1.2, 1.3, 1.4, 1.3) == [True] * 5
    report = run.report()
    assert (report.outcome, run.record().status) == ("failed", Status.SLOWER)
    assert "device time of Add: 100 us -> 130 us, +30% (20 to 40), limit 15%, in 5 pairs" in report.longreprtext


def test_the_calls_and_python_calls_of_a_test_that_is_slower_in_rounds_are_those_of_its_first_run(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10, python=calling(31)), took(run, 13, python=calling(31)))
    assert in_rounds(run, *[1.3] * 5) == [True] * 5
    (window_of_run,) = run.record().windows
    assert window_of_run.python is not None
    assert (window_of_run.rounds, {each.rounds for each in window_of_run.processes}) == (1, {1})
    assert window_of_run.times_judged


@pytest.mark.parametrize(
    ("ratios", "answers"),
    [
        ((1.03,), [False]),  # 40 % of 8 %
        ((1.06, 1.02), [True, False]),  # 60 %
        ((1.09, 1.02, 1.03), [True, True, False]),
        ((1.06, 1.06, 1.06, 1.05), [True, True, True, False]),  # 75 %
    ],
)
def test_pairs_that_find_a_test_too_little_slower_clear_it(
    pairs: Run, ratios: Sequence[float], answers: list[bool]
) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10), took(run, 13))
    assert in_rounds(run, *ratios) == answers
    assert run.report().outcome == "passed"


def test_five_pairs_that_find_a_test_less_than_8_percent_slower_clear_it(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10), took(run, 13))
    before = run.record()
    assert in_rounds(run, 1.07, 1.08, 1.07, 1.09, 1.07) == [True] * 4 + [False]
    assert (run.report().outcome, run.record().status) == ("passed", before.status)


@pytest.mark.parametrize("cannot", [{"rounds": 1}, {"outcome": "failed"}, {"outcome": "skipped"}])
def test_a_test_that_did_not_run_in_rounds_is_not_slower(pairs: Run, cannot: dict[str, Any]) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10), took(run, 13))
    assert in_rounds(run, 2, **cannot) == [False]
    assert not run.found.add_rounds([run.described], [SideRun(), run.side(2 * NS)])
    assert run.report().outcome == "passed"


def test_a_wider_tolerance_of_a_test_holds_in_rounds_too(pairs: Run) -> None:
    run = pairs(source="import pytest\n@pytest.mark.opprof(tolerance='50%')\ndef test_a(): pass\n")
    run.add(took(run, 10), took(run, 14))
    assert in_rounds(run, 1.19, 1.6) == [False, True]


def test_rounds_that_waited_for_a_cpu_decide_nothing(pairs: Run) -> None:
    run = pairs("--opprof-noise=warn", source=ONE)
    run.add(took(run, 10), took(run, 13))
    assert all(in_rounds(run, *[1.3] * 5, wait_ns=NS))
    report = run.report()
    assert (report.outcome, run.record().status) == ("passed", Status.TOO_NOISY)


def test_a_test_whose_coarse_time_a_commit_accepts_does_not_seem_slower(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.found = Found("main", run.config, [parsed("Opprof-Accept: cpu_time", "abc")])
    run.add(took(run, 12), took(run, 40))
    confirmed(run, 40, 40, 40)
    assert run.report().outcome == "passed"
    assert not seeming(run)


@pytest.mark.parametrize(
    ("now_ms", "said"), [(15, "CPU time: 15 ms (main: 10 ms), x1.5, in the first pair\n"), (12, ""), (50, "")]
)
def test_a_test_that_fails_for_its_calls_tells_what_time_they_cost(pairs: Run, now_ms: int, said: str) -> None:
    run = pairs(source=ONE)
    run.add(took(run, 10), took(run, now_ms, calls=2))
    confirmed(run, now_ms, now_ms, now_ms)
    report = run.report().longreprtext
    assert ("in the first pair" in report, said in report) == (bool(said), True)


def test_a_time_that_accepted_memory_does_not_explain_is_judged_once_that_is_accepted(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.add(*(took(run, ms, facts={"host_memory": (ms * 2**20,)}) for ms in (10, 20)))
    assert "x2, in the first pair; judged once the rest is accepted\n" in run.report().longreprtext


def test_a_commit_that_accepts_memory_accepts_no_time(pairs: Run) -> None:
    run = pairs(source=ONE)
    sides = [took(run, ms, facts={"host_memory": (ms * 2**20,)}) for ms in (10, 20)]
    run.add(*sides)
    assert not seeming(run), "it fails"
    run.found = Found("main", run.config, [parsed("Opprof-Accept: host_memory", "abc")])
    run.add(*sides)
    assert seeming(run)
    assert in_rounds(run, *[1.3] * 5) == [True] * 5
    report = run.report()
    assert (report.outcome, run.record().status) == ("failed", Status.SLOWER)
    assert "device time of Add: 100 us -> 130 us (+30%), limit 15%, in 5 pairs" in report.longreprtext
    assert "in the first pair" not in report.longreprtext


@pytest.mark.parametrize(("accepts", "status"), [(False, Status.MORE_MEMORY), (True, Status.SLOWER)])
def test_times_that_a_mark_asks_for_are_judged_beside_memory_that_a_commit_accepts(
    pairs: Run, accepts: bool, status: Status
) -> None:
    run = pairs()
    run.found = Found("main", run.config, [parsed("Opprof-Accept: host_memory", "abc")] if accepts else [])

    def side(ns: int, mib: int) -> SideRun:
        made = window(ns)
        made = replace(made, numbers=structs.replace(made.numbers, facts={"host_memory": (mib * 2**20,)}))
        return SideRun([run.test], {run.test: run.reports(made)})

    run.add(side(NS, 10), side(int(NS * 1.3), 20), pairs=9)
    assert run.record().status == status


@pytest.mark.parametrize(("calls", "seems"), [(2_000, False), (1_050, True)])
def test_python_calls_that_a_commit_accepts_may_take_as_many_times_as_long(pairs: Run, calls: int, seems: bool) -> None:
    run = pairs(source=ONE)
    run.found = Found("main", run.config, [parsed("Opprof-Accept: python_calls", "abc")])
    sides = [took(run, ms, python=calling(n), facts={"python_calls": (n,)}) for ms, n in ((10, 1_000), (13, calls))]
    run.add(*sides)
    assert bool(seeming(run)) is seems


def test_a_test_that_changed_seems_slower_only_if_both_sides_ran_it_as_it_is_now(pairs: Run) -> None:
    run = pairs(source=ONE)
    run.found = Found("main", run.config, changed={run.test: 1})
    run.add(took(run, 10), took(run, 13))
    assert run.found.seems_slower(run.described)
    assert not seeming(run)
    run.found.add_todays([run.described], [took(run, 10), took(run, 13)], {run.test})
    assert seeming(run)
