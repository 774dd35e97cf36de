"""A duration that is no number is an error wherever it stands, and with --partial told, never a zero.

The files are made by us in the formats of the profilers: no recording at hand has such a duration.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.cli import main
from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.formats import Found
from pytest_opprof.frameworks.files.place import Place

MISSING = ("", "N/A", "NaN", "null")


def table(name: str, header: str, row: str) -> Callable[[Path, str], None]:
    """Return what writes a table with three rows, one of which has the given cell for a duration."""

    def write(folder: Path, missing: str) -> None:
        rows = [row.format(duration) for duration in ("3", missing, "4")]
        (folder / name).write_text("\n".join([header, *rows, ""]))

    return write


def calls(folder: Path, missing: str) -> None:
    """Write the calls of MindSpore on a CPU."""
    times = " ".join(f"{start},{duration},7" for start, duration in ((1, "3e-3"), (2, missing), (3, "4e-3")))
    (folder / "cpu_op_execute_timestamp_0.txt").write_text(f"Default/Cast-op1;HostCpuOps;{times} \n")


TABLES = {
    "kernel_details": table("kernel_details.csv", "Name,Type,Duration(us)", "cast,Cast,{}"),
    "op_summary": table("op_summary_1.csv", "Op Name,OP Type,Task Duration(us)", "cast,Cast,{}"),
    "op_statistic": table("op_statistic.csv", "OP Type,Core Type,Count,Total Time(us)", "Cast,AI_CORE,1,{}"),
    "operator_details": table(
        "operator_details.csv", "Name,Host Self Duration(us),Device Self Duration(us)", "aten::to,1,{}"
    ),
    "mindspore details": table(
        "cpu_op_detail_info_0.csv",
        "full_op_name,op_type,op_occurrences,op_total_time(us)",
        "Default/Cast-op1,Cast,1,{}",
    ),
    "mindspore gpu": table(
        "gpu_op_detail_info_0.csv",
        "op_type,op_full_name,op_occurrences,op_total_time(us),cuda_activity_cost_time(us),cuda_activity_call_count",
        "Cast,Default/Cast-op1,1,1,{},1",
    ),
    "mindspore ascend": table(
        "aicore_intermediate_0_detail.csv",
        "full_op_name,execution_time(us),execution_frequency",
        "Default/Cast-op1,{},1",
    ),
}


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("name", TABLES)
def test_a_cell_without_a_duration_is_an_error_and_its_call_counts_where_a_part_is_read(
    tmp_path: Path, name: str, missing: str
) -> None:
    TABLES[name](tmp_path, missing)
    (found,) = formats.find(Place(tmp_path))
    with pytest.raises(TraceError, match="a duration is missing or not a number: row 3 "):
        formats.read(found)
    trace = formats.read(found, partial=True)
    assert trace.is_cut
    assert sum(record.calls for record in trace.records) == 3
    assert sum(record.device_ns or 0 for record in trace.records) == 7000
    assert [remark for remark in trace.remarks if "1 durations are missing or not numbers: counted" in remark]


@pytest.mark.parametrize("missing", MISSING)
def test_a_call_of_mindspore_without_a_duration_is_left_out(tmp_path: Path, missing: str) -> None:
    calls(tmp_path, missing)
    (found,) = formats.find(Place(tmp_path))
    with pytest.raises(TraceError, match=r"missing or not a number: a call of 'Default/Cast-op1' in line 1"):
        formats.read(found)
    trace = formats.read(found, partial=True)
    assert [(record.calls, record.device_ns) for record in trace.records] == [(2, 7000)]
    assert "1 durations are missing or not numbers: left out" in trace.remarks[0]
    with open(tmp_path / "cpu_op_execute_timestamp_0.txt", "a") as file:
        file.write(f"Default/Mul-op1;HostCpuOps;1,{missing},7 \n")
    assert formats.read(found, partial=True).records == trace.records


TIMELINES = {
    "torch": ({"schemaVersion": 1}, {"cat": "cpu_op", "name": "aten::mm"}),
    "jax": (
        {"metadata": {"highres-ticks": True}},
        {"name": "convert.1", "args": {"hlo_op": "convert.1", "hlo_module": "jit_f"}},
    ),
    "onnxruntime": (
        None,
        {"cat": "Node", "name": "a_kernel_time", "args": {"op_name": "Cast", "provider": "CPUExecutionProvider"}},
    ),
    "ascend_timeline": (None, {"name": "Cast-op1", "args": {"Task Type": "AI_CORE"}}),
}


@pytest.mark.parametrize("missing", ['"dur": null,', '"dur": NaN,', '"dur": "soon",', ""])
@pytest.mark.parametrize("name", TIMELINES)
def test_an_event_without_a_duration_is_an_error_and_told_where_a_part_is_read(
    tmp_path: Path, name: str, missing: str
) -> None:
    head, event = TIMELINES[name]
    common = json.dumps({"ph": "X", "pid": 1, "tid": 1, **event})[1:]
    events = ", ".join(
        f'{{"ts": {start}, {duration} {common}'
        for start, duration in ((10, '"dur": 3,'), (20, missing), (30, '"dur": 4,'))
    )
    text = f"[{events}]" if head is None else f'{json.dumps(head)[:-1]}, "traceEvents": [{events}]}}'
    (tmp_path / "trace.json").write_text(text)
    found = Found(name, Place(tmp_path / "trace.json"))
    with pytest.raises(TraceError, match="a duration is missing or not a number: "):
        formats.read(found)
    trace = formats.read(found, partial=True)
    assert sum(record.device_ns or 0 for record in trace.records) == 7000
    assert [remark for remark in trace.remarks if remark.startswith("1 durations are missing or not numbers: ")]


def test_an_event_of_megengine_without_a_time_is_an_error(tmp_path: Path) -> None:
    events = [{"ph": "B", "name": "Add", "tid": 1}, {"ph": "E", "name": "Add", "tid": 1, "ts": 5}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "gpu_usgae_ratio": 0}))
    with pytest.raises(TraceError, match=r"event 0: 'Add' has no time"):
        formats.read(Found("megengine_timeline", Place(path)))


def test_no_limit_on_time_passes_for_a_duration_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TABLES["kernel_details"](tmp_path, "")
    given = str(tmp_path / "kernel_details.csv")

    def run(*arguments: str) -> tuple[int, str, str]:
        return main.main(arguments), *capsys.readouterr()

    code, _, err = run("check", given, "--budget", "device_time=9ms")
    assert (code, "row 3 ('Duration(us)' is '')" in err) == (2, True)
    code, out, _ = run("check", given, "--budget", "device_time=9ms", "--partial")
    assert (code, "note: 1 durations are missing or not numbers" in out) == (2, True)
    assert run("check", given, "--budget", "device_time=6us", "--partial")[0] == 1
    assert run("check", given, "--budget", "Cast=2", "--partial")[0] == 1
    code, out, err = run("show", given, "--partial", "--format", "json")
    assert (code, json.loads(out)["device_time_ns"]) == (0, 7000)
    assert ["1 durations are missing" in remark for remark in json.loads(out)["remarks"]] == [True, False]
    assert "1 calls have no time" in json.loads(out)["remarks"][1]
    code, out, _ = run("diff", given, given, "--partial", "--format", "json")
    assert (code, json.loads(out)["total"]["now_ns"]) == (2, 7000)
