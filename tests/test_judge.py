from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.judge import Rule, Verdict

RULE = Rule(tolerance=0.25, floor_ns=50_000)
BASE = [1_000_000, 1_100_000, 1_050_000, 1_900_000, 1_020_000]
samples = st.lists(st.integers(1_000, 10**9), min_size=5, max_size=9)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, Verdict.OK), (1.24, Verdict.OK), (1.26, Verdict.SLOWER), (0.81, Verdict.OK), (0.79, Verdict.FASTER)],
)
def test_the_fastest_rounds_are_compared_with_the_tolerance(factor: float, verdict: Verdict) -> None:
    assert RULE.judge(BASE, [round(ns * factor) for ns in BASE]) is verdict


def test_a_change_below_the_floor_is_no_change() -> None:
    assert RULE.judge([10_000] * 5, [59_000] * 5) is Verdict.OK
    assert RULE.judge([10_000] * 5, [61_000] * 5) is Verdict.SLOWER


def test_a_change_of_an_op_that_is_small_beside_its_window_is_no_change() -> None:
    assert RULE.judge(BASE, [ns * 2 for ns in BASE], whole_ns=20_000_000) is Verdict.OK
    assert RULE.judge(BASE, [ns * 3 for ns in BASE], whole_ns=20_000_000) is Verdict.SLOWER


def test_fewer_than_five_rounds_judge_nothing() -> None:
    assert RULE.judge(BASE[:4], BASE) is Verdict.INCOMPARABLE
    assert RULE.judge(BASE, BASE[:4]) is Verdict.INCOMPARABLE


@given(samples)
def test_the_same_samples_are_ok(ns: list[int]) -> None:
    assert RULE.judge(ns, ns) is Verdict.OK


@given(samples, samples)
def test_swapping_the_sides_swaps_the_verdict(base: list[int], now: list[int]) -> None:
    opposite = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER, Verdict.OK: Verdict.OK}
    assert RULE.judge(now, base) is opposite[RULE.judge(base, now)]


@given(samples, samples, st.integers(0, 10**9))
def test_a_further_slower_round_changes_nothing(base: list[int], now: list[int], more: int) -> None:
    assert RULE.judge(base, [*now, min(now) + more]) is RULE.judge(base, now)


def test_regressions_and_improvements_are_different_verdicts() -> None:
    assert not any(verdict.is_regression and verdict.is_improvement for verdict in Verdict)
