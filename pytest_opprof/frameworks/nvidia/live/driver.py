"""The NVIDIA driver (libcuda) by ctypes: list the GPUs, and wait until they are done."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import cache
from queue import SimpleQueue
from typing import Any, ClassVar

from ....errors import BackendError

# The longest wait for the GPU. A kernel that takes longer is considered to hang.
PATIENCE_S = 600.0
# CUDA reads it once, when it is initialised.
VISIBLE = "CUDA_VISIBLE_DEVICES"
_NO_DEVICE = 100
_NAME_BYTES, _BUS_BYTES = 256, 32


class Driver:
    """The used part of libcuda; *library* has its functions."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._visible: tuple[str | None] | None = None
        """The value of `VISIBLE` when opprof initialised CUDA; None if the program did."""

    def is_initialised(self) -> bool:
        """Return True if CUDA is initialised in this process; before that there is nothing to wait for."""
        return bool(self._library.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 0)

    def remember_devices(self) -> None:
        """Remember the program's choice of GPUs if CUDA is not initialised yet; afterwards it cannot choose."""
        if not self.is_initialised():
            self._visible = (os.environ.get(VISIBLE),)

    def problem(self) -> str | None:
        """Return why CUDA cannot run in this process, or None if it can. The first call initialises CUDA."""
        self.remember_devices()
        status = self._library.cuInit(0)
        if status == _NO_DEVICE or (status == 0 and not self._count()):
            return "the NVIDIA driver finds no GPU. Check nvidia-smi and CUDA_VISIBLE_DEVICES"
        if status:
            return f"the NVIDIA driver cannot be initialised: {self._error(status)}. Check nvidia-smi"
        return None

    def ignored_devices(self) -> str:
        """Return an error if the program chose other GPUs after opprof initialised CUDA, which CUDA ignores; else
        "".
        """
        now = os.environ.get(VISIBLE)
        if self._visible is None or self._visible == (now,):
            return ""
        return (
            f"{VISIBLE} changed from {self._visible[0]!r} to {now!r} after CUDA was initialised, and has no effect."
            " Set it before the first measured test"
        )

    def version(self) -> tuple[int, int]:
        """Return the newest version of CUDA that the driver supports: (13, 0)."""
        number = self._int("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def model(self, device: int) -> str:
        """Return the name of a GPU: ``NVIDIA H100 80GB HBM3``."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", text, _NAME_BYTES, device)
        return text.value.decode("utf-8", "replace")

    def bus(self, device: int) -> str:
        """Return the PCI address of a GPU, since its number differs outside of CUDA: ``0000:3b:00.0``."""
        text = ctypes.create_string_buffer(_BUS_BYTES)
        self._call("cuDeviceGetPCIBusId", text, _BUS_BYTES, device)
        return text.value.decode("ascii")

    def synchronize(self) -> int:
        """Wait until every GPU used by this process is done; return the number of contexts.

        Raises BackendError after `PATIENCE_S`, or if a kernel failed.
        """
        contexts, retained = self._contexts()

        def wait() -> None:
            for context in contexts:
                self._call("cuCtxSetCurrent", ctypes.c_void_p(context))
                self._call("cuCtxSynchronize")

        try:
            if contexts:
                within(PATIENCE_S, wait, "the GPU is not done: a kernel hangs, or waits for something")
        finally:
            for device in retained:
                self._library.cuDevicePrimaryCtxRelease_v2(device)
        return len(contexts)

    def _contexts(self) -> tuple[list[int], list[int]]:
        """Return the contexts in use, and the devices whose primary context has to be released."""
        current = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(current))
        found, retained = dict.fromkeys(filter(None, [current.value])), []
        for device in self.active():
            primary = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(primary), device)
            retained.append(device)
            found[primary.value or 0] = None
        return list(found), retained

    def active(self) -> Iterator[int]:
        """Yield the GPUs that this process has initialised."""
        flags, active = ctypes.c_uint(), ctypes.c_int()
        for device in range(self._count()):
            self._call("cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
            if active.value:
                yield device

    def _count(self) -> int:
        return self._int("cuDeviceGetCount")

    def _int(self, function: str) -> int:
        number = ctypes.c_int()
        self._call(function, ctypes.byref(number))
        return number.value

    def _call(self, function: str, *arguments: object) -> None:
        if status := getattr(self._library, function)(*arguments):
            raise BackendError(f"the NVIDIA driver reports {self._error(status)} from {function}")

    def _error(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(text))
        return f"{(text.value or b'an unknown error').decode()} ({status})"


@cache
def opened() -> Driver | None:
    """Return the driver of this machine, None if there is none."""
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return None


def problem() -> str | None:
    """Return why no NVIDIA GPU can be used, or None if one can."""
    driver = opened()
    return driver.problem() if driver else "there is no NVIDIA driver (libcuda.so.1) on this machine"


class _Waiter:
    """A thread that calls the driver on behalf of others, so that Ctrl-C works; it is kept for the next call.

    It is kept because CUPTI asks for a buffer for each thread that calls CUDA in a window.
    """

    idle: ClassVar[list[_Waiter]] = []
    """Idle threads: one, unless several are needed at once."""

    def __init__(self) -> None:
        self._actions = SimpleQueue[Callable[[], None]]()
        self.thread = threading.Thread(target=self._run, name="opprof-cuda", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            self._actions.get()()

    def start(self, action: Callable[[], None]) -> Future[None]:
        """Run *action* in the thread; return the future of its end."""
        done = Future[None]()

        def run() -> None:
            failed: BaseException | None = None
            try:
                action()
            except BaseException as error:
                failed = error
            self.idle.append(self)  # before setting the result, because the waiting thread may need this one at once
            if failed is None:
                done.set_result(None)
            else:
                done.set_exception(failed)

        self._actions.put(run)
        return done

    @classmethod
    def free(cls) -> _Waiter:
        """Return an idle thread."""
        while cls.idle:
            # A thread does not survive a fork.
            if (waiter := cls.idle.pop()).thread.is_alive():
                return waiter
        return cls()


def within(seconds: float, action: Callable[[], None], what: str) -> None:
    """Run *action* in another thread, so that Ctrl-C works. Raises BackendError with *what* if it takes longer.

    The thread then stays, because a call of the driver cannot be ended.
    """
    done = _Waiter.free().start(action)
    wait([done], seconds)
    if not done.done():
        raise BackendError(f"{what}. Gave up after {seconds:g} s")
    done.result()
