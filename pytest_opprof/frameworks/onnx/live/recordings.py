"""Convert ONNX Runtime's profiles of a window into events of an EventLog."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

from ....errors import BackendError
from ....profile.columns import ABSENT
from ....profile.events.event_log import EventLog
from ..events import (
    ASYNCHRONOUS,
    INSERTED_CAST,
    MOST_EVENTS,
    described,
    is_run,
    nbytes,
    node_of,
)
from ..work import WITH_BODIES, Tensors, work
from .asked import Asked, Call

if TYPE_CHECKING:
    from ..events_json import Arguments, Event


# Nanoseconds: 2001. A smaller time is not measured since 1970, as it is on Linux.
_SINCE_1970 = 10**18


class Recording(NamedTuple):
    """The profile of one session, or of one run."""

    content: bytes
    model: str
    """The name of its session."""
    begin_ns: int | None
    """The time since 1970 at which the times of its events are 0; None: it is the profile of *call*."""
    interval: int = 0
    """The interval of *call*."""
    call: Call | None = None
    asked: Asked | None = None
    """The calls that caused its nodes; None if lines are not requested."""


def recorded(path: str, model: str, begin_ns: int | None, asked: Asked | None = None) -> Recording:
    """Return the profile in the file *path*. Raises BackendError."""
    if begin_ns is not None and not _SINCE_1970 < begin_ns <= time_ns():
        raise BackendError(
            f"ONNX Runtime's profile of {model} begins at {begin_ns} ns by a clock that is not the system's time, as it"
            " is on Linux: opprof cannot tell what ran in which round here"
        )
    try:
        return Recording(Path(path).read_bytes(), model, begin_ns, asked=asked)
    except OSError as error:
        raise BackendError(f"ONNX Runtime's profile of {model} cannot be read: {error}") from None


class _Node(NamedTuple):
    """The facts shared by executions of nodes with the same arguments."""

    name: int
    nbytes: int
    flops: int | None
    is_timed: bool
    """Whether the time of its event is that of its work, not only that of launching it."""


class Recordings:
    """Adds the events of recordings to a log."""

    def __init__(self, log: EventLog, marks: Sequence[int], moments: bool = False) -> None:
        """*marks* are the times of the marks, in ns since 1970; *moments*: also record when nodes ran."""
        self.providers: set[str] = set()
        """The providers of the nodes."""
        self._log = log
        self._marks = marks
        self._moments = moments
        self._nodes: dict[tuple[object, ...], _Node] = {}

    def add(self, recording: Recording) -> None:
        """Add the nodes of a recording; 3 us each. Raises BackendError if it is incomplete."""
        events = _decoded(recording)
        if len(events) >= MOST_EVENTS:
            raise BackendError(
                f"ONNX Runtime stopped recording {recording.model} at {MOST_EVENTS:,} events (a node has one, up to"
                " 1.2x three): measure fewer runs in one window, or fewer rounds"
            )
        loaded = min((event.ts for event in events if is_run(event)), default=inf)
        by_thread: dict[int, list[tuple[str, Event]]] = {}
        for event in events:
            name = node_of(event)
            if name is not None and event.ts >= loaded:
                by_thread.setdefault(event.tid, []).append((name, event))
        for nodes in by_thread.values():
            self._add(recording, nodes)

    def _add(self, recording: Recording, nodes: list[tuple[str, Event]]) -> None:
        """Add the nodes of one thread. Nodes inside a Loop are ops of their own; the Loop has the rest of the time."""
        nodes.sort(key=lambda node: (node[1].ts, -node[1].dur, node[1].args.op_name not in WITH_BODIES))
        for (name, event), own in zip(nodes, _self_us([event for _, event in nodes])):
            at_ns = None if recording.begin_ns is None else recording.begin_ns + round(event.ts * 1000)
            interval = recording.interval if at_ns is None else bisect_right(self._marks, at_ns)
            if not interval:
                continue  # before the window: of a session that the program profiles itself
            node = self._node(name, event.args)
            ns = round(own * 1000) if node.is_timed else ABSENT
            index = self._log.add(node.name, ns, interval=interval, nbytes=node.nbytes)
            if node.flops is not None:
                self._log.computed(index, node.flops)
            if self._moments and at_ns is not None:
                self._log.ran(index, at_ns, at_ns + round(event.dur * 1000), f"thread {event.tid}")
            if (asked := recording.asked) and self._log.chains is not None:
                called = recording.call
                caller = called.site if called else asked.caller(at_ns or 0, event.tid)
                if caller is not None:
                    self._log.asked_at(index, asked.site(self._log.chains, name, caller))

    def _node(self, name: str, given: Arguments) -> _Node:
        raw = INSERTED_CAST if given.op_name == "Cast" and name.startswith(f"{INSERTED_CAST}_") else given.op_name
        inputs, outputs = bytes(given.input_type_shape), bytes(given.output_type_shape)
        key = (raw, given.provider, inputs, outputs, given.activation_size, given.parameter_size, given.output_size)
        if key not in self._nodes:
            self.providers.add(given.provider)
            found = work(given.op_name, Tensors(*described(inputs)), Tensors(*described(outputs)), nbytes(given))
            self._nodes[key] = _Node(
                self._log.name(raw, signature=found.signature),
                ABSENT if found.nbytes is None else found.nbytes,
                found.flops,
                given.provider not in ASYNCHRONOUS,
            )
        return self._nodes[key]


def _self_us(events: Sequence[Event]) -> list[float]:
    """Return the time of each node without the nodes that it ran. The events are those of one thread, in order.

    An event that begins while a node runs others is inside it; it may seem to end later, since times are cut to whole
    us.
    """
    own: list[float] = []
    around: list[tuple[float, int]] = []  # the end and the index of each node that runs others
    for event in events:
        while around and event.ts >= around[-1][0]:
            around.pop()
        if around:
            index = around[-1][1]
            own[index] = max(own[index] - event.dur, 0)
        if event.args.op_name in WITH_BODIES:
            around.append((event.ts + event.dur, len(own)))
        own.append(event.dur)
    return own


def _decoded(recording: Recording) -> list[Event]:
    import msgspec

    from ..events_json import Event

    try:
        return msgspec.json.decode(recording.content, type=list[Event])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BackendError(
            f"ONNX Runtime's profile of {recording.model} cannot be read ({error}). Was there no room for it in the"
            ' folder for temporary files? 1.20 to 1.24 break it where the name of a node has a " or a \\'
        ) from None


def fill(log: EventLog, recordings: Iterable[Recording], marks: Sequence[int], moments: bool = False) -> set[str]:
    """Add all *recordings* to *log*; return the providers of their nodes. Raises BackendError."""
    log.marked_ns = marks
    reader = Recordings(log, marks, moments)
    for recording in recordings:
        reader.add(recording)
    return reader.providers
