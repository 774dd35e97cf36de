"""Whether a GPU was throttled or shared. There is none here: a stand-in for pynvml, the real one where it says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_opprof.frameworks.nvidia.live import nvml
from pytest_opprof.frameworks.nvidia.live.driver import Driver
from pytest_opprof.frameworks.nvidia.live.nvml import Look
from pytest_opprof.machine import load
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog

from ....conftest import remarks_of
from .cuda_stand_in import Gpu
from .nvml_stand_in import Nvml, process

SECOND_NS = 10**9
STRANGER = 2**22
"""More than Linux numbers processes."""


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Return the NVML of this process."""
    found = Nvml()
    monkeypatch.setattr(nvml, "_opened", lambda: (found, ""))
    monkeypatch.setattr(nvml, "_last", {})
    return found


def told(before: dict[int, Look], after: dict[int, Look], *devices: int) -> tuple[list[str], list[str]]:
    """Return what disturbed the devices, and the remarks."""
    log = EventLog(Environment(()))
    nvml.tell(log, before, after, devices)
    return log.disturbed, remarks_of(log.freeze())


# --- what is there


@pytest.fixture
def _not_opened_yet() -> Iterator[None]:
    nvml._opened.cache_clear()
    yield
    nvml._opened.cache_clear()


@pytest.mark.usefixtures("_not_opened_yet")
def test_without_a_driver_the_real_package_says_so_and_nothing_is_looked_at(gpu: Gpu) -> None:
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        missing = "NVML cannot be opened (NVML Shared Library Not Found). Check nvidia-smi"
        said = f"GPU throttling and sharing are not checked: {missing}"
        assert nvml.unwatched() == said
        assert nvml.look(Driver(gpu)) == {}
        assert told({}, {}, 0) == ([], [said])
    else:
        pytest.skip("there is an NVIDIA driver")


@pytest.mark.usefixtures("_not_opened_yet")
def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    said = 'nvidia-ml-py is not installed. Run pip install "pytest-opprof[cuda]"'
    assert nvml.unwatched() == f"GPU throttling and sharing are not checked: {said}"


@pytest.mark.usefixtures("_not_opened_yet")
def test_a_package_that_warns_that_it_is_superseded_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import warnings\nwarnings.warn('superseded', FutureWarning)\ndef nvmlInit(): pass\n"
    (tmp_path / "pynvml.py").write_text(text)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert nvml.unwatched() == ""
    monkeypatch.delitem(sys.modules, "pynvml")


@pytest.mark.usefixtures("_not_opened_yet")
def test_a_package_of_that_name_that_is_another_one_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", ModuleType("pynvml"))
    assert "NVML cannot be opened (module 'pynvml' has no attribute 'nvmlInit'" in nvml.unwatched()


def test_what_the_real_package_is_asked_for_is_there() -> None:
    pynvml = pytest.importorskip("pynvml")
    for function in (*nvml._REASONS, *nvml._PROCESSES, "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetViolationStatus"):
        assert callable(getattr(pynvml, function))
    names = ("SwPowerCap", "SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown", "HwSlowdown")
    assert [getattr(pynvml, f"nvmlClocksEventReason{name}") for name in names] == [nvml._SW_POWER_CAP, *nvml._THROTTLED]
    assert pynvml.nvmlClocksEventReasonGpuIdle == nvml._IDLE
    counters = pynvml.NVML_PERF_POLICY_POWER, pynvml.NVML_PERF_POLICY_THERMAL
    assert tuple(nvml._COUNTERS.values()) == counters


# --- looking


def test_a_gpu_is_found_by_where_it_is_whatever_number_it_has_in_cuda(gpu: Gpu, said: Nvml) -> None:
    gpu.devices, said.bus, said.reasons = 2, "0000:3C:00.0", 0x20
    looks = nvml.look(Driver(gpu))
    assert looks[1].reasons == 0x20
    assert told(looks, looks, 1) == (["GPU 1 was throttled: SW thermal slowdown"], [])
    unknown = "GPU 0 was not checked for throttling and sharing: NVML does not know 0000:3B:00.0 (Not Found)"
    assert told(looks, looks, 0) == ([], [unknown])


def test_a_gpu_that_this_process_has_not_set_up_is_not_asked_about(gpu: Gpu, said: Nvml) -> None:
    gpu.has_context = False
    assert nvml.look(Driver(gpu)) == nvml.look(None) == {}
    assert said.asked == []
    unknown = "GPU 0 was not checked for throttling and sharing: its primary context is not in use"
    assert told({}, {}, 0) == ([], [unknown])


def test_a_driver_that_fails_is_left_to_who_waits_for_it(gpu: Gpu, said: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gpu, "cuDevicePrimaryCtxGetState", lambda *arguments: 700)
    assert nvml.look(Driver(gpu)) == {}


def test_older_drivers_are_asked_by_older_names(gpu: Gpu, said: Nvml) -> None:
    said.reasons, said.fails = 0x20, {"nvmlDeviceGetCurrentClocksEventReasons": "Function Not Found"}
    looks = nvml.look(Driver(gpu))
    assert told({}, looks, 0) == (["GPU 0 was throttled: SW thermal slowdown"], [])


def test_what_nvml_does_not_answer_is_a_remark_of_every_window(gpu: Gpu, said: Nvml) -> None:
    said.reasons = 0xFF
    said.fails = dict.fromkeys(
        [
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetViolationStatus",
        ],
        "Not Supported",
    )
    looks = nvml.look(Driver(gpu))
    unknown = [f"GPU 0 was not checked for {what}: Not Supported" for what in ("throttling", "sharing")]
    assert told(looks, looks, 0) == ([], unknown)
    assert told(looks, looks, 0) == ([], unknown)


# --- who else


@pytest.mark.processes
def test_processes_of_another_run_share_the_gpu_and_our_own_do_not(gpu: Gpu, said: Nvml) -> None:
    alone = nvml.look(Driver(gpu))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        said.processes = [process(STRANGER), process(os.getpid()), process(child.pid)]
        looks = nvml.look(Driver(gpu))
        child.communicate()
    shared = [f"GPU 0 was shared with process {STRANGER}"]
    assert told({}, alone, 0) == ([], [])
    # Who was there before or after was there in between.
    assert told(looks, alone, 0) == told(alone, looks, 0) == told(looks, looks, 0) == (shared, [])


def test_a_process_that_can_be_seen_is_named(gpu: Gpu, said: Nvml, proc: Path) -> None:
    status(proc, 4711, 1, "python")
    status(proc, os.getpid(), 1, "pytest")
    said.processes.append(process(4711))
    assert told({}, nvml.look(Driver(gpu)), 0) == (["GPU 0 was shared with process 4711 (python)"], [])


def test_the_thread_that_nvml_may_list_in_a_container_is_this_process(gpu: Gpu, said: Nvml, proc: Path) -> None:
    status(proc, 324, 1, "python", group=os.getpid())
    said.processes = [process(324), process(STRANGER)]
    assert told({}, nvml.look(Driver(gpu)), 0)[0] == [f"GPU 0 was shared with process {STRANGER}"]


@pytest.mark.parametrize("listed", [0, 2])
def test_nobody_is_accused_where_the_processes_are_numbered_as_outside_the_container(
    gpu: Gpu, said: Nvml, listed: int
) -> None:
    said.processes = [process(STRANGER + n) for n in range(listed)]
    lists = f"NVML lists {listed} processes, but not this one. In a container, use --pid=host"
    assert told({}, nvml.look(Driver(gpu)), 0) == ([], [f"GPU 0 was not checked for sharing: {lists}"])


def test_the_only_process_that_is_listed_is_this_one_whatever_its_number(gpu: Gpu, said: Nvml) -> None:
    said.processes = [process(STRANGER)]
    assert told({}, nvml.look(Driver(gpu)), 0) == ([], [])


def test_another_instance_of_a_gpu_that_is_cut_up_is_another_gpu(gpu: Gpu, said: Nvml) -> None:
    said.processes = [process(os.getpid(), 3), process(STRANGER, 3), process(STRANGER + 1, 4)]
    assert told({}, nvml.look(Driver(gpu)), 0)[0] == [f"GPU 0 was shared with process {STRANGER}"]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for /proc."""
    monkeypatch.setattr(load, "_PROC", tmp_path)
    return tmp_path


def status(proc: Path, pid: int, parent: int, name: str, group: int | None = None) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(f"Name:\t{name}\nTgid:\t{group or pid}\nPid:\t{pid}\nPPid:\t{parent}\n")


# --- how long


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x04, ""),  # as hard as its power allows
        (0x20, "SW thermal slowdown"),
        (0x48, "HW thermal slowdown, HW slowdown"),
        (0x80, "HW power brake"),
        (0x02, ""),  # clocks of applications
        (0x10, ""),  # sync boost
        (0x100, ""),  # clocks of the display
        (0x21, ""),  # it has nothing to do
    ],
)
def test_a_gpu_is_throttled_for_what_it_was_not_set_up_for(reasons: int, words: str) -> None:
    expected = [f"GPU 0 was throttled: {words}"] if words else []
    assert list(nvml.disturbances(0, Look(0), Look(1, reasons))) == expected
    assert list(nvml.disturbances(0, Look(0, reasons), Look(1))) == expected


def test_a_gpu_at_its_power_cap_is_a_remark_since_some_always_are(said: Nvml) -> None:
    capped = Look(1, 0x04)
    remark = "GPU 0 runs at its power cap: its speed depends on its temperature"
    assert told({0: Look(0)}, {0: capped}, 0) == ([], [remark])
    assert told({0: Look(0)}, {0: Look(1, 0x05)}, 0) == ([], [])


@pytest.mark.parametrize("reason", [0x04, 0x20])
def test_in_a_long_window_the_time_that_is_counted_decides_from_one_percent_on(reason: int) -> None:
    def throttled(ns: int, window_ns: int = SECOND_NS) -> bool:
        before, after = Look(5, reason, {reason: 7}, 5), Look(5 + window_ns, reason, {reason: 7 + ns}, 5 + window_ns)
        return nvml._is_held(reason, before, after)

    assert throttled(SECOND_NS // 100)
    assert not throttled(SECOND_NS // 100 - 1)
    # Too short for the counters: the reasons before and after tell.
    assert throttled(0, SECOND_NS - 1)


def test_what_is_not_counted_is_told_by_the_reasons_in_a_long_window_too() -> None:
    before, after = Look(0, 0, {0x20: 0}), Look(2 * SECOND_NS, 0xA0, {0x20: 0}, 2 * SECOND_NS)
    assert list(nvml.disturbances(0, before, after)) == ["GPU 0 was throttled: HW power brake"]
    assert list(nvml.disturbances(0, Look(0), after)) == ["GPU 0 was throttled: SW thermal slowdown, HW power brake"]


def test_counters_are_read_once_a_second_since_that_takes_longer_than_all_else(
    said: Nvml, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [5 * SECOND_NS]
    monkeypatch.setattr(nvml, "monotonic_ns", lambda: now[0])
    first = nvml.look(Driver(gpu))
    now[0] += SECOND_NS - 1
    said.counted_ns = {0: 3, 1: 4}
    soon = nvml.look(Driver(gpu))
    assert (soon[0].counted_ns, soon[0].counted_at_ns, soon[0].at_ns) == (first[0].counted_ns, 5 * SECOND_NS, now[0])
    now[0] += 1
    later = nvml.look(Driver(gpu))
    assert (later[0].counted_ns, later[0].counted_at_ns) == ({0x04: 3, 0x20: 4}, 6 * SECOND_NS)
    assert said.asked.count("nvmlDeviceGetViolationStatus") == 2 * 2
