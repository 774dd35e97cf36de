"""Convert records of MSPTI into a log: kernels inside their launches, copies and sets.

A kernel, a copy or a set is an op. It belongs to the interval in which it was launched, however late it runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from ....ops.names import Kind
from ....profile import kernels
from ....profile.columns import ABSENT
from ....profile.events.attribution import NOBODY
from ....profile.events.event_log import EventLog
from ....units import plural
from ..kernels import op_type
from .mspti import Mspti
from .mspti_records import KERNEL, MEMCPY, MEMSET, NODE_API, Table
from .session import Recorded

# MSPTI's numbers. 5 is a copy whose direction the runtime finds out.
COPIES = {1: "MemcpyHtoH", 2: "MemcpyHtoD", 3: "MemcpyDtoH", 4: "MemcpyDtoD"}
# Ops that are not recorded unless libmspti is preloaded.
UNSEEN = ("MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD", "MemcpyHtoH", "Memcpy", "Memset")
_NO_STREAM = 2**32 - 1


def is_known(name: str, names_launches: bool) -> bool:
    """Return True if a log may have the *name*, given whether launches have names; in a budget any other is a
    mistake.
    """
    return (names_launches and name.startswith("aclnn")) or name in UNSEEN


def fill(log: EventLog, recorded: Recorded, mspti: Mspti, moments: bool = False) -> None:
    """Append the launches of the window to *log*; *moments*: also record when kernels ran.

    Raises BackendError for a kernel without its times.
    """
    work = recorded.records[KERNEL]
    if len(wrong := np.flatnonzero((work["start"] == 0) | (work["end"] < work["start"]))):
        raise BackendError(
            f"MSPTI recorded {plural(len(wrong), 'kernel')} without times, as {mspti.text(int(work['name'][wrong[0]]))}"
        )
    interval = _intervals(recorded)
    inside = np.flatnonzero(interval >= 0)
    inside = inside[np.argsort(work["start"][inside], kind="stable")]
    work, interval = {name: column[inside] for name, column in work.items()}, interval[inside]
    parents = _launches(log, recorded, work, interval, mspti)
    addresses, name = np.unique(work["name"], return_inverse=True)
    raws = [mspti.text(address) for address in addresses.tolist()]
    numbers = np.array([log.name(raw, op=op if (op := op_type(raw)) != raw else "") for raw in raws], np.int64)
    duration = (work["end"] - work["start"]).astype(np.int64)
    first = len(log)
    absent = np.full(len(inside), ABSENT)
    log.extend(numbers[name], duration, parents, interval, absent)
    if moments:
        log.marked_ns = recorded.mark_start.tolist()
        for event, start, end in zip(range(first, len(log)), work["start"].tolist(), work["end"].tolist()):
            log.ran(event, start, end)
    moved = _moves(log, recorded)
    log.on_device = kernels.Events(
        np.arange(first, len(log)),
        np.concatenate([kernels.places(work["device"], work["stream"]), moved], axis=1),
        np.concatenate([duration, np.full(moved.shape[1], kernels.UNKNOWN)]),
    )


def busy_ns(recorded: Recorded) -> dict[int, int]:
    """Return the busy time of the NPU for each interval; overlapping kernels count once."""
    work, interval = recorded.records[KERNEL], _intervals(recorded)
    order = np.argsort(work["start"], kind="stable")
    start, end, interval = work["start"][order].astype(np.int64), work["end"][order].astype(np.int64), interval[order]
    numbers = np.unique(interval[interval >= 0]).tolist()
    return {number: kernels.busy_ns(start[interval == number], end[interval == number]) for number in numbers}


def check_alone(recorded: Recorded) -> None:
    """Check that no two kernels ran at once, as each launch waited. Raises BackendError if some did."""
    work = recorded.records[KERNEL]
    order = np.argsort(work["start"], kind="stable")
    start, end = work["start"][order], work["end"][order]
    if overlaps := int((start[1:] < np.maximum.accumulate(end)[:-1]).sum() if len(start) else 0):
        raise BackendError(
            f"sync timing needs launches that wait for their kernels, and {plural(overlaps, 'kernel')} began before"
            " another had ended: the program launches from several threads, or ACL itself, which does not wait"
        )


def _intervals(recorded: Recorded) -> NDArray[np.int64]:
    """Return the interval of each kernel's launch; -1 after the window.

    The kernels of a graph have the numbers of its capture in each replay. Numbers from before the window, or shared by
    several kernels, are assigned by run time: a fence waits for the work before it, and later work waits for the fence.
    """
    work = recorded.records[KERNEL]
    number = work["correlation"]
    interval = np.searchsorted(recorded.marks, number, side="right").astype(np.int64)
    interval[number > recorded.end] = -1
    _, same, times = np.unique(number, return_inverse=True, return_counts=True)
    replayed = (times[same] > 1) | (number <= recorded.begin)
    by_time = np.searchsorted(recorded.mark_start, work["start"], side="right")
    return np.where(replayed, by_time, interval)


def _launches(
    log: EventLog, recorded: Recorded, work: Table, interval: NDArray[np.int64], mspti: Mspti
) -> NDArray[np.int64]:
    """Append the known launches of the kernels; return the event around each kernel.

    A launch has the number of its last kernel. A later call in the same thread that launches nothing has it as well, so
    the first one counts.
    """
    nodes = recorded.records[NODE_API]
    numbers, first = np.unique(nodes["correlation"], return_index=True)
    parents = np.full(len(interval), NOBODY)
    if not len(numbers) or not len(interval):
        return parents
    at = np.minimum(np.searchsorted(numbers, work["correlation"]), len(numbers) - 1)
    known = np.flatnonzero(numbers[at] == work["correlation"])
    addresses, name = np.unique(nodes["name"][first[at[known]]], return_inverse=True)
    names = np.array([log.name(mspti.text(address), kind=Kind.WRAPPER) for address in addresses.tolist()], np.int64)
    parents[known] = len(log) + np.arange(len(known))
    absent, alone = np.full(len(known), ABSENT), np.full(len(known), NOBODY)
    log.extend(names[name], absent, alone, interval[known], absent)
    return parents


def _moves(log: EventLog, recorded: Recorded) -> NDArray[np.int32]:
    """Append copies and sets; return their places. MSPTI knows the time of the host's call, not their own."""
    found = []
    for kind in (MEMCPY, MEMSET):
        table = recorded.records[kind]
        number = table["correlation"]
        inside = (number > recorded.begin) & (number < recorded.end)
        table = {name: column[inside] for name, column in table.items()}
        count = int(inside.sum())
        raws = (
            ["Memset"] * count
            if kind == MEMSET
            else [COPIES.get(copy, "Memcpy") for copy in table["copy_kind"].tolist()]
        )
        log.extend(
            np.array([log.name(raw) for raw in raws], np.int64),
            np.full(count, ABSENT),
            np.full(count, NOBODY),
            np.searchsorted(recorded.marks, table["correlation"], side="right"),
            table["bytes"].astype(np.int64),
        )
        stream = np.where(table["stream"] == _NO_STREAM, kernels.UNKNOWN, table["stream"].astype(np.int64))
        found.append(kernels.places(table["device"], stream))
    return np.concatenate(found, axis=1)
