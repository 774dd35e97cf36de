"""Ranges of the program: each is looked at alone, and gives the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.timeline.ranges import RangeTimes, ranges
from pytest_opprof.timeline.spans import Kind, Span

from .made import HOST, OTHER, STREAM, Event, marks, timeline, works


def naive(spans: list[Span]) -> dict[str, RangeTimes]:
    """Return the ranges by name, by comparing each with everything."""
    work = [span for span in spans if span.lane.on_device and span.kind is not Kind.WAIT]
    launched = [span for span in spans if span.launched_ns is not None]
    around = {id(span): parents(span, spans) for span in spans}
    found: dict[str, RangeTimes] = {}
    for name in {span.name for span in spans if span.kind is Kind.RANGE}:
        of_name = [span for span in spans if span.kind is Kind.RANGE and span.name == name]
        ran = {moment for span in of_name for moment in range(span.start_ns, span.end_ns)}
        inside = [span for span in spans if span.kind is Kind.OP and name in up_to_an_op(around[id(span)])]
        idle = sum(not any(span.start_ns <= moment < span.end_ns for span in work) for moment in ran)
        found[name] = RangeTimes(
            name,
            len(of_name),
            len(ran),
            len(inside),
            sum(span.duration_ns for span in inside),
            sum(span.duration_ns for span in launched if span.launched_ns in ran) if launched else None,
            idle if any(span.duration_ns for span in work) else None,
        )
    return found


def parents(span: Span, spans: list[Span]) -> list[Span]:
    """Return the ranges and ops around a span, the innermost first: those that run on when it begins, till its end."""
    marked = [each for each in spans if each.kind in (Kind.RANGE, Kind.OP) and each.lane == span.lane]
    open_: list[Span] = []
    for each in marked:
        open_ = [one for one in open_ if each.start_ns < one.end_ns]
        while open_ and each.end_ns > open_[-1].end_ns:
            open_.pop()
        if each is span:
            return open_[::-1]
        open_.append(each)
    return []


def up_to_an_op(around: list[Span]) -> set[str]:
    names: set[str] = set()
    for each in around:
        if each.kind is Kind.OP:
            break
        names.add(each.name)
    return names


@given(st.lists(works() | marks(), max_size=12))
def test_each_range_has_its_ops_and_what_devices_did_meanwhile(events: list[Event]) -> None:
    made = timeline(*events)
    rows = ranges(made)
    assert {row.name: row for row in rows} == naive(list(made))
    assert [row.total_ns for row in rows] == sorted((row.total_ns for row in rows), reverse=True)


def test_an_op_inside_another_one_is_a_part_of_it_and_a_range_of_the_same_name_counts_once() -> None:
    made = timeline(
        (HOST, "fit", Kind.RANGE, 0, 100), (HOST, "fit", Kind.RANGE, 10, 50), (HOST, "linear", Kind.OP, 20, 30),
        (HOST, "addmm", Kind.OP, 25, 10), (HOST, "inner", Kind.RANGE, 26, 5), (HOST, "copy", Kind.OP, 27, 2),
        (OTHER, "relu", Kind.OP, 20, 30), (STREAM, "gemm", Kind.OP, 40, 20, 28),
    )  # fmt: skip
    assert ranges(made) == [
        RangeTimes("fit", 2, 100, 1, 30, 20, 80),
        RangeTimes("inner", 1, 5, 1, 2, 20, 5),
    ]


def test_only_ranges_that_begin_in_the_steps_that_are_asked_for() -> None:
    made = timeline(
        (HOST, "1", Kind.STEP, 0, 10), (HOST, "2", Kind.STEP, 10, 10), (HOST, "a", Kind.RANGE, 9, 3),
        (HOST, "a", Kind.RANGE, 10, 3),
    )  # fmt: skip
    assert [(row.calls, row.total_ns) for row in ranges(made, {"2"})] == [(1, 3)]
    assert [(row.calls, row.total_ns) for row in ranges(made)] == [(2, 4)]
    assert ranges(made, {"3"}) == []


def test_a_file_of_ranges_in_ranges_takes_no_longer_than_one_of_as_many_events() -> None:
    """By comparing each op with each range it would be minutes."""
    deep = 30_000
    nested = [(HOST, f"{number}", Kind.RANGE, number, 9 * deep - 2 * number) for number in range(deep)]
    rows = ranges(timeline(*nested, *((HOST, "relu", Kind.OP, 2 * deep + number, 1) for number in range(deep))))
    assert (len(rows), {row.ops for row in rows}) == (deep, {deep})
