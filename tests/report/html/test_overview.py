from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.report.html import marks
from pytest_opprof.report.html.overview import WIDTH, DrawnLane, overview
from pytest_opprof.timeline.spans import Kind, Timeline

from ...timeline.made import HOST, OTHER, SECOND, STREAM, steps, timeline, works
from ...timeline.made import marks as host_marks


def drawn(found: Timeline) -> list[DrawnLane]:
    drawing = overview(found, found.begin_ns, found.end_ns)
    assert drawing is not None
    return drawing.lanes


def columns(lane: DrawnLane) -> list[tuple[str, int, int]]:
    """Return the joined bars: colour, begin, width."""
    paths = [(fill, re.findall(r"M(\d+) \d+h(\d+)", path)) for fill, path in lane.joined]
    return [(fill, int(x), int(width)) for fill, each in paths for x, width in each]


def test_devices_are_above_threads_and_say_how_busy_they_are() -> None:
    found = timeline(
        (HOST, "aten::mm", Kind.OP, 0, 100),
        (STREAM, "gemm", Kind.OP, 50, 25),
        (STREAM, "event", Kind.WAIT, 0, 50),
        (SECOND, "ncclKernel", Kind.COMMUNICATION, 0, 50),
    )
    lanes = drawn(found)
    assert [(each.lane, each.share, each.events) for each in lanes] == [
        (SECOND, 0.5, 1),
        (STREAM, 0.25, 1),
        (HOST, 1.0, 1),
    ]
    bar = lanes[1].bars[0]
    assert (bar.x, bar.width, bar.title) == (620, 309.5, "gemm, 25 ns")
    assert (bar.fill, lanes[0].bars[0].fill) == (marks.SORTS["computes"][0], marks.SORTS["communicates"][0])


def test_what_is_nearer_than_a_column_is_joined_and_has_the_colour_of_most() -> None:
    casts = [(STREAM, "cast", Kind.OP, 1000 * n, 400) for n in range(20_000)]
    adds = [(STREAM, "add", Kind.OP, 1000 * n + 500, 100) for n in range(20_000)]
    (lane,) = drawn(timeline(*casts, *adds))
    assert lane.bars == []
    assert columns(lane) == [(marks.SORTS["moves"][0], 0, WIDTH)]
    assert lane.events == 40_000


def test_a_gap_that_can_be_seen_is_drawn() -> None:
    (lane,) = drawn(timeline((STREAM, "a", Kind.OP, 0, 1), (STREAM, "b", Kind.OP, 999, 1)))
    assert columns(lane) == [(marks.SORTS["other"][0], 0, 2), (marks.SORTS["other"][0], 1238, 2)]


def test_what_is_inside_of_an_op_is_a_row_below_and_ranges_are_not_drawn() -> None:
    events = [(HOST, f"op{n}", Kind.OP, n, 100 - 2 * n) for n in range(9)]
    (lane,) = drawn(timeline((HOST, "forward", Kind.RANGE, 0, 100), *events))
    assert [bar.title.partition(",")[0] for bar in lane.bars] == ["op0", "op1", "op2", "op3"]
    assert (lane.rows, lane.events) == (4, 9)


def test_bars_are_no_more_than_columns_however_many_overlap() -> None:
    (lane,) = drawn(timeline(*((STREAM, f"k{n}", Kind.OP, n, 1000) for n in range(5000))))
    assert len(lane.bars) <= WIDTH / 2


def test_many_lanes_are_cut_to_the_busiest_and_steps_have_labels_where_there_is_room() -> None:
    threads = [(HOST._replace(thread=f"t{n}"), "op", Kind.OP, 0, n) for n in range(1, 41)]
    marked = [(OTHER, str(n), Kind.STEP, n, 1) for n in range(40)]
    found = overview(timeline(*threads, *marked), 0, 40)
    assert found is not None
    assert (len(found.lanes), found.left_out) == (16, 24)
    assert "t24" not in {each.lane.thread for each in found.lanes}
    assert [x for x, _ in found.steps] == [31.0 * n for n in range(40)]
    assert [label for _, label in found.steps[:4]] == ["step 0", "", "step 2", ""]


def test_nothing_that_works_is_no_drawing() -> None:
    assert overview(timeline(), 0, 0) is None
    assert overview(timeline((HOST, "r", Kind.RANGE, 0, 9)), 0, 9) is None
    assert overview(timeline((HOST, "op", Kind.OP, 5, 0)), 5, 5) is None


@given(st.lists(works() | host_marks() | steps()), st.integers(-5, 20), st.integers(0, 30))
def test_all_bars_are_inside_of_the_drawing(events: list[tuple[object, ...]], begin: int, length: int) -> None:
    found = overview(timeline(*events), begin, begin + length)
    for lane in found.lanes if found else ():
        assert 0 <= lane.share <= 1
        assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH for bar in lane.bars)
        assert all(x >= 0 and x + width <= WIDTH for _, x, width in columns(lane))
