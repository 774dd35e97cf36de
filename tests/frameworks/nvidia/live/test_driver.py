"""The driver: which GPUs there are, and waiting for them. On the stand-in: there is no GPU here."""

from __future__ import annotations

import ctypes
import os
import threading

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver
from pytest_opprof.frameworks.nvidia.live.driver import Driver, within

from .cuda_stand_in import Gpu


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


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


def test_all_waiting_is_done_by_one_thread_which_is_kept() -> None:
    """CUPTI asks for a buffer for each thread that calls CUDA in a window."""
    threads: list[int] = []
    for _ in range(5):
        within(60, lambda: threads.append(threading.get_ident()), "never")
    assert len(threads) == 5
    assert len({*threads}) == 1
    assert threads[0] != threading.get_ident()


def test_what_fails_while_it_is_waited_for_is_raised_here_and_the_thread_goes_on() -> None:
    def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        within(60, fails, "never")
    done: list[int] = []
    within(60, lambda: done.append(1), "never")
    assert done == [1]


def test_a_thread_that_does_not_come_back_is_not_waited_for_twice() -> None:
    hangs, threads = threading.Event(), list[int]()

    def hang() -> None:
        threads.append(threading.get_ident())
        hangs.wait()

    with pytest.raises(BackendError, match=r"it hangs. Gave up after 0.01 s"):
        within(0.01, hang, "it hangs")
    within(60, lambda: threads.append(threading.get_ident()), "never")
    hangs.set()
    assert threads[0] != threads[1]


def test_several_threads_may_wait_at_once() -> None:
    both, done = threading.Barrier(2), list[int]()

    def meet() -> None:
        done.append(both.wait(60))

    threads = [threading.Thread(target=within, args=(60, meet, "never")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_thread_of_its_own() -> None:
    within(60, lambda: None, "never")
    if not (child := os.fork()):
        done: list[int] = []
        try:
            within(60, lambda: done.append(1), "never")
        finally:
            os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_cuda_is_initialised_by_the_first_question_and_not_by_asking_whether_it_is(gpu: Gpu) -> None:
    gpu.is_initialised = False
    driver = Driver(gpu)
    assert not driver.is_initialised()
    assert not gpu.is_initialised
    assert driver.problem() is None
    assert driver.is_initialised()


def test_what_the_program_chose_before_it_initialised_cuda_itself_is_its_own_matter(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(gpu)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    driver.problem()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert driver.ignored_devices() == ""


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
