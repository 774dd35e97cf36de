"""The plans of real items."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.measure.plan import TestPlan
from pytest_opprof.pytest_plugin.test_run import TestRun
from pytest_opprof.verdict.tolerances import STORED

from ..conftest import profile_of

Planned = Callable[..., TestPlan]


@pytest.fixture
def item(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.Item]:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def made(marks: str, ini: str = "", body: str = "def test_a(): pass", module: str = "") -> pytest.Item:
        pytester.makeini(f"[pytest]\naddopts = -p opprof\n{ini}\n")
        lines = "".join(f"@pytest.mark.{mark}\n" for mark in filter(None, marks.split("; ")))
        source = f"import pytest, unittest\n{f'pytestmark = pytest.mark.{module}' if module else ''}\n{lines}{body}\n"
        return pytester.getitems(source)[0]

    return made


@pytest.fixture
def planned(item: Callable[..., pytest.Item]) -> Planned:
    return lambda *arguments, **known: TestRun.of(item(*arguments, **known)).plan


def test_a_test_without_a_mark_is_not_measured_unless_all_are(planned: Planned) -> None:
    assert not planned("").measured


def test_with_all_a_test_without_a_mark_is_measured_and_not_marked(planned: Planned) -> None:
    plan = planned("", ini="opprof_all = true")
    assert (plan.measured, plan.marked, plan.rounds, plan.warmup) == (True, False, 1, 0)


def test_a_test_that_is_left_out_has_no_limit_either(planned: Planned) -> None:
    plan = planned("opprof(False)", ini="opprof_all = true", module="op_budget(Add=1)")
    assert (plan.measured, plan.marked, plan.baseline, bool(plan.budget)) == (False, False, False, False)


@pytest.mark.parametrize(("rounds", "warmup"), [(1, 0), (2, 1), (9, 1), (10, 5), (30, 5)])
def test_rounds_that_are_judged_have_a_longer_warmup(planned: Planned, rounds: int, warmup: int) -> None:
    plan = planned(f"opprof(rounds={rounds})")
    assert (plan.rounds, plan.warmup) == (rounds, warmup)


def test_the_nearest_mark_wins_keyword_by_keyword(planned: Planned) -> None:
    plan = planned("opprof(rounds=20)", module="opprof(rounds=10, warmup=2, threads='all')", ini="opprof_threads = 3")
    assert (plan.rounds, plan.warmup, plan.threads) == (20, 2, 0)


def test_a_mark_of_a_parameter_is_nearer_than_that_of_its_function(planned: Planned) -> None:
    marks = "parametrize('x', [pytest.param(1, marks=pytest.mark.opprof(rounds=3))]); opprof(rounds=10)"
    assert planned(marks, body="def test_a(x): pass").rounds == 3


def test_none_is_as_if_it_was_not_said(planned: Planned) -> None:
    plan = planned("opprof(tolerance=None, rounds=10)", ini="opprof_tolerance = 20%")
    assert (plan.tolerances.tolerance, plan.rounds) == (0.2, 10)


def test_without_limits_of_its_own_a_test_has_those_of_the_run(planned: Planned) -> None:
    assert planned("opprof").tolerances == STORED


def test_budgets_add_up_and_the_nearest_limit_of_an_op_counts(planned: Planned) -> None:
    budget = planned("op_budget(Add=2)", module="op_budget(Add=1, Mul=0)").budget
    found = budget.check(profile_of([("Add", 5), ("Add", 5), ("Mul", 5)]))
    assert list(map(str, found)) == ["Mul: 1 call (budget: 0)"]


def test_a_plan_is_read_again_where_a_fixture_added_a_mark(item: Callable[..., pytest.Item]) -> None:
    test = TestRun.of(item("op_budget(Add=1)"))
    before = test.plan
    assert test.plan is before
    test.item.add_marker(pytest.mark.opprof(rounds=4))
    assert test.plan.rounds == 4


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("op_budget()", "op_budget() has no limit; write one, such as op_budget(Cast=10)"),
        ("opprof(10)", "opprof(10): write keywords, such as opprof(rounds=20), or opprof(False) to leave a test out"),
        ("opprof(round=10)", "did you mean 'rounds'?"),
        ("opprof(rounds=0)", "opprof(rounds=) is 0; write an int of 1 or more"),
        ("opprof(rounds=True)", "opprof(rounds=) is True; write an int of 1 or more"),
        ("opprof(warmup=-1)", "opprof(warmup=) is -1; write an int of 0 or more"),
        ("opprof(baseline=1)", "opprof(baseline=1): write True or False"),
        ("opprof(backend=[])", "opprof(backend=) is []; write a name or several"),
        ("opprof(timing='fast')", "opprof(timing=) is 'fast'; write 'async' or 'sync'"),
        ("opprof(tolerance='ten')", "opprof(tolerance=) is 'ten'; write a percentage"),
    ],
)
def test_a_mark_that_means_nothing_is_named_with_its_line(planned: Planned, mark: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        planned(mark)
    assert said in str(error.value)
    where, line, test, _ = str(error.value).split(":", 3)
    assert (where[-3:], line, test) == (".py", "3", " test_a")


def test_a_test_case_that_cannot_run_again_is_told_what_can(planned: Planned) -> None:
    body = "class TestA(unittest.IsolatedAsyncioTestCase):\n    async def test_a(self): pass"
    with pytest.raises(UsageError, match=r"use opprof.rounds\(\) inside"):
        planned("opprof(rounds=2)", body=body)
