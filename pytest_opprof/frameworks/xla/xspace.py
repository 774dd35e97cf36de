"""XLA's profile, in memory and as ``*.xplane.pb``: planes, lines and events.

A protobuf (``xplane.proto`` of openxla/xla): ``XSpace``: planes 1, hostnames 4. ``XPlane``: name 2, lines 3,
event_metadata 4, stat_metadata 5 (maps: key 1, value 2). ``XLine``: name 2, timestamp_ns 3, events 4. ``XEvent``:
metadata_id 1, offset_ps 2, duration_ps 3, stats 4. ``XEventMetadata``: name 2, display_name 4, stats 5. ``XStat``:
metadata_id 1, and one of double 2, uint64 3, int64 4, text 5, ref 7 (of a stat_metadata whose name is the text).
``XStatMetadata``: name 2.

A plane is a process of the trace (``/host:CPU``, ``/device:GPU:0``), a line is a thread. The stats of an event identify
it: ``hlo_op``, ``hlo_module``, ``run_id``, ``step_num``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ..files.protobuf import (
    BYTES,
    FIXED64,
    MOST_NAME,
    VARINT,
    Broken,
    Data,
    Field,
    fields,
    inside,
    signed,
    text,
    varint,
)

_EVENT, _STAT = 4 << 3 | BYTES, 4 << 3 | BYTES
# The tags of an event in a line, of a stat in an event, and of the metadata of each.
_METADATA_ID, _STAT_NAME = 1 << 3 | VARINT, 1 << 3 | VARINT
_TYPE = re.compile(r"[A-Za-z_]\w*")
# Different events of a plane. With functions of Python recorded, there are some 10**4.
_MOST_METADATA = 1_000_000


@dataclass(frozen=True)
class Meaning:
    """The facts shared by all events with one metadata_id."""

    name: str
    type: str = ""
    """The op type, for an op of TensorFlow: it has the name ``<node>:<type>``, and its node as display name."""
    shown: str = ""
    """The display name: on a TPU the instruction's, whose text is the name."""
    stats: dict[str, str] = field(default_factory=dict)


class Event(NamedTuple):
    """An event; times in ns, on a clock of the profile's own."""

    meaning: Meaning
    start: int
    duration: int
    stats: dict[str, str]
    """The wanted stats, numbers as text."""


class Line(NamedTuple):
    """The events of a thread, or of a stream."""

    name: str
    events: Iterator[Event]


def planes(data: Data, wanted: Collection[str]) -> Iterator[Plane]:
    """Yield the planes of a whole XSpace; their events have the *wanted* stats. Raises Broken."""
    for each in fields(data, 0, len(data)):
        if (each.number, each.wire) == (1, BYTES):
            yield Plane(data, each, wanted)


def plane_name(data: Data, message: Field) -> str:
    """Return the name of a plane, which may be cut: field 2, as of metadata."""
    return next(
        (text(data, each) for each in fields(data, message.start, message.end, cut=True) if each.number == 2), ""
    )


class Plane:
    """A process of the trace. Raises Broken, here and while its lines are walked."""

    def __init__(self, data: Data, message: Field, wanted: Collection[str]) -> None:
        self.name = plane_name(data, message)
        self._data = data
        self._lines: list[Field] = []
        self._stat_names: dict[int, str] = {}
        self._meanings: dict[int, Meaning] = {}
        self._stat = lru_cache(1 << 16)(self._decoded)  # few differ
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
                self._stat_names[key] = plane_name(data, value) if value else ""
            if max(len(metadata), len(self._stat_names)) > _MOST_METADATA:
                raise Broken(f"more than {_MOST_METADATA} different events at byte {each.start}")
        self._wanted = {number: name for number, name in self._stat_names.items() if name in wanted}
        for each in metadata:
            key, value = self._entry(each)
            if value:
                self._meanings[key] = self._meaning(value)

    def lines(self, worth: Callable[[str], bool] | None = None) -> Iterator[Line]:
        """Yield the lines, each to be walked before the next; only events whose name is *worth* it."""
        skipped = frozenset(
            number for number, meaning in self._meanings.items() if worth is not None and not worth(meaning.name)
        )
        for line in self._lines:
            name = next((each for each in fields(self._data, line.start, line.end) if each.number == 2), None)
            yield Line(text(self._data, name), self._events(line, skipped))

    def _events(self, line: Field, skipped: Collection[int]) -> Iterator[Event]:
        # `fields` inlined, in half of the time: a profile has 10**6 events with ten fields each.
        data, at, base, begun = self._data, line.start, 0, False
        while at < line.end:
            begin = at
            if data[at] != _EVENT:
                each = next(fields(data, at, line.end))
                if (each.number, each.wire) == (3, VARINT):
                    if begun:
                        raise Broken(f"the time of a line behind its events at byte {each.start}")
                    base = signed(each.value)
                at = each.end
                continue
            begun = True
            size, start = varint(data, at + 1, line.end)
            at = start + size
            if at > line.end:
                raise Broken(f"field 4 at byte {begin} ends {at - line.end} bytes behind its message")
            if skipped and self._what(start, at) in skipped:
                continue
            meaning, offset, duration, stats = self._event(start, at)
            duration = round(duration / 1000)
            if duration < 0:
                raise Broken(f"the event {meaning.name!r} at byte {start} takes {duration} ns")
            yield Event(meaning, base + round(offset / 1000), duration, stats)

    def _what(self, start: int, end: int) -> int:
        """Return the metadata_id of an event if it comes first, as XLA writes it; otherwise -1."""
        if end - start < 2 or self._data[start] != _METADATA_ID:
            return -1
        number = self._data[start + 1]
        return number if number < 128 else varint(self._data, start + 1, end)[0]

    def _event(self, start: int, stop: int) -> tuple[Meaning, int, int, dict[str, str]]:
        """Return the meaning of an event, its start after that of the line, its duration (both ps), and its stats."""
        data = bytes(self._data[start:stop])
        numbers = {1: 0, 2: 0, 3: 0}
        own: dict[str, str] = {}
        at, end = 0, len(data)
        try:
            while at < end:
                tag, value = data[at], data[at + 1]
                at += 2
                if value >= 128:  # `varint` inlined: an event has nine such numbers, of up to 9 bytes
                    value, shift, byte = value & 127, 7, 128
                    while byte >= 128:
                        if shift == 70:
                            raise Broken(f"a number of more than 10 bytes in the event at byte {start}")
                        byte = data[at]
                        at += 1
                        value |= (byte & 127) << shift
                        shift += 7
                if tag & 7 == BYTES:
                    # The first two bytes of most stats show that they are unwanted.
                    if tag == _STAT and (data[at] != _STAT_NAME or data[at + 1] >= 128 or data[at + 1] in self._wanted):
                        own.update(self._stat(data[at : at + value]))
                    at += value
                elif tag & 7 == VARINT:
                    numbers[tag >> 3] = value
                else:
                    raise Broken(f"a field of wire type {tag & 7} in the event at byte {start}")
        except IndexError:
            at = end + 1
        if at > end:
            raise Broken(f"the event at byte {start} ends in the middle of a field")
        meaning = self._meanings.get(numbers[1])
        if meaning is None:
            raise Broken(f"the event at byte {start} has no metadata")
        return meaning, signed(numbers[2]), signed(numbers[3]), meaning.stats | own if meaning.stats else own

    def _decoded(self, data: bytes) -> dict[str, str]:
        """Return the name and value of a stat, if wanted."""
        name, at, end = "", 0, len(data)
        if end > 2 and data[0] == _STAT_NAME and data[1] < 128:  # the usual begin, a fifth of the time faster
            name, at = self._wanted.get(data[1], ""), 2
            if not name:
                return {}
        while at < end:
            tag, at = varint(data, at, end)
            number, wire = tag >> 3, tag & 7
            if wire not in (VARINT, BYTES):
                size = 8 if wire == FIXED64 else 4
                if name and number == 2 and size == 8 and at + size <= end:
                    return {name: repr(struct.unpack_from("<d", data, at)[0])}
                at += size
                continue
            value, at = varint(data, at, end)
            if wire == BYTES:
                if name and number == 5:
                    return {name: data[at : at + min(value, MOST_NAME)].decode("utf-8", "replace")}
                at += value
            elif number == 1:
                name = self._wanted.get(value, "")
                if not name:
                    return {}
            elif name and number in (3, 4, 7):
                if number == 7:
                    return {name: self._stat_names.get(value, "")}
                return {name: str(signed(value) if number == 4 else value)}
        return {}

    def _meaning(self, message: Field) -> Meaning:
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
        return Meaning(name, type_ if _TYPE.fullmatch(type_) else "", shown, stats)

    def _entry(self, message: Field) -> tuple[int, Field | None]:
        """Return the key and the value of an entry of a map."""
        entry = inside(self._data, message)
        value = entry.get(2)
        return (entry[1].value if 1 in entry else 0), (value if value and value.wire == BYTES else None)
