from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pytest_opprof.measure.plan import Settings
from pytest_opprof.profile.op_profile import Remark
from pytest_opprof.profile.site_calls import SourceLine
from pytest_opprof.pytest_plugin.options import settings_of
from pytest_opprof.report.summary import Summary
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.run_result import Stale
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import GrownLine, WindowNumbers
from pytest_opprof.verdict.verdicts import Status

from ..conftest import profile_of
from .made_runs import record_of


@pytest.fixture
def settings(pytester: pytest.Pytester) -> Settings:
    return settings_of(pytester.parseconfig())


def record(name: str = "a", status: Status = Status.OK, **known: Any) -> TestRecord:
    return TestRecord(id=f"t.py::{name}", status=status, outcome="passed", **known)


def summary(*records: TestRecord, **known: Any) -> Summary:
    return Summary({each.id: each for each in records}, **known)


def test_the_last_line_counts_the_worst_first(settings: Settings) -> None:
    found = summary(record("a"), record("b", Status.SLOWER), record("c", Status.OVER_BUDGET), record("d"))
    assert list(found.told(settings, 0)) == ["opprof: 4 tests measured, 2 ok, 1 over budget, 1 slower"]


@pytest.mark.parametrize(
    ("judged", "said"),
    [([False, None], ", no times judged"), ([False, True], ""), ([None], ""), ([True], "")],
)
def test_that_no_time_was_judged_is_said_where_one_could_have_been(
    settings: Settings, judged: list[bool | None], said: str
) -> None:
    numbers = WindowNumbers.of("body", profile_of([("Add", 5)]))
    plain = JudgedWindow(numbers).result("CPU", parallel=False, compared=True)
    windows = [structs.replace(plain, times_judged=each) for each in judged]
    assert list(summary(record(windows=windows)).told(settings, 0)) == [f"opprof: 1 test measured, 1 ok{said}"]


@pytest.mark.parametrize(
    ("known", "everything", "said"),
    [
        ({}, False, "no test has an op_budget or opprof mark"),
        ({"ran": True}, False, "no test has an op_budget or opprof mark"),
        ({"marked": True}, False, "nothing was measured: no test ran"),
        ({"ran": True, "marked": True}, False, "no test that is to be measured ran to its end"),
        ({"ran": True, "marked": True}, True, "no test that is to be measured ran to its end"),
        ({}, True, "no test has an op_budget or opprof mark"),
        ({"is_cut": True}, False, "interrupted before a test was judged"),
    ],
)
def test_that_nothing_was_measured_is_said_with_the_cause(
    settings: Settings, known: dict[str, bool], everything: bool, said: str
) -> None:
    (line,) = summary(**known).told(replace(settings, everything=everything), 0)
    assert said in line


def test_what_a_test_says_is_left_out_with_q_but_counted_and_errors_never_are(settings: Settings) -> None:
    said = {"t.py::a": ["it was cold"]}
    found = summary(record(remarks=said, missing={"t.py::a": Status.NO_BASELINE}), errors=["it broke"])
    told = "\n".join(found.told(settings, 0))
    assert "it was cold" in told
    assert "record them: pytest --opprof-update-new (-vv shows the ops of each test)" in told
    for verbosity in (-1, -2):
        assert list(found.told(settings, verbosity)) == [
            "opprof: error: it broke",
            "opprof: 1 test measured, 1 ok, remarks on 1 test (shown without -q), 1 error",
        ]


def test_times_that_were_not_judged_are_said_with_q_and_not_with_qq(settings: Settings) -> None:
    found = summary(record(untimed={"t.py::a": "times not judged, too few"}))
    assert "times not judged, too few: t.py::a" in list(found.told(settings, -1))
    assert len(list(found.told(settings, -2))) == 1


def test_a_baseline_that_cannot_be_read_needs_no_recording(settings: Settings) -> None:
    broken = record(missing={"t.py::a": "its baseline file cannot be used"}, unreadable=["t.py::a"])
    assert not [line for line in summary(broken).told(settings, 0) if "record them" in line]
    other = record("b", missing={"t.py::b": "no baseline for fake"})
    assert [line for line in summary(broken, other).told(settings, 0) if "record them" in line]


@pytest.mark.parametrize(("verbosity", "said"), [(0, " a, b, c and 2 more"), (1, "\n  a\n  b\n  c\n  d\n  e")])
def test_what_holds_for_several_is_said_once(settings: Settings, verbosity: int, said: str) -> None:
    records = [record(name, missing={name: "no baseline for fake"}) for name in "abcde"]
    assert f"no baseline for fake:{said}\n" in "\n".join(summary(*records).told(settings, verbosity))


def test_what_a_backend_says_of_several_tests_is_said_once(settings: Settings) -> None:
    numbers = JudgedWindow(WindowNumbers.of("body", profile_of([("Add", 5)]))).result("CPU", True, True)
    records = [
        record(
            name,
            windows=[structs.replace(numbers, remarks=tuple(map(Remark, said)))],
            remarks={f"t.py::{name}": [*said]},
        )
        for name, said in {"a": ("at its cap", "alone"), "b": ("at its cap",), "c": ("at its cap",)}.items()
    ]
    assert list(summary(*records).told(settings, 0))[:-1] == [
        "t.py::a: alone",
        "at its cap: t.py::a, t.py::b, t.py::c",
    ]


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (Status.IMPROVED, "keep what became cheaper: pytest t.py::a --opprof-update"),
        (Status.TOO_NOISY, "for a verdict in spite of noise, let two versions take turns: pytest --opprof-against=REV"),
    ],
)
def test_what_to_do_next_is_said_but_not_of_a_revision(settings: Settings, status: Status, advice: str) -> None:
    found = summary(record(status=status))
    assert advice in list(found.told(settings, 0))
    assert advice not in list(found.told(replace(settings, against="main"), 0))


@pytest.mark.parametrize(
    ("better", "fails", "command"),
    [
        (2, True, "keep what became cheaper: pytest t.py::0 t.py::1 --opprof-update"),
        (6, False, "keep what became cheaper: pytest --opprof-update"),
        (6, True, "keep what became cheaper, once no test fails: pytest --opprof-update"),
    ],
)
def test_keeping_what_became_cheaper_accepts_no_test_that_fails(
    settings: Settings, better: int, fails: bool, command: str
) -> None:
    records = [record(f"{number}", Status.IMPROVED) for number in range(better)]
    other = record_of("t.py::other", {"Cast": 1}, {"Cast": 2 if fails else 1})
    assert command in list(summary(*records, other).told(settings, 0))


def test_an_update_that_keeps_what_became_cheaper_does_not_ask_for_one(settings: Settings) -> None:
    told = list(summary(record(status=Status.IMPROVED)).told(replace(settings, update="all"), 0))
    assert told == ["opprof: 1 test measured, 0 ok, 1 improved"]


@pytest.mark.parametrize(("verbosity", "strict", "is_said"), [(0, False, True), (-1, False, False), (-1, True, True)])
def test_stale_baselines_are_said_with_q_only_where_they_fail_the_run(
    settings: Settings, verbosity: int, strict: bool, is_said: bool
) -> None:
    gone = Stale("test_a", file="b/test_m.py.json")
    told = list(summary(record(), stale=[gone]).told(replace(settings, strict=strict), verbosity))
    assert ("  b/test_m.py.json: test_a" in told) is is_said


def test_the_tables_of_a_test_stand_below_its_name(settings: Settings) -> None:
    told = list(summary(record(table=["op  calls", "Add     1"])).told(settings, 2))
    assert told[:4] == ["", "t.py::a", "op  calls", "Add     1"]


def test_what_many_tests_fail_for_is_said_by_op(settings: Settings) -> None:
    tests = [record_of(f"t.py::test[{n}]", {"Cast": 1, "Add": 1}, {"Cast": 3, "Add": 1}, Add=0) for n in range(3)]
    grown = {"Cast": (GrownLine(SourceLine("m.py", 9, "forward", "x.half()"), 2, is_new=True),)}
    for test in tests[1:]:
        test.windows = [structs.replace(window, grown=grown) for window in test.windows]
    other = record_of("t.py::other", {"Mul": 2}, {"Mul": 3})
    *told, last = summary(*tests, other).told(settings, 0)
    assert [line for line in told if not line.startswith("times")] == [
        "4 failing tests, by cause:",
        "  Cast in 3 tests: +6 calls, most from m.py:9 in forward",
        "  Add in 3 tests: over budget",
        "  Mul in 1 test: +1 call",
    ]
    assert last.startswith("opprof: 4 tests measured, 0 ok")
    assert not any("by cause" in line for line in summary(*tests[:2]).told(settings, 0))
    assert not any("by cause" in line for line in summary(*tests).told(settings, -1))


def test_ops_of_one_line_are_one_cause_however_many_tests_it_fails(settings: Settings) -> None:
    line = SourceLine("m.py", 9, "forward", "rank(x)")
    ops = ("Equal", "Item", "Where")
    tests = [record_of(f"t.py::test[{n}]", dict.fromkeys(ops, 1), dict.fromkeys(ops, 1 + n)) for n in range(1, 4)]
    for test in tests:
        (window,) = test.windows
        first = structs.replace(window.findings[0], text="3 ops", ops=ops, line=line)
        below = [structs.replace(each, short="") for each in window.findings]
        test.windows = [structs.replace(window, findings=(first, *below))]
    told = list(summary(*tests).told(settings, 0))
    assert told[told.index("3 failing tests, by cause:") + 1 :][:-1] == [
        "  Equal and 2 more ops in 3 tests: +18 calls, from m.py:9 in forward"
    ]


def test_an_op_from_two_lines_is_two_causes_and_one_where_each_test_has_its_own_line(settings: Settings) -> None:
    def told(*lines: int) -> list[str]:
        tests = [record_of(f"t.py::test[{n}]", {"Cast": 1}, {"Cast": 2, "Neg": n}) for n in range(len(lines))]
        for test, number in zip(tests, lines):
            (window,) = test.windows
            at = SourceLine("m.py", number, "forward", "x.half()")
            found = [structs.replace(each, line=at) for each in window.findings if each.op == "Cast"]
            grown = {"Cast": (GrownLine(at, 1, is_new=True),)}
            test.windows = [structs.replace(window, findings=tuple(found), grown=grown)]
        said = list(summary(*tests).told(settings, 0))
        return [line.strip() for line in said[said.index(f"{len(lines)} failing tests, by cause:") + 1 : -1]]

    assert told(9, 9, 9, 20, 20) == [
        "Cast in 3 tests: +3 calls, from m.py:9 in forward",
        "Cast in 2 tests: +2 calls, from m.py:20 in forward",
    ]
    assert told(1, 2, 3) == ["Cast in 3 tests: +3 calls, most from m.py:1 in forward"]


@pytest.mark.parametrize(("verbosity", "shown"), [(0, 3), (1, 5)])
def test_of_remarks_that_differ_in_their_numbers_alone_a_few_are_shown(
    settings: Settings, verbosity: int, shown: int
) -> None:
    said = [f"CPU time: {number} ms (baseline: 1.2 s), x{number}.5, the first time" for number in range(1, 6)]
    records = [record(name, remarks={f"t.py::{name}": [text]}) for name, text in zip("abcde", said)]
    records += [record("f", remarks={"t.py::f": ["nothing was counted"]})]
    records += [record(name, remarks={f"t.py::{name}": [f"float{name} of conv1d"]}) for name in ("8", "16", "32", "64")]
    lines = [*summary(*records).told(settings, verbosity)][:-1]
    assert lines[:shown] == [f"t.py::{name}: {text}" for name, text in zip("abcde", said[:shown])]
    more = ["... and 2 more remarks like the ones above, with other numbers (-v shows all)"]
    others = [f"t.py::{name}: float{name} of conv1d" for name in ("8", "16", "32", "64")]
    assert lines[shown:] == ["t.py::f: nothing was counted", *others, *(more if shown == 3 else [])]
