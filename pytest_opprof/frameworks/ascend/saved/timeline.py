"""Timelines of Ascend, read if there are no tables: Chrome traces of CANN's msprof and of torch_npu, bare arrays.

``PROF_*/device_0/timeline/task_time_<device>_<model>_<iteration>.json`` and ``msprof_...json`` (before CANN 8), later
``msprof_<time>.json``; torch_npu's ``trace_view.json``. If a folder also has tables, these are read (`profile`),
because they have types and shapes. Of the timelines in a folder ``task_time`` is preferred; each iteration is a step.
The wall times of steps come from ``step_trace_...json`` beside it. ``task_time`` has no communication, which is read
from the ``msprof`` of each iteration. If one is missing, communication is the intervals ``Reduce_<iteration>_<number>``
of ``step_trace``, which are 0.1 % longer than the ops in them.

Events with ``ph`` X, ``dur`` in us:

- with ``Task Type`` in ``args``: a task of the device, named after its node or kernel. Tasks of the cores are read, and
  kernels of the type ``Other``; the rest (``EVENT_WAIT``, ``NOTIFY_WAIT``, ``MEMCPY_ASYNC``, ``SDMA`` ...) is left out,
  as in kernel_details (`tasks`).
- on a thread of the process ``HCCL`` whose name has ``Communication``: a communication op. The threads ``Plane N`` have
  its parts, and the process ``Overlap Analysis`` repeats everything: both are left out.

There are no op types: they are guessed from names. Tested: CANN of August 2023 (MindSpore), torch_npu of January 2025.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from math import nan
from typing import TYPE_CHECKING, Any

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedProfile
from ....units import plural
from ...files.chrome_events import head, read_events
from ...files.durations import Untimed
from ...files.format import Format, Options
from ...files.place import Place
from .ops import UNTIMED, Read, exact
from .tables import newest
from .tasks import LeftOut, is_kernel

if TYPE_CHECKING:
    from ....timeline.spans import Timeline

TITLE = "Ascend timeline: CANN msprof, torch_npu"
# Device, model and iteration.
_ITERATION = re.compile(r"_(\d+)_(\d+)_(\d+)\.json")
_WALL = re.compile(r"Iteration (\d+)")
_REDUCE = re.compile(r"Reduce_(\d+)_(\d+)")
_NOT_DESCRIBED = ("",) * 6


def recognises(place: Place) -> bool:
    """Return True for a timeline of a device, or a folder of timelines without tables."""
    return bool(_files(place))


def ranks(place: Place) -> list[int | None]:
    """Return the devices in the names of the files."""
    devices = {int(match[1]) for file in _files(place) if (match := _ITERATION.search(file.path.name))}
    return [*sorted(devices)] or [None]


def explains(place: Place) -> str:
    """Return a description of a file without ops in such a folder."""
    begin = head(place)
    named = [event.get("args") for event in begin.events if event.get("name") == "process_name"] if begin else []
    return (
        "has the times of iterations, but no ops: give the folder it is in" if {"name": "Step Trace"} in named else ""
    )


def read(place: Place, options: Options) -> SavedProfile:
    """Return the kernels. Raises TraceError."""
    found = Read(place, "", "timeline")
    found.untimed = Untimed(options.partial)
    files = [file for file in _files(place) if options.rank is None or _device(file) in (None, options.rank)]
    if not files:
        raise TraceError(f"{place}: expected task_time_*.json, msprof_*.json or trace_view.json with tasks of a device")
    for file in files:
        _add(file, found, options.partial)
    if not found.groups:
        raise TraceError(f"{place}: holds no kernel of a device (Task Type AI_CORE and its like)")
    steps = found.steps()
    walls, reduces = _step_trace(place, files)
    if place.is_folder:
        _add_communication(files, reduces, found, options.partial)
    guessed = f"{plural(found.guessed(), 'kernel')} without an op type in a timeline: types are guessed from names"
    return SavedProfile(
        TITLE,
        Environment((("cann", ""),), "ascend", ""),
        tuple(found.records()),
        tuple(steps),
        tuple(walls[step] for step in steps) if walls.keys() >= steps.keys() else None,
        inferred_types=True,
        remarks=(guessed, *found.remarks, *found.untimed.remarks()),
    )


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline. Raises TraceError."""
    from .spans import of_timelines

    files = [file for file in _files(place) if options.rank is None or _device(file) in (None, options.rank)]
    steps = _step_traces(place, files) if place.is_folder else []
    return of_timelines([*files, *steps], options.partial)


def _files(place: Place) -> list[Place]:
    if not place.is_folder:
        return [place] if _is_timeline(place) else []
    if place.files("op_summary*.csv*") or place.file("../summary").files("op_summary*.csv*"):
        return []
    named = place.files("task_time_*.json") or place.files("msprof_*.json")
    if not any(map(_is_timeline, named)):
        return []
    # A file that is cut before its first event is read too, for its error: its iteration must not be missed silently.
    files = [file for file in named if _is_timeline(file) or _is_cut(file)]
    if any(_ITERATION.search(file.path.name) for file in files):
        return sorted(files, key=lambda file: [*map(int, re.findall(r"\d+", file.path.name))])
    return list(newest(files)[0])


def _is_timeline(place: Place) -> bool:
    begin = head(place)
    return begin is not None and begin.bare and any(map(_is_of_npu, begin.events))


def _is_cut(place: Place) -> bool:
    begin = head(place)
    return begin is None or (not begin.events and not place.head.rstrip().endswith(b"]"))


def _is_of_npu(event: dict[str, Any]) -> bool:
    args = event.get("args")
    if isinstance(args, dict) and ("Task Type" in args or args.get("name") == "Ascend Hardware"):
        return True
    # torch_npu begins with the ops on the host, and writes times as texts, unlike PyTorch.
    return event.get("cat") == "cpu_op" and isinstance(event.get("ts"), str)


def _device(place: Place) -> int | None:
    match = _ITERATION.search(place.path.name)
    return int(match[1]) if match else None


def _add_communication(files: list[Place], reduces: dict[tuple[str, str], float], found: Read, partial: bool) -> None:
    """Add the communication of a folder. All of it is from one kind of file, so that iterations can be compared."""
    beside = [Place(file.path.with_name(file.path.name.replace("task_time", "msprof"))) for file in files]
    known = [file for file in beside if file not in files and file.path.is_file()]
    if len(known) == len(files) or not reduces:
        for file in known:
            _add(file, found, partial, tasks=False)
        if 0 < len(known) < len(files):
            found.remarks.append(
                f"communication is known of {len(known)} of {len(files)} iterations only (msprof_*.json)"
            )
        return
    for (step, name), us in reduces.items():
        if step in found.steps():
            ns = us * 1000
            found.add((step, name, "Reduce", "HCCL", *_NOT_DESCRIBED), 1, (ns, ns, ns))
    found.remarks.append(
        "communication is that of step_trace (Reduce): not every iteration has a msprof_*.json, which names its ops"
    )


def _add(place: Place, found: Read, partial: bool, tasks: bool = True) -> None:
    """Add the kernels of one file, or only its communication."""
    from ...files.chrome_event_types import TaskEvent

    match = _ITERATION.search(place.path.name)
    step = match[3] if match else ""
    threads: dict[tuple[str, str], str] = {}
    left_out = LeftOut()
    others: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for piece in read_events(place, TaskEvent, None, partial, found.remarks):
        for event in piece:
            if event.ph == "M" and event.name in ("process_name", "thread_name"):
                thread = (str(event.pid), str(event.tid) if event.name == "thread_name" else "")
                threads[thread] = event.args.name
            elif event.ph != "X" or (event.args.task_type and not tasks):
                continue
            elif event.dur != event.dur:
                if is_kernel(event.args.task_type, event.name):
                    found.untimed.add(place, f"the task {event.name[:80]!r}")
                    found.add((step, event.name, "", event.args.task_type, *_NOT_DESCRIBED), 1, UNTIMED)
                elif not event.args.task_type:
                    others[str(event.pid), str(event.tid), event.name].append(nan)
            elif not 0 <= event.dur < 1e15:
                raise TraceError(f"{place}: {event.name[:80]!r} takes {event.dur} us; expected a time from 0 to 1e15")
            elif is_kernel(event.args.task_type, event.name):
                ns = event.dur * 1000
                found.add((step, event.name, "", event.args.task_type, *_NOT_DESCRIBED), 1, (ns, ns, ns))
            elif not event.args.task_type:
                others[str(event.pid), str(event.tid), event.name].append(event.dur * 1000)
            else:
                left_out.add(event.args.task_type)
    found.remarks += left_out.remarks()
    for (pid, tid, name), times in others.items():
        if threads.get((pid, "")) == "HCCL" and "Communication" in threads.get((pid, tid), ""):
            # Default/AllReduce-op534_0 is the first call of Default/AllReduce-op534.
            plain = name if name.startswith("hcom_") else re.sub(r"_\d+$", "", name)
            key = (step, plain, "", "HCCL", *_NOT_DESCRIBED)
            for _ in range(sum(ns != ns for ns in times)):
                found.untimed.add(place, f"the communication {name[:80]!r}")
            found.add_times(key, array("d", times), 1)


def _step_traces(place: Place, files: list[Place]) -> list[Place]:
    """Return the files with the times of iterations of the same devices."""
    beside = Place(place.path if place.is_folder else place.path.parent)
    devices = {_device(file) for file in files}
    return [file for file in beside.files("step_trace_*.json") if _device(file) in devices]


def _step_trace(place: Place, files: list[Place]) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """Return the wall times of iterations, in ns, and the times of communication by iteration and name, in us."""
    from ...files.chrome_event_types import TaskEvent

    found: dict[str, float] = {}
    reduces: dict[tuple[str, str], float] = {}
    for file in _step_traces(place, files):
        for piece in read_events(file, TaskEvent):
            found.update({match[1]: event.dur * 1000 for event in piece if (match := _WALL.fullmatch(event.name))})
            reduces.update(
                {
                    (match[1], f"Reduce_{match[2]}"): event.dur
                    for event in piece
                    if (match := _REDUCE.fullmatch(event.name)) and 0 <= event.dur < 1e15
                }
            )
    return {step: ns for step, wall in found.items() if (ns := exact(wall)) is not None}, reduces


FORMAT = Format(TITLE, recognises, read, timeline=timeline, ranks=ranks, explains=explains)
