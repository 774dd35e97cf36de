"""PyTorch's execution trace counts what the profiler's trace of the same run counts."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.pytorch.saved import execution
from pytest_opprof.profile.saved import SavedProfile, op_of

DATA = Path(__file__).parents[3] / "data" / "torch-cpu"
CONTENT = gzip.decompress((DATA / "execution_trace.json.gz").read_bytes())


def read(path: Path) -> SavedProfile:
    (found,) = formats.find(Place(path))
    return formats.read(found)


def counts(trace: SavedProfile) -> dict[tuple[int, str], int]:
    total: Counter[tuple[int, str]] = Counter()
    for record in trace.records:
        total[record.step, op_of(record)] += record.calls if record.counted is None else record.counted
    return {key: number for key, number in total.items() if number}


def test_ops_count_in_each_step_as_in_the_trace_of_the_profiler() -> None:
    trace = read(DATA / "execution_trace.json.gz")
    profiled = read(DATA / "execution_trace.pt.trace.json.gz")
    assert trace.source == execution.TITLE
    assert (trace.steps, trace.environment.frameworks) == (("1", "2"), (("torch", ""),))
    assert counts(trace) == counts(profiled)
    assert counts(trace)[0, "Cast"] == 16  # four more are of a number that an op was given


def test_casts_say_from_which_dtype_to_which_as_in_the_trace_of_the_profiler() -> None:
    def casts(trace: SavedProfile) -> set[tuple[object, ...]]:
        found = [r for r in trace.records if r.op == "Cast" and r.type == "aten::copy_"]
        return {(r.input_dtypes, r.output_dtypes, r.input_shapes, r.output_shapes) for r in found}

    trace = read(DATA / "execution_trace.json.gz")
    assert casts(trace) == casts(read(DATA / "execution_trace.pt.trace.json.gz")) != set()


def test_times_are_absent_and_never_zero() -> None:
    trace = read(DATA / "execution_trace.json.gz")
    assert trace.step_ns is None
    for record in trace.records:
        assert (record.device_ns, record.host_ns, record.least_ns, record.most_ns) == (None,) * 4


@pytest.mark.torch
def test_what_the_observer_writes_now_is_read(tmp_path: Path) -> None:
    import torch
    from torch.profiler import ExecutionTraceObserver

    observer = ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "et.json"))
    observer.start()
    torch.cat([torch.ones(2, 3), torch.ones(2, 3)]) @ torch.ones(3, 2)
    half = torch.ones(2).half()
    for _ in range(2):
        torch.zeros_like(half, dtype=torch.float64), half.new_zeros(3), half.new_full((4,), 1, dtype=torch.float64)
    observer.stop()
    observer.unregister_callback()
    trace = read(tmp_path / "et.json")
    found = counts(trace)
    assert {op: found[0, op] for op in ("Concat", "MatMul", "Cast")} == {"Concat": 1, "MatMul": 1, "Cast": 1}
    made = [
        ("aten::zeros_like", ("float64",), 2),
        ("aten::new_zeros", ("float16",), 2),
        ("aten::new_full", ("float64",), 2),
    ]
    names = {name for name, *_ in made}
    of = [(each.name, each.output_dtypes, each.calls) for each in trace.records if each.name in names]
    assert of == made


def node(id_: int, name: str, parent: int, *tensors: tuple[str, str], scope: int = 0) -> dict[str, Any]:
    """Return a call of schema 1.1; a tensor is its dtype and its device."""
    return {
        "id": id_,
        "name": name,
        "ctrl_deps": parent,
        "inputs": {
            "values": [[1, 2, 0, 6, 4, device] for _, device in tensors],
            "shapes": [[2, 3] for _ in tensors],
            "types": [f"Tensor({dtype})" for dtype, _ in tensors],
            "strides": [[3, 1] for _ in tensors],
        },
        "attrs": [{"name": "rf_id", "type": "uint64", "value": 5}, {"name": "scope", "type": "uint64", "value": scope}],
    }


def written(folder: Path, *nodes: dict[str, Any], schema: str = "1.1.1-chakra.0.0.4") -> Path:
    (folder / "et.json").write_text(json.dumps({"schema": schema, "pid": 7, "nodes": list(nodes)}))
    return folder / "et.json"


@pytest.mark.parametrize(
    ("to", "from_", "op"),
    [
        (("float", "cuda:0"), ("float", "cpu"), "MemcpyHtoD"),
        (("float", "cpu"), ("float", "cuda:1"), "MemcpyDtoH"),
        (("float", "cuda:0"), ("double", "cuda:0"), "Cast"),
        (("float", "cuda:0"), ("float", "cuda:0"), "Copy"),
    ],
)
def test_a_copy_is_what_the_dtypes_and_devices_of_its_tensors_say(
    tmp_path: Path, to: tuple[str, str], from_: tuple[str, str], op: str
) -> None:
    trace = read(written(tmp_path, node(3, "aten::copy_", 2, to, from_)))
    assert counts(trace) == {(0, op): 1}


def test_a_call_under_autocast_is_of_the_dtype_that_it_computes_in(tmp_path: Path) -> None:
    single, half = ("float", "cpu"), ("c10::BFloat16", "cpu")
    cast, again = node(4, "aten::copy_", 3, half, single), node(5, "aten::mm", 3, half, half)
    trace = read(written(tmp_path, node(3, "aten::mm", 2, single, single), cast, again))
    assert counts(trace) == {(0, "MatMul"): 1, (0, "Cast"): 1}
    assert {(each.name, *each.input_dtypes) for each in trace.records} == {
        ("aten::mm", "bfloat16", "bfloat16"),
        ("aten::copy_", "float32"),
    }


def test_a_range_is_no_op_and_what_is_inside_counts_as_without_it(tmp_path: Path) -> None:
    thread = node(2, "[pytorch|profiler|execution_trace|thread]", 1, scope=7)
    inside = [node(5, "aten::mm", 4, ("float", "cpu"), ("float", "cpu")), node(3, "aten::linear", 2)]
    trace = read(written(tmp_path, inside[0], node(4, "my range", 3, scope=7), inside[1], thread))
    assert counts(trace) == {(0, "MatMul"): 1}
    assert {record.name for record in trace.records} == {"aten::linear", "aten::mm"}


def test_what_torch_compile_does_is_one_op_and_its_machinery_is_none(tmp_path: Path) -> None:
    trace = read(
        written(
            tmp_path,
            node(3, "entire_frame_compile (dynamo_timed)", 2),
            node(4, "_compile.compile_inner (dynamo_timed)", 3),
            node(5, "aten::mm", 4),
            node(6, "backend_compile (dynamo_timed)", 4),
            node(7, "aten::relu", 6),
            node(8, "Torch-Compiled Region: 0/0", 2),
            node(9, "TorchDynamo Cache Lookup", 8),
            node(10, "aten::relu", 8),
            node(11, "aten::result_type", 8),
        )
    )
    assert counts(trace) == {(0, "torch::compile"): 1, (0, "torch::graph"): 1, (0, "Relu"): 1}
    assert "TorchDynamo Cache Lookup" not in {record.name for record in trace.records}


def test_schema_1_0_has_the_same_in_other_places(tmp_path: Path) -> None:
    thread = {"name": "[pytorch|profiler|execution_graph|thread]", "id": 2, "parent": 1, "scope": 7, "inputs": []}
    copy = {
        "name": "aten::copy_", "id": 3, "parent": 2, "scope": 0,
        "inputs": [[1, 2, 0, 6, 4, "cpu"], [3, 4, 0, 6, 8, "cpu"], False],
        "input_shapes": [[2, 3], [2, 3], []], "input_types": ["Tensor(float)", "Tensor(double)", "Bool"],
    }  # fmt: skip
    (record,) = read(written(tmp_path, thread, copy, schema="1.0.1")).records
    assert (record.op, record.input_dtypes, record.output_dtypes) == ("Cast", ("float64",), ("float32",))
    assert record.input_shapes == record.output_shapes == ((2, 3),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[: len(CONTENT) // 2], "is not a complete execution trace: Input data was truncated"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}', "has no ops; did anything run"),
        (
            b'{"schema": "1.0.1", "pid": 1, "nodes": 5}',
            "is not a complete execution trace: Expected `array`, got `int`",
        ),
        (CONTENT.replace(b'"attrs": [', b'"attrs": [5,', 1), "is not a complete execution trace: Expected `object`"),
    ],
)
def test_a_broken_trace_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        read(tmp_path / "a")
    assert str(error.value).startswith(str(tmp_path / "a"))


@given(st.integers(0, len(CONTENT)), st.binary(max_size=20), st.integers(0, 20))
def test_bytes_of_any_kind_are_a_trace_or_one_error(at: int, put: bytes, removed: int) -> None:
    with NamedTemporaryFile() as file:
        file.write(CONTENT[:at] + put + CONTENT[at + removed :])
        file.flush()
        execution.recognises(Place(Path(file.name)))
        try:
            assert execution.read(Place(Path(file.name)), Options()).records
        except TraceError:
            pass
