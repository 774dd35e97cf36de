"""Threads that use the GPU while windows open and close. What deadlocks here ends with the stacks of all threads."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_opprof.frameworks.nvidia.live import cupti

from .windows import cupy_or_skip, of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]

THREADS, LAUNCHES = 6, 5000


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """End the process if it hangs, also where a thread that waits for CUPTI holds the GIL."""
    faulthandler.dump_traceback_later(90, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(cupti, "BUFFER_BYTES", 1 << 16)  # many buffers, so many callbacks
    monkeypatch.setattr(cupti, "MOST_BUFFERS", 4096)
    cp = cupy_or_skip()
    arrays = [cp.ones(64, cp.float32) for _ in range(THREADS)]
    for array in arrays:
        cp.add(array, 1, out=array)
    return arrays


def _launch(array: Any, stop: threading.Event | None = None) -> None:
    import cupy as cp

    with cp.cuda.Stream(non_blocking=True) as stream:
        for _ in range(LAUNCHES):
            cp.add(array, 1, out=array)
            if stop and stop.is_set():
                break
        stream.synchronize()


def _in_threads(arrays: list[Any]) -> None:
    threads = [threading.Thread(target=_launch, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_threads_launch_is_counted_exactly(arrays: list[Any]) -> None:
    assert of_cuda(lambda: _in_threads(arrays)).stats("Add").calls == (THREADS * LAUNCHES,)


def test_windows_open_and_close_while_a_thread_launches(arrays: list[Any]) -> None:
    import cupy as cp

    stop = threading.Event()

    def forever() -> None:
        while not stop.is_set():
            _launch(arrays[0], stop)

    thread = threading.Thread(target=forever)
    thread.start()
    try:
        found = [of_cuda(lambda: arrays[1].astype(cp.float64)).stats("Cast").calls for _ in range(50)]
    finally:
        stop.set()
        thread.join()
    assert found == [(1,)] * 50


def test_a_thread_that_calls_cuda_without_giving_the_gil_back(arrays: list[Any]) -> None:
    """docs/gpu.md says that this may hang. If it passes, that can go; CuPy's cudaGetDevice keeps the GIL."""
    import cupy as cp

    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            cp.cuda.runtime.getDevice()

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        profile = of_cuda(lambda: _in_threads(arrays))
    finally:
        stop.set()
        thread.join()
    assert profile.stats("Add").calls == (THREADS * LAUNCHES,)
