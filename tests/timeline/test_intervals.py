"""Unions of times: each operation is that of the sets of ns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.timeline.intervals import Interval, common, length, union, within, without

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair))))


def moments(intervals: list[Interval]) -> set[int]:
    return {moment for start, end in intervals for moment in range(start, end)}


def is_union(intervals: list[Interval]) -> bool:
    ends = [time for interval in intervals for time in interval]
    return ends == sorted(set(ends))  # in order, none empty, none touching


@given(INTERVALS, st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_union_is_what_lies_between_two_times(intervals: list[Interval], start: int, end: int) -> None:
    found = within(union(intervals), start, end)
    assert (is_union(found), moments(found)) == (True, moments(intervals) & set(range(start, end)))


@given(INTERVALS, INTERVALS)
def test_operations_on_unions_are_those_on_sets(one: list[Interval], other: list[Interval]) -> None:
    a, b = union(one), union(other)
    assert is_union(a)
    assert moments(a) == moments(one)
    assert length(a) == len(moments(one))
    for found, expected in (
        (common(a, b), moments(one) & moments(other)),
        (without(a, b), moments(one) - moments(other)),
    ):
        assert (is_union(found), moments(found)) == (True, expected)
