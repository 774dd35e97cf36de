from __future__ import annotations

import random
from pathlib import Path

import msgspec
from msgspec import structs

from pytest_opprof.profile.site_calls import SiteCalls, SourceLine
from pytest_opprof.results.causes import CauseLine
from pytest_opprof.results.plain import as_json
from pytest_opprof.results.run_result import RunResult, run_of_document
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import GrownLine
from pytest_opprof.verdict.findings import Finding

from ..report.made_runs import record_of, run

CAST = ({"Cast": 1, "Add": 2}, {"Cast": 3, "Add": 2})
LINE, OTHER = (SourceLine("m.py", number, "forward", text) for number, text in ((9, "x.half()"), (20, "y.half()")))


def at(line: SourceLine, test: TestRecord, *ops: str) -> TestRecord:
    """Return *test* whose findings, joined if there are several, come from *line*."""
    (window,) = test.windows
    found = [structs.replace(each, line=line, ops=ops) for each in window.findings][: 1 if ops else None]
    grown = {op: (GrownLine(line, 1, is_new=True),) for op in ops or [each.op or "" for each in found]}
    test.windows = [structs.replace(window, findings=tuple(found), grown=grown)]
    return test


def told(found: RunResult) -> list[tuple[str, int, int]]:
    """Return each cause with its number of tests and calls."""
    return [(cause.title, len(cause.tests), cause.calls) for cause in found.causes]


def test_a_change_that_a_budget_and_a_baseline_find_is_counted_once() -> None:
    (cast,) = run(record_of("t.py::a", *CAST, Cast=1)).causes
    assert (cast.changes, cast.calls, cast.tests) == (("over budget", "more calls"), 2, ("t.py::a",))


def test_the_windows_inside_a_body_are_not_counted_again() -> None:
    (cast,) = run(record_of("t.py::a", *CAST, windows=("prefill", "body", "decode"))).causes
    assert cast.calls == 2
    (cast,) = run(record_of("t.py::a", *CAST, windows=("prefill", "decode"))).causes
    assert cast.calls == 4


def test_a_broken_limit_of_the_window_is_named() -> None:
    test = record_of("t.py::a", None, {"Cast": 3}, calls=2, device_time="1 ns", top=["Add"])
    assert [cause.title for cause in run(test).causes] == ["(calls of all ops)", "(device time)", "(whole window)"]


def test_a_change_that_is_expected_to_fail_is_no_cause() -> None:
    test = record_of("t.py::a", *CAST)
    test.outcome = "skipped"  # xfail
    assert run(test).causes == []


def test_the_order_follows_from_tests_calls_and_names_not_from_time_or_the_order_of_the_run() -> None:
    tests = [record_of(f"t.py::cast[{n}]", {"Cast": 1}, {"Cast": 2}) for n in range(3)]
    tests += [record_of("t.py::mul", {"Mul": 1}, {"Mul": 9}), record_of("t.py::add", {"Add": 1}, {"Add": 9})]
    tests += [record_of("t.py::sub", {"Sub": 9}, {"Sub": 1})]
    expected = [("Cast", 3, 3), ("Add", 1, 8), ("Mul", 1, 8), ("Sub", 1, -8)]
    for seed in range(5):
        shuffled = random.Random(seed).sample(tests, len(tests))
        for number, test in enumerate(shuffled):
            times = [structs.replace(row, base_ns=1, now_ns=10**number) for row in test.windows[0].rows]
            test.windows = [structs.replace(test.windows[0], rows=tuple(times), rounds=10)]
        assert told(run(*shuffled)) == expected


def test_failing_tests_follow_their_causes_and_the_one_with_the_most_calls_comes_first() -> None:
    rare = record_of("t.py::rare", {"Mul": 1}, {"Mul": 9})
    # One with more casts makes fewer calls in all.
    often = [
        record_of(f"t.py::often[{n}]", {"Cast": 1, "Add": 9}, {"Cast": 1 + n, "Add": 9 - 2 * n}) for n in (1, 3, 2)
    ]
    names = [test.id for test in run(rare, record_of("t.py::ok", *[{"Add": 1}] * 2), *often).failing]
    assert names == ["t.py::often[3]", "t.py::often[2]", "t.py::often[1]", "t.py::rare"]


def test_ops_of_one_line_are_one_cause_and_an_op_of_two_lines_is_two() -> None:
    tests = [at(LINE, record_of(f"t.py::a[{n}]", {"Cast": 1}, {"Cast": 2})) for n in range(3)]
    tests += [at(OTHER, record_of(f"t.py::b[{n}]", {"Cast": 1}, {"Cast": 2})) for n in range(2)]
    tests += [at(LINE, record_of("t.py::c", {"Mul": 1}, {"Mul": 2, "Cast": 4}), "Cast", "Mul")]
    first, second = run(*tests).causes
    assert (first.title, len(first.tests), first.others) == ("Cast and 1 more op", 4, ("Mul",))
    assert (first.lines, first.has_one_line) == ((CauseLine(LINE, 4),), True)
    assert (second.title, second.lines) == ("Cast", (CauseLine(OTHER, 2),))


def test_a_consequence_is_no_cause() -> None:
    test = record_of("t.py::a", *CAST)
    (window,), (cast,) = test.windows, test.findings
    below = Finding("more recorded for backward", "grad_nodes", "  ops recorded for backward: 2 (baseline: 1)")
    test.windows = [structs.replace(window, findings=(cast, below))]
    found = run(test)
    assert told(found) == [("Cast", 1, 2)]
    assert found.causes[0].changes == ("more calls", "more recorded for backward")


def test_causes_are_written_and_those_that_are_read_follow_from_the_tests() -> None:
    found = run(at(LINE, record_of("t.py::a", *CAST)))
    document = msgspec.json.decode(msgspec.json.encode(found, enc_hook=as_json))
    assert document["causes"] == [
        {
            "op": "Cast",
            "is_worse": True,
            "changes": ["more calls"],
            "tests": ["t.py::a"],
            "calls": 2,
            "lines": [{"line": msgspec.to_builtins(LINE), "tests": 1}],
        }
    ]
    edited = {**document, "causes": [{**document["causes"][0], "tests": ["t.py::gone"]}]}
    for each in (document, edited, {key: value for key, value in document.items() if key != "causes"}):
        assert run_of_document(each, Path("run.json")).causes == found.causes


def test_the_lines_of_ops_that_share_one_stand_together() -> None:
    test = at(LINE, record_of("t.py::a", {"Neg": 1}, {"Neg": 1, "Cast": 1, "Mul": 1, "Add": 1}), "Add", "Cast", "Mul")
    (lines,) = test.windows[0].lines_of_causes
    assert (lines.title, lines.question) == ("Add and 2 more ops", "Where Add and 2 more ops come from")
    assert lines.grown == [(LINE, "Add +1, Cast +1, Mul +1", True)]


def test_the_lines_of_a_memory_peak_are_those_of_the_memory_in_use_with_its_bytes() -> None:
    test = record_of("t.py::a", *CAST)
    (window,) = test.windows
    peak = Finding("more memory", "peak_memory", "peak memory: 2 MiB (baseline: 1 MiB)", "peak memory")
    small, big = SiteCalls(4, (LINE,), bytes=2**10), SiteCalls(1, (LINE,), bytes=2**21)
    sites = {"allocations": (SiteCalls(9, (LINE,)),), "peak_memory": (small, big)}
    (lines,) = structs.replace(window, findings=(peak,), sites=sites).lines_of_causes
    assert (lines.question, lines.others) == ("Where peak memory comes from", [big, small])
    assert lines.said(big) == "2 MiB"
