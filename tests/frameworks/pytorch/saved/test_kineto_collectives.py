"""How long collectives took, of Kineto traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.pytorch.saved import kineto
from pytest_opprof.profile.saved import Collective, SavedProfile

from ....conftest import HERE, shared

RANKS = [HERE / "data" / "torch-ranks" / f"rank{rank}.pt.trace.json.gz" for rank in range(3)]


def read(path: Path) -> SavedProfile:
    return kineto.read(Place(path), Options())


def test_on_one_host_whose_clock_tells_the_shortest_is_of_the_rank_that_came_last() -> None:
    begins = []
    for path in RANKS:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        begins.append(sorted(event["ts"] for event in events if event["name"] == "gloo:all_reduce"))
    found = [read(path).collectives for path in RANKS]
    assert {(each.op, each.group) for of_rank in found for each in of_rank} == {("AllReduce", "the only one")}
    for one, times in zip(zip(*found), zip(*begins), strict=True):
        durations = [each.duration_ns for each in one]
        # us; they do not all end at the same moment
        assert max(times) - times[durations.index(min(durations))] < 100


def test_old_files_do_not_tell_the_group() -> None:
    found = read(shared("torch-cuda/hta_trace_diff_control.json.gz")).collectives
    assert [(each.op, each.group) for each in found] == [("AllReduce", None)] * 18


def kernel(number: int, name: str, **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": number, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 9 - number, "dur": number, "args": args}


@pytest.mark.parametrize(("groups", "group"), [(None, None), ([{}, {}], None), ([{}], "the only one")])
def test_kernels_of_nccl_tell_their_collective_and_group(tmp_path: Path, groups: Any, group: str | None) -> None:
    # Made by hand, by what PyTorch 2.13 writes; no recording of it is at hand.
    name, ranks = {"Process Group Name": "1"}, {"Process Group Ranks": "[0, 2]"}
    events = [
        kernel(1, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", **{"Collective name": "all_to_allv"}),
        kernel(2, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", **name, **ranks),
        kernel(3, "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", **name, **ranks),
        kernel(4, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", **{"Collective name": "send"}),
        kernel(5, "void add<float>(float*)", **name),
    ]
    header = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "pg_config": groups}}
    (tmp_path / "trace.json").write_text(json.dumps({**header, "traceEvents": events}), encoding="utf-8")
    assert read(tmp_path / "trace.json").collectives == (
        Collective("AllGather", "1 [0, 2]", 0, 2000),
        Collective("AllToAll", group, 0, 1000),
    )


@pytest.mark.parametrize(
    ("description", "kind"), [("mesh_tp", "tp"), ("TENSOR_MODEL_PARALLEL_GROUP",) * 2, ("default_pg", ""), (None, "")]
)
def test_the_kind_of_a_group_is_its_description(tmp_path: Path, description: Any, kind: str) -> None:
    groups = [{"pg_name": "0", "pg_desc": "default_pg"}, {"pg_name": "1", "pg_desc": description}, 7]
    reduces = kernel(1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", **{"Process Group Name": "1"})
    header = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "pg_config": groups}}
    (tmp_path / "trace.json").write_text(json.dumps({**header, "traceEvents": [reduces]}), encoding="utf-8")
    assert read(tmp_path / "trace.json").collectives == (Collective("AllReduce", "1", 0, 1000, kind),)


@pytest.mark.parametrize("value", [b'"\xff"', b"null", b"7", b"[[", b'{"a": [1]}', b'""'])
def test_what_tells_no_group_and_no_collective_is_as_if_it_were_not_there(tmp_path: Path, value: bytes) -> None:
    event = kernel(1, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    told = dict.fromkeys(["Collective name", "Process Group Name", "Process Group Ranks"], "VALUE")
    event["args"] |= told
    text = json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0, "pg_config": 7}, "traceEvents": [event]})
    (tmp_path / "trace.json").write_bytes(text.encode().replace(b'"VALUE"', value))
    if value == b"[[":
        with pytest.raises(TraceError):
            read(tmp_path / "trace.json")
    else:
        assert read(tmp_path / "trace.json").collectives == (Collective("AllGather", None, 0, 1000),)


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


def counted(folder: Path, *events: dict[str, Any]) -> dict[tuple[str, str], int]:
    (folder / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}), encoding="utf-8")
    records = read(folder / "trace.json").records
    return {(r.type, r.op): r.calls if r.counted is None else r.counted for r in records}


def test_collectives_that_c_plus_plus_asks_for_count_and_those_inside_ops_count_once(tmp_path: Path) -> None:
    asked = [event("c10d::allreduce_", 0, 9), event("record_param_comms", 1, 7, **{"Collective name": "allreduce"})]
    marks = [event("nccl:all_reduce", 2, 1, "user_annotation"), event("nccl:all_to_all", 22, 1, "user_annotation")]
    names = ["allreduce", "all_to_allv", "reduce", "wait", "init", "_reduce_scatter_base"]
    alone = [event("record_param_comms", 20 + 10 * at, 5, **{"Collective name": name}) for at, name in enumerate(names)]
    assert counted(tmp_path, *asked, *marks, *alone) == {
        ("c10d::allreduce_", "AllReduce"): 1,
        ("record_param_comms::allreduce", "AllReduce"): 1,
        ("record_param_comms::alltoall", "AllToAll"): 1,
        ("record_param_comms::reduce", "record_param_comms::reduce"): 1,
        ("record_param_comms::reducescatter", "ReduceScatter"): 1,
    }


def test_collectives_of_2022_are_told_by_the_marks_of_nccl(tmp_path: Path) -> None:
    """A file of August 2022 has 12 record_param_comms without names: 6 with a mark inside, 6 that wait."""
    comms = [event("record_param_comms", at, 5) for at in (0, 10, 20)]
    marks = [event("nccl:all_to_all", at, 3, "user_annotation") for at in (1, 11)]
    assert counted(tmp_path, *comms, *marks, event("aten::mm", 30, 1)) == {
        ("record_param_comms::alltoall", "AllToAll"): 2,
        ("aten::mm", "MatMul"): 1,
    }


@pytest.mark.parametrize("name", [7, None, ["allreduce"], "", "\ud800"])
def test_a_collective_without_a_name_is_none(tmp_path: Path, name: Any) -> None:
    asked = event("record_param_comms", 0, 5, **{"Collective name": name})
    assert counted(tmp_path, asked, event("aten::mm", 9, 1)) == {("aten::mm", "MatMul"): 1}
