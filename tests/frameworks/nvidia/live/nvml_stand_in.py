"""A stand-in for pynvml, the module of nvidia-ml-py. It is no GPU: it says what a test tells it to.

`Nvml` has the functions that are called of it, with the errors of the real one: `NvmlError` prints as NVML's do.
"""

# ruff: noqa: N802, N803  # functions have the names that NVIDIA gave them

from __future__ import annotations

import os
from types import SimpleNamespace


class NvmlError(Exception):
    """Stands for ``pynvml.NVMLError``."""


class Nvml:
    """One GPU; a test sets what it says."""

    def __init__(self, bus: str = "0000:3B:00.0") -> None:
        self.bus = bus
        self.reasons, self.counted_ns = 0, {0: 0, 1: 0}
        self.processes = [process(os.getpid())]
        self.fails: dict[str, str] = {}
        """Error by function."""
        self.asked: list[str] = []

    def _ask(self, function: str, handle: object) -> None:
        assert handle == f"handle of {self.bus}"
        self.asked.append(function)
        if function in self.fails:
            raise NvmlError(self.fails[function])

    def nvmlDeviceGetHandleByPciBusId(self, pciBusId: str) -> str:
        if pciBusId != self.bus:
            raise NvmlError("Not Found")
        return f"handle of {pciBusId}"

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:
        self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:
        self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return self.reasons

    def nvmlDeviceGetViolationStatus(self, handle: object, perfPolicyType: int) -> object:
        self._ask("nvmlDeviceGetViolationStatus", handle)
        return SimpleNamespace(referenceTime=0, violationTime=self.counted_ns[perfPolicyType])

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> list[SimpleNamespace]:
        self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        return self.processes


def process(pid: int, instance: int = 0xFFFFFFFF) -> SimpleNamespace:
    """Return a process as NVML lists it; *instance* is that of a GPU that is cut up."""
    return SimpleNamespace(pid=pid, usedGpuMemory=1, gpuInstanceId=instance, computeInstanceId=instance)
