from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.events.attribution import NOBODY
from pytest_opprof.profile.events.nesting import MOST_DEPTH, TooDeep, innermost, nested, self_times

Interval = tuple[int, int]
INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=12).map(
    lambda some: sorted(((start, start + length) for start, length in some), key=lambda each: (each[0], -each[1]))
)
"""Of one thread, each before those inside it."""


def around(intervals: list[Interval], start: int, end: int) -> list[int]:
    """Return which of the intervals, all of which began no later, run at *start* and do not end before *end*."""
    return [n for n, (begin, until) in enumerate(intervals) if begin <= start < until and end <= until]


@given(INTERVALS)
def test_an_event_is_inside_the_last_that_runs_when_it_begins_and_outlasts_it(intervals: list[Interval]) -> None:
    parents, own = nested([start for start, _ in intervals], [end for _, end in intervals])
    open_: list[int] = []
    for event, (start, end) in enumerate(intervals):
        # What has ended, or is outlasted by a later one, is around nothing that comes after.
        open_ = [each for each in open_ if each in around(intervals[:event], start, end)]
        assert parents[event] == (open_[-1] if open_ else NOBODY)
        open_.append(event)
    for event, (start, end) in enumerate(intervals):
        inside = [e - s for (s, e), parent in zip(intervals, parents) if parent == event]
        assert own[event] == end - start - sum(inside)


@given(INTERVALS, st.integers(0, 45), st.integers(0, 5))
def test_the_innermost_event_around_a_call_has_none_inside_that_is_around_it_too(
    intervals: list[Interval], start: int, length: int
) -> None:
    starts, ends = [start for start, _ in intervals], [end for _, end in intervals]
    parents, _ = nested(starts, ends)
    found = innermost(starts, ends, parents, start, start + length)
    if found != NOBODY:
        assert starts[found] <= start <= ends[found]
        inside = [n for n, parent in enumerate(parents) if parent == found and starts[n] <= start]
        assert not inside or ends[inside[-1]] < start + length


def test_what_is_looked_for_in_a_part_is_told_by_its_place_in_it() -> None:
    starts, ends = [0, 100, 110, 120], [50, 200, 150, 130]
    assert innermost(starts, ends, [-1, 0, 1], 122, 125, first=1) == 2
    assert innermost(starts, ends, [-1, 0, 1], 122, 140, first=1) == 1
    assert innermost(starts, ends, [-1, 0, 1], 60, 70, first=1) == NOBODY


def test_more_events_in_each_other_than_any_program_has_are_an_error() -> None:
    depth = MOST_DEPTH + 1
    starts, ends = list(range(depth)), [depth] * depth
    parents, _ = nested(starts, ends)
    with pytest.raises(TooDeep):
        innermost(starts, ends, parents, depth + 1, depth + 2)


def test_events_of_other_threads_are_not_inside() -> None:
    assert self_times([1, 2, 1], [10, 0, 0], [5, 100, 50]).tolist() == [5, 100, 45]
