"""XLA's own profile, ``*.xplane.pb``, which JAX, TensorFlow and torch_xla write for TensorBoard.

A protobuf (``xplane.proto`` of openxla/xla): ``XSpace``: planes 1, hostnames 4. ``XPlane``: name 2, lines 3,
event_metadata 4, stat_metadata 5 (maps: key 1, value 2). ``XLine``: name 2, timestamp_ns 3, events 4. ``XEvent``:
metadata_id 1, offset_ps 2, duration_ps 3, stats 4. ``XEventMetadata``: name 2, display_name 4, stats 5. ``XStat``:
metadata_id 1, and one of uint64 3, int64 4, text 5, ref 7 (of a stat_metadata whose name is the text).
``XStatMetadata``: name 2.

A plane is a process of the trace (``/host:CPU``, ``/device:GPU:0``), a line is a thread. The stats of an event tell
what it is, as ``args`` do in the trace (`jax`): ``hlo_op``, ``hlo_module``, ``run_id``, ``step_num``. Both files of one
recording give the same profile.

TensorFlow also writes ops that XLA did not compile. An op inside a function has the name ``<node>:<type>``, and its
node as display name. An op that Python calls is an event with the stats ``eager_op`` and ``is_func`` = 0; its time is
that of the call. What a GPU did for these ops is not read: a remark says so, and they only have host time. A function
is no op.
Seen: jax 0.10.2, tensorflow 2.21.0, CPU. torch_xla, GPUs and TPUs were not seen: read after the format's definition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from ...errors import TraceError
from ...profile.saved import SavedProfile
from ..shared.options import Options
from ..shared.place import Place
from ..shared.wire import BYTES, VARINT, Broken, Data, Field, content, fields, signed, text, varint
from .jax import Events, Op, op_trace

TITLE = "XLA profile (xplane.pb)"
_SPACE = {1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES}
_PLANE_NAMES = ("/host:", "/device:", "Task Environment")
_ASYNCHRONOUS = "Async XLA Ops"
"""A line that repeats ops of another line."""
_WANTED = frozenset(["hlo_op", "hlo_module", "run_id", "step_num", "eager_op", "is_func"])
_STAT, _STAT_NAME = 4 << 3 | BYTES, 1 << 3 | VARINT
"""The tags of a stat in an event, and of its name in the stat."""
_TYPE = re.compile(r"[A-Za-z_]\w*")
_MOST_METADATA = 1_000_000
"""Different events of a plane. With functions of Python recorded, there are some 10**4."""


def recognises(place: Place) -> bool:
    """Tell whether the file begins with a plane that has a name of XLA's."""
    start = place.head
    try:
        for each in fields(start, 0, len(start), cut=True):
            if _SPACE.get(each.number) != each.wire:
                return False
            if each.number == 1:
                return _name(start, each._replace(end=min(each.end, len(start)))).startswith(_PLANE_NAMES)
    except Broken:
        pass
    return False


def _name(data: Data, message: Field) -> str:
    """Return the name of a plane or of metadata: field 2 of both."""
    return next(
        (text(data, each) for each in fields(data, message.start, message.end, cut=True) if each.number == 2), ""
    )


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. Takes 250 bytes an op event and the memory of the records. Raises TraceError."""
    events = Events()
    remarks: list[str] = []
    with content(place) as data:
        try:
            last = 0
            for number, each in enumerate(fields(data, 0, len(data))):
                last = each.number
                if (each.number, each.wire) == (1, BYTES):
                    _Plane(data, each).collect(number, events)
            if last == 1:
                remarks.append("it ends without the name of a host: it may have been cut between two planes")
        except Broken as error:
            raise TraceError(f"{place}: is no whole XLA profile ({error}). Was it copied whole?") from None
        except OverflowError:
            raise TraceError(f"{place}: has a time beyond 64 bits; record it again") from None
    for process, count in events.left_out.items():
        remarks.append(f"{count} events of {process} name no op of XLA's: left out")
    return op_trace(place, TITLE, events, remarks)


@dataclass(frozen=True)
class _Meaning:
    """What is the same for all events with one metadata_id."""

    name: str
    type: str = ""
    """The op type, for an op of TensorFlow."""
    stats: dict[str, str] = field(default_factory=dict)


class _Plane:
    def __init__(self, data: Data, message: Field) -> None:
        self._data = data
        self._lines: list[Field] = []
        self._stat_names: dict[int, str] = {}
        self._meanings: dict[int, _Meaning] = {}
        self._stat = lru_cache(1 << 16)(self._decoded)  # few differ
        self._name = _name(data, message)
        metadata: list[Field] = []
        for each in fields(data, message.start, message.end):
            if each.wire != BYTES:
                continue
            if each.number == 3:
                self._lines.append(each)
            elif each.number == 4:
                metadata.append(each)
            elif each.number == 5:
                key, value = self._entry(each)
                self._stat_names[key] = _name(data, value) if value else ""
            if max(len(metadata), len(self._stat_names)) > _MOST_METADATA:
                raise Broken(f"more than {_MOST_METADATA} different events at byte {each.start}")
        self._wanted = {number: name for number, name in self._stat_names.items() if name in _WANTED}
        for each in metadata:
            key, value = self._entry(each)
            if value:
                self._meanings[key] = self._meaning(value)

    def collect(self, number: int, events: Events) -> None:
        """Add the events of this plane."""
        events.processes[number] = self._name
        left_out = sum(self._collect(line, (number, index), events) for index, line in enumerate(self._lines))
        if left_out and self._name.startswith("/device:"):
            events.left_out[self._name] = left_out

    def _collect(self, line: Field, thread: tuple[int, int], events: Events) -> int:
        """Add the events of a line; return how many name no op."""
        base, left_out, begun = 0, 0, False
        for each in fields(self._data, line.start, line.end):
            if each.number == 3 and begun:
                raise Broken(f"the time of a line behind its events at byte {each.start}")
            if (each.number, each.wire) == (3, VARINT):
                base = signed(each.value)
            elif each.number == 2 and text(self._data, each) == _ASYNCHRONOUS:
                return 0
            if (each.number, each.wire) != (4, BYTES):
                continue
            begun = True
            meaning, offset, duration, stats = self._event(each)
            start, duration = base + round(offset / 1000), round(duration / 1000)
            if duration < 0:
                raise Broken(f"the event {meaning.name!r} at byte {each.start} takes {duration} ns")
            name, run = meaning.name, stats.get("run_id", "")
            if hlo_op := stats.get("hlo_op"):
                events.ran(Op(hlo_op, stats.get("hlo_module", ""), thread[0]), name, run, thread, start, duration)
            elif type_ := meaning.type or (stats.get("is_func") == "0" and stats.get("eager_op")):
                name = name.removesuffix(f":{type_}") if meaning.type else type_
                events.ran(Op(name, "", thread[0], type_), name, "-1", thread, start, duration)
            else:
                left_out += "step_num" not in stats
                events.noted(name, stats.get("step_num", ""), start, duration)
        return left_out

    def _event(self, message: Field) -> tuple[_Meaning, int, int, dict[str, str]]:
        """Return the meaning of an event, its start after that of the line, its duration (both ps), and its stats."""
        data = bytes(self._data[message.start : message.end])
        numbers = {1: 0, 2: 0, 3: 0}
        own: dict[str, str] = {}
        # The same as `fields` in a tenth of the time: a profile has 10**6 events with ten fields each.
        at, end = 0, len(data)
        try:
            while at < end:
                tag, value = data[at], data[at + 1]
                at += 2
                if value >= 128:
                    value, at = varint(data, at - 1, end)
                if tag & 7 == BYTES:
                    # The first two bytes of most stats tell that they are not wanted.
                    if tag == _STAT and (data[at] != _STAT_NAME or data[at + 1] >= 128 or data[at + 1] in self._wanted):
                        own.update(self._stat(data[at : at + value]))
                    at += value
                elif tag & 7 == VARINT:
                    numbers[tag >> 3] = value
                else:
                    raise Broken(f"a field of wire type {tag & 7} in the event at byte {message.start}")
        except IndexError:
            at = end + 1
        if at > end:
            raise Broken(f"the event at byte {message.start} ends in the middle of a field")
        meaning = self._meanings.get(numbers[1])
        if meaning is None:
            raise Broken(f"the event at byte {message.start} has no metadata")
        return meaning, signed(numbers[2]), signed(numbers[3]), meaning.stats | own if meaning.stats else own

    def _decoded(self, data: bytes) -> dict[str, str]:
        """Return the name and value of a stat, where it is wanted."""
        name = ""
        for each in fields(data, 0, len(data)):
            if each.number == 1 and each.wire == VARINT:
                name = self._wanted.get(each.value, "")
                if not name:
                    return {}
            elif name and each.number in (3, 4, 7) and each.wire == VARINT:
                number = signed(each.value) if each.number == 4 else each.value
                return {name: self._stat_names.get(each.value, "") if each.number == 7 else str(number)}
            elif name and each.number == 5:
                return {name: text(data, each)}
        return {}

    def _meaning(self, message: Field) -> _Meaning:
        name = shown = ""
        stats: dict[str, str] = {}
        for each in fields(self._data, message.start, message.end):
            if each.number == 2:
                name = text(self._data, each)
            elif each.number == 4:
                shown = text(self._data, each)
            elif each.number == 5 and each.wire == BYTES:
                stats |= self._stat(bytes(self._data[each.start : each.end]))
        type_ = name.removeprefix(f"{shown}:") if shown and name.startswith(f"{shown}:") else ""
        return _Meaning(name, type_ if _TYPE.fullmatch(type_) else "", stats)

    def _entry(self, message: Field) -> tuple[int, Field | None]:
        """Return the key and the value of an entry of a map."""
        entry = {each.number: each for each in fields(self._data, message.start, message.end)}
        value = entry.get(2)
        return (entry[1].value if 1 in entry else 0), (value if value and value.wire == BYTES else None)
