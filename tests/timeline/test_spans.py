"""A timeline gives back what was added: by lane, in the order of time, with what is inside what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.events.nesting import nested
from pytest_opprof.timeline.spans import Kind, Memory, Timeline

from .made import HOST, OTHER, STREAM, TIMES, Event, in_use, marks, timeline, works


@given(st.lists(works() | marks()))
def test_what_was_added_comes_back_once_and_in_order(events: list[Event]) -> None:
    made = timeline(*events)
    spans = list(made)
    assert sorted((s.lane, s.name, s.kind, s.start_ns, s.duration_ns, str(s.launched_ns)) for s in spans) == sorted(
        (*event[:5], str(event[5])) for event in events
    )
    assert len(made) == len(events)
    assert made.begin_ns == min((event[3] for event in events), default=0)
    lanes = [span.lane for span in spans]
    assert [lane for i, lane in enumerate(lanes) if i == 0 or lanes[i - 1] != lane] == made.lanes
    for lane in made.lanes:
        starts = [(span.start_ns, -span.duration_ns) for span in spans if span.lane == lane]
        assert starts == sorted(starts)


@given(st.lists(st.tuples(st.just(HOST), st.just("a"), st.just(Kind.OP), TIMES, TIMES, st.none())))
def test_depth_is_the_number_of_spans_around_by_the_rule_of_ops(events: list[Event]) -> None:
    spans = list(timeline(*events))
    parents, _ = nested([span.start_ns for span in spans], [span.end_ns for span in spans])
    for span, parent in zip(spans, parents):
        assert span.depth == (spans[parent].depth + 1 if parent >= 0 else 0)


def test_lanes_are_told_apart_and_what_starts_together_is_inside_the_longer() -> None:
    made = timeline((HOST, "inner", Kind.OP, 5, 1), (OTHER, "x", Kind.OP, 0, 2), (HOST, "outer", Kind.RANGE, 5, 9))
    assert [(span.lane, span.depth, span.name) for span in made] == [
        (HOST, 0, "outer"), (HOST, 1, "inner"), (OTHER, 0, "x"),
    ]  # fmt: skip


def test_a_time_beyond_64_bits_is_an_error() -> None:
    with pytest.raises(OverflowError):
        Timeline().add(STREAM, "k", Kind.OP, 1 << 63, 1)


@given(st.lists(st.tuples(TIMES, st.integers(0, 9))), TIMES, TIMES)
def test_memory_between_two_times_is_what_it_was_all_along(
    changes: list[tuple[int, int]], begin: int, length: int
) -> None:
    changes.sort(key=lambda change: change[0])

    def at(time: int, of: Memory) -> int | None:
        return next((size for when, size in reversed([*zip(*of)]) if when <= time), None)

    made, end = in_use(*changes), begin + length
    part = made.between(begin, end)
    assert [at(time, part) for time in range(begin, end + 1)] == [at(time, made) for time in range(begin, end + 1)]
    assert all(begin <= time <= end for time in part.times_ns)
    assert list(zip(*made)) == changes


def test_steps_have_an_extent() -> None:
    made = timeline((HOST, "1", Kind.STEP, 3, 4), (HOST, "2", Kind.STEP, 8, 4), (HOST, "2", Kind.OP, 20, 4))
    assert made.extent(["1", "2"]) == (3, 12)
    assert made.extent(["2"]) == (8, 12)
    assert made.extent(["3"]) == (0, 0)
