"""A timeline gives back what was added: by lane, in the order of time, with what is inside what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.nesting import nested
from pytest_opprof.timeline.spans import Kind, Timeline

from .made import HOST, OTHER, STREAM, TIMES, Event, marks, timeline, works


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
