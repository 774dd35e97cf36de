from __future__ import annotations

from typing import Any

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_key import CallSite
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile
from pytest_opprof.report.html import profile_page, times
from pytest_opprof.sites.chains import Frame
from pytest_opprof.timeline.spans import Kind

from ...timeline.made import HOST, SECOND, STREAM, in_use, timeline
from .read import Page, row

HERE = Environment((("made", "1"),), "cpu", "")
OPS = (
    SavedOp("conv1", "Conv2D", "1", 0, 2, 800_000, input_dtypes=("f32",), computation=4e6),
    SavedOp("cast_a", "Cast", "2", 1, 3, 150_000, 50_000, input_dtypes=("f32",), output_dtypes=("f16",)),
    SavedOp("copy", "Copy", "10", 1, 1, 50_000),
)


def page_of(*records: SavedOp, **more: Any) -> Page:
    saved = SavedProfile("made by hand", HERE, records or OPS, **{"steps": ("1", "2"), **more})
    return Page(profile_page.html(saved, "a.json"))


def test_what_takes_most_is_said_first_and_all_of_it_is_in_the_table() -> None:
    page = page_of(step_ns=(900_000, 2_000_000), peak_memory=1 << 20)
    assert page.text.startswith("Conv takes 80% of 1 ms device time a.json · made by hand")
    for card in (
        "1 ms device time of all ops, added up",
        "50 us host time of all ops, all threads added up; the device works meanwhile",
        "3 casts, 150 us",
        "1 copy, 50 us",
        "1 MiB peak memory",
    ):
        assert card in page.text
    assert "900 us wall time of the fastest of 2 steps; slowest: 2 ms" in page.text
    assert row(page, "ops", "Conv Conv2D")[1:] == ["2", "800 us", "80%", "", "80%", "400 us", "4 MFLOP", "5 GFLOP/s"]
    assert row(page, "ops", "Cast")[1:] == ["3", "150 us", "15%", "", "95%", "50 us", "-", "-"]
    assert row(page, "casts", "Cast[float32->float16]")[1:3] == ["3", "150 us"]
    assert row(page, "steps", "2") == ["2", "2 ms", "200 us", ""]


def test_kernels_are_those_that_cost_most() -> None:
    kernels = [SavedKernel(f"k{n}<int>", "conv1", calls=2, device_ns=1000 + n) for n in range(130)]
    page = page_of(kernels=tuple(kernels))
    assert page.tables["kernels"][1][:5] == ["k129<int>", "conv1", "2", "1.13 us", ""]
    assert len(page.tables["kernels"]) == 101
    assert "and 30 more kernels" in page.text


def test_the_areas_of_the_treemap_are_the_shares() -> None:
    page = page_of()
    tiles = [each for tag, each in page.tags if tag == "rect" and "x" in each]
    areas = [float(each["width"] or 0) * float(each["height"] or 0) for each in tiles]
    assert len(areas) == 3
    assert 0.77 < areas[0] / sum(areas) < 0.83


def test_a_name_in_the_treemap_is_whole_or_says_that_it_is_cut() -> None:
    (op,) = profile_page._ops(SavedProfile("", HERE, (SavedOp("a", "BatchNormalization", device_ns=1.0),)), "device")
    labels = [profile_page._Tile(op, 0, 0, width, 50).label for width in (40, 60, 100, 140, 160)]
    assert labels == [
        ("", 11),  # too little of it would be left
        ("Batch…", 11),
        ("BatchNorma…", 11),
        ("BatchNormalization", 11),
        ("BatchNormalization", 13),
    ]


def test_sections_that_would_say_nothing_are_left_out() -> None:
    page = page_of(SavedOp("a", "Cast", device_ns=5.0), SavedOp("b", "Cast", step=1, device_ns=5.0))
    assert "casts" not in page.tables  # nobody knows from what to what
    assert "steps" in page.tables
    counted = page_of(SavedOp("a", "Cast", input_dtypes=("f32",), output_dtypes=("f16",)), SavedOp("b", "Mul", step=1))
    assert counted.tables["casts"] == [["cast", "calls"], ["Cast[float32->float16]", "1"]]
    assert "steps" not in counted.tables


def test_where_the_time_of_devices_is_told_by_step_steps_stand_once() -> None:
    ran = timeline((STREAM, "k", Kind.OP, 0, 5), (HOST, "1", Kind.STEP, 0, 9), (HOST, "2", Kind.STEP, 9, 9))
    saved = SavedProfile("made", HERE, OPS, steps=("1", "2"), step_ns=(9, 9))
    page = Page(profile_page.html(saved, "a.json", times.of(saved, ran, is_chosen=False)))
    assert [cells[0] for cells in page.tables["breakdown"]] == ["step", "all", "1", "2"]
    assert "steps" not in page.tables
    assert "computing" in page.text.partition("Device time computing")[2].partition("Ops")[0]


def test_the_headline_is_the_largest_part_of_the_time_of_the_device() -> None:
    records = (
        OPS[0],
        SavedOp("hcom", "hcom_allReduce", device_ns=30_000),
        SavedOp("late", "Add", step=1, device_ns=9_000),
    )
    saved = SavedProfile("made", HERE, records, steps=("1", "outside"))
    ran = timeline(
        (HOST, "1", Kind.STEP, 0, 1_000_000),
        (STREAM, "conv", Kind.OP, 0, 400_000, 0),
        (SECOND, "nccl", Kind.COMMUNICATION, 300_000, 620_000, 0),
    )
    page = Page(profile_page.html(saved, "a.json", times.of(saved, ran, is_chosen=False)))
    assert page.text.startswith("Communication is 52% of the 1 ms step a.json")
    assert "The most expensive op: Conv , 98.9% of 809 us device time of all ops." in page.text
    assert (
        "809 us in ops and 30 us in communication are 839 us of work on the device. In the 1 ms step the device was"
        " busy for 920 us and idle for 80 us. 9 us of the work ran outside of every step."
    ) in page.text
    assert "920 us busy time of the device: work at the same time counts once" in page.text
    assert "Overlap communication with computing 520 us of 1 ms (52%)" in page.text
    hint = [each["href"] for tag, each in page.tags if tag == "a" and "breakdown" in str(each["href"])]
    assert hint == ["#breakdown-0"]
    assert "breakdown-0" in {each.get("id") for _, each in page.tags}


def test_work_of_several_streams_is_more_than_the_busy_time_and_the_page_says_why() -> None:
    saved = SavedProfile("made", HERE, (SavedOp("a", "Add", device_ns=180.0),))
    ran = timeline((STREAM, "a", Kind.OP, 0, 90, 0), (SECOND, "b", Kind.OP, 0, 90, 0))
    text = Page(profile_page.html(saved, "a.json", times.of(saved, ran, is_chosen=False))).text
    assert text.startswith("Computing is 100% of the 90 ns recorded")
    assert "The 180 ns in ops is more than the busy time: streams work at the same time" in text


def test_an_op_has_its_shapes_and_rates() -> None:
    wide, narrow = ((64, 3), (3, 8)), ((2, 3), (3, 8))
    page = page_of(
        SavedOp("a", "MatMul", calls=2, device_ns=1000.0, memory=5e3, input_shapes=wide, input_dtypes=("f32", "f32")),
        SavedOp("b", "MatMul", calls=1, device_ns=4000.0, input_shapes=narrow, input_dtypes=("f16", "f16")),
        SavedOp("c", "Add", device_ns=0.0, memory=10.0),
    )
    shapes = "[2,3] [3,8] float16: 1 call, 4 us[64,3] [3,8] float32: 2 calls, 1 us"
    cells = row(page, "ops", f"MatMul2 shapes{shapes}")
    assert cells[6:] == ["1.67 us", "4.88 KiB", "954 MiB/s"]
    assert row(page, "ops", "Add")[7:] == ["10 B", "-"]  # no time passed: a rate would be infinite


def test_source_lines_have_the_ops_that_they_asked_for() -> None:
    def at(line: int) -> CallSite:
        return CallSite((Frame("model.py", "forward", line),))

    page = page_of(
        SavedOp("a", "Cast", calls=2, device_ns=30.0, site=at(3)),
        SavedOp("b", "Cast", device_ns=70.0, site=at(9), step=1),
        SavedOp("c", "MatMul", device_ns=100.0, site=at(9)),
    )
    assert page.tables["lines"] == [
        ["line", "op", "calls", "device time", "share"],
        ["model.py:9 in forward", "MatMul", "1", "100 ns", "50%"],
        ["model.py:9 in forward", "Cast", "1", "70 ns", "35%"],
        ["model.py:3 in forward", "Cast", "2", "30 ns", "15%"],
    ]
    assert "lines" not in page_of().tables


def test_the_ops_that_hold_memory_at_the_peak_lead_to_their_rows() -> None:
    ran = timeline((HOST, "forward", Kind.RANGE, 0, 9), (HOST, "Conv2D", Kind.OP, 2, 6), (STREAM, "k", Kind.OP, 4, 5))
    ran.memory = {"device 0": in_use((0, 256), (3, 1280))}
    saved = SavedProfile("made", HERE, OPS, steps=("1", "2"))
    page = Page(profile_page.html(saved, "a.json", times.of(saved, ran, is_chosen=False)))
    assert "Memory at the peak of device 0 1.25 KiB in use" in page.text
    assert page.tables["peak-0"][1:] == [
        ["Conv2D", "forward", "1 KiB", "80%", "", "1"],
        ["(from before the recording)", "", "256 B", "20%", "", ""],
    ]
    assert "#op-0" in {each.get("href") for _, each in page.tags}


def test_a_profile_without_times_is_a_table_of_calls() -> None:
    page = page_of(SavedOp("a", "Cast", calls=4), SavedOp("b", "Conv2D"), steps=("",))
    assert page.text.startswith("2 ops, without times")
    assert page.tables["ops"][0] == ["op", "calls"]
    assert row(page, "ops", "Cast") == ["Cast", "4"]
    assert "svg" not in {tag for tag, _ in page.tags}


def test_times_of_zero_and_communication_alone_are_no_error() -> None:
    assert page_of(SavedOp("a", "Cast", device_ns=0.0), steps=("",)).text.startswith("1 op, without times")
    page = page_of(SavedOp("a", "hcom_allReduce", device_ns=5000.0), SavedOp("b", "Add", device_ns=1.0), steps=("",))
    assert "5 us communication, added up; not part of the time of ops" in page.text


def test_names_are_text_whatever_they_hold() -> None:
    name = "</script><img src=x onerror=alert(1)>"
    page = page_of(SavedOp(name, name, device_ns=10.0), steps=("",), kernels=(SavedKernel(name, name, device_ns=1),))
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.tables["kernels"][1][0] == name
