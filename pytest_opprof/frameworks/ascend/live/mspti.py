"""MSPTI's activity records by ctypes: the kernels that an NPU ran, and the copies that the host requested.

MSPTI serves one subscriber a process. It is subscribed once, when the first measured test begins, and stays so:
unsubscribing takes up to 1.1 s, and loses records that the driver has not delivered yet. Between windows records are
discarded.

MSPTI calls back while it holds a lock of its own that every record needs, and a callback in Python needs the GIL.
Kernels are recorded in threads of MSPTI, launches in the threads that launch. A program that launches without releasing
the GIL may therefore hang while a thread of MSPTI asks for a buffer. PyTorch releases it. Buffers are large, and the
fence at the begin of a window takes the first one, so requests are rare.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ....errors import BackendError
from .mspti_records import KERNEL, MEMCPY, MEMSET, NODE_API

# About 300,000 kernels with their launches; MSPTI hands a buffer over when 80 % of it are used, and wants 2 MiB or
# more. Pages that are not written take no memory.
BUFFER_BYTES = 32 * 2**20
# 2 GiB in one window. Records beyond that are dropped, which is an error.
MOST_BUFFERS = 64
# The number of buffers kept for reuse.
_READY = 2
_ALIGNED = 8
_INVALID_PARAMETER, _WITHOUT_PRELOAD = 1, 6
_MEANINGS = {
    1: "invalid parameter",
    2: "another subscriber of MSPTI is in this process, and MSPTI serves one",
    3: "a limit is reached",
    4: "the NPU is offline",
    5: "the queue is empty",
    6: "libmspti.so is not in LD_PRELOAD",
    999: "an inner error",
}
_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Mspti:
    """The loaded libmspti, subscribed; *library* has its functions."""

    def __init__(self, library: Any, others: str = "") -> None:
        """Subscribe and enable. Raises BackendError if another subscriber is there; *others* names suspects."""
        self._library = library
        self._process = os.getpid()
        self._lent: dict[int, Any] = {}
        self._ready: list[Any] = []
        self._filled: list[bytes] = []
        self._names: dict[int, str] = {}
        self.keeps = False
        """Whether a window is open; otherwise records are discarded."""
        self.overflowed = False
        """Whether there were more records than buffers."""
        # MSPTI keeps these pointers until the process ends, so they must not be freed.
        self._callbacks = (_REQUESTED(self._requested), _COMPLETED(self._completed))
        self._subscriber = ctypes.c_void_p()
        self._call("msptiSubscribe", ctypes.byref(self._subscriber), None, None, hint=others)
        self._call("msptiActivityRegisterCallbacks", *self._callbacks)
        self._call("msptiActivityEnable", KERNEL)
        self.names_launches = self._enabled(NODE_API, _INVALID_PARAMETER)
        """Whether it records the launch of a kernel: from 26.0 on, which is CANN 9."""
        self.sees_copies = self._enabled(MEMCPY, _WITHOUT_PRELOAD) and self._enabled(MEMSET, _WITHOUT_PRELOAD)
        """Whether it records copies and sets, which requires libmspti in LD_PRELOAD."""

    def _enabled(self, kind: int, refusal: int) -> bool:
        """Enable a kind of records; return False if the answer is *refusal*."""
        if (status := self._library.msptiActivityEnable(kind)) == refusal:
            return False
        self._check("msptiActivityEnable", status)
        return True

    def flush(self) -> None:
        """Make MSPTI hand over the delivered records, which may be fewer than have run."""
        if os.getpid() != self._process:
            raise BackendError(
                "this process was forked from one that uses an NPU, which does not survive a fork. Do not fork:"
                " multiprocessing.set_start_method('spawn')"
            )
        self._call("msptiActivityFlushAll", 1)

    def taken(self) -> list[bytes]:
        """Return the buffers handed over since the last call."""
        found = []
        while self._filled:  # a thread of MSPTI may append
            found.append(self._filled.pop(0))
        return found

    def text(self, address: int) -> str:
        """Return the name that a record points to. MSPTI keeps it as long as the process lives."""
        if address not in self._names:
            text = ctypes.string_at(address).decode("utf-8", "replace") if address else ""
            self._names[address] = text or "(no name)"
        return self._names[address]

    # The callbacks run inside a launch or in a thread of MSPTI, which holds a lock: they must not call CANN or raise.

    def _requested(self, buffer: Any, size: Any, most_records: Any) -> None:
        memory = self._memory()
        if memory is None:
            buffer[0], size[0], most_records[0] = None, 0, 0
            return
        address = -(-ctypes.addressof(memory) // _ALIGNED) * _ALIGNED
        self._lent[address] = memory
        buffer[0], size[0], most_records[0] = address, BUFFER_BYTES, 0

    def _memory(self) -> Any:
        """Return a buffer; None beyond `MOST_BUFFERS` or without memory, so that MSPTI drops records."""
        try:
            if len(self._lent) + sum(map(len, self._filled)) // BUFFER_BYTES < MOST_BUFFERS:
                return self._ready.pop() if self._ready else (ctypes.c_char * (BUFFER_BYTES + _ALIGNED))()
        except MemoryError:
            pass
        self.overflowed = True
        return None

    def _completed(self, address: int, size: int, used: int) -> None:
        memory = self._lent.pop(address, None)
        if memory is None:
            return
        if used and self.keeps:
            try:
                self._filled.append(ctypes.string_at(address, min(used, BUFFER_BYTES)))
            except MemoryError:
                self.overflowed = True
        if len(self._ready) < _READY:
            self._ready.append(memory)

    def _call(self, function: str, *arguments: object, hint: str = "") -> None:
        self._check(function, getattr(self._library, function)(*arguments), hint)

    def _check(self, function: str, status: int, hint: str = "") -> None:
        if status:
            meaning = _MEANINGS.get(status, "an unknown error")
            raise BackendError(f"MSPTI reports error {status} from {function}: {meaning}{hint and f'. {hint}'}")
