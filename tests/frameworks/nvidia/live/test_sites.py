"""Lines that ask for work of a GPU, by numbers that CUPTI is told. On the stand-in: there is no GPU here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.nvidia.live.backend import CudaBackend
from pytest_opprof.frameworks.nvidia.live.calls import calls_of
from pytest_opprof.frameworks.nvidia.live.cupti_records import DRIVER, EXTERNAL, OVERHEAD, RUNTIME
from pytest_opprof.frameworks.nvidia.live.sites import sites_of
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import UNKNOWN, Chains

from ....conftest import remarks_of
from .cuda_stand_in import Gpu
from .test_backend import CAST, GRAPH, H2D, install

LINES = Path(__file__).read_text().splitlines()
CUSTOM0, CUSTOM2 = 3, 5


class Seen:
    profile: OpProfile

    def by_line(self, op: str) -> dict[str, int]:
        """Return the calls of an op by the comment at the end of the line, which is below those of the stand-in."""
        found = Counter[str]()
        for (site, _), calls in self.profile.sites(op).items():
            frame = next((frame for frame in site.frames if frame.file == __file__), None) if site else None
            found[LINES[frame.line - 1].partition("  # ")[2] if frame else "no line"] += calls
        return found


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    return Gpu()


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> CudaBackend:
    return install(monkeypatch, gpu)


@contextmanager
def watched(backend: CudaBackend) -> Iterator[Seen]:
    seen = Seen()
    with backend.collect(Options(chains=Chains())) as log:
        log.mark()
        yield seen
    seen.profile = log.freeze()


def cast(gpu: Gpu) -> None:
    gpu.launch(CAST, how="cuLaunchKernel")  # cast


def test_work_belongs_to_the_line_that_asked_for_it_and_waits_do_too(gpu: Gpu, backend: CudaBackend) -> None:
    with watched(backend) as seen:
        gpu.launch("gemm")  # first
        for _ in range(3):
            gpu.launch("gemm", late_ns=10**9)  # late
            gpu.copy(H2D, 64)  # copy
        cast(gpu)
        cast(gpu)
        gpu.set_memory(8)  # set
        gpu.call("cudaDeviceSynchronize_v3020")  # wait
    assert seen.by_line("gemm") == {"first": 1, "late": 3}
    assert [seen.by_line(op) for op in ("MemcpyHtoD", "Memset", "Synchronize")] == [
        {"copy": 3},
        {"set": 1},
        {"wait": 1},
    ]
    assert (seen.by_line("Cast"), seen.by_line("cudaLaunchKernel")) == ({"cast": 2}, {"first": 1, "late": 3})
    callers = {site.frames[-1].line for site, _ in seen.profile.sites("Cast") if site}
    assert [LINES[line - 1].strip() for line in sorted(callers)] == ["cast(gpu)"] * 2


def test_all_kernels_of_a_graph_belong_to_the_line_that_launched_it(gpu: Gpu, backend: CudaBackend) -> None:
    gpu.loses = {"captured"}
    with watched(backend) as seen:
        gpu.call("cudaStreamBeginCapture_v10000")
        gpu.launch("captured")
        gpu.call("cudaStreamEndCapture_v10000")
        gpu.launch("node", how=GRAPH, kernels=5)  # graph
        gpu.launch("other")  # other
    assert (seen.by_line("node"), seen.by_line("other")) == ({"graph": 5}, {"other": 1})


def test_a_kernel_that_the_runtime_asks_the_driver_for_has_the_line_that_called_the_runtime(
    gpu: Gpu, backend: CudaBackend
) -> None:
    with watched(backend) as seen:
        with gpu.inside("cudaLaunchKernel_v7000"):  # runtime
            gpu.launch("mine", how="cuLaunchKernel")
    assert seen.by_line("mine") == {"runtime": 1}


def test_work_of_other_threads_and_without_a_call_has_no_line(gpu: Gpu, backend: CudaBackend) -> None:
    with watched(backend) as seen:
        thread = threading.Thread(target=cast, args=[gpu])
        thread.start()
        thread.join()
        gpu.unlinked_kernel("from_nowhere")
        gpu.launch("mine")  # mine
    assert [seen.by_line(op) for op in ("Cast", "from_nowhere", "mine")] == [
        {"no line": 1},
        {"no line": 1},
        {"mine": 1},
    ]


def test_numbers_that_the_program_pushes_are_its_own(gpu: Gpu, backend: CudaBackend) -> None:
    gpu.pushed[CUSTOM0] = [7]
    gpu.pushed[CUSTOM2] = [1]
    with watched(backend) as seen:
        gpu.launch("mine")  # mine
    assert seen.by_line("mine") == {"mine": 1}
    assert gpu.pushed == {CUSTOM0: [7], CUSTOM2: [1]}


@pytest.mark.parametrize("error", [False, True])
def test_nothing_is_pushed_after_the_window(gpu: Gpu, backend: CudaBackend, error: bool) -> None:
    with pytest.raises(KeyError) if error else watched(backend) as seen:
        if error:
            with watched(backend):
                gpu.launch("mine")
                raise KeyError
        gpu.launch("mine")  # mine
    assert gpu.pushed == {CUSTOM2: []}
    if not error:
        assert seen.by_line("mine") == {"mine": 1}


def test_a_window_whose_lines_nobody_wants_pushes_nothing(gpu: Gpu, backend: CudaBackend) -> None:
    with backend.collect(Options()) as log:
        gpu.launch("mine")
        assert EXTERNAL not in gpu.enabled
    assert log.freeze().stats("mine").calls == (1,)
    assert not any("ExternalCorrelation" in function for function in gpu.log)


@pytest.mark.parametrize("function", ["Push", "Pop"])
def test_where_cupti_takes_no_number_no_line_is_known_and_the_window_counts(
    gpu: Gpu, backend: CudaBackend, function: str
) -> None:
    gpu.fails[f"cuptiActivity{function}ExternalCorrelationId"] = 21
    with watched(backend) as seen:
        gpu.launch("mine")
        gpu.launch("mine")
    assert seen.by_line("mine") == {"no line": 2}
    (said,) = remarks_of(seen.profile)
    assert said.startswith("source lines of GPU work are unknown: CUPTI reports STAND_IN_ERROR (21) from")


def test_a_process_whose_lines_cannot_be_traced_counts_and_says_why(
    gpu: Gpu, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_opprof.frameworks.live.lines.Tracer.unavailable", lambda self: "a debugger is here")
    with watched(backend) as seen:
        gpu.launch("mine")
    assert seen.by_line("mine") == {"no line": 1}
    assert remarks_of(seen.profile) == ["source lines are unknown: a debugger is here"]


def test_a_call_has_the_number_of_whichever_record_has_it() -> None:
    """A runtime call from 0 to 9 with a driver call inside it, and one of another thread."""
    ours = 0x6F707072 << 32

    def table(start: list[int], end: list[int], correlation: list[int], thread: int) -> dict[str, np.ndarray]:
        count = len(start)
        return {
            "callback": np.zeros(count, np.uint32),
            "start": np.array(start, np.uint64),
            "end": np.array(end, np.uint64),
            "thread": np.full(count, thread, np.uint32),
            "correlation": np.array(correlation, np.uint32),
            "result": np.zeros(count, np.uint32),
        }

    records = {
        RUNTIME: table([0], [9], [1], 7),
        DRIVER: table([2, 20], [3, 21], [2, 3], 7),
        OVERHEAD: {"what": np.zeros(0, np.uint32), "start": np.zeros(0, np.uint64)},
    }
    calls = calls_of(records, lambda kind, number: f"{kind}")
    pushed = {"pushed": np.array([ours | 4, 9], np.uint64), "correlation": np.array([2, 3], np.uint32)}
    assert sites_of(calls, pushed) == [(4, False), (4, False), (UNKNOWN, False)]
    nothing = {name: values[:0] for name, values in pushed.items()}
    assert sites_of(calls, nothing) == [(UNKNOWN, False)] * 3


def test_beside_a_torch_that_records_no_gpu_both_have_the_lines(gpu: Gpu, backend: CudaBackend) -> None:
    torch = pytest.importorskip("torch")
    from pytest_opprof.frameworks.pytorch.live.backend import backend as of_torch

    options, one, seen, host = Options(chains=Chains()), torch.ones(4), Seen(), Seen()
    with of_torch().collect(options) as torch_log, backend.collect(options) as log:
        log.mark()
        torch_log.mark()
        gpu.launch("mine")  # mine
        one.double()  # double
        gpu.launch("mine")  # again
    seen.profile, host.profile = log.freeze(), torch_log.freeze()
    assert seen.by_line("mine") == {"mine": 1, "again": 1}
    assert host.by_line("Cast") == {"double": 1}
    assert seen.profile.remarks == host.profile.remarks == ()
