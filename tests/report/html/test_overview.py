from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.report.html import marks
from pytest_opprof.report.html.overview import AREA, LABEL, WIDTH, DrawnLane, DrawnMemory, overview
from pytest_opprof.timeline.spans import Kind, Memory, Timeline

from ...timeline.made import HOST, OTHER, SECOND, STREAM, in_use, steps, timeline, works
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


def test_the_axis_has_at_most_ten_parts_of_round_numbers() -> None:
    for length, last in ((7, "7 ns"), (999, "900 ns"), (1_234_567, "1.2 ms"), (10**9, "1 s")):
        found = overview(timeline((STREAM, "k", Kind.OP, 50, length)), 50, 50 + length)
        assert found is not None
        assert found.ticks[0] == (0, "0 ns")
        assert found.ticks[-1][1] == last
        assert 3 < len(found.ticks) <= 11
        assert all(0 <= x <= WIDTH for x, _ in found.ticks)


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


def area(memory: Memory, length: int) -> DrawnMemory:
    found = overview(timeline((STREAM, "k", Kind.OP, 100, length)), 100, 100 + length, {"device 0": memory})
    assert found is not None
    (drawn,) = found.memory
    return drawn


def test_memory_is_an_area_below_the_lanes_and_its_peak_is_named_with_time_and_step() -> None:
    ran = timeline(
        (HOST, "1", Kind.STEP, 0, 50), (HOST, "2", Kind.STEP, 50, 50), (STREAM, "k", Kind.OP, 0, 124)
    )  # fmt: skip
    memory = {"CPU": in_use((0, 5)), "device 0": in_use((0, 10), (62, 40), (93, 0)), "device 1": in_use()}
    found = overview(ran, 0, 124, memory)
    assert found is not None
    device, cpu = found.memory
    assert (device.device, device.peak, device.peak_ns, device.step) == ("device 0", 40, 62, "2")
    bottom, quarter = LABEL + AREA, LABEL + AREA * 3 // 4
    assert device.path == f"M0 {bottom}H0V{quarter}H620V{LABEL}H932V{bottom}H1240V{bottom}z"
    assert (device.dot, cpu.step) == ((620, LABEL), "1")
    assert found.lanes[-1].y < device.y < cpu.y < found.height


@given(st.lists(st.tuples(st.integers(0, 1240), st.integers(-3, 9)), min_size=1))
def test_a_column_of_memory_has_the_most_that_was_in_use_in_it(changes: list[tuple[int, int]]) -> None:
    changes = sorted(((100 + time, size) for time, size in changes), key=lambda change: change[0])
    drawn = area(in_use(*changes), WIDTH)
    steps = [(int(x), int(y)) for x, y in re.findall(r"H(\d+)V(\d+)", drawn.path)][:-1]
    first = min((changes[0][0] - 100) // 2, WIDTH // 2 - 1)
    assert steps[0][0] == 2 * first
    low = min(0, *(size for _, size in changes))
    for column in range(first, WIDTH // 2):
        begin, end = 100 + 2 * column, 102 + 2 * column if column < WIDTH // 2 - 1 else 9999
        before = [size for time, size in changes if time < begin][-1:]
        most = max(before + [size for time, size in changes if begin <= time < end])
        y = round(LABEL + AREA - (most - low) / ((drawn.peak - low) or 1) * AREA)
        assert [at for x, at in steps if x <= 2 * column][-1] == y


def test_of_any_number_of_changes_of_memory_a_column_has_one() -> None:
    changes = [(100 + time, time * 7919 % 1000) for time in range(100_000)]
    drawn = area(in_use(*changes), 100_000)
    assert len(drawn.path) < WIDTH // 2 * 12
    assert drawn.peak == 999


def test_of_chosen_steps_memory_begins_with_what_was_in_use() -> None:
    drawn = area(in_use((3, 80), (90, 20), (105, 40)), 10)
    assert (drawn.peak, drawn.peak_ns) == (40, 5)
    assert drawn.path.startswith(f"M0 {LABEL + AREA}H0V{LABEL + AREA // 2}H620V{LABEL}")
