"""What CUPTI recorded, as columns: the calls of CUDA, and the work of GPUs that they asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...ops import cuda_kernels
from ...ops.cuda_calls import CUDA_COPIES, is_graph_launch
from ...profile import kernels
from ...profile.attribution import NOBODY
from ...profile.columns import ABSENT
from .cupti_records import DRIVER, KERNEL, LOADING, MEMCPY, MEMSET, OVERHEAD, PEER_COPY, RUNTIME, SHAPE, Table

_BEGIN_CAPTURE, _END_CAPTURE = "StreamBeginCapture", "StreamEndCapture"


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls of CUDA: columns, ordered by time."""

    functions: tuple[str, ...]
    function: NDArray[np.int64]
    """Index into *functions*."""
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    correlation: NDArray[np.uint32]
    outer: NDArray[np.int64]
    """The index of the program's own call around each, as the runtime calls the driver; of such a call, its own."""
    failed: NDArray[np.bool_]
    captured: NDArray[np.bool_]
    """Whether any thread captured a CUDA graph then: the call may start nothing, also in another thread."""
    loaded: NDArray[np.uint64]
    """When code was loaded inside calls that do something else, as launches do."""
    thread: NDArray[np.int64]

    @cached_property
    def by_correlation(self) -> NDArray[np.int64]:
        """The indices of the calls, ordered by correlation."""
        return np.argsort(self.correlation, kind="stable")

    def of(self, chosen: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Tell which calls the program made itself, of *chosen* functions."""
        wanted = np.array([*map(chosen, self.functions), False])
        found: NDArray[np.bool_] = wanted[self.function] & (self.outer == np.arange(len(self.function)))
        return found


@dataclass(frozen=True, eq=False)
class Work:
    """What the GPU did: columns."""

    ops: tuple[tuple[str, str], ...]
    """Each name with its op; the op is empty if the name says it."""
    op: NDArray[np.int64]
    """Index into *ops*."""
    start: NDArray[np.uint64]
    device_ns: NDArray[np.int64]
    """The GPU's own time; ABSENT if CUPTI did not time it and recorded zeros."""
    duration_ns: NDArray[np.int64]
    """The time to report: that of the host with sync timing; ABSENT if the op around it has the time."""
    nbytes: NDArray[np.int64]
    place: NDArray[np.int32]
    """See `kernels.places`."""
    correlation: NDArray[np.uint32]
    graph_node: NDArray[np.uint64]
    """The node of a CUDA graph that it was; 0 if it was none, or nothing tells."""

    @property
    def device(self) -> NDArray[np.int32]:
        """The number of the GPU."""
        number: NDArray[np.int32] = self.place[0]
        return number


def calls_of(records: Mapping[int, Table], function: Callable[[int, int], str]) -> Calls:
    """Return the calls in *records*; *function* returns the name for a kind of record and a callback number."""
    kinds = np.concatenate([np.full(len(records[kind]["start"]), kind) for kind in (RUNTIME, DRIVER)])
    columns = {name: np.concatenate([records[kind][name] for kind in (RUNTIME, DRIVER)]) for name in records[RUNTIME]}
    # A call comes before the calls inside it, even if they begin and end at the same time.
    order = np.lexsort((kinds != RUNTIME, ~columns["end"], columns["start"]))
    kinds, columns = kinds[order], {name: values[order] for name, values in columns.items()}
    numbers, function_of = np.unique(kinds.astype(np.int64) << 32 | columns["callback"], return_inverse=True)
    functions = tuple(function(number >> 32, number & 0xFFFFFFFF) for number in numbers.tolist())
    outer, overhead = np.arange(len(kinds)), records[OVERHEAD]
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
        overhead["start"][np.isin(overhead["what"], LOADING)],
        columns["thread"].astype(np.int64),
    )


def _captures(function: str) -> int:
    return (_BEGIN_CAPTURE in function) - (_END_CAPTURE in function)


def _outer(end: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each call of a thread, ordered by time, the outermost call around it, or itself."""
    latest = np.maximum.accumulate(end)
    first = np.concatenate([[True], end[1:] > latest[:-1]])
    return np.maximum.accumulate(np.where(first, np.arange(len(end)), 0))


def work_of(records: Mapping[int, Table], text: Callable[[int], str]) -> Work:
    """Return the work in *records*; *text* returns the name of a kernel from its address."""
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
        np.concatenate([table["graph_node"] for table in tables]),
    )


def _place(table: Table) -> NDArray[np.int32]:
    return kernels.places(table["device"], table["stream"], [table[name] for name in SHAPE if name in table])


def _kernel(raw: str) -> tuple[str, str]:
    return cuda_kernels.demangled(raw), cuda_kernels.canonical(raw)


def callers(calls: Calls, correlation: NDArray[np.uint32], graph_node: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the call of the program that started the work of each *correlation*; `NOBODY` if it was not recorded.

    It is `NOBODY` too where a node of a graph has the number of a call that launches no graph. Before 13.1 Update 1
    CUPTI gives such numbers, in all windows of a process but the first.
    """
    if not len(calls.start):
        return np.full(len(correlation), NOBODY)
    order = calls.by_correlation
    numbers = calls.correlation[order]
    at = np.minimum(np.searchsorted(numbers, correlation), len(order) - 1)
    found = np.where(numbers[at] == correlation, calls.outer[order[at]], NOBODY)
    launches_graph = np.append(calls.of(is_graph_launch), False)  # the last one is for `NOBODY`
    return np.where((graph_node != 0) & ~launches_graph[found], NOBODY, found)
