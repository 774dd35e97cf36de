"""The cuda backend on a real GPU, with CuPy: counts are exact, times are the GPU's. Skipped where there is none.

`test_frameworks` runs it in a process of its own: torch with CUDA must not be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from time import perf_counter
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.nvidia.live import backend, nvml
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver
from pytest_opprof.machine.load import named
from pytest_opprof.measure.memory.leaks import left_by
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains

from .windows import cupy_or_skip, of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


@pytest.fixture(scope="module")
def cp() -> Any:
    cupy = cupy_or_skip()
    _work(cupy, 1, 1, 1)  # compiles, and makes the handle of cuBLAS
    return cupy


def _work(cp: Any, matmuls: int, casts: int, copies: int) -> None:
    matrix = cp.ones((512, 512), cp.float32)
    for _ in range(matmuls):
        matrix @ matrix
    for _ in range(casts):
        matrix.astype(cp.float64)
    for _ in range(copies):
        matrix.get()


def measured(cp: Any, *counts: int) -> OpProfile:
    return of_cuda(lambda: _work(cp, *counts))


def test_work_of_the_gpu_has_the_line_that_asked_for_it(cp: Any) -> None:
    with backend.backend().collect(Options(chains=Chains())) as log:
        _work(cp, 2, 5, 3)
    found = {}
    for op in ("cupy_copy__float32_float64", "MemcpyDtoH"):
        for (site, _), calls in log.freeze().sites(op).items():
            assert site is not None
            assert [frame.function for frame in site.frames[:1]] == ["_work"]
            found[op, site.frames[0].line - _work.__code__.co_firstlineno] = calls
    assert found == {("cupy_copy__float32_float64", 5): 5, ("MemcpyDtoH", 7): 3}


def test_matmuls_casts_and_copies_are_counted_exactly(cp: Any) -> None:
    profile = measured(cp, 7, 5, 3)
    assert profile.stats("cupy_copy__float32_float64").calls == (5,)
    assert profile.stats("Cast").calls == (5,)
    assert profile.stats("MemcpyDtoH").calls == (3,)
    assert profile.stats("MemcpyDtoH").bytes == (3 * 512 * 512 * 4,)
    assert "(unlinked)" not in profile.raw_names
    # The matrix is filled by one kernel, and a product may take two (split, and sum).
    assert profile.launches is not None
    assert 1 + 7 + 5 <= profile.launches[0] <= 1 + 2 * 7 + 5


def test_500_windows_lose_nothing(cp: Any) -> None:
    wrong = [n for n in range(500) if measured(cp, 0, n % 7, 0).stats("Cast").calls != (n % 7,)]
    assert wrong == []


def test_a_synchronisation_of_the_program_is_counted_and_ours_is_not(cp: Any) -> None:
    profile = of_cuda(lambda: [cp.cuda.runtime.deviceSynchronize() for _ in range(4)])
    assert profile.stats("Synchronize").calls == (4,)


def test_times_agree_with_the_events_of_cuda(cp: Any) -> None:
    matrix = cp.ones((4096, 4096), cp.float32)
    out = cp.empty_like(matrix)
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    cp.multiply(matrix, matrix, out=out)  # compiles

    def body() -> None:
        begin.record()
        for _ in range(50):
            cp.multiply(matrix, matrix, out=out)
        end.record()
        end.synchronize()

    (device_ns,) = of_cuda(body).total.device_ns or (0,)
    between_ns = cp.cuda.get_elapsed_time(begin, end) * 1e6
    # Events see the gaps between kernels as well.
    assert 0.8 * between_ns < device_ns <= 1.01 * between_ns


def test_a_kernel_has_the_grid_the_block_and_the_streams_it_was_launched_with(cp: Any) -> None:
    kernel = cp.RawKernel('extern "C" __global__ void mine(float* x) { x[0] = 1; }', "mine")
    x = cp.ones(1, cp.float32)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]

    def body() -> None:
        for stream in streams:
            with stream:
                kernel((3, 2, 1), (32, 4, 2), (x,))

    body()  # compiles
    profile = of_cuda(lambda: (body(), x.get()))
    found = {stats.kernel: stats for stats in profile.kernels or ()}
    mine = found["mine"]
    assert (mine.op, mine.grid, mine.block, mine.most_calls, len(mine.streams)) == ("mine", (3, 2, 1), (32, 4, 2), 2, 2)
    assert (mine.fastest_ns,) == profile.stats("mine").device_ns
    assert (found["MemcpyDtoH"].grid, found["MemcpyDtoH"].most_calls) == (None, 1)


def test_allocations_are_what_the_program_asks_for_and_none_once_it_has_all(cp: Any) -> None:
    matrix = cp.ones((512, 512), cp.float32)
    out = cp.empty_like(matrix)
    for body, allocations, peak in [
        (lambda: cp.multiply(matrix, matrix, out=out), 0, 0),
        (lambda: [matrix * n for n in range(3)], 3, 3 * matrix.nbytes),
    ]:
        body()
        profile = of_cuda(body, memory=True)
        assert (profile.allocations, profile.peak_memory) == ((allocations,), (peak,))


def test_the_environment_names_the_gpu(cp: Any) -> None:
    with backend.backend().collect(Options()) as log:
        cp.ones(8)
    assert isinstance(log.environment, Environment)
    assert log.environment.device == cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    assert log.environment.timing == "async"


def test_who_else_uses_the_gpu_is_seen_and_nobody_of_this_run_is(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU to ourselves; prints what a look costs (-s)."""
    if missing := nvml.unwatched():
        pytest.skip(missing)
    driver = cuda_driver.opened()
    begin = perf_counter()
    (look,) = nvml.look(driver).values()
    print(f"{(perf_counter() - begin) * 1e3:.2f} ms a look: {look}")
    assert (look.others, look.unknown) == ((), ())
    child = "import cupy; cupy.ones(8).sum().get(); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == "ready\n"
        assert [what for what in measured(cp, 1, 0, 0).disturbed if "shared" in what] == []
        monkeypatch.setattr(nvml, "is_of_this_run", lambda pid: pid == os.getpid())
        assert f"GPU 0 was shared with {named(ours.pid)}" in measured(cp, 1, 0, 0).disturbed
        ours.communicate("\n")


def test_a_gpu_that_works_for_seconds_has_counters_that_agree_with_its_reasons(cp: Any) -> None:
    """Prints them (-s): whether it is at its power cap is up to the GPU, and to what it is given to do."""
    if missing := nvml.unwatched():
        pytest.skip(missing)
    driver, matrix = cuda_driver.opened(), cp.ones((8192, 8192), cp.float32)
    before, until = nvml.look(driver)[0], perf_counter() + 3
    while perf_counter() < until:
        matrix @ matrix
        cp.cuda.runtime.deviceSynchronize()
    after = nvml.look(driver)[0]
    print(before, after, *nvml.disturbances(0, before, after), sep="\n")
    assert all(
        0 <= after.counted_ns[reason] - ns <= after.at_ns - before.at_ns for reason, ns in before.counted_ns.items()
    )


def test_an_array_that_each_call_keeps_is_left_behind_with_its_bytes_on_the_gpu(cp: Any) -> None:
    kept: list[Any] = []
    left = left_by(lambda: kept.append(cp.ones((256, 256), cp.float32)), device_bytes=backend.backend().device_bytes)
    assert (left.device_bytes, left.objects) == (256 * 256 * 4, {"cupy.ndarray": 1})
