"""Classify calls of CUDA and HIP by name: launches, copies, allocations; and the ops of copies and sets of memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

_STARTS_DEVICE_WORK = re.compile(r"(?:cu(?:da)?|hip(?:Ext)?(?:Module)?)(?:Launch|Memcpy|Memset|GraphLaunch)\w*")
_ALLOCATES = re.compile(r"cudaMalloc(?!Host)\w*|cuMemAlloc(?!Host)\w*|cuMemCreate|cu(?:Mipmapped)?Array(?:3D)?Create")
_DIRECTIONS = (
    (re.compile(r"HtoD|host.to.device", re.IGNORECASE), "MemcpyHtoD"),
    (re.compile(r"DtoH|device.to.host", re.IGNORECASE), "MemcpyDtoH"),
    # A copy to another device is one on the device.
    (re.compile(r"DtoD|PtoP|device.to.device|peer", re.IGNORECASE), "MemcpyDtoD"),
    (re.compile(r"HtoH|host.to.host", re.IGNORECASE), "MemcpyHtoH"),
)
_API_VERSION = re.compile(r"(?:_v\d+)?(?:_pt[ds][sz])?(?:_v\d+)?$")
_LAUNCH = re.compile(r"(?:cu(?:da)?|hip(?:Ext)?(?:Module)?)(?:Launch(?!HostFunc)|GraphLaunch)\w*")


def without_api_version(raw: str) -> str:
    """Return the name of a call of CUDA without its version and stream mode.

    >>> without_api_version("cuMemcpyHtoDAsync_v2_ptsz"), without_api_version("cudaLaunchKernel_ptsz_v7000")
    ('cuMemcpyHtoDAsync', 'cudaLaunchKernel')
    """
    return _API_VERSION.sub("", raw)


def starts_device_work(raw: str) -> bool:
    """Return True if *raw* is a call of CUDA that launches, copies or sets; the work that it starts is the op.

    >>> starts_device_work("cudaMemcpyAsync"), starts_device_work("cudaStreamSynchronize")
    (True, False)
    """
    return _STARTS_DEVICE_WORK.fullmatch(raw) is not None


def is_launch(raw: str) -> bool:
    """Return True if *raw* is a call of CUDA that gives the device kernels to run: one, or a graph of them.

    >>> is_launch("cuLaunchKernelEx"), is_launch("cudaGraphLaunch"), is_launch("cudaLaunchHostFunc")
    (True, True, False)
    """
    return _LAUNCH.fullmatch(raw) is not None


def is_kernel_launch(raw: str) -> bool:
    """Return True if *raw* is a call of CUDA that gives the device one kernel to run.

    >>> is_kernel_launch("cuLaunchKernelEx"), is_kernel_launch("cudaGraphLaunch")
    (True, False)
    """
    return is_launch(raw) and not is_graph_launch(raw)


def is_graph_launch(raw: str) -> bool:
    """Return True if *raw* is a call of CUDA that gives the device a graph to run.

    >>> is_graph_launch("cudaGraphLaunch"), is_graph_launch("cuLaunchKernel")
    (True, False)
    """
    return "GraphLaunch" in raw and is_launch(raw)


def moves(raw: str) -> bool:
    """Return True if *raw* is a call of CUDA that copies or sets memory.

    >>> moves("cudaMemcpyPeerAsync"), moves("cuMemsetD8Async"), moves("cudaLaunchKernel")
    (True, True, False)
    """
    return starts_device_work(raw) and not _LAUNCH.fullmatch(raw) and "LaunchHostFunc" not in raw


def allocates(raw: str) -> bool:
    """Return True if *raw* is a call of CUDA that allocates memory of the device.

    >>> allocates("cudaMallocAsync"), allocates("cuMemAlloc"), allocates("cudaMallocHost")
    (True, True, False)
    """
    return _ALLOCATES.fullmatch(raw) is not None


def copied(activity: str) -> str:
    """Return the op of a copy or a set of memory, by its name in Kineto, Nsight or rocprof.

    >>> copied("Memcpy PtoP (Device -> Device)"), copied("[CUDA memcpy Host-to-Device]"), copied("[CUDA memset]")
    ('MemcpyDtoD', 'MemcpyHtoD', 'Memset')
    """
    if "memset" in activity.lower():
        return "Memset"
    return next((op for pattern, op in _DIRECTIONS if pattern.search(activity)), "Memcpy")


# CUPTI's numbers: to and from arrays (3 to 7) and unified memory (11 to 13) are the same directions.
CUDA_COPIES: Mapping[int, str] = {
    **dict.fromkeys([1, 3, 11], "MemcpyHtoD"),
    **dict.fromkeys([2, 4, 12], "MemcpyDtoH"),
    **dict.fromkeys([5, 6, 7, 8, 10, 13], "MemcpyDtoD"),
    9: "MemcpyHtoH",
}
