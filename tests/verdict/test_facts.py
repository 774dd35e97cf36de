"""Facts of a window against those of its baseline: what autograd recorded, and memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.calls import CallRange, Range
from pytest_opprof.verdict.budgets import WINDOW_KEYS
from pytest_opprof.verdict.compare import Diff, compare, compare_counts_first
from pytest_opprof.verdict.facts import (
    ALLOCATIONS,
    FACTS,
    GRAD_NODES,
    HELD_EACH_ROUND,
    HELD_MEMORY,
    PEAK_MEMORY,
    RECOMPILATIONS,
    compared,
)
from pytest_opprof.verdict.stored_rule import unjudged
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import DOES_MORE, Verdict
from pytest_opprof.verdict.work import Work

MIB = 2**20
NAMES = st.sampled_from(list(FACTS))
AMOUNTS = st.integers(0, 10**12)
CALLS = {"Add": CallRange(1, 1)}


def work(name: str, before: int, after: int) -> Work | None:
    return dict(compared({name: Range(before, before)}, {name: Range(after, after)}, "in the baseline")).get(name)


def diff(before: dict[str, Range], after: dict[str, Range]) -> Diff:
    return compare(CALLS, CALLS, unjudged("one round", []), STORED, facts=(before, after))


@pytest.mark.parametrize(
    ("name", "before", "after", "verdict", "line"),
    [
        (GRAD_NODES, 0, 12, Verdict.MORE_NODES, "ops recorded for backward: 12, none in the baseline"),
        (GRAD_NODES, 12, 13, Verdict.MORE_NODES, "ops recorded for backward: 13, 12 in the baseline"),
        (GRAD_NODES, 13, 12, Verdict.FEWER_NODES, "ops recorded for backward: 12, 13 in the baseline"),
        (PEAK_MEMORY, MIB, 2 * MIB, Verdict.MORE_MEMORY, "peak memory: 2 MiB, 1 MiB in the baseline"),
        (PEAK_MEMORY, 2 * MIB, MIB, Verdict.LESS_MEMORY, "peak memory: 1 MiB, 2 MiB in the baseline"),
        (HELD_MEMORY, 0, MIB, Verdict.MORE_MEMORY, "memory held at the end: 1 MiB, none in the baseline"),
        (HELD_EACH_ROUND, 0, 100, Verdict.MORE_MEMORY, "memory held by each round: 100 B, none in the baseline"),
        (RECOMPILATIONS, 0, 1, Verdict.COMPILED_AGAIN, "functions compiled again: 1, none in the baseline"),
        (ALLOCATIONS, 0, 1, Verdict.MORE_MEMORY, "allocations: 1, none in the baseline"),
        (ALLOCATIONS, 100, 106, Verdict.MORE_MEMORY, "allocations: 106, 100 in the baseline"),
    ],
)
def test_a_fact_that_changed_is_told_with_what_it_was(
    name: str, before: int, after: int, verdict: Verdict, line: str
) -> None:
    found = work(name, before, after)
    assert found is not None
    assert (found.verdict, found.line) == (verdict, line)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (GRAD_NODES, 7, 7),
        (PEAK_MEMORY, 0, 1 << 16),  # what an allocator rounds
        (PEAK_MEMORY, 100 * MIB, 105 * MIB),
        (HELD_MEMORY, 1 << 16, 0),
        (RECOMPILATIONS, 2, 0),  # an earlier test compiled it
        (HELD_EACH_ROUND, 200, 0),
        (ALLOCATIONS, 100, 105),
        (ALLOCATIONS, 19, 19),
    ],
)
def test_what_is_within_its_tolerance_is_no_change(name: str, before: int, after: int) -> None:
    assert work(name, before, after) is None


@given(NAMES, AMOUNTS, AMOUNTS)
def test_more_is_never_called_less_and_one_of_two_ways_round_is_at_most_a_regression(
    name: str, before: int, after: int
) -> None:
    there, back = work(name, before, after), work(name, after, before)
    if there is not None:
        assert there.verdict is (FACTS[name].more if after > before else FACTS[name].fewer)
    assert not (there and back and there.verdict is back.verdict)
    assert before != after or there is None


@given(NAMES, AMOUNTS, AMOUNTS)
def test_an_improvement_takes_as_much_as_a_regression(name: str, before: int, after: int) -> None:
    fact, there, back = FACTS[name], work(name, before, after), work(name, after, before)
    if there and there.verdict is fact.fewer:
        assert before - after > max(fact.floor, fact.tolerance * before)
        assert back is not None
        assert back.verdict is fact.more


@pytest.mark.parametrize("name", [PEAK_MEMORY, HELD_MEMORY])
def test_memory_within_its_floor_or_tolerance_is_neither_worse_nor_improved(name: str) -> None:
    floor = 1 << 16
    assert work(name, floor, 0) is None
    assert getattr(work(name, floor + 1, 0), "verdict", None) is Verdict.LESS_MEMORY
    assert work(name, 100 * MIB, 95 * MIB) is None
    assert getattr(work(name, 100 * MIB, 95 * MIB - 1), "verdict", None) is Verdict.LESS_MEMORY
    assert getattr(work(name, 100 * MIB, 105 * MIB + 1), "verdict", None) is Verdict.MORE_MEMORY


@given(NAMES, AMOUNTS, AMOUNTS, st.integers(0, 10**12))
def test_a_fact_that_grows_further_stays_a_regression(name: str, before: int, after: int, more: int) -> None:
    found = work(name, before, after)
    if found and found.verdict is FACTS[name].more:
        further = work(name, before, after + more)
        assert further is not None
        assert further.verdict is found.verdict


@given(NAMES, AMOUNTS, st.integers(0, 10**9), AMOUNTS)
def test_what_varies_may_leave_its_range_by_as_much_as_that_is_wide(
    name: str, least: int, width: int, after: int
) -> None:
    varying = Range(least, least + width, varies=True)
    changed = dict(compared({name: varying}, {name: Range(after, after)}, "in the baseline"))
    if least - width <= after <= least + 2 * width:
        assert not changed


@given(st.dictionaries(NAMES, AMOUNTS), st.dictionaries(NAMES, AMOUNTS))
def test_what_only_one_side_knows_is_not_compared(before: dict[str, int], after: dict[str, int]) -> None:
    ranges = [{name: Range(each, each) for name, each in side.items()} for side in (before, after)]
    assert {name for name, _ in compared(*ranges, "in the baseline")} <= before.keys() & after.keys()


def test_rounds_are_judged_at_the_worst() -> None:
    before, after = {GRAD_NODES: Range(0, 5)}, {GRAD_NODES: Range(5, 5)}
    assert not dict(compared(before, after, "in the baseline"))
    ((_, found),) = compared(before, {GRAD_NODES: Range(0, 6)}, "in the baseline")
    assert found.line == "ops recorded for backward: 0..6, 0..5 in the baseline"


def test_a_lost_no_grad_is_a_finding_with_its_cause_and_no_op_is_blamed() -> None:
    found = diff({GRAD_NODES: Range(0, 0)}, {GRAD_NODES: Range(12, 12)})
    assert found.verdict is Verdict.MORE_NODES
    assert found.verdict in DOES_MORE
    assert [str(each) for each in found.findings()] == ["ops recorded for backward: 12, none in the baseline"]
    assert [each.cause for each in found.findings()] == ["grad nodes 0 -> 12"]
    assert found.more_calls == []
    assert [(row.op, row.is_op) for row in found.rows] == [(GRAD_NODES, False), ("Add", True)]


def test_less_memory_is_an_improvement_and_no_finding() -> None:
    found = diff({PEAK_MEMORY: Range(9 * MIB, 9 * MIB)}, {PEAK_MEMORY: Range(MIB, MIB)})
    assert found.verdict is Verdict.LESS_MEMORY
    assert list(found.findings()) == []
    assert list(found.improvements()) == ["peak memory: 1 MiB, 9 MiB in the baseline"]


def test_more_memory_of_more_calls_is_told_and_not_blamed_by_itself_and_more_nodes_are() -> None:
    facts = {PEAK_MEMORY: Range(MIB, MIB), GRAD_NODES: Range(0, 0)}
    more = {PEAK_MEMORY: Range(9 * MIB, 9 * MIB), GRAD_NODES: Range(2, 2)}
    timing = unjudged("one round", [])
    found = compare_counts_first(CALLS, {"Add": CallRange(2, 2)}, timing, STORED, facts=(facts, more))
    assert [each.cause for each in found.findings()] == ["Add 1 -> 2", "grad nodes 0 -> 2"]
    assert [(row.work.text, row.why) for row in found.rows if row.op == PEAK_MEMORY] == [
        ("1 MiB -> 9 MiB", "by its ops")
    ]


def test_each_fact_can_be_limited_by_its_name() -> None:
    assert FACTS.keys() - {HELD_EACH_ROUND} <= set(WINDOW_KEYS)  # which held_memory limits
