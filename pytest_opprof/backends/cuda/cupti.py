"""CUPTI's activity records by ctypes: what the GPU did, and the calls of CUDA that asked for it.

CUPTI serves one profiler in a process, and keeps the callbacks that it is given until the process ends. So they are
registered once and kept. A window enables kinds of records, disables them and flushes, in the order that torch.profiler
uses. Three things are never called: ``cuptiSubscribe`` (torch.profiler would record nothing for the rest of the
process), a timestamp callback (pytorch issue 192021: it corrupts times), ``cuptiFinalize``.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BackendError
from ...ops import cuda_calls
from .cupti_records import DRIVER, KERNEL, MEMCPY, MEMSET, PEER_COPY, RUNTIME, Buffer, Decoder, Table
from .driver import within

VARIABLE = "OPPROF_LIBCUPTI"
KINDS = (KERNEL, MEMCPY, PEER_COPY, MEMSET, RUNTIME, DRIVER)
BUFFER_BYTES = 8 * 2**20
"""About 60,000 records; NVIDIA's own samples use this size."""
READY_BUFFERS = 4
"""How many are made beforehand, and kept: then a callback, which runs inside a launch, takes one pop."""
MOST_BUFFERS = 256
"""2 GiB in one window. CUPTI drops records beyond that, which is an error."""
PATIENCE_S = 60.0
"""How long a flush may take. It only copies what has been recorded."""
CLOCK_S = 1.0
"""How far CUPTI's clock may be from the system's. They are the same, read microseconds apart; where another profiler
made CUPTI count ticks of a processor, they differ by decades."""
_DOMAINS = {DRIVER: 1, RUNTIME: 2}
_FORCED = 1
_MAX_LIMIT_REACHED = 12
_MEANINGS = {
    15: "it is not initialised: there is no working NVIDIA driver",
    35: "this user may not profile; ask the administrator to lift NVreg_RestrictProfilingToAdminUsers",
    39: "another profiler has it: nsys, ncu, cuda-gdb, or one in this process. Run without it",
    999: "there is no working NVIDIA driver, or one that is too old for this libcupti",
}
_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Cupti:
    """The loaded libcupti, of which a process has one; *library* has its functions."""

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
        self._now = ctypes.c_uint64()

    def major(self) -> int:
        """Return the major version of CUDA that the library is part of."""
        number = ctypes.c_uint32()
        self._call("cuptiGetVersion", ctypes.byref(number))
        # 130001 is CUDA 13.0. Before 13 versions were counted: 18 to 28 are 12.0 to 12.9.
        return number.value // 10_000 if number.value >= 1000 else 12 if number.value >= 18 else 11

    def timestamp(self) -> int:
        """Return the time now, in ns, on the clock that records have."""
        self._call("cuptiGetTimestamp", ctypes.byref(self._now))
        return self._now.value

    def enable(self) -> None:
        """Begin to record. Raises BackendError if that is not possible; then nothing is recorded."""
        self._check_process()
        if self._stuck:
            raise BackendError("CUPTI did not return from a flush earlier in this process; measure in a new one")
        if not self._registered:
            self._call("cuptiActivityRegisterCallbacks", *self._callbacks)
            self._registered = True
        self._check_clock()
        for _ in self._taken():
            pass  # records of a window that ended with an error
        self._dropped()
        try:
            for kind in KINDS:
                self._call("cuptiActivityEnable", kind)
                self._enabled.append(kind)
        except BackendError:
            self.disable()
            raise

    def disable(self) -> None:
        """Stop recording, if it records."""
        while self._enabled:
            self._library.cuptiActivityDisable(self._enabled.pop())

    def records(self) -> dict[int, Table]:
        """Return what was recorded, by kind. The GPU has to be done.

        Raises BackendError if CUPTI does not answer, if it dropped records, if its clock was changed, or if this
        process was forked from the one that loaded it.
        """
        self._check_process()
        within(PATIENCE_S, self._flush, "CUPTI does not return from a flush of its records")
        if dropped := self._dropped():
            raise BackendError(
                f"CUPTI dropped {dropped} records: more than fit into {MOST_BUFFERS * BUFFER_BYTES >> 20} MiB, or into"
                " this machine's memory. Measure less in one window: fewer rounds, or windows inside the test"
            )
        self._check_clock()
        return self._decoder.decode(self._taken())

    def function(self, kind: int, callback: int) -> str:
        """Return the name of the function that was called, without its version: ``cudaLaunchKernel``."""
        name = ctypes.c_char_p()
        self._call("cuptiGetCallbackName", _DOMAINS[kind], int(callback), ctypes.byref(name))
        return cuda_calls.without_api_version((name.value or b"").decode()).lstrip("_")

    def text(self, address: int) -> str:
        """Return the kernel's name that a record points to. CUPTI keeps it as long as the kernel is loaded."""
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
        """Return a buffer; None if there are `MOST_BUFFERS` or no memory is left: then CUPTI drops records."""
        if len(self._lent) + len(self._filled) >= MOST_BUFFERS:
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
        if memory is not None:
            self._filled.append((memory, min(used, memory.nbytes)))

    def _taken(self) -> Iterator[Buffer]:
        """Yield the filled part of each buffer. When the next one is asked for, the buffer may be used again."""
        while self._filled:
            memory, used = self._filled.pop(0)
            if used:
                yield memory[:used]
            if len(self._ready) < READY_BUFFERS:
                self._ready.append(memory)

    def _flush(self) -> None:
        self._stuck = True
        try:
            self._call("cuptiActivityFlushAll", _FORCED)
        finally:
            self._stuck = False

    def _dropped(self) -> int:
        """Return how many records were dropped since the last call of this."""
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
                "this process was forked from one that uses CUDA, which does not survive a fork. Do not fork:"
                " multiprocessing.set_start_method('spawn')"
            )

    def _check_clock(self) -> None:
        away_s = abs(self.timestamp() - time.time_ns()) / 1e9
        if away_s > CLOCK_S:
            raise BackendError(
                f"CUPTI's clock is {away_s:.3g} s away from the system's: another profiler in this process"
                " (torch.profiler does) gave it its own, or the system's was set. Run this test in a process without it"
            )

    def _call(self, function: str, *arguments: object) -> None:
        if status := getattr(self._library, function)(*arguments):
            text = ctypes.c_char_p()
            self._library.cuptiGetResultString(status, ctypes.byref(text))
            name = (text.value or b"an unknown error").decode()
            meaning = f": {_MEANINGS[status]}" if status in _MEANINGS else ""
            raise BackendError(f"CUPTI reports {name} ({status}) from {function}{meaning}")


@cache
def opened() -> Cupti:
    """Return the libcupti of this process. Raises BackendError if none is found."""
    tried = []
    for path in candidates(mapped(), os.environ):
        try:
            return Cupti(ctypes.CDLL(path), path)
        except OSError as error:
            tried.append(str(error))
    raise BackendError(
        "libcupti is not found; install the one of your CUDA version: pip install nvidia-cuda-cupti-cu12 (CUDA 12) or"
        f" nvidia-cuda-cupti (CUDA 13), or set {VARIABLE} to its file" + (f". Tried: {tried[0]}" if tried else "")
    )


def mapped() -> list[str]:
    """Return the files of CUDA's libraries that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    paths = dict.fromkeys("/" + line.partition("/")[2] for line in lines)
    return [path for path in paths if re.search(r"/lib(?:cupti|cudart)\.so", path)]


def cuda_major(loaded: list[str]) -> int | None:
    """Return the major version of the CUDA runtime among the *loaded* files; None if it is not among them."""
    majors = [int(match[1]) for path in loaded if (match := re.search(r"/libcudart\.so\.(\d+)", path))]
    return majors[0] if majors else None


def candidates(loaded: list[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that may be libcupti, the best first.

    A process must have one: a second copy would record nothing. So a file that is loaded comes first, then wheels,
    those of the CUDA version in use first, then the toolkit.
    """
    if VARIABLE in environ:
        yield environ[VARIABLE]
        return
    yield from (path for path in loaded if "/libcupti.so" in path)
    yield from sorted(_in_wheels(), key=_preference(cuda_major(loaded)))
    for root in filter(None, [environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), "/usr/local/cuda"]):
        yield from (str(path) for path in sorted(Path(root).glob("extras/CUPTI/lib64/libcupti.so")))
    yield "libcupti.so"


def _in_wheels() -> Iterator[str]:
    spec = find_spec("nvidia") if "nvidia" not in sys.modules else sys.modules["nvidia"].__spec__
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from (str(path) for path in Path(folder).glob("*/lib/libcupti.so.*"))


def _preference(major: int | None) -> Callable[[str], tuple[bool, int]]:
    def key(path: str) -> tuple[bool, int]:
        match = re.search(r"\.so\.(\d+)", path)
        number = int(match[1]) if match else 0
        return number != major, -number

    return key
