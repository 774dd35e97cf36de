"""A budget and a baseline that one growth breaks make one finding."""

from __future__ import annotations

import pytest

from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.findings import Finding, joined
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

from ..conftest import profile_of

UNTIMED = TimingVerdict(Verdict.INCOMPARABLE, "one round")


def both(base: dict[str, int], now: dict[str, int], **limits: object) -> tuple[list[Finding], list[Finding]]:
    """Return the findings about a window that calls *now* as often as that, given a base and limits."""
    profile = profile_of([(op, 1000) for op, calls in now.items() for _ in range(calls)])
    before, after = ({op: OpCounts(Range(calls)) for op, calls in of.items()} for of in (base, now))
    diff = compare(before, after, UNTIMED, STORED)
    return joined(Budget.parse([], limits).check(profile), list(diff.findings()), "baseline")


@pytest.mark.parametrize(
    ("base", "limits", "text", "short"),
    [
        ({"Cast": 1}, {"Cast": 1}, "Cast: 3 calls (budget: 1, baseline: 1)", "Cast 1 -> 3 (budget 1)"),
        ({"Cast": 2}, {"Cast": "0..1"}, "Cast: 3 calls (budget: 0..1, baseline: 2)", "Cast 2 -> 3 (budget 0..1)"),
        ({}, {"Cast": 0}, "Cast: 3 calls (budget: 0, baseline: 0)", "Cast 0 -> 3 (budget 0)"),
        (
            {},
            {"only": ["Add"]},
            "Cast: 3 calls (baseline: 0), but only Add may run",
            "Cast 0 -> 3 (budget 0)",
        ),
    ],
)
def test_one_growth_beyond_both_limits_is_one_finding(
    base: dict[str, int], limits: dict[str, object], text: str, short: str
) -> None:
    (found,), others = both(base, {"Cast": 3}, **limits)
    assert (found.text, found.short, others) == (text, short, [])
    assert found.breaks_budget
    assert found.is_regression
    assert found.kinds == ["over budget", "new" if not base else "more calls"]


def test_a_quantity_of_the_window_is_joined_by_its_name() -> None:
    limit = Finding("peak_memory", None, "peak memory: 5 MiB (budget: 1 MiB)", "peak memory 5 MiB, budget 1 MiB")
    worse = Finding("more memory", "peak_memory", "peak memory: 5 MiB (HEAD~1: 2 MiB)", "peak memory 2 MiB -> 5 MiB")
    ((found,), others) = joined([limit], [worse], "HEAD~1")
    assert (found.text, others) == ("peak memory: 5 MiB (budget: 1 MiB, HEAD~1: 2 MiB)", [])
    assert (found.op, found.kinds) == ("peak_memory", ["over budget", "more memory"])


def test_other_growths_keep_findings_of_their_own() -> None:
    limits, regressions = both({"Cast": 1, "Add": 1}, {"Cast": 3, "Add": 2, "Exp": 1}, Cast=2, Exp="1 ns")
    assert [(each.text, each.kinds) for each in limits] == [
        ("Cast: 3 calls (budget: 2, baseline: 1)", ["over budget", "more calls"]),
        ("Exp: device time 1 us (budget: 1 ns)", ["over budget"]),
    ]
    assert [(each.text, each.kinds) for each in regressions] == [
        ("Exp: 1 call (baseline: 0)", ["new"]),
        ("Add: 2 calls (baseline: 1)", ["more calls"]),
    ]


def test_what_only_continues_a_finding_accepts_nothing() -> None:
    line = Finding("calls", "Cast", "  2 of them at model.py:4")
    assert (line.kinds, line.breaks_budget, line.is_regression) == ([], False, False)
    assert joined([], [line], "baseline") == ([], [line])
