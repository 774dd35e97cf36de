"""What torch's profiler records of a GPU. No GPU is here: rows of public recordings, and stand-ins where it says so."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.frameworks.files.format import Options as ReadOptions
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver
from pytest_opprof.frameworks.nvidia.live import libcupti, nvml
from pytest_opprof.frameworks.nvidia.live.cupti_records import DRIVER, RUNTIME
from pytest_opprof.frameworks.nvidia.live.events import Span
from pytest_opprof.frameworks.pytorch.live import cuda as torch_cuda
from pytest_opprof.frameworks.pytorch.live import kineto
from pytest_opprof.frameworks.pytorch.live.kineto import Activity, Allocation, Call, Op, Recorded
from pytest_opprof.frameworks.pytorch.saved import kineto as reader
from pytest_opprof.frameworks.pytorch.work import recorded_work
from pytest_opprof.ops.cuda_kernels import moved
from pytest_opprof.ops.names import stable
from pytest_opprof.ops.signature import UNKNOWN
from pytest_opprof.ops.vocabulary import COMMUNICATION
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.kernels import KernelStats
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.profile.saved import OUTSIDE
from pytest_opprof.sites.chains import Chains
from pytest_opprof.timeline.window import timeline_of
from pytest_opprof.verdict.budgets import Budget

from ....conftest import remarks_of, shared
from ...nvidia.live.nvml_stand_in import Nvml, process

Numbers = dict[str, tuple[int, int | None]]


def span(marks: Sequence[int] = (), waited: int = 1 << 62) -> Span:
    return Span(0, 1 << 62, marks, waited)


def profile_of(session: Recorded, marks: tuple[int, ...] = ()) -> OpProfile:
    log = EventLog(Environment(()))
    log.interval, log.knows_memory, log.knows_flops = len(marks), True, True
    torch_cuda.fill(log, session, span(marks))
    return log.freeze()


def counts(profile: OpProfile) -> dict[str, int]:
    return {stats.op: sum(stats.calls) for stats in profile.ops}


def device_ns(profile: OpProfile, op: str) -> int | None:
    (found,) = (stats for stats in profile.ops if stats.op == op)
    return sum(found.device_ns) if found.device_ns else None


# --- recorded on GPUs, public: rows of the files against what the reader of saved traces says of them ----------------


def recorded(path: Path, linked: bool = False) -> Recorded:
    """Return the rows of a file, as `_KinetoEvent` has them; *linked* with the links that it has."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X" and event.get("dur", -1) >= 0]
    base = min(event["ts"] for event in timed)
    threads: dict[tuple[Any, Any], int] = {}
    found = Recorded()
    for number, event in enumerate(timed, 1):
        category, name, args = event.get("cat"), event["name"], event.get("args", {})
        start, duration = round((event["ts"] - base) * 1000), round(event["dur"] * 1000)
        thread = threads.setdefault((event["pid"], str(event["tid"])), len(threads))
        serial = args.get("External id", args.get("external id", 0))
        correlation = args.get("correlation", 0)
        if category in ("cpu_op", "Operator", "user_annotation"):
            annotates = category == "user_annotation" or "#" in name
            done = recorded_work(name, args.get("Input type", []), args.get("Input Dims", []), [])
            key = -number if annotates else serial
            sequence = (0, args["Sequence number"]) if "Sequence number" in args else None
            signature = done.signature if "Input type" in args else UNKNOWN
            op = Op(name, thread, start, duration, key, done.dtypes, annotates=annotates, sequence=sequence)
            found.ops.append(op._replace(signature=signature))
        elif category in ("cuda_runtime", "cuda_driver", "Runtime"):
            kind = DRIVER if category == "cuda_driver" else RUNTIME
            found.calls.append(Call(name, kind, thread, start, duration, correlation, serial if linked else 0))
        elif category in ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"):
            nbytes = args.get("bytes", ABSENT)
            shape = (*args.get("grid", ()), *args.get("block", ())) or (0,) * 6
            found.activities.append(
                Activity(name, start, duration, correlation, args["device"], nbytes, args["stream"], shape)
            )
    return found


def numbers(profile: OpProfile, without: Callable[[str], bool] = lambda op: False) -> Numbers:
    return {
        stats.op: (sum(stats.calls), sum(stats.device_ns) if stats.device_ns else None)
        for stats in profile.ops
        if not without(stats.op)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "linked"),
    [
        ("kineto_resnet50_v100_2021.pt.trace", False),
        ("kineto_resnet50_v100_2021.pt.trace", True),
        ("hta_alexnet_2023", False),
        ("hta_triton_example", True),
        ("kineto_h100_2026_small", False),
    ],
)
def test_a_recording_has_the_numbers_that_the_reader_finds_in_its_file(name: str, linked: bool) -> None:
    path = shared(f"torch-cuda/{name}.json.gz")
    ours, theirs = profile_of(recorded(path, linked)), reader.read(Place(path), ReadOptions()).profile()
    assert numbers(ours) == numbers(theirs)
    assert (ours.total.device_ns or (0,))[0] == sum(theirs.total.device_ns or ())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hta_trace_diff_control", "hta_cuda_event_sync", "hta_sampled_rank-0"])
def test_kernels_that_no_op_launched_are_ops_by_themselves(name: str) -> None:
    path = shared(f"torch-cuda/{name}.json.gz")
    ours, theirs = numbers(profile_of(recorded(path))), numbers(reader.read(Place(path), ReadOptions()).profile())
    # Live, the kernel of a collective is a part of the op that asked for it, which has no time then.
    collectives = {op for op in {*ours, *theirs} if "nccl" in op or op in COMMUNICATION}
    assert all(ours[op] == (theirs[op][0], None) for op in collectives & ours.keys())
    assert {op for op in {*ours, *theirs} - collectives if ours.get(op) != theirs.get(op)} == set()


@pytest.mark.slow
def test_nothing_of_a_step_with_cuda_graphs_and_unlinked_kernels_is_lost() -> None:
    path = shared("torch-cuda/hta_a100_rank0_shapes.json.gz")
    session = recorded(path)
    trace = reader.read(Place(path), ReadOptions())
    assert trace.steps[-1] == OUTSIDE  # what was launched before the recording; a live window knows no before
    ours, theirs = profile_of(session), replace(trace, steps=(*trace.steps[:-1], "before"), step_ns=None).profile()
    assert sum(ours.total.device_ns or ()) == sum(theirs.total.device_ns or ())
    assert ours.launches == (5240 + 70,)  # kernels and graphs
    assert ours.stats("(unlinked)").calls == (872,)
    assert ours.stats("MemcpyHtoD").bytes == (sum(a.nbytes for a in session.activities if "HtoD" in a.name),)
    for op in ("MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD", "Memset", "Synchronize", "torch::graph"):
        assert sum(ours.stats(op).calls) == sum(theirs.stats(op).calls) > 0
    assert ours.stats("torch::graph").calls == (35 + 35,)
    assert ours.stats("torch::graph").device_ns is not None


RECORDINGS = [
    "kineto_resnet50_v100_2021.pt.trace",
    "hta_alexnet_2023",
    "hta_a100_rank0_shapes",
    "hta_cuda_event_sync",
    "hta_sampled_rank-0",
    "hta_trace_diff_control",
    "hta_triton_example",
    "kineto_h100_2026_small",
]


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_kernel_of_a_recording_is_there_with_its_time_stream_grid_and_block(name: str) -> None:
    session = recorded(shared(f"torch-cuda/{name}.json.gz"))
    calls, times, streams = Counter[object](), Counter[object](), defaultdict[object, set[int]](set)
    for done in session.activities:
        key = moved(done.name) or stable(done.name), done.device, done.shape
        calls[key] += 1
        times[key] += done.duration_ns
        streams[key].add(done.stream)
    ours, our_times, our_streams = Counter[object](), Counter[object](), defaultdict[object, set[int]](set)
    profile = profile_of(session)
    of_ops = Counter[str]()
    for found in profile.kernels or ():
        key = found.kernel, found.device, (*(found.grid or (0,) * 3), *(found.block or (0,) * 3))
        ours[key] += found.most_calls
        our_times[key] += found.fastest_ns or 0
        our_streams[key] |= {*found.streams}
        of_ops[found.op] += found.fastest_ns or 0
    assert (ours, our_times, our_streams) == (calls, times, streams)
    # What a table says of an op is what its kernels took; that of a collective is not said.
    assert of_ops == {op: ns or of_ops[op] for op, (_, ns) in numbers(profile).items() if op in of_ops}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_grid_and_block_are_found_in_the_text_that_kineto_writes(name: str) -> None:
    text = gzip.decompress(shared(f"torch-cuda/{name}.json.gz").read_bytes()).decode()
    kernels = [e["args"] for e in json.loads(text)["traceEvents"] if e.get("cat") in ("kernel", "Kernel")]
    # Triton's own events have a grid of another kind.
    written = [kineto._shape(rest) for rest in text.split('"warps per SM"')[1:]]
    assert written == [(*kernel["grid"], *kernel["block"]) for kernel in kernels]


@pytest.mark.parametrize("metadata", ["", '"grid": "grid(100,)"', '"grid": [1, 2], "block": [3]', '"block": [1, 1, 1]'])
def test_a_grid_that_is_not_written_or_written_otherwise_is_not_known(metadata: str) -> None:
    assert kineto._shape(metadata) == (0,) * 6


# --- rows made here ---------------------------------------------------------------------------------------------------

H2D, D2H = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
CAST = ("float", "c10::Half")


def op(name: str, start: int, duration: int = 90, dtypes: tuple[str, ...] = (), thread: int = 1, **other: Any) -> Op:
    return Op(name, thread, start, duration, start + 1, dtypes, **other)


def call(correlation: int, start: int, name: str = "cudaLaunchKernel", thread: int = 1, **other: Any) -> Call:
    return Call(name, RUNTIME, thread, start, 1, correlation, **other)


def done(correlation: int, duration: int, name: str = "gemm", nbytes: int = ABSENT, start: int = 900) -> Activity:
    return Activity(name, start, duration, correlation, 0, nbytes)


def test_the_time_of_an_op_is_that_of_the_kernels_it_launched() -> None:
    ops = [op("aten::linear", 0), op("aten::t", 1, 2), op("aten::addmm", 10, 50), op("aten::view", 95, 1)]
    session = Recorded(ops, [call(1, 20), call(2, 30)], [done(1, 1000), done(2, 10, "void epilogue<float>(float*)")])
    profile = profile_of(session)
    assert numbers(profile) == {"MatMul": (1, 1010), "Reshape": (1, 0)}
    assert profile.stats("aten::addmm").device_ns == (1010,)
    assert profile.launches == (2,)
    # A kernel is counted under its own name too; its time is said of the op.
    assert profile.stats("gemm").calls == (1,)
    assert profile.stats("gemm").device_ns is None


def test_a_copy_that_is_a_memcpy_is_counted_once_and_a_cast_beside_it() -> None:
    plain = [op("aten::to", 0), op("aten::_to_copy", 1, 80), op("aten::copy_", 2, 70, ("float", "float"))]
    cast = [op("aten::copy_", 100, 90, CAST)]
    calls = [call(1, 5, "cudaMemcpyAsync"), call(2, 105, "cudaMemcpyAsync"), call(3, 110)]
    did = [done(1, 40, H2D, 16), done(2, 40, H2D, 8), done(3, 7, "cast")]
    profile = profile_of(Recorded([*plain, *cast], calls, did))
    assert numbers(profile) == {"MemcpyHtoD": (2, 80), "Cast": (1, 7)}
    assert profile.stats("MemcpyHtoD").bytes == (24,)


def test_a_clone_that_is_a_memcpy_is_no_copy_beside_it() -> None:
    ops = [op("aten::clone", 0), op("aten::empty_like", 1, 2), op("aten::copy_", 10, 50, ("float", "float"))]
    did = [done(1, 5, "Memcpy DtoD (Device -> Device)", 4)]
    assert counts(profile_of(Recorded(ops, [call(1, 20, "cudaMemcpyAsync")], did))) == {"MemcpyDtoD": 1}


def test_waits_and_copies_count_wherever_they_happen() -> None:
    item = [op("aten::item", 0), op("aten::_local_scalar_dense", 1, 80)]
    calls = [call(1, 10, "cudaMemcpyAsync"), call(2, 20, "cudaStreamSynchronize"), call(3, 95, "cudaDeviceSynchronize")]
    profile = profile_of(Recorded(item, [*calls, call(4, 96, "cudaEventQuery")], [done(1, 3, D2H, 4)]))
    assert counts(profile) == {"Item": 1, "MemcpyDtoH": 1, "Synchronize": 2}
    assert profile.stats("Synchronize").device_ns is None
    assert profile.launches == (0,) or profile.launches is None


def test_what_other_libraries_launch_is_counted_under_what_it_is() -> None:
    calls = [call(1, 5, "cuLaunchKernel")]
    profile = profile_of(Recorded([], calls, [done(1, 8, "cupy_copy__float64_float32"), done(9, 4, "early")]))
    assert numbers(profile) == {"Cast": (1, 8), "early": (1, 4)}
    assert profile.stats("(unlinked)").calls == (1,)


def test_a_replayed_graph_is_one_launch_of_its_kernels() -> None:
    graph = [done(1, 5, "void mine(float*)") for _ in range(3)]
    profile = profile_of(Recorded([], [call(1, 0, "cudaGraphLaunch"), call(2, 5, "cudaGraphLaunch")], graph))
    assert (numbers(profile), profile.launches) == ({"mine": (3, 15)}, (2,))
    (said,) = remarks_of(profile)
    assert said.startswith("1 of 2 launches of CUDA graphs did nothing that CUPTI recorded")


def test_a_node_of_a_graph_is_not_blamed_on_a_call_that_launches_none() -> None:
    """Before 13.1 Update 1 CUPTI gives such numbers."""
    ops = [op("aten::mm", 0, 20), op("aten::relu", 30, 20)]
    calls = [call(1, 5), call(2, 35), call(3, 60, "cudaGraphLaunch")]
    node = done(2, 5, "void mine(float*)")._replace(graph_node=7)
    profile = profile_of(Recorded(ops, calls, [done(1, 3), done(2, 4), node]))
    assert (numbers(profile), profile.launches) == ({"MatMul": (1, 3), "Relu": (1, 4), "mine": (1, 5)}, (3,))
    assert profile.stats("(unlinked)").calls == (1,)
    assert [text.split(",")[0] for text in remarks_of(profile)] == [
        "1 launch of CUDA graphs without work of their own",
        "kernels and copies without a recorded call: 1. They count in the round in which they began. torch's profiler"
        " misses most driver calls of Numba",
    ]


def test_a_wrapper_that_launched_kernels_itself_is_an_op() -> None:
    calls = [call(1, 6), call(2, 50, "cudaGraphLaunch")]
    for name in ("MineBackward", "aten::_foreach_add_", "my_kernel_0"):
        ops = [op(name, 0), op("aten::copy_", 5, 20)]
        profile = profile_of(Recorded(ops, calls, [done(1, 3, "copy"), done(2, 40, "triton_"), done(2, 9)]))
        assert numbers(profile) == {"Copy": (1, 3), name: (1, 49)}


def test_the_graph_of_torch_compile_has_the_kernels_that_no_op_in_it_launched() -> None:
    ops = [op("Torch-Compiled Region: 0/1", 0), op("aten::mm", 5, 20), op("triton_poi_fused_add_7", 30, 9)]
    calls = [call(1, 6), call(2, 31), call(3, 50, "cudaGraphLaunch")]
    profile = profile_of(Recorded(ops, calls, [done(1, 3), done(2, 40, "triton_"), done(3, 9)]))
    assert numbers(profile) == {"MatMul": (1, 3), "triton_poi_fused_add": (1, 40), "torch::graph": (1, 9)}


def test_what_torch_compile_runs_while_it_compiles_is_not_the_programs() -> None:
    """As PyTorch 2.13 marks it; an older one has no event around."""
    frame = [op("dynamo", 10, 300), op("dynamo_data: compile_id=0/0", 11, 2, annotates=True)]
    frame += [op("_compile.compile_inner (dynamo_timed)", 20, 280), op("aten::mm", 30, 90)]
    autotuned = [op("CachingAutotuner.benchmark_all_configs (dynamo_timed)", 420, 50)]
    ops = [*frame, op("Torch-Compiled Region: 0/0", 400, 200), *autotuned, op("triton_poi_fused_add_0", 480, 90)]
    calls = [call(1, 40), call(2, 430), call(3, 450, "cudaDeviceSynchronize"), call(4, 490)]
    tried = [done(1, 7, "gemm"), done(2, 8, "triton_poi_fused_add_0")]
    allocated = [Allocation(50, 64, True), Allocation(430, 32, True), Allocation(495, 16, True)]
    session = Recorded(ops, calls, [*tried, done(4, 5, "triton_poi_fused_add_0")], allocated)
    profile = profile_of(session)
    assert numbers(profile) == {"torch::compile": (1, None), "torch::graph": (1, 0), "triton_poi_fused_add": (1, 5)}
    assert (profile.launches, profile.allocations) == ((1,), (1,))
    assert remarks_of(profile)[0].startswith(
        "kernels and copies that torch.compile ran to try or compute something: 2, left out"
    )
    on_cpu = profile_of(Recorded(ops))
    assert numbers(on_cpu)["torch::graph"] == (1, 200 - 50 - 90)
    assert numbers(on_cpu)["torch::compile"] == (1, None)


def test_a_collective_is_counted_and_its_time_stands_beside_that_of_ops() -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    profile = profile_of(Recorded([op("c10d::allreduce_", 0)], [call(1, 5)], [done(1, 700, name)]))
    assert (numbers(profile), profile.communication_ns) == ({"AllReduce": (1, None)}, (700,))
    alone = profile_of(Recorded([], [call(1, 5)], [done(1, 700, name)]))  # CuPy's, or of a library
    assert numbers(alone) == {"ncclDevKernel_AllReduce_Sum_f32_RING_LL": (1, None)}
    assert alone.communication_ns == (700,)


def test_a_collective_takes_its_time_in_the_round_that_launched_it() -> None:
    late = done(1, 700, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")._replace(start=90)
    recorded = Recorded([op("c10d::_allgather_base_", 10, 20)], [call(1, 15)], [late])
    assert profile_of(recorded, (5, 40, 80)).communication_ns == (0, 700, 0, 0)


def test_a_kernel_belongs_to_the_round_that_launched_it() -> None:
    ops = [op("aten::mm", 10, 20), op("aten::mm", 50, 20)]
    profile = profile_of(Recorded(ops, [call(1, 15), call(2, 55)], [done(1, 3), done(2, 4)]), (5, 40, 80))
    assert profile.stats("MatMul").calls == (0, 1, 1, 0)
    assert profile.stats("MatMul").device_ns == (0, 3, 4, 0)
    assert profile.launches == (0, 1, 1, 0)


def test_host_ops_calls_and_kernels_ran_each_in_their_thread_or_stream() -> None:
    log = EventLog(Environment((("torch", "2"),)))
    log.mark()
    log.marked_ns = [5]
    ops = [op("aten::linear", 10, 80), op("aten::mm", 20, 60), op("aten::relu", 15, 5, thread=2)]
    session = Recorded(ops, [call(1, 30)], [done(1, 40, start=900)._replace(stream=7)])
    torch_cuda.fill(log, session, span([5]), Options(moments=True))
    profile = assemble([(log.freeze(None, [1_005]), {1: 0})], [100], ran_ns=[(1_005, 1_105)])
    spans = timeline_of(profile, 0)
    assert [(span.lane.thread, span.depth, span.name, span.start_ns, span.duration_ns) for span in spans] == [
        ("rounds", 0, "round 1 of 1", 1_005, 100),
        ("thread 1", 0, "MatMul (aten::linear)", 1_010, 80),
        ("thread 1", 1, "aten::mm", 1_020, 60),
        ("thread 1", 2, "cudaLaunchKernel", 1_030, 1),
        ("thread 2", 0, "Relu (aten::relu)", 1_015, 5),
        ("stream 7", 0, "MatMul (gemm)", 1_900, 40),
    ]


def test_sync_timing_takes_an_op_from_before_its_launches_to_after_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    calls = [call(1, 10)._replace(duration_ns=30), call(2, 60)._replace(duration_ns=25)]

    def filled(*starts: int) -> EventLog:
        kernels = [done(number, 20)._replace(start=start) for number, start in enumerate(starts, 1)]
        log = EventLog(Environment(()))
        torch_cuda.fill(log, Recorded([op("aten::mm", 0, 100)], calls, kernels), options=Options("sync"))
        return log

    profile = filled(15, 63).freeze()
    assert numbers(profile) == {"MatMul": (1, 100)}  # as long as the op took the host, dispatching included
    assert [found.fastest_ns for found in profile.kernels or ()] == [20 + 20]
    with pytest.raises(BackendError, match="but 2 kernels began after their launches returned"):
        filled(50, 90)


def test_sync_timing_takes_a_copy_until_it_is_done_though_the_host_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    ops = [op("aten::to", 0, 50), op("aten::copy_", 10, 30, ("float", "float")), op("aten::mm", 60, 190)]
    calls = [call(1, 20, "cudaMemcpyAsync"), call(2, 70)._replace(duration_ns=170)]
    work = [done(1, 100, H2D, 8, start=25), done(2, 100, start=130)]
    log = EventLog(Environment(()))
    torch_cuda.fill(log, Recorded(ops, calls, work), options=Options("sync"))
    profile = log.freeze()
    # `to` is the copy, and takes until that is done, at 125. Only then the product would be sent; it has run at 250.
    assert numbers(profile) == {"MemcpyHtoD": (1, 125), "MatMul": (1, 125)}


def test_sync_timing_shares_the_time_of_a_thread_among_its_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is replayed, which the host does not wait for; ops inside an op, and of another thread, go on."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    ops = [
        op("CompiledFxGraph 7", 0, 10),
        op("aten::linear", 20, 180),
        op("aten::mm", 30, 20),
        op("aten::add", 60, 130),
        op("aten::relu", 5, 10, thread=2),
    ]
    calls = [
        call(1, 5, "cudaGraphLaunch"),
        call(2, 35)._replace(duration_ns=5),
        call(3, 70)._replace(duration_ns=110),
        call(4, 6, thread=2)._replace(duration_ns=8),
    ]
    work = [done(1, 90, start=10), done(2, 2, start=37), done(3, 60, start=110), done(4, 3, start=9)]
    log = EventLog(Environment(()))
    torch_cuda.fill(log, Recorded(ops, calls, work), options=Options("sync"))
    profile = log.freeze()
    # The graph is done at 100, when `mm` has long returned: `linear`, all of whose time is here, has 100 to 200.
    assert numbers(profile) == {"CompiledFxGraph 7": (1, 100), "MatMul": (1, 100), "Relu": (1, 10)}
    assert profile.total.device_ns == (210,)


def test_the_link_of_kineto_is_better_than_the_times() -> None:
    ops = [op("aten::mm", 0, 10), op("aten::relu", 20, 10)]
    assert numbers(profile_of(Recorded(ops, [call(1, 25, op=1)], [done(1, 3)])))["MatMul"] == (1, 3)
    assert numbers(profile_of(Recorded(ops, [call(1, 25, op=77)], [done(1, 3)])))["Relu"] == (1, 3)


def test_calls_and_kernels_of_other_threads_do_not_tear_ops_apart() -> None:
    ops = [op("aten::linear", 10, 80), op("aten::addmm", 40, 40)]
    waits = Call("cudaEventSynchronize", RUNTIME, 2, 5, 30, 8)
    profile = profile_of(Recorded(ops, [waits, call(1, 50)], [done(1, 3), done(99, 500, "early", start=0)]))
    assert counts(profile) == {"MatMul": 1, "Synchronize": 1, "early": 1}


def test_what_is_inside_an_annotation_is_taken_as_if_it_were_not_there() -> None:
    ops = [op("aten::linear", 0), op("mine", 5, 80, annotates=True), op("aten::addmm", 10, 50)]
    assert numbers(profile_of(Recorded(ops, [call(1, 70, op=6)], [done(1, 3)]))) == {"MatMul": (1, 3)}


def test_without_device_work_the_cpu_is_the_device() -> None:
    ops = [op("aten::linear", 0), op("aten::addmm", 10, 50)]
    profile = profile_of(Recorded(ops, [call(1, 95, "cudaDeviceSynchronize")]))
    assert numbers(profile) == {"MatMul": (1, 90), "Synchronize": (1, None)}


def test_memory_is_that_of_the_gpu_where_it_works_and_of_the_host_where_not() -> None:
    given = [Allocation(5, 1000, True), Allocation(6, 7, False), Allocation(8, -1000, True), Allocation(9, 64, True)]
    work = Recorded([op("aten::mm", 0)], [call(1, 5)], [done(1, 3)], given)
    assert [(use.peak, use.net) for use in profile_of(work).memory or ()] == [(1000, 64)]
    assert [use.peak for use in profile_of(Recorded([op("aten::mm", 0)], [], [], given)).memory or ()] == [7]


def test_flops_are_those_of_the_ops() -> None:
    work = Recorded([op("aten::mm", 0, flops=320)], [call(1, 5)], [done(1, 3)])
    assert profile_of(work).stats("MatMul").flops == (320,)


def test_a_launch_whose_kernel_is_lost_is_an_error_that_names_the_known_cause() -> None:
    calls = [call(1, 5), call(2, 6), call(3, 7, "cuLaunchKernelEx")]
    with pytest.raises(BackendError, match=r"CUPTI lost 2 of 3 kernels.*pytorch/issues/192021"):
        profile_of(Recorded([op("aten::mm", 0)], calls, [done(1, 3)]))


def test_a_node_of_a_graph_with_the_number_of_a_call_of_opprof_stays() -> None:
    """Before 13.1 Update 1 CUPTI gives such numbers."""
    calls = [call(1, 5), call(2, 15, "cudaGraphLaunch"), call(3, 95, "cudaDeviceSynchronize")]
    nodes = [done(number, 5, "void mine(float*)", start=20)._replace(graph_node=7 + number) for number in (1, 2)]
    session = Recorded([], calls, [done(1, 3, "ours"), *nodes]).between(10, 90)
    assert numbers(profile_of(session)) == {"mine": (2, 10)}
    assert numbers(profile_of(session.without({1}, []))) == {"mine": (2, 10)}
    assert session.without({2}, []).activities == nodes[:1]


def test_kernels_of_graphs_are_not_given_to_a_launch_where_pytorch_tells_no_nodes() -> None:
    """As PyTorch 2.10 and 2.11, beside a CUPTI that numbers graphs wrongly."""
    ops, calls = [op("aten::mm", 0, 20)], [call(1, 5), call(2, 60, "cudaGraphLaunch")]
    nodes = [done(1, 100, "void mine(float*)", start=950) for _ in range(4)]
    profile = profile_of(Recorded(ops, calls, [done(1, 3), *nodes]))
    assert numbers(profile) == {"MatMul": (1, 3), "mine": (4, 400)}
    assert profile.stats("(unlinked)").calls == (4,)
    assert remarks_of(profile)[0].startswith("1 launch of CUDA graphs without work of their own, and kernels")


def test_what_another_thread_was_launching_when_the_window_ended_is_not_lost() -> None:
    session = Recorded([], [call(1, 5), call(2, 25)], [done(1, 3)])  # each call takes 1 ns
    with pytest.raises(BackendError, match="CUPTI lost 1 of 2 kernels"):
        torch_cuda.fill(EventLog(Environment(())), session, span(waited=26))
    log = EventLog(Environment(()))
    torch_cuda.fill(log, session, span(waited=25))
    assert counts(log.freeze()) == {"gemm": 1}


def test_code_that_was_loaded_onto_the_gpu_is_said_of_its_round() -> None:
    log = EventLog(Environment(()))
    log.mark()
    log.mark()
    torch_cuda.fill(log, Recorded([], [call(1, 5), call(2, 25, "cuLibraryLoadData")], [done(1, 3)]), span([0, 20]))
    ((interval, remark),) = log.freeze().remarks
    assert (interval, remark.text.partition(":")[0]) == (2, "code was compiled for the GPU or loaded onto it")


def test_code_that_a_first_launch_loaded_is_said_too() -> None:
    log = EventLog(Environment(()))
    log.mark()
    torch_cuda.fill(log, Recorded([], [call(1, 25)], [done(1, 3)], loaded=[25]), span([20]))
    assert [interval for interval, _ in log.freeze().remarks] == [1]


def test_what_a_graph_captures_from_any_thread_has_no_kernel_to_lose() -> None:
    capture = [
        call(1, 5, "cudaStreamBeginCapture"),
        call(2, 6),
        call(3, 7, thread=2),
        call(4, 8, "cudaStreamEndCapture"),
    ]
    assert profile_of(Recorded([], [*capture, call(5, 9, "cudaLaunchHostFunc")])).ops == ()
    with pytest.raises(BackendError, match="lost 1 of 3"):
        profile_of(Recorded([], [*capture, call(6, 10, thread=2)]))


def test_what_is_before_the_begin_or_after_the_end_is_not_the_programs() -> None:
    calls = [call(4, -3), call(5, -2), call(1, 5), call(2, 100, "cudaDeviceSynchronize"), call(3, 101)]
    ops = [op("aten::fill_", -5, 3), op("aten::mm", 0), op("aten::mm", 110)]
    session = Recorded(ops, calls, [done(4, 1), done(1, 3), done(3, 9)], loaded=[-1, 5, 100])  # a kernel was lost
    assert session.between(0, 100).loaded == [5]
    torch_cuda.check_waited(session, 100)
    assert numbers(profile_of(session.between(0, 100))) == {"MatMul": (1, 3)}
    with pytest.raises(BackendError, match="recorded no call of CUDA at the end of the window: another"):
        torch_cuda.check_waited(session, 102)


# --- stand-ins: PyTorch on the CPU runs, and a GPU is made up for some of its ops -------------------------------------


class DeviceType(IntEnum):
    """Stands for PyTorch's."""

    CPU = 0
    CUDA = 1


@dataclass
class StandIn:
    """Shaped like `torch._C._autograd._KinetoEvent`, for what Kineto itself records."""

    kind: str
    called: str
    at: int
    takes: int = 1
    correlation: int = 0
    link: int = 0
    thread: int = 1
    metadata: str = ""

    def device_type(self) -> Any:
        on_gpu = self.kind.startswith(("kernel", "gpu_", "cuda_sync"))
        return DeviceType.CUDA if on_gpu else DeviceType.CPU

    def is_user_annotation(self) -> bool:
        return self.kind.endswith("user_annotation")

    def activity_type(self) -> str:
        return self.kind

    def name(self) -> str:
        return self.called

    def start_ns(self) -> int:
        return self.at

    def duration_ns(self) -> int:
        return self.takes

    def correlation_id(self) -> int:
        return self.correlation

    def linked_correlation_id(self) -> int:
        return self.link

    def device_resource_id(self) -> int:
        return self.thread

    def device_index(self) -> int:
        return 0

    def metadata_json(self) -> str:
        return self.metadata


CONVERT = "void convert<float>()"
LAUNCHED = """
      "shared memory": 0,
      "warps per SM": 0.037037,
      "grid": [2, 3, 4],
      "block": [64, 2, 1],
      "est. achieved occupancy %": 0"""


class Older:
    """An event as PyTorch 2.10 and 2.11 have it: it does not tell what it is."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def __getattr__(self, name: str) -> Any:
        if name in ("activity_type", "structured_input_shapes"):
            raise AttributeError(name)
        return getattr(self._event, name)


class Gpu:
    """Each cast or fill launches a kernel, each plain copy is a memcpy to the GPU, as far as events tell."""

    def __init__(self) -> None:
        self.casts, self.model, self.loses, self.waits = 0, "Stand-in GPU", 0, True
        self.ignored, self.is_older = "", False
        self.other: list[StandIn] = []

    def events(self, real: list[Any]) -> list[Any]:
        made: list[Any] = [*real, *self.other]
        working = [event for event in real if event.name() in ("aten::copy_", "aten::fill_")]
        for number, event in enumerate(sorted(working, key=lambda event: event.start_ns()), 1):
            is_cast = event.name() == "aten::fill_" or len({*event.dtypes()[:2]}) > 1
            how = "cudaLaunchKernel" if is_cast else "cudaMemcpyAsync"
            inside, link = event.start_ns() + 1, event.correlation_id()
            made.append(StandIn("cuda_runtime", how, inside, 1, number, link, 3))
            if is_cast and number > self.loses:
                made.append(StandIn("kernel", CONVERT, inside + 5000, 2000, number, link, 7, LAUNCHED))
            if not is_cast:
                bandwidth = '"device": 0, "bytes": 96, "memory bandwidth (GB/s)": N/A'
                made.append(StandIn("gpu_memcpy", H2D, inside + 5000, 50, number, link, 7, bandwidth))
        if self.waits:
            made.append(StandIn("cuda_runtime", "cudaDeviceSynchronize", time.time_ns(), 1, 9999))
        made.append(StandIn("gpu_user_annotation", "opprof::mark", 0))
        return [Older(event) for event in made] if self.is_older else made


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    torch = pytest.importorskip("torch")
    from pytest_opprof.frameworks.pytorch.live import backend as module

    gpu, session = Gpu(), module._session

    def stood_in(options: Options, on_gpu: bool, all_threads: bool) -> Any:
        assert on_gpu
        real = session(options, False, all_threads)
        stop = real.__exit__

        def stopped(*error: object) -> None:
            stop(*error)
            results = real.kineto_results
            real.kineto_results = SimpleNamespace(events=lambda: gpu.events(results.events()))

        real.__exit__ = stopped
        return real

    driver = SimpleNamespace(
        is_initialised=lambda: True,
        ignored_devices=lambda: gpu.ignored,
        synchronize=lambda: 1,
        active=lambda: iter([0]),
        bus=lambda device: "0000:3B:00.0",
    )
    monkeypatch.setattr(cuda_driver, "opened", lambda: driver)
    monkeypatch.setattr(module, "_records_gpu", lambda: True)
    monkeypatch.setattr(module, "_session", stood_in)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: gpu.model)
    return gpu


@contextmanager
def window(**options: Any) -> Iterator[list[OpProfile]]:
    from pytest_opprof.frameworks.pytorch.live.backend import backend

    found: list[OpProfile] = []
    with backend().collect(Options(**options)) as log:
        log.mark()
        yield found
        log.mark()
    found.append(assemble([(log.freeze(), {1: 0})], [1]))


@pytest.mark.torch
def test_a_window_counts_casts_copies_and_launches_of_the_gpu_and_not_its_own_wait(gpu: Gpu) -> None:
    import torch

    x = torch.ones(4, 6)
    with window() as found:
        x.half()
        x.double()
        x.to(torch.float32, copy=True)
        x + x
    assert numbers(found[0]) == {"Cast": (2, 4000), "MemcpyHtoD": (1, 50), "Add": (1, 0)}
    assert found[0].launches == (2,)
    assert found[0].stats("MemcpyHtoD").bytes == (96,)
    assert found[0].stats("Cast").bytes == (24 * (4 + 2) + 24 * (4 + 8),)
    assert found[0].stats("Synchronize").calls == (0,)
    assert found[0].kernels == (
        KernelStats(CONVERT, "Cast", 0, (7,), (2, 3, 4), (64, 2, 1), 2, 2, 4000),
        KernelStats("MemcpyHtoD", "MemcpyHtoD", 0, (7,), None, None, 1, 1, 50),
    )
    assert str(found[0].environment).endswith(f"{torch.__version__.split('+')[0]}, Stand-in GPU, async")
    assert found[0].environment.frameworks[0] == ("cuda", "13.0")


@pytest.mark.torch
def test_a_window_of_pytorch_2_10_which_does_not_tell_what_events_are_is_the_same(gpu: Gpu) -> None:
    import torch

    x, found = torch.ones(4, 6), []
    for gpu.is_older in (False, True):
        with window(memory=True) as profiles:
            x.half()
            x.to(torch.float32, copy=True)
            torch.cat([x, x])
        found.append(profiles[0])
    newer, older = found
    assert numbers(older) == numbers(newer) == {"Cast": (1, 2000), "MemcpyHtoD": (1, 50), "Concat": (1, 0)}
    assert (older.launches, older.kernels, older.memory) == (newer.launches, newer.kernels, newer.memory)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_what_events_of_the_cpu_are_is_told_by_their_names_as_by_pytorch_itself() -> None:
    import torch

    if not hasattr(torch.autograd._KinetoEvent, "activity_type"):
        pytest.skip("this version of PyTorch does not tell")
    compiled = torch.compile(lambda x: (x @ x.T).relu().sum(), backend="aot_eager")
    weight = torch.ones(4, 4, requires_grad=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as session:
        with torch.profiler.record_function("cudaLaunchKernel"):
            compiled(weight).backward()
        torch._foreach_add([weight.detach()], 1)
    torch._dynamo.reset()
    events = session.profiler.kineto_results.events()
    told = [(event.name(), kineto.category_by_name(event)) for event in events]
    assert told == [(event.name(), event.activity_type()) for event in events]
    assert {category for _, category in told} == {"cpu_op", "user_annotation", "cpu_instant_event"}


@pytest.mark.parametrize(
    ("kind", "name", "metadata"),
    [
        ("cuda_runtime", "cudaLaunchKernel", ""),
        ("cuda_runtime", "cudaMemcpyAsync_ptsz", ""),
        ("cuda_driver", "cuLaunchKernelEx", ""),
        ("cuda_runtime", "INVALID", ""),
        ("kernel", "void cudaMine<float>()", LAUNCHED),
        ("gpu_memcpy", H2D, '"bytes": 96'),
        ("gpu_memset", "Memset (Device)", '"bytes": 96'),
        ("gpu_user_annotation", "cudaMine", ""),
        ("user_annotation", "cudaMine", ""),
        ("cuda_sync", "Stream Wait Event", '"cuda_sync_kind": "Stream Wait Event"'),
        ("overhead", "Lazy Function Loading", ""),
        ("overhead", "Activity Buffer Request", ""),
        ("cpu_op", "cudnn::mine", ""),
        ("cpu_op", "CudnnBatchNormBackward0", ""),
    ],
)
def test_what_events_of_a_gpu_are_is_told_by_their_names(kind: str, name: str, metadata: str) -> None:
    """On stand-ins: no event of a real one is at hand."""
    # CUPTI numbers its overhead from 13.0 on (seen on an H200 with PyTorch 2.11), before that it does not.
    for correlation in (0, 5) if kind == "overhead" else (5,):
        event = StandIn(kind, name, 0, correlation=correlation, metadata=metadata)
        assert kineto.category_by_name(event) == kind
        assert [kineto._category_of(each)(each) for each in (event, Older(event))] == [kind, kind]


def test_what_kineto_says_of_nodes_of_graphs_and_of_loading_is_read() -> None:
    node = LAUNCHED + ', "graph id": 3, "graph node id": 12884901890'
    events = [
        StandIn("kernel", "a", 5, metadata=LAUNCHED),
        StandIn("kernel", "b", 6, metadata=node),
        StandIn("overhead", "Lazy Function Loading", 7),
        StandIn("overhead", "Buffer Flush", 8),
    ]
    found = kineto.recorded(events)
    assert [(done.name, done.graph_node) for done in found.activities] == [("a", ABSENT), ("b", 12884901890)]
    assert [done.graph for done in found.activities] == [0, 3]
    assert found.loaded == [7]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental", "ignore:torch.quantize_per_tensor")
def test_bytes_of_casts_are_those_of_both_tensors_whatever_their_dtypes(gpu: Gpu) -> None:
    import torch

    dtypes = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    for dtype in sorted(dtypes - {torch.float32}, key=str):
        try:
            target = torch.empty(4, 6, dtype=dtype)
            target.copy_(torch.ones(4, 6))
        except RuntimeError:
            continue  # PyTorch does not copy it
        with window() as found:
            target.copy_(torch.ones(4, 6))
        assert found[0].stats("Cast").bytes == (24 * (4 + dtype.itemsize),), dtype


@pytest.mark.torch
def test_budgets_of_a_program_on_the_gpu_hold_and_break(gpu: Gpu) -> None:
    import torch

    x = torch.ones(4, 6)
    with window() as found:
        x.half()
        gpu.other = [StandIn("cuda_runtime", "cudaStreamSynchronize", time.time_ns(), 1, 8888)]
        x.to(torch.float32, copy=True)
    holds = {"Cast": 1, "MemcpyHtoD": 1, "MemcpyDtoH": 0, "Synchronize": 1, "launches": 1, "device_time": "2.05 us"}
    assert Budget.parse([], holds).check(found[0]) == []
    breaks = {"Cast": 0, "MemcpyHtoD": 0, "MemcpyDtoH": 0, "Synchronize": 0, "launches": 0, "device_time": "2 us"}
    assert [str(finding) for finding in Budget.parse([], breaks).check(found[0])] == [
        "launches: 1 (budget: 0)",
        "device time: 2.05 us (budget: 2 us)",
        "Cast: 1 call (budget: 0)",
        "MemcpyHtoD: 1 call (budget: 0)",
        "Synchronize: 1 call (budget: 0)",
    ]
    assert Budget.parse([{"aten::copy_": "1 us"}], {}).check(found[0])
    with pytest.raises(UsageError, match=r"the limit on device time of .*convert.* cannot be checked"):
        Budget.parse([{"*convert*": "1 ms"}], {}).check(found[0])


@pytest.mark.torch
def test_a_window_without_device_work_is_one_of_the_cpu_whose_launches_are_known_to_be_none(gpu: Gpu) -> None:
    import torch

    x = torch.ones(4, 6)
    with window(memory=True) as found:
        x @ x.T
    assert str(found[0].environment) == f"torch {torch.__version__.split('+')[0]}, cpu"
    assert (device_ns(found[0], "MatMul") or 0) > 0
    assert found[0].launches == (0,)
    assert found[0].kernels is None
    assert found[0].stats("MatMul").flops == (2 * 4 * 6 * 4,)
    assert [use.peak for use in found[0].memory or ()] == [4 * 4 * 4]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_ops_that_are_nested_by_time_are_those_of_the_tree(gpu: Gpu) -> None:
    """The two ways to the same table, of one program that runs forward and backward, on the CPU."""
    import torch

    from pytest_opprof.frameworks.live.lines import traced
    from pytest_opprof.frameworks.pytorch.live import backend as module
    from pytest_opprof.frameworks.pytorch.live.sites import marker

    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(4 * 36, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(lambda x: (x @ x.T).relu().sum(), backend="aot_eager")
    weight = torch.ones(4, 4, requires_grad=True)

    def step() -> None:
        compiled(weight).backward()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = model(torch.ones(2, 3, 8, 8))
        out.float().square().sum().backward()
        optimizer.step()

    step()
    torch._dynamo.reset()
    chains = Chains()
    tree, rows = (EventLog(Environment(()), chains=chains) for _ in range(2))
    session = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
    with session, traced(chains, tree, marker()):
        step()
    module._read(session.profiler.kineto_results, tree, Options(chains=chains))
    rows.knows_flops = True
    torch_cuda.fill(rows, kineto.recorded(session.profiler.kineto_results.events()))
    ours, theirs = rows.freeze(), tree.freeze()
    assert numbers(ours) == numbers(theirs)
    assert len(numbers(ours)) > 12
    assert (ours.stats("torch::compile").calls, ours.stats("torch::graph").calls) == ((1,), (2,))
    for op in ("Cast", "Conv", "MatMul", "ConvGrad", "Relu"):
        assert (ours.stats(op).bytes, ours.stats(op).flops) == (theirs.stats(op).bytes, theirs.stats(op).flops)
    assert None not in (ours.stats("Cast").bytes, ours.stats("Conv").flops, ours.stats("ConvGrad").flops)
    sites = [[(op, site) for op in ours.op_names for site, _ in each.sites(op)] for each in (ours, theirs)]
    assert sites[0] == sites[1]
    lines = {site.frames[0].line for site, _ in ours.sites("Conv") if site}
    assert lines == {step.__code__.co_firstlineno + 4}
    assert {site.is_backward for site, _ in ours.sites("ConvGrad") if site} == {True}
    assert ours.calls_by_dtype["Cast"] == theirs.calls_by_dtype["Cast"]
    assert ours.calls_by_dtype["Conv"] == theirs.calls_by_dtype["Conv"] == {"bfloat16": (1,)}


@pytest.mark.torch
def test_copies_and_waits_have_lines_inside_of_ops_and_outside(gpu: Gpu) -> None:
    import torch

    def step() -> None:
        x.to(torch.float32, copy=True)
        waits.append(time.time_ns())
        x.to(torch.float32, copy=True)

    waits = list[int]()
    x, chains = torch.ones(4, 4), Chains()
    with window(chains=chains) as found:
        step()
        thread = threading.get_native_id()
        gpu.other = [StandIn("cuda_runtime", "cudaDeviceSynchronize", waits[0], 1, 500, 0, thread)]
    begin = step.__code__.co_firstlineno
    lines = {
        op: [site.frames[0].line - begin for site, _ in found[0].sites(op) if site]
        for op in ("MemcpyHtoD", "Synchronize")
    }
    assert lines == {"MemcpyHtoD": [1, 3], "Synchronize": [2]}


@pytest.mark.torch
def test_ops_recorded_for_backward_have_the_line_of_the_forward_op(gpu: Gpu) -> None:
    import torch

    def step() -> None:
        y = weight * weight
        z = y.relu()
        z.sum().backward()

    weight, chains = torch.ones(4, 4, requires_grad=True), Chains()
    step()
    with window(chains=chains) as found:
        step()
    begin = step.__code__.co_firstlineno
    lines = {site.frames[0].line - begin: calls for (site, _), calls in found[0].sites("grad_nodes").items() if site}
    assert lines == {1: 1, 2: 1, 3: 1}
    assert found[0].counted("grad_nodes") == (3,)


@pytest.mark.torch
def test_a_lost_kernel_and_a_profiler_that_recorded_nothing_are_errors(gpu: Gpu) -> None:
    import torch

    x = torch.ones(4)
    gpu.loses = 1
    with pytest.raises(BackendError, match="CUPTI lost 1 of 2 kernels"), window():
        x.half()
        x.double()
    gpu.loses, gpu.waits = 0, False
    with pytest.raises(BackendError, match="recorded no call of CUDA"), window():
        x.half()


@pytest.mark.torch
def test_a_later_session_may_lose_its_first_kernels_which_are_not_the_programs(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    launched: list[int] = []

    def launch(kernels: int) -> None:
        launched.append(kernels)
        real_launch(kernels, "cpu")

    real_launch = module._launch
    monkeypatch.setattr(module, "_launch", launch)
    monkeypatch.setattr(module, "_loses_kernels", lambda: True)
    monkeypatch.setattr(module, "_BACKEND", module.TorchBackend())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(module, "_IDLE_S", 0)
    x = torch.ones(4)
    with window():
        x + x  # before CUDA is initialised a session counts, too
    assert launched == []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for session in range(1, 5):
        gpu.loses = session
        with window(memory=True) as found:
            x.half()
            torch.ones(2).fill_(3)
        assert numbers(found[0]) == {"Cast": (1, 2000), "ConstantOfShape": (2, 4000)}
        assert found[0].launches == (3,)
    assert launched == [9, 10, 11, 12]
    monkeypatch.setattr(module, "_IDLE_S", 3600)
    gpu.loses = 0
    with window():
        x.half()
    assert launched == [9, 10, 11, 12], "a session that follows another loses none"
    gpu.loses = 14
    with pytest.raises(BackendError, match="CUPTI lost 1 of 1 kernel:"), window():
        x.half()


@pytest.mark.torch
def test_what_is_launched_before_a_window_is_bounded(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    launched: list[int] = []
    backend = module.TorchBackend()
    backend._sessions = 10**6
    monkeypatch.setattr(module, "_launch", launched.append)
    monkeypatch.setattr(module, "_loses_kernels", lambda: True)
    monkeypatch.setattr(module, "_BACKEND", backend)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with window():
        pass
    assert launched == [1000]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("version", "loses"), [(23, False), (24, True), (28, True), (130001, True), (130100, False), (None, True)]
)
def test_kernels_are_spared_where_the_version_of_cupti_may_lose_them(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, version: int | None, loses: bool
) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    launched: list[int] = []
    monkeypatch.setattr(libcupti, "loaded_version", lambda: version)
    monkeypatch.setattr(module, "_launch", launched.append)
    monkeypatch.setattr(module, "_BACKEND", module.TorchBackend())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    module._loses_kernels.cache_clear()
    with window():
        pass
    module._loses_kernels.cache_clear()
    assert bool(launched) is loses


@pytest.mark.torch
def test_a_session_that_pytorch_2_11_finds_ended_is_lost(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_opprof.frameworks.pytorch.live import backend as module

    session = module._session

    def ended(*args: Any) -> Any:
        real = session(*args)
        stop = real.__exit__

        def stopped(*error: object) -> None:
            stop(*error)
            raise RuntimeError("Can't disable Kineto profiler when it's not running")

        real.__exit__ = stopped
        return real

    monkeypatch.setattr(module, "_session", ended)
    with pytest.raises(BackendError, match="the torch profiler lost this window"), window():
        pass


@pytest.mark.torch
def test_gpus_that_the_program_chooses_too_late_are_said_to_be_ignored(gpu: Gpu) -> None:
    gpu.ignored = "CUDA_VISIBLE_DEVICES is '1', and was None"
    with window() as found:
        pass
    assert remarks_of(found[0]) == [gpu.ignored]


@pytest.mark.torch
def test_nothing_is_launched_into_a_graph_that_the_program_captures(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    monkeypatch.setattr(module, "_launch", lambda kernels: pytest.fail("launched"))
    monkeypatch.setattr(module, "_BACKEND", module.TorchBackend())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for _ in range(2):
        with window():
            pass


@pytest.mark.torch
def test_a_gpu_that_was_shared_disturbed_the_window_in_which_pytorch_used_it(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stand-ins for the GPU and for pynvml."""
    import torch

    said, x = Nvml(), torch.ones(4)
    monkeypatch.setattr(nvml, "_opened", lambda: (said, ""))
    monkeypatch.setattr(nvml, "_last", {})
    said.processes.append(process(2**22))
    with window() as found:
        x.half()
    assert found[0].disturbed == (f"GPU 0 was shared with process {2**22}",)
    with window() as found:
        x + x
    assert found[0].disturbed == ()


@pytest.mark.torch
def test_a_profiler_started_inside_a_window_with_a_gpu_is_an_error(gpu: Gpu) -> None:
    import torch

    with pytest.raises(BackendError, match="the torch profiler lost this window"), window():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            torch.ones(2)


@pytest.mark.torch
def test_sync_timing_is_refused_where_the_gpu_worked_and_launches_were_not_to_block(gpu: Gpu) -> None:
    import torch

    x = torch.ones(4)
    with (
        pytest.raises(BackendError, match="sync timing needs launches that block"),
        window(timing="sync"),
    ):
        x.half()
    with window(timing="sync") as found:
        x + x
    assert counts(found[0]) == {"Add": 1}


@pytest.mark.torch
def test_names_of_calls_of_cuda_are_known_and_others_are_mistakes(gpu: Gpu) -> None:
    import torch

    x = torch.ones(4)
    with window() as found:
        x.half()
    assert found[0].stats("cudaMemcpyAsync").calls == found[0].stats("aten::linalg_qr").calls == (0,)
    assert found[0].stats("cudaLaunchKernel").calls == (1,)
    with pytest.raises(UsageError, match="unknown op 'cudaStreamWait'"):
        found[0].stats("cudaStreamWait")


@pytest.mark.torch
@pytest.mark.parametrize("contexts", [0, 1])
def test_pytorch_waits_for_the_gpu_itself_only_where_one_is_set_up(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, contexts: int
) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    waited: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append("torch"))
    monkeypatch.setattr(module, "_session", waits_for_the_gpu(module._session))
    monkeypatch.setattr(module, "_wait", lambda: contexts)
    with window():
        pass
    assert waited == ["torch"] * contexts


@pytest.mark.torch
def test_a_gpu_that_fails_in_a_window_leaves_no_profiler_running(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    def fails() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(module, "_session", waits_for_the_gpu(module._session))
    monkeypatch.setattr(torch.cuda, "synchronize", fails)
    with pytest.raises(ValueError, match="mine"), window():
        raise ValueError("mine")
    assert not torch.autograd._profiler_enabled()
    monkeypatch.setattr(cuda_driver, "opened", lambda: None)
    with pytest.raises(BackendError, match="the GPU reports an error: CUDA error: device-side assert"), window():
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert not torch.autograd._profiler_enabled()


def waits_for_the_gpu(session: Callable[..., Any]) -> Callable[..., Any]:
    """Let the session wait when it stops, as one with CUDA does."""

    def made(*args: Any) -> Any:
        real = session(*args)
        real.use_device = "cuda"
        return real

    return made


@pytest.mark.torch
@pytest.mark.parametrize(
    ("cuda", "found", "records"), [(None, True, False), ("13.0", False, False), ("13.0", True, True)]
)
def test_a_gpu_is_recorded_where_torch_is_built_for_cuda_and_finds_one(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, found: bool, records: bool
) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    activities = {torch.profiler.ProfilerActivity.CPU, *([torch.profiler.ProfilerActivity.CUDA] if found else [])}
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: activities)
    assert module._records_gpu() is records
    monkeypatch.setattr(torch.autograd, "_KinetoEvent", object)  # as in a version that does not say how many bytes
    assert not module._records_gpu()


@pytest.mark.torch
def test_a_session_asks_for_cuda_only_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from pytest_opprof.frameworks.pytorch.live import backend as module

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert module._session(Options(), True).use_device == "cuda"
    assert module._session(Options(), False).use_device is None
