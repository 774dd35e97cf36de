"""``opprof show --breakdown`` and ``--ranges``, each as a user calls it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.cli import main

from ...conftest import HERE, shared
from ...report.html.read import Page, row

Run = Callable[..., "tuple[int, str, str]"]
TRAIN = HERE / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call opprof in a folder with a trace of a GPU; return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    launch, kernel = {"correlation": 1}, {"correlation": 1, "device": 0, "stream": 7}
    trace(
        "gpu.json",
        ("user_annotation", "ProfilerStep#8", 0, 100, {}),
        ("user_annotation", "forward", 10, 30, {}),
        ("cpu_op", "aten::mm", 12, 20, {}),
        ("cuda_runtime", "cudaLaunchKernel", 20, 5, launch),
        ("kernel", "gemm", 30, 40, kernel),
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32(int)", 60, 20, {**kernel, "stream": 9, "correlation": 2}),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 90, 5, {**kernel, "correlation": 3}),
        ("user_annotation", "ProfilerStep#9", 100, 50, {}),
    )

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main.main(arguments)
        return code, *capsys.readouterr()

    return call


def trace(path: str, *events: tuple[str, str, int, int, dict[str, int]]) -> None:
    rows = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}
        for cat, name, ts, dur, args in events
    ]
    Path(path).write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}), encoding="utf-8")


def test_the_time_of_each_step_is_broken_down_and_idle_time_has_its_causes(run: Run) -> None:
    code, out, _ = run("show", "gpu.json", "--breakdown")
    lines = out.splitlines()
    assert (code, lines[1:3]) == (0, ["device: device 0", ""])
    assert lines[3].split("  ")[0] == "step"
    cells = {row.split()[0]: row for row in lines[5:]}
    assert list(cells) == ["8", "9", "all"]
    for text in ("100 us", "40 us (40%)", "10 us (10%)", "5 us (5%)", "45 us (45%)"):
        assert text in cells["8"]
    assert "50 us (100%)" in cells["9"]
    (code, out, _) = run("show", "gpu.json", "--breakdown", "--format", "json")
    document = json.loads(out)
    assert (code, document["source"]) == (0, "PyTorch profiler trace")
    assert document["breakdown"][0] == {
        "device": "device 0", "step": "8", "total_ns": 100_000, "computing_ns": 40_000, "communication_ns": 10_000,
        "copying_ns": 5_000, "idle_ns": 45_000, "overlapped_ns": 10_000, "not_asked_ns": 0, "not_begun_ns": 10_000,
        "unexplained_ns": 35_000,
    }  # fmt: skip
    assert [(row["step"], row["idle_ns"]) for row in document["totals"]] == [("all", 95_000)]


def test_time_between_steps_has_a_row_in_every_format_and_is_no_part_of_the_sum(run: Run) -> None:
    trace(
        "gap.json",
        ("user_annotation", "ProfilerStep#8", 0, 100, {}),
        ("kernel", "gemm", 90, 40, {"correlation": 1, "device": 0, "stream": 7}),
        ("user_annotation", "ProfilerStep#9", 150, 50, {}),
    )
    rows = run("show", "gap.json", "--breakdown")[1].splitlines()[-2:]
    assert [row.split("  ")[0] for row in rows] == ["all", "(between steps)"]
    assert ("150 us" in rows[0], "50 us" in rows[1], "20 us (40%)" in rows[1]) == (True, True, True)
    assert "(between steps) | 50 us " in run("show", "gap.json", "--breakdown", "--format", "markdown")[1]
    document = json.loads(run("show", "gap.json", "--breakdown", "--format", "json")[1])
    assert [(row["step"], row["idle_ns"]) for row in document["breakdown"]][-1] == ("(between steps)", 20_000)
    assert document["totals"][0]["total_ns"] == 150_000
    of_csv = [*csv.DictReader(io.StringIO(run("show", "gap.json", "--breakdown", "--format", "csv")[1]))][-1]
    assert (of_csv["step"], of_csv["idle_ns"]) == ("(between steps)", "20000")
    run("show", "gap.json", "-o", "gap.html")
    page = Page(Path("gap.html").read_text(encoding="utf-8"))
    assert "of the 150 us of 2 steps" in page.text, page.text[:500]
    assert [cells[0] for cells in page.tables["breakdown"][1:]] == ["all", "8", "9", "(between steps)"]


def test_a_narrow_terminal_has_the_breakdown_in_two_tables(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wide, _ = run("show", "gpu.json", "--breakdown")
    monkeypatch.setenv("COLUMNS", "80")
    _, narrow, _ = run("show", "gpu.json", "--breakdown")
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, wide.splitlines()))
    of_8 = [row.split("  ") for row in narrow.splitlines() if row.startswith("8 ")]
    (of_8_wide,) = (row.split("  ") for row in wide.splitlines() if row.startswith("8 "))
    cells = [[cell.strip() for cell in row if cell.strip()] for row in of_8]
    assert [*cells[0], *cells[1][1:]] == [cell.strip() for cell in of_8_wide if cell.strip()]


def test_steps_choose_and_csv_has_a_row_for_each(run: Run) -> None:
    code, out, _ = run("show", "gpu.json", "--breakdown", "--steps", "9", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, [(row["step"], row["total_ns"], row["idle_ns"]) for row in rows]) == (0, [("9", "50000", "50000")])
    code, out, _ = run("show", str(TRAIN), "--breakdown", "--format", "markdown")
    assert (code, out.splitlines()[3].startswith("| total")) == (0, True)


def test_ranges_have_their_ops_and_what_the_device_did(run: Run) -> None:
    code, out, _ = run("show", "gpu.json", "--ranges")
    assert code == 0
    assert out.splitlines()[2].split("  ")[0] == "range"
    assert out.splitlines()[4].split() == "forward 1 30 us 1 20 us 40 us 20 us".split()
    rows = json.loads(run("show", "gpu.json", "--ranges", "--format", "json")[1])["ranges"]
    assert rows == [
        {"name": "forward", "calls": 1, "total_ns": 30_000, "ops": 1, "op_ns": 20_000, "device_ns": 40_000,
         "idle_ns": 20_000}
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(run("show", str(TRAIN), "--ranges", "-t", "0", "--format", "csv")[1])))
    assert [row["name"] for row in rows[:2]] == ["train_step#0", "Optimizer.step#SGD.step"]
    assert rows[0]["device_ns"] == ""  # nothing was launched
    assert "Optimizer" in run("show", str(TRAIN), "--ranges", "--name", "^Opt", "-t", "1")[1]


def test_what_cannot_be_answered_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("convert", "gpu.json", "-o", "own.json")[0] == 0
    for option in ("--breakdown", "--ranges"):
        code, out, err = run("show", "own.json", option)
        assert (code, out) == (2, "")
        assert "opprof: own.json: pytest-opprof profile: does not tell when anything ran. These do:\n" in err
    code, _, err = run("show", "gpu.json", "--ranges", "--name", "backward")
    assert (code, "--name 'backward': no range has such a name; opprof show --ranges -t 0 lists" in err) == (2, True)
    trace(
        "plain.json", ("cuda_runtime", "cudaLaunchKernel", 0, 5, {"correlation": 1}), ("cpu_op", "aten::mm", 0, 9, {})
    )
    code, _, err = run("show", "plain.json", "--ranges")
    assert (code, "plain.json: the program marked no range while this was recorded" in err) == (2, True)
    code, _, err = run("show", "plain.json", "--breakdown")
    assert (code, "plain.json: no device worked in this recording" in err) == (2, True)


def test_steps_that_have_no_times_choose_nothing(run: Run) -> None:
    folder = Path("npu")
    folder.mkdir()
    recording = shared("ascend/torchnpu-alexnet/text/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT")
    (folder / "kernel_details.csv").write_bytes((recording / "kernel_details.csv").read_bytes())
    code, out, _ = run("show", "npu", "--breakdown", "--format", "csv")
    assert (code, [row["step"] for row in csv.DictReader(io.StringIO(out))]) == (0, [""])
    said = "opprof: npu: --steps 50: it has steps, but does not tell when they began\n"
    for command in (["show", "--breakdown"], ["show", "--ranges"], ["convert", "-o", "out.trace.json"]):
        code, out, err = run(command[0], "npu", *command[1:], "--steps", "50")
        assert (code, out, said in err) == (2, "", True)
    code, _, err = run("show", "npu", "--steps", "50", "-o", "npu.html")
    assert (code, "the page has no timeline: the profile does not tell when its steps began" in err) == (0, True)
    assert "When it ran" not in Path("npu.html").read_text(encoding="utf-8")
    # A comparison of steps goes on without what the device did meanwhile.
    code, out, _ = run("diff", "npu", "--base-steps", "50", "--steps", "50")
    assert (code, "idle" in out) == (0, False)


def test_no_option_is_taken_in_silence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("show", "gpu.json", "--breakdown", "--op", "Conv", "-t", "5")
    assert (code, "it takes --steps and --format, not --top, --type\n" in err) == (2, True)
    assert err.endswith("\n  --type is for --kernels and the list of ops\n")
    code, _, err = run("show", "gpu.json", "--ranges", "--by", "op")
    assert (code, "it takes --name, --top, --steps and --format, not --aggregate-by" in err) == (2, True)
    with pytest.raises(SystemExit):
        run("show", "gpu.json", "--breakdown", "--kernels")
    assert "not allowed with argument" in capsys.readouterr().err


def test_of_several_profiles_each_says_whose_it_is(run: Run) -> None:
    Path("again.json").write_bytes(Path("gpu.json").read_bytes())
    code, out, _ = run("show", ".", "--rank", "all", "--breakdown")
    assert (code, [line for line in out.splitlines() if line.endswith(".json")]) == (0, ["again.json", "gpu.json"])
    rows = list(csv.DictReader(io.StringIO(run("show", ".", "--rank", "all", "--ranges", "--format", "csv")[1])))
    assert [(row["profile"], row["name"]) for row in rows] == [("again.json", "forward"), ("gpu.json", "forward")]


def test_the_page_has_the_timeline_of_the_steps_asked_for(run: Run) -> None:
    assert run("show", "gpu.json", "-o", "all.html")[0] == 0
    assert run("show", "gpu.json", "--steps=8", "-o", "one.html")[0] == 0
    every, one = (Page(Path(name).read_text(encoding="utf-8")) for name in ("all.html", "one.html"))
    assert [cells[0] for cells in every.tables["breakdown"][1:]] == ["all", "8", "9"]
    assert [cells[0] for cells in one.tables["breakdown"][1:]] == ["8"]
    assert "device 0 stream 7: busy 45%, 2 events" in one.text
    assert row(one, "ranges", "forward")[1:3] == ["1", "30 us"]


def test_the_page_of_a_profile_without_times_has_nothing_of_them(run: Run) -> None:
    trace("old.json", ("cpu_op", "aten::mm", 12, 20, {}))
    assert run("convert", "old.json", "-o", "own.json")[0] == 0
    code, _, said = run("show", "own.json", "-o", "own.html")
    page = Page(Path("own.html").read_text(encoding="utf-8"))
    assert (code, said) == (0, "")
    assert "When it ran" not in page.text
    assert page.tables.keys() == {"ops"}
