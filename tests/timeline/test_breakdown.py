"""The time of a device by what it did: each ns is looked at alone, and gives the same."""

from __future__ import annotations

import csv

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.timeline.breakdown import BETWEEN, Breakdown, added, breakdown
from pytest_opprof.timeline.spans import Kind, Span, Timeline

from ..conftest import shared
from .made import HOST, SECOND, STREAM, Event, steps, timeline, works

PARTS = ("computing_ns", "communication_ns", "copying_ns", "idle_ns")


def naive(spans: list[Span]) -> list[tuple[str, dict[str, int]]]:
    """Return the parts of each step of the one device, ns by ns."""
    work = [span for span in spans if span.lane.on_device and span.kind is not Kind.WAIT and span.duration_ns]
    first: dict[str, Span] = {}
    for span in sorted((span for span in spans if span.kind is Kind.STEP), key=lambda s: (s.start_ns, s.end_ns)):
        first.setdefault(span.name, span)
    windows = [(name, [*range(span.start_ns, span.end_ns)]) for name, span in first.items()]
    if not windows and work:
        windows = [("", [*range(min(s.start_ns for s in work), max(s.end_ns for s in work))])]
    inside = {moment for _, moments in windows for moment in moments}
    if inside and (outside := [moment for moment in range(min(inside), max(inside)) if moment not in inside]):
        windows.append((BETWEEN, outside))
    found = []
    for name, moments in windows if work else []:
        counts = dict.fromkeys((*PARTS, "overlapped_ns", "not_asked_ns", "not_begun_ns", "unexplained_ns"), 0)
        for moment in moments:
            now = {span.kind for span in work if span.start_ns <= moment < span.end_ns}
            part = next((p for kind, p in zip((Kind.OP, Kind.COMMUNICATION, Kind.COPY), PARTS) if kind in now), "")
            counts[part or "idle_ns"] += 1
            counts["overlapped_ns"] += {Kind.OP, Kind.COMMUNICATION} <= now
            if not now:
                counts[reason(work, moment)] += 1
        found.append((name, counts))
    return found


def reason(work: list[Span], moment: int) -> str:
    """Return why the device did nothing at that moment."""
    following = [span.start_ns for span in work if span.start_ns > moment]
    launches = [s.launched_ns for s in work if s.start_ns == min(following, default=-1) and s.launched_ns is not None]
    if not launches:
        return "unexplained_ns"
    if moment >= min(launches):
        return "not_begun_ns"
    is_first = not any(span.start_ns <= moment for span in work)
    return "unexplained_ns" if is_first else "not_asked_ns"


@given(st.lists(works(), max_size=8), st.lists(steps(), max_size=3))
def test_every_ns_counts_once_for_what_the_device_did(events: list[Event], marked: list[Event]) -> None:
    made = timeline(*events, *marked)
    rows = breakdown(made)
    expected = naive(list(made))
    assert [row.step for row in rows] == [name for name, _ in expected]
    for row, (_, counts) in zip(rows, expected):
        told = row.not_asked_ns is not None
        assert told == any(event[5] is not None for event in events if event[2] is not Kind.WAIT and event[4])
        for name, count in counts.items():
            if told or name in (*PARTS, "overlapped_ns"):
                assert getattr(row, name) == count, name
        assert sum(getattr(row, part) for part in PARTS) == row.total_ns


def test_idle_time_is_that_in_which_the_next_work_was_not_asked_for_and_that_in_which_it_had_not_begun() -> None:
    made = timeline(
        (STREAM, "a", Kind.OP, 10, 10, 2),
        (STREAM, "b", Kind.OP, 50, 10, 35),
        (SECOND, "c", Kind.OP, 70, 10, 5),
        (STREAM, "d", Kind.OP, 90, 10, None),
        (HOST, "1", Kind.STEP, 0, 110),
    )
    (row,) = breakdown(made)
    assert (row.computing_ns, row.idle_ns) == (40, 70)
    assert (row.not_asked_ns, row.not_begun_ns, row.unexplained_ns) == (15, 8 + 15 + 10, 2 + 10 + 10)


def test_only_the_steps_that_are_asked_for_and_of_a_step_marked_twice_the_first() -> None:
    made = timeline(
        (STREAM, "k", Kind.OP, 0, 100), (HOST, "1", Kind.STEP, 0, 10), (HOST, "2", Kind.STEP, 20, 30),
        (HOST, "2", Kind.STEP, 60, 30),
    )  # fmt: skip
    assert [(row.step, row.total_ns) for row in breakdown(made)] == [("1", 10), ("2", 30), (BETWEEN, 10)]
    assert [(row.step, row.total_ns) for row in breakdown(made, {"2"})] == [("2", 30)]
    assert added(breakdown(made)).total_ns == 40


def test_time_between_steps_is_broken_down_where_both_of_its_steps_are_asked_for() -> None:
    made = timeline(
        (STREAM, "k", Kind.OP, 0, 12), (STREAM, "k", Kind.OP, 33, 4),
        (HOST, "1", Kind.STEP, 0, 10), (HOST, "2", Kind.STEP, 20, 10), (HOST, "3", Kind.STEP, 40, 10),
    )  # fmt: skip
    (row,) = (row for row in breakdown(made) if row.step == BETWEEN)
    assert (row.total_ns, row.computing_ns, row.idle_ns) == (20, 6, 14)
    assert added(breakdown(made)).total_ns == 30
    assert [(row.step, row.total_ns) for row in breakdown(made, {"1", "2"})] == [("1", 10), ("2", 10), (BETWEEN, 10)]
    assert [row.step for row in breakdown(made, {"1", "3"})] == ["1", "3"]


def test_without_work_of_a_device_there_is_nothing() -> None:
    assert breakdown(timeline((HOST, "op", Kind.OP, 0, 5), (STREAM, "w", Kind.WAIT, 0, 5))) == []


def read(path: str) -> tuple[formats.Found, Timeline]:
    (found,) = formats.find(Place(shared(path)))
    timeline = formats.timeline(found)
    assert timeline is not None
    return found, timeline


def test_a_timeline_of_torch_npu_has_the_times_that_its_own_tool_found() -> None:
    folder = "ascend/torchnpu-alexnet/text/level1/rank0_ascend_pt"
    (row,) = breakdown(read(folder)[1])
    with shared(f"{folder}/ASCEND_PROFILER_OUTPUT/step_trace_time.csv").open() as file:
        (told,) = csv.DictReader(file)
    pairs = {
        "Computing": row.computing_ns,
        "Communication(Not Overlapped)": row.communication_ns,
        "Overlapped": row.overlapped_ns,
    }
    for column, ns in pairs.items():
        assert abs(ns - float(told[column]) * 1000) < 200  # 190 kernels, each rounded to whole ns
    # Its step begins with the first task (Preparing comes before), and copies are a part of Free.
    assert 0 < row.copying_ns < float(told["Free"]) * 1000


def test_what_a_device_computed_and_moved_is_what_the_reader_of_ops_found_busy() -> None:
    found, timeline = read("torch-cuda/hta_a100_rank0_shapes.json.gz")
    rows = [row for row in breakdown(timeline) if row.step != BETWEEN]
    saved = formats.read(found)
    assert [row.step for row in rows] == list(saved.steps[:-1])
    assert [row.total_ns for row in rows] == list(saved.step_ns or ())
    (row,) = breakdown(span for span in timeline if span.kind is not Kind.STEP)
    assert any(f"busy for {(row.total_ns - row.idle_ns) / 1e6:.3f} ms" in remark for remark in saved.remarks)


def test_holistic_trace_analysis_finds_the_same_times() -> None:
    """The figures are those of HolisticTraceAnalysis 0.5.0 (include_last_profiler_step=True)."""
    _, timeline = read("torch-cuda/hta_trace_diff_control.json.gz")
    (row,) = breakdown(span for span in timeline if span.kind is not Kind.STEP)
    assert (row.total_ns, row.idle_ns, row.computing_ns) == (464_594_000, 76_007_000, 281_336_000)
    assert row.communication_ns + row.copying_ns == 107_251_000
    assert round(100 * row.overlapped_ns / (row.communication_ns + row.overlapped_ns), 2) == 46.24


def test_of_nsight_systems_there_are_no_steps_and_the_causes_add_up() -> None:
    (row,) = breakdown(read("nsys/cloverleaf-cuda.trimmed.sqlite.gz")[1])
    assert row == Breakdown(
        "GPU 0", "", 342_407_810, 294_404_540, 0, 9_390_923, 38_612_347, 0, 20_281_868, 18_330_479, 0
    )
