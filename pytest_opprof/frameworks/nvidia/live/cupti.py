"""CUPTI's activity records by ctypes: the work of the GPU, and the calls of CUDA that launched it.

CUPTI serves one profiler in a process, and keeps its callbacks until the process ends. They are therefore registered
once and kept. A window enables kinds of records, disables them and flushes, in the order of torch.profiler. Three
functions are never called: ``cuptiSubscribe`` (torch.profiler would record nothing for the rest of the process), a
timestamp callback (pytorch issue 192021: it corrupts times), ``cuptiFinalize``.

CUPTI calls back inside a call of CUDA, holding a lock of its own, and a callback in Python needs the GIL. A thread with
the GIL therefore must not wait for that lock. All calls here release the GIL (ctypes does), as do launches, copies and
waits of CuPy and Numba. CuPy does not release it to ask for the device, and for other facts that start no work: from
CUDA 12.5 on these calls are not recorded, so that they do not wait. Before 12.5 a program may hang in a window in which
CUPTI asks for a buffer, or returns one, in another thread, which may be its own.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ....errors import BackendError
from ....ops import cuda_calls
from ....units import plural
from .cupti_records import (
    DRIVER,
    EXTERNAL,
    KERNEL,
    MEMCPY,
    MEMSET,
    OVERHEAD,
    PEER_COPY,
    RUNTIME,
    Buffer,
    Decoder,
    Table,
)
from .driver import within

KINDS = (KERNEL, MEMCPY, PEER_COPY, MEMSET, RUNTIME, DRIVER, OVERHEAD)
# About 15,000 records. NVIDIA advises 1 to 10 MB. From CUDA 13 on CUPTI asks for a buffer for each thread in each
# window, and fills it with zeros inside the thread's first call of CUDA: 16 us for this size (measured without a GPU).
BUFFER_BYTES = 2 * 2**20
# The number of buffers made beforehand, so that a callback, which runs inside a launch, only pops one.
READY_BUFFERS = 4
# 2 GiB in one window. Records beyond that are dropped, which is an error.
MOST_BUFFERS = 1024
# The longest time for the end of a window, in which CUPTI only copies its records.
PATIENCE_S = 60.0
# The largest difference of CUPTI's clock from the system's. They are the same, read microseconds apart; if another
# profiler made CUPTI count ticks of a processor, they differ by decades.
CLOCK_S = 1.0
# The kind of the numbers that opprof pushes: ``CUSTOM2``, as PyTorch's profiler uses the other two.
_CUSTOM = 5
_DOMAINS = {DRIVER: 1, RUNTIME: 2}
_FORCED = 1
_MAX_LIMIT_REACHED = 12
# Calls of the runtime that only ask (cupti_runtime_cbid.h): cudaDriverGetVersion, RuntimeGetVersion, GetDeviceCount,
# GetLastError, PeekAtLastError, SetDevice, GetDevice, MemGetInfo, StreamQuery, EventQuery, PointerGetAttributes,
# DeviceGetAttribute, StreamIsCapturing.
_QUIET = (1, 2, 3, 10, 11, 16, 17, 30, 132, 138, 151, 200, 317)
# From CUDA 12.9 on CUPTI drops records if it gets no buffer. Before, it may crash (pytorch/kineto issue 1275).
_MAY_REFUSE = 27
_MEANINGS = {
    15: "the NVIDIA driver is missing or too old for this libcupti; check nvidia-smi",
    35: "this user may not profile. Ask the administrator to set NVreg_RestrictProfilingToAdminUsers=0",
    39: "another profiler uses CUPTI (nsys, ncu, cuda-gdb, or one in this process). Run without it",
    999: "the NVIDIA driver is missing or too old for this libcupti; check nvidia-smi",
}
_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Cupti:
    """The loaded libcupti, one for the process; *library* has its functions."""

    def __init__(self, library: Any, path: str = "") -> None:
        self.path = path
        self._library = library
        self._process = os.getpid()
        self._ready = [np.empty(BUFFER_BYTES, np.uint8) for _ in range(READY_BUFFERS)]
        self._lent: dict[int, Buffer] = {}
        self._filled: list[tuple[Buffer, int]] = []
        self._decoder = Decoder(self._follow)
        # CUPTI keeps these pointers until the process ends, so they must not be freed.
        self._callbacks = (_REQUESTED(self._requested), _COMPLETED(self._completed))
        self._registered = False
        self._stuck = False
        self._enabled: list[int] = []
        self._untaken = False
        """Whether a window ended in an error, so that its records were not read."""
        self._may_refuse = True
        self._overflowed = False
        """Whether there were more records than buffers."""
        self._now = ctypes.c_uint64()

    @cached_property
    def version(self) -> int:
        """CUPTI's own version: 130101 is CUDA 13.1 Update 1. Before 13 they were counted: 18 to 28 are 12.0 to 12.9."""
        number = ctypes.c_uint32()
        self._call("cuptiGetVersion", ctypes.byref(number))
        return number.value

    def major(self) -> int:
        """The major version of CUDA that the library belongs to."""
        return self.version // 10_000 if self.version >= 1000 else 12 if self.version >= 18 else 11

    def timestamp(self) -> int:
        """Return the time now, in ns, on the clock of the records."""
        self._call("cuptiGetTimestamp", ctypes.byref(self._now))
        return self._now.value

    def enable(self, pushed: bool = False) -> None:
        """Start recording; with *pushed* also the number pushed at each call of CUDA.

        Raises BackendError, and records nothing, if that is impossible.
        """
        self._check_process()
        if self._stuck:
            raise BackendError("CUPTI still hangs at the end of an earlier window. Run this test in a new process")
        if not self._registered:
            self._call("cuptiActivityRegisterCallbacks", *self._callbacks)
            self._registered = True
        self._check_clock()
        self._may_refuse = self.version >= _MAY_REFUSE
        if self._untaken:
            self._end()  # the GPU went on after the window; the caller has waited for it
        for _ in self._taken():
            pass
        self._dropped()
        self._overflowed, self._untaken = False, True
        try:
            for kind in (*KINDS, EXTERNAL) if pushed else KINDS:
                self._call("cuptiActivityEnable", kind)
                self._enabled.append(kind)
            if leave_out := getattr(self._library, "cuptiActivityEnableRuntimeApi", None):  # from CUDA 12.5 on
                for callback in _QUIET:
                    leave_out(callback, 0)  # a call that it refuses to leave out is recorded, as all are before 12.5
        except BackendError:
            self.disable()
            raise

    def disable(self) -> None:
        """Stop recording, and let CUPTI hand over all records.

        Raises BackendError if it fails or does not return: before 13.0 Update 1 it may hang here.
        """
        if self._enabled:
            self._end()

    def records(self) -> dict[int, Table]:
        """Return the records up to the end of recording, by kind. The GPU has to be done by then.

        Raises BackendError if CUPTI dropped records, if its clock was changed, or if this process was forked from the
        one that loaded it.
        """
        self._check_process()
        self._untaken = False
        dropped = self._dropped()
        if dropped or self._overflowed:
            self._filled.clear()
            raise BackendError(
                f"CUPTI dropped {plural(dropped, 'record') if dropped else 'some records'}: more than fit into"
                f" {MOST_BUFFERS * BUFFER_BYTES >> 20} MiB or this machine's memory. Use fewer rounds, or"
                " smaller windows inside the test"
            )
        self._check_clock()
        return self._decoder.decode(self._taken())

    def push(self, number: int) -> None:
        """Give this thread's next calls of CUDA a *number*, until it is popped."""
        self._call("cuptiActivityPushExternalCorrelationId", _CUSTOM, ctypes.c_uint64(number))

    def pop(self) -> None:
        """Give them the number that this thread pushed before the last one, or none."""
        self._call("cuptiActivityPopExternalCorrelationId", _CUSTOM, None)

    def function(self, kind: int, callback: int) -> str:
        """Return the name of the called function, without its version: ``cudaLaunchKernel``."""
        name = ctypes.c_char_p()
        self._call("cuptiGetCallbackName", _DOMAINS[kind], int(callback), ctypes.byref(name))
        return cuda_calls.without_api_version((name.value or b"").decode()).lstrip("_")

    def text(self, address: int) -> str:
        """Return the kernel's name that a record points to. CUPTI keeps it as long as the kernel is loaded.

        Before 13.4 Update 1 it may be the name of another kernel that was unloaded earlier.
        """
        return ctypes.string_at(address).decode("utf-8", "replace") if address else "(no name)"

    # The callbacks run inside a launch or in a thread of CUPTI: they must not call CUDA, take a lock or raise.

    def _requested(self, buffer: Any, size: Any, most_records: Any) -> None:
        memory = self._memory()
        if memory is None:
            buffer[0], size[0], most_records[0] = None, 0, 0
            return
        address = memory.ctypes.data
        self._lent[address] = memory
        buffer[0], size[0], most_records[0] = address, memory.nbytes, 0

    def _memory(self) -> Buffer | None:
        """Return a buffer; None without memory, or beyond `MOST_BUFFERS` if CUPTI tolerates that."""
        if len(self._lent) + len(self._filled) >= MOST_BUFFERS:
            self._overflowed = True
            if self._may_refuse:
                return None
        try:
            return self._ready.pop()
        except IndexError:
            pass
        try:
            return np.empty(BUFFER_BYTES, np.uint8)
        except MemoryError:
            return None

    def _completed(self, context: Any, stream: int, address: int, size: int, used: int) -> None:
        memory = self._lent.pop(address, None)
        if memory is None:
            return
        if self._overflowed and not self._may_refuse:
            self._ready.append(memory)  # the window has failed, so its other records are discarded
        else:
            self._filled.append((memory, min(used, memory.nbytes)))

    def _taken(self) -> Iterator[Buffer]:
        """Yield the filled part of each buffer, which is valid until the next one."""
        while self._filled:
            memory, used = self._filled.pop(0)
            if used:
                yield memory[:used]
            if len(self._ready) < READY_BUFFERS:
                self._ready.append(memory)

    def _end(self) -> None:
        """Disable all kinds and flush, in another thread, so that a deadlock in CUPTI ends with an error."""

        def end() -> None:
            try:
                while self._enabled:
                    self._library.cuptiActivityDisable(self._enabled.pop())
                self._call("cuptiActivityFlushAll", _FORCED)
            finally:
                self._stuck = False

        self._stuck = True
        within(PATIENCE_S, end, "CUPTI hangs at the end of a window. Try libcupti 13.0 Update 1 or newer")

    def _dropped(self) -> int:
        """Return the number of records dropped since the last call."""
        number = ctypes.c_size_t()
        self._call("cuptiActivityGetNumDroppedRecords", None, 0, ctypes.byref(number))
        return number.value

    def _follow(self, buffer: Buffer, at: int) -> int | None:
        address = buffer.ctypes.data
        record = ctypes.c_void_p(address + at)
        status = self._library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(address), ctypes.c_size_t(len(buffer)), ctypes.byref(record)
        )
        if status == _MAX_LIMIT_REACHED:
            return len(buffer)  # this record is the last one
        return (record.value or 0) - address if status == 0 else None

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise BackendError(
                "this process was forked from one that uses CUDA, which does not work after a fork. Use"
                " multiprocessing.set_start_method('spawn')"
            )

    def _check_clock(self) -> None:
        away_s = abs(self.timestamp() - time.time_ns()) / 1e9
        if away_s > CLOCK_S:
            raise BackendError(
                f"CUPTI's clock is {away_s:.3g} s away from the system clock: another profiler (such as torch.profiler)"
                " changed it. Run this test in a process without that profiler"
            )

    def _call(self, function: str, *arguments: object) -> None:
        if status := getattr(self._library, function)(*arguments):
            text = ctypes.c_char_p()
            self._library.cuptiGetResultString(status, ctypes.byref(text))
            name = (text.value or b"an unknown error").decode()
            meaning = f": {_MEANINGS[status]}" if status in _MEANINGS else ""
            raise BackendError(f"CUPTI reports {name} ({status}) from {function}{meaning}")
