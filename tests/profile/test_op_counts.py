"""Calls of ops as ranges: over rounds, and over processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_opprof.profile.op_counts import OpCounts, counts_of, facts_in_all, in_all
from pytest_opprof.profile.range import MOST, BadRange, Range, joined

from ..conftest import profile_of

SIX = Range(6, 6)


def once(number: int, **known: object) -> OpCounts:
    return OpCounts(Range(number), **known)  # type: ignore[arg-type]


def test_no_change_is_what_the_worst_round_had_and_of_what_varies_as_much_beyond_as_that_is_wide() -> None:
    assert (Range(3, 7).lowest, Range(3, 7).highest) == (7, 7)
    varying = Range(8, 10, varies=True)
    assert (varying.lowest, varying.highest) == (6, 12)
    assert Range(3, 7, varies=True).lowest == 0  # there is no less than none
    assert (str(Range(3, 7)), str(SIX)) == ("3..7", "6")


@given(st.lists(st.integers(0, 99), min_size=1), st.integers(0, 300))
def test_the_range_of_rounds_holds_each_of_them(rounds: list[int], other: int) -> None:
    found = Range.of(rounds)
    assert (found.least, found.most, found.varies) == (min(rounds), max(rounds), False)
    varying = Range(found.least, found.most, varies=True)
    assert all(varying.lowest <= each <= varying.highest for each in rounds)


def test_three_dtypes_are_told_and_of_more_their_number() -> None:
    of = dict.fromkeys(("float32", "int64", "bool"), SIX)
    assert once(6).told == ""
    assert once(6, dtypes={"float32": SIX, "int64": SIX}).told == "float32, int64"
    assert once(18, dtypes=of).told == "float32, int64, bool"
    assert once(24, dtypes={**of, "uint8": SIX}).told == "float32, int64, bool and 1 more"


def test_more_calls_are_told_by_their_dtypes() -> None:
    base = once(2, dtypes={"float32->float64": Range(2)})
    now = once(4, dtypes={"float32->float64": Range(3), "float64->float32": Range(1)})
    assert now.changes(base) == "+1 float32->float64, +1 float64->float32"
    assert base.changes(now) == "-1 float32->float64, -1 float64->float32"
    assert now.changes(once(2)) == ""


@pytest.mark.parametrize(
    "of",
    [
        OpCounts(Range(1, 2, varies=True)),
        once(6, bytes=Range(1, 2, varies=True)),
        once(6, flops=Range(1, 2, varies=True)),
        once(6, dtypes={"float32": SIX, "int64": Range(0, 2, varies=True)}),
    ],
)
def test_any_of_it_may_vary(of: OpCounts) -> None:
    assert of.some_vary
    assert not once(6, dtypes={"float32": SIX}, bytes=Range(1, 2), flops=SIX).some_vary


BASE = once(6, dtypes={"float32": Range(4, 4), "int64": Range(2, 2)}, bytes=SIX, flops=SIX)


@pytest.mark.parametrize(
    ("now", "is_no_change"),
    [
        (BASE, True),
        (once(6), True),  # what only one of them knows is no change
        (once(7), False),
        (once(5), False),
        (OpCounts(Range(2, 6)), True),  # at the worst round
        (replace(BASE, bytes=Range(7, 7)), False),
        (replace(BASE, bytes=Range(5, 5)), False),
        (replace(BASE, flops=Range(7, 7)), False),
        (replace(BASE, dtypes={"float32": Range(3, 3), "int64": Range(3, 3)}), False),
        (replace(BASE, dtypes={"float32": Range(4, 4), "int32": Range(2, 2)}), False),
        (replace(BASE, dtypes={"float32": Range(4, 4)}), False),
    ],
)
def test_a_change_is_one_of_any_number(now: OpCounts, is_no_change: bool) -> None:
    assert BASE.in_range(now) is is_no_change
    assert now.in_range(BASE) is (is_no_change or now == OpCounts(Range(2, 6)))


def test_of_what_varies_the_calls_and_a_dtype_that_was_never_seen_are_a_change() -> None:
    varying = replace(BASE, bytes=Range(6, 9, varies=True))
    assert varying.in_range(replace(BASE, bytes=Range(24, 24), flops=Range(12, 12), dtypes={"int64": SIX}))
    assert not varying.in_range(replace(BASE, bytes=Range(25, 25)))
    assert not varying.in_range(replace(BASE, flops=Range(13, 13)))
    assert OpCounts(Range(5, 6, varies=True), bytes=SIX).in_range(once(6, bytes=Range(99, 99)))
    assert not varying.in_range(replace(BASE, dtypes={"bool": SIX}))
    assert not varying.in_range(once(7))
    assert OpCounts(Range(2, 6, varies=True)).in_range(once(10, dtypes={"bool": SIX}))
    assert not OpCounts(Range(2, 6, varies=True)).in_range(once(11))
    assert OpCounts(Range(5, 6, varies=True)).in_range(once(4))
    assert not OpCounts(Range(5, 6, varies=True)).in_range(once(3))


@pytest.mark.parametrize("lacks", ["dtypes", "bytes", "flops"])
def test_what_is_not_known_yet_is_taken_from_now_and_what_is_known_stays(lacks: str) -> None:
    empty: object = {} if lacks == "dtypes" else None
    now = once(6, dtypes={"bool": SIX}, bytes=Range(9, 9), flops=Range(8, 8))
    found = replace(BASE, **{lacks: empty}).completed(now)
    assert found == replace(BASE, **{lacks: getattr(now, lacks)})
    assert BASE.completed(now) == BASE
    assert once(6).completed(once(6)) == once(6)
    nothing = replace(once(6), bytes=Range(0), flops=Range(0))
    assert once(6).completed(nothing) == once(6), "a file has no amounts of 0"


def test_processes_vary_where_their_worst_rounds_differ() -> None:
    assert joined([Range(2, 6), Range(3, 6)]) == Range(2, 6)
    assert joined([Range(2, 6), Range(3, 7)]) == Range(6, 7, varies=True)
    assert joined([Range(7, 7), SIX]) == Range(6, 7, varies=True)


def test_a_fact_is_one_that_all_processes_know() -> None:
    first, second = {"peak_memory": SIX, "grad_nodes": SIX}, {"peak_memory": Range(8, 8), "allocations": SIX}
    assert facts_in_all([first, second]) == {"peak_memory": Range(6, 8, varies=True)}
    assert facts_in_all([second, second]) == second
    assert facts_in_all([]) == {}


def test_what_all_processes_did_is_known_of_each_op_that_any_of_them_called() -> None:
    first = {"Add": once(2, dtypes={"float32": Range(2, 2)}, bytes=Range(8, 8), flops=Range(2, 2))}
    second = {
        "Add": once(3, dtypes={"float32": Range(1, 1), "int64": Range(2, 2)}, bytes=Range(9, 9)),
        "Cast": once(1, dtypes={"int64->float32": Range(1, 1)}, bytes=Range(4, 4), flops=Range(0, 0)),
    }
    found, _ = in_all([(first, {}), (second, {})])
    assert found["Add"] == OpCounts(
        Range(2, 3, True),
        {"float32": Range(1, 2, varies=True), "int64": Range(0, 2, varies=True)},
        Range(8, 9, varies=True),
        None,
    )
    # One that did not call it wrote nothing by it, of no dtype.
    assert found["Cast"] == OpCounts(
        Range(0, 1, True), {"int64->float32": Range(0, 1, varies=True)}, Range(0, 4, varies=True), Range(0, 0)
    )
    assert list(found) == ["Add", "Cast"]
    facts = {"peak_memory": SIX}
    assert in_all([(first, facts), (first, facts)]) == (first, facts)
    untold = {"Add": once(2)}
    assert in_all([(first, facts), (untold, {})]) == ({"Add": once(2)}, {})
    assert in_all([]) == ({}, {})


def test_calls_of_a_profile_have_the_range_of_its_rounds() -> None:
    found = counts_of(profile_of([("Cast", 5)], [("Cast", 6), ("Cast", 7)]))
    assert (found["Cast"].calls.least, found["Cast"].calls.most, found["Cast"].calls.varies) == (1, 2, False)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([-1, 5], "allowed: a whole number"),
        (-1, "allowed: a whole number"),
        ([5, 1], "the least comes first"),
        (MOST + 1, "allowed: a whole number"),
        ({"varies": 3}, "allowed: a whole number"),
        ([1, 2, 3], "allowed: a whole number"),
        (True, "allowed: a whole number"),
    ],
)
def test_json_that_is_no_range_is_named_with_what_is_allowed(value: object, said: str) -> None:
    with pytest.raises(BadRange, match=said) as raised:
        Range.of_plain(value)
    assert raised.value.value is value
