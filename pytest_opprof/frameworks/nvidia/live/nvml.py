"""Detect a throttled or shared GPU by NVML, if its package nvidia-ml-py is installed.

NVML is asked before a window and after it, never inside. In between, only the driver's counters of throttled time show
anything; a process that came and went is not seen. Nothing here raises: if NVML does not answer, that is a remark. A
look takes 0.3 ms on an H200, and reading the counters 1 ms more, so one reading holds for a second.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from time import monotonic_ns
from typing import Any

from ....errors import BackendError
from ....machine.load import is_of_this_run, named
from ....profile.events.event_log import EventLog
from .driver import Driver

_IDLE, _SW_POWER_CAP, _SW_THERMAL = 0x01, 0x04, 0x20
# Reasons for low clocks, nvmlClocksEventReason* of nvml.h. Other reasons do not disturb a measurement: the setup of the
# GPU (clocks of applications and of the display, sync boost), idleness, or the power cap, at which some GPUs always
# are.
_THROTTLED = {
    _SW_THERMAL: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake",
    0x08: "HW slowdown",
}
# The counter of the time of a reason, NVML_PERF_POLICY_* of nvml.h. Other counters are not used: their numbers are 251
# to 253 in some versions of nvml.h and 269 to 271 in others.
_COUNTERS = {_SW_POWER_CAP: 0, _SW_THERMAL: 1}
# Counters are used only in longer windows, since they reportedly move in steps of 100 ms.
_COUNTED_NS = 1_000_000_000
# The share of the window from which on clocks count as low: any GPU under load is at its limit for moments.
# https://github.com/NVIDIA/DCGM/issues/285
_SHARE = 0.01
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
# The newer name of each function first: drivers before 535, or 510, have only the older one.
_PROCESSES = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")


@dataclass(frozen=True, slots=True)
class Look:
    """NVML's answers about a GPU at one time."""

    at_ns: int
    reasons: int = 0
    """The reasons for low clocks, as bits."""
    counted_ns: Mapping[int, int] = field(default_factory=dict)
    """The total time of low clocks, by reason; only reasons that the GPU counts."""
    counted_at_ns: int = 0
    """When the counters were read: up to `_COUNTED_NS` before the rest."""
    others: tuple[str, ...] = ()
    """Processes of other runs that compute on it."""
    unknown: tuple[str, ...] = ()
    """The questions that NVML did not answer."""


# The last look at each GPU, by its number in CUDA.
_last: dict[int, Look] = {}


def unwatched() -> str:
    """Return why NVML is not asked, and the remedy; empty if it is."""
    return _opened()[1]


@cache
def _opened() -> tuple[Any, str]:
    """Return pynvml with NVML opened, or why there is none."""
    what = "GPU throttling and sharing are not checked"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a package of the same name warns that it is superseded
            import pynvml

        pynvml.nvmlInit()
    except ImportError:
        return None, f'{what}: nvidia-ml-py is not installed. Run pip install "pytest-opprof[cuda]"'
    except Exception as error:  # another package of that name may fail in any way
        return None, f"{what}: NVML cannot be opened ({error}). Check nvidia-smi"
    return pynvml, ""


def look(driver: Driver | None) -> dict[int, Look]:
    """Return NVML's answers about each GPU that this process has initialised, by its number in CUDA.

    Counters that the look before, of whichever backend, read less than a second ago are not read again.

    NVML has other numbers, as it ignores CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. Both know the PCI address.
    """
    try:
        buses = {device: driver.bus(device) for device in driver.active()} if driver else {}
    except BackendError:
        return {}  # the wait for the GPU reports the error
    nvml, missing = _opened() if buses else (None, "")
    if missing:
        return {}
    found = {device: _look(nvml, device, bus, _last.get(device)) for device, bus in buses.items()}
    _last.update(found)
    return found


def _look(nvml: Any, device: int, bus: str, earlier: Look | None) -> Look:
    unknown, reasons, others = list[str](), 0, tuple[str, ...]()
    try:
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bus)
    except Exception as error:
        why = f"GPU {device} was not checked for throttling and sharing: NVML does not know {bus} ({error})"
        return Look(monotonic_ns(), unknown=(why,))
    try:
        reasons = _answer(nvml, _REASONS, handle)
    except Exception as error:
        unknown.append(f"GPU {device} was not checked for throttling: {error}")
    try:
        others = _others(_answer(nvml, _PROCESSES, handle))
    except Exception as error:
        unknown.append(f"GPU {device} was not checked for sharing: {error}")
    now = monotonic_ns()
    if earlier is None or now - earlier.counted_at_ns >= _COUNTED_NS:
        return Look(now, reasons, _counted_ns(nvml, handle), now, others, tuple(unknown))
    return Look(now, reasons, earlier.counted_ns, earlier.counted_at_ns, others, tuple(unknown))


def _answer(nvml: Any, functions: Sequence[str], handle: Any) -> Any:
    """Return the answer of the first function that does not raise. Raises the first error if all do."""
    errors: list[Exception] = []
    for function in functions:
        try:
            return getattr(nvml, function)(handle)
        except Exception as error:
            errors.append(error)
    raise errors[0]


def _counted_ns(nvml: Any, handle: Any) -> dict[int, int]:
    found = {}
    for reason, counter in _COUNTERS.items():
        with suppress(Exception):  # not every GPU counts, and NVML is to lose the function with CUDA 14
            found[reason] = nvml.nvmlDeviceGetViolationStatus(handle, counter).violationTime
    return found


def _others(listed: Sequence[Any]) -> tuple[str, ...]:
    """Return the *listed* processes of other runs. Raises LookupError if that cannot be told.

    In a container older drivers list the host's process numbers, or none; newer ones list the container's, or sometimes
    the number of a CUDA thread. This process computes on the GPU, so it is listed. If its number is missing, it cannot
    be told from the others, unless it is the only one listed.
    """
    ours = [process for process in listed if is_of_this_run(process.pid)]
    if not ours and len(listed) != 1:
        raise LookupError(f"NVML lists {len(listed)} processes, but not this one. In a container, use --pid=host")
    # On a GPU with several instances (MIG) each instance has its own cores and memory.
    instances = {getattr(process, "gpuInstanceId", None) for process in ours}
    others = [p for p in listed if p not in ours and getattr(p, "gpuInstanceId", None) in instances]
    return tuple(dict.fromkeys(named(process.pid) for process in others))


def tell(log: EventLog, before: Mapping[int, Look], after: Mapping[int, Look], devices: Sequence[int]) -> None:
    """Add remarks to *log* about disturbances of the *devices*, which worked between two looks."""
    if missing := unwatched():
        log.remark(missing)
        return
    for device in devices:
        if device not in after:
            why = f"GPU {device} was not checked for throttling and sharing: its primary context is not in use"
            log.remark(why)
            continue
        log.disturbed += disturbances(device, before.get(device), after[device])
        if _is_held(_SW_POWER_CAP, before.get(device), after[device]):
            log.remark(f"GPU {device} runs at its power cap: its speed depends on its temperature")
        for why in after[device].unknown:
            log.remark(why)


def disturbances(device: int, before: Look | None, after: Look) -> Iterator[str]:
    """Yield the disturbances of a GPU between two looks; only the later one exists if it was initialised in between."""
    if reasons := [name for reason, name in _THROTTLED.items() if _is_held(reason, before, after)]:
        yield f"GPU {device} was throttled: {', '.join(reasons)}"
    if others := dict.fromkeys([*(before.others if before else ()), *after.others]):
        yield f"GPU {device} was shared with {', '.join(others)}"


def _is_held(reason: int, before: Look | None, after: Look) -> bool:
    """Return True if clocks were low for a *reason*."""
    if (share := _share(reason, before, after)) is not None:
        return share >= _SHARE
    # The reasons of an idle GPU do not count.
    return any(look.reasons & reason for look in (before, after) if look and not look.reasons & _IDLE)


def _share(reason: int, before: Look | None, after: Look) -> float | None:
    """Return the share of low clocks in the time between two looks; None if it was not counted."""
    if before is None or after.counted_at_ns - before.counted_at_ns < _COUNTED_NS:
        return None
    if reason not in before.counted_ns or reason not in after.counted_ns:
        return None
    return (after.counted_ns[reason] - before.counted_ns[reason]) / (after.counted_at_ns - before.counted_at_ns)
