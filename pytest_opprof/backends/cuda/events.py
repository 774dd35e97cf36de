"""Activity of CUDA -> events of a log: what the GPU did, under the call of CUDA that asked for it.

A kernel, a copy or a set is an op. It belongs to the interval in which the host asked for it, as the GPU may do it
later. The call that asked is an event around it, and no op. A synchronisation is an op of the host, without device
time. Other calls are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...ops import cuda_calls, names
from ...profile import kernels
from ...profile.attribution import NOBODY
from ...profile.columns import ABSENT
from ...profile.event_log import EventLog
from ...sites.chains import UNKNOWN
from .activity import Calls, Work, callers

SYNCHRONIZE = "Synchronize"
_TAKEN = "Another profiler in this process may have taken them (torch.profiler, jax.profiler); run without it"
_LOADS = ("cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuLinkComplete")
_LOADED = "code was compiled for the GPU or loaded onto it: wall times include that; a longer warm-up keeps it out"
_GRAPHS = (
    "CUPTI before 13.1 Update 1 gives launches of CUDA graphs wrong numbers: install a newer one if CUDA allows it"
)


@dataclass(frozen=True, slots=True)
class Span:
    """When a window was open, and where its intervals begin: ns on CUPTI's clock."""

    begin: int
    end: int
    marks: Sequence[int] = ()
    waited: int = 1 << 63
    """When the last wait for the GPU began."""

    def has(self, when: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which times are inside."""
        inside: NDArray[np.bool_] = (when >= self.begin) & (when < self.end)
        return inside

    def waited_for(self, calls: Calls) -> NDArray[np.bool_]:
        """Tell which *calls* had returned by the last wait. Others, of other threads, may have sent work after it."""
        returned: NDArray[np.bool_] = calls.end <= self.waited
        return returned

    def interval(self, when: NDArray[Any]) -> NDArray[np.int64]:
        """Return the interval of each time."""
        return np.searchsorted(np.array(self.marks, np.uint64), when, side="right").astype(np.int64)


def is_known(name: str) -> bool:
    """Tell whether a log may have the *name*: in a budget any other is a mistake."""
    return cuda_calls.starts_device_work(name) or name in (names.UNLINKED, "MemcpyHtoH")


def fill(
    log: EventLog,
    calls: Calls,
    work: Work,
    span: Span,
    parents: NDArray[np.int64] | None = None,
    cause: str = _TAKEN,
    sites: NDArray[np.int64] | None = None,
    moments: bool = False,
) -> NDArray[np.bool_]:
    """Append to *log* what the program asked for in *span*; return which of the *work* that is.

    *parents* are the events of the log that the calls are in, *sites* the lines of the calls; *moments*: also say when
    all that ran. Raises BackendError, with the likely *cause*, if a kernel was launched and is not in *work*, or if
    nothing tells when some of the work was done.
    """
    parents = np.full(len(calls.start), NOBODY) if parents is None else parents
    caller, asked = _asked(calls, work)
    inside = span.has(asked)
    busy = np.bincount(caller[inside & (caller != NOBODY)], minlength=len(calls.start)) > 0
    _check_kernels(calls, busy, span, cause)
    alone = np.flatnonzero(inside & (caller == NOBODY))
    graphs = calls.of(cuda_calls.is_graph_launch) & span.has(calls.start) & ~calls.failed & ~calls.captured
    graphs &= busy | span.waited_for(calls)
    _check_graphs(log, int(graphs.sum()), int((graphs & ~busy).sum()), len(alone))
    host = np.flatnonzero(busy | graphs | (calls.of(_synchronizes) & span.has(calls.start)))
    done = np.flatnonzero(inside)[np.argsort(work.start[inside], kind="stable")]
    first = len(log)
    # The index of each call's event. Work without a call has an event of its own around it.
    event_of_call = np.full(len(calls.start) + 1, NOBODY)
    event_of_call[host] = len(log) + np.arange(len(host))
    event_of_work = np.full(len(work.start), NOBODY)
    event_of_work[alone] = len(log) + len(host) + np.arange(len(alone))
    _append(log, _named(log, calls, calls.function[host]), parents[host], span.interval(calls.start[host]))
    unlinked = np.full(len(alone), log.name(names.UNLINKED)) if len(alone) else alone
    _append(log, unlinked, np.full(len(alone), NOBODY), span.interval(asked[alone]))
    if len(done):
        events = len(log) + np.arange(len(done))
        log.on_device = kernels.Events(events, work.place[:, done], work.device_ns[done])
    log.extend(
        np.array([log.name(raw, op=op) for raw, op in work.ops])[work.op[done]],
        work.duration_ns[done],
        np.where(caller[done] == NOBODY, event_of_work[done], event_of_call[caller[done]]),
        span.interval(asked[done]),
        work.nbytes[done],
    )
    if sites is not None:
        asking = np.concatenate([host, np.full(len(alone), NOBODY), caller[done]])
        for event, site in enumerate(np.append(sites, UNKNOWN)[asking].tolist(), first):
            if site != UNKNOWN:
                log.asked_at(event, site)
    if moments:
        called = event_of_call[host], calls.start[host], calls.end[host], calls.thread[host]
        for event, start, end, thread in zip(*(column.tolist() for column in called)):
            log.ran(event, start, end, f"thread {thread}")
        times = zip(range(len(log) - len(done), len(log)), work.start[done].tolist(), work.device_ns[done].tolist())
        for event, start, took in times:
            if took != ABSENT:
                log.ran(event, start, start + took)
    for interval in sorted(loads(calls, span)):
        log.remark(_LOADED, interval)
    return inside


def _asked(calls: Calls, work: Work) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the call that asked for each work, and its time; for work without a call, the time at which it began.

    Raises BackendError for work that has neither.
    """
    caller = callers(calls, work.correlation, work.graph_node)
    if lost := np.count_nonzero((caller == NOBODY) & (work.start == 0) & (work.device_ns == ABSENT)):
        raise BackendError(
            f"CUPTI recorded {lost} kernels or copies without their times and without the calls that asked for them:"
            f" whether they belong to the window is not known. Measure less in one window. {_GRAPHS}"
        )
    return caller, np.where(caller == NOBODY, work.start, calls.start[caller] if len(calls.start) else 0)


def busy_ns(calls: Calls, work: Work, span: Span) -> dict[int, int]:
    """Return for each interval how long the GPUs were busy: the sum over GPUs, overlapping work counted once."""
    asked = _asked(calls, work)[1]
    timed = np.flatnonzero(span.has(asked) & (work.device_ns != ABSENT))
    timed = timed[np.argsort(work.start[timed], kind="stable")]
    start = work.start[timed].astype(np.int64)
    end = start + work.device_ns[timed]
    group = span.interval(asked[timed]) << 32 | work.device[timed].astype(np.int64)
    busy: dict[int, int] = {}
    for number in np.unique(group).tolist():
        own = group == number
        busy[number >> 32] = busy.get(number >> 32, 0) + kernels.busy_ns(start[own], end[own])
    return busy


def _named(log: EventLog, calls: Calls, function: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the log's number of the name of each *function*. Names of other functions are not added to the log."""
    numbers = np.zeros(len(calls.functions) + 1, np.int64)
    for index in np.unique(function).tolist():
        numbers[index] = log.name(calls.functions[index])
    return numbers[function]


def _append(log: EventLog, name: NDArray[Any], parent: NDArray[np.int64], interval: NDArray[np.int64]) -> None:
    absent = np.full(len(name), ABSENT)
    log.extend(name, absent, parent, interval, absent)


def _synchronizes(function: str) -> bool:
    return names.meaning(function).op == SYNCHRONIZE


def _check_kernels(calls: Calls, busy: NDArray[np.bool_], span: Span, cause: str) -> None:
    launched = calls.of(cuda_calls.is_kernel_launch) & span.has(calls.start) & (busy | span.waited_for(calls))
    lost = np.count_nonzero(launched & ~busy & ~calls.failed & ~calls.captured)
    if lost:
        raise BackendError(
            f"CUPTI lost {lost} of {np.count_nonzero(launched)} kernels: it recorded their launches, but not the"
            f" kernels. {cause}"
        )


def _check_graphs(log: EventLog, launched: int, idle: int, alone: int) -> None:
    """Say aloud that some of the graphs *launched* are *idle*, without any work; *alone* is work without a call.

    Raises BackendError if all work of all graphs is missing: a graph without any is rare, an empty profile would pass
    every budget.
    """
    if not idle:
        return
    if alone:
        log.remark(
            f"{idle} launches of CUDA graphs have no work of their own, and {alone} kernels and copies have no launch:"
            f" these are counted in the round in which they began. {_GRAPHS}"
        )
    elif idle < launched:
        log.remark(f"{idle} of {launched} launches of CUDA graphs did nothing that CUPTI recorded. {_GRAPHS}")
    else:
        raise BackendError(
            f"CUPTI recorded {launched} launches of CUDA graphs, and nothing that they did. It may not see a graph that"
            f" was made before the first window of the process: make it inside one. {_GRAPHS}"
        )


def check_last_call(calls: Calls, span: Span) -> None:
    """Check that the backend's own wait at the end of *span* was recorded: then all before it was, too.

    Raises BackendError if it was not: another profiler took CUPTI over inside the window.
    """
    if not (calls.start[calls.of(_synchronizes)] >= span.end).any():
        raise BackendError(
            "CUPTI stopped recording inside the window: another profiler was started in this process"
            " (torch.profiler, jax.profiler, cupy's or nsys' API), and CUPTI serves one. Run this test without it"
        )


def loads(calls: Calls, span: Span) -> Collection[int]:
    """Return the intervals in which code was loaded onto the GPU, as at the end of compiling or inside a launch."""
    times = np.concatenate([calls.start[calls.of(lambda name: name.startswith(_LOADS))], calls.loaded])
    return set(span.interval(times[span.has(times)]).tolist())


def devices(work: Work, inside: NDArray[np.bool_]) -> list[int]:
    """Return the numbers of the GPUs that did some of the *work*."""
    return [int(device) for device in np.unique(work.device[inside])]
