from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.pytorch.saved import kineto
from pytest_opprof.profile.op_key import line_of
from pytest_opprof.profile.saved import SavedProfile, op_of
from pytest_opprof.sites.shown import Shown

DATA = Path(__file__).parents[3] / "data" / "torch-cpu"
RECORDED = DATA / "stacks.pt.trace.json.gz"


def read(path: Path, sites: bool = True) -> SavedProfile:
    return kineto.read(Place(path), Options(sites=sites))


def lines(saved: SavedProfile, *ops: str) -> dict[tuple[str, str], int]:
    shown, found = Shown("."), Counter[tuple[str, str]]()
    for record in saved.records:
        if op_of(record) in ops and record.counted:
            found[op_of(record), line_of(record.site, shown)] += record.counted
    return dict(found)


def test_ops_belong_to_functions_and_backward_ops_to_those_of_their_forward_ops() -> None:
    found = lines(read(RECORDED), "Abs", "Cast", "Conv", "ConvGrad")
    assert found == {
        ("Abs", "train.py:8 in step"): 2,
        ("Cast", "nets.py:5 in as_float"): 2,
        ("Cast", "nets.py:5 in as_float (backward)"): 2,
        ("Cast", "nets.py:15 in forward"): 2,
        ("Cast", "nets.py:15 in forward (backward)"): 4,
        ("Conv", "nets.py:15 in forward"): 2,
        ("ConvGrad", "nets.py:15 in forward (backward)"): 2,
    }


def test_lines_are_read_only_when_asked_for_and_change_no_number() -> None:
    plain, sited = read(RECORDED, sites=False), read(RECORDED)
    assert not plain.has_sites
    assert sited.has_sites
    assert {stats.op: stats for stats in plain.profile().ops} == {stats.op: stats for stats in sited.profile().ops}
    assert len(plain.remarks) + 1 == len(sited.remarks)


def test_a_trace_without_stacks_has_no_sites_and_says_nothing_of_lines() -> None:
    plain = DATA / "train_step.pt.trace.json.gz"
    assert not read(plain).has_sites
    assert read(plain) == read(plain, sites=False)


def event(cat: str, name: str, start: float, end: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}


def op(name: str, start: float, end: float, tid: int = 1, sequence: int = -1) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": int(start), "Input type": [], "Input Dims": []}
    return event("cpu_op", name, start, end, tid, **args, **({"Sequence number": sequence} if sequence >= 0 else {}))


NODE = "autograd::engine::evaluate_function: MulBackward0"
FORWARD = [
    event("python_function", "main.py(1): main", 0, 100),
    event("python_function", "nets.py(7): forward", 10, 20),
    event("python_function", "<built-in method mul>", 11, 19),
    op("aten::mul", 12, 14, sequence=5),
    event("python_function", "torch/autograd/graph.py(9): run", 30, 60),
]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ([op(NODE, 31, 50, sequence=5), op("aten::neg", 32, 40)], "nets.py:7 in forward (backward)"),
        ([op(NODE, 31, 50, 2, sequence=5), op("aten::neg", 32, 40, 2)], "nets.py:7 in forward (backward)"),
        ([op(NODE, 31, 50, sequence=6), op("aten::neg", 32, 40)], "main.py:1 in main"),
        ([op(NODE, 31, 50), op("aten::neg", 32, 40)], "main.py:1 in main"),
        # A hook, or a function of the program that autograd calls.
        (
            [
                op(NODE, 31, 50, sequence=5),
                event("python_function", "hooks.py(3): hook", 32, 45),
                op("aten::neg", 33, 40),
            ],
            "hooks.py:3 in hook",
        ),
        # A second thread has a forward op of this number.
        (
            [op("aten::exp", 1, 2, 3, sequence=5), op(NODE, 31, 50, sequence=5), op("aten::neg", 32, 40)],
            "main.py:1 in main",
        ),
        ([op("aten::neg", 32, 40, 2)], "(no line known)"),
        ([op("aten::neg", 101, 102)], "(no line known)"),
    ],
)
def test_where_an_op_belongs(tmp_path: Path, more: list[dict[str, Any]], line: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*FORWARD, *more]}))
    assert lines(read(path), "Neg", "Mul") == {("Neg", line): 1, ("Mul", "nets.py:7 in forward"): 1}


def test_an_op_of_frameworks_alone_is_of_no_line_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    torch = event("python_function", "torch/_tensor.py(9): neg", 0, 10)
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [torch, op("aten::neg", 1, 2)]}))
    assert lines(read(path), "Neg") == {("Neg", "(no line of the program)"): 1}


def test_a_copy_of_the_device_is_of_the_line_that_asked_for_it(tmp_path: Path) -> None:
    copy = op("aten::copy_", 12, 18)
    copy["args"] |= {"Input type": ["float", "float"], "Input Dims": [[2], [2]]}
    launch = event("cuda_runtime", "cudaMemcpyAsync", 13, 15, correlation=1)
    memcpy = event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 16, 17, correlation=1, device=0, stream=7, bytes=8)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*FORWARD[:2], copy, launch, memcpy]}))
    assert lines(read(path), "MemcpyHtoD", "Copy") == {("MemcpyHtoD", "nets.py:7 in forward"): 1}
