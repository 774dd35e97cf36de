"""The timeline of Ascend: from the timelines of CANN and torch_npu (`timeline` describes them), or from the start times
in a table of kernels.

Of the process ``Ascend Hardware``: tasks of the cores compute; ``MEMCPY``, ``SDMA`` and ``PCIE_DMA`` copy, all others
wait or signal. Of ``HCCL`` the ops on a thread with ``Communication`` in its name; its ``Plane N`` and ``Overlap
Analysis`` repeat these. Events on the host (``cpu_op``, ``python_function``, CANN's calls) are in other processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....profile.saved import COMMUNICATION_PLACES
from ....timeline.spans import Kind, Lane, Timeline
from ...files import tables as shared_tables
from ...files.chrome_events import STEP, read_events
from ...files.durations import Untimed
from ...files.place import Place
from .tables import opened
from .tasks import is_kernel

if TYPE_CHECKING:
    from ...files.chrome_event_types import TimedTaskEvent

_COPIES = re.compile(r"(?i:memcpy|sdma|pcie_dma|memset)")
_HOST_KINDS = {"cpu_op": Kind.OP, "user_annotation": Kind.RANGE}
_ITERATION = re.compile(r"Iteration (\d+)")
# In step_trace: communication of an iteration, used if task_time has none of it.
_REDUCE = re.compile(r"Reduce_\d+_\d+")
_LEFT_OUT = frozenset(["python_function"])
_REPEATS = frozenset(["Overlap Analysis"])
# The parent of all lanes of the device: tasks, and communication beside them.
_NPU = "NPU"
_MOST_NS = 1 << 62
_START, _DURATION = "start time", "duration"


def of_timelines(places: Iterable[Place], partial: bool) -> Timeline:
    """Return the spans of Chrome traces. Raises TraceError."""
    from ...files.chrome_event_types import TimedTaskEvent

    found, untimed = Timeline(), Untimed(partial)
    for place in places:
        processes: dict[str, str] = {}
        threads: dict[tuple[str, str], str] = {}
        for piece in read_events(place, TimedTaskEvent, None, partial):
            for event in piece:  # torch_npu writes the names of threads after their events, so this is read twice
                if event.ph == "M" and event.name == "process_name":
                    processes[str(event.pid)] = event.args.name
                elif event.ph == "M" and event.name == "thread_name":
                    threads[str(event.pid), str(event.tid)] = event.args.name
        for piece in read_events(place, TimedTaskEvent, None, partial):
            for event in piece:
                if event.ph != "X" or event.cat in _LEFT_OUT:
                    continue
                process = processes.get(str(event.pid)) or f"process {event.pid}"
                thread = threads.get((str(event.pid), str(event.tid))) or f"thread {event.tid}"
                kind = _kind(event, process, thread)
                if kind is None:
                    continue
                start, duration = _ns(event.ts), _ns(event.dur)
                if start is None or duration is None or duration < 0:
                    untimed.add(place, f"{event.name[:80]!r} at {event.ts} us", left_out=True)
                    continue
                step = STEP.fullmatch(event.name) or _ITERATION.fullmatch(event.name)
                on_device = process in ("Ascend Hardware", "HCCL") or kind is Kind.COMMUNICATION
                lane = Lane(_NPU, f"{process} {thread}", True) if on_device else Lane(process, thread)
                found.add(lane, step[1] if step else event.name, Kind.STEP if step else kind, start, duration)
    return found


def _kind(event: TimedTaskEvent, process: str, thread: str) -> Kind | None:
    """Return the kind of an event; None for one that repeats others."""
    if process in _REPEATS:
        return None
    if process == "HCCL":
        return Kind.COMMUNICATION if "Communication" in thread else None
    if process == "Ascend Hardware":
        if thread.startswith("Step Trace"):
            return None
        task = event.args.task_type
        return Kind.OP if is_kernel(task, event.name) else Kind.COPY if _COPIES.match(task) else Kind.WAIT
    if process == "Step Trace" and _REDUCE.fullmatch(event.name):
        return Kind.COMMUNICATION
    return _HOST_KINDS.get(event.cat, Kind.CALL)


def _ns(us: str | float) -> int | None:
    """Return ns, exact for texts; None for an invalid time."""
    try:
        if isinstance(us, str):
            exact = Decimal(us)
            ns = round(exact * 1000) if exact.is_finite() and abs(exact) < _MOST_NS else _MOST_NS
        else:
            ns = round(us * 1000) if isfinite(us) else _MOST_NS
    except (InvalidOperation, OverflowError):
        return None
    return ns if abs(ns) < _MOST_NS else None


def of_tables(places: Iterable[Place], device: int | None, partial: bool) -> Timeline | None:
    """Return the spans of the kernels in tables; None for tables without start times. Raises TraceError."""
    found, untimed = Timeline(), Untimed(partial)
    for place in places:
        table = opened(place)
        if _START not in table.columns or _DURATION not in table.columns:
            return None
        columns = ("device", "stream id", "name", "core", _START, _DURATION)
        for number, row in enumerate(table.rows(*columns, remarks=[] if partial else None), 2):
            on, stream, name, core, *times = row
            if device is not None and shared_tables.known(on) not in ("", str(device)):
                continue
            start, duration = (_ns(time.strip()) for time in times)
            if start is None or duration is None or duration < 0:
                untimed.add(place, f"{name[:80]!r} in row {number}", left_out=True)
                continue
            communicates = core in COMMUNICATION_PLACES or name.startswith("hcom_")
            kind = Kind.COMMUNICATION if communicates else Kind.OP
            lane = Lane(_NPU, "communication" if communicates else f"stream {stream}" if stream else "kernels", True)
            found.add(lane, name, kind, start, duration)
    if not found:
        raise TraceError(f"{place}: has no rows: the profiler recorded nothing")
    return found
