"""Count the processes that this one starts: no window contains their work."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from ..units import plural


class Children(NamedTuple):
    """The processes that this one started so far."""

    alive: frozenset[str]
    ended_faults: int
    """Page faults of all ended and awaited children: each process has some, so the number grows with one more."""


class _Counter:
    """The processes that Python code started while it was `counting`."""

    def __init__(self) -> None:
        self.started = 0
        self.windows = 0
        """How many windows count."""
        self.sees_forks = False
        """Whether forks are counted: whoever registers for them stays for good."""
        self.only_python = False
        """Whether processes that other code starts are none of the program's."""

    def add(self) -> None:
        self.started += self.windows > 0


_counter = _Counter()
# Each way of Python code to start a process, except forks. The functions of `os.spawn*` and multiprocessing use these.
_WAYS = (
    ("subprocess", "_fork_exec"),
    ("_posixsubprocess", "fork_exec"),
    ("os", "posix_spawn"),
    ("os", "posix_spawnp"),
    ("os", "system"),
)


def only_python() -> None:
    """Count only the processes that Python code starts, from now on and permanently.

    For a framework whose own code starts some that run no op: MindSpore asks a shell for the frequency of the CPU.
    """
    _counter.only_python = True


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """Count the processes that Python code starts until the context ends; yield the function that returns the number.

    Audit hooks would see them, too, but cost each call of `sys._getframe` and `id` 0.2 us, permanently.
    """
    if not _counter.sees_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_parent=_counter.add)
        _counter.sees_forks = True
    before = _counter.started
    _restore()
    for name, way in _WAYS if not _counter.windows else ():
        module = sys.modules.get(name)
        if module is not None and (start := getattr(module, way, None)):
            counted = _Counted(start, may_fork=way.endswith("fork_exec"))
            setattr(module, way, counted)
            _replaced.append((module, way, start, counted))
    _counter.windows += 1
    try:
        yield lambda: _counter.started - before
    finally:
        _counter.windows -= 1
        _restore()


# The functions that count, with the ones in whose place they are.
_replaced: list[tuple[ModuleType, str, Any, Any]] = []


def _restore() -> None:
    """Put back each function that counts, unless a window is open; if a mock of the program is in its place, later: at
    its end the program puts back what it found.
    """
    for each in [*_replaced] if not _counter.windows else ():
        module, way, start, counted = each
        if getattr(module, way) is counted:
            setattr(module, way, start)
            _replaced.remove(each)


class _Counted:
    """A function that starts a process, counted. As a builtin function, it is no method where a class has it."""

    def __init__(self, start: Callable[..., Any], *, may_fork: bool) -> None:
        self._start = start
        self._may_fork = may_fork

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        before = _counter.started
        found = self._start(*arguments, **keywords)
        # With a preexec_fn, `fork_exec` also calls `_counter.add`. It keeps the GIL, so no other thread counts then.
        if not self._may_fork or _counter.started == before:
            _counter.add()
        return found


def children() -> Children | None:
    """Return the processes that this one started; None if the system does not tell."""
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
    return Children(frozenset(alive), faults)


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


def not_seen(before: Children | None, after: Children | None, by_python: int) -> str:
    """Return how many processes were started between the two, and that their ops are not seen; "" for none.

    *by_python* is the number that Python code started. The system tells of others, but not of how many that ended.
    """
    least = 0
    if before is not None and after is not None and not _counter.only_python:
        least = max(len(after.alive - before.alive), int(after.ended_faults > before.ended_faults))
    number = max(by_python, least)
    if not number:
        return ""
    were, their = ("was", "its") if number == 1 else ("were", "their")
    least_said = "at least " if number > by_python else ""
    return f"{least_said}{plural(number, 'process')} {were} started in this window; {their} ops are not seen"
