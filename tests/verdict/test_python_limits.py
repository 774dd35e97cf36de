"""Limits on calls of Python functions, and what is judged of them."""

from __future__ import annotations

import json
import os.path
from dataclasses import replace

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.profile.range import Range
from pytest_opprof.python_calls.counted import PythonCalls
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.python_limits import counted_as
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

from ..conftest import profile_of

PROFILE = profile_of([("Add", 5)])
COUNTED = PythonCalls(functions={"json.loads": 3, "pandas.core.f": 2, "pandas.g": 1}, loops={"m.f": 7}, collections=1)


def broken(python: PythonCalls | None = COUNTED, **limits: object) -> list[str]:
    ops = limits.pop("ops", {})
    return [str(finding) for finding in Budget.parse([ops], limits).check(PROFILE, python=python)]


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        ({"python:json.loads": 3}, []),
        ({"python:json.loads": 2}, ["python:json.loads: 3 calls (budget: 2)"]),
        ({"python:json.loads": "4.."}, ["python:json.loads: 3 calls (budget: 4..)"]),
        ({"python:pandas.*": 2}, ["python:pandas.*: 3 calls (budget: 2)"]),
    ],
)
def test_a_function_or_those_that_a_glob_matches_have_a_limit(ops: dict[str, object], said: list[str]) -> None:
    assert broken(ops=ops) == said


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"python_calls": "5k"}, []),
        ({"python_calls": 5}, ["calls of Python functions: 6 (budget: 5)"]),
        ({"loop_iterations": 6}, ["loop iterations: 7 (budget: 6)"]),
        ({"collections": 0}, ["full garbage collections: 1 (budget: 0)"]),
    ],
)
def test_all_calls_together_have_a_limit(limits: dict[str, object], said: list[str]) -> None:
    assert broken(**limits) == said


@pytest.mark.parametrize(("written", "calls"), [("5k", 5000), ("1.5k", 1500), ("2M", 2_000_000)])
def test_thousands_and_millions_are_written_short(written: str, calls: int) -> None:
    (limit,) = Budget.parse([], {"python_calls": written}).window["python_calls"]
    assert limit.most == calls


@pytest.mark.parametrize("ops", [{"python:": 1}, {"python:json.loads": "5 ms"}, {"python:json.loads": -1}])
def test_a_limit_that_means_nothing_is_an_error(ops: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="python:"):
        Budget.parse([ops], {})


def test_a_budget_with_a_function_turns_counting_on_and_one_without_does_not() -> None:
    assert Budget.parse([{"python:json.loads": 1}], {}).needs("python")
    assert Budget.parse([], {"collections": 0}).needs("python")
    assert not Budget.parse([{"Cast": 1}], {}).needs("python")


@pytest.mark.parametrize("python", [None, PythonCalls(uncounted="the body cannot run twice")])
def test_what_was_not_counted_cannot_be_limited(python: PythonCalls | None) -> None:
    with pytest.raises(UsageError, match="cannot be checked: "):
        broken(python, python_calls=5)
    with pytest.raises(UsageError, match="cannot be checked: "):
        broken(python, ops={"python:json.loads": 5})


def test_loops_have_no_limit_where_python_does_not_tell_of_them() -> None:
    with pytest.raises(UsageError, match=r"needs Python 3\.12 or newer"):
        broken(PythonCalls(functions={"m.f": 1}), loop_iterations=5)


def test_a_function_means_what_counts_under_another_name() -> None:
    path_join = f"{os.path.__name__}.join"
    assert counted_as("os.path.join", PythonCalls(functions={path_join: 2})) == {path_join}
    assert counted_as("json.dumps", PythonCalls()) == {json.dumps.__module__ + ".dumps"}
    assert counted_as("json.dmps", PythonCalls()) == set()
    assert counted_as("no_such_package.f", PythonCalls()) == set()
    assert counted_as("json.loads", PythonCalls(functions={"json.loads": 3, "json.dumps": 1})) == {"json.loads"}
    assert counted_as("made.f", PythonCalls(functions={"made.f": 1})) == {"made.f"}  # of a module that is gone


def test_a_glob_means_the_functions_that_ran_or_else_an_installed_package() -> None:
    counted = PythonCalls(functions={"json.loads": 3, "json.dumps": 1, "made.f": 1})
    assert counted_as("json.*", counted) == {"json.loads", "json.dumps"}
    assert counted_as("json.d*", counted) == {"json.dumps"}
    assert counted_as("csv.*", counted) == {"csv.*"}
    assert counted_as("no_such_package.*", counted) == set()


def test_a_function_that_did_not_run_is_within_its_limit_if_it_is_known() -> None:
    assert broken(ops={"python:json.dumps": 5}) == []
    assert broken(ops={"python:csv.*": 5}) == []
    assert broken(ops={"python:json.dumps": "1.."}) == ["python:json.dumps: 0 calls (budget: 1..)"]
    for limit in (0, 5):
        with pytest.raises(UsageError, match=r"unknown function 'python:no_such_package\.f': .* has it\.$"):
            broken(ops={"python:no_such_package.f": limit})
    with pytest.raises(UsageError, match=r"did you mean 'json\.loads'\?"):
        broken(ops={"python:json.laods": 5})


def test_what_cannot_be_checked_names_the_limit() -> None:
    with pytest.raises(UsageError, match=r"limit on calls of Python functions \(7\) .*: only a test that runs counts"):
        broken(None, python_calls=7)
    with pytest.raises(UsageError, match=r"limit on calls of python:json\.loads \(7\) .*: the body cannot run twice"):
        broken(PythonCalls(uncounted="the body cannot run twice"), ops={"python:json.loads": 7})


def verdicts(base: dict[str, int], now: dict[str, int]) -> dict[str, Verdict]:
    before, after = ({name: Range(each, each) for name, each in side.items()} for side in (base, now))
    diff = compare(({}, before), ({}, after), TimingVerdict(Verdict.OK), STORED)
    return {row.op: row.verdict for row in diff.rows if row.verdict is not Verdict.OK}


@pytest.mark.parametrize(
    ("base", "now", "found"),
    [
        (100, 110, {}),
        (100, 111, {"python_calls": Verdict.ABOVE}),
        (10_000, 10_100, {}),
        (10_000, 10_101, {"python_calls": Verdict.ABOVE}),
        (10_000, 9_000, {"python_calls": Verdict.BELOW}),
        (10_000, 9_001, {}),
    ],
)
def test_more_than_one_percent_and_ten_calls_are_more(base: int, now: int, found: dict[str, Verdict]) -> None:
    assert verdicts({"python_calls": base}, {"python_calls": now}) == found


@pytest.mark.parametrize(
    ("calls", "of_many", "doubted"), [(9_500, False, True), (9_500, True, False), (10_101, False, False)]
)
def test_little_fewer_calls_are_no_improvement_but_a_longer_time_beside_them_counts(
    calls: int, of_many: bool, doubted: bool
) -> None:
    tolerances = replace(STORED, is_of_many=of_many)
    before, after = {"python_calls": Range(10_000)}, {"python_calls": Range(calls)}
    diff = compare(({}, before), ({}, after), TimingVerdict(Verdict.OK), tolerances)
    assert (diff.does_less, diff.only_calls_less) == ([], doubted)


def test_one_full_collection_more_is_more() -> None:
    assert verdicts({"collections": 0}, {"collections": 1}) == {"collections": Verdict.ABOVE}


def test_rounds_of_loops_are_more_only_beyond_the_calls_that_are_in_them() -> None:
    base = {"python_calls": 100_005, "loop_iterations": 0}
    assert verdicts(base, {"python_calls": 100_004, "loop_iterations": 100_000}) == {}  # [f(x) for x in xs] for map
    assert verdicts(base, {"python_calls": 5, "loop_iterations": 100_000}) == {"python_calls": Verdict.BELOW}
    slow = {"python_calls": 26_399, "loop_iterations": 20_000}  # 400 calls saved by a loop over a whole table
    assert verdicts({"python_calls": 26_799, "loop_iterations": 1_855}, slow) == {"loop_iterations": Verdict.ABOVE}
    few = {"python_calls": 5, "loop_iterations": 0}
    assert verdicts(few, {"python_calls": 5, "loop_iterations": 500}) == {"loop_iterations": Verdict.ABOVE}
