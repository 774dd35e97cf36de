"""Spans made by hand and by hypothesis."""

from __future__ import annotations

from array import array

from hypothesis import strategies as st

from pytest_opprof.timeline.spans import Kind, Lane, Memory, Timeline

HOST, OTHER = Lane("process 1", "thread 1"), Lane("process 1", "thread 2")
STREAM, SECOND = Lane("device 0", "stream 7", True), Lane("device 0", "stream 8", True)
TIMES = st.integers(0, 30)

Event = tuple[Lane, str, Kind, int, int, "int | None"]


def timeline(*events: tuple[object, ...]) -> Timeline:
    """Return the timeline of events: lane, name, kind, start, duration, launched."""
    found = Timeline()
    for event in events:
        found.add(*event)  # type: ignore[arg-type]
    return found


def in_use(*changes: tuple[int, int]) -> Memory:
    """Return memory: when it changed, and the bytes from then on."""
    return Memory(array("q", (time for time, _ in changes)), array("q", (size for _, size in changes)))


def works(lanes: tuple[Lane, ...] = (STREAM, SECOND)) -> st.SearchStrategy[Event]:
    """Make work of a device, copies and waits among it."""
    kinds = st.sampled_from([Kind.OP, Kind.COMMUNICATION, Kind.COPY, Kind.WAIT])
    return st.tuples(st.sampled_from(lanes), st.just("k"), kinds, TIMES, TIMES, st.none() | TIMES)


def marks() -> st.SearchStrategy[Event]:
    """Make ranges and ops of the host."""
    kinds = st.sampled_from([Kind.OP, Kind.RANGE, Kind.CALL])
    return st.tuples(st.sampled_from([HOST, OTHER]), st.sampled_from("ab"), kinds, TIMES, TIMES, st.none())


def steps() -> st.SearchStrategy[Event]:
    """Make steps."""
    return st.tuples(st.just(HOST), st.sampled_from("12"), st.just(Kind.STEP), TIMES, st.integers(1, 20), st.none())
