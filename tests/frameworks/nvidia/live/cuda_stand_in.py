"""A stand-in for libcupti and libcuda, in Python. It is no GPU: it writes down what it is told that one did.

`Gpu` has the functions of both libraries that the cuda backend calls, with their arguments as ctypes passes them, and
`launch`, `copy`, `set_memory`, `call`: what a program does. Records are those of CUPTI 13.0. `Pool` and
`MemoryHook` are shaped like those of CuPy 13 and 14.
"""

# ruff: noqa: N802  # functions have the names that NVIDIA gave them

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar

from pytest_opprof.frameworks.nvidia.live.cupti import Cupti
from pytest_opprof.frameworks.nvidia.live.cupti_records import (
    DRIVER,
    EXTERNAL,
    KERNEL,
    MEMCPY,
    MEMSET,
    OVERHEAD,
    PEER_COPY,
    RUNTIME,
)
from pytest_opprof.frameworks.nvidia.live.driver import Driver

NAME = "Stand-in GPU"
SIZES = {
    KERNEL: 216,
    MEMCPY: 96,
    PEER_COPY: 96,
    MEMSET: 88,
    RUNTIME: 40,
    DRIVER: 40,
    OVERHEAD: 56,
    EXTERNAL: 24,
    11: 32,
}
DOMAIN_OF = {RUNTIME: 2, DRIVER: 1}
THREAD, STREAM = 7, 13
Shape = tuple[int, ...]
GRID, BLOCK = (2, 3, 4), (64, 2, 1)


def call_record(
    kind: int, callback: int, start: int, end: int, correlation: int, result: int = 0, thread: int = THREAD
) -> bytes:
    return struct.pack("=iIQQIIII", kind, callback, start, end, 1, thread, correlation, result)


def kernel_record(
    start: int,
    end: int,
    correlation: int,
    name: int,
    device: int = 0,
    size: int = 216,
    stream: int = STREAM,
    grid: Shape = GRID,
    block: Shape = BLOCK,
    graph_node: int = 0,
    graph: int = 0,
) -> bytes:
    record = bytearray(size)
    struct.pack_into("=i", record, 0, KERNEL)
    struct.pack_into("=QQ", record, 16, start, end)
    struct.pack_into("=III", record, 40, device, 1, stream)
    struct.pack_into("=6i", record, 52, *grid, *block)
    struct.pack_into("=I", record, 92, correlation)
    struct.pack_into("=Q", record, 104, name)
    struct.pack_into("=Q4xI", record, 144, graph_node, graph)
    return bytes(record)


def copy_record(
    copy_kind: int,
    nbytes: int,
    start: int,
    end: int,
    correlation: int,
    kind: int = MEMCPY,
    stream: int = STREAM,
    graph_node: int = 0,
    graph: int = 0,
) -> bytes:
    record = bytearray(96)
    struct.pack_into("=QI", record, 72 if kind == PEER_COPY else 64, graph_node, graph)
    struct.pack_into("=iB", record, 0, kind, copy_kind)
    struct.pack_into("=QQQ", record, 8, nbytes, start, end)
    struct.pack_into("=I", record, 40, stream)
    struct.pack_into("=I", record, 60 if kind == PEER_COPY else 44, correlation)
    return bytes(record)


def set_record(
    nbytes: int, start: int, end: int, correlation: int, stream: int = STREAM, graph_node: int = 0, graph: int = 0
) -> bytes:
    record = bytearray(88)
    struct.pack_into("=QI", record, 64, graph_node, graph)
    struct.pack_into("=i", record, 0, MEMSET)
    struct.pack_into("=QQQ", record, 8, nbytes, start, end)
    struct.pack_into("=II", record, 40, stream, correlation)
    return bytes(record)


def overhead_record(what: int, start: int, end: int) -> bytes:
    return struct.pack("=iIi12xQQ16x", OVERHEAD, what, 0, start, end)


def external_record(pushed: int, correlation: int, kind: int = 5) -> bytes:
    return struct.pack("=iIQII", EXTERNAL, kind, pushed, correlation, 0)


class Gpu:
    """Both libraries and the program; a test sets the attributes to have bad weather."""

    def __init__(self) -> None:
        self.version, self.driver_version = 130001, 13000
        self.init, self.devices, self.has_context = 0, 1, True
        self.is_initialised = True
        """Whether the program initialised CUDA."""
        self.clock_ns: Callable[[], int] = time.time_ns
        self.fails: dict[str, int] = {}
        """Status by function."""
        self.hangs: dict[str, threading.Event] = {}
        self.dropped = 0
        self.crashed = False
        """Whether it was refused a buffer and did not bear that: the real one ends the process."""
        self.loses: set[str] = set()
        """Kernels that get no record."""
        self.untimed: set[str] = set()
        """Kernels whose record has no times."""
        self.thread = THREAD
        """The number of the thread that the program is in."""
        self.misnumbers: dict[int, int] = {}
        """The number that the work of a graph gets, by that of its launch, as before CUPTI 13.1 Update 1."""
        self.untimed_calls = False
        self.quiet: list[int] = []
        """The numbers of the calls of the runtime that are not recorded."""
        self.registered: list[Any] = []
        self.enabled: set[int] = set()
        self.functions = ["(none)"]
        self.log: list[str] = []
        self._names: dict[str, Any] = {}
        self._correlation = 0
        self._pushed = threading.local()
        self._buffer: tuple[int, int, int] | None = None

    # What a program does.

    @property
    def correlation(self) -> int:
        """The number of the latest call."""
        return self._correlation

    @property
    def pushed(self) -> dict[int, list[int]]:
        """The numbers that this thread has pushed, by kind."""
        found: dict[int, list[int]] = self._pushed.__dict__.setdefault("numbers", {})
        return found

    def launch(
        self,
        name: str,
        duration_ns: int = 1000,
        how: str = "cudaLaunchKernel_v7000",
        late_ns: int = 0,
        kernels: int = 1,
        **where: Any,
    ) -> None:
        """Launch a kernel, or a graph of *kernels*, each a node of its own.

        *where*: device, stream, grid, block and graph, as `kernel_record` takes them.
        """
        if "GraphLaunch" in how:
            where = {"graph": 3, **where}
        with self._asked(RUNTIME if how.startswith("cuda") else DRIVER, how) as (correlation, now):
            start = 0 if name in self.untimed else now + late_ns
            end = 0 if name in self.untimed else start + duration_ns
            for number in range(0 if name in self.loses else kernels):
                node = where["graph"] << 32 | number if "graph" in where else 0
                number_of = self.misnumbers.get(correlation, correlation) if node else correlation
                self._put(kernel_record(start, end, number_of, self._text(name), graph_node=node, **where))

    def copy(
        self, copy_kind: int, nbytes: int, duration_ns: int = 500, kind: int = MEMCPY, stream: int = STREAM
    ) -> None:
        with self._asked(RUNTIME, "cudaMemcpyAsync_v3020") as (correlation, now):
            self._put(copy_record(copy_kind, nbytes, now, now + duration_ns, correlation, kind, stream))

    def set_memory(self, nbytes: int, duration_ns: int = 300) -> None:
        with self._asked(RUNTIME, "cudaMemsetAsync_v3020") as (correlation, now):
            self._put(set_record(nbytes, now, now + duration_ns, correlation))

    def unlinked_kernel(self, name: str, duration_ns: int = 1000, correlation: int = 2**31, **where: Any) -> None:
        now = 0 if name in self.untimed else self.clock_ns()
        self._put(kernel_record(now, now and now + duration_ns, correlation, self._text(name), **where))

    def load_inside(self, what: int) -> None:
        """Load code inside a call, as a launch does with a kernel that was not launched before."""
        now = self.clock_ns()
        self._put(overhead_record(what, now, now + 1))

    def _text(self, name: str) -> int:
        """Return the address of a name, which stays where it is."""
        return ctypes.addressof(self._names.setdefault(name, ctypes.create_string_buffer(name.encode())))

    def call(self, function: str, result: int = 0) -> None:
        with self._asked(RUNTIME if function.startswith("cuda") else DRIVER, function, result):
            pass

    @contextmanager
    def inside(self, function: str) -> Iterator[None]:
        """Let the runtime call the driver for what happens inside."""
        with self._asked(RUNTIME, function):
            yield

    @contextmanager
    def _asked(self, kind: int, function: str, result: int = 0) -> Iterator[tuple[int, int]]:
        self._correlation += 1
        correlation, start, thread = self._correlation, self.clock_ns(), self.thread
        if function not in self.functions:
            self.functions.append(function)
        pushed = [(external_kind, numbers[-1]) for external_kind, numbers in self.pushed.items() if numbers]
        yield correlation, self.clock_ns()
        for external_kind, number in pushed:
            self._put(external_record(number, correlation, external_kind))
        callback = self.functions.index(function)
        start, end = (0, 0) if self.untimed_calls else (start, self.clock_ns() + 1)
        self._put(call_record(kind, callback, start, end, correlation, result, thread))

    def _put(self, record: bytes) -> None:
        kind, size = struct.unpack_from("=i", record)[0], len(record)
        if kind not in self.enabled:
            return
        if self._buffer and self._buffer[1] + size > self._buffer[2]:
            self._deliver()
        if self._buffer is None:
            address, capacity, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
            self.registered[0](ctypes.pointer(address), ctypes.pointer(capacity), ctypes.pointer(most))
            if not address.value:
                self.dropped += 1
                self.crashed = self.version < 27
                return
            self._buffer = (address.value, 0, capacity.value)
        address_, used, capacity_ = self._buffer
        ctypes.memmove(address_ + used, record, size)
        self._buffer = (address_, used + size, capacity_)

    def _deliver(self) -> None:
        if self._buffer:
            address, used, capacity = self._buffer
            self._buffer = None
            self.registered[1](None, 0, address, capacity, used)

    # libcupti.

    def _status(self, function: str) -> int:
        self.log.append(function)
        if function in self.hangs:
            self.hangs[function].wait()
        return self.fails.get(function, 0)

    def cuptiGetVersion(self, version: Any) -> int:
        version._obj.value = self.version
        return self._status("cuptiGetVersion")

    def cuptiGetTimestamp(self, now: Any) -> int:
        now._obj.value = self.clock_ns()
        return self.fails.get("cuptiGetTimestamp", 0)

    def cuptiGetResultString(self, status: int, text: Any) -> int:
        text._obj.value = b"STAND_IN_ERROR"
        return 0

    def cuptiGetCallbackName(self, domain: int, callback: int, text: Any) -> int:
        text._obj.value = self.functions[callback].encode()
        return 0

    def cuptiActivityRegisterCallbacks(self, requested: Any, completed: Any) -> int:
        self.registered = [requested, completed]
        return self._status("cuptiActivityRegisterCallbacks")

    def cuptiActivityEnable(self, kind: int) -> int:
        if status := self._status("cuptiActivityEnable"):
            return status
        self.enabled.add(kind)
        return 0

    def cuptiActivityEnableRuntimeApi(self, callback: int, is_on: int) -> int:
        if RUNTIME in self.enabled and not is_on:
            self.quiet.append(callback)
        return self._status("cuptiActivityEnableRuntimeApi")

    def cuptiActivityDisable(self, kind: int) -> int:
        self.enabled.discard(kind)
        return self._status("cuptiActivityDisable")

    def cuptiActivityFlushAll(self, flag: int) -> int:
        # Delivered by another thread while the caller waits, as CUPTI does.
        thread = threading.Thread(target=self._deliver)
        thread.start()
        thread.join()
        return self._status("cuptiActivityFlushAll")

    def cuptiActivityGetNumDroppedRecords(self, context: None, stream: int, number: Any) -> int:
        number._obj.value, self.dropped = self.dropped, 0
        return 0

    def cuptiActivityPushExternalCorrelationId(self, kind: int, number: Any) -> int:
        if status := self._status("cuptiActivityPushExternalCorrelationId"):
            return status
        self.pushed.setdefault(kind, []).append(number.value)
        return 0

    def cuptiActivityPopExternalCorrelationId(self, kind: int, number: None) -> int:
        if status := self._status("cuptiActivityPopExternalCorrelationId"):
            return status
        if not self.pushed.get(kind):
            return 26  # CUPTI_ERROR_QUEUE_EMPTY
        self.pushed[kind].pop()
        return 0

    def cuptiActivityGetNextRecord(self, buffer: Any, used: Any, record: Any) -> int:
        at = record._obj.value
        if at is None:
            at = buffer.value
        else:
            at += SIZES.get(ctypes.c_int.from_address(at).value, 1 << 20)
        if at >= buffer.value + used.value:
            return 12
        record._obj.value = at
        return 0

    # libcuda.

    def cuInit(self, flags: int) -> int:
        self.is_initialised = self.init == 0
        return self.init

    def cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = b"STAND_IN_CUDA_ERROR"
        return 0

    def cuDriverGetVersion(self, number: Any) -> int:
        number._obj.value = self.driver_version
        return 0

    def cuDeviceGetCount(self, number: Any) -> int:
        number._obj.value = self.devices
        return 0 if self.is_initialised else 3

    def cuDeviceGetName(self, text: Any, size: int, device: int) -> int:
        text.value = f"{NAME} {device}".encode()
        return 0

    def cuDeviceGetPCIBusId(self, text: Any, size: int, device: int) -> int:
        text.value = f"0000:{0x3B + device:02X}:00.0".encode()
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = None
        return 0

    def cuDevicePrimaryCtxGetState(self, device: int, flags: Any, active: Any) -> int:
        active._obj.value = self.has_context
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        context._obj.value = 100 + device
        self.log.append("retain")
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> int:
        self.log.append("release")
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuCtxSynchronize(self) -> int:
        self.call("cuCtxSynchronize")
        return self._status("cuCtxSynchronize")

    def libraries(self) -> tuple[Driver, Cupti]:
        return Driver(self), Cupti(self, "libcupti.stand-in")


class MemoryHook:
    """Shaped like ``cupy.cuda.MemoryHook``: registered by ``with``, its methods get keyword arguments only."""

    name = "MemoryHook"
    registered: ClassVar[dict[str, MemoryHook]] = {}

    def __enter__(self) -> object:
        if self.name in self.registered:
            raise KeyError(f"memory hook {self.name} already exists")
        self.registered[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        del self.registered[self.name]

    def alloc_postprocess(self, **kwargs: int) -> None: ...
    def malloc_postprocess(self, **kwargs: int) -> None: ...
    def free_postprocess(self, **kwargs: int) -> None: ...


class Pool:
    """A memory pool that keeps what is given back and asks the stand-in for more; blocks of 512 bytes, as CuPy's."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._free: list[int] = []
        self._used: dict[int, int] = {}
        self._numbers = count(1)

    def malloc(self, size: int) -> int:
        mem_size = -(-size // 512) * 512
        if mem_size and mem_size not in self._free:
            self._gpu.call("cudaMalloc_v3020")
            self._free.append(mem_size)
            self._tell("alloc_postprocess", mem_size=mem_size, mem_ptr=4096)
        if mem_size:
            self._free.remove(mem_size)
        block = next(self._numbers)
        self._used[block] = mem_size
        address = 4096 if mem_size else 0
        self._tell("malloc_postprocess", size=size, mem_size=mem_size, mem_ptr=address, pmem_id=block)
        return block

    def free(self, block: int) -> None:
        mem_size = self._used.pop(block)
        self._free.append(mem_size)
        self._tell("free_postprocess", mem_size=mem_size, mem_ptr=4096, pmem_id=block)

    def _tell(self, method: str, **said: int) -> None:
        for hook in MemoryHook.registered.values():
            getattr(hook, method)(device_id=0, **said)
