"""The calls of ops in MindSpore's CPU files, and their input shapes: the first two files of `cpu`.

Memory: at most 5 times `MOST_BYTES`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from io import BytesIO
from itertools import islice, repeat
from operator import gt

from ....errors import TraceError
from ....ops.signature import Shape
from ....profile.saved import SavedOp
from ....units import plural
from ...files.place import Place
from ..file_lines import launch, op_type, starts_and_times, threads_of
from . import folder as common

# Bytes of one file, 128 MiB: 5 million calls.
MOST_BYTES = 1 << 27
# Bytes of one launch, 64 KiB: real ones have about 100.
MOST_LAUNCH = 1 << 16

_NAME = re.compile(rb"([^;\n]{1,4096});[^;\n]{1,256};")
_CALL = re.compile(rb"(?:\d{1,18}|[1-8]\d{18}),\d{1,9}(?:\.\d*)?(?:e-\d+|e\+0[0-8])?,\d+")
_UNTIMED = re.compile(rb"\d{1,19},(?:[+-]?nan|n/a|null|none)?,\d+", re.IGNORECASE)
# Bytes of a line that are split at once.
_BLOCK = 1 << 16

Inputs = tuple[Shape, ...]


@dataclass
class Calls:
    """All calls of one op."""

    name: str
    starts: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    threads: array[int] = field(default_factory=lambda: array("q"))

    def sort(self) -> None:
        """Sort the calls by time, because calls of several threads may be out of order."""
        if any(map(gt, self.starts, islice(self.starts, 1, None))):
            order = sorted(range(len(self.starts)), key=self.starts.__getitem__)
            self.starts = array("q", map(self.starts.__getitem__, order))
            self.times = array("q", map(self.times.__getitem__, order))
            self.threads = array("q", map(self.threads.__getitem__, order))

    def record(self, times: Sequence[int], inputs: Inputs | None) -> SavedOp:
        """Return the record of calls with these *times*."""
        return SavedOp(
            name=self.name,
            type=op_type(self.name),
            calls=len(times),
            device_ns=sum(times),
            least_ns=min(times),
            most_ns=max(times),
            input_shapes=inputs,
        )


def read_calls(session: common.Session, place: Place) -> list[Calls]:
    """Return the ops with their calls. Raises TraceError for a broken line."""
    ops: dict[str, Calls] = {}
    content = place.read(MOST_BYTES)
    for number, at, end in _lines(session, place, content):
        head = _NAME.match(content, at, end)
        if not head or not content[head.end() : end].strip():
            raise _broken(
                place, number, content[at : min(end, at + 60)], "full_op_name;HostCpuOps;start,duration,thread ..."
            )
        name = _text(place, number, head[1])
        op = ops.setdefault(name, Calls(name))
        at = head.end()
        while at < end:
            cut = content.rfind(b" ", at, at + _BLOCK) + 1 if end - at > _BLOCK else end
            _add(session, op, place, number, content[at : max(cut, at + 1)].split())
            at = max(cut, at + 1)
        if len(ops) > common.MOST_OPS:
            raise TraceError(f"{place}: has more than {common.MOST_OPS} ops, which no profile of MindSpore has")
    timed = [op for op in ops.values() if op.starts]
    if not timed:
        raise TraceError(f"{place}: has no whole call, and MindSpore writes no file without one; was it copied whole?")
    for op in timed:
        op.sort()
    return timed


def _lines(session: common.Session, place: Place, content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the number, start and end of each line; of a cut line, the end of its last call."""
    at = number = 0
    while at < len(content):
        number += 1
        end = content.find(b"\n", at)
        if end < 0:
            session.cut(place, f"line {number}")
            end = content.rfind(b" ", at) + 1
            if end > at:
                yield number, at, end
            return
        yield number, at, end
        at = end + 1


def _add(session: common.Session, op: Calls, place: Place, number: int, calls: list[bytes]) -> None:
    """Add the calls of a part of a line. Raises TraceError."""
    try:
        if not calls:
            return None
        starts, times = starts_and_times(calls)
        op.starts.extend(starts)
        op.times.extend(times)
        op.threads.extend(threads_of(calls))
    except (ValueError, OverflowError):
        if untimed := [call for call in calls if _UNTIMED.fullmatch(call)]:
            where = f"a call of {op.name[:80]!r} in line {number}, {untimed[0].decode()!r}"
            session.untimed.add(place, where, len(untimed), left_out=True)
            return _add(session, op, place, number, [call for call in calls if not _UNTIMED.fullmatch(call)])
        wrong = next((call for call in calls if not _CALL.fullmatch(call)), calls[0] if calls else b"")
        raise _broken(place, number, wrong, "a call: start (ns),duration (ms),thread") from None


def _text(place: Place, number: int, name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise _broken(place, number, name, "a name in UTF-8") from None


def _broken(place: Place, number: int, found: bytes, expected: str) -> TraceError:
    shown = found[:60].decode("utf-8", "backslashreplace")
    return TraceError(f"{place}: line {number} has {shown!r}, expected {expected}; was it copied whole?")


def records_of(session: common.Session, ops: list[Calls]) -> list[SavedOp]:
    """Return the records of *ops* in the order of their first calls: one for each known input shape."""
    launches = session.file("cpu_framework_{}.txt")
    shapes = _inputs(session, launches, ops) if launches else {}
    firsts: list[tuple[int, SavedOp]] = []
    for index, op in enumerate(ops):
        inputs = shapes.get(index, [])
        if len(set(map(id, inputs))) < 2:
            firsts.append((op.starts[0], op.record(op.times, inputs[0] if inputs else None)))
            continue
        groups: dict[Inputs, list[int]] = {}
        for call, known in enumerate(inputs):
            groups.setdefault(known, []).append(call)
        for known, calls in groups.items():
            firsts.append((op.starts[calls[0]], op.record([op.times[call] for call in calls], known)))
    return [record for _, record in sorted(firsts, key=lambda first: first[0])]


def _inputs(session: common.Session, place: Place, ops: list[Calls]) -> dict[int, list[Inputs]]:
    """Return the known input shapes of each call, by the index of the op.

    A launch has only the last part of the op's name. Ops with the same last part share its launches: the first launch
    belongs to the first call of any of them, and so on.
    """
    launched = _launches(session, place)
    if not place.size:
        session.remarks.append(f"{place.path.name} is empty, so that no input shapes are known")
    sharing: dict[str, list[int]] = {}
    for index, op in enumerate(ops):
        sharing.setdefault(op.name.rpartition("/")[2], []).append(index)
    shapes: dict[int, list[Inputs]] = {}
    for name, inputs in launched.items():
        indices = sharing.get(name, [])
        calls = sum(len(ops[index].starts) for index in indices)
        if calls != len(inputs):
            session.remarks.append(
                f"{place.path.name} has {plural(len(inputs), 'launch')} of {name}, but {plural(calls, 'known call')}:"
                " its input shapes are left out"
            )
        elif len(indices) == 1:
            shapes[indices[0]] = inputs
        else:
            order = merge(*(zip(ops[index].starts, repeat(index)) for index in indices))
            for (_, index), known in zip(order, inputs):
                shapes.setdefault(index, []).append(known)
    return shapes


def _launches(session: common.Session, place: Place) -> dict[str, list[Inputs]]:
    """Return the input shapes of each launch, in order, by the last part of the name; equal ones are one object."""
    launched: dict[str, list[Inputs]] = {}
    seen: dict[bytes, tuple[str, Inputs]] = {}
    alike: dict[Inputs, Inputs] = {}
    for number, line in enumerate(BytesIO(place.read(MOST_BYTES)), 1):
        if line not in seen:
            if not line.endswith(b"\n"):
                session.cut(place, f"line {number}")
                break
            if len(seen) > common.MOST_OPS:
                raise TraceError(
                    f"{place}: has more than {common.MOST_OPS} different launches, which no profile of MindSpore has"
                )
            name, inputs = _launch(place, number, line)
            seen[line] = name, alike.setdefault(inputs, inputs)
        name, inputs = seen[line]
        if name:
            launched.setdefault(name, []).append(inputs)
    return launched


def _launch(place: Place, number: int, line: bytes) -> tuple[str, Inputs]:
    try:
        name, shapes = launch(line if len(line) < MOST_LAUNCH else b"")
    except ValueError:
        raise _broken(place, number, line, "op_type;op_name;graph_id;input_1:[2, 3];...") from None
    return _text(place, number, name), shapes
