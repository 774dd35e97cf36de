"""Convert CUDA activity into a log: the work of the GPU, inside the call of CUDA that launched it.

A kernel, a copy or a set is an op. It belongs to the interval in which the host launched it, as the GPU may do it
later. The launching call is an event around it, and no op. A synchronisation is an op of the host, without device time.
Other calls are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from ....ops import cuda_calls, names
from ....profile import kernels
from ....profile.columns import ABSENT
from ....profile.events.attribution import NOBODY
from ....profile.events.event_log import EventLog
from ....sites.chains import UNKNOWN
from ....units import plural
from .activity import Work
from .calls import Calls, synchronizes

_TAKEN = "Another profiler in this process (torch.profiler, jax.profiler) may have taken them. Run without it"
_LOADS = ("cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuLinkComplete")
_LOADED = "code was compiled for the GPU or loaded onto it: wall times include that. Use a longer warm-up"
_GRAPHS = " CUPTI before 13.1 Update 1 numbers graph launches wrongly. Install a newer one if your CUDA allows it"
_UNTIMED = "kernels or copies that CUPTI did not time: {}. Device times lack them"


@dataclass(frozen=True, slots=True)
class Span:
    """The open time of a window and the beginnings of its intervals: ns on CUPTI's clock."""

    begin: int
    end: int
    marks: Sequence[int] = ()
    waited: int = 1 << 63
    """The start of the last wait for the GPU."""

    def has(self, when: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the times inside."""
        inside: NDArray[np.bool_] = (when >= self.begin) & (when < self.end)
        return inside

    def waited_for(self, calls: Calls) -> NDArray[np.bool_]:
        """Return a mask of *calls* that returned before the last wait. Others, of other threads, may have sent work
        after it.
        """
        returned: NDArray[np.bool_] = calls.end <= self.waited
        return returned

    def interval(self, when: NDArray[Any]) -> NDArray[np.int64]:
        """Return the interval of each time."""
        return np.searchsorted(np.array(self.marks, np.uint64), when, side="right").astype(np.int64)


def is_known(name: str) -> bool:
    """Return True if a log may have the *name*; in a budget any other is a mistake."""
    return cuda_calls.starts_device_work(name) or name in (names.UNLINKED, "MemcpyHtoH")


def fill(
    log: EventLog,
    calls: Calls,
    work: Work,
    span: Span,
    parents: NDArray[np.int64] | None = None,
    cause: str = _TAKEN,
    sites: Sequence[tuple[int, bool]] | None = None,
    moments: bool = False,
    graphs_hold: bool = True,
) -> NDArray[np.bool_]:
    """Append the program's calls in *span* to *log*; return a mask of their *work*.

    *parents* are the log's events around the calls, *sites* their lines as `EventLog.asked_at` takes them; *moments*:
    also record start times; *graphs_hold*: CUPTI numbers launches of graphs correctly. Raises BackendError, with the
    likely *cause*, if a kernel was launched and is not in *work*, or if the time of some work is unknown.
    """
    parents = np.full(len(calls.start), NOBODY) if parents is None else parents
    caller, asked = work.caller, _asked(calls, work, span)
    inside = span.has(asked)
    busy = np.bincount(caller[inside & (caller != NOBODY)], minlength=len(calls.start)) > 0
    _check_kernels(calls, busy, span, cause)
    alone = np.flatnonzero(inside & (caller == NOBODY))
    graphs = calls.of(cuda_calls.is_graph_launch) & span.has(calls.start) & ~calls.failed & ~calls.captured
    graphs &= busy | span.waited_for(calls)
    nodes_alone = int(work.may_be_node[alone].sum())
    _check_graphs(log, int(graphs.sum()), int((graphs & ~busy).sum()), nodes_alone, "" if graphs_hold else _GRAPHS)
    _check_copies(log, calls, busy, span)
    if untimed := np.count_nonzero(inside & (work.device_ns == ABSENT)):
        log.remark(_UNTIMED.format(untimed))
    host = np.flatnonzero(busy | graphs | (calls.of(synchronizes) & span.has(calls.start)))
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
        for event, call in enumerate(asking.tolist(), first):
            if call != NOBODY and sites[call][0] != UNKNOWN:
                log.asked_at(event, *sites[call])
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


def _asked(calls: Calls, work: Work, span: Span) -> NDArray[np.uint64]:
    """Return the time of each work's call; for work without a call, its own start.

    Work that began after the window belongs to it all the same, because nothing has waited for it: it was launched by
    the latest call that starts work, or an earlier one. So does a node of a graph that began after the latest graph
    launch. Raises BackendError for work that has neither a call nor a time.
    """
    alone = work.caller == NOBODY
    if lost := np.count_nonzero(alone & (work.start == 0) & (work.device_ns == ABSENT)):
        raise BackendError(
            f"CUPTI recorded kernels or copies without times and without the calls that launched them: {lost}, which"
            " may be from outside the window. Measure less in one window"
        )
    asked = np.where(alone, work.start, np.append(calls.start, np.uint64(0))[work.caller])
    for late, starts in (
        (alone & (work.start >= span.waited), cuda_calls.starts_device_work),
        (alone & work.may_be_node, cuda_calls.is_graph_launch),
    ):
        made = calls.start[calls.of(starts) & span.has(calls.start) & span.waited_for(calls)]
        latest = np.uint64(made[-1] if len(made) else span.waited - 1)
        asked[late] = np.minimum(asked[late], latest)
    return asked


def busy_ns(calls: Calls, work: Work, span: Span) -> dict[int, int]:
    """Return the busy time of the GPUs for each interval: the sum over GPUs, overlapping work counted once."""
    asked = _asked(calls, work, span)
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


def _check_kernels(calls: Calls, busy: NDArray[np.bool_], span: Span, cause: str) -> None:
    launched = calls.of(cuda_calls.is_kernel_launch) & span.has(calls.start) & (busy | span.waited_for(calls))
    lost = np.count_nonzero(launched & ~busy & ~calls.failed & ~calls.captured)
    if lost:
        raise BackendError(
            f"CUPTI lost {lost} of {plural(np.count_nonzero(launched), 'kernel')}: it recorded only their launches."
            f" {cause}"
        )


def _check_copies(log: EventLog, calls: Calls, busy: NDArray[np.bool_], span: Span) -> None:
    """Add a remark if calls that copy or set memory have no recorded work."""
    copies = calls.of(cuda_calls.moves) & span.has(calls.start) & ~calls.failed & ~calls.captured
    if idle := np.count_nonzero(copies & ~busy & span.waited_for(calls)):
        log.remark(
            f"not counted: {idle} of {plural(np.count_nonzero(copies), 'call')} to copy or set memory. No work was"
            " recorded for them. Copies of 0 bytes have no record, nor copies between GPUs in PyTorch's profiler"
        )


def _check_graphs(log: EventLog, launched: int, idle: int, alone: int, cause: str) -> None:
    """Add a remark if some of the *launched* graphs are *idle*, without any work; *alone* are nodes without a call.

    Raises BackendError if all work of all graphs is missing: a graph without any is rare, and an empty profile would
    pass every budget.
    """
    if not idle:
        return
    if alone >= idle:
        log.remark(
            f"{plural(idle, 'launch')} of CUDA graphs without work of their own, and kernels and copies without a"
            f" launch: {alone}, which count in the round in which they began.{cause}"
        )
    elif idle < launched:
        log.remark(f"{idle} of {plural(launched, 'launch')} of CUDA graphs did nothing that CUPTI recorded.{cause}")
    else:
        raise BackendError(
            f"CUPTI recorded {plural(launched, 'launch')} of CUDA graphs, and"
            f" {f'only {alone} of their nodes' if alone else 'nothing that they did'}. CUPTI may miss graphs"
            f" that were made before the first window. Make the graph inside one.{cause}"
        )


def check_last_call(calls: Calls, span: Span) -> None:
    """Check that the backend's own wait at the end of *span* was recorded, and thus all calls before it.

    Raises BackendError if not: another profiler took CUPTI over inside the window.
    """
    if not (calls.start[calls.of(synchronizes)] >= span.end).any():
        raise BackendError(
            "CUPTI stopped recording inside the window: another profiler was started (torch.profiler, jax.profiler,"
            " cupyx.profiler, nsys). Run this test without it"
        )


def loads(calls: Calls, span: Span) -> Collection[int]:
    """Return the intervals in which code was loaded onto the GPU, as at the end of compiling or inside a launch."""
    times = np.concatenate([calls.start[calls.of(lambda name: name.startswith(_LOADS))], calls.loaded])
    return set(span.interval(times[span.has(times)]).tolist())


def devices(work: Work, inside: NDArray[np.bool_]) -> list[int]:
    """Return the numbers of the GPUs that did some of the *work*."""
    return [int(device) for device in np.unique(work.device[inside])]
