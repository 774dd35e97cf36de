"""What torch's profiler recorded in a window with CUDA -> events of a log: device work under the op that asked for it.

Kineto's events are taken one by one, as `torch.autograd.profiler` takes them, not as the event tree: there a call of
CUDA in another thread, or a kernel whose launch is not known, stands among the ops of the thread that stopped the
profiler, and tears those apart that run at the same time.

The device time of an op is that of the kernels it launched itself; it is said of the op, so that the kernels in it are
counted without times of their own. Everything counts as `readers.pytorch.kineto` reads it from the file of the same
session: copies between host and device, memsets, collectives and waits wherever they happen, a copy that is a memcpy as
that memcpy only. What no op asked for (a graph's replay, CuPy, Triton) is an op under the name of the kernel. Without
device work the CPU is the device.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...ops import cuda_calls, cuda_kernels, names
from ...ops.cuda_kernels import is_nccl, moved
from ...ops.dtypes import item_bytes, of_pytorch_event
from ...ops.names import Kind
from ...ops.pytorch_events import (
    COMPILING,
    KINDS,
    Compiler,
    Role,
    compiler_kernels,
    is_made_by,
    logged,
    may_work,
    meaning_as,
    role,
)
from ...ops.vocabulary import CASTS
from ...profile import kernels
from ...profile.attribution import NOBODY, owners
from ...profile.columns import ABSENT
from ...profile.event_log import EventLog
from ...profile.nesting import innermost, nested
from ..cuda import events as cuda_events
from ..cuda.cupti_records import DRIVER, RUNTIME, Table
from ..cuda.events import Calls, Span, Work

KERNELS_LOST = (
    "A known cause is https://github.com/pytorch/pytorch/issues/192021: after idle time a session of torch's profiler"
    " loses as many kernels as there were sessions before it, and the program ran more of its own than opprof allows"
    " for. Measure in a fresh process, or fewer tests in one. A launch that failed has no kernel either"
)
_NOT_RECORDED = (
    "torch's profiler recorded no call of CUDA at the end of the window, not even its own wait: another profiler has"
    " CUPTI (Nsight, a second collector in this process), its buffer was full, or TEARDOWN_CUPTI=1 is set. Run this"
    " test without these, or measure less in one test"
)
_OPS = frozenset(["cpu_op", "user_annotation"])
_CALLS = {"cuda_runtime": RUNTIME, "cuda_driver": DRIVER}
_ACTIVITIES = frozenset(["kernel", "gpu_memcpy", "gpu_memset"])
_COPIES = frozenset(CASTS["torch"].split())
_BYTES = re.compile(r'"bytes": (\d+)')
_SHAPE = re.compile(r'"grid": \[(\d+), *(\d+), *(\d+)\],\s*"block": \[(\d+), *(\d+), *(\d+)\]')
"""As PyTorch's traces of 2021 to 2026 have it: "grid": [1, 4096, 1], "block": [1024, 1, 1]."""
_NO_SHAPE = (0,) * 6
_OF_ITS_OP = "cudaLaunchKernel"
"""The op of a kernel that an op launched: like the launch a part of it."""
_MEMCPY = "cudaMemcpyAsync"
"""The op of a copy that is a memcpy: what it starts is counted."""
_NEVER = 1 << 63


class Op(NamedTuple):
    """An op or annotation on the host."""

    name: str
    thread: int
    start: int
    duration_ns: int
    number: int
    """Grows with time on a thread; what it asked for has it too."""
    dtypes: tuple[str, ...] = ()
    """Of the source and the destination, of copies."""
    flops: int = 0
    annotates: bool = False
    """Whether it is a `record_function`."""
    nbytes: int = ABSENT
    """Of both tensors, of copies."""
    numbered: bool = False
    """Whether it has a sequence number of autograd's."""

    @property
    def end(self) -> int:
        """When it ended."""
        return self.start + self.duration_ns


class Call(NamedTuple):
    """A call of CUDA."""

    name: str
    kind: int
    """RUNTIME or DRIVER."""
    thread: int
    start: int
    duration_ns: int
    correlation: int
    op: int = 0
    """The number of the op around it as Kineto links them, 0: none."""

    @property
    def end(self) -> int:
        """When it ended."""
        return self.start + self.duration_ns


class Activity(NamedTuple):
    """What a GPU did."""

    name: str
    start: int
    duration_ns: int
    correlation: int
    """That of the call that started it."""
    device: int = 0
    nbytes: int = ABSENT
    stream: int = kernels.UNKNOWN
    shape: tuple[int, ...] = _NO_SHAPE
    """Grid and block of a kernel."""


class Allocation(NamedTuple):
    """Memory that PyTorch gave out, or got back."""

    time: int
    nbytes: int
    on_device: bool


@dataclass
class Recorded:
    """A session's events."""

    ops: list[Op] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)

    def between(self, begin: int, end: int) -> Recorded:
        """Return what the program did: before *begin* opprof launched kernels, after *end* it waited."""
        ours = {call.correlation for call in self.calls if not begin <= call.start < end}
        return Recorded(
            [op for op in self.ops if begin <= op.start < end],
            [call for call in self.calls if call.correlation not in ours],
            [done for done in self.activities if done.correlation not in ours],
            [allocation for allocation in self.allocations if begin <= allocation.time < end],
        )

    def without(self, calls: Collection[int], ops: Sequence[Op]) -> Recorded:
        """Return what is left without these *calls*, by correlation, and without what was allocated during *ops*."""
        return Recorded(
            self.ops,
            [call for call in self.calls if call.correlation not in calls],
            [done for done in self.activities if done.correlation not in calls],
            [each for each in self.allocations if not any(op.start <= each.time < op.end for op in ops)],
        )


def recorded(events: Iterable[Any], flops: bool = False) -> Recorded:
    """Sort what Kineto recorded (`_KinetoEvent`); other categories repeat these, or say nothing of the program."""
    found = Recorded()
    for event in events:
        category = event.activity_type()
        if category in _OPS:
            found.ops.append(_op(event, category, flops))
        elif category in _CALLS:
            found.calls.append(_call(event, _CALLS[category]))
        elif category in _ACTIVITIES:
            found.activities.append(_activity(event, category))
        elif event.name() == "[memory]":
            found.allocations.append(Allocation(event.start_ns(), event.nbytes(), event.device_type().name != "CPU"))
    return found


def _op(event: Any, category: str, flops: bool) -> Op:
    name = event.name()
    tensors = [dtype for dtype in map(of_pytorch_event, event.dtypes()[:2]) if dtype] if name in _COPIES else []
    return Op(
        name,
        event.device_resource_id(),
        event.start_ns(),
        event.duration_ns(),
        event.correlation_id(),
        tuple(reversed(tensors)),
        event.flops() if flops else 0,
        category == "user_annotation",
        _copied_bytes(event) if name in _COPIES else ABSENT,
        event.sequence_nr() >= 0,
    )


def _copied_bytes(event: Any) -> int:
    sizes = [item_bytes(of_pytorch_event(kind)) for kind in event.dtypes()[:2]]
    known = [prod(shape) * size for shape, size in zip(event.shapes(), sizes) if size]
    return sum(known) if len(known) == 2 else ABSENT


def _call(event: Any, kind: int) -> Call:
    return Call(
        event.name(),
        kind,
        event.device_resource_id(),
        event.start_ns(),
        event.duration_ns(),
        event.correlation_id(),
        event.linked_correlation_id(),
    )


def _activity(event: Any, category: str) -> Activity:
    # Bytes, grid and block stand in no fields of their own.
    metadata, is_kernel = event.metadata_json(), category == "kernel"
    found = None if is_kernel else _BYTES.search(metadata)
    return Activity(
        event.name(),
        event.start_ns(),
        event.duration_ns(),
        event.correlation_id(),
        event.device_index(),
        int(found[1]) if found else ABSENT,
        event.device_resource_id(),
        _shape(metadata) if is_kernel else _NO_SHAPE,
    )


def _shape(metadata: str) -> tuple[int, ...]:
    # Few differ, and most of the text says other things: 0.7 us instead of 1.2.
    begin = metadata.find('"grid"')
    return _read_shape(metadata[begin : metadata.find("]", metadata.find('"block"', begin)) + 1])


@lru_cache(4096)
def _read_shape(text: str) -> tuple[int, ...]:
    found = _SHAPE.match(text)
    return tuple(map(int, found.groups())) if found else _NO_SHAPE


def check_waited(session: Recorded, end: int) -> None:
    """Check that the wait after *end* was recorded, and so all before it. Raises BackendError where it was not."""
    if not any(call.start >= end and _op_named(call.name) == cuda_events.SYNCHRONIZE for call in session.calls):
        raise BackendError(_NOT_RECORDED)


def _op_named(call: str) -> str:
    return names.meaning(cuda_calls.without_api_version(call)).op


def fill(log: EventLog, session: Recorded, marks: Sequence[int] = (), blocking: bool = False) -> list[int]:
    """Append what was recorded to *log*, whose intervals begin at *marks*; return the numbers of the GPUs that worked.

    *blocking*: launches block, and times are those of sync timing. Raises BackendError where a kernel was launched
    and not recorded, and where launches do not block though they are to.
    """
    span = Span(0, _NEVER, marks)
    host = _Host(session.ops, session.calls)
    kernels_before = len(session.activities)
    session = session.without(host.compiler_calls, [op for _, op in host.compiled])
    if left_out := kernels_before - len(session.activities):
        log.remark(compiler_kernels(left_out))
    calls = _calls(session.calls)
    activities = _waited(session.activities, calls) if blocking else session.activities
    on_device = bool(activities)
    ops = np.array([host.around[correlation] for correlation in calls.correlation.tolist()], np.int64)
    correlations = np.array([done.correlation for done in activities], np.uint32)
    # Behind the last call: that of work whose call is not known.
    homes = np.append(ops, NOBODY)[cuda_events.callers(calls, correlations)].tolist()
    for done, home in zip(activities, homes):
        if home != NOBODY:
            host.did(done, home)
    first = host.append_to(log, marks, on_device)
    parents = np.where(ops == NOBODY, NOBODY, ops + first)
    device_ns = np.array([done.duration_ns for done in session.activities], np.int64)
    work = _work(activities, homes, device_ns, correlations)
    if on_device and not blocking:
        log.busy_ns = cuda_events.busy_ns(calls, work, span)
    cuda_events.fill(log, calls, work, span, parents, KERNELS_LOST)
    for allocation in session.allocations:
        # Those of the host are another memory.
        if allocation.on_device == on_device:
            log.allocated(allocation.nbytes, bisect_right(marks, allocation.time))
    return sorted({done.device for done in activities})


def _waited(activities: Sequence[Activity], calls: Calls) -> Sequence[Activity]:
    """Return the *activities* with the times of sync timing."""
    if not activities:
        return activities
    cuda_events.check_blocking()
    found = cuda_events.waited_ns(
        calls,
        np.array([done.correlation for done in activities], np.uint32),
        np.array([done.start for done in activities], np.uint64),
        np.array([done.duration_ns for done in activities], np.int64),
    )
    return [done._replace(duration_ns=ns) for done, ns in zip(activities, found.tolist())]


class _Thread:
    """The ops of a thread, without what torch.compile did, but for the frames that it compiled."""

    def __init__(self, ops: Iterable[Op], roles: Iterable[Role]) -> None:
        """*ops* are in the order of time."""
        self.ops: list[Op] = []
        self.compiler = Compiler()
        self.compiling: set[int] = set()
        """The numbers of those in which it worked, and that lie in no other."""
        for op, what in zip(ops, roles):
            if what in COMPILING and op.start >= self.compiler.until:
                self.compiling.add(op.number)
            if not self.compiler.leaves_out(op.start, op.end, what):
                self.ops.append(op)
        self._starts, self._ends = [op.start for op in self.ops], [op.end for op in self.ops]
        self.parents, _ = nested(self._starts, self._ends)

    def innermost(self, call: Call) -> Op | None:
        """Return the op that *call* is in, or at least begins in."""
        found = innermost(self._starts, self._ends, self.parents, call.start, call.end)
        return None if found == NOBODY else self.ops[found]


class _Host:
    """The ops, and what the GPU did for each."""

    def __init__(self, ops: Sequence[Op], calls: Sequence[Call]) -> None:
        self.ops: list[Op] = []
        """Without annotations: what is inside those is taken as if they were not there."""
        self.parents: list[int] = []
        self.around: dict[int, int] = {}
        """The index of the op around the call with a correlation."""
        self.compiled: list[tuple[int, Op]] = []
        """When torch.compile worked, and the index of the op around."""
        self.compiler_calls: set[int] = set()
        """The correlations of what it called meanwhile."""
        self._logged = logged(op.name for op in ops)
        self._roles: dict[str, Role] = {}
        self._nest(ops, calls)
        alike: dict[tuple[str, tuple[str, ...]], int] = {}
        numbers = [alike.setdefault((op.name, op.dtypes), len(alike)) for op in self.ops]
        meanings = [meaning_as(self._roles[name], name, dtypes) for name, dtypes in alike]
        self._meanings = [meanings[number] for number in numbers]
        self._owners = owners(self.parents, numbers, meanings)
        self._device_ns = [0] * len(self.ops)
        self._does = [""] * len(self.ops)
        """What an op does that its name does not tell."""
        self._workers: set[str] = set()
        """Wrappers and groups that launched kernels themselves."""

    def _nest(self, ops: Iterable[Op], calls: Sequence[Call]) -> None:
        by_thread: defaultdict[int, list[Op]] = defaultdict(list)
        for op in sorted(ops, key=lambda op: (op.start, op.number)):
            by_thread[op.thread].append(op)
        threads = {thread: _Thread(own, map(self._role, own)) for thread, own in by_thread.items()}
        place: dict[int, int] = {}
        for thread in threads.values():
            for op, parent in zip(thread.ops, thread.parents):
                around = NOBODY if parent == NOBODY else place[thread.ops[parent].number]
                if op.number in thread.compiling:
                    self.compiled.append((around, op))
                is_op = self._role(op) not in (Role.ANNOTATION, Role.COMPILES)
                place[op.number] = self._add(op, around) if is_op else around
        for call in calls:
            op_around = threads[call.thread].innermost(call) if call.thread in threads else None
            self.around[call.correlation] = NOBODY if op_around is None else place[op_around.number]
            if call.thread in threads and threads[call.thread].compiler.ran_at(call.start):
                self.compiler_calls.add(call.correlation)
        # Kineto's own links are better than the times, and absent where a call was outside of all ops.
        self.around.update({call.correlation: place[call.op] for call in calls if call.op in place})

    def _add(self, op: Op, parent: int) -> int:
        self.ops.append(op)
        self.parents.append(parent)
        return len(self.ops) - 1

    def _role(self, op: Op) -> Role:
        if op.name not in self._roles:
            self._roles[op.name] = role(op.name, op.annotates, op.numbered, op.name in self._logged)
        return self._roles[op.name]

    def did(self, done: Activity, home: int) -> None:
        """Say that a GPU did something that the op *home* asked for."""
        move = moved(done.name)
        if not (move and is_nccl(done.name)):  # a collective has no time of its own
            self._device_ns[home] += done.duration_ns
        if move:
            self._is_memcpy(home, move)
        elif may_work(self._meanings[home]):
            self._workers.add(self.ops[home].name)

    def _is_memcpy(self, home: int, move: str) -> None:
        """Let a plain copy stand aside for the memcpy that it is."""
        owner = self._owners[home]
        if not is_made_by(self._meanings[owner], move):
            return
        while home != NOBODY:
            if is_made_by(self._meanings[home], move):
                self._does[home] = _MEMCPY
            home = NOBODY if home == owner else self.parents[home]

    def append_to(self, log: EventLog, marks: Sequence[int], on_device: bool) -> int:
        """Append the ops to *log*, with their device time if *on_device*; return the index of the first."""
        first, intervals = len(log), list[int]()
        times = self._inclusive() if on_device else [op.duration_ns for op in self.ops]
        for index, (op, parent, time) in enumerate(zip(self.ops, self.parents, times)):
            is_outermost = parent == NOBODY
            intervals.append(bisect_right(marks, op.start) if is_outermost else intervals[parent])
            what = self._roles[op.name]
            kind = Kind.GRAPH if op.name in self._workers else KINDS.get(what)
            name = log.name(op.name, op.dtypes, self._does[index], kind)
            time = ABSENT if what is Role.FRAME else time
            nbytes = ABSENT if self._does[index] else op.nbytes  # those of a memcpy are said of the memcpy
            event = log.add(name, time, NOBODY if is_outermost else first + parent, intervals[index], nbytes)
            if op.flops:
                log.computed(event, op.flops)
        for around, compiled in self.compiled if not on_device else ():
            if around != NOBODY:
                log.compiling(first + around, compiled.duration_ns)
        return first

    def _inclusive(self) -> list[int]:
        times = list(self._device_ns)
        for index in range(len(times) - 1, -1, -1):
            if self.parents[index] != NOBODY:
                times[self.parents[index]] += times[index]
        return times


def _calls(calls: Sequence[Call]) -> Calls:
    raw = list(dict.fromkeys(call.name for call in calls))
    number = {name: index for index, name in enumerate(raw)}
    tables = {kind: _table([call for call in calls if call.kind == kind], number) for kind in (RUNTIME, DRIVER)}
    return cuda_events.calls_of(tables, lambda _, index: cuda_calls.without_api_version(raw[index]))


def _table(calls: Sequence[Call], number: Mapping[str, int]) -> Table:
    return {
        "callback": np.array([number[call.name] for call in calls], np.int64),
        "start": np.array([call.start for call in calls], np.uint64),
        "end": np.array([call.end for call in calls], np.uint64),
        "thread": np.array([call.thread for call in calls], np.int64),
        "correlation": np.array([call.correlation for call in calls], np.uint32),
        "result": np.zeros(len(calls), np.uint32),  # Kineto does not say whether a call failed
    }


def _work(
    activities: Sequence[Activity],
    homes: Sequence[int],
    device_ns: NDArray[np.int64],
    correlations: NDArray[np.uint32],
) -> Work:
    """Return the columns of *activities*; *homes* are the ops that asked for them."""
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
        device_ns,
        np.array(durations, np.int64),
        np.array([done.nbytes for done in activities], np.int64),
        kernels.places(
            np.array([done.device for done in activities], np.int64),
            np.array([done.stream for done in activities], np.int64),
            np.array([done.shape for done in activities], np.int64).reshape(-1, len(_NO_SHAPE)).T,
        ),
        correlations,
    )


def _named(activity: str, has_op: bool) -> tuple[str, str, bool]:
    """Return the name, the op, and whether the time is its own: that of a collective is mostly waiting for others."""
    if move := moved(activity):
        return move, "", not is_nccl(activity)
    name = cuda_kernels.demangled(activity)
    return (name, _OF_ITS_OP, False) if has_op else (name, cuda_kernels.canonical(activity), True)
