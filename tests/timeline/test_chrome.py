"""The Chrome trace of a timeline: every span at its time, in a form that no viewer drops."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.timeline import chrome
from pytest_opprof.timeline.spans import Kind, Timeline

from .made import HOST, STREAM, Event, in_use, marks, timeline, works


def written(made: Timeline) -> list[dict[str, Any]]:
    document = json.loads("".join(chrome.trace_of(made, made.memory, made.begin_ns, "made")))
    assert document["otherData"] == {"source": "made"}
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


@given(st.lists(works() | marks()))
def test_every_span_is_a_bar_and_bars_of_a_row_follow_or_lie_inside_each_other(events: list[Event]) -> None:
    made = timeline(*events)
    bars = [event for event in written(made) if event["ph"] == "X"]
    begin = made.begin_ns
    assert sorted((round(bar["ts"] * 1000) + begin, round(bar["dur"] * 1000), bar["name"]) for bar in bars) == sorted(
        (span.start_ns, span.duration_ns, span.name) for span in made
    )
    for row in {(bar["pid"], bar["tid"]) for bar in bars}:
        of_row = [
            (round(bar["ts"] * 1000), round((bar["ts"] + bar["dur"]) * 1000))
            for bar in bars
            if (bar["pid"], bar["tid"]) == row
        ]
        for number, (start, end) in enumerate(of_row):
            for before, after in of_row[:number]:
                assert start >= after or end <= after or (start, end) == (before, after)


def test_lanes_have_names_and_times_keep_their_ns() -> None:
    made = timeline(
        (HOST, "8", Kind.STEP, 1_000_000_000_000_001, 5_000_001),
        (STREAM, '"<k>\x1b"', Kind.OP, 1_000_000_000_001_001, 7),
    )
    events = written(made)
    assert [(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M"] == [
        ("process_name", "process 1"), ("thread_name", "thread 1"),
        ("process_name", "device 0"), ("thread_name", "stream 7"),
    ]  # fmt: skip
    bars = [event for event in events if event["ph"] == "X"]
    assert [(b["name"], b["cat"], b["ts"], b["dur"]) for b in bars] == [
        ("step 8", "step", 0, 5000.001), ('"<k>\x1b"', "op", 1, 0.007),
    ]  # fmt: skip


def test_memory_is_a_counter_of_its_device() -> None:
    made = timeline((HOST, "a", Kind.OP, 1_000, 10), (STREAM, "k", Kind.OP, 2_000, 5))
    made.memory = {"device 0": in_use((1_500, 64), (2_001, 0)), "CPU": in_use((1_000, 8))}
    events = written(made)
    processes = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert set(processes) == {"process 1", "device 0", "CPU"}
    assert [(e["pid"], e["ts"], e["args"]) for e in events if e["ph"] == "C"] == [
        (processes["device 0"], 0.5, {"bytes": 64}),
        (processes["device 0"], 1.001, {"bytes": 0}),
        (processes["CPU"], 0, {"bytes": 8}),
    ]


def test_a_step_has_what_ran_in_it_at_least_in_part() -> None:
    made = timeline(
        (HOST, "1", Kind.STEP, 0, 10), (HOST, "2", Kind.STEP, 10, 10), (HOST, "a", Kind.OP, 0, 10),
        (HOST, "b", Kind.OP, 9, 3), (STREAM, "k", Kind.OP, 19, 30), (STREAM, "later", Kind.OP, 60, 1),
    )  # fmt: skip
    assert [span.name for span in chrome.of_steps(made, {"2"})] == ["b", "2", "k"]
    assert list(chrome.of_steps(made, {"3"})) == []
