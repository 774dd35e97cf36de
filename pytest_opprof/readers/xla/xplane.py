"""XLA's own profile, ``*.xplane.pb``, which JAX, TensorFlow and torch_xla write for TensorBoard (`xspace`).

The stats of an event tell what it is, as ``args`` do in the trace (`jax`). Both files of one recording give the same
profile.

TensorFlow also writes ops that XLA did not compile. An op inside a function has the name ``<node>:<type>``. An op that
Python calls is an event with the stats ``eager_op`` and ``is_func`` = 0; its time is that of the call. What a GPU did
for these ops is not read: a remark says so, and they only have host time. A function is no op.
Seen: jax 0.10.2, tensorflow 2.21.0, CPU. torch_xla, GPUs and TPUs were not seen: read after the format's definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import TraceError
from ...formats.protobuf import BYTES, Broken, fields
from ...formats.xspace import Plane, plane_name
from ...profile.saved import SavedProfile
from ..shared.mapped import content
from ..shared.options import Options
from ..shared.place import Place
from .jax import Events, Op, op_trace, timeline_of

if TYPE_CHECKING:
    from ...timeline.spans import Timeline

TITLE = "XLA profile (xplane.pb)"
_SPACE = {1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES}
_PLANE_NAMES = ("/host:", "/device:", "Task Environment")
_ASYNCHRONOUS = "Async XLA Ops"
"""A line that repeats ops of another line."""
_WANTED = frozenset(["hlo_op", "hlo_module", "run_id", "step_num", "eager_op", "is_func"])


def recognises(place: Place) -> bool:
    """Tell whether the file begins with a plane that has a name of XLA's."""
    start = place.head
    try:
        for each in fields(start, 0, len(start), cut=True):
            if _SPACE.get(each.number) != each.wire:
                return False
            if each.number == 1:
                return plane_name(start, each._replace(end=min(each.end, len(start)))).startswith(_PLANE_NAMES)
    except Broken:
        pass
    return False


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. Takes 250 bytes an op event and the memory of the records. Raises TraceError."""
    remarks: list[str] = []
    events = _collected(place, remarks)
    for process, count in events.left_out.items():
        remarks.append(f"{count} events of {process} name no op of XLA's: left out")
    return op_trace(place, TITLE, events, remarks)


def timeline(place: Place, options: Options) -> Timeline:
    """Return when everything ran. Raises TraceError."""
    return timeline_of(_collected(place, []))


def _collected(place: Place, remarks: list[str]) -> Events:
    events = Events()
    with content(place) as data:
        try:
            last = 0
            for number, each in enumerate(fields(data, 0, len(data))):
                last = each.number
                if (each.number, each.wire) == (1, BYTES):
                    _collect(Plane(data, each, _WANTED), number, events)
            if last == 1:
                remarks.append("it ends without the name of a host: it may have been cut between two planes")
        except Broken as error:
            raise TraceError(f"{place}: is no whole XLA profile ({error}). Was it copied whole?") from None
        except OverflowError:
            raise TraceError(f"{place}: has a time beyond 64 bits; record it again") from None
    return events


def _collect(plane: Plane, number: int, events: Events) -> None:
    """Add the events of a plane."""
    events.processes[number] = plane.name
    left_out = 0
    for index, line in enumerate(plane.lines()):
        if line.name == _ASYNCHRONOUS:
            continue
        thread = number, index
        for meaning, start, duration, stats in line.events:
            name, run = meaning.name, stats.get("run_id", "")
            if hlo_op := stats.get("hlo_op"):
                events.ran(Op(hlo_op, stats.get("hlo_module", ""), number), name, run, thread, start, duration)
            elif type_ := meaning.type or (stats.get("is_func") == "0" and stats.get("eager_op")):
                name = name.removesuffix(f":{type_}") if meaning.type else type_
                events.ran(Op(name, "", number, type_), name, "-1", thread, start, duration)
            else:
                left_out += "step_num" not in stats
                events.noted(name, stats.get("step_num", ""), start, duration)
    if left_out and plane.name.startswith("/device:"):
        events.left_out[plane.name] = left_out
