from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.ascend.saved import profile, timeline
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.profile.saved import SavedProfile
from pytest_opprof.questions import query
from pytest_opprof.questions.question import in_steps

from ....conftest import shared

ALEXNET = "ascend/mindspore-legacy/alexnet_2023"
TORCH_NPU = "ascend/torchnpu-alexnet/text/level1/rank0_ascend_pt"


def read(path: Path) -> SavedProfile:
    (found,) = formats.find(Place(path))
    assert found.format == "ascend_timeline"
    return formats.read(found)


def calls(trace: SavedProfile, step: int = 0) -> Counter[str]:
    found: Counter[str] = Counter()
    for record in trace.records:
        found[record.type] += record.calls if record.step == step else 0
    return found


def task(name: str, dur: float, kind: str = "AI_CORE", **event: Any) -> dict[str, Any]:
    return {"name": name, "pid": 3, "tid": 2, "ts": "5.0", "dur": dur, "args": {"Task Type": kind}, "ph": "X", **event}


def test_a_folder_of_task_times_is_one_profile_with_an_iteration_a_step() -> None:
    trace = read(shared(ALEXNET))
    assert trace.steps == ("1", "2", "3")
    us = [(query.total(in_steps(trace, step), "device") or 0) / 1000 for step in trace.steps]
    assert [round(total) for total in us] == [6951, 6732, 6772]
    for step in range(3):
        assert (calls(trace, step)["Cast"], calls(trace, step)["TransData"]) == (19, 18)
    assert trace.step_ns == (47_587_810, 15_369_160, 15_304_020)
    assert trace.inferred_types


def test_communication_of_a_folder_of_task_times_is_beside_the_time_of_each_step() -> None:
    trace = read(shared(ALEXNET))
    (file,) = shared(ALEXNET).glob("PROF*/device_0/timeline/step_trace_0_2_1.json")
    reduces = {event["name"]: event["dur"] for event in json.loads(file.read_text()) if event.get("cat") == "Reduce"}
    for step in "123":
        assert query.communication(in_steps(trace, step)) == pytest.approx(reduces[f"Reduce_{step}_0"] * 1000)
    assert any("communication is that of step_trace (Reduce)" in remark for remark in trace.remarks)
    (whole,) = file.parent.glob("msprof_0_2_1.json")
    first = query.communication(in_steps(trace, "1"))
    assert query.communication(read(whole)) == pytest.approx(first, rel=1e-3)


def test_communication_is_named_where_every_iteration_has_a_timeline_of_everything(tmp_path: Path) -> None:
    named = [("process_name", "", "HCCL"), ("thread_name", 9, "Communication 0")]
    names = [{"ph": "M", "name": what, "pid": "5", "tid": tid, "args": {"name": name}} for what, tid, name in named]
    reduce = {"name": "Default/AllReduce-op5_0", "ph": "X", "pid": 5, "tid": 9, "dur": 70}
    for iteration in (1, 2):
        (tmp_path / f"task_time_0_1_{iteration}.json").write_text(json.dumps([task("Cast-op1", 5)]))
        (tmp_path / f"msprof_0_1_{iteration}.json").write_text(json.dumps([task("Cast-op1", 5), *names, reduce]))
    trace = read(tmp_path)
    assert (calls(trace, 0), query.communication(trace)) == (Counter(Cast=1, AllReduce=1), 140_000)
    (tmp_path / "msprof_0_1_2.json").unlink()
    trace = read(tmp_path)
    assert query.communication(trace) == 70_000
    assert "communication is known of 1 of 2 iterations only (msprof_*.json)" in trace.remarks


def test_the_timeline_of_everything_counts_each_task_once_and_has_communication() -> None:
    (folder,) = shared(ALEXNET).glob("PROF*/device_0/timeline")
    whole, tasks = read(folder / "msprof_0_2_1.json"), read(folder / "task_time_0_2_1.json")
    assert query.total(whole, "device") == pytest.approx(query.total(tasks, "device"))
    assert calls(whole) - calls(tasks) == Counter(AllReduce=1)
    assert query.communication(whole) == pytest.approx(41_534_300)


def test_a_trace_view_has_the_kernels_of_kernel_details() -> None:
    output = shared(TORCH_NPU) / "ASCEND_PROFILER_OUTPUT"
    table = profile.read(Place(output / "kernel_details.csv"), Options())
    trace = read(output / "trace_view.json")
    # The times in the table are rounded to 0.001 us.
    assert query.total(trace, "device") == pytest.approx(query.total(table, "device"), rel=1e-5)
    assert query.communication(trace) == pytest.approx(query.communication(table), rel=1e-5)
    assert calls(trace) == calls(table)


def test_a_folder_with_tables_is_read_from_them() -> None:
    (found,) = formats.find(Place(shared(TORCH_NPU)))
    assert found.format == "ascend"


def test_tables_in_the_folder_next_to_the_timelines_are_preferred(tmp_path: Path) -> None:
    for name in ("timeline", "summary"):
        (tmp_path / name).mkdir()
    (tmp_path / "timeline" / "task_time_0_1_1.json").write_text(json.dumps([task("Cast-op1", 5)]))
    assert timeline.recognises(Place(tmp_path / "timeline"))
    (tmp_path / "summary" / "op_summary_0_1_1.csv").write_text("Op Name,OP Type,Task Duration(us)\nc,Cast,5\n")
    assert not timeline.recognises(Place(tmp_path / "timeline"))


def test_devices_are_ranks(tmp_path: Path) -> None:
    for device in (0, 3):
        text = json.dumps([task("Cast-op1", 5 + device), task("WAIT", 99, "EVENT_WAIT")])
        (tmp_path / f"task_time_{device}_1_1.json").write_text(text)
    found = formats.find(Place(tmp_path))
    assert [each.rank for each in found] == [0, 3]
    assert [query.total(formats.read(each), "device") for each in found] == [5000, 8000]


@pytest.mark.parametrize("content", ["", "[", '[{"name": "Cast-op1", "ph": "X"'])
def test_an_iteration_whose_file_is_cut_is_missed(tmp_path: Path, content: str) -> None:
    (tmp_path / "task_time_0_1_1.json").write_text(json.dumps([task("Cast-op1", 5)]))
    (tmp_path / "task_time_0_1_2.json").write_text(content)
    (found,) = formats.find(Place(tmp_path))
    with pytest.raises(TraceError, match=r"task_time_0_1_2\.json: is"):
        formats.read(found)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([task("EVENT_WAIT", 9, "EVENT_WAIT")], "holds no kernel of a device"),
        ([task("Cast-op1", -3)], r"'Cast-op1' takes -3\.?0? us"),
    ],
)
def test_a_timeline_that_cannot_be_right_is_refused(tmp_path: Path, events: list[Any], message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(events))
    (found,) = formats.find(Place(tmp_path / "a.json"))
    with pytest.raises(TraceError, match=message):
        formats.read(found)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("step_trace_time.csv", "has the wall time of each step, but no ops"),
        ("operator_memory.csv", "has what each operator allocated, but no ops"),
        ("memory_record.csv", "has the memory in use over time, but no ops"),
        ("l2_cache.csv", "has the hit rates of the L2 cache, but no ops"),
    ],
)
def test_a_table_without_ops_is_named_with_the_file_that_has_them(tmp_path: Path, name: str, what: str) -> None:
    alone = shared(TORCH_NPU) / "ASCEND_PROFILER_OUTPUT" / name
    with pytest.raises(TraceError, match=rf"{name}: {what}: give the folder it is in, with its kernel_details\.csv"):
        formats.find(Place(alone))
    (tmp_path / name).write_bytes(alone.read_bytes())
    with pytest.raises(TraceError, match=rf"is not a profile .*{name} {what}"):
        formats.find(Place(tmp_path))


def test_the_times_of_iterations_alone_are_named_too() -> None:
    (alone,) = shared(ALEXNET).glob("PROF*/device_0/timeline/step_trace_0_2_1.json")
    with pytest.raises(TraceError, match="has the times of iterations, but no ops"):
        formats.find(Place(alone))


def test_kernels_of_the_type_other_count_and_unknown_types_are_said(tmp_path: Path) -> None:
    """In a recording, 47 of 49 Casts are of that type: nobody saw them, and a limit on Cast was kept."""
    (tmp_path / "msprof_1.json").write_text(
        json.dumps(
            [
                *(task("Cast-op1", 5), task("Cast-op2", 7, "Other"), task("aclnnMul_Mul_Mul", 2, "OTHER")),
                *(task("EVENT_WAIT_SQE", 90, "Other"), task("NOTIFY_WAIT", 90, "NOTIFY_WAIT")),
                *(task("what", 90, "QUANTUM_CORE"), task("what", 90, "QUANTUM_CORE")),
            ]
        )
    )
    trace = read(tmp_path / "msprof_1.json")
    assert calls(trace) == Counter(Cast=2, Mul=1)
    assert query.total(trace, "device") == 14_000
    assert "tasks of a type that opprof does not know are left out: QUANTUM_CORE (2)" in trace.remarks
