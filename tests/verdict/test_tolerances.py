"""Tolerances: what the user gives, and the limits on both sides of a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.verdict.tolerances import PAIRS, STORED, Tolerances, beyond, is_vague, judged
from pytest_opprof.verdict.verdicts import Times, Verdict

OF_CAST = replace(STORED, of_op={"Cast": 0.9})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, OF_CAST),
        (dict.fromkeys(["tolerance", "floor", "work_tolerance", "op_tolerance"]), OF_CAST),
        ({"tolerance": "20%"}, replace(OF_CAST, tolerance=0.2)),
        ({"tolerance": "30%"}, replace(OF_CAST, tolerance=0.3, op_tolerance=0.3)),
        ({"floor": "5 us"}, replace(OF_CAST, floor_ns=5_000)),
        ({"work_tolerance": "10%"}, replace(OF_CAST, work=0.1)),
        ({"op_tolerance": {"Add": "40%"}}, replace(OF_CAST, of_op={"Cast": 0.9, "Add": 0.4})),
        ({"op_tolerance": {"Cast": "40%"}}, replace(OF_CAST, of_op={"Cast": 0.4})),
        ({"op_tolerance": "40%"}, replace(STORED, op_tolerance=0.4)),
        ({"tolerance": "30%", "op_tolerance": "20%"}, replace(STORED, tolerance=0.3, op_tolerance=0.2)),
    ],
)
def test_a_given_tolerance_replaces_its_own_and_a_wide_one_of_the_whole_widens_that_of_ops(
    given: dict[str, Any], found: Tolerances
) -> None:
    assert OF_CAST.with_given(given, str) == found


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tolerance": "wide"}, "the tolerance"),
        ({"floor": "30%"}, "the floor"),
        ({"work_tolerance": -1}, "the work_tolerance"),
        ({"op_tolerance": "wide"}, "the op_tolerance"),
        ({"op_tolerance": {"Cast": "wide"}}, "the op_tolerance of 'Cast'"),
    ],
)
def test_a_tolerance_that_means_nothing_is_refused_by_its_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        STORED.with_given(given, lambda key: f"the {key}")


@pytest.mark.parametrize(
    ("base", "now", "floor", "verdict"),
    [
        (100, 150, 0, Verdict.OK),
        (100, 151, 0, Verdict.SLOWER),
        (100, 151, 51, Verdict.OK),
        (100, 152, 51, Verdict.SLOWER),
        (150, 100, 0, Verdict.OK),
        (151, 100, 0, Verdict.FASTER),
        (151, 100, 51, Verdict.OK),
        (152, 100, 51, Verdict.FASTER),
        (0, 0, 0, Verdict.OK),
    ],
)
def test_a_time_changes_beyond_both_limits_in_either_direction(
    base: int, now: int, floor: int, verdict: Verdict
) -> None:
    assert beyond(base, now, 0.5, floor) is verdict


def test_an_interval_is_vague_if_it_is_wider_than_twice_the_tolerance() -> None:
    assert not is_vague((-0.25, 0.25), 0.25)
    assert is_vague((-0.25, 0.26), 0.25)


def test_the_whole_and_each_op_that_both_sides_time_are_judged() -> None:
    base, now = Times(1_000_000, {"Add": 100_000, "Exp": 500_000}), Times(1_050_000, {"Add": 200_000, "Log": 9})
    found = judged(base, now, PAIRS)
    assert (found.verdict, found.total, found.ops) == (Verdict.SLOWER, Verdict.OK, {"Add": Verdict.SLOWER})
    assert (found.base, found.now, found.settled, found.why) == (base, now, True, "")
    assert judged(base, base, PAIRS).verdict is Verdict.OK
