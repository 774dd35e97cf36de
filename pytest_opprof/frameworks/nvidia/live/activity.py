"""The work of the GPUs from CUPTI's records, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....ops import cuda_kernels
from ....ops.cuda_calls import CUDA_COPIES
from ....profile import kernels
from ....profile.columns import ABSENT
from ....profile.events.attribution import NOBODY
from .calls import Calls, synchronizes
from .cupti_records import KERNEL, MEMCPY, MEMSET, PEER_COPY, SHAPE, Table
from .links import Numbers, callers


@dataclass(frozen=True, eq=False)
class Work:
    """The work of the GPU: columns."""

    ops: tuple[tuple[str, str], ...]
    """Each name with its op; the op is empty if the name tells it."""
    op: NDArray[np.int64]
    """Index into *ops*."""
    start: NDArray[np.uint64]
    device_ns: NDArray[np.int64]
    """The GPU's own time; ABSENT if CUPTI did not time it and recorded zeros."""
    duration_ns: NDArray[np.int64]
    """The time to report: the host's with sync timing; ABSENT if the op around it has the time."""
    nbytes: NDArray[np.int64]
    place: NDArray[np.int32]
    """See `kernels.places`."""
    caller: NDArray[np.int64]
    """The index of the program's call that launched it; `NOBODY` if unknown."""
    may_be_node: NDArray[np.bool_]
    """Whether it was a node of a CUDA graph, or may have been one if CUPTI does not tell."""

    @property
    def device(self) -> NDArray[np.int32]:
        """The number of the GPU."""
        number: NDArray[np.int32] = self.place[0]
        return number


def work_of(records: Mapping[int, Table], calls: Calls, text: Callable[[int], str], graphs_hold: bool) -> Work:
    """Return the work in *records*; *text* returns the name of a kernel from its address.

    *graphs_hold*: whether nodes of graphs have the number of their launch.
    """
    waits = calls.correlation[calls.of(synchronizes)]
    tables = [_without_later(records[kind], waits[-1:]) for kind in (KERNEL, MEMCPY, PEER_COPY, MEMSET)]
    addresses, kernel = np.unique(tables[0]["name"], return_inverse=True)
    ops = [_kernel(text(address)) for address in addresses.tolist()]
    op = [kernel]
    for table in tables[1:3]:
        kinds, copy = np.unique(table["copy_kind"], return_inverse=True)
        op.append(copy + len(ops))
        ops += [(CUDA_COPIES.get(kind, "Memcpy"), "") for kind in kinds.tolist()]
    op.append(np.full(len(tables[3]["start"]), len(ops)))
    ops.append(("Memset", ""))
    start, end, correlation, node, graph = (
        np.concatenate([table[name] for table in tables])
        for name in ("start", "end", "correlation", "graph_node", "graph")
    )
    caller = callers(calls, Numbers(start, correlation, node, graph.astype(np.int64)), graphs_hold)
    # A call that CUPTI did not time is treated like an unrecorded one.
    caller[(caller != NOBODY) & (np.append(calls.start, 0)[caller] == 0)] = NOBODY
    device_ns = np.where((start == 0) | (end < start), ABSENT, (end - start).astype(np.int64))
    return Work(
        tuple(ops),
        np.concatenate(op),
        start,
        device_ns,
        device_ns,
        np.concatenate(
            [table["bytes"].astype(np.int64) if "bytes" in table else np.full(len(kernel), ABSENT) for table in tables]
        ),
        np.concatenate([_place(table) for table in tables], axis=1),
        caller,
        node != 0,
    )


def _without_later(table: Table, wait: NDArray[np.uint32]) -> Table:
    """Return *table* without untimed work of calls later than the last recorded *wait* (its number; empty for none).

    That is opprof's own, after the window. On an H100, of work that another thread began to launch just before the
    recording stopped, CUPTI kept neither the time nor the call. It numbers calls in their order. Nodes of a graph may
    have any number: see `links`.
    """
    if not len(wait):
        return table
    is_later = (table["correlation"] - wait).astype(np.int32) > 0
    kept = (table["start"] != 0) | (table["graph_node"] != 0) | ~is_later
    return {name: values[kept] for name, values in table.items()}


def _place(table: Table) -> NDArray[np.int32]:
    return kernels.places(table["device"], table["stream"], [table[name] for name in SHAPE if name in table])


def _kernel(raw: str) -> tuple[str, str]:
    return cuda_kernels.demangled(raw), cuda_kernels.canonical(raw)
