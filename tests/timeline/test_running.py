"""What runs at given times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.timeline.running import running
from pytest_opprof.timeline.spans import Kind, Span

from .made import HOST, OTHER, Event, marks, timeline


def named(around: str | None, span: Span) -> str:
    return f"{around} > {span.name}" if around else span.name


def test_the_innermost_span_of_each_thread_is_told_with_all_around_it() -> None:
    ran = timeline(
        (HOST, "a", Kind.RANGE, 0, 50),
        (HOST, "b", Kind.OP, 10, 20),
        (HOST, "c", Kind.OP, 60, 5),
        (OTHER, "d", Kind.OP, 12, 9),
    )
    found = list(running(ran, [5, 15, 30, 40, 55, 62, 99], named))
    assert found == [(0, "a"), (1, "a > b"), (2, "a > b"), (3, "a"), (5, "c"), (1, "d")]


@given(st.lists(marks(), max_size=10), st.lists(st.integers(0, 60), max_size=10).map(sorted))
def test_the_span_that_began_last_is_told_while_it_runs(events: list[Event], times: list[int]) -> None:
    spans = list(timeline(*events))
    made: list[Span] = []

    def noted(_: Span | None, span: Span) -> Span:
        made.append(span)
        return span

    found = list(running(spans, times, noted))
    assert made == spans  # each once, in order
    assert all(span.start_ns <= times[index] <= span.end_ns for index, span in found)
    for index, time in enumerate(times):
        for lane in {span.lane for span in spans}:
            begun = [span for span in spans if span.lane == lane and span.start_ns <= time]
            if begun and begun[-1].end_ns > time:
                assert (index, begun[-1]) in found
