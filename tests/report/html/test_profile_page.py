from __future__ import annotations

from typing import Any

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile
from pytest_opprof.report.html import profile_page, times
from pytest_opprof.timeline.spans import Kind

from ...timeline.made import HOST, STREAM, timeline
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
    for card in ("1 ms device time", "50 us host time", "3 casts, 150 us", "1 copy, 50 us", "1 MiB peak memory"):
        assert card in page.text
    assert "900 us fastest of 2 steps, slowest 2 ms" in page.text
    assert row(page, "ops", "Conv Conv2D")[1:] == ["2", "800 us", "80%", "", "80%", "400 us", "4 MFLOP"]
    assert row(page, "ops", "Cast")[1:] == ["3", "150 us", "15%", "", "95%", "50 us", "-"]
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
    page = Page(profile_page.html(saved, "a.json", times.of(saved, ran, False)))
    assert [cells[0] for cells in page.tables["breakdown"]] == ["step", "all", "1", "2"]
    assert "steps" not in page.tables
    assert "computing" in page.text.partition("What the device did")[2].partition("Ops")[0]


def test_a_profile_without_times_is_a_table_of_calls() -> None:
    page = page_of(SavedOp("a", "Cast", calls=4), SavedOp("b", "Conv2D"), steps=("",))
    assert page.text.startswith("2 ops, without times")
    assert page.tables["ops"][0] == ["op", "calls"]
    assert row(page, "ops", "Cast") == ["Cast", "4"]
    assert "svg" not in {tag for tag, _ in page.tags}


def test_times_of_zero_and_communication_alone_are_no_error() -> None:
    assert page_of(SavedOp("a", "Cast", device_ns=0.0), steps=("",)).text.startswith("1 op, without times")
    page = page_of(SavedOp("a", "hcom_allReduce", device_ns=5000.0), SavedOp("b", "Add", device_ns=1.0), steps=("",))
    assert "5 us communication (not included above)" in page.text


def test_names_are_text_whatever_they_hold() -> None:
    name = "</script><img src=x onerror=alert(1)>"
    page = page_of(SavedOp(name, name, device_ns=10.0), steps=("",), kernels=(SavedKernel(name, name, device_ns=1),))
    assert "img" not in {tag for tag, _ in page.tags}
    assert page.tables["kernels"][1][0] == name
