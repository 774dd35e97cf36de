"""The cuda backend from what a program does to budgets and baselines, on a stand-in: there is no GPU here."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_opprof
from pytest_opprof import op
from pytest_opprof.errors import BackendError, NothingMeasured, UsageError
from pytest_opprof.frameworks.live.contract import Backend, Options
from pytest_opprof.frameworks.nvidia.live import backend as cuda_backend
from pytest_opprof.frameworks.nvidia.live import cupti, libcupti, nvml
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver
from pytest_opprof.frameworks.nvidia.live.activity import Work
from pytest_opprof.frameworks.nvidia.live.backend import CudaBackend
from pytest_opprof.frameworks.nvidia.live.calls import calls_of
from pytest_opprof.frameworks.nvidia.live.cupti_records import DRIVER, KERNEL, LOADING, OVERHEAD, PEER_COPY, RUNTIME
from pytest_opprof.frameworks.nvidia.live.events import Span, busy_ns
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.assembly import assemble, joined
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.kernels import KernelStats, places
from pytest_opprof.profile.memory import MemoryUse
from pytest_opprof.profile.op_profile import OpProfile, Remark
from pytest_opprof.profile.timings import ProcessTimes, run_of
from pytest_opprof.timeline.window import timeline_of

from ....conftest import remarks_of
from ...watch import Watch
from .cuda_stand_in import BLOCK, GRID, STREAM, Gpu, MemoryHook, Pool
from .nvml_stand_in import Nvml

pytestmark = pytest.mark.usefixtures("beside_other_software")
CAST = "cupy_copy__float64_float32"
H2D, D2H, D2D, PEER = 1, 2, 8, 10
TORCH_RECORDS = cuda_backend.torch_records
"""The real one: `install` puts another in its place."""


def install(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> CudaBackend:
    """Let *gpu* be the libraries of this process, and CuPy all that it imported of what uses one."""
    driver, library = gpu.libraries()
    for user in cuda_backend._USERS:
        monkeypatch.delitem(sys.modules, user, raising=False)
    monkeypatch.setattr(cuda_driver, "opened", lambda: driver)
    monkeypatch.setattr(libcupti, "opened", lambda: library)
    monkeypatch.setattr(nvml, "_opened", lambda: (Nvml(), ""))
    monkeypatch.setattr(nvml, "_last", {})
    cupy = ModuleType("cupy")
    cupy.__version__ = "14.2.0"  # type: ignore[attr-defined]
    cupy.cuda = SimpleNamespace(MemoryHook=MemoryHook)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    backend = CudaBackend()
    monkeypatch.setattr(cuda_backend, "_BACKEND", backend)
    monkeypatch.setattr(cuda_backend, "torch_records", lambda: False)
    return backend


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    monkeypatch.setattr(libcupti, "mapped", list)  # a build of PyTorch for CUDA has loaded a real one
    return Gpu()


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> CudaBackend:
    return install(monkeypatch, gpu)


@pytest.fixture
def watch(backend: CudaBackend) -> Watch:
    return Watch(backend)


def test_kernels_copies_sets_and_waits_are_counted_and_timed(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.launch("my_kernel", 2000)
        gpu.launch(CAST, 700, "cuLaunchKernel")
        gpu.copy(H2D, 64)
        gpu.copy(D2H, 32)
        gpu.copy(D2D, 16)
        gpu.set_memory(128)
        gpu.call("cudaStreamSynchronize_v3020")
        gpu.call("cudaMalloc_v3020")
    assert watch.counts == {
        "my_kernel": 1,
        "Cast": 1,
        "MemcpyHtoD": 1,
        "MemcpyDtoH": 1,
        "MemcpyDtoD": 1,
        "Memset": 1,
        "Synchronize": 1,
    }
    profile = watch.profile
    assert {s.op: s.device_ns for s in profile.ops if s.op in ("my_kernel", "Cast", "Memset", "Synchronize")} == {
        "my_kernel": (2000,),
        "Cast": (700,),
        "Memset": (300,),
        "Synchronize": None,
    }
    assert {s.op: s.bytes for s in profile.ops if s.bytes} == {
        "MemcpyHtoD": (64,),
        "MemcpyDtoH": (32,),
        "MemcpyDtoD": (16,),
        "Memset": (128,),
    }
    assert (profile.launches, profile.total.device_ns) == ((2,), (2000 + 700 + 3 * 500 + 300,))


def test_a_gpu_that_was_throttled_disturbed_the_window_and_the_times_of_its_process(
    gpu: Gpu, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stand-ins for the libraries and for pynvml."""
    said = Nvml()
    monkeypatch.setattr(nvml, "_opened", lambda: (said, ""))
    monkeypatch.setattr(nvml, "_last", {})
    inside: list[int] = []
    with watch.ops():
        gpu.launch("my_kernel", 2000)
        inside.append(said.asked.count("nvmlDeviceGetCurrentClocksEventReasons"))
        said.reasons = 0x08
    what = ("GPU 0 was throttled: HW slowdown",)
    assert watch.profile.disturbed == what
    assert run_of(watch.profile) == ProcessTimes((2000,), {"my_kernel": (2000,)}, disturbed=what)
    assert watch.counts == {"my_kernel": 1}
    assert said.asked.count("nvmlDeviceGetCurrentClocksEventReasons") == 2 * inside[0] == 2
    with watch.ops():
        pass  # a GPU that did not work cannot have been slow
    assert watch.profile.disturbed == ()


def test_our_own_waiting_before_and_after_is_not_counted(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        pass
    assert watch.counts == {}
    assert gpu.log.count("cuCtxSynchronize") == 2
    assert watch.profile.launches == (0,)


def test_raw_names_are_those_of_kernels_and_of_cuda(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.launch("gemm<float>")
        gpu.launch("gemm<double>")
        gpu.copy(H2D, 64)
    assert watch.counts == {"gemm": 2, "MemcpyHtoD": 1}
    for raw, calls in [("gemm<float>", 1), ("cudaLaunchKernel", 2), ("cudaMemcpyAsync", 1), ("cuLaunchKernel", 0)]:
        assert watch.profile.stats(raw).calls == (calls,)


def test_a_kernel_belongs_to_the_step_that_launched_it_however_late_it_runs(gpu: Gpu, backend: CudaBackend) -> None:
    with backend.collect(Options()) as log:
        for step in range(3):
            log.mark()
            for _ in range(step + 1):
                gpu.launch("late", late_ns=10**9)
            gpu.call("cuStreamSynchronize")
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    assert profile.stats("late").calls == (1, 2, 3)
    assert profile.stats("Synchronize").calls == (1, 1, 1)
    assert profile.launches == (1, 2, 3)


def test_kernels_ran_on_their_streams_and_calls_in_their_threads(gpu: Gpu, backend: CudaBackend) -> None:
    recorder, window = Recorder([backend], Options(moments=True), explicit=True), Window("w")
    with recorder.open(window), recorder.step(window):
        gpu.launch("my_kernel", 2_000, stream=13)
        gpu.launch("late", late_ns=10**9, stream=17, device=1)
        gpu.call("cuStreamSynchronize")
    whole, *spans = timeline_of(window.profile, 0)
    by_lane: dict[tuple[str, str], list[str]] = {}
    for span in spans:
        by_lane.setdefault((span.lane.process, span.lane.thread.partition(" ")[0]), []).append(span.name)
    host = next(process for process, thread in by_lane if thread == "thread")
    assert by_lane == {
        (host, "thread"): ["cudaLaunchKernel", "cudaLaunchKernel", "Synchronize (cuStreamSynchronize)"],
        ("device 0", "stream"): ["my_kernel"],
        ("device 1", "stream"): ["late"],
    }
    my_kernel, late = spans[-2:]
    assert my_kernel.duration_ns == 2_000
    assert whole.start_ns < my_kernel.start_ns < whole.end_ns < late.start_ns


def test_a_kernel_without_a_launch_stays_visible(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.unlinked_kernel("from_nowhere", 900)
        gpu.launch("known")
    assert watch.counts == {"from_nowhere": 1, "known": 1}
    assert watch.profile.stats("(unlinked)").calls == (1,)
    assert watch.profile.stats("from_nowhere").device_ns == (900,)


def test_a_call_inside_a_call_of_cuda_is_one(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        with gpu.inside("cudaLaunchKernel_v7000"):
            gpu.launch("my_kernel", how="cuLaunchKernel")
        with gpu.inside("cudaDeviceSynchronize_v3020"):
            gpu.call("cuCtxSynchronize")
    assert watch.counts == {"my_kernel": 1, "Synchronize": 1}
    assert watch.profile.launches == (1,)
    assert watch.profile.stats("cudaLaunchKernel").calls == (1,)


GRAPH = "cudaGraphLaunch_v10000"


def test_a_graph_is_one_launch_of_all_its_kernels_and_what_it_captured_is_none(gpu: Gpu, watch: Watch) -> None:
    gpu.loses = {"captured"}
    with watch.ops():
        gpu.call("cudaStreamBeginCapture_v10000")
        for _ in range(5):
            gpu.launch("captured")
        gpu.call("cudaStreamEndCapture_v10000")
        gpu.launch("node", how=GRAPH, kernels=5)
    assert watch.counts == {"node": 5}
    assert watch.profile.launches == (1,)
    assert watch.profile.stats("(unlinked)").calls == (0,)
    assert watch.profile.remarks == ()


def test_a_launch_of_a_graph_counts_and_if_it_did_nothing_that_is_said(gpu: Gpu, watch: Watch) -> None:
    gpu.version = 130101
    with watch.ops():
        gpu.launch("node", how=GRAPH, kernels=5)
        gpu.launch("node", how=GRAPH, kernels=0)
        gpu.call(GRAPH, result=98)  # failed
    assert (watch.counts, watch.profile.launches) == ({"node": 5}, (2,))
    (said,) = remarks_of(watch.profile)
    assert said == "1 of 2 launches of CUDA graphs did nothing that CUPTI recorded."


def test_graphs_of_which_nothing_at_all_was_recorded_are_an_error_and_no_empty_profile(gpu: Gpu, watch: Watch) -> None:
    with pytest.raises(BackendError, match=r"CUPTI recorded 2 launches of CUDA graphs, and nothing that they did\."):
        with watch.ops():
            gpu.launch("seen")
            for _ in range(2):
                gpu.launch("node", how=GRAPH, kernels=0)


@pytest.mark.parametrize("other", ["a call that started something else", "a call of an earlier window"])
@pytest.mark.parametrize("runs", [1, 2])
def test_numbers_that_old_versions_give_to_nodes_of_graphs_are_not_trusted(
    gpu: Gpu, watch: Watch, other: str, runs: int
) -> None:
    with watch.ops():
        gpu.copy(H2D, 64)
        number = gpu.correlation if other == "a call that started something else" else 2**31
        gpu.launch("node", how=GRAPH, kernels=0)
        for node in (5, 6) * runs:
            gpu.unlinked_kernel("node", correlation=number, graph_node=node)
    assert (watch.counts, watch.profile.launches) == ({"MemcpyHtoD": 1, "node": 2 * runs}, (1,))
    if runs == 1:  # that of the launch, as it is the only one
        assert watch.profile.stats("(unlinked)").calls == (0,)
        assert watch.profile.remarks == ()
    else:
        assert watch.profile.stats("(unlinked)").calls == (4,)
        (said,) = remarks_of(watch.profile)
        assert said.startswith(
            "1 launch of CUDA graphs without work of their own, and kernels and copies without a launch: 4, which count"
        )
        assert "before 13.1 Update 1" in said


def test_swapped_numbers_of_two_graphs_move_no_kernel_to_another_round(gpu: Gpu, backend: CudaBackend) -> None:
    with backend.collect(Options()) as log:
        log.mark()
        gpu.misnumbers = {gpu.correlation + 1: gpu.correlation + 2, gpu.correlation + 2: gpu.correlation + 1}
        gpu.launch("five", how=GRAPH, kernels=5, graph=5)
        log.mark()
        gpu.launch("seven", how=GRAPH, kernels=7, graph=7)
        log.mark()
    profile = assemble([(log.freeze(), {1: 0, 2: 1})], [1, 1])
    assert (profile.stats("five").calls, profile.stats("seven").calls) == ((5, 0), (0, 7))
    assert profile.remarks == ()


def test_a_kernel_from_nowhere_does_not_excuse_graphs_of_which_nothing_was_recorded(gpu: Gpu, watch: Watch) -> None:
    with pytest.raises(BackendError, match="recorded 2 launches of CUDA graphs, and nothing that they did"):
        with watch.ops():
            for _ in range(2):
                gpu.launch("node", how=GRAPH, kernels=0)
            gpu.unlinked_kernel("from_nowhere")


def test_work_without_a_call_that_begins_after_the_window_is_of_its_latest_launch(
    gpu: Gpu, backend: CudaBackend
) -> None:
    """Nothing of opprof starts work after a window; what a GPU does then was asked for inside."""
    later = 10**9
    with backend.collect(Options()) as log:
        log.mark()
        gpu.launch("known")
        log.mark()
        gpu.launch("node", how=GRAPH, kernels=3, late_ns=later)
        gpu.launch("node", how=GRAPH, kernels=0)  # the order says nothing now
        log.mark()
        gpu.clock_ns = lambda: time.time_ns() + later
        gpu.unlinked_kernel("from_nowhere")
        gpu.clock_ns = time.time_ns
    profile = assemble([(log.freeze(), {1: 0, 2: 1})], [1, 1])
    assert (profile.stats("node").calls, profile.stats("from_nowhere").calls) == ((0, 3), (0, 1))
    assert profile.stats("node").device_ns == (0, 3000)


def test_a_call_that_was_not_timed_hides_no_kernel(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.launch("known")
        gpu.untimed_calls = True
        gpu.launch("mine")
        gpu.untimed_calls = False
    assert watch.counts == {"known": 1, "mine": 1}
    assert watch.profile.stats("(unlinked)").calls == (1,)


def test_a_capture_that_could_not_begin_hides_no_lost_kernel(gpu: Gpu, watch: Watch) -> None:
    gpu.loses = {"lost"}
    with pytest.raises(BackendError, match="CUPTI lost 1 of 1 kernel:"):
        with watch.ops():
            gpu.call("cudaStreamBeginCapture_v10000", result=401)
            gpu.launch("lost")


def test_copies_and_sets_of_which_nothing_was_recorded_are_said(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.copy(H2D, 64)
        gpu.call("cudaMemcpyPeerAsync_v4000")
        gpu.call("cudaMemsetAsync_v3020")
        gpu.call("cudaMemcpyAsync_v3020", result=1)  # failed
        gpu.call("cudaLaunchHostFunc_v10000")
    assert watch.counts == {"MemcpyHtoD": 1}
    assert [text.partition(".")[0] for text in remarks_of(watch.profile)] == [
        "not counted: 2 of 3 calls to copy or set memory"
    ]


def test_a_kernel_without_time_and_launch_is_an_error_and_not_left_out(gpu: Gpu, watch: Watch) -> None:
    gpu.untimed = {"untimed"}
    with pytest.raises(
        BackendError, match="kernels or copies without times and without the calls that launched them: 1, which"
    ):
        with watch.ops():
            gpu.launch("known")
            gpu.unlinked_kernel("untimed", correlation=0)


def test_a_kernel_that_is_lost_is_an_error_and_not_a_smaller_count(gpu: Gpu, watch: Watch) -> None:
    gpu.loses = {"lost"}
    with pytest.raises(BackendError, match=r"CUPTI lost 2 of 3 kernels: it recorded only their launches"):
        with watch.ops():
            gpu.launch("kept")
            gpu.launch("lost")
            gpu.launch("lost", how="cuLaunchKernelEx")


@pytest.mark.parametrize("function", ["cudaLaunchKernel_v7000", GRAPH])
def test_what_another_thread_is_launching_when_the_window_ends_is_not_lost(
    gpu: Gpu, watch: Watch, function: str
) -> None:
    with watch.ops():
        gpu.launch("kept")
        gpu.thread = 8
        launching = ExitStack()
        launching.enter_context(gpu.inside(function))
        gpu.thread = 7
        # It returns during the wait after the window, which may not wait for what it sent.
        gpu.hangs["cuCtxSynchronize"] = SimpleNamespace(wait=launching.close)  # type: ignore[assignment]
    assert watch.counts == {"kept": 1}


def test_what_another_thread_launches_after_the_last_wait_is_left_out_if_cupti_did_not_time_it(
    gpu: Gpu, watch: Watch
) -> None:
    gpu.untimed = {"late"}
    stop = gpu.cuptiActivityDisable

    def disabled(kind: int) -> int:
        if "late" in gpu.untimed:
            gpu.unlinked_kernel("late", correlation=gpu.correlation + 1)
            gpu.untimed = set()
        return stop(kind)

    gpu.cuptiActivityDisable = disabled  # type: ignore[method-assign]
    with watch.ops():
        gpu.launch("kept")
    assert watch.counts == {"kept": 1}


def test_a_launch_that_failed_has_no_kernel_to_lose(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.call("cudaLaunchKernel_v7000", result=98)
        gpu.call("cudaLaunchHostFunc_v10000")
    assert watch.counts == {}


def test_a_kernel_that_cupti_did_not_time_is_counted_and_has_no_time(gpu: Gpu, watch: Watch) -> None:
    gpu.untimed = {"untimed"}
    with watch.ops():
        gpu.launch("timed", 7)
        gpu.launch("untimed")
    assert watch.counts == {"timed": 1, "untimed": 1}
    assert remarks_of(watch.profile) == ["kernels or copies that CUPTI did not time: 1. Device times lack them"]
    assert watch.profile.stats("untimed").device_ns is None
    assert watch.profile.total.device_ns == (7,)


def test_a_call_that_is_not_recorded_is_no_name_that_a_budget_may_have(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.call("cudaMalloc_v3020")
    with pytest.raises(UsageError, match="unknown op 'cudaMalloc'"):
        watch.profile.stats("cudaMalloc")


def test_a_copy_between_gpus_is_a_copy_on_the_device(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.copy(PEER, 64, kind=PEER_COPY)
        gpu.copy(99, 8)
    assert watch.counts == {"MemcpyDtoD": 1, "Memcpy": 1}
    assert watch.profile.stats("MemcpyDtoD").bytes == (64,)


def test_another_profiler_inside_the_window_is_an_error_and_not_an_empty_window(gpu: Gpu, watch: Watch) -> None:
    with pytest.raises(BackendError, match=r"CUPTI stopped recording inside the window: another profiler"):
        with watch.ops():
            gpu.launch("seen")
            gpu.registered = [gpu.registered[0], lambda *_: None]  # its callbacks take the place of ours
    with pytest.raises(BackendError, match="CUPTI stopped recording inside the window"):
        with watch.ops():
            gpu.enabled.clear()  # it ended, and switched off what was on


def test_without_a_context_nothing_could_run_and_an_empty_window_is_one(gpu: Gpu, watch: Watch) -> None:
    gpu.has_context = False
    with watch.ops():
        pass
    assert watch.counts == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_in_the_window_ends_the_recording_and_the_next_window_is_clean(
    gpu: Gpu, watch: Watch, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        with watch.ops():
            gpu.launch("left")
            raise error
    assert not gpu.enabled
    with watch.ops():
        gpu.launch("kept")
    assert watch.counts == {"kept": 1}


def test_the_environment_is_the_gpu_that_worked_cuda_and_the_framework(gpu: Gpu, backend: CudaBackend) -> None:
    gpu.devices, gpu.driver_version, gpu.version = 2, 12080, 28
    with backend.collect(Options()) as log:
        gpu.launch("my_kernel")
    assert log.environment == Environment((("cuda", "12.8"), ("cupy", "14.2.0")), "Stand-in GPU 0", timing="async")
    assert log.environment.folder.startswith("cuda-12.8-cupy-14.2.0-stand-in-gpu-0-async")


def test_a_run_on_a_gpu_is_the_time_of_its_ops_and_nothing_of_the_host(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.launch("a", 40)
        gpu.launch("b", 2)
    assert run_of(watch.profile) == ProcessTimes((42,), {"a": (40,), "b": (2,)})


def test_two_windows_at_once_are_refused(backend: CudaBackend) -> None:
    with backend.collect(Options()):
        with pytest.raises(BackendError, match="recordings cannot be nested"):
            with backend.collect(Options()):
                pass


def test_busy_time_counts_once_what_overlaps(gpu: Gpu, watch: Watch) -> None:
    now = time.time_ns()
    gpu.clock_ns = itertools.count(now).__next__
    with watch.ops():
        gpu.launch("one", 1_000)
        gpu.launch("two", 1_000, late_ns=500)
        gpu.launch("three", 100, late_ns=5_000)
    assert watch.profile.total.device_ns == (2_100,)
    assert watch.profile.busy_ns == (pytest.approx(1_600, abs=10),)


def test_kernels_have_ops_times_streams_grids_and_blocks(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        for stream in (13, 17, 13):
            gpu.launch("_Z9my_kernelIfEvPT_", 2_000, stream=stream)
        gpu.launch("_Z9my_kernelIfEvPT_", 10, grid=(1, 1, 1), block=(32, 1, 1))
        gpu.launch(CAST, 700, device=1)
        gpu.copy(H2D, 64, stream=19)
        gpu.set_memory(128)
    mangled, cast = "void my_kernel<float>(float*)", CAST
    assert watch.profile.kernels == (
        KernelStats(mangled, "my_kernel", 0, (13, 17), GRID, BLOCK, 3, 3, 6_000),
        KernelStats(cast, "Cast", 1, (13,), GRID, BLOCK, 1, 1, 700),
        KernelStats("MemcpyHtoD", "MemcpyHtoD", 0, (19,), None, None, 1, 1, 500),
        KernelStats("Memset", "Memset", 0, (13,), None, None, 1, 1, 300),
        KernelStats(mangled, "my_kernel", 0, (13,), (1, 1, 1), (32, 1, 1), 1, 1, 10),
    )


def test_kernels_are_those_of_the_steps_of_a_window(gpu: Gpu, backend: CudaBackend) -> None:
    with backend.collect(Options()) as log:
        gpu.launch("before")
        for step in range(3):
            log.mark()
            for _ in range(step + 1):
                gpu.launch("late", 100, late_ns=10**9)
    late = ("late", "late", 0, (STREAM,), GRID, BLOCK)
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    assert profile.kernels == (KernelStats(*late, 1, 3, 100),)
    assert assemble([(log.freeze(), {3: 0})], [1]).kernels == (KernelStats(*late, 3, 3, 300),)
    assert joined([profile, profile]).kernels == (KernelStats(*late, 1, 3, 100),)


def test_a_window_in_which_no_gpu_worked_has_no_kernels(gpu: Gpu, watch: Watch) -> None:
    with watch.ops():
        gpu.call("cudaStreamSynchronize_v3020")
    assert watch.profile.kernels is None


def test_a_kernel_without_times_has_none_and_one_without_a_launch_is_there(gpu: Gpu, watch: Watch) -> None:
    gpu.untimed = {"untimed"}
    with watch.ops():
        gpu.launch("untimed")
        gpu.unlinked_kernel("from_nowhere", 900)
        gpu.copy(D2H, 8, stream=2**32 - 1)  # CUPTI's number for one that it does not know
    assert [(found.kernel, found.fastest_ns, found.streams) for found in watch.profile.kernels or ()] == [
        ("from_nowhere", 900, (STREAM,)),
        ("MemcpyDtoH", 500, ()),
        ("untimed", None, (STREAM,)),
    ]


def test_each_gpu_is_busy_by_itself() -> None:
    tables = {RUNTIME: table(start=[10, 50], end=[12, 52]), DRIVER: table(), OVERHEAD: table(what=[])}
    calls = calls_of(tables, lambda *_: "cudaLaunchKernel")
    work = Work(
        (("k", ""),),
        np.zeros(4, np.int64),
        np.array([20, 25, 22, 60], np.uint64),
        np.array([10, 2, 10, ABSENT], np.int64),
        np.full(4, ABSENT),
        np.full(4, ABSENT),
        places(np.array([0, 0, 1, 0]), np.zeros(4)),
        np.array([0, 0, 0, 1]),
        np.zeros(4, bool),
    )
    assert busy_ns(calls, work, Span(0, 100, [40])) == {0: 20}


def table(**columns: list[int]) -> dict[str, np.typing.NDArray[np.int64]]:
    number = len(columns.get("start", []))
    zeros = {name: np.zeros(number, np.int64) for name in ("callback", "start", "end", "thread", "result")}
    return {**zeros, "correlation": np.arange(1, number + 1), **{k: np.array(v) for k, v in columns.items()}}


class Blocking:
    """Lets launches of the stand-in take as long as what they start, as CUDA_LAUNCH_BLOCKING=1 does."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.now_ns = gpu, time.time_ns()
        gpu.clock_ns = self.tick

    def tick(self) -> int:
        self.now_ns += 1
        return self.now_ns

    def launch(self, name: str, duration_ns: int, before_ns: int = 100, after_ns: int = 50) -> None:
        with self.gpu.inside("cudaLaunchKernel_v7000"):
            self.now_ns += before_ns
            self.gpu.launch(name, duration_ns, "cuLaunchKernel")
            self.now_ns += duration_ns + after_ns

    def copy(self, duration_ns: int) -> None:
        self.gpu.copy(H2D, 8, duration_ns)
        self.now_ns += 10


def test_sync_timing_takes_an_op_from_before_its_launch_to_after_its_end(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    program = Blocking(gpu)
    with backend.collect(Options("sync")) as log:
        program.launch("my_kernel", 2_000)
        program.copy(500)
        gpu.unlinked_kernel("another", 700)
        program.now_ns += 1_000
    profile = log.freeze()
    times = {stats.op: stats.fastest_ns for stats in profile.ops}
    assert times == {
        "my_kernel": pytest.approx(2_000 + 100 + 50, abs=10),
        "MemcpyHtoD": pytest.approx(500, abs=10),  # a copy does not block
        "another": 700,
    }
    assert profile.environment.timing == "sync"
    assert {found.kernel: found.fastest_ns for found in profile.kernels or ()} == {
        "my_kernel": 2_000,
        "MemcpyHtoD": 500,
        "another": 700,
    }


def test_sync_timing_takes_what_follows_a_copy_in_its_stream_from_the_end_of_that(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the host had waited for the copy, for which it does not."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    program = Blocking(gpu)
    with backend.collect(Options("sync")) as log:
        program.copy(5_000)
        program.launch("after", 2_000, before_ns=7_000)  # the call waits for the copy, then for the kernel
        program.gpu.copy(H2D, 8, 5_000, stream=19)
        program.launch("beside", 2_000, before_ns=7_000)
    assert {stats.op: stats.fastest_ns for stats in log.freeze().ops} == {
        "MemcpyHtoD": pytest.approx(10_000, abs=20),
        "after": pytest.approx(2_000 + 7_000 + 50 - 5_000, abs=20),
        "beside": pytest.approx(2_000 + 7_000 + 50, abs=20),
    }


def test_the_times_of_what_one_call_asked_for_add_up_to_the_call(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    program = Blocking(gpu)
    with backend.collect(Options("sync")) as log:
        with gpu.inside("cudaLaunchKernelExC_v11060"):
            for name in ("one", "two", "three"):
                program.launch(name, 1_000, before_ns=100, after_ns=0)
    profile = log.freeze()
    assert {stats.op: stats.fastest_ns for stats in profile.ops} == {
        "one": pytest.approx(1_100, abs=10),
        "two": pytest.approx(1_100, abs=10),
        "three": pytest.approx(1_100, abs=10),
    }


def test_sync_timing_where_launches_do_not_block_is_an_error(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(BackendError, match="3 kernels began after their launches returned: CUDA was init"):
        with backend.collect(Options("sync")):
            for _ in range(3):
                gpu.launch("my_kernel", 2_000, late_ns=10_000_000)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING")
    with pytest.raises(BackendError, match=r"Run pytest --opprof-timing=sync, or set CUDA_LAUNCH_BLOCKING=1$"):
        with backend.collect(Options("sync")):
            pass


def test_code_that_is_loaded_in_a_round_is_said_aloud(gpu: Gpu, backend: CudaBackend) -> None:
    with backend.collect(Options()) as log:
        for step in range(3):
            log.mark()
            if step == 1:
                gpu.call("cuModuleLoadData")
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    said = "code was compiled for the GPU or loaded onto it: wall times include that. Use a longer warm-up"
    assert profile.remarks == ((1, Remark(said)),)


def test_code_that_a_first_launch_loads_is_said_aloud_and_what_cupti_takes_time_for_is_not(
    gpu: Gpu, backend: CudaBackend
) -> None:
    with backend.collect(Options()) as log:
        for step in range(3):
            log.mark()
            gpu.load_inside(1 << 16)  # a buffer of CUPTI
            if step == 1:
                for what in LOADING:
                    gpu.load_inside(what)
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    assert [(step, remark.text.partition(":")[0]) for step, remark in profile.remarks] == [
        (1, "code was compiled for the GPU or loaded onto it")
    ]


@pytest.mark.parametrize(("version", "is_said"), [(28, True), (130400, True), (130401, False), (130500, False)])
def test_names_of_kernels_are_doubted_where_code_was_unloaded_and_cupti_may_mix_them_up(
    gpu: Gpu, watch: Watch, version: int, is_said: bool
) -> None:
    gpu.version = version
    with watch.ops():
        gpu.launch("known")
    assert watch.profile.remarks == ()
    with watch.ops():
        gpu.launch("known")
        gpu.call("cuModuleUnload")
    assert [text.partition(":")[0] for text in remarks_of(watch.profile)] == [
        "code was unloaded from the GPU"
    ] * is_said


def test_gpus_that_the_program_chooses_too_late_are_said_to_be_ignored(
    gpu: Gpu, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu.is_initialised = False
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with watch.ops():
        pass
    assert watch.profile.remarks == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with watch.ops():
        pass
    (said,) = remarks_of(watch.profile)
    assert said.startswith("CUDA_VISIBLE_DEVICES changed from '1' to '0' after CUDA was initialised")


def test_what_a_window_that_ended_in_an_error_left_running_is_not_in_the_next(gpu: Gpu, watch: Watch) -> None:
    with pytest.raises(ValueError, match="mine"):
        with watch.ops():
            gpu.launch("left")
            raise ValueError("mine")
    flushed = gpu.log.count("cuptiActivityFlushAll")
    assert flushed == 1
    gpu.enabled = {KERNEL}
    gpu.unlinked_kernel("late")  # it was running when the window ended
    gpu.enabled.clear()
    with watch.ops():
        gpu.launch("kept")
    assert watch.counts == {"kept": 1}
    assert gpu.log.count("cuptiActivityFlushAll") == flushed + 2


def test_a_range_is_counted_and_kernels_launched_in_it_keep_their_names_and_times(
    gpu: Gpu, backend: CudaBackend
) -> None:
    recorder, window = Recorder([backend], Options()), Window("w")
    with recorder.open(window):
        for ranges in (1, 2):
            with recorder.step(window):
                for _ in range(ranges):
                    with op("my_attention"):
                        gpu.launch("my_kernel", 1000, late_ns=10**9)
                gpu.launch(CAST, 10)
                gpu.call("cuModuleLoadData")
    assert {stats.op: (stats.calls, stats.device_ns) for stats in window.ops} == {
        "my_kernel": ((1, 2), (1000, 2000)),
        "Cast": ((1, 1), (10, 10)),
        "my_attention": ((1, 2), None),
    }
    assert window.profile.launches == (2, 3)
    assert [step for step, _ in window.profile.remarks] == [0, 1]


def test_code_that_is_loaded_in_several_ranges_of_a_round_is_said_of_that_round_once(
    gpu: Gpu, backend: CudaBackend
) -> None:
    recorder, window = Recorder([backend], Options()), Window("w")
    with recorder.open(window), recorder.step(window):
        for _ in range(3):
            with op("mine"):
                gpu.call("cuModuleLoadData")
    assert [step for step, _ in window.profile.remarks] == [0]


def test_a_function_of_cuda_is_no_name_for_a_range(backend: CudaBackend) -> None:
    recorder, window = Recorder([backend], Options()), Window("w")
    with recorder.open(window), recorder.step(window):
        with pytest.raises(UsageError, match=r"opprof.op\('MemcpyHtoH'\): the name is taken"), op("MemcpyHtoH"):
            pass


# Memory, by a stand-in for CuPy's pool and hook.


@pytest.fixture
def memory(backend: CudaBackend) -> Iterator[Watch]:
    yield Watch(backend, Options(memory=True))
    assert not MemoryHook.registered


def test_allocations_are_what_the_pool_hands_out_and_not_what_it_asks_cuda_for(gpu: Gpu, memory: Watch) -> None:
    pool = Pool(gpu)
    with memory.ops():
        first, second = pool.malloc(1000), pool.malloc(500)
        pool.free(first)
        pool.free(second)
        pool.malloc(400)
    assert memory.profile.memory == (MemoryUse(peak=1024 + 512, net=512, allocations=3),)
    assert memory.profile.remarks == ()


def test_memory_from_before_the_window_is_not_taken_off_when_it_is_freed(gpu: Gpu, memory: Watch) -> None:
    pool = Pool(gpu)
    old = pool.malloc(4096)
    with memory.ops():
        pool.free(old)
        pool.malloc(1)
    assert memory.profile.memory == (MemoryUse(512, 512, 1),)


def test_an_empty_array_and_a_failed_allocation_are_none(gpu: Gpu, memory: Watch) -> None:
    with memory.ops():
        Pool(gpu).malloc(0)
    assert memory.profile.allocations == (0,)


def test_allocations_of_steps_are_apart(gpu: Gpu, backend: CudaBackend) -> None:
    pool = Pool(gpu)
    with backend.collect(Options(memory=True)) as log:
        for step in range(3):
            log.mark()
            for _ in range(step):
                pool.malloc(512)
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    assert (profile.allocations, profile.peak_memory) == ((0, 1, 2), (0, 512, 1024))


def test_what_others_get_from_cuda_is_counted_and_its_size_is_not_known(gpu: Gpu, memory: Watch) -> None:
    with memory.ops():
        Pool(gpu).malloc(8)
        gpu.call("cuMemAllocAsync")
        with gpu.inside("cudaMalloc_v3020"):
            gpu.call("cuMemAlloc_v2")
        for none in ("cudaMallocHost_v3020", "cuMemFree_v2", "cudaHostAlloc_v3020"):
            gpu.call(none)
    assert memory.profile.allocations == (3,)
    assert memory.profile.peak_memory is None
    (said,) = remarks_of(memory.profile)
    assert said.startswith("GPU memory was allocated outside CuPy's pools")


def test_a_program_without_cupy_allocates_by_calls_of_cuda(
    gpu: Gpu, memory: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cupy")
    with memory.ops():
        pass
    assert memory.profile.memory == (MemoryUse(0, 0, 0),)
    with memory.ops():
        gpu.call("cuMemAlloc_v2")
    assert memory.profile.memory == (MemoryUse(None, 0, 1),)


def test_memory_is_unknown_where_cupy_is_imported_inside_or_nobody_asked(
    gpu: Gpu, memory: Watch, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watch.ops():
        Pool(gpu).malloc(8)
    assert watch.profile.memory is None
    cupy = sys.modules["cupy"]
    monkeypatch.delitem(sys.modules, "cupy")
    with memory.ops():
        monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert memory.profile.memory is None


def test_the_hook_is_gone_after_an_exception(memory: Watch) -> None:
    with pytest.raises(ValueError, match="mine"):
        with memory.ops():
            raise ValueError("mine")


# Whether it can run.


def test_it_is_in_use_where_something_imported_uses_a_gpu(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.in_use()
    assert backend.unavailable() is None
    assert backend.blind() is None  # type: ignore[func-returns-value]
    monkeypatch.delitem(sys.modules, "cupy")
    assert not backend.in_use()
    monkeypatch.setitem(sys.modules, "jax_plugins.xla_cuda13", ModuleType("jax_plugins.xla_cuda13"))
    assert backend.in_use()


@pytest.mark.parametrize(
    ("platforms", "plugin", "started", "in_use"),
    [
        ("", True, False, True),
        ("cuda,cpu", True, False, True),
        ("cpu,cuda", True, False, False),
        ("", False, False, False),
        ("", True, True, False),
    ],
)
def test_it_records_the_test_that_starts_jax_on_the_gpu(
    backend: CudaBackend,
    monkeypatch: pytest.MonkeyPatch,
    platforms: str,
    plugin: bool,
    started: bool,
    in_use: bool,
) -> None:
    # Stand-ins for JAX: of a process that imported it, and has not computed anything.
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(cuda_backend, "_jax_has_plugin", lambda: plugin)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=SimpleNamespace(jax_platforms=platforms)))
    bridge = SimpleNamespace(backends_are_initialized=lambda: started)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    assert backend.in_use() is in_use


def test_a_process_that_uses_no_gpu_asks_no_driver(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(cuda_driver, "opened", lambda: pytest.fail("asked"))
    assert not backend.in_use()


def no_driver(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    monkeypatch.setattr(cuda_driver, "opened", lambda: None)


def no_device(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    gpu.init = 100


def torch_owns(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    monkeypatch.setattr(cuda_backend, "torch_records", lambda: True)


def nsys(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "5")


def too_new(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    gpu.driver_version = 12040


def other_runtime(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    monkeypatch.setattr(libcupti, "mapped", lambda: ["/opt/libcudart.so.12"])


def no_library(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> None:
    def missing() -> None:
        raise BackendError("libcupti is not found")

    monkeypatch.setattr(libcupti, "opened", missing)


Weather = Callable[[pytest.MonkeyPatch, Gpu], None]


@pytest.mark.parametrize(
    ("weather", "words", "in_use"),
    [
        (no_driver, r"no NVIDIA driver \(libcuda.so.1\)", False),
        (no_device, "the NVIDIA driver finds no GPU. Check nvidia-smi", False),
        (torch_owns, "torch with CUDA is imported and its profiler owns CUPTI", False),
        (nsys, "Nsight Systems records this process.* Run pytest --opprof without nsys", True),
        (too_new, r"libcupti.stand-in is of CUDA 13, the driver supports 12.4. Install nvidia-cuda-cupti-cu12", True),
        (other_runtime, "is of CUDA 13, this process runs CUDA 12. .*OPPROF_LIBCUPTI", True),
        (no_library, "libcupti is not found", True),
    ],
)
def test_bad_weather_is_one_line_that_says_what_to_do(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch, weather: Weather, words: str, in_use: bool
) -> None:
    weather(monkeypatch, gpu)
    assert backend.in_use() is in_use
    with pytest.raises(BackendError, match=f"the cuda backend cannot record: .*{words}") as raised:
        with backend.collect(Options()):
            pass
    assert "\n" not in str(raised.value)
    assert not gpu.enabled


def test_a_flush_that_hangs_is_an_error_of_the_window(gpu: Gpu, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "PATIENCE_S", 0.01)
    gpu.hangs["cuptiActivityFlushAll"] = threading.Event()
    with pytest.raises(BackendError, match="CUPTI hangs at the end of a window"):
        with watch.ops():
            gpu.launch("my_kernel")
    gpu.hangs["cuptiActivityFlushAll"].set()


def a_torch(cuda: str | None, tells_bytes: bool = True, finds_gpu: bool = True) -> ModuleType:
    """Return what is asked of PyTorch; 2.9 and older do not tell how many bytes a copy has."""
    torch, activity = ModuleType("torch"), SimpleNamespace(CPU=0, CUDA=1)
    event = type("_KinetoEvent", (), {"metadata_json": ""} if tells_bytes else {})
    torch.version = SimpleNamespace(cuda=cuda)  # type: ignore[attr-defined]
    torch.autograd = SimpleNamespace(_KinetoEvent=event)  # type: ignore[attr-defined]
    torch.profiler = SimpleNamespace(  # type: ignore[attr-defined]
        ProfilerActivity=activity, supported_activities=lambda: {0, 1} if finds_gpu else {0}
    )
    return torch


@pytest.mark.parametrize(
    ("torch", "records"),
    [
        (a_torch("13.0"), True),
        (a_torch(None), False),
        (a_torch("12.8", tells_bytes=False), False),
        (a_torch("13.0", finds_gpu=False), False),
        (ModuleType("torch"), False),  # it is being imported
    ],
)
def test_torch_owns_cupti_where_its_profiler_records_the_gpu(
    monkeypatch: pytest.MonkeyPatch, torch: ModuleType, records: bool
) -> None:
    monkeypatch.setattr(cuda_driver, "opened", lambda: None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert TORCH_RECORDS() is records
    monkeypatch.delitem(sys.modules, "torch")
    assert not TORCH_RECORDS()


def test_a_gpu_that_is_chosen_after_torch_was_asked_for_its_gpus_is_told(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask initialises CUDA, which reads the variable once."""
    driver, torch = gpu.libraries()[0], a_torch("13.0")
    gpu.is_initialised = False

    def asked() -> set[int]:
        gpu.is_initialised = True
        return {0, 1}

    monkeypatch.setattr(torch.profiler, "supported_activities", asked)
    monkeypatch.setattr(cuda_driver, "opened", lambda: driver)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert TORCH_RECORDS()
    assert driver.ignored_devices() == ""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert "CUDA_VISIBLE_DEVICES" in driver.ignored_devices()


def test_beside_a_torch_that_records_no_gpu_kernels_of_cupy_are_recorded(
    gpu: Gpu, backend: CudaBackend, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_backend, "torch_records", TORCH_RECORDS)
    monkeypatch.setitem(sys.modules, "torch", a_torch("12.8", tells_bytes=False))
    assert backend.in_use()
    with watch.ops():
        gpu.launch(CAST)
    assert watch.counts == {"Cast": 1}
    monkeypatch.setitem(sys.modules, "torch", a_torch("13.0"))
    assert not backend.in_use()
    assert "its profiler owns CUPTI" in (backend.unavailable() or "")


def test_where_torch_owns_cupti_a_window_that_saw_nothing_says_so(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Blind(Backend):
        name = "numpy"

        def in_use(self) -> bool:
            return True

        def blind(self) -> str:
            return "it was shown nothing"

        @contextmanager
        def collect(self, options: Options) -> Iterator[EventLog]:
            yield EventLog(Environment((("numpy", "2"),)))

    torch_owns(monkeypatch, gpu)
    recorder = Recorder([Blind(), backend], Options())
    window = Window("w")
    with pytest.raises(NothingMeasured, match=r"nothing can be measured here: it was shown nothing$"):
        with recorder.open(window), recorder.step(window):
            pass


@given(st.lists(st.sampled_from(["kernel", "cast", "copy", "set", "wait", "mark"]), max_size=60))
def test_every_op_is_counted_once_in_its_step_whatever_the_order(program: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(cupti, "BUFFER_BYTES", 1024)
        monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
        gpu = Gpu()
        profile = _run(install(monkeypatch, gpu), gpu, program)
    expected: list[dict[str, int]] = [{}]
    for action in program:
        if action == "mark":
            expected.append({})
        else:
            expected[-1][action] = expected[-1].get(action, 0) + 1
    ops = {"kernel": "my_kernel", "cast": "Cast", "copy": "MemcpyHtoD", "set": "Memset", "wait": "Synchronize"}
    counted = {stats.op: stats.calls for stats in profile.ops}
    for action, name in ops.items():
        calls = tuple(step.get(action, 0) for step in expected)
        assert counted.get(name, (0,) * len(expected)) == calls


def _run(backend: CudaBackend, gpu: Gpu, program: list[str]) -> OpProfile:
    with backend.collect(Options()) as log:
        do = {
            "kernel": lambda: gpu.launch("my_kernel"),
            "cast": lambda: gpu.launch(CAST, how="cuLaunchKernel"),
            "copy": lambda: gpu.copy(H2D, 8),
            "set": lambda: gpu.set_memory(8),
            "wait": lambda: gpu.call("cudaDeviceSynchronize_v3020"),
            "mark": log.mark,
        }
        for action in program:
            do[action]()
    steps = log.interval + 1
    return assemble([(log.freeze(), {n: n for n in range(steps)})], [1] * steps)


# End to end.

HEAD = """
import pytest
from tests.frameworks.nvidia.live import test_backend as test_cuda_backend
GPU = test_cuda_backend.GPU
"""
GPU: Gpu
"""The stand-in of the run inside pytester."""


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gpu: Gpu, backend: CudaBackend
) -> Callable[..., pytest.RunResult]:
    monkeypatch.setattr(sys.modules[__name__], "GPU", gpu, raising=False)
    pytester.makeini(
        "[pytest]\nopprof_backend = cuda\nopprof_noise = ignore\naddopts = -p no:cacheprovider -p no:hypothesispytest\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess("--opprof", "--opprof-processes=1", *arguments)

    return run


def test_budgets_of_a_program_on_the_gpu_hold_and_break(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Cast=1, MemcpyHtoD=0, MemcpyDtoH=1, Synchronize=1, launches=3, device_time="5 ms")
@pytest.mark.parametrize("casts", [1, 3])
def test_a(casts):
    for _ in range(casts): GPU.launch("cupy_copy__float64_float32", 1000)
    GPU.launch("gemm", 2000)
    if casts > 1: GPU.copy(1, 64)
    GPU.copy(2, 64)
    GPU.call("cudaStreamSynchronize_v3020")
"""
    )
    # Not auto: in a process that imported torch, its profiler would start, and what it imports be forgotten afterwards.
    result = run("--opprof-backend=numpy,cuda", "--opprof-sites")  # else in a process that has no stand-in
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "  Cast: 3 calls (budget: 1)",
            "  MemcpyHtoD: 1 call (budget: 0)",
            "where Cast comes from (3 calls):",
            "     3  test_*.py:8 in test_a  `for * GPU.launch(*)`  via *cuda_stand_in.py:* in Gpu._asked",
            "where MemcpyHtoD comes from (1 call):",
            "     1  test_*.py:10 in test_a  `if casts > 1: GPU.copy(1, 64)`  via *",
        ]
    )
    result.stdout.fnmatch_lines(["  launches: 4 (budget: 3)"])


def test_a_budget_of_allocations_holds_in_steady_state_and_breaks_where_each_round_allocates(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        HEAD
        + """
from tests.frameworks.nvidia.live.cuda_stand_in import Pool
@pytest.mark.op_budget(allocations=0, peak_memory="1 KiB")
@pytest.mark.opprof(rounds=3, warmup=1, baseline=False)
@pytest.mark.parametrize("each_round", [0, 2])
def test_a(each_round):
    GPU.launch("gemm")
    for _ in range(each_round): Pool(GPU).malloc(2000)
"""
    )
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  allocations: 2 (budget: 0)", "  peak memory: 4 KiB (budget: 1 KiB)"])


def test_a_mark_that_asks_for_sync_timing_says_which_flag_it_needs(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    pytester.makepyfile(
        HEAD + "@pytest.mark.opprof(timing='sync', baseline=False)\ndef test_a():\n    GPU.launch('gemm')\n"
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*sync timing needs launches that block from the start of the process. Run pytest*"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_baseline_names_the_gpu_and_a_changed_count_fails_against_it(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    body = "@pytest.mark.opprof\ndef test_a():\n    for _ in range({}): GPU.launch('gemm')\n    GPU.copy(2, 8)\n"
    pytester.makepyfile(test_a=HEAD + body.format(2))
    run("--opprof-update").assert_outcomes(passed=1)
    (path,) = pytester.path.rglob("test_a.py.json")
    document = json.loads(path.read_text())
    assert document["environment"]["device"] == "Stand-in GPU 0"
    assert document["environment"]["timing"] == "async"
    assert document["environment"]["frameworks"] == {"cuda": "13.0", "cupy": "14.2.0"}
    kept = document["tests"]["test_a"]["body"]["ops"]
    assert {op: each["calls"] for op, each in kept.items()} == {"gemm": 2, "MemcpyDtoH": 1}
    run().assert_outcomes(passed=1)
    pytester.makepyfile(test_a=HEAD + body.format(3))
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*gemm*2*3*"])


KERNELS = """
@pytest.mark.opprof(rounds=3, warmup=1, baseline=False, top=2)
def test_a(round=iter(range(9))):
    for n in range(3 + next(round)):
        GPU.launch("gemm<float>", 1000, stream=7 + n % 2, grid=(16, 1, 1), block=(256, 1, 1))
    GPU.launch("cupy_copy__float64_float32", 500)
    GPU.copy(1, 64, 100)
    GPU.set_memory(8, 50)
"""


def test_the_kernels_of_a_window_are_below_its_ops_with_vv_and_in_the_json(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(HEAD + KERNELS)
    shown = run("-vv", "--opprof-json=run.json").stdout.str()
    assert (
        """\
total device time: 4.65 us

kernel                      op    calls    device time    grid x block          stream
--------------------------  ----  -------  -------------  --------------------  --------
gemm<float>                 gemm  4..6     4 us           [16,1,1] x [256,1,1]  7, 8
cupy_copy__float64_float32  Cast  1        500 ns         [2,3,4] x [64,2,1]    13
... and 2 more kernels (--opprof-json has them)
"""
        in shown
    )
    document = json.loads((pytester.path / "run.json").read_text())
    schema = json.loads((Path(pytest_opprof.__file__).parent / "schema" / "run-4.json").read_text())
    jsonschema.validate(document, schema)
    (window,) = document["tests"][0]["windows"]
    assert [row["kernel"] for row in window["kernels"]] == [
        "gemm<float>",
        "cupy_copy__float64_float32",
        "MemcpyHtoD",
        "Memset",
    ]
    assert window["kernels"][0] == {
        "kernel": "gemm<float>",
        "op": "gemm",
        "device": 0,
        "streams": [7, 8],
        "grid": [16, 1, 1],
        "block": [256, 1, 1],
        "fewest_calls": 4,
        "most_calls": 6,
        "fastest_ns": 4000,
    }
    assert "grid x block" not in run("-v").stdout.str()


def test_the_kernels_of_several_gpus_say_on_which_they_ran(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        HEAD + "@pytest.mark.opprof(baseline=False)\n"
        "def test_a():\n    for device in (0, 1): GPU.launch('gemm', 1000 - device, device=device)\n"
    )
    run("-vv").stdout.fnmatch_lines(["gemm * GPU 0: 13", "gemm * GPU 1: 13"])


def test_loading_in_a_measured_round_is_in_the_summary(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        HEAD + "@pytest.mark.opprof(rounds=3, warmup=0, baseline=False)\n"
        "def test_a():\n    GPU.call('cuModuleLoadData'); GPU.launch('gemm')\n"
    )
    result = run()
    result.stdout.fnmatch_lines(["*in 3 of 3 rounds (first in round 1) code was compiled for the GPU*"])


def test_opprof_backends_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_opprof.cli.main import main

    monkeypatch.setattr(cuda_backend, "torch_records", lambda: False)
    if cuda_driver.opened() is not None:
        pytest.skip("there is a driver")
    main(["backends"])
    assert "there is no NVIDIA driver (libcuda.so.1) on this machine" in capsys.readouterr().out
