"""JAX's profiler trace: the ``*.trace.json.gz`` that `jax.profiler.stop_trace` writes beside ``*.xplane.pb``, and
``perfetto_trace.json.gz``, which is the same without the key ``metadata``.

Chrome trace events; times are us with fractions, exact to the ps:

- an op: ``args`` with ``hlo_op`` (an instruction of the optimised program: ``convert_convert_fusion.3``),
  ``hlo_module`` and ``run_id`` (one execution of the module). On the CPU its name is the instruction again, on a GPU
  that of a kernel. TensorFlow gives all executions the number 2**64 - 1: then each op is taken for an execution;
- a step (`StepTraceAnnotation`): ``args`` with ``step_num``;
- ``PjitFunction(f)``: Python calls the function of the module ``jit_f``. The execution may come long after the end of
  the step with the call, so the nth execution belongs to the nth call, if there are as many of both. (Executions that
  began before the first call are not counted: they are outside of every step);
- ``ph`` M, ``process_name``: ``/host:CPU``, ``/device:GPU:0``. All other events are left out.

The type of an op is its name without numbers. For an unfused instruction that is its opcode or JAX's name for it
(``dot_general``, ``wrapped_convert``); for a fusion it names some of the ops inside. Casts are therefore better counted
in the program's text (`hlo`, `stablehlo`). Pieces of an op that run at the same time are one call; each iteration of a
loop is a call. The self time of a loop is without its body; a loop is no op. The versions are not in the file.
Seen: jax 0.10.2, CPU.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.events.nesting import self_times
from ....profile.saved import OUTSIDE, SavedKernel, SavedOp, SavedProfile
from ....units import plural
from ...files.chrome_events import head, read_events
from ...files.durations import Untimed
from ...files.format import Format, Options
from ...files.place import Place
from ..opcodes import plain_name
from .events import DEVICE, KERNEL, Events, Op, Span

if TYPE_CHECKING:
    from ....timeline.spans import Timeline

TITLE = "JAX / XLA profiler trace"
_CONTROL = frozenset(
    """while conditional cond call While If Case StatelessWhile StatelessIf StatelessCase PartitionedCall
    StatefulPartitionedCall XlaLaunch _XlaRun""".split()
)
# With more op events, all steps are shown as one: a record takes 0.5 KB.
_MOST_STEPPED = 200_000


def recognises(place: Place) -> bool:
    """Return True if the header is that of XLA's profiler, or the first process has one of XLA's names."""
    begin = head(place)
    if begin is None or begin.bare:
        return False
    metadata = begin.header.get("metadata")
    return (isinstance(metadata, dict) and "highres-ticks" in metadata) or any(map(_names_a_plane, begin.events[:1]))


def repeats(place: Place) -> bool:
    """Return True if the ``.xplane.pb`` of the same recording is beside the file; it is read instead."""
    name, folder = place.path.name, place.path.parent
    if name == "perfetto_trace.json.gz":
        return any(folder.glob("*.xplane.pb"))
    return (folder / f"{name.removesuffix('.gz').removesuffix('.trace.json')}.xplane.pb").exists()


def _names_a_plane(event: dict[str, Any]) -> bool:
    args = event.get("args")
    name = args.get("name") if isinstance(args, dict) else None
    return event.get("name") == "process_name" and isinstance(name, str) and name.startswith(("/host:", "/device:"))


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. Takes 250 bytes an op event and the memory of the records. Raises TraceError."""
    remarks: list[str] = []
    events = _collected(place, options, remarks)
    return op_trace(place, TITLE, events, remarks)


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline. Raises TraceError."""
    return timeline_of(_collected(place, options, []))


def _collected(place: Place, options: Options, remarks: list[str]) -> Events:
    from ...files.chrome_event_types import JaxEvent

    events = Events()
    untimed = Untimed(options.partial)
    try:
        for piece in read_events(place, JaxEvent, None, options.partial, remarks):
            for event in piece:
                args = event.args
                if event.ph == "M":
                    if event.name == "process_name":
                        events.processes[event.pid] = args.name
                    continue
                if untimed.lacks(place, event, args.hlo_op or args.step_num != ""):
                    continue
                start, duration = round(event.ts * 1000), round(event.dur * 1000)
                if duration < 0:
                    raise TraceError(f"{place}: {event.name!r} at {event.ts} us takes {event.dur} us; record it again")
                if args.hlo_op:
                    op = Op(args.hlo_op, args.hlo_module, event.pid)
                    events.ran(op, event.name, str(args.run_id), (event.pid, event.tid), start, duration)
                else:
                    events.noted(event.name, str(args.step_num), start, duration)
    except (OverflowError, ValueError) as error:
        raise TraceError(f"{place}: has a time that is not a number of us ({error}); record it again") from None
    remarks += untimed.remarks()
    return events


def op_trace(place: Place, source: str, events: Events, remarks: Iterable[str]) -> SavedProfile:
    """Return the profile of *events*. Raises TraceError without ops."""
    events = events.without_launches()
    if not events.ops:
        raise TraceError(
            f"{place}: has no XLA ops (events with args.hlo_op). Was something run between start_trace and stop_trace,"
            " and waited for (jax.block_until_ready)?"
        )
    steps = _Steps(events)
    return SavedProfile(
        source=source,
        environment=Environment(((_framework(events), ""),), _device(events), ""),
        records=tuple(_records(events, steps)),
        steps=steps.labels,
        step_ns=steps.times,
        kernels=tuple(_kernels(events, steps)) or None,
        inferred_types=not all(op.type or op.known.opcode for op in events.ops),
        remarks=(*remarks, *_host(events), *steps.remarks, *_fusions(events)),
    )


def timeline_of(events: Events) -> Timeline:
    """Return the timeline of *events*: ops, steps, and calls from Python."""
    from ....timeline.spans import Kind, Lane, Timeline

    found = Timeline()
    events = events.without_launches()
    accelerated = any(name.startswith(DEVICE) for name in events.processes.values())

    def lane(process: int, thread: int) -> Lane:
        name = events.processes.get(process) or f"process {process}"
        return Lane(name, f"thread {thread}", name.startswith(DEVICE) or not accelerated)

    lanes = [lane(*thread) for thread in events.thread_numbers]
    names = list(events.names)
    for thread, name, start, duration in zip(events.threads, events.called, events.starts, events.durations):
        found.add(lanes[thread], names[name], Kind.OP, start, duration)
    host = Lane("/host:CPU", "python")
    for step in events.steps:
        found.add(host, step.label, Kind.STEP, step.start, step.duration)
    for module, calls in events.calls.items():
        for call in _outermost(calls):
            found.add(host, module, Kind.CALL, call.start, call.duration)
    return found


class _Steps:
    """The steps: which of them called for each execution of a module."""

    def __init__(self, events: Events) -> None:
        self._spans = sorted(events.steps) if len(events.which) <= _MOST_STEPPED else []
        self._starts = [span.start for span in self._spans]
        self.labels = tuple(span.label for span in self._spans) or ("",)
        self.times = tuple(float(span.duration) for span in self._spans) or None
        self.remarks: list[str] = []
        if len(events.steps) > len(self._spans):
            self.remarks.append(f"{len(events.steps)} steps are shown as one: more than {_MOST_STEPPED} events of ops")
        self.of = self._of_runs(events)
        if len(self._spans) in self.of and self._spans:
            self.labels = (*self.labels, OUTSIDE)

    def _of_runs(self, events: Events) -> list[int]:
        if not self._spans:
            return [0] * len(events.runs)
        begins = [0] * len(events.runs)
        for run, start in zip(reversed(events.run), reversed(events.starts)):
            begins[run] = start
        of = [self._began(start) for start in begins]
        by_module: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for (module, number), run in events.runs.items():
            by_module[module.rstrip("_")].append(
                (int(number) if re.fullmatch(r"-?\d{1,18}", number) else begins[run], run)
            )
        guessed = 0
        for module, runs in by_module.items():
            calls = _outermost(events.calls.get(module, []))
            before = [run for _, run in runs if calls and begins[run] < calls[0].start]
            if len(runs) == len(calls) + len(before):
                # They were called before the recording.
                of = [len(self._spans) if run in before else step for run, step in enumerate(of)]
                runs = [each for each in runs if each[1] not in before]
            if len(calls) == len(runs):
                for (_, run), call in zip(sorted(runs), calls):
                    of[run] = self._inside(call.start)
            else:
                guessed += len(runs)
        if guessed:
            of_kernels = any(number.startswith(KERNEL) for _, number in events.runs)
            self.remarks.append(
                f"{guessed} {'kernels' if of_kernels else 'executions'} are not linked to the call from Python: each"
                " counts in the last step that began before it"
            )
        return of

    def _began(self, time: int) -> int:
        number = bisect_right(self._starts, time) - 1
        return number if number >= 0 else len(self._spans)

    def _inside(self, time: int) -> int:
        number = self._began(time)
        inside = number < len(self._spans) and time <= self._spans[number].start + self._spans[number].duration
        return number if inside else len(self._spans)


def _outermost(spans: list[Span]) -> list[Span]:
    """Return the spans that are not inside others: a call is recorded in Python, and again in the runtime."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.duration)):
        if not found or span.start >= found[-1].start + found[-1].duration:
            found.append(span)
    return found


def _records(events: Events, steps: _Steps) -> Iterator[SavedOp]:
    own = self_times(events.threads, events.starts, events.durations)
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for event, (which, run) in enumerate(zip(events.which, events.run)):
        groups[which, steps.of[run]].append(event)
    ops = list(events.ops)
    places = [events.processes.get(op.process, "") for op in ops]
    by_host = {(op.name, op.type) for op, place in zip(ops, places) if op.type and not place.startswith(DEVICE)}
    accelerated = bool(events.left_out) or any(place.startswith(DEVICE) for place in places)
    for (which, step), members in groups.items():
        op, place = ops[which], places[which]
        taken = [own[event] for event in members]
        calls = len({events.run[event] for event in members}) if op.type else _calls(events, members)
        type_ = op.type or op.known.opcode or _type(op.name)
        on_device = place.startswith(DEVICE)
        # The host counts exactly how often it called an op of TensorFlow; a device only has the kernels.
        is_part = on_device and op.type != "" and (op.name, op.type) in by_host
        is_op = op.known.counts and not is_part and type_ not in _CONTROL and not type_.startswith("__inference_")
        known = op.known
        record = SavedOp(
            op.name,
            type_,
            op.module,
            step,
            calls,
            computation=None if known.flops is None else known.flops * calls,
            memory=None if known.nbytes is None else known.nbytes * calls,
            input_shapes=known.inputs.shapes,
            output_shapes=known.outputs.shapes,
            input_dtypes=known.inputs.dtypes,
            output_dtypes=known.outputs.dtypes,
            place=place,
            counted=None if is_op else 0,
        )
        extremes = (min(taken), max(taken)) if calls == len(taken) else (None, None)
        if op.type and accelerated and not on_device:
            yield record._replace(host_ns=sum(taken), host_least_ns=extremes[0], host_most_ns=extremes[1])
        else:
            yield record._replace(device_ns=sum(taken), least_ns=extremes[0], most_ns=extremes[1])


def _type(name: str) -> str:
    """Return the instruction's name without numbers; ``wrapped_x`` is a fusion of one x."""
    return plain_name(name).removeprefix("wrapped_")


def _calls(events: Events, members: list[int]) -> int:
    """Return how often an op ran. Pieces that ran at the same time are one call, and so are different kernels.

    One call may launch a kernel twice (two fills before an attention), so the kernel that ran least often counts.
    """
    runs = events.numbered
    by_run: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for event in members:
        run = events.run[event]
        by_run[run if runs[run] else -1][events.called[event]].append(event)
    return sum(min(_apart(events, pieces) for pieces in names.values()) for names in by_run.values())


def _apart(events: Events, pieces: list[int]) -> int:
    count, until = 0, None
    for event in sorted(pieces, key=events.starts.__getitem__):
        start, end = events.starts[event], events.starts[event] + events.durations[event]
        if until is None or start >= until:
            count += 1
        until = end if until is None else max(until, end)
    return count


def _kernels(events: Events, steps: _Steps) -> Iterator[SavedKernel]:
    """Yield the kernels: events of an accelerator with another name than their instruction."""
    ops, names = list(events.ops), list(events.names)
    groups: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for which, called, run, duration in zip(events.which, events.called, events.run, events.durations):
        if names[called] != ops[which].name:
            groups[called, which, steps.of[run]].append(duration)
    for (called, which, step), taken in groups.items():
        place = events.processes.get(ops[which].process, "")
        yield SavedKernel(names[called], ops[which].name, step, len(taken), sum(taken), place)


def _host(events: Events) -> Iterator[str]:
    if events.on_host:
        yield f"{plural(events.on_host, 'instruction')} that the host ran itself: left out, as a device ran the others"


def _fusions(events: Events) -> Iterator[str]:
    fusions = sum("fusion" in op.name for op in events.ops if not op.type and not op.known.opcode)
    if fusions:
        yield f"{fusions} of {len(events.ops)} ops are fusions: the ops inside are in the program's HLO text, not here"


def _framework(events: Events) -> str:
    if any(op.type for op in events.ops):
        return "tensorflow"
    return "jax" if events.calls else "xla"


def _device(events: Events) -> str:
    """Return ``cpu``, or ``gpu`` of ``/device:GPU:0``."""
    names = {events.processes.get(op.process, "") for op in events.ops}
    return "+".join(sorted({name.split(":")[1].lower() for name in names if name.count(":") == 2})) or "cpu"


FORMAT = Format(TITLE, recognises, read, timeline=timeline, repeats=repeats)
