"""MegEngine's imperative profiler: the Chrome timeline of eager code, ``<pid>.chrome_timeline.json``.

Written by ``megengine.utils.profiler.Profiler``: ``{"traceEvents": [...], "metadata": {...}}``, times in us.

- Threads: ``interpreter`` (Python), ``worker`` (executes the ops; the two numbers may be the other way round in another
  file) and one for each device (``xpux:0``). Events are in the order of time within a thread, not across threads.
- An op on the worker is a pair of B and E; the E has ``__id__``, ``__name__`` and the op's parameters. Its duration is
  host time; here the time of ops inside it is taken off. ``OpDispatch`` on the interpreter has the same ``__id__``, and
  no duration.
- Inside an op lie ``Input N`` and ``Output N``: name, shape (``{2,3}``), dtype and device of a tensor. Outputs are
  named after modules; here an op has the name of its first output: ``body.c1.Convolution``.
- The device time of an op is that of the pairs with ``"cat": "Kernel"`` and its ``__id__``. With ``profile_device=0``
  there are none.
- ``HostToDevice`` on the thread of a device is a copy, without ``__id__``; it is an op here.
- All else is a scope (a module; with ``with_scopes`` also a function) or housekeeping (``Put``, ``Del``, ``GetValue``).
- Ops have neither FLOPs nor bytes. ``alloc_mem`` is the memory of the whole machine, ``living_time`` is garbage.

A compiled ``jit.trace`` leaves no op here: use its graph profile. Seen: 1.13.0 on the CPU.

Memory: three times the file, 22 times for a malicious one; files are limited to 256 MiB (65,000 ops).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....ops.signature import Shape
from ....profile.saved import SavedOp, SavedProfile
from ....units import plural
from ...files.format import Format, Options
from ...files.place import Place
from .graph import comp_node, environment, op_by_mode

if TYPE_CHECKING:
    from ....timeline.spans import Timeline
    from .documents import Event, Tensor

TITLE = "MegEngine imperative timeline"
MOST_BYTES = 256 << 20
# Of nested intervals.
MOST_DEPTH = 10_000
# Braces tried to find the end of the last complete event: its arguments have some too.
MOST_ATTEMPTS = 64
_BEGIN = re.compile(rb'\s*\{\s*"traceEvents"\s*:')
_COUNTERS = re.compile(rb'"(?:gpu_usgae_ratio|nr_alive_tensor)"')  # the misspelling is MegEngine's
_TENSOR = re.compile(r"(?:In|Out)put \d+")
_COPY = "HostToDevice"
# First words of the names of events: of ``Put 2240`` and ``Del 2240`` each tensor has one.
_HOUSEKEEPING = frozenset(
    """OpDispatch Put Del GetValue TensorGetProp TensorWaitProp StartProfile StopProfile HostCompute Wait Sync AutoEvict
    Drop ReGen Custom Worker""".split()
)


@dataclass(slots=True)
class _Interval:
    """A pair of B and E."""

    first: Event
    last: Event
    order: int
    parent: _Interval | None
    inside_ns: int = 0
    """The time of the ops inside it."""
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    @property
    def ns(self) -> int:
        return round((self.last.ts - self.first.ts) * 1e3)


@dataclass(slots=True)
class _Call:
    """A call of an op: its interval on the worker and those on devices."""

    type: str
    op: str
    order: int
    calls: int = 0
    host_ns: int | None = None
    device_ns: int | None = None
    inputs: list[Tensor] | None = None
    outputs: list[Tensor] | None = None


def recognises(place: Place) -> bool:
    """Return True for a Chrome trace with the counters that MegEngine writes."""
    return not place.is_folder and _BEGIN.match(place.head) is not None and _COUNTERS.search(place.head) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return every call of an op, in the order in which they began. Raises TraceError."""
    events, remarks = _every_event(place, options)
    calls = _calls(place, events)
    if not calls:
        raise TraceError(f"{place}: holds no op; for a compiled jit.trace save its get_profile() instead")
    ordered = sorted(calls.items(), key=lambda item: item[1].order)
    return SavedProfile(
        TITLE,
        environment({tensor.device for call in calls.values() for tensor in call.outputs or ()} - {""}),
        tuple(_record(identifier, call) for identifier, call in ordered),
        remarks=remarks,
    )


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline of ops, scopes and kernels. Raises TraceError."""
    from ....timeline.spans import Kind, Lane, Timeline
    from .documents import NAMED, OP_ARGS, decode

    events, _ = _every_event(place, options)
    names = {event.tid: decode(NAMED, event.args, place).name for event in events if event.name == "thread_name"}
    found = Timeline()
    for interval in _intervals(place, events):
        event = interval.last
        if _TENSOR.fullmatch(event.name):
            continue
        is_copy, on_device = event.name == _COPY, event.cat == "Kernel"
        thread = names.get(event.tid) or f"thread {event.tid}"
        lane = Lane(thread, "kernels", True) if is_copy or on_device else Lane("host", thread)
        op = decode(OP_ARGS, event.args, place)
        kind = Kind.OP if op.identifier is not None and event.name != "OpDispatch" else Kind.RANGE
        kind = Kind.COPY if is_copy else Kind.CALL if event.name.partition(" ")[0] in _HOUSEKEEPING else kind
        found.add(lane, op.name or event.name, kind, round(interval.first.ts * 1e3), interval.ns)
    return found


def _every_event(place: Place, options: Options) -> tuple[list[Event], tuple[str, ...]]:
    return _whole_events(place) if options.partial else (_events(place, place.read(MOST_BYTES)), ())


def _events(place: Place, content: bytes) -> list[Event]:
    from .documents import TIMELINE, decode

    return decode(TIMELINE, content, place, " --partial reads the events that are whole").traceEvents


def _whole_events(place: Place) -> tuple[list[Event], tuple[str, ...]]:
    """Return the events of a file that may be cut, and a remark if it is."""
    content = _what_is_there(place)
    try:
        return _events(place, content), ()
    except TraceError as error:
        reason = error
    end = len(content)
    for _ in range(MOST_ATTEMPTS):
        end = content.rfind(b"}", 0, end)
        try:
            events = _events(place, content[: end + 1] + b"]}")
        except TraceError:
            continue
        left = len(content) - end - 1
        return events, (f"cut off: {plural(len(events), 'whole event')} read, {plural(left, 'byte')} after that not",)
    raise reason


def _what_is_there(place: Place) -> bytes:
    """Return the readable part of a file, even of a gzip file without its end."""
    pieces, size = [], 0
    try:
        with place.open() as file:
            while size <= MOST_BYTES and (piece := file.read(1 << 16)):
                pieces.append(piece)
                size += len(piece)
    except TraceError:
        if not pieces:
            raise
    return b"".join(pieces)[:MOST_BYTES].removeprefix(b"\xef\xbb\xbf")


def _calls(place: Place, events: Sequence[Event]) -> dict[str, _Call]:
    from .documents import OP_ARGS, TENSOR, decode

    calls: dict[str, _Call] = {}
    for interval in _intervals(place, events):
        name, args, parent = interval.last.name, interval.last.args, interval.parent
        if _TENSOR.fullmatch(name) and parent:
            (parent.inputs if name.startswith("In") else parent.outputs).append(decode(TENSOR, args, place))
        elif name == _COPY:
            copied = [decode(TENSOR, args, place)]
            calls[f"copy {interval.order}"] = _Call(name, "", interval.order, 1, None, interval.ns, None, copied)
        elif name != "OpDispatch" and (op := decode(OP_ARGS, args, place)).identifier is not None:
            mode = op.mode if isinstance(op.mode, str) else ""
            call = _Call(op.name or name, op_by_mode(op.name, mode), interval.order)
            _join(calls.setdefault(str(op.identifier), call), interval)
        elif parent:
            parent.inside_ns += interval.inside_ns
    return calls


def _join(call: _Call, interval: _Interval) -> None:
    if interval.last.cat == "Kernel":
        call.device_ns = (call.device_ns or 0) + interval.ns
        return
    call.calls += 1
    call.order = interval.order
    call.host_ns = (call.host_ns or 0) + interval.ns - interval.inside_ns
    call.inputs, call.outputs = interval.inputs, interval.outputs
    if interval.parent:
        interval.parent.inside_ns += interval.ns


def _intervals(place: Place, events: Sequence[Event]) -> Iterator[_Interval]:
    """Yield the pairs; the inner ones come before the outer ones."""
    threads: dict[int | str, list[_Interval]] = defaultdict(list)
    for order, event in enumerate(events):
        stack = threads[event.tid]
        if event.ts != event.ts and event.ph in ("B", "E"):
            # Without a time the nesting of events is unknown.
            raise TraceError(f"{place}: event {order}: {event.name[:40]!r} has no time (ts)")
        if event.ph == "B":
            if len(stack) >= MOST_DEPTH:
                raise TraceError(f"{place}: event {order}: more than {MOST_DEPTH} intervals in each other")
            stack.append(_Interval(event, event, order, stack[-1] if stack else None))
        elif event.ph == "E" and stack:  # with an empty stack: a scope that began before the recording
            interval = stack.pop()
            interval.last = event
            if interval.first.name != event.name or interval.ns < 0:
                raise TraceError(
                    f"{place}: event {order}: {event.name[:40]!r} at {event.ts} us ends"
                    f" {interval.first.name[:40]!r}, which began at {interval.first.ts} us (event {interval.order})"
                )
            yield interval


def _record(identifier: str, call: _Call) -> SavedOp:
    outputs = call.outputs or []
    return SavedOp(
        name=(outputs and outputs[0].name.rpartition(":")[0]) or call.type,
        type=call.type,
        id=identifier,
        calls=max(call.calls, 1),
        device_ns=call.device_ns,
        host_ns=call.host_ns,
        input_shapes=_shapes(call.inputs),
        output_shapes=_shapes(call.outputs),
        input_dtypes=tuple(tensor.dtype for tensor in call.inputs or ()),
        output_dtypes=tuple(tensor.dtype for tensor in outputs),
        place=comp_node(outputs[0].device) if outputs else "",
        op=call.op,
    )


def _shapes(tensors: list[Tensor] | None) -> tuple[Shape, ...] | None:
    return None if tensors is None else tuple(_shape(tensor.shape) for tensor in tensors)


@lru_cache(1024)
def _shape(text: str) -> Shape:
    """Read ``{2,3}``; () for a text that is no shape, as for an unknown one."""
    dimensions = text.strip("{}").split(",")
    return tuple(map(int, dimensions)) if all(d.isdecimal() and len(d) < 19 for d in dimensions) else ()


FORMAT = Format(TITLE, recognises, read, timeline=timeline)
