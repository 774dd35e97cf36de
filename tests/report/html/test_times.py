from __future__ import annotations

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import SavedOp, SavedProfile
from pytest_opprof.report.html import profile_page, times
from pytest_opprof.timeline.spans import Kind, Timeline

from ...timeline.made import HOST, STREAM, timeline
from .read import Page, row


def page_of(found: Timeline, *steps: str, is_chosen: bool = False) -> Page:
    records = tuple(SavedOp("conv", "Conv2D", device_ns=9.0, step=n) for n in range(len(steps or [""])))
    saved = SavedProfile("made by hand", Environment((("made", "1"),), "cpu", ""), records, steps=steps or ("",))
    return Page(profile_page.html(saved, "a.json", times.of(saved, found, is_chosen=is_chosen)))


def two_steps(name: str = "forward") -> Timeline:
    return timeline(
        (HOST, "1", Kind.STEP, 0, 100),
        (HOST, "2", Kind.STEP, 100, 300),
        (HOST, name, Kind.RANGE, 10, 40),
        (HOST, name, Kind.RANGE, 110, 40),
        (HOST, "aten::conv2d", Kind.OP, 12, 20),
        (STREAM, "conv", Kind.OP, 40, 40, 20),
        (STREAM, "Memcpy DtoH", Kind.COPY, 200, 60),
    )


def test_the_time_of_each_step_adds_up_and_idle_time_has_its_causes() -> None:
    page = page_of(two_steps(), "1", "2")
    assert page.tables["breakdown"][0][3:] == [
        *("computing", "communication", "copying", "idle"),
        *("idle: host had launched nothing", "idle: launched, not started", "idle: unknown", "overlapped"),
    ]
    assert [cells[0] for cells in page.tables["breakdown"][1:]] == ["all", "1", "2"]
    cells = row(page, "breakdown", "1")[1:]
    assert cells == ["100 ns", "", "40 ns 40%", "0 ns", "0 ns", "60 ns 60%", "0 ns", "20 ns 20%", "40 ns 40%", "0 ns"]
    bars = [dict(each)["aria-label"] for tag, each in page.tags if tag == "svg" and "aria-label" in dict(each)]
    assert "computing 40%, communication 0%, copying 0%, idle 60%" in bars


def test_ranges_have_their_ops_and_what_the_device_did() -> None:
    assert row(page_of(two_steps(), "1", "2"), "ranges", "forward") == [
        *("forward", "2", "80 ns", "", "1", "20 ns"),
        *("40 ns", "70 ns"),
    ]


def test_ranges_and_the_ops_in_them_are_a_tree_that_opens() -> None:
    page = page_of(two_steps(), "1", "2")
    tree = page.text.partition("Device time by range and op work belongs to the range and op that launched it; ")[2]
    assert tree.startswith("40 ns together 40 ns 100% forward 2 calls 40 ns 100% aten::conv2d 1 call")
    small = [(HOST, f"r{n}", Kind.RANGE, 10 * n, 5) for n in range(130)]
    page = page_of(timeline(*small, (HOST, "large", Kind.RANGE, 5000, 9000)))
    assert "Time by range and op ranges and the ops in them, as long as they ran; 9.65 us together" in page.text
    assert "9 us 93.3% large 1 call" in page.text
    assert "and 130 smaller, 650 ns together" in page.text
    assert "by range and op" not in page_of(timeline((HOST, "aten::add", Kind.OP, 0, 10))).text


def test_only_the_steps_that_were_chosen_are_drawn_and_counted() -> None:
    page = page_of(two_steps(), "2", is_chosen=True)
    assert [cells[0] for cells in page.tables["breakdown"][1:]] == ["2"]
    assert row(page, "ranges", "forward")[1:3] == ["1", "40 ns"]
    assert "When it ran 300 ns" in page.text
    assert "device 0 stream 7: busy 20%, 1 event" in page.text


def test_without_a_device_and_without_ranges_there_are_no_such_tables() -> None:
    page = page_of(timeline((HOST, "aten::add", Kind.OP, 0, 10)))
    assert "It does not zoom: opprof open shows the profile in Perfetto" in page.text
    assert page.tables.keys() == {"ops"}


def test_what_is_left_out_is_counted() -> None:
    many = [(HOST, f"r{n}", Kind.RANGE, 10 * n, 5) for n in range(130)]
    page = page_of(timeline(*many, (STREAM, "k", Kind.OP, 0, 9)))
    assert len(page.tables["ranges"]) == 101
    assert "and 30 more ranges" in page.text


def test_names_are_text_whatever_they_hold() -> None:
    name = "</script><img src=x onerror=alert(1)>"
    page = page_of(
        timeline(
            (HOST._replace(thread=name), name, Kind.STEP, 0, 9),
            (HOST._replace(thread=name), name, Kind.RANGE, 0, 9),
            (STREAM._replace(process=name), name, Kind.OP, 0, 9),
            (STREAM, name, Kind.OP, 0, 9),
        ),
        name,
    )
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.tables["ranges"][1][0] == name
    assert name in {cells[0] for cells in page.tables["breakdown"]}
