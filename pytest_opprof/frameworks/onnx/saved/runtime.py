"""ONNX Runtime's profile: the JSON file of `SessionOptions.enable_profiling` (`events`).

Each call of ``run`` is a step. If a provider only launches kernels, the time of a node is host time, and that of its
kernels is device time. The self time of If, Loop and Scan is without the nodes in their bodies. The nodes depend on the
graph optimisation level; neither that nor the version is in the file. Seen: 1.31.1, CPU. Kernels follow ONNX Runtime's
source and documentation, untested.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.events.nesting import self_times
from ....profile.saved import OUTSIDE, UNLINKED, SavedKernel, SavedOp, SavedProfile
from ...files.chrome_events import head, read_events
from ...files.durations import Untimed
from ...files.format import Format, Options
from ...files.mapped import content
from ...files.place import Place
from .. import events as onnxruntime_events
from ..events import ASYNCHRONOUS, MOST_EVENTS, RUN, described, is_run, nbytes, node_of, size
from ..stack_traces import Line, stack_traces
from .model import site_of

if TYPE_CHECKING:
    from ....timeline.spans import Timeline

TITLE = "ONNX Runtime profile"
_SESSION = frozenset(["session_initialization", RUN, "SequentialExecutor::Execute"])
# With more node events, all calls of ``run`` are one step: a record takes 0.5 KB.
_MOST_STEPPED = 200_000


def recognises(place: Place) -> bool:
    """Return True if the file is an array with events of a session, or of nodes with a provider."""
    begin = head(place)
    return begin is not None and begin.bare and any(map(_is_ours, begin.events))


def _is_ours(event: dict[str, Any]) -> bool:
    args = event.get("args")
    if event.get("cat") == "Session":
        name = event.get("name")
        return isinstance(name, str) and (name in _SESSION or name.startswith("model_loading"))
    return event.get("cat") == "Node" and isinstance(args, dict) and {"op_name", "provider"} <= args.keys()


def read(place: Place, options: Options) -> SavedProfile:
    """Return the nodes. Takes 250 bytes a node event and the memory of the records. Raises TraceError."""
    remarks: list[str] = []
    events = _collected(place, options.partial, remarks)
    try:
        own = self_times(events.threads, events.starts, events.durations)
    except (OverflowError, ValueError) as error:
        raise _no_time(place, error) from None
    if not events.nodes:
        raise TraceError(
            f"{place}: has no nodes; expected events of cat Node named ..._kernel_time. Was the session run before"
            " end_profiling()?"
        )
    remarks += _remarks(events)
    steps = _Steps(events)
    return SavedProfile(
        source=TITLE,
        environment=Environment(
            (("onnxruntime", ""),), onnxruntime_events.device(node.provider for node in events.nodes), ""
        ),
        records=tuple(_records(events, own, steps, _traces(options))),
        steps=steps.labels,
        step_ns=steps.times,
        kernels=tuple(_kernels(events, steps)) if events.kernels else None,
        peak_memory=events.peak or None,
        remarks=tuple(remarks),
    )


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline of the nodes, and of the calls of ``run`` around them. Raises TraceError."""
    from ....timeline.spans import Kind, Lane, Timeline

    events = _collected(place, options.partial, [])
    nodes = [(node.name, node.provider in ASYNCHRONOUS) for node in events.nodes]
    found = Timeline()
    try:
        for which, thread, start, duration in zip(events.which, events.threads, events.starts, events.durations):
            name, asynchronous = nodes[which]
            found.add(Lane("host", f"thread {thread}", not asynchronous), name, Kind.OP, start, duration)
        for start, name, _, duration, _ in events.kernels:
            found.add(Lane("device", "kernels", True), name, Kind.OP, start, duration)
        for number, run in enumerate(sorted(events.runs), 1):
            found.add(Lane("host", f"thread {run.thread}"), str(number), Kind.STEP, run.start, run.duration)
    except OverflowError as error:
        raise _no_time(place, error) from None
    return found


class _Node(NamedTuple):
    """A node with one signature: executions that agree in all fields are one record."""

    name: str
    type: str
    provider: str
    number: str
    inputs: bytes
    outputs: bytes
    memory: int | None


class _Run(NamedTuple):
    start: int
    duration: int
    thread: int


@dataclass
class _Events:
    """The executions of nodes, in columns, and the calls of ``run``."""

    nodes: dict[_Node, int] = field(default_factory=dict)
    which: array[int] = field(default_factory=lambda: array("q"))
    threads: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    durations: array[int] = field(default_factory=lambda: array("q"))
    runs: list[_Run] = field(default_factory=list)
    kernels: list[tuple[int, str, str, int, int]] = field(default_factory=list)
    """Start, name, op, ns, and the index of the node event it belongs to (-1: none)."""
    peak: int = 0
    total: int = 0


def _collected(place: Place, partial: bool, remarks: list[str]) -> _Events:
    events = _Events()
    try:
        _collect(place, events, partial, remarks)
    except (OverflowError, ValueError) as error:
        raise _no_time(place, error) from None
    return events


def _no_time(place: Place, error: Exception) -> TraceError:
    return TraceError(f"{place}: has a time that is not a number of us ({error}); record it again")


def _collect(place: Place, events: _Events, partial: bool, remarks: list[str]) -> None:
    from ..events_json import Event

    untimed = Untimed(partial)
    for piece in read_events(place, Event, None, partial, remarks):
        events.total += len(piece)
        for event in piece:
            args = event.args
            if untimed.lacks(place, event, event.cat in ("Node", "Kernel") or event.name == "model_run"):
                continue
            start, duration = round(event.ts * 1000), round(event.dur * 1000)
            if duration < 0:
                raise TraceError(f"{place}: {event.name!r} at {event.ts} us takes {event.dur} us; record it again")
            if (name := node_of(event)) is not None:
                node = _Node(
                    name,
                    args.op_name,
                    args.provider,
                    str(args.node_index),
                    bytes(args.input_type_shape),
                    bytes(args.output_type_shape),
                    nbytes(args),
                )
                events.which.append(events.nodes.setdefault(node, len(events.nodes)))
                events.threads.append(event.tid)
                events.starts.append(start)
                events.durations.append(duration)
                events.peak = max(events.peak, size(args.mem_in_use_peak) or 0)
            elif is_run(event):
                events.runs.append(_Run(start, duration, event.tid))
            elif event.cat == "Kernel":
                events.kernels.append((start, event.name, args.op_name, duration, len(events.which) - 1))
    remarks += untimed.remarks()


class _Steps:
    """The steps: which call of ``run`` each node event belongs to."""

    def __init__(self, events: _Events) -> None:
        self._runs = sorted(events.runs) if len(events.which) <= _MOST_STEPPED else []
        self._starts = [run.start for run in self._runs]
        self._by_thread: defaultdict[int, list[int]] = defaultdict(list)
        for number, run in enumerate(self._runs):
            self._by_thread[run.thread].append(number)
        self.labels: tuple[str, ...] = tuple(str(number + 1) for number in range(len(self._runs))) or ("",)
        self.times = tuple(float(run.duration) for run in self._runs) or None
        self.of = [self._step(start, thread) for start, thread in zip(events.starts, events.threads)]
        if self._runs and len(self._runs) in self.of:
            self.labels = (*self.labels, OUTSIDE)

    def _step(self, start: int, thread: int) -> int:
        """Return the call of ``run`` around a node event; the number of calls if there is none.

        A thread that calls ``run`` has its own calls; the node of a thread of a pool may belong to any call.
        """
        if not self._runs:
            return 0
        candidates = self._by_thread.get(thread) or range(len(self._runs))
        place = bisect_right(candidates, start, key=self._starts.__getitem__) - 1
        if place >= 0 and start <= self._starts[candidates[place]] + self._runs[candidates[place]].duration:
            return candidates[place]
        return len(self._runs)


def _traces(options: Options) -> Mapping[str, tuple[Line, ...]]:
    """Return the lines of the nodes of the model. Raises TraceError for a model without them."""
    if options.model is None or not options.sites:
        return {}
    with content(Place(options.model)) as data:
        traces = stack_traces(data)
    if not traces:
        raise TraceError(
            f"{options.model}: does not tell which lines its nodes come from: it is no ONNX model, or not one of"
            " torch.onnx.export(..., dynamo=True), which tell"
        )
    return traces


def _records(
    events: _Events, own: array[int], steps: _Steps, traces: Mapping[str, tuple[Line, ...]]
) -> Iterator[SavedOp]:
    """Yield a record for each node in each step, in the order of the file."""
    of_kernels: defaultdict[int, int] = defaultdict(int)
    for *_, duration, event in events.kernels:
        of_kernels[event] += duration
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for event, key in enumerate(zip(events.which, steps.of)):
        groups[key].append(event)
    nodes = [(node, _record(node)._replace(site=site_of(traces, node.name))) for node in events.nodes]
    for (which, step), members in groups.items():
        node, record = nodes[which]
        taken = [own[event] for event in members]
        record = record._replace(
            step=step, calls=len(taken), memory=None if node.memory is None else node.memory * len(taken)
        )
        if node.provider not in ASYNCHRONOUS:
            yield record._replace(device_ns=sum(taken), least_ns=min(taken), most_ns=max(taken))
        else:
            record = record._replace(host_ns=sum(taken), host_least_ns=min(taken), host_most_ns=max(taken))
            if events.kernels:
                taken = [of_kernels.get(event, 0) for event in members]
                record = record._replace(device_ns=sum(taken), least_ns=min(taken), most_ns=max(taken))
            yield record


def _record(node: _Node) -> SavedOp:
    input_dtypes, input_shapes = described(node.inputs)
    output_dtypes, output_shapes = described(node.outputs)
    return SavedOp(
        node.name,
        node.type,
        node.number,
        input_shapes=input_shapes,
        output_shapes=output_shapes,
        input_dtypes=input_dtypes,
        output_dtypes=output_dtypes,
        place=node.provider,
    )


def _kernels(events: _Events, steps: _Steps) -> Iterator[SavedKernel]:
    launches: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    for _, name, op, duration, event in events.kernels:
        launches[name, op or UNLINKED, steps.of[event] if event >= 0 else 0].append(duration)
    for (name, op, step), taken in launches.items():
        yield SavedKernel(name, op, step, len(taken), sum(taken))


def _remarks(events: _Events) -> Iterator[str]:
    if events.total >= MOST_EVENTS:
        yield f"{events.total} events: ONNX Runtime stops recording at {MOST_EVENTS}; later ones are not in the file"
    if len(events.which) > _MOST_STEPPED and len(events.runs) > 1:
        yield f"{len(events.runs)} calls of run() are shown as one step: more than {_MOST_STEPPED} events of nodes"


FORMAT = Format(TITLE, recognises, read, timeline=timeline, takes_model=True)
