"""Convert a window recorded by torch's profiler with CUDA into a log: work of GPUs inside the op that launched it.

The device time of an op is that of the kernels it launched itself. The op has the time, so the kernels inside it are
counted without times of their own. Everything counts as `saved.kineto` counts it in the file of the same session:
copies between host and device, memsets, collectives and waits wherever they happen; a copy that is a memcpy only as
that memcpy. Work without an op (a graph's replay, CuPy, Triton) is an op with the name of the kernel. If no GPU worked,
the times are those of the CPU.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from ....ops import cuda_calls, cuda_kernels
from ....ops.cuda_kernels import is_nccl, moved
from ....profile import kernels
from ....profile.columns import ABSENT
from ....profile.environment import Environment
from ....profile.events.attribution import NOBODY
from ....profile.events.event_log import EventLog
from ...live.contract import Options
from ...nvidia.live import events as cuda_events
from ...nvidia.live import libcupti, nvml, sync_timing
from ...nvidia.live.activity import Work
from ...nvidia.live.calls import Calls, calls_of, synchronizes
from ...nvidia.live.cupti_records import DRIVER, LOADING, OVERHEAD, RUNTIME, Table
from ...nvidia.live.events import Span
from ...nvidia.live.links import GRAPHS_FROM, Numbers, callers
from ...nvidia.live.nvml import Look
from ..events import compiler_kernels
from .host_ops import HostOps
from .kineto import NO_SHAPE, Activity, Call, Op, Recorded, recorded
from .marks import MARK, check_all

KERNELS_LOST = (
    "Known cause: https://github.com/pytorch/pytorch/issues/192021 (CUPTI 12.6 Update 2 to 13.0). Initialise CUDA"
    " before the window or in a warm-up, and measure fewer tests in one process"
)
_NOT_RECORDED = (
    "torch's profiler recorded no call of CUDA at the end of the window: another profiler has CUPTI, the buffer was"
    " full, or TEARDOWN_CUPTI=1 is set. Run this test without these, or measure less in one test"
)
_UNLINKED = (
    "kernels and copies without a recorded call: {}. They count in the round in which they began. torch's profiler"
    " misses most driver calls of Numba, JAX and PyCUDA, their waits too. Without torch imported, opprof records"
    " them all"
)
# The op of a kernel that an op launched: a part of that op, as the launch is.
_OF_ITS_OP = "cudaLaunchKernel"
_NEVER = 1 << 63
_ALWAYS, _PLAIN = Span(0, _NEVER), Options()


def read(
    events: Iterable[Any],
    log: EventLog,
    options: Options,
    contexts: int,
    looks: Sequence[Mapping[int, Look]],
    grad_numbers: tuple[int, int] = (0, 0),
) -> None:
    """Append the program's part of a session's *events* to *log*: everything between the first mark and the last.

    *contexts* is the number of CUDA contexts that the last wait covered, *looks* are NVML's answers before and after,
    *grad_numbers* are autograd's next numbers before and after.
    """
    import torch

    session = recorded(events)
    marks = sorted(op.start for op in session.ops if op.name == MARK)
    check_all(len(marks), log.interval + 2)
    begin, *marks, end = marks
    if contexts:
        check_waited(session, end)
    log.marked_ns = marks
    session = session.between(begin, end)
    span = Span(0, _NEVER, marks, end)
    used = fill(log, session, span, options, graphs_hold=_graphs_hold(), grad_numbers=grad_numbers)
    if used:
        models = "+".join(sorted({torch.cuda.get_device_name(device) for device in used}))
        frameworks = (("cuda", str(torch.version.cuda)), *log.environment.frameworks)
        log.environment = Environment(frameworks, models, timing=options.timing)
        before, after = looks
        nvml.tell(log, before, after, used)
    log.knows_flops, log.knows_memory = True, bool(options.memory)


@cache
def _graphs_hold() -> bool:
    """Return True if CUPTI numbers graphs correctly; False for an unknown CUPTI inside PyTorch."""
    version = libcupti.loaded_version()
    return version is not None and version >= GRAPHS_FROM


def check_waited(session: Recorded, end: int) -> None:
    """Check that the wait after *end* was recorded, and thus all work before it. Raises BackendError if not."""
    after = {cuda_calls.without_api_version(call.name) for call in session.calls if call.start >= end}
    if not any(map(synchronizes, after)):
        raise BackendError(_NOT_RECORDED)


def fill(
    log: EventLog,
    session: Recorded,
    span: Span = _ALWAYS,
    options: Options = _PLAIN,
    *,
    graphs_hold: bool = True,
    grad_numbers: tuple[int, int] = (0, 0),
) -> list[int]:
    """Append a recording to *log*; return the numbers of the GPUs that worked.

    *graphs_hold*: nodes of CUDA graphs have the number of their launch. *grad_numbers*: see `HostOps.tell_sites`.
    Raises BackendError if a kernel was launched but not recorded, or if launches should block and did not.
    """
    marks, moments, blocking = span.marks, options.moments, options.timing == "sync"
    host = HostOps(session.ops, session.calls)
    kernels_before = len(session.activities)
    session = session.without(host.compiler_calls, [op for _, op in host.compiled])
    if left_out := kernels_before - len(session.activities):
        log.remark(compiler_kernels(left_out))
    for _, op in host.compiled:
        log.counts.get("grad_nodes", {}).pop(bisect_right(marks, op.start), None)  # tracing makes nodes, too
    calls, activities = _calls(session), session.activities
    on_device = bool(activities)
    ops = np.array([host.around[correlation] for correlation in calls.correlation.tolist()], np.int64)
    numbers = Numbers(
        np.array([done.start for done in activities], np.uint64),
        np.array([done.correlation for done in activities], np.uint32),
        np.array([done.graph_node for done in activities], np.int64),
        np.array([done.graph for done in activities], np.int64),
    )
    caller = callers(calls, numbers, graphs_hold)
    # The item after the last call is for work whose call was not recorded.
    homes = np.append(ops, NOBODY)[caller].tolist()
    for done, home in zip(activities, homes):
        if home != NOBODY:
            host.did(done, home)
    if collectives := [index for index, done in enumerate(activities) if is_nccl(done.name)]:
        began = np.append(calls.start, 0)[caller].tolist()
        log.communication_ns = communication = dict[int, int]()
        for index in collectives:
            # The round that launched it, if known.
            interval = bisect_right(marks, began[index] or activities[index].start)
            communication[interval] = communication.get(interval, 0) + activities[index].duration_ns
    work = _work(activities, homes, caller)
    if on_device and blocking:
        sync_timing.check_blocking()
        waited_ns = sync_timing.waited_ns(calls, work)
        work = replace(work, duration_ns=np.where(work.duration_ns == ABSENT, ABSENT, waited_ns))
        host.ops = _until_done(host, activities, homes)
    elif on_device:
        log.busy_ns = cuda_events.busy_ns(calls, work, span)
    first = host.append_to(log, marks, on_device=on_device and not blocking, moments=moments)
    parents = np.where(ops == NOBODY, NOBODY, ops + first)
    sites = None
    if log.chains is not None:
        of_call = host.tell_sites(log, first, marks, grad_numbers)
        sites = [of_call[correlation] for correlation in calls.correlation.tolist()]
    cuda_events.fill(
        log, calls, work, span, parents, KERNELS_LOST, sites=sites, moments=moments, graphs_hold=graphs_hold
    )
    if alone := np.count_nonzero(caller == NOBODY):
        log.remark(_UNLINKED.format(alone))
    for allocation in session.allocations:
        # If a GPU worked, only its memory counts.
        if allocation.on_device == on_device:
            log.allocated(allocation.nbytes, bisect_right(marks, allocation.time))
    return sorted({done.device for done in activities})


def _until_done(host: HostOps, activities: Sequence[Activity], homes: Sequence[int]) -> list[Op]:
    """Return the ops of *host* as if the host waited for all the work it launches, copies and graphs included.

    An op lasts until its work is done, and begins when the op before it in its thread is done.
    """
    ends = [op.end for op in host.ops]
    for done, home in zip(activities, homes):
        if home != NOBODY:
            ends[home] = max(ends[home], done.start + done.duration_ns)
    for index in range(len(ends) - 1, -1, -1):
        if (parent := host.parents[index]) != NOBODY:
            ends[parent] = max(ends[parent], ends[index])
    latest: dict[tuple[int, int], int] = {}  # the end of the op before each, in the same op of a thread
    begins, found = list[int](), list[Op]()
    for op, parent, end in zip(host.ops, host.parents, ends):
        begin = max(op.start, latest.get((op.thread, parent), 0), begins[parent] if parent != NOBODY else 0)
        begins.append(begin)
        latest[op.thread, parent] = max(begin, end)
        found.append(op._replace(duration_ns=max(end - begin, 0)))
    return found


def _calls(session: Recorded) -> Calls:
    raw = list(dict.fromkeys(call.name for call in session.calls))
    number = {name: index for index, name in enumerate(raw)}
    tables = {kind: _table([call for call in session.calls if call.kind == kind], number) for kind in (RUNTIME, DRIVER)}
    loaded = np.array(session.loaded, np.uint64)
    tables[OVERHEAD] = {"what": np.full(len(loaded), LOADING[0]), "start": loaded}
    return calls_of(tables, lambda _, index: cuda_calls.without_api_version(raw[index]))


def _table(calls: Sequence[Call], number: Mapping[str, int]) -> Table:
    return {
        "callback": np.array([number[call.name] for call in calls], np.int64),
        "start": np.array([call.start for call in calls], np.uint64),
        "end": np.array([call.end for call in calls], np.uint64),
        "thread": np.array([call.thread for call in calls], np.int64),
        "correlation": np.array([call.correlation for call in calls], np.uint32),
        "result": np.zeros(len(calls), np.uint32),  # Kineto does not record whether a call failed
    }


def _work(activities: Sequence[Activity], homes: Sequence[int], caller: NDArray[np.int64]) -> Work:
    """Return *activities* as columns; *homes* are the indices of their ops, *caller* of their calls."""
    ops: dict[tuple[str, str], int] = {}
    numbers, durations = [], []
    for done, home in zip(activities, homes):
        name, does, timed = _named(done.name, home != NOBODY)
        numbers.append(ops.setdefault((name, does), len(ops)))
        durations.append(done.duration_ns if timed else ABSENT)
    return Work(
        tuple(ops),
        np.array(numbers, np.int64),
        np.array([done.start for done in activities], np.uint64),
        np.array([done.duration_ns for done in activities], np.int64),
        np.array(durations, np.int64),
        np.array([done.nbytes for done in activities], np.int64),
        kernels.places(
            np.array([done.device for done in activities], np.int64),
            np.array([done.stream for done in activities], np.int64),
            np.array([done.shape for done in activities], np.int64).reshape(-1, len(NO_SHAPE)).T,
        ),
        caller,
        np.array(
            [done.graph_node > 0 or (done.graph_node == ABSENT and not moved(done.name)) for done in activities], bool
        ),
    )


def _named(activity: str, has_op: bool) -> tuple[str, str, bool]:
    """Return name, op, and whether it has a time; a collective's time is mostly waiting for other ranks."""
    if move := moved(activity):
        return move, "", not is_nccl(activity)
    name = cuda_kernels.demangled(activity)
    return (name, _OF_ITS_OP, False) if has_op else (name, cuda_kernels.canonical(activity), True)
