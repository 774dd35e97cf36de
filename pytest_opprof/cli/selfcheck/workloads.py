"""Known work for `selfcheck`: so many products of matrices, casts and copies, in each framework of a device.

The frameworks are imported where their work is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...errors import BackendError
from ...frameworks.ascend.live import backend as ascend
from ...frameworks.ascend.live.libraries import is_preloaded
from ...frameworks.live.contract import Backend
from ...frameworks.live.registry import load
from ...frameworks.nvidia.live import driver

_INSTALL_CUPY = 'pip install "pytest-opprof[cupy]" (CUDA 13) or "pytest-opprof[cupy-cuda12]" (CUDA 12)'


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the arrays are."""

    matrix: int
    """Rows and columns: a product should take much longer than a reading of the clock."""
    data: int
    """Elements of the array that is cast and copied."""
    small: int
    """Elements of the array that is added, to measure the price of recording an op."""


ON_CPU = Sizes(matrix=384, data=2**16, small=8)
ON_GPU = Sizes(matrix=4096, data=2**20, small=2**16)
"""A product of 4096 takes 2 ms on an H100, 17 ms on a T4: the microseconds between two events of CUDA are no 1 %."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that is not ours."""

    name: str
    tolerance: float
    """How far its time of some products may be from ours."""
    ns: Callable[[Callable[[], None]], int]
    """Runs a function and returns its time."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one framework: its arrays, casts, copies and clock."""

    framework: str
    backend: Backend
    array: Callable[[tuple[int, ...]], Any]
    """Makes one of ones, float32, whose ops are recorded."""
    plain: Callable[[tuple[int, ...]], Any]
    """Makes one as a program has it that is not measured."""
    cast: Callable[[Any], object]
    copy: Callable[[Any], object]
    copy_op: str
    """The op that `copy` is."""
    wait: Callable[[], object]
    """Returns when the device has done its work."""
    clock: Clock
    sizes: Sizes
    on_host: bool = True
    """Whether its times depend on other work of the host."""
    beside: tuple[str, ...] = ()
    """Ops that the framework may add of its own."""


def _by_perf_counter(body: Callable[[], None]) -> int:
    begin = perf_counter_ns()
    body()
    return perf_counter_ns() - begin


PERF_COUNTER = Clock("perf_counter", 0.10, _by_perf_counter)
"""It includes the call around an op, some microseconds of a product that takes a millisecond."""


def _nothing() -> None:
    pass


def of_numpy() -> Work:
    """Return the work of NumPy."""
    backend: Any = load("numpy")

    def plain(shape: tuple[int, ...]) -> Any:
        return np.ones(shape, np.float32)

    return Work(
        framework="numpy",
        backend=backend,
        array=plain,
        plain=plain,
        cast=lambda array: array.astype(np.float64),
        copy=lambda array: array.copy(),
        copy_op="Copy",
        wait=_nothing,
        clock=PERF_COUNTER,
        sizes=ON_CPU,
    )


def of_torch(device: str) -> Work:
    """Return the work of PyTorch on the CPU or, with *device* ``cuda``, on a GPU."""
    torch = _imported("torch")
    on_host = device == "cpu"

    def plain(shape: tuple[int, ...]) -> Any:
        return torch.ones(shape, dtype=torch.float32, device=device)

    return Work(
        framework="torch",
        backend=load("torch"),
        array=plain,
        plain=plain,
        cast=lambda tensor: tensor.to(torch.float64),
        copy=lambda tensor: tensor.clone() if on_host else tensor.cpu(),
        copy_op="Copy" if on_host else "MemcpyDtoH",
        wait=_nothing if on_host else torch.cuda.synchronize,
        clock=PERF_COUNTER if on_host else _events(lambda: torch.cuda.Event(enable_timing=True), _torch_elapsed),
        sizes=ON_CPU if on_host else ON_GPU,
        on_host=on_host,
        beside=() if on_host else BESIDE_ON_CUDA,
    )


def of_cupy() -> Work:
    """Return the work of CuPy."""
    cupy = _imported("cupy")

    def plain(shape: tuple[int, ...]) -> Any:
        return cupy.ones(shape, cupy.float32)

    return Work(
        framework="cupy",
        backend=load("cuda"),
        array=plain,
        plain=plain,
        cast=lambda array: array.astype(cupy.float64),
        copy=lambda array: array.get(),
        copy_op="MemcpyDtoH",
        wait=cupy.cuda.runtime.deviceSynchronize,
        clock=_events(cupy.cuda.Event, cupy.cuda.get_elapsed_time),
        sizes=ON_GPU,
        on_host=False,
        beside=BESIDE_ON_CUDA,
    )


def of_torch_npu() -> Work:
    """Return the work of PyTorch on an NPU by torch_npu. No NPU has seen it yet."""
    _imported("torch_npu")
    torch = _imported("torch")
    work = _of_npu(
        "torch_npu",
        lambda shape: torch.ones(shape, dtype=torch.float32, device="npu"),
        lambda tensor: tensor.to(torch.float16),
        torch.npu,
    )
    return replace(work, copy=lambda tensor: tensor.cpu(), copy_op="MemcpyDtoH") if is_preloaded(os.environ) else work


def of_mindspore_npu() -> Work:
    """Return the work of MindSpore on an NPU, in PyNative mode. No NPU has seen it yet."""
    mindspore = _imported("mindspore")
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    return _of_npu(
        "mindspore",
        lambda shape: mindspore.ops.ones(shape, mindspore.float32),
        lambda tensor: tensor.astype(mindspore.float16),
        mindspore.runtime,
    )


def _of_npu(
    framework: str, plain: Callable[[tuple[int, ...]], Any], cast: Callable[[Any], object], runtime: Any
) -> Work:
    """Return the work of a framework on an NPU; *runtime* is its module with events and `synchronize`."""
    return Work(
        framework=framework,
        backend=load("ascend"),
        array=plain,
        plain=plain,
        cast=cast,
        # Copies are recorded only where libmspti is preloaded: an op of one kernel stands in their place.
        copy=lambda tensor: tensor.tanh(),
        copy_op="Tanh",
        wait=runtime.synchronize,
        clock=_events(lambda: runtime.Event(enable_timing=True), _torch_elapsed, *_NPU_CLOCK),
        sizes=ON_GPU,
        on_host=False,
        beside=BESIDE_ON_NPU,
    )


_NPU_CLOCK = "the NPU's events", 0.02
BESIDE_ON_NPU = ("TransData", "Memset")
"""A product may change the format of its operands, and set memory to zero that it adds to."""
BESIDE_ON_CUDA = ("Synchronize", "Memset", "splitKreduce_kernel")
"""A copy to the host waits for it; cuBLAS may split a product, and add its parts up in a kernel of its own."""


def _torch_elapsed(begin: Any, end: Any) -> float:
    return float(begin.elapsed_time(end))


def _events(
    event: Callable[[], Any],
    elapsed_ms: Callable[[Any, Any], float],
    name: str = "CUDA's events",
    tolerance: float = 0.01,
) -> Clock:
    """Return the device's clock: the time between two events that it records."""

    def ns(body: Callable[[], None]) -> int:
        begin, end = event(), event()
        begin.record()
        body()
        end.record()
        end.synchronize()
        return round(elapsed_ms(begin, end) * 1e6)

    return Clock(name, tolerance, ns)


def _on_cpu() -> Iterator[Work]:
    yield of_numpy()
    if find_spec("torch"):
        yield of_torch("cpu")


def _on_cuda() -> Iterator[Work]:
    if problem := driver.problem():
        raise BackendError(problem)
    if has_cupy := find_spec("cupy") is not None:
        yield _checked(of_cupy())
    # Last: where torch is imported its profiler has CUPTI, and our own records nothing any more.
    if find_spec("torch") and _imported("torch").version.cuda:
        yield _checked(of_torch("cuda"))
    elif not has_cupy:
        raise BackendError(f"neither CuPy nor a PyTorch with CUDA is installed: {_INSTALL_CUPY}")


def _on_npu() -> Iterator[Work]:
    if problem := ascend.problem():
        raise BackendError(problem)
    if has_torch := find_spec("torch_npu") is not None:
        yield _checked(of_torch_npu())
    if find_spec("mindspore") and _imported("mindspore").get_context("device_target") == "Ascend":
        yield _checked(of_mindspore_npu())
    elif not has_torch:
        raise BackendError("neither torch_npu nor a MindSpore for Ascend is installed; see https://www.hiascend.com")


def _checked(work: Work) -> Work:
    if problem := work.backend.unavailable():
        raise BackendError(problem)
    return work


def _imported(framework: str) -> Any:
    try:
        return import_module(framework)
    except Exception as error:  # a broken installation may fail in any way
        raise BackendError(f"{framework} is installed and cannot be imported: {error}") from error


DEVICES = {"cpu": _on_cpu, "cuda": _on_cuda, "npu": _on_npu}


def works(device: str) -> Iterator[Work]:
    """Yield the work to do on *device*. Raises BackendError that names the missing part where some cannot be done."""
    return DEVICES[device]()
