"""How ranks differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import OUTSIDE, Collective, SavedOp, SavedProfile
from pytest_opprof.questions.spread import FLOOR_NS, SHARE, Between, Group, InSteps, OpCalls, Waits, spread

HERE = Environment((("made", "1"),), "cpu", "")


def made(*records: SavedOp, **more: object) -> SavedProfile:
    return SavedProfile("made by hand", HERE, records, **more)  # type: ignore[arg-type]


def of(*times_ns: float, op: str = "MatMul") -> list[SavedProfile]:
    return [made(SavedOp("a", op, device_ns=ns)) for ns in times_ns]


def test_the_totals_and_what_they_lie_between() -> None:
    found = spread(of(300, 100, 400, 200))
    assert [each.device_time_ns for each in found.totals] == [300, 100, 400, 200]
    assert found.between == {"device_time_ns": Between(100, 250, 400, fastest=1, slowest=2)}


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


def test_a_profile_without_steps_is_not_left_out() -> None:
    unstepped = made(SavedOp("a", "Add"), steps=(OUTSIDE,))
    assert spread([unstepped, made(SavedOp("a", "Add", calls=2))]).calls == (OpCalls("Add", (1, 2)),)


def test_other_numbers_of_steps_are_told() -> None:
    assert not spread([made(SavedOp("a", "Add")), made(SavedOp("a", "Add"), steps=("1", "2"))]).same_steps


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=9))
def test_an_op_is_slower_on_a_rank_by_more_than_the_share_and_the_floor(times_ns: list[int]) -> None:
    found = spread(of(*times_ns)).times
    least, most = min(times_ns), max(times_ns)
    assert bool(found) == (most > least * (1 + SHARE) and most - least > FLOOR_NS)
    for row in found:
        assert (times_ns[row.between.fastest], times_ns[row.between.slowest]) == (least, most)


@pytest.mark.parametrize(
    ("least", "most", "is_slower"),
    [
        (1_000_000, 1_100_000, False),  # 10 %
        (1_000_000, 1_100_001, True),
        (1_000, 21_000, False),  # 20 us
        (1_000, 21_001, True),
    ],
)
def test_an_op_is_slower_beyond_a_tenth_and_20_us(least: int, most: int, is_slower: bool) -> None:
    assert bool(spread(of(most, least)).times) is is_slower


def test_a_rank_that_does_not_run_an_op_takes_0_for_it() -> None:
    for other in (*of(1, op="Cast"), *of(0)):
        (row,) = spread([*of(10**6), other]).times
        assert (row.op, row.times_ns) == ("MatMul", (10**6, 0))


def test_times_that_ranks_do_not_know_do_not_differ() -> None:
    timed, untimed = SavedOp("a", "Add", device_ns=10**6), SavedOp("b", "Exp")
    assert spread([made(timed, untimed)] * 2).times == ()
    assert spread([made(timed), made(SavedOp("a", "Add"))]).times == ()


def test_times_of_the_host_where_these_are_asked_for() -> None:
    ranks = [made(SavedOp("a", "Add", device_ns=10**6, host_ns=ns)) for ns in (10**6, 10**7)]
    assert spread(ranks).times == ()
    assert [(row.op, row.times_ns) for row in spread(ranks, "host").times] == [("Add", (10**6, 10**7))]


def test_of_ops_that_are_slower_the_one_with_the_largest_difference_comes_first() -> None:
    def rank(**ops_ns: int) -> SavedProfile:
        return made(*(SavedOp(op, op, device_ns=ns) for op, ns in ops_ns.items()))

    found = spread([rank(Add=10**6, Exp=10**6, Mul=10**6), rank(Add=2 * 10**6, Exp=10**6, Mul=3 * 10**6)])
    assert [(row.op, row.times_ns) for row in found.times] == [("Mul", (10**6, 3 * 10**6)), ("Add", (10**6, 2 * 10**6))]


def did(*times_ns: float, op: str = "AllReduce", group: str | None = "0") -> SavedProfile:
    return made(SavedOp("a", "Add"), collectives=tuple(Collective(op, group, 0, ns) for ns in times_ns))


def test_the_rank_that_took_the_shortest_came_last_and_the_others_waited_for_it() -> None:
    found = spread([did(90_000, 50_000), did(10_000, 60_000), did(40_000, 50_000)]).waits
    assert found == Waits(
        collectives=2,
        taken_ns=(140_000, 70_000, 90_000),
        waited_ns=({1: 80_000}, {0: 10_000}, {1: 30_000}),
        came_last=(0, 1, 0),  # 10 us in the second are none
        in_steps_ns=((80_000,), (10_000,), (30_000,)),
        groups=(Group("", (0, 1, 2), 2, 120_000, 1),),
    )
    assert found.held_up_ns == (10_000, 110_000, 0)


def test_a_rank_came_last_if_another_waited_20_us_for_it() -> None:
    found = spread([did(20_001, 20_000), did(1, 1)]).waits
    assert isinstance(found, Waits)
    assert found.came_last == (0, 1)


def test_collectives_are_of_the_ranks_of_their_group() -> None:
    one, other = (did(50_000, group=group) for group in ("0[0, 1]", "1[2, 3]"))
    late, latest = (did(ns, group="1[2, 3]") for ns in (20_000, 1_000))
    found = spread([one, one, late, latest]).waits
    assert isinstance(found, Waits)
    assert (found.collectives, found.came_last) == (2, (0, 0, 0, 0))
    assert found.waited_ns[2] == {3: 19_000}
    assert spread([one, other]).waits is None


def test_why_nobody_knows_who_waited_is_said() -> None:
    assert "which ranks communicate" in str(spread([did(1, group=None), did(1, group=None)]).waits)
    for other in (did(1), did(1, 2, op="AllGather")):
        assert "do not hold the same collectives" in str(spread([did(1, 2), other]).waits)
    one_group_alike = [
        made(SavedOp("a", "Add"), collectives=(Collective("AllReduce", "0"), Collective(op, "1")))
        for op in ("AllReduce", "AllGather")
    ]
    assert "do not hold the same collectives" in str(spread(one_group_alike).waits)
    assert spread([did(), did(1)]).waits is None


def test_what_lies_outside_of_steps_is_no_collective_of_them() -> None:
    late = made(SavedOp("a", "Add"), steps=("1", OUTSIDE), collectives=(Collective("Barrier", "0", 1, 5),))
    assert spread([late, late]).waits is None


def test_collectives_of_hccl_are_in_the_order_of_their_numbers() -> None:
    def rank(*ops: tuple[str, float]) -> SavedProfile:
        return made(*(SavedOp(name, "hcom_allReduce_", device_ns=ns) for name, ns in ops))

    found = spread(
        [
            rank(("hcom_allReduce__271_2_1", 50_000), ("hcom_allReduce__271_10_1", 10_000)),
            rank(("hcom_allReduce__271_10_1", 30_000), ("hcom_allReduce__271_2_1", 40_000), ("hcom_send__271_3_1", 1)),
        ]
    ).waits
    assert isinstance(found, Waits)
    assert found.waited_ns == ({1: 10_000}, {0: 20_000})


def test_collectives_of_hccl_are_of_the_group_in_their_names() -> None:
    def rank(group: int, *times_ns: float) -> SavedProfile:
        ops = (f"hcom_allReduce__{group}_{number}_1" for number, _ in enumerate(times_ns))
        return made(*(SavedOp(op, "hcom_allReduce_", device_ns=ns) for op, ns in zip(ops, times_ns)))

    found = spread([rank(271, 50_000, 9_000), rank(271, 20_000, 9_000), rank(845, 90_000), rank(845, 10_000)]).waits
    assert isinstance(found, Waits)
    assert found.collectives == 3
    assert found.waited_ns == ({1: 30_000}, {}, {3: 80_000}, {})
    reduced, gathered = (
        made(SavedOp(f"hcom_{op}__271_0_1", f"hcom_{op}_", device_ns=1)) for op in ("allReduce", "allGather")
    )
    assert "do not hold the same collectives" in str(spread([reduced, gathered]).waits)
    unknown = made(SavedOp("hcom_allReduce__271_0_1", "hcom_allReduce_"))
    assert spread([unknown, unknown]).waits is None  # nobody timed it


@given(st.lists(st.lists(st.integers(0, 10**9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_nobody_waits_for_itself_and_who_waits_takes_longer(times: list[list[int]]) -> None:
    found = spread([did(*rank) for rank in zip(*times)]).waits
    assert isinstance(found, Waits)
    assert [rank for rank in range(3) if rank in found.waited_ns[rank]] == []
    shortest = sum(map(min, times))
    assert [taken - sum(waited.values()) for taken, waited in zip(found.taken_ns, found.waited_ns)] == [shortest] * 3


def test_the_times_of_each_step_are_without_communication() -> None:
    def rank(*steps_ns: float) -> SavedProfile:
        records = [SavedOp("a", "MatMul", step=step, device_ns=ns) for step, ns in enumerate(steps_ns)]
        return made(*records, SavedOp("b", "hcom_send_", device_ns=1e9), steps=("3", "4"))

    ranks = [rank(7, 8), replace(rank(9, 5), steps=("first", "second"))]
    assert spread(ranks).in_steps == InSteps(("3", "4"), "device_time_ns", ((7, 8), (9, 5)))


def test_the_times_of_each_step_are_of_the_host_where_ranks_have_no_other() -> None:
    ranks = [made(SavedOp("a", "Add", host_ns=ns)) for ns in (7, 9)]
    assert spread(ranks).in_steps == InSteps(("",), "host_time_ns", ((7,), (9,)))
    assert spread([made(SavedOp("a", "Add"))] * 2).in_steps is None


def test_where_no_op_has_a_time_on_all_ranks_a_step_has_its_wall_time() -> None:
    known, unknown = (made(SavedOp("a", "Add", device_ns=ns), step_ns=(5, 6), steps=("1", "2")) for ns in (1, None))
    ranks = [known, replace(unknown, steps=("first", "second"))]
    assert spread(ranks).in_steps == InSteps(("1", "2"), "wall_time_ns", ((5, 6), (5, 6)))
    assert spread([made(SavedOp("a", "Add")), known]).in_steps is None
    assert spread([known, *of(3)]).in_steps is None  # of another number of steps
    waiting = made(SavedOp("a", "hcom_send_", device_ns=9), step_ns=(5,))
    assert spread([waiting, waiting]).in_steps == InSteps(("",), "wall_time_ns", ((5,), (5,)))


def test_a_rank_waits_in_the_step_of_the_collective() -> None:
    def rank(*steps_ns: float) -> SavedProfile:
        did = (Collective("AllReduce", "0", step, ns) for step, ns in enumerate(steps_ns))
        return made(SavedOp("a", "Add"), steps=("1", "2"), collectives=tuple(did))

    found = spread([rank(30_000, 70_000), rank(50_000, 10_000)]).waits
    assert isinstance(found, Waits)
    assert found.in_steps_ns == ((0, 60_000), (20_000, 0))
    found = spread([did(1, 9), replace(did(4, 9), steps=("1", "2"))]).waits
    assert isinstance(found, Waits)
    assert found.in_steps_ns == ((0, 0), (3, 0))


def test_a_rank_waits_mostly_for_one_of_the_others() -> None:
    found = spread([did(50_000, 90_000), did(20_000, 95_000), did(70_000, 10_000)]).waits
    assert isinstance(found, Waits)
    assert [found.mostly_for(rank) for rank in range(3)] == [(2, 80_000), (2, 85_000), (1, 50_000)]
    alike = spread([did(1), did(1)]).waits
    assert isinstance(alike, Waits)
    assert alike.mostly_for(1) is None


def test_groups_are_told_the_longest_waiting_first_with_the_rank_that_they_wait_for() -> None:
    def rank(tp: str, tp_ns: float, dp: str, dp_ns: float) -> SavedProfile:
        did = Collective("AllReduce", tp, 0, tp_ns, "tp"), Collective("ReduceScatter", dp, 0, dp_ns, "dp")
        return made(SavedOp("a", "Add"), collectives=did)

    found = spread([rank("1", 50, "3", 90), rank("1", 20, "4", 7), rank("2", 5, "3", 10), rank("2", 5, "4", 8)]).waits
    assert isinstance(found, Waits)
    assert found.groups == (
        Group("dp", (0, 2), 1, 80, 2),
        Group("tp", (0, 1), 1, 30, 1),
        Group("dp", (1, 3), 1, 1, 1),
        Group("tp", (2, 3), 1, 0, 2),
    )


@pytest.mark.parametrize(("kinds", "told"), [(("",), 0), (("tp",), 1), (("", ""), 2)])
def test_a_lone_group_is_told_if_the_program_has_a_name_for_it(kinds: tuple[str, ...], told: int) -> None:
    did = tuple(Collective("AllReduce", str(number), 0, 1, kind) for number, kind in enumerate(kinds))
    found = spread([made(SavedOp("a", "Add"), collectives=did)] * 2).waits
    assert isinstance(found, Waits)
    assert len(found.told_groups) == told


def test_the_slowest_and_the_latest_ranks_come_first() -> None:
    found = spread([replace(did(ns), records=(SavedOp("a", "Add", device_ns=ns),)) for ns in (50, 20, 90)])
    assert (found.slowest_first, found.latest_first) == ([2, 0, 1], [1, 0, 2])
    unknown = spread([made(SavedOp("a", "Add")), made(SavedOp("a", "Add"))])
    assert (unknown.slowest_first, unknown.latest_first) == ([0, 1], [])
