"""Detect processes that this one started: no window contains their work."""

from __future__ import annotations

import sys
import threading
from typing import NamedTuple

NOT_SEEN = "this window started other processes; opprof does not see their ops"


class Children(NamedTuple):
    """The processes that this one started so far."""

    alive: frozenset[str]
    ended_faults: int
    """Page faults of all ended and awaited children: each process has some, so the number grows with one more."""
    by_python: int | None = None
    """The number started by Python code since `watch_python`; None before."""


_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system")
# The number of processes that Python code started, once it is watched.
_started: list[int] = []


def watch_python() -> None:
    """Count only the processes that Python code starts, from now on and permanently.

    For a framework whose own code starts some that run no op: MindSpore asks a shell for the frequency of the CPU.
    """

    def count(event: str, arguments: object) -> None:
        if event in _STARTS:
            _started[0] += 1

    if not _started:
        _started.append(0)
        sys.addaudithook(count)


def children() -> Children | None:
    """Return the processes that this one started; None if the system does not tell.

    Audit hooks would tell, too, but each call of `sys._getframe` would then cost 0.1 us more, permanently.
    """
    if not sys.platform.startswith("linux"):
        return None
    import resource

    alive: set[str] = set()
    for thread in threading.enumerate():
        try:
            with open(f"/proc/self/task/{thread.native_id}/children", "rb", buffering=0) as file:
                alive.update(file.read().decode().split())
        except OSError:
            pass  # the thread has ended, or the kernel is built without these files
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    return Children(frozenset(alive), faults, _started[0] if _started else None)


def ended_cpu_ns() -> int:
    """Return the CPU time, ns, of the processes that this one started and that ended; 0 if the system does not tell.

    Source: `getrusage(RUSAGE_CHILDREN)`, which a process enters when this one waits for it.
    """
    if not sys.platform.startswith("linux"):
        return 0
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def were_only_newer_ended(before: Children | None, after: Children | None) -> bool:
    """Return True if no process that was there *before* is gone *after*: its work may be of another time."""
    return before is not None and after is not None and before.alive <= after.alive


def were_started(before: Children | None, after: Children | None) -> bool:
    """Return True if a process was started between the two."""
    if before is None or after is None:
        return False
    if before.by_python is not None and after.by_python is not None:
        return after.by_python > before.by_python
    return bool(after.alive - before.alive) or after.ended_faults > before.ended_faults
