"""The resources of a process: memory of the C library, blocks of Python's, threads, files, processes, device memory."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from time import monotonic, sleep
from typing import NamedTuple

from .children import children


class _MallInfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc's malloc.h, since 2.33."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


class InUse(NamedTuple):
    """The resources of a process."""

    allocated_bytes: int
    """By malloc, in all threads; 0 if the C library does not tell."""
    blocks: int
    """Of Python's small objects."""
    threads: int
    files: int
    processes: int
    device_bytes: int
    """Memory of accelerators that the program holds."""


def open_files() -> int:
    """Return the number of open files, pipes and sockets; 0 where nobody tells."""
    return len(os.listdir("/proc/self/fd")) if sys.platform.startswith("linux") else 0


# aiosqlite's thread ends some milliseconds after the call that stops it.
_ENDING_S = 0.1


def with_threads_ended(call: Callable[[], object]) -> Callable[[], None]:
    """Return a function that makes a *call* and waits up to 0.1 s for threads that it started to end.

    After a call whose threads go on it waits no more.
    """
    is_waiting = True

    def run() -> None:
        nonlocal is_waiting
        before = threading.active_count()
        call()
        until = monotonic() + _ENDING_S
        while is_waiting and threading.active_count() > before:
            sleep(_ENDING_S / 100)
            is_waiting = monotonic() < until

    return run


# The cache of attributes keeps up to 4,096 names that C code made, as NumPy's does for `flags.writeable`. In nearly
# each test of pandas' indexes a call added some blocks, and a look of 0.4 s then sought their holder in vain.
_forget_names = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache


def in_use(device_bytes: Callable[[], int] = lambda: 0) -> InUse:
    """Return the resources of this process now; *device_bytes* asks the frameworks for the last."""
    started = children()
    _forget_names()
    return InUse(
        _malloced()(),
        sys.getallocatedblocks(),
        threading.active_count(),
        open_files(),
        len(started.alive) if started else 0,
        device_bytes(),
    )


@cache
def _malloced() -> Callable[[], int]:
    """Return the function that asks glibc, whose numbers are exact; RSS jumps by the pages that are kept."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, TypeError, AttributeError):
        return lambda: 0  # an older or another C library
    mallinfo.restype, mallinfo.argtypes = _MallInfo2, []

    def malloced() -> int:
        found = mallinfo()
        return int(found.uordblks + found.hblkhd)

    return malloced
