"""CUPTI's records -> events of a log: what the GPU did, under the call of CUDA that asked for it.

A kernel, a copy or a set is an op; it belongs to the interval in which the host called for it, since the GPU may do it
later. The call is an event around it that is not counted itself. Synchronisations are ops of the host: counted, without
device time. Other calls are not recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...ops import cuda_calls, cuda_kernels, names
from ...ops.cuda_calls import CUDA_COPIES
from ...profile import kernels
from ...profile.attribution import NOBODY
from ...profile.columns import ABSENT
from ...profile.event_log import EventLog
from .cupti_records import DRIVER, KERNEL, MEMCPY, MEMSET, PEER_COPY, RUNTIME, SHAPE, Table

SYNCHRONIZE = "Synchronize"
BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""Set to 1 before CUDA is initialised, it lets each launch of a kernel return when that is done."""
_BEGIN_CAPTURE, _END_CAPTURE = "StreamBeginCapture", "StreamEndCapture"
_TAKEN = "Another profiler in this process may have taken them (torch.profiler, jax.profiler); run without it"
_LOADS = ("cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuLinkComplete")
_LOADED = "code was compiled for the GPU or loaded onto it: wall times include that; a longer warm-up keeps it out"


@dataclass(frozen=True, slots=True)
class Span:
    """When a window was open, and where its intervals begin: ns on CUPTI's clock."""

    begin: int
    end: int
    marks: Sequence[int] = ()

    def has(self, when: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which of the moments are inside."""
        inside: NDArray[np.bool_] = (when >= self.begin) & (when < self.end)
        return inside

    def interval(self, when: NDArray[Any]) -> NDArray[np.int64]:
        """Return the interval of each moment."""
        return np.searchsorted(np.array(self.marks, np.uint64), when, side="right").astype(np.int64)


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of CUDA: columns, in the order of time."""

    functions: tuple[str, ...]
    function: NDArray[np.int64]
    """Index into *functions*."""
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    correlation: NDArray[np.uint32]
    outer: NDArray[np.int64]
    """The call that made this one, itself for one that the program made: the runtime calls the driver."""
    failed: NDArray[np.bool_]
    captured: NDArray[np.bool_]
    """Whether any thread recorded a CUDA graph then: the call may start nothing. Autograd's thread launches into it."""

    @cached_property
    def by_correlation(self) -> NDArray[np.int64]:
        """The calls in the order of their correlation: sorted once for all that look work up."""
        return np.argsort(self.correlation, kind="stable")

    def of(self, chosen: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Tell which calls the program made are of a *chosen* function."""
        wanted = np.array([*map(chosen, self.functions), False])
        found: NDArray[np.bool_] = wanted[self.function] & (self.outer == np.arange(len(self.function)))
        return found


@dataclass(frozen=True, eq=False)
class Work:
    """What the GPU did: columns."""

    ops: tuple[tuple[str, str], ...]
    """Name and, where the name does not say it, op."""
    op: NDArray[np.int64]
    """Index into *ops*."""
    start: NDArray[np.uint64]
    device_ns: NDArray[np.int64]
    """The GPU's own time; ABSENT where CUPTI did not time it, which it says by zeros."""
    duration_ns: NDArray[np.int64]
    """What is said of it: another with sync timing, ABSENT where the time is said of the op around it."""
    nbytes: NDArray[np.int64]
    place: NDArray[np.int32]
    """See `kernels.places`."""
    correlation: NDArray[np.uint32]

    @property
    def device(self) -> NDArray[np.int32]:
        """The number of the GPU."""
        number: NDArray[np.int32] = self.place[0]
        return number


def is_known(name: str) -> bool:
    """Tell whether *name* is one that a log may have: any other is a mistake in a budget."""
    return cuda_calls.starts_device_work(name) or name in (names.UNLINKED, "MemcpyHtoH")


def calls_of(records: Mapping[int, Table], function: Callable[[int, int], str]) -> Calls:
    """Return the calls among *records*; *function* names one by its kind and callback number."""
    kinds = np.concatenate([np.full(len(records[kind]["start"]), kind) for kind in (RUNTIME, DRIVER)])
    columns = {name: np.concatenate([records[kind][name] for kind in (RUNTIME, DRIVER)]) for name in records[RUNTIME]}
    # A call comes before those that it makes, also where the clock is too coarse to tell.
    order = np.lexsort((kinds != RUNTIME, ~columns["end"], columns["start"]))
    kinds, columns = kinds[order], {name: values[order] for name, values in columns.items()}
    numbers, function_of = np.unique(kinds.astype(np.int64) << 32 | columns["callback"], return_inverse=True)
    functions = tuple(function(number >> 32, number & 0xFFFFFFFF) for number in numbers.tolist())
    outer = np.arange(len(kinds))
    by_capture = np.array([_captures(name) for name in functions] or [0])[function_of]
    captured = np.cumsum(by_capture) > 0
    for thread in np.unique(columns["thread"]):
        own = np.flatnonzero(columns["thread"] == thread)
        outer[own] = own[_outer(columns["end"][own])]
    return Calls(
        functions,
        function_of,
        columns["start"],
        columns["end"],
        columns["correlation"],
        outer,
        columns["result"] != 0,
        captured,
    )


def _captures(function: str) -> int:
    return (_BEGIN_CAPTURE in function) - (_END_CAPTURE in function)


def _outer(end: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each call of a thread, in the order of time, the outermost one that it lies in."""
    latest = np.maximum.accumulate(end)
    first = np.concatenate([[True], end[1:] > latest[:-1]])
    return np.maximum.accumulate(np.where(first, np.arange(len(end)), 0))


def work_of(records: Mapping[int, Table], text: Callable[[int], str]) -> Work:
    """Return the work among *records*; *text* returns the kernel's name at an address."""
    tables = [records[kind] for kind in (KERNEL, MEMCPY, PEER_COPY, MEMSET)]
    addresses, kernel = np.unique(tables[0]["name"], return_inverse=True)
    ops = [_kernel(text(address)) for address in addresses.tolist()]
    numbers = [kernel]
    for table in tables[1:3]:
        kinds, copy = np.unique(table["copy_kind"], return_inverse=True)
        numbers.append(copy + len(ops))
        ops += [(CUDA_COPIES.get(kind, "Memcpy"), "") for kind in kinds.tolist()]
    numbers.append(np.full(len(tables[3]["start"]), len(ops)))
    ops.append(("Memset", ""))
    start, end = (np.concatenate([table[name] for table in tables]) for name in ("start", "end"))
    device_ns = np.where((start == 0) | (end < start), ABSENT, (end - start).astype(np.int64))
    return Work(
        tuple(ops),
        np.concatenate(numbers),
        start,
        device_ns,
        device_ns,
        np.concatenate(
            [table["bytes"].astype(np.int64) if "bytes" in table else np.full(len(kernel), ABSENT) for table in tables]
        ),
        np.concatenate([_place(table) for table in tables], axis=1),
        np.concatenate([table["correlation"] for table in tables]),
    )


def _place(table: Table) -> NDArray[np.int32]:
    return kernels.places(table["device"], table["stream"], [table[name] for name in SHAPE if name in table])


def _kernel(raw: str) -> tuple[str, str]:
    return cuda_kernels.demangled(raw), cuda_kernels.canonical(raw)


def check_blocking() -> None:
    """Check that launches were to block from the start of the process. Raises BackendError where they were not."""
    if os.environ.get(BLOCKING) != "1":
        raise BackendError(
            "sync timing needs launches that block from the start of the process: run pytest --opprof-timing=sync, or"
            f" set {BLOCKING}=1"
        )


def waited_ns(
    calls: Calls, correlation: NDArray[np.uint32], start: NDArray[np.uint64], duration_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the times of work as a host sees them whose launches block: sync timing.

    From the call that asked for it (or the end of what that call asked for before) to its own end; the last also has
    what the call took after it, so that the times of a call's work add up to the call. Work that CUPTI did not time,
    or whose call is not known, keeps its time. Raises BackendError where launches did not block.
    """
    caller = callers(calls, correlation)
    known = np.flatnonzero((caller != NOBODY) & (duration_ns != ABSENT))
    end = start.astype(np.int64) + duration_ns
    known = known[np.lexsort((end[known], caller[known]))]
    caller, end = caller[known], end[known]
    _check_blocked(calls, caller, start[known])
    is_first = np.diff(caller, prepend=NOBODY) != 0
    is_last = np.append(is_first[1:], True)[: len(known)]
    begin = np.where(is_first, calls.start.astype(np.int64)[caller], np.roll(end, 1))
    until = np.where(is_last, np.maximum(end, calls.end.astype(np.int64)[caller]), end)
    found: NDArray[np.int64] = duration_ns.copy()
    found[known] = np.maximum(until - begin, 0)
    return found


def _check_blocked(calls: Calls, caller: NDArray[np.int64], start: NDArray[np.uint64]) -> None:
    # Half of them: a kernel may also start before a launch that does not block returns. Copies and graphs never block.
    launched = calls.of(lambda name: cuda_calls.is_launch(name) and "Graph" not in name)[caller]
    late = np.count_nonzero(start[launched] > calls.end[caller[launched]])
    if late * 2 > np.count_nonzero(launched):
        raise BackendError(
            f"sync timing needs launches that block, and {late} kernels began after theirs had returned: CUDA was"
            f" initialised before {BLOCKING}=1 was set. Run pytest --opprof-timing=sync, and initialise it no earlier"
        )


def fill(
    log: EventLog,
    calls: Calls,
    work: Work,
    span: Span,
    parents: NDArray[np.int64] | None = None,
    cause: str = _TAKEN,
) -> NDArray[np.bool_]:
    """Append what happened in *span* to *log*; return which of the *work* that is.

    *parents* are the events of the log that the calls lie in. Raises BackendError, with the likely *cause*, where a
    kernel was launched and is not among the *work*.
    """
    parents = np.full(len(calls.start), NOBODY) if parents is None else parents
    caller, asked = _asked(calls, work)
    inside = span.has(asked)
    busy = np.bincount(caller[inside & (caller != NOBODY)], minlength=len(calls.start)) > 0
    _check_kernels(calls, busy, span, cause)
    host = np.flatnonzero(busy | (calls.of(_synchronizes) & span.has(calls.start)))
    alone = np.flatnonzero(inside & (caller == NOBODY))
    done = np.flatnonzero(inside)[np.argsort(work.start[inside], kind="stable")]
    # Where the event of each call will be, and for work without a call where that of its stand-in will be.
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
    for interval in sorted(loads(calls, span)):
        log.remark(_LOADED, interval)
    return inside


def _asked(calls: Calls, work: Work) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the call that asked for each work, and when; for work without a call, when it began."""
    caller = callers(calls, work.correlation)
    return caller, np.where(caller == NOBODY, work.start, calls.start[caller] if len(calls.start) else 0)


def busy_ns(calls: Calls, work: Work, span: Span) -> dict[int, int]:
    """Return for each interval how long its work kept the GPUs busy: each GPU by itself, what overlaps once."""
    asked = _asked(calls, work)[1]
    timed = np.flatnonzero(span.has(asked) & (work.device_ns != ABSENT))
    timed = timed[np.argsort(work.start[timed], kind="stable")]
    start = work.start[timed].astype(np.int64)
    end = start + work.device_ns[timed]
    group = span.interval(asked[timed]) << 32 | work.device[timed].astype(np.int64)
    busy: dict[int, int] = {}
    for number in np.unique(group).tolist():
        own = group == number
        before = np.concatenate([start[own][:1], np.maximum.accumulate(end[own])[:-1]])
        length = np.maximum(end[own] - np.maximum(start[own], before), 0).sum()
        busy[number >> 32] = busy.get(number >> 32, 0) + int(length)
    return busy


def callers(calls: Calls, correlation: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the call of the program that started the work of each *correlation*, -1 where it was not recorded."""
    if not len(calls.start):
        return np.full(len(correlation), NOBODY)
    order = calls.by_correlation
    numbers = calls.correlation[order]
    at = np.minimum(np.searchsorted(numbers, correlation), len(order) - 1)
    return np.where(numbers[at] == correlation, calls.outer[order[at]], NOBODY)


def _named(log: EventLog, calls: Calls, function: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the log's numbers of the names of functions; those of others stay unknown to it: they are not counted."""
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
    # A graph may be without kernels.
    launched = calls.of(lambda name: cuda_calls.is_launch(name) and "Graph" not in name) & span.has(calls.start)
    lost = np.count_nonzero(launched & ~busy & ~calls.failed & ~calls.captured)
    if lost:
        raise BackendError(
            f"CUPTI lost {lost} of {np.count_nonzero(launched)} kernels: their launches are recorded, they are not."
            f" {cause}"
        )


def check_last_call(calls: Calls, span: Span) -> None:
    """Check that the backend's own wait at the end of *span* was recorded, and so all before it.

    Raises BackendError where it was not: another profiler took CUPTI away inside the window.
    """
    if not (calls.start[calls.of(_synchronizes)] >= span.end).any():
        raise BackendError(
            "CUPTI stopped recording inside the window: another profiler was started in this process"
            " (torch.profiler, jax.profiler, cupy's or nsys' API), and CUPTI serves one. Run this test without it"
        )


def loads(calls: Calls, span: Span) -> Collection[int]:
    """Return the intervals in which code was loaded onto the GPU: what compiling ends with."""
    loading = calls.of(lambda name: name.startswith(_LOADS)) & span.has(calls.start)
    return set(span.interval(calls.start[loading]).tolist())


def devices(work: Work, inside: NDArray[np.bool_]) -> list[int]:
    """Return the numbers of the GPUs that did some of the *work*."""
    return [int(device) for device in np.unique(work.device[inside])]
