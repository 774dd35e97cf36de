from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import chrome_events as events
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.pytorch.saved import kineto, kineto_events, nesting
from pytest_opprof.profile.saved import SavedKernel, SavedProfile
from pytest_opprof.questions import query
from pytest_opprof.questions.question import Question, in_steps

from ....conftest import shared

DATA = Path(__file__).parents[3] / "data" / "torch-cpu"
CPU = DATA / "train_step.pt.trace.json.gz"


def read(path: Path, **options: bool) -> SavedProfile:
    place = Place(path)
    assert kineto.recognises(place)
    return kineto.read(place, Options(**options))


def write(folder: Path, content: object) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps(content))
    return path


def counts(trace: SavedProfile) -> dict[str, int]:
    found: Counter[str] = Counter()
    for record in trace.records:
        found[record.op or record.type] += record.calls if record.counted is None else record.counted
    return {op: count for op, count in found.items() if count}


def sums(trace: SavedProfile, what: str) -> dict[str, float]:
    found: Counter[str] = Counter()
    for record in trace.records:
        found[record.name] += getattr(record, what) or 0
    return dict(found)


def op(name: str, start: float, duration: float, serial: int = 0, **args: Any) -> dict[str, Any]:
    """An op of a small trace in the format of 2.x, made here."""
    args = {"External id": serial, **args}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, "args": args}


def annotation(name: str, start: float, duration: float) -> dict[str, Any]:
    return {**op(name, start, duration), "cat": "user_annotation"}


def launch(correlation: int, start: float, name: str = "cudaLaunchKernel", **other: Any) -> dict[str, Any]:
    args = {"correlation": correlation}
    return {**op(name, start, 1), "cat": "cuda_runtime", "args": args, **other}


def kernel(correlation: int, start: float, duration: float, name: str = "gemm", **args: Any) -> dict[str, Any]:
    cat = {"Memc": "gpu_memcpy", "Mems": "gpu_memset"}.get(name[:4], "kernel")
    args = {"correlation": correlation, "device": 0, "stream": 7, **args}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": duration, "args": args}


def trace_of(folder: Path, *made: dict[str, Any], **header: Any) -> SavedProfile:
    return read(write(folder, {"schemaVersion": 1, **header, "traceEvents": list(made)}))


def test_a_trace_that_does_not_say_that_pytorch_wrote_it_is_not_called_pytorchs(tmp_path: Path) -> None:
    trace = read(write(tmp_path, {"traceEvents": [op("my_op", 0, 2), kernel(1, 0, 1)]}))
    assert (trace.source, trace.environment.frameworks) == ("Chrome trace of an unknown profiler", ())
    assert "events of category cpu_op are taken for ops" in trace.remarks[0]
    assert trace_of(tmp_path, op("my_op", 0, 2)).source == kineto.TITLE


def test_a_cpu_trace_has_the_counts_and_self_times_of_key_averages() -> None:
    trace = read(CPU)
    calls, times = sums(trace, "calls"), sums(trace, "device_ns")
    keys = json.loads((DATA / "key_averages.json").read_text())["key_averages"]
    expected = {row["key"]: row for row in keys if "#" not in row["key"]}  # annotations are no ops
    assert calls.keys() == expected.keys()
    for key, row in expected.items():
        assert calls[key] == row["count"]
        assert times[key] == pytest.approx(row["self_cpu_time_total_us"] * 1000, abs=0.01)
    assert trace.kernels is None
    assert trace.environment.device == "cpu"
    assert {record.host_ns for record in trace.records} == {None}


def test_flops_of_products_and_convolutions_are_those_that_the_session_counted() -> None:
    keys = json.loads((DATA / "key_averages.json").read_text())["key_averages"]
    counted = {row["key"]: row["flops"] for row in keys if row["flops"]}
    ours = {name: flops for name, flops in sums(read(CPU), "computation").items() if flops}
    # Under autocast each conv2d calls conv2d: one convolution, and two events. The session knows no gradients of them.
    assert ours["aten::conv2d"] * 2 == counted["aten::conv2d"]
    assert ours["aten::convolution_backward"] == ours["aten::conv2d"]  # the images need no gradient
    assert ours["aten::mm"] == counted["aten::mm"]
    assert ours["aten::linear"] == counted["aten::addmm"]


OF_NUMBERS = 18
"""Casts in `expected_casts.json` of a number that an op was given (``x * 2.0``, a float64): parts of that op."""


def test_the_casts_of_a_cpu_trace_are_those_that_the_session_counted() -> None:
    expected = json.loads((DATA / "expected_casts.json").read_text())
    trace = read(CPU)
    casts = [record for record in trace.records if record.type == "aten::copy_" and record.op == "Cast"]
    assert counts(trace)["Cast"] == sum(record.calls for record in casts) == expected["cast_events"] - OF_NUMBERS
    names = {"c10::BFloat16": "bfloat16", "float": "float32", "double": "float64"}
    pairs = {tuple(names[end] for end in pair.split("->")) for pair in expected["cast_pairs"]} - {
        ("float64", "float32")
    }
    assert {(record.input_dtypes[0], record.output_dtypes[0]) for record in casts} == pairs
    assert all(len(record.input_shapes or ()) == len(record.output_shapes or ()) == 1 for record in casts)


@pytest.mark.parametrize("by", ["", "type", "op", "all"])
def test_the_casts_that_are_shown_are_as_many_however_they_are_aggregated(by: Any) -> None:
    expected = json.loads((DATA / "expected_casts.json").read_text())["cast_events"] - OF_NUMBERS
    trace = read(CPU)
    cast = trace.profile().stats("Cast")
    lines = query.answer(trace, Question(types=("Cast",), aggregate_by=by))
    assert sum(line.calls for line in lines) == cast.most_calls == expected
    assert sum(line.time_ns or 0 for line in lines) == pytest.approx(cast.fastest_ns, abs=1)


def test_ops_can_be_told_apart_by_their_dtypes() -> None:
    trace = read(CPU)
    casts = query.answer(trace, Question(types=("Cast",), aggregate_by="dtype"))
    assert {line.op: line.calls for line in casts} == {"Cast[float32->bfloat16]": 18, "Cast[bfloat16->float32]": 15}
    profile = trace.profile()
    assert {line.op: line.calls for line in casts} == {
        name: profile.stats(name).most_calls for name in ("Cast[float32->bfloat16]", "Cast[bfloat16->float32]")
    }
    assert {stats.op: stats.most_calls for stats in trace.profile(by="dtype").ops}["MatMul[bfloat16]"] == 9


def test_a_call_under_autocast_is_of_the_dtype_that_it_computes_in() -> None:
    matmul, conv = (read(CPU).profile().stats(op) for op in ("MatMul", "Conv"))
    assert read(CPU).profile().stats("MatMul[float32]").most_calls == 0
    assert read(CPU).profile().stats("Conv[bfloat16]").most_calls == conv.most_calls == 3
    assert None not in (matmul.flops, matmul.bytes)


def test_an_empty_tensor_that_an_op_is_given_to_write_to_is_not_all_that_it_works_on(tmp_path: Path) -> None:
    given = {"Input Dims": [[], [], [0]], "Input type": ["Scalar", "Scalar", "float"]}
    scalars = {"Input Dims": [[], []], "Input type": ["Scalar", "Scalar"]}
    eye = [op("aten::eye", 0, 9, 1, **scalars), op("aten::eye", 1, 7, 2, **scalars), op("aten::eye", 2, 5, 3, **given)]
    trace = trace_of(tmp_path, *eye)
    assert [(record.calls, record.counted, record.memory) for record in trace.records if record.counted] == [
        (1, 1, None)
    ]


def test_shapes_and_dtypes_are_those_of_the_tensors_among_the_inputs() -> None:
    convolution = next(record for record in read(CPU).records if record.name == "aten::mkldnn_convolution")
    assert convolution.input_shapes == ((4, 3, 16, 16), (8, 3, 3, 3), (8,))
    assert convolution.input_dtypes == ("bfloat16",) * 3
    assert (convolution.calls, convolution.counted, convolution.op) == (3, 0, "Conv")
    assert convolution.least_ns is not None
    assert convolution.most_ns is not None
    assert 0 < convolution.least_ns <= (convolution.device_ns or 0) / 3 <= convolution.most_ns


def test_the_peak_of_memory_is_the_greatest_total() -> None:
    content = json.loads(gzip.decompress(CPU.read_bytes()))
    totals = [event["args"]["Total Allocated"] for event in content["traceEvents"] if event["name"] == "[memory]"]
    assert read(CPU).peak_memory == max(totals)


def test_without_totals_the_peak_is_what_was_allocated_above_the_beginning(tmp_path: Path) -> None:
    def memory(time: float, size: int, kind: int = 1, device: int = 0) -> dict[str, Any]:
        args = {"Device Type": kind, "Device Id": device, "Bytes": size}
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args}

    made = [memory(9, -70), memory(1, 50), memory(2, 40), memory(3, -20), memory(4, 25), memory(5, 30, device=1)]
    trace = trace_of(tmp_path, op("aten::mm", 0, 9), *made, memory(2, 10**6, kind=0, device=-1))
    assert trace.peak_memory == 95
    assert "no totals of memory" in trace.remarks[0]


def test_the_peak_of_a_recording_of_2021_is_that_of_its_allocations() -> None:
    path = shared("torch-cuda/kineto_resnet50_v100_2021.pt.trace.json.gz")
    content = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    memory = [event["args"] for event in sorted(content, key=lambda e: e["ts"]) if event["name"] == "[memory]"]
    assert len(memory) == 12_838
    sizes = [args["Bytes"] for args in memory if args["Device Type"] == 1]
    assert read(path).peak_memory == max(accumulate(sizes)) > 2**30


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_the_saved_trace_of_a_session_counts_as_the_live_recorder_does(tmp_path: Path) -> None:
    """One session, read from its events in memory and from its file."""
    import torch as pytorch
    from torch.profiler import ProfilerActivity, profile, record_function

    from pytest_opprof.frameworks.live.contract import Options as LiveOptions
    from pytest_opprof.frameworks.pytorch.live import backend as live
    from pytest_opprof.profile.events.event_log import EventLog

    layers = [pytorch.nn.Conv2d(3, 4, 3), pytorch.nn.BatchNorm2d(4), pytorch.nn.ReLU(), pytorch.nn.Flatten()]
    model = pytorch.nn.Sequential(*layers, pytorch.nn.Linear(4 * 36, 5))
    optimizer = pytorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = pytorch.compile(lambda x: (x @ x.T).relu().sum(), backend="aot_eager")
    weight = pytorch.ones(4, 4, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        for _ in range(2):
            with record_function("my step"), pytorch.autocast("cpu", pytorch.bfloat16):
                optimizer.zero_grad()
                loss = model(pytorch.randn(2, 3, 8, 8)).float().square().sum() + pytorch.arange(3).double().sum()
            loss.backward()
            optimizer.step()
            pytorch.ones(2, 3).half().clone().t().contiguous()
            compiled(weight.to(weight.dtype)).backward()
    session.export_chrome_trace(str(tmp_path / "trace.json"))
    log = EventLog(live._environment())
    live._read(session.profiler.kineto_results, log, LiveOptions())
    expected = log.freeze()
    trace = read(tmp_path / "trace.json")
    assert counts(trace) == {stats.op: stats.most_calls for stats in expected.ops}
    assert len(counts(trace)) > 15
    assert (counts(trace)["torch::compile"], counts(trace)["torch::graph"]) == (1, 2 * 2)
    (total,) = trace.profile().total.device_ns or (0,)
    assert total == pytest.approx(sum(expected.total.device_ns or ()), rel=1e-3)
    averages = {row.key: row.count for row in session.key_averages() if not row.is_user_annotation}
    calls = sums(trace, "calls")
    assert calls["aten::to"] == expected.stats("aten::to").most_calls
    # Of what the compiler calls as well there are more in the averages.
    assert all(calls[name] == averages[name] for name in ("aten::conv2d", "aten::square", "aten::batch_norm"))


def test_calls_on_the_same_tensors_may_make_and_compute_other_things(tmp_path: Path) -> None:
    def like(start: float, dtype: str) -> dict[str, Any]:
        types = ["float", "Scalar" if dtype else "", "", "", "Scalar", ""]
        given = {"Input type": types, "Input Dims": [[2, 3], *[[]] * 5], "Concrete Inputs": ["", dtype, *[""] * 4]}
        return op("aten::zeros_like", start, 1, **given)

    def convolution(start: float, stride: int) -> dict[str, Any]:
        values = ["", "", "", f"[{stride}, {stride}]", "[0, 0]", "[1, 1]", "1"]
        dims = [[1, 1, 8, 8], [1, 1, 2, 2], *[[]] * 5]
        return op(
            "aten::conv2d",
            start,
            1,
            **{
                "Input type": ["float", "float", "", *["ScalarList"] * 3, "Scalar"],
                "Input Dims": dims,
                "Concrete Inputs": values,
            },
        )

    trace = trace_of(tmp_path, like(0, ""), like(2, "7"), like(4, "7"), convolution(6, 1), convolution(8, 2))
    profile = trace.profile()
    assert [profile.stats(f"ConstantOfShape[{dtype}]").calls for dtype in ("float32", "float64")] == [(1,), (2,)]
    assert profile.stats("Conv").flops == (2 * 4 * (49 + 16),)


FILES = [
    ("hta_a100_rank0_shapes", 7747, 872, "NVIDIA A100-SXM4-80GB", [0], 6),
    ("hta_alexnet_2023", 98, 0, "NVIDIA A100-PG509-200", [0], 1),
    ("hta_cuda_event_sync", 5, 0, "NVIDIA A100-PG509-200", [0], 1),
    ("hta_sampled_rank-0", 1204, 0, "gpu", [0], 2),
    ("hta_trace_diff_control", 9450, 0, "NVIDIA A100-PG509-200", [3], 6),
    ("hta_triton_example", 1, 0, "NVIDIA A100-PG509-200", [None], 1),
    ("kineto_h100_2026_small", 1, 0, "NVIDIA H100", [None], 1),
    ("kineto_resnet50_v100_2021.pt.trace", 9096, 0, "Tesla V100-DGXS-32GB", [None], 6),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "activities", "unlinked", "device", "ranks", "steps"), FILES)
def test_no_kernel_of_a_cuda_trace_is_lost_or_counted_twice(
    name: str, activities: int, unlinked: int, device: str, ranks: list[int | None], steps: int
) -> None:
    path = shared(f"torch-cuda/{name}.json.gz")
    content = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    categories = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
    did = [event for event in content if event.get("cat") in categories and event["ph"] == "X"]
    trace = read(path)
    assert trace.kernels is not None
    assert sum(launched.calls for launched in trace.kernels) == len(did) == activities
    total = pytest.approx(sum(event["dur"] for event in did) * 1000)
    assert sum(launched.device_ns for launched in trace.kernels) == total
    assert sum(record.device_ns or 0 for record in trace.records) == total
    nccl = [event["dur"] for event in did if event["name"].startswith("nccl")]
    assert query.communication(trace) == (pytest.approx(sum(nccl) * 1000) if nccl else None)
    assert sum(count for op, count in counts(trace).items() if op.startswith("nccl")) == len(nccl)
    assert sum(launched.calls for launched in trace.kernels if launched.launched_by == kineto.UNLINKED) == unlinked
    assert any(f"{unlinked} of {activities} device activities" in remark for remark in trace.remarks) == bool(unlinked)
    moves = Counter(event["name"].split(" (")[0] for event in did if event["name"].startswith("Mem"))
    for kind in ("HtoD", "DtoH", "DtoD"):
        assert counts(trace).get(f"Memcpy{kind}", 0) == moves.get(f"Memcpy {kind}", 0)
    assert counts(trace).get("Memset", 0) == moves.get("Memset", 0)
    assert trace.environment.device == device
    assert kineto.ranks(Place(path)) == ranks
    assert len(trace.steps) == steps
    launches = {e["args"].get("correlation") for e in content if "Launch" in e.get("name", "") and e["ph"] == "X"}
    assert sum(launched.calls for launched in trace.launches if "Launch" in launched.type) == len(launches)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hta_alexnet_2023", "hta_sampled_rank-0", "kineto_resnet50_v100_2021.pt.trace"])
def test_the_mean_of_calls_lies_between_the_shortest_and_the_longest(name: str) -> None:
    trace = read(shared(f"torch-cuda/{name}.json.gz"))
    for side in ("device", "host"):
        for by in ("op", "type"):
            how = {how: lines_of(trace, side, by, how) for how in ("sum", "min", "mean", "max")}
            assert sum(time or 0 for time, _ in how["sum"].values()) == pytest.approx(
                (query.total(trace, side) or 0) + (query.communication(trace) or 0) * (side == "device")
            )
            for key, (mean, calls) in how["mean"].items():
                assert calls == 0 or mean * calls == pytest.approx(how["sum"][key][0])
                # A copy that the device made may have launched a kernel, and belong to no op.
                if calls and not key.startswith(("Mem", "Copy")):
                    assert how["min"][key][0] <= mean * 1.000001 <= how["max"][key][0] * 1.000002


def lines_of(trace: SavedProfile, side: Any, by: Any, how: Any) -> dict[str, tuple[Any, int]]:
    question = Question(side=side, aggregate_by=by, aggregate=how)
    return {
        str(line.op if by == "op" else line.type): (line.time_ns, line.calls) for line in query.answer(trace, question)
    }


def test_what_was_launched_before_the_recording_is_in_no_step_of_a_recording() -> None:
    """Its correlations are 815,091 to 824,946; the first call that was recorded has 824,968."""
    trace = read(shared("torch-cuda/hta_a100_rank0_shapes.json.gz"))
    unlinked = [launched for launched in trace.kernels or () if launched.launched_by == kineto.UNLINKED]
    assert {trace.steps[launched.step] for launched in unlinked} == {"outside"}
    assert trace.profile().steps == len(trace.step_ns or ()) == 5
    assert kineto.UNLINKED not in trace.profile().raw_names


def test_kernels_belong_to_the_op_that_a_trace_of_2021_names_too() -> None:
    """Its ``external id`` was the op's; those of 2023 are not, which is why no id is used."""
    path = shared("torch-cuda/kineto_resnet50_v100_2021.pt.trace.json.gz")
    content = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    ops = {e["args"]["External id"]: e["name"] for e in content if e.get("cat") == "Operator" and e["ph"] == "X"}
    ids = [e["args"]["external id"] for e in content if e.get("cat") in ("Kernel", "Memcpy", "Memset") and "dur" in e]
    ours: Counter[str] = Counter()
    for launched in read(path).kernels or ():
        ours[launched.launched_by] += launched.calls
    assert ours == Counter(ops[number] for number in ids)


def test_casts_of_a_cuda_trace_are_the_copies_whose_dtypes_differ() -> None:
    trace = read(shared("torch-cuda/hta_trace_diff_control.json.gz"))
    copies = [record for record in trace.records if record.type == "aten::copy_"]
    assert sum(record.calls for record in copies) == 444
    assert sum(record.calls for record in copies if record.op == "Cast") == 186
    assert counts(trace)["Cast"] == 186


def test_device_time_is_that_of_the_kernels_and_host_time_that_of_the_call(tmp_path: Path) -> None:
    linear = [op("aten::linear", 0, 100, 1), op("aten::t", 1, 2, 2), op("aten::addmm", 10, 50, 3), launch(9, 20)]
    trace = trace_of(tmp_path, *linear, kernel(9, 500, 1000, "gemm"), kernel(9, 1600, 10, "epilogue", stream=8))
    assert counts(trace) == {"MatMul": 1}
    assert sums(trace, "device_ns") == {"aten::linear": 0, "aten::t": 0, "aten::addmm": 1_010_000}
    assert sums(trace, "host_ns") == {"aten::linear": 48_000, "aten::t": 2_000, "aten::addmm": 50_000}
    assert trace.kernels == (
        SavedKernel("gemm", "aten::addmm", 0, 1, 1_000_000, "stream 7"),
        SavedKernel("epilogue", "aten::addmm", 0, 1, 10_000, "stream 8"),
    )


def test_a_wrapper_that_launches_kernels_itself_is_an_op_and_not_the_first_one_inside(tmp_path: Path) -> None:
    copy = [op("aten::copy_", 5, 20, 2), launch(1, 6)]
    for name in ("MineBackward", "aten::_foreach_add_", "my_kernel_0"):
        launches = [op(name, 0, 90, 1), *copy, launch(2, 50, "cudaGraphLaunch")]
        trace = trace_of(tmp_path, *launches, kernel(1, 60, 3, "copy"), kernel(2, 70, 40, "triton_"), kernel(2, 110, 9))
        assert counts(trace) == {"Copy": 1, name: 1}
        assert {record.op: record.device_ns for record in trace.records} == {"Copy": 3_000, name: 49_000}


def test_what_torch_compile_runs_while_it_compiles_is_not_the_programs(tmp_path: Path) -> None:
    """As PyTorch 2.13 marks it; an older one has no event around."""
    frame = [op("dynamo", 10, 300, 1), annotation("dynamo_data: compile_id=0/0", 11, 2)]
    frame += [op("_compile.compile_inner (dynamo_timed)", 20, 280, 3), op("aten::mm", 30, 90, 4)]
    autotuned = op("CachingAutotuner.benchmark_all_configs (dynamo_timed)", 420, 50, 6)
    ops = [*frame, op("Torch-Compiled Region: 0/0", 400, 200, 5), autotuned, op("triton_poi_fused_add_0", 480, 90, 7)]
    trace = trace_of(tmp_path, *ops, op("aten::to", 700, 10, 8))
    assert counts(trace) == {"torch::compile": 1, "torch::graph": 1, "triton_poi_fused_add": 1}
    times = {record.op: record.device_ns for record in trace.records}
    assert times == {"torch::compile": None, "torch::graph": 60_000, "triton_poi_fused_add": 90_000, "aten::to": 10_000}
    assert trace.profile().total.device_ns == (150_000,)
    assert trace.profile().stats("torch::compile").calls == trace.profile().stats("aten::to").calls == (1,)
    calls = [launch(1, 40), launch(2, 430), launch(3, 450, "cudaDeviceSynchronize"), launch(4, 490)]
    kernels = [kernel(1, 50, 7), kernel(2, 440, 8, "triton_"), kernel(4, 500, 5, "triton_")]
    trace = trace_of(tmp_path, *ops, *calls, *kernels)
    assert counts(trace) == {"torch::compile": 1, "torch::graph": 1, "triton_poi_fused_add": 1}
    assert query.total(trace, "device") == 5_000
    assert [launched.calls for launched in trace.kernels or ()] == [1]
    assert trace.remarks == ("kernels and copies that torch.compile ran to try or compute something: 2, left out",)


def test_graphs_are_counted_where_they_are_broken_and_events_without_ops_are_groups(tmp_path: Path) -> None:
    regions = [op("Torch-Compiled Region: 0/0", 0, 90, 1), op("Pregraph bytecode", 1, 1, 2)]
    regions += [annotation("## Call CompiledFxGraph fabc ##", 5, 20), op("aten::mm", 6, 9, 4)]
    regions += [op("TorchDynamo Cache Lookup", 40, 5, 5), op("Torch-Compiled Region: 1/0", 50, 30, 6)]
    regions += [annotation("## Call CompiledFxGraph fdef ##", 55, 20), op("Torch-Compiled Region: 2/0", 100, 9, 8)]
    groups = [op("forward", 200, 50, 9), op("aten::mul", 210, 20, 10), op("my_section", 260, 5, 11)]
    mine = [{**op("Mine", 300, 50, 12), "args": {"Sequence number": 0}}, op("aten::mul", 310, 20, 13)]
    trace = trace_of(tmp_path, *regions, *groups, *mine)
    assert counts(trace) == {"torch::graph": 2, "MatMul": 1, "Mul": 2, "my_section": 1, "Mine": 1}


def test_a_call_is_as_long_as_all_that_it_launched(tmp_path: Path) -> None:
    made = []
    for start, (first, second) in ((0, (300, 50)), (100, (200, 40))):
        made += [op("aten::conv2d", start, 90, start), op("aten::cudnn_convolution", start + 10, 50, start + 1)]
        made += [launch(start + 1, start + 20), launch(start + 2, start + 30), launch(start + 3, start + 70)]
        made += [kernel(start + 1, 1000 + start, first), kernel(start + 2, 2000 + start, second)]
        made += [kernel(start + 3, 3000 + start, 7, "bias")]
    trace = trace_of(tmp_path, *made)
    for by, name, least, most in (("op", "Conv", 247, 357), ("type", "aten::cudnn_convolution", 240, 350)):
        assert lines_of(trace, "device", by, "min")[name] == (least * 1000, 2)
        assert lines_of(trace, "device", by, "max")[name] == (most * 1000, 2)
        assert lines_of(trace, "device", by, "mean")[name] == ((least + most) * 500, 2)
    assert lines_of(trace, "host", "op", "max")["Conv"] == (90_000, 2)
    (shown,) = query.answer(trace, Question(types=("Conv",)))
    assert (shown.name, shown.calls, shown.time_ns) == ("aten::conv2d", 2, 604_000)


def test_a_copy_that_the_device_made_is_not_the_shortest_of_those_that_it_did_not(tmp_path: Path) -> None:
    types = {"Input Dims": [[4], [4], []], "Input type": ["float", "float", "Scalar"]}
    made = [op("aten::copy_", 10 * n, 5, n, **types) for n in range(3)] + [launch(n + 1, 10 * n + 1) for n in range(3)]
    did = [kernel(1, 100, 4, "Memcpy HtoD"), kernel(2, 110, 6, "elementwise"), kernel(3, 120, 8, "elementwise")]
    trace = trace_of(tmp_path, *made, *did)
    assert lines_of(trace, "device", "op", "min") == {"MemcpyHtoD": (4000, 1), "Copy": (6000, 2)}
    assert query.copy_time(trace, Question()) == query.CopyTime(3, 18_000, None)
    assert lines_of(trace, "host", "op", "sum") == {"MemcpyHtoD": (5000, 1), "Copy": (10_000, 2)}


def test_launches_are_counted_once_though_one_library_calls_another(tmp_path: Path) -> None:
    steps = [annotation("ProfilerStep#4", 0, 50), annotation("ProfilerStep#5", 50, 50)]
    calls = [launch(1, 10, dur=8), {**launch(1, 12, "cuLaunchKernel", dur=3), "cat": "cuda_driver"}]
    calls += [launch(2, 60, "cudaGraphLaunch"), launch(3, 70, "cudaMemcpyAsync"), launch(0, 80), launch(0, 90)]
    trace = trace_of(tmp_path, *steps, op("aten::mm", 5, 20), op("aten::mm", 55, 40), *calls, kernel(1, 30, 5))
    profile = trace.profile()
    assert profile.launches == (1, 3)
    assert profile.stats("cudaMemcpyAsync").calls == (0, 1)
    assert profile.total.calls == (1, 1)
    assert in_steps(trace, "5").profile().launches == (3,)
    assert not any("Launch" in (line.type or "") for line in query.answer(trace, Question()))


def test_what_was_launched_before_the_recording_is_in_no_step_and_what_lost_its_launch_stays(tmp_path: Path) -> None:
    made = [op("aten::mm", 11, 5, 1), launch(8, 12), kernel(8, 20, 40)]
    early, lost = kernel(7, 13, 300, "early"), kernel(9, 90, 5, "lost")
    steps = [annotation("ProfilerStep#4", 10, 10), annotation("ProfilerStep#5", 25, 10)]
    trace = trace_of(tmp_path, *steps, *made, early, lost)
    assert {launched.name: trace.steps[launched.step] for launched in trace.kernels or ()} == {
        "gemm": "4",
        "early": "outside",
        "lost": "5",
    }
    assert (trace.step_ns, trace.profile().total.device_ns) == ((10_000, 10_000), (40_000, 5_000))
    assert trace_of(tmp_path, *made, early).profile().total.device_ns == (40_000,)
    assert in_steps(trace, "outside").step_ns == ()


@pytest.mark.parametrize("head", [{"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}, {}])
def test_what_a_cut_file_says_of_the_device_counts(tmp_path: Path, head: dict[str, object]) -> None:
    ops = [op("aten::mm", start, 9, start) for start in range(0, 1000, 10)]
    whole = {"schemaVersion": 1, **head, "traceEvents": [*ops, launch(1, 2), kernel(1, 2000, 40)]}
    path = write(tmp_path, whole)
    text = path.read_text()
    path.write_text(text[: text.index("cudaLaunchKernel" if head else '"kernel"')])
    trace = read(path, partial=True)
    assert trace.environment.device == ("NVIDIA H100" if head else "gpu")
    assert not query.has_times(trace, "device")
    assert query.total(trace, "host") == 9000 * sum(record.calls for record in trace.records)


def test_a_whole_file_without_device_events_is_of_the_cpu_unless_something_was_launched(tmp_path: Path) -> None:
    """Kineto names the GPUs of the machine in every file."""
    head = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    assert trace_of(tmp_path, op("aten::mm", 0, 9), **head).environment.device == "cpu"
    trace = trace_of(tmp_path, op("aten::mm", 0, 9), launch(1, 2), **head)
    assert (trace.environment.device, query.has_times(trace, "device")) == ("NVIDIA H100", False)
    assert "1 kernel launches have no kernel in the file" in trace.remarks[0]


@pytest.mark.parametrize(("rank", "found"), [(2, 2), ("2", 2), ("two", None), (-1, None), (None, None)])
def test_a_rank_may_be_a_number_or_its_text(tmp_path: Path, rank: object, found: int | None) -> None:
    trace_of(tmp_path, op("aten::mm", 0, 9), distributedInfo={"rank": rank})
    assert kineto.ranks(Place(tmp_path / "trace.json")) == [found]


def test_the_number_of_a_device_may_be_its_text(tmp_path: Path) -> None:
    made = [op("aten::mm", 0, 9), launch(1, 1), kernel(1, 20, 5, device="0")]
    assert trace_of(tmp_path, *made, deviceProperties=[{"id": 0, "name": "H100"}]).environment.device == "H100"


def test_communication_is_beside_the_total_and_a_budget_can_name_it(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    reduce = [op("c10d::allreduce_", 0, 90, 1), launch(1, 5), kernel(1, 30, 700, name, stream=9)]
    trace = trace_of(tmp_path, *reduce, op("aten::mm", 100, 9, 2), launch(2, 101), kernel(2, 800, 40))
    assert (query.total(trace, "device"), query.communication(trace)) == (40_000, 700_000)
    assert trace.profile().stats("ncclDevKernel_AllReduce_Sum_f32_RING_LL").calls == (1,)
    assert trace.profile().stats("nccl*AllReduce*").calls == trace.profile().stats("c10d::allreduce_").calls == (1,)
    assert [launched.launched_by for launched in trace.kernels or ()] == ["c10d::allreduce_", "aten::mm"]


def test_kernels_that_overlap_add_up_and_a_remark_has_the_busy_time(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, op("aten::mm", 0, 9), launch(1, 1), kernel(1, 10, 30), kernel(1, 20, 30, stream=8))
    assert sums(trace, "device_ns") == {"aten::mm": 60_000}
    assert trace.remarks == (
        "in the whole recording the device was busy for 0.040 ms; its activities add up to 0.060 ms, as some ran at"
        " the same time",
    )


def test_a_kernel_without_a_launch_and_one_without_an_op_stay(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, op("aten::mm", 0, 9), launch(1, 50), kernel(1, 60, 5, "mine"), kernel(2, 2, 7, "early"))
    assert [(r.name, r.type, r.device_ns) for r in trace.records] == [
        ("aten::mm", "aten::mm", 0),
        ("early", "(unlinked)", 7000),
        ("mine", "mine", 5000),
    ]
    assert trace.remarks[0].startswith("1 of 2 device activities were launched outside of the recording")


def test_a_copy_that_is_a_memcpy_is_counted_once(tmp_path: Path) -> None:
    types = {"Input Dims": [[4], [4], []], "Input type": ["float", "float", "Scalar"]}
    copy = [op("aten::to", 0, 90, 1), op("aten::copy_", 5, 80, 2, **types), launch(1, 10, "cudaMemcpyAsync")]
    sync = launch(2, 20, "cudaStreamSynchronize", dur=60)
    trace = trace_of(tmp_path, *copy, sync, kernel(1, 30, 40, "Memcpy HtoD (Pageable -> Device)", bytes=16))
    assert counts(trace) == {"MemcpyHtoD": 1, "Synchronize": 1}
    assert sums(trace, "device_ns")["Memcpy HtoD (Pageable -> Device)"] == 40_000
    assert sums(trace, "host_ns") == {
        "aten::to": 10_000,
        "aten::copy_": 20_000,
        "cudaStreamSynchronize": 60_000,
        "Memcpy HtoD (Pageable -> Device)": 0,
    }
    (copied,) = (record for record in trace.records if record.type == "MemcpyHtoD")
    assert copied.memory == 16
    assert trace.kernels is not None
    assert trace.kernels[0].launched_by == "aten::copy_"


def test_a_copy_on_the_device_by_a_kernel_stays_a_copy(tmp_path: Path) -> None:
    types = {"Input Dims": [[4], [4], []], "Input type": ["float", "float", "Scalar"]}
    trace = trace_of(tmp_path, op("aten::copy_", 5, 80, 2, **types), launch(1, 10), kernel(1, 30, 40, "elementwise"))
    assert counts(trace) == {"Copy": 1}


def test_steps_are_those_of_the_profiler_and_their_edges_belong_to_one(tmp_path: Path) -> None:
    steps = [annotation("ProfilerStep#4", 10, 10), annotation("ProfilerStep#5", 25, 10), annotation("epoch#1", 0, 50)]
    ops = [op("aten::mm", start, 1, n) for n, start in enumerate([5, 10, 22, 25, 40])]
    trace = trace_of(tmp_path, *steps, *ops)
    assert trace.steps == ("4", "5")
    assert trace.step_ns == (10_000, 10_000)
    assert [(record.step, record.calls) for record in trace.records] == [(0, 3), (1, 2)]


def test_a_kernel_is_in_the_step_of_its_launch(tmp_path: Path) -> None:
    steps = [annotation("ProfilerStep#4", 10, 10), annotation("ProfilerStep#5", 25, 10)]
    trace = trace_of(tmp_path, *steps, op("aten::mm", 11, 5), launch(1, 12), kernel(1, 26, 5), kernel(2, 27, 1, "lost"))
    assert [(launched.name, launched.step) for launched in trace.kernels or ()] == [("gemm", 0), ("lost", 1)]


def test_an_annotation_inside_an_op_is_no_op_and_its_time_is_not_the_ops(tmp_path: Path) -> None:
    made = [op("mine::layer", 0, 100, 1), annotation("region", 10, 50), op("aten::mm", 20, 30, 3)]
    trace = trace_of(tmp_path, *made)
    assert counts(trace) == {"mine::layer": 1, "MatMul": 1}
    assert sums(trace, "device_ns") == {"mine::layer": 50_000, "aten::mm": 30_000}


def test_an_op_that_is_alone_in_one_of_its_name_is_one_call(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, op("aten::sum", 0, 10, 1), op("aten::sum", 2, 5, 2))
    assert [(record.calls, record.counted, record.device_ns) for record in trace.records] == [(1, 1, 10_000)]


def test_events_of_the_same_microsecond_are_ordered_by_their_ids(tmp_path: Path) -> None:
    made = [op("aten::linear", 5, 10, 1), op("aten::addmm", 5, 10, 2), op("aten::relu", 5, 0, 3)]
    for order in (made, made[::-1]):
        assert counts(trace_of(tmp_path, *order)) == {"MatMul": 1}


def test_absolute_times_with_decimals_are_read_to_the_nanosecond(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    outer = json.dumps(op("aten::linear", 0, 1.001, 1)).replace('"ts": 0', '"ts": 1712345678901234.567')
    inner = json.dumps(op("aten::addmm", 0, 0.999, 2)).replace('"ts": 0', '"ts": 1712345678901234.569')
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + outer + "," + inner + "]}")
    assert sums(read(path), "device_ns") == {"aten::linear": 2, "aten::addmm": 999}


def test_without_shapes_a_remark_says_that_casts_are_not_told_apart(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, op("aten::copy_", 0, 1))
    assert counts(trace) == {"Copy": 1}
    assert "casts look like copies" in trace.remarks[0]
    assert trace.records[0].input_shapes is None


def test_odd_shapes_are_not_known(tmp_path: Path) -> None:
    odd = {
        "Input Dims": [["s0"], [[2], [3]], 5, []],
        "Input type": ["float", "TensorList", "c10::Float8_e5m2", "double"],
    }
    (record,) = trace_of(tmp_path, op("aten::mm", 0, 1, **odd)).records
    assert record.input_shapes is None
    assert record.input_dtypes == ("float32", "", "", "float8_e5m2", "float64")


@pytest.mark.parametrize("phase", ["s", "f", "M", "C", "unheard of", None])
def test_events_of_any_other_phase_change_nothing(tmp_path: Path, phase: str | None) -> None:
    made = [op("aten::mm", 0, 5), launch(1, 2), kernel(1, 9, 3)]
    other = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": 1, "ts": 2, "pid": 1, "tid": 1}
    assert trace_of(tmp_path, *made, other, *made, other) == trace_of(tmp_path, *made, *made)


def test_an_event_without_or_with_a_negative_duration_is_an_error_or_left_out_and_told(tmp_path: Path) -> None:
    broken = op("aten::mm", 9, 1)
    del broken["dur"]
    gpu = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    made = {"schemaVersion": 1, **gpu, "traceEvents": [op("aten::mm", 0, 1), op("aten::mm", 5, -3), broken]}
    with pytest.raises(TraceError, match=r"missing or not a number: 'aten::mm' at 5.0 us"):
        read(write(tmp_path, made))
    trace = read(write(tmp_path, made), partial=True)
    assert [record.calls for record in trace.records] == [1]
    assert trace.environment.device == "cpu"  # nothing is cut off
    assert trace.remarks == (
        "2 durations are missing or not numbers: left out; the first: 'aten::mm' at 5.0 us of trace.json",
    )


def test_calls_in_each_other_are_looked_through_for_a_launch_only_so_deep(tmp_path: Path) -> None:
    """Each launch looks through them: 10**6 of both would take days."""
    deep = [op("aten::mm", n, 9000 if n == 0 else 5000 - n) for n in range(1100)]
    assert trace_of(tmp_path, *deep[:900], launch(1, 6000), kernel(1, 7000, 1)).kernels
    with pytest.raises(TraceError, match="has more than 1000 calls in each other"):
        trace_of(tmp_path, *deep, launch(1, 6000), kernel(1, 7000, 1))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ([], "holds neither ops"),
        ([{"ph": "M", "name": "process_name"}], "holds neither ops"),
        ([op("aten::mm", 1, 1), op("aten::mm", 1e300, 1)], "beyond 64 bits"),
        ([op("aten::mm", 1, 1e300)], "beyond 64 bits"),
        ([{**op("aten::mm", 1, 1), "ts": None}], "no time"),
        ([op("aten::mm", 1, 1), op("aten::mm", 9e15, 9e15)], "beyond 64 bits"),
        ([op("aten::mm", 0, 9e15), *(op("aten::mm", n, 8e15, n) for n in range(1, 9))], "beyond 64 bits"),
        ([op("aten::mm", 1, 1, 2**70)], "beyond 64 bits"),
        ([kernel(2**70, 1, 1)], "beyond 64 bits"),
        ([launch(2**70, 1), kernel(2, 1, 1)], "beyond 64 bits"),
    ],
)
def test_a_trace_that_cannot_be_right_is_refused(tmp_path: Path, made: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(TraceError, match=why) as caught:
        trace_of(tmp_path, *made)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_cut_file_is_refused_and_partial_reads_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress(CPU.read_bytes())[:200_000])
    with pytest.raises(TraceError, match=r"--partial reads the events before"):
        read(path)
    trace = read(path, partial=True)
    assert 100 < sum(record.calls for record in trace.records) < 693
    assert "whole events" in trace.remarks[0]


@pytest.mark.parametrize(
    "path",
    [
        "jax-cpu/train_step.trace.json.gz",
        "onnxruntime-cpu/ort_opt-all.json",
        "megengine/imperative-train.chrome_timeline.json",
        "megengine/encoder4.json",
        "torch-cpu/key_averages.json",
    ],
)
def test_files_of_others_are_not_recognised(path: str) -> None:
    assert not kineto.recognises(Place(shared(path)))


def test_garbage_and_folders_are_not_recognised(tmp_path: Path) -> None:
    assert not kineto.recognises(Place(tmp_path))
    for content in (b"", b"\xff\xfe\x00", b"{", b'{"traceEvents": 5}', b'{"traceEvents": [{"cat": {}}]}', b"\x1f\x8b"):
        (tmp_path / "file").write_bytes(content)
        assert not kineto.recognises(Place(tmp_path / "file"))


def shuffled(events_: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    return random.Random(seed).sample(events_, len(events_))


@given(seed=st.integers(0, 10**6), piece=st.integers(200, 10**5), zipped=st.booleans())
@settings(max_examples=12)
def test_the_order_of_events_pieces_and_compression_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, piece: int, zipped: bool
) -> None:
    content = json.loads(gzip.decompress(CPU.read_bytes()))
    content["traceEvents"] = shuffled(content["traceEvents"], seed)
    path = tmp_path_factory.mktemp("trace") / "trace"
    encoded = json.dumps(content).encode()
    path.write_bytes(gzip.compress(encoded) if zipped else encoded)
    with patch.object(events, "PIECE", piece):
        assert kineto.read(Place(path), Options()) == read(CPU)


names = st.sampled_from(["aten::linear", "aten::addmm", "aten::copy_", "aten::to", "mine::op", "aten::relu"])


@given(seed=st.integers(0, 10**6), made=st.lists(st.tuples(names, st.integers(0, 20), st.integers(0, 9)), min_size=1))
def test_the_order_of_ops_and_kernels_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, seed: int, made: list[tuple[str, int, int]]
) -> None:
    ops = [op(name, start, length, n) for n, (name, start, length) in enumerate(sorted(made, key=lambda each: each[1]))]
    launches = [launch(n + 1, start) for n, (_, start, _) in enumerate(made)]
    kernels = [kernel(n + 1, 30 + start, length, f"k{length}") for n, (_, start, length) in enumerate(made[1:])]
    folder = tmp_path_factory.mktemp("trace")
    first = trace_of(folder, *ops, *launches, *kernels)
    assert trace_of(folder, *shuffled([*ops, *launches, *kernels], seed)) == first
    assert sum(launched.calls for launched in first.kernels or ()) == len(kernels)
    assert sum(record.device_ns or 0 for record in first.records) == 1000 * sum(
        length for _, _, length in made[1:]
    ) or (not kernels)
    for side in ("device", "host"):
        of_ops, of_types = (lines_of(first, side, by, "sum").values() for by in ("op", "type"))
        assert sum(time or 0 for time, _ in of_ops) == sum(time or 0 for time, _ in of_types)


def test_what_an_accelerator_of_meta_did_is_device_work_of_the_op_that_launched_it(tmp_path: Path) -> None:
    def did(name: str, start: float, duration: float, **args: Any) -> dict[str, Any]:
        return {**kernel(0, start, duration, name), "cat": "mtia_ccp_events", "pid": 9, "args": {"stream": 1, **args}}

    trace = trace_of(
        tmp_path,
        op("aten::add", 0, 10, 1),
        launch(18, 1, "runFunction - job_prep_and_submit_for_execution", cat="mtia_runtime"),
        did("add-dtype_Float", 20, 30, correlation=18),
        did("dma_request", 20, 5, direction="HOST_TO_DEVICE", size=64),
        did("event_wait", 60, 500),
    )
    assert trace.environment.device == "mtia"
    assert counts(trace) == {"Add": 1, "MemcpyHtoD": 1}
    assert sums(trace, "device_ns") == {"aten::add": 30_000, "Memcpy HOST_TO_DEVICE (dma_request)": 5000}
    assert sums(trace, "memory")["Memcpy HOST_TO_DEVICE (dma_request)"] == 64
    assert trace.remarks[0].startswith("copies of MTIA that do not tell which op asked for them: 1, listed as")
    assert not any("outside of the recording" in remark for remark in trace.remarks)


def allocated(device_type: int, total: int) -> dict[str, Any]:
    args = {"Device Type": device_type, "Device Id": 0 if device_type else -1, "Total Allocated": total, "Bytes": 8}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": args}


@pytest.mark.parametrize(
    ("events", "peaks"),
    [
        ([allocated(0, 8)], (None, 8)),
        ([allocated(0, 8), allocated(6, 700), allocated(6, 500)], (700, 8)),
        ([allocated(1, 0)], (0, None)),
    ],
)
def test_memory_of_the_host_is_none_of_the_device(
    tmp_path: Path, events: list[dict[str, Any]], peaks: tuple[int | None, int | None]
) -> None:
    """On an MI300X all events were the CPU's: 8 B, which a limit of 1 KiB for the device would keep."""
    trace = trace_of(tmp_path, op("aten::add", 0, 10, 1), launch(1, 1), kernel(1, 20, 5), *events)
    assert (trace.peak_memory, trace.host_peak_memory) == peaks
    unknown = "all memory events are the host's: the memory in use on a device is unknown"
    assert (unknown in trace.remarks) == (peaks[0] is None)
    on_cpu = trace_of(tmp_path, op("aten::add", 0, 10, 1), allocated(0, 8))
    assert (on_cpu.peak_memory, on_cpu.host_peak_memory) == (8, None)


def _names(count: int) -> list[dict[str, Any]]:
    return [op(f"op{number}", 2 * number, 1) for number in range(count)]


def _driver(count: int) -> list[dict[str, Any]]:
    return [launch(number, 1, f"call{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("bound", "events", "what"),
    [
        ("MOST_DIFFERENT", _names(4), "more than 3 different ops and shapes"),
        ("MOST_DIFFERENT", [{**op("a", 1, 1), "tid": at} for at in range(4)], "more than 3 different threads"),
        (
            "MOST_DIFFERENT",
            [kernel(1, 1, 1, stream=at) for at in range(4)],
            "3 different kernels and streams",
        ),
        (
            "MOST_DIFFERENT",
            [op("a", 1, 1), *_driver(4)],
            "3 different calls of the driver",
        ),
        ("MOST_EVENTS", [op("a", at, 1) for at in range(4)], "more than 3 events"),
        ("MOST_EVENTS", [kernel(1, at, 1) for at in range(4)], "more than 3 events"),
    ],
    ids="names threads streams driver calls activities".split(),
)
def test_more_than_any_recording_has_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, events: list[dict[str, Any]], what: str
) -> None:
    """Unbounded, a million streams took 2.2 GiB and 95 s, half a million names 1.8 GiB and 129 s."""
    monkeypatch.setattr(kineto_events, bound, 3)
    with pytest.raises(TraceError, match=what):
        trace_of(tmp_path, *events)
    with pytest.raises(TraceError, match=what):
        kineto.timeline(Place(tmp_path / "trace.json"), Options())
    trace_of(tmp_path, *events[:3])


def test_calls_that_are_all_inside_each_other_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """15 M ops at the same time, in 4 MB of gzip, took 2.9 GB."""
    monkeypatch.setattr(nesting, "MOST_INSIDE", 3)
    with pytest.raises(TraceError, match="more than 3 calls in one call"):
        trace_of(tmp_path, *(op("a", 1, 1) for _ in range(4)))
