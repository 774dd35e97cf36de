"""The life cycle of CUPTI in a process, with a stand-in for the library: there is no GPU here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.nvidia.live import cupti
from pytest_opprof.frameworks.nvidia.live.cupti import Cupti
from pytest_opprof.frameworks.nvidia.live.cupti_records import DRIVER, KERNEL, RUNTIME

from .cuda_stand_in import Gpu


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def library(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Cupti:
    monkeypatch.setattr(cupti, "BUFFER_BYTES", 1024)
    return gpu.libraries()[1]


def kernels(library: Cupti) -> list[str]:
    return [library.text(address) for address in library.records()[KERNEL]["name"].tolist()]


def test_what_happens_in_a_window_and_only_that_is_recorded(gpu: Gpu, library: Cupti) -> None:
    gpu.launch("before")
    library.enable()
    gpu.launch("inside")
    library.disable()
    gpu.launch("after")
    assert kernels(library) == ["inside"]


def test_callbacks_are_registered_once_for_500_windows_and_none_is_lost(gpu: Gpu, library: Cupti) -> None:
    for number in range(500):
        library.enable()
        for _ in range(number % 9):
            gpu.launch("add")
        library.disable()
        assert len(kernels(library)) == number % 9
    assert gpu.log.count("cuptiActivityRegisterCallbacks") == 1
    assert not {"cuptiSubscribe", "cuptiFinalize", "cuptiActivityRegisterTimestampCallback"} & set(gpu.log)
    assert len(library._ready) == cupti.READY_BUFFERS


def test_calls_that_only_ask_are_left_out_where_cupti_can_and_it_is_no_error_where_it_does_not(
    gpu: Gpu, library: Cupti
) -> None:
    for gpu.fails in ({}, {"cuptiActivityEnableRuntimeApi": 999}):
        gpu.quiet.clear()
        library.enable()
        gpu.launch("add")
        library.disable()
        assert (kernels(library), gpu.quiet) == (["add"], list(cupti._QUIET))


def test_records_that_fill_several_buffers_are_all_there_in_order(gpu: Gpu, library: Cupti) -> None:
    library.enable()
    for number in range(50):
        gpu.launch(f"k{number}")
    library.disable()
    assert kernels(library) == [f"k{number}" for number in range(50)]


def test_a_window_that_was_left_leaves_nothing_to_the_next(gpu: Gpu, library: Cupti) -> None:
    library.enable()
    for _ in range(30):
        gpu.launch("left")
    library.disable()
    library.enable()
    gpu.launch("kept")
    library.disable()
    # What was in the buffer that nobody flushed is told from the window by its time, not here.
    assert kernels(library)[-1] == "kept"


def test_calls_have_the_names_of_cuda_without_versions(gpu: Gpu, library: Cupti) -> None:
    gpu.functions = ["cudaLaunchKernel_ptsz_v7000", "__cudaLaunchKernel_v13000", "cuLaunchKernel_ptsz", "cuMemAlloc_v2"]
    assert [library.function(RUNTIME, n) for n in range(2)] == ["cudaLaunchKernel"] * 2
    assert [library.function(DRIVER, n) for n in (2, 3)] == ["cuLaunchKernel", "cuMemAlloc"]


def test_dropped_records_are_an_error_and_forgotten_by_the_next_window(gpu: Gpu, library: Cupti) -> None:
    library.enable()
    gpu.dropped = 3
    library.disable()
    with pytest.raises(BackendError, match=r"CUPTI dropped 3 records: .*fewer rounds"):
        library.records()
    gpu.dropped = 5
    library.enable()
    library.disable()
    assert kernels(library) == []


def test_memory_is_bounded(gpu: Gpu, library: Cupti, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "MOST_BUFFERS", 2)
    library.enable()
    for _ in range(20):
        gpu.launch("add")
    library.disable()
    with pytest.raises(BackendError, match="CUPTI dropped"):
        library.records()


def test_a_library_that_does_not_bear_to_be_refused_gets_buffers_and_the_window_fails(
    gpu: Gpu, library: Cupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupti, "MOST_BUFFERS", 2)
    gpu.version = 26
    library.enable()
    for _ in range(200):
        gpu.launch("add")
    assert not gpu.crashed
    assert len(library._filled) + len(library._lent) <= 3  # what it gets beyond the limit is used again
    library.disable()
    with pytest.raises(BackendError, match="CUPTI dropped some records: more than fit into"):
        library.records()
    library.enable()
    gpu.launch("kept")
    library.disable()
    assert kernels(library) == ["kept"]


def test_a_machine_without_memory_drops_records_and_says_so(
    gpu: Gpu, library: Cupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    library.enable()
    library._ready.clear()
    with monkeypatch.context() as patched:
        patched.setattr(cupti.np, "empty", full)  # type: ignore[attr-defined]
        gpu.launch("add")
    library.disable()
    with pytest.raises(BackendError, match=r"CUPTI dropped 2 records: more than fit into .* this machine's memory"):
        library.records()


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("cuptiActivityEnable", 39, r"another profiler uses CUPTI \(nsys, ncu"),
        ("cuptiActivityEnable", 35, "NVreg_RestrictProfilingToAdminUsers"),
        ("cuptiActivityEnable", 15, "the NVIDIA driver is missing or too old"),
        ("cuptiActivityRegisterCallbacks", 999, "too old for this libcupti"),
        ("cuptiActivityEnable", 21, r"STAND_IN_ERROR \(21\) from cuptiActivityEnable$"),
    ],
)
def test_a_refusal_says_what_to_do_and_leaves_nothing_enabled(
    gpu: Gpu, library: Cupti, function: str, status: int, words: str
) -> None:
    gpu.fails[function] = status
    with pytest.raises(BackendError, match=words):
        library.enable()
    assert not gpu.enabled


def test_kinds_that_were_enabled_before_the_one_that_is_refused_are_disabled(gpu: Gpu, library: Cupti) -> None:
    enable = gpu.cuptiActivityEnable
    gpu.cuptiActivityEnable = lambda kind: 21 if kind == RUNTIME else enable(kind)  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="cuptiActivityEnable"):
        library.enable()
    assert not gpu.enabled


@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_clock_that_is_not_the_systems_is_refused(gpu: Gpu, library: Cupti, when: str) -> None:
    if when == "inside":
        library.enable()
    gpu.clock_ns = lambda: time.monotonic_ns() * 3  # ticks, as torch's profiler makes them
    with pytest.raises(BackendError, match=r"CUPTI's clock is .* s away .*torch.profiler"):
        library.enable() if when == "before" else library.records()


@pytest.mark.parametrize("where", ["cuptiActivityDisable", "cuptiActivityFlushAll"])
def test_an_end_that_does_not_return_ends_with_a_message_and_no_further_window_tries(
    gpu: Gpu, library: Cupti, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(cupti, "PATIENCE_S", 0.01)
    gpu.hangs[where] = threading.Event()
    library.enable()
    with pytest.raises(BackendError, match=r"CUPTI hangs at the end of a window.* Gave up after 0.01 s"):
        library.disable()
    with pytest.raises(BackendError, match="CUPTI still hangs at the end of an earlier window"):
        library.enable()
    gpu.hangs[where].set()


def test_a_failed_flush_is_told_and_the_next_window_may_try(gpu: Gpu, library: Cupti) -> None:
    library.enable()
    gpu.fails["cuptiActivityFlushAll"] = 9
    with pytest.raises(BackendError, match=r"\(9\) from cuptiActivityFlushAll"):
        library.disable()
    gpu.fails.clear()
    library.enable()


def test_a_forked_process_is_told_that_cuda_does_not_survive_it(
    library: Cupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.enable()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for use in (library.enable, library.records):
        with pytest.raises(BackendError, match=r"forked from one that uses CUDA.*spawn"):
            use()


@pytest.mark.parametrize(("number", "major"), [(17, 11), (18, 12), (28, 12), (130001, 13), (140000, 14)])
def test_the_major_version_is_read_from_both_ways_of_counting(
    gpu: Gpu, library: Cupti, number: int, major: int
) -> None:
    gpu.version = number
    assert library.major() == major


def test_a_kernel_without_a_name_has_none(library: Cupti) -> None:
    assert library.text(0) == "(no name)"


def test_a_buffer_that_is_not_ours_is_left_alone(library: Cupti) -> None:
    library._completed(None, 0, 4096, 8, 8)
    assert not library._filled


# Threads.


COMPILER = shutil.which("gcc") or shutil.which("cc")
PROGRAM = """
import ctypes, sys, threading
from pytest_opprof.frameworks.nvidia.live import cupti
from pytest_opprof.frameworks.nvidia.live.cupti_records import EXTERNAL, KERNEL, RUNTIME

cupti.BUFFER_BYTES = 65_536
path, stop = sys.argv[1], threading.Event()
library, program = cupti.Cupti(ctypes.CDLL(path)), ctypes.CDLL(path)

def launch():
    while not stop.is_set():
        program.launch()

threads = [threading.Thread(target=launch, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
kernels = calls = 0
wanted, found = [], []
for number in range(40):
    library.enable(pushed=True)
    for each in range(10):
        library.push(100 * number + each)
        program.launch()
        wanted.append(100 * number + each)
        library.pop()
    library.disable()
    records = library.records()
    kernels, calls = kernels + len(records[KERNEL]["start"]), calls + len(records[RUNTIME]["start"])
    assert set(records[EXTERNAL]["correlation"].tolist()) <= set(records[KERNEL]["correlation"].tolist())
    found += records[EXTERNAL]["pushed"].tolist()
stop.set()
for thread in threads:
    thread.join()
print(kernels == calls == program.launches(), kernels >= 400, found == wanted)
"""


@pytest.mark.processes
@pytest.mark.skipif(COMPILER is None, reason="no C compiler (apt install gcc)")
def test_a_library_that_calls_back_under_its_lock_and_a_program_that_launches_in_threads_do_not_hang(
    tmp_path: Path,
) -> None:
    """On a stand-in in C. Callbacks need the GIL, so nothing that waits for the lock may hold it."""
    path = tmp_path / "libcupti.so"
    source = Path(__file__).with_name("cupti_stand_in.c")
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("True True True\n", "")
