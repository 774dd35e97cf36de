"""Sort Kineto's events of one session into ops, calls of CUDA, work of GPUs and allocations.

The events are read one by one, as `torch.autograd.profiler` reads them, not as an event tree. In the tree, a call of
CUDA from another thread, or a kernel without a recorded launch, stands among the ops of the thread that stopped the
profiler, and separates ops that run at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import methodcaller
from typing import Any, NamedTuple

from ....ops.cuda_calls import is_graph_launch
from ....ops.signature import UNKNOWN, Signature
from ....profile import kernels
from ....profile.columns import ABSENT
from ...nvidia.live.cupti_records import DRIVER, RUNTIME
from ..events import MEMORY
from ..formulas import USE_ATTRIBUTES
from ..work import Works, recorded_work

_OPS = frozenset(["cpu_op", "user_annotation"])
_CALLS = {"cuda_runtime": RUNTIME, "cuda_driver": DRIVER}
_ACTIVITIES = frozenset(["kernel", "gpu_memcpy", "gpu_memset"])
_OVERHEAD = "overhead"
_LOADING = frozenset(["Runtime Triggered Module Loading", "Lazy Function Loading"])
_OVERHEADS = _LOADING | {
    *("Activity Buffer Request", "Buffer Flush", "Command Buffer Full", "Driver Compiler", "Instrumentation"),
    *("Resource", "UVM Activity Init"),
}
"""Kineto's names for CUPTI's own time (overheadKindString). CUPTI 13.0 numbers them as it numbers calls: on an H200 the
number of a "Lazy Function Loading" was that of an op, which then lost its memcpy to it."""
_NAMELESS = "INVALID"
"""A call of CUDA that CUPTI has no name for: seen on an H200 for each cast while a CUDA graph was captured."""
_CUDA_CALL = re.compile(r"cu(da)?[A-Z]\w*")
_BYTES, _GRAPH, _GRAPH_NODE = '"bytes": ', '"graph id": ', '"graph node id": '
# As in PyTorch's traces of 2021 to 2026: "grid": [1, 4096, 1], "block": [1024, 1, 1].
_SHAPE = re.compile(r'"grid": \[(\d+), *(\d+), *(\d+)\],\s*"block": \[(\d+), *(\d+), *(\d+)\]')
_DIGITS = re.compile(r"\d+")
# The grid and block of work that has none.
NO_SHAPE = (0,) * 6


# The work of the ops of earlier recordings, by their names and arguments: few differ.
_DONE = Works()


class Op(NamedTuple):
    """An op or annotation on the host."""

    name: str
    thread: int
    start: int
    duration_ns: int
    number: int
    """It grows with time on a thread. Calls of CUDA inside the op are linked to it."""
    dtypes: tuple[str, ...] = ()
    """Of a copy: the dtypes of its source and destination."""
    flops: int | None = None
    annotates: bool = False
    """Whether it is a `record_function`."""
    nbytes: int = ABSENT
    """The bytes that it reads and writes."""
    sequence: tuple[int, int] | None = None
    """The sequence number from autograd, after the thread that counts it: the forward op's."""
    signature: Signature = UNKNOWN

    @property
    def end(self) -> int:
        """The end time."""
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
    """The number of the op around it, by Kineto's links; 0 if there is none."""

    @property
    def end(self) -> int:
        """The end time."""
        return self.start + self.duration_ns


class Activity(NamedTuple):
    """Work of a GPU: a kernel, a copy or a set."""

    name: str
    start: int
    duration_ns: int
    correlation: int
    """The correlation of the call that started it."""
    device: int = 0
    nbytes: int = ABSENT
    stream: int = kernels.UNKNOWN
    shape: tuple[int, ...] = NO_SHAPE
    """Grid and block of a kernel."""
    graph_node: int = ABSENT
    """Its node in a CUDA graph; 0 without a graph, ABSENT if PyTorch does not tell, as before 2.12."""
    graph: int = 0
    """The executable graph of that node."""


class Allocation(NamedTuple):
    """Memory that PyTorch gave to the program, or got back."""

    time: int
    nbytes: int
    on_device: bool


@dataclass
class Recorded:
    """The recording of one session."""

    ops: list[Op] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    loaded: list[int] = field(default_factory=list)
    """The times at which code was loaded onto the GPU inside other calls."""

    def between(self, begin: int, end: int) -> Recorded:
        """Return the program's part. Before *begin* opprof launched kernels of its own, after *end* it waited."""
        ours = {call.correlation for call in self.calls if not begin <= call.start < end}
        return Recorded(
            [op for op in self.ops if begin <= op.start < end],
            [call for call in self.calls if call.correlation not in ours],
            self._not_of(ours),
            [allocation for allocation in self.allocations if begin <= allocation.time < end],
            [time for time in self.loaded if begin <= time < end],
        )

    def _not_of(self, calls: Collection[int]) -> list[Activity]:
        """Return the work that none of the *calls* (correlations) launched.

        A node of a graph may have the number of any call: see `nvidia.live.links`.
        """
        graphs = {call.correlation for call in self.calls if is_graph_launch(call.name)}
        return [
            done
            for done in self.activities
            if done.correlation not in calls or (done.graph_node > 0 and done.correlation not in graphs)
        ]

    def without(self, calls: Collection[int], ops: Sequence[Op]) -> Recorded:
        """Return the recording without the *calls* (correlations) and their work, and without allocations during the
        *ops*.
        """
        return Recorded(
            self.ops,
            [call for call in self.calls if call.correlation not in calls],
            self._not_of(calls),
            [each for each in self.allocations if not any(op.start <= each.time < op.end for op in ops)],
            self.loaded,
        )


def recorded(events: Iterable[Any]) -> Recorded:
    """Sort events (`_KinetoEvent`). Other categories repeat these, or do not come from the program."""
    # Each attribute is read once, and only if needed: on a machine with an H200 each takes 0.3 to 0.8 us.
    found, category_of = Recorded(), None
    for event in events:
        if category_of is None:
            category_of = _category_of(event)
        category = category_of(event)
        if category in _OPS:
            found.ops.append(_op(event, category))
        elif category in _CALLS:
            found.calls.append(_call(event, _CALLS[category]))
        elif category in _ACTIVITIES:
            found.activities.append(_activity(event, category))
        elif category == _OVERHEAD and event.name() in _LOADING:
            found.loaded.append(event.start_ns())
        elif event.name() == MEMORY:
            found.allocations.append(Allocation(event.start_ns(), event.nbytes(), not _is_of_host(event)))
    return found


def _category_of(event: Any) -> Callable[[Any], str]:
    """Return the function that returns the category of events like *event*, as in PyTorch's traces: ``cpu_op``,
    ``cuda_runtime``, ``kernel`` and the like.
    """
    return methodcaller("activity_type") if hasattr(event, "activity_type") else category_by_name


def category_by_name(event: Any) -> str:
    """Return the category of an event of PyTorch 2.10 or 2.11, which does not record it."""
    name, on_host = event.name(), _is_of_host(event)
    if event.is_user_annotation():
        return "user_annotation" if on_host else "gpu_user_annotation"
    if name.startswith("["):  # [memory], also of the GPU
        return "cpu_instant_event"
    if not on_host:
        if name.startswith(("Memcpy ", "Memset ")):
            return "gpu_memcpy" if name.startswith("Memcpy ") else "gpu_memset"
        return "kernel" if '"grid"' in event.metadata_json() else "cuda_sync"
    if name == _NAMELESS:
        return "cuda_runtime"
    if call := _CUDA_CALL.fullmatch(name):
        return "cuda_runtime" if call[1] else "cuda_driver"
    return "cpu_op" if event.correlation_id() and name not in _OVERHEADS else _OVERHEAD


def _is_of_host(event: Any) -> bool:
    # The name of an enum of pybind takes 3.8 us, its number 1 us. 0 is the CPU.
    return int(event.device_type()) == 0


def _op(event: Any, category: str) -> Op:
    name, dtypes, number = event.name(), event.dtypes(), event.sequence_nr()
    # Annotations and the functions of autograd have no arguments.
    shapes = event.shapes() if dtypes else []
    if "TensorList" in dtypes and hasattr(event, "structured_input_shapes"):  # from PyTorch 2.12 on
        shapes = event.structured_input_shapes()
        case: tuple[object, ...] = (name, *dtypes, str(shapes))
    else:
        case = (name, *dtypes, *map(tuple, shapes))
    attributes = event.concrete_inputs() if name in USE_ATTRIBUTES else ()
    if attributes:
        case = (*case, str(attributes))
    done = _DONE.get(case)
    if done is None:
        done = _DONE.keep(case, recorded_work(name, dtypes, shapes, attributes))
    return Op(
        name,
        event.device_resource_id(),
        event.start_ns(),
        event.duration_ns(),
        event.correlation_id(),
        done.dtypes,
        done.flops,
        category == "user_annotation",
        ABSENT if done.nbytes is None else done.nbytes,
        None if number < 0 else (event.fwd_thread_id() or event.start_thread_id(), number),
        done.signature,
    )


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
    # Bytes, grid and block have no fields of their own.
    metadata, is_kernel = event.metadata_json(), category == "kernel"
    return Activity(
        event.name(),
        event.start_ns(),
        event.duration_ns(),
        event.correlation_id(),
        event.device_index(),
        ABSENT if is_kernel else _number(_BYTES, metadata, ABSENT),
        event.device_resource_id(),
        _shape(metadata) if is_kernel else NO_SHAPE,
        _number(_GRAPH_NODE, metadata, ABSENT),
        _number(_GRAPH, metadata, 0),
    )


def _number(label: str, metadata: str, otherwise: int) -> int:
    # Most work has neither bytes nor a graph, and is searched faster without a pattern.
    place = metadata.find(label)
    found = _DIGITS.match(metadata, place + len(label)) if place >= 0 else None
    return otherwise if found is None else int(found[0])


def _shape(metadata: str) -> tuple[int, ...]:
    # Only this part of the text is read, and few differ, so they are cached: 0.7 us instead of 1.2.
    begin = metadata.find('"grid"')
    return _read_shape(metadata[begin : metadata.find("]", metadata.find('"block"', begin)) + 1])


@lru_cache(4096)
def _read_shape(text: str) -> tuple[int, ...]:
    found = _SHAPE.match(text)
    return tuple(map(int, found.groups())) if found else NO_SHAPE
