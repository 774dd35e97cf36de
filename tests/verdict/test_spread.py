"""How ranks differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import OUTSIDE, SavedOp, SavedProfile
from pytest_opprof.verdict.spread import FLOOR_NS, SHARE, OpCalls, Range, spread

HERE = Environment((("made", "1"),), "cpu", "")


def made(*records: SavedOp, **more: object) -> SavedProfile:
    return SavedProfile("made by hand", HERE, records, **more)  # type: ignore[arg-type]


def of(*times_ns: float, op: str = "MatMul") -> list[SavedProfile]:
    return [made(SavedOp("a", op, device_ns=ns)) for ns in times_ns]


def test_the_totals_and_what_they_lie_between() -> None:
    found = spread(of(300, 100, 400, 200))
    assert [each.device_time_ns for each in found.totals] == [300, 100, 400, 200]
    assert found.between == {"device_time_ns": Range(100, 250, 400, fastest=1, slowest=2)}


def test_a_total_that_a_rank_does_not_know_has_no_median() -> None:
    known = made(SavedOp("a", "MatMul", device_ns=1), step_ns=(5,))
    found = spread([known, *of(2)])
    assert [each.wall_time_ns for each in found.totals] == [5, None]
    assert set(found.between) == {"device_time_ns"}


def test_communication_is_a_total_of_its_own_and_no_op_that_is_slower() -> None:
    one, other = (made(SavedOp("a", "MatMul", device_ns=10**6), SavedOp("b", "hcom_allReduce_", device_ns=ns))
                  for ns in (10**6, 10**9))  # fmt: skip
    found = spread([one, other])
    assert found.between["communication_ns"].slowest == 1
    assert found.between["device_time_ns"].least_ns == found.between["device_time_ns"].most_ns == 10**6
    assert found.times == ()


def test_calls_differ_by_a_single_one_the_largest_difference_first() -> None:
    def rank(copies: int, casts: int) -> SavedProfile:
        return made(SavedOp("a", "Copy", calls=copies), SavedOp("b", "Cast", calls=casts), SavedOp("c", "Add"))

    found = spread([rank(3, 9), rank(3, 5), rank(2, 9)])
    assert found.calls == (OpCalls("Cast", (9, 5, 9)), OpCalls("Copy", (3, 3, 2)))


def test_an_op_that_one_rank_lacks_is_called_there_0_times() -> None:
    assert spread([*of(1), *of(1, op="Cast")]).calls == (OpCalls("MatMul", (1, 0)), OpCalls("Cast", (0, 1)))


def test_parts_of_a_call_are_no_calls() -> None:
    whole = SavedOp("a", "aten::linear", op="MatMul", device_ns=1)
    part = SavedOp("b", "aten::mm", op="MatMul", calls=4, counted=0, device_ns=1)
    assert spread([made(whole), made(whole, part)]).calls == ()


def test_what_ran_outside_of_every_step_is_left_out() -> None:
    inside, outside = SavedOp("a", "Add", device_ns=7), SavedOp("b", "Copy", step=1, device_ns=1000)
    found = spread([made(inside), made(inside, outside, steps=("1", OUTSIDE))])
    assert (found.calls, found.same_steps) == ((), True)
    assert [each.device_time_ns for each in found.totals] == [7, 7]


def test_other_numbers_of_steps_are_told() -> None:
    assert not spread([made(SavedOp("a", "Add")), made(SavedOp("a", "Add"), steps=("1", "2"))]).same_steps


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=9))
def test_an_op_is_slower_on_a_rank_by_more_than_the_share_and_the_floor(times_ns: list[int]) -> None:
    found = spread(of(*times_ns)).times
    least, most = min(times_ns), max(times_ns)
    assert bool(found) == (most > least * (1 + SHARE) and most - least > FLOOR_NS)
    for row in found:
        assert (times_ns[row.between.fastest], times_ns[row.between.slowest]) == (least, most)


def test_times_of_the_host_where_these_are_asked_for() -> None:
    ranks = [made(SavedOp("a", "Add", device_ns=10**6, host_ns=ns)) for ns in (10**6, 10**7)]
    assert spread(ranks).times == ()
    assert [row.times_ns for row in spread(ranks, "host").times] == [(10**6, 10**7)]
