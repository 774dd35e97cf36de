"""The life cycle of CUPTI in a process, with a stand-in for the library: there is no GPU here."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_opprof.backends.cuda import cupti
from pytest_opprof.backends.cuda import driver as cuda_driver
from pytest_opprof.backends.cuda.cupti import Cupti
from pytest_opprof.backends.cuda.cupti_records import DRIVER, KERNEL, RUNTIME
from pytest_opprof.backends.cuda.driver import Driver, within
from pytest_opprof.errors import BackendError

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
        ("cuptiActivityEnable", 39, "another profiler has it: nsys, ncu"),
        ("cuptiActivityEnable", 35, "NVreg_RestrictProfilingToAdminUsers"),
        ("cuptiActivityEnable", 15, "no working NVIDIA driver"),
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


def test_a_flush_that_does_not_return_ends_with_a_message_and_no_further_window_tries(
    gpu: Gpu, library: Cupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupti, "PATIENCE_S", 0.01)
    gpu.hangs["cuptiActivityFlushAll"] = threading.Event()
    library.enable()
    library.disable()
    with pytest.raises(BackendError, match=r"CUPTI does not return from a flush.* Gave up after 0.01 s"):
        library.records()
    with pytest.raises(BackendError, match="did not return from a flush earlier"):
        library.enable()
    gpu.hangs["cuptiActivityFlushAll"].set()


def test_a_failed_flush_is_told_and_the_next_window_may_try(gpu: Gpu, library: Cupti) -> None:
    gpu.fails["cuptiActivityFlushAll"] = 9
    with pytest.raises(BackendError, match=r"\(9\) from cuptiActivityFlushAll"):
        library.records()
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


# Finding the library.


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("cuda_cupti/lib/libcupti.so.12", "cu13/lib/libcupti.so.13"):
        path = tmp_path / "nvidia" / name
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    return tmp_path / "nvidia"


def test_a_library_that_is_loaded_comes_first_then_the_wheel_of_the_cuda_in_use(wheels: Path) -> None:
    loaded = ["/opt/libcupti.so.12", "/opt/libcudart.so.12.9.79"]
    found = list(cupti.candidates(loaded, {}))
    assert [path.removeprefix(str(wheels)) for path in found][:3] == [
        "/opt/libcupti.so.12",
        "/cuda_cupti/lib/libcupti.so.12",
        "/cu13/lib/libcupti.so.13",
    ]
    assert found[-1] == "libcupti.so"


def test_of_wheels_alone_the_newest_comes_first(wheels: Path) -> None:
    assert next(cupti.candidates([], {})) == str(wheels / "cu13/lib/libcupti.so.13")


def test_the_toolkit_is_the_last_place_and_the_variable_the_only_one(tmp_path: Path) -> None:
    path = tmp_path / "extras/CUPTI/lib64/libcupti.so"
    path.parent.mkdir(parents=True)
    path.touch()
    assert str(path) in cupti.candidates([], {"CUDA_HOME": str(tmp_path)})
    assert list(cupti.candidates(["/opt/libcupti.so.12"], {"OPPROF_LIBCUPTI": "/mine"})) == ["/mine"]


def test_no_library_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPPROF_LIBCUPTI", "/no/such/libcupti.so")
    cupti.opened.cache_clear()
    with pytest.raises(BackendError, match=r"pip install nvidia-cuda-cupti-cu12 .*Tried: /no/such/libcupti.so"):
        cupti.opened()


def test_libraries_that_are_loaded_are_found_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = "7f0-7f1 r-xp 00000000 fd:01 5 /opt/cuda 12/libcudart.so.12\n7f1-7f2 r-xp 0 fd:01 5 /lib/libc.so.6\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: maps * 2)
    assert cupti.mapped() == ["/opt/cuda 12/libcudart.so.12"]
    assert cupti.cuda_major(cupti.mapped()) == 12
    assert cupti.cuda_major([]) is None


def test_nothing_is_known_to_be_loaded_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert cupti.mapped() == []


@pytest.mark.processes
def test_the_real_library_loads_and_refuses_without_a_driver() -> None:
    paths = [path for path in cupti.candidates([], {}) if "/nvidia/" in path]
    if not paths or cuda_driver.opened():
        pytest.skip("the wheel nvidia-cuda-cupti is not installed, or there is a driver")
    program = (
        "import ctypes, sys\nfrom pytest_opprof.backends.cuda.cupti import Cupti\n"
        "library = Cupti(ctypes.CDLL(sys.argv[1]))\nprint(library.major(), library.function(5, 211))\nlibrary.enable()"
    )
    done = subprocess.run([sys.executable, "-c", program, paths[0]], capture_output=True, text=True, check=False)
    assert done.stdout in ("12 cudaLaunchKernel\n", "13 cudaLaunchKernel\n")
    assert "there is no working NVIDIA driver" in done.stderr


# The driver.


def test_waiting_reaches_every_gpu_in_use_and_gives_back_what_it_took(gpu: Gpu) -> None:
    gpu.devices = 3
    assert Driver(gpu).synchronize() == 3
    assert [name for name in gpu.log if name != "cuInit"] == ["retain"] * 3 + ["cuCtxSynchronize"] * 3 + ["release"] * 3


def test_the_context_that_the_program_made_itself_is_waited_for_too(gpu: Gpu) -> None:
    def current(context: ctypes.c_void_p) -> int:
        context._obj.value = 7  # type: ignore[attr-defined]
        return 0

    gpu.cuCtxGetCurrent = current  # type: ignore[method-assign,assignment]
    assert Driver(gpu).synchronize() == 2
    gpu.has_context = False
    assert Driver(gpu).synchronize() == 1


def test_a_kernel_that_hangs_ends_the_waiting_with_a_message(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "PATIENCE_S", 0.01)
    gpu.hangs["cuCtxSynchronize"] = threading.Event()
    with pytest.raises(BackendError, match=r"the GPU is not done: a kernel hangs.* Gave up after 0.01 s"):
        Driver(gpu).synchronize()
    assert gpu.log[-1] == "release"
    gpu.hangs["cuCtxSynchronize"].set()


def test_a_kernel_that_failed_is_told_with_the_drivers_word_for_it(gpu: Gpu) -> None:
    gpu.fails["cuCtxSynchronize"] = 700
    with pytest.raises(BackendError, match=r"the NVIDIA driver reports STAND_IN_CUDA_ERROR \(700\) from cuCtxSynch"):
        Driver(gpu).synchronize()


def test_what_is_run_in_time_is_run_here(gpu: Gpu) -> None:
    done: list[int] = []
    within(60, lambda: done.append(1), "never")
    assert done == [1]


@pytest.mark.parametrize(
    ("status", "devices", "words"),
    [(100, 0, "finds no GPU"), (0, 0, "finds no GPU"), (803, 1, "cannot be initialised: STAND_IN_CUDA_ERROR (803)")],
)
def test_a_driver_that_cannot_run_says_why(gpu: Gpu, status: int, devices: int, words: str) -> None:
    gpu.init, gpu.devices = status, devices
    assert words in str(Driver(gpu).problem())


def test_a_driver_that_can_run_has_no_problem_a_version_and_models(gpu: Gpu) -> None:
    driver = Driver(gpu)
    assert (driver.problem(), driver.version(), driver.model(1)) == (None, (13, 0), "Stand-in GPU 1")
