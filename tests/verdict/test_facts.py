"""Facts of a window against those of its baseline: what autograd recorded, and memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.verdict.budgets import WINDOW_KEYS
from pytest_opprof.verdict.compare import compare, compare_counts_first
from pytest_opprof.verdict.diff import Diff
from pytest_opprof.verdict.facts import compared
from pytest_opprof.verdict.quantities import FACTS, SUMS
from pytest_opprof.verdict.times.stored_rule import unjudged
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Verdict
from pytest_opprof.verdict.work import Work

MIB = 2**20
NAMES = st.sampled_from(list(FACTS))
AMOUNTS = st.integers(0, 10**12)
CALLS = {"Add": OpCounts(Range(1))}


def work(name: str, before: int, after: int) -> Work | None:
    return dict(compared({name: Range(before, before)}, {name: Range(after, after)})).get(name)


def diff(before: dict[str, Range], after: dict[str, Range]) -> Diff:
    return compare((CALLS, before), (CALLS, after), unjudged("one round", []), STORED)


@pytest.mark.parametrize(
    ("name", "before", "after", "verdict", "line"),
    [
        ("grad_nodes", 0, 12, Verdict.ABOVE, "ops recorded for backward: 12 (baseline: 0)"),
        ("grad_nodes", 12, 13, Verdict.ABOVE, "ops recorded for backward: 13 (baseline: 12)"),
        ("grad_nodes", 13, 12, Verdict.BELOW, "ops recorded for backward: 12 (baseline: 13)"),
        ("peak_memory", MIB, 2 * MIB, Verdict.ABOVE, "peak memory: 2 MiB (baseline: 1 MiB)"),
        ("peak_memory", 2 * MIB, MIB, Verdict.BELOW, "peak memory: 1 MiB (baseline: 2 MiB)"),
        ("held_memory", 0, MIB, Verdict.ABOVE, "memory held at the end: 1 MiB (baseline: 0 B)"),
        ("held_each_round", 0, 100, Verdict.ABOVE, "memory held by each round: 100 B (baseline: 0 B)"),
        ("recompilations", 0, 1, Verdict.ABOVE, "functions compiled again: 1 (baseline: 0)"),
        ("allocations", 0, 11, Verdict.ABOVE, "allocations: 11 (baseline: 0)"),
        ("allocations", 100, 111, Verdict.ABOVE, "allocations: 111 (baseline: 100)"),
        ("allocations", 111, 99, Verdict.BELOW, "allocations: 99 (baseline: 111)"),
    ],
)
def test_a_fact_that_changed_is_told_with_what_it_was(
    name: str, before: int, after: int, verdict: Verdict, line: str
) -> None:
    found = work(name, before, after)
    assert found is not None
    assert (found.verdict, found.number and found.number.told()) == (verdict, line)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("grad_nodes", 7, 7),
        ("peak_memory", 0, 1 << 16),  # what an allocator rounds
        ("peak_memory", 100 * MIB, 105 * MIB),
        ("held_memory", 1 << 16, 0),
        ("recompilations", 2, 0),  # an earlier test compiled it
        ("held_each_round", 200, 0),
        ("allocations", 1_000, 1_050),
        ("allocations", 10, 11),  # an unrelated change moves them by a few
        ("allocations", 11, 1),
    ],
)
def test_what_is_within_its_tolerance_is_no_change(name: str, before: int, after: int) -> None:
    assert work(name, before, after) is None


@pytest.mark.parametrize(
    ("names", "before", "most"),
    [
        (("calls", "launches", "collections", "recompilations", "grad_nodes", "left_behind", "left_open"), 100, 100),
        (("python_calls", "loop_iterations", "allocations"), 100, 110),
        (("python_calls", "loop_iterations"), 10_000, 10_100),
        (("bytes", "flops"), 100_000, 101_024),
        (("bytes", "flops"), 1_000_000, 1_010_000),
        (("program_ops",), 100, 120),
        (("program_ops",), 1_000, 1_100),
        (("allocations", "held_each_round"), 1_000, 1_050),
        (("peak_memory", "temporary_memory", "host_memory", "held_memory", "leaked_memory"), MIB, MIB + (1 << 16)),
        (("peak_memory", "temporary_memory", "host_memory", "held_memory", "leaked_memory"), 100 * MIB, 105 * MIB),
    ],
)
def test_the_largest_amount_that_is_no_more_than_before(names: tuple[str, ...], before: int, most: int) -> None:
    assert {name for name in names if work(name, before, most) is not None} == set()
    assert {name for name in names if (found := work(name, before, most + 1)) and found.verdict is Verdict.ABOVE} == {
        *names
    }
    least = 2 * before - most
    assert {name for name in names if work(name, before, least) is not None} == set()
    less = {name for name in names if (found := work(name, before, least - 1)) and found.verdict is Verdict.BELOW}
    assert less == {*names} - {"recompilations", "held_each_round"}


@given(NAMES, AMOUNTS, AMOUNTS)
def test_more_is_never_called_less_and_one_of_two_ways_round_is_at_most_a_regression(
    name: str, before: int, after: int
) -> None:
    there, back = work(name, before, after), work(name, after, before)
    if there is not None:
        assert there.verdict is (Verdict.ABOVE if after > before else Verdict.BELOW)
    assert not (there and back and there.verdict is back.verdict)
    assert before != after or there is None


@given(NAMES, AMOUNTS, AMOUNTS)
def test_an_improvement_takes_as_much_as_a_regression(name: str, before: int, after: int) -> None:
    gate, there, back = FACTS[name].gate, work(name, before, after), work(name, after, before)
    if gate and there and there.verdict is Verdict.BELOW:
        assert before - after > max(gate.floor, gate.tolerance * before)
        assert back is not None
        assert back.verdict is Verdict.ABOVE


@pytest.mark.parametrize("name", ["peak_memory", "held_memory"])
def test_memory_within_its_floor_or_tolerance_is_neither_worse_nor_improved(name: str) -> None:
    floor = 1 << 16
    assert work(name, floor, 0) is None
    assert getattr(work(name, floor + 1, 0), "verdict", None) is Verdict.BELOW
    assert work(name, 100 * MIB, 95 * MIB) is None
    assert getattr(work(name, 100 * MIB, 95 * MIB - 1), "verdict", None) is Verdict.BELOW
    assert getattr(work(name, 100 * MIB, 105 * MIB + 1), "verdict", None) is Verdict.ABOVE


@given(NAMES, AMOUNTS, AMOUNTS, st.integers(0, 10**12))
def test_a_fact_that_grows_further_stays_a_regression(name: str, before: int, after: int, more: int) -> None:
    found = work(name, before, after)
    if found and found.verdict is Verdict.ABOVE:
        further = work(name, before, after + more)
        assert further is not None
        assert further.verdict is found.verdict


@given(NAMES, AMOUNTS, st.integers(0, 10**9), AMOUNTS)
def test_what_varies_may_leave_its_range_by_as_much_as_that_is_wide(
    name: str, least: int, width: int, after: int
) -> None:
    varying = Range(least, least + width, varies=True)
    changed = dict(compared({name: varying}, {name: Range(after, after)}))
    if least - width <= after <= least + 2 * width:
        assert not changed


@given(st.dictionaries(NAMES, AMOUNTS), st.dictionaries(NAMES, AMOUNTS))
def test_what_only_one_side_knows_is_not_compared(before: dict[str, int], after: dict[str, int]) -> None:
    ranges = [{name: Range(each, each) for name, each in side.items()} for side in (before, after)]
    assert {name for name, _ in compared(*ranges)} <= before.keys() & after.keys()


def test_rounds_are_judged_at_the_worst() -> None:
    before, after = {"grad_nodes": Range(0, 5)}, {"grad_nodes": Range(5, 5)}
    assert not dict(compared(before, after))
    ((_, found),) = compared(before, {"grad_nodes": Range(0, 6)})
    assert found.number
    assert found.number.told() == "ops recorded for backward: 0..6 (baseline: 0..5)"


def test_a_lost_no_grad_is_a_finding_with_its_cause_and_no_op_is_blamed() -> None:
    found = diff({"grad_nodes": Range(0, 0)}, {"grad_nodes": Range(12, 12)})
    assert found.verdict is Verdict.ABOVE
    assert found.verdict.does_more
    assert [str(each) for each in found.findings()] == ["ops recorded for backward: 12 (baseline: 0)"]
    assert [each.short for each in found.findings()] == ["grad nodes 0 -> 12"]
    assert found.more_calls == []
    assert [(row.op, row.is_op) for row in found.rows] == [("grad_nodes", False), ("Add", True)]


def test_less_memory_is_an_improvement_and_no_finding() -> None:
    found = diff({"peak_memory": Range(9 * MIB, 9 * MIB)}, {"peak_memory": Range(MIB, MIB)})
    assert found.verdict is Verdict.BELOW
    assert list(found.findings()) == []
    assert list(found.improvements()) == ["peak memory: 1 MiB (baseline: 9 MiB)"]


def test_more_held_memory_of_more_calls_is_told_and_not_blamed_by_itself_and_more_nodes_are() -> None:
    facts = {"held_memory": Range(MIB, MIB), "grad_nodes": Range(0, 0)}
    more = {"held_memory": Range(9 * MIB, 9 * MIB), "grad_nodes": Range(2, 2)}
    timing = unjudged("one round", [])
    found = compare_counts_first((CALLS, facts), ({"Add": OpCounts(Range(2))}, more), timing, STORED)
    assert [each.short for each in found.findings()] == ["Add 1 -> 2", "grad nodes 0 -> 2"]
    assert [(row.work.text, row.why) for row in found.rows if row.op == "held_memory"] == [
        ("1 MiB -> 9 MiB", "explained by ops")
    ]


@pytest.mark.parametrize("fact", ["peak_memory", "host_memory"])
def test_a_higher_peak_is_a_finding_of_its_own_beside_an_op_that_reads_much_and_allocates_nothing(fact: str) -> None:
    maximum = OpCounts(Range(1), bytes=Range(MIB))
    found = compare(
        (CALLS, {fact: Range(MIB)}), ({**CALLS, "ReduceMax": maximum}, {fact: Range(2 * MIB)}), unjudged("", []), STORED
    )
    assert {row.op for row in found.worse} == {"ReduceMax", fact}


def test_launches_and_memory_follow_from_ops_that_do_more_and_other_facts_are_findings_of_their_own() -> None:
    facts = [name for name in FACTS if name not in SUMS]
    before, after = ({name: Range(amount) for name in facts} for amount in (MIB, 9 * MIB))
    before |= {"launches": Range(1), "allocations": Range(1)}
    after |= {"launches": Range(41), "allocations": Range(41)}
    timing = unjudged("one round", [])
    found = compare((CALLS, before), ({"Add": OpCounts(Range(3))}, after), timing, STORED)
    assert {row.op for row in found.rows if row.why == "explained by ops"} == {
        "launches",
        "held_memory",
        "allocations",
    }
    assert [row.op for row in found.rows if row.why == "explained by calls"] == ["loop_iterations"]
    assert {row.op for row in found.worse} == {
        *("Add", "python_calls", "collections", "recompilations", "program_ops", "grad_nodes"),
        *("peak_memory", "host_memory", "kept_memory", "temporary_memory", "left_behind", "left_open", "leaked_memory"),
    }
    # Less memory beside an op that does more is less memory.
    less = compare((CALLS, after), ({"Add": OpCounts(Range(3))}, before), timing, STORED)
    assert "less memory" in {row.word for row in less.rows if row.op == "peak_memory"}
    # Alone they are findings.
    alone = diff({"allocations": Range(1), "launches": Range(1)}, {"allocations": Range(12), "launches": Range(2)})
    assert [row.op for row in alone.worse] == ["launches", "allocations"]


ADD = OpCounts(Range(2), bytes=Range(2000))


@pytest.mark.parametrize(
    ("fact", "more", "now", "is_explained"),
    [
        # Twenty times what the ops that do more move more.
        ("held_memory", 20 * MIB, OpCounts(Range(3), bytes=Range(MIB + 2000)), True),
        ("held_memory", 20 * MIB + 1, OpCounts(Range(3), bytes=Range(MIB + 2000)), False),
        ("held_memory", 20 * MIB, OpCounts(Range(3), bytes=Range(3000)), False),
        ("held_memory", 20 * MIB, OpCounts(Range(2), dtypes="float64", bytes=Range(MIB + 2000)), True),
        ("held_memory", 21 * MIB, OpCounts(Range(2), dtypes="float64", bytes=Range(MIB + 2000)), False),
        ("held_memory", 20 * MIB, OpCounts(Range(3)), True),  # its bytes are unknown
        # Twenty for each call more; an op that does more in as many calls may do so in each of them.
        ("launches", 20, OpCounts(Range(3), bytes=Range(3000)), True),
        ("launches", 21, OpCounts(Range(3), bytes=Range(3000)), False),
        ("launches", 40, OpCounts(Range(2), bytes=Range(9 * MIB)), True),
        ("launches", 41, OpCounts(Range(2), bytes=Range(9 * MIB)), False),
        ("allocations", 40, OpCounts(Range(4), bytes=Range(4000)), True),
        ("allocations", 41, OpCounts(Range(4), bytes=Range(4000)), False),
    ],
)
def test_a_fact_follows_from_ops_that_do_more_as_far_as_these_can_explain_it(
    fact: str, more: int, now: OpCounts, is_explained: bool
) -> None:
    base = {"Add": ADD, "Mul": OpCounts(Range(9), bytes=Range(99 * MIB))}
    facts, grown = {fact: Range(20)}, {fact: Range(20 + more)}
    found = compare((base, facts), ({**base, "Add": now}, grown), unjudged("", []), STORED)
    assert {row.op for row in found.worse} == ({"Add"} if is_explained else {"Add", fact})


def test_memory_that_each_round_holds_is_told_once() -> None:
    held = {"held_memory": Range(MIB), "held_each_round": Range(8)}
    more = {"held_memory": Range(9 * MIB), "held_each_round": Range(99)}
    assert [name for name, _ in compared(held, more)] == ["held_memory"]
    assert [name for name, _ in compared(held, {**more, "held_memory": Range(MIB)})] == ["held_each_round"]


def test_each_fact_can_be_limited_by_its_name() -> None:
    assert FACTS.keys() - set(WINDOW_KEYS) == {"held_each_round"}  # which held_memory limits
    assert set(WINDOW_KEYS) - FACTS.keys() >= {"device_time", "host_time"}
