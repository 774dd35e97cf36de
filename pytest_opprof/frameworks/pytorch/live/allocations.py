"""Record allocations beside a session of all threads, which lacks them: by PyTorch's older profiler of one thread.

A session with `profile_all_threads` receives no allocations (PyTorch 2.13 reports memory only to the thread's own
profiler). The older profiler lists calls and allocations of a thread in order, opprof's marks included: 2 us a call. It
omits other threads' allocations, which would make the peak vary between runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....profile.events.event_log import EventLog
from .marks import MARK
from .sites import Allocating


def can_be_listed() -> bool:
    """Return True if this PyTorch still has the older profiler."""
    from torch._C import _autograd

    return hasattr(_autograd, "_enable_profiler_legacy")


def start() -> None:
    """Start the profiler in this thread."""
    from torch._C._autograd import _enable_profiler_legacy
    from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

    without = False
    _enable_profiler_legacy(
        ProfilerConfig(ProfilerState.CPU, without, True, without, without, without, _ExperimentalConfig())
    )


def stop() -> list[list[Any]]:
    """Stop; return the events of each thread, or none if another profiler ended the session."""
    from torch._C._autograd import _disable_profiler_legacy

    try:
        threads: list[list[Any]] = _disable_profiler_legacy()
    except RuntimeError:
        return []
    return threads


def read(threads: Sequence[Sequence[Any]], log: EventLog, is_left_out: Callable[[str], bool]) -> None:
    """Add the allocations in *threads* to *log*, except inside calls that *is_left_out* selects by name."""
    marks_us: list[float] = []
    elsewhere: list[Sequence[Any]] = []
    for events in threads:
        if any(event.name() == MARK for event in events if event.kind() == "push"):
            _read_thread(events, log, is_left_out, marks_us)
        else:
            elsewhere.append(events)
    for events in elsewhere:  # of threads to which PyTorch passed this one's profiler, such as gloo's
        for event in events:
            if event.kind() == "memory_alloc":
                log.allocated(event.cpu_memory_usage(), bisect_right(marks_us, event.start_us()))


def _read_thread(
    events: Iterable[Any], log: EventLog, is_left_out: Callable[[str], bool], marks_us: list[float]
) -> None:
    allocating = Allocating() if log.chains is not None else None
    left_out = 0  # the depth of the outermost call that is left out; 0 for none
    calls, called = [0], 0  # of each call that runs the number of the op around it, 0 for none; and the last number
    for event in events:
        kind = event.kind()
        if kind == "push":
            called += 1
            name = event.name()
            # An op frees what it allocated; autograd's nodes also free what the forward op saved.
            is_op = "::" in name and not name.startswith(("autograd::", "opprof::"))
            calls.append((calls[-1] or called) if is_op else 0)
            if name == MARK:
                marks_us.append(event.start_us())
            elif not left_out and is_left_out(name):
                left_out = len(calls)
            if allocating is not None:
                allocating.enter(name, event)
        elif kind == "pop":
            if left_out == len(calls):
                left_out = 0
            if len(calls) > 1:
                calls.pop()
            if allocating is not None:
                allocating.leave()
        elif kind == "memory_alloc" and not left_out:
            here = None if allocating is None else allocating.here
            log.allocated(event.cpu_memory_usage(), len(marks_us), here, calls[-1])
